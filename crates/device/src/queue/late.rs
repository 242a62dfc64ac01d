//! A queue that makes only the progress that waits force.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::QueuedWork;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Late {
    state: Mutex<LateState>,
    changed: Condvar,
}

#[derive(Default)]
struct LateState {
    pending: VecDeque<QueuedWork>,
    submitted: u64,
    /// Pieces of work that have run.
    done: u64,
    /// Whether a thread runs the next.
    is_running: bool,
}

impl Late {
    fn state(&self) -> MutexGuard<'_, LateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn submit(&self, work: QueuedWork) {
        let mut state = self.state();
        state.pending.push_back(work);
        state.submitted += 1;
    }

    /// Pieces of work so far.
    pub(super) fn submitted(&self) -> u64 {
        self.state().submitted
    }

    pub(super) fn has_run(&self, number: u64) -> bool {
        self.state().done >= number
    }

    /// Runs the first `number` pieces of work, as far as they have not run. A piece may wait for another thread, which may come here
    /// for what ran before that piece: so nobody is kept who waits for no more than has run.
    pub(super) fn run_through(&self, number: u64) {
        let mut state = self.state();
        while state.done < number {
            if state.is_running {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let Some(work) = state.pending.pop_front() else { return };
            state.is_running = true;
            drop(state);
            let turn = Turn(self);
            work();
            drop(turn);
            state = self.state();
        }
    }
}

/// Ends a piece of work, also where it panics.
struct Turn<'a>(&'a Late);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_running = false;
        state.done += 1;
        self.0.changed.notify_all();
    }
}

impl std::fmt::Debug for Late {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Late").field("done", &self.state().done).finish_non_exhaustive()
    }
}
