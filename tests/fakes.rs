//! Libraries of GPUs for machines without one: what the driver, NCCL, cuBLAS, cuDNN and NVML would do, on this host (`fakes/`). Built when they
//! are first asked for. What they prove is what this program passes to the libraries; never how fast a GPU is.
//!
//! Tests of several crates share this file as they share `skip.rs`.

#![allow(dead_code, reason = "each crate's tests use what they need of it")]
#![allow(clippy::disallowed_methods, reason = "a test finds compilers by itself")]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder with libcuda.so.1, libnccl.so.2, libcublasLt.so.12 and libcudnn.so.9; None where there is no compiler of C and C++, which is then listed as skipped.
pub(crate) fn folder(test: &str) -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(build).as_deref();
    if folder.is_none() {
        crate::skip::skip(test, "no C and C++ compilers (cc and c++)");
    }
    folder
}

/// How many of NVML's functions a driver has.
#[derive(Clone, Copy)]
pub(crate) enum Driver {
    /// Only those that every driver has.
    Bare = 0,
    /// Those of old drivers, under their old names.
    Old = 1,
    New = 2,
}

/// The folder with libnvidia-ml.so.1 of such a driver; None where there is no compiler of C, which is then listed as skipped.
pub(crate) fn nvml(test: &str, driver: Driver) -> Option<PathBuf> {
    let source = sources().join("nvml.c");
    let folder = built(&[&source]).join(format!("nvml-{}", driver as u8));
    let made = library(&folder, "libnvidia-ml.so.1", "cc", &[&format!("-DAGE={}", driver as u8)], &source);
    if !made {
        crate::skip::skip(test, "no C compiler (cc)");
    }
    made.then_some(folder)
}

/// An MPI library that knows of the fake's GPUs, before Debian's Open MPI; None where that or a compiler of C lacks.
pub(crate) fn mpi(test: &str) -> Option<PathBuf> {
    let source = sources().join("mpi.c");
    let folder = built(&[&source]);
    let has_library = Path::new("/usr/bin/mpirun.openmpi").exists();
    let made =
        has_library && library(&folder, "libmpi-gpu.so", "cc", &["-Wl,--no-as-needed", "-l:libmpi.so.40"], &source);
    if !made {
        crate::skip::skip(test, "no Open MPI (Debian: openmpi-bin), or no C compiler (cc)");
    }
    made.then(|| folder.join("libmpi-gpu.so"))
}

/// Stand-ins for cuDNN 9.1, which plans for a handle, and 9.13, which has attention as one operation without a mask: their folders below
/// that of the others.
pub(crate) const OLD_CUDNN: (&str, &str) = ("cudnn-9.1", "-DVERSION=90100");
pub(crate) const MIDDLE_CUDNN: (&str, &str) = ("cudnn-9.13", "-DVERSION=91300");

fn older_cudnn(folder: &Path, (name, version): (&str, &str), source: &Path) -> bool {
    let Some(crates) = crates().to_str() else { return false };
    library(&folder.join(name), "libcudnn.so.9", "c++", &["-std=c++17", "-O2", version, "-I", crates], source)
}

fn build() -> Option<PathBuf> {
    let of_device = ["check.cu", "loops.cu"].map(|name| crates().join("device/kernels").join(name));
    let of_engine = [
        "number.h",
        "pack.h",
        "tensor.h",
        "attention.h",
        "rows.cu",
        "train.cu",
        "attention_tiles.h",
        "attention.cu",
        "attention_gradient.cu",
        "attention_plain.cu",
        "spatial.cu",
        "norm.cu",
    ]
    .map(|name| crates().join("engine/kernels").join(name));
    let names = [
        "cuda.cpp",
        "driver.h",
        "emulate.h",
        "block.h",
        "warp.h",
        "nccl.c",
        "cublaslt.cpp",
        "cudnn.cpp",
        "train.h",
        "attention.h",
        "spatial.h",
        "norm.h",
    ];
    let path = |name: &str| sources().join(name);
    let sources = names.map(path);
    // Threads of a block jump between their stacks, which checked longjmp refuses.
    let cuda = ["-std=c++17", "-U_FORTIFY_SOURCE", "-I", crates().to_str()?];
    let folder = built(&sources.iter().chain(&of_device).chain(&of_engine).collect::<Vec<_>>());
    let compiled = [
        library(&folder, "libcuda.so.1", "c++", &cuda, &path("cuda.cpp")),
        library(&folder, "libcublasLt.so.12", "c++", &["-std=c++17", "-O2"], &path("cublaslt.cpp")),
        library(&folder, "libcudnn.so.9", "c++", &["-std=c++17", "-O2", "-I", crates().to_str()?], &path("cudnn.cpp")),
        older_cudnn(&folder, OLD_CUDNN, &path("cudnn.cpp")),
        older_cudnn(&folder, MIDDLE_CUDNN, &path("cudnn.cpp")),
        library(&folder, "libnccl.so.2", "cc", &["-fwrapv"], &path("nccl.c")),
        library(&folder.join("old"), "libnccl.so.2", "cc", &["-fwrapv", "-DOLD"], &path("nccl.c")),
    ];
    compiled.iter().all(|made| *made).then_some(folder)
}

fn crates() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates")
}

fn sources() -> PathBuf {
    crates().parent().expect("the repository").join("tests/fakes")
}

/// Where libraries of these sources are built. Sources that changed have another folder: other runs of the tests may have the
/// old libraries open.
fn built(sources: &[&PathBuf]) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    for path in sources {
        std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).hash(&mut hasher);
    }
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fakes-{:016x}", hasher.finish()))
}

/// Whether the library is there: it is built under another name and renamed, since other processes may be building it, too.
fn library(folder: &Path, name: &str, compiler: &str, arguments: &[&str], source: &Path) -> bool {
    let (made, building) = (folder.join(name), folder.join(format!("{name}-{}", std::process::id())));
    if made.exists() {
        return true;
    }
    std::fs::create_dir_all(folder).expect("a folder for built libraries");
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-O1", "-pthread"]).args(arguments);
    // Found by this name once it is open.
    command.arg(format!("-Wl,-soname,{name}")).arg("-o").arg(&building).arg(source).arg("-ldl");
    let Ok(built) = command.output() else { return false };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    std::fs::rename(&building, &made).expect("the library in its place");
    true
}
