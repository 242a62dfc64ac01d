//! The `nccl` backend without a GPU: what it says to the real library, where there is one, and what it passes to a fake
//! one (`nccl/fake.c`). In the fake, ranks are threads and the device is this process. It proves counts, addresses,
//! types, roots, pairing, groups, splits and aborts; it proves nothing of NCCL itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use comm::library::{Library, Visibility};
use comm::nccl::{Handle, Stream, Symbols};
use comm::{Abort, Call, Communicator, Error, Readiness, Shape, Ticket, Wait, members, threads};
use device::{Queue, Region};
use terms::{Collective, Dtype, Named, Space};

use crate::cases::{Class, Memory, Prepared};
use crate::model::Operation;
use crate::random::{Random, mix};
use crate::skip;

/// The fake, built once; None where there is no C compiler.
fn fake() -> Option<&'static Path> {
    static FAKE: OnceLock<Option<PathBuf>> = OnceLock::new();
    FAKE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let building = folder.join(format!("libnccl-fake-{}.so", std::process::id()));
        let source = folder.join(format!("nccl-fake-{}.c", std::process::id()));
        std::fs::write(&source, include_str!("nccl/fake.c")).unwrap();
        let built = ["cc", "gcc", "clang"].into_iter().find_map(|compiler| {
            let arguments = ["-shared", "-fPIC", "-O1", "-pthread", "-fwrapv", "-o"];
            Command::new(compiler).args(arguments).arg(&building).arg(&source).output().ok()
        });
        std::fs::remove_file(source).unwrap();
        let built = built?;
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        // One name, whole at any time: other runs of the tests may be opening it.
        let library = folder.join("libnccl-fake.so");
        std::fs::rename(building, &library).unwrap();
        Some(library)
    })
    .as_deref()
}

fn fake_or_skip(name: &str) -> Option<Arc<Symbols>> {
    let Some(path) = fake() else {
        skip::skip(name, "no C compiler (cc, gcc, clang)");
        return None;
    };
    Some(Arc::new(Symbols::open(path).unwrap()))
}

/// Counters and switches of the fake.
fn of_fake(name: &std::ffi::CStr) -> unsafe extern "C" fn(i32) -> i32 {
    let library = Library::open(fake().unwrap(), Visibility::Local).unwrap();
    // SAFETY: the fake's functions of these names take an int or nothing, and give an int or nothing.
    unsafe { std::mem::transmute(library.symbol(name).unwrap()) }
}

/// A communicator over the fake. Its device memory is the host's.
struct Rank {
    handle: Handle,
    scratch: Arc<Region>,
}

impl Communicator for Rank {
    fn shape(&self) -> &Shape {
        self.handle.shape()
    }
    fn alloc(&mut self, bytes: usize, _: Space) -> comm::Result<Arc<Region>> {
        Ok(Region::host(bytes).unwrap())
    }
    fn start(&mut self, group: &[Call], _: &Queue) -> comm::Result<Ticket> {
        // SAFETY: the fake's device is this process, and it is done when this returns.
        unsafe { self.handle.issue(group, self.scratch.base(), Stream(std::ptr::null_mut()))? };
        Ok(Ticket { number: 0, done: true })
    }
    fn finish(&mut self, _: &mut Ticket, _: Wait<'_>) -> comm::Result<bool> {
        self.handle.wait(&mut || Ok(true))?;
        Ok(true)
    }
    fn split(&mut self, color: Option<u32>, key: u32) -> comm::Result<Option<Box<dyn Communicator>>> {
        let part = self.handle.split(color, key)?;
        Ok(part.map(|handle| Box::new(Self { handle, scratch: self.scratch.clone() }) as Box<dyn Communicator>))
    }
}

/// Runs `body` as each of `ranks` threads.
fn world(symbols: &Arc<Symbols>, ranks: u32, body: impl Fn(&mut Rank) + Sync) {
    let abort = Abort::default();
    std::thread::scope(|scope| {
        for mut bootstrap in threads(ranks, &abort) {
            let (body, abort) = (&body, abort.clone());
            scope.spawn(move || {
                let handle = Handle::join(symbols.clone(), &mut bootstrap, abort).unwrap();
                body(&mut Rank { handle, scratch: Region::host(64).unwrap() });
            });
        }
    });
}

/// Runs one random operation and checks every byte of it.
fn one(comm: &mut dyn Communicator, memory: &mut Memory, op: Collective, seed: u64) {
    let (rank, ranks) = (comm.shape().rank, comm.shape().size);
    let (mut shared, mut own) = (Random::new(seed), Random::new(mix(seed ^ u64::from(rank))));
    memory.clear();
    let mut operation = Operation::random_of(op, &mut shared, ranks, Class::Small);
    // The fake reduces no halves; NCCL does.
    if op.reduces() && matches!(operation.dtype, Dtype::F16 | Dtype::Bf16) {
        operation.dtype = Dtype::F32;
    }
    let prepared = Prepared::new(operation, rank, memory, &mut shared, &mut own);
    let context = format!("{op} on {ranks} ranks, seed {seed}");
    prepared.fill()();
    let ran = comm.run(&prepared.call);
    if op == Collective::AllToAll && prepared.call.is_in_place() {
        assert!(matches!(ran, Err(Error::Unsupported { backend: "nccl", .. })), "{context}: {ran:?}");
        return;
    }
    ran.unwrap_or_else(|error| panic!("{context}: {error}"));
    prepared.check(&prepared.capture()(), &context);
}

#[test]
fn every_operation_passes_what_the_layout_says() {
    let Some(symbols) = fake_or_skip("every_operation_passes_what_the_layout_says") else { return };
    for ranks in 1..=5 {
        world(&symbols, ranks, |comm| {
            let mut memory = Memory::new(comm);
            for seed in 0..40 {
                Collective::ALL.iter().for_each(|op| one(comm, &mut memory, *op, seed));
            }
        });
    }
}

#[test]
fn groups_of_a_split_are_those_of_color_and_key() {
    let Some(symbols) = fake_or_skip("groups_of_a_split_are_those_of_color_and_key") else { return };
    let entries = [(Some(1), 3), (None, 0), (Some(1), 0), (Some(0), 7), (Some(1), 3)];
    world(&symbols, 5, |comm| {
        let rank = comm.shape().rank;
        let (color, key) = entries[rank as usize];
        let part = comm.split(color, key).unwrap();
        let Some(expected) = members(&entries, rank) else {
            assert!(part.is_none());
            return;
        };
        let mut part = part.unwrap();
        let place = expected.iter().position(|member| *member == rank).unwrap() as u32;
        assert_eq!((part.shape().rank, part.shape().size), (place, expected.len() as u32));
        let mut memory = Memory::new(&mut *part);
        Collective::ALL.iter().for_each(|op| one(&mut *part, &mut memory, *op, 7));
    });
}

#[test]
fn waits_end_by_abort_and_by_the_librarys_own_errors() {
    let Some(symbols) = fake_or_skip("waits_end_by_abort_and_by_the_librarys_own_errors") else { return };
    let [aborts, trouble] = [c"fake_aborts", c"fake_trouble"].map(of_fake);
    // SAFETY: functions of the fake, which count and set numbers of its own.
    let count = || unsafe { aborts(0) };
    let abort = Abort::default();
    let mut bootstrap = threads(1, &abort).remove(0);
    let mut handle = Handle::join(symbols.clone(), &mut bootstrap, abort.clone()).unwrap();
    handle.wait(&mut || Ok(true)).unwrap();
    let raiser = abort.clone();
    let ended = std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            raiser.raise();
        });
        handle.wait(&mut || Ok(false))
    });
    assert!(matches!(ended, Err(Error::Aborted)), "{ended:?}");
    assert_eq!(count(), 1, "the library was told");
    drop(handle);
    assert_eq!(count(), 1, "and only once");

    let mut bootstrap = threads(1, &Abort::default()).remove(0);
    let mut handle = Handle::join(symbols.clone(), &mut bootstrap, Abort::default()).unwrap();
    // SAFETY: as above.
    unsafe { trouble(6) };
    let ended = handle.wait(&mut || Ok(false)).unwrap_err().to_string();
    // SAFETY: as above.
    unsafe { trouble(0) };
    assert_eq!(ended, "a group: remote process exited (planted trouble 6)");
    assert_eq!(count(), 1, "the library says its errors as long as there is a communicator");
    drop(handle);
    assert_eq!(count(), 2, "destroying would wait for the peer that is gone");

    let mut bootstrap = threads(1, &Abort::default()).remove(0);
    let mut handle = Handle::join(symbols.clone(), &mut bootstrap, Abort::default()).unwrap();
    let lost = handle.wait(&mut || Err(Error::Mismatch("the stream is lost".to_owned())));
    assert!(matches!(lost, Err(Error::Mismatch(_))), "{lost:?}");
    drop(handle);
    assert_eq!(count(), 3, "what a lost stream was given is never done");

    let mut bootstrap = threads(1, &Abort::default()).remove(0);
    drop(Handle::join(symbols, &mut bootstrap, Abort::default()).unwrap());
    assert_eq!(count(), 3, "a communicator without errors is destroyed");
}

/// The real library: RANKMARK_TEST_NCCL names it, else where the loader finds it.
fn real(name: &str) -> Option<Arc<Symbols>> {
    let named = std::env::var_os("RANKMARK_TEST_NCCL").map(PathBuf::from);
    let found = named.or_else(|| comm::library::find(&comm::library::search_path(), &["libnccl"]).into_iter().next());
    let Some(path) = found else {
        skip::skip(name, "no NCCL (hint: RANKMARK_TEST_NCCL=PATH of libnccl.so.2 from the wheel nvidia-nccl-cu13)");
        return None;
    };
    Some(Arc::new(Symbols::open(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))))
}

#[test]
fn the_real_library_says_its_version_errors_and_identities() {
    let Some(symbols) = real("the_real_library_says_its_version_errors_and_identities") else { return };
    let version = symbols.version().unwrap();
    let numbers: Vec<u32> = version.split('.').map(|number| number.parse().unwrap()).collect();
    assert!(numbers.len() == 3 && (2..10).contains(&numbers[0]), "{version}");
    assert_eq!(symbols.error_string(0), "no error");
    assert_eq!(symbols.error_string(4), "invalid argument (run with NCCL_DEBUG=WARN for details)");
    assert!(symbols.error_string(99).contains("unknown result code"), "{}", symbols.error_string(99));
    let (first, second) = (symbols.unique_id().unwrap(), symbols.unique_id().unwrap());
    assert!(first != second && first.0.iter().any(|byte| *byte != 0), "identities differ");
}

#[test]
fn the_real_library_without_a_gpu_gives_a_clean_error() {
    let name = "the_real_library_without_a_gpu_gives_a_clean_error";
    if Path::new("/dev/nvidiactl").exists() {
        return skip::skip(name, "this machine has a GPU");
    }
    let Some(symbols) = real(name) else { return };
    let mut bootstrap = threads(1, &Abort::default()).remove(0);
    let refused = Handle::join(symbols.clone(), &mut bootstrap, Abort::default()).map(|_| ()).unwrap_err().to_string();
    assert!(refused.starts_with("ncclCommInitRank: "), "{refused}");
    assert!(refused.len() > "ncclCommInitRank: ".len(), "{refused}");
}

#[test]
fn the_backend_is_listed_with_what_lacks() {
    let nccl = comm::backend("nccl").unwrap();
    let Readiness::Missing { why, hint } = nccl.probe() else { panic!("never ready without device memory") };
    assert!(why.ends_with("no CUDA device memory") && !hint.is_empty(), "{why}");
    assert!(comm::open("nccl", &mut threads(1, &Abort::default())[0], &comm::Options::default()).is_err());
}
