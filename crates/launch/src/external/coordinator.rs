//! The coordinator's end: gathers the agents of its launcher, has them start ranks, and lets them go with the exit code.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use comm::{Backend, Own, StartedBy};
use control::{FromRank, Hello, Here, Invitation, Joined, Nonce, Remote, Rendezvous, Secret, ToRank};
use measure::{Starter, Verdict, VerdictKind, World, WorldSpec};
use process::{CoreMask, Interest, PollSet, allowed_cores, interrupt, path_of, signal_name};
use serde_json::Map;
use terms::Error;

use crate::departure::launcher_ended;
use crate::opening::Opening;
use crate::pytorch;
use crate::rank::Seat;
use crate::rank::launched_argument;
use crate::remote::{Agent, Agents, link_changes, locked};
use crate::stall::OnStall;
use crate::starter::{Wishes, backend, check_descriptors};
use crate::verdict::{lacking, not_started};
use crate::world::ProcessWorld;

use super::hosts::{RankHost, cores_for, group, layout};
use super::{External, command, heartbeat, once};

mod others;

/// How long the ranks of a world have to come up.
const STARTING: Duration = Duration::from_secs(60);

/// All agents of a launcher. Starts worlds: `&Coordinator` is a [`Starter`].
pub struct Coordinator {
    external: External,
    /// Secrets of worlds follow from it.
    secret: Secret,
    /// Where worlds listen.
    address: IpAddr,
    pub(super) agents: Agents,
    hosts: Vec<RankHost>,
    /// Ranks of its worlds: those of the first agents.
    size: u32,
    /// Hosts were left out, so that ranks have other numbers than the launcher gave them.
    renumbered: bool,
    /// Where programs are looked for.
    search: Vec<PathBuf>,
    /// An MPI world was started: what the launcher keeps for its processes can be used once.
    initialised: Cell<bool>,
    /// Why no MPI world of this launcher can come up.
    unjoinable: RefCell<Option<Verdict>>,
    on_stall: Option<OnStall>,
    /// When no world needs to come up any more.
    ends: Cell<Option<Instant>>,
}

/// A world has at least so long to come up, however little time is left.
const LEAST: Duration = Duration::from_secs(5);

impl Coordinator {
    /// Has worlds come up before this time, or not at all.
    pub fn end_at(&self, ends: Instant) {
        self.ends.set(Some(ends));
    }

    /// How long a world may take to come up that would else have so long.
    fn starting(&self, most: Duration) -> Duration {
        let left = self.ends.get().map(|ends| ends.saturating_duration_since(Instant::now()).max(LEAST));
        left.map_or(most, |left| left.min(most))
    }

    /// Waits for all processes of the launcher, and takes together the cores that each of them may use: a launcher that
    /// binds has given this process those of rank 0 only. `search`: the folders of the path.
    ///
    /// # Errors
    /// Who never arrived; or that another coordinator has them.
    pub fn gather(external: External, search: Vec<PathBuf>) -> Result<Self, Verdict> {
        let failed = |what: &'static str| move |error: io::Error| not_started(format!("{what}: {error}"), None);
        let secret = external.meeting_point.secret(&external.job).map_err(|why| not_started(why, None))?;
        let address = listening(&external)?;
        let opened = Rendezvous::open(address, secret.clone(), external.size);
        let mut rendezvous = opened.map_err(|error| not_started(not_listening(address, &error), None))?;
        let place = rendezvous.address().map_err(failed("listening"))?;
        let spec = WorldSpec { ranks: external.size, fields: Map::new() };
        let invitation = Invitation::new(place, &secret, external.arrival, (Vec::new(), false), spec);
        let published = external.meeting_point.announce(&external.job, invitation);
        let published =
            published.map_err(|why| not_started(format!("the ranks cannot learn where to connect: {why}"), None))?;
        let arrived = wait_for(&mut rendezvous, &external)?;
        drop(published);
        let (agents, here): (Vec<Agent>, Vec<Here>) = arrived.into_iter().unzip();
        let mut hosts = group(agents.iter().map(|agent| agent.host.clone()).zip(here).collect())
            .map_err(|why| not_started(why, Some("each host with ranks needs its own `hostname`".to_owned())))?;
        let agents = Agents::new(Mutex::new(agents));
        // Where a container allows less, this process keeps what it has, and the record says so.
        let _ = CoreMask::new(&hosts[0].numbers()).bind_this_thread();
        let kept = allowed_cores().map_err(failed("reading the allowed cores"))?;
        hosts[0].cores.retain(|core| kept.contains(&core.number));
        if hosts.len() > 1 {
            heartbeat::start(&agents, heartbeat::PERIOD).map_err(failed("starting a thread"))?;
        }
        Ok(Self {
            size: external.size,
            renumbered: false,
            external,
            secret,
            address: address.ip(),
            agents,
            hosts,
            search,
            initialised: Cell::new(false),
            unjoinable: RefCell::new(None),
            on_stall: None,
            ends: Cell::new(None),
        })
    }

    /// Tells of commands that stall.
    #[must_use]
    pub fn on_stall(self, on_stall: OnStall) -> Self {
        Self { on_stall: Some(on_stall), ..self }
    }

    /// The hosts with ranks; this one, which has rank 0, first.
    pub fn hosts(&self) -> &[RankHost] {
        &self.hosts
    }

    /// Cores for all ranks; fewer than ranks where one of the hosts has fewer than ranks there.
    pub fn cores(&self) -> usize {
        cores_for(&self.hosts, self.size)
    }

    /// Ranks that a world can have: those that the launcher started, without those of hosts that are left out.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// "Open MPI's mpirun".
    pub fn launcher(&self) -> &'static str {
        self.external.launcher()
    }

    /// The launcher's words before this program's own command line, as [`std::env::args_os`] gives that one; empty where no
    /// command starts ranks.
    pub fn command(&self, own: &[OsString]) -> Vec<String> {
        let External { adapter, told, size, .. } = &self.external;
        command::words(adapter.seat, told, (*size, self.hosts.len()), own)
    }

    /// The launcher, as backends know it.
    pub fn started_by(&self) -> StartedBy<'static> {
        let adapter = self.external.adapter;
        StartedBy { launcher: self.launcher(), rank_variable: adapter.rank, process_manager: adapter.process_manager }
    }

    /// Has the backend's ranks be those of this launcher: settles its own fields, and gives the variables that they need.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn join(
        &self,
        backend: &dyn Backend,
        own: &mut Own,
        environment: &[(String, String)],
    ) -> Result<Vec<(String, String)>, String> {
        backend.join(own, self.started_by(), environment)
    }

    /// Links that went down or came back while this launcher's processes were there: the host, its interface, and how often. Hosts
    /// that do not answer within a second are left out.
    pub fn link_changes(&self) -> Vec<(String, String, u64)> {
        link_changes(&self.agents)
    }

    /// Lets all processes go, with the exit code of the run.
    pub fn dismiss(&self, code: u8) {
        for agent in locked(&self.agents).iter_mut() {
            // One that is gone needs no leave.
            agent.send(&ToRank::Dismissed(code));
        }
    }

    /// As [`Starter::start`], giving the world as what it is.
    ///
    /// # Errors
    /// As [`Starter::start`].
    pub fn start_processes(&self, spec: &WorldSpec) -> Result<ProcessWorld, Verdict> {
        let (size, launcher) = (self.size, self.launcher());
        // Fewer of them are a world, too: the first ones. Ranks that the launcher itself connects are all.
        let connects = |spec: &WorldSpec| backend(spec).is_some_and(|backend| backend.about().launched);
        if spec.ranks > size || (spec.ranks < size && connects(spec)) {
            let more = if spec.ranks == 1 { "rank" } else { "ranks" };
            return Err(lacking(format!("{launcher} started {size} ranks, but this case needs {} {more}", spec.ranks)));
        }
        let mut spec = spec.clone();
        let wishes = Wishes::from_spec(&spec).map_err(|message| not_started(message, None))?;
        check_descriptors(spec.ranks)?;
        if pytorch::is_asked(&spec) {
            return self.start_python(&spec, &wishes);
        }
        let backend = backend(&spec);
        let is_on_others = self.hosts.iter().skip(1).any(|host| host.ranks.iter().any(|rank| *rank < spec.ranks));
        if is_on_others && !spec.is_apart() && backend.is_some_and(|backend| backend.about().one_host) {
            let name = backend.map_or("", |backend| backend.about().name);
            return Err(lacking(format!(
                "`{name}` needs all ranks on one host, but they are on {}",
                self.host_names()
            )));
        }
        let mut environment = wishes.environment.clone();
        if let Some(backend) = backend.filter(|backend| backend.about().launched) {
            let mut own = comm::own_of(backend, |name| spec.fields.get(name));
            environment.extend(self.join(backend, &mut own, &wishes.environment).map_err(lacking)?);
            self.initialise_once(backend)?;
            spec.fields.extend(own);
        }
        let is_joined_by_launcher = backend.is_some_and(|backend| backend.about().launched);
        let mut world = self.start_all(&spec, wishes.bound, environment)?;
        let came_up = world.come_up(self.starting(STARTING));
        came_up.map_err(|verdict| if is_joined_by_launcher { self.not_joined(verdict) } else { verdict })?;
        Ok(world)
    }

    /// Where most ranks of a world that the launcher connects did not come up, no rank is at fault, but how they were started.
    fn not_joined(&self, verdict: Verdict) -> Verdict {
        let (failed, size) = (verdict.ranks.len(), self.external.size);
        if self.external.adapter.seat != Seat::Slurm || 2 * failed <= size as usize {
            return verdict;
        }
        let message =
            format!("{failed} of {size} ranks that srun started could not join one world: {}", verdict.error.what);
        let hint = "srun --mpi=pmix (MPICH, Intel MPI: --mpi=pmi2); `srun --mpi=list` says what this Slurm has";
        let verdict = not_started(message, Some(hint.to_owned())).ranks(verdict.ranks.iter().map(|rank| rank.0));
        self.unjoinable.replace(Some(verdict.clone()));
        verdict
    }

    /// Ranks that are Python. Which one, each host finds for itself; this one has it, or none is started.
    fn start_python(&self, spec: &WorldSpec, wishes: &Wishes) -> Result<ProcessWorld, Verdict> {
        pytorch::check(spec, &self.search)?;
        if let Some(backend) = backend(spec).filter(|backend| backend.about().launched) {
            backend.accepts(self.started_by()).map_err(lacking)?;
            self.initialise_once(backend)?;
        }
        let mut world = self.start_all(spec, wishes.bound, wishes.environment.clone())?;
        world.come_up(self.starting(pytorch::LIMIT))?;
        Ok(world)
    }

    /// What a launcher keeps for its processes serves for one world of such a backend.
    fn initialise_once(&self, backend: &dyn Backend) -> Result<(), Verdict> {
        if let Some(verdict) = &*self.unjoinable.borrow() {
            return Err(verdict.clone());
        }
        if !self.initialised.replace(true) {
            return Ok(());
        }
        let what = format!(
            "{}, and those of {} did for an earlier case (of another library, settings or binding, or before a rank was lost)",
            once(backend),
            self.launcher()
        );
        let hint = "`rankmark run --resume DIR` under the launcher runs it with new ranks";
        Err(Verdict::new(VerdictKind::NeedsRelaunch, Error::new(what).hint(hint)))
    }

    fn start_all(
        &self,
        spec: &WorldSpec,
        bound: bool,
        environment: Vec<(String, String)>,
    ) -> Result<ProcessWorld, Verdict> {
        let failed = |what: &'static str| move |error: io::Error| not_started(format!("{what}: {error}"), None);
        let world = Nonce::fresh().map_err(failed("making a nonce"))?;
        let secret = self.secret.of_world(&world);
        let mut layout = layout(&self.hosts);
        layout.truncate(spec.ranks as usize);
        let opening =
            Opening::at(self.address, &secret, (layout.clone(), self.hosts[0].co_located), spec, bound, STARTING)?;
        let Opening { world: mut processes, address, invitation, status, .. } = opening;
        let numbered = |rank: usize| self.renumbered.then_some(rank as u32);
        let argument = |rank| {
            launched_argument(self.external.adapter.seat, numbered(rank), &path_of(&invitation), &path_of(&status))
        };
        let (hosts, spec, wait) = (layout.clone(), spec.clone(), STARTING);
        let abroad = Remote {
            world,
            address,
            wait,
            cores: Vec::new(),
            bound,
            hosts,
            co_located: 0,
            spec,
            environment: environment.clone(),
            rank: None,
        };
        let ranks = abroad.spec.ranks;
        for (agent, rank) in locked(&self.agents).iter_mut().zip(0..ranks as usize) {
            let host = layout.get(rank).map_or(0, |host| *host as usize);
            let order = if host == 0 {
                ToRank::Serve { world, argument: argument(rank), environment: environment.clone() }
            } else {
                let RankHost { co_located, .. } = self.hosts[host];
                ToRank::ServeRemote(Box::new(Remote {
                    cores: self.hosts[host].numbers(),
                    co_located,
                    rank: numbered(rank),
                    ..abroad.clone()
                }))
            };
            if !agent.send(&order) {
                return Err(gone(agent, rank as u32, self.launcher()));
            }
        }
        let abroad = (0..ranks).map(|rank| layout.get(rank as usize).is_some_and(|host| *host > 0));
        let remote = crate::remote::Remote::new(self.agents.clone(), world, abroad);
        processes.tell_stalls(self.on_stall.clone());
        processes.start_elsewhere(ranks, vec![invitation, status], Some(remote));
        Ok(processes)
    }

    /// "node-a, node-b and 2 more".
    fn host_names(&self) -> String {
        const SHOWN: usize = 4;
        let names: Vec<&str> = self.hosts.iter().take(SHOWN).map(|host| host.name.as_str()).collect();
        let more = self.hosts.len().saturating_sub(SHOWN);
        format!("{}{}", names.join(", "), if more > 0 { format!(" and {more} more") } else { String::new() })
    }
}

/// Where the coordinator listens: on loopback, unless other hosts have ranks or all processes were given an address.
fn listening(external: &External) -> Result<SocketAddr, Verdict> {
    external.meeting_point.listening(external.several, external.interface.as_deref()).map_err(|why| {
        let hint = "RANKMARK_INTERFACE=eth0, or an address, in the environment of the process of rank 0";
        not_started(format!("ranks on other hosts must reach this one: {why}"), Some(hint.to_owned()))
    })
}

/// Why nobody could be waited for there.
fn not_listening(address: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "another coordinator has this job's ranks already, or another program the port: {address} is in use"
            )
        }
        _ => format!("listening on {address}: {error}"),
    }
}

fn gone(agent: &Agent, rank: u32, launcher: &str) -> Verdict {
    let (pid, host) = (agent.pid, agent.place());
    let message = format!(
        "the process that {launcher} started as rank {rank} (pid {pid}, {host}) is gone, and only its launcher could \
         start another"
    );
    not_started(message, None).ranks([rank])
}

impl Starter for &Coordinator {
    fn start(&mut self, spec: &WorldSpec) -> Result<Box<dyn World>, Verdict> {
        Ok(Box::new(self.start_processes(spec)?))
    }

    /// The launcher's ranks are there once.
    fn several(&self) -> bool {
        false
    }
}

/// Waits until every agent has proved itself and said where it is; in rank order.
fn wait_for(rendezvous: &mut Rendezvous, external: &External) -> Result<Vec<(Agent, Here)>, Verdict> {
    let deadline = Instant::now() + external.arrival;
    let mut arrivals: Vec<Arrival> = Vec::new();
    arrivals.resize_with(external.size as usize, Arrival::default);
    let (mut polls, mut inbox) = (PollSet::default(), Vec::new());
    while arrivals.iter().any(|arrival| arrival.here.is_none()) {
        let now = Instant::now();
        if let Some(signal) = interrupt::requested() {
            let message = format!("interrupted by {}", signal_name(signal));
            return Err(Verdict::new(VerdictKind::Interrupted, message));
        }
        if let Some(why) = interrupt::stopped() {
            return Err(not_started(why, None));
        }
        if now >= deadline {
            return Err(absent(&arrivals, external, rendezvous.strangers()));
        }
        polls.clear();
        if let Some(alarm) = interrupt::descriptor() {
            polls.add(alarm, Interest::Read);
        }
        arrivals.iter_mut().for_each(|arrival| arrival.register(&mut polls));
        rendezvous.register(&mut polls);
        let until = rendezvous.next_deadline().map_or(deadline, |next| next.min(deadline));
        polls
            .wait(Some(until.saturating_duration_since(now)))
            .map_err(|error| not_started(format!("waiting for ranks: {error}"), None))?;
        arrivals.iter_mut().for_each(|arrival| arrival.serve(&polls, &mut inbox));
        for Joined { hello, connection } in rendezvous.serve(&polls, Instant::now()) {
            if let Some(arrival) = arrivals.get_mut(hello.rank as usize) {
                arrival.agent = Some(Agent::new(hello.pid, hello.host, connection));
                // What it says at once may be here already, with no more to come.
                arrival.listen(&mut inbox);
            }
        }
    }
    let all: Vec<(Agent, Here)> = arrivals.into_iter().filter_map(|arrival| arrival.agent.zip(arrival.here)).collect();
    match other_commands(&all, external) {
        Some(refusal) => Err(refusal),
        None => Ok(all),
    }
}

/// Ranks that were started with another command (`mpirun -n 1 A : -n 1 B`): they would be measured as ranks of this one.
fn other_commands(all: &[(Agent, Here)], external: &External) -> Option<Verdict> {
    let others = all.iter().zip(0..).filter(|((_, here), _)| here.command != external.command);
    let ranks: Vec<u32> = others.map(|(_, rank)| rank).collect();
    let first = *ranks.first()?;
    let shown = |command: &[String]| format!("`rankmark {}`", command.join(" "));
    let theirs = all.get(first as usize).map(|(_, here)| shown(&here.command))?;
    let more = if ranks.len() > 1 {
        format!(" (and {} more ranks with other commands)", ranks.len() - 1)
    } else {
        String::new()
    };
    let message = format!(
        "{} started rank {first} with {theirs}{more}, and rank 0 with {}",
        external.launcher(),
        shown(&external.command)
    );
    let hint = "all ranks must run the same command: start each command by a launcher of its own";
    Some(not_started(message, Some(hint.to_owned())).ranks(ranks))
}

/// What has come of one agent so far.
#[derive(Default)]
struct Arrival {
    agent: Option<Agent>,
    here: Option<Here>,
    watched: Option<usize>,
}

impl Arrival {
    fn register(&mut self, polls: &mut PollSet) {
        let expected = self.agent.as_ref().filter(|agent| self.here.is_none() && agent.lost.is_none());
        self.watched = expected.map(|agent| polls.add(agent.connection.descriptor(), Interest::Read));
    }

    fn serve(&mut self, polls: &PollSet, inbox: &mut Vec<FromRank>) {
        if self.watched.is_some_and(|index| polls.happened(index)) {
            self.listen(inbox);
        }
    }

    fn listen(&mut self, inbox: &mut Vec<FromRank>) {
        let Some(agent) = &mut self.agent else { return };
        agent.lost = agent.connection.receive(inbox).err();
        for message in inbox.drain(..) {
            match message {
                FromRank::Here(here) => self.here = Some(*here),
                FromRank::LauncherEnded(title) => interrupt::stop(launcher_ended(&title, &agent.place())),
                _ => {}
            }
        }
    }
}

/// What a peer that proved nothing said of itself, as far as a line can hold it.
fn introduced(stranger: &Hello) -> String {
    let host: String = stranger.host.chars().filter(|c| c.is_ascii_graphic()).take(64).collect();
    format!("rank {} (pid {}, on {host})", stranger.rank, stranger.pid)
}

/// Who never arrived, and who came with another secret.
fn absent(arrivals: &[Arrival], external: &External, strangers: &[Hello]) -> Verdict {
    let missing = arrivals.iter().zip(0..).filter(|(arrival, _)| arrival.here.is_none());
    let ranks: Vec<u32> = missing.map(|(_, rank)| rank).collect();
    let shown: Vec<String> = ranks.iter().take(8).map(u32::to_string).collect();
    let more = if ranks.len() > 8 { format!(" and {} more", ranks.len() - 8) } else { String::new() };
    let message = format!(
        "{} {}{more} never arrived within {} s: {} says that it started {}",
        if ranks.len() == 1 { "rank" } else { "ranks" },
        shown.join(", "),
        external.arrival.as_secs_f64(),
        external.launcher(),
        external.size
    );
    let refused_ranks: Vec<String> =
        strangers.iter().filter(|stranger| ranks.contains(&stranger.rank)).map(introduced).collect();
    let message = match refused_ranks.as_slice() {
        [] => message,
        some => format!("{message}; {} came with another secret, or for another job", some.join(", ")),
    };
    let same = "all ranks must run this same command, as one user";
    let hint = if external.several {
        format!("{same}; {}", external.meeting_point.demands())
    } else {
        format!("{same} on one host")
    };
    not_started(message, Some(hint)).ranks(ranks)
}
