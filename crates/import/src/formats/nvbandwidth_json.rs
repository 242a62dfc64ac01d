//! The JSON of NVIDIA's nvbandwidth (`-j`), 0.5 to 0.10. Written by its `json_output.cpp`. Values are texts of six
//! digits; sums have all digits.

use serde_json::{Map, Value};
use terms::Error;

use super::gpu_copies::{BadRow, Cells, cell};
use super::nccl::plain;
use super::nvbandwidth::parsed as version_of;
use super::nvbandwidth_tests::{MeasuredBuffers, Testcase, add, without_counterpart};
use crate::json::parsed;
use crate::{Content, Format, Results, Source};

/// The format.
pub(super) struct NvbandwidthJson;

impl Format for NvbandwidthJson {
    fn about(&self) -> (&'static str, &'static str) {
        ("nvbandwidth_json", "nvbandwidth: what it prints with -j")
    }

    fn is_document(&self) -> bool {
        true
    }

    fn marks(&self) -> &'static [&'static str] {
        &["\"nvbandwidth\"", "\"testcases\""]
    }

    fn recognises(&self, source: &Source) -> bool {
        let text = source.text().trim_start();
        text.strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with("\"nvbandwidth\""))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let root: Value = parsed(source)?;
        let root = root.get("nvbandwidth").and_then(Value::as_object);
        let root = root.ok_or_else(|| wrong(source, "nvbandwidth", "an object"))?;
        let testcases = root.get("testcases").and_then(Value::as_array);
        let testcases = testcases.ok_or_else(|| wrong(source, "testcases", "a list"))?;
        let (mut results, buffers) = head(root);
        for (at, testcase) in testcases.iter().enumerate() {
            let place = format!("testcases[{at}]");
            let testcase = testcase.as_object().ok_or_else(|| wrong(source, &place, "an object"))?;
            unread(testcase, KEYS, &mut results);
            read(source, &place, at + 1, testcase, buffers, &mut results)?;
        }
        results.begin_run();
        Ok(Content::Results(vec![results]))
    }
}

const ROOT_KEYS: &[&str] = &[
    "CUDA Runtime Version",
    "Driver Version",
    "GPU Device list",
    "git_version",
    "testcases",
    "version",
    "error",
    "warning",
];
/// Smallest, largest and average follow from the matrix.
const KEYS: &[&str] =
    &["name", "status", "bandwidth_description", "bandwidth_matrix", "sum", "min", "max", "average", "error"];
const STATISTIC: &str =
    "median over GPUs or pairs of the median (with -m, mean) over samples of one copy, as bytes / rate";

fn wrong(source: &Source, place: &str, expected: &str) -> Error {
    Error::new(format!("{}: `{}` of nvbandwidth's JSON is not {expected}", source.name(), plain(place)))
}

fn unread(object: &Map<String, Value>, known: &[&str], results: &mut Results) {
    for key in object.keys().filter(|key| !known.contains(&key.as_str())) {
        results.leave_unread(format!("the key `{}`: this reader does not know it", plain(key)));
    }
}

/// A text, or a number as a text.
fn word(value: &Value) -> String {
    plain(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn head(root: &Map<String, Value>) -> (Results, MeasuredBuffers) {
    let version = root.get("version").map(word).unwrap_or_default();
    let tool = format!("nvbandwidth {}", version.trim_start_matches('v'));
    let mut results = Results::new(tool.trim(), STATISTIC);
    unread(root, ROOT_KEYS, &mut results);
    results.note("line numbers count the entries of `testcases`");
    results.note("nvbandwidth prints rates in 1e9 bytes a second: the time of a copy is its bytes / its rate");
    let told = ["CUDA Runtime Version", "Driver Version", "git_version"].map(|key| (key, root.get(key).map(word)));
    for (key, value) in told.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        results.facts.insert(key.to_owned(), value);
    }
    for device in root.get("GPU Device list").and_then(Value::as_array).into_iter().flatten() {
        let device = word(device);
        // `0: NVIDIA H100 (0000001b:00:00): (node-a)`.
        let host = device.rsplit_once(": (").and_then(|(_, host)| host.strip_suffix(')'));
        if let Some(host) = host.filter(|host| !results.hosts.iter().any(|known| known == host)) {
            results.hosts.push(host.to_owned());
        }
        let (number, name) = device.split_once(": ").unwrap_or(("", &device));
        results.facts.insert(format!("Device {number}"), name.to_owned());
    }
    for key in ["error", "warning"] {
        if let Some(text) = root.get(key) {
            results.note(format!("{key}: {}", word(text)));
        }
    }
    let is_less = root.get("warning").is_some_and(|text| word(text).contains("buffer size that is smaller"));
    let buffers = MeasuredBuffers::new(version_of(&version), None, is_less);
    if let Some(bytes) = buffers.copy {
        results.note(format!(
            "the file does not say how large buffers are: they are read as {} MiB, the default of this version",
            bytes >> 20
        ));
    }
    (results, buffers)
}

fn read(
    source: &Source,
    place: &str,
    line: usize,
    testcase: &Map<String, Value>,
    buffers: MeasuredBuffers,
    results: &mut Results,
) -> Result<(), Error> {
    let text = |key: &str| testcase.get(key).map(word).unwrap_or_default();
    let (name, status) = (text("name"), text("status"));
    if status == "Waived" {
        return Ok(());
    }
    if status != "Passed" {
        results.omit(line, format!("`{name}`: {status} {}", text("error")).trim_end().to_owned());
        return Ok(());
    }
    if let Some(why) = without_counterpart(&name) {
        results.omit(line, format!("`{name}`: {why}"));
        return Ok(());
    }
    let rows = testcase.get("bandwidth_matrix").and_then(Value::as_array);
    let rows = rows.ok_or_else(|| wrong(source, &format!("{place}.bandwidth_matrix"), "a list"))?;
    let sum = testcase.get("sum").and_then(Value::as_f64);
    let sum = sum.ok_or_else(|| wrong(source, &format!("{place}.sum"), "a number"))?;
    let cells = cells(source, place, rows)?;
    // Six digits of each value.
    let rounding = cells.values().map(f64::abs).sum::<f64>() * 1e-5;
    let description = text("bandwidth_description");
    add(results, &Testcase { name, line, description, cells }, buffers, sum, rounding);
    Ok(())
}

fn cells(source: &Source, place: &str, rows: &[Value]) -> Result<Cells, Error> {
    let mut found = Cells::default();
    for row in rows {
        let wrong = || wrong(source, &format!("{place}.bandwidth_matrix"), "a list of lists of equal length");
        let row = row.as_array().ok_or_else(wrong)?;
        let value = |value: &Value| {
            cell(&word(value)).map_err(|bad| match bad {
                BadRow::Comma(why) | BadRow::Mixed(why) | BadRow::Damaged(why) => {
                    Error::new(format!("{}: `{place}.bandwidth_matrix`: {why}", source.name()))
                }
            })
        };
        let row: Vec<f64> = row.iter().map(value).collect::<Result<_, _>>()?;
        if found.rows.is_empty() {
            found.columns = row.len();
        }
        if row.len() != found.columns {
            return Err(wrong());
        }
        found.rows.push(row);
    }
    Ok(found)
}
