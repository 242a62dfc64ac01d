//! A collective in the communicator of a rank's group, beside those of the other groups or while they wait.

use comm::Communicator;
use contract::{Prepared, RankContext, Work, failure};
use measure::{Failure, WrongReport};

use super::groups::RankGroups;
use super::parameters::Parameters;
use super::prepared;

/// A collective of one group.
struct InGroup {
    /// Ends before the communicator that its buffers are of.
    collective: Box<dyn Prepared>,
    comm: Box<dyn Communicator>,
    /// Number of the group, from 0.
    group: u32,
    /// The world's ranks in the group.
    members: Vec<u32>,
    /// False while another group runs alone.
    runs: bool,
}

/// Allocates and fills, in the communicator of the rank's group. Collective over the world.
pub(super) fn prepare(
    parameters: Parameters,
    groups: &RankGroups,
    context: &mut RankContext,
) -> Result<Box<dyn Prepared>, Failure> {
    let lost = || Failure::new(format!("rank {} is in no group", context.rank));
    let (group, place) = groups.place(context.rank).ok_or_else(lost)?;
    let lost = || Failure::new(format!("group {group} has no communicator"));
    let own = context.comm.split(Some(group), place).map_err(failure)?.ok_or_else(lost)?;
    let runs = parameters.alone.is_none_or(|alone| alone == group);
    // What is prepared sees the group, and nothing of the world.
    let world = std::mem::replace(&mut context.comm, own);
    let (rank, ranks) = (context.rank, context.ranks);
    (context.rank, context.ranks) = (place, groups.size());
    let collective = prepared::prepare(parameters, context);
    let comm = std::mem::replace(&mut context.comm, world);
    (context.rank, context.ranks) = (rank, ranks);
    let members = groups.members()[group as usize].clone();
    Ok(Box::new(InGroup { collective: collective?, comm, group, members, runs }))
}

impl Prepared for InGroup {
    fn run(&mut self, _world: &mut dyn Communicator) -> Result<(), Failure> {
        if !self.runs {
            return Ok(());
        }
        self.collective.run(&mut *self.comm)
    }

    fn drain(&mut self, _world: &mut dyn Communicator) -> Result<(), Failure> {
        self.collective.drain(&mut *self.comm)
    }

    fn compute_ns(&self) -> u64 {
        self.collective.compute_ns()
    }

    fn refill(&mut self) {
        self.collective.refill();
    }

    /// Where the group waited, nothing may have changed.
    fn check(&mut self, _world: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        let mut report = self.collective.check(&mut *self.comm, if self.runs { calls } else { 0 })?;
        for wrong in &mut report.first {
            wrong.rank = self.members.get(wrong.rank as usize).copied().unwrap_or(wrong.rank);
        }
        Ok(report)
    }

    fn work(&self) -> Work {
        let work = self.collective.work();
        let work = Work { group: self.group, ..work };
        if self.runs { work } else { Work { traffic_bytes: 0, flops: 0.0, ..work } }
    }

    fn path(&self, _world: &dyn Communicator) -> String {
        self.collective.path(&*self.comm)
    }

    fn limits(&self) -> Vec<String> {
        self.collective.limits()
    }

    fn limit(&mut self, variant: usize, round: u32) -> Option<u64> {
        if self.runs { self.collective.limit(variant, round) } else { None }
    }
}
