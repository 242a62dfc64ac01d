//! How a kernel of train.cu or another text is given its arguments: each memory that it goes through is checked first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use device::cuda::{Argument, Gpu, Kernel, Stream, Threads};
use device::{Region, Slice};
use terms::Dtype;

use crate::cuda::ProductError;
pub(super) use crate::cuda::error::Result;
use crate::{Memory, View};

/// kernels/train.cu, compiled for sm_70 in ISA 7.8 (`cargo xtask ptx`).
pub const TRAIN: &str = include_str!("../../../kernels/train.ptx");
/// kernels/norm.cu, compiled for sm_70 in ISA 7.8 (`cargo xtask ptx`).
pub const NORM: &str = include_str!("../../../kernels/norm.ptx");

/// Where the buffers of an operation lie on a device, and what it runs with. All of it is device memory, so that a recorded sequence of
/// operations reads the numbers of the step in which it runs.
#[derive(Clone, Copy, Debug)]
pub struct DeviceContext<'a> {
    /// The buffers.
    pub memory: &'a Memory,
    /// Temporary memory: at least [`super::Train::scratch_bytes`].
    pub scratch: &'a Slice,
    /// Two u64: the step's number, from 1, and the seed of dropout.
    pub step: &'a Slice,
    /// The rows of a batch by their tokens, for the gradient of an embedding: [`super::sorted_rows`].
    pub sorted: Option<&'a Slice>,
    /// None for the device's own.
    pub stream: Option<&'a Stream>,
}

impl DeviceContext<'_> {
    /// Whether a view begins at a multiple of so many bytes, as kernels need it that load several numbers at once.
    pub(super) fn is_aligned(&self, view: View, bytes: usize) -> bool {
        self.memory.slice(view).address().is_multiple_of(bytes)
    }
}

// Kernels with barriers count on it.
const _: () = assert!(device::cuda::BLOCK_THREADS == 256, "threads of a block in train.cu and norm.cu");

/// Element types that there are kernels for.
pub(super) const TYPES: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::F16];

/// Names of kernels, as a list and as numbers.
macro_rules! kernels {
    ($(#[$note:meta])* $which:ident in $names:ident: $($kernel:ident = $name:literal),* $(,)?) => {
        $(#[$note])*
        #[derive(Clone, Copy, Debug)]
        pub(super) enum $which { $($kernel),* }
        const $names: &[&str] = &[$($name),*];
    };
}
pub(super) use kernels;

kernels! {
    /// Kernels that each type has.
    Typed in TYPED:
    Fill = "fill", ToF64 = "to_f64", ToF32 = "to_f32", ToBf16 = "to_bf16", ToF16 = "to_f16", Add = "add", AddBias = "add_bias", GeluTanh = "gelu_tanh", GeluErf = "gelu_erf", Relu = "relu",
    GeluTanhGradient = "gelu_tanh_gradient", GeluErfGradient = "gelu_erf_gradient", ReluGradient = "relu_gradient",
    SwiGlu = "swiglu", SwiGluGradient = "swiglu_gradient", Rotary = "rotary", Dropout = "dropout",
    ColumnPartials = "column_partials", Norm = "norm", NormGradient = "norm_gradient", NormPartials = "norm_partials",
    Embed = "embed", EmbedGradient = "embed_gradient", PositionGradient = "position_gradient",
    Entropy = "entropy", EntropyLargest = "entropy_largest", EntropySum = "entropy_sum", EntropyFinish = "entropy_finish",
    Adam = "adam", AdamOfParts = "adam_of_parts", Sgd = "sgd",
}

kernels! {
    /// Kernels of one type.
    Single in SINGLE:
    FillI32 = "fill_i32", AddPartialsF64 = "add_partials_f64", AddPartialsF32 = "add_partials_f32",
    AddManyPartialsF64 = "add_many_partials_f64", AddManyPartialsF32 = "add_many_partials_f32", SquaresF64 = "squares_f64",
    SquaresF32 = "squares_f32",
    SquaresOfPartsF64 = "squares_of_parts_f64", SquaresOfPartsF32 = "squares_of_parts_f32", AddSum = "add_sum", BeginNorm = "begin_norm", Judge = "judge", EndStep = "end_step",
    AdamNumbers = "adam_numbers",
}

kernels! {
    /// Kernels of norm.cu, which each type of [`ROW_TYPES`] has.
    WholeRows in WHOLE_ROWS:
    NormByWarp = "norm_warp", NormByBlock = "norm_block", GradientByWarp = "norm_gradient_warp",
    GradientByBlock = "norm_gradient_block",
}

/// Element types that norm.cu has kernels for.
pub(super) const ROW_TYPES: [Dtype; 3] = [Dtype::F32, Dtype::Bf16, Dtype::F16];

/// Tables of angles: cosine and sine for each position and pair of features.
type Tables = HashMap<(usize, usize, u64, Dtype), Slice>;

/// Kernels of a text that are loaded together, when the first of them is needed: the driver takes seconds to compile them.
#[derive(Debug, Default)]
pub(super) struct Lazy(OnceLock<Vec<Kernel>>);

impl Lazy {
    /// The kernels with these names, in their order.
    pub(super) fn get(&self, gpu: &Arc<Gpu>, text: &str, names: impl FnOnce() -> Vec<String>) -> Result<&[Kernel]> {
        self.get_with(gpu, text, names, |_| Ok(()))
    }

    /// The kernels with these names, prepared once they are loaded.
    pub(super) fn get_with(
        &self,
        gpu: &Arc<Gpu>,
        text: &str,
        names: impl FnOnce() -> Vec<String>,
        prepare: impl FnOnce(&mut [Kernel]) -> Result<()>,
    ) -> Result<&[Kernel]> {
        if let Some(loaded) = self.0.get() {
            return Ok(loaded);
        }
        let mut loaded = gpu.load_named(text, &names())?;
        prepare(&mut loaded)?;
        Ok(self.0.get_or_init(|| loaded))
    }
}

/// The kernels of a device, and the tables that they read.
#[derive(Debug)]
pub(super) struct Kernels {
    gpu: Arc<Gpu>,
    /// All of [`TYPED`], of each of [`TYPES`].
    typed: [Lazy; TYPES.len()],
    /// Kernels of one type alone.
    singles: Lazy,
    /// All of [`WHOLE_ROWS`], of each of [`ROW_TYPES`].
    whole_rows: [Lazy; ROW_TYPES.len()],
    tables: Mutex<Tables>,
}

impl Kernels {
    /// None is loaded yet.
    pub(super) fn new(gpu: &Arc<Gpu>) -> Self {
        let (typed, singles, whole_rows) = Default::default();
        Self { gpu: gpu.clone(), typed, singles, whole_rows, tables: Mutex::default() }
    }

    pub(super) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// A kernel for elements of a type.
    pub(super) fn typed(&self, which: Typed, dtype: Dtype) -> Result<&Kernel> {
        let known = TYPES.iter().position(|known| *known == dtype);
        let Some(place) = known else { return refused(format!("no kernel computes with {dtype}")) };
        let names = || TYPED.iter().map(|stem| format!("{stem}_{dtype}")).collect();
        Ok(&self.typed[place].get(&self.gpu, TRAIN, names)?[which as usize])
    }

    /// A kernel of norm.cu; None where it has none for the type.
    pub(super) fn whole_rows(&self, which: WholeRows, dtype: Dtype) -> Result<Option<&Kernel>> {
        let Some(place) = ROW_TYPES.iter().position(|known| *known == dtype) else { return Ok(None) };
        let names = || WHOLE_ROWS.iter().map(|stem| format!("{stem}_{dtype}")).collect();
        Ok(Some(&self.whole_rows[place].get(&self.gpu, NORM, names)?[which as usize]))
    }

    pub(super) fn single(&self, which: Single) -> Result<&Kernel> {
        let names = || SINGLE.iter().map(|name| (*name).to_owned()).collect();
        Ok(&self.singles.get(&self.gpu, TRAIN, names)?[which as usize])
    }

    /// The table with this key, made when it is first asked for.
    pub(super) fn table(&self, key: (usize, usize, u64, Dtype), bytes: impl FnOnce() -> Vec<u8>) -> Result<Slice> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = tables.get(&key) {
            return Ok(table.clone());
        }
        let bytes = bytes();
        let table = Region::cuda(&self.gpu, bytes.len())?.whole();
        table.write(&bytes)?;
        Ok(tables.entry(key).or_insert(table).clone())
    }
}

pub(super) fn refused<T>(what: String) -> Result<T> {
    Err(ProductError::Operation(what))
}

/// What parameter gradients and statistics are kept in.
pub(super) fn state_of(dtype: Dtype) -> Dtype {
    if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 }
}

/// Chunks of rows that are summed apart: enough for all threads of a device, and a number that follows from the sizes alone.
pub(super) fn chunks(rows: usize, columns: usize) -> usize {
    rows.min((128 * 1024_usize).div_ceil(columns.max(1))).clamp(1, 512)
}

/// The arguments of one launch.
pub(super) struct LaunchCall<'a> {
    kernels: &'a Kernels,
    context: &'a DeviceContext<'a>,
    arguments: Vec<Argument>,
}

impl<'a> LaunchCall<'a> {
    pub(super) fn new(kernels: &'a Kernels, context: &'a DeviceContext<'a>) -> Self {
        Self { kernels, context, arguments: Vec::new() }
    }

    /// The address of memory that has so many bytes.
    pub(super) fn slice(mut self, slice: &Slice, bytes: usize, what: &str) -> Result<Self> {
        if slice.gpu().is_none() && slice.region().reaching().is_none() {
            return refused(format!("{what} is not in reach of this GPU"));
        }
        if slice.len() < bytes {
            return refused(format!("{what} has {} bytes, and needs {bytes}", slice.len()));
        }
        self.arguments.push(Argument::Word(slice.address() as u64));
        Ok(self)
    }

    /// The address of a view, which must have exactly so many elements of the type.
    pub(super) fn view(self, view: View, dtype: Dtype, count: usize, what: &str) -> Result<Self> {
        let found = self.context.memory.dtype(view);
        if found != dtype || view.len != count {
            return refused(format!("{what} has {} elements of {found}, and needs {count} of {dtype}", view.len));
        }
        let slice = self.context.memory.slice(view);
        self.slice(&slice, count * dtype.bytes() as usize, what)
    }

    /// The address of a view, which must have exactly so many elements of the type; null without a view.
    pub(super) fn maybe(self, view: Option<View>, dtype: Dtype, count: usize, what: &str) -> Result<Self> {
        match view {
            Some(view) => self.view(view, dtype, count, what),
            None => Ok(self.word(0)),
        }
    }

    /// A part of the scratch memory, from a byte on.
    pub(super) fn scratch(self, from: usize, bytes: usize) -> Result<Self> {
        let all = self.context.scratch;
        let Some(part) = all.slice(from, bytes) else {
            return refused(format!("scratch memory has {} bytes, and needs {}", all.len(), from + bytes));
        };
        self.slice(&part, bytes, "scratch memory")
    }

    pub(super) fn step(self, numbers: usize) -> Result<Self> {
        let step = self.context.step;
        self.slice(step, 8 * numbers, "the step's number and seed")
    }

    pub(super) fn word(mut self, word: usize) -> Self {
        self.arguments.push(Argument::Word(word as u64));
        self
    }

    pub(super) fn real(mut self, value: f64) -> Self {
        self.arguments.push(Argument::Word(value.to_bits()));
        self
    }

    pub(super) fn half(mut self, number: usize) -> Result<Self> {
        let Ok(number) = u32::try_from(number) else { return refused(format!("{number} is past 32 bits")) };
        self.arguments.push(Argument::Half(number));
        Ok(self)
    }

    pub(super) fn flag(mut self, flag: bool) -> Self {
        self.arguments.push(Argument::Half(u32::from(flag)));
        self
    }

    /// # Safety
    /// The arguments are those of this kernel, and each memory that was given has what the kernel goes through.
    pub(super) unsafe fn launch(mut self, kernel: &Kernel, threads: Threads) -> Result<()> {
        if matches!(threads, Threads::Elements(0) | Threads::Blocks(0) | Threads::Each(0)) {
            return Ok(());
        }
        // SAFETY: the caller's.
        Ok(unsafe { self.kernels.gpu.launch(kernel, threads, &mut self.arguments, self.context.stream) }?)
    }
}

/// Rows of so many columns that a view has.
pub(super) fn rows_of(view: View, columns: usize) -> Result<usize> {
    match columns > 0 && view.len.is_multiple_of(columns) {
        true => Ok(view.len / columns),
        false => refused(format!("{} elements are not rows of {columns}", view.len)),
    }
}
