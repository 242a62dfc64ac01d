//! Python's own frames, by a program that reads them (py-spy). An interpreter's layout differs between versions, so nothing
//! here knows it.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use crate::child::{Ended, printable, run};

/// Lines that are kept.
const LINES: usize = 24;

/// The Python stack of a process as py-spy, which is this program, prints it: threads and their frames.
///
/// # Errors
/// Why py-spy gave none.
pub fn python_stack(program: &Path, pid: u32, limit: Duration) -> Result<Vec<String>, String> {
    let pid = pid.to_string();
    // It need not stop the process: it may be stopped already, and is to go on otherwise.
    let arguments = ["dump", "--nonblocking", "--pid", &pid].map(OsStr::new);
    let outcome = run(program, &arguments, None, limit).map_err(|error| error.to_string())?;
    let said = outcome.out.lines().map(str::trim_end).filter(|line| !line.is_empty());
    // Before the threads it names the process and its version.
    let lines: Vec<String> = said.skip_while(|line| !line.starts_with("Thread")).take(LINES).map(printable).collect();
    if outcome.ended == Ended::Code(0) && !lines.is_empty() { Ok(lines) } else { Err(outcome.complaint()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_the_program_prints_of_threads_is_kept() {
        let path = std::env::temp_dir().join(format!("rankmark-py-spy-{}", std::process::id()));
        let script = "#!/bin/sh\n[ \"$*\" = 'dump --nonblocking --pid 7' ] || { echo no such process >&2; exit 1; }\n\
                      printf 'Process 7: python\\nPython v3\\n\\nThread 7 (idle): \"MainThread\"\\n    wait (a.py:3)\\n'\n";
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let read = |pid| python_stack(&path, pid, Duration::from_secs(20));
        let (known, unknown) = (read(7), read(8));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(known.unwrap(), ["Thread 7 (idle): \"MainThread\"", "    wait (a.py:3)"]);
        assert!(unknown.unwrap_err().contains("no such process"));
    }
}
