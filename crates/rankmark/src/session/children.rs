//! Processes of this program that nobody typed: ranks, and children that look at one library.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use trace::nvtx;

use crate::screen;

/// A rank process: it was started by a coordinator, not by a person.
pub(crate) fn rank(arguments: &[OsString]) -> ExitCode {
    let left = launch::rank_main(arguments, &|name| std::env::var_os(name), &mut |context: launch::RankContext| {
        let launch::RankContext { spec, mut bootstrap, slot, here, cores, guardian, .. } = context;
        let oversubscribed = benchmarks::cores_wanted(here, &spec.fields) > cores.len();
        let slot: Arc<_> = slot;
        open_tool()?;
        let (work, abort) = benchmarks::open_rank(&spec, &mut *bootstrap, slot, oversubscribed, cores)?;
        guardian.raise_on_loss(abort);
        Ok(Box::new(work))
    });
    match left {
        Ok(()) => ExitCode::SUCCESS,
        Err(departure) => {
            // The coordinator keeps the last of what a rank writes here, for its verdict; one that is gone does not.
            if !departure.is_orphaned() {
                screen::last_words(&departure);
            }
            ExitCode::from(u8::try_from(departure.code()).unwrap_or(1))
        }
    }
}

/// Opens the tool that records NVTX in this process, where one asks for that, as `nsys profile -t nvtx` does.
fn open_tool() -> Result<(), measure::Failure> {
    let Some(library) = std::env::var_os(nvtx::VARIABLE).filter(|library| !library.is_empty()) else { return Ok(()) };
    nvtx::open(&library).map_err(|why| {
        let hint = format!("unset {} to run without that tool", nvtx::VARIABLE);
        let error = terms::Error::new("the library of a tool that records NVTX cannot be used");
        measure::Failure { error: error.cause(why).hint(hint), lacking: false }
    })
}

/// A child that opens one library for `validate`: whatever the library does happens to it alone.
pub(crate) fn probe(arguments: &[OsString]) -> ExitCode {
    match screen::print(&survey::probe_main(arguments)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
