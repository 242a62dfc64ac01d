//! Communication alone: what computation is compared with.

use comm::{Call, Communicator};
use contract::RankContext;
use measure::Failure;
use terms::{Collective, Variant};

use crate::exchange::TokenExchange;
use crate::implementation::{CallStep, Implementation, ORDER, Runs, orders, settle_order};
use crate::site::{GivenBuffers, Left, Site};
use crate::task::{Options, Scheme};

pub(crate) const VARIANT: Variant =
    Variant { name: "communication_only", doc: "no computation: the collective alone", options: &[ORDER] };

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    name: VARIANT.name,
    ways: orders,
    resolve_options: settle_order,
    task: |task, _| task,
    runs: Runs::Both(prepare),
};

enum Communicate {
    Call { call: Call, scheme: Scheme },
    Experts(TokenExchange),
}

/// The operation of the sequential implementation; None where tokens are exchanged.
pub(super) fn call(site: &Site) -> Option<Call> {
    Some(match site.task.scheme {
        Scheme::GatherFirst | Scheme::Attention => {
            site.call(Collective::AllGather, site.own.clone(), site.wide.clone())
        }
        Scheme::GatherLast => {
            let rows = site.task.rows() * site.task.n;
            let own = site.part(&site.output, site.task.rank * rows, rows);
            site.call(Collective::AllGather, own, site.output.clone())
        }
        Scheme::ScatterLast => site.call(Collective::ReduceScatter, site.wide.clone(), site.output.clone()),
        Scheme::ReduceLast => site.call(Collective::AllReduce, site.wide.clone(), site.output.clone()),
        Scheme::Exchange => return None,
    })
}

fn prepare(site: &Site, _: &Options, _: &mut RankContext) -> Result<Box<dyn CallStep>, Failure> {
    Ok(Box::new(match call(site) {
        Some(call) => Communicate::Call { call, scheme: site.task.scheme },
        None => Communicate::Experts(TokenExchange::new(site, 1)?),
    }))
}

impl CallStep for Communicate {
    fn run(&mut self, site: &mut Site, comm: &mut dyn Communicator) -> Result<(), Failure> {
        match self {
            Self::Call { call, .. } => site.machine().run(comm, call),
            Self::Experts(exchange) => {
                exchange.dispatch(site, comm)?;
                exchange.combine(site, comm)
            }
        }
    }

    fn given(&self) -> GivenBuffers {
        match self {
            Self::Call { scheme: Scheme::GatherFirst | Scheme::Attention, .. } => GivenBuffers::Operands,
            _ => GivenBuffers::Products,
        }
    }

    fn leaves(&self) -> &'static [Left] {
        match self {
            Self::Call { scheme: Scheme::GatherFirst | Scheme::Attention, .. } => &[Left::Gathered],
            Self::Experts(_) => &[Left::Gathered, Left::Result],
            Self::Call { .. } => &[Left::Result],
        }
    }

    fn path(&self, comm: &dyn Communicator) -> String {
        match self {
            Self::Call { call, .. } => comm.path(call).to_owned(),
            Self::Experts(exchange) => exchange.path(comm),
        }
    }
}
