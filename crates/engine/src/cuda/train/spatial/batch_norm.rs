//! Batch norm: sums of chunks of rows, which are then added; statistics and means by a thread a channel; and passes over all rows.

use device::cuda::Threads;
use terms::Dtype;

use super::super::launch::{Result, refused, rows_of, state_of};
use super::{OfState, Packed, SpatialRun};
use crate::View;
use crate::op::Spatial;

/// Groups of channels that a block takes at most, side by side.
const TILE: usize = 32;
/// Blocks that keep a device busy while they sum, and the rows that each has at least.
const BLOCKS: usize = 512;
const ROWS: usize = 32;
/// Rows that a thread of the other passes takes at least: it loads them at once.
const ROWS_A_THREAD: usize = 4;
/// Channels are counted in 32 bits, with room to round them up.
const MOST: usize = i32::MAX as usize;

/// Chunks of rows that are summed apart: a number that follows from the sizes alone, whatever is loaded at once.
fn chunks(rows: usize, channels: usize) -> usize {
    let tiles = channels.div_ceil(4 * TILE).max(1);
    BLOCKS.div_ceil(tiles).min(rows.div_ceil(ROWS)).max(1)
}

/// Bytes of the sums that chunks leave.
fn chunk_bytes(rows: usize, channels: usize) -> usize {
    chunks(rows, channels) * 2 * channels * 8
}

/// Scratch bytes, for state of so many bytes.
pub(super) fn scratch(op: &Spatial, state: usize) -> usize {
    match op {
        Spatial::BatchNormSum { x, channels, .. } | Spatial::BatchNormBackwardSum { x, channels, .. } => {
            chunk_bytes(x.len / (*channels).max(1), *channels)
        }
        Spatial::BatchNormBackward { channels, .. } => 2 * channels * state,
        _ => 0,
    }
}

/// Runs one of them.
pub(super) fn run(run: &SpatialRun<'_>, op: &Spatial) -> Result<()> {
    match *op {
        Spatial::BatchNormSum { x, partial, channels } => sum(run, x, partial, channels),
        Spatial::BatchNormForward { .. } => forward(run, op),
        Spatial::BatchNormBackwardSum { x, y, dy, statistics, partial, channels } => {
            backward_sum(run, [x, dy], y, statistics, partial, channels)
        }
        Spatial::BatchNormBackward { .. } => backward(run, op),
        Spatial::BatchNormParameters { partial, d_gain, d_bias, accumulate } => {
            let (state, channels) = (run.dtype(d_gain), d_gain.len);
            let call = run.call().view(d_gain, state, channels, "d_gain")?.view(d_bias, state, channels, "d_bias")?;
            let call = call.view(partial, Dtype::F64, 2 * channels, "the sums")?.half(channels)?.flag(accumulate);
            // SAFETY: all have so many channels.
            unsafe { run.of_state(call, OfState::Parameters, state, Threads::Elements(channels as u64)) }
        }
        _ => refused(format!("{op:?} is of another module")),
    }
}

/// Rows of so many channels that a view has.
fn rows(x: View, channels: usize) -> Result<usize> {
    match channels <= MOST {
        true => rows_of(x, channels),
        false => refused(format!("{channels} channels are more than {MOST}")),
    }
}

fn sum(run: &SpatialRun<'_>, x: View, partial: View, channels: usize) -> Result<()> {
    let (e, rows) = (run.dtype(x), rows(x, channels)?);
    let pack = run.pack(e, channels, &[x]);
    let call = run.call().scratch(0, chunk_bytes(rows, channels))?.view(x, e, x.len, "x")?;
    let (blocks, width, chunks) = tiles(rows, channels, pack);
    let call = call.word(rows).half(channels)?.half(chunks)?.half(width)?;
    // SAFETY: x has so many rows, and the scratch the sums of all chunks.
    unsafe { run.packed(call, Packed::Sums, (e, pack), blocks)? };
    add(run, partial, None, (state_of(e), rows, channels))
}

fn backward_sum(
    run: &SpatialRun<'_>,
    [x, dy]: [View; 2],
    y: Option<View>,
    statistics: View,
    partial: View,
    channels: usize,
) -> Result<()> {
    let (e, rows) = (run.dtype(x), rows(x, channels)?);
    let pack = run.pack(e, channels, &[x, dy, y.unwrap_or(x)]);
    let call = run.call().scratch(0, chunk_bytes(rows, channels))?.view(dy, e, x.len, "dy")?.view(x, e, x.len, "x")?;
    let call = call.maybe(y, e, x.len, "y")?.view(statistics, state_of(e), 2 * channels, "statistics")?;
    let (blocks, width, chunks) = tiles(rows, channels, pack);
    let call = call.word(rows).half(channels)?.half(chunks)?.half(width)?;
    // SAFETY: as in `sum`.
    unsafe { run.packed(call, Packed::GradientSums, (e, pack), blocks)? };
    add(run, partial, Some(statistics.part(channels, channels)), (state_of(e), rows, channels))
}

/// Blocks that sum, groups of channels in a tile, and chunks of rows.
fn tiles(rows: usize, channels: usize, pack: usize) -> (Threads, usize, usize) {
    let groups = channels / pack;
    let (width, chunks) = (groups.next_power_of_two().min(TILE), chunks(rows, channels));
    (Threads::Blocks((groups.div_ceil(width) * chunks) as u64), width, chunks)
}

/// Adds the sums that chunks left, and multiplies the second of each channel where there are `deviations`.
fn add(
    run: &SpatialRun<'_>,
    partial: View,
    deviations: Option<View>,
    (state, rows, channels): (Dtype, usize, usize),
) -> Result<()> {
    let call = run.call().view(partial, Dtype::F64, 2 * channels, "the sums")?;
    let call = call.scratch(0, chunk_bytes(rows, channels))?.maybe(deviations, state, channels, "deviations")?;
    let call = call.half(channels)?.half(chunks(rows, channels))?;
    // A block adds 8 columns.
    let blocks = Threads::Blocks((2 * channels).div_ceil(8) as u64);
    // SAFETY: the scratch has the sums of all chunks.
    unsafe { run.of_state(call, OfState::AddChunks, state, blocks) }
}

/// Threads of a pass over all rows.
fn threads(rows: usize, channels: usize, pack: usize) -> Threads {
    Threads::Elements((rows.div_ceil(ROWS_A_THREAD) * (channels / pack)) as u64)
}

fn forward(run: &SpatialRun<'_>, op: &Spatial) -> Result<()> {
    let Spatial::BatchNormForward { x, partial, count, gain, bias, residual, y, statistics, channels, epsilon, relu } =
        *op
    else {
        return refused(format!("{op:?} is not a forward pass of a batch norm"));
    };
    let (e, rows) = (run.dtype(x), rows(x, channels)?);
    let state = state_of(e);
    let call = run.call().view(statistics, state, 2 * channels, "statistics")?;
    let call = call.view(partial, Dtype::F64, 2 * channels, "the sums")?;
    let call = call.word(count).half(channels)?.real(epsilon);
    // SAFETY: both have so many channels.
    unsafe { run.of_state(call, OfState::Statistics, state, Threads::Elements(channels as u64))? };
    let pack = run.pack(e, channels, &[x, y, residual.unwrap_or(x)]);
    let call = run.call().view(y, e, x.len, "y")?.view(x, e, x.len, "x")?.maybe(residual, e, x.len, "the residual")?;
    let call = call.view(statistics, state, 2 * channels, "statistics")?.view(gain, e, channels, "the gain")?;
    let call = call.view(bias, e, channels, "the bias")?.word(rows).half(channels)?.flag(relu);
    // SAFETY: all have so many rows and channels.
    unsafe { run.packed(call, Packed::Normalise, (e, pack), threads(rows, channels, pack)) }
}

fn backward(run: &SpatialRun<'_>, op: &Spatial) -> Result<()> {
    let Spatial::BatchNormBackward { x, dy, statistics, gain, partial, count, dx, channels } = *op else {
        return refused(format!("{op:?} is not a backward pass of a batch norm"));
    };
    let (e, rows) = (run.dtype(x), rows(x, channels)?);
    let (state, bytes) = (state_of(e), 2 * channels * state_of(e).bytes() as usize);
    let call = run.call().scratch(0, bytes)?.view(partial, Dtype::F64, 2 * channels, "the sums")?;
    let call = call.view(statistics, state, 2 * channels, "statistics")?.word(count).half(channels)?;
    // SAFETY: all have so many channels.
    unsafe { run.of_state(call, OfState::Means, state, Threads::Elements(channels as u64))? };
    let pack = run.pack(e, channels, &[x, dy, dx]);
    let call = run.call().view(dx, e, x.len, "dx")?.view(x, e, x.len, "x")?.view(dy, e, x.len, "dy")?;
    let call = call.view(statistics, state, 2 * channels, "statistics")?.view(gain, e, channels, "the gain")?;
    let call = call.scratch(0, bytes)?.word(rows).half(channels)?;
    // SAFETY: all have so many rows and channels.
    unsafe { run.packed(call, Packed::NormGradient, (e, pack), threads(rows, channels, pack)) }
}
