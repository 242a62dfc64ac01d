//! What an analysis advises, ordered by the seconds per step that it would save.

use serde::Serialize;
use terms::{Bytes, Seconds};

use super::Analysis;
use super::collectives::{Communicator, OperationTotals};
use super::lanes::{Prepared, is_point_to_point};
use super::pauses::{Pauses, Who, lowest_rate};
use super::replay::Replayer;
use super::series::{Series, confidence_above};
use super::slow_exchange::SlowExchange;
use super::step_without::Without;
use super::steps::RankSteps;
use super::straggler::{Phase, Straggler};
use super::without;

/// Messages up to this are small: their time is mostly the cost of a call.
const SMALL_MESSAGE: u64 = 64 * 1024;
/// Fewer small messages per step are not worth merging.
const MANY_MESSAGES: f64 = 8.0;
/// Waits for a processor that take less of the time are those of any machine.
const SMALLEST_BUSY: f64 = 0.02;

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
    /// Its end.
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

impl Confidence {
    fn new(value: f64) -> Self {
        let word = if value >= 0.95 {
            "high"
        } else if value >= 0.8 {
            "medium"
        } else {
            "low"
        };
        Self { word, value }
    }
}

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What about.
    pub kind: FindingKind,
    /// What was found, in a sentence.
    pub what: String,
    /// What a step would save at most.
    pub saves_s_per_step: f64,
    /// The same as a share of the mean step.
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

/// What kind of communication costs most, for advice on it.
enum Traffic {
    /// Transfers between two ranks.
    Pairs,
    /// Collectives of so few bytes a call.
    Small(u64),
    /// All-gather and reduce-scatter of parameters and gradients.
    Shards,
    /// All-to-all.
    Experts,
    /// All-reduce of gradients.
    Gradients,
    /// Another, or none that is known.
    Unknown,
}

/// What findings are made from besides the analysis itself.
pub(super) struct Sources<'a> {
    pub(super) prepared: &'a Prepared<'a>,
    pub(super) analysis: &'a Analysis,
    /// Exposed transfer of each step, mean over ranks.
    pub(super) transfer: &'a Series,
    /// Exposed waits for other ranks of each step, mean over ranks.
    pub(super) waiting: &'a Series,
    pub(super) minimum_share: f64,
    /// What answers how long a step would take without a finding.
    pub(super) replayer: Option<&'a Replayer<'a>>,
    /// Communicators that are slower than the others.
    pub(super) slow_exchanges: &'a [SlowExchange],
}

/// All findings above the minimum share, the one that saves most first.
pub(super) fn findings(sources: &Sources) -> Vec<Finding> {
    if sources.analysis.steps.numbers.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<Finding> = sources.analysis.stragglers.iter().map(|one| sources.straggler(one)).collect();
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
    found.sort_by(|a, b| b.saves_s_per_step.total_cmp(&a.saves_s_per_step));
    found
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
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
    fn measured(&self, kind: FindingKind, cost: &[f64], saves: f64, evidence: Evidence) -> Option<Finding> {
        let value = confidence_above(cost, self.minimum_share * self.step_s())?;
        let confidence = Confidence::new(value);
        let share = self.share(saves);
        let (what, advice, without) = (String::new(), String::new(), None);
        Some(Finding { kind, what, saves_s_per_step: saves, share, evidence, confidence, advice, without })
    }

    fn straggler(&self, straggler: &Straggler) -> Finding {
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
        Finding {
            kind: FindingKind::Straggler,
            what: format!(
                "Rank {rank}{host} is slower than the others {when}. {}{}",
                loss(straggler),
                without.map_or_else(String::new, |without| format!(" Without it {without}."))
            ),
            // The replay knows what else the others would wait for, such as another slow rank, which may be gone as well.
            saves_s_per_step: alone.map_or(*lost_s_per_step, |without| without.saves_s.min(*lost_s_per_step)),
            share: alone.map_or(*share, |without| without.share.min(*share)),
            evidence: self.evidence(Some(*rank), place, phase.name()),
            confidence: Confidence::new(value),
            advice: advice_for(*phase, *rank),
            without,
        }
    }

    /// Ranks wait for a processor: one of them more than the others, or all of them.
    fn busy(&self) -> Option<Finding> {
        let waited: Option<Vec<&Series>> =
            self.analysis.steps.ranks.iter().map(|rank| rank.descheduled.as_ref()).collect();
        let waited = waited.filter(|ranks| !ranks.is_empty())?;
        let cost = Series::mean_of(waited.iter().copied());
        let first = self.analysis.busy.first();
        let place = |number: u32| self.prepared.numbers.iter().position(|own| *own == number);
        let most = waited.iter().zip(&self.analysis.steps.ranks).max_by(|a, b| a.0.mean().total_cmp(&b.0.mean()))?;
        let evidence = match first {
            Some(busy) => self.evidence(Some(busy.rank), place(busy.worst_step), "waiting for a processor"),
            None => self.evidence(Some(most.1.rank), largest(&most.0.values), "waiting for a processor"),
        };
        let share = self.share(cost.mean());
        let what = match first {
            Some(busy) => format!(
                "The machine is busy: rank {} can run and waits for a processor for {} of the time longer than the others, which \
                 costs {} of the time.",
                busy.rank,
                percent(busy.descheduled_share),
                percent(busy.share)
            ),
            None if share < SMALLEST_BUSY => return None,
            None => format!(
                "The machine is busy: ranks can run and wait for a processor for {} of the time, rank {} for {}.",
                percent(share),
                most.1.rank,
                percent(self.share(most.0.mean()))
            ),
        };
        let (saves, share, confidence) = match first {
            Some(busy) => (busy.lost_s_per_step, busy.share, 0.95),
            None => (cost.mean(), share, confidence_above(&cost.values, self.minimum_share * self.step_s())?),
        };
        Some(Finding {
            kind: FindingKind::BusyMachine,
            what,
            saves_s_per_step: saves,
            share,
            advice: busy_advice(first.map_or(most.1.rank, |busy| busy.rank)),
            evidence,
            confidence: Confidence::new(confidence),
            without: None,
        })
    }

    /// Waits that no slow rank, no delays in turn and no pause explain.
    fn waits(&self) -> Option<Finding> {
        let analysis = self.analysis;
        if !(analysis.stragglers.is_empty() && analysis.busy.is_empty()) || analysis.rotating.is_some() {
            return None;
        }
        let explained = analysis.pauses.as_ref().map_or(0.0, |pauses| pauses.lost_s_per_step);
        let saves = self.waiting.mean() - explained;
        if self.share(saves) <= self.minimum_share || saves <= 0.0 {
            return None;
        }
        let evidence = self.evidence(None, largest(&self.waiting.values), "wait");
        let finding = self.measured(FindingKind::Waits, &self.waiting.values, saves, evidence)?;
        let tell = match &analysis.straggler_abstains {
            Some(_) => format!(" More steps tell whether a rank is slow: {}.", self.more_steps()),
            None => String::new(),
        };
        Some(Finding {
            what: format!(
                "Ranks wait for each other for {} of the time, and no rank is known to cause it.{tell}",
                percent(finding.share)
            ),
            advice: "Look at the matrix of waits for who waits for whom. Steps that vary from rank to rank cause such waits: inputs \
                     of different length, checkpoints and logging on single ranks, other programs on the host."
                .to_owned(),
            ..finding
        })
    }

    /// The option for four times as many steps as were traced.
    fn more_steps(&self) -> String {
        let (first, count) = (self.prepared.numbers.first().copied().unwrap_or(10), self.prepared.numbers.len() as u32);
        let first = self.prepared.warm_up.unwrap_or(first);
        format!("`--steps {first}:{}`", first + (4 * count).max(200))
    }

    /// What to do, for our own ranks and for PyTorch's.
    fn advice(&self, ours: &str, pytorch: &str) -> String {
        let is_ours = self.analysis.source == trace::timeline::SOURCE;
        if is_ours { ours } else { pytorch }.to_owned()
    }

    fn rotating(&self) -> Option<Finding> {
        let rotating = self.analysis.rotating.as_ref()?;
        Some(Finding {
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

    /// Pauses that no verdict on ranks explains.
    fn pauses(&self) -> Option<Finding> {
        let pauses = self.analysis.pauses.as_ref()?;
        let is_named = |rank: u32| self.analysis.stragglers.iter().any(|one| one.rank == rank && !one.persistent);
        let in_turn = self.analysis.rotating.as_ref().is_some_and(|rotating| rotating.share >= 0.5 * pauses.share);
        let rank = if let Who::Rank(rank) = pauses.who { Some(rank) } else { None };
        if in_turn || rank.is_some_and(is_named) {
            return None;
        }
        let of_pauses = |place: &usize| pauses.steps.contains(&self.prepared.numbers[*place]);
        let times = &self.analysis.steps.step.values;
        let longest = (0..times.len()).filter(of_pauses).max_by(|a, b| times[*a].total_cmp(&times[*b]));
        let shows = |level: &f64| lowest_rate(pauses.steps.len(), *level) * pauses.share > self.minimum_share;
        let value = [0.99, 0.95, 0.9, 0.8].into_iter().find(shows).unwrap_or(0.5);
        Some(Finding {
            kind: FindingKind::Pauses,
            what: pauses_text(pauses, self.prepared.numbers.len()),
            saves_s_per_step: pauses.lost_s_per_step,
            share: pauses.share,
            evidence: self.evidence(rank, longest, "step"),
            confidence: Confidence::new(value),
            advice: "Look for what runs in these steps only: saving a checkpoint (save it in the background, \
                     `torch.distributed.checkpoint.async_save`), evaluation, logging, garbage collection (`gc.disable()` and \
                     `gc.collect()` on all ranks in the same step)."
                .to_owned(),
            without: None,
        })
    }

    fn input(&self) -> Option<Finding> {
        let ranks = &self.analysis.steps.ranks;
        let cost = Series::mean_of(ranks.iter().map(RankSteps::lost_to_input));
        let most = ranks.iter().max_by(|a, b| a.lost_to_input().mean().total_cmp(&b.lost_to_input().mean()))?;
        let evidence = self.evidence(Some(most.rank), largest(&most.lost_to_input().values), "input");
        let finding = self.measured(FindingKind::InputBound, &cost.values, cost.mean(), evidence)?;
        let without = self.replayer.and_then(without::input);
        Some(Finding {
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

    fn exposed(&self) -> Option<Finding> {
        let cost = self.transfer;
        let most =
            self.analysis.overlap.ranks.iter().max_by(|a, b| a.exposed_s.mean().total_cmp(&b.exposed_s.mean()))?;
        let operation =
            self.analysis.collectives.operations.first().map_or("communication", |of| of.operation.as_str());
        let evidence = self.evidence(Some(most.rank), largest(&cost.values), operation);
        let finding = self.measured(FindingKind::ExposedCommunication, &cost.values, cost.mean(), evidence)?;
        let overlapped =
            self.analysis.overlap.overlapped_share.map_or(String::new(), |share| {
                format!(" Computation overlaps {} of all communication.", percent(share))
            });
        let share = percent(finding.share);
        let unknown = self.unknown_waits();
        let without = self.replayer.filter(|_| unknown.is_none()).and_then(without::transfers);
        let if_none = without.map_or_else(String::new, |without| format!(" If moving bytes took no time, {without}."));
        let traffic = self.traffic();
        let what = match (unknown, &traffic) {
            (Some(why), _) => format!(
                "Communication that nothing overlaps takes {share} of the time: moving bytes, or waiting for other ranks. \
                 {why} cannot separate the two.{overlapped}"
            ),
            (None, Traffic::Small(bytes)) => format!(
                "Calls of {operation} with {} each, which nothing overlaps, take {share} of the time: so few bytes take no longer \
                 than a call does, or the ranks are held up in it.{overlapped}{if_none}",
                Bytes(*bytes).about()
            ),
            (None, _) => format!("Moving bytes that nothing overlaps takes {share} of the time.{overlapped}{if_none}"),
        };
        Some(Finding { what, without, advice: self.traffic_advice(&traffic), ..finding })
    }

    /// What kind of communication costs most.
    fn traffic(&self) -> Traffic {
        let operations = &self.analysis.collectives.operations;
        let cost = |one: &OperationTotals| one.transfer_s.as_ref().unwrap_or(&one.time_s).mean();
        let Some(most) = operations.iter().max_by(|a, b| cost(a).total_cmp(&cost(b))) else { return Traffic::Unknown };
        let bytes = most.bytes_per_step.filter(|_| most.calls_per_step > 0.0).map(|all| all / most.calls_per_step);
        match most.operation.as_str() {
            operation if is_point_to_point(operation) => Traffic::Pairs,
            _ if bytes.is_some_and(|bytes| bytes <= SMALL_MESSAGE as f64) => {
                Traffic::Small(bytes.unwrap_or_default() as u64)
            }
            "all_gather" | "reduce_scatter" => Traffic::Shards,
            "all_to_all" | "all_to_allv" => Traffic::Experts,
            "all_reduce" => Traffic::Gradients,
            _ => Traffic::Unknown,
        }
    }

    fn traffic_advice(&self, traffic: &Traffic) -> String {
        let pytorch = match traffic {
            Traffic::Pairs => {
                "Send the next micro-batch while this one computes: more and smaller micro-batches, a schedule that overlaps \
                 (1F1B, interleaved), `batch_isend_irecv`."
            }
            Traffic::Small(_) => {
                "Call it less often, or combine calls: metrics and flags every few steps, several values in one tensor, \
                 `all_reduce` of a tensor in place of `all_gather_object`. Look at who enters it last."
            }
            Traffic::Shards => {
                "Start it earlier: prefetch in FSDP (`set_modules_to_forward_prefetch`, `set_modules_to_backward_prefetch`), \
                 `reshard_after_forward=False` where memory allows it, bf16 parameters and gradients."
            }
            Traffic::Experts => {
                "Send less and overlap it: fewer experts a token, experts of one host first, dispatch in two parts while the \
                 first one computes, bf16 or fp8 activations."
            }
            Traffic::Gradients => {
                "Start communication earlier and send less: smaller `bucket_cap_mb` in DistributedDataParallel, bf16 gradients, \
                 more gradient accumulation (`no_sync()`)."
            }
            Traffic::Unknown => {
                "Start communication earlier (`async_op=True`, and wait where its result is used) and send less: bf16, fewer \
                 calls."
            }
        };
        self.advice(
            "Start communication earlier and send less: a smaller `--bucket`, `--precision bf16`, more `--accumulate`; `--overlap false` \
             shows what overlap saves now.",
            pytorch,
        )
    }

    /// Why transfers cannot be separated from waits for other ranks, if that is so for a tenth of the communication or more.
    fn unknown_waits(&self) -> Option<String> {
        let analysis = self.analysis;
        let ranks = analysis.steps.ranks.len();
        if ranks < 2 && analysis.world == Some(1) {
            return None;
        }
        if ranks < 2 {
            let world = analysis.world.filter(|world| *world > 1).map_or(String::new(), |world| format!(" of {world}"));
            return Some(format!("The trace of one rank{world}"));
        }
        // Transfers between two ranks are the pipeline's, and no part of this.
        let is_collective = |one: &&OperationTotals| !is_point_to_point(&one.operation);
        let operations: Vec<_> = analysis.collectives.operations.iter().filter(is_collective).collect();
        let (all, known) = operations.iter().fold((0.0, 0.0), |(all, known), one| {
            let time = one.time_s.mean();
            (all + time, known + if one.wait_s.is_some() { time } else { 0.0 })
        });
        if all > 0.0 && known >= 0.9 * all {
            return None;
        }
        let unknown = operations.iter().find(|one| one.wait_s.is_none());
        Some(match unknown {
            Some(one) => format!("Calls of {} on {}", one.operation, one.group),
            None => "Calls that no other rank's call belongs to".to_owned(),
        })
    }

    /// The device waits for the host: for launches, or for what the step's thread does outside of the phases.
    fn host_bound(&self) -> Option<Finding> {
        let idle = self.analysis.idle.as_ref()?;
        let both = idle.host_bound_s.values.iter().zip(&idle.other_s.values);
        let cost = &Series::new(both.map(|(launches, other)| launches + other).collect());
        let evidence = self.evidence(idle.ranks.first().copied(), largest(&cost.values), "device queue");
        let finding = self.measured(FindingKind::HostBoundDevice, &cost.values, cost.mean(), evidence)?;
        Some(Finding {
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

    fn bubble(&self) -> Option<Finding> {
        let bubble = self.analysis.bubble.as_ref()?;
        let cost = &bubble.measured_s;
        let evidence = self.evidence(None, largest(&cost.values), "send and recv");
        let finding = self.measured(FindingKind::PipelineBubble, &cost.values, cost.mean(), evidence)?;
        let theory = bubble
            .theory_share
            .map_or(String::new(), |share| format!(" The schedule predicts {} of a step.", percent(share)));
        Some(Finding {
            what: format!("Pipeline stages wait in send and recv for {} of a step.{theory}", percent(finding.share)),
            advice:
                "Use more micro-batches per step, an interleaved schedule, or fewer stages; balance the layers of the \
                     stages."
                    .to_owned(),
            ..finding
        })
    }

    /// Merging k messages saves at most `(k - 1)` times the shortest: the cost of a call.
    fn small_messages(&self, of: &Communicator) -> Option<Finding> {
        let small = || of.sizes.iter().filter(|size| size.bytes.is_some_and(|bytes| bytes <= SMALL_MESSAGE));
        let calls: f64 = small().map(|size| size.calls_per_step).sum();
        let least = small().map(|size| size.least_s).fold(f64::INFINITY, f64::min);
        if calls < MANY_MESSAGES {
            return None;
        }
        let saves = (calls - 1.0) * least;
        let evidence = self.evidence(None, None, &of.group);
        let share = self.share(saves);
        (share > self.minimum_share).then(|| Finding {
            kind: FindingKind::SmallMessages,
            what: format!(
                "Communicator {} has {calls:.0} collectives of at most 64 KiB per step. One larger one would save up to {} \
                 of a step.",
                of.group,
                percent(share)
            ),
            saves_s_per_step: saves,
            share,
            evidence,
            confidence: Confidence::new(0.5),
            advice: self.advice(
                "Merge them: a larger `--bucket`.",
                "Merge them: larger `bucket_cap_mb`, one flat buffer, or `torch.distributed._coalescing_manager`.",
            ),
            without: None,
        })
    }

    /// A communicator that moves its bytes slower than the others, where a step would be shorter without that.
    fn slow_exchange(&self, slow: &SlowExchange) -> Option<Finding> {
        let without = without::slow_exchange(self.replayer?, slow).filter(|of| of.share > self.minimum_share)?;
        let ranks: Vec<String> = slow.ranks.iter().map(|rank| rank.to_string()).collect();
        Some(Finding {
            kind: FindingKind::SlowExchange,
            what: format!(
                "Communicator {} (ranks {}) is slower than the others: its {} takes {} of a step to move the bytes for which the \
                 others take {}. If it were as fast as they are, {without}.",
                slow.group,
                ranks.join(", "),
                slow.operation,
                Seconds(slow.own_s),
                Seconds(slow.others_s)
            ),
            saves_s_per_step: without.saves_s,
            share: without.share,
            evidence: self.evidence(None, largest(&slow.values), &slow.group),
            confidence: Confidence::new(slow.confidence),
            advice: format!(
                "Compare the links between ranks {} with those of the other communicators: `rankmark fleet` judges each link, \
                 `nvidia-smi topo -m` and `nvidia-smi nvlink -s` show what they are.",
                ranks.join(", ")
            ),
            without: Some(without),
        })
    }
}

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

fn pauses_text(pauses: &Pauses, steps: usize) -> String {
    let every = pauses.every.map_or(String::new(), |every| format!(", about one in {every},"));
    let who = match pauses.who {
        Who::Rank(rank) => format!(" Rank {rank} works in them, and the others wait."),
        Who::All => " All ranks work longer in them.".to_owned(),
        Who::InTurn => " Other ranks work longer in other steps.".to_owned(),
        Who::Busy => " The machine is busy: ranks wait for a processor in them.".to_owned(),
        Who::Unknown => String::new(),
    };
    format!(
        "{} of {steps} steps{every} take {} where the others take {}. That is {} of the time.{who}",
        pauses.steps.len(),
        Seconds(pauses.long_s),
        Seconds(pauses.usual_s),
        percent(pauses.share)
    )
}

fn busy_advice(rank: u32) -> String {
    format!(
        "Look for what else runs on the processors of rank {rank} (`top -H`, `ps -eLo psr,comm`): other jobs, more threads than \
         cores (`OMP_NUM_THREADS`, workers of the DataLoader), a CPU limit of its container. Pin ranks to cores of their own \
         (`--bind`, `numactl`, `srun --cpu-bind`)."
    )
}

fn advice_for(phase: Phase, rank: u32) -> String {
    let what = match phase {
        Phase::Input => {
            "compare its data shard and storage with the other ranks': file sizes, local cache, loader workers"
        }
        Phase::Forward | Phase::Backward => {
            "compare its cores, clock and other tenants with the other ranks' (`lscpu`, `nvidia-smi -q -d CLOCK,PERFORMANCE`), and \
             the length of its inputs"
        }
        Phase::Optimizer => "compare the number of parameters that it updates, and its memory bandwidth",
        Phase::Host => "look for work that only it does: logging, checkpoints, evaluation, a busy core",
        Phase::Device => {
            "compare its device's clock and temperature (`nvidia-smi -q -d CLOCK,TEMPERATURE`), and its kernels"
        }
    };
    format!("On rank {rank}, {what}.")
}
