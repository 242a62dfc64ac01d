//! A communicator over one of MPI's.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::Arc;

use device::{Queue, Region, Slice};
use terms::{Collective, Direction, Dtype, Reduce, Space};

use super::MpiProgress;
use super::functions::MpiHandle;
use super::plan::{Planner, StepPlan};
use super::session::Session;
use crate::at_once::{admit, finished, host_region};
use crate::{Abort, Call, Capabilities, Communicator, Error, Progress, Result, Shape, Ticket, Wait};

/// Tags stay below what every library has at least (MPI-4.1, 9.1.2: 32767), two a call.
const TAGS: u32 = 16_000;

/// What all communicators of a world share.
#[derive(Clone)]
pub(super) struct Common {
    pub(super) session: Arc<Session>,
    pub(super) abort: Abort,
    pub(super) progress: MpiProgress,
    /// Elements of one call of MPI, at most.
    pub(super) largest: usize,
    /// Where UCC was asked for: operations that it does not take.
    pub(super) left_out: Option<Vec<Collective>>,
    /// All ranks' libraries take addresses of GPUs' memory.
    pub(super) reaches_gpus: bool,
    /// Give the core away between two looks.
    pub(super) yields: bool,
}

/// A communicator that MPI moves the data of.
pub(super) struct MpiCommunicator {
    common: Common,
    handle: MpiHandle,
    shape: Shape,
    /// Groups so far.
    next: u64,
    /// Calls that did not block so far, the same on every rank.
    calls: u32,
    /// The blocking call that was planned last, and its steps: loops repeat a call, and to plan it each time would cost
    /// as much as some libraries' own way in.
    last: Option<(PlannedCall, StepPlan)>,
    /// Plans of calls that are over: kept, so that the next ones allocate nothing.
    spare: Vec<StepPlan>,
    /// Groups in flight, oldest first.
    flying: VecDeque<Flight>,
}

/// Identifies a call that was planned before. It keeps no buffer alive: at the same addresses any buffer will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlannedCall {
    op: Collective,
    input: (usize, usize),
    output: (usize, usize),
    dtype: Dtype,
    reduce: Reduce,
    peer: u32,
    direction: Direction,
}

impl PlannedCall {
    /// None for calls that say more than this.
    fn from_call(call: &Call) -> Option<Self> {
        let Call { op, input, output, dtype, reduce, peer, direction, counts } = call;
        let (input, output) = ((input.address(), input.len()), (output.address(), output.len()));
        let known = Self { op: *op, input, output, dtype: *dtype, reduce: *reduce, peer: *peer, direction: *direction };
        counts.is_none().then_some(known)
    }
}

/// A group in flight.
struct Flight {
    number: u64,
    calls: Vec<InFlight>,
}

/// A call in flight.
struct InFlight {
    /// Keeps the buffers.
    _call: Call,
    plan: StepPlan,
    /// Steps that were started.
    started: usize,
    requests: Vec<MpiHandle>,
}

impl MpiCommunicator {
    /// Over a communicator of MPI, which it owns from now on.
    ///
    /// # Errors
    /// What the library says.
    pub(super) fn new(common: Common, handle: MpiHandle) -> Result<Self> {
        let (rank, size) = common.session.place(handle)?;
        let progress = match common.progress {
            MpiProgress::None => Progress::Caller,
            MpiProgress::Poll => Progress::Poll,
        };
        let shape = Shape { rank, size, capabilities: Capabilities { progress, peer_view: false } };
        let (spare, flying) = (Vec::new(), VecDeque::new());
        Ok(Self { common, handle, shape, next: 0, calls: 0, last: None, spare, flying })
    }

    /// The steps of the next call that does not block, with a tag of its own: others may be in flight.
    fn plan(&mut self, call: &Call) -> StepPlan {
        let mut plan = self.spare.pop().unwrap_or_default();
        self.calls = (self.calls + 1) % TAGS;
        self.planner((2 * self.calls) as c_int).plan(call, &mut plan);
        plan
    }

    /// Refuses elements that the library has no datatype for, and what [`Self::refuse_left_out`] says.
    fn refuse_lacking(&self, call: &Call) -> Result<()> {
        let library = &self.common.session.library;
        if call.op != Collective::Barrier && !library.constants.has(call.dtype) {
            let what = format!("move {} elements: {} has no datatype for them", call.dtype, library.facts.version());
            return Err(Error::Unsupported { backend: "mpi", what });
        }
        self.refuse_left_out(call)
    }

    /// Open MPI's own algorithms must not be measured under UCC's name; a rank alone uses none.
    fn refuse_left_out(&self, call: &Call) -> Result<()> {
        let Some(left_out) = self.common.left_out.as_ref().filter(|_| self.shape.size > 1) else { return Ok(()) };
        let (session, Call { op, dtype, reduce, .. }) = (&self.common.session, call);
        let version = session.library.facts.version();
        let what = if left_out.contains(op) {
            format!("run {op} with UCC: coll/ucc of {version} does not support {}", name(*op, self.common.progress))
        } else if op.reduces() && session.operator(*dtype, *reduce).1 {
            format!(
                "run {op} of {dtype} with UCC: {reduce} uses an operator of Rankmark there, but UCC supports only those of MPI"
            )
        } else {
            return Ok(());
        };
        Err(Error::Unsupported { backend: "mpi", what })
    }

    fn planner(&self, tag: c_int) -> Planner<'_> {
        Planner { session: &self.common.session, shape: &self.shape, largest: self.common.largest, tag }
    }

    /// Runs a call to its end, blocking in the library.
    fn block(&mut self, call: &Call) -> Result<()> {
        let known = PlannedCall::from_call(call);
        let plan = match self.last.take() {
            Some((last, plan)) if Some(last) == known => plan,
            last => {
                call.validate(&self.shape)?;
                self.refuse_lacking(call)?;
                let mut plan = last.map(|(_, plan)| plan).or_else(|| self.spare.pop()).unwrap_or_default();
                // One tag for all: blocking messages between two ranks never overtake each other.
                self.planner(0).plan(call, &mut plan);
                plan
            }
        };
        for (_, step) in &plan.steps {
            // SAFETY: a valid call's buffers hold what its steps say, and live as long as the caller's borrow of it.
            let code = unsafe { step.run(&self.common.session, self.handle) };
            if code != 0 {
                self.common.session.poison();
                return self.common.session.check(code, name(call.op, MpiProgress::None));
            }
        }
        match known {
            Some(known) => self.last = Some((known, plan)),
            None => self.spare.push(plan),
        }
        Ok(())
    }

    fn launch(&mut self, group: &[Call]) -> Result<Ticket> {
        group.iter().try_for_each(|call| self.refuse_lacking(call))?;
        let mut calls = Vec::with_capacity(group.len());
        for call in group {
            let plan = self.plan(call);
            calls.push(InFlight { _call: call.clone(), plan, started: 0, requests: Vec::new() });
        }
        let number = self.next;
        self.next += 1;
        self.flying.push_back(Flight { number, calls });
        let last = self.flying.len() - 1;
        let done = self.advance(last)?;
        if done && last == 0 {
            self.land();
        }
        Ok(Ticket { number, done: done && last == 0 })
    }

    /// Starts what can be started of a group and looks at what is in flight; true when all of it is complete.
    fn advance(&mut self, flight: usize) -> Result<bool> {
        let (session, handle) = (&*self.common.session, self.handle);
        let Some(flight) = self.flying.get_mut(flight) else { return Ok(true) };
        let mut done = true;
        for call in &mut flight.calls {
            match call.advance(session, handle) {
                Ok(complete) => done &= complete,
                Err(error) => {
                    session.poison();
                    return Err(error);
                }
            }
        }
        Ok(done)
    }

    /// Looks at all groups up to this one, oldest first; true when they are complete.
    fn advance_through(&mut self, number: u64) -> Result<bool> {
        while self.flying.front().is_some_and(|flight| flight.number <= number) {
            if !self.advance(0)? {
                return Ok(false);
            }
            self.land();
        }
        Ok(true)
    }

    /// The oldest group is complete.
    fn land(&mut self) {
        let Some(flight) = self.flying.pop_front() else { return };
        self.spare.extend(flight.calls.into_iter().map(|call| call.plan));
    }

    fn await_through(&mut self, number: u64) -> Result<()> {
        while !self.advance_through(number)? {
            self.common.abort.check()?;
            if self.common.yields {
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

impl InFlight {
    fn advance(&mut self, session: &Session, comm: MpiHandle) -> Result<bool> {
        loop {
            self.look(session)?;
            let Some((waits, step)) = self.plan.steps.get(self.started) else { return Ok(self.requests.is_empty()) };
            if *waits && !self.requests.is_empty() {
                return Ok(false);
            }
            // SAFETY: a valid call's buffers hold what its steps say; the call, which keeps them, and the plan, which
            // keeps counts and scratch memory, live until the requests are complete (or for ever: see the drop).
            let code = unsafe { step.begin(session, comm, &mut self.requests) };
            session.check(code, "starting an operation")?;
            self.started += 1;
        }
    }

    /// Forgets the requests that are complete. One at a time: arrays of requests differ between ABIs.
    fn look(&mut self, session: &Session) -> Result<()> {
        let (functions, ignore) = (&session.library.functions, session.library.constants.status_ignore);
        let mut at = 0;
        while let Some(request) = self.requests.get_mut(at) {
            let mut done = 0;
            // SAFETY: a request that was started and not yet seen complete, and an out-pointer.
            session.check(unsafe { (functions.test)(request, &mut done, ignore) }, "MPI_Test")?;
            if done == 0 {
                at += 1;
            } else {
                self.requests.swap_remove(at);
            }
        }
        Ok(())
    }
}

impl Communicator for MpiCommunicator {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        host_region("mpi", bytes, space)
    }

    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        admit(group, &self.shape, after, &self.common.abort)?;
        match self.common.progress {
            MpiProgress::None => {
                group.iter().try_for_each(|call| self.block(call))?;
                Ok(finished(&mut self.next))
            }
            MpiProgress::Poll => self.launch(group),
        }
    }

    fn finish(&mut self, ticket: &mut Ticket, how: Wait<'_>) -> Result<bool> {
        self.common.abort.check()?;
        let done = match how {
            Wait::Poll => self.advance_through(ticket.number)?,
            // A queue has no way to look at MPI's requests: the order is established by waiting here.
            Wait::Host | Wait::On(_) => {
                self.await_through(ticket.number)?;
                true
            }
        };
        ticket.done |= done;
        Ok(done)
    }

    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        // Colors and keys of MPI are non-negative `int`s; so are members' places.
        let entries = self.gather_choices(color, key)?;
        let members = crate::members(&entries, self.shape.rank);
        let place = |members: &Vec<u32>| members.iter().position(|member| *member == self.shape.rank).unwrap_or(0);
        let (color, key) = (members.as_ref().map(|members| members[0]), members.as_ref().map_or(0, place));
        let child = self.common.session.split(self.handle, color, key as u32)?;
        let child = child.map(|handle| Self::new(self.common.clone(), handle)).transpose()?;
        Ok(child.map(|child| Box::new(child) as Box<dyn Communicator>))
    }

    #[inline]
    fn run(&mut self, call: &Call) -> Result<()> {
        if self.common.progress == MpiProgress::None {
            self.common.abort.check()?;
            return self.block(call);
        }
        let mut ticket = self.start(std::slice::from_ref(call), &Queue::host())?;
        if ticket.done { Ok(()) } else { self.finish(&mut ticket, Wait::Host).map(drop) }
    }

    fn takes_gpu_memory(&self, call: &Call) -> bool {
        self.common.reaches_gpus && self.planner(0).leaves_all_to_the_library(call)
    }

    fn path(&self, call: &Call) -> &'static str {
        match (self.planner(0).is_cut(call), call.op) {
            (true, _) => "in pieces that an int counts",
            (false, Collective::ReduceScatter) if call.is_in_place() => "staged, then copied into place",
            (false, Collective::Reduce)
                if call.is_in_place() && !self.common.session.reduces_in_place(call.peer as usize) =>
            {
                "staged by the root: this library crashes in place"
            }
            (false, op) if op.reduces() && self.common.session.operator(call.dtype, call.reduce).1 => {
                "an operator of our own"
            }
            (false, op) => name(op, self.common.progress),
        }
    }
}

impl MpiCommunicator {
    /// What every rank gave to a split. Collective.
    fn gather_choices(&mut self, color: Option<u32>, key: u32) -> Result<Vec<(Option<u32>, u32)>> {
        const WORDS: usize = 3;
        let size = self.shape.size as usize;
        let region = host_region("mpi", (size + 1) * WORDS * 8, Space::Host)?;
        let part = |at: usize, words: usize| -> Result<Slice> {
            let slice = region.slice(at * WORDS * 8, words * WORDS * 8);
            slice.ok_or_else(|| Error::InvalidCall("a split's own buffer is too small".to_owned()))
        };
        let (input, output) = (part(size, 1)?, part(0, size)?);
        let own = [i64::from(color.is_some()), i64::from(color.unwrap_or(0)), i64::from(key)];
        // SAFETY: the region's last three words, which nothing else uses.
        unsafe { input.ptr().cast::<[i64; WORDS]>().write(own) };
        let (op, dtype, reduce) = (Collective::AllGather, Dtype::I64, Reduce::Sum);
        let direction = Direction::OneWay;
        let output_words = output.ptr().cast::<[i64; WORDS]>();
        self.run(&Call { op, input, output, dtype, reduce, peer: 0, direction, counts: None })?;
        // SAFETY: as many words as ranks, written by the operation that is complete; the region is still held.
        let choice = |rank: usize| unsafe { output_words.add(rank).read() };
        let entries =
            (0..size).map(choice).map(|[given, color, key]| ((given == 1).then_some(color as u32), key as u32));
        Ok(entries.collect())
    }
}

impl Drop for MpiCommunicator {
    fn drop(&mut self) {
        // As the other backends: what was started is finished, unless the world ends.
        if self.next > 0 && !self.flying.is_empty() && self.await_through(self.next - 1).is_err() {
            self.common.session.poison();
        }
        if self.common.abort.is_raised() {
            self.common.session.poison();
        }
        // What is still in flight is the library's for ever: it may write there at any time.
        std::mem::take(&mut self.flying).into_iter().for_each(std::mem::forget);
        self.common.session.free(self.handle);
    }
}

/// The function that an operation is.
pub(super) const fn name(op: Collective, progress: MpiProgress) -> &'static str {
    let blocking = matches!(progress, MpiProgress::None);
    match (op, blocking) {
        (Collective::AllReduce, true) => "MPI_Allreduce",
        (Collective::AllReduce, false) => "MPI_Iallreduce",
        (Collective::AllGather, true) => "MPI_Allgather",
        (Collective::AllGather, false) => "MPI_Iallgather",
        (Collective::ReduceScatter, true) => "MPI_Reduce_scatter_block",
        (Collective::ReduceScatter, false) => "MPI_Ireduce_scatter_block",
        (Collective::Broadcast, true) => "MPI_Bcast",
        (Collective::Broadcast, false) => "MPI_Ibcast",
        (Collective::Reduce, true) => "MPI_Reduce",
        (Collective::Reduce, false) => "MPI_Ireduce",
        (Collective::AllToAll, true) => "MPI_Alltoall",
        (Collective::AllToAll, false) => "MPI_Ialltoall",
        (Collective::AllToAllV, true) => "MPI_Alltoallv",
        (Collective::AllToAllV, false) => "MPI_Ialltoallv",
        (Collective::Gather, true) => "MPI_Gather",
        (Collective::Gather, false) => "MPI_Igather",
        (Collective::Scatter, true) => "MPI_Scatter",
        (Collective::Scatter, false) => "MPI_Iscatter",
        (Collective::SendRecv, true) => "MPI_Sendrecv",
        (Collective::SendRecv, false) => "MPI_Isend, MPI_Irecv",
        (Collective::PingPong, true) => "MPI_Send, MPI_Recv",
        (Collective::PingPong, false) => "MPI_Isend, MPI_Irecv",
        (Collective::Barrier, true) => "MPI_Barrier",
        (Collective::Barrier, false) => "MPI_Ibarrier",
    }
}
