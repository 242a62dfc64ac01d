//! The kernels' PTX text, made again from their source by NVRTC of CUDA 11.8: the last that writes ISA 7.8, which drivers from 520 on
//! read, and that still compiles for sm_70. Then assembled by ptxas for the GPUs that people have, as a driver would do it. Needs
//! no GPU and no toolkit: both programs come from PyPI.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::experiments::printed;
use crate::ledger::{Ending, Ledger};
use crate::test::target;
use crate::wheels;

const WHEELS: &[&str] = &["nvidia-cuda-nvrtc-cu11==11.8.89"];
/// The assembler of CUDA 12.9, which knows GPUs from Maxwell to Blackwell.
const ASSEMBLER: &[&str] = &["nvidia-cuda-nvcc-cu12==12.9.86"];
/// Turing, Ampere, Ada, Hopper, Blackwell.
const GPUS: [&str; 6] = ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"];
/// The sources, without their ending; their texts lie beside them.
const KERNELS: [&str; 4] = [
    "crates/device/kernels/check",
    "crates/device/kernels/loops",
    "crates/engine/kernels/rows",
    "crates/engine/kernels/train",
];

/// Calls the compiler: `python -c SCRIPT SOURCE` prints the text.
const SCRIPT: &str = r#"
import ctypes, glob, os, sys
library = ctypes.CDLL(glob.glob(sys.prefix + "/lib/python*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.*")[0])
program, size = ctypes.c_void_p(), ctypes.c_size_t()
def text(measure, get):
    measure(program, ctypes.byref(size))
    held = ctypes.create_string_buffer(size.value)
    get(program, held)
    return held.value.decode()
with open(sys.argv[1], "rb") as source:
    if library.nvrtcCreateProgram(ctypes.byref(program), source.read(), b"kernels.cu", 0, None, None):
        sys.exit("nvrtcCreateProgram failed")
# Headers lie beside the source.
options = [b"--gpu-architecture=compute_70", b"--std=c++17", b"-I" + os.path.dirname(sys.argv[1]).encode()]
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
    let tools = Tools::install(root, true)?;
    let kept = kept(root, &tools, checks);
    Ok(printed(kept.and_then(|kept| Ok(kept + &assembled(root, &tools)?))))
}

/// The same as a step of the gate. Without the programs it is skipped, with the reason.
pub(crate) fn check(root: &Path, may_install: bool, ledger: &mut Ledger) {
    match Tools::install(root, may_install) {
        Err(why) => ledger.skip("kernels", why),
        Ok(tools) => ledger.step("kernels", || {
            let ended = kept(root, &tools, true).and_then(|_| assembled(root, &tools));
            (ended.map_or_else(Ending::Failed, |_| Ending::Passed), None)
        }),
    }
}

/// Where the programs lie.
struct Tools {
    nvrtc: PathBuf,
    ptxas: PathBuf,
}

impl Tools {
    fn install(root: &Path, may_install: bool) -> Result<Self, String> {
        let install = |folder: &str, wheels| {
            let place = std::path::absolute(target(root).join(folder)).map_err(|error| error.to_string())?;
            wheels::environment(&place, wheels, may_install, wheels::plain).map(|()| place)
        };
        let (nvrtc, assembler) = (install("xtask/nvrtc", WHEELS)?, install("xtask/ptxas", ASSEMBLER)?);
        let libraries = std::fs::read_dir(assembler.join("lib")).map_err(|error| error.to_string())?;
        let below = "site-packages/nvidia/cuda_nvcc/bin/ptxas";
        let ptxas = libraries.flatten().map(|python| python.path().join(below)).find(|path| path.is_file());
        Ok(Self { nvrtc, ptxas: ptxas.ok_or("the wheel has no ptxas")? })
    }
}

/// Makes each text again. What was done with it, a line each.
fn kept(root: &Path, tools: &Tools, checks: bool) -> Result<String, String> {
    KERNELS.iter().map(|kernels| keep(&root.join(kernels), &made(&root.join(kernels), tools)?, checks)).collect()
}

/// Takes the texts through ptxas for each GPU: they must be accepted, and no kernel may spill registers into memory.
fn assembled(root: &Path, tools: &Tools) -> Result<String, String> {
    let mut found = String::new();
    for (kernels, gpu) in KERNELS.iter().flat_map(|kernels| GPUS.map(|gpu| (*kernels, gpu))) {
        let text = root.join(kernels).with_extension("ptx");
        let mut command = Command::new(&tools.ptxas);
        command.args(["--verbose", "--gpu-name", gpu, "--output-file", "/dev/null"]).arg(&text).stdin(Stdio::null());
        let ended = command.output().map_err(|error| format!("{}: {error}", tools.ptxas.display()))?;
        let said = String::from_utf8_lossy(&ended.stderr).into_owned() + &String::from_utf8_lossy(&ended.stdout);
        if !ended.status.success() {
            return Err(format!("ptxas for {gpu}: {said}"));
        }
        let count = without_spills(&said).map_err(|why| format!("ptxas for {gpu}: {why}"))?;
        let name = text.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found += &format!("{name}, {gpu}: {count} kernels, no spills\n");
    }
    Ok(found)
}

/// How many kernels ptxas assembled, none of which spills.
fn without_spills(said: &str) -> Result<usize, String> {
    let frames = said.lines().filter(|line| line.contains("spill stores"));
    let clean = |line: &&str| line.contains(" 0 bytes spill stores, 0 bytes spill loads");
    let (clean, spilled): (Vec<&str>, Vec<&str>) = frames.partition(clean);
    match (spilled.first(), clean.len()) {
        (Some(line), _) => Err(line.trim().to_owned()),
        (None, 0) => Err("it tells of no kernel".to_owned()),
        (None, kernels) => Ok(kernels),
    }
}

fn made(kernels: &Path, tools: &Tools) -> Result<String, String> {
    let place = &tools.nvrtc;
    let source = kernels.with_extension("cu");
    let mut command = Command::new(place.join("bin/python"));
    command.args(["-c", SCRIPT]).arg(&source).stdin(Stdio::null());
    let ended = command.output().map_err(|error| format!("{}: {error}", place.display()))?;
    if !ended.status.success() {
        return Err(format!("{}: {}", source.display(), String::from_utf8_lossy(&ended.stderr)));
    }
    String::from_utf8(ended.stdout).map_err(|error| error.to_string())
}

fn keep(kernels: &Path, made: &str, checks: bool) -> Result<String, String> {
    let path = kernels.with_extension("ptx");
    // A new source has no text yet.
    let held = std::fs::read_to_string(&path).unwrap_or_default();
    match (held == made, checks) {
        (true, _) => Ok(format!("{}: as its source says\n", path.display())),
        (false, true) => Err(format!("{} is not what its source says: `cargo xtask ptx` makes it", path.display())),
        (false, false) => {
            std::fs::write(&path, made).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(format!("{}: made again\n", path.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_spills_is_refused() {
        let frame = |stores: u32| {
            format!(
                "ptxas info    : Function properties for fill\n    0 bytes stack frame, {stores} bytes spill stores, 0 bytes spill loads\n"
            )
        };
        assert_eq!(without_spills(&(frame(0) + &frame(0))), Ok(2));
        assert!(without_spills(&(frame(0) + &frame(8))).unwrap_err().contains("8 bytes spill stores"));
        assert!(without_spills("ptxas info    : 0 bytes gmem\n").is_err());
    }
}
