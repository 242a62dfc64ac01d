//! Findings about what limits the results: scaling by the waterfall of its steps, and bandwidth of memory or of caches.

use record::{CaseLine, Caveat};
use serde_json::Value;

use super::{Finding, FindingTopic, finding};
use crate::Run;
use crate::number::{bytes, list, percent};
use crate::study::{Configuration, Operation, ranks};
use crate::words::explained::losses;
use crate::words::facts::{self, BytesFrom, Limit};

/// Scaling below this efficiency is a finding (definitions: above 80% is good).
const GOOD: f64 = 0.8;
/// A loss of less than this share of the ideal is not worth an action.
const SMALL: f64 = 0.02;
/// Losses that are named.
const NAMED: usize = 2;

/// The lowest efficiency at the most ranks, where its whole interval is below what is good.
pub(super) fn scaling(run: &Run, operations: &[Operation]) -> Option<Finding> {
    let all = operations.iter().flat_map(|operation| &operation.configurations);
    let all: Vec<(&str, &CaseLine, f64)> = all
        .flat_map(|c| c.points.iter().filter_map(|p| Some((c.label.as_str(), p.case, efficiency(p.case)?))))
        .collect();
    let most = all.iter().map(|(_, case, _)| case.ranks).max()?;
    let there = all.iter().filter(|(_, case, _)| case.ranks == most);
    let (label, case, value) = there.min_by(|a, b| a.2.total_cmp(&b.2))?;
    let [low, high] = view::ends(case, "scaling.ci95").filter(|[_, high]| *high < GOOD)?;
    let title =
        format!("{} reach {} ({} to {}) of ideal", ranks(case.ranks), percent(*value), percent(low), percent(high));
    if case.caveats.contains(&Caveat::Oversubscribed) {
        let action = "The ranks share cores: judge scaling by runs with at most one rank per core.";
        return Some(finding(FindingTopic::Scaling, title, format!("{label}."), action).loses(1.0 - value));
    }
    let losses: Vec<(String, f64)> = losses(run, case).into_iter().filter(|(_, share)| *share > SMALL).collect();
    let words: Vec<String> =
        losses.iter().take(NAMED).map(|(cause, share)| format!("{cause} {}", percent(*share))).collect();
    let evidence = match losses.is_empty() {
        true => format!("{label}."),
        false => format!("{label}; lost of the ideal: {}.", list(&words)),
    };
    let action = remedy(losses.first().map(|(cause, _)| cause.as_str()), case);
    Some(finding(FindingTopic::Scaling, title, evidence, action).loses(1.0 - value))
}

fn efficiency(case: &CaseLine) -> Option<f64> {
    view::number_at(case, "scaling.efficiency")
}

/// What to do about the largest loss; the names are those of the waterfall's terms.
fn remedy(cause: Option<&str>, case: &CaseLine) -> &'static str {
    let overlaps = case.parameters.get("overlap").and_then(Value::as_bool) == Some(true);
    match cause {
        Some("exposed transfer") if overlaps => {
            "Send less, or earlier: larger batch, gradient accumulation, bf16 gradients, smaller buckets."
        }
        Some("exposed transfer") => "Overlap communication with the backward pass, or give each rank a larger batch.",
        Some("waiting for late ranks") => "Find the late rank in the timeline below, and see what else its core runs.",
        Some("slower computation") => {
            "Computation takes longer when more ranks run: they share caches, memory or power. Communication is not \
             the reason. Run `rankmark hardware triad,fma` to see how these cores scale."
        }
        Some("pipeline bubble") => "Use more microbatches, or a schedule with a smaller bubble.",
        Some("input") => "Load data ahead of the step, and nearer to the ranks.",
        Some("host") => "Look at what the step's thread does between operations in the timeline below.",
        Some(_) => {
            "The recorded steps do not show this loss. Repeat on an idle machine, where recorded and measured steps \
             agree."
        }
        None => "Compare the phases of a step at few and at many ranks.",
    }
}

/// The operation that comes nearest to the limit of bandwidth, of memory before that of caches.
pub(super) fn bandwidth_bound(run: &Run, operations: &[Operation]) -> Option<Finding> {
    let all: Vec<(String, Bound)> = operations.iter().filter_map(|o| Some((o.name.clone(), bound(run, o)?))).collect();
    let (name, best) = all.iter().max_by(|(_, a), (_, b)| {
        (a.of == BytesFrom::Dram).cmp(&(b.of == BytesFrom::Dram)).then(a.low.total_cmp(&b.low))
    })?;
    let title = format!("{} limits {name}: {} of the limit", best.of.limits(), facts::shares([best.low, best.high]));
    let same = all.iter().filter(|(other, of)| other != name && of.of == best.of);
    let others: Vec<&str> = same.map(|(other, _)| other.as_str()).collect();
    let others = if others.is_empty() { String::new() } else { format!(" The same holds for {}.", list(&others)) };
    let evidence = format!("With {} from {} up.{others}", best.label, bytes(best.from));
    let action = match best.of {
        BytesFrom::Dram => {
            "A faster transport does not help here. Move fewer bytes (bf16 is half of f32), or use more sockets."
        }
        BytesFrom::Caches => {
            "The data fit into the caches, so these rates are not memory bandwidth. If the data of your job do not \
             fit, measure larger sizes or use `--cache cold`."
        }
        BytesFrom::Unknown => "A faster transport does not help here. Move fewer bytes (bf16 is half of f32).",
    };
    // What is at its limit loses nothing.
    Some(finding(FindingTopic::Limit, title, evidence, action).loses(0.0))
}

/// A configuration that reaches its limit.
pub(in crate::words) struct Bound {
    low: f64,
    high: f64,
    from: u64,
    label: String,
    pub(in crate::words) of: BytesFrom,
}

/// Of an operation, the one that is nearest to it.
pub(in crate::words) fn bound(run: &Run, operation: &Operation) -> Option<Bound> {
    let of = |c: &Configuration| match facts::limit(c)? {
        Limit::Bound { bytes, shares: [low, high] } if high <= facts::EXCEEDED => {
            let largest = c.sized().next_back().map_or(bytes, |(size, _)| size);
            Some(Bound {
                low,
                high,
                from: bytes,
                label: c.label.clone(),
                of: facts::memory(run.cache_bytes, c.ranks, largest),
            })
        }
        _ => None,
    };
    operation.configurations.iter().filter_map(of).max_by(|a, b| a.low.total_cmp(&b.low))
}
