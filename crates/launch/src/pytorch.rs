//! Ranks that are the user's own Python, running the package of `python/rankmark_worker`.
//!
//! A rank's process begins as this program, whatever started it and on whichever host, and becomes Python once it has its
//! invitation. The package travels in this program and reaches Python as inherited memory, so that nothing is installed
//! and no file is written. Its ranks and this program talk by `control`, which docs/explanation/pytorch-ranks.md describes.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use control::reach;
use measure::{Failure, Verdict, VerdictKind, WorldSpec};
use process::{keep_on_exec, sealed_memory};
use serde_json::{Map, Value};
use survey::python;
use terms::{Error, Runtime};

use crate::Environment;
use crate::rank::{argument, python_server_argument};
use crate::starter::Wishes;

/// Importing torch for the first time reads a gigabyte, once for all ranks and again on slow disks.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// What `python -c` runs.
const BOOT: &str = include_str!("../rankmark_worker/boot.py");

macro_rules! module {
    ($name:literal) => {
        (concat!("rankmark_worker.", $name), include_str!(concat!("../rankmark_worker/", $name, ".py")))
    };
}

/// Every module of the package, by the name that Python imports it under.
const MODULES: &[(&str, &str)] = &[
    ("rankmark_worker", include_str!("../rankmark_worker/__init__.py")),
    module!("auth"),
    module!("calls"),
    module!("channel"),
    module!("collective"),
    module!("device"),
    module!("fork_server"),
    module!("group"),
    module!("guardian"),
    module!("hardware"),
    module!("initial"),
    module!("inject"),
    module!("main"),
    module!("models"),
    module!("overlapped"),
    module!("pattern"),
    module!("primitive"),
    module!("process"),
    module!("product"),
    module!("random_floats"),
    module!("rank"),
    module!("replicas"),
    module!("startup"),
    module!("status"),
    module!("steps"),
    module!("synthetic"),
    module!("training"),
    module!("watch"),
    module!("xla"),
];

/// Whether the world's ranks are to be Python.
pub(crate) fn is_asked(spec: &WorldSpec) -> bool {
    let runtime = spec.fields.get("runtime").and_then(Value::as_str);
    runtime.and_then(|word| word.parse().ok()) == Some(Runtime::Pytorch)
}

/// Looks for the Python of the world's ranks, so that none of them is started in vain.
///
/// # Errors
/// [`VerdictKind::Lacking`] when there is no such Python here.
pub(crate) fn check(spec: &WorldSpec, search: &[PathBuf]) -> Result<(), Verdict> {
    let lacking = |what: String| Verdict::new(VerdictKind::Lacking, Error::new(what).hint(HINT));
    python(named(spec), search).map(drop).map_err(lacking)
}

const HINT: &str = "`--python PATH` names a Python that has torch";

pub(crate) fn named(spec: &WorldSpec) -> Option<&str> {
    spec.fields.get("python").and_then(Value::as_str)
}

/// Turns this process, a rank that has its invitation and its status page, into the Python that the world's ranks are to
/// be. Returns only when it cannot. `across`: where the coordinator listens, when ranks are on several hosts.
pub(crate) fn become_python(
    rank: u32,
    [invitation, status]: [&File; 2],
    spec: &WorldSpec,
    across: Option<SocketAddr>,
    environment: Environment<'_>,
) -> Failure {
    let path = match python(named(spec), &search(environment)) {
        Ok(path) => path,
        Err(message) => return Failure { error: Error::new(message).hint(HINT), lacking: true },
    };
    let failed = |what: &str, error: io::Error| Failure::new(format!("{what}: {error}"));
    let package = match package() {
        Ok(package) => package,
        Err(error) => return failed("handing over the Python package", error),
    };
    for file in [invitation, status, &package] {
        if let Err(error) = keep_on_exec(file) {
            return failed("handing over memory to Python", error);
        }
    }
    let mut command = boot(&path, &argument(rank, invitation.as_raw_fd(), status.as_raw_fd()), &package);
    // gloo would take the address that the host's own name stands for, which is loopback on many.
    if let Some(interface) = across.and_then(reach::toward)
        && environment(GLOO_INTERFACE).is_none()
    {
        command.env(GLOO_INTERFACE, interface);
    }
    failed(&format!("starting {}", path.display()), command.exec())
}

/// Turns this process into the Python that forks ranks on request from this socket. Returns only on failure, with the reason.
pub(crate) fn become_server(socket: &str, named: Option<&str>, environment: Environment<'_>) -> String {
    let path = match python(named, &search(environment)) {
        Ok(path) => path,
        Err(message) => return message,
    };
    match package().and_then(|package| keep_on_exec(&package).map(|()| package)) {
        Err(error) => format!("handing over the Python package: {error}"),
        Ok(package) => {
            let error = boot(&path, &python_server_argument(socket), &package).exec();
            format!("starting {}: {error}", path.display())
        }
    }
}

/// Whether ranks of this world can be forked. CUDA cannot be used in a fork of a process that has begun to, and libraries
/// read the cores that they may use when they are loaded.
pub(crate) fn can_be_forked(spec: &WorldSpec, wishes: &Wishes) -> bool {
    let on_cpu = spec.fields.get("device").is_none_or(|device| device == "cpu");
    is_asked(spec) && on_cpu && !wishes.bound
}

/// Where this process's programs are.
fn search(environment: Environment<'_>) -> Vec<PathBuf> {
    environment("PATH").iter().flat_map(std::env::split_paths).collect()
}

/// A Python that takes the package and becomes what the argument says.
fn boot(path: &Path, argument: &str, package: &File) -> Command {
    // Its own name: by it a Python finds its virtual environment.
    let mut command = Command::new(path);
    command.arg("-c").arg(BOOT).arg(argument).arg(package.as_raw_fd().to_string());
    // What `-P` says, for what this Python starts, too. Pythons before 3.11 know neither, and would refuse the option: the
    // first lines of the boot file do the same.
    command.env(SAFE_PATH, "1");
    command
}

/// Keeps Python from looking for modules in the working folder.
const SAFE_PATH: &str = "PYTHONSAFEPATH";

/// By which interface gloo reaches other hosts.
const GLOO_INTERFACE: &str = "GLOO_SOCKET_IFNAME";

/// The package as one JSON object, in memory that ranks can inherit.
fn package() -> io::Result<File> {
    let modules: Map<String, Value> =
        MODULES.iter().map(|(name, text)| ((*name).to_owned(), Value::from(*text))).collect();
    let bytes = serde_json::to_vec(&modules)?;
    let memory = sealed_memory(c"rankmark-worker", bytes.len() as u64)?;
    memory.write_all_at(&bytes, 0)?;
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_is_whole() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/rankmark_worker");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok()?.strip_suffix(".py").map(str::to_owned))
            .filter(|name| name != "boot")
            .collect();
        files.sort();
        let mut modules: Vec<&str> = MODULES.iter().map(|(name, _)| *name).collect();
        modules.iter_mut().for_each(|name| *name = name.strip_prefix("rankmark_worker.").unwrap_or("__init__"));
        modules.sort_unstable();
        assert_eq!(files, modules, "a module that is not embedded, or one that is gone");
    }
}
