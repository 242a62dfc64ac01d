//! Tests of [`engine::op::Update`] against the formulas, number by number.

use engine::View;
use engine::op::Update;
use terms::Dtype;

use crate::rows::{Lab, noise};

const COUNT: usize = 3001;

/// Masters, gradients and the control numbers of one run.
struct Bench {
    lab: Lab,
    parameters: View,
    gradients: View,
    copy: Option<View>,
    control: View,
}

/// Compute type `element`: masters are f64 for f64, else f32; there is a copy if the types differ.
fn bench(element: Dtype) -> Bench {
    let mut lab = Lab::new(element);
    let state = lab.state();
    let parameters = lab.put(state, noise(1, COUNT));
    let gradients = lab.put(state, vec![0.0; COUNT]);
    let copy = (element != state).then(|| lab.put(element, vec![0.0; COUNT]));
    let control = lab.put(Dtype::F64, vec![1.0, 0.0, 0.0, 0.0]);
    Bench { lab, parameters, gradients, copy, control }
}

/// Relative to the largest: some roundings a step.
fn assert_near(ours: &[f64], wanted: &[f64], element: Dtype) {
    let unit = if element == Dtype::F64 { 2f64.powi(-53) } else { 2f64.powi(-24) };
    for (at, (a, b)) in ours.iter().zip(wanted).enumerate() {
        assert!((a - b).abs() <= 64.0 * unit, "[{at}]: {a:e} {b:e}");
    }
}

/// The copy is the master, rounded.
fn assert_copied(bench: &Bench) {
    if let Some(copy) = bench.copy {
        let masters = bench.lab.get(bench.parameters).into_iter();
        let rounded: Vec<f64> = masters.map(|p| f64::from(half::bf16::from_f64(p))).collect();
        assert_eq!(bench.lab.get(copy), rounded);
    }
}

fn norm(bench: &mut Bench, dynamic: bool) {
    let (x, control) = (bench.gradients, bench.control);
    bench.lab.run(Update::BeginNorm { control });
    bench.lab.run(Update::SumSquares { x, control });
    bench.lab.run(Update::Judge { control, dynamic });
}

#[test]
pub(crate) fn sgd_is_the_formula() {
    for (element, momentum, clip) in [
        (Dtype::F64, 0.9, None),
        (Dtype::F32, 0.9, Some(0.5)),
        (Dtype::Bf16, 0.9, Some(1e9)),
        (Dtype::F64, 0.0, Some(0.5)),
    ] {
        let mut bench = bench(element);
        bench.lab.set(bench.control, vec![4.0, 0.0, 0.0, 0.0]);
        bench.lab.threads = 2;
        let state = bench.lab.state();
        let velocity = (momentum != 0.0).then(|| bench.lab.put(state, vec![0.0; COUNT]));
        let (mut p, mut v) = (bench.lab.get(bench.parameters), vec![0.0; COUNT]);
        for step in 0..4 {
            bench.lab.set(bench.gradients, noise(10 + step, COUNT));
            norm(&mut bench, false);
            let g = bench.lab.get(bench.gradients);
            let Bench { parameters, gradients, copy, control, .. } = bench;
            bench.lab.run(Update::Sgd { parameters, gradients, velocity, copy, control, rate: 0.1, momentum, clip });
            let size = g.iter().map(|g| (g / 4.0) * (g / 4.0)).sum::<f64>().sqrt();
            let factor = clip.map_or(1.0, |clip: f64| (clip / size).min(1.0));
            for at in 0..COUNT {
                v[at] = momentum * v[at] + g[at] / 4.0 * factor;
                p[at] -= 0.1 * v[at];
            }
            assert_near(&bench.lab.get(parameters), &p, element);
            assert_copied(&bench);
        }
    }
}

#[test]
pub(crate) fn adamw_is_the_formula() {
    for (element, clip) in [(Dtype::F64, None), (Dtype::F32, Some(0.5)), (Dtype::Bf16, None)] {
        let mut bench = bench(element);
        bench.lab.threads = 2;
        let state = bench.lab.state();
        let [first, second] = [0, 1].map(|_| bench.lab.put(state, vec![0.0; COUNT]));
        let mut p = bench.lab.get(bench.parameters);
        let (mut m, mut v) = (vec![0.0; COUNT], vec![0.0; COUNT]);
        let (rate, beta1, beta2, epsilon, decay) = (0.01, 0.9, 0.95, 1e-8, 0.1);
        let adamw = |bench: &Bench| Update::AdamW {
            parameters: bench.parameters,
            gradients: bench.gradients,
            first,
            second,
            copy: bench.copy,
            control: bench.control,
            rate,
            beta1,
            beta2,
            epsilon,
            decay,
            clip,
        };
        for step in 1..=4 {
            bench.lab.step.number = step;
            bench.lab.set(bench.gradients, noise(20 + step, COUNT));
            norm(&mut bench, false);
            let g = bench.lab.get(bench.gradients);
            bench.lab.run(adamw(&bench));
            let size = g.iter().map(|g| g * g).sum::<f64>().sqrt();
            let factor = clip.map_or(1.0, |clip: f64| (clip / size).min(1.0));
            for at in 0..COUNT {
                let g = g[at] * factor;
                p[at] -= rate * decay * p[at];
                m[at] = beta1 * m[at] + (1.0 - beta1) * g;
                v[at] = beta2 * v[at] + (1.0 - beta2) * g * g;
                let (m_hat, v_hat) = (m[at] / (1.0 - beta1.powi(step as i32)), v[at] / (1.0 - beta2.powi(step as i32)));
                p[at] -= rate * m_hat / (v_hat.sqrt() + epsilon);
            }
            assert_near(&bench.lab.get(bench.parameters), &p, element);
            assert_copied(&bench);
        }
    }
}

#[test]
pub(crate) fn the_norm_is_the_same_for_all_threads() {
    let run = |threads: usize| {
        let mut lab = Lab::new(Dtype::F32);
        lab.threads = threads;
        let x = lab.put(Dtype::F32, noise(3, 300_001));
        let control = lab.put(Dtype::F64, vec![1.0, 0.0, 0.5, 0.0]);
        lab.run(Update::SumSquares { x, control });
        let wanted: f64 = 0.5 + lab.get(x).iter().map(|x| x * x).sum::<f64>();
        let sum = lab.get(control)[2];
        // What the loop above may be off by.
        assert!((sum / wanted - 1.0).abs() < 300_001.0 * 2f64.powi(-53), "{sum} {wanted}");
        sum
    };
    assert_eq!(run(1), run(3));
}

#[test]
pub(crate) fn a_gradient_that_is_not_finite_skips_the_step_and_halves_the_scale() {
    let mut bench = bench(Dtype::F32);
    bench.lab.set(bench.control, vec![1024.0, 1998.0, 0.0, 0.0]);
    let Bench { parameters, gradients, control, .. } = bench;
    let step = |bench: &mut Bench, gradient: f64| {
        let mut g = vec![1.0; COUNT];
        g[COUNT / 2] = gradient;
        bench.lab.set(gradients, g);
        norm(bench, true);
        let scale = bench.lab.get(control)[0];
        let (velocity, copy, clip) = (None, None, None);
        let before = bench.lab.get(parameters);
        let sgd = Update::Sgd { parameters, gradients, velocity, copy, control, rate: 0.1, momentum: 0.0, clip };
        bench.lab.run(sgd);
        assert_eq!(bench.lab.get(control)[0], scale, "in effect until the end of the step");
        bench.lab.run(Update::EndStep { control });
        (before != bench.lab.get(parameters), bench.lab.get(control))
    };
    let (updated, control) = step(&mut bench, f64::INFINITY);
    assert!(!updated && control[..2] == [512.0, 0.0] && control[3] == 1.0, "{control:?}");
    let (updated, control) = step(&mut bench, 1.0);
    assert!(updated && control[..2] == [512.0, 1.0] && control[3] == 0.0, "{control:?}");
    let (updated, control) = step(&mut bench, f64::NAN);
    assert!(!updated && control[..2] == [256.0, 0.0], "{control:?}");
    bench.lab.set(bench.control, vec![256.0, 1998.0, 0.0, 0.0]);
    assert_eq!(step(&mut bench, 1.0).1[..2], [256.0, 1999.0]);
    assert_eq!(step(&mut bench, 1.0).1[..2], [512.0, 0.0]);
}

#[test]
pub(crate) fn without_loss_scaling_the_scale_stays() {
    let mut bench = bench(Dtype::F32);
    let control = bench.control;
    for gradient in [f64::NAN, 1.0] {
        bench.lab.set(bench.gradients, vec![gradient; COUNT]);
        bench.lab.set(control, vec![1.0, 5000.0, 0.0, 1.0]);
        norm(&mut bench, false);
        bench.lab.run(Update::EndStep { control });
        let control = bench.lab.get(control);
        assert!(control[0] == 1.0 && control[3] == 0.0, "{control:?}");
    }
}
