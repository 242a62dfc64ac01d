//! Which charts a run has, and what is in them.

use std::collections::HashMap;

use crate::chart::{Axis, ChartSpec, Point, Quantity, Reference, Scale, Series};
use crate::escape::file_stem;
use crate::number::bytes;
use crate::study::{Configuration, Estimate, Measured, Operation, banner, timed};
use crate::{Run, drift, origin, training_charts};

/// A chart and the stem of its files' names.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) stem: String,
    pub(crate) spec: ChartSpec,
}

/// The size at which backends are compared, if it was measured: that of the study in the first report.
const COMPARED: u64 = 100_000_000;
/// Limits of up to this many series are drawn each; of more, only the span that they cover.
const LIMITS_APART: usize = 4;

const BAND: &str = "Points: medians; bands: 95% intervals of the median.";

/// The charts of one operation.
pub(crate) fn of_operation(run: &Run, operation: &Operation) -> Vec<Named> {
    let stem = &operation.stem;
    let sizes = operation.points().filter_map(|point| point.bytes).collect::<std::collections::BTreeSet<_>>();
    let mut charts = Vec::new();
    let mut add = |kind: &str, spec: Option<ChartSpec>| {
        charts.extend(spec.map(|spec| Named { stem: format!("{stem}-{kind}"), spec }));
    };
    let time = Measure { title: timed(operation), ..TIME };
    add("time", against_bytes(operation, time));
    add("busbw", against_bytes(operation, BUSBW).map(|spec| with_limits(spec, operation)));
    if sizes.len() > 1 {
        add("algbw", against_bytes(operation, ALGBW));
    }
    match sizes.last() {
        Some(largest) => add("ranks", by_ranks(operation, Some(*largest), BUSBW)),
        None => add("ranks", by_ranks(operation, None, time)),
    }
    if let Some(size) = compared_size(operation) {
        add("backends", by_ranks(operation, Some(size), time));
    }
    for drift::Long { configuration, point, samples } in drift::charted(run, operation) {
        let spec = drift::chart(operation, &configuration.label, configuration.style, point.case, samples);
        add(&format!("drift-{}", file_stem(&point.case.id)), Some(spec));
    }
    let own = training_charts::charts(operation);
    if !own.is_empty() {
        // Times of weak and of strong scaling do not belong on one axis.
        charts.retain(|chart| chart.stem != format!("{stem}-ranks") && chart.stem != format!("{stem}-backends"));
    }
    charts.extend(own);
    for chart in &mut charts {
        chart.spec.origin = origin::lines(run, operation);
    }
    charts
}

/// What is drawn upwards.
#[derive(Clone, Copy)]
struct Measure {
    name: &'static str,
    title: &'static str,
    quantity: Quantity,
    of: fn(&Measured) -> Option<Estimate>,
}

const TIME: Measure =
    Measure { name: "time", title: "time of one call", quantity: Quantity::Seconds, of: |point| Some(point.time) };
const BUSBW: Measure =
    Measure { name: "busbw", title: "busbw, GB/s", quantity: Quantity::Bandwidth, of: |point| point.busbw };
const ALGBW: Measure =
    Measure { name: "algbw", title: "algbw, GB/s", quantity: Quantity::Bandwidth, of: |point| point.algbw };

fn point(x: f64, estimate: Estimate) -> Point {
    Point { x, y: estimate.mid, low: estimate.low, high: estimate.high }
}

fn series_of(configuration: &Configuration, points: Vec<Point>) -> Option<Series> {
    let (label, style) = (configuration.label.clone(), configuration.style);
    (!points.is_empty()).then_some(Series { label, style, points })
}

fn against_bytes(operation: &Operation, measure: Measure) -> Option<ChartSpec> {
    let series = |configuration: &Configuration| {
        let points = configuration.sized().filter_map(|(size, p)| Some(point(size as f64, (measure.of)(p)?)));
        series_of(configuration, points.collect())
    };
    let series: Vec<Series> = operation.configurations.iter().filter_map(series).collect();
    (!series.is_empty()).then(|| ChartSpec {
        title: format!("{}: {} against bytes", operation.name, measure.name),
        subtitle: operation.constants.clone(),
        banner: banner(operation.points().map(|point| point.case)),
        note: BAND.to_owned(),
        x: Axis { title: "bytes".to_owned(), quantity: Quantity::Bytes, scale: Scale::Log },
        y: Axis { title: measure.title.to_owned(), quantity: measure.quantity, scale: Scale::Log },
        series,
        ..ChartSpec::default()
    })
}

/// Adds the limit of each series; of many series, the lowest and the highest limit.
fn with_limits(mut spec: ChartSpec, operation: &Operation) -> ChartSpec {
    let limits = |configuration: &Configuration| {
        let points = configuration.sized().filter_map(|(size, point)| Some([size as f64, point.limit_gbs()?]));
        points.collect::<Vec<_>>()
    };
    let mut references: Vec<Reference> = Vec::new();
    for configuration in &operation.configurations {
        let points = limits(configuration);
        if !points.is_empty() {
            let label = format!("limit, {}", configuration.label);
            references.push(Reference { label, style: Some(configuration.style), points });
        }
    }
    if references.len() == 1 {
        references[0].label = "limit".to_owned();
    }
    if references.len() > LIMITS_APART {
        references = span(&references);
    }
    if !references.is_empty() {
        spec.note = format!("{BAND} Dashed: the busbw at 100% of the memory limit measured beside the case.");
    }
    spec.references = references;
    spec
}

fn span(references: &[Reference]) -> Vec<Reference> {
    let mut ends: Vec<[f64; 3]> =
        references.iter().flat_map(|reference| &reference.points).map(|[x, y]| [*x, *y, *y]).collect();
    ends.sort_by(|a, b| a[0].total_cmp(&b[0]));
    ends.dedup_by(|next, kept| {
        let same = next[0] == kept[0];
        if same {
            (kept[1], kept[2]) = (kept[1].min(next[1]), kept[2].max(next[2]));
        }
        same
    });
    let line = |label: &str, which: usize| Reference {
        label: label.to_owned(),
        style: None,
        points: ends.iter().map(|end| [end[0], end[which]]).collect(),
    };
    vec![line("lowest limit", 1), line("highest limit", 2)]
}

/// One size (or an operation without sizes) against ranks. None unless at least two rank counts or two series have it.
fn by_ranks(operation: &Operation, size: Option<u64>, measure: Measure) -> Option<ChartSpec> {
    let mut series: Vec<Series> = Vec::new();
    let mut keys = HashMap::new();
    // Colours that no configuration has: a line over several rank counts is none of them.
    let styles = operation.configurations.iter().map(|configuration| configuration.style + 1).max().unwrap_or(0);
    for configuration in &operation.configurations {
        let measured = match size {
            Some(size) => configuration.at(size),
            None => configuration.points.first(),
        };
        let Some(estimate) = measured.and_then(measure.of) else { continue };
        let key = (configuration.backend.as_str(), configuration.others.as_slice());
        let next = keys.len();
        let at = *keys.entry(key).or_insert_with(|| {
            let variant = &configuration.variant;
            let apart = if variant.is_empty() { "" } else { ", " };
            let label = format!("{}{apart}{variant}", configuration.backend);
            series.push(Series { label, style: styles + next, points: Vec::new() });
            next
        });
        series[at].points.push(point(f64::from(configuration.ranks), estimate));
    }
    for one in &mut series {
        one.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    let points: usize = series.iter().map(|one| one.points.len()).sum();
    let at = size.map(|size| format!(" at {}", bytes(size))).unwrap_or_default();
    let highest = series.iter().flat_map(|one| &one.points).map(|point| point.y).fold(0.0, f64::max);
    let lowest = series.iter().flat_map(|one| &one.points).map(|point| point.y).fold(f64::INFINITY, f64::min);
    // Lengths from zero compare best, until the small ones can no longer be told apart.
    let scale = if highest > 20.0 * lowest { Scale::Log } else { Scale::FromZero };
    let cases = operation.points().filter(|point| point.bytes == size).map(|point| point.case);
    (points > 1).then(|| ChartSpec {
        title: format!("{}{at}: {} against ranks", operation.name, measure.name),
        subtitle: operation.constants.clone(),
        banner: banner(cases),
        note: "Points: medians; bars: 95% intervals of the median.".to_owned(),
        x: Axis { title: "ranks".to_owned(), quantity: Quantity::Count, scale: Scale::Steps },
        y: Axis { title: measure.title.to_owned(), quantity: measure.quantity, scale },
        series,
        ..ChartSpec::default()
    })
}

/// The size at which two backends meet that is nearest to 100 MB.
fn compared_size(operation: &Operation) -> Option<u64> {
    let several = |size: &u64| {
        let with = operation.configurations.iter().filter(|configuration| configuration.at(*size).is_some());
        let backends: std::collections::BTreeSet<&str> = with.map(|c| c.backend.as_str()).collect();
        backends.len() > 1
    };
    let sizes: std::collections::BTreeSet<u64> = operation.points().filter_map(|point| point.bytes).collect();
    let sizes = sizes.into_iter().filter(several);
    let distance = |size: &u64| (*size as f64 / COMPARED as f64).ln().abs();
    sizes.min_by(|a, b| distance(a).total_cmp(&distance(b)).then(a.cmp(b)))
}
