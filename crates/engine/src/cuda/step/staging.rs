//! Pinned memory through which the host's numbers reach the device: two halves, so that one is filled while the other is copied.

use std::sync::Arc;

use device::cuda::{Event, Gpu, Result, Stream};
use device::{Region, Slice};

/// Places are aligned for any element, and copies fast.
const ALIGNED: usize = 256;

/// See the module's documentation.
pub(super) struct Staging {
    gpu: Arc<Gpu>,
    halves: [Half; 2],
    current: usize,
    /// Bytes of the current half that are taken.
    taken: usize,
}

struct Half {
    region: Arc<Region>,
    /// Behind the last copy from it.
    copied: Event,
}

impl Staging {
    /// Two halves of so many bytes.
    pub(super) fn new(gpu: &Arc<Gpu>, bytes: usize) -> Result<Self> {
        let half = || Ok(Half { region: Region::pinned(gpu, bytes.max(ALIGNED))?, copied: Event::new(gpu)? });
        Ok(Self { gpu: gpu.clone(), halves: [half()?, half()?], current: 0, taken: 0 })
    }

    /// Memory of the host for so many bytes, which are then copied on this stream. Waits where both halves are on their way.
    pub(super) fn take(&mut self, bytes: usize, stream: &Stream) -> Result<Slice> {
        if bytes > self.halves[0].region.len() {
            stream.synchronise()?;
            *self = Self::new(&self.gpu, bytes.next_power_of_two())?;
        }
        if self.taken + bytes > self.halves[self.current].region.len() {
            stream.record(&self.halves[self.current].copied)?;
            self.current = 1 - self.current;
            self.taken = 0;
            while !self.halves[self.current].copied.is_done()? {
                std::hint::spin_loop();
            }
        }
        let region = &self.halves[self.current].region;
        let slice = region.slice(self.taken, bytes).unwrap_or_else(|| region.whole());
        self.taken += bytes.next_multiple_of(ALIGNED);
        Ok(slice)
    }
}
