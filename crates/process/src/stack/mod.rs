//! The stack of another process, read from outside: the process need not answer, and a stopped one runs no handler.
//!
//! Each thread is stopped by ptrace for the microseconds that its registers and stack take to read, and goes on as it was: a
//! process that was stopped stays stopped. A call that a signal may interrupt without a handler (`epoll_wait`) may return
//! `EINTR` in it, as after SIGSTOP and SIGCONT. Files of the process are read as hostile ones: all sizes are bounded.

mod elf;
mod memory;
mod modules;
mod permission;
mod python;
mod registers;
mod seized;
mod thread;
mod unwind;

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use crate::child::printable;
use memory::Memory;
use modules::Modules;
use seized::Seized;

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

/// One thread of a process.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its state as /proc has it: `R` runs, `S` sleeps, `D` waits for a device, `T` is stopped.
    pub state: char,
    /// The function of the kernel that it sleeps in, where that can be read.
    pub sleeps_in: Option<String>,
    /// The system call that it is in, where that can be read.
    pub system_call: Option<String>,
    /// The innermost first.
    pub frames: Vec<Frame>,
}

/// One native frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it is, in the process's memory.
    pub address: u64,
    /// The function, demangled.
    pub function: Option<String>,
    /// The name of the file that the code comes from.
    pub module: Option<String>,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some(function) => f.write_str(&printable(function))?,
            None => write!(f, "{:#x}", self.address)?,
        }
        self.module.as_ref().map_or(Ok(()), |module| write!(f, " ({})", printable(module)))
    }
}

impl Thread {
    /// "sleeps in clock_nanosleep", "runs", "is stopped".
    pub fn doing(&self) -> String {
        let state = match self.state {
            'R' => "runs",
            'S' | 'I' => "sleeps",
            'D' => "waits for a device or a file system",
            'T' => "is stopped",
            't' => "is stopped by a debugger",
            'Z' | 'X' => "has ended",
            _ => "is in an unknown state",
        };
        let kernel = self.sleeps_in.as_ref().map(|function| format!("kernel function {function}"));
        match self.system_call.clone().or(kernel) {
            Some(place) => format!("{state} in {}", printable(&place)),
            None => state.to_owned(),
        }
    }
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
