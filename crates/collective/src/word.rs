//! A word of rank 0 for all ranks of a communicator: for threads that must agree on what follows.

use comm::{Call, Communicator};
use contract::failure;
use device::Slice;
use measure::Failure;
use terms::{Collective, Direction, Dtype, Reduce, Space};

/// Eight bytes that rank 0 gives to all ranks.
pub struct Word(Call);

impl Word {
    /// Allocates. Collective.
    ///
    /// # Errors
    /// What the communicator says.
    pub fn new(comm: &mut dyn Communicator) -> Result<Self, Failure> {
        let region = comm.alloc(64, Space::Host).map_err(failure)?;
        let cut = |bytes: usize| region.slice(0, bytes).ok_or_else(|| Failure::new("a word is larger than its buffer"));
        let (word, empty): (Slice, Slice) = (cut(8)?, cut(0)?);
        let input = if comm.shape().rank == 0 { word.clone() } else { empty };
        Ok(Self(Call {
            op: Collective::Broadcast,
            input,
            output: word,
            dtype: Dtype::I64,
            reduce: Reduce::Sum,
            peer: 0,
            direction: Direction::OneWay,
            counts: None,
        }))
    }

    /// What rank 0 says, on all ranks. Collective.
    ///
    /// # Errors
    /// What the communicator says.
    pub fn say(&self, word: u64, comm: &mut dyn Communicator) -> Result<u64, Failure> {
        let place = self.0.output.ptr().cast::<u64>();
        if comm.shape().rank == 0 {
            // SAFETY: eight bytes at the beginning of a region, which is aligned; no operation is in flight.
            unsafe { place.write(word) };
        }
        comm.run(&self.0).map_err(failure)?;
        // SAFETY: as above; the broadcast has written them.
        Ok(unsafe { place.read() })
    }
}
