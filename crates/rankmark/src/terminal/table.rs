//! Rows of the live table: one case a row, one heading for each kind of case.

use record::{CaseLine, Caveat};
use serde_json::Value;
use terms::{Bytes, Dtype, Seconds, Status};

use super::text::{share, significant, wrap};

/// Remarks below a row begin here, under the first column's end.
const INDENT: usize = 11;

/// One column of a table.
struct Column {
    title: &'static str,
    unit: &'static str,
    width: usize,
    /// Where the terminal lacks room the column with the highest number goes first; 0 always stays. One with a number
    /// also goes where it would be empty.
    expendable: u8,
    /// Words around the cell with which it stands in the heading instead, where all rows have the same.
    lifted: Option<[&'static str; 2]>,
    cell: fn(&CaseLine) -> String,
}

/// A column that always stands.
const fn column(title: &'static str, width: usize, cell: fn(&CaseLine) -> String) -> Column {
    Column { title, unit: "", width, expendable: 0, lifted: None, cell }
}

impl Column {
    const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    const fn expendable(self, order: u8) -> Self {
        Self { expendable: order, ..self }
    }

    const fn lifted(self, before: &'static str, after: &'static str) -> Self {
        Self { lifted: Some([before, after]), ..self }
    }
}

const OPERATIONS: &[Column] = &[
    column("bytes", 9, bytes),
    column("count", 11, count).unit("elements").expendable(2),
    column("type", 5, |line| line.dtype.clone().unwrap_or_else(|| "-".into())).lifted("", ""),
    column("op", 5, |line| parameter(line, "reduce")).lifted("", ""),
    column("ranks", 5, |line| line.ranks.to_string()),
    column("time", 9, time),
    column("±95%", 6, interval),
    column("algbw", 7, |line| metric(line, "algbw_gbs")).unit("GB/s").expendable(1),
    column("busbw", 7, |line| metric(line, "busbw_gbs")).unit("GB/s"),
    column("limit", 6, limit),
    column("wrong", 5, wrong),
];

const TRAINING: &[Column] = &[
    column("ranks", 5, |line| line.ranks.to_string()),
    column("mesh", 6, |line| parameter(line, "mesh")).expendable(2),
    column("batch", 5, |line| value(line, "batch")).lifted("batch ", ""),
    column("overlap", 7, overlap).lifted("overlap ", ""),
    column("step", 9, time),
    column("±95%", 6, interval),
    column("samples/s", 9, |line| metric(line, "samples_per_s")).expendable(3),
    column("tokens/s", 9, |line| metric(line, "tokens_per_s")).expendable(1),
    column("MFU", 5, |line| inner(line, &["mfu", "headline"]).map_or("-".into(), share)).expendable(1),
    column("scaling", 7, |line| scaling(line, "kind")).lifted("", " scaling"),
    column("efficiency", 20, efficiency).expendable(1),
    column("overlapped", 10, |line| inner(line, &["hidden", "share"]).map_or("-".into(), share)).expendable(4),
    column("wrong", 5, wrong),
];

const MEMORY: &[Column] = &[
    column("ranks", 5, |line| line.ranks.to_string()),
    column("batch", 5, |line| value(line, "batch")),
    column("parameters", 10, |line| predicted(line, &["parameters"])).expendable(4),
    column("gradients", 9, |line| predicted(line, &["gradients"])).expendable(5),
    column("optimizer", 9, |line| predicted(line, &["optimizer"])).expendable(6),
    column("activations", 11, |line| predicted(line, &["activations"])).expendable(3),
    column("buffers", 9, |line| predicted(line, &["communication", "groups"])).expendable(7),
    column("rest", 9, |line| predicted(line, &["input", "read_ahead", "scalars", "scratch"])).expendable(8),
    column("predicted", 9, |line| predicted(line, &["total"])),
    column("process (measured)", 18, process).expendable(2),
    column("measured", 9, measured),
    column("difference", 10, difference),
    column("wrong", 5, wrong),
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

/// A word of the scaling efficiency: its kind, or what it is called.
fn scaling(line: &CaseLine, name: &str) -> String {
    let about = line.metrics.get("scaling");
    about.and_then(|about| about.get(name)).and_then(Value::as_str).unwrap_or("-").to_owned()
}

/// `94% ± 1% excellent`.
fn efficiency(line: &CaseLine) -> String {
    let Some(about) = line.metrics.get("scaling") else { return "-".into() };
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    let ends = about.get("ci95").and_then(Value::as_array);
    let half = ends.and_then(|ends| Some((number(ends.get(1))? - number(ends.first())?) / 2.0));
    let middle = number(about.get("efficiency")).map_or("-".into(), share);
    let half = half.map_or(String::new(), |half| format!(" ± {}", share(half)));
    format!("{middle}{half} {}", scaling(line, "word").trim_matches('-')).trim_end().to_owned()
}

fn wrong(line: &CaseLine) -> String {
    line.wrong.map_or("-".into(), |wrong| wrong.to_string())
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

/// The lines of one group of rows: heading, titles, units, and a row for each case, in at most `width` columns. Where a
/// row has no room for its remarks, they stand below it.
pub(super) fn group(heading: &str, lines: &[&CaseLine], width: usize) -> Vec<String> {
    let (columns, lifted) = layout(lines, width);
    let heading = if lifted.is_empty() { heading.to_owned() } else { format!("{heading}  {}", lifted.join("  ")) };
    let mut text = vec![String::new()];
    text.extend(folded(&heading, width).into_iter().map(|part| format!("\u{1b}[1m{part}\u{1b}[0m")));
    let over = |word: fn(&Column) -> &'static str| {
        let cells: Vec<String> = columns.iter().map(|column| format!("{:>1$}", word(column), column.width)).collect();
        cells.join("  ").trim_end().to_owned()
    };
    let (titles, units) = (over(|column| column.title), over(|column| column.unit));
    text.push(format!("\u{1b}[2m{titles}\u{1b}[0m"));
    if !units.is_empty() {
        text.push(format!("\u{1b}[2m{units}\u{1b}[0m"));
    }
    for line in lines {
        let rows = row(&columns, line, width);
        let failed = line.status == Status::Failed;
        text.extend(rows.into_iter().map(|row| if failed { format!("\u{1b}[31m{row}\u{1b}[0m") } else { row }));
    }
    text
}

/// The columns that these rows have, and what stands in the heading instead of a column.
fn layout(lines: &[&CaseLine], width: usize) -> (Vec<&'static Column>, Vec<String>) {
    let (mut columns, mut lifted): (Vec<&'static Column>, Vec<String>) = Default::default();
    for column in lines.first().map_or(OPERATIONS, |line| self::columns(line)) {
        let cells = || lines.iter().map(|line| (column.cell)(line)).filter(|cell| cell != "-");
        let first = cells().next();
        match (column.lifted, first) {
            (Some([before, after]), Some(first)) if cells().all(|cell| cell == first) => {
                lifted.push(format!("{before}{first}{after}"));
            }
            (Some(_), None) => {}
            (_, None) if column.expendable > 0 => {}
            _ => columns.push(column),
        }
    }
    let wide = |columns: &[&Column]| columns.iter().map(|column| column.width + 2).sum::<usize>() > width + 2;
    while wide(&columns) {
        let most = columns.iter().map(|column| column.expendable).max().unwrap_or(0);
        match columns.iter().rposition(|column| most > 0 && column.expendable == most) {
            Some(place) => drop(columns.remove(place)),
            None => break,
        }
    }
    (columns, lifted)
}

/// A heading in lines of so many columns, broken between its parts.
fn folded(heading: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in heading.split("  ") {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + part.chars().count() <= width => {
                line.push_str("  ");
                line.push_str(part);
            }
            _ => lines.push(if lines.is_empty() { part.to_owned() } else { format!("  {part}") }),
        }
    }
    lines
}

/// A caveat in the words of a table.
fn words(caveat: Caveat) -> String {
    match caveat {
        Caveat::CiAboveTarget => "CI above target".to_owned(),
        other => other.to_string().replace('_', " "),
    }
}

/// One row, with caveats as words at its end. These stand on a line of their own where the row would be too long.
fn row(columns: &[&Column], line: &CaseLine, width: usize) -> Vec<String> {
    let cells: Vec<String> =
        columns.iter().map(|column| format!("{:>1$}", (column.cell)(line), column.width)).collect();
    let (cells, remarks) = (cells.join("  "), remarks(line));
    if remarks.is_empty() {
        return vec![cells];
    }
    if cells.chars().count() + 2 + remarks.chars().count() <= width {
        return vec![format!("{cells}  {remarks}")];
    }
    let below = wrap(&remarks, width.saturating_sub(INDENT).max(20));
    std::iter::once(cells).chain(below.lines().map(|line| format!("{:INDENT$}{line}", ""))).collect()
}

/// Status, missed gates and caveats.
fn remarks(line: &CaseLine) -> String {
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
    let caveats = line.caveats.iter().map(caveat).collect::<Vec<_>>().join(", ");
    remarks.extend((!caveats.is_empty()).then_some(caveats));
    remarks.join("  ")
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

    fn line(dtype: &str, bytes: u64) -> CaseLine {
        let case = record::plan::from_flags(crate::cli::collective()[0], &[], &[]).unwrap().cases.remove(0);
        let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
        (line.dtype, line.bytes) = (Some(dtype.to_owned()), Some(bytes));
        line
    }

    /// Without colours.
    fn plain(lines: &[CaseLine], width: usize) -> Vec<String> {
        let lines: Vec<&CaseLine> = lines.iter().collect();
        let text = group("collective  all_reduce", &lines, width).join("\n");
        let text = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m"].iter().fold(text, |text, code| text.replace(code, ""));
        text.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn what_is_the_same_in_all_rows_stands_in_the_heading() {
        let same = plain(&[line("f32", 1024), line("f32", 2048)], 100);
        assert_eq!(same[0], "collective  all_reduce  f32  sum");
        assert!(!same[1].contains("type") && !same[1].contains("op"), "{}", same[1]);
        let both = plain(&[line("f32", 1024), line("f64", 1024)], 100);
        assert!(both[0].ends_with("all_reduce  sum") && both[1].contains("type"), "{both:?}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut noisy = line("f32", 1 << 30);
        noisy.caveats = vec![Caveat::Oversubscribed, Caveat::CiAboveTarget, Caveat::WarmUpNotConverged, Caveat::Noisy];
        for width in [60, 80, 100, 160] {
            let text = plain(&[line("f32", 1024), noisy.clone()], width);
            assert!(text.iter().all(|line| line.chars().count() <= width), "{width}: {text:#?}");
            assert!(text.iter().any(|line| line.contains("oversubscribed")), "{width}: {text:#?}");
        }
        let (narrow, wide) = (plain(&[line("f32", 1024)], 60), plain(&[line("f32", 1024)], 160));
        assert!(!narrow[1].contains("count") && wide[1].contains("count"), "{narrow:?} {wide:?}");
        assert!(narrow[1].contains("busbw") && narrow[1].contains("wrong"), "{narrow:?}");
    }
}
