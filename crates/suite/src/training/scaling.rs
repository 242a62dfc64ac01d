//! What only several cases tell: the efficiency of more ranks, and the share of communication that overlap hides.
//! Formulas: definitions.md (Training).

use record::{CaseLine, TimeSummary};
use serde_json::{Map, Value, json};

use super::metrics::number;
use crate::Done;

/// What a ratio of two medians is, with its 95% interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ratio {
    mid: f64,
    low: f64,
    high: f64,
}

impl Ratio {
    fn times(self, factor: f64) -> Self {
        Self { mid: self.mid * factor, low: self.low * factor, high: self.high * factor }
    }
}

/// The median of `a` over that of `b`: by bootstrap where the samples are there, over launches where both have several;
/// else from the two intervals, whose distances on logarithms add in quadrature (Zou and Donner, Statistics in Medicine
/// 27, 2008).
fn ratio(a: &Done<'_>, b: &Done<'_>) -> Option<Ratio> {
    const SEED: u64 = 1;
    let (of_a, of_b) = (a.series(), b.series());
    let bootstrap = match (of_a.as_slice(), of_b.as_slice()) {
        ([one], [other]) => stats::ratio_interval(one, other, SEED),
        _ => stats::hierarchical_ratio_interval(&of_a, &of_b, SEED),
    };
    if let Some(found) = bootstrap {
        return Some(Ratio { mid: found.ratio, low: found.interval.low, high: found.interval.high });
    }
    let (a, b) = (a.line.time_s.as_ref()?, b.line.time_s.as_ref()?);
    let ends = |time: &TimeSummary| [time.median / time.ci95[0], time.ci95[1] / time.median].map(f64::ln);
    let ([a_low, a_high], [b_low, b_high]) = (ends(a), ends(b));
    let mid = a.median / b.median;
    let found = Ratio { mid, low: mid * (-a_low.hypot(b_high)).exp(), high: mid * a_high.hypot(b_low).exp() };
    (found.low.is_finite() && found.high.is_finite()).then_some(found)
}

/// Whether two cases are the same but for these parameters.
fn alike(a: &CaseLine, b: &CaseLine, but: &[&str]) -> bool {
    let rest = |line: &CaseLine| {
        let kept = line.parameters.iter().filter(|(name, _)| !but.contains(&name.as_str()));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<_>>()
    };
    rest(a) == rest(b)
}

/// What may differ between a case and its base: how many ranks there are, and what follows from that.
const SCALED: &[&str] = &[
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

fn flag(line: &CaseLine, name: &str) -> Option<bool> {
    line.parameters.get(name).and_then(Value::as_bool)
}

fn communicates(line: &CaseLine) -> bool {
    flag(line, "communicate") != Some(false)
}

fn global_batch(line: &CaseLine) -> Option<f64> {
    line.metric("samples_per_s").zip(line.time_s.as_ref()).map(|(rate, time)| (rate * time.median).round())
}

/// The case with the fewest ranks that this one can be held against.
fn base<'d, 'a>(done: &Done<'_>, before: &'d [Done<'a>]) -> Option<&'d Done<'a>> {
    let comparable = |other: &&Done<'_>| {
        // One rank divides nothing: it is the base of every strategy.
        let apart: Vec<&str> = match other.line.ranks {
            1 => SCALED.iter().copied().chain(["strategy"]).collect(),
            _ => SCALED.to_vec(),
        };
        other.line.ranks < done.line.ranks && communicates(other.line) && alike(other.line, done.line, &apart)
    };
    before.iter().filter(comparable).min_by_key(|other| other.line.ranks)
}

/// What this case says beside those before it.
pub(super) fn relations(done: &Done<'_>, before: &[Done<'_>]) -> Map<String, Value> {
    let mut found = Map::new();
    // What does not communicate trains nothing together: it has a time, and no efficiency.
    let base = base(done, before).filter(|_| communicates(done.line));
    if let Some((efficiency, about)) = base.and_then(|base| scaling(done, base)) {
        found.insert("efficiency".to_owned(), number(efficiency));
        found.insert("scaling".to_owned(), about);
    }
    if let Some(hidden) = hidden(done, before) {
        found.insert("hidden".to_owned(), hidden);
    }
    found
}

/// Weak: each rank has as many samples as before, E = T(n) / (n T(n0) / n0). Strong: all ranks together have,
/// E = t(n0) n0 / (n t(n)). Anything else compares nothing.
fn scaling(done: &Done<'_>, base: &Done<'_>) -> Option<(f64, Value)> {
    let (n, n0) = (f64::from(done.line.ranks), f64::from(base.line.ranks));
    let (batch, batch0) = (global_batch(done.line)?, global_batch(base.line)?);
    let kind = match () {
        () if batch == batch0 => "strong",
        () if batch * n0 == batch0 * n => "weak",
        () => return None,
    };
    // Throughput per rank over that of the base, which is what both formulas come to.
    let efficiency = ratio(base, done)?.times(batch / batch0 * n0 / n);
    let mut about = json!({
        "kind": kind,
        "base_ranks": base.line.ranks,
        "efficiency": number(efficiency.mid),
        "ci95": [number(efficiency.low), number(efficiency.high)],
    });
    if let Some(word) = word(efficiency.mid) {
        about["word"] = word.into();
    }
    if let Some(fma) = fma_scaling(done.line, base.line) {
        about["fma_scaling"] = number(fma);
        about["normalised"] = number(efficiency.mid / fma);
    }
    Some((efficiency.mid, about))
}

/// What definitions.md calls an efficiency.
fn word(efficiency: f64) -> Option<&'static str> {
    match efficiency {
        e if e > 0.9 => Some("excellent"),
        e if e > 0.8 => Some("good"),
        _ => None,
    }
}

/// The same efficiency of a loop that only computes, on the same cores: cores that share power or threads of one core
/// do not scale, whatever the program.
fn fma_scaling(line: &CaseLine, base: &CaseLine) -> Option<f64> {
    let peak = |line: &CaseLine| Some(line.metrics.get("mfu")?.get("peak_flops")?.as_f64()? / f64::from(line.ranks));
    Some(peak(line)? / peak(base)?)
}

/// `hidden = (t_off - t_on) / (t_off - t_nocomm)`: of the time that communication costs without overlap, the share that
/// overlap takes away. By times, because a communication thread that takes the core looks overlapped in spans.
fn hidden(done: &Done<'_>, before: &[Done<'_>]) -> Option<Value> {
    if flag(done.line, "overlap") != Some(true) || !communicates(done.line) {
        return None;
    }
    let alike = |other: &&Done<'_>| alike(other.line, done.line, &["overlap", "communicate"]);
    let off = |other: &&Done<'_>| flag(other.line, "overlap") == Some(false) && communicates(other.line);
    let off = before.iter().filter(alike).find(off)?;
    let without = before.iter().filter(alike).find(|other| !communicates(other.line))?;
    let median = |done: &Done<'_>| done.line.time_s.as_ref().map(|time| time.median);
    let (t_on, t_off, t_nocomm) = (median(done)?, median(off)?, median(without)?);
    let mut about = json!({
        "off_s": number(t_off),
        "on_s": number(t_on),
        "nocomm_s": number(t_nocomm),
        "compute_slowdown": compute(done.line).zip(compute(off.line)).map_or(Value::Null, |(on, off)| number(on / off)),
    });
    if about["compute_slowdown"].is_null() {
        about.as_object_mut()?.remove("compute_slowdown");
    }
    // Only where communication clearly costs something is there a share of it: else the quotient is noise over noise.
    let cost = ratio(off, without)?;
    match cost.low > 1.0 && t_off > t_nocomm {
        true => about["share"] = number((t_off - t_on) / (t_off - t_nocomm)),
        false => about["nothing_to_hide"] = true.into(),
    }
    Some(about)
}

/// Seconds of forward and backward pass of the slowest rank.
fn compute(line: &CaseLine) -> Option<f64> {
    let phases = line.metrics.get("phases_s")?;
    Some(phases.get("forward")?.as_f64()? + phases.get("backward")?.as_f64()?)
}

#[cfg(test)]
mod tests;
