//! Convolution: forward and both gradients against naive loops, with the error bound of a sum of k products; both paths;
//! the adjoint identities that make gradients gradients.

use engine::internals::{Convolved, Pass, portable};
use engine::op::Spatial;
use engine::{Context, Matmul, Multiplier, Op, Scratch, Step, Threads, flops, multiplier, multiplier_of};
use model::Conv2d;
use terms::Dtype;

use super::lab::{Lab, Random, TYPES, assert_within, dot, unit, wide};

fn sizes(shape: &Conv2d, batch: usize) -> [usize; 3] {
    let (height, width) = shape.output();
    [
        batch * shape.height * shape.width * shape.inputs,
        shape.outputs * shape.kernel * shape.kernel * shape.inputs,
        batch * height * width * shape.outputs,
    ]
}

/// Calls `product(x, weight, y)` for the indices of every product of the convolution.
fn products(shape: &Conv2d, batch: usize, mut product: impl FnMut(usize, usize, usize)) {
    let (height, width) = shape.output();
    for (image, oy, ox) in (0..batch).flat_map(|n| (0..height).flat_map(move |y| (0..width).map(move |x| (n, y, x)))) {
        for (ky, kx) in (0..shape.kernel).flat_map(|y| (0..shape.kernel).map(move |x| (y, x))) {
            let (iy, ix) = (
                (oy * shape.stride + ky).wrapping_sub(shape.padding),
                (ox * shape.stride + kx).wrapping_sub(shape.padding),
            );
            if iy >= shape.height || ix >= shape.width {
                continue;
            }
            for output in 0..shape.outputs {
                for input in 0..shape.inputs {
                    product(
                        ((image * shape.height + iy) * shape.width + ix) * shape.inputs + input,
                        ((output * shape.kernel + ky) * shape.kernel + kx) * shape.inputs + input,
                        ((image * height + oy) * width + ox) * shape.outputs + output,
                    );
                }
            }
        }
    }
}

/// What is expected of one output: the sum, the sum of magnitudes, the number of products.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    magnitude: f64,
    products: f64,
}

impl Sum {
    fn add(&mut self, a: f64, b: f64) {
        self.value += a * b;
        self.magnitude += (a * b).abs();
        self.products += 1.0;
    }

    /// A sum of k products in any order is off by at most k roundings of the sum of magnitudes (Higham, Accuracy and
    /// Stability, 3.1, to first order: one rounding more here); what is stored is rounded once more. f16 has no numbers
    /// below 2^-24, so that a rounding may cost half of that.
    fn bound(&self, dtype: Dtype, stored: Dtype) -> f64 {
        let error = (self.products + 2.0) * unit(wide(dtype)) * self.magnitude;
        error + unit(stored) * (self.value.abs() + error) + if stored == Dtype::F16 { 2f64.powi(-25) } else { 0.0 }
    }
}

/// Runs forward, backward by input, backward by weight, and compares all with naive loops.
fn check(shape: &Conv2d, batch: usize, dtype: Dtype, threads: usize, accumulate: bool, random: &mut Random) {
    check_by(Matmul::Auto, shape, batch, dtype, threads, accumulate, random);
}

fn check_by(
    matmul: Matmul,
    shape: &Conv2d,
    batch: usize,
    dtype: Dtype,
    threads: usize,
    accumulate: bool,
    random: &mut Random,
) {
    let what = format!("{shape:?} batch {batch} {dtype} threads {threads} accumulate {accumulate}");
    let [xs, weights, ys] = sizes(shape, batch);
    let (x, weight, dy) = (random.numbers(dtype, xs), random.numbers(dtype, weights), random.numbers(dtype, ys));
    let before_x = random.numbers(dtype, if accumulate { xs } else { 0 });
    let before_weight = random.numbers(wide(dtype), if accumulate { weights } else { 0 });

    let mut expected = [vec![Sum::default(); ys], vec![Sum::default(); xs], vec![Sum::default(); weights]];
    if accumulate {
        expected[1].iter_mut().zip(&before_x).for_each(|(sum, before)| sum.add(*before, 1.0));
        expected[2].iter_mut().zip(&before_weight).for_each(|(sum, before)| sum.add(*before, 1.0));
    }
    products(shape, batch, |i, w, o| {
        expected[0][o].add(x[i], weight[w]);
        expected[1][i].add(dy[o], weight[w]);
        expected[2][w].add(x[i], dy[o]);
    });

    let mut lab = Lab::default();
    let (x, weight, dy) = (lab.buffer(dtype, &x), lab.buffer(dtype, &weight), lab.buffer(dtype, &dy));
    let y = lab.output(dtype, ys);
    let (dx, d_weight) = if accumulate {
        (lab.buffer(dtype, &before_x), lab.buffer(wide(dtype), &before_weight))
    } else {
        (lab.output(dtype, xs), lab.output(wide(dtype), weights))
    };
    let shape = shape.clone();
    let operations = [
        Spatial::ConvForward { shape: shape.clone(), batch, x, weight, y },
        Spatial::ConvBackwardInput { shape: shape.clone(), batch, dy, weight, dx, accumulate },
        Spatial::ConvBackwardWeight { shape, batch, x, dy, d_weight, accumulate },
    ];
    let done = lab.run_by(matmul, &operations, threads);
    let outputs = [("y", y, dtype), ("dx", dx, dtype), ("d_weight", d_weight, wide(dtype))];
    for ((name, view, stored), expected) in outputs.into_iter().zip(&expected) {
        let values: Vec<f64> = expected.iter().map(|sum| sum.value).collect();
        let bound = |index: usize| expected[index].bound(dtype, stored);
        assert_within(&format!("{name} of {what}"), &done.get(view), &values, bound);
    }
    let again = lab.run_by(matmul, &operations, threads);
    for (name, view, _) in outputs {
        assert!(done.get(view) == again.get(view), "{name} of {what}: other bits in a second run");
    }
}

fn shape(random: &mut Random, kernels: &[usize], channels: &[usize]) -> Conv2d {
    loop {
        let shape = Conv2d {
            inputs: random.one_of(channels),
            outputs: random.one_of(channels),
            kernel: random.one_of(kernels),
            stride: random.one_of(&[1, 1, 2, 3]),
            padding: random.one_of(&[0, 1, 2, 3]),
            height: random.one_of(&[1, 2, 5, 7, 8, 9, 14, 15]),
            width: random.one_of(&[1, 3, 6, 7, 8, 11, 14, 16, 23]),
        };
        if shape.height.min(shape.width) + 2 * shape.padding >= shape.kernel {
            return shape;
        }
    }
}

#[test]
fn every_type_agrees_with_naive_loops() {
    let mut random = Random::new(1);
    for round in 0..96 {
        let shape = shape(&mut random, &[1, 2, 3, 5, 7], &[1, 3, 5, 16, 17, 33, 40]);
        let (batch, threads) = (random.one_of(&[1, 2, 3]), random.one_of(&[1, 2, 3]));
        check(&shape, batch, TYPES[round % 4], threads, round % 8 >= 4, &mut random);
    }
}

#[test]
fn shapes_that_image_models_have() {
    let mut random = Random::new(2);
    // Panels of weights shared out, pixels read in place and spread, chunks of rows and of images, folded taps.
    for (inputs, outputs, kernel, stride, size, batch) in [
        (3, 64, 7, 2, 29, 2),
        (64, 32, 3, 1, 14, 2),
        (64, 64, 3, 2, 14, 1),
        (256, 48, 1, 1, 14, 1),
        (528, 32, 1, 1, 7, 2),
        (256, 64, 1, 2, 14, 2),
        (272, 160, 3, 1, 4, 3),
    ] {
        let shape = Conv2d { inputs, outputs, kernel, stride, padding: kernel / 2, height: size, width: size };
        for dtype in [Dtype::F32, Dtype::Bf16] {
            check(&shape, batch, dtype, 2, false, &mut random);
        }
    }
}

/// Convolutions of one tap, as matrix products where AMX multiplies, and by direct kernels where it is not wanted.
#[test]
fn one_tap_is_a_product_of_matrices() {
    let mut random = Random::new(6);
    for (inputs, outputs, size, batch) in [(64, 32, 6, 1), (40, 100, 7, 3), (320, 33, 9, 2)] {
        let shape = Conv2d { inputs, outputs, kernel: 1, stride: 1, padding: 0, height: size, width: size };
        for (matmul, dtype) in [Matmul::Auto, Matmul::Fma].into_iter().flat_map(|by| TYPES.map(|dtype| (by, dtype))) {
            for (threads, accumulate) in [(1, false), (2, true)] {
                check_by(matmul, &shape, batch, dtype, threads, accumulate, &mut random);
            }
        }
    }
}

/// Convolutions as products of what they gather: images smaller than a vector and larger, paddings of more than a pixel,
/// steps, kernels of several sizes, channels that fill steps and that do not, several passes along k.
#[test]
fn what_is_gathered_is_right() {
    let mut random = Random::new(7);
    for (inputs, outputs, kernel, stride, padding, height, width, batch) in [
        (64, 64, 3, 1, 1, 5, 7, 3),
        (48, 80, 3, 1, 1, 9, 20, 1),
        (32, 32, 3, 2, 1, 14, 14, 2),
        (64, 48, 1, 2, 0, 9, 11, 2),
        (80, 32, 5, 1, 2, 6, 33, 1),
        (32, 64, 2, 3, 3, 17, 5, 2),
        (144, 96, 3, 1, 0, 8, 8, 2),
        (128, 256, 3, 1, 2, 4, 4, 2),
        // Rows of more than a vector, in several images and in steps.
        (32, 48, 3, 2, 1, 35, 37, 2),
        (32, 32, 3, 1, 1, 18, 20, 3),
        // The gradient of the weight cut by rows, in several passes over pixels.
        (32, 96, 1, 2, 0, 33, 35, 2),
    ] {
        let shape = Conv2d { inputs, outputs, kernel, stride, padding, height, width };
        for (matmul, threads, accumulate) in [(Matmul::Auto, 1, true), (Matmul::Auto, 2, false), (Matmul::Fma, 2, true)]
        {
            check_by(matmul, &shape, batch, Dtype::F32, threads, accumulate, &mut random);
        }
    }
}

/// What is said to multiply: of one tap what would multiply these matrices, if it is AMX; of what else f32 gathers, AMX as
/// well; of all else multiply-additions. What a gradient of the input sums over are outputs.
#[test]
fn what_multiplies_is_told() {
    let mut lab = Lab::default();
    let view = lab.buffer(Dtype::F32, &[0.0]);
    let by =
        |[kernel, stride, padding]: [usize; 3], [inputs, outputs]: [usize; 2], precision: Dtype, matmul: Matmul| {
            let shape = Conv2d { inputs, outputs, kernel, stride, padding, height: 16, width: 16 };
            [
                Spatial::ConvForward { shape: shape.clone(), batch: 1, x: view, weight: view, y: view },
                Spatial::ConvBackwardInput {
                    shape: shape.clone(),
                    batch: 1,
                    dy: view,
                    weight: view,
                    dx: view,
                    accumulate: false,
                },
                Spatial::ConvBackwardWeight { shape, batch: 1, x: view, dy: view, d_weight: view, accumulate: false },
            ]
            .map(|op| multiplier_of(&Op::Spatial(op), precision, matmul))
        };
    let fma = Multiplier::Fma;
    for (precision, matmul) in [(Dtype::F32, Matmul::Auto), (Dtype::F32, Matmul::Fma), (Dtype::Bf16, Matmul::Auto)] {
        let fastest = multiplier(precision, matmul).unwrap();
        let whole = if fastest == Multiplier::Avx512Bf16 { fma } else { fastest };
        let gathered = if precision == Dtype::F32 { fastest } else { fma };
        let by = |form, channels| by(form, channels, precision, matmul);
        assert_eq!(by([1, 1, 0], [64, 64]), [whole; 3], "{precision} {matmul}");
        assert_eq!(by([1, 1, 0], [40, 72]), [whole; 3], "{precision} {matmul}");
        assert_eq!(by([3, 1, 1], [64, 64]), [gathered; 3]);
        assert_eq!(by([1, 1, 1], [64, 64]), [gathered; 3]);
        assert_eq!(by([3, 2, 1], [64, 64]), [gathered, fma, gathered], "places between others'");
        assert_eq!(by([3, 1, 1], [64, 40]), [gathered, fma, gathered], "no whole vectors of outputs");
        assert_eq!(by([3, 1, 1], [40, 64]), [fma, gathered, fma], "no whole vectors of inputs");
    }
    assert_eq!(by([1, 1, 0], [16, 64], Dtype::F32, Matmul::Auto), [fma; 3], "too few channels");
    assert_eq!(by([3, 1, 1], [64, 64], Dtype::F64, Matmul::Auto), [fma; 3]);
}

#[test]
fn a_chunk_may_hold_less_than_an_image() {
    let mut random = Random::new(3);
    let shape = Conv2d { inputs: 80, outputs: 24, kernel: 3, stride: 1, padding: 1, height: 60, width: 63 };
    check(&shape, 2, Dtype::F32, 2, true, &mut random);
    check(&shape, 1, Dtype::F64, 1, false, &mut random);
}

/// The portable path, on CPUs where the direct one is taken.
#[test]
fn portable_kernels_agree_with_direct_ones() {
    let mut random = Random::new(4);
    for round in 0..24 {
        let shape = shape(&mut random, &[1, 3, 5, 7], &[1, 3, 17, 32, 50]);
        let (batch, accumulate) = (random.one_of(&[1, 2]), round % 2 == 1);
        both::<f32>(&shape, batch, accumulate, &mut random, |x| x as f32, f64::from);
        both::<half::bf16>(&shape, batch, accumulate, &mut random, half::bf16::from_f64, f64::from);
        both::<half::f16>(&shape, batch, accumulate, &mut random, half::f16::from_f64, f64::from);
    }
}

fn both<E: Convolved<Wide = f32>>(
    shape: &Conv2d,
    batch: usize,
    accumulate: bool,
    random: &mut Random,
    narrow: impl Fn(f64) -> E,
    widen: impl Fn(E) -> f64,
) {
    let [xs, weights, ys] = sizes(shape, batch);
    let mut numbers = |len| random.numbers(E::DTYPE, len).into_iter().map(&narrow).collect::<Vec<E>>();
    let (x, weight, dy) = (numbers(xs), numbers(weights), numbers(ys));
    let (before_y, before_x) = (numbers(ys), numbers(xs));
    let before_weight: Vec<f32> = numbers(weights).into_iter().map(|x| widen(x) as f32).collect();
    // Sums of at most this many products of numbers below one, compared after one rounding each.
    let deepest = [weights / shape.outputs, weights / shape.inputs, ys / shape.outputs];
    let bound = |products: usize, stored: Dtype| {
        let sum = (products + 1) as f64;
        2.0 * ((sum + 2.0) * unit(Dtype::F32) * sum + unit(stored) * sum.sqrt().max(4.0) * 4.0)
    };
    let compare = |what: &str, index: usize, stored: Dtype, a: Vec<f64>, b: Vec<f64>| {
        assert_within(&format!("{what} of {shape:?} {}", E::DTYPE), &a, &b, |_| bound(deepest[index], stored));
    };
    let forward = Pass::forward(shape, batch);
    let wide = |numbers: &[E]| numbers.iter().map(|x| widen(*x)).collect::<Vec<f64>>();

    let (mut a, mut b) = (before_y.clone(), before_y);
    with_scratch(|context| E::correlate(&forward, &x, &weight, &mut a, accumulate, context));
    with_scratch(|context| portable::correlate(&forward, &x, &weight, &mut b, accumulate, context));
    compare("y", 0, E::DTYPE, wide(&a), wide(&b));

    let (mut a, mut b) = (before_x.clone(), before_x);
    for pass in Pass::backward(shape, batch) {
        with_scratch(|context| E::correlate(&pass, &dy, &weight, &mut a, accumulate, context));
        with_scratch(|context| portable::correlate(&pass, &dy, &weight, &mut b, accumulate, context));
    }
    compare("dx", 1, E::DTYPE, wide(&a), wide(&b));

    let (mut a, mut b) = (before_weight.clone(), before_weight);
    with_scratch(|context| E::gradient(&forward, &x, &dy, &mut a, accumulate, context));
    with_scratch(|context| portable::gradient(&forward, &x, &dy, &mut b, accumulate, context));
    let wide = |numbers: Vec<f32>| numbers.into_iter().map(f64::from).collect();
    compare("d_weight", 2, Dtype::F32, wide(a), wide(b));
}

fn with_scratch(work: impl FnOnce(&Context<'_>) + Send) {
    let scratch = Scratch::new(2, 4 << 20);
    let context = Context { threads: 2, scratch: &scratch, step: Step { number: 1, seed: 0 }, matmul: Matmul::Auto };
    Threads::new(2, &[]).unwrap().install(|| work(&context));
}

/// Convolution is linear in x and in the weight, so that for any direction v: dL(x + h v)/dh = dL/dx . v, exactly.
#[test]
fn gradients_are_those_of_finite_differences() {
    let mut random = Random::new(5);
    for _ in 0..12 {
        let shape = shape(&mut random, &[1, 3, 5, 7], &[1, 3, 6, 20]);
        let [xs, weights, ys] = sizes(&shape, 2);
        let mut numbers = |len| random.numbers(Dtype::F64, len);
        let (x, weight, dy) = (numbers(xs), numbers(weights), numbers(ys));
        let (along_x, along_weight) = (numbers(xs), numbers(weights));
        let moved = |at: &[f64], along: &[f64], by: f64| -> Vec<f64> {
            at.iter().zip(along).map(|(at, along)| at + by * along).collect()
        };
        let loss = |x: &[f64], weight: &[f64]| {
            let mut lab = Lab::default();
            let (x, weight, y) =
                (lab.buffer(Dtype::F64, x), lab.buffer(Dtype::F64, weight), lab.output(Dtype::F64, ys));
            let operation = Spatial::ConvForward { shape: shape.clone(), batch: 2, x, weight, y };
            dot(&lab.run(&[operation], 2).get(y), &dy)
        };
        let h = 1e-3;
        let slope_x = (loss(&moved(&x, &along_x, h), &weight) - loss(&moved(&x, &along_x, -h), &weight)) / (2.0 * h);
        let slope_weight =
            (loss(&x, &moved(&weight, &along_weight, h)) - loss(&x, &moved(&weight, &along_weight, -h))) / (2.0 * h);

        let mut lab = Lab::default();
        let mut buffer = |values: &[f64]| lab.buffer(Dtype::F64, values);
        let (x, weight, dy) = (buffer(&x), buffer(&weight), buffer(&dy));
        let (dx, d_weight) = (lab.output(Dtype::F64, xs), lab.output(Dtype::F64, weights));
        let operations = [
            Spatial::ConvBackwardInput { shape: shape.clone(), batch: 2, dy, weight, dx, accumulate: false },
            Spatial::ConvBackwardWeight { shape: shape.clone(), batch: 2, x, dy, d_weight, accumulate: false },
        ];
        let done = lab.run(&operations, 2);
        for (name, gradient, along, slope) in
            [("x", done.get(dx), &along_x, slope_x), ("weight", done.get(d_weight), &along_weight, slope_weight)]
        {
            let expected = dot(&gradient, along);
            let scale = gradient.iter().zip(along).map(|(a, b)| (a * b).abs()).sum::<f64>().max(1.0);
            assert!((slope - expected).abs() < 1e-9 * scale, "{name} of {shape:?}: {slope} against {expected}");
        }
    }
}

#[test]
fn flops_are_two_a_product() {
    let shape = Conv2d { inputs: 3, outputs: 5, kernel: 3, stride: 2, padding: 0, height: 9, width: 7 };
    let mut lab = Lab::default();
    let view = lab.buffer(Dtype::F32, &[0.0]);
    let forward = Spatial::ConvForward { shape: shape.clone(), batch: 2, x: view, weight: view, y: view };
    let mut count = 0.0;
    products(&shape, 2, |_, _, _| count += 2.0);
    assert_eq!(flops(&Op::Spatial(forward)), count);
}
