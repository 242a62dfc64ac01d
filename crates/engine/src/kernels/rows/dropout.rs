//! Dropout. The mask follows from the position of an element: no mask is kept, and no cut of the rows changes it.
//!
//! Random numbers are Philox4x32-10 (J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a
//! bijection of a counter under a key. The key is mixed from (seed, step), different for each step of a seed; the
//! counter is (column group, global row, node), so no two elements of a step share one.

use std::ops::Range;

use super::grain;
use crate::context::Context;
use crate::element::Wide;
use crate::kernels::simd::{Number, Raw, versions};
use crate::memory::Memory;
use crate::op::Rows;

/// Counters that are run together.
const COUNTERS: usize = 64;

/// Columns that get their numbers from these counters. Number j of counter i belongs to column 64 j + i of the group,
/// so that no number moves across lanes.
const GROUP: usize = 4 * COUNTERS;

/// Ten rounds of Philox4x32.
#[inline(always)]
pub fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let wide = |factor: u32, x: u32| u64::from(factor) * u64::from(x);
        let (a, b) = (wide(0xd251_1f53, counter[0]), wide(0xcd9e_8d57, counter[2]));
        counter = [(b >> 32) as u32 ^ counter[1] ^ key[0], b as u32, (a >> 32) as u32 ^ counter[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    counter
}

/// What is the same for all elements of one dropout.
#[derive(Clone, Copy)]
struct Draw {
    key: [u32; 2],
    node: u32,
    /// Dropped when the number is below: rate x 2^32, rounded.
    threshold: u32,
    /// 1 / (1 - rate).
    scale: f64,
}

impl Draw {
    fn new(context: &Context<'_>, node: u32, rate: f64) -> Self {
        assert!((0.0..=1.0).contains(&rate), "{rate} is not a probability");
        // A constant keeps seed 0, step 0 from mapping to the key 0.
        let key = terms::mix(context.step.seed ^ terms::mix(context.step.number.wrapping_add(0x9e37_79b9_7f4a_7c15)));
        // At rate 1 the scale makes zeros; the threshold's last number would not.
        let scale = if rate < 1.0 { 1.0 / (1.0 - rate) } else { 0.0 };
        Self { key: [key as u32, (key >> 32) as u32], node, threshold: (rate * 4_294_967_296.0).round() as u32, scale }
    }
}

/// Runs `Dropout`.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run<E: Number>(op: &Rows, memory: &Memory, context: &Context<'_>) {
    let Rows::Dropout { x, y, columns, first_row, node, rate } = op else {
        unreachable!("{op:?} is of another module")
    };
    // SAFETY: the caller's promise; parts use disjoint rows, and what is read is staged before it is overwritten.
    let (x, y) = unsafe { (Raw::<E>::new(memory, *x), Raw::<E>::new(memory, *y)) };
    assert!(x.len() == y.len() && x.len() % columns == 0, "rows x columns");
    let draw = Draw::new(context, *node, *rate);
    context.split(x.len() / columns, grain(*columns), |_, rows| {
        for row in rows {
            drop_row(x, y, row * columns..(row + 1) * columns, first_row.wrapping_add(row as u64), draw);
        }
    });
}

versions! {
    fn drop_row<I, E: Number>(x: Raw<E>, y: Raw<E>, row: Range<usize>, global: u64, draw: Draw) {
        let scale = E::Wide::from_f64(draw.scale);
        let mut numbers = [0u32; GROUP];
        for (group, at) in row.clone().step_by(GROUP).enumerate() {
            let (first, rest) = numbers.split_at_mut(COUNTERS);
            let (second, rest) = rest.split_at_mut(COUNTERS);
            let (third, fourth) = rest.split_at_mut(COUNTERS);
            for counter in 0..COUNTERS {
                let column = (group * COUNTERS + counter) as u32;
                let four = philox([column, global as u32, (global >> 32) as u32, draw.node], draw.key);
                first[counter] = four[0];
                second[counter] = four[1];
                third[counter] = four[2];
                fourth[counter] = four[3];
            }
            let here = at..(at + GROUP).min(row.end);
            let input = x.block::<GROUP>(here.clone(), E::default());
            let mut output = [E::default(); GROUP];
            for ((output, input), number) in output.iter_mut().zip(&input).zip(&numbers) {
                let kept = E::store(input.load() * scale);
                *output = if *number < draw.threshold { E::default() } else { kept };
            }
            y.put(here, &output);
        }
    }
}
