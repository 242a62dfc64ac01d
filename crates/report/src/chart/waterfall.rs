//! A waterfall: how one value becomes another. A bar from zero, a row for each term, and a bar from zero again. A term
//! begins where the one above ends, to the right if it adds and to the left if it takes away. Rows and not columns: names
//! of terms are long.

use view::{Axis, Quantity, Term, Waterfall};

use super::axis::{self, text};
use super::font::{self, Weight};
use super::scale::Mapped;
use super::scene::{Anchor, Box2, Item, Paint, Pen};
use super::style::{self, FRAME, INK};
use crate::number::{percent, seconds, three_digits};

const SIZE: f64 = 12.0;
/// Height of a row, and of the bar in it.
const ROW: f64 = 30.0;
const BAR: f64 = 20.0;
/// The share of the width that labels may take.
const LABELS: f64 = 0.38;
/// Room between a bar and its value.
const GAP: f64 = 6.0;
/// Colours: of the two ends, of what adds, of what takes away.
pub(crate) const STYLES: [usize; 3] = [0, 5, 1];

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    /// Label of the row.
    pub(crate) label: String,
    /// Where it begins; the ends of a waterfall begin at zero.
    pub(crate) begin: f64,
    /// Where it ends: the value up to here.
    pub(crate) end: f64,
    /// Value of the row as text; of a term with its sign.
    pub(crate) value: String,
    /// Which colour.
    pub(crate) style: usize,
}

/// The rows from top to bottom.
pub(crate) fn bars(waterfall: &Waterfall, quantity: Quantity) -> Vec<Bar> {
    let whole = |term: &Term| Bar {
        label: crate::escape::one_line(&term.label),
        begin: 0.0,
        end: term.value,
        value: shown(quantity, term.value),
        style: STYLES[0],
    };
    let mut bars = vec![whole(&waterfall.from)];
    let mut at = waterfall.from.value;
    for term in &waterfall.terms {
        let sign = if term.value > 0.0 { "+" } else { "" };
        bars.push(Bar {
            label: crate::escape::one_line(&term.label),
            begin: at,
            end: at + term.value,
            value: format!("{sign}{}", shown(quantity, term.value)),
            style: STYLES[if term.value < 0.0 { 2 } else { 1 }],
        });
        at += term.value;
    }
    bars.push(whole(&waterfall.to));
    bars
}

fn shown(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Share => percent(value),
        Quantity::Seconds => seconds(value),
        _ => three_digits(value),
    }
}

/// What the axis shows: all bars, and zero.
pub(crate) fn domain(bars: &[Bar]) -> [f64; 2] {
    let ends = bars.iter().flat_map(|bar| [bar.begin, bar.end]).filter(|end| end.is_finite());
    let [low, high] = ends.fold([0.0f64, 0.0], |[low, high], end| [low.min(end), high.max(end)]);
    if low < high { [low, high] } else { [0.0, 1.0] }
}

/// Draws the rows below `top`, and returns their box.
pub(super) fn draw(items: &mut Vec<Item>, bars: &[Bar], axis: &Axis, [left, top, right]: [f64; 3]) -> Box2 {
    let fitting = |bar: &Bar| font::fit(&bar.label, SIZE, Weight::Regular, LABELS * (right - left));
    let heads: Vec<String> = bars.iter().map(fitting).collect();
    let width = |text: &String| font::width(text, SIZE, Weight::Regular);
    let widest = heads.iter().map(width).fold(0.0, f64::max);
    let values = bars.iter().map(|bar| width(&bar.value)).fold(0.0, f64::max);
    let plot = Box2 { left: left + widest + 10.0, top, right, bottom: top + ROW * bars.len() as f64 };
    let x = Mapped::exact(axis, domain(bars), [plot.left, right - values - GAP - 2.0]);
    axis::across(items, &plot, &x);
    let line = |width, dash| Pen { paint: Paint::solid(FRAME), width, dash };
    let upright = |at: f64, from: f64, to: f64, pen| Item::Line { points: vec![[at, from], [at, to]], pen };
    items.extend(x.place(0.0).map(|zero| upright(zero, top, plot.bottom, line(1.0, None))));
    for (index, (bar, head)) in bars.iter().zip(heads).enumerate() {
        let (Some(begin), Some(end)) = (x.place(bar.begin), x.place(bar.end)) else { continue };
        let middle = top + (index as f64 + 0.5) * ROW;
        let (low, high) = (middle - BAR / 2.0, middle + BAR / 2.0);
        // What is too small to see is a stroke.
        let (from, to) = (begin.min(end), begin.max(end).max(begin.min(end) + 1.0));
        let points = vec![[from, low], [to, low], [to, high], [from, high]];
        items.push(Item::Polygon { points, fill: Some(Paint::solid(style::colour(bar.style))), pen: None });
        if index + 1 < bars.len() {
            items.push(upright(end, high, high + ROW - BAR, line(1.0, Some([2.0, 2.0]))));
        }
        let base = middle + 0.36 * SIZE;
        items.push(Item::Text(text(head, [plot.left - 8.0, base], Anchor::End, SIZE, INK)));
        items.push(Item::Text(text(bar.value.clone(), [to + GAP, base], Anchor::Start, SIZE, INK)));
    }
    plot
}
