//! Text for a terminal: tables, paragraphs in lines of a width, lines of values.
//!
//! Knows widths and colours, and neither records nor the streams that it is written to.

mod fold;
mod sequence;
mod spark;
mod style;
mod table;

pub use fold::{command, hanging, parts, wrap};
pub use sequence::{clear_above, cut, output};
pub use spark::{bar, sparkline};
pub use style::Style;
pub use table::{Cell, Column, Row, Side, Table};

/// Columns that a text takes.
fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// Columns of a character: two of what terminals show wide (East Asian scripts and emoji), none of a mark on the letter
/// before it.
fn columns(character: char) -> usize {
    match character {
        '\u{300}'..='\u{36F}' | '\u{FE00}'..='\u{FE0F}' => 0,
        '\u{1100}'..='\u{115F}'
        | '\u{2E80}'..='\u{303E}'
        | '\u{3041}'..='\u{A4CF}'
        | '\u{AC00}'..='\u{D7A3}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{FE30}'..='\u{FE6F}'
        | '\u{FF01}'..='\u{FF60}'
        | '\u{FFE0}'..='\u{FFE6}'
        | '\u{1F300}'..='\u{1F64F}'
        | '\u{1F680}'..='\u{1F6FF}'
        | '\u{1F900}'..='\u{1F9FF}'
        | '\u{20000}'..='\u{3FFFD}' => 2,
        _ => 1,
    }
}
