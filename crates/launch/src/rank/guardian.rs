//! The rank's guardian: one thread that beats while the rank works, and ends the process when its coordinator is gone.
//!
//! One thread for both, because each thread that wakes disturbs what is measured. It sleeps without a limit while the
//! rank rests (an idle world wakes nobody), and runs on any allowed core, so that on an otherwise idle machine it does
//! not interrupt a rank that is bound to one.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use comm::Abort;
use process::{Alarm, CoreMask, Interest, PollSet};
use trace::StatusSlot;

use crate::departure::ORPHANED;

/// Between two beats. The coordinator calls a rank stopped after [`crate::member::SILENCE`], twenty beats.
const BEAT: Duration = Duration::from_millis(100);

/// How long a rank may take to leave its collective after its coordinator is gone. Then its process is ended.
const GRACE: Duration = Duration::from_secs(1);

/// A handle to the rank's guardian.
#[derive(Clone)]
pub struct Guardian(Arc<SharedGuard>);

struct SharedGuard {
    /// The rank obeys a command or starts.
    working: AtomicBool,
    /// The guardian sleeps without a limit.
    asleep: AtomicBool,
    /// Wakes it.
    alarm: Alarm,
    aborts: Mutex<Aborts>,
}

#[derive(Default)]
struct Aborts {
    gone: bool,
    registered: Vec<Abort>,
}

impl Guardian {
    /// Starts it, awake.
    pub(super) fn start(stream: TcpStream, slot: Arc<dyn trace::StatusPage>, cores: &[u32]) -> io::Result<Self> {
        let alarm = Alarm::new()?;
        let (working, asleep) = (AtomicBool::new(true), AtomicBool::new(false));
        let shared = Arc::new(SharedGuard { working, asleep, alarm, aborts: Mutex::default() });
        let (theirs, mask) = (shared.clone(), CoreMask::new(cores));
        std::thread::Builder::new().name("guardian".to_owned()).stack_size(128 << 10).spawn(move || {
            // Where this is refused, it stays on the rank's core and costs a little there.
            let _ = mask.bind_this_thread();
            theirs.watch(&stream, (*slot).as_ref());
        })?;
        Ok(Self(shared))
    }

    /// Raises `abort` when the coordinator is gone; at once, if it is gone already.
    pub fn raise_on_loss(&self, abort: Abort) {
        let mut aborts = self.0.aborts.lock().unwrap_or_else(PoisonError::into_inner);
        if aborts.gone {
            abort.raise();
        }
        aborts.registered.push(abort);
    }

    /// The rank begins to work: the guardian beats.
    pub(super) fn work(&self) {
        // Both sides write their flag before they read the other's (sequentially consistent), so that either the
        // guardian sees that there is work and stays awake, or this thread sees it asleep and wakes it.
        self.0.working.store(true, Ordering::SeqCst);
        if self.0.asleep.swap(false, Ordering::SeqCst) {
            self.0.alarm.ring();
        }
    }

    /// The rank waits for its next command: the guardian falls asleep at its next beat.
    pub(super) fn rest(&self) {
        self.0.working.store(false, Ordering::SeqCst);
    }
}

impl SharedGuard {
    fn watch(&self, stream: &TcpStream, slot: &StatusSlot) {
        let mut polls = PollSet::default();
        loop {
            slot.beat();
            self.asleep.store(true, Ordering::SeqCst);
            let sleeps = !self.working.load(Ordering::SeqCst);
            if !sleeps {
                self.asleep.store(false, Ordering::SeqCst);
            }
            polls.clear();
            let coordinator = polls.add(stream.as_fd(), Interest::Gone);
            let alarm = polls.add(self.alarm.as_fd(), Interest::Read);
            if polls.wait(if sleeps { None } else { Some(BEAT) }).is_err() || polls.happened(coordinator) {
                self.leave();
            }
            if polls.happened(alarm) {
                self.alarm.silence();
            }
        }
    }

    /// Ends this process because its coordinator is gone: waits in collectives end with an error, and if the rank has
    /// not left by itself then, it is ended where it stands. The one place in a library that ends a process: nobody is
    /// left to tell, and an orphan would keep cores and memory.
    #[expect(clippy::disallowed_methods, reason = "nobody is left to tell")]
    fn leave(&self) -> ! {
        {
            let mut aborts = self.aborts.lock().unwrap_or_else(PoisonError::into_inner);
            aborts.gone = true;
            aborts.registered.iter().for_each(Abort::raise);
        }
        std::thread::sleep(GRACE);
        // SAFETY: ends the process without running anything; `exit` would run destructors under threads that still use
        // what they destroy.
        unsafe { libc::_exit(ORPHANED) }
    }
}
