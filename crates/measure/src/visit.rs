//! One visit to a case: warm up, sample, check what was sampled, and look at the machine before and after.

use std::time::{Duration, Instant, SystemTime};

use terms::Mode;
use trace::Clock;

use crate::canary::{Canary, SystemCounters};
use crate::case::{CaseRun, Progress, Round, Sampling, messages};
use crate::device_times;
use crate::steps;
use crate::trial::{LimitTime, Trial};
use crate::{ClockFit, Command, Probe, SampleRequest, Samples, Settings, Verdict, VerdictKind, World, apart_ns};

mod arrivals;

/// A sample lasts at least this long, and at least as long as this many clock readings.
const SAMPLE_NS: f64 = 20_000.0;
const CLOCK_READINGS: f64 = 1000.0;
/// ... and as this many barriers.
const BARRIERS: f64 = 50.0;
/// Samples of this share of that are long enough not to be calibrated again.
const ENOUGH: f64 = 0.8;
/// An upper bound of one clock reading on machines that are fit to measure; slower clocks only cost longer samples.
const CLOCK_READING_NS: f64 = 25.0;
/// Calls in a sample, at most: a bound on the time that a mistaken calibration can cost.
const MAX_CALLS: u32 = 1_000_000;
/// Samples asked for at once last about this long, so that progress is seen and a budget is kept.
const CHUNK_SECONDS: f64 = 0.1;
/// Samples of a warm-up by number that are asked for at once last about this long.
const WARM_UP_CHUNK_SECONDS: f64 = 1.0;
/// Where calls are so long, one sample is a trial's whole observation; else a median needs a few.
const LONG_CALL_S: f64 = 0.01;
const FEW: u32 = 3;
/// Limits are measured for cases that move at least this much, over all ranks: below, there is no bandwidth to speak of.
const LIMIT_FROM_BYTES: u64 = 64 << 10;
/// Limits, noise, arrivals and checks take at most this share of what samples take.
const EXTRA_SHARE: f64 = 0.5;
/// Share of the case's time that warm-up may take in the first trial.
const FIRST_WARM_UP: f64 = 0.1;

/// A visit that goes on.
pub(crate) struct Visit<'a> {
    run: &'a mut CaseRun,
    settings: Settings,
    world: &'a mut dyn World,
    round: Round,
    begun: Instant,
    /// What samples that were asked for by number took: they may take their time, as long as ranks answer.
    untimed: Duration,
    /// How each rank's clock runs against that of rank 0, by rank; None where all have one clock, or it is not known.
    fits: Option<Vec<Option<ClockFit>>>,
    trial: Trial,
}

impl<'a> Visit<'a> {
    pub(crate) fn new(run: &'a mut CaseRun, world: &'a mut dyn World, round: Round, begun: Instant) -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let trial = Trial { round: round.number, fresh: round.fresh, begun_s: since.as_secs_f64(), ..Trial::default() };
        Self { settings: run.settings.clone(), run, world, round, begun, untimed: Duration::ZERO, fits: None, trial }
    }

    fn is_first(&self) -> bool {
        self.run.trials.is_empty()
    }

    /// Time until the trial's deadline.
    fn left(&self) -> Duration {
        (self.settings.deadline() + self.untimed).saturating_sub(self.begun.elapsed())
    }

    /// Whether this trial may make extra measurements. The first trial makes all but those that take longer than its samples;
    /// later ones make them while they have taken less than their share.
    fn may_look(&self) -> bool {
        self.settings.traced || self.run.simulated || self.run.extra_s <= EXTRA_SHARE * self.run.sampling_s
    }

    /// Makes an extra measurement, and books its time apart from the samples.
    fn extra<T>(&mut self, look: impl FnOnce(&mut Self) -> Result<T, Verdict>) -> Result<T, Verdict> {
        let begun = Instant::now();
        let found = look(self);
        // A simulated case has the same looks on a busy machine.
        self.run.extra_s += self.wall_s(0.0, begun);
        found
    }

    /// Whether what was sampled is to be checked: in the first trial, and in later ones while there is time. What a model computes
    /// is the same in all.
    fn checks(&self) -> bool {
        self.is_first() || (self.may_look() && !self.trial.ready.iter().any(|ready| ready.modelled))
    }

    /// Whether one sample tells the time of all.
    fn is_constant(&self) -> bool {
        self.run.is_constant()
    }

    /// Whether calls are steps of one series.
    fn in_steps(&self) -> bool {
        self.trial.ready.iter().any(|ready| ready.steps)
    }
}

/// Visits the case once.
pub(crate) fn visit(mut visit: Visit<'_>, progress: Progress<'_>) -> Result<Trial, Verdict> {
    visit.prepare()?;
    visit.compare_clocks()?;
    visit.fix_sampling()?;
    visit.begin()?;
    visit.sample_all(progress)?;
    visit.compare_clocks()?;
    visit.make_extra_measurements()?;
    visit.end()?;
    Ok(visit.trial)
}

impl Visit<'_> {
    fn prepare(&mut self) -> Result<(), Verdict> {
        // Before each trial: a world may hold other cases, too.
        self.world.be_patient(Duration::from_secs_f64(self.settings.slowest_s()));
        if self.round.prepared {
            self.trial.ready = self.run.ready.clone();
            // What was found wrong then belongs to the trial of then.
            self.trial.ready.iter_mut().for_each(|ready| ready.wrong = crate::WrongReport::default());
            return Ok(());
        }
        let check = self.is_first() || self.may_look();
        let left = self.left();
        let ready = self.world.prepare(&self.run.case, check, left)?;
        self.trial.wrong.extend(ready.iter().map(|ready| ready.wrong.clone()));
        self.trial.ready.clone_from(&ready);
        self.run.ready = ready;
        Ok(())
    }

    /// Calls and samples: found out by the first trial, the same from then on. Warms up, and looks at the machine.
    fn fix_sampling(&mut self) -> Result<(), Verdict> {
        let Some(fixed) = self.run.sampling else {
            self.trial.calls = self.calibrate(1, self.sample_ns())?;
            let warm = self.warm_up(FIRST_WARM_UP * self.settings.max_seconds.max(0.1))?;
            let before = self.extra(Self::look_at_machine)?;
            let least = self.lengthen(&warm, before.as_ref())?;
            self.trial.canaries = before.map(|before| (before, Canary::default()));
            self.trial.calls = self.filling(least, &warm)?;
            let samples = self.settings.iters.unwrap_or(0);
            self.run.sampling = Some(Sampling { calls: self.trial.calls, samples, least_calls: least });
            return Ok(());
        };
        self.trial.calls = fixed.calls;
        if !self.round.prepared {
            self.warm_up(self.settings.warm_up_seconds())?;
        } else if self.settings.warmup.is_none() {
            // Others had the caches meanwhile.
            self.take(1, fixed.calls)?;
        }
        if self.may_look() {
            let before = self.extra(Self::look_at_machine)?;
            self.trial.canaries = before.map(|before| (before, Canary::default()));
        }
        Ok(())
    }

    fn take(&mut self, samples: u32, calls: u32) -> Result<Samples, Verdict> {
        let request = SampleRequest { mode: self.settings.mode, samples, calls };
        if self.settings.mode == Mode::Isolated {
            self.compare_clocks()?;
        }
        let fits = self.fits.clone().filter(|_| self.settings.mode == Mode::Isolated);
        if let Some(fits) = &fits {
            self.world.command(&Command::Clocks(fits.clone()), self.left())?;
        }
        let taken = self.world.sample(request, self.left())?;
        if let Some(fits) = fits {
            // Clocks compared before the samples are the less certain the longer the samples took.
            let apart = apart_ns(&fits, Clock::default().now_ns());
            self.trial.starts_apart_ns = Some(self.trial.starts_apart_ns.map_or(apart, |known| known.max(apart)));
        }
        Ok(taken)
    }

    /// Compares the clocks of hosts, where ranks are on several. An isolated case cannot go on without knowing them.
    fn compare_clocks(&mut self) -> Result<(), Verdict> {
        let Some(clocks) = self.world.clocks() else { return Ok(()) };
        // A caveat within the trial is not forgotten.
        if self.trial.clocks.iter().all(|clock| clock.why.is_none()) {
            self.trial.clocks = clocks.recorded();
        }
        let fits = clocks.fits();
        self.fits = fits.clone().ok();
        match fits {
            Err(why) if self.settings.mode == Mode::Isolated => {
                let message = format!("`mode: isolated` needs to know how the clocks of all hosts run: {why}");
                Err(Verdict::new(VerdictKind::Lacking, message))
            }
            _ => Ok(()),
        }
    }

    /// The number of calls, from `calls` on, that makes a sample last `wanted` ns.
    fn calibrate(&mut self, calls: u32, wanted: f64) -> Result<u32, Verdict> {
        if self.settings.mode.is_single() || self.in_steps() {
            return Ok(1);
        }
        let most = self.most_calls();
        let mut calls = calls.max(1);
        loop {
            let taken = self.take(3, calls)?.slowest();
            let each = stats::median(&taken) / f64::from(calls);
            // A computed time of zero stays zero, however often it is called.
            let timeless = self.run.simulated && each == 0.0;
            if each * f64::from(calls) >= wanted || calls >= most || timeless {
                return Ok(calls);
            }
            // A little more than predicted, and at most a hundredfold: the first calls are slower than the rest.
            let predicted = (1.1 * wanted / each.max(0.01)).ceil().min(f64::from(calls) * 100.0);
            calls = (predicted as u32).clamp(calls + 1, most);
        }
    }

    /// Steps are sampled from the first one on: what warm-up trained is forgotten, and so is how well its starts agreed.
    fn begin(&mut self) -> Result<(), Verdict> {
        self.trial.starts_apart_ns = None;
        if self.in_steps() && !self.round.prepared {
            self.world.probe(Probe::Begin, self.left())?;
        }
        Ok(())
    }

    /// More calls a sample where those of warm-up were too short: because calls are quicker now that they are warm (a
    /// library connects in its first ones), or because ranks leave the barrier before a sample at different times, which
    /// is part of every sample. Many barriers long, it hardly shows; one call of 64 KiB a sample took 3% too long with
    /// MPI. But several such samples must fit into a trial.
    fn lengthen(&mut self, warm: &[f64], canary: Option<&Canary>) -> Result<u32, Verdict> {
        let barriers = canary.map_or(0.0, |canary| BARRIERS * canary.barrier_ns);
        let most = (self.settings.max_seconds / 100.0).min(self.settings.trial_seconds() / 5.0) * 1e9;
        let wanted = self.sample_ns().max(barriers.min(most));
        if !warm.is_empty() && stats::median(warm) < ENOUGH * wanted {
            return self.calibrate(self.trial.calls, wanted);
        }
        Ok(self.trial.calls)
    }

    /// Nanoseconds that a sample lasts at least.
    fn sample_ns(&self) -> f64 {
        let asked = self.trial.ready.iter().map(|ready| ready.sample_ns).max().unwrap_or(0);
        SAMPLE_NS.max(CLOCK_READINGS * CLOCK_READING_NS).max(asked as f64)
    }

    /// Calls with which a trial's samples last as long as the trial, which then sees more of the machine than a short look.
    /// Who fixed the number of samples did not ask for longer ones, and computed times see no machine.
    fn filling(&mut self, least: u32, warm: &[f64]) -> Result<u32, Verdict> {
        let fixed = self.settings.mode.is_single() || self.in_steps() || self.settings.iters.is_some();
        if fixed || self.is_constant() || (self.run.simulated && !self.settings.soaks()) {
            return Ok(least);
        }
        let fill = self.settings.trial_seconds() * 1e9 / f64::from(self.settings.trial_samples());
        if warm.is_empty() {
            return self.calibrate(least, fill);
        }
        let each = stats::median(warm) / f64::from(self.trial.calls);
        let most = self.most_calls().max(least);
        Ok(if each > 0.0 { ((fill / each) as u32).clamp(least, most) } else { least })
    }

    /// Calls of a sample, at most.
    fn most_calls(&self) -> u32 {
        if self.settings.trial_seconds() > 1.0 { u32::MAX / 2 } else { MAX_CALLS }
    }

    /// Until times are steady, or as often as was asked for. Nanoseconds of the last samples.
    fn warm_up(&mut self, budget: f64) -> Result<Vec<f64>, Verdict> {
        let calls = self.trial.calls;
        if let Some(samples) = self.settings.warmup {
            return self.warm_up_by_number(samples);
        }
        // At least one group, whatever it costs.
        let (mut series, mut spent) = (Vec::new(), 0.0);
        loop {
            let asked = Instant::now();
            let group = self.take(if series.is_empty() { 1 } else { 8 }, calls)?.slowest();
            spent += self.wall_s(group.iter().sum::<f64>() / 1e9, asked);
            let each = group.iter().copied().fold(0.0, f64::max) / 1e9;
            series.extend(group);
            // Only what is recent counts: a long cold start must not be dragged along.
            let recent = &series[series.len().saturating_sub(64)..];
            let steady = stats::steady(recent);
            if steady || spent >= budget || series.len() >= 512 || self.samples_that_fit(8.0 * each) == 0 {
                // Fewer than 16 samples cannot tell.
                self.trial.steady = (recent.len() >= 16).then_some(steady);
                return Ok(recent.to_vec());
            }
        }
    }

    /// Asked for bit by bit, so that long calls are answered before the deadline.
    fn warm_up_by_number(&mut self, samples: u32) -> Result<Vec<f64>, Verdict> {
        let (mut series, mut chunk) = (Vec::new(), 1);
        while series.len() < samples as usize {
            let left = samples - series.len() as u32;
            let asked = Instant::now();
            let taken = self.take(chunk.min(left), self.trial.calls)?.slowest();
            self.untimed += asked.elapsed();
            let each = taken.iter().copied().fold(0.0, f64::max) / 1e9;
            chunk = ((WARM_UP_CHUNK_SECONDS / each.max(1e-9)) as u32).max(1);
            series.extend(taken);
            // The samples that count need as long again.
            if self.samples_that_fit(2.0 * each) == 0 {
                break;
            }
        }
        Ok(series)
    }

    fn sample_all(&mut self, progress: Progress<'_>) -> Result<(), Verdict> {
        let begun = Instant::now();
        let fixed = self.run.sampling.map_or(0, |sampling| sampling.samples);
        let most = match fixed {
            0 if self.is_constant() => 1,
            0 => self.settings.trial_samples(),
            _ => fixed,
        };
        // Where fresh inputs take longer than the calls, samples take longer than their times say.
        let mut wall_each = 0.0;
        while self.trial.samples.first().map_or(0, Vec::len) < most as usize {
            progress(self.run.sampling_s + self.elapsed(begun), self.settings.max_seconds);
            let known = self.trial.samples.slowest();
            let taken = known.len() as u32;
            let each = if known.is_empty() { f64::INFINITY } else { stats::median(&known) / 1e9 };
            // The first trial finds out how many samples its time holds.
            if fixed == 0 && taken >= fewest(each) && self.elapsed(begun) >= self.settings.trial_seconds() {
                break;
            }
            let chunk = CHUNK_SECONDS.min(self.settings.trial_seconds() / 2.0) / each.max(wall_each);
            let fits = self.samples_that_fit(each);
            if taken > 0 && fits == 0 {
                break;
            }
            let chunk = (chunk as u32).clamp(1, most - taken).min(fits.max(1));
            let calls = self.trial.calls;
            let asked = Instant::now();
            let samples = self.take(chunk, calls)?;
            wall_each = self.wall_s(0.0, asked) / f64::from(chunk);
            if self.settings.iters.is_some() {
                self.untimed += asked.elapsed();
            }
            self.trial.look_at_sensors();
            self.trial.samples.append(samples);
        }
        let samples = self.trial.samples.first().map_or(0, Vec::len) as u32;
        if let Some(sampling) = self.run.sampling.as_mut().filter(|_| fixed == 0) {
            sampling.samples = samples.max(1);
        }
        self.trial.sampling_s = self.elapsed(begun);
        self.run.sampling_s += self.trial.sampling_s;
        progress(self.run.sampling_s, self.settings.max_seconds);
        Ok(())
    }

    /// Samples of so many seconds until the trial has to end. Those of simulated seconds take hardly any time.
    fn samples_that_fit(&self, each: f64) -> u32 {
        let each = if self.run.simulated { 0.0 } else { each };
        let left = self.round.until.map(|until| until.saturating_duration_since(Instant::now()).as_secs_f64());
        left.map_or(u32::MAX, |left| if each.is_finite() { (left / each.max(1e-9)) as u32 } else { 1 })
    }

    /// Seconds since `asked`, at least those of the samples that were taken: fresh inputs take time between them. Simulated
    /// time passes only in samples.
    fn wall_s(&self, samples_s: f64, asked: Instant) -> f64 {
        if self.run.simulated { samples_s } else { samples_s.max(asked.elapsed().as_secs_f64()) }
    }

    /// Seconds of sampling. Simulated time passes only in samples; real time passes between them, too.
    fn elapsed(&self, begun: Instant) -> f64 {
        if self.run.simulated {
            self.trial.samples.slowest().iter().sum::<f64>() / 1e9
        } else {
            begun.elapsed().as_secs_f64()
        }
    }

    /// Checks, limits, noise and arrivals, as far as their share of the time allows. What was sampled is checked in the
    /// first trial whatever it takes.
    fn make_extra_measurements(&mut self) -> Result<(), Verdict> {
        if self.checks() {
            let checked = self.extra(|visit| visit.world.check(visit.left()))?;
            self.trial.wrong.extend(checked);
        }
        self.extra(Self::look_at_limits)?;
        let after = match self.trial.canaries {
            Some(_) => self.extra(Self::look_at_machine)?,
            None => None,
        };
        self.trial.canaries = self.trial.canaries.take().zip(after).map(|((before, _), after)| (before, after));
        self.extra(Self::look_at_arrivals)?;
        self.look_at_steps()
    }

    fn end(&mut self) -> Result<(), Verdict> {
        let left = self.left();
        let observed = if self.round.keep { self.world.observe(left)? } else { self.world.finish(left)? };
        self.trial.missed_starts = observed.iter().map(|rank| rank.missed_starts).max().unwrap_or(0);
        self.trial.launch_s = observed.iter().filter_map(|rank| rank.launch_s).reduce(f64::max);
        self.trial.device_s = device_times::longest(observed.iter().filter_map(|rank| rank.device_s));
        self.trial.library_bytes = observed.iter().filter_map(|rank| rank.library_bytes).max();
        self.trial.peak_bytes = observed.iter().map(|rank| rank.peak_bytes).max().unwrap_or(0);
        self.trial.details = observed.into_iter().map(|rank| rank.details).collect();
        self.trial.calls = self.trial.calls.saturating_mul(messages(self.run));
        self.trial.wall_s = self.begun.elapsed().as_secs_f64();
        Ok(())
    }

    /// Times of the case's limit: of each round the slowest rank counts, the median over rounds. All variants where there
    /// is time for them, else one after the other over the trials.
    fn look_at_limits(&mut self) -> Result<(), Verdict> {
        let variants = self.trial.ready.first().map(|ready| ready.limits.clone()).unwrap_or_default();
        let traffic: u64 = self.trial.ready.iter().map(|ready| ready.traffic_bytes).sum();
        if !self.settings.limits
            || self.run.simulated
            || self.in_steps()
            || traffic < LIMIT_FROM_BYTES
            || variants.is_empty()
        {
            return Ok(());
        }
        let spent = self.run.extra_s;
        let begun = Instant::now();
        for _ in 0..variants.len() {
            let share = EXTRA_SHARE * self.run.sampling_s - spent - begun.elapsed().as_secs_f64();
            // One variant in the first trial whatever it takes, so that every case has one.
            if share <= 0.0 && !(self.is_first() && self.trial.limits.is_empty()) {
                break;
            }
            let variant = self.run.next_limit % variants.len();
            self.run.next_limit += 1;
            let call_s = self.trial.median().unwrap_or(0.0);
            let rounds = if call_s > LONG_CALL_S { 1 } else { 3 };
            let probe = Probe::Limit { variant: variant as u32, rounds };
            let ranks = self.world.probe(probe, self.left())?;
            let rounds = ranks.iter().map(Vec::len).min().unwrap_or(0);
            let slowest = |round: usize| ranks.iter().map(|rank| rank[round]).fold(0.0, f64::max);
            let rounds: Vec<f64> = (0..rounds).map(slowest).filter(|ns| *ns > 0.0).map(|ns| ns / 1e9).collect();
            if !rounds.is_empty() {
                let (variant, seconds) = (variants[variant].clone(), stats::median(&rounds));
                self.trial.limits.push(LimitTime { variant, seconds, rounds });
            }
        }
        Ok(())
    }

    fn look_at_machine(&mut self) -> Result<Option<Canary>, Verdict> {
        if self.run.simulated {
            return Ok(None);
        }
        let ranks = self.world.probe(Probe::Canary, self.left())?;
        Ok(Some(Canary::new(&ranks, &self.run.host_of, SystemCounters::read())))
    }

    /// Spans of steps, where they are wanted and ranks can record them.
    fn look_at_steps(&mut self) -> Result<(), Verdict> {
        let records = !self.trial.ready.is_empty() && self.trial.ready.iter().all(|ready| ready.records);
        if !self.settings.traced || !records {
            return Ok(());
        }
        let step_s = self.trial.median().unwrap_or(0.0);
        let seconds = self.settings.trial_seconds();
        let batches = steps::batches(step_s, seconds);
        let mut recorded = steps::Recorded::default();
        for (steps, record) in batches {
            recorded.add(self.world.steps(steps, record, self.left())?, record);
        }
        self.compare_clocks()?;
        let fits = self.fits.as_deref();
        self.trial.timeline = Some(recorded.into_timeline(fits, self.trial.clocks.is_empty()));
        Ok(())
    }
}

/// Samples that a trial has at least, where one takes so long.
fn fewest(sample_s: f64) -> u32 {
    if sample_s > LONG_CALL_S { 1 } else { FEW }
}
