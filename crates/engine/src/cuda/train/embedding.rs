//! Embeddings, and the sums of their gradients over rows that were sorted by their tokens.

use device::cuda::Threads;
use terms::Dtype;

use super::launch::{DeviceContext, Kernels, LaunchCall, Result, Typed, chunks, refused, rows_of, state_of};
use super::norm::column_sum;
use crate::op::Rows;

/// The rows of a batch by their tokens, as the gradient of an embedding reads them: for a batch of n rows, n + 1 starts, n rows of the
/// table, and n rows of the batch. Entry s of the table gets rows `starts[s]..starts[s + 1]`, in their order. Tokens outside of
/// `first..first + count` are left out, and entries at the end are empty, so that the size is the same for each batch.
///
/// # Errors
/// Refused for batches and tables past 32 bits.
pub fn sorted_rows(tokens: &[i32], first: usize, count: usize) -> Result<Vec<u32>> {
    if u32::try_from(tokens.len()).is_err() || u32::try_from(count).is_err() {
        return refused(format!("{} rows or {count} entries are past 32 bits", tokens.len()));
    }
    let entry = |token: i32| usize::try_from(token).ok()?.checked_sub(first).filter(|entry| *entry < count);
    let mut found: Vec<(u32, u32)> = Vec::new();
    found.extend(tokens.iter().zip(0..).filter_map(|(token, row)| Some((entry(*token)? as u32, row))));
    found.sort_unstable();
    let (mut starts, mut targets) = (Vec::new(), Vec::new());
    for (at, (target, _)) in found.iter().enumerate() {
        if targets.last() != Some(target) {
            starts.push(at as u32);
            targets.push(*target);
        }
    }
    starts.resize(tokens.len() + 1, found.len() as u32);
    targets.resize(tokens.len(), 0);
    let mut rows: Vec<u32> = found.into_iter().map(|(_, row)| row).collect();
    rows.resize(tokens.len(), 0);
    Ok([starts, targets, rows].concat())
}

/// Runs embeddings.
pub(super) fn run(kernels: &Kernels, op: &Rows, context: &DeviceContext<'_>) -> Result<()> {
    match *op {
        Rows::EmbeddingForward { tokens, table, positions, segments, y, width, sequence, first } => {
            let (e, rows, entries) = (context.memory.dtype(table), rows_of(y, width)?, rows_of(table, width)?);
            if sequence == 0 || positions.is_some_and(|positions| positions.len < sequence.min(rows) * width) {
                return refused(format!("positions are not {sequence} rows of {width}"));
            }
            let call = LaunchCall::new(kernels, context).view(y, e, rows * width, "y")?;
            let call = call.view(tokens, Dtype::I32, rows, "tokens")?.view(table, e, table.len, "the table")?;
            let call = call.maybe(positions, e, positions.map_or(0, |view| view.len), "positions")?;
            let call = call.maybe(segments, e, segments.map_or(0, |view| view.len.max(width)), "segments")?;
            let call = call.word(rows).half(width)?.half(sequence)?.word(first).word(entries);
            // SAFETY: y has so many rows, the table so many entries, and positions as many rows as are read.
            unsafe { call.launch(kernels.typed(Typed::Embed, e)?, Threads::Elements(y.len as u64)) }
        }
        Rows::EmbeddingBackward { tokens, dy, d_table, d_positions, d_segments, width, sequence, .. } => {
            let (e, rows) = (context.memory.dtype(dy), rows_of(dy, width)?);
            let (state, entries) = (state_of(e), rows_of(d_table, width)?);
            let Some(sorted) = context.sorted else { return refused("no rows were sorted by their tokens".to_owned()) };
            let parts = [(0, rows + 1), (rows + 1, rows), (2 * rows + 1, rows)];
            let parts = parts.map(|(from, count)| sorted.slice(4 * from, 4 * count));
            let [Some(starts), Some(targets), Some(of_rows)] = parts else {
                let what = format!("sorted rows have {} bytes, and need {}", sorted.len(), 4 * (3 * rows + 1));
                return refused(what);
            };
            let call = LaunchCall::new(kernels, context).view(d_table, state, entries * width, "d_table")?;
            let call = call.view(dy, e, rows * width, "dy")?.slice(&starts, 4 * (rows + 1), "sorted rows")?;
            let call = call.slice(&targets, 4 * rows, "sorted rows")?.slice(&of_rows, 4 * rows, "sorted rows")?;
            if tokens.len != rows {
                return refused(format!("{} tokens, where {rows} are needed", tokens.len));
            }
            // SAFETY: `sorted_rows` names entries of the table and rows of the batch; that it was made of these is the caller's promise.
            unsafe {
                let call = call.word(rows).half(width)?;
                call.launch(kernels.typed(Typed::EmbedGradient, e)?, Threads::Elements((rows * width) as u64))?;
            }
            if let Some(positions) = d_positions {
                if sequence == 0 || positions.len < sequence * width {
                    return refused(format!("d_positions are not {sequence} rows of {width}"));
                }
                let call = LaunchCall::new(kernels, context).view(positions, state, positions.len, "d_positions")?;
                let call = call.view(dy, e, rows * width, "dy")?.word(rows).half(width)?.half(sequence)?;
                // SAFETY: both have so many rows.
                unsafe {
                    let kernel = kernels.typed(Typed::PositionGradient, e)?;
                    call.launch(kernel, Threads::Elements((sequence * width) as u64))?;
                }
            }
            let Some(segments) = d_segments else { return Ok(()) };
            if segments.len < width {
                return refused(format!("d_segments are not rows of {width}"));
            }
            column_sum(kernels, dy, segments.part(0, width), true, context)
        }
        _ => refused(format!("{op:?} is of another module")),
    }
}

/// Scratch bytes, for state of so many bytes.
pub(super) fn scratch(op: &Rows, state: usize) -> usize {
    match op {
        Rows::EmbeddingBackward { tokens, width, d_segments: Some(_), .. } => {
            chunks(tokens.len, *width) * width * state
        }
        _ => 0,
    }
}
