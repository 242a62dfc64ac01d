//! `rankmark.prom`: a run as samples in the text format of Prometheus, for the textfile collector of node_exporter.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>. Names follow its conventions: base
//! units as suffixes (seconds, bytes, flops), shares as ratios. Every metric is a gauge, without a time of its own, which
//! the collector refuses. A sample carries whether its case was simulated, so nobody can lose that mark.

use std::collections::HashSet;
use std::fmt::Write as _;

use record::{CaseLine, DeclaredMetric, RunEnd};
use terms::{Named as _, Status};

use crate::escape::one_line;
use crate::{Artifact, Error, Format, Run, study, words::names};

/// The run as metrics.
#[derive(Debug)]
pub(crate) struct Prometheus;

impl Format for Prometheus {
    fn about(&self) -> (&'static str, &'static str) {
        ("prometheus", "rankmark.prom: times and metrics of each case, for the textfile collector")
    }

    fn by_default(&self) -> bool {
        false
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        Ok(vec![Artifact::new("rankmark.prom", text(run).into_bytes())])
    }
}

/// A metric with its samples; the format wants them together.
struct MetricFamily {
    name: String,
    help: String,
    /// Labels in braces, and a value.
    samples: Vec<(String, f64)>,
}

impl MetricFamily {
    fn new(name: impl Into<String>, help: impl Into<String>) -> Self {
        Self { name: name.into(), help: help.into(), samples: Vec::new() }
    }

    fn with_samples(name: &str, help: &str, samples: Vec<(String, f64)>) -> Self {
        Self { samples, ..Self::new(name, help) }
    }
}

fn text(run: &Run) -> String {
    let mut families = of_run(run);
    families.extend(of_cases(run));
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let (name, help) = (&family.name, family.help.replace('\\', r"\\"));
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        // The same labels twice would make the whole file unreadable.
        let mut seen = HashSet::new();
        for (labels, value) in family.samples.iter().filter(|(labels, value)| value.is_finite() && seen.insert(labels))
        {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    }
    text
}

fn of_run(run: &Run) -> Vec<MetricFamily> {
    let mark = run.cases.iter().any(|case| case.simulated).to_string();
    let info = labels(&[
        ("run", &run.title),
        ("program", &run.program),
        ("machine", &run.machine),
        ("started", &run.started),
        ("simulated", &mark),
        ("incomplete", &run.end.phrase().unwrap_or_default()),
    ]);
    let own = labels(&[("run", &run.title)]);
    let ended = match run.end {
        RunEnd::Ended => 1.0,
        RunEnd::Interrupted(_) | RunEnd::Killed | RunEnd::Running | RunEnd::Unknown | RunEnd::Part => 0.0,
    };
    let started = run.started.parse::<jiff::Timestamp>().ok().map(|time| time.as_second() as f64);
    let statuses = [Status::Ok, Status::Failed, Status::Skipped, Status::NotRun];
    let number = |status: Status| run.cases.iter().filter(|case| case.status == status).count() as f64;
    let of_status = |status: &Status| (labels(&[("run", &run.title), ("status", status.name())]), number(*status));
    let missed = run.cases.iter().map(|case| case.gates_missed.len()).sum::<usize>() as f64;
    vec![
        MetricFamily::with_samples("rankmark_run_info", "What ran: always 1.", vec![(info, 1.0)]),
        MetricFamily::with_samples(
            "rankmark_run_start_time_seconds",
            "When the run started, in seconds since 1970.",
            started.map(|time| (own.clone(), time)).into_iter().collect(),
        ),
        MetricFamily::with_samples(
            "rankmark_run_cases",
            "Cases of the run by how they ended.",
            statuses.iter().map(of_status).collect(),
        ),
        MetricFamily::with_samples(
            "rankmark_run_ended",
            "1 if the run came to its end; 0 if it was interrupted or killed, or is still running.",
            vec![(own.clone(), ended)],
        ),
        MetricFamily::with_samples("rankmark_run_gates_missed", "Gates that the run missed.", vec![(own, missed)]),
    ]
}

/// A sample a case of its time, of wrong elements, and of each declared metric that is one number.
fn of_cases(run: &Run) -> Vec<MetricFamily> {
    let mut families = vec![
        MetricFamily::new("rankmark_case_time_seconds", "Time of one call: the median over trials, the slowest rank."),
        MetricFamily::new("rankmark_case_time_low_seconds", "Low end of the 95% interval of the time."),
        MetricFamily::new("rankmark_case_time_high_seconds", "High end of the 95% interval of the time."),
        MetricFamily::new("rankmark_case_wrong_elements", "Wrong elements over all ranks."),
    ];
    for case in run.cases.iter().filter(|case| case.status == Status::Ok) {
        let labels = of_case(run, case);
        let ends = case.time_s.as_ref().and_then(|time| time.printed()).map(|(ends, _)| ends);
        let values = [
            case.time_s.as_ref().map(|time| time.median),
            ends.map(|ends| ends[0]),
            ends.map(|ends| ends[1]),
            case.wrong.map(|wrong| wrong as f64),
        ];
        for (family, value) in families.iter_mut().zip(values) {
            family.samples.extend(value.map(|value| (labels.clone(), value)));
        }
        let declared = study::declaration(&run.benchmarks, &case.benchmark);
        for metric in declared.iter().flat_map(|declared| &declared.metrics).filter(|metric| metric.shape.is_number()) {
            let Some(value) = view::number_at(case, &metric.name) else { continue };
            let (name, factor) = named(metric);
            let place = families.iter().position(|family| family.name == name).unwrap_or_else(|| {
                families.push(MetricFamily::new(name, sentence(&metric.doc)));
                families.len() - 1
            });
            families[place].samples.push((labels.clone(), value * factor));
        }
    }
    families
}

fn sentence(doc: &str) -> String {
    let doc = one_line(doc);
    let mut characters = doc.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", characters.as_str().trim_end_matches('.'))
}

fn of_case(run: &Run, case: &CaseLine) -> String {
    let (ranks, bytes) = (case.ranks.to_string(), case.bytes.map(|bytes| bytes.to_string()).unwrap_or_default());
    let simulated = case.simulated.to_string();
    labels(&[
        ("run", &run.title),
        ("id", &case.id),
        ("benchmark", &case.benchmark),
        ("op", names::what(case)),
        ("backend", &case.backend),
        ("runtime", &case.runtime),
        ("dtype", case.dtype.as_deref().unwrap_or_default()),
        ("ranks", &ranks),
        ("bytes", &bytes),
        ("simulated", &simulated),
    ])
}

/// Labels in braces. An empty label is the same as none.
fn labels(pairs: &[(&str, &str)]) -> String {
    let one = |(name, value): &(&str, &str)| {
        let value = one_line(value);
        let escaped = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        (!value.is_empty()).then(|| format!("{name}=\"{escaped}\""))
    };
    let shown: Vec<String> = pairs.iter().filter_map(one).collect();
    if shown.is_empty() { String::new() } else { format!("{{{}}}", shown.join(",")) }
}

/// A unit of declared metrics: words of a metric's name that say it, what stands for a name of nothing else, the suffix of
/// Prometheus, and how many of its units one is.
struct MetricUnit {
    unit: &'static str,
    words: &'static [&'static str],
    alone: &'static str,
    suffix: &'static str,
    factor: f64,
}

static UNITS: &[MetricUnit] = &[
    MetricUnit { unit: "GB/s", words: &["gbs"], alone: "bandwidth", suffix: "bytes_per_second", factor: 1e9 },
    MetricUnit { unit: "TFLOP/s", words: &["tflops"], alone: "compute", suffix: "flops_per_second", factor: 1e12 },
    MetricUnit { unit: "GFLOP/s", words: &["gflops"], alone: "compute", suffix: "flops_per_second", factor: 1e9 },
    MetricUnit { unit: "s", words: &["s"], alone: "time", suffix: "seconds", factor: 1.0 },
    MetricUnit { unit: "ms", words: &["ms"], alone: "time", suffix: "seconds", factor: 1e-3 },
    MetricUnit { unit: "us", words: &["us"], alone: "time", suffix: "seconds", factor: 1e-6 },
    MetricUnit { unit: "ns", words: &["ns"], alone: "time", suffix: "seconds", factor: 1e-9 },
    MetricUnit { unit: "bytes", words: &["bytes"], alone: "size", suffix: "bytes", factor: 1.0 },
    MetricUnit {
        unit: "tokens/s",
        words: &["tokens", "per", "s"],
        alone: "throughput",
        suffix: "tokens_per_second",
        factor: 1.0,
    },
    MetricUnit {
        unit: "samples/s",
        words: &["samples", "per", "s"],
        alone: "throughput",
        suffix: "samples_per_second",
        factor: 1.0,
    },
    MetricUnit { unit: "", words: &["share"], alone: "share", suffix: "ratio", factor: 1.0 },
];

/// The name of a metric, and what its values are multiplied by.
fn named(metric: &DeclaredMetric) -> (String, f64) {
    let words = words(&metric.name);
    let known = UNITS.iter().find(|unit| unit.unit == metric.unit.trim());
    // Of metrics without a unit, only shares are known to be ratios.
    let known = known.filter(|unit| !unit.unit.is_empty() || words.iter().any(|word| word == "share"));
    let (rest, suffix, factor) = match known {
        Some(unit) => {
            let rest: Vec<&str> = words.iter().map(String::as_str).filter(|word| !unit.words.contains(word)).collect();
            let named_by_unit = words.first().is_none_or(|word| unit.words.contains(&word.as_str()));
            let first = if named_by_unit { vec![unit.alone] } else { Vec::new() };
            ([first, rest].concat().join("_"), unit.suffix.to_owned(), unit.factor)
        }
        None => (words.join("_"), self::words(&metric.unit).join("_"), 1.0),
    };
    let parts = ["rankmark_case".to_owned(), rest, suffix];
    (parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("_"), factor)
}

/// The words of a name, of letters and digits only: a metric's name holds nothing else.
fn words(name: &str) -> Vec<String> {
    let split = name.split(|c: char| !c.is_ascii_alphanumeric());
    split.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use record::Better;

    use super::*;

    #[test]
    fn names_end_with_the_base_unit() {
        let of = |name: &str, unit: &str| {
            named(&DeclaredMetric {
                name: name.into(),
                shape: record::Shape::Number,
                unit: unit.into(),
                better: Better::Higher,
                doc: String::new(),
            })
        };
        for (name, unit, expected, factor) in [
            ("busbw_gbs", "GB/s", "rankmark_case_busbw_bytes_per_second", 1e9),
            ("gbs", "GB/s", "rankmark_case_bandwidth_bytes_per_second", 1e9),
            ("tflops_per_rank", "TFLOP/s", "rankmark_case_compute_per_rank_flops_per_second", 1e12),
            ("limit_share", "", "rankmark_case_limit_ratio", 1.0),
            ("tokens_per_s", "tokens/s", "rankmark_case_throughput_tokens_per_second", 1.0),
            ("pair_us", "us", "rankmark_case_pair_seconds", 1e-6),
            ("count", "elements", "rankmark_case_count_elements", 1.0),
            ("speedup", "", "rankmark_case_speedup", 1.0),
            ("a{b}\n", "x\"y", "rankmark_case_a_b_x_y", 1.0),
        ] {
            assert_eq!(of(name, unit), (expected.to_owned(), factor));
        }
    }

    #[test]
    fn labels_are_escaped_and_empty_ones_left_out() {
        assert_eq!(labels(&[("a", "x\\\"y"), ("b", ""), ("c", "1\n2")]), r#"{a="x\\\"y",c="1 2"}"#);
        assert_eq!(labels(&[("a", "")]), "");
    }
}
