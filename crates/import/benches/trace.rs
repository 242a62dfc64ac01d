//! How long a large trace of PyTorch's profiler takes to read, and how much memory; and how long its collectives take to become
//! a plan.
//!
//! `cargo bench -p rankmark-import --bench trace [-- MEGABYTES]`
//!
//! The trace has the events of a training step with a GPU: half are small operations, a fifth are kernels,
//! and a step has forty collectives. 200 MB unless a
//! number is given. Peak memory is that of the process that reads (Linux: VmHWM).

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads its argument and prints its figures"
)]

use std::io::{BufWriter, Write};
use std::time::Instant;

fn main() {
    let megabytes = std::env::args().skip(1).find_map(|word| word.parse::<u64>().ok()).unwrap_or(200);
    let folder = tempfile::tempdir().expect("a folder for the trace");
    let path = folder.path().join("rank0.json");
    let (bytes, events) = write(&path, megabytes * 1_000_000).expect("the trace is written");
    let before = peak();
    let start = Instant::now();
    let read = import::traces::read_timeline(&[path]).expect("the trace is one of PyTorch");
    let taken = start.elapsed().as_secs_f64();
    let timeline = read.timeline.as_ref().expect("it has spans");
    println!("| size | events | spans | time | rate | peak memory | memory before |");
    println!("|---|---|---|---|---|---|---|");
    println!(
        "| {:.1} MB | {events} | {} | {taken:.2} s | {:.0} MB/s | {} | {} |",
        bytes as f64 / 1e6,
        timeline.ranks[0].spans.len(),
        bytes as f64 / 1e6 / taken,
        peak().unwrap_or_else(|| "unknown".to_owned()),
        before.unwrap_or_else(|| "unknown".to_owned()),
    );
    let start = Instant::now();
    // The checks of a case take no time that the size of a trace could change.
    let job = import::traffic::JobTraffic { name: "rank0.json", ranks: None, identity: &|text| Ok(text.to_owned()) };
    let plan = import::traffic::plan(read, &job).expect("it has collectives").plan;
    let cases = plan.text.lines().filter(|line| line.contains("- {")).count();
    println!("a plan of {cases} collectives: {:.3} s more", start.elapsed().as_secs_f64());
}

fn peak() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(format!("{:.0} MB", kib * 1024.0 / 1e6))
}

/// Writes steps until they are so many bytes.
fn write(path: &std::path::Path, wanted: u64) -> std::io::Result<(u64, u64)> {
    let mut to = Counted { to: BufWriter::new(std::fs::File::create(path)?), bytes: 0, events: 0 };
    write!(to, r#"{{"schemaVersion":1,"baseTimeNanoseconds":1700000000000000000,"traceEvents":["#)?;
    to.event("user_annotation", "warm-up", 1, 0, 1, "")?;
    for step in 0_u64.. {
        if to.bytes >= wanted {
            break;
        }
        let at = 1_000_000 * step;
        to.event("user_annotation", &format!("ProfilerStep#{step}"), 1, at, 990_000, "")?;
        to.event("cpu_op", "DistributedDataParallel.forward", 1, at + 100, 300_000, "")?;
        for layer in 0..400 {
            let time = at + 200 + 700 * layer;
            let id = format!(r#""External id": {layer},"Ev Idx": {layer},"Input Dims": [[64, 128], [128]]"#);
            to.event("cpu_op", "aten::linear", 1, time, 600, &id)?;
            to.event("cpu_op", "aten::addmm", 1, time + 100, 400, &id)?;
            to.event("cuda_runtime", "cudaLaunchKernel", 1, time + 150, 10, r#""cbid": 211, "correlation": 77"#)?;
            to.event("python_function", "torch/nn/modules/linear.py(130): forward", 1, time, 600, r#""Python id": 7"#)?;
            to.event("kernel", &kernel(layer), 7, time + 900, 500, r#""device": 0, "stream": 7, "correlation": 77"#)?;
            let backward = at + 400_000 + 700 * layer;
            to.event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 2, backward, 600, &id)?;
        }
        for call in 0..40 {
            let elements = 1 << (10 + call % 8);
            let args = format!(
                r#""Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": {elements}, "Out msg nelems": {elements}, "Group size": 8, "Process Group Name": "0", "Process Group Description": "default_pg""#
            );
            let kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
            to.event("kernel", kernel, 9, at + 410_000 + 7_000 * call, 5_000, &args)?;
        }
        to.event("user_annotation", "Optimizer.step#AdamW.step", 1, at + 800_000, 50_000, "")?;
    }
    write!(to, r#"],"traceName":"bench","distributedInfo":{{"rank":0,"world_size":8}}}}"#)?;
    to.to.flush()?;
    Ok((to.bytes, to.events))
}

fn kernel(layer: u64) -> String {
    format!("void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16_{layer}x128_32x5_nn_align8>(Params)")
}

struct Counted {
    to: BufWriter<std::fs::File>,
    bytes: u64,
    events: u64,
}

impl Counted {
    fn event(&mut self, cat: &str, name: &str, tid: u32, ts: u64, dur: u64, args: &str) -> std::io::Result<()> {
        let comma = if self.events == 0 { "" } else { "," };
        self.events += 1;
        writeln!(
            self,
            r#"{comma}{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": 4711, "tid": {tid}, "ts": {ts}.125, "dur": {dur}.500, "args": {{{args}}}}}"#
        )
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}
