//! The benchmark `kernel`: one operation of a training step, by its kernel and sizes, on each rank at once.

mod about;
mod check;
mod fields;
mod plain;
mod prepared;

use contract::{Benchmark, Measured, ParsedCase, Prepared, RankContext};
use engine::{Host, OperationShape, Sample};
use measure::Failure;
use record::{About, Case};
use serde_json::{Map, Value};

use about::{GBS, GFLOPS};
use fields::KernelFields;

/// The benchmark `kernel`.
pub struct KernelBenchmark;

/// The values of a case, read once.
struct KernelCase {
    case: Case,
    fields: KernelFields,
    sample: Sample,
}

impl Benchmark for KernelBenchmark {
    fn about(&self) -> &'static About {
        &about::ABOUT
    }

    fn parse(&self, case: &Case) -> Result<Box<dyn ParsedCase>, Failure> {
        let fields = KernelFields::of(case)?;
        let sample = fields.sample()?;
        Ok(Box::new(KernelCase { case: case.clone(), fields, sample }))
    }
}

impl ParsedCase for KernelCase {
    fn case(&self) -> &Case {
        &self.case
    }

    fn memory(&self) -> u64 {
        let Self { fields, sample, .. } = self;
        let scratch = Host::scratch_of(&sample.program, fields.threads.unwrap_or(1) as usize) as u64;
        let copies = prepared::copies(fields, sample);
        let of_rank = (prepared::bytes(sample) as u64).saturating_mul(copies as u64).saturating_add(scratch);
        of_rank.saturating_mul(u64::from(fields.ranks))
    }

    fn prepare(&self, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        prepared::prepare(&self.fields, self.sample.clone(), rank)
    }

    fn metrics(&self, measured: &Measured<'_>) -> Map<String, Value> {
        let mut metrics = Map::new();
        let shape = OperationShape::of(&self.sample.program, self.sample.op());
        let rate = |work: f64| work * f64::from(self.fields.ranks) / measured.times.median / 1e9;
        if shape.flops > 0.0 {
            GFLOPS.put(&mut metrics, rate(shape.flops));
        }
        GBS.put(&mut metrics, rate(shape.bytes as f64));
        metrics
    }
}
