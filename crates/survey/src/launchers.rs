//! Programs that start ranks, on this host and on others.

use std::path::{Path, PathBuf};

use process::first_program;

use super::programs::{ask, version_in};
use super::{Finding, Request};

/// A launcher.
struct Launcher {
    name: &'static str,
    /// Arguments that make it say its version; none: it has no such argument and is not run.
    version: &'static [&'static str],
    impact: &'static str,
    fix: &'static str,
}

static LAUNCHERS: &[Launcher] = &[
    Launcher {
        name: "mpirun",
        version: &["--version"],
        impact: "no ranks through mpirun",
        fix: "apt install openmpi-bin, or mpich",
    },
    Launcher {
        name: "srun",
        version: &["--version"],
        impact: "no ranks under Slurm from here",
        fix: "run on a login node of the cluster (Debian: apt install slurm-client)",
    },
    Launcher { name: "torchrun", version: &[], impact: "no ranks through torchrun", fix: "pip install torch" },
    Launcher {
        name: "kubectl",
        version: &["version", "--client"],
        impact: "Kubernetes jobs cannot be submitted from here",
        fix: "https://kubernetes.io/docs/tasks/tools/",
    },
];

/// What Slurm's programs say where no `slurm.conf` is there and no server gives one.
const NO_CLUSTER: &str = "configuration source";

impl Launcher {
    /// Whether it is a script that belongs to one Python.
    fn is_python_s(&self) -> bool {
        self.version.is_empty()
    }
}

/// The program of a launcher. That of Python is first looked for next to the Python that the user named.
fn found(launcher: &Launcher, request: &Request) -> Option<PathBuf> {
    let own = if launcher.is_python_s() { next_to_python(launcher, request) } else { None };
    own.or_else(|| first_program(&request.path, launcher.name))
}

/// The script next to the Python that the user named.
fn next_to_python(launcher: &Launcher, request: &Request) -> Option<PathBuf> {
    let named = request.python.as_ref()?.to_str()?;
    let python = crate::python(Some(named), &request.path).ok()?;
    first_program(&[python.parent()?.to_owned()], launcher.name)
}

fn named_python(request: &Request) -> String {
    request.python.as_ref().map_or_else(|| "python3".to_owned(), |python| python.display().to_string())
}

pub(super) fn look(request: &Request) -> Vec<Finding> {
    let one = |launcher: &Launcher| match found(launcher, request) {
        Some(program) => there(launcher, &program, request),
        None if launcher.is_python_s() && request.python.is_some() => {
            let (python, what) = (named_python(request), "neither next to the named Python nor on PATH");
            Finding::missing(launcher.name, what).impact(launcher.impact).fix(format!("{python} -m {}", launcher.fix))
        }
        None => Finding::missing(launcher.name, "not on PATH").impact(launcher.impact).fix(launcher.fix),
    };
    LAUNCHERS.iter().map(one).collect()
}

fn there(launcher: &Launcher, program: &Path, request: &Request) -> Finding {
    let place = program.display();
    if launcher.version.is_empty() {
        // A script of Python's: it works where its interpreter is, and says its version only by importing torch.
        return script(launcher, program, request);
    }
    match ask(program, launcher.version) {
        Ok(said) => {
            let version = version_in(&said.out).or_else(|| version_in(&said.err)).unwrap_or("of unknown version");
            Finding::ready(launcher.name, format!("{version}  {place}"))
        }
        // A client of a cluster that this machine does not belong to: nothing is wrong, unless this is a job of one.
        Err(why) if why.contains(NO_CLUSTER) && !request.in_slurm => {
            Finding::missing(launcher.name, format!("{place}, and no cluster is configured")).impact(launcher.impact)
        }
        Err(why) => {
            let row = Finding::misconfigured(launcher.name, format!("{place} {why}"));
            row.impact(launcher.impact).fix(launcher.fix)
        }
    }
}

/// Finds a script that cannot be run because the interpreter in its first line is gone (a moved virtual environment).
fn script(launcher: &Launcher, program: &Path, request: &Request) -> Finding {
    let place = program.display();
    let begin = std::fs::read(program).unwrap_or_default();
    let line = begin.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let words: Vec<&str> = line.strip_prefix("#!").map(|line| line.split_whitespace().collect()).unwrap_or_default();
    let gone = match words.as_slice() {
        [env, name, ..] if env.ends_with("/env") => first_program(&request.path, name).is_none(),
        [interpreter, ..] => !Path::new(interpreter).exists(),
        [] => false,
    };
    if gone {
        let row = Finding::misconfigured(launcher.name, format!("{place} needs {}, which is missing", words.join(" ")));
        return row.impact(launcher.impact).fix(launcher.fix);
    }
    match request.python.is_some() && next_to_python(launcher, request).is_none() {
        true => Finding::ready(launcher.name, format!("{place}, from another Python than the named one")).fix(format!(
            "{} -m {}",
            named_python(request),
            launcher.fix
        )),
        false => Finding::ready(launcher.name, place.to_string()),
    }
}
