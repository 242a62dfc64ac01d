//! Every operation, type and operator, in place and out of place, registered and private, on threads of this process,
//! against a model that knows only the table of `layout`.

mod groups;
mod kernels;
mod streams;

use std::sync::Arc;

use comm::internals::{Cross, RING, RankEnd, world};
use comm::{Abort, Call, Communicator, Counts, Error, Options, extents, threads};
use device::{Region, Slice};
use terms::{Collective, Direction, Dtype, Named, Reduce, Space};

/// Opens a group of threads and runs `body` in each; returns what each returned, in rank order.
pub(super) fn run<T: Send>(ranks: u32, options: &Options, body: impl Fn(&mut dyn Communicator) -> T + Sync) -> Vec<T> {
    run_groups(ranks, options, |group| body(group))
}

/// Opens a group of threads and runs `body` in each with its [`RankEnd`]: for what only a group knows.
pub(super) fn run_groups<T: Send>(ranks: u32, options: &Options, body: impl Fn(&mut RankEnd) -> T + Sync) -> Vec<T> {
    let abort = Abort::default();
    let (bootstraps, body, abort) = (threads(ranks, &abort), &body, &abort);
    std::thread::scope(|scope| {
        let handles: Vec<_> = bootstraps
            .into_iter()
            .map(|mut bootstrap| {
                scope.spawn(move || {
                    let _guard = EndsPeers(abort.clone());
                    body(&mut world(&mut bootstrap, options, abort).unwrap())
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}

/// Ends the peers of a rank that failed its test: they would wait for it for ever.
struct EndsPeers(Abort);

impl Drop for EndsPeers {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.raise();
        }
    }
}

fn shared_cores() -> Options {
    Options { oversubscribed: true, ..Options::default() }
}

/// Element `index` of `rank`'s input: a small integer, so that all sums and products of few ranks are exact.
fn value(rank: u32, index: u64) -> u64 {
    (u64::from(rank) * 3 + index * 7 + index / 16) % 4 + 1
}

fn write(slice: &Slice, dtype: Dtype, index: u64, value: u64) {
    let at = slice.ptr().wrapping_add((index * dtype.bytes()) as usize);
    // SAFETY: callers stay inside the slice, which no peer touches outside an operation.
    unsafe {
        match dtype {
            Dtype::F32 => at.cast::<f32>().write_unaligned(value as f32),
            Dtype::F64 => at.cast::<f64>().write_unaligned(value as f64),
            Dtype::F16 => at.cast::<half::f16>().write_unaligned(half::f16::from_f32(value as f32)),
            Dtype::Bf16 => at.cast::<half::bf16>().write_unaligned(half::bf16::from_f32(value as f32)),
            Dtype::I32 | Dtype::U32 => at.cast::<u32>().write_unaligned(value as u32),
            Dtype::I64 | Dtype::U64 => at.cast::<u64>().write_unaligned(value),
            Dtype::I8 | Dtype::U8 | Dtype::F8E4M3 | Dtype::F8E5M2 => at.write(value as u8),
        }
    }
}

fn read(slice: &Slice, dtype: Dtype, index: u64) -> f64 {
    let at = slice.ptr().wrapping_add((index * dtype.bytes()) as usize);
    // SAFETY: as in `write`.
    unsafe {
        match dtype {
            Dtype::F32 => f64::from(at.cast::<f32>().read_unaligned()),
            Dtype::F64 => at.cast::<f64>().read_unaligned(),
            Dtype::F16 => at.cast::<half::f16>().read_unaligned().to_f64(),
            Dtype::Bf16 => at.cast::<half::bf16>().read_unaligned().to_f64(),
            Dtype::I8 => f64::from(at.cast::<i8>().read()),
            Dtype::I32 => f64::from(at.cast::<i32>().read_unaligned()),
            Dtype::I64 => at.cast::<i64>().read_unaligned() as f64,
            Dtype::U8 | Dtype::F8E4M3 | Dtype::F8E5M2 => f64::from(at.read()),
            Dtype::U32 => f64::from(at.cast::<u32>().read_unaligned()),
            Dtype::U64 => at.cast::<u64>().read_unaligned() as f64,
        }
    }
}

/// One call of the model: everything but the buffers.
#[derive(Clone, Debug)]
struct Case {
    op: Collective,
    dtype: Dtype,
    reduce: Reduce,
    count: u64,
    peer: u32,
    direction: Direction,
    counts: Option<Arc<Counts>>,
    in_place: bool,
    registered: bool,
}

impl Case {
    fn new(op: Collective, count: u64) -> Self {
        Self {
            op,
            dtype: Dtype::F32,
            reduce: Reduce::Sum,
            count,
            peer: 0,
            direction: Direction::OneWay,
            counts: None,
            in_place: false,
            registered: true,
        }
    }

    /// The reduction of one element over all ranks.
    fn reduced(&self, ranks: u32, index: u64) -> f64 {
        let values = (0..ranks).map(|rank| value(rank, index));
        let exact = match self.reduce {
            Reduce::Sum | Reduce::Avg => values.sum::<u64>(),
            Reduce::Prod => values.product(),
            Reduce::Min => values.min().unwrap(),
            Reduce::Max => values.max().unwrap(),
        };
        let avg = self.reduce == Reduce::Avg;
        let mean = |all: u64| all as f64 / f64::from(ranks);
        match self.dtype {
            Dtype::U8 => f64::from(if avg { exact as u8 / ranks as u8 } else { exact as u8 }),
            Dtype::I8 => f64::from(if avg { exact as i8 / ranks as i8 } else { exact as i8 }),
            Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => {
                (if avg { exact / u64::from(ranks) } else { exact }) as f64
            }
            Dtype::F8E4M3 | Dtype::F8E5M2 => unreachable!("{} is not reduced", self.dtype),
            Dtype::F64 => {
                if avg {
                    mean(exact)
                } else {
                    exact as f64
                }
            }
            Dtype::F32 => {
                if avg {
                    f64::from(exact as f32 / ranks as f32)
                } else {
                    f64::from(exact as f32)
                }
            }
            Dtype::F16 => half::f16::from_f32(if avg { exact as f32 / ranks as f32 } else { exact as f32 }).to_f64(),
            Dtype::Bf16 => half::bf16::from_f32(if avg { exact as f32 / ranks as f32 } else { exact as f32 }).to_f64(),
        }
    }

    /// What element `index` of `rank`'s output must be.
    fn expected(&self, rank: u32, ranks: u32, index: u64) -> f64 {
        let block = (self.count / u64::from(ranks)).max(1);
        let own = u64::from(rank);
        match self.op {
            Collective::AllReduce | Collective::Reduce => self.reduced(ranks, index),
            Collective::ReduceScatter => self.reduced(ranks, own * block + index),
            Collective::Broadcast => value(self.peer, index) as f64,
            Collective::AllGather | Collective::Gather => value((index / block) as u32, index % block) as f64,
            Collective::Scatter => value(self.peer, own * block + index) as f64,
            Collective::AllToAll => value((index / block) as u32, own * block + index % block) as f64,
            Collective::AllToAllV => {
                let counts = self.counts.as_ref().unwrap();
                let from = (0..ranks)
                    .rev()
                    .find(|from| counts.receive_offset(*from, rank) <= index && counts.get(*from, rank) > 0);
                let from = from.unwrap();
                value(from, counts.send_offset(from, rank) + index - counts.receive_offset(from, rank)) as f64
            }
            Collective::SendRecv if self.direction == Direction::BothWays && index >= self.count / 2 => {
                value((rank + 1) % ranks, index) as f64
            }
            Collective::SendRecv => value((rank + ranks - 1) % ranks, index) as f64,
            Collective::PingPong => value(if rank == 0 { self.peer } else { 0 }, index) as f64,
            Collective::Barrier => 0.0,
        }
    }
}

/// Makes the buffers of a case, runs it twice, checks every element.
fn check(communicator: &mut dyn Communicator, case: &Case) {
    let (rank, ranks) = (communicator.shape().rank, communicator.shape().size);
    let size = case.dtype.bytes() as usize;
    let extent = |rank| extents(case.op, case.count, rank, ranks, case.peer, case.counts.as_deref());
    let own = extent(rank);
    // Every rank allocates the same, and a little more, so that slices begin in the middle.
    let largest = (0..ranks).map(|rank| extent(rank).input.max(extent(rank).output)).max().unwrap() as usize * size;
    let shift = 3 * size * usize::from(case.count % 2 == 1);
    let mut region = || {
        let bytes = largest + shift;
        if case.registered { communicator.alloc(bytes, Space::Host).unwrap() } else { Region::host(bytes).unwrap() }
    };
    let (first, second) = (region(), region());
    let slice =
        |region: &Arc<Region>, offset: usize, len: u64| region.slice(shift + offset, len as usize * size).unwrap();
    let own_block = rank as usize * (case.count / u64::from(ranks)) as usize * size;
    let (input, output) = if !case.in_place {
        (slice(&first, 0, own.input), slice(&second, 0, own.output))
    } else {
        match case.op {
            Collective::AllGather | Collective::Gather if own.output > 0 => {
                (slice(&first, own_block, own.input), slice(&first, 0, own.output))
            }
            Collective::ReduceScatter | Collective::Scatter if own.input > 0 => {
                (slice(&first, 0, own.input), slice(&first, own_block, own.output))
            }
            _ => (slice(&first, 0, own.input), slice(&first, 0, own.output)),
        }
    };
    let (op, dtype, reduce, peer, direction) = (case.op, case.dtype, case.reduce, case.peer, case.direction);
    let call = Call { op, input, output, dtype, reduce, peer, direction, counts: case.counts.clone() };
    // The second turn finds what the first left in slots and headers; of long messages the chunks do that.
    for turn in 0..if case.count > 100_000 { 1 } else { 2 } {
        for index in 0..own.output {
            write(&call.output, dtype, index, 99);
        }
        for index in 0..own.input {
            write(&call.input, dtype, index, value(rank, index));
        }
        communicator.run(&call).unwrap();
        for index in 0..own.output {
            if op == Collective::PingPong && rank != 0 && rank != peer {
                break;
            }
            let (got, want) = (read(&call.output, dtype, index), case.expected(rank, ranks, index));
            // The path is looked up only for the message: that takes longer than comparing an element.
            assert!(
                got == want,
                "{case:?} {} turn {turn}: rank {rank}/{ranks} [{index}] = {got}, not {want}",
                communicator.path(&call)
            );
        }
    }
}

fn can_be_in_place(op: Collective) -> bool {
    !matches!(op, Collective::AllToAllV | Collective::SendRecv | Collective::PingPong | Collective::Barrier)
}

/// All layouts of an operation at about this many elements.
fn cases(op: Collective, ranks: u32, about: u64) -> Vec<Case> {
    let step = if op.size_counts_all_ranks() { u64::from(ranks) } else { 2 };
    let base = Case::new(op, (about / step).max(1) * step);
    let mut all = Vec::new();
    for registered in [true, false] {
        for in_place in [false, true] {
            if in_place && !can_be_in_place(op) {
                continue;
            }
            let case = Case { registered, in_place, ..base.clone() };
            if op == Collective::AllToAllV {
                let n = u64::from(ranks);
                let count = |pair: u64| (pair * 5 + about) % (2 * about / n + 2) * u64::from(pair % 4 != 3);
                let counts = Counts::new(ranks, (0..n * n).map(count).collect()).map(Arc::new);
                all.push(Case { counts, ..case });
            } else if op.has_root() {
                all.extend([0, ranks - 1].map(|peer| Case { peer, ..case.clone() }));
            } else if op == Collective::PingPong {
                all.push(Case { peer: ranks - 1, ..case });
            } else if op == Collective::SendRecv {
                all.extend(
                    [Direction::OneWay, Direction::BothWays].map(|direction| Case { direction, ..case.clone() }),
                );
            } else {
                all.push(case);
            }
        }
    }
    all
}

#[test]
fn every_operation_at_every_size_of_group() {
    for ranks in 1..=8 {
        run(ranks, &shared_cores(), |communicator| {
            for op in Collective::ALL {
                // Inline, in a slot, and beyond every eager limit.
                for about in [1, 9, 700, 5000, 40_000] {
                    cases(*op, ranks, about).iter().for_each(|case| check(communicator, case));
                }
            }
        });
    }
}

/// Two ranks with a core each, as if their cores were near each other and as if they were not: other slots, other paths.
#[test]
fn near_and_far_cores() {
    for near in [true, false] {
        let measured = run_groups(2, &Options::default(), |group| {
            let measured = group.set_near(near);
            // Within the flag's line, in the ring's slots and in large ones, and what only far cores leave to the kernel.
            for about in [9, 200, 700, 5_000, 9_000, 40_000] {
                for op in Collective::ALL {
                    cases(*op, 2, about).iter().for_each(|case| check(group, case));
                }
            }
            let private = Region::host(128 << 10).unwrap();
            let slice = |offset, len| private.slice(offset, len).unwrap();
            let (input, output) = (slice(64 << 10, 32 << 10), slice(0, 64 << 10));
            let (op, dtype, reduce) = (Collective::AllGather, Dtype::F32, Reduce::Sum);
            let call = Call { op, input, output, dtype, reduce, peer: 0, direction: Direction::OneWay, counts: None };
            let path = group.cross.is_some().then(|| group.path(&call));
            (measured, path)
        });
        assert_eq!(measured[0].0, measured[1].0, "both are told the same");
        let path = if near { "eager" } else { "cross" };
        assert!(measured.iter().all(|(_, own)| own.is_none_or(|own| own == path)), "{measured:?}");
    }
}

/// Ranks that share cores leave to the kernel what has huge pages, and the rest to slots.
#[test]
fn private_buffers_go_by_their_pages() {
    let paths_of_ranks = run_groups(3, &shared_cores(), |group| {
        let processes = vec![std::process::id() as i32; 3];
        [true, false].map(|huge| {
            group.cross = Some(Cross::new(processes.clone(), huge));
            // 4 bytes, 2 MiB and 8 bytes less.
            [4, 2 << 20, (2 << 20) - 8].map(|bytes| {
                let whole = Region::host(bytes).unwrap().whole();
                [Collective::AllReduce, Collective::SendRecv].map(|op| {
                    let (dtype, reduce, direction) = (Dtype::F32, Reduce::Sum, Direction::OneWay);
                    let (input, output) = (whole.clone(), whole.clone());
                    group.path(&Call { op, input, output, dtype, reduce, peer: 0, direction, counts: None })
                })
            })
        })
    });
    let short = ["eager"; 2];
    let right = [[short, ["cross"; 2], ["staged"; 2]], [short, ["staged"; 2], ["staged"; 2]]];
    assert!(paths_of_ranks.iter().all(|paths| *paths == right), "{paths_of_ranks:?}");
}

/// Ranks learn only in the first round that others are in place where they are not; before and after it all do the same.
#[test]
fn some_in_place_and_some_not() {
    for (ranks, options) in [(2, Options::default()), (3, shared_cores())] {
        run_groups(ranks, &options, |communicator| {
            // Where the kernel copies from small sizes on.
            communicator.set_near(false);
            let rank = communicator.shape().rank;
            for op in Collective::ALL.iter().filter(|op| can_be_in_place(**op)) {
                // Up to and beyond what private buffers publish at once and what the kernel copies.
                for about in [9, 700, 5_000, 9_000, 20_000, 40_000, 700_000] {
                    for in_place in [rank == 0, rank != 0] {
                        let base = |case: &&Case| !case.in_place;
                        cases(*op, ranks, about)
                            .iter()
                            .filter(base)
                            .for_each(|case| check(communicator, &Case { in_place, ..case.clone() }));
                    }
                }
            }
        });
    }
}

/// Peers may see what is half done: nothing after it may let them go on as if it were whole.
#[test]
fn nothing_runs_after_an_operation_that_failed_halfway() {
    let errors = run_groups(2, &Options::default(), |group| {
        // Where the system forbids this path, no operation takes it.
        group.cross.as_ref()?;
        group.set_near(false);
        let own = std::process::id() as i32;
        // The kernel knows no such process: copies fail in the middle of the operation, on both ranks.
        group.cross = Some(Cross::new(vec![i32::MAX; 2], true));
        let private = Region::host(256 << 10).unwrap();
        let slice = |offset, len| private.slice(offset, len).unwrap();
        let call = |op, input, output| Call {
            op,
            input,
            output,
            dtype: Dtype::F32,
            reduce: Reduce::Sum,
            peer: 0,
            direction: Direction::OneWay,
            counts: None,
        };
        let gather = call(Collective::AllGather, slice(128 << 10, 64 << 10), slice(0, 128 << 10));
        assert_eq!(group.path(&gather), "cross");
        let first = group.run(&gather).unwrap_err();
        group.cross = Some(Cross::new(vec![own; 2], true));
        let barrier = call(Collective::Barrier, slice(0, 0), slice(0, 0));
        let [again, meet] = [gather, barrier].map(|call| group.run(&call).unwrap_err());
        let allocated = group.alloc(64, Space::Host).unwrap_err();
        Some((first, [again, meet, allocated, group.split(Some(0), 0).map(drop).unwrap_err()]))
    });
    for (first, later) in errors.into_iter().flatten() {
        assert!(matches!(first, Error::PeerGone(_)), "{first}");
        for error in later {
            assert!(matches!(&error, Error::Mismatch(text) if text.contains("failed halfway")), "{error}");
        }
    }
}

#[test]
fn several_chunks_on_every_path() {
    for (ranks, crosses) in [(2, true), (3, true), (2, false), (3, false)] {
        run_groups(ranks, &shared_cores(), |group| {
            // Else by slots, whatever the system allows.
            group.cross = group.cross.take().filter(|_| crosses);
            for op in Collective::ALL {
                cases(*op, ranks, 700_001).iter().for_each(|case| check(group, case));
            }
        });
    }
}

#[test]
fn every_type_and_operator() {
    for ranks in [2, 3] {
        run(ranks, &shared_cores(), |communicator| {
            for dtype in Dtype::ALL {
                for reduce in Reduce::ALL.iter().filter(|_| dtype.reduces()) {
                    for op in [Collective::AllReduce, Collective::Reduce, Collective::ReduceScatter] {
                        for about in [5, 300, 9001] {
                            for case in cases(op, ranks, about) {
                                check(communicator, &Case { dtype: *dtype, reduce: *reduce, ..case });
                            }
                        }
                    }
                }
                for op in Collective::ALL.iter().filter(|op| !op.reduces()) {
                    cases(*op, ranks, 333)
                        .into_iter()
                        .for_each(|case| check(communicator, &Case { dtype: *dtype, ..case }));
                }
            }
        });
    }
}

#[test]
fn sixty_four_ranks() {
    run(64, &shared_cores(), |communicator| {
        for op in [Collective::AllReduce, Collective::AllToAll, Collective::SendRecv, Collective::Barrier] {
            cases(op, 64, 12_800).iter().filter(|case| !case.in_place).for_each(|case| check(communicator, case));
        }
    });
}

/// Mappings grow with the ranks and not with their square: each rank maps one file for a group and one for each allocation,
/// and so do the ranks of a part of it.
#[test]
fn all_areas_of_a_group_lie_in_one_mapping() {
    let one = |group: &RankEnd| {
        let all = group.mappings();
        all.len() == group.shape().size as usize && all.iter().all(|mapping| *mapping == all[0])
    };
    let seen = run_groups(12, &shared_cores(), |group| {
        let part = group.part(Some(group.shape().rank % 2), 0).unwrap().unwrap();
        (one(group), one(&part), group.mappings()[0] == part.mappings()[0])
    });
    assert_eq!(seen, [(true, true, false); 12]);
}

/// Ranks that are threads of one core's binding, or of none, are a crowd: they use tiny, small and large slots, those of
/// every place.
#[test]
fn many_ranks_on_a_core_give_the_same_results() {
    let sums = run(20, &shared_cores(), |comm| {
        let region = comm.alloc(256 << 10, Space::Host).unwrap();
        let rank = comm.shape().rank;
        [8, 4096, 4100, 8192, 256 << 10].map(|bytes| {
            let slice = region.slice(0, bytes).unwrap();
            (0..RING as u64 + 1).all(|call| {
                (0..bytes as u64 / 4).for_each(|index| write(&slice, Dtype::F32, index, value(rank, index + call)));
                let (op, dtype, reduce) = (Collective::AllReduce, Dtype::F32, Reduce::Sum);
                let (input, output, direction) = (slice.clone(), slice.clone(), Direction::OneWay);
                comm.run(&Call { op, input, output, dtype, reduce, peer: 0, direction, counts: None }).unwrap();
                let expected = |index: u64| (0..20).map(|rank| value(rank, index + call)).sum::<u64>() as f64;
                (0..bytes as u64 / 4).step_by(31).all(|index| read(&slice, Dtype::F32, index) == expected(index))
            })
        })
    });
    assert_eq!(sums, [[true; 5]; 20]);
}
