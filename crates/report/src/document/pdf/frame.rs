//! What stands around the text of a page: warnings above it; title, date and number below it.

use std::collections::BTreeMap;

use super::super::blocks::Block;
use super::fonts::Face;
use super::lines::{self, fitted};
use super::look::{FINE, FOOTER, HEADER, HEADER_INK, LEFT, QUIET, RIGHT, TOP, WIDTH};
use super::page::{Drawing, DrawingMark, Page, PageOf, PdfShape, width};
use super::text::apart;

/// From one line of a header to the next.
const PITCH: f64 = 10.0;
/// Lines of a header that its usual room holds, and the most that it has.
const USUAL: usize = 3;
const MOST: usize = 12;

/// The lines that every page begins with: the warnings before the first section. No page of simulated or imported data
/// goes around without its mark.
pub(super) fn header(blocks: &[Block]) -> Vec<String> {
    let head = blocks.iter().take_while(|block| !matches!(block, Block::Heading(2.., _)));
    let warnings = head.filter_map(|block| match block {
        Block::Warning(words) if !words.is_empty() => Some(words.plain()),
        _ => None,
    });
    let warnings = warnings.collect::<Vec<_>>().join("  ·  ");
    if warnings.is_empty() {
        return Vec::new();
    }
    let broken = lines::broken(&lines::plain(&warnings, Face::Bold), FINE, WIDTH, 0.0);
    let mut texts: Vec<String> =
        broken.into_iter().map(|line| line.pieces.into_iter().map(|piece| piece.text).collect()).collect();
    if texts.len() > MOST {
        let rest = texts.split_off(MOST - 1).concat();
        texts.push(fitted(&rest, Face::Bold, FINE, WIDTH));
    }
    texts
}

/// Where text begins below such a header.
pub(super) fn top(header: &[String]) -> f64 {
    TOP + header.len().saturating_sub(USUAL) as f64 * PITCH
}

/// Adds headers and footers, and numbers where the pages of headings belong.
pub(super) fn add(pages: &mut [Page], header: &[String], title: &str, started: &str) {
    resolve(pages);
    let number = pages.len();
    let name = if started.is_empty() { title.to_owned() } else { format!("{title}, {started}") };
    let room = WIDTH - 2.0 * width(&format!("{number} / {number}  "), Face::Regular) * FINE;
    let name = fitted(&name, Face::Regular, FINE, room);
    let last = HEADER.max(HEADER + top(header) - TOP);
    let lines = header.iter().rev().enumerate().rev();
    let lines: Vec<(f64, &String)> = lines.map(|(up, line)| (last - up as f64 * PITCH, line)).collect();
    for (at, page) in pages.iter_mut().enumerate() {
        let above = lines
            .iter()
            .flat_map(|(y, line)| apart(DrawingMark::Header, line, Face::Bold, FINE, HEADER_INK, [LEFT, *y]));
        page.splice(0..0, above);
        page.extend(apart(DrawingMark::Footer, &name, Face::Regular, FINE, QUIET, [LEFT, FOOTER]));
        let count = format!("{} / {number}", at + 1);
        let left = RIGHT - width(&count, Face::Regular) * FINE;
        page.extend(apart(DrawingMark::Footer, &count, Face::Regular, FINE, QUIET, [left, FOOTER]));
    }
}

/// Puts the number of its page in the place of each reference to a heading.
fn resolve(pages: &mut [Page]) {
    let mut found = BTreeMap::new();
    for (at, page) in pages.iter().enumerate() {
        found.extend(page.iter().filter_map(|drawing| match drawing.shape {
            PdfShape::Heading(heading, _) => Some((heading, at + 1)),
            _ => None,
        }));
    }
    for drawing in pages.iter_mut().flatten() {
        let PdfShape::PageOf(PageOf { heading, at, size, rgb }) = &drawing.shape else { continue };
        let number = found.get(heading).map_or(String::new(), usize::to_string);
        let left = at[0] - width(&number, Face::Regular) * size;
        let texts = apart(drawing.mark, &number, Face::Regular, *size, *rgb, [left, at[1]]);
        if let Some(Drawing { shape, .. }) = texts.into_iter().next() {
            drawing.shape = shape;
        }
    }
}
