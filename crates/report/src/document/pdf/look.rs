//! The look of a page: measures in points (1/72 inch), y downwards, and colours.

/// Width and height of a page (A4).
pub(super) const PAGE: [f64; 2] = [mm(210.0), mm(297.0)];
/// Where text begins and ends across.
pub(super) const LEFT: f64 = mm(17.0);
pub(super) const RIGHT: f64 = PAGE[0] - mm(17.0);
pub(super) const WIDTH: f64 = RIGHT - LEFT;
/// Where text begins on a page without warnings, or with few.
pub(super) const TOP: f64 = mm(20.0);
/// The lowest baseline of text. Letters reach a little below.
pub(super) const BOTTOM: f64 = PAGE[1] - mm(18.0);
/// The lowest point of any letter of the text.
#[cfg(test)]
pub(super) const LOWEST: f64 = BOTTOM + 0.25 * TITLE;
/// Baseline of the last line of the header, and of the footer.
pub(super) const HEADER: f64 = mm(14.0);
pub(super) const FOOTER: f64 = PAGE[1] - mm(10.7);

pub(super) type Rgb = [u8; 3];

pub(super) const INK: Rgb = [0x22, 0x22, 0x22];
pub(super) const QUIET: Rgb = [0x5a, 0x5a, 0x5a];
pub(super) const LINE: Rgb = [0xc8, 0xc8, 0xc8];
pub(super) const ZEBRA: Rgb = [0xf6, 0xf6, 0xf6];
pub(super) const CODE: Rgb = [0xf4, 0xf4, 0xf4];
pub(super) const WARNING: Rgb = [0xff, 0xec, 0xb3];
pub(super) const WARNING_EDGE: Rgb = [0xb2, 0x6a, 0x00];
pub(super) const WARNING_INK: Rgb = [0x5a, 0x30, 0x00];
pub(super) const HEADER_INK: Rgb = [0x7a, 0x3f, 0x00];

/// Sizes of text.
pub(super) const TEXT: f64 = 9.5;
pub(super) const SMALL: f64 = 8.0;
pub(super) const FINE: f64 = 7.5;
pub(super) const TITLE: f64 = 20.0;
pub(super) const SECTION: f64 = 13.5;
pub(super) const SUBSECTION: f64 = 11.0;

/// Height of a capital in parts of the size: a line reaches from there to its baseline.
pub(super) const CAPITAL: f64 = 0.716;
/// Room between a baseline and the capitals of the next line, in parts of the size.
pub(super) const LEADING: f64 = 0.62;
/// Room between a baseline and the capitals of the next line in tables and in headings, in parts of the size.
pub(super) const TIGHT: f64 = 0.45;

/// Room between paragraphs.
pub(super) const APART: f64 = 0.9 * TEXT;

const fn mm(millimetres: f64) -> f64 {
    millimetres * 72.0 / 25.4
}

/// Height of that many lines of this size.
pub(super) fn height(lines: usize, size: f64, leading: f64) -> f64 {
    let lines = lines as f64;
    if lines == 0.0 { 0.0 } else { (lines * CAPITAL + (lines - 1.0) * leading) * size }
}
