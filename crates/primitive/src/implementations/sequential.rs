//! Communication and computation one after the other: what every other implementation is compared with.

use comm::{Call, Communicator};
use contract::RankContext;
use measure::Failure;
use terms::Variant;

use super::communication_only;
use crate::exchange::TokenExchange;
use crate::gathering::{self, PanelPiece, Panels};
use crate::implementation::{CallStep, Implementation, ORDER, Runs, orders, settle_order};
use crate::product::Operands;
use crate::site::{Left, Site};
use crate::task::{Options, Scheme};

pub(super) const VARIANT: Variant = Variant { name: "sequential", doc: "one after the other", options: &[ORDER] };

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    name: VARIANT.name,
    ways: orders,
    resolve_options: settle_order,
    task: |task, _| task,
    runs: Runs::Both(prepare),
};

/// A product of some rows: where they begin in A and in C, and how many.
struct Product {
    operands: Operands,
    c_row: usize,
    rows: usize,
}

enum Sequential {
    /// Gathers, then computes with all panels.
    Panels { gather: Call, panels: Panels },
    /// Gathers, then multiplies all rows at once.
    After { gather: Call, product: Product },
    /// Multiplies, then communicates.
    Before { product: Product, call: Call },
    /// Sends tokens, multiplies, sends results back.
    Experts(TokenExchange),
}

fn prepare(site: &Site, _: &Options, _: &mut RankContext) -> Result<Box<dyn CallStep>, Failure> {
    let task = &site.task;
    let Some(first) = communication_only::call(site) else {
        return Ok(Box::new(Sequential::Experts(TokenExchange::new(site, 1)?)));
    };
    let product = |operands, c_row, rows| Product { operands, c_row, rows };
    Ok(Box::new(match task.scheme {
        Scheme::Attention => Sequential::Panels { gather: first, panels: gathering::panels(site, &site.wide) },
        Scheme::GatherFirst => {
            let product = product(site.operands([&site.wide, &site.other, &site.output]), 0, task.m);
            Sequential::After { gather: first, product }
        }
        Scheme::GatherLast => {
            let operands = site.operands([&site.own, &site.other, &site.output]);
            Sequential::Before { product: product(operands, task.rank * task.rows(), task.rows()), call: first }
        }
        _ => {
            let product = product(site.operands([&site.own, &site.other, &site.wide]), 0, task.m);
            Sequential::Before { product, call: first }
        }
    }))
}

impl Product {
    fn run(&self, site: &Site) -> Result<(), Failure> {
        // SAFETY: this rank's own buffers, and no operation is in flight.
        unsafe { site.multiply(&self.operands, 0, self.c_row, self.rows) }
    }
}

impl CallStep for Sequential {
    fn run(&mut self, site: &mut Site, comm: &mut dyn Communicator) -> Result<(), Failure> {
        match self {
            Self::Panels { gather, panels } => {
                site.machine().run(comm, gather)?;
                let len = gathering::panel_elements(site);
                gathering::begin(site)?;
                for from in 0..site.task.ranks {
                    // SAFETY: this rank's own buffers, and no operation is in flight.
                    unsafe { gathering::see(site, panels, PanelPiece::whole(from * len, from))? };
                }
                gathering::end(site)
            }
            Self::After { gather, product } => {
                site.machine().run(comm, gather)?;
                product.run(site)
            }
            Self::Before { product, call } => {
                product.run(site)?;
                site.machine().run(comm, call)
            }
            Self::Experts(exchange) => {
                exchange.dispatch(site, comm)?;
                exchange.multiply(site)?;
                exchange.combine(site, comm)
            }
        }
    }

    fn leaves(&self) -> &'static [Left] {
        match self {
            Self::Experts(_) => &[Left::Gathered, Left::Result],
            _ => &[Left::Result],
        }
    }

    fn path(&self, comm: &dyn Communicator) -> String {
        match self {
            Self::Panels { gather: call, .. } | Self::After { gather: call, .. } | Self::Before { call, .. } => {
                comm.path(call).to_owned()
            }
            Self::Experts(exchange) => exchange.path(comm),
        }
    }
}
