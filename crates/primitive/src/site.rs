//! The buffers of a case on one rank: filled, and compared with what must stand in them. All implementations of a case have
//! the same.

use std::sync::Arc;

use comm::{Call, Communicator, Counts};
use contract::{RankContext, failure};
use device::{Region, Slice};
use measure::{Failure, WrongReport};
use terms::{Collective, Direction, Dtype, Reduce, Space};

use super::attention::Attention;
use super::experts::Oracle;
use super::pattern::{Comparison, Expected, Pattern, Table};
use super::product::{Block, Multiplier, Operands, Size};
use super::task::{Scheme, Task};

/// What a rank's buffers hold before a call, in addition to its own operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// Nothing.
    Operands,
    /// The products, ready to be sent.
    Products,
    /// The other ranks' operands, as if gathered.
    Gathered,
}

/// What a call leaves, to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// The whole result.
    Result,
    /// This rank's own products, before any communication.
    Products,
    /// The other ranks' operands.
    Gathered,
}

/// The buffers, the pattern that they hold, and what multiplies them.
pub(super) struct Site {
    pub(super) task: Task,
    /// The rank that speaks of wrong elements: the task's, unless each rank computes the whole problem.
    reporter: u32,
    /// What this rank gives: its rows of A, keys and values, tokens.
    pub(super) own: Slice,
    /// The other operand: B, queries.
    pub(super) other: Slice,
    /// What is gathered, or not yet reduced.
    pub(super) wide: Slice,
    /// Products on their way.
    pub(super) block: Slice,
    pub(super) output: Slice,
    pub(super) attention: Option<Attention>,
    /// What routed tokens are, and where they must be.
    oracle: Option<Oracle>,
    /// Chunks in which tokens arrive.
    chunks: usize,
    multiplier: Multiplier,
    pattern: Pattern,
    /// Sums over the whole depth, and over this rank's part.
    tables: [Table; 2],
    tolerance: f64,
}

impl Site {
    /// Allocates. Collective.
    ///
    /// # Errors
    /// When there is no memory, or there are no threads.
    pub(super) fn new(task: Task, context: &mut RankContext) -> Result<Self, Failure> {
        let size = task.dtype.bytes() as usize;
        let mut slice = |elements: usize| -> Result<Slice, Failure> {
            // Registered memory is allocated together: no rank leaves an empty buffer out.
            let region: Arc<Region> = context.comm.alloc((elements * size).max(64), Space::Host).map_err(failure)?;
            region.slice(0, elements * size).ok_or_else(|| Failure::new("a buffer is smaller than its layout"))
        };
        let [own, other, wide, block, output] = task.elements().map(&mut slice);
        let (own, other, wide, block, output) = (own?, other?, wide?, block?, output?);
        let cores = context.thread_cores(task.threads);
        let attends = task.scheme == Scheme::Attention;
        let blocks = if attends { Attention::blocks(&task) } else { blocks(&task) };
        let multiplier = Multiplier::new(task.dtype, task.threads, &cores, &blocks)?;
        let attention = attends.then(|| Attention::new(&task)).transpose()?;
        let pattern =
            Pattern::new(task.seed, if attends { 1 << 24 } else { task.whole_depth() }, task.rows(), task.dtype);
        let tables = if attends {
            [pattern.table(0, 0), pattern.table(0, 0)]
        } else {
            let begin = task.depth_begin(task.rank);
            [pattern.table(0, task.whole_depth()), pattern.table(begin, task.depth())]
        };
        let tolerance = tolerance(&task, &pattern, &tables[0]);
        let (oracle, reporter) = (Oracle::new(&task), context.rank);
        Ok(Self {
            task,
            reporter,
            own,
            other,
            wide,
            block,
            output,
            attention,
            oracle,
            chunks: 1,
            multiplier,
            pattern,
            tables,
            tolerance,
        })
    }

    /// Tokens arrive in so many chunks.
    pub(super) fn expect_chunks(&mut self, chunks: usize) {
        self.chunks = chunks;
        if let Some(oracle) = &mut self.oracle {
            oracle.expect_chunks(chunks);
        }
    }

    /// Fresh operands; results of before are overwritten.
    pub(super) fn refill(&mut self, given: Given) {
        self.pattern.displace();
        for buffer in [&self.wide, &self.block, &self.output] {
            // SAFETY: the slice lies inside this rank's region, and no operation is in flight.
            unsafe { std::ptr::write_bytes(buffer.ptr(), 0xA5, buffer.len()) };
        }
        self.fill_operands();
        match given {
            Given::Operands => {}
            Given::Products => self.fill_products(),
            Given::Gathered => self.fill_gathered(),
        }
    }

    fn fill_operands(&mut self) {
        let Task { dtype, rank, n, .. } = self.task;
        if let Some(attention) = &mut self.attention {
            attention.displace();
            attention.fill(&self.own, &self.other);
            return;
        }
        if let Some(oracle) = &mut self.oracle {
            oracle.displace();
            oracle.fill_operands(&self.own, &self.other);
            return;
        }
        let (depth, begin) = (self.task.depth(), self.task.depth_begin(rank));
        self.pattern.fill_rows(&self.own, dtype, self.own_rows(), begin, depth);
        let expert = if self.task.scheme == Scheme::Exchange { rank } else { 0 };
        self.pattern.fill_columns(&self.other, dtype, begin, depth, n, expert);
    }

    /// The rows of A that this rank has.
    fn own_rows(&self) -> std::ops::Range<usize> {
        match self.task.scheme {
            Scheme::ScatterLast | Scheme::ReduceLast => 0..self.task.m,
            _ => self.task.rank * self.task.rows()..(self.task.rank + 1) * self.task.rows(),
        }
    }

    /// The rows of the result that this rank has.
    fn result_rows(&self) -> std::ops::Range<usize> {
        match self.task.scheme {
            Scheme::ScatterLast | Scheme::Exchange => {
                self.task.rank * self.task.rows()..(self.task.rank + 1) * self.task.rows()
            }
            _ => 0..self.task.m,
        }
    }

    /// The rows that this rank gets as an expert, as they arrive.
    fn received_rows(&self) -> impl Iterator<Item = usize> + use<> {
        let (rows, rank, routing) = (self.task.rows(), self.task.rank, self.task.routing.clone());
        let (ranks, chunks) = (self.task.ranks, self.chunks);
        let parts = (0..chunks).flat_map(move |chunk| (0..ranks).map(move |from| (chunk, from)));
        parts.flat_map(move |(chunk, from)| {
            routing.places_of_chunk(from, rank, (chunk, chunks)).map(move |token| from * rows + token)
        })
    }

    /// The expert of each of this rank's tokens, which lie sorted.
    fn expert_of(&self, row: usize) -> usize {
        self.task.routing.expert(self.task.rank, row - self.task.rank * self.task.rows())
    }

    /// Tokens that this rank's experts get.
    pub(super) fn received(&self) -> usize {
        self.task.routing.received(self.task.rank)
    }

    /// Where this rank's own products stand, and the rows that they are of.
    fn products(&self) -> (Slice, Vec<usize>) {
        let Task { n, rank, .. } = self.task;
        let rows = self.task.rows();
        match self.task.scheme {
            Scheme::GatherFirst => (self.output.clone(), (0..self.task.m).collect()),
            Scheme::GatherLast => (self.part(&self.output, rank * rows * n, rows * n), self.own_rows().collect()),
            Scheme::Exchange => (self.part(&self.block, 0, self.received() * n), self.received_rows().collect()),
            _ => (self.wide.clone(), (0..self.task.m).collect()),
        }
    }

    fn fill_products(&mut self) {
        let (at, rows) = self.products();
        if let Some(oracle) = &self.oracle {
            return oracle.fill_products(&at);
        }
        let Task { dtype, n, rank, .. } = self.task;
        let expert = if self.task.scheme == Scheme::Exchange { rank } else { 0 };
        self.pattern.fill_product(&at, dtype, rows.into_iter(), n, expert, &self.tables[1]);
    }

    /// The part of `wide` that holds the others' operands, and the rows that they are of.
    fn gathered(&self) -> (Slice, Vec<usize>) {
        match self.task.scheme {
            Scheme::Exchange => {
                (self.part(&self.wide, 0, self.received() * self.task.k), self.received_rows().collect())
            }
            _ => (self.wide.clone(), (0..self.task.m).collect()),
        }
    }

    fn fill_gathered(&mut self) {
        if let Some(attention) = &self.attention {
            attention.fill_gathered(&self.wide);
            return;
        }
        let (at, rows) = self.gathered();
        if let Some(oracle) = &self.oracle {
            return oracle.fill_gathered(&at);
        }
        self.pattern.fill_rows(&at, self.task.dtype, rows.into_iter(), 0, self.task.k);
    }

    /// Compares every element of what a call must have left.
    pub(super) fn compare(&self, left: Left, report: &mut WrongReport) {
        let Task { dtype, n, rank, .. } = self.task;
        let mut found = Comparison { rank: self.reporter, report };
        if let Some(attention) = &self.attention {
            return match left {
                Left::Result | Left::Products => attention.compare(&self.output, &mut found),
                Left::Gathered => attention.compare_gathered(&self.wide, &mut found),
            };
        }
        if let Some(oracle) = &self.oracle {
            return match left {
                Left::Gathered => oracle.compare_gathered(&self.gathered().0, &mut found),
                Left::Products => oracle.compare_products(&self.products().0, &mut found),
                Left::Result => oracle.compare_result(&self.output, &mut found),
            };
        }
        match left {
            Left::Gathered => {
                let (at, rows) = self.gathered();
                self.pattern.compare_rows(&at, dtype, rows.into_iter(), 0, self.task.k, &mut found);
            }
            Left::Products => {
                let (at, rows) = self.products();
                let expert = if self.task.scheme == Scheme::Exchange { rank } else { 0 };
                let rows = rows.into_iter().map(|row| (row, expert));
                // One rounding, of this rank's own sums.
                let once = rounding(dtype, self.tables[1].largest());
                let expected = Expected { columns: n, table: &self.tables[1], tolerance: once };
                self.pattern.compare_product(&at, dtype, rows, expected, &mut found);
            }
            Left::Result => {
                let exchanges = self.task.scheme == Scheme::Exchange;
                let rows = self.result_rows().map(|row| (row, if exchanges { self.expert_of(row) } else { 0 }));
                let expected = Expected { columns: n, table: &self.tables[0], tolerance: self.tolerance };
                self.pattern.compare_product(&self.output, dtype, rows, expected, &mut found);
            }
        }
    }

    /// Elements of a buffer.
    ///
    /// # Panics
    /// When they lie outside of it: a bug in the caller that cut it.
    pub(super) fn part(&self, of: &Slice, begin: usize, len: usize) -> Slice {
        let size = self.task.dtype.bytes() as usize;
        of.slice(begin * size, len * size).expect("a part lies inside its buffer")
    }

    /// Buffers of a product.
    pub(super) fn operands(&self, places: [&Slice; 3]) -> Operands {
        Operands::new(self.task.dtype, places)
    }

    /// Multiplies `rows` rows of A, from a row on, into rows of C.
    ///
    /// # Safety
    /// Nobody writes to these rows of A meanwhile, and nobody else uses those of C.
    pub(super) unsafe fn multiply(&self, operands: &Operands, a_row: usize, c_row: usize, rows: usize) {
        if rows == 0 {
            return;
        }
        let (n, k) = (self.task.n, self.task.depth());
        let block = Block { a: a_row * k, c: c_row * n, ..Block::from_size(Size { m: rows, n, k }) };
        // SAFETY: the caller's.
        unsafe { self.multiplier.run(operands, &block) }
    }

    /// Multiplies rows of tokens with an expert of this rank, into the same rows of products.
    ///
    /// # Safety
    /// As that of [`Self::multiply`].
    pub(super) unsafe fn multiply_expert(&self, operands: &Operands, expert: usize, row: usize, rows: usize) {
        let Task { n, k, .. } = self.task;
        let place = Block { a: row * k, b: expert * k * n, c: row * n, ..Block::from_size(Size { m: rows, n, k }) };
        // SAFETY: the caller's.
        unsafe { self.multiplier.run(operands, &place) }
    }

    /// Runs `work` for ranges that cover `0..items`, on all threads of this rank.
    pub(super) fn split(&self, items: usize, grain: usize, work: impl Fn(std::ops::Range<usize>) + Sync) {
        self.multiplier.split(items, grain, work);
    }

    /// What multiplies for attention.
    pub(super) fn attend(&self) -> Option<(&Attention, &Multiplier)> {
        Some((self.attention.as_ref()?, &self.multiplier))
    }

    /// A collective call between two buffers.
    pub(super) fn call(&self, op: Collective, input: Slice, output: Slice) -> Call {
        Call {
            op,
            input,
            output,
            dtype: self.task.dtype,
            reduce: Reduce::Sum,
            peer: 0,
            direction: Direction::OneWay,
            counts: None,
        }
    }

    /// The exchange of so many elements from each rank to each.
    pub(super) fn exchange(&self, input: Slice, output: Slice, counts: Vec<u64>) -> Result<Call, Failure> {
        let even = counts.first().is_none_or(|first| counts.iter().all(|count| count == first));
        if even {
            return Ok(self.call(Collective::AllToAll, input, output));
        }
        let counts =
            Counts::new(self.task.ranks as u32, counts).ok_or_else(|| Failure::new("counts are not a square"))?;
        let call = self.call(Collective::AllToAllV, input, output);
        Ok(Call { counts: Some(Arc::new(counts)), ..call })
    }

    /// A meeting of all ranks.
    pub(super) fn barrier(&self) -> Call {
        let none = self.part(&self.own, 0, 0);
        self.call(Collective::Barrier, none.clone(), none)
    }

    /// A buffer of every rank, as this rank reaches it.
    ///
    /// # Errors
    /// When the backend offers no view of peers' memory.
    pub(super) fn peers(&self, comm: &dyn Communicator, of: &Slice) -> Result<Vec<Slice>, Failure> {
        let view = |rank: usize| {
            if rank == self.task.rank {
                return Some(of.clone());
            }
            comm.peer_view(of.region(), rank as u32)?.slice(of.offset(), of.len())
        };
        let views: Option<Vec<Slice>> = (0..self.task.ranks).map(view).collect();
        let lacks = "the backend gives no view of other ranks' memory (`backend: shm` does)";
        views.ok_or_else(|| Failure::lacking(lacks))
    }

    /// Conditions of this rank, for the audit.
    pub(super) fn conditions(&self) -> (u64, usize, &'static str) {
        let block = if self.attention.is_some() {
            Attention::blocks(&self.task).into_iter().next()
        } else {
            blocks(&self.task).into_iter().next()
        };
        let multiplied = block.map_or("", |block| self.multiplier.multiplied(&block));
        (self.task.bytes(), self.multiplier.threads(), multiplied)
    }
}

/// Sizes of products that may be asked for, for temporary memory: all rows, and any part of them.
fn blocks(task: &Task) -> Vec<Block> {
    let Size { m, n, k } = task.product();
    // An expert multiplies its own tokens.
    let most = if task.scheme == Scheme::Exchange { task.routing.most_of_an_expert() } else { m.max(task.m) };
    let halves = std::iter::successors(Some(most), |rows| Some(rows / 2));
    halves.take_while(|rows| *rows > 0).map(|m| Block::from_size(Size { m, n, k })).collect()
}

/// How far a sum may be off that is rounded to the type once: not at all where the type holds every sum exactly.
fn rounding(dtype: Dtype, largest: f64) -> f64 {
    let exact = dtype.exact_integers() as f64;
    if largest <= exact { 0.0 } else { largest / exact }
}

/// How far an element of the result may be off.
///
/// Products of f32 and f64 are sums of whole numbers that these hold exactly. Types of 16 bits round the sum of each rank,
/// and each of the d - 1 additions rounds again, always by at most u times what is rounded (u is the unit roundoff). No
/// partial sum exceeds the sum M of the ranks' largest, so that the error is at most (2d - 1) u M.
fn tolerance(task: &Task, pattern: &Pattern, whole: &Table) -> f64 {
    if task.dtype.bytes() > 2 || task.scheme == Scheme::Attention {
        return 0.0;
    }
    if !matches!(task.scheme, Scheme::ScatterLast | Scheme::ReduceLast) {
        return rounding(task.dtype, whole.largest());
    }
    let largest = |rank: usize| pattern.table(task.depth_begin(rank), task.depth()).largest();
    let all: f64 = (0..task.ranks).map(largest).sum();
    (2 * task.ranks - 1) as f64 * rounding(task.dtype, all)
}
