//! Elements of results computed again, plainly and in f64: of products and of the forward pass of attention. Other kernels are
//! compared with themselves only: that they compute what they say is tested where they are (`engine`).

use engine::op::{Attention, Dense, MatMul};
use engine::{Error, Loaded, Op, Sample, View};
use terms::{Dtype, splitmix64};

/// Elements, or rows, that are computed again.
const LOOKS: u64 = 16;

/// What is needed of a product's result before the call.
pub(super) struct Before {
    /// What it adds to; empty where it adds to nothing.
    result: Vec<f64>,
}

impl Before {
    /// Fills the inputs, and looks at them.
    ///
    /// # Errors
    /// As [`Loaded::write`].
    pub(super) fn new(sample: &Sample, loaded: &mut dyn Loaded, seed: u64) -> Result<Self, Error> {
        // SAFETY: no call runs.
        unsafe { sample.fill(loaded, seed) }?;
        let result = match sample.op() {
            Op::Dense(Dense::MatMul(MatMul { c, accumulate: true, .. })) => values(sample, loaded, *c)?,
            _ => Vec::new(),
        };
        Ok(Self { result })
    }

    /// What is wrong in some elements of the result, in words; None where they are as they must be.
    ///
    /// # Errors
    /// As [`Loaded::read`].
    pub(super) fn compare(&self, sample: &Sample, loaded: &dyn Loaded, dtype: Dtype) -> Result<Option<String>, Error> {
        match sample.op() {
            Op::Dense(Dense::MatMul(product)) => self.product(product, sample, loaded, dtype),
            Op::Dense(Dense::AttentionForward(attention)) => compare_attention(attention, sample, loaded, dtype),
            _ => Ok(None),
        }
    }

    fn product(
        &self,
        product: &MatMul,
        sample: &Sample,
        loaded: &dyn Loaded,
        dtype: Dtype,
    ) -> Result<Option<String>, Error> {
        let MatMul { a, b, c, m, n, k, a_transposed, b_transposed, .. } = *product;
        let of_result = sample.program.dtype(c);
        let [a, b, c] = [values(sample, loaded, a)?, values(sample, loaded, b)?, values(sample, loaded, c)?];
        for look in 0..LOOKS {
            let place = (splitmix64(look) % (m * n) as u64) as usize;
            let (row, column) = (place / n, place % n);
            let before = self.result.get(place).copied().unwrap_or(0.0);
            let (mut sum, mut size) = (before, before.abs());
            for at in 0..k {
                let left = if a_transposed { a[at * m + row] } else { a[row * k + at] };
                let right = if b_transposed { b[column * k + at] } else { b[at * n + column] };
                sum += left * right;
                size += (left * right).abs();
            }
            // Each of k additions rounds once (Higham, Accuracy and Stability, section 3.1); six products of bf16 add up
            // twice as often. The result is rounded to its own type.
            let allowed = 4.0 * (k as f64 + 1.0) * unit(wide(dtype)) * size + 2.0 * unit(of_result) * sum.abs();
            if (c[place] - sum).abs() > allowed || !c[place].is_finite() {
                return Ok(Some(format!("element ({row}, {column}) of the product is {}, not {sum}", c[place])));
            }
        }
        Ok(None)
    }
}

/// Rows of attention computed again.
fn compare_attention(
    attention: &Attention,
    sample: &Sample,
    loaded: &dyn Loaded,
    dtype: Dtype,
) -> Result<Option<String>, Error> {
    let Attention { qkv, output, batch, sequence, heads, kv_heads, head_width, causal, .. } = *attention;
    let (qkv, output) = (values(sample, loaded, qkv)?, values(sample, loaded, output)?);
    let columns = (heads + 2 * kv_heads) * head_width;
    for look in 0..LOOKS {
        let drawn = splitmix64(look);
        let (row, head) = ((drawn % (batch * sequence) as u64) as usize, (drawn >> 40) as usize % heads);
        let first = row / sequence * sequence;
        let of = |row: usize, at: usize| &qkv[row * columns + at * head_width..][..head_width];
        let group = head / (heads / kv_heads);
        let end = if causal { row + 1 } else { first + sequence };
        let score = |other: usize| {
            let dot: f64 = of(row, head).iter().zip(of(other, heads + group)).map(|(q, k)| q * k).sum();
            (dot / (head_width as f64).sqrt()).exp()
        };
        let weights: Vec<f64> = (first..end).map(score).collect();
        let all: f64 = weights.iter().sum();
        for at in 0..head_width {
            let value = |(other, weight): (usize, &f64)| weight / all * of(first + other, heads + kv_heads + group)[at];
            let wanted: f64 = weights.iter().enumerate().map(value).sum();
            let got = output[(row * heads + head) * head_width + at];
            if (got - wanted).abs() > of_attention(dtype, sequence, head_width) || !got.is_finite() {
                return Ok(Some(format!(
                    "column {at} of head {head} in row {row} of attention is {got}, not {wanted}"
                )));
            }
        }
    }
    Ok(None)
}

/// How far a result of attention may be off, of values from -1 to 1: scores are sums of `head_width` products and at most its root,
/// their exponentials carry that error, and weights and results may be rounded to the element type.
fn of_attention(dtype: Dtype, sequence: usize, head_width: usize) -> f64 {
    let (width, rows) = (head_width as f64, sequence as f64);
    4.0 * unit(dtype) + 4.0 * (width * (1.0 + width.sqrt()) + rows + 8.0) * unit(wide(dtype))
}

/// What arithmetic on a type is done in.
fn wide(dtype: Dtype) -> Dtype {
    if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 }
}

/// Half the distance from 1 to the next number of a type.
fn unit(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => f64::EPSILON / 2.0,
        Dtype::F16 => 2f64.powi(-11),
        Dtype::Bf16 => 2f64.powi(-8),
        _ => 2f64.powi(-24),
    }
}

/// All elements of a view.
fn values(sample: &Sample, loaded: &dyn Loaded, view: View) -> Result<Vec<f64>, Error> {
    let dtype = sample.program.dtype(view);
    let mut values = Vec::with_capacity(view.len);
    let see = &mut |bytes: &[u8]| {
        values.extend(bytes.chunks_exact(dtype.bytes() as usize).map(|element| contract::bits::float(dtype, element)));
    };
    // SAFETY: no call runs.
    unsafe { loaded.read(view, see) }?;
    Ok(values)
}
