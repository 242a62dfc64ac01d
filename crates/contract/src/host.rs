//! What the machine has that a case runs on, as the program that starts ranks knows it.

use record::Link;

/// What the machine has.
#[derive(Clone, Debug)]
pub struct Host {
    /// How ranks are spread over hosts; None: all are on this one.
    pub spread: Option<Spread>,
    /// Cores that ranks may run on.
    pub cores: usize,
    /// Bytes that can be allocated now; None where the system does not tell.
    pub available_memory: fn() -> Option<u64>,
    /// Whether a container or a virtual machine changes a limit.
    pub virtualised: bool,
    /// The launcher that started the ranks; None where this program starts them.
    pub launched: Option<Launched>,
}

/// A launcher that started ranks.
#[derive(Clone, Copy, Debug)]
pub struct Launched {
    /// Name of the launcher: "Open MPI's mpirun".
    pub by: &'static str,
    /// Ranks that it started.
    pub ranks: u32,
}

/// Ranks on several hosts.
#[derive(Clone, Debug)]
pub struct Spread {
    /// Hosts.
    pub hosts: u32,
    /// Ranks on the host that has most of them.
    pub most: u32,
    /// Which host each rank is on, by rank: equal numbers, one host.
    pub of: Vec<u32>,
    /// The slowest of the hosts' links, each host's fastest; None where one of them is not known.
    pub link: Option<Link>,
}
