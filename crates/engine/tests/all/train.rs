//! Operations of a training step on a device of tests/fakes, against the host's: the host's own tests, run there, and what only a device
//! has.

use engine::cuda::{ProductError, TRAIN, Train, sorted_rows};
use engine::op::{Dense, MatMul, Norm, Op, Rows, Update};
use engine::{Step, View};
use terms::Dtype;

use crate::cuda::{decoded, on_device};
use crate::rows::cases::Case;
use crate::rows::on_device::{DeviceLab, ORDERS, each_on_device, with};
use crate::rows::{Lab, dropout, loss, noise, properties, rounded, single};
use crate::update;

const TYPES: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::F16];

each_on_device! {
    conversions_and_sums_are_those_of_the_host:
        single::fill_writes_its_view_and_nothing_else, single::convert_rounds_once_between_all_types,
        single::add_gives_the_same_in_place, single::column_sums_and_biases_are_exact;
    activations_are_those_of_the_host: single::activations_give_the_same_in_place, single::relu_hides_no_nan;
    norms_accumulate_and_replace_as_on_the_host: single::norm_gradients_accumulate_or_replace_dy;
    positions_and_embeddings_are_those_of_the_host:
        single::rotary_turns_by_position, single::embedding_without_positions_copies_rows;
    rows_may_be_dropped_in_parts: dropout::rows_may_be_cut_anywhere, dropout::everything_is_dropped_at_rate_one;
    losses_are_those_of_the_host:
        loss::is_what_the_definition_says, loss::parts_give_what_the_whole_gives, loss::extreme_logits,
        loss::what_lies_behind_the_classes_is_read_by_nobody;
    updates_are_the_formulas:
        update::sgd_is_the_formula, update::adamw_is_the_formula,
        update::a_gradient_that_is_not_finite_skips_the_step_and_halves_the_scale,
        update::without_loss_scaling_the_scale_stays, update::the_norm_is_the_same_for_all_threads;
    gradients_on_the_device_are_differences: properties::gradients_are_differences;
}

fn agree(test: &str, dtype: Dtype) {
    let Some(device) = DeviceLab::open(test) else { return };
    properties::agree_with_f64(&[dtype], |case| with(&device, || Case::run(case)));
}

#[test]
fn f64_agrees_with_the_host() {
    agree("f64_agrees_with_the_host", Dtype::F64);
}

#[test]
fn f32_agrees_with_f64_on_the_host() {
    agree("f32_agrees_with_f64_on_the_host", Dtype::F32);
}

#[test]
fn bf16_agrees_with_f64_on_the_host() {
    agree("bf16_agrees_with_f64_on_the_host", Dtype::Bf16);
}

#[test]
fn f16_agrees_with_f64_on_the_host() {
    agree("f16_agrees_with_f64_on_the_host", Dtype::F16);
}

/// A value so near to the middle of two numbers that f32 cannot tell them apart is still rounded to its own side.
#[test]
fn conversions_from_f64_round_once() {
    let Some(device) = DeviceLab::open("conversions_from_f64_round_once") else { return };
    for (dtype, bits) in [(Dtype::Bf16, 8), (Dtype::F16, 11)] {
        let middle = |at: i32| 1.0 + (2.0 * f64::from(at) + 1.0) * 2f64.powi(-bits);
        let values: Vec<f64> = (0..100)
            .flat_map(|at| {
                [-1.0, 0.0, 1.0].map(|side| middle(at) * 2f64.powi(at % 20 - 10) * (1.0 + side * 2f64.powi(-45)))
            })
            .chain([
                0.0,
                -0.0,
                f64::INFINITY,
                f64::MAX,
                65519.9,
                65520.0,
                2f64.powi(-25),
                2f64.powi(-25) * 1.001,
                1e-300,
            ])
            .collect();
        let wanted: Vec<f64> = values.iter().map(|value| rounded(dtype, *value)).collect();
        let mut lab = Lab::new(Dtype::F64);
        let x = lab.put(Dtype::F64, values.clone());
        let y = lab.put(dtype, vec![0.0; values.len()]);
        with(&device, || lab.run(Rows::Convert { x, y }));
        assert_eq!(lab.get(y), wanted, "{dtype}");
    }
}

#[test]
fn dropout_drops_what_the_host_drops() {
    let Some(device) = DeviceLab::open("dropout_drops_what_the_host_drops") else { return };
    for dtype in TYPES {
        for (rows, columns, rate, seed) in [(3, 1, 0.5, 1), (5, 300, 0.1, 7), (2, 1000, 0.9, u64::MAX), (4, 64, 0.0, 0)]
        {
            let drop = || {
                let mut lab = Lab::new(dtype);
                lab.step = Step { number: 11, seed };
                let x = lab.put(dtype, noise(1, rows * columns));
                let y = lab.put(dtype, vec![f64::NAN; rows * columns]);
                let first_row = u64::from(u32::MAX) - 1;
                lab.run(Rows::Dropout { x, y, columns, first_row, node: 3, rate });
                lab.get(y)
            };
            assert_eq!(with(&device, drop), drop(), "{dtype}, {rows} rows of {columns}");
        }
    }
}

/// The host adds rows one by one, in their order, to what is there: so does the device, in the same type.
#[test]
fn embedding_gradients_have_the_bits_of_the_host() {
    let Some(device) = DeviceLab::open("embedding_gradients_have_the_bits_of_the_host") else { return };
    for dtype in TYPES {
        for (rows, width, sequence) in [(1, 1, 1), (37, 5, 8), (64, 130, 64)] {
            let backward = || {
                let mut lab = Lab::new(dtype);
                let (first, count, state) = (3, 6, lab.state());
                let tokens = lab.put(Dtype::I32, (0..rows).map(|row| (row * row % 11) as f64 - 1.0).collect());
                let dy = lab.put(dtype, noise(2, rows * width));
                let d_table = lab.put(state, noise(3, count * width));
                let d_positions = lab.put(state, noise(4, sequence * width));
                let op = Rows::EmbeddingBackward {
                    tokens,
                    dy,
                    d_table,
                    d_positions: Some(d_positions),
                    d_segments: None,
                    width,
                    sequence,
                    first,
                };
                lab.run(op);
                [lab.get(d_table), lab.get(d_positions)]
            };
            assert_eq!(with(&device, backward), backward(), "{dtype}, {rows} rows of {width}");
        }
    }
}

#[test]
fn rows_are_sorted_by_their_tokens() {
    let sorted = sorted_rows(&[7, 5, -1, 7, 9, 5, 7], 5, 4).unwrap();
    let (starts, rest) = sorted.split_at(8);
    let (targets, rows) = rest.split_at(7);
    // Tokens 5 and 7: entries 0 and 2. Tokens -1 and 9 are not of this table.
    assert_eq!(starts, [0, 2, 5, 5, 5, 5, 5, 5]);
    assert_eq!((&targets[..2], &rows[..5]), (&[0, 2][..], &[1, 5, 0, 3, 6][..]));
    assert_eq!(sorted_rows(&[], 0, 4).unwrap(), [0]);
}

/// A layer norm of rows, and what it needs.
fn norm_of(lab: &mut Lab, rows: usize, columns: usize, centred: bool) -> (Norm, [View; 3]) {
    let dtype = lab.element;
    let x = lab.put(dtype, noise(1, rows * columns));
    let gain = lab.put(dtype, noise(2, columns));
    let bias = centred.then(|| lab.put(dtype, noise(3, columns)));
    let statistics = lab.put(lab.state(), vec![f64::NAN; 2 * rows]);
    let residual = lab.put(dtype, noise(4, rows * columns));
    let [total, y] = [0, 1].map(|_| lab.put(dtype, vec![f64::NAN; rows * columns]));
    (Norm { x, gain, bias, statistics, rows, columns, epsilon: 1e-5 }, [residual, total, y])
}

#[test]
fn a_residual_and_its_norm_at_once_are_the_sum_and_then_the_norm() {
    let Some(device) = DeviceLab::open("a_residual_and_its_norm_at_once_are_the_sum_and_then_the_norm") else { return };
    for (dtype, centred) in TYPES.into_iter().flat_map(|dtype| [(dtype, true), (dtype, false)]) {
        for (rows, columns) in [(1, 1), (3, 17), (4, 600)] {
            let mut lab = Lab::new(dtype);
            let (norm, [residual, total, y]) = norm_of(&mut lab, rows, columns, centred);
            for order in 0..ORDERS {
                let loaded = device.load(&lab, 0);
                device.train.residual_norm(&norm, [residual, total, y], &loaded.context()).unwrap();
                let at_once = device.bytes_in(&loaded, order);
                let loaded = device.load(&lab, 0);
                let add = Rows::Add { a: norm.x, b: residual, y: total };
                let then = Rows::NormForward { norm: Norm { x: total, ..norm.clone() }, y };
                for op in [add, then] {
                    device.train.run(&op.into(), &loaded.context()).unwrap();
                }
                assert!(device.bytes_in(&loaded, 0) == at_once, "{dtype}, {rows} rows of {columns}, order {order}");
            }
        }
    }
}

/// More rows than chunks. Integers add exactly, in any order.
#[test]
fn gradients_of_gain_and_bias_have_every_row() {
    let Some(device) = DeviceLab::open("gradients_of_gain_and_bias_have_every_row") else { return };
    let sizes = [(1300, 3), (2000, 8)];
    for (dtype, (rows, columns)) in TYPES.into_iter().flat_map(|dtype| sizes.map(|size| (dtype, size))) {
        let mut lab = Lab::new(dtype);
        let (mut norm, [_, dx, _]) = norm_of(&mut lab, rows, columns, true);
        let state = lab.state();
        norm.x = lab.put(dtype, (0..rows * columns).map(|at| (at * 7 % 11) as f64 - 5.0).collect());
        norm.statistics = lab.put(state, [0.0, 1.0].repeat(rows));
        let dy = lab.put(dtype, (0..rows * columns).map(|at| (at * 5 % 13) as f64 - 6.0).collect());
        let [d_gain, d_bias] = [0, 1].map(|_| lab.put(state, vec![100.0; columns]));
        let sum = |factor: &dyn Fn(usize) -> f64| -> Vec<f64> {
            let of_row = |row: usize, column: usize| {
                let at = row * columns + column;
                factor(at) * ((at * 5 % 13) as f64 - 6.0)
            };
            (0..columns).map(|column| 100.0 + (0..rows).map(|row| of_row(row, column)).sum::<f64>()).collect()
        };
        let (accumulate, accumulate_parameters) = (false, true);
        let op = Rows::NormBackward { norm, dy, dx, accumulate, d_gain, d_bias: Some(d_bias), accumulate_parameters };
        with(&device, || lab.run(op));
        assert_eq!(lab.get(d_gain), sum(&|at| (at * 7 % 11) as f64 - 5.0), "{dtype}, {rows} rows of {columns}");
        assert_eq!(lab.get(d_bias), sum(&|_| 1.0), "{dtype}, {rows} rows of {columns}");
    }
}

/// Some views take several blocks, some one, and one is empty; what lies between them is left out.
#[test]
fn squares_of_many_views_are_summed_at_once() {
    let Some(device) = DeviceLab::open("squares_of_many_views_are_summed_at_once") else { return };
    for dtype in [Dtype::F64, Dtype::F32] {
        let mut lab = Lab::new(dtype);
        let all = lab.put(dtype, noise(1, 70_000));
        let control = lab.put(Dtype::F64, vec![1.0, 0.0, 0.5, 0.0]);
        let views = [all.part(3, 40_000), all.part(69_999, 1), all.part(50_000, 0), all.part(45_000, 2000)];
        let wanted: f64 = 0.5 + views.iter().flat_map(|view| lab.get(*view)).map(|x| x * x).sum::<f64>();
        let sum = |lab: &Lab, order| {
            let loaded = device.load(lab, 8 * 5);
            let squares = device.train.squares(&views, &loaded.memory).unwrap();
            assert_eq!(squares.scratch_bytes(), 8 * 5);
            device.train.sum_squares(&squares, control, &loaded.context()).unwrap();
            decoded(Dtype::F64, &device.bytes_in(&loaded, order)[1])[2]
        };
        let first = sum(&lab, 0);
        // The order of the plain sum above: 42 001 additions of positive numbers.
        assert!((first / wanted - 1.0).abs() < 42_001.0 * 2f64.powi(-53), "{first} {wanted}");
        for order in 1..ORDERS {
            assert_eq!(sum(&lab, order).to_bits(), first.to_bits());
        }
        let mut values = lab.get(all);
        values[46_999] = f64::INFINITY;
        lab.set(all, values);
        assert!(!sum(&lab, 0).is_finite());
        let loaded = device.load(&lab, 0);
        let apart = device.train.squares(&[all, control], &loaded.memory).unwrap_err();
        assert!(apart.to_string().ends_with("are of several types, or in several regions"), "{apart}");
    }
}

/// Operations whose kernels have barriers, with rows that keep all threads of a block busy, and that the kernels of norm.cu do not take.
fn with_barriers(dtype: Dtype) -> Vec<(Lab, Op)> {
    let (rows, classes) = (3, 701);
    let lab = || Lab::new(dtype);
    let mut all: Vec<(Lab, Op)> = Vec::new();
    let mut forward = lab();
    let (norm, [_, _, y]) = norm_of(&mut forward, rows, classes, true);
    all.push((forward, Rows::NormForward { norm, y }.into()));
    let mut backward = lab();
    let state = backward.state();
    let (norm, [dy, dx, _]) = norm_of(&mut backward, rows, classes, true);
    backward.set(norm.statistics, noise(8, 2 * rows));
    let [d_gain, d_bias] = [0, 1].map(|_| backward.put(state, vec![0.0; classes]));
    let (accumulate, accumulate_parameters) = (false, false);
    let op = Rows::NormBackward { norm, dy, dx, accumulate, d_gain, d_bias: Some(d_bias), accumulate_parameters };
    all.push((backward, op.into()));
    for which in 0..3 {
        let mut lab = lab();
        let logits = lab.put(dtype, noise(5, rows * classes).into_iter().map(|x| 4.0 * x).collect());
        let targets = lab.put(Dtype::I32, vec![699.0, 0.0, 300.0]);
        let largest = lab.put(state, vec![4.0; rows]);
        let sums = lab.put(state, vec![f64::NAN; 2 * rows]);
        let loss = lab.put(Dtype::F64, vec![0.0]);
        let control = lab.put(Dtype::F64, vec![1.0, 0.0, 0.0, 0.0]);
        let op = match which {
            0 => Rows::CrossEntropy { logits, targets, loss, control, classes, scale: 0.5 },
            1 => Rows::CrossEntropyLargest { logits, largest, classes },
            _ => Rows::CrossEntropySum { logits, targets, largest, sums, classes, first: 0 },
        };
        all.push((lab, op.into()));
    }
    let mut squares = lab();
    let x = squares.put(state, noise(6, 20_000));
    let control = squares.put(Dtype::F64, vec![1.0, 0.0, 0.0, 0.0]);
    all.push((squares, Update::SumSquares { x, control }.into()));
    all
}

/// Sums of columns over so many rows that blocks add their chunks.
fn with_chunks(dtype: Dtype) -> (Lab, Op) {
    let (mut lab, rows, columns) = (Lab::new(dtype), 40, 37);
    let x = lab.put(dtype, noise(7, rows * columns));
    let y = lab.put(lab.state(), noise(8, columns));
    (lab, Rows::ColumnSum { x, y, rows, accumulate: true }.into())
}

/// Each column is added once, whatever its place in a block, on top of what was there.
#[test]
fn sums_of_many_chunks_are_those_of_their_columns() {
    let Some(device) = DeviceLab::open("sums_of_many_chunks_are_those_of_their_columns") else { return };
    for columns in [1, 31, 32, 33, 100] {
        for accumulate in [false, true] {
            let (mut lab, rows) = (Lab::new(Dtype::F64), 19);
            let x: Vec<f64> = (0..rows * columns).map(|at| (at % 23) as f64 - 11.0).collect();
            let (x_view, y) = (lab.put(Dtype::F64, x.clone()), lab.put(Dtype::F64, vec![1000.0; columns]));
            with(&device, || lab.run(Rows::ColumnSum { x: x_view, y, rows, accumulate }));
            // Whole numbers: exact in any order.
            let sum = |column: usize| -> f64 { (0..rows).map(|row| x[row * columns + column]).sum() };
            let before = if accumulate { 1000.0 } else { 0.0 };
            let wanted: Vec<f64> = (0..columns).map(|column| before + sum(column)).collect();
            assert_eq!(lab.get(y), wanted, "{columns} columns, accumulate {accumulate}");
        }
    }
}

/// Logits are read by 16 bytes wherever a row begins: losses and gradients are those of the definition.
#[test]
fn rows_of_logits_may_begin_anywhere() {
    let Some(device) = DeviceLab::open("rows_of_logits_may_begin_anywhere") else { return };
    let rows = 9;
    for (dtype, unit) in [(Dtype::F32, 2f64.powi(-24)), (Dtype::Bf16, 2f64.powi(-8)), (Dtype::F16, 2f64.powi(-11))] {
        for classes in [1, 3, 7, 8, 9, 16, 263, 2057] {
            let x: Vec<f64> = noise(3, rows * classes).into_iter().map(|x| rounded(dtype, 4.0 * x)).collect();
            let targets: Vec<f64> = (0..rows).map(|row| (row * 31 % classes) as f64).collect();
            let of = |dtype: Dtype, on_device: bool| {
                let mut lab = Lab::new(dtype);
                let logits = lab.put(dtype, x.clone());
                let targets = lab.put(Dtype::I32, targets.clone());
                let loss = lab.put(Dtype::F64, vec![0.0]);
                let control = lab.put(Dtype::F64, vec![1.0, 0.0, 0.0, 0.0]);
                let op = Rows::CrossEntropy { logits, targets, loss, control, classes, scale: 1.0 };
                if on_device {
                    with(&device, || lab.run(op))
                } else {
                    lab.run(op)
                }
                (lab.get(loss)[0], lab.get(logits))
            };
            let ((loss, gradient), (wanted, exact)) = (of(dtype, true), of(Dtype::F64, false));
            // Exponentials in f32, of numbers below 32, and their sum.
            let bound = 1e-5 * wanted.abs().max(1.0);
            assert!((loss - wanted).abs() <= bound, "{dtype}, {classes}: {loss} and {wanted}");
            for (at, (found, wanted)) in gradient.iter().zip(&exact).enumerate() {
                // Below the least normal number of f16, multiples of 2^-24.
                let bound = (unit + 1e-5) * wanted.abs() + 2f64.powi(-25);
                assert!((found - wanted).abs() <= bound, "{dtype}, {classes}, {at}: {found} and {wanted}");
            }
        }
    }
}

#[test]
fn without_any_one_barrier_some_order_gives_other_bits() {
    let Some(device) = DeviceLab::open("without_any_one_barrier_some_order_gives_other_bits") else { return };
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/train.cu")).unwrap();
    let barriers: Vec<i32> =
        (1..).zip(text.lines()).filter(|(_, line)| line.contains("__syncthreads()")).map(|(line, _)| line).collect();
    assert_eq!(barriers.len(), 3, "new barriers need operations here that run them");
    // Those of sums over a block, and that of sums over chunks of rows.
    let (of_block, of_chunks) = barriers.split_at(2);
    for dtype in [Dtype::F64, Dtype::F32] {
        let blocks = with_barriers(dtype).into_iter().map(|case| (case, of_block));
        for ((lab, op), barriers) in blocks.chain([(with_chunks(dtype), of_chunks)]) {
            let right = device.bytes_after(&op, &lab, 0, 0);
            for barrier in barriers {
                let is_found = (0..ORDERS).any(|order| device.bytes_after(&op, &lab, order, *barrier) != right);
                assert!(is_found, "{op:?} gives the same bits without the barrier in line {barrier}");
            }
        }
    }
}

/// What is said of an operation that is refused.
fn said(device: &DeviceLab, lab: &Lab, op: impl Into<Op>) -> String {
    let op = op.into();
    let loaded = device.load(lab, Train::scratch_bytes(&op, lab.element.bytes() as usize));
    device.train.run(&op, &loaded.context()).unwrap_err().to_string()
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(device) = DeviceLab::open("what_does_not_fit_is_refused") else { return };
    let mut lab = Lab::new(Dtype::F32);
    let [x, y, dy] = [1, 2, 3].map(|seed| lab.put(Dtype::F32, noise(seed, 12)));
    let half = lab.put(Dtype::Bf16, noise(4, 12));
    let number = lab.put(Dtype::I32, vec![0.0; 12]);
    let loss = lab.put(Dtype::F64, vec![0.0]);
    let refuse = |op: Rows| said(&device, &lab, op);
    let short = x.part(0, 11);
    assert_eq!(
        refuse(Rows::Add { a: short, b: dy, y }),
        "an operation was refused: a has 11 elements of f32, and needs 12 of f32"
    );
    assert!(refuse(Rows::ReluForward { x: half, y }).ends_with("x has 12 elements of bf16, and needs 12 of f32"));
    assert!(refuse(Rows::ReluForward { x: number, y: number }).ends_with("no kernel computes with i32"));
    assert!(refuse(Rows::Convert { x, y: number }).ends_with("no kernel converts to i32"));
    assert!(refuse(Rows::AddBias { x, bias: y.part(0, 5) }).ends_with("12 elements are not rows of 5"));
    assert!(refuse(Rows::SwiGluForward { x, y, width: 6 }).contains("x has 12 elements of f32, and needs 24"));
    assert!(refuse(Rows::ColumnSum { x, y: y.part(0, 4), rows: 4, accumulate: false }).contains("are not 4 rows of 4"));
    let dropout = |rate| Rows::Dropout { x, y, columns: 6, first_row: 0, node: 0, rate };
    assert!(refuse(dropout(1.5)).ends_with("1.5 is not a probability"));
    let odd = Rows::Rotary { qkv: x, sequence: 2, heads: 2, kv_heads: 1, head_width: 3, base: 10.0, inverse: false };
    assert!(refuse(odd).contains("a head of 3 features has no pairs"));
    let (targets, classes, scale) = (number.part(0, 3), 5, 1.0);
    let entropy = Rows::CrossEntropy { logits: x, targets, loss, control: loss, classes, scale };
    assert!(refuse(entropy).ends_with("logits has 12 elements of f32, and needs 15 of f32"));
    let (positions, segments) = (Some(y.part(0, 4)), None);
    let embed = Rows::EmbeddingForward {
        tokens: targets,
        table: dy,
        positions,
        segments,
        y: x,
        width: 4,
        sequence: 2,
        first: 0,
    };
    assert!(refuse(embed).ends_with("positions are not 2 rows of 4"));
    let (d_positions, d_segments) = (None, None);
    let unsorted = Rows::EmbeddingBackward {
        tokens: targets,
        dy,
        d_table: x,
        d_positions,
        d_segments,
        width: 4,
        sequence: 3,
        first: 0,
    };
    assert!(refuse(unsorted.clone()).ends_with("no rows were sorted by their tokens"));
    // A table of another batch.
    let mut loaded = device.load(&lab, 0);
    loaded.sorted = Some(on_device(&device.gpu, &[0; 4 * 9]));
    let error = device.train.run(&unsorted.into(), &loaded.context()).unwrap_err();
    assert!(error.to_string().ends_with("sorted rows have 36 bytes, and need 40"), "{error}");
    let sum: Op = Rows::ColumnSum { x, y: y.part(0, 4), rows: 3, accumulate: false }.into();
    let error = device.train.run(&sum, &device.load(&lab, 47).context()).unwrap_err();
    assert!(error.to_string().ends_with("scratch memory has 47 bytes, and needs 48"), "{error}");
    let squares = Update::SumSquares { x, control: loss };
    assert!(said(&device, &lab, squares).ends_with("control has 1 numbers, and needs 4"));
    let (m, n, k, bias) = (1, 1, 1, None);
    let (a_transposed, b_transposed, accumulate) = (false, false, false);
    let product = MatMul { a: x, b: x, c: x, bias, m, n, k, a_transposed, b_transposed, accumulate, padding: [0; 3] };
    let error = device.train.run(&Dense::MatMul(product).into(), &loaded.context()).unwrap_err();
    assert!(matches!(error, ProductError::Unsupported(_)) && error.is_lacking(), "{error}");
}

/// No class has that number: the loss says so, and nothing is written past the row.
#[test]
fn a_target_that_is_no_class_makes_the_loss_nan() {
    let Some(device) = DeviceLab::open("a_target_that_is_no_class_makes_the_loss_nan") else { return };
    let mut lab = Lab::new(Dtype::F32);
    let logits = lab.put(Dtype::F32, noise(1, 10));
    let targets = lab.put(Dtype::I32, vec![4.0, 5.0]);
    let loss = lab.put(Dtype::F64, vec![0.0]);
    let control = lab.put(Dtype::F64, vec![1.0, 0.0, 0.0, 0.0]);
    with(&device, || lab.run(Rows::CrossEntropy { logits, targets, loss, control, classes: 5, scale: 1.0 }));
    assert!(lab.get(loss)[0].is_nan());
}

#[test]
fn the_text_runs_on_old_drivers_and_devices() {
    assert!(TRAIN.contains(".version 7.8\n") && TRAIN.contains(".target sm_70\n"));
    assert!(!TRAIN.contains("\tatom.") && !TRAIN.contains("\tred."), "sums have a fixed order");
}
