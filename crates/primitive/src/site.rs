//! The buffers of a case on one rank, and what computes on them. All implementations of a case have the same.

mod contents;

use std::collections::BTreeMap;
use std::sync::Arc;

use comm::{Call, Communicator, Counts};
use contract::{RankContext, failure};
use device::{Region, Slice};
use measure::Failure;
use serde_json::{Map, Value, json};
use terms::{Collective, Direction, Dtype, Reduce, Space};

use super::attention::Attention;
use super::experts::Oracle;
use super::machine::Machine;
use super::on_gpu::{AttentionOnGpu, OnGpu};
use super::pattern::{Pattern, SumTable};
use super::product::{BufferBlock, Multiplier, Operands, Size};
use super::task::{Scheme, Task};
use super::tolerance::tolerances;

/// What a rank's buffers hold before a call, in addition to its own operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenBuffers {
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

/// The buffers, the pattern that they hold, and what computes on them.
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
    /// Attention on a GPU.
    attention_there: Option<AttentionOnGpu>,
    /// What routed tokens are, and where they must be.
    oracle: Option<Oracle>,
    /// Chunks in which tokens arrive.
    chunks: usize,
    machine: Machine,
    pattern: Pattern,
    /// Sums over the whole depth, and over this rank's part.
    tables: [SumTable; 2],
    /// How far elements of the result may be off, and of this rank's own products.
    tolerances: [f64; 2],
}

impl Site {
    /// Allocates. Collective. `shared`: other ranks reach the buffers of a GPU by themselves.
    ///
    /// # Errors
    /// When there is no memory, or there are no threads; what a GPU lacks.
    pub(super) fn new(task: Task, context: &mut RankContext, shared: bool) -> Result<Self, Failure> {
        let space = task.means.space;
        let mut slice = |(elements, dtype): (usize, Dtype)| -> Result<Slice, Failure> {
            let bytes = elements * dtype.bytes() as usize;
            // Registered memory is allocated together: no rank leaves an empty buffer out. What NCCL allocates, no other process
            // can import.
            let region: Arc<Region> = match space == Space::Cuda && shared {
                true => context.comm.alloc_private(bytes.max(64), space),
                false => context.comm.alloc(bytes.max(64), space),
            }
            .map_err(failure)?;
            region.slice(0, bytes).ok_or_else(|| Failure::new("a buffer is smaller than its layout"))
        };
        let (sizes, dtypes) = (task.elements(), task.dtypes());
        let [own, other, wide, block, output] = std::array::from_fn(|which| slice((sizes[which], dtypes[which])));
        let (own, other, wide, block, output) = (own?, other?, wide?, block?, output?);
        let attends = task.scheme == Scheme::Attention;
        let machine = match space {
            Space::Cuda => Machine::Gpu(Box::new(OnGpu::new(&task, &own)?)),
            Space::Host => {
                let cores = context.thread_cores(task.threads);
                let blocks = if attends { Attention::blocks(&task) } else { blocks(&task) };
                Machine::Host(Multiplier::new(task.dtype, task.threads, &cores, &blocks)?)
            }
        };
        let attention = attends.then(|| Attention::new(&task)).transpose()?;
        let of_gpu = machine.gpu().filter(|_| attends);
        let attention_there = of_gpu.map(|gpu| AttentionOnGpu::new(&task, gpu)).transpose()?;
        let (pattern, tables) = if attends {
            let pattern = Pattern::new(task.seed, 1 << 24, task.rows(), task.dtype, task.means.drawn);
            let empty = pattern.table(0, 0);
            (pattern, [empty.clone(), empty])
        } else {
            Pattern::for_task(&task)
        };
        let tolerances = tolerances(&task, &pattern, &tables);
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
            attention_there,
            oracle,
            chunks: 1,
            machine,
            pattern,
            tables,
            tolerances,
        })
    }

    /// What computes.
    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Before a call: what it computes comes after all that a device was given.
    pub(super) fn fork(&self) -> Result<(), Failure> {
        self.machine.gpu().map_or(Ok(()), OnGpu::fork)
    }

    /// After a call: what a device is given comes after all that was computed.
    pub(super) fn join(&self) -> Result<(), Failure> {
        self.machine.gpu().map_or(Ok(()), OnGpu::join)
    }

    /// Waits until all that was given to a device is complete.
    pub(super) fn drain(&self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        comm.drain().map_err(failure)?;
        self.machine.gpu().map_or(Ok(()), |gpu| gpu.finish(comm))
    }

    /// Products run beside communication from now on, where a device has a stream for each.
    pub(super) fn overlap(&self) -> Result<(), Failure> {
        self.machine.gpu().map_or(Ok(()), OnGpu::overlap)
    }

    /// Tokens arrive in so many chunks.
    pub(super) fn expect_chunks(&mut self, chunks: usize) {
        self.chunks = chunks;
        if let Some(oracle) = &mut self.oracle {
            oracle.expect_chunks(chunks);
        }
    }

    /// Tokens that this rank's experts get.
    pub(super) fn received(&self) -> usize {
        self.task.routing.received(self.task.rank)
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
    /// # Errors
    /// What a GPU's library says.
    ///
    /// # Safety
    /// Nobody writes to these rows of A meanwhile, and nobody else uses those of C.
    pub(super) unsafe fn multiply(
        &self,
        operands: &Operands,
        a_row: usize,
        c_row: usize,
        rows: usize,
    ) -> Result<(), Failure> {
        let (n, k) = (self.task.n, self.task.depth());
        let block = BufferBlock { a: a_row * k, c: c_row * n, ..BufferBlock::from_size(Size { m: rows, n, k }) };
        // SAFETY: the caller's.
        unsafe { self.multiply_block(operands, &block) }
    }

    /// Multiplies rows of tokens with an expert of this rank, into the same rows of products.
    ///
    /// # Errors
    /// As [`Self::multiply`].
    ///
    /// # Safety
    /// As that of [`Self::multiply`].
    pub(super) unsafe fn multiply_expert(
        &self,
        operands: &Operands,
        expert: usize,
        row: usize,
        rows: usize,
    ) -> Result<(), Failure> {
        let Task { n, k, .. } = self.task;
        let block =
            BufferBlock { a: row * k, b: expert * k * n, c: row * n, ..BufferBlock::from_size(Size { m: rows, n, k }) };
        // SAFETY: the caller's.
        unsafe { self.multiply_block(operands, &block) }
    }

    unsafe fn multiply_block(&self, operands: &Operands, block: &BufferBlock) -> Result<(), Failure> {
        if block.size.m == 0 {
            return Ok(());
        }
        match &self.machine {
            // SAFETY: the caller's.
            Machine::Host(multiplier) => unsafe { multiplier.run(operands, block) },
            Machine::Gpu(gpu) => gpu.multiply(operands.places(), block)?,
        }
        Ok(())
    }

    /// The GPU's side of attention.
    ///
    /// # Errors
    /// Where nothing attends on a GPU: a bug in the caller.
    pub(super) fn attention_there(&self) -> Result<&AttentionOnGpu, Failure> {
        self.attention_there.as_ref().ok_or_else(|| Failure::new("this case does not compute attention on a GPU"))
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

    /// A buffer of every rank, as this rank reaches it. Collective.
    ///
    /// # Errors
    /// When the backend offers no view of peers' memory, or a GPU does not reach another.
    pub(super) fn peers(&self, context: &mut RankContext, of: &Slice) -> Result<Vec<Slice>, Failure> {
        let there = match &self.machine {
            Machine::Gpu(_) => contract::peers::memory(of.region(), context)?,
            Machine::Host(_) => BTreeMap::new(),
        };
        let view = |rank: usize| {
            if rank == self.task.rank {
                return Some(of.clone());
            }
            let view = match &self.machine {
                Machine::Gpu(_) => there.get(&(rank as u32)).cloned(),
                Machine::Host(_) => context.comm.peer_view(of.region(), rank as u32).map(|region| region.whole()),
            };
            view?.slice(of.offset(), of.len())
        };
        let views: Option<Vec<Slice>> = (0..self.task.ranks).map(view).collect();
        let lacks = "ranks cannot access each other's memory with this backend (use `backend: shm`)";
        views.ok_or_else(|| Failure::lacking(lacks))
    }

    /// Conditions of this rank, for the audit.
    pub(super) fn conditions(&self) -> Map<String, Value> {
        let bytes = self.task.bytes();
        match &self.machine {
            Machine::Gpu(gpu) => {
                let mut all = gpu.details();
                all.insert("buffer_bytes".to_owned(), json!(bytes));
                all
            }
            Machine::Host(multiplier) => {
                let blocks = if self.attention.is_some() { Attention::blocks(&self.task) } else { blocks(&self.task) };
                let multiplied = blocks.first().map_or("", |block| multiplier.multiplied(block));
                let entries = [
                    ("buffer_bytes", json!(bytes)),
                    ("threads", json!(multiplier.threads())),
                    ("multiplied", json!(multiplied)),
                ];
                entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }
        }
    }
}

/// Sizes of products that may be asked for, for temporary memory: all rows, and any part of them.
fn blocks(task: &Task) -> Vec<BufferBlock> {
    let Size { m, n, k } = task.product();
    // An expert multiplies its own tokens.
    let most = if task.scheme == Scheme::Exchange { task.routing.most_of_an_expert() } else { m.max(task.m) };
    let halves = std::iter::successors(Some(most), |rows| Some(rows / 2));
    halves.take_while(|rows| *rows > 0).map(|m| BufferBlock::from_size(Size { m, n, k })).collect()
}
