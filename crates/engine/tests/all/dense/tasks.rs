//! How the threads of a product share out its blocks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::internals::bf16x6::Tasks;

/// Every task is done once, and a block's stages one after another, also where one thread is slow.
#[test]
fn stages_of_a_block_follow_each_other() {
    for (blocks, stages, threads) in [(1, 5, 3), (2, 20, 2), (3, 7, 4), (5, 1, 2)] {
        let tasks = Tasks::new();
        let (done, busy) = ([const { AtomicUsize::new(0) }; 5], [const { AtomicUsize::new(0) }; 5]);
        let work = |thread: usize| {
            let compute = |stage: usize, block: usize, _: usize| {
                assert_eq!(busy[block].fetch_add(1, Ordering::SeqCst), 0, "two threads on block {block}");
                if thread == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
                assert_eq!(done[block].fetch_add(1, Ordering::SeqCst), stage, "block {block}");
                busy[block].fetch_sub(1, Ordering::SeqCst);
            };
            tasks.work(blocks, stages, |_, _| (), compute);
        };
        std::thread::scope(|scope| (0..threads).for_each(|thread| drop(scope.spawn(move || work(thread)))));
        assert!(done[..blocks].iter().all(|done| done.load(Ordering::SeqCst) == stages), "{blocks} x {stages}");
    }
}

/// A panic ends all threads, and none waits for what will not come.
#[test]
fn a_panic_is_no_hang() {
    let tasks = Tasks::new();
    let failing = |stage: usize, _: usize, _: usize| assert!(stage < 3, "as the test wants");
    let ended = std::thread::scope(|scope| {
        let threads = [0, 1].map(|_| scope.spawn(|| tasks.work(2, 9, |_, _| (), failing)));
        threads.map(|thread| thread.join().is_err())
    });
    assert_eq!(ended, [true, true]);
}
