//! How products of f32 on AMX are cut.

use engine::internals::Size;
use engine::internals::bf16x6::{BLOCKS, DEPTH, SIDE, STEP_WORDS, TilePlan};

/// Blocks and stages cover a product once, however many threads there are, and scratch holds what they pack.
#[test]
fn plans_cover_the_product() {
    for (m, n, k) in [
        (32, 32, 32),
        (256, 3072, 768),
        (3072, 768, 256),
        (2048, 3000, 5000),
        (33, 300_000, 40),
        (256, 50_257, 768),
        (32, 32_000, 4096),
    ] {
        for threads in [1, 2, 7, 64] {
            let plan = TilePlan::new(Size { m, n, k }, threads);
            let long: usize = (0..plan.blocks).map(|index| plan.block(index).len).sum();
            let cells: usize = (0..plan.stages()).map(|i| plan.stage(i)).map(|s| s.whole.len * s.steps.len).sum();
            assert_eq!((long, cells), (m.max(n), m.min(n) * plan.steps), "{plan:?}");
            assert!(plan.blocks <= BLOCKS && plan.threads(threads) <= threads, "{plan:?}");
            let (whole, block) = (plan.whole.min(m.min(n)), plan.block.min(m.max(n)));
            let words = (whole.div_ceil(SIDE) + block.div_ceil(SIDE)) * plan.pass * STEP_WORDS + n;
            assert!(plan.total() >= words, "{plan:?}");
        }
    }
}

/// Results that no cache holds are completed in one pass, unless what is packed for that is too much.
#[test]
fn many_results_take_one_pass() {
    for ((m, n, k), pass) in [((256, 50_257, 768), 24), ((32, 32_000, 4096), DEPTH), ((256, 3072, 768), DEPTH)] {
        assert_eq!(TilePlan::new(Size { m, n, k }, 2).pass, pass, "{m} x {n} x {k}");
    }
}
