//! Declared charts of a section.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use record::file::FileStem;
use record::show::{At, Chart, ChartKind, Format};
use record::{Better, CaseLine, Caveat};
use serde_json::Value;

use crate::number::bytes;
use crate::study::{Configuration, Estimate, Measured, Operation, banner, written};
use crate::styles::COLOURS;
use crate::{Axis, ChartSpec, Matrix, Point, Quantity, Reference, Scale, Series, Stack, number_at, one_line, value_at};

/// A chart and the stem of its files' names.
#[derive(Clone, Debug)]
pub struct NamedChart {
    /// The stem.
    pub stem: FileStem,
    /// The chart.
    pub spec: ChartSpec,
}

/// The size at which backends are compared, if it was measured: that of the study in the first report.
const COMPARED: u64 = 100_000_000;
/// Ceilings of up to this many series are drawn each; of more, only the span that they cover.
const CEILINGS_APART: usize = 4;
/// Fewer points are rows of a table, and no chart.
const FEWEST: usize = 3;
/// Bars, and matrices, that a section has at most.
const BARS: usize = 24;
const MATRICES: usize = 4;

/// Stands for the backend among the fields that vary: it is one of every case.
const BACKEND: &str = "backend";

const BAND: &str = "Points: medians; bands: 95% intervals of the median.";
const WHISKERS: &str = "Points: medians; bars: 95% intervals of the median.";
/// What points are that this program did not measure.
pub const AS_IMPORTED: &str = "Points: times as the imported file gives them, without intervals.";
/// What they are where trials are too few for an interval.
const BARE: &str = "Points: medians; there are too few trials for an interval.";

/// What points and bands are.
pub fn note_of_points<'p>(points: impl Iterator<Item = &'p Measured<'p>> + Clone, banded: bool) -> &'static str {
    let all = |holds: &dyn Fn(&Measured) -> bool| points.clone().all(holds);
    match () {
        () if all(&|point| point.has(Caveat::Imported)) => AS_IMPORTED,
        () if all(&|point| !point.time.known) => BARE,
        () if banded => BAND,
        () => WHISKERS,
    }
}

/// The charts that a section's benchmark declares, where its cases have data for them.
pub fn declared(section: &Operation) -> Vec<NamedChart> {
    let charts = section.declared.map_or(&[][..], |declared| declared.show.charts.as_slice());
    let drawn = charts.iter().flat_map(|chart| {
        let specs = match chart.kind {
            ChartKind::Lines | ChartKind::Scatter => lines(section, chart).into_iter().collect(),
            ChartKind::Bars | ChartKind::Stacked => bars(section, chart).into_iter().collect(),
            ChartKind::Matrix => matrices(section, chart),
        };
        let several = specs.len() > 1;
        specs.into_iter().enumerate().map(move |(index, spec)| {
            let stem = section.stem.and(chart.stem.as_str());
            NamedChart { stem: if several { stem.and(index as u64 + 1) } else { stem }, spec }
        })
    });
    drawn.collect()
}

/// One bar for each case of a section, for charts that a benchmark draws only where its others have nothing.
pub fn bar_chart(section: &Operation, chart: &Chart) -> Option<NamedChart> {
    Some(NamedChart { stem: section.stem.and(chart.stem.as_str()), spec: bars(section, chart)? })
}

/// Gives charts of equal names a number: data name some of them.
pub fn told_apart(charts: &mut [NamedChart]) {
    let mut taken = HashSet::new();
    for chart in charts {
        let plain = chart.stem.clone();
        for number in 2_u64.. {
            if taken.insert(chart.stem.clone()) {
                break;
            }
            chart.stem = plain.and(number);
        }
    }
}

fn quantity(format: Format) -> Quantity {
    match format {
        Format::Bytes => Quantity::Bytes,
        Format::Seconds => Quantity::Seconds,
        Format::Count => Quantity::Count,
        _ => Quantity::Number,
    }
}

/// A share is drawn as per cent.
fn scaled(format: Format) -> f64 {
    if format == Format::Share { 100.0 } else { 1.0 }
}

fn upwards(chart: &Chart) -> Axis {
    let unit = if chart.y_format == Format::Share { ", %" } else { "" };
    let scale = if chart.log { Scale::Log } else { Scale::FromZero };
    Axis { title: format!("{}{unit}", chart.y_title), quantity: quantity(chart.y_format), scale }
}

/// The points of a section that a chart takes, with where each stands across.
fn points<'o>(
    section: &'o Operation<'o>,
    chart: &Chart,
    size: Option<u64>,
) -> Vec<(&'o Configuration<'o>, &'o Measured<'o>, f64)> {
    let taken = |point: &Measured| chart.at == At::Every || point.bytes == size;
    let of = |configuration: &'o Configuration<'o>| {
        let points = configuration.points.iter().filter(|point| taken(point));
        points.filter_map(|point| Some((configuration, point, number_at(point.case, &chart.x)?))).collect::<Vec<_>>()
    };
    section.configurations.iter().flat_map(of).collect()
}

/// The size that a chart takes; None at the outside: there is no such chart.
fn size(section: &Operation, at: At) -> Option<Option<u64>> {
    match at {
        At::Every => Some(None),
        At::Largest => section.points().filter_map(|point| point.bytes).max().map(Some),
        At::Unsized => section.points().all(|point| point.bytes.is_none()).then_some(None),
        At::Shared => compared_size(section).map(Some),
    }
}

fn lines(section: &Operation, chart: &Chart) -> Option<ChartSpec> {
    let size = size(section, chart.at)?;
    let points = points(section, chart, size);
    let mut up = upwards(chart);
    let Grouped { mut series, mut ceilings, left_out } = grouped(section, chart, &points);
    if up.scale == Scale::Log {
        only_positive(&mut series, &mut ceilings);
    }
    let number: usize = series.iter().map(|one| one.points.len()).sum();
    if number < FEWEST {
        return None;
    }
    let at = size.map(|size| format!(" at {}", bytes(size))).unwrap_or_default();
    let across = if chart.x_format == Format::Bytes { Scale::Log } else { Scale::Steps };
    let ends = series.iter().flat_map(|one| &one.points).map(|point| point.y);
    let (low, high) = ends.fold((f64::INFINITY, 0.0_f64), |(low, high), y| (low.min(y), high.max(y)));
    // Lengths from zero compare best, until the small ones all look alike.
    if chart.at != At::Every && high > 20.0 * low && low > 0.0 {
        up.scale = Scale::Log;
    }
    let banded = across == Scale::Log;
    let mut spec = ChartSpec {
        title: format!("{}{at}: {} vs {}", section.name, chart.title, chart.x_title),
        subtitle: section.constants.clone(),
        banner: banner(points.iter().map(|(_, point, _)| point.case)),
        note: note_of_points(points.iter().map(|(_, point, _)| *point), banded).to_owned(),
        x: Axis { title: chart.x_title.clone(), quantity: quantity(chart.x_format), scale: across },
        y: up,
        series,
        left_out,
        scattered: chart.kind == ChartKind::Scatter,
        ..ChartSpec::default()
    };
    with_ceilings(&mut spec, ceilings);
    Some(spec)
}

/// What tells series apart: ranks, backend, and other fields.
type SeriesKey<'o> = (u32, &'o str, Vec<&'o (Arc<str>, Arc<str>)>);

/// Series that are made: pictures show some dozen, and a record may have one for each of 100,000 cases.
const SERIES: usize = 1_000;

/// Series, the ceiling of each, and how many are not made.
struct Grouped {
    series: Vec<Series>,
    ceilings: Vec<Reference>,
    left_out: usize,
}

/// A series for each configuration that differs in more than what stands across, and its ceiling.
fn grouped(section: &Operation, chart: &Chart, points: &[(&Configuration, &Measured, f64)]) -> Grouped {
    let (mut series, mut ceilings): (Vec<Series>, Vec<Reference>) = Default::default();
    // By the hash of what tells them apart.
    let (mut left_out, hasher): (HashSet<u64>, RandomState) = Default::default();
    let varying = varying(section, &chart.x);
    let mut places: HashMap<SeriesKey, usize> = HashMap::new();
    // Colours that no configuration has: a line over several of them is none of them.
    let all = section.configurations.iter().flat_map(|own| [own.style, own.style_over_ranks]);
    let styles = all.max().map_or(0, |most| most + 1);
    let mut alike = [0; COLOURS];
    // Points of a configuration follow one another: its series is looked up once.
    let mut last: Option<(&Configuration, Option<usize>)> = None;
    for (configuration, point, x) in points {
        let Some(estimate) = point.estimate(&chart.y, &chart.ends, section.declared) else { continue };
        let mut series_of = || {
            let ranks = if chart.x == "ranks" { 0 } else { configuration.ranks };
            let others: Vec<&(Arc<str>, Arc<str>)> =
                configuration.others.iter().filter(|(name, _)| **name != *chart.x).collect();
            let whole = ranks > 0 && others.len() == configuration.others.len();
            let next = series.len();
            let key = (ranks, configuration.backend.as_str(), others);
            if next >= SERIES && !places.contains_key(&key) {
                left_out.insert(hasher.hash_one(&key));
                return None;
            }
            Some(*places.entry(key).or_insert_with(|| {
                let over_ranks = chart.x == "ranks";
                let label = match () {
                    () if whole => configuration.label.clone(),
                    () if over_ranks => configuration.label_over_ranks(),
                    () => label(section, configuration, &chart.x, &varying),
                };
                let style = match () {
                    () if whole => configuration.style,
                    () if over_ranks => configuration.style_over_ranks,
                    () if varying.contains(BACKEND) => {
                        let colour = configuration.style % COLOURS;
                        alike[colour] += 1;
                        colour + COLOURS * (styles.div_ceil(COLOURS) + alike[colour] - 1)
                    }
                    () => styles + next,
                };
                ceilings.push(Reference { label: format!("limit, {label}"), style: Some(style), points: Vec::new() });
                // A line that has nothing to be told from is that of its backend.
                let label = if label.is_empty() { configuration.backend.clone() } else { label };
                series.push(Series { label, style, points: Vec::new() });
                next
            }))
        };
        let at = match last {
            Some((same, at)) if std::ptr::eq(same, *configuration) => at,
            _ => series_of(),
        };
        last = Some((configuration, at));
        let Some(at) = at else { continue };
        series[at].points.push(drawn(*x, estimate, scaled(chart.y_format), point));
        if !chart.ceiling.is_empty() {
            // Where no limit was found the line has a gap: drawn through, it would claim one.
            let ceiling = number_at(point.case, &chart.ceiling).map_or(f64::NAN, |y| y * scaled(chart.y_format));
            ceilings[at].points.push([*x, ceiling]);
        }
    }
    for one in &mut series {
        one.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    ceilings.retain(|ceiling| ceiling.points.iter().any(|[_, y]| y.is_finite()));
    ceilings.iter_mut().for_each(|one| one.points.sort_by(|a, b| a[0].total_cmp(&b[0])));
    Grouped { series, ceilings, left_out: left_out.len() }
}

/// Without what a logarithmic axis cannot show: a line without a point would be in the legend alone.
fn only_positive(series: &mut Vec<Series>, ceilings: &mut Vec<Reference>) {
    series.iter_mut().for_each(|one| one.points.retain(|point| point.y > 0.0));
    series.retain(|one| !one.points.is_empty());
    ceilings
        .iter_mut()
        .for_each(|one| one.points.iter_mut().filter(|[_, y]| *y <= 0.0).for_each(|[_, y]| *y = f64::NAN));
    ceilings.retain(|one| one.points.iter().any(|[_, y]| y.is_finite()));
}

fn drawn(x: f64, estimate: Estimate, scale: f64, of: &Measured) -> Point {
    let oversubscribed = of.has(Caveat::Oversubscribed);
    Point { x, y: estimate.mid * scale, low: estimate.low * scale, high: estimate.high * scale, oversubscribed }
}

/// The fields, but for what stands across, that two configurations of a section have different values of.
fn varying<'o>(section: &'o Operation, across: &str) -> BTreeSet<&'o str> {
    let mut values: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    let mut held: HashMap<&str, usize> = HashMap::new();
    let fields = section.configurations.iter().flat_map(|c| c.others.iter());
    for (name, value) in fields.filter(|(name, _)| **name != *across) {
        values.entry(name).or_default().insert(value);
        *held.entry(name).or_default() += 1;
    }
    let all = section.configurations.len();
    let backends: BTreeSet<&str> = section.configurations.iter().map(|c| c.backend.as_str()).collect();
    values.insert(BACKEND, backends);
    held.insert(BACKEND, all);
    values.into_iter().filter(|(name, values)| values.len() > 1 || held[name] < all).map(|(name, _)| name).collect()
}

/// A configuration's label without what stands across.
fn label(section: &Operation, configuration: &Configuration, across: &str, varying: &BTreeSet<&str>) -> String {
    let others = configuration.others.iter().filter(|(name, _)| varying.contains(&**name));
    let others = others.map(|(name, value)| written(section.declared, name, value));
    let ranks = (across != "ranks").then(|| crate::study::ranks(configuration.ranks));
    let backend = varying.contains(BACKEND).then(|| configuration.backend.clone());
    let parts = backend.into_iter().chain(ranks).chain(others);
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Adds the ceiling of each series; of many series, the lowest and the highest.
fn with_ceilings(spec: &mut ChartSpec, mut ceilings: Vec<Reference>) {
    if ceilings.is_empty() {
        return;
    }
    if let [one] = &mut ceilings[..] {
        one.label = "limit".to_owned();
    }
    if ceilings.len() > CEILINGS_APART {
        ceilings = span(&ceilings);
    }
    spec.note = format!("{} Dashed: the limit that was measured with the case.", spec.note);
    spec.references = ceilings;
}

fn span(ceilings: &[Reference]) -> Vec<Reference> {
    let mut ends: Vec<[f64; 3]> =
        ceilings.iter().flat_map(|reference| &reference.points).map(|[x, y]| [*x, *y, *y]).collect();
    ends.retain(|end| end[1].is_finite());
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

/// The size at which two backends meet that is nearest to 100 MB.
fn compared_size(section: &Operation) -> Option<u64> {
    let several = |size: &u64| {
        let with = section.configurations.iter().filter(|configuration| configuration.at(*size).is_some());
        let backends: BTreeSet<&str> = with.map(|c| c.backend.as_str()).collect();
        backends.len() > 1
    };
    let sizes: BTreeSet<u64> = section.points().filter_map(|point| point.bytes).collect();
    let sizes = sizes.into_iter().filter(several);
    let distance = |size: &u64| (*size as f64 / COMPARED as f64).ln().abs();
    sizes.min_by(|a, b| distance(a).total_cmp(&distance(b)).then(a.cmp(b)))
}

/// A bar for each case, numbered, with the key below; of a map, a bar of its parts.
fn bars(section: &Operation, chart: &Chart) -> Option<ChartSpec> {
    let cases: Vec<(&Configuration, &CaseLine)> = section
        .configurations
        .iter()
        .flat_map(|configuration| configuration.points.iter().map(move |point| (configuration, point.case)))
        .filter(|(_, case)| value_at(case, &chart.y).is_some())
        .take(BARS)
        .collect();
    let mut stacks: Vec<Stack> = Vec::new();
    let mut add = |label: &str, x: f64, height: f64| match stacks.iter_mut().find(|stack| stack.label == label) {
        Some(stack) => stack.bars.push([x, height]),
        None => stacks.push(Stack { label: label.to_owned(), style: stacks.len(), bars: vec![[x, height]] }),
    };
    for (index, (_, case)) in cases.iter().enumerate() {
        let (x, scale) = ((index + 1) as f64, scaled(chart.y_format));
        match value_at(case, &chart.y).filter(|_| chart.kind == ChartKind::Stacked) {
            Some(Value::Object(parts)) => {
                let parts = parts.iter().filter_map(|(name, part)| Some((name, part.as_f64()?)));
                parts.for_each(|(name, part)| add(&one_line(name), x, part * scale));
            }
            _ => number_at(case, &chart.y).into_iter().for_each(|value| add(&chart.title, x, value * scale)),
        }
    }
    let keys: Vec<String> =
        cases.iter().enumerate().map(|(index, (of, case))| format!("{} {}", index + 1, key(of, case))).collect();
    (!stacks.is_empty()).then(|| ChartSpec {
        title: format!("{}: {}", section.name, chart.title),
        subtitle: section.constants.clone(),
        banner: banner(cases.iter().map(|(_, case)| *case)),
        note: format!("Cases: {}.", crate::number::list(&keys)),
        x: Axis { title: "case".to_owned(), quantity: Quantity::Count, scale: Scale::Steps },
        y: Axis { scale: Scale::FromZero, ..upwards(chart) },
        stacks,
        ..ChartSpec::default()
    })
}

/// What tells a case from the others of its section.
fn key(configuration: &Configuration, case: &CaseLine) -> String {
    let size = case.bytes.map(|size| format!(", {}", bytes(size))).unwrap_or_default();
    format!("{}{size}", configuration.label)
}

/// `latency: time of a message`; a title that begins with the section's name says it itself.
fn titled(section: &str, title: &str) -> String {
    if title.starts_with(section) { title.to_owned() } else { format!("{section}: {title}") }
}

/// The matrices of the first cases that have one.
fn matrices(section: &Operation, chart: &Chart) -> Vec<ChartSpec> {
    let of = |configuration: &Configuration, case: &CaseLine| {
        let rows = value_at(case, &chart.y)?;
        let row = |row: &Value| Some(row.as_array()?.iter().map(|cell| cell.as_f64().unwrap_or(f64::NAN)).collect());
        let values: Vec<Vec<f64>> = rows.as_array()?.iter().map(row).collect::<Option<_>>()?;
        let columns = values.iter().map(Vec::len).max().filter(|columns| *columns > 0)?;
        let numbered = |number: usize| (0..number).map(|index| index.to_string()).collect();
        let names = value_at(case, &chart.x).and_then(|names| serde_json::from_value::<Vec<String>>(names).ok());
        let named =
            |names: Vec<String>| names.iter().enumerate().map(|(index, name)| format!("{index} {name}")).collect();
        let matrix = Matrix {
            rows: names.filter(|names| names.len() == values.len()).map_or_else(|| numbered(values.len()), named),
            columns: numbered(columns),
            values,
            quantity: quantity(chart.y_format),
            ..Matrix::default()
        };
        let name = chart.y.split('.').next();
        let declared = section.declared.and_then(|all| all.metrics.iter().find(|metric| Some(&*metric.name) == name));
        // Without a declaration: times are better when they are less, rates when they are more.
        let higher_is_better =
            declared.map_or(chart.y_format != Format::Seconds, |metric| metric.better == Better::Higher);
        let matrix = matrix.around_median(higher_is_better);
        Some(ChartSpec {
            title: titled(&section.name, &chart.title),
            subtitle: key(configuration, case),
            banner: banner(std::iter::once(case)),
            x: Axis { title: chart.x_title.clone(), ..Axis::default() },
            y: Axis { title: chart.y_title.clone(), quantity: quantity(chart.y_format), ..Axis::default() },
            matrix: Some(matrix),
            ..ChartSpec::default()
        })
    };
    let cases = section.configurations.iter().flat_map(|c| c.points.iter().map(move |point| (c, point.case)));
    cases.filter_map(|(configuration, case)| of(configuration, case)).take(MATRICES).collect()
}
