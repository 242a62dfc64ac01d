//! Convolutions by cuDNN's graphs: computed by the library of tests/fakes, against the host's in f64; and planned by the real one where
//! RANKMARK_TEST_CUDNN names it.

use std::sync::Arc;

use device::Region;
use engine::cuda::{CudnnConvolutions, CudnnDevice, ProductError};
use engine::op::{Op, Spatial};
use engine::{Category, Lifetime, Memory, Program, View};
use model::Conv2d;
use terms::Dtype;

use crate::attention::cudnn::{open, planning};
use crate::rows::on_device::DeviceLab;
use crate::rows::{Lab, noise, rounded};

const TYPES: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::F16];

/// Inputs, outputs, kernel, stride, padding, height, width. An odd count of inputs has no engine in the library's first mode.
const SHAPES: [[usize; 7]; 5] =
    [[2, 3, 1, 1, 0, 4, 5], [3, 4, 3, 2, 1, 7, 6], [4, 2, 3, 1, 1, 5, 5], [1, 5, 2, 3, 0, 8, 9], [6, 2, 5, 2, 2, 6, 9]];

fn shape([inputs, outputs, kernel, stride, padding, height, width]: [usize; 7]) -> Conv2d {
    Conv2d { inputs, outputs, kernel, stride, padding, height, width }
}

/// The three operations of a convolution in a lab of this type, and what each writes.
struct Case {
    lab: Lab,
    operations: [(Spatial, View); 3],
}

impl Case {
    /// Elements of input, weight and output.
    fn counts(shape: &Conv2d, batch: usize) -> [usize; 3] {
        let (height, width) = shape.output();
        [
            batch * shape.height * shape.width * shape.inputs,
            shape.outputs * shape.kernel * shape.kernel * shape.inputs,
            batch * height * width * shape.outputs,
        ]
    }

    /// Numbers are those of `dtype` also where the lab is of f64. With `magnitudes`, of their magnitudes.
    fn new(shape: &Conv2d, batch: usize, (of, dtype): (Dtype, Dtype), accumulate: bool, magnitudes: bool) -> Self {
        let mut lab = Lab::new(of);
        let state = if of == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
        let mut numbers = |count: usize, seed: u64, to: Dtype, kept: Dtype| {
            let sign = |x: f64| if magnitudes { x.abs() } else { x };
            let values = noise(seed, count).into_iter().map(|x| sign(rounded(kept, x)));
            lab.put(to, values.collect())
        };
        let [xs, weights, ys] = Self::counts(shape, batch);
        let wide = if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
        let (x, weight, dy) = (numbers(xs, 1, of, dtype), numbers(weights, 2, of, dtype), numbers(ys, 3, of, dtype));
        let (y, dx) = (numbers(ys, 4, of, dtype), numbers(xs, 5, of, dtype));
        let d_weight = numbers(weights, 6, state, wide);
        let shape = shape.clone();
        let operations = [
            (Spatial::ConvForward { shape: shape.clone(), batch, x, weight, y }, y),
            (Spatial::ConvBackwardInput { shape: shape.clone(), batch, dy, weight, dx, accumulate }, dx),
            (Spatial::ConvBackwardWeight { shape, batch, x, dy, d_weight, accumulate }, d_weight),
        ];
        Self { lab, operations }
    }
}

/// Runs an operation on the device, with exactly the scratch memory that it says it needs.
fn run(device: &DeviceLab, on: &Arc<CudnnDevice>, lab: &Lab, op: &Spatial) -> Result<Vec<Vec<u8>>, ProductError> {
    let mut convolutions = CudnnConvolutions::new(on);
    let loaded = device.load(lab, CudnnConvolutions::scratch_bytes(op, lab.element.bytes() as usize));
    convolutions.plan(op, &loaded.memory)?;
    if let Some(narrow) = convolutions.run(op, &loaded.context())? {
        let Spatial::ConvBackwardWeight { d_weight, accumulate, .. } = op else {
            panic!("{op:?} has no narrow result")
        };
        device.train.widen(&narrow, *d_weight, *accumulate, &loaded.context())?;
    }
    Ok(device.bytes_in(&loaded, 0))
}

/// Largest relative error of one rounding.
fn unit(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => 2f64.powi(-53),
        Dtype::F32 => 2f64.powi(-24),
        Dtype::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-8),
    }
}

#[test]
fn convolutions_and_gradients_are_those_of_the_host() {
    let test = "convolutions_and_gradients_are_those_of_the_host";
    let Some((device, library)) = open(test) else { return };
    let on = Arc::new(CudnnDevice::of(&library, &device.gpu).unwrap());
    for (of, dtype, accumulate) in SHAPES
        .iter()
        .flat_map(|of| TYPES.map(|dtype| (of, dtype)))
        .flat_map(|(of, dtype)| [(of, dtype, false), (of, dtype, true)])
    {
        let shape = shape(*of);
        let mut case = Case::new(&shape, 2, (dtype, dtype), accumulate, false);
        let mut exact = Case::new(&shape, 2, (Dtype::F64, dtype), accumulate, false);
        let mut sizes = Case::new(&shape, 2, (Dtype::F64, dtype), accumulate, true);
        for place in 0..3 {
            let (op, result) = case.operations[place].clone();
            DeviceLab::keep(&run(&device, &on, &case.lab, &op).unwrap(), &mut case.lab);
            exact.lab.run(Op::Spatial(exact.operations[place].0.clone()));
            sizes.lab.run(Op::Spatial(sizes.operations[place].0.clone()));
            let stored = unit(dtype);
            let results = case.lab.get(result).into_iter().zip(exact.lab.get(result)).zip(sizes.lab.get(result));
            for (at, ((found, wanted), size)) in results.enumerate() {
                // Rounded where it is stored: of f16, to multiples of 2^-24; then added, in f32.
                let bound = 2.5 * stored * size + 2f64.powi(-25);
                let bound = if dtype == Dtype::F64 { 1e-13 * size } else { bound };
                assert!((found - wanted).abs() <= bound, "{op:?} in {dtype}, {at}: {found} and {wanted}");
            }
        }
    }
}

/// Elements that lie between multiples of 16 bytes are planned for where they lie.
#[test]
fn views_may_begin_anywhere() {
    let Some((device, library)) = open("views_may_begin_anywhere") else { return };
    let on = Arc::new(CudnnDevice::of(&library, &device.gpu).unwrap());
    let shape = shape([2, 2, 1, 1, 0, 2, 2]);
    let mut lab = Lab::new(Dtype::Bf16);
    let mut part = |count: usize, from: usize, seed| lab.put(Dtype::Bf16, noise(seed, count + from)).part(from, count);
    let (x, weight, y) = (part(8, 1, 1), part(4, 4, 2), part(8, 2, 3));
    let op = Spatial::ConvForward { shape, batch: 1, x, weight, y };
    let found = run(&device, &on, &lab, &op).unwrap();
    lab.run(Op::Spatial(op));
    let wanted = lab.get(y);
    DeviceLab::keep(&found, &mut lab);
    assert_eq!(lab.get(y), wanted);
}

#[test]
fn what_was_not_planned_is_refused() {
    let Some((device, library)) = open("what_was_not_planned_is_refused") else { return };
    let on = Arc::new(CudnnDevice::of(&library, &device.gpu).unwrap());
    let case = Case::new(&shape(SHAPES[0]), 2, (Dtype::F32, Dtype::F32), false, false);
    let op = &case.operations[0].0;
    let mut convolutions = CudnnConvolutions::new(&on);
    let loaded = device.load(&case.lab, 0);
    let said = |convolutions: &CudnnConvolutions, op: &Spatial| {
        convolutions.run(op, &loaded.context()).unwrap_err().to_string()
    };
    assert!(said(&convolutions, op).contains("was not planned"));
    convolutions.plan(op, &loaded.memory).unwrap();
    assert!(said(&convolutions, op).contains("scratch memory has 0 bytes"), "{}", said(&convolutions, op));
    assert!(said(&convolutions, &case.operations[1].0).contains("was not planned"));
    let Spatial::ConvForward { shape, x, weight, y, .. } = op.clone() else { panic!("{op:?}") };
    let short = Spatial::ConvForward { shape: shape.clone(), batch: 2, x: x.part(0, 16), weight, y };
    convolutions.plan(&short, &loaded.memory).unwrap();
    assert!(said(&convolutions, &short).contains("has 16 elements of f32"), "{}", said(&convolutions, &short));
    let pool = Spatial::BatchNormSum { x, partial: y, channels: 2 };
    assert!(convolutions.plan(&pool, &loaded.memory).unwrap_err().to_string().contains("is not a convolution"));
    let described = Arc::new(CudnnDevice::described(&library, "{}").unwrap());
    let error = run(&device, &described, &case.lab, op).unwrap_err();
    assert!(error.to_string().contains("only described"), "{error}");
}

/// All convolutions of ResNet-50 in each type, forward and backward, with what they may take of memory.
#[test]
fn the_real_library_plans_resnet50_for_an_h100() {
    let Some(device) = planning("the_real_library_plans_resnet50_for_an_h100") else { return };
    let net = model::model("resnet50", &[]).unwrap();
    let mut shapes: Vec<Conv2d> = Vec::new();
    for layer in net.blocks.iter().flat_map(|block| &block.nodes).map(|node| &node.layer) {
        if let model::Layer::Conv2d(shape) = layer
            && !shapes.contains(shape)
        {
            shapes.push(shape.clone());
        }
    }
    assert!(shapes.len() > 15, "{}", shapes.len());
    // Nothing is read or written: no page of it is ever there.
    let region = Region::host(1 << 31).unwrap();
    for (dtype, state) in TYPES.map(|dtype| (dtype, if dtype == Dtype::F64 { dtype } else { Dtype::F32 })) {
        let mut convolutions = CudnnConvolutions::new(&device);
        for shape in &shapes {
            let batch = 64;
            let [xs, weights, ys] = Case::counts(shape, batch);
            let mut program = Program::default();
            let mut put = |dtype, count| program.buffer(Category::Activation, Lifetime::Step, dtype, count);
            let (x, weight, y, d_weight) = (put(dtype, xs), put(dtype, weights), put(dtype, ys), put(state, weights));
            let places = program.buffers.iter().map(|buffer| region.slice(0, buffer.bytes()).unwrap()).collect();
            let memory = Memory::new(&program.buffers, places);
            let shape = shape.clone();
            let forward = Spatial::ConvForward { shape: shape.clone(), batch, x, weight, y };
            let [input, of_weight] = [false, true].map(|accumulate| {
                let shape = shape.clone();
                [
                    Spatial::ConvBackwardInput { shape: shape.clone(), batch, dy: y, weight, dx: x, accumulate },
                    Spatial::ConvBackwardWeight { shape, batch, x, dy: y, d_weight, accumulate },
                ]
            });
            for op in [forward].into_iter().chain(input).chain(of_weight) {
                convolutions.plan(&op, &memory).unwrap();
            }
        }
    }
}
