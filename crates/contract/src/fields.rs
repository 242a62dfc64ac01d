//! Fields that every benchmark takes (where it runs, how it is sampled), and what must hold of them.

use record::{About, Case, Caveat};
use terms::{Bind, Field, FieldError, Kind, Label, Mode, Named, Role, Runtime};

use crate::gate::Gate;
use crate::runtime::{has_model, is_in_process};

/// Sections of help, behind the common options and what is measured. The common come before the rare.
pub mod groups {
    use terms::Group;

    const fn group(heading: &'static str, place: u8) -> Group {
        Group { heading, place }
    }

    /// How the work is divided.
    pub const DIVISION: Group = group("How ranks divide the work", 2);
    /// What a model consists of.
    pub const DIMENSIONS: Group = group("Dimensions of the model (default: the model's own)", 3);
    /// How a case is sampled, checked and disturbed.
    pub const SAMPLING: Group = group("Sampling, checks and faults", 4);
    /// Which processes run the ranks.
    pub const PROCESSES: Group = group("Rank processes", 5);
    /// Links that are slowed down.
    pub const LINKS: Group = group("Slower links", 6);
    /// What the trace of a job had, where a plan is made of one.
    pub const JOB: Group = group("From the trace of a job (rankmark import --as plan)", 6);
    /// What multiplies on GPUs, and how.
    pub const GPUS: Group = group("Computation on GPUs (--device cuda)", 7);
    /// What PyTorch's ranks alone understand.
    pub const PYTORCH: Group = group("PyTorch ranks (--runtime pytorch)", 8);
}

/// How a case is sampled. Its name is that of its member.
pub const fn setting(kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field::new(kind, default, doc).role(Role::Sampling).group(groups::SAMPLING)
}

/// A condition that ranks are started under.
const fn world(kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field::new(kind, default, doc).role(Role::World).group(groups::PROCESSES)
}

/// Who runs the ranks and moves the data.
const fn launch(kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field::new(kind, default, doc).role(Role::Launch).group(groups::PROCESSES)
}

fn backends() -> Vec<&'static str> {
    comm::backends().map(|backend| backend.about().name).collect()
}

/// Ranks that can be started.
pub const MOST_STARTED: u32 = 1024;
/// Ranks that a model computes the times of.
pub const MOST_MODELLED: u32 = 65_536;

/// Ranks of a world.
pub const RANKS: Field =
    world(Kind::Whole(1, MOST_MODELLED as u64), Some("2"), "number of ranks: processes that take part")
        .always()
        .common();

/// The backend.
pub const BACKEND: Field = launch(Kind::Word(backends), Some("shm"), "what moves data between ranks").always().common();

/// What torch.distributed may move data by; behind `tl`, the transport of UCC.
pub const TORCH_BACKENDS: [&str; 7] = ["gloo", "nccl", "ucc", "ucc/tl/nccl", "ucc/tl/cuda", "ucc/tl/ucp", "mpi"];

fn all_backends() -> Vec<&'static str> {
    let mut names = backends();
    names.extend(TORCH_BACKENDS.iter().filter(|name| !backends().contains(name)));
    names
}

/// The backend, where the runtime may be PyTorch. Without one it is that of the runtime: `shm`, or `gloo`.
pub const ANY_BACKEND: Field = Field {
    default: None,
    kind: Kind::Word(all_backends),
    doc: "what moves data (shm; PyTorch: gloo, on GPUs nccl)",
    ..BACKEND
};

record::fields! {
    /// Who executes the ranks, where that may be PyTorch.
    pub struct Execution {
        runtime: Option<Runtime> = launch(
            Kind::Word(Runtime::names),
            None,
            "what executes the ranks (default: native, this program)",
        )
        .common(),
        python: Option<String> = launch(Kind::Text, None, "path or name of the Python that has torch (default: python3)")
            .owner("pytorch")
            .loads()
            .group(groups::PYTORCH)
            .label(Label::Quiet),
    }
}

/// The device.
pub const DEVICE: Field =
    world(Kind::Word(|| vec!["cpu"]), Some("cpu"), "device that holds the buffers and computes").always();

/// What PyTorch's ranks alone compute on.
pub const CUDA: &str = "cuda";

/// The device, where PyTorch's ranks may have GPUs.
pub const DEVICES: Field =
    Field { kind: Kind::Word(|| vec!["cpu", CUDA]), doc: "device that holds the buffers and computes", ..DEVICE };

/// How calls are timed.
pub const MODE: Field =
    Field::new(Kind::Word(modes), Some("streaming"), "calls back to back, or each by itself").always();

/// Modes of every benchmark. A chain of calls is for what serving calls between products.
fn modes() -> Vec<&'static str> {
    [Mode::Streaming, Mode::Isolated].map(Named::name).to_vec()
}

/// Mode, of a benchmark whose calls can be in a chain.
pub const CHAIN_MODE: Field = Field {
    kind: Kind::Word(Mode::names),
    doc: "calls back to back, each by itself, or in a chain as serving decodes tokens",
    ..MODE
};

/// What ranks do between the calls of a chain.
pub const COMPUTE_S: Field =
    Field::new(Kind::Seconds, None, "decode: time that each rank computes before a call (default: 20us)")
        .label(Label::Around("{} of computing before each call"));

/// Seconds of it, where none are given: about the products of a layer for one token.
const CHAIN_COMPUTE_S: f64 = 20e-6;

/// What each rank computes between the calls of a chain, in seconds.
///
/// # Errors
/// Where calls are in none.
pub fn chain_compute(mode: Mode, given: Option<f64>) -> Result<Option<f64>, FieldError> {
    match given {
        Some(_) if mode != Mode::Decode => {
            Err(problem("compute_s", "`compute_s` is the time between two calls of a chain", "add `mode: decode`"))
        }
        None if mode == Mode::Decode => Ok(Some(CHAIN_COMPUTE_S)),
        given => Ok(given),
    }
}

/// Nanoseconds that a rank computes before each call of a chain.
pub fn chain_compute_ns(compute_s: Option<f64>) -> u64 {
    (compute_s.unwrap_or(0.0) * 1e9) as u64
}

/// Seed.
pub const SEED: Field = Field::new(Kind::Whole(0, u32::MAX as u64), Some("1"), "seed of all inputs")
    .always()
    .group(groups::SAMPLING)
    .label(Label::Quiet);

record::fields! {
    /// What decides in which rank processes a case runs, where it differs from its default.
    pub struct World {
        bind: Option<Bind> = launch(
            Kind::Word(Bind::names),
            None,
            "core: pins rank r to core r (default of native ranks)",
        )
        .label(Label::Around("bind {}")),
        env: Vec<String> = launch(Kind::Texts, None, "NAME=value in the environment of ranks; repeats; is recorded"),
        progress_thread: bool = launch(
            Kind::Bool,
            Some("false"),
            "runs operations on a thread of the communicator",
        ),
        pace_bandwidth: Option<f64> = world(Kind::Bandwidth, None, "slows down to a link of this bandwidth, on one host")
            .group(groups::LINKS),
        pace_latency: Option<f64> = world(Kind::Seconds, None, "slows down to a link of this latency, on one host")
            .group(groups::LINKS),
    }
}

/// Trials.
pub const TRIALS: Field =
    setting(Kind::Whole(1, 1000), None, "fixed number of trials (default: 6 to 42; alias launches)").common();

/// Time between trials.
pub const SPACING: Field = setting(Kind::Seconds, Some("1.6s"), "minimum time between starts of a case's trials");

/// A look instead of a measurement.
pub const QUICK: Field =
    setting(Kind::Bool, Some("false"), "makes three trials at once: a first look, no intervals").common();

/// What a case is compared with.
pub const LIMITS: Field = setting(
    Kind::Text,
    Some("true"),
    "measures the machine's limit with each case (true, false), or takes it from a record of `rankmark hardware`",
);

record::fields! {
    /// How a case is sampled, and what is expected of it. Not part of its identity, except for injected faults.
    pub struct Sampling {
        inject: Vec<String> = Field::new(
            Kind::Texts,
            None,
            "injects a fault (`rankmark list injections`); repeats",
        )
        .group(groups::SAMPLING),
        target_precision: f64 = setting(
            Kind::Ratio,
            Some("2%"),
            "target width of the median's 95% interval",
        ),
        max_seconds: f64 = setting(Kind::Seconds, Some("5s"), "most sampling time of a case, all trials together").common(),
        trials: Option<u32> = TRIALS,
        spacing: f64 = SPACING,
        quick: bool = QUICK,
        warmup: Option<u32> = setting(
            Kind::Whole(0, 10_000),
            None,
            "fixed number of warm-up samples in a trial",
        ),
        iters: Option<u32> = setting(Kind::Whole(1, 10_000), None, "fixed number of samples in each trial"),
        timeout: f64 = setting(
            Kind::Seconds,
            Some("120s"),
            "time after max_seconds and any samples asked for by number, until a case fails",
        ),
        limits: String = LIMITS,
        expect: Vec<String> = setting(
            Kind::Texts,
            None,
            "gate, as in 'busbw_gbs>=12' (missed: exit 1); repeats",
        ),
    }
}

/// Which of cuBLAS's algorithms multiplies.
pub const TUNED: Field =
    Field::new(Kind::Bool, Some("false"), "takes the fastest of up to 16 algorithms, not the library's first")
        .group(groups::GPUS)
        .role(Role::Implementation);
/// cuBLAS.
pub const CUBLAS_LIBRARY: Field =
    Field::new(Kind::Text, None, "libcublasLt.so, or a Python that has it (default: the loader's, then wheels)")
        .group(groups::GPUS)
        .role(Role::Launch)
        .loads();
/// cuDNN.
pub const CUDNN_LIBRARY: Field =
    Field::new(Kind::Text, None, "libcudnn.so, or a Python that has it (default: the loader's, then wheels)")
        .group(groups::GPUS)
        .role(Role::Launch)
        .loads();

/// Threads that a rank computes with, where a benchmark computes.
pub const THREADS: Field = world(Kind::Whole(1, 1024), None, "threads that each rank computes with").always().common();

record::fields! {
    /// What is read of a case whatever its benchmark. Each benchmark declares these fields itself, where its table has them.
    pub struct Common {
        ranks: u32 = RANKS,
        threads: Option<u32> = THREADS,
        backend: Option<String> = ANY_BACKEND,
        device: String = DEVICES,
        mode: Mode = MODE,
    }
}

/// A refusal of a field's value, with its hint.
pub fn problem(field: &'static str, what: impl std::fmt::Display, hint: impl std::fmt::Display) -> FieldError {
    FieldError::new(field, what).hint(hint)
}

/// What a case supports that most do not, as its benchmark says before the case can be read as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct Supports {
    /// Ranks of the case run phases of steps, which an injected fault can delay.
    pub phases: bool,
    /// Times of the case follow from its operation alone, where its backend has a model.
    pub models: bool,
}

/// Checks what every benchmark takes.
///
/// # Errors
/// The first field that is wrong, and why.
pub fn check(case: &mut Case, about: &About, supports: Supports) -> Result<(), FieldError> {
    let (world, sampling) = (World::of(case)?, Sampling::of(case)?);
    let backend = Common::of(case)?.backend.unwrap_or_default();
    check_ranks(case, supports.models)?;
    check_environment(&world)?;
    check_injections(case, &sampling, supports.phases)?;
    check_pace(&world)?;
    check_own(case, &world, &backend)?;
    sampling.expect.iter().try_for_each(|text| Gate::parse(text, about).map(drop))
}

/// No more ranks than can be started, unless none is.
fn check_ranks(case: &Case, is_modelled: bool) -> Result<(), FieldError> {
    let ranks = case.ranks();
    if ranks <= MOST_STARTED || (is_modelled && has_model(case)) {
        return Ok(());
    }
    let message = format!("{ranks} ranks: at most {MOST_STARTED} can be started");
    let hint = format!("times of collectives can be computed for up to {MOST_MODELLED} ranks: `backend: sim`");
    Err(problem("ranks", message, hint))
}

/// Variables of the ranks' environment: each a name and a value.
fn check_environment(world: &World) -> Result<(), FieldError> {
    for entry in &world.env {
        if entry.find('=').is_none_or(|end| end == 0) || entry.contains('\0') {
            let shown: String = entry.chars().take(64).collect();
            let message = format!("`env` takes NAME=value, not `{}`", shown.escape_debug());
            return Err(problem("env", message, "for example `--env NCCL_DEBUG=INFO`, or `env: [NCCL_DEBUG=INFO]`"));
        }
    }
    Ok(())
}

fn check_injections(case: &mut Case, sampling: &Sampling, has_phases: bool) -> Result<(), FieldError> {
    for text in &sampling.inject {
        let injection: trace::Injection =
            text.parse().map_err(|message: String| problem("inject", message, trace::INJECTION_USAGE))?;
        if injection.rank >= case.ranks() {
            let message = format!("`{text}`: there is no rank {} among {}", injection.rank, case.ranks());
            return Err(problem("inject", message, "ranks count from 0"));
        }
        let in_phase = matches!(injection.kind, trace::InjectionKind::Slow { .. });
        if in_phase && !has_phases {
            let message = format!("`{text}`: only native ranks that train have phases");
            return Err(problem("inject", message, "without `phase`, every operation of the rank is delayed"));
        }
        let ends_process = matches!(injection.kind, trace::InjectionKind::Kill | trace::InjectionKind::Stop);
        if ends_process && is_in_process(case) {
            return Err(problem("inject", format!("`{text}` needs ranks in processes of their own"), "`backend: shm`"));
        }
        if !case.caveats.contains(&Caveat::Injected) {
            case.caveats.push(Caveat::Injected);
        }
    }
    Ok(())
}

/// A pace needs its bandwidth.
fn check_pace(world: &World) -> Result<(), FieldError> {
    if world.pace_latency.is_some() && world.pace_bandwidth.is_none() {
        return Err(problem("pace_latency", "a paced link needs a bandwidth", "add `pace_bandwidth: 10GB/s`"));
    }
    Ok(())
}

/// Fields that one backend alone understands: given with another they would be passed over, so they are refused; its own
/// it checks itself.
fn check_own(case: &mut Case, world: &World, backend: &str) -> Result<(), FieldError> {
    for other in comm::backends().filter(|other| other.about().name != backend) {
        let name = other.about().name;
        if let Some(field) = other.fields().iter().find(|field| case.value(field.name).is_some()) {
            let message = format!("`{}` is for the backend `{name}`", field.name);
            return Err(problem(field.name, message, format!("`backend: {name}`")));
        }
    }
    let Some(backend) = comm::backend(backend) else { return Ok(()) };
    let given = comm::own_of(backend, |name| case.parameters.get(name));
    let mut own = given.clone();
    backend.check(&mut own, &world.env)?;
    for (name, value) in own.into_iter().filter(|(name, value)| given.get(name) != Some(value)) {
        case.parameters.insert(name, value);
    }
    Ok(())
}

/// Parameters in their declared order, whatever added them, and when.
pub fn reorder(case: &mut Case, about: &About) {
    let mut rest = std::mem::take(&mut case.parameters).to_map();
    for field in about.all_fields() {
        if let Some(value) = rest.shift_remove(field.name) {
            case.parameters.insert(field.name.to_owned(), value);
        }
    }
    case.parameters.extend(rest);
}
