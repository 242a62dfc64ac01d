//! Peaks of computation on one rank: a loop in registers, and a product of square matrices.

use std::sync::atomic::{AtomicU64, Ordering};

use comm::Communicator;
use contract::runtime::is_pytorch;
use contract::{Benchmark as _, Prepared, RankContext, Work};
use engine::Matmul;
use engine::cores::peak::{self, Loop};
use measure::{Failure, WrongReport};
use primitive::PrimitiveBenchmark as PRODUCT;
use record::{Case, SharedMap};
use serde_json::{Map, Value};
use terms::{Dtype, Named};

use super::fields::{self, Test};
use super::resolve::Task;
use super::team::Team;

/// Rounds of a call: about half a millisecond, so that starting the threads takes about a hundredth of it.
const ROUNDS: u64 = 1 << 15;

/// The loop in registers, on every thread.
struct Registers {
    chosen: Loop,
    team: Team,
    /// The sum of a thread's accumulators after the last call, as bits.
    sums: Vec<AtomicU64>,
    /// The sum of a thread's accumulators after a call that nobody timed, as bits.
    expected: u64,
}

/// Chooses the loop.
pub(super) fn registers(task: &Task, context: &RankContext) -> Result<Box<dyn Prepared>, Failure> {
    let lacking = |error: std::io::Error| Failure::lacking(error.to_string());
    let multiplier = engine::multiplier(task.dtype, Matmul::Auto)
        .ok_or_else(|| Failure::lacking(format!("{} cannot be multiplied here", task.dtype)))?;
    let chosen = peak::choose(task.dtype, multiplier);
    let team = Team::new(task.threads, context.index as usize * task.threads, &context.cores).map_err(lacking)?;
    let sums = (0..task.threads).map(|_| AtomicU64::new(0)).collect();
    let expected = (chosen.run)(std::hint::black_box(ROUNDS)).to_bits();
    Ok(Box::new(Registers { chosen, team, sums, expected }))
}

impl Prepared for Registers {
    fn run(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        let (run, sums) = (self.chosen.run, &self.sums);
        self.team.run(&|thread| sums[thread].store(run(std::hint::black_box(ROUNDS)).to_bits(), Ordering::Relaxed));
        Ok(())
    }

    fn refill(&mut self) {
        self.sums.iter().for_each(|sum| sum.store(0, Ordering::Relaxed));
    }

    /// A thread that ran all rounds has the sum that one call alone has, to the bit.
    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        let expected = if calls > 0 { self.expected } else { 0 };
        let wrong = self.sums.iter().filter(|sum| sum.load(Ordering::Relaxed) != expected).count();
        Ok(WrongReport { count: wrong as u64, compared: self.sums.len() as u64, first: Vec::new() })
    }

    fn work(&self) -> Work {
        Work { flops: flops(&self.chosen) * self.sums.len() as f64, max_calls: u64::MAX, checks: 1, ..Work::default() }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        self.chosen.name.to_owned()
    }

    fn details(&mut self) -> Map<String, Value> {
        Map::from_iter([("loop".to_owned(), self.chosen.name.into())])
    }
}

fn flops(chosen: &Loop) -> f64 {
    chosen.flops * ROUNDS as f64
}

/// Operations of a call of one rank, which a rank that has another loop has said.
pub(super) fn operations(task: &Task, said: Option<f64>) -> f64 {
    if task.test == Test::Gemm {
        return 2.0 * (task.size as f64).powi(3);
    }
    if let Some(said) = said {
        return said;
    }
    let multiplier = engine::multiplier(task.dtype, Matmul::Auto);
    multiplier.map_or(f64::NAN, |multiplier| flops(&peak::choose(task.dtype, multiplier)) * task.threads as f64)
}

/// Prepares a product of square matrices: what the benchmark `primitive` computes without communication.
pub(super) fn product(task: &Task, case: &Case, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
    PRODUCT.parse(&product_case(task, case))?.prepare(context)
}

/// Fields of a case that its product has, too.
const KEPT: [&str; 6] = ["runtime", "backend", "device", "matmul", "tuned", "cublas_library"];

/// The product as a case of the benchmark `primitive`, with the runtime and device of this one.
pub(super) fn product_case(task: &Task, case: &Case) -> Case {
    let side = Value::from(task.size);
    let mut product = case.clone();
    product.benchmark = PRODUCT.about().name.to_owned();
    let kept = |name: &str| Some((name.to_owned(), case.value(name)?.clone()));
    product.parameters = SharedMap::from_iter(
        [
            ("primitive", "tp_columnwise".into()),
            ("m", side.clone()),
            ("n", side.clone()),
            ("k", side),
            ("implementation", "compute_only:size=unsharded".into()),
            ("dtype", task.dtype.name().into()),
            ("ranks", 1.into()),
            ("seed", task.seed.into()),
        ]
        .map(|(name, value): (&str, Value)| (name.to_owned(), value))
        .into_iter()
        .chain(KEPT.into_iter().filter_map(kept)),
    );
    if !fields::is_on_gpus(case) {
        product.parameters.insert("threads", task.threads.into());
    } else if !is_pytorch(case) {
        // What a product takes of power, and so how fast it is, depends on the numbers.
        product.parameters.insert("data", "random".into());
    }
    product
}

/// Bytes of an element of both operands and of one of the result.
pub(super) fn matrices(dtype: Dtype) -> u64 {
    let result = match dtype {
        Dtype::I8 => Dtype::I32,
        Dtype::F8E4M3 => Dtype::Bf16,
        other => other,
    };
    2 * dtype.bytes() + result.bytes()
}

/// Bytes that a product's matrices take.
pub(super) fn product_bytes(task: &Task) -> u64 {
    let side = task.size as u64;
    side.saturating_mul(side).saturating_mul(matrices(task.dtype))
}
