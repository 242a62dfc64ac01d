//! What runs of one side and of two share: rounds over open cases, when they end, the start of worlds, and what only a whole
//! run tells of its lines.

use std::time::{Duration, Instant};

use benchmarks::{Host, is_in_process};
use measure::{Probe, Starter, Verdict, World, WorldSpec, conclude};
use record::{Case, CaseLine, Overhead, Rounds, RunFile, Store, StoreError};

use crate::bounds::Bounds;
use crate::in_process::InProcessWorld;
use crate::lines::{missed, relations};

/// How long a world may take to come up: libraries load, many ranks share few cores.
pub(crate) const START: Duration = Duration::from_secs(60);

/// Where a run goes, and when it ends.
pub struct Setup<'a> {
    /// Where lines go.
    pub store: &'a mut Store,
    /// `run.json`, completed with what is learned while running.
    pub file: &'a mut RunFile,
    /// The machine.
    pub host: Host,
    /// What ceilings are compared with.
    pub bounds: Bounds,
    /// Seed of all orders.
    pub seed: u64,
    /// When the run ends whatever is left to measure.
    pub deadline: Option<Instant>,
    /// Why the run is to end, once the user has asked for it. Worlds of processes notice by themselves; this is for what
    /// runs in this process, and for the time between cases.
    pub interrupted: fn() -> Option<String>,
}

/// A run so far.
pub(crate) struct Driver<'a> {
    pub(crate) setup: Setup<'a>,
    pub(crate) round: u32,
    /// The case that was visited last.
    pub(crate) after: Option<String>,
    pub(crate) interrupted: Option<String>,
    /// Whether the deadline has passed, and what cases without a trial then say.
    is_late: bool,
    late: &'static str,
    /// Why no further case runs, once ranks are lost that the others go on without.
    lost: Option<&'static str>,
}

/// Cases that are visited in rounds.
pub(crate) trait Visits<'a> {
    /// What a case is known by.
    type Case;

    fn driver(&mut self) -> &mut Driver<'a>;

    /// The open cases in the order of the next round, in groups: each has worlds of its own. Empty: no further round is made.
    fn groups(&mut self) -> Vec<Vec<Self::Case>>;

    /// Visits a case, `number` of `total` in this round (from 1), unless the run is over.
    fn visit(&mut self, case: &Self::Case, number: usize, total: usize) -> Result<(), StoreError>;

    /// The last case of a group was visited.
    fn group_ends(&mut self);

    /// The last case of a round was visited.
    ///
    /// # Errors
    /// When the record cannot be written.
    fn round_ends(&mut self) -> Result<(), StoreError>;
}

/// Makes rounds until no case is open or the run is over.
pub(crate) fn make_rounds<'a>(visits: &mut impl Visits<'a>) -> Result<(), StoreError> {
    loop {
        let groups = visits.groups();
        if groups.is_empty() {
            return Ok(());
        }
        let (mut number, total) = (0, groups.iter().map(Vec::len).sum());
        for group in groups {
            for case in group {
                number += 1;
                visits.visit(&case, number, total)?;
            }
            visits.group_ends();
        }
        visits.driver().round += 1;
        visits.round_ends()?;
    }
}

impl<'a> Driver<'a> {
    /// A run that begins with this round. `late`: what cases say that the deadline leaves without a trial.
    pub(crate) fn new(setup: Setup<'a>, round: u32, late: &'static str) -> Self {
        Self { setup, round, after: None, interrupted: None, is_late: false, late, lost: None }
    }

    /// Whether the user has ended the run.
    pub(crate) fn is_interrupted(&mut self) -> bool {
        self.interrupted = self.interrupted.take().or_else(self.setup.interrupted);
        self.interrupted.is_some()
    }

    /// Whether the user or the deadline has ended the run.
    pub(crate) fn is_over(&mut self) -> bool {
        self.is_late |= self.setup.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        self.is_interrupted() || self.is_late || self.lost.is_some()
    }

    /// Ends the run: cases without a trial say this.
    pub(crate) fn end_because(&mut self, lost: &'static str) {
        self.lost = Some(lost);
    }

    /// Whether it was over when somebody looked last.
    pub(crate) fn was_over(&self) -> bool {
        self.interrupted.is_some() || self.is_late || self.lost.is_some()
    }

    /// Why the run is over.
    pub(crate) fn why_over(&self) -> String {
        let ended = self.lost.or_else(|| self.is_late.then_some(self.late)).map(str::to_owned);
        self.interrupted.clone().or(ended).unwrap_or_default()
    }

    /// Starts the world of a case. The first one of processes also measures what measuring costs.
    pub(crate) fn start(
        &mut self,
        case: &Case,
        round: u32,
        starter: &mut dyn Starter,
    ) -> Result<Box<dyn World>, Verdict> {
        let mut world = start(case, (&spec_of(case, round), START), starter, self.setup.interrupted)?;
        if self.setup.file.overhead.is_none() && !is_in_process(case) {
            self.setup.file.overhead = Some(overhead_of(&mut *world)?);
        }
        Ok(world)
    }

    /// What only the whole run tells of each line: correlation, relations to others and to lines of `before`, gates.
    pub(crate) fn judge<'c>(
        &mut self,
        lines: &mut [CaseLine],
        before: &[&CaseLine],
        case_of: impl Fn(&str) -> Option<&'c Case>,
    ) {
        let trials = lines.iter().filter(|line| line.time_s.is_some()).map(|line| line.trial_median_s.as_slice());
        let correlation = stats::pooled_correlation(trials);
        self.setup.file.rounds = Some(Rounds { seed: self.setup.seed, made: self.round, correlation });
        let related = relations(lines, before);
        for (line, related) in lines.iter_mut().zip(related) {
            conclude(line, correlation);
            line.metrics.extend(related);
            line.gates_missed = case_of(&line.id).map(|case| missed(case, line)).unwrap_or_default();
        }
    }
}

/// Starts the ranks of a case: processes, or what stands for them in this one.
pub(crate) fn start(
    case: &Case,
    (spec, limit): (&WorldSpec, Duration),
    starter: &mut dyn Starter,
    interrupted: fn() -> Option<String>,
) -> Result<Box<dyn World>, Verdict> {
    match is_in_process(case) {
        true => Ok(Box::new(InProcessWorld::start(case, spec, limit, interrupted)?)),
        false => starter.start(spec),
    }
}

/// The world of a case in this round.
pub(crate) fn spec_of(case: &Case, round: u32) -> WorldSpec {
    let mut spec = WorldSpec { ranks: case.ranks(), fields: case.world.to_map() };
    if let Some(backend) = benchmarks::backend_of(case) {
        let mut own = comm::own_of(backend, |name| spec.fields.get(name));
        backend.for_round(&mut own, round);
        spec.fields.extend(own);
    }
    spec
}

/// What measuring costs in this world.
fn overhead_of(world: &mut dyn World) -> Result<Overhead, Verdict> {
    let ranks = world.probe(Probe::Overhead, START)?;
    let slowest = |i: usize| ranks.iter().filter_map(|rank| rank.get(i).copied()).fold(0.0, f64::max);
    Ok(Overhead { sample_ns: slowest(0), call_ns: slowest(1) })
}
