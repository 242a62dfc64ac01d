//! Lines of the record that are damaged: the banner that says how many, and the list that names them.

use crate::Run;
use crate::escape::markdown as escaped;
use crate::number::{count, thousands};

/// Damaged lines that are named; more are counted.
const NAMED: usize = 50;

/// One line that stands at the top of every page; None where the record is whole.
pub(crate) fn banner(run: &Run) -> Option<String> {
    let number = run.damaged.len();
    let what = if number == 1 { "is damaged and is left out" } else { "are damaged and are left out" };
    (number > 0).then(|| {
        format!("DAMAGED RECORD: {} of it {what}, so cases or samples may be missing", count(number, "line", "lines"))
    })
}

/// A bullet for each, as Markdown.
pub(crate) fn list(run: &Run) -> String {
    let mut bullets: Vec<String> =
        run.damaged.iter().take(NAMED).map(|line| format!("* {}", escaped(&line.to_string()))).collect();
    if run.damaged.len() > NAMED {
        bullets.push(format!("* and {} more", thousands((run.damaged.len() - NAMED) as i64)));
    }
    bullets.join("\n")
}
