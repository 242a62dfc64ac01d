//! `validate` tells the truth of each library and program: the tests put some where it looks, among them libraries that
//! abort, hang, print, or lack what they should have. What it says of this machine's own is in `readiness`.

mod gpus;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::place::{Ended, Place};
use crate::skip;

/// A C compiler for the libraries that these tests make; None: listed as skipped.
fn compiler(what: &str) -> Option<&'static str> {
    let there = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    let found = ["cc", "gcc", "clang"].into_iter().find(there);
    if found.is_none() {
        skip::skip(what, "no C compiler (cc, gcc, clang)");
    }
    found
}

/// What the tests put where `validate` looks.
pub(crate) struct Bench {
    pub(crate) place: Place,
    compiler: &'static str,
}

impl Bench {
    pub(crate) fn new(what: &str) -> Option<Self> {
        let compiler = compiler(what)?;
        let place = Place::new();
        for folder in ["lib", "bin"] {
            std::fs::create_dir(place.path(folder)).unwrap();
        }
        Some(Self { place, compiler })
    }

    pub(crate) fn library(&self, name: &str, source: &str) -> PathBuf {
        self.place.write("source.c", source);
        let library = self.place.path("lib").join(name);
        let source = self.place.path("source.c");
        let built = Command::new(self.compiler)
            .args(["-shared", "-fPIC", "-w", "-o"])
            .arg(&library)
            .arg(source)
            .output()
            .unwrap();
        assert!(built.status.success(), "{built:?}");
        library
    }

    fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.place.path("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Runs `validate --json` with those libraries and only those programs. Returns its answer; `exit` is its code.
    fn validate(&self, arguments: &str) -> Value {
        let mut starting = self.place.command(&format!("validate --json {arguments}"));
        starting.command.env("LD_LIBRARY_PATH", self.place.path("lib")).env("PATH", self.place.path("bin"));
        answer(starting.run())
    }
}

pub(crate) fn answer(ended: Ended) -> Value {
    let value: Value = serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    assert_eq!(ended.status.code().map(i64::from), value["exit"].as_i64(), "{ended:?}");
    assert_eq!(ended.err, "");
    value
}

/// Rows of a name; where there are none, those that mention a path.
pub(crate) fn rows<'a>(answer: &'a Value, wanted: &str) -> Vec<&'a Value> {
    let all = || answer["findings"].as_array().unwrap().iter();
    let named: Vec<&Value> = all().filter(|row| row["name"] == wanted).collect();
    if named.is_empty() { all().filter(|row| row["found"].as_str().unwrap().contains(wanted)).collect() } else { named }
}

#[track_caller]
pub(crate) fn row<'a>(answer: &'a Value, wanted: &str, state: &str, words: &[&str]) -> &'a Value {
    let rows = rows(answer, wanted);
    assert_eq!(rows.len(), 1, "`{wanted}`: {rows:?} in {answer:#}");
    assert_eq!(rows[0]["state"], state, "{:#}", rows[0]);
    for word in words {
        assert!(rows[0]["found"].as_str().unwrap().contains(word), "`{word}`: {:#}", rows[0]);
    }
    rows[0]
}

const MPI: &str = r#"
#include <stdio.h>
__attribute__((constructor)) static void noise(void) { puts("rankmark-probe is not what I say"); fflush(stdout); }
int MPI_Get_library_version(char *text, int *length) { return *length = sprintf(text, "Open MPI v9.8.7, package: fake"), 0; }
"#;

#[test]
fn an_mpi_needs_an_mpirun_of_its_own() {
    let Some(bench) = Bench::new("an_mpi_needs_an_mpirun_of_its_own") else { return };
    let file = bench.library("libmpi.so.40", MPI).display().to_string();
    let file = file.as_str();
    let alone = bench.validate("--quick");
    let found = row(&alone, file, "misconfigured", &["9.8.7", "no mpirun of Open MPI 9.8.7"]);
    assert_eq!((&alone["exit"], &found["name"]), (&1.into(), &"Open MPI".into()));
    assert!(found["fix"].as_str().unwrap().contains("openmpi"), "{found:#}");

    bench.program("mpirun", "echo 'mpirun (Open MPI) 4.1.4'");
    row(&bench.validate("--quick"), file, "misconfigured", &["bin/mpirun (Open MPI 4.1.4)"]);

    bench.program("mpirun", "echo 'mpirun (Open MPI) 9.8.7'");
    let both = bench.validate("--quick");
    row(&both, file, "ready", &["9.8.7", "its ", "bin/mpirun"]);
    row(&both, "mpirun", "ready", &["9.8.7"]);

    // A program on the path is as good as one next to the library: a run takes it.
    std::fs::rename(bench.place.path("bin"), bench.place.path("elsewhere")).unwrap();
    let mut starting = bench.place.command("validate --json --quick");
    starting.command.env("LD_LIBRARY_PATH", bench.place.path("lib")).env("PATH", bench.place.path("elsewhere"));
    row(&answer(starting.run()), file, "ready", &["its ", "elsewhere/mpirun"]);
}

#[test]
fn a_launcher_may_say_more_of_its_version_than_its_library() {
    let Some(bench) = Bench::new("a_launcher_may_say_more_of_its_version_than_its_library") else { return };
    let intel = MPI.replace("Open MPI v9.8.7, package: fake", "Intel(R) MPI Library 2021.18 for Linux* OS");
    let file = bench.library("libmpi.so.12", &intel).display().to_string();
    let launcher = |number: &str| {
        let says = format!("echo 'Intel(R) MPI Library for Linux* OS, Version {number} Build 20260626 (id: b44796a)'");
        bench.program("mpiexec", &says);
        bench.validate("--quick")
    };
    row(&launcher("2021.18.1"), &file, "ready", &["2021.18 ", "bin/mpiexec"]);
    row(&launcher("2021.17.1"), &file, "misconfigured", &["bin/mpiexec (Intel MPI 2021.17.1)"]);
}

#[test]
fn a_library_that_gives_no_answer_is_not_ready() {
    let Some(bench) = Bench::new("a_library_that_gives_no_answer_is_not_ready") else { return };
    // It says its version, and has nothing else of MPI.
    let file = bench.library("libmpi.so.40", MPI).display().to_string();
    bench.program("mpirun", "echo 'mpirun (Open MPI) 9.8.7'");
    row(&bench.validate("--quick"), &file, "ready", &["not run"]);
    row(&bench.validate(""), &file, "missing", &["64 KiB all_reduce on 2 ranks: backend `mpi` is not ready", "lacks"]);
}

#[test]
fn libraries_that_break_are_rows_and_not_our_end() {
    let Some(bench) = Bench::new("libraries_that_break_are_rows_and_not_our_end") else { return };
    let constructor = |body: &str| {
        format!(
            "#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) static void on(void) {{ {body} }}"
        )
    };
    bench.library("libmpi.so.12", &constructor("abort();"));
    bench.library("libucp.so.0", &constructor("for (;;) pause();"));
    bench.library("libucc.so.1", "int nothing;");
    bench.library("libnccl.so.2", &constructor("_exit(0);"));
    bench.library(
        "libcudnn.so.9",
        "#include <stddef.h>\nextern int gone(void); size_t cudnnGetVersion(void) { return gone(); }",
    );
    std::fs::write(bench.place.path("lib/libnvrtc.so.12"), "not a library").unwrap();
    let answer = bench.validate("--quick");
    row(&answer, "lib/libmpi.so.12", "misconfigured", &["ended by signal 6"]);
    row(&answer, "lib/libucp.so.0", "misconfigured", &["hung: killed after 10 s"]);
    row(&answer, "lib/libucc.so.1", "misconfigured", &["it has no symbol `ucc_get_version_string`"]);
    row(&answer, "lib/libnccl.so.2", "misconfigured", &["ended with code 0"]);
    row(&answer, "lib/libcudnn.so.9", "misconfigured", &["undefined symbol: gone"]);
    row(&answer, "lib/libnvrtc.so.12", "misconfigured", &["file too short"]);
    assert_eq!(answer["exit"], 1);
}

#[test]
fn versions_are_those_that_libraries_say() {
    let Some(bench) = Bench::new("versions_are_those_that_libraries_say") else { return };
    bench.library("libcudart.so.13", "int cudaRuntimeGetVersion(int *v) { *v = 13010; return 0; }");
    bench.library("libcublasLt.so.13", "unsigned long cublasLtGetVersion(void) { return 130200; }");
    bench.library("libcudnn.so.9", "unsigned long cudnnGetVersion(void) { return 91401; }");
    bench.library("libnvrtc.so.13", "int nvrtcVersion(int *a, int *b) { *a = 13; *b = 1; return 0; }");
    bench.library("libucc.so.1", "const char *ucc_get_version_string(void) { return \"1.2.0\"; }");
    bench.library("libucp.so.0", "const char *ucp_get_version_string(void) { return \"1.13.1\"; }");
    let answer = bench.validate("--quick");
    for (file, version) in [
        ("libcudart.so.13", "13.1 "),
        ("libcublasLt.so.13", "13.2.0 "),
        ("libcudnn.so.9", "9.14.1 "),
        ("libnvrtc.so.13", "13.1 "),
        ("libucc.so.1", "1.2.0 "),
        ("lib/libucp.so.0", "1.13.1 "),
    ] {
        let file = bench.place.path("lib").join(file.trim_start_matches("lib/"));
        row(&answer, &file.display().to_string(), "ready", &[version]);
    }
    // And without them: this machine has its own of some, but never those.
    let without = answer_without(&bench);
    assert!(rows(&without, &bench.place.path("lib").display().to_string()).is_empty(), "{without:#}");
}

fn answer_without(bench: &Bench) -> Value {
    let mut starting = bench.place.command("validate --json --quick");
    starting.command.env_remove("LD_LIBRARY_PATH").env("PATH", "/nowhere");
    answer(starting.run())
}

const NVML: &str = r#"
#include <string.h>
#include <stdint.h>
typedef struct { uint64_t total, free, used; } Memory;
int nvmlInit_v2(void) { return INIT; }
const char *nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "Something Else"; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13010; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned n) { strncpy(text, "580.65.06", n); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(uintptr_t)(i + 1); return i == 0 ? 0 : 15; }
int nvmlDeviceGetName(void *d, char *text, unsigned n) { strncpy(text, "NVIDIA Fake 100", n); return 0; }
int nvmlDeviceGetMemoryInfo(void *d, Memory *m) { m->total = 80ull << 30; m->used = 0; return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void *d, unsigned *n) { *n = 8; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *d, unsigned *n) { *n = 16; return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *d, unsigned *n) { *n = 5; return 0; }
int nvmlDeviceGetNvLinkState(void *d, unsigned l, unsigned *s) { *s = 1; return l < 4 ? 0 : 2; }
"#;

#[test]
fn gpus_are_what_the_driver_says_or_its_own_error() {
    let Some(bench) = Bench::new("gpus_are_what_the_driver_says_or_its_own_error") else { return };
    if Path::new("/dev/nvidiactl").exists() {
        return skip::skip("gpus_are_what_the_driver_says_or_its_own_error", "this machine has a driver of its own");
    }
    let name = "libnvidia-ml.so.1";
    bench.library(name, &NVML.replace("INIT", "9"));
    row(&bench.validate("--quick"), "driver", "missing", &["`nvmlInit` failed: Driver Not Loaded"]);

    bench.library(name, &NVML.replace("INIT", "0"));
    let answer = bench.validate("--quick");
    row(&answer, "driver", "ready", &["580.65.06, runs CUDA up to 13.1"]);
    row(&answer, "CUDA driver", "misconfigured", &["no libcuda.so"]);
    let slow = row(&answer, "GPU 0", "slow", &["NVIDIA Fake 100, 80.0 GiB, 4 NVLinks, PCIe 5 x8"]);
    assert!(slow["impact"].as_str().unwrap().contains("8 of 16"), "{slow:#}");
    row(&answer, "GPU 1", "misconfigured", &["`nvmlDeviceGetHandleByIndex` failed: Something Else"]);
    // With a GPU, each library that is not there is a row with what brings it.
    assert!(row(&answer, "NCCL", "missing", &["no libnccl.so"])["fix"].is_string());

    bench.library("libcuda.so.1", "int cuInit(unsigned f) { return 100; }\nint cuGetErrorName(int e, const char **n) { *n = \"CUDA_ERROR_NO_DEVICE\"; return 0; }");
    row(&bench.validate("--quick"), "CUDA driver", "misconfigured", &["`cuInit` failed: CUDA_ERROR_NO_DEVICE"]);
}

#[test]
fn programs_are_rows_by_what_they_do() {
    let Some(bench) = Bench::new("programs_are_rows_by_what_they_do") else { return };
    let none = bench.validate("--quick");
    for name in ["mpirun", "srun", "torchrun", "kubectl"] {
        let missing = row(&none, name, "missing", &["not on PATH"]);
        assert!(missing["impact"].is_string() && missing["fix"].is_string(), "{missing:#}");
    }
    // Installed, on a machine of no cluster: nobody asked for it, and nothing is wrong.
    bench.program("srun", "echo 'srun: fatal: Could not establish a configuration source' >&2; exit 1");
    row(&bench.validate("--quick"), "srun", "missing", &["no cluster is configured"]);
    bench.program("srun", "echo 'slurm 22.05.8'");
    bench.program("kubectl", "echo broken >&2; exit 7");
    bench.program("nsys", "echo 'NVIDIA Nsight Systems version 2022.4.2.1-df9881f'");
    let torchrun = bench.program("torchrun", "");
    std::fs::write(torchrun, "#!/nowhere/bin/python3\nimport torch\n").unwrap();
    let some = bench.validate("");
    row(&some, "srun", "ready", &["22.05.8", "bin/srun"]);
    row(&some, "kubectl", "misconfigured", &["ended with code 7: broken"]);
    row(&some, "nsys", "ready", &["2022.4.2.1-df9881f"]);
    row(&some, "torchrun", "misconfigured", &["/nowhere/bin/python3, which is missing"]);
}

/// A torchrun starts ranks of its own Python, so that of the named one counts.
#[test]
fn torchrun_is_that_of_the_named_python() {
    let Some(bench) = Bench::new("torchrun_is_that_of_the_named_python") else { return };
    std::fs::create_dir_all(bench.place.path("venv/bin")).unwrap();
    bench.program("../venv/bin/python3", "echo 'rankmark-probe not json'; exit 0");
    let validate = || bench.validate(&format!("--quick --python {}", bench.place.path("venv/bin/python3").display()));
    let missing = validate();
    let fix = row(&missing, "torchrun", "missing", &["neither next to the named Python nor on PATH"])["fix"].clone();
    assert!(fix.as_str().unwrap().ends_with("venv/bin/python3 -m pip install torch"), "{fix}");
    bench.program("torchrun", "");
    row(&validate(), "torchrun", "ready", &["/bin/torchrun, from another Python than the named one"]);
    bench.program("../venv/bin/torchrun", "");
    let own = validate();
    let found = row(&own, "torchrun", "ready", &["venv/bin/torchrun"]);
    assert!(!found["found"].as_str().unwrap().contains("another"), "{found:#}");
}

#[test]
fn a_python_that_is_none_is_told_from_one_without_torch() {
    let Some(bench) = Bench::new("a_python_that_is_none_is_told_from_one_without_torch") else { return };
    row(&bench.validate(""), "Python", "missing", &["no python3 on PATH"]);
    bench.program("python3", "echo 'Traceback: garbage'");
    let garbage = bench.validate("");
    row(&garbage, "Python", "misconfigured", &["does not behave like Python", "Traceback: garbage"]);
    assert_eq!(garbage["exit"], 1);
    bench.program("python3", "echo 'rankmark-probe not json'; exit 0");
    row(&bench.validate(""), "Python", "misconfigured", &["not json"]);
    // One that was named and is missing is an error, and a quick check finds it, too.
    let named = bench.validate("--quick --python /nowhere/python3");
    row(&named, "Python", "misconfigured", &["/nowhere/python3", "No such file"]);
    assert_eq!(named["exit"], 1);
}

/// A real Python, outside of whatever environment the tests run in.
fn python(what: &str) -> Option<PathBuf> {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let found = output.ok().filter(|output| output.status.success());
    let found = found.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    if found.is_none() {
        skip::skip(what, "no python3");
    }
    found
}

#[test]
fn torch_is_what_that_python_imports() {
    let Some(python) = python("torch_is_what_that_python_imports") else { return };
    let place = Place::new();
    let validate = |folder: &str| {
        let mut starting = place.command("validate --json --quick --python").argument(&python);
        starting.command.env("PYTHONPATH", place.path(folder));
        answer(starting.run())
    };
    let module = |folder: &str, text: &str| {
        std::fs::create_dir_all(place.path(folder).join("torch")).unwrap();
        std::fs::write(place.path(folder).join("torch/__init__.py"), text).unwrap();
    };
    module(
        "good",
        "import types\nprint('noise')\n__version__ = '9.9.9'\n\
         version = types.SimpleNamespace(cuda=None, hip=None)\n\
         cuda = types.SimpleNamespace(is_available=lambda: False)\n\
         distributed = types.SimpleNamespace(is_available=lambda: True, is_gloo_available=lambda: True, \
         is_nccl_available=lambda: True, is_mpi_available=lambda: False)\n",
    );
    let good = validate("good");
    row(&good, "torch", "ready", &["9.9.9, built for the CPU only, sees no GPU"]);
    row(&good, "pytorch/gloo", "ready", &[]);
    row(&good, "pytorch/nccl", "missing", &["moves GPU memory only"]);
    for name in ["pytorch/mpi", "pytorch/ucc"] {
        row(&good, name, "missing", &["built without it"]);
    }
    module("bad", "raise ImportError('libcudart.so.13: cannot open shared object file')\n");
    row(&validate("bad"), "torch", "misconfigured", &["cannot be imported", "libcudart.so.13"]);
    module("inner", "import a_module_that_torch_needs\n");
    row(&validate("inner"), "torch", "misconfigured", &["a_module_that_torch_needs"]);
    module("dead", "import os; os.abort()\n");
    row(&validate("dead"), "Python", "misconfigured", &["ended by signal 6"]);
    // A torch that hides behind None is one that is not there.
    std::fs::create_dir_all(place.path("none")).unwrap();
    std::fs::write(place.path("none/sitecustomize.py"), "import sys\nclass Hide:\n    def find_spec(self, name, *rest):\n        if name == 'torch': raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\nsys.meta_path.insert(0, Hide())\n").unwrap();
    let none = validate("none");
    row(&none, "torch", "missing", &["No module named 'torch'"]);
    assert_eq!(none["exit"], 1, "it was asked for by --python");
}
