//! Where agents find their coordinator: a file of mode 0600 in a folder of mode 0700, named after the job, that holds its
//! address and the secret. It is there only until all agents have joined.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use control::{HANDSHAKE_LIMIT, Invitation};
use process::{began, host_name, pid_namespace};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Variables;

/// Longest rendezvous file.
const LONGEST: u64 = 64 << 10;

/// A link in the place of the file is not followed.
const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// What the file holds. No `Debug`: the invitation holds the secret.
#[derive(Serialize, Deserialize)]
pub(super) struct RendezvousFile {
    /// The coordinator's process, and when it began: a number may be used again.
    pub(super) pid: u32,
    pub(super) started: u64,
    /// The PID namespace that the number is of: containers of one host may share a folder.
    #[serde(default)]
    pub(super) pid_namespace: Option<u64>,
    /// The host on which that is so.
    pub(super) host: String,
    pub(super) invitation: Invitation,
}

/// The file, removed when dropped.
pub(super) struct Published(PathBuf);

impl Drop for Published {
    fn drop(&mut self) {
        // Another process that removed it first has done no harm.
        let _ = fs::remove_file(&self.0);
    }
}

/// Names the folder that hosts share.
pub(super) const RENDEZVOUS_DIR: &str = "RANKMARK_RENDEZVOUS_DIR";

/// This user's folder for such files. The one below RANKMARK_RENDEZVOUS_DIR, where that is set. Else, where all ranks are on
/// one host, below XDG_RUNTIME_DIR if that is this user's own, or in /tmp; and where they are on several, in the home
/// directory, which hosts usually share.
///
/// # Errors
/// When the one that the user names depends on where a process was started; when ranks are on several hosts
/// and the user has no home directory.
pub(super) fn folder(variable: Variables<'_>, several: bool) -> Result<PathBuf, String> {
    if let Some(given) = variable(RENDEZVOUS_DIR) {
        let absolute = Path::new(&given).is_absolute();
        let why = || format!("{RENDEZVOUS_DIR} is `{}`, which is not an absolute path", given.escape_debug());
        return if absolute { Ok(Path::new(&given).join("rankmark")) } else { Err(why()) };
    }
    if !several {
        return Ok(local_folder(variable));
    }
    let home = variable("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    home.map(|home| home.join(".rankmark")).ok_or_else(|| "HOME is not set".to_owned())
}

fn local_folder(variable: Variables<'_>) -> PathBuf {
    let given = variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let own = given.filter(|path| fs::symlink_metadata(path).is_ok_and(|found| private(&found, true).is_ok()));
    own.map_or_else(|| PathBuf::from(format!("/tmp/rankmark-{}", user())), |path| path.join("rankmark"))
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether only this user can reach it.
fn private(found: &fs::Metadata, folder: bool) -> Result<(), String> {
    if (folder && !found.is_dir()) || (!folder && !found.is_file()) {
        return Err(format!("is no {}", if folder { "folder" } else { "plain file" }));
    }
    if found.uid() != user() {
        return Err(format!("belongs to user {}, not to user {}", found.uid(), user()));
    }
    if found.mode() & 0o077 != 0 {
        return Err(format!("is open to others (mode {:o})", found.mode() & 0o777));
    }
    Ok(())
}

/// Refuses a folder that others can reach: of `/tmp` anybody can take the name.
fn check_folder(folder: &Path) -> Result<(), String> {
    let found = fs::symlink_metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    private(&found, true).map_err(|why| elsewhere(&format!("{} {why}", folder.display())))
}

/// Why a folder cannot be used, and how to use another.
fn elsewhere(why: &str) -> String {
    format!("{why} ({RENDEZVOUS_DIR}=/PATH names a folder that this user can write to)")
}

/// How names of these files begin.
const PREFIX: &str = "job-";

/// The file of a job.
pub(super) fn path(folder: &Path, job: &str) -> PathBuf {
    let digest = Sha256::digest(job.as_bytes());
    let digits: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    folder.join(format!("{PREFIX}{digits}"))
}

/// Writes the file of a job. One that a coordinator left behind which is gone is replaced.
///
/// # Errors
/// Why it cannot be; in particular, that another coordinator lives.
pub(super) fn publish(folder: &Path, job: &str, rendezvous_file: &RendezvousFile) -> Result<Published, String> {
    let in_folder = |error: io::Error| format!("{}: {error}", folder.display());
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(elsewhere(&in_folder(error)));
        }
        _ => {}
    }
    check_folder(folder)?;
    sweep(folder);
    let path = path(folder, job);
    let at_path = |error: io::Error| format!("{}: {error}", path.display());
    let mut file = match create(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if let Some(other) = read(folder, job).ok().filter(lives) {
                let RendezvousFile { pid, host, .. } = other;
                return Err(format!("another coordinator (pid {pid} on {host}) has this job's ranks already"));
            }
            fs::remove_file(&path).map_err(at_path)?;
            create(&path)
        }
        created => created,
    }
    .map_err(at_path)?;
    let published = Published(path.clone());
    let text = serde_json::to_vec(rendezvous_file).map_err(|error| error.to_string())?;
    file.write_all(&text).map_err(at_path)?;
    Ok(published)
}

/// Removes the files of coordinators that are gone: a process that is killed leaves its own. Those of another host or PID
/// namespace are left: whether they live can only be known by their port, which may be that of another network.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let Some(other) = Some(&path).filter(|_| named).and_then(|path| read_at(path).ok()) else { continue };
        if other.is_of_here() && !lives(&other) {
            // Another process that removed it first has done no harm.
            let _ = fs::remove_file(&path);
        }
    }
}

impl RendezvousFile {
    /// Whether its process has a number of this host and PID namespace.
    fn is_of_here(&self) -> bool {
        self.host == host_name() && self.pid_namespace == pid_namespace()
    }
}

/// Whether the coordinator of this rendezvous file is still there. Of one on another host or in another container its port tells.
fn lives(other: &RendezvousFile) -> bool {
    if other.is_of_here() {
        return began(other.pid) == Some(other.started);
    }
    TcpStream::connect_timeout(&other.invitation.address, HANDSHAKE_LIMIT).is_ok()
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(NOFOLLOW).open(path)
}

/// Reads the file of a job.
///
/// # Errors
/// When there is none (yet), or not a whole one, or others could have written it.
pub(super) fn read(folder: &Path, job: &str) -> Result<RendezvousFile, String> {
    let path = path(folder, job);
    check_folder(folder)?;
    // A network file system remembers for a while that there was no such file; looking through the folder makes it ask.
    let _ = fs::read_dir(folder).map(Iterator::count);
    read_at(&path)
}

/// Reads a file of this folder.
fn read_at(path: &Path) -> Result<RendezvousFile, String> {
    let at_path = |error: io::Error| format!("{}: {error}", path.display());
    let file = OpenOptions::new().read(true).custom_flags(NOFOLLOW).open(path).map_err(at_path)?;
    private(&file.metadata().map_err(at_path)?, false).map_err(|why| format!("{} {why}", path.display()))?;
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text).map_err(at_path)?;
    record::from_json(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The name of the file system of this folder, where it is one that hosts do not share.
pub(super) fn kept_local(folder: &Path) -> Option<&'static str> {
    const LOCAL: [(i64, &str); 6] = [
        (0xef53, "ext4"),
        (0x5846_5342, "xfs"),
        (0x9123_683e, "btrfs"),
        (0x0102_1994, "tmpfs"),
        (0x794c_7630, "overlay"),
        (0x2fc1_2fc1, "zfs"),
    ];
    let found = rustix::fs::statfs(folder).ok()?.f_type;
    LOCAL.iter().find(|(magic, _)| *magic == found as i64).map(|(_, name)| *name)
}
