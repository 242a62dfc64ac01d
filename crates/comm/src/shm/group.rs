//! One rank's end of a group of ranks: chooses the path of each call, and holds what the paths share.

use std::ops::Range;
use std::sync::Arc;

use device::{Queue, Region, RegionId, Slice};
use terms::{Collective, Direction, Dtype, Rank, Reduce, Space};

use super::area::{Area, INLINE};
use super::caches;
use super::choice::{Buffers, Choice};
use super::cross::Cross;
use super::direct::Pass;
use super::flag::{Futex, Looks, Patience};
use super::kernels::{self, Isa};
use super::mail::Mail;
use super::plan::{Plan, describe};
use super::regions::{self, Registry};
use super::rendezvous::Star;
use super::rounds::{AHEAD, RING, Rounds};
use crate::{Abort, Call, Communicator, Counts, Error, Result, Shape, Ticket, Wait};

/// The signature of a barrier: the operation alone.
const BARRIER: u64 = Collective::Barrier as u64 + 1;

/// For whom a rank waits in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// All, at whose flags it looks like this.
    All(Looks),
    /// The one that gives.
    Arrived(usize),
    /// Nobody: it gives only, and what it gives lies in its slot or header.
    Told,
}

/// A call that was validated and planned, in case it comes again: loops call the same operation on the same buffers.
#[derive(Debug)]
struct Prepared {
    op: Collective,
    dtype: Dtype,
    reduce: Reduce,
    peer: u32,
    direction: Direction,
    input: (RegionId, usize, usize),
    output: (RegionId, usize, usize),
    counts: Option<Arc<Counts>>,
    plan: Plan,
    buffers: Buffers,
}

#[inline]
fn place(slice: &Slice) -> (RegionId, usize, usize) {
    (slice.region().id(), slice.offset(), slice.len())
}

impl Prepared {
    #[inline]
    fn is_for(&self, call: &Call) -> bool {
        let same_counts = match (&self.counts, &call.counts) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        };
        (self.op, self.dtype, self.reduce) == (call.op, call.dtype, call.reduce)
            && (self.peer, self.direction) == (call.peer, call.direction)
            && self.input == place(&call.input)
            && self.output == place(&call.output)
            && same_counts
    }
}

/// One rank's end.
#[derive(Debug)]
pub(crate) struct Group {
    pub(super) shape: Shape,
    /// World rank of each rank.
    pub(super) members: Vec<u32>,
    pub(super) areas: Vec<Area>,
    pub(super) rounds: Rounds<Futex>,
    pub(super) mail: Mail,
    pub(super) registry: Arc<Registry>,
    pub(super) star: Star,
    pub(super) isa: Isa,
    /// See [`caches::third`].
    pub(super) third_cache: Option<usize>,
    pub(super) abort: Abort,
    pub(super) patience: Patience,
    /// The core that each rank is bound to, if it is to one.
    pub(super) cores: Vec<Option<u32>>,
    /// Ranks of the world that are bound to this one's core, itself among them.
    pub(super) crowd: usize,
    pub(super) oversubscribed: bool,
    /// How to reach peers' private memory; None where the system forbids it.
    pub(super) cross: Option<Cross>,
    /// See [`Group::find_near`].
    pub(super) near: bool,
    /// Lists that the paths fill anew for each call: kept, so that no call allocates.
    pub(super) sources: Vec<*const u8>,
    pub(super) destinations: Vec<*mut u8>,
    /// Every rank's input and output, as this rank sees them (direct path).
    pub(super) inputs: Vec<*mut u8>,
    pub(super) outputs: Vec<*mut u8>,
    /// How the prepared call runs, and what all ranks told when that was chosen.
    pub(super) choice: Option<Choice>,
    pub(super) chosen_by: Vec<Buffers>,
    /// The one pass of the prepared call on the direct path, if that is how it runs.
    pub(super) pass: Option<Pass>,
    prepared: Option<Box<Prepared>>,
    /// What this rank's header of each place holds, if signature and buffers.
    written: [Option<(u64, Buffers)>; RING],
    /// Ranks disagreed: their rounds no longer match, so nothing more can be run.
    pub(super) broken: Option<String>,
    started: u64,
}

// SAFETY: the raw pointers are into areas and regions that the group keeps mapped; it is used by one thread at a time.
unsafe impl Send for Group {}

/// The parts of a group that `open` makes.
pub(super) struct Parts {
    pub(super) shape: Shape,
    pub(super) members: Vec<u32>,
    pub(super) areas: Vec<Area>,
    pub(super) registry: Arc<Registry>,
    pub(super) star: Star,
    pub(super) abort: Abort,
    pub(super) oversubscribed: bool,
    pub(super) looks: Looks,
    pub(super) cores: Vec<Option<u32>>,
    pub(super) crowd: usize,
    pub(super) cross: Option<Cross>,
}

impl Group {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { shape, members, areas, registry, star, abort, oversubscribed, looks, cores, crowd, cross } = parts;
        let rank = shape.rank as usize;
        let flags = areas.iter().map(|area| std::array::from_fn(|place| area.round_flag(place))).collect();
        let patience = if oversubscribed { Patience::SHARED_CORE } else { Patience::OWN_CORE };
        // Not where it is other threads or other groups that share the core: they go on meanwhile.
        let here = cores.iter().filter(|core| **core == cores[rank]).count();
        let all_here = oversubscribed && here > 1 && here == crowd;
        let towards = |peer: usize| match (cores[rank], cores[peer]) {
            (Some(own), Some(other)) if all_here && own != other => Patience::OTHER_CORE,
            _ => patience,
        };
        let rounds = Rounds::new(rank, flags, towards, looks, abort.clone(), Futex);
        let mail = Mail::new(shape.size as usize);
        let (ranks, isa) = (areas.len(), kernels::detect());
        let (sources, destinations) = (Vec::with_capacity(ranks), Vec::with_capacity(ranks));
        let (inputs, outputs) = (Vec::with_capacity(ranks), Vec::with_capacity(ranks));
        Self {
            shape,
            members,
            areas,
            rounds,
            mail,
            registry,
            star,
            isa,
            third_cache: caches::third(),
            abort,
            patience,
            cores,
            crowd,
            oversubscribed,
            cross,
            near: false,
            sources,
            destinations,
            inputs,
            outputs,
            choice: None,
            chosen_by: Vec::with_capacity(ranks),
            pass: None,
            prepared: None,
            written: [None; RING],
            broken: None,
            started: 0,
        }
    }

    pub(super) fn rank(&self) -> usize {
        self.shape.rank as usize
    }

    pub(super) fn ranks(&self) -> usize {
        self.areas.len()
    }

    /// Opens a round with this signature and what `write` puts into the header (at most [`INLINE`] bytes), waits as told,
    /// and compares signatures. Returns the round's place.
    #[inline]
    pub(super) fn exchange(&mut self, signature: u64, until: Until, write: impl FnOnce(*mut u8)) -> Result<usize> {
        self.make_room()?;
        let (rank, place) = (self.rank(), self.rounds.next_place());
        let header = self.areas[rank].header(place);
        self.written[place] = None;
        // SAFETY: this rank's own header; peers have finished reading what it held (see `rounds`).
        unsafe { header.cast::<u64>().write(signature) };
        // SAFETY: the header goes on for INLINE bytes.
        write(unsafe { header.add(8) });
        self.pass_header(signature, until)?;
        Ok(place)
    }

    /// The same with this rank's buffers in the header. A header that holds them already is not written again: peers
    /// look at its line while they wait, and each store to it then costs a transfer of the line (0.08 us of 0.22).
    #[inline]
    pub(super) fn exchange_buffers(&mut self, signature: u64, until: Until, buffers: Buffers) -> Result<usize> {
        let place = self.rounds.next_place();
        if self.written[place] == Some((signature, buffers)) {
            self.make_room()?;
            self.pass_header(signature, until)?;
        } else {
            // SAFETY: a plain structure that fits the header.
            self.exchange(signature, until, |to| unsafe { to.cast::<Buffers>().write_unaligned(buffers) })?;
            self.written[place] = Some((signature, buffers));
        }
        Ok(place)
    }

    /// Waits until the next round may be opened. If it must, for several rounds at once: their lines then come together, and
    /// peers are not disturbed in each.
    #[inline(always)]
    pub(super) fn make_room(&mut self) -> Result<()> {
        if self.rounds.has_room() { Ok(()) } else { self.settle(AHEAD / 2) }
    }

    /// Waits for all in all rounds but the last `rest` ones, and compares their signatures with this rank's.
    #[inline(never)]
    pub(super) fn settle(&mut self, rest: u32) -> Result<()> {
        while self.rounds.unsettled() > rest {
            let place = self.rounds.settle_next(Looks::Tight)?;
            // SAFETY: this rank's own header: it is not written again before the round of its place is settled.
            let own = unsafe { self.areas[self.rank()].header(place).cast::<u64>().read() };
            self.compare(own, place, 0..self.ranks())?;
        }
        Ok(())
    }

    /// A rank that does not wait for all hears of one that calls something else when it settles the round: at the latest in
    /// the next round in which it waits for all, and before it waits for the rank that stopped there.
    #[inline(always)]
    fn pass_header(&mut self, signature: u64, until: Until) -> Result<()> {
        self.rounds.arrive();
        match until {
            Until::All(looks) => {
                if looks == Looks::Apart {
                    self.rounds.claim_next();
                }
                if self.rounds.unsettled() > 1 {
                    self.settle(1)?;
                }
                let place = self.rounds.settle_next(looks)?;
                self.compare(signature, place, 0..self.ranks())
            }
            Until::Arrived(peer) => {
                self.rounds.wait_for(peer)?;
                self.compare(signature, self.rounds.place(), peer..peer + 1)
            }
            Until::Told => Ok(()),
        }
    }

    #[inline(always)]
    fn compare(&mut self, signature: u64, place: usize, peers: Range<usize>) -> Result<()> {
        for area in &self.areas[peers.clone()] {
            // SAFETY: published by the round of this place, in which these have been waited for.
            let theirs = unsafe { area.header(place).cast::<u64>().read() };
            if theirs != signature {
                return Err(self.mismatch(signature, place, peers));
            }
        }
        Ok(())
    }

    #[cold]
    fn mismatch(&mut self, own: u64, place: usize, peers: Range<usize>) -> Error {
        let mut text = format!("rank {} calls {}", self.rank(), describe(own));
        for rank in peers {
            // SAFETY: as in `compare`.
            let theirs = unsafe { self.areas[rank].header(place).cast::<u64>().read() };
            if theirs != own {
                text.push_str(&format!("; rank {rank} calls {}", describe(theirs)));
            }
        }
        self.broken = Some(text.clone());
        Error::Mismatch(text)
    }

    /// What `peer` wrote into its header in the round of this place.
    pub(super) fn told<T: Copy>(&self, peer: usize, place: usize) -> T {
        assert!(size_of::<T>() <= INLINE);
        // SAFETY: published by the round that has passed; `T` is plain data that fits, and every bit pattern was
        // written by a peer of this very code (signatures agreed).
        unsafe { self.areas[peer].header(place).add(8).cast::<T>().read_unaligned() }
    }

    /// Whether anything can be run still.
    #[inline]
    pub(super) fn ready(&self) -> Result<()> {
        self.abort.check()?;
        self.broken.as_ref().map_or(Ok(()), |why| Err(Error::Mismatch(why.clone())))
    }

    /// Validates one call, unless it is the one that was prepared last.
    /// Returns whether it is that.
    fn accept(&mut self, call: &Call) -> Result<bool> {
        if self.prepared.as_ref().is_some_and(|prepared| prepared.is_for(call)) {
            return Ok(true);
        }
        let is_barrier = call.op == Collective::Barrier && call.input.is_empty() && call.output.is_empty();
        if !is_barrier {
            call.validate(&self.shape)?;
        }
        Ok(false)
    }

    /// Runs one valid call to its end. `known`: it is the one that was prepared last.
    fn execute(&mut self, call: &Call, known: bool) -> Result<()> {
        if call.op == Collective::Barrier {
            self.exchange_buffers(BARRIER, Until::All(self.rounds.looks()), Buffers::default())?;
            return Ok(());
        }
        let prepared = match self.prepared.take() {
            Some(prepared) if known || prepared.is_for(call) => prepared,
            // In the box of the one before: a training step alternates between calls, and allocates nothing.
            Some(mut other) => {
                *other = self.prepare(call);
                other
            }
            None => Box::new(self.prepare(call)),
        };
        let done = match call.op {
            _ if self.ranks() == 1 => self.alone(call),
            Collective::SendRecv => self.send_recv(call),
            Collective::PingPong => self.ping_pong(call),
            _ => self.collective(&prepared.plan, prepared.buffers),
        };
        self.prepared = Some(prepared);
        done
    }

    #[cold]
    #[inline(never)]
    fn prepare(&mut self, call: &Call) -> Prepared {
        self.forget_choice();
        Prepared {
            op: call.op,
            dtype: call.dtype,
            reduce: call.reduce,
            peer: call.peer,
            direction: call.direction,
            input: place(&call.input),
            output: place(&call.output),
            counts: call.counts.clone(),
            plan: Plan::new(call, &self.shape),
            buffers: self.buffers(call),
        }
    }

    /// Forgets what was prepared: allocations come and go.
    pub(super) fn forget_prepared(&mut self) {
        self.prepared = None;
        self.forget_choice();
    }

    pub(super) fn forget_choice(&mut self) {
        self.choice = None;
        self.chosen_by.clear();
        self.pass = None;
    }

    /// With one rank, every operation is a copy.
    fn alone(&self, call: &Call) -> Result<()> {
        let (from, to, len) = (call.input.ptr(), call.output.ptr(), call.output.len().min(call.input.len()));
        if from != to && len > 0 {
            // SAFETY: slices of live regions; validated not to overlap in any other way.
            unsafe { kernels::copy(self.isa, from, &[to], len, false) };
        }
        Ok(())
    }
}

impl Communicator for Group {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        self.allocate(bytes, space)
    }

    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        self.ready()?;
        let mut known = false;
        for call in group {
            known = self.accept(call)?;
        }
        crate::wait::for_queue(after, &self.abort)?;
        for call in group {
            self.execute(call, known && group.len() == 1)?;
        }
        let number = self.started;
        self.started += 1;
        Ok(Ticket { number, done: true })
    }

    /// As started after all on the host and finished, in fewer steps: loops come this way.
    #[inline]
    fn run(&mut self, call: &Call) -> Result<()> {
        self.ready()?;
        let known = self.accept(call)?;
        self.execute(call, known)
    }

    fn finish(&mut self, ticket: &mut Ticket, _how: Wait<'_>) -> Result<bool> {
        // Everything ran inside `start`, so that every order asked for is established.
        ticket.done = true;
        Ok(true)
    }

    fn peer_view(&self, region: &Arc<Region>, peer: u32) -> Option<Arc<Region>> {
        let views = self.registry.of(&region.whole(), &self.members)?;
        regions::view(&views, *self.members.get(peer as usize)?)
    }

    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        Ok(self.part(color, key)?.map(|group| Box::new(group) as Box<dyn Communicator>))
    }

    fn path(&self, call: &Call) -> &'static str {
        self.path_of(call)
    }
}

/// The error for a rank that cannot be reached.
pub(super) fn gone(rank: usize) -> Error {
    Error::PeerGone(Rank(rank as u32))
}
