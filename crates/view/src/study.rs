//! Case lines in the order in which they are read: operations, their configurations, and the sizes of each.
//!
//! A configuration is everything that a case's parameters say, except the size. Only measured, right cases become
//! points: no bandwidth is shown without `wrong` 0.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use record::file::FileStem;
use record::{CaseLine, Caveat, Declared, found};
use serde_json::Value;
use terms::Status;

use crate::grouping::{ConfigurationPlaces, GroupedFields, QUIET};
use crate::label::label_of;
use crate::styles::Styles;

/// A value with its 95% interval, where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The value.
    pub mid: f64,
    /// Ends of the interval; equal to `mid` where there is none.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Whether there is an interval: fewer than six trials have none.
    pub known: bool,
}

impl Estimate {
    /// A value, and the ends of its interval where it has one.
    pub fn new(mid: f64, ends: Option<[f64; 2]>) -> Self {
        let [low, high] = ends.unwrap_or([mid; 2]);
        Self { mid, low, high, known: ends.is_some() }
    }

    /// Half the interval's width, relative to the value.
    pub fn relative_half_width(&self) -> Option<f64> {
        self.known.then(|| (self.high - self.low) / 2.0 / self.mid)
    }

    /// ` (28.1 to 29.3)`, or nothing where there is no interval.
    pub fn range(&self, show: impl Fn(f64) -> String) -> String {
        if self.known { format!(" ({} to {})", show(self.low), show(self.high)) } else { String::new() }
    }

    /// Whether the whole interval lies above this value.
    pub fn exceeds(&self, value: f64) -> bool {
        self.known && self.low > value
    }

    /// Whether the whole interval lies below this value.
    pub fn is_below(&self, value: f64) -> bool {
        self.known && self.high < value
    }
}

/// The time of one case over that of another of the run: by their trials of the same rounds, which what the machine does
/// to both does not widen. Where they share no round, by what an equal run of each would show.
pub fn ratio(a: &Measured, b: &Measured) -> Estimate {
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

/// Whether it can be a time or a rate.
fn usable(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// A measured, right case.
#[derive(Clone, Debug)]
pub struct Measured<'a> {
    /// The size of its call, where it has one.
    pub bytes: Option<u64>,
    /// Seconds of one call.
    pub time: Estimate,
    /// S over the time, GB/s.
    pub algbw: Option<Estimate>,
    /// The bus bandwidth, GB/s.
    pub busbw: Option<Estimate>,
    /// Share of the limit that the same run measured.
    pub limit_share: Option<f64>,
    /// Case line of the case.
    pub case: &'a CaseLine,
}

impl<'a> Measured<'a> {
    /// None when the case was not measured or is wrong.
    pub fn from_case(case: &'a CaseLine) -> Option<Self> {
        let time = case.time_s.as_ref().filter(|_| Self::is_measured(case))?;
        // An end that is not a positive number bounds nothing: the estimate then has no width to that side.
        let end = |end: f64| if usable(end) { end } else { time.median };
        let ends = time.printed().map(|([low, high], _)| [end(low).min(time.median), end(high).max(time.median)]);
        let time = Estimate::new(time.median, ends);
        // Bandwidth is work over time, so its interval is the time's, turned over.
        let rate = |rate: record::Key<Option<f64>>| {
            let mid = rate.of(case).flatten().filter(|value| usable(*value))?;
            let ends = time.known.then(|| [mid * time.mid / time.high, mid * time.mid / time.low]);
            Some(Estimate::new(mid, ends))
        };
        Some(Self {
            bytes: case.bytes.filter(|bytes| *bytes > 0),
            algbw: rate(found::ALGBW_GBS),
            busbw: rate(found::BUSBW_GBS),
            limit_share: found::LIMIT_SHARE.of(case).filter(|share| usable(*share)),
            time,
            case,
        })
    }

    /// Whether the case was measured and is right.
    pub fn is_measured(case: &CaseLine) -> bool {
        let is_right = case.status == Status::Ok && case.wrong.unwrap_or(0) == 0;
        is_right && case.time_s.as_ref().is_some_and(|time| usable(time.median))
    }

    /// The value at a source with its interval: at `ends`, inside the value, or the time's turned over where the value is work
    /// over time.
    pub fn estimate(&self, source: &str, ends: &str, declared: Option<&Declared>) -> Option<Estimate> {
        if source == "time_s.median" {
            return Some(self.time);
        }
        let shape = declared.and_then(|declared| declared.metrics.iter().find(|metric| metric.name == source));
        let is_rate = shape.is_some_and(|metric| metric.shape == record::Shape::Rate);
        let known = match source {
            name if name == found::ALGBW_GBS.name() => self.algbw,
            name if name == found::BUSBW_GBS.name() => self.busbw,
            _ => None,
        };
        if let Some(known) = known.filter(|_| is_rate) {
            return Some(known);
        }
        let mid = crate::number_at(self.case, source)?;
        if is_rate && mid > 0.0 {
            let ends =
                self.time.known.then(|| [mid * self.time.mid / self.time.high, mid * self.time.mid / self.time.low]);
            return Some(Estimate::new(mid, ends));
        }
        Some(Estimate::new(mid, crate::ends(self.case, if ends.is_empty() { source } else { ends })))
    }

    /// Whether it carries this caveat.
    pub fn has(&self, caveat: Caveat) -> bool {
        self.case.caveats.contains(&caveat)
    }
}

/// Names and values as text. Many configurations have each of them, so they are in memory once.
pub type NamedValues = Arc<[(Arc<str>, Arc<str>)]>;

/// All sizes of one configuration.
#[derive(Clone, Debug)]
pub struct Configuration<'a> {
    /// What tells it from the others of the run ("shm, 4 ranks").
    pub label: String,
    /// The label without backend and ranks; empty where nothing else varies.
    pub variant: String,
    /// The fields that the variant is made of, each as it is written there.
    pub variant_fields: Vec<(String, String)>,
    /// Number of the configuration among the run's labels: colour and marker.
    pub style: usize,
    /// Number of the configuration's line over all numbers of its ranks: colour and marker.
    pub style_over_ranks: usize,
    /// Ranks of its worlds.
    pub ranks: u32,
    /// `pytorch/gloo`, or the backend alone where the runtime is native.
    pub backend: String,
    /// Everything but operation, size, ranks and backend.
    pub others: NamedValues,
    /// All its cases, in the order of the run.
    pub cases: Vec<&'a CaseLine>,
    /// Ascending in bytes.
    pub points: Vec<Measured<'a>>,
}

impl<'a> Configuration<'a> {
    /// The point at exactly this size.
    pub fn at(&self, bytes: u64) -> Option<&Measured<'a>> {
        self.of_size(Some(bytes))
    }

    /// The point at exactly this size, or without a size.
    pub fn of_size(&self, bytes: Option<u64>) -> Option<&Measured<'a>> {
        let first = self.points.partition_point(|point| point.bytes < bytes);
        self.points.get(first).filter(|point| point.bytes == bytes)
    }

    /// Points with a size, ascending.
    pub fn sized(&self) -> impl DoubleEndedIterator<Item = (u64, &Measured<'_>)> {
        self.points.iter().filter_map(|point| Some((point.bytes?, point)))
    }

    /// The label of the line over all numbers of its ranks; empty where nothing else varies.
    pub fn label_over_ranks(&self) -> String {
        let ranks = ranks(self.ranks);
        self.label.split(", ").filter(|part| *part != ranks).collect::<Vec<_>>().join(", ")
    }

    /// The variant without what it says of these fields.
    pub fn variant_without(&self, fields: &[&str]) -> String {
        let labels = self
            .variant_fields
            .iter()
            .filter(|(name, _)| !fields.contains(&name.as_str()))
            .map(|(_, label)| label.as_str());
        labels.collect::<Vec<_>>().join(", ")
    }

    /// Whether its ranks outnumber the cores.
    pub fn oversubscribed(&self) -> bool {
        self.cases.iter().any(|case| case.caveats.contains(&Caveat::Oversubscribed))
    }
}

/// One operation with all its configurations.
#[derive(Clone, Debug)]
pub struct Operation<'a> {
    /// `all_reduce`; the benchmark's name where a benchmark has no operations.
    pub name: String,
    /// The beginning of its charts' file names, unlike that of any other operation.
    pub stem: FileStem,
    /// What holds for all its configurations ("shm, cpu, f32, sum").
    pub constants: String,
    /// What its benchmark declares, as the record has it.
    pub declared: Option<&'a Declared>,
    /// In order of first appearance.
    pub configurations: Vec<Configuration<'a>>,
}

impl Operation<'_> {
    /// All points of all its configurations.
    pub fn points(&self) -> impl Iterator<Item = &Measured<'_>> {
        self.configurations.iter().flat_map(|configuration| &configuration.points)
    }

    /// Whether a device was a stand-in in memory of the host: results are checked, and times say nothing.
    pub fn is_emulated(&self) -> bool {
        self.points().any(|point| point.case.caveats.contains(&Caveat::Emulated))
    }
}

/// `pytorch/gloo`, the backend alone where the runtime is native, or the runtime alone where the backend is not known.
pub fn backend(case: &CaseLine) -> String {
    match (case.runtime.as_str(), case.backend.as_str()) {
        ("native" | "", backend) => backend.to_owned(),
        (runtime, "") => runtime.to_owned(),
        (runtime, backend) => format!("{runtime}/{backend}"),
    }
}

/// The section that a case stands in: the value of the parameter that its benchmark declares, or the benchmark's name.
pub fn section<'c>(case: &'c CaseLine, declared: Option<&Declared>) -> &'c str {
    let name = declared.map_or("", |declared| declared.show.section.as_str());
    case.parameters.get(name).and_then(Value::as_str).unwrap_or(&case.benchmark)
}

/// What one thing that was timed is called: `time of a step`.
pub fn timed(operation: &Operation) -> String {
    let timed = operation.declared.map_or("call", |declared| declared.show.timed.as_str());
    format!("time of one {timed}")
}

/// What a benchmark declared when the run was taken.
pub fn declaration<'d>(declared: &'d [Declared], benchmark: &str) -> Option<&'d Declared> {
    declared.iter().find(|declared| declared.name == benchmark)
}

/// Whether calls find their data in the caches: back to back on the same buffers they do, as far as these hold it. None
/// where calls are not back to back, or have no buffers.
pub fn cache(case: &CaseLine) -> Option<&'static str> {
    let repeats = case.mode != terms::Mode::Isolated && case.bytes.is_some();
    let word = case.parameters.get("cache").or(found::CACHE.value(case));
    let cold = word.and_then(Value::as_str) == Some("cold");
    repeats.then_some(if cold { "cache-cold" } else { "cache-warm" })
}

/// What is said of ranks on one host where others are on several.
const WITHIN: &str = "within a host";

/// How a field is written in labels.
pub fn written(declared: Option<&Declared>, name: &str, value: &str) -> String {
    match value {
        "1" if name == "hosts" => WITHIN.to_owned(),
        _ if name == "hosts" => format!("across {value} hosts"),
        _ => label_of(declared, name, value),
    }
}

/// The run's operations, in order of first appearance.
pub fn operations<'a>(cases: &'a [CaseLine], declared: &'a [Declared]) -> Vec<Operation<'a>> {
    let mut operations: Vec<Operation> = Vec::new();
    let mut places: HashMap<&str, (usize, ConfigurationPlaces)> = HashMap::new();
    let mut stems = Stems::default();
    let (fields, none) = (declared.iter().map(GroupedFields::of).collect::<Vec<_>>(), GroupedFields::default());
    for case in cases {
        let at = declared.iter().position(|declared| declared.name == case.benchmark);
        let (declared, fields) = (at.map(|at| &declared[at]), at.map_or(&none, |at| &fields[at]));
        let name = section(case, declared);
        let (at, places) = places.entry(name).or_insert_with(|| {
            let (name, stem) = (name.to_owned(), stems.of_name(name));
            let (constants, configurations) = (String::new(), Vec::new());
            operations.push(Operation { name, stem, constants, declared, configurations });
            (operations.len() - 1, ConfigurationPlaces::default())
        });
        places.put(&mut operations[*at].configurations, case, fields);
    }
    for configuration in operations.iter_mut().flat_map(|operation| &mut operation.configurations) {
        configuration.points = configuration.cases.iter().filter_map(|case| Measured::from_case(case)).collect();
        configuration.points.sort_by_key(|point| point.bytes);
        configuration.points.shrink_to_fit();
    }
    label(&mut operations);
    operations
}

/// Stems of names. Names that differ may become the same file name; a number then tells them apart.
#[derive(Default)]
struct Stems {
    taken: HashSet<FileStem>,
    /// The number to try next, by the stem without one.
    next: HashMap<FileStem, u64>,
}

impl Stems {
    fn of_name(&mut self, name: &str) -> FileStem {
        let plain = FileStem::of(name);
        if self.taken.insert(plain.clone()) {
            return plain;
        }
        let next = self.next.entry(plain.clone()).or_insert(2);
        loop {
            let stem = plain.and(*next);
            *next += 1;
            if self.taken.insert(stem.clone()) {
                return stem;
            }
        }
    }
}

/// The fields of an operation that tell its configurations apart.
fn varying_in(operation: &Operation) -> BTreeSet<String> {
    let configurations = &operation.configurations;
    let quiet = |name: &str| is_quiet(operation.declared, name);
    let names: BTreeSet<&str> = configurations.iter().flat_map(|c| c.others.iter().map(|(name, _)| &**name)).collect();
    let varies = |name: &str| {
        let values: BTreeSet<Option<&str>> = configurations.iter().map(|c| value_of(&c.others, name)).collect();
        // Quiet fields differ from another value, not from a missing one.
        values.iter().filter(|value| value.is_some() || !quiet(name)).count() > 1
    };
    let mut varying: BTreeSet<String> = names.into_iter().filter(|name| varies(name)).map(str::to_owned).collect();
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
    let all = operations.iter().flat_map(|operation| &operation.configurations);
    let mut styles = Styles::new(all.map(|configuration| configuration.backend.as_str()));
    for operation in operations.iter_mut() {
        let everywhere = |name: &str| operation.configurations.iter().all(|c| value_of(&c.others, name).is_some());
        let constant = |c: &Configuration| {
            let quiet = |name: &str| is_quiet(operation.declared, name);
            let hidden = |name: &str| varying.contains(name) || quiet(name) || !everywhere(name);
            let backend = (!varying.contains("backend")).then(|| c.backend.clone());
            // A switch that is off everywhere is worth no word, unless it declares one.
            let off = |label: &str| label.starts_with("no ");
            let shown = c.others.iter().filter(|(name, _)| !hidden(name));
            let others = shown.map(|(name, value)| written(operation.declared, name, value));
            let others = others.filter(|label| !off(label));
            // Two fields may have one word, such as types of products and of sums.
            let mut said = HashSet::new();
            let parts = backend.into_iter().chain(others).filter(|part| !part.is_empty() && said.insert(part.clone()));
            parts.collect::<Vec<_>>().join(", ")
        };
        let constants = operation.configurations.first().map(constant).unwrap_or_default();
        operation.constants = constants;
        let declared = operation.declared;
        for configuration in &mut operation.configurations {
            configuration.variant_fields = variant_fields_of(configuration, declared, &varying);
            configuration.variant = configuration.variant_without(&[]);
            let backend = varying.contains("backend").then(|| configuration.backend.clone());
            let parts = [backend.unwrap_or_default(), ranks(configuration.ranks), configuration.variant.clone()];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            configuration.label = parts.join(", ");
            configuration.style = styles.style_of(&configuration.label, &configuration.backend);
        }
    }
    // A line over several configurations is none of them, and the same in all sections.
    for configuration in operations.iter_mut().flat_map(|operation| &mut operation.configurations) {
        configuration.style_over_ranks = styles.style_of(&configuration.label_over_ranks(), &configuration.backend);
    }
}

fn is_quiet(declared: Option<&Declared>, name: &str) -> bool {
    declared.and_then(|declared| declared.field(name)).is_some_and(|field| field.label == QUIET)
}

fn variant_fields_of(
    configuration: &Configuration,
    declared: Option<&Declared>,
    varying: &BTreeSet<String>,
) -> Vec<(String, String)> {
    let shown = configuration.others.iter().filter(|(name, _)| varying.contains(&**name));
    let mut fields: Vec<(String, String)> =
        shown.map(|(name, value)| (name.to_string(), written(declared, name, value))).collect();
    fields.shrink_to_fit();
    // A model's ranks are on no host.
    let real = configuration.cases.iter().all(|case| !case.simulated);
    if real && varying.contains("hosts") && value_of(&configuration.others, "hosts").is_none() {
        fields.push(("hosts".to_owned(), WITHIN.to_owned()));
    }
    fields
}

/// `all_reduce 64 KiB, 2 ranks, shm`.
pub fn named(what: &str, bytes: Option<u64>, ranks: u32, backend: &str) -> String {
    let size = bytes.map_or(String::new(), |bytes| format!(" {}", crate::number::bytes(bytes)));
    let backend = if backend.is_empty() { String::new() } else { format!(", {backend}") };
    format!("{what}{size}, {}{backend}", self::ranks(ranks))
}

/// `1 rank`, `2 ranks`.
pub fn ranks(number: u32) -> String {
    crate::number::count(number as usize, "rank", "ranks")
}

fn value_of<'f>(fields: &'f [(Arc<str>, Arc<str>)], name: &str) -> Option<&'f str> {
    fields.iter().find(|(other, _)| **other == *name).map(|(_, value)| &**value)
}

/// The warning that must stand over every page and picture drawn from these cases, if any of them was not a plain
/// measurement.
pub fn banner<'a>(cases: impl Iterator<Item = &'a CaseLine>) -> Option<String> {
    const WARNINGS: [(Caveat, &str, &str); 6] = [
        (Caveat::Simulated, "SIMULATED", "times were computed by a model and never measured"),
        (Caveat::Imported, "IMPORTED", "measured by another program, with its own statistic and checks"),
        (Caveat::Emulated, "EMULATED", "the device was a stand-in in host memory, not a GPU"),
        (Caveat::Paced, "PACED", "the backend was slowed down to a given link"),
        (Caveat::ComputeAsleep, "COMPUTE ASLEEP", "ranks slept instead of computing"),
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
