//! Starts worlds on this host, each as it needs it: ranks of PyTorch by the user's Python, ranks of a backend with a
//! launcher through that, all others as children of the coordinator.
//!
//! A rank that a launcher starts inherits no descriptor of the coordinator. Its hidden argument says where the
//! coordinator's own descriptors lie below /proc: sealed memory without a name, which the kernel opens to processes of
//! the same user only (as it would a file of mode 0600) and which is gone with the coordinator. So the secret is in no
//! argument, no environment variable and no file; the argument, which anybody may read, holds a place and no secret.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use comm::{Asked, Backend, Launch, Own};
use measure::{Starter, Verdict, World, WorldSpec};
use process::path_of;
use survey::Programs;

use crate::LocalStarter;
use crate::launcher::Launcher;
use crate::opening::Opening;
use crate::pytorch;
use crate::rank::{Seat, launched_argument};
use crate::stall::OnStall;
use crate::starter::{Wishes, backend, check_descriptors};
use crate::verdict::{lacking, not_started};
use crate::world::ProcessWorld;

/// Starts worlds on this host.
#[derive(Clone, Debug)]
pub struct HostStarter {
    local: LocalStarter,
    search: Vec<PathBuf>,
    limit: Duration,
    /// What ranks are, where they are not this program.
    program: Option<PathBuf>,
    on_stall: Option<OnStall>,
}

impl HostStarter {
    /// Looks for launchers next to their libraries and in these folders (the path). Ranks have a minute to start.
    pub fn new(search: Vec<PathBuf>) -> Self {
        Self { local: LocalStarter::new(), search, limit: Duration::from_secs(60), program: None, on_stall: None }
    }

    /// Gives ranks this long to come up.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        (self.local, self.limit) = (self.local.limit(limit), limit);
        self
    }

    /// Tells of commands that stall.
    #[must_use]
    pub fn on_stall(mut self, on_stall: OnStall) -> Self {
        self.local = self.local.on_stall(on_stall.clone());
        self.on_stall = Some(on_stall);
        self
    }

    /// Tells what the user should know of how ranks start.
    #[must_use]
    pub fn on_note(self, on_note: fn(&str)) -> Self {
        Self { local: self.local.on_note(on_note), ..self }
    }

    /// Ranks are this program instead: another build of Rankmark with the same protocol ([`crate::PROTOCOL`]).
    #[must_use]
    pub fn program(mut self, program: PathBuf) -> Self {
        self.local = self.local.program(program.clone());
        self.program = Some(program);
        self
    }

    /// How so many ranks of this backend start.
    ///
    /// # Errors
    /// What this machine lacks.
    pub fn launch(
        &self,
        backend: &dyn Backend,
        own: &Own,
        ranks: u32,
        environment: &[(String, String)],
    ) -> Result<Launch, String> {
        backend.launch(own, Asked { ranks, environment }, &Programs::on(self.search.clone()))
    }

    /// As [`Starter::start`], giving the world as what it is.
    ///
    /// # Errors
    /// As [`Starter::start`].
    pub fn start_processes(&self, spec: &WorldSpec) -> Result<ProcessWorld, Verdict> {
        if pytorch::is_asked(spec) {
            pytorch::check(spec, &self.search)?;
            return self.local.clone().limit(pytorch::LIMIT).start_processes(spec);
        }
        let Some(backend) = backend(spec).filter(|backend| backend.about().launched) else {
            return self.local.start_processes(spec);
        };
        let wishes = Wishes::from_spec(spec).map_err(|message| not_started(message, None))?;
        check_descriptors(spec.ranks)?;
        let own = comm::own_of(backend, |name| spec.fields.get(name));
        let launch = self.launch(backend, &own, spec.ranks, &wishes.environment).map_err(lacking)?;
        let mut world = self.start_all(spec, &wishes, &launch)?;
        world.come_up(self.limit)?;
        Ok(world)
    }

    fn start_all(&self, spec: &WorldSpec, wishes: &Wishes, launch: &Launch) -> Result<ProcessWorld, Verdict> {
        let failed = |what: &'static str| move |error: io::Error| not_started(format!("{what}: {error}"), None);
        let name = launch.program.display().to_string();
        let seat = Seat::of_variable(launch.rank_variable).ok_or_else(|| {
            not_started(
                format!("{name}: its ranks find their number in `{}`, which is not known", launch.rank_variable),
                None,
            )
        })?;
        let Opening { mut world, invitation, status, .. } = Opening::new(spec, wishes.bound, self.limit)?;
        world.tell_stalls(self.on_stall.clone());
        // A link would be the launcher's own program there.
        let program = match &self.program {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(failed("finding this program"))?,
        };
        let mut command = Command::new(&launch.program);
        command.args(&launch.arguments).arg(program);
        command.arg(launched_argument(seat, None, &path_of(&invitation), &path_of(&status)));
        command.envs(launch.environment.iter().chain(&wishes.environment).map(|(name, value)| (name, value)));
        let launcher = Launcher::start(name.clone(), command)
            .map_err(|error| not_started(format!("starting {name} for {} ranks: {error}", spec.ranks), None))?;
        world.start_by(launcher, spec.ranks, vec![invitation, status]);
        Ok(world)
    }
}

impl Starter for HostStarter {
    fn start(&mut self, spec: &WorldSpec) -> Result<Box<dyn World>, Verdict> {
        Ok(Box::new(self.start_processes(spec)?))
    }

    fn starts_quickly(&self, spec: &WorldSpec) -> bool {
        self.local.starts_quickly(spec)
    }
}
