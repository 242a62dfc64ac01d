//! Libraries of GPUs for machines without one: what the driver and NCCL would do, on this host's memory (`fakes/`). Built when they
//! are first asked for. What they prove is what this program passes to the libraries; never how fast a GPU is.
//!
//! Tests of several crates share this file as they share `skip.rs`.

#![allow(dead_code, reason = "each crate's tests use what they need of it")]
#![allow(clippy::disallowed_methods, reason = "a test finds compilers by itself")]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder with libcuda.so.1 and libnccl.so.2; None where there is no compiler of C and C++, which is then listed as skipped.
pub(crate) fn folder(test: &str) -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(build).as_deref();
    if folder.is_none() {
        crate::skip::skip(test, "no C and C++ compilers (cc and c++)");
    }
    folder
}

fn build() -> Option<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let (fakes, kernels) =
        (crates.parent().expect("the repository").join("tests/fakes"), crates.join("device/kernels"));
    // Sources that changed have another folder: other runs of the tests may have the old libraries open.
    let sources = ["cuda.cpp", "driver.h", "emulate.h", "nccl.c"].map(|name| fakes.join(name));
    let mut hasher = DefaultHasher::new();
    for path in sources.iter().chain(&["check.cu", "loops.cu"].map(|name| kernels.join(name))) {
        std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).hash(&mut hasher);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fakes-{:016x}", hasher.finish()));
    let compiled = [
        library(&folder, "libcuda.so.1", "c++", &["-std=c++17", "-I", kernels.to_str()?], &sources[0]),
        library(&folder, "libnccl.so.2", "cc", &["-fwrapv"], &sources[3]),
    ];
    compiled.iter().all(|made| *made).then_some(folder)
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
