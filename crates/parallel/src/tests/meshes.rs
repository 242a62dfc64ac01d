//! Any mesh, any strategy, any schedule: drawn at random, compared with one rank.

use proptest::prelude::*;

use super::equal::gpt2;
use super::scaffold::{difference, on, recipe, train};
use crate::{Recipe, Schedule, check};

const STEPS: usize = 3;

fn meshes() -> impl Strategy<Value = (usize, usize, usize)> {
    let size = prop_oneof![3 => Just(1usize), 4 => Just(2), 1 => Just(4)];
    (size.clone(), size.clone(), size).prop_filter("at most eight ranks", |(d, t, p)| d * t * p <= 8 && d * t * p > 1)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equal_one_rank(
        (data, tensor, pipeline) in meshes(),
        sharded in 0u8..=3,
        schedule in 0usize..3,
        (overlap, sequence_parallel, recompute) in (any::<bool>(), any::<bool>(), any::<bool>()),
        clip in prop_oneof![Just(None), Just(Some(0.3))],
        bucket_bytes in prop_oneof![Just(64usize), Just(4096), Just(1 << 20)],
        seed in 0u64..1000,
    ) {
        let serial = Recipe { clip, seed, ..recipe(gpt2(), 2, 4) };
        let interleaved = schedule == 2 && pipeline == 2 && 4 / data % pipeline == 0;
        let schedule = match schedule {
            0 => Schedule::GPipe,
            2 if interleaved => Schedule::Interleaved,
            _ => Schedule::OneForwardOneBackward,
        };
        let chunks = if interleaved { 2 } else { 1 };
        let cut = Recipe { schedule, chunks, sharded, overlap, sequence_parallel, recompute, bucket_bytes,
            ..on(&serial, data, tensor, pipeline) };
        prop_assert!(check(&cut).is_ok());
        let apart = difference(&train(&serial, STEPS), &train(&cut, STEPS));
        prop_assert!(apart <= 1e-9, "{:e} apart", apart);
    }
}
