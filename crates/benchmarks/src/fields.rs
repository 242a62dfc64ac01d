//! Fields that every benchmark takes (where it runs, how it is sampled), and what must hold of them.

use record::{About, Case, Caveat};
use terms::{Bind, Field, FieldError, Kind, Label, Mode, Named, Role, Runtime};

use crate::Gate;

/// Sections of help, behind the common options and what is measured. The common come before the rare.
pub(crate) mod groups {
    use terms::Group;

    const fn group(heading: &'static str, place: u8) -> Group {
        Group { heading, place }
    }

    pub(crate) const DIVISION: Group = group("How ranks divide the work", 2);
    pub(crate) const DIMENSIONS: Group = group("Dimensions of the model (default: the model's own)", 3);
    pub(crate) const SAMPLING: Group = group("Sampling, checks and faults", 4);
    pub(crate) const PROCESSES: Group = group("Rank processes", 5);
    pub(crate) const LINKS: Group = group("Slower links", 6);
    pub(crate) const PYTORCH: Group = group("PyTorch ranks (--runtime pytorch)", 7);
}

/// How a case is sampled. Its name is that of its member.
pub(crate) const fn setting(kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
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

/// Ranks of a world.
pub const RANKS: Field =
    world(Kind::Whole(1, 1024), Some("2"), "number of ranks: processes that take part").always().common();

/// The backend.
pub const BACKEND: Field = launch(Kind::Word(backends), Some("shm"), "what moves data between ranks").always().common();

/// What torch.distributed may move data by; behind `tl`, the transport of UCC.
pub(crate) const TORCH_BACKENDS: [&str; 7] = ["gloo", "nccl", "ucc", "ucc/tl/nccl", "ucc/tl/cuda", "ucc/tl/ucp", "mpi"];

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
pub(crate) const DEVICES: Field =
    Field { kind: Kind::Word(|| vec!["cpu", CUDA]), doc: "device that computes (cuda: by PyTorch)", ..DEVICE };

/// How calls are timed.
pub const MODE: Field =
    Field::new(Kind::Word(Mode::names), Some("streaming"), "calls back to back, or each by itself").always();

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
        pace_bandwidth: Option<f64> = world(Kind::Bandwidth, None, "slows down to a link of this bandwidth")
            .group(groups::LINKS),
        pace_latency: Option<f64> = world(Kind::Seconds, None, "slows down to a link of this latency")
            .group(groups::LINKS),
    }
}

/// Trials.
pub(crate) const TRIALS: Field =
    setting(Kind::Whole(1, 1000), None, "fixed number of trials (default: 6 to 42; alias launches)").common();

/// Time between trials.
pub(crate) const SPACING: Field = setting(Kind::Seconds, Some("1.6s"), "least time between starts of a case's trials");

/// A look instead of a measurement.
pub(crate) const QUICK: Field =
    setting(Kind::Bool, Some("false"), "makes three trials at once: a first look, no intervals").common();

/// What a case is compared with.
pub(crate) const LIMITS: Field = setting(
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
            "time beyond max_seconds, and beyond samples asked for by number, until a case fails",
        ),
        limits: String = LIMITS,
        expect: Vec<String> = setting(
            Kind::Texts,
            None,
            "gate, as in 'busbw_gbs>=12' (missed: exit 1); repeats",
        ),
    }
}

/// Threads that a rank computes with, where a benchmark computes.
pub(crate) const THREADS: Field =
    world(Kind::Whole(1, 1024), None, "threads that each rank computes with").always().common();

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

pub(crate) fn problem(field: &'static str, what: impl Into<String>, hint: impl Into<String>) -> FieldError {
    FieldError::new(field, what).hint(hint)
}

/// Checks what every benchmark takes.
pub(crate) fn check(case: &mut Case, about: &About) -> Result<(), FieldError> {
    let (world, sampling) = (World::of(case)?, Sampling::of(case)?);
    let backend = Common::of(case)?.backend.unwrap_or_default();
    check_environment(&world)?;
    check_injections(case, &sampling)?;
    check_pace(&world)?;
    check_own(case, &world, &backend)?;
    sampling.expect.iter().try_for_each(|text| Gate::parse(text, about).map(drop))
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

fn check_injections(case: &mut Case, sampling: &Sampling) -> Result<(), FieldError> {
    for text in &sampling.inject {
        let injection: trace::Injection =
            text.parse().map_err(|message: String| problem("inject", message, trace::INJECTION_USAGE))?;
        if injection.rank >= case.ranks() {
            let message = format!("`{text}`: there is no rank {} among {}", injection.rank, case.ranks());
            return Err(problem("inject", message, "ranks count from 0"));
        }
        let in_phase = matches!(injection.kind, trace::InjectionKind::Slow { .. });
        if in_phase && !crate::training::has_phases(case) {
            let message = format!("`{text}`: only native ranks that train have phases");
            return Err(problem("inject", message, "without `phase`, every operation of the rank is delayed"));
        }
        let ends_process = matches!(injection.kind, trace::InjectionKind::Kill | trace::InjectionKind::Stop);
        if ends_process && crate::is_in_process(case) {
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
    let given = comm::own_of(backend, &case.parameters);
    let mut own = given.clone();
    backend.check(&mut own, &world.env)?;
    for (name, value) in own.into_iter().filter(|(name, value)| given.get(name) != Some(value)) {
        case.parameters.insert(name, value);
    }
    Ok(())
}

/// Parameters in their declared order, whoever added them when.
pub(crate) fn reorder(case: &mut Case, about: &About) {
    let mut rest = std::mem::take(&mut case.parameters);
    for field in about.all_fields() {
        if let Some(value) = rest.shift_remove(field.name) {
            case.parameters.insert(field.name.to_owned(), value);
        }
    }
    case.parameters.extend(rest);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value;

    use super::*;

    fn cases(entry: &str) -> Result<Vec<Case>, String> {
        let text = format!("experiment: fields\ncases:\n  - {{benchmark: collective, {entry}}}\n");
        let plan = record::plan::read(&text, "plan.yaml", &crate::abouts(), &[]);
        plan.map(|plan| plan.cases).map_err(|errors| errors.to_string())
    }

    /// What NCCL may choose from: algorithms, protocols.
    const CHOICES: [&str; 2] = ["nccl_algo", "nccl_proto"];

    fn choices(cases: &[Case]) -> Vec<[&str; 2]> {
        cases.iter().map(|case| CHOICES.map(|field| case.text(field).unwrap_or_default())).collect()
    }

    /// Crates that know no benchmark read them of any case.
    #[test]
    fn a_field_that_benchmarks_share_is_of_one_kind() {
        let of = |name: &'static str| {
            let declared = crate::abouts().into_iter().flat_map(record::About::all_fields);
            declared.filter(move |field| field.name == name).map(|field| field.kind.name())
        };
        for name in record::SHARED_FIELDS {
            let kinds: HashSet<&str> = of(name).collect();
            // Many words are a text, and read alike.
            let kinds: HashSet<&str> =
                kinds.into_iter().map(|kind| if kind == "word" { "text" } else { kind }).collect();
            assert_eq!(kinds.len(), 1, "{name}: {kinds:?}");
        }
    }

    /// Help and pages promise how many trials a case takes.
    #[test]
    fn the_promised_number_of_trials_is_the_rules() {
        let [fewest, most] = [stats::FEWEST_TRIALS, stats::MOST_TRIALS];
        assert!(TRIALS.doc.contains(&format!("(default: {fewest} to {most};")), "{}", TRIALS.doc);
        let page = include_str!("../../../docs/method.md");
        assert!(page.contains(&format!("{most} trials. A case also ends")), "docs/method.md");
    }

    #[test]
    fn an_environment_is_names_with_values() {
        let kept = |entry: &str| cases(entry).map(|cases| cases[0].texts("env"));
        assert_eq!(kept("env: [A_1=x=y, _B=]"), Ok(vec!["A_1=x=y".to_owned(), "_B=".to_owned()]));
        for wrong in ["NOEQUALS", "=value"] {
            let why = kept(&format!("env: [A=1, {wrong}]")).unwrap_err();
            assert!(why.contains(&format!("`env` takes NAME=value, not `{wrong}`")), "{why}");
            assert!(why.contains("--env NCCL_DEBUG=INFO"), "{why}");
        }
        let why = kept("env: [PMIX_SECURITY_KEY=x]").unwrap_err();
        assert!(why.contains("would put a secret into the record"), "{why}");
    }

    #[test]
    fn choices_of_nccl_multiply_and_each_has_its_world() {
        let cases = cases("backend: nccl, nccl: {algo: [ring, 'Tree,nvls'], proto: [LL, ^ll128]}").unwrap();
        let expected = [["Ring", "LL"], ["Ring", "^LL128"], ["Tree,NVLS", "LL"], ["Tree,NVLS", "^LL128"]];
        assert_eq!(choices(&cases), expected);
        for name in CHOICES {
            assert!(cases.iter().all(|case| case.world.get(name) == case.parameters.get(name)), "{name}");
        }
        let worlds: HashSet<String> = cases.iter().map(|case| Value::from(case.world.clone()).to_string()).collect();
        let identities: HashSet<&String> = cases.iter().map(|case| &case.id).collect();
        assert_eq!((worlds.len(), identities.len()), (4, 4));
    }

    #[test]
    fn choices_of_nccl_are_flags_have_one_spelling_and_are_absent_otherwise() {
        let flags = |fields: &[(&str, &str)]| {
            let fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            record::plan::from_flags(crate::abouts()[0], &fields, &[]).unwrap().cases
        };
        let two = flags(&[("backend", "nccl"), ("nccl-algo", "Ring,allreduce:tree"), ("nccl-proto", "simple")]);
        assert_eq!(choices(&two), [["Ring", "Simple"], ["AllReduce:Tree", "Simple"]]);
        assert_eq!(choices(&flags(&[("backend", "nccl"), ("nccl_algo", "ring,RING")])), [["Ring", ""]], "one case");
        let plain = flags(&[("backend", "nccl")]);
        assert!(CHOICES.iter().all(|field| plain[0].value(field).is_none() && !plain[0].world.contains_key(*field)));
    }

    #[test]
    fn choices_of_nccl_are_for_nccl_of_any_runtime_and_are_said_once() {
        let torch = "runtime: pytorch, backend: nccl, nccl: {algo: Tree}, env: [NCCL_DEBUG=INFO]";
        assert_eq!(choices(&cases(torch).unwrap()), [["Tree", ""]]);
        for (entry, said) in [
            ("backend: shm, nccl: {algo: Ring}", "`nccl_algo` is for the backend `nccl`"),
            ("backend: mpi, nccl: {proto: LL}", "`nccl_proto` is for the backend `nccl`"),
            ("backend: gloo, nccl: {proto: LL}", "`nccl_proto` is for the backend `nccl`"),
            ("backend: nccl, nccl: {algo: Rings}", "did you mean `Ring`?"),
            ("backend: nccl, nccl: {proto: Ring}", "`env: [NCCL_PROTO=...]`"),
            ("backend: nccl, nccl: {proto: LL}, env: [A=1, NCCL_PROTO=LL]", "`nccl_proto` sets NCCL_PROTO"),
        ] {
            let why = cases(entry).unwrap_err();
            assert!(why.contains(said), "{entry}: {why}");
        }
    }
}
