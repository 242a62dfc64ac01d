//! The host: kernels on threads of this process. At once, as it is used; or late, for tests: on a queue that makes only the progress
//! that waits force, as a device may.

use std::ops::Range;
use std::sync::Arc;

use device::{Queue, Region};
use terms::{Dtype, Space};

use super::{Device, Loaded};
use crate::{Context, Error, Instruction, Matmul, Memory, Op, Program, Scratch, Step, Threads, View};

/// See the module's documentation.
pub struct Host {
    threads: Arc<Threads>,
    matmul: Matmul,
    is_late: bool,
}

impl Host {
    /// So many threads, pinned to these cores in turn; f32 is multiplied by `matmul`.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(threads: usize, cores: &[u32], matmul: Matmul) -> Result<Self, Error> {
        Ok(Self { threads: Arc::new(Threads::new(threads, cores)?), matmul, is_late: false })
    }

    /// A host whose queue is late, on threads that are not bound to cores.
    ///
    /// # Errors
    /// As [`Host::new`].
    pub fn late(threads: usize, matmul: Matmul) -> Result<Self, Error> {
        Ok(Self { is_late: true, ..Self::new(threads, &[], matmul)? })
    }

    /// Scratch bytes of all threads together, for a program on so many threads.
    pub fn scratch_of(program: &Program, threads: usize) -> usize {
        threads * scratch(program, threads)
    }
}

/// Scratch bytes of one thread.
fn scratch(program: &Program, threads: usize) -> usize {
    let widest = |op: &Op| {
        let mut bytes = 0;
        op.for_each_view(&mut |view| {
            let dtype = program.dtype(view);
            if dtype.is_float() {
                // The narrowest float is the type of activations.
                let each = dtype.bytes() as usize;
                bytes = if bytes == 0 { each } else { each.min(bytes) };
            }
        });
        crate::scratch_bytes(op, bytes.max(size(Dtype::Bf16)), threads)
    };
    let width = |instruction: &Instruction| if let Instruction::Run(op) = instruction { widest(op) } else { 0 };
    program.instructions.iter().map(width).max().unwrap_or(0)
}

fn size(dtype: Dtype) -> usize {
    dtype.bytes() as usize
}

impl Device for Host {
    fn space(&self) -> Space {
        Space::Host
    }

    fn scratch(&self, program: &Program) -> usize {
        Self::scratch_of(program, self.threads.count())
    }

    fn alloc(&self, bytes: usize) -> Result<Arc<Region>, Error> {
        Region::host(bytes).map_err(|source| Error::Memory { bytes, source })
    }

    fn load(&self, program: &Arc<Program>, memory: Memory, seed: u64) -> Result<Box<dyn Loaded>, Error> {
        let threads = self.threads.clone();
        let scratch = Scratch::new(threads.count(), scratch(program, threads.count()));
        let own =
            Arc::new(OwnContext { program: program.clone(), memory, scratch, threads, matmul: self.matmul, seed });
        Ok(match self.is_late {
            false => Box::new(AtOnce { own, queue: Queue::host() }),
            true => Box::new(LateHost { own, queue: Queue::late() }),
        })
    }
}

/// What operations run on.
struct OwnContext {
    program: Arc<Program>,
    memory: Memory,
    scratch: Scratch,
    threads: Arc<Threads>,
    matmul: Matmul,
    seed: u64,
}

impl OwnContext {
    /// # Safety
    /// As [`Loaded::run`].
    unsafe fn run(&self, stretch: Range<usize>, number: u64) {
        let step = Step { number, seed: self.seed };
        let context = Context { threads: self.threads.count(), scratch: &self.scratch, step, matmul: self.matmul };
        for instruction in &self.program.instructions[stretch] {
            if let Instruction::Run(op) = instruction {
                // SAFETY: the caller's.
                unsafe { crate::execute(op, &self.memory, &context) };
            }
        }
    }

    /// # Safety
    /// As [`Loaded::write`], and nothing runs.
    #[expect(clippy::mut_from_ref, reason = "views of one program overlap by design; who may write is the caller's")]
    unsafe fn bytes(&self, view: View) -> &mut [u8] {
        let slice = self.memory.slice(view);
        // SAFETY: the slice lies inside its region, which the memory keeps; aliasing is the caller's.
        unsafe { std::slice::from_raw_parts_mut(slice.ptr(), slice.len()) }
    }
}

/// Work has run when it was given.
struct AtOnce {
    own: Arc<OwnContext>,
    queue: Queue,
}

impl Loaded for AtOnce {
    fn queue(&self) -> &Queue {
        &self.queue
    }

    fn memory(&self) -> &Memory {
        &self.own.memory
    }

    unsafe fn run(&mut self, stretch: Range<usize>, step: u64) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.own.run(stretch, step) };
        Ok(())
    }

    unsafe fn write(&mut self, view: View, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Error> {
        // SAFETY: the caller's; nothing runs outside of `run`.
        fill(unsafe { self.own.bytes(view) });
        Ok(())
    }

    unsafe fn read(&self, view: View, see: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        // SAFETY: as above.
        see(unsafe { self.own.bytes(view) });
        Ok(())
    }

    fn pool(&self) -> Arc<Threads> {
        self.own.threads.clone()
    }
}

/// Work runs when somebody waits for it.
struct LateHost {
    own: Arc<OwnContext>,
    queue: Queue,
}

impl Loaded for LateHost {
    fn queue(&self) -> &Queue {
        &self.queue
    }

    fn memory(&self) -> &Memory {
        &self.own.memory
    }

    unsafe fn run(&mut self, stretch: Range<usize>, step: u64) -> Result<(), Error> {
        let own = self.own.clone();
        self.queue.submit(move || {
            // SAFETY: the caller's of `run`, for all that is ordered behind it.
            own.threads.install(|| unsafe { own.run(stretch, step) });
        });
        Ok(())
    }

    unsafe fn write(&mut self, view: View, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Error> {
        let len = self.own.memory.slice(view).len();
        // Of words, so that they are aligned.
        let mut words = vec![0_u64; len.div_ceil(8)];
        // SAFETY: the words hold as many bytes, and any bytes make words.
        fill(&mut unsafe { words.align_to_mut() }.1[..len]);
        let own = self.own.clone();
        self.queue.submit(move || {
            // SAFETY: as above, and as `AtOnce`; the queue runs one piece of work at a time.
            unsafe { own.bytes(view).copy_from_slice(&words.align_to().1[..len]) };
        });
        Ok(())
    }

    unsafe fn read(&self, view: View, see: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        self.queue.synchronise();
        // SAFETY: the caller's; all that was given has run.
        see(unsafe { self.own.bytes(view) });
        Ok(())
    }

    fn pool(&self) -> Arc<Threads> {
        self.own.threads.clone()
    }
}
