//! Computation that reaches into peers' memory: operands are read where they lie, and results are written where they belong.
//! There is no gather buffer.

use comm::{Call, Communicator};
use contract::RankContext;
use contract::fields::problem;
use device::Slice;
use measure::Failure;
use terms::{FieldError, Variant};

use crate::gathering::{self, PanelPiece, Panels};
use crate::implementation::{CallStep, Implementation, OFFSET, Runs};
use crate::product::Operands;
use crate::site::Site;
use crate::sum;
use crate::task::{Options, Scheme};
use crate::words::Primitive;

pub(crate) const VARIANT: Variant = Variant {
    name: "fused",
    doc: "computes on peers' memory in place (backends that can access it)",
    options: &[OFFSET],
};

pub(super) const IMPLEMENTATION: Implementation =
    Implementation { name: VARIANT.name, ways, resolve_options, task: |task, _| task, runs: Runs::Native(prepare) };

fn ways(primitive: Primitive) -> Vec<&'static str> {
    if primitive == Primitive::DpAllReduce { Vec::new() } else { vec!["offset=true", "offset=false"] }
}

fn resolve_options(primitive: Primitive, options: &mut Options) -> Result<(), FieldError> {
    if primitive == Primitive::DpAllReduce {
        let message = "dp_all_reduce has no fused implementation: every rank needs every sum";
        return Err(problem("implementation", message, "`pipelined` overlaps it"));
    }
    options.entry(OFFSET.name).or_insert(true.into());
    Ok(())
}

enum Compute {
    /// With each rank's panel.
    Panels(Vec<Panels>),
    /// Rows for each rank, into a part of its memory; the parts that came from all ranks are then added up.
    Scatter(Vec<Operands>),
    /// The tokens of each rank, into its result.
    Exchange(Vec<Operands>),
}

struct Fused {
    compute: Compute,
    barrier: Call,
    offset: bool,
}

fn prepare(site: &Site, options: &Options, context: &mut RankContext) -> Result<Box<dyn CallStep>, Failure> {
    let mut peers = |of: &Slice| site.peers(context, of);
    let compute = match site.task.scheme {
        Scheme::Exchange => {
            let (tokens, results) = (peers(&site.own)?, peers(&site.output)?);
            let operands = tokens.iter().zip(&results).map(|(from, to)| site.operands([from, &site.other, to]));
            Compute::Exchange(operands.collect())
        }
        Scheme::ScatterLast => {
            let sums = peers(&site.wide)?;
            Compute::Scatter(sums.iter().map(|to| site.operands([&site.own, &site.other, to])).collect())
        }
        _ => Compute::Panels(peers(&site.own)?.iter().map(|memory| gathering::panels(site, memory)).collect()),
    };
    let offset = options.get(OFFSET.name).and_then(serde_json::Value::as_bool).unwrap_or(true);
    Ok(Box::new(Fused { compute, barrier: site.barrier(), offset }))
}

impl CallStep for Fused {
    /// Two meetings: peers' operands are ready behind the first, and nobody uses this rank's memory behind the second.
    fn run(&mut self, site: &mut Site, comm: &mut dyn Communicator) -> Result<(), Failure> {
        let (ranks, rank) = (site.task.ranks, site.task.rank);
        let first = if self.offset { rank } else { 0 };
        let order = (0..ranks).map(move |step| (first + step) % ranks);
        site.machine().run(comm, &self.barrier)?;
        match &self.compute {
            Compute::Panels(peers) => {
                gathering::begin(site)?;
                for from in order {
                    // SAFETY: between the meetings nobody writes to operands; the output is this rank's own.
                    unsafe { gathering::see(site, &peers[from], PanelPiece::whole(0, from))? };
                }
                gathering::end(site)?;
                site.machine().run(comm, &self.barrier)
            }
            Compute::Scatter(peers) => {
                let rows = site.task.rows();
                for to in order {
                    // SAFETY: between the meetings each rank writes to its own part of each peer's buffer.
                    unsafe { site.multiply(&peers[to], to * rows, rank * rows, rows)? };
                }
                site.machine().run(comm, &self.barrier)?;
                sum::blocks(site, &site.wide, &site.output)
            }
            Compute::Exchange(peers) => {
                for from in order {
                    let tokens = site.task.routing.places(from, rank);
                    // SAFETY: between the meetings each expert writes to the results of its own tokens, which lie sorted.
                    unsafe { site.multiply(&peers[from], tokens.start, tokens.start, tokens.len())? };
                }
                site.machine().run(comm, &self.barrier)
            }
        }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        "peers' memory".to_owned()
    }
}
