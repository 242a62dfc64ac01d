//! The benchmark `collective`: one operation of a communicator, on checked data. The benchmark `startup`: how long it takes
//! until ranks can make one.

mod about;
mod bare;
mod between_hosts;
mod ceilings;
mod copies;
mod cost;
mod data;
mod declared;
mod fields;
mod groups;
mod in_group;
mod interference;
mod launches;
mod loops;
mod modelled;
mod number;
mod parameters;
mod pattern;
mod prepared;
mod random;
mod refine;
mod reproducible;
mod segments;
mod share;
mod show;
mod startup;
mod streams;
mod table;
mod torch;
mod traffic;
mod uneven;
mod view;
mod watch;
mod word;

#[cfg(test)]
#[path = "../../../tests/facts.rs"]
mod facts;
#[cfg(test)]
#[path = "../../../tests/skip.rs"]
mod skip;

use contract::{Benchmark, Host, Measured, Modelled, ParsedCase, Prepared, RankContext, Relations, Study, TrialCost};
use measure::Failure;
use record::{About, Case, CaseLine, Plan};
use serde_json::{Map, Value};
use terms::{BufferKind, Bytes, Collective, Seconds, Space};

pub use startup::StartupBenchmark;
pub use word::Word;

use declared::{ALGBW_GBS, BUSBW_GBS, COUNT, LIMIT_BUSBW_GBS, LIMIT_SHARE};
use fields::Fields;
use groups::RankGroups;
use parameters::Parameters;

/// Bytes of the results that all ranks keep to compare later ones with.
fn watched_bytes(parameters: &Parameters) -> u64 {
    let of_rank = |rank: u32| parameters.lengths(rank).1 as u64;
    let all = (0..parameters.ranks).map(of_rank).fold(0, u64::saturating_add);
    if parameters.reproducible { all.saturating_mul(watch::COPIES).saturating_mul(parameters.in_flight) } else { 0 }
}

/// The benchmark `collective`.
pub struct CollectiveBenchmark;

/// The values of a case, read once.
struct CollectiveCase {
    case: Case,
    parameters: Parameters,
    /// None where all ranks make one operation.
    groups: Option<RankGroups>,
}

impl Benchmark for CollectiveBenchmark {
    fn about(&self) -> &'static About {
        &about::ABOUT
    }

    fn parse(&self, case: &Case) -> Result<Box<dyn ParsedCase>, Failure> {
        let fields = Fields::of(case)?;
        let (parameters, groups) = (Parameters::new(case, &fields)?, RankGroups::of_fields(&fields)?);
        Ok(Box::new(CollectiveCase { case: case.clone(), parameters, groups }))
    }

    fn study(&self, cases: &[&Case], _host: &Host) -> Option<Box<dyn Study>> {
        Some(Box::new(refine::Curves::for_cases(cases, &about::ABOUT)?))
    }

    fn complete(&self, plan: &mut Plan) {
        groups::complete(plan, &about::ABOUT);
    }

    fn relations<'a>(&self, all: &[&'a CaseLine]) -> Relations<'a> {
        let relations = [interference::relations(all), reproducible::relations(all), ceilings::relations(all)];
        Box::new(move |line| {
            let mut found = Map::new();
            found.extend(relations.iter().flat_map(|relation| relation(line)));
            found
        })
    }

    fn view(&self) -> Option<&'static dyn ::view::View> {
        Some(&view::CollectiveView)
    }
}

impl CollectiveCase {
    /// Bytes of the host that calls on memory of GPUs go through, on all ranks.
    fn staged_bytes(&self) -> u64 {
        let goes_through = |backend: &dyn comm::Backend| backend.gpu_memory() == comm::GpuMemory::ThroughHost;
        if !contract::backend_of(&self.case).is_some_and(goes_through) {
            return 0;
        }
        let Parameters { op, direction, dtype, ranks, peer, groups, ref counts, .. } = self.parameters;
        let size = (self.parameters.count(), dtype.bytes());
        let of_one = comm::host_bytes((op, direction), size, (ranks, peer), counts.as_ref());
        of_one.saturating_mul(u64::from(ranks)).saturating_mul(u64::from(groups))
    }
}

impl ParsedCase for CollectiveCase {
    fn case(&self) -> &Case {
        &self.case
    }

    fn memory(&self) -> u64 {
        let parameters = &self.parameters;
        let watched = watched_bytes(parameters);
        if self.is_modelled() && contract::has_model(&self.case) {
            return modelled::memory(parameters);
        }
        if parameters.space == Space::Cuda {
            return self.staged_bytes().saturating_add(watched);
        }
        let held = |rank: u32| {
            let (input, output) = parameters.region_lengths(rank);
            let bytes = |len: usize| parameters.region(len).map_or(u64::MAX, |bytes| bytes as u64);
            bytes(input).saturating_add(bytes(output))
        };
        let of_one = match parameters.buffers {
            BufferKind::Private => (0..parameters.ranks).map(held).fold(0, u64::saturating_add),
            BufferKind::Registered => held(0).saturating_mul(u64::from(parameters.ranks)),
        };
        let buffers = of_one.saturating_mul(parameters.in_flight).saturating_mul(u64::from(parameters.groups));
        buffers.saturating_add(watched)
    }

    fn admit(&self, host: &Host) -> Result<(), String> {
        copies::admit(&self.parameters, host)
    }

    fn trial_cost(&self) -> TrialCost {
        cost::here(&self.case, &self.parameters)
    }

    fn peer(&self) -> Option<u32> {
        (self.parameters.op == Collective::PingPong).then_some(self.parameters.peer)
    }

    fn operation(&self) -> (Collective, u64) {
        (self.parameters.op, self.parameters.bytes)
    }

    fn sent(&self) -> f64 {
        let Parameters { op, bytes, ranks, .. } = self.parameters;
        op.bus_factor(ranks) * bytes as f64
    }

    fn between_hosts(&self, hosts: &[u32]) -> Option<f64> {
        // Groups may lie within hosts, and disturb each other where they do not.
        let is_whole = self.groups.is_none();
        is_whole.then(|| between_hosts::bytes(self.parameters.op, self.parameters.bytes, hosts)).flatten()
    }

    fn prepare(&self, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        match &self.groups {
            Some(groups) => in_group::prepare(self.parameters.clone(), groups, rank),
            None => prepared::prepare(self.parameters.clone(), rank),
        }
    }

    fn is_modelled(&self) -> bool {
        // Bits of results are compared by ranks, and groups disturb each other.
        self.groups.is_none() && !self.parameters.reproducible
    }

    fn modelled(&self) -> Result<Box<dyn Modelled>, Failure> {
        Ok(Box::new(modelled::prepare(&self.parameters)?))
    }

    fn metrics(&self, measured: &Measured<'_>) -> Map<String, Value> {
        let (parameters, mut metrics) = (&self.parameters, Map::new());
        let (bytes, time) = (Bytes(parameters.bytes), Seconds(measured.times.median));
        if parameters.bytes > 0 {
            COUNT.put(&mut metrics, parameters.count());
        }
        let busbw = parameters.op.busbw_gbs(bytes, parameters.ranks, time);
        ALGBW_GBS.put(&mut metrics, parameters.op.algbw_gbs(bytes, time));
        BUSBW_GBS.put(&mut metrics, busbw);
        if let Some(share) = measure::limit_share(measured.limit) {
            LIMIT_SHARE.put(&mut metrics, share);
            LIMIT_BUSBW_GBS.put(&mut metrics, busbw.filter(|_| share > 0.0).map(|busbw| busbw / share));
        }
        if let Some(groups) = self.groups.as_ref().filter(|_| parameters.alone.is_none()) {
            metrics.extend(interference::times(parameters, groups, measured.trials));
        }
        metrics.extend(reproducible::metrics(parameters, measured));
        metrics
    }
}
