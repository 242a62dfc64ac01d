//! The metrics that NCCL Inspector writes for Prometheus (`plugins/profiler/inspector/inspector_prom.cc` of NCCL 2.30
//! and later, and RCCL's, which follows it): one gauge a line, for each communicator, operation and range of sizes of
//! one GPU.
//!
//! A range such as `134-135MB` (of 1024 x 1024 bytes) is all that the file says of sizes, and the printed bandwidth
//! is a geometric mean while the time is an arithmetic one. So no case of `collective` has these figures: they become
//! cases of `nccl_inspector`, which nothing here runs, and two jobs can be compared range by range.

mod series;

use std::borrow::Cow;
use std::collections::BTreeMap;

use record::show::{Column, Format as Shown, Show, Table};
use record::{About, Better, Metric};
use terms::{Error, Field, Kind, Named as _, Role};

use super::nccl::{fact, plain};
use super::runs::MOST_RESULTS;
use crate::collective;
use crate::{Content, Details, Figures, Format, Results, Shape, Source};
use series::{LineLabels, Sample};

/// The format.
pub(super) struct NcclInspectorProm;

/// More ranks than any communicator has.
const MOST_RANKS: u64 = 1 << 24;
/// The major version of the interface that was seen.
const VERSION: &str = "v5.";

static FIELDS: &[Field] = &[
    Field::new(Kind::Text, None, "the operation, as NCCL names it").named("operation").always(),
    Field::new(Kind::Whole(1, MOST_RANKS), None, "ranks of the communicator").named("ranks").always().role(Role::World),
    Field::new(Kind::Whole(1, MOST_RANKS), None, "nodes of the communicator").named("nodes").role(Role::World),
    Field::new(Kind::Text, None, "range of message sizes, in units of 1024").named("message_size").always(),
    Field::new(Kind::Text, None, "the communicator, as the program names it").named("communicator"),
    Field::new(Kind::Text, None, "algorithm and protocol").named("algorithm").role(Role::Implementation),
];

/// What such a file becomes.
pub(crate) static ABOUT: About = About {
    name: "nccl_inspector",
    doc: "calls of NCCL in a job, as its Inspector counts them by range of sizes",
    fields: &[|| FIELDS],
    metrics: &[Metric::new(
        "busbw_gbs",
        "GB/s",
        Better::Higher,
        "bus bandwidth: geometric mean over calls, as NCCL prints it",
    )],
    check: |_| Ok(()),
    command: None,
    show,
};

fn show() -> Show {
    let columns = vec![
        Column::new("operation", "operation", Shown::Word),
        Column::new("ranks", "ranks", Shown::Count),
        Column::new("nodes", "nodes", Shown::Count).gives_way(3),
        Column::new("message size", "message_size", Shown::Word),
        Column::new("communicator", "communicator", Shown::Word).gives_way(4),
        Column::new("algorithm", "algorithm", Shown::Word).gives_way(2),
        Column::time("call"),
        Column::new("busbw GB/s", "busbw_gbs", Shown::Number),
    ];
    Show {
        timed: "call".to_owned(),
        tables: vec![Table { columns, ..Table::default() }],
        headline: vec!["busbw_gbs".to_owned()],
        ..Show::default()
    }
}

impl Format for NcclInspectorProm {
    fn about(&self) -> (&'static str, &'static str) {
        ("nccl_inspector_prom", "NCCL Inspector: the metrics of one GPU for Prometheus (.prom)")
    }

    fn marks(&self) -> &'static [&'static str] {
        &["nccl_", "_exec_time_microseconds", "bus_bandwidth_gbs"]
    }

    fn recognises(&self, source: &Source) -> bool {
        source.text().contains("_exec_time_microseconds") && source.lines().any(|line| series::is_one(line.text))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut lost: Vec<(usize, String)> = Vec::new();
        let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut calls: BTreeMap<String, Calls> = BTreeMap::new();
        let cut_at = series::cut_at(source);
        for line in source.lines().filter(|line| series::is_one(line.text)) {
            let sample = match series::sample(line.text, cut_at) {
                Ok(sample) => sample,
                Err(why) => {
                    lost.push((line.number, why));
                    continue;
                }
            };
            let key = (sample.metric.to_owned(), sample.labels.text.clone());
            if let Some(first) = seen.insert(key, line.number) {
                let what = format!("`{}` stands twice with the same labels, first in line {first}", sample.metric);
                return Err(source.error(line.number, what).hint("keep one dump a file: each replaces the one before"));
            }
            let next = calls.len();
            let calls = calls.entry(sample.labels.text.clone());
            calls.or_insert_with(|| Calls::new(next, line.number, &sample)).take(&sample);
        }
        let mut calls: Vec<Calls> = calls.into_values().collect();
        calls.sort_by_key(|calls| calls.place);
        results(source, &calls, lost).map(Content::Results)
    }
}

/// What the lines with the same labels say.
struct Calls {
    /// Place of the first line.
    place: usize,
    line: usize,
    labels: LineLabels,
    time_us: Option<f64>,
    busbw: Option<f64>,
    count: Option<f64>,
    details: Details,
}

impl Calls {
    fn new(place: usize, line: usize, sample: &Sample<'_>) -> Self {
        let labels = sample.labels.clone();
        Self { place, line, labels, time_us: None, busbw: None, count: None, details: Details::default() }
    }

    fn take(&mut self, sample: &Sample<'_>) {
        let seconds = Some(sample.value * 1e-6);
        match series::role(sample.metric) {
            Some(series::Is::Time) => self.time_us = Some(sample.value),
            Some(series::Is::Busbw) => self.busbw = Some(sample.value),
            Some(series::Is::Count) => self.count = Some(sample.value),
            Some(series::Is::Min) => self.details.min = seconds,
            Some(series::Is::Max) => self.details.max = seconds,
            Some(series::Is::P50) => self.details.p50 = seconds,
            Some(series::Is::P95) => self.details.p95 = seconds,
            Some(series::Is::P99) => self.details.p99 = seconds,
            Some(series::Is::Follows) | None => {}
        }
    }
}

/// One record a GPU and job.
fn results(source: &Source, calls: &[Calls], lost: Vec<(usize, String)>) -> Result<Vec<Results>, Error> {
    let mut all: Vec<([String; 4], Results)> = Vec::new();
    for calls in calls {
        let label = |name: &str| calls.labels.get(name).unwrap_or("unknown").to_owned();
        let key = ["node", "gpu", "slurm_job_id", "version"].map(label);
        let at = all.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            all.push((key.clone(), empty(calls, &key)));
            all.len() - 1
        });
        add(&mut all[at].1, calls);
    }
    if all.is_empty() {
        let (line, why) =
            lost.into_iter().next().unwrap_or((1, "the file holds no metric of NCCL Inspector".to_owned()));
        return Err(source.error(line, why));
    }
    if all.len() > MOST_RESULTS {
        let what = format!("{} holds metrics of more than {MOST_RESULTS} GPUs and jobs", source.name());
        return Err(Error::new(what).hint("split it by nodes"));
    }
    lost.into_iter().for_each(|(line, why)| all[0].1.omit(line, why));
    Ok(all.into_iter().map(|(_, results)| results).collect())
}

fn empty(calls: &Calls, [node, gpu, job, version]: &[String; 4]) -> Results {
    let statistic = "mean over the calls of one GPU since the dump before, with waiting for other ranks";
    let mut results = Results::new("NCCL Inspector", statistic);
    results.begin_run();
    if node != "unknown" {
        results.hosts.push(plain(node));
    }
    for (name, value) in [("gpu", gpu), ("slurm job", job), ("version of the metrics", version)] {
        if value != "unknown" {
            results.facts.insert(name.to_owned(), fact(value));
        }
    }
    if !version.starts_with(VERSION) {
        results.note(format!(
            "line {}: version `{}` of NCCL Inspector's metrics is new to this reader, which knows v5.1; all metrics \
             that it needs are known",
            calls.line,
            plain(version)
        ));
    }
    results
        .note("sizes are ranges in units of 1024, as NCCL counts bytes: `1-2MB` begins at 1 MiB and ends below 2 MiB");
    results.note("busbw_gbs is a geometric mean and does not follow from size and mean time");
    results
}

fn add(results: &mut Results, calls: &Calls) {
    let time_us = match calls.time_us {
        Some(time) if time > 0.0 => time,
        Some(time) => return results.omit(calls.line, format!("a time of {time} us is not a time")),
        None => return results.omit(calls.line, "a bandwidth without its time: the line of the time is missing"),
    };
    let shape = match shape(&calls.labels) {
        Ok(shape) => shape,
        Err(why) => return results.omit(calls.line, why),
    };
    let metrics = calls.busbw.filter(|busbw| *busbw > 0.0).map(|busbw| ("busbw_gbs", busbw)).into_iter().collect();
    let details = Details { metrics, ..calls.details.clone() };
    let iterations = calls.count.filter(|count| *count >= 1.0 && *count < 1e15).map(|count| count as u64);
    let figures = Figures { time_s: time_us * 1e-6, iterations, wrong: None, details: Some(Box::new(details)) };
    let place = results.place(shape);
    if results.shapes()[place].1.is_empty() {
        results.add_at(place, figures);
    } else {
        results.omit(calls.line, "another line differs only in labels that no case has");
    }
}

/// An operation as ours is called, where there is one: `AllReduce` is `all_reduce`.
fn named(operation: &str) -> String {
    match (collective::op(operation), operation) {
        (Some(op), _) => op.name().to_owned(),
        (None, "Send") => "send".to_owned(),
        (None, "Recv") => "recv".to_owned(),
        (None, other) => other.to_owned(),
    }
}

/// What the calls have in common.
fn shape(labels: &LineLabels) -> Result<Shape, String> {
    let needed = |name: &str| labels.get(name).ok_or_else(|| format!("the label `{name}` is missing"));
    let whole = |name: &str| -> Result<String, String> {
        let text = needed(name)?;
        let number = text.parse::<u64>().ok().filter(|number| (1..=MOST_RANKS).contains(number));
        number.map(|number| number.to_string()).ok_or_else(|| format!("`{name}` is `{}`, not a number", plain(text)))
    };
    let operation = labels.get("collective").or(labels.get("p2p_operation"));
    let operation = operation.ok_or("neither the label `collective` nor `p2p_operation` is there")?;
    // Commas separate values of a field.
    let word = |text: &str| Cow::from(plain(text).replace(',', " "));
    let size = needed("message_size")?;
    if !series::is_range(size) {
        return Err(format!("expected a range of sizes such as `1-2MB`, found `{}`", plain(size)));
    }
    let mut fields: Vec<(&'static str, Cow<'static, str>)> = vec![
        ("operation", word(&named(operation))),
        ("ranks", whole("nranks")?.into()),
        ("nodes", whole("n_nodes")?.into()),
        ("message_size", word(size)),
    ];
    for (field, label) in [("communicator", "comm_name"), ("algorithm", "algo_proto")] {
        let value = labels.get(label).filter(|value| !value.is_empty() && *value != "unknown");
        fields.extend(value.map(|value| (field, word(value))));
    }
    Ok(Shape { benchmark: ABOUT.name, fields, device: "cuda", implementation: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_declaration_has_no_faults() {
        assert_eq!(ABOUT.faults(), Vec::<String>::new());
    }
}
