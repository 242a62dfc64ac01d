//! What attention on a device refuses, which kernels a GPU runs, and that each barrier and wait is needed.

use std::process::Command;

use engine::cuda::{ATTENTION, ATTENTION_GRADIENT, ATTENTION_PLAIN, AttentionKernel, ProductError, Train};
use engine::op::{Attention, Dense, Op};
use terms::Dtype;

use super::Case;
use crate::rows::on_device::{DeviceLab, ORDERS, with};

/// Lines of barriers, and of waits for copies, in a text of kernels.
fn lines_of(text: &str) -> Vec<i32> {
    let waits = |line: &str| ["__syncthreads();", "wait_for_copies();"].iter().any(|wait| line.trim() == *wait);
    (1..).zip(text.lines()).filter(|(_, line)| waits(line)).map(|(line, _)| line).collect()
}

/// Runs both passes without each of these lines: some order of threads must give other bytes.
fn every_line_is_needed(device: &DeviceLab, text: &str, mut case: Case) {
    let lines = lines_of(text);
    for op in [case.forward(), case.backward()].map(Op::from) {
        let right = device.bytes_after(&op, &case.lab, 0, 0);
        for line in &lines {
            let is_found = (0..ORDERS).any(|order| device.bytes_after(&op, &case.lab, order, *line) != right);
            assert!(is_found, "{op:?} gives the same bytes without line {line}");
        }
        DeviceLab::keep(&right, &mut case.lab);
    }
}

#[test]
fn without_any_one_barrier_or_wait_some_order_gives_other_bytes() {
    let test = "without_any_one_barrier_or_wait_some_order_gives_other_bytes";
    let Some(device) = DeviceLab::open(test) else { return };
    let text = include_str!("../../../kernels/attention_tiles.h");
    assert_eq!(lines_of(text).len(), 2);
    assert_eq!(lines_of(include_str!("../../../kernels/attention.cu")).len(), 0);
    // Three tiles and more, so that both of a matrix are used again.
    for width in [64, 128] {
        for causal in [false, true] {
            every_line_is_needed(&device, text, Case::new((1, 200, 1, 1, causal), width, Dtype::Bf16));
        }
    }
    let text = include_str!("../../../kernels/attention_plain.cu");
    assert_eq!(lines_of(text).len(), 4);
    for dtype in [Dtype::F64, Dtype::F32] {
        every_line_is_needed(&device, text, Case::new((1, 65, 1, 1, false), 64, dtype));
    }
}

/// The barrier before gradients of scores are read by other warps, and that before the next block of keys comes into shared memory.
#[test]
fn barriers_of_gradients_are_needed() {
    let Some(device) = DeviceLab::open("barriers_of_gradients_are_needed") else { return };
    let lines = lines_of(include_str!("../../../kernels/attention_gradient.cu"));
    let [before_keys, before_queries] = lines[..] else { panic!("{lines:?}") };
    let cases = [(before_queries, 64, 1), (before_queries, 128, 1), (before_keys, 64, 2), (before_keys, 128, 2)];
    for (line, width, blocks) in cases {
        let mut case = Case::new((1, 100 * blocks, 1, 1, true), width, Dtype::Bf16);
        // As after a forward pass.
        case.change(case.op.output, |_, _| 0.25);
        case.change(case.op.log_sum, |_, _| 1.0);
        let bytes =
            |order, without| super::parts::after(&device, super::parts::joined(&case, blocks), &case, order, without);
        let right = bytes(0, 0);
        assert!((0..ORDERS).any(|order| bytes(order, line) != right), "the same bytes without line {line}");
    }
}

/// A device has at most 2048 blocks at once: the others' work comes after theirs.
#[test]
fn more_heads_than_blocks_are_all_computed() {
    let Some(device) = DeviceLab::open("more_heads_than_blocks_are_all_computed") else { return };
    let mut case = Case::new((683, 2, 3, 1, true), 64, Dtype::F16);
    for op in [case.forward(), case.backward()].map(Op::from) {
        let bytes = device.bytes_after(&op, &case.lab, 0, 0);
        DeviceLab::keep(&bytes, &mut case.lab);
    }
    case.check(AttentionKernel::TensorCores);
}

/// No overflow; and a row that sees one key gives its value.
#[test]
fn large_scores_are_fine() {
    let Some(device) = DeviceLab::open("large_scores_are_fine") else { return };
    for (dtype, width) in [(Dtype::Bf16, 64), (Dtype::F16, 128), (Dtype::F32, 4), (Dtype::F64, 4)] {
        let mut case = Case::new((1, 40, 1, 1, true), width, dtype);
        case.change(case.op.qkv, |_, x| 60.0 * x);
        with(&device, || case.run());
        let (qkv, output) = (case.lab.get(case.op.qkv), case.lab.get(case.op.output));
        assert_eq!(output[..width], qkv[2 * width..3 * width], "{dtype}");
        assert!(output.iter().chain(&case.lab.get(case.d_qkv)).all(|x| x.is_finite()), "{dtype}");
    }
}

/// A tile's rows behind the last key are zeros, whose score is far above those of keys that no query likes.
#[test]
fn keys_that_are_not_there_have_no_weight() {
    let Some(device) = DeviceLab::open("keys_that_are_not_there_have_no_weight") else { return };
    for (dtype, width) in [(Dtype::Bf16, 64), (Dtype::F16, 128), (Dtype::F32, 4)] {
        let mut case = Case::new((1, 40, 1, 1, false), width, dtype);
        case.change(case.op.qkv, |at, x| [8.0, -8.0, x][at / width % 3]);
        with(&device, || case.run());
        assert!(case.lab.get(case.op.log_sum).iter().all(|log| *log < -100.0), "{dtype}");
        let all = [case.op.output, case.d_qkv].map(|view| case.lab.get(view)).concat();
        assert!(all.iter().all(|x| x.is_finite()), "{dtype}");
    }
}

/// A key that is not a number reaches every row that sees it, and no other.
#[test]
fn what_is_not_a_number_is_not_hidden() {
    let Some(device) = DeviceLab::open("what_is_not_a_number_is_not_hidden") else { return };
    for (dtype, width) in [(Dtype::Bf16, 64), (Dtype::F32, 8)] {
        let mut case = Case::new((1, 70, 1, 1, true), width, dtype);
        case.change(case.op.qkv, |at, x| if at == 50 * 3 * width + width { f64::NAN } else { x });
        with(&device, || case.lab.run(case.forward()));
        for (row, output) in case.lab.get(case.op.output).chunks(width).enumerate() {
            assert!(output.iter().all(|x| x.is_nan() == (row >= 50)), "{dtype}, row {row}");
        }
    }
}

fn said(device: &DeviceLab, case: &Case, op: &Dense) -> ProductError {
    let op = op.clone().into();
    let loaded = device.load(&case.lab, Train::scratch_bytes(&op, case.lab.element.bytes() as usize));
    device.train.run(&op, &loaded.context()).unwrap_err()
}

#[test]
fn what_no_kernel_has_is_named() {
    let Some(device) = DeviceLab::open("what_no_kernel_has_is_named") else { return };
    let case = Case::new((1, 4, 2, 1, true), 64, Dtype::Bf16);
    let of = |change: &dyn Fn(&mut Attention)| {
        let mut op = case.op.clone();
        change(&mut op);
        let error = said(&device, &case, &Dense::AttentionForward(op));
        (error.is_lacking(), error.to_string())
    };
    let wide = "no kernel has attention with heads of 257 features; valid values: 1 to 256";
    assert_eq!(of(&|op| op.head_width = 257), (true, wide.to_owned()));
    assert!(of(&|op| op.head_width = 0).1.contains("heads of 0 features"));
    let uneven = "an operation was refused: 2 query heads are not shared evenly by 3 of keys";
    assert_eq!(of(&|op| op.kv_heads = 3), (false, uneven.to_owned()));
    assert!(!of(&|op| op.kv_heads = 0).0);
    assert!(of(&|op| op.sequence = 1 << 31).1.ends_with("over 2147483648 rows; at most 2147483647"));
    assert!(of(&|op| op.sequence = 1 << 26).1.ends_with("with samples of 17179869184 numbers"));
    assert!(of(&|op| op.batch = 2).1.contains("has 512 elements of bf16, and needs 1024"));
    let short = of(&|op| op.log_sum = op.log_sum.part(0, 7)).1;
    assert!(short.ends_with("the log of the sum has 7 elements of f32, and needs 8 of f32"), "{short}");
    let crooked = of(&|op| op.qkv.offset -= 4).1;
    assert!(crooked.ends_with("of attention does not begin at a multiple of 16 bytes"), "{crooked}");
    let whole = Case::new((1, 4, 1, 1, true), 8, Dtype::I32);
    let error = said(&device, &whole, &whole.forward());
    assert_eq!(error.to_string(), "no kernel has attention of i32");
    let backward = Op::from(case.backward());
    // A number of each row of two heads, and a part of the gradients of queries.
    assert_eq!(Train::scratch_bytes(&backward, 2), 4 * 2 * 4 + 4 * 2 * 4 * 64);
    assert_eq!(Train::scratch_bytes(&backward, 4), 4 * 2 * 4);
    assert_eq!(Train::scratch_bytes(&case.forward().into(), 2), 0);
    let error = device.train.run(&backward, &device.load(&case.lab, 31).context()).unwrap_err();
    assert!(error.to_string().ends_with("scratch memory has 31 bytes, and needs 32"), "{error}");
    let error = device.train.run(&backward, &device.load(&case.lab, 2079).context()).unwrap_err();
    assert!(error.to_string().ends_with("scratch memory has 2079 bytes, and needs 2080"), "{error}");
}

/// A GPU before sm_80 has no such products of tensor cores: it runs what every GPU runs.
#[test]
fn old_gpus_run_the_plain_kernels() {
    const NAME: &str = "attention::limits::old_gpus_run_the_plain_kernels";
    const CAPABILITY: &str = "FAKE_CUDA_CAPABILITY";
    let Some(device) = DeviceLab::open(NAME) else { return };
    #[allow(clippy::disallowed_methods, reason = "the fake's own variable, of this test's child")]
    let is_child = std::env::var_os(CAPABILITY).is_some();
    if !is_child {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let ended = child.args(["--exact", NAME]).env(CAPABILITY, "75").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    for dtype in [Dtype::Bf16, Dtype::F16] {
        let mut case = Case::new((1, 33, 2, 1, true), 64, dtype);
        assert_eq!(device.train.attention_kernel(&case.op, dtype), Ok(AttentionKernel::Plain));
        with(&device, || case.run());
        case.check(AttentionKernel::Plain);
    }
}

/// Each text is for the oldest GPU that can run it, and none adds in an order that may change.
#[test]
fn texts_are_for_old_drivers_and_sums_have_an_order() {
    for (text, target) in [(ATTENTION, "sm_80"), (ATTENTION_GRADIENT, "sm_80"), (ATTENTION_PLAIN, "sm_70")] {
        let target = format!(".target {target}\n");
        assert!(text.contains(".version 7.8\n") && text.contains(&target));
        assert!(!text.contains("\tatom.") && !text.contains("\tred."));
    }
    for product in ["f32.bf16.bf16.f32", "f32.f16.f16.f32"] {
        let product = format!("mma.sync.aligned.m16n8k16.row.col.{product}");
        assert!(ATTENTION.contains(&product) && ATTENTION_GRADIENT.contains(&product));
    }
}

/// To load kernels takes memory, which a capture refuses: they are there before.
#[test]
fn passes_are_captured_once_their_kernels_are_loaded() {
    let Some(device) = DeviceLab::open("passes_are_captured_once_their_kernels_are_loaded") else { return };
    for (dtype, width) in [(Dtype::F16, 64), (Dtype::F16, 40)] {
        let mut case = Case::new((1, 20, 1, 1, true), width, dtype);
        let passes = [case.forward(), case.backward()].map(Op::from);
        let loaded = device.load(&case.lab, Train::scratch_bytes(&passes[1], 2));
        let capture = |train: &Train| {
            device.gpu.begin_capture(None).unwrap();
            let ran = passes.iter().try_for_each(|op| train.run(op, &loaded.context()));
            (ran, device.gpu.end_capture(None))
        };
        let train = Train::load(&device.gpu).unwrap();
        let (ran, graph) = capture(&train);
        assert!(ran.unwrap_err().to_string().contains("STREAM_CAPTURE") && graph.is_err());
        passes.iter().for_each(|op| train.prepare(op, &loaded.context()).unwrap());
        let (ran, graph) = capture(&train);
        ran.unwrap();
        graph.unwrap().launch(None).unwrap();
        DeviceLab::keep(&device.bytes_in(&loaded, 0), &mut case.lab);
        case.check(train.attention_kernel(&case.op, dtype).unwrap());
    }
}
