//! Charts of training and memory: throughput and efficiency against ranks, weak and strong scaling apart, and bytes by
//! category.

use std::collections::{HashMap, HashSet};

use record::{CaseLine, Caveat, Declared};
use serde_json::Value;

use view::number::list;
use view::study::{Configuration, Measured, Operation, banner, written};
use view::{Axis, ChartSpec, Mark, NamedChart, Point, Quantity, Reference, Scale, Series, Stack};

use super::super::declared::{SAMPLES_PER_S, SCALING};
use super::findings::{REST, is_ours, measured, parameter, predicted, process, total_held, word};

/// The charts of training cases.
pub(super) fn of_training(operation: &Operation) -> Vec<NamedChart> {
    let mut charts = Vec::new();
    for kind in KINDS {
        charts.extend(throughput(operation, kind));
        charts.extend(efficiency(operation, kind));
    }
    charts
}

/// What stays the same while ranks grow: samples of a rank (weak) or of all together (strong).
const KINDS: [&str; 2] = ["weak", "strong"];

fn kind_of(case: &CaseLine) -> Option<String> {
    Some(SCALING.of(case)?.kind)
}

/// Samples of a step that stay the same while ranks grow.
fn constant(case: &CaseLine, kind: &str) -> Option<f64> {
    let all = (SAMPLES_PER_S.of(case)? * case.time_s.as_ref()?.median).round();
    Some(if kind == "weak" { all / f64::from(case.ranks) } else { all })
}

fn axis(title: &str, quantity: Quantity, scale: Scale) -> Axis {
    Axis { title: title.to_owned(), quantity, scale }
}

/// Fields that configurations of the operation have with different values.
fn varying<'o>(operation: &'o Operation<'_>) -> HashSet<&'o str> {
    let mut first: HashMap<&str, &str> = HashMap::new();
    let fields = operation.configurations.iter().flat_map(|configuration| configuration.others.iter());
    fields.filter(|(name, value)| *first.entry(name).or_insert(value) != &**value).map(|(name, _)| &**name).collect()
}

/// What names a line: model, strategy, who trained, and what else differs within the operation.
fn label(
    (varying, declared): (&HashSet<&str>, Option<&Declared>),
    configuration: &Configuration,
    case: &CaseLine,
    strategy: &str,
) -> String {
    const APART: [&str; 7] = ["model", "strategy", "batch", "global_batch", "micro_batches", "mesh", "ranks"];
    let mut parts = vec![word(case, "model").to_owned(), strategy.to_owned()];
    parts.extend((!is_ours(case)).then(|| configuration.backend.clone()));
    let others = configuration.others.iter().filter(|(name, _)| !APART.contains(&&**name) && varying.contains(&**name));
    parts.extend(others.map(|(name, value)| written(declared, name, value)));
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// A line of a chart against ranks, and what it holds the same.
struct ChartLine {
    series: Series,
    constant: f64,
    model: String,
    backend: String,
}

/// Throughput of each strategy against ranks, of one kind of scaling. A case that has no base of its own begins the lines
/// that hold the same; one rank divides nothing, and begins those of every strategy.
fn throughput(operation: &Operation, kind: &str) -> Option<NamedChart> {
    let varying = varying(operation);
    let point = |case: &CaseLine| {
        let (y, time) = (SAMPLES_PER_S.of(case)?, Measured::from_case(case)?.time);
        Some(Point {
            x: f64::from(case.ranks),
            y,
            low: y * time.mid / time.high,
            high: y * time.mid / time.low,
            oversubscribed: case.caveats.contains(&Caveat::Oversubscribed),
        })
    };
    let mut lines: Vec<ChartLine> = Vec::new();
    let mut cases: Vec<&CaseLine> = Vec::new();
    for (configuration, case) in
        measured(operation).into_iter().filter(|(_, case)| kind_of(case).as_deref() == Some(kind))
    {
        let (Some(point), Some(constant)) = (point(case), constant(case, kind)) else { continue };
        let label = label((&varying, operation.declared), configuration, case, word(case, "strategy"));
        cases.push(case);
        match lines.iter_mut().find(|line| line.series.label == label && line.constant == constant) {
            Some(line) => line.series.points.push(point),
            None => lines.push(ChartLine {
                series: Series { label, style: lines.len(), points: vec![point] },
                constant,
                model: word(case, "model").to_owned(),
                backend: configuration.backend.clone(),
            }),
        }
    }
    for (configuration, case) in measured(operation).into_iter().filter(|(_, case)| kind_of(case).is_none()) {
        let (Some(point), Some(constant)) = (point(case), constant(case, kind)) else { continue };
        let own = label((&varying, operation.declared), configuration, case, word(case, "strategy"));
        let begins = |line: &&mut ChartLine| {
            let same = line.series.label == own
                || (case.ranks == 1 && line.model == word(case, "model") && line.backend == configuration.backend);
            same && line.constant == constant && line.series.points.iter().all(|known| known.x != point.x)
        };
        let mut begun = false;
        lines.iter_mut().filter(begins).for_each(|line| {
            line.series.points.push(point);
            begun = true;
        });
        cases.extend(begun.then_some(case));
    }
    let held = if kind == "weak" { "a rank" } else { "a step" };
    let several = lines.iter().any(|line| line.constant != lines[0].constant);
    let series = lines.into_iter().map(|mut line| {
        line.series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
        if several {
            line.series.label += &format!(", {} samples {held}", line.constant);
        }
        line.series
    });
    let series: Vec<Series> = series.collect();
    (!series.is_empty()).then(|| NamedChart {
        stem: operation.stem.and("throughput").and(kind),
        spec: ChartSpec {
            title: format!("{}: throughput vs ranks, {kind} scaling", operation.name),
            subtitle: operation.constants.clone(),
            banner: banner(cases.into_iter()),
            note: format!(
                "{} Points: medians; bars: 95% intervals of the median.",
                if kind == "weak" {
                    "Every rank has the same number of samples."
                } else {
                    "All ranks share the same samples."
                }
            ),
            x: axis("ranks", Quantity::Count, Scale::Steps),
            y: axis("throughput, samples/s", Quantity::Bandwidth, Scale::FromZero),
            series,
            ..ChartSpec::default()
        },
    })
}

/// Efficiency against ranks, with the ideal, of one kind of scaling: where at least one case was compared with fewer ranks.
fn efficiency(operation: &Operation, kind: &str) -> Option<NamedChart> {
    let varying = varying(operation);
    let mut series: Vec<Series> = Vec::new();
    let mut cases = Vec::new();
    for (configuration, case) in
        measured(operation).into_iter().filter(|(_, case)| kind_of(case).as_deref() == Some(kind))
    {
        let Some(about) = SCALING.of(case) else { continue };
        let y = 100.0 * about.efficiency;
        // Fewer than six trials have no interval.
        let [low, high] = about.ci95.map_or([y, y], |ends| ends.map(|end| 100.0 * end));
        let oversubscribed = case.caveats.contains(&Caveat::Oversubscribed);
        let point = Point { x: f64::from(case.ranks), y, low, high, oversubscribed };
        let label = label((&varying, operation.declared), configuration, case, word(case, "strategy"));
        cases.push(case);
        match series.iter_mut().find(|known| known.label == label) {
            Some(known) => known.points.push(point),
            None => series.push(Series { label, style: series.len(), points: vec![point] }),
        }
    }
    series.iter_mut().for_each(|one| one.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    let ends = series.iter().flat_map(|one| &one.points).map(|point| point.x);
    let (first, last) = ends.fold((f64::INFINITY, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
    (!series.is_empty()).then(|| NamedChart {
        stem: operation.stem.and("efficiency").and(kind),
        spec: ChartSpec {
            title: format!("{}: {kind} scaling efficiency vs ranks", operation.name),
            subtitle: operation.constants.clone(),
            banner: banner(cases.into_iter()),
            note: "Points: throughput per rank over that of the base; bars: 95% intervals of the ratio.".to_owned(),
            x: axis("ranks", Quantity::Count, Scale::Steps),
            y: axis("efficiency, %", Quantity::Count, Scale::FromZero),
            series,
            references: vec![Reference {
                label: "ideal".to_owned(),
                style: None,
                points: vec![[first, 100.0], [last, 100.0]],
            }],
            ..ChartSpec::default()
        },
    })
}

/// Bars that a chart of memory has at most.
const BARS: usize = 24;
/// What is predicted, from the bottom up.
const CATEGORIES: [(&str, &[&str]); 6] = [
    ("parameters", &["parameters"]),
    ("gradients", &["gradients"]),
    ("optimizer", &["optimizer"]),
    ("activations", &["activations"]),
    ("communication", &["communication", "groups"]),
    ("rest", &REST),
];

/// Bytes of all ranks by category, with what was measured and what they may hold.
pub(super) fn memory(operation: &Operation) -> Option<NamedChart> {
    let all: Vec<&CaseLine> = measured(operation).into_iter().map(|(_, case)| case).collect();
    let all: Vec<&CaseLine> = all.into_iter().filter(|case| predicted(case, "total").is_some()).collect();
    let shown = &all[..all.len().min(BARS)];
    let (title, places, keys) = places(shown);
    let bars = |height: &dyn Fn(&CaseLine) -> Option<f64>| -> Vec<[f64; 2]> {
        let bar = |(case, x): (&&CaseLine, &f64)| Some([*x, height(case)?]);
        let mut bars: Vec<[f64; 2]> = shown.iter().zip(&places).filter_map(bar).collect();
        bars.sort_by(|a, b| a[0].total_cmp(&b[0]));
        bars
    };
    let process = Stack { label: "process (measured)".to_owned(), style: CATEGORIES.len(), bars: bars(&process) };
    let categories = CATEGORIES.iter().enumerate().map(|(style, (label, names))| {
        let held = |case: &CaseLine| {
            let each = |name: &&str| predicted(case, name);
            names.iter().map(each).sum::<Option<f64>>()
        };
        Stack { label: (*label).to_owned(), style, bars: bars(&held) }
    });
    let stacks = std::iter::once(process).chain(categories).filter(|stack| !stack.bars.is_empty());
    let limit = |case: &CaseLine| {
        let a_rank = parameter(case, "limit").and_then(Value::as_u64)?;
        Some(a_rank as f64 * f64::from(case.ranks))
    };
    let marks = [
        Mark { label: "measured".to_owned(), limit: false, points: bars(&total_held) },
        Mark { label: "limit, all ranks".to_owned(), limit: true, points: bars(&limit) },
    ];
    let left_out = match all.len() - shown.len() {
        0 => String::new(),
        number => format!(" {number} more cases are in the table and not drawn."),
    };
    let note = format!(
        "Bytes of all ranks together. All parts are predicted, except the process: it is measured before the case.{left_out}{keys}"
    );
    let spec = ChartSpec {
        title: format!("{}: bytes by category", operation.name),
        subtitle: operation.constants.clone(),
        banner: banner(shown.iter().copied()),
        note,
        x: axis(title, Quantity::Count, Scale::Steps),
        y: axis("bytes of all ranks", Quantity::Bytes, Scale::FromZero),
        stacks: stacks.collect(),
        marks: marks.into_iter().filter(|mark| !mark.points.is_empty()).collect(),
        ..ChartSpec::default()
    };
    (!shown.is_empty()).then(|| NamedChart { stem: operation.stem.and("bytes"), spec })
}

/// Where the bars of these cases stand: at ranks or batch where nothing else differs, else numbered, with the key.
fn places(cases: &[&CaseLine]) -> (&'static str, Vec<f64>, String) {
    let batch = |case: &CaseLine| parameter(case, "batch").and_then(Value::as_f64).unwrap_or(0.0);
    let ranks = |case: &CaseLine| f64::from(case.ranks);
    let tells = |of: &dyn Fn(&CaseLine) -> f64| {
        let mut seen: Vec<f64> = cases.iter().map(|case| of(case)).collect();
        seen.sort_by(f64::total_cmp);
        seen.windows(2).all(|pair| pair[0] != pair[1])
    };
    let rest = |case: &CaseLine, without: &[&str]| -> Vec<(String, Value)> {
        let shown = case.parameters.iter().filter(|(name, _)| !without.contains(name));
        shown.map(|(name, value)| (name.to_owned(), value.clone())).collect()
    };
    let alike = |without: &[&str]| cases.windows(2).all(|pair| rest(pair[0], without) == rest(pair[1], without));
    let places = |of: &dyn Fn(&CaseLine) -> f64| cases.iter().map(|case| of(case)).collect();
    if tells(&ranks) && alike(&["ranks", "mesh"]) {
        return ("ranks", places(&ranks), String::new());
    }
    if tells(&batch) && alike(&["batch"]) {
        return ("batch", places(&batch), String::new());
    }
    let key = |(index, case): (usize, &&CaseLine)| {
        let strategy = Some(word(case, "strategy")).filter(|strategy| !strategy.is_empty());
        let strategy = strategy.map_or(String::new(), |strategy| format!(" {strategy}"));
        format!(
            "{} {}{strategy}, {}, batch {}",
            index + 1,
            word(case, "model"),
            view::study::ranks(case.ranks),
            batch(case)
        )
    };
    let keys: Vec<String> = cases.iter().enumerate().map(key).collect();
    ("case", (1..=cases.len()).map(|number| number as f64).collect(), format!(" Cases: {}.", list(&keys)))
}
