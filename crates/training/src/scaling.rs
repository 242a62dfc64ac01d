//! What only several cases tell: the efficiency of more ranks, and the share of communication that overlap hides.
//! Formulas: definitions.md (Training).

use std::collections::{HashMap, HashSet};

use contract::Firsts;
use parallel::Mesh;
use record::found::{ROOFLINE, Roofline};
use record::{COMMUNICATION, CaseLine, Caveat};
use serde_json::{Map, Value};
use stats::Ratio;

use super::declared::{EFFICIENCY, MFU, OVERLAPPED, Overlapped, PHASES_S, SAMPLES_PER_S, SCALING, Scaling};
use super::fields::{Optimizers, TRAINING};
use super::resolve;

/// The time of `a` over that of `b`, by their trials of the same rounds. Without a common round (one of them was measured
/// by the run that this one goes on with), by what an equal run of each would show.
fn ratio(a: &CaseLine, b: &CaseLine) -> Option<Ratio> {
    let (of_a, of_b) = a.paired_trials(b);
    stats::paired_ratio(&of_a, &of_b).or_else(|| {
        let run = |line: &CaseLine| {
            let time = line.time_s.as_ref()?;
            Some(stats::RunMedian { median: time.median, again: time.ci95_again })
        };
        stats::run_ratio(run(a)?, run(b)?)
    })
}

fn times(ratio: Ratio, factor: f64) -> Ratio {
    Ratio { mid: ratio.mid * factor, ends: ratio.ends.map(|ends| ends.map(|end| end * factor)) }
}

/// What may differ between a case and its base: how many ranks there are, and what follows from that.
pub(super) const SCALED: &[&str] = &[
    "ranks",
    "mesh",
    "batch",
    "global_batch",
    "micro_batches",
    "schedule",
    "chunks",
    "overlap",
    "communicate",
    "sharded",
    "bucket",
    "load_balance",
    "balance",
    "synchronised",
    "sequence_parallel",
    "gradient_as_bucket_view",
    "static_graph",
];

/// What follows from the number of ranks or from the batch. All else of [`SCALED`] says how a step is done, and is compared as it
/// is wherever it means something to both.
const FOLLOWING: &[&str] = &["ranks", "mesh", "batch", "global_batch", "micro_batches"];

fn mesh(line: &CaseLine) -> Option<Mesh> {
    line.parameters.get("mesh").and_then(Value::as_str)?.parse().ok()
}

/// Whether a case's ranks are stages of a pipeline. What they time as communication is then mostly their wait for each other's
/// turns, which no transfer takes: `send` and `recv` do not synchronise all ranks.
pub(super) fn has_stages(line: &CaseLine) -> bool {
    mesh(line).is_some_and(|mesh| mesh.pipeline > 1)
}

/// Whether an option of [`SCALED`] means something on the case's mesh.
fn concerns(line: &CaseLine, name: &str) -> bool {
    mesh(line).map_or(line.ranks > 1, |mesh| resolve::concerns(mesh, Optimizers::Sgd, false, name))
}

/// Whether both do a step in the same way: options are equal that mean something on both meshes.
fn has_options_of(line: &CaseLine, base: &CaseLine) -> bool {
    SCALED.iter().copied().filter(|name| !FOLLOWING.contains(name)).all(|name| {
        let value = |line: &CaseLine| line.parameters.get(name).cloned();
        value(line) == value(base) || !concerns(line, name) || !concerns(base, name)
    })
}

/// Whether both hold the batch that the plan gave: that of all ranks, or that of each replica.
fn has_batch_of(line: &CaseLine, base: &CaseLine) -> bool {
    let field = if line.parameters.contains_key("global_batch") { "global_batch" } else { "batch" };
    line.parameters.get(field) == base.parameters.get(field)
}

fn flag(line: &CaseLine, name: &str) -> Option<bool> {
    line.parameters.get(name).and_then(Value::as_bool)
}

fn communicates(line: &CaseLine) -> bool {
    flag(line, "communicate") != Some(false)
}

fn global_batch(line: &CaseLine) -> Option<f64> {
    SAMPLES_PER_S.of(line).zip(line.time_s.as_ref()).map(|(rate, time)| (rate * time.median).round())
}

/// What may differ between two cases that show what overlap hides.
const OVERLAP_FIELDS: &[&str] = &["overlap", "communicate"];

/// Lines of each kind, in the order in which they were given.
struct Kinds<'a> {
    apart: Vec<&'static str>,
    found: HashMap<String, Vec<&'a CaseLine>>,
}

impl<'a> Kinds<'a> {
    /// All of `lines`; those of a kind may differ in the parameters `apart`.
    fn new(apart: &[&'static str], lines: Vec<&'a CaseLine>) -> Self {
        let mut kinds = Self { apart: apart.to_vec(), found: HashMap::new() };
        for line in lines {
            kinds.found.entry(kinds.key(line)).or_default().push(line);
        }
        kinds
    }

    /// The lines of this one's kind.
    fn like(&self, line: &CaseLine) -> &[&'a CaseLine] {
        self.found.get(&self.key(line)).map(Vec::as_slice).unwrap_or_default()
    }

    fn key(&self, line: &CaseLine) -> String {
        let kept = line.parameters.iter().filter(|(name, _)| !self.apart.contains(name));
        // A value is JSON, so no text in it can look like the next parameter.
        kept.map(|(name, value)| format!("{name}={value}\n")).collect()
    }
}

/// The lines of a run that others are compared with.
pub(super) struct ScalingBaselines<'a> {
    /// Cases of one rank: it divides nothing, so it is the base of every strategy.
    single: Kinds<'a>,
    /// Cases of more ranks than one, those with the fewest first.
    several: Kinds<'a>,
    /// Cases without overlap, and those that do not communicate.
    off: Firsts<'a>,
    without: Firsts<'a>,
}

impl<'a> ScalingBaselines<'a> {
    pub(super) fn from_lines(all: &[&'a CaseLine]) -> Self {
        let (communicating, without): (Vec<&CaseLine>, Vec<&CaseLine>) =
            all.iter().copied().partition(|line| communicates(line));
        let (single, mut several): (Vec<&CaseLine>, Vec<&CaseLine>) =
            communicating.iter().copied().partition(|line| line.ranks == 1);
        several.sort_by_key(|line| line.ranks);
        let off = communicating.iter().copied().filter(|line| flag(line, "overlap") == Some(false));
        Self {
            single: Kinds::new(&[SCALED, &["strategy"]].concat(), single),
            several: Kinds::new(SCALED, several),
            off: Firsts::new(OVERLAP_FIELDS, off),
            without: Firsts::new(OVERLAP_FIELDS, without),
        }
    }

    /// The case with the fewest ranks that this one can be compared with: of those with the batch that the plan held, or else of
    /// all.
    fn base(&self, line: &CaseLine) -> Option<&'a CaseLine> {
        let known = self.single.like(line).iter().chain(self.several.like(line)).copied();
        let bases: Vec<&CaseLine> =
            known.filter(|base| base.ranks < line.ranks && has_options_of(line, base)).collect();
        bases.iter().find(|base| has_batch_of(line, base)).or(bases.first()).copied()
    }
}

/// What this case says in relation to the others of its run.
pub(super) fn relations(line: &CaseLine, compared: &ScalingBaselines<'_>) -> Map<String, Value> {
    let mut found = Map::new();
    // What does not communicate trains nothing together: it has a time, and no efficiency.
    let base = compared.base(line).filter(|_| communicates(line));
    if let Some(scaling) = base.and_then(|base| scaling(line, base)) {
        EFFICIENCY.put(&mut found, scaling.efficiency);
        SCALING.put(&mut found, scaling);
    }
    if let Some(hidden) = hidden(line, compared) {
        OVERLAPPED.put(&mut found, hidden);
    }
    if let Some(roofline) = bound_by_communication(line) {
        ROOFLINE.put(&mut found, roofline);
    }
    found
}

/// The case's place in the roofline where its slowest rank spends more time on communication that nothing hides than on
/// computation: no ceiling of the rank's cores is the bound then. None for stages of a pipeline, whose waits are not transfers.
fn bound_by_communication(line: &CaseLine) -> Option<Roofline> {
    if has_stages(line) {
        return None;
    }
    let roofline = ROOFLINE.of(line)?;
    let phases = PHASES_S.value(line)?;
    let computing = compute(line)? + phases.get("optimizer")?.as_f64()?;
    if phases.get("communication")?.as_f64()? <= computing {
        return None;
    }
    Some(Roofline { bound: COMMUNICATION.to_owned(), ..roofline })
}

/// The cases of native ranks with an efficiency that is not good, and what they are compared with: one rank waits for nobody,
/// and the difference between the two shows where time is lost.
pub(super) fn unexplained(all: &[&CaseLine]) -> Vec<String> {
    let (compared, mut found) = (ScalingBaselines::from_lines(all), HashSet::new());
    let own = |line: &&&CaseLine| line.benchmark == TRAINING && line.runtime == "native" && !line.simulated;
    // Where ranks share cores, that is the reason.
    let apart = |line: &&&CaseLine| !line.caveats.contains(&Caveat::Oversubscribed);
    for line in all.iter().filter(own).filter(apart).filter(|line| communicates(line)) {
        let Some(base) = compared.base(line) else { continue };
        if scaling(line, base).is_some_and(|about| about.ci95.is_some() && about.word.is_none()) {
            found.extend([base.id.as_str(), line.id.as_str()]);
        }
    }
    // In the order of the lines, each once.
    all.iter().filter(|line| found.contains(line.id.as_str())).map(|line| line.id.clone()).collect()
}

/// Weak: each rank has as many samples as before, E = T(n) / (n T(n0) / n0). Strong: all ranks together have,
/// E = t(n0) n0 / (n t(n)). Anything else compares nothing.
fn scaling(line: &CaseLine, base: &CaseLine) -> Option<Scaling> {
    let (n, n0) = (f64::from(line.ranks), f64::from(base.ranks));
    let (batch, batch0) = (global_batch(line)?, global_batch(base)?);
    let kind = match () {
        () if batch == batch0 => "strong",
        () if batch * n0 == batch0 * n => "weak",
        () => return None,
    };
    // Throughput per rank over that of the base, which is what both formulas come to.
    let efficiency = times(ratio(base, line)?, batch / batch0 * n0 / n);
    let fma_scaling = fma_scaling(line, base);
    Some(Scaling {
        kind: kind.to_owned(),
        base_ranks: base.ranks,
        efficiency: efficiency.mid,
        ci95: efficiency.ends,
        // A word is a promise: the low end must deserve it.
        word: efficiency.ends.and_then(|[low, _]| word(low)).map(str::to_owned),
        fma_scaling,
        normalised: fma_scaling.map(|fma| efficiency.mid / fma),
    })
}

/// What definitions.md calls an efficiency.
fn word(efficiency: f64) -> Option<&'static str> {
    match efficiency {
        e if e > 0.9 => Some("excellent"),
        e if e > 0.8 => Some("good"),
        _ => None,
    }
}

/// Compute-only scaling: the efficiency of a loop that only computes, on the same cores. Cores that share power or threads of one
/// core do not scale, whatever the program.
fn fma_scaling(line: &CaseLine, base: &CaseLine) -> Option<f64> {
    let peak = |line: &CaseLine| Some(MFU.value(line)?.get("peak_flops")?.as_f64()? / f64::from(line.ranks));
    Some(peak(line)? / peak(base)?)
}

/// `hidden = (t_off - t_on) / (t_off - t_nocomm)`: of the time that communication costs without overlap, the share that
/// overlap takes away. By times, because a communication thread that takes the core looks overlapped in spans.
fn hidden(line: &CaseLine, compared: &ScalingBaselines<'_>) -> Option<Overlapped> {
    if flag(line, "overlap") != Some(true) || !communicates(line) {
        return None;
    }
    let (off, without) = (compared.off.like(line)?, compared.without.like(line)?);
    let median = |line: &CaseLine| line.time_s.as_ref().map(|time| time.median);
    let (t_on, t_off, t_nocomm) = (median(line)?, median(off)?, median(without)?);
    let compute_slowdown = compute(line).zip(compute(off)).map(|(on, off)| on / off);
    let mut about =
        Overlapped { off_s: t_off, on_s: t_on, nocomm_s: t_nocomm, compute_slowdown, ..Overlapped::default() };
    // Only where communication clearly costs something is there a share of it: else the quotient is noise over noise.
    let cost = ratio(off, without)?;
    let costs = cost.ends.is_some_and(|[low, _]| low > 1.0);
    match hidden_by_round(line, off, without).filter(|_| costs) {
        Some((share, ends)) => (about.share, about.ci95) = (Some(share), ends),
        None if cost.ends.is_some() => about.nothing_to_overlap = true,
        // Too few trials to tell whether communication costs anything.
        None => {}
    }
    Some(about)
}

/// The overlapped share of each round that all three cases took part in: the median, and its interval.
fn hidden_by_round(on: &CaseLine, off: &CaseLine, without: &CaseLine) -> Option<(f64, Option<[f64; 2]>)> {
    let at = |line: &CaseLine, round: u32| {
        let place = line.trial_round.iter().position(|known| *known == round)?;
        line.trial_median_s.get(place).copied()
    };
    let share = |round: &u32| {
        let (on, off, without) = (at(on, *round)?, at(off, *round)?, at(without, *round)?);
        let share = (off - on) / (off - without);
        share.is_finite().then_some(share)
    };
    let shares: Vec<f64> = on.trial_round.iter().filter_map(share).collect();
    (!shares.is_empty()).then(|| (stats::median(&shares), stats::sign_interval(&shares)))
}

/// Seconds of forward and backward pass of the slowest rank.
fn compute(line: &CaseLine) -> Option<f64> {
    let phases = PHASES_S.value(line)?;
    Some(phases.get("forward")?.as_f64()? + phases.get("backward")?.as_f64()?)
}

#[cfg(test)]
mod tests;
