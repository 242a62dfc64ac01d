//! The table of docs/explanation/launchers.md in small: some of its cells again, under the launchers that are installed here.
//! `cargo xtask launchers` writes all of it.

use std::path::Path;

use crate::launcher_cells::{COMMANDS, Cell, Command, LAUNCHERS, judged};
use crate::namespaces::{Hosts, is_here};
use crate::place::{Ended, Place};
use crate::skip;

const PAGE: &str = "docs/explanation/launchers.md";
/// Rows that are tried here: a result, and a case that cannot run.
const TRIED: [&str; 2] = ["comm", "shm"];

/// The table of the page: titles of columns, and of each row its title and cells, sentences in place of their numbers.
struct Table {
    columns: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

impl Table {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let begin = text.find("<!-- table of launchers").expect("the place of the table");
        let text = &text[begin..text.find("<!-- end of the table of launchers").expect("its end")];
        let cells = |line: &str| -> Vec<String> {
            let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
            inner.split(" | ").map(|cell| cell.trim().to_owned()).collect()
        };
        let mut lines = text.lines().filter(|line| line.starts_with("| "));
        let columns = cells(lines.next().expect("a head")).split_off(1);
        let sentence = |cell: String| match cell.parse::<u32>() {
            Ok(number) => {
                let begin = format!("{number}. ");
                let found = text.lines().find_map(|line| line.strip_prefix(&begin));
                found.unwrap_or_else(|| panic!("{PAGE} has no sentence {number}")).replace("\\|", "|")
            }
            Err(_) => cell,
        };
        let row = |line: &str| {
            let mut all = cells(line);
            let rest = all.split_off(1);
            (all.remove(0), rest.into_iter().map(sentence).collect())
        };
        Self { columns, rows: lines.map(row).collect() }
    }

    /// What a cell says; None where the table has no such column.
    fn cell(&self, row: &str, column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|title| title == column)?;
        let (_, cells) = self.rows.iter().find(|(title, _)| title == row).unwrap_or_else(|| panic!("no row {row}"));
        Some(&cells[at])
    }
}

/// The words of a row for these launcher's processes.
fn words(row: &Command, backend: &str) -> String {
    format!("{} --output-dir r", row.words.replace("BACKEND", backend))
}

/// What the command says now, as the table says it.
fn says(place: &Place, ended: &Ended) -> String {
    let cases = if place.path("r/cases.jsonl").exists() { place.read("r/cases.jsonl") } else { String::new() };
    let code = ended.status.code().unwrap_or(-1).to_string();
    match judged(&code, &format!("{}\n{}", ended.out, ended.err), &cases) {
        Cell::Ok => "ok".to_owned(),
        Cell::Says(sentence) => sentence,
        Cell::Hole(why) => panic!("neither a result nor a sentence: {why}\n{}{}", ended.out, ended.err),
    }
}

#[test]
fn every_command_has_a_row_and_every_column_is_a_launcher() {
    let table = Table::read();
    let titles: Vec<&str> = table.rows.iter().map(|(title, _)| title.as_str()).collect();
    assert_eq!(titles, COMMANDS.each_ref().map(|command| command.title), "`cargo xtask launchers` writes the table");
    let known: Vec<&str> = LAUNCHERS.iter().map(|launcher| launcher.title).collect();
    assert!(table.columns.iter().all(|column| known.contains(&column.as_str())), "{:?}", table.columns);
    for (row, cells) in &table.rows {
        assert_eq!(cells.len(), table.columns.len(), "{row}");
    }
}

#[test]
fn cells_of_the_table_are_what_commands_say_now() {
    let table = Table::read();
    let Some(hosts) = Hosts::new("cells of the table of launchers", 2) else { return };
    for (title, program) in [("mpirun (Open MPI)", "mpirun.openmpi"), ("mpiexec (MPICH)", "mpiexec.mpich")] {
        if !is_here(program) {
            skip::skip(&format!("cells of {title}"), &format!("no {program}"));
            continue;
        }
        for row in COMMANDS.iter().filter(|row| TRIED.contains(&row.name)) {
            let Some(expected) = table.cell(row.title, title) else { panic!("{PAGE} has no column {title}") };
            let place = Place::new();
            let starting = match program {
                "mpiexec.mpich" => hosts.command_of_mpich(&place, 2, &words(row, "mpi")),
                _ => hosts.command(&place, &[1, 1], &words(row, "mpi")),
            };
            // The table has the names of its own hosts.
            let expected = expected.replace("one, two", "h0, h1");
            assert_eq!(says(&place, &starting.run()), expected, "{} under {title}: {PAGE} says otherwise", row.title);
        }
    }
}

#[test]
fn a_cell_of_torchrun_is_what_its_command_says_now() {
    let table = Table::read();
    let Some(torchrun) = crate::external::torchrun() else {
        return skip::skip("a cell of torchrun", "no torchrun on the path, and RANKMARK_TEST_TORCHRUN names none");
    };
    let launcher = LAUNCHERS.iter().find(|launcher| launcher.name == "torchrun").unwrap();
    let row = COMMANDS.iter().find(|row| row.name == "interference").unwrap();
    let Some(expected) = table.cell(row.title, launcher.title) else {
        return skip::skip("a cell of torchrun", "the machine that wrote the table had no torchrun");
    };
    let place = Place::new();
    let python = torchrun.with_file_name("python");
    let backend = launcher.backend.replace("$python", &python.display().to_string());
    let line = format!("{} --no-python --nproc-per-node 2", torchrun.display());
    let ended = place.command_under(&line, &words(row, &backend)).run();
    assert_eq!(says(&place, &ended), expected, "{PAGE} says otherwise");
}
