//! What is special about single operations: in place, accumulating, parts of views, conversions.

use engine::op::{Norm, Rows};
use terms::Dtype;

use super::lab::rounded;
use super::{Lab, noise};

const TYPES: [Dtype; 4] = [Dtype::F32, Dtype::F64, Dtype::Bf16, Dtype::F16];

#[test]
pub(crate) fn fill_writes_its_view_and_nothing_else() {
    for dtype in [Dtype::F32, Dtype::F64, Dtype::Bf16, Dtype::F16, Dtype::I32] {
        let mut lab = Lab::new(dtype);
        lab.threads = 2;
        let y = lab.put(dtype, vec![1.0; 50_000]);
        lab.run(Rows::Fill { y: y.part(3, 40_000), value: -2.0 });
        let values = lab.get(y);
        assert!(values[..3].iter().chain(&values[40_003..]).all(|x| *x == 1.0), "{dtype}");
        assert!(values[3..40_003].iter().all(|x| *x == -2.0), "{dtype}");
    }
}

#[test]
pub(crate) fn convert_rounds_once_between_all_types() {
    for from in TYPES {
        for to in TYPES {
            let mut lab = Lab::new(Dtype::F64);
            let x = lab.put(from, noise(1, 1001).iter().map(|x| x * 100.0).collect());
            let y = lab.put(to, vec![0.0; 1001]);
            lab.run(Rows::Convert { x: x.part(1, 1000), y: y.part(0, 1000) });
            let wanted: Vec<f64> = lab.get(x)[1..].iter().map(|x| rounded(to, *x)).collect();
            assert_eq!(lab.get(y)[..1000], wanted, "{from} to {to}");
        }
    }
}

#[test]
pub(crate) fn add_gives_the_same_in_place() {
    for dtype in TYPES {
        for count in [1, 127, 128, 40_001] {
            let mut lab = Lab::new(dtype);
            lab.threads = 2;
            let (a, b) = (lab.put(dtype, noise(2, count)), lab.put(dtype, noise(3, count)));
            let y = lab.put(dtype, vec![0.0; count]);
            lab.run(Rows::Add { a, b, y });
            let sum = |(a, b): (f64, f64)| {
                let state = if dtype == Dtype::F64 { a + b } else { f64::from(a as f32 + b as f32) };
                rounded(dtype, state)
            };
            let wanted: Vec<f64> = lab.get(a).into_iter().zip(lab.get(b)).map(sum).collect();
            assert_eq!(lab.get(y), wanted);
            let before = lab.get(a);
            lab.run(Rows::Add { a, b, y: a });
            assert_eq!(lab.get(a), wanted);
            lab.set(a, before);
            lab.run(Rows::Add { a, b, y: b });
            assert_eq!(lab.get(b), wanted);
        }
    }
}

#[test]
pub(crate) fn activations_give_the_same_in_place() {
    let count = 777;
    for exact in [false, true] {
        let mut lab = Lab::new(Dtype::F32);
        let (x, dy) = (lab.put(Dtype::F32, noise(4, count)), lab.put(Dtype::F32, noise(5, count)));
        let (y, dx) = (lab.put(Dtype::F32, vec![0.0; count]), lab.put(Dtype::F32, vec![0.0; count]));
        lab.run(Rows::GeluForward { x, y, exact });
        lab.run(Rows::GeluBackward { x, dy, dx, exact });
        lab.run(Rows::GeluBackward { x, dy, dx: dy, exact });
        lab.run(Rows::GeluForward { x, y: x, exact });
        assert!(lab.get(x) == lab.get(y) && lab.get(dy) == lab.get(dx));
        lab.run(Rows::ReluForward { x, y });
        lab.run(Rows::ReluBackward { y, dy, dx });
        lab.run(Rows::ReluBackward { y, dy, dx: dy });
        lab.run(Rows::ReluForward { x, y: x });
        assert!(lab.get(x) == lab.get(y) && lab.get(dy) == lab.get(dx));
        assert!(lab.get(y).contains(&0.0), "something was cut");
    }
}

#[test]
pub(crate) fn relu_hides_no_nan() {
    for dtype in TYPES {
        let mut lab = Lab::new(dtype);
        let x = lab.put(dtype, vec![f64::NAN, -1.0, 2.0]);
        lab.run(Rows::ReluForward { x, y: x });
        let y = lab.get(x);
        assert!(y[0].is_nan() && y[1..] == [0.0, 2.0]);
    }
}

/// Integers add exactly, in any order.
#[test]
pub(crate) fn column_sums_and_biases_are_exact() {
    for dtype in TYPES {
        for (rows, columns) in [(1, 1), (8, 3), (9, 17), (23, 100), (100, 768), (1300, 3)] {
            let mut lab = Lab::new(dtype);
            lab.threads = 3;
            let state = lab.state();
            let x = lab.put(dtype, (0..rows * columns).map(|at| (at * 7 % 11) as f64 - 5.0).collect());
            let bias = lab.put(dtype, (0..columns).map(|at| (at % 4) as f64).collect());
            let y = lab.put(state, vec![10.0; columns]);
            lab.run(Rows::AddBias { x, bias });
            lab.run(Rows::ColumnSum { x, y, rows, accumulate: true });
            let sum = |column: usize| -> f64 {
                let at = |row: usize| ((row * columns + column) * 7 % 11) as f64 - 5.0 + (column % 4) as f64;
                (0..rows).map(at).sum()
            };
            let wanted: Vec<f64> = (0..columns).map(sum).collect();
            assert_eq!(lab.get(y), wanted.iter().map(|sum| sum + 10.0).collect::<Vec<_>>());
            lab.run(Rows::ColumnSum { x, y, rows, accumulate: false });
            assert_eq!(lab.get(y), wanted);
        }
    }
}

#[test]
pub(crate) fn norm_gradients_accumulate_or_replace_dy() {
    let (rows, columns) = (9, 130);
    let run = |same: bool, accumulate: bool| {
        let mut lab = Lab::new(Dtype::F64);
        let [x, dy, dx] = [6, 7, 8].map(|seed| lab.put(Dtype::F64, noise(seed, rows * columns)));
        let [gain, bias, d_gain, d_bias] = [9, 10, 11, 12].map(|seed| lab.put(Dtype::F64, noise(seed, columns)));
        let statistics = lab.put(Dtype::F64, vec![0.0; 2 * rows]);
        let norm = Norm { x, gain, bias: Some(bias), statistics, rows, columns, epsilon: 1e-5 };
        let y = lab.put(Dtype::F64, vec![0.0; rows * columns]);
        lab.run(Rows::NormForward { norm: norm.clone(), y });
        let dx = if same { dy } else { dx };
        let before = [dx, d_gain, d_bias].map(|view| lab.get(view));
        let (d_bias, accumulate_parameters) = (Some(d_bias), accumulate);
        lab.run(Rows::NormBackward { norm, dy, dx, accumulate, d_gain, d_bias, accumulate_parameters });
        (before, [dx, d_gain, d_bias.unwrap()].map(|view| lab.get(view)))
    };
    let (_, wanted) = run(false, false);
    assert_eq!(run(true, false).1, wanted);
    let (before, sums) = run(false, true);
    for ((before, sum), wanted) in before.iter().zip(&sums).zip(&wanted) {
        for ((before, sum), wanted) in before.iter().zip(sum).zip(wanted) {
            assert!((before + wanted - sum).abs() < 1e-12);
        }
    }
}

/// Rotary positions against their definition: y_i + i y_(i + half) = (x_i + i x_(i + half)) e^(i position
/// frequency), values left alone.
#[test]
pub(crate) fn rotary_turns_by_position() {
    let (sequence, heads, kv_heads, head_width, base) = (3, 2, 1, 4, 100.0);
    let columns = (heads + 2 * kv_heads) * head_width;
    let mut lab = Lab::new(Dtype::F64);
    let x = noise(13, 6 * columns);
    let qkv = lab.put(Dtype::F64, x.clone());
    lab.run(Rows::Rotary { qkv, sequence, heads, kv_heads, head_width, base, inverse: false });
    let y = lab.get(qkv);
    for at in 0..6 * columns {
        let (row, column) = (at / columns, at % columns);
        let feature = column % head_width;
        let angle = (row % sequence) as f64 * base.powf(-2.0 * (feature % 2) as f64 / 4.0);
        let wanted = match (column / head_width, feature / 2) {
            (3, _) => x[at],
            (_, 0) => x[at] * angle.cos() - x[at + 2] * angle.sin(),
            _ => x[at] * angle.cos() + x[at - 2] * angle.sin(),
        };
        assert!((y[at] - wanted).abs() < 1e-14, "row {row}, column {column}");
    }
}

#[test]
pub(crate) fn embedding_without_positions_copies_rows() {
    let mut lab = Lab::new(Dtype::Bf16);
    let tokens = lab.put(Dtype::I32, vec![5.0, 7.0, 6.0, 3.0, 8.0]);
    let table = lab.put(Dtype::Bf16, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let y = lab.put(Dtype::Bf16, vec![9.0; 10]);
    let (positions, segments) = (None, None);
    lab.run(Rows::EmbeddingForward { tokens, table, positions, segments, y, width: 2, sequence: 5, first: 5 });
    // Tokens 3 and 8 are other parts'.
    assert_eq!(lab.get(y), [1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0]);
}
