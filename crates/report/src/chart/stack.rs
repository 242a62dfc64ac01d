//! Bars of parts that add up to a whole, with marks for the measured value and its limit.

use view::{ChartSpec, Mark};

use super::scale::{Extent, Mapped};
use super::scene::{Item, Paint, Pen};
use super::style::{self, INK, WARNING_INK, WHITE};

/// Half the width of a bar at most.
const HALF: f64 = 34.0;

/// Half the width of a bar, so that neighbouring ones stay apart.
fn half(spec: &ChartSpec, x: &Mapped) -> f64 {
    let bars = spec.stacks.iter().map(|stack| stack.bars.len()).max().unwrap_or(1).max(1);
    (0.34 * (x.range[1] - x.range[0]) / (bars as f64 + 0.2)).min(HALF)
}

/// Where each part of each bar begins and ends: `[part][bar] = (x, bottom, top)`.
fn parts(spec: &ChartSpec) -> Vec<Vec<(f64, f64, f64)>> {
    let mut tops: Vec<(f64, f64)> = Vec::new();
    let part = |stack: &super::Stack| {
        let bar = |[x, height]: &[f64; 2]| {
            let index = tops.iter().position(|(at, _)| at == x).unwrap_or_else(|| {
                tops.push((*x, 0.0));
                tops.len() - 1
            });
            let bottom = tops[index].1;
            tops[index].1 += height.max(0.0);
            (*x, bottom, tops[index].1)
        };
        stack.bars.iter().map(bar).collect()
    };
    spec.stacks.iter().map(part).collect()
}

/// What the axes must show of bars and marks.
pub(crate) fn extend(spec: &ChartSpec, across: &mut Extent, up: &mut Extent) {
    for (x, bottom, top) in parts(spec).into_iter().flatten() {
        across.values.push(x);
        up.values.extend([bottom, top]);
    }
    for [x, y] in spec.marks.iter().flat_map(|mark| &mark.points) {
        across.values.push(*x);
        up.values.push(*y);
    }
}

/// Draws bars, then marks over them.
pub(crate) fn draw(items: &mut Vec<Item>, spec: &ChartSpec, x: &Mapped, y: &Mapped) {
    let half = half(spec, x);
    for (stack, bars) in spec.stacks.iter().zip(parts(spec)) {
        for (at, bottom, top) in bars {
            let (Some(middle), Some(low), Some(high)) = (x.place(at), y.place(bottom), y.place(top)) else { continue };
            let (left, right) = (middle - half, middle + half);
            let points = vec![[left, low], [right, low], [right, high], [left, high]];
            let rim = Some(Pen { paint: Paint::solid(WHITE), width: 0.8, dash: None });
            items.push(Item::Polygon { points, fill: Some(Paint::solid(style::colour(stack.style))), pen: rim });
        }
    }
    for mark in &spec.marks {
        for [at, value] in &mark.points {
            let (Some(middle), Some(up)) = (x.place(*at), y.place(*value)) else { continue };
            let reach = half + if mark.limit { 14.0 } else { 7.0 };
            items.push(Item::Line { points: vec![[middle - reach, up], [middle + reach, up]], pen: pen(mark) });
        }
    }
}

/// How a mark is drawn, in its bar and in its label.
pub(crate) fn pen(mark: &Mark) -> Pen {
    if mark.limit {
        Pen { paint: Paint::solid(WARNING_INK), width: 1.8, dash: Some([6.0, 3.0]) }
    } else {
        Pen { paint: Paint::solid(INK), width: 2.4, dash: None }
    }
}

/// The middle of a part in the last bar that has it: where its label points to.
pub(crate) fn end(spec: &ChartSpec, index: usize, x: &Mapped, y: &Mapped) -> Option<[f64; 2]> {
    let part = parts(spec).into_iter().nth(index)?;
    let (at, bottom, top) = part.last().copied()?;
    Some([x.place(at)? + half(spec, x), y.place((bottom + top) / 2.0)?])
}

/// The right end of a mark at the last bar.
pub(crate) fn mark_end(spec: &ChartSpec, mark: &Mark, x: &Mapped, y: &Mapped) -> Option<[f64; 2]> {
    let [at, value] = mark.points.last()?;
    Some([x.place(*at)? + half(spec, x) + 7.0, y.place(*value)?])
}
