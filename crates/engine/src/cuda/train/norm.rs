//! Norms and their gradients, and sums over rows. Norms of long rows that lie in whole groups of 16 bytes take the kernels of norm.cu, all
//! others those of train.cu.

use device::cuda::{Kernel, Threads};
use terms::Dtype;

use super::launch::{
    DeviceContext, Kernels, LaunchCall, Result, Single, Typed, WholeRows, chunks, refused, rows_of, state_of,
};
use crate::View;
use crate::op::{Norm, Rows};

/// Bytes that a kernel of norm.cu loads at once.
const LOAD: usize = 16;
/// Numbers of a row that a warp keeps in registers at most, and that a block keeps.
const BY_WARP: usize = 1024;
const BY_BLOCK: usize = 8192;
/// Rows that a block takes at once where each has a warp.
const WARPS: usize = device::cuda::BLOCK_THREADS / 32;
/// Chunks of rows of a backward pass at most: two blocks, which the registers of most types allow, for each of an A100's 108
/// multiprocessors. More would run after all others.
const WHOLE_CHUNKS: usize = 216;
/// Rows that a chunk has at least: fewer write more sums of columns than they read.
const ROWS_OF_CHUNK: usize = 4;

/// Chunks of rows that are summed apart by norm.cu, a number that follows from the sizes alone.
fn whole_chunks(rows: usize, at_once: usize) -> usize {
    rows.div_ceil(at_once.max(ROWS_OF_CHUNK)).clamp(1, WHOLE_CHUNKS)
}

/// Chunks from which on their sums are added by blocks, and columns of a block.
const MANY: usize = 16;
const COLUMNS: usize = 32;

/// Rows that a block of norm.cu takes at once.
fn rows_at_once(columns: usize) -> usize {
    if columns <= BY_WARP { WARPS } else { 1 }
}

/// Runs norms and sums of columns.
pub(super) fn run(kernels: &Kernels, op: &Rows, context: &DeviceContext<'_>) -> Result<()> {
    match op {
        Rows::NormForward { norm, y } => forward(kernels, norm, *y, None, context),
        Rows::NormBackward { norm, dy, dx, accumulate, d_gain, d_bias, accumulate_parameters } => {
            let backward = Backward { norm, dy: *dy, dx: *dx, accumulate: *accumulate };
            let (gradients, add_to) = ([Some(*d_gain), *d_bias], *accumulate_parameters);
            let which = [WholeRows::GradientByWarp, WholeRows::GradientByBlock];
            let views = [norm.x, *dy, *dx, norm.gain].map(Some);
            if let Some((kernel, at_once)) = whole_rows(kernels, which, norm, &views, context)? {
                return backward.at_once(kernels, kernel, at_once, gradients, add_to, context);
            }
            // First: dx may be dy.
            backward.parameters(kernels, gradients, add_to, context)?;
            backward.input(kernels, context)
        }
        Rows::ColumnSum { x, y, rows, accumulate } => {
            if rows_of(*x, y.len)? != *rows {
                return refused(format!("{} elements are not {rows} rows of {}", x.len, y.len));
            }
            column_sum(kernels, *x, *y, *accumulate, context)
        }
        _ => refused(format!("{op:?} is of another module")),
    }
}

/// Scratch bytes, for state of so many bytes.
pub(super) fn scratch(op: &Rows, state: usize) -> usize {
    match op {
        Rows::NormBackward { norm, d_bias, .. } => {
            let Norm { rows, columns, .. } = *norm;
            // Which kernels run also follows from where views lie, which is not known yet.
            let has_whole = columns <= BY_BLOCK && state == 4;
            let whole = if has_whole { whole_chunks(rows, rows_at_once(columns)) } else { 0 };
            chunks(rows, columns).max(whole) * columns * state * (1 + usize::from(d_bias.is_some()))
        }
        Rows::ColumnSum { y, rows, .. } => chunks(*rows, y.len) * y.len * state,
        _ => 0,
    }
}

/// `y` = the norm of x, or with `[residual, total]` of `total = x + residual`.
pub(super) fn forward(
    kernels: &Kernels,
    norm: &Norm,
    y: View,
    residual: Option<[View; 2]>,
    context: &DeviceContext<'_>,
) -> Result<()> {
    let (e, [rows, columns]) = (context.memory.dtype(norm.x), [norm.rows, norm.columns]);
    let count = rows * columns;
    let call = LaunchCall::new(kernels, context).view(y, e, count, "y")?;
    let call = call.view(norm.statistics, state_of(e), 2 * rows, "statistics")?;
    let call = call.maybe(residual.map(|views| views[1]), e, count, "the total")?.view(norm.x, e, count, "x")?;
    let call = call.maybe(residual.map(|views| views[0]), e, count, "the residual")?;
    let call = call.view(norm.gain, e, columns, "the gain")?.maybe(norm.bias, e, columns, "the bias")?;
    let call = call.word(rows).half(columns)?.real(norm.epsilon);
    let [residual, total] = residual.map_or([None; 2], |views| views.map(Some));
    let views = [Some(y), total, Some(norm.x), residual, Some(norm.gain), norm.bias];
    let which = [WholeRows::NormByWarp, WholeRows::NormByBlock];
    let (kernel, blocks) = match whole_rows(kernels, which, norm, &views, context)? {
        Some((kernel, at_once)) => (kernel, rows.div_ceil(at_once)),
        None => (kernels.typed(Typed::Norm, e)?, rows),
    };
    // SAFETY: all have so many rows and columns; both kernels have these arguments.
    unsafe { call.launch(kernel, Threads::Blocks(blocks as u64)) }
}

/// The kernel of norm.cu by a warp a row or by a block a row, and the rows that a block of it takes at once; None where rows are too long,
/// or where they are not whole groups of [`LOAD`] bytes that lie at multiples of as many.
fn whole_rows<'a>(
    kernels: &'a Kernels,
    [by_warp, by_block]: [WholeRows; 2],
    norm: &Norm,
    views: &[Option<View>],
    context: &DeviceContext<'_>,
) -> Result<Option<(&'a Kernel, usize)>> {
    let (e, columns) = (context.memory.dtype(norm.x), norm.columns);
    let is_whole = columns > 0 && (columns * e.bytes() as usize).is_multiple_of(LOAD);
    if !is_whole || columns > BY_BLOCK || !views.iter().flatten().all(|view| context.is_aligned(*view, LOAD)) {
        return Ok(None);
    }
    let which = if columns <= BY_WARP { by_warp } else { by_block };
    Ok(kernels.whole_rows(which, e)?.map(|kernel| (kernel, rows_at_once(columns))))
}

/// A backward pass without the gradients of gain and bias.
struct Backward<'a> {
    norm: &'a Norm,
    dy: View,
    dx: View,
    accumulate: bool,
}

impl Backward<'_> {
    /// All gradients by one pass over x and dy.
    fn at_once(
        &self,
        kernels: &Kernels,
        kernel: &Kernel,
        at_once: usize,
        gradients: [Option<View>; 2],
        add_to: bool,
        context: &DeviceContext<'_>,
    ) -> Result<()> {
        let norm = self.norm;
        let (e, [rows, columns]) = (context.memory.dtype(norm.x), [norm.rows, norm.columns]);
        let (chunks, state) = (whole_chunks(rows, at_once), state_of(e));
        let call = self.sums(kernels, gradients, chunks, context)?.view(self.dx, e, rows * columns, "dx")?;
        let call = call.view(norm.gain, e, columns, "the gain")?.word(rows).half(columns)?.half(chunks)?;
        let call = call.flag(norm.bias.is_some()).flag(self.accumulate);
        // SAFETY: all have so many rows and columns; the scratch has room for all chunks.
        unsafe { call.launch(kernel, Threads::Blocks(chunks as u64))? };
        add_all(kernels, gradients, (state, columns, chunks), add_to, context)
    }

    /// The first arguments of kernels that sum the gradients of gain and bias: where the sums go, and what they are of.
    fn sums<'a>(
        &self,
        kernels: &'a Kernels,
        gradients: [Option<View>; 2],
        chunks: usize,
        context: &'a DeviceContext<'a>,
    ) -> Result<LaunchCall<'a>> {
        let norm = self.norm;
        let (e, [rows, columns]) = (context.memory.dtype(norm.x), [norm.rows, norm.columns]);
        let (count, state) = (rows * columns, state_of(e));
        let bytes = chunks * columns * state.bytes() as usize;
        let call = LaunchCall::new(kernels, context).scratch(0, bytes)?;
        let call = if gradients[1].is_some() { call.scratch(bytes, bytes)? } else { call.word(0) };
        let call = call.view(norm.x, e, count, "x")?.view(self.dy, e, count, "dy")?;
        call.view(norm.statistics, state, 2 * rows, "statistics")
    }

    fn input(&self, kernels: &Kernels, context: &DeviceContext<'_>) -> Result<()> {
        let norm = self.norm;
        let (e, [rows, columns]) = (context.memory.dtype(norm.x), [norm.rows, norm.columns]);
        let count = rows * columns;
        let call = LaunchCall::new(kernels, context).view(self.dx, e, count, "dx")?.view(norm.x, e, count, "x")?;
        let call = call.view(self.dy, e, count, "dy")?.view(norm.statistics, state_of(e), 2 * rows, "statistics")?;
        let call = call.view(norm.gain, e, columns, "the gain")?.word(rows).half(columns)?;
        let call = call.flag(norm.bias.is_some()).flag(self.accumulate);
        // SAFETY: as above.
        unsafe { call.launch(kernels.typed(Typed::NormGradient, e)?, Threads::Blocks(rows as u64)) }
    }

    /// Gradients of gain and bias: sums of chunks of rows, which are then added.
    fn parameters(
        &self,
        kernels: &Kernels,
        gradients: [Option<View>; 2],
        add_to: bool,
        context: &DeviceContext<'_>,
    ) -> Result<()> {
        let norm = self.norm;
        let (e, [rows, columns]) = (context.memory.dtype(norm.x), [norm.rows, norm.columns]);
        let (chunks, state) = (chunks(rows, columns), state_of(e));
        let call = self.sums(kernels, gradients, chunks, context)?.word(rows).half(columns)?.half(chunks)?;
        // SAFETY: as above; the scratch has room for all chunks.
        unsafe {
            let kernel = kernels.typed(Typed::NormPartials, e)?;
            call.launch(kernel, Threads::Elements((chunks * columns) as u64))?;
        }
        add_all(kernels, gradients, (state, columns, chunks), add_to, context)
    }
}

/// Adds the chunks' sums for the gain, and those for the bias, which lie behind them.
fn add_all(
    kernels: &Kernels,
    gradients: [Option<View>; 2],
    (state, columns, chunks): (Dtype, usize, usize),
    accumulate: bool,
    context: &DeviceContext<'_>,
) -> Result<()> {
    let bytes = chunks * columns * state.bytes() as usize;
    for (place, view) in gradients.into_iter().enumerate() {
        let Some(view) = view else { continue };
        add(kernels, view, (state, columns, chunks), place * bytes, accumulate, context)?;
    }
    Ok(())
}

/// `y = sum over rows of x`, or `+=`.
pub(super) fn column_sum(
    kernels: &Kernels,
    x: View,
    y: View,
    accumulate: bool,
    context: &DeviceContext<'_>,
) -> Result<()> {
    let (e, columns) = (context.memory.dtype(x), y.len);
    let (rows, state) = (rows_of(x, columns)?, state_of(e));
    let chunks = chunks(rows, columns);
    let call = LaunchCall::new(kernels, context).scratch(0, chunks * columns * state.bytes() as usize)?;
    let call = call.view(x, e, x.len, "x")?.word(rows).half(columns)?.half(chunks)?;
    // SAFETY: as in `parameters`.
    unsafe {
        let kernel = kernels.typed(Typed::ColumnPartials, e)?;
        call.launch(kernel, Threads::Elements((chunks * columns) as u64))?;
    }
    add(kernels, y, (state, columns, chunks), 0, accumulate, context)
}

/// Adds what the chunks left in the scratch memory, from a byte on.
fn add(
    kernels: &Kernels,
    y: View,
    (state, columns, chunks): (Dtype, usize, usize),
    from: usize,
    accumulate: bool,
    context: &DeviceContext<'_>,
) -> Result<()> {
    // Few columns keep few threads busy: of many chunks, several threads add each.
    let (kernel, threads) = match (state, chunks >= MANY) {
        (Dtype::F64, true) => (Single::AddManyPartialsF64, Threads::Blocks(columns.div_ceil(COLUMNS) as u64)),
        (_, true) => (Single::AddManyPartialsF32, Threads::Blocks(columns.div_ceil(COLUMNS) as u64)),
        (Dtype::F64, false) => (Single::AddPartialsF64, Threads::Elements(columns as u64)),
        (_, false) => (Single::AddPartialsF32, Threads::Elements(columns as u64)),
    };
    let call = LaunchCall::new(kernels, context).view(y, state, columns, "a sum of columns")?;
    let call = call.scratch(from, chunks * columns * state.bytes() as usize)?;
    let call = call.half(columns)?.half(chunks)?.flag(accumulate);
    // SAFETY: y has a sum a column, and the scratch all chunks.
    unsafe { call.launch(kernels.single(kernel)?, threads) }
}
