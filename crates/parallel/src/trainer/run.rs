//! Runs a program's instructions: adds the time of each phase to the report, and records it where that is wanted.

use std::ops::Range;

use comm::{Abort, Communicator};
use engine::{Instruction, Loaded, Phase, Program};
use terms::Collective;
use trace::StepRecorder;
use trace::timeline::{Kind, NO_CALL};

use super::{Asleep, Joined, StepReport, TrainerError, seconds};
use crate::groups::Groups;
use crate::strategies::PassMark;

/// What instructions run on.
pub(super) struct Running<'a> {
    pub(super) program: &'a Program,
    pub(super) loaded: &'a mut dyn Loaded,
    /// The step's number, from 1.
    pub(super) step: u64,
    pub(super) groups: &'a mut Groups,
    pub(super) abort: &'a Abort,
    pub(super) exchanges: &'a mut [Option<Joined>],
    pub(super) world: &'a mut dyn Communicator,
    pub(super) report: &'a mut StepReport,
    pub(super) recorder: &'a mut StepRecorder,
    /// Where nothing is computed.
    pub(super) asleep: Option<Asleep>,
    /// By how much the last sleep ended late.
    pub(super) late_ns: u64,
    /// What took its time by the device's clock, until that is asked.
    pub(super) laps: &'a mut Vec<Lap>,
    /// The last exchange that the device was to wait for.
    pub(super) last: Option<Collective>,
}

/// The pass of a block that runs.
struct OpenPass {
    block: usize,
    phase: Phase,
    end: usize,
    /// By the host's clock.
    begun_ns: u64,
    begun: u64,
}

impl Running<'_> {
    /// Runs them in order. `blocks`: which of them are passes of a block, in order; none where that is not recorded.
    pub(super) fn run(&mut self, instructions: Range<usize>, blocks: &[PassMark]) -> Result<(), TrainerError> {
        let begun_ns = self.recorder.now_ns();
        let mut phase = Phase::Forward;
        let mut since = self.now()?;
        let blocks = if self.recorder.wants_blocks() || self.asleep.is_some() { blocks } else { &[] };
        let (mut blocks, mut open) = (blocks.iter().peekable(), None);
        let (mut index, end) = (instructions.start, instructions.end);
        while index < end {
            self.end_block(index, &mut open)?;
            if let Some(mark) = blocks.next_if(|mark| mark.begin == index) {
                self.recorder.open(Kind::Block, mark.block as u64);
                let (begun_ns, begun) = (self.recorder.now_ns(), self.now()?);
                open = Some(OpenPass { block: mark.block, phase, end: mark.end, begun_ns, begun });
            }
            match &self.program.instructions[index] {
                Instruction::Run(_) => {
                    let until = [open.as_ref().map(|open| open.end), blocks.peek().map(|mark| mark.begin)];
                    let until = until.into_iter().flatten().fold(end, usize::min);
                    index = self.stretch(index..until.max(index + 1))?;
                    continue;
                }
                Instruction::Enter(next) => {
                    self.lap(What::Phase(phase), &mut since)?;
                    phase = *next;
                    self.recorder.enter(kind_of(phase));
                    if phase == Phase::Optimizer {
                        self.rest(self.recorder.now_ns(), (phase, 0));
                    }
                }
                Instruction::Start { ticket, .. } => {
                    self.lap(What::Phase(phase), &mut since)?;
                    self.recorder.open(Kind::Wait, u64::from(*ticket));
                    if let Some(joined) = &mut self.exchanges[*ticket as usize] {
                        self.loaded.enter(engine::Kind::Exchanges)?;
                        joined.begun = since;
                        joined.ticket =
                            Some(self.groups.start(joined.axis, &joined.call, self.loaded.queue(), self.world)?);
                    }
                    self.recorder.close();
                    self.lap(What::Waiting, &mut since)?;
                }
                Instruction::Finish { ticket } => {
                    self.lap(What::Phase(phase), &mut since)?;
                    self.recorder.open(Kind::Wait, u64::from(*ticket));
                    self.finish(*ticket, &mut since)?;
                }
            }
            index += 1;
        }
        self.end_block(end, &mut open)?;
        self.lap(What::Phase(phase), &mut since)?;
        self.count_laps(begun_ns)
    }

    /// Gives the device all operations from the first of these on, up to what is none; that is where it goes on.
    fn stretch(&mut self, Range { start, end }: Range<usize>) -> Result<usize, TrainerError> {
        let others = self.program.instructions[start..end].iter();
        let end = start + others.take_while(|instruction| matches!(instruction, Instruction::Run(_))).count();
        if self.asleep.is_none() {
            // SAFETY: the builder gives operations views as their documentation asks; buffers overlap only where lifetimes do not;
            // and peers reach what an exchange names only between its start and its end.
            unsafe { self.loaded.run(start..end, self.step) }?;
        }
        Ok(end)
    }

    fn finish(&mut self, ticket: u32, since: &mut u64) -> Result<(), TrainerError> {
        let mut begun = None;
        if let Some(joined) = &mut self.exchanges[ticket as usize]
            && let Some(mut ticket) = joined.ticket.take()
        {
            self.loaded.enter(engine::Kind::Exchanges)?;
            self.groups.finish(joined.axis, &mut ticket, self.loaded.queue(), self.world)?;
            begun = Some(joined.begun);
            self.last = Some(joined.call.op);
        }
        self.recorder.close();
        self.lap(What::Waiting, since)?;
        if let Some(begun) = begun {
            self.note(What::Exchange(ticket), begun, *since);
        }
        Ok(())
    }

    fn end_block(&mut self, index: usize, open: &mut Option<OpenPass>) -> Result<(), TrainerError> {
        if let Some(OpenPass { block, phase, begun_ns, begun, .. }) = open.take_if(|open| open.end <= index) {
            self.rest(begun_ns, (phase, block));
            let now = self.now()?;
            self.recorder.close();
            self.note(What::Block(block as u32), begun, now);
        }
        Ok(())
    }

    /// Where nothing is computed: sleeps as long as a pass that began then takes.
    fn rest(&mut self, begun_ns: u64, of: (Phase, usize)) {
        if let Some(asleep) = &self.asleep {
            asleep.rest(begun_ns, of, &mut self.late_ns, self.recorder);
        }
    }

    /// A point in time: of the host's clock, or the number of one of the device's.
    fn now(&mut self) -> Result<u64, TrainerError> {
        Ok(self.loaded.stamp()?.map_or_else(|| self.recorder.now_ns(), |stamp| stamp as u64))
    }

    /// What has passed was for this.
    fn lap(&mut self, what: What, since: &mut u64) -> Result<(), TrainerError> {
        let begun = std::mem::replace(since, self.now()?);
        self.note(what, begun, *since);
        Ok(())
    }

    fn note(&mut self, what: What, begin: u64, end: u64) {
        match self.loaded.queue().is_timed() {
            true => self.laps.push(Lap { what, begin, end }),
            false => self.count(what, begin, end),
        }
    }

    /// Adds to the report, and to the record where one is kept.
    fn count(&mut self, what: What, begin_ns: u64, end_ns: u64) {
        let passed = seconds(end_ns - begin_ns);
        let kind = match what {
            What::Phase(phase) => {
                *match phase {
                    Phase::Forward => &mut self.report.forward_s,
                    Phase::Backward => &mut self.report.backward_s,
                    Phase::Optimizer => &mut self.report.optimizer_s,
                } += passed;
                kind_of(phase)
            }
            What::Waiting => {
                self.report.communication_s += passed;
                Kind::Wait
            }
            What::Exchange(ticket) => {
                let step = self.recorder.step();
                return self.recorder.mark_with(Kind::Collective, step, begin_ns, end_ns, ticket);
            }
            What::Block(block) => return self.recorder.mark_with(Kind::Block, block, begin_ns, end_ns, NO_CALL),
        };
        self.recorder.mark(kind, begin_ns, end_ns);
    }

    /// Waits until the device has run all that it was given, or until it may never have.
    pub(super) fn wait(&mut self) -> Result<(), TrainerError> {
        let Self { groups, loaded, world, abort, recorder, last, .. } = self;
        Ok(recorder.wait_in(*last, || groups.wait(loaded.queue(), *world, abort))?)
    }

    /// Counts what took its time by the device's clock, which began then by the host's.
    fn count_laps(&mut self, begun_ns: u64) -> Result<(), TrainerError> {
        if self.laps.is_empty() {
            return Ok(());
        }
        self.wait()?;
        let times = self.loaded.times()?;
        let at = |stamp: u64| begun_ns + times.get(stamp as usize).copied().unwrap_or(0);
        let mut laps = std::mem::take(self.laps);
        laps.iter().for_each(|lap| self.count(lap.what, at(lap.begin), at(lap.end)));
        laps.clear();
        *self.laps = laps;
        Ok(())
    }
}

/// What took its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lap {
    what: What,
    begin: u64,
    end: u64,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Phase(Phase),
    /// For communication.
    Waiting,
    Exchange(u32),
    Block(u32),
}

fn kind_of(phase: Phase) -> Kind {
    match phase {
        Phase::Forward => Kind::Forward,
        Phase::Backward => Kind::Backward,
        Phase::Optimizer => Kind::Optimizer,
    }
}
