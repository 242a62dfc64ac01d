//! Blocks in a tournament: members that are nearer to each other than to the rest, as nodes of one rack are.
//!
//! An additive model of logarithms (a part of each member) leaves rests. Where members form two blocks, the negative rests are a
//! product of the two members' sides, so the first eigenvector of that matrix tells the sides (classical scaling; Torgerson,
//! Psychometrika 17, 1952). Noise alone has a first eigenvalue of about `2 sigma sqrt(n)` (Wigner). Each block is then divided
//! in the same way, so that racks within pods are found.
//!
//! A division holds only if pairs across take longer than pairs within, on both sides. Two members whose slow ports bound all of
//! their pairs also leave rests of one sign, but their own pair is as slow as those across. A member alone cannot be told from a
//! slow one, and is not a block.

use crate::fleet::LEAST_DEFICIT;
use crate::links::PairTimes;
use crate::quantile::median;
use crate::racks::{best_cut, in_order, racks};

/// The first eigenvalue is beyond noise from so many times `sigma sqrt(n)`.
const BEYOND_NOISE: f64 = 2.5;
/// Pairs across lie above those within by so many standard errors of the smaller block's pairs: the cut was searched for.
const CLEARLY: f64 = 5.0;
/// Fewer members are not divided: their pairs hardly outnumber the parts of the model.
const FEWEST: usize = 6;
/// Directions in which a division is looked for.
const DIRECTIONS: usize = 12;
/// Rests are limited to so many deviations on the slow side.
const LIMITED: f64 = 3.0;
/// How often the parts of members are found.
const FITS: usize = 3;
/// Steps of the power iteration.
const STEPS: usize = 60;
/// The noise of a pair is taken to be at least this, on logarithms.
const LEAST_NOISE: f64 = 0.002;

/// The block of each member, by number from 0. All are 0 where no block stands out, and where a pair has no positive time. Where
/// a part of all pairs was measured, blocks are those of `racks`.
pub fn blocks(times: &PairTimes) -> Vec<usize> {
    let members = times.members;
    let mut of = vec![0; members];
    let Some(pairs) = times.logarithms() else { return of };
    if !times.is_complete() {
        return racks(members, &pairs);
    }
    let mut square = vec![vec![0.0; members]; members];
    for ([low, high], value) in pairs {
        let [low, high] = [low, high].map(|member| member as usize);
        (square[low][high], square[high][low]) = (value, value);
    }
    let mut open = vec![(0..members).collect::<Vec<usize>>()];
    let mut number = 0;
    while let Some(block) = open.pop() {
        match divide(&square, &block) {
            Some([one, other]) => open.extend([one, other]),
            None => {
                block.iter().for_each(|member| of[*member] = number);
                number += 1;
            }
        }
    }
    in_order(&of)
}

/// Two parts of a block.
fn divide(square: &[Vec<f64>], block: &[usize]) -> Option<[Vec<usize>; 2]> {
    let members = block.len();
    if members < FEWEST {
        return None;
    }
    let mut rests = rests(square, block);
    let mut noise = noise_of(&rests, 0)?;
    let (mut directions, mut beyond) = (Vec::new(), 0);
    for taken in 1..=DIRECTIONS {
        let (eigenvalue, vector) = first_eigenvector(&rests);
        for (at, row) in rests.iter_mut().enumerate() {
            row.iter_mut().enumerate().for_each(|(other, rest)| {
                *rest += if at == other { 0.0 } else { eigenvalue * vector[at] * vector[other] };
            });
        }
        let Some(left) = noise_of(&rests, taken) else { break };
        directions.push(vector);
        // Further blocks are not noise, so all directions up to the last beyond it count.
        if eigenvalue >= BEYOND_NOISE * left * (members as f64).sqrt() {
            (beyond, noise) = (taken, left);
        }
    }
    directions.truncate(beyond);
    directions.iter().find_map(|vector| {
        let cut = cut(vector);
        let (one, other): (Vec<usize>, Vec<usize>) = (0..members).partition(|at| vector[*at] < cut);
        let parts = [one, other].map(|part| part.into_iter().map(|at| block[at]).collect::<Vec<_>>());
        (parts.iter().all(|part| part.len() > 1) && is_apart(square, &parts, noise)).then_some(parts)
    })
}

/// What the members of a block do not explain of their pairs; 0 on the diagonal. A slow link is one positive rest, and not a
/// side: such rests are limited, and the parts of the members found again without them.
fn rests(square: &[Vec<f64>], block: &[usize]) -> Vec<Vec<f64>> {
    let members = block.len() as f64;
    let mut own: Vec<Vec<f64>> = block.iter().map(|a| block.iter().map(|b| square[*a][*b]).collect()).collect();
    (0..block.len()).for_each(|at| own[at][at] = 0.0);
    let mut rests = own.clone();
    for _ in 0..FITS {
        let sums: Vec<f64> = own.iter().map(|row| row.iter().sum()).collect();
        let common = sums.iter().sum::<f64>() / (members * (members - 1.0));
        let added: Vec<f64> = sums.iter().map(|sum| (sum - (members - 1.0) * common) / (members - 2.0)).collect();
        for (a, row) in rests.iter_mut().enumerate() {
            row.iter_mut().enumerate().filter(|(b, _)| *b != a).for_each(|(b, rest)| {
                *rest = own[a][b] - common - added[a] - added[b];
            });
        }
        let most = LIMITED * spread(&rests);
        for (a, row) in own.iter_mut().enumerate() {
            row.iter_mut().zip(&rests[a]).for_each(|(cell, rest)| *cell -= (rest - most).max(0.0));
        }
        let most = |rest: &mut f64| *rest = rest.min(most);
        rests.iter_mut().flatten().for_each(most);
    }
    rests
}

/// The deviation of rests, by the median of their sizes.
fn spread(rests: &[Vec<f64>]) -> f64 {
    let above = rests.iter().enumerate().flat_map(|(at, row)| row[at + 1..].iter().map(|rest| rest.abs()));
    (1.4826 * median(&above.collect::<Vec<_>>())).max(LEAST_NOISE)
}

/// The noise of a pair after so many directions were taken away, each of which has as many numbers as there are members. None
/// where no freedom is left.
fn noise_of(rests: &[Vec<f64>], directions: usize) -> Option<f64> {
    let members = rests.len();
    let pairs = members * (members - 1) / 2;
    let free = pairs.checked_sub(members * (directions + 1)).filter(|free| *free > 0)?;
    Some(spread(rests) * (pairs as f64 / free as f64).sqrt())
}

/// The largest eigenvalue of the negative matrix, and its vector, by power iteration: shifted, so that it is the largest in size.
fn first_eigenvector(matrix: &[Vec<f64>]) -> (f64, Vec<f64>) {
    let size = matrix.len();
    let shift = matrix.iter().map(|row| row.iter().map(|cell| cell.powi(2)).sum::<f64>()).sum::<f64>().sqrt() / 2.0;
    let times = |vector: &[f64]| -> Vec<f64> {
        matrix.iter().map(|row| -row.iter().zip(vector).map(|(cell, value)| cell * value).sum::<f64>()).collect()
    };
    let normal = |mut vector: Vec<f64>| {
        let length = vector.iter().map(|value| value.powi(2)).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
        vector.iter_mut().for_each(|value| *value /= length);
        vector
    };
    // The row with the largest sum of squares has a part in the first vector.
    let squares = |row: &Vec<f64>| row.iter().map(|cell| cell.powi(2)).sum::<f64>();
    let start = (0..size).max_by(|a, b| squares(&matrix[*a]).total_cmp(&squares(&matrix[*b]))).unwrap_or(0);
    let mut vector = normal((0..size).map(|at| if at == start { 1.0 } else { -matrix[start][at] }).collect());
    for _ in 0..STEPS {
        let next = times(&vector).iter().zip(&vector).map(|(next, own)| next + shift * own).collect();
        vector = normal(next);
    }
    let eigenvalue = times(&vector).iter().zip(&vector).map(|(next, own)| next * own).sum();
    (eigenvalue, vector)
}

/// Where values fall into two parts: the least sum of squares within both.
fn cut(values: &[f64]) -> f64 {
    let sorted = crate::quantile::sorted(values);
    sorted[best_cut(&sorted).min(sorted.len() - 1)]
}

/// Whether pairs across two parts take longer than those within each.
fn is_apart(square: &[Vec<f64>], [one, other]: &[Vec<usize>; 2], noise: f64) -> bool {
    let mean = |a: &[usize], b: &[usize]| {
        let pairs =
            a.iter().flat_map(|low| b.iter().filter(move |high| *high != low).map(move |high| square[*low][*high]));
        let (sum, count) = pairs.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
        sum / count
    };
    let smaller = one.len().min(other.len()) as f64;
    let error = noise / (smaller * (smaller - 1.0) / 2.0).sqrt();
    let members = (one.len() + other.len()) as f64;
    // The best of all divisions of mere noise has an eigenvalue of 2 sigma sqrt(n), which is so far apart.
    let by_chance = BEYOND_NOISE * noise * members.powf(1.5) / (2.0 * (one.len() * other.len()) as f64);
    let least = (CLEARLY * error).max(by_chance).max(LEAST_DEFICIT.ln_1p());
    let across = mean(one, other);
    [one, other].into_iter().all(|part| across - mean(part, part) > least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::lognormal;

    /// Times with this noise, and `far` between blocks.
    fn square(of: &[usize], noise: f64, far: f64, seed: u64) -> Vec<Vec<f64>> {
        let members = of.len();
        let (own, all) = (lognormal(0.01, members, seed + 9), lognormal(noise, members * members, seed));
        let time = |low: usize, high: usize| {
            all[low * members + high] * own[low] * own[high] * if of[low] == of[high] { 1.0 } else { far }
        };
        (0..members).map(|low| (0..members).map(|high| time(low, high)).collect()).collect()
    }

    fn found(times: &[Vec<f64>]) -> Vec<usize> {
        blocks(&PairTimes::from_square(times))
    }

    fn of_racks(sizes: &[usize]) -> Vec<usize> {
        sizes.iter().enumerate().flat_map(|(rack, nodes)| vec![rack; *nodes]).collect()
    }

    #[test]
    fn racks_are_found() {
        for sizes in [&[12, 4][..], &[62, 2], &[8, 8], &[4, 4, 4, 4], &[3, 5, 9], &[6; 8]] {
            let of = of_racks(sizes);
            let right = (0..20).filter(|seed| found(&square(&of, 0.02, 1.4, 100 + seed)) == of).count();
            assert!(right >= 19, "{sizes:?}: {right} of 20");
        }
    }

    #[test]
    fn members_at_one_distance_are_one_block() {
        for members in [6, 8, 16, 64] {
            let of = vec![0; members];
            let divided = (0..300).filter(|seed| found(&square(&of, 0.03, 1.0, *seed)) != of).count();
            assert!(divided <= 3, "{members}: {divided} of 300");
        }
    }

    #[test]
    fn slow_members_and_slow_links_are_not_blocks() {
        let of = vec![0; 16];
        for seed in 0..20 {
            let mut times = square(&of, 0.02, 1.0, seed);
            times[2][9] *= 1.5;
            assert_eq!(found(&times), of, "a slow link");
            let mut times = square(&of, 0.02, 1.0, seed);
            for (low, row) in times.iter_mut().enumerate() {
                // Either of two slow ports bounds a pair.
                let is_slow = |at: usize| at == 3 || at == 11;
                row.iter_mut()
                    .enumerate()
                    .for_each(|(high, time)| *time *= if is_slow(low) || is_slow(high) { 2.0 } else { 1.0 });
            }
            assert_eq!(found(&times), of, "two slow ports");
        }
        let mut gone = square(&of, 0.02, 1.0, 1);
        gone[1][2] = f64::NAN;
        assert_eq!(found(&gone), of);
    }
}
