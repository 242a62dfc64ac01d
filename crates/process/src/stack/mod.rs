//! The stack of another process, read from outside: the process need not answer, and a stopped one runs no handler.
//!
//! Each thread is stopped by ptrace for the microseconds that its registers and stack take to read, and goes on as it was: a
//! process that was stopped stays stopped. What the stack means is found out after that. All threads of a process together are
//! stopped for about 50 ms at most, usually for 1 to 15 ms. A call that a signal may interrupt without a handler (`epoll_wait`)
//! may return `EINTR` in it, as after SIGSTOP and SIGCONT. Files of the process are read as hostile ones: all sizes are bounded.

mod elf;
mod frame;
mod memory;
mod modules;
mod permission;
mod python;
mod registers;
mod seized;
mod thread;
mod unwind;

use std::io;
use std::time::{Duration, Instant};

use memory::ProcessMemory;
use modules::Modules;
use registers::Registers;
use seized::Seized;

pub use frame::{Frame, Thread};
pub use python::{PythonFrame, PythonReader, PythonThread, python_stack};

/// Frames of one thread, at most.
const FRAMES: usize = 128;
/// Threads, at most; the main thread is the first.
const THREADS: usize = 64;
/// How long all threads of a process together may be stopped; those that are left then have no frames.
const STOPPED: Duration = Duration::from_millis(50);

/// The threads of a process, and where each stands.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    /// The main thread first.
    pub threads: Vec<Thread>,
    /// Why there are no native frames, and which permission gives them.
    pub lacking: Option<String>,
    /// Whether it runs Python. Native frames tell little of its work.
    pub python: bool,
    /// How long its threads were stopped, together.
    pub stopped: Duration,
}

impl Stack {
    /// Reads the stack of the process with this number, for at most about `limit`. Where tracing is not permitted, threads
    /// have no frames, and `lacking` says why.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn read(pid: u32, limit: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + limit;
        let mut threads = thread::list(pid, THREADS)?;
        let modules = Modules::read(pid);
        let python = modules.is_python();
        // A thread of its own: damaged unwind tables may break the reader of them.
        let walked = std::thread::scope(|scope| {
            let walk = || walk(pid, &mut threads, modules, deadline);
            let walker = std::thread::Builder::new().name("walk".to_owned()).spawn_scoped(scope, walk)?;
            walker.join().map_err(|_| io::Error::other("its unwind tables are damaged"))
        });
        let (lacking, stopped) = walked.unwrap_or_else(|error| (Some(error.to_string()), Duration::ZERO));
        Ok(Self { threads, lacking, python, stopped })
    }

    /// The thread that the process began with.
    pub fn main(&self) -> Option<&Thread> {
        self.threads.first()
    }
}

/// Walks each thread's stack, and names the functions. Why there is none, if there is none; and how long threads were stopped.
fn walk(pid: u32, threads: &mut [Thread], mut modules: Modules, deadline: Instant) -> (Option<String>, Duration) {
    let mut unwinder = unwind::Unwinder::new();
    let (mut lacking, mut stopped) = (None, Duration::ZERO);
    for thread in threads.iter_mut() {
        match registers_of(pid, thread.number, deadline) {
            Ok((registers, mut memory, length)) => {
                stopped += length;
                let found = unwinder.walk(registers, &mut memory, &mut modules, FRAMES, deadline);
                let frame = |address| Frame { address, function: None, module: None };
                thread.frames = found.into_iter().map(frame).collect();
            }
            Err(why) => {
                lacking.get_or_insert_with(|| permission::explain(pid, &why));
                // What one thread is refused, all are.
                if why.raw_os_error() == Some(libc::EPERM) {
                    break;
                }
            }
        }
        if Instant::now() >= deadline || stopped >= STOPPED {
            break;
        }
    }
    modules.name(threads.iter_mut().flat_map(|thread| &mut thread.frames), deadline);
    (lacking.filter(|_| threads.iter().all(|thread| thread.frames.is_empty())), stopped)
}

/// The registers of one thread, the memory with its stack, and how long it was stopped at most.
fn registers_of(pid: u32, number: u32, deadline: Instant) -> io::Result<(Registers, ProcessMemory, Duration)> {
    let read = || {
        let mut memory = ProcessMemory::new(pid);
        let seized = Seized::stop(number, deadline)?;
        let registers = seized.registers()?;
        memory.capture(registers.sp);
        let since = seized.since;
        drop(seized);
        Ok((registers, memory, since.elapsed()))
    };
    // A thread of its own: the kernel lets go of everything that a thread traces when that thread ends, also of a target that
    // would stop later, at the end of an uninterruptible call.
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().name("stack".to_owned()).spawn_scoped(scope, read)?;
        reader.join().map_err(|_| io::Error::other("reading it failed"))?
    })
}

#[cfg(test)]
mod tests;
