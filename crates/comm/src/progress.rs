//! The progress-thread wrapper: operations of any communicator run on a thread of their own, so that they overlap with
//! what the caller computes.
//!
//! `start` puts the group into a bounded ring and returns; the thread waits for the queue that the group comes after,
//! runs it to its end, and goes on to the next. What went wrong comes back at `finish`. `alloc`, `split` and `path`
//! wait until the ring is empty and then use the inner communicator from the calling thread, so that it is never used
//! by two threads at once.
//!
//! Dropping it finishes what was started, as MPI_Finalize does; the abort ends that too.

mod handoff;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use device::{Event, Queue, Region};
use terms::Space;
use trace::Clock;

use crate::{Abort, Call, Communicator, Devices, Error, Options, Progress, Result, Shape, Ticket, Wait, wait};
use handoff::{Bed, SPIN};

/// Groups that may be in flight; the next `start` waits for room.
const CAPACITY: usize = 64;

/// A communicator that runs its operations on a thread of its own.
pub struct Threaded {
    shared: Arc<SharedProgress>,
    worker: Option<JoinHandle<()>>,
    shape: Shape,
    clock: Clock,
    options: Options,
    /// Groups below this number were given to a queue: nobody may come back for what went wrong in them.
    handed: u64,
}

/// What the caller and the thread share.
struct SharedProgress {
    inner: Mutex<Box<dyn Communicator>>,
    abort: Abort,
    spin: u32,
    slots: Vec<Mutex<Slot>>,
    submitted: Counter,
    completed: Counter,
    stop: AtomicBool,
    worker_bed: Bed,
    caller_bed: Bed,
    failed: AtomicBool,
    failures: Mutex<Vec<(u64, Error)>>,
}

/// On a cache line of its own: each side writes one and spins on the other.
#[repr(align(128))]
#[derive(Default)]
struct Counter(AtomicU64);

/// Calls that most groups are made of.
const USUAL: usize = 2;

/// A group in the ring.
struct Slot {
    /// Kept from group to group, so that a start allocates nothing.
    calls: Vec<Call>,
    after: Event,
    /// What a queue waits for until the group is complete.
    then: Option<Event>,
}

impl Slot {
    /// With room for the usual group: the first start of each slot allocates nothing either.
    fn new() -> Self {
        Self { calls: Vec::with_capacity(USUAL), after: Event::done(), then: None }
    }
}

impl Threaded {
    /// Runs the operations of `inner` on a new thread, on [`Options::progress_core`] where given, else where the caller
    /// may run. It spins briefly for work before it sleeps, unless ranks outnumber cores.
    ///
    /// # Errors
    /// [`Error::System`] when the thread cannot be started or may not run on that core.
    pub fn new(inner: Box<dyn Communicator>, abort: Abort, options: &Options) -> Result<Self> {
        let mut shape = inner.shape().clone();
        shape.capabilities.progress = Progress::Thread;
        let clock = inner.clock();
        let spin = if options.oversubscribed || shares_a_core(options) { 0 } else { SPIN };
        let shared = Arc::new(SharedProgress {
            inner: Mutex::new(inner),
            abort,
            spin,
            slots: (0..CAPACITY).map(|_| Mutex::new(Slot::new())).collect(),
            submitted: Counter::default(),
            completed: Counter::default(),
            stop: AtomicBool::new(false),
            worker_bed: Bed::default(),
            caller_bed: Bed::default(),
            failed: AtomicBool::new(false),
            failures: Mutex::default(),
        });
        let worker = Some(spawn(shared.clone(), options.progress_core)?);
        Ok(Self { shared, worker, shape, clock, options: options.clone(), handed: 0 })
    }

    /// Blocks until the thread has completed the groups below `number`.
    fn await_completed(&self, number: u64) -> Result<()> {
        let shared = &*self.shared;
        let ready = || shared.completed.0.load(Ordering::Acquire) >= number;
        shared.caller_bed.wait(shared.spin, ready, || {
            if self.worker.as_ref().is_none_or(JoinHandle::is_finished) && !ready() {
                let source = std::io::Error::other("it panicked");
                return Err(Error::System { what: "run operations on the progress thread".to_owned(), source });
            }
            shared.abort.check()
        })
    }

    /// The failure of a group below `number`, if it was not returned yet.
    fn claim(&self, number: u64) -> Result<()> {
        if !self.shared.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut failures = self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match failures.iter().position(|(failed, _)| *failed < number) {
            Some(at) => Err(failures.remove(at).1),
            None => Ok(()),
        }
    }

    /// The inner communicator, once the ring is empty.
    fn idle(&self) -> Result<MutexGuard<'_, Box<dyn Communicator>>> {
        self.await_completed(self.shared.submitted.0.load(Ordering::Relaxed))?;
        Ok(self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has `queue` wait for the group, unless it is complete already.
    fn order(&self, number: u64, queue: &Queue) -> bool {
        let mut slot = self.shared.slot(number);
        // The thread completes a group under this lock, so either we see that or it sees the event.
        if self.shared.completed.0.load(Ordering::Acquire) > number {
            return false;
        }
        queue.wait(slot.then.get_or_insert_with(Event::pending));
        true
    }
}

impl SharedProgress {
    fn slot(&self, number: u64) -> MutexGuard<'_, Slot> {
        self.slots[number as usize % CAPACITY].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread.
    fn serve(&self) {
        for number in 0.. {
            let is_there = || self.submitted.0.load(Ordering::Acquire) > number;
            let ready = || is_there() || self.stop.load(Ordering::Acquire);
            let Ok(()) = self.worker_bed.wait(self.spin, ready, || Ok::<(), std::convert::Infallible>(()));
            if !is_there() {
                return;
            }
            let (mut calls, after) = {
                let mut slot = self.slot(number);
                (std::mem::take(&mut slot.calls), std::mem::take(&mut slot.after))
            };
            let result = wait::for_event(&after, &self.abort).and_then(|()| self.execute(&calls));
            calls.clear();
            self.complete(number, calls, result);
        }
    }

    fn execute(&self, calls: &[Call]) -> Result<()> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let [call] = calls {
            return inner.run(call);
        }
        let mut ticket = inner.start(calls, &Queue::host())?;
        if !ticket.done {
            inner.finish(&mut ticket, Wait::Host)?;
        }
        Ok(())
    }

    fn complete(&self, number: u64, calls: Vec<Call>, result: Result<()>) {
        if let Err(error) = result {
            self.failures.lock().unwrap_or_else(PoisonError::into_inner).push((number, error));
            self.failed.store(true, Ordering::Release);
        }
        let then = {
            let mut slot = self.slot(number);
            slot.calls = calls;
            self.completed.0.store(number + 1, Ordering::Release);
            slot.then.take()
        };
        // Also when it failed: a queue that waits for ever would hide why.
        if let Some(then) = then {
            then.set();
        }
        self.caller_bed.wake();
    }
}

impl Communicator for Threaded {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        self.idle()?.alloc(bytes, space)
    }

    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        self.shared.abort.check()?;
        self.claim(self.handed)?;
        group.iter().try_for_each(|call| call.validate(&self.shape))?;
        let number = self.shared.submitted.0.load(Ordering::Relaxed);
        if number >= CAPACITY as u64 {
            self.await_completed(number + 1 - CAPACITY as u64)?;
        }
        {
            let mut slot = self.shared.slot(number);
            slot.calls.extend_from_slice(group);
            slot.after = after.record();
        }
        self.shared.submitted.0.store(number + 1, Ordering::Release);
        self.shared.worker_bed.wake();
        Ok(Ticket { number, done: false })
    }

    fn finish(&mut self, ticket: &mut Ticket, how: Wait<'_>) -> Result<bool> {
        match how {
            // A stream of a GPU cannot wait for the thread: the caller does.
            Wait::On(queue) if !queue.is_host() && queue.stream().is_none() => {
                if self.order(ticket.number, queue) {
                    self.handed = self.handed.max(ticket.number + 1);
                    self.shared.abort.check()?;
                    return Ok(true);
                }
            }
            Wait::Host | Wait::On(_) => self.await_completed(ticket.number + 1)?,
            Wait::Poll => {
                if self.shared.completed.0.load(Ordering::Acquire) <= ticket.number {
                    self.shared.abort.check()?;
                    return Ok(false);
                }
            }
        }
        ticket.done = true;
        self.claim(ticket.number + 1)?;
        Ok(true)
    }

    fn peer_view(&self, region: &Arc<Region>, peer: u32) -> Option<Arc<Region>> {
        self.idle().ok()?.peer_view(region, peer)
    }

    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        let child = self.idle()?.split(color, key)?;
        let threaded = child.map(|child| Self::new(child, self.shared.abort.clone(), &self.options)).transpose()?;
        Ok(threaded.map(|child| Box::new(child) as Box<dyn Communicator>))
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn devices(&self) -> Devices {
        self.idle().map_or(Devices::default(), |inner| inner.devices())
    }

    fn path(&self, call: &Call) -> &'static str {
        // While groups are in flight the thread holds the communicator; after an abort nobody needs to know.
        self.idle().map_or("", |inner| inner.path(call))
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.worker_bed.wake();
        // A panic of the thread was reported by the wait that it ended.
        let _ = self.worker.take().map(JoinHandle::join);
    }
}

/// Whether spinning would only keep the other thread from running: one core for both.
fn shares_a_core(options: &Options) -> bool {
    options.progress_core.is_none() && std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1)
}

fn spawn(shared: Arc<SharedProgress>, core: Option<u32>) -> Result<JoinHandle<()>> {
    let (report, placed) = mpsc::channel();
    let body = move || {
        run_soon();
        let pinned = core.map_or(Ok(()), pin);
        let serves = pinned.is_ok();
        // The receiver waits for exactly this.
        let _ = report.send(pinned);
        if serves {
            shared.serve();
        }
    };
    let spawned = std::thread::Builder::new().name("rankmark-progress".to_owned()).spawn(body);
    let worker = spawned.map_err(|source| Error::System { what: "start the progress thread".to_owned(), source })?;
    let ended = |_| Error::last_os("start the progress thread");
    placed.recv().map_err(ended)??;
    Ok(worker)
}

/// Has the kernel run the calling thread as soon as it wakes, though others compute on its core: it asks for short slices,
/// which come before long ones (Linux 6.12). A step of an exchange takes microseconds, and without that each wakes up to a whole
/// slice of the computation late, some 3 ms. Older kernels do not know of it, and nothing is lost there. A policy that the
/// user chose (`chrt`) stays.
fn run_soon() {
    const SLICE_NS: u64 = 100_000;
    // SAFETY: plain calls; a zeroed `sched_attr` is a valid one, read by the system within the call.
    unsafe {
        if libc::sched_getscheduler(0) != libc::SCHED_OTHER {
            return;
        }
        let mut wished: libc::sched_attr = std::mem::zeroed();
        wished.size = size_of::<libc::sched_attr>() as u32;
        wished.sched_policy = libc::SCHED_OTHER as u32;
        wished.sched_nice = libc::getpriority(libc::PRIO_PROCESS, 0);
        wished.sched_runtime = SLICE_NS;
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const wished, 0);
    }
}

/// Pins the calling thread.
fn pin(core: u32) -> Result<()> {
    let failed = || Error::last_os(format!("pin the progress thread to core {core}"));
    if core >= libc::CPU_SETSIZE as u32 {
        let source = std::io::Error::from_raw_os_error(libc::EINVAL);
        return Err(Error::System { what: format!("pin the progress thread to core {core}"), source });
    }
    // SAFETY: a zeroed set is an empty one; the core lies inside it; the system reads it and keeps nothing.
    let status = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if status == 0 { Ok(()) } else { Err(failed()) }
}
