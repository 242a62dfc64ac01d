//! Rotary positions (Su et al., arXiv 2104.09864), in the halves' layout of GPT-NeoX and Llama: feature i is turned
//! with feature i + head_width / 2.

use super::grain;
use crate::context::Context;
use crate::element::Wide;
use crate::kernels::simd::{Number, Raw, versions};
use crate::memory::Memory;
use crate::op::Rows;

/// Runs `Rotary`.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run<E: Number>(op: &Rows, memory: &Memory, context: &Context<'_>) {
    let Rows::Rotary { qkv, sequence, heads, kv_heads, head_width, base, inverse } = op else {
        unreachable!("{op:?} is of another module")
    };
    // SAFETY: the caller's promise; parts change disjoint rows.
    let qkv = unsafe { Raw::<E>::new(memory, *qkv) };
    let (turned, columns, half) =
        ((heads + kv_heads) * head_width, (heads + 2 * kv_heads) * head_width, head_width / 2);
    assert!(head_width % 2 == 0 && qkv.len() % columns == 0, "pairs of features in whole rows");
    context.split(qkv.len() / columns, grain(columns), |part, rows| {
        // SAFETY: the area is this part's.
        let area = unsafe { context.area::<f64>(part, 3 * half) };
        let (frequencies, angles) = area.split_at_mut(half);
        let (cosines, sines) = angles.split_at_mut(half);
        for (pair, frequency) in frequencies.iter_mut().enumerate() {
            *frequency = base.powf(-2.0 * pair as f64 / *head_width as f64);
        }
        for row in rows {
            let position = (row % sequence) as f64;
            // In f64: a large position times a frequency has no place for a fraction of a turn in f32.
            for ((cosine, sine), frequency) in cosines.iter_mut().zip(&mut *sines).zip(&*frequencies) {
                (*sine, *cosine) = (position * frequency).sin_cos();
                *sine = if *inverse { -*sine } else { *sine };
            }
            // SAFETY: as above.
            let row = unsafe { qkv.slice_mut(row * columns..row * columns + turned) };
            turn(row, cosines, sines);
        }
    });
}

versions! {
    fn turn<I, E: Number>(row: &mut [E], cosines: &[f64], sines: &[f64]) {
        let half = cosines.len();
        for head in row.chunks_exact_mut(2 * half) {
            let (left, right) = head.split_at_mut(half);
            for ((left, right), (cosine, sine)) in left.iter_mut().zip(right).zip(cosines.iter().zip(sines)) {
                let (a, b) = (left.load(), right.load());
                let (cosine, sine) = (E::Wide::from_f64(*cosine), E::Wide::from_f64(*sine));
                *left = E::store(I::fma(a, cosine, -(b * sine)));
                *right = E::store(I::fma(b, cosine, a * sine));
            }
        }
    }
}
