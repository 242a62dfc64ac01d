//! Case lines in the order in which they are read: operations, their configurations, and the sizes of each.
//!
//! A configuration is everything that a case's parameters say, except the size. Only measured, right cases become
//! points: no bandwidth is shown without `wrong` 0.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use record::{CaseLine, Caveat};
use serde_json::Value;
use terms::Status;

use crate::Run;
use crate::escape::file_stem;

/// A value with its 95% interval, where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mid: f64,
    /// Ends of the interval; equal to `mid` where there is none.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether there is an interval: fewer than six trials have none.
    pub(crate) known: bool,
}

impl Estimate {
    /// A value, and the ends of its interval where it has one.
    pub(crate) fn new(mid: f64, ends: Option<[f64; 2]>) -> Self {
        let [low, high] = ends.unwrap_or([mid; 2]);
        Self { mid, low, high, known: ends.is_some() }
    }

    /// Half the interval's width, relative to the value.
    pub(crate) fn relative_half_width(&self) -> Option<f64> {
        self.known.then(|| (self.high - self.low) / 2.0 / self.mid)
    }

    /// ` (28.1 to 29.3)`, or nothing where there is no interval.
    pub(crate) fn range(&self, show: impl Fn(f64) -> String) -> String {
        if self.known { format!(" ({} to {})", show(self.low), show(self.high)) } else { String::new() }
    }

    /// Whether the whole interval lies above this value.
    pub(crate) fn exceeds(&self, value: f64) -> bool {
        self.known && self.low > value
    }

    /// Whether the whole interval lies below this value.
    pub(crate) fn is_below(&self, value: f64) -> bool {
        self.known && self.high < value
    }
}

/// The time of one case over that of another of the run: by their trials of the same rounds, which what the machine does
/// to both does not widen. Where they share no round, by what an equal run of each would show.
pub(crate) fn ratio(a: &Measured, b: &Measured) -> Estimate {
    let (of_a, of_b) = a.case.paired_trials(b.case);
    let apart = || {
        let run = |of: &Measured| {
            let again = of.case.time_s.as_ref().and_then(|time| time.ci95_again);
            stats::RunMedian { median: of.time.mid, again }
        };
        stats::run_ratio(run(a), run(b))
    };
    match stats::paired_ratio(&of_a, &of_b).or_else(apart) {
        Some(ratio) => Estimate::new(ratio.mid, ratio.ends),
        None => Estimate::new(a.time.mid / b.time.mid, None),
    }
}

/// A measured, right case.
#[derive(Clone, Debug)]
pub(crate) struct Measured<'a> {
    pub(crate) bytes: Option<u64>,
    pub(crate) time: Estimate,
    pub(crate) algbw: Option<Estimate>,
    pub(crate) busbw: Option<Estimate>,
    /// Share of the limit measured beside it.
    pub(crate) limit_share: Option<f64>,
    pub(crate) case: &'a CaseLine,
}

impl<'a> Measured<'a> {
    /// None when the case was not measured or is wrong.
    pub(crate) fn of(case: &'a CaseLine) -> Option<Self> {
        let time = case.time_s.as_ref().filter(|_| case.status == Status::Ok && case.wrong.unwrap_or(0) == 0)?;
        let usable = |value: f64| value.is_finite() && value > 0.0;
        if !usable(time.median) {
            return None;
        }
        // An end that is no positive number bounds nothing: the estimate then has no width to that side.
        let end = |end: f64| if usable(end) { end } else { time.median };
        let ends = time.ci95.map(|[low, high]| [end(low).min(time.median), end(high).max(time.median)]);
        let time = Estimate::new(time.median, ends);
        // Bandwidth is work over time, so its interval is the time's, turned over.
        let rate = |name: &str| {
            let mid = case.metric(name).filter(|value| usable(*value))?;
            let ends = time.known.then(|| [mid * time.mid / time.high, mid * time.mid / time.low]);
            Some(Estimate::new(mid, ends))
        };
        Some(Self {
            bytes: case.bytes.filter(|bytes| *bytes > 0),
            algbw: rate("algbw_gbs"),
            busbw: rate("busbw_gbs"),
            limit_share: case.metric("limit_share").filter(|share| usable(*share)),
            time,
            case,
        })
    }

    /// The busbw at which the limit would be reached.
    pub(crate) fn limit_gbs(&self) -> Option<f64> {
        Some(self.busbw?.mid / self.limit_share?)
    }

    pub(crate) fn has(&self, caveat: Caveat) -> bool {
        self.case.caveats.contains(&caveat)
    }
}

/// All sizes of one configuration.
#[derive(Clone, Debug)]
pub(crate) struct Configuration<'a> {
    /// What tells it from the others of the run ("shm, 4 ranks").
    pub(crate) label: String,
    /// The label without backend and ranks; empty where nothing else varies.
    pub(crate) variant: String,
    /// Its number among the run's labels: colour and marker.
    pub(crate) style: usize,
    pub(crate) ranks: u32,
    /// `pytorch/gloo`, or the backend alone where the runtime is native.
    pub(crate) backend: String,
    /// Everything but operation, size, ranks and backend.
    pub(crate) others: Vec<(String, String)>,
    pub(crate) cases: Vec<&'a CaseLine>,
    /// Ascending in bytes.
    pub(crate) points: Vec<Measured<'a>>,
}

impl<'a> Configuration<'a> {
    /// The point at exactly this size.
    pub(crate) fn at(&self, bytes: u64) -> Option<&Measured<'a>> {
        self.of_size(Some(bytes))
    }

    /// The point at exactly this size, or without a size.
    pub(crate) fn of_size(&self, bytes: Option<u64>) -> Option<&Measured<'a>> {
        let first = self.points.partition_point(|point| point.bytes < bytes);
        self.points.get(first).filter(|point| point.bytes == bytes)
    }

    /// Points with a size, ascending.
    pub(crate) fn sized(&self) -> impl DoubleEndedIterator<Item = (u64, &Measured<'_>)> {
        self.points.iter().filter_map(|point| Some((point.bytes?, point)))
    }

    pub(crate) fn oversubscribed(&self) -> bool {
        self.cases.iter().any(|case| case.caveats.contains(&Caveat::Oversubscribed))
    }
}

/// One operation with all its configurations.
#[derive(Clone, Debug)]
pub(crate) struct Operation<'a> {
    /// `all_reduce`; the benchmark's name where a benchmark has no operations.
    pub(crate) name: String,
    /// The beginning of its charts' file names, unlike that of any other operation.
    pub(crate) stem: String,
    /// What holds for all its configurations ("shm, cpu, f32, sum").
    pub(crate) constants: String,
    pub(crate) configurations: Vec<Configuration<'a>>,
}

impl Operation<'_> {
    pub(crate) fn points(&self) -> impl Iterator<Item = &Measured<'_>> {
        self.configurations.iter().flat_map(|configuration| &configuration.points)
    }
}

/// `pytorch/gloo`, or the backend alone where the runtime is native.
pub(crate) fn backend(case: &CaseLine) -> String {
    if case.runtime == "native" || case.runtime.is_empty() {
        case.backend.clone()
    } else {
        format!("{}/{}", case.runtime, case.backend)
    }
}

/// The operation's name.
pub(crate) fn operation(case: &CaseLine) -> &str {
    case.parameters.get("op").and_then(Value::as_str).unwrap_or(&case.benchmark)
}

/// A parameter's value as it is written in a plan.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What one thing that was timed is called.
pub(crate) fn timed(operation: &Operation) -> &'static str {
    let several = |c: &Configuration| value_of(&c.others, "in_flight").is_some();
    match crate::training::is_training(operation) {
        true => "time of a step",
        false if operation.configurations.iter().any(several) => "time of one operation",
        false => "time of one call",
    }
}

/// Everything but operation, size, ranks and backend, in the order of the record.
fn others(case: &CaseLine) -> Vec<(String, String)> {
    const APART: [&str; 10] =
        ["op", "bytes", "ranks", "backend", "runtime", "device", "dtype", "mode", "cache", "seed"];
    let mut fields = vec![("device".to_owned(), case.device.clone())];
    fields.extend(case.dtype.clone().map(|dtype| ("dtype".to_owned(), dtype)));
    // Those that its data pass between; of one host nothing is said unless others are near by.
    fields.extend(case.pair_hosts.or(case.hosts).map(|hosts| ("hosts".to_owned(), hosts.to_string())));
    // The mesh of every strategy but this follows from the ranks: it would keep one rank and two apart.
    let hybrid = case.parameters.get("strategy").and_then(Value::as_str) == Some("hybrid");
    let told = |name: &str| !APART.contains(&name) && (hybrid || name != "mesh");
    let parameters = case.parameters.iter().filter(|(name, _)| told(name.as_str()));
    fields.extend(parameters.map(|(name, value)| (name.clone(), plain(value))));
    fields.push(("mode".to_owned(), case.mode.to_string()));
    fields.extend(cache(case).map(|cache| ("cache".to_owned(), cache.to_owned())));
    // A seed chooses the inputs; it tells configurations apart only where a plan varies it.
    fields.extend(case.parameters.get("seed").map(|seed| ("seed".to_owned(), plain(seed))));
    fields
}

/// Whether calls find their data in the caches: back to back on the same buffers they do, as far as these hold it. None
/// where calls are not back to back, or have no buffers.
pub(crate) fn cache(case: &CaseLine) -> Option<&'static str> {
    let repeats = case.mode == terms::Mode::Streaming && case.bytes.is_some();
    let cold = case.parameters.get("cache").and_then(Value::as_str) == Some("cold");
    repeats.then_some(if cold { "cache-cold" } else { "cache-warm" })
}

/// What is said of ranks on one host where others are on several.
const WITHIN: &str = "within a host";

/// How a field is written in labels: a word stands for itself, a switch by its name, a number with its name.
pub(crate) fn written(name: &str, value: &str) -> String {
    match value {
        "true" if name == "mpi_tuned" => "tuned".to_owned(),
        "false" if name == "mpi_tuned" => "untuned".to_owned(),
        "true" => name.replace('_', " "),
        "false" if name == "in_place" => "out of place".to_owned(),
        "false" => format!("no {}", name.replace('_', " ")),
        "1" if name == "hosts" => WITHIN.to_owned(),
        _ if name == "hosts" => format!("across {value} hosts"),
        _ if name == "limit" => {
            let limit = value.parse().map_or_else(|_| value.to_owned(), crate::number::bytes);
            format!("limit {limit} a rank")
        }
        _ if name == "in_flight" => format!("{value} in flight"),
        _ if value.parse::<f64>().is_ok() || ["root", "bind"].contains(&name) => format!("{name} {value}"),
        _ => value.to_owned(),
    }
}

/// The run's operations, in order of first appearance.
pub(crate) fn operations(run: &Run) -> Vec<Operation<'_>> {
    let mut operations: Vec<Operation> = Vec::new();
    let mut places: HashMap<&str, (usize, Places)> = HashMap::new();
    for case in &run.cases {
        let name = operation(case);
        let (at, places) = places.entry(name).or_insert_with(|| {
            let stem = stem(name, &operations);
            let name = name.to_owned();
            operations.push(Operation { name, stem, constants: String::new(), configurations: Vec::new() });
            (operations.len() - 1, Places::new())
        });
        put(&mut operations[*at].configurations, places, case);
    }
    for configuration in operations.iter_mut().flat_map(|operation| &mut operation.configurations) {
        configuration.points = configuration.cases.iter().filter_map(|case| Measured::of(case)).collect();
        configuration.points.sort_by_key(|point| point.bytes);
    }
    label(&mut operations);
    operations
}

/// Names that differ may become the same file name; a number then tells them apart.
fn stem(name: &str, others: &[Operation]) -> String {
    let plain = file_stem(name);
    let taken = |stem: &String| others.iter().any(|other| other.stem == *stem);
    let numbered = (2..).map(|number| format!("{plain}-{number}"));
    std::iter::once(plain.clone()).chain(numbered).find(|stem| !taken(stem)).unwrap_or(plain)
}

/// Where the configuration of these ranks, this backend and these other fields stands.
type Places = HashMap<(u32, String, Vec<(String, String)>), usize>;

fn put<'a>(configurations: &mut Vec<Configuration<'a>>, places: &mut Places, case: &'a CaseLine) {
    match places.entry((case.ranks, backend(case), others(case))) {
        Entry::Occupied(at) => configurations[*at.get()].cases.push(case),
        Entry::Vacant(place) => {
            let (ranks, backend, others) = place.key().clone();
            place.insert(configurations.len());
            configurations.push(Configuration {
                label: String::new(),
                variant: String::new(),
                style: 0,
                ranks,
                backend,
                others,
                cases: vec![case],
                points: Vec::new(),
            });
        }
    }
}

/// The fields of an operation that tell its configurations apart.
fn varying_in(operation: &Operation) -> BTreeSet<String> {
    let configurations = &operation.configurations;
    let names: BTreeSet<&String> = configurations.iter().flat_map(|c| c.others.iter().map(|(name, _)| name)).collect();
    let varies = |name: &str| {
        let values: BTreeSet<Option<&str>> = configurations.iter().map(|c| value_of(&c.others, name)).collect();
        // Which Python a peer runs in tells it from the same peer in another, not from those that run in none.
        values.iter().filter(|value| value.is_some() || name != "python").count() > 1
    };
    let mut varying: BTreeSet<String> = names.into_iter().filter(|name| varies(name)).cloned().collect();
    let backends: BTreeSet<&String> = configurations.iter().map(|c| &c.backend).collect();
    if backends.len() > 1 {
        varying.insert("backend".to_owned());
    }
    varying
}

/// Gives labels and styles. A field is part of labels throughout the run when it varies within any operation, so that
/// the same configuration has the same label, and so the same colour, in every chart.
fn label(operations: &mut [Operation]) {
    let varying: BTreeSet<String> = operations.iter().flat_map(varying_in).collect();
    let mut labels: HashMap<String, usize> = HashMap::new();
    for operation in operations {
        let everywhere = |name: &str| operation.configurations.iter().all(|c| value_of(&c.others, name).is_some());
        let constant = |c: &Configuration| {
            let hidden = |name: &str| varying.contains(name) || name == "seed" || !everywhere(name);
            let backend = (!varying.contains("backend")).then(|| c.backend.clone());
            // A switch that is off everywhere is worth no word; out of place is a kind of call.
            let off = |name: &str, value: &str| value == "false" && name != "in_place";
            let shown = |(name, value): &&(String, String)| !hidden(name) && !off(name, value);
            let others = c.others.iter().filter(shown).map(|(name, value)| written(name, value));
            let parts = backend.into_iter().chain(others).filter(|part| !part.is_empty());
            parts.collect::<Vec<_>>().join(", ")
        };
        operation.constants = operation.configurations.first().map(constant).unwrap_or_default();
        for configuration in &mut operation.configurations {
            configuration.variant = variant_of(configuration, &varying);
            let backend = varying.contains("backend").then(|| configuration.backend.clone());
            let parts = [backend.unwrap_or_default(), ranks(configuration.ranks), configuration.variant.clone()];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            configuration.label = parts.join(", ");
            let next = labels.len();
            configuration.style = *labels.entry(configuration.label.clone()).or_insert(next);
        }
    }
}

fn variant_of(configuration: &Configuration, varying: &BTreeSet<String>) -> String {
    let shown = configuration.others.iter().filter(|(name, _)| varying.contains(name));
    let mut parts: Vec<String> = shown.map(|(name, value)| written(name, value)).collect();
    // A model's ranks are on no host.
    let real = configuration.cases.iter().all(|case| !case.simulated);
    if real && varying.contains("hosts") && value_of(&configuration.others, "hosts").is_none() {
        parts.push(WITHIN.to_owned());
    }
    parts.join(", ")
}

/// `1 rank`, `2 ranks`.
pub(crate) fn ranks(number: u32) -> String {
    crate::number::count(number as usize, "rank", "ranks")
}

fn value_of<'f>(fields: &'f [(String, String)], name: &str) -> Option<&'f str> {
    fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

/// The warning that must stand over every page and picture drawn from these cases, if any of them was not a plain
/// measurement.
pub(crate) fn banner<'a>(cases: impl Iterator<Item = &'a CaseLine>) -> Option<String> {
    const WARNINGS: [(Caveat, &str, &str); 3] = [
        (Caveat::Simulated, "SIMULATED", "times were computed by a model and never measured"),
        (Caveat::Paced, "PACED", "slowed down to a given link"),
        (Caveat::Injected, "FAULT INJECTED", "on request"),
    ];
    let cases: Vec<&CaseLine> = cases.filter(|case| case.time_s.is_some()).collect();
    let marked = |case: &CaseLine, caveat: Caveat| {
        case.caveats.contains(&caveat) || (caveat == Caveat::Simulated && case.simulated)
    };
    let mut warnings = Vec::new();
    for (caveat, word, meaning) in WARNINGS {
        let number = cases.iter().filter(|case| marked(case, caveat)).count();
        if number == 0 {
            continue;
        }
        let share = if number == cases.len() { String::new() } else { format!(" ({number} of {} cases)", cases.len()) };
        warnings.push(format!("{word}: {meaning}{share}"));
    }
    (!warnings.is_empty()).then(|| warnings.join(" · "))
}
