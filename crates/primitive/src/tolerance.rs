//! How far elements of a result may be off.

use terms::Dtype;

use super::pattern::{Pattern, SumTable};
use super::task::{Scheme, Task};
use super::words::Drawn;

/// How far a sum may be off that is rounded to the type once: not at all where the type holds every sum exactly.
fn rounding(dtype: Dtype, largest: f64) -> f64 {
    let exact = dtype.exact_integers() as f64;
    if largest <= exact { 0.0 } else { largest / exact }
}

/// How far an element of the result may be off, and one of a rank's own products.
///
/// Products of exact operands are sums of whole numbers that f32 and wider types hold. Types of 16 bits round the sum of each rank,
/// and each of the d - 1 additions rounds again, always by at most u times what is rounded (u is the unit roundoff). No partial sum
/// exceeds the sum M of the ranks' largest, so that the error is at most (2d - 1) u M. Random operands: [`sum_error`].
pub(super) fn tolerances(task: &Task, pattern: &Pattern, tables: &[SumTable; 2]) -> [f64; 2] {
    let result = task.result();
    if task.scheme == Scheme::Attention {
        return [0.0; 2];
    }
    if task.means.drawn == Drawn::Random {
        return [0, 1].map(|which: usize| {
            let depth = if which == 0 { task.whole_depth() } else { task.depth() };
            let off = sum_error(task, depth, pattern.sizes());
            off + (tables[which].largest() + off) / result.exact_integers() as f64
        });
    }
    let once = rounding(result, tables[1].largest());
    if !matches!(task.scheme, Scheme::ScatterLast | Scheme::ReduceLast) {
        return [rounding(result, tables[0].largest()), once];
    }
    let largest = |rank: usize| pattern.table(task.depth_begin(rank), task.depth()).largest();
    let all: f64 = (0..task.ranks).map(largest).sum();
    [(2 * task.ranks - 1) as f64 * rounding(result, all), once]
}

/// How far a sum of so many products is off before it is rounded to the result's type.
///
/// With the unit roundoff u of sums, k additions in any order are off by at most k u / (1 - k u) times the sum of the products'
/// sizes (Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2), which is at most k times the largest. Sums of fp8
/// have 14 bits on Hopper's tensor cores (DeepSeek-V3, arXiv 2412.19437, section 3.3.2): u is 2^-13. tf32 rounds each operand to 11
/// bits, and a product by twice that. The table's own sums are of f64.
fn sum_error(task: &Task, depth: usize, sizes: [f64; 2]) -> f64 {
    let power = |bits: i32| 2_f64.powi(-bits);
    let unit = match task.dtype {
        Dtype::I8 => return 0.0,
        Dtype::F64 => power(53),
        Dtype::F8E4M3 => power(13),
        _ => power(24),
    };
    let operands = if task.means.tf32 && task.dtype == Dtype::F32 { 2.0 * power(11) + power(22) } else { 0.0 };
    let (depth, largest) = (depth as f64, sizes[0] * sizes[1]);
    let sums = depth * (unit + power(53));
    depth * largest * (operands + (1.0 + operands) * sums / (1.0 - sums).max(0.5))
}
