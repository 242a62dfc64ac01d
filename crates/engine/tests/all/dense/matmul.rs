//! Matrix products against sums in f64.

use engine::op::{Dense, MatMul};
use engine::{Matmul, Memory, Multiplier, View, multiplier};
use terms::Dtype;

use super::{Draw, Setup, bytes, execute, read, state};

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
    let op = MatMul { a, b, c, bias, m, n, k, a_transposed, b_transposed, accumulate, padding: [0; 3] };
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

/// f32 as products of bf16 packs 2,720 of the shorter side at once, and reads 256 columns of them at a time.
#[test]
fn products_of_several_parts_of_the_shorter_side_are_right() {
    let mut draw = Draw(7);
    for (m, n, k) in [(2760, 2800, 40), (2800, 2760, 33), (640, 530, 70)] {
        for (accumulate, bias) in [(false, true), (true, true), (true, false)] {
            let kind = Kind { accumulate, bias, ..Kind::drawn(Dtype::F32, &mut draw) };
            let case = case(m, n, k, kind, &mut draw);
            execute(Dense::MatMul(case.op.clone()), &case.memory, 4, draw.whole(1, 3));
            check(&case);
        }
    }
}

/// Results of 4 MiB and more: those of one call of a kernel go past the caches, as gradients of weights do; those of several
/// are completed in one pass.
#[test]
fn many_results_are_right() {
    let mut draw = Draw(8);
    for dtype in [Dtype::F32, Dtype::Bf16] {
        for (m, n, k, accumulate, bias) in [
            (1100, 1024, 36, false, false),
            (1030, 1040, 90, false, true),
            (64, 16_400, 290, false, true),
            (64, 16_400, 290, true, false),
        ] {
            let kind = Kind { dtype, wide: true, a_transposed: !bias, b_transposed: bias, accumulate, bias };
            let case = case(m, n, k, kind, &mut draw);
            execute(Dense::MatMul(case.op.clone()), &case.memory, bytes(dtype), 2);
            check(&case);
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
        if dtype == Dtype::F32 && multiplier(Dtype::F32, Matmul::Auto) == Some(Multiplier::Bf16x6) {
            for threads in [2, 3, 5] {
                execute(Dense::MatMul(case.op.clone()), &case.memory, bytes(dtype), threads);
                assert_eq!(read(&case.memory, case.op.c), one[0], "on {threads} threads");
            }
        }
        let most = if dtype == Dtype::F64 { 1e-12 } else { 4.0 * roundoff(case.memory.dtype(case.op.c)) * scale };
        assert!(super::difference(&one[0], &two[0]) <= most, "{dtype}");
    }
}

/// Every kernel that this CPU has, not only the fastest.
#[cfg(target_arch = "x86_64")]
#[test]
fn every_kernel_is_right() {
    use engine::internals::{Kernel, matmul};
    use engine::{Context, Scratch, Step};
    use half::bf16;

    let mut draw = Draw(5);
    for _ in 0..30 {
        let [m, n, k] = [(); 3].map(|()| draw.whole(1, 90));
        let scratch = Scratch::new(1, 8 << 20);
        let context =
            Context { threads: 1, scratch: &scratch, step: Step { number: 1, seed: 0 }, matmul: Matmul::Auto };
        // SAFETY: views that do not overlap; kernels that the CPU has.
        unsafe {
            for kernel in Kernel::all::<bf16>() {
                let narrow = case(m, n, k, Kind { wide: false, ..Kind::drawn(Dtype::Bf16, &mut draw) }, &mut draw);
                matmul::run_by(Some(*kernel), &narrow.op, &narrow.memory, &context);
                check(&narrow);
                let wide = case(m, n, k, Kind { wide: true, ..Kind::drawn(Dtype::Bf16, &mut draw) }, &mut draw);
                matmul::run_by(Some(*kernel), &wide.op, &wide.memory, &context);
                check(&wide);
            }
            let portable = case(m, n, k, Kind { wide: true, ..Kind::drawn(Dtype::Bf16, &mut draw) }, &mut draw);
            matmul::run_by(None, &portable.op, &portable.memory, &context);
            check(&portable);
            for kernel in Kernel::all::<f32>() {
                let case = case(m, n, k, Kind::drawn(Dtype::F32, &mut draw), &mut draw);
                matmul::run_by(Some(*kernel), &case.op, &case.memory, &context);
                check(&case);
            }
            let by_library = case(m, n, k, Kind::drawn(Dtype::F32, &mut draw), &mut draw);
            matmul::run_by(None, &by_library.op, &by_library.memory, &context);
            check(&by_library);
        }
    }
}

/// f32 as products of bf16: what it promises.
#[cfg(target_arch = "x86_64")]
mod bf16x6 {
    use engine::internals::{Kernel, matmul};
    use engine::{Context, Scratch, Step};

    use super::*;

    /// c = a b of `[m, k]` and `[k, n]`, by one kernel.
    fn product(kernel: Kernel, (m, n, k): (usize, usize, usize), a: &[f64], b: &[f64]) -> Vec<f64> {
        let mut setup = Setup::default();
        let (a, b) = (setup.add(Dtype::F32, a.to_vec()), setup.add(Dtype::F32, b.to_vec()));
        let c = setup.add(Dtype::F32, vec![0.0; m * n]);
        let memory = setup.memory();
        let (a_transposed, b_transposed, accumulate) = (false, false, false);
        let op = MatMul { a, b, c, bias: None, m, n, k, a_transposed, b_transposed, accumulate, padding: [0; 3] };
        let scratch = Scratch::new(1, 16 << 20);
        let step = Step { number: 1, seed: 0 };
        let context = Context { threads: 1, scratch: &scratch, step, matmul: Matmul::Auto };
        // SAFETY: views that do not overlap; a kernel that the CPU has.
        unsafe { matmul::run_by(Some(kernel), &op, &memory, &context) };
        read(&memory, c)
    }

    /// Whether this CPU has it; if not, the tests of f32 all run what it has.
    fn lacking() -> bool {
        !Kernel::all::<f32>().contains(&Kernel::Bf16x6)
    }

    /// Root of the mean square, and the most, of errors relative to the sum of |a b|, in units of f32's roundoff.
    fn errors(got: &[f64], (m, n, k): (usize, usize, usize), a: &[f64], b: &[f64]) -> (f64, f64) {
        let (mut squares, mut most) = (0.0, 0.0f64);
        for i in 0..m {
            for j in 0..n {
                let products = || (0..k).map(|p| a[i * k + p] * b[p * n + j]);
                let size: f64 = products().map(f64::abs).sum();
                let error = (got[i * n + j] - products().sum::<f64>()).abs() / (size * roundoff(Dtype::F32));
                squares += error * error;
                most = most.max(error);
            }
        }
        ((squares / (m * n) as f64).sqrt(), most)
    }

    /// Products of bf16 are as exact as fused multiply-additions of f32, whatever the numbers look like. A product that is left
    /// out (2^-17 of the sum and more) or a part that is rounded wrongly is some thousand times as far off.
    #[test]
    fn it_is_as_exact_as_f32() {
        if lacking() {
            return;
        }
        let mut draw = Draw(6);
        let mut f32s = |count: usize, exponents: f64| -> Vec<f64> {
            (0..count).map(|_| f64::from((draw.uniform() * (exponents * draw.uniform()).exp2()) as f32)).collect()
        };
        for (size, exponents) in
            [((40, 48, 64), 0.0), ((64, 32, 768), 0.0), ((48, 64, 300), 12.0), ((32, 32, 2048), 30.0)]
        {
            let (m, n, k) = size;
            let (a, b) = (f32s(m * k, exponents), f32s(k * n, exponents));
            let [parts, fma] =
                [Kernel::Bf16x6, Kernel::Fma].map(|kernel| errors(&product(kernel, size, &a, &b), size, &a, &b));
            assert!(
                parts.0 <= 1.1 * fma.0.max(0.05) && parts.1 <= 1.5 * fma.1.max(0.2),
                "{size:?}: {parts:?}, fma {fma:?}"
            );
        }
    }

    /// What is not a number shows in its row or column and nowhere else, whatever its bits; infinities stay no numbers.
    #[test]
    fn what_is_no_number_stays_none() {
        if lacking() {
            return;
        }
        let (m, n, k) = (32, 32, 64);
        for bits in [0x7fc0_0000u32, 0xffff_ffff, 0x7f80_0001, 0x7fff_ffff, 0x7f80_0000, 0xff80_0000] {
            let (mut a, b) = (vec![1.0; m * k], vec![0.5; k * n]);
            a[5 * k + 33] = f64::from(f32::from_bits(bits));
            let c = product(Kernel::Bf16x6, (m, n, k), &a, &b);
            for (at, value) in c.iter().enumerate() {
                assert_eq!(value.is_finite(), at / n != 5, "{bits:#x}: element {at} is {value}");
            }
            let (a, mut b) = (vec![1.0; m * k], vec![0.5; k * n]);
            b[33 * n + 17] = f64::from(f32::from_bits(bits));
            let c = product(Kernel::Bf16x6, (m, n, k), &a, &b);
            for (at, value) in c.iter().enumerate() {
                assert_eq!(value.is_finite(), at % n != 17, "{bits:#x} in b: element {at} is {value}");
            }
        }
    }

    /// Near the ends of the range: large numbers are right as far as the sum is; of the smallest, at most 2^-126 is lost.
    #[test]
    fn the_ends_of_the_range() {
        if lacking() {
            return;
        }
        let size = (32, 32, 32);
        let c = product(Kernel::Bf16x6, size, &[3.0e38; 32 * 32], &[1.0e-2; 32 * 32]);
        let exact = 32.0 * f64::from(3.0e38f32) * f64::from(1.0e-2f32);
        assert!(c.iter().all(|x| (x / exact - 1.0).abs() < 1e-6), "{} of {exact}", c[0]);
        for tiny in [1.2345678e-38f32, 7.654321e-36, 1.0e-40] {
            let c = product(Kernel::Bf16x6, size, &[f64::from(tiny); 32 * 32], &[1.0; 32 * 32]);
            let bound = 32.0 * 1.01 * 2f64.powi(-126);
            assert!(c.iter().all(|x| (x - 32.0 * f64::from(tiny)).abs() <= bound), "{} of {tiny}", c[0]);
        }
        // Parts that are not small, and products that are.
        let small = f64::from((1.2382 * 2f64.powi(-60)) as f32);
        let c = product(Kernel::Bf16x6, size, &[small; 32 * 32], &[small; 32 * 32]);
        let (exact, bound) = (32.0 * small * small, 32.0 * 18.0 * 2f64.powi(-126));
        assert!(c.iter().all(|x| (x - exact).abs() <= bound), "{:e}, not {exact:e} within {bound:e}", c[0]);
    }
}
