//! Copies of weights for tiles of pixels: `[tap][channel][output of a panel]`, zeros behind the last output.

use std::arch::x86_64::*;

use super::super::pass::Pass;
use super::LANES;
use crate::element::Element;

/// Vectors of a panel: one where there are no outputs for two.
pub(super) fn vectors(outputs: usize) -> usize {
    if outputs <= LANES { 1 } else { 2 }
}

/// Outputs of a panel.
pub(super) fn panel(pass: &Pass) -> usize {
    vectors(pass.outputs) * LANES
}

/// Panels.
pub(super) fn panels(pass: &Pass) -> usize {
    pass.outputs.div_ceil(panel(pass))
}

/// Copies panel `index` to `to`, which holds `depth x panel` numbers.
#[target_feature(enable = "avx512f")]
pub(super) fn pack<E: Element<Wide = f32>>(pass: &Pass, weight: &[E], index: usize, to: &mut [f32]) {
    let wide = panel(pass);
    let first = index * wide;
    let width = (pass.outputs - first).min(wide);
    let mut taps = to.chunks_exact_mut(pass.run() * wide);
    for ty in 0..pass.y.taps {
        for tx in 0..pass.runs() {
            let from = &weight[pass.weight(ty, tx) + first * pass.weights.output..];
            let to = taps.next().expect("room for all taps");
            if pass.weights.output == 1 {
                copy(from, pass.weights.channel, width, to, wide);
            } else {
                transpose(from, pass.weights.output, width, to, wide);
            }
        }
    }
}

/// Outputs of a channel lie next to each other, channels `stride` apart.
#[inline(always)]
fn copy<E: Element<Wide = f32>>(from: &[E], stride: usize, width: usize, to: &mut [f32], wide: usize) {
    for (channel, to) in to.chunks_exact_mut(wide).enumerate() {
        let from = &from[channel * stride..][..width];
        to[width..].fill(0.0);
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from.widen());
    }
}

/// Channels of an output lie next to each other, outputs `stride` apart.
#[target_feature(enable = "avx512f")]
fn transpose<E: Element<Wide = f32>>(from: &[E], stride: usize, width: usize, to: &mut [f32], wide: usize) {
    let channels = to.len() / wide;
    for channel in (0..channels).step_by(LANES) {
        let count = (channels - channel).min(LANES);
        for group in (0..wide).step_by(LANES) {
            let mut rows = [_mm512_setzero_ps(); LANES];
            for (row, output) in rows.iter_mut().zip(group..width.max(group)) {
                let mut numbers = [0.0f32; LANES];
                let from = &from[output * stride + channel..][..count];
                numbers.iter_mut().zip(from).for_each(|(to, from)| *to = from.widen());
                // SAFETY: 16 numbers.
                *row = unsafe { _mm512_loadu_ps(numbers.as_ptr()) };
            }
            let columns = transposed(rows);
            for (offset, column) in columns.into_iter().take(count).enumerate() {
                let to = &mut to[(channel + offset) * wide + group..][..LANES];
                // SAFETY: 16 numbers.
                unsafe { _mm512_storeu_ps(to.as_mut_ptr(), column) };
            }
        }
    }
}

/// 16 x 16 numbers, rows for columns: pairs, then fours, then quarters of vectors.
///
/// # Safety
/// The CPU has AVX-512 F.
#[target_feature(enable = "avx512f")]
pub fn transposed(rows: [__m512; LANES]) -> [__m512; LANES] {
    let mut pairs = rows;
    for i in 0..LANES / 2 {
        pairs[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    let mut fours = rows;
    for i in 0..LANES / 4 {
        let (low, high) = (4 * i, 4 * i + 2);
        fours[4 * i] = _mm512_shuffle_ps::<0b01_00_01_00>(pairs[low], pairs[high]);
        fours[4 * i + 1] = _mm512_shuffle_ps::<0b11_10_11_10>(pairs[low], pairs[high]);
        fours[4 * i + 2] = _mm512_shuffle_ps::<0b01_00_01_00>(pairs[low + 1], pairs[high + 1]);
        fours[4 * i + 3] = _mm512_shuffle_ps::<0b11_10_11_10>(pairs[low + 1], pairs[high + 1]);
    }
    // fours[4 g + c] holds, in quarter q, column 4 q + c of rows 4 g .. 4 g + 4.
    let mut columns = rows;
    for c in 0..4 {
        let low = _mm512_shuffle_f32x4::<0b10_00_10_00>(fours[c], fours[4 + c]);
        let high = _mm512_shuffle_f32x4::<0b10_00_10_00>(fours[8 + c], fours[12 + c]);
        columns[c] = _mm512_shuffle_f32x4::<0b10_00_10_00>(low, high);
        columns[8 + c] = _mm512_shuffle_f32x4::<0b11_01_11_01>(low, high);
        let low = _mm512_shuffle_f32x4::<0b11_01_11_01>(fours[c], fours[4 + c]);
        let high = _mm512_shuffle_f32x4::<0b11_01_11_01>(fours[8 + c], fours[12 + c]);
        columns[4 + c] = _mm512_shuffle_f32x4::<0b10_00_10_00>(low, high);
        columns[12 + c] = _mm512_shuffle_f32x4::<0b11_01_11_01>(low, high);
    }
    columns
}
