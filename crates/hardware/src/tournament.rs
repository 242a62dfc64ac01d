//! Which pairs of ranks exchange messages at once: every pair once, and no rank twice in a round.

/// A round: pairs of ranks, the lower first.
pub(super) type Round = Vec<[u32; 2]>;

/// The rounds of all pairs by the circle method (Kirkman, 1847): ranks of a pair add up to the same number modulo one
/// less than their number. With an odd number of ranks, one rank has no partner in each round.
pub(super) fn rounds(ranks: u32) -> Vec<Round> {
    let even = ranks.next_multiple_of(2);
    if ranks < 2 {
        return Vec::new();
    }
    let others = even - 1;
    let partner = |round: u32, rank: u32| {
        if rank == others {
            // The one that is its own partner.
            return (0..others).find(|other| 2 * other % others == round).unwrap_or(0);
        }
        let other = (round + others - rank) % others;
        if other == rank { others } else { other }
    };
    let pairs = |round| {
        let each = (0..ranks).map(move |rank| [rank, partner(round, rank)]);
        each.filter(|[low, high]| low < high && *high < ranks).collect()
    };
    (0..others).map(pairs).collect()
}

/// The same, one pair at a time: where pairs would share cores, each would measure the others, too.
pub(super) fn one_at_a_time(rounds: Vec<Round>) -> Vec<Round> {
    rounds.into_iter().flatten().map(|pair| vec![pair]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_pair_meets_once_and_no_rank_is_in_two() {
        for ranks in 0..40 {
            let rounds = rounds(ranks);
            let mut met = HashSet::new();
            for round in &rounds {
                let busy: HashSet<u32> = round.iter().flatten().copied().collect();
                assert_eq!(busy.len(), 2 * round.len(), "{ranks} ranks: {round:?}");
                assert!(round.iter().all(|pair| pair[0] < pair[1] && pair[1] < ranks && met.insert(*pair)));
            }
            assert_eq!(met.len() as u32, ranks * ranks.saturating_sub(1) / 2, "{ranks} ranks");
            let fewest = if ranks < 2 { 0 } else { ranks.next_multiple_of(2) - 1 };
            assert_eq!(rounds.len() as u32, fewest, "{ranks} ranks");
            assert_eq!(one_at_a_time(rounds).len(), met.len());
        }
    }
}
