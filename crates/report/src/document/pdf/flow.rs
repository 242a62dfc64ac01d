//! Puts strips on pages, one below the other.

use std::mem;

use super::look::BOTTOM;
use super::page::{Drawing, Page, Strip};

/// Strips that are kept together at most: text that never ends a page would never begin one.
const KEPT: usize = 60;
/// Room that rounding takes.
const SLACK: f64 = 0.001;

/// Pages that are being filled.
pub(super) struct Flow {
    pages: Vec<Page>,
    /// Where a page begins.
    top: f64,
    /// Where the next strip goes.
    y: f64,
    /// Room that the last strip wants below it; none at the top of a page.
    below: Option<f64>,
    /// Strips that stay with the one to come.
    kept: Vec<Strip>,
}

impl Flow {
    pub(super) fn new(top: f64) -> Self {
        Self { pages: vec![Page::new()], top, y: top, below: None, kept: Vec::new() }
    }

    /// Room on an empty page.
    pub(super) fn room(&self) -> f64 {
        BOTTOM - self.top
    }

    /// Puts a strip below the last one, or on a new page if this has no room for it and for what stays with it.
    pub(super) fn push(&mut self, strip: Strip) {
        let stays = strip.keep && self.kept.len() < KEPT;
        self.kept.push(strip);
        if !stays {
            self.place();
        }
    }

    pub(super) fn finish(mut self) -> Vec<Page> {
        self.place();
        self.pages
    }

    fn place(&mut self) {
        let kept = mem::take(&mut self.kept);
        self.make_room(&kept);
        for strip in kept {
            self.make_room(std::slice::from_ref(&strip));
            self.put(strip);
        }
    }

    /// Begins a page unless this has room, or nothing yet.
    fn make_room(&mut self, strips: &[Strip]) {
        let Some(below) = self.below else { return };
        let mut height = 0.0;
        let mut gap = below;
        for strip in strips {
            height += gap.max(strip.above) + strip.height;
            gap = strip.below;
        }
        if self.y + height <= BOTTOM + SLACK {
            return;
        }
        self.pages.push(Page::new());
        (self.y, self.below) = (self.top, None);
        if let Some(head) = strips.first().and_then(|strip| strip.head.clone()) {
            self.put(Strip::clone(&head));
            // A page that only begins with a head is as good as empty.
            self.below = None;
        }
    }

    fn put(&mut self, strip: Strip) {
        let y = self.y + self.below.map_or(0.0, |below| below.max(strip.above));
        let moved = |drawing: Drawing| Drawing { shape: drawing.shape.moved(y), ..drawing };
        if let Some(page) = self.pages.last_mut() {
            page.extend(strip.drawings.into_iter().map(moved));
        }
        self.y = y + strip.height;
        self.below = Some(strip.below);
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::super::look::TOP;
    use super::super::page::{DrawingMark, PdfShape};
    use super::*;

    fn strip(name: usize, height: f64, keep: bool) -> Strip {
        let drawings = vec![Drawing { mark: DrawingMark::Artifact, shape: PdfShape::Heading(name, 0.0) }];
        Strip { drawings, height, keep, ..Strip::default() }
    }

    fn names(pages: &[Page]) -> Vec<Vec<usize>> {
        let name = |drawing: &Drawing| match drawing.shape {
            PdfShape::Heading(name, y) => {
                assert!((TOP..BOTTOM).contains(&y));
                name
            }
            _ => usize::MAX,
        };
        pages.iter().map(|page| page.iter().map(name).collect()).collect()
    }

    #[test]
    fn what_stays_together_begins_a_page_together() {
        let mut flow = Flow::new(TOP);
        let room = flow.room();
        for (name, height, keep) in [(0, 0.5, false), (1, 0.3, true), (2, 0.1, true), (3, 0.2, false)] {
            flow.push(strip(name, height * room, keep));
        }
        assert_eq!(names(&flow.finish()), [vec![0], vec![1, 2, 3]]);
    }

    #[test]
    fn what_no_page_holds_goes_over_several() {
        let mut flow = Flow::new(TOP);
        let room = flow.room();
        (0..300).for_each(|name| flow.push(strip(name, 0.1 * room, true)));
        flow.push(strip(300, 5.0 * room, false));
        let pages = names(&flow.finish());
        assert_eq!(pages.concat(), (0..=300).collect::<Vec<_>>());
        assert_eq!(pages.iter().map(Vec::len).max(), Some(10));
    }

    #[test]
    fn a_head_is_repeated() {
        let mut flow = Flow::new(TOP);
        let room = flow.room();
        let head = Some(Rc::new(strip(99, 0.1 * room, false)));
        (0..4).for_each(|name| flow.push(Strip { head: head.clone(), ..strip(name, 0.4 * room, false) }));
        assert_eq!(names(&flow.finish()), [vec![0, 1], vec![99, 2, 3]]);
    }
}
