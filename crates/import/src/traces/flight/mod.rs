//! Dumps of PyTorch's Flight Recorder: the last calls of each rank, and which rank did not arrive.

mod findings;
mod hang;
mod join;
mod live;
mod mismatch;
mod pickle;
mod read;
mod ring;
mod summary;
mod tree;
mod waits;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;

use terms::Error;

use super::input::Input;
use super::rank_names::rank_of_dump;
use super::same_names::SameNames;
use super::{TraceContent, TraceFormat};

pub use findings::{HangCause, Missing, Problem};
pub(super) use hang::HangFile;
pub use hang::HangNote;
pub use join::join_flight;
pub use live::{LiveRank, live};
pub use mismatch::Difference;
pub(super) use ring::Dump;
pub use ring::{FlightEntry, FlightRank, Frame};
pub use summary::FlightReport;
pub(super) use tree::json;
pub use waits::Waiting;

/// The largest dump that is read. One of 2000 entries has 2 MB.
const LARGEST: u64 = 64 << 20;

/// Ranks of a job that are looked for one by one: of a larger job, nobody is missing.
const MOST_RANKS: u32 = 1 << 16;

/// Dumps as a pickle: files that PyTorch writes, and `_dump_fr_trace()`.
pub(super) const PICKLE: TraceFormat = TraceFormat {
    name: "pytorch_flight_recorder",
    doc: "PyTorch: a dump of the Flight Recorder, as a pickle",
    recognises: |input| input.head().starts_with(b"\x80") && input.head().get(1).is_some_and(|version| *version <= 5),
    read: |input| dump(input, pickle::read(&input.bytes(LARGEST)?)),
};

/// Dumps as JSON: `_dump_fr_trace_json()` and the debug server.
pub(super) const JSON: TraceFormat = TraceFormat {
    name: "pytorch_flight_recorder_json",
    doc: "PyTorch: a dump of the Flight Recorder, as JSON",
    recognises: |input| {
        let keys = ["\"pg_status\"", "\"collective_seq_id\"", "\"nccl_comm_state\""];
        input.first() == Some(b'{') && keys.iter().any(|key| input.head_holds(key))
    },
    read: |input| {
        let bytes = input.bytes(LARGEST)?;
        dump(input, tree::json(&bytes).and_then(tree::DumpTree::of_json))
    },
};

/// What a rank of a profiled job wrote when it ended no step for long.
pub(super) const HANG: TraceFormat = TraceFormat {
    name: "rankmark_hang",
    doc: "Rankmark: what a rank of a profiled job wrote when it ended no step for long",
    recognises: |input| {
        let keys = ["\"since_last_step_s\"", "\"steps_ended\""];
        input.first() == Some(b'{') && keys.iter().all(|key| input.head_holds(key))
    },
    read: |input| Ok(TraceContent::Hang(Box::new(hang::read(&input.name(), &input.bytes(LARGEST)?)))),
};

fn dump(input: &Input, tree: Result<tree::DumpTree, Error>) -> Result<TraceContent, Error> {
    let dump = tree.and_then(|tree| read::dump(&tree));
    let named = |error: Error| Error { what: format!("{}: {}", input.name(), error.what), ..error };
    Ok(TraceContent::Flight(Box::new(dump.map_err(named)?)))
}

/// The dumps of all ranks as one report. `world`: how many ranks the job has, where somebody says so.
pub(super) fn report(mut dumps: Vec<(PathBuf, Dump)>, world: Option<u32>) -> Result<FlightReport, Error> {
    dumps.sort_by_key(|(_, dump)| dump.known_rank.is_some());
    let mut report = FlightReport::default();
    let mut groups = Vec::new();
    let mut files: Vec<(u32, PathBuf)> = Vec::new();
    for (path, mut dump) in dumps {
        dump.rank.rank = dump.known_rank.or_else(|| rank_of_dump(&path)).ok_or_else(|| {
            Error::new(format!("{}: the rank of this dump is not known", path.display()))
                .cause("a dump does not hold its rank")
                .hint("put the rank into the file's name: `fr_rank0`")
        })?;
        let rank = dump.rank.rank;
        if let Some((_, other)) = files.iter().find(|(known, _)| *known == rank) {
            // The JSON of a dump has no frames, so the pickle next to it says the same and more.
            let kept = report.ranks.iter_mut().find(|known| known.rank == rank);
            let more = |ring: &FlightRank| ring.entries.iter().map(|entry| entry.frames.len()).sum::<usize>();
            let is_better = kept.as_ref().is_some_and(|kept| more(&dump.rank) > more(kept));
            let (used, left) = if is_better { (&path, other) } else { (other, &path) };
            // A file that names its rank has the recorder and other things; the recorder's own file lies next to it.
            if dump.known_rank.is_none() {
                report.notes.push(format!(
                    "{} is left out: {} is also from rank {rank}",
                    left.display(),
                    used.display()
                ));
            }
            if let (Some(kept), true) = (kept, is_better) {
                *kept = dump.rank;
            }
            continue;
        }
        let name = path.display().to_string();
        report.notes.extend(dump.notes.into_iter().map(|note| format!("{name}: {note}")));
        groups.extend(dump.groups);
        files.push((rank, path));
        report.ranks.push(dump.rank);
    }
    report.ranks.sort_by_key(|rank| rank.rank);
    let own_names = SameNames::of(&groups);
    if !own_names.is_empty() {
        report.ranks.iter_mut().for_each(|rank| rank.name_groups(&own_names));
        own_names.rename(&mut groups);
    }
    report.ranks.iter_mut().for_each(|rank| rank.name_peers(&groups));
    groups.sort();
    groups.dedup();
    let mut members = groups.clone();
    members.extend(whole_job(&report.ranks, &groups, world));
    (report.findings, report.waiting) = findings::find(&report.ranks, &members);
    report.groups = groups;
    Ok(report)
}

/// The communicator of all ranks, where no dump lists its ranks. gloo lists none, and a rank without a dump would not be missed.
fn whole_job(ranks: &[FlightRank], listed: &[(String, Vec<u32>)], world: Option<u32>) -> Option<(String, Vec<u32>)> {
    let world = world.filter(|world| *world <= MOST_RANKS)?;
    let entries = ranks.iter().flat_map(|rank| &rank.entries);
    let used: BTreeSet<&str> = entries.map(|entry| entry.group.as_str()).filter(|group| is_default(group)).collect();
    let is_listed = |group: &str| listed.iter().any(|(name, _)| name == group);
    let unlisted = used.into_iter().find(|group| !is_listed(group))?;
    Some((unlisted.to_owned(), (0..world).collect()))
}

/// Whether a communicator is the one that PyTorch makes first, of all ranks of the job.
fn is_default(group: &str) -> bool {
    group == "default_pg" || group.ends_with(" (default_pg)")
}
