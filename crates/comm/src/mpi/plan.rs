//! From a call to steps: which functions of MPI an operation is, where its layout differs from MPI's, and what happens to
//! counts beyond an `int`.
//!
//! Steps are in an order in which every rank may run them one after another, blocking. Collective steps never wait for
//! earlier ones of their call, so that every rank starts them in the same order; what waits is marked.

use std::ffi::{c_int, c_void};

use terms::{Collective, Direction, Reduce};

use super::session::Session;
use super::step::{DatatypeCount, ExchangeSide, MpiStep, Uneven};
use crate::{Call, Shape};

/// A call's steps, with what they need in addition to its buffers.
#[derive(Debug, Default)]
pub(super) struct StepPlan {
    /// Whether the step waits for all before it, and the step.
    pub(super) steps: Vec<(bool, MpiStep)>,
    /// Words, so that it is aligned for any element.
    scratch: Vec<u64>,
}

// SAFETY: the pointers lead into regions, which may be used by any thread, and into the scratch memory, which is this
// plan's own; a plan is used by one thread at a time.
unsafe impl Send for StepPlan {}

/// Where a call is planned.
pub(super) struct Planner<'a> {
    pub(super) session: &'a Session,
    pub(super) shape: &'a Shape,
    /// Elements of one step, at most.
    pub(super) largest: usize,
    /// Tag of the call's point-to-point messages.
    pub(super) tag: c_int,
}

/// A valid call, in the terms of its steps.
struct CallParts {
    input: *mut u8,
    output: *mut u8,
    in_place: bool,
    element: usize,
    kind: DatatypeCount,
    rank: usize,
    ranks: usize,
    root: usize,
    is_root: bool,
}

impl Planner<'_> {
    /// Replaces `plan` by that of a valid call. Allocates nothing when the plan has held as much before.
    pub(super) fn plan(&self, call: &Call, plan: &mut StepPlan) {
        plan.steps.clear();
        let parts = self.parts(call);
        let count = call.count(self.shape) as usize;
        if count == 0 && call.op != Collective::Barrier {
            return;
        }
        let block = count / parts.ranks;
        match call.op {
            Collective::Barrier => plan.add(MpiStep::Barrier),
            Collective::AllReduce | Collective::Reduce | Collective::Broadcast => {
                self.element_wise(call, &parts, count, plan);
            }
            Collective::SendRecv => self.ring(call.direction, &parts, count, plan),
            Collective::PingPong => self.ping_pong(&parts, count, plan),
            Collective::AllToAllV => self.uneven(call, &parts, plan),
            _ if block > self.largest => self.pieces_of_blocks(call.op, &parts, block, plan),
            _ => self.blocks(call.op, &parts, block, plan),
        }
        if call.op.reduces() && call.reduce == Reduce::Avg && !call.output.is_empty() {
            let gets = call.op != Collective::Reduce || parts.is_root;
            let (at, by) = (parts.output, self.shape.size);
            let count = if call.op == Collective::ReduceScatter { block } else { count };
            if gets {
                plan.then(MpiStep::Divide { at, count, dtype: call.dtype, by });
            }
        }
    }

    fn parts(&self, call: &Call) -> CallParts {
        let library = &self.session.library;
        let (operator, _) = self.session.operator(call.dtype, call.reduce);
        CallParts {
            input: call.input.address() as *mut u8,
            output: call.output.address() as *mut u8,
            in_place: call.is_in_place(),
            element: call.dtype.bytes() as usize,
            kind: DatatypeCount { datatype: library.constants.datatype(call.dtype), operator },
            rank: self.shape.rank as usize,
            ranks: self.shape.size as usize,
            root: call.peer as usize,
            is_root: self.shape.rank == call.peer,
        }
    }

    const fn in_place(&self) -> *const c_void {
        self.session.library.constants.in_place
    }

    /// Operations that treat each element alike: in pieces of what an `int` counts.
    fn element_wise(&self, call: &Call, parts: &CallParts, count: usize, plan: &mut StepPlan) {
        let CallParts { input, output, kind, in_place, is_root, .. } = *parts;
        let root = parts.root as c_int;
        if call.op == Collective::Broadcast && is_root && !in_place {
            plan.add(MpiStep::Copy { from: input, to: output, bytes: count * parts.element });
        }
        let staged = (call.op == Collective::Reduce && in_place && is_root)
            .then(|| self.staged(parts, parts.root, input, count, plan))
            .flatten();
        for (at, count) in pieces(count, self.largest) {
            let (from, to) = (parts.at(input, at).cast_const(), parts.at(output, at));
            plan.add(match call.op {
                Collective::AllReduce => {
                    let from = if in_place { self.in_place() } else { from };
                    MpiStep::Allreduce { from, to, count, kind }
                }
                Collective::Reduce => {
                    let from = if in_place && is_root {
                        staged.map_or(self.in_place(), |own| parts.at(own, at))
                    } else {
                        from
                    };
                    let to = if is_root { to } else { std::ptr::null_mut() };
                    MpiStep::Reduce { from, to, count, kind, root }
                }
                _ => MpiStep::Bcast { data: if is_root { from.cast_mut() } else { to }, count, kind, root },
            });
        }
    }

    /// A copy of what the root gives, where the library cannot reduce in place.
    fn staged(
        &self,
        parts: &CallParts,
        root: usize,
        from: *mut u8,
        count: usize,
        plan: &mut StepPlan,
    ) -> Option<*mut u8> {
        if self.session.reduces_in_place(root) {
            return None;
        }
        let bytes = count * parts.element;
        let to = plan.scratch(bytes);
        plan.add(MpiStep::Copy { from, to, bytes });
        Some(to)
    }

    /// Operations on one block a rank that fits an `int`.
    fn blocks(&self, op: Collective, parts: &CallParts, block: usize, plan: &mut StepPlan) {
        let CallParts { kind, in_place, is_root, .. } = *parts;
        let (root, count) = (parts.root as c_int, block as c_int);
        let (input, output) = (parts.input.cast_const().cast(), parts.output.cast());
        let (from, null) = (if in_place { self.in_place() } else { input }, std::ptr::null_mut());
        match op {
            Collective::AllGather => plan.add(MpiStep::Allgather { from, to: output, count, kind }),
            Collective::AllToAll => plan.add(MpiStep::Alltoall { from, to: output, count, kind }),
            Collective::Gather => {
                let to = if is_root { output } else { null };
                plan.add(MpiStep::Gather { from: if is_root { from } else { input }, to, count, kind, root });
            }
            Collective::Scatter => {
                let to = if in_place && is_root { self.in_place().cast_mut() } else { output };
                let from = if is_root { input } else { null.cast_const() };
                plan.add(MpiStep::Scatter { from, to, count, kind, root });
            }
            Collective::ReduceScatter if in_place => {
                // MPI's own form in place takes the result for block 0, whatever the rank: not our layout.
                let bytes = block * parts.element;
                let to = plan.scratch(bytes);
                plan.add(MpiStep::ReduceScatter { from: input, to: to.cast(), count, kind });
                plan.then(MpiStep::Copy { from: to, to: parts.output, bytes });
            }
            _ => plan.add(MpiStep::ReduceScatter { from: input, to: output, count, kind }),
        }
    }

    /// Operations on one block a rank that is beyond an `int`: as broadcasts, reductions and messages, in pieces.
    fn pieces_of_blocks(&self, op: Collective, parts: &CallParts, block: usize, plan: &mut StepPlan) {
        let CallParts { input, output, kind, in_place, is_root, rank, ranks, root, .. } = *parts;
        let bytes = block * parts.element;
        let own = |plan: &mut StepPlan, from: *mut u8, to: *mut u8| {
            if !in_place {
                plan.add(MpiStep::Copy { from, to, bytes });
            }
        };
        match op {
            Collective::AllGather => {
                own(plan, input, parts.at(output, rank * block).cast());
                for from in 0..ranks {
                    for (at, count) in pieces(block, self.largest) {
                        let data = parts.at(output, from * block + at);
                        plan.add(MpiStep::Bcast { data, count, kind, root: from as c_int });
                    }
                }
            }
            Collective::ReduceScatter => {
                let own = if in_place { self.staged(parts, rank, output, block, plan) } else { None };
                for to in 0..ranks {
                    for (at, count) in pieces(block, self.largest) {
                        let mine = to == rank;
                        let from = parts.at(input, to * block + at).cast_const();
                        let copied = || own.map_or(self.in_place(), |own| parts.at(own, at));
                        let from = if mine && in_place { copied() } else { from };
                        let into = if mine { parts.at(output, at) } else { std::ptr::null_mut() };
                        plan.add(MpiStep::Reduce { from, to: into, count, kind, root: to as c_int });
                    }
                }
            }
            Collective::Gather if is_root => {
                own(plan, input, parts.at(output, rank * block).cast());
                (0..ranks).filter(|from| *from != rank).for_each(|from| {
                    self.receive(parts, parts.at(output, from * block).cast(), block, from, plan);
                });
            }
            Collective::Scatter if is_root => {
                own(plan, parts.at(input, rank * block).cast(), output);
                (0..ranks).filter(|to| *to != rank).for_each(|to| {
                    self.send(parts, parts.at(input, to * block).cast(), block, to, plan);
                });
            }
            Collective::Gather => self.send(parts, input, block, root, plan),
            Collective::Scatter => self.receive(parts, output, block, root, plan),
            _ => {
                let mut from = input;
                if in_place {
                    from = plan.scratch(bytes * ranks);
                    plan.add(MpiStep::Copy { from: input, to: from, bytes: bytes * ranks });
                }
                let block_of = |data: *mut u8, of: usize| (parts.at(data, of * block).cast::<u8>(), block);
                self.pairs(parts, |to| block_of(from, to), |of| block_of(output, of), plan);
            }
        }
    }

    /// Every rank with every rank: what goes to a rank, what comes from a rank, in elements.
    fn pairs(
        &self,
        parts: &CallParts,
        to: impl Fn(usize) -> (*mut u8, usize),
        of: impl Fn(usize) -> (*mut u8, usize),
        plan: &mut StepPlan,
    ) {
        let CallParts { rank, ranks, element, .. } = *parts;
        plan.add(MpiStep::Copy { from: to(rank).0, to: of(rank).0, bytes: to(rank).1 * element });
        for distance in 1..ranks {
            let (next, previous) = ((rank + distance) % ranks, (rank + ranks - distance) % ranks);
            self.exchange(parts, (to(next), next), (of(previous), previous), plan);
        }
    }

    /// Sends to one rank while receiving from another: as many pieces together as both sides have, then the rest.
    fn exchange(
        &self,
        parts: &CallParts,
        ((from, sent), next): ((*mut u8, usize), usize),
        ((to, received), previous): ((*mut u8, usize), usize),
        plan: &mut StepPlan,
    ) {
        let (kind, tag) = (parts.kind, self.tag);
        let mut out = pieces(sent, self.largest);
        let mut back = pieces(received, self.largest);
        loop {
            let send =
                out.next().map(|(at, count)| ExchangeSide { data: parts.at(from, at), count, rank: next as c_int });
            let receive =
                back.next().map(|(at, count)| ExchangeSide { data: parts.at(to, at), count, rank: previous as c_int });
            plan.add(match (send, receive) {
                (Some(send), Some(receive)) => MpiStep::Exchange { send, receive, kind, tag },
                (Some(ExchangeSide { data, count, rank }), None) => {
                    MpiStep::Send { from: data, count, kind, rank, tag }
                }
                (None, Some(ExchangeSide { data, count, rank })) => MpiStep::Recv { to: data, count, kind, rank, tag },
                (None, None) => return,
            });
        }
    }

    fn send(&self, parts: &CallParts, data: *mut u8, count: usize, to: usize, plan: &mut StepPlan) {
        self.exchange(parts, ((data, count), to), ((data, 0), to), plan);
    }

    fn receive(&self, parts: &CallParts, data: *mut u8, count: usize, from: usize, plan: &mut StepPlan) {
        self.exchange(parts, ((data, 0), from), ((data, count), from), plan);
    }

    fn ring(&self, direction: Direction, parts: &CallParts, count: usize, plan: &mut StepPlan) {
        let CallParts { input, output, rank, ranks, .. } = *parts;
        let (next, previous) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        let half = if direction == Direction::BothWays { count / 2 } else { count };
        self.exchange(parts, ((input, half), next), ((output, half), previous), plan);
        if direction == Direction::BothWays {
            let (input, output) = (parts.at(input, half).cast(), parts.at(output, half).cast());
            // Another tag: of two ranks, both halves go to and come from the same one.
            let back = Planner { tag: self.tag + 1, ..*self };
            back.exchange(parts, ((input, half), previous), ((output, half), next), plan);
        }
    }

    fn ping_pong(&self, parts: &CallParts, count: usize, plan: &mut StepPlan) {
        let CallParts { input, output, rank, root: peer, .. } = *parts;
        match rank {
            0 if peer == 0 => plan.add(MpiStep::Copy { from: input, to: output, bytes: count * parts.element }),
            0 => {
                self.send(parts, input, count, peer, plan);
                self.receive(parts, output, count, peer, plan);
            }
            _ if rank == peer => {
                self.receive(parts, output, count, 0, plan);
                let first = plan.steps.len();
                self.send(parts, input, count, 0, plan);
                // Not before the ping is here.
                plan.steps[first..].iter_mut().for_each(|(waits, _)| *waits = true);
            }
            _ => {}
        }
    }

    fn uneven(&self, call: &Call, parts: &CallParts, plan: &mut StepPlan) {
        let Some(counts) = &call.counts else { return };
        let me = self.shape.rank;
        let each = |count: &dyn Fn(u32) -> u64| (0..self.shape.size).map(count).collect::<Vec<u64>>();
        let rows = [
            each(&|to| counts.get(me, to)),
            each(&|to| counts.send_offset(me, to)),
            each(&|from| counts.get(from, me)),
            each(&|from| counts.receive_offset(from, me)),
        ];
        // Of all ranks, not of this one's: all must take the same way.
        if counts.widest() <= self.largest as u64 {
            let [sent, sent_at, received, received_at] =
                rows.map(|row| row.into_iter().map(|count| count as c_int).collect());
            let uneven = Box::new(Uneven { sent, sent_at, received, received_at });
            let (from, to) = (parts.input.cast_const().cast(), parts.output.cast());
            plan.add(MpiStep::Alltoallv { from, to, uneven, kind: parts.kind });
            return;
        }
        let part = |data: *mut u8, counts: &[u64], offsets: &[u64], of: usize| {
            (parts.at(data, offsets[of] as usize).cast::<u8>(), counts[of] as usize)
        };
        let [sent, sent_at, received, received_at] = &rows;
        let (to, of) = (|to| part(parts.input, sent, sent_at, to), |of| part(parts.output, received, received_at, of));
        self.pairs(parts, to, of, plan);
    }

    /// Whether no step on any rank is this program's own, which reads and writes memory of the host: but for the copy of a
    /// broadcast's root. Ranks say the same where an operation may be cut.
    pub(super) fn leaves_all_to_the_library(&self, call: &Call) -> bool {
        let reduces_itself = || call.reduce != Reduce::Avg && !self.session.operator(call.dtype, call.reduce).1;
        let alike = match call.op {
            Collective::Reduce => self.session.reduces_in_place(call.peer as usize),
            Collective::ReduceScatter => !call.is_in_place(),
            Collective::PingPong => call.peer != 0,
            _ => true,
        };
        alike && !self.is_cut(call) && (!call.op.reduces() || reduces_itself())
    }

    /// Whether an operation takes pieces here.
    pub(super) fn is_cut(&self, call: &Call) -> bool {
        let count = call.count(self.shape) as usize;
        let uncut = match call.op {
            Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => {
                count / self.shape.size as usize
            }
            Collective::Gather | Collective::Scatter => count / self.shape.size as usize,
            _ => count,
        };
        uncut > self.largest
    }
}

impl CallParts {
    /// The element at this index of a buffer.
    fn at(&self, data: *mut u8, index: usize) -> *mut c_void {
        data.wrapping_add(index * self.element).cast()
    }
}

impl StepPlan {
    fn add(&mut self, step: MpiStep) {
        self.steps.push((false, step));
    }

    fn then(&mut self, step: MpiStep) {
        self.steps.push((true, step));
    }

    /// Memory of the plan's own, for one use a call.
    fn scratch(&mut self, bytes: usize) -> *mut u8 {
        self.scratch.resize(bytes.div_ceil(8).max(self.scratch.len()), 0);
        self.scratch.as_mut_ptr().cast()
    }
}

/// A count in pieces of at most `largest`: where each begins, and how long it is.
fn pieces(count: usize, largest: usize) -> impl Iterator<Item = (usize, c_int)> {
    (0..count).step_by(largest.max(1)).map(move |at| (at, largest.min(count - at) as c_int))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_cut_into_what_an_int_holds() {
        let cut = |count, largest| pieces(count, largest).collect::<Vec<_>>();
        assert_eq!(cut(0, 4), []);
        assert_eq!(cut(4, 4), [(0, 4)]);
        assert_eq!(cut(9, 4), [(0, 4), (4, 4), (8, 1)]);
        let int = c_int::MAX as usize;
        assert_eq!(cut(int + 2, int), [(0, c_int::MAX), (int, 2)]);
    }
}
