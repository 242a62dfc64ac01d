//! Products and attention against plain f64 versions of themselves.

#[cfg(target_arch = "x86_64")]
mod ahead;
mod attention;
mod matmul;
#[cfg(target_arch = "x86_64")]
mod tasks;
#[cfg(target_arch = "x86_64")]
mod tile_plan;

use device::Region;
use engine::op::Dense;
use engine::{Buffer, BufferId, Category, Context, Element, Lifetime, Matmul, Memory, Op, Scratch, Step, Threads};
use engine::{View, Wide};
use half::{bf16, f16};
use terms::Dtype;

/// Numbers that look random and are the same each time: SplitMix64.
pub(super) struct Draw(pub(super) u64);

impl Draw {
    fn bits(&mut self) -> u64 {
        terms::next_splitmix64(&mut self.0)
    }

    /// Uniform in -1..1.
    pub(super) fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// One of `from..=to`.
    pub(super) fn whole(&mut self, from: usize, to: usize) -> usize {
        from + (self.bits() % (to - from + 1) as u64) as usize
    }

    pub(super) fn coin(&mut self) -> bool {
        self.bits() & 1 == 1
    }

    pub(super) fn numbers(&mut self, len: usize) -> Vec<f64> {
        (0..len).map(|_| self.uniform()).collect()
    }
}

/// Buffers with contents, one after another.
#[derive(Default)]
pub(super) struct Setup {
    buffers: Vec<Buffer>,
    contents: Vec<Vec<f64>>,
}

impl Setup {
    /// A buffer that holds these numbers, rounded to its type.
    pub(super) fn add(&mut self, dtype: Dtype, contents: Vec<f64>) -> View {
        let id = BufferId(self.buffers.len() as u32);
        let len = contents.len();
        self.buffers.push(Buffer { category: Category::Activation, lifetime: Lifetime::Persistent, dtype, len });
        self.contents.push(contents);
        View { buffer: id, offset: 0, len }
    }

    /// Laid out in one region.
    pub(super) fn memory(&self) -> Memory {
        let places: Vec<usize> = self.buffers.iter().map(|buffer| buffer.bytes().next_multiple_of(64)).collect();
        let region = Region::host(places.iter().sum()).expect("memory");
        let mut offset = 0;
        let slices = places.iter().map(|&len| {
            offset += len;
            region.slice(offset - len, len).expect("inside")
        });
        let memory = Memory::new(&self.buffers, slices.collect());
        for (id, contents) in (0..).zip(&self.contents) {
            write(&memory, View { buffer: BufferId(id), offset: 0, len: contents.len() }, contents);
        }
        memory
    }
}

macro_rules! by_dtype {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $dtype {
            Dtype::F32 => {
                type $type = f32;
                $body
            }
            Dtype::F64 => {
                type $type = f64;
                $body
            }
            Dtype::Bf16 => {
                type $type = bf16;
                $body
            }
            Dtype::F16 => {
                type $type = f16;
                $body
            }
            other => panic!("{other}"),
        }
    };
}

/// Overwrites a view.
pub(super) fn write(memory: &Memory, view: View, contents: &[f64]) {
    by_dtype!(memory.dtype(view), E => {
        // SAFETY: tests use one memory on one thread between operations.
        let to = unsafe { memory.write::<E>(view) };
        to.iter_mut().zip(contents).for_each(|(to, value)| *to = E::narrow(<E as Element>::Wide::from_f64(*value)));
    });
}

/// What a view holds.
pub(super) fn read(memory: &Memory, view: View) -> Vec<f64> {
    by_dtype!(memory.dtype(view), E => {
        // SAFETY: as above.
        unsafe { memory.read::<E>(view) }.iter().map(|value| value.widen().f64()).collect()
    })
}

/// Runs an operation with exactly the scratch that it asks for, filled with NaN before.
pub(super) fn execute(op: Dense, memory: &Memory, bytes: usize, threads: usize) {
    let op = Op::Dense(op);
    let scratch = Scratch::new(threads, engine::scratch_bytes(&op, bytes, threads));
    let context = Context { threads, scratch: &scratch, step: Step { number: 1, seed: 0 }, matmul: Matmul::Auto };
    for part in 0..threads {
        // SAFETY: nobody uses scratch yet.
        unsafe { context.area::<i32>(part, scratch.bytes() / 4) }.fill(-1);
    }
    let pool = Threads::new(threads, &[]).expect("threads");
    // SAFETY: tests give views that do not overlap.
    pool.install(|| unsafe { engine::execute(&op, memory, &context) });
}

/// Bytes of an element.
pub(super) fn bytes(dtype: Dtype) -> usize {
    dtype.bytes() as usize
}

/// The type that arithmetic is done in.
pub(super) fn state(dtype: Dtype) -> Dtype {
    if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 }
}

/// Largest difference.
pub(super) fn difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(a, b)| if a.is_finite() && b.is_finite() { (a - b).abs() } else { f64::INFINITY })
        .fold(0.0, f64::max)
}
