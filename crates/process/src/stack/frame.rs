//! A thread of another process and its frames, as texts.

use std::fmt;

use crate::child::printable;

/// One thread of a process.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Number of the thread.
    pub number: u32,
    /// Name of the thread.
    pub name: String,
    /// State of the thread as /proc has it: `R` runs, `S` sleeps, `D` waits for a device, `T` is stopped.
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
