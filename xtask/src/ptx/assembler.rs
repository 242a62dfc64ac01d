//! ptxas of a wheel: the GPUs that it knows, and what it says of a text for each. What it said of a text before is not asked again.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Folders below the target folder, and what they hold. The first knows GPUs from Maxwell on, the second from Turing on, and newer ones.
pub(super) const WHEELS: [(&str, &[&str]); 2] =
    [("xtask/ptxas", &["nvidia-cuda-nvcc-cu12==12.9.86"]), ("xtask/ptxas-13", &["nvidia-cuda-nvcc==13.5.37"])];

/// Where a wheel has it, below `site-packages/nvidia`.
const PLACES: [&str; 2] = ["cuda_nvcc/bin/ptxas", "cu13/bin/ptxas"];

/// A ptxas that a wheel has.
pub(super) struct Assembler {
    program: PathBuf,
    /// Reports by texts and GPUs.
    kept: PathBuf,
    /// `12.9`.
    pub(super) version: String,
    /// All GPUs that it knows: `sm_90a`.
    gpus: Vec<String>,
}

impl Assembler {
    /// The ptxas of an environment.
    ///
    /// # Errors
    /// The wheel has none, or it does not say what it knows.
    pub(super) fn find(place: &Path) -> Result<Self, String> {
        let libraries = std::fs::read_dir(place.join("lib")).map_err(|error| error.to_string())?;
        let program = libraries
            .flatten()
            .flat_map(|python| PLACES.map(|below| python.path().join("site-packages/nvidia").join(below)))
            .find(|path| path.is_file())
            .ok_or_else(|| format!("{}: the wheel has no ptxas", place.display()))?;
        let said = |option: &str| -> Result<String, String> {
            let ended = Command::new(&program).arg(option).stdin(Stdio::null()).output();
            let ended = ended.map_err(|error| format!("{}: {error}", program.display()))?;
            Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
        };
        let version = said("--version")?;
        let version = version.split("release ").nth(1).and_then(|rest| rest.split(',').next());
        let version = version.ok_or_else(|| format!("{} does not say its version", program.display()))?.to_owned();
        let gpus = known(&said("--help")?);
        match gpus.is_empty() {
            true => Err(format!("{} does not say which GPUs it knows", program.display())),
            false => Ok(Self { program, kept: place.join("reports"), version, gpus }),
        }
    }

    /// The GPUs from one on: `70` of sm_70.
    pub(super) fn gpus_from(&self, first: &str) -> Vec<String> {
        self.gpus.iter().filter(|gpu| sm_number(gpu) >= first.parse().unwrap_or(0)).cloned().collect()
    }

    /// What it says of a text for each of these GPUs, on all cores.
    ///
    /// # Errors
    /// It refuses the text.
    pub(super) fn reports(&self, text: &Path, gpus: &[String]) -> Result<Vec<String>, String> {
        let bytes = std::fs::read(text).map_err(|error| format!("{}: {error}", text.display()))?;
        std::fs::create_dir_all(&self.kept).map_err(|error| format!("{}: {error}", self.kept.display()))?;
        let (next, made) = (Mutex::new(0), Mutex::new(vec![Err(String::new()); gpus.len()]));
        let work = || {
            loop {
                let at = {
                    let mut next = next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    *next += 1;
                    *next - 1
                };
                let Some(gpu) = gpus.get(at) else { return };
                let report = self.report(text, &bytes, gpu);
                made.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[at] = report;
            }
        };
        std::thread::scope(|scope| {
            let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            (0..cores).for_each(|_| {
                scope.spawn(work);
            });
        });
        made.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_iter().collect()
    }

    fn report(&self, text: &Path, bytes: &[u8], gpu: &str) -> Result<String, String> {
        let mut hasher = DefaultHasher::new();
        (bytes, gpu, &self.version).hash(&mut hasher);
        let kept = self.kept.join(format!("{:016x}", hasher.finish()));
        if let Ok(report) = std::fs::read_to_string(&kept) {
            return Ok(report);
        }
        let mut command = Command::new(&self.program);
        command.args(["--verbose", "--gpu-name", gpu, "--output-file", "/dev/null"]).arg(text).stdin(Stdio::null());
        let ended = command.output().map_err(|error| format!("{}: {error}", self.program.display()))?;
        let report = String::from_utf8_lossy(&ended.stderr).into_owned() + &String::from_utf8_lossy(&ended.stdout);
        if !ended.status.success() {
            return Err(format!("ptxas {} for {gpu}: {report}", self.version));
        }
        std::fs::write(&kept, &report).map_err(|error| format!("{}: {error}", kept.display()))?;
        Ok(report)
    }
}

/// The GPUs that its help names, in their order.
fn known(help: &str) -> Vec<String> {
    let names = help.split('\'').filter(|word| word.starts_with("sm_"));
    let mut all: Vec<String> = names.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect();
    all.sort_by_key(|gpu| sm_number(gpu));
    all
}

/// 90 of `sm_90a`.
pub(super) fn sm_number(gpu: &str) -> u32 {
    let digits: String = gpu.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_those_of_the_help() {
        let help = "Allowed values for this option:  'compute_90','sm_100','sm_90a','sm_75',\n 'sm_90','sm_90'";
        assert_eq!(known(help), ["sm_75", "sm_90", "sm_90a", "sm_100"]);
        let gpus = known(help);
        let one = Assembler { program: PathBuf::new(), kept: PathBuf::new(), version: "13.5".to_owned(), gpus };
        assert_eq!(one.gpus_from("80"), ["sm_90", "sm_90a", "sm_100"]);
    }
}
