//! Pooling against naive loops, ties and borders included.

use engine::op::Spatial;
use model::Pool;
use terms::Dtype;

use super::lab::{Lab, Random, TYPES, assert_within, dot, unit, wide};

fn shape(random: &mut Random) -> Pool {
    loop {
        let kernel = random.one_of(&[1, 2, 3, 5, 7]);
        let shape = Pool {
            channels: random.one_of(&[1, 5, 16, 35]),
            kernel,
            stride: random.one_of(&[1, 2, 3]),
            padding: random.one_of(&[0, 1, 2]).min(kernel / 2),
            height: random.one_of(&[1, 3, 7, 10]),
            width: random.one_of(&[2, 5, 7, 12]),
        };
        if shape.height.min(shape.width) + 2 * shape.padding >= shape.kernel {
            return shape;
        }
    }
}

/// For each output: the elements of x in its window, in order, and each one's pixel in its image.
fn windows(shape: &Pool, batch: usize) -> Vec<Vec<(usize, usize)>> {
    let (height, width) = shape.output();
    let mut all = Vec::new();
    for image in 0..batch {
        for (oy, ox) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            for channel in 0..shape.channels {
                let mut window = Vec::new();
                for (ky, kx) in (0..shape.kernel).flat_map(|y| (0..shape.kernel).map(move |x| (y, x))) {
                    let iy = (oy * shape.stride + ky).wrapping_sub(shape.padding);
                    let ix = (ox * shape.stride + kx).wrapping_sub(shape.padding);
                    if iy < shape.height && ix < shape.width {
                        let pixel = iy * shape.width + ix;
                        window.push(((image * shape.height * shape.width + pixel) * shape.channels + channel, pixel));
                    }
                }
                all.push(window);
            }
        }
    }
    all
}

#[test]
pub(super) fn the_first_of_the_largest_wins_and_gets_the_gradient() {
    let mut random = Random::new(6);
    for round in 0..48 {
        let (shape, batch, dtype) = (shape(&mut random), random.one_of(&[1, 3]), TYPES[round % 4]);
        let windows = windows(&shape, batch);
        let inputs = batch * shape.height * shape.width * shape.channels;
        // Few values, so that there are ties; all below zero, so that a border of zeros would win.
        let x: Vec<f64> = (0..inputs).map(|_| random.one_of(&[-4.0, -3.0, -2.0, -1.0])).collect();
        let dy: Vec<f64> = (0..windows.len()).map(|_| random.one_of(&[-2.0, 1.0, 3.0])).collect();
        let (mut y, mut index, mut dx) = (Vec::new(), Vec::new(), vec![0.0; inputs]);
        for (window, dy) in windows.iter().zip(&dy) {
            let best = window.iter().rev().max_by(|a, b| x[a.0].total_cmp(&x[b.0])).unwrap();
            y.push(x[best.0]);
            index.push(best.1 as f64);
            dx[best.0] += dy;
        }
        let mut lab = Lab::default();
        let (x, dy) = (lab.buffer(dtype, &x), lab.buffer(dtype, &dy));
        let views = [lab.output(dtype, y.len()), lab.output(Dtype::I32, y.len()), lab.output(dtype, inputs)];
        let operations = [
            Spatial::MaxPoolForward { shape: shape.clone(), batch, x, y: views[0], index: views[1] },
            Spatial::MaxPoolBackward { shape: shape.clone(), batch, dy, index: views[1], dx: views[2] },
        ];
        let done = lab.run(&operations, random.one_of(&[1, 2]));
        // Small integers: exact in every type.
        for (view, expected) in views.into_iter().zip([y, index, dx]) {
            assert_eq!(done.get(view), expected, "{shape:?} {dtype}");
        }
    }
}

#[test]
pub(super) fn what_is_not_a_number_is_the_largest() {
    let shape = Pool { channels: 1, kernel: 3, stride: 1, padding: 0, height: 3, width: 3 };
    let mut lab = Lab::default();
    let x = lab.buffer(Dtype::F32, &[1.0, 9.0, 2.0, f64::NAN, 3.0, 99.0, 4.0, 5.0, 6.0]);
    let (y, index) = (lab.output(Dtype::F32, 1), lab.output(Dtype::I32, 1));
    let done = lab.run(&[Spatial::MaxPoolForward { shape, batch: 1, x, y, index }], 1);
    assert!(done.get(y)[0].is_nan() && done.get(index) == [3.0]);
}

#[test]
pub(super) fn averages_count_no_border() {
    let mut random = Random::new(7);
    for round in 0..48 {
        let (shape, batch, dtype) = (shape(&mut random), random.one_of(&[1, 3]), TYPES[round % 4]);
        let windows = windows(&shape, batch);
        let inputs = batch * shape.height * shape.width * shape.channels;
        let (x, dy) = (random.numbers(dtype, inputs), random.numbers(dtype, windows.len()));
        let mut dx = vec![0.0; inputs];
        let mut y = Vec::new();
        for (window, dy) in windows.iter().zip(&dy) {
            y.push(window.iter().map(|(at, _)| x[*at]).sum::<f64>() / window.len() as f64);
            window.iter().for_each(|(at, _)| dx[*at] += dy / window.len() as f64);
        }
        let mut lab = Lab::default();
        let (x_view, dy_view) = (lab.buffer(dtype, &x), lab.buffer(dtype, &dy));
        let (y_view, dx_view) = (lab.output(dtype, y.len()), lab.output(dtype, inputs));
        let operations = [
            Spatial::AveragePoolForward { shape: shape.clone(), batch, x: x_view, y: y_view },
            Spatial::AveragePoolBackward { shape: shape.clone(), batch, dy: dy_view, dx: dx_view },
        ];
        let done = lab.run(&operations, random.one_of(&[1, 2]));
        // At most k^2 terms below one are added in the wider type, divided, and rounded once more when stored.
        let terms = (shape.kernel * shape.kernel) as f64;
        let bound = (terms + 2.0) * terms * unit(wide(dtype)) + 1.01 * unit(dtype) * terms;
        assert_within(&format!("y of {shape:?} {dtype}"), &done.get(y_view), &y, |_| bound.min(0.1));
        assert_within(&format!("dx of {shape:?} {dtype}"), &done.get(dx_view), &dx, |_| bound.min(0.1));
        // Both are one linear map and its transpose.
        if dtype == Dtype::F64 {
            assert!((dot(&done.get(y_view), &dy) - dot(&done.get(dx_view), &x)).abs() < 1e-11, "{shape:?}");
        }
    }
}
