//! The distinct collectives of a job: how often a step calls each, and how long it took.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use terms::{Collective, Dtype, Error, Named as _};

use super::calls::{CallBytes, CallGroup, JobCalls, Place, RankCall, once};
use super::instances::Instances;
use super::overlap::overlaps;
use super::{JobTraffic, rule, text, word};
use crate::counted::counted;
use crate::traces::element_bytes;

/// Distinct collectives of a plan. A job has some dozen; one that draws sizes at random has no end of them.
const MOST: usize = 200;

/// Ranks of a case.
const MOST_RANKS: u32 = 1024;

/// Names of communicators that a comment lists.
const MOST_NAMES: usize = 3;

/// What makes a collective a case of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CollectiveShape {
    pub(super) op: Collective,
    /// S; 0 of a barrier.
    pub(super) bytes: u64,
    pub(super) dtype: Dtype,
    /// Whether the trace says the type.
    pub(super) is_typed: bool,
    /// Ranks of the case: of all groups, where there are groups.
    pub(super) ranks: u32,
    /// The rule of its groups.
    pub(super) groups: Option<String>,
    /// Ranks of the communicator in the job.
    pub(super) of_ranks: u32,
}

/// A collective of the job.
#[derive(Clone, Debug)]
pub(super) struct Distinct {
    pub(super) shape: CollectiveShape,
    /// Calls of the rank that calls it most often, and the steps that they are of.
    pub(super) calls: u64,
    pub(super) steps: u64,
    /// How many of them ran while another call did, and the most calls at a time.
    pub(super) overlapped: u64,
    pub(super) in_flight: u32,
    /// Median seconds: of the shortest rank, and of all ranks.
    pub(super) time_s: Option<f64>,
    pub(super) waiting_s: Option<f64>,
    /// Some communicators that call it.
    pub(super) names: BTreeSet<String>,
    /// Whether ranks that call it do so equally often.
    pub(super) is_equal: bool,
    /// Whether its communicator is a part of the job by no rule.
    pub(super) lacks_rule: bool,
}

impl Distinct {
    pub(super) fn per_step(&self) -> f64 {
        self.calls as f64 / self.steps.max(1) as f64
    }

    /// What it is worth in a step: seconds, or bytes where nothing has times.
    fn cost(&self) -> (f64, f64) {
        let time = self.time_s.or(self.waiting_s).unwrap_or(0.0);
        (self.per_step() * time, self.per_step() * self.shape.bytes as f64)
    }

    /// Adds what is the same case here.
    fn merge(&mut self, other: Self) {
        let (own, theirs) = (self.per_step(), other.per_step());
        let mean = |a: Option<f64>, b: Option<f64>| Some((a? * own + b? * theirs) / (own + theirs));
        self.time_s = mean(self.time_s, other.time_s);
        self.waiting_s = mean(self.waiting_s, other.waiting_s);
        // Steps of two ranks may differ: calls are then those of so many steps as the first has.
        let scaled = |count: u64| (count as f64 * self.steps as f64 / other.steps.max(1) as f64).round() as u64;
        (self.calls, self.overlapped) = (self.calls + scaled(other.calls), self.overlapped + scaled(other.overlapped));
        self.in_flight = self.in_flight.max(other.in_flight);
        self.names.extend(other.names);
        self.is_equal &= other.is_equal;
        self.lacks_rule |= other.lacks_rule;
    }
}

/// What was found.
pub(super) struct FoundCalls {
    /// The one that takes most of a step first.
    pub(super) collectives: Vec<Distinct>,
    /// Why calls are left out, each reason once, and how many calls of all ranks.
    pub(super) left_out: BTreeMap<String, u64>,
}

/// Calls of one shape while they are counted.
#[derive(Default)]
struct Counted<'t> {
    /// By rank: calls, and those that overlap others.
    by_rank: BTreeMap<u32, (u64, u64)>,
    in_flight: u32,
    durations: Vec<i64>,
    instances: BTreeSet<usize>,
    names: BTreeSet<&'t str>,
    lacks_rule: bool,
}

/// Finds the distinct collectives.
///
/// # Errors
/// When no call can be a case.
pub(super) fn find(job: &JobCalls<'_>, given: &JobTraffic<'_>) -> Result<FoundCalls, Error> {
    let instances = Instances::of_calls(&job.calls);
    let overlapping = overlapping(&job.calls);
    let mut sorter = Sorter { job, given, rules: HashMap::new() };
    let mut counted: HashMap<CollectiveShape, Counted<'_>> = HashMap::new();
    let mut left_out: BTreeMap<String, u64> = BTreeMap::new();
    for (at, call) in job.calls.iter().enumerate() {
        let instance = instances.of_call[at];
        match sorter.shape(call, &instances.all[instance]) {
            Err(why) => *left_out.entry(why).or_default() += 1,
            Ok((shape, lacks_rule)) => {
                let one = counted.entry(shape).or_default();
                let (overlaps, in_flight) = overlapping[at];
                let of_rank = one.by_rank.entry(call.rank).or_default();
                *of_rank = (of_rank.0 + 1, of_rank.1 + u64::from(overlaps));
                one.in_flight = one.in_flight.max(in_flight);
                one.durations.extend(call.duration_ns);
                one.instances.insert(instance);
                one.lacks_rule |= lacks_rule;
                if one.names.len() < MOST_NAMES {
                    one.names.insert(call.group.0);
                }
            }
        }
    }
    let mut all: Vec<Distinct> = counted.into_iter().map(|(shape, one)| one.finish(shape, job, &instances)).collect();
    all.sort_by(|a, b| {
        b.cost().partial_cmp(&a.cost()).unwrap_or(std::cmp::Ordering::Equal).then(a.shape.cmp(&b.shape))
    });
    let collectives = as_cases(all, given, &mut left_out);
    if collectives.is_empty() {
        return Err(nothing(job, &left_out));
    }
    Ok(FoundCalls { collectives, left_out })
}

/// Whether each call overlaps another of its rank, and how many run when it begins.
fn overlapping(calls: &[RankCall<'_>]) -> Vec<(bool, u32)> {
    let mut by_rank: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, call) in calls.iter().enumerate() {
        by_rank.entry(call.rank).or_default().push(at);
    }
    let mut found = vec![(false, 1); calls.len()];
    for places in by_rank.into_values() {
        let times: Vec<Option<(i64, i64)>> = places.iter().map(|at| calls[*at].times).collect();
        places.into_iter().zip(overlaps(&times)).for_each(|(at, overlap)| found[at] = overlap);
    }
    found
}

/// Gives calls their shapes.
struct Sorter<'j, 't> {
    job: &'j JobCalls<'t>,
    given: &'j JobTraffic<'j>,
    rules: HashMap<CallGroup<'t>, Option<String>>,
}

impl<'t> Sorter<'_, 't> {
    /// The shape of a call, and whether its communicator is a part of the job by no rule; else why it is left out.
    fn shape(
        &mut self,
        call: &RankCall<'t>,
        instance: &super::instances::Instance,
    ) -> Result<(CollectiveShape, bool), String> {
        let mut op = word::operation(call.operation)?;
        match call.place {
            Place::Outside => return Err("they are before the first step or after the last".to_owned()),
            Place::Step(_) | Place::Whole => {}
        }
        if op == Collective::AllToAll && instance.is_uneven {
            op = Collective::AllToAllV;
        }
        let of_ranks = call
            .ranks
            .or(self.given.ranks)
            .ok_or("the trace does not say how many ranks their communicator has (hint: `--ranks N` gives it)")?;
        if of_ranks < 2 {
            return Err("a communicator of one rank moves nothing".to_owned());
        }
        let bytes = self.bytes(op, call, instance, of_ranks)?;
        let element = word::element(op, call.dtype, bytes)?;
        let (ranks, groups, lacks_rule) = self.ranks(call, of_ranks);
        if ranks > MOST_RANKS {
            return Err(format!("their communicator has more than {MOST_RANKS} ranks, the most of a case"));
        }
        let (dtype, is_typed) = (element.dtype, element.is_known);
        Ok((CollectiveShape { op, bytes, dtype, is_typed, ranks, groups, of_ranks }, lacks_rule))
    }

    fn bytes(
        &self,
        op: Collective,
        call: &RankCall<'_>,
        instance: &super::instances::Instance,
        ranks: u32,
    ) -> Result<u64, String> {
        if op == Collective::Barrier {
            return Ok(0);
        }
        let bytes = match call.size {
            // Ranks give different numbers of bytes: the most counts.
            CallBytes::Whole(bytes) if op == Collective::AllToAllV => Some(instance.widest.unwrap_or(bytes)),
            CallBytes::Whole(bytes) => Some(bytes),
            CallBytes::Block(block) => block.checked_mul(u64::from(ranks)),
            CallBytes::Unknown => None,
        };
        match bytes {
            Some(0) => Err("they move nothing: their size is 0".to_owned()),
            Some(bytes) => Ok(bytes),
            // Elements without a known size.
            None if call.dtype.is_some_and(|word| element_bytes(word).is_none()) => {
                word::element(op, call.dtype, 0).map(|_| 0)
            }
            None => Err(format!("the trace has no size of them (hint: {})", self.how_to_have_sizes())),
        }
    }

    /// What to set so that sizes are there.
    fn how_to_have_sizes(&self) -> &'static str {
        match self.job.source {
            "Nsight Systems" => {
                "exports of nsys have no sizes; record with PyTorch's profiler and record_shapes=True, or with NCCL Inspector"
            }
            _ => "profile with record_shapes=True, or put dumps of the Flight Recorder next to the traces",
        }
    }

    /// Ranks and groups of a case, and whether it should have groups and no rule makes them.
    fn ranks(&mut self, call: &RankCall<'t>, of_ranks: u32) -> (u32, Option<String>, bool) {
        let world = self.job.world;
        match self.given.ranks {
            Some(wanted) if wanted != world => (of_ranks.min(wanted), None, false),
            _ if of_ranks >= world => (of_ranks, None, false),
            _ => {
                let find = || rule::rule(call.group.1?, world).filter(|_| world <= MOST_RANKS);
                match self.rules.entry(call.group).or_insert_with(find).clone() {
                    Some(rule) => (world, Some(rule), false),
                    None => (of_ranks, None, true),
                }
            }
        }
    }
}

impl Counted<'_> {
    fn finish(mut self, shape: CollectiveShape, job: &JobCalls<'_>, instances: &Instances) -> Distinct {
        let steps = |rank: &u32| job.steps.get(rank).copied().unwrap_or(1).max(1);
        let rate = |(rank, (calls, _)): (&u32, &(u64, u64))| *calls as f64 / steps(rank) as f64;
        let most = self.by_rank.iter().map(rate).fold(0.0, f64::max);
        let is_equal = self.by_rank.iter().map(rate).all(|own| own == most);
        let (rank, (calls, overlapped)) =
            self.by_rank.iter().find(|one| rate((one.0, one.1)) == most).map_or((0, (0, 0)), |(rank, of)| (*rank, *of));
        let transfers: Vec<f64> = self
            .instances
            .iter()
            .filter_map(|at| instances.all[*at].transfer_ns())
            .map(|ns| ns as f64 * 1e-9)
            .collect();
        let durations: Vec<f64> = std::mem::take(&mut self.durations).iter().map(|ns| *ns as f64 * 1e-9).collect();
        let median = |times: &[f64]| (!times.is_empty()).then(|| stats::median(times));
        Distinct {
            shape,
            calls,
            steps: steps(&rank),
            overlapped,
            in_flight: self.in_flight,
            time_s: median(&transfers),
            waiting_s: median(&durations),
            names: self.names.into_iter().map(str::to_owned).collect(),
            is_equal,
            lacks_rule: self.lacks_rule,
        }
    }
}

/// Calls that can be cases, each case once. What is the same case here is one: its calls add up.
fn as_cases(all: Vec<Distinct>, given: &JobTraffic<'_>, left_out: &mut BTreeMap<String, u64>) -> Vec<Distinct> {
    let mut cases: Vec<Distinct> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for one in all {
        if cases.len() >= MOST {
            let why = format!("the job has more than {MOST} distinct collectives: those that take least are left out");
            *left_out.entry(why).or_default() += one.calls;
            continue;
        }
        match (given.identity)(&text::alone(&one)) {
            Err(why) => {
                *left_out.entry(format!("{} cannot run here: {why}", one.shape.op.name())).or_default() += one.calls
            }
            Ok(identity) => match places.get(&identity) {
                Some(at) => cases[*at].merge(one),
                None => {
                    places.insert(identity, cases.len());
                    cases.push(one);
                }
            },
        }
    }
    cases
}

/// Why there is no plan.
fn nothing(job: &JobCalls<'_>, left_out: &BTreeMap<String, u64>) -> Error {
    let mut reasons: Vec<(&String, &u64)> = left_out.iter().collect();
    reasons.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    // The hint of the first reason stands where hints stand.
    let (mut causes, mut hint) = (Vec::new(), None);
    for (why, calls) in reasons {
        let parts = why.split_once(" (hint: ").filter(|_| hint.is_none());
        let why = parts.map_or(why.as_str(), |(why, _)| why);
        hint = hint.or(parts.and_then(|(_, rest)| rest.strip_suffix(')')).map(str::to_owned));
        causes.push(format!("{}: {why}", counted(*calls, "call", "calls")));
    }
    causes.extend(once(&job.notes));
    let error = Error::new(format!("no collective of these traces ({}) can be a case of a plan", job.source));
    let error = error.cause(crate::tree::one_line(&causes.join("; ")));
    hint.into_iter().fold(error, |error, hint| error.hint(hint))
}
