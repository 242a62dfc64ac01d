//! Calls that make no sense are refused on the rank that makes them, before anything starts, and the ranks stay in step.

use std::sync::Arc;
use std::time::Duration;

use comm::{Call, Communicator, Counts, Error};
use device::{Queue, Region, Slice};
use terms::{Collective, Direction, Dtype, Reduce};

use crate::conformance::Runner;
use crate::worlds::{self, WRAPPINGS};

const LIMIT: Duration = Duration::from_secs(20);

fn call(op: Collective, input: Slice, output: Slice) -> Call {
    let (dtype, reduce, direction) = (Dtype::F32, Reduce::Sum, Direction::OneWay);
    Call { op, input, output, dtype, reduce, peer: 0, direction, counts: None }
}

/// Calls that are wrong on every rank of `ranks` > 1, each for another reason.
fn nonsense(region: &Arc<Region>, ranks: u32) -> Vec<(&'static str, Call)> {
    use Collective::{AllGather, AllReduce, AllToAll, AllToAllV, Broadcast, PingPong, Reduce, ReduceScatter, SendRecv};
    let part = |offset: usize, len: usize| region.slice(offset, len).expect("inside");
    let (n, far) = (ranks as usize, 32 << 10);
    let counts = |ranks: u32| Some(Arc::new(Counts::new(ranks, vec![1; (ranks * ranks) as usize]).expect("square")));
    let whole = part(0, 64);
    vec![
        ("another length", call(AllReduce, part(0, 64), part(far, 60))),
        ("half an element", call(AllReduce, part(0, 62), part(far, 62))),
        ("not aligned", call(AllReduce, part(2, 64), part(far, 64))),
        ("a sum of what only moves", Call { dtype: Dtype::F8E4M3, ..call(AllReduce, whole.clone(), whole.clone()) }),
        ("a maximum of what only moves", Call { dtype: Dtype::F8E5M2, ..call(Reduce, whole.clone(), part(far, 64)) }),
        ("no such root", Call { peer: ranks, ..call(Broadcast, whole.clone(), whole.clone()) }),
        ("no such root", Call { peer: u32::MAX, ..call(Reduce, whole.clone(), whole.clone()) }),
        ("partly overlapping", call(AllReduce, part(0, 64), part(32, 64))),
        ("overlapping another way", call(AllGather, part(4, 8), part(0, 8 * n))),
        ("too few blocks", call(ReduceScatter, part(0, 4 * n), part(far, 8))),
        ("blocks that do not divide", call(AllToAll, part(0, 4 * n + 4), part(far, 4 * n + 4))),
        ("no counts", call(AllToAllV, whole.clone(), part(far, 64))),
        ("counts of others", Call { counts: counts(ranks + 1), ..call(AllToAllV, part(0, 4 * n), part(far, 4 * n)) }),
        ("in place", Call { counts: counts(ranks), ..call(AllToAllV, part(0, 4 * n), part(0, 4 * n)) }),
        ("in place", call(SendRecv, whole.clone(), whole.clone())),
        ("an odd half", Call { direction: Direction::BothWays, ..call(SendRecv, part(0, 4), part(far, 4)) }),
        ("with itself", call(PingPong, part(0, 4), part(far, 4))),
    ]
}

#[test]
fn nonsense_is_refused_and_the_ranks_stay_in_step() {
    for backend in worlds::ready() {
        for wrapping in WRAPPINGS {
            worlds::run_wrapped(backend, 3, wrapping, LIMIT, |member| {
                let comm = &mut *member.comm;
                let mut runner = Runner::new(comm);
                let region = Region::host(64 << 10).expect("memory");
                for (index, (why, wrong)) in nonsense(&region, 3).into_iter().enumerate() {
                    // Some ranks stumble and the others do not: those must not notice.
                    if index % 2 == 0 || comm.shape().rank == 1 {
                        let context = format!("{backend} {wrapping:?} {why}: {wrong:?}");
                        refused(comm.run(&wrong), &context);
                        refused_as_a_whole(comm, &region, &wrong, &context);
                    }
                    runner.batch(comm, index as u64, &format!("{backend} {wrapping:?} after refusing {why}"));
                }
            });
        }
    }
}

fn refused<T>(result: comm::Result<T>, context: &str) {
    match result {
        Err(Error::InvalidCall(_)) => {}
        Err(error) => panic!("{error}: {context}"),
        Ok(_) => panic!("was accepted: {context}"),
    }
}

/// A good call in front of the wrong one does not run, either.
fn refused_as_a_whole(comm: &mut dyn Communicator, region: &Arc<Region>, wrong: &Call, context: &str) {
    let (input, output) = (region.slice(4096, 4), region.slice(8192, 4));
    let (input, output) = (input.expect("inside"), output.expect("inside"));
    // SAFETY: inside the region, and nothing is in flight.
    unsafe {
        input.ptr().cast::<f32>().write(1.0);
        output.ptr().cast::<f32>().write(-7.0);
    }
    let good = call(Collective::AllReduce, input, output.clone());
    refused(comm.start(&[good, wrong.clone()], &Queue::host()), context);
    // SAFETY: as above.
    assert_eq!(unsafe { output.ptr().cast::<f32>().read() }, -7.0, "{context}");
}
