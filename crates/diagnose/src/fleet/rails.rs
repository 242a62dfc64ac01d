//! Rails: of several GPUs on a node, each has its own way to other nodes. Of all pairs of ranks between two nodes the fastest tells of
//! the nodes, so one slow way of eight does not show there.
//!
//! From the logarithm of a pair's time is taken what is usual between its two nodes, and then what is usual between ranks of these
//! numbers on their nodes (GPUs of one number are wired alike). What is left of a rank's pairs is its own. Nodes that are slow as a
//! whole, racks and slow links are gone with what is usual between two nodes.

use std::collections::HashMap;

use stats::{Member, PairTimes, median};

/// Pairs that tell what is usual, at least: one slow rank is in few of so many.
const FEWEST_PAIRS: usize = 5;
/// Pairs that tell of a rank, at least.
const FEWEST_PARTNERS: usize = 4;
/// A smaller deficit is not named: healthy ways differ by as much.
const LEAST: f64 = 0.10;

/// The way of a rank to other nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rail {
    /// Place of its host among those of the tournament.
    pub host: usize,
    /// Number of the rank among those of its host, from 0.
    pub number: usize,
    /// By how much its pairs take longer than usual.
    pub member: Member,
}

/// A rail that is slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SlowRail {
    pub(super) host: usize,
    pub(super) number: usize,
    pub(super) ratio: f64,
    pub(super) interval: [f64; 2],
}

/// The rails of a tournament of ranks. `hosts`: the place of each rank's host. Empty if pairs are too few to tell of each rank: so it
/// is with one or two ranks on a node.
pub(super) fn rails(times: &PairTimes, hosts: &[u32]) -> Vec<Rail> {
    let numbers = numbers(hosts);
    let across = times.pairs.iter().filter(|(pair, _)| hosts[pair[0] as usize] != hosts[pair[1] as usize]);
    let timed = across.filter(|(_, time)| time.is_finite() && *time > 0.0);
    let mut pairs: Vec<([usize; 2], f64)> =
        timed.map(|(pair, time)| (pair.map(|rank| rank as usize), time.ln())).collect();
    take_usual(&mut pairs, |pair| {
        let [one, other] = pair.map(|rank| hosts[rank] as usize);
        [one.min(other), one.max(other), 0]
    });
    let is_complete = times.is_complete();
    take_usual(&mut pairs, |[low, high]| {
        let [one, other] = [numbers[low], numbers[high]];
        // Where each rank meets a part of the others, those of the first and the last node meet other ones than those in the middle.
        if is_complete { [one.min(other), one.max(other), 0] } else { [one, other, high - low] }
    });
    let mut own: Vec<Vec<f64>> = vec![Vec::new(); hosts.len()];
    for (pair, rest) in pairs {
        pair.into_iter().for_each(|rank| own[rank].push(rest));
    }
    if own.iter().any(|rests| rests.len() < FEWEST_PARTNERS) {
        return Vec::new();
    }
    let rail = |(rank, rests): (usize, &Vec<f64>)| {
        let (host, number) = (hosts[rank] as usize, numbers[rank]);
        Rail { host, number, member: member(rests) }
    };
    own.iter().enumerate().map(rail).collect()
}

/// The number of each rank among those of its host.
fn numbers(hosts: &[u32]) -> Vec<usize> {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    let number = |host: &u32| {
        let count = counts.entry(*host).or_default();
        *count += 1;
        *count - 1
    };
    hosts.iter().map(number).collect()
}

/// Takes the median of each class of pairs away. Classes with few pairs tell nothing, and are left out.
fn take_usual(pairs: &mut Vec<([usize; 2], f64)>, class: impl Fn([usize; 2]) -> [usize; 3]) {
    let mut classes: HashMap<[usize; 3], Vec<f64>> = HashMap::new();
    for (pair, rest) in pairs.iter() {
        classes.entry(class(*pair)).or_default().push(*rest);
    }
    classes.retain(|_, rests| rests.len() >= FEWEST_PAIRS);
    let usual: HashMap<[usize; 3], f64> = classes.into_iter().map(|(class, rests)| (class, median(&rests))).collect();
    pairs.retain_mut(|(pair, rest)| {
        let usual = usual.get(&class(*pair));
        usual.map(|usual| *rest -= usual).is_some()
    });
}

/// The median of these rests. Its variance comes from their median distance: a pair with another slow rank does not count.
fn member(rests: &[f64]) -> Member {
    let value = median(rests);
    let apart: Vec<f64> = rests.iter().map(|rest| (rest - value).abs()).collect();
    // 0.6745 is the third quartile of the normal law.
    let deviation = median(&apart) / 0.6745;
    let variance = deviation.powi(2) * std::f64::consts::FRAC_PI_2 / rests.len() as f64;
    Member { value, variance, degrees: (rests.len() - 1) as f64 }
}

/// The rails that are slow. `level`: the chance that any healthy one is called so.
pub(super) fn slow(rails: &[Rail], level: f64) -> Vec<SlowRail> {
    let members: Vec<Member> = rails.iter().map(|rail| rail.member).collect();
    let Some(judged) = stats::fleet(&members, level) else { return Vec::new() };
    let named = judged.standings.iter().zip(rails).filter(|(one, _)| one.slow && one.deviation >= LEAST.ln_1p());
    let slow = named.map(|(standing, Rail { host, number, .. })| SlowRail {
        host: *host,
        number: *number,
        ratio: standing.deviation.exp(),
        interval: standing.interval.map(f64::exp),
    });
    slow.collect()
}

#[cfg(test)]
mod tests {
    use stats::samples::lognormal;

    use super::*;

    /// Ranks in the order of their nodes meet others at some distances only, as in large tournaments. The rank with number 5 on node 3
    /// takes so many times as long.
    fn part(nodes: usize, factor: f64, seed: u64) -> Vec<SlowRail> {
        const EACH: usize = 8;
        let ranks = nodes * EACH;
        let mut noise = lognormal(0.02, 32 * ranks, seed).into_iter();
        let distances = (1..=20).chain((24..ranks / 2).step_by(ranks / 24));
        let mut pairs = Vec::new();
        for distance in distances.take(32) {
            for low in 0..ranks - distance {
                let high = low + distance;
                let slow = if [low, high].contains(&(3 * EACH + 5)) { factor } else { 1.0 };
                // Ranks share an adapter where all of them exchange messages with another node at once.
                let shared = if distance < EACH { 0.7 } else { 1.0 };
                pairs.push(([low as u32, high as u32], 1e-4 * slow * shared * noise.next().unwrap()));
            }
        }
        pairs.sort_by_key(|(pair, _)| *pair);
        let hosts: Vec<u32> = (0..ranks).map(|rank| (rank / EACH) as u32).collect();
        let found = rails(&PairTimes { members: ranks, pairs }, &hosts);
        assert_eq!(found.len(), ranks);
        slow(&found, 0.001)
    }

    #[test]
    fn a_part_of_the_pairs_tells_the_slow_rail_and_accuses_no_other() {
        for (nodes, seed) in [(12, 1), (16, 2), (40, 3)] {
            let healthy = part(nodes, 1.0, seed);
            assert!(healthy.is_empty(), "{nodes}: {healthy:?}");
            let found = part(nodes, 2.0, 100 + seed);
            let named: Vec<_> = found.iter().map(|one| (one.host, one.number)).collect();
            assert_eq!(named, [(3, 5)], "{nodes}: {found:?}");
            assert!((found[0].ratio / 2.0 - 1.0).abs() < 0.05, "{found:?}");
        }
    }

    #[test]
    fn one_or_two_ranks_on_a_node_have_no_rails() {
        for each in [1, 2] {
            let ranks = 8 * each;
            let hosts: Vec<u32> = (0..ranks).map(|rank| (rank / each) as u32).collect();
            assert!(rails(&PairTimes::from_square(&vec![vec![1.0; ranks]; ranks]), &hosts).is_empty());
        }
    }
}
