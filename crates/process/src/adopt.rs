//! Descendants that become children: processes that a child forked for this one.

use std::io;

use rustix::process::{getpid, set_child_subreaper};

use crate::pidfd::{Process, state_and_parent_of};

/// While it lives, descendants that lose their parent become children of this process, not of init.
///
/// No longer than needed: whatever else loses its parent then becomes a child that nobody reaps.
#[derive(Debug)]
pub struct Adoption(());

impl Adoption {
    /// Begins it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn begin() -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Self(()))
    }
}

impl Drop for Adoption {
    fn drop(&mut self) {
        let _ = set_child_subreaper(None);
    }
}

impl Process {
    /// Watches a process that has become a child of this one by an [`Adoption`].
    ///
    /// # Errors
    /// When it is not a child of this process, or the system has no descriptors left.
    pub fn watch_descendant(pid: u32) -> io::Result<Self> {
        // Only this process reaps its children: if it is one, the number stays its own.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        match state_and_parent_of(&stat) {
            Some((_, parent)) if parent == std::process::id() => Self::watch(pid),
            _ => Err(io::Error::other(format!("process {pid} is not a child of this process"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// A process that a shell started and left behind.
    fn left_behind() -> u32 {
        let mut command = Command::new("/bin/sh");
        // Its output would otherwise be waited for.
        command.args(["-c", "sleep 60 >/dev/null 2>&1 & echo $!"]).stdout(Stdio::piped());
        let said = command.output().unwrap().stdout;
        String::from_utf8(said).unwrap().trim().parse().unwrap()
    }

    #[test]
    fn orphans_become_children_only_meanwhile() {
        let adoption = Adoption::begin().unwrap();
        let pid = left_behind();
        let mut process = Process::watch_descendant(pid).unwrap();
        drop(adoption);
        process.kill();
        let ended = (0..500).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            process.exit()
        });
        assert_eq!(ended, Some(crate::Exit::Signal(libc::SIGKILL)));
        let other = left_behind();
        assert!(Process::watch_descendant(other).is_err(), "it belongs to init");
        Process::watch_foreign(other).unwrap().kill();
    }
}
