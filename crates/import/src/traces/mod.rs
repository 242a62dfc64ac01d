//! Traces of other tools, and our own, as timelines; what a flight recorder says; and logs of single calls.
//!
//! A format is one module and one line in [`TRACES`]. Files are recognised by what they hold, never by name.

mod cycles;
mod events;
mod flight;
mod format;
mod input;
mod inspector;
mod join;
mod kineto;
mod own;
mod rank_names;
mod ras;
mod same_names;
mod scan;
mod sqlite;
mod words;

use std::path::{Path, PathBuf};

use terms::Error;
use trace::timeline::Timeline;

pub use flight::{
    Difference, FlightEntry, FlightRank, FlightReport, Frame, HangCause, HangNote, LiveRank, Missing, Problem, Waiting,
    join_flight, live,
};
pub use format::TraceFormat;
pub use inspector::{InspectorCall, InspectorReport};
pub(crate) use join::DIFFERENT_WORLDS;
pub use ras::{RasFinding, RasProblem, RasRank, RasReport, read_ras};
pub use words::UNKNOWN_GROUP;
pub(crate) use words::element_bytes;

use flight::HangFile;
use format::{Spans, TraceContent};
use input::Input;
use rank_names::natural_order;

/// What files of traces hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traces {
    /// Spans of all ranks, if a file has spans.
    pub timeline: Option<Timeline>,
    /// What PyTorch's Flight Recorder says, if a file is one of its dumps.
    pub flight: Option<FlightReport>,
    /// What PyTorch's Flight Recorder says of a job that hung, if files are dumps that were made meanwhile. Traces next to
    /// them are of an earlier time.
    pub hang: Option<FlightReport>,
    /// What ranks wrote down when they ended no step for long.
    pub hang_notes: Vec<HangNote>,
    /// Single calls of NCCL, if a file is a log of NCCL Inspector.
    pub inspector: Option<InspectorReport>,
    /// What NCCL's RAS says, an answer each.
    pub ras: Vec<RasReport>,
    /// Each file that was read, and the name of its format.
    pub files: Vec<(PathBuf, &'static str)>,
    /// Files of a directory that were left out, and why, one sentence each.
    pub notes: Vec<String>,
}

/// What is said of a file in a folder that is not a trace.
pub(crate) const NOT_A_TRACE: &str = " is left out: it is not a trace";

/// Every format of traces, in the order in which files are tried.
pub static TRACES: &[TraceFormat] = &[
    sqlite::NSYS,
    flight::PICKLE,
    flight::HANG,
    flight::JSON,
    inspector::INSPECTOR,
    ras::RAS,
    own::OWN,
    kineto::KINETO,
];

/// The format of a file, or of a folder's first file that is a trace. None where it is not a trace, or cannot be read.
pub fn recognise(path: &Path) -> Option<&'static TraceFormat> {
    let files = expanded(std::slice::from_ref(&path.to_owned())).ok()?;
    files.iter().find_map(|(path, _)| format_of(&Input::open(path).ok()?))
}

fn format_of(input: &Input) -> Option<&'static TraceFormat> {
    TRACES.iter().find(|format| (format.recognises)(input))
}

/// Reads traces. Several files are joined: one a rank, or dumps of a flight recorder with them. A directory means the files
/// in it.
///
/// # Errors
/// When a file cannot be read, is not a trace, has a version that is not known, or when two files are of one rank.
pub fn read_timeline(files: &[PathBuf]) -> Result<Traces, Error> {
    let mut traces = Traces::default();
    let (mut spans, mut dumps, mut of_hang) = (Vec::new(), Vec::new(), Vec::new());
    for (path, is_named) in expanded(files)? {
        let input = Input::open(&path)?;
        let Some(format) = format_of(&input) else {
            if is_named {
                return Err(unknown(&input));
            }
            traces.notes.push(format!("{}{NOT_A_TRACE}", input.name()));
            continue;
        };
        match (format.read)(&input)? {
            TraceContent::Spans(part) => spans.push((path.clone(), *part)),
            TraceContent::Flight(dump) if is_of_hang(&path) => of_hang.push((path.clone(), *dump)),
            TraceContent::Flight(dump) => dumps.push((path.clone(), *dump)),
            TraceContent::Hang(file) => {
                let HangFile { note, dump, notes } = *file;
                traces.hang_notes.extend(note);
                traces.notes.extend(notes);
                of_hang.extend(dump.map(|dump| (path.clone(), dump)));
            }
            TraceContent::Ras(report) => traces.ras.push(*report),
            TraceContent::Calls(report) => traces.inspector.get_or_insert_default().add(*report),
        }
        traces.files.push((path, format.name));
    }
    if traces.files.is_empty() {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        return Err(Error::new(format!("no trace in {}", names.join(", "))).hint(formats()));
    }
    spans.extend(traces.inspector.as_mut().and_then(InspectorReport::take_spans));
    traces.timeline = join::timelines(spans)?;
    let report = |dumps: Vec<_>, world: Option<u32>| match dumps.is_empty() {
        true => Ok(None),
        false => flight::report(dumps, world).map(Some),
    };
    (traces.flight, traces.hang) = (report(dumps, None)?, report(of_hang, world_of(&traces.hang_notes))?);
    traces.hang_notes.sort_by_key(|note| note.rank);
    Ok(traces)
}

/// How many ranks a job has, where the notes that say so agree.
fn world_of(notes: &[HangNote]) -> Option<u32> {
    let mut said = notes.iter().filter_map(|note| note.world);
    let world = said.next()?;
    said.all(|other| other == world).then_some(world)
}

/// Whether a rank of a profiled job wrote a dump while it hung: `hang-flight-rank0.pickle`. The dumps next to traces, of the end
/// of the recording, look alike.
fn is_of_hang(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"hang-"))
}

fn unknown(input: &Input) -> Error {
    Error::new(format!("{} is not a trace that can be read", input.name())).hint(formats())
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
        inside.sort_by(|a, b| natural_order(a, b));
        all.extend(inside.into_iter().map(|path| (path, false)));
    }
    Ok(all)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}
