//! How the processes of a job find their coordinator and know that it is theirs: by a file in a folder that they share
//! (`rendezvous_file`), by what their launcher holds for them (`c10d`, `pmi`), or at an address that all of them were given, with
//! a secret from a file. The last is for hosts that share no folder, the pods of a Kubernetes Job above all.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::{Invitation, Secret, reach};
use measure::WorldSpec;
use process::{began, host_name, pid_namespace};
use serde_json::Map;
use sha2::{Digest, Sha256};

use crate::Variables;
use crate::rank::{COORDINATOR, JOB_COMPLETION_INDEX, SECRET_FILE};

use super::External;
use super::c10d::Store;
use super::pmi::{KeyValueSpace, Unknown};
use super::rendezvous_file::{self, Published, RENDEZVOUS_DIR, RendezvousFile};

/// A secret of fewer bytes could be guessed by an attacker who listens to one handshake: 16 random ones as hex digits are enough.
const SHORTEST: usize = 32;
/// No secret is longer; what is was not meant.
const LONGEST: u64 = 4 << 10;

/// Where the processes of a job meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MeetingPoint {
    /// A file in this folder names the coordinator and holds the run's secret.
    Folder(PathBuf),
    /// The coordinator listens at this `HOST:PORT`, and all have the secret of this file.
    Address { place: String, file: PathBuf, secret: Secret },
    /// torchrun's store at this `HOST:PORT` has what the file of a folder would hold.
    Store(String),
    /// The launcher's key-value space has it. The process of rank 0 puts it there, and reads it in this folder, which its
    /// coordinator shares with no other process.
    Launcher { space: KeyValueSpace, folder: PathBuf },
}

/// Why the coordinator was not found.
pub(super) enum NotFound {
    /// Another look may find it.
    Yet(String),
    /// No look will.
    Ever(String),
    /// It ended before it could be found, and said why.
    Ended,
}

impl From<String> for NotFound {
    fn from(why: String) -> Self {
        Self::Yet(why)
    }
}

/// What makes a coordinator known until it is dropped.
pub(super) enum Announced {
    File { _file: Published },
    Key { place: String, key: String },
}

impl Drop for Announced {
    fn drop(&mut self) {
        if let Self::Key { place, key } = self {
            // The store ends with its launcher.
            let _ = Store::open(place).map(|mut store| store.delete(key));
        }
    }
}

/// The store of torchrun's agents, which workers may use.
const AGENT_STORE: &str = "TORCHELASTIC_USE_AGENT_STORE";

impl MeetingPoint {
    /// What the environment says. `speaks_pmi`: the launcher does, and keeps to itself what processes tell it.
    ///
    /// # Errors
    /// What is missing, when ranks are on several hosts; half of what was meant; a file that holds no secret.
    pub(super) fn from_variables(variable: Variables<'_>, several: bool, speaks_pmi: bool) -> Result<Self, String> {
        match (variable(COORDINATOR), variable(SECRET_FILE)) {
            (Some(place), Some(file)) => {
                port(&place)?;
                let file = PathBuf::from(file);
                Ok(Self::Address { place, secret: given(&file)?, file })
            }
            (None, Some(_)) => Err(format!("{SECRET_FILE} is set, but {COORDINATOR} does not say where to connect")),
            (Some(_), None) if !is_spare(variable, several) => {
                Err(format!("{COORDINATOR} is set, but {SECRET_FILE}, with which they authenticate, is not"))
            }
            (_, None) if several && variable(RENDEZVOUS_DIR).is_none() => {
                if let Some(place) = store(variable) {
                    return Ok(Self::Store(place));
                }
                // What this process and its own coordinator share is never elsewhere.
                match KeyValueSpace::from_variables(variable).filter(|_| speaks_pmi) {
                    Some(space) => Ok(Self::Launcher { space, folder: rendezvous_file::folder(variable, false)? }),
                    None => rendezvous_file::folder(variable, several).map(Self::Folder),
                }
            }
            (_, None) => rendezvous_file::folder(variable, several).map(Self::Folder),
        }
    }

    /// The secret of the coordinator that opens this meeting point.
    ///
    /// # Errors
    /// When none is available.
    pub(super) fn secret(&self, job: &str) -> Result<Secret, String> {
        match self {
            Self::Folder(_) | Self::Store(_) | Self::Launcher { .. } => {
                Secret::fresh().map_err(|error| format!("random bytes cannot be read: {error}"))
            }
            Self::Address { secret, .. } => Ok(secret.of_job(job)),
        }
    }

    /// Where its coordinator listens; port 0: on any.
    ///
    /// # Errors
    /// When that is not an address of this host, or none leads to others.
    pub(super) fn listening(&self, several: bool, interface: Option<&str>) -> Result<SocketAddr, String> {
        let outward = || reach::outward(interface).map(|found| found.address);
        let Self::Address { place, .. } = self else {
            let address = if several { outward()? } else { IpAddr::V4(Ipv4Addr::LOCALHOST) };
            return Ok(SocketAddr::new(address, 0));
        };
        let port = port(place)?;
        if interface.is_some() {
            return Ok(SocketAddr::new(outward()?, port));
        }
        match resolve(place) {
            Ok(addresses) if several && leads_back(place, &addresses) => Ok(SocketAddr::new(outward()?, port)),
            Ok(addresses) => addresses.iter().find(|address| reach::is_own(address.ip())).copied().ok_or_else(|| {
                let named: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
                format!("{COORDINATOR} is {place}, which is {}, not an address of rank 0's host", named.join(", "))
            }),
            // The name of a pod that starts just now may not be known yet, not even to itself.
            Err(_) => Ok(SocketAddr::new(outward()?, port)),
        }
    }

    /// Makes known that the coordinator listens at `address`.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(super) fn announce(&self, job: &str, invitation: Invitation) -> Result<Option<Announced>, String> {
        let folder = match self {
            Self::Folder(folder) | Self::Launcher { folder, .. } => folder,
            Self::Address { .. } => return Ok(None),
            Self::Store(place) => {
                let (place, key) = (place.clone(), key(job));
                let value = serde_json::to_vec(&invitation).map_err(|error| error.to_string())?;
                Store::open(&place)?.set(&key, &value).map_err(|error| lost(&place, &error))?;
                return Ok(Some(Announced::Key { place, key }));
            }
        };
        let pid = std::process::id();
        let started = began(pid).ok_or("reading /proc/self/stat")?;
        let (host, pid_namespace) = (host_name(), pid_namespace());
        let file = RendezvousFile { pid, started, pid_namespace, host, invitation };
        rendezvous_file::publish(folder, job, &file).map(|file| Some(Announced::File { _file: file }))
    }

    /// How to join the coordinator of this process's job: the places to try, in turn.
    ///
    /// # Errors
    /// Why that is not known, or not yet.
    pub(super) fn find(&self, external: &External) -> Result<Vec<Invitation>, NotFound> {
        match self {
            Self::Folder(folder) => Ok(vec![rendezvous_file::read(folder, &external.job)?.invitation]),
            Self::Store(place) => {
                let value = Store::open(place)?.get(&key(&external.job)).map_err(|error| lost(place, &error))?;
                let value = value.ok_or_else(|| format!("torchrun's store at {place} does not name it yet"))?;
                Ok(vec![parsed(&value)?])
            }
            Self::Launcher { space, folder } if external.rank == 0 => {
                let invitation = rendezvous_file::read(folder, &external.job)?.invitation;
                let value = serde_json::to_vec(&invitation).map_err(|error| error.to_string())?;
                space.tell(&value, external.arrival).map_err(NotFound::Ever)?;
                Ok(vec![invitation])
            }
            Self::Launcher { space, .. } => match space.learn(self.pause(), external.arrival) {
                Ok(value) => Ok(vec![parsed(&value).map_err(NotFound::Ever)?]),
                Err(Unknown::Yet) => Err(NotFound::Yet(format!(
                    "not all {} processes have entered the launcher's barrier behind which it is named",
                    external.size
                ))),
                Err(Unknown::Unnamed) => Err(NotFound::Ended),
                Err(Unknown::Broken(why)) => Err(NotFound::Ever(why)),
            },
            Self::Address { place, secret, .. } => {
                let secret = secret.of_job(&external.job);
                let spec = || WorldSpec { ranks: external.size, fields: Map::new() };
                let to = |address| Invitation::new(address, &secret, Duration::ZERO, (Vec::new(), false), spec());
                let mut found = resolve(place)?;
                if external.several && leads_back(place, &found) {
                    let outward = reach::outward(external.interface.as_deref())?;
                    found = vec![SocketAddr::new(outward.address, port(place)?)];
                }
                Ok(found.into_iter().map(to).collect())
            }
        }
    }

    /// Between two looks for the coordinator: a file is looked at, or a name is asked for over the network.
    pub(super) const fn pause(&self) -> Duration {
        match self {
            Self::Folder(_) => Duration::from_millis(20),
            Self::Address { .. } | Self::Store(_) | Self::Launcher { .. } => Duration::from_millis(200),
        }
    }

    /// Whether all processes of the launcher know the coordinator, as far as the process of rank 0 has to wait for that: the
    /// MPI library of its rank must not find the end of a barrier that it did not enter. Looks for so long as [`Self::pause`] says.
    ///
    /// # Errors
    /// Why that will not be known.
    pub(super) fn is_told(&self) -> Result<bool, String> {
        match self {
            Self::Launcher { space, .. } => space.wait(self.pause()),
            Self::Folder(_) | Self::Address { .. } | Self::Store(_) => Ok(true),
        }
    }

    /// Whether nobody can find the coordinator any more.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self, Self::Launcher { space, .. } if space.broken().is_some())
    }

    /// To be called when this process ends. `is_awaited`: that of rank 0, for which all others wait.
    pub(super) fn leave(&self, is_awaited: bool) {
        if let Self::Launcher { space, .. } = self {
            space.leave(is_awaited);
        }
    }

    /// What must be so on all hosts for ranks to find it.
    pub(super) fn demands(&self) -> String {
        let reached = "they must reach the address on which the coordinator listens, which RANKMARK_INTERFACE chooses";
        match self {
            Self::Folder(folder) => {
                let local = rendezvous_file::kept_local(folder)
                    .map_or_else(String::new, |kind| format!(" (it is on {kind} here)"));
                format!(
                    "the folder {}{local} must be the same on all hosts, or RANKMARK_RENDEZVOUS_DIR name one that is \
                     (or {COORDINATOR} and {SECRET_FILE} tell them all), and {reached}",
                    folder.display()
                )
            }
            Self::Store(place) => format!("all hosts must reach torchrun's store at {place}, and {reached}"),
            Self::Launcher { .. } => format!(
                "all processes must enter one barrier of the launcher (or share the folder of \
                 RANKMARK_RENDEZVOUS_DIR=/PATH), and {reached}"
            ),
            Self::Address { place, file, .. } => {
                format!(
                    "{} must hold the same on all hosts, {place} lead to that of rank 0, and {reached}",
                    file.display()
                )
            }
        }
    }
}

fn parsed(value: &[u8]) -> Result<Invitation, String> {
    record::from_json(value).map_err(|error| error.to_string())
}

/// Where torchrun's store listens, if it says that workers may use it.
fn store(variable: Variables<'_>) -> Option<String> {
    variable(AGENT_STORE).filter(|is_served| is_served.eq_ignore_ascii_case("true"))?;
    Some(format!("{}:{}", variable("MASTER_ADDR")?, variable("MASTER_PORT")?))
}

/// The key of a job in a store.
fn key(job: &str) -> String {
    let digest = Sha256::digest(job.as_bytes());
    let digits: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("rankmark/{digits}")
}

fn lost(place: &str, error: &std::io::Error) -> String {
    format!("torchrun's store at {place} did not answer: {error}")
}

/// Whether the address may go unused. To a pod it is said whatever its ranks need, since it also names the Job: all may
/// be in this pod, or share a folder, as pods do only where somebody says so. Elsewhere it says where to meet.
fn is_spare(variable: Variables<'_>, several: bool) -> bool {
    let pod = variable(JOB_COMPLETION_INDEX).is_some();
    pod && (!several || variable(RENDEZVOUS_DIR).is_some())
}

/// The port of `HOST:PORT`.
fn port(place: &str) -> Result<u16, String> {
    let port = place.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse().ok());
    port.filter(|port| *port > 0).ok_or_else(|| format!("{COORDINATOR} is `{}`, not HOST:PORT", place.escape_debug()))
}

/// Whether a name leads to loopback only: many hosts have their own there (Debian's 127.0.1.1), where others do not reach
/// them. An address is meant as it is.
fn leads_back(place: &str, found: &[SocketAddr]) -> bool {
    place.parse::<SocketAddr>().is_err() && found.iter().all(|address| address.ip().is_loopback())
}

/// Addresses of a place; never none.
fn resolve(place: &str) -> Result<Vec<SocketAddr>, String> {
    let found: Vec<SocketAddr> =
        place.to_socket_addrs().map_err(|error| format!("looking for {place}: {error}"))?.collect();
    if found.is_empty() { Err(format!("{place} has no address")) } else { Ok(found) }
}

/// The secret that all processes of a job were given in a file. Links are followed: Kubernetes mounts Secrets as links, and
/// owned by root, for processes in the pod's group.
fn given(path: &Path) -> Result<Secret, String> {
    let refusal = |why: String| format!("{SECRET_FILE} is {}: {why}", path.display());
    let read = || -> std::io::Result<(u32, Vec<u8>)> {
        let file = record::file::open_named(path)?;
        let (mode, mut bytes) = (file.metadata()?.permissions().mode(), Vec::new());
        file.take(LONGEST + 1).read_to_end(&mut bytes)?;
        Ok((mode, bytes))
    };
    let (mode, bytes) = read().map_err(|error| refusal(error.to_string()))?;
    if mode & 0o007 != 0 {
        return Err(refusal(format!("it is open to all users (mode {:o})", mode & 0o777)));
    }
    let bytes = bytes.trim_ascii_end();
    if bytes.len() < SHORTEST || bytes.len() as u64 > LONGEST {
        let enough = "`head -c 32 /dev/urandom | base64` makes one";
        return Err(refusal(format!("a secret must have from {SHORTEST} to {LONGEST} bytes ({enough})")));
    }
    Ok(Secret::given(bytes))
}
