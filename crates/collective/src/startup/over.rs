//! A bootstrap over ranks that can communicate already: so they can join again.

use comm::{Bootstrap, Call, Communicator, RankPlacement, Result};
use device::Slice;
use terms::{Collective, Direction, Dtype, Reduce, Space};

/// An exchange of byte strings by a communicator of all ranks.
pub(super) struct Over<'a> {
    comm: &'a mut dyn Communicator,
    place: RankPlacement,
}

impl<'a> Over<'a> {
    /// Over this communicator. `place` is that of the world.
    pub(super) fn new(comm: &'a mut dyn Communicator, place: RankPlacement) -> Self {
        Self { comm, place }
    }

    /// The place of this rank, on a host of this name. Collective.
    ///
    /// # Errors
    /// What the communicator says.
    pub(super) fn placed(comm: &mut dyn Communicator, host: &str) -> Result<RankPlacement> {
        let (rank, size) = (comm.shape().rank, comm.shape().size);
        let mut over = Over::new(comm, RankPlacement::alone(rank, size, host.to_owned()));
        let hosts = over.all_gather(host.as_bytes())?;
        let own = |to: usize| hosts[..to].iter().filter(|other| other.as_slice() == host.as_bytes()).count() as u32;
        Ok(RankPlacement { index: own(rank as usize), here: own(hosts.len()), ..over.place })
    }

    /// Blocks of equal length from all ranks, one behind the other.
    fn gather_blocks(&mut self, block: &[u8]) -> Result<Vec<u8>> {
        let (size, bytes) = (self.place.size as usize, block.len());
        let comm = control(self.comm);
        let (input, output) = (comm.alloc(bytes, Space::Host)?.whole(), comm.alloc(bytes * size, Space::Host)?.whole());
        // SAFETY: the region has as many bytes, and no operation is in flight in it.
        unsafe { std::ptr::copy_nonoverlapping(block.as_ptr(), input.ptr(), bytes) };
        comm.run(&gathering(&input, &output))?;
        let mut all = vec![0; bytes * size];
        // SAFETY: as above; the operation is complete.
        unsafe { std::ptr::copy_nonoverlapping(output.ptr(), all.as_mut_ptr(), all.len()) };
        Ok(all)
    }
}

/// Ranks agree in memory of the host.
fn control(comm: &mut dyn Communicator) -> &mut dyn Communicator {
    if comm.control().is_none() {
        return comm;
    }
    comm.control().expect("it was there just now")
}

fn gathering(input: &Slice, output: &Slice) -> Call {
    Call {
        op: Collective::AllGather,
        input: input.clone(),
        output: output.clone(),
        dtype: Dtype::U8,
        reduce: Reduce::Sum,
        peer: 0,
        direction: Direction::OneWay,
        counts: None,
    }
}

impl Bootstrap for Over<'_> {
    fn place(&self) -> RankPlacement {
        self.place.clone()
    }

    /// Lengths first, then blocks of the largest.
    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let lengths = self.gather_blocks(&(bytes.len() as u64).to_le_bytes())?;
        let lengths: Vec<usize> =
            lengths.as_chunks::<8>().0.iter().map(|length| u64::from_le_bytes(*length) as usize).collect();
        let most = lengths.iter().copied().max().unwrap_or(0);
        if most == 0 {
            return Ok(vec![Vec::new(); lengths.len()]);
        }
        let mut block = bytes.to_vec();
        block.resize(most, 0);
        let all = self.gather_blocks(&block)?;
        Ok(all.chunks_exact(most).zip(lengths).map(|(block, length)| block[..length].to_vec()).collect())
    }
}
