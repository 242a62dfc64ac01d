//! Operations on rows on a device of tests/fakes: a test of the host's kernels runs on it as it stands. Each operation runs with
//! the threads of its kernels in four orders, which must give the same bits.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use device::cuda::Gpu;
use device::library::{Library, Visibility};
use device::{Region, Slice};
use engine::cuda::{DeviceContext, Train, sorted_rows};
use engine::op::{Op, Rows};
use engine::{BufferId, Memory, Program, Step, View};
use terms::Dtype;

use super::Lab;
use crate::cuda::{decoded, encoded, gpu, on_device, read};
use crate::fakes;

thread_local! {
    static CURRENT: RefCell<Option<Rc<DeviceLab>>> = const { RefCell::new(None) };
}

/// Where this thread's labs run.
pub(crate) fn current() -> Option<Rc<DeviceLab>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Puts the labs back on the host, also after a panic: tests may share a thread.
struct Back;

impl Drop for Back {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

/// Runs `work` with this thread's labs on the device.
pub(crate) fn with<R>(device: &Rc<DeviceLab>, work: impl FnOnce() -> R) -> R {
    CURRENT.set(Some(device.clone()));
    let _back = Back;
    work()
}

/// Tests of the host's kernels, run on the device as they stand.
macro_rules! each_on_device {
    ($($name:ident: $($test:path),* $(,)?;)*) => {$(
        #[test]
        fn $name() {
            let Some(device) = $crate::rows::on_device::DeviceLab::open(stringify!($name)) else { return };
            $($crate::rows::on_device::with(&device, || $test());)*
        }
    )*};
}
pub(crate) use each_on_device;

/// Orders that the emulated threads run in.
pub(crate) const ORDERS: i32 = 4;

/// A device with its kernels, and the function of the fake that says how kernels run.
pub(crate) struct DeviceLab {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) train: Train,
    run_as: extern "C" fn(i32, i32),
}

/// The buffers of a lab on the device, each in an allocation of its own: what lies behind it faults.
pub(crate) struct Loaded {
    pub(crate) memory: Memory,
    pub(crate) places: Vec<Slice>,
    pub(crate) scratch: Slice,
    pub(crate) step: Slice,
    pub(crate) sorted: Option<Slice>,
}

impl Loaded {
    pub(crate) fn context(&self) -> DeviceContext<'_> {
        let Self { memory, scratch, step, .. } = self;
        DeviceContext { memory, scratch, step, sorted: self.sorted.as_ref(), stream: None }
    }
}

impl DeviceLab {
    /// None where the fakes cannot be built.
    pub(crate) fn open(test: &str) -> Option<Rc<Self>> {
        let gpu = gpu(test)?;
        let train = Train::load(&gpu).unwrap();
        let library = fakes::folder(test)?.join("libcuda.so.1");
        let run_as = Library::open(&library, Visibility::Local).unwrap().symbol(c"fake_cuda_run_as").unwrap();
        // SAFETY: a function of the fake, of this form.
        let run_as = unsafe { std::mem::transmute::<std::ptr::NonNull<_>, extern "C" fn(i32, i32)>(run_as) };
        Some(Rc::new(Self { gpu, train, run_as }))
    }

    pub(crate) fn load(&self, lab: &Lab, scratch: usize) -> Loaded {
        self.load_values(&lab.program, &lab.values, lab.step, scratch)
    }

    pub(crate) fn load_values(&self, program: &Program, values: &[Vec<f64>], step: Step, scratch: usize) -> Loaded {
        let buffers = &program.buffers;
        let places: Vec<Slice> = buffers
            .iter()
            .zip(values)
            .map(|(buffer, values)| on_device(&self.gpu, &encoded(buffer.dtype, values)))
            .collect();
        let bytes = |numbers: &[[u8; 8]]| on_device(&self.gpu, &numbers.concat());
        let area = Region::cuda(&self.gpu, scratch.max(1)).unwrap().slice(0, scratch).unwrap();
        if scratch > 0 {
            // NaN of every type.
            area.set(0xff).unwrap();
        }
        Loaded {
            memory: Memory::new(buffers, places.clone()),
            places,
            scratch: area,
            step: bytes(&[step.number, step.seed].map(u64::to_ne_bytes)),
            sorted: None,
        }
    }

    /// What the buffers hold after an operation, with the threads in one order, and without the barrier of one line.
    pub(crate) fn bytes_after(&self, op: &Op, lab: &Lab, order: i32, without: i32) -> Vec<Vec<u8>> {
        let mut loaded = self.load(lab, Train::scratch_bytes(op, lab.element.bytes() as usize));
        if let Op::Rows(Rows::EmbeddingBackward { tokens, d_table, width, first, .. }) = op {
            let tokens: Vec<i32> = lab.get(*tokens).into_iter().map(|token| token as i32).collect();
            let sorted = sorted_rows(&tokens, *first, d_table.len / width).unwrap();
            loaded.sorted =
                Some(on_device(&self.gpu, &sorted.into_iter().flat_map(u32::to_ne_bytes).collect::<Vec<_>>()));
        }
        self.train.run(op, &loaded.context()).unwrap_or_else(|error| panic!("{op:?}: {error}"));
        self.bytes_as(&loaded, order, without)
    }

    /// All buffers' bytes after what was given to the device's stream, with the threads in one order.
    pub(crate) fn bytes_in(&self, loaded: &Loaded, order: i32) -> Vec<Vec<u8>> {
        self.bytes_as(loaded, order, 0)
    }

    /// Work runs when it is waited for.
    pub(crate) fn bytes_as(&self, loaded: &Loaded, order: i32, without: i32) -> Vec<Vec<u8>> {
        (self.run_as)(order, without);
        let bytes = loaded.places.iter().map(read).collect();
        (self.run_as)(0, 0);
        bytes
    }

    /// Runs one operation in each order.
    pub(super) fn run(&self, op: &Op, lab: &mut Lab) {
        let bytes = self.bytes_after(op, lab, 0, 0);
        for order in 1..ORDERS {
            assert!(self.bytes_after(op, lab, order, 0) == bytes, "{op:?}: order {order} gives other bits");
        }
        Self::keep(&bytes, lab);
    }

    /// Gives a lab what its buffers hold on the device.
    pub(crate) fn keep(bytes: &[Vec<u8>], lab: &mut Lab) {
        for (place, bytes) in bytes.iter().enumerate() {
            let view = View { buffer: BufferId(place as u32), offset: 0, len: 0 };
            let dtype: Dtype = lab.program.dtype(view);
            lab.values[place] = decoded(dtype, bytes);
        }
    }
}
