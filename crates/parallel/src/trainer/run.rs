//! Runs a program's instructions: adds the time of each phase to the report, and records it where that is wanted.

use std::ops::Range;

use comm::Communicator;
use engine::{Instruction, Loaded, Phase, Program};
use trace::StepRecorder;
use trace::timeline::{Kind, NO_CALL};

use super::{Asleep, Error, Joined, StepReport, seconds};
use crate::groups::Groups;
use crate::strategies::Mark;

/// What instructions run on.
pub(super) struct Running<'a> {
    pub(super) program: &'a Program,
    pub(super) loaded: &'a mut dyn Loaded,
    /// The step's number, from 1.
    pub(super) step: u64,
    pub(super) groups: &'a mut Groups,
    pub(super) exchanges: &'a mut [Option<Joined>],
    pub(super) world: &'a mut dyn Communicator,
    pub(super) report: &'a mut StepReport,
    pub(super) recorder: &'a mut StepRecorder,
    /// Where nothing is computed.
    pub(super) asleep: Option<Asleep>,
}

/// The pass of a block that runs.
struct Open {
    block: usize,
    end: usize,
    begun_ns: u64,
}

impl Running<'_> {
    /// Runs them in order. `blocks`: which of them are passes of a block, in order; none where that is not recorded.
    pub(super) fn run(&mut self, instructions: Range<usize>, blocks: &[Mark]) -> Result<(), Error> {
        let mut phase = Phase::Forward;
        let mut since = self.recorder.now_ns();
        let blocks = if self.recorder.wants_blocks() || self.asleep.is_some() { blocks } else { &[] };
        let (mut blocks, mut open) = (blocks.iter().peekable(), None);
        let (mut index, end) = (instructions.start, instructions.end);
        while index < end {
            self.end_block(index, &mut open);
            if let Some(mark) = blocks.next_if(|mark| mark.begin == index) {
                self.recorder.open(Kind::Block, mark.block as u64);
                open = Some(Open { block: mark.block, end: mark.end, begun_ns: self.recorder.now_ns() });
            }
            match &self.program.instructions[index] {
                Instruction::Run(_) => {
                    let until = [open.as_ref().map(|open| open.end), blocks.peek().map(|mark| mark.begin)];
                    let until = until.into_iter().flatten().fold(end, usize::min);
                    index = self.stretch(index..until.max(index + 1))?;
                    continue;
                }
                Instruction::Enter(next) => {
                    self.lap(phase, &mut since);
                    phase = *next;
                    self.recorder.enter(kind_of(phase));
                    if phase == Phase::Optimizer {
                        self.rest(self.recorder.now_ns());
                    }
                }
                Instruction::Start { ticket, .. } => {
                    self.lap(phase, &mut since);
                    self.recorder.open(Kind::Wait, u64::from(*ticket));
                    if let Some(joined) = &mut self.exchanges[*ticket as usize] {
                        joined.begun_ns = since;
                        joined.ticket =
                            Some(self.groups.start(joined.axis, &joined.call, self.loaded.queue(), self.world)?);
                    }
                    self.recorder.close();
                    self.waited(&mut since);
                }
                Instruction::Finish { ticket } => {
                    self.lap(phase, &mut since);
                    self.recorder.open(Kind::Wait, u64::from(*ticket));
                    self.finish(*ticket, &mut since)?;
                }
            }
            index += 1;
        }
        self.end_block(end, &mut open);
        self.lap(phase, &mut since);
        Ok(())
    }

    /// Gives the device all operations from the first of these on, up to what is none; that is where it goes on.
    fn stretch(&mut self, Range { start, end }: Range<usize>) -> Result<usize, Error> {
        let others = self.program.instructions[start..end].iter();
        let end = start + others.take_while(|instruction| matches!(instruction, Instruction::Run(_))).count();
        if self.asleep.is_none() {
            // SAFETY: the builder gives operations views as their documentation asks; buffers overlap only where lifetimes do not;
            // and peers reach what an exchange names only between its start and its end.
            unsafe { self.loaded.run(start..end, self.step) }?;
        }
        Ok(end)
    }

    fn finish(&mut self, ticket: u32, since: &mut u64) -> Result<(), Error> {
        let mut begun_ns = None;
        if let Some(joined) = &mut self.exchanges[ticket as usize]
            && let Some(mut ticket) = joined.ticket.take()
        {
            self.groups.finish(joined.axis, &mut ticket, self.loaded.queue(), self.world)?;
            begun_ns = Some(joined.begun_ns);
        }
        self.recorder.close();
        self.waited(since);
        if let Some(begun_ns) = begun_ns {
            self.recorder.mark_with(Kind::Collective, self.recorder.step(), begun_ns, *since, ticket);
        }
        Ok(())
    }

    fn end_block(&mut self, index: usize, open: &mut Option<Open>) {
        if let Some(Open { block, begun_ns, .. }) = open.take_if(|open| open.end <= index) {
            self.rest(begun_ns);
            let now_ns = self.recorder.now_ns();
            self.recorder.close();
            self.recorder.mark_with(Kind::Block, block as u32, begun_ns, now_ns, NO_CALL);
        }
    }

    /// Where nothing is computed: sleeps as long as a pass that began then takes.
    fn rest(&self, begun_ns: u64) {
        if let Some(asleep) = &self.asleep {
            asleep.rest(begun_ns, self.recorder);
        }
    }

    /// What has passed belonged to the phase.
    fn lap(&mut self, phase: Phase, since: &mut u64) {
        let begun_ns = *since;
        let passed = self.restart(since);
        match phase {
            Phase::Forward => self.report.forward_s += passed,
            Phase::Backward => self.report.backward_s += passed,
            Phase::Optimizer => self.report.optimizer_s += passed,
        }
        self.recorder.mark(kind_of(phase), begun_ns, *since);
    }

    /// What has passed was spent on communication.
    fn waited(&mut self, since: &mut u64) {
        let begun_ns = *since;
        self.report.communication_s += self.restart(since);
        self.recorder.mark(Kind::Wait, begun_ns, *since);
    }

    /// Seconds since, and from now on.
    fn restart(&self, since: &mut u64) -> f64 {
        let now_ns = self.recorder.now_ns();
        let passed = seconds(now_ns - *since);
        *since = now_ns;
        passed
    }
}

fn kind_of(phase: Phase) -> Kind {
    match phase {
        Phase::Forward => Kind::Forward,
        Phase::Backward => Kind::Backward,
        Phase::Optimizer => Kind::Optimizer,
    }
}
