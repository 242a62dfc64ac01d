//! What stands on pages.

use std::rc::Rc;

use crate::chart::Scene;

use super::fonts::{self, Face};
use super::look::Rgb;
use super::tags::Slot;

/// What a drawing belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrawingMark {
    /// A part of the document.
    Slot(Slot),
    /// Nothing: a line, a background, or the head of a table that goes on.
    Artifact,
    Header,
    Footer,
}

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

/// Text of one face on one line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Text {
    /// Where its baseline begins.
    pub(super) at: [f64; 2],
    pub(super) face: Face,
    /// The size of the line that it stands on.
    pub(super) size: f64,
    pub(super) rgb: Rgb,
    pub(super) text: Box<str>,
}

/// The number of the page that a heading stands on, known once all pages are set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PageOf {
    pub(super) heading: usize,
    /// Where its baseline ends.
    pub(super) at: [f64; 2],
    pub(super) size: f64,
    pub(super) rgb: Rgb,
}

/// Something drawn.
#[derive(Clone, Debug)]
pub(super) enum PdfShape {
    Text(Text),
    Fill(Area, Rgb),
    /// A row of dots from one place to another on the same level.
    Dots([f64; 2], f64, Rgb),
    /// A picture, and how large a unit of it is.
    Picture(Rc<Scene>, [f64; 2], f64),
    /// Where a heading begins.
    Heading(usize, f64),
    /// A link to a heading.
    Link(Area, usize),
    PageOf(PageOf),
}

/// Something drawn, and what it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Drawing {
    pub(super) mark: DrawingMark,
    pub(super) shape: PdfShape,
}

/// A page.
pub(super) type Page = Vec<Drawing>;

/// What is never split between pages. Its drawings stand where they belong across, and below zero down.
#[derive(Clone, Debug, Default)]
pub(super) struct Strip {
    pub(super) drawings: Vec<Drawing>,
    pub(super) height: f64,
    /// Room above it, except at the top of a page, and below it; of two strips the larger counts.
    pub(super) above: f64,
    pub(super) below: f64,
    /// Whether it stands on the same page as what follows.
    pub(super) keep: bool,
    /// What a page begins with that begins with it.
    pub(super) head: Option<Rc<Strip>>,
}

impl Area {
    pub(super) fn moved(self, down: f64) -> Self {
        Self { top: self.top + down, bottom: self.bottom + down, ..self }
    }
}

impl Text {
    /// Where it ends, without spaces.
    #[cfg(test)]
    pub(super) fn right(&self) -> f64 {
        self.at[0] + width(self.text.trim_end(), self.face) * self.size
    }
}

impl PdfShape {
    /// The shape, further down.
    pub(super) fn moved(self, down: f64) -> Self {
        let at = |[x, y]: [f64; 2]| [x, y + down];
        match self {
            Self::Text(text) => Self::Text(Text { at: at(text.at), ..text }),
            Self::Fill(area, rgb) => Self::Fill(area.moved(down), rgb),
            Self::Dots(from, to, rgb) => Self::Dots(at(from), to, rgb),
            Self::Picture(scene, place, unit) => Self::Picture(scene, at(place), unit),
            Self::Heading(heading, y) => Self::Heading(heading, y + down),
            Self::Link(area, heading) => Self::Link(area.moved(down), heading),
            Self::PageOf(page) => Self::PageOf(PageOf { at: at(page.at), ..page }),
        }
    }
}

/// Width of a text of size 1.
pub(super) fn width(text: &str, face: Face) -> f64 {
    text.chars().map(|character| fonts::glyph(face, character).advance).sum()
}
