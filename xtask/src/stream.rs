//! Runs a program, shows its output while it runs, and keeps it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

/// What a program left behind.
pub(crate) struct Output {
    pub(crate) success: bool,
    /// "exit status: 101", "signal: 9 (SIGKILL)".
    pub(crate) ending: String,
    /// Text of both streams, without colours. The order between the two is only roughly that of time.
    pub(crate) text: String,
}

/// Where the output goes while the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Show {
    /// Each stream to the same stream of this program.
    Terminal,
    /// Nowhere: what a test of this program prints would be taken for the outcome of this program's tests.
    #[default]
    Nowhere,
}

/// Runs `command` to its end.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn run(command: &mut Command, show: Show) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, err) = std::thread::scope(|scope| {
        let err = scope.spawn(move || err.map(|err| forward(err, io::stderr(), show)).unwrap_or_default());
        let out = out.map(|out| forward(out, io::stdout(), show)).unwrap_or_default();
        (out, err.join().unwrap_or_default())
    });
    let status = child.wait()?;
    let text = without_colours(&String::from_utf8_lossy(&[out, err].concat()));
    Ok(Output { success: status.success(), ending: status.to_string(), text })
}

/// Copies line by line, so that a reader of the terminal sees whole lines. A closed terminal does not stop it.
fn forward(from: impl Read, mut to: impl Write, show: Show) -> Vec<u8> {
    let (mut from, mut kept) = (BufReader::new(from), Vec::new());
    loop {
        let start = kept.len();
        match from.read_until(b'\n', &mut kept) {
            Ok(0) | Err(_) => return kept,
            Ok(_) if show == Show::Nowhere => {}
            Ok(_) => {
                let _ = to.write_all(&kept[start..]).and_then(|()| to.flush());
            }
        }
    }
}

/// Drops escape sequences (`ESC [ ... letter`).
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            if characters.next() == Some('[') {
                characters.by_ref().find(char::is_ascii_alphabetic);
            }
        } else {
            plain.push(character);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Output {
        run(Command::new("sh").args(["-c", script]), Show::Nowhere).unwrap()
    }

    #[test]
    fn both_streams_and_the_ending_are_kept() {
        let output = shell("echo to-stdout; echo to-stderr >&2; exit 3");
        assert!(!output.success);
        assert_eq!(output.ending, "exit status: 3");
        assert!(output.text.contains("to-stdout") && output.text.contains("to-stderr"), "{}", output.text);
        assert!(shell("true").success);
    }

    #[test]
    fn much_output_on_both_streams_does_not_block() {
        let output = shell("i=0; while [ $i -lt 20000 ]; do echo 123456789; echo 123456789 >&2; i=$((i+1)); done");
        assert_eq!(output.text.len(), 2 * 20_000 * 10);
    }

    #[test]
    fn colours_are_dropped() {
        assert_eq!(without_colours("\u{1b}[1m\u{1b}[32m  Summary\u{1b}[0m [ 1s]"), "  Summary [ 1s]");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        assert!(run(&mut Command::new("no-such-program-of-rankmark"), Show::Nowhere).is_err());
    }
}
