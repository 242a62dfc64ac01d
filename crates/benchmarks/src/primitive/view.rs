//! Whether overlap pays: from which size on, and by how much. A heatmap over sizes.

use std::collections::{BTreeMap, BTreeSet};

use ::view::number::{factor, three_digits};
use ::view::study::{Estimate, Measured, Operation};
use ::view::{Axis, ChartSpec, Finding, Matrix, NamedChart, Next, Point, Quantity, Scale, Series, View, file_stem};
use record::{CaseLine, Caveat};
use serde_json::Value;

use super::relations::{implementation, order};

/// See the module's documentation.
pub(super) struct PrimitiveView;

/// The best implementation that overlaps, at one size of one order.
struct Best<'a> {
    case: &'a CaseLine,
    speedup: Estimate,
    /// Time of the communication over that of the product.
    ratio: f64,
    worth: bool,
}

fn size(case: &CaseLine, name: &str) -> u64 {
    case.parameters.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn overlap<'c>(case: &'c CaseLine, name: &str) -> Option<&'c Value> {
    case.metrics.get("overlap")?.get(name)
}

fn speedup(case: &CaseLine) -> Option<Estimate> {
    let mid = overlap(case, "speedup")?.as_f64()?;
    let ends = overlap(case, "speedup_ci95").and_then(Value::as_array);
    let ends = ends.and_then(|ends| Some([ends.first()?.as_f64()?, ends.get(1)?.as_f64()?]));
    Some(Estimate::new(mid, ends))
}

/// What the cases of a table of sizes have in common: order, and all parameters but sizes and implementation.
type Family = (String, String);

fn family(case: &CaseLine) -> Family {
    let kept = |name: &str| !["m", "n", "implementation"].contains(&name);
    let rest: Vec<String> = case
        .parameters
        .iter()
        .filter(|(name, _)| kept(name))
        .map(|(name, value)| format!("{name} {}", ::view::plain(value)))
        .collect();
    (order(case).to_owned(), rest.join(", "))
}

type Grid<'a> = BTreeMap<(u64, u64), Best<'a>>;

/// The best by rows and columns, for each family.
fn grids<'a>(section: &'a Operation<'a>) -> BTreeMap<Family, Grid<'a>> {
    let mut grids: BTreeMap<Family, Grid> = BTreeMap::new();
    for case in section.points().map(|point: &Measured| point.case) {
        let (Some(speedup), Some(ratio)) = (speedup(case), overlap(case, "ratio").and_then(Value::as_f64)) else {
            continue;
        };
        let worth = overlap(case, "worth").and_then(Value::as_bool).unwrap_or(false);
        let best = Best { case, speedup, ratio, worth };
        let grid = grids.entry(family(case)).or_default();
        match grid.get(&(size(case, "m"), size(case, "n"))) {
            Some(known) if known.speedup.mid >= best.speedup.mid => {}
            _ => drop(grid.insert((size(case, "m"), size(case, "n")), best)),
        }
    }
    grids
}

/// Sizes of one line: what is fixed, the name of the size that varies, and the best at each.
type Line<'g, 'a> = (String, &'static str, Vec<(u64, &'g Best<'a>)>);

/// Along which size the cases of a line differ: columns where rows are equal, else rows.
fn lines<'g, 'a>(grid: &'g Grid<'a>) -> Vec<Line<'g, 'a>> {
    let rows: BTreeSet<u64> = grid.keys().map(|(m, _)| *m).collect();
    let columns: BTreeSet<u64> = grid.keys().map(|(_, n)| *n).collect();
    if columns.len() > 1 || rows.len() == 1 {
        let of = |m: &u64| grid.iter().filter(|((row, _), _)| row == m).map(|((_, n), best)| (*n, best)).collect();
        return rows.iter().map(|m| (format!("m = {m}"), "n", of(m))).collect();
    }
    let of = |n: &u64| grid.iter().filter(|((_, column), _)| column == n).map(|((m, _), best)| (*m, best)).collect();
    columns.iter().map(|n| (format!("n = {n}"), "m", of(n))).collect()
}

/// What a line of sizes says.
fn sentence(order: &str, fixed: &str, along: &str, line: &[(u64, &Best)]) -> Option<String> {
    let (_, last) = line.last()?;
    let ratios = |pick: fn(f64, f64) -> f64, from: f64| line.iter().map(|(_, best)| best.ratio).fold(from, pick);
    let (low, high) = (ratios(f64::min, f64::INFINITY), ratios(f64::max, 0.0));
    let range = if three_digits(low) == three_digits(high) {
        three_digits(low)
    } else {
        format!("{} to {}", three_digits(low), three_digits(high))
    };
    if line.iter().all(|(_, best)| !best.worth) {
        return Some(format!(
            "{order}, {fixed}: nothing to overlap here, communication takes {range} times as long as the product."
        ));
    }
    let pays = line.iter().rev().take_while(|(_, best)| best.speedup.exceeds(1.0)).last();
    let (_, best) = line.iter().max_by(|(_, a), (_, b)| a.speedup.mid.total_cmp(&b.speedup.mid))?;
    let name = implementation(best.case);
    let by = format!("{}{}", factor(best.speedup.mid), best.speedup.range(factor));
    let at = format!("at m = {}, n = {}", size(best.case, "m"), size(best.case, "n"));
    Some(match pays {
        Some((from, _)) if line.len() > 1 => format!(
            "{order}, {fixed}: overlap pays from {along} = {from} up; the most is {by} by {name} {at}, where communication \
             takes {} times as long as the product.",
            three_digits(best.ratio)
        ),
        Some(_) => format!(
            "{order}, {fixed}: overlap pays, {by} by {name} {at}; communication takes {} times as long as the product.",
            three_digits(last.ratio)
        ),
        None if line.iter().all(|(_, best)| best.speedup.is_below(1.0)) => {
            format!("{order}, {fixed}: overlap does not pay; the best is {by} by {name} {at}.")
        }
        None => format!("{order}, {fixed}: whether overlap pays cannot be told; the best is {by} by {name} {at}."),
    })
}

fn heatmap(section: &Operation, (order, rest): &Family, grid: &Grid) -> Option<NamedChart> {
    let rows: Vec<u64> = grid.keys().map(|(m, _)| *m).collect::<BTreeSet<_>>().into_iter().collect();
    let columns: Vec<u64> = grid.keys().map(|(_, n)| *n).collect::<BTreeSet<_>>().into_iter().collect();
    if rows.len() < 2 && columns.len() < 2 {
        return None;
    }
    let value = |m: &u64, n: &u64| grid.get(&(*m, *n)).map_or(f64::NAN, |best| best.speedup.mid);
    let axis = |title: &str| Axis { title: title.to_owned(), quantity: Quantity::Count, scale: Scale::Steps };
    let spec = ChartSpec {
        title: format!("{} {order}: speedup of the best overlap over sequential", section.name),
        subtitle: rest.clone(),
        note: "above 1: overlap is faster".to_owned(),
        x: axis("columns (n)"),
        y: axis("rows (m)"),
        matrix: Some(Matrix {
            rows: rows.iter().map(u64::to_string).collect(),
            columns: columns.iter().map(u64::to_string).collect(),
            values: rows.iter().map(|m| columns.iter().map(|n| value(m, n)).collect()).collect(),
            quantity: Quantity::Number,
        }),
        ..ChartSpec::default()
    };
    Some(NamedChart { stem: format!("{}-speedup-{}", section.stem, file_stem(order)), spec })
}

/// The points of each implementation.
type Lines = BTreeMap<String, Vec<Point>>;

/// Times against columns, of one order and number of rows: a line for each implementation.
fn times(section: &Operation) -> Vec<NamedChart> {
    let mut groups: BTreeMap<(Family, u64), Lines> = BTreeMap::new();
    for measured in section.points() {
        let case = measured.case;
        let name = case.metrics.get("variant").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Estimate { mid, low, high, .. } = measured.time;
        let oversubscribed = measured.has(Caveat::Oversubscribed);
        let point = Point { x: size(case, "n") as f64, y: mid, low, high, oversubscribed };
        groups.entry((family(case), size(case, "m"))).or_default().entry(name).or_default().push(point);
    }
    let chart = |((family, m), lines): ((Family, u64), Lines)| {
        let series = |(style, (label, mut points)): (usize, (String, Vec<Point>))| {
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Series { label, style, points }
        };
        let series: Vec<Series> = lines.into_iter().enumerate().map(series).collect();
        // Fewer points are read from the table.
        if series.iter().all(|series| series.points.len() < 3) {
            return None;
        }
        let axis = |title: &str, quantity, scale| Axis { title: title.to_owned(), quantity, scale };
        let spec = ChartSpec {
            title: format!("{} {}, m = {m}: time vs columns", section.name, family.0),
            subtitle: family.1,
            note: "Points: medians; bars: 95% intervals of the median.".to_owned(),
            x: axis("columns (n)", Quantity::Count, Scale::Steps),
            y: axis("time of one call", Quantity::Seconds, Scale::Log),
            series,
            ..ChartSpec::default()
        };
        Some(NamedChart { stem: format!("{}-time-{}-{m}", section.stem, file_stem(&family.0)), spec })
    };
    groups.into_iter().filter_map(chart).collect()
}

/// Gives charts of equal names a number.
fn numbered(mut charts: Vec<NamedChart>) -> Vec<NamedChart> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for chart in &mut charts {
        let seen = known.entry(chart.stem.clone()).or_default();
        *seen += 1;
        if *seen > 1 {
            chart.stem = format!("{}-{seen}", chart.stem);
        }
    }
    charts
}

impl View for PrimitiveView {
    fn charts(&self, section: &Operation) -> Vec<NamedChart> {
        let mut charts = times(section);
        charts.extend(grids(section).iter().filter_map(|(family, grid)| heatmap(section, family, grid)));
        numbered(charts)
    }

    fn findings(&self, section: &Operation) -> Option<Vec<Finding>> {
        let mut found = Vec::new();
        for ((order, _), grid) in &grids(section) {
            for (fixed, along, line) in lines(grid) {
                found.extend(sentence(order, &fixed, along, &line).map(Finding::new));
            }
        }
        Some(found)
    }

    fn next(&self, section: &Operation, _ready: &[&str]) -> Option<Next> {
        let cases: Vec<&CaseLine> = section.points().map(|point| point.case).collect();
        let sizes: BTreeSet<u64> = cases.iter().map(|case| size(case, "n")).collect();
        let first = cases.first()?;
        // PyTorch's ranks take no pace.
        let own = !["pace_bandwidth", "runtime"].iter().any(|name| first.parameters.contains_key(*name));
        if sizes.len() < 2 && section.name != "cp_ring" {
            return Some(Next::changing("n", "16,64,256,1024", "from which size on overlap pays"));
        }
        // Without a thread of its own the link waits for the rank.
        let mut slower = Next::changing("pace_bandwidth", "250MB/s", "whether overlap pays on a slower link");
        slower.changes.push(("progress_thread".to_owned(), "true".to_owned()));
        own.then_some(slower)
    }
}
