//! Opening a library in a child: this program again, with a hidden argument that names the library. The child answers
//! with one line on its standard output; what the library itself writes stands around it and is ignored.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use comm::library::Library;
use process::{ITSELF, child};
use serde_json::{Value, json};

use super::native::{self, Native};

/// Begins the hidden argument: a key of [`native::LIBRARIES`], a colon, and a path follow.
const ARGUMENT: &[u8] = b"--rankmark-probe=";
/// Begins the line of the answer.
const ANSWER: &str = "rankmark-probe ";

/// What opening a library and asking for its version may take; one on a cold network file system is slow.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// Whether these arguments (with or without the program's name) are those of a child that is to open a library.
pub fn is_probe(arguments: &[OsString]) -> bool {
    arguments.iter().any(|argument| argument.as_bytes().starts_with(ARGUMENT))
}

/// The life of such a child: opens the library and gives the line that its standard output must get, after which the
/// process should end.
pub fn probe_main(arguments: &[OsString]) -> String {
    let answer = match open(arguments) {
        Ok(value) => json!({ "ok": value }),
        Err(why) => json!({ "error": why }),
    };
    format!("\n{ANSWER}{answer}\n")
}

fn open(arguments: &[OsString]) -> Result<Value, String> {
    let wish = arguments.iter().find_map(|argument| argument.as_bytes().strip_prefix(ARGUMENT));
    let (key, path) = wish
        .and_then(|wish| wish.iter().position(|byte| *byte == b':').map(|at| (&wish[..at], &wish[at + 1..])))
        .ok_or_else(|| "the argument does not name a library".to_owned())?;
    let native = native::LIBRARIES
        .iter()
        .find(|native| native.key.as_bytes() == key)
        .ok_or_else(|| format!("there is no probe `{}`", String::from_utf8_lossy(key)))?;
    let path = PathBuf::from(OsString::from_vec(path.to_vec()));
    (native.ask)(Library::open(&path, native.visibility)?)
}

/// Asks a library in a child.
///
/// # Errors
/// What is wrong with it: what the loader says, a missing symbol, its own error, how it ended the child.
pub(super) fn ask(native: &Native, path: &Path) -> Result<Value, String> {
    let mut argument = ARGUMENT.to_vec();
    argument.extend(native.key.bytes().chain([b':']).chain(path.as_os_str().as_bytes().iter().copied()));
    let outcome = child::run(Path::new(ITSELF), &[OsStr::from_bytes(&argument)], Some(is_answered), LIMIT)
        .map_err(|error| format!("the process that would open it could not be started: {error}"))?;
    let answer: Option<Value> = answer_in(&outcome.out);
    match answer {
        Some(mut answer) => match answer.get_mut("ok").map(Value::take) {
            Some(value) => Ok(value),
            None => Err(answer["error"].as_str().unwrap_or("an error without a message").to_owned()),
        },
        None => Err(format!("a process that opened it {}", outcome.complaint())),
    }
}

/// The answer that a child wrote among other things.
pub(super) fn answer_in(out: &str) -> Option<Value> {
    // A library may write what looks like ours.
    out.lines().rev().filter_map(|line| line.strip_prefix(ANSWER)).find_map(|line| serde_json::from_str(line).ok())
}

/// Whether it has written its answer, so that its end need not be waited for.
pub(super) fn is_answered(out: &str) -> bool {
    answer_in(out).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(argument: &str) -> Value {
        let arguments = ["rankmark", argument].map(OsString::from);
        assert!(is_probe(&arguments));
        answer_in(&probe_main(&arguments)).unwrap()
    }

    #[test]
    fn wrong_arguments_are_answered_with_an_error() {
        assert!(!is_probe(&["rankmark", "validate"].map(OsString::from)));
        assert_eq!(answer("--rankmark-probe=mpi")["error"], "the argument does not name a library");
        assert_eq!(answer("--rankmark-probe=x:/y")["error"], "there is no probe `x`");
        let why = answer("--rankmark-probe=mpi:/nowhere/libmpi.so")["error"].to_string();
        assert!(why.contains("cannot open shared object file"), "{why}");
    }

    #[test]
    fn a_library_without_the_symbol_is_told_by_it() {
        let folders = comm::library::search_path();
        let libc = comm::library::find(&folders, &["libc"]);
        let why = answer(&format!("--rankmark-probe=mpi:{}", libc[0].display()))["error"].to_string();
        assert!(why.contains("it has no symbol `MPI_Get_library_version`"), "{why}");
    }

    #[test]
    fn the_answer_is_found_among_noise() {
        assert_eq!(answer_in("noise\nrankmark-probe {\"ok\":1}\nmore"), Some(json!({"ok": 1})));
        assert_eq!(answer_in("rankmark-probe not json"), None);
        assert_eq!(answer_in(""), None);
    }
}
