//! A scene as an SVG element inside of a page: shapes that look alike and follow each other are one path, so that a line's
//! markers cost a few bytes each. Colours stand on the shapes; rules of the page replace them ([`rules`]).

use std::fmt::Write as _;

use super::scene::{Item, Scene};
use super::style;
use super::svg::{self, number, paint, stroke, written};
use crate::escape::{one_line, xml};

/// Writes the element.
pub(crate) fn write(scene: &Scene) -> String {
    let (width, height) = (number(scene.width), number(scene.height));
    let label = xml(&one_line(&scene.description));
    let mut out = format!(r#"<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">"#);
    // Text comes last: above all shapes, and never between two that could be one path.
    let (mut texts, mut last) = (String::new(), None::<String>);
    for item in &scene.items {
        let Some((look, path)) = shape(item) else {
            if let Item::Text(text) = item {
                texts += &written(text);
            }
            continue;
        };
        if last.as_ref() != Some(&look) {
            close(&mut out, &mut last);
            let _ = write!(out, r"<path{look} d=");
            out.push('"');
            last = Some(look);
        }
        out += &path;
    }
    close(&mut out, &mut last);
    out + &texts + "</svg>"
}

fn close(out: &mut String, last: &mut Option<String>) {
    if last.take().is_some() {
        out.push_str("\"/>");
    }
}

/// How a shape looks, and its outline.
fn shape(item: &Item) -> Option<(String, String)> {
    match item {
        Item::Polygon { points, fill, pen } => {
            Some((format!("{}{}", paint("fill", *fill), stroke(*pen)), format!("{}z", outline(points))))
        }
        Item::Line { points, pen } => Some((format!(r#" fill="none"{}"#, stroke(Some(*pen))), outline(points))),
        Item::Circle { center: [x, y], radius, fill, pen } => {
            let (begin, r, across) = (number(x - radius), number(*radius), number(2.0 * radius));
            let path = format!("M{begin} {}a{r} {r} 0 1 0 {across} 0a{r} {r} 0 1 0 -{across} 0z", number(*y));
            Some((format!("{}{}", paint("fill", Some(*fill)), stroke(*pen)), path))
        }
        Item::Shapes { outlines: all, closed, fill, pen } => {
            Some((format!("{}{}", paint("fill", *fill), stroke(*pen)), svg::outlines(all, *closed)))
        }
        Item::Text(_) => None,
    }
}

fn outline(points: &[[f64; 2]]) -> String {
    let at = |[x, y]: &[f64; 2]| format!("{} {}", tenth(*x), tenth(*y));
    let places: Vec<String> = points.iter().map(at).collect();
    format!("M{}", places.join("L"))
}

/// A tenth of a unit is less than any screen shows.
fn tenth(value: f64) -> String {
    number((value * 10.0).round() / 10.0)
}

/// The rules by which a page with the variables `--ink`, `--c0` and so on draws an element of [`write`].
pub(crate) fn rules() -> String {
    let mut rules = style::page_variables();
    for (hex, variable) in style::variables() {
        // White text stays: it stands on dark cells.
        let not = if variable == "paper" { ":not(text)" } else { "" };
        let _ = write!(
            rules,
            r#"{not}[fill="{hex}"]{{fill:var(--{variable})}}[stroke="{hex}"]{{stroke:var(--{variable})}}"#
        );
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::scene::{Paint, Pen};

    #[test]
    fn shapes_that_look_alike_are_one_path() {
        let dot = |x: f64| Item::Circle { center: [x, 1.0], radius: 4.0, fill: Paint::solid([0, 114, 178]), pen: None };
        let pen = Pen { paint: Paint::solid([34, 34, 34]), width: 1.0, dash: None };
        let line = Item::Line { points: vec![[0.0, 0.04], [1.26, 2.0]], pen };
        let items = vec![dot(5.0), dot(6.0), line];
        let text = write(&Scene { width: 10.0, height: 5.0, description: "a <b>".into(), items });
        assert_eq!(text.matches("<path").count(), 2, "{text}");
        assert!(text.contains(r#"aria-label="a &lt;b&gt;""#) && text.contains(r#"d="M0 0L1.3 2""#), "{text}");
        assert!(rules().contains(r##"[fill="#0072b2"]{fill:var(--c0)}"##), "{}", rules());
    }
}
