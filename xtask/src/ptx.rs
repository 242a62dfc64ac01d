//! The kernels' PTX text, made again from their source by NVRTC of CUDA 11.8: the last that writes ISA 7.8, which drivers from 520 on
//! read, and that still compiles for sm_70. Needs no GPU and no toolkit: the compiler comes from PyPI.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::experiments::printed;
use crate::test::target;
use crate::wheels;

const WHEELS: &[&str] = &["nvidia-cuda-nvrtc-cu11==11.8.89"];
/// The source, without its ending, and its text beside it.
const KERNELS: &str = "crates/device/kernels/check";

/// Calls the compiler: `python -c SCRIPT SOURCE` prints the text.
const SCRIPT: &str = r#"
import ctypes, glob, sys
library = ctypes.CDLL(glob.glob(sys.prefix + "/lib/python*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.*")[0])
program, size = ctypes.c_void_p(), ctypes.c_size_t()
def text(measure, get):
    measure(program, ctypes.byref(size))
    held = ctypes.create_string_buffer(size.value)
    get(program, held)
    return held.value.decode()
with open(sys.argv[1], "rb") as source:
    if library.nvrtcCreateProgram(ctypes.byref(program), source.read(), b"check.cu", 0, None, None):
        sys.exit("nvrtcCreateProgram failed")
options = [b"--gpu-architecture=compute_70", b"--std=c++17"]
code = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
sys.stderr.write(text(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog))
if code:
    sys.exit(code)
sys.stdout.write(text(library.nvrtcGetPTXSize, library.nvrtcGetPTX))
"#;

/// Makes the text again; `--check` only compares it. False where it differs, or cannot be made.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let checks = match words {
        [] => false,
        ["--check"] => true,
        _ => return Err("valid options: --check".to_owned()),
    };
    Ok(printed(made(root).and_then(|made| keep(root, &made, checks))))
}

fn made(root: &Path) -> Result<String, String> {
    let place = target(root).join("xtask/nvrtc");
    wheels::environment(&place, WHEELS, true, wheels::plain)?;
    let source = root.join(KERNELS).with_extension("cu");
    let mut command = Command::new(place.join("bin/python"));
    command.args(["-c", SCRIPT]).arg(&source).stdin(Stdio::null());
    let ended = command.output().map_err(|error| format!("{}: {error}", place.display()))?;
    if !ended.status.success() {
        return Err(format!("{}: {}", source.display(), String::from_utf8_lossy(&ended.stderr)));
    }
    String::from_utf8(ended.stdout).map_err(|error| error.to_string())
}

fn keep(root: &Path, made: &str, checks: bool) -> Result<String, String> {
    let path = root.join(KERNELS).with_extension("ptx");
    let held = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    match (held == made, checks) {
        (true, _) => Ok(format!("{}: as its source says\n", path.display())),
        (false, true) => Err(format!("{} is not what its source says: `cargo xtask ptx` makes it", path.display())),
        (false, false) => {
            std::fs::write(&path, made).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(format!("{}: made again\n", path.display()))
        }
    }
}
