//! 95% intervals hold the true median in 93 to 97% of 2,000 runs, with the stop rule running.

use stats::StopRule;
use stats::coverage::{Marginal, NOISES, PHIS, Situation, simulate};

/// What 2,000 runs tell: the standard error of 95% is 0.5%, so these bounds are four of them wide.
const RUNS: usize = 2_000;

#[test]
fn intervals_cover_the_median_with_the_stop_rule_running() {
    let rule = StopRule::default();
    let mut table = String::new();
    let mut failed = 0;
    for phi in PHIS {
        for marginal in [Marginal::Normal, Marginal::Lognormal] {
            for noise in NOISES {
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
