//! How fast the `shm` backend is, against loops over memory with the same reads and writes and no synchronisation.
//!
//! Ranks are processes, pinned to cores. What is compared is interleaved inside one run; figures are medians with
//! their 95% intervals (order statistics), ratios are medians of the ratios of neighbours in time.
//!
//! `cargo bench -p rankmark-comm --bench shm [-- latency|small|middle|rooted|reduce|operations|private|ranks|overhead ...]`

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a bench reads its arguments and prints")]

mod limit;
mod ranks;
mod table;

use std::sync::Arc;
use std::time::Instant;

use comm::{Call, Communicator, Counts};
use device::{Region, Slice};
use terms::{Bytes, Collective, Direction, Dtype, Reduce, Seconds, Space};

use limit::Shape;
use table::{Row, Series};

/// One thing to time: runs a number of times on this rank.
type Runner<'a> = Box<dyn FnMut(&mut dyn Communicator, u32) + 'a>;

/// What a section compares.
struct Contestant<'a> {
    name: String,
    run: Runner<'a>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match ranks::role(&arguments) {
        ranks::Role::Rank { bootstrap, sections } => rank(bootstrap, &sections),
        ranks::Role::Start { sections } => {
            let all = ["latency", "small", "middle", "rooted", "reduce", "operations", "private", "overhead", "ranks"]
                .map(str::to_owned)
                .to_vec();
            let sections = if sections.is_empty() { all } else { sections };
            println!("cores {}", ranks::cores());
            for size in [2, 4, 6] {
                let has = |name: &str| match name {
                    "ranks" => size > 2,
                    "small" | "middle" => true,
                    "rooted" => size < 6,
                    _ => size == 2,
                };
                let own: Vec<String> = sections.iter().filter(|name| has(name)).cloned().collect();
                if !own.is_empty() {
                    ranks::start(size, &own);
                }
            }
        }
    }
}

/// What every rank process does.
fn rank(mut bootstrap: ranks::Local, sections: &[String]) {
    let oversubscribed = bootstrap.size() > ranks::cores();
    let options = comm::Options { oversubscribed, ..comm::Options::default() };
    let began = Instant::now();
    let (mut communicator, _) = comm::open("shm", &mut bootstrap, &options).expect("open");
    let opened = began.elapsed();
    let communicator = &mut *communicator;
    for section in sections {
        match section.as_str() {
            "latency" => latency(communicator),
            "reduce" => reduce(communicator),
            "operations" => operations(communicator),
            "private" => private(communicator),
            "rooted" => rooted(communicator),
            "small" => peers(communicator, &[1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10]),
            "middle" => peers(communicator, &[2 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20]),
            "ranks" => more_ranks(communicator),
            "overhead" if communicator.shape().rank == 0 => {
                println!("\nopening took {:.1} ms; memory of this rank: {}", opened.as_secs_f64() * 1e3, memory());
            }
            "overhead" => {}
            other => panic!("unknown section {other}"),
        }
    }
}

/// Resident memory of this process, shared pages included.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("RssShmem"));
    lines.map(|line| line.replace([' ', '\t'], "")).collect::<Vec<_>>().join(" ")
}

/// Interleaves the contestants; all ranks start each together, and its time is the slowest rank's.
fn compare(
    communicator: &mut dyn Communicator,
    mut contestants: Vec<Contestant>,
    calls: u32,
    turns: usize,
) -> Vec<Series> {
    let exchange = communicator.alloc(128, Space::Host).expect("alloc");
    let mut series: Vec<Series> = contestants.iter().map(|c| Series::new(&c.name)).collect();
    for turn in 0..turns + 2 {
        for (contestant, series) in contestants.iter_mut().zip(&mut series) {
            slowest(communicator, &exchange, 0.0);
            let began = Instant::now();
            (contestant.run)(communicator, calls);
            let time = began.elapsed().as_secs_f64() / f64::from(calls);
            let time = slowest(communicator, &exchange, time);
            if turn >= 2 {
                series.push(time);
            }
        }
    }
    series
}

fn slowest(communicator: &mut dyn Communicator, exchange: &Arc<Region>, time: f64) -> f64 {
    let slice = exchange.slice(0, 8).expect("slice");
    // SAFETY: this rank's own memory, outside any operation; eager calls copy it.
    unsafe { slice.ptr().cast::<f64>().write(time) };
    let call = Call { dtype: Dtype::F64, reduce: Reduce::Max, ..call(Collective::AllReduce, &slice, &slice) };
    communicator.run(&call).expect("all_reduce");
    // SAFETY: as above.
    unsafe { slice.ptr().cast::<f64>().read() }
}

fn call(op: Collective, input: &Slice, output: &Slice) -> Call {
    Call {
        op,
        input: input.clone(),
        output: output.clone(),
        dtype: Dtype::F32,
        reduce: Reduce::Sum,
        peer: 0,
        direction: Direction::OneWay,
        counts: None,
    }
}

fn runs(name: impl Into<String>, call: Call) -> Contestant<'static> {
    let run = move |communicator: &mut dyn Communicator, calls: u32| {
        for _ in 0..calls {
            communicator.run(&call).expect("run");
        }
    };
    Contestant { name: name.into(), run: Box::new(run) }
}

/// The loop on memory of this rank's own: `shape` says what it reads and writes.
fn limit(name: &str, region: &Arc<Region>, shape: Shape, past_caches: bool) -> Contestant<'static> {
    let region = region.clone();
    let run = move |_: &mut dyn Communicator, calls: u32| {
        for _ in 0..calls {
            limit::pass(&region, shape, past_caches);
        }
    };
    Contestant { name: name.to_owned(), run: Box::new(run) }
}

fn calls_for(bytes: usize) -> u32 {
    match bytes {
        0..=4096 => 2000,
        4097..=131_072 => 300,
        131_073..=2_097_152 => 20,
        _ => 1,
    }
}

fn print(communicator: &dyn Communicator, rows: &[Row]) {
    if communicator.shape().rank == 0 {
        table::print(rows);
    }
}

/// Small messages, and the barrier for comparison.
fn latency(communicator: &mut dyn Communicator) {
    let region = communicator.alloc(1 << 20, Space::Host).expect("alloc");
    let private = Region::host(1 << 20).expect("host");
    let none = region.slice(0, 0).expect("slice");
    let mut contestants = vec![runs("barrier", call(Collective::Barrier, &none, &none))];
    for bytes in [4, 64, 256, 1024, 2048, 4096, 16_384] {
        for (kind, region) in [("registered", &region), ("private", &private)] {
            let slice = region.slice(0, bytes).expect("slice");
            let name = format!("all_reduce {} {kind}", Bytes(bytes as u64));
            contestants.push(runs(name, call(Collective::AllReduce, &slice, &slice)));
        }
    }
    let (input, output) = (region.slice(0, 8).expect("slice"), region.slice(4096, 8).expect("slice"));
    contestants.push(runs("ping_pong 8 (both ways)", Call { peer: 1, ..call(Collective::PingPong, &input, &output) }));
    contestants.push(runs("send_recv 8", call(Collective::SendRecv, &input, &output)));
    let series = compare(communicator, contestants, 1000, 25);
    let rows: Vec<Row> = series.iter().map(|s| Row::ratio("latency, against the barrier", s, &series[0])).collect();
    print(communicator, &rows);
}

/// The operations of `examples/peers.yaml`, in place where they have such a form: sizes that are all latency, and sizes that some
/// caches hold.
fn peers(communicator: &mut dyn Communicator, sizes: &[usize]) {
    use Collective as C;
    let ranks = communicator.shape().size as usize;
    let own = communicator.shape().rank as usize;
    let most = sizes.iter().max().copied().unwrap_or(0);
    let region = communicator.alloc(most, Space::Host).expect("alloc");
    let mut contestants = Vec::new();
    for op in [C::AllReduce, C::AllGather, C::ReduceScatter, C::AllToAll, C::Broadcast] {
        for bytes in sizes {
            let block = bytes / ranks / 4 * 4;
            let whole = region.slice(0, block * ranks).expect("slice");
            let piece = region.slice(block * own, block).expect("slice");
            let (input, output) = match op {
                C::AllGather => (&piece, &whole),
                C::ReduceScatter => (&whole, &piece),
                _ => (&whole, &whole),
            };
            contestants.push(runs(format!("{op} {}", Bytes(*bytes as u64)), call(op, input, output)));
        }
    }
    let series = compare(communicator, contestants, ((256 << 20) / most).min(200) as u32, 25);
    let title = format!("{ranks} ranks, in place, registered");
    let rows: Vec<Row> = series.iter().map(|series| Row::plain(&title, series)).collect();
    print(communicator, &rows);
}

/// Operations with a root, back to back: some ranks only give, and need not wait for the receiver. Others for comparison.
fn rooted(communicator: &mut dyn Communicator) {
    use Collective as C;
    let ranks = communicator.shape().size as usize;
    let (registered, private) = (communicator.alloc(1 << 18, Space::Host).expect("alloc"), Region::host(1 << 18));
    let root = communicator.shape().rank == 0;
    let mut rows = Vec::new();
    for (kind, region) in [("registered", registered), ("private", private.expect("host"))] {
        for op in [C::Broadcast, C::Scatter, C::Gather, C::Reduce, C::AllReduce, C::AllGather] {
            for bytes in [64usize, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 64 << 10] {
                let block = bytes / ranks;
                let (input, output) = match op {
                    C::Broadcast => (if root { bytes } else { 0 }, bytes),
                    C::Scatter => (if root { bytes } else { 0 }, block),
                    C::Gather => (block, if root { bytes } else { 0 }),
                    C::Reduce => (bytes, if root { bytes } else { 0 }),
                    C::AllGather => (block, bytes),
                    _ => (bytes, bytes),
                };
                let input = region.slice(0, input).expect("slice");
                let output = region.slice(1 << 17, output).expect("slice");
                let contestants = vec![runs(format!("{op} {}", Bytes(bytes as u64)), call(op, &input, &output))];
                let series = compare(communicator, contestants, calls_for(bytes).min(500), 15);
                rows.push(Row::plain(&format!("{ranks} ranks, out of place, {kind}"), &series[0]));
            }
        }
    }
    print(communicator, &rows);
}

/// In-place all-reduce in registered memory against the same fused loop without synchronisation.
fn reduce(communicator: &mut dyn Communicator) {
    let mut rows = Vec::new();
    for shift in [10, 16, 20, 24, 26, 28] {
        let bytes = 1usize << shift;
        let region = communicator.alloc(bytes, Space::Host).expect("alloc");
        let own = communicator.alloc(Shape::in_place(2, bytes / 2).bytes(), Space::Host).expect("alloc");
        let slice = region.whole();
        let contestants = vec![
            runs(format!("all_reduce {}", Bytes(bytes as u64)), call(Collective::AllReduce, &slice, &slice)),
            limit("loop", &own, Shape::in_place(2, bytes / 2), false),
        ];
        let turns = if shift > 24 { 15 } else { 25 };
        let series = compare(communicator, contestants, calls_for(bytes), turns);
        rows.push(Row::limit("in place, registered, against the loop", &series[0], &series[1..]));
    }
    print(communicator, &rows);
}

/// Private buffers against registered ones.
fn private(communicator: &mut dyn Communicator) {
    let mut rows = Vec::new();
    for shift in [16, 20, 24, 26, 28] {
        let bytes = 1usize << shift;
        let region = communicator.alloc(bytes, Space::Host).expect("alloc").whole();
        let own = Region::host(bytes).expect("host").whole();
        let calls = calls_for(bytes);
        let private = call(Collective::AllReduce, &own, &own);
        let path = communicator.path(&private);
        let contestants = vec![
            runs(format!("private {} ({path})", Bytes(bytes as u64)), private),
            runs("registered", call(Collective::AllReduce, &region, &region)),
        ];
        let series = compare(communicator, contestants, calls, if shift > 24 { 11 } else { 21 });
        rows.push(Row::limit("all_reduce in private buffers, against registered", &series[0], &series[1..]));
    }
    print(communicator, &rows);
}

/// Every other operation out of place in registered memory, against its own reads and writes.
fn operations(communicator: &mut dyn Communicator) {
    let mut rows = Vec::new();
    let ranks = u64::from(communicator.shape().size);
    for bytes in [16usize << 20, 128 << 20] {
        let (input, output) = (communicator.alloc(bytes, Space::Host), communicator.alloc(bytes, Space::Host));
        let (input, output) = (input.expect("alloc"), output.expect("alloc"));
        let own = communicator.alloc(Shape::copy(2, bytes).bytes(), Space::Host).expect("alloc");
        let (whole, half) = (bytes, bytes / 2);
        use Collective as C;
        let shapes = [
            (C::AllReduce, Shape::out_of_place(2, 2, half)),
            (C::Reduce, Shape::out_of_place(2, 1, half)),
            (C::ReduceScatter, Shape::out_of_place(2, 1, half)),
            (C::Broadcast, Shape::copy(2, half)),
            (C::AllGather, Shape::copy(2, half)),
            (C::Gather, Shape::copy(1, half)),
            (C::Scatter, Shape::copy(1, half)),
            (C::AllToAll, Shape::copy(1, whole)),
            (C::AllToAllV, Shape::copy(1, whole)),
            (C::SendRecv, Shape::copy(1, whole)),
            (C::PingPong, Shape::copy(1, whole)),
        ];
        for (op, shape) in shapes {
            let count = bytes as u64 / 4;
            let counts = (op == C::AllToAllV).then(|| {
                Arc::new(Counts::new(ranks as u32, vec![count / ranks; (ranks * ranks) as usize]).expect("counts"))
            });
            let peer = u32::from(op == C::PingPong);
            let own_rank = communicator.shape().rank;
            let extent = comm::extents(op, count, own_rank, ranks as u32, peer, counts.as_deref());
            let slice = |region: &Arc<Region>, elements: u64| region.slice(0, elements as usize * 4).expect("slice");
            let call = call(op, &slice(&input, extent.input), &slice(&output, extent.output));
            let call = Call { peer, counts, ..call };
            let mut contestants = vec![runs(format!("{op} {}", Bytes(bytes as u64)), call)];
            for (name, past_caches) in [("loop", false), ("loop past caches", true)] {
                // A ping_pong is one copy after the other, each by one rank.
                let mut contestant = limit(name, &own, shape, past_caches);
                if op == C::PingPong {
                    let mut inner = contestant.run;
                    let double = move |c: &mut dyn Communicator, n: u32| {
                        if c.shape().rank == 0 {
                            inner(c, 2 * n)
                        }
                    };
                    contestant.run = Box::new(double);
                }
                contestants.push(contestant);
            }
            let series = compare(communicator, contestants, 1, 15);
            rows.push(Row::limit("out of place, registered, against the better loop", &series[0], &series[1..]));
        }
    }
    print(communicator, &rows);
}

/// More ranks than cores.
fn more_ranks(communicator: &mut dyn Communicator) {
    let mut rows = Vec::new();
    let ranks = communicator.shape().size;
    let none = Region::host(1).expect("host").slice(0, 0).expect("slice");
    let barrier = compare(communicator, vec![runs("barrier", call(Collective::Barrier, &none, &none))], 1000, 11);
    rows.push(Row::plain(&format!("{ranks} ranks, in place, registered"), &barrier[0]));
    for shift in [10, 16, 20, 24, 26] {
        let bytes = 1usize << shift;
        let region = communicator.alloc(bytes, Space::Host).expect("alloc").whole();
        let name = format!("all_reduce {}", Bytes(bytes as u64));
        let contestants = vec![runs(name, call(Collective::AllReduce, &region, &region))];
        let series = compare(communicator, contestants, calls_for(bytes), 11);
        rows.push(Row::plain(&format!("{ranks} ranks, in place, registered"), &series[0]));
    }
    for shift in [20, 24] {
        let bytes = 1usize << shift;
        let own = Region::host(bytes).expect("host").whole();
        let private = call(Collective::AllReduce, &own, &own);
        let name = format!("all_reduce {} ({})", Bytes(bytes as u64), communicator.path(&private));
        let series = compare(communicator, vec![runs(name, private)], calls_for(bytes), 11);
        rows.push(Row::plain(&format!("{ranks} ranks, in place, private"), &series[0]));
    }
    print(communicator, &rows);
}

/// For the table.
fn seconds(time: f64) -> String {
    Seconds(time).to_string()
}
