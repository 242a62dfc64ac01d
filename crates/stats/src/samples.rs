//! Series of samples with a known median of 1, for tests of whatever looks at samples: Gaussian copula autoregressions,
//! `z_t = phi z_{t-1} + sqrt(1 - phi^2) e_t` from the stationary law, with the marginals below.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

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
    /// Relative standard deviation of a sample (for the lognormal: of the logarithm).
    pub noise: f64,
}

/// A stationary series that can be extended.
pub struct StationarySeries {
    random: Xoshiro256PlusPlus,
    state: f64,
    /// The second of a pair of normal numbers.
    spare: Option<f64>,
    situation: Situation,
    /// The samples so far.
    pub samples: Vec<f64>,
}

impl StationarySeries {
    /// An empty series of this situation.
    pub fn new(situation: Situation, seed: u64) -> StationarySeries {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let [state, spare] = standard_normals(&mut random);
        StationarySeries { random, state, spare: Some(spare), situation, samples: Vec::new() }
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

/// So many independent lognormal samples with this noise.
pub fn lognormal(noise: f64, count: usize, seed: u64) -> Vec<f64> {
    let mut series = StationarySeries::new(Situation { phi: 0.0, marginal: Marginal::Lognormal, noise }, seed);
    series.extend(count);
    series.samples
}

/// Two independent standard normal numbers: Box and Muller (1958).
fn standard_normals(random: &mut Xoshiro256PlusPlus) -> [f64; 2] {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    let (sine, cosine) = (std::f64::consts::TAU * random.random::<f64>()).sin_cos();
    [radius * cosine, radius * sine]
}
