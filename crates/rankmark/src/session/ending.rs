//! What asks a run to end before its plan is done, and what the record then says of it.

use std::collections::HashSet;

use record::{CaseLine, Interruption};
use terms::{Named as _, Status};

use super::Record;

/// Why the run is to end, in the words that worlds use.
pub(crate) fn interrupted() -> Option<String> {
    process::interrupt::why()
}

/// The exit code of a program that a signal ended, where one has come: 130 after Ctrl-C.
pub(crate) fn signal_code() -> Option<u8> {
    process::interrupt::requested().and_then(|signal| u8::try_from(128 + signal).ok())
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
        let made: HashSet<&str> = lines.iter().map(|line| line.id.as_str()).collect();
        let is_left = |line: &CaseLine| is_open(line) && !made.contains(line.id.as_str());
        let before = || self.resumed.flatten().filter(|_| self.before.iter().any(is_left));
        cut_short(lines).or_else(before)
    }
}
