//! What asks a run to end before its plan is done, and what the record then says of it.

use std::collections::HashSet;

use record::{CaseLine, Interruption};
use terms::{Named as _, Status};

use super::Record;

/// Why the run is to end, in the words that worlds use.
pub(crate) fn interrupted() -> Option<String> {
    process::interrupt::why()
}

/// What cut a run with these lines short: what asked it to end, if it left a case without all of its trials.
pub(crate) fn cut_short<'l>(lines: impl IntoIterator<Item = &'l CaseLine>) -> Option<Interruption> {
    if !lines.into_iter().any(is_open) {
        return None;
    }
    match process::interrupt::requested() {
        Some(signal) => Interruption::from_name(&process::signal_name(signal)),
        None => process::interrupt::stopped().map(|_| Interruption::Launcher),
    }
}

fn is_open(line: &CaseLine) -> bool {
    line.status == Status::NotRun || line.lacks_trials()
}

impl Record {
    /// What cut the record short, once this run has made these lines. An earlier run counts where cases that it left did not run
    /// again.
    pub(super) fn cut_short(&self, lines: &[CaseLine]) -> Option<Interruption> {
        cut_short(lines).or_else(|| self.resumed.flatten().filter(|_| leaves_open(&self.before, lines)))
    }
}

/// Whether a case of the lines before is open, and is not among those that were made since.
fn leaves_open(before: &[CaseLine], made: &[CaseLine]) -> bool {
    let made: HashSet<&str> = made.iter().map(|line| line.id.as_str()).collect();
    before.iter().any(|line| is_open(line) && !made.contains(line.id.as_str()))
}

#[cfg(test)]
mod tests {
    use record::Caveat;

    use super::*;

    #[test]
    fn what_an_earlier_run_left_open_stays_its_own() {
        let case = record::plan::from_defaults(benchmarks::abouts()[0]).unwrap().cases.remove(0);
        let line = |id: &str, status, caveats: &[Caveat]| {
            let line = CaseLine::unmeasured(&case, status, "");
            CaseLine { id: id.to_owned(), caveats: caveats.to_vec(), ..line }
        };
        let before = [line("a", Status::Ok, &[]), line("b", Status::NotRun, &[])];
        assert!(leaves_open(&before, &[]) && leaves_open(&before, &[line("a", Status::Ok, &[])]));
        // The budget of the later run is why it has none, and not the signal of the earlier one.
        assert!(!leaves_open(&before, &[line("b", Status::NotRun, &[])]));
        assert!(leaves_open(&[line("a", Status::Ok, &[Caveat::Preliminary])], &[]), "it lacks trials");
        assert!(!leaves_open(&before[..1], &[]));
        assert_eq!(cut_short(&before), None, "nothing asked this process to end");
    }
}
