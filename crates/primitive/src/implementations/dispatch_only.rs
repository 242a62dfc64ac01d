//! Dispatch alone: tokens are sorted by expert, sent, and sorted again where a rank has several experts.

use comm::Communicator;
use contract::RankContext;
use measure::Failure;
use terms::{FieldError, Variant};

use crate::exchange::TokenExchange;
use crate::implementation::{CallStep, Implementation, Runs, settle_experts, ways_of_experts};
use crate::site::{GivenBuffers, Left, Site};
use crate::task::Options;
use crate::words::Primitive;

pub(crate) const VARIANT: Variant =
    Variant { name: "dispatch_only", doc: "ep_all_to_all: tokens to their experts alone", options: &[] };

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    name: VARIANT.name,
    ways: ways_of_experts,
    resolve_options,
    task: |task, _| task,
    runs: Runs::Native(prepare),
};

struct Dispatch(TokenExchange);

fn resolve_options(primitive: Primitive, _: &mut Options) -> Result<(), FieldError> {
    settle_experts(VARIANT.name, primitive)
}

fn prepare(site: &Site, _: &Options, _: &mut RankContext) -> Result<Box<dyn CallStep>, Failure> {
    Ok(Box::new(Dispatch(TokenExchange::new(site, 1)?)))
}

impl CallStep for Dispatch {
    fn run(&mut self, site: &mut Site, comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.0.dispatch(site, comm)
    }

    fn given(&self) -> GivenBuffers {
        GivenBuffers::Operands
    }

    fn leaves(&self) -> &'static [Left] {
        &[Left::Gathered]
    }

    fn path(&self, comm: &dyn Communicator) -> String {
        self.0.path(comm)
    }
}
