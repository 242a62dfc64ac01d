//! Seeded products, sums and a training step again and again on each rank: the bits of what they leave must be the same each
//! time, and on all ranks of one kind. What differs is silent corruption.

use std::collections::BTreeMap;
use std::sync::Arc;

use comm::Communicator;
use contract::{Prepared, RankContext, Work, failure};
use engine::cuda::{Cublas, Cuda, ProductError, STEMS};
use engine::op::{Dense, MatMul, Rows, Update};
use engine::{Category, Device, Host, Lifetime, Loaded, Matmul, Memory, Op, Program, View};
use measure::{Failure, WrongReport};
use record::WrongElement;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use terms::{Dtype, Space, splitmix64};

use super::resolve::Task;

/// What a round computes: five products, a sum over rows, and the update of a training step.
pub(super) const OPERATIONS: u64 = 7;
/// What ranks found: the metric `results`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RoundResults {
    /// Operations of a round.
    pub(super) operations: u64,
    /// How each rank computed.
    pub(super) how: Vec<String>,
    /// Rounds by the digest of their results, by rank.
    pub(super) rounds: Vec<BTreeMap<String, u64>>,
}

/// Rows, inputs and inner features: some milliseconds on a core, and on a GPU.
const ON_HOST: [usize; 3] = [128, 256, 256];
const ON_GPU: [usize; 3] = [2048, 2048, 2048];
/// Learning rate: parameters change in most of their bits, and stay finite.
const RATE: f64 = 1e-3;
/// The boundaries of buffers.
const ALIGNED: usize = 256;

/// Buffers of a round that are written before it, or read after it.
struct Views {
    /// Inputs, and the first and the second layer, with the seed of what they hold and its size.
    written: [(View, u64, f32); 4],
    /// Both layers, the outputs, and the sums of their columns.
    read: [View; 4],
    control: View,
}

/// A training step of two layers, on inputs whose targets are subtracted.
fn program([rows, width, inner]: [usize; 3]) -> (Program, Views) {
    let mut program = Program::default();
    let mut buffer = |category, len| program.buffer(category, Lifetime::Persistent, Dtype::F32, len);
    let [x, targets] = [rows * width; 2].map(|len| buffer(Category::Input, len));
    let [first, second] = [width * inner; 2].map(|len| buffer(Category::Parameter, len));
    let [d_first, d_second] = [width * inner; 2].map(|len| buffer(Category::Gradient, len));
    let [hidden, d_hidden] = [rows * inner; 2].map(|len| buffer(Category::Activation, len));
    let [outputs, d_outputs] = [rows * width; 2].map(|len| buffer(Category::Activation, len));
    let sums = buffer(Category::Activation, width);
    let control = program.buffer(Category::Scalar, Lifetime::Persistent, Dtype::F64, 4);
    let product = |a, b, c, [m, n, k]: [usize; 3], [a_transposed, b_transposed]: [bool; 2]| {
        let padding = [0; 3];
        Dense::MatMul(MatMul { a, b, c, bias: None, m, n, k, padding, a_transposed, b_transposed, accumulate: false })
    };
    let update = |parameters, gradients| Update::Sgd {
        parameters,
        gradients,
        velocity: None,
        copy: None,
        control,
        rate: RATE,
        momentum: 0.0,
        clip: None,
    };
    let operations: [Op; 9] = [
        product(x, first, hidden, [rows, inner, width], [false, false]).into(),
        product(hidden, second, outputs, [rows, width, inner], [false, false]).into(),
        Rows::Add { a: outputs, b: targets, y: d_outputs }.into(),
        Rows::ColumnSum { x: outputs, y: sums, rows, accumulate: false }.into(),
        product(hidden, d_outputs, d_second, [inner, width, rows], [true, false]).into(),
        product(d_outputs, second, d_hidden, [rows, inner, width], [false, true]).into(),
        product(x, d_hidden, d_first, [width, inner, rows], [true, false]).into(),
        update(first, d_first).into(),
        update(second, d_second).into(),
    ];
    operations.into_iter().for_each(|op| program.run(op));
    let written = [(x, 1, 1.0), (targets, 2, 1.0), (first, 3, 0.05), (second, 4, 0.05)];
    (program, Views { written, read: [first, second, outputs, sums], control })
}

/// A number from -size to size that follows from seed and place: the same bits on every machine.
fn seeded_number(seed: u64, place: usize, size: f32) -> f32 {
    let bits = splitmix64(splitmix64(seed) ^ place as u64) >> 40;
    size * (bits as f32 / (1_u64 << 23) as f32 - 1.0)
}

/// A digest of bytes, on top of the one before them.
fn digest(before: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(before, |state, part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        splitmix64(state ^ u64::from_le_bytes(word))
    })
}

/// A case on one rank.
struct Results {
    rank: u32,
    loaded: Box<dyn Loaded>,
    views: Views,
    instructions: usize,
    flops: f64,
    seed: u64,
    /// How results are computed: equal words, equal bits.
    how: String,
    /// The digest of the first round, which all others must have.
    first: Option<u64>,
    /// Rounds by digest, since details were asked for.
    rounds: BTreeMap<u64, u64>,
    /// Rounds since the last refill that differ from the first of all.
    other: u64,
}

/// Makes the round ready on a host's cores or on a GPU.
pub(super) fn prepare(task: &Task, space: Space, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
    let cores = context.thread_cores(task.threads);
    let host = || Host::new(task.threads, &cores, Matmul::Auto).map_err(of_engine);
    if space == Space::Host {
        let name = engine::multiplier(Dtype::F32, Matmul::Auto).map(|multiplier| format!("{multiplier:?}"));
        let how = format!("{}, {} threads", name.unwrap_or_default(), task.threads);
        return made(task, context.rank, &host()?, ON_HOST, how);
    }
    let own = context.comm.alloc_private(64, Space::Cuda).map_err(failure)?;
    let gpu = own.gpu().ok_or_else(|| Failure::new("the backend gave host memory"))?.clone();
    let library = Cublas::found(comm::chosen_library(None, STEMS), None, &gpu).map_err(refused)?;
    let how = format!("{}, cuBLAS {}", gpu.name(), library.version());
    made(task, context.rank, &Cuda::new(&gpu, &library, false).map_err(of_engine)?, ON_GPU, how)
}

fn refused(error: ProductError) -> Failure {
    if error.is_lacking() { Failure::lacking(error.to_string()) } else { Failure::new(error.to_string()) }
}

fn of_engine(error: engine::Error) -> Failure {
    match error {
        engine::Error::Lacking(_) | engine::Error::Memory { .. } => Failure::lacking(error.to_string()),
        other => Failure::new(other.to_string()),
    }
}

fn made(
    task: &Task,
    rank: u32,
    device: &dyn Device,
    sizes: [usize; 3],
    how: String,
) -> Result<Box<dyn Prepared>, Failure> {
    let (program, views) = program(sizes);
    let program = Arc::new(program);
    let begins = program.buffers.iter().scan(0, |end, buffer| {
        let begin = *end;
        *end += buffer.bytes().next_multiple_of(ALIGNED);
        Some(begin)
    });
    let begins: Vec<usize> = begins.collect();
    let bytes = program.buffers.iter().map(|buffer| buffer.bytes().next_multiple_of(ALIGNED)).sum();
    let region = device.alloc(bytes).map_err(of_engine)?;
    let place = |(begin, buffer): (&usize, &engine::Buffer)| {
        region.slice(*begin, buffer.bytes()).ok_or_else(|| Failure::new("a buffer lies outside of its memory"))
    };
    let places = begins.iter().zip(&program.buffers).map(place).collect::<Result<Vec<_>, Failure>>()?;
    let memory = Memory::new(&program.buffers, places);
    let instructions = program.instructions.len();
    let flops = program.operations(0..instructions).map(|(_, op)| engine::flops(op)).sum();
    let loaded = device.load(&program, memory, task.seed).map_err(of_engine)?;
    let (first, rounds, seed) = (None, BTreeMap::new(), task.seed);
    let mut results = Results { rank, loaded, views, instructions, flops, seed, how, first, rounds, other: 0 };
    // SAFETY: no other work is given, and no exchange is in the program.
    unsafe {
        results.loaded.put::<f64>(results.views.control, |control| control.copy_from_slice(&[1.0, 0.0, 0.0, 0.0]))
    }
    .map_err(of_engine)?;
    Ok(Box::new(results))
}

impl Results {
    /// One round from the same numbers, and the digest of what it leaves.
    fn round(&mut self) -> Result<u64, engine::Error> {
        let seed = self.seed;
        for (view, own, size) in self.views.written {
            let fill = |values: &mut [f32]| {
                values
                    .iter_mut()
                    .enumerate()
                    .for_each(|(place, value)| *value = seeded_number(seed ^ (own << 32), place, size));
            };
            // SAFETY: work is given in order, and no exchange is in the program.
            unsafe { self.loaded.put::<f32>(view, fill)? };
        }
        let (pool, loaded, instructions) = (self.loaded.pool(), &mut self.loaded, self.instructions);
        // SAFETY: views of the program's operations do not overlap.
        pool.install(|| unsafe { loaded.run(0..instructions, 1) })?;
        let mut state = 0;
        for view in self.views.read {
            // SAFETY: as above.
            unsafe { self.loaded.read(view, &mut |bytes| state = digest(state, bytes))? };
        }
        Ok(state)
    }
}

impl Prepared for Results {
    fn run(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        let found = self.round().map_err(of_engine)?;
        self.other += u64::from(*self.first.get_or_insert(found) != found);
        *self.rounds.entry(found).or_default() += 1;
        Ok(())
    }

    /// Each round ends with reading what it left.
    fn launches(&self) -> bool {
        false
    }

    fn refill(&mut self) {
        self.other = 0;
    }

    /// All rounds of a rank must leave the same bits.
    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        let report = |index| WrongElement {
            rank: self.rank,
            index,
            expected: "the bits of the first round".to_owned(),
            got: "others".to_owned(),
        };
        let first = (self.other > 0).then(|| report(0)).into_iter().collect();
        Ok(WrongReport { count: self.other, compared: calls.max(1), first })
    }

    fn work(&self) -> Work {
        Work { flops: self.flops, max_calls: u64::MAX, checks: 1, ..Work::default() }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        self.how.clone()
    }

    /// Rounds by digest since it was last asked, and how they were computed.
    fn details(&mut self) -> Map<String, Value> {
        let rounds = std::mem::take(&mut self.rounds);
        let rounds = rounds.into_iter().map(|(digest, rounds)| (format!("{digest:016x}"), rounds.into()));
        Map::from_iter([
            ("rounds".to_owned(), Value::Object(rounds.collect())),
            ("how".to_owned(), self.how.clone().into()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(threads: usize, seed: u64) -> Results {
        let (program, views) = program([16, 32, 24]);
        let (program, instructions) = (Arc::new(program), 9);
        let host = Host::new(threads, &[], Matmul::Fma).unwrap();
        let places = program.buffers.iter().map(|buffer| host.alloc(buffer.bytes()).unwrap().whole()).collect();
        let memory = Memory::new(&program.buffers, places);
        let loaded = host.load(&program, memory, seed).unwrap();
        let (first, rounds, how) = (None, BTreeMap::new(), String::new());
        let mut made = Results { rank: 0, loaded, views, instructions, flops: 0.0, seed, how, first, rounds, other: 0 };
        // SAFETY: nothing runs.
        unsafe { made.loaded.put::<f64>(made.views.control, |control| control.copy_from_slice(&[1.0, 0.0, 0.0, 0.0])) }
            .unwrap();
        made
    }

    #[test]
    fn equal_rounds_leave_equal_bits_and_other_inputs_others() {
        let mut one = results(1, 5);
        let first = one.round().unwrap();
        assert!((0..5).all(|_| one.round().unwrap() == first));
        assert_eq!(results(1, 5).round().unwrap(), first, "another rank");
        assert_ne!(results(1, 6).round().unwrap(), first, "other inputs");
    }

    /// A bit of any buffer that operations read, or of a result, changes the digest.
    #[test]
    fn one_wrong_bit_shows() {
        let mut one = results(1, 5);
        let first = one.round().unwrap();
        for view in one.views.read {
            let mut state = 0;
            for other in one.views.read {
                let see = &mut |bytes: &[u8]| {
                    let mut bytes = bytes.to_vec();
                    if other == view {
                        bytes[5] ^= 1;
                    }
                    state = digest(state, &bytes);
                };
                // SAFETY: nothing runs.
                unsafe { one.loaded.read(other, see) }.unwrap();
            }
            assert_ne!(state, first, "{view:?}");
        }
    }

    #[test]
    fn the_step_changes_all_that_is_read() {
        let mut one = results(1, 5);
        one.round().unwrap();
        let own = one.views.read[0];
        let mut changed = 0;
        // SAFETY: nothing runs.
        unsafe {
            one.loaded.see::<f32>(own, |values| {
                let same = |(place, value): (usize, &f32)| {
                    value.to_bits() == seeded_number(5 ^ (3 << 32), place, 0.05).to_bits()
                };
                changed = values.iter().enumerate().filter(|one| !same(*one)).count();
                assert!(values.iter().all(|value| value.is_finite()));
            })
        }
        .unwrap();
        assert!(changed > own.len * 9 / 10, "{changed} of {}", own.len);
    }
}
