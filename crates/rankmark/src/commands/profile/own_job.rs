//! Another program's job: runs it with what traces it, and shows what its traces say.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use job::{Asked, TRACES};

use super::explain;
use super::wanted::Wanted;
use crate::{Failure, environment, screen};

/// What the user asks of a job.
pub(super) struct JobRequest<'a> {
    pub(super) nsys: bool,
    pub(super) steps: Option<String>,
    pub(super) duration: Option<terms::Seconds>,
    pub(super) output_dir: Option<&'a Path>,
}

/// Runs the job, and explains the traces of its ranks. Gives the job's own exit code if that is not zero.
pub(super) fn run(words: &[OsString], request: JobRequest<'_>, wanted: &Wanted) -> Result<u8, Failure> {
    let JobRequest { nsys, steps, duration, output_dir } = request;
    let asked = Asked {
        words,
        nsys,
        steps,
        duration,
        output_dir,
        name: wanted.traces.labels.name.as_deref().unwrap_or("profile"),
        // Standard output holds JSON alone.
        output: if wanted.json { || std::io::stderr().into() } else { Stdio::inherit },
        python_path: environment::variable("PYTHONPATH"),
        search_path: &environment::search_path(),
    };
    let traced = job::run(&asked, &mut |text| screen::noted(text))?;
    match explain::job(&traced.folder, &traced.folder.join(TRACES), wanted) {
        // The job's own end explains why there is nothing to explain.
        Err(failure) if traced.code != 0 => {
            let how = format!("the job ended with code {} before its ranks wrote traces", traced.code);
            Err(Failure::new(how).cause(failure.on_one_line()).with_code(traced.code))
        }
        explained => explained.map(|explained| if traced.code != 0 { traced.code } else { explained }),
    }
}
