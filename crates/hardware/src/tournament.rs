//! Which pairs of ranks exchange messages at once: no rank twice in a round. Every two ranks meet, or of many ranks each meets a
//! bounded number of others, because the rounds of all pairs would take a time that grows with the number of ranks.

/// A round: pairs of ranks, the lower first.
pub(super) type Round = Vec<[u32; 2]>;

/// Rounds, at most. So many ranks all meet; of more, each meets up to so many others.
pub(super) const MOST_ROUNDS: u32 = 64;

/// Whether so many ranks all meet.
pub(super) fn is_complete(ranks: u32) -> bool {
    ranks <= MOST_ROUNDS
}

/// The rounds of a tournament: at most [`MOST_ROUNDS`].
pub(super) fn rounds(ranks: u32) -> Vec<Round> {
    if is_complete(ranks) { all_pairs(ranks) } else { at_distances(ranks) }
}

/// The rounds of all pairs by the circle method (Kirkman, 1847): ranks of a pair add up to the same number modulo one
/// less than their number. With an odd number of ranks, one rank has no partner in each round.
fn all_pairs(ranks: u32) -> Vec<Round> {
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

/// Two rounds for each of half as many distances, which grow from 1 to half of the ranks: each rank meets neighbours, which mostly
/// share its switch, and ranks far away.
fn at_distances(ranks: u32) -> Vec<Round> {
    let round = |distance: u32, odd: u32| -> Round {
        let lower = (0..ranks - distance).filter(|rank| rank / distance % 2 == odd);
        lower.map(|rank| [rank, rank + distance]).collect()
    };
    distances(ranks, MOST_ROUNDS / 2).into_iter().flat_map(|distance| [0, 1].map(|odd| round(distance, odd))).collect()
}

/// So many numbers from 1 to half of the ranks, in equal ratios as far as whole numbers are.
fn distances(ranks: u32, count: u32) -> Vec<u32> {
    let farthest = ranks / 2;
    let ratio = f64::from(farthest).powf(1.0 / f64::from(count - 1));
    let mut all: Vec<u32> = Vec::new();
    for step in 0..count {
        let least = all.last().map_or(1, |last| last + 1);
        // Those that follow need a number each.
        let most = farthest - (count - 1 - step);
        all.push((ratio.powi(step as i32).round() as u32).clamp(least, most));
    }
    all
}

/// The rounds with one pair at a time: where pairs would share cores, each would measure the others, too.
pub(super) fn one_at_a_time(rounds: Vec<Round>) -> Vec<Round> {
    rounds.into_iter().flatten().map(|pair| vec![pair]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The pairs of these rounds, in which no rank is twice in a round, and no pair is twice at all.
    fn met(ranks: u32, rounds: &[Round]) -> HashSet<[u32; 2]> {
        let mut met = HashSet::new();
        for round in rounds {
            let busy: HashSet<u32> = round.iter().flatten().copied().collect();
            assert_eq!(busy.len(), 2 * round.len(), "{ranks} ranks: {round:?}");
            assert!(round.iter().all(|pair| pair[0] < pair[1] && pair[1] < ranks && met.insert(*pair)));
        }
        met
    }

    #[test]
    fn every_pair_meets_once_and_no_rank_is_in_two() {
        for ranks in (0..40).chain([63, 64]) {
            let rounds = rounds(ranks);
            let met = met(ranks, &rounds);
            assert_eq!(met.len() as u32, ranks * ranks.saturating_sub(1) / 2, "{ranks} ranks");
            let fewest = if ranks < 2 { 0 } else { ranks.next_multiple_of(2) - 1 };
            assert_eq!(rounds.len() as u32, fewest, "{ranks} ranks");
            assert_eq!(one_at_a_time(rounds).len(), met.len());
        }
    }

    #[test]
    fn rounds_of_many_ranks_are_bounded_and_each_meets_several_others() {
        for ranks in [65, 66, 100, 128, 1000, 4096, 10_000] {
            let rounds = rounds(ranks);
            assert_eq!(rounds.len(), MOST_ROUNDS as usize, "{ranks} ranks");
            let met = met(ranks, &rounds);
            let mut partners = vec![0; ranks as usize];
            met.iter().flatten().for_each(|rank| partners[*rank as usize] += 1);
            let (fewest, most) = (partners.iter().min().unwrap(), partners.iter().max().unwrap());
            assert!(*fewest >= 32 && *most <= 64, "{ranks} ranks: {fewest} to {most}");
            // Neighbours, and ranks as far as there are.
            assert!((1..ranks).all(|rank| met.contains(&[rank - 1, rank])), "{ranks} ranks");
            assert!(met.contains(&[0, ranks / 2]), "{ranks} ranks");
        }
    }
}
