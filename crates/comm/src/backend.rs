//! The contract: what a backend offers and what a communicator does.

use std::any::Any;
use std::sync::Arc;

use device::cuda::Graph;
use device::{Queue, Region, Slice};
use terms::{Collective, Direction, Dtype, Field, FieldError, Reduce, Registration, Space};
use trace::Clock;

use crate::{
    Abort, Asked, Bootstrap, Clocks, Counts, Error, Launch, Operation, Options, Own, Result, StartedBy, Tools,
};

/// One operation on this rank. Layouts and lengths: the table in `layout.rs`. Where the slices lie says whether it is in place.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which operation.
    pub op: Collective,
    /// What this rank gives. Empty where it gives nothing (a scatter's other ranks).
    pub input: Slice,
    /// What this rank gets. Empty where it gets nothing (a gather's other ranks).
    pub output: Slice,
    /// The element type.
    pub dtype: Dtype,
    /// The operator; ignored by operations that do not reduce.
    pub reduce: Reduce,
    /// The root, or the partner of rank 0 in a ping_pong; ignored by the others.
    pub peer: u32,
    /// Which ways data flows, for `send_recv`; ignored by the others.
    pub direction: Direction,
    /// Elements from each rank to each rank, for `all_to_allv`; None for the others.
    pub counts: Option<Arc<Counts>>,
}

/// Who makes asynchronous work proceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Work runs inside `start` or a waiting `finish`: nothing overlaps.
    Caller,
    /// Work proceeds in every `finish(.., Poll)`.
    Poll,
    /// A thread of the communicator.
    Thread,
    /// The device.
    Device,
}

/// What a communicator can do beyond the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Who makes asynchronous work proceed.
    pub progress: Progress,
    /// Whether memory from [`Communicator::alloc`] is reached by peers without copying.
    pub peer_view: bool,
}

/// Where this rank stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// This rank, from 0.
    pub rank: u32,
    /// Ranks in this communicator.
    pub size: u32,
    /// What it can do.
    pub capabilities: Capabilities,
}

/// A started group. Must be finished on the communicator that started it; groups finish in the order they started.
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Counts the groups of a communicator.
    pub number: u64,
    /// Whether it is complete already.
    pub done: bool,
}

/// How to wait for a ticket.
#[derive(Clone, Copy, Debug)]
pub enum Wait<'a> {
    /// Block this thread until the group is complete.
    Host,
    /// Return at once; work submitted to the queue from now on runs after the group is complete.
    On(&'a Queue),
    /// Return at once; the result tells whether the group is complete.
    Poll,
}

/// A rank's end of a group of ranks. All ranks call the same operations in the same order.
pub trait Communicator: Send {
    /// Where this rank stands.
    fn shape(&self) -> &Shape;

    /// Memory for buffers, zeroed. Collective, and of the same `bytes` on every rank; freed when the region is dropped.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] or [`crate::Error::System`], before anything is touched.
    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>>;

    /// Memory that no peer needs to reach, zeroed: not collective, and of any length.
    ///
    /// # Errors
    /// As [`Communicator::alloc`].
    fn alloc_private(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        match space {
            Space::Host => Region::host(bytes)
                .map_err(|source| Error::System { what: format!("map {bytes} bytes of memory"), source }),
            Space::Cuda => Err(Error::InvalidCall("these ranks have no GPU".to_owned())),
        }
    }

    /// Starts a group of operations. They are launched together: none of them waits for a later one of the group, and
    /// every rank gives them in the same order. Inputs are read only after all that was submitted to `after` before.
    ///
    /// # Errors
    /// An invalid or unsupported call, before anything starts; [`crate::Error::Aborted`]; a lost peer.
    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket>;

    /// Waits for a group; true when it is complete (always after [`Wait::Host`]; with [`Wait::On`], true means that the
    /// order is established: what goes wrong later comes back from the next call).
    ///
    /// # Errors
    /// [`crate::Error::Aborted`], a lost peer, ranks that disagree.
    fn finish(&mut self, ticket: &mut Ticket, how: Wait<'_>) -> Result<bool>;

    /// Rank `peer`'s part of the allocation that `region` is this rank's part of, if this rank can reach it: from
    /// [`Communicator::alloc`], where [`Capabilities::peer_view`] holds. It keeps the memory mapped, and is not a buffer for
    /// operations. The caller keeps out of it while operations run, and sees to it that no two ranks collide.
    fn peer_view(&self, _region: &Arc<Region>, _peer: u32) -> Option<Arc<Region>> {
        None
    }

    /// A communicator of the ranks that give the same color, ordered by key, then by rank. Collective. None for ranks
    /// that give no color.
    ///
    /// # Errors
    /// As [`Communicator::start`].
    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>>;

    /// Splits as [`Communicator::split`], for another thread of this rank: no hook sees the operations of the new
    /// communicator. Collective.
    ///
    /// # Errors
    /// As [`Communicator::start`].
    fn split_unwatched(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        self.split(color, key)
    }

    /// The clock that this communicator's operations take their time on: fake for a simulated one.
    fn clock(&self) -> Clock {
        Clock::Monotonic
    }

    /// Runs one operation to its end on the calling thread.
    ///
    /// # Errors
    /// As `start` and `finish`.
    fn run(&mut self, call: &Call) -> Result<()> {
        let mut ticket = self.start(std::slice::from_ref(call), &Queue::host())?;
        if !ticket.done {
            self.finish(&mut ticket, Wait::Host)?;
        }
        Ok(())
    }

    /// Gives one operation to the device, in the order of earlier ones, and returns before it is complete. Where calls run on the
    /// calling thread, as [`Communicator::run`].
    ///
    /// # Errors
    /// As [`Communicator::start`].
    fn enqueue(&mut self, call: &Call) -> Result<()> {
        self.run(call)
    }

    /// Waits until all that was enqueued is complete.
    ///
    /// # Errors
    /// As [`Communicator::finish`].
    fn drain(&mut self) -> Result<()> {
        Ok(())
    }

    /// Looks, without waiting, for what keeps operations in flight from ever being complete: for who waits for the queue of a device
    /// that comes after them. Where calls run on the calling thread none is in flight.
    ///
    /// # Errors
    /// [`crate::Error::Aborted`], and what the library noticed by itself: a lost peer.
    fn check_in_flight(&mut self) -> Result<()> {
        Ok(())
    }

    /// Ends what is in flight where it stands, so that the queue of a device that comes after it goes on: what a rank does once it
    /// has failed. No operation succeeds afterwards.
    fn abandon(&mut self) {}

    /// Captures so many of one operation as a graph of the device. Runs the operation once before. Collective.
    ///
    /// # Errors
    /// [`crate::Error::InvalidCall`] without a device; else as [`Communicator::start`].
    fn capture(&mut self, _call: &Call, _times: u32) -> Result<Graph> {
        Err(Error::InvalidCall("a graph needs ranks that have a GPU".to_owned()))
    }

    /// Gives a graph of this communicator to the device, as [`Communicator::enqueue`] gives an operation.
    ///
    /// # Errors
    /// As [`Communicator::start`].
    fn replay(&mut self, graph: &Graph, _operation: Collective) -> Result<()> {
        graph.launch(None).map_err(|error| Error::Library { what: error.what.to_owned(), said: error.to_string() })
    }

    /// Gives so many of one operation to the device as one launch.
    ///
    /// # Errors
    /// [`crate::Error::InvalidCall`] without a device; else as [`Communicator::start`].
    fn enqueue_grouped(&mut self, _call: &Call, _times: u32) -> Result<()> {
        Err(Error::InvalidCall("grouped operations need ranks that have a GPU".to_owned()))
    }

    /// Registers a buffer of [`Communicator::alloc`] until what is given back is dropped, which must be before the communicator.
    /// Collective.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] where the library has no such thing.
    fn register(&mut self, _region: &Arc<Region>, _how: Registration) -> Result<Box<dyn Any>> {
        Err(Error::InvalidCall("registered buffers need ranks that have a GPU".to_owned()))
    }

    /// From here on the device's own clock measures what it is given, up to the next [`Communicator::drain`]. Nothing where calls
    /// run on the calling thread.
    ///
    /// # Errors
    /// As [`Communicator::finish`].
    fn begin_device_time(&mut self) -> Result<()> {
        Ok(())
    }

    /// Nanoseconds of the device between the last two of these; None without a device.
    ///
    /// # Errors
    /// As [`Communicator::finish`].
    fn device_ns(&mut self) -> Result<Option<f64>> {
        Ok(None)
    }

    /// Bytes of its device that the library took for itself since this rank joined; None where that is not known.
    fn library_bytes(&self) -> Option<u64> {
        None
    }

    /// A communicator of these ranks in memory of the host, where that is another one: for what ranks agree on between calls. A
    /// barrier of a device takes ten times as long.
    fn control(&mut self) -> Option<&mut dyn Communicator> {
        None
    }

    /// Whether this call may be given with buffers in memory of GPUs, where [`GpuMemory::ThroughHost`] holds. The same on all
    /// ranks.
    fn takes_gpu_memory(&self, _call: &Call) -> bool {
        false
    }

    /// What is to be known of the devices that its ranks work on.
    fn devices(&self) -> Devices {
        Devices::default()
    }

    /// Which path an operation of these bytes takes here ("direct", "staged", "eager"...), for the record.
    fn path(&self, _call: &Call) -> &'static str {
        ""
    }
}

/// What is to be known of the devices that ranks work on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// The devices are stand-ins in memory of the host.
    pub emulated: bool,
    /// Several ranks work on one of them.
    pub shared: bool,
}

/// How a backend moves memory of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuMemory {
    /// Not at all.
    Never,
    /// The backend opens GPUs and allocates there.
    Itself,
    /// By buffers of the host, unless [`Communicator::takes_gpu_memory`].
    ThroughHost,
}

/// What a backend says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The one spelling of the backend's name.
    pub name: &'static str,
    /// One line for help.
    pub doc: &'static str,
    /// Whether its times are computed and not measured. No path may drop this mark.
    pub simulated: bool,
    /// Whether its ranks may be threads of one process only.
    pub in_process: bool,
    /// Whether its ranks must be processes that its library's own launcher started.
    pub launched: bool,
    /// Whether its ranks must be on one host.
    pub one_host: bool,
}

/// Whether a backend can run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The backend can run.
    Ready {
        /// Version of the library, or of this program.
        version: String,
        /// Path of the library, where there is one.
        path: Option<String>,
    },
    /// The backend cannot run.
    Missing {
        /// What lacks.
        why: String,
        /// How to fix it.
        hint: String,
    },
}

/// A call that ranks ask for, as far as a library may refuse it.
#[derive(Clone, Copy, Debug)]
pub struct CallForm {
    /// Which.
    pub op: Collective,
    /// Ranks that make it together.
    pub ranks: u32,
    /// Whether it is a mean of floating-point numbers, which must be exact.
    pub is_exact_mean: bool,
    /// Whether native ranks make it in one buffer.
    pub in_place: bool,
}

/// A way to move data.
pub trait Backend: Sync {
    /// What it says of itself.
    fn about(&self) -> &About;

    /// Whether it can run here. Cheap, and leaves nothing behind.
    fn probe(&self) -> Readiness;

    /// As [`Backend::probe`], with this library instead of the one that it would choose. A backend without libraries has
    /// nothing to choose.
    fn probe_library(&self, _library: Option<&str>) -> Readiness {
        self.probe()
    }

    /// Whether several threads of a rank may call it at once, each on its own communicator, where no progress thread runs the
    /// operations.
    fn takes_threads(&self) -> bool {
        true
    }

    /// Why its library does not make this call, or not exactly. None: it does.
    fn refuses(&self, _call: CallForm) -> Option<String> {
        None
    }

    /// Whether native ranks on GPUs can record its calls and launch them again, launch several at once, and make their buffers
    /// known to it.
    fn records_launches(&self) -> bool {
        false
    }

    /// How it moves memory of GPUs.
    fn gpu_memory(&self) -> GpuMemory {
        GpuMemory::Never
    }

    /// Fields that this backend alone understands, each with it as [`Field::owner`].
    fn fields(&self) -> &'static [Field] {
        &[]
    }

    /// Checks the values of its own fields, and gives each its one spelling. `environment` are the NAME=value entries that
    /// the case adds to its ranks.
    ///
    /// # Errors
    /// The first value that it refuses.
    fn check(&self, _own: &mut Own, _environment: &[String]) -> std::result::Result<(), FieldError> {
        Ok(())
    }

    /// Changes its own fields' values for one round of a run. A simulated backend draws other noise in each.
    fn for_round(&self, _own: &mut Own, _round: u32) {}

    /// Variables in the ranks' environment by which its library gets the backend's own fields.
    fn environment(&self, _own: &Own) -> Vec<(String, String)> {
        Vec::new()
    }

    /// How its ranks start, where [`About::launched`] says that they are not children of the coordinator.
    ///
    /// # Errors
    /// What this host lacks.
    fn launch(&self, _own: &Own, _asked: Asked<'_>, _tools: &dyn Tools) -> std::result::Result<Launch, String> {
        Err(format!("`{}` has no launcher of its own", self.about().name))
    }

    /// Whether its ranks can be those of such a launcher, where [`About::launched`]. Looks for no library.
    ///
    /// # Errors
    /// Why they cannot.
    fn accepts(&self, _by: StartedBy<'_>) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Whether its ranks can be those that this launcher has started already, where [`About::launched`]: settles its own
    /// fields, and gives the variables that the ranks need besides. `environment` is the user's.
    ///
    /// # Errors
    /// Why they cannot.
    fn join(
        &self,
        _own: &mut Own,
        by: StartedBy<'_>,
        _environment: &[(String, String)],
    ) -> std::result::Result<Vec<(String, String)>, String> {
        Err(format!("`{}` cannot use ranks that {} started", self.about().name, by.launcher))
    }

    /// Bytes that each rank holds for a group of so many ranks, without its buffers: memory predictions add them for every
    /// split.
    fn group_bytes(&self, _ranks: u32) -> u64 {
        0
    }

    /// Joins this rank with its peers. Collective.
    ///
    /// # Errors
    /// What could not be opened, and what that needs.
    fn open(&self, bootstrap: &mut dyn Bootstrap, options: &Options) -> Result<(Box<dyn Communicator>, Abort)>;

    /// What computes the times of a world whose ranks nobody starts. None: times are those of ranks.
    ///
    /// # Errors
    /// Own options that cannot be read.
    fn model(&self, _own: &Own) -> Result<Option<Box<dyn Model>>> {
        Ok(None)
    }
}

/// Computes when each rank leaves an operation from when each entered it. The same as a world of its backend shows whose ranks
/// run the same operations.
pub trait Model {
    /// Moves the clock of each rank from where it enters the operation to where it leaves.
    fn run(&mut self, operation: &Operation, clocks: &mut Clocks);

    /// Whether an operation always lasts as long, for ranks that enter it together.
    fn is_constant(&self) -> bool;
}
