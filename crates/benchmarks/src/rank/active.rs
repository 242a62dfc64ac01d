//! The case at hand on a rank: its calls, what is between them, and how ranks meet and agree.

use comm::{Call, Communicator, Progress};
use contract::{RankContext, failure};
use measure::{AgreedStart, ClockFit, Failure, Timed, WrongReport};
use trace::Hook;

use super::Current;

/// How far ahead an agreed start lies, at least: well above the time that telling it takes in memory.
const START_AHEAD_NS: u64 = 50_000;
/// How far ahead an agreed start lies, at least, in times of telling it and meeting here: sockets, a paced or simulated link, and
/// ranks that sleep take longer than memory does.
const START_MARGIN: f64 = 4.0;

/// The case at hand with what it runs on.
pub(super) struct ActiveCase<'a> {
    pub(super) current: &'a mut Current,
    pub(super) context: &'a mut RankContext,
    pub(super) barrier: &'a Call,
    pub(super) start: &'a Call,
    pub(super) start_ahead_ns: &'a mut Option<u64>,
    pub(super) own_clock: Option<ClockFit>,
}

impl ActiveCase<'_> {
    pub(super) fn refill(&mut self) {
        self.current.prepared.refill();
        self.current.midway.refilled(self.current.calls);
        self.current.calls = 0;
    }

    /// Calls that may follow, at most `wanted`. Refills first if further results would not be exact.
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        if self.current.calls >= self.current.max_calls {
            self.refill();
        }
        let room = self.current.max_calls - self.current.calls;
        u32::try_from(room).unwrap_or(u32::MAX).min(wanted)
    }

    /// Compares what the batch that has just ended left, and refills, so that what is right then is not right at the next
    /// comparison. Collective.
    fn look_midway(&mut self) -> Result<(), Failure> {
        let clock = self.context.clock.clone();
        let begun_ns = clock.now_ns();
        let found = self.compare()?;
        self.current.midway.found(found);
        self.refill();
        let mut next = None;
        if !clock.is_fake() {
            // The rank that compares the longest counts.
            self.synchronise()?;
            let calls = self.current.midway.until_next(begun_ns, clock.now_ns());
            next = Some(tell(self.context, self.start, calls).map_err(failure)?);
        }
        self.current.midway.begin(next, clock.now_ns());
        Ok(())
    }

    /// What the calls since the last refill left, against what they must have left.
    pub(super) fn compare(&mut self) -> Result<WrongReport, Failure> {
        self.current.prepared.check(&mut *self.context.comm, self.current.calls)
    }

    /// How far ahead a start must lie, by the median of a few rounds of telling and meeting: one round in which a rank
    /// waited for a core must not slow all samples down. Collective; what rank 0 finds counts.
    fn measure_start_ahead(&mut self) -> Result<u64, Failure> {
        agreed_ahead(|| {
            let begin = self.context.clock.now_ns();
            tell(self.context, self.start, begin).map_err(failure)?;
            self.synchronise()?;
            Ok(self.context.clock.now_ns() - begin)
        })
    }
}

/// How far ahead starts are agreed on, where `round` tells and meets, and gives the nanoseconds that this took.
pub(crate) fn agreed_ahead<E>(mut round: impl FnMut() -> Result<u64, E>) -> Result<u64, E> {
    let mut rounds = [0.0; 9];
    for ns in &mut rounds {
        *ns = round()? as f64;
    }
    Ok(START_AHEAD_NS.max((START_MARGIN * stats::median(&rounds)) as u64))
}

/// Lets so many ns pass without giving the core up: a rank that sleeps would come late by much more.
pub(super) fn pause(clock: &trace::Clock, ns: u64) {
    let until = clock.now_ns() + ns;
    if clock.is_fake() {
        clock.advance_to(until);
    }
    while clock.now_ns() < until {
        std::hint::spin_loop();
    }
}

/// Whether this rank is the one whose word counts: rank 0, and of hosts that nothing connects the first of each.
pub(super) fn tells(context: &RankContext) -> bool {
    context.comm.shape().rank == 0
}

/// Rank 0's word goes to all ranks.
pub(super) fn tell(context: &mut RankContext, start: &Call, word: u64) -> comm::Result<u64> {
    let place = start.output.ptr().cast::<u64>();
    if tells(context) {
        // SAFETY: eight aligned bytes of the measuring code's own buffer; no operation is in flight.
        unsafe { place.write(word) };
    }
    let comm = control(&mut *context.comm);
    context.hook.quietly(|| comm.run(start))?;
    // SAFETY: as above; the broadcast has written them.
    Ok(unsafe { place.read() })
}

/// By whom ranks agree between calls: in memory of the host.
pub(super) fn control(comm: &mut dyn Communicator) -> &mut dyn Communicator {
    if comm.control().is_none() {
        return comm;
    }
    comm.control().expect("it was there just now")
}

pub(super) fn quiet_barrier(comm: &mut dyn Communicator, hook: &Hook, barrier: &Call) -> comm::Result<()> {
    hook.quietly(|| control(comm).run(barrier))
}

impl Timed for ActiveCase<'_> {
    type Error = Failure;

    #[inline]
    fn call(&mut self) -> Result<(), Failure> {
        self.current.calls += 1;
        self.current.prepared.run(&mut *self.context.comm)
    }

    fn drain(&mut self) -> Result<(), Failure> {
        self.current.prepared.drain(&mut *self.context.comm)
    }

    fn begin_beside(&mut self) -> Result<(), Failure> {
        self.current.beside = self.current.prepared.begin_beside()?;
        Ok(())
    }

    /// Only once all ranks have made their calls: what runs beside them runs on all of them until then.
    fn end_beside(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.current.beside) {
            return Ok(());
        }
        self.synchronise()?;
        self.current.prepared.end_beside()
    }

    fn compute_ns(&self) -> u64 {
        self.current.prepared.compute_ns()
    }

    fn past_ns(&self) -> Option<u64> {
        self.current.prepared.past_ns()
    }

    fn begin_device_time(&mut self) -> Result<(), Failure> {
        self.context.comm.begin_device_time().map_err(failure)
    }

    fn device_ns(&mut self) -> Result<Option<f64>, Failure> {
        self.context.comm.device_ns().map_err(failure)
    }

    fn launches(&self) -> bool {
        self.context.comm.shape().capabilities.progress == Progress::Device && self.current.prepared.launches()
    }

    fn synchronise(&mut self) -> Result<(), Failure> {
        quiet_barrier(&mut *self.context.comm, &self.context.hook, self.barrier).map_err(failure)
    }

    fn make_room(&mut self, wanted: u32) -> u32 {
        // What grows is compared at its end, before the refill; what stays the same after any call.
        let at_end = self.current.calls >= self.current.max_calls || self.current.max_calls == u64::MAX;
        if at_end && self.current.checks > 0 && self.current.midway.due(self.current.calls) {
            self.current.failed = self.look_midway().err().or(self.current.failed.take());
        }
        self.room(wanted)
    }

    fn agree_on_start(&mut self) -> Result<AgreedStart, Failure> {
        let ahead_ns = match *self.start_ahead_ns {
            Some(known) => known,
            None => {
                let measured = self.measure_start_ahead()?;
                *self.start_ahead_ns.insert(measured)
            }
        };
        let at_ns = self.context.clock.now_ns() + ahead_ns;
        let agreed = tell(self.context, self.start, at_ns).map_err(failure)?;
        Ok(AgreedStart { at_ns: self.own_clock.map_or(agreed, |clock| clock.there(agreed)) })
    }
}
