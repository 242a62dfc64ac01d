//! The benchmark `kernel`: one operation of a training step, by its kernel and sizes, on each rank at once.

mod about;
mod check;
mod fields;
mod plain;
mod prepared;

use contract::{Benchmark, Measured, Prepared, RankContext};
use engine::{Host, OperationShape, Sample};
use measure::Failure;
use record::{About, Case};
use serde_json::{Map, Value};

use about::{GBS, GFLOPS};
use fields::KernelFields;

/// The benchmark `kernel`.
pub struct KernelBenchmark;

impl Benchmark for KernelBenchmark {
    fn about(&self) -> &'static About {
        &about::ABOUT
    }

    fn memory(&self, case: &Case) -> u64 {
        let Ok((fields, sample)) = sample(case) else { return 0 };
        let scratch = Host::scratch_of(&sample.program, fields.threads.unwrap_or(1) as usize) as u64;
        let copies = prepared::copies(&fields, &sample);
        let of_rank = (prepared::bytes(&sample) as u64).saturating_mul(copies as u64).saturating_add(scratch);
        of_rank.saturating_mul(u64::from(fields.ranks))
    }

    fn prepare(&self, case: &Case, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        let (fields, sample) = sample(case)?;
        prepared::prepare(&fields, sample, rank)
    }

    fn metrics(&self, case: &Case, measured: &Measured<'_>) -> Map<String, Value> {
        let mut metrics = Map::new();
        let Ok((fields, sample)) = sample(case) else { return metrics };
        let shape = OperationShape::of(&sample.program, sample.op());
        let rate = |work: f64| work * f64::from(fields.ranks) / measured.times.median / 1e9;
        if shape.flops > 0.0 {
            GFLOPS.put(&mut metrics, rate(shape.flops));
        }
        GBS.put(&mut metrics, rate(shape.bytes as f64));
        metrics
    }
}

/// The fields of a case, and its operation.
fn sample(case: &Case) -> Result<(KernelFields, Sample), terms::FieldError> {
    let fields = KernelFields::of(case)?;
    let sample = fields.sample()?;
    Ok((fields, sample))
}
