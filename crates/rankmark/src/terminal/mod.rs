//! What a person sees: a table that grows, a line of progress, a last paragraph. Data goes to standard output; with
//! `--json` that is JSON lines, and the text goes to standard error.

mod screen;
mod table;
mod text;

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

pub(crate) use screen::{Screen, Verbosity};
pub(crate) use text::{significant, wrap};

use crate::Failure;

/// Writes an error to standard error, colouring its first word where colours are wanted.
pub(crate) fn complain(failure: &Failure) {
    let mut err = anstream::stderr().lock();
    let text = match failure.text.strip_prefix("error:") {
        Some(rest) => format!("\u{1b}[1;31merror:\u{1b}[0m{rest}"),
        None => failure.text.clone(),
    };
    // Nobody reads standard error: nobody is left to be told.
    let _ = writeln!(err, "{}", text.trim_end());
}

/// Says something beside what a command prints.
pub(crate) fn remark(text: &str) {
    // Nobody reads standard error: nobody is left to be told.
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// What a rank says when it leaves otherwise than asked.
pub(crate) fn last_words(departure: &launch::Departure) {
    let _ = writeln!(io::stderr(), "{departure}");
}

/// Help and version go to standard output with code 0, wrong usage to standard error with code 2.
pub(crate) fn usage(error: &clap::Error) -> Result<u8, Failure> {
    let _ = error.print();
    Ok(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Whether a stream is a terminal that somebody looks at. One without a size is not: Open MPI's mpirun gives its ranks such a one
/// for their standard output, wherever that goes in the end.
pub(crate) fn is_watched(stream: impl AsFd + IsTerminal) -> bool {
    stream.is_terminal() && terminal_size::terminal_size_of(&stream).is_some()
}

/// No colours where nobody watches standard output, unless the environment asks for them.
pub(crate) fn choose_colours() {
    let forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    if !forced && io::stdout().is_terminal() && !is_watched(io::stdout()) {
        anstream::ColorChoice::Never.write_global();
    }
}

/// Columns that text may take: the terminal's, within reason; 100 where standard output is none.
pub(crate) fn width() -> usize {
    let of = terminal_size::terminal_size_of(io::stdout());
    of.map_or(100, |(terminal_size::Width(columns), _)| usize::from(columns).clamp(60, 120))
}

/// Prints a text that is the whole output of a command. A reader that went away has seen enough.
pub(crate) fn print(text: &str) -> Result<u8, Failure> {
    let mut out = anstream::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new("standard output cannot be written", Some(error.to_string()), None))
        }
        _ => Ok(0),
    }
}
