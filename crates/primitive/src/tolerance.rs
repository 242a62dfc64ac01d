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
/// Products of exact operands are sums of whole numbers that f32 and wider types hold. Types of 16 bits round the sum of a product, by
/// at most u M, with the unit roundoff u and the largest sum M. Where ranks add up their products, the type holds the sum of any of
/// them ([`Pattern::for_task`]): none is off, in whatever order they are added. A bound of the roundings would not tell a rank that
/// is left out. In a chain, d sums up to L and their d - 1 additions are off by up to u L (d^2 + 3d - 2) / 2: of bf16, from 22 ranks
/// on, more than L, which is the most that a rank adds. Random operands: [`sum_error`].
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
    [0, 1].map(|which: usize| rounding(result, tables[which].largest()))
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

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::about::{ABOUT, complete};
    use crate::fields::PrimitiveFields;
    use crate::resolve;

    /// Rows and columns that are looked at.
    const SIDE: usize = 12;

    fn task(primitive: &str, dtype: &str, ranks: usize, depth: usize) -> Task {
        let flags = [("primitive", primitive), ("dtype", dtype), ("implementation", "sequential")];
        let plan = record::plan::from_flags(&ABOUT, &flags[..], &[]).map_err(|error| error.to_string());
        let mut plan = plan.unwrap();
        complete(&mut plan);
        let case = &plan.cases[0];
        let task = resolve::task(case, &PrimitiveFields::of(case).unwrap()).unwrap();
        let k = if task.scheme == Scheme::ScatterLast { ranks * depth } else { depth };
        Task { m: SIDE * ranks, n: SIDE, k, ranks, ..task }
    }

    fn rounded(dtype: Dtype, value: f64) -> f64 {
        if dtype == Dtype::Bf16 { bf16::from_f64(value).to_f64() } else { f16::from_f64(value).to_f64() }
    }

    fn chain(dtype: Dtype, shares: &[f64]) -> f64 {
        shares.iter().map(|share| rounded(dtype, *share)).reduce(|sum, share| rounded(dtype, sum + share)).unwrap()
    }

    fn tree(dtype: Dtype, shares: &[f64]) -> f64 {
        if shares.len() == 1 {
            return rounded(dtype, shares[0]);
        }
        let (left, right) = shares.split_at(shares.len() / 2);
        rounded(dtype, tree(dtype, left) + tree(dtype, right))
    }

    /// Sums as collectives make them: along a ring from any rank on, in a tree, and with the largest sums on the way.
    fn sums(dtype: Dtype, shares: &[f64]) -> Vec<f64> {
        let mut ring = shares.to_vec();
        ring.rotate_left(shares.len() / 3);
        let mut sorted = shares.to_vec();
        sorted.sort_by(|a, b| b.total_cmp(a));
        vec![chain(dtype, shares), chain(dtype, &ring), chain(dtype, &sorted), tree(dtype, shares)]
    }

    /// What each rank adds to each element of the first rows and columns, by its operands.
    fn shares(task: &Task, pattern: &Pattern) -> Vec<Vec<f64>> {
        let depth = task.depth();
        let of_rank = |rank: usize| -> Vec<f64> {
            let begin = task.depth_begin(rank);
            let (a, b) = (pattern.rows(0..SIDE, begin, depth), pattern.columns(begin, depth, SIDE, rank));
            let element = |at: usize| {
                let (row, column) = (at / SIDE, at % SIDE);
                (0..depth).map(|p| a.at(row * depth + p) * b.at(p * SIDE + column)).sum::<f64>()
            };
            (0..SIDE * SIDE).map(element).collect()
        };
        (0..task.ranks).map(of_rank).collect()
    }

    /// On ranks whose sums grow with the depth, on so many that operands are thinned, and at depths next to the period.
    #[test]
    fn no_order_of_the_ranks_rounds_and_one_that_is_left_out_shows() {
        for (primitive, dtype, ranks, depth) in [
            ("tp_rowwise", "bf16", 2, 503),
            ("tp_rowwise", "bf16", 12, 1024),
            ("tp_rowwise", "bf16", 64, 128),
            ("dp_all_reduce", "bf16", 16, 1024),
            ("dp_all_reduce", "bf16", 64, 251),
            ("dp_all_reduce", "bf16", 300, 64),
            ("dp_all_reduce", "f16", 300, 250),
        ] {
            let task = task(primitive, dtype, ranks, depth);
            let what = format!("{primitive} of {dtype} on {ranks} ranks, depth {depth}");
            let (mut pattern, tables) = Pattern::for_task(&task);
            pattern.displace();
            let [off, once] = tolerances(&task, &pattern, &tables);
            assert_eq!([off, once], [0.0; 2], "{what}");
            let shares = shares(&task, &pattern);
            let expected = pattern.product((0..SIDE).map(|row| (row, 0)), SIDE, (0, &tables[0]));
            let element = |at: usize| shares.iter().map(|of_rank| of_rank[at]).collect::<Vec<f64>>();
            let is_near = |at: usize, sum: &f64| (sum - expected.at(at)).abs() <= off;
            for at in 0..SIDE * SIDE {
                let mut all = element(at);
                assert!(sums(task.dtype, &all).iter().all(|sum| is_near(at, sum)), "{what}, element {at}");
                all[0] += 1.0;
                assert!(!is_near(at, &tree(task.dtype, &all)), "{what}: a product is off by one in element {at}");
            }
            for rank in 0..ranks {
                let shows = |at: usize| {
                    let mut others = element(at);
                    others.remove(rank);
                    sums(task.dtype, &others).iter().all(|sum| !is_near(at, sum))
                };
                assert!((0..SIDE * SIDE).any(shows), "{what}: rank {rank} is left out");
            }
        }
    }

    /// Each rank compares its own products with the sums of its part, and ranks of equal depths differ.
    #[test]
    fn a_ranks_products_are_those_of_its_operands() {
        for (dtype, ranks, depth) in [("bf16", 3, 1300), ("bf16", 80, 250), ("f32", 3, 502)] {
            let all = task("dp_all_reduce", dtype, ranks, depth);
            let (pattern, _) = Pattern::for_task(&all);
            let shares = shares(&all, &pattern);
            for rank in [0, ranks - 1] {
                let (pattern, tables) = Pattern::for_task(&Task { rank, ..all.clone() });
                let product = pattern.product((0..SIDE).map(|row| (row, rank)), SIDE, (1, &tables[1]));
                assert!((0..SIDE * SIDE).all(|at| product.at(at) == shares[rank][at]), "{dtype}, rank {rank}");
            }
            assert_ne!(shares[0], shares[ranks - 1], "{dtype}");
        }
    }
}
