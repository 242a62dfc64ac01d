//! Which `mpirun` belongs to an MPI library. Another library's would start worlds of
//! one rank each, so the one that is found must say the library's own name and version.

use std::path::{Path, PathBuf};

use super::opened::{Facts, Vendor, version_number};
use crate::{Asked, Launch, Tools};

/// A library's own launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mpirun {
    /// The program.
    pub program: PathBuf,
    /// Who made it.
    pub vendor: Vendor,
}

/// Names of each vendor's launcher, the most telling first.
const fn names(vendor: Vendor) -> &'static [&'static str] {
    match vendor {
        Vendor::OpenMpi => &["mpirun.openmpi", "mpirun", "mpiexec.openmpi", "mpiexec"],
        Vendor::Mpich | Vendor::Mvapich => &["mpiexec.mpich", "mpirun.mpich", "mpiexec.hydra", "mpiexec", "mpirun"],
        Vendor::Intel => &["mpiexec.hydra", "mpiexec", "mpirun"],
    }
}

/// Where a library's launcher is looked for, in this order, each folder once.
fn folders(facts: &Facts, search: &[PathBuf]) -> Vec<PathBuf> {
    let above = Path::new(&facts.path).ancestors().skip(1).filter(|folder| folder.parent().is_some());
    let mut folders: Vec<PathBuf> = above.map(|folder| folder.join("bin")).collect();
    for folder in search {
        if !folders.contains(folder) {
            folders.push(folder.clone());
        }
    }
    folders
}

impl Mpirun {
    /// The launcher of this library: next to it (in `bin` of every folder above it but the root), then in the folders of
    /// the path. The survey asks here, too, so that what it says of a library is what a run makes of it.
    ///
    /// # Errors
    /// That there is none, and which others were found instead.
    pub fn find(facts: &Facts, tools: &dyn Tools) -> Result<Self, String> {
        let mut others: Vec<String> = Vec::new();
        for folder in folders(facts, tools.search()) {
            for program in
                names(facts.vendor).iter().map(|name| folder.join(name)).filter(|path| tools.is_program(path))
            {
                let says = tools.version_of(&program).unwrap_or_default();
                if belongs(facts, &says) {
                    return Ok(Self { program, vendor: facts.vendor });
                }
                let other = format!("{} ({})", program.display(), what_it_is(&says));
                if !others.contains(&other) {
                    others.push(other);
                }
            }
        }
        others.truncate(3);
        let instead = if others.is_empty() { "none at all".to_owned() } else { others.join(", ") };
        Err(format!("no mpirun of {} is next to {} or on the path: found {instead}", facts.version(), facts.path))
    }

    /// The command of this mpirun that starts ranks on this host, unbound: ranks bind themselves.
    pub(super) fn command(&self, asked: Asked<'_>, as_root: bool) -> Launch {
        let (mut arguments, mut environment) = (vec!["-n".to_owned(), asked.ranks.to_string()], Vec::new());
        let mut rank_variable = PMI_RANK;
        if self.vendor == Vendor::OpenMpi {
            rank_variable = OPEN_MPI_RANK;
            // It counts cores, not what may run here; and it would bind ranks by itself.
            arguments.extend(["--oversubscribe", "--bind-to", "none"].map(str::to_owned));
            if as_root {
                for name in ["OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"] {
                    environment.extend([name.to_owned(), format!("{name}_CONFIRM")].map(|name| (name, "1".to_owned())));
                }
            }
        }
        Launch { program: self.program.clone(), arguments, environment, rank_variable }
    }
}

/// Where ranks of Open MPI's launcher find their number.
pub(super) const OPEN_MPI_RANK: &str = "OMPI_COMM_WORLD_RANK";
/// Where those of all others do, which speak PMI.
pub(super) const PMI_RANK: &str = "PMI_RANK";

/// Whether what a launcher says of itself fits the library: its family, and its version as far as both tell it.
fn belongs(facts: &Facts, says: &str) -> bool {
    let family = match facts.vendor {
        Vendor::OpenMpi => says.contains("Open MPI") || says.contains("OpenRTE"),
        Vendor::Mpich | Vendor::Mvapich => says.contains("HYDRA"),
        Vendor::Intel => says.contains("Intel(R) MPI"),
    };
    // MVAPICH ships a Hydra that counts by itself.
    let same = facts.vendor == Vendor::Mvapich || number_of(says).is_some_and(|found| agree(&found, &facts.number));
    family && same
}

/// "4.1.4" from the first line that has such a number; Hydra says it on its second.
fn number_of(says: &str) -> Option<String> {
    says.lines().find_map(version_number)
}

/// Whether one version is the other, or its beginning: 2021.18 and 2021.18.1.
fn agree(one: &str, other: &str) -> bool {
    let begins =
        |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    begins(one, other) || begins(other, one)
}

fn what_it_is(says: &str) -> String {
    let family = [("Open MPI", "Open MPI"), ("OpenRTE", "Open MPI"), ("HYDRA", "Hydra"), ("Intel(R) MPI", "Intel MPI")];
    let family = family.into_iter().find(|(word, _)| says.contains(word)).map_or("unknown", |(_, family)| family);
    format!("{family} {}", number_of(says).unwrap_or_default()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: &str = "mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/";
    const HYDRA: &str = "HYDRA build details:\n    Version:                                 4.0.2\n";
    const INTEL: &str = "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626 (id: b44796a)";

    fn facts(vendor: Vendor, number: &str) -> Facts {
        Facts { vendor, number: number.to_owned(), abi: String::new(), path: "/a/b/c/d/libmpi.so".to_owned() }
    }

    /// A host with one program: an mpirun of Open MPI.
    struct OneProgram([PathBuf; 1]);

    impl Tools for OneProgram {
        fn search(&self) -> &[PathBuf] {
            &self.0
        }

        fn is_program(&self, path: &Path) -> bool {
            path == Path::new("/programs/mpirun")
        }

        fn version_of(&self, _program: &Path) -> Option<String> {
            Some("mpirun (Open MPI) 4.1.4".to_owned())
        }

        fn is_root(&self) -> bool {
            false
        }
    }

    #[test]
    fn launchers_belong_to_libraries_of_their_family_and_version() {
        assert!(belongs(&facts(Vendor::OpenMpi, "4.1.4"), OPEN));
        assert!(!belongs(&facts(Vendor::OpenMpi, "5.0.11"), OPEN));
        assert!(!belongs(&facts(Vendor::Mpich, "4.1.4"), OPEN));
        assert!(belongs(&facts(Vendor::Mpich, "4.0.2"), HYDRA));
        assert!(!belongs(&facts(Vendor::Mpich, "4.0"), "HYDRA build details:"));
        assert!(!belongs(&facts(Vendor::Mpich, "4.0.20"), HYDRA));
        assert!(belongs(&facts(Vendor::Intel, "2021.18"), INTEL));
        assert_eq!(what_it_is(HYDRA), "Hydra 4.0.2");
    }

    #[test]
    fn a_library_without_its_launcher_says_what_was_found_instead() {
        let tools = OneProgram([PathBuf::from("/programs")]);
        let found = Mpirun::find(&facts(Vendor::OpenMpi, "4.1.4"), &tools).unwrap();
        assert_eq!(found.program, Path::new("/programs/mpirun"));
        let why = Mpirun::find(&facts(Vendor::OpenMpi, "5.0.1"), &tools).unwrap_err();
        assert!(why.starts_with("no mpirun of Open MPI 5.0.1 is next to /a/b/c/d/libmpi.so"), "{why}");
        assert!(why.contains("mpirun (Open MPI 4.1.4)"), "{why}");
    }
}
