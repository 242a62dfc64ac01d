//! Runs operations on numbers that tests can look at.

use device::Region;
use engine::cuda::{DeviceContext, Train};
use engine::op::Spatial;
use engine::{
    Buffer, BufferId, Category, Context, Element, Lifetime, Matmul, Memory, Op, Program, Scratch, Step, Threads, View,
};
use engine::{execute, scratch_bytes};
use half::{bf16, f16};
use terms::Dtype;

use crate::cuda::decoded;
use crate::rows::on_device::{self, DeviceLab, ORDERS};

const STEP: Step = Step { number: 1, seed: 0 };

/// Buffers, and what they begin with.
#[derive(Default)]
pub(super) struct Lab {
    program: Program,
    values: Vec<Vec<f64>>,
}

impl Lab {
    /// A buffer of these values, rounded to its type.
    pub(super) fn buffer(&mut self, dtype: Dtype, values: &[f64]) -> View {
        self.values.push(values.to_vec());
        self.program.buffer(Category::Activation, Lifetime::Step, dtype, values.len())
    }

    /// A buffer of garbage: what is not a number, or a number that nobody expects.
    pub(super) fn output(&mut self, dtype: Dtype, len: usize) -> View {
        let garbage = if dtype == Dtype::I32 { -77.0 } else { f64::NAN };
        self.buffer(dtype, &vec![garbage; len])
    }

    /// Runs operations one after the other on `threads` threads, with exactly the scratch that they ask for, full of NaN; on the device
    /// where a test asks for that ([`on_device`]).
    pub(super) fn run(&self, operations: &[Spatial], threads: usize) -> Done {
        self.run_by(Matmul::Auto, operations, threads)
    }

    /// Runs operations as [`Self::run`], with `matmul` for products.
    pub(super) fn run_by(&self, matmul: Matmul, operations: &[Spatial], threads: usize) -> Done {
        if let Some(device) = on_device::current() {
            return self.run_on(&device, operations);
        }
        let done = self.begin(&self.values);
        let pool = Threads::new(threads, &[]).unwrap();
        for operation in operations {
            let operation = Op::Spatial(operation.clone());
            let bytes = self.bytes(&operation);
            let scratch = Scratch::new(threads, scratch_bytes(&operation, bytes, threads));
            let context = Context { threads, scratch: &scratch, step: STEP, matmul };
            for part in 0..threads {
                // SAFETY: nothing runs.
                unsafe { context.area::<f64>(part, scratch.bytes() / 8) }.fill(f64::NAN);
            }
            // SAFETY: tests overlap views only as operations allow, and nobody else knows the memory.
            pool.install(|| unsafe { execute(&operation, &done.memory, &context) });
        }
        done
    }

    /// Runs operations with the kernels of a device, whose threads run in several orders that must give the same bytes.
    fn run_on(&self, device: &DeviceLab, operations: &[Spatial]) -> Done {
        let in_order = |order: i32| -> Vec<Vec<u8>> {
            let operations: Vec<Op> = operations.iter().cloned().map(Op::Spatial).collect();
            let scratch = |operation: &Op| Train::scratch_bytes(operation, self.bytes(operation));
            let most = operations.iter().map(scratch).max().unwrap_or(0);
            let loaded = device.load_values(&self.program, &self.values, STEP, most);
            for operation in &operations {
                let exact = loaded.scratch.slice(0, scratch(operation)).unwrap();
                let context = DeviceContext { scratch: &exact, ..loaded.context() };
                device.train.run(operation, &context).unwrap_or_else(|error| panic!("{operation:?}: {error}"));
            }
            device.bytes_in(&loaded, order)
        };
        let bytes = in_order(0);
        for order in 1..ORDERS {
            assert!(in_order(order) == bytes, "{operations:?}: order {order} gives other bytes");
        }
        let decoded = |(buffer, bytes): (&Buffer, &Vec<u8>)| decoded(buffer.dtype, bytes);
        self.begin(&self.program.buffers.iter().zip(&bytes).map(decoded).collect::<Vec<_>>())
    }

    /// Memory of the host with these values.
    fn begin(&self, values: &[Vec<f64>]) -> Done {
        let sizes: Vec<usize> = self.program.buffers.iter().map(|buffer| buffer.bytes().next_multiple_of(64)).collect();
        let region = Region::host(sizes.iter().sum()).unwrap();
        let mut first = 0;
        let place = |size: &usize| {
            first += size;
            region.slice(first - size, *size).unwrap()
        };
        let places = sizes.iter().map(place).collect();
        let memory = Memory::new(&self.program.buffers, places);
        let done = Done { memory };
        for (index, values) in values.iter().enumerate() {
            done.set(View { buffer: BufferId(index as u32), offset: 0, len: values.len() }, values);
        }
        done
    }

    /// Bytes of an element of what the operation works on: its widest floating-point view that is not f64 sum.
    fn bytes(&self, operation: &Op) -> usize {
        let mut bytes = 8;
        let visit = &mut |view: View| {
            let dtype = self.program.dtype(view);
            if dtype != Dtype::I32 {
                bytes = bytes.min(dtype.bytes() as usize);
            }
        };
        operation.for_each_view(visit);
        bytes
    }
}

/// Memory after operations.
pub(super) struct Done {
    memory: Memory,
}

impl Done {
    /// What a view holds.
    pub(super) fn get(&self, view: View) -> Vec<f64> {
        // SAFETY: nothing runs any more.
        unsafe {
            match self.memory.dtype(view) {
                Dtype::F64 => self.memory.read::<f64>(view).to_vec(),
                Dtype::F32 => self.memory.read::<f32>(view).iter().map(|x| f64::from(*x)).collect(),
                Dtype::Bf16 => self.memory.read::<bf16>(view).iter().map(|x| f64::from(x.widen())).collect(),
                Dtype::F16 => self.memory.read::<f16>(view).iter().map(|x| f64::from(x.widen())).collect(),
                Dtype::I32 => self.memory.read::<i32>(view).iter().map(|x| f64::from(*x)).collect(),
                other => panic!("{other}"),
            }
        }
    }

    fn set(&self, view: View, values: &[f64]) {
        let values = values.iter().copied();
        // SAFETY: nothing runs yet.
        unsafe {
            match self.memory.dtype(view) {
                Dtype::F64 => self.memory.write::<f64>(view).iter_mut().zip(values).for_each(|(to, x)| *to = x),
                Dtype::F32 => self.memory.write::<f32>(view).iter_mut().zip(values).for_each(|(to, x)| *to = x as f32),
                Dtype::Bf16 => {
                    self.memory.write(view).iter_mut().zip(values).for_each(|(to, x)| *to = bf16::from_f64(x));
                }
                Dtype::F16 => {
                    self.memory.write(view).iter_mut().zip(values).for_each(|(to, x)| *to = f16::from_f64(x));
                }
                Dtype::I32 => self.memory.write::<i32>(view).iter_mut().zip(values).for_each(|(to, x)| *to = x as i32),
                other => panic!("{other}"),
            }
        }
    }
}

/// The nearest value of a type.
pub(super) fn rounded(dtype: Dtype, x: f64) -> f64 {
    match dtype {
        Dtype::F32 => f64::from(x as f32),
        Dtype::Bf16 => bf16::from_f64(x).into(),
        Dtype::F16 => f16::from_f64(x).into(),
        _ => x,
    }
}

/// Half the distance from 1 to the next number of a type: the largest relative error of one rounding.
pub(super) fn unit(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => 2f64.powi(-53),
        Dtype::F32 => 2f64.powi(-24),
        Dtype::Bf16 => 2f64.powi(-8),
        Dtype::F16 => 2f64.powi(-11),
        other => panic!("{other}"),
    }
}

/// The type that arithmetic on a type is done in.
pub(super) fn wide(dtype: Dtype) -> Dtype {
    if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 }
}

/// The types of activations.
pub(super) const TYPES: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::F16];

/// Numbers that look random (xorshift), the same in every run.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// One of these choices.
    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.next() as usize % choices.len()]
    }

    /// Numbers in -1..1, rounded to the nearest of the type.
    pub(super) fn numbers(&mut self, dtype: Dtype, len: usize) -> Vec<f64> {
        let mut number = || self.next() as f64 / 2f64.powi(52) - 1.0;
        (0..len).map(|_| rounded(dtype, number())).collect()
    }
}

/// Sum of products.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Every number within its own bound.
pub(super) fn assert_within(what: &str, got: &[f64], expected: &[f64], bound: impl Fn(usize) -> f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        let (error, bound) = ((got - expected).abs(), bound(index));
        assert!(error <= bound, "{what} [{index}]: {got}, expected {expected}: {error:e} off, at most {bound:e}");
    }
}
