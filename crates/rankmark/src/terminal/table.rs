//! Rows of the live table: one case a row, one heading for each kind of case.

use record::{CaseLine, Caveat};
use serde_json::Value;
use terms::{Bytes, Dtype, Seconds, Status};

use super::text::{share, significant};

/// Title, width, and how a cell is made.
struct Column {
    title: &'static str,
    width: usize,
    cell: fn(&CaseLine) -> String,
}

const OPERATIONS: &[Column] = &[
    Column { title: "bytes", width: 9, cell: bytes },
    Column { title: "count", width: 11, cell: count },
    Column { title: "type", width: 5, cell: |line| line.dtype.clone().unwrap_or_else(|| "-".into()) },
    Column { title: "redop", width: 5, cell: |line| parameter(line, "reduce") },
    Column { title: "ranks", width: 5, cell: |line| line.ranks.to_string() },
    Column { title: "time", width: 9, cell: time },
    Column { title: "±95%", width: 6, cell: interval },
    Column { title: "algbw", width: 7, cell: |line| metric(line, "algbw_gbs") },
    Column { title: "busbw", width: 7, cell: |line| metric(line, "busbw_gbs") },
    Column { title: "limit", width: 6, cell: limit },
    Column { title: "wrong", width: 5, cell: |line| line.wrong.map_or("-".into(), |wrong| wrong.to_string()) },
];

const TRAINING: &[Column] = &[
    Column { title: "ranks", width: 5, cell: |line| line.ranks.to_string() },
    Column { title: "mesh", width: 6, cell: |line| parameter(line, "mesh") },
    Column { title: "batch", width: 5, cell: |line| value(line, "batch") },
    Column { title: "overlap", width: 7, cell: overlap },
    Column { title: "step", width: 9, cell: time },
    Column { title: "±95%", width: 6, cell: interval },
    Column { title: "samples/s", width: 9, cell: |line| metric(line, "samples_per_s") },
    Column { title: "tokens/s", width: 9, cell: |line| metric(line, "tokens_per_s") },
    Column { title: "MFU", width: 5, cell: |line| inner(line, &["mfu", "headline"]).map_or("-".into(), share) },
    Column { title: "efficiency", width: 24, cell: efficiency },
    Column { title: "hidden", width: 6, cell: |line| inner(line, &["hidden", "share"]).map_or("-".into(), share) },
    Column { title: "wrong", width: 5, cell: |line| line.wrong.map_or("-".into(), |wrong| wrong.to_string()) },
];

const MEMORY: &[Column] = &[
    Column { title: "ranks", width: 5, cell: |line| line.ranks.to_string() },
    Column { title: "batch", width: 5, cell: |line| value(line, "batch") },
    Column { title: "parameters", width: 10, cell: |line| predicted(line, &["parameters"]) },
    Column { title: "gradients", width: 9, cell: |line| predicted(line, &["gradients"]) },
    Column { title: "optimizer", width: 9, cell: |line| predicted(line, &["optimizer"]) },
    Column { title: "activations", width: 11, cell: |line| predicted(line, &["activations"]) },
    Column { title: "buffers", width: 9, cell: |line| predicted(line, &["communication", "groups"]) },
    Column { title: "rest", width: 9, cell: |line| predicted(line, &["input", "read_ahead", "scalars", "scratch"]) },
    Column { title: "predicted", width: 9, cell: |line| predicted(line, &["total"]) },
    Column { title: "process (measured)", width: 18, cell: process },
    Column { title: "measured", width: 9, cell: measured },
    Column { title: "difference", width: 10, cell: difference },
    Column { title: "wrong", width: 5, cell: |line| line.wrong.map_or("-".into(), |wrong| wrong.to_string()) },
];

/// What is shown of a line, by its benchmark.
fn columns(line: &CaseLine) -> &'static [Column] {
    match line.benchmark.as_str() {
        "training" => TRAINING,
        "memory" => MEMORY,
        _ => OPERATIONS,
    }
}

/// A number inside of a metric.
fn inner(line: &CaseLine, path: &[&str]) -> Option<f64> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(line.metrics.get(*first)?, |value, name| value.get(name))?.as_f64()
}

/// A parameter of any type.
fn value(line: &CaseLine, name: &str) -> String {
    line.parameters.get(name).map_or("-".into(), ToString::to_string)
}

/// `off`, `on`, or `none` where gradients are not exchanged.
fn overlap(line: &CaseLine) -> String {
    let flag = |name: &str| line.parameters.get(name).and_then(Value::as_bool);
    match (flag("communicate"), flag("overlap")) {
        (Some(false), _) => "no comm".into(),
        (_, Some(on)) => if on { "on" } else { "off" }.into(),
        _ => "-".into(),
    }
}

/// `94% ± 1% excellent weak`.
fn efficiency(line: &CaseLine) -> String {
    let Some(about) = line.metrics.get("scaling") else { return "-".into() };
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    let word = |name: &str| about.get(name).and_then(Value::as_str).unwrap_or_default();
    let ends = about.get("ci95").and_then(Value::as_array);
    let half = ends.and_then(|ends| Some((number(ends.get(1))? - number(ends.first())?) / 2.0));
    let middle = number(about.get("efficiency")).map_or("-".into(), share);
    let half = half.map_or(String::new(), |half| format!(" ± {}", share(half)));
    format!("{middle}{half} {} {}", word("word"), word("kind")).replace("  ", " ")
}

fn predicted(line: &CaseLine, names: &[&str]) -> String {
    let bytes = |name: &&str| inner(line, &["memory", "predicted", name]);
    let all: Option<f64> = names.iter().map(bytes).sum();
    all.map_or("-".into(), |bytes| Bytes(bytes as u64).about())
}

fn measured(line: &CaseLine) -> String {
    inner(line, &["memory", "measured", "total"]).map_or("-".into(), |bytes| Bytes(bytes as u64).about())
}

/// What the processes held before the case, which no plan predicts.
fn process(line: &CaseLine) -> String {
    inner(line, &["memory", "measured", "process"]).map_or("-".into(), |bytes| Bytes(bytes as u64).about())
}

fn difference(line: &CaseLine) -> String {
    let signed = |value: f64| format!("{}{}", if value < 0.0 { "" } else { "+" }, share(value));
    inner(line, &["memory", "difference"]).map_or("-".into(), signed)
}

fn parameter(line: &CaseLine, name: &str) -> String {
    line.parameters.get(name).and_then(Value::as_str).unwrap_or("-").to_owned()
}

fn bytes(line: &CaseLine) -> String {
    line.bytes.map_or("-".into(), |bytes| Bytes(bytes).to_string())
}

fn count(line: &CaseLine) -> String {
    let dtype: Option<Dtype> = line.dtype.as_ref().and_then(|name| name.parse().ok());
    line.bytes.zip(dtype).map_or("-".into(), |(bytes, dtype)| (bytes / dtype.bytes()).to_string())
}

fn time(line: &CaseLine) -> String {
    line.time_s.as_ref().map_or("-".into(), |times| Seconds(times.median).to_string())
}

fn limit(line: &CaseLine) -> String {
    line.metric("limit_share").map_or("-".into(), share)
}

fn interval(line: &CaseLine) -> String {
    let half = |times: &record::TimeSummary| Some(stats::relative_half_width(times.ci95?, times.median));
    let times = line.time_s.as_ref().filter(|times| times.median > 0.0);
    times.and_then(half).map_or("-".into(), share)
}

fn metric(line: &CaseLine, name: &str) -> String {
    line.metric(name).map_or("-".into(), significant)
}

/// `pytorch/gloo`, or the backend alone where the runtime is native.
pub(super) fn backend(line: &CaseLine) -> String {
    if line.runtime == "native" { line.backend.clone() } else { format!("{}/{}", line.runtime, line.backend) }
}

/// What a group of rows has in common: its heading. Rows with equal headings stand under one.
pub(super) fn heading(line: &CaseLine) -> String {
    // What stands in a column of its own is no heading.
    const SHOWN: [&str; 8] =
        ["mesh", "batch", "global_batch", "micro_batches", "overlap", "communicate", "limit", "model"];
    let training = line.benchmark == "training" || line.benchmark == "memory";
    let word = |name: &str| line.parameters.get(name).and_then(Value::as_str);
    let mut parts = vec![line.benchmark.clone()];
    parts.extend(word("op").or_else(|| word("model")).map(str::to_owned));
    parts.push(backend(line));
    match line.parameters.get("in_place").and_then(Value::as_bool) {
        Some(true) => parts.push("in place".to_owned()),
        Some(false) => parts.push("out of place".to_owned()),
        None => {}
    }
    parts.extend(word("buffers").map(|kind| format!("{kind} buffers")));
    if line.mode != terms::Mode::Streaming {
        parts.push(line.mode.to_string());
    } else if line.bytes.is_some() {
        // Back to back on the same buffers: what fits into the caches is read from there.
        let cold = word("cache") == Some("cold");
        parts.push(if cold { "cache-cold" } else { "cache-warm" }.to_owned());
    }
    parts.extend(line.pair_hosts.or(line.hosts).map(|hosts| match hosts {
        1 => "within a host".to_owned(),
        hosts => format!("across {hosts} hosts"),
    }));
    for (name, value) in &line.parameters {
        let common = [
            "op", "ranks", "runtime", "backend", "device", "dtype", "reduce", "bytes", "in_place", "buffers", "mode",
            "cache", "seed",
        ];
        let unset = name == "touch" && value == &Value::Bool(false);
        let unset = unset || training && SHOWN.contains(&name.as_str());
        if !common.contains(&name.as_str()) && !unset {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            parts.push(format!("{name}={value}"));
        }
    }
    if line.simulated {
        parts.push("SIMULATED: computed, not measured".to_owned());
    }
    parts.join("  ")
}

/// The titles, with units.
pub(super) fn titles(line: &CaseLine) -> String {
    let titles: Vec<String> =
        columns(line).iter().map(|column| format!("{:>1$}", column.title, column.width)).collect();
    titles.join("  ")
}

/// A caveat in the words of a table.
fn words(caveat: Caveat) -> String {
    match caveat {
        Caveat::CiAboveTarget => "CI above target".to_owned(),
        other => other.to_string().replace('_', " "),
    }
}

/// The units under the titles.
pub(super) fn units(line: &CaseLine) -> String {
    let unit = |column: &Column| match column.title {
        "algbw" | "busbw" => "GB/s",
        "count" => "elements",
        _ => "",
    };
    let units: Vec<String> = columns(line).iter().map(|column| format!("{:>1$}", unit(column), column.width)).collect();
    units.join("  ").trim_end().to_owned()
}

/// One row; with caveats as words at its end, and, for a case that gave no number, why.
pub(super) fn row(line: &CaseLine) -> String {
    let mut cells: Vec<String> =
        columns(line).iter().map(|column| format!("{:>1$}", (column.cell)(line), column.width)).collect();
    let mut remarks: Vec<String> = Vec::new();
    if line.status != Status::Ok {
        remarks.push(line.status.to_string().to_uppercase());
    }
    if !line.gates_missed.is_empty() {
        remarks.push("GATE".to_owned());
    }
    let caveat = |caveat: &Caveat| match (caveat, line.metrics.get("slow_rank").and_then(Value::as_u64)) {
        (Caveat::SlowRank, Some(rank)) => format!("slow rank {rank}"),
        _ => words(*caveat),
    };
    remarks.push(line.caveats.iter().map(caveat).collect::<Vec<_>>().join(", "));
    cells.push(remarks.join("  "));
    cells.join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_say_whether_caches_are_warm() {
        let case = record::plan::from_flags(crate::cli::collective()[0], &[], &[]).unwrap().cases.remove(0);
        let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
        assert!(heading(&line).contains("  cache-warm"), "{}", heading(&line));
        line.parameters.insert("cache".into(), "cold".into());
        assert!(heading(&line).contains("  cache-cold") && !heading(&line).contains("cache="), "{}", heading(&line));
        line.mode = terms::Mode::Isolated;
        assert!(!heading(&line).contains("cache-"), "{}", heading(&line));
    }
}
