//! What our attention kernels should take: the work of a tile, counted from `crates/engine/kernels`, at a multiprocessor's rates.
//!
//! A tile takes the longer of its products and of its traffic with shared memory; exponentials and other arithmetic come on top. That
//! sum, for FlashAttention-2's forward kernel (tiles of 128 x 128, 4 warps of 32 rows), is 87% of what an H100 was measured to take with
//! causal heads of 64 and 1,024 rows: 229 TFLOP/s. Ours are assumed to lose as much.

use engine::cuda::{PartLimits, QueryGradients};
use engine::op::Attention;

use crate::{Gpu, ROWS_OF_COPY};

/// Share of the sum of its phases that a kernel reaches.
const REACHED: f64 = 0.87;
/// Bytes a clock that a multiprocessor reads of shared memory.
const SHARED: f64 = 128.0;
/// Exponentials a clock, and other instructions of a lane.
const EXPONENTIALS: f64 = 16.0;
const LANES: f64 = 128.0;

/// What a kernel does with a tile of scores.
struct Tile {
    /// Rows of a block, and columns that it goes through at a time.
    rows: usize,
    columns: usize,
    /// Products of the tile's rows, columns and features.
    products: f64,
    /// KiB that go to and from shared memory.
    shared_kib: f64,
    /// Instructions a score besides products, loads and exponentials.
    instructions: f64,
}

/// The kernels' tiles, by the width of heads: 64, then 128.
const FORWARD: [Tile; 2] = [
    // 4 warps of 32 rows, or 8 of 16: each reads all keys and values of the tile.
    Tile { rows: 128, columns: 64, products: 2.0, shared_kib: 64.0 + 16.0, instructions: 4.0 },
    Tile { rows: 128, columns: 32, products: 2.0, shared_kib: 128.0 + 16.0, instructions: 4.0 },
];
const QUERIES: [Tile; 2] = [
    Tile { rows: 128, columns: 64, products: 3.0, shared_kib: 192.0 + 16.0, instructions: 5.0 },
    Tile { rows: 128, columns: 32, products: 3.0, shared_kib: 192.0 + 16.0, instructions: 5.0 },
];
const GRADIENT: [Tile; 2] = [
    // 4 warps of 32 keys: two products read keys or values and queries or d_outputs (64 each), two only these (32 each), one gradients of
    // scores and keys (64), which were written (16).
    Tile {
        rows: 128,
        columns: 64,
        products: 5.0,
        shared_kib: 2.0 * 64.0 + 2.0 * 32.0 + 64.0 + 16.0 + 16.0 + 8.0,
        instructions: 5.0,
    },
    Tile {
        rows: 64,
        columns: 32,
        products: 5.0,
        shared_kib: 2.0 * 48.0 + 2.0 * 24.0 + 32.0 + 8.0 + 16.0 + 4.0,
        instructions: 6.0,
    },
];
/// Without gradients of queries, which a pass of their own gives.
const KEYS: [Tile; 2] = [
    Tile { products: 4.0, shared_kib: GRADIENT[0].shared_kib - 64.0, ..GRADIENT[0] },
    Tile { products: 4.0, shared_kib: GRADIENT[1].shared_kib - 32.0, ..GRADIENT[1] },
];

/// What a pass takes.
pub(crate) struct Times {
    pub(crate) launches: usize,
    pub(crate) seconds: f64,
    /// Of the seconds, those that arithmetic bounds.
    pub(crate) arithmetic_s: f64,
}

impl Times {
    fn add(&mut self, arithmetic_s: f64, memory_s: f64) {
        self.launches += 1;
        self.seconds += arithmetic_s.max(memory_s);
        self.arithmetic_s += if arithmetic_s > memory_s { arithmetic_s } else { 0.0 };
    }
}

/// A forward pass by our kernels for tensor cores. `bytes`: what it reads and writes.
///
/// # Errors
/// Heads of another width, which these kernels do not have.
pub(crate) fn forward(gpu: &Gpu, op: &Attention, bytes: f64) -> Result<Times, String> {
    let mut times = Times { launches: 0, seconds: 0.0, arithmetic_s: 0.0 };
    times.add(tiles_s(gpu, op, &FORWARD[width(op)?], op.heads), memory_s(gpu, bytes));
    Ok(times)
}

/// A backward pass, likewise.
///
/// # Errors
/// As [`forward`].
pub(crate) fn backward(gpu: &Gpu, op: &Attention, bytes: f64) -> Result<Times, String> {
    let width = width(op)?;
    let mut times = Times { launches: 0, seconds: 0.0, arithmetic_s: 0.0 };
    let numbers = (op.batch * op.heads * op.sequence * op.head_width) as f64;
    // The sums over rows of output and d_output.
    times.add(0.0, memory_s(gpu, 4.0 * numbers));
    let limits = PartLimits::default();
    if limits.choose(op) == QueryGradients::Apart {
        times.add(tiles_s(gpu, op, &QUERIES[width], op.heads), memory_s(gpu, bytes));
        times.add(tiles_s(gpu, op, &KEYS[width], op.heads), memory_s(gpu, bytes));
        return Ok(times);
    }
    // All parts are written and read once; what further blocks of keys add to a part is read and written besides.
    let parts = limits.scratch_bytes(op) as f64;
    let single = PartLimits { bytes: usize::MAX, blocks: usize::MAX / 2 }.scratch_bytes(op) as f64;
    let joined = 2.0 * (single - parts);
    times.add(tiles_s(gpu, op, &GRADIENT[width], op.heads), memory_s(gpu, bytes + parts + joined));
    times.add(0.0, memory_s(gpu, parts + 2.0 * numbers));
    Ok(times)
}

fn width(op: &Attention) -> Result<usize, String> {
    let known = [64, 128].iter().position(|width| *width == op.head_width);
    known.ok_or_else(|| format!("--attention own: heads of 64 or 128 features, not of {}", op.head_width))
}

fn memory_s(gpu: &Gpu, bytes: f64) -> f64 {
    bytes / (gpu.memory * 1e12 * ROWS_OF_COPY)
}

/// Seconds of all tiles that are not masked whole, shared evenly by all multiprocessors.
fn tiles_s(gpu: &Gpu, op: &Attention, tile: &Tile, heads: usize) -> f64 {
    let blocks = op.sequence.div_ceil(tile.rows);
    let columns = |block: usize| if op.causal { op.sequence.min((block + 1) * tile.rows) } else { op.sequence };
    let tiles: usize = (0..blocks).map(|block| columns(block).div_ceil(tile.columns)).sum();
    let all = (tiles * op.batch * heads) as f64;
    all / gpu.multiprocessors as f64 * clocks(gpu, tile, op.head_width) / (gpu.gigahertz * 1e9)
}

/// Clocks of a multiprocessor for a tile.
fn clocks(gpu: &Gpu, tile: &Tile, width: usize) -> f64 {
    let scores = (tile.rows * tile.columns) as f64;
    let products = tile.products * scores * width as f64 / gpu.products_by_warps;
    let shared = tile.shared_kib * 1024.0 / SHARED;
    (products.max(shared) + scores / EXPONENTIALS + scores * tile.instructions / LANES) / REACHED
}
