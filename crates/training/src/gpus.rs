//! Training by native ranks on GPUs: what a case needs for it, what means nothing there, and the device.

mod attention;
mod peak;

use std::collections::BTreeMap;
use std::sync::Arc;

use comm::Communicator;
use contract::failure;
use contract::fields::problem;
use contract::runtime::{PRODUCTS, is_on_gpus, is_pytorch};
use device::cuda::Gpu;
use engine::Matmul;
use engine::cuda::{Attends, AttentionTimes, CUDNN_STEMS, Cublas, Cuda, Cudnn, ProductError, STEMS};
use measure::Failure;
use model::Layer;
use parallel::Trainer;
use record::Case;
use serde_json::Value;
use terms::{FieldError, Space};

use super::fields::{Fields, MEMORY, MemoryHow};
use super::resolve::Task;

/// How ranks compute on GPUs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OnGpus {
    /// cuBLAS's library, where one is named.
    library: Option<String>,
    /// cuDNN's library, where one is named.
    cudnn: Option<String>,
    attends: Attends,
    is_tuned: bool,
}

impl OnGpus {
    /// How ranks of a checked case compute; None where they compute on the host, or are PyTorch's.
    pub(super) fn from_case(case: &Case, fields: &Fields) -> Option<Self> {
        let ours = is_on_gpus(case) && !is_pytorch(case);
        ours.then(|| Self {
            library: fields.cublas_library.clone(),
            cudnn: fields.cudnn_library.clone(),
            attends: fields.attention.unwrap_or_else(|| attention::unasked(case)),
            is_tuned: fields.tuned,
        })
    }

    /// Which kernels compute attention.
    pub(super) fn attends(&self) -> Attends {
        self.attends
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
        return Err(problem("threads", "training on GPUs does not use threads", "leave it out"));
    }
    if task.recipe.matmul != Matmul::Auto {
        return Err(problem("matmul", "`fma` and `bf16x6` are for products on CPUs", "leave it out, or `device: cpu`"));
    }
    if task.sleep.is_some() {
        return Err(problem("compute", "blocks can sleep on CPU ranks only", "`device: cpu`"));
    }
    let searches = MemoryHow::of(&*case).is_ok_and(|memory| memory.find_max_batch && memory.limit.is_none());
    if case.benchmark == MEMORY && searches {
        let message = "a search on GPUs needs the memory limit of a rank";
        return Err(problem("limit", message, "for example `limit: 70GiB`"));
    }
    Ok(())
}

/// What of cuDNN a rank opens.
enum FoundCudnn {
    /// Nothing else computes what it is for, or it was asked for by name.
    Needed(Arc<Cudnn>),
    /// Attention may take it or ours.
    OneWay(Arc<Cudnn>),
    /// Nothing; and why, where attention could have taken it.
    Without(Option<String>),
}

/// cuDNN, where convolutions or attention need it; where attention may use it, if it is there, or why it is not.
fn cudnn(given: &OnGpus, task: &Task, rank: u32) -> Result<FoundCudnn, Failure> {
    let mut nodes = task.recipe.model.blocks.iter().flat_map(|block| &block.nodes);
    let needs = match given.attends {
        _ if nodes.any(|node| matches!(node.layer, Layer::Conv2d(_))) => Some("convolutions on GPUs"),
        Attends::Cudnn => Some("kernels of attention by `cudnn`"),
        Attends::Fastest | Attends::Own => None,
    };
    let may = given.attends == Attends::Fastest
        && task.recipe.precision.bytes() == 2
        && attention::first_attention(task, rank).is_some();
    let name = given.cudnn.as_deref();
    match (needs, comm::chosen_library(name, CUDNN_STEMS)) {
        (Some(what), found) => Cudnn::found(found, name, what).map(FoundCudnn::Needed).map_err(refused),
        (None, found) if may => match Cudnn::found(found, name, "kernels of attention by `cudnn`") {
            Ok(library) if name.is_some() => Ok(FoundCudnn::Needed(library)),
            Ok(library) => Ok(FoundCudnn::OneWay(library)),
            // Named, it must be there.
            Err(error) if name.is_some() => Err(refused(error)),
            Err(error) => Ok(FoundCudnn::Without(Some(error.to_string()))),
        },
        (None, _) => Ok(FoundCudnn::Without(None)),
    }
}

/// A rank's GPU, ready for programs.
pub(super) struct Prepared {
    pub(super) gpu: Arc<Gpu>,
    pub(super) cuda: Cuda,
    library: Arc<Cublas>,
    attends: Attends,
    /// Where both were timed.
    attention_times: Option<AttentionTimes>,
    /// Why they were not, where the faster was to be taken.
    uncompared: Option<String>,
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
    /// Opens cuBLAS, and cuDNN where the task needs it, and loads the kernels.
    ///
    /// # Errors
    /// What this machine lacks; what the driver or the library says.
    pub(super) fn new(given: &OnGpus, task: &Task, rank: u32, comm: &mut dyn Communicator) -> Result<Self, Failure> {
        let own = comm.alloc_private(64, Space::Cuda).map_err(failure)?;
        let none = || Failure::new("the backend gave host memory where a GPU's was asked for");
        let gpu = own.gpu().ok_or_else(none)?.clone();
        let library = given.library.as_deref();
        let library = Cublas::found(comm::chosen_library(library, STEMS), library, &gpu).map_err(refused)?;
        let mut cuda = Cuda::new(&gpu, &library, given.is_tuned).map_err(of_engine)?.with_attention(given.attends);
        let uncompared = match cudnn(given, task, rank)? {
            FoundCudnn::Needed(library) => {
                cuda.open_cudnn(&library).map_err(refused)?;
                None
            }
            // It is one of two ways: ours are taken, and the record says why.
            FoundCudnn::OneWay(library) => cuda.open_cudnn(&library).err().map(|error| error.to_string()),
            FoundCudnn::Without(why) => why,
        };
        Ok(Self { gpu, cuda, library, attends: given.attends, attention_times: None, uncompared })
    }

    /// What the record has of how it computes.
    pub(super) fn about(&self, trainer: &Trainer) -> BTreeMap<String, String> {
        let of_step = trainer.about().into_iter().map(|(name, value)| (name.to_owned(), value));
        let cudnn = self.cuda.cudnn_version().map(|version| ("cudnn".to_owned(), version));
        let times = self.attention_times.map(|times| ("attention_times".to_owned(), attention::text(times)));
        let uncompared = self.uncompared.clone().map(|why| ("attention_uncompared".to_owned(), why));
        let libraries = [("cublas".to_owned(), self.library.version())].into_iter().chain(cudnn);
        let loaded = self.gpu.loading().to_string();
        of_step.chain(libraries).chain([("kernels_loaded".to_owned(), loaded)]).chain(times).chain(uncompared).collect()
    }
}
