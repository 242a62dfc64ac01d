//! The bare memory traffic of a case on one rank: its variants, and the loops that run them in the case's own memory.

use std::sync::Arc;

use comm::Communicator;
use device::Region;
use terms::{BufferKind, Collective};

use super::loops::{Manner, exchange, has_stores_past_caches, sum};
use super::parameters::Parameters;
use super::streams::{Act, BufferSide, Passes, StreamPass, StreamStart, passes, share_of};

/// How a variant goes through the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamOrder {
    /// A loop; `to_and_fro`: every second time from the last block to the first.
    Loop { past_caches: bool, to_and_fro: bool },
    /// The C library's copy.
    Copy,
}

/// A variant and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) way: StreamOrder,
}

/// The variants of a case: the same on every rank, because they follow from the parameters and from what all ranks' memory
/// is. Successive reductions may go to and fro, so that the caches' contents serve twice (`shm` does); what only moves data
/// goes upwards.
pub(super) fn variants(parameters: &Parameters, peers: bool) -> Vec<Variant> {
    let ranks = 0..parameters.ranks;
    if ranks.clone().all(|rank| share_of(parameters, rank).traffic() == 0) {
        return Vec::new();
    }
    let (reduces, in_place) = (parameters.op.reduces(), parameters.in_place);
    let exchanges = parameters.op == Collective::AllToAll && in_place;
    let written_apart = !(exchanges || in_place && reduces);
    let aligned =
        || ranks.clone().all(|rank| passes(parameters, rank, peers).passes.iter().all(|p| lies_alike(parameters, p)));
    let past_caches = has_stores_past_caches() && written_apart && aligned();
    let mut ways = vec![("plain", StreamOrder::Loop { past_caches: false, to_and_fro: false })];
    if reduces {
        ways.push(("to and fro", StreamOrder::Loop { past_caches: false, to_and_fro: true }));
    }
    if past_caches {
        ways.push(("past caches", StreamOrder::Loop { past_caches: true, to_and_fro: false }));
        if reduces {
            ways.push(("past caches to and fro", StreamOrder::Loop { past_caches: true, to_and_fro: true }));
        }
    }
    if !reduces && !exchanges {
        ways.push(("copy", StreamOrder::Copy));
    }
    let buffers = if peers { " (peers' buffers)" } else { " (own buffers)" };
    ways.into_iter().map(|(name, way)| Variant { name: format!("{name}{buffers}"), way }).collect()
}

/// Whether a pass's destinations begin alike on lines, and at a word where words are summed. Regions and their copies begin
/// lines.
fn lies_alike(parameters: &Parameters, pass: &StreamPass) -> bool {
    let offset = |place: &StreamStart| parameters.place(*place).offset % 64;
    let word = if pass.from.len() == 1 { 1 } else { size_of::<u32>() };
    let first = pass.to.first().map_or(0, offset);
    first.is_multiple_of(word) && pass.to.iter().all(|place| offset(place) == first)
}

/// Streams as addresses, in the first copy of the buffers.
#[derive(Debug)]
struct Resolved {
    act: Act,
    from: Vec<BareStream>,
    to: Vec<BareStream>,
    len: usize,
}

/// First byte, and bytes from a copy of the buffer to the next.
type BareStream = (*mut u8, usize);

/// The bare traffic of a rank.
#[derive(Debug)]
pub(super) struct Bare {
    pub(super) variants: Vec<Variant>,
    passes: Vec<Resolved>,
    moved: u64,
    /// Calls have two messages, one after the other: ranks take turns.
    one_at_a_time: bool,
    first: bool,
    down: bool,
    /// Kept, so that no pass allocates.
    from: Vec<*const u8>,
    to: Vec<*mut u8>,
    /// Keeps what the addresses point into.
    _regions: Vec<Arc<Region>>,
}

impl Bare {
    /// No loops: for buffers that no loop of this host goes through.
    pub(super) fn none() -> Self {
        Self {
            variants: Vec::new(),
            passes: Vec::new(),
            moved: 0,
            one_at_a_time: false,
            first: false,
            down: false,
            from: Vec::new(),
            to: Vec::new(),
            _regions: Vec::new(),
        }
    }

    /// `regions` are this rank's (in place twice the same), `steps` the bytes from a copy of a buffer to the next.
    pub(super) fn new(
        parameters: &Parameters,
        rank: u32,
        comm: &dyn Communicator,
        regions: [&Arc<Region>; 2],
        steps: [usize; 2],
    ) -> Self {
        let views = peer_views(parameters, comm, regions);
        let peers = views.is_some();
        let views = views.unwrap_or_else(|| (0..parameters.ranks).map(|_| regions.map(Clone::clone)).collect());
        let stream = |place: &StreamStart| {
            let spot = parameters.place(*place);
            let region = usize::from(spot.region == BufferSide::Output);
            (views[spot.rank as usize][region].base().wrapping_add(spot.offset), steps[region])
        };
        let Passes { passes, moved } = passes(parameters, rank, peers);
        let resolve = |pass: &StreamPass| Resolved {
            act: pass.act,
            from: pass.from.iter().map(stream).collect(),
            to: pass.to.iter().map(stream).collect(),
            len: pass.len,
        };
        Self {
            variants: variants(parameters, peers),
            passes: passes.iter().map(resolve).collect(),
            moved,
            one_at_a_time: parameters.op == Collective::PingPong && parameters.ranks > 1,
            first: rank == 0,
            // As `shm` begins: the ranks of a pair away from the boundary between their parts.
            down: rank.is_multiple_of(2),
            from: Vec::with_capacity(parameters.ranks as usize),
            to: Vec::with_capacity(parameters.ranks as usize),
            _regions: views.into_iter().flatten().collect(),
        }
    }

    /// Runs a variant once, in this copy of the buffers; gives the bytes of the call that it stands for. `round` counts what
    /// all ranks do together.
    pub(super) fn run(&mut self, variant: usize, round: u32, copy: usize) -> Option<u64> {
        let Variant { way, .. } = self.variants.get(variant)?;
        let Self { passes, from, to, .. } = self;
        if self.moved == 0 || self.one_at_a_time && self.first != round.is_multiple_of(2) {
            return None;
        }
        let manner = match *way {
            StreamOrder::Loop { past_caches, to_and_fro } => {
                self.down ^= to_and_fro;
                Manner { past_caches, down: to_and_fro && self.down }
            }
            StreamOrder::Copy => Manner::default(),
        };
        for pass in passes {
            from.clear();
            to.clear();
            from.extend(pass.from.iter().map(|(base, step)| base.wrapping_add(step * copy).cast_const()));
            to.extend(pass.to.iter().map(|(base, step)| base.wrapping_add(step * copy)));
            // SAFETY: streams lie inside regions that are kept, as the operation's layout has them (`streams`); no operation
            // is in flight, and no two ranks have a destination in common. Contents are undefined afterwards.
            unsafe {
                match (pass.act, way) {
                    (Act::Exchange, _) => exchange(from[0].cast_mut(), to[0], pass.len),
                    (Act::Sum, StreamOrder::Copy) => {
                        for to in to.iter().filter(|to| to.cast_const() != from[0]) {
                            std::ptr::copy_nonoverlapping(from[0], *to, pass.len);
                        }
                    }
                    (Act::Sum, StreamOrder::Loop { .. }) => sum(from, to, pass.len, manner),
                }
            }
        }
        Some(self.moved)
    }
}

/// Every rank's input and output as this rank reaches them; None where it does not. The same on all ranks: it depends on
/// the backend, and on buffers that are alike everywhere.
fn peer_views(
    parameters: &Parameters,
    comm: &dyn Communicator,
    regions: [&Arc<Region>; 2],
) -> Option<Vec<[Arc<Region>; 2]>> {
    if parameters.ranks == 1 || parameters.buffers != BufferKind::Registered {
        return None;
    }
    let view = |region: &Arc<Region>, rank: u32| comm.peer_view(region, rank);
    (0..parameters.ranks).map(|rank| Some([view(regions[0], rank)?, view(regions[1], rank)?])).collect()
}
