//! Python's own frames, read by py-spy: as a library without stopping the process, and as a program where a user has it. An
//! interpreter's layout differs between versions, so nothing here knows it.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use crate::child::{Ended, printable, run};

/// Lines that are kept.
const LINES: usize = 24;
/// Frames of a thread that are kept, innermost first.
const FRAMES: usize = 64;
/// Threads that are kept, the main one first.
const THREADS: usize = 64;

/// One frame of Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonFrame {
    /// The function, with its class where Python knows it.
    pub function: String,
    /// The file, as Python names it.
    pub file: String,
    /// The line; 0 where it is not known.
    pub line: u32,
    /// Arguments that are whole numbers, where they were asked for.
    pub numbers: Vec<(String, i64)>,
}

/// One thread of Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonThread {
    /// The kernel's number; None before Python 3.11.
    pub number: Option<u32>,
    /// The innermost first.
    pub frames: Vec<PythonFrame>,
}

/// Reads the Python frames of one process, several times. It never stops the process: memory that changes meanwhile makes a
/// stack short or a reading fail.
///
/// py-spy trusts the sizes in the process and its files, so a damaged process can make it take memory without bound: use it
/// in a child.
pub struct PythonReader(py_spy::PythonSpy);

impl PythonReader {
    /// Finds the interpreter of a process.
    ///
    /// # Errors
    /// Why there is none, or it cannot be read.
    pub fn open(pid: u32) -> Result<Self, String> {
        let config = py_spy::Config {
            blocking: py_spy::config::LockingStrategy::NonBlocking,
            full_filenames: true,
            collect_thread_names: false,
            ..py_spy::Config::default()
        };
        let pid = pid.try_into().map_err(|_| "there is no such process".to_owned())?;
        careful(|| py_spy::PythonSpy::new(pid, &config)).map(Self)
    }

    /// Threads of the process, the main one first. `numbers`: with arguments that are whole numbers.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn threads(&mut self, numbers: bool) -> Result<Vec<PythonThread>, String> {
        self.0.config.dump_locals = u64::from(numbers);
        let traces = careful(|| self.0.get_stack_traces())?;
        // Python lists the newest first.
        let mut threads: Vec<PythonThread> = traces.into_iter().rev().map(thread).collect();
        let main = u32::try_from(self.0.pid).ok();
        threads.sort_by_key(|thread| thread.number.is_some() && thread.number != main);
        threads.truncate(THREADS);
        Ok(threads)
    }
}

/// Runs what may panic on a damaged interpreter.
fn careful<T>(read: impl FnOnce() -> Result<T, anyhow::Error>) -> Result<T, String> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)) {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(printable(&format!("{error:#}"))),
        Err(_) => Err("its interpreter is damaged".to_owned()),
    }
}

fn thread(trace: py_spy::StackTrace) -> PythonThread {
    let number = trace.os_thread_id.and_then(|number| number.try_into().ok());
    PythonThread { number, frames: trace.frames.into_iter().take(FRAMES).map(frame).collect() }
}

fn frame(frame: py_spy::Frame) -> PythonFrame {
    let number = |local: py_spy::stack_trace::LocalVariable| Some((local.name, local.repr?.parse().ok()?));
    let arguments = frame.locals.into_iter().flatten().filter(|local| local.arg);
    PythonFrame {
        function: frame.name,
        file: frame.filename,
        line: frame.line.try_into().unwrap_or(0),
        numbers: arguments.filter_map(number).collect(),
    }
}

/// The Python stack of a process as py-spy, which is this program, prints it: threads and their frames.
///
/// # Errors
/// Why py-spy gave none.
pub fn python_stack(program: &Path, pid: u32, limit: Duration) -> Result<Vec<String>, String> {
    let pid = pid.to_string();
    // It need not stop the process: it may be stopped already, and is to go on otherwise.
    let arguments = ["dump", "--nonblocking", "--pid", &pid].map(OsStr::new);
    let outcome = run(program, &arguments, None, limit).map_err(|error| error.to_string())?;
    let said = outcome.out.lines().map(str::trim_end).filter(|line| !line.is_empty());
    // Before the threads it names the process and its version.
    let lines: Vec<String> = said.skip_while(|line| !line.starts_with("Thread")).take(LINES).map(printable).collect();
    if outcome.ended == Ended::Code(0) && !lines.is_empty() { Ok(lines) } else { Err(outcome.complaint()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_the_program_prints_of_threads_is_kept() {
        let path = std::env::temp_dir().join(format!("rankmark-py-spy-{}", std::process::id()));
        let script = "#!/bin/sh\n[ \"$*\" = 'dump --nonblocking --pid 7' ] || { echo no such process >&2; exit 1; }\n\
                      printf 'Process 7: python\\nPython v3\\n\\nThread 7 (idle): \"MainThread\"\\n    wait (a.py:3)\\n'\n";
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let read = |pid| python_stack(&path, pid, Duration::from_secs(20));
        let (known, unknown) = (read(7), read(8));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(known.unwrap(), ["Thread 7 (idle): \"MainThread\"", "    wait (a.py:3)"]);
        assert!(unknown.unwrap_err().contains("no such process"));
    }
}
