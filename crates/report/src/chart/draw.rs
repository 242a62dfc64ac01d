//! Lays a [`ChartSpec`] out: title, axes, bands, lines, markers, and a label at each line's end, or all below.

use view::{ChartSpec, Point, Scale, Series};

use super::axis::{self, text};
use super::bounds::bounded;
use super::font::{self, Weight};
use super::labels::spread;
use super::lanes;
use super::matrix;
use super::scale::{Extent, Mapped};
use super::scene::{Anchor, Box2, Item, Paint, Pen, Scene, Text};
use super::stack;
use super::style::{self, FRAME, INK, QUIET, WARNING, WARNING_INK};
use super::waterfall;

const MARGIN: f64 = 20.0;
const TITLE_SIZE: f64 = 18.0;
const TEXT_SIZE: f64 = 13.0;
const NOTE_SIZE: f64 = 12.0;
/// Distance of two labels' baselines.
const LABEL_GAP: f64 = 17.0;
/// A label's room for its marker.
const SAMPLE: f64 = 18.0;

/// How large a picture is, and what stands around its plot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// Width of the whole picture.
    width: f64,
    /// Height of the plot.
    height: f64,
    /// The widest label that fits next to the plot. If one is wider, all labels go below the plot, because an ellipsis would
    /// hide the ends in which many differ.
    widest_label: f64,
    /// Series, and limits, that are drawn.
    lines: usize,
    /// Whether it has its title, banner, note and origin in itself. Else the page around it says them.
    whole: bool,
}

impl Page {
    /// A picture that is passed on alone.
    pub(crate) const WHOLE: Self = Self { width: 900.0, height: 372.0, widest_label: 190.0, lines: 40, whole: true };
    /// One of two that stand side by side on a page.
    pub(crate) const HALF: Self = Self { width: 600.0, height: 270.0, widest_label: 120.0, lines: 14, whole: false };

    /// One that is as wide as a page.
    pub(crate) const WIDE: Self = Self { width: 1190.0, ..Self::HALF };

    /// Series, and limits, that are drawn.
    pub(crate) const fn lines(self) -> usize {
        self.lines
    }
}

/// A label of a series or reference, and the end of the line that it names.
struct EndLabel {
    content: String,
    rgb: [u8; 3],
    sample: DrawnSample,
    /// None: it names no line.
    end: Option<[f64; 2]>,
}

enum DrawnSample {
    Marker(usize),
    /// Points with more ranks than cores.
    Oversubscribed,
    Dashes([u8; 3]),
    /// A part of a bar.
    Square(usize),
    /// A stall.
    Hatched,
    Stroke(Pen),
}

/// Lays the chart out.
pub(crate) fn draw(spec: &ChartSpec, page: &Page) -> Scene {
    let (spec, left_out) = bounded(spec, page.lines);
    let spec = &*spec;
    let mut items = Vec::new();
    let top = header(&mut items, spec, page);
    if let Some(matrix) = &spec.matrix {
        return cells(items, spec, matrix, top, page);
    }
    if let Some(all) = &spec.lanes {
        return timeline(items, spec, all, top, page);
    }
    if spec.waterfall.is_some() {
        return terms(items, spec, top, page);
    }
    let names = names(spec, page);
    let widest = names.iter().map(|name| font::width(name, TEXT_SIZE, Weight::Regular)).fold(0.0, f64::max);
    let labels_at_side = names.len().saturating_sub(1) as f64 * LABEL_GAP <= page.height && widest <= page.widest_label;
    let right = if labels_at_side { page.width - MARGIN - widest - SAMPLE - 24.0 } else { page.width - MARGIN - 24.0 };
    let (plot, x, y) = frame(spec, [top, top + page.height], right);
    axis::draw(&mut items, &plot, &x, &y);
    stack::draw(&mut items, spec, &x, &y);
    references(&mut items, spec, &x, &y);
    let dodged = |index: usize| dodge(spec, index);
    for (index, series) in spec.series.iter().enumerate() {
        band(&mut items, series, &x, &y, dodged(index), spec.x.scale == Scale::Steps);
    }
    for (index, series) in spec.series.iter().enumerate() {
        line(&mut items, series, &x, &y, dodged(index), !spec.scattered);
    }
    let labels = end_labels(spec, &names, &x, &y);
    let mut bottom = footer(&mut items, spec, &plot, page);
    if let Some(left_out) = left_out {
        bottom += LABEL_GAP;
        items.push(Item::Text(text(left_out, [MARGIN, bottom - 4.0], Anchor::Start, NOTE_SIZE, INK)));
    }
    if labels_at_side {
        next_to_the_plot(&mut items, &labels, &plot);
    } else {
        bottom = below_the_plot(&mut items, &labels, bottom, widest, page.width);
    }
    let series: Vec<&str> = spec.series.iter().map(|series| series.label.as_str()).collect();
    let warning = spec.banner.as_deref().map(|banner| format!(" ({banner})")).unwrap_or_default();
    let description = format!("{}{warning}: {}; {}", spec.title, spec.subtitle, series.join("; "));
    Scene { width: page.width, height: bottom + 12.0, description, items }
}

/// Draws the cells of a matrix, which are the rest of its picture.
fn cells(mut items: Vec<Item>, spec: &ChartSpec, matrix: &super::Matrix, top: f64, page: &Page) -> Scene {
    let plot = matrix::draw(&mut items, matrix, [MARGIN, top, page.width - MARGIN], &spec.x.title);
    let note = format!("{} {}", matrix::key(matrix), spec.note).trim().to_owned();
    let below = ChartSpec { note, origin: spec.origin.clone(), ..ChartSpec::default() };
    let bottom = footer(&mut items, &below, &Box2 { bottom: plot.bottom - 28.0, ..plot }, page);
    let warning = spec.banner.as_deref().map(|banner| format!(" ({banner})")).unwrap_or_default();
    let description = format!("{}{warning}: {}", spec.title, spec.subtitle);
    Scene { width: page.width, height: bottom + 12.0, description, items }
}

/// Draws the rest of a picture of a timeline. What its colours mean stands above it.
fn timeline(mut items: Vec<Item>, spec: &ChartSpec, all: &super::Lanes, top: f64, page: &Page) -> Scene {
    let right = page.width - MARGIN - 24.0;
    let (drawn, left_out) = lanes::of_picture(all, right as usize);
    let fit = |label: &str| font::fit(&crate::escape::one_line(label), TEXT_SIZE, Weight::Regular, right / 2.0);
    let key = drawn.kinds.iter().map(|kind| {
        let (rgb, sample) = match kind.stall {
            true => (QUIET, DrawnSample::Hatched),
            false => (style::text_colour(kind.style), DrawnSample::Square(kind.style)),
        };
        EndLabel { content: fit(&kind.label), rgb, sample, end: None }
    });
    let key: Vec<EndLabel> = key.collect();
    let widest = key.iter().map(|label| font::width(&label.content, TEXT_SIZE, Weight::Regular)).fold(0.0, f64::max);
    let top = below_the_plot(&mut items, &key, top - 10.0, widest, page.width) + 4.0;
    let plot = lanes::draw(&mut items, &drawn, &spec.x, [MARGIN, top, right]);
    let note = [Some(spec.note.clone()), left_out].into_iter().flatten().filter(|text| !text.is_empty());
    let kinds: Vec<&str> = spec.lanes.iter().flat_map(|all| &all.kinds).map(|kind| kind.label.as_str()).collect();
    let content = format!("{}; {}", crate::number::count(drawn.rows.len(), "rank", "ranks"), kinds.join("; "));
    ended(items, spec, note.collect::<Vec<_>>().join(" "), &plot, &content, page)
}

/// Draws the bars of a waterfall, which are the rest of its picture.
fn terms(mut items: Vec<Item>, spec: &ChartSpec, top: f64, page: &Page) -> Scene {
    let bars = super::waterfall_bars(spec);
    let plot = waterfall::draw(&mut items, &bars, &spec.x, [MARGIN, top, page.width - MARGIN]);
    let content: Vec<String> = bars.iter().map(|bar| format!("{} {}", bar.label, bar.value)).collect();
    ended(items, spec, spec.note.clone(), &plot, &content.join("; "), page)
}

/// The scene of a picture that has its own plot, with what stands below it.
fn ended(mut items: Vec<Item>, spec: &ChartSpec, note: String, plot: &Box2, content: &str, page: &Page) -> Scene {
    let below = ChartSpec { note, origin: spec.origin.clone(), x: spec.x.clone(), ..ChartSpec::default() };
    let bottom = footer(&mut items, &below, plot, page);
    let warning = spec.banner.as_deref().map(|banner| format!(" ({banner})")).unwrap_or_default();
    let description = format!("{}{warning}: {}; {content}", spec.title, spec.subtitle);
    Scene { width: page.width, height: bottom + 12.0, description, items }
}

/// Banner, title and subtitle; returns where they end.
fn titles(items: &mut Vec<Item>, spec: &ChartSpec, room: f64) -> f64 {
    let mut y = 0.0;
    if let Some(banner) = &spec.banner {
        let width = room + 2.0 * MARGIN;
        let corners = vec![[0.0, 0.0], [width, 0.0], [width, 28.0], [0.0, 28.0]];
        items.push(Item::Polygon { points: corners, fill: Some(Paint::solid(WARNING)), pen: None });
        let banner = font::fit(banner, TEXT_SIZE, Weight::Bold, room);
        let at = [MARGIN, 19.0];
        items
            .push(Item::Text(Text { weight: Weight::Bold, ..text(banner, at, Anchor::Start, TEXT_SIZE, WARNING_INK) }));
        y += 28.0;
    }
    y += 16.0 + TITLE_SIZE * 0.74;
    let title = font::fit(&spec.title, TITLE_SIZE, Weight::Bold, room);
    items.push(Item::Text(Text { weight: Weight::Bold, ..text(title, [MARGIN, y], Anchor::Start, TITLE_SIZE, INK) }));
    if !spec.subtitle.is_empty() {
        y += 21.0;
        let subtitle = font::fit(&spec.subtitle, TEXT_SIZE, Weight::Regular, room);
        items.push(Item::Text(text(subtitle, [MARGIN, y], Anchor::Start, TEXT_SIZE, QUIET)));
    }
    y
}

/// Titles, and that of the vertical axis; returns where the plot begins.
fn header(items: &mut Vec<Item>, spec: &ChartSpec, page: &Page) -> f64 {
    let room = page.width - 2.0 * MARGIN;
    let mut y = if page.whole { titles(items, spec, room) } else { -14.0 };
    if spec.y.title.is_empty() {
        return y + 26.0;
    }
    y += 30.0;
    let title = font::fit(&spec.y.title, TEXT_SIZE, Weight::Regular, room);
    items.push(Item::Text(Text { weight: Weight::Bold, ..text(title, [MARGIN, y], Anchor::Start, TEXT_SIZE, INK) }));
    y + 14.0
}

fn extents(spec: &ChartSpec) -> (Extent, Extent) {
    let (mut x, mut y) = (Extent::default(), Extent::default());
    for point in spec.series.iter().flat_map(|series| &series.points) {
        x.values.push(point.x);
        y.values.push(point.y);
        y.intervals.extend([point.low, point.high]);
    }
    let known = |[_, limit]: &&[f64; 2]| limit.is_finite();
    for [at, limit] in spec.references.iter().flat_map(|reference| &reference.points).filter(known) {
        x.values.push(*at);
        y.values.push(*limit);
    }
    stack::extend(spec, &mut x, &mut y);
    (x, y)
}

/// The plot's box with both axes mapped into it. The left margin depends on the vertical axis' labels.
fn frame(spec: &ChartSpec, [top, bottom]: [f64; 2], right: f64) -> (Box2, Mapped, Mapped) {
    let (across, up) = extents(spec);
    let y = Mapped::new(&spec.y, &up, [bottom, top]);
    let (_, widest) = axis::rows(&y);
    let left = MARGIN + widest + 8.0;
    let mut x = Mapped::new(&spec.x, &across, [left, right]);
    x.names.clone_from(&spec.names);
    (Box2 { left, top, right, bottom }, x, y)
}

/// Where categories are shared, series stand side by side.
fn dodge(spec: &ChartSpec, index: usize) -> f64 {
    if spec.x.scale != Scale::Steps {
        return 0.0;
    }
    let middle = (spec.series.len() as f64 - 1.0) / 2.0;
    (index as f64 - middle) * 9.0f64.min(60.0 / spec.series.len().max(1) as f64)
}

fn placed(point: &Point, x: &Mapped, y: &Mapped, dodge: f64) -> Option<[f64; 2]> {
    Some([x.place(point.x)? + dodge, y.place(point.y)?])
}

/// The interval: a band along a line, a bar at a point that stands alone or in a category.
fn band(items: &mut Vec<Item>, series: &Series, x: &Mapped, y: &Mapped, dodge: f64, bars: bool) {
    let shown = |point: &&Point| placed(point, x, y, dodge).is_some() && point.low <= point.high;
    let points: Vec<&Point> = series.points.iter().filter(shown).collect();
    let at = |point: &Point| x.place(point.x).unwrap_or_default() + dodge;
    let colour = style::colour(series.style);
    if bars || points.len() == 1 {
        for point in points {
            let (across, low, high) = (at(point), y.clamped(point.low), y.clamped(point.high));
            let pen = Pen { paint: Paint::faint(colour, 0.75), width: 1.4, dash: None };
            items.push(Item::Line { points: vec![[across, low], [across, high]], pen });
            for (end, value) in [(low, point.low), (high, point.high)] {
                if !y.is_cut(value) {
                    items.push(Item::Line { points: vec![[across - 4.0, end], [across + 4.0, end]], pen });
                }
            }
            cut_ends(items, point, across, y, colour);
        }
        return;
    }
    points.iter().for_each(|point| cut_ends(items, point, at(point), y, colour));
    let upper = points.iter().map(|point| [at(point), y.clamped(point.high)]);
    let lower = points.iter().rev().map(|point| [at(point), y.clamped(point.low)]);
    let points: Vec<[f64; 2]> = upper.chain(lower).collect();
    if !points.is_empty() {
        items.push(Item::Polygon { points, fill: Some(Paint::faint(colour, 0.2)), pen: None });
    }
}

/// An arrow at each end of an interval that goes on beyond the frame.
fn cut_ends(items: &mut Vec<Item>, point: &Point, across: f64, y: &Mapped, colour: [u8; 3]) {
    const ARROW: f64 = 7.0;
    for (value, edge, inwards) in [(point.low, y.range[0], -ARROW), (point.high, y.range[1], ARROW)] {
        if y.is_cut(value) {
            let points = vec![[across, edge], [across - 4.5, edge + inwards], [across + 4.5, edge + inwards]];
            items.push(Item::Polygon { points, fill: Some(Paint::solid(colour)), pen: None });
        }
    }
}

fn line(items: &mut Vec<Item>, series: &Series, x: &Mapped, y: &Mapped, dodge: f64, joined: bool) {
    let points: Vec<[f64; 2]> = series.points.iter().filter_map(|point| placed(point, x, y, dodge)).collect();
    let paint = Paint::solid(style::colour(series.style));
    if joined && points.len() > 1 {
        items.push(Item::Line { points: points.clone(), pen: Pen { paint, width: 1.8, dash: None } });
    }
    for point in &series.points {
        let Some(at) = placed(point, x, y, dodge) else { continue };
        let marker = if point.oversubscribed { style::oversubscribed } else { style::marker };
        items.push(marker(series.style, at));
    }
}

fn references(items: &mut Vec<Item>, spec: &ChartSpec, x: &Mapped, y: &Mapped) {
    for reference in &spec.references {
        let place = |[across, up]: &[f64; 2]| Some([x.place(*across)?, y.place(*up)?]);
        let paint = Paint::faint(reference_colour(reference.style), 0.9);
        for known in reference.points.split(|[_, up]| !up.is_finite()) {
            let mut points: Vec<[f64; 2]> = known.iter().filter_map(place).collect();
            if let [[across, up]] = points[..] {
                // A limit that is known at one place only is a short stroke there.
                points = vec![[across - 16.0, up], [across + 16.0, up]];
            }
            if !points.is_empty() {
                items.push(Item::Line { points, pen: Pen { paint, width: 1.3, dash: Some([5.0, 4.0]) } });
            }
        }
    }
}

fn reference_colour(style: Option<usize>) -> [u8; 3] {
    style.map_or(QUIET, style::colour)
}

/// The texts of all labels: series, then references.
fn names(spec: &ChartSpec, page: &Page) -> Vec<String> {
    let series = spec.series.iter().map(|series| &series.label);
    let references = spec.references.iter().map(|reference| &reference.label);
    let room = page.width - 2.0 * MARGIN - SAMPLE;
    let fit = |label: &String| font::fit(&crate::escape::one_line(label), TEXT_SIZE, Weight::Regular, room);
    // As they lie over each other.
    let stacks = spec.stacks.iter().rev().map(|stack| &stack.label);
    let marks = spec.marks.iter().map(|mark| &mark.label);
    let oversubscribed = is_oversubscribed(spec).then(|| "ranks > cores".to_owned());
    series.chain(references).chain(stacks).chain(marks).map(fit).chain(oversubscribed).collect()
}

fn is_oversubscribed(spec: &ChartSpec) -> bool {
    spec.series.iter().flat_map(|series| &series.points).any(|point| point.oversubscribed)
}

fn end_labels(spec: &ChartSpec, names: &[String], x: &Mapped, y: &Mapped) -> Vec<EndLabel> {
    let mut names = names.iter();
    let mut labels = Vec::with_capacity(names.len());
    for (index, series) in spec.series.iter().enumerate() {
        let Some(name) = names.next() else { continue };
        let end = series.points.iter().rev().find_map(|point| placed(point, x, y, dodge(spec, index)));
        labels.push((name, style::text_colour(series.style), DrawnSample::Marker(series.style), end));
    }
    for reference in &spec.references {
        let Some(name) = names.next() else { continue };
        let place = |[across, up]: &[f64; 2]| Some([x.place(*across)?, y.place(*up)?]);
        let end = reference.points.iter().rev().filter(|[_, up]| up.is_finite()).find_map(place);
        let rgb = reference_colour(reference.style);
        let ink = reference.style.map_or(QUIET, style::text_colour);
        labels.push((name, ink, DrawnSample::Dashes(rgb), end));
    }
    for (index, part) in spec.stacks.iter().enumerate().rev() {
        let Some(name) = names.next() else { continue };
        let end = stack::end(spec, index, x, y);
        labels.push((name, style::text_colour(part.style), DrawnSample::Square(part.style), end));
    }
    for mark in &spec.marks {
        let Some(name) = names.next() else { continue };
        let pen = stack::pen(mark);
        labels.push((name, pen.paint.rgb, DrawnSample::Stroke(pen), stack::mark_end(spec, mark, x, y)));
    }
    if let Some(name) = names.next() {
        labels.push((name, QUIET, DrawnSample::Oversubscribed, None));
    }
    let label = |(name, rgb, sample, end): (&String, _, _, _)| EndLabel { content: name.clone(), rgb, sample, end };
    labels.into_iter().map(label).collect()
}

/// One label: a sample of the line, then its name.
fn label(items: &mut Vec<Item>, label: &EndLabel, left: f64, middle: f64) {
    let sample = match label.sample {
        DrawnSample::Marker(style) => style::marker(style, [left + 6.0, middle]),
        DrawnSample::Oversubscribed => style::oversubscribed_sample([left + 6.0, middle]),
        DrawnSample::Dashes(rgb) => Item::Line {
            points: vec![[left, middle], [left + 13.0, middle]],
            pen: Pen { paint: Paint::solid(rgb), width: 1.3, dash: Some([5.0, 3.0]) },
        },
        DrawnSample::Square(style) => {
            let (right, top, bottom) = (left + 11.0, middle - 5.5, middle + 5.5);
            let points = vec![[left, top], [right, top], [right, bottom], [left, bottom]];
            Item::Polygon { points, fill: Some(Paint::solid(style::colour(style))), pen: None }
        }
        DrawnSample::Hatched => {
            let of = Box2 { left, top: middle - 5.5, right: left + 13.0, bottom: middle + 5.5 };
            let [rim, strokes] = lanes::stalls(&[of]);
            items.push(rim);
            strokes
        }
        DrawnSample::Stroke(pen) => Item::Line { points: vec![[left, middle], [left + 13.0, middle]], pen },
    };
    items.push(sample);
    let at = [left + SAMPLE, middle + 0.36 * TEXT_SIZE];
    items.push(Item::Text(text(label.content.clone(), at, Anchor::Start, TEXT_SIZE, label.rgb)));
}

/// Labels at the line ends, moved apart where they would collide. A label that had to move has a grey thread to the height
/// of its line, outside the plot: inside, it would look like data.
fn next_to_the_plot(items: &mut Vec<Item>, labels: &[EndLabel], plot: &Box2) {
    let wanted: Vec<f64> = labels.iter().map(|label| label.end.map_or(plot.bottom, |end| end[1])).collect();
    let places = spread(&wanted, LABEL_GAP, [plot.top, plot.bottom]);
    let left = plot.right + 18.0;
    for (end, middle) in labels.iter().zip(places) {
        // The marker names a line that stops short.
        let near = end.end.filter(|[x, _]| plot.right - x <= 40.0);
        if let Some([_, y]) = near.filter(|[_, y]| (middle - y).abs() > 3.0) {
            let pen = Pen { paint: Paint::solid(FRAME), width: 0.9, dash: None };
            items.push(Item::Line { points: vec![[plot.right + 4.0, y], [left - 3.0, middle]], pen });
        }
        label(items, end, left, middle);
    }
}

/// Labels in columns below the chart: more or longer ones than the right margin holds. Returns the new bottom.
fn below_the_plot(items: &mut Vec<Item>, labels: &[EndLabel], top: f64, widest: f64, width: f64) -> f64 {
    const APART: f64 = 18.0;
    let column = widest + SAMPLE + APART;
    let columns = (((width - 2.0 * MARGIN + APART) / column) as usize).max(1);
    let rows = labels.len().div_ceil(columns);
    for (index, end) in labels.iter().enumerate() {
        let (across, down) = (index / rows, index % rows);
        label(items, end, MARGIN + across as f64 * column, top + 16.0 + down as f64 * LABEL_GAP);
    }
    top + 16.0 + rows as f64 * LABEL_GAP
}

/// The horizontal axis' title and the note; returns the bottom.
fn footer(items: &mut Vec<Item>, spec: &ChartSpec, plot: &Box2, page: &Page) -> f64 {
    let room = page.width - 2.0 * MARGIN;
    let mut y = plot.bottom + 44.0;
    let title = font::fit(&spec.x.title, TEXT_SIZE, Weight::Bold, room);
    let title_text = text(title, [(plot.left + plot.right) / 2.0, y], Anchor::Middle, TEXT_SIZE, INK);
    items.push(Item::Text(Text { weight: Weight::Bold, ..title_text }));
    if !page.whole {
        return y + 4.0;
    }
    let note = wrapped(spec.note.split(' '), " ", room);
    let origin = wrapped(spec.origin.iter().map(String::as_str), " · ", room);
    for (index, line) in note.iter().chain(&origin).enumerate() {
        y += if index == 0 { 24.0 } else { 16.0 };
        items.push(Item::Text(text(line.clone(), [MARGIN, y], Anchor::Start, NOTE_SIZE, QUIET)));
    }
    y + 4.0
}

/// Parts in lines as wide as there is room. A part that is wider alone is cut between its words, and only a word that is
/// wider alone ends in an ellipsis.
fn wrapped<'p>(parts: impl Iterator<Item = &'p str>, between: &str, room: f64) -> Vec<String> {
    let width = |line: &str| font::width(&crate::escape::one_line(line), NOTE_SIZE, Weight::Regular);
    let mut lines: Vec<String> = Vec::new();
    let mut add = |part: &str, between: &str| match lines.last_mut() {
        Some(line) if width(&format!("{line}{between}{part}")) <= room => *line += &format!("{between}{part}"),
        _ => lines.push(part.to_owned()),
    };
    for part in parts.filter(|part| !part.is_empty()) {
        if width(part) <= room {
            add(part, between);
            continue;
        }
        for (index, word) in part.split(' ').enumerate() {
            add(word, if index == 0 { between } else { " " });
        }
    }
    lines.iter().map(|line| font::fit(&crate::escape::one_line(line), NOTE_SIZE, Weight::Regular, room)).collect()
}
