//! Matrix products against sums in f64.

use terms::Dtype;

use super::{Draw, Setup, bytes, execute, read, state};
use crate::buffer::View;
use crate::memory::Memory;
use crate::op::{Dense, MatMul};

/// A product with its contents, drawn.
struct Case {
    op: MatMul,
    memory: Memory,
    dtype: Dtype,
    before: Vec<f64>,
}

#[derive(Clone, Copy)]
struct Kind {
    dtype: Dtype,
    wide: bool,
    a_transposed: bool,
    b_transposed: bool,
    accumulate: bool,
    bias: bool,
}

impl Kind {
    fn drawn(dtype: Dtype, draw: &mut Draw) -> Self {
        Self {
            dtype,
            wide: draw.coin(),
            a_transposed: draw.coin(),
            b_transposed: draw.coin(),
            accumulate: draw.coin(),
            bias: draw.coin(),
        }
    }
}

fn case(m: usize, n: usize, k: usize, kind: Kind, draw: &mut Draw) -> Case {
    let Kind { dtype, wide, a_transposed, b_transposed, accumulate, bias } = kind;
    let mut setup = Setup::default();
    let result = if wide { state(dtype) } else { dtype };
    let a = setup.add(dtype, draw.numbers(m * k));
    let b = setup.add(dtype, draw.numbers(k * n));
    // What a result does not touch stays: one more at the end shows writes past it.
    let c = setup.add(result, draw.numbers(m * n + 1));
    let bias = bias.then(|| setup.add(dtype, draw.numbers(n)));
    let memory = setup.memory();
    let before = read(&memory, c);
    let c = View { len: m * n, ..c };
    let op = MatMul { a, b, c, bias, m, n, k, a_transposed, b_transposed, accumulate };
    Case { op, memory, dtype, before }
}

/// Unit roundoff.
fn roundoff(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => 2f64.powi(-53),
        Dtype::F32 => 2f64.powi(-24),
        Dtype::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-8),
    }
}

/// Compares c with sums in f64.
///
/// A sum of k products in any order differs from the exact one by at most `gamma sum |a b|`, gamma = k u / (1 - k u)
/// (Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1), here with k + 2 for bias and accumulation, and
/// twice that because AMX and `vdpbf16ps` may truncate; a narrow result adds its rounding, and half its smallest number.
fn check(case: &Case) {
    let MatMul { a, b, c, bias, m, n, k, .. } = case.op;
    let (left, right) = (read(&case.memory, a), read(&case.memory, b));
    let result = read(&case.memory, View { len: m * n + 1, ..c });
    let bias = bias.map(|bias| read(&case.memory, bias));
    let u = if case.dtype == Dtype::F64 { roundoff(Dtype::F64) } else { roundoff(Dtype::F32) };
    let gamma = 2.0 * (k + 2) as f64 * u;
    let last = roundoff(case.memory.dtype(c));
    for i in 0..m {
        for j in 0..n {
            let (mut sum, mut size) = (0.0, 0.0);
            let mut add = |value: f64| {
                sum += value;
                size += value.abs();
            };
            for p in 0..k {
                let x = left[if case.op.a_transposed { p * m + i } else { i * k + p }];
                let y = right[if case.op.b_transposed { j * k + p } else { p * n + j }];
                add(x * y);
            }
            if let Some(bias) = &bias {
                add(bias[j]);
            }
            if case.op.accumulate {
                add(case.before[i * n + j]);
            }
            let bound = gamma * size + 1.01 * last * (sum.abs() + gamma * size) + 2f64.powi(-25);
            let got = result[i * n + j];
            assert!((got - sum).abs() <= bound, "({i}, {j}): {got}, not {sum} within {bound}: {:?}", case.op);
        }
    }
    assert_eq!(result[m * n], case.before[m * n], "written past the end: {:?}", case.op);
}

const DTYPES: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::F16];

#[test]
fn products_of_random_shapes_are_right() {
    let mut draw = Draw(1);
    for round in 0..120 {
        for dtype in DTYPES {
            let most = if round % 4 == 0 { 130 } else { 40 };
            let [m, n, k] = [0; 3].map(|_| draw.whole(1, most));
            let case = case(m, n, k, Kind::drawn(dtype, &mut draw), &mut draw);
            execute(Dense::MatMul(case.op.clone()), &case.memory, bytes(dtype), draw.whole(1, 3));
            check(&case);
        }
    }
}

/// Shapes that need more than one block in each direction, on one and two threads.
#[test]
fn products_of_several_blocks_are_right() {
    let mut draw = Draw(2);
    for (m, n, k) in [(300, 70, 530), (35, 600, 300), (520, 33, 1700), (40, 2500, 40), (1100, 40, 1560)] {
        for dtype in DTYPES {
            for wide in [false, true] {
                let kind = Kind { wide, ..Kind::drawn(dtype, &mut draw) };
                let case = case(m, n, k, kind, &mut draw);
                execute(Dense::MatMul(case.op.clone()), &case.memory, bytes(dtype), draw.whole(1, 2));
                check(&case);
            }
        }
    }
}

#[test]
fn all_combinations_of_flags_are_right() {
    let mut draw = Draw(3);
    for dtype in DTYPES {
        for flags in 0..32 {
            let flag = |bit: usize| flags >> bit & 1 == 1;
            let kind = Kind {
                dtype,
                wide: flag(0),
                a_transposed: flag(1),
                b_transposed: flag(2),
                accumulate: flag(3),
                bias: flag(4),
            };
            let case = case(45, 51, 67, kind, &mut draw);
            execute(Dense::MatMul(case.op.clone()), &case.memory, bytes(dtype), 2);
            check(&case);
        }
    }
}

#[test]
fn the_same_product_has_the_same_bits() {
    let mut draw = Draw(4);
    for dtype in DTYPES {
        let case = case(150, 170, 600, Kind { accumulate: false, ..Kind::drawn(dtype, &mut draw) }, &mut draw);
        let mut results = [1, 2, 1, 2].map(|threads| {
            execute(Dense::MatMul(case.op.clone()), &case.memory, bytes(dtype), threads);
            read(&case.memory, case.op.c)
        });
        assert_eq!(results[0], results[2]);
        assert_eq!(results[1], results[3]);
        let (one, two) = results.split_at_mut(1);
        let scale = one[0].iter().fold(0.0f64, |most, x| most.max(x.abs()));
        let most = if dtype == Dtype::F64 { 1e-12 } else { 4.0 * roundoff(case.memory.dtype(case.op.c)) * scale };
        assert!(super::difference(&one[0], &two[0]) <= most, "{dtype}");
    }
}

/// Every kernel that this CPU has, not only the fastest.
#[cfg(target_arch = "x86_64")]
#[test]
fn every_kernel_is_right() {
    use super::super::matmul::{Operands, by_packing, by_widening, library, output};
    use super::super::packed::{Kernel, Output};
    use crate::context::{Context, Scratch, Step};
    use half::bf16;

    let mut draw = Draw(5);
    for _ in 0..30 {
        let [m, n, k] = [(); 3].map(|()| draw.whole(1, 90));
        let scratch = Scratch::new(1, 8 << 20);
        let context = Context { threads: 1, scratch: &scratch, step: Step { number: 1, seed: 0 }, loss_scale: 1.0 };
        // SAFETY: views that do not overlap; kernels that the CPU has.
        unsafe {
            for kernel in Kernel::all::<bf16>() {
                let narrow = case(m, n, k, Kind { wide: false, ..Kind::drawn(Dtype::Bf16, &mut draw) }, &mut draw);
                by_packing(*kernel, &Operands::<bf16, bf16>::of(&narrow.op, &narrow.memory), output, &context);
                check(&narrow);
                let wide = case(m, n, k, Kind { wide: true, ..Kind::drawn(Dtype::Bf16, &mut draw) }, &mut draw);
                by_packing(*kernel, &Operands::<bf16, f32>::of(&wide.op, &wide.memory), output, &context);
                check(&wide);
            }
            let portable = case(m, n, k, Kind { wide: true, ..Kind::drawn(Dtype::Bf16, &mut draw) }, &mut draw);
            by_widening(&Operands::<bf16, f32>::of(&portable.op, &portable.memory), &context);
            check(&portable);
            for kernel in Kernel::all::<f32>() {
                let case = case(m, n, k, Kind::drawn(Dtype::F32, &mut draw), &mut draw);
                by_packing(*kernel, &Operands::<f32, f32>::of(&case.op, &case.memory), Output::Wide, &context);
                check(&case);
            }
            let by_library = case(m, n, k, Kind::drawn(Dtype::F32, &mut draw), &mut draw);
            library(&Operands::<f32, f32>::of(&by_library.op, &by_library.memory), &context);
            check(&by_library);
        }
    }
}
