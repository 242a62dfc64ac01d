//! The benchmark `collective`: one operation of a communicator, on checked data.

mod about;
mod number;
mod pattern;
mod prepared;
mod segments;
mod torch;
mod traffic;
mod uneven;

use comm::{Counts, extents};
use measure::Failure;
use record::{About, Case};
use serde_json::{Map, Value};
use terms::{BufferKind, Bytes, Collective, Direction, Dtype, Reduce, Seconds};

use crate::{Benchmark, Measured, Prepared, RankContext};

pub(crate) use prepared::failure;

/// See the module's documentation.
pub struct CollectiveBenchmark;

/// A case's parameters, read once.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    op: Collective,
    dtype: Dtype,
    reduce: Reduce,
    bytes: u64,
    in_place: bool,
    buffers: BufferKind,
    touch: bool,
    peer: u32,
    direction: Direction,
    ranks: u32,
    seed: u64,
    /// Operations of a call, each on buffers of its own.
    in_flight: u64,
    counts: Option<Counts>,
}

impl Parameters {
    fn of(case: &Case) -> Result<Self, Failure> {
        let op: Collective = case.word("op").ok_or_else(|| Failure::new("the case has no operation"))?;
        let peer = if op == Collective::PingPong { case.whole("peer").unwrap_or(1) } else { 0 };
        Ok(Self {
            op,
            dtype: case.word("dtype").unwrap_or(Dtype::U8),
            reduce: case.word("reduce").unwrap_or(Reduce::Sum),
            bytes: case.whole("bytes").unwrap_or(0),
            in_place: case.flag("in_place"),
            buffers: case.word("buffers").unwrap_or(BufferKind::Registered),
            touch: case.flag("touch"),
            peer: case.whole("root").unwrap_or(peer) as u32,
            direction: case.word("direction").unwrap_or(Direction::OneWay),
            ranks: case.ranks(),
            seed: case.whole("seed").unwrap_or(1),
            in_flight: case.whole("in_flight").unwrap_or(1),
            counts: uneven::of_case(case).map_err(Failure::new)?,
        })
    }

    /// S in elements.
    fn count(&self) -> u64 {
        self.bytes / self.dtype.bytes()
    }

    /// Bytes of a rank's input and output; in place they are parts of one buffer of the larger size.
    fn lengths(&self, rank: u32) -> (usize, usize) {
        let extent = extents(self.op, self.count(), rank, self.ranks, self.peer, self.counts.as_ref());
        ((extent.input * self.dtype.bytes()) as usize, (extent.output * self.dtype.bytes()) as usize)
    }

    /// Bytes of the buffers that every rank allocates when they are registered: registered memory is allocated
    /// collectively, the same on every rank.
    fn registered_lengths(&self) -> (usize, usize) {
        let lengths = (0..self.ranks).map(|rank| self.lengths(rank));
        lengths.fold((0, 0), |most, each| (most.0.max(each.0), most.1.max(each.1)))
    }
}

impl Benchmark for CollectiveBenchmark {
    fn about(&self) -> &'static About {
        &about::ABOUT
    }

    fn memory(&self, case: &Case) -> u64 {
        let Ok(parameters) = Parameters::of(case) else { return 0 };
        let held = |(input, output): (usize, usize)| {
            if parameters.in_place { input.max(output) as u64 } else { (input as u64).saturating_add(output as u64) }
        };
        let of_one = match parameters.buffers {
            BufferKind::Private => {
                (0..parameters.ranks).map(|rank| held(parameters.lengths(rank))).fold(0, u64::saturating_add)
            }
            BufferKind::Registered => held(parameters.registered_lengths()).saturating_mul(u64::from(parameters.ranks)),
        };
        of_one.saturating_mul(parameters.in_flight)
    }

    fn prepare(&self, case: &Case, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        prepared::prepare(Parameters::of(case)?, rank)
    }

    fn metrics(&self, case: &Case, measured: &Measured<'_>) -> Map<String, Value> {
        let (median_s, limit_s) = (measured.times.median, measured.limit_s);
        let mut metrics = Map::new();
        let Ok(parameters) = Parameters::of(case) else { return metrics };
        let (bytes, time) = (Bytes(parameters.bytes), Seconds(median_s));
        let mut put = |name: &str, value: Option<f64>| {
            if let Some(value) = value.and_then(serde_json::Number::from_f64) {
                metrics.insert(name.to_owned(), Value::Number(value));
            }
        };
        put("algbw_gbs", parameters.op.algbw_gbs(bytes, time));
        put("busbw_gbs", parameters.op.busbw_gbs(bytes, parameters.ranks, time));
        put("limit_share", limit_s.filter(|_| median_s > 0.0).map(|limit| limit / median_s));
        metrics
    }
}
