//! A scene as an SVG document. Text stays text: it can be found, copied and read aloud.

use std::fmt::Write as _;

use super::font::{FAMILY, Weight};
use super::scene::{Anchor, Item, Paint, Pen, Scene, Text};
use super::style::{self, WHITE};
use crate::escape::xml;

/// Writes the document.
pub(crate) fn write(scene: &Scene) -> String {
    let mut out = String::with_capacity(16 * 1024);
    let (width, height) = (number(scene.width), number(scene.height));
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" font-family="{FAMILY}">"#
    );
    let _ = writeln!(out, "<title>{}</title>", xml(&scene.description));
    let _ = writeln!(out, "<style>{}</style>", style::dark());
    // A background of its own: a page's may be of any colour.
    let _ = writeln!(out, r#"<rect width="{width}" height="{height}"{}/>"#, paint("fill", Some(Paint::solid(WHITE))));
    for item in &scene.items {
        let _ = match item {
            Item::Polygon { points, fill, pen } => {
                writeln!(out, r#"<polygon points="{}"{}{}/>"#, list(points), paint("fill", *fill), stroke(*pen))
            }
            Item::Line { points, pen } => {
                writeln!(out, r#"<polyline points="{}" fill="none"{}/>"#, list(points), stroke(Some(*pen)))
            }
            Item::Circle { center: [x, y], radius, fill, pen } => writeln!(
                out,
                r#"<circle cx="{}" cy="{}" r="{}"{}{}/>"#,
                number(*x),
                number(*y),
                number(*radius),
                paint("fill", Some(*fill)),
                stroke(*pen)
            ),
            Item::Shapes { outlines: all, closed, fill, pen } => {
                let path = outlines(all, *closed);
                writeln!(out, r#"<path d="{path}"{}{}/>"#, paint("fill", *fill), stroke(*pen))
            }
            Item::Text(text) => writeln!(out, "{}", written(text)),
        };
    }
    out.push_str("</svg>\n");
    out
}

pub(super) fn written(text: &Text) -> String {
    let anchor = match text.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let weight = if text.weight == Weight::Bold { r#" font-weight="bold""# } else { "" };
    // `textLength` holds the text to the width that the layout counted with, whatever font the viewer has.
    let [x, y] = text.at;
    format!(
        r#"<text x="{}" y="{}" font-size="{}" text-anchor="{anchor}" textLength="{}" lengthAdjust="spacingAndGlyphs"{weight}{}>{}</text>"#,
        number(x),
        number(y),
        number(text.size),
        number(text.width()),
        paint("fill", Some(text.paint)),
        xml(&text.content)
    )
}

fn list(points: &[[f64; 2]]) -> String {
    points.iter().map(|[x, y]| format!("{},{}", number(*x), number(*y))).collect::<Vec<_>>().join(" ")
}

/// Outlines as the data of a path. A tenth of a unit is less than any screen shows, and upright and level lines need one
/// number: a timeline has thousands of rectangles.
pub(super) fn outlines(outlines: &[Vec<[f64; 2]>], closed: bool) -> String {
    let tenth = |value: f64| number((value * 10.0).round() / 10.0);
    let mut path = String::new();
    for outline in outlines {
        let mut before: Option<[String; 2]> = None;
        for [x, y] in outline {
            let at = [tenth(*x), tenth(*y)];
            match &before {
                None => path += &format!("M{} {}", at[0], at[1]),
                Some([_, y]) if *y == at[1] => path += &format!("H{}", at[0]),
                Some([x, _]) if *x == at[0] => path += &format!("V{}", at[1]),
                Some(_) => path += &format!("L{} {}", at[0], at[1]),
            }
            before = Some(at);
        }
        if closed {
            path.push('z');
        }
    }
    path
}

pub(super) fn paint(attribute: &str, paint: Option<Paint>) -> String {
    let Some(Paint { rgb: [r, g, b], opacity }) = paint else {
        return format!(r#" {attribute}="none""#);
    };
    let mut text = format!(r#" {attribute}="{}""#, style::hex([r, g, b]));
    if opacity < 1.0 {
        let _ = write!(text, r#" {attribute}-opacity="{}""#, number(opacity));
    }
    text
}

pub(super) fn stroke(pen: Option<Pen>) -> String {
    let Some(pen) = pen else { return String::new() };
    let mut text = paint("stroke", Some(pen.paint));
    let _ = write!(text, r#" stroke-width="{}" stroke-linejoin="round""#, number(pen.width));
    if let Some([dash, gap]) = pen.dash {
        let _ = write!(text, r#" stroke-dasharray="{} {}""#, number(dash), number(gap));
    }
    text
}

/// At most two decimals, without trailing zeros, never `-0`.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
