//! What batch norm and pooling on a device refuse, that each barrier is needed, and when kernels are loaded.

use engine::View;
use engine::cuda::{ProductError, SPATIAL, Train};
use engine::op::{Op, Rows, Spatial};
use model::{Conv2d, Pool};
use terms::Dtype;

use super::{put_at, whole};
use crate::rows::on_device::{DeviceLab, ORDERS};
use crate::rows::{Lab, noise};

/// More tiles and chunks than blocks, and more columns than blocks add at once, so that blocks use their memory again.
fn many_sums() -> (Lab, [Op; 2]) {
    let (rows, channels) = (256, 8201);
    let mut lab = Lab::new(Dtype::F32);
    let [x, dy] = [1, 2].map(|seed| lab.put(Dtype::F32, noise(seed, rows * channels)));
    let statistics = lab.put(Dtype::F32, noise(3, 2 * channels));
    let partial = lab.put(Dtype::F64, vec![0.0; 2 * channels]);
    let backward = Spatial::BatchNormBackwardSum { x, y: None, dy, statistics, partial, channels };
    (lab, [Spatial::BatchNormSum { x, partial, channels }.into(), backward.into()])
}

#[test]
fn without_any_one_barrier_some_order_gives_other_bytes() {
    let Some(device) = DeviceLab::open("without_any_one_barrier_some_order_gives_other_bytes") else { return };
    let text = include_str!("../../../../kernels/spatial.cu");
    let barriers: Vec<i32> =
        (1..).zip(text.lines()).filter(|(_, line)| line.contains("__syncthreads()")).map(|(line, _)| line).collect();
    assert_eq!(barriers.len(), 4, "new barriers need operations here that run them");
    let (lab, operations) = many_sums();
    for op in operations {
        let right = device.bytes_after(&op, &lab, 0, 0);
        for barrier in &barriers {
            let is_found = (0..ORDERS).any(|order| device.bytes_after(&op, &lab, order, *barrier) != right);
            assert!(is_found, "{op:?} gives the same bytes without the barrier in line {barrier}");
        }
    }
}

fn said(device: &DeviceLab, lab: &Lab, op: &Op) -> ProductError {
    let loaded = device.load(lab, Train::scratch_bytes(op, lab.element.bytes() as usize));
    device.train.run(op, &loaded.context()).unwrap_err()
}

#[test]
fn batch_norms_that_do_not_fit_are_refused() {
    let Some(device) = DeviceLab::open("batch_norms_that_do_not_fit_are_refused") else { return };
    let mut lab = Lab::new(Dtype::F32);
    let [x, y, dy] = [1, 2, 3].map(|seed| lab.put(Dtype::F32, noise(seed, 12)));
    let partial = lab.put(Dtype::F64, vec![0.0; 8]);
    let statistics = lab.put(Dtype::F32, vec![0.0; 8]);
    let number = lab.put(Dtype::I32, vec![0.0; 12]);
    let half = lab.put(Dtype::Bf16, vec![0.0; 8]);
    let refuse = |op: Spatial| said(&device, &lab, &op.into()).to_string();
    let sum = |x, partial, channels| refuse(Spatial::BatchNormSum { x, partial, channels });
    assert_eq!(sum(x, partial, 5), "an operation was refused: 12 elements are not rows of 5");
    assert!(sum(x, partial, 0).ends_with("12 elements are not rows of 0"));
    assert!(sum(x, partial, 3).ends_with("the sums has 8 elements of f64, and needs 6 of f64"));
    assert!(sum(number, partial, 4).ends_with("no kernel computes with i32"));
    let backward_sum =
        |y, dy, statistics| refuse(Spatial::BatchNormBackwardSum { x, y, dy, statistics, partial, channels: 4 });
    assert!(backward_sum(None, dy.part(0, 8), statistics).ends_with("dy has 8 elements of f32, and needs 12 of f32"));
    assert!(backward_sum(Some(y.part(0, 8)), dy, statistics).contains("y has 8 elements of f32, and needs 12"));
    assert!(backward_sum(None, dy, half).ends_with("statistics has 8 elements of bf16, and needs 8 of f32"));
    let forward = |gain: View, residual| {
        refuse(Spatial::BatchNormForward {
            x,
            partial,
            count: 3,
            gain,
            bias: gain,
            residual,
            y,
            statistics,
            channels: 4,
            epsilon: 1e-5,
            relu: true,
        })
    };
    assert!(forward(y.part(0, 3), None).ends_with("the gain has 3 elements of f32, and needs 4 of f32"));
    assert!(forward(y.part(0, 4), Some(half)).ends_with("the residual has 8 elements of bf16, and needs 12 of f32"));
    let gain = y.part(0, 4);
    let backward = Spatial::BatchNormBackward { x, dy, statistics, gain, partial, count: 3, dx: half, channels: 4 };
    assert!(refuse(backward).ends_with("dx has 8 elements of bf16, and needs 12 of f32"));
    let parameters =
        |d_gain, d_bias| refuse(Spatial::BatchNormParameters { partial, d_gain, d_bias, accumulate: true });
    assert!(parameters(y.part(0, 4), y.part(4, 3)).ends_with("d_bias has 3 elements of f32, and needs 4 of f32"));
    assert!(parameters(half.part(0, 4), half.part(4, 4)).ends_with("no kernel has statistics of bf16"));
    let sum = Op::from(Spatial::BatchNormSum { x, partial, channels: 4 });
    assert_eq!(Train::scratch_bytes(&sum, 4), 2 * 4 * 8);
    let error = device.train.run(&sum, &device.load(&lab, 63).context()).unwrap_err();
    assert!(error.to_string().ends_with("scratch memory has 63 bytes, and needs 64"), "{error}");
}

fn square(channels: usize, size: usize, kernel: usize, stride: usize, padding: usize) -> Pool {
    Pool { channels, kernel, stride, padding, height: size, width: size }
}

#[test]
fn poolings_that_do_not_fit_are_refused() {
    let Some(device) = DeviceLab::open("poolings_that_do_not_fit_are_refused") else { return };
    let mut lab = Lab::new(Dtype::F32);
    let x = lab.put(Dtype::F32, noise(1, 16));
    let y = lab.put(Dtype::F32, noise(1, 4));
    let half = lab.put(Dtype::F16, vec![0.0; 4]);
    let refuse = |shape, batch, x, y| {
        let error = said(&device, &lab, &Spatial::AveragePoolForward { shape, batch, x, y }.into());
        (error.is_lacking(), error.to_string())
    };
    let of = |shape, batch| refuse(shape, batch, x, y).1;
    assert!(of(square(1, 4, 2, 2, 0), 2).ends_with("y has 4 elements of f32, and needs 8 of f32"));
    assert!(of(square(1, 3, 2, 1, 0), 1).ends_with("x has 16 elements of f32, and needs 9 of f32"));
    assert!(refuse(square(1, 4, 2, 2, 0), 1, x, half).1.ends_with("y has 4 elements of f16, and needs 4 of f32"));
    for shape in [square(1, 4, 2, 0, 0), square(0, 4, 2, 2, 0), square(1, 4, 2, 2, 2)] {
        let (is_lacking, said) = refuse(shape, 1, x, y);
        assert!(!is_lacking && said.ends_with("or windows that hold nothing but border"), "{said}");
    }
    assert!(of(square(1, 4, 7, 1, 1), 1).ends_with("has windows that are larger than its images"));
    assert!(of(square(2, 1 << 15, 2, 2, 0), 1).ends_with("has images of more than 2147483647 elements"));
    assert!(of(square(1, 1, 1 << 16, 1, (1 << 16) - 1), 1).ends_with("has images of more than 2147483647 elements"));
    assert!(of(square(1, 1, usize::MAX, 1, 0), 1).ends_with("of more than 2147483647 rows and columns"));
    let convolution = Spatial::ConvForward {
        shape: Conv2d { inputs: 1, outputs: 1, kernel: 1, stride: 1, padding: 0, height: 4, width: 4 },
        batch: 1,
        x,
        weight: y,
        y: x,
    };
    let error = said(&device, &lab, &convolution.into());
    assert!(matches!(error, ProductError::Unsupported(_)) && error.is_lacking(), "{error}");
}

/// To load kernels takes memory, which a capture refuses: they are there before, and only for programs that have such operations.
#[test]
fn kernels_are_loaded_for_programs_that_need_them() {
    let Some(device) = DeviceLab::open("kernels_are_loaded_for_programs_that_need_them") else { return };
    let mut lab = Lab::new(Dtype::F16);
    let x = put_at(&mut lab, Dtype::F16, 0, whole(1, 16));
    let y = lab.put(Dtype::F16, vec![f64::NAN; 4]);
    let pool = Op::from(Spatial::AveragePoolForward { shape: square(1, 4, 2, 2, 0), batch: 1, x, y });
    let shape = Conv2d { inputs: 1, outputs: 1, kernel: 1, stride: 1, padding: 0, height: 4, width: 4 };
    let convolution = Spatial::ConvForward { shape, batch: 1, x, weight: y.part(0, 1), y: x };
    let loaded = device.load(&lab, 0);
    let train = Train::load(&device.gpu).unwrap();
    for other in [Rows::ReluForward { x, y: x }.into(), Op::from(convolution)] {
        train.prepare(&other, &loaded.context()).unwrap();
    }
    let capture = || {
        device.gpu.begin_capture(None).unwrap();
        let ran = train.run(&pool, &loaded.context());
        (ran, device.gpu.end_capture(None))
    };
    let (ran, graph) = capture();
    assert!(ran.unwrap_err().to_string().contains("STREAM_CAPTURE") && graph.is_err());
    train.prepare(&pool, &loaded.context()).unwrap();
    let (ran, graph) = capture();
    ran.unwrap();
    graph.unwrap().launch(None).unwrap();
    DeviceLab::keep(&device.bytes_in(&loaded, 0), &mut lab);
    let values = whole(1, 16);
    let mean = |at: usize| [0, 1, 4, 5].map(|by| values[at + by]).iter().sum::<f64>() / 4.0;
    assert_eq!(lab.get(y), [0, 2, 8, 10].map(mean));
}

#[test]
fn the_text_runs_on_old_drivers_and_sums_have_an_order() {
    assert!(SPATIAL.contains(".version 7.8\n") && SPATIAL.contains(".target sm_70\n"));
    assert!(!SPATIAL.contains("\tatom.") && !SPATIAL.contains("\tred."));
    // Of 16-bit types a thread takes four channels by one instruction.
    assert!(SPATIAL.contains("ld.global.v4.u16") && SPATIAL.contains("st.global.v4.u16"));
}
