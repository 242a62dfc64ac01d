//! A rank's end of the library's communicator.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use device::Region;
use terms::{Collective, Dtype, Reduce, Registration};

use super::registration::Registered;
use super::steps::{Step, Whole, data_type, operator, single, steps};
use super::symbols::{Code, Comm, IN_PROGRESS, NAME, Symbols, UNIQUE_ID_BYTES, UniqueId};
use crate::{Abort, Bootstrap, Call, Capabilities, Error, Progress, Result, Shape};

/// Looks at the stream between two looks at the library's own errors.
const LOOKS: u64 = 64;

/// A stream of the device, as the library wants it: a cudaStream_t or hipStream_t.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(pub *mut c_void);

/// ncclComm_t with its rank and size. Ends with ncclCommDestroy; with ncclCommAbort once its [`Abort`] was raised or an
/// error came of it.
#[derive(Debug)]
pub struct Handle {
    symbols: Arc<Symbols>,
    /// What the library has as one call.
    whole: Whole,
    comm: Comm,
    shape: Shape,
    abort: Abort,
    /// Whether an error came of it: what streams were given may then never be done, and destroying would wait for it.
    is_broken: bool,
    /// False once the library has freed the communicator.
    alive: Arc<AtomicBool>,
}

// SAFETY: the library lets any one thread at a time use a communicator, and `&mut self` sees to it that it is one.
unsafe impl Send for Handle {}

impl Handle {
    /// Joins this rank with its peers: rank 0's unique id reaches all over the bootstrap. Collective. The rank's device
    /// must be the calling thread's current one.
    ///
    /// The library waits for the peers inside ncclCommInitRank, where nothing can be polled: a caller that waits for one that
    /// never comes is ended with its process, by the coordinator's deadline. A communicator that does not block
    /// (ncclCommInitRankConfig) was rejected: all of its later calls, groups included, must be asked about until they
    /// are done.
    ///
    /// # Errors
    /// [`Error::Library`] with the library's words.
    pub fn join(symbols: Arc<Symbols>, bootstrap: &mut dyn Bootstrap, abort: Abort) -> Result<Self> {
        let place = bootstrap.place();
        // An error of rank 0 travels as no bytes, so that no rank waits for an id that never comes.
        let made = (place.rank == 0).then(|| symbols.unique_id());
        let own = made.as_ref().and_then(|id| id.as_ref().ok()).map_or(&[][..], |id| &id.0[..]);
        let gathered = bootstrap.all_gather(own)?;
        made.transpose()?;
        let id: [u8; UNIQUE_ID_BYTES] = gathered
            .first()
            .and_then(|bytes| bytes.as_slice().try_into().ok())
            .ok_or_else(|| Error::Mismatch("rank 0 has made no unique id of this library".to_owned()))?;
        let (rank, size) = (int(place.rank)?, int(place.size)?);
        let mut comm = std::ptr::null_mut();
        // SAFETY: as nccl.h declares it; the out-pointer is valid.
        let code = unsafe { (symbols.init_rank)(&mut comm, size, UniqueId(id), rank) };
        symbols.succeeded("ncclCommInitRank", None, code)?;
        Ok(Self::new(symbols, comm, place.rank, place.size, abort))
    }

    fn new(symbols: Arc<Symbols>, comm: Comm, rank: u32, size: u32, abort: Abort) -> Self {
        let capabilities = Capabilities { progress: Progress::Device, peer_view: false };
        Self {
            whole: Whole::from_symbols(&symbols),
            symbols,
            comm,
            shape: Shape { rank, size, capabilities },
            abort,
            is_broken: false,
            alive: Arc::new(AtomicBool::new(true)),
        }
    }

    /// How the library makes an operation, where there are two ways.
    pub fn way(&self, op: Collective) -> &'static str {
        match op {
            Collective::AllToAll | Collective::Gather | Collective::Scatter if !self.whole.has(op) => {
                "sends and receives"
            }
            _ => "",
        }
    }

    /// Where this rank stands.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Gives the operations to the stream, in order; returns before they are complete.
    ///
    /// # Errors
    /// An invalid or unsupported call, before anything is given; [`Error::Library`]; [`Error::Aborted`].
    ///
    /// # Safety
    /// The slices, and `scratch` (one byte), are memory that the library may access from the stream's device until the
    /// stream has run what is given here; nobody else writes to it until then.
    pub unsafe fn issue(&mut self, calls: &[Call], scratch: *mut u8, stream: Stream) -> Result<()> {
        self.usable()?;
        if let [call] = calls {
            call.validate(&self.shape)?;
            // Outside a group: opening and closing one takes as long as a short call.
            if let Some(step) = single(call, &self.shape, scratch, self.whole) {
                // SAFETY: the caller's promise.
                return unsafe { self.step(call, &step, stream) };
            }
        }
        let planned: Vec<(&Call, Vec<Vec<Step>>)> = calls
            .iter()
            .map(|call| Ok((call, steps(call, &self.shape, scratch, self.whole)?)))
            .collect::<Result<_>>()?;
        for (call, groups) in planned {
            for group in groups.iter().filter(|group| !group.is_empty()) {
                // SAFETY: the caller's promise.
                unsafe { self.group(call, group, stream)? };
            }
        }
        Ok(())
    }

    /// Gives so many of one operation to the stream as one group: the library launches them together.
    ///
    /// # Errors
    /// As [`Handle::issue`].
    ///
    /// # Safety
    /// As [`Handle::issue`].
    pub unsafe fn issue_grouped(&mut self, call: &Call, times: u32, scratch: *mut u8, stream: Stream) -> Result<()> {
        self.usable()?;
        let steps = steps(call, &self.shape, scratch, self.whole)?.concat();
        let all: Vec<Step> = (0..times).flat_map(|_| steps.iter().copied()).collect();
        // SAFETY: the caller's promise.
        unsafe { self.group(call, &all, stream) }
    }

    /// Registers a buffer. Collective for windows.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the library lacks it; [`Error::Library`].
    pub(super) fn register(&mut self, region: &Arc<Region>, how: Registration) -> Result<Registered> {
        self.usable()?;
        Registered::new(&self.symbols, (self.comm, self.alive.clone()), region, how)
    }

    /// # Safety
    /// As [`Handle::issue`].
    unsafe fn group(&mut self, call: &Call, group: &[Step], stream: Stream) -> Result<()> {
        // SAFETY: as nccl.h declares it.
        self.check("ncclGroupStart", unsafe { (self.symbols.group_start)() })?;
        // SAFETY: the caller's promise.
        let issued = group.iter().try_for_each(|step| unsafe { self.step(call, step, stream) });
        // A group that was opened is closed whatever happened in it: the next would nest in it.
        // SAFETY: as nccl.h declares it.
        let ended = self.check("ncclGroupEnd", unsafe { (self.symbols.group_end)() });
        issued.and(ended)
    }

    /// # Safety
    /// As [`Handle::issue`].
    unsafe fn step(&mut self, call: &Call, step: &Step, Stream(stream): Stream) -> Result<()> {
        let (symbols, comm) = (&self.symbols, self.comm);
        // A barrier's one element is a byte that is summed, whatever the call says of types that it has none of.
        let (dtype, op) = match call.op {
            Collective::Barrier => (Dtype::U8, Reduce::Sum),
            _ => (call.dtype, call.reduce),
        };
        let (dtype, op) = (data_type(dtype), operator(op));
        let count = |count: u64| count as usize;
        // SAFETY: all as nccl.h declares them; ranks and roots were checked against the communicator's size, and the
        // memory is the caller's promise.
        let (name, code) = unsafe {
            match *step {
                Step::AllReduce { from, to, count: n } => {
                    ("ncclAllReduce", (symbols.all_reduce)(from.cast(), to.cast(), count(n), dtype, op, comm, stream))
                }
                Step::Reduce { from, to, count: n, root } => (
                    "ncclReduce",
                    (symbols.reduce)(from.cast(), to.cast(), count(n), dtype, op, int(root)?, comm, stream),
                ),
                Step::Broadcast { from, to, count: n, root } => (
                    "ncclBroadcast",
                    (symbols.broadcast)(from.cast(), to.cast(), count(n), dtype, int(root)?, comm, stream),
                ),
                Step::AllGather { from, to, count: n } => {
                    ("ncclAllGather", (symbols.all_gather)(from.cast(), to.cast(), count(n), dtype, comm, stream))
                }
                Step::ReduceScatter { from, to, count: n } => (
                    "ncclReduceScatter",
                    (symbols.reduce_scatter)(from.cast(), to.cast(), count(n), dtype, op, comm, stream),
                ),
                Step::AllToAll { from, to, count: n } => {
                    let call = self.symbols.all_to_all.ok_or_else(|| lacking("ncclAlltoAll"))?;
                    ("ncclAlltoAll", call(from.cast(), to.cast(), count(n), dtype, comm, stream))
                }
                Step::Gather { from, to, count: n, root } => {
                    let call = self.symbols.gather.ok_or_else(|| lacking("ncclGather"))?;
                    ("ncclGather", call(from.cast(), to.cast(), count(n), dtype, int(root)?, comm, stream))
                }
                Step::Scatter { from, to, count: n, root } => {
                    let call = self.symbols.scatter.ok_or_else(|| lacking("ncclScatter"))?;
                    ("ncclScatter", call(from.cast(), to.cast(), count(n), dtype, int(root)?, comm, stream))
                }
                Step::Send { from, count: n, peer } => {
                    ("ncclSend", (symbols.send)(from.cast(), count(n), dtype, int(peer)?, comm, stream))
                }
                Step::Recv { to, count: n, peer } => {
                    ("ncclRecv", (symbols.recv)(to.cast(), count(n), dtype, int(peer)?, comm, stream))
                }
            }
        };
        self.check(name, code)
    }

    /// Waits until `complete` says that the stream has run what was given. Ends early when the [`Abort`] is raised, or
    /// when the library notices an error of its own (a peer that is gone, a network that fails). Does not sleep: a pause of 100 us
    /// is much of a sample.
    ///
    /// # Errors
    /// [`Error::Aborted`], [`Error::Library`], what `complete` gives.
    pub fn wait(&mut self, complete: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        for turn in 1_u64.. {
            if complete().inspect_err(|_| self.is_broken = true)? {
                break;
            }
            if self.abort.is_raised() {
                self.end();
                return Err(Error::Aborted);
            }
            std::hint::spin_loop();
            // Asking takes as long as a short call does.
            if turn % LOOKS == 0 {
                self.ask()?;
            }
        }
        Ok(())
    }

    /// Looks for an abort and for an error that the library noticed of itself.
    ///
    /// # Errors
    /// [`Error::Aborted`], [`Error::Library`].
    pub(super) fn check_in_flight(&mut self) -> Result<()> {
        self.abort.check()?;
        self.ask()
    }

    /// What streams were given of it ends where it stands, and nothing is issued any more.
    pub(super) fn abandon(&mut self) {
        self.is_broken = true;
        self.end();
    }

    /// Whether the communicator is neither aborted nor abandoned.
    fn usable(&self) -> Result<()> {
        self.abort.check()?;
        self.alive()
    }

    /// The library still has it.
    fn alive(&self) -> Result<()> {
        if self.comm.is_null() { Err(Error::Aborted) } else { Ok(()) }
    }

    /// The library's own errors: a peer that is gone, a network that fails.
    fn ask(&mut self) -> Result<()> {
        self.alive()?;
        let mut code: Code = 0;
        // SAFETY: as nccl.h declares it; the communicator is alive, and the out-pointer is valid.
        let asked = unsafe { (self.symbols.async_error)(self.comm, &mut code) };
        self.check("ncclCommGetAsyncError", asked)?;
        if code == IN_PROGRESS { Ok(()) } else { self.check("a group", code) }
    }

    /// A communicator of the ranks that give the same color, ordered by key, then by rank. Collective. None for ranks
    /// that give no color.
    ///
    /// # Errors
    /// As [`Handle::issue`], and where a color or key has no room in the library's `int`.
    pub fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Self>> {
        /// NCCL_SPLIT_NOCOLOR.
        const NO_COLOR: c_int = -1;
        self.usable()?;
        let color = color.map_or(Ok(NO_COLOR), int)?;
        let mut comm = std::ptr::null_mut();
        // SAFETY: as nccl.h declares it; the out-pointer is valid, and no configuration means the parent's.
        let code = unsafe { (self.symbols.split)(self.comm, color, int(key)?, &mut comm, std::ptr::null_mut()) };
        self.check("ncclCommSplit", code)?;
        if comm.is_null() {
            return Ok(None);
        }
        let mut of = Self::new(self.symbols.clone(), comm, 0, 0, self.abort.clone());
        (of.shape.rank, of.shape.size) = of.asked()?;
        Ok(Some(of))
    }

    /// Rank and size, as the library has them.
    fn asked(&mut self) -> Result<(u32, u32)> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: as nccl.h declares them; the out-pointers are valid.
        let codes =
            unsafe { [(self.symbols.user_rank)(self.comm, &mut rank), (self.symbols.count)(self.comm, &mut size)] };
        codes.into_iter().try_for_each(|code| self.check("ncclCommUserRank or ncclCommCount", code))?;
        let negative = |_| Error::Mismatch(format!("the library says rank {rank} of {size}"));
        Ok((u32::try_from(rank).map_err(negative)?, u32::try_from(size).map_err(negative)?))
    }

    fn check(&mut self, what: &str, code: Code) -> Result<()> {
        self.symbols.succeeded(what, Some(self.comm), code).inspect_err(|_| self.is_broken = true)
    }

    /// Once: the library frees the communicator.
    fn end(&mut self) {
        let comm = std::mem::replace(&mut self.comm, std::ptr::null_mut());
        if comm.is_null() {
            return;
        }
        self.alive.store(false, Ordering::Release);
        // Destroying waits for what was given to streams; aborting does not. What either says, nobody can act on.
        // SAFETY: as nccl.h declares them; the communicator is alive, and nobody uses it afterwards.
        unsafe {
            if self.is_broken || self.abort.is_raised() {
                (self.symbols.abort)(comm)
            } else {
                (self.symbols.destroy)(comm)
            };
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.end();
    }
}

fn lacking(function: &str) -> Error {
    Error::Unsupported { backend: NAME, what: format!("call {function}: the library does not have it") }
}

fn int(number: u32) -> Result<c_int> {
    c_int::try_from(number).map_err(|_| Error::InvalidCall(format!("{number} is too large for the library")))
}
