//! Our shared memory beside other engines in the same run: how much longer the best of them takes, size by size; and our
//! training beside theirs, where what is trained is the same.

use crate::escape::markdown as escaped;
use crate::number::{NONE, bytes, factor, seconds};
use crate::study::{Configuration, Estimate, Measured, Operation};
use crate::table::{Align, Table};

/// What is held against the others.
const OURS: &str = "shm";
/// What computes its times, or is there to be right: nobody's peer.
const NO_PEERS: [&str; 2] = ["reference", "sim"];

/// What must be equal for times to be comparable, where both say it.
const SAME: [&str; 6] = ["dtype", "reduce", "in_place", "touch", "mode", "root"];

/// What must be equal also where only one says it: several operations in flight are no peer of one that is waited for, and
/// ranks on one host none of ranks on several.
const SAME_OR_ABSENT: [&str; 3] = ["call", "in_flight", "hosts"];

/// Of the bootstrap: a report says the same whenever it is written.
const SEED: u64 = 1;

/// How training is done, and not what is trained: may differ between ours and a peer's.
const HOW: [&str; 6] = ["python", "bind", "gradient_as_bucket_view", "static_graph", "compile", "bucket"];

/// One of our measurements, and that of others of the same size and ranks that takes the least of our time.
struct Pair<'o> {
    configuration: &'o Configuration<'o>,
    ours: &'o Measured<'o>,
    peer: &'o Configuration<'o>,
    theirs: &'o Measured<'o>,
    ratio: Estimate,
}

/// Their time over ours, launch by launch; None unless both were launched as often, and several times.
fn launch_by_launch<'o>(theirs: &'o Measured, ours: &'o Measured) -> Option<[&'o [f64]; 2]> {
    let (a, b) = (&theirs.case.per_launch_median_s, &ours.case.per_launch_median_s);
    let usable = |medians: &[f64]| medians.iter().all(|median| median.is_finite() && *median > 0.0);
    (a.len() > 1 && a.len() == b.len() && usable(a) && usable(b)).then_some([a, b])
}

/// Without an interval, which costs a bootstrap.
fn center(theirs: &Measured, ours: &Measured) -> f64 {
    match launch_by_launch(theirs, ours) {
        Some([a, b]) => stats::median(&a.iter().zip(b).map(|(a, b)| a / b).collect::<Vec<_>>()),
        None => theirs.time.mid / ours.time.mid,
    }
}

fn ratio(theirs: &Measured, ours: &Measured) -> Estimate {
    match launch_by_launch(theirs, ours).and_then(|[a, b]| stats::paired_ratio_interval(a, b, SEED)) {
        Some(ratio) => Estimate { mid: ratio.ratio, low: ratio.interval.low, high: ratio.interval.high },
        None => theirs.time.over(&ours.time),
    }
}

fn comparable(a: &Configuration, b: &Configuration, training: bool) -> bool {
    if training {
        let what = |c: &Configuration| -> Vec<(String, String)> {
            c.others.iter().filter(|(name, _)| !HOW.contains(&name.as_str())).cloned().collect()
        };
        return a.ranks == b.ranks && what(a) == what(b);
    }
    let of = |c: &Configuration, name: &str| c.others.iter().find(|(field, _)| field == name).map(|(_, v)| v.clone());
    a.ranks == b.ranks
        && SAME.iter().all(|name| of(a, name).zip(of(b, name)).is_none_or(|(of_a, of_b)| of_a == of_b))
        && SAME_OR_ABSENT.iter().all(|name| of(a, name) == of(b, name))
}

fn pairs<'o>(operation: &'o Operation<'o>) -> Vec<Pair<'o>> {
    let is_peer = |c: &&Configuration| c.backend != OURS && !NO_PEERS.contains(&c.backend.as_str());
    let training = crate::training::is_training(operation);
    let mut pairs = Vec::new();
    for configuration in operation.configurations.iter().filter(|configuration| configuration.backend == OURS) {
        for ours in &configuration.points {
            let comparable = |peer: &&Configuration| comparable(configuration, peer, training);
            let peers = operation.configurations.iter().filter(is_peer).filter(comparable);
            let same = |peer: &'o Configuration<'o>| {
                let theirs = peer.points.iter().find(|theirs| theirs.bytes == ours.bytes)?;
                Some((peer, theirs, center(theirs, ours)))
            };
            let best = peers.filter_map(same).min_by(|(.., a), (.., b)| a.total_cmp(b));
            let pair = |(peer, theirs, _): (&'o Configuration<'o>, &'o Measured<'o>, f64)| Pair {
                configuration,
                ours,
                peer,
                theirs,
                ratio: ratio(theirs, ours),
            };
            pairs.extend(best.map(pair));
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
            format!("{} to {}", factor(ratio.low), factor(ratio.high)),
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
        format!("{}{size} with {with} ({})", factor(pair.ratio.mid), pair.peer.backend)
    };
    let longer = pairs.iter().filter(|pair| pair.ratio.low > 1.0).count();
    let shorter = pairs.iter().filter(|pair| pair.ratio.high < 1.0).count();
    let held = match pairs.len() {
        1 => at(least),
        _ => format!("from {} to {}", at(least), at(most)),
    };
    Some(format!(
        "The best peer's {} takes {held} as long as ours: longer in {longer} of {}, shorter in {shorter}, too close to tell \
         in {}.",
        operation.name,
        crate::number::count(pairs.len(), "pair", "pairs"),
        pairs.len() - longer - shorter,
    ))
}
