//! A GPU's memory, its way to the host's, and its registers, on one rank: loops by kernels, copies by copy engines, a chain of loads. Buffers are
//! filled and compared where they lie; what a copy leaves in memory of the host is compared there.

mod registers;
mod warm;

use std::sync::Arc;

use comm::Communicator;
use contract::{Prepared, RankContext, Work, failure};
use device::cuda::{CudaError, Gpu, Loop, Loops, Pinned, Repeated, Stream};
use device::{Region, Slice};
use measure::{Failure, WrongReport};
use serde_json::{Map, Value};
use terms::Space;

use super::fields::{Area, Test};
use super::memory::{PERIOD, UNWRITTEN, elements, expected, given};
use super::resolve::Task;
use registers::Registers;
pub(super) use warm::warm;

/// Elements that a refill displaces patterns by.
const SHIFT: u64 = 409;
/// Words from one link of the chain to the next place of one: 128 bytes, which no load takes twice.
const LINK_WORDS: usize = 16;
/// Steps through the chain in a call, at most.
const STEPS: u64 = 8192;

fn refused(error: CudaError) -> Failure {
    if error.is_out_of_memory() { Failure::lacking(error.to_string()) } else { Failure::new(error.to_string()) }
}

/// Allocates and fills.
pub(super) fn prepare(task: &Task, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
    if task.test == Test::Fma {
        return Ok(Box::new(Registers::new(task, context)?));
    }
    let mut memory = Allocator { comm: &mut *context.comm };
    match (task.test.area(), task.test) {
        (Area::Memory, _) => Ok(Box::new(Swept::new(task, &mut memory)?)),
        (_, Test::HostLatency) => Ok(Box::new(Chased::new(task, &mut memory)?)),
        _ => Ok(Box::new(Copied::new(task, &mut memory)?)),
    }
}

/// Memory of this rank's GPU.
struct Allocator<'a> {
    comm: &'a mut dyn Communicator,
}

impl Allocator<'_> {
    fn device(&mut self, bytes: usize) -> Result<Arc<Region>, Failure> {
        self.comm.alloc_private(bytes, Space::Cuda).map_err(failure)
    }

    /// A table of values that repeat.
    fn table(&mut self, bytes: &[u8]) -> Result<Slice, Failure> {
        let table = self.device(bytes.len())?.whole();
        table.write(bytes).map_err(refused)?;
        Ok(table)
    }
}

fn gpu_of(slice: &Slice) -> Result<&Arc<Gpu>, Failure> {
    slice.gpu().ok_or_else(|| Failure::new("the backend gave host memory where a GPU's was asked for"))
}

/// What the first error of filling was, until somebody can be told.
#[derive(Default)]
struct Failed(Option<Failure>);

impl Failed {
    fn note(&mut self, done: Result<(), Failure>) {
        if let Err(why) = done {
            self.0.get_or_insert(why);
        }
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.0.take().map_or(Ok(()), Err)
    }
}

/// A loop over arrays.
struct Swept {
    which: Loop,
    loops: Loops,
    /// a, b where the loop reads it, c.
    arrays: [Slice; 3],
    reads_b: bool,
    /// One period of what each must hold, and of what `c` holds before the first call.
    tables: [Slice; 3],
    unwritten: Slice,
    counted: u64,
    shift: u64,
    failed: Failed,
}

impl Swept {
    fn new(task: &Task, memory: &mut Allocator<'_>) -> Result<Self, Failure> {
        let test = task.test;
        let which = match test {
            Test::Copy => Loop::Copy,
            Test::Scale => Loop::Scale,
            Test::Add => Loop::Add,
            Test::Triad => Loop::Triad,
            _ => return Err(Failure::new(format!("native ranks do not support {test} on GPUs"))),
        };
        let bytes = 8 * elements(test, task.bytes) as usize;
        let reads_b = matches!(which, Loop::Add | Loop::Triad);
        let (a, c) = (memory.device(bytes)?.whole(), memory.device(bytes)?.whole());
        let b = if reads_b { memory.device(bytes)?.whole() } else { a.clone() };
        let period = |array: usize| -> Vec<u8> {
            (0..PERIOD).flat_map(|place| expected(test, given(place, 0), true)[array].to_ne_bytes()).collect()
        };
        let tables = [memory.table(&period(0))?, memory.table(&period(1))?, memory.table(&period(2))?];
        let unwritten = memory.table(&UNWRITTEN.to_ne_bytes())?;
        let loops = Loops::load(gpu_of(&a)?).map_err(refused)?;
        let counted = test.counted_bytes() * elements(test, task.bytes);
        let (arrays, failed) = ([a, b, c], Failed::default());
        let mut own = Self { which, loops, arrays, reads_b, tables, unwritten, counted, shift: task.seed, failed };
        own.refill();
        own.failed.check()?;
        Ok(own)
    }

    /// The arrays that there are.
    fn own(&self) -> impl Iterator<Item = usize> + use<> {
        let reads_b = self.reads_b;
        (0..3).filter(move |array| *array != 1 || reads_b)
    }

    /// What an array holds after so many calls.
    fn held(&self, array: usize, calls: u64) -> Repeated<'_> {
        match (array, calls) {
            (2, 0) => Repeated { table: &self.unwritten, element: 8, phase: 0 },
            _ => Repeated { table: &self.tables[array], element: 8, phase: (self.shift % PERIOD) as usize },
        }
    }
}

impl Prepared for Swept {
    fn run(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        let [a, b, c] = &self.arrays;
        self.loops.run(self.which, [a, b, c]).map_err(refused)
    }

    fn drain(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        comm.drain().map_err(failure)
    }

    fn refill(&mut self) {
        self.shift += SHIFT;
        for array in self.own() {
            let filled = self.arrays[array].fill(self.held(array, 0)).map_err(refused);
            self.failed.note(filled);
        }
    }

    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        self.failed.check()?;
        let mut report = WrongReport::default();
        for array in self.own() {
            let found = self.arrays[array].compare(self.held(array, calls)).map_err(refused)?;
            report.count += found.wrong;
            report.compared += (self.arrays[array].len() / 8) as u64;
        }
        Ok(report)
    }

    fn work(&self) -> Work {
        Work { traffic_bytes: self.counted, messages: 1, max_calls: u64::MAX, checks: 1, ..Work::default() }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        "kernels".to_owned()
    }

    fn details(&mut self) -> Map<String, Value> {
        Map::from_iter([("loop".to_owned(), "kernel, 16 bytes a load".into())])
    }
}

/// A copy, or one each way.
struct Copied {
    /// From and to, of each copy; those of the second have a stream of their own.
    sides: Vec<[Slice; 2]>,
    beside: Option<Stream>,
    /// One period of what is copied, on the device and here; that of the second copy begins elsewhere.
    table: Slice,
    values: Vec<u8>,
    node: Option<u32>,
    shift: u64,
    failed: Failed,
}

impl Copied {
    fn new(task: &Task, memory: &mut Allocator<'_>) -> Result<Self, Failure> {
        let bytes = task.bytes as usize;
        // No byte of the pattern is what a buffer holds before it is written to.
        let values: Vec<u8> = (0..PERIOD).map(|place| (place * place % 251) as u8).collect();
        let table = memory.table(&values)?;
        let gpu = gpu_of(&table)?.clone();
        let host = || Region::pinned(&gpu, bytes).map(|region| region.whole()).map_err(refused);
        let mut device = || memory.device(bytes).map(|region| region.whole());
        let sides = match task.test {
            Test::HostToDevice => vec![[host()?, device()?]],
            Test::DeviceToHost => vec![[device()?, host()?]],
            Test::HostBothWays => vec![[host()?, device()?], [device()?, host()?]],
            Test::DeviceCopy => vec![[device()?, device()?]],
            test => return Err(Failure::new(format!("{test} copies nothing"))),
        };
        let beside = (sides.len() > 1).then(|| Stream::new(&gpu)).transpose().map_err(refused)?;
        let node = sides.iter().flatten().find_map(|side| side.region().owner::<Pinned>()?.node());
        let mut own = Self { sides, beside, table, values, node, shift: task.seed, failed: Failed::default() };
        own.refill();
        own.failed.check()?;
        Ok(own)
    }

    /// Where the pattern of a copy begins.
    fn phase(&self, copy: usize) -> usize {
        ((self.shift + 131 * copy as u64) % PERIOD) as usize
    }

    /// Fills both sides of a copy.
    fn fill(&self, copy: usize) -> Result<(), Failure> {
        let [from, to] = &self.sides[copy];
        let phase = self.phase(copy);
        match from.gpu() {
            Some(_) => from.fill(Repeated { table: &self.table, element: 1, phase }).map_err(refused)?,
            None => write(from, &self.values, phase),
        }
        match to.gpu() {
            Some(_) => to.set(UNTOUCHED).map_err(refused)?,
            // SAFETY: memory of this rank alone, which no copy in flight uses.
            None => unsafe { std::ptr::write_bytes(to.ptr(), UNTOUCHED, to.len()) },
        }
        from.gpu().or(to.gpu()).map_or(Ok(()), |gpu| gpu.synchronise()).map_err(refused)
    }

    /// Bytes of one side of a copy that are not what they must be after so many calls.
    fn wrong(&self, copy: usize, side: usize, calls: u64) -> Result<u64, Failure> {
        let (slice, phase) = (&self.sides[copy][side], self.phase(copy));
        let is_written = side == 0 || calls > 0;
        match slice.gpu() {
            Some(_) if is_written => {
                let with = Repeated { table: &self.table, element: 1, phase };
                slice.compare(with).map(|found| found.wrong).map_err(refused)
            }
            // What nobody wrote to is not looked at where it lies: a call that did too much shows in the next.
            Some(_) => Ok(0),
            None if is_written => Ok(differing(slice, &self.values, phase)),
            None => Ok(differing(slice, &[UNTOUCHED], 0)),
        }
    }
}

/// What a buffer holds before a copy reaches it; no value of the pattern.
const UNTOUCHED: u8 = 0xff;

/// Writes a repeated pattern to memory of the host.
fn write(to: &Slice, values: &[u8], phase: usize) {
    for (place, part) in parts(to, values.len(), phase) {
        // SAFETY: inside memory of this rank alone, which no copy in flight uses.
        unsafe { std::ptr::copy_nonoverlapping(values[place..].as_ptr(), part.ptr(), part.len()) };
    }
}

/// Bytes of the host's memory that differ from a repeated pattern.
fn differing(held: &Slice, values: &[u8], phase: usize) -> u64 {
    let of_part = |(place, part): (usize, Slice)| {
        // SAFETY: as above, and nobody writes.
        let bytes = unsafe { std::slice::from_raw_parts(part.ptr(), part.len()) };
        let expected = &values[place..place + part.len()];
        if bytes == expected {
            0
        } else {
            bytes.iter().zip(expected).filter(|(got, wanted)| got != wanted).count() as u64
        }
    };
    parts(held, values.len(), phase).map(of_part).sum()
}

/// The parts of a buffer that lie in one period each, with the place in the period.
fn parts(slice: &Slice, period: usize, phase: usize) -> impl Iterator<Item = (usize, Slice)> + use<> {
    let slice = slice.clone();
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = (phase + at) % period;
        let part = slice.slice(at, (period - place).min(slice.len() - at)).filter(|part| !part.is_empty())?;
        at += part.len();
        Some((place, part))
    })
}

impl Prepared for Copied {
    /// The second copy begins with the first, and the next call with the end of both.
    fn run(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        let copied = |[from, to]: &[Slice; 2], beside| to.copy_from(from, beside).map_err(refused);
        let Some(beside) = &self.beside else { return copied(&self.sides[0], None) };
        beside.follow().map_err(refused)?;
        copied(&self.sides[0], None)?;
        copied(&self.sides[1], Some(beside))?;
        beside.lead().map_err(refused)
    }

    fn drain(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        comm.drain().map_err(failure)
    }

    fn refill(&mut self) {
        self.shift += SHIFT;
        for copy in 0..self.sides.len() {
            let filled = self.fill(copy);
            self.failed.note(filled);
        }
    }

    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        self.failed.check()?;
        let mut report = WrongReport::default();
        for (copy, side) in (0..self.sides.len()).flat_map(|copy| [(copy, 0), (copy, 1)]) {
            report.count += self.wrong(copy, side, calls)?;
            report.compared += self.sides[copy][side].len() as u64;
        }
        Ok(report)
    }

    fn work(&self) -> Work {
        let bytes: usize = self.sides.iter().map(|[from, _]| from.len()).sum();
        Work { traffic_bytes: bytes as u64, messages: 1, max_calls: u64::MAX, checks: 1, ..Work::default() }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        match self.node {
            Some(node) => format!("copy engine, pinned memory near NUMA node {node}"),
            None => "copy engine".to_owned(),
        }
    }

    fn details(&mut self) -> Map<String, Value> {
        Map::from_iter([("loop".to_owned(), "copy engine".into())])
    }
}

/// Loads of pinned memory of the host, one after the other.
struct Chased {
    loops: Loops,
    chain: Slice,
    end: Slice,
    steps: u64,
    /// The links in the order in which they are followed.
    order: Vec<u64>,
    node: Option<u32>,
    seed: u64,
    failed: Failed,
}

impl Chased {
    fn new(task: &Task, memory: &mut Allocator<'_>) -> Result<Self, Failure> {
        let end = memory.device(8)?.whole();
        let gpu = gpu_of(&end)?;
        let links = (task.bytes as usize / 8 / LINK_WORDS).max(2);
        let chain = Region::pinned(gpu, 8 * links * LINK_WORDS).map_err(refused)?;
        let node = chain.owner::<Pinned>().and_then(Pinned::node);
        let loops = Loops::load(gpu).map_err(refused)?;
        // Fewer steps than links: none is met twice in a call.
        let steps = STEPS.min(links as u64 - 1);
        let (seed, order, failed) = (task.seed, (0..links as u64).collect(), Failed::default());
        let mut own = Self { loops, chain: chain.whole(), end, steps, order, node, seed, failed };
        own.refill();
        own.failed.check()?;
        Ok(own)
    }

    fn word(&self, link: u64) -> u64 {
        link * LINK_WORDS as u64
    }
}

impl Prepared for Chased {
    fn run(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.loops.chase(&self.chain, self.steps, &self.end).map_err(refused)
    }

    fn drain(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        comm.drain().map_err(failure)
    }

    /// Makes another random way through all links, from the first: no load can be foreseen.
    fn refill(&mut self) {
        self.seed = self.seed.wrapping_add(SHIFT);
        let mut state = self.seed;
        for at in (2..self.order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.order.swap(at, 1 + ((state >> 33) % at as u64) as usize);
        }
        for (place, link) in self.order.iter().enumerate() {
            let next = self.order[(place + 1) % self.order.len()];
            let at = self.word(*link) as usize;
            // SAFETY: inside the chain, which no kernel in flight reads.
            unsafe { self.chain.ptr().cast::<u64>().add(at).write(self.word(next)) };
        }
        self.failed.note(self.end.set(UNTOUCHED).map_err(refused));
    }

    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        self.failed.check()?;
        let mut got = [0; 8];
        self.end.read(&mut got).map_err(refused)?;
        let wanted = if calls == 0 { u64::MAX } else { self.word(self.order[self.steps as usize]) };
        let count = u64::from(u64::from_ne_bytes(got) != wanted);
        Ok(WrongReport { count, compared: 1, first: Vec::new() })
    }

    fn work(&self) -> Work {
        // The time of a call is that of one load.
        let messages = self.steps as u32;
        Work { traffic_bytes: 8 * self.steps, messages, max_calls: u64::MAX, checks: 1, ..Work::default() }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        match self.node {
            Some(node) => format!("loads of pinned memory near NUMA node {node}"),
            None => "loads of pinned memory".to_owned(),
        }
    }
}
