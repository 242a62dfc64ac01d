//! The `nccl` backend: NVIDIA's NCCL, or AMD's RCCL, which exports the same names, on memory of GPUs.
//!
//! `symbols` is our own table of the library's functions; `steps` writes an operation as the library's calls; `handle` is a rank's
//! end of the library's communicator: it joins, issues, waits, splits, aborts; `library` finds it; `rank` puts them together on the
//! rank's GPU; `registration` makes buffers known to a communicator; `since` says what came with which version; `choice` passes settings of algorithms and protocols. What
//! ranks agree on between calls goes through shared
//! memory, where they are on one host.

mod choice;
mod handle;
mod library;
mod rank;
mod registration;
mod since;
mod steps;
mod symbols;

use std::io::Read as _;
use std::path::Path;

use choice::{CHOICES, FIELDS, LIBRARY};
pub use handle::{Handle, Stream};
pub use since::NCCL_SINCE;
pub use steps::{Step, Whole, steps};
pub use symbols::{STEMS, Symbols, UNIQUE_ID_BYTES, UniqueId};

use serde_json::Value;
use terms::{Collective, Field, FieldError};

use crate::{
    Abort, About, Backend, Bootstrap, CallForm, Communicator, GpuMemory, Options, Own, Readiness, Result, gpus,
};

/// The table's entry.
pub(crate) struct Nccl;

static ABOUT: About = About {
    name: symbols::NAME,
    doc: "NVIDIA's NCCL (or AMD's RCCL) between GPUs; its library is opened at run time",
    simulated: false,
    in_process: false,
    launched: false,
    one_host: false,
};

impl Backend for Nccl {
    fn about(&self) -> &About {
        &ABOUT
    }

    /// Looks at files only: a library that aborts when it is opened must not end the caller. `rankmark validate` opens
    /// it in a child.
    fn probe(&self) -> Readiness {
        self.probe_library(None)
    }

    fn probe_library(&self, library: Option<&str>) -> Readiness {
        let libraries = match library {
            Some(name) => library::named(name).filter(|path| path.is_file()).into_iter().collect(),
            None => library::all(),
        };
        let drivers = gpus::drivers();
        let (whys, hint) = lacks(Path::new("/"), !drivers.is_empty(), !libraries.is_empty(), library);
        match libraries.first().filter(|_| whys.is_empty()) {
            Some(path) => Readiness::Ready { version: version_of(path), path: Some(path.display().to_string()) },
            None => Readiness::Missing { why: whys.join("; "), hint: hint.to_owned() },
        }
    }

    fn fields(&self) -> &'static [Field] {
        FIELDS
    }

    fn check(&self, own: &mut Own, environment: &[String]) -> std::result::Result<(), FieldError> {
        CHOICES.iter().try_for_each(|choice| choice.check(own, environment))
    }

    fn gpu_memory(&self) -> GpuMemory {
        GpuMemory::Itself
    }

    fn refuses(&self, call: CallForm) -> Option<String> {
        if call.in_place && call.op == Collective::AllToAll {
            return Some("NCCL supports all_to_all out of place only".to_owned());
        }
        let what =
            "NCCL multiplies each number by 1/n before it adds, so its mean is exact only if n is a power of two";
        let rounds = call.is_exact_mean && call.op.reduces() && !call.ranks.is_power_of_two();
        rounds.then(|| format!("{what}, which {} is not", call.ranks))
    }

    fn records_launches(&self) -> bool {
        true
    }

    fn environment(&self, own: &Own) -> Vec<(String, String)> {
        CHOICES.iter().filter_map(|choice| choice.variable_for(own)).collect()
    }

    fn open(&self, bootstrap: &mut dyn Bootstrap, options: &Options) -> Result<(Box<dyn Communicator>, Abort)> {
        let named = options.own.get(LIBRARY).and_then(Value::as_str);
        let (opened, symbols) = gpus::open(bootstrap, ABOUT.name, || library::open(named))?;
        let (abort, place) = (Abort::default(), bootstrap.place());
        let control: Option<Box<dyn Communicator>> = match place.here == place.size {
            true => Some(Box::new(crate::shm::world(bootstrap, options, &abort)?)),
            false => None,
        };
        let free = opened.gpu.free_bytes().map_err(rank::refused)?;
        let handle = Handle::join(symbols.clone(), bootstrap, abort.clone())?;
        Ok((Box::new(rank::RankOnGpu::new(handle, symbols, opened, abort.clone(), (control, free))?), abort))
    }
}

/// The version that the file's name ends with, as `2.28.9`. Where it is a link that says no more than `2`, as in NVIDIA's wheels,
/// what the library would say of itself. Opens nothing.
pub fn version_of(path: &Path) -> String {
    let file = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let named = name.split_once(".so.").map(|(_, version)| version.to_owned());
    let is_whole = |version: &String| version.matches('.').count() > 1;
    let version = named.clone().filter(is_whole).or_else(|| written_version(&file)).or(named);
    version.unwrap_or_else(|| "of unknown version".to_owned())
}

/// Bytes of a library that are read for its version: its texts stand before the code of devices, which is all but a few MiB.
const TEXTS: u64 = 16 << 20;

/// The number in the text `NCCL version 2.30.7+cuda13.3` of a library's file, without opening the library. RCCL's has its own
/// name.
fn written_version(file: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(file).ok()?.take(TEXTS).read_to_end(&mut bytes).ok()?;
    let text = b"CCL version ";
    let number = |at: usize| {
        let rest = &bytes[at + text.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        let version = std::str::from_utf8(&rest[..end]).ok()?.trim_end_matches('.');
        (version.matches('.').count() == 2).then(|| version.to_owned())
    };
    let places = bytes.windows(text.len()).enumerate().filter(|(_, window)| window == text);
    places.map(|(at, _)| at).find_map(number)
}

/// All that is missing, the worst first, and how to fix it. `root` is where /proc and /dev lie.
fn lacks(root: &Path, has_driver: bool, has_library: bool, named: Option<&str>) -> (Vec<String>, &'static str) {
    let file = |path: &str| match std::fs::metadata(root.join(path)) {
        Ok(_) => None,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(format!("no /{path}")),
        Err(error) => Some(format!("/{path}: {error}")),
    };
    let mut whys = Vec::new();
    let mut hint = "`rankmark validate` shows GPUs and libraries";
    if !has_library {
        whys.push(match named {
            Some(python) if Path::new(python).is_file() => format!("{python} has no wheel of NCCL"),
            Some(path) => format!("no file {path}"),
            None => "no libnccl.so or librccl.so where the loader looks".to_owned(),
        });
        hint = "pip install nvidia-nccl-cu13, or name the library: `--nccl-library PATH`";
    }
    if !has_driver {
        // The kernel modules' own files: NVIDIA's driver, or AMD's.
        let nvidia = file("proc/driver/nvidia/version").or_else(|| file("dev/nvidiactl"));
        let amd = file("dev/kfd");
        match (nvidia, amd) {
            (Some(nvidia), Some(amd)) => {
                whys.insert(0, format!("no GPU driver ({nvidia}, {amd})"));
                hint = "NCCL needs an NVIDIA GPU and its driver; RCCL an AMD GPU and ROCm";
            }
            (None, _) => {
                whys.insert(0, "no libcuda.so where the loader looks".to_owned());
                hint = "install the driver's compute part (Debian: libcuda1; a container: docker run --gpus all)";
            }
            (_, None) => {
                whys.insert(0, "memory of AMD GPUs is not supported".to_owned());
                hint = "only NVIDIA's GPUs can be used";
            }
        }
    }
    (whys, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_is_said_exactly_and_nothing_is_pretended() {
        let root = std::env::temp_dir().join(format!("rankmark-nccl-{}", std::process::id()));
        std::fs::create_dir_all(root.join("proc/driver/nvidia")).unwrap();
        std::fs::create_dir_all(root.join("dev")).unwrap();
        let (none, hint) = lacks(&root, false, false, None);
        assert_eq!(none[0], "no GPU driver (no /proc/driver/nvidia/version, no /dev/kfd)");
        assert_eq!(none[1], "no libnccl.so or librccl.so where the loader looks");
        assert!(none.len() == 2 && hint.contains("GPU"), "{none:?} {hint}");
        assert_eq!(lacks(&root, false, true, None).0.len(), 1);
        std::fs::write(root.join("proc/driver/nvidia/version"), "NVRM").unwrap();
        assert!(lacks(&root, false, true, None).0[0].contains("no /dev/nvidiactl"));
        std::fs::write(root.join("dev/nvidiactl"), "").unwrap();
        let (without_library, hint) = lacks(&root, true, false, Some("/opt/libnccl.so"));
        let (without_driver, _) = lacks(&root, false, true, None);
        let nothing = lacks(&root, true, true, None).0;
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((without_library, nothing), (vec!["no file /opt/libnccl.so".to_owned()], Vec::new()));
        assert!(hint.contains("pip install"), "{hint}");
        assert_eq!(without_driver, ["no libcuda.so where the loader looks"]);
    }

    #[test]
    fn the_version_is_that_of_the_file() {
        assert_eq!(version_of(Path::new("/nowhere/libnccl.so.2.28.9")), "2.28.9");
        assert_eq!(version_of(Path::new("/nowhere/libnccl.so.2")), "2");
        assert_eq!(version_of(Path::new("/nowhere/libnccl.so")), "of unknown version");
        let folder = std::env::temp_dir().join(format!("rankmark-nccl-version-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("libnccl.so.2");
        let texts =
            b"\x7fELF\0NCCL version info only\0NCCL version %s\0NCCL version 2.30.7+cuda13.3\0NCCL version 9.9.9 ";
        std::fs::write(&file, texts).unwrap();
        assert_eq!(version_of(&file), "2.30.7");
        std::fs::write(&file, b"NCCL version 2.30\0CCL version ").unwrap();
        assert_eq!(version_of(&file), "2");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
