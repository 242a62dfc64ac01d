//! Attention on a device of tests/fakes, with the threads of its kernels in four orders that must give the same bytes, against f64 on the
//! host within bounds that follow from what is rounded where.

pub(crate) mod cudnn;
mod limits;
mod parts;
mod reference;

use engine::View;
use engine::cuda::AttentionKernel;
use engine::op::{Attention, Dense};
use terms::Dtype;

use crate::rows::on_device::{DeviceLab, with};
use crate::rows::{Lab, noise};
use reference::{Rounding, Wanted};

/// Batch, sequence, heads, key and value heads, whether a row sees only what came before.
type Shape = (usize, usize, usize, usize, bool);

/// One row, less than a tile, whole tiles, one more row; more than a block of rows, and more than one head that reads a key.
const SHAPES: [Shape; 8] = [
    (1, 1, 1, 1, true),
    (2, 7, 4, 2, false),
    (1, 16, 1, 1, true),
    (1, 64, 1, 1, true),
    (1, 65, 1, 1, false),
    (1, 65, 2, 1, true),
    (1, 130, 3, 1, true),
    (1, 130, 1, 1, false),
];

/// An attention and its gradient in a lab.
struct Case {
    lab: Lab,
    op: Attention,
    d_output: View,
    d_qkv: View,
}

impl Case {
    /// Every buffer begins with numbers that belong to nobody.
    fn new((batch, sequence, heads, kv_heads, causal): Shape, head_width: usize, dtype: Dtype) -> Self {
        const BEFORE: usize = 64;
        let mut lab = Lab::new(dtype);
        let rows = batch * sequence;
        let (width, packed) = (heads * head_width, (heads + 2 * kv_heads) * head_width);
        let mut put = |dtype, values: Vec<f64>| {
            let len = values.len();
            lab.put(dtype, [vec![0.5; BEFORE], values].concat()).part(BEFORE, len)
        };
        let state = if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
        // Scores of a few units, so that softmax is neither flat nor a maximum.
        let factor = 3.0 / (head_width as f64).powf(0.25);
        let qkv = put(dtype, noise(1, rows * packed).into_iter().map(|x| factor * x).collect());
        let output = put(dtype, vec![f64::NAN; rows * width]);
        let log_sum = put(state, vec![f64::NAN; rows * heads]);
        let d_output = put(dtype, noise(2, rows * width));
        let d_qkv = put(dtype, vec![f64::NAN; rows * packed]);
        let op = Attention { qkv, output, log_sum, batch, sequence, heads, kv_heads, head_width, causal };
        Self { lab, op, d_output, d_qkv }
    }

    fn forward(&self) -> Dense {
        Dense::AttentionForward(self.op.clone())
    }

    fn backward(&self) -> Dense {
        Dense::AttentionBackward { forward: self.op.clone(), d_output: self.d_output, d_qkv: self.d_qkv }
    }

    /// Changes a view's numbers, of which each is given with its place.
    fn change(&mut self, view: View, change: impl Fn(usize, f64) -> f64) {
        let whole = View { offset: 0, len: view.offset + view.len, ..view };
        let mut values = self.lab.get(whole);
        for (at, value) in values[view.offset..].iter_mut().enumerate() {
            *value = change(at, *value);
        }
        self.lab.set(whole, values);
    }

    /// Runs both passes.
    fn run(&mut self) {
        self.lab.run(self.forward());
        self.lab.run(self.backward());
    }

    fn check(&self, kernel: AttentionKernel) {
        let wanted = Wanted::new(&self.op, &self.lab.get(self.op.qkv), &self.lab.get(self.d_output), {
            Rounding::of(self.lab.element, kernel)
        });
        wanted.output.check(&self.lab.get(self.op.output), &format!("output of {:?}", self.op));
        wanted.log_sum.check(&self.lab.get(self.op.log_sum), &format!("log of the sum of {:?}", self.op));
        wanted.d_qkv.check(&self.lab.get(self.d_qkv), &format!("gradient of {:?}", self.op));
        for view in [self.op.qkv, self.op.output, self.op.log_sum, self.d_output, self.d_qkv] {
            let before = View { offset: 0, len: view.offset, ..view };
            assert!(self.lab.get(before).iter().all(|x| *x == 0.5), "{:?} wrote before {view:?}", self.op);
        }
    }
}

fn agree(test: &str, kernel: AttentionKernel, cases: impl IntoIterator<Item = (Shape, usize, Dtype)>) {
    let Some(device) = DeviceLab::open(test) else { return };
    for (shape, width, dtype) in cases {
        let mut case = Case::new(shape, width, dtype);
        assert_eq!(device.train.attention_kernel(&case.op, dtype), Ok(kernel));
        with(&device, || case.run());
        case.check(kernel);
    }
}

macro_rules! tensor_cores {
    ($($name:ident: $dtype:expr, $width:literal;)*) => {$(
        #[test]
        fn $name() {
            let cases = SHAPES.map(|shape| (shape, $width, $dtype));
            agree(stringify!($name), AttentionKernel::TensorCores, cases);
        }
    )*};
}

tensor_cores! {
    bf16_with_heads_of_64_agrees_with_f64: Dtype::Bf16, 64;
    bf16_with_heads_of_128_agrees_with_f64: Dtype::Bf16, 128;
    f16_with_heads_of_64_agrees_with_f64: Dtype::F16, 64;
    f16_with_heads_of_128_agrees_with_f64: Dtype::F16, 128;
}

macro_rules! plain {
    ($($name:ident: $dtype:expr, $widths:expr;)*) => {$(
        #[test]
        fn $name() {
            let cases = SHAPES.into_iter().zip($widths).map(|(shape, width)| (shape, width, $dtype));
            agree(stringify!($name), AttentionKernel::Plain, cases);
        }
    )*};
}

plain! {
    f64_agrees_with_plain_loops: Dtype::F64, [1, 256, 33, 128, 8, 40, 16, 64];
    f32_agrees_with_f64: Dtype::F32, [64, 256, 1, 33, 128, 8, 40, 72];
    bf16_with_other_heads_agrees_with_f64: Dtype::Bf16, [8, 256, 96, 1, 40, 32, 80, 72];
    f16_with_other_heads_agrees_with_f64: Dtype::F16, [256, 8, 32, 200, 1, 40, 24, 96];
}
