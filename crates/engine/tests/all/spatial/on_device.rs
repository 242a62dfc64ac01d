//! Batch norm and pooling on a device of tests/fakes: the host's own tests, run there, and what only a device has. Threads of kernels run
//! in four orders that must give the same bytes.

mod far;
mod limits;

use engine::View;
use engine::op::{Op, Spatial};
use model::Pool;
use terms::Dtype;

use super::batch_norm::{self, Inputs};
use super::lab::{Random, TYPES, assert_within, unit, wide};
use super::pooling;
use crate::rows::Lab;
use crate::rows::on_device::{DeviceLab, each_on_device, with};

each_on_device! {
    batch_norms_are_those_of_naive_loops: batch_norm::every_type_agrees_with_naive_loops_however_rows_are_cut;
    gradients_of_batch_norms_are_differences: batch_norm::gradients_are_those_of_finite_differences;
    narrow_batch_norms_follow_wide_ones: batch_norm::narrow_gradients_follow_wide_ones;
    pooling_is_that_of_naive_loops:
        pooling::the_first_of_the_largest_wins_and_gets_the_gradient, pooling::what_is_not_a_number_is_the_largest,
        pooling::averages_count_no_border;
}

/// One row, one channel, more than a thread or a tile takes, more than one chunk of rows, in two parts.
#[test]
fn batch_norms_of_all_sizes_agree_with_f64_on_the_host() {
    let Some(device) = DeviceLab::open("batch_norms_of_all_sizes_agree_with_f64_on_the_host") else { return };
    let mut random = Random::new(11);
    for dtype in TYPES {
        for (rows, channels) in [(1, 65), (1, 4), (40, 1), (1100, 3), (700, 64), (333, 65), (70, 132)] {
            let inputs = Inputs::random(rows, channels, true, dtype, &mut random);
            let run = |dtype, in_place| batch_norm::run(&inputs, dtype, rows / 3, false, in_place, 1);
            let wanted = run(Dtype::F64, false);
            for in_place in [false, true] {
                let ours = with(&device, || run(dtype, in_place));
                let what = format!("{rows} rows of {channels}, {dtype}, in place {in_place}");
                // As on the host: numbers below 8, sums that are short by 17 roundings of their magnitudes, one more of results.
                let error = 8.0 * 17.0 * 3.0 * unit(wide(dtype));
                let rounded = |value: f64| error + 1.01 * unit(dtype) * value.abs() + 2f64.powi(-25);
                assert_within(&format!("y of {what}"), &ours.y, &wanted.y, |at| rounded(wanted.y[at]));
                assert_within(&format!("dx of {what}"), &ours.dx, &wanted.dx, |at| rounded(wanted.dx[at]));
                let sums = rows as f64 * error;
                assert_within(&format!("d_gain of {what}"), &ours.d_gain, &wanted.d_gain, |_| sums);
                assert_within(&format!("d_bias of {what}"), &ours.d_bias, &wanted.d_bias, |_| sums);
                assert_eq!(ours.masked, inputs.dy, "{what}");
            }
        }
    }
}

/// Whole numbers, which add exactly in any order.
fn whole(seed: usize, count: usize) -> Vec<f64> {
    (0..count).map(|at| ((at * 7 + at / 13 * 5 + seed * 3) % 11) as f64 - 5.0).collect()
}

/// Both sums of each channel: of `one`, and of `one x other`.
fn sums_of(one: &[f64], other: impl Fn(usize) -> f64, channels: usize) -> Vec<f64> {
    let mut sums = vec![0.0; 2 * channels];
    for (at, value) in one.iter().enumerate() {
        sums[at % channels] += value;
        sums[channels + at % channels] += value * other(at);
    }
    sums
}

/// A view that begins so many elements into its buffer, and what lies before it: nobody's.
fn put_at(lab: &mut Lab, dtype: Dtype, before: usize, values: Vec<f64>) -> View {
    let len = values.len();
    lab.put(dtype, [vec![9.0; before], values].concat()).part(before, len)
}

/// Sums of exact numbers, with a mask and without one.
fn sums_are_exact(lab: Lab, rows: usize, channels: usize, before: usize, run: impl Fn(&mut Lab, Op)) {
    let (mut lab, dtype, count) = (lab, TYPES, rows * channels);
    let dtype = dtype.into_iter().find(|dtype| *dtype == lab.element).unwrap();
    let what = format!("{rows} rows of {channels}, {dtype}, {before} before");
    let x = put_at(&mut lab, dtype, before, whole(1, count));
    let y = put_at(&mut lab, dtype, before, whole(2, count));
    let dy = put_at(&mut lab, dtype, before, whole(3, count));
    let partial = lab.put(Dtype::F64, vec![f64::NAN; 2 * channels]);
    let state = lab.state();
    let statistics = lab.put(state, [vec![1.0; channels], vec![0.5; channels]].concat());
    run(&mut lab, Spatial::BatchNormSum { x, partial, channels }.into());
    let (of_x, of_y, of_dy) = (whole(1, count), whole(2, count), whole(3, count));
    assert_eq!(lab.get(partial), sums_of(&of_x, |at| of_x[at], channels), "{what}");

    let masked: Vec<f64> = of_dy.iter().zip(&of_y).map(|(dy, y)| if *y > 0.0 { *dy } else { 0.0 }).collect();
    for (y, dy_after) in [(None, &of_dy), (Some(y), &masked)] {
        run(&mut lab, Spatial::BatchNormBackwardSum { x, y, dy, statistics, partial, channels }.into());
        assert_eq!(lab.get(dy), *dy_after, "{what}");
        assert_eq!(lab.get(partial), sums_of(dy_after, |at| 0.5 * (of_x[at] - 1.0), channels), "{what}");
    }
    for view in [x, y, dy] {
        assert!(lab.get(View { offset: 0, len: before, ..view }).iter().all(|value| *value == 9.0), "{what}");
    }
}

/// No row, few rows, rows whose number nothing divides, more rows than chunks; views at which no group of channels may begin.
#[test]
fn sums_have_every_row_once() {
    let Some(device) = DeviceLab::open("sums_have_every_row_once") else { return };
    for dtype in TYPES {
        for (rows, channels) in [(0, 5), (1, 1), (33, 12), (1000, 65), (2100, 64), (1001, 3), (4100, 1), (130, 260)] {
            for before in [0, 1] {
                let on_device = |lab: &mut Lab, op| with(&device, || lab.run(op));
                sums_are_exact(Lab::new(dtype), rows, channels, before, on_device);
            }
        }
    }
}

/// A device has at most 2048 blocks at once: the others' work comes after theirs. And a thread carries its sum to f64 after 16 rows.
#[test]
fn more_sums_than_threads_are_all_computed() {
    let Some(device) = DeviceLab::open("more_sums_than_threads_are_all_computed") else { return };
    let in_one_order = |lab: &mut Lab, op: Op| {
        let bytes = device.bytes_after(&op, lab, 0, 0);
        DeviceLab::keep(&bytes, lab);
    };
    sums_are_exact(Lab::new(Dtype::Bf16), 256, 8201, 0, in_one_order);
    sums_are_exact(Lab::new(Dtype::F32), 2, 32_804, 0, in_one_order);
    sums_are_exact(Lab::new(Dtype::F16), 80_001, 17, 0, in_one_order);
}

/// Threads that take one group of channels each, fewer of them than groups, and more.
#[test]
fn passes_over_rows_reach_every_row() {
    let Some(device) = DeviceLab::open("passes_over_rows_reach_every_row") else { return };
    for dtype in TYPES {
        let shapes = [(1, 3000), (2, 1028), (300, 12), (77, 65), (1, 1)];
        for ((rows, channels), before) in shapes.into_iter().flat_map(|shape| [(shape, 0), (shape, 1)]) {
            let (mut lab, count) = (Lab::new(dtype), rows * channels);
            let state = lab.state();
            // Mean 2, and variance 1 with epsilon.
            let sums = [vec![2.0 * rows as f64; channels], vec![4.5 * rows as f64; channels]].concat();
            let partial = lab.put(Dtype::F64, sums);
            let x = put_at(&mut lab, dtype, before, whole(1, count));
            let residual = put_at(&mut lab, dtype, before, whole(2, count));
            let [y, dx] = [0, 1].map(|_| put_at(&mut lab, dtype, before, vec![f64::NAN; count]));
            let [gain, bias] = [3, 4].map(|seed| put_at(&mut lab, dtype, before, whole(seed, channels)));
            let statistics = put_at(&mut lab, state, before, vec![f64::NAN; 2 * channels]);
            let op = Spatial::BatchNormForward {
                x,
                partial,
                count: rows,
                gain,
                bias,
                residual: Some(residual),
                y,
                statistics,
                channels,
                epsilon: 0.5,
                relu: true,
            };
            with(&device, || lab.run(op));
            let what = format!("{rows} rows of {channels}, {dtype}, {before} before");
            assert_eq!(lab.get(statistics), [vec![2.0; channels], vec![1.0; channels]].concat(), "{what}");
            let (of_x, of_residual, of_gain, of_bias) =
                (whole(1, count), whole(2, count), whole(3, channels), whole(4, channels));
            let value =
                |at: usize| (of_x[at] - 2.0) * of_gain[at % channels] + of_bias[at % channels] + of_residual[at];
            let wanted: Vec<f64> = (0..count).map(|at| value(at).max(0.0)).collect();
            assert_eq!(lab.get(y), wanted, "{what}");

            let dy = residual;
            let op = Spatial::BatchNormBackward { x, dy, statistics, gain, partial, count: rows, dx, channels };
            // Means of 2 and 1: small whole numbers, exact in every type.
            let exact = [vec![2.0 * rows as f64; channels], vec![1.0 * rows as f64; channels]].concat();
            lab.set(partial, exact);
            with(&device, || lab.run(op));
            let value = |at: usize| (of_residual[at] - 2.0 - (of_x[at] - 2.0)) * of_gain[at % channels];
            assert_eq!(lab.get(dx), (0..count).map(value).collect::<Vec<_>>(), "{what}");
        }
    }
}

/// A channel that has a NaN is none forward, and one that has infinity is NaN there; the mask stops them backward, and other channels see
/// nothing of them.
#[test]
fn what_is_not_a_number_stays_in_its_channel() {
    let Some(device) = DeviceLab::open("what_is_not_a_number_stays_in_its_channel") else { return };
    let (rows, channels, count) = (50, 8, 400);
    for dtype in TYPES {
        let run = || {
            let mut lab = Lab::new(dtype);
            let state = lab.state();
            let mut values = whole(1, count);
            (values[8 * 20 + 3], values[8 * 7 + 5]) = (f64::NAN, f64::INFINITY);
            let x = lab.put(dtype, values);
            let mut gradients = whole(2, count);
            (gradients[8 * 30 + 1], gradients[8 * 30 + 3]) = (f64::NAN, f64::NAN);
            let dy = lab.put(dtype, gradients);
            let [gain, bias] = [1.0, 100.0].map(|value| lab.put(dtype, vec![value; channels]));
            let y = lab.put(dtype, vec![0.0; count]);
            let [partial, sums] = [0, 1].map(|_| lab.put(Dtype::F64, vec![0.0; 2 * channels]));
            let statistics = lab.put(state, vec![0.0; 2 * channels]);
            let (epsilon, relu, residual) = (0.5, true, None);
            lab.run(Spatial::BatchNormSum { x, partial, channels });
            lab.run(Spatial::BatchNormForward {
                x,
                partial,
                count: rows,
                gain,
                bias,
                residual,
                y,
                statistics,
                channels,
                epsilon,
                relu,
            });
            lab.run(Spatial::BatchNormBackwardSum { x, y: Some(y), dy, statistics, partial: sums, channels });
            [y, statistics, dy, sums].map(|view| lab.get(view).into_iter().map(f64::is_nan).collect::<Vec<_>>())
        };
        let (ours, host) = (with(&device, run), run());
        assert_eq!(ours, host, "{dtype}");
        let [y, statistics, dy, sums] = ours;
        assert!(y.iter().enumerate().all(|(at, is_nan)| *is_nan == (at % 8 == 3 || at == 8 * 7 + 5)), "{dtype}");
        assert!(statistics[3] && !statistics[4], "{dtype}");
        // Where y is not a number dy is zero; elsewhere a gradient that is not one stays.
        let found: Vec<usize> = (0..count).filter(|at| dy[*at]).collect();
        assert_eq!(found, [8 * 30 + 1], "{dtype}");
        assert!(sums[1] && !sums[2], "{dtype}");
    }
}

/// Many images and large ones, several blocks an image, groups of channels or single ones, and views where no group may begin.
#[test]
fn pooling_reaches_every_image_and_pixel() {
    let Some(device) = DeviceLab::open("pooling_reaches_every_image_and_pixel") else { return };
    let of = |channels, size, kernel, stride, padding| Pool {
        channels,
        kernel,
        stride,
        padding,
        height: size,
        width: size + 1,
    };
    let shapes = [(2100, of(1, 2, 2, 1, 0)), (2, of(4, 19, 3, 2, 1)), (1, of(65, 7, 7, 7, 0)), (3, of(12, 9, 5, 1, 2))];
    for (dtype, (batch, shape)) in TYPES.into_iter().flat_map(|dtype| shapes.clone().map(|shape| (dtype, shape))) {
        for before in [0, 1] {
            let run = || {
                let mut lab = Lab::new(dtype);
                let (height, width) = shape.output();
                let inputs = batch * shape.height * shape.width * shape.channels;
                let outputs = batch * height * width * shape.channels;
                let x = put_at(&mut lab, dtype, before, whole(1, inputs));
                let dy = put_at(&mut lab, dtype, before, whole(2, outputs));
                let index = put_at(&mut lab, Dtype::I32, before, vec![-7.0; outputs]);
                let y = [0, 1].map(|_| put_at(&mut lab, dtype, before, vec![f64::NAN; outputs]));
                let dx = [0, 1].map(|_| put_at(&mut lab, dtype, before, vec![f64::NAN; inputs]));
                let shape = || shape.clone();
                lab.run(Spatial::MaxPoolForward { shape: shape(), batch, x, y: y[0], index });
                lab.run(Spatial::MaxPoolBackward { shape: shape(), batch, dy, index, dx: dx[0] });
                lab.run(Spatial::AveragePoolForward { shape: shape(), batch, x, y: y[1] });
                lab.run(Spatial::AveragePoolBackward { shape: shape(), batch, dy, dx: dx[1] });
                [y[0], index, dx[0], y[1], dx[1]].map(|view| lab.get(view))
            };
            let (ours, host) = (with(&device, run), run());
            let what = format!("{batch} of {shape:?}, {dtype}, {before} before");
            assert!(ours[..3] == host[..3], "{what}");
            // At most 49 terms of at most 5, added exactly or with a fused rounding less than the host's.
            for (ours, host) in ours[3..].iter().zip(&host[3..]) {
                let near = |at: usize| 50.0 * 5.0 * unit(wide(dtype)) + 2.0 * unit(dtype) * f64::abs(host[at]);
                assert_within(&what, ours, host, near);
            }
        }
    }
}
