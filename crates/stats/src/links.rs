//! Slow links in a tournament: pairs that are slower than both of their members explain.
//!
//! The logarithm of a pair's time is what each of its two members adds, plus chance: an additive model that least squares fit
//! ([`model`]). The pair with the largest Studentised rest is taken away again and again, and those up to the last that
//! chance does not explain are outliers, as in Rosner's test ([`crate::fleet`]). A link is slow where it is one of these, and lies
//! further out than any rest on the fast side. Members are then judged as a fleet.
//!
//! Large tournaments measure a part of all pairs only, so everything here works on a list of pairs.

pub(crate) mod model;

use std::collections::BTreeMap;

use crate::distribution::student_quantile;
use crate::fleet::{Fleet, LEAST_DEFICIT, Member, fleet};
use crate::quantile::median;
use crate::racks::levels;

use model::Additive;

/// Fewer members have too few pairs to tell a link from its members.
pub const FEWEST_LINKED: usize = 6;

/// With fewer partners, a member's part and a slow link of it cannot be told apart.
const FEWEST_PARTNERS: usize = 4;
/// Links that are looked for, at most; and of small tournaments a share of the pairs.
const MOST_SLOW: usize = 48;
const PART_SLOW: usize = 8;
/// The noise of a pair is taken to be at least this, on logarithms.
const LEAST_NOISE: f64 = 0.002;

/// Times of messages between members: between each two of them, or a part of the pairs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairTimes {
    /// How many members there are.
    pub members: usize,
    /// Each pair once, the lower member first, with its time.
    pub pairs: Vec<([u32; 2], f64)>,
}

impl PairTimes {
    /// All pairs of a square, of which only the part above the diagonal is read. What a row lacks is not a number.
    pub fn from_square(times: &[Vec<f64>]) -> Self {
        let members = times.len();
        let time = |low: usize, high: usize| times[low].get(high).copied().unwrap_or(f64::NAN);
        let pairs = (0..members)
            .flat_map(|low| (low + 1..members).map(move |high| ([low as u32, high as u32], time(low, high))))
            .collect();
        Self { members, pairs }
    }

    /// How many pairs these members have.
    pub fn possible(&self) -> usize {
        self.members * self.members.saturating_sub(1) / 2
    }

    /// Whether every two members are a pair of it.
    pub fn is_complete(&self) -> bool {
        self.pairs.len() == self.possible()
    }

    /// The times of all pairs as a square with both halves, and 0 on the diagonal; None where they are a part.
    pub fn square(&self) -> Option<Vec<Vec<f64>>> {
        let mut square = vec![vec![0.0; self.members]; self.is_complete().then_some(self.members)?];
        for ([low, high], time) in &self.pairs {
            let [low, high] = [*low, *high].map(|member| member as usize);
            (square[low][high], square[high][low]) = (*time, *time);
        }
        Some(square)
    }

    /// The logarithms of all times; None where a pair has no positive time.
    pub(crate) fn logarithms(&self) -> Option<Vec<([u32; 2], f64)>> {
        let is_pair = |[low, high]: [u32; 2]| low < high && (high as usize) < self.members;
        let log = |(pair, time): &([u32; 2], f64)| {
            (time.is_finite() && *time > 0.0 && is_pair(*pair)).then(|| (*pair, time.ln()))
        };
        self.pairs.iter().map(log).collect()
    }
}

/// A tournament, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    /// Members, by what each adds to the pairs that it is in. A pair has it once.
    pub members: Fleet,
    /// Slow links: the pair, and how many times as long it takes as its members explain, the slowest first.
    pub slow: Vec<([usize; 2], f64)>,
    /// The deviation of a link that is found in nine of ten tries.
    pub smallest: f64,
    /// The logarithms of how many times as long it takes between blocks as within: each two blocks, or each level of them.
    pub farther: Vec<f64>,
}

/// Judges the links of a tournament. `blocks`: the block of each member, from 0. `level`: the chance that any healthy member or
/// link is called slow, half for each. None below [`FEWEST_LINKED`], if a pair has no positive time, and if a member has too few
/// partners.
pub fn links(times: &PairTimes, blocks: &[usize], level: f64) -> Option<Links> {
    if times.members < FEWEST_LINKED || blocks.len() != times.members {
        return None;
    }
    let mut pairs = times.logarithms()?;
    let farther = take_distances(&mut pairs, blocks, times.is_complete());
    let mut model = Additive::new(times.members, pairs);
    if (0..times.members).any(|member| model.partners(member) < FEWEST_PARTNERS) {
        return None;
    }
    let (first, all) = (model.free(), times.pairs.len());
    let mut removed: Vec<Removed> = Vec::new();
    for _ in 0..MOST_SLOW.min(all / PART_SLOW) {
        let (place, studentised) = most_extreme(&model);
        let quantile = student_quantile(1.0 - level / 4.0 / model.left() as f64, model.free() - 1.0);
        removed.push(Removed { place, is_beyond: studentised > quantile });
        model.leave_out(place);
    }
    let last = removed.iter().rposition(|step| step.is_beyond).map_or(0, |at| at + 1);
    model.take_back(removed[last..].iter().map(|step| step.place));
    let noise = model.deviation().max(LEAST_NOISE);
    let share = (0..all).map(|place| model.share(place)).fold(1.0, f64::min);
    let least = student_quantile(1.0 - level / 4.0 / all as f64, model.free() - 1.0) * noise / share.sqrt();
    let fastest = model.rests().map(|(_, rest)| -rest).fold(0.0, f64::max);
    let is_slow = |rest: f64| rest >= LEAST_DEFICIT.ln_1p() && rest > fastest;
    let rests = removed[..last].iter().map(|step| (times.pairs[step.place].0, model.rest(step.place)));
    let mut slow: Vec<([usize; 2], f64)> = rests
        .filter(|(_, rest)| is_slow(*rest))
        .map(|(pair, rest)| (pair.map(|member| member as usize), rest.exp()))
        .collect();
    slow.sort_by(|a, b| b.1.total_cmp(&a.1));
    let of_member = |(member, value): (usize, &f64)| {
        // One whose links all differ may be left with a single one.
        let variance = noise.powi(2) / model.partners(member).saturating_sub(1).max(1) as f64;
        Member { value: *value, variance, degrees: first }
    };
    let members: Vec<Member> = model.added().iter().enumerate().map(of_member).collect();
    let members = fleet(&members, level / 2.0)?;
    let smallest = least.max(LEAST_DEFICIT.ln_1p()) + student_quantile(0.9, first) * noise;
    Some(Links { members, slow, smallest, farther })
}

/// A step of the search.
struct Removed {
    place: usize,
    is_beyond: bool,
}

/// The pair with the largest rest, and that in standard deviations of the others: externally Studentised.
fn most_extreme(model: &Additive) -> (usize, f64) {
    let noise = model.deviation().max(LEAST_NOISE);
    let internal = |(place, rest): (usize, f64)| (place, rest.abs() / (noise * model.share(place).sqrt()));
    let (place, most) =
        model.rests().map(internal).fold((0, 0.0), |most, next| if next.1 > most.1 { next } else { most });
    let free = model.free();
    (place, most * ((free - 1.0) / (free - most.powi(2)).max(1e-9)).sqrt())
}

/// Takes away what lies between blocks: the median of each two blocks where all pairs were measured, and else the median of each
/// level of distance, because few pairs of two blocks would explain themselves. Gives how much farther than within they are.
fn take_distances(pairs: &mut [([u32; 2], f64)], blocks: &[usize], is_complete: bool) -> Vec<f64> {
    if blocks.iter().all(|block| *block == blocks[0]) {
        return Vec::new();
    }
    let between = |[low, high]: [u32; 2]| {
        let [one, other] = [low, high].map(|member| blocks[member as usize]);
        [one.min(other), one.max(other)]
    };
    let classes: Vec<[usize; 2]> = if is_complete {
        pairs.iter().map(|(pair, _)| between(*pair)).collect()
    } else {
        levels(pairs, blocks).into_iter().map(|level| [0, level]).collect()
    };
    let mut of_class: BTreeMap<[usize; 2], Vec<f64>> = BTreeMap::new();
    for ((_, value), class) in pairs.iter().zip(&classes) {
        of_class.entry(*class).or_default().push(*value);
    }
    let middle: BTreeMap<[usize; 2], f64> = of_class.into_iter().map(|(class, all)| (class, median(&all))).collect();
    pairs.iter_mut().zip(&classes).for_each(|((_, value), class)| *value -= middle[class]);
    let within = |block: usize| middle.get(&[block; 2]).copied();
    let farther = |(class, value): (&[usize; 2], &f64)| {
        let near =
            if is_complete { class.iter().filter_map(|block| within(*block)).reduce(f64::min) } else { within(0) };
        Some(value - near?)
    };
    middle.iter().filter(|(class, _)| class[0] != class[1]).filter_map(farther).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::lognormal;

    /// All at one distance.
    fn flat(times: &[Vec<f64>]) -> Option<Links> {
        links(&PairTimes::from_square(times), &vec![0; times.len()], 0.01)
    }

    /// Times of 1 us with this noise, and members that differ by 1%.
    fn square(members: usize, noise: f64, seed: u64) -> Vec<Vec<f64>> {
        let own = lognormal(0.01, members, seed + 77);
        let all = lognormal(noise, members * members, seed);
        let of = |low: usize, high: usize| 1e-6 * all[low * members + high] * own[low] * own[high];
        (0..members).map(|low| (0..members).map(|high| of(low, high)).collect()).collect()
    }

    #[test]
    fn healthy_tournaments_raise_at_most_one_alarm_in_a_hundred() {
        for (members, tries) in [(6, 1500), (8, 1000), (32, 400), (128, 40)] {
            let alarms = (0..tries)
                .filter(|seed| {
                    let judged = flat(&square(members, 0.03, *seed)).unwrap();
                    !judged.slow.is_empty() || judged.members.standings.iter().any(|standing| standing.slow)
                })
                .count();
            let expected = 0.01 * tries as f64;
            assert!(alarms as f64 <= expected + 3.0 * expected.sqrt(), "{members} members: {alarms} of {tries}");
        }
    }

    #[test]
    fn a_link_of_256_members_that_is_5_percent_slow_is_named_in_nine_of_ten() {
        let tries = 20;
        let found = (0..tries)
            .filter(|seed| {
                let mut times = square(256, 0.007, 500 + seed);
                times[17][203] *= 1.05;
                let judged = flat(&times).unwrap();
                judged.slow.iter().map(|(pair, _)| *pair).collect::<Vec<_>>() == [[17, 203]]
            })
            .count();
        assert!(found >= 18, "{found} of {tries}");
    }

    #[test]
    fn a_slow_member_is_not_called_slow_links() {
        let mut times = square(12, 0.005, 9);
        (0..12).for_each(|other| times[other.min(4)][other.max(4)] *= 1.2);
        let judged = flat(&times).unwrap();
        let slow: Vec<usize> = (0..12).filter(|at| judged.members.standings[*at].slow).collect();
        assert_eq!((slow, judged.slow), (vec![4], Vec::new()));
    }

    #[test]
    fn a_slow_link_makes_no_member_slow() {
        let mut times = square(8, 0.005, 2);
        times[1][6] *= 1.3;
        let judged = flat(&times).unwrap();
        assert!(judged.members.standings.iter().all(|standing| !standing.slow));
        assert_eq!(judged.slow[0].0, [1, 6]);
        assert!((judged.slow[0].1 / 1.3 - 1.0).abs() < 0.03, "{:?}", judged.slow);
    }

    /// Times of its links say nothing of it together, so they are taken away until one is left.
    #[test]
    fn a_member_whose_links_all_differ_does_not_hide_the_tournament() {
        let mut times = square(16, 0.01, 12);
        for (place, other) in (0..16).filter(|other| *other != 3).enumerate() {
            times[other.min(3)][other.max(3)] *= f64::exp(0.3 * place as f64);
        }
        let judged = flat(&times).expect("a judgement");
        assert!(judged.members.standings[3].slow, "{:?}", judged.members.standings[3]);
        assert!(!judged.slow.is_empty() && judged.slow.iter().all(|(pair, _)| pair.contains(&3)), "{:?}", judged.slow);
    }

    #[test]
    fn a_small_deficit_of_a_link_is_not_named_however_certain() {
        for (factor, named) in [(1.015, false), (1.03, true)] {
            let mut times = square(16, 0.001, 4);
            times[3][9] *= factor;
            let judged = flat(&times).unwrap();
            assert_eq!(judged.slow.iter().any(|(pair, _)| *pair == [3, 9]), named, "{factor}: {judged:?}");
        }
    }

    #[test]
    fn few_members_and_missing_times_tell_nothing() {
        assert_eq!(flat(&square(5, 0.01, 1)), None);
        let mut times = square(8, 0.01, 1);
        times[2][5] = 0.0;
        assert_eq!(flat(&times), None);
    }

    #[test]
    fn members_are_judged_among_pairs_at_the_same_distance() {
        for (sizes, far) in [([12, 4], 1.4), ([62, 2], 1.4), ([8, 8], 3.0)] {
            let blocks: Vec<usize> = (0..2).flat_map(|block| vec![block; sizes[block]]).collect();
            let members = blocks.len();
            let mut times = square(members, 0.01, 40);
            let cells =
                times.iter_mut().enumerate().flat_map(|(low, row)| row.iter_mut().enumerate().map(move |c| (low, c)));
            cells.for_each(|(low, (high, time))| *time *= if blocks[low] == blocks[high] { 1.0 } else { far });
            let judged = links(&PairTimes::from_square(&times), &blocks, 0.01).unwrap();
            assert!(judged.slow.is_empty() && judged.members.standings.iter().all(|one| !one.slow), "{judged:?}");
            assert!((judged.farther[0].exp() / far - 1.0).abs() < 0.02, "{:?}", judged.farther);
            times[1][members - 1] *= 1.2;
            let judged = links(&PairTimes::from_square(&times), &blocks, 0.01).unwrap();
            assert_eq!(judged.slow[0].0, [1, members - 1]);
        }
    }
    /// Pairs of members whose numbers differ by one of 32 distances.
    fn part(members: usize, noise: f64, seed: u64) -> PairTimes {
        let distances: Vec<usize> = (0..32).map(|step| (1.2_f64.powi(step) as usize).max(step as usize + 1)).collect();
        let own = lognormal(0.01, members, seed + 77);
        let all = lognormal(noise, members * distances.len(), seed);
        let mut pairs = Vec::new();
        for (at, distance) in distances.iter().enumerate() {
            let pair = |low: usize| {
                let time = 1e-6 * all[at * members + low] * own[low] * own[low + distance];
                ([low as u32, (low + distance) as u32], time)
            };
            pairs.extend((0..members.saturating_sub(*distance)).map(pair));
        }
        PairTimes { members, pairs }
    }

    #[test]
    fn a_part_of_the_pairs_accuses_no_healthy_member_and_finds_slow_ones() {
        let (members, tries) = (1000, 20);
        let (mut alarms, mut links_found, mut members_found) = (0, 0, 0);
        for seed in 0..tries {
            let mut times = part(members, 0.007, 900 + seed);
            let judge = |times: &PairTimes| links(times, &vec![0; members], 0.01).unwrap();
            let is_slow = |judged: &Links| -> Vec<usize> {
                (0..members).filter(|at| judged.members.standings[*at].slow).collect()
            };
            let judged = judge(&times);
            alarms += usize::from(!judged.slow.is_empty() || !is_slow(&judged).is_empty());
            if seed < 10 {
                times.pairs[4321].1 *= 1.10;
                let judged = judge(&times);
                let pair = times.pairs[4321].0.map(|member| member as usize);
                links_found += usize::from(judged.slow.iter().map(|(pair, _)| *pair).eq([pair]));
                times.pairs.iter_mut().filter(|(pair, _)| pair.contains(&700)).for_each(|(_, time)| *time *= 1.15);
                members_found += usize::from(is_slow(&judge(&times)) == [700]);
            }
        }
        assert!(alarms <= 2, "{alarms} of {tries}");
        assert!(links_found >= 9 && members_found >= 9, "{links_found} links, {members_found} members of 10");
    }

    #[test]
    fn a_member_with_few_partners_is_not_judged() {
        let mut times = part(100, 0.007, 1);
        let mut left = 3;
        times.pairs.retain(|(pair, _)| {
            !pair.contains(&5) || {
                left -= 1;
                left >= 0
            }
        });
        assert_eq!(links(&times, &[0; 100], 0.01), None);
    }
}
