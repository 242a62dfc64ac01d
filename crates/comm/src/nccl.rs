//! The `nccl` backend, as far as it goes without a GPU: NCCL, or RCCL, which exports the same names.
//!
//! `symbols` is our own table of the library's functions; `steps` writes an operation as the library's calls; `handle`
//! is a rank's end of the library's communicator: it joins, issues, waits, splits, aborts; `choice` passes settings of
//! algorithms and protocols. Memory and streams of a CUDA device are missing, because the `device` crate has none yet.
//! Opening the backend is therefore refused; [`Backend::probe`] says so after whatever else is missing here.

mod choice;
mod handle;
mod steps;
mod symbols;

use std::path::{Path, PathBuf};

use choice::{CHOICES, FIELDS};
pub use handle::{Handle, Stream};
pub use steps::{Step, steps};
pub use symbols::{STEMS, Symbols, UNIQUE_ID_BYTES, UniqueId};

use terms::{Field, FieldError};

use crate::{Abort, About, Backend, Bootstrap, Communicator, Error, Options, Own, Readiness, Result, library};

/// The table's entry.
pub(crate) struct Nccl;

static ABOUT: About = About {
    name: "nccl",
    doc: "NVIDIA's NCCL (or AMD's RCCL) between GPUs; its library is opened at run time",
    simulated: false,
    in_process: false,
    launched: false,
    one_host: false,
};

/// What `device` lacks.
const NO_MEMORY: &str = "this version of rankmark has no CUDA device memory";

impl Backend for Nccl {
    fn about(&self) -> &About {
        &ABOUT
    }

    /// Looks at files only: a library that aborts when it is opened must not end the caller. `rankmark validate` opens
    /// it in a child.
    fn probe(&self) -> Readiness {
        let (whys, hint) = lacks(Path::new("/"), &library::find(&library::search_path(), STEMS));
        Readiness::Missing { why: whys.join("; "), hint: hint.to_owned() }
    }

    fn fields(&self) -> &'static [Field] {
        FIELDS
    }

    fn check(&self, own: &mut Own, environment: &[String]) -> std::result::Result<(), FieldError> {
        CHOICES.iter().try_for_each(|choice| choice.check(own, environment))
    }

    fn environment(&self, own: &Own) -> Vec<(String, String)> {
        CHOICES.iter().filter_map(|choice| choice.variable_for(own)).collect()
    }

    fn open(&self, _bootstrap: &mut dyn Bootstrap, _options: &Options) -> Result<(Box<dyn Communicator>, Abort)> {
        Err(Error::Unsupported { backend: ABOUT.name, what: format!("move data: {NO_MEMORY}") })
    }
}

/// All that is missing, the worst first, and how to fix it. `root` is where /proc and /dev lie.
fn lacks(root: &Path, libraries: &[PathBuf]) -> (Vec<String>, &'static str) {
    let file = |path: &str| match std::fs::metadata(root.join(path)) {
        Ok(_) => None,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(format!("no /{path}")),
        Err(error) => Some(format!("/{path}: {error}")),
    };
    // The kernel modules' own files: NVIDIA's driver, or AMD's.
    let nvidia = file("proc/driver/nvidia/version").or_else(|| file("dev/nvidiactl"));
    let amd = file("dev/kfd");
    let mut whys = Vec::new();
    let mut hint = "--device cuda measures the nccl of PyTorch; `rankmark validate` shows GPUs and libraries";
    if libraries.is_empty() {
        whys.push("no libnccl.so or librccl.so where the loader looks".to_owned());
        hint = "pip install nvidia-nccl-cu13, and its nvidia/nccl/lib in LD_LIBRARY_PATH";
    }
    if let (Some(nvidia), Some(amd)) = (nvidia, amd) {
        whys.insert(0, format!("no GPU driver ({nvidia}, {amd})"));
        hint = "NCCL needs an NVIDIA GPU and its driver; RCCL an AMD GPU and ROCm";
    }
    whys.push(NO_MEMORY.to_owned());
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
        let library = [PathBuf::from("/lib/libnccl.so.2")];
        let (none, hint) = lacks(&root, &[]);
        assert_eq!(none[0], "no GPU driver (no /proc/driver/nvidia/version, no /dev/kfd)");
        assert_eq!(none[1], "no libnccl.so or librccl.so where the loader looks");
        assert!(none.len() == 3 && hint.contains("GPU"), "{none:?} {hint}");
        assert_eq!(lacks(&root, &library).0.len(), 2);
        std::fs::write(root.join("proc/driver/nvidia/version"), "NVRM").unwrap();
        assert!(lacks(&root, &library).0[0].contains("no /dev/nvidiactl"));
        std::fs::write(root.join("dev/nvidiactl"), "").unwrap();
        let (memory, _) = lacks(&root, &library);
        let (unfound, hint) = lacks(&root, &[]);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(memory, [NO_MEMORY]);
        assert!(unfound[0].contains("libnccl.so") && hint.contains("pip install"), "{unfound:?}");
    }

    #[test]
    fn it_is_never_ready_and_refuses_to_open() {
        assert!(matches!(Nccl.probe(), Readiness::Missing { .. }));
        let mut worlds = crate::threads(1, &Abort::default());
        let refused = Nccl.open(&mut worlds[0], &Options::default()).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("no CUDA device memory"), "{refused}");
    }
}
