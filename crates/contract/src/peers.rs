//! Memory of other ranks' GPUs, in reach of this rank's: CUDA IPC between processes of a host.

use std::collections::BTreeMap;
use std::sync::Arc;

use comm::{Call, Communicator};
use device::cuda::{CudaError, Gpu, HANDLE_BYTES};
use device::{Region, Slice};
use measure::Failure;
use terms::{Collective, Direction, Dtype, Reduce, Space};

use crate::benchmark::{RankContext, failure};

/// No rank's number.
const NONE: u32 = u32::MAX;

/// The memory of all other ranks that is their side of `own`, each in reach of this rank's GPU. Collective: where one rank lacks
/// something, all know.
///
/// # Errors
/// Which rank cannot share its memory, or does not reach whose.
pub fn memory(own: &Arc<Region>, context: &mut RankContext) -> Result<BTreeMap<u32, Slice>, Failure> {
    let (rank, ranks, len) = (context.rank, context.ranks, own.len());
    if ranks == 1 {
        return Ok(BTreeMap::new());
    }
    let gpu = own.gpu().cloned().ok_or_else(|| Failure::new("the backend gave host memory"))?;
    let others_hosts =
        || Failure::lacking("GPUs can reach each other's memory on one host only, but the ranks are on several");
    let control = context.comm.control().ok_or_else(others_hosts)?;
    let exported = own.exported();
    let mut handle = exported.as_ref().map_or(vec![0], |_| vec![1]);
    handle.extend(exported.as_ref().map_or([0; HANDLE_BYTES], |handle| *handle));
    let handles = all_of(control, &handle, ranks)?;
    exported.map_err(|error| Failure::lacking(error.to_string()))?;
    if let Some(rank) = handles.iter().position(|said| said[0] == 0) {
        return Err(Failure::lacking(format!("rank {rank} cannot share memory of its GPU")));
    }
    let imported = imported(&gpu, (rank, len), &handles);
    let lacks = imported.as_ref().err().map_or(NONE, |(other, _)| *other);
    let reached = all_of(control, &lacks.to_ne_bytes(), ranks)?;
    let imported = imported.map_err(|(other, error)| {
        Failure::lacking(format!("rank {rank} does not reach the memory of rank {other}'s GPU: {error}"))
    })?;
    let pair = (0..ranks).zip(&reached).find(|(_, said)| said[..] != NONE.to_ne_bytes());
    match pair {
        Some((rank, said)) => {
            let other = u32::from_ne_bytes(std::array::from_fn(|place| said[place]));
            Err(Failure::lacking(format!("rank {rank} does not reach the memory of rank {other}'s GPU")))
        }
        None => Ok(imported),
    }
}

/// The memory behind the handles of all ranks but this one; else the first rank whose memory is out of reach.
fn imported(
    gpu: &Arc<Gpu>,
    (rank, len): (u32, usize),
    handles: &[Vec<u8>],
) -> Result<BTreeMap<u32, Slice>, (u32, CudaError)> {
    let others = (0..).zip(handles).filter(|(other, _)| *other != rank);
    let import = |(other, said): (u32, &Vec<u8>)| {
        let handle = said[1..].try_into().expect("all ranks say as much");
        let region = Region::imported(gpu, handle, len).map_err(|error| (other, error))?;
        Ok((other, region.whole()))
    };
    others.map(import).collect()
}

/// What each rank says, in as many bytes.
fn all_of(control: &mut dyn Communicator, own: &[u8], ranks: u32) -> Result<Vec<Vec<u8>>, Failure> {
    let region = control.alloc(own.len() * (ranks as usize + 1), Space::Host).map_err(failure)?;
    let small = || Failure::new("a buffer is smaller than its layout");
    let input = region.slice(0, own.len()).ok_or_else(small)?;
    let output = region.slice(own.len(), own.len() * ranks as usize).ok_or_else(small)?;
    // SAFETY: this rank's own memory, and no operation is in flight.
    unsafe { std::ptr::copy_nonoverlapping(own.as_ptr(), input.ptr(), own.len()) };
    let call = Call {
        op: Collective::AllGather,
        input,
        output: output.clone(),
        dtype: Dtype::U8,
        reduce: Reduce::Sum,
        peer: 0,
        direction: Direction::OneWay,
        counts: None,
    };
    control.run(&call).map_err(failure)?;
    // SAFETY: as above; the operation is complete.
    let all = unsafe { std::slice::from_raw_parts(output.ptr(), output.len()) };
    Ok(all.chunks_exact(own.len()).map(<[u8]>::to_vec).collect())
}
