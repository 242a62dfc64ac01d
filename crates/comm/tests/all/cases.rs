//! Random operations and where their buffers lie: inside larger regions, with bytes around them that nobody may touch.

use std::sync::Arc;

use comm::{Call, Communicator, Counts, blocks, extents};
use device::{Region, Slice};
use terms::{Collective, Direction, Dtype, Named, Reduce, Space};

use crate::model::Operation;
use crate::random::Random;

/// Bytes of each of a rank's regions.
const REGION: usize = 12 << 20;
/// Bytes before and behind each buffer that are checked.
pub(crate) const GUARD: usize = 192;
/// What lies where nothing was written.
const GARBAGE: u8 = 0xa5;

/// Elements per block: nothing, one, odd, and around the sizes at which implementations change their minds.
const SIZES: [u64; 24] =
    [0, 1, 2, 3, 5, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 257, 1000, 1023, 1025, 2049, 4095, 4097];
const LARGE: [u64; 8] = [8191, 16_384, 16_385, 32_769, 65_535, 65_537, 131_071, 131_073];

/// How much an operation moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Mostly little, once in a while megabytes.
    Any,
    /// At most 32 KiB.
    Small,
    /// From one to two megabytes.
    Large,
}

impl Operation {
    /// Any operation of `ranks` ranks, of a size of that class.
    pub(crate) fn random(random: &mut Random, ranks: u32, class: Class) -> Self {
        Self::random_of(random.pick(Collective::ALL), random, ranks, class)
    }

    /// The operation with any type, operator, root and size of that class.
    pub(crate) fn random_of(op: Collective, random: &mut Random, ranks: u32, class: Class) -> Self {
        let takes = |dtype: &Dtype| dtype.reduces() || !op.reduces();
        let dtypes: Vec<Dtype> = Dtype::ALL.iter().copied().filter(takes).collect();
        let dtype = random.pick(&dtypes);
        let direction = random.pick(Direction::ALL);
        let reduce = random.pick(Reduce::ALL);
        let mut peer = random.below(u64::from(ranks)) as u32;
        if op == Collective::PingPong && ranks > 1 {
            peer = peer.max(1);
        }
        let blocks = if op == Collective::AllToAllV { u64::from(ranks) } else { blocks(op, direction, ranks) };
        let most = (if class == Class::Small { 32 << 10 } else { 3 << 20 }) / dtype.bytes() / blocks;
        let size = match (class, random.below(300)) {
            (Class::Large, rare) => most / 3 + rare % 3 + random.below(2) * most / 4,
            (_, 0) => most - random.below(3),
            (_, 1..10) => random.pick(&LARGE),
            _ => random.pick(&SIZES),
        };
        let size = size.min(most);
        let counts = (op == Collective::AllToAllV).then(|| Arc::new(random_counts(random, ranks, size)));
        let count = if op == Collective::Barrier { 0 } else { size * blocks };
        Self { op, dtype, reduce, peer, direction, ranks, count, counts, seed: random.next() }
    }

    fn has_in_place(&self) -> bool {
        use Collective::{AllToAllV, Barrier, PingPong, SendRecv};
        !matches!(self.op, AllToAllV | Barrier | PingPong | SendRecv)
    }
}

/// Entries up to `size`. Many are zero, and now and then whole rows and columns.
fn random_counts(random: &mut Random, ranks: u32, size: u64) -> Counts {
    let (silent, deaf) = (random.below(u64::from(ranks) * 2) as u32, random.below(u64::from(ranks) * 2) as u32);
    let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
    let entries = pairs.map(|(from, to)| {
        let count = random.below(size + 1);
        if from == silent || to == deaf || random.once_in(4) { 0 } else { count }
    });
    Counts::new(ranks, entries.collect()).expect("a square matrix")
}

/// A rank's memory: registered and private, from which buffers are cut.
pub(crate) struct Memory {
    /// Registered, private.
    regions: [Arc<Region>; 2],
    used: [usize; 2],
}

impl Memory {
    /// Collective.
    pub(crate) fn new(comm: &mut dyn Communicator) -> Self {
        let registered = comm.alloc(REGION, Space::Host).expect("registered memory");
        Self { regions: [registered, Region::host(REGION).expect("private memory")], used: [0; 2] }
    }

    /// All buffers cut so far are free again.
    pub(crate) fn clear(&mut self) {
        self.used = [0; 2];
    }

    /// A buffer at a random element offset, garbage in and around it.
    fn cut(&mut self, random: &mut Random, bytes: u64, element: u64) -> Slice {
        let kind = random.below(2) as usize;
        let skip = (random.below(9) * element) as usize;
        let begin = self.used[kind] + GUARD + skip;
        let end = begin + bytes as usize;
        self.used[kind] = (end + GUARD).next_multiple_of(64);
        let region = &self.regions[kind];
        let guarded = region.slice(begin - GUARD, bytes as usize + 2 * GUARD).expect("the regions are large enough");
        write(&guarded, &vec![GARBAGE; guarded.len()]);
        region.slice(begin, bytes as usize).expect("inside the guards")
    }
}

/// A call with all that is needed to check it.
pub(crate) struct Prepared {
    pub(crate) operation: Operation,
    pub(crate) call: Call,
    rank: u32,
    /// The whole buffers; the call's slices may be parts of them.
    buffers: Vec<Slice>,
    input: Vec<u8>,
}

impl Prepared {
    /// Cuts the buffers of this rank. `own` differs from rank to rank: where buffers lie is each rank's own affair; so is
    /// whether those that an operation does not need are given.
    pub(crate) fn new(
        operation: Operation,
        rank: u32,
        memory: &mut Memory,
        shared: &mut Random,
        own: &mut Random,
    ) -> Self {
        let Operation { op, dtype, peer, ranks, count, .. } = operation;
        let extent = extents(op, count, rank, ranks, peer, operation.counts.as_deref());
        let element = dtype.bytes();
        let (input_bytes, output_bytes) = (extent.input * element, extent.output * element);
        let in_place = operation.has_in_place() && shared.once_in(2) && output_bytes > 0 && input_bytes > 0;
        let (input, output, buffers) = if in_place {
            let whole = memory.cut(own, input_bytes.max(output_bytes), element);
            let block = (u64::from(rank) * input_bytes.min(output_bytes)) as usize;
            let part = |bytes: u64| {
                let offset = if bytes < whole.len() as u64 { block } else { 0 };
                whole.slice(offset, bytes as usize).expect("a block of the whole")
            };
            (part(input_bytes), part(output_bytes), vec![whole.clone()])
        } else {
            // Ranks other than the root accept a buffer that they do not need, and must leave it alone.
            let idle = op.has_root() && rank != peer;
            let sends_only = matches!(op, Collective::Reduce | Collective::Gather);
            let mut spare = |bytes: u64, unused: bool| {
                if idle && unused && own.once_in(2) { own.below(5) * element } else { bytes }
            };
            let input_bytes = spare(input_bytes, !sends_only);
            let output_bytes = spare(output_bytes, sends_only);
            let input = memory.cut(own, input_bytes, element);
            let output = memory.cut(own, output_bytes, element);
            (input.clone(), output.clone(), vec![input, output])
        };
        let call = Call {
            op,
            input,
            output,
            dtype,
            reduce: operation.reduce,
            peer,
            direction: operation.direction,
            counts: operation.counts.clone(),
        };
        let input = operation.input(rank, call.input.len() as u64 / element);
        Self { operation, call, rank, buffers, input }
    }

    /// What the rank gives, to be written before the call begins.
    pub(crate) fn fill(&self) -> impl FnOnce() + Send + 'static {
        let (slice, input) = (self.call.input.clone(), self.input.clone());
        move || write(&slice, &input)
    }

    /// Copies what there is now, for [`Prepared::check`].
    pub(crate) fn capture(&self) -> impl FnOnce() -> Vec<Vec<u8>> + Send + 'static {
        let buffers = self.buffers.clone();
        move || buffers.iter().map(read_guarded).collect()
    }

    /// Panics unless `captured` is right to the last byte.
    pub(crate) fn check(&self, captured: &[Vec<u8>], context: &str) {
        let operation = &self.operation;
        let extent = extents(
            operation.op,
            operation.count,
            self.rank,
            operation.ranks,
            operation.peer,
            operation.counts.as_deref(),
        );
        let got = operation.output(self.rank, extent.output);
        let in_place = self.call.is_in_place();
        for (buffer, bytes) in self.buffers.iter().zip(captured) {
            let (head, rest) = bytes.split_at(GUARD);
            let (inside, tail) = rest.split_at(buffer.len());
            let whole = |side: &[u8]| side.iter().all(|byte| *byte == GARBAGE);
            assert!(whole(head) && whole(tail), "bytes around a buffer were touched: {context} {self}");
            let offset_in = |slice: &Slice| slice.offset() - buffer.offset();
            let is = |slice: &Slice| same(slice, buffer);
            if is(&self.call.output) && !self.call.output.is_empty() {
                let from = offset_in(&self.call.output);
                let mut expected = got.clone();
                // An output that the operation leaves alone.
                expected.resize(self.call.output.len(), GARBAGE);
                self.compare(&inside[from..from + expected.len()], &expected, context);
            }
            if is(&self.call.input) && !in_place {
                assert!(inside == self.input, "the input was changed: {context} {self}");
            }
        }
    }

    fn compare(&self, got: &[u8], expected: &[u8], context: &str) {
        let element = self.operation.dtype.bytes() as usize;
        let differs = |(got, expected): (&[u8], &[u8])| got != expected;
        let wrong: Vec<usize> = got
            .chunks(element)
            .zip(expected.chunks(element))
            .enumerate()
            .filter(|(_, pair)| differs(*pair))
            .map(|(at, _)| at)
            .collect();
        let Some(first) = wrong.first() else { return };
        let at = first * element..(first + 1) * element;
        panic!(
            "{} of {} elements are wrong, the first at {first}: expected {:02x?}, got {:02x?}: {context} {self}",
            wrong.len(),
            expected.len() / element,
            &expected[at.clone()],
            &got[at]
        );
    }
}

impl std::fmt::Display for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = if self.call.is_in_place() { "in place" } else { "out of place" };
        write!(f, "rank {} {place} {:?}", self.rank, self.operation)
    }
}

/// Whether the slice is a part of the buffer.
fn same(slice: &Slice, buffer: &Slice) -> bool {
    let inside = slice.offset() >= buffer.offset() && slice.offset() + slice.len() <= buffer.offset() + buffer.len();
    slice.region().id() == buffer.region().id() && inside
}

fn write(slice: &Slice, bytes: &[u8]) {
    assert_eq!(slice.len(), bytes.len());
    // SAFETY: the slice lies inside its region, and no call that was given it is in flight.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), slice.ptr(), bytes.len()) };
}

/// The buffer with its guards.
fn read_guarded(buffer: &Slice) -> Vec<u8> {
    let guarded = buffer.region().slice(buffer.offset() - GUARD, buffer.len() + 2 * GUARD).expect("as it was cut");
    let mut bytes = vec![0; guarded.len()];
    // SAFETY: the slice lies inside its region, and the call that was given the buffer is complete.
    unsafe { std::ptr::copy_nonoverlapping(guarded.ptr(), bytes.as_mut_ptr(), bytes.len()) };
    bytes
}
