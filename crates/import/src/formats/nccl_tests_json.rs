//! The JSON of nccl-tests (`-J FILE`), versions 1 to 3 of its schema, and of rccl-tests (`-Z json`).

use serde_json::{Map, Value};
use terms::Error;

use super::nccl::{Blocking, Half, NcclRun, Printed, REDUCTION, RawLine, fact, of_graph, plain, version_of_code};
use super::nccl_collector::Collector;
use crate::collective::MeasuredBy;
use crate::json::{parsed, parsed_values};
use crate::{Content, Format, Source};

/// The format of nccl-tests.
pub(super) struct NcclTestsJson;

impl Format for NcclTestsJson {
    fn about(&self) -> (&'static str, &'static str) {
        ("nccl_tests_json", "nccl-tests: the file that -J writes")
    }

    fn is_document(&self) -> bool {
        true
    }

    fn marks(&self) -> &'static [&'static str] {
        &["\"results\"", "\"out_of_place\"", "\"config\""]
    }

    fn recognises(&self, source: &Source) -> bool {
        let text = source.text();
        // A file that is cut off may have lost the rest.
        let has = |words: &[&str]| words.iter().all(|word| text.contains(word));
        text.trim_start().starts_with('{')
            && (has(&["\"nccl_version\""]) || (has(&["\"version\"", "\"args\"", "_perf\""]) && !has(&["\"cases\""])))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let root: Value = parsed(source)?;
        let version = root.get("version").and_then(Value::as_u64);
        if !version.is_some_and(|version| (1..=3).contains(&version)) {
            let found = root.get("version").map_or("none".to_owned(), |version| plain(&version.to_string()));
            return Err(Error::new(format!("{}: version {found} of nccl-tests' JSON is not known", source.name()))
                .hint("known versions: 1, 2, 3"));
        }
        let mut run = head(&root);
        unread(&root, "", ROOT_KEYS, &mut run.unread);
        let planned = root.pointer("/config/iterations").and_then(Value::as_u64);
        let results = root.get("results").and_then(Value::as_array);
        let results = results.ok_or_else(|| wrong(source, "results", "a list"))?;
        for (at, row) in results.iter().enumerate() {
            let place = format!("results[{at}]");
            let row = row.as_object().ok_or_else(|| wrong(source, &place, "an object"))?;
            for (key, known) in [("", ROW_KEYS), ("out_of_place", HALF_KEYS), ("in_place", HALF_KEYS)] {
                unread(if key.is_empty() { &results[at] } else { &results[at][key] }, key, known, &mut run.unread);
            }
            for key in ["out_of_place_per_iter", "in_place_per_iter"] {
                unread(&results[at][key], key, SPREAD_KEYS, &mut run.unread);
            }
            let actual = row.get("actual_iterations").and_then(Value::as_u64);
            if let Some((actual, planned)) = actual.zip(planned).filter(|(actual, planned)| actual != planned) {
                run.omitted.push((
                    at + 1,
                    format!("`actual_iterations` is {actual}: the record has the {planned} of `config`"),
                ));
            }
            let named = row.get("experiment_name").and_then(Value::as_str);
            run.program = named.filter(|name| !name.is_empty()).or(run.program);
            run.rows.push(line(source, &place, at + 1, row)?);
        }
        run.notes.push("line numbers count the entries of `results`".to_owned());
        let mut collector = Collector::new(source)?;
        collector.add(&run)?;
        Ok(Content::Results(collector.finish()?))
    }
}

/// The format of rccl-tests.
pub(super) struct RcclTestsJson;

impl Format for RcclTestsJson {
    fn about(&self) -> (&'static str, &'static str) {
        ("rccl_tests_json", "rccl-tests: the file that -Z json writes")
    }

    fn is_document(&self) -> bool {
        true
    }

    fn marks(&self) -> &'static [&'static str] {
        &["\"busBw\"", "\"algBw\"", "\"inPlace\""]
    }

    fn recognises(&self, source: &Source) -> bool {
        let text = source.text();
        let has = |key: &str| text.contains(key);
        text.trim_start().starts_with(['[', '{']) && has("\"busBw\"") && has("\"algBw\"") && has("\"inPlace\"")
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let records: Vec<Value> =
            if source.text().trim_start().starts_with('[') { parsed(source)? } else { parsed_values(source)? };
        let mut collector = Collector::new(source)?;
        let mut runs: Vec<(String, NcclRun<'_>)> = Vec::new();
        for (at, record) in records.iter().enumerate() {
            let place = format!("[{at}]");
            let row = record.as_object().ok_or_else(|| wrong(source, &place, "an object"))?;
            if let Some(odd) = row.keys().find(|key| !RCCL_KEYS.contains(&key.as_str())) {
                let what =
                    format!("{}: {place} has a field `{}` that this reader does not know", source.name(), plain(odd));
                return Err(Error::new(what).hint(format!("known fields: {}", RCCL_KEYS.join(" "))));
            }
            let (key, run, raw) = rccl_line(source, &place, at + 1, row)?;
            let open = match runs.iter().position(|(known, _)| *known == key) {
                Some(open) => open,
                None => {
                    runs.push((key, run));
                    runs.len() - 1
                }
            };
            runs[open].1.rows.push(raw);
        }
        for (_, run) in &mut runs {
            run.notes.push("line numbers count the records".to_owned());
            collector.add(run)?;
        }
        Ok(Content::Results(collector.finish()?))
    }
}

const RCCL_KEYS: &[&str] = &[
    "numCycle",
    "name",
    "nodes",
    "ranks",
    "ranksPerNode",
    "gpusPerRank",
    "size",
    "type",
    REDUCTION,
    "inPlace",
    "time",
    "algBw",
    "busBw",
    "wrong",
    // As the branch of its pull request 93 names it, which counts no cycles.
    "#wrong",
];

/// A record of rccl-tests: the run that it is of, and its line.
fn rccl_line<'v>(
    source: &Source,
    place: &str,
    number: usize,
    row: &'v Map<String, Value>,
) -> Result<(String, NcclRun<'v>, RawLine<'v>), Error> {
    let text = |key: &str, what: &str| {
        row.get(key).and_then(Value::as_str).ok_or_else(|| wrong(source, &format!("{place}.{key}"), what))
    };
    let whole = |key: &str| {
        row.get(key).and_then(Value::as_u64).ok_or_else(|| wrong(source, &format!("{place}.{key}"), "a whole number"))
    };
    let unless_absent = |key: &str| row.get(key).map(|_| whole(key)).transpose();
    let (name, ranks, cycle) = (text("name", "an operation")?, unless_absent("ranks")?, unless_absent("numCycle")?);
    if row.get("gpusPerRank").and_then(Value::as_u64).is_some_and(|gpus| gpus != 1) {
        return Err(wrong(
            source,
            &format!("{place}.gpusPerRank"),
            "1: the file does not say what a rank is with several GPUs",
        ));
    }
    let mut half = Half {
        time_us: printed(source, place, row, "time")?,
        algbw: printed(source, place, row, "algBw")?,
        busbw: printed(source, place, row, "busBw")?,
        wrong: None,
        spread_us: None,
    };
    half.wrong = row.get("wrong").or_else(|| row.get("#wrong")).and_then(|wrong| match wrong {
        Value::String(count) => count.parse().ok(),
        other => other.as_u64(),
    });
    let in_place = row.get("inPlace").and_then(|flag| flag.as_u64().or(flag.as_bool().map(u64::from)));
    let in_place = in_place.ok_or_else(|| wrong(source, &format!("{place}.inPlace"), "0 or 1"))?;
    let mut halves = [None; 2];
    halves[usize::from(in_place != 0)] = Some(half);
    let reduction = row.get(REDUCTION).and_then(Value::as_str).filter(|word| *word != "none");
    let raw = RawLine {
        line: number,
        bytes: whole("size")?,
        dtype: text("type", "an element type")?,
        reduction,
        root: None,
        halves,
        processes: Default::default(),
    };
    let of_ranks = |ranks: u64| {
        let ranks = u32::try_from(ranks).ok().filter(|ranks| *ranks > 0);
        ranks.ok_or_else(|| wrong(source, &format!("{place}.ranks"), "a number of ranks"))
    };
    let ranks = ranks.map(of_ranks).transpose()?;
    let mut run =
        NcclRun { line: number, tool: "rccl-tests".to_owned(), program: Some(name), ranks, ..NcclRun::default() };
    let placed =
        ["nodes", "ranksPerNode"].map(|key| row.get(key).map_or("?".to_owned(), |count| plain(&count.to_string())));
    run.facts.push(("nodes and ranks on each", placed.join(" x ")));
    Ok((format!("{cycle:?} {ranks:?} {name}"), run, raw))
}

fn wrong(source: &Source, place: &str, expected: &str) -> Error {
    Error::new(format!("{}: {place}: expected {expected}", source.name()))
}

/// What the file says of the run.
fn head(root: &Value) -> NcclRun<'_> {
    let mut run = NcclRun { line: 1, tool: "nccl-tests".to_owned(), ..NcclRun::default() };
    // 0: by another backend, in a file that Rankmark wrote.
    if let Some(code) = root.get("nccl_version").filter(|code| code.as_u64() != Some(0)) {
        let code = code.to_string();
        run.versions.insert("nccl".to_owned(), version_of_code(&code).unwrap_or_else(|| plain(&code)));
    }
    let arguments: Vec<&str> = list(root, "args").iter().filter_map(Value::as_str).collect();
    // The field for it, `experiment_name`, is empty in files that nccl-tests itself wrote.
    run.program = arguments.first().and_then(|path| path.rsplit('/').next()).filter(|name| name.contains("_perf"));
    let average = arguments.iter().position(|word| matches!(*word, "-a" | "--average"));
    run.average = average.and_then(|at| arguments.get(at + 1)).copied().or(Some("1"));
    run.by = by(&arguments);
    run.facts.push(("arguments", fact(&arguments.join(" "))));
    for (name, key) in [("start, local time", "start_time"), ("end, local time", "end_time")] {
        if let Some(time) = root.get(key).and_then(Value::as_str) {
            run.facts.push((name, plain(time)));
        }
    }
    let (settings, others): (Vec<&str>, Vec<&str>) =
        list(root, "env").iter().filter_map(Value::as_str).partition(|set| set.starts_with("NCCL_"));
    if !settings.is_empty() {
        run.facts.push(("environment", fact(&settings.join(" "))));
    }
    if !others.is_empty() {
        run.unread.push(
            "the key `env`: variables that do not begin with NCCL_ are left out, they may hold secrets".to_owned(),
        );
    }
    if let Some(config) = root.get("config") {
        configure(&mut run, config, &arguments);
    }
    for error in list(root, "errors").iter().filter_map(Value::as_str).filter(|error| !error.is_empty()) {
        run.notes.push(format!("error: {}", plain(error)));
    }
    if let Some(count) = root.pointer("/out_of_bounds/count").and_then(Value::as_u64).filter(|count| *count > 0) {
        run.notes.push(format!("out of bounds values: {count}"));
    }
    if let Some(rate) = root.pointer("/average_bus_bandwidth/bandwidth").and_then(Value::as_f64) {
        run.facts.push(("average bus bandwidth, GB/s", rate.to_string()));
    }
    run
}

/// What moved the data, in a file that `rankmark report --layout nccl-tests-json` wrote: nccl-tests has no such options.
fn by(arguments: &[&str]) -> MeasuredBy {
    let value = |option: &str| {
        let at = arguments.iter().position(|word| *word == option)?;
        arguments.get(at + 1).copied()
    };
    let named = |option: &str, names: &[&'static str]| {
        let word = value(option)?.split(':').next()?;
        names.iter().copied().find(|name| *name == word)
    };
    let default = MeasuredBy::default();
    MeasuredBy {
        backend: named("--backend", &["shm", "mpi", "gloo", "ucc", "reference"]).unwrap_or(default.backend),
        device: named("--device", &["cpu"]).unwrap_or(default.device),
        by_pytorch: value("--runtime") == Some("pytorch"),
        is_ours: value("--backend").is_some(),
    }
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Keys that are read.
const ROOT_KEYS: &[&str] = &[
    "version",
    "start_time",
    "end_time",
    "args",
    "env",
    "nccl_version",
    "config",
    "results",
    "out_of_bounds",
    "average_bus_bandwidth",
    "errors",
];
const ROW_KEYS: &[&str] = &[
    "size",
    "count",
    "type",
    REDUCTION,
    "root",
    "out_of_place",
    "in_place",
    "out_of_place_per_iter",
    "in_place_per_iter",
    "actual_iterations",
    "experiment_name",
];
const HALF_KEYS: &[&str] = &["time", "alg_bw", "bus_bw", "nwrong", "cpu_time"];
const SPREAD_KEYS: &[&str] = &[
    "min_us",
    "max_us",
    "avg_us",
    "stdev_us",
    "p50_us",
    "p95_us",
    "p99_us",
    "skipped_iterations",
    "per_process_max_times_us",
];
const DEVICE_KEYS: &[&str] = &["rank", "group", "pid", "hostname", "device", "device_hex", "device_info"];

/// Keys that are known and that the record has no place for, and why.
const NO_PLACE: &[(&str, &str)] = &[
    ("cv_pct", "the record has no coefficient of variation"),
    ("times_us", "single iterations are kept if the file has those of each process"),
];

/// Says of the keys of an object that are not among these why they are not read.
fn unread(value: &Value, of: &str, known: &[&str], into: &mut Vec<String>) {
    for key in value.as_object().into_iter().flat_map(Map::keys).filter(|key| !known.contains(&key.as_str())) {
        let place = if of.is_empty() { plain(key) } else { format!("{of}.{}", plain(key)) };
        let why = NO_PLACE.iter().find(|(name, _)| name == key).map_or("this reader does not know it", |(_, why)| why);
        let what = format!("the key `{place}`: {why}");
        if !into.contains(&what) {
            into.push(what);
        }
    }
}

/// How calls wait, where the file says that they do: it has one word for all values of `-z`. Calls of Rankmark begin at one
/// instant.
fn blocking(arguments: &[&str], is_ours: bool) -> Blocking {
    let value = arguments.iter().enumerate().find_map(|(at, word)| match *word {
        "-z" | "--blocking" => arguments.get(at + 1).copied(),
        word => word.strip_prefix("--blocking=").or_else(|| word.strip_prefix("-z")),
    });
    match value {
        Some("2") => Blocking::WithoutBarrier,
        Some("3") => Blocking::BarrierUntimed,
        _ if is_ours => Blocking::BarrierUntimed,
        _ => Blocking::BarrierTimed,
    }
}

fn configure(run: &mut NcclRun<'_>, config: &Value, arguments: &[&str]) {
    let is_option = |value: &Value| !value.is_array() && !value.is_object();
    let options = config.as_object().into_iter().flatten().filter(|(_, value)| is_option(value));
    let options: Vec<String> =
        options.map(|(key, value)| format!("{key} {}", value.to_string().trim_matches('"'))).collect();
    run.facts.push(("options", fact(&options.join(" "))));
    for (key, value) in config.as_object().into_iter().flatten() {
        if key != "devices" && !is_option(value) {
            run.unread.push(format!("the key `config.{}`: this reader does not know it", plain(key)));
        }
    }
    let whole = |key: &str| config.get(key).and_then(Value::as_u64);
    let devices = list(config, "devices");
    // One entry for each process, with its first GPU.
    let each = whole("nthreads").unwrap_or(1).saturating_mul(whole("ngpus").unwrap_or(1));
    let group_of = |device: &Value| device.get("group").and_then(Value::as_i64).unwrap_or(0);
    let mut groups: Vec<(i64, u64)> = Vec::new();
    for group in devices.iter().map(group_of) {
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, processes)) => *processes += 1,
            None => groups.push((group, 1)),
        }
    }
    let processes = groups.first().map_or(0, |(_, processes)| *processes);
    run.ranks = u32::try_from(processes.saturating_mul(each)).ok().filter(|ranks| *ranks > 0);
    run.split(groups.len());
    for device in devices {
        unread(device, "config.devices", DEVICE_KEYS, &mut run.unread);
        let text = |key: &str| device.get(key).and_then(Value::as_str).map(plain).unwrap_or_default();
        let (host, name) = (text("hostname"), text("device_info"));
        if !host.is_empty() && !run.hosts.contains(&host) {
            run.hosts.push(host);
        }
        if !run.facts.iter().any(|(known, value)| *known == "device" && *value == name) {
            run.facts.push(("device", name));
        }
    }
    let graph = whole("graph").filter(|launches| *launches > 0);
    let repeats = whole("aggregated_iterations").unwrap_or(1).saturating_mul(graph.unwrap_or(1));
    run.iterations = whole("iterations").map(|iterations| iterations.saturating_mul(repeats));
    run.notes.extend(graph.map(of_graph));
    if config.get("blocking_collectives").and_then(Value::as_str) == Some("true") {
        run.blocking = blocking(arguments, run.by.is_ours);
    }
}

fn line<'v>(source: &Source, place: &str, number: usize, row: &'v Map<String, Value>) -> Result<RawLine<'v>, Error> {
    let size = row.get("size").and_then(Value::as_u64);
    let bytes = size.ok_or_else(|| wrong(source, &format!("{place}.size"), "a whole number"))?;
    let dtype = row.get("type").and_then(Value::as_str);
    let dtype = dtype.ok_or_else(|| wrong(source, &format!("{place}.type"), "an element type"))?;
    let reduction = row.get(REDUCTION).and_then(Value::as_str).filter(|word| *word != "none");
    let root = row.get("root").and_then(|root| root.as_i64().or_else(|| root.as_str()?.trim().parse().ok()));
    let half = |key: &str| match row.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let place = format!("{place}.{key}");
            let value = value.as_object().ok_or_else(|| wrong(source, &place, "an object"))?;
            let spread = row.get(&format!("{key}_per_iter"));
            measured(source, &place, value, spread).map(Some)
        }
    };
    let halves = [half("out_of_place")?, half("in_place")?];
    let processes =
        ["out_of_place_per_iter", "in_place_per_iter"].map(|key| row.get(key).map_or(Vec::new(), processes));
    Ok(RawLine { line: number, bytes, dtype, reduction, root, halves, processes })
}

/// The times of each process in each iteration, in microseconds, without those that the run skips. Empty unless all have as
/// many.
fn processes(spread: &Value) -> Vec<Vec<f64>> {
    let skipped = spread.get("skipped_iterations").and_then(Value::as_u64).unwrap_or(0);
    let times = |row: &Value| {
        let times = row.as_array()?.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>()?;
        let times: Vec<f64> = times.into_iter().skip(usize::try_from(skipped).ok()?).collect();
        (!times.is_empty() && times.iter().all(|us| (0.0..1e12).contains(us))).then_some(times)
    };
    let rows =
        list(spread, "per_process_max_times_us").iter().map(times).collect::<Option<Vec<_>>>().unwrap_or_default();
    if rows.iter().all(|row| row.len() == rows[0].len()) { rows } else { Vec::new() }
}

fn measured(source: &Source, place: &str, half: &Map<String, Value>, spread: Option<&Value>) -> Result<Half, Error> {
    if half.contains_key("cpu_time") {
        let what = format!(
            "{}: {place}: `cpu_time` is the time until a call returns, not the time that it takes",
            source.name()
        );
        return Err(Error::new(what).hint("measure without `-C 1`"));
    }
    let value = |key: &str| spread?.get(key)?.as_f64();
    let spread_us = ["min_us", "max_us", "p99_us", "p50_us", "p95_us", "avg_us", "stdev_us"]
        .map(|key| value(key).unwrap_or(f64::NAN));
    let spread_us = spread.is_some().then_some(spread_us);
    let wrong = half.get("nwrong").and_then(Value::as_f64).filter(|count| *count >= 0.0);
    Ok(Half {
        time_us: printed(source, place, half, "time")?,
        algbw: printed(source, place, half, "alg_bw")?,
        busbw: printed(source, place, half, "bus_bw")?,
        wrong: wrong.map(|count| count as u64),
        spread_us,
    })
}

/// A number with the six decimals that both programs write; `"nan"` is how nccl-tests writes none.
fn printed(source: &Source, place: &str, row: &Map<String, Value>, key: &str) -> Result<Printed, Error> {
    let value = match row.get(key) {
        Some(Value::String(text)) if text == "nan" => Some(f64::NAN),
        value => value.and_then(Value::as_f64),
    };
    let value = value.ok_or_else(|| wrong(source, &format!("{place}.{key}"), "a number"))?;
    Ok(Printed { value, within: 0.5e-6 })
}
