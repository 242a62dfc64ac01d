//! The coordinator's end: gathers the posts of its launcher, has them start ranks, and lets them go with the exit code.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::{Duration, Instant};

use comm::mpi::{Facts, Vendor};
use measure::{Starter, Verdict, VerdictKind, World, WorldSpec};
use serde_json::{Map, Value};
use terms::Rank;

use crate::connection::Connection;
use crate::control::{Secret, ToRank};
use crate::descriptor::path_of;
use crate::interrupt;
use crate::invitation::Invitation;
use crate::mpi::{Extras, lacking};
use crate::opening::Opening;
use crate::placement::{CoreMask, cores_of};
use crate::poll::{Interest, PollSet};
use crate::rank::{Seat, launched_argument};
use crate::rendezvous::Rendezvous;
use crate::starter::{Wishes, check_descriptors, not_started};
use crate::world::ProcessWorld;

use super::notice::{self, Notice};
use super::{Adoption, no_mpi, refused};

/// All posts of a launcher, each with its process number. Starts worlds: `&Lobby` is a [`Starter`].
pub struct Lobby {
    adoption: Adoption,
    posts: RefCell<Vec<(u32, Connection)>>,
    limit: Duration,
    /// An MPI world was started: what the launcher keeps for its processes can be used once.
    initialised: Cell<bool>,
}

impl Lobby {
    /// Waits for all processes of the launcher, and takes together the cores that each of them may use: a launcher that
    /// binds has given this process those of rank 0 only.
    ///
    /// # Errors
    /// Who never arrived; or that another coordinator has them.
    pub fn gather(adoption: Adoption, limit: Duration) -> Result<Self, Verdict> {
        let failed = |what: &'static str| move |error: io::Error| refused(format!("{what}: {error}"), None);
        let secret = Secret::fresh().map_err(failed("making a secret"))?;
        let mut rendezvous =
            Rendezvous::open(secret.clone(), adoption.size).map_err(failed("listening on loopback"))?;
        let address = rendezvous.address().map_err(failed("listening on loopback"))?;
        let spec = WorldSpec { ranks: adoption.size, fields: Map::new() };
        let invitation = Invitation::new(address, &secret, limit, (Vec::new(), false), spec);
        let pid = std::process::id();
        let started = notice::began(pid).ok_or_else(|| refused("reading /proc/self/stat".to_owned(), None))?;
        let published = notice::publish(&adoption.folder, &adoption.job, &Notice { pid, started, invitation });
        let published = published.map_err(|why| refused(format!("the ranks cannot be told of: {why}"), None))?;
        let posts = wait_for(&mut rendezvous, &adoption, limit)?;
        drop(published);
        let mut cores: Vec<u32> = posts.iter().flat_map(|(pid, _)| cores_of(*pid).unwrap_or_default()).collect();
        cores.sort_unstable();
        cores.dedup();
        // Where a container allows less, this process keeps what it has, and the record says so.
        let _ = CoreMask::of(&cores).bind_this_thread();
        Ok(Self { adoption, posts: RefCell::new(posts), limit, initialised: Cell::new(false) })
    }

    /// Ranks that the launcher started.
    pub fn size(&self) -> u32 {
        self.adoption.size
    }

    /// "Open MPI's mpirun".
    pub fn launcher(&self) -> &'static str {
        self.adoption.launcher()
    }

    /// The MPI library that ranks of this launcher use: the one that is asked for, else the first that belongs to it.
    ///
    /// # Errors
    /// What is lacking; under another library's launcher each rank would think that it is alone.
    pub fn mpi(&self, asked: Option<&str>) -> Result<Facts, String> {
        let launcher = self.launcher();
        let fits = |facts: &Facts| match self.adoption.adapter.seat {
            Seat::OpenMpi => facts.vendor == Vendor::OpenMpi,
            Seat::Pmi => facts.vendor != Vendor::OpenMpi,
            Seat::Slurm => true,
            Seat::Torchrun | Seat::Kubernetes => false,
        };
        if matches!(self.adoption.adapter.seat, Seat::Torchrun | Seat::Kubernetes) {
            return Err(no_mpi(launcher));
        }
        if asked.is_some() {
            let facts = comm::mpi::facts(asked)?;
            let other = || {
                format!(
                    "the ranks were started by {launcher}, and {} would see a world of one rank in each (hint: its own \
                     mpirun, or `--mpi-library`)",
                    facts.version()
                )
            };
            return if fits(&facts) { Ok(facts) } else { Err(other()) };
        }
        let found: Vec<Facts> = comm::mpi::NAMES.iter().filter_map(|name| comm::mpi::facts(Some(name)).ok()).collect();
        let first = found.iter().find(|facts| fits(facts)).cloned();
        first.ok_or_else(|| {
            let found: Vec<String> = found.iter().map(Facts::version).collect();
            let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
            format!("no MPI library of {launcher} is found by the loader: {found} (hint: `--mpi-library PATH`)")
        })
    }

    /// Lets all processes go, with the exit code of the run.
    pub fn dismiss(&self, code: u8) {
        for (_, post) in self.posts.borrow_mut().iter_mut() {
            // One that is gone needs no leave.
            let _ = post.send(&ToRank::Dismissed(code));
        }
    }

    /// As [`Starter::start`], giving the world as what it is.
    ///
    /// # Errors
    /// As [`Starter::start`].
    pub fn start_processes(&self, spec: &WorldSpec) -> Result<ProcessWorld, Verdict> {
        let (size, launcher) = (self.adoption.size, self.launcher());
        if spec.ranks != size {
            let more = if spec.ranks == 1 { "rank" } else { "ranks" };
            return Err(lacking(format!("{launcher} started {size} ranks, and this case is of {} {more}", spec.ranks)));
        }
        let mut spec = spec.clone();
        let wishes = Wishes::of(&spec).map_err(|message| not_started(message, None))?;
        check_descriptors(size)?;
        let backend = spec.fields.get("backend").and_then(Value::as_str).and_then(comm::backend);
        let mut environment = wishes.environment.clone();
        if backend.is_some_and(|backend| backend.about().launched) {
            let library = spec.fields.get("mpi_library").and_then(Value::as_str);
            let facts = self.mpi(library).map_err(lacking)?;
            let extras = Extras::of(&spec, &facts, &wishes.environment).map_err(lacking)?;
            if self.initialised.replace(true) {
                let why = "processes can initialise MPI once in a job, and an earlier case did: a case of another world \
                           (library, settings, binding), or after one whose ranks were lost, needs a job of its own";
                return Err(lacking(format!("{launcher} started these ranks; {why}")));
            }
            environment.extend(extras.as_environment());
            spec.fields.insert("mpi_library".to_owned(), Value::from(facts.path));
        }
        let mut world = self.start_all(&spec, wishes.bound, environment)?;
        world.come_up(self.limit)?;
        Ok(world)
    }

    fn start_all(
        &self,
        spec: &WorldSpec,
        bound: bool,
        environment: Vec<(String, String)>,
    ) -> Result<ProcessWorld, Verdict> {
        let Opening { mut world, invitation, status, .. } = Opening::of(spec, bound, self.limit)?;
        let argument = launched_argument(self.adoption.adapter.seat, &path_of(&invitation), &path_of(&status));
        for ((pid, post), rank) in self.posts.borrow_mut().iter_mut().zip(0..) {
            let order = ToRank::Serve { argument: argument.clone(), environment: environment.clone() };
            if post.send(&order).is_err() {
                let message = format!(
                    "the process that {} started as rank {rank} (pid {pid}, this host) is gone, and only its launcher \
                     could start another",
                    self.launcher()
                );
                return Err(Verdict { ranks: vec![Rank(rank)], ..not_started(message, None) });
            }
        }
        world.start_elsewhere(spec.ranks, vec![invitation, status]);
        Ok(world)
    }
}

impl Starter for &Lobby {
    fn start(&mut self, spec: &WorldSpec) -> Result<Box<dyn World>, Verdict> {
        Ok(Box::new(self.start_processes(spec)?))
    }
}

/// Waits until every post has proved itself; in rank order.
fn wait_for(
    rendezvous: &mut Rendezvous,
    adoption: &Adoption,
    limit: Duration,
) -> Result<Vec<(u32, Connection)>, Verdict> {
    let (deadline, size) = (Instant::now() + limit, adoption.size as usize);
    let mut posts: Vec<Option<(u32, Connection)>> = Vec::new();
    posts.resize_with(size, || None);
    let mut polls = PollSet::default();
    while !rendezvous.is_complete() {
        let now = Instant::now();
        if let Some(signal) = interrupt::requested() {
            let message = format!("interrupted by {}", interrupt::name(signal));
            return Err(Verdict { kind: VerdictKind::Interrupted, ..refused(message, None) });
        }
        if now >= deadline {
            return Err(absent(&posts, adoption, limit));
        }
        polls.clear();
        if let Some(alarm) = interrupt::descriptor() {
            polls.add(alarm, Interest::Read);
        }
        rendezvous.register(&mut polls);
        let until = rendezvous.next_deadline().map_or(deadline, |next| next.min(deadline));
        polls
            .wait(Some(until.saturating_duration_since(now)))
            .map_err(|error| refused(format!("waiting for ranks: {error}"), None))?;
        for joined in rendezvous.serve(&polls, Instant::now()) {
            if let Some(place) = posts.get_mut(joined.hello.rank as usize) {
                *place = Some((joined.hello.pid, joined.connection));
            }
        }
    }
    Ok(posts.into_iter().flatten().collect())
}

/// Who never arrived.
fn absent(posts: &[Option<(u32, Connection)>], adoption: &Adoption, limit: Duration) -> Verdict {
    let missing = posts.iter().zip(0..).filter(|(post, _)| post.is_none());
    let ranks: Vec<Rank> = missing.map(|(_, rank)| Rank(rank)).collect();
    let shown: Vec<String> = ranks.iter().take(8).map(|Rank(rank)| rank.to_string()).collect();
    let more = if ranks.len() > 8 { format!(" and {} more", ranks.len() - 8) } else { String::new() };
    let message = format!(
        "{} {}{more} never arrived within {} s: {} says that it started {}",
        if ranks.len() == 1 { "rank" } else { "ranks" },
        shown.join(", "),
        limit.as_secs_f64(),
        adoption.launcher(),
        adoption.size
    );
    let hint = Some("all ranks must run this same command, as one user on one host".to_owned());
    Verdict { ranks, ..refused(message, hint) }
}
