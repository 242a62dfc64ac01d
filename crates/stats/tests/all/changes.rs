//! Change points of histories with a known truth: how often equal runs raise one, and how soon a change is found.

use crate::skip;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use stats::{ChangePoint, change_points};

const RUNS: usize = 20;
const NOISE: f64 = 0.02;

/// What is left out unless it is asked for.
const NAME: &str = "error rates of change points in every situation";

/// How the medians of equal runs scatter.
#[derive(Clone, Copy, Debug)]
enum Noise {
    Normal,
    /// Every tenth run takes longer, by a fifth of its time on average.
    Spikes,
    /// Neighbouring runs are alike.
    Correlated(f64),
}

struct Histories {
    random: Xoshiro256PlusPlus,
    noise: Noise,
}

impl Histories {
    fn new(noise: Noise, seed: u64) -> Self {
        Self { random: Xoshiro256PlusPlus::seed_from_u64(seed), noise }
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.random.random::<f64>()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.random.random::<f64>()).cos()
    }

    fn path(&mut self, runs: usize) -> Vec<f64> {
        let correlation = if let Noise::Correlated(correlation) = self.noise { correlation } else { 0.0 };
        let mut state = self.normal();
        let step = |own: f64, state: f64| correlation * state + (1.0 - correlation * correlation).sqrt() * own;
        (0..runs)
            .map(|_| {
                state = step(self.normal(), state);
                state
            })
            .collect()
    }

    /// The medians of cases over runs; half of the noise is the machine's, which all cases share. From run `changed` on, the
    /// first case takes `factor` times as long.
    fn cases(&mut self, cases: usize, runs: usize, changed: usize, factor: f64) -> Vec<Vec<(usize, f64)>> {
        let shared = self.path(runs);
        let half = 0.5f64.sqrt();
        (0..cases)
            .map(|case| {
                let own = self.path(runs);
                let median = |(run, (shared, own)): (usize, (&f64, f64))| {
                    let spiky = matches!(self.noise, Noise::Spikes) && self.random.random::<f64>() < 0.1;
                    let spike = if spiky { -0.2 * (1.0 - self.random.random::<f64>()).ln() } else { 0.0 };
                    let level = if case == 0 && run >= changed { factor } else { 1.0 };
                    (run, level * (NOISE * half * (shared + own) + spike).exp())
                };
                shared.iter().zip(own).enumerate().map(median).collect()
            })
            .collect()
    }
}

/// The share of histories of equal runs in which any case shows a change.
fn false_rate(noise: Noise, cases: usize, runs: usize, histories: u64) -> f64 {
    let raised = (0..histories).filter(|seed| {
        let history = Histories::new(noise, *seed).cases(cases, runs, runs, 1.0);
        change_points(&history, *seed).iter().any(|changes| !changes.is_empty())
    });
    raised.count() as f64 / histories as f64
}

#[test]
fn twenty_equal_runs_rarely_raise_a_change_point() {
    // The standard error of 5% over 400 histories is 1.1%.
    let is_full = skip::heavy(NAME);
    for noise in [Noise::Normal, Noise::Spikes, Noise::Correlated(0.3)] {
        for &cases in if is_full { &[1, 10][..] } else { &[1] } {
            let rate = false_rate(noise, cases, RUNS, 400);
            assert!(rate <= 0.06, "{noise:?}, {cases} cases: {rate}");
        }
    }
}

#[test]
fn few_and_many_equal_runs_rarely_raise_one_either() {
    for &runs in if skip::heavy(NAME) { &[8, 12, 60][..] } else { &[12] } {
        let rate = false_rate(Noise::Normal, 10, runs, 200);
        assert!(rate <= 0.085, "{runs} runs: {rate}");
    }
}

#[test]
fn strong_correlation_raises_more_and_not_many() {
    let rate = false_rate(Noise::Correlated(0.6), 10, RUNS, 200);
    assert!(rate <= 0.25, "{rate}");
}

/// Twice the smallest change that two runs with this noise between them can show: (2.16 + 0.84) x 1.41 deviations, with the
/// quantile of Student's distribution for the 13 degrees of freedom of twenty runs and 80% power.
fn twice_the_smallest(noise: Noise) -> f64 {
    let many = Histories::new(noise, 1).cases(1, 2000, 2000, 1.0).remove(0);
    let medians: Vec<f64> = many.iter().map(|(_, median)| *median).collect();
    let deviation = stats::between_runs(&medians).unwrap().sd_log;
    (2.0 * (2.16 + 0.84) * 2f64.sqrt() * deviation).exp()
}

fn found_within(changes: &[ChangePoint], at: usize, tolerance: usize) -> bool {
    changes.iter().any(|change| change.at.abs_diff(at) <= tolerance && change.ratio > 1.0)
}

#[test]
fn a_change_of_twice_the_smallest_is_found_within_three_runs() {
    let histories = if skip::heavy(NAME) { &[(1, 17), (10, 17), (10, 30), (40, 17)][..] } else { &[(1, 17)] };
    for (noise, least) in [(Noise::Normal, 0.95), (Noise::Spikes, 0.65), (Noise::Correlated(0.3), 0.65)] {
        let factor = twice_the_smallest(noise);
        for &(cases, before) in histories {
            let found = (0..40).filter(|seed| {
                let history = Histories::new(noise, 1000 + seed).cases(cases, before + 3, before, factor);
                found_within(&change_points(&history, *seed)[0], before, 1)
            });
            let share = found.count() as f64 / 40.0;
            assert!(share >= least, "{noise:?}, {cases} cases, {before} runs before: {share}");
        }
    }
}

#[test]
fn a_change_that_went_back_has_two_ends() {
    let mut both = 0;
    for seed in 0..40 {
        let mut history = Histories::new(Noise::Normal, seed).cases(4, 24, 10, 1.2);
        for (run, median) in &mut history[0] {
            if *run >= 16 {
                *median /= 1.2;
            }
        }
        let changes = &change_points(&history, seed)[0];
        let [up, down] = changes[..] else { continue };
        both += usize::from(up.at == 10 && down.at == 16 && (up.ratio - 1.2).abs() < 0.04 && down.ratio < 0.87);
    }
    assert!(both >= 36, "{both} of 40");
}

#[test]
fn a_case_that_lacks_runs_keeps_its_own_places() {
    let mut history = Histories::new(Noise::Normal, 3).cases(3, 24, 14, 1.3);
    history[0].retain(|(run, _)| run % 3 != 0);
    let changes = change_points(&history, 3);
    // Runs 1, 2, 4, 5, 7, 8, 10, 11, 13 come before the change.
    assert_eq!(changes[0].iter().map(|change| change.at).collect::<Vec<_>>(), [9], "{changes:?}");
    assert!(changes[1].is_empty() && changes[2].is_empty(), "{changes:?}");
}

#[test]
fn one_odd_run_is_no_change_and_a_computed_step_is() {
    let mut history = Histories::new(Noise::Normal, 5).cases(1, 20, 20, 1.0);
    history[0][19].1 *= 3.0;
    assert!(change_points(&history, 5)[0].is_empty());
    // Times of a model: all equal, and then all equal again.
    let step: Vec<(usize, f64)> = (0..20).map(|run| (run, if run < 15 { 1e-5 } else { 1.1e-5 })).collect();
    let changes = change_points(&[step], 1);
    assert_eq!((changes[0].len(), changes[0][0].at), (1, 15), "{changes:?}");
    assert!((changes[0][0].ratio - 1.1).abs() < 1e-9 && changes[0][0].p_value <= 0.05);
}

#[test]
fn short_constant_and_impossible_series_show_nothing() {
    let of = |values: &[f64]| change_points(&[values.iter().copied().enumerate().collect()], 1).remove(0);
    assert!(of(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]).is_empty());
    assert!(of(&[1.0; 30]).is_empty());
    assert!(of(&[1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 2.0, 2.0, 2.0, 2.0, 2.0]).is_empty());
    assert!(change_points(&[], 1).is_empty() && change_points(&[Vec::new()], 1)[0].is_empty());
    // Many runs: the last ones are searched, and the places are those of the whole series.
    let long: Vec<(usize, f64)> = (0..300).map(|run| (run, if run < 250 { 1.0 } else { 2.0 })).collect();
    let changes = change_points(&[long], 1).remove(0);
    assert_eq!(changes.iter().map(|change| change.at).collect::<Vec<_>>(), [250]);
}

/// A change that is too old to be found says nothing about the size of a later one.
#[test]
fn runs_that_are_not_searched_do_not_count_as_the_level_before() {
    let level = |run: usize| match run {
        0..200 => 10.0,
        200..350 => 5.0,
        _ => 6.0,
    };
    let median = |run: usize| (run, level(run) * (1.0 + 0.001 * (run * 7 % 11) as f64));
    let runs: Vec<(usize, f64)> = (0..400).map(median).collect();
    let changes = change_points(&[runs], 1).remove(0);
    assert_eq!(changes.iter().map(|change| change.at).collect::<Vec<_>>(), [350], "{changes:?}");
    assert!((changes[0].ratio - 1.2).abs() < 0.01, "slower, and not faster: {changes:?}");
}
