//! Spans of training steps, as a rank records them, and the places where `--inject delay:phase=` waits.
//!
//! Recording takes one clock reading that the step needs anyway, and one store into memory that was allocated before: no lock
//! and no allocation. Names and sizes of exchanges are recorded once, next to the spans.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use terms::{Collective, Named};

use crate::descheduled::Descheduled;
use crate::nvtx::Ranges;
use crate::timeline::{CollectiveCall, Kind, NO_CALL, RankTimeline, SOURCE, Timeline, synchronises};
use crate::{Clock, Hook};

/// Steps that tell, by their median, how long a step takes without an injected delay.
const USUAL: usize = 9;
/// Steps that must be known before a share of a step is a time.
const FEWEST: usize = 3;

/// One span of a rank, by its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Packed", into = "Packed")]
pub struct Mark {
    /// What it is.
    pub kind: Kind,
    /// For a step, a phase, a wait, an exchange: the step's number. For a block: its place in the model.
    pub number: u32,
    /// Beginning, in nanoseconds.
    pub begin_ns: u64,
    /// End, in nanoseconds.
    pub end_ns: u64,
    /// Which of the exchanges of a step, or `NO_CALL`.
    pub exchange: u32,
}

/// A mark on its way: without names, because there are many.
type Packed = (u8, u32, u64, u64, u32);

impl From<Packed> for Mark {
    fn from((kind, number, begin_ns, end_ns, exchange): Packed) -> Self {
        let kind = Kind::ALL.get(kind as usize).copied().unwrap_or(Kind::Host);
        Self { kind, number, begin_ns, end_ns: end_ns.max(begin_ns), exchange }
    }
}

impl From<Mark> for Packed {
    fn from(mark: Mark) -> Self {
        let kind = Kind::ALL.iter().position(|kind| *kind == mark.kind).unwrap_or_default() as u8;
        (kind, mark.number, mark.begin_ns, mark.end_ns, mark.exchange)
    }
}

/// What is known of an exchange before it happens; the same in every step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangeNote {
    /// Which operation.
    pub operation: Collective,
    /// Which communicator, named alike on all its ranks.
    pub group: String,
    /// Number of ranks of the communicator.
    pub ranks: u32,
    /// S of the operation.
    pub bytes: u64,
    /// Place of the exchange among those of its communicator in a step, and how many those are.
    pub place: u32,
    /// See `place`.
    pub in_step: u32,
    /// Whether no rank can leave before all have entered.
    pub synchronises: bool,
}

/// What one rank recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankSteps {
    /// In the order of their ends.
    pub marks: Vec<Mark>,
    /// Marks for which there was no room.
    pub lost: u64,
    /// What `Mark::exchange` points to.
    pub exchanges: Vec<ExchangeNote>,
    /// Steps by number, and how many nanoseconds the step's thread waited for a processor in each, but for waits for
    /// communication; empty where the kernel does not count that.
    #[serde(default)]
    pub descheduled: Vec<(u32, u64)>,
}

/// The recorder of one rank's steps.
#[derive(Debug)]
pub struct StepRecorder {
    clock: Clock,
    hook: Option<Arc<Hook>>,
    ring: Option<MarkRing>,
    /// Steps begun since the case began.
    steps: u64,
    begun_ns: u64,
    /// What was injected into the step so far.
    waited_ns: u64,
    /// Phases that the step has entered: the first entry counts. A bit each.
    entered: u16,
    /// Durations of the last steps without what was injected.
    recent: [u64; USUAL],
    known: usize,
    /// Where a tool records NVTX, and whether it has a phase that has not ended.
    ranges: Option<&'static Ranges>,
    in_phase: bool,
    /// Stretches inside of the phase that have not ended.
    inside: u32,
}

/// The newest marks.
#[derive(Debug)]
struct MarkRing {
    marks: Vec<Mark>,
    room: usize,
    next: usize,
    lost: u64,
    thread: Option<Descheduled>,
    /// What the step has of it so far.
    descheduled_ns: u64,
    descheduled: Vec<(u32, u64)>,
}

impl MarkRing {
    fn push(&mut self, mark: Mark) {
        if self.marks.len() < self.room {
            self.marks.push(mark);
            return;
        }
        self.marks[self.next] = mark;
        self.next = (self.next + 1) % self.room;
        self.lost += 1;
    }

    /// Counts how long the thread waited for a processor in what ends now. While it waits for communication, that costs nothing:
    /// threads of one rank may share a processor then.
    fn count(&mut self, kind: Kind, number: u32) {
        let Some(thread) = &mut self.thread else { return };
        match kind {
            Kind::Wait => drop(thread.take_ns()),
            Kind::Input | Kind::Forward | Kind::Backward | Kind::Optimizer => self.descheduled_ns += thread.take_ns(),
            Kind::Step => {
                let all_ns = std::mem::take(&mut self.descheduled_ns) + thread.take_ns();
                if self.descheduled.len() < self.descheduled.capacity() {
                    self.descheduled.push((number, all_ns));
                }
            }
            _ => {}
        }
    }
}

impl Default for StepRecorder {
    fn default() -> Self {
        Self::new(Clock::Monotonic, None)
    }
}

impl StepRecorder {
    /// A recorder that records nothing yet. Without a hook, nothing is ever injected.
    pub fn new(clock: Clock, hook: Option<Arc<Hook>>) -> Self {
        let ranges = hook.as_ref().and_then(|hook| hook.ranges());
        Self {
            clock,
            hook,
            ring: None,
            steps: 0,
            begun_ns: 0,
            waited_ns: 0,
            entered: 0,
            recent: [0; USUAL],
            known: 0,
            ranges,
            in_phase: false,
            inside: 0,
        }
    }

    /// From now on up to `room` marks are kept, the newest, and for up to `steps` steps how long the calling thread waits for
    /// a processor outside of waits for communication.
    pub fn record(&mut self, room: usize, steps: usize) {
        let room = room.max(1);
        self.ring = Some(MarkRing {
            marks: Vec::with_capacity(room),
            room,
            next: 0,
            lost: 0,
            thread: Descheduled::of_this_thread(),
            descheduled_ns: 0,
            descheduled: Vec::with_capacity(steps),
        });
    }

    /// What was recorded, oldest first, but for the exchanges. Nothing is recorded from now on.
    pub fn take(&mut self) -> RankSteps {
        let Some(mut ring) = self.ring.take() else { return RankSteps::default() };
        ring.marks.rotate_left(ring.next);
        RankSteps { marks: ring.marks, lost: ring.lost, exchanges: Vec::new(), descheduled: ring.descheduled }
    }

    /// Whether somebody wants to know of blocks.
    pub fn wants_blocks(&self) -> bool {
        self.ring.is_some() || self.ranges.is_some()
    }

    /// The clock's nanoseconds.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// The case begins again: steps count from 0.
    pub fn reset(&mut self) {
        (self.steps, self.known) = (0, 0);
    }

    /// A step begins. Its beginning.
    pub fn begin(&mut self) -> u64 {
        (self.waited_ns, self.entered) = (0, 0);
        if let Some(thread) = self.ring.as_mut().and_then(|ring| ring.thread.as_mut()) {
            thread.take_ns();
        }
        if let Some(ranges) = self.ranges {
            ranges.push(Kind::Step, self.steps);
        }
        self.begun_ns = self.now_ns();
        self.begun_ns
    }

    /// Tells a tool, where there is one, that a stretch begins which ends by [`StepRecorder::close`].
    #[inline]
    pub fn open(&mut self, kind: Kind, number: u64) {
        if let Some(ranges) = self.ranges {
            ranges.push(kind, number);
            self.inside += 1;
        }
    }

    /// Ends the innermost stretch that a tool has.
    #[inline]
    pub fn close(&mut self) {
        if let Some(ranges) = self.ranges {
            ranges.pop();
            self.inside = self.inside.saturating_sub(1);
        }
    }

    /// Phases follow one another: one ends where the next begins. One that begins inside of a block (a block that is computed
    /// again) is part of the phase around it, because ranges of a thread nest.
    fn change_phase(&mut self, phase: Option<Kind>) {
        let Some(ranges) = self.ranges.filter(|_| self.inside == 0) else { return };
        if self.in_phase {
            ranges.pop();
        }
        if let Some(phase) = phase {
            ranges.push(phase, self.steps);
        }
        self.in_phase = phase.is_some();
    }

    /// The number of the step that runs, from 0.
    pub fn step(&self) -> u32 {
        u32::try_from(self.steps).unwrap_or(u32::MAX)
    }

    /// The rank enters a phase of the step: here it is late if that was asked for.
    #[inline]
    pub fn enter(&mut self, phase: Kind) {
        self.change_phase(Some(phase));
        let Some(hook) = &self.hook else { return };
        let bit = 1 << phase as u16;
        if hook.is_plain() || self.entered & bit != 0 {
            return;
        }
        self.entered |= bit;
        self.waited_ns += hook.slow(phase, self.steps, self.usual_ns());
    }

    /// Runs `work`, in which this rank waits for a device whose last exchange this was, if there was any: the status page tells.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn wait_in<E>(&self, exchange: Option<Collective>, work: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        match (&self.hook, exchange) {
            (Some(hook), Some(exchange)) => hook.wait_in(exchange, work),
            _ => work(),
        }
    }

    /// A span has ended.
    #[inline]
    pub fn mark(&mut self, kind: Kind, begin_ns: u64, end_ns: u64) {
        self.mark_with(kind, self.step(), begin_ns, end_ns, NO_CALL);
    }

    /// A span has ended that has a number of its own, or belongs to an exchange.
    #[inline]
    pub fn mark_with(&mut self, kind: Kind, number: u32, begin_ns: u64, end_ns: u64, exchange: u32) {
        if let Some(ring) = &mut self.ring {
            ring.push(Mark { kind, number, begin_ns, end_ns, exchange });
            ring.count(kind, number);
        }
    }

    /// The step ends. Its end.
    pub fn end(&mut self) -> u64 {
        let now_ns = self.now_ns();
        if let Some(ranges) = self.ranges {
            self.change_phase(None);
            ranges.pop();
        }
        self.mark(Kind::Step, self.begun_ns, now_ns);
        self.recent[self.known % USUAL] = (now_ns - self.begun_ns).saturating_sub(self.waited_ns);
        self.known += 1;
        self.steps += 1;
        now_ns
    }

    /// How long a step takes without what was injected; zero while that is not known.
    fn usual_ns(&self) -> u64 {
        if self.known < FEWEST {
            return 0;
        }
        let mut recent = self.recent;
        let recent = &mut recent[..self.known.min(USUAL)];
        recent.sort_unstable();
        recent[recent.len() / 2]
    }
}

/// The spans of all ranks by one clock, as a timeline. `to_one_clock` translates a rank's time.
pub fn timeline(
    ranks: &[RankSteps],
    clock_error_ns: Option<u64>,
    to_one_clock: impl Fn(usize, u64) -> u64,
) -> Timeline {
    let mut timeline = Timeline { source: SOURCE.to_owned(), clock_error_ns, ..Timeline::default() };
    timeline.world = u32::try_from(ranks.len()).ok();
    for (rank, steps) in ranks.iter().enumerate() {
        let mut own = RankTimeline { rank: rank as u32, lost: steps.lost, ..RankTimeline::default() };
        own.descheduled.clone_from(&steps.descheduled);
        for mark in &steps.marks {
            let at = |ns: u64| i64::try_from(to_one_clock(rank, ns)).unwrap_or(i64::MAX);
            let (begin_ns, end_ns) = (at(mark.begin_ns), at(mark.end_ns));
            match steps.exchanges.get(mark.exchange as usize).filter(|_| mark.kind == Kind::Collective) {
                Some(note) => {
                    let call = call_of(note, mark.number, &mut timeline);
                    own.push_call(1, begin_ns, end_ns, call);
                }
                None => own.push(mark.kind, timeline.names.intern(mark.kind.name()), mark.number, begin_ns, end_ns),
            }
        }
        own.sort();
        timeline.ranks.push(own);
    }
    timeline
}

fn call_of(note: &ExchangeNote, step: u32, timeline: &mut Timeline) -> CollectiveCall {
    CollectiveCall {
        operation: timeline.names.intern(note.operation.name()),
        group: timeline.names.intern(&note.group),
        sequence: Some(u64::from(step) * u64::from(note.in_step) + u64::from(note.place)),
        ranks: Some(note.ranks),
        bytes: Some(note.bytes),
        input_bytes: None,
        dtype: None,
        synchronises: note.synchronises && synchronises(note.operation.name()),
        first_byte_ns: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OwnSlot;

    fn recorder(inject: &str) -> (StepRecorder, Clock) {
        let clock = Clock::fake();
        let hook = Arc::new(Hook::new(1, clock.clone(), Arc::new(OwnSlot::default())));
        hook.begin_case(&[inject.parse().unwrap()]);
        (StepRecorder::new(clock.clone(), Some(hook)), clock)
    }

    /// A step of a millisecond of forward and a millisecond of backward.
    fn step(recorder: &mut StepRecorder, clock: &Clock) -> u64 {
        let begun = recorder.begin();
        for phase in [Kind::Forward, Kind::Backward] {
            let since = recorder.now_ns();
            recorder.enter(phase);
            clock.advance(1_000_000);
            recorder.mark(phase, since, recorder.now_ns());
        }
        recorder.end() - begun
    }

    #[test]
    fn a_share_of_a_step_is_of_the_step_without_the_delay() {
        let (mut recorder, clock) = recorder("delay:rank=1,phase=backward,percent=10");
        let steps: Vec<u64> = (0..20).map(|_| step(&mut recorder, &clock)).collect();
        // Until three steps are known, a share of a step is not a time.
        assert_eq!(steps[..3], [2_000_000; 3]);
        assert_eq!(steps[3..], [2_200_000; 17]);
    }

    #[test]
    fn a_delay_of_a_phase_is_within_that_phase() {
        let (mut recorder, clock) = recorder("delay:rank=1,phase=forward,time=1ms,at=1,every=0");
        recorder.record(64, 3);
        for _ in 0..3 {
            step(&mut recorder, &clock);
        }
        let RankSteps { marks, lost, descheduled, .. } = recorder.take();
        let of =
            |kind: Kind| marks.iter().filter(move |mark| mark.kind == kind).map(|mark| mark.end_ns - mark.begin_ns);
        assert_eq!(of(Kind::Forward).collect::<Vec<_>>(), [1_000_000, 2_000_000, 1_000_000]);
        assert_eq!(of(Kind::Backward).collect::<Vec<_>>(), [1_000_000; 3]);
        assert_eq!(of(Kind::Step).collect::<Vec<_>>(), [2_000_000, 3_000_000, 2_000_000]);
        assert_eq!((lost, recorder.take().marks.len()), (0, 0));
        assert!(descheduled.is_empty() || descheduled.iter().map(|(step, _)| *step).eq(0..3), "{descheduled:?}");
    }

    #[test]
    fn the_newest_marks_are_kept_in_order_and_recording_allocates_nothing() {
        let (mut recorder, clock) = recorder("delay:rank=0,phase=input");
        recorder.record(4, 2);
        let room = recorder.ring.as_ref().unwrap().marks.capacity();
        for _ in 0..3 {
            step(&mut recorder, &clock);
        }
        assert_eq!(recorder.ring.as_ref().unwrap().marks.capacity(), room);
        let RankSteps { marks, lost, descheduled, .. } = recorder.take();
        assert!(descheduled.len() <= 2);
        let kinds: Vec<(Kind, u32)> = marks.iter().map(|mark| (mark.kind, mark.number)).collect();
        assert_eq!(kinds, [(Kind::Step, 1), (Kind::Forward, 2), (Kind::Backward, 2), (Kind::Step, 2)]);
        assert_eq!(lost, 5);
    }

    #[test]
    fn marks_read_back_and_sequences_go_on_over_steps() {
        let note = ExchangeNote {
            operation: Collective::AllReduce,
            group: "data 0".to_owned(),
            ranks: 2,
            bytes: 64,
            place: 1,
            in_step: 3,
            synchronises: true,
        };
        let mark = Mark { kind: Kind::Collective, number: 2, begin_ns: 10, end_ns: 30, exchange: 0 };
        let steps = RankSteps { marks: vec![mark], lost: 0, exchanges: vec![note], ..RankSteps::default() };
        let text = serde_json::to_string(&steps).unwrap();
        assert_eq!(serde_json::from_str::<RankSteps>(&text).unwrap(), steps);
        let made = timeline(&[steps.clone(), steps], Some(5), |rank, ns| ns + 100 * rank as u64);
        let call = made.ranks[1].call(&made.ranks[1].spans[0]).unwrap();
        assert_eq!((call.sequence, made.names.get(call.group), call.synchronises), (Some(7), "data 0", true));
        assert_eq!((made.ranks[1].spans[0].begin_ns, made.world), (110, Some(2)));
    }
}
