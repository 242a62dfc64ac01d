//! The normal and Student's t distributions: only what intervals and tests need.

/// P(Z <= z) of a standard normal Z, absolute error below 1e-7: the complementary error function by the Chebyshev fit of
/// Press et al., Numerical Recipes, section 6.2 (`erfcc`). Enough for p-values; quantiles do not use it.
pub(crate) fn normal_cdf(z: f64) -> f64 {
    let x = (z / std::f64::consts::SQRT_2).abs();
    let t = 1.0 / (1.0 + 0.5 * x);
    const FIT: [f64; 10] = [
        -1.26551223,
        1.00002368,
        0.37409196,
        0.09678418,
        -0.18628806,
        0.27886807,
        -1.13520398,
        1.48851587,
        -0.82215223,
        0.17087277,
    ];
    let polynomial = FIT.iter().rev().fold(0.0, |sum, c| sum * t + c);
    let tail = 0.5 * t * (-x * x + polynomial).exp();
    if z >= 0.0 { 1.0 - tail } else { tail }
}

/// The `p` quantile of the standard normal distribution, relative error below 1.2e-9: P. J. Acklam's rational
/// approximation (2003).
pub(crate) fn normal_quantile(p: f64) -> f64 {
    debug_assert!(p > 0.0 && p < 1.0, "a normal quantile needs 0 < p < 1");
    const A: [f64; 6] = [
        -3.969683028665376e+01,
        2.209460984245205e+02,
        -2.759285104469687e+02,
        1.38357751867269e+02,
        -3.066479806614716e+01,
        2.506628277459239e+00,
    ];
    const B: [f64; 6] = [
        -5.447609879822406e+01,
        1.615858368580409e+02,
        -1.556989798598866e+02,
        6.680131188771972e+01,
        -1.328068155288572e+01,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-03,
        -3.223964580411365e-01,
        -2.400758277161838e+00,
        -2.549732539343734e+00,
        4.374664141464968e+00,
        2.938163982698783e+00,
    ];
    const D: [f64; 5] =
        [7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00, 1.0];
    let horner = |c: &[f64], x: f64| c.iter().fold(0.0, |sum, c| sum * x + c);
    let tail = p.min(1.0 - p);
    if tail >= 0.02425 {
        let q = p - 0.5;
        let r = q * q;
        return q * horner(&A, r) / horner(&B, r);
    }
    let q = (-2.0 * tail.ln()).sqrt();
    let x = horner(&C, q) / horner(&D, q);
    if p < 0.5 { x } else { -x }
}

/// The `p` quantile (`p` in 0.5 to 1) of Student's t distribution with `degrees` >= 1 degrees of freedom, which need not
/// be whole. Hill's asymptotic expansion (Algorithm 396, Communications of the ACM 13, 1970), with the exact forms at
/// 1 and 2 degrees.
pub(crate) fn student_quantile(p: f64, degrees: f64) -> f64 {
    debug_assert!((0.5..1.0).contains(&p) && degrees >= 1.0);
    let both = 2.0 * (1.0 - p);
    let n = degrees;
    if n > 1e6 {
        return normal_quantile(p);
    }
    if (n - 2.0).abs() < 1e-9 {
        return (2.0 / (both * (2.0 - both)) - 2.0).sqrt();
    }
    if n < 1.0 + 1e-9 {
        return 1.0 / (both * std::f64::consts::FRAC_PI_2).tan();
    }
    let a = 1.0 / (n - 0.5);
    let b = (48.0 / a) / a;
    let mut c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36;
    let d = ((94.5 / (b + c) - 3.0) / b + 1.0) * (a * std::f64::consts::FRAC_PI_2).sqrt() * n;
    let mut y = (d * both).powf(2.0 / n);
    if y > 0.05 + a {
        let x = normal_quantile(both * 0.5);
        y = x * x;
        if n < 5.0 {
            c += 0.3 * (n - 4.5) * (x + 0.6);
        }
        c += (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b;
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x;
        y = (a * y * y).exp_m1();
    } else {
        let tail = ((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0;
        y = ((1.0 / tail + 0.5 / (n + 4.0)) * y - 1.0) * (n + 1.0) / (n + 2.0) + 1.0 / y;
    }
    (n * y).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64, relative: f64) {
        assert!((got - want).abs() <= relative * want.abs().max(1e-12), "{got} is not {want}");
    }

    #[test]
    fn quantiles_match_the_tables() {
        close(normal_quantile(0.975), 1.959963984540054, 1e-8);
        close(normal_quantile(0.001), -3.090232306167813, 1e-8);
        close(normal_cdf(1.959963984540054), 0.975, 1e-6);
        close(normal_cdf(-3.090232306167813), 0.001, 1e-4);
        for (degrees, want) in
            [(1.0, 12.7062), (2.0, 4.30265), (3.0, 3.18245), (4.0, 2.77645), (9.0, 2.26216), (30.0, 2.04227)]
        {
            close(student_quantile(0.975, degrees), want, 1e-4);
        }
        close(student_quantile(0.9995, 5.0), 6.86883, 1e-4);
    }
}
