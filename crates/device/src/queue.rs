//! Queues: where work is ordered. The host queue runs work at once; the simulated queue runs it later, on a thread of
//! its own, in order, as a stream does, so that code which forgets to order itself after a queue fails on a laptop.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

/// A point in a queue: done when all that was submitted before it is done. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Event(Option<Arc<Gate>>);

#[derive(Debug, Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    /// An event that is done already.
    pub const fn done() -> Self {
        Self(None)
    }

    /// An event that is done once [`Event::set`] is called.
    pub fn pending() -> Self {
        Self(Some(Arc::default()))
    }

    /// Marks it done and wakes who waits.
    pub fn set(&self) {
        if let Some(gate) = &self.0 {
            *gate.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
            gate.changed.notify_all();
        }
    }

    /// Whether it is done.
    pub fn is_done(&self) -> bool {
        self.0.as_ref().is_none_or(|gate| *gate.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Blocks the calling thread until it is done.
    pub fn wait(&self) {
        if let Some(gate) = &self.0 {
            let mut open = gate.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            while !*open {
                open = gate.changed.wait(open).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
        }
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// An ordered sequence of work.
#[derive(Debug)]
pub struct Queue {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Host,
    Simulated { sender: Option<Sender<Work>>, worker: Option<JoinHandle<()>> },
}

impl Queue {
    /// The calling thread itself: submitted work has run when `submit` returns.
    pub const fn host() -> Self {
        Self { kind: Kind::Host }
    }

    /// An asynchronous queue on a thread of its own: stands for a device's stream.
    pub fn simulated() -> Self {
        let (sender, receiver) = channel::<Work>();
        let worker = std::thread::spawn(move || receiver.into_iter().for_each(|work| work()));
        Self { kind: Kind::Simulated { sender: Some(sender), worker: Some(worker) } }
    }

    /// Whether submitted work has run when `submit` returns.
    pub const fn is_host(&self) -> bool {
        matches!(self.kind, Kind::Host)
    }

    /// Appends work.
    pub fn submit(&self, work: impl FnOnce() + Send + 'static) {
        match &self.kind {
            Kind::Host => work(),
            Kind::Simulated { sender, .. } => {
                let sender = sender.as_ref().expect("present until drop");
                sender.send(Box::new(work)).expect("the worker lives until drop");
            }
        }
    }

    /// The event of everything submitted so far.
    pub fn record(&self) -> Event {
        if self.is_host() {
            return Event::done();
        }
        let event = Event::pending();
        let set = event.clone();
        self.submit(move || set.set());
        event
    }

    /// Work submitted from now on runs after `event`.
    pub fn wait(&self, event: &Event) {
        let event = event.clone();
        self.submit(move || event.wait());
    }

    /// Blocks the calling thread until everything submitted so far is done.
    pub fn synchronise(&self) {
        self.record().wait();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if let Kind::Simulated { sender, worker } = &mut self.kind {
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
}
