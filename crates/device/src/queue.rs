//! Queues: where work is ordered. The host queue runs work at once. Two stand for a device's stream, so that code which forgets to
//! order itself after a queue fails on a laptop: the simulated queue runs work later, on a thread of its own, and the late queue
//! runs it only when somebody waits for it. The queue of a GPU is one of its streams.

mod late;

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::cuda::{self, CudaError, Stream};
use late::Late;

/// A point in a queue: done when all that was submitted before it is done. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Event(QueuePoint);

#[derive(Clone, Debug, Default)]
enum QueuePoint {
    #[default]
    Done,
    Gate(Arc<QueueGate>),
    /// Done once so much of the queue has run.
    Late(Arc<Late>, u64),
    Cuda(Arc<cuda::Event>),
}

#[derive(Debug, Default)]
struct QueueGate {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    /// An event that is done already.
    pub const fn done() -> Self {
        Self(QueuePoint::Done)
    }

    /// An event that is done once [`Event::set`] is called.
    pub fn pending() -> Self {
        Self(QueuePoint::Gate(Arc::default()))
    }

    /// A point of a GPU's stream that was recorded already.
    pub fn of_gpu(event: Arc<cuda::Event>) -> Self {
        Self(QueuePoint::Cuda(event))
    }

    /// The point of a GPU's stream that it is.
    pub fn gpu(&self) -> Option<&Arc<cuda::Event>> {
        match &self.0 {
            QueuePoint::Cuda(event) => Some(event),
            _ => None,
        }
    }

    /// Marks one that was pending done, and wakes who waits.
    pub fn set(&self) {
        if let QueuePoint::Gate(gate) = &self.0 {
            *gate.open.lock().unwrap_or_else(PoisonError::into_inner) = true;
            gate.changed.notify_all();
        }
    }

    /// Whether it is done. An error of a GPU ends what waits for it, and comes back from the GPU's next call.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            QueuePoint::Done => true,
            QueuePoint::Gate(gate) => *gate.open.lock().unwrap_or_else(PoisonError::into_inner),
            QueuePoint::Late(queue, number) => queue.has_run(*number),
            QueuePoint::Cuda(event) => event.is_done().unwrap_or(true),
        }
    }

    /// Runs what a late queue still has to run before it: looking whether it is done would make no progress there.
    pub fn drive(&self) {
        if let QueuePoint::Late(queue, number) = &self.0 {
            queue.run_through(*number);
        }
    }

    /// Blocks the calling thread until it is done.
    pub fn wait(&self) {
        match &self.0 {
            QueuePoint::Done => {}
            QueuePoint::Gate(gate) => {
                let mut open = gate.open.lock().unwrap_or_else(PoisonError::into_inner);
                while !*open {
                    open = gate.changed.wait(open).unwrap_or_else(PoisonError::into_inner);
                }
            }
            QueuePoint::Late(queue, number) => queue.run_through(*number),
            QueuePoint::Cuda(event) => {
                while !event.is_done().unwrap_or(true) {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

type QueuedWork = Box<dyn FnOnce() + Send>;

/// An ordered sequence of work.
#[derive(Debug)]
pub struct Queue {
    kind: QueueKind,
}

#[derive(Debug)]
enum QueueKind {
    Host,
    Simulated { sender: Option<Sender<QueuedWork>>, worker: Option<JoinHandle<()>> },
    Late(Arc<Late>),
    Cuda { stream: Arc<Stream>, failed: Mutex<Option<CudaError>> },
}

impl Queue {
    /// The calling thread itself: submitted work has run when `submit` returns.
    pub const fn host() -> Self {
        Self { kind: QueueKind::Host }
    }

    /// An asynchronous queue on a thread of its own: stands for a device's stream.
    pub fn simulated() -> Self {
        let (sender, receiver) = channel::<QueuedWork>();
        let worker = std::thread::spawn(move || receiver.into_iter().for_each(|work| work()));
        Self { kind: QueueKind::Simulated { sender: Some(sender), worker: Some(worker) } }
    }

    /// A queue that runs nothing until somebody waits for it, and then no more than that waits for, on the thread that waits: a
    /// device that is as slow as the order of its work permits.
    pub fn late() -> Self {
        Self { kind: QueueKind::Late(Arc::default()) }
    }

    /// A stream of a GPU. What the driver refuses comes back from [`Queue::failure`].
    pub fn cuda(stream: Arc<Stream>) -> Self {
        Self { kind: QueueKind::Cuda { stream, failed: Mutex::default() } }
    }

    /// Whether submitted work has run when `submit` returns.
    pub const fn is_host(&self) -> bool {
        matches!(self.kind, QueueKind::Host)
    }

    /// Whether work takes its time by another clock than the host's.
    pub const fn is_timed(&self) -> bool {
        matches!(self.kind, QueueKind::Cuda { .. })
    }

    /// The stream of a GPU that it is.
    pub fn stream(&self) -> Option<&Arc<Stream>> {
        match &self.kind {
            QueueKind::Cuda { stream, .. } => Some(stream),
            _ => None,
        }
    }

    /// Appends work of the host. The queue of a GPU cannot run it in its order: it is waited for before.
    pub fn submit(&self, work: impl FnOnce() + Send + 'static) {
        match &self.kind {
            QueueKind::Host => work(),
            QueueKind::Simulated { sender, .. } => {
                let sender = sender.as_ref().expect("present until drop");
                sender.send(Box::new(work)).expect("the worker lives until drop");
            }
            QueueKind::Late(late) => late.submit(Box::new(work)),
            QueueKind::Cuda { stream, .. } => {
                self.note(stream.synchronise());
                work();
            }
        }
    }

    /// The event of everything submitted so far.
    pub fn record(&self) -> Event {
        match &self.kind {
            QueueKind::Host => Event::done(),
            QueueKind::Simulated { .. } => {
                let event = Event::pending();
                let set = event.clone();
                self.submit(move || set.set());
                event
            }
            QueueKind::Late(late) => Event(QueuePoint::Late(late.clone(), late.submitted())),
            QueueKind::Cuda { stream, .. } => match self.note(stream.point()) {
                Some(event) => Event::of_gpu(Arc::new(event)),
                None => Event::done(),
            },
        }
    }

    /// Work submitted from now on runs after `event`. A GPU waits for its own events by itself, and for others the host waits.
    pub fn wait(&self, event: &Event) {
        if let (QueueKind::Cuda { stream, .. }, Some(point)) = (&self.kind, event.gpu()) {
            self.note(stream.hold(point));
            return;
        }
        if matches!(self.kind, QueueKind::Cuda { .. }) {
            return event.wait();
        }
        let event = event.clone();
        self.submit(move || event.wait());
    }

    /// Blocks the calling thread until everything submitted so far is done.
    pub fn synchronise(&self) {
        match &self.kind {
            QueueKind::Cuda { stream, .. } => drop(self.note(stream.synchronise())),
            _ => self.record().wait(),
        }
    }

    /// The first thing that a GPU's driver refused since the last look.
    pub fn failure(&self) -> Option<CudaError> {
        match &self.kind {
            QueueKind::Cuda { failed, .. } => failed.lock().unwrap_or_else(PoisonError::into_inner).take(),
            _ => None,
        }
    }

    fn note<T>(&self, result: cuda::Result<T>) -> Option<T> {
        if let (QueueKind::Cuda { failed, .. }, Err(error)) = (&self.kind, &result) {
            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.clone());
        }
        result.ok()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if let QueueKind::Simulated { sender, worker } = &mut self.kind {
            drop(sender.take());
            // A panic in submitted work has already failed the test or process that submitted it.
            let _ = worker.take().map(JoinHandle::join);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn simulated_queue_runs_in_order_and_later() {
        let (queue, gate, seen) = (Queue::simulated(), Event::pending(), Arc::new(AtomicU32::new(0)));
        queue.wait(&gate);
        let writer = seen.clone();
        queue.submit(move || writer.store(1, Ordering::SeqCst));
        let done = queue.record();
        assert!(!done.is_done());
        assert_eq!(seen.load(Ordering::SeqCst), 0);
        gate.set();
        done.wait();
        assert_eq!(seen.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_late_queue_runs_what_is_waited_for_and_no_more() {
        let (queue, seen) = (Queue::late(), Arc::new(AtomicU32::new(0)));
        let mut events = Vec::new();
        for number in 1..=3 {
            let seen = seen.clone();
            queue.submit(move || {
                assert_eq!(seen.swap(number, Ordering::SeqCst), number - 1, "in order");
            });
            events.push(queue.record());
        }
        assert!(!events[0].is_done());
        events[1].wait();
        assert_eq!(seen.load(Ordering::SeqCst), 2);
        assert!(events[0].is_done() && events[1].is_done() && !events[2].is_done());
        queue.synchronise();
        assert_eq!(seen.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn late_queues_wait_for_each_other() {
        let (one, other, seen) = (Queue::late(), Queue::late(), Arc::new(AtomicU32::new(0)));
        let note = |number: u32| {
            let seen = seen.clone();
            move || {
                seen.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |all| Some(10 * all + number)).unwrap();
            }
        };
        one.submit(note(1));
        other.wait(&one.record());
        other.submit(note(2));
        one.wait(&other.record());
        one.submit(note(3));
        other.submit(note(4));
        one.synchronise();
        assert_eq!(seen.load(Ordering::SeqCst), 123, "and what nobody waited for has not run");
    }
}
