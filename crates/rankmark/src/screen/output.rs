//! Where a screen prints: text, lines that are redrawn in place, and JSON.

use std::io::{self, Write};

use view::terminal;

use super::is_watched;
use super::live::Live;

/// How much is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    Quiet,
    Normal,
    Verbose,
}

/// Where text goes.
enum Out {
    Stdout(anstream::AutoStream<io::Stdout>),
    Stderr(anstream::AutoStream<io::Stderr>),
}

impl Out {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Stdout(out) => out,
            Self::Stderr(out) => out,
        }
    }

    fn moves_cursor(&self) -> bool {
        let choice = match self {
            Self::Stdout(out) => out.current_choice(),
            Self::Stderr(out) => out.current_choice(),
        };
        choice != anstream::ColorChoice::Never
    }
}

/// Text goes to standard output, and to standard error where JSON goes to standard output.
pub(crate) struct Output {
    verbosity: Verbosity,
    json: bool,
    out: Out,
    /// Somebody is watching a terminal: rows improve in place as trials come in.
    live: Option<Live>,
    /// The reader of the text went away.
    closed: bool,
    /// Why standard output takes no more.
    lost: Option<io::Error>,
}

impl Output {
    pub(crate) fn new(verbosity: Verbosity, json: bool) -> Self {
        let out = if json { Out::Stderr(anstream::stderr()) } else { Out::Stdout(anstream::stdout()) };
        let terminal = if json { is_watched(io::stderr()) } else { is_watched(io::stdout()) };
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        // A stream without colours drops the sequences that move the cursor, too: what improves in place would pile up.
        let live = terminal && !dumb && out.moves_cursor() && verbosity != Verbosity::Quiet;
        Self { verbosity, json, out, live: live.then(Live::default), closed: false, lost: None }
    }

    pub(crate) fn is_verbose(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    /// Whether only errors are wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.verbosity == Verbosity::Quiet
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Writes text; the first failure silences the screen and not the run. A reader that went away has seen enough; anything
    /// else is an error at the end of the run.
    fn write(&mut self, text: &str) {
        if self.closed || self.verbosity == Verbosity::Quiet {
            return;
        }
        let out = self.out.writer();
        let Err(error) = out.write_all(terminal::output(text).as_bytes()).and_then(|()| out.flush()) else { return };
        self.closed = true;
        if matches!(self.out, Out::Stdout(_)) && error.kind() != io::ErrorKind::BrokenPipe {
            self.lost.get_or_insert(error);
        }
    }

    /// A line that stays, above whatever improves in place.
    pub(crate) fn line(&mut self, text: &str) {
        let cleared = self.live.as_mut().map(Live::clear).unwrap_or_default();
        self.write(&format!("{cleared}{text}\n"));
    }

    /// Lines that stay.
    pub(crate) fn lines(&mut self, lines: &[String]) {
        lines.iter().for_each(|line| self.line(line));
    }

    /// Lines that say what went wrong. Who wants to hear of errors alone reads them on standard error.
    pub(crate) fn faults(&mut self, lines: &[String]) {
        match self.verbosity {
            Verbosity::Quiet => lines.iter().for_each(|line| super::remark(&format!("{line}\n"))),
            _ => self.lines(lines),
        }
    }

    /// Whether what improves in place is to be drawn now: somebody watches, and it was not drawn a moment ago.
    pub(crate) fn is_due(&self, whatever: bool) -> bool {
        !self.closed && self.live.as_ref().is_some_and(|live| whatever || live.is_due())
    }

    /// Draws what improves in place.
    pub(crate) fn draw(&mut self, rows: &[String], progress: Option<&str>) {
        let text = self.live.as_mut().map(|live| live.draw(rows, progress)).unwrap_or_default();
        self.write(&text);
    }

    /// Clears what improved in place: from here on all lines stay.
    pub(crate) fn clear_live(&mut self) {
        let cleared = self.live.take().map(|mut live| live.clear()).unwrap_or_default();
        self.write(&cleared);
    }

    /// Prints a line of JSON, where that was asked for. After the first failure none is printed.
    pub(crate) fn json(&mut self, text: impl FnOnce() -> String) {
        if self.json && self.lost.is_none() {
            let mut out = io::stdout().lock();
            self.lost = writeln!(out, "{}", view::harmless_json(&text())).and_then(|()| out.flush()).err();
        }
    }

    /// Whether the stream takes no more text.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Why not all was printed to standard output that was to be.
    pub(crate) fn lost(&self) -> Option<&io::Error> {
        self.lost.as_ref()
    }
}
