//! Memory to run single operations in: values go in and come out as f64, which holds every type's exactly.

use device::Region;
use engine::internals::Number;
use engine::{Buffer, BufferId, Category, Context, Element, Lifetime, Matmul, Memory, Op, Program, Scratch, Step};
use engine::{Threads, View, Wide, execute, scratch_bytes};
use half::{bf16, f16};
use terms::Dtype;

use super::on_device;

/// Numbers from -1 to 1 that follow from the seed.
pub(crate) fn noise(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..count).map(|_| (terms::next_splitmix64(&mut state) >> 11) as f64 * 2f64.powi(-52) - 1.0).collect()
}

/// Bytes after each buffer that no kernel may touch.
const GUARD: usize = 64;

/// Buffers with values, and what operations run with.
pub(crate) struct Lab {
    pub(crate) threads: usize,
    pub(crate) step: Step,
    /// The type that activations have.
    pub(crate) element: Dtype,
    pub(super) program: Program,
    pub(super) values: Vec<Vec<f64>>,
}

impl Lab {
    pub(crate) fn new(element: Dtype) -> Self {
        let step = Step { number: 1, seed: 1 };
        Self { threads: 1, step, element, program: Program::default(), values: Vec::new() }
    }

    /// The type of state.
    pub(crate) fn state(&self) -> Dtype {
        if self.element == Dtype::F64 { Dtype::F64 } else { Dtype::F32 }
    }

    /// A buffer with these values, rounded to its type.
    pub(crate) fn put(&mut self, dtype: Dtype, values: Vec<f64>) -> View {
        let view = self.program.buffer(Category::Activation, Lifetime::Step, dtype, values.len());
        self.values.push(Vec::new());
        self.set(view, values);
        view
    }

    pub(crate) fn set(&mut self, view: View, values: Vec<f64>) {
        assert_eq!((view.offset, view.len), (0, values.len()));
        let dtype = self.program.dtype(view);
        self.values[view.buffer.0 as usize] = values.into_iter().map(|value| rounded(dtype, value)).collect();
    }

    pub(crate) fn get(&self, view: View) -> Vec<f64> {
        self.values[view.buffer.0 as usize][view.offset..view.offset + view.len].to_vec()
    }

    /// Runs one operation in fresh memory, on the device where a test asks for that ([`on_device`]), else on the host with exactly the scratch that it says it needs, full of NaN.
    pub(crate) fn run(&mut self, op: impl Into<Op>) {
        let op = op.into();
        if let Some(device) = on_device::current() {
            return device.run(&op, self);
        }
        let sizes: Vec<usize> = self.program.buffers.iter().map(|b| b.bytes().next_multiple_of(64) + GUARD).collect();
        let region = Region::host(sizes.iter().sum()).unwrap();
        let mut at = 0;
        let mut places = Vec::new();
        for (buffer, size) in self.program.buffers.iter().zip(&sizes) {
            let place = region.slice(at, *size).unwrap();
            // SAFETY: the place has `size` bytes.
            unsafe { place.ptr().write_bytes(0xa5, *size) };
            places.push(region.slice(at, buffer.bytes()).unwrap());
            at += size;
        }
        let memory = Memory::new(&self.program.buffers, places);
        self.copy_in(&memory);
        let bytes = scratch_bytes(&op, self.element.bytes() as usize, self.threads);
        let scratch = Scratch::new(self.threads, bytes);
        let context = Context { threads: self.threads, scratch: &scratch, step: self.step, matmul: Matmul::Auto };
        for part in 0..self.threads {
            // SAFETY: nothing runs yet.
            unsafe { context.area::<f64>(part, scratch.bytes() / 8) }.fill(f64::NAN);
        }
        let threads = Threads::new(self.threads, &[]).unwrap();
        // SAFETY: tests let views overlap as the operation allows; nothing else runs.
        threads.install(|| unsafe { execute(&op, &memory, &context) });
        self.copy_out(&memory);
        let mut at = 0;
        for (buffer, size) in self.program.buffers.iter().zip(&sizes) {
            // SAFETY: inside the region, written above.
            let guard =
                unsafe { std::slice::from_raw_parts(region.base().add(at + buffer.bytes()), size - buffer.bytes()) };
            assert!(guard.iter().all(|byte| *byte == 0xa5), "{op:?} wrote past {buffer:?}");
            at += size;
        }
    }

    fn views(&self) -> Vec<(View, Buffer)> {
        let view = |(id, buffer): (usize, &Buffer)| {
            (View { buffer: BufferId(id as u32), offset: 0, len: buffer.len }, buffer.clone())
        };
        self.program.buffers.iter().enumerate().map(view).collect()
    }

    fn copy_in(&self, memory: &Memory) {
        for ((view, buffer), values) in self.views().into_iter().zip(&self.values) {
            match buffer.dtype {
                Dtype::F64 => copy_in::<f64>(memory, view, values),
                Dtype::F32 => copy_in::<f32>(memory, view, values),
                Dtype::Bf16 => copy_in::<bf16>(memory, view, values),
                Dtype::F16 => copy_in::<f16>(memory, view, values),
                _ => copy_in::<i32>(memory, view, values),
            }
        }
    }

    fn copy_out(&mut self, memory: &Memory) {
        let views = self.views();
        for ((view, buffer), values) in views.into_iter().zip(&mut self.values) {
            *values = match buffer.dtype {
                Dtype::F64 => copy_out::<f64>(memory, view),
                Dtype::F32 => copy_out::<f32>(memory, view),
                Dtype::Bf16 => copy_out::<bf16>(memory, view),
                Dtype::F16 => copy_out::<f16>(memory, view),
                _ => copy_out::<i32>(memory, view),
            };
        }
    }
}

fn copy_in<E: Element>(memory: &Memory, view: View, values: &[f64]) {
    // SAFETY: nothing runs.
    for (to, from) in unsafe { memory.write::<E>(view) }.iter_mut().zip(values) {
        *to = E::narrow(Wide::from_f64(*from));
    }
}

fn copy_out<E: Element>(memory: &Memory, view: View) -> Vec<f64> {
    // SAFETY: nothing runs.
    unsafe { memory.read::<E>(view) }.iter().map(|value| Wide::f64(value.widen())).collect()
}

/// The nearest of a type.
pub(crate) fn rounded(dtype: Dtype, value: f64) -> f64 {
    match dtype {
        Dtype::F32 => f64::from(f32::nearest(value)),
        Dtype::Bf16 => f64::from(bf16::nearest(value)),
        Dtype::F16 => f64::from(f16::nearest(value)),
        _ => value,
    }
}
