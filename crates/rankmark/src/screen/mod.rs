//! What a person sees: a table that grows, a line of progress, a last paragraph. Data goes to standard output; with
//! `--json` that is JSON lines, and the text goes to standard error.

mod live;
mod next;
mod output;
mod pairs;
mod progress_pause;
mod run;
mod watch;

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;

pub(crate) use next::{next, next_report};
pub(crate) use output::Verbosity;
pub(crate) use pairs::PairScreen;
use record::Tool;
pub(crate) use run::Screen;
use view::terminal::{self, Style, parts};
pub(crate) use watch::Watch;

use crate::Failure;

/// Writes errors to standard error: as one line of JSON, or as text with its first word coloured where colours are wanted.
pub(crate) fn complain(failure: &Failure, as_json: bool) {
    let mut err = anstream::stderr().lock();
    let text = folded(&failure.to_string());
    let text = match text.strip_prefix("error:") {
        _ if as_json => view::harmless_json(&failure.json()),
        Some(rest) => format!("{}{rest}", Style::Error.paint("error:")),
        None => text,
    };
    // Nobody reads standard error: nobody is left to be told.
    let _ = writeln!(err, "{}", terminal::output(text.trim_end()));
}

/// Errors and causes broken at spaces for the terminal that standard error is. Hints stay: they have commands to copy.
fn folded(text: &str) -> String {
    let width = terminal_size::terminal_size_of(io::stderr()).map(|(terminal_size::Width(columns), _)| columns);
    let Some(width) = width else { return text.to_owned() };
    let fold = |line: &str| {
        let label = ["error: ", "cause: "].into_iter().find(|label| line.starts_with(label));
        label.map_or_else(
            || line.to_owned(),
            |label| terminal::hanging(label, &line[label.len()..], usize::from(width).max(60)),
        )
    };
    text.lines().map(fold).collect::<Vec<_>>().join("\n")
}

/// Prints a remark on standard error, apart from a command's output.
pub(crate) fn remark(text: &str) {
    // Nobody reads standard error: nobody is left to be told.
    let _ = anstream::stderr().lock().write_all(terminal::output(text).as_bytes());
}

/// Prints a warning on standard error.
pub(crate) fn warn(text: &str) {
    remark(&format!("warning: {text}\n"));
}

/// Says that ranks have stalled, where they stand, and what becomes of the run.
pub(crate) fn stalled(stall: &launch::Stall) {
    live::begin_below();
    // One write: a table on the same terminal is drawn between two of them at most.
    remark(&format!("\n{} {stall}\n", Style::Warning.paint("stall:")));
}

/// Says what the user should know of how ranks start.
pub(crate) fn noted(text: &str) {
    live::begin_below();
    remark(&format!("{} {text}\n", Style::Warning.paint("note:")));
}

/// What a rank says when it leaves otherwise than asked.
pub(crate) fn last_words(departure: &launch::Departure) {
    let _ = writeln!(io::stderr(), "{}", terminal::output(&departure.to_string()));
}

/// Help and version go to standard output with code 0, help that nobody asked for to standard error with code 2.
pub(crate) fn help(text: &clap::Error) -> Result<u8, Failure> {
    let printed = text.print().and_then(|()| io::stdout().flush());
    if let Err(lost) = printed
        && !text.use_stderr()
        && lost.kind() != io::ErrorKind::BrokenPipe
    {
        return Err(unwritten(&lost));
    }
    Ok(u8::try_from(text.exit_code()).unwrap_or(2))
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
    terminal_width().unwrap_or(100)
}

/// Columns that text may take; None where standard output is not a terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    columns().map(|columns| columns.min(120))
}

/// Columns of the terminal that standard output is, taken to be 60 at least. Tables need all of them.
fn columns() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(terminal_size::Width(columns), _)| usize::from(columns).max(60))
}

/// The first line of a run: this program, what it does, and where that is kept. Escape sequences take no columns: they come after
/// the lines are broken.
fn title(tool: &Tool, what: String, directory: &Path, width: usize) -> String {
    let program = format!("rankmark {}", tool.version);
    let text = parts(&[program.clone(), what, format!("record {}", directory.display())], width);
    text.replacen(&program, &Style::Bold.paint(&program), 1)
}

/// The line that says of these times that nobody measured them.
pub(crate) fn simulated(times: &str) -> String {
    format!("{}  {times} are computed by a model and never measured", Style::Warning.paint("SIMULATED"))
}

/// Prints a text that is the whole output of a command. A reader that went away has seen enough.
pub(crate) fn print(text: &str) -> Result<u8, Failure> {
    match written(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(unwritten(&error)),
        _ => Ok(0),
    }
}

/// Prints a file in place of writing it. To a terminal goes text alone, and nothing in it that a terminal obeys.
pub(crate) fn print_file(content: &[u8]) -> Result<u8, Failure> {
    use std::io::IsTerminal;
    if !io::stdout().is_terminal() {
        let mut out = io::stdout().lock();
        return out.write_all(content).and_then(|()| out.flush()).map_err(|error| unwritten(&error)).map(|()| 0);
    }
    let text = std::str::from_utf8(content);
    print(text.map_err(|_| Failure::new("a terminal shows no such file").hint("`-o FILE`, or a pipe: `-o - | less`"))?)
}

/// Prints JSON that is the whole output of a command. A program reads it: half of it is an error, whatever the cause.
pub(crate) fn print_json(text: &str) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(view::harmless_json(text).as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| unwritten(&error)).map(|()| 0)
}

pub(crate) fn written(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(terminal::output(text).as_bytes()).and_then(|()| out.flush())
}

/// What is said when standard output takes no more.
pub(crate) fn unwritten(error: &io::Error) -> Failure {
    let failure = Failure::new("standard output cannot be written").cause(error);
    match error.kind() {
        io::ErrorKind::FileTooLarge => failure.hint("raise the limit on file sizes (`ulimit -f`)"),
        io::ErrorKind::StorageFull => failure.hint("free some space where it is written to"),
        _ => failure,
    }
}
