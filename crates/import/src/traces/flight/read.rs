//! From the values of a dump to entries.

use std::collections::HashMap;
use std::sync::Arc;

use terms::Error;

use super::tree::{DumpNode, DumpTree};
use super::{Dump, FlightEntry, FlightRank, Frame};
use crate::traces::words;

/// Entries of a ring that are kept.
const MOST_ENTRIES: usize = 1 << 16;

/// Frames of an entry that are kept, innermost first.
const MOST_FRAMES: usize = 64;

/// Dimensions that are kept of all inputs or all outputs of an entry.
const MOST_SIZES: usize = 1024;

/// The word for a batch of transfers that begin together.
pub(super) const BATCH: &str = "coalesced";

/// Reads a dump.
pub(super) fn dump(tree: &DumpTree) -> Result<Dump, Error> {
    let top = tree.top();
    if !top.is_object() {
        return Err(Error::new("this is not a dump of the Flight Recorder").cause("it is not a dictionary"));
    }
    let version = top.get("version").and_then(DumpNode::text).unwrap_or("none");
    if version.split('.').next() != Some("2") {
        return Err(Error::new(format!("version {version} of the Flight Recorder's dumps is not known"))
            .hint("valid values: 2.0 and later below 3"));
    }
    let mut dump = Dump {
        rank: FlightRank { rank: 0, version: version.to_owned(), entries: Vec::new() },
        known_rank: None,
        groups: groups(top),
        notes: Vec::new(),
    };
    // JSON has no list where the ring is empty.
    let entries = top.get("entries").map_or(0, |entries| entries.items().len());
    if entries > MOST_ENTRIES {
        dump.notes.push(format!("{} entries are left out: the last {MOST_ENTRIES} are read", entries - MOST_ENTRIES));
    }
    let mut texts = Texts::default();
    let (mut odd, mut deep) = (0, 0);
    for node in top.get("entries").into_iter().flat_map(DumpNode::items).skip(entries.saturating_sub(MOST_ENTRIES)) {
        match entry(node, &mut texts) {
            Some(entry) => dump.rank.entries.push(entry),
            None => odd += 1,
        }
        deep += usize::from(node.get("frames").is_some_and(|frames| frames.items().len() > MOST_FRAMES));
    }
    if odd > 0 {
        dump.notes.push(format!("{odd} entries are left out: they have no communicator, number, operation or time"));
    }
    if deep > 0 {
        dump.notes.push(format!("{deep} entries have more than {MOST_FRAMES} frames: the innermost are kept"));
    }
    dump.rank.entries.sort_by_key(|entry| (entry.created_ns, entry.record));
    finish_batches(&mut dump.rank.entries);
    Ok(dump)
}

/// Gives the transfers of a batch the state of the batch. PyTorch never changes their own state; the entry `coalesced` behind
/// them, with the same number, is the one that ends.
fn finish_batches(entries: &mut [FlightEntry]) {
    let batches = entries.iter().filter(|entry| entry.is_p2p && entry.operation == BATCH);
    let ended: HashMap<(String, u64), bool> =
        batches.map(|batch| ((batch.group.clone(), batch.p2p_sequence), batch.is_finished)).collect();
    for entry in entries.iter_mut().filter(|entry| entry.is_p2p) {
        if let Some(is_finished) = ended.get(&(entry.group.clone(), entry.p2p_sequence)) {
            entry.is_finished = *is_finished;
        }
    }
}

/// Texts of frames, each once: all entries of a loop share them.
#[derive(Default)]
struct Texts(HashMap<String, Arc<str>>);

impl Texts {
    fn one(&mut self, node: Option<DumpNode<'_>>) -> Arc<str> {
        let text = node.and_then(DumpNode::text).unwrap_or("?");
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.0.insert(text.to_owned(), Arc::clone(&new));
        new
    }
}

fn entry(node: DumpNode<'_>, texts: &mut Texts) -> Option<FlightEntry> {
    let unsigned = |key: &str| node.get(key)?.whole()?.try_into().ok();
    let text = |key: &str| node.get(key).and_then(DumpNode::text);
    let mut group = node.get("process_group")?.items().filter_map(DumpNode::text);
    let frames = node.get("frames").into_iter().flat_map(DumpNode::items).take(MOST_FRAMES);
    let frames = frames.map(|frame| Frame {
        name: texts.one(frame.get("name")),
        file: texts.one(frame.get("filename")),
        line: frame.get("line").and_then(DumpNode::whole).and_then(|line| line.try_into().ok()).unwrap_or(0),
    });
    let state = text("state").unwrap_or("unknown");
    let is_retired = node.get("retired").and_then(DumpNode::truth).unwrap_or(false);
    let dtypes = |key: &str| -> Vec<String> {
        let all = node.get(key).into_iter().flat_map(DumpNode::items).take(MOST_SIZES);
        all.filter_map(DumpNode::text).map(str::to_owned).collect()
    };
    let name = text("profiling_name")?;
    let peers = peers(name);
    Some(FlightEntry {
        record: unsigned("record_id").unwrap_or(0),
        group: words::group(group.next()?, group.next().unwrap_or_default()),
        sequence: unsigned("collective_seq_id")?,
        // Early versions do not say it.
        is_p2p: node.get("is_p2p").and_then(DumpNode::truth).unwrap_or(peers.is_some()),
        p2p_sequence: unsigned("p2p_seq_id").unwrap_or(0),
        peers,
        operation: words::operation(name).into_owned(),
        frames: frames.collect(),
        input_sizes: sizes(node.get("input_sizes")),
        output_sizes: sizes(node.get("output_sizes")),
        input_dtypes: dtypes("input_dtypes"),
        output_dtypes: dtypes("output_dtypes"),
        is_finished: is_retired || state == "completed",
        state: state.to_owned(),
        created_ns: node.get("time_created_ns")?.whole().filter(|created| *created > 0)?,
        duration_ms: node.get("duration_ms").and_then(DumpNode::real).filter(|duration| duration.is_finite()),
    })
}

/// Sender and receiver in a name: `nccl:send 0->1`, `nccl:recv 1<-0`.
fn peers(name: &str) -> Option<(u32, u32)> {
    let pair = name.split_whitespace().nth(1)?;
    let number = |text: &str| text.parse().ok();
    match pair.split_once("->") {
        Some((from, to)) => Some((number(from)?, number(to)?)),
        None => pair.split_once("<-").and_then(|(to, from)| Some((number(from)?, number(to)?))),
    }
}

fn sizes(node: Option<DumpNode<'_>>) -> Vec<Vec<u64>> {
    let mut left = MOST_SIZES;
    let tensors = node.into_iter().flat_map(DumpNode::items).take(MOST_SIZES);
    let tensor = |tensor: DumpNode<'_>| {
        let sizes: Vec<u64> = tensor.items().take(left).filter_map(|size| size.whole()?.try_into().ok()).collect();
        left -= sizes.len();
        sizes
    };
    tensors.map(tensor).collect()
}

/// Communicators that `pg_config` names with their ranks. gloo has one entry without a name, which says nothing.
fn groups(top: DumpNode<'_>) -> Vec<(String, Vec<u32>)> {
    let mut groups = Vec::new();
    for group in top.get("pg_config").into_iter().flat_map(DumpNode::values).take(MOST_ENTRIES) {
        let text = |key: &str| group.get(key).and_then(DumpNode::text).unwrap_or_default();
        let listed =
            group.get("ranks").into_iter().flat_map(DumpNode::items).filter_map(|rank| rank.whole()?.try_into().ok());
        let written = text("ranks").split(['[', ']', ',', ' ']).filter_map(|rank| rank.parse().ok());
        let ranks: Vec<u32> = listed.chain(written).take(MOST_ENTRIES).collect();
        if !text("name").is_empty() && !ranks.is_empty() {
            groups.push((words::group(text("name"), text("desc")), ranks));
        }
    }
    groups
}
