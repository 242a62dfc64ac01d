//! `report.md`: summary, pictures, tables, caveats and method, fit for a pull request.

use crate::document::markdown;
use crate::page::page;
use crate::{Artifact, Error, Format, Run};

/// The Markdown report.
#[derive(Debug)]
pub(crate) struct Markdown;

impl Format for Markdown {
    fn about(&self) -> (&'static str, &'static str) {
        ("markdown", "report.md: summary, pictures (see `charts`), tables, caveats, method")
    }

    fn refers_to(&self) -> &'static [&'static str] {
        &["svg", "png"]
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        Ok(vec![Artifact::new("report.md", text(run).into_bytes())])
    }
}

pub(crate) fn text(run: &Run) -> crate::markup::Markdown {
    let mut text = crate::markup::Markdown::new();
    page(run, &mut |block| markdown::push(&mut text, &block));
    text
}
