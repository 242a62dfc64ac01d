//! A communicator whose operations, and those of what is split from it, are seen and changed by a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use comm::{Call, Communicator, Result, Shape, Ticket, Wait};
use device::{Queue, Region, Slice};
use terms::{Collective, Space};
use trace::Clock;

use crate::worlds::Wrapped;

/// What a test sees of a rank's communicators, and does to them.
#[derive(Default)]
pub(crate) struct Watch {
    /// Operations of the world's communicator, and of those that were split from it; words and barriers of the measuring code
    /// are not counted.
    pub(crate) world: AtomicU64,
    pub(crate) split: AtomicU64,
    /// Splits so far.
    pub(crate) splits: AtomicU64,
    /// Whether operations leave the last byte of an element other than it is: those of the world's, those of the others.
    pub(crate) breaks_world: bool,
    pub(crate) breaks_split: bool,
    /// Operations of the world's during which the others had made none.
    pub(crate) alone: AtomicU64,
}

/// A communicator that a test watches.
pub(crate) struct Watched {
    inner: Box<dyn Communicator>,
    watch: Arc<Watch>,
    is_world: bool,
}

impl Watched {
    /// The world's.
    pub(crate) fn boxed(inner: Box<dyn Communicator>, watch: Arc<Watch>) -> Box<dyn Communicator> {
        Box::new(Self { inner, watch, is_world: true })
    }
}

/// A world of two ranks in which this is done on rank 1.
pub(crate) fn world(watch: Watch) -> (Wrapped, [Arc<Watch>; 2]) {
    let watches = [Arc::new(Watch::default()), Arc::new(watch)];
    let given = watches.clone();
    let wrap = Arc::new(move |rank: u32, inner| Watched::boxed(inner, given[rank as usize].clone()));
    (Wrapped::start("shm", 2, wrap), watches)
}

fn flip(output: &Slice) {
    // SAFETY: inside this rank's output; its operation is complete.
    unsafe { *output.ptr().add(7) ^= 0x40 };
}

impl Communicator for Watched {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }
    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        self.inner.alloc(bytes, space)
    }
    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        self.inner.start(group, after)
    }
    fn finish(&mut self, ticket: &mut Ticket, how: Wait<'_>) -> Result<bool> {
        self.inner.finish(ticket, how)
    }
    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        let child = self.inner.split(color, key)?;
        self.watch.splits.fetch_add(1, Ordering::Relaxed);
        let watch = self.watch.clone();
        Ok(child.map(|inner| Box::new(Self { inner, watch, is_world: false }) as Box<dyn Communicator>))
    }
    fn clock(&self) -> Clock {
        self.inner.clock()
    }
    fn run(&mut self, call: &Call) -> Result<()> {
        if call.op == Collective::Barrier || (call.op == Collective::Broadcast && call.output.len() == 8) {
            return self.inner.run(call);
        }
        let (count, breaks) = match self.is_world {
            true => (&self.watch.world, self.watch.breaks_world),
            false => (&self.watch.split, self.watch.breaks_split),
        };
        let before = self.watch.split.load(Ordering::Acquire);
        self.inner.run(call)?;
        if self.is_world && before == 0 {
            self.watch.alone.fetch_add(1, Ordering::Relaxed);
        }
        if breaks && call.output.len() > 8 {
            flip(&call.output);
        }
        count.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}
