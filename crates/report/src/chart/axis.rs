//! Axes: grid lines, ticks and their labels.

use super::font::{self, Weight};
use super::scale::{Mapped, Tick};
use super::scene::{Anchor, Box2, Item, Paint, Pen, Text};
use crate::escape::one_line;

use super::style::{FRAME, GRID, INK};

/// Size of tick labels.
pub(crate) const TICK_SIZE: f64 = 12.0;
/// Room that a tick label takes along the vertical axis.
const ROW: f64 = 34.0;
/// Least gap between two labels along the horizontal axis.
const GAP: f64 = 14.0;

/// A plain text.
pub(crate) fn text(content: impl Into<String>, at: [f64; 2], anchor: Anchor, size: f64, rgb: [u8; 3]) -> Text {
    Text { at, anchor, size, weight: Weight::Regular, paint: Paint::solid(rgb), content: one_line(&content.into()) }
}

fn width(tick: &Tick) -> f64 {
    font::width(&tick.label, TICK_SIZE, Weight::Regular)
}

/// The ticks of the vertical axis and the width of their widest label.
pub(crate) fn rows(y: &Mapped) -> (Vec<Tick>, f64) {
    let height = (y.range[0] - y.range[1]).abs();
    let ticks = y.ticks((height / ROW) as usize);
    let widest = ticks.iter().map(width).fold(0.0, f64::max);
    (ticks, widest)
}

/// As many ticks of the horizontal axis as keep their labels apart.
pub(crate) fn columns(x: &Mapped) -> Vec<Tick> {
    let most = ((x.range[1] - x.range[0]) / 46.0) as usize;
    let mut ticks = Vec::new();
    for most in (2..=most.max(2)).rev() {
        ticks = x.ticks(most);
        let places: Vec<(f64, f64)> =
            ticks.iter().filter_map(|tick| Some((x.place(tick.value)?, width(tick) / 2.0))).collect();
        if places.windows(2).all(|pair| pair[1].0 - pair[1].1 - (pair[0].0 + pair[0].1) >= GAP) {
            return ticks;
        }
    }
    // Steps cannot be thinned by asking for fewer: keep every second until they fit.
    while ticks.len() > 2 && total_width(&ticks) > x.range[1] - x.range[0] {
        ticks = ticks.into_iter().step_by(2).collect();
    }
    ticks
}

fn total_width(ticks: &[Tick]) -> f64 {
    ticks.iter().map(|tick| width(tick) + GAP).sum()
}

/// Grid, axis line and labels of both axes.
pub(crate) fn draw(items: &mut Vec<Item>, plot: &Box2, x: &Mapped, y: &Mapped) {
    let pen = |rgb| Pen { paint: Paint::solid(rgb), width: 1.0, dash: None };
    let (rows, _) = rows(y);
    for tick in rows {
        let Some(at) = y.place(tick.value) else { continue };
        // A grid line next to the axis line would look like a second axis.
        if plot.bottom - at > 4.0 {
            items.push(Item::Line { points: vec![[plot.left, at], [plot.right, at]], pen: pen(GRID) });
        }
        let place = [plot.left - 8.0, at + 0.36 * TICK_SIZE];
        items.push(Item::Text(text(tick.label, place, Anchor::End, TICK_SIZE, INK)));
    }
    across(items, plot, x);
}

/// Grid, axis line and labels of the horizontal axis.
pub(crate) fn across(items: &mut Vec<Item>, plot: &Box2, x: &Mapped) {
    let pen = |rgb| Pen { paint: Paint::solid(rgb), width: 1.0, dash: None };
    for tick in columns(x) {
        let Some(at) = x.place(tick.value) else { continue };
        items.push(Item::Line { points: vec![[at, plot.top], [at, plot.bottom + 5.0]], pen: pen(GRID) });
        let place = [at, plot.bottom + 8.0 + TICK_SIZE];
        items.push(Item::Text(text(tick.label, place, Anchor::Middle, TICK_SIZE, INK)));
    }
    items.push(Item::Line { points: vec![[plot.left, plot.bottom], [plot.right, plot.bottom]], pen: pen(FRAME) });
}
