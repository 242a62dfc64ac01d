//! `summary.md`: the run on one screen, in Markdown, for the summary page of a CI job.
//!
//! GitHub takes 1 MiB a step and drops what is longer, so a part that does not fit is left out, and said to be.

use crate::markdown::{bullets, section, status, summary, without_result};
use crate::study::{banner, operations};
use crate::{Artifact, Error, Format, Run, damage, escape, expected, sentences};

/// The run in short.
#[derive(Debug)]
pub(crate) struct Summary;

/// Bytes of one summary, some less than a step may have: other programs of the step may write there, too.
const ROOM: usize = 900 << 10;

impl Format for Summary {
    fn name(&self) -> &'static str {
        "github-summary"
    }

    fn doc(&self) -> &'static str {
        "summary.md: the run on one screen, for the summary of a CI job"
    }

    fn by_default(&self) -> bool {
        false
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        Ok(vec![Artifact::new("summary.md", page(run, ROOM).into_bytes())])
    }
}

fn page(run: &Run, room: usize) -> String {
    let operations = operations(&run.cases, &run.benchmarks);
    let mut page = head(run);
    let parts = [
        ("What the data show", bullets(&sentences::about(run, &operations))),
        ("Cases that need attention", without_result(run)),
        ("Expected figures", expected::table(run)),
        ("Summary by configuration", summary(&operations)),
    ];
    let mut left_out = Vec::new();
    for (title, body) in parts {
        let part = section(title, &body);
        if page.len() + part.len() > room {
            left_out.push(title);
        } else {
            page += &part;
        }
    }
    if !left_out.is_empty() {
        page += &format!("\nToo long for this page, and in report.md: {}.\n", left_out.join(", "));
    }
    page
}

fn head(run: &Run) -> String {
    let title = if run.title.trim().is_empty() { "rankmark".to_owned() } else { escape::markdown(&run.title) };
    let mut text = format!("# {title}\n");
    for warning in damage::banners(run).into_iter().chain(banner(run.cases.iter())) {
        text += &format!("\n> **{}**\n", escape::markdown(&warning));
    }
    text += &format!("\n{}\n", status(run));
    let command = if run.command.is_empty() { String::new() } else { escape::code(&run.command) };
    let facts = [escape::markdown(&run.machine), escape::markdown(&run.started), command];
    let facts: Vec<String> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
    if !facts.is_empty() {
        text += &format!("\n{}\n", facts.join(" · "));
    }
    text
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
        let whole = page(&run, ROOM);
        assert!(whole.contains("## Cases that need attention") && whole.contains("no GPU"), "{whole}");
        let short = page(&run, head(&run).len() + 10);
        assert!(short.starts_with("# nightly\n") && short.contains("1 skipped"), "{short}");
        assert!(
            short.contains("Too long for this page, and in report.md: What the data show, Cases that need attention"),
            "{short}"
        );
        assert!(!short.contains("no GPU") && short.len() < whole.len(), "{short}");
    }
}
