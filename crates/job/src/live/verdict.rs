//! From what each rank was seen to do to who waits for whom. The causes and their words are those of `rankmark profile`.

use std::collections::BTreeSet;

use import::traces::{Frame, LiveRank, RasReport, Traces, live};
use launch::attach::{Call, CallKind, CodeLine, Doing, Observed};
use serde_json::{Value, json};
use terms::Error;

use super::collect::Looked;
use crate::hangs::{self, place, ranks};

/// Ranks that a sentence about a job that moves names.
const NAMED: usize = 4;

/// What is known of a job.
pub struct Verdict {
    /// Whether ranks wait, and none moves.
    pub is_hung: bool,
    /// The cause first.
    pub(super) sentences: Vec<String>,
    /// What hung, for other programs; null without a hang.
    pub(super) hang: Value,
    /// By rank.
    pub(super) ranks: Vec<Seen>,
    pub(super) notes: Vec<String>,
}

/// A rank with its number.
pub(super) struct Seen {
    pub(super) rank: u32,
    pub(super) observed: Observed,
    pub(super) live: LiveRank,
}

/// What the ranks, dumps and the two answers of RAS say together.
///
/// # Errors
/// When the ranks are of several jobs, or no stack could be read.
pub fn verdict(looked: Looked, dumps: Option<Traces>, ras: Option<(RasReport, RasReport)>) -> Result<Verdict, Error> {
    let Looked { ranks: observed, mut notes } = looked;
    let seen = numbered(observed, &mut notes)?;
    refuse_unseen(&seen)?;
    notes
        .extend(seen.iter().flat_map(|one| one.observed.lacking.iter().map(|why| format!("rank {}: {why}", one.rank))));
    let waits = |one: &&Seen| one.observed.doing == Doing::Waits;
    let calls_moved = ras.as_ref().is_some_and(|(before, after)| before.calls != after.calls);
    let is_hung = seen.iter().any(|one| waits(&one)) && !seen.iter().any(goes_on) && !calls_moved;
    let mut traces = of_ranks(&seen);
    traces.ras.extend(ras.map(|(_, after)| after).filter(|_| is_hung));
    let (mut sentences, mut hang) = (Vec::new(), Value::Null);
    if is_hung {
        if let Some(dumps) = &dumps {
            sentences.extend(hangs::sentences(dumps));
            hang = hangs::json(dumps);
        }
        sentences.extend(stopped(&seen));
        sentences.extend(hangs::sentences(&traces));
        if hang.is_null() {
            hang = hangs::json(&traces);
        }
        let mut said = BTreeSet::new();
        sentences.retain(|sentence| said.insert(sentence.clone()));
    } else {
        sentences.push(without_hang(&seen, calls_moved));
    }
    notes.extend(dumps.into_iter().flat_map(|dumps| dumps.notes));
    Ok(Verdict { is_hung, sentences, hang, ranks: seen, notes })
}

/// Whether a rank may arrive later. One that computes at the same line may be in a loop without end, or write a checkpoint.
fn goes_on(one: &Seen) -> bool {
    matches!(one.observed.doing, Doing::Moves | Doing::Computes)
}

/// Gives ranks their numbers: those of their environment, else their order.
fn numbered(observed: Vec<Observed>, notes: &mut Vec<String>) -> Result<Vec<Seen>, Error> {
    if observed.iter().all(|one| one.rank.is_none()) && observed.len() > 1 {
        notes.push("the processes do not say which rank each is: they are numbered in the given order".to_owned());
    }
    let has_numbers = observed.iter().any(|one| one.rank.is_some());
    let mut seen: Vec<Seen> = Vec::new();
    for (one, index) in observed.into_iter().zip(0..) {
        let rank = one.rank.unwrap_or(index);
        if has_numbers && one.rank.is_none() {
            notes.push(format!("process {} on {} is left out: it has no number of a rank", one.pid, one.host));
            continue;
        }
        if let Some(other) = seen.iter().find(|other| other.rank == rank) {
            let of = |one: &Observed| format!("{} on {}", one.pid, one.host);
            let both = format!("processes {} and {} are rank {rank}", of(&other.observed), of(&one));
            return Err(Error::new("more than one job was found")
                .cause(both)
                .hint("name the job: `--pid` of its launcher or of its ranks, or `--slurm JOB`"));
        }
        seen.push(Seen { rank, live: live_rank(rank, &one), observed: one });
    }
    seen.sort_by_key(|one| one.rank);
    Ok(seen)
}

/// Without a single stack, nothing can be said.
fn refuse_unseen(seen: &[Seen]) -> Result<(), Error> {
    if seen.iter().any(|one| !one.observed.frames.is_empty() || one.observed.doing == Doing::Ended) {
        return Ok(());
    }
    let lacking = seen.iter().find_map(|one| Some((one.observed.pid, one.observed.lacking.first()?)));
    let cause = lacking.map_or("their threads have no frames".to_owned(), |(pid, why)| format!("process {pid}: {why}"));
    Err(Error::new("no stack of any rank could be read")
        .cause(cause)
        .hint("run it as the user of the job or as root, on the host of the ranks"))
}

fn live_rank(rank: u32, one: &Observed) -> LiveRank {
    let frame = |line: &CodeLine| Frame {
        name: line.function.as_str().into(),
        file: line.file.as_str().into(),
        line: line.line,
    };
    let stack: Vec<Frame> = one.frames.iter().map(frame).collect();
    let call = one.call.as_ref().filter(|_| one.doing == Doing::Waits);
    let collective = call.filter(|call| call.kind == CallKind::Collective).map(|call| call.operation.clone());
    let transfer = call.and_then(|call| match call.kind {
        CallKind::Receive => Some((true, call.peer?)),
        CallKind::Send => Some((false, call.peer?)),
        CallKind::Collective | CallKind::Gpu => None,
    });
    LiveRank { rank, collective, transfer, place: place(&stack), doing: doing(one), stack }
}

/// What a rank does, after its number.
fn doing(one: &Observed) -> String {
    match (one.doing, &one.call) {
        (Doing::Waits, Some(Call { kind: CallKind::Gpu, .. })) => "waits for its GPU".to_owned(),
        (Doing::Waits, Some(call)) => format!("waits in {}", call_text(call)),
        (Doing::Waits, None) => "waits".to_owned(),
        (Doing::Sleeps, _) => "sleeps".to_owned(),
        (Doing::Computes, _) => "computes".to_owned(),
        (Doing::Moves, _) => "moves".to_owned(),
        (Doing::Stopped, _) => "is stopped by a signal or a debugger".to_owned(),
        (Doing::Ended, _) => "ended while it was looked at".to_owned(),
    }
}

/// `all_reduce`, `recv from rank 1`.
pub(super) fn call_text(call: &Call) -> String {
    match (call.kind, call.peer) {
        (CallKind::Receive, Some(peer)) => format!("{} from rank {peer}", call.operation),
        (CallKind::Send, Some(peer)) => format!("{} to rank {peer}", call.operation),
        _ => call.operation.clone(),
    }
}

fn of_ranks(seen: &[Seen]) -> Traces {
    let all: Vec<LiveRank> = seen.iter().map(|one| one.live.clone()).collect();
    // Ranks that nobody could look for are not missing.
    let world = seen.iter().find_map(|one| one.observed.world);
    let (report, hang_notes) = live(&all, world);
    Traces { hang: Some(report), hang_notes, ..Traces::default() }
}

/// Ranks that a signal stopped: the others wait for nothing else.
fn stopped(seen: &[Seen]) -> Option<String> {
    let all: Vec<&Seen> = seen.iter().filter(|one| one.observed.doing == Doing::Stopped).collect();
    let numbers: Vec<u32> = all.iter().map(|one| one.rank).collect();
    let first = all.first()?;
    let (are, pid, host) = (if numbers.len() == 1 { "is" } else { "are" }, first.observed.pid, &first.observed.host);
    Some(format!(
        "{} {are} stopped by a signal or a debugger{}: `kill -CONT {pid}` on {host} lets rank {} go on",
        ranks(&numbers),
        place(&first.live.stack),
        first.rank
    ))
}

/// Why this is not called a hang.
fn without_hang(seen: &[Seen], calls_moved: bool) -> String {
    let waits = |one: &&Seen| one.observed.doing == Doing::Waits;
    let moving: Vec<u32> = seen.iter().filter(|one| goes_on(one)).map(|one| one.rank).collect();
    let waiting: Vec<u32> = seen.iter().filter(waits).map(|one| one.rank).collect();
    let verb = |all: &[u32], one: &'static str, more: &'static str| if all.len() == 1 { one } else { more };
    if waiting.is_empty() {
        return match moving.is_empty() {
            true => "no rank waits for another".to_owned(),
            false => format!("no hang: {} {}", ranks(&moving), verb(&moving, "goes on", "go on")),
        };
    }
    if moving.is_empty() && calls_moved {
        return "no hang: NCCL RAS counts more calls than at the first look".to_owned();
    }
    let at = |one: &Seen| format!("rank {} {}{}", one.rank, one.live.doing, place(&one.live.stack));
    let waits: Vec<String> = seen.iter().filter(waits).take(NAMED).map(at).collect();
    let moves: Vec<String> = seen.iter().filter(|one| goes_on(one)).take(NAMED).map(at).collect();
    let more = (waiting.len() + moving.len()).saturating_sub(waits.len() + moves.len());
    let more = if more > 0 { format!(" ({more} more ranks are in the table)") } else { String::new() };
    format!(
        "no hang is proven: {}, while {}{more}; a longer --interval tells a slow rank from one that never arrives",
        moves.join(", "),
        waits.join(", ")
    )
}

impl Verdict {
    /// One object for a program.
    pub fn json(&self) -> Value {
        let rank = |one: &Seen| {
            let mut value = serde_json::to_value(&one.observed).unwrap_or_default();
            value["rank"] = json!(one.rank);
            value["place"] = json!(place(&one.live.stack).trim_start_matches(" (").trim_end_matches(')'));
            value
        };
        json!({
            "kind": "hang",
            "is_hung": self.is_hung,
            "hangs": self.sentences,
            "hang": self.hang,
            "ranks": self.ranks.iter().map(rank).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}
