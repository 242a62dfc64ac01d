//! The launcher's processes above this one: each is watched, because nobody else ends what a killed launcher leaves behind.
//!
//! By pidfd and not by PR_SET_PDEATHSIG: that one is sent when the *thread* that started a process ends, and which threads
//! a launcher has is its own affair.

use std::io;
use std::path::Path;

use process::{Ancestor, Interest, PollSet, Process, ancestors, began};

use super::names::{KEEPERS, LAUNCHERS};

/// What people start processes with, and leave them behind on purpose (`&`, `nohup`).
pub(crate) const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh"];

/// What never ends before us.
const NO_LAUNCHERS: [&str; 6] = ["login", "sshd", "init", "systemd", "tini", "dumb-init"];

/// A process of the launcher that started this one.
pub(super) struct Above {
    process: Process,
    /// "`mpirun` (pid 4711)".
    pub(super) title: String,
}

/// The launcher's processes above this one, without the first `skipped` processes above: the one that started this process,
/// unless it is a shell, and every one that has a launcher's name.
pub(super) fn launchers(skipped: usize) -> Vec<Above> {
    let found = ancestors().into_iter().enumerate().skip(skipped);
    let launcher = found.filter(|(index, ancestor)| {
        let starter = *index == skipped && ![&SHELLS[..], &NO_LAUNCHERS].concat().contains(&ancestor.name.as_str());
        starter || is_launcher(ancestor)
    });
    launcher.filter_map(|(_, ancestor)| watched(&ancestor)).collect()
}

/// None: it has ended.
fn watched(ancestor: &Ancestor) -> Option<Above> {
    let process = Process::watch_foreign(ancestor.pid).ok()?;
    // The number may have become another's in between.
    let same = began(ancestor.pid) == Some(ancestor.started);
    same.then(|| Above { process, title: format!("`{}` (pid {})", ancestor.name, ancestor.pid) })
}

/// Whether a process is one of a launcher, by its name.
pub(super) fn is_launcher(ancestor: &Ancestor) -> bool {
    let named =
        |name: &str| LAUNCHERS.iter().chain(&KEEPERS).chain(&["torchrun", "srun"]).any(|it| name.starts_with(it));
    // torchrun is a script of Python, which may run under Python's name.
    let torch = || {
        let line = std::fs::read(Path::new("/proc").join(ancestor.pid.to_string()).join("cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| word == b"torch.distributed.run" || word.ends_with(b"/torchrun"))
    };
    named(&ancestor.name) || (ancestor.name.starts_with("python") && torch())
}

/// Whether a process is a shell that somebody types into: it was started without a script.
pub(super) fn is_interactive_shell(ancestor: &Ancestor) -> bool {
    let line = std::fs::read(Path::new("/proc").join(ancestor.pid.to_string()).join("cmdline")).unwrap_or_default();
    SHELLS.contains(&ancestor.name.as_str()) && has_no_script(&line)
}

/// `bash -l`, and not `bash job.sh` or `bash -c "..."`.
fn has_no_script(line: &[u8]) -> bool {
    let mut words = line.strip_suffix(&[0]).unwrap_or(line).split(|byte| *byte == 0).skip(1);
    words.all(|word| word.starts_with(b"-") && word != b"-c")
}

/// Calls `tell` with the title of the first of these that ends. Sleeps until then, on a thread of its own.
pub(super) fn tell_end(of: Vec<Above>, tell: impl FnOnce(&str) + Send + 'static) -> io::Result<()> {
    if of.is_empty() {
        return Ok(());
    }
    let wait = move || {
        let mut polls = PollSet::default();
        loop {
            polls.clear();
            of.iter().for_each(|above| _ = polls.add(above.process.descriptor(), Interest::Read));
            if polls.wait(None).is_err() {
                return;
            }
            if let Some((_, above)) = of.iter().enumerate().find(|(index, _)| polls.happened(*index)) {
                return tell(&above.title);
            }
        }
    };
    std::thread::Builder::new().name("launcher".to_owned()).stack_size(128 << 10).spawn(wait).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_with_a_script_are_not_typed_into() {
        for (line, is_typed) in [
            (b"-bash\0".as_slice(), true),
            (b"/bin/bash\0--login\0-i\0", true),
            (b"bash\0job.sh\0", false),
            (b"bash\0-c\0rankmark run\0", false),
            (b"", true),
        ] {
            assert_eq!(has_no_script(line), is_typed);
        }
    }
}
