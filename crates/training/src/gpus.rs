//! Training by native ranks on GPUs: what a case needs for it, what means nothing there, and the device.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use comm::Communicator;
use contract::failure;
use contract::fields::problem;
use contract::runtime::{PRODUCTS, is_on_gpus, is_pytorch};
use device::Region;
use device::cuda::{Event, Gpu};
use engine::Matmul;
use engine::cuda::{Arithmetic, Cublas, Cuda, Form, Operands, ProductError, Products, STEMS};
use measure::Failure;
use model::Layer;
use parallel::Trainer;
use record::Case;
use serde_json::Value;
use terms::{Dtype, FieldError, Space};

use super::fields::{Fields, MEMORY, Memory};
use super::resolve::Task;

/// How ranks compute on GPUs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OnGpus {
    /// cuBLAS's library, where one is named.
    library: Option<String>,
    is_tuned: bool,
}

impl OnGpus {
    /// Of a checked case; None where ranks compute on the host, or are PyTorch's.
    pub(super) fn of(case: &Case, fields: &Fields) -> Option<Self> {
        let ours = is_on_gpus(case) && !is_pytorch(case);
        ours.then(|| Self { library: fields.cublas_library.clone(), is_tuned: fields.tuned })
    }
}

/// Refuses fields that mean nothing on these ranks, and skips what GPUs have no kernels for.
///
/// # Errors
/// The first field that does not fit.
pub(super) fn check(case: &mut Case, task: &Task) -> Result<(), FieldError> {
    if is_pytorch(case) {
        return Ok(());
    }
    if task.gpus.is_none() {
        let stray = PRODUCTS.iter().find(|name| case.value(name).is_some_and(|value| *value != Value::Bool(false)));
        return match stray {
            Some(name) => Err(problem(name, format!("`{name}` is for native ranks on GPUs"), "`device: cuda`")),
            None => Ok(()),
        };
    }
    if task.threads > 1 {
        return Err(problem("threads", "training on GPUs takes no threads", "leave it out"));
    }
    if task.recipe.matmul != Matmul::Auto {
        return Err(problem(
            "matmul",
            "`fma` and `bf16x6` are ways of CPUs to multiply",
            "leave it out, or `device: cpu`",
        ));
    }
    if task.sleep.is_some() {
        return Err(problem("compute", "blocks sleep on ranks of the CPU", "`device: cpu`"));
    }
    let searches = Memory::of(&*case).is_ok_and(|memory| memory.find_max_batch && memory.limit.is_none());
    if case.benchmark == MEMORY && searches {
        let message = "a search on GPUs needs to know how much of one a rank may hold";
        return Err(problem("limit", message, "for example `limit: 70GiB`"));
    }
    let spatial = |layer: &Layer| {
        matches!(layer, Layer::Conv2d(_) | Layer::BatchNorm(_) | Layer::MaxPool(_) | Layer::AveragePool(_))
    };
    let mut nodes = task.recipe.model.blocks.iter().flat_map(|block| &block.nodes);
    if nodes.any(|node| spatial(&node.layer)) {
        let name = &task.recipe.model.name;
        case.skip = Some(format!(
            "native ranks have no convolutions on GPUs: {name} trains on the CPU, and on GPUs by `runtime: pytorch`"
        ));
    }
    Ok(())
}

/// A rank's GPU, ready for programs.
pub(super) struct Prepared {
    pub(super) gpu: Arc<Gpu>,
    pub(super) cuda: Cuda,
    library: Arc<Cublas>,
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

impl Prepared {
    /// Opens cuBLAS and loads the kernels.
    ///
    /// # Errors
    /// What this machine lacks; what the driver or the library says.
    pub(super) fn new(given: &OnGpus, comm: &mut dyn Communicator) -> Result<Self, Failure> {
        let own = comm.alloc_private(64, Space::Cuda).map_err(failure)?;
        let none = || Failure::new("the backend gave memory of the host where a GPU's was asked for");
        let gpu = own.gpu().ok_or_else(none)?.clone();
        let library = given.library.as_deref();
        let library = Cublas::found(comm::chosen_library(library, STEMS), library, &gpu).map_err(refused)?;
        let cuda = Cuda::new(&gpu, &library, given.is_tuned).map_err(of_engine)?;
        Ok(Self { gpu, cuda, library })
    }

    /// What the record has of how it computes.
    pub(super) fn about(&self, trainer: &Trainer) -> BTreeMap<String, String> {
        let of_step = trainer.about().into_iter().map(|(name, value)| (name.to_owned(), value));
        of_step.chain([("cublas".to_owned(), self.library.version())]).collect()
    }

    /// Operations a second of a large product in this precision, by the fastest of cuBLAS's algorithms, at the clocks of long work; and
    /// what it was. None of a device that is a stand-in: its times say nothing.
    ///
    /// # Errors
    /// What the driver or the library says.
    pub(super) fn product_rate(&self, precision: Dtype) -> Result<Option<(f64, String)>, Failure> {
        if self.gpu.is_emulated() {
            return Ok(None);
        }
        let Some(arithmetic) = Arithmetic::of(precision, false) else { return Ok(None) };
        let side = if precision.bytes() == 2 { WIDE } else { NARROW };
        let rate = rate(&self.gpu, &self.library, arithmetic, side).map_err(refused)?;
        Ok(Some((rate, format!("cuBLAS {}, {precision} {side} x {side} x {side}", self.library.version()))))
    }
}

/// Sides of the product whose rate is the peak: of tensor cores, and of what is slower.
const WIDE: usize = 8192;
const NARROW: usize = 4096;
/// Seconds in which a device comes to the clocks of long work.
const WARM_S: f64 = 0.3;
/// Products that are timed at once, and how often: the fastest counts.
const TIMED: usize = 5;
const REPEATED: usize = 3;

fn rate(gpu: &Arc<Gpu>, library: &Arc<Cublas>, arithmetic: Arithmetic, side: usize) -> Result<f64, ProductError> {
    let products = Products::new(gpu, library, true)?;
    let bytes = side * side * arithmetic.operand().bytes() as usize;
    let matrices = [Region::cuda(gpu, bytes)?, Region::cuda(gpu, bytes)?, Region::cuda(gpu, bytes)?];
    let [a, b, c] = &matrices.each_ref().map(|matrix| matrix.whole());
    // Bits of random numbers around one: a product of zeros needs less power, and would run at higher clocks.
    for (seed, matrix) in [(1, a), (2, b)] {
        matrix.write(&random(arithmetic.operand(), side * side, seed))?;
    }
    let form = Form::new(arithmetic, [side; 3]);
    let operands = Operands { a, b, c, bias: None, auxiliary: None };
    let multiply = || products.multiply(&form, &operands, None);
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < WARM_S {
        multiply()?;
        gpu.synchronise()?;
    }
    let (begin, end) = (Event::timed(gpu)?, Event::timed(gpu)?);
    let mut least_ns = f64::INFINITY;
    for _ in 0..REPEATED {
        begin.record()?;
        (0..TIMED).try_for_each(|_| multiply())?;
        end.record()?;
        gpu.synchronise()?;
        least_ns = least_ns.min(end.since(&begin)? / TIMED as f64);
    }
    Ok(2.0 * (side as f64).powi(3) / (least_ns * 1e-9))
}

/// Numbers in (-1, 1), in the bytes of their type.
fn random(dtype: Dtype, count: usize, seed: u64) -> Vec<u8> {
    let number = |at: usize| (model::mix(seed << 40 ^ at as u64) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
    let mut bytes = Vec::with_capacity(count * dtype.bytes() as usize);
    for at in 0..count {
        match dtype {
            Dtype::F64 => bytes.extend(number(at).to_ne_bytes()),
            Dtype::Bf16 => bytes.extend(half::bf16::from_f64(number(at)).to_ne_bytes()),
            Dtype::F16 => bytes.extend(half::f16::from_f64(number(at)).to_ne_bytes()),
            _ => bytes.extend((number(at) as f32).to_ne_bytes()),
        }
    }
    bytes
}
