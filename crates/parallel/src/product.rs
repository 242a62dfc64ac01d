//! How fast this rank's cores multiply matrices: the peak that training can come near, where the fused multiply-addition
//! of registers is one that nothing reaches.

use std::time::Instant;

use device::Region;
use engine::op::{Dense, MatMul, Op};
use engine::{Buffer, BufferId, Category, Context, Lifetime, Matmul, Memory, Scratch, Step, Threads, View};
use terms::Dtype;

use crate::TrainerError;

/// Rows, columns and depth: large enough that copying operands does not show, small enough for 20 ms on a core.
const SIDE: usize = 1024;
/// The fastest of so many counts: one in which a thread lost its core says nothing of the kernel.
const REPETITIONS: usize = 5;

/// Operations a second, a multiplication and an addition counted as two, of the engine's own product of square matrices
/// (1024 x 1024 x 1024) in this precision, f32 by `matmul`, on `threads` threads, pinned to `cores` in turn.
///
/// # Errors
/// When there is no memory, or there are no threads.
pub fn product_rate(precision: Dtype, matmul: Matmul, threads: usize, cores: &[u32]) -> Result<f64, TrainerError> {
    let len = SIDE * SIDE;
    let buffer = Buffer { category: Category::Activation, lifetime: Lifetime::Persistent, dtype: precision, len };
    let buffers = vec![buffer; 3];
    let places = buffers.iter().map(|buffer| {
        let bytes = buffer.bytes();
        Region::host(bytes).map(|region| region.whole()).map_err(|source| TrainerError::Memory { bytes, source })
    });
    let memory = Memory::new(&buffers, places.collect::<Result<_, _>>()?);
    let [a, b, c] = [0, 1, 2].map(|id| View { buffer: BufferId(id), offset: 0, len });
    let product = MatMul {
        a,
        b,
        c,
        bias: None,
        m: SIDE,
        n: SIDE,
        k: SIDE,
        a_transposed: false,
        b_transposed: false,
        accumulate: false,
        padding: [0; 3],
    };
    let op = Op::Dense(Dense::MatMul(product));
    let threads = Threads::new(threads, cores)?;
    let scratch =
        Scratch::new(threads.count(), engine::scratch_bytes(&op, precision.bytes() as usize, threads.count()));
    let step = Step { number: 1, seed: 0 };
    let context = Context { threads: threads.count(), scratch: &scratch, step, matmul };
    let mut best = f64::INFINITY;
    for _ in 0..REPETITIONS {
        let begin = Instant::now();
        // SAFETY: three buffers that do not overlap, which only this function uses.
        threads.install(|| unsafe { engine::execute(&op, &memory, &context) });
        best = best.min(begin.elapsed().as_secs_f64());
    }
    Ok(engine::flops(&op) / best)
}
