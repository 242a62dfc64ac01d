//! The benchmark `hardware`: what this machine can do, whatever uses it: memory, computation, links between ranks, storage. The
//! benchmark `kernel`: one operation of a training step.

mod about;
mod compute;
mod declared;
mod expand;
mod fields;
mod kernel;
mod loops;
mod memory;
mod metrics;
mod numa;
mod on_gpu;
mod pairs;
mod pairs_found;
mod peers;
mod resolve;
mod results;
mod show;
mod storage;
mod team;
mod torch;
mod tournament;
mod view;

use contract::{Benchmark, Host, Measured, ParsedCase, Prepared, RankContext, Relations};
use measure::Failure;
use record::{About, Case, CaseLine, Plan};
use serde_json::{Map, Value};
use terms::Collective;

use fields::{Area, HardwareFields, Test};
use resolve::{Task, task};

pub use kernel::KernelBenchmark;

/// The benchmark `hardware`.
pub struct HardwareBenchmark;

/// The values of a case, read once.
struct HardwareCase {
    case: Case,
    fields: HardwareFields,
    task: Task,
}

impl Benchmark for HardwareBenchmark {
    fn about(&self) -> &'static About {
        &about::ABOUT
    }

    fn parse(&self, case: &Case) -> Result<Box<dyn ParsedCase>, Failure> {
        let fields = HardwareFields::of(case)?;
        let task = task(&fields);
        Ok(Box::new(HardwareCase { case: case.clone(), fields, task }))
    }

    fn complete(&self, plan: &mut Plan) {
        expand::complete(plan);
    }

    fn relations<'a>(&self, all: &[&'a CaseLine]) -> Relations<'a> {
        let ceilings = metrics::Ceilings::from_lines(all);
        Box::new(move |line| metrics::roofline(line, &ceilings))
    }

    fn view(&self) -> Option<&'static dyn ::view::View> {
        Some(&view::HardwareView)
    }
}

impl ParsedCase for HardwareCase {
    fn case(&self) -> &Case {
        &self.case
    }

    fn memory(&self) -> u64 {
        let task = &self.task;
        let area = task.test.area();
        let of_rank = match area {
            _ if self.fields.is_on_gpus() && area != Area::Transfer => 0,
            Area::Memory => memory::held(task),
            Area::Compute if task.test == Test::Gemm => compute::product_bytes(task),
            Area::Pairs => pairs::held(task),
            Area::Nodes => task.bytes.saturating_mul(numa::nodes().len() as u64),
            // GPUs have memory of their own; only what is copied lies in the host's, too.
            Area::Transfer if task.test == Test::DeviceCopy => 0,
            Area::Transfer => task.bytes.saturating_mul(task.test.copies().max(1)),
            Area::Compute | Area::Storage | Area::Results | Area::All => 0,
        };
        of_rank.saturating_mul(u64::from(task.ranks))
    }

    fn admit(&self, _host: &Host) -> Result<(), String> {
        if self.task.test == Test::Numa && numa::nodes().len() < 2 {
            return Err("fewer than two NUMA nodes have cores and memory here: there is nothing to compare".to_owned());
        }
        Ok(())
    }

    fn operation(&self) -> (Collective, u64) {
        match self.task.test.area() {
            Area::Pairs => (pairs::operation(self.task.test), self.task.bytes),
            _ => (Collective::Barrier, 0),
        }
    }

    fn prepare(&self, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        let Self { case, fields, task } = self;
        match task.test.area() {
            Area::Memory | Area::Transfer if fields.is_on_gpus() => on_gpu::prepare(task, rank),
            Area::Compute if fields.is_on_gpus() => {
                let mut prepared = match task.test {
                    Test::Fma => on_gpu::prepare(task, rank)?,
                    _ => compute::product(task, case, rank)?,
                };
                on_gpu::warm(&mut *prepared, &mut *rank.comm)?;
                Ok(prepared)
            }
            Area::Memory => memory::prepare(task, rank),
            Area::Compute if task.test == Test::Fma => compute::registers(task, rank),
            Area::Compute => compute::product(task, case, rank),
            Area::Pairs if task.test == Test::PeerCopy => peers::prepare(task, rank),
            Area::Pairs => pairs::prepare(task, fields.space(), rank),
            Area::Nodes if rank.cores.is_empty() => numa::prepare(task, &numa::nodes()),
            Area::Nodes => numa::prepare(task, &numa::nodes_of(&rank.cores)),
            Area::Storage => storage::prepare(task),
            Area::Results => results::prepare(task, fields.space(), rank),
            Area::Transfer => Err(Failure::new("the host has no device to copy to")),
            Area::All => Err(Failure::new("`all` stands for several tests, and is not one itself")),
        }
    }

    fn metrics(&self, measured: &Measured<'_>) -> Map<String, Value> {
        metrics::for_case(self, measured)
    }
}
