//! What dumps of the Flight Recorder and notes of ranks say about a hang: the cause first, then the ranks that only wait.

use std::collections::{BTreeMap, BTreeSet};

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
    let mut all: Vec<String> = found.map_or_else(Vec::new, |report| findings(report, notes_of_ranks));
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

/// The causes that dumps show, or calls that were seen from outside.
fn findings(report: &FlightReport, notes: &[HangNote]) -> Vec<String> {
    report.findings.iter().map(|finding| sentence(finding, report, notes)).collect()
}

/// Which ranks the communicators of the causes hold, where the dumps list them. One of all ranks needs no list.
fn members(report: &FlightReport) -> Option<String> {
    let all = report.ranks.len();
    let is_named = |group: &str| report.findings.iter().any(|finding| finding.call.group == group);
    let of_part = report.groups.iter().filter(|(name, ranks)| is_named(name) && ranks.len() != all);
    let shown: Vec<String> = of_part.take(CALLS).map(|(name, of)| format!("{name} holds {}", ranks(of))).collect();
    (!shown.is_empty()).then(|| format!("communicator {}", shown.join(", communicator ")))
}

/// A rank in a transfer: whether it receives, else sends, and the rank on the other side.
type InTransfer<'n> = (&'n HangNote, (bool, u32));

/// Ranks that wait for others in sends and receives, which gloo's recorder does not hold. A rank that others wait for and that
/// is in no transfer itself is the cause. Where there is none, ranks wait in a circle.
fn transfers(all: &[HangNote]) -> Vec<String> {
    let hung = all.iter().filter(|note| note.is_hang());
    let waits: Vec<InTransfer<'_>> = hung.filter_map(|note| Some((note, note.transfer?))).collect();
    let peers: BTreeMap<u32, u32> = waits.iter().map(|(note, (_, peer))| (note.rank, *peer)).collect();
    let ends: BTreeSet<u32> = peers.values().copied().filter(|peer| !peers.contains_key(peer)).collect();
    let told = |end: u32, waits: &[InTransfer<'_>]| did_not_send(end, waits) + &end_of_chain(end, waits, all);
    match (ends.len(), ends.first()) {
        (_, None) if waits.is_empty() => Vec::new(),
        (_, None) => vec![circle(&waits, &peers)],
        (1, Some(end)) => vec![told(*end, &waits)],
        _ => ends.iter().take(CALLS).map(|end| told(*end, &waiters(*end, &waits))).collect(),
    }
}

/// The ranks that are in a transfer with this one.
fn waiters<'n>(of: u32, waits: &[InTransfer<'n>]) -> Vec<InTransfer<'n>> {
    waits.iter().filter(|(_, (_, peer))| *peer == of).copied().collect()
}

/// `rank 1 did not send to ranks 0, 2: rank 0 waits to receive from rank 1 (job.py:10)`.
fn did_not_send(cause: u32, waits: &[InTransfer<'_>]) -> String {
    let direct = waiters(cause, waits);
    let victims: Vec<u32> = direct.iter().map(|(note, _)| note.rank).collect();
    let is_receive = direct.iter().all(|(_, (receives, _))| *receives);
    let verb = if is_receive { "send to" } else { "communicate with" };
    // Of many, those that wait for the cause itself say most.
    let listed = if waits.len() > CALLS { in_transfers(&direct) } else { in_transfers(waits) };
    format!("rank {cause} did not {verb} {}: {listed}", ranks(&victims))
}

/// Where the rank at the end of a chain of waits was seen. Of one that wrote a note itself, a sentence of its own says it.
fn end_of_chain(end: u32, waits: &[InTransfer<'_>], all: &[HangNote]) -> String {
    let is_seen_from_outside = waits.iter().any(|(note, _)| note.doing.is_some());
    match all.iter().any(|note| note.rank == end) {
        false if is_seen_from_outside => format!("; no process of rank {end} was found"),
        _ => whereabouts(&[end], all),
    }
}

/// Ranks that wait in a circle: that for which most of them and others wait is the cause; of equally many, none is.
fn circle(waits: &[InTransfer<'_>], peers: &BTreeMap<u32, u32>) -> String {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    peers.values().for_each(|peer| *counts.entry(*peer).or_default() += 1);
    let inside = in_circles(peers);
    let most = inside.iter().filter_map(|rank| counts.get(rank)).max();
    let mut first = inside.iter().filter(|rank| counts.get(*rank) == most);
    match (first.next(), first.next()) {
        (Some(cause), None) => did_not_send(*cause, waits),
        _ => format!("ranks wait for each other: {}", in_transfers(waits)),
    }
}

/// Ranks of which each waits for the next, and the last for the first. `peers`: the rank that each waits for.
fn in_circles(peers: &BTreeMap<u32, u32>) -> BTreeSet<u32> {
    let (mut seen, mut inside) = (BTreeSet::new(), BTreeSet::new());
    for start in peers.keys() {
        let (mut path, mut rank) = (Vec::new(), *start);
        while let Some(peer) = peers.get(&rank)
            && seen.insert(rank)
        {
            path.push(rank);
            rank = *peer;
        }
        // A walk that ends at a rank which it has passed is a circle from that rank on.
        let back_at = path.iter().position(|known| *known == rank);
        inside.extend(back_at.into_iter().flat_map(|at| path[at..].iter().copied()));
    }
    inside
}

/// `rank 0 waits to receive from rank 1 (job.py:10), rank 1 waits to send to rank 2 (job.py:7)`.
fn in_transfers(waits: &[InTransfer<'_>]) -> String {
    let told = |(note, (receives, peer)): &InTransfer<'_>| {
        let (verb, side) = if *receives { ("receive", "from") } else { ("send", "to") };
        format!("rank {} waits to {verb} {side} rank {peer}{}", note.rank, place(&note.stack))
    };
    waits.iter().take(CALLS).map(told).collect::<Vec<_>>().join(", ")
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

fn sentence(finding: &HangCause, report: &FlightReport, notes: &[HangNote]) -> String {
    let what = name(&finding.call);
    let missing: Vec<u32> = finding.missing.iter().map(|missing| missing.rank).collect();
    let (causes, arrived, place) = (ranks(&missing), ranks(&finding.arrived), frames(finding.frames()));
    match finding.problem {
        Problem::NotReached if is_live(finding) => {
            let (others, seen) = (waits(&finding.arrived), whereabouts(&missing, notes));
            match different_calls(finding, report) {
                Some(calls) => format!("{causes} did not reach any of these calls: {calls}{seen}"),
                None => format!("{causes} did not reach {what}; {arrived} {others} in it{place}{seen}"),
            }
        }
        Problem::NoDump if is_live(finding) => {
            format!("no process of {causes} was found; {arrived} {} in {what}{place}", waits(&finding.arrived))
        }
        Problem::NotReached => {
            let last: Vec<String> = finding.missing.iter().take(1).filter_map(|one| last_call(one, finding)).collect();
            let last = last.first().map_or(String::new(), |last| format!("; {last}"));
            let (alone, waits) = (waits(&missing), waits(&finding.arrived));
            format!("{causes} did not reach {what} and {alone} in no call; {arrived} {waits} in it{place}{last}")
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

/// The calls that ranks wait in where these differ: they may be of different communicators, which stacks do not show.
/// `ranks 0, 1 wait in all_reduce (job.py:9), rank 2 waits in all_gather (job.py:7)`.
fn different_calls(finding: &HangCause, report: &FlightReport) -> Option<String> {
    let mut calls: BTreeMap<String, Vec<&Waiting>> = BTreeMap::new();
    for one in report.waiting.iter().filter(|one| finding.arrived.contains(&one.rank)) {
        calls.entry(name(&one.call)).or_default().push(one);
    }
    let mut calls: Vec<(String, Vec<&Waiting>)> = calls.into_iter().collect();
    calls.sort_by_key(|(_, of)| std::cmp::Reverse(of.len()));
    let told = |(call, of): &(String, Vec<&Waiting>)| {
        let numbers: Vec<u32> = of.iter().map(|one| one.rank).collect();
        format!("{} {} in {call}{}", ranks(&numbers), waits(&numbers), place(&of[0].call.frames))
    };
    let shown: Vec<String> = calls.iter().take(CALLS).map(told).collect();
    (shown.len() > 1).then(|| shown.join(", "))
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
        && all.iter().all(|one| only.arrived.contains(&one.rank))
        && (is_live(only) || all.iter().all(|one| name(&one.call) == name(&only.call)))
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

#[cfg(test)]
mod tests {
    use import::traces::{LiveRank, live};

    use super::*;

    fn frame(name: &str, line: u32) -> Frame {
        Frame { name: name.into(), file: "job.py".into(), line }
    }

    /// A rank that ended no step for long, in a transfer or at another place.
    fn note(rank: u32, transfer: Option<(bool, u32)>) -> HangNote {
        HangNote {
            rank,
            world: None,
            since_last_step_s: Some(15.0),
            step_ended_after_s: None,
            stack: vec![if transfer.is_some() { frame("step", 7) } else { frame("load", 3) }],
            ended_well: false,
            transfer,
            doing: None,
        }
    }

    fn receives(rank: u32, from: u32) -> HangNote {
        note(rank, Some((true, from)))
    }

    fn said(hang_notes: Vec<HangNote>) -> Vec<String> {
        sentences(&Traces { hang_notes, ..Traces::default() })
    }

    #[test]
    fn the_end_of_a_chain_of_waits_is_the_cause() {
        let stages = || vec![note(0, None), receives(1, 0), receives(2, 1)];
        let cause = "rank 0 did not send to rank 1: rank 1 waits to receive from rank 0 (job.py:7), rank 2 waits to receive from \
                     rank 1 (job.py:7)";
        let noted = said(stages());
        assert_eq!(noted[0], cause);
        assert_eq!(noted[1], "rank 0 ended no step for 15 s: load (job.py:3)");
        // Seen from outside, a table has the places of all ranks, and the sentence that of the cause.
        let seen = |note: HangNote| HangNote { doing: Some("waits".to_owned()), since_last_step_s: None, ..note };
        let outside: Vec<HangNote> = stages().into_iter().map(seen).collect();
        assert_eq!(said(outside.clone()), [format!("{cause}; rank 0 waits in load (job.py:3)")]);
        assert_eq!(said(outside[1..].to_vec()), [format!("{cause}; no process of rank 0 was found")]);
        // A server that most ranks wait for waits itself.
        let server = said(vec![receives(0, 3), receives(1, 0), receives(2, 0), note(3, None)]);
        let cause = "rank 3 did not send to rank 0: rank 0 waits to receive from rank 3";
        assert!(server[0].starts_with(cause), "{server:?}");
    }

    #[test]
    fn of_a_long_chain_the_end_is_shown_and_of_two_chains_both() {
        let mut chain: Vec<HangNote> = (0..8).map(|rank| receives(rank, rank + 1)).collect();
        chain.push(note(8, None));
        let cause = "rank 8 did not send to rank 7: rank 7 waits to receive from rank 8 (job.py:7)";
        assert_eq!(said(chain)[0], cause);
        let two = said(vec![note(0, None), receives(1, 0), note(2, None), note(3, Some((false, 2)))]);
        assert_eq!(two[0], "rank 0 did not send to rank 1: rank 1 waits to receive from rank 0 (job.py:7)");
        assert_eq!(two[1], "rank 2 did not communicate with rank 3: rank 3 waits to send to rank 2 (job.py:7)");
    }

    #[test]
    fn in_a_circle_the_rank_that_most_wait_for_is_the_cause() {
        let skipped = said(vec![receives(0, 1), receives(1, 0), receives(2, 1)]);
        assert!(skipped[0].starts_with("rank 1 did not send to ranks 0, 2: "), "{skipped:?}");
        let equal = said(vec![receives(0, 1), receives(1, 0)]);
        assert!(equal[0].starts_with("ranks wait for each other: rank 0 waits to receive"), "{equal:?}");
        // Three ranks wait for rank 4, which is outside of the circle and waits for it.
        let pairs = [(0, 1), (1, 0), (4, 0), (5, 4), (6, 4), (7, 4)];
        let named = said(pairs.into_iter().map(|(rank, from)| receives(rank, from)).collect());
        assert!(named[0].starts_with("rank 0 did not send to ranks 1, 4: "), "{named:?}");
    }

    #[test]
    fn calls_of_several_communicators_are_listed_behind_the_rank_that_is_in_none() {
        let rank = |rank: u32, collective: Option<&str>, line: u32| {
            let (collective, doing) = (collective.map(str::to_owned), "waits".to_owned());
            LiveRank { rank, collective, stack: vec![frame("step", line)], doing, ..LiveRank::default() }
        };
        let ranks = [
            rank(0, Some("all_reduce"), 9),
            rank(1, Some("all_reduce"), 9),
            rank(2, Some("all_gather"), 8),
            rank(3, None, 20),
        ];
        let (report, hang_notes) = live(&ranks, Some(4));
        let told = sentences(&Traces { hang: Some(report), hang_notes, ..Traces::default() });
        let wanted = "rank 3 did not reach any of these calls: ranks 0, 1 wait in all_reduce (job.py:9), rank 2 waits in \
                      all_gather (job.py:8); rank 3 waits in step (job.py:20)";
        assert_eq!(told, [wanted]);
    }
}
