//! The host's buffers, and what goes on between them and the GPU.

use std::sync::Arc;

use device::cuda::{CudaError, Event, Gpu, Stream};
use device::{Region, Slice};

use super::cut::{CallBuffer, Cut};
use crate::{Abort, Result, gpus};

/// Memory of the host for pieces of calls: as the inner communicator knows it, and as the GPU's copies do.
pub(super) struct Buffers {
    host: Arc<Region>,
    pinned: Arc<Region>,
}

impl Buffers {
    pub(super) fn new(gpu: &Arc<Gpu>, host: Arc<Region>) -> device::cuda::Result<Self> {
        Ok(Self { pinned: Region::pin(gpu, &host)?, host })
    }

    pub(super) fn len(&self) -> usize {
        self.host.len()
    }

    /// So many bytes from there, for the inner communicator.
    fn host(&self, begin: usize, len: usize) -> Slice {
        self.host.slice(begin, len).unwrap_or_else(|| self.host.whole())
    }

    /// So many bytes from there, for the GPU.
    fn pinned(&self, begin: usize, len: usize) -> Slice {
        self.pinned.slice(begin, len).unwrap_or_else(|| self.pinned.whole())
    }
}

/// Copies both ways, side by side, and where each piece's has come to.
pub(super) struct CopyLanes {
    out: Stream,
    back: Stream,
    /// By the place that a copy fills, or empties.
    fetched: [Event; 2],
    stored: [Event; 2],
}

impl CopyLanes {
    pub(super) fn new(gpu: &Arc<Gpu>) -> device::cuda::Result<Self> {
        let events = || -> device::cuda::Result<[Event; 2]> { Ok([Event::new(gpu)?, Event::new(gpu)?]) };
        Ok(Self { out: Stream::new(gpu)?, back: Stream::new(gpu)?, fetched: events()?, stored: events()? })
    }

    /// Brings each piece to the host, has it worked on there, and takes it back. `work` gets input and output of the host.
    pub(super) fn through(
        &self,
        buffers: &Buffers,
        cut: &Cut,
        (backend, yields, abort): (&'static str, bool, &Abort),
        mut work: impl FnMut(Slice, Slice) -> Result<()>,
    ) -> Result<()> {
        let refused = |error: CudaError| gpus::refused(backend, error);
        let wait = |event: &Event| -> Result<()> {
            while !event.is_done().map_err(refused)? {
                abort.check()?;
                if yields {
                    std::thread::yield_now();
                }
            }
            Ok(())
        };
        // The GPU's own stream fills the buffers.
        self.out.follow().and_then(|()| self.back.follow()).map_err(refused)?;
        self.fetch(buffers, cut, 0).map_err(refused)?;
        for index in 0..cut.pieces {
            let place = index % 2;
            // Into the place of the piece before this one, which was worked on.
            self.fetch(buffers, cut, index + 1).map_err(refused)?;
            wait(&self.fetched[place])?;
            // Of the piece before the last: this one's output takes its place.
            wait(&self.stored[place])?;
            let side = |side| buffers.host(cut.place(side, index), cut.part(side, index).len());
            work(side(CallBuffer::Input), side(CallBuffer::Output))?;
            self.store(buffers, cut, index).map_err(refused)?;
        }
        self.stored.iter().try_for_each(wait)
    }

    fn fetch(&self, buffers: &Buffers, cut: &Cut, index: usize) -> device::cuda::Result<()> {
        let from = cut.part(CallBuffer::Input, index);
        if index >= cut.pieces || from.is_empty() {
            return Ok(());
        }
        let to = buffers.pinned(cut.place(CallBuffer::Input, index), from.len());
        to.copy_from(&from, Some(&self.out))?;
        self.out.record(&self.fetched[index % 2])
    }

    fn store(&self, buffers: &Buffers, cut: &Cut, index: usize) -> device::cuda::Result<()> {
        let to = cut.part(CallBuffer::Output, index);
        if to.is_empty() {
            return Ok(());
        }
        let from = buffers.pinned(cut.place(CallBuffer::Output, index), to.len());
        to.copy_from(&from, Some(&self.back))?;
        self.back.record(&self.stored[index % 2])
    }

    /// Waits until nothing is under way, whatever becomes of it.
    pub(super) fn empty(&self) {
        let _ = self.out.synchronise();
        let _ = self.back.synchronise();
    }
}
