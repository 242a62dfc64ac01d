//! The benchmark `collective`: one operation of a communicator, on checked data.

mod about;
mod bare;
mod copies;
mod fields;
mod loops;
mod number;
mod pattern;
mod prepared;
mod segments;
mod share;
mod show;
mod streams;
mod table;
mod torch;
mod traffic;
mod uneven;
mod view;

use comm::{Counts, extents};
use measure::Failure;
use record::{About, Case};
use serde_json::{Map, Value};
use terms::{BufferKind, Bytes, Collective, Direction, Dtype, Reduce, Seconds};

use crate::{Benchmark, Host, Measured, Prepared, RankContext};
use fields::Fields;
use streams::{Place, Side};

/// See the module's documentation.
pub(crate) struct CollectiveBenchmark;

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
    /// Bytes that all copies of all ranks' buffers exceed; None: there is one copy.
    cold_bytes: Option<u64>,
}

/// Where a byte of a buffer lies among all ranks' regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    rank: u32,
    region: Side,
    offset: usize,
}

impl Parameters {
    fn from_case(case: &Case) -> Result<Self, Failure> {
        let fields = Fields::of(case)?;
        let torch = torch::Fields::of(case)?;
        let op = fields.op;
        let peer = if op == Collective::PingPong { fields.peer } else { fields.root };
        // A barrier moves nothing, of no type.
        let (dtype, bytes) = if op == Collective::Barrier { (Dtype::U8, 0) } else { (fields.dtype, fields.bytes) };
        Ok(Self {
            op,
            dtype,
            reduce: fields.reduce.unwrap_or(Reduce::Sum),
            bytes,
            in_place: fields.in_place.unwrap_or(false),
            buffers: fields.buffers.unwrap_or(BufferKind::Registered),
            touch: fields.touch,
            peer,
            direction: fields.direction,
            ranks: fields.ranks,
            seed: fields.seed,
            in_flight: torch.in_flight.unwrap_or(1),
            counts: uneven::of_case(case).map_err(Failure::new)?,
            cold_bytes: fields.cold_bytes,
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

    /// Bytes of the input's and the output's region of a rank; in place both are the first one, and the second is empty.
    fn region_lengths(&self, rank: u32) -> (usize, usize) {
        let (input, output) = match self.buffers {
            BufferKind::Private => self.lengths(rank),
            BufferKind::Registered => self.registered_lengths(),
        };
        if self.in_place { (input.max(output), 0) } else { (input, output) }
    }

    /// Where a rank's input and output begin in their regions.
    fn begins(&self, rank: u32) -> (usize, usize) {
        let (input, output) = self.lengths(rank);
        let own_block = (self.bytes / u64::from(self.ranks)) as usize * rank as usize;
        // Rooted: only the root has both ends, and only there is one inside the other.
        if !self.in_place || input == 0 || output == 0 {
            return (0, 0);
        }
        match self.op {
            Collective::AllGather | Collective::Gather => (own_block, 0),
            Collective::ReduceScatter | Collective::Scatter => (0, own_block),
            _ => (0, 0),
        }
    }

    fn place(&self, place: Place) -> Spot {
        let (input, output) = self.begins(place.rank);
        let (region, begin) = match place.side {
            Side::Input => (Side::Input, input),
            Side::Output if self.in_place => (Side::Input, output),
            Side::Output => (Side::Output, output),
        };
        Spot { rank: place.rank, region, offset: begin + place.offset }
    }
}

impl Benchmark for CollectiveBenchmark {
    fn about(&self) -> &'static About {
        &about::ABOUT
    }

    fn memory(&self, case: &Case) -> u64 {
        let Ok(parameters) = Parameters::from_case(case) else { return 0 };
        if crate::runtime::is_on_gpus(case) {
            return 0;
        }
        let held = |rank: u32| {
            let (input, output) = parameters.region_lengths(rank);
            let bytes = |len: usize| parameters.region(len).map_or(u64::MAX, |bytes| bytes as u64);
            bytes(input).saturating_add(bytes(output))
        };
        let of_one = match parameters.buffers {
            BufferKind::Private => (0..parameters.ranks).map(held).fold(0, u64::saturating_add),
            BufferKind::Registered => held(0).saturating_mul(u64::from(parameters.ranks)),
        };
        of_one.saturating_mul(parameters.in_flight)
    }

    fn admit(&self, case: &Case, host: &Host) -> Result<(), String> {
        copies::admit(case, host)
    }

    fn peer(&self, case: &Case) -> Option<u32> {
        Fields::of(case).ok().filter(|fields| fields.op == Collective::PingPong).map(|fields| fields.peer)
    }

    fn operation(&self, case: &Case) -> (Collective, u64) {
        let moved = |fields: Fields| (fields.op, if fields.op == Collective::Barrier { 0 } else { fields.bytes });
        Fields::of(case).map_or((Collective::Barrier, 0), moved)
    }

    fn sent(&self, case: &Case) -> f64 {
        let (op, bytes) = self.operation(case);
        op.bus_factor(case.ranks()) * bytes as f64
    }

    fn prepare(&self, case: &Case, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        prepared::prepare(Parameters::from_case(case)?, rank)
    }

    fn view(&self) -> Option<&'static dyn ::view::View> {
        Some(&view::CollectiveView)
    }

    fn metrics(&self, case: &Case, measured: &Measured<'_>) -> Map<String, Value> {
        let median_s = measured.times.median;
        let mut metrics = Map::new();
        let Ok(parameters) = Parameters::from_case(case) else { return metrics };
        let (bytes, time) = (Bytes(parameters.bytes), Seconds(median_s));
        if parameters.bytes > 0 {
            metrics.insert("count".to_owned(), Value::from(parameters.count()));
        }
        let mut put = |name: &str, value: Option<f64>| {
            if let Some(value) = value.and_then(serde_json::Number::from_f64) {
                metrics.insert(name.to_owned(), Value::Number(value));
            }
        };
        put("algbw_gbs", parameters.op.algbw_gbs(bytes, time));
        put("busbw_gbs", parameters.op.busbw_gbs(bytes, parameters.ranks, time));
        if let Some(share) = measure::limit_share(measured.limit) {
            let busbw = parameters.op.busbw_gbs(bytes, parameters.ranks, time);
            let whole = share.as_f64().filter(|share| *share > 0.0).zip(busbw).map(|(share, busbw)| busbw / share);
            metrics.insert("limit_share".to_owned(), share);
            metrics.extend(whole.map(|whole| ("limit_busbw_gbs".to_owned(), Value::from(whole))));
        }
        metrics
    }
}
