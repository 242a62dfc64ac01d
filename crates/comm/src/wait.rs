//! Waits that every backend and wrapper shares. Every wait polls the abort.

use std::time::Duration;

use device::{Event, Queue};

use crate::{Abort, Result};

/// Blocks until all that was submitted to the queue so far is done.
///
/// # Errors
/// [`crate::Error::Aborted`].
pub(crate) fn for_queue(queue: &Queue, abort: &Abort) -> Result<()> {
    if queue.is_host() { Ok(()) } else { for_event(&queue.record(), abort) }
}

/// Blocks until the event is done. By polling, since an abort has no means to wake who waits for an event: at first
/// often, because most queues are nearly done, then every 100 us.
///
/// # Errors
/// [`crate::Error::Aborted`].
pub(crate) fn for_event(event: &Event, abort: &Abort) -> Result<()> {
    event.drive();
    for turn in 0u32.. {
        if event.is_done() {
            break;
        }
        abort.check()?;
        pause(turn);
    }
    Ok(())
}

/// Pauses between two looks at something that is waited for: at first shortly, then for 100 us. `turn` counts looks.
pub(crate) fn pause(turn: u32) {
    if turn < 100 {
        std::thread::yield_now();
    } else {
        std::thread::sleep(Duration::from_micros(100));
    }
}
