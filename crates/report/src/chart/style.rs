//! Colours, markers and text sizes.

use std::fmt;

use view::COLOURS;

use super::scene::{Item, Paint, Pen};
use crate::markup::{Css, Literal, Svg, markup, put, words};

/// Okabe and Ito, "Color Universal Design" (2008): seven colours that stay apart in the three common kinds of colour
/// blindness. Their yellow is left out (too light on white) and their black is grey here, so that text stands out.
const PALETTE: [[u8; 3]; COLOURS] =
    [[0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167], [230, 159, 0], [86, 180, 233], [90, 90, 90]];

pub(crate) const INK: [u8; 3] = [34, 34, 34];
pub(crate) const QUIET: [u8; 3] = [102, 102, 102];
pub(crate) const GRID: [u8; 3] = [226, 226, 226];
pub(crate) const FRAME: [u8; 3] = [150, 150, 150];
pub(crate) const WARNING: [u8; 3] = [255, 236, 179];
pub(crate) const WARNING_INK: [u8; 3] = [122, 63, 0];
pub(crate) const WHITE: [u8; 3] = [255, 255, 255];

/// Text on a coloured cell, which stays as it is on a dark page.
pub(crate) const CELL_INK: [u8; 3] = [33, 33, 33];

/// What stands for a colour on a dark page.
const DARK: [([u8; 3], [u8; 3]); 7] = [
    (WHITE, [22, 24, 29]),
    (INK, [232, 232, 232]),
    (QUIET, [170, 172, 178]),
    (GRID, [52, 55, 62]),
    (FRAME, [110, 114, 122]),
    (WARNING, [74, 56, 14]),
    (WARNING_INK, [255, 213, 138]),
];

/// A colour as text: `#0072b2`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hex(pub(crate) [u8; 3]);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [r, g, b] = self.0;
        write!(f, "#{r:02x}{g:02x}{b:02x}")
    }
}

/// The name of a colour of a page: a word, or a letter and the number of a series.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variable(&'static str, Option<usize>);

impl Variable {
    pub(crate) fn is(self, name: &str) -> bool {
        self.0 == name
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)?;
        self.1.map_or(Ok(()), |series| series.fmt(f))
    }
}

words!(Hex, Variable);

/// A style sheet by which a viewer that prefers dark pages draws a chart: its rules win over the colours that stand on each
/// shape. White text stays: it stands on dark cells.
pub(crate) fn dark() -> Svg {
    let mut rules = Css::new();
    for (light, dark) in DARK {
        let (light, dark, is_white) = (Hex(light), Hex(dark), light == WHITE);
        for (at, shape) in
            ["rect", "polygon", "circle", "text"].into_iter().enumerate().filter(|(_, s)| !(is_white && *s == "text"))
        {
            put!(Css: rules, "{}{}[fill=\"{}\"]", Literal(if at > 0 { "," } else { "" }), Literal(shape), light);
        }
        put!(Css: rules, "{{fill:{}}}[stroke=\"{}\"]{{stroke:{}}}", dark, light, dark);
    }
    for style in 0..PALETTE.len() {
        let lighter = colour(style).map(|part| part + ((255 - u16::from(part)) * 2 / 5) as u8);
        put!(Css: rules, "text[fill=\"{}\"]{{fill:{}}}", Hex(text_colour(style)), Hex(lighter));
    }
    Svg::styled(&markup!(Css, "@media (prefers-color-scheme:dark){{{}}}", rules))
}

/// The variables of a page for the colours of its charts, light and dark, and a class for each colour of a series.
pub(crate) fn page_variables() -> Css {
    let toward_white = |rgb: [u8; 3], fifths: u16| rgb.map(|part| part + ((255 - u16::from(part)) * fifths / 5) as u8);
    let variables = variables();
    let mut all = Css::new();
    let mut declare = |name: Variable, light: [u8; 3], dark: [u8; 3]| {
        put!(Css: all, "--{}:light-dark({},{});", name, Hex(light), Hex(dark));
    };
    for (light, dark) in DARK {
        if let Some((_, name)) = variables.iter().find(|(of, _)| *of == Hex(light)) {
            declare(*name, light, dark);
        }
    }
    for style in 0..PALETTE.len() {
        let fifths = if style == PALETTE.len() - 1 { 3 } else { 1 };
        declare(Variable("c", Some(style)), colour(style), toward_white(colour(style), fifths));
        declare(Variable("t", Some(style)), text_colour(style), toward_white(colour(style), 2));
    }
    let mut rules = markup!(Css, ":root{{{}}}", all);
    for n in 0..PALETTE.len() {
        put!(Css: rules, ".c{}{{color:var(--c{})}}.label.t{}{{fill:var(--t{})}}", n, n, n, n);
    }
    rules
}

/// The colours of a chart, each with the variable that a page has for it.
pub(crate) fn variables() -> Vec<(Hex, Variable)> {
    let named = [
        (WHITE, "paper"),
        (INK, "ink"),
        (QUIET, "quiet"),
        (GRID, "grid"),
        (FRAME, "frame"),
        (WARNING, "warning"),
        (WARNING_INK, "warning-ink"),
    ];
    let series = (0..PALETTE.len()).flat_map(|style| {
        let (line, text) = (Hex(colour(style)), Hex(text_colour(style)));
        let text = (text != line).then_some((text, Variable("t", Some(style))));
        [Some((line, Variable("c", Some(style)))), text].into_iter().flatten()
    });
    named.into_iter().map(|(rgb, name)| (Hex(rgb), Variable(name, None))).chain(series).collect()
}

/// The colour of a series.
pub(crate) fn colour(style: usize) -> [u8; 3] {
    PALETTE[style % PALETTE.len()]
}

/// The colour of a series, dark enough for text on white.
pub(crate) fn text_colour(style: usize) -> [u8; 3] {
    let rgb = colour(style);
    let light = 0.299 * f64::from(rgb[0]) + 0.587 * f64::from(rgb[1]) + 0.114 * f64::from(rgb[2]);
    let keep = (95.0 / light).min(1.0);
    rgb.map(|part| (f64::from(part) * keep).round() as u8)
}

/// The marker of a point that was measured with more ranks than cores: hollow, its rim dashed.
pub(crate) fn oversubscribed(style: usize, at: [f64; 2]) -> Item {
    hollow(marker(style, at), Paint::solid(colour(style)))
}

/// The marker of an oversubscribed point in no series' colour, for the legend.
pub(crate) fn oversubscribed_sample(at: [f64; 2]) -> Item {
    hollow(marker(0, at), Paint::solid(QUIET))
}

fn hollow(marker: Item, rim: Paint) -> Item {
    let (inside, pen) = (Paint::solid(WHITE), Some(Pen { paint: rim, width: 1.6, dash: Some([2.5, 1.2]) }));
    match marker {
        Item::Circle { center, radius, .. } => Item::Circle { center, radius, fill: inside, pen },
        Item::Polygon { points, .. } => Item::Polygon { points, fill: Some(inside), pen },
        other => other,
    }
}

/// The marker of a series: shape by style, filled in the first round of colours, hollow in the second, and so on, so
/// that no two of the first 42 look alike.
pub(crate) fn marker(style: usize, at: [f64; 2]) -> Item {
    const RADIUS: f64 = 4.0;
    let colour = Paint::solid(colour(style));
    let hollow = (style / PALETTE.len()) % 2 == 1;
    let (fill, rim) = if hollow { (Paint::solid(WHITE), colour) } else { (colour, Paint::solid(WHITE)) };
    let pen = Some(Pen { paint: rim, width: if hollow { 1.6 } else { 1.0 }, dash: None });
    let around = |corners: &[[f64; 2]]| {
        let points = corners.iter().map(|[x, y]| [at[0] + x * RADIUS, at[1] + y * RADIUS]).collect();
        Item::Polygon { points, fill: Some(fill), pen }
    };
    match style % 6 {
        0 => Item::Circle { center: at, radius: RADIUS, fill, pen },
        1 => around(&[[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]),
        2 => around(&[[0.0, -1.2], [1.15, 0.8], [-1.15, 0.8]]),
        3 => around(&[[0.0, -1.3], [1.1, 0.0], [0.0, 1.3], [-1.1, 0.0]]),
        4 => around(&[[0.0, 1.2], [1.15, -0.8], [-1.15, -0.8]]),
        _ => around(&[[0.0, -1.2], [1.2, -0.3], [0.75, 1.05], [-0.75, 1.05], [-1.2, -0.3]]),
    }
}
