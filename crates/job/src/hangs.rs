//! What dumps of the Flight Recorder and notes of ranks say about a hang: the cause first, then the ranks that only wait.

use std::collections::BTreeMap;

use import::traces::{
    Difference, FlightEntry, FlightReport, Frame, HangCause, HangNote, Missing, Problem, Traces, Waiting,
};
use serde_json::{Value, json};

use crate::ras_words;

/// Frames of a stack that a sentence has.
const FRAMES: usize = 4;
/// Calls in which ranks wait that a sentence names; the rest is counted.
const CALLS: usize = 6;
/// Ranks that are listed one by one.
const RANKS: usize = 12;

/// What is known of a hang, a sentence each; empty without one.
pub(crate) fn sentences(traces: &Traces) -> Vec<String> {
    let found = report(traces);
    let notes_of_ranks = &traces.hang_notes;
    let of_report = found.into_iter().flat_map(|report| &report.findings);
    let mut all: Vec<String> = of_report.map(|finding| sentence(finding, notes_of_ranks)).collect();
    all.extend(found.and_then(waiting));
    all.extend(found.and_then(members));
    if all.is_empty() {
        all.extend(transfers(notes_of_ranks));
    }
    let has_cause = !all.is_empty();
    all.extend(traces.ras.iter().flat_map(ras_words::sentences));
    // Of a job that runs, a table shows where each rank is.
    all.extend(notes(notes_of_ranks.iter().filter(|note| note.doing.is_none() || !has_cause)));
    all
}

/// Which ranks the communicators of the causes hold, where the dumps list them. One of all ranks needs no list.
fn members(report: &FlightReport) -> Option<String> {
    let all = report.ranks.len();
    let is_named = |group: &str| report.findings.iter().any(|finding| finding.call.group == group);
    let of_part = report.groups.iter().filter(|(name, ranks)| is_named(name) && ranks.len() != all);
    let shown: Vec<String> = of_part.take(CALLS).map(|(name, of)| format!("{name} holds {}", ranks(of))).collect();
    (!shown.is_empty()).then(|| format!("communicator {}", shown.join(", communicator ")))
}

/// Ranks that wait for each other in sends and receives, which gloo's recorder does not hold.
fn transfers(all: &[HangNote]) -> Option<String> {
    let waits = || all.iter().filter(|note| note.is_hang()).filter_map(|note| Some((note, note.transfer?)));
    let waiters = |of: u32| waits().filter(move |(_, (_, peer))| *peer == of);
    // The rank that most others wait for; of equally many, none is the cause.
    let mut awaited: Vec<u32> = waits().map(|(_, (_, peer))| peer).collect();
    awaited.sort_unstable();
    awaited.dedup();
    let most = awaited.iter().map(|rank| waiters(*rank).count()).max()?;
    let first: Vec<u32> = awaited.into_iter().filter(|rank| waiters(*rank).count() == most).collect();
    let told = |note: &HangNote, (receives, peer): (bool, u32)| {
        let (verb, side) = if receives { ("receive", "from") } else { ("send", "to") };
        format!("rank {} waits to {verb} {side} rank {peer}{}", note.rank, place(&note.stack))
    };
    let each: Vec<String> = waits().take(CALLS).map(|(note, transfer)| told(note, transfer)).collect();
    let [cause] = first[..] else { return Some(format!("ranks wait for each other: {}", each.join(", "))) };
    let of_cause = waiters(cause);
    let victims: Vec<u32> = of_cause.clone().map(|(note, _)| note.rank).collect();
    let is_receive = of_cause.clone().all(|(_, (receives, _))| receives);
    let verb = if is_receive { "send to" } else { "communicate with" };
    Some(format!("rank {cause} did not {verb} {}: {}", ranks(&victims), each.join(", ")))
}

/// What hung, for other programs. Null without a hang.
pub(crate) fn json(traces: &Traces) -> Value {
    let found = report(traces).filter(|report| !report.findings.is_empty());
    let Some(found) = found else { return Value::Null };
    let cause = |one: &HangCause| {
        let ranks: Vec<u32> = one.missing.iter().map(|missing| missing.rank).collect();
        json!({"problem": word(one.problem), "ranks": ranks, "call": name(&one.call), "arrived": one.arrived})
    };
    let waits = |one: &Waiting| json!({"rank": one.rank, "call": name(&one.call), "awaits": one.awaits});
    json!({
        "causes": found.findings.iter().map(cause).collect::<Vec<_>>(),
        "waiting": found.waiting.iter().map(waits).collect::<Vec<_>>(),
    })
}

/// The dumps of a hang: those made during one, or dumps without traces. A dump with traces is of a job that went on, whose
/// ranks may be one call apart.
fn report(traces: &Traces) -> Option<&FlightReport> {
    let alone = || traces.flight.as_ref().filter(|_| traces.timeline.is_none());
    traces.hang.as_ref().or_else(alone)
}

fn word(problem: Problem) -> &'static str {
    match problem {
        Problem::Mismatch(Difference::Operation) => "other_operation",
        Problem::Mismatch(Difference::Size) => "size_differs",
        Problem::Mismatch(Difference::Dtype) => "type_differs",
        Problem::Mismatch(Difference::Total) => "sizes_do_not_add_up",
        Problem::NotReached => "not_reached",
        Problem::Deadlock => "deadlock",
        Problem::NoDump => "no_dump",
        Problem::NotFinished => "not_finished",
    }
}

/// Whether a finding is of calls that were seen from outside, which nobody numbered.
fn is_live(finding: &HangCause) -> bool {
    finding.call.group.is_empty()
}

fn sentence(finding: &HangCause, notes: &[HangNote]) -> String {
    let what = name(&finding.call);
    let missing: Vec<u32> = finding.missing.iter().map(|missing| missing.rank).collect();
    let (causes, arrived, place) = (ranks(&missing), ranks(&finding.arrived), frames(finding.frames()));
    match finding.problem {
        Problem::NotReached if is_live(finding) => {
            let others = waits(&finding.arrived);
            format!("{causes} did not reach {what}; {arrived} {others} in it{place}{}", whereabouts(&missing, notes))
        }
        Problem::NoDump if is_live(finding) => {
            format!("no process of {causes} was found; {arrived} {} in {what}{place}", waits(&finding.arrived))
        }
        Problem::NotReached => {
            let last: Vec<String> = finding.missing.iter().take(1).filter_map(|one| last_call(one, finding)).collect();
            let last = last.first().map_or(String::new(), |last| format!("; {last}"));
            let (alone, waits) = (waits(&missing), waits(&finding.arrived));
            format!("{causes} did not reach {what} and {alone} nowhere; {arrived} {waits} in it{place}{last}")
        }
        Problem::Mismatch(Difference::Total) => {
            format!(
                "sizes of {what} do not add up: {arrived} together give another number of elements than they take{place}"
            )
        }
        Problem::Mismatch(Difference::Operation) => other_operation(finding),
        Problem::Mismatch(difference) => mismatch(finding, difference),
        Problem::Deadlock => {
            let waits = finding
                .missing
                .iter()
                .filter_map(|missing| Some(format!("rank {} is in {}", missing.rank, name(missing.last.as_ref()?))));
            format!("{causes} wait for each other: {}{place}", waits.take(CALLS).collect::<Vec<_>>().join(", "))
        }
        Problem::NoDump => format!("{causes} wrote no dump; {arrived} {} in {what}{place}", waits(&finding.arrived)),
        Problem::NotFinished if finding.call.is_p2p => {
            let group = &finding.call.group;
            format!(
                "{causes} {} in transfers of {group} that both sides entered, and that did not end{place}",
                waits(&missing)
            )
        }
        Problem::NotFinished if finding.arrived.is_empty() => {
            let started = started(finding).unwrap_or_default();
            format!("{causes} entered {what}, and it ended nowhere{started}{place}")
        }
        Problem::NotFinished => format!("{causes} did not end {what}, and {arrived} did{place}"),
    }
}

/// Where ranks that did not reach a call were seen: `; rank 1 sleeps in evaluate (job.py:7)`.
fn whereabouts(ranks: &[u32], notes: &[HangNote]) -> String {
    let of_ranks = ranks.iter().filter_map(|rank| notes.iter().find(|note| note.rank == *rank));
    let one = |note: &HangNote| {
        let frame = note.stack.iter().find(|frame| is_own(frame)).or(note.stack.first());
        let at = frame.map_or(String::new(), |frame| format!(" in {}", one_frame(frame)));
        Some(format!("; rank {} {}{at}", note.rank, note.doing.as_ref()?))
    };
    of_ranks.filter_map(one).take(CALLS).collect()
}

/// Where a call began on the devices of some ranks, and not on those of others.
fn started(finding: &HangCause) -> Option<String> {
    let in_state = |state: &str| -> Vec<u32> {
        let of = |missing: &&Missing| missing.last.as_ref().is_some_and(|last| last.state == state);
        finding.missing.iter().filter(of).map(|missing| missing.rank).collect()
    };
    let (begun, queued) = (in_state("started"), in_state("scheduled"));
    let is_split = !begun.is_empty() && !queued.is_empty();
    is_split.then(|| {
        format!(
            "; it started on {}, and is only scheduled on {}: earlier work on its stream has not ended",
            ranks(&begun),
            ranks(&queued)
        )
    })
}

/// `rank 1 is in barrier (job.py:7) while rank 0 is in all_reduce #46 of 0 (default_pg) (job.py:6)`.
fn other_operation(finding: &HangCause) -> String {
    let mut calls: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for missing in &finding.missing {
        if let Some(entry) = &missing.last {
            calls.entry(format!("{}{}", entry.operation, place(&entry.frames))).or_default().push(missing.rank);
        }
    }
    let odd: Vec<String> =
        calls.into_iter().map(|(call, of)| format!("{} {} in {call}", ranks(&of), are(&of))).collect();
    let usual = &finding.arrived;
    format!(
        "{} while {} {} in {}{}",
        odd.join(", "),
        ranks(usual),
        are(usual),
        name(&finding.call),
        place(finding.frames())
    )
}

/// `rank 1: size differs: 1025 elements in all_gather #4 of 0 (default_pg), and 1024 of ranks 0, 2, 3`.
fn mismatch(finding: &HangCause, difference: Difference) -> String {
    let value = |entry: &FlightEntry| match difference {
        Difference::Operation => entry.operation.clone(),
        Difference::Dtype => entry.dtype().unwrap_or("no type").to_owned(),
        Difference::Size | Difference::Total => format!("{} elements", entry.elements()),
    };
    let what = match difference {
        Difference::Operation => "calls another operation",
        Difference::Dtype => "element type differs",
        Difference::Size | Difference::Total => "size differs",
    };
    let mut values: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for missing in &finding.missing {
        if let Some(entry) = &missing.last {
            values.entry(value(entry)).or_default().push(missing.rank);
        }
    }
    let odd: Vec<String> = values.into_iter().map(|(value, of)| format!("{}: {what}: {value}", ranks(&of))).collect();
    let (call, usual) = (name(&finding.call), ranks(&finding.arrived));
    format!("{} in {call}, and {} of {usual}{}", odd.join(", "), value(&finding.call), frames(finding.frames()))
}

/// The last call of a rank, with its stack where that says more.
fn last_call(missing: &Missing, finding: &HangCause) -> Option<String> {
    let last = missing.last.as_ref()?;
    let place = if last.frames == finding.frames() { String::new() } else { frames(&last.frames) };
    Some(format!("the last call of rank {} is {}{place}", missing.rank, name(last)))
}

/// Ranks that only wait, by call and by the ranks that they wait for.
fn waiting(report: &FlightReport) -> Option<String> {
    let all = &report.waiting;
    // One cause has said already who waits for it.
    if let [only] = &report.findings[..]
        && only.problem == Problem::NotReached
        && all.iter().all(|one| only.arrived.contains(&one.rank) && name(&one.call) == name(&only.call))
    {
        return None;
    }
    let mut calls: BTreeMap<(String, &[u32]), Vec<u32>> = BTreeMap::new();
    for one in all.iter().filter(|one| !one.awaits.is_empty()) {
        calls.entry((name(&one.call), &one.awaits)).or_default().push(one.rank);
    }
    let victims: Vec<u32> = all.iter().filter(|one| !one.awaits.is_empty()).map(|one| one.rank).collect();
    if victims.is_empty() {
        return None;
    }
    let mut parts: Vec<(Vec<u32>, String)> = calls
        .into_iter()
        .map(|((call, awaits), of)| {
            let part = format!("{} {} for {} in {call}", ranks(&of), waits(&of), ranks(awaits));
            (of, part)
        })
        .collect();
    // The largest groups say most.
    parts.sort_by_key(|(of, _)| std::cmp::Reverse(of.len()));
    let rest: usize = parts.iter().skip(CALLS).map(|(of, _)| of.len()).sum();
    let more = if rest > 0 { format!("; {rest} more ranks wait in other calls") } else { String::new() };
    let shown: Vec<String> = parts.into_iter().take(CALLS).map(|(_, part)| part).collect();
    Some(format!("{} only {} because of that: {}{more}", ranks(&victims), waits(&victims), shown.join("; ")))
}

/// Where ranks that ended no step were. Ranks in one place are one sentence; a place of few ranks comes first.
fn notes<'n>(all: impl Iterator<Item = &'n HangNote>) -> Vec<String> {
    let mut places: Vec<(String, bool, Vec<&HangNote>)> = Vec::new();
    for note in all {
        let stack = if note.stack.is_empty() { ": its stack is not known".to_owned() } else { frames(&note.stack) };
        let is_slow = note.step_ended_after_s.is_some();
        let is_alike = |known: &HangNote| known.doing == note.doing;
        match places.iter_mut().find(|(known, slow, of)| *known == stack && *slow == is_slow && is_alike(of[0])) {
            Some((.., of)) => of.push(note),
            None => places.push((stack, is_slow, vec![note])),
        }
    }
    places.sort_by_key(|(.., of)| of.len());
    let sentence = |(stack, is_slow, of): (String, bool, Vec<&HangNote>)| {
        let numbers: Vec<u32> = of.iter().map(|note| note.rank).collect();
        let longest =
            |seconds: fn(&HangNote) -> Option<f64>| of.iter().filter_map(|note| seconds(note)).fold(0.0, f64::max);
        let who = ranks(&numbers);
        if let Some(doing) = &of[0].doing {
            let each = if numbers.len() > 1 { "each " } else { "" };
            format!("{who} {each}{doing}{stack}")
        } else if is_slow {
            let whole = longest(|note| note.step_ended_after_s);
            format!("{who} took {whole:.0} s for a step{stack}")
        } else {
            format!("{who} ended no step for {:.0} s{stack}", longest(|note| note.since_last_step_s))
        }
    };
    places.into_iter().map(sentence).collect()
}

fn waits(ranks: &[u32]) -> &'static str {
    if ranks.len() == 1 { "waits" } else { "wait" }
}

/// `all_reduce #6 of 2 (tp)`, or `the transfer from rank 1 to rank 2 of 0 (default_pg)`.
fn name(call: &FlightEntry) -> String {
    match call.peers {
        Some((from, to)) if call.is_p2p && call.group.is_empty() => {
            format!("the transfer from rank {from} to rank {to}")
        }
        _ if call.group.is_empty() => call.operation.clone(),
        Some((from, to)) if call.is_p2p => format!("the transfer from rank {from} to rank {to} of {}", call.group),
        _ if call.is_p2p => format!("{} #{} of {}", call.operation, call.p2p_sequence, call.group),
        _ => format!("{} #{} of {}", call.operation, call.sequence, call.group),
    }
}

fn are(ranks: &[u32]) -> &'static str {
    if ranks.len() == 1 { "is" } else { "are" }
}

/// Whether a frame is of the job's own files: not of an installed package, of Python itself, or of the agent.
pub(crate) fn is_own(frame: &Frame) -> bool {
    let others = ["/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python", "/agent/rankmark_profile", "<"];
    !others.iter().any(|other| frame.file.contains(other))
}

/// The innermost line of the job's own files: ` (job.py:7)`. Empty where the stack holds none.
pub(crate) fn place(frames: &[Frame]) -> String {
    let own = frames.iter().find(|frame| is_own(frame));
    own.map_or(String::new(), |frame| {
        let file = frame.file.rsplit('/').next().unwrap_or(&frame.file);
        format!(" ({file}:{})", frame.line)
    })
}

/// `step (job.py:7)`, or `poll (libc.so.6)` where no line is known.
fn one_frame(frame: &Frame) -> String {
    let Frame { name, file, line } = frame;
    match (file.is_empty(), line) {
        (true, _) => name.to_string(),
        (false, 0) => format!("{name} ({file})"),
        (false, line) => format!("{name} ({file}:{line})"),
    }
}

/// The job's own frames, innermost first; where it has none, those of others, but for the agent's.
fn frames(frames: &[Frame]) -> String {
    let own: Vec<&Frame> = frames.iter().filter(|frame| is_own(frame)).collect();
    let others = || frames.iter().filter(|frame| !frame.file.contains("/agent/rankmark_profile")).collect();
    let told: Vec<&Frame> = if own.is_empty() { others() } else { own };
    let shown: Vec<String> = told.into_iter().take(FRAMES).map(one_frame).collect();
    if shown.is_empty() { String::new() } else { format!(": {}", shown.join(" < ")) }
}

/// `rank 3`, `ranks 0, 2, 3`, `ranks 0 to 62`. Of many, the first are listed.
pub(crate) fn ranks(all: &[u32]) -> String {
    match all {
        [] => "no rank".to_owned(),
        [one] => format!("rank {one}"),
        [first, .., last] if all.len() > 3 && (last - first) as usize == all.len() - 1 && all.is_sorted() => {
            format!("ranks {first} to {last}")
        }
        _ => {
            let shown: Vec<String> = all.iter().take(RANKS).map(u32::to_string).collect();
            let more = all.len().saturating_sub(RANKS);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("ranks {}{more}", shown.join(", "))
        }
    }
}
