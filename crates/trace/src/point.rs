//! The operation point: what happens when a rank enters and leaves a collective.
//!
//! "Entered k" and "left k" are one relaxed store each to a slot of the status page, which the coordinator maps. The
//! same two calls feed the span ring and run injected faults, so that there is no second hook to forget.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use terms::{Collective, Named};

use crate::nvtx::Ranges;
use crate::timeline::Kind;
use crate::{Clock, Injection, InjectionKind, Ring, SlowBy, Span};

/// By how much a sleep may last longer than asked for: the kernel's timer slack, and the way back onto a core.
const LATE: Duration = Duration::from_micros(200);

/// One rank's slot on the status page. Shared with the coordinator; 128 bytes apart so that no two ranks share a line.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct StatusSlot {
    /// See [`OperationState::pack`].
    operation: AtomicU64,
    /// Counts up while the rank's heartbeat thread lives.
    heartbeat: AtomicU64,
    ping: PingLine,
}

/// A line of its own: what travels between two ranks must travel alone.
#[repr(C, align(128))]
#[derive(Debug, Default)]
struct PingLine(AtomicU64);

/// The slots of the status page, as one rank sees them; by itself a reference to the rank's own.
pub trait StatusPage: AsRef<StatusSlot> + Send + Sync {
    /// The slots of all ranks in the order of ranks. Those of other hosts hold only what is mirrored.
    fn slots(&self) -> Vec<&StatusSlot> {
        vec![self.as_ref()]
    }
}

/// What a rank is doing, as the status page tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationState {
    /// Counted from 0 in each case.
    pub number: u64,
    /// Which operation.
    pub operation: Collective,
    /// Inside it, or after it.
    pub inside: bool,
}

impl OperationState {
    /// number << 16 | (index of operation + 1) << 1 | inside. Zero: no operation yet.
    fn pack(self) -> u64 {
        // The discriminant is the index in `Collective::ALL`: both are in the order of declaration.
        let code = self.operation as u64 + 1;
        (self.number << 16) | (code << 1) | u64::from(self.inside)
    }

    fn unpack(word: u64) -> Option<Self> {
        let code = ((word >> 1) & 0x7fff) as usize;
        let operation = *Collective::ALL.get(code.checked_sub(1)?)?;
        Some(Self { number: word >> 16, operation, inside: word & 1 == 1 })
    }
}

impl StatusSlot {
    /// What the rank is doing; None before its first operation of the case.
    pub fn state(&self) -> Option<OperationState> {
        OperationState::unpack(self.operation.load(Ordering::Relaxed))
    }

    /// One more heartbeat.
    pub fn beat(&self) {
        self.heartbeat.fetch_add(1, Ordering::Relaxed);
    }

    /// Heartbeats so far.
    pub fn beats(&self) -> u64 {
        self.heartbeat.load(Ordering::Relaxed)
    }

    /// A word that two ranks of a host pass back and forth, to see how far apart their cores are. 0: this rank passes none, or
    /// is on another host.
    pub fn ping(&self) -> &AtomicU64 {
        &self.ping.0
    }

    /// What it holds, to be shown by a slot of another host's page.
    pub fn words(&self) -> [u64; 2] {
        [self.operation.load(Ordering::Relaxed), self.heartbeat.load(Ordering::Relaxed)]
    }

    /// Shows what the slot of another host's page held. Words that no rank writes show no operation.
    pub fn mirror(&self, [operation, heartbeat]: [u64; 2]) {
        self.operation.store(operation, Ordering::Relaxed);
        self.heartbeat.store(heartbeat, Ordering::Relaxed);
    }
}

/// The hook of one rank: every communicator call goes through [`Hook::enter`] and [`Hook::leave`].
pub struct Hook {
    rank: u32,
    clock: Clock,
    slot: Slot,
    next: AtomicU64,
    /// Set while the measuring code synchronises for itself: such operations are neither numbered nor injected into.
    quiet: AtomicBool,
    /// Fast exit: neither spans nor ranges nor injections are wanted, as in every timed sample of an ordinary run.
    plain: AtomicBool,
    /// Where a tool records NVTX.
    ranges: Option<&'static Ranges>,
    extras: Mutex<Extras>,
}

#[derive(Default)]
struct Extras {
    injections: Vec<Injection>,
    ring: Option<Ring>,
    entered_ns: u64,
    /// The range of the operation that was entered.
    range: u64,
}

/// A slot of this process's own, for ranks that no coordinator watches (tests, simulated worlds).
#[derive(Debug, Default)]
pub struct OwnSlot(StatusSlot);

impl AsRef<StatusSlot> for OwnSlot {
    fn as_ref(&self) -> &StatusSlot {
        &self.0
    }
}

impl StatusPage for OwnSlot {}

/// A slot with its address looked up once, because each call passes it twice.
struct Slot {
    at: NonNull<StatusSlot>,
    /// Keeps it where it is.
    owner: Arc<dyn StatusPage>,
}

// SAFETY: a slot is made of atomics, and its owner may go to and be seen by any thread.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl Slot {
    fn from_owner(owner: Arc<dyn StatusPage>) -> Self {
        Self { at: NonNull::from((*owner).as_ref()), owner }
    }

    #[inline]
    fn get(&self) -> &StatusSlot {
        // SAFETY: borrowed from the owner, which an `Arc` keeps where it is, is not dropped before this, and is lent to nobody
        // for changes: this holds a share of it that it gives to nobody.
        unsafe { self.at.as_ref() }
    }
}

impl Hook {
    /// A hook of `rank` that reports to `slot`.
    pub fn new(rank: u32, clock: Clock, slot: Arc<dyn StatusPage>) -> Self {
        Self {
            rank,
            clock,
            slot: Slot::from_owner(slot),
            next: AtomicU64::new(0),
            quiet: AtomicBool::new(false),
            plain: AtomicBool::new(true),
            ranges: None,
            extras: Mutex::default(),
        }
    }

    /// Tells operations to a tool, too.
    pub fn telling(mut self, ranges: Option<&'static Ranges>) -> Self {
        self.ranges = ranges;
        *self.plain.get_mut() = ranges.is_none();
        self
    }

    /// A new case: operations count from 0 again, and these faults are armed (those of other ranks are ignored).
    pub fn begin_case(&self, injections: &[Injection]) {
        self.next.store(0, Ordering::Relaxed);
        self.slot().operation.store(0, Ordering::Relaxed);
        let mut extras = self.extras();
        extras.injections = injections.iter().copied().filter(|injection| injection.rank == self.rank).collect();
        self.update_plain(&extras);
    }

    /// The status page that it reports to.
    pub fn page(&self) -> &dyn StatusPage {
        &*self.slot.owner
    }

    /// From now on operations are recorded as spans; None stops it. Returns the ring that recorded until now.
    pub fn record_into(&self, ring: Option<Ring>) -> Option<Ring> {
        let mut extras = self.extras();
        let before = std::mem::replace(&mut extras.ring, ring);
        self.update_plain(&extras);
        before
    }

    /// Runs `work` without counting its operations: they are the measuring code's own, not the case's.
    pub fn quietly<T>(&self, work: impl FnOnce() -> T) -> T {
        self.quiet.store(true, Ordering::Relaxed);
        let result = work();
        self.quiet.store(false, Ordering::Relaxed);
        result
    }

    /// The tool that receives ranges, if any.
    pub fn ranges(&self) -> Option<&'static Ranges> {
        self.ranges
    }

    /// Whether nothing is recorded and nothing injected.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.plain.load(Ordering::Relaxed)
    }

    /// Waits as injected at the beginning of this phase of step `step`, and gives the nanoseconds that it waited. `usual_ns`:
    /// what steps take without delays; zero while that is not known.
    #[cold]
    pub fn slow(&self, phase: Kind, step: u64, usual_ns: u64) -> u64 {
        let asked = |injection: &Injection| match injection.kind {
            InjectionKind::Slow { phase: at, by } if at == phase && injection.hits(step) => match by {
                SlowBy::Time(time) => time.0 * 1e9,
                SlowBy::Percent(percent) => usual_ns as f64 * percent / 100.0,
            },
            _ => 0.0,
        };
        let delay_ns: f64 = self.extras().injections.iter().map(asked).sum();
        if delay_ns < 1.0 {
            return 0;
        }
        let begun_ns = self.clock.now_ns();
        self.delay(Duration::from_nanos(delay_ns as u64));
        self.clock.now_ns() - begun_ns
    }

    /// Operations entered so far in this case.
    pub fn count(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// The rank is about to run an operation.
    #[inline]
    pub fn enter(&self, operation: Collective) {
        if self.quiet.load(Ordering::Relaxed) {
            return;
        }
        let number = self.next.load(Ordering::Relaxed);
        if !self.plain.load(Ordering::Relaxed) {
            self.before_entering(operation, number);
        }
        let state = OperationState { number, operation, inside: true };
        self.slot().operation.store(state.pack(), Ordering::Relaxed);
        if !self.plain.load(Ordering::Relaxed) {
            self.after_entering(number);
        }
    }

    /// The operation is complete on this rank. Returns the element to corrupt, when a `wrong` is armed for it.
    #[inline]
    pub fn leave(&self, operation: Collective, bytes: u64) -> Option<u64> {
        if self.quiet.load(Ordering::Relaxed) {
            return None;
        }
        let number = self.next.load(Ordering::Relaxed);
        let state = OperationState { number, operation, inside: false };
        self.slot().operation.store(state.pack(), Ordering::Relaxed);
        self.next.store(number + 1, Ordering::Relaxed);
        if self.plain.load(Ordering::Relaxed) { None } else { self.after_leaving(state, bytes) }
    }

    /// Runs `work`, in which this rank waits for its last operation, which was left before it was complete.
    pub fn wait_in<E>(&self, operation: Collective, work: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        if self.quiet.load(Ordering::Relaxed) {
            return work();
        }
        let number = self.next.load(Ordering::Relaxed).saturating_sub(1);
        let show = |inside| {
            let state = OperationState { number, operation, inside };
            self.slot().operation.store(state.pack(), Ordering::Relaxed);
        };
        show(true);
        // On an error the page goes on telling where the rank was when it failed.
        work()?;
        show(false);
        Ok(())
    }

    #[inline]
    fn slot(&self) -> &StatusSlot {
        self.slot.get()
    }

    fn extras(&self) -> MutexGuard<'_, Extras> {
        self.extras.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn update_plain(&self, extras: &Extras) {
        let plain = extras.injections.is_empty() && extras.ring.is_none() && self.ranges.is_none();
        self.plain.store(plain, Ordering::Relaxed);
    }

    /// Waits so long and hardly longer: a sleep alone lasts up to [`LATE`] longer than asked for, which is more than a small
    /// planted change.
    fn wait(&self, delay: Duration) {
        let end = self.clock.now_ns() + delay.as_nanos() as u64;
        if let Some(asleep) = delay.checked_sub(LATE) {
            std::thread::sleep(asleep);
        }
        // Not a bare loop: where ranks outnumber cores, it would delay the others, too.
        while self.clock.now_ns() < end {
            std::thread::yield_now();
        }
    }

    fn delay(&self, delay: Duration) {
        match &self.clock {
            Clock::Fake(_) => self.clock.advance(delay.as_nanos() as u64),
            Clock::Monotonic => self.wait(delay),
        }
    }

    #[cold]
    fn before_entering(&self, operation: Collective, number: u64) {
        let delay: f64 = {
            let extras = self.extras();
            let delays = extras.injections.iter().filter(|injection| injection.hits(number));
            delays.map(|injection| if let InjectionKind::Delay(time) = injection.kind { time.0 } else { 0.0 }).sum()
        };
        if delay > 0.0 {
            self.delay(Duration::from_secs_f64(delay));
        }
        let mut extras = self.extras();
        if let Some(ranges) = self.ranges {
            extras.range = ranges.start(operation, number);
        }
        extras.entered_ns = self.clock.now_ns();
    }

    #[cold]
    fn after_entering(&self, number: u64) {
        let signal = self.extras().injections.iter().filter(|injection| injection.hits(number)).find_map(|injection| {
            match injection.kind {
                InjectionKind::Kill => Some(libc::SIGKILL),
                InjectionKind::Stop => Some(libc::SIGSTOP),
                _ => None,
            }
        });
        if let Some(signal) = signal {
            // SAFETY: a signal to this very process, which is what the user asked for.
            unsafe { libc::kill(libc::getpid(), signal) };
        }
    }

    #[cold]
    fn after_leaving(&self, state: OperationState, bytes: u64) -> Option<u64> {
        let mut extras = self.extras();
        let (begin_ns, end_ns) = (extras.entered_ns, self.clock.now_ns());
        if let Some(ranges) = self.ranges {
            ranges.end(std::mem::take(&mut extras.range));
        }
        if let Some(ring) = &mut extras.ring {
            ring.push(Span { operation: state.operation, number: state.number, bytes, begin_ns, end_ns });
        }
        extras.injections.iter().filter(|injection| injection.hits(state.number)).find_map(|injection| {
            if let InjectionKind::Wrong { element } = injection.kind { Some(element) } else { None }
        })
    }
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook").field("rank", &self.rank).field("next", &self.next).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook() -> (Hook, Arc<OwnSlot>, Clock) {
        let (slot, clock) = (Arc::new(OwnSlot::default()), Clock::fake());
        (Hook::new(1, clock.clone(), slot.clone()), slot, clock)
    }

    #[test]
    fn status_page_tells_entered_and_left() {
        let (hook, slot, _) = hook();
        assert_eq!((*slot).as_ref().state(), None);
        hook.enter(Collective::AllReduce);
        let inside = OperationState { number: 0, operation: Collective::AllReduce, inside: true };
        assert_eq!((*slot).as_ref().state(), Some(inside));
        hook.leave(Collective::AllReduce, 4);
        assert_eq!((*slot).as_ref().state(), Some(OperationState { inside: false, ..inside }));
        hook.enter(Collective::Barrier);
        assert_eq!((*slot).as_ref().state().map(|state| (state.number, state.inside)), Some((1, true)));
        hook.begin_case(&[]);
        assert_eq!((*slot).as_ref().state(), None);
    }

    #[test]
    fn a_mirror_shows_what_its_original_does() {
        let (hook, slot, _) = hook();
        hook.enter(Collective::AllGather);
        (*slot).as_ref().beat();
        let mirror = StatusSlot::default();
        mirror.mirror((*slot).as_ref().words());
        assert_eq!((mirror.state(), mirror.beats()), ((*slot).as_ref().state(), 1));
        assert!(mirror.state().is_some());
        mirror.mirror([u64::MAX, 0]);
        assert_eq!(mirror.state(), None, "no operation has that number");
    }

    #[test]
    fn every_operation_is_read_back() {
        for operation in Collective::ALL {
            let state = OperationState { number: 1 << 40, operation: *operation, inside: true };
            assert_eq!(OperationState::unpack(state.pack()), Some(state));
        }
    }

    #[test]
    fn injections_hit_their_rank_and_operation_only() {
        let (hook, _, clock) = hook();
        let armed =
            ["delay:rank=1,time=5us,at=1,every=0", "wrong:rank=1,element=9,at=1,every=0", "delay:rank=0,time=1s"];
        hook.begin_case(&armed.map(|text| text.parse().unwrap()));
        let mut wrong = Vec::new();
        for _ in 0..3 {
            hook.enter(Collective::AllReduce);
            wrong.push(hook.leave(Collective::AllReduce, 4));
        }
        assert_eq!(clock.now_ns(), 5_000);
        assert_eq!(wrong, [None, Some(9), None]);
    }

    #[test]
    fn spans_are_recorded_while_a_ring_is_there() {
        let (hook, _, clock) = hook();
        hook.record_into(Some(Ring::new(2)));
        for _ in 0..3 {
            hook.enter(Collective::Barrier);
            clock.advance(10);
            hook.leave(Collective::Barrier, 0);
        }
        let ring = hook.record_into(None).unwrap();
        assert_eq!(ring.spans().map(|span| (span.number, span.end_ns)).collect::<Vec<_>>(), [(1, 20), (2, 30)]);
        assert_eq!(ring.lost(), 1);
        hook.enter(Collective::Barrier);
        assert_eq!(hook.leave(Collective::Barrier, 0), None);
    }
}
