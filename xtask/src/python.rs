//! The Python that travels with the program, and that of its peers: style and types, by the tools that its users know.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::install::is_there;
use crate::ledger::Ledger;

/// The tools, in the versions that this step was written with: another one might find something new on the day that it
/// comes out.
const TOOLS: [&str; 2] = ["ruff==0.17.6", "mypy==2.4.1"];

/// Folders with a configuration of their own.
const FOLDERS: [&str; 2] = ["python", "peers/pytorch"];

/// Lints and type-checks the Python of the repository, and checks its format. The tools are those on the path, or in a virtual
/// environment below the target folder, which is made once.
pub(crate) fn check(root: &Path, target: &Path, may_install: bool, ledger: &mut Ledger) {
    let place = match tools(&target.join("xtask/python"), may_install) {
        Ok(place) => place,
        Err(why) => return ledger.skip("python", why),
    };
    for (tool, words) in [("ruff", &["check", "--quiet"][..]), ("ruff", &["format", "--check", "--quiet"])] {
        for folder in FOLDERS {
            let mut command = Command::new(program(place.as_deref(), tool));
            // Nothing is written next to the sources.
            command.current_dir(root.join(folder)).args(words).args(["--no-cache", "."]);
            ledger.check(&format!("{tool} {}: {folder}", words[0]), &mut command);
        }
    }
    let mut mypy = Command::new(program(place.as_deref(), "mypy"));
    mypy.current_dir(root.join("python")).args([
        "--cache-dir",
        "/dev/null",
        "--no-error-summary",
        "rankmark_worker",
        "rankmark_profile",
        "tests",
    ]);
    ledger.check("mypy: python", &mut mypy);
}

/// The folder that holds the tools; None where they are on the path.
fn tools(place: &Path, may_install: bool) -> Result<Option<PathBuf>, String> {
    let folder = place.join("bin");
    if TOOLS.iter().all(|tool| folder.join(name(tool)).is_file()) {
        return Ok(Some(folder));
    }
    if TOOLS.iter().all(|tool| is_there(name(tool))) {
        return Ok(None);
    }
    let hint = format!("(hint: pip install {})", TOOLS.join(" "));
    if !may_install {
        return Err(format!("no ruff and no mypy {hint}"));
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(place)).map_err(|why| format!("{why} {hint}"))?;
    // Without a network this must end soon.
    let quick = ["install", "--quiet", "--disable-pip-version-check", "--timeout", "20", "--retries", "1"];
    let mut pip = Command::new(folder.join("pip"));
    run(pip.args(quick).args(TOOLS)).map_err(|why| format!("{why} {hint}"))?;
    Ok(Some(folder))
}

/// The name of a requirement's package.
fn name(requirement: &str) -> &str {
    requirement.split("==").next().unwrap_or(requirement)
}

fn program(place: Option<&Path>, tool: &str) -> PathBuf {
    place.map_or_else(|| PathBuf::from(tool), |folder| folder.join(tool))
}

fn run(command: &mut Command) -> Result<(), String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(format!("{shown}: {last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_those_that_were_made_before_those_on_the_path() {
        let place = std::env::temp_dir().join(format!("xtask-python-{}", std::process::id()));
        std::fs::create_dir_all(place.join("bin")).unwrap();
        for tool in TOOLS {
            std::fs::write(place.join("bin").join(name(tool)), "").unwrap();
        }
        assert_eq!(tools(&place, false), Ok(Some(place.join("bin"))));
        assert!(program(Some(&place), "ruff").ends_with("ruff") && program(None, "ruff") == Path::new("ruff"));
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn what_cannot_run_says_why() {
        assert!(run(&mut Command::new("/no/such/python3")).unwrap_err().starts_with("/no/such/python3: "));
        let failed = run(Command::new("sh").args(["-c", "echo no room >&2; exit 3"]));
        assert_eq!(failed, Err("sh: no room".to_owned()));
    }
}
