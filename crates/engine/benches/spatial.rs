//! How long convolutions, batch norms and pools of ResNet-50 take, layer by layer and in sum.
//!
//! `cargo bench -p rankmark-engine --bench spatial [-- [f32|bf16|f16|f64] [THREADS,...] [BATCH] [REPETITIONS]]`; each time is the
//! best of the repetitions, in CPU time for one thread and wall time for more. GFLOP/s stand behind the times, sums over the whole model (all layers of one step) at the end.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a bench reads its arguments and prints")]

use std::time::Instant;

use device::Region;
use engine::op::Spatial;
use engine::{Category, Context, Lifetime, Matmul, Memory, Op, Program, Scratch, Step, Threads, View};
use model::{Conv2d, Pool};
use terms::Dtype;

/// Convolutions of ResNet-50: inputs, outputs, kernel, stride, size of the image, how many there are.
const CONVOLUTIONS: &[(usize, usize, usize, usize, usize, usize)] = &[
    (3, 64, 7, 2, 224, 1),
    (64, 64, 1, 1, 56, 1),
    (64, 64, 3, 1, 56, 3),
    (64, 256, 1, 1, 56, 4),
    (256, 64, 1, 1, 56, 2),
    (256, 128, 1, 1, 56, 1),
    (128, 128, 3, 2, 56, 1),
    (128, 512, 1, 1, 28, 4),
    (256, 512, 1, 2, 56, 1),
    (512, 128, 1, 1, 28, 3),
    (128, 128, 3, 1, 28, 3),
    (512, 256, 1, 1, 28, 1),
    (256, 256, 3, 2, 28, 1),
    (256, 1024, 1, 1, 14, 6),
    (512, 1024, 1, 2, 28, 1),
    (1024, 256, 1, 1, 14, 5),
    (256, 256, 3, 1, 14, 5),
    (1024, 512, 1, 1, 14, 1),
    (512, 512, 3, 2, 14, 1),
    (512, 2048, 1, 1, 7, 3),
    (1024, 2048, 1, 2, 14, 1),
    (2048, 512, 1, 1, 7, 2),
    (512, 512, 3, 1, 7, 2),
];

/// Batch norms: channels, size of the image, whether a residual is added, whether ReLU follows, how many.
const NORMS: &[(usize, usize, bool, bool, usize)] = &[
    (64, 112, false, true, 1),
    (64, 56, false, true, 6),
    (256, 56, true, true, 3),
    (256, 56, false, false, 1),
    (128, 56, false, true, 1),
    (128, 28, false, true, 7),
    (512, 28, true, true, 4),
    (512, 28, false, false, 1),
    (256, 28, false, true, 1),
    (256, 14, false, true, 11),
    (1024, 14, true, true, 6),
    (1024, 14, false, false, 1),
    (512, 14, false, true, 1),
    (512, 7, false, true, 5),
    (2048, 7, true, true, 3),
    (2048, 7, false, false, 1),
];

/// Buffers of one layer.
struct Layer {
    program: Program,
    dtype: Dtype,
}

impl Layer {
    fn new(dtype: Dtype) -> Self {
        Self { program: Program::default(), dtype }
    }

    fn buffer(&mut self, dtype: Dtype, len: usize) -> View {
        self.program.buffer(Category::Activation, Lifetime::Step, dtype, len)
    }

    /// Best seconds of each operation.
    fn time(&self, operations: &[Spatial], threads: &Threads, repetitions: usize) -> Vec<f64> {
        let place =
            |buffer: &engine::Buffer| Region::host(buffer.bytes().next_multiple_of(64)).expect("memory").whole();
        let memory = Memory::new(&self.program.buffers, self.program.buffers.iter().map(place).collect());
        for (id, buffer) in (0..).zip(&self.program.buffers) {
            fill(&memory, View { buffer: engine::BufferId(id), offset: 0, len: buffer.len });
        }
        let operations: Vec<Op> = operations.iter().cloned().map(Op::Spatial).collect();
        let bytes = self.dtype.bytes() as usize;
        let scratch = operations.iter().map(|op| engine::scratch_bytes(op, bytes, threads.count())).max().unwrap_or(0);
        let scratch = Scratch::new(threads.count(), scratch);
        let step = Step { number: 1, seed: 0 };
        let context = Context { threads: threads.count(), scratch: &scratch, step, matmul: Matmul::Auto };
        let mut best = vec![f64::INFINITY; operations.len()];
        threads.install(|| {
            for _ in 0..repetitions {
                for (op, best) in operations.iter().zip(&mut best) {
                    let clock = Clock::start();
                    // SAFETY: the memory is this layer's alone, and views overlap only as operations allow.
                    unsafe { engine::execute(op, &memory, &context) };
                    *best = best.min(clock.seconds(threads.count()));
                }
            }
        });
        best
    }
}

/// When something began.
struct Clock {
    wall: Instant,
    thread: f64,
}

impl Clock {
    fn start() -> Self {
        Self { wall: Instant::now(), thread: thread_seconds() }
    }

    /// CPU seconds since then of one thread, which do not depend on who else wants the core; of several the wall's.
    fn seconds(&self, threads: usize) -> f64 {
        if threads == 1 { thread_seconds() - self.thread } else { self.wall.elapsed().as_secs_f64() }
    }
}

/// CPU seconds of this thread.
fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Small numbers that differ.
fn fill(memory: &Memory, view: View) {
    let value = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 64.0;
    // SAFETY: nobody else uses the memory.
    unsafe {
        match memory.dtype(view) {
            Dtype::F32 => memory.write::<f32>(view).iter_mut().enumerate().for_each(|(i, x)| *x = value(i)),
            Dtype::F64 => memory.write::<f64>(view).iter_mut().enumerate().for_each(|(i, x)| *x = value(i).into()),
            Dtype::Bf16 => {
                let narrow = |i| half::bf16::from_f32(value(i));
                memory.write::<half::bf16>(view).iter_mut().enumerate().for_each(|(i, x)| *x = narrow(i));
            }
            Dtype::F16 => {
                let narrow = |i| half::f16::from_f32(value(i));
                memory.write::<half::f16>(view).iter_mut().enumerate().for_each(|(i, x)| *x = narrow(i));
            }
            _ => {}
        }
    }
}

fn state(dtype: Dtype) -> Dtype {
    if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 }
}

fn convolution(shape: &Conv2d, batch: usize, dtype: Dtype) -> (Layer, Vec<Spatial>) {
    let (height, width) = shape.output();
    let mut layer = Layer::new(dtype);
    let x = layer.buffer(dtype, batch * shape.height * shape.width * shape.inputs);
    let dx = layer.buffer(dtype, x.len);
    let y = layer.buffer(dtype, batch * height * width * shape.outputs);
    let dy = layer.buffer(dtype, y.len);
    let weight = layer.buffer(dtype, shape.outputs * shape.kernel * shape.kernel * shape.inputs);
    let d_weight = layer.buffer(state(dtype), weight.len);
    let shape = shape.clone();
    let operations = vec![
        Spatial::ConvForward { shape: shape.clone(), batch, x, weight, y },
        Spatial::ConvBackwardInput { shape: shape.clone(), batch, dy, weight, dx, accumulate: false },
        Spatial::ConvBackwardWeight { shape, batch, x, dy, d_weight, accumulate: false },
    ];
    (layer, operations)
}

fn norm(channels: usize, rows: usize, residual: bool, relu: bool, dtype: Dtype) -> (Layer, Vec<Spatial>) {
    let mut layer = Layer::new(dtype);
    let [x, y, dy, other] = [0; 4].map(|_| layer.buffer(dtype, rows * channels));
    let [gain, bias] = [0; 2].map(|_| layer.buffer(dtype, channels));
    let statistics = layer.buffer(state(dtype), 2 * channels);
    let partial = layer.buffer(Dtype::F64, 2 * channels);
    let residual = residual.then_some(other);
    let operations = vec![
        Spatial::BatchNormSum { x, partial, channels },
        Spatial::BatchNormForward {
            x,
            partial,
            count: rows,
            gain,
            bias,
            residual,
            y,
            statistics,
            channels,
            epsilon: 1e-5,
            relu,
        },
        Spatial::BatchNormBackwardSum { x, y: relu.then_some(y), dy, statistics, partial, channels },
        Spatial::BatchNormBackward { x, dy, statistics, gain, partial, count: rows, dx: dy, channels },
    ];
    (layer, operations)
}

fn pools(batch: usize, dtype: Dtype) -> (Layer, Vec<Spatial>) {
    let mut layer = Layer::new(dtype);
    let shape = Pool { channels: 64, kernel: 3, stride: 2, padding: 1, height: 112, width: 112 };
    let [x, dx] = [0; 2].map(|_| layer.buffer(dtype, batch * 112 * 112 * 64));
    let [y, dy] = [0; 2].map(|_| layer.buffer(dtype, batch * 56 * 56 * 64));
    let index = layer.buffer(Dtype::I32, y.len);
    let last = Pool { channels: 2048, kernel: 7, stride: 1, padding: 0, height: 7, width: 7 };
    let [image, d_image] = [0; 2].map(|_| layer.buffer(dtype, batch * 49 * 2048));
    let [mean, d_mean] = [0; 2].map(|_| layer.buffer(dtype, batch * 2048));
    let operations = vec![
        Spatial::MaxPoolForward { shape: shape.clone(), batch, x, y, index },
        Spatial::MaxPoolBackward { shape, batch, dy, index, dx },
        Spatial::AveragePoolForward { shape: last.clone(), batch, x: image, y: mean },
        Spatial::AveragePoolBackward { shape: last, batch, dy: d_mean, dx: d_image },
    ];
    (layer, operations)
}

fn print(name: &str, count: usize, operations: &[Spatial], seconds: &[f64]) {
    let flops: Vec<f64> = operations.iter().map(|op| engine::flops(&Op::Spatial(op.clone()))).collect();
    let columns = seconds.iter().zip(&flops).map(|(seconds, flops)| {
        let rate = if *flops > 0.0 { format!(" {:5.1}", flops / seconds / 1e9) } else { String::new() };
        format!("{:8.3}{rate}", seconds * 1e3)
    });
    println!("{name:26} x{count:<2} {}", columns.collect::<Vec<_>>().join("  "));
}

fn model(dtype: Dtype, threads: usize, batch: usize, repetitions: usize) {
    let pool = Threads::new(threads, &[]).expect("threads");
    println!("{dtype}, batch {batch}, {threads} threads, best of {repetitions}; ms (GFLOP/s)");
    println!("convolution: forward, backward by input, backward by weight");
    let (mut sums, mut work) = ([0.0; 3], 0.0);
    for &(inputs, outputs, kernel, stride, size, count) in CONVOLUTIONS {
        let shape = Conv2d { inputs, outputs, kernel, stride, padding: kernel / 2, height: size, width: size };
        let (layer, mut operations) = convolution(&shape, batch, dtype);
        if inputs == 3 {
            // Nobody needs the gradient of an image.
            operations.remove(1);
        }
        let seconds = layer.time(&operations, &pool, repetitions);
        print(&format!("{inputs}-{outputs} {kernel}x{kernel}/{stride} {size}"), count, &operations, &seconds);
        sums[0] += seconds[0] * count as f64;
        sums[1] += if inputs == 3 { 0.0 } else { seconds[1] * count as f64 };
        sums[2] += seconds[seconds.len() - 1] * count as f64;
        let flops = |op: &Spatial| engine::flops(&Op::Spatial(op.clone()));
        work += count as f64 * operations.iter().map(flops).sum::<f64>();
    }
    println!("batch norm: sum, forward, backward sum, backward");
    let mut norms = [0.0; 4];
    for &(channels, size, residual, relu, count) in NORMS {
        let (layer, operations) = norm(channels, batch * size * size, residual, relu, dtype);
        let seconds = layer.time(&operations, &pool, repetitions);
        print(&format!("{channels} {size} {}", if residual { "+residual" } else { "" }), count, &operations, &seconds);
        norms.iter_mut().zip(&seconds).for_each(|(sum, seconds)| *sum += seconds * count as f64);
    }
    println!("pools: max forward, backward, average forward, backward");
    let (layer, operations) = pools(batch, dtype);
    let seconds = layer.time(&operations, &pool, repetitions);
    print("pools", 1, &operations, &seconds);
    let (convolutions, all_norms, pools) =
        (sums.iter().sum::<f64>(), norms.iter().sum::<f64>(), seconds.iter().sum::<f64>());
    println!("sums, ms: convolutions {:.1?}, batch norms {:.1?}", sums.map(|x| x * 1e3), norms.map(|x| x * 1e3));
    println!(
        "{threads} threads: convolutions {:.1} ms ({:.1} GFLOP/s), batch norms {:.1} ms, pools {:.1} ms, together {:.1} ms",
        convolutions * 1e3,
        work / convolutions / 1e9,
        all_norms * 1e3,
        pools * 1e3,
        (convolutions + all_norms + pools) * 1e3,
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let argument = |index: usize, default: &str| arguments.get(index).map_or(default.to_owned(), Clone::clone);
    let dtype: Dtype = argument(0, "f32").parse().expect("a type");
    let batch = argument(2, "4").parse().expect("a batch");
    let repetitions = argument(3, "10").parse().expect("repetitions");
    for threads in argument(1, "1,2").split(',') {
        model(dtype, threads.parse().expect("threads"), batch, repetitions);
    }
}
