//! The fields of a kernel case, declared once as a table and as a struct.

use contract::fields::{ANY_BACKEND, DEVICE, MODE, RANKS, SEED, THREADS, problem};
use engine::{KERNELS, Matmul, Sample};
use terms::{Dtype, Field, FieldError, Kind, Label, Mode, Named};

fn kernels() -> Vec<&'static str> {
    KERNELS.iter().map(|(name, _)| *name).collect()
}

/// The sizes of an operation without any.
const NONE: &str = "none";

/// Types that are computed with.
fn dtypes() -> Vec<&'static str> {
    [Dtype::F32, Dtype::F64, Dtype::Bf16, Dtype::F16].map(Dtype::name).to_vec()
}

record::fields! {
    /// What a case is.
    pub(super) struct KernelFields {
        kernel: String = Field::new(Kind::Word(kernels), Some("product_nn"), "the operation of a step").always().common(),
        dims: String = Field::new(
            Kind::Text,
            Some("512x512x512x0x4"),
            "sizes of the operation, as `512x512x512x0x4` (docs/how-to/calibrate.md)",
        )
        .always()
        .common(),
        dtype: Dtype = Field::new(Kind::Word(dtypes), Some("f32"), "element type").always().common(),
        ranks: u32 = Field { default: Some("1"), doc: "number of ranks that run it at once", ..RANKS },
        threads: Option<u32> = Field { doc: "threads of each rank (default: 1)", ..THREADS },
        backend: Option<String> = ANY_BACKEND,
        device: String = DEVICE,
        matmul: Matmul = Field::new(Kind::Word(Matmul::names), Some("auto"), "products of f32; bf16x6: on AMX"),
        rotate: u64 = Field::new(
            Kind::Bytes,
            Some("0B"),
            "calls rotate through copies of the buffers with at least this many bytes (0: one copy)",
        )
        .label(Label::Around("through {}")),
        mode: Mode = MODE,
        seed: u64 = SEED,
    }
}

impl KernelFields {
    /// The sizes as numbers.
    ///
    /// # Errors
    /// A text that is none.
    pub(super) fn sizes(&self) -> Result<Vec<u64>, FieldError> {
        let words = self.dims.split('x').map(str::trim).filter(|_| self.dims.trim() != NONE);
        let number = |word: &str| {
            let shown: String = word.chars().take(32).collect();
            let message = format!("`{shown}` is not a whole number");
            word.parse::<u64>().map_err(|_| problem("dims", message, "sizes joined by `x`, as in `512x512x512x0x4`"))
        };
        words.map(number).collect()
    }

    /// The operation.
    ///
    /// # Errors
    /// Sizes that it does not take.
    pub(super) fn sample(&self) -> Result<Sample, FieldError> {
        let takes = KERNELS.iter().find(|(name, _)| *name == self.kernel).map_or("", |(_, takes)| takes);
        let hint = if takes.is_empty() { format!("`dims: {NONE}`") } else { format!("sizes: {takes}") };
        Sample::new(&self.kernel, &self.sizes()?, self.dtype)
            .map_err(|why| problem("dims", format!("{} of `{}`: {why}", self.kernel, self.dims), hint))
    }
}
