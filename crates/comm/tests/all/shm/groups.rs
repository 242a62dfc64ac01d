//! Groups as such: side by side and within each other, ranks that disagree, aborts, memory that comes and goes.

use std::sync::Arc;

use comm::{Abort, Call, Communicator, Error, Options, backend, threads};
use device::Region;
use terms::{Collective, Direction, Dtype, Reduce, Space};

use super::{Case, cases, check, read, run, shared_cores, write};

#[test]
fn groups_work_side_by_side() {
    run(6, &shared_cores(), |communicator| {
        let rank = communicator.shape().rank;
        let color = (rank != 5).then_some(rank % 2);
        let part = communicator.split(color, 100 - rank).unwrap();
        let mut part = match part {
            None => {
                assert_eq!(rank, 5);
                return;
            }
            Some(part) => part,
        };
        assert_eq!(part.shape().size, if rank % 2 == 0 { 3 } else { 2 });
        // Ordered by key, so backwards.
        assert_eq!(part.shape().rank, if rank % 2 == 0 { (4 - rank) / 2 } else { (3 - rank) / 2 });
        for about in [3, 700, 50_000] {
            for op in [Collective::AllReduce, Collective::AllGather, Collective::SendRecv] {
                let ranks = part.shape().size;
                cases(op, ranks, about).iter().for_each(|case| check(&mut *part, case));
            }
        }
        let mut inner = part.split(Some(0), rank).unwrap().unwrap();
        let ranks = inner.shape().size;
        cases(Collective::AllReduce, ranks, 10_000).iter().for_each(|case| check(&mut *inner, case));
    });
}

fn meet(communicator: &mut dyn Communicator, region: &Arc<Region>) {
    let none = region.slice(0, 0).unwrap();
    let (op, dtype, reduce) = (Collective::Barrier, Dtype::I32, Reduce::Sum);
    let (input, output, direction) = (none.clone(), none, Direction::OneWay);
    communicator.run(&Call { op, input, output, dtype, reduce, peer: 0, direction, counts: None }).unwrap();
}

/// Every rank sees every rank's part, in the numbering of its own group, and a view is not a buffer of an allocation.
#[test]
fn ranks_see_the_parts_of_their_peers() {
    run(3, &shared_cores(), |communicator| {
        let region = communicator.alloc(4096, Space::Host).unwrap();
        let rank = communicator.shape().rank;
        write(&region.whole(), Dtype::I32, 7, u64::from(rank) + 40);
        meet(communicator, &region);
        for peer in 0..3 {
            let view = communicator.peer_view(&region, peer).unwrap();
            assert_eq!((view.len(), read(&view.whole(), Dtype::I32, 7)), (4096, f64::from(peer) + 40.0));
            assert!(communicator.peer_view(&view, peer).is_none());
        }
        assert!(communicator.peer_view(&region, 3).is_none());
        assert!(communicator.peer_view(&Region::host(4096).unwrap(), 0).is_none());
        // Ranks 2 and 0, in this order.
        let mut part = communicator.split((rank != 1).then_some(0), 9 - rank).unwrap();
        if let Some(part) = &mut part {
            let first = part.peer_view(&region, 0).unwrap();
            assert_eq!(read(&first.whole(), Dtype::I32, 7), 42.0);
        }
        meet(communicator, &region);
    });
}

/// Memory of the parent is registered in a group split from it.
#[test]
fn groups_share_their_parents_memory() {
    run(3, &shared_cores(), |communicator| {
        let region = communicator.alloc(1 << 20, Space::Host).unwrap();
        let rank = communicator.shape().rank;
        let mut part = communicator.split(Some(u32::from(rank == 1)), 0).unwrap().unwrap();
        let whole = region.whole();
        let call = Call {
            op: Collective::AllReduce,
            input: whole.clone(),
            output: whole.clone(),
            dtype: Dtype::I32,
            reduce: Reduce::Sum,
            peer: 0,
            direction: Direction::OneWay,
            counts: None,
        };
        assert_eq!(part.path(&call), if rank == 1 { "local" } else { "direct" });
        (0..1 << 18).for_each(|index| write(&whole, Dtype::I32, index, u64::from(rank) + 1));
        part.run(&call).unwrap();
        assert_eq!(read(&whole, Dtype::I32, 77_777), if rank == 1 { 2.0 } else { 4.0 });
    });
}

#[test]
fn ranks_that_disagree_are_told() {
    let all_reduce = (Collective::AllReduce, Dtype::F32, Reduce::Sum, "all_reduce (f32, sum, ");
    for (sizes, (op, dtype, reduce, what)) in [
        ([4usize, 8], all_reduce),
        ([4, 1 << 20], all_reduce),
        ([1 << 20, 2 << 20], all_reduce),
        ([8, 16], (Collective::AllReduce, Dtype::U64, Reduce::Avg, "all_reduce (u64, avg, ")),
        ([8, 16], (Collective::AllToAll, Dtype::F8E5M2, Reduce::Sum, "all_to_all (f8e5m2, sum, ")),
    ] {
        let errors = run(2, &shared_cores(), |communicator| {
            let region = Region::host(sizes[communicator.shape().rank as usize]).unwrap();
            let call = Call {
                op,
                input: region.whole(),
                output: region.whole(),
                dtype,
                reduce,
                peer: 0,
                direction: Direction::OneWay,
                counts: None,
            };
            (communicator.run(&call).unwrap_err(), communicator.run(&call).unwrap_err())
        });
        for (first, again) in errors {
            assert!(matches!(&first, Error::Mismatch(text) if text.contains(what)), "{first}");
            assert!(matches!(again, Error::Mismatch(_)));
        }
    }
}

#[test]
fn an_abort_ends_every_wait() {
    for options in [Options::default(), shared_cores()] {
        let abort = Abort::default();
        let bootstraps = threads(3, &abort);
        std::thread::scope(|scope| {
            for mut bootstrap in bootstraps {
                let options = &options;
                scope.spawn(move || {
                    let (mut communicator, abort) = backend("shm").unwrap().open(&mut bootstrap, options).unwrap();
                    let region = Region::host(64).unwrap();
                    let op = [Collective::Barrier, Collective::SendRecv, Collective::Barrier]
                        [communicator.shape().rank as usize];
                    if communicator.shape().rank == 2 {
                        // The rank that never comes; each rank's abort is its own.
                        return;
                    }
                    let len = if op == Collective::Barrier { 0 } else { 64 };
                    let call = Call {
                        op,
                        input: region.slice(0, len).unwrap(),
                        output: Region::host(64).unwrap().slice(0, len).unwrap(),
                        dtype: Dtype::F32,
                        reduce: Reduce::Sum,
                        peer: 0,
                        direction: Direction::OneWay,
                        counts: None,
                    };
                    std::thread::spawn(move || {
                        std::thread::sleep(std::time::Duration::from_millis(120));
                        abort.raise();
                    });
                    assert!(matches!(communicator.run(&call), Err(Error::Aborted)));
                });
            }
        });
    }
}

#[test]
fn memory_that_is_not_there_is_refused_with_the_arithmetic() {
    run(2, &shared_cores(), |communicator| {
        let error = communicator.alloc(1 << 45, Space::Host).unwrap_err();
        assert!(matches!(&error, Error::OutOfMemory { wanted, .. } if wanted.0 >= 2 << 45), "{error}");
        // And nothing is broken by it.
        check(communicator, &Case::new(Collective::AllReduce, 4000));
    });
}

/// Regions come and go: pages at once, mappings with the next allocation.
#[test]
fn dropped_regions_are_forgotten() {
    let shared = || std::fs::read_to_string("/proc/self/maps").unwrap().matches("memfd:rankmark").count();
    run(2, &shared_cores(), |communicator| {
        for _ in 0..300 {
            drop(communicator.alloc(4096, Space::Host).unwrap());
        }
        assert!(shared() < 200, "{}", shared());
    });
}
