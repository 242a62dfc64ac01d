//! What a rank inherits from its coordinator: where to connect, the secret, and the world that it belongs to.
//!
//! It lies in sealed memory, and the rank inherits the descriptor. So the secret is in no argument, no environment
//! variable and no file. Both sides close it once read.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use measure::WorldSpec;
use process::{host_name, sealed_memory};
use serde::{Deserialize, Serialize};

use crate::auth::Secret;
use crate::message::Hex;
use crate::reach;

/// The invitation to one world; the same for all its ranks. No `Debug`: it holds the secret.
#[derive(Serialize, Deserialize)]
pub struct Invitation {
    /// Where the coordinator listens.
    pub address: SocketAddr,
    /// Name of the coordinator's host. None where another host made the invitation.
    #[serde(default)]
    pub(crate) host: Option<String>,
    secret: Hex,
    /// How long a rank tries to get in.
    pub wait: Duration,
    /// The cores that ranks of this host may use.
    pub cores: Vec<u32>,
    /// Whether each rank is bound to one of them.
    pub bound: bool,
    /// Which host each rank is on, by rank; empty where all are on one.
    #[serde(default)]
    pub hosts: Vec<u32>,
    /// Ranks of other hosts that have the same cores: containers of one machine.
    #[serde(default)]
    pub co_located: u32,
    /// The world.
    pub spec: WorldSpec,
}

impl Invitation {
    /// An invitation of these parts.
    pub fn new(
        address: SocketAddr,
        secret: &Secret,
        wait: Duration,
        (cores, bound): (Vec<u32>, bool),
        spec: WorldSpec,
    ) -> Self {
        Self {
            address,
            host: reach::is_own(address.ip()).then(host_name),
            secret: Hex(secret.bytes().to_vec()),
            wait,
            cores,
            bound,
            hosts: Vec::new(),
            co_located: 0,
            spec,
        }
    }

    /// The secret.
    ///
    /// # Errors
    /// When it has not the length of one.
    pub fn secret(&self) -> io::Result<Secret> {
        let bytes = self.secret.0.as_slice().try_into();
        bytes.map(Secret::from_bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no secret"))
    }

    /// Writes it into memory that ranks can inherit.
    ///
    /// # Errors
    /// When the system has no memory for it.
    pub fn into_memory(self) -> io::Result<File> {
        let bytes = serde_json::to_vec(&self)?;
        let memory = sealed_memory(c"rankmark-invitation", bytes.len() as u64)?;
        memory.write_all_at(&bytes, 0)?;
        Ok(memory)
    }

    /// Reads it. All ranks share one file position, so it is not used.
    ///
    /// # Errors
    /// When the memory holds no invitation.
    pub fn from_memory(memory: &File) -> io::Result<Self> {
        let mut bytes = vec![0; usize::try_from(memory.metadata()?.len()).unwrap_or(0)];
        memory.read_exact_at(&mut bytes, 0)?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_reads_back_from_its_memory() {
        let spec = WorldSpec { ranks: 4, fields: serde_json::Map::new() };
        let address = "127.0.0.1:1".parse().unwrap();
        let secret = Secret::fresh().unwrap();
        let mut invitation = Invitation::new(address, &secret, Duration::ZERO, (vec![0, 1], true), spec);
        invitation.hosts = vec![0, 1, 0, 0];
        let memory = invitation.into_memory().unwrap();
        let read = Invitation::from_memory(&memory).unwrap();
        assert_eq!((read.hosts.as_slice(), read.cores.as_slice()), (&[0, 1, 0, 0][..], &[0, 1][..]));
        assert!(read.secret().unwrap() == secret);
        assert_eq!(read.host, Some(host_name()), "the coordinator made it");
        // TEST-NET-2 of RFC 5737: no host has it.
        let elsewhere = "198.51.100.1:1".parse().unwrap();
        let spec = WorldSpec { ranks: 4, fields: serde_json::Map::new() };
        assert_eq!(Invitation::new(elsewhere, &secret, Duration::ZERO, (vec![0], true), spec).host, None);
    }
}
