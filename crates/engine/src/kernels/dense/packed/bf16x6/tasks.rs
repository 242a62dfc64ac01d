//! How the threads of a product share out its blocks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::BLOCKS;

/// What the threads of a product tell each other: which task is the next, and which have ended.
///
/// Tasks are counted stage by stage, block by block. A task adds to what the stage before has left of its block, so it
/// waits for that: for a task with a lower number. A thread does its tasks by number; so the thread with the lowest can go on.
pub struct Tasks {
    next: AtomicUsize,
    /// Stages that have ended, of each block.
    ended: [AtomicUsize; BLOCKS],
    /// A thread has panicked: what it has not ended never will.
    broken: AtomicBool,
}

/// Tells the others of a panic.
struct Telling<'a>(&'a AtomicBool);

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl Tasks {
    /// None is done.
    #[expect(clippy::new_without_default, reason = "one for each product, never a default")]
    pub fn new() -> Self {
        let ended = [const { AtomicUsize::new(0) }; BLOCKS];
        Self { next: AtomicUsize::new(0), ended, broken: AtomicBool::new(false) }
    }

    /// Does tasks of `blocks` in each of `stages` until none is left. `prepare(stage, block)` comes before the wait,
    /// `compute(stage, block, next)` after it; `next` is the task of this thread that follows.
    pub fn work(
        &self,
        blocks: usize,
        stages: usize,
        mut prepare: impl FnMut(usize, usize),
        mut compute: impl FnMut(usize, usize, usize),
    ) {
        let _telling = Telling(&self.broken);
        let take = || self.next.fetch_add(1, Ordering::Relaxed);
        let mut task = take();
        while task < blocks * stages {
            let (stage, block) = (task / blocks, task % blocks);
            prepare(stage, block);
            let next = take();
            self.wait(block, stage);
            compute(stage, block, next);
            self.ended[block].store(stage + 1, Ordering::Release);
            task = next;
        }
    }

    fn wait(&self, block: usize, stage: usize) {
        let mut turns = 0u32;
        while self.ended[block].load(Ordering::Acquire) < stage {
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(1024) {
                assert!(!self.broken.load(Ordering::Relaxed), "another thread of this product has panicked");
                // A thread that has lost its core gets it sooner.
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}
