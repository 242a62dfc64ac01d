//! Products of f32 and bf16 by our own kernels: operands are packed once a block, sums stay in f32.
//!
//! Blocks as in Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): a block of b stays in
//! the second cache, a panel of rows of a in the first, and results are written along their rows. `gemm` reaches the same
//! on large squares; for few rows its packing of the weights shows, and it knows neither `vdpbf16ps` nor AMX.

pub(crate) mod ahead;
mod amx;
pub(crate) mod bf16x6;
mod pack;
mod plan;
pub(super) mod strip;
mod vector;

use half::bf16;

use super::matmul::Multiplier;
use super::product::{Matrix, Size};
use crate::context::Matmul;
use crate::element::Element;
use ahead::{Ahead, Stream};
pub(super) use pack::Unit;
use pack::{WIDTH, pack_a, pack_a_across, pack_b};
pub(super) use plan::{BlockPlan, STRIDE};

/// An inner kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// f32, AVX-512.
    Fma,
    /// bf16, AVX-512-BF16.
    Dot,
    /// bf16, AMX.
    Amx,
    /// f32, as products of bf16, AMX.
    Bf16x6,
}

impl Kernel {
    /// Kernels for a type that this CPU has, the fastest first.
    pub fn all<E: Element>() -> &'static [Self] {
        let vectors = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        let dot = vectors && is_x86_feature_detected!("avx512bf16");
        if E::DTYPE == f32::DTYPE && vectors {
            if amx::available() { &[Self::Bf16x6, Self::Fma] } else { &[Self::Fma] }
        } else if E::DTYPE != bf16::DTYPE || !vectors {
            &[]
        } else if amx::available() {
            if dot { &[Self::Amx, Self::Dot] } else { &[Self::Amx] }
        } else if dot {
            &[Self::Dot]
        } else {
            &[]
        }
    }

    pub(super) fn multiplier(self) -> Multiplier {
        match self {
            Self::Fma => Multiplier::Fma,
            Self::Dot => Multiplier::Avx512Bf16,
            Self::Amx => Multiplier::AmxBf16,
            Self::Bf16x6 => Multiplier::Bf16x6,
        }
    }

    /// Whether it is made for products of this size, and wanted.
    pub(super) fn suits(self, size: Size, matmul: Matmul) -> bool {
        self != Self::Bf16x6 || (matmul != Matmul::Fma && bf16x6::suits(size))
    }

    fn height(self) -> usize {
        if self == Self::Amx { amx::HEIGHT } else { vector::HEIGHT }
    }
}

/// What sums begin with.
#[derive(Clone, Copy)]
enum Start {
    Zero,
    /// With what the tile holds.
    Add,
    /// Every row with this one, of 32.
    Row(*const f32),
}

/// Where the units of a left operand lie.
#[derive(Clone, Copy)]
enum OperandLayout {
    /// Units of a row one after another, rows [`STRIDE`] apart.
    Rows,
    /// One of each of 16 rows, then the next of each.
    Across,
}

/// A left operand.
#[derive(Clone, Copy)]
struct Left {
    at: *const u32,
    layout: OperandLayout,
}

/// One call of an inner kernel: `rows` rows by 32 columns.
struct Tile {
    /// AMX: by rows.
    a: Left,
    /// `units` rows of 32.
    b: *const u32,
    units: usize,
    rows: usize,
    /// Rows `stride` apart.
    c: *mut f32,
    stride: usize,
    /// The results that are written next, `stride` apart: fetched meanwhile, because gradients of weights come from memory.
    next: *const f32,
    /// Operands of later calls, fetched meanwhile.
    ahead: [Stream; 3],
    start: Start,
    /// AMX: see [`far`].
    far: bool,
}

/// Where results go.
#[derive(Clone, Copy)]
pub(super) enum ResultPlace<E> {
    /// Results as they are.
    Wide(Matrix<f32>),
    /// Rounded once, at the end.
    Narrow(Matrix<E>),
}

/// A product.
#[derive(Clone, Copy)]
pub(super) struct PackedProduct<E> {
    pub(super) size: Size,
    pub(super) a: Matrix<E>,
    pub(super) b: Matrix<E>,
    /// Row-major.
    pub(super) c: ResultPlace<E>,
    /// Added to every row.
    pub(super) bias: Option<*const E>,
    /// Add to what c holds.
    pub(super) accumulate: bool,
    /// Whether the whole product has [many](Size::many) results; this job may be a part of it.
    pub(super) many: bool,
}

// SAFETY: addresses; who may touch the memory is said where they are used.
unsafe impl<E: Sync> Sync for PackedProduct<E> {}

impl<E: Unit> PackedProduct<E> {
    /// How it is blocked.
    pub(super) fn plan(&self) -> BlockPlan {
        BlockPlan::new(self.size, E::PER, matches!(self.c, ResultPlace::Narrow(_)), self.a.column != 1)
    }

    /// See [`far`].
    fn far(&self) -> bool {
        let ResultPlace::Wide(c) = self.c else { return false };
        far(c, self.many, self.accumulate)
    }
}

/// Whether results go to memory past the caches, which needs one call of a kernel to complete each of them.
/// `many` counts the whole product; these results may be a part of it.
///
/// Otherwise each line is read before it is written. Gradients of weights are products of few units that write more
/// than they read, so they gain. What convolutions write is read soon after, and their steps take as long either way.
fn far(c: Matrix<f32>, many: bool, accumulate: bool) -> bool {
    let lines = (c.at as usize).is_multiple_of(64) && c.row.is_multiple_of(16);
    lines && many && !accumulate
}

/// Runs a product on the calling thread.
///
/// # Safety
/// The kernel is one of `Kernel::all`, and not `Bf16x6`, which has a `run` of its own; the job's matrices are there, c
/// overlaps none of them, and nobody else uses c.
pub(super) unsafe fn run<E: Unit>(kernel: Kernel, job: &PackedProduct<E>, scratch: &mut [f32]) {
    let plan = job.plan();
    assert!(scratch.len() >= plan.total(), "{} units of scratch, {} needed", scratch.len(), plan.total());
    let (a, rest) = scratch.split_at_mut(plan.a());
    let (b, rest) = rest.split_at_mut(plan.b());
    let (sums, bias) = rest.split_at_mut(plan.sums());
    // SAFETY: AMX is there if it is the kernel.
    let _tiles = (kernel == Kernel::Amx).then(|| unsafe { amx::Configured::new() });
    let block = ProductBlock {
        kernel,
        job: *job,
        plan,
        a: a.as_mut_ptr().cast(),
        b: b.as_mut_ptr().cast(),
        sums: sums.as_mut_ptr(),
        bias: bias.as_mut_ptr(),
        far: kernel == Kernel::Amx && plan.at_once() && job.far(),
    };
    // SAFETY: the caller's.
    unsafe { block.all() };
    amx::fence_far_stores(block.far);
}

/// A running product.
struct ProductBlock<E> {
    kernel: Kernel,
    job: PackedProduct<E>,
    plan: BlockPlan,
    a: *mut u32,
    b: *mut u32,
    sums: *mut f32,
    bias: *mut f32,
    far: bool,
}

/// A range.
#[derive(Clone, Copy)]
pub struct Range {
    /// The first.
    pub first: usize,
    /// How many.
    pub len: usize,
}

/// Ranges of at most `most` that cover `0..len`.
fn ranges(len: usize, most: usize) -> impl Iterator<Item = Range> {
    (0..len).step_by(most.max(1)).map(move |first| Range { first, len: most.min(len - first) })
}

/// One block of b against one block of rows.
#[derive(Clone, Copy)]
struct BlockCut {
    rows: Range,
    units: Range,
    columns: Range,
}

impl<E: Unit> ProductBlock<E> {
    /// In the order in which they are computed.
    fn cuts(&self) -> impl Iterator<Item = BlockCut> {
        let (Size { m, n, .. }, plan) = (self.job.size, self.plan);
        ranges(m, plan.rows).flat_map(move |rows| {
            let all = ranges(plan.units, plan.pass);
            all.flat_map(move |units| ranges(n, plan.columns).map(move |columns| BlockCut { rows, units, columns }))
        })
    }

    /// Calls of the kernel for a panel of rows.
    fn calls(&self, cut: &BlockCut) -> usize {
        cut.columns.len.div_ceil(WIDTH) * cut.units.len.div_ceil(self.plan.depth)
    }

    /// The part of b that the cut `next` needs, fetched while `cut` is computed.
    fn columns_ahead(&self, cut: &BlockCut, next: &BlockCut) -> Ahead {
        // SAFETY: the part lies inside.
        let from = unsafe { self.job.b.from(next.units.first * E::PER, next.columns.first) };
        let calls = cut.rows.len.div_ceil(self.kernel.height()) * self.calls(cut);
        Ahead::new(from, self.depth(next.units), next.columns.len, cut.units.len.min(self.plan.depth), calls)
    }

    /// The part of a that the panel after this one needs, if it is packed then.
    fn rows_ahead(&self, cut: &BlockCut, panel: Range) -> Option<Ahead> {
        let first = panel.first + panel.len;
        if self.plan.ahead || first >= cut.rows.len {
            return None;
        }
        // SAFETY: inside, as just checked.
        let from = unsafe { self.job.a.from(cut.rows.first + first, cut.units.first * E::PER) };
        let rows = panel.len.min(cut.rows.len - first);
        Some(Ahead::new(from, rows, self.depth(cut.units), cut.units.len.min(self.plan.depth), self.calls(cut)))
    }

    /// # Safety
    /// As `run`; so for the rest.
    unsafe fn all(&self) {
        // SAFETY: ranges lie inside.
        unsafe {
            self.begin_bias();
            let mut next = self.cuts().skip(1);
            for cut in self.cuts() {
                let BlockCut { rows, units, columns } = cut;
                if self.plan.ahead && columns.first == 0 {
                    self.pack_rows(rows, units);
                }
                self.pack_columns(columns, units);
                let mut columns_ahead = next.next().map(|next| self.columns_ahead(&cut, &next));
                for panel in panels(self.kernel, rows.len) {
                    if !self.plan.ahead {
                        self.pack_rows(Range { first: rows.first + panel.first, len: panel.len }, units);
                    }
                    self.panel(&cut, panel, &mut columns_ahead);
                }
            }
        }
    }

    /// The bias as f32, in scratch.
    unsafe fn begin_bias(&self) {
        let Some(bias) = self.job.bias else { return };
        let n = self.job.size.n;
        for j in 0..n.next_multiple_of(WIDTH) {
            // SAFETY: scratch has a whole number of panels; the bias has n columns.
            unsafe { self.bias.add(j).write(if j < n { bias.add(j).read().widen() } else { 0.0 }) };
        }
    }

    /// Elements along k in a range of units.
    fn depth(&self, units: Range) -> usize {
        (units.len * E::PER).min(self.job.size.k - units.first * E::PER)
    }

    /// A block of b.
    unsafe fn pack_columns(&self, columns: Range, units: Range) {
        let stored = units.len.next_multiple_of(16);
        for panel in ranges(columns.len, WIDTH) {
            // SAFETY: inside b, and inside its scratch by the plan.
            unsafe {
                let from = self.job.b.from(units.first * E::PER, columns.first + panel.first);
                pack_b(from, panel.len, self.depth(units), self.b.add(panel.first * stored), stored);
            }
        }
    }

    /// A block of a: all rows before the columns, or, where that is only a copy, the rows of one panel just before they are
    /// used.
    unsafe fn pack_rows(&self, rows: Range, units: Range) {
        if self.across() {
            // SAFETY: inside a, and inside its scratch by the plan.
            return unsafe {
                let from = self.job.a.from(rows.first, units.first * E::PER);
                pack_a_across(from, rows.len, self.depth(units), self.a, units.len);
            };
        }
        for (index, block) in ranges(units.len, self.plan.depth).enumerate() {
            let block = Range { first: units.first + block.first, len: block.len };
            // SAFETY: inside a, and inside its scratch by the plan.
            unsafe {
                let from = self.job.a.from(rows.first, block.first * E::PER);
                let out = self.a.add(index * self.plan.packed_rows() * STRIDE);
                pack_a(from, rows.len, self.depth(block), out, STRIDE, block.len.next_multiple_of(16));
            }
        }
    }

    /// Whether panels of a transposed a are copied as they lie: one unit of all rows after another.
    fn across(&self) -> bool {
        self.job.a.column != 1 && !self.plan.ahead
    }

    /// Block `index` of units of a panel that begins `above` rows into what is packed.
    fn left(&self, index: usize, above: usize) -> Left {
        if self.across() {
            return Left { at: self.a.wrapping_add(index * self.plan.depth * 16), layout: OperandLayout::Across };
        }
        let at = self.a.wrapping_add((index * self.plan.packed_rows() + above) * STRIDE);
        Left { at, layout: OperandLayout::Rows }
    }

    /// A panel of rows, against a block of b.
    unsafe fn panel(&self, cut: &BlockCut, panel: Range, columns_ahead: &mut Option<Ahead>) {
        let BlockCut { rows, units, columns } = *cut;
        let mut rows_ahead = self.rows_ahead(cut, panel);
        let stored = units.len.next_multiple_of(16);
        let above = if self.plan.ahead { panel.first } else { 0 };
        // Sums: element (0, 0), from row to row, from panel to panel of columns.
        let (c, stride, across) = match self.job.c {
            ResultPlace::Wide(c) => {
                (c.at.wrapping_add((rows.first + panel.first) * c.row + columns.first), c.row, WIDTH)
            }
            ResultPlace::Narrow(_) if self.plan.single() => (self.sums, WIDTH, amx::HEIGHT * WIDTH),
            ResultPlace::Narrow(_) => {
                let stride = self.job.size.n.next_multiple_of(WIDTH);
                (self.sums.wrapping_add(panel.first * stride + columns.first), stride, WIDTH)
            }
        };
        for (index, block) in ranges(units.len, self.plan.depth).enumerate() {
            for (strip, part) in ranges(columns.len, WIDTH).enumerate() {
                let near = Stream::none(self.b);
                let [of_rows] = Ahead::streams(&mut rows_ahead, near);
                let [first, second] = Ahead::streams(columns_ahead, near);
                // SAFETY: all inside by the plan.
                unsafe {
                    let tile = Tile {
                        a: self.left(index, above),
                        b: self.b.add(part.first * stored + block.first * WIDTH),
                        units: if self.kernel == Kernel::Amx { block.len.next_multiple_of(16) } else { block.len },
                        rows: panel.len,
                        c: c.add(strip * across),
                        stride,
                        next: self.next(c, stride, (strip + 1) * across, columns, panel),
                        ahead: [of_rows, first, second],
                        far: self.far,
                        start: if index > 0 { Start::Add } else { self.start(columns.first + part.first, units) },
                    };
                    self.tile(&tile, part.len);
                }
            }
        }
        let last = units.first + units.len == self.plan.units;
        if let (ResultPlace::Narrow(out), true) = (self.job.c, last) {
            for (strip, part) in ranges(columns.len, WIDTH).enumerate() {
                // SAFETY: as above.
                unsafe {
                    let out = out.from(rows.first + panel.first, columns.first + part.first);
                    let sums = Matrix::rows(c.add(strip * across), stride);
                    narrow(sums, out, panel.len, part.len, self.job.accumulate);
                }
            }
        }
    }

    /// The results after a strip that ends at `done`: of the next strip, or of the next panel's first. Sums in scratch are
    /// near already.
    fn next(&self, c: *mut f32, stride: usize, done: usize, columns: Range, panel: Range) -> *const f32 {
        match self.job.c {
            ResultPlace::Wide(_) if done < columns.len => c.wrapping_add(done),
            ResultPlace::Wide(_) => c.wrapping_add(panel.len * stride),
            ResultPlace::Narrow(_) => std::ptr::null(),
        }
    }

    /// What the first block of units of a pass begins with.
    fn start(&self, column: usize, units: Range) -> Start {
        let wide = matches!(self.job.c, ResultPlace::Wide(_));
        if units.first > 0 || (wide && self.job.accumulate) {
            Start::Add
        } else if self.job.bias.is_some() {
            Start::Row(self.bias.wrapping_add(column))
        } else {
            Start::Zero
        }
    }

    /// One tile; where it is not whole, by way of a whole one.
    unsafe fn tile(&self, tile: &Tile, columns: usize) {
        let wide = matches!(self.job.c, ResultPlace::Wide(_));
        let whole = columns == WIDTH && (self.kernel != Kernel::Amx || tile.rows == amx::HEIGHT);
        // SAFETY: the tile's memory; copies are as large as what is there.
        unsafe {
            if !wide || whole {
                return call(self.kernel, tile);
            }
            let mut whole = [0.0f32; amx::HEIGHT * WIDTH];
            if let Start::Add = tile.start {
                for i in 0..tile.rows {
                    let to = whole.as_mut_ptr().add(i * WIDTH);
                    std::ptr::copy_nonoverlapping(tile.c.add(i * tile.stride), to, columns);
                }
            }
            call(self.kernel, &Tile { c: whole.as_mut_ptr(), stride: WIDTH, far: false, ..*tile });
            for i in 0..tile.rows {
                let from = whole.as_ptr().add(i * WIDTH);
                std::ptr::copy_nonoverlapping(from, tile.c.add(i * tile.stride), columns);
            }
        }
    }
}

/// Runs a kernel on a tile.
///
/// # Safety
/// The CPU has the kernel, configured on this thread; the tile's memory is as its fields say.
unsafe fn call(kernel: Kernel, tile: &Tile) {
    // SAFETY: the caller's.
    unsafe {
        match kernel {
            Kernel::Fma => vector::fma::run(tile),
            Kernel::Dot => vector::dot::run(tile),
            Kernel::Amx => amx::run(tile),
            Kernel::Bf16x6 => unreachable!("it has calls of its own"),
        }
    }
}

/// Rows of one call each. Vector kernels: heights that differ by one at most. AMX: always whole tiles.
fn panels(kernel: Kernel, rows: usize) -> impl Iterator<Item = Range> {
    let (height, whole) = (kernel.height(), kernel == Kernel::Amx);
    let count = rows.div_ceil(height);
    let edge = move |t: usize| if whole { (t * height).min(rows) } else { t * rows / count };
    (0..count).map(move |t| Range { first: edge(t), len: edge(t + 1) - edge(t) })
}

/// Rounds sums into `out`, or adds them there.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn narrow<E: Unit>(sums: Matrix<f32>, out: Matrix<E>, rows: usize, columns: usize, accumulate: bool) {
    for i in 0..rows {
        // SAFETY: rows and columns lie inside both.
        let (sums, out) = unsafe {
            let sums = std::slice::from_raw_parts(sums.at.add(i * sums.row), columns);
            (sums, std::slice::from_raw_parts_mut(out.at.add(i * out.row), columns))
        };
        if accumulate {
            sums.iter().zip(out).for_each(|(sum, out)| *out = E::narrow(out.widen() + *sum));
        } else {
            sums.iter().zip(out).for_each(|(sum, out)| *out = E::narrow(*sum));
        }
    }
}
