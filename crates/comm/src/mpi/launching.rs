//! How ranks of an MPI library start: by its own `mpirun`, or as those that a fitting launcher has started already.

use std::path::PathBuf;

use serde_json::Value;

use super::mpirun::{Mpirun, OPEN_MPI_RANK, PMI_RANK};
use super::opened::{Facts, NAMES, Vendor};
use super::settings::MpiSettings;
use super::{ABOUT, facts};
use crate::{Asked, Launch, Own, StartedBy, Tools};

/// Malloc keeps its memory and asks for huge pages, so that a library's temporary buffers are not mapped again in each
/// call: three times the bandwidth for Open MPI 5 from 64 MiB.
const TUNABLES: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=17179869184:glibc.malloc.hugetlb=1",
);

/// Open MPI's segmented ring.
const SEGMENTED_RING: [&str; 6] =
    ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "5"];

/// Open MPI's collectives of UCC, before all others.
const UCC: [&str; 6] = ["--mca", "coll_ucc_enable", "1", "--mca", "coll_ucc_priority", "100"];

/// Folders with more components.
const COMPONENT_PATH: &str = "OMPI_MCA_mca_base_component_path";

/// As [`crate::Backend::launch`].
pub(super) fn launch(own: &Own, asked: Asked<'_>, tools: &dyn Tools) -> Result<Launch, String> {
    let own = settings(own)?;
    let facts = facts(own.library.as_deref())?;
    let mpirun = Mpirun::find(&facts, tools)?;
    let extras = Extras::new(&own, &facts, asked.environment)?;
    let mut launch = mpirun.command(asked, tools.is_root());
    launch.arguments.extend(extras.arguments);
    launch.environment.extend(extras.environment);
    Ok(launch)
}

/// As [`crate::Backend::accepts`]: a library has no other way to find the ranks of its world.
pub(super) fn accepts(by: StartedBy<'_>) -> Result<(), String> {
    if by.process_manager {
        return Ok(());
    }
    Err(format!("{} does not start MPI ranks: each would think that it is alone (hint: use mpirun)", by.launcher))
}

/// As [`crate::Backend::join`]: the library becomes the one that fits the launcher.
pub(super) fn join(
    own: &mut Own,
    by: StartedBy<'_>,
    wished: &[(String, String)],
) -> Result<Vec<(String, String)>, String> {
    accepts(by)?;
    let read = settings(own)?;
    let facts = fitting(read.library.as_deref(), by)?;
    let extras = Extras::new(&read, &facts, wished)?;
    own.insert("mpi_library".to_owned(), Value::from(facts.path));
    Ok(extras.as_environment())
}

fn settings(own: &Own) -> Result<MpiSettings, String> {
    crate::own::read(ABOUT.name, own).map_err(|error| error.to_string())
}

/// The library that ranks of this launcher use: the one that is asked for, else the first that belongs to it. Under another
/// library's launcher each rank would think that it is alone.
fn fitting(asked: Option<&str>, by: StartedBy<'_>) -> Result<Facts, String> {
    let StartedBy { launcher, rank_variable, .. } = by;
    let fits = |facts: &Facts| match rank_variable {
        OPEN_MPI_RANK => facts.vendor == Vendor::OpenMpi,
        PMI_RANK => facts.vendor != Vendor::OpenMpi,
        _ => true,
    };
    if asked.is_some() {
        let facts = facts(asked)?;
        // What speaks PMI may be srun.
        let slurm = if rank_variable == PMI_RANK { ", in Slurm `srun --mpi=pmix`" } else { "" };
        if fits(&facts) {
            return Ok(facts);
        }
        return Err(format!(
            "the ranks were started by {launcher}, but with {} each would see a world of one rank (hint: its own \
             mpirun{slurm}, or `--mpi-library`)",
            facts.version()
        ));
    }
    let found: Vec<Facts> = NAMES.iter().filter_map(|name| facts(Some(name)).ok()).collect();
    let first = found.iter().find(|facts| fits(facts)).cloned();
    first.ok_or_else(|| {
        let found: Vec<String> = found.iter().map(Facts::version).collect();
        let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
        format!("the loader finds no MPI library of {launcher}: {found} (hint: `--mpi-library PATH`)")
    })
}

/// What a world's fields add to the command and its environment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extras {
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
}

impl Extras {
    pub(super) fn new(own: &MpiSettings, facts: &Facts, wished: &[(String, String)]) -> Result<Self, String> {
        let mut extras = Self::default();
        for name in binding_variables(facts.vendor) {
            extras.set(name, "0");
        }
        if own.tuned {
            if wished.iter().any(|(name, _)| name == TUNABLES.0) {
                return Err(format!("`mpi_tuned` sets {0}, but `env` sets it to something else", TUNABLES.0));
            }
            extras.set(TUNABLES.0, TUNABLES.1);
            if facts.vendor == Vendor::OpenMpi {
                extras.arguments.extend(SEGMENTED_RING.map(str::to_owned));
            }
        }
        if own.ucc() {
            has_ucc(facts, wished)?;
            extras.arguments.extend(UCC.map(str::to_owned));
        }
        Ok(extras)
    }

    /// The extra settings as environment variables, for ranks that are there already: what Open MPI's launcher takes as `--mca
    /// NAME VALUE`, its library reads from the environment.
    pub(super) fn as_environment(&self) -> Vec<(String, String)> {
        let options =
            self.arguments.chunks_exact(3).map(|option| (format!("OMPI_MCA_{}", option[1]), option[2].clone()));
        self.environment.iter().cloned().chain(options).collect()
    }

    fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }
}

/// Variables that keep a library from binding ranks again when they initialise it. MVAPICH that binds ranks to cores
/// does not grant MPI_THREAD_MULTIPLE either. The second name is that of version 3.
const fn binding_variables(vendor: Vendor) -> &'static [&'static str] {
    match vendor {
        Vendor::Intel => &["I_MPI_PIN"],
        Vendor::Mvapich => &["MV2_ENABLE_AFFINITY", "MVP_ENABLE_AFFINITY"],
        Vendor::OpenMpi | Vendor::Mpich => &[],
    }
}

/// Whether a library has UCC's collectives, before a world is started for nothing: next to it, in the folders that `env` adds, or
/// built in, when it needs UCC itself. Whether they can be loaded and work the ranks see.
fn has_ucc(facts: &Facts, wished: &[(String, String)]) -> Result<(), String> {
    if facts.vendor != Vendor::OpenMpi {
        return Err(format!("`mpi_collectives: ucc` is for Open MPI, but this is {}", facts.version()));
    }
    let folder = std::path::Path::new(&facts.path).parent().map(PathBuf::from).unwrap_or_default();
    let component = "mca_coll_ucc.so";
    let below = ["openmpi", "openmpi3", "openmpi/lib/openmpi", "openmpi/lib/openmpi3"];
    let added = wished.iter().filter(|(name, _)| name == COMPONENT_PATH).flat_map(|(_, value)| value.split(':'));
    let mut places = below.iter().map(|place| folder.join(place)).chain(added.map(PathBuf::from));
    let found = places.any(|place| place.join(component).exists())
        || std::fs::read(&facts.path).is_ok_and(|bytes| holds(&bytes, b"libucc.so"));
    if found { Ok(()) } else { Err(format!("{} ({}) has no {component}", facts.version(), facts.path)) }
}

fn holds(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn extras(vendor: Vendor, own: Value, wished: &[(String, String)]) -> Result<Extras, String> {
        let own: MpiSettings = serde_json::from_value(own).unwrap();
        let facts =
            Facts { vendor, number: "1.0".to_owned(), abi: String::new(), path: "/no/lib/libmpi.so".to_owned() };
        Extras::new(&own, &facts, wished)
    }

    #[test]
    fn ranks_of_a_launcher_without_a_process_manager_are_refused() {
        let by = |process_manager| StartedBy { launcher: "torchrun", rank_variable: "RANK", process_manager };
        let why = "torchrun does not start MPI ranks: each would think that it is alone (hint: use mpirun)";
        assert_eq!(accepts(by(false)), Err(why.to_owned()));
        assert_eq!(accepts(by(true)), Ok(()));
        // Before a library is looked for.
        assert_eq!(join(&mut Own::new(), by(false), &[]), Err(why.to_owned()));
    }

    #[test]
    fn tuning_is_what_the_documentation_says() {
        assert_eq!(extras(Vendor::OpenMpi, json!({"mpi_tuned": false}), &[]), Ok(Extras::default()));
        let open = extras(Vendor::OpenMpi, json!({"mpi_tuned": true}), &[]).unwrap();
        assert_eq!(open.arguments, SEGMENTED_RING);
        assert_eq!(open.environment[0].0, "GLIBC_TUNABLES");
        let variables = open.as_environment();
        let algorithm = ("OMPI_MCA_coll_tuned_allreduce_algorithm".to_owned(), "5".to_owned());
        assert!(variables.len() == 3 && variables.contains(&algorithm), "{variables:?}");
        let mpich = extras(Vendor::Mpich, json!({"mpi_tuned": true}), &[]).unwrap();
        assert_eq!((mpich.arguments.len(), mpich.environment.len()), (0, 1));
        let wished = [("GLIBC_TUNABLES".to_owned(), "x".to_owned())];
        assert!(extras(Vendor::Mpich, json!({"mpi_tuned": true}), &wished).is_err());
        assert_eq!(extras(Vendor::Intel, json!({}), &[]).unwrap().environment[0].0, "I_MPI_PIN");
    }

    #[test]
    fn no_library_binds_ranks_again() {
        let unbound = |vendor| extras(vendor, json!({}), &[]).unwrap().environment;
        let off = |name: &str| (name.to_owned(), "0".to_owned());
        assert_eq!(unbound(Vendor::Mvapich), [off("MV2_ENABLE_AFFINITY"), off("MVP_ENABLE_AFFINITY")]);
        assert_eq!(unbound(Vendor::Intel), [off("I_MPI_PIN")]);
        assert!(unbound(Vendor::Mpich).is_empty());
    }

    #[test]
    fn ucc_is_asked_for_only_where_it_is() {
        let ucc = || json!({"mpi_collectives": "ucc"});
        let why = extras(Vendor::Mpich, ucc(), &[]).unwrap_err();
        assert_eq!(why, "`mpi_collectives: ucc` is for Open MPI, but this is MPICH 1.0");
        assert_eq!(
            extras(Vendor::OpenMpi, ucc(), &[]).unwrap_err(),
            "Open MPI 1.0 (/no/lib/libmpi.so) has no mca_coll_ucc.so"
        );
        let folder = std::env::temp_dir().join(format!("rankmark-ucc-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let place = format!("system:{}", folder.display());
        let wished = [(COMPONENT_PATH.to_owned(), place)];
        assert!(extras(Vendor::OpenMpi, ucc(), &wished).is_err());
        std::fs::write(folder.join("mca_coll_ucc.so"), "").unwrap();
        let found = extras(Vendor::OpenMpi, ucc(), &wished);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.unwrap().arguments, UCC);
    }
}
