//! Blocks in a tournament that measured a part of all pairs, and how far blocks are apart from each other.
//!
//! Members of one rack are nearer to each other than to the rest, so the rests of an additive model fall into two parts. The
//! members are then clustered so that near pairs lie within clusters and far pairs between them (correlation clustering; Bansal,
//! Blum and Chawla, Machine Learning 56, 2004), by moves of single members and of whole clusters. A clustering holds only if
//! nearly all pairs fit. Racks are clustered in the same way: racks of one pod are nearer than others.

use std::collections::BTreeMap;

use crate::fleet::LEAST_DEFICIT;
use crate::links::model::Additive;
use crate::quantile::{median, sorted};

/// The means of both parts lie so many deviations within them apart: one part alone, cut in two, has 2.7.
const APART: f64 = 4.0;
/// Pairs within clusters that are near, and near pairs that are within: at least.
const FITS: f64 = 0.9;
/// Rounds of moves.
const SWEEPS: usize = 20;
/// Levels of distance: within a rack, a pod, and beyond.
const LEVELS: usize = 3;
/// Fewer pairs tell no parts.
const FEWEST_PAIRS: usize = 24;

/// Pairs of members, with the logarithms of their times.
type Pairs = Vec<([u32; 2], f64)>;

/// The block of each member, from the logarithms of pairs; all are 0 where no block stands out. Each block is divided again, so
/// that racks within pods are found.
pub(crate) fn racks(members: usize, pairs: &[([u32; 2], f64)]) -> Vec<usize> {
    let mut of = vec![0; members];
    let mut open: Vec<(Vec<usize>, Pairs)> = vec![((0..members).collect(), pairs.to_vec())];
    let mut number = 0;
    while let Some((block, pairs)) = open.pop() {
        let Some(found) = clusters(block.len(), &pairs) else {
            block.iter().for_each(|member| of[*member] = number);
            number += 1;
            continue;
        };
        open.extend(parts(&block, &pairs, &found));
    }
    in_order(&of)
}

/// The members of each cluster of a block, with their own pairs; places of pairs are those within the block.
fn parts(block: &[usize], pairs: &[([u32; 2], f64)], found: &[usize]) -> Vec<(Vec<usize>, Pairs)> {
    let count = found.iter().max().map_or(0, |last| last + 1);
    let mut parts: Vec<(Vec<usize>, Pairs)> = vec![(Vec::new(), Vec::new()); count];
    let mut place = vec![0_u32; block.len()];
    for (at, cluster) in found.iter().enumerate() {
        place[at] = parts[*cluster].0.len() as u32;
        parts[*cluster].0.push(block[at]);
    }
    for ([low, high], value) in pairs {
        let [one, other] = [*low as usize, *high as usize];
        if found[one] == found[other] {
            parts[found[one]].1.push(([place[one], place[other]], *value));
        }
    }
    parts
}

/// The level of each pair: 0 within a block, 1 between blocks that are near each other, and so on.
pub(crate) fn levels(pairs: &[([u32; 2], f64)], blocks: &[usize]) -> Vec<usize> {
    let mut groups = blocks.to_vec();
    let mut level = vec![0; pairs.len()];
    for step in 1..LEVELS {
        let of = |member: u32| groups[member as usize] as u32;
        let across: Vec<(usize, [u32; 2], f64)> = pairs
            .iter()
            .enumerate()
            .map(|(place, ([low, high], value))| (place, [of(*low), of(*high)], *value))
            .filter(|(_, [one, other], _)| one != other)
            .collect();
        across.iter().for_each(|(place, ..)| level[*place] = step);
        let count = groups.iter().max().map_or(0, |last| last + 1);
        let pairs: Vec<([u32; 2], f64)> = across.iter().map(|(_, pair, value)| (*pair, *value)).collect();
        let Some(found) = clusters(count, &pairs) else { break };
        groups.iter_mut().for_each(|group| *group = found[*group]);
        across.iter().filter(|(_, [one, other], _)| found[*one as usize] != found[*other as usize]).for_each(
            |(place, ..)| {
                level[*place] = step + 1;
            },
        );
    }
    level
}

/// Clusters of members whose pairs are near; None where the pairs do not fall into near and far ones.
fn clusters(members: usize, pairs: &[([u32; 2], f64)]) -> Option<Vec<usize>> {
    if pairs.len() < FEWEST_PAIRS.max(members) {
        return None;
    }
    let model = Additive::new(members, pairs.to_vec());
    let rests: Vec<f64> = (0..pairs.len()).map(|place| model.rest(place)).collect();
    let cut = cut(&rests)?;
    let is_near: Vec<bool> = rests.iter().map(|rest| *rest < cut).collect();
    let found = correlated(members, pairs, &is_near);
    let within = |place: usize| {
        let [low, high] = pairs[place].0;
        found[low as usize] == found[high as usize]
    };
    let count = |of: &dyn Fn(usize) -> bool| (0..pairs.len()).filter(|place| of(*place)).count() as f64;
    let fitting = count(&|place| is_near[place] && within(place));
    let holds = fitting >= FITS * count(&|place| is_near[place]) && fitting >= FITS * count(&within);
    let clusters = found.iter().max().map_or(0, |last| last + 1);
    // A member alone cannot be told from a slow one; a rack has two at least.
    let mut sizes = vec![0_usize; clusters];
    found.iter().for_each(|cluster| sizes[*cluster] += 1);
    let alone = sizes.iter().filter(|size| **size == 1).count();
    (holds && clusters > 1 && 10 * alone <= members).then_some(found)
}

/// Where rests fall into a near and a far part; None where they are one part. Far ones may be two parts, as of racks and pods.
fn cut(rests: &[f64]) -> Option<f64> {
    let sorted = sorted(rests);
    let (near, far) = sorted.split_at(best_cut(&sorted));
    if is_apart(near, far) {
        return far.first().copied();
    }
    let (first, second) = if squares(near) > squares(far) {
        near.split_at(best_cut(near))
    } else {
        (near, far.split_at(best_cut(far)).0)
    };
    if is_apart(first, second) { second.first().copied() } else { None }
}

fn mean(part: &[f64]) -> f64 {
    part.iter().sum::<f64>() / part.len() as f64
}

/// The sum of squares around the mean.
fn squares(part: &[f64]) -> f64 {
    let mean = mean(part);
    part.iter().map(|value| (value - mean).powi(2)).sum()
}

/// The place that cuts ascending values into two parts with the least squares within both.
pub(crate) fn best_cut(sorted: &[f64]) -> usize {
    let all: f64 = sorted.iter().sum();
    let (mut low, mut best) = (0.0, (f64::NEG_INFINITY, sorted.len().min(1)));
    for at in 1..sorted.len() {
        low += sorted[at - 1];
        let (below, above) = (at as f64, (sorted.len() - at) as f64);
        let between = low.powi(2) / below + (all - low).powi(2) / above;
        if between > best.0 {
            best = (between, at);
        }
    }
    best.1
}

/// Whether two parts are more than one part that was cut.
fn is_apart(near: &[f64], far: &[f64]) -> bool {
    if near.is_empty() || far.is_empty() {
        return false;
    }
    // By medians of sizes: a slow link is not a part.
    let spread = |part: &[f64]| {
        let middle = median(part);
        1.4826 * median(&part.iter().map(|rest| (rest - middle).abs()).collect::<Vec<_>>())
    };
    let number = (near.len() + far.len()) as f64;
    let within = (spread(near).powi(2) * near.len() as f64 + spread(far).powi(2) * far.len() as f64) / number;
    let distance = mean(far) - mean(near);
    distance >= LEAST_DEFICIT.ln_1p() && distance >= APART * within.sqrt()
}

/// Clusters with as many near pairs within and as many far pairs between them as moves find, numbered in the order of members.
fn correlated(members: usize, pairs: &[([u32; 2], f64)], is_near: &[bool]) -> Vec<usize> {
    let mut partners: Vec<Vec<(usize, i64)>> = vec![Vec::new(); members];
    for ((pair, _), near) in pairs.iter().zip(is_near) {
        let [low, high] = pair.map(|member| member as usize);
        let gain = if *near { 1 } else { -1 };
        partners[low].push((high, gain));
        partners[high].push((low, gain));
    }
    let mut of: Vec<usize> = (0..members).collect();
    for _ in 0..SWEEPS {
        let moved = move_members(&partners, &mut of) + merge(&partners, &mut of);
        if moved == 0 {
            break;
        }
    }
    in_order(&of)
}

/// Moves each member to the cluster that its near pairs outweigh its far ones in the most. Gives how many moved.
fn move_members(partners: &[Vec<(usize, i64)>], of: &mut [usize]) -> usize {
    let mut moved = 0;
    for member in 0..partners.len() {
        let mut gains: BTreeMap<usize, i64> = BTreeMap::from([(of[member], 0)]);
        partners[member].iter().for_each(|(other, gain)| *gains.entry(of[*other]).or_default() += gain);
        let own = gains[&of[member]];
        let best = gains.into_iter().max_by_key(|(cluster, gain)| (*gain, std::cmp::Reverse(*cluster)));
        if let Some((cluster, gain)) = best.filter(|(_, gain)| *gain > own) {
            debug_assert!(gain > own);
            of[member] = cluster;
            moved += 1;
        }
    }
    moved
}

/// Makes one of two clusters whose common pairs are near for the most part. Gives how many became part of another.
fn merge(partners: &[Vec<(usize, i64)>], of: &mut [usize]) -> usize {
    let mut gains: BTreeMap<(usize, usize), i64> = BTreeMap::new();
    for (member, all) in partners.iter().enumerate() {
        for (other, gain) in all.iter().filter(|(other, _)| of[*other] < of[member]) {
            *gains.entry((of[*other], of[member])).or_default() += gain;
        }
    }
    let mut order: Vec<((usize, usize), i64)> = gains.into_iter().filter(|(_, gain)| *gain > 0).collect();
    order.sort_by_key(|(_, gain)| std::cmp::Reverse(*gain));
    // Each cluster once in a sweep: what it gains changes with the first.
    let mut to: BTreeMap<usize, usize> = BTreeMap::new();
    let mut changed = 0;
    for ((one, other), _) in order {
        if !to.contains_key(&one) && !to.contains_key(&other) {
            to.insert(other, one);
            to.insert(one, one);
            changed += 1;
        }
    }
    of.iter_mut().for_each(|cluster| *cluster = to.get(cluster).copied().unwrap_or(*cluster));
    changed
}

/// Numbers clusters in the order of their first members.
pub(crate) fn in_order(of: &[usize]) -> Vec<usize> {
    let mut known: BTreeMap<usize, usize> = BTreeMap::new();
    of.iter()
        .map(|cluster| {
            let next = known.len();
            *known.entry(*cluster).or_insert(next)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::lognormal;

    fn draw(noise: f64, count: usize, seed: u64) -> Vec<f64> {
        lognormal(noise, count, seed).iter().map(|sample| sample.ln()).collect()
    }

    /// Logarithms of pairs at distances that grow, as large tournaments measure them. `apart`: by the racks of two members.
    fn tournament(members: usize, noise: f64, apart: impl Fn(usize, usize) -> f64, seed: u64) -> Vec<([u32; 2], f64)> {
        let mut distances: Vec<usize> =
            (0..32).map(|step| (1.27_f64.powi(step) as usize).max(step as usize + 1)).collect();
        distances.retain(|distance| *distance <= members / 2);
        distances.dedup();
        let own = draw(0.005, members, seed);
        let chance = draw(noise, members * distances.len(), seed + 1);
        let mut pairs = Vec::new();
        for (at, distance) in distances.iter().enumerate() {
            for low in 0..members - distance {
                let high = low + distance;
                let value = own[low] + own[high] + chance[at * members + low] + apart(low, high);
                pairs.push(([low as u32, high as u32], value - 13.0));
            }
        }
        pairs
    }

    #[test]
    fn racks_are_found_from_a_part_of_the_pairs() {
        for (members, size) in [(200, 16), (1000, 32), (1000, 18), (600, 200)] {
            for noise in [0.005, 0.03] {
                let apart = |low: usize, high: usize| if low / size == high / size { 0.0 } else { 0.336 };
                let pairs = tournament(members, noise, apart, 5);
                let expected: Vec<usize> = (0..members).map(|member| member / size).collect();
                assert!(racks(members, &pairs) == expected, "{members} in racks of {size}, {noise}");
                assert!(levels(&pairs, &expected).iter().all(|level| *level < 2));
            }
        }
    }

    #[test]
    fn members_at_one_distance_are_one_block() {
        for seed in 0..20 {
            let mut pairs = tournament(300, 0.03, |_, _| 0.0, 40 + seed);
            // A slow port, and a slow link.
            pairs.iter_mut().filter(|(pair, _)| pair.contains(&17)).for_each(|(_, value)| *value += 0.7);
            pairs[900].1 += 1.0;
            assert_eq!(racks(300, &pairs), vec![0; 300], "{seed}");
        }
    }

    #[test]
    fn racks_of_a_pod_are_nearer_than_others() {
        let apart = |low: usize, high: usize| match () {
            () if low / 16 == high / 16 => 0.0,
            () if low / 128 == high / 128 => 0.18,
            () => 0.336,
        };
        let pairs = tournament(1024, 0.01, apart, 3);
        let found = racks(1024, &pairs);
        assert!(found == (0..1024).map(|member| member / 16).collect::<Vec<_>>(), "{found:?}");
        let levels = levels(&pairs, &found);
        for ((pair, _), level) in pairs.iter().zip(levels) {
            let [low, high] = pair.map(|member| member as usize);
            let expected = usize::from(low / 16 != high / 16) + usize::from(low / 128 != high / 128);
            assert_eq!(level, expected, "{pair:?}");
        }
    }
}
