//! Runs one command to its end, or to its limit.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a command that is late may take to end what it started, once it is asked to.
const GRACE: Duration = Duration::from_secs(5);

/// What a command did.
pub(super) struct Ended {
    /// None: it was ended because it took too long, or by a signal.
    pub(super) code: Option<i32>,
    pub(super) standard: String,
    pub(super) errors: String,
    pub(super) took: Duration,
}

impl Ended {
    /// The last line of the output that says anything.
    pub(super) fn last_words(&self) -> &str {
        fn last(text: &str) -> Option<&str> {
            text.lines().rev().find(|line| !line.trim().is_empty())
        }
        last(&self.errors).or_else(|| last(&self.standard)).unwrap_or("it said nothing")
    }

    /// Why it has no exit code.
    pub(super) fn late(&self) -> String {
        format!("it had not ended after {:.0} s, or a signal ended it: {}", self.took.as_secs_f64(), self.last_words())
    }
}

/// Runs a command to its end, or to the limit. Its output goes to files, so that it never waits for a reader. What it started ends with
/// it at the limit: compute-sanitizer and torchrun would leave a program behind that holds the GPU of all further checks.
///
/// # Errors
/// Why it could not start.
pub(super) fn execute(root: &Path, words: &[String], limit: Duration) -> Result<Ended, String> {
    let (first, rest) = words.split_first().ok_or("a check has no command")?;
    let place = std::env::temp_dir().join(format!("rankmark-gpu-check-{}", std::process::id()));
    let (standard, errors) = (place.with_extension("out"), place.with_extension("err"));
    let open = |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
    let begun = Instant::now();
    let mut command = Command::new(first);
    command.args(rest).current_dir(root).stdin(Stdio::null()).stdout(open(&standard)?).stderr(open(&errors)?);
    command.process_group(0);
    let started = command.spawn().map_err(|error| format!("{first} cannot start: {error}"));
    let code = started.and_then(|child| until(child, begun + limit));
    let took = begun.elapsed();
    let text = |path: &Path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        let _ = std::fs::remove_file(path);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (standard, errors) = (text(&standard), text(&errors));
    Ok(Ended { code: code?, standard, errors, took })
}

fn until(mut child: Child, end: Instant) -> Result<Option<i32>, String> {
    if let Some(status) = ended(&mut child, end)? {
        return Ok(status.code());
    }
    // First they are asked: a launcher ends workers that have groups of their own.
    signal("-TERM", &child);
    let _ = ended(&mut child, Instant::now() + GRACE);
    signal("-KILL", &child);
    let _ = child.kill();
    let _ = child.wait();
    Ok(None)
}

/// How a child has ended; None where it still runs at this instant.
fn ended(child: &mut Child, at: Instant) -> Result<Option<ExitStatus>, String> {
    loop {
        let status = child.try_wait().map_err(|error| error.to_string())?;
        if status.is_some() || Instant::now() > at {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sends a signal to a child and to all that it started in its group. A group that is gone is an error, and left alone.
fn signal(name: &str, child: &Child) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args([name, "--", &group]).stdin(Stdio::null()).stderr(Stdio::null()).status();
}

/// Keeps what a command printed.
pub(super) fn keep(path: &Path, words: &[String], ended: &Ended) -> Result<(), String> {
    let Ended { code, standard, errors, .. } = ended;
    let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
    let text = format!("$ {}\nexit code: {code}\n\n{standard}\n\n{errors}", words.join(" "));
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &[&str], limit: Duration) -> Result<Ended, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        execute(Path::new("/"), &words, limit)
    }

    #[test]
    fn a_command_ends_by_itself_or_by_the_limit_or_does_not_start() {
        let ended = run(&["sh", "-c", "echo a; echo b >&2; exit 3"], Duration::from_secs(60)).unwrap();
        assert_eq!((ended.code, ended.standard.as_str(), ended.last_words()), (Some(3), "a\n", "b"));
        let late = run(&["sh", "-c", "echo begun; exec sleep 60"], Duration::from_millis(200)).unwrap();
        assert_eq!((late.code, late.last_words()), (None, "begun"));
        let none = run(&["/no/such/program"], Duration::from_secs(60)).err().unwrap();
        assert!(none.starts_with("/no/such/program cannot start: "), "{none}");
    }

    #[test]
    fn what_a_late_command_started_ends_with_it() {
        let late = run(&["sh", "-c", "sleep 60 & echo $!; wait"], Duration::from_millis(500)).unwrap();
        assert_eq!(late.code, None);
        let left = Path::new("/proc").join(late.standard.trim());
        // The process that adopts it may take a moment to reap it.
        let runs = || std::fs::read_to_string(left.join("stat")).is_ok_and(|stat| !stat.contains(") Z "));
        let begun = Instant::now();
        while runs() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!runs(), "{left:?}");
    }
}
