//! What passed, failed and was skipped, and the summary made of it.

use std::fmt::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::counts::Counts;
use crate::stream::{self, Show};

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Passed,
    Failed(String),
    Skipped(String),
}

struct Step {
    name: String,
    ending: Ending,
    time: Duration,
    /// For steps that run tests.
    tests: Option<Counts>,
}

/// The steps so far; a quiet one unless made by [`Ledger::shown`]. A step that fails stops none of the later ones.
#[derive(Default)]
pub(crate) struct Ledger {
    show: Show,
    steps: Vec<Step>,
    /// Parts that tests left out, as `NAME: reason`.
    left_out: Vec<String>,
}

impl Ledger {
    /// A ledger with steps that show their output.
    pub(crate) fn shown() -> Self {
        Self { show: Show::Terminal, ..Self::default() }
    }

    /// A step that passes or fails as a whole.
    pub(crate) fn check(&mut self, name: &str, command: &mut Command) {
        let show = self.show;
        self.step(name, || (outcome(command, show).1, None));
    }

    /// A step that runs tests; `count` reads their numbers from its output.
    pub(crate) fn tests(&mut self, name: &str, command: &mut Command, count: fn(&str) -> Option<Counts>) {
        let show = self.show;
        self.step(name, || {
            let (text, ending) = outcome(command, show);
            let counts = count(&text);
            // A runner that was content but said no number has tested nothing that we know of.
            let silent = ending == Ending::Passed && counts.is_none();
            (if silent { Ending::Failed("the runner counted no tests".into()) } else { ending }, counts)
        });
    }

    /// A step of this program's own.
    pub(crate) fn step(&mut self, name: &str, run: impl FnOnce() -> (Ending, Option<Counts>)) {
        if self.show == Show::Terminal {
            println!("\n==> {name}");
        }
        let begin = Instant::now();
        let (ending, tests) = run();
        self.steps.push(Step { name: name.to_owned(), ending, time: begin.elapsed(), tests });
    }

    /// A step that does not run here.
    pub(crate) fn skip(&mut self, name: &str, reason: impl Into<String>) {
        let ending = Ending::Skipped(reason.into());
        self.steps.push(Step { name: name.to_owned(), ending, time: Duration::ZERO, tests: None });
    }

    /// Adds what tests wrote to the skip log: a line each, `NAME: reason`; a part that several tests miss counts once.
    pub(crate) fn left_out(&mut self, log: &str) {
        for line in log.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let line = line.strip_prefix("skipped: ").unwrap_or(line);
            if !self.left_out.iter().any(|known| known == line) {
                self.left_out.push(line.to_owned());
            }
        }
    }

    /// Tests and checks together. A check counts as one; a run of tests that failed without a failed test (it did not
    /// compile, a process crashed) counts as one failure, because "0 failed" would be a lie.
    pub(crate) fn total(&self) -> Counts {
        let mut total = Counts { skipped: self.left_out.len() as u64, ..Counts::default() };
        for step in &self.steps {
            let tests = step.tests.unwrap_or_default();
            total += tests;
            match &step.ending {
                Ending::Passed if step.tests.is_none() => total.passed += 1,
                Ending::Passed => {}
                Ending::Failed(_) => total.failed += u64::from(tests.failed == 0),
                Ending::Skipped(_) => total.skipped += 1,
            }
        }
        total
    }

    /// Steps with times, what failed, what was skipped and why; the last line is `N passed, N failed, N skipped`.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::from("\nSteps\n");
        for step in &self.steps {
            let tests = step.tests.map(|tests| format!("   {} tests", tests.passed + tests.failed)).unwrap_or_default();
            let (word, why) = match &step.ending {
                Ending::Passed => ("passed", ""),
                Ending::Failed(why) => ("FAILED", why.as_str()),
                Ending::Skipped(_) => ("skipped", ""),
            };
            let separator = if why.is_empty() { "" } else { "   " };
            let time = step.time.as_secs_f64();
            let _ = writeln!(text, "  {:<12} {word:<7} {time:>7.1} s{tests}{separator}{why}", step.name);
        }
        let skipped = self.skipped();
        if !skipped.is_empty() {
            text.push_str("\nSkipped\n");
            for line in skipped {
                let _ = writeln!(text, "  {line}");
            }
        }
        let Counts { passed, failed, skipped } = self.total();
        let _ = write!(text, "\n{passed} passed, {failed} failed, {skipped} skipped");
        text
    }

    fn skipped(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for step in &self.steps {
            if let Ending::Skipped(reason) = &step.ending {
                lines.push(format!("{}: {reason}", step.name));
            }
            if let Some(Counts { skipped: ignored @ 1.., .. }) = step.tests {
                lines.push(format!("{}: {ignored} tests are marked as ignored", step.name));
            }
        }
        lines.extend(self.left_out.iter().cloned());
        lines
    }
}

/// Runs the command: its output, and whether it was content.
fn outcome(command: &mut Command, show: Show) -> (String, Ending) {
    let line: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
    if show == Show::Terminal {
        println!("    {} {}", command.get_program().to_string_lossy(), line.join(" "));
    }
    match stream::run(command, show) {
        Ok(output) if output.success => (output.text, Ending::Passed),
        Ok(output) => (output.text, Ending::Failed(output.ending)),
        Err(error) => (String::new(), Ending::Failed(format!("could not start: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::of_libtest;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn tests_and_checks_are_counted_and_the_last_line_says_so() {
        let mut ledger = Ledger::default();
        ledger.check("format", &mut shell("true"));
        ledger.tests("tests", &mut shell("echo 'test result: ok. 7 passed; 0 failed; 2 ignored'"), of_libtest);
        ledger.skip("deny", "not installed");
        ledger.left_out("skipped: terminal: no tmux\nterminal: no tmux\n\nfull disk: not root\n");
        let summary = ledger.summary();
        assert_eq!(summary.lines().last(), Some("8 passed, 0 failed, 5 skipped"), "{summary}");
        for line in ["deny: not installed", "terminal: no tmux", "full disk: not root", "tests: 2 tests are marked"] {
            assert_eq!(summary.matches(line).count(), 1, "{line} in {summary}");
        }
    }

    #[test]
    fn a_failing_step_stops_none_of_the_later_ones() {
        let mut ledger = Ledger::default();
        ledger.check("format", &mut shell("exit 3"));
        ledger.tests("tests", &mut shell("echo 'test result: FAILED. 1 passed; 2 failed'; exit 101"), of_libtest);
        ledger.check("docs", &mut shell("true"));
        assert_eq!(ledger.total(), Counts { passed: 2, failed: 3, skipped: 0 });
        assert!(ledger.summary().contains("exit status: 3"));
    }

    #[test]
    fn tests_that_did_not_compile_or_said_nothing_are_failures() {
        let mut ledger = Ledger::default();
        ledger.tests("broken", &mut shell("echo could not compile; exit 101"), of_libtest);
        ledger.tests("silent", &mut shell("true"), of_libtest);
        ledger.check("missing", &mut Command::new("no-such-program-of-rankmark"));
        assert_eq!(ledger.total(), Counts { passed: 0, failed: 3, skipped: 0 });
    }
}
