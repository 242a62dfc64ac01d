//! What ranks did, in time: spans of steps, phases, waits, collectives and kernels, of our own ranks or read from another
//! tool's trace. Knows when things happened; what they mean is for `diagnose` to say.

use std::collections::HashMap;

/// `Timeline::source` of our own ranks.
pub const SOURCE: &str = "rankmark";

/// The communicator of calls that name none, on a rank that is in several: the call may be of any of them, so nobody knows which
/// ranks take part.
pub const ONE_OF_SEVERAL: &str = "unknown (one of several)";

/// Spans of the ranks of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// What recorded it: `rankmark`, `PyTorch profiler`, ...
    pub source: String,
    /// Sorted by rank; each rank once.
    pub ranks: Vec<RankTimeline>,
    /// Ranks of the whole job, where the trace says so. More than `ranks` holds when some are missing.
    pub world: Option<u32>,
    /// How far the clocks of two ranks may be apart, in nanoseconds. None: not known, so times of different ranks must not be
    /// compared.
    pub clock_error_ns: Option<u64>,
    /// Names of spans, communicators and operations.
    pub names: Names,
    /// What could not be read, one sentence each.
    pub notes: Vec<String>,
    /// What recording took, where it was measured.
    pub recording: Option<Recording>,
    /// Communicators whose ranks the trace lists, by the names that calls have.
    pub groups: Vec<(String, Vec<u32>)>,
}

/// What recording took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Seconds of steps that were recorded: the slowest rank of each.
    pub with_s: Vec<f64>,
    /// Seconds of steps between them that were not.
    pub without_s: Vec<f64>,
    /// Nanoseconds that one span takes, if that is known.
    pub span_ns: Option<f64>,
}

/// Spans of one rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankTimeline {
    /// Which rank of the job.
    pub rank: u32,
    /// Where it ran, if known.
    pub host: Option<String>,
    /// Ordered by beginning; an enclosing span stands before what it encloses.
    pub spans: Vec<Span>,
    /// What `Span::collective` points to.
    pub collectives: Vec<CollectiveCall>,
    /// Spans that are missing because there was no room for them.
    pub lost: u64,
    /// Exchanges that the rank began, without an end in the trace. With any, waits for them are not known.
    pub endless: u64,
    /// Steps by number, ascending, and how many nanoseconds of each the step's thread waited for a processor, but for waits
    /// for communication; empty where that is not known.
    pub descheduled: Vec<(u32, u64)>,
}

/// One stretch of time of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Beginning, in nanoseconds of one origin for all ranks of the timeline.
    pub begin_ns: i64,
    /// End; never before the beginning.
    pub end_ns: i64,
    /// What it is.
    pub kind: Kind,
    /// Where it ran: 0 is the thread that runs the step, other numbers are other threads and device streams of this rank.
    pub queue: u32,
    /// Name of the span.
    pub name: NameId,
    /// For a `Step`: its number in the job. For a phase: the micro-batch, or 0. For a `Block`: its place in the model.
    pub number: u32,
    /// The index of its call in `RankTimeline::collectives`, or `NO_CALL`.
    pub collective: u32,
}

/// The value of `Span::collective` where a span is not a collective, or nothing is known of it.
pub const NO_CALL: u32 = u32::MAX;

impl Span {
    /// Nanoseconds from beginning to end.
    pub fn duration_ns(&self) -> i64 {
        self.end_ns - self.begin_ns
    }
}

/// What a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A whole training step.
    Step,
    /// The step's thread waits for data.
    Input,
    /// Forward pass.
    Forward,
    /// Backward pass.
    Backward,
    /// Optimizer.
    Optimizer,
    /// Forward or backward of one block of the model, inside a phase.
    Block,
    /// A collective or a transfer between ranks, from entering it to its end, on whatever queue it runs.
    Collective,
    /// The step's thread is blocked until communication ends.
    Wait,
    /// A kernel of a device, which is not communication.
    Kernel,
    /// A copy or fill of device memory.
    Copy,
    /// The step's thread works for nobody of the above: launches, Python, descheduling.
    Host,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Step,
        Self::Input,
        Self::Forward,
        Self::Backward,
        Self::Optimizer,
        Self::Block,
        Self::Collective,
        Self::Wait,
        Self::Kernel,
        Self::Copy,
        Self::Host,
    ];

    /// The one spelling of the kind, in files and on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Block => "block",
            Self::Collective => "collective",
            Self::Wait => "wait",
            Self::Kernel => "kernel",
            Self::Copy => "copy",
            Self::Host => "host",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One rank's part of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveCall {
    /// `all_reduce`, `all_gather`, ..., or the tool's own word where it is none of ours.
    pub operation: NameId,
    /// Which communicator: calls of different ranks belong together when group, operation and sequence are equal.
    pub group: NameId,
    /// Counts the calls of this group from 0, the same on all its ranks. None: the trace does not say, and order decides.
    pub sequence: Option<u64>,
    /// Ranks of the communicator, where known.
    pub ranks: Option<u32>,
    /// S of the operation, where known.
    pub bytes: Option<u64>,
    /// Bytes that the rank gives, where the trace says so. S follows from them with the number of ranks.
    pub input_bytes: Option<u64>,
    /// The element type by the tool's own word, where known.
    pub dtype: Option<NameId>,
    /// Whether no rank can leave before all have entered (`all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`,
    /// `barrier`).
    pub synchronises: bool,
    /// Where its bytes began to move, if that is known apart from entering.
    pub first_byte_ns: Option<i64>,
}

/// An index into `Names`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub u32);

/// Texts, each once.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<String>,
    ids: HashMap<String, u32>,
}

impl Names {
    /// The index of a text, which is kept if it is new.
    pub fn intern(&mut self, text: &str) -> NameId {
        if let Some(id) = self.ids.get(text) {
            return NameId(*id);
        }
        let id = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        NameId(id)
    }

    /// The text of an index; empty for one that this table did not give.
    pub fn get(&self, id: NameId) -> &str {
        self.texts.get(id.0 as usize).map_or("", String::as_str)
    }

    /// The index of a text, if it is there.
    pub fn find(&self, text: &str) -> Option<NameId> {
        self.ids.get(text).copied().map(NameId)
    }
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

/// Whether an operation of this name ends nowhere before all ranks have entered it.
pub fn synchronises(operation: &str) -> bool {
    matches!(operation, "all_reduce" | "all_gather" | "reduce_scatter" | "all_to_all" | "barrier")
}

impl RankTimeline {
    /// Adds a span that belongs to no collective.
    pub fn push(&mut self, kind: Kind, name: NameId, number: u32, begin_ns: i64, end_ns: i64) {
        self.spans.push(Span { begin_ns, end_ns, kind, queue: 0, name, number, collective: NO_CALL });
    }

    /// Adds a collective on a queue.
    pub fn push_call(&mut self, queue: u32, begin_ns: i64, end_ns: i64, call: CollectiveCall) {
        let collective = self.collectives.len() as u32;
        self.collectives.push(call);
        let (kind, name) = (Kind::Collective, call.operation);
        self.spans.push(Span { begin_ns, end_ns, kind, queue, name, number: 0, collective });
    }

    /// Orders the spans as the field says. A reader calls it once, at its end.
    pub fn sort(&mut self) {
        self.spans.sort_by_key(|span| (span.begin_ns, std::cmp::Reverse(span.end_ns), span.kind));
    }

    /// The call of a span.
    pub fn call(&self, span: &Span) -> Option<&CollectiveCall> {
        self.collectives.get(span.collective as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_once_and_read_back() {
        let mut names = Names::default();
        let (first, second) = (names.intern("all_reduce"), names.intern("world"));
        assert_eq!((names.intern("all_reduce"), names.get(second), names.find("no")), (first, "world", None));
        assert_eq!(names.get(NameId(9)), "");
    }

    #[test]
    fn kinds_read_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(Kind::from_name("nothing"), None);
    }

    #[test]
    fn an_enclosing_span_stands_first() {
        let mut rank = RankTimeline::default();
        rank.push(Kind::Forward, NameId(0), 0, 10, 20);
        rank.push(Kind::Step, NameId(0), 1, 10, 50);
        rank.push(Kind::Input, NameId(0), 0, 0, 10);
        rank.sort();
        let kinds: Vec<Kind> = rank.spans.iter().map(|span| span.kind).collect();
        assert_eq!(kinds, [Kind::Input, Kind::Step, Kind::Forward]);
    }
}
