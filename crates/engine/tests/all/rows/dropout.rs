//! Dropout: what is dropped, how often, and that nothing but an element's place decides.

use engine::Step;
use engine::internals::philox;
use engine::op::Rows;
use terms::Dtype;

use super::Lab;

#[derive(Clone, Copy)]
struct Draw {
    columns: usize,
    first_row: u64,
    node: u32,
    rate: f64,
    seed: u64,
    step: u64,
}

const DRAW: Draw = Draw { columns: 1000, first_row: 0, node: 0, rate: 0.25, seed: 7, step: 3 };

/// Which elements of `rows` rows are dropped.
fn dropped(rows: usize, draw: Draw, threads: usize) -> Vec<bool> {
    let mut lab = Lab::new(Dtype::F32);
    (lab.threads, lab.step) = (threads, Step { number: draw.step, seed: draw.seed });
    let x = lab.put(Dtype::F32, vec![3.0; rows * draw.columns]);
    let Draw { columns, first_row, node, rate, .. } = draw;
    // In place, as programs do it.
    lab.run(Rows::Dropout { x, y: x, columns, first_row, node, rate });
    let kept = f64::from((1.0 / (1.0 - rate)) as f32 * 3.0);
    lab.get(x).into_iter().inspect(|x| assert!(*x == 0.0 || *x == kept, "{x}")).map(|x| x == 0.0).collect()
}

#[test]
pub(crate) fn rows_may_be_cut_anywhere() {
    for columns in [1, 17, 256, 300] {
        let draw = Draw { columns, first_row: u64::from(u32::MAX) - 3, ..DRAW };
        let whole = dropped(40, draw, 1);
        for cut in [1, 13, 39] {
            let mut parts = dropped(cut, draw, 1);
            parts.extend(dropped(40 - cut, Draw { first_row: draw.first_row + cut as u64, ..draw }, 1));
            assert!(parts == whole, "{columns} columns cut at {cut}");
        }
    }
    assert!(dropped(100, DRAW, 1) == dropped(100, DRAW, 3));
}

/// Asserts that a count is near p of n: of n draws with probability p, np are expected with standard deviation sqrt(np(1 - p));
/// five of these is once in a million, and the draws are fixed.
fn assert_share(count: usize, n: usize, p: f64, what: &str) {
    let (expected, deviation) = (n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
    assert!((count as f64 - expected).abs() < 5.0 * deviation, "{what}: {count} of {n}, {p} expected");
}

#[test]
pub(crate) fn the_rate_is_met() {
    for rate in [0.01, 0.1, 0.5, 0.9] {
        let mask = dropped(400, Draw { rate, ..DRAW }, 1);
        assert_share(mask.iter().filter(|dropped| **dropped).count(), mask.len(), rate, "all");
    }
    assert!(dropped(3, Draw { rate: 0.0, ..DRAW }, 1).iter().all(|dropped| !dropped));
}

/// Two independent masks are both set with probability p^2.
#[test]
pub(crate) fn places_are_independent() {
    let base = dropped(400, DRAW, 1);
    let both = |other: &[bool], what| {
        let count = base.iter().zip(other).filter(|(a, b)| **a && **b).count();
        assert_share(count, base.len().min(other.len()), 0.0625, what);
    };
    both(&dropped(400, Draw { node: 1, ..DRAW }, 1), "nodes");
    both(&dropped(400, Draw { step: 4, ..DRAW }, 1), "steps");
    both(&dropped(400, Draw { seed: 8, ..DRAW }, 1), "seeds");
    // Seed and step are not a sum, nor do they stand for each other.
    both(&dropped(400, Draw { seed: 3, step: 7, ..DRAW }, 1), "seed and step exchanged");
    both(&dropped(400, Draw { first_row: 1, ..DRAW }, 1), "rows");
    both(&dropped(400, Draw { first_row: 1 << 32, ..DRAW }, 1), "upper halves of rows");
    for shift in [1, 4, 64, 128, 256] {
        both(&base[shift..], "columns");
    }
    for column in 0..DRAW.columns {
        let count = (0..400).filter(|row| base[row * DRAW.columns + column]).count();
        assert_share(count, 400, 0.25, "a column");
    }
}

#[test]
pub(crate) fn everything_is_dropped_at_rate_one() {
    let mut lab = Lab::new(Dtype::F32);
    let x = lab.put(Dtype::F32, vec![3.0; 100]);
    lab.run(Rows::Dropout { x, y: x, columns: 10, first_row: 0, node: 0, rate: 1.0 });
    assert_eq!(lab.get(x), vec![0.0; 100]);
}

/// Known answers of Random123 (kat_vectors, philox4x32 10).
#[test]
pub(crate) fn philox_is_that_of_random123() {
    assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
    assert_eq!(philox(pi, [0xa409_3822, 0x299f_31d0]), [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
}
