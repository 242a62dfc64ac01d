//! A second build of Rankmark as the ranks of one side.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use process::child::{self, Ended};
use runner::Matched;
use serde_json::Value;
use terms::Error;

/// `version` opens libraries, and some of them take their time.
const LIMIT: Duration = Duration::from_secs(60);

/// A program that can be ranks.
pub struct RanksProgram {
    /// Where it is.
    pub path: PathBuf,
    /// What it says of itself: version and commit.
    pub version: String,
}

/// Asks the program for its version.
///
/// # Errors
/// When it has another control protocol or is not a Rankmark, and for cases that no rank process runs.
pub fn look_at(path: &Path, matched: &[Matched]) -> Result<RanksProgram, Error> {
    if let Some(case) = matched.iter().map(|both| &both[1]).find(|case| benchmarks::is_in_process(case)) {
        let backend = case.backend().unwrap_or_default();
        return Err(Error::new(format!("`--binary-b` has no effect on backend `{backend}`"))
            .cause("its ranks are threads of this process, not processes of another program")
            .hint("use a backend that starts rank processes, such as `shm`"));
    }
    let shown = path.display();
    let path = std::path::absolute(path).map_err(|error| Error::new(format!("{shown} cannot be used")).cause(error))?;
    if !path.is_file() {
        return Err(
            Error::new(format!("{shown} is not a program")).hint("--binary-b takes the path of a rankmark binary")
        );
    }
    let outcome = child::run(&path, &["version", "--json"].map(OsStr::new), None, LIMIT)
        .map_err(|error| Error::new(format!("{shown} cannot be started")).cause(error))?;
    let said: Option<Value> = record::from_json(&outcome.out).ok();
    let Some(said) = said.filter(|said| outcome.ended == Ended::Code(0) && said["name"] == "rankmark") else {
        return Err(Error::new(format!("{shown} is not a rankmark"))
            .cause(format!("`{shown} version --json` {}", outcome.complaint())));
    };
    let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
    let commit: String = text("commit").chars().take(12).collect();
    let version = [text("version"), commit].join(" ").trim().to_owned();
    if said["protocol"].as_u64() == Some(u64::from(launch::PROTOCOL)) {
        return Ok(RanksProgram { path, version });
    }
    let theirs = said["protocol"].as_u64().map_or("does not name one".to_owned(), |protocol| format!("has {protocol}"));
    Err(Error::new(format!("ranks of {shown} (rankmark {version}) cannot join this program"))
        .cause(format!("its control protocol is another one: this program has {}, that one {theirs}", launch::PROTOCOL))
        .hint("run each program on its own and compare the records"))
}
