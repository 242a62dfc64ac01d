//! One number from every rank to every rank: how ranks agree on what each of them alone can know.

use comm::{Call, Communicator};
use device::Slice;
use measure::Failure;
use terms::{Collective, Direction, Dtype, Reduce, Space};

use contract::failure;

/// Room for a number of each rank.
pub(super) struct NumberExchange {
    call: Call,
    ranks: usize,
}

impl NumberExchange {
    /// Collective.
    pub(super) fn new(comm: &mut dyn Communicator) -> Result<Self, Failure> {
        let ranks = comm.shape().size as usize;
        let region = comm.alloc(8 * (ranks + 1), Space::Host).map_err(failure)?;
        let cut = |offset: usize, len: usize| -> Result<Slice, Failure> {
            region.slice(offset, len).ok_or_else(|| Failure::new("room for an exchange is too small"))
        };
        let call = Call {
            op: Collective::AllGather,
            input: cut(8 * ranks, 8)?,
            output: cut(0, 8 * ranks)?,
            dtype: Dtype::F64,
            reduce: Reduce::Sum,
            peer: 0,
            direction: Direction::OneWay,
            counts: None,
        };
        Ok(Self { call, ranks })
    }

    /// Every rank's number, in rank order. Collective.
    pub(super) fn gather(&mut self, comm: &mut dyn Communicator, own: f64) -> Result<Vec<f64>, Failure> {
        // SAFETY: eight aligned bytes of this rank's own region, and no operation is in flight.
        unsafe { self.call.input.ptr().cast::<f64>().write(own) };
        comm.run(&self.call).map_err(failure)?;
        let output = self.call.output.ptr().cast::<f64>();
        // SAFETY: the operation has written so many numbers and is over.
        Ok((0..self.ranks).map(|rank| unsafe { output.add(rank).read() }).collect())
    }
}
