//! Asks NCCL's RAS: with `ncclras`, the program that NCCL comes with, or from a file with its answer.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use import::traces::{RasReport, Traces, read_ras, read_timeline};
use process::child::{Ended, filter};
use terms::Error;

/// Where RAS listens unless `NCCL_RAS_ADDR` says otherwise.
pub const USUAL_RAS: &str = "localhost:28028";
/// A rank that does not answer takes RAS several seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// What RAS says at an address, or in a file. Its program is looked for in `search`.
///
/// # Errors
/// When it gives no answer, or the file holds none.
pub fn ask_ras(place: &str, search: &[PathBuf]) -> Result<RasReport, Error> {
    if Path::new(place).is_file() {
        let Traces { ras, .. } = read_timeline(&[place.into()])?;
        let not_one = || Error::new(format!("{place} is not an answer of `ncclras -f json`"));
        return ras.into_iter().next().ok_or_else(not_one);
    }
    let hint = "for example --ras localhost:28028, or a file with the output of `ncclras -f json`";
    let wrong = || Error::new(format!("`--ras {place}` is neither an address nor a file")).hint(hint);
    let (host, port) = place.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() || host.starts_with('-') || port.parse::<u16>().is_err() {
        return Err(wrong());
    }
    let program = process::first_program(search, "ncclras").ok_or_else(|| {
        Error::new("ncclras is not installed here")
            .cause("`--ras` asks NCCL's RAS with it")
            .hint("put the folder of NCCL's programs into PATH, or give a file with the output of `ncclras -f json`")
    })?;
    let failed = |cause: String| Error::new(format!("NCCL RAS at {place} gave no answer")).cause(cause);
    let arguments = ["-h", host, "-p", port, "-f", "json"].map(OsStr::new);
    let (out, outcome) = filter(&program, &arguments, &[], LIMIT).map_err(|error| failed(error.to_string()))?;
    if outcome.ended != Ended::Code(0) {
        let complaint = failed(format!("ncclras {}", outcome.complaint()));
        return Err(complaint.hint("NCCL 2.28.7 and later answer; NCCL_RAS_ADDR of the job changes the address"));
    }
    read_ras(&out)
}
