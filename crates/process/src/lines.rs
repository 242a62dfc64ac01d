//! A child that writes lines until it is ended: a sensor that is asked now and then. Nobody waits for it; what it wrote
//! stays in its pipe until it is taken.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::descriptor::output_pipe;
use crate::pidfd::Process;
use crate::signal::keep_children;
use crate::start::{Tie, spawn};

/// Bytes taken in one go, so that a child that writes without end cannot hold us.
const TAKEN_AT_ONCE: usize = 1 << 20;

/// A running child and the lines that it writes to its standard output.
pub struct Lines {
    process: Process,
    pipe: File,
    /// The begin of a line that has no end yet.
    rest: Vec<u8>,
}

impl Lines {
    /// Starts the program. The kernel kills it when the calling *thread* ends.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(program: &Path, arguments: &[&OsStr]) -> io::Result<Self> {
        keep_children()?;
        let (read, write) = output_pipe()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(write).stderr(Stdio::null());
        let process = spawn(command, Tie::killed().without_core_file())?;
        Ok(Self { process, pipe: File::from(read), rest: Vec::new() })
    }

    /// The whole lines since the last call. A pipe that is full makes the child wait: then later lines are missing, not
    /// earlier ones.
    pub fn take(&mut self) -> Vec<String> {
        let (mut piece, mut taken) = ([0; 16 << 10], 0);
        while taken < TAKEN_AT_ONCE {
            match self.pipe.read(&mut piece) {
                Ok(count) if count > 0 => {
                    taken += count;
                    self.rest.extend(&piece[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.process.exit().is_some()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.process.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    fn shell(script: &str) -> Lines {
        Lines::start(Path::new("/bin/sh"), &["-c", script].map(OsStr::new)).unwrap()
    }

    /// What it has written once it holds so many lines.
    fn first(lines: &mut Lines, count: usize) -> Vec<String> {
        let mut all = Vec::new();
        for _ in 0..500 {
            all.extend(lines.take());
            if all.len() >= count {
                break;
            }
            sleep(Duration::from_millis(20));
        }
        all
    }

    #[test]
    fn whole_lines_are_taken_once() {
        let mut lines = shell("echo a; echo b; printf c; sleep 60");
        assert_eq!(first(&mut lines, 2), ["a", "b"]);
        assert!(lines.take().is_empty() && !lines.has_ended());
    }

    #[test]
    fn a_child_that_ends_leaves_its_lines() {
        let mut lines = shell("echo last");
        assert_eq!(first(&mut lines, 1), ["last"]);
        let ended = (0..500).any(|_| {
            sleep(Duration::from_millis(20));
            lines.has_ended()
        });
        assert!(ended);
        assert!(Lines::start(Path::new("/nowhere"), &[]).is_err());
    }
}
