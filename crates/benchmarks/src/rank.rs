//! The rank's side of any benchmark: obeys the coordinator's commands.

mod active;
mod canary;
mod limit;
mod open;

use std::collections::BTreeMap;
use std::sync::Arc;

use comm::{Call, Devices};
use contract::{Prepared, RankContext, Sampling, Work, failure};
use device::Slice;
use measure::{
    ClockFit, Command, Failure, Launches, Observations, Probe, RankSide, Ready, Reply, SampleRequest, StepTimes, Timed,
    WrongReport, take,
};
use record::Case;
use terms::{Collective, Direction, Dtype, Reduce, Space};
use trace::{Hook, Injection, Ring};

use crate::midway::{Midway, add};
use crate::parse;
pub(crate) use active::agreed_ahead;
use active::{ActiveCase, control, pause, quiet_barrier, tell, tells};

pub use open::open_rank;

/// One rank, ready for commands.
pub struct RankWork {
    context: RankContext,
    barrier: Call,
    start: Call,
    /// How far ahead starts are agreed on; None until it was first needed.
    start_ahead_ns: Option<u64>,
    /// How this rank's clock runs against that of rank 0; None where it is the same.
    own_clock: Option<ClockFit>,
    pings: canary::Pings,
    current: Option<Current>,
}

/// The case at hand.
struct Current {
    prepared: Box<dyn Prepared>,
    max_calls: u64,
    /// Calls since inputs were last filled.
    calls: u64,
    /// Calls that a check looks at from fresh inputs.
    checks: u32,
    /// Copies of the buffers that calls rotate through.
    copies: u64,
    midway: Midway,
    /// Why a comparison in the middle could not be made.
    failed: Option<Failure>,
    missed_starts: u64,
    launches: Launches,
    /// Seconds of a call in each sample, by the device's clock.
    device_s: Vec<f64>,
    /// Passes of a round of the limit probe, by variant, and rounds so far: the same on all ranks.
    passes: BTreeMap<u32, u32>,
    rounds: u32,
    /// Whether something runs beside the calls.
    beside: bool,
    /// Calls of the last sample.
    sampled: u32,
}

impl RankWork {
    /// A rank with an open communicator. Collective.
    ///
    /// # Errors
    /// When not even the measuring code's own few bytes can be had.
    pub fn new(mut context: RankContext) -> Result<Self, Failure> {
        canary::announce(context.hook.page().as_ref());
        let region = control(&mut *context.comm).alloc(64, Space::Host).map_err(failure)?;
        let word = region.slice(0, 8).ok_or_else(|| Failure::new("the measuring code's own buffer is too small"))?;
        let empty = region.slice(0, 0).ok_or_else(|| Failure::new("the measuring code's own buffer is too small"))?;
        let call = |op, input: &Slice, output: &Slice| Call {
            op,
            input: input.clone(),
            output: output.clone(),
            dtype: Dtype::I64,
            reduce: Reduce::Sum,
            peer: 0,
            direction: Direction::OneWay,
            counts: None,
        };
        let barrier = call(Collective::Barrier, &empty, &empty);
        let input = if tells(&context) { &word } else { &empty };
        let start = call(Collective::Broadcast, input, &word);
        Ok(Self {
            context,
            barrier,
            start,
            start_ahead_ns: None,
            own_clock: None,
            pings: canary::Pings::default(),
            current: None,
        })
    }

    fn prepare(&mut self, case: &Case, check: bool) -> Result<Ready, Failure> {
        self.current = None;
        let sampling = Sampling::of(case)?;
        let injections: Result<Vec<Injection>, String> = sampling.inject.iter().map(|text| text.parse()).collect();
        let prepared = parse(case)?.prepare(&mut self.context)?;
        self.context.hook.begin_case(&injections.map_err(Failure::new)?);
        let work = prepared.work();
        let path = prepared.path(&*self.context.comm);
        let (limits, records) = (prepared.limits(), prepared.records());
        let (max_calls, passes) = (work.max_calls, BTreeMap::new());
        self.current = Some(Current {
            prepared,
            max_calls,
            calls: 0,
            checks: work.checks,
            copies: work.copies.max(1),
            midway: Midway::default(),
            failed: None,
            missed_starts: 0,
            launches: Launches::default(),
            device_s: Vec::new(),
            passes,
            rounds: 0,
            beside: false,
            sampled: 1,
        });
        let wrong = if check { self.check()? } else { WrongReport::default() };
        let max_calls = if work.max_calls == u64::MAX { 0 } else { work.max_calls };
        let Work { traffic_bytes, flops, messages, steps, group, sample_ns, .. } = work;
        let Devices { emulated, shared: shared_device, .. } = self.context.comm.devices();
        Ok(Ready {
            traffic_bytes,
            flops,
            max_calls,
            messages,
            steps,
            records,
            path,
            wrong,
            limits,
            group,
            sample_ns,
            modelled: false,
            left_out: 0,
            constant: false,
            emulated,
            shared_device,
        })
    }

    fn sample(&mut self, request: SampleRequest) -> Result<Vec<u64>, Failure> {
        let clock = self.context.clock.clone();
        let taken = take(&clock, &mut self.running()?, request)?;
        if let Some(current) = &mut self.current {
            current.missed_starts += taken.missed_starts;
            current.launches.add(taken.launches);
            let calls = f64::from(request.calls) * f64::from(current.prepared.work().messages.max(1));
            current.device_s.extend(taken.device_ns.iter().map(|ns| ns / 1e9 / calls));
            current.sampled = request.calls;
            if let Some(failed) = current.failed.take() {
                return Err(failed);
            }
        }
        Ok(taken.ns)
    }

    /// Checks what the last calls left; then, from fresh inputs and outputs, what one call does (one in each copy of the
    /// buffers): a call that did nothing would leave the right result of the call before it.
    fn check(&mut self) -> Result<WrongReport, Failure> {
        let mut running = self.running()?;
        let mut report = running.current.midway.take();
        if running.current.calls > 0 {
            running.synchronise()?;
            add(&mut report, running.compare()?);
        }
        for _ in 0..running.current.checks {
            running.refill();
            running.begin_beside()?;
            running.synchronise()?;
            for _ in 0..running.current.copies {
                running.call()?;
            }
            running.drain()?;
            running.end_beside()?;
            running.synchronise()?;
            add(&mut report, running.compare()?);
        }
        if running.current.checks > 0 {
            running.refill();
        }
        Ok(report)
    }

    fn probe(&mut self, probe: Probe) -> Result<Vec<f64>, Failure> {
        let found = self.run_probe(probe)?;
        // A comparison between the batches of the probe may have failed.
        match self.current.as_mut().and_then(|current| current.failed.take()) {
            Some(failed) => Err(failed),
            None => Ok(found),
        }
    }

    fn run_probe(&mut self, probe: Probe) -> Result<Vec<f64>, Failure> {
        match probe {
            Probe::Canary => self.canary(),
            Probe::Limit { variant, rounds } => self.limit(variant, rounds),
            Probe::Arrivals { operations, stagger_ns } => self.arrivals(operations, stagger_ns),
            Probe::Overhead => Ok(self.overhead()),
            Probe::Steps { steps, record } => self.steps(steps, record).map(|_| Vec::new()),
            Probe::Begin => {
                self.running()?.refill();
                Ok(Vec::new())
            }
        }
    }

    /// ns of a barrier, over so many.
    fn barriers(&mut self, count: u32) -> Result<f64, Failure> {
        let clock = self.context.clock.clone();
        let begin = clock.now_ns();
        for _ in 0..count {
            quiet_barrier(&mut *self.context.comm, &self.context.hook, &self.barrier).map_err(failure)?;
        }
        Ok((clock.now_ns() - begin) as f64 / f64::from(count))
    }

    /// Rank 0's word goes to all ranks.
    fn tell(&mut self, word: u64) -> Result<u64, Failure> {
        tell(&mut self.context, &self.start, word).map_err(failure)
    }

    fn arrivals(&mut self, operations: u32, stagger_ns: u64) -> Result<Vec<f64>, Failure> {
        let (clock, rank, ranks) = (self.context.clock.clone(), self.context.rank, self.context.ranks);
        self.context.hook.record_into(Some(Ring::new(operations as usize)));
        let mut running = self.running()?;
        let mut left = operations;
        while left > 0 {
            let batch = running.make_room(left);
            running.synchronise()?;
            for operation in operations - left..operations - left + batch {
                if stagger_ns > 0 && operation % ranks == rank {
                    pause(&clock, stagger_ns);
                }
                running.call()?;
            }
            running.drain()?;
            left -= batch;
        }
        let ring = self.context.hook.record_into(None);
        Ok(ring.iter().flat_map(Ring::spans).flat_map(|span| [span.begin_ns as f64, span.end_ns as f64]).collect())
    }

    fn steps(&mut self, steps: u32, record: bool) -> Result<StepTimes, Failure> {
        let running = self.running()?;
        running.current.prepared.steps(&mut *running.context.comm, steps, record)
    }

    fn take_clock(&mut self, clocks: &[Option<ClockFit>]) -> Result<Vec<f64>, Failure> {
        let own = clocks.get(self.context.rank as usize);
        self.own_clock = *own.ok_or_else(|| Failure::new("nothing is said of this rank's clock"))?;
        Ok(Vec::new())
    }

    /// `[ns of an empty sample, ns that the hook adds to a call]`.
    fn overhead(&self) -> Vec<f64> {
        const ROUNDS: u32 = 1000;
        let clock = &self.context.clock;
        let empty: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let begin = clock.now_ns();
                (clock.now_ns() - begin) as f64
            })
            .collect();
        let hook = Hook::new(0, clock.clone(), Arc::new(trace::OwnSlot::default()));
        // The median of bursts counts: a burst in which the rank lost its core says nothing.
        let burst = |_| {
            let begin = clock.now_ns();
            for _ in 0..ROUNDS {
                std::hint::black_box(&hook).enter(Collective::Barrier);
                std::hint::black_box(hook.leave(Collective::Barrier, 0));
            }
            (clock.now_ns() - begin) as f64 / f64::from(ROUNDS)
        };
        let bursts: Vec<f64> = (0..21).map(burst).collect();
        vec![stats::median(&empty), stats::median(&bursts)]
    }

    fn observe(&mut self) -> Observations {
        let details = self.current.as_mut().map(|current| current.prepared.details()).unwrap_or_default();
        Observations {
            peak_bytes: peak_bytes(),
            operations: self.context.hook.count(),
            missed_starts: self.current.as_ref().map_or(0, |current| current.missed_starts),
            launch_s: self.current.as_ref().and_then(|current| current.launches.mean_s()),
            device_s: self.current.as_ref().and_then(|current| measure::device_times::of_samples(&current.device_s)),
            library_bytes: self.context.comm.library_bytes(),
            details,
        }
    }

    fn finish(&mut self) -> Observations {
        let observed = self.observe();
        self.current = None;
        observed
    }

    fn running(&mut self) -> Result<ActiveCase<'_>, Failure> {
        let current = self.current.as_mut().ok_or_else(|| Failure::new("no case is prepared"))?;
        Ok(ActiveCase {
            current,
            context: &mut self.context,
            barrier: &self.barrier,
            start: &self.start,
            start_ahead_ns: &mut self.start_ahead_ns,
            own_clock: self.own_clock,
        })
    }
}

impl RankSide for RankWork {
    fn obey(&mut self, command: &Command) -> Reply {
        let reply = match command {
            Command::Prepare { case, check } => self.prepare(case, *check).map(Reply::Ready),
            Command::Sample(request) => self.sample(*request).map(Reply::Samples),
            Command::Check => self.check().map(Reply::Checked),
            Command::Probe(Probe::Steps { steps, record }) => self.steps(*steps, *record).map(Reply::Steps),
            Command::Probe(probe) => self.probe(*probe).map(Reply::Numbers),
            Command::Clocks(clocks) => self.take_clock(clocks).map(Reply::Numbers),
            Command::Observe => Ok(Reply::Finished(self.observe())),
            Command::Finish => Ok(Reply::Finished(self.finish())),
        };
        reply.unwrap_or_else(Reply::Failed)
    }
}

/// Voluntary and involuntary context switches of this process so far, and its processor time in ns.
fn own_usage() -> [f64; 3] {
    // SAFETY: `rusage` is plain data, for which all zeros are valid; the pointer is valid for the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| 1e9 * time.tv_sec as f64 + 1e3 * time.tv_usec as f64;
    [usage.ru_nvcsw as f64, usage.ru_nivcsw as f64, ns(usage.ru_utime) + ns(usage.ru_stime)]
}

/// The most memory that this process held (VmHWM of /proc/self/status); zero where the system does not tell.
pub(crate) fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}
