//! What a collective case asks for, read once, and where its buffers lie.

use comm::{Counts, extents};
use measure::Failure;
use record::Case;
use terms::{BufferKind, Collective, Direction, Dtype, Reduce, Registration, Space};

use super::data::{Data, InputSource};
use super::fields::Fields;
use super::streams::{BufferSide, StreamStart};
use super::{torch, uneven};

/// A case's parameters, read once.
#[derive(Clone, Debug)]
pub(super) struct Parameters {
    pub(super) op: Collective,
    pub(super) dtype: Dtype,
    pub(super) reduce: Reduce,
    pub(super) bytes: u64,
    pub(super) in_place: bool,
    pub(super) buffers: BufferKind,
    pub(super) registration: Option<Registration>,
    /// Operations that one launch consists of.
    pub(super) together: Together,
    /// Bytes from where memory begins to where buffers do.
    pub(super) offset: usize,
    /// Where they lie.
    pub(super) space: Space,
    pub(super) touch: bool,
    /// Nanoseconds that a rank computes before each call of a chain.
    pub(super) compute_ns: u64,
    pub(super) peer: u32,
    pub(super) direction: Direction,
    /// Ranks of one call: those of a group, where ranks are in groups.
    pub(super) ranks: u32,
    /// How many groups make calls at once: 1 where the world is one.
    pub(super) groups: u32,
    /// The only group that makes calls.
    pub(super) alone: Option<u32>,
    pub(super) seed: u64,
    pub(super) data: Data,
    /// Whether bits of results are compared.
    pub(super) reproducible: bool,
    /// Operations of a call, each on buffers of its own.
    pub(super) in_flight: u64,
    pub(super) counts: Option<Counts>,
    /// Bytes that all copies of all ranks' buffers exceed; None: there is one copy.
    pub(super) cold_bytes: Option<u64>,
}

/// How operations are launched together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Together {
    /// Each operation by itself.
    Single,
    /// So many operations as a graph.
    Graph(u32),
    /// So many operations as a group.
    Group(u32),
}

impl Together {
    /// How many.
    pub(super) fn count(self) -> u32 {
        match self {
            Self::Single => 1,
            Self::Graph(count) | Self::Group(count) => count,
        }
    }
}

/// Where a byte of a buffer lies among all ranks' regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) rank: u32,
    pub(super) region: BufferSide,
    pub(super) offset: usize,
}

impl Parameters {
    /// `fields` are those of the case.
    pub(super) fn new(case: &Case, fields: &Fields) -> Result<Self, Failure> {
        let torch = torch::Fields::of(case)?;
        let (op, ranks) = (fields.op, fields.ranks_of_a_call());
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
            registration: fields.registration,
            together: match (fields.graph, fields.aggregate) {
                (Some(count), _) => Together::Graph(count),
                (None, Some(count)) => Together::Group(count),
                (None, None) => Together::Single,
            },
            offset: fields.offset_bytes.unwrap_or(0) as usize,
            space: if contract::is_on_gpus(case) { Space::Cuda } else { Space::Host },
            touch: fields.touch,
            compute_ns: contract::fields::chain_compute_ns(fields.compute_s),
            peer,
            direction: fields.direction,
            ranks,
            groups: fields.ranks / ranks.max(1),
            alone: fields.alone,
            seed: fields.seed,
            data: fields.data,
            reproducible: fields.reproducible && op != Collective::Barrier,
            in_flight: torch.in_flight.unwrap_or(1),
            counts: uneven::of_case(case, fields).map_err(Failure::new)?,
            cold_bytes: fields.cold_bytes,
        })
    }

    /// What inputs are made of; None where there is no result to check against.
    pub(super) fn source(&self) -> Option<InputSource> {
        let Self { op, reduce, data, dtype, ranks, in_place, seed, .. } = *self;
        InputSource::new(data, (op, reduce), dtype, ranks, in_place, seed)
    }

    /// S in elements.
    pub(super) fn count(&self) -> u64 {
        self.bytes / self.dtype.bytes()
    }

    /// Bytes of a rank's input and output; in place they are parts of one buffer of the larger size.
    pub(super) fn lengths(&self, rank: u32) -> (usize, usize) {
        let extent = extents(self.op, self.count(), rank, self.ranks, self.peer, self.counts.as_ref());
        ((extent.input * self.dtype.bytes()) as usize, (extent.output * self.dtype.bytes()) as usize)
    }

    /// Bytes of the buffers that every rank allocates when they are registered: registered memory is allocated
    /// collectively, the same on every rank.
    pub(super) fn registered_lengths(&self) -> (usize, usize) {
        let lengths = (0..self.ranks).map(|rank| self.lengths(rank));
        lengths.fold((0, 0), |most, each| (most.0.max(each.0), most.1.max(each.1)))
    }

    /// Bytes of the input's and the output's region of a rank; in place both are the first one, and the second is empty.
    pub(super) fn region_lengths(&self, rank: u32) -> (usize, usize) {
        let (input, output) = match self.buffers {
            BufferKind::Private => self.lengths(rank),
            BufferKind::Registered => self.registered_lengths(),
        };
        let behind = |bytes: usize| bytes.saturating_add(self.offset);
        if self.in_place { (behind(input.max(output)), 0) } else { (behind(input), behind(output)) }
    }

    /// Where a rank's input and output begin in their regions.
    pub(super) fn begins(&self, rank: u32) -> (usize, usize) {
        let (input, output) = self.begins_of_blocks(rank);
        (self.offset + input, self.offset + output)
    }

    fn begins_of_blocks(&self, rank: u32) -> (usize, usize) {
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

    pub(super) fn place(&self, place: StreamStart) -> Spot {
        let (input, output) = self.begins(place.rank);
        let (region, begin) = match place.side {
            BufferSide::Input => (BufferSide::Input, input),
            BufferSide::Output if self.in_place => (BufferSide::Input, output),
            BufferSide::Output => (BufferSide::Output, output),
        };
        Spot { rank: place.rank, region, offset: begin + place.offset }
    }
}
