//! A collective on one rank: its buffers, its call, what they must hold.

use std::any::Any;
use std::sync::Arc;

use comm::{Call, Communicator};
use contract::{Prepared, RankContext, Work, failure};
use device::cuda::Graph;
use device::{Region, Slice};
use measure::{Failure, WrongReport};
use serde_json::{Map, Value};
use terms::{BufferKind, Collective, Reduce, Space};

use super::bare::Bare;
use super::data::InputSource;
use super::parameters::{Parameters, Together};
use super::pattern::PERIOD;
use super::random::ReducedBounds;
use super::segments::{Moves, Segment, compare, fill, poison, read};
use super::streams::share_of;
use super::table::{Numbers, PeriodTable};
use super::watch::ResultWatch;

/// Elements that a refill displaces the inputs by. Prime to the period, so that no two refills in a row of thousands
/// give the same; not near a power of two, which blocks often are.
const SHIFT: u64 = 1409;

/// Elements by which the inputs of one copy of the buffers are displaced from those of the copy before: a call that used
/// another copy would be seen.
const BESIDE: u64 = 3001;

/// Buffers up to this many bytes are checked twice, from other inputs: backends alternate between slots, and a fault in
/// one of two shows at every second call. Above, a check costs as much as many calls do.
const CHECKED_TWICE: u64 = 1 << 20;

struct PreparedCollective {
    /// What ends before the buffers: a graph of calls, and their registrations.
    graph: Option<Graph>,
    _registered: Vec<Box<dyn Any>>,
    parameters: Parameters,
    rank: u32,
    source: InputSource,
    call: Call,
    /// What the input holds before the first call; empty for ranks that give nothing.
    inputs: Vec<Segment>,
    /// Tables of all ranks' inputs, for operations that move data; empty for those that reduce.
    tables: Vec<Arc<PeriodTable>>,
    /// Elements that every table is displaced by now: each refill displaces all ranks' inputs alike, so that what a call
    /// left before it is not right after it. All ranks refill in the same places.
    shift: u64,
    copies: Copies,
    bare: Bare,
    results: Results,
    /// Where bits of results are compared.
    watch: Option<ResultWatch>,
    /// Whether the limit's loop has left its own bytes in the buffers since the last refill.
    is_overwritten: bool,
    /// Why the buffers could not be filled.
    failed: Option<Failure>,
}

/// What a reduction must leave.
enum Results {
    Exact {
        /// What one call leaves.
        once: Arc<Numbers>,
        /// What so many calls leave: comparisons in the middle ask for the same again and again.
        reduced: Option<(u64, Arc<PeriodTable>)>,
    },
    Bounded(ReducedBounds),
}

impl Results {
    fn new(source: &InputSource) -> Self {
        match source {
            InputSource::Exact(pattern) => Self::Exact { once: pattern.once(), reduced: None },
            InputSource::Random(random) => Self::Bounded(ReducedBounds::new(*random)),
        }
    }
}

/// Calls whose results are compared bit by bit before a case is timed, in every trial.
const REPEATS: u32 = 4;

/// The copies of the buffers that calls rotate through. `call` names those of one of them.
struct Copies {
    count: u64,
    /// Copy of the next call.
    next: u64,
    /// Where input and output begin in the first copy, and bytes from one copy to the next.
    begins: [usize; 2],
    steps: [usize; 2],
}

impl Copies {
    /// Moves to the next copy, which is then used.
    #[inline]
    fn advance(&mut self) -> u64 {
        let copy = self.next;
        self.next = if copy + 1 == self.count { 0 } else { copy + 1 };
        copy
    }

    /// Has the call use this copy.
    #[inline]
    fn select(&self, call: &mut Call, copy: u64) {
        let offset = |side: usize| self.begins[side] + self.steps[side] * copy as usize;
        let moved = call.input.move_to(offset(0)) && call.output.move_to(offset(1));
        debug_assert!(moved, "copies lie in their regions");
    }

    /// Calls that used a copy, of so many since the last refill.
    fn calls_of(&self, copy: u64, calls: u64) -> u64 {
        calls / self.count + u64::from(copy < calls % self.count)
    }
}

/// Allocates and fills. Collective.
pub(super) fn prepare(parameters: Parameters, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
    let Parameters { op, dtype, reduce, ranks, .. } = parameters;
    let source = parameters.source().ok_or_else(|| {
        Failure::new(format!("{reduce} of {dtype} over {ranks} ranks has no result to check against"))
    })?;
    let (input, output) = allocate(&parameters, context)?;
    let tables = if op == Collective::Barrier { Vec::new() } else { input_tables(&source, &parameters, context.rank) };
    let own = tables.get(if op.reduces() { 0 } else { context.rank as usize }).cloned();
    let inputs = own.into_iter().map(|table| Segment { offset: 0, len: input.len(), table, phase: 0 }).collect();
    let counts = parameters.counts.clone();
    let (region_lengths, both) = (parameters.region_lengths(context.rank), parameters.in_place);
    let steps =
        [region_lengths.0, if both { region_lengths.0 } else { region_lengths.1 }].map(|len| parameters.step(len));
    let copies = Copies { count: parameters.copies(), next: 0, begins: [input.offset(), output.offset()], steps };
    // The limit of a GPU's memory is not measured yet.
    let bare = match parameters.space {
        Space::Host => Bare::new(&parameters, context.rank, &*context.comm, [input.region(), output.region()], steps),
        Space::Cuda => Bare::none(),
    };
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
    let registered = register(&parameters, context, [call.input.region(), call.output.region()])?;
    let mut prepared = PreparedCollective {
        graph: None,
        _registered: registered,
        watch: parameters.reproducible.then(|| ResultWatch::new(&parameters, context)).transpose()?,
        parameters,
        rank,
        source,
        call,
        inputs,
        tables,
        shift: 0,
        copies,
        bare,
        results: Results::new(&source),
        is_overwritten: false,
        failed: None,
    };
    prepared.refill();
    prepared.filled()?;
    if let Together::Graph(count) = prepared.parameters.together {
        prepared.graph = Some(context.comm.capture(&prepared.call, count).map_err(failure)?);
        prepared.refill();
        prepared.filled()?;
    }
    prepared.repeat(&mut *context.comm)?;
    Ok(Box::new(prepared))
}

/// Makes the buffers known to the communicator, as the case asks for.
fn register(
    parameters: &Parameters,
    context: &mut RankContext,
    buffers: [&Arc<Region>; 2],
) -> Result<Vec<Box<dyn Any>>, Failure> {
    let Some(how) = parameters.registration else { return Ok(Vec::new()) };
    let [input, output] = buffers;
    let several = [Some(input), Some(output).filter(|_| input.id() != output.id())];
    let mut register = |region: &Arc<Region>| context.comm.register(region, how).map_err(failure);
    several.into_iter().flatten().map(&mut register).collect()
}

/// Every rank's input for operations that move data (any of it may arrive here); only this rank's for reductions.
fn input_tables(source: &InputSource, parameters: &Parameters, rank: u32) -> Vec<Arc<PeriodTable>> {
    let ranks = if parameters.op.reduces() { rank..rank + 1 } else { 0..parameters.ranks };
    ranks.map(|rank| Arc::new(source.inputs(rank))).collect()
}

/// This rank's input and output, as the operation's layout has them.
fn allocate(parameters: &Parameters, context: &mut RankContext) -> Result<(Slice, Slice), Failure> {
    let (input, output) = parameters.lengths(context.rank);
    let (input_begin, output_begin) = parameters.begins(context.rank);
    let (input_region, output_region) = parameters.region_lengths(context.rank);
    let mut region = |bytes: usize| -> Result<Arc<Region>, Failure> {
        let too_much = || Failure::lacking("all copies of a buffer are more bytes than there are addresses");
        let bytes = parameters.region(bytes).ok_or_else(too_much)?;
        match parameters.buffers {
            BufferKind::Registered => context.comm.alloc(bytes, parameters.space).map_err(failure),
            BufferKind::Private if parameters.space == Space::Host => {
                Region::host(bytes).map_err(|error| Failure::lacking(error.to_string()))
            }
            BufferKind::Private => context.comm.alloc_private(bytes, parameters.space).map_err(failure),
        }
    };
    let cut = |region: &Arc<Region>, offset: usize, len: usize| {
        region.slice(offset, len).ok_or_else(|| Failure::new("a buffer is smaller than its layout"))
    };
    let from = region(input_region)?;
    let to = if parameters.in_place { from.clone() } else { region(output_region)? };
    Ok((cut(&from, input_begin, input)?, cut(&to, output_begin, output)?))
}

impl PreparedCollective {
    /// What a reduction leaves at each element after `calls` calls; None where it is known within a bound only.
    fn reduced(&mut self, calls: u64) -> Option<Arc<PeriodTable>> {
        let (InputSource::Exact(pattern), Results::Exact { once, reduced }) = (self.source, &mut self.results) else {
            return None;
        };
        // Only sums in place differ from call to call.
        let grows = self.parameters.in_place && self.parameters.reduce == Reduce::Sum;
        let calls = if grows { calls } else { calls.min(1) };
        if let Some((_, table)) = reduced.as_ref().filter(|(known, _)| *known == calls) {
            return Some(table.clone());
        }
        let table = Arc::new(pattern.reduced(once, calls, self.rank));
        *reduced = Some((calls, table.clone()));
        Some(table)
    }

    /// The element of a reduction's result that this rank's output begins with.
    fn begin(&self) -> u64 {
        let block = self.parameters.count() / u64::from(self.parameters.ranks);
        if self.parameters.op == Collective::ReduceScatter { block * u64::from(self.rank) } else { 0 }
    }

    /// Whether this rank gets the result of a reduction.
    fn gets_result(&self) -> bool {
        let is_root = self.parameters.op != Collective::Reduce || self.rank == self.parameters.peer;
        self.parameters.op.reduces() && is_root && !self.call.output.is_empty()
    }

    /// What the output must hold after `calls` calls.
    fn expected(&mut self, calls: u64) -> Vec<Segment> {
        let Parameters { op, ranks, direction, peer, in_place, .. } = self.parameters;
        let output = self.call.output.len();
        if op.reduces() {
            let (gets, phase) = (self.gets_result(), self.begin());
            let table = self.reduced(calls).filter(|_| gets);
            return table.map(|table| Segment { offset: 0, len: output, table, phase }).into_iter().collect();
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

    /// These stretches as the last refill displaced them in this copy of the buffers.
    fn shifted(&self, mut segments: Vec<Segment>, copy: u64) -> Vec<Segment> {
        let displaced = self.displaced(copy);
        segments.iter_mut().for_each(|segment| segment.phase += displaced);
        segments
    }

    /// Elements that this copy of the buffers is displaced by.
    fn displaced(&self, copy: u64) -> u64 {
        (self.shift + copy * BESIDE) % PERIOD as u64
    }

    /// Compares a buffer of this copy; indices go on from one copy to the next.
    fn compare(
        &self,
        buffer: &Slice,
        expected: Vec<Segment>,
        copy: u64,
        report: &mut WrongReport,
    ) -> Result<(), Failure> {
        let (dtype, before_this) = (self.parameters.dtype, report.first.len());
        compare(buffer, &self.shifted(expected, copy), dtype, self.rank, report)?;
        let before = copy * (buffer.len() as u64 / dtype.bytes());
        report.first[before_this..].iter_mut().for_each(|wrong| wrong.index += before);
        Ok(())
    }

    /// Compares random numbers that were reduced with their bounds. False where the result is not one of these.
    fn compare_bounded(&mut self, copy: u64, calls: u64, report: &mut WrongReport) -> Result<bool, Failure> {
        let (gets, displaced, before_this) =
            (self.gets_result(), self.begin() + self.displaced(copy), report.first.len());
        let Results::Bounded(bounds) = &mut self.results else { return Ok(false) };
        if !self.parameters.op.reduces() {
            return Ok(false);
        }
        if gets {
            bounds.compare(&self.call.output, displaced, calls, self.rank, report)?;
        }
        let before = copy * (self.call.output.len() as u64 / self.parameters.dtype.bytes());
        report.first[before_this..].iter_mut().for_each(|wrong| wrong.index += before);
        Ok(true)
    }

    /// Makes a few calls from the same inputs, and compares the bits of their results. Nothing where that is not wanted.
    /// Collective.
    fn repeat(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        let Some(hook) = self.watch.as_ref().map(ResultWatch::hook) else { return Ok(()) };
        for _ in 0..REPEATS {
            self.refill();
            self.filled()?;
            self.synchronise(comm)?;
            hook.quietly(|| self.run(comm))?;
            self.drain(comm)?;
            self.synchronise(comm)?;
            self.note(comm, u64::from(self.parameters.together.count()))?;
        }
        self.refill();
        self.filled()
    }

    fn synchronise(&self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.watch.as_ref().map_or(Ok(()), |watch| watch.synchronise(comm))
    }

    /// Compares the bits of what `calls` calls from fresh inputs left with earlier results. Collective.
    fn note(&mut self, comm: &mut dyn Communicator, calls: u64) -> Result<(), Failure> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        // In place, each call works on what the one before left; two exchanges bring everything back.
        let calls = match self.parameters.op {
            op if self.parameters.in_place && op.reduces() => calls,
            Collective::AllToAll if self.parameters.in_place => 2 - calls % 2,
            _ => 1,
        };
        watch.note(comm, calls, read(&self.call.output)?)
    }

    /// Fills this copy of the buffers.
    fn fill(&self, copy: u64) -> Result<(), Failure> {
        // The output first: in place, the input lies in it.
        poison(&self.call.output, self.source.poison())?;
        fill(&self.call.input, &self.shifted(self.inputs.clone(), copy))
    }

    /// Whether the last refill could be made.
    fn filled(&mut self) -> Result<(), Failure> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Whether the inputs must still be what they were: they do unless the operation works in them.
    fn inputs_stay(&self) -> bool {
        !self.call.is_in_place() && !self.inputs.is_empty()
    }
}

/// Bytes and arithmetic of one call of a rank.
pub(super) fn work_of(parameters: &Parameters, source: &InputSource, rank: u32) -> Work {
    let Parameters { op, dtype, reduce, ranks, touch, .. } = *parameters;
    let (share, copies) = (share_of(parameters, rank), parameters.copies());
    // n - 1 additions an element that this rank reduces; min and max count as one each.
    let adds = if op.reduces() { share.bytes / dtype.bytes() * u64::from(ranks - 1) } else { 0 };
    // Of the case, not of this rank's share: all ranks must call equally often.
    let small = parameters.bytes <= CHECKED_TWICE && copies == 1;
    let divides = if reduce == Reduce::Avg { share.bytes / dtype.bytes() } else { 0 };
    // What one launch makes is timed together, and the time of a call is its part.
    let together = parameters.together.count();
    let calls = match source.max_calls() {
        u64::MAX => u64::MAX,
        calls => (calls / u64::from(together)).max(1),
    };
    Work {
        traffic_bytes: share.traffic() * u64::from(together),
        flops: (adds + divides) as f64 * f64::from(together),
        messages: together * if op == Collective::PingPong { 2 } else { 1 },
        max_calls: if touch { 1 } else { calls.saturating_mul(copies) },
        copies,
        checks: 1 + u32::from(small) + 2 * u32::from(parameters.reproducible),
        steps: false,
        group: 0,
        sample_ns: 0,
    }
}

impl Prepared for PreparedCollective {
    fn run(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        if self.copies.count > 1 {
            let copy = self.copies.advance();
            self.copies.select(&mut self.call, copy);
        }
        if self.failed.is_some() {
            self.filled()?;
        }
        match (self.parameters.together, &self.graph) {
            (Together::Graph(_), Some(graph)) => comm.replay(graph, self.call.op),
            (Together::Group(count), _) => comm.enqueue_grouped(&self.call, count),
            _ => comm.enqueue(&self.call),
        }
        .map_err(failure)
    }

    fn drain(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        comm.drain().map_err(failure)
    }

    fn compute_ns(&self) -> u64 {
        self.parameters.compute_ns
    }

    fn refill(&mut self) {
        self.is_overwritten = false;
        // Bits of results are compared on the same inputs.
        if self.watch.is_none() {
            self.shift = (self.shift + SHIFT) % PERIOD as u64;
        }
        for copy in 0..self.copies.count {
            self.copies.select(&mut self.call, copy);
            self.failed = self.fill(copy).err().or(self.failed.take());
        }
        self.copies.next = 0;
        self.copies.select(&mut self.call, 0);
    }

    fn check(&mut self, comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        self.filled()?;
        let calls = calls * u64::from(self.parameters.together.count());
        let mut report = WrongReport::default();
        // Copies were used equally often, or once more: what must come out is computed for the two.
        let mut known: Vec<(u64, Vec<Segment>)> = Vec::with_capacity(2);
        for copy in 0..self.copies.count {
            let own = self.copies.calls_of(copy, calls);
            self.copies.select(&mut self.call, copy);
            if own > 0 && !self.compare_bounded(copy, own, &mut report)? {
                if known.iter().all(|(calls, _)| *calls != own) {
                    known.push((own, self.expected(own)));
                }
                let expected =
                    known.iter().find(|(calls, _)| *calls == own).map_or_else(Vec::new, |(_, all)| all.clone());
                self.compare(&self.call.output, expected, copy, &mut report)?;
            }
            if own == 0 || self.inputs_stay() {
                self.compare(&self.call.input, self.inputs.clone(), copy, &mut report)?;
            }
        }
        let next = self.copies.next;
        self.copies.select(&mut self.call, next);
        if calls > 0 && !self.is_overwritten {
            self.note(comm, calls)?;
        }
        Ok(report)
    }

    fn work(&self) -> Work {
        work_of(&self.parameters, &self.source, self.rank)
    }

    fn path(&self, comm: &dyn Communicator) -> String {
        comm.path(&self.call).to_owned()
    }

    fn details(&mut self) -> Map<String, Value> {
        self.watch.as_ref().map_or_else(Map::new, |watch| watch.noted().write())
    }

    fn limits(&self) -> Vec<String> {
        self.bare.variants.iter().map(|variant| variant.name.clone()).collect()
    }

    fn limit(&mut self, variant: usize, round: u32) -> Option<u64> {
        let copy = self.copies.advance();
        self.is_overwritten = true;
        self.bare.run(variant, round, copy as usize)
    }
}
