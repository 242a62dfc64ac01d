//! What every world begins with, whoever starts its ranks: a secret, a listener, a status page, and the invitation
//! that tells ranks of them.

use std::fs::File;
use std::io;
use std::time::Duration;

use measure::{Verdict, WorldSpec};

use crate::control::Secret;
use crate::invitation::Invitation;
use crate::placement::allowed_cores;
use crate::rendezvous::Rendezvous;
use crate::starter::{keep_children, not_started};
use crate::status::StatusPage;
use crate::world::ProcessWorld;

/// A world that waits for its ranks.
pub(crate) struct Opening {
    /// Without members yet. Dropping it kills those that it is given.
    pub(crate) world: ProcessWorld,
    /// What each rank reads first.
    pub(crate) invitation: File,
    /// What each rank writes its state to.
    pub(crate) status: File,
    /// Cores that ranks may use.
    pub(crate) cores: Vec<u32>,
}

impl Opening {
    /// Opens a world whose ranks have until `limit` to come, each bound to a core if `bound`.
    ///
    /// # Errors
    /// What the system refused.
    pub(crate) fn of(spec: &WorldSpec, bound: bool, limit: Duration) -> Result<Self, Verdict> {
        let failed = |what: &'static str| move |error: io::Error| not_started(format!("{what}: {error}"), None);
        let secret = Secret::fresh().map_err(failed("making a secret"))?;
        let rendezvous = Rendezvous::open(secret.clone(), spec.ranks).map_err(failed("listening on loopback"))?;
        let address = rendezvous.address().map_err(failed("listening on loopback"))?;
        let cores = allowed_cores().map_err(failed("reading the allowed cores"))?;
        let (page, status) = StatusPage::create(spec.ranks).map_err(failed("making the status page"))?;
        let invitation = Invitation::new(address, &secret, limit, (cores.clone(), bound), spec.clone());
        let invitation = invitation.into_memory().map_err(failed("writing the invitation"))?;
        keep_children().map_err(failed("asking for children's ends"))?;
        Ok(Self { world: ProcessWorld::new(page, rendezvous), invitation, status, cores })
    }
}
