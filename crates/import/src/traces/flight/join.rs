//! Gives the calls of a timeline the communicator and number that the Flight Recorder noted for them.

use trace::timeline::{Kind, NameId, Names, RankTimeline, Timeline};

use super::{FlightEntry, FlightRank, FlightReport};
use crate::traces::words;

/// How far the clocks of profiler and recorder may be apart. On one host they were within 0.22 ms.
const SLACK_NS: i64 = 250_000;

/// Fills communicator and number of the calls that have no number, from the recorders of the same ranks. Calls and entries are
/// matched in order. A rank that does not match is left as it is, and the timeline gets a note that says why.
///
/// Returns how many calls were filled.
pub fn join_flight(timeline: &mut Timeline, flight: &FlightReport) -> usize {
    let (mut filled, mut notes) = (0, Vec::new());
    for rank in &mut timeline.ranks {
        let Some(ring) = flight.ranks.iter().find(|ring| ring.rank == rank.rank) else {
            notes.push(format!("rank {}: there is no dump of its Flight Recorder", rank.rank));
            continue;
        };
        match join(rank, ring, &mut timeline.names) {
            Ok(count) => filled += count,
            Err(why) => notes.push(format!("rank {}: the Flight Recorder is not joined: {why}", rank.rank)),
        }
    }
    timeline.notes.extend(notes);
    filled
}

/// A call that needs a number.
#[derive(Clone, Copy)]
struct OpenCall {
    begin_ns: i64,
    call: usize,
    operation: NameId,
    bytes: Option<u64>,
}

fn join(rank: &mut RankTimeline, ring: &FlightRank, names: &mut Names) -> Result<usize, String> {
    // A wait names a call, too.
    let spans = rank.spans.iter().filter(|span| span.kind == Kind::Collective);
    let mut open: Vec<OpenCall> = spans
        .filter_map(|span| {
            let call = rank.collectives.get(span.collective as usize)?;
            let (operation, bytes) = (call.operation, call.bytes);
            // gloo's recorder holds no transfers, and numbers of NCCL's transfers count another way.
            let is_open = call.sequence.is_none() && !words::is_transfer(names.get(operation));
            is_open.then_some(OpenCall { begin_ns: span.begin_ns, call: span.collective as usize, operation, bytes })
        })
        .collect();
    open.sort_by_key(|open| open.begin_ns);
    if open.is_empty() {
        return Ok(0);
    }
    let entries: Vec<&FlightEntry> = ring.entries.iter().filter(|entry| !entry.is_p2p).collect();
    let from = matching(&open, &entries, names)?;
    let pairs = open.len();
    for (at, entry) in entries[from..from + pairs].iter().enumerate() {
        // Two threads of gloo may begin two calls in the other order; their sizes tell.
        if !fits(&open[at], entry, names) && at + 1 < pairs {
            open.swap(at, at + 1);
        }
        let call = &mut rank.collectives[open[at].call];
        let bytes = entry.input_bytes().and_then(|bytes| words::bytes_of_input(&entry.operation, bytes, call.ranks));
        (call.group, call.sequence) = (names.intern(&entry.group), Some(entry.sequence));
        call.bytes = call.bytes.or(bytes);
        call.input_bytes = call.input_bytes.or(entry.input_bytes());
        call.dtype = call.dtype.or_else(|| entry.dtype().map(|word| names.intern(word)));
    }
    Ok(pairs)
}

/// The entry of the first call, so that each call begins after its entry was enqueued and the entry behind the last call was
/// enqueued after it.
fn matching(open: &[OpenCall], entries: &[&FlightEntry], names: &Names) -> Result<usize, String> {
    let (first, last) =
        (open[0].begin_ns.saturating_add(SLACK_NS), open[open.len() - 1].begin_ns.saturating_add(SLACK_NS));
    let candidates = entries.partition_point(|entry| entry.created_ns <= first);
    let most = entries.len().checked_sub(open.len());
    let most =
        most.ok_or_else(|| format!("the timeline has {} calls, the ring {} entries", open.len(), entries.len()))?;
    // Each candidate is looked at until the first call that does not fit: a bounded number of them, since a program keeps few
    // calls in flight.
    let latest = candidates.checked_sub(1).map(|latest| latest.min(most));
    let latest = latest.ok_or("all entries of the ring are later than the first call")?;
    let from = (latest.saturating_sub(64)..=latest).rev().find(|from| does_match(open, &entries[*from..], names));
    let from = from.ok_or_else(|| {
        let within = entries.iter().filter(|entry| entry.created_ns <= open[open.len() - 1].begin_ns).count();
        format!(
            "{} calls of the timeline match no run of entries ({within} of {} were enqueued before the last call)",
            open.len(),
            entries.len()
        )
    })?;
    match entries.get(from + open.len()) {
        Some(next) if next.created_ns <= last => Err(format!(
            "the ring has more entries than the timeline has calls ({}): an entry was enqueued before the last call and belongs \
             to none",
            open.len()
        )),
        _ => Ok(from),
    }
}

fn does_match(open: &[OpenCall], entries: &[&FlightEntry], names: &Names) -> bool {
    let mut swapped = false;
    for (at, entry) in entries.iter().take(open.len()).enumerate() {
        if entry.created_ns > open[at].begin_ns.saturating_add(SLACK_NS) {
            return false;
        }
        if std::mem::take(&mut swapped) {
            if !fits(&open[at - 1], entry, names) {
                return false;
            }
            continue;
        }
        if !fits(&open[at], entry, names) {
            swapped = open.get(at + 1).is_some_and(|next| fits(next, entry, names));
            if !swapped {
                return false;
            }
        }
    }
    !swapped
}

fn fits(open: &OpenCall, entry: &FlightEntry, names: &Names) -> bool {
    let is_same = names.get(open.operation) == entry.operation
        // gloo reduces and scatters by an all_reduce, which is what the profiler shows.
        || (names.get(open.operation) == "all_reduce" && entry.operation == "reduce_scatter");
    let bytes = entry.input_bytes();
    is_same && (open.bytes.is_none() || bytes.is_none() || open.bytes == bytes)
}
