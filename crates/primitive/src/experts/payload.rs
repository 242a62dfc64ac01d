//! What tokens and experts hold, so that a token tells where it came from, and the product of any token with any expert is
//! known without multiplying.
//!
//! The first elements of a token are the digits of its number among all ranks' tokens, and the rest repeats a sequence with a
//! prime period P. Element (p, j) of expert e is `T[(p + BETA j + GAMMA e) mod P]`, where every P experts have a T of their
//! own. All numbers are whole and so small that f32 adds up a token's results exactly, weights included.

use terms::Dtype;

use super::routing::{MOST_GATE, Sizes};
use crate::pattern::{ALPHA, BETA, GAMMA, PERIODS, SHIFT, SumTable, amplitude, sequences};

const PERIOD: usize = PERIODS[0];

/// What tokens and experts hold, displaced by the refills so far.
pub(super) struct Payload {
    /// Digits are -amplitude to amplitude.
    amplitude: i64,
    digits: usize,
    /// How many numbers the digits have.
    numbers: usize,
    rows: Vec<i8>,
    /// Columns of each PERIOD experts.
    columns: Vec<Vec<i8>>,
    /// Sums of rows with columns, behind the digits.
    tables: Vec<SumTable>,
    shift: usize,
}

/// The depth that sums of a token's results have, as if all were one sum.
pub(crate) fn sums(k: usize, top_k: usize) -> usize {
    k.saturating_mul(top_k).saturating_mul(MOST_GATE)
}

/// How many elements of a token tell it from all others.
pub(crate) fn digits_of(k: usize, sizes: Sizes, dtype: Dtype) -> usize {
    digits(sizes.rows.saturating_mul(sizes.ranks), 2 * amplitude(sums(k, sizes.top_k), dtype) as usize + 1).0
}

/// How many digits in this base number so many tokens, and how many numbers these digits have.
fn digits(tokens: usize, base: usize) -> (usize, usize) {
    let (mut digits, mut numbers) = (1, base);
    while numbers < tokens {
        (digits, numbers) = (digits + 1, numbers.saturating_mul(base));
    }
    (digits, numbers)
}

impl Payload {
    pub(super) fn new(seed: u64, k: usize, sizes: Sizes, dtype: Dtype) -> Self {
        let amplitude = amplitude(sums(k, sizes.top_k), dtype);
        let (digits, numbers) = digits(sizes.rows * sizes.ranks, 2 * amplitude as usize + 1);
        let mut sequence = sequences(seed, PERIOD, amplitude);
        let rows = sequence();
        let columns: Vec<Vec<i8>> = (0..sizes.experts.div_ceil(PERIOD)).map(|_| sequence()).collect();
        let wide = |all: &[i8]| all.iter().map(|value| f64::from(*value)).collect::<Vec<f64>>();
        let table = |columns: &Vec<i8>| SumTable::new(&wide(&rows), &wide(columns), digits, k.saturating_sub(digits));
        let tables = columns.iter().map(table).collect();
        Self { amplitude, digits, numbers, rows, columns, tables, shift: 0 }
    }

    /// Other tokens from now on.
    pub(super) fn displace(&mut self) {
        self.shift = (self.shift + SHIFT) % (self.numbers * PERIOD);
    }

    /// The digits of a token.
    fn code(&self, token: usize) -> impl Iterator<Item = i64> + use<> {
        let (base, amplitude) = (2 * self.amplitude as usize + 1, self.amplitude);
        let mut number = (token + self.shift) % self.numbers;
        (0..self.digits).map(move |_| {
            let digit = number % base;
            number /= base;
            digit as i64 - amplitude
        })
    }

    /// Where the sequence of a token begins.
    fn row(&self, token: usize) -> usize {
        (ALPHA * token + self.shift) % PERIOD
    }

    /// A token.
    pub(super) fn token(&self, token: usize, line: &mut [f64]) {
        let (begin, mut code) = (self.row(token), self.code(token));
        for (place, element) in line.iter_mut().enumerate() {
            *element = code.next().map_or_else(|| f64::from(self.rows[(begin + place) % PERIOD]), |digit| digit as f64);
        }
    }

    /// A row of an expert's matrix.
    pub(super) fn weights(&self, expert: usize, depth: usize, line: &mut [f64]) {
        let columns = &self.columns[expert / PERIOD];
        let mut at = (depth + GAMMA * expert) % PERIOD;
        for element in line {
            *element = f64::from(columns[at]);
            at = (at + BETA) % PERIOD;
        }
    }

    /// Adds `gate` times the product of a token with an expert.
    pub(super) fn add_product(&self, (token, expert): (usize, usize), gate: f64, line: &mut [f64]) {
        let (columns, table) = (&self.columns[expert / PERIOD], &self.tables[expert / PERIOD]);
        let mut sums = [0.0; PERIOD];
        sums.copy_from_slice(table.row(self.row(token)));
        for (depth, digit) in self.code(token).enumerate() {
            for (at, sum) in sums.iter_mut().enumerate() {
                *sum += digit as f64 * f64::from(columns[(at + depth) % PERIOD]);
            }
        }
        let mut at = GAMMA * expert % PERIOD;
        for element in line {
            *element += gate * sums[at];
            at = (at + BETA) % PERIOD;
        }
    }

    /// The largest size of an element of a product.
    pub(super) fn largest(&self) -> f64 {
        let sums = self.tables.iter().map(SumTable::largest).fold(0.0, f64::max);
        sums + (self.digits as i64 * self.amplitude * self.amplitude) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { ranks: 3, rows: 200, experts: 600, top_k: 4 };

    fn line(len: usize, fill: impl FnOnce(&mut [f64])) -> Vec<f64> {
        let mut line = vec![0.0; len];
        fill(&mut line);
        line
    }

    #[test]
    fn products_are_those_of_tokens_and_experts() {
        for (k, dtype) in [(8, Dtype::F32), (300, Dtype::F32), (40, Dtype::Bf16), (600, Dtype::F64)] {
            let mut payload = Payload::new(3, k, SIZES, dtype);
            payload.displace();
            for (token, expert) in [(0, 0), (1, 0), (599, 250), (17, 251), (300, 599)] {
                let row = line(k, |line| payload.token(token, line));
                let mut product = [0.0; 9];
                for (depth, value) in row.iter().enumerate() {
                    let weights = line(9, |line| payload.weights(expert, depth, line));
                    product.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += value * weight);
                }
                let doubled: Vec<f64> = product.iter().map(|sum| 2.0 * sum).collect();
                assert_eq!(line(9, |line| payload.add_product((token, expert), 2.0, line)), doubled, "{k} {token}");
                assert!(product.iter().all(|sum| sum.abs() <= payload.largest()));
            }
        }
    }

    #[test]
    fn every_token_and_every_expert_is_told_from_all_others() {
        for dtype in [Dtype::F32, Dtype::Bf16] {
            let mut payload = Payload::new(3, 16, SIZES, dtype);
            let digits = digits_of(16, SIZES, dtype);
            assert!(digits <= 16, "{digits}");
            let tokens = |payload: &Payload| -> Vec<Vec<f64>> {
                (0..600).map(|token| line(digits, |line| payload.token(token, line))).collect()
            };
            let (before, _) = (tokens(&payload), payload.displace());
            let after = tokens(&payload);
            let different: std::collections::BTreeSet<String> =
                before.iter().map(|token| format!("{token:?}")).collect();
            assert_eq!(different.len(), 600);
            assert!(before.iter().zip(&after).all(|(before, after)| before != after), "a refill changes every token");
            let experts: std::collections::BTreeSet<String> = (0..600)
                .map(|expert| {
                    format!(
                        "{:?}",
                        (0..16).map(|depth| line(1, |line| payload.weights(expert, depth, line))).collect::<Vec<_>>()
                    )
                })
                .collect();
            assert_eq!(experts.len(), 600, "by one column of each");
        }
    }

    #[test]
    fn sums_of_all_choices_stay_exact() {
        for (k, top_k) in [(7168, 8), (1 << 18, 32), (64, 1)] {
            let sizes = Sizes { top_k, ..SIZES };
            let payload = Payload::new(1, k, sizes, Dtype::F32);
            let most = payload.amplitude.pow(2) as usize * k * top_k * MOST_GATE;
            assert!(most <= 1 << 24, "{k} {top_k}: {most}");
        }
    }
}
