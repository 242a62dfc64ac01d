//! Threads of a rank that run one job at a time, all at once.
//!
//! Not the engine's pool: that wakes threads from sleep, which takes longer than a pass over a first-level cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use engine::cores::run_on;

/// Looks for the next job before a thread sleeps: some tens of microseconds, longer than the time between two calls.
const LOOKS: u32 = 20_000;

/// A job, as an address: threads use it only while [`Team::run`] waits for them.
type TeamJob = *const (dyn Fn(usize) + Sync);

/// What the threads share.
struct SharedJob {
    /// Counts jobs.
    number: AtomicU64,
    /// The job of this number. Written while no thread runs one.
    job: std::cell::UnsafeCell<Option<TeamJob>>,
    /// Threads that have not finished it.
    left: AtomicUsize,
    ended: AtomicBool,
}

// SAFETY: `job` is written by the owner while `left` is 0, and read by threads between the increase of `number` (release)
// and their decrease of `left` (release); the owner waits for 0 (acquire) before it writes again.
unsafe impl Sync for SharedJob {}
// SAFETY: the address in `job` is only used while the job lives, see `Team::run`.
unsafe impl Send for SharedJob {}

/// The threads; the caller of [`Team::run`] is thread 0.
pub(super) struct Team {
    shared: Arc<SharedJob>,
    others: Vec<JoinHandle<()>>,
}

impl Team {
    /// `count` threads, thread t on core `first + t` (around) of these. The caller stays where it is.
    ///
    /// # Errors
    /// When the system does not give them.
    pub(super) fn new(count: usize, first: usize, cores: &[u32]) -> std::io::Result<Self> {
        let shared = Arc::new(SharedJob {
            number: AtomicU64::new(0),
            job: std::cell::UnsafeCell::new(None),
            left: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        });
        let mut team = Self { shared, others: Vec::new() };
        for thread in 1..count {
            let core = cores.get((first + thread) % cores.len().max(1)).copied();
            let shared = team.shared.clone();
            let work = move || {
                run_on(core.as_slice());
                serve(&shared, thread);
            };
            team.others.push(std::thread::Builder::new().name(format!("team-{thread}")).spawn(work)?);
        }
        Ok(team)
    }

    /// Threads, the caller among them.
    pub(super) fn count(&self) -> usize {
        self.others.len() + 1
    }

    /// Runs `job(thread)` on all threads, and returns when all have finished.
    pub(super) fn run<'j>(&mut self, job: &'j (dyn Fn(usize) + Sync + 'j)) {
        // SAFETY: only the lifetime changes. Threads use the job until they decrease `left`, which this waits for.
        let erased = unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + 'j), TeamJob>(job) };
        // SAFETY: no thread runs a job, so none reads it.
        unsafe { *self.shared.job.get() = Some(erased) };
        self.shared.left.store(self.others.len(), Ordering::Relaxed);
        self.shared.number.fetch_add(1, Ordering::Release);
        self.others.iter().for_each(|thread| thread.thread().unpark());
        job(0);
        let mut looks = 0;
        while self.shared.left.load(Ordering::Acquire) > 0 {
            looks += 1;
            // More threads than cores: the one that is waited for needs this core.
            if looks > LOOKS { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// Runs jobs until the team ends.
fn serve(shared: &SharedJob, thread: usize) {
    let mut done = 0;
    loop {
        let mut looks = 0;
        while shared.number.load(Ordering::Acquire) == done {
            looks += 1;
            if looks > LOOKS { std::thread::park() } else { std::hint::spin_loop() }
        }
        done += 1;
        if shared.ended.load(Ordering::Acquire) {
            return;
        }
        // SAFETY: written before `number` was increased, and kept until `left` is decreased.
        if let Some(job) = unsafe { *shared.job.get() } {
            // SAFETY: `Team::run` keeps the job alive until this thread has decreased `left`.
            unsafe { (*job)(thread) };
        }
        shared.left.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.number.fetch_add(1, Ordering::Release);
        for thread in self.others.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_runs_every_job_once() {
        for count in [1, 2, 5] {
            let mut team = Team::new(count, 0, &[]).unwrap();
            assert_eq!(team.count(), count);
            let ran: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            for round in 1..=300 {
                team.run(&|thread| {
                    ran[thread].fetch_add(1, Ordering::Relaxed);
                });
                assert!(ran.iter().all(|times| times.load(Ordering::Relaxed) == round), "{count} threads");
                // Long enough that some threads sleep.
                if round % 100 == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
            }
        }
    }
}
