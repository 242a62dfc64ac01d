//! A laid-out picture: shapes and text at fixed places, in units of 1/96 inch, y downwards.

use super::font::{self, Weight};

/// A colour with opacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Paint {
    pub(crate) rgb: [u8; 3],
    pub(crate) opacity: f64,
}

impl Paint {
    pub(crate) const fn solid(rgb: [u8; 3]) -> Self {
        Self { rgb, opacity: 1.0 }
    }

    pub(crate) const fn faint(rgb: [u8; 3], opacity: f64) -> Self {
        Self { rgb, opacity }
    }
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pen {
    pub(crate) paint: Paint,
    pub(crate) width: f64,
    /// Lengths of dash and gap.
    pub(crate) dash: Option<[f64; 2]>,
}

/// Which end of a text its position is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A line of text; `at` is on its baseline.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text {
    pub(crate) at: [f64; 2],
    pub(crate) anchor: Anchor,
    pub(crate) size: f64,
    pub(crate) weight: Weight,
    pub(crate) paint: Paint,
    pub(crate) content: String,
}

impl Text {
    /// Width of the text in the embedded font.
    pub(crate) fn width(&self) -> f64 {
        font::width(&self.content, self.size, self.weight)
    }

    /// Where its first character begins.
    pub(crate) fn left(&self) -> f64 {
        match self.anchor {
            Anchor::Start => self.at[0],
            Anchor::Middle => self.at[0] - self.width() / 2.0,
            Anchor::End => self.at[0] - self.width(),
        }
    }

    fn extent(&self) -> Box2 {
        let left = self.left();
        let (top, bottom) = (self.at[1] - 0.74 * self.size, self.at[1] + 0.21 * self.size);
        Box2 { left, top, right: left + self.width(), bottom }
    }
}

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Box2 {
    /// Smallest x.
    pub left: f64,
    /// Smallest y.
    pub top: f64,
    /// Largest x.
    pub right: f64,
    /// Largest y.
    pub bottom: f64,
}

impl Box2 {
    /// Whether the two share more than an edge.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    /// Whether `other` lies inside.
    pub fn holds(&self, other: &Self) -> bool {
        self.left <= other.left && self.top <= other.top && self.right >= other.right && self.bottom >= other.bottom
    }
}

/// One thing in a picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Polygon {
        points: Vec<[f64; 2]>,
        fill: Option<Paint>,
        pen: Option<Pen>,
    },
    Line {
        points: Vec<[f64; 2]>,
        pen: Pen,
    },
    Circle {
        center: [f64; 2],
        radius: f64,
        fill: Paint,
        pen: Option<Pen>,
    },
    /// Many polygons, or many lines, that look alike.
    Shapes {
        outlines: Vec<Vec<[f64; 2]>>,
        closed: bool,
        fill: Option<Paint>,
        pen: Option<Pen>,
    },
    Text(Text),
}

/// A laid-out picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// For readers who cannot see it.
    pub description: String,
    pub(crate) items: Vec<Item>,
}

impl Scene {
    /// Every text with the box that it fills.
    pub fn texts(&self) -> Vec<(String, Box2)> {
        let text = |item: &Item| match item {
            Item::Text(text) => Some((text.content.clone(), text.extent())),
            _ => None,
        };
        self.items.iter().filter_map(text).collect()
    }

    /// The whole picture.
    pub fn frame(&self) -> Box2 {
        Box2 { left: 0.0, top: 0.0, right: self.width, bottom: self.height }
    }
}
