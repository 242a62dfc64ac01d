//! How long a user waits who has uv and nothing else: `uvx --from WHEEL rankmark run`, from an empty cache to the first row.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::done;
use crate::wheels;

/// In the version that this step was written with.
const UV: &str = "uv==0.13.9";

/// What the wait may take, in seconds.
const LIMIT: f64 = 60.0;

/// Measures the wait; a line that says it.
///
/// # Errors
/// That no row came, or that it took too long.
pub(super) fn measure(target: &Path, wheel: &Path, work: &Path) -> Result<String, String> {
    let tools = std::path::absolute(target.join("xtask/uv")).map_err(|error| error.to_string())?;
    wheels::environment(&tools, &[UV], true, wheels::plain)?;
    let home = work.join("uv");
    let _ = std::fs::remove_dir_all(&home);
    std::fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
    let mut uvx = Command::new("sh");
    uvx.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(tools.join("bin/uv"));
    // The wheel needs nothing else, so no registry is asked.
    uvx.args(["tool", "run", "--offline", "--from"]).arg(wheel).args(["rankmark", "run", "--output-dir", "record"]);
    uvx.current_dir(&home).env("HOME", &home).env("UV_CACHE_DIR", home.join("cache"));
    let (seconds, row) = first_row(&mut uvx)?;
    let line = format!("uvx  first row of `rankmark run` {seconds:.1} s after uvx began, from an empty cache: {row}");
    if seconds > LIMIT { Err(format!("{line}\nthis takes more than {LIMIT} s")) } else { Ok(line) }
}

/// When the first row with a checked result came, and the row. What runs is ended then.
fn first_row(command: &mut Command) -> Result<(f64, String), String> {
    let begun = Instant::now();
    let started = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| format!("uv: {error}"))?;
    let (mut said, mut found) = (String::new(), None);
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok) {
        if line.contains(", wrong 0") {
            found = Some((begun.elapsed().as_secs_f64(), line));
            break;
        }
        said += &line;
        said.push('\n');
    }
    if found.is_some() {
        // uv, the program and its ranks: one group.
        done(Command::new("kill").args(["-TERM", "--", &format!("-{}", child.id())]))?;
    }
    let ended = child.wait().map_err(|error| format!("uv: {error}"))?;
    found.ok_or_else(|| format!("uvx printed no row, and ended with {ended}:\n{said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_script(script: &str) -> Result<(f64, String), String> {
        first_row(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn the_first_row_is_found_and_the_rest_is_ended() {
        let begun = Instant::now();
        let (seconds, row) = of_script("echo machine; echo '1 KiB: 1 us, wrong 0'; sleep 60").unwrap();
        assert_eq!(row, "1 KiB: 1 us, wrong 0");
        assert!(seconds < 60.0 && begun.elapsed().as_secs_f64() < 60.0);
    }

    #[test]
    fn rows_that_are_missing_or_wrong_are_none() {
        let why = of_script("echo '1 KiB: 1 us, wrong 3'; exit 1").unwrap_err();
        assert!(why.contains("exit status: 1") && why.contains("wrong 3"), "{why}");
    }
}
