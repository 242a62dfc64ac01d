//! What works row by row or element by element.

use terms::Dtype;

use super::made::{Content, Made, len, sizes};
use crate::Op;
use crate::buffer::View;
use crate::op::{Norm, Rows};

/// Rows of a sample of tokens, where positions repeat.
const SEQUENCE: usize = 256;
/// Base of rotary frequencies, as Llama has it.
const BASE: f64 = 10_000.0;
/// Probability of a zero.
const RATE: f64 = 0.1;

/// An operation of this family; None where the kernel is of another.
pub(super) fn op(kernel: &str, dims: &[u64], made: &mut Made) -> Option<Result<Op, String>> {
    let op = match kernel {
        "fill" | "add" | "relu_forward" | "relu_backward" | "convert" | "dropout" | "gelu_forward"
        | "gelu_backward" => elements(kernel, dims, made),
        "column_sum" | "add_bias" => columns(kernel, dims, made),
        "norm_forward" | "norm_backward" => norm(kernel, dims, made),
        "swiglu_forward" | "swiglu_backward" => swiglu(kernel, dims, made),
        "rotary" => rotary(dims, made),
        "embedding_forward" | "embedding_backward" => embedding(kernel, dims, made),
        "cross_entropy" | "cross_entropy_largest" | "cross_entropy_sum" | "cross_entropy_finish" => {
            loss(kernel, dims, made)
        }
        _ => return None,
    };
    Some(op.map(Op::Rows))
}

fn elements(kernel: &str, dims: &[u64], made: &mut Made) -> Result<Rows, String> {
    let count = len([sizes::<1>(&dims[..1])?[0]])?;
    Ok(match kernel {
        "fill" => Rows::Fill { y: made.output(count), value: 0.5 },
        "add" => Rows::Add { a: made.input(count), b: made.input(count), y: made.output(count) },
        "relu_forward" => Rows::ReluForward { x: made.input(count), y: made.output(count) },
        "relu_backward" => Rows::ReluBackward { y: made.input(count), dy: made.input(count), dx: made.output(count) },
        "convert" => {
            let to = converted(made.element, dims[1])?;
            Rows::Convert { x: made.input(count), y: made.writes(to, count) }
        }
        "dropout" => {
            let columns = dims[1].max(1) as usize;
            if !count.is_multiple_of(columns) {
                return Err(format!("{count} elements are not rows of {columns}"));
            }
            let (x, y) = (made.input(count), made.output(count));
            Rows::Dropout { x, y, columns, first_row: 0, node: 0, rate: RATE }
        }
        "gelu_forward" => Rows::GeluForward { x: made.input(count), y: made.output(count), exact: dims[1] > 0 },
        _ => {
            let exact = dims[1] > 0;
            Rows::GeluBackward { x: made.input(count), dy: made.input(count), dx: made.output(count), exact }
        }
    })
}

/// The type with elements of so many bytes that is converted to.
fn converted(from: Dtype, bytes: u64) -> Result<Dtype, String> {
    match bytes {
        _ if bytes == from.bytes() => Ok(from),
        2 => Ok(Dtype::Bf16),
        4 => Ok(Dtype::F32),
        8 => Ok(Dtype::F64),
        _ => Err(format!("nothing is computed with that has {bytes} bytes an element: 2, 4 or 8")),
    }
}

fn columns(kernel: &str, dims: &[u64], made: &mut Made) -> Result<Rows, String> {
    let [rows, columns] = sizes(dims)?;
    let all = len([rows, columns])?;
    Ok(match kernel {
        "column_sum" => {
            let x = made.input(all);
            Rows::ColumnSum { x, y: made.writes(made.state, columns), rows, accumulate: false }
        }
        _ => Rows::AddBias { x: made.changes(made.element, all, Content::Noise), bias: made.input(columns) },
    })
}

fn norm(kernel: &str, dims: &[u64], made: &mut Made) -> Result<Rows, String> {
    let [rows, columns, has_bias] = sizes(dims)?;
    let all = len([rows, columns])?;
    let (x, gain) = (made.input(all), made.reads(made.element, columns, Content::Positive));
    let bias = (has_bias > 0).then(|| made.input(columns));
    let statistics = match kernel {
        "norm_forward" => made.writes(made.state, 2 * rows),
        _ => made.reads(made.state, 2 * rows, Content::Positive),
    };
    let norm = Norm { x, gain, bias, statistics, rows, columns, epsilon: 1e-5 };
    Ok(match kernel {
        "norm_forward" => Rows::NormForward { norm, y: made.output(all) },
        _ => Rows::NormBackward {
            norm,
            dy: made.input(all),
            dx: made.output(all),
            accumulate: false,
            d_gain: made.writes(made.state, columns),
            d_bias: bias.map(|_| made.writes(made.state, columns)),
            accumulate_parameters: false,
        },
    })
}

fn swiglu(kernel: &str, dims: &[u64], made: &mut Made) -> Result<Rows, String> {
    let [rows, width] = sizes(dims)?;
    let (all, twice) = (len([rows, width])?, len([rows, width, 2])?);
    let x = made.input(twice);
    Ok(match kernel {
        "swiglu_forward" => Rows::SwiGluForward { x, y: made.output(all), width },
        _ => Rows::SwiGluBackward { x, dy: made.input(all), dx: made.output(twice), width },
    })
}

fn rotary(dims: &[u64], made: &mut Made) -> Result<Rows, String> {
    let [rows, heads, kv_heads, head_width, sequence] = sizes(dims)?;
    if !head_width.is_multiple_of(2) || sequence == 0 {
        return Err("pairs of features are turned, and a sample has a row".to_owned());
    }
    let qkv = made.changes(made.element, len([rows, heads + 2 * kv_heads, head_width])?, Content::Noise);
    Ok(Rows::Rotary { qkv, sequence, heads, kv_heads, head_width, base: BASE, inverse: false })
}

fn embedding(kernel: &str, dims: &[u64], made: &mut Made) -> Result<Rows, String> {
    let [rows, width, count, has_positions, has_segments] = sizes(dims)?;
    let (all, table, sequence) = (len([rows, width])?, len([count, width])?, rows.clamp(1, SEQUENCE));
    let tokens = made.reads(Dtype::I32, rows, Content::Below(count));
    let (positions, segments) = (len([sequence, width])?, len([2, width])?);
    let first = 0;
    Ok(match kernel {
        "embedding_forward" => Rows::EmbeddingForward {
            tokens,
            table: made.input(table),
            positions: (has_positions > 0).then(|| made.input(positions)),
            segments: (has_segments > 0).then(|| made.input(segments)),
            y: made.output(all),
            width,
            sequence,
            first,
        },
        _ => {
            let dy = made.input(all);
            let mut sum = |len: usize| made.changes(made.state, len, Content::Noise);
            let d_table = sum(table);
            let d_positions = (has_positions > 0).then(|| sum(positions));
            let d_segments = (has_segments > 0).then(|| sum(segments));
            Rows::EmbeddingBackward { tokens, dy, d_table, d_positions, d_segments, width, sequence, first }
        }
    })
}

fn loss(kernel: &str, dims: &[u64], made: &mut Made) -> Result<Rows, String> {
    let [rows, columns, classes] = sizes(dims)?;
    if classes == 0 || classes > columns {
        return Err(format!("a row of {columns} columns has no {classes} classes"));
    }
    let all = len([rows, columns])?;
    let (scale, first) = (1.0 / rows as f64, 0);
    let targets = |made: &mut Made| made.reads(Dtype::I32, rows, Content::Below(classes));
    // No logit is larger than one.
    let largest = |made: &mut Made| made.reads(made.state, rows, Content::Value(1.0));
    Ok(match kernel {
        "cross_entropy" => {
            let logits = made.changes(made.element, all, Content::Noise);
            let [loss, control] = sums_of_loss(made);
            Rows::CrossEntropy { logits, targets: targets(made), loss, control, classes, scale }
        }
        "cross_entropy_largest" => {
            let logits = made.input(all);
            Rows::CrossEntropyLargest { logits, largest: made.writes(made.state, rows), classes }
        }
        "cross_entropy_sum" => {
            let (logits, targets, largest) = (made.input(all), targets(made), largest(made));
            let sums = made.writes(made.state, 2 * rows);
            Rows::CrossEntropySum { logits, targets, largest, sums, classes, first }
        }
        _ => {
            let logits = made.changes(made.element, all, Content::Noise);
            let (targets, largest) = (targets(made), largest(made));
            let sums = made.reads(made.state, 2 * rows, Content::Value(classes as f64));
            let [loss, control] = sums_of_loss(made);
            let counts = true;
            Rows::CrossEntropyFinish { logits, targets, largest, sums, loss, control, classes, first, scale, counts }
        }
    })
}

/// The loss, which grows, and the control, whose first number is the loss scale.
fn sums_of_loss(made: &mut Made) -> [View; 2] {
    [made.changes(Dtype::F64, 1, Content::Value(0.0)), made.reads(Dtype::F64, 4, Content::Value(1.0))]
}
