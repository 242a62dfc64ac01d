//! One rank's end of a group of ranks: chooses the path of each call, and holds what the paths share.

use std::sync::Arc;

use device::{Queue, Region, Slice};
use terms::{Collective, Rank, Space};

use super::area::{Area, INLINE};
use super::cross::Cross;
use super::flag::{Futex, Patience};
use super::kernels::{self, Isa};
use super::mail::Mail;
use super::plan::{Pattern, Plan, describe, signature};
use super::regions::{Key, Registry};
use super::rendezvous::Star;
use super::rounds::Rounds;
use crate::{Abort, Call, Communicator, Error, Result, Shape, Ticket, Wait};

/// The most bytes that a rank gives in one eager round, by whether ranks have a core each.
const EAGER_OWN_CORE: usize = 2 << 10;
const EAGER_SHARED_CORE: usize = 8 << 10;

/// Where a rank's buffers lie, told to its peers in the header of a round.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Buffers {
    pub(crate) input_key: Key,
    pub(crate) output_key: Key,
    /// From the base of the registered part; nothing where the key is zero.
    pub(crate) input: u64,
    pub(crate) output: u64,
    /// In this rank's own process.
    pub(crate) input_address: u64,
    pub(crate) output_address: u64,
}

const _: () = assert!(size_of::<Buffers>() <= INLINE);

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
    pub(super) abort: Abort,
    pub(super) patience: Patience,
    pub(super) oversubscribed: bool,
    /// How to reach peers' private memory; None where the system forbids it.
    pub(super) cross: Option<Cross>,
    /// Lists that the paths fill anew for each call: kept, so that no call allocates.
    pub(super) sources: Vec<*const u8>,
    pub(super) destinations: Vec<*mut u8>,
    /// Every rank's input and output, as this rank sees them (direct path).
    pub(super) inputs: Vec<*mut u8>,
    pub(super) outputs: Vec<*mut u8>,
    /// Ranks disagreed: their rounds no longer match, so nothing more can be run.
    broken: Option<String>,
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
    pub(super) cross: Option<Cross>,
}

impl Group {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { shape, members, areas, registry, star, abort, oversubscribed, cross } = parts;
        let patience = if oversubscribed { Patience::SHARED_CORE } else { Patience::OWN_CORE };
        let flags = areas.iter().map(|area| [area.round_flag(0), area.round_flag(1)]).collect();
        let rounds = Rounds::new(shape.rank as usize, flags, patience, abort.clone(), Futex);
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
            abort,
            patience,
            oversubscribed,
            cross,
            sources,
            destinations,
            inputs,
            outputs,
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

    /// Opens a round with this signature and what `write` puts into the header (at most [`INLINE`] bytes), waits for
    /// all, and compares signatures. Returns the round's parity.
    #[inline]
    pub(super) fn exchange(&mut self, signature: u64, write: impl FnOnce(*mut u8)) -> Result<usize> {
        let (rank, parity) = (self.rank(), self.rounds.next_parity());
        let header = self.areas[rank].header(parity);
        // SAFETY: this rank's own header; peers have finished reading what it held two rounds ago (see `rounds`).
        unsafe { header.cast::<u64>().write(signature) };
        // SAFETY: the header goes on for INLINE bytes.
        write(unsafe { header.add(8) });
        self.rounds.pass()?;
        for area in &self.areas {
            // SAFETY: published by the round that just passed.
            let theirs = unsafe { area.header(parity).cast::<u64>().read() };
            if theirs != signature {
                return Err(self.mismatch(signature, parity));
            }
        }
        Ok(parity)
    }

    #[cold]
    fn mismatch(&mut self, own: u64, parity: usize) -> Error {
        let mut text = format!("rank {} calls {}", self.rank(), describe(own));
        for (rank, area) in self.areas.iter().enumerate() {
            // SAFETY: as in `exchange`.
            let theirs = unsafe { area.header(parity).cast::<u64>().read() };
            if theirs != own {
                text.push_str(&format!("; rank {rank} calls {}", describe(theirs)));
            }
        }
        self.broken = Some(text.clone());
        Error::Mismatch(text)
    }

    /// What `peer` wrote into its header in the round of this parity.
    pub(super) fn told<T: Copy>(&self, peer: usize, parity: usize) -> T {
        assert!(size_of::<T>() <= INLINE);
        // SAFETY: published by the round that has passed; `T` is plain data that fits, and every bit pattern was
        // written by a peer of this very code (signatures agreed).
        unsafe { self.areas[peer].header(parity).add(8).cast::<T>().read_unaligned() }
    }

    /// Runs one call to its end.
    fn execute(&mut self, call: &Call) -> Result<()> {
        match call.op {
            _ if self.ranks() == 1 => self.alone(call),
            Collective::Barrier => {
                self.exchange(signature(call, 0), |_| {})?;
                Ok(())
            }
            Collective::SendRecv => self.send_recv(call),
            Collective::PingPong => self.ping_pong(call),
            _ => self.collective(call),
        }
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

    fn collective(&mut self, call: &Call) -> Result<()> {
        let plan = Plan::new(call, &self.shape);
        if self.is_eager(&plan) {
            return self.eager(&plan);
        }
        let buffers = self.buffers(call);
        // SAFETY: a plain structure that fits the header.
        let parity = self.exchange(plan.signature, |to| unsafe { to.cast::<Buffers>().write_unaligned(buffers) })?;
        // One rank in place and another not: who is read from writes too, so nobody may read another's input.
        let mixed = plan.call.op == Collective::AllToAll && {
            let in_place = |peer| {
                let told: Buffers = self.told(peer, parity);
                told.input_address == told.output_address
            };
            (0..self.ranks()).any(|peer| in_place(peer) != in_place(0))
        };
        if !mixed && self.resolve(&plan, parity)? {
            self.direct(&plan)
        } else if !mixed && self.crosses(&plan) {
            self.across(&plan, parity)
        } else {
            self.staged(&plan)
        }
    }

    /// Decided by what all ranks know alike: sizes, never whose buffers lie where.
    fn is_eager(&self, plan: &Plan<'_>) -> bool {
        plan.widest() <= if self.oversubscribed { EAGER_SHARED_CORE } else { EAGER_OWN_CORE }
    }

    /// What this rank tells of its buffers.
    fn buffers(&self, call: &Call) -> Buffers {
        let key = |slice: &Slice| self.registry.of(slice, &self.members).map_or(0, |views| views.key);
        let input_key = key(&call.input);
        let same = call.input.region().id() == call.output.region().id();
        Buffers {
            input_key,
            output_key: if same { input_key } else { key(&call.output) },
            input: call.input.offset() as u64,
            output: call.output.offset() as u64,
            input_address: call.input.ptr() as u64,
            output_address: call.output.ptr() as u64,
        }
    }

    /// Finds every rank's buffers in registered memory; false if some rank's needed buffer is private. All ranks decide
    /// alike, since they decide by what all were told.
    fn resolve(&mut self, plan: &Plan<'_>, parity: usize) -> Result<bool> {
        self.inputs.clear();
        self.outputs.clear();
        let mut found: Option<Arc<super::regions::Views>> = None;
        for peer in 0..self.ranks() {
            let told: Buffers = self.told(peer, parity);
            let (gives, gets) = (plan.gives(peer), plan.gets(peer));
            if (gives && told.input_key == 0) || (gets && told.output_key == 0) {
                return Ok(false);
            }
            let (input, output) = plan.extent(peer);
            let mut at = |needed: bool, key: Key, offset: u64, len: usize| -> Result<*mut u8> {
                if !needed {
                    return Ok(std::ptr::null_mut());
                }
                if found.as_ref().is_none_or(|views| views.key != key) {
                    found = self.registry.resolve(key, &self.members);
                }
                let place = found.as_ref().and_then(|views| views.at(self.members[peer], offset, len));
                place.ok_or_else(|| {
                    Error::Mismatch(format!(
                        "rank {peer} names {len} bytes at {offset} of an allocation that has not them"
                    ))
                })
            };
            let input = at(gives, told.input_key, told.input, input)?;
            let output = at(gets, told.output_key, told.output, output)?;
            self.inputs.push(input);
            self.outputs.push(output);
        }
        Ok(true)
    }

    /// How many bytes the caches of a core may be trusted to hold: stores of more than this go past them, where what is
    /// stored was not read just before.
    pub(super) fn goes_past_caches(&self, bytes: usize) -> bool {
        bytes >= PAST_CACHES
    }

    fn path_of(&self, call: &Call) -> &'static str {
        if self.ranks() == 1 {
            return "local";
        }
        match call.op {
            Collective::Barrier => "flags",
            Collective::SendRecv | Collective::PingPong => self.mail_path(call),
            _ => {
                let plan = Plan::new(call, &self.shape);
                let registered =
                    |slice: &Slice, needed: bool| !needed || self.registry.of(slice, &self.members).is_some();
                let rank = self.rank();
                let direct = registered(&call.input, plan.gives(rank)) && registered(&call.output, plan.gets(rank));
                match () {
                    () if self.is_eager(&plan) => "eager",
                    () if direct => "direct",
                    () if self.crosses(&plan) => "cross",
                    () => "staged",
                }
            }
        }
    }
}

/// See [`Group::goes_past_caches`].
const PAST_CACHES: usize = 32 << 20;

impl Plan<'_> {
    /// Whether the operation reduces.
    pub(super) fn reduces(&self) -> bool {
        matches!(self.pattern, Pattern::ReduceSame | Pattern::ReducePairs)
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
        self.abort.check()?;
        if let Some(why) = &self.broken {
            return Err(Error::Mismatch(why.clone()));
        }
        for call in group {
            call.validate(&self.shape)?;
        }
        crate::wait::for_queue(after, &self.abort)?;
        for call in group {
            self.execute(call)?;
        }
        let number = self.started;
        self.started += 1;
        Ok(Ticket { number, done: true })
    }

    fn finish(&mut self, ticket: &mut Ticket, _how: Wait<'_>) -> Result<bool> {
        // Everything ran inside `start`, so that every order asked for is established.
        ticket.done = true;
        Ok(true)
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
