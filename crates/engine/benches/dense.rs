//! How fast matrix products and attention are.
//!
//! `cargo bench -p rankmark-engine --bench dense [-- PART_OF_A_NAME ...]`; GFLOP/s are the best of several repetitions. The share of
//! the peak is the median over repetitions of the rate relative to that of multiply-adds on registers, run on one core just
//! before and after: clocks change too much here for anything else to be compared.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a bench reads its arguments and prints")]

use std::time::Instant;

use device::Region;
use engine::op::{Attention, Dense, MatMul, Op};
use engine::{Buffer, BufferId, Category, Context, Lifetime, Matmul, Memory, Scratch, Step, Threads, View};
use terms::Dtype;

/// Buffers of small numbers that differ, and a view of each.
fn memory(sizes: &[(Dtype, usize)]) -> (Memory, Vec<View>) {
    let buffer = |&(dtype, len): &(Dtype, usize)| Buffer {
        category: Category::Activation,
        lifetime: Lifetime::Persistent,
        dtype,
        len,
    };
    let buffers: Vec<Buffer> = sizes.iter().map(buffer).collect();
    let place = |buffer: &Buffer| Region::host(buffer.bytes().next_multiple_of(64)).expect("memory").whole();
    let memory = Memory::new(&buffers, buffers.iter().map(place).collect());
    let views: Vec<View> =
        (0..).zip(&buffers).map(|(id, buffer)| View { buffer: BufferId(id), offset: 0, len: buffer.len }).collect();
    for view in &views {
        fill(&memory, *view);
    }
    (memory, views)
}

fn fill(memory: &Memory, view: View) {
    let value = |i: usize| (((i * 37) & 127) as f32 - 64.0) / 64.0;
    // SAFETY: nobody else uses the memory.
    unsafe {
        match memory.dtype(view) {
            Dtype::F32 => memory.write::<f32>(view).iter_mut().enumerate().for_each(|(i, x)| *x = value(i)),
            Dtype::F64 => memory.write::<f64>(view).iter_mut().enumerate().for_each(|(i, x)| *x = value(i).into()),
            Dtype::Bf16 => {
                let half = |i| half::bf16::from_f32(value(i));
                memory.write::<half::bf16>(view).iter_mut().enumerate().for_each(|(i, x)| *x = half(i));
            }
            Dtype::F16 => {
                let half = |i| half::f16::from_f32(value(i));
                memory.write::<half::f16>(view).iter_mut().enumerate().for_each(|(i, x)| *x = half(i));
            }
            other => panic!("{other} is not a type of products"),
        }
    }
}

/// CPU seconds of this thread: what one thread takes does not depend on who else wants the core.
fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// How many GFLOP/s one core of this CPU can do in f32, by multiply-adds on registers.
#[cfg(target_arch = "x86_64")]
fn peak() -> Option<f64> {
    const ROUNDS: u64 = 20_000;
    if !is_x86_feature_detected!("avx512f") {
        return None;
    }
    let begin = thread_seconds();
    // SAFETY: the CPU has these instructions; they touch registers only.
    unsafe {
        std::arch::asm!(
            "2:",
            "vfmadd231ps zmm0, zmm30, zmm31", "vfmadd231ps zmm1, zmm30, zmm31",
            "vfmadd231ps zmm2, zmm30, zmm31", "vfmadd231ps zmm3, zmm30, zmm31",
            "vfmadd231ps zmm4, zmm30, zmm31", "vfmadd231ps zmm5, zmm30, zmm31",
            "vfmadd231ps zmm6, zmm30, zmm31", "vfmadd231ps zmm7, zmm30, zmm31",
            "vfmadd231ps zmm8, zmm30, zmm31", "vfmadd231ps zmm9, zmm30, zmm31",
            "dec {0}", "jnz 2b",
            inout(reg) ROUNDS => _,
            out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _,
            out("zmm5") _, out("zmm6") _, out("zmm7") _, out("zmm8") _, out("zmm9") _,
            options(nostack, nomem)
        );
    }
    Some(ROUNDS as f64 * 10.0 * 32.0 / (thread_seconds() - begin) * 1e-9)
}

#[cfg(not(target_arch = "x86_64"))]
fn peak() -> Option<f64> {
    None
}

/// Best rate in GFLOP/s, by CPU seconds with one thread and by the clock with more; and the median share of the peak.
fn rates(ops: &[Op], dtype: Dtype, memory: &Memory, threads: usize, repetitions: usize) -> (f64, Option<f64>) {
    let op = &ops[0];
    let pool = Threads::new(threads, &[0, 1]).expect("threads");
    let scratch = Scratch::new(threads, engine::scratch_bytes(op, dtype.bytes() as usize, threads));
    let context = Context { threads, scratch: &scratch, step: Step { number: 1, seed: 0 }, matmul: Matmul::Auto };
    let (mut best, mut shares) = (0f64, Vec::new());
    for op in ops.iter().cycle().take(repetitions) {
        let before = peak();
        let (begin, cpu) = (Instant::now(), thread_seconds());
        // SAFETY: the views of one operation are different buffers, and nobody else uses them.
        pool.install(|| unsafe { engine::execute(op, memory, &context) });
        let seconds = if threads == 1 { thread_seconds() - cpu } else { begin.elapsed().as_secs_f64() };
        let rate = engine::flops(op) / seconds * 1e-9;
        best = best.max(rate);
        shares.extend(before.zip(peak()).map(|(before, after)| rate / (threads as f64 * (before + after) / 2.0)));
    }
    shares.sort_by(f64::total_cmp);
    (best, shares.get(shares.len() / 2).copied())
}

/// Prints one line.
fn report(name: &str, ops: &[Op], dtype: Dtype, memory: &Memory, repetitions: usize) {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let name = format!("{name} {dtype}");
    if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
        return;
    }
    let columns = [1, 2].map(|threads| {
        let (best, share) = rates(ops, dtype, memory, threads, repetitions);
        format!("{best:>8.1} {}", share.map_or(String::new(), |share| format!("{:>5.1}%", 100.0 * share)))
    });
    println!("{name:<58} {}", columns.join(" "));
}

/// `name m n k`, transposition of a and of b, accumulated in S.
type Product = (&'static str, usize, usize, usize, bool, bool, bool, bool);

const PRODUCTS: [Product; 20] = [
    ("hot strip", 2016, 32, 256, false, false, false, false),
    ("hot tall", 2016, 256, 256, false, false, false, false),
    ("hot tall add", 2016, 256, 256, false, false, true, false),
    ("hot forward", 252, 256, 256, false, true, false, false),
    ("hot input", 252, 256, 256, false, false, false, false),
    ("qkv forward", 2048, 2304, 768, false, true, false, true),
    ("projection forward", 2048, 768, 768, false, true, false, true),
    ("mlp up forward", 2048, 3072, 768, false, true, false, true),
    ("mlp down forward", 2048, 768, 3072, false, true, false, true),
    ("mlp up input", 2048, 768, 3072, false, false, false, false),
    ("mlp down input", 2048, 3072, 768, false, false, false, false),
    ("mlp up weight", 3072, 768, 2048, true, false, true, false),
    ("mlp down weight", 768, 3072, 2048, true, false, true, false),
    ("256 mlp up forward", 256, 3072, 768, false, true, false, true),
    ("256 mlp down forward", 256, 768, 3072, false, true, false, true),
    ("256 mlp up input", 256, 768, 3072, false, false, false, false),
    ("256 mlp up weight", 3072, 768, 256, true, false, false, false),
    ("256 head forward", 256, 50257, 768, false, true, false, false),
    ("256 head input", 256, 768, 50257, false, false, false, false),
    ("256 head weight", 50257, 768, 256, true, false, true, false),
];

fn product(dtype: Dtype, &(name, m, n, k, a_transposed, b_transposed, accumulate, bias): &Product) {
    let wide = if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
    // Weights, or their gradients, come from memory: there are so many of a model that none is in a cache when it is used.
    // Small ones stay in the caches: what the kernels reach without memory.
    let copies = if (n * k).max(m * n) > 16 << 20 {
        2
    } else if k * n < 1 << 17 {
        1
    } else {
        10
    };
    let result = if accumulate { wide } else { dtype };
    let mut sizes = vec![(dtype, m * k), (dtype, n)];
    for _ in 0..copies {
        sizes.extend([(dtype, k * n), (result, m * n)]);
    }
    let (memory, views) = memory(&sizes);
    let op = |pair: &[View]| {
        Op::Dense(Dense::MatMul(MatMul {
            a: views[0],
            b: pair[0],
            c: pair[1],
            bias: bias.then_some(views[1]),
            m,
            n,
            k,
            a_transposed,
            b_transposed,
            accumulate,
            padding: [0; 3],
        }))
    };
    let ops: Vec<Op> = views[2..].chunks(2).map(op).collect();
    report(&format!("{name} {m}x{n}x{k}"), &ops, dtype, &memory, if copies == 1 { 2000 } else { 8 * copies.max(6) });
}

fn attention(dtype: Dtype, batch: usize, sequence: usize, causal: bool) {
    let (heads, head_width) = (12, 64);
    let wide = if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
    let (rows, width) = (batch * sequence, heads * head_width);
    let (memory, views) = memory(&[
        (dtype, rows * 3 * width),
        (dtype, rows * width),
        (wide, rows * heads),
        (dtype, rows * width),
        (dtype, rows * 3 * width),
    ]);
    let forward = Attention {
        qkv: views[0],
        output: views[1],
        log_sum: views[2],
        batch,
        sequence,
        heads,
        kv_heads: heads,
        head_width,
        causal,
    };
    let name = format!("{}x{}x{}x{} {}", batch, sequence, heads, head_width, if causal { "causal" } else { "full" });
    report(
        &format!("attention forward {name}"),
        &[Op::Dense(Dense::AttentionForward(forward.clone()))],
        dtype,
        &memory,
        12,
    );
    let backward = Dense::AttentionBackward { forward, d_output: views[3], d_qkv: views[4] };
    report(&format!("attention backward {name}"), &[Op::Dense(backward)], dtype, &memory, 12);
}

fn main() {
    println!("{:<58} {:>15} {:>15}", "best GFLOP/s, median share of the f32 peak", "1 thread", "2 threads");
    for dtype in [Dtype::F32, Dtype::Bf16] {
        PRODUCTS.iter().for_each(|shape| product(dtype, shape));
        attention(dtype, 4, 512, true);
        attention(dtype, 4, 128, false);
        attention(dtype, 1, 256, true);
    }
}
