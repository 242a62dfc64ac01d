//! Command lines of other tools, word by word, as lines of this program: nccl-tests and the OSU benchmarks, DDLB, the all-reduce
//! study, TorchScale, launchers. Reads words, and no command line by itself.

mod ddlb;
mod launchers;
mod nccl_tests;
mod study;

use std::ffi::OsString;

use terms::Error;

pub use ddlb::DDLB_CONFIG;
pub use launchers::Measures;
pub use nccl_tests::READ_AS;
pub use study::STUDY_CSV;

/// The arguments with what these tools call our options. `gpus` is the number of GPUs of this machine.
///
/// # Errors
/// When something is said twice, or cannot be said with our options.
pub fn rewritten(
    arguments: Vec<OsString>,
    gpus: fn() -> usize,
    measures: Measures<'_>,
) -> Result<Vec<OsString>, Error> {
    let arguments = ddlb::rewritten(launchers::of_torchscale(arguments))?;
    launchers::rewritten(nccl_tests::rewritten(study::rewritten(arguments, gpus)?)?, measures)
}
