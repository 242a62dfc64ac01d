//! Times over runs, drawn for a page: colours come from the page's style sheet.
//!
//! Across is the order of the runs and not their dates: a week of nightly runs and an afternoon of ten are both read run by
//! run. Each point names its date.

use std::rc::Rc;

use view::number::seconds;

use crate::escape::one_line;
use crate::markup::{Html, html};

/// Times over the runs of a machine, and where they changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timeline {
    /// The date of each run, whether or not it has a time.
    pub(crate) dates: Rc<[String]>,
    /// Times in seconds, the oldest first.
    pub(crate) points: Vec<TimePoint>,
    /// Where they changed.
    pub(crate) changes: Vec<TimeChange>,
}

/// A time of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TimePoint {
    /// Place of the run among all.
    pub(crate) run: usize,
    pub(crate) seconds: f64,
    /// The interval that a terminal prints with it.
    pub(crate) interval: Option<[f64; 2]>,
}

/// A change of times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TimeChange {
    /// Place of the first point after it.
    pub(crate) at: usize,
    /// Time after it over time before it.
    pub(crate) ratio: f64,
}

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 132.0;
/// Room for the labels of times, and for dates below.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 20.0;

/// Where values and runs stand.
struct TimelineFrame {
    low: f64,
    high: f64,
    runs: usize,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl TimelineFrame {
    fn around(of: &Timeline, [left, right, top, bottom]: [f64; 4]) -> Self {
        let ends = of.points.iter().flat_map(|point| {
            let [low, high] = point.interval.unwrap_or([point.seconds; 2]);
            [low, high, point.seconds]
        });
        let usable: Vec<f64> = ends.filter(|value| value.is_finite() && *value > 0.0).collect();
        let low = usable.iter().copied().fold(f64::INFINITY, f64::min);
        let high = usable.iter().copied().fold(0.0, f64::max);
        let (low, high) = if usable.is_empty() { (1.0, 1.0) } else { (low, high) };
        // Equal times stand in the middle, and noise of a thousandth does not fill the chart.
        let least = 0.02 * high;
        let more = ((least - (high - low)) / 2.0).max(0.04 * (high - low));
        Self { low: low - more, high: high + more, runs: of.dates.len(), left, right, top, bottom }
    }

    fn x(&self, run: usize) -> f64 {
        let share = if self.runs > 1 { run as f64 / (self.runs - 1) as f64 } else { 0.5 };
        self.left + share * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low).max(f64::MIN_POSITIVE);
        self.bottom - share.clamp(0.0, 1.0) * (self.bottom - self.top)
    }
}

/// One decimal: a tenth of a pixel is not seen.
fn place(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The line, small enough for a table's cell.
pub(super) fn spark(of: &Timeline) -> Html {
    let frame = TimelineFrame::around(of, [2.0, 118.0, 3.0, 21.0]);
    let mut out = html!(r#"<svg class="spark" viewBox="0 0 120 24" aria-hidden="true">"#);
    line(&mut out, of, &frame);
    for change in &of.changes {
        if let Some(point) = of.points.get(change.at) {
            let x = place(frame.x(point.run));
            html!(out => r#"<line class="mark {}" x1="{}" x2="{}" y1="1" y2="23"/>"#, kind(change), x, x);
        }
    }
    out.literal("</svg>");
    out
}

fn line(out: &mut Html, of: &Timeline, frame: &TimelineFrame) {
    let point = |point: &TimePoint| format!("{},{}", place(frame.x(point.run)), place(frame.y(point.seconds)));
    let points: Vec<String> = of.points.iter().map(point).collect();
    html!(out => r#"<polyline class="line" points="{}"/>"#, points.join(" "));
}

fn kind(change: &TimeChange) -> &'static str {
    if change.ratio > 1.0 { "worse" } else { "better" }
}

/// `+12%`, `-3.1%`.
fn size(change: &TimeChange) -> String {
    let relative = change.ratio - 1.0;
    format!("{}{}", if relative < 0.0 { "" } else { "+" }, view::number::percent(relative))
}

/// A chart: runs with intervals, levels, and the changes between them.
pub(super) fn chart(title: &str, of: &Timeline) -> Html {
    let frame = TimelineFrame::around(of, [LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM]);
    let date = |run: usize| of.dates.get(run).map_or("", String::as_str);
    let described = one_line(&format!("{title}: median time over {} runs", of.points.len()));
    let mut out = html!(r#"<svg viewBox="0 0 {} {}" role="img"><title>{}</title>"#, WIDTH, HEIGHT, described);
    for (value, share) in [(frame.high, 0.0), ((frame.low + frame.high) / 2.0, 0.5), (frame.low, 1.0)] {
        let y = TOP + share * (HEIGHT - BOTTOM - TOP);
        let (line, label) = (place(y), place(y + 3.5));
        html!(
            out => r#"<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/><text x="{}" y="{}" text-anchor="end">{}</text>"#,
            LEFT,
            WIDTH - RIGHT,
            line,
            line,
            LEFT - 6.0,
            label,
            seconds(value)
        );
    }
    let day = |run: usize| date(run).get(..10).unwrap_or_default().to_owned();
    let (first, last) = (day(0), day(of.dates.len().saturating_sub(1)));
    let below = HEIGHT - 5.0;
    html!(out => r#"<text x="{}" y="{}">{}</text>"#, LEFT, below, one_line(&first));
    if last != first {
        let right = WIDTH - RIGHT;
        html!(out => r#"<text x="{}" y="{}" text-anchor="end">{}</text>"#, right, below, one_line(&last));
    }
    marks(&mut out, of, &frame);
    line(&mut out, of, &frame);
    for point in &of.points {
        let (x, y) = (place(frame.x(point.run)), place(frame.y(point.seconds)));
        let mut title = format!("{}: {}", date(point.run), seconds(point.seconds));
        if let Some([low, high]) = point.interval {
            title += &format!(" (95%: {} to {})", seconds(low), seconds(high));
            let (low, high) = (place(frame.y(low)), place(frame.y(high)));
            html!(out => r#"<line class="bar" x1="{}" x2="{}" y1="{}" y2="{}"/>"#, x, x, low, high);
        }
        let title = one_line(&title);
        html!(out => r#"<circle class="dot" cx="{}" cy="{}" r="2.6"><title>{}</title></circle>"#, x, y, title);
    }
    out.literal("</svg>");
    out
}

/// Levels, and a line with its size at each change.
fn marks(out: &mut Html, of: &Timeline, frame: &TimelineFrame) {
    let mut edges: Vec<usize> = of.changes.iter().map(|change| change.at).collect();
    edges.insert(0, 0);
    edges.push(of.points.len());
    if !of.changes.is_empty() {
        for pair in edges.windows(2) {
            let part = of.points.get(pair[0]..pair[1]).unwrap_or_default();
            let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
            let middle = stats::median(&part.iter().map(|point| point.seconds).collect::<Vec<_>>());
            let (from, to, y) = (place(frame.x(first.run)), place(frame.x(last.run)), place(frame.y(middle)));
            html!(out => r#"<line class="level" x1="{}" x2="{}" y1="{}" y2="{}"/>"#, from, to, y, y);
        }
    }
    for change in &of.changes {
        let Some(after) = of.points.get(change.at) else { continue };
        // Between the two runs: nothing is known of the time between them.
        let before = of.points.get(change.at.wrapping_sub(1)).unwrap_or(after);
        let at = (frame.x(before.run) + frame.x(after.run)) / 2.0;
        let (x, kind) = (place(at), kind(change));
        let anchor = if at > (frame.left + frame.right) / 2.0 { "end" } else { "start" };
        let (bottom, size) = (HEIGHT - BOTTOM, size(change));
        html!(out => r#"<line class="mark {}" x1="{}" x2="{}" y1="{}" y2="{}"/>"#, kind, x, x, TOP, bottom);
        html!(out => r#"<text class="size {}" x="{}" y="12" text-anchor="{}">{}</text>"#, kind, x, anchor, size);
    }
}
