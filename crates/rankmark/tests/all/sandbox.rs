//! A container without a container runtime: the program of these tests as another user, with a root file system that cannot
//! be written to. bubblewrap makes it of namespaces and of the files of this machine.

use std::path::{Path, PathBuf};

use crate::namespaces::is_here;
use crate::place::{Place, Starting};
use crate::skip;

/// The user of the container images.
pub(crate) const USER: u32 = 10_001;
/// The folder of the program in a sandbox.
const PROGRAM: &str = "/opt/rankmark";

/// What a process sees and is.
pub(crate) struct Sandbox<'a> {
    place: &'a Place,
    user: u32,
    /// Lines of `/etc/passwd`.
    users: String,
    /// Lines of `/etc/hosts`.
    hosts: String,
    /// Folders and files of this machine, where they appear, and whether they can be written to.
    mounts: Vec<(PathBuf, String, bool)>,
    variables: Vec<(String, String)>,
    folder: String,
}

impl<'a> Sandbox<'a> {
    /// None where it cannot be made: `test` is then listed as skipped.
    pub(crate) fn new(place: &'a Place, test: &str) -> Option<Self> {
        if !is_here("bwrap") {
            skip::skip(test, "no bwrap (Debian: bubblewrap)");
            return None;
        }
        let sandbox = Self {
            place,
            user: USER,
            users: format!("rankmark:x:{USER}:{USER}::/tmp:/bin/sh\n"),
            hosts: "127.0.0.1 localhost\n".to_owned(),
            mounts: Vec::new(),
            variables: vec![("PATH".to_owned(), format!("{PROGRAM}:/usr/bin:/bin"))],
            folder: "/".to_owned(),
        };
        let tried = sandbox.command("", &["true".to_owned()]).run();
        if tried.status.code() == Some(0) {
            return Some(sandbox);
        }
        skip::skip(test, &format!("bwrap makes no namespaces here: {}", tried.err.trim()));
        None
    }

    /// Runs as a user whom no file knows.
    pub(crate) fn with_unknown_user(mut self, user: u32) -> Self {
        (self.user, self.users) = (user, String::new());
        self
    }

    pub(crate) fn with_hosts(mut self, lines: &str) -> Self {
        self.hosts.push_str(lines);
        self
    }

    pub(crate) fn mount(mut self, from: impl AsRef<Path>, at: &str, writable: bool) -> Self {
        self.mounts.push((from.as_ref().to_owned(), at.to_owned(), writable));
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A folder before the others in which programs are looked for.
    pub(crate) fn path_with(self, folder: &str) -> Self {
        let path = self.variables.iter().find(|(name, _)| name == "PATH").map_or("", |(_, path)| path);
        let path = format!("{folder}:{path}");
        self.variable("PATH", &path)
    }

    pub(crate) fn in_folder(mut self, folder: &str) -> Self {
        self.folder = folder.to_owned();
        self
    }

    /// A command in the sandbox. `enter` begins the command line: what enters the network of a host, or nothing.
    pub(crate) fn command(&self, enter: &str, command: &[String]) -> Starting<'a> {
        let mut words = enter.split_whitespace().map(str::to_owned).chain(["bwrap".to_owned()]);
        let mut starting = self.place.command_of(&words.next().unwrap_or_default(), "");
        starting.command.args(words).args(self.arguments()).arg("--").args(command);
        starting
    }

    fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent"]
            .iter()
            .chain(&["--new-session", "--clearenv", "--proc", "/proc", "--dev", "/dev"])
            .chain(&["--tmpfs", "/tmp", "--tmpfs", "/dev/shm", "--ro-bind", "/usr", "/usr"])
            .map(|word| (*word).to_owned())
            .collect();
        let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        add(&["--uid", &self.user.to_string(), "--gid", &self.user.to_string(), "--chdir", &self.folder]);
        for name in ["/bin", "/sbin", "/lib", "/lib64"] {
            match std::fs::read_link(name) {
                Ok(target) => add(&["--symlink", &target.to_string_lossy(), name]),
                Err(_) => add(&["--ro-bind-try", name, name]),
            }
        }
        for name in ["/etc/ld.so.cache", "/etc/alternatives", "/etc/openmpi"] {
            add(&["--ro-bind-try", name, name]);
        }
        let name = |suffix: &str| format!("{}-{suffix}", self.user);
        let files = [
            ("passwd", self.users.clone()),
            ("group", format!("rankmark:x:{}:\n", self.user)),
            ("hosts", self.hosts.clone()),
            ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".to_owned()),
        ];
        for (file, text) in files {
            self.place.write(&name(file), text);
            add(&["--ro-bind", &self.place.path(&name(file)).to_string_lossy(), &format!("/etc/{file}")]);
        }
        add(&["--ro-bind", env!("CARGO_BIN_EXE_rankmark"), &format!("{PROGRAM}/rankmark")]);
        for (from, at, writable) in &self.mounts {
            add(&[if *writable { "--bind" } else { "--ro-bind" }, &from.to_string_lossy(), at]);
        }
        add(&["--remount-ro", "/"]);
        for (name, value) in &self.variables {
            add(&["--setenv", name, value]);
        }
        words
    }
}
