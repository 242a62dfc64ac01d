//! What a node's own trials show beyond their median: whether they are enough to call it slow.
//!
//! The rounds of a run are two looks: a node is slow only if it is in the earlier and in the later half of its trials. A spell
//! of other work that fills a part of the run is not the node's own speed.

use stats::{FEWEST_TRIALS, LEAST_DEFICIT, Level, Member, median};

/// What a node took for one kind of work, in all runs that tell what it is now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Evidence {
    pub(super) member: Member,
    /// Trials in different rounds.
    pub(super) rounds: usize,
    /// The median logarithm of the earlier and of the later half of the trials.
    pub(super) halves: Option<[f64; 2]>,
    /// Whether other programs or the like disturbed all of its runs.
    pub(super) disturbed: bool,
    /// When it came to be so, where earlier runs differ.
    pub(super) since: Option<String>,
}

/// The medians of both halves of these logarithms, in the order of time.
pub(super) fn halves(trials: &[f64]) -> Option<[f64; 2]> {
    (trials.len() > 1).then(|| {
        let (earlier, later) = trials.split_at(trials.len() / 2);
        [median(earlier), median(later)]
    })
}

impl Evidence {
    /// Why the trials do not suffice to call a node slow that takes so long; None where they do.
    pub(super) fn lacks(&self, level: &Level) -> Option<String> {
        let is_slow = |half: &f64| half - level.centre >= LEAST_DEFICIT.ln_1p();
        if self.disturbed {
            return Some("but other programs or the like disturbed it".to_owned());
        }
        if self.rounds < FEWEST_TRIALS {
            let trials = if self.rounds == 1 { "trial" } else { "trials" };
            return Some(format!("in {} {trials}; {FEWEST_TRIALS} in different rounds are needed", self.rounds));
        }
        if !self.halves.is_some_and(|halves| halves.iter().all(is_slow)) {
            return Some("but in one half of the rounds only".to_owned());
        }
        None
    }
}
