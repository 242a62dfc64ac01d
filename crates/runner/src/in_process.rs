//! The world of a backend that cannot leave this process: a model of its ranks, where the case is one that needs none, else
//! ranks in threads. Cases of both kinds may share a world.

use std::time::Duration;

use benchmarks::{ModelledWorld, is_modelled};
use measure::{Command, Failure, Reply, SampleRequest, Samples, Verdict, VerdictKind, World, WorldSpec};
use record::Case;

use crate::threads::ThreadWorld;

/// See the module's documentation.
pub(crate) struct InProcessWorld {
    spec: WorldSpec,
    /// How long ranks may take to come up.
    start: Duration,
    interrupted: fn() -> Option<String>,
    modelled: Option<ModelledWorld>,
    /// Started for the first case that needs them.
    threads: Option<ThreadWorld>,
    /// Whether the case at hand needs ranks.
    needs_ranks: bool,
}

impl InProcessWorld {
    /// The world of this case, and of others with the same fields.
    ///
    /// # Errors
    /// When the backend does not open.
    pub(crate) fn start(
        case: &Case,
        spec: &WorldSpec,
        start: Duration,
        interrupted: fn() -> Option<String>,
    ) -> Result<Self, Verdict> {
        let refused = |failure: Failure| Verdict::new(VerdictKind::NotStarted, failure.error);
        let modelled = ModelledWorld::new(case, spec, interrupted).map_err(refused)?;
        let mut world = Self { spec: spec.clone(), start, interrupted, modelled, threads: None, needs_ranks: false };
        world.turn_to(case)?;
        Ok(world)
    }

    /// Has what the case needs.
    fn turn_to(&mut self, case: &Case) -> Result<(), Verdict> {
        let refused = |failure: Failure| Verdict::new(VerdictKind::Refused, failure.error);
        self.needs_ranks = self.modelled.is_none() || !is_modelled(&*benchmarks::parse(case).map_err(refused)?);
        if self.needs_ranks && self.threads.is_none() {
            self.threads = Some(ThreadWorld::start(&self.spec, self.start, self.interrupted)?);
        }
        Ok(())
    }

    fn active(&mut self) -> Result<&mut dyn World, Verdict> {
        match (self.needs_ranks, &mut self.modelled, &mut self.threads) {
            (false, Some(modelled), _) => Ok(modelled),
            (_, _, Some(threads)) => Ok(threads),
            _ => Err(Verdict::new(VerdictKind::NotStarted, "its ranks are not alive")),
        }
    }
}

impl World for InProcessWorld {
    fn command(&mut self, command: &Command, limit: Duration) -> Result<Vec<Reply>, Verdict> {
        if let Command::Prepare { case, .. } = command {
            self.turn_to(case)?;
        }
        self.active()?.command(command, limit)
    }

    fn sample(&mut self, request: SampleRequest, limit: Duration) -> Result<Samples, Verdict> {
        self.active()?.sample(request, limit)
    }
}
