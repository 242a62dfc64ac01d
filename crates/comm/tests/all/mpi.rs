//! The suite over every MPI library that is installed, its ranks started by its own launcher.
//!
//! Looked for: Debian's Open MPI and MPICH, and below the folders that `RANKMARK_TEST_MPI` names (separated by colons;
//! an installation or a virtual environment each, with `lib/libmpi*.so*` and `bin/mpiexec`).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use comm::mpi::MpiProgress;
use comm::{Call, Error, Options, Progress, Wait};
use device::{Queue, Region};
use terms::{Collective, Direction, Dtype, Named, Reduce};

use crate::cases::Class;
use crate::conformance::{Runner, splits};
use crate::processes::{Relay, relay};
use crate::random::mix;
use crate::skip;
use crate::worlds::Wrapping;

/// What a rank is to do, in words: whom to call, the library, how many ranks, which part.
const ROLE: &str = "COMM_TEST_MPI_ROLE";
const LIMIT: Duration = Duration::from_secs(90);

/// A library and what starts its ranks.
struct Installed {
    library: String,
    launcher: PathBuf,
}

fn installed() -> Vec<Installed> {
    let debian = [("libmpi.so.40", "/usr/bin/mpirun.openmpi"), ("libmpich.so.12", "/usr/bin/mpirun.mpich")];
    let mut found: Vec<Installed> = debian
        .into_iter()
        .map(|(library, launcher)| Installed { library: library.to_owned(), launcher: launcher.into() })
        .collect();
    let folders = std::env::var("RANKMARK_TEST_MPI").unwrap_or_default();
    for folder in folders.split(':').filter(|folder| !folder.is_empty()) {
        for name in ["libmpi.so.40", "libmpi.so.12", "libmpi_abi.so.1"] {
            let library = Path::new(folder).join("lib").join(name);
            if library.exists() {
                let library = library.to_string_lossy().into_owned();
                found.push(Installed { library, launcher: Path::new(folder).join("bin/mpiexec") });
            }
        }
    }
    found.retain(|one| one.launcher.exists());
    found
}

/// Every installed library with a part of the tests, on so many ranks.
fn everywhere(part: &str, ranks: &[u32]) {
    let installed = installed();
    if installed.is_empty() {
        skip::skip("mpi backend", "no MPI library with its mpirun (Debian: openmpi-bin, mpich)");
    }
    for one in installed {
        ranks.iter().for_each(|ranks| launch(&one, part, *ranks, *ranks));
    }
}

#[test]
fn blocking_calls_conform() {
    everywhere("none", &[2]);
}

#[test]
fn blocking_calls_of_one_rank_conform() {
    everywhere("none", &[1]);
}

#[test]
fn blocking_calls_of_four_ranks_conform() {
    everywhere("none", &[4]);
}

#[test]
fn calls_that_do_not_block_conform() {
    everywhere("poll", &[2]);
}

#[test]
fn calls_of_four_ranks_that_do_not_block_conform() {
    everywhere("poll", &[4]);
}

#[test]
fn counts_beyond_an_int_conform() {
    everywhere("cut", &[2, 3]);
}

#[test]
fn wrapped_conforms() {
    everywhere("wrapped", &[2]);
}

#[test]
fn an_abort_ends_a_wait_that_polls() {
    everywhere("abort", &[2]);
}

#[test]
fn worlds_of_one_rank_are_recognised() {
    let Some(one) = installed().into_iter().next() else {
        return skip::skip("mpi backend", "no MPI library with its mpirun (Debian: openmpi-bin, mpich)");
    };
    // Two launchers; each starts a world of its own.
    launch(&one, "apart", 1, 2);
}

#[test]
fn ranks_of_different_libraries_are_told_so() {
    let installed = installed();
    let find = |library: &str| installed.iter().find(|one| one.library == library);
    let (Some(open_mpi), Some(mpich)) = (find("libmpi.so.40"), find("libmpich.so.12")) else {
        return skip::skip("ranks of different MPI libraries", "not both of Debian's (openmpi-bin, mpich)");
    };
    // Each started by its own launcher: what they have in common is the bootstrap.
    launch_by(&[open_mpi, mpich], "mixed", 1);
    let none = Installed { library: NO_LIBRARY.to_owned(), launcher: mpich.launcher.clone() };
    launch_by(&[open_mpi, &none], "lacking", 1);
}

/// Found nowhere.
const NO_LIBRARY: &str = "libno-such-mpi.so.1";

/// Starts `ranks` ranks (in worlds of `each`) and waits for them.
fn launch(one: &Installed, part: &str, each: u32, ranks: u32) {
    launch_by(&vec![one; (ranks / each) as usize], part, each);
}

/// Starts a world of `each` ranks of each of these, and waits for all of them, which share one bootstrap.
fn launch_by(worlds: &[&Installed], part: &str, each: u32) {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let address = format!("comm-mpi-{}-{number}", std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&address).unwrap()).unwrap();
    let ranks = each * worlds.len() as u32;
    let started = |(one, index): (&&Installed, u32)| {
        start(one, each, &format!("{address} {} {ranks} {part} {}", one.library, index * each))
    };
    let mut launchers: Vec<Child> = worlds.iter().zip(0..).map(started).collect();
    let relay = std::thread::spawn(move || relay(&listener, ranks));
    let libraries: Vec<&str> = worlds.iter().map(|one| one.library.as_str()).collect();
    let context = format!("{} {part} x {ranks}", libraries.join(", "));
    let deadline = Instant::now() + LIMIT;
    let mut failed = None;
    while let Some(launcher) = launchers.first_mut() {
        match launcher.try_wait().expect("a child") {
            // Who leaves in the middle of an operation does not finalise, which its launcher takes amiss.
            Some(status) if status.success() || part == "abort" => drop(launchers.remove(0)),
            Some(status) => failed = Some(format!("{context}: {status}; its output is above")),
            None if Instant::now() > deadline => failed = Some(format!("{context}: not done after {LIMIT:?}")),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
        if failed.is_some() {
            break;
        }
    }
    for mut launcher in launchers {
        // SAFETY: a plain call; the child was not waited for yet. A launcher that is asked to end ends its ranks.
        unsafe { libc::kill(launcher.id() as i32, libc::SIGTERM) };
        std::thread::sleep(Duration::from_millis(300));
        let _ = launcher.kill();
        let _ = launcher.wait();
    }
    if let Some(why) = failed {
        panic!("{why}");
    }
    relay.join().expect("the relay");
}

fn start(one: &Installed, ranks: u32, role: &str) -> Child {
    let mut command = Command::new(&one.launcher);
    let says = Command::new(&one.launcher).arg("--version").output().expect("its version").stdout;
    if !String::from_utf8_lossy(&says).contains("Intel") && !String::from_utf8_lossy(&says).contains("HYDRA") {
        command.args(["--oversubscribe", "--bind-to", "none"]);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.env("PRTE_ALLOW_RUN_AS_ROOT", "1").env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    command.args(["-n", &ranks.to_string()]).arg(std::env::current_exe().expect("this test"));
    command.args(["--exact", "mpi::a_rank", "--ignored", "--nocapture", "--test-threads=1"]).env(ROLE, role);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("a launcher")
}

/// Started by [`launch`]; by itself there is no world to be a rank of.
#[test]
#[ignore = "a rank of the tests above"]
fn a_rank() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let [address, library, ranks, part, first] = role.split(' ').collect::<Vec<_>>()[..] else { panic!("{role}") };
    let ranks: u32 = ranks.parse().expect("a number");
    let own = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"].iter().find_map(|name| std::env::var(name).ok());
    let own: u8 = own.expect("the launcher says which rank this is").parse().expect("a number");
    let first: u8 = first.parse().expect("a number");
    // The other way round, so that ranks of the world are not the launcher's.
    let rank =
        if first == 0 && !matches!(part, "apart" | "mixed" | "lacking") { ranks as u8 - 1 - own } else { first + own };
    let mut relay = Relay::connect(address, rank, ranks).expect("the test listens");
    match part {
        "none" => {
            let mut opened = open(library, &mut relay, MpiProgress::None, None, Wrapping::Plain);
            conforms(&mut opened.0, 30, &role);
        }
        "poll" => {
            let mut opened = open(library, &mut relay, MpiProgress::Poll, None, Wrapping::Plain);
            conforms(&mut opened.0, 30, &role);
        }
        "cut" => {
            // The first stays open: MPI ends with its last communicator.
            let mut blocking = open(library, &mut relay, MpiProgress::None, Some(700), Wrapping::Plain);
            let mut polling = open(library, &mut relay, MpiProgress::Poll, Some(97), Wrapping::Plain);
            conforms(&mut blocking.0, 20, &role);
            conforms(&mut polling.0, 20, &role);
        }
        "wrapped" => {
            let _first = open(library, &mut relay, MpiProgress::None, None, Wrapping::Threaded);
            for wrapping in [Wrapping::Threaded, Wrapping::Paced, Wrapping::ThreadedPaced, Wrapping::Observed] {
                let mut opened = open(library, &mut relay, MpiProgress::None, None, wrapping);
                conforms(&mut opened.0, 8, &format!("{role} {wrapping:?}"));
            }
            let mut opened = open(library, &mut relay, MpiProgress::Poll, None, Wrapping::Paced);
            conforms(&mut opened.0, 8, &format!("{role} polled and paced"));
        }
        "abort" => aborts(library, &mut relay),
        "apart" => {
            let error = comm::open("mpi", &mut relay, &options(library, MpiProgress::None, None, Wrapping::Plain));
            let error = error.err().expect("two worlds").to_string();
            assert!(error.contains("MPI sees a world of 1, not of 2"), "{error}");
        }
        "mixed" => disagrees(library, &mut relay, "rank 1 has MPICH "),
        "lacking" => disagrees(library, &mut relay, &format!("rank 1 has none: {NO_LIBRARY}: ")),
        other => panic!("{other}"),
    }
}

fn options(library: &str, progress: MpiProgress, largest: Option<u32>, wrapping: Wrapping) -> Options {
    let progress = if progress == MpiProgress::Poll { "poll" } else { "none" };
    let mut own: comm::Own = [("mpi_library".to_owned(), library.into()), ("mpi_progress".to_owned(), progress.into())]
        .into_iter()
        .collect();
    own.extend(largest.map(|largest| ("mpi_largest".to_owned(), largest.into())));
    Options { own, oversubscribed: true, ..wrapping.options(2) }
}

/// Whichever rank this is, its error names rank 0's library and another's, before MPI can wait for anybody.
fn disagrees(library: &str, relay: &mut Relay, other: &str) {
    let error = comm::open("mpi", relay, &options(library, MpiProgress::None, None, Wrapping::Plain));
    let error = error.err().expect("two libraries").to_string();
    assert!(error.starts_with("ranks disagree: rank 0 has Open MPI "), "{error}");
    assert!(error.contains(&format!(", {other}")), "{error}");
}

type Opened = (Box<dyn comm::Communicator>, comm::Abort);

fn open(library: &str, relay: &mut Relay, progress: MpiProgress, largest: Option<u32>, wrapping: Wrapping) -> Opened {
    let options = options(library, progress, largest, wrapping);
    let (comm, abort) = comm::open("mpi", relay, &options).unwrap_or_else(|error| panic!("{error}"));
    let expected = match (options.progress_thread, progress) {
        (true, _) => Progress::Thread,
        (_, MpiProgress::None) => Progress::Caller,
        (_, MpiProgress::Poll) => Progress::Poll,
    };
    assert_eq!(comm.shape().capabilities.progress, expected);
    (wrapping.wrap(comm, &abort, &options), abort)
}

fn conforms(comm: &mut Box<dyn comm::Communicator>, batches: u64, world: &str) {
    let comm = &mut **comm;
    let mut runner = Runner::new(comm);
    let seed = mix(0x4d50 ^ u64::from(comm.shape().size));
    for batch in 0..batches {
        runner.batch(comm, mix(seed ^ batch), &format!("{world} batch {batch}"));
    }
    // Of pieces of a hundred elements megabytes have too many.
    let large = Collective::ALL.iter().filter(|_| !world.contains(" cut "));
    for op in large {
        runner.single(comm, *op, Class::Large, mix(seed ^ 0x100 ^ *op as u64), &format!("{world} {op}"));
    }
    splits(comm, &mut runner, seed, world);
}

/// Rank 0 waits for an operation that rank 1 never enters.
fn aborts(library: &str, relay: &mut Relay) {
    use comm::Bootstrap;
    let (mut comm, abort) = open(library, relay, MpiProgress::Poll, None, Wrapping::Plain);
    if comm.shape().rank == 0 {
        let region = Region::host(64).expect("memory");
        let (op, dtype, reduce) = (Collective::AllReduce, Dtype::F32, Reduce::Sum);
        let (input, output, direction) = (region.whole(), region.whole(), Direction::OneWay);
        let call = Call { op, input, output, dtype, reduce, peer: 0, direction, counts: None };
        let mut ticket = comm.start(&[call], &Queue::host()).expect("it starts");
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            abort.raise();
        });
        let result = comm.finish(&mut ticket, Wait::Host);
        assert!(matches!(result, Err(Error::Aborted)), "{result:?}");
    } else {
        abort.raise();
    }
    relay.all_gather(&[]).expect("the other rank came as far");
}
