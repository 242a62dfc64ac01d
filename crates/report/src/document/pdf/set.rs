//! Sets the blocks of a document on pages.

use std::iter::Peekable;
use std::rc::Rc;
use std::vec::IntoIter;

use view::NamedChart;

use crate::chart::Draw as _;

use super::super::blocks::{Advice, Block, Item};
use super::super::words::Words;
use super::flow::Flow;
use super::fonts::Face;
use super::look::{
    APART, CODE, INK, LEFT, LINE, QUIET, RIGHT, SECTION, SMALL, SUBSECTION, TEXT, TIGHT, TITLE, WARNING, WARNING_EDGE,
    WARNING_INK, WIDTH,
};
use super::page::{Area, Drawing, DrawingMark, Page, PageOf, PdfShape, Strip};
use super::table;
use super::tags::{PartKind, TaggedPart, Tags};
use super::text::{self, Boxed, Pen, Style};
use super::{frame, lines};

/// A heading of a section, or of a part of one.
pub(super) struct Heading {
    /// 2 for a section, 3 for a part of one.
    pub(super) level: u8,
    pub(super) title: String,
}

/// A document on pages.
pub(super) struct Laid {
    pub(super) pages: Vec<Page>,
    pub(super) tags: Tags,
    pub(super) headings: Vec<Heading>,
}

/// Boxes of warnings and of commands.
const WARNING_BOX: Boxed = Boxed { fill: WARNING, edge: Some(WARNING_EDGE), inset: [9.0, 6.0] };
const COMMAND_BOX: Boxed = Boxed { fill: CODE, edge: None, inset: [7.0, 7.0] };

/// Where the text of items begins, level by level, and where their marks stand.
const INDENTS: [[f64; 2]; 2] = [[2.0, 10.5], [12.5, 21.0]];

/// Room for the number of a page in the contents.
const NUMBER: f64 = 30.0;
/// Lines of a paragraph that stay with the picture or table that they lead to.
const LEAD: usize = 3;
/// Least room for the text around a picture.
const AROUND: f64 = 120.0;

struct Setter {
    flow: Flow,
    tags: Tags,
    headings: Vec<Heading>,
    /// Headings and figures that were set.
    headed: usize,
    figures: usize,
    /// Level of the last heading's tag.
    level: u16,
}

/// Puts a document on pages, with headers and footers.
pub(super) fn lay_out(title: &str, started: &str, blocks: Vec<Block>) -> Laid {
    let header = frame::header(&blocks);
    let headings: Vec<Heading> = blocks.iter().filter_map(heading).collect();
    let flow = Flow::new(frame::top(&header));
    let mut setter = Setter { flow, tags: Tags::new(), headings, headed: 0, figures: 0, level: 1 };
    let mut blocks = blocks.into_iter().peekable();
    setter.title(title, &mut blocks);
    while let Some(block) = blocks.next() {
        setter.block(block, blocks.peek());
    }
    let mut pages = setter.flow.finish();
    frame::add(&mut pages, &header, title, started);
    Laid { pages, tags: setter.tags, headings: setter.headings }
}

/// The heading that a block is, other than the title.
fn heading(block: &Block) -> Option<Heading> {
    match block {
        Block::Heading(level, words) if *level > 1 && !words.is_empty() => {
            Some(Heading { level: (*level).min(3), title: words.plain() })
        }
        _ => None,
    }
}

impl Setter {
    fn title(&mut self, title: &str, blocks: &mut Peekable<IntoIter<Block>>) {
        let first = blocks.next_if(|block| matches!(block, Block::Heading(..=1, _)));
        let words = match first {
            Some(Block::Heading(_, words)) if !words.is_empty() => words,
            _ => Words::from(title),
        };
        let part = self.tags.part(self.tags.root(), PartKind::Heading(1, words.plain()));
        let style = Style { size: TITLE, leading: TIGHT, ..Style::TEXT };
        self.lines(part, &lines::spans(&words, Face::Bold), &style, [0.0, 13.0], true);
    }

    fn block(&mut self, block: Block, next: Option<&Block>) {
        match block {
            Block::Heading(level, words) => self.heading(level, &words),
            Block::Warning(words) => self.warning(&words),
            Block::Paragraph(words) | Block::Verdict(_, words) | Block::Note(words) => self.paragraph(&words, next),
            Block::Actions(actions) => self.list(&actions.into_iter().map(Item::from).collect::<Vec<_>>()),
            Block::Advice(Advice { what, evidence, action, .. }) => {
                self.list(&[Item { words: what, below: vec![evidence, action] }]);
            }
            Block::Bars(_) | Block::Tiles(_) | Block::Cards(_) | Block::OnPage(_) | Block::Folded { .. } => {}
            Block::Contents if self.headings.is_empty() => {}
            Block::Contents => self.contents(),
            Block::List(items) => self.list(&items),
            Block::Table(table) => table::set(&mut self.flow, &mut self.tags, &table),
            Block::Command(command) => self.command(&command),
            Block::Figure(chart) => self.figure(&chart),
        }
    }

    /// Pushes lines with room above and below them; `keep`: they stay with what follows.
    fn lines(
        &mut self,
        part: TaggedPart,
        spans: &[lines::TextSpan],
        style: &Style,
        [above, below]: [f64; 2],
        keep: bool,
    ) {
        let mut strips = text::strips(&mut self.tags, part, spans, style);
        if let Some(first) = strips.first_mut() {
            first.above = above;
        }
        if let Some(last) = strips.last_mut() {
            (last.below, last.keep) = (below, keep);
        }
        strips.into_iter().for_each(|strip| self.flow.push(strip));
    }

    fn heading(&mut self, level: u8, words: &Words) {
        let heading = self.headed;
        if words.is_empty() {
            return;
        }
        // A title in the midst of a document is a section of no contents.
        let (level, is_listed) = (level.clamp(2, 3), level > 1);
        // No level of a tag may be left out.
        self.level = u16::from(level).min(self.level + 1);
        let part = self.tags.part(self.tags.root(), PartKind::Heading(self.level, words.plain()));
        let (size, above, below) = if level == 2 { (SECTION, 18.0, 9.0) } else { (SUBSECTION, 15.0, 8.0) };
        let style = Style { size, leading: TIGHT, ..Style::TEXT };
        let mut strips = text::strips(&mut self.tags, part, &lines::spans(words, Face::Bold), &style);
        if let Some(first) = strips.first_mut() {
            first.above = above;
            if is_listed {
                self.headed += 1;
                first.drawings.push(Drawing { mark: DrawingMark::Artifact, shape: PdfShape::Heading(heading, 0.0) });
            }
        }
        if let Some(last) = strips.last_mut() {
            last.below = below;
        }
        strips.into_iter().for_each(|strip| self.flow.push(Strip { keep: true, ..strip }));
    }

    fn warning(&mut self, words: &Words) {
        if words.is_empty() {
            return;
        }
        let [inset, _] = WARNING_BOX.inset;
        let (left, width) = (LEFT + inset, WIDTH - 2.0 * inset);
        let style = Style { rgb: WARNING_INK, left, width, ..Style::TEXT };
        let spans = lines::spans(words, Face::Bold);
        let part = self.tags.part(self.tags.root(), PartKind::Paragraph);
        let drawn =
            text::strips(&mut self.tags, part, &spans, &style).into_iter().map(|strip| strip.drawings).collect();
        let strips = WARNING_BOX.strips(drawn, &style, self.flow.room());
        strips.into_iter().for_each(|strip| self.flow.push(strip));
    }

    fn paragraph(&mut self, words: &Words, next: Option<&Block>) {
        if words.is_empty() {
            return;
        }
        let leads = !matches!(next, None | Some(Block::Heading(..) | Block::Paragraph(_) | Block::Warning(_)));
        let part = self.tags.part(self.tags.root(), PartKind::Paragraph);
        let spans = lines::spans(words, Face::Regular);
        let mut strips = text::strips(&mut self.tags, part, &spans, &Style::TEXT);
        if let Some(first) = strips.first_mut() {
            first.above = APART;
        }
        if let Some(last) = strips.last_mut() {
            last.below = APART;
        }
        let number = strips.len();
        for (at, strip) in strips.into_iter().enumerate() {
            let keep = strip.keep || (leads && at + LEAD >= number);
            self.flow.push(Strip { keep, ..strip });
        }
    }

    fn list(&mut self, items: &[Item]) {
        let list = self.tags.part(self.tags.root(), PartKind::List);
        for (at, item) in items.iter().enumerate() {
            let above = if at == 0 { APART } else { Style::TEXT.leading * TEXT };
            let below = if at + 1 == items.len() && item.below.is_empty() { APART } else { 0.0 };
            let body = self.item(list, &item.words, INDENTS[0], [above, below]);
            if item.below.is_empty() {
                continue;
            }
            let within = self.tags.part(body, PartKind::List);
            for (inner, words) in item.below.iter().enumerate() {
                let is_last = at + 1 == items.len() && inner + 1 == item.below.len();
                let room = [Style::TEXT.leading * TEXT, if is_last { APART } else { 0.0 }];
                self.item(within, words, INDENTS[1], room);
            }
        }
    }

    /// Sets an item of a list, and gives the part that it says.
    fn item(&mut self, list: TaggedPart, words: &Words, [mark, indent]: [f64; 2], room: [f64; 2]) -> TaggedPart {
        let item = self.tags.part(list, PartKind::Item);
        let label = self.tags.part(item, PartKind::Label);
        let body = self.tags.part(item, PartKind::Body);
        let dot = Style { rgb: QUIET, left: LEFT + mark, ..Style::TEXT };
        let dot = text::strips(&mut self.tags, label, &lines::plain("•", Face::Regular), &dot);
        let style = Style { left: LEFT + indent, width: WIDTH - indent, ..Style::TEXT };
        let mut strips = text::strips(&mut self.tags, body, &lines::spans(words, Face::Regular), &style);
        let dot = dot.into_iter().flat_map(|strip| strip.drawings);
        let last = strips.len().saturating_sub(1);
        strips[0].drawings.splice(0..0, dot);
        (strips[0].above, strips[last].below) = (room[0], room[1]);
        strips.into_iter().for_each(|strip| self.flow.push(strip));
        body
    }

    fn command(&mut self, command: &str) {
        let [inset, _] = COMMAND_BOX.inset;
        // Two characters: a line that goes on is seen to do so.
        let hang = 2.0 * super::page::width(" ", Face::Mono) * TEXT;
        let style = Style { left: LEFT + inset, width: WIDTH - 2.0 * inset, hang, ..Style::TEXT };
        let paragraph = self.tags.part(self.tags.root(), PartKind::Paragraph);
        let code = self.tags.part(paragraph, PartKind::Code);
        // A space, so that lines stay apart where they are read aloud or copied.
        let whole: Vec<String> = command.trim_end().lines().map(|line| line.replace('\t', "    ") + " ").collect();
        let mut drawn = Vec::new();
        for line in &whole {
            let strips = text::strips(&mut self.tags, code, &lines::plain(line, Face::Mono), &style);
            drawn.extend(strips.into_iter().map(|strip| strip.drawings));
        }
        let strips = COMMAND_BOX.strips(drawn, &style, self.flow.room());
        strips.into_iter().for_each(|strip| self.flow.push(strip));
    }

    fn figure(&mut self, chart: &NamedChart) {
        self.figures += 1;
        let scene = chart.spec.scene();
        let caption = Words::from(format!("Figure {}: {}", self.figures, chart.spec.title.trim()));
        let shows = if scene.description.trim().is_empty() { caption.plain() } else { scene.description.clone() };
        let part = self.tags.part(self.tags.root(), PartKind::Figure(shows));
        let unit = (0.9 * WIDTH / scene.width).min((self.flow.room() - AROUND) / scene.height);
        let (left, height) = (LEFT + (WIDTH - unit * scene.width) / 2.0, unit * scene.height);
        let picture = PdfShape::Picture(Rc::new(scene), [left, 0.0], unit);
        let picture = vec![Drawing { mark: DrawingMark::Slot(self.tags.slot(part)), shape: picture }];
        self.flow.push(Strip { drawings: picture, height, above: 12.0, below: 6.0, keep: true, ..Strip::default() });
        let part = self.tags.part(part, PartKind::Caption);
        self.caption(part, &caption);
    }

    /// Centred below its figure.
    fn caption(&mut self, part: TaggedPart, words: &Words) {
        let spans = lines::spans(words, Face::Regular);
        let style = Style { size: SMALL, rgb: QUIET, ..Style::TEXT };
        let lines = style.broken(&spans);
        let number = lines.len();
        let mut pen = Pen::new(part, &spans);
        for (at, line) in lines.into_iter().enumerate() {
            let left = LEFT + (WIDTH - line.width) / 2.0;
            let drawings = pen.line(&mut self.tags, line, SMALL, QUIET, [left, 0.0]);
            let (above, keep) = (style.leading * SMALL, at + 1 < number);
            let below = if keep { 0.0 } else { 14.0 };
            self.flow.push(Strip { drawings, height: style.height(1), above, below, keep, ..Strip::default() });
        }
    }

    /// The sections with their pages.
    fn contents(&mut self) {
        let part = self.tags.part(self.tags.root(), PartKind::Heading(2, "Contents".to_owned()));
        let style = Style { size: SECTION, leading: TIGHT, ..Style::TEXT };
        self.lines(part, &lines::plain("Contents", Face::Bold), &style, [18.0, 9.0], true);
        let contents = self.tags.part(self.tags.root(), PartKind::Contents);
        let sections = self.headings.iter().enumerate().filter(|(_, heading)| heading.level == 2);
        let sections: Vec<(usize, String)> =
            sections.map(|(at, heading)| (at, format!("{} ", heading.title))).collect();
        for (heading, title) in sections {
            self.entry(contents, heading, &title);
        }
    }

    /// A line of the contents: a link from end to end.
    fn entry(&mut self, contents: TaggedPart, heading: usize, title: &str) {
        let entry = self.tags.part(contents, PartKind::Entry);
        let reference = self.tags.part(entry, PartKind::Reference);
        let link = self.tags.part(reference, PartKind::Link);
        let style = Style { width: WIDTH - NUMBER, hang: TEXT, ..Style::TEXT };
        let spans = lines::plain(title, Face::Regular);
        let ends = style.broken(&spans).last().map_or(0.0, |line| line.width);
        let mut strips = text::strips(&mut self.tags, link, &spans, &style);
        let (slot, baseline) = (DrawingMark::Slot(self.tags.slot(link)), style.height(1));
        let last = strips.len().saturating_sub(1);
        let indent = if last == 0 { 0.0 } else { style.hang };
        let dots = PdfShape::Dots([LEFT + indent + ends + 6.0, baseline], RIGHT - NUMBER + 6.0, LINE);
        let number = PageOf { heading, at: [RIGHT, baseline], size: TEXT, rgb: INK };
        for (at, strip) in strips.iter_mut().enumerate() {
            let area = Area { left: LEFT, top: -2.0, right: RIGHT, bottom: baseline + 2.5 };
            strip.drawings.push(Drawing { mark: slot, shape: PdfShape::Link(area, heading) });
            strip.keep = at < last;
        }
        strips[last].drawings.push(Drawing { mark: slot, shape: PdfShape::PageOf(number) });
        strips[last].drawings.push(Drawing { mark: DrawingMark::Artifact, shape: dots });
        strips.into_iter().for_each(|strip| self.flow.push(strip));
    }
}
