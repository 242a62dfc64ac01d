//! What a GPU's tensor cores reach: the rate of a large product, by the fastest algorithm.

use std::sync::Arc;
use std::time::Instant;

use device::Region;
use device::cuda::{Event, Gpu};
use engine::cuda::{Arithmetic, Cublas, Form, Operands, ProductError, Products};
use measure::Failure;
use terms::Dtype;

use super::{Prepared, refused};

impl Prepared {
    /// Operations a second of a large product in this precision, by the fastest of cuBLAS's algorithms, at the clocks of long work; and
    /// what it was. None of a device that is a stand-in: its times say nothing.
    ///
    /// # Errors
    /// What the driver or the library says.
    pub(crate) fn product_rate(&self, precision: Dtype) -> Result<Option<(f64, String)>, Failure> {
        if self.gpu.is_emulated() {
            return Ok(None);
        }
        let Some(arithmetic) = Arithmetic::of(precision, false) else { return Ok(None) };
        let side = if precision.bytes() == 2 { WIDE } else { NARROW };
        let rate = rate(&self.gpu, &self.library, arithmetic, side).map_err(refused)?;
        Ok(Some((rate, format!("cuBLAS {}, {precision} {side} x {side} x {side}", self.library.version()))))
    }
}

/// Sides of the product whose rate is the peak: of tensor cores, and of what is slower.
const WIDE: usize = 8192;
const NARROW: usize = 4096;
/// Seconds in which a device comes to the clocks of long work.
const WARM_S: f64 = 0.3;
/// Products that are timed at once, and how often: the fastest counts.
const TIMED: usize = 5;
const REPEATED: usize = 3;

fn rate(gpu: &Arc<Gpu>, library: &Arc<Cublas>, arithmetic: Arithmetic, side: usize) -> Result<f64, ProductError> {
    let products = Products::new(gpu, library, true)?;
    let bytes = side * side * arithmetic.operand().bytes() as usize;
    let matrices = [Region::cuda(gpu, bytes)?, Region::cuda(gpu, bytes)?, Region::cuda(gpu, bytes)?];
    let [a, b, c] = &matrices.each_ref().map(|matrix| matrix.whole());
    // Bits of random numbers around one: a product of zeros needs less power, and would run at higher clocks.
    for (seed, matrix) in [(1, a), (2, b)] {
        matrix.write(&random(arithmetic.operand(), side * side, seed))?;
    }
    let form = Form::new(arithmetic, [side; 3]);
    let operands = Operands { a, b, c, bias: None, auxiliary: None };
    let multiply = || products.multiply(&form, &operands, None);
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < WARM_S {
        multiply()?;
        gpu.synchronise()?;
    }
    let (begin, end) = (Event::timed(gpu)?, Event::timed(gpu)?);
    let mut least_ns = f64::INFINITY;
    for _ in 0..REPEATED {
        begin.record()?;
        (0..TIMED).try_for_each(|_| multiply())?;
        end.record()?;
        gpu.synchronise()?;
        least_ns = least_ns.min(end.since(&begin)? / TIMED as f64);
    }
    Ok(2.0 * (side as f64).powi(3) / (least_ns * 1e-9))
}

/// Numbers in (-1, 1), in the bytes of their type.
fn random(dtype: Dtype, count: usize, seed: u64) -> Vec<u8> {
    let number = |at: usize| (terms::mix(seed << 40 ^ at as u64) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
    let mut bytes = Vec::with_capacity(count * dtype.bytes() as usize);
    for at in 0..count {
        match dtype {
            Dtype::F64 => bytes.extend(number(at).to_ne_bytes()),
            Dtype::Bf16 => bytes.extend(half::bf16::from_f64(number(at)).to_ne_bytes()),
            Dtype::F16 => bytes.extend(half::f16::from_f64(number(at)).to_ne_bytes()),
            _ => bytes.extend((number(at) as f32).to_ne_bytes()),
        }
    }
    bytes
}
