//! A document as PDF: tagged, with a date of its record, the same bytes for the same document.

use serde::Serialize;
use typst::diag::SourceDiagnostic;
use typst::foundations::{Datetime, Smart};
use typst_layout::PagedDocument;
use typst_pdf::{PdfOptions, PdfStandard, PdfStandards, Timestamp};

use crate::blocks::{self, Block};
use crate::document::Document;
use crate::world::Page;

/// A PDF.
pub struct Pdf {
    pub content: Vec<u8>,
    /// What it is not, and why.
    pub remark: Option<String>,
}

/// What the template reads.
#[derive(Serialize)]
struct Data<'d> {
    title: &'d str,
    program: &'d str,
    started: &'d str,
    /// Warnings of the first page, which every page repeats.
    banners: Vec<String>,
    blocks: Vec<Block>,
    charts: &'d std::collections::BTreeMap<String, String>,
}

/// Sets the document.
///
/// # Errors
/// When it cannot be set: a chart is not an SVG, for one.
pub fn pdf(document: &Document) -> Result<Pdf, String> {
    let blocks = blocks::read(&document.markdown, &document.charts)?;
    let Document { title, program, started, charts, .. } = document;
    let data = Data { title, program, started, banners: banners(&blocks), blocks, charts };
    let data = serde_json::to_vec(&data).map_err(|error| error.to_string())?;
    let set = typst::compile::<PagedDocument>(&Page::new(data)).output;
    let set = set.map_err(|errors| format!("the document cannot be set: {}", told(&errors)))?;
    let accessible = PdfStandards::new(&[PdfStandard::Ua_1]).map_err(|error| error.message().to_string())?;
    match typst_pdf::pdf(&set, &options(document, accessible)) {
        Ok(content) => Ok(Pdf { content, remark: None }),
        // Tagged all the same. Text in a script that no font has is the usual reason.
        Err(errors) => {
            let remark = Some(format!("the PDF is tagged, and does not claim PDF/UA-1: {}", told(&errors)));
            let plain = typst_pdf::pdf(&set, &options(document, PdfStandards::default()));
            let content = plain.map_err(|errors| format!("the PDF cannot be written: {}", told(&errors)))?;
            Ok(Pdf { content, remark })
        }
    }
}

fn options(document: &Document, standards: PdfStandards) -> PdfOptions {
    PdfOptions {
        ident: Smart::Custom(format!("{} {}", document.title, document.started)),
        creator: Smart::Custom(Some(document.program.clone())),
        timestamp: timestamp(&document.started),
        standards,
        ..PdfOptions::default()
    }
}

/// The first error, and how many more there are.
fn told(errors: &[SourceDiagnostic]) -> String {
    let first = errors.first().map_or("no reason was given", |error| error.message.as_str());
    match errors.len() {
        0 | 1 => first.to_owned(),
        number => format!("{first} (and {} more)", number - 1),
    }
}

/// Quotations before the first section.
fn banners(blocks: &[Block]) -> Vec<String> {
    let head = blocks.iter().take_while(|block| !matches!(block, Block::Heading { level: 2.., .. }));
    let text = |block: &Block| match block {
        Block::Quote { body } => body
            .iter()
            .map(|block| match block {
                Block::Paragraph { body } => blocks::text_of(body),
                _ => String::new(),
            })
            .collect(),
        _ => String::new(),
    };
    head.map(text).filter(|text| !text.is_empty()).collect()
}

/// `2026-11-20T10:15:00Z`, also with an offset.
fn timestamp(text: &str) -> Option<Timestamp> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u16>().ok();
    let small = |from: usize| number(from, from + 2).and_then(|number| u8::try_from(number).ok());
    let datetime =
        Datetime::from_ymd_hms(number(0, 4)?.into(), small(5)?, small(8)?, small(11)?, small(14)?, small(17)?)?;
    match text.get(19..)? {
        "Z" => Some(Timestamp::new_utc(datetime)),
        offset => {
            let minutes = i32::from(small(20)?) * 60 + i32::from(small(23)?);
            Timestamp::new_local(datetime, if offset.starts_with('-') { -minutes } else { minutes })
        }
    }
}
