//! The hook wrapper: what a coordinator sees, what is recorded, and faults that strike where they were aimed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use comm::{Call, Communicator, Observed, Options, Wait};
use device::Queue;
use terms::{Collective, Dtype};
use trace::{Clock, Hook, Injection, OperationState, OwnSlot, Ring};

use crate::simulated::all_reduce;
use crate::worlds::{self, Wrapping};

const LIMIT: Duration = Duration::from_secs(20);

struct Watched {
    comm: Observed,
    hook: Arc<Hook>,
    slot: Arc<OwnSlot>,
}

impl Watched {
    fn new(comm: Box<dyn Communicator>) -> Self {
        let slot = Arc::new(OwnSlot::default());
        let hook = Arc::new(Hook::new(comm.shape().rank, comm.clock(), slot.clone()));
        Self { comm: Observed::new(comm, hook.clone()), hook, slot }
    }

    fn state(&self) -> Option<(u64, Collective, bool)> {
        let state = (*self.slot).as_ref().state();
        state.map(|OperationState { number, operation, inside }| (number, operation, inside))
    }
}

/// Runs a world and watches its ranks.
fn watch(backend: &str, options: &Options, body: impl Fn(&mut Watched) + Sync) {
    worlds::run(backend, 2, options, LIMIT, |member| {
        let comm = member.give_away();
        body(&mut Watched::new(comm));
    });
}

#[test]
fn operations_are_entered_and_left_in_order() {
    for options in [Wrapping::Plain.options(2), Wrapping::Threaded.options(2)] {
        watch("reference", &options, |watched| {
            watched.hook.record_into(Some(Ring::new(16)));
            let barrier = Call { op: Collective::Barrier, ..all_reduce(0) };
            watched.comm.run(&barrier).unwrap();
            assert_eq!(watched.state(), Some((0, Collective::Barrier, false)));
            let (mut first, mut second) = (start(&mut watched.comm, 400), start(&mut watched.comm, 800));
            if !first.done {
                // Both in flight: the status page tells of the older.
                assert_eq!(watched.state(), Some((1, Collective::AllReduce, true)));
            }
            watched.comm.finish(&mut first, Wait::Host).unwrap();
            watched.comm.finish(&mut second, Wait::Host).unwrap();
            assert_eq!(watched.state(), Some((2, Collective::AllReduce, false)));
            let ring = watched.hook.record_into(None).expect("the ring");
            let spans: Vec<_> = ring.spans().map(|span| (span.number, span.operation, span.bytes)).collect();
            let expected =
                [(0, Collective::Barrier, 0), (1, Collective::AllReduce, 400), (2, Collective::AllReduce, 800)];
            assert_eq!(spans, expected);
            assert!(ring.spans().all(|span| span.begin_ns <= span.end_ns));
        });
    }
}

fn start(comm: &mut Observed, bytes: usize) -> comm::Ticket {
    comm.start(&[all_reduce(bytes)], &Queue::host()).unwrap()
}

#[test]
fn a_rank_that_waits_is_seen_inside() {
    watch("reference", &Options::default(), |watched| {
        let barrier = Call { op: Collective::Barrier, ..all_reduce(0) };
        if watched.comm.shape().rank == 0 {
            let slot = watched.slot.clone();
            let observer = std::thread::spawn(move || {
                let begin = Instant::now();
                while (*slot).as_ref().state().is_none_or(|state| !state.inside) {
                    assert!(begin.elapsed() < LIMIT / 2, "never seen inside");
                    std::thread::yield_now();
                }
            });
            watched.comm.run(&barrier).unwrap();
            observer.join().expect("seen inside");
        } else {
            std::thread::sleep(Duration::from_millis(20));
            watched.comm.run(&barrier).unwrap();
        }
    });
}

#[test]
fn a_wrong_element_is_planted_on_its_rank_only() {
    for options in [Wrapping::Plain.options(2), Wrapping::Threaded.options(2)] {
        for on_queue in [false, true] {
            watch("reference", &options, |watched| {
                // 103 modulo 100 elements.
                watched.hook.begin_case(&["wrong:rank=1,element=103,at=1,every=0".parse::<Injection>().unwrap()]);
                for number in 0..3 {
                    let call = Call { dtype: Dtype::I32, ..all_reduce(400) };
                    run(&mut watched.comm, &call, on_queue);
                    let wrong: Vec<usize> = (0..100).filter(|at| element(&call, *at) != 0).collect();
                    let struck = number == 1 && watched.comm.shape().rank == 1;
                    assert_eq!(wrong, if struck { vec![3] } else { vec![] }, "operation {number}");
                }
            });
        }
    }
}

fn run(comm: &mut Observed, call: &Call, on_queue: bool) {
    if on_queue {
        let queue = Queue::simulated();
        let mut ticket = comm.start(std::slice::from_ref(call), &queue).unwrap();
        comm.finish(&mut ticket, Wait::On(&queue)).unwrap();
        queue.synchronise();
    } else {
        comm.run(call).unwrap();
    }
}

fn element(call: &Call, at: usize) -> i32 {
    assert!(at * 4 < call.output.len());
    // SAFETY: inside the output of a call that is complete.
    unsafe { call.output.ptr().cast::<i32>().add(at).read() }
}

#[test]
fn a_delayed_rank_delays_all_on_the_fake_clock() {
    watch("sim", &Options::default(), |watched| {
        watched.hook.begin_case(&["delay:rank=1,time=1ms,at=2,every=0".parse::<Injection>().unwrap()]);
        let barrier = Call { op: Collective::Barrier, ..all_reduce(0) };
        let clock: Clock = watched.comm.clock();
        for _ in 0..4 {
            watched.comm.run(&barrier).unwrap();
        }
        assert_eq!(clock.now_ns(), 4 * 5_000 + 1_000_000);
    });
}
