//! Noise for simulated times: the logarithm of each factor follows an AR(1) process, so that neighbouring operations
//! are slow together, as on real machines. The median factor is 1, which keeps medians known.

/// The noise of simulated times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Noise {
    /// Standard deviation of the time's logarithm.
    pub(super) sigma: f64,
    /// Correlation of successive operations, 0..1.
    pub(super) correlation: f64,
    /// Seed of the pseudo-random numbers.
    pub(super) seed: u64,
}

/// A reproducible sequence of factors, the same on every rank that starts from the same noise.
#[derive(Clone, Debug)]
pub(super) struct Factors {
    noise: Noise,
    random: u64,
    /// The process, in units of sigma; None before the first draw, which comes from the stationary distribution.
    state: Option<f64>,
}

impl Factors {
    pub(super) fn new(noise: Noise) -> Self {
        Self { noise, random: noise.seed, state: None }
    }

    /// The factors of a new group: independent of the parent's, and alike on all its members.
    pub(super) fn derived(&self, split: u64, first_member: u32) -> Self {
        let mut seed = self.noise.seed ^ (split << 32) ^ u64::from(first_member);
        Self::new(Noise { seed: terms::next_splitmix64(&mut seed), ..self.noise })
    }

    /// The next factor: exp(sigma x_k), x_k = rho x_{k-1} + sqrt(1 - rho^2) e_k.
    pub(super) fn next(&mut self) -> f64 {
        let fresh = self.normal();
        let rho = self.noise.correlation;
        let state = self.state.map_or(fresh, |state| rho * state + (1.0 - rho * rho).max(0.0).sqrt() * fresh);
        self.state = Some(state);
        (self.noise.sigma * state).exp()
    }

    /// Box and Muller 1958.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// In 0..1.
    fn uniform(&mut self) -> f64 {
        (terms::next_splitmix64(&mut self.random) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_have_the_stated_spread_and_correlation() {
        let mut factors = Factors::new(Noise { sigma: 0.1, correlation: 0.8, seed: 3 });
        let x: Vec<f64> = (0..100_000).map(|_| factors.next().ln()).collect();
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let covariance = |lag: usize| {
            let pairs = x.iter().zip(&x[lag..]);
            pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / (x.len() - lag) as f64
        };
        // Three standard errors: an AR(1) of 0.8 carries (1 - 0.8) / (1 + 0.8) as many independent values.
        assert!(mean.abs() < 0.003, "{mean}");
        assert!((covariance(0).sqrt() - 0.1).abs() < 0.002, "{}", covariance(0).sqrt());
        assert!((covariance(1) / covariance(0) - 0.8).abs() < 0.01);
    }
}
