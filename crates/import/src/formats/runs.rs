//! Runs of a program in one file, and which of them are trials of one case: those with the same command line and the same
//! lines above them. A heading, a setting or a loaded module between two runs makes them different.

use std::collections::VecDeque;

use terms::Error;

use super::nccl::plain;
use super::row_like::is_number;
use crate::{Results, Source};

/// Lines above a run that are compared.
const MOST_LINES: usize = 20;
/// Letters of each of these lines that are compared.
const MOST_LETTERS: usize = 300;

/// Where a run stands: its command line, and what other programs or people wrote above it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    command: String,
    above: Vec<String>,
    /// The headings of Markdown that it stands below, the outermost first.
    outline: Vec<String>,
}

impl Origin {
    /// Whether two runs are trials of one case. The first run of a file has the whole head of the file above it, so the lines
    /// of one may be the last ones of the other.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let above = self.above.is_empty() == other.above.is_empty()
            && (self.above.ends_with(&other.above) || other.above.ends_with(&self.above));
        self.command == other.command && above && self.outline == other.outline
    }

    /// What a person calls the run: the nearest line above it that is not the edge of a code block, without the marks of
    /// Markdown. A heading has those that it is below.
    pub(super) fn heading(&self) -> Option<String> {
        let bare = |line: &str| {
            let is_mark = |letter: char| letter.is_whitespace() || matches!(letter, '#' | '*' | '_' | '>' | '=');
            line.trim_matches(is_mark).to_owned()
        };
        let last = self.above.iter().rfind(|line| !line.contains(": ```") && !bare(line).is_empty());
        let outline = || self.outline.iter().map(|line| bare(line)).collect::<Vec<_>>().join(" / ");
        match last {
            Some(last) if self.outline.last() != Some(last) => Some(bare(last)),
            _ => Some(outline()).filter(|outline| !outline.is_empty()).or_else(|| self.above.last().cloned()),
        }
    }

    /// The command line of the run; empty where none stands above it.
    fn command(&self) -> &str {
        &self.command
    }
}

/// Lines of a file that no run wrote.
#[derive(Debug, Default)]
pub(super) struct Headings {
    /// Since the last run; the start of each line.
    new: VecDeque<String>,
    current: Vec<String>,
    /// The headings of Markdown that the next run stands below, with their levels.
    outline: Vec<(usize, String)>,
}

impl Headings {
    /// Keeps a line that no run wrote. Messages of libraries and launchers are left out: they differ between equal runs.
    pub(super) fn add(&mut self, number: usize, text: &str) {
        let text = text.trim();
        if is_message(text) {
            return;
        }
        if self.new.len() == MOST_LINES {
            self.new.pop_front();
        }
        let end = text.char_indices().nth(MOST_LETTERS).map_or(text.len(), |(end, _)| end);
        // Two blocks of a document hold two results, whatever stands between them.
        let level = text.bytes().take_while(|byte| *byte == b'#').count();
        if (1..=6).contains(&level) && text[level..].starts_with(' ') {
            self.outline.retain(|(above, _)| *above < level);
            self.outline.push((level, plain(&text[..end])));
        }
        let block = if text.starts_with("```") { format!("line {number}: ") } else { String::new() };
        self.new.push_back(block + &text[..end]);
    }

    /// Where the run that begins now stands. Without new lines it is where the run before it is.
    pub(super) fn begin(&mut self, command: &str) -> Origin {
        if !self.new.is_empty() {
            self.current = std::mem::take(&mut self.new).iter().map(|line| plain(line)).collect();
        }
        let outline = self.outline.iter().map(|(_, heading)| heading.clone()).collect();
        Origin { command: command.to_owned(), above: self.current.clone(), outline }
    }
}

fn is_message(text: &str) -> bool {
    let is_rule = || text.chars().all(|letter| matches!(letter, '-' | '=' | '*' | '_' | '#' | ' '));
    text.contains(" NCCL ")
        || text.starts_with("NCCL version ")
        || ["srun: ", "salloc: ", "slurmstepd: ", "WARNING: ", "Warning: "].iter().any(|first| text.starts_with(first))
        || text.split_ascii_whitespace().all(is_number)
        || is_rule()
}

/// The most results of one file: each makes a record.
pub(super) const MOST_RESULTS: usize = 100;

/// The results of a file, run by run.
#[derive(Default)]
pub(super) struct Runs {
    /// Lines that no run wrote.
    pub(super) headings: Headings,
    all: Vec<RunResults>,
    /// Whether runs that are not trials make records of their own, whatever they measured.
    are_apart: bool,
}

/// Results of one run.
struct RunResults {
    /// What must be equal for runs to be in one record: tool, version, method.
    key: String,
    origin: Origin,
    results: Results,
}

impl Runs {
    /// Runs that make records of their own unless they are trials of one case.
    pub(super) fn apart() -> Self {
        Self { are_apart: true, ..Self::default() }
    }

    /// Begins a run of this command line. Runs are in one record only if their keys are equal.
    pub(super) fn begin(&mut self, key: impl Into<String>, command: &str, mut results: Results) -> &mut Results {
        results.begin_run();
        let origin = self.headings.begin(command);
        self.all.push(RunResults { key: key.into(), origin, results });
        let last = self.all.len() - 1;
        &mut self.all[last].results
    }

    /// The results of the run that began last.
    pub(super) fn current(&mut self) -> Option<&mut Results> {
        self.all.last_mut().map(|run| &mut run.results)
    }

    /// As [`Runs::current`], and those of a run that nothing announced.
    pub(super) fn current_or(&mut self, make: impl FnOnce() -> Results) -> &mut Results {
        if self.all.is_empty() {
            self.begin("", "", make());
        }
        let last = self.all.len() - 1;
        &mut self.all[last].results
    }

    /// The results of each run, in the order of the file.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Results> {
        self.all.iter_mut().map(|run| &mut run.results)
    }

    /// Whether no run has begun.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The results of all runs.
    ///
    /// # Errors
    /// When they would make too many records.
    pub(super) fn finish(self, source: &Source) -> Result<Vec<Results>, Error> {
        let found = combine(self.all, self.are_apart);
        if found.len() > MOST_RESULTS {
            let what = format!("{} holds more than {MOST_RESULTS} runs that differ", source.name());
            return Err(Error::new(what).hint("split it by hosts and options"));
        }
        Ok(found)
    }
}

/// The results of all runs: those in which nothing was measured twice, or only by trials, are together.
fn combine(runs: Vec<RunResults>, are_apart: bool) -> Vec<Results> {
    let mut groups: Vec<(String, Vec<Origin>, Results)> = Vec::new();
    for run in runs {
        let fits = |(key, origins, results): &&mut (String, Vec<Origin>, Results)| {
            let are_trials = || origins.iter().all(|origin| origin.is_like(&run.origin));
            *key == run.key && (are_trials() || (!are_apart && !results.overlaps(&run.results)))
        };
        let are_enough = groups.len() > MOST_RESULTS;
        match groups.iter_mut().find(fits) {
            Some((_, origins, results)) => {
                if !origins.contains(&run.origin) {
                    origins.push(run.origin);
                }
                results.absorb_run(run.results);
            }
            None if are_enough => {}
            None => groups.push((run.key, vec![run.origin], run.results)),
        }
    }
    name(groups.into_iter().map(|(_, origins, results)| (origins.into_iter().next().unwrap_or_default(), results)))
}

/// Tells results of one file apart: by the command line above their first run, which is nearest to it, or, where others have the
/// same or none, by the heading above.
pub(super) fn name(all: impl Iterator<Item = (Origin, Results)>) -> Vec<Results> {
    let mut all: Vec<(Origin, Results)> = all.collect();
    let several = all.iter().filter(|(_, results)| !results.is_empty()).count() > 1;
    let commands: Vec<String> = all.iter().map(|(origin, _)| origin.command().to_owned()).collect();
    for (origin, results) in all.iter_mut().filter(|_| several) {
        let command = Some(origin.command().to_owned()).filter(|own| !own.is_empty());
        let is_own = |own: &String| commands.iter().filter(|other| *other == own).count() == 1;
        if let Some(heading) = command.filter(is_own).or_else(|| origin.heading()) {
            results.facts.insert("heading".to_owned(), heading);
        }
    }
    all.into_iter().map(|(_, results)| results).collect()
}

/// The results of one file, apart by tool and method.
#[derive(Default)]
pub(super) struct ToolGroups {
    all: Vec<(String, Results)>,
    current: usize,
}

impl ToolGroups {
    /// The results of this method; new ones at its first run.
    pub(super) fn for_method(&mut self, method: &str, make: impl FnOnce() -> Results) -> &mut Results {
        self.current = self.all.iter().position(|(known, _)| known == method).unwrap_or_else(|| {
            self.all.push((method.to_owned(), make()));
            self.all.len() - 1
        });
        &mut self.all[self.current].1
    }

    /// The results of all groups, in the order of the file.
    pub(super) fn finish(self) -> Vec<Results> {
        self.all.into_iter().map(|(_, results)| results).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(lines: &[&str]) -> Vec<Origin> {
        let mut headings = Headings::default();
        let mut found = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            match line.strip_prefix("$ ") {
                Some(command) => found.push(headings.begin(command)),
                None => headings.add(at, line),
            }
        }
        found
    }

    #[test]
    fn runs_are_trials_unless_something_stands_between() {
        let are_trials = |lines: &[&str]| {
            let found = origins(lines);
            found[0].is_like(&found[found.len() - 1])
        };
        for (lines, expected) in [
            (vec!["$ a", "$ a"], true),
            (vec!["$ a", "$ b"], false),
            (vec!["head of the job", "== run", "$ a", "== run", "$ a"], true),
            (vec!["$ a", "module load mpich", "$ a"], false),
            // What was loaded before the second run holds for the third.
            (vec!["$ a", "module load mpich", "$ a", "$ a"], false),
            (vec!["$ a", "srun: job 1 queued", "node-a:1:1 [0] NCCL INFO x", "", "1 2 3", "-----", "$ a"], true),
            (vec!["```", "$ a", "```", "```", "$ a", "```"], false),
        ] {
            assert_eq!(are_trials(&lines), expected, "{lines:?}");
        }
    }
}
