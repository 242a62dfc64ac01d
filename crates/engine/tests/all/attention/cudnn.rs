//! Attention by cuDNN's graphs: computed by the library of tests/fakes, operation by operation, and planned by the real one where
//! RANKMARK_TEST_CUDNN names it, for an H100 that is only described.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use device::library::{Library, Visibility};
use engine::cuda::{AttentionKernel, Cudnn, CudnnAttention, CudnnDevice, CudnnPass, ProductError};
use engine::op::Dense;
use terms::Dtype;

use super::{Case, Shape};
use crate::rows::on_device::{DeviceLab, Loaded};
use crate::{fakes, skip};

/// Where a sequence is even, the fake takes the forward pass as one operation.
const SHAPES: [Shape; 5] =
    [(1, 1, 1, 1, true), (2, 7, 3, 3, false), (1, 20, 2, 2, true), (2, 33, 1, 1, true), (2, 6, 2, 2, false)];

/// The library of tests/fakes, on a device.
pub(crate) fn open(test: &str) -> Option<(std::rc::Rc<DeviceLab>, Arc<Cudnn>)> {
    let device = DeviceLab::open(test)?;
    let library = Cudnn::open(&fakes::folder(test)?.join("libcudnn.so.9")).unwrap();
    assert_eq!(library.version(), "9.26.0");
    Some((device, library))
}

/// An older one, of tests/fakes.
fn older(test: &str, (name, _): (&str, &str)) -> Option<(std::rc::Rc<DeviceLab>, Arc<Cudnn>)> {
    let device = DeviceLab::open(test)?;
    Some((device, Cudnn::open(&fakes::folder(test)?.join(name).join("libcudnn.so.9")).unwrap()))
}

/// cuDNN 9.1 makes no description of a device, and plans for a handle; up to 9.20, a causal mask is a graph of its own.
#[test]
fn older_libraries_compute_attention() {
    for (of, version, singles) in
        [(fakes::OLD_CUDNN, "9.1.0", [false, false]), (fakes::MIDDLE_CUDNN, "9.13.0", [false, true])]
    {
        let Some((device, library)) = older("older_libraries_compute_attention", of) else { return };
        assert_eq!(library.version(), version);
        let on = Arc::new(CudnnDevice::of(&library, &device.gpu).unwrap());
        for (causal, is_single) in [true, false].into_iter().zip(singles) {
            let mut case = Case::new((2, 20, 2, 2, causal), 16, Dtype::Bf16);
            let planned = CudnnAttention::plan(&on, &case.op, Dtype::Bf16, CudnnPass::Forward).unwrap();
            assert_eq!(planned.is_single(), is_single, "{version}, causal {causal}");
            run(&device, &on, &mut case, CudnnPass::Forward);
            run(&device, &on, &mut case, CudnnPass::Backward);
            case.check(AttentionKernel::TensorCores);
        }
    }
    let Some((_, library)) = older("older_libraries_compute_attention", fakes::OLD_CUDNN) else { return };
    let error = CudnnDevice::described(&library, "{}").unwrap_err();
    assert!(error.is_lacking(), "{error}");
    assert_eq!(error.to_string(), "the descriptor of a device (38) needs cuDNN 9.8, and 9.1.0 was found");
}

/// Runs a pass with exactly the scratch memory that it says it needs.
fn run(device: &DeviceLab, on: &Arc<CudnnDevice>, case: &mut Case, pass: CudnnPass) {
    let op = if pass == CudnnPass::Forward { case.forward() } else { case.backward() };
    let planned = CudnnAttention::plan(on, &case.op, case.lab.element, pass).unwrap();
    let loaded = device.load(&case.lab, planned.scratch_bytes());
    planned.run(&op, &loaded.context()).unwrap();
    DeviceLab::keep(&device.bytes_in(&loaded, 0), &mut case.lab);
}

#[test]
fn graphs_compute_attention() {
    let Some((device, library)) = open("graphs_compute_attention") else { return };
    let on = Arc::new(CudnnDevice::of(&library, &device.gpu).unwrap());
    for dtype in [Dtype::Bf16, Dtype::F16] {
        for (shape, width) in SHAPES.into_iter().zip([8, 16, 64, 24, 16]) {
            let mut case = Case::new(shape, width, dtype);
            let planned = CudnnAttention::plan(&on, &case.op, dtype, CudnnPass::Forward).unwrap();
            assert_eq!(planned.is_single(), shape.1 % 2 == 0);
            run(&device, &on, &mut case, CudnnPass::Forward);
            run(&device, &on, &mut case, CudnnPass::Backward);
            case.check(AttentionKernel::TensorCores);
        }
    }
}

/// Where several heads of queries read one of keys, the forward pass has a graph.
#[test]
fn heads_share_keys_in_the_forward_pass_only() {
    let Some((device, library)) = open("heads_share_keys_in_the_forward_pass_only") else { return };
    let on = Arc::new(CudnnDevice::of(&library, &device.gpu).unwrap());
    let mut shared = Case::new((1, 9, 4, 2, true), 8, Dtype::F16);
    run(&device, &on, &mut shared, CudnnPass::Forward);
    let mut own = Case::new((1, 9, 4, 2, true), 8, Dtype::F16);
    let forward = own.forward();
    crate::rows::on_device::with(&device, || own.lab.run(forward));
    let [found, wanted] = [&shared, &own].map(|case| case.lab.get(case.op.output));
    let off = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    // Each is off by its own rounding of numbers below 3: 2^-10 at most.
    assert!(off <= 2.0 * 2f64.powi(-10), "{off}");
    let error = CudnnAttention::plan(&on, &shared.op, Dtype::F16, CudnnPass::Backward).unwrap_err();
    assert!(
        error.is_lacking() && error.to_string().contains("as many heads of keys as of queries: 2 and 4"),
        "{error}"
    );
}

#[test]
fn what_was_not_planned_is_refused() {
    let Some((device, library)) = open("what_was_not_planned_is_refused") else { return };
    let on = Arc::new(CudnnDevice::of(&library, &device.gpu).unwrap());
    let case = Case::new((1, 5, 1, 1, true), 8, Dtype::Bf16);
    let planned = CudnnAttention::plan(&on, &case.op, Dtype::Bf16, CudnnPass::Backward).unwrap();
    let loaded = device.load(&case.lab, planned.scratch_bytes());
    let said = |op: &Dense, loaded: &Loaded| planned.run(op, &loaded.context()).unwrap_err().to_string();
    assert!(said(&case.forward(), &loaded).contains("was not planned"));
    let longer = Case::new((1, 6, 1, 1, true), 8, Dtype::Bf16);
    assert!(said(&longer.backward(), &loaded).contains("was not planned"));
    let mut short = case.op.clone();
    short.log_sum = short.log_sum.part(0, 4);
    let short = Dense::AttentionBackward { forward: short, d_output: case.d_output, d_qkv: case.d_qkv };
    assert!(said(&short, &loaded).contains("has 4 elements of f32, and needs 5 of f32"));
    let little = device.load(&case.lab, planned.scratch_bytes() - 1);
    assert!(said(&case.backward(), &little).contains("scratch memory has"));
    let crooked = engine::View { offset: case.d_qkv.offset - 4, ..case.d_qkv };
    let crooked = Dense::AttentionBackward { forward: case.op.clone(), d_output: case.d_output, d_qkv: crooked };
    assert!(said(&crooked, &loaded).contains("does not begin at a multiple of 16 bytes"));
    let error = CudnnAttention::plan(&on, &case.op, Dtype::F32, CudnnPass::Forward).unwrap_err();
    assert!(matches!(error, ProductError::Unsupported(_)), "{error}");
    let described = Arc::new(CudnnDevice::described(&library, "{}").unwrap());
    let planned = CudnnAttention::plan(&described, &case.op, Dtype::Bf16, CudnnPass::Forward).unwrap();
    let error = planned.run(&case.forward(), &loaded.context()).unwrap_err();
    assert!(error.to_string().contains("only described"), "{error}");
}

/// An H100 as the library describes devices to itself.
const H100: &str = r#"{"cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000, "isTccDriver": 0, "l2CacheSize": 52428800,
"maxCtasPerSM": 32, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
"maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "memClockRateKHz": 2619000, "memoryBusWidth": 5120,
"multiProcessorCount": 132, "pciDeviceId": 9008, "regsPerBlock": 65536, "reservedSharedMemoryPerBlock": 1024,
"smClockRateKHz": 1980000, "supportCoopLaunch": 1, "totalGlobalMem": 84929347584, "warpSize": 32,
"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "smCountOrigin": 0,
"oversizedSharedMemoryPerBlock": 0, "deviceName": "NVIDIA H100 80GB HBM3"}"#;

/// A driver without a device, as far as the library asks for one while it plans: what it compiles "loads", and nothing runs.
const DRIVER: &str = "
#define LOADS(name) int name(void **to) { *to = (void *)8; return 0; }
#define DOES(name) int name(void) { return 0; }
#define NONE(name) int name(void) { return 100; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
LOADS(cuKernelGetFunction) LOADS(cuLibraryGetKernel) LOADS(cuLibraryLoadData) LOADS(cuModuleGetFunction) LOADS(cuModuleLoadData)
DOES(cuKernelGetAttribute) DOES(cuKernelSetAttribute) DOES(cuLibraryUnload) DOES(cuModuleUnload)
DOES(cuTensorMapEncodeIm2col) DOES(cuTensorMapEncodeTiled)
NONE(cuCtxGetCurrent) NONE(cuCtxGetLimit) NONE(cuCtxPopCurrent) NONE(cuCtxPushCurrent) NONE(cuDeviceGet) NONE(cuDeviceGetCount)
NONE(cuGetErrorName) NONE(cuGetErrorString) NONE(cuLaunchCooperativeKernel) NONE(cuLaunchKernel) NONE(cuLaunchKernelEx)
NONE(cuLibraryLoadFromFile) NONE(cuLinkAddData) NONE(cuLinkComplete) NONE(cuLinkCreate) NONE(cuLinkDestroy)
NONE(cuOccupancyMaxPotentialClusterSize) NONE(cuStreamGetCtx)
";

/// Opens a driver for the real library, which finds it by its name.
#[allow(clippy::disallowed_methods, reason = "a test finds a compiler by itself")]
fn open_driver() -> Result<(), String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("planning-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, library) = (folder.join("driver.c"), folder.join("libcuda.so.1"));
    std::fs::write(&source, DRIVER).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", "-o"]).args([&library, &source]);
    let built = compiler.output().map_err(|_| "no C compiler (cc)".to_owned())?;
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let opened = Library::open(&library, Visibility::Global).map(|_| ());
    std::fs::remove_dir_all(&folder).unwrap();
    opened
}

/// The real library and an H100 that is described to it.
pub(crate) fn planning(test: &str) -> Option<Arc<CudnnDevice>> {
    #[allow(clippy::disallowed_methods, reason = "where a library is, only a variable says")]
    let Some(path) = std::env::var_os("RANKMARK_TEST_CUDNN") else {
        skip::skip(test, "no cuDNN (hint: RANKMARK_TEST_CUDNN=PATH of libcudnn.so.9 from the wheel nvidia-cudnn-cu12)");
        return None;
    };
    if let Err(why) = open_driver() {
        skip::skip(test, &why);
        return None;
    }
    let library = Cudnn::open(Path::new(&path)).unwrap();
    Some(Arc::new(CudnnDevice::described(&library, H100).unwrap()))
}

fn library_is_since(device: &CudnnDevice, since: [u32; 2]) -> bool {
    let version = device.library().version();
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap());
    [parts.next().unwrap(), parts.next().unwrap()] >= since
}

#[test]
fn the_real_library_plans_both_passes_for_an_h100() {
    let Some(device) = planning("the_real_library_plans_both_passes_for_an_h100") else { return };
    let op = Case::new((1, 1, 1, 1, true), 64, Dtype::Bf16).op;
    for (causal, width) in [(true, 64), (false, 128)] {
        for pass in [CudnnPass::Forward, CudnnPass::Backward] {
            let op = engine::op::Attention {
                batch: 16,
                sequence: 1024,
                heads: 12,
                kv_heads: 12,
                causal,
                head_width: width,
                ..op.clone()
            };
            let planned = CudnnAttention::plan(&device, &op, Dtype::Bf16, pass).unwrap();
            if !causal || library_is_since(&device, [9, 21]) {
                assert_eq!(planned.is_single(), pass == CudnnPass::Forward);
            }
            let rows = 16 * 12 * 1024 * 4;
            let own = if pass == CudnnPass::Backward { rows + rows * width } else { 0 };
            let workspace = planned.scratch_bytes() - own;
            // Less than a number of each row: scores are not in memory.
            assert!(workspace < rows, "{pass:?}, causal {causal}, {width}: {workspace} bytes");
        }
    }
}
