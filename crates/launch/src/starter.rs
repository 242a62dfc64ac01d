//! Starts local worlds: this program again, once for each rank, with a hidden argument.
//!
//! Each rank is a direct child, leads a process group of its own (PyTorch's a session, too), is killed by the kernel when its
//! parent dies, reads nothing, and writes into a pipe. It inherits two descriptors: its invitation and the status page.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use measure::{Starter, Verdict, World, WorldSpec};
use process::{CoreMask, ITSELF, Output, Process, Tie, core_of, output_pipe, own_name, spawn};
use rustix::process::{Resource, getrlimit};
use serde_json::Value;
use terms::{Bind, outside};

use crate::fork_server::{ForkServer, ForkServers};
use crate::member::Member;
use crate::opening::Opening;
use crate::pytorch;
use crate::rank::argument;
use crate::stall::OnStall;
use crate::verdict::not_started;
use crate::world::ProcessWorld;

/// More ranks than this on one host are a slip of the finger, and would take the machine down.
pub const MAX_RANKS: u32 = 1024;

/// Descriptors that the coordinator holds for each rank: its process, its connection, its output.
const DESCRIPTORS: u64 = 3;

/// Starts worlds with processes of this host as ranks.
///
/// A rank is killed by the kernel when the *thread* that started it ends (`PR_SET_PDEATHSIG`), so worlds must be started
/// on a thread that lives as long as they do: the main thread.
#[derive(Clone, Debug)]
pub struct LocalStarter {
    program: PathBuf,
    limit: Duration,
    on_stall: Option<OnStall>,
    servers: ForkServers,
}

impl Default for LocalStarter {
    fn default() -> Self {
        Self::new()
    }
}

impl LocalStarter {
    /// Ranks are this very program (also when its file was replaced since it started), which must call
    /// [`crate::rank_main`]. They have a minute to come up.
    pub fn new() -> Self {
        Self {
            program: PathBuf::from(ITSELF),
            limit: Duration::from_secs(60),
            on_stall: None,
            servers: ForkServers::default(),
        }
    }

    /// Tells of commands that stall.
    #[must_use]
    pub fn on_stall(self, on_stall: OnStall) -> Self {
        Self { on_stall: Some(on_stall), ..self }
    }

    /// Tells what the user should know of how ranks start.
    #[must_use]
    pub fn on_note(self, on_note: fn(&str)) -> Self {
        Self { servers: self.servers.on_note(on_note), ..self }
    }

    /// Gives ranks this long to come up.
    #[must_use]
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Ranks are this program instead: another build of Rankmark with the same protocol.
    #[must_use]
    pub fn program(self, program: PathBuf) -> Self {
        Self { program, ..self }
    }

    /// As [`Starter::start`], giving the world as what it is.
    ///
    /// # Errors
    /// As [`Starter::start`].
    pub fn start_processes(&self, spec: &WorldSpec) -> Result<ProcessWorld, Verdict> {
        let wishes = Wishes::from_spec(spec).map_err(|message| not_started(message, None))?;
        check_descriptors(spec.ranks)?;
        let mut world = self.spawn_all(spec, &wishes)?;
        world.come_up(self.limit)?;
        Ok(world)
    }

    fn spawn_all(&self, spec: &WorldSpec, wishes: &Wishes) -> Result<ProcessWorld, Verdict> {
        let mut server = self.servers.take(spec, wishes, &self.program, self.limit)?;
        // From here on an early return drops the world, which kills the ranks that it has.
        let Opening { mut world, invitation, status, cores, .. } = Opening::new(spec, wishes.bound, self.limit)?;
        world.tell_stalls(self.on_stall.clone());
        for rank in 0..spec.ranks {
            if let Some(server) = &mut server {
                world.add(self.fork(server, rank, [&invitation, &status])?);
                continue;
            }
            let core = if wishes.bound { core_of(rank, &cores) } else { None };
            let argument = argument(rank, invitation.as_raw_fd(), status.as_raw_fd());
            let inherited = [&invitation, &status].map(File::as_raw_fd);
            let spawned = self.spawn(argument, inherited, core, wishes);
            let (process, output) = spawned.map_err(|error| {
                let message = format!("starting the process of rank {rank} of {}: {error}", spec.ranks);
                let full = error.raw_os_error() == Some(rustix::io::Errno::AGAIN.raw_os_error());
                not_started(message, full.then(|| "`ulimit -u` limits the number of processes".to_owned()))
            })?;
            world.add(Member::new(rank, process, output));
        }
        if let Some(server) = server {
            self.servers.put(server);
        }
        Ok(world)
    }

    fn fork(&self, server: &mut ForkServer, rank: u32, inherited: [&File; 2]) -> Result<Member, Verdict> {
        let (read, write) = output_pipe().map_err(|error| not_started(format!("making a pipe: {error}"), None))?;
        let process = server.fork(rank, inherited, &write, self.limit)?;
        Ok(Member::new(rank, process, Output::new(read)))
    }

    fn spawn(
        &self,
        argument: String,
        inherited: [i32; 2],
        core: Option<u32>,
        wishes: &Wishes,
    ) -> io::Result<(Process, Output)> {
        let (read, write) = output_pipe()?;
        let mut command = Command::new(&self.program);
        // A link to this very program has no name of its own.
        let name = if self.program == Path::new(ITSELF) { own_name() } else { self.program.clone().into() };
        command.arg0(name).arg(argument);
        command.stdin(Stdio::null()).stdout(write.try_clone()?).stderr(write);
        command.envs(wishes.environment.iter().map(|(name, value)| (name, value)));
        let tie = Tie::killed().session(wishes.sessions).deaf_to_interrupt().without_core_file();
        let tie = tie.bound_to(core.map(|core| CoreMask::new(&[core]))).keeping(&inherited);
        Ok((spawn(command, tie)?, Output::new(read)))
    }
}

impl Starter for LocalStarter {
    fn start(&mut self, spec: &WorldSpec) -> Result<Box<dyn World>, Verdict> {
        Ok(Box::new(self.start_processes(spec)?))
    }

    fn starts_quickly(&self, spec: &WorldSpec) -> bool {
        let forked = |wishes: Wishes| self.servers.serve(spec, &wishes);
        !pytorch::is_asked(spec) || Wishes::from_spec(spec).is_ok_and(forked)
    }
}

/// The backend of a world.
pub(crate) fn backend(spec: &WorldSpec) -> Option<&'static dyn comm::Backend> {
    comm::backend(spec.fields.get("backend")?.as_str()?)
}

/// What the world's fields say about its processes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) bound: bool,
    /// Whether each rank is to lead a session, as torchrun's ranks do: Linux shares cores out among sessions first
    /// (autogroups), and ranks with several busy threads each are then quicker. Not ours: ranks that share a core and offer it
    /// (sched_yield) offer it to their own session only.
    pub(crate) sessions: bool,
    pub(crate) environment: Vec<(String, String)>,
}

impl Wishes {
    pub(crate) fn from_spec(spec: &WorldSpec) -> Result<Self, String> {
        if spec.ranks == 0 || spec.ranks > MAX_RANKS {
            return Err(format!("{} ranks on one host: valid numbers are 1 to {MAX_RANKS}", spec.ranks));
        }
        let bound = match spec.fields.get("bind") {
            None => true,
            Some(value) => {
                let word = value.as_str().unwrap_or_default();
                let bind: Bind = word.parse().map_err(|error: terms::UnknownName| error.to_string())?;
                bind == Bind::Core
            }
        };
        let mut environment = environment(spec.fields.get("env"))?;
        // Libraries read them when they are opened.
        if let Some(backend) = backend(spec) {
            environment.extend(backend.environment(&comm::own_of(backend, |name| spec.fields.get(name))));
        }
        Ok(Self { bound, sessions: pytorch::is_asked(spec), environment })
    }
}

/// `NAME=value` entries: a list of them, or (as parameters are kept) joined by spaces.
fn environment(value: Option<&Value>) -> Result<Vec<(String, String)>, String> {
    let entries: Vec<&str> = match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(joined)) => joined.split_whitespace().collect(),
        Some(Value::Array(items)) => items.iter().map(|item| item.as_str().unwrap_or_default()).collect(),
        Some(other) => return Err(format!("`env` is a list of NAME=value, not `{other}`")),
    };
    let entry = |entry: &str| match entry.split_once('=') {
        Some((name, value)) if !name.is_empty() && !entry.contains('\0') => {
            Ok((name.to_owned(), outside::original(value).into_owned()))
        }
        _ => Err(format!("`{entry}` in `env` is not NAME=value")),
    };
    entries.into_iter().map(entry).collect()
}

/// Refuses a world that the coordinator has not descriptors enough for, before anything is started.
pub(crate) fn check_descriptors(ranks: u32) -> Result<(), Verdict> {
    let allowed = getrlimit(Resource::Nofile).current;
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    let needed = open + DESCRIPTORS * u64::from(ranks) + 80;
    let Some(allowed) = allowed.filter(|allowed| needed > *allowed) else { return Ok(()) };
    let message = format!(
        "{ranks} ranks need {needed} descriptors ({open} open, {DESCRIPTORS} a rank, 80 to spare), but only {allowed} are allowed"
    );
    Err(not_started(message, Some(format!("`ulimit -n {needed}` allows more"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wishes(ranks: u32, fields: Value) -> Result<Wishes, String> {
        let Value::Object(fields) = fields else { panic!("an object") };
        Wishes::from_spec(&WorldSpec { ranks, fields })
    }

    /// What the system says of a rank's process: whether it leads a session, and whether a group.
    fn leads(sessions: bool) -> (bool, bool) {
        let null = File::open("/dev/null").unwrap();
        let starter = LocalStarter { program: PathBuf::from("/bin/sh"), ..LocalStarter::new() };
        let script = std::env::temp_dir().join(format!("rankmark-leads-{}-{sessions}", std::process::id()));
        std::fs::write(&script, "exec sleep 10").unwrap();
        let wishes = Wishes { bound: false, sessions, environment: Vec::new() };
        let inherited = [null.as_raw_fd(); 2];
        let (process, _output) = starter.spawn(script.display().to_string(), inherited, None, &wishes).unwrap();
        // Not `rustix::process::getsid`: it panics on 0, which Linux says of a session that began outside the container.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid())).unwrap();
        // After the name, which may hold blanks: state, parent, group, session.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let own = process.pid().to_string();
        let leads = (fields[3] == own, fields[2] == own);
        process.kill();
        std::fs::remove_file(&script).unwrap();
        leads
    }

    #[test]
    fn a_rank_leads_a_group_and_one_of_pytorch_a_session() {
        assert_eq!((leads(false), leads(true)), ((false, true), (true, true)));
    }

    #[test]
    fn fields_of_a_world_are_read_or_refused() {
        let entry = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let read = wishes(2, json!({"bind": "core", "env": ["A=1", "B=x=y z"]})).unwrap();
        assert_eq!(
            read,
            Wishes { bound: true, sessions: false, environment: vec![entry("A", "1"), entry("B", "x=y z")] }
        );
        assert_eq!(wishes(1, json!({"env": "A=1 B="})).unwrap().environment, [entry("A", "1"), entry("B", "")]);
        assert_eq!(
            wishes(1, json!({"bind": "none"})).unwrap(),
            Wishes { bound: false, sessions: false, environment: Vec::new() }
        );
        assert!(wishes(1, json!({"runtime": "pytorch"})).unwrap().sessions);
        let chosen =
            wishes(1, json!({"backend": "nccl", "env": "A=1", "nccl_algo": "Ring,Tree", "nccl_proto": "^LL128"}))
                .unwrap();
        let expected = [entry("A", "1"), entry("NCCL_ALGO", "Ring,Tree"), entry("NCCL_PROTO", "^LL128")];
        assert_eq!(chosen.environment, expected);
        for (ranks, fields) in [
            (0, json!({})),
            (10_000, json!({})),
            (1, json!({"bind": "socket"})),
            (1, json!({"env": ["A"]})),
            (1, json!({"env": ["=1"]})),
            (1, json!({"env": 3})),
        ] {
            assert!(wishes(ranks, fields.clone()).is_err(), "{ranks} {fields}");
        }
    }
}
