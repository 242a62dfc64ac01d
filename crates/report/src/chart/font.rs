//! The embedded font: widths for layout, outlines for the PNG. `document::pdf` embeds it in PDFs.
//!
//! Arimo has the widths of Arial, Helvetica and Liberation Sans, so an SVG shown with any of these fits the layout too.

use std::sync::LazyLock;

use ttf_parser::{Face, OutlineBuilder};
use zeno::{Command, Vector};

/// The files of the font.
pub(crate) static REGULAR_FILE: &[u8] = include_bytes!("../../fonts/Arimo-Regular.ttf");
pub(crate) static BOLD_FILE: &[u8] = include_bytes!("../../fonts/Arimo-Bold.ttf");

static REGULAR: LazyLock<Face<'static>> = LazyLock::new(|| parse(REGULAR_FILE));
static BOLD: LazyLock<Face<'static>> = LazyLock::new(|| parse(BOLD_FILE));

/// The family of an SVG's text.
pub(crate) const FAMILY: &str = "Arimo, Arial, Helvetica, 'Liberation Sans', sans-serif";

/// How heavy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Regular,
    Bold,
}

fn parse(data: &'static [u8]) -> Face<'static> {
    Face::parse(data, 0).expect("the embedded font is a font")
}

fn face(weight: Weight) -> &'static Face<'static> {
    match weight {
        Weight::Regular => &REGULAR,
        Weight::Bold => &BOLD,
    }
}

fn advance(face: &Face, character: char) -> f64 {
    let glyph = face.glyph_index(character).unwrap_or_default();
    f64::from(face.glyph_hor_advance(glyph).unwrap_or(0)) / f64::from(face.units_per_em())
}

/// Width of a text; characters outside the font count as its box for missing ones.
pub(crate) fn width(text: &str, size: f64, weight: Weight) -> f64 {
    let face = face(weight);
    text.chars().map(|character| advance(face, character)).sum::<f64>() * size
}

/// The text cut to `limit` with an ellipsis, if it is wider.
pub(crate) fn fit(text: &str, size: f64, weight: Weight, limit: f64) -> String {
    if width(text, size, weight) <= limit {
        return text.to_owned();
    }
    let face = face(weight);
    let mut room = limit / size - advance(face, '…');
    let kept = text.chars().take_while(|character| {
        room -= advance(face, *character);
        room >= 0.0
    });
    let kept: String = kept.collect();
    format!("{}…", kept.trim_end())
}

/// The outlines of a text, times `scale`. Its first character begins at `at` on the baseline, y downwards.
pub(crate) fn outline(text: &str, at: [f64; 2], size: f64, weight: Weight, scale: f64) -> Vec<Command> {
    let face = face(weight);
    let unit = size * scale / f64::from(face.units_per_em());
    let mut pen = Pen { origin: [at[0] * scale, at[1] * scale], unit, commands: Vec::new() };
    for character in text.chars() {
        face.outline_glyph(face.glyph_index(character).unwrap_or_default(), &mut pen);
        pen.origin[0] += advance(face, character) * size * scale;
    }
    pen.commands
}

struct Pen {
    origin: [f64; 2],
    unit: f64,
    commands: Vec<Command>,
}

impl Pen {
    fn at(&self, x: f32, y: f32) -> Vector {
        let [left, base] = self.origin;
        Vector::new((left + f64::from(x) * self.unit) as f32, (base - f64::from(y) * self.unit) as f32)
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.commands.push(Command::MoveTo(self.at(x, y)));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.commands.push(Command::LineTo(self.at(x, y)));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.commands.push(Command::QuadTo(self.at(x1, y1), self.at(x, y)));
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.commands.push(Command::CurveTo(self.at(x1, y1), self.at(x2, y2), self.at(x, y)));
    }

    fn close(&mut self) {
        self.commands.push(Command::Close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_arial() {
        // Arial's digits are 1139 of 2048 units wide, its capital W 1933.
        assert!((width("0", 2048.0, Weight::Regular) - 1139.0).abs() < 1e-9);
        assert!((width("W", 2048.0, Weight::Regular) - 1933.0).abs() < 1e-9);
    }

    #[test]
    fn long_text_is_cut_to_fit() {
        let cut = fit("a very long label indeed", 12.0, Weight::Regular, 60.0);
        assert!(cut.ends_with('…') && width(&cut, 12.0, Weight::Regular) <= 60.0, "{cut}");
        assert_eq!(fit("short", 12.0, Weight::Regular, 60.0), "short");
    }
}
