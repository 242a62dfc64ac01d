//! Products and attention.

use super::made::{Content, Made, len, sizes};
use crate::Op;
use crate::op::{Attention, Dense, MatMul};

/// An operation of this family; None where the kernel is of another.
pub(super) fn op(kernel: &str, dims: &[u64], made: &mut Made) -> Option<Result<Op, String>> {
    let transposed = match kernel {
        "product_nn" => [false, false],
        "product_nt" => [false, true],
        "product_tn" => [true, false],
        "product_tt" => [true, true],
        "attention_forward" => return Some(attention(dims, made, false)),
        "attention_backward" => return Some(attention(dims, made, true)),
        _ => return None,
    };
    Some(product(dims, transposed, made))
}

fn product(dims: &[u64], [a_transposed, b_transposed]: [bool; 2], made: &mut Made) -> Result<Op, String> {
    let [m, n, k, adds, bytes] = sizes(dims)?;
    let kinds = [made.element, made.state];
    let result = kinds.into_iter().find(|dtype| dtype.bytes() as usize == bytes);
    let result =
        result.ok_or_else(|| format!("a result has elements of {} or {} bytes", kinds[0].bytes(), kinds[1].bytes()))?;
    let (a, b) = (made.input(len([m, k])?), made.input(len([k, n])?));
    let c = match adds > 0 {
        true => made.changes(result, len([m, n])?, Content::Noise),
        false => made.writes(result, len([m, n])?),
    };
    let (bias, padding, accumulate) = (None, [0; 3], adds > 0);
    Ok(Dense::MatMul(MatMul { a, b, c, bias, m, n, k, a_transposed, b_transposed, accumulate, padding }).into())
}

fn attention(dims: &[u64], made: &mut Made, is_backward: bool) -> Result<Op, String> {
    let [batch, sequence, heads, kv_heads, head_width, causal] = sizes(dims)?;
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        return Err(format!("{heads} heads are not a multiple of {kv_heads} key and value heads"));
    }
    let packed = len([batch, sequence, heads + 2 * kv_heads, head_width])?;
    let (whole, rows) = (len([batch, sequence, heads, head_width])?, len([batch, heads, sequence])?);
    let qkv = made.input(packed);
    let (output, log_sum) = match is_backward {
        // Scores of noise are near zero, so the sum of their exponentials is near the number of rows that are seen.
        true => (made.input(whole), made.reads(made.state, rows, Content::Value((sequence as f64).ln()))),
        false => (made.output(whole), made.writes(made.state, rows)),
    };
    let causal = causal > 0;
    let forward = Attention { qkv, output, log_sum, batch, sequence, heads, kv_heads, head_width, causal };
    Ok(match is_backward {
        true => Dense::AttentionBackward { forward, d_output: made.input(whole), d_qkv: made.output(packed) },
        false => Dense::AttentionForward(forward),
    }
    .into())
}
