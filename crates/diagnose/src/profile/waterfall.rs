//! Why more ranks are less efficient: the loss of scaling, split by cause.

use serde::Serialize;

use super::findings::FindingKind;
use super::overlap::Parts;
use super::straggler::Phase;
use super::{Analysis, Without};

/// What the runs held fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scaling {
    /// The global batch: an ideal step takes `t(n0) n0 / n`.
    Strong,
    /// The batch of a rank: an ideal step takes `t(n0)`.
    Weak,
}

/// A cause of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Bytes move, and nothing overlaps them.
    ExposedTransfer,
    /// Waits for late ranks that no cause below explains.
    ArrivalWait,
    /// Computing the same work takes longer; includes waits for ranks where it does.
    ComputeSlowdown,
    /// Blocked in send and recv.
    Bubble,
    /// Waiting for data, and waits for ranks that do.
    Input,
    /// The step's thread works for nobody, and waits for ranks where it does.
    Host,
}

impl Cause {
    /// Name of the cause in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::ExposedTransfer => "exposed transfer",
            Self::ArrivalWait => "waiting for late ranks",
            Self::ComputeSlowdown => "slower computation",
            Self::Bubble => "pipeline bubble",
            Self::Input => "input",
            Self::Host => "host",
        }
    }
}

/// The loss of scaling of several runs against the one with the fewest ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waterfall {
    /// What the runs held fixed.
    pub scaling: Scaling,
    /// Ranks of the base; None without a run that has steps.
    pub base_ranks: Option<u32>,
    /// Run by run, with more ranks than the base, ascending.
    pub bars: Vec<Bar>,
}

/// The loss at one number of ranks. `loss` is the sum of the terms and `unexplained`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// Ranks.
    pub ranks: u32,
    /// Mean step time t(n).
    pub step_s: f64,
    /// The ideal step time.
    pub ideal_s: f64,
    /// `ideal / t(n)`.
    pub efficiency: f64,
    /// `1 - efficiency`.
    pub loss: f64,
    /// Cause by cause, always all of them.
    pub terms: Vec<Term>,
    /// The loss minus the terms.
    pub unexplained: f64,
    /// All waits for late ranks, in seconds per step, before they are given to their causes.
    pub arrival_wait_s: f64,
}

/// One cause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Term {
    /// The cause.
    pub cause: Cause,
    /// Seconds of the cause per step at n minus its ideal seconds from the base, over t(n).
    pub share: f64,
    /// Seconds of the cause per step at n minus its ideal seconds from the base. Negative: it takes less than ideal.
    pub seconds: f64,
    /// How long a step at n would take without what was found of this cause, by replay.
    pub without: Option<Without>,
}

/// The waterfall of analyses by number of ranks. Each term is `[its mean over ranks per step at n minus k times that at n0] /
/// t(n)`, with k = 1 for weak and n0 / n for strong scaling. Terms are measured apart from each other. Runs without steps are
/// left out.
pub fn waterfall(analyses: &[(u32, Analysis)], scaling: Scaling) -> Waterfall {
    let mut runs: Vec<(u32, &Analysis)> = analyses.iter().map(|(ranks, analysis)| (*ranks, analysis)).collect();
    runs.retain(|(ranks, analysis)| *ranks > 0 && analysis.parts.step_s > 0.0);
    runs.sort_by_key(|(ranks, _)| *ranks);
    let Some((base_ranks, base)) = runs.first().copied() else {
        return Waterfall { scaling, base_ranks: None, bars: Vec::new() };
    };
    let larger = runs.iter().filter(|(ranks, _)| *ranks > base_ranks);
    let bars = larger.map(|(ranks, analysis)| bar([base_ranks, *ranks], &base.parts, analysis, scaling)).collect();
    Waterfall { scaling, base_ranks: Some(base_ranks), bars }
}

fn bar([base_ranks, ranks]: [u32; 2], base: &Parts, analysis: &Analysis, scaling: Scaling) -> Bar {
    let parts = &analysis.parts;
    let ideal = match scaling {
        Scaling::Strong => f64::from(base_ranks) / f64::from(ranks),
        Scaling::Weak => 1.0,
    };
    let term = |((cause, at_n), (_, at_base)): ((Cause, f64), (Cause, f64))| {
        let seconds = at_n - ideal * at_base;
        Term { cause, share: seconds / parts.step_s, seconds, without: without(cause, analysis) }
    };
    let terms: Vec<Term> = by_cause(parts).into_iter().zip(by_cause(base)).map(term).collect();
    let efficiency = ideal * base.step_s / parts.step_s;
    let loss = 1.0 - efficiency;
    Bar {
        ranks,
        step_s: parts.step_s,
        ideal_s: ideal * base.step_s,
        efficiency,
        loss,
        unexplained: loss - terms.iter().map(|term| term.share).sum::<f64>(),
        terms,
        arrival_wait_s: parts.arrival_wait_s,
    }
}

/// How long a step would take without a cause: what a finding of it says.
fn without(cause: Cause, analysis: &Analysis) -> Option<Without> {
    let found = |kind: FindingKind| analysis.findings.iter().find(|finding| finding.kind == kind)?.without;
    // One slow rank explains the waits for it.
    let slow = analysis.straggler.as_ref().map(|slow| match slow.phase {
        Phase::Input => Cause::Input,
        Phase::Host => Cause::Host,
        Phase::Forward | Phase::Backward | Phase::Optimizer | Phase::Device => Cause::ComputeSlowdown,
    });
    match cause {
        Cause::ExposedTransfer => found(FindingKind::ExposedCommunication),
        _ if slow == Some(cause) => analysis.without_slow_ranks,
        Cause::Input => found(FindingKind::InputBound),
        _ => None,
    }
}

/// Seconds per step by cause, with waits given to what the late rank lost.
fn by_cause(parts: &Parts) -> [(Cause, f64); 6] {
    let [compute, input, host] = parts.waits_for_s;
    [
        (Cause::ExposedTransfer, parts.transfer_s),
        (Cause::ArrivalWait, parts.arrival_wait_s - compute - input - host),
        (Cause::ComputeSlowdown, parts.compute_s + compute),
        (Cause::Bubble, parts.bubble_s),
        (Cause::Input, parts.input_s + input),
        (Cause::Host, parts.host_s + host),
    ]
}
