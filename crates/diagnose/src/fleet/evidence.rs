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
        let [earlier, later] = self.halves.map_or([false; 2], |halves| halves.each_ref().map(is_slow));
        match (earlier, later) {
            (true, true) => None,
            (false, true) => Some("but in the later half of the rounds only: it may throttle when warm".to_owned()),
            (true, false) => Some("but in the earlier half of the rounds only".to_owned()),
            (false, false) => Some("but in neither half of the rounds".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_becomes_slow_may_throttle() {
        let level = Level { centre: 0.0, scatter: 0.01, members: 15, own_variance: 1e-4 };
        let lacks = |halves: [f64; 2]| {
            let member = Member { value: 0.2, variance: 1e-4, degrees: 11.0 };
            Evidence { member, rounds: 12, halves: Some(halves), disturbed: false, since: None }.lacks(&level)
        };
        assert_eq!(lacks([0.2, 0.2]), None);
        assert!(lacks([0.0, 0.3]).unwrap().contains("later half of the rounds only: it may throttle"));
        assert!(lacks([0.3, 0.0]).unwrap().contains("earlier half"));
    }
}
