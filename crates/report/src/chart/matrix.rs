//! A matrix as coloured cells, each with its value where there is room.

use view::{Matrix, Quantity, Shades};

use super::axis::text;
use super::font::{self, Weight};
use super::scale::label;
use super::scene::{Anchor, Box2, Item, Paint, Text};
use super::style::{CELL_INK, INK, QUIET, WHITE};

/// Rows and columns that are drawn: more are narrower than a letter.
pub(crate) const MOST: usize = 64;
/// The widest cell: a small matrix is a small picture.
const WIDEST: f64 = 88.0;
const SIZE: f64 = 12.0;
/// The share of the width that heads of rows may take: names of hosts may be longer than a picture.
const HEADS: f64 = 0.3;
/// From one line of heads to the next.
const LINE: f64 = 15.0;
/// The colours of what is as good as it gets, of what is neither, and of what is as bad, or the most: blue, grey, orange, which
/// people who see red and green as one tell apart.
const ENDS: [[u8; 3]; 3] = [[8, 81, 156], [232, 232, 234], [166, 54, 3]];
/// From this strength of a colour on, text is white.
const DARK: f64 = 0.55;

/// Draws the matrix below `top`, with its columns' title above it, and returns its box.
pub(crate) fn draw(items: &mut Vec<Item>, matrix: &Matrix, [left, top, right]: [f64; 3], across: &str) -> Box2 {
    let rows = matrix.values.len().min(MOST);
    let columns = matrix.columns.len().min(MOST);
    let fitting = |head: &String| font::fit(head, SIZE, Weight::Regular, HEADS * (right - left));
    let heads: Vec<String> = matrix.rows.iter().take(rows).map(fitting).collect();
    let left = left + heads.iter().map(|head| font::width(head, SIZE, Weight::Regular)).fold(0.0, f64::max) + 10.0;
    let width = ((right - left) / columns.max(1) as f64).min(WIDEST);
    let height = (width * 0.55).clamp(14.0, 34.0);
    let shares = matrix.shares();
    // Heads that would touch stand on two lines in turn; if they still would, only every k-th is there.
    let widest = matrix.columns.iter().map(|head| font::width(head, SIZE, Weight::Regular)).fold(0.0, f64::max) + 6.0;
    let lines = if widest > width { 2 } else { 1 };
    let every = (widest / (width * lines as f64)).ceil().max(1.0) as usize;
    let top = top + 34.0 + (lines - 1) as f64 * LINE;
    let middle = left + width * columns as f64 / 2.0;
    let title = font::fit(across, SIZE + 1.0, Weight::Bold, right - left);
    items.push(Item::Text(Text {
        weight: Weight::Bold,
        ..text(
            title,
            [middle.max(left + 40.0), top - 24.0 - (lines - 1) as f64 * LINE],
            Anchor::Middle,
            SIZE + 1.0,
            INK,
        )
    }));
    for (place, (column, head)) in matrix.columns.iter().enumerate().take(columns).step_by(every).enumerate() {
        let up = (lines - 1 - place % lines) as f64 * LINE;
        let at = [left + (column as f64 + 0.5) * width, top - 6.0 - up];
        items.push(Item::Text(text(head.clone(), at, Anchor::Middle, SIZE, QUIET)));
    }
    for (row, values) in matrix.values.iter().enumerate().take(rows) {
        let y = top + row as f64 * height;
        if let Some(head) = heads.get(row) {
            let at = [left - 8.0, y + height / 2.0 + 0.36 * SIZE];
            items.push(Item::Text(text(head.clone(), at, Anchor::End, SIZE, QUIET)));
        }
        for (column, value) in values.iter().enumerate().take(columns).filter(|(_, value)| value.is_finite()) {
            let x = left + column as f64 * width;
            cell(items, [x, y, width, height], shares[row][column], &shown(matrix.quantity, *value));
        }
    }
    Box2 { left, top, right: left + width * columns as f64, bottom: top + height * rows as f64 }
}

/// What the colours mean: `Grey: 1; blue: better, to 1.76; orange: worse, to 0.80`; empty without a value.
pub(crate) fn key(matrix: &Matrix) -> String {
    let [low, high] = range(matrix);
    if !low.is_finite() {
        return String::new();
    }
    let shown = |value: f64| shown(matrix.quantity, value);
    let words = match &matrix.shades {
        Shades::Amount => format!("Grey: {}; orange: up to {}", shown(0.0), shown(high)),
        Shades::Around { centre, higher_is_better, .. } => {
            let [best, worst] = if *higher_is_better { [high, low] } else { [low, high] };
            let shares = matrix.shares();
            let coloured = |sign: f64| shares.iter().flatten().any(|share| share * sign > 0.0);
            let side = |name: &str, sign: f64, end: f64| {
                if coloured(sign) { format!("; {name}, to {}", shown(end)) } else { String::new() }
            };
            let sides = [side("blue: better", -1.0, best), side("orange: worse", 1.0, worst)].concat();
            let what = if *centre == 1.0 { "" } else { "the median, " };
            format!("Grey: {what}{}{sides}", shown(*centre))
        }
    };
    let left_out = matrix.values.len().max(matrix.columns.len()) > MOST;
    let left_out = if left_out { format!(" The first {MOST} rows and columns are drawn.") } else { String::new() };
    format!("{words}.{left_out}")
}

fn shown(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Number | Quantity::Bandwidth => view::number::three_digits(value),
        Quantity::Seconds => view::number::seconds(value),
        other => label(other, value),
    }
}

fn range(matrix: &Matrix) -> [f64; 2] {
    let values = matrix.values.iter().flatten().filter(|value| value.is_finite());
    values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], value| [low.min(*value), high.max(*value)])
}

fn cell(items: &mut Vec<Item>, [x, y, width, height]: [f64; 4], share: f64, content: &str) {
    let [from, to] = [ENDS[1], if share < 0.0 { ENDS[0] } else { ENDS[2] }];
    let part = |place: usize| {
        let [from, to] = [f64::from(from[place]), f64::from(to[place])];
        (from + (to - from) * share.abs().min(1.0)).round() as u8
    };
    let fill = Some(Paint::solid([part(0), part(1), part(2)]));
    let (right, bottom) = (x + width - 1.0, y + height - 1.0);
    items.push(Item::Polygon { points: vec![[x, y], [right, y], [right, bottom], [x, bottom]], fill, pen: None });
    if font::width(content, SIZE, Weight::Regular) + 6.0 <= width && height >= SIZE + 3.0 {
        let ink = if share.abs() > DARK { WHITE } else { CELL_INK };
        let at = [x + (width - 1.0) / 2.0, y + height / 2.0 + 0.36 * SIZE];
        items.push(Item::Text(text(content.to_owned(), at, Anchor::Middle, SIZE, ink)));
    }
}
