//! Tiles: the few numbers that sum a run up, each with its interval and what it is of. Only those that the data have.

use record::{Better, CaseLine, Shape};

use crate::Run;
use crate::number::{bandwidth, bytes, percent, seconds, thousands, three_digits};
use crate::study::{Configuration, Estimate, Measured, Operation};
use crate::words::facts;

/// Tiles of a page.
const MOST: usize = 8;

/// A number with what it is of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tile {
    pub(super) name: String,
    pub(super) value: String,
    /// Interval of the value; empty where it has none.
    pub(super) interval: String,
    /// What it is compared with, and the case.
    pub(super) of: String,
}

type MeasuredPoint<'o> = (&'o Operation<'o>, &'o Configuration<'o>, &'o Measured<'o>);

fn measured_points<'o>(operations: &'o [Operation<'o>]) -> Vec<MeasuredPoint<'o>> {
    let of = |operation: &'o Operation<'o>| {
        let all = operation.configurations.iter();
        all.flat_map(move |configuration| {
            configuration.points.iter().map(move |point| (operation, configuration, point))
        })
    };
    operations.iter().flat_map(of).collect()
}

/// The tiles of a run; none where a device was a stand-in.
pub(super) fn tiles(run: &Run, operations: &[Operation]) -> Vec<Tile> {
    if operations.iter().any(Operation::is_emulated) {
        return Vec::new();
    }
    let all = measured_points(operations);
    let mut tiles: Vec<Tile> = peaks(operations);
    tiles.extend(step(&all));
    tiles.extend(scaling(&all));
    tiles.extend(largest_batch(&all));
    tiles.extend(declared(run, &all));
    let mut names: Vec<String> = Vec::new();
    tiles.retain(|tile| {
        !names.contains(&tile.name) && {
            names.push(tile.name.clone());
            true
        }
    });
    tiles.truncate(MOST);
    tiles
}

fn half(estimate: Estimate) -> String {
    estimate.relative_half_width().map_or_else(String::new, |half| match half > 1.0 {
        true => "± more than 100%".to_owned(),
        false => format!("± {}", percent(half)),
    })
}

fn label(configuration: &Configuration, point: &Measured) -> String {
    let size = point.bytes.map(|size| format!(", {}", bytes(size))).unwrap_or_default();
    let simulated = if point.case.simulated { ", simulated" } else { "" };
    format!("{}{size}{simulated}", configuration.label)
}

/// The peak bus bandwidth of the first two operations that have one, with the share of its limit.
fn peaks(operations: &[Operation]) -> Vec<Tile> {
    let of = |operation: &Operation| {
        let best = operation.configurations.iter().filter_map(|c| Some((c, facts::peak(c)?)));
        let (configuration, (_, busbw, point)) = best.max_by(|(_, a), (_, b)| a.1.mid.total_cmp(&b.1.mid))?;
        let limit =
            point.limit_share.map(|share| format!("{} of limit, ", facts::shares([share, share]))).unwrap_or_default();
        Some(Tile {
            name: format!("{} peak busbw", operation.name),
            value: bandwidth(busbw.mid),
            interval: half(busbw),
            of: format!("{limit}{}", label(configuration, point)),
        })
    };
    operations.iter().filter_map(of).take(2).collect()
}

/// Tiles of the case with the most throughput of those that time steps: throughput, time of a step, use of the peak.
fn step(all: &[MeasuredPoint]) -> Vec<Tile> {
    let steps = || all.iter().filter(|(operation, ..)| operation.declared.is_some_and(|d| d.show.timed == "step"));
    let (source, word) = [("tokens_per_s", "tokens/s"), ("samples_per_s", "samples/s")]
        .into_iter()
        .find(|(source, _)| steps().any(|(_, _, point)| point.case.metric(source).is_some()))
        .unwrap_or(("", ""));
    let rate = |found: &&MeasuredPoint| found.2.case.metric(source);
    let rated = steps().filter(|found| rate(found).is_some());
    let Some((operation, configuration, point)) =
        rated.max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)))
    else {
        return Vec::new();
    };
    let of = label(configuration, point);
    let tile =
        |name: &str, value: String, interval: String, of: String| Tile { name: name.to_owned(), value, interval, of };
    let mut tiles = Vec::new();
    if let Some(rate) = point.estimate(source, "", operation.declared) {
        // Work over time has the time's interval.
        let interval = if rate.known { half(rate) } else { half(point.time) };
        tiles.push(tile(word, three_digits(rate.mid), interval, of.clone()));
    }
    tiles.push(tile("median step", seconds(point.time.mid), half(point.time), of.clone()));
    if let Some(mfu) = view::number_at(point.case, "mfu.headline") {
        let convention = view::value_at(point.case, "mfu.convention").map(|word| format!("{}, ", view::plain(&word)));
        tiles.push(tile("MFU", percent(mfu), half(point.time), format!("{}{of}", convention.unwrap_or_default())));
    }
    tiles
}

/// The efficiency at the most ranks: of several cases there, the lowest, so that no good one hides a bad one.
fn scaling(all: &[MeasuredPoint]) -> Option<Tile> {
    let efficiency = |case: &CaseLine| view::number_at(case, "scaling.efficiency");
    let most = all.iter().filter(|found| efficiency(found.2.case).is_some()).map(|found| found.1.ranks).max()?;
    let there = all.iter().filter(|found| found.1.ranks == most);
    let with = there.filter_map(|found| Some((found, efficiency(found.2.case)?)));
    let ((_, configuration, point), value) = with.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let word = |name: &str| view::value_at(point.case, &format!("scaling.{name}")).map(|word| view::plain(&word));
    let ends = view::ends(point.case, "scaling.ci95");
    let interval = ends.map_or_else(String::new, |[low, high]| format!("{} to {}", percent(low), percent(high)));
    let verdict = word("word").map(|word| format!("{word}, ")).unwrap_or_default();
    Some(Tile {
        name: format!("{}scaling", word("kind").map(|kind| format!("{kind} ")).unwrap_or_default()),
        value: percent(value),
        interval,
        of: format!("{verdict}{}", label(configuration, point)),
    })
}

fn largest_batch(all: &[MeasuredPoint]) -> Option<Tile> {
    let batch = |case: &CaseLine| view::value_at(case, "max_batch").and_then(|value| value.as_u64());
    let (batch, (_, configuration, point)) =
        all.iter().filter_map(|found| Some((batch(found.2.case)?, found))).max_by_key(|(batch, _)| *batch)?;
    let value = thousands(batch);
    Some(Tile { name: "largest batch".into(), value, interval: String::new(), of: label(configuration, point) })
}

/// The best value of the first headline metric of each benchmark that has none above: rates alone.
fn declared(run: &Run, all: &[MeasuredPoint]) -> Vec<Tile> {
    const ABOVE: [&str; 5] = ["busbw_gbs", "algbw_gbs", "tokens_per_s", "samples_per_s", "max_batch"];
    let mut tiles = Vec::new();
    for benchmark in &run.benchmarks {
        let headline = benchmark.show.headline.iter();
        let metrics = headline.filter_map(|name| benchmark.metrics.iter().find(|metric| metric.name == *name));
        for metric in metrics.filter(|metric| metric.shape == Shape::Rate && !ABOVE.contains(&metric.name.as_str())) {
            tiles.extend(best(run, &benchmark.name, metric, all));
        }
    }
    tiles
}

/// The title of a metric's column behind the name of an operation; nothing where its unit says it.
fn titled(operation: &Operation, metric: &record::DeclaredMetric) -> String {
    let tables = operation.declared.into_iter().flat_map(|declared| &declared.show.tables);
    let column = tables.flat_map(|table| &table.columns).find(|column| column.source == metric.name);
    let title = column.map(|column| column.title.as_str()).filter(|title| *title != metric.unit);
    title.map_or_else(String::new, |title| format!(" {title}"))
}

/// The best value. One that only caches reach says so, and the value past them has its own tile.
fn best(run: &Run, benchmark: &str, metric: &record::DeclaredMetric, all: &[MeasuredPoint]) -> Vec<Tile> {
    let own = all.iter().filter(|found| found.2.case.benchmark == benchmark);
    let rated: Vec<(&MeasuredPoint, Estimate)> =
        own.filter_map(|found| Some((found, found.2.estimate(&metric.name, "", found.0.declared)?))).collect();
    let better = |a: &Estimate, b: &Estimate| match metric.better {
        Better::Higher => a.mid.total_cmp(&b.mid),
        Better::Lower => b.mid.total_cmp(&a.mid),
    };
    let Some(best) = rated.iter().max_by(|a, b| better(&a.1, &b.1)) else { return Vec::new() };
    let tile = |((operation, configuration, point), value): &(&MeasuredPoint, Estimate), place: String| Tile {
        name: format!("{}{place}", operation.name),
        value: format!("{} {}", three_digits(value.mid), metric.unit).trim_end().to_owned(),
        interval: half(*value),
        of: label(configuration, point),
    };
    let level = |found: &MeasuredPoint| {
        let threads = found.2.case.parameters.get("threads").and_then(serde_json::Value::as_u64).unwrap_or(1);
        let threads = found.2.case.ranks.saturating_mul(u32::try_from(threads).unwrap_or(u32::MAX));
        facts::cache_level(&run.caches, found.2.bytes?, threads)
    };
    let Some(cache) = level(best.0) else {
        return vec![tile(best, titled(best.0.0, metric))];
    };
    let same = |found: &&MeasuredPoint| found.0.name == best.0.0.name && found.2.bytes.is_some();
    let past = rated.iter().filter(|(found, _)| same(found) && level(found).is_none());
    let past = past.max_by(|a, b| a.0.2.bytes.cmp(&b.0.2.bytes).then(better(&a.1, &b.1)));
    // What a job sees whose data do not fit comes first.
    let past = past.map(|found| tile(found, ", memory".to_owned()));
    past.into_iter().chain([tile(best, format!(", L{cache} cache"))]).collect()
}
