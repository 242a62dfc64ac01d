//! Writes pages as a PDF.

use krilla::annotation::{Annotation, LinkAnnotation, Target};
use krilla::configure::{Accessibility, ConfigurationBuilder};
use krilla::destination::XyzDestination;
use krilla::error::KrillaError;
use krilla::geom::{PathBuilder, Point, Rect};
use krilla::metadata::{DateTime, Metadata};
use krilla::outline::{Outline, OutlineNode};
use krilla::page::{Page as Sheet, PageSettings};
use krilla::paint::{LineCap, Stroke, StrokeDash};
use krilla::surface::Surface;
use krilla::tagging::{Artifact, ArtifactType, BBox, ContentTag, SpanTag};
use krilla::{Document, SerializeSettings, color::rgb};

use crate::chart::scene::Paint;

use super::About;
use super::ink::{self, Fonts};
use super::look::{LEFT, PAGE, Rgb};
use super::page::{Area, Drawing, DrawingMark, Page, PdfShape};
use super::picture;
use super::set::{Heading, Laid};
use super::tags::Drawn;

/// The language of every report.
const LANGUAGE: &str = "en";

/// The position of a heading: the page, from 0 on, and its upper edge.
#[derive(Clone, Copy)]
struct HeadingPosition {
    page: usize,
    y: f64,
}

/// Writes the pages; `claims`: as PDF/UA-1, which fails where they are not.
pub(super) fn write(about: &About, laid: &Laid, claims: bool) -> Result<Vec<u8>, KrillaError> {
    let mut document = Document::new_with(settings(claims));
    let fonts = Fonts::new();
    let mut drawn = Drawn::default();
    let places = places(laid);
    for (at, page) in laid.pages.iter().enumerate() {
        let size = PageSettings::from_wh(PAGE[0] as f32, PAGE[1] as f32).unwrap_or_default();
        let mut sheet = document.start_page_with(size);
        draw(&mut sheet.surface(), &fonts, at, page, &mut drawn);
        link(&mut sheet, laid, &places, page, &mut drawn);
        sheet.finish();
    }
    document.set_tag_tree(laid.tags.tree(drawn));
    document.set_outline(outline(about, laid, &places));
    document.set_metadata(metadata(about));
    document.finish()
}

fn settings(claims: bool) -> SerializeSettings {
    let builder = ConfigurationBuilder::new();
    let builder = if claims { builder.with_accessibility_validator(Accessibility::UA1) } else { builder };
    SerializeSettings { configuration: builder.finish().unwrap_or_default(), ..SerializeSettings::default() }
}

fn metadata(about: &About) -> Metadata {
    let About { title, program, started } = about;
    let metadata = Metadata::new()
        .title((*title).to_owned())
        .creator((*program).to_owned())
        .language(LANGUAGE.to_owned())
        .document_id(format!("{title} {started}"));
    match date(started) {
        Some(date) => metadata.description(format!("{title}, {started}")).creation_date(date),
        None => metadata,
    }
}

/// A time as it stands in records (RFC 3339).
fn date(text: &str) -> Option<DateTime> {
    let time = text.parse::<jiff::Timestamp>().ok()?.to_zoned(jiff::tz::TimeZone::UTC);
    let small = |part: i8| u8::try_from(part).ok();
    let date = DateTime::new(u16::try_from(time.year()).ok()?).month(small(time.month())?).day(small(time.day())?);
    Some(date.hour(small(time.hour())?).minute(small(time.minute())?).second(small(time.second())?))
}

/// Where each heading stands.
fn places(laid: &Laid) -> Vec<HeadingPosition> {
    let mut places = vec![HeadingPosition { page: 0, y: 0.0 }; laid.headings.len()];
    for (page, drawings) in laid.pages.iter().enumerate() {
        for drawing in drawings {
            if let PdfShape::Heading(heading, y) = drawing.shape {
                places[heading] = HeadingPosition { page, y };
            }
        }
    }
    places
}

/// Draws a page, and remembers what was drawn for which part.
fn draw(surface: &mut Surface, fonts: &Fonts, at: usize, page: &Page, drawn: &mut Drawn) {
    let mut open = None;
    for Drawing { mark, shape } in page {
        if matches!(shape, PdfShape::Heading(..) | PdfShape::Link(..)) {
            continue;
        }
        if open.is_some_and(|open| open != *mark) {
            surface.end_tagged();
            open = None;
        }
        if open.is_none() {
            let piece = surface.start_tagged(content(*mark, shape));
            open = Some(*mark);
            if let DrawingMark::Slot(slot) = mark {
                drawn.piece(*slot, piece);
            }
        }
        if let (DrawingMark::Slot(slot), PdfShape::Picture(scene, [left, top], unit)) = (mark, shape) {
            let (right, bottom) = (left + scene.width * unit, top + scene.height * unit);
            let place = rect(Area { left: *left, top: *top, right, bottom });
            place.into_iter().for_each(|place| drawn.picture(*slot, BBox::new(at, place)));
        }
        draw_shape(surface, fonts, shape);
    }
    if open.is_some() {
        surface.end_tagged();
    }
}

fn content(mark: DrawingMark, shape: &PdfShape) -> ContentTag<'static> {
    let artifact = |kind| ContentTag::Artifact(Artifact::with_kind(kind));
    match mark {
        DrawingMark::Slot(_) if matches!(shape, PdfShape::Picture(..)) => ContentTag::Other,
        DrawingMark::Slot(_) => ContentTag::Span(SpanTag::empty()),
        DrawingMark::Artifact => artifact(ArtifactType::Layout),
        DrawingMark::Header => artifact(ArtifactType::Header),
        DrawingMark::Footer => artifact(ArtifactType::Footer),
    }
}

fn draw_shape(surface: &mut Surface, fonts: &Fonts, shape: &PdfShape) {
    match shape {
        PdfShape::Text(text) => {
            surface.set_fill(Some(ink::fill(Paint::solid(text.rgb))));
            fonts.draw(surface, &text.text, text.face, text.size, text.at);
        }
        PdfShape::Fill(area, rgb) => fill(surface, *area, *rgb),
        PdfShape::Dots(from, to, rgb) => dots(surface, *from, *to, *rgb),
        PdfShape::Picture(scene, at, unit) => picture::draw(surface, fonts, scene, *at, *unit),
        PdfShape::Heading(..) | PdfShape::Link(..) | PdfShape::PageOf(_) => {}
    }
}

fn rect(area: Area) -> Option<Rect> {
    Rect::from_ltrb(area.left as f32, area.top as f32, area.right as f32, area.bottom as f32)
}

fn fill(surface: &mut Surface, area: Area, rgb: Rgb) {
    let mut path = PathBuilder::new();
    rect(area).into_iter().for_each(|rect| path.push_rect(rect));
    if let Some(path) = path.finish() {
        surface.set_fill(Some(ink::fill(Paint::solid(rgb))));
        surface.draw_path(&path);
    }
}

fn dots(surface: &mut Surface, [from, y]: [f64; 2], to: f64, [r, g, b]: Rgb) {
    let mut path = PathBuilder::new();
    path.move_to(from as f32, y as f32);
    path.line_to(to as f32, y as f32);
    let Some(path) = path.finish().filter(|_| from < to) else { return };
    let dash = Some(StrokeDash { array: vec![0.1, 3.0], offset: 0.0 });
    let paint = rgb::Color::new(r, g, b).into();
    surface.set_fill(None);
    surface.set_stroke(Some(Stroke { paint, width: 0.9, line_cap: LineCap::Round, dash, ..Stroke::default() }));
    surface.draw_path(&path);
    surface.set_stroke(None);
}

/// Adds the links of a page, each to the part that is drawn below it.
fn link(sheet: &mut Sheet, laid: &Laid, places: &[HeadingPosition], page: &Page, drawn: &mut Drawn) {
    for drawing in page {
        let (DrawingMark::Slot(slot), PdfShape::Link(area, heading)) = (drawing.mark, &drawing.shape) else { continue };
        let (Some(rect), Some(place)) = (rect(*area), places.get(*heading)) else { continue };
        let target = Target::Destination(destination(*place).into());
        let says = laid.headings.get(*heading).map(|heading| heading.title.clone());
        let annotation = Annotation::new_link(LinkAnnotation::new(rect, target), says);
        drawn.piece(slot, sheet.add_tagged_annotation(annotation));
    }
}

fn destination(place: HeadingPosition) -> XyzDestination {
    // A little above the heading, so that it is not at the very edge.
    XyzDestination::new(place.page, Point::from_xy(LEFT as f32, (place.y - 12.0).max(0.0) as f32))
}

/// The sections with their parts; the title where there are none.
fn outline(about: &About, laid: &Laid, places: &[HeadingPosition]) -> Outline {
    let mut nodes: Vec<OutlineNode> = Vec::new();
    for (Heading { level, title }, place) in laid.headings.iter().zip(places) {
        let node = OutlineNode::new(title.clone(), destination(*place));
        match nodes.last_mut().filter(|_| *level > 2) {
            Some(section) => section.push_child(node),
            None => nodes.push(node),
        }
    }
    if nodes.is_empty() {
        nodes.push(OutlineNode::new(about.title.to_owned(), destination(HeadingPosition { page: 0, y: 0.0 })));
    }
    let mut outline = Outline::new();
    nodes.into_iter().for_each(|node| outline.push_child(node));
    outline
}
