//! Single operations with buffers of their own: that each kernel has one, which computes, and is told by its shape.

use std::sync::Arc;

use engine::{Device, Host, KERNELS, Loaded, Matmul, Memory, OperationShape, Sample};
use terms::Dtype;

/// Small sizes of each kernel.
fn dims(kernel: &str) -> &'static [u64] {
    match kernel {
        "product_nn" | "product_nt" => &[5, 7, 9, 0, 4],
        "product_tn" | "product_tt" => &[5, 7, 9, 1, 4],
        "attention_forward" | "attention_backward" => &[2, 6, 4, 2, 8, 1],
        "fill" | "add" | "relu_forward" | "relu_backward" | "sum_squares" => &[37],
        "convert" => &[37, 2],
        "dropout" => &[36, 12],
        "gelu_forward" | "gelu_backward" => &[37, 0],
        "column_sum" | "add_bias" | "swiglu_forward" | "swiglu_backward" => &[5, 24],
        "norm_forward" | "norm_backward" => &[5, 24, 1],
        "rotary" => &[6, 4, 2, 8, 3],
        "embedding_forward" | "embedding_backward" => &[9, 16, 11, 1, 1],
        "cross_entropy" | "cross_entropy_largest" | "cross_entropy_sum" | "cross_entropy_finish" => &[5, 16, 11],
        "conv_forward" | "conv_backward_input" | "conv_backward_weight" => &[2, 3, 4, 3, 2, 1, 9, 8],
        "batch_norm_parameters" => &[8],
        "max_pool_forward" | "max_pool_backward" | "average_pool_forward" | "average_pool_backward" => {
            &[2, 3, 3, 2, 1, 9, 8]
        }
        "batch_norm_sum" | "batch_norm_backward" => &[10, 8, 0],
        "sgd" => &[37, 1, 2],
        "adamw" => &[37, 2],
        "begin_norm" | "judge" | "end_step" => &[],
        _ => &[10, 8, 1],
    }
}

/// Runs a sample, and gives the bits of what it wrote after each call.
fn calls(sample: &Sample, seed: u64, count: usize) -> Vec<Vec<u8>> {
    let host = Host::new(1, &[], Matmul::Fma).unwrap();
    let regions: Vec<_> = sample.program.buffers.iter().map(|buffer| host.alloc(buffer.bytes()).unwrap()).collect();
    let memory = Memory::new(&sample.program.buffers, regions.iter().map(|region| region.whole()).collect());
    let mut loaded = host.load(&Arc::new(sample.program.clone()), memory, 1).unwrap();
    // SAFETY: nothing else uses this memory.
    unsafe { sample.fill(&mut *loaded, seed) }.unwrap();
    let call = |_| {
        // SAFETY: as above.
        unsafe { loaded.run(0..1, 1) }.unwrap();
        written(sample, &*loaded)
    };
    (0..count).map(call).collect()
}

fn written(sample: &Sample, loaded: &dyn Loaded) -> Vec<u8> {
    let mut all = Vec::new();
    for view in sample.written() {
        // SAFETY: nothing runs.
        unsafe { loaded.read(*view, &mut |bytes| all.extend_from_slice(bytes)) }.unwrap();
        let floats =
            |bytes: &[u8]| bytes.chunks_exact(4).all(|four| f32::from_ne_bytes(four.try_into().unwrap()).is_finite());
        if sample.program.dtype(*view) == Dtype::F32 {
            // SAFETY: nothing runs.
            unsafe { loaded.read(*view, &mut |bytes| assert!(floats(bytes), "{:?}: no number", sample.op())) }.unwrap();
        }
    }
    all
}

#[test]
fn every_kernel_runs_on_what_its_sample_holds() {
    for (kernel, takes) in KERNELS {
        let sample = Sample::new(kernel, dims(kernel), Dtype::F32).unwrap_or_else(|why| panic!("{kernel}: {why}"));
        let shape = OperationShape::of(&sample.program, sample.op());
        assert_eq!((shape.kernel, shape.dims.as_slice()), (*kernel, dims(kernel)), "{takes}");
        let (one, other) = (calls(&sample, 1, 2), calls(&sample, 2, 1));
        assert_eq!(one[0] == one[1], sample.is_idempotent() || one[0] == calls(&sample, 1, 3)[2], "{kernel}");
        assert!(!sample.written().is_empty(), "{kernel}");
        assert_eq!(one[0] != other[0], sample.depends_on_inputs(), "{kernel}");
    }
}

#[test]
fn kernels_run_in_every_type_that_is_computed_with() {
    for dtype in [Dtype::F32, Dtype::F64, Dtype::Bf16, Dtype::F16] {
        for (kernel, _) in KERNELS {
            let mut sizes = dims(kernel).to_vec();
            if kernel.starts_with("product") {
                sizes[4] = if dtype == Dtype::F64 { 8 } else { 4 };
            }
            // Masters in f64 are computed with themselves.
            if dtype == Dtype::F64 && ["sgd", "adamw"].contains(kernel) {
                *sizes.last_mut().unwrap() = 0;
            }
            let sample = Sample::new(kernel, &sizes, dtype).unwrap_or_else(|why| panic!("{kernel} {dtype}: {why}"));
            calls(&sample, 1, 1);
        }
    }
}

#[test]
fn what_is_no_operation_is_refused_in_words() {
    for (kernel, dims, said) in [
        ("product", &[1, 1, 1][..], "no such kernel"),
        ("product_nn", &[1, 1, 1], "3 sizes, not 5"),
        ("product_nn", &[1, 1, 1, 0, 3], "2 or 4 bytes"),
        ("product_nn", &[0, 1, 1, 0, 4], "no element"),
        ("product_nn", &[1 << 33, 1 << 33, 1, 0, 4], "more than"),
        ("add", &[u64::MAX], "more than"),
        ("dropout", &[10, 3], "not rows of 3"),
        ("attention_forward", &[1, 4, 3, 2, 8, 1], "not a multiple"),
        ("rotary", &[4, 2, 2, 3, 4], "pairs of features"),
        ("cross_entropy", &[4, 8, 9], "no 9 classes"),
        ("conv_forward", &[1, 1, 1, 5, 1, 0, 3, 3], "does not fit"),
        ("conv_forward", &[1, 1, 1, 3, 0, 0, 3, 3], "does not fit"),
        ("convert", &[4, 3], "3 bytes"),
        ("adamw", &[4, 3], "not 3"),
        ("batch_norm_sum", &[4, 3, 1], "neither"),
    ] {
        let dtype = if said.starts_with("2 or") { Dtype::Bf16 } else { Dtype::F32 };
        let why = Sample::new(kernel, dims, dtype).unwrap_err();
        assert!(why.contains(said), "{kernel} {dims:?}: {why}");
    }
    assert!(Sample::new("add", &[4], Dtype::I32).unwrap_err().contains("not computed with"));
}
