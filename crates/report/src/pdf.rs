//! `report.pdf`: the Markdown report set as a document, with the charts as vector graphics.
//!
//! The setting is the work of `rankmark-pdf`, a program of its own: typst takes about 800 s of processor time
//! to build. This module makes the document that it reads: the very text of `report.md`, and the very charts of the
//! SVG format, so the three cannot differ.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::chart::Draw as _;
use crate::study::operations;
use crate::write::Out;
use crate::{Artifact, Error, Format, Run, charts, explained, markdown};

/// The PDF report.
#[derive(Debug)]
pub(crate) struct Pdf;

/// The version of the form in which `rankmark-pdf` takes documents. It refuses others.
const VERSION: u32 = 1;

/// What `rankmark-pdf` reads.
#[derive(Serialize)]
struct Document<'r> {
    rankmark_document: u32,
    title: &'r str,
    /// The program that wrote the record.
    program: &'r str,
    /// When the run started (RFC 3339): the date of the document.
    started: &'r str,
    markdown: String,
    /// SVG by the path that the Markdown links to.
    charts: BTreeMap<String, String>,
}

impl Format for Pdf {
    fn name(&self) -> &'static str {
        "pdf"
    }

    fn doc(&self) -> &'static str {
        "report.pdf: the Markdown report with its charts, to print; needs `rankmark-pdf`"
    }

    fn by_default(&self) -> bool {
        false
    }

    /// The document before it is set.
    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        Ok(vec![Artifact::new("report.pdf.json", document(run))])
    }

    fn write(&self, run: &Run, out: &mut Out<'_>) -> Result<(), Error> {
        let content = out.typeset(&document(run))?;
        out.put(&Artifact::new("report.pdf", content))
    }
}

fn document(run: &Run) -> Vec<u8> {
    let operations = operations(&run.cases, &run.benchmarks);
    let charts = operations.iter().flat_map(|operation| charts::of_operation(run, operation));
    let charts = explained::charts_of(run).into_iter().chain(charts);
    let charts = charts.map(|chart| (format!("charts/{}.svg", chart.stem), chart.spec.svg())).collect();
    let (title, program, started) = (run.title.trim(), &run.program, &run.started);
    let title = if title.is_empty() { "Report" } else { title };
    let document =
        Document { rankmark_document: VERSION, title, program, started, markdown: markdown::text(run), charts };
    let mut text = serde_json::to_vec(&document).expect("text and numbers with text keys have a JSON form");
    text.push(b'\n');
    text
}
