//! Ranks that are lost for good: a run of a launcher ends with them where the others can go on in a run of their own.

use measure::{Verdict, VerdictKind};

use super::RunState;

/// What cases say that did not run because of it.
const LOST: &str = "a node was lost before it";

impl RunState<'_> {
    /// Ends the run where ranks were lost that the others can go on without.
    pub(super) fn note_loss(&mut self, verdict: &Verdict) {
        let is_loss = matches!(verdict.kind, VerdictKind::Died | VerdictKind::Hung | VerdictKind::NotStarted);
        if is_loss && self.can_go_on_without(verdict) == Some(true) {
            self.driver.end_because(LOST);
        }
    }

    /// Whether the time was too short for most of these ranks, so that none of them hangs: of a run that could go on without one that
    /// does. A single rank that is late hangs, also on the host of rank 0, without which no run goes on.
    pub(super) fn is_late_for_all(&self, verdict: &Verdict, ranks: u32) -> bool {
        is_late_for_all(verdict.ranks.len(), ranks, self.can_go_on_without(verdict))
    }

    /// Whether the others can go on without the ranks of a verdict; None where a run has no others.
    fn can_go_on_without(&self, verdict: &Verdict) -> Option<bool> {
        let ranks: Vec<u32> = verdict.ranks.iter().map(|rank| rank.0).collect();
        self.setup.ends_without.map(|can_go_on_without| can_go_on_without(&ranks))
    }
}

/// Whether so many of these ranks are late for want of time. `can_go_on`: whether the others can go on without the late ones.
fn is_late_for_all(late: usize, ranks: u32, can_go_on: Option<bool>) -> bool {
    can_go_on == Some(false) && (late == 0 || 2 * late > ranks as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_host_of_rank_0_hangs_and_lateness_of_most_is_want_of_time() {
        for (late, can_go_on, is_late) in [
            // Rank 0 alone, and a host of rank 0 with half of the ranks: no run goes on without them, and they hang.
            (1, Some(false), false),
            (4, Some(false), false),
            // Most ranks, all, or nobody knows which.
            (5, Some(false), true),
            (8, Some(false), true),
            (0, Some(false), true),
            // The others go on without it.
            (1, Some(true), false),
            // A run that loses nobody.
            (8, None, false),
        ] {
            assert_eq!(is_late_for_all(late, 8, can_go_on), is_late, "{late} of 8, {can_go_on:?}");
        }
    }
}
