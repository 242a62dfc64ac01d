//! Products of matrices that lie anywhere in this rank's memory, or in a peer's that it reaches.

use device::Slice;
use engine::op::{Dense, MatMul, Op};
use engine::{Buffer, BufferId, Category, Context, Lifetime, Matmul, Memory, Scratch, Step, Threads, View};
use measure::Failure;
use terms::{Dtype, Space};

/// Rows, columns and depth of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

/// One product between three buffers: where it begins in each, in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferBlock {
    pub(super) size: Size,
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) c: usize,
    /// B is stored `[n, k]`.
    pub(super) b_transposed: bool,
    /// Adds to what c holds.
    pub(super) accumulate: bool,
}

impl BufferBlock {
    /// A plain product at the beginning of its buffers.
    pub(super) fn from_size(size: Size) -> Self {
        Self { size, a: 0, b: 0, c: 0, b_transposed: false, accumulate: false }
    }
}

/// Three buffers of a product.
pub(super) struct Operands {
    places: [Slice; 3],
    /// The buffers as the host's kernels take them; absent in memory of a GPU.
    memory: Option<Memory>,
}

/// The threads of this rank and their temporary memory.
pub(super) struct Multiplier {
    threads: Threads,
    scratch: Scratch,
    dtype: Dtype,
}

fn op(block: &BufferBlock) -> Op {
    let BufferBlock { size: Size { m, n, k }, a, b, c, b_transposed, accumulate } = *block;
    let view = |id: u32, offset: usize, len: usize| View { buffer: BufferId(id), offset, len };
    Op::Dense(Dense::MatMul(MatMul {
        a: view(0, a, m * k),
        b: view(1, b, k * n),
        c: view(2, c, m * n),
        bias: None,
        m,
        n,
        k,
        a_transposed: false,
        b_transposed,
        accumulate,
        padding: [0; 3],
    }))
}

impl Operands {
    /// A, B and C, each as large as its slice.
    pub(super) fn new(dtype: Dtype, places: [&Slice; 3]) -> Self {
        let buffer = |place: &&Slice| Buffer {
            category: Category::Activation,
            lifetime: Lifetime::Persistent,
            dtype,
            len: place.len() / dtype.bytes() as usize,
        };
        let buffers: Vec<Buffer> = places.iter().map(buffer).collect();
        let places = places.map(Slice::clone);
        let is_host = places.iter().all(|place| place.region().space() == Space::Host);
        Self { memory: is_host.then(|| Memory::new(&buffers, places.to_vec())), places }
    }

    /// Where A, B and C lie.
    pub(super) fn places(&self) -> [&Slice; 3] {
        self.places.each_ref()
    }
}

impl Multiplier {
    /// Threads of this rank on these cores, with room for the products of these blocks.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub(super) fn new(dtype: Dtype, threads: usize, cores: &[u32], blocks: &[BufferBlock]) -> Result<Self, Failure> {
        let threads = Threads::new(threads, cores).map_err(|error| Failure::lacking(error.to_string()))?;
        let bytes = |block: &BufferBlock| engine::scratch_bytes(&op(block), dtype.bytes() as usize, threads.count());
        let room = blocks.iter().map(bytes).max().unwrap_or(0);
        let scratch = Scratch::new(threads.count(), room);
        Ok(Self { threads, scratch, dtype })
    }

    /// Multiplies.
    ///
    /// # Safety
    /// Nobody writes to the operands meanwhile, and nobody else uses the block's part of C.
    pub(super) unsafe fn run(&self, operands: &Operands, block: &BufferBlock) {
        let (context, op) = (self.context(), op(block));
        let memory = operands.memory.as_ref().expect("threads multiply in memory of the host");
        // SAFETY: the caller's.
        self.threads.install(|| unsafe { engine::execute(&op, memory, &context) });
    }

    fn context(&self) -> Context<'_> {
        Context {
            threads: self.threads.count(),
            scratch: &self.scratch,
            step: Step { number: 1, seed: 0 },
            matmul: Matmul::Auto,
        }
    }

    /// Runs `work` for ranges that cover `0..items`, at most one a thread, each a multiple of `grain` but for the last.
    pub(super) fn split(&self, items: usize, grain: usize, work: impl Fn(std::ops::Range<usize>) + Sync) {
        let context = self.context();
        self.threads.install(|| context.split(items, grain, |_, range| work(range)));
    }

    /// What multiplies, by name.
    pub(super) fn multiplied(&self, block: &BufferBlock) -> &'static str {
        terms::Named::name(engine::multiplier_of(&op(block), self.dtype, Matmul::Auto))
    }

    /// How many threads there are.
    pub(super) fn threads(&self) -> usize {
        self.threads.count()
    }
}
