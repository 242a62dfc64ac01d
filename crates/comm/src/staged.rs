//! Memory of GPUs by a communicator of the host's: each call goes through buffers there.
//!
//! The GPU's copy engine brings the input to the host, the inner communicator works there, and the engine takes the output back.
//! Operations that treat each element alike are cut into pieces: while the inner communicator works on one, the next is on its way
//! from the GPU, and the one before on its way back. `cut` says where the pieces lie; `buffers` are the host's, and what goes on
//! between them and the GPU. Where the inner communicator takes the GPU's own addresses, it gets those.

mod buffers;
mod cut;

use std::sync::Arc;

use device::cuda::{CudaError, Gpu};
use device::{Queue, Region};
use terms::{Collective, Space};
use trace::Clock;

use crate::agree::agree;
use crate::gpus::{self, Opened};
use crate::{Abort, Call, Capabilities, Communicator, Devices, Error, Progress, Result, Shape, Ticket, Wait, wait};
use buffers::{Buffers, CopyLanes};
use cut::Cut;
pub use cut::host_bytes;

pub(crate) struct Staged {
    /// Name of the inner backend, for errors.
    backend: &'static str,
    inner: Box<dyn Communicator>,
    shape: Shape,
    opened: Opened,
    abort: Abort,
    /// Give the core away between two looks at a copy.
    yields: bool,
    /// Dropped before the lanes: these end copies that are under way.
    buffers: Option<Buffers>,
    /// Buffers of a ping_pong, whose other ranks do not know its size: not of the inner communicator's [`Communicator::alloc`].
    of_pair: Option<Buffers>,
    lanes: CopyLanes,
    /// A word of the host.
    word: Arc<Region>,
    started: u64,
}

impl Staged {
    /// Calls on memory of this GPU by `inner`, the backend of this name.
    ///
    /// # Errors
    /// What the driver says.
    pub(crate) fn new(
        inner: Box<dyn Communicator>,
        opened: Opened,
        abort: Abort,
        (backend, yields): (&'static str, bool),
    ) -> Result<Self> {
        let capabilities = Capabilities { progress: Progress::Caller, peer_view: false };
        let shape = Shape { capabilities, ..inner.shape().clone() };
        let lanes = CopyLanes::new(&opened.gpu).map_err(|error| gpus::refused(backend, error))?;
        let word = Region::host(8);
        let word = word.map_err(|source| Error::System { what: "map 8 bytes of memory".to_owned(), source })?;
        let (buffers, of_pair, started) = (None, None, 0);
        Ok(Self { backend, inner, shape, opened, abort, yields, buffers, of_pair, lanes, word, started })
    }

    fn gpu(&self) -> &Arc<Gpu> {
        &self.opened.gpu
    }

    /// Whether it holds on all ranks. Collective.
    fn agree(&mut self, own: bool) -> Result<bool> {
        agree(&mut *self.inner, &self.word.whole(), own)
    }

    /// Has buffers of the host for a call. Collective, except for a ping_pong.
    fn make_room(&mut self, op: Collective, cut: &Cut) -> Result<()> {
        let bytes = cut.host_bytes();
        let is_of_pair = op == Collective::PingPong;
        let held = if is_of_pair { &mut self.of_pair } else { &mut self.buffers };
        if held.as_ref().is_some_and(|held| held.len() >= bytes) {
            return Ok(());
        }
        *held = None;
        let host = match is_of_pair {
            true => self.inner.alloc_private(bytes, Space::Host),
            false => self.inner.alloc(bytes, Space::Host),
        };
        let pinned = |host: Arc<Region>| {
            let too_much = |error: CudaError| match error.is_out_of_memory() {
                true => Error::Unsupported { backend: self.backend, what: format!("pin {bytes} bytes: {error}") },
                false => gpus::refused(self.backend, error),
            };
            Buffers::new(&self.opened.gpu, host).map_err(too_much)
        };
        let made = host.and_then(pinned);
        if is_of_pair {
            self.of_pair = Some(made?);
            return Ok(());
        }
        // A rank that has none leaves; the others must not wait for it.
        let all = self.agree(made.is_ok())?;
        let what = || format!("pin {bytes} bytes on another rank");
        self.buffers = Some(made?);
        if all { Ok(()) } else { Err(Error::Unsupported { backend: self.backend, what: what() }) }
    }

    /// A valid call that the inner communicator makes on memory of the GPU.
    fn run_there(&mut self, call: &Call) -> Result<()> {
        let refused = |error| gpus::refused(self.backend, error);
        let copies = call.op == Collective::Broadcast && call.peer == self.shape.rank && !call.is_in_place();
        if copies {
            call.output.copy_from(&call.input, None).map_err(refused)?;
        }
        // The library knows nothing of the stream that fills the buffers.
        self.gpu().synchronise().map_err(refused)?;
        match copies {
            true => self.inner.run(&Call { input: call.output.clone(), ..call.clone() }),
            false => self.inner.run(call),
        }
    }

    /// A call on memory of the GPU.
    fn run_on_gpu(&mut self, call: &Call) -> Result<()> {
        call.validate(&self.shape)?;
        if self.inner.takes_gpu_memory(call) {
            return self.run_there(call);
        }
        let cut = Cut::new(call, &self.shape);
        self.make_room(call.op, &cut)?;
        let Self { buffers, of_pair, lanes, inner, abort, yields, backend, .. } = self;
        let Some(buffers) = (if call.op == Collective::PingPong { of_pair } else { buffers }) else { return Ok(()) };
        let done = lanes.through(buffers, &cut, (*backend, *yields, abort), |input, output| {
            inner.run(&Call { input, output, counts: call.counts.clone(), ..*call })
        });
        if done.is_err() {
            // Nothing may be under way to memory that the caller gives back.
            lanes.empty();
        }
        done
    }
}

/// Where a call's buffers lie.
fn space(call: &Call) -> Result<Space> {
    let [input, output] = [&call.input, &call.output].map(|slice| slice.region().space());
    match (input, output) {
        (Space::Host, Space::Host) => Ok(Space::Host),
        (Space::Cuda, Space::Cuda) => Ok(Space::Cuda),
        _ if call.input.is_empty() => Ok(output),
        _ if call.output.is_empty() => Ok(input),
        _ => Err(Error::InvalidCall(format!("{}: one buffer is the host's and one a GPU's", call.op))),
    }
}

impl Communicator for Staged {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        if space == Space::Host {
            return self.inner.alloc(bytes, space);
        }
        let own = gpus::buffer(self.backend, self.gpu(), bytes);
        let all = self.agree(own.is_ok())?;
        let region = own?;
        if all { Ok(region) } else { Err(gpus::lacking_elsewhere(bytes)) }
    }

    fn alloc_private(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        match space {
            Space::Host => self.inner.alloc_private(bytes, space),
            Space::Cuda => gpus::buffer(self.backend, self.gpu(), bytes),
        }
    }

    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        wait::for_queue(after, &self.abort)?;
        group.iter().try_for_each(|call| self.run(call))?;
        Ok(crate::at_once::finished(&mut self.started))
    }

    fn finish(&mut self, ticket: &mut Ticket, _how: Wait<'_>) -> Result<bool> {
        // Everything ran inside `start`, so that every order asked for is established.
        ticket.done = true;
        Ok(true)
    }

    fn run(&mut self, call: &Call) -> Result<()> {
        match space(call)? {
            Space::Host => self.inner.run(call),
            // It has no bytes to bring, and the inner communicator may look at where they would be.
            Space::Cuda if call.op == Collective::Barrier => {
                let nothing = self.word.slice(0, 0).unwrap_or_else(|| self.word.whole());
                self.inner.run(&Call { input: nothing.clone(), output: nothing, counts: None, ..*call })
            }
            Space::Cuda => self.run_on_gpu(call),
        }
    }

    fn control(&mut self) -> Option<&mut dyn Communicator> {
        Some(&mut *self.inner)
    }

    fn devices(&self) -> Devices {
        self.opened.devices
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    fn path(&self, call: &Call) -> &'static str {
        match space(call) {
            Ok(Space::Cuda) if call.op == Collective::Barrier => self.inner.path(call),
            Ok(Space::Cuda) if self.inner.takes_gpu_memory(call) => "device pointers",
            Ok(Space::Cuda) => "staged through the host",
            _ => self.inner.path(call),
        }
    }

    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        let Some(part) = self.inner.split(color, key)? else { return Ok(None) };
        let part = Self::new(part, self.opened.clone(), self.abort.clone(), (self.backend, self.yields))?;
        Ok(Some(Box::new(part)))
    }
}
