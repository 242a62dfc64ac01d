//! Matrix products: which kernel, and which part of the result on which thread.

use std::ops::Range;

use gemm_common::Parallelism;
use half::{bf16, f16};
use terms::Dtype;

#[cfg(target_arch = "x86_64")]
use super::packed::{self, BlockPlan, PackedProduct, ResultPlace, Unit, bf16x6};
use super::product::{Matrix, Size, product};
use super::{Kernel, widened};
use crate::context::{Context, Matmul};
use crate::element::{Element, Wide};
use crate::memory::Memory;
use crate::op::MatMul;

terms::named! {
    /// What multiplies.
    pub enum Multiplier("multiplier") {
        /// Fused multiply-additions of the type itself, or of f32 for those that are widened.
        Fma = "fma",
        /// Six products of bf16 for one of f32, on AMX.
        Bf16x6 = "bf16x6",
        /// AVX-512's product of pairs of bf16.
        Avx512Bf16 = "avx512-bf16",
        /// AMX's product of tiles of bf16.
        AmxBf16 = "amx-bf16",
    }
}

/// Which of our kernels runs this product, of operands of this type, if any.
fn kernel(op: &MatMul, precision: Dtype, matmul: Matmul) -> Option<Kernel> {
    #[cfg(target_arch = "x86_64")]
    {
        let size = Size { m: op.m, n: op.n, k: op.k };
        let kernels = match precision {
            Dtype::F32 => Kernel::all::<f32>(),
            Dtype::Bf16 => Kernel::all::<bf16>(),
            _ => &[],
        };
        kernels.iter().copied().find(|kernel| kernel.suits(size, matmul))
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (op, precision, matmul);
        None
    }
}

/// What runs this product, of operands of this type.
pub(super) fn multiplier_of(op: &MatMul, precision: Dtype, matmul: Matmul) -> Multiplier {
    kernel(op, precision, matmul).map_or(Multiplier::Fma, |kernel| kernel.multiplier())
}

/// What multiplies large matrices of this type on this CPU. None where it lacks what `matmul` asks for.
pub fn multiplier(precision: Dtype, matmul: Matmul) -> Option<Multiplier> {
    #[cfg(target_arch = "x86_64")]
    let kernel = match precision {
        Dtype::F32 => Kernel::all::<f32>().iter().find(|kernel| matmul != Matmul::Fma || **kernel == Kernel::Fma),
        Dtype::Bf16 => Kernel::all::<bf16>().first(),
        _ => None,
    };
    #[cfg(target_arch = "x86_64")]
    let found = kernel.map_or(Multiplier::Fma, |kernel| kernel.multiplier());
    #[cfg(not(target_arch = "x86_64"))]
    let found = Multiplier::Fma;
    let lacking = precision == Dtype::F32 && matmul == Matmul::Bf16x6 && found != Multiplier::Bf16x6;
    (!lacking).then_some(found)
}

/// Parts begin at multiples of this many rows or columns: whole panels of the kernels, and whole cache lines.
const GRAIN: usize = 32;

/// Products below this many multiplications run on one thread: waking another takes as long.
const SMALL: usize = 1 << 19;

/// Operands of a product.
struct Operands<E, C> {
    size: Size,
    a: Matrix<E>,
    b: Matrix<E>,
    c: Matrix<C>,
    bias: Option<*const E>,
    accumulate: bool,
}

// SAFETY: addresses; who may touch the memory is said where they are used.
unsafe impl<E: Sync, C: Send> Sync for Operands<E, C> {}

/// Runs a product.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run(op: &MatMul, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's; the CPU has the kernel.
    unsafe { run_by(kernel(op, memory.dtype(op.a), context.matmul), op, memory, context) }
}

/// Runs a product by this kernel, or without ours.
///
/// # Safety
/// As [`crate::execute`]; the CPU has the kernel.
pub unsafe fn run_by(kernel: Option<Kernel>, op: &MatMul, memory: &Memory, context: &Context<'_>) {
    let (dtype, wide) = (memory.dtype(op.a), memory.dtype(op.c) != memory.dtype(op.a));
    assert!(op.m * op.n * op.k > 0, "an empty product: {op:?}");
    // SAFETY: the caller's.
    unsafe {
        match (kernel, dtype, wide) {
            #[cfg(target_arch = "x86_64")]
            (Some(Kernel::Bf16x6), Dtype::F32, false) => by_parts(&Operands::<f32, f32>::new(op, memory), context),
            #[cfg(target_arch = "x86_64")]
            (Some(kernel), Dtype::F32, false) => {
                by_packing(kernel, &Operands::<f32, f32>::new(op, memory), ResultPlace::Wide, context);
            }
            #[cfg(target_arch = "x86_64")]
            (Some(kernel), Dtype::Bf16, false) => {
                by_packing(kernel, &Operands::<bf16, bf16>::new(op, memory), ResultPlace::Narrow, context);
            }
            #[cfg(target_arch = "x86_64")]
            (Some(kernel), Dtype::Bf16, true) => {
                by_packing(kernel, &Operands::<bf16, f32>::new(op, memory), ResultPlace::Wide, context);
            }
            (None, Dtype::F32, false) => library(&Operands::<f32, f32>::new(op, memory), context),
            (None, Dtype::F64, false) => library(&Operands::<f64, f64>::new(op, memory), context),
            (None, Dtype::Bf16, false) => by_widening(&Operands::<bf16, bf16>::new(op, memory), context),
            (None, Dtype::Bf16, true) => by_widening(&Operands::<bf16, f32>::new(op, memory), context),
            (None, Dtype::F16, false) => by_widening(&Operands::<f16, f16>::new(op, memory), context),
            (None, Dtype::F16, true) => by_widening(&Operands::<f16, f32>::new(op, memory), context),
            _ => panic!("no product of {dtype} into {} by {kernel:?}", memory.dtype(op.c)),
        }
    }
}

impl<E: Element, C: Element<Wide = E::Wide>> Operands<E, C> {
    /// # Safety
    /// The views do not overlap and nobody else uses them.
    unsafe fn new(op: &MatMul, memory: &Memory) -> Self {
        assert!(op.a.len >= op.m * op.k && op.b.len >= op.k * op.n && op.c.len >= op.m * op.n, "{op:?}");
        assert!(op.bias.is_none_or(|bias| bias.len >= op.n), "{op:?}");
        // SAFETY: the caller's.
        unsafe {
            let a = memory.read::<E>(op.a).as_ptr().cast_mut();
            let b = memory.read::<E>(op.b).as_ptr().cast_mut();
            Self {
                size: Size { m: op.m, n: op.n, k: op.k },
                a: Matrix::stored(a, if op.a_transposed { op.m } else { op.k }, op.a_transposed),
                b: Matrix::stored(b, if op.b_transposed { op.k } else { op.n }, op.b_transposed),
                c: Matrix::rows(memory.write::<C>(op.c).as_mut_ptr(), op.n),
                bias: op.bias.map(|bias| memory.read::<E>(bias).as_ptr()),
                accumulate: op.accumulate,
            }
        }
    }

    /// The product of these rows and columns.
    ///
    /// # Safety
    /// They lie inside.
    unsafe fn part(&self, rows: &Range<usize>, columns: &Range<usize>) -> Self {
        // SAFETY: the caller's.
        unsafe {
            Self {
                size: Size { m: rows.len(), n: columns.len(), k: self.size.k },
                a: self.a.from(rows.start, 0),
                b: self.b.from(0, columns.start),
                c: self.c.from(rows.start, columns.start),
                bias: self.bias.map(|bias| bias.add(columns.start)),
                accumulate: self.accumulate,
            }
        }
    }

    /// Runs `work(part, product)` on the threads.
    ///
    /// # Safety
    /// As [`crate::execute`].
    unsafe fn split(&self, context: &Context<'_>, work: impl Fn(usize, Self) + Sync) {
        let Size { m, n, .. } = self.size;
        let (by_rows, grain) = division(self.size);
        context.split(if by_rows { m } else { n }, grain, |index, range| {
            let (rows, columns) = if by_rows { (range, 0..n) } else { (0..m, range) };
            // SAFETY: ranges lie inside.
            work(index, unsafe { self.part(&rows, &columns) });
        });
    }
}

/// Whether a product is split by rows or by columns, and in multiples of how many: by the longer side, because each part
/// packs all of the other operand.
fn division(size: Size) -> (bool, usize) {
    let by_rows = size.m >= size.n;
    let grain = if size.m * size.n * size.k < SMALL { size.m.max(size.n) } else { GRAIN };
    (by_rows, grain)
}

/// Sizes of the parts: of all but the last, and of the last.
fn part_sizes(size: Size, threads: usize) -> [Size; 2] {
    let (by_rows, grain) = division(size);
    let items = if by_rows { size.m } else { size.n };
    let grains = items.div_ceil(grain);
    let each = grains.div_ceil(threads.min(grains).max(1)) * grain;
    let last = items - (items.saturating_sub(1)) / each * each;
    [each.min(items), last].map(|len| if by_rows { Size { m: len, ..size } } else { Size { n: len, ..size } })
}

/// Scratch bytes of a part, for elements of `bytes` bytes: of the kernel that takes most.
pub(super) fn scratch_bytes(op: &MatMul, bytes: usize, threads: usize) -> usize {
    let need = |size| match bytes {
        2 => widened::scratch(size) * 4,
        _ => 0,
    };
    let sizes = part_sizes(Size { m: op.m, n: op.n, k: op.k }, threads);
    #[cfg(target_arch = "x86_64")]
    let plan = |size, per, narrow| 4 * BlockPlan::new(size, per, narrow, op.a_transposed).total();
    #[cfg(target_arch = "x86_64")]
    let need = |size| match bytes {
        2 => need(size).max(plan(size, 2, true)).max(plan(size, 2, false)),
        4 => need(size).max(plan(size, 1, false)),
        _ => need(size),
    };
    let need = sizes.into_iter().map(need).max().unwrap_or(0);
    #[cfg(target_arch = "x86_64")]
    if bytes == 4 {
        return need.max(bf16x6_scratch(Size { m: op.m, n: op.n, k: op.k }, threads));
    }
    need
}

/// With our own kernels.
///
/// # Safety
/// As [`crate::execute`]; the CPU has the kernel.
#[cfg(target_arch = "x86_64")]
unsafe fn by_packing<E: Unit, C: Element<Wide = f32>>(
    kernel: Kernel,
    operands: &Operands<E, C>,
    output: impl Fn(Matrix<C>) -> ResultPlace<E> + Sync,
    context: &Context<'_>,
) {
    let many = operands.size.many();
    let work = |index, part: Operands<E, C>| {
        let Operands { size, a, b, mut bias, accumulate, .. } = part;
        let c = output(part.c);
        // SAFETY: the part's own rows and columns of c; one thread a part.
        unsafe {
            if let (ResultPlace::Wide(c), true) = (c, accumulate)
                && let Some(row) = bias.take()
            {
                begin(c, size, std::slice::from_raw_parts(row, size.n), true);
            }
            let job = PackedProduct { size, a, b, c, bias, accumulate, many };
            packed::run(kernel, &job, context.area::<f32>(index, job.plan().total()));
        }
    };
    // SAFETY: the caller's.
    unsafe { operands.split(context, work) }
}

/// How f32 as products of bf16 is cut, and on how many threads it runs.
#[cfg(target_arch = "x86_64")]
fn parts_plan(size: Size, threads: usize) -> (bf16x6::TilePlan, usize) {
    let threads = if size.m * size.n * size.k < SMALL { 1 } else { threads.max(1) };
    let plan = bf16x6::TilePlan::new(size, threads);
    (plan, plan.threads(threads))
}

/// Whether f32 is multiplied as products of bf16 here, in products of this size.
#[cfg(target_arch = "x86_64")]
pub(crate) fn bf16x6_serves(size: Size, matmul: Matmul) -> bool {
    Kernel::all::<f32>().contains(&Kernel::Bf16x6) && Kernel::Bf16x6.suits(size, matmul)
}

/// Scratch bytes of a thread of [`bf16x6_product`].
#[cfg(target_arch = "x86_64")]
pub(crate) fn bf16x6_scratch(size: Size, threads: usize) -> usize {
    4 * parts_plan(size, threads).0.total()
}

/// `c = a b` of f32 as products of bf16, or `c +=` with `accumulate`, with operands in whatever order they lie.
///
/// # Safety
/// [`bf16x6_serves`]; the operands are as large as `size` says, c (row-major) overlaps neither, and nobody else uses it.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn bf16x6_product<A: bf16x6::Operand, B: bf16x6::Operand>(
    size: Size,
    a: A,
    b: B,
    c: Matrix<f32>,
    accumulate: bool,
    context: &Context<'_>,
) {
    let product = bf16x6::Product { size, a, b, c, bias: None, accumulate };
    // SAFETY: the caller's.
    unsafe { in_parts(&product, context) }
}

/// # Safety
/// As [`bf16x6_product`].
#[cfg(target_arch = "x86_64")]
unsafe fn in_parts<A: bf16x6::Operand, B: bf16x6::Operand>(product: &bf16x6::Product<A, B>, context: &Context<'_>) {
    let (plan, threads) = parts_plan(product.size, context.threads);
    let tasks = bf16x6::Tasks::new();
    context.split(threads, 1, |index, _| {
        // SAFETY: the caller's; threads write to blocks of their own, and each has its own scratch.
        unsafe { bf16x6::run(product, plan, &tasks, context.area::<f32>(index, plan.total())) }
    });
}

/// f32 as products of bf16.
///
/// # Safety
/// As [`crate::execute`]; the CPU has the kernel.
#[cfg(target_arch = "x86_64")]
unsafe fn by_parts(operands: &Operands<f32, f32>, context: &Context<'_>) {
    let Operands { size, a, b, c, mut bias, accumulate } = *operands;
    // SAFETY: the caller's.
    unsafe {
        if accumulate && let Some(row) = bias.take() {
            begin(c, size, std::slice::from_raw_parts(row, size.n), true);
        }
        let (a, b) = (bf16x6::Items::rows(a), bf16x6::Items::columns(b));
        in_parts(&bf16x6::Product { size, a, b, c, bias, accumulate }, context);
    }
}

/// By widening blocks.
///
/// # Safety
/// As [`crate::execute`].
unsafe fn by_widening<E: Element, C: Element<Wide = E::Wide>>(operands: &Operands<E, C>, context: &Context<'_>) {
    let work = |index, part: Operands<E, C>| {
        let Operands { size, a, b, c, bias, accumulate } = part;
        // SAFETY: the part's own rows and columns of c; one thread a part.
        unsafe { widened::run(size, a, b, c, bias, accumulate, context.area(index, widened::scratch(size))) }
    };
    // SAFETY: the caller's.
    unsafe { operands.split(context, work) }
}

/// By `gemm`, which splits the work itself.
///
/// # Safety
/// As [`crate::execute`].
unsafe fn library<W: Wide>(operands: &Operands<W, W>, context: &Context<'_>) {
    let Operands { size, a, b, c, bias, accumulate } = *operands;
    let parallelism = if context.threads > 1 { Parallelism::Rayon(context.threads) } else { Parallelism::None };
    // SAFETY: the caller's.
    unsafe {
        if let Some(bias) = bias {
            begin(c, size, std::slice::from_raw_parts(bias, size.n), accumulate);
        }
        product(size, c, a, b, W::ONE, accumulate || bias.is_some(), parallelism);
    }
}

/// Writes the bias to every row of c, or adds it.
unsafe fn begin<W: Wide, E: Element<Wide = W>>(c: Matrix<W>, size: Size, bias: &[E], accumulate: bool) {
    for i in 0..size.m {
        // SAFETY: row i of c; nobody else uses these columns of it.
        let row = unsafe { std::slice::from_raw_parts_mut(c.at.add(i * c.row), size.n) };
        for (c, bias) in row.iter_mut().zip(bias) {
            *c = if accumulate { *c + bias.widen() } else { bias.widen() };
        }
    }
}
