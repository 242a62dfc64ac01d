//! What the primitive `compute_only` adds to the bare product: pairs of bursts of both, in turn, of the same shape on one
//! thread.
//!
//! `cargo bench -p rankmark-primitive --bench product`; times are CPU times of the thread, which do not depend on who else wants
//! the core. It fails where an interval shows more than 3 %.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use std::sync::Arc;

use comm::{Abort, Options};
use contract::{Benchmark, Joining, RankContext};
use device::Region;
use engine::op::{Dense, MatMul, Op};
use engine::{Buffer, BufferId, Category, Context, Lifetime, Matmul, Memory, Scratch, Step, Threads, View};
use terms::Dtype;
use trace::{Hook, OwnSlot};

const PAIRS: usize = 20;
/// CPU seconds of a burst.
const BURST: f64 = 0.1;
const MOST: f64 = 1.03;
const SHAPES: [(usize, usize, usize); 4] = [(256, 64, 256), (4096, 64, 1024), (512, 512, 512), (1024, 1024, 1024)];

fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// CPU seconds of one call, of so many.
fn burst(calls: usize, mut call: impl FnMut()) -> f64 {
    let begin = thread_seconds();
    (0..calls).for_each(|_| call());
    (thread_seconds() - begin) / calls as f64
}

/// A rank of its own world.
fn context() -> RankContext {
    let mut bootstrap = comm::threads(1, &Abort::default()).remove(0);
    let options = Options::default();
    let (comm, abort) = comm::open("shm", &mut bootstrap, &options).expect("the backend opens");
    let clock = comm.clock();
    let hook = Arc::new(Hook::new(0, clock.clone(), Arc::new(OwnSlot::default())));
    RankContext {
        rank: 0,
        ranks: 1,
        host: String::new(),
        comm,
        hook,
        clock,
        abort,
        options,
        index: 0,
        cores: Vec::new(),
        joining: Joining::default(),
    }
}

/// The bare product, in memory of its own.
fn bare((m, n, k): (usize, usize, usize)) -> impl FnMut() {
    let sizes = [m * k, k * n, m * n];
    let buffers = sizes.map(|len| Buffer {
        category: Category::Activation,
        lifetime: Lifetime::Persistent,
        dtype: Dtype::F32,
        len,
    });
    let place = |len: usize| Region::host(len * 4).expect("memory").whole();
    let memory = Memory::new(&buffers, sizes.map(place).to_vec());
    let view = |id: u32, len: usize| View { buffer: BufferId(id), offset: 0, len };
    for (id, len) in [(0, m * k), (1, k * n)] {
        // SAFETY: nobody else uses the memory.
        unsafe { memory.write::<f32>(view(id, len)) }
            .iter_mut()
            .enumerate()
            .for_each(|(i, x)| *x = (i % 13) as f32 - 6.0);
    }
    let op = Op::Dense(Dense::MatMul(MatMul {
        a: view(0, m * k),
        b: view(1, k * n),
        c: view(2, m * n),
        bias: None,
        m,
        n,
        k,
        a_transposed: false,
        b_transposed: false,
        accumulate: false,
        padding: [0; 3],
    }));
    let threads = Threads::new(1, &[]).expect("a thread");
    let scratch = Scratch::new(1, engine::scratch_bytes(&op, 4, 1));
    move || {
        let step = Step { number: 1, seed: 0 };
        let context = Context { threads: 1, scratch: &scratch, step, matmul: Matmul::Auto };
        // SAFETY: the memory is this call's alone.
        threads.install(|| unsafe { engine::execute(&op, &memory, &context) });
    }
}

/// Times of the primitive over those of the bare product, of pairs in turn.
fn ratios(shape: (usize, usize, usize)) -> Vec<f64> {
    let (m, n, k) = shape;
    let text = format!(
        "experiment: bench\ncases:\n  - {{benchmark: primitive, m: {m}, n: {n}, k: {k}, ranks: 1, threads: 1, \
         implementation: 'compute_only:size=unsharded'}}\n"
    );
    let plan = record::plan::read(&text, "bench.yaml", &[primitive::PrimitiveBenchmark.about()], &[]);
    let case = plan.unwrap_or_else(|errors| panic!("{errors}")).cases.remove(0);
    let mut context = context();
    let parsed = primitive::PrimitiveBenchmark.parse(&case).unwrap_or_else(|failure| panic!("{failure:?}"));
    let mut prepared = parsed.prepare(&mut context).unwrap_or_else(|failure| panic!("{failure:?}"));
    let comm = &mut *context.comm;
    let mut ours = || prepared.run(comm).unwrap_or_else(|failure| panic!("{failure:?}"));
    let mut bare = bare(shape);
    ours();
    bare();
    let calls = (BURST / burst(2, &mut bare)).ceil() as usize;
    let pair = |number: usize| {
        // Who is first changes from pair to pair.
        let early = number.is_multiple_of(2).then(|| burst(calls, &mut ours));
        let theirs = burst(calls, &mut bare);
        early.unwrap_or_else(|| burst(calls, &mut ours)) / theirs
    };
    (0..PAIRS).map(pair).collect()
}

fn main() {
    let mut failed = false;
    println!("| m | n | k | pairs | `compute_only` / product | 95% interval |");
    println!("|---|---|---|---|---|---|");
    for shape @ (m, n, k) in SHAPES {
        let ratios = ratios(shape);
        let [low, high] = stats::sign_interval(&ratios).expect("an interval of 20 pairs");
        println!("| {m} | {n} | {k} | {PAIRS} | {:.3} | {low:.3} to {high:.3} |", stats::median(&ratios));
        failed |= low > MOST;
    }
    assert!(!failed, "compute_only takes more than 3 % longer than the bare product");
}
