//! What backends share whose calls run to their end in the thread that starts them.

use std::sync::Arc;

use device::{Queue, Region};
use terms::Space;

use crate::{Abort, Bootstrap, Call, Error, Result, Shape, Ticket, members, wait};

/// Private memory: such a backend reaches no memory of a peer, so any will do.
pub(crate) fn host_region(backend: &'static str, bytes: usize, space: Space) -> Result<Arc<Region>> {
    host_only(backend, space)?;
    Region::host(bytes).map_err(|source| Error::System { what: format!("map {bytes} bytes of memory"), source })
}

/// Refuses memory of a device.
pub(crate) fn host_only(backend: &'static str, space: Space) -> Result<()> {
    match space {
        Space::Host => Ok(()),
        Space::Cuda => Err(Error::Unsupported { backend, what: "move GPU memory".to_owned() }),
    }
}

/// Refuses invalid calls, then waits until the inputs may be read.
pub(crate) fn admit(group: &[Call], shape: &Shape, after: &Queue, abort: &Abort) -> Result<()> {
    abort.check()?;
    group.iter().try_for_each(|call| call.validate(shape))?;
    wait::for_queue(after, abort)
}

/// The ticket of a group that has run.
pub(crate) fn finished(next: &mut u64) -> Ticket {
    *next += 1;
    Ticket { number: *next - 1, done: true }
}

/// The members of this rank's new group, from what all ranks give. Collective.
pub(crate) fn group_of(exchange: &mut dyn Bootstrap, color: Option<u32>, key: u32) -> Result<Option<Vec<u32>>> {
    let words = [u32::from(color.is_some()), color.unwrap_or(0), key];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let gathered = exchange.all_gather(&bytes)?;
    let decode = |bytes: &Vec<u8>| {
        let word = |at: usize| {
            bytes.get(at * 4..at * 4 + 4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
        };
        let (Some(given), Some(color), Some(key)) = (word(0), word(1), word(2)) else {
            return Err(Error::Mismatch("some ranks split, but others do not".to_owned()));
        };
        Ok(((given == 1).then_some(color), key))
    };
    let entries = gathered.iter().map(decode).collect::<Result<Vec<_>>>()?;
    Ok(members(&entries, exchange.place().rank))
}
