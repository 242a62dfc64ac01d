//! States of simulated machines with known truths, and of a real one.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use stats::{States, sign_interval, states};

struct Machine {
    random: Xoshiro256PlusPlus,
}

impl Machine {
    fn new(seed: u64) -> Self {
        Self { random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    fn uniform(&mut self) -> f64 {
        self.random.random::<f64>()
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// States that last for so many moments on average.
    fn truth(&mut self, moments: usize, states: usize, dwell: f64) -> Vec<usize> {
        let mut state = (self.uniform() * states as f64) as usize;
        let mut truth = Vec::with_capacity(moments);
        for _ in 0..moments {
            if self.uniform() < 1.0 / dwell {
                let step = 1 + (self.uniform() * (states - 1) as f64) as usize;
                state = (state + step) % states;
            }
            truth.push(state);
        }
        truth
    }
}

#[derive(Clone, Copy, Debug)]
enum Noise {
    Normal,
    LogNormal,
    Cauchy,
    Exponential,
    Spikes,
    Correlated(f64),
    Drift,
    /// States that change many times in each trial, which is a median over them.
    Short,
}

impl Noise {
    const ALL: [Self; 9] = [
        Self::Normal,
        Self::LogNormal,
        Self::Cauchy,
        Self::Exponential,
        Self::Spikes,
        Self::Correlated(0.3),
        Self::Correlated(0.7),
        Self::Drift,
        Self::Short,
    ];

    /// A channel of a machine of one state.
    fn channel(self, machine: &mut Machine, moments: usize) -> Vec<Option<f64>> {
        let mut state = machine.normal();
        let mut value = |at: usize| match self {
            Self::Normal => 0.1 * machine.normal(),
            Self::LogNormal => (0.5 * machine.normal()).exp(),
            Self::Cauchy => 0.03 * (std::f64::consts::PI * (machine.uniform() - 0.5)).tan().clamp(-300.0, 300.0),
            Self::Exponential => -0.3 * (1.0 - machine.uniform()).ln(),
            Self::Spikes => {
                let spike = if machine.uniform() < 0.05 { -0.5 * (1.0 - machine.uniform()).ln() } else { 0.0 };
                0.02 * machine.normal() + spike
            }
            Self::Correlated(share) => {
                let now = state;
                state = share * state + (1.0 - share * share).sqrt() * machine.normal();
                0.1 * now
            }
            Self::Drift => 0.6 * at as f64 / moments as f64 + 0.03 * machine.normal(),
            Self::Short => {
                let far = (0..100).filter(|_| machine.uniform() < 0.3).count() as f64 / 100.0;
                far + 0.02 * machine.normal()
            }
        };
        (0..moments).map(|at| Some(value(at).exp())).collect()
    }
}

/// Channel by channel to moment by moment.
fn moments(channels: &[Vec<Option<f64>>]) -> Vec<Vec<Option<f64>>> {
    (0..channels[0].len()).map(|at| channels.iter().map(|channel| channel[at]).collect()).collect()
}

/// Whether so many of so many are more than this share, beyond chance: four standard deviations.
fn exceeds(count: usize, of: usize, share: f64) -> bool {
    let expected = share * of as f64;
    count as f64 > expected + 4.0 * (expected * (1.0 - share)).sqrt()
}

#[test]
fn a_machine_of_one_state_has_one() {
    const TRIES: usize = 1_000;
    for noise in Noise::ALL {
        for (length, width) in [(8, 1), (13, 3), (42, 1), (42, 4)] {
            let mut machine = Machine::new(7 + length as u64);
            let found = (0..TRIES)
                .filter(|_| {
                    let channels: Vec<_> = (0..width).map(|_| noise.channel(&mut machine, length)).collect();
                    states(&moments(&channels)).count() > 1
                })
                .count();
            assert!(!exceeds(found, TRIES, 0.01), "{noise:?}, {length} moments, {width} channels: {found} of {TRIES}");
        }
    }
}

/// How many moments are in another state than they truly were, by the best naming of states.
fn mistaken(found: &States, truth: &[usize], levels: &[f64]) -> usize {
    // Both ascend by the level of the channel.
    let mut order: Vec<usize> = (0..levels.len()).collect();
    order.sort_by(|a, b| levels[*a].total_cmp(&levels[*b]));
    let place = |state: usize| order.iter().position(|one| *one == state).unwrap();
    found.of.iter().zip(truth).filter(|(found, truth)| **found != place(**truth)).count()
}

#[test]
fn two_and_three_states_are_found() {
    const TRIES: usize = 200;
    for (count, levels) in [(2, &[0.0, 0.5][..]), (3, &[0.0, 0.5, 1.2][..])] {
        for (length, dwell) in [(42, 8.0), (120, 10.0)] {
            let mut machine = Machine::new(11);
            let (mut right, mut wrong_moments, mut all, mut possible) = (0, 0, 0, 0);
            for _ in 0..TRIES {
                let truth = machine.truth(length, count, dwell);
                // A state of fewer than a tenth of the moments looks like slow trials.
                let fewest = (0..count).map(|state| truth.iter().filter(|of| **of == state).count()).min().unwrap();
                if (fewest as f64) < 0.15 * length as f64 {
                    continue;
                }
                possible += 1;
                let clear = truth.iter().map(|of| Some((levels[*of] + 0.05 * machine.normal()).exp()));
                let clear: Vec<Option<f64>> = clear.collect();
                // Another one that is looked at now and then, and goes the other way.
                let other = truth.iter().map(|of| {
                    let value = (-0.4 * levels[*of] + 0.1 * machine.normal()).exp();
                    (machine.uniform() < 0.5).then_some(value)
                });
                let other: Vec<Option<f64>> = other.collect();
                let found = states(&moments(&[clear, other]));
                if found.count() == count {
                    right += 1;
                    wrong_moments += mistaken(&found, &truth, levels);
                    all += length;
                }
            }
            assert!(possible >= 40);
            // Fourteen moments of each of three states are few.
            let bar = if length / count < 20 { 40 } else { 90 };
            assert!(right * 100 >= possible * bar, "{count} states, {length} moments: {right} of {possible}");
            assert!(wrong_moments * 100 <= all * 2, "{count} states: {wrong_moments} of {all} moments");
        }
    }
}

#[test]
fn what_was_seen_twice_is_no_state() {
    let value = |at: usize| if at == 5 || at == 9 { 3.0 } else { 1.0 + 0.01 * (at % 3) as f64 };
    let found = states(&moments(&[(0..12).map(|at| Some(value(at))).collect()]));
    assert_eq!((found.count(), found.channel), (1, None));
    assert_eq!(states(&[]).count(), 1);
    assert_eq!(states(&[vec![], vec![Some(f64::NAN)], vec![Some(-1.0)], vec![None]]).of, [0; 4]);
    // Quantised by a clock: neighbouring ticks of 4% are not states.
    let ticks = |at: usize| if at.is_multiple_of(2) { 25.0 } else { 26.0 };
    assert_eq!(states(&moments(&[(0..40).map(|at| Some(ticks(at))).collect()])).count(), 1);
}

/// 16 equal runs of three cases on a virtual machine, in us. Its two cores are now one physical core, now two: medians of trials.
/// The cores are near where a line of 1 KiB takes 0.12 to 0.15 us, and far where it takes 0.48 to 0.61 us.
const RUNS: &str = include_str!("../fixtures/equal_runs.txt");

/// Round by round of one run: the three cases.
pub(crate) fn runs() -> Vec<Vec<Vec<Option<f64>>>> {
    let mut runs: Vec<Vec<Vec<Option<f64>>>> = Vec::new();
    for line in RUNS.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with("run") {
            runs.push(Vec::new());
            continue;
        }
        let values: Vec<Option<f64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
        runs.last_mut().unwrap().push(values);
    }
    runs
}

/// Pairs of rows of one case, and those with intervals that do not meet.
#[derive(Clone, Copy, Debug, Default)]
struct Agreement {
    pairs: usize,
    disjoint: usize,
}

impl Agreement {
    fn add(&mut self, rows: &[Vec<f64>]) {
        let intervals: Vec<[f64; 2]> = rows.iter().filter_map(|row| sign_interval(row)).collect();
        for (at, [low, high]) in intervals.iter().enumerate() {
            for [other_low, other_high] in &intervals[at + 1..] {
                self.pairs += 1;
                self.disjoint += usize::from(high < other_low || other_high < low);
            }
        }
    }
}

#[test]
fn states_of_a_real_machine_follow_its_smallest_message() {
    let runs = runs();
    assert_eq!(runs.len(), 16);
    let all: Vec<Vec<Option<f64>>> = runs.iter().flatten().cloned().collect();
    let found = states(&all);
    // Near, near with busier tenants, and far.
    let near: Vec<bool> = found.levels.iter().map(|levels| levels[0].unwrap() < 0.3).collect();
    assert_eq!(near.iter().filter(|near| !**near).count(), 1, "{:?}", found.levels);
    assert!(found.count() > 1);
    let seen = || all.iter().zip(&found.of).filter_map(|(moment, of)| Some((moment[0]?, near[*of])));
    let agree = seen().filter(|(time, near)| (*time < 0.3) == *near).count();
    assert!(agree * 100 >= seen().count() * 97, "{agree} of {}", seen().count());
    let (mut mixed, mut inside) = (Agreement::default(), Agreement::default());
    for case in 0..3 {
        let (mut whole, mut parts) = (Vec::new(), vec![Vec::new(); found.count()]);
        let mut at = 0;
        for run in &runs {
            let row = |state: Option<usize>| -> Vec<f64> {
                let is_in = |round: usize| state.is_none_or(|state| found.of[at + round] == state);
                run.iter()
                    .enumerate()
                    .filter(|(round, _)| is_in(*round))
                    .filter_map(|(_, moment)| moment[case])
                    .collect()
            };
            whole.push(row(None));
            parts.iter_mut().enumerate().for_each(|(state, rows)| rows.push(row(Some(state))));
            at += run.len();
        }
        mixed.add(&whole);
        parts.iter().for_each(|rows| inside.add(rows));
    }
    // What is left is the change from run to run within a state, which medians of cases do not tell from each other.
    assert!(4 * inside.disjoint * mixed.pairs < 3 * mixed.disjoint * inside.pairs);
}
