//! What earlier equal runs add to the lines of this one.

use measure::learn_from_runs;
use record::CaseLine;

use super::RunState;

impl RunState<'_> {
    /// Asks earlier runs what an equal run shows, where the trials of this one do not tell it.
    pub(super) fn learn(&self, lines: &mut [CaseLine]) {
        let is_open =
            |line: &CaseLine| !line.simulated && line.time_s.as_ref().is_some_and(|time| time.ci95_again.is_none());
        let open: Vec<usize> = (0..lines.len()).filter(|at| is_open(&lines[*at])).collect();
        if open.is_empty() {
            return;
        }
        let asked: Vec<&CaseLine> = open.iter().map(|at| &lines[*at]).collect();
        let earlier = (self.setup.equal_runs)(self.driver.setup.file, &asked);
        for (at, medians) in open.into_iter().zip(earlier) {
            learn_from_runs(&mut lines[at], &medians);
        }
    }
}
