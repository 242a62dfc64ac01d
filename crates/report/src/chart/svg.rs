//! A scene as an SVG document. Text stays text: it can be found, copied and read aloud.

use super::font::{FAMILY, Weight};
use super::scene::{Anchor, Item, Paint, Pen, Scene, Text};
use super::style::{self, Hex, WHITE};
use crate::markup::{Attributes, Literal, Svg, markup, svg};

/// Writes the document.
pub(crate) fn write(scene: &Scene) -> Svg {
    let mut out = Svg::with_capacity(16 * 1024);
    let (width, height) = (two_decimals(scene.width), two_decimals(scene.height));
    svg!(
        out => r#"<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="{}" viewBox="0 0 {} {}" role="img" font-family="{}">"#,
        width,
        height,
        width,
        height,
        Literal(FAMILY)
    );
    svg!(out => "\n<title>{}</title>\n", scene.description);
    out += style::dark();
    // A background of its own: a page's may be of any colour.
    let white = fill(Some(Paint::solid(WHITE)));
    svg!(out => "\n<rect width=\"{}\" height=\"{}\"{}/>\n", width, height, white);
    for item in &scene.items {
        match item {
            Item::Polygon { points, fill, pen } => {
                let fill = self::fill(*fill);
                svg!(out => "<polygon points=\"{}\"{}{}/>\n", list(points), fill, stroke(*pen));
            }
            Item::Line { points, pen } => {
                svg!(out => "<polyline points=\"{}\" fill=\"none\"{}/>\n", list(points), stroke(Some(*pen)));
            }
            Item::Circle { center: [x, y], radius, fill, pen } => svg!(
                out => "<circle cx=\"{}\" cy=\"{}\" r=\"{}\"{}{}/>\n",
                two_decimals(*x),
                two_decimals(*y),
                two_decimals(*radius),
                self::fill(Some(*fill)),
                stroke(*pen)
            ),
            Item::Shapes { outlines: all, closed, fill, pen } => {
                let fill = self::fill(*fill);
                svg!(out => "<path d=\"{}\"{}{}/>\n", outlines(all, *closed), fill, stroke(*pen));
            }
            Item::Text(text) => svg!(out => "{}\n", written(text)),
        }
    }
    out.literal("</svg>\n");
    out
}

pub(super) fn written(text: &Text) -> Svg {
    let anchor = match text.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let weight = Literal(if text.weight == Weight::Bold { r#" font-weight="bold""# } else { "" });
    // `textLength` holds the text to the width that the layout counted with, whatever font the viewer has.
    let [x, y] = text.at;
    svg!(
        r#"<text x="{}" y="{}" font-size="{}" text-anchor="{}" textLength="{}" lengthAdjust="spacingAndGlyphs"{}{}>{}</text>"#,
        two_decimals(x),
        two_decimals(y),
        two_decimals(text.size),
        anchor,
        two_decimals(text.width()),
        weight,
        fill(Some(text.paint)),
        text.content
    )
}

fn list(points: &[[f64; 2]]) -> String {
    points.iter().map(|[x, y]| format!("{},{}", two_decimals(*x), two_decimals(*y))).collect::<Vec<_>>().join(" ")
}

/// Outlines as the data of a path. A tenth of a unit is less than any screen shows, and upright and level lines need one
/// number: a timeline has thousands of rectangles.
pub(super) fn outlines(outlines: &[Vec<[f64; 2]>], closed: bool) -> String {
    let tenth = |value: f64| two_decimals((value * 10.0).round() / 10.0);
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

pub(super) fn fill(paint: Option<Paint>) -> Attributes {
    let Some(Paint { rgb, opacity }) = paint else { return Literal(" fill=\"none\"").into() };
    let faint = (opacity < 1.0).then(|| markup!(Tag, " fill-opacity=\"{}\"", two_decimals(opacity)));
    markup!(Tag, " fill=\"{}\"{}", Hex(rgb), faint)
}

pub(super) fn stroke(pen: Option<Pen>) -> Option<Attributes> {
    let Pen { paint: Paint { rgb, opacity }, width, dash } = pen?;
    let faint = (opacity < 1.0).then(|| markup!(Tag, " stroke-opacity=\"{}\"", two_decimals(opacity)));
    let dash =
        dash.map(|[dash, gap]| markup!(Tag, " stroke-dasharray=\"{} {}\"", two_decimals(dash), two_decimals(gap)));
    let (colour, width) = (Hex(rgb), two_decimals(width));
    Some(markup!(Tag, " stroke=\"{}\"{} stroke-width=\"{}\" stroke-linejoin=\"round\"{}", colour, faint, width, dash))
}

/// At most two decimals, without trailing zeros, never `-0`.
pub(super) fn two_decimals(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
