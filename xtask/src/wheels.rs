//! What heavy tests use of PyPI: PyTorch with its torchrun and its NCCL, and the schemas of Kubernetes. In a virtual environment
//! below the target folder, which is made once. Some five gigabytes: only for runs that ask for everything.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// In the versions that the tests were written with: another one might find something new on the day that it comes out.
const WHEELS: [&str; 3] = ["torch==2.15.0", "numpy==2.4.6", "kubernetes-validate==1.37.0"];

/// A slow network must not cost the run its time.
const LIMIT: Duration = Duration::from_secs(600);

/// By whom tests find what is there, and where that lies in the environment.
const VARIABLES: [(&str, &str); 4] = [
    ("RANKMARK_TEST_PYTHON", "bin/python"),
    ("RANKMARK_TEST_TORCHRUN", "bin/torchrun"),
    ("RANKMARK_TEST_KUBERNETES", "bin/python"),
    ("RANKMARK_TEST_NCCL", "lib/libnccl.so.2"),
];

/// The variables that tests are to be given: those that the caller has not set.
///
/// # Errors
/// Why it cannot be had.
pub(crate) fn variables(target: &Path, may_install: bool) -> Result<Vec<(&'static str, PathBuf)>, String> {
    among(target, may_install, |name| std::env::var_os(name).is_some())
}

fn among(
    target: &Path,
    may_install: bool,
    is_set: impl Fn(&str) -> bool,
) -> Result<Vec<(&'static str, PathBuf)>, String> {
    let wanted: Vec<&(&'static str, &str)> = VARIABLES.iter().filter(|(name, _)| !is_set(name)).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let place = std::path::absolute(target.join("xtask/wheels")).map_err(|error| error.to_string())?;
    let whole = place.join("whole");
    // Made by another version of this program, or not to its end.
    if std::fs::read_to_string(&whole).ok().as_deref() != Some(&WHEELS.join(" ")) {
        let hint = format!("(hint: pip install {}, and see CONTRIBUTING.md)", WHEELS.join(" "));
        if !may_install {
            return Err(format!("not installed (--no-install) {hint}"));
        }
        make(&place).map_err(|why| format!("{why} {hint}"))?;
        std::fs::write(&whole, WHEELS.join(" ")).map_err(|error| format!("{}: {error}", whole.display()))?;
    }
    Ok(wanted.iter().map(|(name, at)| (*name, place.join(at))).filter(|(_, path)| path.exists()).collect())
}

fn make(place: &Path) -> Result<(), String> {
    println!("    installing {} (once)", WHEELS.join(" "));
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(place))?;
    let quick = ["install", "--quiet", "--disable-pip-version-check", "--timeout", "20", "--retries", "1"];
    run(Command::new(place.join("bin/pip")).args(quick).args(WHEELS))?;
    // Where the wheel has it depends on the version of Python.
    let find = "import nvidia.nccl as it; print(it.__path__[0] + '/lib/libnccl.so.2')";
    let found = Command::new(place.join("bin/python")).args(["-c", find]).stdin(Stdio::null()).output();
    let found = found.map_err(|error| error.to_string())?;
    if found.status.success() {
        let library = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        std::os::unix::fs::symlink(library, place.join("lib/libnccl.so.2")).map_err(|error| error.to_string())?;
    }
    Ok(())
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

    #[test]
    fn what_is_there_is_named_unless_it_is_not_whole() {
        let target = std::env::temp_dir().join(format!("xtask-wheels-whole-{}", std::process::id()));
        let place = target.join("xtask/wheels");
        std::fs::create_dir_all(place.join("bin")).unwrap();
        std::fs::write(place.join("bin/python"), "").unwrap();
        assert!(among(&target, false, |_| false).unwrap_err().contains("--no-install"));
        assert_eq!(among(&target, false, |_| true), Ok(Vec::new()), "nothing is wanted");
        std::fs::write(place.join("whole"), WHEELS.join(" ")).unwrap();
        let found = |set: &str| among(&target, false, |name| name == set).unwrap();
        let python = |name| (name, place.join("bin/python"));
        // Neither torchrun nor NCCL is there.
        assert_eq!(found(""), [python("RANKMARK_TEST_PYTHON"), python("RANKMARK_TEST_KUBERNETES")]);
        assert_eq!(found("RANKMARK_TEST_PYTHON"), [python("RANKMARK_TEST_KUBERNETES")]);
        std::fs::remove_dir_all(&target).unwrap();
    }

    #[test]
    fn what_fails_says_how() {
        assert_eq!(run(Command::new("sh").args(["-c", "exit 3"])), Err("sh: exit status: 3".to_owned()));
        assert!(run(&mut Command::new("/no/such/python3")).unwrap_err().starts_with("/no/such/python3: "));
    }
}
