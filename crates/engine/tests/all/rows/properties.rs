//! What holds for every case.

use engine::internals::{Level, at_level};
use terms::Dtype;

use super::cases::{self, Case};
use super::lab::rounded;
use super::noise;

/// `sum dy y` at `x + step direction` for one input.
fn along(case: &mut Case, input: usize, x: &[f64], direction: &[f64], step: f64) -> f64 {
    let view = case.inputs[input].0;
    case.lab.set(view, x.iter().zip(direction).map(|(x, d)| x + step * d).collect());
    case.run_forward();
    let (y, dy) = (case.lab.get(case.y), case.lab.get(case.dy));
    y.iter().zip(dy).map(|(y, dy)| y * dy).sum()
}

/// The gradient's product with a random direction against a difference of fourth order. With steps h = 1e-3 the
/// formula errs by h^4 = 1e-12 times a fifth derivative, and rounding by 1e-16 / h = 1e-13 times the sum's size.
#[test]
pub(crate) fn gradients_are_differences() {
    for mut case in cases::all(Dtype::F64) {
        let gradients = case.run().split_off(1);
        for (input, gradient) in gradients.into_iter().enumerate() {
            let x = case.lab.get(case.inputs[input].0);
            let direction = noise(100 + input as u64, x.len());
            let h = 1e-3;
            let [a, b, c, d] = [-2.0, -1.0, 1.0, 2.0].map(|k| along(&mut case, input, &x, &direction, k * h));
            let difference = (a - 8.0 * b + 8.0 * c - d) / (12.0 * h);
            let product: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
            let size: f64 = gradient.iter().zip(&direction).map(|(g, d)| (g * d).abs()).sum();
            let tolerance = 1e-9 * (size + 1.0);
            let name = case.name;
            assert!((product - difference).abs() <= tolerance, "{name}, input {input}: {product} {difference}");
            case.lab.set(case.inputs[input].0, x);
        }
    }
}

fn assert_near(case: &Case, at: usize, ours: &[f64], exact: &[f64], tolerance: impl Fn(f64, f64) -> f64) {
    let largest = exact.iter().fold(case.terms, |largest, x| largest.max(x.abs()));
    assert_eq!(ours.len(), exact.len());
    for (place, (a, b)) in ours.iter().zip(exact).enumerate() {
        let bound = tolerance(*b, largest);
        assert!((a - b).abs() <= bound, "{} result {at} [{place}]: {a:e}, {b:e}, bound {bound:e}", case.name);
    }
}

/// With the same inputs, exact in the type, against f64 on the host. Arithmetic is in f32 with unit roundoff u = 2^-24: at most
/// some tens of roundings stand between input and output (64 lanes shorten sums of n to n/64 + 6), so 64 u of the
/// largest result bounds them; one more rounding to the type itself, u_E of the result, 2^-25 for f16's subnormal
/// numbers. Of f64 both sides have that error, and no smallest number is near.
pub(crate) fn agree_with_f64(types: &[Dtype], run: impl Fn(&mut Case) -> Vec<Vec<f64>>) {
    for dtype in types {
        let (unit, state, smallest) = match dtype {
            Dtype::F64 => (0.0, 2.0 * 2f64.powi(-53), f64::MIN_POSITIVE),
            Dtype::F32 => (2f64.powi(-24), 2f64.powi(-24), 2f64.powi(-25)),
            Dtype::Bf16 => (2f64.powi(-8), 2f64.powi(-24), 2f64.powi(-25)),
            _ => (2f64.powi(-11), 2f64.powi(-24), 2f64.powi(-25)),
        };
        for (mut case, mut exact) in cases::all(*dtype).into_iter().zip(cases::all(Dtype::F64)) {
            let mut views: Vec<_> = exact.inputs.iter().map(|(input, _)| *input).collect();
            if exact.backward.is_empty() {
                exact.lab.set(exact.dy, vec![1.0]);
            } else {
                views.push(exact.dy);
            }
            for view in views {
                let values = exact.lab.get(view).into_iter().map(|x| rounded(*dtype, x)).collect();
                exact.lab.set(view, values);
            }
            // ReLU's and others' backward reads what the forward pass left: the exact one's was not rounded, which
            // changes nothing where only a sign is read, and no other reads it.
            let (ours, wanted) = (run(&mut case), exact.run());
            for (at, (ours, wanted)) in ours.iter().zip(&wanted).enumerate() {
                assert_near(&case, at, ours, wanted, |value, largest| {
                    unit * value.abs() * 1.001 + 64.0 * state * largest + smallest
                });
            }
        }
    }
}

#[test]
fn types_agree_with_f64() {
    agree_with_f64(&[Dtype::F32, Dtype::Bf16, Dtype::F16], Case::run);
}

/// Versions differ in fused roundings and in nothing else.
#[test]
fn versions_agree() {
    for (dtype, unit) in [(Dtype::F32, 2f64.powi(-24)), (Dtype::F64, 2f64.powi(-53)), (Dtype::Bf16, 2f64.powi(-8))] {
        let state = if dtype == Dtype::F64 { unit } else { 2f64.powi(-24) };
        for (index, mut portable) in cases::all(dtype).into_iter().enumerate() {
            let wanted = at_level(Level::Portable, || portable.run()).unwrap();
            for level in [Level::Avx512, Level::Avx2] {
                let mut case = cases::all(dtype).swap_remove(index);
                let Some(ours) = at_level(level, || case.run()) else { continue };
                for (at, (ours, wanted)) in ours.iter().zip(&wanted).enumerate() {
                    assert_near(&case, at, ours, wanted, |value, largest| {
                        2.0 * unit * value.abs() + 64.0 * state * largest + f64::MIN_POSITIVE
                    });
                }
            }
        }
    }
}

/// Several threads give the same bits each time, and those of one thread up to the order of sums.
#[test]
fn threads_agree() {
    for (index, mut one) in cases::all(Dtype::F32).into_iter().enumerate() {
        let wanted = one.run();
        let parallel = || {
            let mut case = cases::all(Dtype::F32).swap_remove(index);
            case.lab.threads = 3;
            case.run()
        };
        let (ours, again) = (parallel(), parallel());
        assert_eq!(ours, again, "{}", one.name);
        for (at, (ours, wanted)) in ours.iter().zip(&wanted).enumerate() {
            assert_near(&one, at, ours, wanted, |_, largest| 64.0 * 2f64.powi(-24) * largest);
        }
    }
}
