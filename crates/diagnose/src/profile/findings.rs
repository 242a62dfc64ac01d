//! What an analysis advises, ordered by the seconds per step that it would save.

mod machine;
mod traffic;

use serde::Serialize;
use terms::number::percent;

use super::Analysis;
use super::disturbance::Disturbance;
use super::lanes::CommonSteps;
use super::replay::Replayer;
use super::series::{Series, confidence_above};
use super::slow_exchange::SlowExchange;
use super::step_without::Without;
use super::steps::RankSteps;
use super::straggler::{Phase, Straggler};
use super::without;

/// What is advised about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// One rank makes the others wait.
    Straggler,
    /// Ranks wait for a processor.
    BusyMachine,
    /// Ranks are late in turn.
    RotatingDelays,
    /// Ranks wait for each other, and no rank causes it.
    Waits,
    /// Some steps take much longer than the others.
    Pauses,
    /// Steps wait for data.
    InputBound,
    /// Computation does not hide communication.
    ExposedCommunication,
    /// The device waits for launches.
    HostBoundDevice,
    /// Pipeline stages wait for each other.
    PipelineBubble,
    /// Many small messages pay the cost of a call.
    SmallMessages,
    /// One communicator moves its bytes slower than the others that send the same.
    SlowExchange,
}

/// Where to look in the trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evidence {
    /// Which rank, if one.
    pub rank: Option<u32>,
    /// The step in which it is largest.
    pub step: Option<u32>,
    /// What to look at: a phase, an operation, a queue.
    pub span: String,
    /// Beginning of that step on that rank, in seconds of the trace's clock.
    pub begin_s: Option<f64>,
    /// End of that step on that rank, in seconds of the trace's clock.
    pub end_s: Option<f64>,
}

/// How sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Confidence {
    /// `high` from 0.95, `medium` from 0.8, else `low`.
    pub word: &'static str,
    /// The highest of 0.99, 0.95, 0.9 and 0.8 at which the cost is above the minimum share; 0.5 where only the estimate is. For
    /// a straggler one minus the level over all ranks, and 0.5 if the waits in collectives point to other ranks.
    pub value: f64,
}

/// From here on a confidence is `medium`.
const MEDIUM: f64 = 0.8;

impl Confidence {
    fn new(value: f64) -> Self {
        let word = if value >= 0.95 {
            "high"
        } else if value >= MEDIUM {
            "medium"
        } else {
            "low"
        };
        Self { word, value }
    }

    /// The next lower word.
    pub(super) fn lowered(self) -> Self {
        Self::new(if self.word == "high" { MEDIUM } else { self.value.min(0.5) })
    }
}

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProfileFinding {
    /// What about.
    pub kind: FindingKind,
    /// What was found, in a sentence.
    pub what: String,
    /// What a step would save at most.
    pub saves_s_per_step: f64,
    /// What a step would save at most, as a share of the mean step.
    pub share: f64,
    /// Where it shows.
    pub evidence: Evidence,
    /// How sure it is.
    pub confidence: Confidence,
    /// What to do: the option, the variable or the place in the code.
    pub advice: String,
    /// How long a step would take without what was found, by replay; None where nothing tells it.
    pub without: Option<Without>,
}

/// What findings are made from besides the analysis itself.
pub(super) struct Sources<'a> {
    pub(super) prepared: &'a CommonSteps<'a>,
    pub(super) analysis: &'a Analysis,
    /// Exposed transfer of each step, mean over ranks.
    pub(super) transfer: &'a Series,
    /// Exposed waits for other ranks of each step, mean over ranks.
    pub(super) waiting: &'a Series,
    pub(super) minimum_share: f64,
    pub(super) least_finding: f64,
    /// What answers how long a step would take without a finding.
    pub(super) replayer: Option<&'a Replayer<'a>>,
    /// Communicators that are slower than the others.
    pub(super) slow_exchanges: &'a [SlowExchange],
}

/// All findings above the minimum share that are large enough for advice, that with the largest credible loss first.
pub(super) fn findings(sources: &Sources) -> Vec<ProfileFinding> {
    if sources.analysis.steps.numbers.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<ProfileFinding> = sources.analysis.stragglers.iter().map(|one| sources.straggler(one)).collect();
    found.extend(sources.busy());
    found.extend(sources.rotating());
    found.extend(sources.waits());
    found.extend(sources.pauses());
    found.extend(sources.input());
    found.extend(sources.exposed());
    found.extend(sources.host_bound());
    found.extend(sources.bubble());
    found.extend(sources.analysis.collectives.communicators.iter().filter_map(|of| sources.small_messages(of)));
    found.extend(sources.slow_exchanges.iter().filter_map(|slow| sources.slow_exchange(slow)));
    found.retain(|finding| finding.share >= sources.least_finding);
    lower(&mut found, sources.analysis.disturbance.as_ref());
    order(&mut found);
    found
}

/// Lowers the confidence by one word, but for what says that the machine is busy: others may be the cause of all else.
fn lower(found: &mut [ProfileFinding], disturbance: Option<&Disturbance>) {
    if disturbance.is_some_and(Disturbance::is_felt) {
        let others = found.iter_mut().filter(|finding| finding.kind != FindingKind::BusyMachine);
        others.for_each(|finding| finding.confidence = finding.confidence.lowered());
    }
}

fn order(found: &mut [ProfileFinding]) {
    let saves = |one: &ProfileFinding| [one.credible_s(), one.saves_s_per_step];
    found.sort_by(|a, b| saves(b).partial_cmp(&saves(a)).unwrap_or(std::cmp::Ordering::Equal));
}

impl ProfileFinding {
    /// Seconds of a step that are lost, times the confidence. Where only an estimate says that there is a loss, none is credible:
    /// on a disturbed machine a few long steps would stand above what every step shows.
    fn credible_s(&self) -> f64 {
        if self.confidence.value < MEDIUM { 0.0 } else { self.saves_s_per_step * self.confidence.value }
    }
}

/// The place of the largest value.
fn largest(values: &[f64]) -> Option<usize> {
    (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b]))
}

impl Sources<'_> {
    fn step_s(&self) -> f64 {
        self.analysis.steps.mean_s()
    }

    fn share(&self, seconds_per_step: f64) -> f64 {
        self.analysis.steps.share(seconds_per_step)
    }

    fn evidence(&self, rank: Option<u32>, place: Option<usize>, span: &str) -> Evidence {
        let lanes = rank.and_then(|rank| self.prepared.ranks.iter().find(|lanes| lanes.timeline.rank == rank));
        let window = lanes.zip(place).and_then(|(lanes, place)| lanes.windows.get(place));
        Evidence {
            rank,
            step: place.and_then(|place| self.prepared.numbers.get(place).copied()),
            span: span.to_owned(),
            begin_s: window.map(|[begin, _]| *begin as f64 * 1e-9),
            end_s: window.map(|[_, end]| *end as f64 * 1e-9),
        }
    }

    /// A finding on a quantity of each step, if its mean is above the minimum share: of what happens in every fifth step, the
    /// median is 0.
    fn measured(&self, kind: FindingKind, cost: &[f64], saves: f64, evidence: Evidence) -> Option<ProfileFinding> {
        let value = confidence_above(cost, self.minimum_share * self.step_s())?;
        let confidence = Confidence::new(value);
        let share = self.share(saves);
        let (what, advice, without) = (String::new(), String::new(), None);
        Some(ProfileFinding { kind, what, saves_s_per_step: saves, share, evidence, confidence, advice, without })
    }

    fn straggler(&self, straggler: &Straggler) -> ProfileFinding {
        let Straggler { rank, phase, share, lost_s_per_step, .. } = straggler;
        let without =
            self.replayer.and_then(|replayer| without::slow_ranks(replayer, &[straggler], &self.analysis.stragglers));
        let place = self.prepared.numbers.iter().position(|number| *number == straggler.worst_step);
        let equal = 1.0 / self.prepared.ranks.len() as f64;
        // Of several, only the slowest is the last to arrive.
        let first = self.analysis.straggler.as_ref() == Some(straggler);
        let blamed_elsewhere = first && straggler.blame.is_some_and(|blame| blame < equal);
        let value = if blamed_elsewhere { 0.5 } else { straggler.confidence };
        let alone = without.filter(|_| self.analysis.stragglers.len() == 1);
        let when = if straggler.persistent { "in most steps" } else { "in some steps" };
        let host = straggler.host.as_ref().map_or(String::new(), |host| format!(" on host {host}"));
        // The replay knows what else the others would wait for, such as another slow rank, which may be gone as well.
        let saves = alone.map_or(*lost_s_per_step, |without| without.mean_saves_s.min(*lost_s_per_step));
        ProfileFinding {
            kind: FindingKind::Straggler,
            what: format!(
                "Rank {rank}{host} is slower than the others {when}. {}{}",
                loss(straggler),
                without.map_or_else(String::new, |without| format!(" Without it {without}."))
            ),
            saves_s_per_step: saves,
            share: self.share(saves).min(*share),
            evidence: self.evidence(Some(*rank), place, phase.name()),
            confidence: Confidence::new(value),
            advice: advice_for(*phase, *rank, straggler.before_forward),
            without,
        }
    }

    /// What to do, for our own ranks and for PyTorch's.
    fn advice(&self, ours: &str, pytorch: &str) -> String {
        let is_ours = self.analysis.source == trace::timeline::SOURCE;
        if is_ours { ours } else { pytorch }.to_owned()
    }

    fn rotating(&self) -> Option<ProfileFinding> {
        let rotating = self.analysis.rotating.as_ref()?;
        Some(ProfileFinding {
            kind: FindingKind::RotatingDelays,
            what: format!(
                "Different ranks are late in different steps, {} times on {} ranks. That costs {} of the time.",
                rotating.events,
                rotating.ranks.len(),
                percent(rotating.share)
            ),
            saves_s_per_step: rotating.lost_s_per_step,
            share: rotating.share,
            evidence: self.evidence(None, None, "step"),
            confidence: Confidence::new(0.5),
            advice: "Look for what interrupts single steps: garbage collection (`gc.disable()` and `gc.collect()` every few \
                     hundred steps), checkpoints, logging, other jobs on the host, inputs of very different length."
                .to_owned(),
            without: None,
        })
    }

    fn input(&self) -> Option<ProfileFinding> {
        let ranks = &self.analysis.steps.ranks;
        let cost = Series::mean_of(ranks.iter().map(RankSteps::lost_to_input));
        let most = ranks.iter().max_by(|a, b| a.lost_to_input().mean().total_cmp(&b.lost_to_input().mean()))?;
        let evidence = self.evidence(Some(most.rank), largest(&most.lost_to_input().values), "input");
        let finding = self.measured(FindingKind::InputBound, &cost.values, cost.mean(), evidence)?;
        let without = self.replayer.and_then(without::input);
        Some(ProfileFinding {
            what: format!(
                "Steps wait for data for {} of their time.{}",
                percent(finding.share),
                without.map_or_else(String::new, |without| format!(" Without these waits {without}."))
            ),
            without,
            advice: self.advice(
                "Put the file of `--data-mmap` on faster storage, or leave it out: synthetic data takes no time.",
                "Load ahead: `DataLoader(num_workers=..., prefetch_factor=..., persistent_workers=True, \
                     pin_memory=True)`; decode and augment in the workers; store inputs ready to use.",
            ),
            ..finding
        })
    }

    /// The device waits for the host: for launches, or for what the step's thread does outside of the phases.
    fn host_bound(&self) -> Option<ProfileFinding> {
        let idle = self.analysis.idle.as_ref()?;
        let both = idle.host_bound_s.values.iter().zip(&idle.other_s.values);
        let cost = &Series::new(both.map(|(launches, other)| launches + other).collect());
        let evidence = self.evidence(idle.ranks.first().copied(), largest(&cost.values), "device queue");
        let finding = self.measured(FindingKind::HostBoundDevice, &cost.values, cost.mean(), evidence)?;
        Some(ProfileFinding {
            what: format!(
                "The device has no kernel and no copy for {} of the time, because the host does not launch work in time.",
                percent(finding.share)
            ),
            advice:
                "Launch less and earlier: `torch.compile(mode=\"reduce-overhead\")` or CUDA graphs, a fused optimizer \
                     (`fused=True`), no `.item()` or `.cpu()` inside the step."
                    .to_owned(),
            ..finding
        })
    }

    fn bubble(&self) -> Option<ProfileFinding> {
        let bubble = self.analysis.bubble.as_ref()?;
        let cost = &bubble.measured_s;
        let evidence = self.evidence(None, largest(&cost.values), "send and recv");
        let finding = self.measured(FindingKind::PipelineBubble, &cost.values, cost.mean(), evidence)?;
        let share = percent(finding.share);
        // Any job may send and receive. That it is a pipeline is known where its schedule is.
        let (what, advice) = match bubble.theory_share {
            Some(theory) => (
                format!(
                    "Pipeline stages wait in send and recv for {share} of a step. The schedule predicts {} of a step.",
                    percent(theory)
                ),
                format!("Use {IN_A_PIPELINE}"),
            ),
            None => (
                format!("Ranks wait in send and recv for {share} of a step."),
                format!("In a pipeline: use {IN_A_PIPELINE} {ELSEWHERE}"),
            ),
        };
        Some(ProfileFinding { what, advice, ..finding })
    }
}

/// What shortens waits of the stages of a pipeline.
const IN_A_PIPELINE: &str =
    "more micro-batches per step, an interleaved schedule, or fewer stages; balance the layers of the stages.";
/// What shortens waits in transfers of other jobs.
const ELSEWHERE: &str = "In other jobs: look at what ranks do before they send what others wait for.";

/// What a slow rank loses, and in which phase.
fn loss(straggler: &Straggler) -> String {
    let (share, phase) = (percent(straggler.share), straggler.phase.name());
    match straggler.only_in_phase {
        None => format!("It loses {share} of a step in {phase}."),
        Some(excess) => format!(
            "It takes {} of a step longer in {phase}. Its whole work takes {share} longer, which varies too much to be certain.",
            percent(excess.share)
        ),
    }
}

fn advice_for(phase: Phase, rank: u32, before_forward: bool) -> String {
    let what = match phase {
        Phase::Input => {
            "compare its data shard and storage with the other ranks': file sizes, local cache, loader workers"
        }
        Phase::Forward | Phase::Backward => {
            "compare its cores, clock and other tenants with the other ranks' (`lscpu`, `nvidia-smi -q -d CLOCK,PERFORMANCE`), and \
             the length of its inputs"
        }
        Phase::Optimizer => "compare the number of parameters that it updates, and its memory bandwidth",
        Phase::Host if before_forward => {
            "look at what it does before the forward pass: input that it loads itself (a DataLoader with workers loads it \
             meanwhile), logging, a busy core"
        }
        Phase::Host => "look for work that only it does: logging, checkpoints, evaluation, a busy core",
        Phase::Device => {
            "compare its device's clock and temperature (`nvidia-smi -q -d CLOCK,TEMPERATURE`), and its kernels"
        }
    };
    format!("On rank {rank}, {what}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(kind: FindingKind, saves_s_per_step: f64, confidence: f64) -> ProfileFinding {
        let evidence = Evidence { rank: None, step: None, span: String::new(), begin_s: None, end_s: None };
        let confidence = Confidence::new(confidence);
        let (what, advice) = (String::new(), String::new());
        ProfileFinding { kind, what, saves_s_per_step, share: 0.0, evidence, confidence, advice, without: None }
    }

    #[test]
    fn the_largest_credible_loss_comes_first() {
        let mut found = vec![
            finding(FindingKind::ExposedCommunication, 0.052, 0.5),
            finding(FindingKind::Pauses, 0.004, 0.99),
            finding(FindingKind::Straggler, 0.02, 0.99),
            finding(FindingKind::InputBound, 0.021, 0.8),
            finding(FindingKind::PipelineBubble, 0.06, 0.5),
        ];
        order(&mut found);
        let kinds: Vec<FindingKind> = found.iter().map(|one| one.kind).collect();
        assert_eq!(kinds[..3], [FindingKind::Straggler, FindingKind::InputBound, FindingKind::Pauses]);
        assert_eq!(kinds[3..], [FindingKind::PipelineBubble, FindingKind::ExposedCommunication]);
    }
}
