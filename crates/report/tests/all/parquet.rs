//! Parquet, read back by two other implementations: the crate `parquet`, and pandas where it is installed.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use report::{Run, format};
use serde_json::json;

use crate::{data, many, skip, tables};

/// The columns in order, and each row as text by column; what is null is absent.
struct Read {
    names: Vec<String>,
    rows: Vec<HashMap<String, Field>>,
    groups: usize,
}

fn content(run: &Run) -> Vec<u8> {
    format("parquet").unwrap().render(run).unwrap().remove(0).content
}

fn read(run: &Run) -> Read {
    let reader = SerializedFileReader::new(Bytes::from(content(run))).unwrap();
    let names = reader.metadata().file_metadata().schema().get_fields().iter().map(|f| f.name().to_owned()).collect();
    let groups = reader.num_row_groups();
    let row = |row: parquet::record::Row| {
        row.into_columns().into_iter().filter(|(_, field)| *field != Field::Null).collect::<HashMap<_, _>>()
    };
    Read { names, rows: reader.get_row_iter(None).unwrap().map(|read| row(read.unwrap())).collect(), groups }
}

fn csv(run: &Run) -> Vec<Vec<String>> {
    let file = format("csv").unwrap().render(run).unwrap().remove(0);
    tables::read_csv(&String::from_utf8(file.content).unwrap())
}

/// Whether a cell of CSV and one of Parquet hold the same.
fn same(text: &str, field: Option<&Field>) -> bool {
    match field {
        None => text.is_empty(),
        Some(Field::Long(value)) => text.parse() == Ok(*value),
        Some(Field::Double(value)) => text.parse() == Ok(*value),
        Some(Field::Bool(value)) => text.parse() == Ok(*value),
        // CSV disarms formulas; nothing takes a text of Parquet for one.
        Some(Field::Str(value)) => {
            let value = shown(value);
            text == value || text.strip_prefix('\'') == Some(value.as_str())
        }
        Some(other) => panic!("an unexpected type: {other:?}"),
    }
}

/// A text as CSV has it: on one line.
fn shown(text: &str) -> String {
    if text.chars().any(|c| c.is_control() || view::is_invisible(c)) { view::one_line(text) } else { text.to_owned() }
}

#[test]
fn csv_and_parquet_hold_the_same() {
    let mut mixed = many::run(400);
    mixed.cases[3].parameters.insert("seed", json!(u64::MAX));
    mixed.cases[4].metrics.insert("count", json!(1.5));
    for (name, run) in [("study", data::study()), ("hostile", data::hostile()), ("mixed", mixed)] {
        let (csv, parquet) = (csv(&run), read(&run));
        assert_eq!(
            csv[0].iter().map(|name| name.trim_start_matches('\'')).collect::<Vec<_>>(),
            parquet.names.iter().map(|name| shown(name)).collect::<Vec<_>>(),
            "{name}"
        );
        assert_eq!(csv.len() - 1, parquet.rows.len(), "{name}");
        let mut compared = 0;
        for (line, row) in csv[1..].iter().zip(&parquet.rows) {
            for (column, text) in parquet.names.iter().zip(line) {
                assert!(same(text, row.get(column)), "{name}, {column}: `{text}` and {:?}", row.get(column));
                compared += usize::from(row.contains_key(column));
            }
        }
        assert!(compared > 20 * parquet.rows.len() / 2, "{name}: {compared} values");
    }
}

#[test]
fn columns_have_types() {
    let read = read(&data::study());
    let first = &read.rows[0];
    assert!(matches!(first["ranks"], Field::Long(2)), "{:?}", first["ranks"]);
    assert!(matches!(first["time_s.median"], Field::Double(_)));
    assert!(matches!(first["simulated"], Field::Bool(false)));
    assert!(matches!(&first["op"], Field::Str(op) if op == "all_reduce"));
}

#[test]
fn rows_of_large_runs_are_in_groups() {
    let read = read(&many::run(10_500));
    assert_eq!((read.groups, read.rows.len()), (2, 10_500));
    assert_eq!(read.rows[10_499]["id"], Field::Str(format!("{:012x}", 10_499)));
    let none = self::read(&data::run(Vec::new()));
    assert_eq!((none.groups, none.rows.len(), none.names.len()), (0, 0, 0));
}

/// Reads a CSV and a Parquet file, and says how many values are equal, or what differs.
const COMPARE: &str = r"
import sys, pandas
table, text = pandas.read_parquet(sys.argv[1]), pandas.read_csv(sys.argv[2], keep_default_na=False, dtype=str)
assert list(table.columns) == list(text.columns), (list(table.columns), list(text.columns))
equal = 0
for name in table.columns:
    kind = str(table[name].dtype)
    for value, shown in zip(table[name], text[name]):
        if value is None or value != value:
            assert shown == '', (name, shown)
        elif isinstance(value, str):
            assert shown == value, (name, value, shown)
        elif isinstance(value, bool) or kind == 'bool':
            assert shown == str(value).lower(), (name, value, shown)
        else:
            assert float(shown) == float(value), (name, value, shown)
        equal += 1
assert str(table['time_s.median'].dtype) == 'float64', table.dtypes
print('equal', equal)
";

#[test]
#[expect(clippy::disallowed_methods, reason = "a variable chooses the Python")]
fn pandas_reads_both_files_and_finds_them_equal() {
    let python = std::env::var_os("RANKMARK_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let has = Command::new(&python).args(["-c", "import pandas, pyarrow"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        return skip::skip(
            "Parquet and CSV in pandas",
            "pandas or pyarrow is missing (RANKMARK_TEST_PYTHON names a Python)",
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let formats = ["parquet", "csv"].map(|name| format(name).unwrap());
    let written = report::write_formats(&data::study(), folder.path(), &formats).unwrap().files;
    let paths: Vec<&Path> = written.iter().map(std::path::PathBuf::as_path).collect();
    let output = Command::new(&python).args(["-c", COMPARE]).args(paths).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let equal: Option<usize> = said.trim().strip_prefix("equal ").and_then(|number| number.parse().ok());
    assert!(equal.is_some_and(|equal| equal > 200), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
