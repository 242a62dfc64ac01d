//! A program in a GPU's memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use device::cuda::{Event, Gpu, Stream};
use device::{Queue, Slice};

use super::Cuda;
use super::attention::ByCudnn;
use super::convolutions;
use super::errors::{memory, refused, region};
use super::graphs::Graphs;
use super::kinds::Noted;
use super::lower::{self, Command, What};
use super::sorted::Sorted;
use super::staging::Staging;

use crate::cuda::{CudnnConvolutions, DeviceContext, Epilogue, Form, Operands, Products, Train};
use crate::op::{Dense, MatMul, Op};
use crate::{Category, Error, Kind, Kinds, Loaded, Memory, Program, Threads, View};

/// Bytes of each half of the memory through which the host writes, at least.
const STAGED: usize = 1 << 20;

/// See the module's documentation.
pub(super) struct OnGpu {
    // First: it waits for the stream, whose work uses all below.
    graphs: Graphs,
    gpu: Arc<Gpu>,
    stream: Arc<Stream>,
    queue: Queue,
    work: LoadedWork,
    staging: Staging,
    sorted: Sorted,
    seed: u64,
    /// The step whose number the device has.
    step: u64,
    threads: Arc<Threads>,
    /// Points of the stream's time, the first `stamped` of them since they were last asked for.
    stamps: Vec<Event>,
    stamped: usize,
}

/// What operations are given with.
struct LoadedWork {
    train: Arc<Train>,
    products: Arc<Products>,
    convolutions: Option<CudnnConvolutions>,
    attention: Option<ByCudnn>,
    program: Arc<Program>,
    memory: Memory,
    commands: Vec<Command>,
    scratch: Slice,
    /// The step's number and the seed.
    step: Slice,
    stream: Arc<Stream>,
    kinds: Noted,
}

impl OnGpu {
    pub(super) fn new(
        on: &Cuda,
        program: &Arc<Program>,
        (memory, scratch): (Memory, Slice),
        seed: u64,
    ) -> Result<Self, Error> {
        let Cuda { gpu, train, products, cudnn, attends_by_cudnn, .. } = on;
        let stream = Arc::new(Stream::new(gpu).map_err(refused)?);
        let convolutions = convolutions::plan(program, &memory, cudnn.as_ref())?;
        let attention = match (cudnn, attends_by_cudnn) {
            (Some(device), true) => Some(ByCudnn::plan(program, &memory, device)?),
            (None, true) => return Err(Error::Lacking("attention by cuDNN needs cuDNN".to_owned())),
            (_, false) => None,
        };
        let commands = lower::commands(program, &memory, train, products)?;
        lower::plan(program, &memory, products)?;
        let work = LoadedWork {
            train: train.clone(),
            products: products.clone(),
            convolutions,
            attention,
            program: program.clone(),
            commands,
            scratch,
            step: region(gpu, 16)?.whole(),
            memory,
            kinds: Noted::new(gpu, &stream),
            stream: stream.clone(),
        };
        let sorted = Sorted::new(gpu, program)?;
        for (_, op) in program.operations(0..program.instructions.len()) {
            train.prepare(op, &work.context(None)).map_err(refused)?;
        }
        // All of a step's input at once, and the lists of sorted rows.
        let inputs = program.buffers.iter().filter(|buffer| buffer.category == Category::Input);
        let bytes = inputs.map(|buffer| buffer.bytes() + 256).sum::<usize>() + Sorted::bytes(program) + 256;
        let staging = Staging::new(gpu, bytes.max(STAGED)).map_err(refused)?;
        let threads = Arc::new(Threads::new(1, &[])?);
        let queue = Queue::cuda(stream.clone());
        let (graphs, gpu, stamps) = (Graphs::new(gpu), gpu.clone(), Vec::new());
        Ok(Self { graphs, gpu, stream, queue, work, staging, sorted, seed, step: 0, threads, stamps, stamped: 0 })
    }

    /// What was refused of the queue since the last look.
    fn check(&self) -> Result<(), Error> {
        self.queue.failure().map_or(Ok(()), |error| Err(refused(error)))
    }

    /// Copies bytes to the device, in the stream's order.
    fn copy_in(&mut self, to: &Slice, fill: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        copy_in(&mut self.staging, &self.stream, to, fill)
    }

    /// What the device must know before a step: its number, and the sorted rows of what was written.
    fn prepare(&mut self, step: u64) -> Result<(), Error> {
        let Self { sorted, staging, stream, .. } = self;
        sorted.sort_changed(|place, rows| {
            copy_in(staging, stream, place, |bytes| {
                for (to, row) in bytes.chunks_exact_mut(4).zip(rows) {
                    to.copy_from_slice(&row.to_ne_bytes());
                }
            })
        })?;
        if self.step != step {
            self.step = step;
            let (to, numbers) = (self.work.step.clone(), [step, self.seed]);
            self.copy_in(&to, |bytes| {
                for (to, number) in bytes.chunks_exact_mut(8).zip(numbers) {
                    to.copy_from_slice(&number.to_ne_bytes());
                }
            })?;
        }
        Ok(())
    }
}

fn copy_in(staging: &mut Staging, stream: &Stream, to: &Slice, fill: impl FnOnce(&mut [u8])) -> Result<(), Error> {
    let from = staging.take(to.len(), stream).map_err(|error| memory(error, to.len()))?;
    // SAFETY: pinned memory of the host of that length, which was copied before it was given again.
    fill(unsafe { std::slice::from_raw_parts_mut(from.ptr(), from.len()) });
    to.copy_from(&from, Some(stream)).map_err(refused)
}

impl LoadedWork {
    fn context<'a>(&'a self, sorted: Option<&'a Slice>) -> DeviceContext<'a> {
        let Self { memory, scratch, step, stream, .. } = self;
        DeviceContext { memory, scratch, step, sorted, stream: Some(stream) }
    }

    /// The kernel of attention, where there is any.
    fn attention(&self) -> Option<String> {
        if let Some(found) = self.attention.as_ref().and_then(ByCudnn::version) {
            return Some(format!("cuDNN {found}"));
        }
        let of = |(_, op): (usize, &Op)| match op {
            Op::Dense(Dense::AttentionForward(op)) => Some(self.train.attention_kernel(op, self.memory.dtype(op.qkv))),
            _ => None,
        };
        let mut all = self.program.operations(0..self.program.instructions.len());
        all.find_map(of)?.ok().map(|kernel| kernel.to_string())
    }

    /// The commands of a stretch: those that begin in it.
    fn commands(&self, stretch: &Range<usize>) -> &[Command] {
        let from = self.commands.partition_point(|command| command.at < stretch.start);
        let to = self.commands.partition_point(|command| command.at < stretch.end);
        &self.commands[from..to]
    }

    fn give(&self, stretch: &Range<usize>, sorted: &Sorted) -> Result<(), Error> {
        let commands = self.commands(stretch);
        let mut next = stretch.start;
        for command in commands {
            let end = command.at + command.len;
            // A stretch may begin or end within what is given at once elsewhere.
            let is_whole = next <= command.at && end <= stretch.end;
            self.singly(next..command.at.max(next), sorted)?;
            match &command.what {
                What::One => self.one(command.at, sorted)?,
                _ if !is_whole => self.singly(command.at..end.min(stretch.end), sorted)?,
                What::Product { product, epilogue, c, auxiliary } => {
                    self.kinds.enter(Kind::Products)?;
                    self.multiply(product, Some((*epilogue, *c, Some(*auxiliary))))?;
                }
                What::WithBias { product, bias } => {
                    self.kinds.enter(Kind::Products)?;
                    let epilogue = Some((Epilogue::BiasGradient, product.c, None));
                    self.multiply(&MatMul { bias: Some(*bias), ..product.clone() }, epilogue)?;
                }
                What::ResidualNorm { norm, views } => {
                    self.kinds.enter(Kind::ElementWise)?;
                    self.train.residual_norm(norm, *views, &self.context(None)).map_err(refused)?;
                }
                What::Squares { squares, control } => {
                    self.kinds.enter(Kind::Update)?;
                    self.train.sum_squares(squares, *control, &self.context(None)).map_err(refused)?;
                }
                What::Updates { adam } => {
                    self.kinds.enter(Kind::Update)?;
                    self.train.update_all(adam, &self.context(None)).map_err(refused)?;
                }
            }
            next = end.min(stretch.end);
        }
        self.singly(next..stretch.end, sorted)
    }

    fn singly(&self, stretch: Range<usize>, sorted: &Sorted) -> Result<(), Error> {
        let all: Vec<usize> = self.program.operations(stretch).map(|(at, _)| at).collect();
        all.into_iter().try_for_each(|at| self.one(at, sorted))
    }

    fn one(&self, at: usize, sorted: &Sorted) -> Result<(), Error> {
        let Some((_, op)) = self.program.operations(at..at + 1).next() else { return Ok(()) };
        self.kinds.enter(Kind::of(op))?;
        match op {
            Op::Dense(Dense::MatMul(product)) => self.multiply(product, None),
            Op::Dense(op)
                if let Some(planned) = self.attention.as_ref().and_then(|all| all.planned_for(op, &self.memory)) =>
            {
                planned.run(op, &self.context(None)).map_err(refused)
            }
            Op::Spatial(op) if let Some(all) = self.convolutions.as_ref().filter(|_| op.is_convolution()) => {
                convolutions::run(all, &self.train, op, &self.context(None))
            }
            _ => self.train.run(op, &self.context(sorted.rows_of(op))).map_err(refused),
        }
    }

    fn multiply(&self, product: &MatMul, joined: Option<(Epilogue, View, Option<View>)>) -> Result<(), Error> {
        let plain = lower::form(product, &self.memory)?;
        let slice = |view: View| self.memory.slice(view);
        let (form, c, auxiliary) = match joined {
            Some((epilogue, c, auxiliary)) => (Form { epilogue, ..plain }, c, auxiliary.map(slice)),
            None => (plain, product.c, None),
        };
        let [a, b, c] = [product.a, product.b, c].map(slice);
        let bias = product.bias.map(slice);
        let operands = Operands { a: &a, b: &b, c: &c, bias: bias.as_ref(), auxiliary: auxiliary.as_ref() };
        self.products.multiply(&form, &operands, Some(&self.stream)).map_err(refused)
    }
}

impl Loaded for OnGpu {
    fn queue(&self) -> &Queue {
        &self.queue
    }

    fn memory(&self) -> &Memory {
        &self.work.memory
    }

    unsafe fn run(&mut self, stretch: Range<usize>, step: u64) -> Result<(), Error> {
        self.check()?;
        self.prepare(step)?;
        let Self { graphs, work, sorted, stream, .. } = self;
        if work.kinds.is_on() {
            return work.give(&stretch, sorted);
        }
        let commands = work.commands(&stretch).len();
        graphs.give(stretch.clone(), commands, stream, || work.give(&stretch, sorted))
    }

    unsafe fn write(&mut self, view: View, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Error> {
        let to = self.work.memory.slice(view);
        let Self { staging, stream, sorted, .. } = self;
        copy_in(staging, stream, &to, |bytes| {
            fill(bytes);
            sorted.note(view, bytes);
        })
    }

    unsafe fn read(&self, view: View, see: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        self.queue.synchronise();
        self.check()?;
        let slice = self.work.memory.slice(view);
        // Of words, so that they are aligned.
        let mut words = vec![0_u64; slice.len().div_ceil(8)];
        // SAFETY: the words hold as many bytes, and any bytes make words.
        let bytes = &mut unsafe { words.align_to_mut::<u8>() }.1[..slice.len()];
        slice.read(bytes).map_err(refused)?;
        see(bytes);
        Ok(())
    }

    fn pool(&self) -> Arc<Threads> {
        self.threads.clone()
    }

    fn stamp(&mut self) -> Result<Option<usize>, Error> {
        if self.stamped == self.stamps.len() {
            self.stamps.push(Event::timed(&self.gpu).map_err(refused)?);
        }
        self.stream.record(&self.stamps[self.stamped]).map_err(refused)?;
        self.stamped += 1;
        Ok(Some(self.stamped - 1))
    }

    fn times(&mut self) -> Result<Vec<u64>, Error> {
        self.queue.synchronise();
        self.check()?;
        let stamps = &self.stamps[..std::mem::take(&mut self.stamped)];
        let since = |stamp: &Event| stamp.since(&stamps[0]).map(|ns| ns as u64).map_err(refused);
        stamps.iter().map(since).collect()
    }

    fn kinds(&mut self, begin: bool) -> Result<Option<Kinds>, Error> {
        if begin {
            self.work.kinds.begin();
            return Ok(Some(Kinds::default()));
        }
        let kinds = self.work.kinds.end()?;
        self.check().map(|()| Some(kinds))
    }

    fn enter(&mut self, kind: Kind) -> Result<(), Error> {
        self.work.kinds.enter(kind)
    }

    fn about(&self) -> BTreeMap<&'static str, String> {
        let (graphs, refused) = self.graphs.said();
        let mut all = BTreeMap::from([("graphs", graphs.to_string())]);
        all.extend(self.work.attention().map(|kernel| ("attention", kernel)));
        all.extend(lower::updates(&self.work.commands).map(|joined| ("joined_updates", joined)));
        all.extend(lower::joined(&self.work.commands).map(|joined| ("joined_products", joined)));
        if let Some(why) = refused {
            all.insert("graphs_refused", why.to_owned());
        }
        all
    }
}

impl Drop for OnGpu {
    fn drop(&mut self) {
        // What the driver says when things end, nobody can act on.
        let _ = self.gpu.enter();
        let _ = self.stream.synchronise();
    }
}
