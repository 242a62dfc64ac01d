//! Simulated runs with known truths, which the intervals over trials answer to.
//!
//! Each case follows a slow path (what the machine does between and during trials): an autoregression in time, regimes of
//! two levels, or a drift. A trial sees the path at its instant, with noise of its own and, now and then, a spike. The stop
//! rule runs as in a measurement: a case looks at its printed interval after 6, 9, 13, 19, 28 and 42 trials and stops when
//! that is within the target.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use stats::{LOOKS, again_interval, median, pooled_correlation, relative_half_width, sign_interval};

/// Points of the path between two trials.
const FINE: usize = 20;
/// Standard deviation of a trial's own noise; the path's is 1.
const OWN_NOISE: f64 = 0.3;
/// Mean size of a spike.
const SPIKE: f64 = 3.0;
/// Share of the autoregression's variance that all cases of a run have in common.
const COMMON: f64 = 0.5;
/// Distance between the two levels of a regime, and the share of time in the upper one.
const LEVEL: f64 = 1.5;
const UPPER: f64 = 0.4;

/// What the machine does over the time of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Path {
    /// Autoregression with this correlation between neighbouring trials.
    Correlated(f64),
    /// Two levels; the upper one lasts for so many trials on average.
    Regimes(f64),
    /// A linear change by so many standard deviations of the noise from the first trial to the 42nd.
    Drift(f64),
}

/// One simulated situation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Situation {
    /// The path.
    pub(crate) path: Path,
    /// Share of trials that a spike makes longer.
    pub(crate) spikes: f64,
    /// Cases of the run.
    pub(crate) cases: usize,
    /// Half width relative to the median at which a case stops; the path's standard deviation is [`SCALE`] of the median.
    pub(crate) target: f64,
    /// Trials before which a case never stops: 6, or a later look.
    pub(crate) fewest: usize,
}

/// Standard deviation of the path relative to the median.
pub(crate) const SCALE: f64 = 0.05;

/// What the intervals achieved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Achieved {
    /// Share of cases with a printed interval that held the median of the path over the run's own span.
    pub(crate) own_span: f64,
    /// Share of the intervals for comparisons that held the long-run median, of cases that have one.
    pub(crate) long_run: f64,
    /// Share of cases that have no interval for comparisons.
    pub(crate) without: f64,
    /// Mean width of the interval for comparisons over that of an oracle that knows the correlation, of cases where both
    /// have one; 0 where there are none, or where the path has no correlation to know.
    pub(crate) width: f64,
    /// Mean number of trials.
    pub(crate) trials: f64,
}

struct Noise {
    random: Xoshiro256PlusPlus,
}

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.random.random::<f64>()
    }

    /// Box and Muller, 1958.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// What a trial sees at a point of the path.
    fn seen(&mut self, point: f64, spikes: f64) -> f64 {
        let spike = if self.uniform() < spikes { -SPIKE * (1.0 - self.uniform()).ln() } else { 0.0 };
        (SCALE * (point + OWN_NOISE * self.normal() + spike)).exp()
    }

    fn autoregression(&mut self, correlation: f64, points: usize) -> Vec<f64> {
        let step = correlation.powf(1.0 / FINE as f64);
        let fresh = (1.0 - step * step).sqrt();
        let mut state = self.normal();
        (0..points)
            .map(|_| {
                let now = state;
                state = step * state + fresh * self.normal();
                now
            })
            .collect()
    }

    fn regimes(&mut self, dwell: f64, points: usize) -> Vec<f64> {
        let leave = 1.0 / (dwell * FINE as f64);
        let mut upper = self.uniform() < UPPER;
        (0..points)
            .map(|_| {
                let change = if upper { leave } else { leave * UPPER / (1.0 - UPPER) };
                upper ^= self.uniform() < change;
                LEVEL * f64::from(u8::from(upper))
            })
            .collect()
    }

    /// The paths of all cases of a run.
    fn paths(&mut self, situation: &Situation, points: usize) -> Vec<Vec<f64>> {
        match situation.path {
            Path::Correlated(correlation) => {
                let common = self.autoregression(correlation, points);
                let mix = |own: Vec<f64>| {
                    let both = common.iter().zip(own);
                    both.map(|(common, own)| COMMON.sqrt() * common + (1.0 - COMMON).sqrt() * own).collect()
                };
                (0..situation.cases).map(|_| mix(self.autoregression(correlation, points))).collect()
            }
            Path::Regimes(dwell) => vec![self.regimes(dwell, points); situation.cases],
            Path::Drift(change) => {
                let line: Vec<f64> = (0..points).map(|i| change * i as f64 / points as f64).collect();
                vec![line; situation.cases]
            }
        }
    }
}

/// The correlation of neighbouring trials as ranks with noise show it; None where the path has none to know.
fn known_correlation(path: Path) -> Option<f64> {
    match path {
        // Noise and spikes of trials lower the path's own by about 1.15.
        Path::Correlated(correlation) => Some(correlation / 1.15),
        Path::Regimes(dwell) => Some((-1.0 / (dwell * (1.0 - UPPER))).exp() / 1.15),
        Path::Drift(_) => None,
    }
}

/// The median of what trials see in the long run; None for a drift, which has none.
fn long_run_median(situation: &Situation, noise: &mut Noise) -> Option<f64> {
    const DRAWS: usize = 100_000;
    let mut point = |path: Path| match path {
        Path::Correlated(_) => noise.normal(),
        _ => LEVEL * f64::from(u8::from(noise.uniform() < UPPER)),
    };
    if matches!(situation.path, Path::Drift(_)) {
        return None;
    }
    let points: Vec<f64> = (0..DRAWS).map(|_| point(situation.path)).collect();
    Some(median(&points.iter().map(|point| noise.seen(*point, situation.spikes)).collect::<Vec<_>>()))
}

/// The trials at which a case of this series stops.
fn stop(series: &[f64], situation: &Situation) -> usize {
    let precise = |look: &usize| {
        let seen = &series[..*look];
        sign_interval(seen).is_some_and(|ends| relative_half_width(ends, median(seen)) <= situation.target)
    };
    let looks = || LOOKS.iter().copied().filter(|look| *look >= situation.fewest);
    looks().find(precise).unwrap_or(LOOKS[LOOKS.len() - 1])
}

/// Simulates `runs` runs.
pub(crate) fn simulate(situation: &Situation, runs: usize, seed: u64) -> Achieved {
    let mut noise = Noise { random: Xoshiro256PlusPlus::seed_from_u64(seed) };
    let long_run = long_run_median(situation, &mut noise);
    let most = LOOKS[LOOKS.len() - 1];
    let mut sum = Achieved::default();
    let (mut cases, mut again, mut widths, mut oracles) = (0.0, 0.0, 0.0, 0.0);
    for _ in 0..runs {
        let paths = noise.paths(situation, most * FINE);
        let mut series: Vec<Vec<f64>> = Vec::new();
        let mut spans: Vec<f64> = Vec::new();
        for path in &paths {
            let at_trials = path.iter().skip(FINE / 2).step_by(FINE);
            let all: Vec<f64> = at_trials.map(|point| noise.seen(*point, situation.spikes)).collect();
            let trials = stop(&all, situation);
            // What trials at every instant of the run would have as their median.
            let span: Vec<f64> =
                path[..trials * FINE].iter().map(|point| noise.seen(*point, situation.spikes)).collect();
            spans.push(median(&span));
            series.push(all[..trials].to_vec());
        }
        let correlation = pooled_correlation(series.iter().map(Vec::as_slice)).unwrap_or(0.0);
        for (trials, span) in series.iter().zip(spans) {
            cases += 1.0;
            sum.trials += trials.len() as f64;
            let holds = |ends: [f64; 2], truth: f64| f64::from(u8::from(ends[0] <= truth && truth <= ends[1]));
            sum.own_span += sign_interval(trials).map_or(0.0, |ends| holds(ends, span));
            let Some(ends) = again_interval(trials, correlation) else { continue };
            again += 1.0;
            sum.long_run += long_run.map_or(0.0, |truth| holds(ends, truth));
            let oracle = known_correlation(situation.path).and_then(|known| again_interval(trials, known));
            if let Some([low, high]) = oracle {
                widths += ends[1] - ends[0];
                oracles += high - low;
            }
        }
    }
    Achieved {
        own_span: sum.own_span / cases,
        long_run: if again > 0.0 { sum.long_run / again } else { 0.0 },
        without: 1.0 - again / cases,
        width: if oracles > 0.0 { widths / oracles } else { 0.0 },
        trials: sum.trials / cases,
    }
}
