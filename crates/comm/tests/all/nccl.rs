//! The `nccl` backend without a GPU: what it says to the real library, where there is one, and what it passes to a fake
//! one (`tests/fakes`), on memory of the host and of a fake GPU. It proves counts, addresses, types, roots, pairing, groups, splits,
//! waits and aborts; it proves nothing of NCCL itself.

mod since;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use comm::library::{Library, Visibility};
use comm::nccl::{Handle, Stream, Symbols};
use comm::{Abort, Call, Communicator, Error, Readiness, Shape, Ticket, Wait, members, threads};
use device::{Queue, Region, Slice};
use terms::{Collective, Dtype, Named, Space};

use crate::cases::{Class, GUARD, Memory, Prepared};
use crate::fakes;
use crate::model::Operation;
use crate::random::{Random, mix};
use crate::skip;

fn fake_or_skip(name: &str) -> Option<Arc<Symbols>> {
    Some(Arc::new(Symbols::open(&fakes::folder(name)?.join("libnccl.so.2")).unwrap()))
}

/// Counters and switches of the fake.
fn of_fake(name: &std::ffi::CStr) -> unsafe extern "C" fn(i32) -> i32 {
    let path = fakes::folder("").unwrap().join("libnccl.so.2");
    let library = Library::open(&path, Visibility::Local).unwrap();
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
    one_unless(|call| call.op == Collective::AllToAll && call.is_in_place(), comm, memory, op, seed);
}

/// Runs one random operation and checks every byte of it, or that it is refused where `refused` says so.
pub(crate) fn one_unless(
    refused: impl Fn(&Call) -> bool,
    comm: &mut dyn Communicator,
    memory: &mut Memory,
    op: Collective,
    seed: u64,
) {
    let (rank, ranks) = (comm.shape().rank, comm.shape().size);
    let (mut shared, mut own) = (Random::new(seed), Random::new(mix(seed ^ u64::from(rank))));
    memory.clear();
    let operation = Operation::random_of(op, &mut shared, ranks, Class::Small);
    let prepared = Prepared::new(operation, rank, memory, &mut shared, &mut own);
    let context = format!("{op} on {ranks} ranks, seed {seed}");
    prepared.fill()();
    let ran = comm.run(&prepared.call);
    if refused(&prepared.call) {
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
    let path = real_file(name)?;
    Some(Arc::new(Symbols::open(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))))
}

fn real_file(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("RANKMARK_TEST_NCCL").map(PathBuf::from);
    let found = named.or_else(|| comm::library::find(&comm::library::search_path(), &["libnccl"]).into_iter().next());
    if found.is_none() {
        skip::skip(name, "no NCCL (hint: RANKMARK_TEST_NCCL=PATH of libnccl.so.2 from the wheel nvidia-nccl-cu13)");
    }
    found
}

#[test]
fn the_real_library_says_its_version_errors_and_identities() {
    let Some(symbols) = real("the_real_library_says_its_version_errors_and_identities") else { return };
    let version = symbols.version().unwrap();
    let numbers: Vec<u32> = version.split('.').map(|number| number.parse().unwrap()).collect();
    assert!(numbers.len() == 3 && (2..10).contains(&numbers[0]), "{version}");
    let file = real_file("the_real_library_says_its_version_errors_and_identities").unwrap();
    assert_eq!(comm::nccl::version_of(&file), version, "what is read in the file is what the library says");
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
    let name = "the_backend_is_listed_with_what_lacks";
    if Path::new("/dev/nvidiactl").exists() {
        return skip::skip(name, "this machine has a GPU");
    }
    let nccl = comm::backend("nccl").unwrap();
    let Readiness::Missing { why, hint } = nccl.probe() else { panic!("ready without a GPU") };
    assert!(why.contains("no GPU driver") && !hint.is_empty(), "{why}");
    let refused = comm::open("nccl", &mut threads(1, &Abort::default())[0], &comm::Options::default()).map(drop);
    let said = refused.unwrap_err().to_string();
    assert_eq!(said, "backend `nccl` cannot use a GPU on rank 0, host localhost: no libcuda.so where the loader looks");
}

/// The backend on the fakes; None where they cannot be built, and without nextest: where libraries are looked for holds for a process,
/// and other tests have none.
#[allow(clippy::disallowed_methods, reason = "the runner says by a variable that it starts a process for each test")]
pub(crate) fn surrounded(name: &str) -> Option<()> {
    if std::env::var_os("NEXTEST").is_none() {
        crate::skip::skip(name, "needs a process of its own (hint: install cargo-nextest)");
        return None;
    }
    fakes::folder(name)?;
    comm::surrounded_by(|| {
        let folders = fakes::folder("").map(Path::to_owned).into_iter().collect();
        comm::Surroundings { folders, ..comm::Surroundings::default() }
    });
    Some(())
}

/// Runs `body` as each of `ranks` threads, each with a GPU of its own.
fn on_gpus(ranks: u32, body: impl Fn(Box<dyn Communicator>) + Sync) {
    on_gpus_by("nccl", ranks, body);
}

/// Runs `body` as each of `ranks` threads, each with a GPU of its own, with this backend.
pub(crate) fn on_gpus_by(backend: &str, ranks: u32, body: impl Fn(Box<dyn Communicator>) + Sync) {
    let options = comm::Options { gpus: true, oversubscribed: true, ..comm::Options::default() };
    std::thread::scope(|scope| {
        for mut bootstrap in threads(ranks, &Abort::default()) {
            let (body, options) = (&body, &options);
            scope.spawn(move || body(comm::open(backend, &mut bootstrap, options).unwrap().0));
        }
    });
}

/// How a mirrored call runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    Run,
    Enqueue,
    Start,
}

/// Calls in memory of the host as calls in memory of the GPU: the buffers and the bytes around them go there and come back.
pub(crate) struct Mirrored {
    pub(crate) inner: Box<dyn Communicator>,
    pub(crate) manner: Manner,
}

impl Communicator for Mirrored {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }
    fn alloc(&mut self, bytes: usize, _: Space) -> comm::Result<Arc<Region>> {
        Ok(Region::host(bytes).unwrap())
    }
    fn start(&mut self, _: &[Call], _: &Queue) -> comm::Result<Ticket> {
        panic!("this test runs one call at a time")
    }
    fn finish(&mut self, _: &mut Ticket, _: Wait<'_>) -> comm::Result<bool> {
        panic!("this test runs one call at a time")
    }
    fn split(&mut self, color: Option<u32>, key: u32) -> comm::Result<Option<Box<dyn Communicator>>> {
        let manner = self.manner;
        Ok(self.inner.split(color, key)?.map(|inner| Box::new(Self { inner, manner }) as Box<dyn Communicator>))
    }
    fn run(&mut self, call: &Call) -> comm::Result<()> {
        let mut hulls: HashMap<_, (Arc<Region>, usize, usize)> = HashMap::new();
        for slice in [&call.input, &call.output] {
            let (begin, end) = (slice.offset() - GUARD, slice.offset() + slice.len() + GUARD);
            let hull = hulls.entry(slice.region().id()).or_insert((slice.region().clone(), begin, end));
            (hull.1, hull.2) = (hull.1.min(begin), hull.2.max(end));
        }
        let mut mirrors = HashMap::new();
        for (id, (region, begin, end)) in &hulls {
            let there = self.inner.alloc_private(end - begin, Space::Cuda)?.whole();
            let mut bytes = vec![0; end - begin];
            // SAFETY: inside the region, which this thread alone uses.
            unsafe { std::ptr::copy_nonoverlapping(region.base().add(*begin), bytes.as_mut_ptr(), bytes.len()) };
            there.write(&bytes).unwrap();
            mirrors.insert(*id, there);
        }
        let mirrored = |slice: &Slice| {
            let id = slice.region().id();
            mirrors[&id].slice(slice.offset() - hulls[&id].1, slice.len()).unwrap()
        };
        let there = Call { input: mirrored(&call.input), output: mirrored(&call.output), ..call.clone() };
        match self.manner {
            Manner::Run => self.inner.run(&there)?,
            Manner::Enqueue => {
                self.inner.enqueue(&there)?;
                self.inner.drain()?;
            }
            Manner::Start => {
                let mut ticket = self.inner.start(&[there], &Queue::host())?;
                while !self.inner.finish(&mut ticket, Wait::Poll)? {}
            }
        }
        for (id, (region, begin, _)) in &hulls {
            let mut bytes = vec![0; mirrors[id].len()];
            mirrors[id].read(&mut bytes).unwrap();
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), region.base().add(*begin), bytes.len()) };
        }
        Ok(())
    }
}

#[test]
fn every_operation_on_gpus_does_what_the_layout_says() {
    if surrounded("every_operation_on_gpus_does_what_the_layout_says").is_none() {
        return;
    }
    for (ranks, manner) in [(1, Manner::Run), (2, Manner::Enqueue), (3, Manner::Start), (4, Manner::Run)] {
        on_gpus(ranks, |inner| {
            let mut comm = Mirrored { inner, manner };
            let mut memory = Memory::new(&mut comm);
            for seed in 0..4 {
                Collective::ALL.iter().for_each(|op| one(&mut comm, &mut memory, *op, seed));
            }
            // Ranks 0 and 2, and the others.
            let (color, key) = (comm.shape().rank % 2, 9 - comm.shape().rank);
            let mut part = comm.split(Some(color), key).unwrap().unwrap();
            let mut memory = Memory::new(&mut *part);
            Collective::ALL.iter().for_each(|op| one(&mut *part, &mut memory, *op, 5));
        });
    }
}

/// A result that is read before anybody waited is not there yet: a forgotten wait would show.
#[test]
fn a_call_that_was_enqueued_is_complete_only_once_it_is_drained() {
    if surrounded("a_call_that_was_enqueued_is_complete_only_once_it_is_drained").is_none() {
        return;
    }
    on_gpus(2, |mut comm| {
        let region = comm.alloc(16, Space::Cuda).unwrap();
        let whole = region.whole();
        whole.write(&[1; 16]).unwrap();
        let call = sum(&whole);
        comm.enqueue(&call).unwrap();
        comm.enqueue(&call).unwrap();
        // Groups in flight beside what is enqueued.
        let mut ticket = comm.start(std::slice::from_ref(&call), &Queue::host()).unwrap();
        assert!(!ticket.done);
        comm.drain().unwrap();
        assert!(comm.finish(&mut ticket, Wait::Host).unwrap() && ticket.done);
        let mut bytes = [0; 16];
        whole.read(&mut bytes).unwrap();
        assert_eq!(bytes, [8; 16]);
    });
}

/// Whether the stream has run all that it was given: the fake goes on only where somebody waits or asks.
fn is_idle(stream: *mut std::ffi::c_void) -> bool {
    let library = Library::open(&fakes::folder("").unwrap().join("libcuda.so.1"), Visibility::Local).unwrap();
    // SAFETY: the driver's function of this name takes a stream and gives a code.
    let query: unsafe extern "C" fn(*mut std::ffi::c_void) -> i32 =
        unsafe { std::mem::transmute(library.symbol(c"cuStreamQuery").unwrap()) };
    // SAFETY: a stream that is alive.
    unsafe { query(stream) == 0 }
}

#[test]
fn each_way_to_wait_waits_for_the_stream() {
    if surrounded("each_way_to_wait_waits_for_the_stream").is_none() {
        return;
    }
    on_gpus(1, |mut comm| {
        let whole = comm.alloc(16, Space::Cuda).unwrap().whole();
        let (call, stream) = (sum(&whole), whole.gpu().unwrap().stream());
        comm.run(&call).unwrap();
        assert!(is_idle(stream), "run");
        comm.enqueue(&call).unwrap();
        assert!(!is_idle(stream), "enqueue does not wait");
        comm.enqueue(&call).unwrap();
        comm.drain().unwrap();
        assert!(is_idle(stream), "drain");
        let mut tickets = [(); 2].map(|()| comm.start(std::slice::from_ref(&call), &Queue::host()).unwrap());
        assert!(!is_idle(stream), "start does not wait");
        tickets.iter_mut().for_each(|ticket| assert!(comm.finish(ticket, Wait::Host).unwrap()));
        assert!(is_idle(stream), "finish");
        let mut ticket = comm.start(std::slice::from_ref(&call), &Queue::host()).unwrap();
        let turns = (0..1000).take_while(|_| !comm.finish(&mut ticket, Wait::Poll).unwrap()).count();
        assert!((1..1000).contains(&turns) && is_idle(stream), "poll: {turns}");
    });
}

pub(crate) fn sum(whole: &Slice) -> Call {
    Call {
        op: Collective::AllReduce,
        input: whole.clone(),
        output: whole.clone(),
        dtype: Dtype::U8,
        reduce: terms::Reduce::Sum,
        peer: 0,
        direction: terms::Direction::OneWay,
        counts: None,
    }
}

/// What ranks agree on between calls lies in memory of the host.
#[test]
fn words_of_the_host_go_through_shared_memory_or_through_the_gpu() {
    if surrounded("words_of_the_host_go_through_shared_memory_or_through_the_gpu").is_none() {
        return;
    }
    on_gpus(3, |mut comm| {
        let region = comm.alloc(16, Space::Host).unwrap();
        let call = sum(&region.whole());
        let read = || {
            // SAFETY: sixteen bytes that this rank alone uses between calls.
            unsafe { *region.base() }
        };
        // SAFETY: as above.
        unsafe { *region.base() = 1 };
        comm.control().expect("ranks of one host").run(&call).unwrap();
        assert_eq!(read(), 3);
        comm.run(&call).unwrap();
        assert_eq!(read(), 9, "through the device");
        // As long as the pieces of results that ranks compare.
        let large = Region::host(64 << 10).unwrap();
        // SAFETY: the whole region, which this rank alone uses between calls.
        unsafe { std::ptr::write_bytes(large.base(), 1, large.len()) };
        comm.run(&sum(&large.whole())).unwrap();
        // SAFETY: as above.
        let found = unsafe { std::slice::from_raw_parts(large.base(), large.len()) };
        assert!(found.iter().all(|byte| *byte == 3), "through memory of its own on the device");
    });
}
