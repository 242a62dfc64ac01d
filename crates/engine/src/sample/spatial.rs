//! Convolutions, batch norm and pooling.

use model::{Conv2d, Pool};
use terms::Dtype;

use super::made::{Content, Made, len, sizes};
use crate::Op;
use crate::buffer::View;
use crate::op::Spatial;

/// An operation of this family; None where the kernel is of another.
pub(super) fn op(kernel: &str, dims: &[u64], made: &mut Made) -> Option<Result<Op, String>> {
    let op = match kernel {
        "conv_forward" | "conv_backward_input" | "conv_backward_weight" => convolution(kernel, dims, made),
        "batch_norm_sum" | "batch_norm_forward" | "batch_norm_backward_sum" | "batch_norm_backward" => {
            batch_norm(kernel, dims, made)
        }
        "batch_norm_parameters" => parameters(dims, made),
        "max_pool_forward" | "max_pool_backward" | "average_pool_forward" | "average_pool_backward" => {
            pool(kernel, dims, made)
        }
        _ => return None,
    };
    Some(op.map(Op::Spatial))
}

/// Refuses windows that do not fit.
fn check_window([kernel, stride, padding, height, width]: [usize; 5]) -> Result<(), String> {
    if stride == 0 || kernel == 0 || padding >= kernel || height + 2 * padding < kernel || width + 2 * padding < kernel
    {
        return Err(format!("a window of {kernel} with a step of {stride} does not fit on {height} x {width} pixels"));
    }
    Ok(())
}

fn convolution(kernel_name: &str, dims: &[u64], made: &mut Made) -> Result<Spatial, String> {
    let [batch, inputs, outputs, kernel, stride, padding, height, width] = sizes(dims)?;
    check_window([kernel, stride, padding, height, width])?;
    let shape = Conv2d { inputs, outputs, kernel, stride, padding, height, width };
    let (high, wide) = shape.output();
    let (of_x, of_y) = (len([batch, height, width, inputs])?, len([batch, high, wide, outputs])?);
    let of_weight = len([outputs, kernel, kernel, inputs])?;
    Ok(match kernel_name {
        "conv_forward" => {
            let (x, weight) = (made.input(of_x), made.input(of_weight));
            Spatial::ConvForward { shape, batch, x, weight, y: made.output(of_y) }
        }
        "conv_backward_input" => {
            let (dy, weight) = (made.input(of_y), made.input(of_weight));
            Spatial::ConvBackwardInput { shape, batch, dy, weight, dx: made.output(of_x), accumulate: false }
        }
        _ => {
            let (x, dy) = (made.input(of_x), made.input(of_y));
            let d_weight = made.writes(made.state, of_weight);
            Spatial::ConvBackwardWeight { shape, batch, x, dy, d_weight, accumulate: false }
        }
    })
}

fn batch_norm(kernel: &str, dims: &[u64], made: &mut Made) -> Result<Spatial, String> {
    let [rows, channels, more] = sizes(dims)?;
    if more > 0 && ["batch_norm_sum", "batch_norm_backward"].contains(&kernel) {
        return Err("it has neither a residual nor a mask".to_owned());
    }
    let all = len([rows, channels])?;
    let x = made.input(all);
    let (count, twice) = (rows, len([2, channels])?);
    Ok(match kernel {
        "batch_norm_sum" => Spatial::BatchNormSum { x, partial: made.writes(Dtype::F64, twice), channels },
        "batch_norm_forward" => Spatial::BatchNormForward {
            x,
            partial: moments(made, rows, channels),
            count,
            gain: made.reads(made.element, channels, Content::Positive),
            bias: made.input(channels),
            residual: (more > 0).then(|| made.input(all)),
            y: made.output(all),
            statistics: made.writes(made.state, twice),
            channels,
            epsilon: 1e-5,
            relu: true,
        },
        "batch_norm_backward_sum" => {
            let statistics = made.reads(made.state, twice, Content::Positive);
            let y = (more > 0).then(|| made.input(all));
            // With a mask it is changed; a second call masks the same.
            let dy = made.input(all);
            Spatial::BatchNormBackwardSum { x, y, dy, statistics, partial: made.writes(Dtype::F64, twice), channels }
        }
        _ => Spatial::BatchNormBackward {
            x,
            dy: made.input(all),
            statistics: made.reads(made.state, twice, Content::Positive),
            gain: made.reads(made.element, channels, Content::Positive),
            partial: made.reads(Dtype::F64, twice, Content::Noise),
            count,
            dx: made.output(all),
            channels,
        },
    })
}

/// Sums and sums of squares of rows with mean 0 and variance 1.
fn moments(made: &mut Made, rows: usize, channels: usize) -> View {
    let partial = made.buffer(Dtype::F64, 2 * channels);
    made.given.push((partial.part(0, channels), Content::Value(0.0)));
    made.given.push((partial.part(channels, channels), Content::Value(rows as f64)));
    partial
}

fn parameters(dims: &[u64], made: &mut Made) -> Result<Spatial, String> {
    let [channels] = sizes(dims)?;
    let partial = made.reads(Dtype::F64, len([2, channels])?, Content::Noise);
    let [d_gain, d_bias] = [(); 2].map(|()| made.writes(made.state, channels));
    Ok(Spatial::BatchNormParameters { partial, d_gain, d_bias, accumulate: false })
}

fn pool(kernel_name: &str, dims: &[u64], made: &mut Made) -> Result<Spatial, String> {
    let [batch, channels, kernel, stride, padding, height, width] = sizes(dims)?;
    check_window([kernel, stride, padding, height, width])?;
    let shape = Pool { channels, kernel, stride, padding, height, width };
    let (high, wide) = shape.output();
    let (of_x, of_y) = (len([batch, height, width, channels])?, len([batch, high, wide, channels])?);
    Ok(match kernel_name {
        "max_pool_forward" => {
            let (x, y) = (made.input(of_x), made.output(of_y));
            Spatial::MaxPoolForward { shape, batch, x, y, index: made.writes(Dtype::I32, of_y) }
        }
        "max_pool_backward" => {
            let dy = made.input(of_y);
            let index = made.reads(Dtype::I32, of_y, Content::Windows(shape.clone()));
            Spatial::MaxPoolBackward { shape, batch, dy, index, dx: made.output(of_x) }
        }
        "average_pool_forward" => {
            let x = made.input(of_x);
            Spatial::AveragePoolForward { shape, batch, x, y: made.output(of_y) }
        }
        _ => {
            let dy = made.input(of_y);
            Spatial::AveragePoolBackward { shape, batch, dy, dx: made.output(of_x) }
        }
    })
}
