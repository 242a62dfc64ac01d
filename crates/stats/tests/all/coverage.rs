//! 95% intervals hold the true median in 93 to 97% of 2,000 runs, with the stop rule running.

use stats::coverage::{Marginal, NOISES, PHIS, Series, Situation, simulate};
use stats::{StopRule, median_interval};

/// What 2,000 runs tell: the standard error of 95% is 0.5%, so these bounds are four of them wide.
const RUNS: usize = 2_000;

#[test]
fn intervals_cover_the_median_with_the_stop_rule_running() {
    let mut table = String::new();
    let mut failed = 0;
    for phi in PHIS {
        for marginal in [Marginal::Normal, Marginal::Lognormal] {
            for noise in NOISES {
                // The noisiest series never get precise; ending these at 4,000 samples instead of 10,000 halves the time.
                let most = if noise == NOISES[3] { 4_000 } else { StopRule::default().max_samples };
                let rule = StopRule { max_samples: most, ..StopRule::default() };
                let got = simulate(Situation { phi, marginal, noise }, &rule, RUNS, 1);
                let fine = (0.93..=0.97).contains(&got.coverage);
                failed += usize::from(!fine);
                table += &format!("{phi} {marginal:?} {noise}: {:?}{}\n", got, if fine { "" } else { "  <--" });
            }
        }
    }
    assert!(failed == 0, "{failed} situations outside 93 to 97%:\n{table}");
}

#[test]
fn the_noise_levels_reach_every_way_to_stop() {
    let at =
        |noise| simulate(Situation { phi: 0.0, marginal: Marginal::Lognormal, noise }, &StopRule::default(), 50, 1);
    assert!(at(NOISES[0]).samples < 1.2 * StopRule::default().min_samples as f64);
    assert!(at(NOISES[1]).precise == 1.0 && at(NOISES[1]).samples < 300.0, "a few hundred samples are typical");
    assert!(at(NOISES[3]).precise == 0.0 && at(NOISES[3]).samples == StopRule::default().max_samples as f64);
}

/// The share of `RUNS` fixed series whose interval holds the true median 1, samples being changed by `change`.
fn fixed(phi: f64, samples: usize, change: impl Fn(usize, f64) -> f64) -> f64 {
    let covers = |run: &u64| {
        let mut series = Series::new(Situation { phi, marginal: Marginal::Lognormal, noise: 0.1 }, *run);
        series.extend(samples);
        let changed: Vec<f64> = series.samples.iter().enumerate().map(|(index, x)| change(index, *x)).collect();
        median_interval(&changed).is_some_and(|interval| interval.contains(1.0))
    };
    (0..RUNS as u64).filter(covers).count() as f64 / RUNS as f64
}

#[test]
fn fixed_counts_cover_too() {
    // `--iters`: no stop rule. What the rule's caution costs here is a little over-coverage.
    for phi in PHIS {
        for samples in [100, 1_000] {
            let coverage = fixed(phi, samples, |_, x| x);
            assert!((0.93..=0.97).contains(&coverage), "phi {phi}, {samples} samples: {coverage}");
        }
    }
}

#[test]
fn spikes_and_ticks_do_not_break_coverage() {
    // Every 17th sample 20 times slower: the median of the mixture is a little above 1, at the 8.5/16 quantile.
    let shift = (0.1 * stats::normal_quantile(8.5 / 16.0)).exp();
    for phi in [0.0, 0.5] {
        let spikes = fixed(phi, 400, |index, x| if index % 17 == 16 { 20.0 * x } else { x / shift });
        assert!((0.93..=0.98).contains(&spikes), "spikes, phi {phi}: {spikes}");
        // A clock with ticks of 5%: ties are many, and a tie at the median is within the interval.
        let ticks = fixed(phi, 400, |_, x| (x * 20.0).round() / 20.0);
        assert!(ticks >= 0.95, "ticks, phi {phi}: {ticks}");
    }
}
