//! A collective on one rank: its buffers, its call, what they must hold.

use std::sync::Arc;

use comm::{Call, Communicator};
use device::{Region, Slice};
use measure::{Failure, WrongReport};
use terms::{BufferKind, Collective, Reduce, Space};

use super::Parameters;
use super::pattern::{PERIOD, Pattern, Table};
use super::segments::{Moves, Segment, compare, fill};
use super::traffic::{Share, run_copy, run_share, share};
use crate::{Prepared, RankContext, Work};

/// Elements that a refill displaces the inputs by. Prime to the period, so that no two refills in a row of thousands
/// give the same; not near a power of two, which blocks often are.
const SHIFT: u64 = 1409;

struct PreparedCollective {
    parameters: Parameters,
    rank: u32,
    pattern: Pattern,
    call: Call,
    /// What the input holds before the first call; empty for ranks that give nothing.
    inputs: Vec<Segment>,
    /// Tables of all ranks' inputs, for operations that move data; empty for those that reduce.
    tables: Vec<Arc<Table>>,
    /// Elements that every table is displaced by now: each refill displaces all ranks' inputs alike, so that what a call
    /// left before it is not right after it. All ranks refill in the same places.
    shift: u64,
    share: Share,
}

/// Allocates and fills. Collective.
pub(super) fn prepare(parameters: Parameters, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
    let Parameters { op, dtype, reduce, ranks, in_place, seed, .. } = parameters;
    let pattern = Pattern::new(op, dtype, reduce, ranks, in_place, seed)
        .ok_or_else(|| Failure::new(format!("{reduce} of {dtype} over {ranks} ranks has no exact result")))?;
    let (input, output) = allocate(&parameters, context)?;
    let tables = if op == Collective::Barrier { Vec::new() } else { input_tables(&pattern, &parameters, context.rank) };
    let own = tables.get(if op.reduces() { 0 } else { context.rank as usize }).cloned();
    let inputs = own.into_iter().map(|table| Segment { offset: 0, len: input.len(), table, phase: 0 }).collect();
    let counts = parameters.counts.clone();
    let sent = counts.as_ref().map_or(0, |counts| counts.sent(context.rank) * dtype.bytes());
    let share = share(op, parameters.bytes, context.rank, ranks, parameters.peer, sent, in_place);
    let call = Call {
        op,
        input,
        output,
        dtype,
        reduce,
        peer: parameters.peer,
        direction: parameters.direction,
        counts: counts.map(Arc::new),
    };
    let rank = context.rank;
    let mut prepared = PreparedCollective { parameters, rank, pattern, call, inputs, tables, shift: 0, share };
    prepared.refill();
    Ok(Box::new(prepared))
}

/// Every rank's input for operations that move data (any of it may arrive here); only this rank's for reductions.
fn input_tables(pattern: &Pattern, parameters: &Parameters, rank: u32) -> Vec<Arc<Table>> {
    let ranks = if parameters.op.reduces() { rank..rank + 1 } else { 0..parameters.ranks };
    ranks.map(|rank| Arc::new(pattern.inputs(rank))).collect()
}

/// This rank's input and output, as the operation's layout has them.
fn allocate(parameters: &Parameters, context: &mut RankContext) -> Result<(Slice, Slice), Failure> {
    let (input, output) = parameters.lengths(context.rank);
    let (all_input, all_output) = match parameters.buffers {
        BufferKind::Private => (input, output),
        BufferKind::Registered => parameters.registered_lengths(),
    };
    let mut region = |bytes: usize| -> Result<Arc<Region>, Failure> {
        match parameters.buffers {
            BufferKind::Registered => context.comm.alloc(bytes, Space::Host).map_err(failure),
            BufferKind::Private => Region::host(bytes).map_err(|error| Failure::lacking(error.to_string())),
        }
    };
    let cut = |region: &Arc<Region>, offset: usize, len: usize| {
        region.slice(offset, len).ok_or_else(|| Failure::new("a buffer is smaller than its layout"))
    };
    if !parameters.in_place {
        let (from, to) = (region(all_input)?, region(all_output)?);
        return Ok((cut(&from, 0, input)?, cut(&to, 0, output)?));
    }
    let one = region(all_input.max(all_output))?;
    let own_block = (parameters.bytes / u64::from(parameters.ranks)) as usize * context.rank as usize;
    // Rooted: only the root has both ends, and only there is one inside the other.
    let both = input > 0 && output > 0;
    let (input_at, output_at) = match parameters.op {
        Collective::AllGather | Collective::Gather if both => (own_block, 0),
        Collective::ReduceScatter | Collective::Scatter if both => (0, own_block),
        _ => (0, 0),
    };
    Ok((cut(&one, input_at, input)?, cut(&one, output_at, output)?))
}

/// A communicator's error, as the coordinator is told.
#[cold]
pub(crate) fn failure(error: comm::Error) -> Failure {
    match error {
        comm::Error::OutOfMemory { .. } => Failure::lacking(error.to_string()),
        comm::Error::Unsupported { .. } => Failure::lacking(error.to_string()),
        _ => Failure::new(error.to_string()),
    }
}

impl PreparedCollective {
    /// What the output must hold after `calls` calls.
    fn expected(&self, calls: u64) -> Vec<Segment> {
        let Parameters { op, ranks, direction, peer, in_place, .. } = self.parameters;
        let output = self.call.output.len();
        if op.reduces() {
            let gets = output > 0 && (op != Collective::Reduce || self.rank == peer);
            let block = self.parameters.count() / u64::from(ranks);
            let phase = if op == Collective::ReduceScatter { block * u64::from(self.rank) } else { 0 };
            let table = || Arc::new(self.pattern.reduced(calls, self.rank));
            return gets.then(|| Segment { offset: 0, len: output, table: table(), phase }).into_iter().collect();
        }
        // Two exchanges in place bring everything back.
        if op == Collective::AllToAll && in_place && calls.is_multiple_of(2) {
            return self.inputs.clone();
        }
        let moves = Moves {
            op,
            count: self.parameters.count(),
            rank: self.rank,
            ranks,
            peer,
            direction,
            counts: self.parameters.counts.as_ref(),
            element: self.parameters.dtype.bytes() as usize,
        };
        moves.output(|from| self.tables[from as usize].clone())
    }

    /// These stretches as the last refill displaced them.
    fn shifted(&self, mut segments: Vec<Segment>) -> Vec<Segment> {
        segments.iter_mut().for_each(|segment| segment.phase += self.shift);
        segments
    }

    /// Whether the inputs must still be what they were: they do unless the operation works in them.
    fn inputs_stay(&self) -> bool {
        !self.call.is_in_place() && !self.inputs.is_empty()
    }
}

impl Prepared for PreparedCollective {
    fn run(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        comm.run(&self.call).map_err(failure)
    }

    fn refill(&mut self) {
        // The output first: in place, the input lies in it. A byte pattern that no expected element has would be
        // ideal; 0xA5 is in none of the sums' and differs from most of the rest, and the check counts every element.
        let output = &self.call.output;
        // SAFETY: the slice lies inside its region, and no operation is in flight.
        unsafe { std::ptr::write_bytes(output.ptr(), 0xA5, output.len()) };
        self.shift = (self.shift + SHIFT) % PERIOD as u64;
        fill(&self.call.input, &self.shifted(self.inputs.clone()));
    }

    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        let (dtype, mut report) = (self.parameters.dtype, WrongReport::default());
        compare(&self.call.output, &self.shifted(self.expected(calls)), dtype, self.rank, &mut report);
        if self.inputs_stay() {
            compare(&self.call.input, &self.shifted(self.inputs.clone()), dtype, self.rank, &mut report);
        }
        Ok(report)
    }

    fn work(&self) -> Work {
        let Parameters { op, dtype, reduce, ranks, touch, .. } = self.parameters;
        // n - 1 additions an element that this rank reduces; min and max count as one each.
        let adds = if op.reduces() { self.share.bytes / dtype.bytes() * u64::from(ranks - 1) } else { 0 };
        let divides = if reduce == Reduce::Avg { self.share.bytes / dtype.bytes() } else { 0 };
        Work {
            traffic_bytes: self.share.traffic(),
            flops: (adds + divides) as f64,
            messages: if op == Collective::PingPong { 2 } else { 1 },
            max_calls: if touch { 1 } else { self.pattern.max_calls() },
            steps: false,
        }
    }

    fn path(&self, comm: &dyn Communicator) -> String {
        comm.path(&self.call).to_owned()
    }

    fn limit(&mut self, variant: usize) -> Option<u64> {
        if self.share.traffic() == 0 {
            return None;
        }
        let (input, output) = (&self.call.input, &self.call.output);
        match variant {
            0 | 1 => run_share(&self.share, input, output, variant == 1).then(|| self.share.traffic()),
            2 => {
                let half = (self.share.traffic() / 2) as usize;
                Some(2 * run_copy(half, input, output) as u64)
            }
            _ => None,
        }
    }
}
