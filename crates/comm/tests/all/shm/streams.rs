//! Operations back to back, with nothing between them that would let ranks meet: who only gives runs ahead of its peers, and
//! uses its buffers again at once.

use std::time::Duration;

use comm::internals::{AHEAD, RING};
use comm::{Abort, Call, Communicator, Error, Options, backend, threads};
use device::{Region, Slice};
use terms::{Collective, Direction, Dtype, Reduce, Space};

use super::{run, run_groups};

/// Bytes: in the header, in small slots, in large ones, a small slot full, and too long for eager rounds.
const LENGTHS: [usize; 8] = [8, 40, 512, 4 << 10, 8 << 10, 40 << 10, 64 << 10, 96 << 10];
const OPERATIONS: [Collective; 8] = [
    Collective::Broadcast,
    Collective::Scatter,
    Collective::Gather,
    Collective::Reduce,
    Collective::AllReduce,
    Collective::AllGather,
    Collective::AllToAll,
    Collective::Barrier,
];

/// Pseudo-random numbers, the same on all ranks that draw from one seed (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        (terms::next_splitmix64(&mut self.0) % limit as u64) as usize
    }
}

/// Word `index` of `rank`'s input in a step.
fn word(step: usize, rank: usize, index: usize) -> i64 {
    terms::mix(((step as u64) << 40) ^ ((rank as u64) << 32) ^ index as u64) as i64
}

/// Word `index` of `rank`'s output, if each piece is `piece` words.
fn expected(op: Collective, step: usize, root: usize, at: (usize, usize), piece: usize, index: usize) -> i64 {
    let (rank, ranks) = at;
    match op {
        Collective::Broadcast => word(step, root, index),
        Collective::Scatter => word(step, root, rank * piece + index),
        Collective::Gather | Collective::AllGather => word(step, index / piece, index % piece),
        Collective::AllToAll => word(step, index / piece, rank * piece + index % piece),
        _ => (0..ranks).fold(0, |sum, from| sum.wrapping_add(word(step, from, index))),
    }
}

fn call(op: Collective, root: usize, input: Slice, output: Slice) -> Call {
    let (dtype, reduce, direction) = (Dtype::I64, Reduce::Sum, Direction::OneWay);
    Call { op, input, output, dtype, reduce, peer: root as u32, direction, counts: None }
}

/// One step: its input is written, and garbage is written over it as soon as the call returns.
fn step(
    communicator: &mut dyn Communicator,
    buffers: &[Slice; 2],
    step: usize,
    op: Collective,
    root: usize,
    len: usize,
) {
    let (rank, ranks) = (communicator.shape().rank as usize, communicator.shape().size as usize);
    let (one, all, own) = (len / 8, ranks * len / 8, rank == root);
    let (input, output) = match op {
        Collective::Barrier => (0, 0),
        Collective::Broadcast => (if own { one } else { 0 }, one),
        Collective::Scatter => (if own { all } else { 0 }, one),
        Collective::Gather => (one, if own { all } else { 0 }),
        Collective::Reduce => (one, if own { one } else { 0 }),
        Collective::AllGather => (one, all),
        Collective::AllToAll => (all, all),
        _ => (one, one),
    };
    let part = |slice: &Slice, words: usize| slice.region().slice(slice.offset(), words * 8).unwrap();
    let (from, to) = (part(&buffers[0], input), part(&buffers[1], output));
    let (source, result) = (from.ptr().cast::<i64>(), to.ptr().cast::<i64>());
    // SAFETY: inside this rank's buffers, which no peer touches outside of an operation.
    (0..input).for_each(|index| unsafe { source.add(index).write_unaligned(word(step, rank, index)) });
    communicator.run(&call(op, root, from, to)).unwrap();
    for index in 0..input {
        // SAFETY: as above.
        unsafe { source.add(index).write_unaligned(-1) };
    }
    for index in 0..output {
        // SAFETY: as above.
        let got = unsafe { result.add(index).read_unaligned() };
        let want = expected(op, step, root, (rank, ranks), one, index);
        assert!(got == want, "step {step}, {op} from or to {root}, {len} bytes, rank {rank}/{ranks}: word {index}");
    }
}

fn buffers(communicator: &mut dyn Communicator, registered: bool) -> [Slice; 2] {
    let bytes = LENGTHS[LENGTHS.len() - 1] * communicator.shape().size as usize;
    [(); 2].map(|()| {
        let own = || Region::host(bytes).unwrap();
        let region = if registered { communicator.alloc(bytes, Space::Host).unwrap() } else { own() };
        region.whole()
    })
}

/// Runs of one operation, as loops have them, with other roots, lengths, memories and groups between; each rank is late now
/// and then.
#[test]
fn any_mixture_back_to_back() {
    for ranks in [2, 3, 5] {
        for oversubscribed in [true, false] {
            mixture(ranks, oversubscribed, false);
        }
    }
    mixture(2, false, true);
}

/// `near`: as if the cores of two ranks were near each other, which they may be or not.
fn mixture(ranks: u32, oversubscribed: bool, near: bool) {
    run_groups(ranks, &Options { oversubscribed, ..Options::default() }, |world| {
        world.set_near(near);
        let rank = world.shape().rank;
        let mut part = world.split(Some(rank / 2), 0).unwrap().unwrap();
        let memories = [buffers(world, false), buffers(world, true)];
        let (mut shared, mut own) = (Draw(7 + u64::from(ranks)), Draw(u64::from(rank) << 32));
        for turn in 0..150 {
            let op = OPERATIONS[shared.below(OPERATIONS.len())];
            let (root, len) = (shared.below(ranks as usize), LENGTHS[shared.below(LENGTHS.len())]);
            let (memory, in_part) = (&memories[shared.below(2)], shared.below(5) == 0);
            for again in 0..[1, 2, 2 * RING][shared.below(3)] {
                match own.below(40) {
                    0 => std::thread::sleep(Duration::from_micros(200)),
                    1..4 => std::thread::yield_now(),
                    _ => {}
                }
                let number = turn * 100 + again;
                if in_part {
                    let root = root % part.shape().size as usize;
                    step(&mut *part, memory, number, op, root, len);
                } else {
                    step(world, memory, number, op, root, len);
                }
            }
        }
    });
}

/// A root returns while nobody reads, as often as it has slots; then it waits, and an abort ends that.
#[test]
fn who_gives_goes_on_until_its_slots_are_full() {
    for oversubscribed in [true, false] {
        let options = &Options { oversubscribed, ..Options::default() };
        std::thread::scope(|scope| {
            for mut bootstrap in threads(2, &Abort::default()) {
                scope.spawn(move || {
                    let (mut communicator, abort) = backend("shm").unwrap().open(&mut bootstrap, options).unwrap();
                    if communicator.shape().rank == 1 {
                        // Never reads.
                        return;
                    }
                    let memory = Region::host(2048).unwrap();
                    let (input, output) = (memory.slice(0, 1024).unwrap(), memory.slice(1024, 1024).unwrap());
                    let call = call(Collective::Broadcast, 0, input, output);
                    (0..AHEAD).for_each(|_| communicator.run(&call).unwrap());
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_millis(50));
                        abort.raise();
                    });
                    assert!(matches!(communicator.run(&call), Err(Error::Aborted)));
                });
            }
        });
    }
}

/// A peer waits in another operation: the root that went on gets the error at its next call that waits.
#[test]
fn who_went_on_is_told_of_a_mismatch() {
    let errors = run(2, &Options { oversubscribed: true, ..Options::default() }, |communicator| {
        let memory = Region::host(2048).unwrap();
        let part = |at: usize| memory.slice(at, 1024).unwrap();
        let op = [Collective::Broadcast, Collective::AllReduce][communicator.shape().rank as usize];
        let barrier = call(Collective::Barrier, 0, memory.slice(0, 0).unwrap(), memory.slice(0, 0).unwrap());
        let first = communicator.run(&call(op, 0, part(0), part(1024)));
        first.and_then(|()| communicator.run(&barrier)).unwrap_err()
    });
    for error in errors {
        assert!(matches!(&error, Error::Mismatch(text) if text.contains("calls broadcast (i64")), "{error}");
    }
}
