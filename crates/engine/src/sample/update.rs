//! What changes parameters.

use terms::Dtype;

use super::made::{Content, Made, len, sizes};
use crate::Op;
use crate::buffer::View;
use crate::op::Update;

/// Rates with which parameters change in most of their bits, and stay finite over any number of calls.
const RATE: f64 = 1e-3;
const DECAY: f64 = 0.01;

/// An operation of this family; None where the kernel is of another.
pub(super) fn op(kernel: &str, dims: &[u64], made: &mut Made) -> Option<Result<Op, String>> {
    let op = match kernel {
        "sum_squares" => sum_squares(dims, made),
        "begin_norm" => Ok(Update::BeginNorm { control: control(made) }),
        "judge" => Ok(Update::Judge { control: control(made), dynamic: true }),
        "end_step" => Ok(Update::EndStep { control: control(made) }),
        "sgd" => sgd(dims, made),
        "adamw" => adamw(dims, made),
        _ => return None,
    };
    Some(op.map(Op::Update))
}

/// A loss scale of 1 and nothing else, as at the start.
fn content(made: &mut Made) -> View {
    let control = made.buffer(Dtype::F64, 4);
    made.given.push((control.part(0, 1), Content::Value(1.0)));
    made.given.push((control.part(1, 3), Content::Value(0.0)));
    control
}

/// A control that the operation changes.
fn control(made: &mut Made) -> View {
    let control = content(made);
    made.is_idempotent = false;
    made.written.push(control);
    control
}

fn sum_squares(dims: &[u64], made: &mut Made) -> Result<Update, String> {
    let [elements] = sizes(dims)?;
    let x = made.reads(made.state, len([elements])?, Content::Noise);
    Ok(Update::SumSquares { x, control: control(made) })
}

/// The copy that is computed with.
fn copy(made: &mut Made, elements: usize, bytes: usize) -> Result<Option<View>, String> {
    match bytes {
        0 => Ok(None),
        2 if made.state == Dtype::F64 => {
            Err("masters of f64 are computed with themselves: there is no copy".to_owned())
        }
        2 => Ok(Some(made.writes(Dtype::Bf16, elements))),
        _ => Err(format!("a copy has elements of 2 bytes, or there is none (0): not {bytes}")),
    }
}

fn sgd(dims: &[u64], made: &mut Made) -> Result<Update, String> {
    let [elements, has_momentum, bytes] = sizes(dims)?;
    let elements = len([elements])?;
    let parameters = made.changes(made.state, elements, Content::Noise);
    Ok(Update::Sgd {
        parameters,
        gradients: made.reads(made.state, elements, Content::Noise),
        velocity: (has_momentum > 0).then(|| made.changes(made.state, elements, Content::Noise)),
        copy: copy(made, elements, bytes)?,
        control: content(made),
        rate: RATE,
        momentum: if has_momentum > 0 { 0.9 } else { 0.0 },
        clip: None,
    })
}

fn adamw(dims: &[u64], made: &mut Made) -> Result<Update, String> {
    let [elements, bytes] = sizes(dims)?;
    let elements = len([elements])?;
    let parameters = made.changes(made.state, elements, Content::Noise);
    Ok(Update::AdamW {
        parameters,
        gradients: made.reads(made.state, elements, Content::Noise),
        first: made.changes(made.state, elements, Content::Noise),
        second: made.changes(made.state, elements, Content::Positive),
        copy: copy(made, elements, bytes)?,
        control: content(made),
        rate: RATE,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
        decay: DECAY,
        clip: None,
    })
}
