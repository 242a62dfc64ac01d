//! Communication cut into parts. Each overlaps the computation of another.

mod chunks;
mod ring;

use contract::RankContext;
use contract::fields::problem;
use measure::Failure;
use terms::{FieldError, Named, Variant};

use crate::implementation::{ALGORITHM, CHUNKS, CallStep, Implementation, OFFSET, ORDER, Runs, order, settle_order};
use crate::site::Site;
use crate::task::{Options, Scheme, scheme, whole, word};
use crate::words::{Algorithm, Order, Primitive};

pub(super) const VARIANT: Variant =
    Variant { name: "pipelined", doc: "in parts that overlap", options: &[ORDER, ALGORITHM, CHUNKS, OFFSET] };

pub(super) const IMPLEMENTATION: Implementation =
    Implementation { name: VARIANT.name, ways, resolve_options, task: |task, _| task, runs: Runs::Native(prepare) };

/// Parts of a rank's rows where the case names none.
const DEFAULT_CHUNKS: u64 = 4;

fn ways(primitive: Primitive) -> Vec<&'static str> {
    match primitive {
        Primitive::TpColumnwise => vec![
            "order=AG_before,algorithm=collective_chunks",
            "order=AG_before,algorithm=ring_p2p",
            "order=AG_after,algorithm=collective_chunks",
        ],
        Primitive::TpRowwise | Primitive::CpRing => vec!["algorithm=collective_chunks", "algorithm=ring_p2p"],
        Primitive::DpAllReduce | Primitive::EpAllToAll => vec!["algorithm=collective_chunks"],
    }
}

/// Whether blocks can go around a ring: where a rank computes with one while the next is on its way.
fn goes_around(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::GatherFirst | Scheme::ScatterLast | Scheme::Attention)
}

/// Whether a chunk has a block for each rank, so that a rank may begin with its own.
fn has_blocks(scheme: Scheme) -> bool {
    goes_around(scheme)
}

fn resolve_options(primitive: Primitive, options: &mut Options) -> Result<(), FieldError> {
    settle_order(primitive, options)?;
    let scheme = scheme(primitive, order(options).unwrap_or(Order::Before));
    let refused = |message: String, hint: &str| Err(problem("implementation", message, hint));
    let algorithm = word(options, ALGORITHM.name).unwrap_or(Algorithm::CollectiveChunks);
    options.insert(ALGORITHM.name.to_owned(), algorithm.name().into());
    if algorithm == Algorithm::RingP2p {
        if !goes_around(scheme) {
            return refused(
                format!("{primitive} has no ring_p2p in this order: nothing is computed while blocks go around"),
                "`algorithm=collective_chunks`",
            );
        }
        for name in [CHUNKS.name, OFFSET.name] {
            if options.contains_key(name) {
                return refused(
                    format!("ring_p2p does not support `{name}`: its parts are the ranks' blocks"),
                    "leave it out",
                );
            }
        }
        return Ok(());
    }
    options.entry(CHUNKS.name).or_insert(DEFAULT_CHUNKS.into());
    if has_blocks(scheme) {
        options.entry(OFFSET.name).or_insert(true.into());
    } else if options.contains_key(OFFSET.name) {
        return refused(format!("{primitive} does not support `offset` here: a chunk is one block"), "leave it out");
    }
    Ok(())
}

fn prepare(site: &Site, options: &Options, _: &mut RankContext) -> Result<Box<dyn CallStep>, Failure> {
    let offset = options.get(OFFSET.name).and_then(serde_json::Value::as_bool).unwrap_or(true);
    let chunks = whole(options, CHUNKS.name).unwrap_or(DEFAULT_CHUNKS as usize);
    site.overlap()?;
    match word(options, ALGORITHM.name) {
        Some(Algorithm::RingP2p) => Ok(ring::prepare(site)),
        _ => chunks::prepare(site, chunks, offset),
    }
}
