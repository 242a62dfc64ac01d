//! A scene as an SVG element inside of a page: shapes that look alike and follow each other are one path, so that a line's
//! markers cost a few bytes each. Colours stand on the shapes; rules of the page replace them ([`rules`]).

use super::scene::{Item, Scene};
use super::style;
use super::svg::{self, fill, stroke, two_decimals, written};
use crate::escape::one_line;
use crate::markup::{Attributes, Css, Literal, Svg, markup, put, svg};

/// Writes the element.
pub(crate) fn write(scene: &Scene) -> Svg {
    // Text comes last: above all shapes, and never between two that could be one path.
    let (mut paths, mut texts, mut last) = (Svg::new(), Svg::new(), None::<(Attributes, String)>);
    let close = |paths: &mut Svg, last: Option<(Attributes, String)>| {
        if let Some((look, path)) = last {
            svg!(paths => "<path{} d=\"{}\"/>", look, path);
        }
    };
    for item in &scene.items {
        match (shape(item), &mut last) {
            (Err(text), _) => texts += text,
            (Ok((look, path)), Some((before, paths))) if look == *before => paths.push_str(&path),
            (Ok(next), last) => close(&mut paths, last.replace(next)),
        }
    }
    close(&mut paths, last);
    let label = one_line(&scene.description);
    svg!(
        r#"<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}</svg>"#,
        two_decimals(scene.width),
        two_decimals(scene.height),
        label,
        paths,
        texts
    )
}

/// How a shape looks, and its outline; or a text.
fn shape(item: &Item) -> Result<(Attributes, String), Svg> {
    let look = |inside, pen| markup!(Tag, "{}{}", fill(inside), stroke(pen));
    Ok(match item {
        Item::Polygon { points, fill, pen } => (look(*fill, *pen), format!("{}z", outline(points))),
        Item::Line { points, pen } => (look(None, Some(*pen)), outline(points)),
        Item::Circle { center: [x, y], radius, fill, pen } => {
            let (begin, r, across) = (two_decimals(x - radius), two_decimals(*radius), two_decimals(2.0 * radius));
            let path = format!("M{begin} {}a{r} {r} 0 1 0 {across} 0a{r} {r} 0 1 0 -{across} 0z", two_decimals(*y));
            (look(Some(*fill), *pen), path)
        }
        Item::Shapes { outlines: all, closed, fill, pen } => (look(*fill, *pen), svg::outlines(all, *closed)),
        Item::Text(text) => return Err(written(text)),
    })
}

fn outline(points: &[[f64; 2]]) -> String {
    let at = |[x, y]: &[f64; 2]| format!("{} {}", tenth(*x), tenth(*y));
    let places: Vec<String> = points.iter().map(at).collect();
    format!("M{}", places.join("L"))
}

/// A tenth of a unit is less than any screen shows.
fn tenth(value: f64) -> String {
    two_decimals((value * 10.0).round() / 10.0)
}

/// The rules by which a page with the variables `--ink`, `--c0` and so on draws an element of [`write`].
pub(crate) fn rules() -> Css {
    let mut rules = style::page_variables();
    for (hex, variable) in style::variables() {
        // White text stays: it stands on dark cells.
        let not = Literal(if variable.is("paper") { ":not(text)" } else { "" });
        put!(Css: rules, r#"{}[fill="{}"]{{fill:var(--{})}}"#, not, hex, variable);
        put!(Css: rules, r#"[stroke="{}"]{{stroke:var(--{})}}"#, hex, variable);
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
        let text = write(&Scene { width: 10.0, height: 5.0, description: "a <b>".into(), items }).into_string();
        assert_eq!(text.matches("<path").count(), 2, "{text}");
        assert!(text.contains(r#"aria-label="a &lt;b&gt;""#) && text.contains(r#"d="M0 0L1.3 2""#), "{text}");
        let rules = rules().into_string();
        assert!(rules.contains(r##"[fill="#0072b2"]{fill:var(--c0)}"##), "{rules}");
    }
}
