//! Functions of numbers inside vector loops against f64.

use engine::internals::{Level, at_level, evaluate, normal};

/// Runs in every version that this processor has.
fn everywhere(x: &[f32], check: impl Fn(f32, f32, f32, f32)) {
    for level in [Level::Avx512, Level::Avx2, Level::Portable] {
        let mut y = [vec![0.0; x.len()], vec![0.0; x.len()], vec![0.0; x.len()]];
        let [a, b, c] = &mut y;
        at_level(level, || evaluate(x, a, b, c));
        if at_level(level, || ()).is_some() {
            for (at, x) in x.iter().enumerate() {
                check(*x, y[0][at], y[1][at], y[2][at]);
            }
        }
    }
}

#[test]
fn exp_and_normal_are_as_near_as_said() {
    let x: Vec<f32> = (-120_000..100_000).map(|x| x as f32 * 1e-3 + 1e-5).collect();
    everywhere(&x, |x, exponential, cumulative, density| {
        let exact = f64::from(x).exp();
        let ulp = if exact < f64::from(f32::MIN_POSITIVE) { 2f64.powi(-149) } else { exact * 2f64.powi(-23) };
        if exact < f64::from(f32::MAX) {
            assert!((f64::from(exponential) - exact).abs() <= 2.0 * ulp, "exp({x}) = {exponential:e}, {exact:e}");
        } else {
            assert!(exponential.is_infinite(), "exp({x})");
        }
        let wide = f64::from(x);
        let (p, d) = normal(wide);
        assert!((f64::from(cumulative) - p).abs() <= 2f64.powi(-22), "normal({x}) = {cumulative}, {p}");
        let relative = (4.0 + wide * wide) * 2f64.powi(-23);
        let tiny = 2f64.powi(-147);
        assert!((f64::from(density) - d).abs() <= d * relative + tiny, "density({x}) = {density:e}, {d:e}");
        if x < 0.0 {
            assert!((f64::from(cumulative) - p).abs() <= p * relative + tiny, "normal({x}) = {cumulative:e}, {p:e}");
        }
    });
}

#[test]
fn special_values() {
    everywhere(&[f32::NAN; 17], |_, a, b, c| assert!(a.is_nan() && b.is_nan() && c.is_nan()));
    everywhere(&[f32::INFINITY; 17], |_, a, b, c| assert_eq!((a, b, c), (f32::INFINITY, 1.0, 0.0)));
    everywhere(&[f32::NEG_INFINITY; 17], |_, a, b, c| assert_eq!((a, b, c), (0.0, 0.0, 0.0)));
    everywhere(&[0.0; 17], |_, a, b, _| assert!(a == 1.0 && (b - 0.5).abs() <= 2f32.powi(-24)));
    everywhere(&[-104.0; 17], |_, a, _, _| assert_eq!(a, 0.0));
}
