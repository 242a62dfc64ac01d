//! What a program took, as the kernel says it of a child that has ended.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a command took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Seconds that a user waited.
    pub wall: f64,
    /// Seconds of all its threads on processors.
    pub processor: f64,
    /// The most memory that it held.
    pub megabytes: f64,
}

impl Cost {
    /// The less of each.
    pub(super) fn least(self, other: Self) -> Self {
        Self {
            wall: self.wall.min(other.wall),
            processor: self.processor.min(other.processor),
            megabytes: self.megabytes.min(other.megabytes),
        }
    }
}

/// A command that takes longer has failed, and is ended.
const LONGEST: Duration = Duration::from_secs(900);

/// Runs a program in a folder; it must end with one of these codes.
///
/// # Errors
/// What could not be run, or how it ended.
pub(super) fn cost(program: &Path, words: &[String], folder: &Path, codes: &[i32]) -> Result<Cost, String> {
    let failed = |what: String| format!("`{} {}` {what}", program.display(), words.join(" "));
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| failed(format!("does not start: {error}")))?;
    let ended = loop {
        if let Some(ended) = reaped(child.id()).map_err(|error| failed(format!("cannot be waited for: {error}")))? {
            break ended;
        }
        if begun.elapsed() > LONGEST {
            // Reaped here, not by `Child`, in the next round.
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let (status, usage) = ended;
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    match status.code() {
        Some(code) if codes.contains(&code) => Ok(Cost {
            wall: begun.elapsed().as_secs_f64(),
            processor: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            // Kilobytes of 1024 bytes (getrusage(2)).
            megabytes: usage.ru_maxrss as f64 * 1024.0 / 1e6,
        }),
        _ => Err(failed(format!("ended with {status}"))),
    }
}

/// How a child ended, and what it took; None while it runs.
fn reaped(process: u32) -> io::Result<Option<(ExitStatus, libc::rusage)>> {
    let process = libc::pid_t::try_from(process).map_err(io::Error::other)?;
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: both pointers are of this frame, and all bytes of zero are a usage.
    let found = unsafe { libc::wait4(process, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
    match found {
        0 => Ok(None),
        found if found == process => {
            // SAFETY: zeroed before, and written by the kernel.
            Ok(Some((ExitStatus::from_raw(status), unsafe { usage.assume_init() })))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_takes_is_seen() {
        let shell = |text: &str, codes: &[i32]| {
            cost(Path::new("/bin/sh"), &["-c", text].map(str::to_owned), Path::new("/"), codes)
        };
        let measured = shell("sleep 0.1; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 3", &[3]).unwrap();
        let Cost { wall, processor, megabytes } = measured;
        assert!(wall >= 0.1 && processor >= 0.01 && megabytes > 0.1, "{wall} s, {processor} s, {megabytes} MB");
        assert!(shell("exit 3", &[0]).unwrap_err().contains("ended with exit status: 3"));
        assert!(cost(Path::new("/nowhere"), &[], Path::new("/"), &[0]).is_err());
    }
}
