//! Who executes the ranks: this program, or the user's Python. What follows from that for every benchmark that has both.

use comm::{GpuMemory, Options, Pace};
use record::{Case, Values};
use serde_json::Value;
use terms::{Bandwidth, Bind, FieldError, Named, Runtime, Seconds};

use crate::fields::{CUDA, Common, Execution, TORCH_BACKENDS, World, problem};

/// Whether the case's ranks are the user's Python, by torch.distributed.
pub fn is_pytorch(case: &Case) -> bool {
    Execution::of(case).is_ok_and(|execution| execution.runtime == Some(Runtime::Pytorch))
}

/// Whether the case's times are computed.
pub fn is_simulated(case: &Case) -> bool {
    backend_of(case).is_some_and(|backend| backend.about().simulated)
}

/// Whether the case's ranks must be threads of this process.
pub fn is_in_process(case: &Case) -> bool {
    backend_of(case).is_some_and(|backend| backend.about().in_process)
}

/// Whether a model computes the times of operations of the case's world, without its ranks.
pub fn has_model(case: &Case) -> bool {
    let model = |backend: &dyn comm::Backend| {
        let options = options_of(case, backend.about().name, false).ok()?;
        comm::model(backend.about().name, &options).ok()?
    };
    backend_of(case).is_some_and(|backend| model(backend).is_some())
}

/// How a world's backend is opened, from the world's fields.
///
/// # Errors
/// A field that cannot be read.
pub fn options_of(fields: &impl Values, backend: &str, oversubscribed: bool) -> Result<Options, FieldError> {
    let (world, gpus) = (World::of(fields)?, Common::of(fields)?.device == CUDA);
    let pace = pace_of(fields)?;
    let own =
        comm::backend(backend).map(|backend| comm::own_of(backend, |name| fields.value(name))).unwrap_or_default();
    Ok(Options { own, progress_thread: world.progress_thread, pace, oversubscribed, progress_core: None, gpus })
}

/// The link that a world's exchanges are slowed down to.
///
/// # Errors
/// A field that cannot be read.
pub fn pace_of(fields: &impl Values) -> Result<Option<Pace>, FieldError> {
    let world = World::of(fields)?;
    let latency = Seconds(world.pace_latency.unwrap_or(0.0));
    Ok(world.pace_bandwidth.map(|bandwidth| Pace { bandwidth: Bandwidth(bandwidth), latency }))
}

/// The backend of this program that moves the case's data; None where torch does.
pub fn backend_of(case: &Case) -> Option<&'static dyn comm::Backend> {
    comm::backend(&Common::of(case).ok()?.backend?).filter(|_| !is_pytorch(case))
}

/// Cores that the ranks of a world keep busy: one for each of their threads, and one more with a progress thread.
pub fn cores_wanted(ranks: u32, world: &impl record::Values) -> usize {
    let progress = World::of(world).is_ok_and(|world| world.progress_thread);
    let threads = Common::of(world).ok().and_then(|common| common.threads).unwrap_or(1);
    ranks as usize * (threads as usize + usize::from(progress))
}

/// Whether the case's buffers are in memory of GPUs.
pub fn is_on_gpus(case: &Case) -> bool {
    Common::of(case).is_ok_and(|common| common.device == CUDA)
}

/// What a benchmark's native ranks can have their buffers on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Native {
    /// The host's memory only.
    Host,
    /// Memory of GPUs, too, by a backend that allocates there.
    Gpus,
    /// Memory of GPUs, too, by a backend that allocates there and by backends of the host.
    GpusThroughHost,
}

impl Native {
    /// Whether they move memory of GPUs by this backend.
    fn moves_gpus_by(self, backend: &str) -> bool {
        match comm::backend(backend).map(comm::Backend::gpu_memory) {
            Some(GpuMemory::Itself) => self != Self::Host,
            Some(GpuMemory::ThroughHost) => self == Self::GpusThroughHost,
            Some(GpuMemory::Never) | None => false,
        }
    }
}

/// The backend of native ranks on GPUs, where no other is asked for.
const NCCL: &str = "nccl";

/// Settles runtime and backend where one follows from the other, or from the device: `gloo` and `ucc` are PyTorch's alone, and each
/// runtime has its own default. Native is what is meant where no runtime stands in the record. `torch` are the fields that
/// PyTorch's ranks alone understand: who gives one, or a Python, means those ranks on GPUs.
///
/// # Errors
/// A backend that the runtime does not have.
pub fn resolve(case: &mut Case, torch: &[&str], native: Native) -> Result<(), FieldError> {
    let asked = Execution::of(case)?.runtime;
    let backend = Common::of(case)?.backend;
    let has_torch_field = torch.iter().chain(&["python"]).any(|name| case.value(name).is_some());
    let moves_gpus = native != Native::Host && !has_torch_field;
    // Native ranks move nothing else by it.
    if backend.as_deref() == Some(NCCL) && asked != Some(Runtime::Pytorch) && moves_gpus && !is_on_gpus(case) {
        set(case, "device", Value::from(CUDA));
    }
    let on_gpus = is_on_gpus(case);
    let is_ours = match backend.as_deref() {
        None if on_gpus => moves_gpus,
        None => true,
        Some(name) if on_gpus => !has_torch_field && native.moves_gpus_by(name),
        Some(name) => comm::backend(name).is_some(),
    };
    let runtime = asked.unwrap_or(if is_ours { Runtime::Native } else { Runtime::Pytorch });
    let usual = match runtime {
        Runtime::Native if on_gpus => NCCL,
        Runtime::Native => "shm",
        Runtime::Pytorch if on_gpus => "nccl",
        Runtime::Pytorch => "gloo",
    };
    let backend = backend.unwrap_or_else(|| usual.to_owned());
    let known = match runtime {
        Runtime::Native => comm::backend(&backend).is_some(),
        Runtime::Pytorch => TORCH_BACKENDS.contains(&backend.as_str()),
    };
    if !known {
        let message = format!("runtime `{runtime}` has no backend `{backend}`");
        let hint = "each runtime has its own backends: leave one of the two fields out, or give each pair its own entry in a plan";
        return Err(problem("backend", message, hint).excluded_by("runtime"));
    }
    set(case, "backend", Value::from(backend.as_str()));
    match runtime {
        Runtime::Native => {
            case.parameters.shift_remove("runtime");
            case.world.shift_remove("runtime");
            // Beside `pytorch` in a list, it is for the other cases.
            if asked.is_some() {
                share_library(case, &backend)?;
                for name in torch.iter().chain(&["python"]) {
                    case.parameters.shift_remove(name);
                    case.world.shift_remove(name);
                }
            }
        }
        Runtime::Pytorch => {
            set(case, "runtime", Value::from(runtime.name()));
            // As torchrun starts ranks: on one core gloo's own threads and the rank's take turns, ten times as slow.
            if !case.parameters.contains_key("bind") {
                set(case, "bind", Value::from("none"));
            }
        }
    }
    Ok(())
}

/// Fields that native ranks alone understand that compute on GPUs.
pub const PRODUCTS: [&str; 4] = ["tuned", "attention", CUBLAS, CUDNN];
/// The field that names cuBLAS's library.
pub const CUBLAS: &str = "cublas_library";
/// The field that names cuDNN's library.
pub const CUDNN: &str = "cudnn_library";

/// As [`resolve`], of a benchmark whose native ranks multiply on GPUs, too; and what runtimes of a list share: native ranks use the
/// `libraries` of the Python beside them, and fields of native ranks are none of PyTorch's.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_products(case: &mut Case, torch: &[&str], libraries: &[&str]) -> Result<(), FieldError> {
    let Execution { runtime, python, .. } = Execution::of(case)?;
    resolve(case, torch, Native::GpusThroughHost)?;
    let was_asked = runtime.is_some();
    if is_pytorch(case) {
        for name in PRODUCTS.iter().filter(|_| was_asked) {
            case.parameters.shift_remove(name);
            case.world.shift_remove(name);
        }
        return Ok(());
    }
    if let Some(python) = python.filter(|_| was_asked && is_on_gpus(case)) {
        for name in libraries {
            if !case.parameters.contains_key(name) {
                set(case, name, Value::from(python.clone()));
            }
        }
    }
    Ok(())
}

/// Beside ranks of a Python, native ranks use the library that its torch uses: two in one table differ in who runs them only.
fn share_library(case: &mut Case, backend: &str) -> Result<(), FieldError> {
    let python = Execution::of(case)?.python;
    if let Some(python) =
        python.filter(|_| is_on_gpus(case) && backend == NCCL && !case.parameters.contains_key(LIBRARY))
    {
        set(case, LIBRARY, Value::from(python));
    }
    Ok(())
}

/// The field that names NCCL's library.
const LIBRARY: &str = "nccl_library";

/// A parameter that decides in which processes the case runs.
fn set(case: &mut Case, name: &str, value: Value) {
    case.parameters.insert(name.to_owned(), value.clone());
    case.world.insert(name.to_owned(), value);
}

/// Refuses fields of the other runtime; skips what its backend cannot do here. After [`resolve`].
///
/// # Errors
/// A field that the case's runtime does not have.
pub fn check(case: &mut Case, torch: &[&'static str], native: Native) -> Result<(), FieldError> {
    if !is_pytorch(case) {
        let stray = torch.iter().copied().chain(["python"]).find(|name| case.value(name).is_some());
        return match stray {
            Some(name) => Err(problem(name, format!("`{name}` is for runtime `pytorch`"), "`runtime: pytorch`")),
            None if !is_on_gpus(case) => Ok(()),
            None if native == Native::Host => {
                Err(problem("device", "native ranks compute on the CPU", "`runtime: pytorch` supports GPUs"))
            }
            None => check_native_gpus(case, native),
        };
    }
    if let Some(name) = PACES.into_iter().chain(own_fields(case)).find(|name| case.value(name).is_some()) {
        return Err(problem(name, format!("`{name}` is for runtime `native`"), "leave it out for `pytorch`"));
    }
    if World::of(case)?.progress_thread {
        let message = "`progress_thread` is for runtime `native`".to_owned();
        return Err(problem("progress_thread", message, "leave it out for `pytorch`"));
    }
    let Common { backend, device, .. } = Common::of(case)?;
    if backend.as_deref() == Some("nccl") && device == "cpu" {
        case.skip = Some("torch's nccl moves GPU memory only, but `device` is cpu".to_owned());
    }
    Ok(())
}

/// Fields that slow links down.
const PACES: [&str; 2] = ["pace_bandwidth", "pace_latency"];

/// Refuses what native ranks on GPUs do not do.
fn check_native_gpus(case: &Case, native: Native) -> Result<(), FieldError> {
    let backend = Common::of(case)?.backend.unwrap_or_default();
    if !native.moves_gpus_by(&backend) {
        let names = comm::backends().map(|backend| backend.about().name).filter(|name| native.moves_gpus_by(name));
        let by = names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let message = format!("native ranks move GPU memory with {by}, not with `{backend}`");
        return Err(problem("backend", message, "use one of these backends, or `device: cpu`"));
    }
    if World::of(case)?.progress_thread {
        let message = "`progress_thread` supports host memory only".to_owned();
        return Err(problem("progress_thread", message, "leave it out, or `device: cpu`"));
    }
    match PACES.into_iter().find(|name| case.value(name).is_some()) {
        Some(name) => Err(problem(name, format!("`{name}` can slow down links for host memory only"), "`device: cpu`")),
        None => Ok(()),
    }
}

/// Skips a case of torch with more threads than the core that its rank is bound to runs.
///
/// # Errors
/// A field that cannot be read.
pub fn check_threads(case: &mut Case) -> Result<(), FieldError> {
    let threads = Common::of(case)?.threads;
    if World::of(case)?.bind == Some(Bind::Core) && threads.is_some_and(|threads| threads > 1) {
        case.skip =
            Some("torch's threads would share the one core that a rank is bound to: use `bind: none`".to_owned());
    }
    Ok(())
}

/// Own fields of backends that PyTorch's ranks do not obey: all but those that a library reads from its environment, whichever program
/// opens it.
fn own_fields(case: &Case) -> impl Iterator<Item = &'static str> {
    let obeyed = |backend: &dyn comm::Backend, name: &str| {
        let own = comm::own_of(backend, |name| case.parameters.get(name))
            .into_iter()
            .filter(|(own, _)| own == name)
            .collect();
        !backend.environment(&own).is_empty()
    };
    comm::backends().flat_map(move |backend| {
        backend.fields().iter().map(|field| field.name).filter(move |name| !obeyed(backend, name))
    })
}
