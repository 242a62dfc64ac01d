//! Our shared memory beside other engines in the same run: how much longer the best of them takes, size by size; and our
//! training beside theirs, where what is trained is the same.

mod alike;

use std::collections::HashMap;

use self::alike::Alike;
use crate::escape::markdown as escaped;
use crate::number::{NONE, bytes, factor, seconds};
use crate::study::{Configuration, Estimate, Measured, Operation, ratio};
use crate::table::{Align, Table};

/// What is held against the others.
const OURS: &str = "shm";
/// What computes its times, or is there to be right: nobody's peer.
const NO_PEERS: [&str; 2] = ["reference", "sim"];

/// What must be equal for times to be comparable, where both say it.
const SAME: [&str; 6] = ["dtype", "reduce", "in_place", "touch", "mode", "root"];

/// What must be equal also where only one says it: several operations in flight are no peer of one that is waited for,
/// ranks on one host none of ranks on several, and calls on cold buffers none of calls on warm ones.
const SAME_OR_ABSENT: [&str; 6] = ["call", "in_flight", "hosts", "cache", "direction", "peer"];

/// What should be equal, too. Where a peer cannot be so (an MPI library has no registered buffers), the comparison says
/// what differs.
const SAID: [&str; 2] = ["buffers", "bind"];

/// How training is done, and not what is trained: may differ between ours and a peer's.
const HOW: [&str; 6] = ["python", "bind", "gradient_as_bucket_view", "static_graph", "compile", "bucket"];

/// One of our measurements, and that of others of the same size and ranks that takes the least of our time.
struct Pair<'o> {
    configuration: &'o Configuration<'o>,
    ours: &'o Measured<'o>,
    peer: &'o Configuration<'o>,
    theirs: &'o Measured<'o>,
    ratio: Estimate,
    /// What differs beside the backend: `buffers registered / private`.
    differs: Vec<String>,
}

/// What differs of [`SAID`], ours first.
fn differences(ours: &Configuration, peer: &Configuration) -> Vec<String> {
    let of = |c: &Configuration, name: &str| {
        let found = c.others.iter().find(|(field, _)| field == name);
        found.map_or_else(|| "default".to_owned(), |(_, value)| value.clone())
    };
    let differs = |name: &&str| {
        let (own, theirs) = (of(ours, name), of(peer, name));
        (own != theirs).then(|| format!("{name} {own} / {theirs}"))
    };
    SAID.iter().filter_map(differs).collect()
}

fn pairs<'o>(operation: &'o Operation<'o>) -> Vec<Pair<'o>> {
    let is_peer = |c: &Configuration| c.backend != OURS && !NO_PEERS.contains(&c.backend.as_str());
    let alike = Alike::of(operation, is_peer);
    let training = crate::training::is_training(operation);
    let mut pairs = Vec::new();
    for configuration in operation.configurations.iter().filter(|configuration| configuration.backend == OURS) {
        let peers = alike.with(configuration);
        for ours in &configuration.points {
            let pair = |peer: &&'o Configuration<'o>| {
                let theirs = peer.of_size(ours.bytes)?;
                let differs = if training { Vec::new() } else { differences(configuration, peer) };
                Some((*peer, theirs, differs, ratio(theirs, ours)))
            };
            let all: Vec<_> = peers.iter().filter_map(pair).collect();
            // A peer that is there in a form more like ours is not held against us in one less like it.
            let mut closest: HashMap<&str, usize> = HashMap::new();
            for (peer, _, differs, _) in &all {
                let least = closest.entry(peer.backend.as_str()).or_insert(usize::MAX);
                *least = (*least).min(differs.len());
            }
            let candidates =
                all.into_iter().filter(|(peer, _, differs, _)| differs.len() == closest[peer.backend.as_str()]);
            let best = candidates.min_by(|(.., a), (.., b)| a.mid.total_cmp(&b.mid));
            pairs.extend(best.map(|(peer, theirs, differs, ratio)| Pair {
                configuration,
                ours,
                peer,
                theirs,
                ratio,
                differs,
            }));
        }
    }
    pairs.sort_by_key(|pair| (pair.configuration.ranks, pair.ours.bytes));
    pairs
}

/// The table; empty where nothing was measured beside our own.
pub(crate) fn results(operation: &Operation) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("bytes", Right),
        ("ranks", Right),
        ("ours", Left),
        ("time", Right),
        ("best peer", Left),
        ("its time", Right),
        ("its time / ours", Right),
        ("95%", Right),
        ("differs (ours / peer)", Left),
    ]);
    for pair in pairs(operation) {
        let ratio = &pair.ratio;
        table.row(vec![
            pair.ours.bytes.map_or_else(|| NONE.to_owned(), bytes),
            pair.configuration.ranks.to_string(),
            escaped(&name(pair.configuration)),
            seconds(pair.ours.time.mid),
            escaped(&name(pair.peer)),
            seconds(pair.theirs.time.mid),
            factor(ratio.mid),
            if ratio.known { format!("{} to {}", factor(ratio.low), factor(ratio.high)) } else { NONE.to_owned() },
            if pair.differs.is_empty() { NONE.to_owned() } else { escaped(&pair.differs.join(", ")) },
        ]);
    }
    if table.is_empty() {
        return String::new();
    }
    let table = table.without_empty(NONE, &["bytes"]);
    format!("Against the best peer of this run:\n\n{}", table.markdown())
}

fn name(configuration: &Configuration) -> String {
    let Configuration { backend, variant, .. } = configuration;
    if variant.is_empty() { backend.clone() } else { format!("{backend}, {variant}") }
}

/// What the table shows, in a sentence.
pub(crate) fn sentence(operation: &Operation) -> Option<String> {
    let pairs = pairs(operation);
    let by_ratio = |a: &&Pair, b: &&Pair| a.ratio.mid.total_cmp(&b.ratio.mid);
    let (least, most) = (pairs.iter().min_by(by_ratio)?, pairs.iter().max_by(by_ratio)?);
    let at = |pair: &Pair| {
        let size = pair.ours.bytes.map_or_else(String::new, |size| format!(" at {}", bytes(size)));
        let with = crate::study::ranks(pair.configuration.ranks);
        let ratio = &pair.ratio;
        format!("{}{}{size} with {with} ({})", factor(ratio.mid), ratio.range(factor), pair.peer.backend)
    };
    let longer = pairs.iter().filter(|pair| pair.ratio.exceeds(1.0)).count();
    let shorter = pairs.iter().filter(|pair| pair.ratio.is_below(1.0)).count();
    let held = match pairs.len() {
        1 => at(least),
        _ => format!("from {} to {}", at(least), at(most)),
    };
    let differs: std::collections::BTreeSet<&String> = pairs.iter().flat_map(|pair| &pair.differs).collect();
    let differs: Vec<&str> = differs.into_iter().map(String::as_str).collect();
    let differs = match differs.as_slice() {
        [] => String::new(),
        some => format!(" Not equal between ours and the peer: {}.", some.join(", ")),
    };
    Some(format!(
        "The best peer's {} takes {held} as long as ours: longer in {longer} of {}, shorter in {shorter}, too close to tell \
         in {}.{differs}",
        operation.name,
        crate::number::count(pairs.len(), "pair", "pairs"),
        pairs.len() - longer - shorter,
    ))
}
