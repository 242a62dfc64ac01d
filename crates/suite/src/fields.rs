//! Fields that every benchmark takes (where it runs, how it is sampled), and what must hold of them.

use record::{About, Case, Caveat, Field, Kind, Problem, Shown};
use terms::{Bind, Mode, Named, Runtime};

use crate::Gate;

const fn field(name: &'static str, kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field { name, kind, default, unit: "", doc, shown: Shown::Setting, world: false, how: false }
}

fn backends() -> Vec<&'static str> {
    comm::BACKENDS.iter().map(|backend| backend.about().name).collect()
}

/// Ranks of a world.
pub const RANKS: Field = Field {
    shown: Shown::Always,
    world: true,
    ..field("ranks", Kind::Whole(1, 1024), Some("2"), "ranks: processes that take part")
};

/// The backend.
pub const BACKEND: Field = Field {
    shown: Shown::Always,
    world: true,
    ..field("backend", Kind::Word(backends), Some("shm"), "who moves the data (`rankmark list backends`)")
};

/// What torch.distributed may move data by.
pub(crate) const TORCH_BACKENDS: [&str; 4] = ["gloo", "nccl", "ucc", "mpi"];

fn all_backends() -> Vec<&'static str> {
    let mut names = backends();
    names.extend(TORCH_BACKENDS.iter().filter(|name| !backends().contains(name)));
    names
}

/// The backend, where the runtime may be PyTorch. Without one it is that of the runtime: `shm`, or `gloo`.
pub const ANY_BACKEND: Field = Field {
    default: None,
    kind: Kind::Word(all_backends),
    doc: "who moves the data (`rankmark list backends`; gloo and ucc are PyTorch's); shm, or gloo of PyTorch",
    ..BACKEND
};

/// Who executes the ranks, where that may be PyTorch.
pub const RUNTIME: &[Field] = &[
    world(
        "runtime",
        Kind::Word(Runtime::names),
        None,
        "native: this program (the default); pytorch: torch.distributed in your own Python",
    ),
    world("python", Kind::Text, None, "pytorch: path or name of the Python (default: python3)"),
];

/// The device.
pub const DEVICE: Field = Field {
    shown: Shown::Always,
    world: true,
    ..field("device", Kind::Word(|| vec!["cpu"]), Some("cpu"), "where buffers lie and work is done")
};

/// How calls are timed.
pub const MODE: Field = Field {
    shown: Shown::Always,
    ..field(
        "mode",
        Kind::Word(Mode::names),
        Some("streaming"),
        "streaming: calls back to back; isolated: one call from an agreed instant",
    )
};

/// Seed.
pub const SEED: Field =
    Field { shown: Shown::Always, ..field("seed", Kind::Whole(0, u32::MAX as u64), Some("1"), "seed of all inputs") };

/// The same field, as one that says how and not what.
pub(crate) const fn how(field: Field) -> Field {
    Field { how: true, ..field }
}

const fn world(name: &'static str, kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field { shown: Shown::WhenSet, world: true, ..field(name, kind, default, doc) }
}

/// What decides in which rank processes a case runs, where it differs from its default.
pub const WORLD: &[Field] = &[
    world(
        "bind",
        Kind::Word(Bind::names),
        None,
        "core: rank r pinned to core r modulo their number (so without this field, but for pytorch); none: anywhere",
    ),
    world("env", Kind::Texts, None, "NAME=value for the ranks' environment; repeats; recorded"),
    world("progress_thread", Kind::Bool, Some("false"), "operations run on a thread of the communicator's own"),
    world(
        "mpi_library",
        Kind::Text,
        None,
        "mpi: path or name of the library (a list: one world each); else the first found",
    ),
    world(
        "mpi_progress",
        Kind::Word(|| vec!["none", "poll"]),
        None,
        "mpi: none (the default): blocking calls; poll: calls that proceed whenever they are looked at",
    ),
    world(
        "mpi_tuned",
        Kind::Bool,
        None,
        "mpi: settings that make the library faster here (docs/mpi.md); else as installed",
    ),
    world("mpi_collectives", Kind::Word(|| vec!["default", "ucc"]), None, "mpi: whose algorithms Open MPI uses"),
    world("pace_bandwidth", Kind::Bandwidth, None, "slow down to a link of this bandwidth"),
    world("pace_latency", Kind::Seconds, None, "slow down to a link of this latency"),
    world("link_bandwidth", Kind::Bandwidth, None, "sim: bandwidth of the modelled link"),
    world("link_latency", Kind::Seconds, None, "sim: latency of the modelled link"),
    world("noise", Kind::Ratio, None, "sim: standard deviation of the times' logarithm"),
    world("noise_seed", Kind::Whole(0, u32::MAX as u64), None, "sim: seed of the noise"),
    world("noise_correlation", Kind::Ratio, None, "sim: correlation of neighbouring times, below 100%"),
];

/// How a case is sampled, and what is expected of it. Not part of its identity, except for injected faults.
pub const SAMPLING: &[Field] = &[
    Field {
        shown: Shown::WhenSet,
        ..field(
            "inject",
            Kind::Texts,
            None,
            "inject a fault: delay, wrong, kill or stop, as KIND:key=value,...; repeats",
        )
    },
    field(
        "target_precision",
        Kind::Ratio,
        Some("2%"),
        "sample until the 95% interval of the median is within this share",
    ),
    field("max_seconds", Kind::Seconds, Some("5s"), "stop sampling a case after this long, with a caveat"),
    field("warmup", Kind::Whole(0, 10_000), None, "fixed number of warm-up samples, instead of until steady"),
    field("iters", Kind::Whole(6, 10_000), None, "fixed number of samples (six at least, for an interval)"),
    field("launches", Kind::Whole(1, 1000), Some("1"), "start the ranks anew this often, in random case order"),
    field("timeout", Kind::Seconds, Some("120s"), "a case that takes this long beyond its max_seconds has failed"),
    field("limits", Kind::Bool, Some("true"), "measure the machine's limit beside the case"),
    field("expect", Kind::Texts, None, "a gate such as 'busbw_gbs>=12': missed, the run exits 1; repeats"),
];

fn problem(field: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Problem {
    Problem { field, message: message.into(), hint: Some(hint.into()) }
}

/// Checks what every benchmark takes.
pub(crate) fn check(case: &mut Case, about: &About) -> Result<(), Problem> {
    check_injections(case)?;
    check_link(case)?;
    case.texts("expect").iter().try_for_each(|text| Gate::parse(text, about).map(drop))
}

fn check_injections(case: &mut Case) -> Result<(), Problem> {
    for text in case.texts("inject") {
        let injection: trace::Injection =
            text.parse().map_err(|message: String| problem("inject", message, trace::INJECTION_USAGE))?;
        if injection.rank >= case.ranks() {
            let message = format!("`{text}`: there is no rank {} among {}", injection.rank, case.ranks());
            return Err(problem("inject", message, "ranks count from 0"));
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

/// A pace needs its bandwidth; the noise of `sim` must be one that a stationary series can have.
fn check_link(case: &Case) -> Result<(), Problem> {
    if case.number("pace_latency").is_some() && case.number("pace_bandwidth").is_none() {
        return Err(problem("pace_latency", "a paced link needs a bandwidth", "add `pace_bandwidth: 10GB/s`"));
    }
    if case.number("noise_correlation").is_some_and(|correlation| correlation >= 1.0) {
        return Err(problem("noise_correlation", "the correlation must be below 100%", "for example 50%"));
    }
    for name in ["mpi_library", "mpi_progress", "mpi_tuned", "mpi_collectives"] {
        if case.text("backend") != Some("mpi") && case.value(name).is_some() {
            return Err(problem(name, format!("`{name}` is for the backend `mpi`"), "`backend: mpi`"));
        }
    }
    let simulated = comm::backend(case.text("backend").unwrap_or_default()).is_some_and(|b| b.about().simulated);
    for name in ["link_bandwidth", "link_latency", "noise", "noise_seed", "noise_correlation"] {
        if !simulated && case.value(name).is_some() {
            return Err(problem(name, format!("`{name}` is for simulated backends"), "`backend: sim`"));
        }
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
