//! A rank's communicator: the library's, on memory and the stream of a GPU.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use device::cuda::{CudaError, Event, Gpu, Graph};
use device::{Queue, Region, Slice};
use terms::{Collective, Registration, Space};

use super::handle::{Handle, Stream};
use super::since::{MEMORY, needed};
use super::symbols::{NAME, Symbols};
use crate::agree::agree;
use crate::gpus::{self, Opened};
use crate::{Abort, Call, Communicator, Devices, Error, Result, Shape, Ticket, Wait, wait};

/// Bytes of the device that most calls in memory of the host go through: words that ranks agree on, on several hosts.
const STAGED: usize = 4096;
/// Bytes beside them that a barrier overwrites.
const SCRATCH: usize = 64;

/// Points of the device's stream, the same for a communicator and its parts: they share the stream.
struct Points {
    /// Where the device's clock begins to count.
    first: Event,
    /// Behind all that was enqueued when somebody waited for it.
    last: Event,
}

// SAFETY: a rank's communicators are used by one thread at a time, and the driver's functions by any.
unsafe impl Sync for Points {}

impl Points {
    fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        let points = Self { first: Event::timed(gpu).map_err(refused)?, last: Event::timed(gpu).map_err(refused)? };
        points.first.record().and_then(|()| points.last.record()).map_err(refused)?;
        Ok(points)
    }
}

pub(super) struct RankOnGpu {
    handle: Handle,
    symbols: Arc<Symbols>,
    gpu: Arc<Gpu>,
    devices: Devices,
    abort: Abort,
    /// A communicator of these ranks in memory of the host, where they are all on one host.
    control: Option<Box<dyn Communicator>>,
    small: Arc<Region>,
    /// A word of the host.
    word: Slice,
    points: Arc<Points>,
    /// Bytes of the device that were free before the library was asked for anything.
    free_at_first: u64,
    /// Events of groups that were started and not finished, oldest first.
    flying: VecDeque<(u64, Arc<Event>)>,
    started: u64,
}

// SAFETY: the raw stream and context that it holds may be used by any one thread at a time.
unsafe impl Send for RankOnGpu {}

/// An error of the driver as one of a communicator.
pub(super) fn refused(error: CudaError) -> Error {
    gpus::refused(NAME, error)
}

impl RankOnGpu {
    pub(super) fn new(
        handle: Handle,
        symbols: Arc<Symbols>,
        Opened { gpu, devices }: Opened,
        abort: Abort,
        (control, free_at_first): (Option<Box<dyn Communicator>>, u64),
    ) -> Result<Self> {
        let small = Region::cuda(&gpu, STAGED + SCRATCH).map_err(refused)?;
        let host =
            Region::host(8).map_err(|source| Error::System { what: "map 8 bytes of memory".to_owned(), source })?;
        let points = Arc::new(Points::new(&gpu)?);
        let flying = VecDeque::new();
        let (word, started) = (host.whole(), 0);
        Ok(Self { handle, symbols, gpu, devices, abort, control, small, word, points, free_at_first, flying, started })
    }

    /// Gives calls to the stream.
    fn issue(&mut self, calls: &[Call]) -> Result<()> {
        if let Some(call) = calls.iter().find(|call| is_on_host(call)) {
            let what = format!("start {} in memory of the host", call.op);
            return Err(Error::Unsupported { backend: NAME, what });
        }
        let scratch = (self.small.address() + STAGED) as *mut u8;
        let stream = Stream(self.gpu.stream());
        // SAFETY: slices lie inside regions of this device, which outlive what is in flight as `Call` and `Communicator` ask of
        // callers; the scratch is this communicator's.
        unsafe { self.handle.issue(calls, scratch, stream) }
    }

    fn wait_for_last(&mut self) -> Result<()> {
        let Self { handle, points, .. } = self;
        points.last.record().map_err(refused)?;
        handle.wait(&mut || points.last.is_done().map_err(refused))
    }

    /// A call on bytes of the host, through the device: mostly a few. Results that ranks compare, and what many ranks
    /// tell each other, are longer and have memory of their own.
    fn run_staged(&mut self, call: &Call) -> Result<()> {
        let (input, output) = (call.input.len(), call.output.len());
        let longest = input.max(output);
        let (room, half) = match longest <= STAGED / 2 {
            true => (self.small.clone(), STAGED / 2),
            false => (gpus::buffer(NAME, &self.gpu, 2 * longest)?, longest),
        };
        let part = |begin: usize, len: usize| {
            let outside = || Error::InvalidCall("a call on bytes of the host is longer than its buffer".to_owned());
            room.slice(begin, len).ok_or_else(outside)
        };
        let (from, to) = (part(0, input)?, part(half, output)?);
        let mut bytes = vec![0; longest];
        // SAFETY: the slice lies inside its region, of memory of the host, and no operation is in flight.
        unsafe { std::ptr::copy_nonoverlapping(call.input.ptr(), bytes.as_mut_ptr(), input) };
        from.write(&bytes[..input]).map_err(refused)?;
        self.issue(&[Call { input: from, output: to.clone(), ..call.clone() }])?;
        self.wait_for_last()?;
        to.read(&mut bytes[..output]).map_err(refused)?;
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), call.output.ptr(), output) };
        Ok(())
    }

    /// Whether it holds on all ranks. Collective.
    fn agree(&mut self, own: bool) -> Result<bool> {
        let word = self.word.clone();
        match &mut self.control {
            Some(control) => agree(&mut **control, &word, own),
            None => agree(self, &word, own),
        }
    }

    /// Memory that the library allocates, which peers can reach without a copy.
    fn registered(&mut self, bytes: usize) -> Result<Arc<Region>> {
        let functions = self.symbols.mem_alloc.zip(self.symbols.mem_free);
        let (alloc, free) = needed(functions, &MEMORY, &self.symbols)?;
        gpus::room_for(NAME, &self.gpu, bytes)?;
        let mut address = std::ptr::null_mut();
        let before = self.gpu.free_bytes().map_err(refused)?;
        // SAFETY: as nccl.h declares it; the out-pointer is valid.
        self.symbols.succeeded("ncclMemAlloc", None, unsafe { alloc(&mut address, bytes.max(1)) })?;
        let symbols = self.symbols.clone();
        let release = move |at| {
            // SAFETY: as nccl.h declares it: what ncclMemAlloc gave, given back once. The table keeps the library.
            unsafe { free(at) };
            drop(symbols);
        };
        // SAFETY: memory of this device, of that length, until it is given back.
        unsafe { Region::cuda_from_raw(&self.gpu, address, bytes, before, release) }.map_err(refused)
    }

    /// What the queue is given from now on comes after the group. The library runs groups in their order, so that of the group
    /// stands for all before it.
    fn order(&mut self, number: u64, queue: &Queue) -> Result<bool> {
        self.abort.check()?;
        while self.flying.front().is_some_and(|(of, _)| *of <= number) {
            if let Some((of, event)) = self.flying.pop_front()
                && of == number
            {
                queue.wait(&device::Event::of_gpu(event));
            }
        }
        Ok(true)
    }
}

fn is_on_host(call: &Call) -> bool {
    [&call.input, &call.output].iter().any(|slice| !slice.is_empty() && slice.region().space() == Space::Host)
}

impl Communicator for RankOnGpu {
    fn shape(&self) -> &Shape {
        self.handle.shape()
    }

    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        if space == Space::Host {
            return match &mut self.control {
                Some(control) => control.alloc(bytes, space),
                None => crate::at_once::host_region(NAME, bytes, space),
            };
        }
        let own = self.registered(bytes);
        // A rank that has none leaves; the others must not wait for it in the library.
        let all = self.agree(own.is_ok())?;
        let region = own?;
        if all { Ok(region) } else { Err(gpus::lacking_elsewhere(bytes)) }
    }

    fn alloc_private(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        match space {
            Space::Host => crate::at_once::host_region(NAME, bytes, space),
            Space::Cuda => gpus::buffer(NAME, &self.gpu, bytes),
        }
    }

    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        let before = after.record();
        match before.gpu() {
            // The library's own stream waits, and the host goes on.
            Some(point) => point.hold_own().map_err(refused)?,
            None => wait::for_event(&before, &self.abort)?,
        }
        self.issue(group)?;
        let event = Arc::new(Event::new(&self.gpu).map_err(refused)?);
        event.record().map_err(refused)?;
        self.flying.push_back((self.started, event));
        self.started += 1;
        Ok(Ticket { number: self.started - 1, done: false })
    }

    fn finish(&mut self, ticket: &mut Ticket, how: Wait<'_>) -> Result<bool> {
        if let Wait::On(queue) = how
            && queue.stream().is_some()
        {
            return self.order(ticket.number, queue);
        }
        let Self { handle, flying, .. } = self;
        while let Some((number, event)) = flying.front() {
            if *number > ticket.number {
                break;
            }
            match how {
                Wait::Poll => {
                    self.abort.check()?;
                    if !event.is_done().map_err(refused)? {
                        return Ok(false);
                    }
                }
                // Work of a host's queue cannot wait for the device: the order is established by waiting here.
                Wait::Host | Wait::On(_) => handle.wait(&mut || event.is_done().map_err(refused))?,
            }
            flying.pop_front();
        }
        ticket.done = true;
        Ok(true)
    }

    fn run(&mut self, call: &Call) -> Result<()> {
        if is_on_host(call) {
            return self.run_staged(call);
        }
        self.issue(std::slice::from_ref(call))?;
        self.wait_for_last()
    }

    fn enqueue(&mut self, call: &Call) -> Result<()> {
        self.issue(std::slice::from_ref(call))
    }

    fn drain(&mut self) -> Result<()> {
        self.wait_for_last()
    }

    fn check_in_flight(&mut self) -> Result<()> {
        self.handle.check_in_flight()
    }

    fn abandon(&mut self) {
        self.handle.abandon();
    }

    fn capture(&mut self, call: &Call, times: u32) -> Result<Graph> {
        // The library makes its connections at the first call: no part of a graph.
        self.issue(std::slice::from_ref(call))?;
        self.wait_for_last()?;
        self.gpu.begin_capture(None).map_err(refused)?;
        let issued = (0..times).try_for_each(|_| self.issue(std::slice::from_ref(call)));
        let graph = self.gpu.end_capture(None);
        issued.and_then(|()| graph.map_err(refused))
    }

    fn replay(&mut self, graph: &Graph, _operation: Collective) -> Result<()> {
        self.abort.check()?;
        graph.launch(None).map_err(refused)
    }

    fn enqueue_grouped(&mut self, call: &Call, times: u32) -> Result<()> {
        if is_on_host(call) {
            return Err(Error::Unsupported { backend: NAME, what: format!("group {} in memory of the host", call.op) });
        }
        let scratch = (self.small.address() + STAGED) as *mut u8;
        let stream = Stream(self.gpu.stream());
        // SAFETY: as in `issue`.
        unsafe { self.handle.issue_grouped(call, times, scratch, stream) }
    }

    fn register(&mut self, region: &Arc<Region>, how: Registration) -> Result<Box<dyn Any>> {
        let own = self.handle.register(region, how);
        // A rank that cannot leaves; the others must not wait for it in the library.
        let all = self.agree(own.is_ok())?;
        let own = own?;
        match all {
            true => Ok(Box::new(own)),
            false => Err(Error::Unsupported { backend: NAME, what: "register a buffer of another rank".to_owned() }),
        }
    }

    fn begin_device_time(&mut self) -> Result<()> {
        self.points.first.record().map_err(refused)
    }

    fn device_ns(&mut self) -> Result<Option<f64>> {
        self.points.last.since(&self.points.first).map(Some).map_err(refused)
    }

    fn library_bytes(&self) -> Option<u64> {
        // What others take of a GPU that is shared cannot be told apart.
        let free = self.gpu.free_bytes().ok().filter(|_| !self.devices.shared)?;
        Some(self.free_at_first.saturating_sub(free).saturating_sub(self.gpu.held_bytes()))
    }

    fn control(&mut self) -> Option<&mut dyn Communicator> {
        match &mut self.control {
            Some(control) => Some(&mut **control),
            None => None,
        }
    }

    fn path(&self, call: &Call) -> &'static str {
        self.handle.way(call.op)
    }

    fn devices(&self) -> Devices {
        self.devices
    }

    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        let control = match &mut self.control {
            Some(control) => control.split(color, key)?,
            None => None,
        };
        let Some(handle) = self.handle.split(color, key)? else { return Ok(None) };
        let gpu = Opened { gpu: self.gpu.clone(), devices: self.devices };
        let before = (control, self.free_at_first);
        let mut part = Self::new(handle, self.symbols.clone(), gpu, self.abort.clone(), before)?;
        part.points = self.points.clone();
        Ok(Some(Box::new(part)))
    }
}
