//! Drift over a long case: how its time moved from the first samples to the last.

use record::{CaseLine, Caveat};

use crate::Run;
use crate::chart::{Axis, ChartSpec, Point, Quantity, Scale, Series};
use crate::document::Block;
use crate::number::{count, percent, seconds};
use crate::study::{Configuration, Measured, Operation, banner, timed};

/// A case is long when it sampled for this many seconds.
const LONG: f64 = 30.0;
/// Cases of an operation that are drawn over time: a plan may have thousands of long ones.
pub(crate) const CHARTS: usize = 12;
/// Sentences about them.
const SAID: usize = 3;
/// Windows of a drift chart.
const WINDOWS: usize = 60;
/// Samples in a window, at least: fewer have no interval of their median.
const WINDOW: usize = 20;

/// Whether a case sampled long enough, or was marked as drifting, for its course in time to be of interest.
pub(crate) fn is_long(case: &CaseLine) -> bool {
    let Some(time) = &case.time_s else { return false };
    let calls = case.calls_per_sample.unwrap_or(1).max(1) as f64;
    let sampled = time.median * calls * case.samples.unwrap_or(0) as f64;
    sampled >= LONG || case.caveats.contains(&Caveat::Drift)
}

/// The series of a case that is long, or that the measuring marked as drifting, and long enough to say anything.
pub(crate) fn series<'r>(run: &'r Run, case: &CaseLine) -> Option<&'r [f64]> {
    let samples = run.samples.get(&case.id).filter(|samples| samples.len() >= 5 * WINDOW)?;
    let usable = samples.iter().all(|sample| sample.is_finite() && *sample > 0.0);
    (usable && is_long(case)).then_some(samples)
}

/// One sentence for each long case.
pub(crate) fn sentences(run: &Run, operations: &[Operation]) -> Vec<String> {
    let of = |operation: &Operation| charted(run, operation).map(|case| said(operation, &case)).take(SAID).collect();
    operations.iter().flat_map::<Vec<String>, _>(of).take(SAID).collect()
}

/// A long case, and what its sentence and chart need.
pub(crate) struct Long<'o> {
    pub(crate) configuration: &'o Configuration<'o>,
    pub(crate) point: &'o Measured<'o>,
    pub(crate) samples: &'o [f64],
}

/// The cases of an operation that are drawn over time.
pub(crate) fn charted<'o>(run: &'o Run, operation: &'o Operation<'o>) -> impl Iterator<Item = Long<'o>> {
    let points = operation.configurations.iter().flat_map(|c| c.points.iter().map(move |point| (c, point)));
    let long = points
        .filter_map(|(configuration, point)| Some(Long { configuration, point, samples: series(run, point.case)? }));
    long.take(CHARTS)
}

/// What is said where charts leave cases out.
pub(crate) fn left_out(run: &Run, operation: &Operation) -> Option<Block> {
    let long = operation.points().filter(|point| is_long(point.case)).count();
    (long > CHARTS).then(|| {
        let drawn = charted(run, operation).count();
        let long = count(long, "long case", "long cases");
        let words = format!("{drawn} of {long} are drawn over time; the record has the samples of all.");
        Block::Paragraph(words.into())
    })
}

fn said(operation: &Operation, long: &Long) -> String {
    let size = long.point.bytes.map(|size| format!(" of {}", crate::number::bytes(size))).unwrap_or_default();
    sentence(&format!("{}{size} with {}", operation.name, long.configuration.label), long.samples)
}

/// Whether the time moved: steadily, by the test of `stats::drift`, or else from one level to another, by the intervals
/// of the first and the last tenth.
fn sentence(what: &str, samples: &[f64]) -> String {
    let tenth = samples.len() / 10;
    let (first, last) = (&samples[..tenth], &samples[samples.len() - tenth..]);
    let ends = format!(
        "median {} in the first tenth, {} in the last",
        seconds(stats::median(first)),
        seconds(stats::median(last))
    );
    let number = count(samples.len(), "sample", "samples");
    if let Some(drift) = stats::drift(samples) {
        let way = if drift.change > 0.0 { "slower" } else { "faster" };
        return format!("{what} became {} {way} over its {number}: {ends}.", percent(drift.change.abs()));
    }
    let apart = match (stats::median_interval(first), stats::median_interval(last)) {
        (Some(first), Some(last)) => first.low > last.high || last.low > first.high,
        _ => false,
    };
    if apart {
        return format!("{what} has no steady trend over {number}, but its level changed: {ends}.");
    }
    format!("{what} shows no drift beyond its noise over {number}: {ends}.")
}

/// Medians of windows against the time that the samples took.
pub(crate) fn chart(operation: &Operation, label: &str, style: usize, case: &CaseLine, samples: &[f64]) -> ChartSpec {
    let calls = case.calls_per_sample.unwrap_or(1).max(1) as f64;
    let size = (samples.len() / WINDOWS).max(WINDOW);
    let mut elapsed = 0.0;
    let mut points = Vec::new();
    for window in samples.chunks(size) {
        let length = window.iter().sum::<f64>() * calls;
        let median = stats::median(window);
        // Strongly correlated or too few samples have no interval; their range then bounds more, never less.
        let range = || window.iter().fold([median; 2], |[low, high], sample| [low.min(*sample), high.max(*sample)]);
        let [low, high] = stats::median_interval(window).map_or_else(range, |interval| [interval.low, interval.high]);
        points.push(Point { x: elapsed + length / 2.0, y: median, low, high, oversubscribed: false });
        elapsed += length;
    }
    let size_text = case.bytes.map(|bytes| format!(", {}", crate::number::bytes(bytes))).unwrap_or_default();
    ChartSpec {
        title: format!("{}{size_text}: time over the run", operation.name),
        subtitle: operation.constants.clone(),
        banner: banner(std::iter::once(case)),
        note: format!(
            "Each point: the median of {size} samples in a row; band: its 95% interval, else their range. The vertical axis spans the data."
        ),
        x: Axis { title: "time spent in samples".to_owned(), quantity: Quantity::Seconds, scale: Scale::FromZero },
        y: Axis { title: timed(operation), quantity: Quantity::Seconds, scale: Scale::Linear },
        series: vec![Series { label: label.to_owned(), style, points }],
        ..ChartSpec::default()
    }
}
