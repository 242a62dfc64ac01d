//! The stack of another process, read from outside: the process need not answer, and a stopped one runs no handler.
//!
//! Each thread is stopped by ptrace for the microseconds that its registers and stack take to read, and goes on as it was: a
//! process that was stopped stays stopped. A call that a signal may interrupt without a handler (`epoll_wait`) may return
//! `EINTR` in it, as after SIGSTOP and SIGCONT. Files of the process are read as hostile ones: all sizes are bounded.

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

use memory::Memory;
use modules::Modules;
use seized::Seized;

pub use frame::{Frame, Thread};
pub use python::python_stack;

/// Frames of one thread, at most.
const FRAMES: usize = 128;
/// Threads, at most; the main thread is the first.
const THREADS: usize = 64;

/// The threads of a process, and where each stands.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    /// The main thread first.
    pub threads: Vec<Thread>,
    /// Why there are no native frames, and which permission gives them.
    pub lacking: Option<String>,
    /// Whether it runs Python. Native frames tell little of its work.
    pub python: bool,
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
        // A thread of its own: the kernel lets go of everything that a thread traces when that thread ends, also of a
        // target in an uninterruptible call, which cannot be let go of otherwise.
        let walked = std::thread::scope(|scope| {
            let walk = || walk(pid, &mut threads, modules, deadline);
            let walker = std::thread::Builder::new().name("stack".to_owned()).spawn_scoped(scope, walk)?;
            walker.join().map_err(|_| io::Error::other("its unwind tables are damaged"))
        });
        let lacking = walked.unwrap_or_else(|error| Some(error.to_string()));
        Ok(Self { threads, lacking, python })
    }

    /// The thread that the process began with.
    pub fn main(&self) -> Option<&Thread> {
        self.threads.first()
    }
}

/// Walks each thread's stack, and names the functions. Why there is none, if there is none.
fn walk(pid: u32, threads: &mut [Thread], mut modules: Modules, deadline: Instant) -> Option<String> {
    let mut unwinder = unwind::Unwinder::new();
    let mut lacking = None;
    for thread in threads.iter_mut() {
        let memory = Memory::new(pid);
        match addresses(thread.number, memory, &mut modules, &mut unwinder, deadline) {
            Ok(found) => {
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
        if Instant::now() >= deadline {
            break;
        }
    }
    modules.name(threads.iter_mut().flat_map(|thread| &mut thread.frames), deadline);
    lacking.filter(|_| threads.iter().all(|thread| thread.frames.is_empty()))
}

/// The addresses of one thread's frames.
fn addresses(
    number: u32,
    mut memory: Memory,
    modules: &mut Modules,
    unwinder: &mut unwind::Unwinder,
    deadline: Instant,
) -> io::Result<Vec<u64>> {
    let seized = Seized::stop(number, deadline)?;
    let registers = seized.registers()?;
    let frames = unwinder.walk(registers, &mut memory, modules, FRAMES, deadline);
    drop(seized);
    Ok(frames)
}

#[cfg(test)]
mod tests;
