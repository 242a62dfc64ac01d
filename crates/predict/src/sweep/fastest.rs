//! Candidates that were simulated, by their times, and which of the fastest fit into memory.

use super::candidates::Candidate;

/// A candidate that was simulated.
struct SimulatedCandidate {
    seconds: f64,
    candidate: Candidate,
    /// Whether it is known to fit.
    fits: bool,
}

/// Candidates that were simulated, the fastest first.
#[derive(Default)]
pub(super) struct Fastest(Vec<SimulatedCandidate>);

impl Fastest {
    pub(super) fn add(&mut self, seconds: f64, candidate: Candidate) {
        let at = self.0.partition_point(|known| known.seconds <= seconds);
        self.0.insert(at, SimulatedCandidate { seconds, candidate, fits: false });
    }

    /// Whether so many that fit are faster than this bound, so that nothing which is still open can be among them.
    ///
    /// Whether one fits takes longer to say than its time. It is asked once, and only of those that nothing open can come before; those
    /// that do not fit are dropped.
    pub(super) fn has_best(&mut self, top: usize, bound: f64, mut fits: impl FnMut(&Candidate) -> bool) -> bool {
        let mut at = 0;
        while at < top {
            let Some(next) = self.0.get_mut(at).filter(|next| next.seconds < bound) else { return false };
            next.fits = next.fits || fits(&next.candidate);
            if next.fits {
                at += 1;
            } else {
                self.0.remove(at);
            }
        }
        true
    }

    /// The fastest of all that fit.
    pub(super) fn into_best(mut self, top: usize, fits: impl FnMut(&Candidate) -> bool) -> Vec<Candidate> {
        self.has_best(top, f64::INFINITY, fits);
        self.0.into_iter().filter(|known| known.fits).take(top).map(|known| known.candidate).collect()
    }
}

#[cfg(test)]
mod tests {
    use parallel::{Mesh, Schedule};

    use super::*;

    /// Candidates that differ by their micro-batches.
    fn candidate(micros: usize) -> Candidate {
        Candidate {
            mesh: Mesh::SERIAL,
            schedule: Schedule::OneForwardOneBackward,
            chunks: 1,
            micro_batch: 1,
            micros,
            recompute: false,
            sharded: 0,
            sequence_parallel: false,
        }
    }

    #[test]
    fn the_search_goes_on_while_the_fastest_do_not_fit() {
        let mut found = Fastest::default();
        for (seconds, micros) in [(2.0, 2), (1.0, 1), (3.0, 3), (5.0, 5)] {
            found.add(seconds, candidate(micros));
        }
        let mut asked = Vec::new();
        let mut is_odd = |candidate: &Candidate| {
            asked.push(candidate.micros);
            candidate.micros % 2 == 1
        };
        // One is faster than the bound, of two that are wanted: the second does not fit, and of the third nothing is known yet.
        assert!(found.has_best(1, 2.5, &mut is_odd));
        assert!(!found.has_best(2, 2.5, &mut is_odd));
        assert!(found.has_best(2, 3.5, &mut is_odd));
        found.add(2.5, candidate(7));
        let best: Vec<usize> = found.into_best(4, &mut is_odd).iter().map(|candidate| candidate.micros).collect();
        assert_eq!((best, asked), (vec![1, 7, 3, 5], vec![1, 2, 3, 7, 5]));
    }

    #[test]
    fn where_nothing_fits_nothing_is_best() {
        let mut found = Fastest::default();
        found.add(1.0, candidate(1));
        assert!(!found.has_best(1, 2.0, |_| false));
        assert!(found.into_best(1, |_| true).is_empty());
    }
}
