//! Text for a terminal: tables, paragraphs in lines of a width, lines of values.
//!
//! Knows widths and colours, and neither records nor the streams that it is written to.

mod fold;
mod sequence;
mod spark;
mod style;
mod table;

pub use fold::{command, cut, hanging, parts, wrap};
pub use sequence::{clear_above, output, sequence};
pub use spark::sparkline;
pub use style::Style;
pub use table::{Cell, Column, Row, Side, Table};

/// Columns that a text takes.
fn width(text: &str) -> usize {
    text.chars().count()
}
