//! `nccl_tuner.conf`: the algorithm and protocol of NCCL that win with certainty, for the example tuner plugin of NCCL.
//!
//! The file is that of `ext-tuner/example` in NVIDIA/nccl:
//! `collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff`. The plugin matches ranges of
//! sizes; a row here has one size that was measured, so nothing between two sizes is claimed. A setting wins where it is faster
//! than each alternative, with the whole interval of their ratio over trials of the same round.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use record::{CaseLine, Declared};
use serde_json::Value;
use terms::{Collective, Status};

use crate::number::{bytes, count, factor};
use crate::{Artifact, Error, Format, Run};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct NcclTuner;

impl Format for NcclTuner {
    fn name(&self) -> &'static str {
        "nccl-tuner"
    }

    fn doc(&self) -> &'static str {
        "nccl_tuner.conf: settings of NCCL that win with certainty, for its example tuner plugin"
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

/// The same work under several settings.
struct Contest<'r> {
    op: Collective,
    bytes: u64,
    ranks: u32,
    hosts: usize,
    settings: Vec<Setting<'r>>,
}

/// What a contest came to.
enum Outcome {
    /// This one, and the least by which it wins.
    Won(usize, f64),
    /// Why nothing is claimed.
    Open(String),
}

fn text(run: &Run) -> String {
    let contests = contests(run);
    let mut text = String::from(
        "# Settings of NCCL that win with certainty: faster than each alternative, with the whole 95% interval of their ratio.\n\
         # collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\n",
    );
    if contests.is_empty() {
        text += "# No operation of this record was measured under several of NCCL_ALGO and NCCL_PROTO.\n";
    }
    let mut open = Vec::new();
    let mut winners: Vec<[String; 2]> = Vec::new();
    for contest in &contests {
        let (op, size) = (contest.op, bytes(contest.bytes));
        match judge(contest) {
            Outcome::Won(at, by) => {
                let words = &contest.settings[at].words;
                let alternatives = count(contest.settings.len() - 1, "alternative", "alternatives");
                let _ = writeln!(text, "# {op} {size}: at least {} faster than {alternatives}", factor(by));
                let [algorithm, protocol] = words.each_ref().map(|word| tuner_word(word));
                let (nodes, ranks) = (contest.hosts, contest.ranks);
                let name = op_word(op);
                let of = contest.bytes;
                let _ = writeln!(text, "{name},{of},{of},{algorithm},{protocol},-1,{nodes},{ranks},-1,-1");
                winners.push(words.clone());
            }
            Outcome::Open(why) => open.push(format!("# {op} {size}, {} ranks: {why}\n", contest.ranks)),
        }
    }
    if !open.is_empty() {
        text += "#\n# Where it cannot be told, the library's own choice stays:\n";
        text += &open.concat();
    }
    if let Some(first) = winners.first().filter(|first| open.is_empty() && winners.iter().all(|other| other == *first))
    {
        let line: Vec<String> = VARIABLES.iter().zip(first).map(|(name, word)| format!("{name}={word}")).collect();
        let _ = writeln!(text, "#\n# One setting wins everywhere: {}", line.join(" "));
    }
    text
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
    let mut all: BTreeMap<String, Contest> = BTreeMap::new();
    for line in run.cases.iter().filter(|line| line.backend == "nccl" && line.status == Status::Ok) {
        let declared = crate::study::declaration(&run.benchmarks, &line.benchmark);
        let Some(op) = operation(line).filter(|op| !op_word(*op).is_empty()) else { continue };
        let (Some(size), words) = (line.bytes, words(line, declared)) else { continue };
        // The same work: all parameters but those that set the variables.
        let rest: BTreeMap<&str, &Value> =
            line.parameters.iter().filter(|(name, value)| !sets(name, value, declared)).collect();
        let key = format!("{size:020} {}", record::to_json(&rest).unwrap_or_default());
        let hosts = run.hosts.len().max(1);
        let contest =
            all.entry(key).or_insert(Contest { op, bytes: size, ranks: line.ranks, hosts, settings: Vec::new() });
        contest.settings.push(Setting { line, words });
    }
    all.into_values().filter(|contest| contest.settings.len() > 1).collect()
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
    let median = |setting: &Setting| setting.line.time_s.as_ref().map_or(f64::INFINITY, |time| time.median);
    let fastest = (0..contest.settings.len())
        .min_by(|a, b| median(&contest.settings[*a]).total_cmp(&median(&contest.settings[*b])))
        .unwrap_or(0);
    let best = &contest.settings[fastest];
    if best.words.iter().any(|word| word.contains([',', '^', ':'])) {
        return Outcome::Open("the fastest is a list of words, and the plugin takes one".to_owned());
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
                let name = contest.settings[at].words.join("/");
                let why = if ends.is_some() { "may be as fast" } else { "has too few trials of the same rounds" };
                let name = if name == "/" { "the library's choice".to_owned() } else { name };
                return Outcome::Open(format!("{name} {why} as {}", best.words.join("/")));
            }
        }
    }
    Outcome::Won(fastest, least)
}
