//! Conversions without branches against those of `half`.

use engine::internals::Number;
use half::{bf16, f16};

#[test]
fn f16_loads_like_half() {
    for bits in 0..=u16::MAX {
        let number = f16::from_bits(bits);
        let (ours, theirs) = (number.load(), number.to_f32());
        assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()), "{bits:#x}");
    }
}

/// Bits near every place where rounding turns, and a walk over all f32.
fn interesting() -> impl Iterator<Item = f32> {
    let near = (0..=u16::MAX).flat_map(|bits| {
        let middle = f16::from_bits(bits).to_f32().to_bits();
        [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff].map(|add| f32::from_bits(middle.wrapping_add(add)))
    });
    near.chain((0..u32::MAX).step_by(9973).map(f32::from_bits))
}

#[test]
fn stores_like_half() {
    for value in interesting() {
        let (ours, theirs) = (f16::store(value), f16::from_f32(value));
        assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()), "{value:e}");
        let (ours, theirs) = (bf16::store(value), bf16::from_f32(value));
        assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()), "{value:e}");
    }
}

#[test]
fn f64_is_rounded_once() {
    // Just above the middle of 1 and the next bf16 or f16: through f32 it would be the middle, and go down to 1.
    let bf16_above = 1.0 + 2f64.powi(-8) + 2f64.powi(-40);
    assert_eq!(bf16::nearest(bf16_above).to_f64(), 1.0 + 2f64.powi(-7));
    assert_eq!(bf16::nearest(-bf16_above).to_f64(), -1.0 - 2f64.powi(-7));
    assert_eq!(bf16::nearest(1.0 + 2f64.powi(-8)).to_f64(), 1.0);
    let f16_below = 1.0 + 3.0 * 2f64.powi(-11) - 2f64.powi(-45);
    assert_eq!(f16::nearest(f16_below).to_f64(), 1.0 + 2f64.powi(-10));
    assert!(f16::nearest(1e300).is_infinite() && bf16::nearest(f64::NAN).is_nan());
    assert_eq!(bf16::nearest(0.0).to_bits(), 0);
    assert_eq!(f16::nearest(1e-300).to_bits(), 0);
}
