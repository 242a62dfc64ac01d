//! Compares shared memory with other engines of the same run: how much longer the best of them takes for the same workload.

use std::collections::HashMap;

use record::{Declared, differences, workload};

use crate::Run;
use crate::document::{Align, Block, Table};
use crate::escape::one_line;
use crate::number::{NONE, bytes, factor, seconds};
use crate::study::{Configuration, Estimate, Measured, Operation, operations, ratio};

/// What is compared with the others.
const OURS: &str = "shm";
/// The runtime that native ranks are compared with.
const PYTORCH: &str = "pytorch";
/// The kind of a field that chooses among variants.
const CHOICE: &str = "choice";
/// Backends that compute their times, or exist only to be right. They are not peers.
const NO_PEERS: [&str; 2] = ["reference", "sim"];
/// Parameters that a pair's row tells by itself.
const SHOWN_ELSEWHERE: [&str; 4] = ["backend", "runtime", "bytes", "ranks"];

/// One of our measurements, and the fastest of another engine with the same size and ranks.
struct Pair<'o> {
    configuration: &'o Configuration<'o>,
    ours: &'o Measured<'o>,
    peer: &'o Configuration<'o>,
    theirs: &'o Measured<'o>,
    ratio: Estimate,
    /// What differs in addition to the backend.
    differs: Vec<String>,
}

/// The parameters of a configuration's cases, but for their sizes.
fn parameters<'o>(configuration: &'o Configuration) -> Option<&'o record::SharedMap> {
    Some(&configuration.cases.first()?.parameters)
}

/// A key that configurations have in common if they measure the same workload. Ranks on one host are not
/// peers of ranks on several.
fn key(configuration: &Configuration, declared: &Declared) -> Option<String> {
    let case = configuration.cases.first()?;
    let mut shared = workload(&case.parameters, declared);
    shared.remove("bytes");
    // What one chooses among does different things: a product alone is not a peer of a product with its collective.
    let chosen = |name: &str| declared.field(name).is_some_and(|field| field.kind == CHOICE);
    let choices = case.parameters.iter().filter(|(name, _)| chosen(name));
    shared.extend(choices);
    let shared: Vec<String> = shared.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    Some(format!("{:?}\n{}", case.pair_hosts.or(case.hosts), shared.join("\n")))
}

/// The parameters in which a pair differs and both had a choice, ours first: `buffers registered / private`.
fn differs(ours: &Configuration, peer: &Configuration, declared: &Declared) -> Vec<String> {
    let Some(both) = parameters(ours).zip(parameters(peer)) else { return Vec::new() };
    let said = |value: Option<&serde_json::Value>| value.map_or_else(|| "default".to_owned(), view::plain);
    let differing = differences([both.0, both.1], declared, &SHOWN_ELSEWHERE);
    differing.into_iter().map(|(name, [own, theirs])| format!("{name} {} / {}", said(own), said(theirs))).collect()
}

/// Each native case with the fastest of the engines that `is_peer` admits.
fn pairs<'o>(operation: &'o Operation<'o>, is_peer: fn(&str) -> bool) -> Vec<Pair<'o>> {
    let Some(declared) = operation.declared else { return Vec::new() };
    let is_peer = |c: &&Configuration| c.backend != OURS && is_peer(&c.backend);
    let mut peers: HashMap<String, Vec<&Configuration>> = HashMap::new();
    for peer in operation.configurations.iter().filter(is_peer) {
        let key = key(peer, declared).unwrap_or_default();
        peers.entry(key).or_default().push(peer);
    }
    if peers.is_empty() {
        return Vec::new();
    }
    let mut pairs = Vec::new();
    for configuration in operation.configurations.iter().filter(|configuration| configuration.backend == OURS) {
        let alike = key(configuration, declared).and_then(|key| peers.get(&key));
        let alike = alike.map_or(&[][..], Vec::as_slice);
        let differs: Vec<Vec<String>> = alike.iter().map(|peer| self::differs(configuration, peer, declared)).collect();
        for ours in &configuration.points {
            let pair = |(peer, differs): (&&'o Configuration<'o>, &Vec<String>)| {
                let theirs = peer.of_size(ours.bytes)?;
                Some((*peer, theirs, differs.clone(), ratio(theirs, ours)))
            };
            let all: Vec<_> = alike.iter().zip(&differs).filter_map(pair).collect();
            // A peer that is there in a form more like ours is not compared with us in one less like it.
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

/// Every engine that measures and is not there only to be right.
fn any(backend: &str) -> bool {
    !NO_PEERS.contains(&backend)
}

/// Engines of the other runtime: their names have it first.
fn pytorch(backend: &str) -> bool {
    backend.split('/').next() == Some(PYTORCH)
}

/// The table; empty if the run measured no other engine.
pub(crate) fn results(operation: &Operation) -> Vec<Block> {
    use Align::{Left, Right};
    let mut table = Table::new([
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
    for pair in pairs(operation, any) {
        let ratio = &pair.ratio;
        table.row([
            pair.ours.bytes.map_or_else(|| NONE.to_owned(), bytes),
            pair.configuration.ranks.to_string(),
            name(pair.configuration),
            seconds(pair.ours.time.mid),
            name(pair.peer),
            seconds(pair.theirs.time.mid),
            factor(ratio.mid),
            if ratio.known { format!("{} to {}", factor(ratio.low), factor(ratio.high)) } else { NONE.to_owned() },
            if pair.differs.is_empty() { NONE.to_owned() } else { pair.differs.join(", ") },
        ]);
    }
    if table.is_empty() {
        return Vec::new();
    }
    let words = "Against the best peer of this run:";
    vec![Block::Paragraph(words.into()), Block::Table(table.without_empty(NONE, &["bytes"]))]
}

fn name(configuration: &Configuration) -> String {
    let Configuration { backend, variant, .. } = configuration;
    if variant.is_empty() { backend.clone() } else { format!("{backend}, {variant}") }
}

/// ` at 64 KiB with 2 ranks`.
fn place(pair: &Pair) -> String {
    let size = pair.ours.bytes.map_or_else(String::new, |size| format!(" at {}", bytes(size)));
    format!("{size} with {}", crate::study::ranks(pair.configuration.ranks))
}

/// In what the pairs differ, apart from the backend.
fn differ(pairs: &[Pair]) -> String {
    let differs: std::collections::BTreeSet<&String> = pairs.iter().flat_map(|pair| &pair.differs).collect();
    let differs: Vec<&str> = differs.into_iter().map(String::as_str).collect();
    match differs.as_slice() {
        [] => String::new(),
        some => format!(" {OURS} and the other program differ in {}.", some.join(", ")),
    }
}

/// What the table shows, in a sentence.
pub(crate) fn sentence(operation: &Operation) -> Option<String> {
    let pairs = pairs(operation, any);
    // A line of its own says it, above.
    if pairs.iter().all(|pair| pytorch(&pair.peer.backend)) {
        return None;
    }
    let by_ratio = |a: &&Pair, b: &&Pair| a.ratio.mid.total_cmp(&b.ratio.mid);
    let (least, most) = (pairs.iter().min_by(by_ratio)?, pairs.iter().max_by(by_ratio)?);
    let at = |pair: &Pair| {
        let ratio = &pair.ratio;
        format!("{}{}{} ({})", factor(ratio.mid), ratio.range(factor), place(pair), pair.peer.backend)
    };
    let longer = pairs.iter().filter(|pair| pair.ratio.exceeds(1.0)).count();
    let shorter = pairs.iter().filter(|pair| pair.ratio.is_below(1.0)).count();
    let held = match pairs.len() {
        1 => at(least),
        _ => format!("{} to {}", at(least), at(most)),
    };
    let differs = differ(&pairs);
    Some(format!(
        "Speedup of {OURS} over the best peer in {}: {held}; faster in {longer} of {}, slower in {shorter}, too close to \
         tell in {}.{differs}",
        operation.name,
        crate::number::count(pairs.len(), "pair", "pairs"),
        pairs.len() - longer - shorter,
    ))
}

/// What would tell where intervals are too wide.
const MORE: &str = "Run more trials on an idle machine to tell.";

/// How the native runtime compares with PyTorch, a line for each operation that both measured.
pub fn runtimes(run: &Run) -> Vec<String> {
    runtimes_of(&operations(&run.cases, &run.benchmarks))
}

/// How the native runtime compares with PyTorch in these operations, a line for each that both measured.
pub(crate) fn runtimes_of(operations: &[Operation]) -> Vec<String> {
    operations.iter().filter_map(runtime).collect()
}

fn runtime(operation: &Operation) -> Option<String> {
    let pairs = pairs(operation, pytorch);
    let ratios: Vec<f64> = pairs.iter().map(|pair| pair.ratio.mid).filter(|ratio| *ratio > 0.0).collect();
    let least = ratios.iter().copied().reduce(f64::min)?;
    let most = ratios.iter().copied().reduce(f64::max)?;
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let name = one_line(&operation.name);
    if let [pair] = pairs.as_slice() {
        let (ratio, peer, range) = (factor(mean), &pair.peer.backend, pair.ratio.range(factor));
        let (place, differs) = (place(pair), differ(&pairs));
        let word = match &pair.ratio {
            ratio if ratio.exceeds(1.0) => "faster",
            ratio if ratio.is_below(1.0) => "slower",
            _ => {
                return Some(format!(
                    "Cannot tell whether native ranks are faster than {peer} in {name}{place}: {ratio}{range}. \
                     {MORE}{differs}"
                ));
            }
        };
        return Some(format!("Native ranks are {ratio} as fast as {peer} in {name}{place}{range}: {word}.{differs}"));
    }
    let faster = pairs.iter().filter(|pair| pair.ratio.exceeds(1.0)).count();
    let slower = pairs.iter().filter(|pair| pair.ratio.is_below(1.0)).count();
    let unknown = pairs.len() - faster - slower;
    if unknown == pairs.len() {
        return Some(format!(
            "Cannot tell whether native ranks are faster than PyTorch ranks in {name}: none of {} pairs is clear, from \
             {} to {}. {MORE}{}",
            pairs.len(),
            factor(least),
            factor(most),
            differ(&pairs),
        ));
    }
    Some(format!(
        "Native ranks are {} as fast as PyTorch ranks in {name} (geometric mean of {} pairs from {} to {}): faster in \
         {faster}, slower in {slower}, cannot tell in {unknown}.{}",
        factor(mean),
        pairs.len(),
        factor(least),
        factor(most),
        differ(&pairs),
    ))
}
