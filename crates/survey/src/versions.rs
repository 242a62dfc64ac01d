//! Versions of libraries for a bug report: what is there, in less than a second. torch is not imported.

use std::path::{Path, PathBuf};

use process::first_program;

use super::programs::{ask, one_line};
use super::{Finding, GROUPS, Request, State, looked_at, pytorch};

/// Prints the Python's version, its path, and the version in the metadata of an installed torch. `python -c` looks for
/// modules in the working folder first: a `random.py` there must not run.
const SCRIPT: &str = "import sys\n\
    sys.path[:] = [folder for folder in sys.path if folder]\n\
    import importlib.metadata as m, platform\n\
    print(platform.python_version(), sys.executable, sep='\\t')\n\
    print(next((d.version for d in m.distributions(name='torch')), ''))";

/// GPU libraries that are there, NCCL and MPI even where they are missing, Python, and torch.
pub fn versions(request: &Request) -> Vec<Finding> {
    let groups = GROUPS.iter().filter(|group| matches!(group.name, "GPU" | "MPI")).collect();
    let mut rows = std::thread::scope(|scope| {
        let python = scope.spawn(|| python_rows(&request.path, request.python.clone()));
        let mut rows = looked_at(groups, request);
        rows.extend(python.join().unwrap_or_default().into_iter().map(|row| row.group("PyTorch")));
        rows
    });
    rows.retain(|row| row.state != State::Missing || matches!(row.name.as_str(), "MPI" | "NCCL" | "Python" | "torch"));
    rows
}

fn python_rows(search: &[PathBuf], named: Option<PathBuf>) -> Vec<Finding> {
    match named.or_else(|| first_program(search, pytorch::DEFAULT)) {
        Some(program) => rows_of(&program),
        None => vec![Finding::missing("Python", "no python3 on PATH")],
    }
}

fn rows_of(program: &Path) -> Vec<Finding> {
    let said = match ask(program, &["-c", SCRIPT]) {
        Ok(outcome) => outcome.out,
        Err(why) => return vec![Finding::misconfigured("Python", format!("{}: {why}", program.display()))],
    };
    let mut lines = said.lines();
    let python = one_line(&lines.next().unwrap_or_default().replace('\t', "  "));
    let torch = match lines.next().map(one_line).filter(|version| !version.is_empty()) {
        Some(version) => Finding::ready("torch", version),
        None => Finding::missing("torch", "not installed in this Python"),
    };
    vec![Finding::ready("Python", python), torch]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// The rows of a program that is called as a Python is and runs this script of a shell.
    fn of_script(script: &str) -> Vec<(String, State, String)> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("python3");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let rows = python_rows(&[folder.path().to_owned()], None);
        rows.into_iter().map(|row| (row.name, row.state, row.found)).collect()
    }

    #[test]
    fn nothing_is_imported_from_the_working_folder() {
        let imports: Vec<&str> = SCRIPT.lines().take_while(|line| !line.starts_with("sys.path[:] = ")).collect();
        assert_eq!(imports, ["import sys"], "sys is built in");
        assert!(SCRIPT.contains("\nimport importlib.metadata"), "{SCRIPT}");
    }

    #[test]
    fn a_python_is_told_with_its_torch() {
        let python = ("Python".to_owned(), State::Ready, "3.12.1 /bin/python3".to_owned());
        assert_eq!(
            of_script(r"printf '3.12.1\t/bin/python3\n2.9.0+cpu\n'"),
            [python.clone(), ("torch".to_owned(), State::Ready, "2.9.0+cpu".to_owned())]
        );
        let missing = ("torch".to_owned(), State::Missing, "not installed in this Python".to_owned());
        assert_eq!(of_script(r"printf '3.12.1\t/bin/python3\n\n'"), [python, missing]);
        assert_eq!(of_script("exit 3")[0].1, State::Misconfigured);
        assert_eq!(python_rows(&[], None)[0].state, State::Missing);
    }
}
