//! Findings on communication: what nothing overlaps, messages that are too small, and communicators that are slower than others.

use terms::{Bytes, Seconds};

use super::{Confidence, FindingKind, ProfileFinding, Sources, largest, percent};
use crate::profile::collectives::{Communicator, OperationTotals};
use crate::profile::lanes::is_point_to_point;
use crate::profile::slow_exchange::SlowExchange;
use crate::profile::without;

/// Messages up to this are small: their time is mostly the cost of a call.
const SMALL_MESSAGE: u64 = 64 * 1024;
/// Fewer small messages per step are not worth merging.
const MANY_MESSAGES: f64 = 8.0;

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
    /// Communication of another kind, or of none that is known.
    Unknown,
}

impl Sources<'_> {
    pub(super) fn exposed(&self) -> Option<ProfileFinding> {
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
        let (costly, traffic) = self.traffic();
        let what = match (unknown, &traffic) {
            (Some(why), _) => format!(
                "Communication that nothing overlaps takes {share} of the time: moving bytes, or waiting for other ranks. \
                 {why} cannot separate the two.{overlapped}"
            ),
            (None, Traffic::Small(bytes)) => format!(
                "Calls of {costly} with {} each, which nothing overlaps, take {share} of the time: so few bytes take no longer \
                 than a call does, or the ranks are held up in it.{overlapped}{if_none}",
                Bytes(*bytes).about()
            ),
            (None, _) => format!("Moving bytes that nothing overlaps takes {share} of the time.{overlapped}{if_none}"),
        };
        Some(ProfileFinding { what, without, advice: self.traffic_advice(&traffic), ..finding })
    }

    /// The operation that costs most, and what kind of communication it is.
    fn traffic(&self) -> (&str, Traffic) {
        let operations = &self.analysis.collectives.operations;
        let cost = |one: &OperationTotals| one.transfer_s.as_ref().unwrap_or(&one.time_s).mean();
        let Some(most) = operations.iter().max_by(|a, b| cost(a).total_cmp(&cost(b))) else {
            return ("communication", Traffic::Unknown);
        };
        let bytes = most.bytes_per_step.filter(|_| most.calls_per_step > 0.0).map(|all| all / most.calls_per_step);
        let traffic = match most.operation.as_str() {
            operation if is_point_to_point(operation) => Traffic::Pairs,
            _ if bytes.is_some_and(|bytes| bytes <= SMALL_MESSAGE as f64) => {
                Traffic::Small(bytes.unwrap_or_default() as u64)
            }
            "all_gather" | "reduce_scatter" => Traffic::Shards,
            "all_to_all" | "all_to_allv" => Traffic::Experts,
            "all_reduce" => Traffic::Gradients,
            _ => Traffic::Unknown,
        };
        (&most.operation, traffic)
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

    /// Merging k messages saves at most `(k - 1)` times the shortest: the cost of a call.
    pub(super) fn small_messages(&self, of: &Communicator) -> Option<ProfileFinding> {
        let small = || of.sizes.iter().filter(|size| size.bytes.is_some_and(|bytes| bytes <= SMALL_MESSAGE));
        let calls: f64 = small().map(|size| size.calls_per_step).sum();
        let least = small().map(|size| size.least_s).fold(f64::INFINITY, f64::min);
        if calls < MANY_MESSAGES {
            return None;
        }
        let saves = (calls - 1.0) * least;
        let evidence = self.evidence(None, None, &of.group);
        let share = self.share(saves);
        (share > self.minimum_share).then(|| ProfileFinding {
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
    pub(super) fn slow_exchange(&self, slow: &SlowExchange) -> Option<ProfileFinding> {
        let without = without::slow_exchange(self.replayer?, slow).filter(|of| of.share > self.minimum_share)?;
        let ranks: Vec<String> = slow.ranks.iter().map(|rank| rank.to_string()).collect();
        Some(ProfileFinding {
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
            saves_s_per_step: without.mean_saves_s,
            share: self.share(without.mean_saves_s),
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
