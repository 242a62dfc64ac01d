//! `summary.md`: the run on one screen, in Markdown, for the summary page of a CI job.
//!
//! GitHub takes 1 MiB a step and drops what is longer, so a part that does not fit is left out, and said to be.

use crate::document::{Block, Words, code, markdown, prose_list};
use crate::markup::Markdown;
use crate::page::{cases_without_result, section, status, summary, to_do, verdict_line, warnings};
use crate::study::{Operation, operations};
use crate::words::findings::{Finding, findings};
use crate::words::verdict::verdict;
use crate::{
    Artifact, Error, Format, Run, words::expected, words::interleaved, words::peers, words::price, words::sentences,
    words::traffic,
};

/// The run in short.
#[derive(Debug)]
pub(crate) struct Summary;

/// Bytes of one summary, some less than a step may have: other programs of the step may write there, too.
const ROOM: usize = 900 << 10;

impl Format for Summary {
    fn about(&self) -> (&'static str, &'static str) {
        ("github-summary", "summary.md: the run on one screen, for the summary of a CI job")
    }

    fn by_default(&self) -> bool {
        false
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        Ok(vec![Artifact::new("summary.md", page(run, ROOM).into_bytes())])
    }
}

fn page(run: &Run, room: usize) -> Markdown {
    let operations = operations(&run.cases, &run.benchmarks);
    let found = findings(run, &operations);
    let mut page = markdown::text(&head(run, &operations, &found));
    let parts = [
        ("Comparison", interleaved::blocks(run)),
        ("What to do", to_do(&found)),
        ("What the data show", prose_list(sentences::about(run, &operations))),
        ("Cases that need attention", cases_without_result(run)),
        ("Communication of a job", traffic::table(run)),
        ("Expected figures", expected::table(run)),
        ("Price", price::blocks(run)),
        ("Summary by configuration", summary(&operations)),
    ];
    let mut left_out = Vec::new();
    for (title, body) in parts {
        let mut blocks = Vec::new();
        section(title, body, &mut |block| blocks.push(block));
        let part = markdown::text(&blocks);
        if page.len() + part.len() > room {
            left_out.push(title);
        } else {
            blocks.iter().for_each(|block| markdown::push(&mut page, block));
        }
    }
    if !left_out.is_empty() {
        let words = format!("Too long for this page, and in report.md: {}.", left_out.join(", "));
        markdown::push(&mut page, &Block::Paragraph(words.into()));
    }
    page
}

fn head(run: &Run, operations: &[Operation], found: &[Finding]) -> Vec<Block> {
    let title = Words::from(run.title.as_str());
    let mut blocks = vec![Block::Heading(1, if title.is_empty() { "rankmark".into() } else { title })];
    blocks.extend(warnings(run));
    blocks.push(Block::Paragraph(verdict_line(&verdict(run, operations, found))));
    blocks.push(Block::Paragraph(status(run)));
    blocks.extend(peers::runtimes(run).iter().map(|line| Block::Paragraph(line.as_str().into())));
    let command = if run.command.is_empty() { String::new() } else { code(&run.command) };
    let facts = [run.machine.clone(), run.started.clone(), command];
    let facts: Vec<String> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
    blocks.extend((!facts.is_empty()).then(|| Block::Paragraph(facts.join(" · ").into())));
    blocks
}

#[cfg(test)]
mod tests {
    use record::CaseLine;
    use terms::Status;

    use super::*;

    #[test]
    fn what_does_not_fit_is_left_out_and_named() {
        let case: record::Case = serde_json::from_value(serde_json::json!({
            "id": "x", "benchmark": "collective", "parameters": {"op": "barrier"}, "settings": {}, "world": {},
            "caveats": [], "bytes_requested": null, "skip": null
        }))
        .unwrap();
        let cases = vec![CaseLine::unmeasured(&case, Status::Skipped, "no GPU")];
        let run = Run { title: "nightly".into(), cases, ..Run::default() };
        let whole = page(&run, ROOM).into_string();
        assert!(whole.contains("## Cases that need attention") && whole.contains("no GPU"), "{whole}");
        let short = page(&run, whole.find("## ").unwrap() + 10).into_string();
        assert!(short.starts_with("# nightly\n") && short.contains("1 skipped"), "{short}");
        assert!(
            short.contains(
                "Too long for this page, and in report.md: What to do, What the data show, Cases that need attention"
            ),
            "{short}"
        );
        assert!(!short.contains("no GPU") && short.len() < whole.len(), "{short}");
    }
}
