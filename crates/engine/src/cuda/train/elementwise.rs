//! Filling, converting, adding; activations, rotary positions, dropout.

use device::Slice;
use device::cuda::Threads;
use terms::Dtype;

use super::launch::{DeviceContext, Kernels, LaunchCall, Result, Single, Typed, refused, rows_of, state_of};
use crate::View;
use crate::op::Rows;

/// Runs what works element by element.
pub(super) fn run(kernels: &Kernels, op: &Rows, context: &DeviceContext<'_>) -> Result<()> {
    let dtype = |view: View| context.memory.dtype(view);
    match *op {
        Rows::Fill { y, value } => fill(kernels, y, value, context),
        Rows::Convert { x, y } => {
            let which = match dtype(y) {
                Dtype::F64 => Typed::ToF64,
                Dtype::F32 => Typed::ToF32,
                Dtype::Bf16 => Typed::ToBf16,
                Dtype::F16 => Typed::ToF16,
                other => return refused(format!("no kernel converts to {other}")),
            };
            let call =
                LaunchCall::new(kernels, context).view(y, dtype(y), x.len, "y")?.view(x, dtype(x), x.len, "x")?;
            // SAFETY: both have so many elements.
            unsafe { call.word(x.len).launch(kernels.typed(which, dtype(x))?, Threads::Elements(x.len as u64)) }
        }
        Rows::Add { a, b, y } => map(kernels, Typed::Add, &[("y", y), ("a", a), ("b", b)], context),
        Rows::AddBias { x, bias } => {
            let rows = rows_of(x, bias.len)?;
            let call = LaunchCall::new(kernels, context).view(x, dtype(x), x.len, "x")?;
            let call = call.view(bias, dtype(x), bias.len, "the bias")?.word(rows).half(bias.len)?;
            // SAFETY: x has so many rows, each as long as the bias.
            unsafe { call.launch(kernels.typed(Typed::AddBias, dtype(x))?, Threads::Elements(x.len as u64)) }
        }
        Rows::GeluForward { x, y, exact } => {
            map(kernels, if exact { Typed::GeluErf } else { Typed::GeluTanh }, &[("y", y), ("x", x)], context)
        }
        Rows::GeluBackward { x, dy, dx, exact } => {
            let which = if exact { Typed::GeluErfGradient } else { Typed::GeluTanhGradient };
            map(kernels, which, &[("dx", dx), ("x", x), ("dy", dy)], context)
        }
        Rows::ReluForward { x, y } => map(kernels, Typed::Relu, &[("y", y), ("x", x)], context),
        Rows::ReluBackward { y, dy, dx } => {
            map(kernels, Typed::ReluGradient, &[("dx", dx), ("y", y), ("dy", dy)], context)
        }
        Rows::SwiGluForward { x, y, width } => {
            let (e, rows) = (dtype(y), rows_of(y, width)?);
            let call = LaunchCall::new(kernels, context).view(y, e, y.len, "y")?.view(x, e, 2 * y.len, "x")?;
            // SAFETY: y has so many rows, and x twice the columns.
            unsafe {
                call.word(rows).half(width)?.launch(kernels.typed(Typed::SwiGlu, e)?, Threads::Elements(y.len as u64))
            }
        }
        Rows::SwiGluBackward { x, dy, dx, width } => {
            let (e, rows) = (dtype(dy), rows_of(dy, width)?);
            let call = LaunchCall::new(kernels, context).view(dx, e, 2 * dy.len, "dx")?.view(x, e, 2 * dy.len, "x")?;
            let call = call.view(dy, e, dy.len, "dy")?.word(rows).half(width)?;
            // SAFETY: as above.
            unsafe { call.launch(kernels.typed(Typed::SwiGluGradient, e)?, Threads::Elements(dy.len as u64)) }
        }
        Rows::Rotary { qkv, sequence, heads, kv_heads, head_width, inverse, .. } => {
            let (e, half, columns) = (dtype(qkv), head_width / 2, (heads + 2 * kv_heads) * head_width);
            let (rows, turned, state) = (rows_of(qkv, columns)?, heads + kv_heads, state_of(e));
            let table = angles_of(kernels, op, context)?;
            let bytes = 2 * sequence * half * state.bytes() as usize;
            let call =
                LaunchCall::new(kernels, context).view(qkv, e, qkv.len, "qkv")?.slice(&table, bytes, "angles")?;
            let call = call.word(rows).half(sequence)?.half(turned)?.half(columns)?.half(half)?.flag(inverse);
            // SAFETY: qkv has so many rows, and the table an angle for each position and pair.
            unsafe { call.launch(kernels.typed(Typed::Rotary, e)?, Threads::Elements((rows * turned * half) as u64)) }
        }
        Rows::Dropout { x, y, columns, first_row, node, rate } => {
            if !(0.0..=1.0).contains(&rate) {
                return refused(format!("{rate} is not a probability"));
            }
            let (e, rows) = (dtype(x), rows_of(x, columns)?);
            // At rate 1 the scale makes zeros; the threshold's last number would not.
            let scale = if rate < 1.0 { 1.0 / (1.0 - rate) } else { 0.0 };
            let threshold = (rate * 4_294_967_296.0).round() as u32;
            let call = LaunchCall::new(kernels, context).view(y, e, x.len, "y")?.view(x, e, x.len, "x")?.step(2)?;
            let call = call.word(rows).half(columns)?.word(first_row as usize).half(node as usize)?;
            let counters = rows * columns.div_ceil(256) * 64;
            // SAFETY: both have so many rows.
            unsafe {
                let call = call.half(threshold as usize)?.real(scale);
                call.launch(kernels.typed(Typed::Dropout, e)?, Threads::Elements(counters as u64))
            }
        }
        _ => refused(format!("{op:?} is of another module")),
    }
}

fn fill(kernels: &Kernels, y: View, value: f64, context: &DeviceContext<'_>) -> Result<()> {
    let dtype = context.memory.dtype(y);
    let kernel = match dtype {
        Dtype::I32 => kernels.single(Single::FillI32)?,
        dtype => kernels.typed(Typed::Fill, dtype)?,
    };
    let call = LaunchCall::new(kernels, context).view(y, dtype, y.len, "y")?.real(value).word(y.len);
    // SAFETY: y has so many elements.
    unsafe { call.launch(kernel, Threads::Elements(y.len as u64)) }
}

/// Views of one type and length, the first of which is written.
fn map(kernels: &Kernels, which: Typed, views: &[(&str, View)], context: &DeviceContext<'_>) -> Result<()> {
    let (dtype, count) = (context.memory.dtype(views[0].1), views[0].1.len);
    let mut call = LaunchCall::new(kernels, context);
    for (what, view) in views {
        call = call.view(*view, dtype, count, what)?;
    }
    // SAFETY: all have so many elements.
    unsafe { call.word(count).launch(kernels.typed(which, dtype)?, Threads::Elements(count as u64)) }
}

/// The cosine and sine of each position and pair of features of a rotary operation, as the host computes them: in f64, then rounded.
pub(super) fn angles_of(kernels: &Kernels, op: &Rows, context: &DeviceContext<'_>) -> Result<Slice> {
    let Rows::Rotary { qkv, sequence, head_width, base, .. } = *op else {
        return refused(format!("{op:?} has no angles"));
    };
    let (half, state) = (head_width / 2, state_of(context.memory.dtype(qkv)));
    if head_width % 2 != 0 || sequence == 0 {
        return refused(format!("a head of {head_width} features has no pairs, or {sequence} positions are none"));
    }
    kernels.table((sequence, half, base.to_bits(), state), || {
        let frequencies: Vec<f64> = (0..half).map(|pair| base.powf(-2.0 * pair as f64 / head_width as f64)).collect();
        let angles = (0..sequence).flat_map(|at| frequencies.iter().map(move |frequency| at as f64 * frequency));
        let both = angles.flat_map(|angle| [angle.cos(), angle.sin()]);
        match state {
            Dtype::F64 => both.flat_map(f64::to_ne_bytes).collect(),
            _ => both.flat_map(|value| (value as f32).to_ne_bytes()).collect(),
        }
    })
}
