//! The simulation that the intervals answer to: how often they hold the true median, with the stop rule running.
//!
//! Series are Gaussian copula autoregressions, `z_t = phi z_{t-1} + sqrt(1 - phi^2) e_t` from the stationary law, with
//! the marginals below; the true median is 1. `cargo run -p stats --example coverage --release` prints the table.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::stop::{Decision, StopReason, StopRule};

/// The law of one sample, of median 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marginal {
    /// `1 + noise z`.
    Normal,
    /// `exp(noise z)`.
    Lognormal,
}

/// One simulated situation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Situation {
    /// Autocorrelation at lag 1 of the Gaussian series underneath.
    pub phi: f64,
    /// The law of one sample.
    pub marginal: Marginal,
    /// Its relative standard deviation (for the lognormal: of the logarithm).
    pub noise: f64,
}

/// What the intervals achieved in one situation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Achieved {
    /// Share of runs whose interval held the true median; a run without an interval did not hold it.
    pub coverage: f64,
    /// Mean number of samples when the rule stopped.
    pub samples: f64,
    /// Share of runs that stopped because they were precise.
    pub precise: f64,
}

/// The autocorrelations and marginals of the table.
pub const PHIS: [f64; 4] = [0.0, 0.3, 0.5, 0.8];
/// The noise levels of the table: stops at the first look, in a few hundred samples, in a few thousand, at the most.
pub const NOISES: [f64; 4] = [0.02, 0.07, 0.15, 1.0];

/// A stationary series that can be extended.
pub struct Series {
    random: Xoshiro256PlusPlus,
    state: f64,
    /// The second of a pair of normal numbers.
    spare: Option<f64>,
    situation: Situation,
    /// The samples so far.
    pub samples: Vec<f64>,
}

impl Series {
    /// An empty series of this situation.
    pub fn new(situation: Situation, seed: u64) -> Series {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let [state, spare] = standard_normals(&mut random);
        Series { random, state, spare: Some(spare), situation, samples: Vec::new() }
    }

    /// Appends `more` samples.
    pub fn extend(&mut self, more: usize) {
        let Situation { phi, marginal, noise } = self.situation;
        let fresh = (1.0 - phi * phi).sqrt();
        for _ in 0..more {
            self.samples.push(match marginal {
                Marginal::Normal => 1.0 + noise * self.state,
                Marginal::Lognormal => (noise * self.state).exp(),
            });
            self.state = phi * self.state + fresh * self.standard_normal();
        }
    }

    fn standard_normal(&mut self) -> f64 {
        self.spare.take().unwrap_or_else(|| {
            let [first, second] = standard_normals(&mut self.random);
            self.spare = Some(second);
            first
        })
    }
}

/// Simulates `runs` sampling loops under `rule`, without a time limit.
pub fn simulate(situation: Situation, rule: &StopRule, runs: usize, seed: u64) -> Achieved {
    let (mut covered, mut samples, mut precise) = (0, 0, 0);
    for run in 0..runs as u64 {
        let mut series = Series::new(situation, seed.wrapping_mul(1_000_003).wrapping_add(run));
        let (reason, interval) = loop {
            match rule.look(&series.samples, 0.0, f64::INFINITY) {
                (Decision::Continue { more }, _) => series.extend(more),
                (Decision::Stop(reason), interval) => break (reason, interval),
            }
        };
        covered += usize::from(interval.is_some_and(|interval| interval.contains(1.0)));
        samples += series.samples.len();
        precise += usize::from(reason == StopReason::Precise);
    }
    let share = |count: usize| count as f64 / runs as f64;
    Achieved { coverage: share(covered), samples: share(samples), precise: share(precise) }
}

/// Two independent standard normal numbers: Box and Muller (1958).
fn standard_normals(random: &mut Xoshiro256PlusPlus) -> [f64; 2] {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    let (sine, cosine) = (std::f64::consts::TAU * random.random::<f64>()).sin_cos();
    [radius * cosine, radius * sine]
}
