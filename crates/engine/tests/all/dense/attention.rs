//! Attention against a plain softmax, and its gradients against differences.

use engine::op::{Attention, Dense};
use engine::{Memory, Op, View, flops};
use terms::Dtype;

use super::{Draw, Setup, bytes, difference, execute, read, state, write};

struct Case {
    op: Attention,
    d_output: View,
    d_qkv: View,
    memory: Memory,
    dtype: Dtype,
}

/// Batch, sequence, heads, key and value heads, width of a head, causal.
type Shape = (usize, usize, usize, usize, usize, bool);

/// More than one tile of rows, more than one of columns, neither a multiple.
const SHAPES: [Shape; 7] = [
    (1, 90, 2, 1, 72, true),
    (1, 1, 1, 1, 4, true),
    (2, 7, 4, 2, 8, true),
    (2, 70, 2, 1, 16, false),
    (1, 131, 3, 3, 8, true),
    (1, 600, 2, 1, 4, true),
    (1, 530, 1, 1, 4, false),
];

fn case((batch, sequence, heads, kv_heads, head_width, causal): Shape, dtype: Dtype, draw: &mut Draw) -> Case {
    let mut setup = Setup::default();
    let rows = batch * sequence;
    let (width, packed) = (heads * head_width, (heads + 2 * kv_heads) * head_width);
    // Scores of a few units, so that softmax is neither flat nor a maximum.
    let qkv = setup.add(dtype, draw.numbers(rows * packed).into_iter().map(|x| 3.0 * x).collect());
    let output = setup.add(dtype, vec![f64::NAN; rows * width]);
    let log_sum = setup.add(state(dtype), vec![f64::NAN; rows * heads]);
    let d_output = setup.add(dtype, draw.numbers(rows * width));
    let d_qkv = setup.add(dtype, vec![f64::NAN; rows * packed]);
    let op = Attention { qkv, output, log_sum, batch, sequence, heads, kv_heads, head_width, causal };
    Case { op, d_output, d_qkv, memory: setup.memory(), dtype }
}

impl Case {
    fn forward(&self, threads: usize) {
        execute(Dense::AttentionForward(self.op.clone()), &self.memory, bytes(self.dtype), threads);
    }

    fn backward(&self, threads: usize) {
        let op = Dense::AttentionBackward { forward: self.op.clone(), d_output: self.d_output, d_qkv: self.d_qkv };
        execute(op, &self.memory, bytes(self.dtype), threads);
    }
}

/// Output and log of the sum, by the definition.
fn plain(op: &Attention, qkv: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let Attention { batch, sequence, heads, kv_heads, head_width: d, causal, .. } = *op;
    let packed = (heads + 2 * kv_heads) * d;
    let (mut output, mut log_sum) = (vec![0.0; batch * sequence * heads * d], Vec::new());
    for b in 0..batch {
        for h in 0..heads {
            let g = h / (heads / kv_heads);
            let at = |row: usize, head: usize| &qkv[(b * sequence + row) * packed + head * d..][..d];
            for i in 0..sequence {
                let seen = if causal { i + 1 } else { sequence };
                let score = |j| at(i, h).iter().zip(at(j, heads + g)).map(|(x, y)| x * y).sum::<f64>();
                let scores: Vec<f64> = (0..seen).map(|j| score(j) / (d as f64).sqrt()).collect();
                let largest = scores.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
                let sum: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
                log_sum.push(largest + sum.ln());
                let row = &mut output[((b * sequence + i) * heads + h) * d..][..d];
                for (j, score) in scores.iter().enumerate() {
                    let p = (score - largest).exp() / sum;
                    row.iter_mut().zip(at(j, heads + kv_heads + g)).for_each(|(to, value)| *to += p * value);
                }
            }
        }
    }
    (output, log_sum)
}

#[test]
fn forward_is_softmax() {
    let mut draw = Draw(11);
    for shape in SHAPES {
        // Values are below 3, scores below 9 sqrt(d): products, exponentials and rounding of the result. f32 gives some 1e-6;
        // 16-bit values cost their rounding once, at the end.
        for (dtype, most) in
            [(Dtype::F64, 1e-12), (Dtype::F32, 2e-5), (Dtype::Bf16, 3.0 / 64.0), (Dtype::F16, 3.0 / 512.0)]
        {
            let case = case(shape, dtype, &mut draw);
            case.forward(draw.whole(1, 2));
            let (output, log_sum) = plain(&case.op, &read(&case.memory, case.op.qkv));
            let off = difference(&output, &read(&case.memory, case.op.output));
            assert!(off <= most, "{off} {:?} {dtype}", case.op);
            let off = difference(&log_sum, &read(&case.memory, case.op.log_sum));
            assert!(off <= most, "log of the sum: {off} {:?} {dtype}", case.op);
        }
    }
}

/// `sum of d_output x output` along a direction, by central differences of the plain version: exact to h^2 and to
/// 1e-16 / h, some 1e-9 at h = 1e-5.
#[test]
fn backward_is_the_derivative() {
    let mut draw = Draw(12);
    for shape in SHAPES {
        let case = case(shape, Dtype::F64, &mut draw);
        case.forward(1);
        case.backward(draw.whole(1, 2));
        let Attention { heads, kv_heads, head_width, .. } = case.op;
        let (qkv, d_output) = (read(&case.memory, case.op.qkv), read(&case.memory, case.d_output));
        let d_qkv = read(&case.memory, case.d_qkv);
        let packed = (heads + 2 * kv_heads) * head_width;
        // One direction for each of queries, keys and values alone.
        for (from, to) in [(0, heads), (heads, heads + kv_heads), (heads + kv_heads, heads + 2 * kv_heads)] {
            let inside = |i: usize| (from * head_width..to * head_width).contains(&(i % packed));
            let direction: Vec<f64> = (0..qkv.len()).map(|i| if inside(i) { draw.uniform() } else { 0.0 }).collect();
            let h = 1e-5;
            let loss = |sign: f64| {
                let moved: Vec<f64> = qkv.iter().zip(&direction).map(|(x, v)| x + sign * h * v).collect();
                plain(&case.op, &moved).0.iter().zip(&d_output).map(|(y, d)| y * d).sum::<f64>()
            };
            let expected = (loss(1.0) - loss(-1.0)) / (2.0 * h);
            let got: f64 = d_qkv.iter().zip(&direction).map(|(d, v)| d * v).sum();
            let scale = d_qkv.iter().zip(&direction).map(|(d, v)| (d * v).abs()).sum::<f64>().max(1e-3);
            assert!((got - expected).abs() <= 1e-6 * scale, "heads {from}..{to}: {got}, not {expected}: {:?}", case.op);
        }
    }
}

/// f32 and the 16-bit types against f64, which the test above covers.
#[test]
fn backward_of_narrow_types_is_that_of_f64() {
    let mut draw = Draw(13);
    for shape in SHAPES {
        for (dtype, most) in [(Dtype::F32, 1e-5), (Dtype::Bf16, 0.03), (Dtype::F16, 0.004)] {
            let narrow = case(shape, dtype, &mut draw);
            let exact = case(shape, Dtype::F64, &mut draw);
            write(&exact.memory, exact.op.qkv, &read(&narrow.memory, narrow.op.qkv));
            write(&exact.memory, exact.d_output, &read(&narrow.memory, narrow.d_output));
            for case in [&narrow, &exact] {
                case.forward(1);
                case.backward(1);
            }
            let (got, expected) = (read(&narrow.memory, narrow.d_qkv), read(&exact.memory, exact.d_qkv));
            let scale = expected.iter().fold(1.0f64, |most, x| most.max(x.abs()));
            let off = difference(&got, &expected) / scale;
            assert!(off <= most, "{off} {:?} {dtype}", narrow.op);
        }
    }
}

#[test]
fn attention_has_the_same_bits_again_and_nearly_on_more_threads() {
    let mut draw = Draw(14);
    for shape in [(2, 150, 4, 2, 16, true), (1, 90, 3, 3, 8, false)] {
        let case = case(shape, Dtype::F64, &mut draw);
        let results = [1, 2, 3, 1, 2, 3].map(|threads| {
            case.forward(threads);
            case.backward(threads);
            [case.op.output, case.op.log_sum, case.d_qkv].map(|view| read(&case.memory, view)).concat()
        });
        for threads in 0..3 {
            assert_eq!(results[threads], results[threads + 3]);
            assert!(difference(&results[0], &results[threads]) <= 1e-12);
        }
    }
}

/// Large scores: no overflow, and a row that sees one column gives its value.
#[test]
fn large_scores_are_fine() {
    let mut draw = Draw(15);
    let case = case((1, 9, 1, 1, 4, true), Dtype::F32, &mut draw);
    let qkv: Vec<f64> = read(&case.memory, case.op.qkv).into_iter().map(|x| 300.0 * x).collect();
    write(&case.memory, case.op.qkv, &qkv);
    case.forward(1);
    case.backward(1);
    let output = read(&case.memory, case.op.output);
    assert!(difference(&output[..4], &read(&case.memory, case.op.qkv)[8..12]) == 0.0);
    assert!(read(&case.memory, case.d_qkv).iter().chain(&output).all(|x| x.is_finite()));
}

/// Pairs of rows that see each other, counted: two products forward, four backward, of two operations each.
#[test]
fn flops_count_what_is_seen() {
    let mut draw = Draw(16);
    for shape in SHAPES {
        let case = case(shape, Dtype::F64, &mut draw);
        let (batch, sequence, heads, _, width, causal) = shape;
        let pairs = (0..sequence).map(|i| if causal { i + 1 } else { sequence }).sum::<usize>();
        let forward = (batch * heads * width * pairs * 4) as f64;
        let op = Dense::AttentionForward(case.op.clone());
        assert_eq!(flops(&Op::Dense(op)), forward);
        let op = Dense::AttentionBackward { forward: case.op.clone(), d_output: case.d_output, d_qkv: case.d_qkv };
        assert_eq!(flops(&Op::Dense(op)), 2.0 * forward);
    }
}

/// Every kernel that this CPU has for bf16, and the way without any, not only the fastest.
#[cfg(target_arch = "x86_64")]
#[test]
fn every_kernel_gives_the_same_attention() {
    use engine::internals::{Kernel, attention};
    use engine::{Context, Matmul, Scratch, Step};
    use half::bf16;

    let mut draw = Draw(17);
    let scratch = Scratch::new(1, 8 << 20);
    let context = Context { threads: 1, scratch: &scratch, step: Step { number: 1, seed: 0 }, matmul: Matmul::Auto };
    for shape in SHAPES {
        let exact = case(shape, Dtype::F64, &mut draw);
        let narrow = case(shape, Dtype::Bf16, &mut draw);
        write(&exact.memory, exact.op.qkv, &read(&narrow.memory, narrow.op.qkv));
        write(&exact.memory, exact.d_output, &read(&narrow.memory, narrow.d_output));
        exact.forward(1);
        exact.backward(1);
        let expected = [exact.op.output, exact.d_qkv].map(|view| read(&exact.memory, view));
        for kernel in Kernel::all::<bf16>().iter().copied().map(Some).chain([None]) {
            // SAFETY: views that do not overlap; kernels that the CPU has.
            unsafe {
                let Case { op, memory, d_output, d_qkv, .. } = &narrow;
                attention::forward_by(kernel, op, memory, &context);
                attention::backward_by(kernel, op, *d_output, *d_qkv, memory, &context);
            }
            let got = [narrow.op.output, narrow.d_qkv].map(|view| read(&narrow.memory, view));
            for (got, expected) in got.iter().zip(&expected) {
                let scale = expected.iter().fold(1.0f64, |most, x| most.max(x.abs()));
                let off = difference(got, expected) / scale;
                assert!(off <= 0.03, "{off} {kernel:?} {:?}", narrow.op);
            }
        }
    }
}
