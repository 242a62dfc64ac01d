//! Whether barriers keep their promise: no rank leaves one before the last has entered it.
//!
//! A barrier leaves nothing in memory that could be compared, so entries and exits are, on one clock. Ranks come late in
//! rotation while these are recorded ([`STAGGER_NS`]): a rank that does not wait for another then leaves before that one enters.

use record::WrongElement;

/// How late one rank comes, each in its turn: far above what an entry and an exit may be apart by chance.
pub(crate) const STAGGER_NS: u64 = 20_000;
/// Early exits that are reported.
const MOST_REPORTED: usize = 16;

/// What was seen of barriers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exits {
    /// Exits that could be judged, over all ranks.
    pub compared: u64,
    /// Exits that were before the last entry.
    pub early: u64,
    /// The first of them.
    pub first: Vec<Early>,
    /// Exits that would show of further ranks that all wait for them: too many ranks came late in none of the barriers.
    pub left_out: u64,
}

/// A rank that left a barrier too early.
#[derive(Clone, Debug, PartialEq)]
pub struct Early {
    /// Which rank.
    pub rank: u32,
    /// Which barrier of those that were recorded, from 0.
    pub barrier: u64,
    /// The last rank that entered it.
    pub last: u32,
    /// How much later that was, in ns.
    pub by_ns: f64,
}

/// Judges the barriers of each group of ranks by itself. `groups[rank]` is its group; ranks beyond it are in group 0.
pub(crate) fn judge_groups(arrivals: &[Vec<f64>], groups: &[u32], apart_ns: f64) -> Exits {
    let group = |rank: usize| groups.get(rank).copied().unwrap_or(0);
    let mut known: Vec<u32> = (0..arrivals.len()).map(group).collect();
    known.sort_unstable();
    known.dedup();
    let judged = known.into_iter().map(|number| {
        let members: Vec<usize> = (0..arrivals.len()).filter(|rank| group(*rank) == number).collect();
        let own: Vec<Vec<f64>> = members.iter().map(|rank| arrivals[*rank].clone()).collect();
        let mut exits = judge(&own, apart_ns);
        for early in &mut exits.first {
            [early.rank, early.last] = [early.rank, early.last].map(|place| members[place as usize] as u32);
        }
        exits
    });
    together(judged.collect::<Vec<Exits>>().iter())
}

/// Judges barriers by `arrivals[rank] = [begin, end, begin, end, ...]` in ns of one clock. `apart_ns`: the largest error of
/// a time between two ranks. An exit that lies within this of the last entry could be either, and is not compared.
/// Nothing is compared where ranks recorded different numbers of barriers.
fn judge(arrivals: &[Vec<f64>], apart_ns: f64) -> Exits {
    let barriers = arrivals.first().map_or(0, |own| own.len() / 2);
    let mut exits = Exits::default();
    if arrivals.len() < 2 || arrivals.iter().any(|rank| rank.len() != 2 * barriers) {
        return exits;
    }
    for barrier in 0..barriers {
        let begins = arrivals.iter().map(|rank| rank[2 * barrier]).enumerate();
        let Some((last, entered)) = begins.max_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
        for (rank, times) in arrivals.iter().enumerate() {
            let by_ns = entered - times[2 * barrier + 1];
            // Times on one clock leave no caveat: an exit at the very instant of the last entry is right.
            if apart_ns > 0.0 && by_ns.abs() <= apart_ns {
                continue;
            }
            exits.compared += 1;
            if by_ns > 0.0 {
                exits.early += 1;
                if exits.first.len() < MOST_REPORTED {
                    let (rank, barrier, last) = (rank as u32, barrier as u64, last as u32);
                    exits.first.push(Early { rank, barrier, last, by_ns });
                }
            }
        }
    }
    exits
}

/// Judgements of several launches together.
pub(crate) fn together<'e>(all: impl Iterator<Item = &'e Exits>) -> Exits {
    let mut sum = Exits::default();
    for exits in all {
        sum.compared += exits.compared;
        sum.early += exits.early;
        sum.left_out = sum.left_out.max(exits.left_out);
        sum.first.extend(exits.first.iter().take(MOST_REPORTED - sum.first.len()).cloned());
    }
    sum
}

impl Exits {
    /// What stands in the case line as `wrong`: None where nothing could be compared.
    pub(crate) fn wrong(&self) -> Option<u64> {
        (self.compared > 0).then_some(self.early)
    }

    /// Why the case has failed, if it has.
    pub(crate) fn reason(&self) -> Option<String> {
        let Early { rank, barrier, last, by_ns } = self.first.first()?;
        let us = by_ns / 1e3;
        let exits = if self.early == 1 { "exit" } else { "exits" };
        Some(format!(
            "{} early {exits} of {} compared: rank {rank} left barrier {barrier} {us:.1} us before rank {last} entered it",
            self.early, self.compared
        ))
    }

    /// The early exits in the form of the record: the index is that of the barrier.
    pub(crate) fn elements(&self) -> Vec<WrongElement> {
        let element = |early: &Early| WrongElement {
            rank: early.rank,
            index: early.barrier,
            expected: format!("an exit after rank {} enters", early.last),
            got: format!("an exit {:.1} us before", early.by_ns / 1e3),
        };
        self.first.iter().map(element).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two barriers of three ranks: rank 2 enters each last, at 1,000 and 3,000.
    fn kept() -> Vec<Vec<f64>> {
        vec![
            vec![0.0, 1_100.0, 2_000.0, 3_100.0],
            vec![10.0, 1_000.0, 2_010.0, 3_200.0],
            vec![1_000.0, 1_050.0, 3_000.0, 3_050.0],
        ]
    }

    #[test]
    fn groups_wait_for_their_own_ranks_only() {
        // Two groups of two: the second enters when the first has left.
        let arrivals = [vec![0.0, 10.0], vec![100.0, 110.0], vec![5.0, 10.0], vec![105.0, 110.0]];
        let exits = judge_groups(&arrivals, &[0, 1, 0, 1], 0.0);
        assert_eq!((exits.compared, exits.early), (4, 0));
        assert_eq!(judge_groups(&arrivals, &[], 0.0).early, 2, "as one group they would not have waited");
        let early = [vec![0.0, 10.0], vec![0.0, 10.0], vec![0.0, 10.0], vec![50.0, 60.0]];
        let found = judge_groups(&early, &[0, 1, 0, 1], 0.0);
        assert_eq!(found.first, [Early { rank: 1, barrier: 0, last: 3, by_ns: 40.0 }]);
        // A group that does nothing has no barriers.
        let alone = [vec![0.0, 10.0], Vec::new(), vec![0.0, 10.0], Vec::new()];
        assert_eq!(judge_groups(&alone, &[0, 1, 0, 1], 0.0).compared, 2);
    }

    #[test]
    fn barriers_that_keep_their_promise_have_no_early_exit() {
        let exits = judge(&kept(), 0.0);
        assert_eq!((exits.wrong(), exits.compared, exits.reason()), (Some(0), 6, None));
    }

    #[test]
    fn an_early_exit_is_named_with_its_rank_and_barrier() {
        let mut arrivals = kept();
        arrivals[1][3] = 2_500.0;
        let exits = judge(&arrivals, 0.0);
        assert_eq!((exits.wrong(), exits.compared), (Some(1), 6));
        assert_eq!(exits.first, [Early { rank: 1, barrier: 1, last: 2, by_ns: 500.0 }]);
        let reason = exits.reason().unwrap();
        assert_eq!(reason, "1 early exit of 6 compared: rank 1 left barrier 1 0.5 us before rank 2 entered it");
        assert_eq!((exits.elements()[0].rank, exits.elements()[0].index), (1, 1));
    }

    #[test]
    fn what_clocks_cannot_tell_is_not_compared() {
        let mut arrivals = kept();
        arrivals[1][3] = 2_500.0;
        // Every exit but the one that is 200 ns late lies within 150 ns of the entry before it, or is 500 ns early.
        let exits = judge(&arrivals, 150.0);
        assert_eq!((exits.compared, exits.early), (1, 1));
        assert_eq!(judge(&arrivals, 600.0), Exits::default());
        assert_eq!(judge(&arrivals, 600.0).wrong(), None);
    }

    #[test]
    fn nothing_recorded_is_nothing_compared() {
        assert_eq!(judge(&[], 0.0).wrong(), None);
        assert_eq!(judge(&[vec![0.0, 1.0]], 0.0).wrong(), None);
        assert_eq!(judge(&[vec![0.0, 1.0], vec![0.0, 1.0, 2.0, 3.0]], 0.0).wrong(), None);
    }

    #[test]
    fn launches_add_up() {
        let mut arrivals = kept();
        arrivals[0][1] = 900.0;
        let (right, wrong) = (judge(&kept(), 0.0), judge(&arrivals, 0.0));
        let both = together([&right, &wrong].into_iter());
        assert_eq!((both.compared, both.early, both.first.len()), (12, 1, 1));
    }
}
