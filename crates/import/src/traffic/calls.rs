//! The calls of a job, whatever its traces are: spans of a timeline, entries of Flight Recorders, lines of NCCL Inspector.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use terms::Error;
use trace::timeline::{CollectiveCall, Kind, NameId, RankTimeline, Span, Timeline, synchronises};

use super::steps::Steps;
use crate::traces::{DIFFERENT_WORLDS, FlightEntry, FlightReport, InspectorCall, InspectorReport, NOT_A_TRACE, Traces};

/// The source of timelines and calls of NCCL Inspector.
const INSPECTOR: &str = "NCCL Inspector";

/// What a trace says of the size of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallBytes {
    /// S of the operation.
    Whole(u64),
    /// The block of one rank, where S is that of all ranks.
    Block(u64),
    /// Nothing.
    Unknown,
}

/// Where a call is in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// In the step of this number.
    Step(u32),
    /// In a trace that marks no steps.
    Whole,
    /// Before the first step or after the last.
    Outside,
}

/// A communicator: its name, and its ranks where they are listed.
pub(super) type CallGroup<'t> = (&'t str, Option<&'t [u32]>);

/// One call of one rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankCall<'t> {
    pub(super) rank: u32,
    pub(super) operation: &'t str,
    pub(super) group: CallGroup<'t>,
    /// A number that all ranks of one call have in common; None: their order decides.
    pub(super) sequence: Option<u64>,
    /// Ranks of the communicator, where they are known.
    pub(super) ranks: Option<u32>,
    pub(super) size: CallBytes,
    /// Whether the rank gives and takes different numbers of bytes.
    pub(super) is_uneven: bool,
    pub(super) dtype: Option<&'t str>,
    pub(super) times: Option<(i64, i64)>,
    pub(super) duration_ns: Option<i64>,
    pub(super) place: Place,
}

/// All calls of a job's traces.
pub(super) struct JobCalls<'t> {
    /// The tool that recorded them.
    pub(super) source: &'t str,
    /// Ranks of the job, where the traces say so; else as many as a communicator has, or as traces there are.
    pub(super) world: u32,
    /// Ranks that the traces are of.
    pub(super) traced: usize,
    pub(super) calls: Vec<RankCall<'t>>,
    /// Steps by rank; empty where no rank marks steps.
    pub(super) steps: BTreeMap<u32, u64>,
    /// What the reader should know, one sentence each.
    pub(super) notes: Vec<String>,
}

impl<'t> JobCalls<'t> {
    /// The calls of traces: of the timeline where there is one with calls, because it has steps and times.
    pub(super) fn from_traces(traces: &'t Traces) -> Result<Self, Error> {
        refuse_several_jobs(traces)?;
        let timeline = traces.timeline.as_ref().filter(|timeline| has_calls(timeline));
        let mut job = match (timeline, &traces.inspector, traces.flight.as_ref().or(traces.hang.as_ref())) {
            // A log of single calls says more than the timeline that was made of it.
            (_, Some(report), _) if !report.calls.is_empty() => of_inspector(report),
            (Some(timeline), ..) => of_timeline(timeline),
            (None, _, Some(flight)) if flight.ranks.iter().any(|rank| !rank.entries.is_empty()) => of_flight(flight),
            _ => return Err(without_calls(traces)),
        };
        job.notes.extend(notes_of_files(&traces.notes));
        Ok(job)
    }

    fn new(source: &'t str, calls: Vec<RankCall<'t>>, world: Option<u32>) -> Self {
        let ranks: BTreeSet<u32> = calls.iter().map(|call| call.rank).collect();
        let largest = calls.iter().filter_map(|call| call.ranks).max();
        let traced = ranks.len();
        let world = world.unwrap_or(0).max(largest.unwrap_or(0)).max(u32::try_from(traced).unwrap_or(u32::MAX));
        Self { source, world, traced, calls, steps: BTreeMap::new(), notes: Vec::new() }
    }
}

/// Refuses what is not of one job, and the same calls from two tools: they would count twice.
fn refuse_several_jobs(traces: &Traces) -> Result<(), Error> {
    let Some(timeline) = &traces.timeline else { return Ok(()) };
    if let Some(note) = timeline.notes.iter().find(|note| note.starts_with(DIFFERENT_WORLDS)) {
        return Err(Error::new("the traces come from several jobs")
            .cause(note.as_str())
            .hint("name the traces of one job"));
    }
    let is_twice = traces.inspector.as_ref().is_some_and(|report| !report.calls.is_empty());
    if is_twice && has_calls(timeline) && timeline.source != INSPECTOR {
        return Err(Error::new("two tools recorded the calls")
            .cause(format!("there are traces of {} and logs of {INSPECTOR}", timeline.source))
            .hint("name the files of one tool"));
    }
    Ok(())
}

/// What was left out of a folder. Files that are not traces are counted, since a folder may hold any number of them.
fn notes_of_files(notes: &[String]) -> Vec<String> {
    let (others, mut kept): (Vec<_>, Vec<_>) = notes.iter().cloned().partition(|note| note.ends_with(NOT_A_TRACE));
    match others.as_slice() {
        [] => {}
        [one] => kept.push(one.clone()),
        many => kept.push(format!("{} files of the folder are left out: they are not traces", many.len())),
    }
    kept
}

/// Notes of several ranks that say the same, once: `2 of 12 files: the times have no calendar`.
pub(super) fn once(notes: &[String]) -> Vec<String> {
    let mut counts: Vec<(&str, &str, usize)> = Vec::new();
    for note in notes {
        let bare =
            note.split_once(": ").filter(|(file, _)| !file.contains(' ')).map_or(note.as_str(), |(_, bare)| bare);
        match counts.iter_mut().find(|(known, ..)| *known == bare) {
            Some((.., count)) => *count += 1,
            None => counts.push((bare, note, 1)),
        }
    }
    let said = |(bare, whole, count): (&str, &str, usize)| match count {
        1 => whole.to_owned(),
        count => format!("{bare} (so {count} files)"),
    };
    counts.into_iter().map(said).collect()
}

fn has_calls(timeline: &Timeline) -> bool {
    timeline.ranks.iter().any(|rank| rank.spans.iter().any(|span| span.kind == Kind::Collective))
}

fn without_calls(traces: &Traces) -> Error {
    let notes = traces.timeline.iter().flat_map(|timeline| &timeline.notes);
    let notes: Vec<&str> = notes.chain(&traces.notes).map(String::as_str).collect();
    let error = Error::new("the traces hold no call of a collective");
    let error = if notes.is_empty() { error } else { error.cause(notes.join("; ")) };
    error.hint("record steps in which ranks communicate; on GPUs, profile with ProfilerActivity.CUDA")
}

fn of_timeline(timeline: &Timeline) -> JobCalls<'_> {
    let steps: BTreeMap<u32, Steps> = timeline.ranks.iter().map(|rank| (rank.rank, Steps::from_rank(rank))).collect();
    let marks_steps = steps.values().any(|steps| steps.count() > 0);
    let mut calls = Vec::new();
    let listed = Listed::new(&timeline.groups);
    for rank in &timeline.ranks {
        let mut groups = ListedGroups { listed: &listed, rank: rank.rank, known: HashMap::new() };
        let own = &steps[&rank.rank];
        let place = |begin: i64| match marks_steps {
            true => own.step_at(begin).map_or(Place::Outside, Place::Step),
            false => Place::Whole,
        };
        for (span, call) in calls_of(rank) {
            let group = groups.find(call.group, timeline.names.get(call.group));
            calls.push(of_span(timeline, rank.rank, (span, call), group, place(span.begin_ns)));
        }
    }
    let mut job = JobCalls::new(&timeline.source, calls, timeline.world);
    job.notes.clone_from(&timeline.notes);
    if marks_steps {
        job.steps = steps.into_iter().map(|(rank, steps)| (rank, steps.count())).collect();
    }
    job
}

fn calls_of(rank: &RankTimeline) -> impl Iterator<Item = (&Span, &CollectiveCall)> {
    let spans = rank.spans.iter().filter(|span| span.kind == Kind::Collective && span.end_ns >= span.begin_ns);
    spans.filter_map(|span| Some((span, rank.call(span)?)))
}

fn of_span<'t>(
    timeline: &'t Timeline,
    rank: u32,
    (span, call): (&Span, &CollectiveCall),
    group: CallGroup<'t>,
    place: Place,
) -> RankCall<'t> {
    let operation = timeline.names.get(call.operation);
    let size = match (call.bytes, call.input_bytes) {
        (Some(bytes), _) => CallBytes::Whole(bytes),
        (None, Some(input)) if matches!(operation, "all_gather" | "gather") => CallBytes::Block(input),
        _ => CallBytes::Unknown,
    };
    let is_uneven = call.bytes.zip(call.input_bytes).is_some_and(|(bytes, input)| bytes != input);
    RankCall {
        rank,
        operation,
        group,
        sequence: call.sequence,
        ranks: call.ranks.or(group.1.and_then(|members| u32::try_from(members.len()).ok())),
        size,
        is_uneven,
        dtype: call.dtype.map(|word| timeline.names.get(word)),
        times: Some((span.begin_ns, span.end_ns)),
        duration_ns: Some(span.duration_ns()),
        place,
    }
}

/// Which of the listed communicators a rank's calls are of. Different ones may have one name on different ranks.
struct ListedGroups<'l, 't> {
    listed: &'l Listed<'t>,
    rank: u32,
    known: HashMap<NameId, Option<&'t [u32]>>,
}

impl<'t> ListedGroups<'_, 't> {
    fn find(&mut self, id: NameId, name: &'t str) -> CallGroup<'t> {
        (name, *self.known.entry(id).or_insert_with(|| self.listed.members(name, self.rank)))
    }
}

/// The listed communicators by name: a trace may list 100,000.
struct Listed<'t>(HashMap<&'t str, Vec<&'t [u32]>>);

impl<'t> Listed<'t> {
    fn new(listed: &'t [(String, Vec<u32>)]) -> Self {
        let mut by_name: HashMap<&str, Vec<&[u32]>> = HashMap::new();
        for (name, ranks) in listed {
            by_name.entry(name).or_default().push(ranks);
        }
        Self(by_name)
    }

    fn members(&self, name: &str, rank: u32) -> Option<&'t [u32]> {
        self.0.get(name)?.iter().copied().find(|ranks| ranks.contains(&rank))
    }
}

fn of_flight(flight: &FlightReport) -> JobCalls<'_> {
    let mut sizes: HashMap<&str, u32> = HashMap::new();
    for rank in &flight.ranks {
        let own: BTreeSet<&str> = rank.entries.iter().map(|entry| entry.group.as_str()).collect();
        own.into_iter().for_each(|group| *sizes.entry(group).or_default() += 1);
    }
    let (mut calls, mut unlisted) = (Vec::new(), false);
    let all = Listed::new(&flight.groups);
    for rank in &flight.ranks {
        let mut listed: HashMap<&str, Option<&[u32]>> = HashMap::new();
        for entry in &rank.entries {
            let name = entry.group.as_str();
            let members = *listed.entry(name).or_insert_with(|| all.members(name, rank.rank));
            unlisted |= members.is_none();
            let ranks = members.map_or(sizes[name], |members| u32::try_from(members.len()).unwrap_or(u32::MAX));
            calls.push(of_entry(rank.rank, entry, (name, members), ranks));
        }
    }
    let mut job = JobCalls::new("PyTorch Flight Recorder", calls, None);
    job.notes.clone_from(&flight.notes);
    if unlisted {
        let what =
            "the dumps do not list the ranks of communicators: each has as many as there are dumps with its calls";
        job.notes.push(what.to_owned());
    }
    job
}

fn of_entry<'t>(rank: u32, entry: &'t FlightEntry, group: CallGroup<'t>, ranks: u32) -> RankCall<'t> {
    let (input, output) = (entry.input_bytes(), entry.output_bytes());
    let block = |bytes: Option<u64>| bytes.map_or(CallBytes::Unknown, CallBytes::Block);
    let whole = |bytes: Option<u64>| bytes.map_or(CallBytes::Unknown, CallBytes::Whole);
    let size = match entry.operation.as_str() {
        "all_gather" => output.map_or(block(input), CallBytes::Whole),
        "gather" => block(input),
        "scatter" => block(output),
        "all_to_all" | "all_to_allv" => whole(input.max(output)),
        _ => whole(input.or(output)),
    };
    // A word for both directions that the recorder uses for transfers between two ranks, too.
    let operation = if entry.is_p2p { "send_recv" } else { entry.operation.as_str() };
    RankCall {
        rank,
        operation,
        group,
        sequence: Some(entry.sequence),
        ranks: Some(ranks),
        size,
        is_uneven: input.zip(output).is_some_and(|(input, output)| input != output),
        dtype: entry.dtype(),
        times: None,
        duration_ns: entry.duration_ms.filter(|ms| (0.0..1e12).contains(ms)).map(|ms| (ms * 1e6) as i64),
        place: Place::Whole,
    }
}

fn of_inspector(report: &InspectorReport) -> JobCalls<'_> {
    let ranks = report.job_ranks();
    let mut numbered: HashMap<(&str, u64, u32), u32> = HashMap::new();
    let mut notes = report.notes.clone();
    notes.extend(ranks.as_ref().err().map(|why| format!("{why}; each process counts as a rank")));
    let mut calls = Vec::with_capacity(report.calls.len());
    for call in &report.calls {
        let next = u32::try_from(numbered.len()).unwrap_or(u32::MAX);
        // A log without process numbers still has the rank in the communicator.
        let process =
            if call.pid == 0 { (call.host.as_str(), 0, call.rank) } else { (call.host.as_str(), call.pid, 0) };
        let own = *numbered.entry(process).or_insert(next);
        let rank = ranks.as_ref().ok().and_then(|ranks| ranks.get(&(call.host.as_str(), call.pid)).copied());
        calls.push(of_line(rank.unwrap_or(own), call));
    }
    JobCalls { notes, ..JobCalls::new(INSPECTOR, calls, None) }
}

fn of_line(rank: u32, call: &InspectorCall) -> RankCall<'_> {
    // NCCL counts elements of one rank's block where S counts those of all (NVIDIA/nccl, inspector.cc, bandwidths).
    let is_block =
        matches!(call.operation.as_str(), "all_gather" | "reduce_scatter" | "all_to_all" | "gather" | "scatter");
    RankCall {
        rank,
        operation: if call.is_p2p { "send_recv" } else { call.operation.as_str() },
        group: (call.communicator.as_str(), None),
        sequence: (!call.is_p2p).then_some(call.sequence),
        ranks: Some(call.ranks),
        size: if is_block { CallBytes::Block(call.bytes) } else { CallBytes::Whole(call.bytes) },
        is_uneven: false,
        dtype: None,
        times: call.times_ns,
        duration_ns: (call.time_us < 1e12).then_some((call.time_us * 1e3) as i64),
        place: Place::Whole,
    }
}

/// Whether all ranks of an operation leave it together, so that the shortest duration is that of moving bytes.
pub(super) fn tells_waits(operation: &str) -> bool {
    synchronises(operation)
}
