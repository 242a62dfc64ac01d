//! Convolutions. Where AMX multiplies, those of one tap and no step are matrix products of whole images, and of f32 most
//! others are products of what they gather. All else: by direct kernels where the CPU has AVX-512 and arithmetic is done in
//! f32, else by a product for each tap.

use half::{bf16, f16};
use model::Conv2d;
use terms::Dtype;

use super::pass::Pass;
use super::portable;
use crate::context::{Context, Matmul};
use crate::element::Element;
use crate::kernels::dense::{self, Multiplier};
use crate::memory::Memory;
use crate::op::{Dense, MatMul, Spatial};

#[cfg(target_arch = "x86_64")]
use super::{direct, gathered};

/// Runs a convolution.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run<E: Convolved>(op: &Spatial, memory: &Memory, context: &Context<'_>) {
    if let Some((product, _)) = product_on_amx(op, E::DTYPE, context.matmul) {
        // SAFETY: the caller's.
        return unsafe { dense::run(&product, memory, context) };
    }
    // SAFETY: the caller's: views of one operation do not overlap, and nobody else uses them.
    unsafe {
        match op {
            Spatial::ConvForward { shape, batch, x, weight, y } => {
                let (x, weight, y) = (memory.read::<E>(*x), memory.read::<E>(*weight), memory.write::<E>(*y));
                check(shape, *batch, x, weight, y);
                E::correlate(&Pass::forward(shape, *batch), x, weight, y, false, context);
            }
            Spatial::ConvBackwardInput { shape, batch, dy, weight, dx, accumulate } => {
                let (dy, weight, dx) = (memory.read::<E>(*dy), memory.read::<E>(*weight), memory.write::<E>(*dx));
                check(shape, *batch, dx, weight, dy);
                for pass in Pass::backward(shape, *batch) {
                    E::correlate(&pass, dy, weight, dx, *accumulate, context);
                }
            }
            Spatial::ConvBackwardWeight { shape, batch, x, dy, d_weight, accumulate } => {
                let (x, dy) = (memory.read::<E>(*x), memory.read::<E>(*dy));
                let d_weight = memory.write::<E::Wide>(*d_weight);
                check(shape, *batch, x, d_weight, dy);
                E::gradient(&Pass::forward(shape, *batch), x, dy, d_weight, *accumulate, context);
            }
            other => unreachable!("{other:?} is not a convolution"),
        }
    }
}

/// What multiplies: kernels of convolution multiply f32, whatever they are given, or f64.
pub(super) fn multiplier_of(op: &Spatial, precision: Dtype, matmul: Matmul) -> Multiplier {
    match product_on_amx(op, precision, matmul) {
        Some((_, by)) => by,
        #[cfg(target_arch = "x86_64")]
        None if precision == Dtype::F32 && is_gathered(op, matmul) => Multiplier::Bf16x6,
        None => Multiplier::Fma,
    }
}

/// The matrix product that a convolution is computed as, if AMX multiplies it. Those of bf16 by AVX-512 take 1.2 to 1.3 times as
/// long as direct kernels.
fn product_on_amx(op: &Spatial, precision: Dtype, matmul: Matmul) -> Option<(Dense, Multiplier)> {
    let product = product(op)?;
    let by = dense::multiplier_of(&product, precision, matmul);
    [Multiplier::Bf16x6, Multiplier::AmxBf16].contains(&by).then_some((product, by))
}

/// Whether f32 is a product of what it gathers: in all of its passes, or in none.
#[cfg(target_arch = "x86_64")]
fn is_gathered(op: &Spatial, matmul: Matmul) -> bool {
    match op {
        Spatial::ConvForward { shape, batch, .. } => gathered::correlate_serves(&Pass::forward(shape, *batch), matmul),
        Spatial::ConvBackwardInput { shape, batch, .. } => {
            Pass::backward(shape, *batch).all(|pass| gathered::correlate_serves(&pass, matmul))
        }
        Spatial::ConvBackwardWeight { shape, batch, .. } => {
            gathered::gradient_serves(&Pass::forward(shape, *batch), matmul)
        }
        _ => false,
    }
}

/// The matrix product, of pixels by channels, that equals a convolution in which each pixel gathers from itself alone.
fn product(op: &Spatial) -> Option<Dense> {
    let (shape, batch) = match op {
        Spatial::ConvForward { shape, batch, .. }
        | Spatial::ConvBackwardInput { shape, batch, .. }
        | Spatial::ConvBackwardWeight { shape, batch, .. } => (shape, *batch),
        _ => return None,
    };
    if (shape.kernel, shape.stride, shape.padding) != (1, 1, 0) {
        return None;
    }
    let pixels = batch * shape.height * shape.width;
    let (inputs, outputs) = (shape.inputs, shape.outputs);
    let plain = |a, b, c, [m, n, k]: [usize; 3], accumulate| MatMul {
        a,
        b,
        c,
        bias: None,
        m,
        n,
        k,
        a_transposed: false,
        b_transposed: false,
        accumulate,
        padding: [0; 3],
    };
    Some(Dense::MatMul(match *op {
        Spatial::ConvForward { x, weight, y, .. } => {
            MatMul { b_transposed: true, ..plain(x, weight, y, [pixels, outputs, inputs], false) }
        }
        Spatial::ConvBackwardInput { dy, weight, dx, accumulate, .. } => {
            plain(dy, weight, dx, [pixels, inputs, outputs], accumulate)
        }
        Spatial::ConvBackwardWeight { x, dy, d_weight, accumulate, .. } => {
            MatMul { a_transposed: true, ..plain(dy, x, d_weight, [outputs, inputs, pixels], accumulate) }
        }
        _ => return None,
    }))
}

/// The kernels below go by the shape alone.
fn check<X, W, Y>(shape: &Conv2d, batch: usize, x: &[X], weight: &[W], y: &[Y]) {
    let (height, width) = shape.output();
    assert_eq!(x.len(), batch * shape.height * shape.width * shape.inputs, "x of {shape:?}");
    assert_eq!(y.len(), batch * height * width * shape.outputs, "y of {shape:?}");
    assert_eq!(weight.len(), shape.outputs * shape.kernel * shape.kernel * shape.inputs, "weight of {shape:?}");
}

/// Types that convolutions are computed in, each by its fastest kernels.
pub trait Convolved: Element {
    /// One pass: `y = x * weight`, or +=.
    fn correlate(pass: &Pass, x: &[Self], weight: &[Self], y: &mut [Self], accumulate: bool, context: &Context<'_>) {
        portable::correlate(pass, x, weight, y, accumulate, context);
    }

    /// Gradient of the weight.
    fn gradient(
        pass: &Pass,
        x: &[Self],
        dy: &[Self],
        d_weight: &mut [Self::Wide],
        accumulate: bool,
        context: &Context<'_>,
    ) {
        portable::gradient(pass, x, dy, d_weight, accumulate, context);
    }
}

impl Convolved for f64 {}

impl Convolved for f32 {
    fn correlate(pass: &Pass, x: &[f32], weight: &[f32], y: &mut [f32], accumulate: bool, context: &Context<'_>) {
        #[cfg(target_arch = "x86_64")]
        if gathered::correlate_serves(pass, context.matmul) {
            return gathered::correlate(pass, x, weight, y, accumulate, context);
        }
        correlate(pass, x, weight, y, accumulate, context);
    }

    fn gradient(pass: &Pass, x: &[f32], dy: &[f32], d_weight: &mut [f32], accumulate: bool, context: &Context<'_>) {
        #[cfg(target_arch = "x86_64")]
        if gathered::gradient_serves(pass, context.matmul) {
            return gathered::gradient(pass, x, dy, d_weight, accumulate, context);
        }
        gradient(pass, x, dy, d_weight, accumulate, context);
    }
}

macro_rules! widened {
    ($($type:ty)*) => {$(
        impl Convolved for $type {
            fn correlate(pass: &Pass, x: &[Self], weight: &[Self], y: &mut [Self], accumulate: bool, context: &Context<'_>) {
                correlate(pass, x, weight, y, accumulate, context);
            }

            fn gradient(pass: &Pass, x: &[Self], dy: &[Self], d_weight: &mut [f32], accumulate: bool, context: &Context<'_>) {
                gradient(pass, x, dy, d_weight, accumulate, context);
            }
        }
    )*};
}

widened!(bf16 f16);

/// By direct kernels, where the CPU has what they need.
fn correlate<E: Element<Wide = f32>>(
    pass: &Pass,
    x: &[E],
    weight: &[E],
    y: &mut [E],
    accumulate: bool,
    context: &Context<'_>,
) {
    #[cfg(target_arch = "x86_64")]
    if direct::serves(size_of::<E>()) {
        return direct::correlate(pass, x, weight, y, accumulate, context);
    }
    portable::correlate(pass, x, weight, y, accumulate, context);
}

/// As [`correlate`].
fn gradient<E: Element<Wide = f32>>(
    pass: &Pass,
    x: &[E],
    dy: &[E],
    d_weight: &mut [f32],
    accumulate: bool,
    context: &Context<'_>,
) {
    #[cfg(target_arch = "x86_64")]
    if direct::serves(size_of::<E>()) {
        return direct::gradient(pass, x, dy, d_weight, accumulate, context);
    }
    portable::gradient(pass, x, dy, d_weight, accumulate, context);
}

/// Scratch bytes of one part, of the way that takes most; None for what is not a convolution.
pub(super) fn scratch_bytes(op: &Spatial, bytes: usize, threads: usize) -> Option<usize> {
    let precision = if bytes == 2 { Dtype::Bf16 } else { Dtype::F32 };
    let product = product_on_amx(op, precision, Matmul::Auto).filter(|_| bytes <= 4);
    let product = product.map_or(0, |(product, _)| dense::scratch_bytes(&product, bytes, threads));
    Some(own_scratch_bytes(op, bytes, threads)?.max(product))
}

fn own_scratch_bytes(op: &Spatial, bytes: usize, threads: usize) -> Option<usize> {
    match op {
        Spatial::ConvForward { shape, batch, .. } => {
            Some(correlate_scratch(&Pass::forward(shape, *batch), bytes, threads))
        }
        Spatial::ConvBackwardInput { shape, batch, .. } => {
            let each = Pass::backward(shape, *batch).map(|pass| correlate_scratch(&pass, bytes, threads));
            Some(each.max().unwrap_or(0))
        }
        Spatial::ConvBackwardWeight { shape, batch, .. } => {
            Some(gradient_scratch(&Pass::forward(shape, *batch), bytes, threads))
        }
        _ => None,
    }
}

fn correlate_scratch(pass: &Pass, bytes: usize, threads: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if direct::serves(bytes) {
        let parts = if bytes == 4 { gathered::correlate_scratch(pass, threads) } else { 0 };
        return direct::correlate_scratch(pass, bytes, threads).max(parts);
    }
    portable::correlate_scratch(pass, bytes, threads)
}

fn gradient_scratch(pass: &Pass, bytes: usize, threads: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if direct::serves(bytes) {
        let parts = if bytes == 4 { gathered::gradient_scratch(pass, threads) } else { 0 };
        return direct::gradient_scratch(pass, bytes, threads).max(parts);
    }
    portable::gradient_scratch(pass, bytes, threads)
}

/// Two operations a product; each gradient has as many products as the forward pass.
pub(super) fn flops(op: &Spatial) -> f64 {
    match op {
        Spatial::ConvForward { shape, batch, .. }
        | Spatial::ConvBackwardInput { shape, batch, .. }
        | Spatial::ConvBackwardWeight { shape, batch, .. } => {
            let (height, width) = shape.output();
            let weights = shape.outputs * shape.kernel * shape.kernel * shape.inputs;
            2.0 * (batch * height * width) as f64 * weights as f64
        }
        _ => 0.0,
    }
}
