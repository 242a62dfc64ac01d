//! The benchmark `collective`: one operation of a communicator, on checked data. The benchmark `startup`: how long it takes
//! until ranks can make one.

mod about;
mod bare;
mod between_hosts;
mod ceilings;
mod copies;
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

use contract::{Benchmark, Host, Measured, Modelled, Prepared, RankContext, Relations, Study};
use measure::Failure;
use record::{About, Case, CaseLine, Plan};
use serde_json::{Map, Value};
use terms::{BufferKind, Bytes, Collective, Seconds};

pub use startup::StartupBenchmark;
pub use word::Word;

use declared::{ALGBW_GBS, BUSBW_GBS, COUNT, LIMIT_BUSBW_GBS, LIMIT_SHARE};
use fields::Fields;
use groups::RankGroups;
use parameters::Parameters;

/// Bytes of the host that calls on memory of GPUs go through, on all ranks.
fn staged_bytes(case: &Case, parameters: &Parameters) -> u64 {
    let goes_through = |backend: &dyn comm::Backend| backend.gpu_memory() == comm::GpuMemory::ThroughHost;
    if !contract::backend_of(case).is_some_and(goes_through) {
        return 0;
    }
    let Parameters { op, direction, dtype, ranks, peer, groups, ref counts, .. } = *parameters;
    let of_one = comm::host_bytes((op, direction), (parameters.count(), dtype.bytes()), (ranks, peer), counts.as_ref());
    of_one.saturating_mul(u64::from(ranks)).saturating_mul(u64::from(groups))
}

/// Bytes of the results that all ranks keep to compare later ones with.
fn watched_bytes(parameters: &Parameters) -> u64 {
    let of_rank = |rank: u32| parameters.lengths(rank).1 as u64;
    let all = (0..parameters.ranks).map(of_rank).fold(0, u64::saturating_add);
    if parameters.reproducible { all.saturating_mul(watch::COPIES).saturating_mul(parameters.in_flight) } else { 0 }
}

/// The benchmark `collective`.
pub struct CollectiveBenchmark;

impl Benchmark for CollectiveBenchmark {
    fn about(&self) -> &'static About {
        &about::ABOUT
    }

    fn memory(&self, case: &Case) -> u64 {
        let Ok(parameters) = Parameters::from_case(case) else { return 0 };
        let watched = watched_bytes(&parameters);
        if self.is_modelled(case) && contract::has_model(case) {
            return modelled::memory(&parameters);
        }
        if contract::is_on_gpus(case) {
            return staged_bytes(case, &parameters).saturating_add(watched);
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

    fn admit(&self, case: &Case, host: &Host) -> Result<(), String> {
        copies::admit(case, host)
    }

    fn peer(&self, case: &Case) -> Option<u32> {
        Fields::of(case).ok().filter(|fields| fields.op == Collective::PingPong).map(|fields| fields.peer)
    }

    fn operation(&self, case: &Case) -> (Collective, u64) {
        let moved = |fields: Fields| (fields.op, if fields.op == Collective::Barrier { 0 } else { fields.bytes });
        Fields::of(case).map_or((Collective::Barrier, 0), moved)
    }

    fn sent(&self, case: &Case) -> f64 {
        let (op, bytes) = self.operation(case);
        op.bus_factor(Fields::of(case).map_or(1, |fields| fields.ranks_of_a_call())) * bytes as f64
    }

    fn between_hosts(&self, case: &Case, hosts: &[u32]) -> Option<f64> {
        let fields = Fields::of(case).ok()?;
        let (op, bytes) = self.operation(case);
        // Groups may lie within hosts, and disturb each other where they do not.
        let is_whole = RankGroups::of_fields(&fields).ok()?.is_none();
        is_whole.then(|| between_hosts::bytes(op, bytes, hosts)).flatten()
    }

    fn prepare(&self, case: &Case, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        let parameters = Parameters::from_case(case)?;
        match RankGroups::of_fields(&Fields::of(case)?)? {
            Some(groups) => in_group::prepare(parameters, &groups, rank),
            None => prepared::prepare(parameters, rank),
        }
    }

    fn is_modelled(&self, case: &Case) -> bool {
        // Bits of results are compared by ranks, and groups disturb each other.
        Fields::of(case).is_ok_and(|fields| fields.groups.is_none() && !fields.reproducible)
    }

    fn modelled(&self, case: &Case) -> Result<Box<dyn Modelled>, Failure> {
        Ok(Box::new(modelled::prepare(&Parameters::from_case(case)?)?))
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

    fn metrics(&self, case: &Case, measured: &Measured<'_>) -> Map<String, Value> {
        let median_s = measured.times.median;
        let mut metrics = Map::new();
        let Ok(parameters) = Parameters::from_case(case) else { return metrics };
        let (bytes, time) = (Bytes(parameters.bytes), Seconds(median_s));
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
        let groups = Fields::of(case).ok().and_then(|fields| RankGroups::of_fields(&fields).ok().flatten());
        if let Some(groups) = groups.filter(|_| parameters.alone.is_none()) {
            metrics.extend(interference::times(&parameters, &groups, measured.trials));
        }
        metrics.extend(reproducible::metrics(case, measured));
        metrics
    }
}
