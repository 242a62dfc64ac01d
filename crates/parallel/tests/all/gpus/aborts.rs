//! A rank whose peer is gone in the middle of a step: it comes back with an error, and ends, though its device waits for the peer.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use comm::{Abort, Options};
use parallel::{Mesh, Recipe, Trainer};
use terms::Dtype;

use super::{On, again, device, mlp, recipe, source, surrounded, variable};

/// After the abort was raised, on a machine that may be busy. The fakes wait for 60 s, then they end the process.
const PROMPTLY: Duration = Duration::from_secs(5);

/// Two replicas.
fn replicas(sharded: u8) -> Recipe {
    let mesh = Mesh { data: 2, ..Mesh::SERIAL };
    Recipe { mesh, micro_batches: vec![1, 1], sharded, ..recipe(mlp(), Dtype::F32) }
}

/// Each rank steps until it fails, and then ends. The first fails by itself unless it is to be `aborted`; of those that are left, one
/// after the other is aborted, and only that one ends.
fn failures(recipe: &Recipe, aborted: bool) {
    let options = Options { gpus: true, oversubscribed: true, ..Options::default() };
    let (aborts, raisers) = channel();
    let (ends, ended) = channel();
    std::thread::scope(|scope| {
        for (rank, mut bootstrap) in comm::threads(2, &Abort::default()).into_iter().enumerate() {
            let (options, aborts, ends) = (&options, aborts.clone(), ends.clone());
            scope.spawn(move || {
                let (mut world, abort) = comm::open("nccl", &mut bootstrap, options).unwrap();
                let device = device(On::Gpus("nccl"), recipe, &mut *world);
                let source = source(&recipe.model);
                let mut trainer = Trainer::new(recipe, &mut *world, &abort, options, &*device, source).unwrap();
                aborts.send((rank, abort)).unwrap();
                let said = (0..20).find_map(|_| trainer.step(&mut *world).err()).expect("a failure").to_string();
                let failed = Instant::now();
                let after = trainer.step(&mut *world).map(drop).unwrap_err().to_string();
                drop((trainer, device, world));
                assert!(failed.elapsed() < PROMPTLY, "{:?} to end", failed.elapsed());
                ends.send((rank, said, after)).unwrap();
            });
        }
        let raisers: Vec<(usize, Abort)> = raisers.iter().take(2).collect();
        // Both have come as far as they can.
        std::thread::sleep(Duration::from_millis(500));
        let by_itself = (!aborted).then(|| {
            let (rank, said, after) = ended.recv_timeout(PROMPTLY).expect("it ends by what the library says");
            assert!(said.contains("remote process exited"), "rank {rank}: {said}");
            assert_eq!(after, ABORTED);
            rank
        });
        for (rank, abort) in raisers.iter().filter(|(rank, _)| by_itself != Some(*rank)) {
            assert!(ended.try_recv().is_err(), "only an abort ends the wait");
            let raised = Instant::now();
            abort.raise();
            let (ended, said, after) = ended.recv_timeout(PROMPTLY).expect("it ends by its abort");
            assert_eq!((ended, said.as_str(), after.as_str()), (*rank, ABORTED, ABORTED), "{:?}", raised.elapsed());
        }
    });
}

const ABORTED: &str = "aborted";

/// Holds an exchange of the second step back: one of the forward pass, of the backward pass, of the update.
const STUCK: [(&str, u8); 3] = [("9", 0), ("20", 2), ("23", 3)];

fn is_child() -> bool {
    variable("FAKE_NCCL_STUCK").is_some()
}

fn sharded() -> u8 {
    variable("TEST_SHARDED").map_or(0, |text| text.parse().unwrap())
}

#[test]
fn an_abort_ends_the_wait_for_a_step() {
    if surrounded("an_abort_ends_the_wait_for_a_step").is_none() {
        return;
    }
    if is_child() {
        return failures(&replicas(sharded()), true);
    }
    for (at, sharded) in STUCK {
        let sharded = sharded.to_string();
        again("aborts::an_abort_ends_the_wait_for_a_step", &[("FAKE_NCCL_STUCK", at), ("TEST_SHARDED", &sharded)]);
    }
}

/// What NCCL notices by itself: a peer's process that is gone, a network that fails.
#[test]
fn an_error_of_the_library_ends_the_wait_for_a_step() {
    if surrounded("an_error_of_the_library_ends_the_wait_for_a_step").is_none() {
        return;
    }
    if is_child() {
        return failures(&replicas(sharded()), false);
    }
    again(
        "aborts::an_error_of_the_library_ends_the_wait_for_a_step",
        &[("FAKE_NCCL_STUCK", "9"), ("FAKE_NCCL_FAIL", "ncclCommGetAsyncError:40:6")],
    );
}
