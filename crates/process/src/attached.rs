//! A program that has this terminal: what the user asked to run, and waits for.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::child::Ended;

/// Runs a program with this process's standard input and errors, its environment and `variables`, and waits for its end.
/// `output` is where its standard output goes. The program stays in this process's group, so that Ctrl-C of the terminal
/// reaches it; the caller decides what the signal does here.
///
/// # Errors
/// When it cannot be started.
pub fn attached(
    program: &OsStr,
    arguments: &[OsString],
    variables: &[(&str, OsString)],
    output: Stdio,
) -> io::Result<Ended> {
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value))).stdout(output);
    let status = command.status()?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, signal) => Ended::Signal(signal.unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_ended_and_that_it_saw_the_variables() {
        let sh = |script: &str| {
            attached(OsStr::new("/bin/sh"), &["-c".into(), script.into()], &[("NEW", "7".into())], Stdio::inherit())
        };
        assert!(matches!(sh("exit $NEW").unwrap(), Ended::Code(7)));
        assert!(matches!(sh("kill -TERM $$").unwrap(), Ended::Signal(15)));
        assert!(attached(OsStr::new("/no/such/program"), &[], &[], Stdio::null()).is_err());
    }
}
