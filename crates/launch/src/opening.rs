//! What every world begins with, whoever starts its ranks: a secret, a listener, a status page, and the invitation
//! that tells ranks of them.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use control::{Invitation, Rendezvous, Secret};
use measure::{Verdict, WorldSpec};
use process::{allowed_cores, keep_children};

use crate::status::StatusPage;
use crate::verdict::not_started;
use crate::world::ProcessWorld;

/// A world that waits for its ranks.
pub(crate) struct Opening {
    /// Without members yet. Dropping it kills those that it is given.
    pub(crate) world: ProcessWorld,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// What each rank reads first.
    pub(crate) invitation: File,
    /// What each rank writes its state to.
    pub(crate) status: File,
    /// Cores that ranks may use.
    pub(crate) cores: Vec<u32>,
}

impl Opening {
    /// Opens a world of this host. Its ranks have until `limit` to come, each bound to a core if `bound`.
    ///
    /// # Errors
    /// What the system refused.
    pub(crate) fn new(spec: &WorldSpec, bound: bool, limit: Duration) -> Result<Self, Verdict> {
        let secret = Secret::fresh().map_err(|error| not_started(format!("making a secret: {error}"), None))?;
        Self::at(Ipv4Addr::LOCALHOST.into(), &secret, (Vec::new(), 0), spec, bound, limit)
    }

    /// The same at an address that ranks of other hosts reach, too. `hosts`: which host each rank is on, by rank; empty
    /// where there is one only; and how many ranks of others have this one's cores.
    ///
    /// # Errors
    /// What the system refused.
    pub(crate) fn at(
        ip: IpAddr,
        secret: &Secret,
        (hosts, co_located): (Vec<u32>, u32),
        spec: &WorldSpec,
        bound: bool,
        limit: Duration,
    ) -> Result<Self, Verdict> {
        let failed = |what: &'static str| move |error: io::Error| not_started(format!("{what}: {error}"), None);
        let listening = || failed(if ip.is_loopback() { "listening on loopback" } else { "listening" });
        let rendezvous = Rendezvous::open(SocketAddr::new(ip, 0), secret.clone(), spec.ranks).map_err(listening())?;
        let address = rendezvous.address().map_err(listening())?;
        let cores = allowed_cores().map_err(failed("reading the allowed cores"))?;
        let (page, status) = StatusPage::create(spec.ranks).map_err(failed("making the status page"))?;
        let mut invitation = Invitation::new(address, secret, limit, (cores.clone(), bound), spec.clone());
        (invitation.hosts, invitation.co_located) = (hosts, co_located);
        let invitation = invitation.into_memory().map_err(failed("writing the invitation"))?;
        keep_children().map_err(failed("asking for children's ends"))?;
        Ok(Self { world: ProcessWorld::new(page, rendezvous), address, invitation, status, cores })
    }
}
