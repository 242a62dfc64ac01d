//! Every operation, type, operator, size, root, place and group, on every backend and wrapper.

use std::sync::mpsc::channel;
use std::time::Duration;

use comm::{Call, Communicator, Ticket, Wait};
use device::Queue;
use terms::{Collective, Named};

use crate::cases::{Class, Memory, Prepared};
use crate::model::Operation;
use crate::random::{Random, mix};
use crate::worlds::{self, Member, Wrapping};

const LIMIT: Duration = Duration::from_secs(30);

/// Batches of groups that each world runs.
const BATCHES: u64 = 30;

/// How a rank starts and finishes a group; each rank as it likes.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// `run`, which is for single calls; else `start` and a blocking `finish`.
    Run,
    /// `start`, `finish` asked again and again.
    Poll,
    /// Inputs and outputs ordered by a queue that runs later.
    Queue,
}

/// What is in flight.
struct Started {
    prepared: Vec<Prepared>,
    ticket: Option<Ticket>,
    manner: Manner,
}

/// Any batch of groups: started one after another, then finished.
pub(crate) struct Runner {
    pub(crate) memory: Memory,
    queue: Queue,
}

impl Runner {
    pub(crate) fn new(comm: &mut dyn Communicator) -> Self {
        Self { memory: Memory::new(comm), queue: Queue::simulated() }
    }

    /// Runs one batch that `seed` decides and checks every byte of it.
    pub(crate) fn batch(&mut self, comm: &mut dyn Communicator, seed: u64, context: &str) {
        let (rank, ranks) = (comm.shape().rank, comm.shape().size);
        let mut shared = Random::new(seed);
        let mut own = Random::new(mix(seed ^ u64::from(rank)));
        self.memory.clear();
        let groups = if shared.once_in(3) { 2 } else { 1 };
        let mut started = Vec::new();
        for _ in 0..groups {
            let calls = if shared.once_in(3) { 1 + shared.below(3) } else { 1 };
            let mut prepared = Vec::new();
            for _ in 0..calls {
                let class = if calls * groups > 1 { Class::Small } else { Class::Any };
                let operation = Operation::random(&mut shared, ranks, class);
                prepared.push(Prepared::new(operation, rank, &mut self.memory, &mut shared, &mut own));
            }
            let manner = own.pick(&[Manner::Run, Manner::Poll, Manner::Queue]);
            started.push(self.start(comm, prepared, manner, &mut own));
        }
        for group in started {
            self.finish(comm, group, context);
        }
    }

    /// Runs one operation on its own and checks every byte of it.
    pub(crate) fn single(
        &mut self,
        comm: &mut dyn Communicator,
        op: Collective,
        class: Class,
        seed: u64,
        context: &str,
    ) {
        let (rank, ranks) = (comm.shape().rank, comm.shape().size);
        let (mut shared, mut own) = (Random::new(seed), Random::new(mix(seed ^ u64::from(rank))));
        self.memory.clear();
        let operation = Operation::random_of(op, &mut shared, ranks, class);
        let prepared = Prepared::new(operation, rank, &mut self.memory, &mut shared, &mut own);
        let manner = own.pick(&[Manner::Run, Manner::Poll, Manner::Queue]);
        let started = self.start(comm, vec![prepared], manner, &mut own);
        self.finish(comm, started, context);
    }

    fn start(&self, comm: &mut dyn Communicator, prepared: Vec<Prepared>, manner: Manner, own: &mut Random) -> Started {
        let calls: Vec<Call> = prepared.iter().map(|prepared| prepared.call.clone()).collect();
        for fill in prepared.iter().map(Prepared::fill) {
            match manner {
                Manner::Queue => {
                    // Late, so that who does not wait for the queue reads garbage.
                    let late = Duration::from_micros(if own.once_in(8) { 300 } else { 0 });
                    self.queue.submit(move || {
                        std::thread::sleep(late);
                        fill();
                    });
                }
                Manner::Run | Manner::Poll => fill(),
            }
        }
        let ticket = match (manner, calls.as_slice()) {
            (Manner::Run, [call]) => {
                comm.run(call).unwrap_or_else(|error| panic!("{error}: {call:?}"));
                None
            }
            (Manner::Queue, calls) => Some(comm.start(calls, &self.queue)),
            (_, calls) => Some(comm.start(calls, &Queue::host())),
        };
        let ticket = ticket.map(|ticket| ticket.unwrap_or_else(|error| panic!("{error}: {calls:?}")));
        Started { prepared, ticket, manner }
    }

    fn finish(&self, comm: &mut dyn Communicator, started: Started, context: &str) {
        let Started { prepared, ticket, manner } = started;
        if let Some(mut ticket) = ticket {
            let how = match manner {
                Manner::Run => Wait::Host,
                Manner::Poll => Wait::Poll,
                Manner::Queue => Wait::On(&self.queue),
            };
            while !comm.finish(&mut ticket, how).unwrap_or_else(|error| panic!("{error}: {context}")) {
                std::thread::yield_now();
            }
        }
        for prepared in prepared {
            let (captured, capture) = (channel(), prepared.capture());
            let send = move || captured.0.send(capture()).expect("somebody waits");
            match manner {
                Manner::Queue => self.queue.submit(send),
                Manner::Run | Manner::Poll => send(),
            }
            prepared.check(&captured.1.recv().expect("the capture"), &format!("{context} {manner:?}"));
        }
    }
}

fn conforms(backend: &'static str, wrapping: Wrapping, ranks: u32) {
    let world = format!("{backend} {wrapping:?} x {ranks}");
    let seed = mix((u64::from(ranks) << 8) | wrapping as u64);
    let body = |member: &mut Member| {
        let mut runner = Runner::new(&mut *member.comm);
        for batch in 0..BATCHES {
            let context = format!("{world} batch {batch}");
            runner.batch(&mut *member.comm, mix(seed ^ batch), &context);
        }
        splits(&mut *member.comm, &mut runner, seed, &world);
    };
    worlds::run_wrapped(backend, ranks, wrapping, LIMIT, body);
}

/// Groups of all kinds: reordered, alone, left out; used by turns with the parent.
pub(crate) fn splits(comm: &mut dyn Communicator, runner: &mut Runner, seed: u64, world: &str) {
    let (rank, ranks) = (comm.shape().rank, comm.shape().size);
    let mut shared = Random::new(mix(seed ^ 0x51));
    for round in 0..3 {
        let choices: Vec<(Option<u32>, u32)> = (0..ranks)
            .map(|_| ((!shared.once_in(5)).then(|| shared.below(3) as u32), shared.below(4) as u32))
            .collect();
        let (color, key) = choices[rank as usize];
        let child = comm.split(color, key).expect("a split");
        assert_eq!(child.is_some(), color.is_some(), "{world}");
        if let Some(mut child) = child {
            // Who is of my color, and who of those stands before me: by key, then by rank.
            let others = (0..ranks).filter(|other| choices[*other as usize].0 == color);
            let before = others.clone().filter(|other| (choices[*other as usize].1, *other) < (key, rank));
            let place = (before.count(), others.count());
            assert_eq!((child.shape().rank as usize, child.shape().size as usize), place, "{world} {choices:?}");
            for batch in 0..3 {
                let seed = mix(seed ^ ((round << 16) | (batch << 8) | (u64::from(color.unwrap_or(0)) + 1)));
                runner.batch(&mut *child, seed, &format!("{world} group {color:?} of {choices:?}"));
            }
        }
        runner.batch(comm, mix(seed ^ (round << 24)), &format!("{world} after split {round}"));
    }
}

/// Every operation: where implementations go from one round, slot or protocol to the next.
#[test]
fn megabytes_conform() {
    for backend in worlds::ready() {
        for (ranks, wrapping) in [(2, Wrapping::Plain), (5, Wrapping::Threaded)] {
            worlds::run_wrapped(backend, ranks, wrapping, LIMIT, |member| {
                let mut runner = Runner::new(&mut *member.comm);
                for op in Collective::ALL {
                    let context = format!("{backend} {wrapping:?} x {ranks} {op}");
                    let seed = mix((u64::from(ranks) << 8) | *op as u64);
                    runner.single(&mut *member.comm, *op, Class::Large, seed, &context);
                }
            });
        }
    }
}

fn all_backends_conform(wrapping: Wrapping) {
    for backend in worlds::ready() {
        for ranks in 1..=7 {
            conforms(backend, wrapping, ranks);
        }
    }
}

#[test]
fn plain_backends_conform() {
    all_backends_conform(Wrapping::Plain);
}

#[test]
fn backends_with_a_progress_thread_conform() {
    all_backends_conform(Wrapping::Threaded);
}

#[test]
fn paced_backends_conform() {
    all_backends_conform(Wrapping::Paced);
}

#[test]
fn paced_backends_with_a_progress_thread_conform() {
    all_backends_conform(Wrapping::ThreadedPaced);
}

#[test]
fn paced_backends_around_a_progress_thread_conform() {
    all_backends_conform(Wrapping::PacedThreaded);
}

#[test]
fn observed_backends_conform() {
    all_backends_conform(Wrapping::Observed);
}

#[test]
fn late_backends_conform() {
    all_backends_conform(Wrapping::Late);
}
