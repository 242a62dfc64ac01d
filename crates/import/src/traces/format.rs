//! A format of traces, and what it makes of a file.

use terms::Error;
use trace::timeline::Timeline;

use super::flight::{Dump, HangFile};
use super::input::Input;
use super::inspector::InspectorReport;
use super::ras::RasReport;

/// One format of traces.
pub struct TraceFormat {
    /// Name of the format.
    pub name: &'static str,
    /// The program that writes it, and how.
    pub doc: &'static str,
    pub(super) recognises: fn(&Input) -> bool,
    pub(super) read: fn(&Input) -> Result<TraceContent, Error>,
}

/// What one file holds.
pub(super) enum TraceContent {
    Spans(Box<Spans>),
    Flight(Box<Dump>),
    Hang(Box<HangFile>),
    Calls(Box<InspectorReport>),
    Ras(Box<RasReport>),
}

/// A timeline of one file.
pub(super) struct Spans {
    pub(super) timeline: Timeline,
    /// The rank that the file names. Its timeline then has one rank.
    pub(super) rank: Option<u32>,
    /// Whether the ranks of the timeline have their numbers already.
    pub(super) is_numbered: bool,
    /// Whether times are those of a calendar.
    pub(super) is_calendar: bool,
}
