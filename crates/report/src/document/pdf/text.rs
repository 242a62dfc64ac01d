//! Text as strips of a page.

use super::fonts::Face;
use super::lines::{self, Role, TextLine, TextSpan};
use super::look::{CAPITAL, INK, LEADING, LEFT, Rgb, TEXT, WIDTH, height};
use super::page::{Area, Drawing, DrawingMark, PdfShape, Strip, Text};
use super::tags::{PartKind, Slot, TaggedPart, Tags};

/// How text is set, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) size: f64,
    pub(super) leading: f64,
    pub(super) rgb: Rgb,
    /// Where its lines begin, and how wide they may be.
    pub(super) left: f64,
    pub(super) width: f64,
    /// How much further right the lines after the first begin.
    pub(super) hang: f64,
}

impl Style {
    /// How paragraphs are set.
    pub(super) const TEXT: Self = Self { size: TEXT, leading: LEADING, rgb: INK, left: LEFT, width: WIDTH, hang: 0.0 };

    /// The lines of a text.
    pub(super) fn broken(&self, spans: &[TextSpan]) -> Vec<TextLine> {
        lines::broken(spans, self.size, self.width, self.hang)
    }

    /// From one baseline to the next.
    pub(super) fn pitch(&self) -> f64 {
        (CAPITAL + self.leading) * self.size
    }

    /// Height of that many lines.
    pub(super) fn height(&self, lines: usize) -> f64 {
        height(lines, self.size, self.leading)
    }
}

/// Draws lines for a part of the document.
pub(super) struct Pen<'s> {
    part: TaggedPart,
    spans: &'s [TextSpan<'s>],
    /// Slot of the last span: it may go on in the next line.
    last: Option<(usize, Slot)>,
}

impl<'s> Pen<'s> {
    pub(super) fn new(part: TaggedPart, spans: &'s [TextSpan<'s>]) -> Self {
        Self { part, spans, last: None }
    }

    /// A line whose capitals begin at `top`.
    pub(super) fn line(
        &mut self,
        tags: &mut Tags,
        line: TextLine,
        size: f64,
        rgb: Rgb,
        [left, top]: [f64; 2],
    ) -> Vec<Drawing> {
        let draw = |piece: lines::GlyphPiece| {
            let mark = DrawingMark::Slot(self.slot(tags, piece.span));
            let at = [left + piece.x, top + CAPITAL * size];
            let shape = PdfShape::Text(Text { at, face: piece.face, size, rgb, text: piece.text.into() });
            Drawing { mark, shape }
        };
        line.pieces.into_iter().map(draw).collect()
    }

    fn slot(&mut self, tags: &mut Tags, span: usize) -> Slot {
        if let Some((_, slot)) = self.last.filter(|(last, _)| *last == span) {
            return slot;
        }
        let part = match self.spans[span].role {
            Role::Plain => self.part,
            Role::Strong => tags.part(self.part, PartKind::Strong),
            Role::Code => tags.part(self.part, PartKind::Code),
        };
        let slot = tags.slot(part);
        self.last = Some((span, slot));
        slot
    }
}

/// A strip for each line. The first two stay together, and the last two.
pub(super) fn strips(tags: &mut Tags, part: TaggedPart, spans: &[TextSpan], style: &Style) -> Vec<Strip> {
    let lines = style.broken(spans);
    let number = lines.len();
    let mut pen = Pen::new(part, spans);
    let strip = |(at, line): (usize, TextLine)| {
        let left = style.left + if at == 0 { 0.0 } else { style.hang };
        Strip {
            drawings: pen.line(tags, line, style.size, style.rgb, [left, 0.0]),
            height: style.height(1),
            above: style.leading * style.size,
            keep: at + 1 < number && (at == 0 || at + 2 == number),
            ..Strip::default()
        }
    };
    lines.into_iter().enumerate().map(strip).collect()
}

/// Text in a box as wide as a page's text, of several boxes if no page holds it.
pub(super) struct Boxed {
    pub(super) fill: Rgb,
    /// A bar along its left side.
    pub(super) edge: Option<Rgb>,
    /// Room around its text.
    pub(super) inset: [f64; 2],
}

impl Boxed {
    /// The boxes with these lines, on pages with this much room.
    pub(super) fn strips(&self, drawn: Vec<Vec<Drawing>>, style: &Style, room: f64) -> Vec<Strip> {
        let [_, inset] = self.inset;
        let most = ((room - 2.0 * inset - style.height(1)) / style.pitch()) as usize;
        let (number, mut drawn) = (drawn.len(), drawn.into_iter());
        let strip = |group: std::ops::Range<usize>| {
            let height = style.height(group.len()) + 2.0 * inset;
            let mut drawings = self.background(height);
            for (at, line) in drawn.by_ref().take(group.len()).enumerate() {
                let down = inset + at as f64 * style.pitch();
                drawings.extend(line.into_iter().map(|line| Drawing { shape: line.shape.moved(down), ..line }));
            }
            Strip { drawings, height, above: TEXT, below: TEXT, ..Strip::default() }
        };
        lines::groups(number, most).map(strip).collect()
    }

    fn background(&self, height: f64) -> Vec<Drawing> {
        let area = Area { left: LEFT, top: 0.0, right: LEFT + WIDTH, bottom: height };
        let edge = self.edge.map(|rgb| PdfShape::Fill(Area { right: LEFT + 3.0, ..area }, rgb));
        let shapes = [Some(PdfShape::Fill(area, self.fill)), edge];
        shapes.into_iter().flatten().map(|shape| Drawing { mark: DrawingMark::Artifact, shape }).collect()
    }
}

/// A line of text that belongs to no part of the document.
pub(super) fn apart(mark: DrawingMark, text: &str, face: Face, size: f64, rgb: Rgb, at: [f64; 2]) -> Vec<Drawing> {
    let lines = lines::broken(&lines::plain(text, face), size, f64::INFINITY, 0.0);
    let draw = |piece: lines::GlyphPiece| {
        let at = [at[0] + piece.x, at[1]];
        Drawing { mark, shape: PdfShape::Text(Text { at, face: piece.face, size, rgb, text: piece.text.into() }) }
    };
    lines.into_iter().flat_map(|line| line.pieces).map(draw).collect()
}
