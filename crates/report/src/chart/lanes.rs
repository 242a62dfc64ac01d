//! Spans of time in rows, one row a rank. Stalls are outlined and hatched and all else is filled, so that a picture reads
//! without colour. A row of more spans than the picture has columns is merged ([`fitted`]).

use view::{Axis, Lane, Lanes, Span};

use super::axis::{self, text};
use super::font::{self, Weight};
use super::scale::Mapped;
use super::scene::{Anchor, Box2, Item, Paint, Pen};
use super::style::{self, GRID, QUIET};
use crate::number::{count, thousands};

/// Rows that are drawn: more are thinner than a letter.
const MOST: usize = 64;
/// Spans of a picture: each takes about 25 bytes of an SVG.
const SPANS: usize = 4_000;
/// Spans that a page's script draws, and times in a row that it tells apart.
const PAGE: [usize; 2] = [40_000, 4_000];
/// Strokes that hatch all stalls of a picture.
const STROKES: usize = 2_500;
const SIZE: f64 = 12.0;
/// The widest label of a row.
const LABEL: f64 = 170.0;
/// Height of all rows together, and of one.
const HEIGHT: f64 = 330.0;
const ROW: [f64; 2] = [9.0, 26.0];
/// Distance of two strokes of a hatched span.
const HATCH: f64 = 6.0;
/// A narrower stall has no room for strokes.
const HATCHED: f64 = 4.0;

/// When the first span begins and the last one ends.
pub(super) fn range(rows: &[Lane]) -> [f64; 2] {
    let spans = rows.iter().flat_map(|row| &row.spans);
    let [begin, end] =
        spans.fold([f64::INFINITY, f64::NEG_INFINITY], |[begin, end], span| [begin.min(span.begin), end.max(span.end)]);
    if begin < end { [begin, end] } else { [0.0, 1.0] }
}

/// Draws the rows below `top`. Returns their box.
pub(super) fn draw(items: &mut Vec<Item>, lanes: &Lanes, time: &Axis, [left, top, right]: [f64; 3]) -> Box2 {
    let fitting = |row: &Lane| font::fit(&crate::escape::one_line(&row.label), SIZE, Weight::Regular, LABEL);
    let heads: Vec<String> = lanes.rows.iter().map(fitting).collect();
    let widest = heads.iter().map(|head| font::width(head, SIZE, Weight::Regular)).fold(0.0, f64::max);
    let height = (HEIGHT / lanes.rows.len().max(1) as f64).clamp(ROW[0], ROW[1]);
    let (left, bottom) = (left + widest + 10.0, top + height * lanes.rows.len() as f64 + 4.0);
    let plot = Box2 { left, top, right, bottom };
    let x = Mapped::exact(time, range(&lanes.rows), [left, right]);
    axis::across(items, &plot, &x);
    let every = ((SIZE + 3.0) / height).ceil() as usize;
    for (row, head) in heads.into_iter().enumerate() {
        let middle = top + (row as f64 + 0.5) * height;
        let line = Pen { paint: Paint::solid(GRID), width: 1.0, dash: None };
        items.push(Item::Line { points: vec![[left, middle], [right, middle]], pen: line });
        if row.is_multiple_of(every) {
            items.push(Item::Text(text(head, [left - 8.0, middle + 0.36 * SIZE], Anchor::End, SIZE, QUIET)));
        }
    }
    for (kind, of) in lanes.kinds.iter().enumerate() {
        let boxes = boxes(lanes, kind, &x, [top, height]);
        match (boxes.is_empty(), of.stall) {
            (true, _) => {}
            (false, true) => items.extend(stalls(&boxes)),
            (false, false) => items.push(filled(&boxes, of.style)),
        }
    }
    plot
}

/// Where the spans of a kind lie.
fn boxes(lanes: &Lanes, kind: usize, x: &Mapped, [top, height]: [f64; 2]) -> Vec<Box2> {
    let mut boxes = Vec::new();
    for (row, lane) in lanes.rows.iter().enumerate() {
        let top = top + row as f64 * height + 1.0;
        for span in lane.spans.iter().filter(|span| span.kind == kind) {
            let (Some(left), Some(right)) = (x.place(span.begin), x.place(span.end)) else { continue };
            // What is shorter than a pixel is seen, too.
            boxes.push(Box2 { left, top, right: right.max(left + 0.7), bottom: top + height - 2.0 });
        }
    }
    boxes
}

fn corners(of: &Box2) -> Vec<[f64; 2]> {
    vec![[of.left, of.top], [of.right, of.top], [of.right, of.bottom], [of.left, of.bottom]]
}

fn filled(boxes: &[Box2], style: usize) -> Item {
    // Colours repeat after a round: those of the second are lighter.
    let opacity = if (style / view::COLOURS).is_multiple_of(2) { 1.0 } else { 0.5 };
    let fill = Some(Paint::faint(style::colour(style), opacity));
    Item::Shapes { outlines: boxes.iter().map(corners).collect(), closed: true, fill, pen: None }
}

/// Stalls: their rims, and strokes inside of them as far as there is room.
pub(super) fn stalls(boxes: &[Box2]) -> [Item; 2] {
    let pen = Pen { paint: Paint::solid(QUIET), width: 0.8, dash: None };
    let outlines = boxes.iter().map(corners).collect();
    let rims = Item::Shapes { outlines, closed: true, fill: Some(Paint::faint(QUIET, 0.12)), pen: Some(pen) };
    let mut distance = HATCH;
    let mut strokes = hatch(boxes, distance);
    while strokes.len() > STROKES {
        distance *= 2.0;
        strokes = hatch(boxes, distance);
    }
    [rims, Item::Shapes { outlines: strokes, closed: false, fill: None, pen: Some(pen) }]
}

/// The parts inside of the boxes of lines that rise at 45 degrees, so many units apart along an axis.
fn hatch(boxes: &[Box2], distance: f64) -> Vec<Vec<[f64; 2]>> {
    let mut strokes = Vec::new();
    for of in boxes.iter().filter(|of| of.right - of.left >= HATCHED) {
        let (first, last) = (((of.left + of.top) / distance).ceil(), ((of.right + of.bottom) / distance).floor());
        for number in first as i64..=last as i64 {
            let sum = number as f64 * distance;
            let (from, to) = (of.left.max(sum - of.bottom), of.right.min(sum - of.top));
            if to - from > 0.8 {
                strokes.push(vec![[from, sum - from], [to, sum - to]]);
            }
        }
    }
    strokes
}

/// The rows as far as a picture shows them in so many columns, and what is left out.
pub(super) fn of_picture(lanes: &Lanes, columns: usize) -> (Lanes, Option<String>) {
    fitted(lanes, columns, SPANS)
}

/// The rows as far as a page's script draws them, and what is left out.
pub(super) fn of_page(lanes: &Lanes) -> (Lanes, Option<String>) {
    fitted(lanes, PAGE[1], PAGE[0])
}

/// The first rows, with at most `most` spans in all: rows of more spans than columns are merged, in fewer columns until
/// it is enough.
fn fitted(lanes: &Lanes, columns: usize, most: usize) -> (Lanes, Option<String>) {
    const FEWEST: usize = 16;
    let rows = &lanes.rows[..lanes.rows.len().min(MOST)];
    let (range, spans) = (range(rows), |rows: &[Lane]| rows.iter().map(|row| row.spans.len()).sum::<usize>());
    let mut columns = columns.max(FEWEST);
    let merged = loop {
        let fit = |row: &Lane| Lane {
            label: row.label.clone(),
            spans: merged(&row.spans, range, columns, lanes.kinds.len()),
        };
        let merged: Vec<Lane> = rows.iter().map(fit).collect();
        if spans(&merged) <= most || columns <= FEWEST {
            break merged;
        }
        columns = (columns / 2).max(FEWEST);
    };
    let mut parts = Vec::new();
    if rows.len() < lanes.rows.len() {
        parts.push(format!("Drawn: the first {MOST} of {}.", count(lanes.rows.len(), "rank", "ranks")));
    }
    if rows.iter().any(|row| row.spans.len() > columns) {
        parts.push(format!(
            "{} spans are merged: each of {} columns shows the kind that fills most of it.",
            thousands(spans(rows) as i64),
            thousands(columns as i64)
        ));
    }
    (Lanes { kinds: lanes.kinds.clone(), rows: merged }, (!parts.is_empty()).then(|| parts.join(" ")))
}

/// Spans that show the same in this many columns. Few spans stay as they are. Of more, each column shows the kind that
/// takes the most of it, and equal spans side by side are one.
fn merged(spans: &[Span], [begin, end]: [f64; 2], columns: usize, kinds: usize) -> Vec<Span> {
    if spans.len() <= columns {
        return spans.to_vec();
    }
    let width = (end - begin) / columns as f64;
    // Time of each kind in each column, and how many spans of it begin or end to cover whole columns there.
    let (mut parts, mut whole) = (vec![0.0; columns * kinds], vec![0i64; (columns + 1) * kinds]);
    let place = |time: f64| ((time - begin) / width).clamp(0.0, columns as f64);
    for span in spans.iter().filter(|span| span.kind < kinds && span.begin <= span.end) {
        let (from, to) = (place(span.begin), place(span.end));
        let (first, last) = ((from as usize).min(columns - 1), (to as usize).min(columns - 1));
        if first == last {
            parts[first * kinds + span.kind] += to - from;
            continue;
        }
        parts[first * kinds + span.kind] += (first + 1) as f64 - from;
        parts[last * kinds + span.kind] += to - last as f64;
        whole[(first + 1) * kinds + span.kind] += 1;
        whole[last * kinds + span.kind] -= 1;
    }
    let mut covering = vec![0i64; kinds];
    let mut merged: Vec<Span> = Vec::new();
    let mut before = None;
    for column in 0..columns {
        let mut most = (0.0, None);
        for kind in 0..kinds {
            covering[kind] += whole[column * kinds + kind];
            let time = parts[column * kinds + kind] + covering[kind] as f64;
            if time > most.0 {
                most = (time, Some(kind));
            }
        }
        let right = begin + (column + 1) as f64 * width;
        match (most.1, merged.last_mut()) {
            (Some(kind), Some(last)) if before == Some(kind) => last.end = right,
            (Some(kind), _) => merged.push(Span { begin: right - width, end: right, kind }),
            (None, _) => {}
        }
        before = most.1;
    }
    merged
}
