//! How long a long log of nccl-tests takes to read, and how much memory.
//!
//! `cargo bench -p rankmark-import --bench log [-- MEGABYTES]`
//!
//! The log holds many runs of one sweep from 8 B to 8 GiB on 8 ranks; 100 MB unless a number is given. Peak memory is that of the
//! process, with the log itself (Linux: VmHWM).

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads its argument and prints its figures"
)]

use std::fmt::Write;
use std::time::Instant;

use import::{Content, Source};

fn main() {
    let megabytes = std::env::args().skip(1).find_map(|word| word.parse::<usize>().ok()).unwrap_or(100);
    let log = log(megabytes * 1_000_000);
    let (bytes, rows) = (log.len(), log.lines().filter(|line| !line.starts_with('#')).count());
    let start = Instant::now();
    let source = Source::new("sweep.log", log.into_bytes()).expect("the log is text");
    let made = start.elapsed();
    let found = import::read(&source, None).expect("the log is one of nccl-tests");
    let taken = start.elapsed();
    let Content::Results(results) = found.content else { unreachable!("nccl-tests has results") };
    let figures: usize = results.iter().flat_map(|results| results.shapes()).map(|(_, figures)| figures.len()).sum();
    assert_eq!(figures, 2 * rows);
    println!("| size | lines of results | time | of it SHA-256 and UTF-8 | peak memory |");
    println!("|---|---|---|---|---|");
    println!(
        "| {:.1} MB | {rows} | {:.2} s | {:.2} s | {} |",
        bytes as f64 / 1e6,
        taken.as_secs_f64(),
        made.as_secs_f64(),
        peak().unwrap_or_else(|| "unknown".to_owned())
    );
}

fn peak() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(format!("{:.0} MB", kib * 1024.0 / 1e6))
}

/// Runs of a sweep, until they are so many bytes.
fn log(bytes: usize) -> String {
    let mut log = String::with_capacity(bytes + (1 << 16));
    let mut run = 0_u64;
    while log.len() < bytes {
        log.push_str("# nccl-tests version 2.19.4 nccl-headers=21903 nccl-library=21903\n# Collective test starting: all_reduce_perf\n");
        log.push_str("# nThread 1 nGpus 8 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n");
        for rank in 0..8 {
            let _ = writeln!(
                log,
                "#  Rank {rank:2} Group  0 Pid 584419 on     node-a device {rank:2} [0000:14:00] NVIDIA A100-SXM4-80GB"
            );
        }
        log.push_str("#\n#       size         count      type   re\u{64}op    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong \n");
        for power in 3..=33 {
            let size = 1_u64 << power;
            let time = 34.0 + size as f64 / 103_610.0 + (run % 97) as f64 * 0.01;
            let rate = size as f64 / time / 1e3;
            let bus = rate * 1.75;
            let time = if time < 1e4 { format!("{time:.2}") } else { format!("{time:.0}") };
            let half = format!("  {time:>7}  {rate:>6.2}  {bus:>6.2}       0");
            let _ = writeln!(log, "{size:>12}  {:>12}     float     sum      -1{half}{half}", size / 4);
        }
        log.push_str("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 34.9024 \n#\n# Collective test concluded: all_reduce_perf\n#\n");
        run += 1;
    }
    log
}
