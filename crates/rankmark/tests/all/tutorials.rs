//! The commands of docs/tutorials, run as they stand there: a tutorial that does not work is worse than none.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::place::{Ended, Place};
use crate::pytorch::torch;
use crate::skip;

/// A tutorial's commands, one a line of its `sh` blocks.
fn commands(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorials").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let found: Vec<String> = blocks.flat_map(str::lines).map(str::to_owned).collect();
    assert!(found.len() >= 4, "{found:?}");
    found
}

/// A folder of the path in which `rankmark` is this program and other names lead to these programs.
pub(crate) fn programs(place: &Place, others: &[(&str, &str)]) -> PathBuf {
    let folder = place.path("temporary/bin");
    fs::create_dir(&folder).unwrap();
    for (name, program) in [("rankmark", env!("CARGO_BIN_EXE_rankmark"))].iter().chain(others) {
        // A script and no link: a Python of a virtual environment finds that by its own place.
        let script = folder.join(name);
        fs::write(&script, format!("#!/bin/sh\nexec '{program}' \"$@\"\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

/// Types a line into a shell that has these folders of programs.
pub(crate) fn typed(place: &Place, path: &str, line: &str, limit: Duration) -> Ended {
    place.write("temporary/step.sh", format!("{line}\n"));
    let mut shell = place.command_of("/bin/sh", "temporary/step.sh");
    shell.command.env("PATH", path);
    // What Open MPI asks of root, and of more ranks than cores.
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"] {
        shell.command.env(name, "1");
    }
    shell.start().wait_for(limit)
}

/// Runs all of them in one folder, one after another.
fn follow(name: &str, others: &[(&str, &str)]) {
    if !skip::heavy("the tutorials as they stand") {
        return;
    }
    let place = Place::new();
    let folder = programs(&place, others);
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    for command in commands(name) {
        place.write("temporary/step.sh", format!("set -e\n{command}\n"));
        let mut shell = place.command_of("/bin/sh", "temporary/step.sh");
        shell.command.env("PATH", &path);
        // What Open MPI asks of root.
        shell.command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let ended = shell.run();
        // `validate` says with 1 that something here is misconfigured, or that the plan has cases that would be skipped.
        let allowed = if command.starts_with("rankmark validate") { 1 } else { 0 };
        assert!(ended.status.code().is_some_and(|code| code <= allowed), "{command}\n{ended:?}");
    }
}

#[test]
fn that_of_a_laptop() {
    follow("laptop.md", &[]);
}

#[test]
fn that_of_mpi() {
    let there =
        |program: &str| std::env::split_paths(&std::env::var_os("PATH")?).find(|dir| dir.join(program).exists());
    if there("mpirun").is_none() {
        return skip::skip("the tutorial of MPI", "no mpirun (Debian: openmpi-bin)");
    }
    follow("mpi.md", &[]);
}

#[test]
fn that_of_pytorch() {
    let test = "the tutorial of PyTorch";
    let Some(python) = torch(test) else { return };
    let Some(torchrun) = crate::external::torchrun() else {
        return skip::skip(test, "no torchrun on the path, and RANKMARK_TEST_TORCHRUN names none");
    };
    follow("pytorch.md", &[("python3", &python), ("torchrun", &torchrun.display().to_string())]);
}
