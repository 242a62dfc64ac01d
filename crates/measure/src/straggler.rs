//! Who arrives last: the slow rank, or the answer that there is none.
//!
//! Every operation's wait is charged to its last arriver. A rank is slow only if it is last more often than chance
//! allows and if the waits that it causes cost a notable part of the time. Arrival times are entries into consecutive
//! operations on one clock. Hosts with clocks of their own are converted to rank 0's, as precisely as possible (`clock`).

use terms::Rank;

/// Last arrivals that chance would exceed once in this many looks, before correcting for the number of ranks.
const CHANCE: f64 = 1e-4;
/// Waits charged to the rank, as a share of the whole time: less is not worth a word.
const COST: f64 = 0.10;
/// Waits charged to the rank for each operation, in ns, at least: below, it is the clock and the barrier's order of leaving.
const LEAST_NS: f64 = 1_000.0;

/// A rank that the others wait for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Straggler {
    /// Which rank.
    pub rank: Rank,
    /// Share of operations in which it was last.
    pub last_share: f64,
    /// Median wait that it caused in an operation, in seconds.
    pub wait_s: f64,
    /// Share of the whole time that the waits charged to it took.
    pub cost: f64,
}

/// The straggler among ranks. Entries and exits are `looks[i][rank] = [begin, end, begin, end, ...]` in ns, one look
/// after the other. A look does not count where ranks recorded different numbers of operations or fewer than eight.
/// None when nobody is slow.
pub fn straggler(looks: &[&[Vec<f64>]]) -> Option<Straggler> {
    let ranks = looks.iter().map(|look| look.len()).max()?;
    let operations = |look: &&&[Vec<f64>]| look.first().map_or(0, |times| times.len() / 2);
    let usable = |look: &&&[Vec<f64>]| {
        look.len() == ranks && operations(look) >= 8 && look.iter().all(|rank| rank.len() == 2 * operations(look))
    };
    let looks: Vec<&&[Vec<f64>]> = looks.iter().filter(usable).collect();
    if ranks < 2 || looks.is_empty() {
        return None;
    }
    let (mut last, mut waits): (Vec<f64>, Vec<Vec<f64>>) = (vec![0.0; ranks], vec![Vec::new(); ranks]);
    let (mut count, mut span) = (0.0, 0.0);
    for look in looks {
        let operations = operations(&look);
        // The first operation follows a meeting of the measuring code and says nothing about arriving.
        for i in 1..operations {
            let begin = |rank: &usize| -> f64 { look[*rank][2 * i] };
            let latest = (0..ranks).max_by(|a, b| begin(a).total_cmp(&begin(b)))?;
            let others = (0..ranks).filter(|rank| *rank != latest).map(|rank| begin(&rank)).fold(f64::MIN, f64::max);
            last[latest] += 1.0;
            count += 1.0;
            // The wait that would vanish if this rank came no later than the one before it.
            waits[latest].push(begin(&latest) - others);
        }
        span += (0..ranks).map(|rank| look[rank][2 * operations - 1] - look[rank][2]).fold(0.0, f64::max);
    }
    let suspect = (0..ranks).max_by(|a, b| last[*a].total_cmp(&last[*b]))?;
    if waits[suspect].is_empty() {
        return None;
    }
    let cost = waits[suspect].iter().sum::<f64>() / span.max(1.0);
    let wait_ns = stats::median(&waits[suspect]);
    let by_chance = binomial_tail(count as u64, last[suspect] as u64, 1.0 / ranks as f64) * ranks as f64;
    let slow = by_chance < CHANCE && cost >= COST && wait_ns >= LEAST_NS;
    slow.then(|| Straggler {
        rank: Rank(suspect as u32),
        last_share: last[suspect] / count,
        wait_s: wait_ns / 1e9,
        cost,
    })
}

/// P(X >= k) of a binomial with `n` trials of probability `p`, summed in logarithms.
fn binomial_tail(n: u64, k: u64, p: f64) -> f64 {
    let log_factorials: Vec<f64> = std::iter::once(0.0)
        .chain((1..=n).scan(0.0, |sum, i| {
            *sum += (i as f64).ln();
            Some(*sum)
        }))
        .collect();
    let log_factorial = |m: u64| log_factorials[m as usize];
    let term = |i: u64| {
        let choose = log_factorial(n) - log_factorial(i) - log_factorial(n - i);
        (choose + i as f64 * p.ln() + (n - i) as f64 * (1.0 - p).ln()).exp()
    };
    (k..=n).map(term).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 operations of 10 us; `late(rank, operation)` ns late.
    fn arrivals(ranks: usize, late: impl Fn(usize, usize) -> f64) -> Vec<Vec<f64>> {
        (0..ranks)
            .map(|rank| {
                (0..64)
                    .flat_map(|i| {
                        let begin = 20_000.0 * i as f64 + late(rank, i);
                        [begin, 20_000.0 * i as f64 + 10_000.0]
                    })
                    .collect()
            })
            .collect()
    }

    #[test]
    fn a_late_rank_is_named() {
        let found = straggler(&[&arrivals(4, |rank, _| if rank == 2 { 5_000.0 } else { 100.0 })]).unwrap();
        assert_eq!(found.rank, Rank(2));
        assert!((0.2..0.3).contains(&found.cost), "{found:?}");
        assert_eq!(found.last_share, 1.0);
    }

    #[test]
    fn rotating_lateness_and_small_lateness_are_nobodys() {
        assert_eq!(straggler(&[&arrivals(4, |rank, i| if i % 4 == rank { 5_000.0 } else { 0.0 })]), None);
        assert_eq!(straggler(&[&arrivals(2, |rank, _| 300.0 * rank as f64)]), None);
        assert_eq!(straggler(&[&[vec![0.0; 128], vec![0.0; 126]]]), None);
    }

    #[test]
    fn tails_are_those_of_the_binomial() {
        assert!((binomial_tail(10, 10, 0.5) - 1.0 / 1024.0).abs() < 1e-12);
        assert!((binomial_tail(10, 0, 0.3) - 1.0).abs() < 1e-12);
        assert!((binomial_tail(3, 2, 0.5) - 0.5).abs() < 1e-12);
    }
}
