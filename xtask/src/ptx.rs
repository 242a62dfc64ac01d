//! The kernels' PTX text, made again from their source by NVRTC of CUDA 11.8: the last that writes ISA 7.8, which drivers from 520 on
//! read, and that still compiles for sm_70. Then assembled as a driver would do it, by ptxas of CUDA 12 and of the newest CUDA 13, for all
//! GPUs that each knows: drivers differ in how they share out registers. How many registers each kernel takes on the GPUs that people have is
//! kept in a table. Needs no GPU and no toolkit: the programs come from PyPI.

mod assembler;
mod registers;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use assembler::Assembler;

use crate::ledger::{Ending, Ledger};
use crate::runs::printed;
use crate::test::target;
use crate::wheels;

const WHEELS: &[&str] = &["nvidia-cuda-nvrtc-cu11==11.8.89"];
/// GPUs whose registers are kept: Turing, Ampere, Ada, Hopper, Blackwell. All others must not spill, either.
const GPUS: [&str; 6] = ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"];

/// Before sm_80 a program with bf16 is refused (`engine::cuda::Cuda`): its kernels are in the texts, and never run.
const BF16_SINCE: u32 = 80;

/// A source of kernels.
struct Source {
    /// Where it lies, without its ending; its text lies beside it.
    path: &'static str,
    /// The oldest GPU that it is for: "70" of sm_70.
    first: &'static str,
}

const SOURCES: [Source; 9] = [
    for_all("crates/device/kernels/check"),
    for_all("crates/device/kernels/loops"),
    for_all("crates/engine/kernels/rows"),
    for_all("crates/engine/kernels/train"),
    for_all("crates/engine/kernels/attention_plain"),
    for_all("crates/engine/kernels/spatial"),
    for_all("crates/engine/kernels/norm"),
    Source { path: "crates/engine/kernels/attention", first: "80" },
    Source { path: "crates/engine/kernels/attention_gradient", first: "80" },
];

const fn for_all(path: &'static str) -> Source {
    Source { path, first: "70" }
}

/// Calls the compiler: `python -c SCRIPT SOURCE ARCHITECTURE` prints the text.
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
options = [b"--gpu-architecture=compute_" + sys.argv[2].encode(), b"--std=c++17", b"-I" + os.path.dirname(sys.argv[1]).encode()]
code = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
sys.stderr.write(text(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog))
if code:
    sys.exit(code)
sys.stdout.write(text(library.nvrtcGetPTXSize, library.nvrtcGetPTX))
"#;

/// Makes the texts and the table again; `--check` only compares them. False where one differs, or cannot be made.
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
    Ok(printed(kept(root, &tools, checks)))
}

/// Compares the texts and the table, as a step of the gate. Without the programs it is skipped, with the reason.
pub(crate) fn check(root: &Path, may_install: bool, ledger: &mut Ledger) {
    match Tools::install(root, may_install) {
        Err(why) => ledger.skip("kernels", why),
        Ok(tools) => {
            ledger.step("kernels", || (kept(root, &tools, true).map_or_else(Ending::Failed, |_| Ending::Passed), None))
        }
    }
}

/// Where the programs lie.
struct Tools {
    nvrtc: PathBuf,
    assemblers: Vec<Assembler>,
}

impl Tools {
    fn install(root: &Path, may_install: bool) -> Result<Self, String> {
        let place = |folder: &str| std::path::absolute(target(root).join(folder)).map_err(|error| error.to_string());
        let nvrtc = place("xtask/nvrtc")?;
        wheels::environment(&nvrtc, WHEELS, may_install, wheels::plain)?;
        let assemblers = assembler::WHEELS.iter().map(|(folder, wheels)| {
            let place = place(folder)?;
            wheels::environment(&place, wheels, may_install, wheels::plain)?;
            Assembler::find(&place)
        });
        Ok(Self { nvrtc, assemblers: assemblers.collect::<Result<_, String>>()? })
    }
}

/// Makes each text again, and the table. What was done, a line each.
fn kept(root: &Path, tools: &Tools, checks: bool) -> Result<String, String> {
    let mut said = String::new();
    for source in &SOURCES {
        let path = root.join(source.path);
        said += &keep(&path.with_extension("ptx"), &made(&path, source.first, tools)?, checks)?;
    }
    let mut table = registers::Table::default();
    for (number, assembler) in tools.assemblers.iter().enumerate() {
        for source in &SOURCES {
            // Registers are those of the first.
            let table = (number == 0).then_some(&mut table);
            said += &assemble(root, assembler, source, table)?;
        }
    }
    let path = root.join(registers::FILE);
    let held = std::fs::read_to_string(&path).unwrap_or_default();
    let changes = registers::changes(&held, &table.to_string());
    match (changes.is_empty(), checks) {
        (false, true) => Err(format!("{} changed; `cargo xtask ptx` writes it:\n{changes}", path.display())),
        _ => Ok(said + &changes + &keep(&path, &table.to_string(), checks)?),
    }
}

/// Takes a text through ptxas for each GPU: it must be accepted, and no kernel may spill registers into memory.
fn assemble(
    root: &Path,
    assembler: &Assembler,
    source: &Source,
    mut table: Option<&mut registers::Table>,
) -> Result<String, String> {
    let text = root.join(source.path).with_extension("ptx");
    let name = text.file_name().unwrap_or_default().to_string_lossy();
    let gpus = assembler.gpus_from(source.first);
    let reports = assembler.reports(&text, &gpus)?;
    let mut count = 0;
    for (gpu, report) in gpus.iter().zip(reports) {
        let version = &assembler.version;
        let runs = |kernel: &str| assembler::sm_number(gpu) >= BF16_SINCE || !kernel.contains("bf16");
        let kernels =
            registers::read(&report, runs).map_err(|why| format!("{name}, ptxas {version} for {gpu}: {why}"))?;
        count = kernels.len();
        if let Some(table) = table.as_deref_mut().filter(|_| GPUS.contains(&gpu.as_str())) {
            table.add(source.path, gpu, kernels);
        }
    }
    let version = &assembler.version;
    Ok(format!("{name}: {count} kernels, no spills by ptxas {version} on {} GPUs: {}\n", gpus.len(), gpus.join(" ")))
}

fn made(kernels: &Path, first: &str, tools: &Tools) -> Result<String, String> {
    let place = &tools.nvrtc;
    let source = kernels.with_extension("cu");
    let mut command = Command::new(place.join("bin/python"));
    command.args(["-c", SCRIPT]).arg(&source).arg(first).stdin(Stdio::null());
    let ended = command.output().map_err(|error| format!("{}: {error}", place.display()))?;
    if !ended.status.success() {
        return Err(format!("{}: {}", source.display(), String::from_utf8_lossy(&ended.stderr)));
    }
    String::from_utf8(ended.stdout).map_err(|error| error.to_string())
}

fn keep(path: &Path, made: &str, checks: bool) -> Result<String, String> {
    // A new source has no text yet.
    let held = std::fs::read_to_string(path).unwrap_or_default();
    match (held == made, checks) {
        (true, _) => Ok(format!("{}: as its source says\n", path.display())),
        (false, true) => Err(format!("{} is not what its source says: `cargo xtask ptx` makes it", path.display())),
        (false, false) => {
            std::fs::write(path, made).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(format!("{}: made again\n", path.display()))
        }
    }
}
