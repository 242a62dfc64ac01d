//! The files of the all-reduce study: a CSV for each backend and device, tables, an analysis in words, three pictures.
//!
//! Columns: backend, device, world_size, data_size_mb (1e6 bytes), avg_time_s (mean over samples, of the slowest rank),
//! std_time_s (standard deviation of the medians of trials; of an imported run, what it gave), bandwidth_gb_s (bus bandwidth,
//! 2(n-1)/n x size / avg_time_s). Behind
//! these of the study stand runtime, dtype, reduce, in_place and mode: without them `rankmark import` would read rows that
//! differ there as trials of one case.

use std::collections::BTreeSet;

use record::CaseLine;
use record::file::FileStem;
use serde_json::Value;
use terms::Named as _;
use view::{Axis, ChartSpec, Point, Quantity, Scale, Series};

use crate::chart::Draw as _;
use crate::document::{Align, Block, Table, markdown};
use crate::formats::rows::RUN_END;
use crate::markup::Markdown;
use crate::number::{count, list, three_digits};
use crate::study::{Measured, banner};
use crate::words::damage::{end_banner, picture_banner};
use crate::{Artifact, Error, Format, Run};

/// The study's report.
#[derive(Debug)]
pub(super) struct AllreduceStudy;

/// The size at which the study compares backends.
const COMPARED_MB: f64 = 100.0;

/// `rankmark import` knows a file of ours by these columns: a change here needs one there.
const HEADER: &str = "backend,device,world_size,data_size_mb,avg_time_s,std_time_s,bandwidth_gb_s,\
                      runtime,dtype,reduce,in_place,mode";

impl Format for AllreduceStudy {
    fn about(&self) -> (&'static str, &'static str) {
        (
            "allreduce-study",
            "the files of the all-reduce study: *_benchmark.csv, full_results.md, summary_by_config.md, analysis.txt, *.png",
        )
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        let rows = rows(run)?;
        let mut files = vec![
            Artifact::new("full_results.md", full_results(run, &rows).into_bytes()),
            Artifact::new("summary_by_config.md", summary(run, &rows).into_bytes()),
            Artifact::new("analysis.txt", analysis(run, &rows).into_bytes()),
            Artifact::new("combined_benchmark.csv", csv(run, rows.iter()).into_bytes()),
        ];
        for kind in kinds(&rows) {
            let of_kind = rows.iter().filter(|row| row.kind() == kind);
            let (backend, device) = kind;
            let ending = if device == "cpu" { "_cpu_benchmark.csv" } else { "_gpu_benchmark.csv" };
            files.push(Artifact::at(FileStem::of(backend).file(ending), csv(run, of_kind).into_bytes()));
        }
        for (name, chart) in charts(run, &rows) {
            files.push(Artifact::new(name, chart.png()?));
        }
        Ok(files)
    }
}

/// The CSV of all cases of the study.
pub(super) fn all_rows(run: &Run) -> Result<String, Error> {
    Ok(csv(run, rows(run)?.iter()))
}

fn rows(run: &Run) -> Result<Vec<StudyRow<'_>>, Error> {
    let rows: Vec<StudyRow> = run.cases.iter().filter_map(StudyRow::from_case).collect();
    if rows.is_empty() {
        let what = "the layout `allreduce-study` needs measured all_reduce cases, and the record has none";
        return Err(Error::new(what).hint("rankmark comm all_reduce --num-processes 2 4 --data-sizes 10 100"));
    }
    Ok(rows)
}

/// One measured all_reduce.
struct StudyRow<'r> {
    case: &'r CaseLine,
    megabytes: f64,
    mean_s: f64,
    deviation_s: Option<f64>,
    bandwidth: Option<f64>,
}

impl<'r> StudyRow<'r> {
    fn from_case(case: &'r CaseLine) -> Option<Self> {
        let is_study = case.benchmark == "collective" && case.parameters.get("op")?.as_str() == Some("all_reduce");
        let measured = Measured::from_case(case).filter(|_| is_study)?;
        let time = case.time_s.as_ref()?;
        Some(Self {
            case,
            megabytes: measured.bytes? as f64 / 1e6,
            mean_s: time.mean.unwrap_or(time.median),
            deviation_s: stats::standard_deviation(&case.trial_median_s).or(time.std),
            // Of the mean, as the time beside it: what was measured is of the median.
            bandwidth: measured.busbw.map(|busbw| busbw.mid * time.median / time.mean.unwrap_or(time.median)),
        })
    }

    fn kind(&self) -> (&'r str, &'r str) {
        (&self.case.backend, &self.case.device)
    }

    /// What tells it from other cases of its backend, device, ranks and size; as in the header.
    fn particulars(&self) -> [&'r str; 5] {
        let parameter = |name: &str| self.case.parameters.get(name);
        let reduce = parameter("reduce").and_then(Value::as_str).unwrap_or_default();
        let in_place = match parameter("in_place").and_then(Value::as_bool) {
            Some(true) => "true",
            Some(false) => "false",
            None => "",
        };
        let dtype = self.case.dtype.as_deref().unwrap_or_default();
        [&self.case.runtime, dtype, reduce, in_place, self.case.mode.name()]
    }
}

/// Backends with their devices, in the order of the record.
fn kinds<'r>(rows: &[StudyRow<'r>]) -> Vec<(&'r str, &'r str)> {
    let mut kinds = Vec::new();
    for row in rows {
        if !kinds.contains(&row.kind()) {
            kinds.push(row.kind());
        }
    }
    kinds
}

fn csv<'r, 'a: 'r>(run: &Run, rows: impl Iterator<Item = &'r StudyRow<'a>>) -> String {
    // One column more says so of an incomplete run.
    let end = run.end.phrase();
    let title = end.as_ref().map_or_else(String::new, |_| format!(",{RUN_END}"));
    let end = end.map_or_else(String::new, |end| format!(",{}", crate::escape::csv(&end)));
    let mut text = format!("{HEADER}{title}\n");
    for row in rows {
        let optional = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let (backend, device) = row.kind();
        text += &format!(
            "{},{},{},{},{},{},{},{}{end}\n",
            crate::escape::csv(backend),
            crate::escape::csv(device),
            row.case.ranks,
            row.megabytes,
            row.mean_s,
            optional(row.deviation_s),
            optional(row.bandwidth),
            row.particulars().map(crate::escape::csv).join(","),
        );
    }
    text
}

fn milliseconds(seconds: f64) -> String {
    three_digits(seconds * 1e3)
}

/// A size without digits that say nothing: `1`, `10.5`.
fn megabytes(value: f64) -> String {
    if value.fract() == 0.0 { value.to_string() } else { three_digits(value) }
}

fn full_results(run: &Run, rows: &[StudyRow]) -> Markdown {
    use Align::{Left, Right};
    let mut table = Table::new([
        ("backend", Left),
        ("device", Left),
        ("world_size", Right),
        ("data_size_mb", Right),
        ("avg_time_ms", Right),
        ("std_time_ms", Right),
        ("bandwidth_gb_s", Right),
    ]);
    for row in rows {
        table.row([
            row.kind().0.to_owned(),
            row.kind().1.to_owned(),
            row.case.ranks.to_string(),
            megabytes(row.megabytes),
            milliseconds(row.mean_s),
            row.deviation_s.map_or("-".to_owned(), milliseconds),
            row.bandwidth.map_or("-".to_owned(), three_digits),
        ]);
    }
    titled(run, "All-Reduce Benchmark Results", table)
}

/// One row for each configuration: cases that differ in anything else (in place, element type) are summed up.
fn summary(run: &Run, rows: &[StudyRow]) -> Markdown {
    use Align::{Left, Right};
    let mut table = Table::new([
        ("backend", Left),
        ("device", Left),
        ("world_size", Right),
        ("data_size_mb", Right),
        ("cases", Right),
        ("avg_time_ms mean", Right),
        ("avg_time_ms std", Right),
        ("bandwidth_gb_s mean", Right),
        ("bandwidth_gb_s std", Right),
    ]);
    let key = |row: &StudyRow| (row.kind().0.to_owned(), row.kind().1.to_owned(), row.case.ranks, row.case.bytes);
    let mut seen = BTreeSet::new();
    for first in rows.iter().filter(|row| seen.insert(key(row))) {
        let same: Vec<&StudyRow> = rows.iter().filter(|row| key(row) == key(first)).collect();
        let times: Vec<f64> = same.iter().map(|row| row.mean_s).collect();
        let rates: Vec<f64> = same.iter().filter_map(|row| row.bandwidth).collect();
        table.row([
            first.kind().0.to_owned(),
            first.kind().1.to_owned(),
            first.case.ranks.to_string(),
            megabytes(first.megabytes),
            same.len().to_string(),
            mean(&times).map_or("-".to_owned(), milliseconds),
            stats::standard_deviation(&times).map_or("-".to_owned(), milliseconds),
            mean(&rates).map_or("-".to_owned(), three_digits),
            stats::standard_deviation(&rates).map_or("-".to_owned(), three_digits),
        ]);
    }
    titled(run, "Summary by Configuration", table)
}

fn titled(run: &Run, title: &str, table: Table) -> Markdown {
    let warning = end_banner(run).map(|banner| Block::Warning(banner.as_str().into()));
    let blocks: Vec<Block> =
        [Some(Block::Heading(1, title.into())), warning, Some(Block::Table(table))].into_iter().flatten().collect();
    markdown::text(&blocks)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The study's analysis: what was tested, each backend, sizes, ranks, and what stands out.
fn analysis(run: &Run, rows: &[StudyRow]) -> String {
    let mut text = String::from("All-Reduce Benchmark Analysis\n\n");
    for banner in end_banner(run).into_iter().chain(banner(run.cases.iter())) {
        text += &format!("{banner}\n\n");
    }
    let words = |values: BTreeSet<String>| list(&values.into_iter().collect::<Vec<_>>());
    let sizes: BTreeSet<u64> = rows.iter().filter_map(|row| row.case.bytes).collect();
    let ranks: BTreeSet<u32> = rows.iter().map(|row| row.case.ranks).collect();
    text += "## Overall Statistics\n\n";
    text += &format!("{} tested\n", count(rows.len(), "configuration", "configurations"));
    text += &format!("Backends: {}\n", words(rows.iter().map(|row| row.kind().0.to_owned()).collect()));
    text += &format!("Devices: {}\n", words(rows.iter().map(|row| row.kind().1.to_owned()).collect()));
    text += &format!("Process counts: {}\n", list(&ranks.iter().map(u32::to_string).collect::<Vec<_>>()));
    let sizes: Vec<String> = sizes.iter().map(|size| megabytes(*size as f64 / 1e6)).collect();
    text += &format!("Data sizes: {} MB (1e6 bytes)\n", list(&sizes));
    text += "Bandwidth is bus bandwidth: 2(n-1)/n x size / time, GB = 1e9 bytes\n";
    if !run.machine.is_empty() {
        text += &format!("Machine: {}\n", run.machine);
    }
    text += "\n## Backend Comparison\n\n";
    for (kind, ranks) in groups(rows) {
        text += &format!("- {}+{}, {ranks} processes: {}\n", kind.0, kind.1, extremes(rows, kind, ranks));
    }
    text += "\n## Impact of Data Size\n\n";
    text += &impact(rows, |row| (u64::from(row.case.ranks), row.case.bytes.unwrap_or(0)));
    text += "\n## Impact of Process Count\n\n";
    text += &impact(rows, |row| (row.case.bytes.unwrap_or(0), u64::from(row.case.ranks)));
    text += "\n## Key Observations\n\n";
    for (number, observation) in observations(rows).iter().enumerate() {
        text += &format!("{}. {observation}\n", number + 1);
    }
    text
}

fn means(rows: &[&StudyRow], of: impl Fn(&StudyRow) -> Option<f64>) -> Option<f64> {
    mean(&rows.iter().filter_map(|row| of(row)).collect::<Vec<_>>())
}

/// Backends and devices with each of their numbers of processes.
fn groups<'r>(rows: &[StudyRow<'r>]) -> Vec<((&'r str, &'r str), u32)> {
    let of_kind = |kind| rows.iter().filter(move |row| row.kind() == kind).map(|row| row.case.ranks);
    let each = |kind| of_kind(kind).collect::<BTreeSet<u32>>().into_iter().map(move |ranks| (kind, ranks));
    kinds(rows).into_iter().flat_map(each).collect()
}

/// Times and bandwidths of the smallest and of the largest size. A mean over sizes would be that of the largest.
fn extremes(rows: &[StudyRow], kind: (&str, &str), ranks: u32) -> String {
    let own = || rows.iter().filter(move |row| row.kind() == kind && row.case.ranks == ranks);
    let sizes: BTreeSet<u64> = own().filter_map(|row| row.case.bytes).collect();
    let at = |bytes: u64| {
        let same: Vec<&StudyRow> = own().filter(|row| row.case.bytes == Some(bytes)).collect();
        let time = means(&same, |row| Some(row.mean_s)).map_or("-".to_owned(), milliseconds);
        let rate = means(&same, |row| row.bandwidth).map_or("-".to_owned(), three_digits);
        format!("{time} ms, {rate} GB/s at {} MB", megabytes(bytes as f64 / 1e6))
    };
    let ends: BTreeSet<u64> = [sizes.first(), sizes.last()].into_iter().flatten().copied().collect();
    ends.into_iter().map(at).collect::<Vec<_>>().join("; ")
}

/// The time of each size with each number of processes, in this order.
fn impact(rows: &[StudyRow], order: impl Fn(&StudyRow) -> (u64, u64)) -> String {
    let mut text = String::new();
    for kind in kinds(rows) {
        text += &format!("- {}+{}:\n", kind.0, kind.1);
        let of_kind: Vec<&StudyRow> = rows.iter().filter(|row| row.kind() == kind).collect();
        for place in of_kind.iter().map(|row| order(row)).collect::<BTreeSet<_>>() {
            let same: Vec<&StudyRow> = of_kind.iter().copied().filter(|row| order(row) == place).collect();
            let (size, ranks) = (megabytes(same[0].megabytes), same[0].case.ranks);
            let time = means(&same, |row| Some(row.mean_s)).map_or("-".to_owned(), milliseconds);
            text += &format!("  - {size} MB, {ranks} processes: {time} ms\n");
        }
    }
    text
}

fn observations(rows: &[StudyRow]) -> Vec<String> {
    let named = |row: &StudyRow| {
        let (backend, device) = row.kind();
        format!("{backend}+{device} with {} processes and {} MB", row.case.ranks, megabytes(row.megabytes))
    };
    let mut found = Vec::new();
    if let Some(fastest) = rows.iter().min_by(|a, b| a.mean_s.total_cmp(&b.mean_s)) {
        found.push(format!("Fastest configuration: {} ({} ms)", named(fastest), milliseconds(fastest.mean_s)));
    }
    let rated = rows.iter().filter_map(|row| Some((row, row.bandwidth?)));
    if let Some((row, rate)) = rated.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
        found.push(format!("Highest bandwidth: {} ({} GB/s)", named(row), three_digits(rate)));
    }
    for kind in kinds(rows) {
        let of_kind: Vec<&StudyRow> = rows.iter().filter(|row| row.kind() == kind).collect();
        let Some(largest) = of_kind.iter().filter_map(|row| row.case.bytes).max() else { continue };
        let at_largest: Vec<&StudyRow> = of_kind.into_iter().filter(|row| row.case.bytes == Some(largest)).collect();
        let ranks: BTreeSet<u32> = at_largest.iter().map(|row| row.case.ranks).collect();
        let (Some(fewest), Some(most)) = (ranks.first(), ranks.last()) else { continue };
        let time = |ranks: u32| {
            let same: Vec<&StudyRow> = at_largest.iter().copied().filter(|row| row.case.ranks == ranks).collect();
            means(&same, |row| Some(row.mean_s))
        };
        if let Some((few, many)) = time(*fewest).zip(time(*most)).filter(|_| fewest < most) {
            found.push(format!(
                "{}+{}, {} MB: {:.2}x the time from {fewest} to {most} processes",
                kind.0,
                kind.1,
                megabytes(largest as f64 / 1e6),
                many / few
            ));
        }
    }
    found
}

/// The study's pictures, by file name; that of 100 MB only where it was measured.
fn charts(run: &Run, rows: &[StudyRow]) -> Vec<(&'static str, ChartSpec)> {
    let origin: Vec<String> =
        [run.machine.clone(), run.started.clone()].into_iter().filter(|line| !line.is_empty()).collect();
    let size = || Axis {
        title: "data size of a rank, MB (1e6 bytes)".to_owned(),
        quantity: Quantity::Count,
        scale: Scale::Log,
    };
    let ranks = || Axis { title: "processes".to_owned(), quantity: Quantity::Count, scale: Scale::Steps };
    let time = || Axis { title: "average time".to_owned(), quantity: Quantity::Seconds, scale: Scale::Log };
    let rate = Axis { title: "bus bandwidth, GB/s".to_owned(), quantity: Quantity::Bandwidth, scale: Scale::FromZero };
    let chart = |title: &str, x: Axis, y: Axis, series: Vec<Series>| ChartSpec {
        title: title.to_owned(),
        banner: picture_banner(run, banner(run.cases.iter())),
        origin: origin.clone(),
        x,
        y,
        series,
        ..ChartSpec::default()
    };
    let by_size = |y: &dyn Fn(&StudyRow) -> Option<f64>| {
        let label = |row: &StudyRow| format!("{}+{}, {} processes", row.kind().0, row.kind().1, row.case.ranks);
        series(rows.iter(), &label, &|row| Some(row.megabytes), y)
    };
    let compared = || rows.iter().filter(|row| (row.megabytes / COMPARED_MB - 1.0).abs() < 1e-3);
    let by_ranks = |y: &dyn Fn(&StudyRow) -> Option<f64>| {
        let label = |row: &StudyRow| format!("{}+{}", row.kind().0, row.kind().1);
        series(compared(), &label, &|row| Some(f64::from(row.case.ranks)), y)
    };
    let mut charts = vec![
        (
            "allreduce_time_vs_datasize.png",
            chart("all_reduce: time vs data size", size(), time(), by_size(&|row| Some(row.mean_s))),
        ),
        (
            "allreduce_bandwidth_vs_datasize.png",
            chart("all_reduce: bandwidth vs data size", size(), rate, by_size(&|row| row.bandwidth)),
        ),
    ];
    if compared().next().is_some() {
        charts.push((
            "allreduce_backend_comparison_100mb.png",
            chart("all_reduce: backends at 100 MB", ranks(), time(), by_ranks(&|row| Some(row.mean_s))),
        ));
    }
    charts
}

/// A series for each label; of several cases at one place the fastest counts.
fn series<'r, 'a: 'r>(
    rows: impl Iterator<Item = &'r StudyRow<'a>>,
    label: &dyn Fn(&StudyRow) -> String,
    x: &dyn Fn(&StudyRow) -> Option<f64>,
    y: &dyn Fn(&StudyRow) -> Option<f64>,
) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    let mut times: std::collections::HashMap<(String, u64), f64> = std::collections::HashMap::new();
    for row in rows {
        let (Some(x), Some(y)) = (x(row), y(row)) else { continue };
        let name = label(row);
        let at = match all.iter().position(|series| series.label == name) {
            Some(at) => at,
            None => {
                all.push(Series { label: name.clone(), style: all.len(), points: Vec::new() });
                all.len() - 1
            }
        };
        let oversubscribed = row.case.caveats.contains(&record::Caveat::Oversubscribed);
        let point = Point { x, y, low: y, high: y, oversubscribed };
        let best = times.entry((name, x.to_bits())).or_insert(f64::INFINITY);
        let points = &mut all[at].points;
        match points.iter().position(|known| known.x == x) {
            Some(known) if row.mean_s < *best => points[known] = point,
            Some(_) => {}
            None => points.push(point),
        }
        *best = best.min(row.mean_s);
    }
    all.iter_mut().for_each(|series| series.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    all
}
