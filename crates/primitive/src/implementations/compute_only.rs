//! Computation alone: what communication is compared with.

use comm::Communicator;
use contract::RankContext;
use measure::Failure;
use terms::{FieldError, Named, Variant};

use crate::exchange::TokenExchange;
use crate::gathering::{self, PanelPiece, Panels};
use crate::implementation::{CallStep, Implementation, Runs, SIZE};
use crate::product::Operands;
use crate::site::{GivenBuffers, Left, Site};
use crate::task::{Options, Scheme, Task, word};
use crate::words::{Primitive, Size};

pub(crate) const VARIANT: Variant =
    Variant { name: "compute_only", doc: "no communication: the product alone", options: &[SIZE] };

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    name: VARIANT.name,
    ways: |_| vec!["size=sharded", "size=unsharded"],
    resolve_options,
    task,
    runs: Runs::Both(prepare),
};

fn resolve_options(_: Primitive, options: &mut Options) -> Result<(), FieldError> {
    options.entry(SIZE.name).or_insert_with(|| Size::Sharded.name().into());
    Ok(())
}

fn task(task: Task, options: &Options) -> Task {
    match word(options, SIZE.name) {
        Some(Size::Unsharded) => task.alone(),
        // Of its own rows, which is what each rank multiplies before the product is gathered.
        _ if task.scheme == Scheme::GatherFirst => Task { scheme: Scheme::GatherLast, ..task },
        _ => task,
    }
}

enum Compute {
    /// Rows of A from this buffer, into rows of C.
    Rows { operands: Operands, c_row: usize, rows: usize },
    /// All panels, one after the other.
    Panels(Panels),
    /// Tokens, expert by expert.
    Experts(TokenExchange),
}

fn prepare(site: &Site, _: &Options, _: &mut RankContext) -> Result<Box<dyn CallStep>, Failure> {
    let task = &site.task;
    Ok(Box::new(match task.scheme {
        Scheme::Attention => Compute::Panels(gathering::panels(site, &site.wide)),
        Scheme::GatherFirst => rows(site.operands([&site.own, &site.other, &site.output]), 0, task.m),
        Scheme::GatherLast => {
            rows(site.operands([&site.own, &site.other, &site.output]), task.rank * task.rows(), task.rows())
        }
        Scheme::Exchange => Compute::Experts(TokenExchange::new(site, 1)?),
        Scheme::ScatterLast | Scheme::ReduceLast => {
            rows(site.operands([&site.own, &site.other, &site.wide]), 0, task.m)
        }
    }))
}

fn rows(operands: Operands, c_row: usize, rows: usize) -> Compute {
    Compute::Rows { operands, c_row, rows }
}

impl CallStep for Compute {
    fn run(&mut self, site: &mut Site, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        match self {
            // SAFETY: this rank's own buffers.
            Self::Rows { operands, c_row, rows } => unsafe { site.multiply(operands, 0, *c_row, *rows) }?,
            Self::Experts(exchange) => exchange.multiply(site)?,
            Self::Panels(panels) => {
                let len = gathering::panel_elements(site);
                gathering::begin(site)?;
                for from in 0..site.task.ranks {
                    // SAFETY: this rank's own buffers.
                    unsafe { gathering::see(site, panels, PanelPiece::whole(from * len, from))? };
                }
                gathering::end(site)?;
            }
        }
        Ok(())
    }

    fn given(&self) -> GivenBuffers {
        GivenBuffers::Gathered
    }

    fn leaves(&self) -> &'static [Left] {
        &[Left::Products]
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        String::new()
    }
}
