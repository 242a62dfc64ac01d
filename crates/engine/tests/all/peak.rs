//! The peak of a core.

use engine::Matmul;
use engine::cores::peak::{measure, portable};
use terms::Dtype;

#[test]
fn a_loop_multiplies_and_adds() {
    // 1 x 0.9999 + 0.0001 stays 1 (to rounding), in every chain and lane: two operations each.
    for (precision, most) in [(Dtype::F32, 1e-3), (Dtype::F64, 1e-9)] {
        let chosen = portable(precision);
        let sum = (chosen.run)(100);
        assert!((sum / (chosen.flops / 2.0) - 1.0).abs() < most, "{precision}: {sum}");
    }
}

#[test]
fn peaks_are_those_of_a_processor_of_this_century() {
    for precision in [Dtype::F32, Dtype::F64, Dtype::Bf16, Dtype::F16] {
        for matmul in [Matmul::Auto, Matmul::Fma] {
            let multiplier = engine::multiplier(precision, matmul).unwrap();
            let (peak, name) = measure((precision, multiplier), 1, 0, &[]);
            // A tenth of a flop a cycle at 1 GHz would be 1e8; 1,024 a cycle at 6 GHz are beyond any core.
            assert!((1e8..6.2e12).contains(&peak), "{precision}: {peak} by {name}");
        }
    }
}
