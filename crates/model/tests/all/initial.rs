//! Initial values: the same numbers however they are cut, and as normal as they should be.

use model::{Init, Parameter, Shard, initial_f64};
use proptest::prelude::*;

fn parameter(name: &str, init: Init) -> Parameter {
    Parameter { name: name.to_owned(), shape: vec![1 << 40], init, shard: Shard::Whole }
}

fn numbers(name: &str, seed: u64, first: usize, len: usize) -> Vec<f64> {
    let mut out = vec![f64::NAN; len];
    initial_f64(&parameter(name, Init::Normal(1.0)), seed, first, &mut out);
    out
}

#[test]
fn numbers_are_those_of_the_documented_formula() {
    // Made by python/rankmark_worker/initial.py, which follows the formula and not this code.
    for (name, seed, index, bits) in DOCUMENTED {
        assert_eq!(numbers(name, seed, index, 1)[0].to_bits(), bits, "{name} {seed} {index}");
    }
}

/// Name, seed, index, and the bits of the number. Two of them lie in the tail, one far out.
const DOCUMENTED: [(&str, u64, usize, u64); 6] = [
    ("h.0.attn.qkv.weight", 1, 0, 0x4005_58a5_d2ab_6ddf),
    ("h.0.attn.qkv.weight", 1, 200, 0xbfe6_9c1c_06ea_8d14),
    ("h.7.mlp.fc.weight", 1, 247, 0xc000_3795_41eb_e93c),
    ("h.7.mlp.fc.weight", 1, 1_442_561, 0xc013_e5c2_2717_5034),
    ("embedding.lookup.tokens", u64::MAX, 1_099_511_627_779, 0x3fb3_ef63_f4fd_b94d),
    ("stem.conv1.weight", 0, 12_345, 0x3ffd_77a9_4b2e_7103),
];

proptest! {
    #[test]
    fn any_cut_gives_the_same_numbers(seed: u64, first in 0usize..1 << 40, len in 1usize..700, cut in 0usize..700) {
        let whole = numbers("h.0.attn.qkv.weight", seed, first, len);
        let cut = cut.min(len);
        let mut parts = numbers("h.0.attn.qkv.weight", seed, first, cut);
        parts.extend(numbers("h.0.attn.qkv.weight", seed, first + cut, len - cut));
        prop_assert_eq!(&whole, &parts);
    }
}

#[test]
fn deviations_and_constants() {
    let mut scaled = [0.0; 300];
    initial_f64(&parameter("w", Init::Normal(0.02)), 7, 5, &mut scaled);
    let plain = numbers("w", 7, 5, 300);
    assert!(scaled.iter().zip(&plain).all(|(scaled, plain)| *scaled == 0.02 * plain));
    let mut ones = [0.0; 5];
    initial_f64(&parameter("w", Init::Constant(1.0)), 7, 5, &mut ones);
    assert_eq!(ones, [1.0; 5]);
}

/// Mean of `f` over the numbers, and how many standard errors it lies from `expected`, where f has this deviation.
fn surprise(numbers: &[f64], expected: f64, deviation: f64, f: impl Fn(f64) -> f64) -> f64 {
    let count = numbers.len() as f64;
    let mean = numbers.iter().map(|number| f(*number)).sum::<f64>() / count;
    (mean - expected) / (deviation / count.sqrt())
}

#[test]
fn they_are_normal() {
    let numbers = numbers("h.7.mlp.fc.weight", 1, 0, 1_000_000);
    // Moments of a normal distribution: E x^2 = 1 (variance 2), E x^3 = 0 (15), E x^4 = 3 (96). Five standard errors.
    let moments = [(1, 0.0, 1f64), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)];
    for (power, expected, variance) in moments {
        let far = surprise(&numbers, expected, variance.sqrt(), |x| x.powi(power));
        assert!(far.abs() < 5.0, "moment {power} is {far} standard errors away");
    }
    // Shares beyond 1, 2, 3, 4 deviations, both sides: the central formula, the seam, the tail.
    for (beyond, share) in
        [(1.0, 0.317_310_5), (1.44, 0.149_867), (2.0, 0.045_500_3), (3.0, 0.002_699_8), (4.0, 6.334e-5)]
    {
        let deviation = f64::sqrt(share * (1.0 - share));
        let far = surprise(&numbers, share, deviation, |x: f64| f64::from(u8::from(x.abs() > beyond)));
        assert!(far.abs() < 5.0, "{beyond}: {far} standard errors away");
    }
}

#[test]
fn neighbours_names_and_seeds_are_unrelated() {
    let one = numbers("h.0.mlp.fc.weight", 1, 0, 200_000);
    let others = [
        ("neighbours", numbers("h.0.mlp.fc.weight", 1, 1, 200_000)),
        ("a row on", numbers("h.0.mlp.fc.weight", 1, 768, 200_000)),
        ("names", numbers("h.1.mlp.fc.weight", 1, 0, 200_000)),
        ("seeds", numbers("h.0.mlp.fc.weight", 2, 0, 200_000)),
    ];
    for (what, other) in others {
        let products: Vec<f64> = one.iter().zip(&other).map(|(a, b)| a * b).collect();
        let far = surprise(&products, 0.0, 1.0, |x| x);
        assert!(far.abs() < 5.0, "{what}: correlated by {far} standard errors");
    }
}
