//! Starts worlds on this host, each as it needs it: ranks of PyTorch by the user's Python, ranks of `mpi` through their
//! library's own `mpirun`, all others as children of the coordinator.
//!
//! A rank that `mpirun` starts inherits no descriptor of the coordinator. It is told, in its hidden argument, where the
//! coordinator's own descriptors lie below /proc: sealed memory without a name, which the kernel opens to processes of
//! the same user only (as it would a file of mode 0600) and which is gone with the coordinator. So the secret is in no
//! argument, no environment variable and no file; the argument, which anybody may read, holds a place and no secret.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use comm::mpi::{Facts, Vendor};
use measure::{Starter, Verdict, World, WorldSpec};
use process::path_of;
use serde_json::Value;
use survey::Mpirun;

use crate::LocalStarter;
use crate::launcher::Launcher;
use crate::mpirun;
use crate::opening::Opening;
use crate::pytorch;
use crate::rank::launched_argument;
use crate::starter::{Wishes, check_descriptors};
use crate::verdict::{lacking, not_started};
use crate::world::ProcessWorld;

/// Starts worlds on this host.
#[derive(Clone, Debug)]
pub struct HostStarter {
    local: LocalStarter,
    search: Vec<PathBuf>,
    limit: Duration,
}

/// An MPI library and what starts its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiLaunch {
    /// The library.
    pub facts: Facts,
    /// Its launcher.
    pub mpirun: Mpirun,
}

/// Malloc keeps its memory and asks for huge pages, so that a library's temporary buffers are not mapped anew in each
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

impl HostStarter {
    /// Looks for launchers beside their libraries and in these folders (the path). Ranks have a minute to come up.
    pub fn new(search: Vec<PathBuf>) -> Self {
        Self { local: LocalStarter::new(), search, limit: Duration::from_secs(60) }
    }

    /// Gives ranks this long to come up.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        (self.local, self.limit) = (self.local.limit(limit), limit);
        self
    }

    /// A library (None: the first that the loader finds) and its launcher.
    ///
    /// # Errors
    /// What this machine lacks.
    pub fn mpi(&self, library: Option<&str>) -> Result<MpiLaunch, String> {
        let facts = comm::mpi::facts(library)?;
        let mpirun = Mpirun::of(&facts, &self.search)?;
        Ok(MpiLaunch { facts, mpirun })
    }

    /// As [`Starter::start`], giving the world as what it is.
    ///
    /// # Errors
    /// As [`Starter::start`].
    pub fn start_processes(&self, spec: &WorldSpec) -> Result<ProcessWorld, Verdict> {
        if pytorch::is_asked(spec) {
            pytorch::check(spec, &self.search)?;
            return self.local.clone().limit(pytorch::LIMIT).start_processes(spec);
        }
        let backend = spec.fields.get("backend").and_then(Value::as_str).and_then(comm::backend);
        if !backend.is_some_and(|backend| backend.about().launched) {
            return self.local.start_processes(spec);
        }
        let wishes = Wishes::of(spec).map_err(|message| not_started(message, None))?;
        check_descriptors(spec.ranks)?;
        let library = spec.fields.get("mpi_library").and_then(Value::as_str);
        let mpi = self.mpi(library).map_err(lacking)?;
        let extras = Extras::of(spec, &mpi.facts, &wishes.environment).map_err(lacking)?;
        let mut world = self.start_all(spec, &wishes, &mpi.mpirun, &extras)?;
        world.come_up(self.limit)?;
        Ok(world)
    }

    fn start_all(
        &self,
        spec: &WorldSpec,
        wishes: &Wishes,
        mpirun: &Mpirun,
        extras: &Extras,
    ) -> Result<ProcessWorld, Verdict> {
        let failed = |what: &'static str| move |error: io::Error| not_started(format!("{what}: {error}"), None);
        let Opening { mut world, invitation, status, .. } = Opening::of(spec, wishes.bound, self.limit)?;
        // A link would be the launcher's own program there.
        let program = std::env::current_exe().map_err(failed("finding this program"))?;
        let argument = launched_argument(mpirun::seat(mpirun), &path_of(&invitation), &path_of(&status));
        let mut command = mpirun::command(mpirun, spec.ranks, &extras.arguments, &program, &argument);
        command.envs(extras.environment.iter().chain(&wishes.environment).map(|(name, value)| (name, value)));
        let name = mpirun.program.display().to_string();
        let launcher = Launcher::start(name.clone(), command)
            .map_err(|error| not_started(format!("starting {name} for {} ranks: {error}", spec.ranks), None))?;
        world.start_by(launcher, spec.ranks, vec![invitation, status]);
        Ok(world)
    }
}

impl Starter for HostStarter {
    fn start(&mut self, spec: &WorldSpec) -> Result<Box<dyn World>, Verdict> {
        Ok(Box::new(self.start_processes(spec)?))
    }
}

/// What a world's fields add to the command and its environment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Extras {
    pub(crate) fn of(spec: &WorldSpec, facts: &Facts, wished: &[(String, String)]) -> Result<Self, String> {
        let mut extras = Self::default();
        let flag = |name: &str| spec.fields.get(name).and_then(Value::as_bool).unwrap_or(false);
        if facts.vendor == Vendor::Intel {
            // It would bind ranks anew when they initialise it.
            extras.set("I_MPI_PIN", "0");
        }
        if flag("mpi_tuned") {
            if wished.iter().any(|(name, _)| name == TUNABLES.0) {
                return Err(format!("`mpi_tuned` sets {0}, and `env` sets it otherwise", TUNABLES.0));
            }
            extras.set(TUNABLES.0, TUNABLES.1);
            if facts.vendor == Vendor::OpenMpi {
                extras.arguments.extend(SEGMENTED_RING.map(str::to_owned));
            }
        }
        if spec.fields.get("mpi_collectives").and_then(Value::as_str) == Some("ucc") {
            has_ucc(facts, wished)?;
            extras.arguments.extend(UCC.map(str::to_owned));
        }
        Ok(extras)
    }

    /// The same where the ranks are there already: what Open MPI's launcher takes as `--mca NAME VALUE`, its library reads
    /// from the environment.
    pub(crate) fn as_environment(&self) -> Vec<(String, String)> {
        let options =
            self.arguments.chunks_exact(3).map(|option| (format!("OMPI_MCA_{}", option[1]), option[2].clone()));
        self.environment.iter().cloned().chain(options).collect()
    }

    fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }
}

/// Whether a library has UCC's collectives, before a world is started in vain: beside it, in the folders that `env` adds, or
/// built in, when it needs UCC itself. Whether they can be loaded and work the ranks see.
fn has_ucc(facts: &Facts, wished: &[(String, String)]) -> Result<(), String> {
    if facts.vendor != Vendor::OpenMpi {
        return Err(format!("`mpi_collectives: ucc` is for Open MPI, and this is {}", facts.version()));
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
    use serde_json::json;

    fn extras(vendor: Vendor, fields: Value, wished: &[(String, String)]) -> Result<Extras, String> {
        let Value::Object(fields) = fields else { panic!("an object") };
        let facts =
            Facts { vendor, number: "1.0".to_owned(), abi: String::new(), path: "/no/lib/libmpi.so".to_owned() };
        Extras::of(&WorldSpec { ranks: 2, fields }, &facts, wished)
    }

    #[test]
    fn tuning_is_what_the_documentation_says() {
        assert_eq!(extras(Vendor::OpenMpi, json!({"mpi_tuned": false}), &[]), Ok(Extras::default()));
        let open = extras(Vendor::OpenMpi, json!({"mpi_tuned": true}), &[]).unwrap();
        assert_eq!(open.arguments, SEGMENTED_RING);
        assert_eq!(open.environment[0].0, "GLIBC_TUNABLES");
        let told = open.as_environment();
        let algorithm = ("OMPI_MCA_coll_tuned_allreduce_algorithm".to_owned(), "5".to_owned());
        assert!(told.len() == 3 && told.contains(&algorithm), "{told:?}");
        let mpich = extras(Vendor::Mpich, json!({"mpi_tuned": true}), &[]).unwrap();
        assert_eq!((mpich.arguments.len(), mpich.environment.len()), (0, 1));
        let wished = [("GLIBC_TUNABLES".to_owned(), "x".to_owned())];
        assert!(extras(Vendor::Mpich, json!({"mpi_tuned": true}), &wished).is_err());
        assert_eq!(extras(Vendor::Intel, json!({}), &[]).unwrap().environment[0].0, "I_MPI_PIN");
    }

    #[test]
    fn ucc_is_never_asked_for_in_vain() {
        let ucc = || json!({"mpi_collectives": "ucc"});
        let why = extras(Vendor::Mpich, ucc(), &[]).unwrap_err();
        assert_eq!(why, "`mpi_collectives: ucc` is for Open MPI, and this is MPICH 1.0");
        assert_eq!(
            extras(Vendor::OpenMpi, ucc(), &[]).unwrap_err(),
            "Open MPI 1.0 (/no/lib/libmpi.so) has no mca_coll_ucc.so"
        );
        let folder = tempfile::tempdir().unwrap();
        let place = format!("system:{}", folder.path().display());
        let wished = [(COMPONENT_PATH.to_owned(), place)];
        assert!(extras(Vendor::OpenMpi, ucc(), &wished).is_err());
        std::fs::write(folder.path().join("mca_coll_ucc.so"), "").unwrap();
        assert_eq!(extras(Vendor::OpenMpi, ucc(), &wished).unwrap().arguments, UCC);
    }
}
