//! Attention of a program by cuDNN, where that was chosen; and what it is chosen by: the time of both.

use std::sync::Arc;

use device::cuda::{Event, Gpu};
use half::{bf16, f16};
use terms::Dtype;

use super::errors::{refused, region};
use crate::cuda::{CudnnAttention, CudnnDevice, CudnnPass, DeviceContext, ProductError, Train};
use crate::op::{Attention, Dense, Op};
use crate::{Category, Error, Lifetime, Memory, Program, View};

terms::named! {
    /// Which kernels compute attention on a GPU.
    pub enum Attends("attention kernels") {
        /// The faster of both, as a rank measured them.
        Fastest = "fastest",
        /// Ours: the same bits every time.
        Own = "own",
        /// cuDNN's, whose gradients may have other bits each time.
        Cudnn = "cudnn",
    }
}

/// Passes that are planned.
#[derive(Debug)]
pub(super) struct ByCudnn {
    planned: Vec<CudnnAttention>,
}

/// What an operation is a pass of.
fn pass(op: &Dense) -> Option<(&Attention, CudnnPass)> {
    match op {
        Dense::AttentionForward(forward) => Some((forward, CudnnPass::Forward)),
        Dense::AttentionBackward { forward, .. } => Some((forward, CudnnPass::Backward)),
        Dense::MatMul(_) => None,
    }
}

impl ByCudnn {
    /// All of a program.
    pub(super) fn plan(program: &Program, memory: &Memory, device: &Arc<CudnnDevice>) -> Result<Self, Error> {
        let mut all = Self { planned: Vec::new() };
        for (_, op) in program.operations(0..program.instructions.len()) {
            let Op::Dense(op) = op else { continue };
            if let Some((forward, pass)) = pass(op).filter(|_| all.planned_for(op, memory).is_none()) {
                let planned = CudnnAttention::plan(device, forward, memory.dtype(forward.qkv), pass);
                all.planned.push(planned.map_err(refused)?);
            }
        }
        Ok(all)
    }

    /// The library's version, where anything was planned.
    pub(super) fn version(&self) -> Option<String> {
        self.planned.first().map(CudnnAttention::version)
    }

    /// What runs an operation.
    pub(super) fn planned_for(&self, op: &Dense, memory: &Memory) -> Option<&CudnnAttention> {
        self.planned.iter().find(|planned| planned.fits(op, memory))
    }
}

/// Nanoseconds of a forward and a backward pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionTimes {
    /// Nanoseconds of our kernels.
    pub own_ns: f64,
    /// Nanoseconds of cuDNN's kernels.
    pub cudnn_ns: f64,
}

/// Passes that are timed at once, and in how many rounds, interleaved: the fastest of each counts.
const PASSES: usize = 4;
const ROUNDS: usize = 5;

/// Times both; or says why not: either has no kernel for it, or the device is a stand-in.
pub(super) fn compare(
    gpu: &Arc<Gpu>,
    train: &Train,
    device: &Arc<CudnnDevice>,
    (op, dtype): (&Attention, Dtype),
) -> Result<std::result::Result<AttentionTimes, String>, Error> {
    if gpu.is_emulated() {
        return Ok(Err("times of a stand-in say nothing".to_owned()));
    }
    let case = AttentionCase::new(gpu, op, dtype)?;
    let context = case.context();
    let planned = match ByCudnn::plan(&case.program, &case.memory, device) {
        Ok(planned) => planned,
        Err(Error::Lacking(why)) => return Ok(Err(why)),
        Err(error) => return Err(error),
    };
    for op in &case.passes {
        if let Err(error) = train.prepare(&Op::Dense(op.clone()), &context) {
            return uncompared(error).map(Err);
        }
    }
    let own = || case.passes.iter().try_for_each(|op| train.run(&Op::Dense(op.clone()), &context));
    let by_cudnn = || {
        case.passes.iter().try_for_each(|op| match planned.planned_for(op, &case.memory) {
            Some(planned) => planned.run(op, &context),
            None => Err(ProductError::Operation("a pass that was not planned".to_owned())),
        })
    };
    let ends = [Event::timed(gpu).map_err(refused)?, Event::timed(gpu).map_err(refused)?];
    let timed = |run: &dyn Fn() -> Result<(), ProductError>, passes: usize| -> Result<f64, ProductError> {
        ends[0].record()?;
        (0..passes).try_for_each(|_| run())?;
        ends[1].record()?;
        gpu.synchronise()?;
        Ok(ends[1].since(&ends[0])? / passes as f64)
    };
    let mut times = AttentionTimes { own_ns: f64::INFINITY, cudnn_ns: f64::INFINITY };
    // The first of each loads what it needs.
    for (round, passes) in [1].into_iter().chain([PASSES; ROUNDS]).enumerate() {
        let own_ns = timed(&own, passes).map_err(refused)?;
        let cudnn_ns = match timed(&by_cudnn, passes) {
            Ok(ns) => ns,
            Err(error) => return uncompared(error).map(Err),
        };
        if round > 0 {
            times = AttentionTimes { own_ns: times.own_ns.min(own_ns), cudnn_ns: times.cudnn_ns.min(cudnn_ns) };
        }
    }
    Ok(Ok(times))
}

/// Why one of both does not run it: a library may refuse what it planned only once it is given. What the driver says is an error.
fn uncompared(error: ProductError) -> Result<String, Error> {
    match error {
        ProductError::Unsupported(why) => Ok(why),
        error @ ProductError::Library { .. } => Ok(error.to_string()),
        error => Err(refused(error)),
    }
}

/// One attention in memory of its own.
struct AttentionCase {
    program: Program,
    memory: Memory,
    passes: [Dense; 2],
    scratch: device::Slice,
    step: device::Slice,
}

impl AttentionCase {
    fn new(gpu: &Arc<Gpu>, op: &Attention, dtype: Dtype) -> Result<Self, Error> {
        let Attention { batch, sequence, heads, kv_heads, head_width, .. } = *op;
        let rows = batch * sequence;
        let (packed, output) = (rows * (heads + 2 * kv_heads) * head_width, rows * heads * head_width);
        let mut program = Program::default();
        let mut buffer = |dtype, len| program.buffer(Category::Activation, Lifetime::Step, dtype, len);
        let [qkv, d_qkv] = [(); 2].map(|()| buffer(dtype, packed));
        let [out, d_output] = [(); 2].map(|()| buffer(dtype, output));
        let log_sum = buffer(Dtype::F32, rows * heads);
        let forward = Attention { qkv, output: out, log_sum, ..op.clone() };
        let backward = Dense::AttentionBackward { forward: forward.clone(), d_output, d_qkv };
        let passes = [Dense::AttentionForward(forward), backward];
        for pass in &passes {
            program.run(Op::Dense(pass.clone()));
        }
        let places = program.buffers.iter().map(|buffer| Ok(region(gpu, buffer.bytes())?.whole()));
        let memory = Memory::new(&program.buffers, places.collect::<Result<_, Error>>()?);
        for (view, seed) in [(qkv, 1), (d_output, 2)] {
            fill(&memory, view, seed)?;
        }
        let scratch = region(gpu, super::scratch(&program, true))?.whole();
        let step = region(gpu, 16)?.whole();
        Ok(Self { program, memory, passes, scratch, step })
    }

    fn context(&self) -> DeviceContext<'_> {
        let Self { memory, scratch, step, .. } = self;
        DeviceContext { memory, scratch, step, sorted: None, stream: None }
    }
}

/// Random numbers in (-1, 1): zeros need less power, and would run at higher clocks.
fn fill(memory: &Memory, view: View, seed: u64) -> Result<(), Error> {
    let number = |at: usize| (terms::mix(seed << 40 ^ at as u64) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
    let is_f16 = memory.dtype(view) == Dtype::F16;
    let bits = |at| match is_f16 {
        true => f16::from_f64(number(at)).to_bits(),
        false => bf16::from_f64(number(at)).to_bits(),
    };
    let bytes: Vec<u8> = (0..view.len).flat_map(|at| bits(at).to_ne_bytes()).collect();
    memory.slice(view).write(&bytes).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_refuses_to_run_its_plan_leaves_attention_to_our_kernels() {
        let (name, said) = ("CUDNN_STATUS_EXECUTION_FAILED".to_owned(), "no launch".to_owned());
        let failed = ProductError::Library { what: "cudnnBackendExecute", name, said };
        let why = uncompared(failed).unwrap();
        assert_eq!(why, "cudnnBackendExecute: CUDNN_STATUS_EXECUTION_FAILED (no launch)");
        assert_eq!(uncompared(ProductError::Unsupported("no engine".to_owned())).unwrap(), "no engine");
        assert!(uncompared(ProductError::Operation("not planned".to_owned())).is_err(), "a fault of this program");
    }
}
