//! What every world begins with, whatever starts its ranks: a secret, a listener, a status page, and the invitation
//! that tells ranks of them.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
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
        let secret =
            Secret::fresh().map_err(|error| not_started(format!("random bytes cannot be read: {error}"), None))?;
        Self::at(Ipv4Addr::LOCALHOST.into(), &secret, (Vec::new(), 0), spec, bound, limit)
    }

    /// Opens a world at an address that ranks of other hosts reach, too. `hosts`: which host each rank is on, by rank; empty
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
        has_processes(Path::new("/proc"))?;
        if ip.is_loopback() {
            reaches_itself(ip)?;
        }
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

/// Without /proc no rank starts, and the system's own error does not say so.
fn has_processes(proc: &Path) -> Result<(), Verdict> {
    let missing = |_| {
        let hint = "mount it (`mount -t proc proc /proc`), or start the container with it";
        not_started(
            format!("{} is not mounted here: ranks are started through it", proc.display()),
            Some(hint.to_owned()),
        )
    };
    std::fs::symlink_metadata(proc.join("self/exe")).map(drop).map_err(missing)
}

/// A listener on a loopback interface that is down is opened like any other, and ranks would try to reach it until their time
/// is over. Finding a route sends nothing.
fn reaches_itself(ip: IpAddr) -> Result<(), Verdict> {
    let route = UdpSocket::bind(SocketAddr::new(ip, 0)).and_then(|socket| socket.connect(socket.local_addr()?));
    route.map_err(|error| {
        let hint = "`ip link set lo up` brings the loopback interface up";
        not_started(format!("ranks cannot connect to {ip}: {error}"), Some(hint.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranks_need_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let why = has_processes(folder.path()).unwrap_err().error.on_one_line();
        assert!(why.contains("is not mounted here: ranks are started through it"), "{why}");
        assert!(has_processes(Path::new("/proc")).is_ok());
        assert!(reaches_itself(Ipv4Addr::LOCALHOST.into()).is_ok());
        // TEST-NET-3 of RFC 5737: nobody's.
        let why = reaches_itself(Ipv4Addr::new(203, 0, 113, 7).into()).unwrap_err().error.on_one_line();
        assert!(why.contains("ranks cannot connect to 203.0.113.7") && why.contains("ip link set lo up"), "{why}");
    }
}
