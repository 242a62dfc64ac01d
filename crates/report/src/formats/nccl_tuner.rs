//! `nccl_tuner.conf`: the algorithm and protocol of NCCL that win with certainty, for the example tuner plugin of NCCL.
//!
//! The file is that of `ext-tuner/example` in NVIDIA/nccl:
//! `collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff`. A setting wins where it is
//! faster than each alternative, with the whole interval of their ratio over trials of the same round. A row holds for measured
//! sizes next to each other that one setting wins, and for the sizes between them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use record::{CaseLine, Declared};
use serde_json::Value;
use terms::{Collective, Status};

use crate::escape::one_line;
use crate::number::{bytes, count, factor};
use crate::words::damage::end_banner;
use crate::{Artifact, Error, Format, Run};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct NcclTuner;

impl Format for NcclTuner {
    fn about(&self) -> (&'static str, &'static str) {
        ("nccl-tuner", "nccl_tuner.conf: settings of NCCL that win with certainty, for its example tuner plugin")
    }

    fn by_default(&self) -> bool {
        false
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        Ok(vec![Artifact::new("nccl_tuner.conf", text(run).into_bytes())])
    }
}

/// The variables that the plugin can set.
const VARIABLES: [&str; 2] = ["NCCL_ALGO", "NCCL_PROTO"];

/// A case with the words of both variables; empty: the library chose.
struct Setting<'r> {
    line: &'r CaseLine,
    words: [String; 2],
}

/// What the plugin matches. Rows are in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    op: Collective,
    hosts: u32,
    ranks: u32,
    bytes: u64,
}

impl Place {
    /// Whether the two differ in size alone.
    fn is_series_of(&self, other: &Self) -> bool {
        Self { bytes: other.bytes, ..*self } == *other
    }
}

/// One kind of work under several settings.
struct Contest<'r> {
    place: Place,
    settings: Vec<Setting<'r>>,
    /// Settings that failed.
    failed: Vec<[String; 2]>,
}

/// What a contest came to.
enum Outcome {
    /// The words of the setting that wins, the least by which it does, and how many others there are.
    Won { words: [String; 2], by: f64, alternatives: usize },
    /// Why nothing is claimed.
    Open(String),
}

impl Outcome {
    /// Whether both are won by the same setting.
    fn is_won_as(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Won { words: one, .. }, Self::Won { words: other, .. }) if one == other)
    }

    /// What holds for both.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Won { words, by, alternatives }, Self::Won { words: also, by: other, alternatives: of }) => {
                if words == also {
                    return Self::Won { words, by: by.min(other), alternatives: alternatives.min(of) };
                }
                let (one, other) = (words.join("/"), also.join("/"));
                Self::Open(format!("{one} wins in some cases of this size, and {other} in others"))
            }
            (Self::Won { .. }, open) | (open, _) => open,
        }
    }
}

fn text(run: &Run) -> String {
    let contests = contests(run);
    let banner = end_banner(run).map_or_else(String::new, |banner| format!("# {}\n", one_line(&banner)));
    let mut text = banner;
    text.push_str(
        "# Settings of NCCL that win with certainty: faster than each alternative, with the whole 95% interval of their ratio.\n\
         # A row holds from its first to its last measured size: the same setting wins at each size measured between them.\n\
         # collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\n",
    );
    if contests.is_empty() {
        text += "# No operation of this record was measured under several of NCCL_ALGO and NCCL_PROTO.\n";
    }
    let judged: Vec<(Place, Outcome)> = by_place(&contests);
    for range in judged.chunk_by(|(a, one), (b, other)| a.is_series_of(b) && one.is_won_as(other)) {
        if let [(first, Outcome::Won { words, .. }), ..] = range {
            text += &row(first, range, words);
        }
    }
    let open = |(place, outcome): &(Place, Outcome)| match outcome {
        Outcome::Won { .. } => None,
        Outcome::Open(why) => Some(format!("# {} {}, {} ranks: {why}\n", place.op, bytes(place.bytes), place.ranks)),
    };
    let open: Vec<String> = judged.iter().filter_map(open).collect();
    if !open.is_empty() {
        text += "#\n# Without a clear winner, the library's own choice stays:\n";
        text += &open.concat();
    }
    if let Some((_, first @ Outcome::Won { words, .. })) = judged.first()
        && judged.iter().all(|(_, other)| first.is_won_as(other))
    {
        let line: Vec<String> = VARIABLES.iter().zip(words).map(|(name, word)| format!("{name}={word}")).collect();
        let _ = writeln!(text, "#\n# One setting wins everywhere: {}", line.join(" "));
    }
    text
}

/// A row, and the comment above it, for sizes next to each other that one setting wins.
fn row(first: &Place, range: &[(Place, Outcome)], words: &[String; 2]) -> String {
    let last = range.last().map_or(first, |(place, _)| place);
    let won = range.iter().filter_map(|(_, outcome)| match outcome {
        Outcome::Won { by, alternatives, .. } => Some((*by, *alternatives)),
        Outcome::Open(_) => None,
    });
    let (by, fewest) = won.fold((f64::INFINITY, usize::MAX), |(by, few), one| (by.min(one.0), few.min(one.1)));
    let alternatives = count(fewest, "alternative", "alternatives");
    let sizes = match range.len() {
        1 => bytes(first.bytes),
        sizes => format!("{} to {} ({sizes} sizes)", bytes(first.bytes), bytes(last.bytes)),
    };
    let [algorithm, protocol] = words.each_ref().map(|word| tuner_word(word));
    let (name, nodes, ranks) = (op_word(first.op), first.hosts, first.ranks);
    format!(
        "# {} {sizes}: at least {} faster than {alternatives}\n\
         {name},{},{},{algorithm},{protocol},-1,{nodes},{ranks},-1,-1\n",
        first.op,
        factor(by),
        first.bytes,
        last.bytes
    )
}

/// The outcome of each place. The plugin matches nothing else, so all work there must agree.
fn by_place(contests: &[Contest]) -> Vec<(Place, Outcome)> {
    let mut judged: Vec<(Place, Outcome)> = Vec::new();
    for contest in contests {
        let outcome = judge(contest);
        match judged.last_mut().filter(|(place, _)| *place == contest.place) {
            Some((_, known)) => *known = std::mem::replace(known, Outcome::Open(String::new())).and(outcome),
            None => judged.push((contest.place, outcome)),
        }
    }
    judged
}

/// The operations that the plugin knows.
fn op_word(op: Collective) -> &'static str {
    match op {
        Collective::AllReduce => "allreduce",
        Collective::AllGather => "allgather",
        Collective::ReduceScatter => "reducescatter",
        Collective::Broadcast => "broadcast",
        Collective::Reduce => "reduce",
        _ => "",
    }
}

/// `NVLSTree` is `nvls_tree` there.
fn tuner_word(word: &str) -> String {
    match word {
        "CollNetDirect" => "collnet_direct".to_owned(),
        "CollNetChain" => "collnet_chain".to_owned(),
        "NVLSTree" => "nvls_tree".to_owned(),
        other => other.to_ascii_lowercase(),
    }
}

fn contests(run: &Run) -> Vec<Contest<'_>> {
    let mut all: BTreeMap<(Place, String), Contest> = BTreeMap::new();
    let was_tried = |line: &&CaseLine| matches!(line.status, Status::Ok | Status::Failed);
    for line in run.cases.iter().filter(|line| line.backend == "nccl").filter(was_tried) {
        let declared = crate::study::declaration(&run.benchmarks, &line.benchmark);
        let Some(op) = operation(line).filter(|op| !op_word(*op).is_empty()) else { continue };
        let (Some(size), words) = (line.bytes, words(line, declared)) else { continue };
        // The same work: all parameters but those that set the variables.
        let rest: BTreeMap<&str, &Value> =
            line.parameters.iter().filter(|(name, value)| !sets(name, value, declared)).collect();
        // The hosts of its ranks: a run over several may have cases within one.
        let place = Place { op, hosts: line.hosts.unwrap_or(1), ranks: line.ranks, bytes: size };
        let key = (place, record::to_json(&rest).unwrap_or_default());
        let contest = all.entry(key).or_insert(Contest { place, settings: Vec::new(), failed: Vec::new() });
        match line.status {
            Status::Ok => contest.settings.push(Setting { line, words }),
            _ => contest.failed.push(words),
        }
    }
    // A setting that failed ends a row, also where no other was tried.
    all.into_values().filter(|contest| contest.settings.len() > 1 || !contest.failed.is_empty()).collect()
}

fn operation(line: &CaseLine) -> Option<Collective> {
    line.parameters.iter().find_map(|(_, value)| terms::Named::from_name(value.as_str()?))
}

/// The variable that a field sets, as its documentation begins: `NCCL_ALGO: Ring, ...`.
fn variable_of<'d>(name: &str, declared: Option<&'d Declared>) -> Option<&'d str> {
    let doc = declared?.field(name)?.doc.as_str();
    doc.split_once(':').map(|(variable, _)| variable).filter(|variable| VARIABLES.contains(variable))
}

/// The texts of a parameter, which may be a list.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        // Variables of the environment are one text.
        Value::String(text) => text.split_whitespace().collect(),
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Whether a parameter sets one of the variables: a field of its own, or a variable of the ranks' environment.
fn sets(name: &str, value: &Value, declared: Option<&Declared>) -> bool {
    let is_variable = |text: &&str| text.split_once('=').is_some_and(|(name, _)| VARIABLES.contains(&name));
    variable_of(name, declared).is_some() || texts(value).iter().any(is_variable)
}

fn words(line: &CaseLine, declared: Option<&Declared>) -> [String; 2] {
    let mut found = [String::new(), String::new()];
    let mut set = |variable: &str, word: &str| {
        if let Some(at) = VARIABLES.iter().position(|known| *known == variable) {
            word.clone_into(&mut found[at]);
        }
    };
    for (name, value) in line.parameters.iter() {
        if let (Some(variable), Some(word)) = (variable_of(name, declared), value.as_str()) {
            set(variable, word);
        }
        for (variable, word) in texts(value).iter().filter_map(|text| text.split_once('=')) {
            set(variable, word);
        }
    }
    found
}

/// The setting that is faster than each other, with certainty.
fn judge(contest: &Contest) -> Outcome {
    // With one setting left, nothing was compared.
    if let (Some(failed), true) = (contest.failed.first(), contest.settings.len() < 2) {
        return Outcome::Open(format!("{} failed, and fewer than two settings are left", named(failed)));
    }
    let median = |setting: &Setting| setting.line.time_s.as_ref().map_or(f64::INFINITY, |time| time.median);
    let fastest = (0..contest.settings.len())
        .min_by(|a, b| median(&contest.settings[*a]).total_cmp(&median(&contest.settings[*b])))
        .unwrap_or(0);
    let best = &contest.settings[fastest];
    if best.words.iter().any(|word| word.contains([',', '^', ':'])) {
        return Outcome::Open("the fastest setting is a list, but the plugin supports only one word".to_owned());
    }
    if best.words.iter().any(String::is_empty) {
        return Outcome::Open("the fastest leaves the algorithm or the protocol to the library".to_owned());
    }
    let mut least = f64::INFINITY;
    for (at, other) in contest.settings.iter().enumerate().filter(|(at, _)| *at != fastest) {
        let (of_other, of_best) = other.line.paired_trials(best.line);
        match stats::paired_ratio(&of_other, &of_best).and_then(|ratio| ratio.ends) {
            Some([low, _]) if low > 1.0 => least = least.min(low),
            ends => {
                let name = named(&contest.settings[at].words);
                let why = if ends.is_some() { "may be as fast" } else { "has too few trials in the same rounds" };
                return Outcome::Open(format!("{name} {why} as {}", best.words.join("/")));
            }
        }
    }
    Outcome::Won { words: best.words.clone(), by: least, alternatives: contest.settings.len() - 1 }
}

fn named(words: &[String; 2]) -> String {
    if words.iter().all(String::is_empty) { "the library's choice".to_owned() } else { words.join("/") }
}
