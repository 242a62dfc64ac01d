//! Communication alone: what computation is compared with.

use comm::{Call, Communicator};
use measure::Failure;
use terms::{Collective, Variant};
use contract::{RankContext, failure};

use crate::implementation::{Implementation, ORDER, Runs, Step, orders, settle_order};
use crate::exchange;
use crate::site::{Given, Left, Site};
use crate::task::{Options, Scheme};

pub(crate) const VARIANT: Variant =
    Variant { name: "communication_only", doc: "no computation: the collective alone", options: &[ORDER] };

pub(super) const IMPLEMENTATION: Implementation =
    Implementation { name: VARIANT.name, ways: orders, settle: settle_order, task: |task, _| task, runs: Runs::Both(prepare) };

struct Communicate {
    calls: Vec<Call>,
    scheme: Scheme,
}

/// The operations of the sequential implementation, in their order.
pub(super) fn calls(site: &Site) -> Result<Vec<Call>, Failure> {
    Ok(match site.task.scheme {
        Scheme::GatherFirst | Scheme::Attention => {
            vec![site.call(Collective::AllGather, site.own.clone(), site.wide.clone())]
        }
        Scheme::GatherLast => {
            let rows = site.task.rows() * site.task.n;
            let own = site.part(&site.output, site.task.rank * rows, rows);
            vec![site.call(Collective::AllGather, own, site.output.clone())]
        }
        Scheme::ScatterLast => vec![site.call(Collective::ReduceScatter, site.wide.clone(), site.output.clone())],
        Scheme::ReduceLast => vec![site.call(Collective::AllReduce, site.wide.clone(), site.output.clone())],
        Scheme::Exchange => {
            let (k, n) = (site.task.k, site.task.n);
            let wide = site.part(&site.wide, 0, site.received() * k);
            let block = site.part(&site.block, 0, site.received() * n);
            let tokens = exchange::counts(&site.task, 0, 1);
            vec![
                site.exchange(site.own.clone(), wide, exchange::there(&tokens, k))?,
                site.exchange(block, site.output.clone(), exchange::back(&tokens, n))?,
            ]
        }
    })
}

fn prepare(site: &Site, _: &Options, _: &mut RankContext) -> Result<Box<dyn Step>, Failure> {
    Ok(Box::new(Communicate { calls: calls(site)?, scheme: site.task.scheme }))
}

impl Step for Communicate {
    fn run(&mut self, _site: &mut Site, comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.calls.iter().try_for_each(|call| comm.run(call)).map_err(failure)
    }

    fn given(&self) -> Given {
        match self.scheme {
            Scheme::GatherFirst | Scheme::Attention => Given::Operands,
            _ => Given::Products,
        }
    }

    fn leaves(&self) -> &'static [Left] {
        match self.scheme {
            Scheme::GatherFirst | Scheme::Attention => &[Left::Gathered],
            Scheme::Exchange => &[Left::Gathered, Left::Result],
            _ => &[Left::Result],
        }
    }

    fn path(&self, comm: &dyn Communicator) -> String {
        self.calls.first().map_or(String::new(), |call| comm.path(call).to_owned())
    }
}
