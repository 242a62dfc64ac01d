//! Agreement of all ranks on a condition, through a word of host memory.

use device::Slice;
use terms::{Collective, Direction, Dtype, Reduce};

use crate::{Call, Communicator, Result};

/// Whether `own` is true on all ranks. `word` is eight aligned bytes of host memory that nothing else uses. Collective.
pub fn agree(comm: &mut dyn Communicator, word: &Slice, own: bool) -> Result<bool> {
    let place = word.ptr().cast::<i64>();
    // SAFETY: eight aligned bytes that nothing else uses, with no operation in flight.
    unsafe { place.write(i64::from(own)) };
    comm.run(&Call {
        op: Collective::AllReduce,
        input: word.clone(),
        output: word.clone(),
        dtype: Dtype::I64,
        reduce: Reduce::Min,
        peer: 0,
        direction: Direction::OneWay,
        counts: None,
    })?;
    // SAFETY: as above; the operation is complete.
    Ok(unsafe { place.read() } == 1)
}
