//! How ranks find each other before they can communicate: `launch` implements it over the control channel; here is the
//! one for threads of one process, which tests and simulated worlds use.

use std::sync::{Arc, Condvar, Mutex};

use crate::{Abort, Result};

/// Where a rank runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlacement {
    /// From 0.
    pub rank: u32,
    /// Ranks in the world.
    pub size: u32,
    /// The host's name; ranks of equal hosts share memory.
    pub host: String,
    /// Which of its host's ranks it is, from 0.
    pub index: u32,
    /// Ranks on its host.
    pub here: u32,
}

impl RankPlacement {
    /// The place of a rank in a world of one host, of this name.
    pub fn alone(rank: u32, size: u32, host: String) -> Self {
        Self { rank, size, host, index: rank, here: size }
    }
}

/// An exchange of small byte strings among all ranks.
pub trait Bootstrap {
    /// Where this rank runs.
    fn place(&self) -> RankPlacement;

    /// Every rank's bytes, in rank order. Collective.
    ///
    /// # Errors
    /// When a peer is lost or the world is ending.
    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>>;
}

/// The ranks of one host, as a world of their own: what connects them never leaves the host.
pub struct HostBootstrap<'b> {
    world: &'b mut dyn Bootstrap,
    /// Ranks of the world on this host, ascending.
    members: Vec<usize>,
}

impl<'b> HostBootstrap<'b> {
    /// Of this rank's host. Collective over the whole world.
    ///
    /// # Errors
    /// As [`Bootstrap::all_gather`].
    pub fn new(world: &'b mut dyn Bootstrap) -> Result<Self> {
        let own = world.place().host;
        let hosts = world.all_gather(own.as_bytes())?;
        let is_here = |(rank, host): (usize, Vec<u8>)| (host == own.as_bytes()).then_some(rank);
        let members = hosts.into_iter().enumerate().filter_map(is_here).collect();
        Ok(Self { world, members })
    }
}

impl Bootstrap for HostBootstrap<'_> {
    fn place(&self) -> RankPlacement {
        let RankPlacement { host, index, here, .. } = self.world.place();
        RankPlacement::alone(index, here, host)
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut all = self.world.all_gather(bytes)?;
        Ok(self.members.iter().filter_map(|rank| all.get_mut(*rank).map(std::mem::take)).collect())
    }
}

/// The bootstrap of ranks that are threads of this process.
pub struct ThreadBootstrap {
    rank: u32,
    round: u64,
    shared: Arc<BootstrapExchange>,
}

struct BootstrapExchange {
    size: u32,
    abort: Abort,
    state: Mutex<Rounds>,
    changed: Condvar,
}

#[derive(Default)]
struct Rounds {
    /// Rounds completed; its result stays until the next round completes, which needs every rank to have read it.
    completed: u64,
    arriving: Vec<Option<Vec<u8>>>,
    result: Arc<Vec<Vec<u8>>>,
}

/// Bootstraps for `size` ranks that are threads of this process, in rank order; raising `abort` ends their waits.
pub fn threads(size: u32, abort: &Abort) -> Vec<ThreadBootstrap> {
    let rounds = Rounds { arriving: vec![None; size as usize], ..Rounds::default() };
    let shared = BootstrapExchange { size, abort: abort.clone(), state: Mutex::new(rounds), changed: Condvar::new() };
    let shared = Arc::new(shared);
    (0..size).map(|rank| ThreadBootstrap { rank, round: 0, shared: shared.clone() }).collect()
}

impl Bootstrap for ThreadBootstrap {
    fn place(&self) -> RankPlacement {
        RankPlacement::alone(self.rank, self.shared.size, "localhost".to_owned())
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.exchange(bytes.to_vec()).map(Arc::unwrap_or_clone)
    }
}

impl ThreadBootstrap {
    /// Exchanges bytes as `all_gather`, without a copy for each rank.
    pub(crate) fn exchange(&mut self, bytes: Vec<u8>) -> Result<Arc<Vec<Vec<u8>>>> {
        let shared = &*self.shared;
        let mut rounds = shared.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.round += 1;
        rounds.arriving[self.rank as usize] = Some(bytes);
        if rounds.arriving.iter().all(Option::is_some) {
            rounds.result = Arc::new(rounds.arriving.iter_mut().filter_map(Option::take).collect());
            rounds.completed += 1;
            shared.changed.notify_all();
        }
        while rounds.completed < self.round {
            shared.abort.check()?;
            // The time-out only bounds how late a raised abort is seen.
            let waited = shared.changed.wait_timeout(rounds, std::time::Duration::from_millis(20));
            rounds = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        Ok(rounds.result.clone())
    }
}
