//! Tables: a head that each page repeats, and rows that stay whole.

use std::rc::Rc;

use super::super::table::{Align, Table};
use super::super::words::Words;
use super::columns;
use super::flow::Flow;
use super::fonts::Face;
use super::lines::{self, Measure, TextLine, TextSpan};
use super::look::{INK, LEFT, LINE, QUIET, Rgb, TIGHT, WIDTH, ZEBRA};
use super::page::{Area, Drawing, DrawingMark, PdfShape, Strip};
use super::tags::{PartKind, TaggedPart, Tags};
use super::text::{Pen, Style};

/// Room above and below the text of a cell.
const INSET: f64 = 2.6;
/// Room above and below a table.
const ABOVE: f64 = 8.0;
const BELOW: f64 = 12.0;

/// A column.
struct PdfColumn {
    /// Where its text may begin, and how wide it may be.
    left: f64,
    width: f64,
    align: Align,
}

/// Where columns stand.
struct Grid {
    columns: Vec<PdfColumn>,
    right: f64,
    style: Style,
}

/// How a row looks.
struct Look {
    face: Face,
    kind: PartKind,
    fill: Option<Rgb>,
    /// The line below it: how thick, and its colour.
    line: (f64, Rgb),
}

/// Puts a table on pages.
pub(super) fn set(flow: &mut Flow, tags: &mut Tags, table: &Table) {
    if table.columns().is_empty() {
        return;
    }
    let grid = Grid::new(table);
    let part = tags.part(tags.root(), PartKind::Table);
    let titles: Vec<&Words> = table.columns().iter().map(|column| &column.title).collect();
    let look = Look { face: Face::Bold, kind: PartKind::ColumnHead, fill: None, line: (0.8, QUIET) };
    let row = row_of(tags, part, PartKind::TableHead);
    let heads = grid.row(tags, row, &titles, &look, flow.room() / 2.0);
    let head = repeated(&heads, flow.room());
    let room = flow.room() - head.as_ref().map_or(0.0, |head| head.height);
    let number = table.rows().len();
    push(flow, heads, None, [ABOVE, if number == 0 { BELOW } else { 0.0 }], number > 0);
    let body = (number > 0).then(|| tags.part(part, PartKind::TableBody));
    for (at, (row, body)) in table.rows().zip(body.iter().cycle()).enumerate() {
        let fill = (at % 2 == 1).then_some(ZEBRA);
        let look = Look { face: Face::Regular, kind: PartKind::Cell, fill, line: (0.4, LINE) };
        let part = tags.part(*body, PartKind::Row);
        let strips = grid.row(tags, part, &row.iter().collect::<Vec<_>>(), &look, room);
        // No row stands alone, neither below the head nor at the end.
        let keep = at + 1 < number && (at == 0 || at + 2 == number);
        push(flow, strips, head.clone(), [0.0, if at + 1 == number { BELOW } else { 0.0 }], keep);
    }
}

fn row_of(tags: &mut Tags, table: TaggedPart, kind: PartKind) -> TaggedPart {
    let group = tags.part(table, kind);
    tags.part(group, PartKind::Row)
}

/// Pushes the strips of a row with room above and below them.
fn push(flow: &mut Flow, strips: Vec<Strip>, head: Option<Rc<Strip>>, [above, below]: [f64; 2], keep: bool) {
    let last = strips.len().saturating_sub(1);
    for (at, strip) in strips.into_iter().enumerate() {
        let above = if at == 0 { above } else { 0.0 };
        let (below, keep) = if at == last { (below, keep) } else { (0.0, false) };
        flow.push(Strip { above, below, keep, head: head.clone(), ..strip });
    }
}

/// The head for pages that a table goes on on. One that takes much of a page is not repeated.
fn repeated(heads: &[Strip], room: f64) -> Option<Rc<Strip>> {
    let [head] = heads else { return None };
    let drawings = head.drawings.iter().cloned().map(|drawing| Drawing { mark: DrawingMark::Artifact, ..drawing });
    let strip = Strip { drawings: drawings.collect(), height: head.height, ..Strip::default() };
    (head.height < room / 3.0).then(|| Rc::new(strip))
}

impl Grid {
    fn new(table: &Table) -> Self {
        let columns::Columns { size, inset, widths } = columns::fit(&measures(table), WIDTH);
        let mut right = LEFT;
        let column = |(width, of): (f64, &super::super::Column)| {
            let left = right + inset;
            right = left + width + inset;
            PdfColumn { left, width, align: of.align }
        };
        let columns = widths.into_iter().zip(table.columns()).map(column).collect();
        let style = Style { size, leading: TIGHT, rgb: INK, ..Style::TEXT };
        Self { columns, right, style }
    }

    /// A row as one strip, or as several where no page holds it.
    fn row(&self, tags: &mut Tags, row: TaggedPart, cells: &[&Words], look: &Look, room: f64) -> Vec<Strip> {
        let spans: Vec<Vec<TextSpan>> = cells.iter().map(|words| lines::spans(words, look.face)).collect();
        let of =
            |(spans, column): (&Vec<TextSpan>, &PdfColumn)| Style { width: column.width, ..self.style }.broken(spans);
        let mut lines: Vec<_> = spans.iter().zip(&self.columns).map(of).map(Vec::into_iter).collect();
        let mut pens: Vec<Pen> = spans.iter().map(|spans| Pen::new(tags.part(row, look.kind.clone()), spans)).collect();
        let number = lines.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
        let most = ((room - 2.0 * INSET) / self.style.pitch()) as usize;
        let mut strips = Vec::new();
        for group in lines::groups(number, most) {
            let (mut strip, is_whole) = (self.background(group.len(), look), group.len() == number);
            for ((lines, pen), column) in lines.iter_mut().zip(&mut pens).zip(&self.columns) {
                let lines: Vec<TextLine> = lines.by_ref().take(group.len()).collect();
                let free = strip.height - self.style.height(lines.len());
                let top = if is_whole { free / 2.0 } else { INSET };
                strip.drawings.extend(self.cell(tags, pen, lines, column, top));
            }
            strips.push(strip);
        }
        strips
    }

    fn background(&self, lines: usize, look: &Look) -> Strip {
        let height = self.style.height(lines) + 2.0 * INSET;
        let area = Area { left: LEFT, top: 0.0, right: self.right, bottom: height };
        let (thick, rgb) = look.line;
        // Not quite from the top: some viewers widen a fill to whole pixels, and it would hide the line above it.
        let fill = look.fill.map(|rgb| PdfShape::Fill(Area { top: 0.5, ..area }, rgb));
        let line = PdfShape::Fill(Area { top: height - thick, ..area }, rgb);
        let shapes = fill.into_iter().chain([line]);
        let drawings = shapes.map(|shape| Drawing { mark: DrawingMark::Artifact, shape }).collect();
        Strip { drawings, height, ..Strip::default() }
    }

    fn cell(&self, tags: &mut Tags, pen: &mut Pen, lines: Vec<TextLine>, column: &PdfColumn, top: f64) -> Vec<Drawing> {
        let mut drawings = Vec::new();
        for (at, line) in lines.into_iter().enumerate() {
            let free = match column.align {
                Align::Left => 0.0,
                Align::Right => column.width - line.width,
            };
            let place = [column.left + free, top + at as f64 * self.style.pitch()];
            drawings.extend(pen.line(tags, line, self.style.size, self.style.rgb, place));
        }
        drawings
    }
}

/// What holds each cell of a column, for each column.
fn measures(table: &Table) -> Vec<Measure> {
    let of = |words: &Words, face| lines::measure(&lines::spans(words, face));
    let mut measures: Vec<Measure> = table.columns().iter().map(|column| of(&column.title, Face::Bold)).collect();
    for row in table.rows() {
        for (measure, words) in measures.iter_mut().zip(&row) {
            *measure = measure.max(of(words, Face::Regular));
        }
    }
    measures
}
