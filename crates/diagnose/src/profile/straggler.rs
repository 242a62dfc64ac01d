//! The verdict on slow ranks: which one, in which phase, and what it costs. `lateness` is the test.

use serde::Serialize;

use super::disturbance::Disturbance;
use super::lanes::CommonSteps;
use super::lateness::{JudgedWork, LateRank, Question, Times, TimesOfPart, against_others, costs, judge};
use super::pauses::{Pauses, Who};
use super::series::{Series, mean};
use super::steps::{RankSteps, Steps};
use super::{MINIMUM_STEPS, Settings};

/// A part of a step in which a rank can lose time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waiting for data.
    Input,
    /// Forward pass.
    Forward,
    /// Backward pass.
    Backward,
    /// Optimizer.
    Optimizer,
    /// The rest of the time of the step's thread.
    Host,
    /// Kernels of the device.
    Device,
}

impl Phase {
    /// Name of the phase in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Host => "host",
            Self::Device => "device",
        }
    }
}

/// How much longer than the others a rank takes in one phase, which shows that it is slow where its whole work varies too much.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PhaseExcess {
    /// The median over steps, as a share of a step.
    pub share: f64,
    /// The 95% interval of the share.
    pub ci95: [f64; 2],
}

/// A rank that makes the others wait.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Straggler {
    /// Which rank.
    pub rank: u32,
    /// Where it ran.
    pub host: Option<String>,
    /// The phase with the largest excess over the median of the other ranks.
    pub phase: Phase,
    /// The phase is the host, and most of the loss comes before the forward pass, in a trace that marks no input. Input that no
    /// DataLoader loads is there.
    pub before_forward: bool,
    /// How much longer it takes in `phase` alone; None where its whole work shows that it is slow.
    pub only_in_phase: Option<PhaseExcess>,
    /// `lost_s_per_step` over the mean step: seconds lost over the seconds of all steps.
    pub share: f64,
    /// The 95% interval of the share, within 0 and 1. It may hold 0 where only the phase shows that the rank is slow.
    pub ci95: [f64; 2],
    /// Persistent: the median over steps of its work minus the median of the others' work. Else: the mean over steps of its
    /// cost as the slowest rank, minus the mean cost of the others.
    pub lost_s_per_step: f64,
    /// Late in most steps; false: late in some, and more than the others.
    pub persistent: bool,
    /// How much longer than the others it waited for a processor, as a share of a step; None where the trace does not say.
    pub descheduled_share: Option<f64>,
    /// The share of all waits in collectives that this rank caused as the last to arrive; None where nothing tells it.
    pub blame: Option<f64>,
    /// The step in which it lost the most.
    pub worst_step: u32,
    /// One minus the level of the test over all ranks.
    pub confidence: f64,
}

/// Ranks are late in turn, and none stands out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rotating {
    /// The ranks that were out of line in some step.
    pub ranks: Vec<u32>,
    /// Steps in which a rank was later than six deviations.
    pub events: usize,
    /// `lost_s_per_step` over the mean step.
    pub share: f64,
    /// What these steps cost: work of the slowest minus that of the next, summed and divided by all steps.
    pub lost_s_per_step: f64,
}

/// A rank that is late because it waits for a processor: the machine is busy, and the rank is not slow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BusyRank {
    /// Which rank.
    pub rank: u32,
    /// Where it ran.
    pub host: Option<String>,
    /// What it loses, as in [`Straggler`].
    pub lost_s_per_step: f64,
    /// What the rank loses, as a share of the time.
    pub share: f64,
    /// How much longer than the others it waited for a processor, as a share of the time.
    pub descheduled_share: f64,
    /// The step in which it lost the most.
    pub worst_step: u32,
}

/// What is said about slow ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StragglerVerdict {
    pub(super) stragglers: Vec<Straggler>,
    /// Late ranks that are off their processors for most of their loss, the most costly first.
    pub(super) busy: Vec<BusyRank>,
    pub(super) rotating: Option<Rotating>,
    pub(super) abstains: Option<String>,
    /// The share of a step that a rank may lose without being named.
    pub(super) unseen_share: Option<f64>,
    /// Ranks that are not judged, because they do other work than the rest.
    pub(super) apart: Vec<u32>,
}

impl StragglerVerdict {
    fn abstaining(reason: String) -> Self {
        Self { abstains: Some(reason), ..Self::default() }
    }
}

/// Ranks that a sentence names.
const NAMED: usize = 12;
/// A rank that waits for a processor in so much of its loss is not slow: the machine is busy.
const MOSTLY: f64 = 0.5;
/// Other programs slow a rank that computes by up to this share of a step, though it hardly waits for its processor: they use its caches
/// and its memory. A rank on its own core took 3% to 6% longer in all steps beside compilers of the lowest priority.
const BY_OTHERS: f64 = 0.1;
/// Where a rank may lose more than this share of a step unseen, "no rank is slow" would mislead.
const LARGEST_UNSEEN: f64 = 0.1;

/// What else is known before ranks are judged.
pub(super) struct Context<'k> {
    /// The share of all waits that each rank caused.
    pub(super) blame: Option<&'k [f64]>,
    pub(super) pauses: Option<&'k Pauses>,
    /// What records more steps.
    pub(super) more: &'k str,
}

/// Judges the ranks that do the same work, or says why it does not.
pub(super) fn verdict(
    prepared: &CommonSteps,
    steps: &Steps,
    context: &Context,
    settings: &Settings,
) -> StragglerVerdict {
    let (apart, rest) = roles(steps);
    if apart.is_empty() {
        return verdict_on_equals(prepared, steps, context, settings);
    }
    let apart: Vec<u32> = apart.into_iter().map(|place| steps.ranks[place].rank).collect();
    if rest.len() < 2 {
        return StragglerVerdict::abstaining(format!(
            "{}: ranks do different work, so none of them can be called slow",
            other_work(&apart)
        ));
    }
    let own = Steps {
        numbers: steps.numbers.clone(),
        warm_up: steps.warm_up,
        step: steps.step.clone(),
        ranks: rest.iter().map(|place| steps.ranks[*place].clone()).collect(),
    };
    let blame: Option<Vec<f64>> = context.blame.map(|shares| rest.iter().map(|place| shares[*place]).collect());
    let context = Context { blame: blame.as_deref(), pauses: context.pauses, more: context.more };
    StragglerVerdict { apart, ..verdict_on_equals(prepared, &own, &context, settings) }
}

/// What ranks that are not judged lack: `rank 0 has no forward and no backward pass, unlike the other ranks`.
pub(super) fn other_work(apart: &[u32]) -> String {
    let named: Vec<String> = apart.iter().take(NAMED).map(u32::to_string).collect();
    let more = apart.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (ranks, have) = if apart.len() == 1 { ("rank", "has") } else { ("ranks", "have") };
    format!("{ranks} {}{more} {have} no forward and no backward pass, unlike the other ranks", named.join(", "))
}

/// Places of ranks that run no model while all others train one, such as a parameter server; and places of these others. A
/// stage of a pipeline may mark no forward pass. It has a backward pass, as all ranks that train have.
fn roles(steps: &Steps) -> (Vec<usize>, Vec<usize>) {
    let has = |series: &Series| series.values.iter().any(|seconds| *seconds > 0.0);
    let runs = |place: &usize| has(&steps.ranks[*place].forward) || has(&steps.ranks[*place].backward);
    let trains = |place: &usize| has(&steps.ranks[*place].backward);
    let (rest, apart): (Vec<usize>, Vec<usize>) = (0..steps.ranks.len()).partition(runs);
    let is_clear = !rest.is_empty() && rest.iter().all(trains);
    if is_clear { (apart, rest) } else { (Vec::new(), (0..steps.ranks.len()).collect()) }
}

/// Judges ranks that do the same work.
fn verdict_on_equals(
    prepared: &CommonSteps,
    steps: &Steps,
    context: &Context,
    settings: &Settings,
) -> StragglerVerdict {
    let abstain = StragglerVerdict::abstaining;
    let count = steps.numbers.len();
    if steps.ranks.len() < 2 {
        return abstain(format!("naming a slow rank needs two ranks to compare, but there is {}", steps.ranks.len()));
    }
    if count < MINIMUM_STEPS {
        return abstain(format!(
            "{count} steps are too few to name a slow rank: at least {MINIMUM_STEPS} are needed ({})",
            context.more
        ));
    }
    if prepared.ranks.iter().any(|lanes| !lanes.shows_waits()) {
        return abstain(
            "the trace does not show when steps wait for communication, so own work is not known".to_owned(),
        );
    }
    let Some(step_s) = steps.step.median.filter(|step| *step > 0.0) else {
        return abstain("steps have no duration".to_owned());
    };
    let minimum_s = Minimum::new(settings, step_s);
    let phases = if is_pipeline(prepared, settings) { Vec::new() } else { phases(steps) };
    let times = Times {
        works: steps.ranks.iter().map(RankSteps::work).collect(),
        parts: phases.iter().map(|phase| part(*phase, steps, minimum_s)).collect(),
    };
    let question = Question { minimum_s: minimum_s.computing, level: settings.level };
    let mut judged = judged(&times, question, steps, context.pauses);
    // Ranks that are late in turn because they wait for a processor are so by the machine.
    if let Some(moving) = &judged.moving {
        let works = steps.ranks.iter().map(RankSteps::on_processor).collect();
        let running = judge(&Times { works, parts: Vec::new() }, question).moving;
        if running.is_none_or(|running| running.lost_s < MOSTLY * moving.lost_s) {
            judged.moving = None;
        }
    }
    if judged.late.is_empty() && !judged.enough {
        return abstain(format!(
            "{count} steps are too few, or too correlated, to name a slow rank at a level of {}: record more steps ({})",
            settings.level, context.more
        ));
    }
    if judged.late.is_empty() && judged.moving.is_none() && prepared.ranks.iter().all(|lanes| lanes.comm.is_empty()) {
        return abstain(
            "the trace shows no communication: if ranks wait for each other, a slow one makes all steps equally long"
                .to_owned(),
        );
    }
    if let Some(why) = hidden(&judged, steps, context, step_s) {
        return abstain(why);
    }
    let verdict = judge_ranks(&judged, (&times.works, &phases), steps, context.blame);
    // What a rank loses in pauses is more than what it loses in the other steps.
    let pauses_alone = context.pauses.is_some_and(|pauses| matches!(pauses.who, Who::Rank(_)));
    StragglerVerdict { unseen_share: verdict.unseen_share.filter(|_| !pauses_alone), ..verdict }
}

/// The least loss that names a rank, in seconds a step.
#[derive(Clone, Copy)]
struct Minimum {
    waiting: f64,
    computing: f64,
    /// What is worth a finding.
    finding: f64,
}

impl Minimum {
    fn new(settings: &Settings, step_s: f64) -> Self {
        let waiting = settings.minimum_share * step_s;
        let is_disturbed = settings.disturbance.as_ref().is_some_and(Disturbance::is_felt);
        let computing = if is_disturbed { waiting.max(BY_OTHERS * step_s) } else { waiting };
        Self { waiting, computing, finding: settings.least_finding * step_s }
    }
}

/// Judges all steps. Where no rank is late, pauses would hide what the other steps show. Which steps are pauses does not depend on
/// the order of ranks, so equal ranks are as likely to be late in the rest.
fn judged(times: &Times, question: Question, steps: &Steps, pauses: Option<&Pauses>) -> JudgedWork {
    let judged = judge(times, question);
    let Some(pauses) = pauses.filter(|_| judged.late.is_empty()) else { return judged };
    let is_kept = |step: &usize| !pauses.steps.contains(&steps.numbers[*step]);
    let kept: Vec<usize> = (0..steps.numbers.len()).filter(is_kept).collect();
    if kept.len() < MINIMUM_STEPS {
        return judged;
    }
    let rest = judge(&times.only(&kept), question);
    match pauses.who {
        // These are what makes ranks late in turn.
        Who::InTurn if rest.late.is_empty() && judged.moving.is_some() => judged,
        _ => rest,
    }
}

/// Why nobody can be cleared either: a rank may lose much, and the noise hides it.
fn hidden(judged: &JudgedWork, steps: &Steps, context: &Context, step_s: f64) -> Option<String> {
    let unseen = judged.unseen.filter(|_| judged.moving.is_none())?;
    let share = unseen.at_most_s / step_s;
    (share > LARGEST_UNSEEN).then(|| {
        format!(
            "whether a rank is slow cannot be told from {} steps, because they vary too much: rank {} may lose up to \
             {:.0}% of a step unseen. Record more steps ({}), or use a quieter machine",
            steps.numbers.len(),
            steps.ranks[unseen.rank].rank,
            100.0 * share,
            context.more
        )
    })
}

fn judge_ranks(
    judged: &JudgedWork,
    (works, phases): (&[Vec<f64>], &[Phase]),
    steps: &Steps,
    blame: Option<&[f64]>,
) -> StragglerVerdict {
    let costs = costs(works);
    let waited = judged.late.iter().map(|late| (late, descheduled(late, steps, &costs[late.rank]).unwrap_or(0.0)));
    let busy: Vec<(&LateRank, f64)> = waited.filter(|(late, waited)| *waited >= MOSTLY * late.lost_s).collect();
    let worst = |late: &LateRank| {
        let lost = &costs[late.rank];
        steps.numbers[(0..lost.len()).max_by(|a, b| lost[*a].total_cmp(&lost[*b])).unwrap_or(0)]
    };
    let busy_rank = |(late, waited): &(&LateRank, f64)| BusyRank {
        rank: steps.ranks[late.rank].rank,
        host: steps.ranks[late.rank].host.clone(),
        lost_s_per_step: late.lost_s,
        share: steps.share(late.lost_s),
        descheduled_share: steps.share(*waited),
        worst_step: worst(late),
    };
    let straggler = |late: &LateRank| {
        let own = &steps.ranks[late.rank];
        let lost = &costs[late.rank];
        let waited = descheduled(late, steps, lost);
        let late_in = late.late_in.as_ref();
        let phase = late_in.map_or_else(|| phase_of(late, steps, lost), |late_in| phases[late_in.part]);
        let works = phase == Phase::Host;
        Straggler {
            rank: own.rank,
            host: own.host.clone(),
            phase,
            before_forward: works && is_before_forward(late, steps, lost),
            descheduled_share: waited.map(|waited| steps.share(waited)),
            only_in_phase: late_in.map(|late_in| PhaseExcess {
                share: steps.share(late_in.excess_s),
                ci95: late_in.ci95.map(|bound| steps.share(bound)),
            }),
            share: steps.share(late.lost_s),
            ci95: late.ci95.map(|bound| steps.share(bound)),
            lost_s_per_step: late.lost_s,
            persistent: late.persistent,
            blame: blame.map(|shares| shares[late.rank]),
            worst_step: worst(late),
            confidence: late.confidence,
        }
    };
    let rotating = judged.moving.as_ref().map(|moving| Rotating {
        ranks: moving.ranks.iter().map(|rank| steps.ranks[*rank].rank).collect(),
        events: moving.events,
        share: steps.share(moving.lost_s),
        lost_s_per_step: moving.lost_s,
    });
    let is_busy = |late: &&LateRank| busy.iter().any(|(busy, _)| busy.rank == late.rank);
    StragglerVerdict {
        stragglers: judged.late.iter().filter(|late| !is_busy(late)).map(straggler).collect(),
        busy: busy.iter().map(busy_rank).collect(),
        rotating,
        unseen_share: judged.unseen.map(|unseen| steps.share(unseen.at_most_s)),
        ..StragglerVerdict::default()
    }
}

/// What a late rank has more of than the other ranks' median, in seconds: the median over steps of a persistent straggler; the
/// mean over the steps in which it cost time of another.
fn excess(late: &LateRank, steps: &Steps, costs: &[f64], of: &dyn Fn(&RankSteps) -> Vec<f64>) -> f64 {
    let values: Vec<Vec<f64>> = steps.ranks.iter().map(of).collect();
    let own = against_others(&values).swap_remove(late.rank);
    if late.persistent {
        return stats::median(&own);
    }
    let weighted = own.iter().zip(costs).filter(|(_, cost)| **cost > 0.0).map(|(own, _)| *own);
    mean(&weighted.collect::<Vec<f64>>())
}

/// How much longer than the others it waited for a processor, in seconds a step.
fn descheduled(late: &LateRank, steps: &Steps, costs: &[f64]) -> Option<f64> {
    let known = steps.ranks.iter().all(|rank| rank.descheduled.is_some());
    let values = |rank: &RankSteps| rank.descheduled.as_ref().map_or(Vec::new(), |series| series.values.clone());
    known.then(|| excess(late, steps, costs, &values))
}

/// Whether half of the loss and more comes before the forward pass, where the trace marks no input.
fn is_before_forward(late: &LateRank, steps: &Steps, costs: &[f64]) -> bool {
    let marks_input = steps.ranks.iter().any(|rank| rank.input.values.iter().any(|input| *input > 0.0));
    !marks_input && excess(late, steps, costs, &|rank| rank.before_forward.values.clone()) >= 0.5 * late.lost_s
}

/// The phase with the largest excess. The device comes first if it explains half of the loss, because the step's thread waits
/// for it in any phase.
fn phase_of(late: &LateRank, steps: &Steps, costs: &[f64]) -> Phase {
    let excess = |phase: Phase| excess(late, steps, costs, &|rank| series(phase, rank).values);
    if has_device(steps) && excess(Phase::Device) >= 0.5 * late.lost_s {
        return Phase::Device;
    }
    HOST_PHASES.into_iter().max_by(|a, b| excess(*a).total_cmp(&excess(*b))).unwrap_or(Phase::Host)
}

/// The phases of a step's thread, which add up to its work where no kernel runs.
const HOST_PHASES: [Phase; 5] = [Phase::Input, Phase::Forward, Phase::Backward, Phase::Optimizer, Phase::Host];

fn has_device(steps: &Steps) -> bool {
    steps.ranks.iter().all(|rank| rank.device.is_some())
}

/// Phases that equal ranks take equally long for, and that somebody spends time in. The thread of a device launches its work
/// ahead, so that it may be late in a phase and its device not.
fn phases(steps: &Steps) -> Vec<Phase> {
    let all = if has_device(steps) { &[Phase::Device][..] } else { &HOST_PHASES };
    let is_spent = |phase: &&Phase| steps.ranks.iter().any(|rank| series(**phase, rank).mean() > 0.0);
    all.iter().filter(is_spent).copied().collect()
}

/// Whether ranks hold different layers, so that their phases are not of equal length.
fn is_pipeline(prepared: &CommonSteps, settings: &Settings) -> bool {
    settings.pipeline.is_some() || prepared.ranks.iter().any(|lanes| !lanes.point_to_point.is_empty())
}

/// The seconds of a phase in each step of a rank; none of a device that it does not have.
fn series(phase: Phase, rank: &RankSteps) -> Series {
    match phase {
        Phase::Input => rank.input.clone(),
        Phase::Forward => rank.forward.clone(),
        Phase::Backward => rank.backward.clone(),
        Phase::Optimizer => rank.optimizer.clone(),
        Phase::Host => rank.other.clone(),
        Phase::Device => rank.device.clone().unwrap_or_default(),
    }
}

fn part(phase: Phase, steps: &Steps, minimum_s: Minimum) -> TimesOfPart {
    TimesOfPart {
        times: steps.ranks.iter().map(|rank| series(phase, rank).values).collect(),
        // What waits for data computes nothing, and a device computes for itself.
        minimum_s: if matches!(phase, Phase::Input | Phase::Device) { minimum_s.waiting } else { minimum_s.computing },
        least_lost_s: minimum_s.finding,
    }
}
