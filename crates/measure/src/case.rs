//! A case over its trials: what the first one fixes, what each gives, and whether there are to be more.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use record::Case;

use crate::labels::Labels;
use crate::trial::Trial;
use crate::visit::{Visit, visit};
use crate::{Ready, Settings, Verdict, World};

/// Why a case needs no further trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The printed interval is within the target.
    Precise,
    /// The time is used up.
    Budget,
    /// The most trials were made.
    MostTrials,
    /// As many trials were made as were asked for.
    Fixed,
    /// The case's ranks cannot see the machine's state that was asked for.
    Blind,
}

/// How each trial of a case samples, fixed after the first round so that trials are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Calls of a sample.
    pub calls: u32,
    /// Samples of a trial.
    pub samples: u32,
    /// Calls below which a sample is too short for the clock and for the barrier before it.
    pub least_calls: u32,
}

/// How far a trial is: sampling time of the case so far and at most, in seconds.
pub type Progress<'a> = &'a mut dyn FnMut(f64, f64);

/// How a case is visited this time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// Which round of the run, from 0.
    pub number: u32,
    /// Whether the world was started for this round.
    pub fresh: bool,
    /// Whether the world still holds the case prepared from its last trial.
    pub prepared: bool,
    /// Whether the world is to hold the case prepared for the next trial.
    pub keep: bool,
    /// When the trial takes no further samples, however many were asked for: the case's share of a budget.
    pub until: Option<Instant>,
}

/// A case over its trials.
#[derive(Clone, Debug)]
pub struct CaseRun {
    /// The case.
    pub case: Case,
    /// How it is sampled.
    pub settings: Settings,
    /// Whether times are computed.
    pub simulated: bool,
    /// The host of each rank, by rank; empty where all are on one.
    pub host_of: Arc<[u32]>,
    /// What each trial gave.
    pub trials: Vec<Trial>,
    /// The machine's states in these; None where the run saw one state.
    pub labels: Option<Labels>,
    /// None before the first trial.
    pub sampling: Option<Sampling>,
    /// Seconds spent on samples; then those on limits, noise, arrivals and checks.
    pub(crate) sampling_s: f64,
    pub(crate) extra_s: f64,
    /// What ranks said when they were last ready.
    pub(crate) ready: Vec<Ready>,
    /// The variant of the limit that is due next, where a trial has no time for all.
    pub(crate) next_limit: usize,
    /// When the first trial began.
    pub(crate) begun: Option<std::time::Instant>,
}

impl CaseRun {
    /// A case that has not been visited.
    pub fn new(case: &Case, settings: Settings, simulated: bool) -> Self {
        let settings = Settings { exact: simulated && !case.is_noisy(), ..settings };
        Self {
            case: case.clone(),
            settings,
            simulated,
            host_of: Arc::default(),
            trials: Vec::new(),
            labels: None,
            sampling: None,
            sampling_s: 0.0,
            extra_s: 0.0,
            ready: Vec::new(),
            next_limit: 0,
            begun: None,
        }
    }

    /// Visits the case once more. The trial is added to [`CaseRun::trials`] when it has succeeded.
    ///
    /// # Errors
    /// The verdict, when a rank fails, dies or hangs.
    pub fn visit(&mut self, world: &mut dyn World, round: Round, progress: Progress<'_>) -> Result<(), Verdict> {
        let begun = std::time::Instant::now();
        let first = *self.begun.get_or_insert(begun);
        let mut trial = visit(Visit::new(self, world, round, begun), progress)?;
        trial.span_s = match self.simulated {
            true => self.sampling_s,
            false => first.elapsed().as_secs_f64(),
        };
        self.trials.push(trial);
        Ok(())
    }

    /// Medians of the trials, in their order.
    pub fn medians(&self) -> Vec<f64> {
        self.trials.iter().filter_map(Trial::median).collect()
    }

    /// Why the case needs no further trial; None where it does. Looks at the interval after 6, 9, 13, 19, 28 and 42
    /// trials only: stopping at any width that happens to be narrow would select intervals that are too lucky.
    pub fn stop(&self) -> Option<StopReason> {
        let made = self.counted();
        if self.labels.as_ref().is_some_and(|labels| labels.blind) {
            return Some(StopReason::Blind);
        }
        if self.settings.trials.is_some() || self.settings.exact {
            return (made >= self.settings.most_trials()).then_some(StopReason::Fixed);
        }
        if made < self.settings.fewest_trials() {
            return None;
        }
        if made >= self.settings.most_trials() {
            return Some(StopReason::MostTrials);
        }
        if !self.settings.soaks() && stats::LOOKS.contains(&made) && self.is_precise() {
            return Some(StopReason::Precise);
        }
        let next = self.sampling_s / self.trials.len() as f64;
        ((made + 1) as f64 * next > self.settings.max_seconds * 1.001).then_some(StopReason::Budget)
    }

    /// Trials that count: all, or those in the machine's state that was asked for.
    fn counted(&self) -> usize {
        match &self.labels {
            Some(labels) if labels.only => labels.main.map_or(0, |main| labels.trials(main).len()),
            _ => self.trials.len(),
        }
    }

    /// This case with the trials of the state that stands for it; of those in no state nothing is said.
    pub fn in_state(&self) -> Cow<'_, Self> {
        let Some((labels, state)) = self.labels.as_ref().and_then(|labels| Some((labels, labels.shown()?))) else {
            return Cow::Borrowed(self);
        };
        let trials = labels.trials(state).into_iter().filter_map(|at| self.trials.get(at).cloned()).collect();
        Cow::Owned(Self { trials, ..self.clone() })
    }

    /// Within the machine's state that stands for the case: a median over several depends on how long each lasted.
    fn is_precise(&self) -> bool {
        let medians = self.in_state().medians();
        let within = |ends| stats::relative_half_width(ends, stats::median(&medians)) <= self.settings.target;
        stats::sign_interval(&medians).is_some_and(within)
    }

    /// Whether a model computes all of its times, and these are the same: then one sample tells them.
    pub fn is_constant(&self) -> bool {
        self.ready.iter().any(|ready| ready.constant)
    }

    /// Seconds of a call, as far as trials tell.
    pub fn call_s(&self) -> Option<f64> {
        let medians = self.medians();
        (!medians.is_empty()).then(|| stats::median(&medians))
    }
}

/// Makes the trials of implementations of one workload alike from the second round on: as many calls a sample, and as
/// many samples, as all of them can take in twice the time of a trial. A barrier before each sample is part of it, so
/// that samples of different numbers of calls would not be comparable. Members whose times are the same in all stay as they are.
pub fn align(members: &mut [&mut CaseRun]) {
    let mut members: Vec<&mut &mut CaseRun> = members.iter_mut().filter(|run| !run.is_constant()).collect();
    // One call of an isolated sample, or one step, is what it is; and who fixed the samples fixed them.
    let fixed = |run: &CaseRun| {
        run.settings.mode.is_single() || run.settings.iters.is_some() || run.ready.iter().any(|ready| ready.steps)
    };
    if members.len() < 2 || members.iter().any(|run| fixed(run)) {
        return;
    }
    let known =
        |run: &CaseRun| Some((run.sampling?, run.call_s()? * f64::from(messages(run)), run.settings.trial_seconds()));
    let Some(all) = members.iter().map(|run| known(run)).collect::<Option<Vec<_>>>() else { return };
    let slowest = all.iter().map(|(_, call, _)| *call).fold(0.0, f64::max);
    let seconds = all.iter().map(|(.., seconds)| *seconds).fold(f64::INFINITY, f64::min);
    let least = all.iter().map(|(sampling, ..)| sampling.least_calls).max().unwrap_or(1);
    let wanted = all.iter().map(|(sampling, ..)| sampling.samples).min().unwrap_or(1);
    let room = 2.0 * seconds / slowest.max(1e-12);
    // As many calls as fill a trial of the slowest, but never too few for the quickest.
    let calls = ((room / 2.0 / f64::from(wanted)) as u32).max(least).max(1);
    let samples = ((room / f64::from(calls)) as u32).clamp(1, wanted.max(1));
    for run in &mut members {
        run.sampling = run.sampling.map(|own| Sampling { calls, samples, ..own });
    }
}

/// Messages or operations of a call that count on their own.
pub(crate) fn messages(run: &CaseRun) -> u32 {
    run.ready.iter().map(|ready| ready.messages).max().unwrap_or(1).max(1)
}
