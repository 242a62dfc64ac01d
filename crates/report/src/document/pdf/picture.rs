//! A scene as the drawing of a page: shapes stay shapes, and text stays text.

use krilla::color::rgb;
use krilla::geom::{Path, PathBuilder, Transform};
use krilla::paint::{LineJoin, Stroke, StrokeDash};
use krilla::surface::Surface;

use crate::chart::Scene;
use crate::chart::font::Weight;
use crate::chart::scene::{Anchor, Item, Paint, Pen, Text};

use super::fonts::Face;
use super::ink::{Fonts, fill, opacity};
use super::lines;

/// How far the handles of a curve reach for a quarter of a circle of radius 1.
const HANDLE: f64 = 0.552_284_75;

/// Draws a scene whose upper left corner is `at`, and whose unit is this large.
pub(super) fn draw(surface: &mut Surface, fonts: &Fonts, scene: &Scene, at: [f64; 2], unit: f64) {
    let [x, y, unit] = [at[0], at[1], unit].map(|value| value as f32);
    surface.push_transform(&Transform::from_row(unit, 0.0, 0.0, unit, x, y));
    for item in &scene.items {
        draw_item(surface, fonts, item);
    }
    surface.pop();
}

fn draw_item(surface: &mut Surface, fonts: &Fonts, item: &Item) {
    match item {
        Item::Polygon { points, fill, pen } => draw_path(surface, outlines([points.as_slice()], true), *fill, *pen),
        Item::Line { points, pen } => draw_path(surface, outlines([points.as_slice()], false), None, Some(*pen)),
        Item::Circle { center, radius, fill, pen } => draw_path(surface, circle(*center, *radius), Some(*fill), *pen),
        Item::Shapes { outlines: all, closed, fill, pen } => {
            draw_path(surface, outlines(all.iter().map(Vec::as_slice), *closed), *fill, *pen);
        }
        Item::Text(text) if text.at.iter().all(|place| place.is_finite()) => draw_text(surface, fonts, text),
        Item::Text(_) => {}
    }
}

fn draw_path(surface: &mut Surface, path: Option<Path>, paint: Option<Paint>, pen: Option<Pen>) {
    let Some(path) = path.filter(|_| paint.is_some() || pen.is_some()) else { return };
    surface.set_fill(paint.map(fill));
    surface.set_stroke(pen.map(stroke));
    surface.draw_path(&path);
    surface.set_stroke(None);
}

/// Lines through these points; none where a place is not finite.
fn outlines<'p>(all: impl IntoIterator<Item = &'p [[f64; 2]]>, closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for points in all {
        for (at, [x, y]) in points.iter().enumerate() {
            let (x, y) = (*x as f32, *y as f32);
            if at == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
        }
        if closed && !points.is_empty() {
            path.close();
        }
    }
    path.finish()
}

fn circle([x, y]: [f64; 2], radius: f64) -> Option<Path> {
    let mut path = PathBuilder::new();
    let place = |[across, down]: [f64; 2]| [(x + across * radius) as f32, (y + down * radius) as f32];
    let corners = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [1.0, 0.0]];
    let [first_x, first_y] = place(corners[0]);
    path.move_to(first_x, first_y);
    for pair in corners.windows(2) {
        let ([a, b], [c, d]) = (pair[0], pair[1]);
        let [x1, y1] = place([a + HANDLE * c, b + HANDLE * d]);
        let [x2, y2] = place([c + HANDLE * a, d + HANDLE * b]);
        let [x, y] = place([c, d]);
        path.cubic_to(x1, y1, x2, y2, x, y);
    }
    path.close();
    path.finish()
}

fn stroke(pen: Pen) -> Stroke {
    let [r, g, b] = pen.paint.rgb;
    let dash = pen.dash.map(|lengths| StrokeDash { array: lengths.map(|length| length as f32).to_vec(), offset: 0.0 });
    Stroke {
        paint: rgb::Color::new(r, g, b).into(),
        width: pen.width as f32,
        line_join: LineJoin::Round,
        opacity: opacity(pen.paint),
        dash,
        ..Stroke::default()
    }
}

fn draw_text(surface: &mut Surface, fonts: &Fonts, text: &Text) {
    let face = if text.weight == Weight::Bold { Face::Bold } else { Face::Regular };
    let spans = lines::plain(&text.content, face);
    let width = lines::measure(&spans).line * text.size;
    let left = match text.anchor {
        Anchor::Start => text.at[0],
        Anchor::Middle => text.at[0] - width / 2.0,
        Anchor::End => text.at[0] - width,
    };
    surface.set_fill(Some(fill(text.paint)));
    for line in lines::broken(&spans, text.size, f64::INFINITY, 0.0) {
        for piece in line.pieces {
            fonts.draw(surface, &piece.text, piece.face, text.size, [left + piece.x, text.at[1]]);
        }
    }
}
