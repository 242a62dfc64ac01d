//! The progress thread: work proceeds while the caller does something else, and what goes wrong there comes back.

use std::time::Duration;

use comm::{Call, Error, Options, Progress, Wait};
use device::{Event, Queue};
use terms::{Collective, Dtype};

use crate::simulated::all_reduce;
use crate::worlds::{self, Wrapping};

const LIMIT: Duration = Duration::from_secs(20);

fn options() -> Options {
    Wrapping::Threaded.options(2)
}

fn barrier() -> Call {
    Call { op: Collective::Barrier, ..all_reduce(0) }
}

#[test]
fn start_returns_and_work_proceeds_without_the_caller() {
    worlds::run("reference", 2, &options(), LIMIT, |member| {
        assert_eq!(member.comm.shape().capabilities.progress, Progress::Thread);
        if member.rank() == 0 {
            // Returns although rank 1 has not come.
            let mut ticket = member.comm.start(&[barrier()], &Queue::host()).unwrap();
            assert!(!member.comm.finish(&mut ticket, Wait::Poll).unwrap());
            member.meet();
            // Rank 1 completes its half only if ours proceeds while this thread is here.
            member.meet();
            member.comm.finish(&mut ticket, Wait::Host).unwrap();
            assert!(ticket.done);
        } else {
            member.meet();
            member.comm.run(&barrier()).unwrap();
            member.meet();
        }
    });
}

#[test]
fn a_group_begins_after_its_queue_and_a_queue_goes_on_after_its_group() {
    worlds::run("reference", 2, &options(), LIMIT, |member| {
        let (queue, gate) = (Queue::simulated(), Event::pending());
        queue.wait(&gate);
        let mut ticket = member.comm.start(&[barrier()], &queue).unwrap();
        member.comm.finish(&mut ticket, Wait::On(&queue)).unwrap();
        let behind = queue.record();
        std::thread::sleep(Duration::from_millis(2));
        assert!(!behind.is_done());
        gate.set();
        behind.wait();
        // A ticket that a queue has waited for is complete for the host, too.
        assert!(member.comm.finish(&mut ticket, Wait::Poll).unwrap());
    });
}

#[test]
fn errors_come_back_at_finish_and_later_groups_run() {
    worlds::run("reference", 2, &options(), LIMIT, |member| {
        let (rank, comm) = (member.rank(), &mut *member.comm);
        let dtype = if rank == 0 { Dtype::F32 } else { Dtype::I32 };
        let differing = [Call { dtype, ..all_reduce(64) }];
        let mut bad = comm.start(&differing, &Queue::host()).unwrap();
        let mut good = comm.start(&[barrier()], &Queue::host()).unwrap();
        let error = comm.finish(&mut bad, Wait::Host).unwrap_err();
        assert!(
            matches!(&error, Error::Mismatch(what) if what.contains("16 f32") && what.contains("16 i32")),
            "{error}"
        );
        comm.finish(&mut good, Wait::Host).unwrap();
        // Of a group that a queue waits for, nobody asks again: the next call tells.
        let queue = Queue::simulated();
        let mut bad = comm.start(&differing, &queue).unwrap();
        let handed = comm.finish(&mut bad, Wait::On(&queue));
        queue.synchronise();
        let error = handed.and_then(|_| comm.start(&[barrier()], &Queue::host()).map(|_| true)).unwrap_err();
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
        comm.run(&barrier()).unwrap();
    });
}

#[test]
fn more_groups_than_the_ring_holds() {
    worlds::run("reference", 2, &options(), LIMIT, |member| {
        let calls: Vec<[Call; 1]> = (0..200).map(|_| [Call { dtype: Dtype::I32, ..all_reduce(4) }]).collect();
        for call in &calls {
            // SAFETY: this rank's buffer, before the call.
            unsafe { call[0].input.ptr().cast::<i32>().write(1) };
        }
        let start = |call: &[Call; 1]| member.comm.start(call, &Queue::host()).unwrap();
        let mut tickets: Vec<_> = calls.iter().map(start).collect();
        // The last one first: groups complete in order.
        member.comm.finish(tickets.last_mut().expect("200"), Wait::Host).unwrap();
        for (call, ticket) in calls.iter().zip(&mut tickets) {
            assert!(member.comm.finish(ticket, Wait::Poll).unwrap());
            // SAFETY: the call is complete.
            assert_eq!(unsafe { call[0].output.ptr().cast::<i32>().read() }, 2);
        }
    });
}

#[test]
fn parent_and_group_proceed_side_by_side() {
    worlds::run("reference", 3, &options(), LIMIT, |member| {
        let rank = member.rank();
        let mut child = member.comm.split((rank < 2).then_some(0), 0).unwrap();
        let mut parent = member.comm.start(&[barrier()], &Queue::host()).unwrap();
        if let Some(child) = &mut child {
            let mut ticket = child.start(&[barrier()], &Queue::host()).unwrap();
            child.finish(&mut ticket, Wait::Host).unwrap();
        }
        member.comm.finish(&mut parent, Wait::Host).unwrap();
    });
}

#[test]
fn a_core_that_is_not_there_is_an_error() {
    let mut bootstraps = comm::threads(1, &comm::Abort::default());
    for core in [1000, 1_000_000] {
        let options = Options { progress_core: Some(core), ..options() };
        let error = comm::open("reference", &mut bootstraps[0], &options).err().expect("no such core");
        assert!(error.to_string().starts_with(&format!("pin the progress thread to core {core}: ")), "{error}");
    }
    let options = Options { progress_core: Some(0), ..options() };
    let (mut comm, _abort) = comm::open("reference", &mut bootstraps[0], &options).unwrap();
    comm.run(&barrier()).unwrap();
}

#[test]
fn an_unknown_backend_is_answered_with_the_nearest() {
    let mut bootstraps = comm::threads(1, &comm::Abort::default());
    let error = comm::open("refrence", &mut bootstraps[0], &Options::default()).err().expect("unknown");
    assert_eq!(error.to_string(), "unknown backend `refrence`, did you mean `reference`?");
}
