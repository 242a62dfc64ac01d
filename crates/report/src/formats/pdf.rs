//! `report.pdf`: the blocks of the Markdown report on pages, with its charts as vector graphics.

use crate::document::pdf::{About, set};
use crate::page::page;
use crate::{Artifact, Error, Format, Run, error};

/// The PDF report.
#[derive(Debug)]
pub(crate) struct Pdf;

impl Format for Pdf {
    fn about(&self) -> (&'static str, &'static str) {
        ("pdf", "report.pdf: the Markdown report with its charts, to print")
    }

    fn by_default(&self) -> bool {
        false
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        let mut blocks = Vec::new();
        page(run, &mut |block| blocks.push(block));
        let about = About { title: run.title.trim(), program: &run.program, started: &run.started };
        let pdf = set(&about, blocks).map_err(error::not_set)?;
        Ok(vec![Artifact { remark: pdf.remark, ..Artifact::new("report.pdf", pdf.content) }])
    }
}
