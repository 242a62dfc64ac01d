//! Which tests PyTorch's ranks have, on which devices, and what they are sent.

use serde_json::Value;

use super::super::about::ABOUT;
use super::super::expand::complete;
use super::*;

fn cases(flags: &[(&str, &str)]) -> Result<Vec<Case>, String> {
    let mut plan = record::plan::from_flags(&ABOUT, flags, &[]).map_err(|error| error.to_string())?;
    complete(&mut plan);
    Ok(plan.cases)
}

const TORCH: (&str, &str) = ("runtime", "pytorch");
const GPU: (&str, &str) = ("device", "cuda");

fn recipe(case: &Case, name: &str) -> Value {
    case.settings["recipe"][name].clone()
}

fn tests(cases: &[Case]) -> Vec<String> {
    let mut tests: Vec<String> = cases.iter().filter_map(|case| case.text("test").map(str::to_owned)).collect();
    tests.dedup();
    tests
}

#[test]
fn gpus_are_measured_by_native_ranks() {
    let all = cases(&[GPU]).unwrap();
    let natively =
        ["copy", "triad", "device_copy", "host_to_device", "device_to_host", "host_both_ways", "host_latency"];
    assert_eq!(tests(&all)[..7], natively);
    for case in &all {
        assert_eq!((case.whole("threads"), &case.skip), (None, &None), "{case:?}");
        assert_eq!(case.world.get("device"), Some(&Value::from("cuda")), "other ranks than those of the CPU");
        assert_eq!((is_pytorch(case), case.text("backend")), (false, Some("nccl")), "{case:?}");
    }
    let of = |test: &str, field: &str| -> Vec<String> {
        let of_test = all.iter().filter(|case| case.text("test") == Some(test));
        let mut found: Vec<String> = of_test.filter_map(|case| case.text(field).map(str::to_owned)).collect();
        found.dedup();
        found
    };
    assert_eq!(of("gemm", "dtype"), ["f32", "bf16", "f64", "f16", "f8e4m3", "i8", "f32"]);
    assert_eq!(
        (of("gemm", "matmul"), of("fma", "dtype")),
        (vec!["tf32".to_owned()], vec!["f32".to_owned(), "f64".to_owned()])
    );
    let sizes: Vec<u64> =
        all.iter().filter(|case| case.text("test") == Some("triad")).filter_map(|case| case.whole("bytes")).collect();
    assert_eq!(sizes, [48 << 20, 384 << 20, 3 << 30]);
    assert_eq!(tests(&cases(&[GPU, ("quick", "true")]).unwrap())[..2], ["triad", "device_copy"]);
    let quick = cases(&[GPU, ("quick", "true")]).unwrap();
    assert_eq!(quick.iter().filter(|case| case.text("test") == Some("gemm")).count(), 2);
}

#[test]
fn who_asks_for_a_python_has_its_ranks_on_gpus() {
    for asked in [TORCH, ("python", "python3")] {
        let all = cases(&[GPU, asked]).unwrap();
        assert_eq!(tests(&all)[..5], ["copy", "triad", "gemm", "host_to_device", "device_to_host"], "{asked:?}");
        assert!(all.iter().all(is_pytorch));
        let backend =
            |test| cases(&[("test", test), GPU, asked, ("ranks", "2")]).unwrap()[0].text("backend").map(str::to_owned);
        assert_eq!([backend("triad"), backend("latency")], ["gloo", "nccl"].map(|name| Some(name.to_owned())));
    }
    // Both in one plan, and one test of each.
    let both =
        cases(&[("test", "gemm"), GPU, ("size", "1024"), ("runtime", "native,pytorch"), ("python", "/p/python3")]);
    let both = both.unwrap();
    assert_eq!(both.iter().map(is_pytorch).collect::<Vec<_>>(), [false, true]);
    assert_eq!(both[0].text("cublas_library"), Some("/p/python3"), "the library of the Python beside it");
    let both = cases(&[("test", "triad"), GPU, ("bytes", "48MiB"), ("runtime", "native,pytorch")]).unwrap();
    assert_eq!(both.iter().map(is_pytorch).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn tests_have_the_names_that_nvbandwidth_gives_them() {
    for (theirs, ours) in [
        ("host_to_device_memcpy_ce", "host_to_device"),
        ("host_to_device_bidirectional_memcpy_ce", "host_both_ways"),
        ("device_local_copy", "device_copy"),
        ("host_device_latency_sm", "host_latency"),
    ] {
        assert_eq!(cases(&[("test", theirs), GPU]).unwrap()[0].text("test"), Some(ours));
    }
}

#[test]
fn on_the_cpu_torch_has_what_has_a_torch_operation() {
    let mut tests: Vec<String> =
        cases(&[TORCH]).unwrap().iter().filter_map(|case| case.text("test").map(str::to_owned)).collect();
    tests.dedup();
    assert_eq!(tests, ["copy", "triad", "gemm", "latency", "bandwidth", "both_ways"]);
    let all = cases(&[TORCH, ("ranks", "5")]).unwrap();
    let ranks = |test: &str| all.iter().find(|case| case.text("test") == Some(test)).map(Case::ranks);
    let found = ["triad", "gemm", "latency"].map(ranks);
    assert_eq!(found, [1, 1, 5].map(Some), "without a name, `--ranks` counts for pairs");
    // Both runtimes in one plan: only the runtime differs.
    let pair = cases(&[("test", "triad"), ("bytes", "24KiB"), ("runtime", "native,pytorch")]).unwrap();
    let backends: Vec<Option<&str>> = pair.iter().map(|case| case.text("backend")).collect();
    assert_eq!(backends, [Some("shm"), Some("gloo")]);
    assert_eq!([0, 1].map(|of| pair[of].whole("bytes")), [Some(24 << 10); 2]);
}

#[test]
fn what_torch_lacks_is_refused_with_what_it_has() {
    for (flags, said) in [
        (
            vec![("test", "fma"), TORCH],
            "valid values: copy, scale, add, triad, gemm, latency, bandwidth, both_ways, all",
        ),
        (vec![("test", "numa"), GPU], "PyTorch ranks do not support test `numa` on `cuda`"),
        (vec![("test", "host_to_device")], "host_to_device moves data of a GPU"),
        (vec![("test", "host_latency"), GPU, TORCH], "test `host_latency` on `cuda`"),
        (vec![("test", "fma"), GPU, ("dtype", "bf16")], "fma on GPUs supports f32 and f64"),
        (vec![("test", "gemm"), ("dtype", "i8")], "i8 products need a GPU"),
        (vec![("test", "gemm"), GPU, TORCH, ("dtype", "i8")], "PyTorch ranks do not multiply i8"),
        (vec![("test", "gemm"), GPU, ("dtype", "f8e4m3"), ("size", "100")], "in multiples of 16"),
        (vec![("test", "gemm"), GPU, ("dtype", "bf16"), ("matmul", "tf32")], "tf32 applies to f32"),
        (vec![("test", "gemm"), ("tuned", "true")], "`tuned` is for products on GPUs"),
        (vec![("test", "triad"), GPU, ("cublas_library", "x")], "`cublas_library` is for products on GPUs"),
        (vec![("test", "triad"), GPU, ("backend", "shm"), ("runtime", "native")], "with `nccl`, not with `shm`"),
        (vec![("test", "host_to_device"), TORCH], "test `host_to_device` on `cpu`"),
        (vec![("test", "triad"), GPU, ("threads", "2")], "threads cannot be chosen on a GPU"),
        (
            vec![("test", "latency"), TORCH, ("inject", "delay:rank=1,time=5us")],
            "faults are injected into messages of native ranks",
        ),
        (vec![("test", "triad"), ("python", "python3")], "`python` is for runtime `pytorch`"),
        (vec![("test", "host_to_device"), GPU, ("size", "5")], "host_to_device does not use `size`"),
    ] {
        let why = cases(&flags).unwrap_err();
        assert!(why.contains(said), "{flags:?}: {why}");
    }
    let bound = cases(&[("test", "triad"), TORCH, ("bind", "core"), ("threads", "2")]).unwrap();
    assert!(bound[0].skip.as_ref().is_some_and(|why| why.contains("`bind: none`")), "{bound:?}");
}

#[test]
fn a_recipe_leaves_nothing_open() {
    let one = |flags: &[(&str, &str)]| cases(&[flags, &[TORCH]].concat()).unwrap().remove(0);
    let triad = one(&[("test", "triad"), ("bytes", "24KiB")]);
    assert_eq!([recipe(&triad, "elements"), recipe(&triad, "counted_bytes")], [1024, 24].map(Value::from));
    let product = recipe(&one(&[("test", "gemm"), ("size", "64"), ("dtype", "bf16"), ("ranks", "2")]), "product");
    assert_eq!([&product["m"], &product["k"], &product["ranks"]], [64, 64, 1], "each rank a product of its own");
    assert_eq!((&product["step"], &product["dtype"]), (&"compute_only".into(), &"bf16".into()));
    assert_eq!(product["flops"], 2.0 * 64f64.powi(3));
    let pairs = one(&[("test", "latency"), ("ranks", "4")]);
    assert_eq!(recipe(&pairs, "rounds").as_array().map(Vec::len), Some(3));
    assert_eq!([recipe(&pairs, "messages"), recipe(&pairs, "bytes")], [16, 8].map(Value::from));
}
