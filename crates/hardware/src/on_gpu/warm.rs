//! A GPU's clocks before computation is timed.

use std::time::{Duration, Instant};

use comm::Communicator;
use contract::Prepared;
use measure::Failure;

/// A device that was idle takes so long to raise its clocks, and to come to the ones that its power allows.
const WARM: Duration = Duration::from_millis(500);
/// Calls are waited for in batches of about as long: the device must not be idle between short ones.
const BATCH: Duration = Duration::from_millis(10);

/// Keeps this rank's GPU busy until its clocks are those of long work. A stand-in has none.
///
/// # Errors
/// What a call says.
pub(crate) fn warm(prepared: &mut dyn Prepared, comm: &mut dyn Communicator) -> Result<(), Failure> {
    if comm.devices().emulated {
        return Ok(());
    }
    let begin = Instant::now();
    let mut calls = 1;
    while begin.elapsed() < WARM {
        let of_batch = Instant::now();
        for _ in 0..calls {
            prepared.run(comm)?;
        }
        prepared.drain(comm)?;
        if of_batch.elapsed() < BATCH {
            calls *= 2;
        }
    }
    prepared.refill();
    Ok(())
}
