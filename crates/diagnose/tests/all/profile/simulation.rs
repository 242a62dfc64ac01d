//! Simulated timelines of known truth, which verdicts on slow ranks answer to: how often equal ranks are accused, and planted
//! delays are found. `examples/straggler_rates` prints the table of docs/appendix/diagnosis.md.
//!
//! A step is input, forward, backward, an `all_reduce` that all ranks wait in, optimizer and host time. Each phase of each
//! rank has noise of its own.

use stats::samples::{Marginal, Situation, StationarySeries};
use trace::timeline::{CollectiveCall, Kind, NameId, RankTimeline, Timeline};

use diagnose::profile::{Analysis, Phase, Settings, analyse};

/// A step without noise and delays, in nanoseconds.
pub(crate) const STEP_NS: f64 = 100e6;
/// The part of a step in which bytes move.
pub(crate) const TRANSFER: f64 = 0.05;
/// Phases in their order, with their parts of a step.
pub(crate) const PHASES: [(Phase, Kind, f64); 5] = [
    (Phase::Input, Kind::Input, 0.08),
    (Phase::Forward, Kind::Forward, 0.27),
    (Phase::Backward, Kind::Backward, 0.45),
    (Phase::Optimizer, Kind::Optimizer, 0.10),
    (Phase::Host, Kind::Host, 0.05),
];
/// The phase before which ranks communicate.
const COMMUNICATION_BEFORE: usize = 3;
/// The shortest that noise makes a phase, as a part of it.
const SHORTEST: f64 = 0.1;

/// The law of the noise of a phase, of deviation 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Law {
    /// Normal, independent from step to step.
    Normal,
    /// Normal, with this correlation from one step to the next.
    Correlated(f64),
    /// Student's t with 2 degrees of freedom: its variance is infinite.
    HeavyTailed,
    /// Normal, and in 5% of the steps longer by 8 |z| deviations, z normal: six on average.
    Spikes,
}

/// Who is delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// One rank.
    Rank(usize),
    /// A different rank in each delayed step.
    Rotating,
}

/// A planted delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fault {
    /// Who.
    pub(crate) target: Target,
    /// In which phase.
    pub(crate) phase: Phase,
    /// How long, as a part of a step.
    pub(crate) delay: f64,
    /// In every so many steps.
    pub(crate) every: usize,
}

/// One simulated situation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scenario {
    /// Ranks.
    pub(crate) ranks: usize,
    /// Steps that count; one of warm-up comes before them.
    pub(crate) steps: usize,
    /// Standard deviation of a rank's work in a step, as a part of a step.
    pub(crate) jitter: f64,
    /// Law of the noise of that work.
    pub(crate) law: Law,
    /// A phase with a tenth of this noise, as waiting has beside computation.
    pub(crate) quiet: Option<Phase>,
    /// How much slower the last rank is than the first, all the time, as a part of a step; the others lie between.
    pub(crate) spread: f64,
    /// Planted delays. A negative one is time that a rank gains.
    pub(crate) faults: Vec<Fault>,
    /// Whether clocks are aligned, within 1 us. Else each rank's clock begins elsewhere.
    pub(crate) aligned: bool,
}

impl Scenario {
    /// Equal ranks with normal noise.
    pub(crate) fn equal(ranks: usize, steps: usize, jitter: f64) -> Self {
        Self { ranks, steps, jitter, law: Law::Normal, quiet: None, spread: 0.0, faults: Vec::new(), aligned: true }
    }

    /// The timeline of this situation; equal for equal seeds.
    pub(crate) fn timeline(&self, seed: u64) -> Timeline {
        let mut timeline = Timeline {
            source: "simulation".to_owned(),
            world: Some(self.ranks as u32),
            clock_error_ns: self.aligned.then_some(1_000),
            ..Timeline::default()
        };
        let (operation, group) = (timeline.names.intern("all_reduce"), timeline.names.intern("world"));
        let phases = PHASES.map(|(_, kind, _)| timeline.names.intern(kind.name()));
        let step_name = timeline.names.intern("step");
        let durations: Vec<Vec<[i64; 5]>> = (0..self.ranks).map(|rank| self.durations(rank, seed)).collect();
        let mut ranks: Vec<RankTimeline> =
            (0..self.ranks).map(|rank| RankTimeline { rank: rank as u32, ..RankTimeline::default() }).collect();
        let mut now = vec![0i64; self.ranks];
        let call = CollectiveCall {
            operation,
            group,
            sequence: None,
            ranks: Some(self.ranks as u32),
            bytes: Some(1 << 26),
            input_bytes: None,
            dtype: None,
            synchronises: true,
            first_byte_ns: None,
        };
        for step in 0..=self.steps {
            let began = now.clone();
            let lengths: Vec<[i64; 5]> = durations.iter().map(|of_rank| of_rank[step]).collect();
            let call = CollectiveCall { sequence: Some(step as u64), ..call };
            add_step(&mut ranks, &mut now, &lengths, (call, phases));
            for (place, rank) in ranks.iter_mut().enumerate() {
                rank.push(Kind::Step, step_name, step as u32, began[place], now[place]);
            }
        }
        if !self.aligned {
            ranks.iter_mut().enumerate().for_each(|(place, rank)| shift(rank, 1_700_000_000 * place as i64));
        }
        ranks.iter_mut().for_each(RankTimeline::sort);
        timeline.ranks = ranks;
        timeline
    }

    /// Nanoseconds of each phase in each step of a rank.
    fn durations(&self, rank: usize, seed: u64) -> Vec<[i64; 5]> {
        let noise: Vec<Vec<f64>> = (0..PHASES.len()).map(|phase| self.noise(rank, phase, seed)).collect();
        let work = 1.0 - TRANSFER;
        let slower = self.spread * rank as f64 / (self.ranks - 1).max(1) as f64;
        let of_step = |step: usize| {
            std::array::from_fn(|phase| {
                let (name, _, part) = PHASES[phase];
                // Independent phases: their variances add up to that of the step.
                let calm = if self.quiet == Some(name) { 0.1 } else { 1.0 };
                let noise = calm * self.jitter * (part / work).sqrt() * noise[phase][step];
                let own = (part * (1.0 + slower / work) + noise).max(SHORTEST * part);
                let delays = self.faults.iter().filter(|fault| fault.phase == name && self.hits(fault, rank, step));
                ((own + delays.map(|fault| fault.delay).sum::<f64>()) * STEP_NS) as i64
            })
        };
        (0..=self.steps).map(of_step).collect()
    }

    fn hits(&self, fault: &Fault, rank: usize, step: usize) -> bool {
        let target = match fault.target {
            Target::Rank(rank) => rank,
            Target::Rotating => scattered(step as u64) as usize % self.ranks,
        };
        step.is_multiple_of(fault.every.max(1)) && target == rank
    }

    /// The noise of a phase of a rank in each step.
    pub(crate) fn noise(&self, rank: usize, phase: usize, seed: u64) -> Vec<f64> {
        let normals = |which: u64, phi: f64| {
            let law = Situation { phi, marginal: Marginal::Normal, noise: 1.0 };
            let mut series = StationarySeries::new(law, ((seed * 4_096 + rank as u64) * 8 + phase as u64) * 4 + which);
            series.extend(self.steps + 1);
            series.samples.iter().map(|sample| sample - 1.0).collect::<Vec<f64>>()
        };
        match self.law {
            Law::Normal => normals(0, 0.0),
            Law::Correlated(phi) => normals(0, phi),
            Law::HeavyTailed => {
                let ([a, b], top) = ([normals(1, 0.0), normals(2, 0.0)], normals(0, 0.0));
                let ratio = |step: usize| top[step] / ((a[step].powi(2) + b[step].powi(2)) / 2.0).sqrt();
                (0..top.len()).map(ratio).collect()
            }
            Law::Spikes => {
                let (base, chance, size) = (normals(0, 0.0), normals(1, 0.0), normals(2, 0.0));
                let spike = |step: usize| if chance[step] > 1.644_854 { 8.0 * size[step].abs() } else { 0.0 };
                (0..base.len()).map(|step| base[step] + spike(step)).collect()
            }
        }
    }
}

/// A number of each step that follows no pattern: two rounds of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(crate) fn scattered(step: u64) -> u64 {
    let mixed = step.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33
}

/// Adds a step to each rank, from its time on.
fn add_step(
    ranks: &mut [RankTimeline],
    now: &mut [i64],
    lengths: &[[i64; 5]],
    (call, names): (CollectiveCall, [NameId; 5]),
) {
    for (phase, (_, kind, _)) in PHASES.into_iter().enumerate() {
        if phase == COMMUNICATION_BEFORE {
            let end = now.iter().max().unwrap_or(&0) + (TRANSFER * STEP_NS) as i64;
            for (rank, time) in ranks.iter_mut().zip(now.iter_mut()) {
                rank.push_call(0, *time, end, call);
                *time = end;
            }
        }
        for ((rank, time), lengths) in ranks.iter_mut().zip(now.iter_mut()).zip(lengths) {
            let end = *time + lengths[phase];
            rank.push(kind, names[phase], 0, *time, end);
            *time = end;
        }
    }
}

fn shift(rank: &mut RankTimeline, by: i64) {
    for span in &mut rank.spans {
        (span.begin_ns, span.end_ns) = (span.begin_ns + by, span.end_ns + by);
    }
}

/// What verdicts achieved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// Simulated timelines.
    pub(crate) runs: usize,
    /// Timelines in which any rank was named.
    pub(crate) named: usize,
    /// Timelines in which the first rank that was named had a planted delay.
    pub(crate) found: usize,
    /// Timelines in which all ranks with planted delays were named, and no other.
    pub(crate) all_found: usize,
    /// Timelines of `found` with the right phase.
    pub(crate) phase: usize,
    /// Timelines in which the straggler was called rotating.
    pub(crate) rotating: usize,
    /// Timelines in which a rank without a planted delay was named.
    pub(crate) accused: usize,
    /// Timelines without any verdict on ranks.
    pub(crate) unclear: usize,
    /// Timelines in which no rank was called slow, with a bound below a delay that was planted in every step.
    pub(crate) wrongly_cleared: usize,
}

/// Analyses so many timelines of a situation.
pub(crate) fn simulate(scenario: &Scenario, settings: &Settings, runs: usize, seed: u64) -> Rates {
    let guilty = |rank: u32| {
        scenario.faults.iter().find(|fault| fault.target == Target::Rank(rank as usize)).map(|fault| fault.phase)
    };
    let constant = scenario.faults.iter().filter(|fault| fault.every == 1 && fault.target != Target::Rotating);
    let planted_s = constant.map(|fault| fault.delay * STEP_NS * 1e-9).fold(0.0, f64::max);
    let mut rates = Rates { runs, ..Rates::default() };
    for run in 0..runs {
        let Analysis { stragglers, rotating, straggler_abstains, straggler_at_most, steps, .. } =
            analyse(&scenario.timeline(seed * 1_000_000 + run as u64), settings);
        let wrong = stragglers.iter().filter(|straggler| guilty(straggler.rank).is_none()).count();
        let planted = (0..scenario.ranks as u32).filter(|rank| guilty(*rank).is_some()).count();
        rates.named += usize::from(!stragglers.is_empty());
        rates.rotating += usize::from(rotating.is_some());
        rates.accused += usize::from(wrong > 0);
        rates.unclear += usize::from(straggler_abstains.is_some());
        // Noise makes steps longer than planned, because they wait for the slowest rank.
        let step_s = steps.step.median.unwrap_or(0.0);
        rates.wrongly_cleared += usize::from(straggler_at_most.is_some_and(|share| share * step_s < planted_s));
        rates.all_found += usize::from(wrong == 0 && planted > 0 && stragglers.len() == planted);
        let Some(phase) = stragglers.first().and_then(|straggler| guilty(straggler.rank)) else { continue };
        rates.found += 1;
        rates.phase += usize::from(phase == stragglers[0].phase);
    }
    rates
}
