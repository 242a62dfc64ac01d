//! Looking at an MPI library in a process of its own: a library that ends the process which opens it ends that one.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use comm::mpi::{Facts, Vendor};
use serde_json::{Value, json};

/// The hidden argument of a probe: `__probe_mpi=LIBRARY`, nothing behind the sign meaning the first that there is.
const ARGUMENT: &str = "__probe_mpi=";

/// How long a library, or a program that is asked for its version, may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// What a probe process is to print before it ends; None where these are not the arguments of one.
pub fn probe_answer(args: &[OsString]) -> Option<String> {
    let library = args.iter().find_map(|argument| argument.to_str()?.strip_prefix(ARGUMENT))?;
    let answer = match comm::mpi::inspect(Some(library).filter(|library| !library.is_empty())) {
        Ok(Facts { vendor, number, abi, path }) => {
            json!({"vendor": vendor.name(), "number": number, "abi": abi, "path": path})
        }
        Err(why) => json!({ "why": why }),
    };
    // On a line of its own, behind whatever the library may have printed.
    Some(format!("\n{ARGUMENT}{answer}\n"))
}

/// As [`comm::mpi::inspect`], by this program in another process, which must print [`probe_answer`].
///
/// # Errors
/// Why the library cannot be used; how the process ended, where it did not answer.
pub fn inspect_in_child(library: Option<&str>) -> Result<Facts, String> {
    let name = library.unwrap_or_default();
    let mut command = Command::new("/proc/self/exe");
    command.arg(format!("{ARGUMENT}{name}"));
    let (text, status) = output(command).map_err(|error| format!("looking at {name}: {error}"))?;
    let answer = text.lines().find_map(|line| line.strip_prefix(ARGUMENT));
    let answer = answer.and_then(|answer| serde_json::from_str::<Value>(answer).ok());
    let answer = answer.ok_or_else(|| format!("the process that opened {name} {status} without an answer"))?;
    let text = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
    let facts = || {
        let vendor = Vendor::of_name(&text("vendor")?)?;
        Some(Facts { vendor, number: text("number")?, abi: text("abi")?, path: text("path")? })
    };
    facts().ok_or_else(|| text("why").unwrap_or_else(|| "an answer that cannot be read".to_owned()))
}

/// What a program prints, both ways, and how it ended, in words. Killed when it takes too long.
pub(crate) fn output(mut command: Command) -> std::io::Result<(String, String)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut stdout = child.stdout.take().ok_or_else(|| std::io::Error::other("it has no output"))?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stdout.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status.to_string();
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            break format!("was killed after {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Ok((reader.join().unwrap_or_default(), format!("ended ({status})")))
}

/// The first line that a program prints when asked for its version, or all of it where the number is on a later line.
pub(crate) fn version_of(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version");
    output(command).ok().map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_answers_for_what_is_no_library() {
        assert_eq!(probe_answer(&["rankmark".into(), "list".into()]), None);
        let answer = probe_answer(&[format!("{ARGUMENT}libno-such-mpi.so").into()]).unwrap();
        assert!(answer.contains("\"why\":\"libno-such-mpi.so"), "{answer}");
    }

    #[test]
    fn programs_that_say_nothing_have_no_version() {
        assert_eq!(version_of(Path::new("/no/such/program")), None);
        let (said, ended) = output(Command::new("/bin/false")).unwrap();
        assert_eq!((said.as_str(), ended.as_str()), ("", "ended (exit status: 1)"));
    }
}
