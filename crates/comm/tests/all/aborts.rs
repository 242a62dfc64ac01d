//! Raising a rank's abort ends whatever that rank waits in, for every operation, backend, wrapper and way to wait.

use std::time::{Duration, Instant};

use comm::{Call, Communicator, Error, Result, Wait};
use device::{Event, Queue, Region};
use terms::{Collective, Direction, Dtype, Named, Reduce};

use crate::worlds::{self, WRAPPINGS, Wrapping};

const LIMIT: Duration = Duration::from_secs(20);
/// After the abort was raised, on a machine that may be busy.
const PROMPTLY: Duration = Duration::from_secs(2);

/// A call of rank 0 of two that cannot be complete before rank 1 joins it.
fn waiting(op: Collective) -> Option<Call> {
    let bytes = 64 << 10;
    let region = Region::host(4 * bytes).expect("memory");
    let part = |at: usize, len: usize| region.slice(at * bytes, len).expect("inside");
    let (whole, block) = (bytes, bytes / 2);
    let (input, output, peer) = match op {
        Collective::AllReduce | Collective::AllToAll | Collective::SendRecv => (whole, whole, 0),
        Collective::Reduce => (whole, whole, 0),
        Collective::Broadcast => (0, whole, 1),
        Collective::AllGather | Collective::Gather => (block, whole, 0),
        Collective::ReduceScatter => (whole, block, 0),
        Collective::Scatter => (0, block, 1),
        Collective::PingPong => (whole, whole, 1),
        Collective::Barrier => (0, 0, 0),
        // Waits as all_to_all does, which is here.
        Collective::AllToAllV => return None,
    };
    let (dtype, reduce, direction) = (Dtype::F32, Reduce::Sum, Direction::OneWay);
    Some(Call { op, input: part(0, input), output: part(2, output), dtype, reduce, peer, direction, counts: None })
}

/// Rank 0 does `waits` while rank 1 stays away; it must come back as aborted.
fn ends(
    backend: &str,
    wrapping: Wrapping,
    context: &str,
    waits: &(dyn Fn(&mut dyn Communicator) -> Result<()> + Sync),
) {
    worlds::run_wrapped(backend, 2, wrapping, LIMIT, |member| {
        if member.rank() == 0 {
            let abort = member.abort.clone();
            let raiser = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(3));
                let now = Instant::now();
                abort.raise();
                now
            });
            let result = waits(&mut *member.comm);
            let raised = raiser.join().expect("the raiser");
            let took = raised.elapsed();
            assert!(matches!(result, Err(Error::Aborted)), "{result:?}: {context}");
            assert!(took < PROMPTLY, "{took:?}: {context}");
            // And from now on nothing waits at all.
            let barrier = waiting(Collective::Barrier).expect("a barrier");
            assert!(matches!(member.comm.run(&barrier), Err(Error::Aborted)), "{context}");
        }
        member.meet();
    });
}

#[test]
fn every_operation_ends() {
    for backend in worlds::ready() {
        for wrapping in WRAPPINGS {
            for call in Collective::ALL.iter().filter_map(|op| waiting(*op)) {
                let context = format!("{backend} {wrapping:?} {}", call.op);
                ends(backend, wrapping, &context, &|comm| comm.run(&call));
            }
        }
    }
}

#[test]
fn every_way_to_wait_ends() {
    let call = waiting(Collective::AllReduce).expect("an all_reduce");
    for backend in worlds::ready() {
        for wrapping in WRAPPINGS {
            let check = |how: &str, waits: &(dyn Fn(&mut dyn Communicator) -> Result<()> + Sync)| {
                ends(backend, wrapping, &format!("{backend} {wrapping:?} {how}"), waits);
            };
            check("split", &|comm| comm.split(Some(0), 0).map(drop));
            check("poll", &|comm| {
                let mut ticket = comm.start(std::slice::from_ref(&call), &Queue::host())?;
                while !comm.finish(&mut ticket, Wait::Poll)? {}
                panic!("complete without rank 1");
            });
            check("on a queue", &|comm| {
                let queue = Queue::simulated();
                let mut ticket = comm.start(std::slice::from_ref(&call), &queue)?;
                comm.finish(&mut ticket, Wait::On(&queue))?;
                // The queue goes on, so that its owner can get the error.
                queue.synchronise();
                comm.run(&call)
            });
            check("after a queue that is stuck", &|comm| {
                let (queue, gate) = (Queue::simulated(), Event::pending());
                queue.wait(&gate);
                let result = comm.start(std::slice::from_ref(&call), &queue);
                let result = result.and_then(|mut ticket| comm.finish(&mut ticket, Wait::Host).map(drop));
                gate.set();
                result
            });
        }
    }
}
