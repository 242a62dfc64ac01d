//! Variances of many cases, each known badly: each borrows from the others as far as they agree.
//!
//! The empirical Bayes estimate of Smyth (Statistical Applications in Genetics and Molecular Biology 3, 2004): variances of
//! cases follow a scaled inverse chi-square around a common value, with degrees of freedom that the scatter of their
//! logarithms tells. Where cases differ much, that is few, and each case keeps its own.

/// Cases of one run share the machine's moods, so their agreement proves less than it seems: what a case may borrow, in
/// degrees of freedom, relative to its own.
const MOST_BORROWED: f64 = 1.0;

/// A variance with the degrees of freedom with which it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variance {
    /// The variance.
    pub value: f64,
    /// Degrees of freedom.
    pub degrees: f64,
}

/// Variances after borrowing, in the same order. Those that are not positive stay and lend nothing.
pub fn moderated(variances: &[Variance]) -> Vec<Variance> {
    let usable = |variance: &&Variance| variance.value > 0.0 && variance.value.is_finite() && variance.degrees > 0.0;
    let known: Vec<Variance> = variances.iter().filter(usable).copied().collect();
    if known.len() < 3 {
        return variances.to_vec();
    }
    let count = known.len() as f64;
    let centred: Vec<f64> = known
        .iter()
        .map(|variance| {
            let half = variance.degrees / 2.0;
            variance.value.ln() - digamma(half) + half.ln()
        })
        .collect();
    let mean = centred.iter().sum::<f64>() / count;
    let scatter = centred.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let by_chance = known.iter().map(|variance| trigamma(variance.degrees / 2.0)).sum::<f64>() / count;
    let own = known.iter().map(|variance| variance.degrees).sum::<f64>() / count;
    let prior = 2.0 * inverse_trigamma((scatter - by_chance).max(1e-6));
    let common = (mean + digamma(prior / 2.0) - (prior / 2.0).ln()).exp();
    let lent = prior.min(MOST_BORROWED * own);
    let borrow = |variance: &Variance| {
        if !usable(&variance) {
            return *variance;
        }
        let degrees = variance.degrees + lent;
        Variance { value: (variance.degrees * variance.value + lent * common) / degrees, degrees }
    };
    variances.iter().map(borrow).collect()
}

/// The derivative of ln gamma: upwards by recurrence, then the asymptotic series (Abramowitz and Stegun, 6.3.18).
fn digamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 8.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + x.ln() - 0.5 / x - y * (1.0 / 12.0 - y * (1.0 / 120.0 - y / 252.0))
}

/// The second derivative of ln gamma (Abramowitz and Stegun, 6.4.12).
fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 8.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + 1.0 / x + y / 2.0 + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y / 42.0))
}

/// The argument at which [`trigamma`] has this value, by bisection: it falls from infinity to 0.
fn inverse_trigamma(value: f64) -> f64 {
    let (mut low, mut high) = (1e-6f64, 1e7f64);
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        if trigamma(middle) > value { low = middle } else { high = middle }
    }
    (low * high).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(values: &[f64]) -> Vec<Variance> {
        values.iter().map(|value| Variance { value: *value, degrees: 5.0 }).collect()
    }

    #[test]
    fn gamma_functions_match_the_tables() {
        for (x, psi, psi1) in [(1.0, -0.577_215_664_9, 1.644_934_066_8), (2.5, 0.703_156_640_6, 0.490_357_756_1)] {
            assert!((digamma(x) - psi).abs() < 1e-8, "{x}: {}", digamma(x));
            assert!((trigamma(x) - psi1).abs() < 1e-7, "{x}: {}", trigamma(x));
            assert!((inverse_trigamma(psi1) - x).abs() < 1e-5);
        }
    }

    #[test]
    fn cases_that_agree_borrow_and_others_keep_their_own() {
        let alike = moderated(&known(&[1.0, 1.4, 0.7, 1.2, 0.9, 1.1]));
        assert!(alike.iter().all(|variance| (variance.degrees - 10.0).abs() < 1e-9), "{alike:?}");
        assert!(alike[1].value < 1.4 && alike[2].value > 0.7, "{alike:?}");
        let apart = moderated(&known(&[1e-4, 1e-2, 1.0, 1e-3, 1e-1, 10.0]));
        assert!(apart[0].value < 4e-3 && apart[0].degrees < 6.5, "{apart:?}");
        // Few, or no, variances lend nothing.
        assert_eq!(moderated(&known(&[1.0, 2.0])), known(&[1.0, 2.0]));
        assert_eq!(moderated(&known(&[1.0, 0.0, 1.0, 1.0]))[1], Variance { value: 0.0, degrees: 5.0 });
    }
}
