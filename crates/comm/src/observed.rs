//! The wrapper that makes every operation pass the rank's hook: entered and left on the status page, spans, injected
//! faults. The outermost wrapper, so that what it sees is what the caller waits for.
//!
//! A group of several calls is one operation here: it carries the first call's name and the sum of the calls' bytes.
//! When several groups are in flight, the status page tells of the oldest, since groups complete in the order in which
//! they started: a group is entered when the one before it is left. (An injected delay therefore falls before a group
//! only where nothing else is in flight.)

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use device::cuda::Graph;
use device::{Queue, Region, Slice};
use terms::{Collective, Dtype, Registration, Space};
use trace::{Clock, Hook};

use crate::{Call, Communicator, Devices, Progress, Result, Shape, Ticket, Wait};

/// A communicator that passes each operation through a hook.
pub struct Observed {
    inner: Box<dyn Communicator>,
    hook: Arc<Hook>,
    /// Started and not known to be complete, oldest first; only the first has been entered.
    flying: VecDeque<Flight>,
    /// The operation that was enqueued last, until it is waited for.
    queued: Option<Collective>,
    /// Whether a device runs operations.
    has_device: bool,
}

struct Flight {
    number: u64,
    seen: GroupSummary,
    /// Where an injected fault would strike: the first output that is not empty.
    target: Option<(Slice, Dtype)>,
}

/// What the hook gets of a group.
#[derive(Clone, Copy)]
struct GroupSummary {
    op: Collective,
    bytes: u64,
}

impl GroupSummary {
    /// None for an empty group, which is not an operation.
    #[inline]
    fn from_group(group: &[Call], shape: &Shape) -> Option<Self> {
        let bytes = group.iter().map(|call| call.bytes(shape)).sum();
        group.first().map(|call| Self { op: call.op, bytes })
    }
}

impl Observed {
    /// Every operation of `inner` passes `hook` from now on.
    pub fn new(inner: Box<dyn Communicator>, hook: Arc<Hook>) -> Self {
        let has_device = inner.shape().capabilities.progress == Progress::Device;
        Self { inner, hook, flying: VecDeque::new(), queued: None, has_device }
    }

    /// A group is complete only when all before it are.
    fn leave_through(&mut self, number: u64, how: Wait<'_>) {
        while self.flying.front().is_some_and(|flight| flight.number <= number) {
            self.leave_oldest(how);
        }
    }

    /// The oldest group is complete on the host, or its order on a queue is established.
    fn leave_oldest(&mut self, how: Wait<'_>) {
        let Some(flight) = self.flying.pop_front() else { return };
        if let (Some(element), Some((output, dtype))) =
            (self.hook.leave(flight.seen.op, flight.seen.bytes), flight.target)
        {
            match how {
                // Behind the group and before the work that reads its output.
                Wait::On(queue) => queue.submit(move || corrupt(&output, dtype, element)),
                Wait::Host | Wait::Poll => corrupt(&output, dtype, element),
            }
        }
        if let Some(next) = self.flying.front() {
            self.hook.enter(next.seen.op);
        }
    }

    #[cold]
    fn corrupt_group(group: &[Call], element: u64) {
        if let Some((output, dtype)) = target(group) {
            corrupt(&output, dtype, element);
        }
    }
}

fn target(group: &[Call]) -> Option<(Slice, Dtype)> {
    group.iter().find(|call| !call.output.is_empty()).map(|call| (call.output.clone(), call.dtype))
}

/// Changes the element (modulo their number) to another value: a bit of its most significant byte is flipped, which in
/// every type makes a difference that no tolerance forgives.
fn corrupt(output: &Slice, dtype: Dtype, element: u64) {
    let Some(at) = top_byte(output.len(), dtype, element) else { return };
    if output.gpu().is_some() {
        return corrupt_on_gpu(output, at);
    }
    // SAFETY: `at` < output.len(). The group is complete and its caller does not know so yet, so that nobody else
    // reads or writes this rank's output.
    unsafe { *output.ptr().add(at) ^= FLIPPED };
}

/// The bit that is flipped.
const FLIPPED: u8 = 0x40;

/// The most significant byte of the element in so many bytes; None where there is none.
fn top_byte(len: usize, dtype: Dtype, element: u64) -> Option<usize> {
    let size = dtype.bytes();
    let elements = len as u64 / size;
    let top = if cfg!(target_endian = "little") { size - 1 } else { 0 };
    (elements > 0).then(|| ((element % elements) * size + top) as usize)
}

/// Changes the element of a buffer of the caller's own, as a fault of that element changes a rank's output.
pub fn corrupt_bytes(output: &mut [u8], dtype: Dtype, element: u64) {
    if let Some(at) = top_byte(output.len(), dtype, element) {
        output[at] ^= FLIPPED;
    }
}

/// An error here comes back from the next call, too.
#[cold]
fn corrupt_on_gpu(output: &Slice, at: usize) {
    let (Some(place), mut byte) = (output.slice(at, 1), [0]) else { return };
    if place.read(&mut byte).is_ok() {
        let _ = place.write(&[byte[0] ^ FLIPPED]);
    }
}

impl Communicator for Observed {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        self.inner.alloc(bytes, space)
    }

    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        let Some(seen) = GroupSummary::from_group(group, self.inner.shape()) else {
            return self.inner.start(group, after);
        };
        let alone = self.flying.is_empty();
        if alone {
            self.hook.enter(seen.op);
        }
        // On an error the hook stays inside: the status page then tells where the rank was when it failed.
        let ticket = self.inner.start(group, after)?;
        if ticket.done && alone {
            if let Some(element) = self.hook.leave(seen.op, seen.bytes) {
                Self::corrupt_group(group, element);
            }
            return Ok(ticket);
        }
        self.flying.push_back(Flight { number: ticket.number, seen, target: target(group) });
        if ticket.done {
            self.leave_through(ticket.number, Wait::Host);
        }
        Ok(ticket)
    }

    fn finish(&mut self, ticket: &mut Ticket, how: Wait<'_>) -> Result<bool> {
        let finished = self.inner.finish(ticket, how)?;
        if finished {
            self.leave_through(ticket.number, how);
        }
        Ok(finished)
    }

    fn peer_view(&self, region: &Arc<Region>, peer: u32) -> Option<Arc<Region>> {
        self.inner.peer_view(region, peer)
    }

    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        let child = self.inner.split(color, key)?;
        Ok(child.map(|child| Box::new(Self::new(child, self.hook.clone())) as Box<dyn Communicator>))
    }

    fn split_unwatched(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        self.inner.split_unwatched(color, key)
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    #[inline]
    fn run(&mut self, call: &Call) -> Result<()> {
        if !self.flying.is_empty() {
            let mut ticket = self.start(std::slice::from_ref(call), &Queue::host())?;
            return self.finish(&mut ticket, Wait::Host).map(drop);
        }
        let bytes = call.bytes(self.inner.shape());
        self.hook.enter(call.op);
        self.inner.run(call)?;
        if let Some(element) = self.hook.leave(call.op, bytes) {
            Self::corrupt_group(std::slice::from_ref(call), element);
        }
        Ok(())
    }

    fn alloc_private(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        self.inner.alloc_private(bytes, space)
    }

    /// Where the hook wants more than to count, calls run one by one: a span has an end only when it is waited for.
    #[inline]
    fn enqueue(&mut self, call: &Call) -> Result<()> {
        if !self.has_device || !self.hook.is_plain() || !self.flying.is_empty() {
            return self.run(call);
        }
        self.hook.enter(call.op);
        self.inner.enqueue(call)?;
        self.hook.leave(call.op, 0);
        self.queued = Some(call.op);
        Ok(())
    }

    /// The status page shows the last operation as one that the rank is in: it is. Others than this communicator may have given
    /// work to the device.
    #[inline]
    fn drain(&mut self) -> Result<()> {
        match self.queued.take() {
            Some(operation) => self.hook.wait_in(operation, || self.inner.drain()),
            None => self.inner.drain(),
        }
    }

    fn check_in_flight(&mut self) -> Result<()> {
        self.inner.check_in_flight()
    }

    fn abandon(&mut self) {
        self.inner.abandon();
    }

    fn capture(&mut self, call: &Call, times: u32) -> Result<Graph> {
        self.inner.capture(call, times)
    }

    #[inline]
    fn replay(&mut self, graph: &Graph, operation: Collective) -> Result<()> {
        self.hook.enter(operation);
        self.inner.replay(graph, operation)?;
        self.hook.leave(operation, 0);
        self.queued = Some(operation);
        Ok(())
    }

    #[inline]
    fn enqueue_grouped(&mut self, call: &Call, times: u32) -> Result<()> {
        self.hook.enter(call.op);
        self.inner.enqueue_grouped(call, times)?;
        self.hook.leave(call.op, 0);
        self.queued = Some(call.op);
        Ok(())
    }

    fn register(&mut self, region: &Arc<Region>, how: Registration) -> Result<Box<dyn Any>> {
        self.inner.register(region, how)
    }

    fn begin_device_time(&mut self) -> Result<()> {
        self.inner.begin_device_time()
    }

    fn device_ns(&mut self) -> Result<Option<f64>> {
        self.inner.device_ns()
    }

    fn library_bytes(&self) -> Option<u64> {
        self.inner.library_bytes()
    }

    fn control(&mut self) -> Option<&mut dyn Communicator> {
        self.inner.control()
    }

    fn devices(&self) -> Devices {
        self.inner.devices()
    }

    fn path(&self, call: &Call) -> &'static str {
        self.inner.path(call)
    }
}
