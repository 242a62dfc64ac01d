//! One case in one launch: warm up, sample until precise, check what was sampled, and look at the machine before and
//! after.

use std::time::{Duration, Instant};

use record::Case;
use serde_json::{Map, Value};
use stats::{Decision, StopReason};
use terms::{Collective, Mode};
use trace::Clock;

use crate::canary::{Canary, SystemCounters};
use crate::{
    ClockFit, Command, Probe, Ready, SampleRequest, Samples, Settings, Verdict, VerdictKind, World, WrongReport,
    apart_ns,
};

/// A sample lasts at least this long, and at least as long as this many clock readings.
const SAMPLE_NS: f64 = 20_000.0;
const CLOCK_READINGS: f64 = 1000.0;
/// ... and as this many barriers.
const BARRIERS: f64 = 50.0;
/// Samples of this share of that are long enough not to be calibrated anew.
const ENOUGH: f64 = 0.8;
/// An upper bound of one clock reading on machines that are fit to measure; slower clocks only cost longer samples.
const CLOCK_READING_NS: f64 = 25.0;
/// Calls in a sample, at most: a bound on the time that a mistaken calibration can cost.
const MAX_CALLS: u32 = 1_000_000;
/// Samples asked for at once last about this long, so that progress is seen and a budget is kept.
const CHUNK_SECONDS: f64 = 0.1;
/// However short the budget, this many samples are taken: from six on, the smallest and the largest sample enclose the
/// median with 96.9%.
const FEWEST: usize = 6;
/// Operations recorded with their entry times, to see who arrives last.
const ARRIVALS: u32 = 64;
/// Limits are measured for cases that move at least this much, over all ranks: below, there is no bandwidth to speak of.
const LIMIT_FROM_BYTES: u64 = 64 << 10;

/// What one launch of a case gave.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// `[rank][sample]` nanoseconds.
    pub samples: Samples,
    /// What each sample's time is divided by: its calls, times what a call has of messages or operations where one of those counts.
    pub calls: u32,
    /// Why sampling stopped; None where the number was fixed.
    pub stopped: Option<StopReason>,
    /// Whether times had become steady before sampling.
    pub steady: bool,
    /// Wrong elements, before, during and after sampling.
    pub wrong: Vec<WrongReport>,
    /// What each rank said when it was ready.
    pub ready: Vec<Ready>,
    /// Seconds that one call's bare memory traffic takes on this machine.
    pub limit_s: Option<f64>,
    /// Machine before and after.
    pub canaries: Option<(Canary, Canary)>,
    /// `[rank]`: entry and exit times of consecutive operations, in ns of rank 0's clock: [begin, end, begin, end, ...].
    pub arrivals: Vec<Vec<f64>>,
    /// The largest error of the time between two of these on different ranks, in ns; 0 where they have one clock.
    pub arrivals_apart_ns: f64,
    /// How clocks of other hosts ran; empty where ranks have one clock.
    pub clocks: Vec<record::HostClock>,
    /// Isolated, over several hosts: the largest error of the agreed instant between two ranks, in ns.
    pub starts_apart_ns: Option<f64>,
    /// Samples that a rank began late (isolated mode), the most of any rank.
    pub missed_starts: u64,
    /// The most memory that any rank held.
    pub peak_bytes: u64,
    /// What the benchmark noted on each rank.
    pub details: Vec<Map<String, Value>>,
    /// Seconds that the case took in all.
    pub wall_s: f64,
}

impl Launch {
    /// Seconds of one call, for each sample: the maximum over ranks.
    pub fn series(&self) -> Vec<f64> {
        slowest(&self.samples).iter().map(|ns| ns / 1e9 / f64::from(self.calls.max(1))).collect()
    }

    /// Wrong elements in all.
    pub fn wrong_count(&self) -> u64 {
        self.wrong.iter().map(|report| report.count).sum()
    }
}

/// How far a case is: sampling time so far and at most, in seconds.
pub type Progress<'a> = &'a mut dyn FnMut(f64, f64);

/// Nanoseconds of each sample: the maximum over ranks.
fn slowest(samples: &Samples) -> Vec<f64> {
    slowest_of_last(samples, usize::MAX)
}

/// [`slowest`] of the last `most` samples.
fn slowest_of_last(samples: &Samples, most: usize) -> Vec<f64> {
    let count = samples.iter().map(Vec::len).min().unwrap_or(0);
    let slowest = |i: usize| samples.iter().map(|rank| rank[i]).max().unwrap_or(0) as f64;
    (count.saturating_sub(most)..count).map(slowest).collect()
}

/// Runs a case once.
///
/// # Errors
/// The verdict, when a rank fails, dies or hangs.
pub fn launch_case(
    world: &mut dyn World,
    case: &Case,
    settings: &Settings,
    simulated: bool,
    progress: Progress<'_>,
) -> Result<Launch, Verdict> {
    let mut run =
        Run { world, case, settings, begun: Instant::now(), simulated, fits: None, launch: Launch::default() };
    run.launch.ready = run.world.prepare(case, run.left())?;
    run.compare_clocks()?;
    let first = run.launch.ready.iter().map(|ready| ready.wrong.clone()).collect::<Vec<_>>();
    run.launch.wrong.extend(first);
    run.launch.calls = run.calibrate(run.sample_ns())?;
    let warm = run.warm_up()?;
    let before = run.look_at_machine()?;
    run.lengthen(&warm, before.as_ref())?;
    let limit_before = run.limit()?;
    run.begin()?;
    run.sample_all(progress)?;
    run.compare_clocks()?;
    let checked = run.world.check(run.left())?;
    run.launch.wrong.extend(checked);
    let limit_after = run.limit()?;
    run.launch.limit_s = [limit_before, limit_after].into_iter().flatten().reduce(f64::min);
    run.launch.canaries = before.zip(run.look_at_machine()?);
    run.look_at_arrivals()?;
    let observed = run.world.finish(run.left())?;
    run.launch.missed_starts = observed.iter().map(|rank| rank.missed_starts).max().unwrap_or(0);
    run.launch.peak_bytes = observed.iter().map(|rank| rank.peak_bytes).max().unwrap_or(0);
    run.launch.details = observed.into_iter().map(|rank| rank.details).collect();
    let messages = run.launch.ready.iter().map(|ready| ready.messages).max().unwrap_or(1).max(1);
    run.launch.calls = run.launch.calls.saturating_mul(messages);
    run.launch.wall_s = run.begun.elapsed().as_secs_f64();
    Ok(run.launch)
}

struct Run<'a> {
    world: &'a mut dyn World,
    case: &'a Case,
    settings: &'a Settings,
    begun: Instant,
    simulated: bool,
    /// How each rank's clock runs against that of rank 0, by rank; None where all have one clock, or it is not known.
    fits: Option<Vec<Option<ClockFit>>>,
    launch: Launch,
}

impl Run<'_> {
    /// Time until the case's deadline.
    fn left(&self) -> Duration {
        self.settings.deadline().saturating_sub(self.begun.elapsed())
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
            // What was told before the samples is the less certain the longer they took.
            let apart = apart_ns(&fits, Clock::default().now_ns());
            self.launch.starts_apart_ns = Some(self.launch.starts_apart_ns.map_or(apart, |known| known.max(apart)));
        }
        Ok(taken)
    }

    /// Compares the clocks of hosts, where ranks are on several. An isolated case cannot go on without knowing them.
    fn compare_clocks(&mut self) -> Result<(), Verdict> {
        let Some(clocks) = self.world.clocks() else { return Ok(()) };
        // A doubt within the case is not forgotten.
        if self.launch.clocks.iter().all(|clock| clock.why.is_none()) {
            self.launch.clocks = clocks.recorded();
        }
        let fits = clocks.fits();
        self.fits = fits.clone().ok();
        match fits {
            Err(why) if self.settings.mode == Mode::Isolated => {
                let message = format!("`mode: isolated` needs to know how the clocks of all hosts run: {why}");
                Err(Verdict { kind: VerdictKind::Lacking, ranks: Vec::new(), message, hint: None })
            }
            _ => Ok(()),
        }
    }

    /// The number of calls that makes a sample long enough for the clock, grown from what it was.
    fn calibrate(&mut self, wanted: f64) -> Result<u32, Verdict> {
        if self.settings.mode == Mode::Isolated || self.in_steps() {
            return Ok(1);
        }
        let most = if self.settings.soaks() { u32::MAX / 2 } else { MAX_CALLS };
        let mut calls = self.launch.calls.max(1);
        loop {
            let taken = slowest(&self.take(3, calls)?);
            let each = stats::median(&taken) / f64::from(calls);
            // A computed time of zero stays zero, however often it is called.
            let timeless = self.simulated && each == 0.0;
            if each * f64::from(calls) >= wanted || calls == most || timeless {
                return Ok(calls);
            }
            // A little more than predicted, and at most a hundredfold: the first calls are slower than the rest.
            let predicted = (1.1 * wanted / each.max(0.01)).ceil().min(f64::from(calls) * 100.0);
            calls = (predicted as u32).clamp(calls + 1, most);
        }
    }

    /// Nanoseconds that a sample lasts at least.
    fn sample_ns(&self) -> f64 {
        let clock = SAMPLE_NS.max(CLOCK_READINGS * CLOCK_READING_NS);
        // The samples that are kept must span the whole time, however short a call is.
        let soak = self.settings.max_seconds * 1e9 / crate::settings::MAX_SAMPLES as f64 * 1.05;
        if self.settings.soaks() { clock.max(soak) } else { clock }
    }

    /// Whether calls are steps of one series.
    fn in_steps(&self) -> bool {
        self.launch.ready.iter().any(|ready| ready.steps)
    }

    /// Steps are sampled from the first one on: what warm-up trained is forgotten, and so is how well its starts agreed.
    fn begin(&mut self) -> Result<(), Verdict> {
        self.launch.starts_apart_ns = None;
        if self.in_steps() {
            self.world.probe(Probe::Begin, self.left())?;
        }
        Ok(())
    }

    /// More calls a sample where those of warm-up were too short: because calls are quicker now that they are warm (a
    /// library connects in its first ones), or because ranks leave the barrier before a sample at different times, which
    /// is part of every sample. Many barriers long, it hardly shows; one call of 64 KiB a sample took 3% too long with
    /// MPI. But a hundred samples must fit into the time there is.
    fn lengthen(&mut self, warm: &[f64], canary: Option<&Canary>) -> Result<(), Verdict> {
        let barriers = canary.map_or(0.0, |canary| BARRIERS * canary.barrier_ns);
        let wanted = self.sample_ns().max(barriers.min(self.settings.max_seconds * 1e9 / 100.0));
        if !warm.is_empty() && stats::median(warm) < ENOUGH * wanted {
            self.launch.calls = self.calibrate(wanted)?;
        }
        Ok(())
    }

    /// Until times are steady, or as often as was asked for. Nanoseconds of the last samples.
    fn warm_up(&mut self) -> Result<Vec<f64>, Verdict> {
        let calls = self.launch.calls;
        if let Some(samples) = self.settings.warmup {
            self.launch.steady = true;
            return if samples > 0 { Ok(slowest(&self.take(samples, calls)?)) } else { Ok(Vec::new()) };
        }
        // A tenth of the budget; at least one group, whatever it costs.
        let budget = 0.1 * self.settings.max_seconds.max(0.1);
        let (mut series, mut spent) = (Vec::new(), 0.0);
        loop {
            let group = slowest(&self.take(if series.is_empty() { 1 } else { 8 }, calls)?);
            spent += group.iter().sum::<f64>() / 1e9;
            series.extend(group);
            // Only what is recent counts: a long cold start must not be dragged along.
            let recent = &series[series.len().saturating_sub(64)..];
            self.launch.steady = stats::steady(recent);
            if self.launch.steady || spent >= budget || series.len() >= 512 {
                return Ok(recent.to_vec());
            }
        }
    }

    fn sample_all(&mut self, progress: Progress<'_>) -> Result<(), Verdict> {
        let begun = Instant::now();
        loop {
            let series = slowest(&self.launch.samples);
            let elapsed = self.elapsed(begun);
            progress(elapsed, self.settings.max_seconds);
            let more = match self.settings.iters {
                Some(iters) if series.len() >= iters as usize => return Ok(()),
                Some(iters) => iters as usize - series.len(),
                None => match self.settings.rule.decide(&series, elapsed, self.settings.max_seconds) {
                    Decision::Continue { more } => more,
                    Decision::Stop(_) if series.len() < FEWEST => FEWEST - series.len(),
                    Decision::Stop(reason) => {
                        self.launch.stopped = Some(reason);
                        return Ok(());
                    }
                },
            };
            self.take_more(more, begun, progress)?;
        }
    }

    /// Seconds of sampling. Simulated time passes only in samples; real time passes between them, too.
    fn elapsed(&self, begun: Instant) -> f64 {
        if self.simulated {
            slowest(&self.launch.samples).iter().sum::<f64>() / 1e9
        } else {
            begun.elapsed().as_secs_f64()
        }
    }

    /// Takes `more` samples in chunks, fewer when the budget ends meanwhile.
    fn take_more(&mut self, more: usize, begun: Instant, progress: Progress<'_>) -> Result<(), Verdict> {
        let mut left = more;
        while left > 0 {
            let known = slowest_of_last(&self.launch.samples, 64);
            let each = if known.is_empty() { f64::INFINITY } else { stats::median(&known) / 1e9 };
            let chunk = ((CHUNK_SECONDS / each) as usize).clamp(1, left);
            let taken = self.take(chunk as u32, self.launch.calls)?;
            self.launch.samples.resize(taken.len(), Vec::new());
            self.launch.samples.iter_mut().zip(taken).for_each(|(all, taken)| all.extend(taken));
            left -= chunk;
            let elapsed = self.elapsed(begun);
            let enough = self.launch.samples.first().is_some_and(|rank| rank.len() >= FEWEST);
            if self.settings.iters.is_none() && elapsed >= self.settings.max_seconds && enough {
                return Ok(());
            }
            if !self.simulated {
                progress(elapsed, self.settings.max_seconds);
            }
        }
        Ok(())
    }

    /// Seconds of the bare memory traffic: of each round the slowest rank counts, of the rounds the fastest.
    fn limit(&mut self) -> Result<Option<f64>, Verdict> {
        let traffic: u64 = self.launch.ready.iter().map(|ready| ready.traffic_bytes).sum();
        if !self.settings.limits || self.simulated || traffic < LIMIT_FROM_BYTES || self.in_steps() {
            return Ok(None);
        }
        let ranks = self.world.probe(Probe::Limit, self.left())?;
        let rounds = ranks.iter().map(Vec::len).min().unwrap_or(0);
        let slowest = (0..rounds).map(|round| ranks.iter().map(|rank| rank[round]).fold(0.0, f64::max));
        Ok(slowest.filter(|ns| *ns > 0.0).reduce(f64::min).map(|ns| ns / 1e9))
    }

    fn look_at_machine(&mut self) -> Result<Option<Canary>, Verdict> {
        if self.simulated {
            return Ok(None);
        }
        let ranks = self.world.probe(Probe::Canary, self.left())?;
        Ok(Some(Canary::new(&ranks, SystemCounters::read())))
    }

    fn look_at_arrivals(&mut self) -> Result<(), Verdict> {
        if self.in_steps() {
            return Ok(());
        }
        let each = self.launch.series();
        let seconds = if each.is_empty() { 0.0 } else { stats::median(&each) * f64::from(ARRIVALS) };
        // Where ranks may run ahead of each other (a broadcast's root), being last means nothing. And not for calls that
        // take long: the look would cost more than the case.
        let synchronises = self.case.word::<Collective>("op").is_some_and(Collective::synchronises);
        let worth_a_look = synchronises && self.launch.samples.len() > 1;
        let quick = seconds < 0.5 * self.settings.max_seconds.max(0.1);
        if self.settings.traced || (worth_a_look && quick) {
            let arrivals = self.world.probe(Probe::Arrivals { operations: ARRIVALS }, self.left())?;
            self.launch.arrivals = self.on_one_clock(arrivals)?;
        }
        Ok(())
    }

    /// These times by rank 0's clock, with what they may be off. None of them where clocks are not known.
    fn on_one_clock(&mut self, mut arrivals: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>, Verdict> {
        let begin = arrivals.first().and_then(|own| own.first()).copied();
        // Between the look before and this one, which they lie in, clocks are known best.
        self.compare_clocks()?;
        if self.launch.clocks.is_empty() {
            return Ok(arrivals);
        }
        let Some(fits) = &self.fits else { return Ok(vec![Vec::new(); arrivals.len()]) };
        for (times, fit) in arrivals.iter_mut().zip(fits) {
            let Some(fit) = fit else { continue };
            times.iter_mut().for_each(|time| *time = fit.here(*time as u64) as f64);
        }
        // Of rank 0, whose clock it is, and which the others are in an operation with.
        let end = arrivals.first().and_then(|own| own.last()).copied();
        let at = [begin, end].into_iter().flatten().map(|at| apart_ns(fits, at as u64));
        self.launch.arrivals_apart_ns = at.fold(0.0, f64::max);
        Ok(arrivals)
    }
}
