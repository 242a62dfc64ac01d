//! Stands for a communicator that works on a stream of a device: operations run only when somebody waits for them, in the order in
//! which they were started. Code that forgets to wait then finds what was there before, each time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use device::{Event, Queue, Region};
use terms::Space;
use trace::Clock;

use crate::{Abort, Call, Communicator, Devices, Error, Progress, Result, Shape, Ticket, Wait, wait};

/// See the module's documentation. What is split off shares the queue, as communicators of one device share its stream, unless it is
/// [`Late::apart`].
pub struct Late {
    inner: Arc<Mutex<Box<dyn Communicator>>>,
    queue: Arc<Queue>,
    is_apart: bool,
    shape: Shape,
    clock: Clock,
    abort: Abort,
    /// The first error of an operation that ran, until somebody can be told.
    failed: Arc<Mutex<Option<Error>>>,
    flying: VecDeque<(u64, Event)>,
    started: u64,
}

impl Late {
    /// Runs the operations of `inner` as late as waits permit.
    pub fn new(inner: Box<dyn Communicator>, abort: Abort) -> Self {
        Self::on(inner, abort, Arc::new(Queue::late()))
    }

    /// Runs the operations of `inner` as late as waits permit, with a queue for each communicator that is split off: waiting for
    /// one does not make another proceed. Ranks that wait for each other in different orders then wait for ever.
    pub fn apart(inner: Box<dyn Communicator>, abort: Abort) -> Self {
        Self { is_apart: true, ..Self::new(inner, abort) }
    }

    fn on(inner: Box<dyn Communicator>, abort: Abort, queue: Arc<Queue>) -> Self {
        let mut shape = inner.shape().clone();
        shape.capabilities.progress = Progress::Device;
        let clock = inner.clock();
        let (inner, failed, flying) = (Arc::new(Mutex::new(inner)), Arc::default(), VecDeque::new());
        Self { inner, queue, is_apart: false, shape, clock, abort, failed, flying, started: 0 }
    }

    /// The inner communicator, once all that was started has run.
    fn idle(&self) -> MutexGuard<'_, Box<dyn Communicator>> {
        self.queue.synchronise();
        lock(&self.inner)
    }

    fn claim(&self) -> Result<()> {
        lock(&self.failed).take().map_or(Ok(()), Err)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(inner: &Mutex<Box<dyn Communicator>>, group: &[Call], after: &Event, abort: &Abort) -> Result<()> {
    wait::for_event(after, abort)?;
    let mut inner = lock(inner);
    let mut ticket = inner.start(group, &Queue::host())?;
    if !ticket.done {
        inner.finish(&mut ticket, Wait::Host)?;
    }
    Ok(())
}

impl Communicator for Late {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        self.idle().alloc(bytes, space)
    }

    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        self.abort.check()?;
        self.claim()?;
        group.iter().try_for_each(|call| call.validate(&self.shape))?;
        let (inner, failed, group) = (self.inner.clone(), self.failed.clone(), group.to_vec());
        let (after, abort) = (after.record(), self.abort.clone());
        self.queue.submit(move || {
            if let Err(error) = run(&inner, &group, &after, &abort) {
                lock(&failed).get_or_insert(error);
            }
        });
        let number = self.started;
        self.started += 1;
        self.flying.push_back((number, self.queue.record()));
        Ok(Ticket { number, done: false })
    }

    fn finish(&mut self, ticket: &mut Ticket, how: Wait<'_>) -> Result<bool> {
        while let Some((number, event)) = self.flying.front() {
            if *number > ticket.number {
                break;
            }
            match how {
                Wait::Host => event.wait(),
                Wait::On(queue) => queue.wait(event),
                // Who asks waits, too: nobody else would make it proceed.
                Wait::Poll => event.drive(),
            }
            self.flying.pop_front();
        }
        ticket.done = true;
        self.claim().map(|()| true)
    }

    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        let part = self.idle().split(color, key)?;
        let (queue, abort, is_apart) = (self.queue.clone(), self.abort.clone(), self.is_apart);
        let queue = if is_apart { Arc::new(Queue::late()) } else { queue };
        Ok(part.map(|part| Box::new(Self { is_apart, ..Self::on(part, abort, queue) }) as Box<dyn Communicator>))
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn devices(&self) -> Devices {
        lock(&self.inner).devices()
    }

    fn path(&self, call: &Call) -> &'static str {
        lock(&self.inner).path(call)
    }
}
