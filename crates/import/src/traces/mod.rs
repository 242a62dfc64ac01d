//! Traces of other tools, and our own, as timelines; what a flight recorder says; and logs of single calls.
//!
//! A format is one module and one line in [`TRACES`]. Files are recognised by what they hold, never by name.

mod events;
mod flight;
mod format;
mod input;
mod inspector;
mod join;
mod kineto;
mod own;
mod scan;
mod sqlite;
mod words;

use std::path::{Path, PathBuf};

use terms::Error;
use trace::timeline::Timeline;

pub use flight::{Finding, FlightEntry, FlightRank, FlightReport, Frame, Missing, Problem, join_flight};
pub use format::TraceFormat;
pub use inspector::{InspectorCall, InspectorReport};
pub use words::UNKNOWN_GROUP;

use format::{Part, Spans};
use input::Input;

/// What files of traces hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traces {
    /// Spans of all ranks, if a file has spans.
    pub timeline: Option<Timeline>,
    /// What PyTorch's Flight Recorder says, if a file is one of its dumps.
    pub flight: Option<FlightReport>,
    /// Single calls of NCCL, if a file is a log of NCCL Inspector.
    pub inspector: Option<InspectorReport>,
    /// Each file that was read, and the name of its format.
    pub files: Vec<(PathBuf, &'static str)>,
    /// Files of a directory that were left out, and why, one sentence each.
    pub notes: Vec<String>,
}

/// Every format of traces, in the order in which files are tried.
pub static TRACES: &[TraceFormat] =
    &[sqlite::NSYS, flight::PICKLE, flight::JSON, inspector::INSPECTOR, own::OWN, kineto::KINETO];

/// Reads traces. Several files are joined: one a rank, or dumps of a flight recorder beside them. A directory means the files
/// in it.
///
/// # Errors
/// When a file cannot be read, is no trace, has a version that is not known, or when two files are of one rank.
pub fn read_timeline(files: &[PathBuf]) -> Result<Traces, Error> {
    let mut traces = Traces::default();
    let (mut spans, mut dumps) = (Vec::new(), Vec::new());
    for (path, is_named) in expanded(files)? {
        let input = Input::open(&path)?;
        let Some(format) = TRACES.iter().find(|format| (format.recognises)(&input)) else {
            if is_named {
                return Err(unknown(&input));
            }
            traces.notes.push(format!("{} is left out: it is no trace", input.name()));
            continue;
        };
        match (format.read)(&input)? {
            Part::Spans(part) => spans.push((path.clone(), *part)),
            Part::Flight(dump) => dumps.push((path.clone(), *dump)),
            Part::Calls(report) => traces.inspector.get_or_insert_default().add(*report),
        }
        traces.files.push((path, format.name));
    }
    if traces.files.is_empty() {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        return Err(Error::new(format!("no trace in {}", names.join(", "))).hint(formats()));
    }
    spans.extend(traces.inspector.as_mut().and_then(InspectorReport::take_spans));
    traces.timeline = join::timelines(spans)?;
    traces.flight = if dumps.is_empty() { None } else { Some(flight::report(dumps)?) };
    Ok(traces)
}

fn unknown(input: &Input) -> Error {
    Error::new(format!("{} is no trace that can be read", input.name())).hint(formats())
}

fn formats() -> String {
    let formats: Vec<String> = TRACES.iter().map(|format| format!("{} ({})", format.name, format.doc)).collect();
    format!("formats of traces: {}", formats.join("; "))
}

/// The files that are meant, and whether the user named each.
fn expanded(files: &[PathBuf]) -> Result<Vec<(PathBuf, bool)>, Error> {
    let mut all = Vec::new();
    for file in files {
        if !file.is_dir() {
            all.push((file.clone(), true));
            continue;
        }
        let unread = |error: std::io::Error| input::unread(file, &error);
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(file).map_err(unread)? {
            let path = entry.map_err(unread)?.path();
            if path.is_file() && !is_hidden(&path) {
                inside.push(path);
            }
        }
        inside.sort();
        all.extend(inside.into_iter().map(|path| (path, false)));
    }
    Ok(all)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}
