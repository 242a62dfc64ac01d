//! Combine alone: results go back to the ranks of their tokens, and those of each token are added up.

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
    Variant { name: "combine_only", doc: "ep_all_to_all: results back to their tokens alone", options: &[] };

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    name: VARIANT.name,
    ways: ways_of_experts,
    resolve_options,
    task: |task, _| task,
    runs: Runs::Native(prepare),
};

struct Combine(TokenExchange);

fn resolve_options(primitive: Primitive, _: &mut Options) -> Result<(), FieldError> {
    settle_experts(VARIANT.name, primitive)
}

fn prepare(site: &Site, _: &Options, _: &mut RankContext) -> Result<Box<dyn CallStep>, Failure> {
    Ok(Box::new(Combine(TokenExchange::new(site, 1)?)))
}

impl CallStep for Combine {
    fn run(&mut self, site: &mut Site, comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.0.combine(site, comm)
    }

    fn given(&self) -> GivenBuffers {
        GivenBuffers::Products
    }

    fn leaves(&self) -> &'static [Left] {
        &[Left::Result]
    }

    fn path(&self, comm: &dyn Communicator) -> String {
        self.0.path(comm)
    }
}
