//! Starts worlds whose ranks are the user's own Python, running the package of `python/rankmark_worker`.
//!
//! The package travels in this program and reaches Python as inherited memory, so that nothing is installed and no file
//! is written. What its ranks and this program say to each other is `control`, told in docs/pytorch.md.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use measure::{Verdict, VerdictKind, WorldSpec};
use serde_json::{Map, Value};
use terms::Runtime;

use crate::LocalStarter;
use crate::descriptor::sealed_memory;
use crate::starter::{Program, not_started};
use crate::survey::{first_program, is_program};
use crate::world::ProcessWorld;

/// The Python that is run where nobody names one.
pub(crate) const DEFAULT: &str = "python3";

/// Importing torch for the first time reads a gigabyte, once for all ranks and again on slow disks.
const LIMIT: Duration = Duration::from_secs(120);

/// What `python -c` runs.
const BOOT: &str = include_str!("../../../python/rankmark_worker/boot.py");

macro_rules! module {
    ($name:literal) => {
        (concat!("rankmark_worker.", $name), include_str!(concat!("../../../python/rankmark_worker/", $name, ".py")))
    };
}

/// Every module of the package, by the name that Python imports it under.
const MODULES: &[(&str, &str)] = &[
    ("rankmark_worker", include_str!("../../../python/rankmark_worker/__init__.py")),
    module!("auth"),
    module!("calls"),
    module!("channel"),
    module!("collective"),
    module!("group"),
    module!("guardian"),
    module!("initial"),
    module!("inject"),
    module!("main"),
    module!("models"),
    module!("pattern"),
    module!("process"),
    module!("rank"),
    module!("replicas"),
    module!("status"),
    module!("synthetic"),
    module!("training"),
];

/// Whether the world's ranks are to be Python.
pub(crate) fn is_asked(spec: &WorldSpec) -> bool {
    let runtime = spec.fields.get("runtime").and_then(Value::as_str);
    runtime.and_then(|word| word.parse().ok()) == Some(Runtime::Pytorch)
}

/// Starts the ranks.
///
/// # Errors
/// The verdict, when they do not come up; [`VerdictKind::Lacking`] when there is no such Python.
pub(crate) fn start(local: &LocalStarter, spec: &WorldSpec, search: &[PathBuf]) -> Result<ProcessWorld, Verdict> {
    let named = spec.fields.get("python").and_then(Value::as_str);
    let path = python(named, search).map_err(|message| {
        let hint = Some("`--python PATH` names a Python that has torch".to_owned());
        Verdict { kind: VerdictKind::Lacking, ..not_started(message, hint) }
    })?;
    let package = package().map_err(|error| not_started(format!("handing over the Python package: {error}"), None))?;
    // Its own name: by it a Python finds its virtual environment.
    let arguments = vec![OsString::from("-c"), OsString::from(BOOT)];
    let program = Program { path, name: None, arguments, package: Some(package) };
    local.clone().limit(LIMIT).start_programs(spec, &program)
}

/// The Python of this name or path (None: [`DEFAULT`]), looked for in these folders unless it is a path.
///
/// # Errors
/// That there is none.
pub(crate) fn python(named: Option<&str>, search: &[PathBuf]) -> Result<PathBuf, String> {
    let name = named.unwrap_or(DEFAULT);
    if name.contains('/') {
        let path = PathBuf::from(name);
        return if is_program(&path) { Ok(path) } else { Err(format!("{name} is no program that can be run")) };
    }
    first_program(search, name).ok_or_else(|| format!("there is no `{name}` on the path"))
}

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

    #[test]
    fn a_python_is_a_path_or_a_name_on_the_path() {
        let search = [PathBuf::from("/bin")];
        assert_eq!(python(Some("sh"), &search), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(python(Some("/bin/sh"), &[]), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(python(Some("/etc/passwd"), &search), Err("/etc/passwd is no program that can be run".to_owned()));
        assert_eq!(python(None, &[]), Err("there is no `python3` on the path".to_owned()));
    }
}
