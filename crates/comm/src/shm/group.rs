//! One rank's end of a group of ranks: chooses the path of each call, and holds what the paths share.

use std::sync::Arc;

use device::{Queue, Region, RegionId, Slice};
use terms::{Collective, Direction, Dtype, Rank, Reduce, Space};

use super::area::{Area, INLINE};
use super::cross::Cross;
use super::direct::Pass;
use super::flag::{Futex, Patience};
use super::kernels::{self, Isa};
use super::mail::Mail;
use super::plan::{Plan, describe};
use super::regions::{Key, Registry};
use super::rendezvous::Star;
use super::rounds::Rounds;
use crate::{Abort, Call, Communicator, Counts, Error, Result, Shape, Ticket, Wait};

/// The most bytes that a rank gives in one eager round though all buffers be registered, by whether ranks have a core
/// each.
const EAGER_OWN_CORE: usize = 256;
const EAGER_SHARED_CORE: usize = 4 << 10;
/// The same where they are private.
const EAGER_PRIVATE: usize = 128 << 10;

/// Where a rank's buffers lie, told to its peers in the header of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// The signature of a barrier: the operation alone.
const BARRIER: u64 = Collective::Barrier as u64 + 1;

const _: () = assert!(size_of::<Buffers>() <= INLINE);

impl Buffers {
    /// Whether what `rank`, whose buffers these are, gives and gets is all registered.
    #[inline]
    fn registered(&self, plan: &Plan, rank: usize) -> bool {
        (self.input_key != 0 || !plan.gives(rank)) && (self.output_key != 0 || !plan.gets(rank))
    }
}

/// How a call runs, beyond the sizes that are always eager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Direct,
    Published,
    Cross,
    Staged,
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
    /// How the prepared call runs, and what all ranks told when that was chosen.
    choice: Option<Choice>,
    chosen_by: Vec<Buffers>,
    /// The one pass of the prepared call on the direct path, if that is how it runs.
    pub(super) pass: Option<Pass>,
    prepared: Option<Box<Prepared>>,
    /// What this rank's header of each parity holds, if signature and buffers.
    written: [Option<(u64, Buffers)>; 2],
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
            choice: None,
            chosen_by: Vec::with_capacity(ranks),
            pass: None,
            prepared: None,
            written: [None; 2],
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
        self.written[parity] = None;
        // SAFETY: this rank's own header; peers have finished reading what it held two rounds ago (see `rounds`).
        unsafe { header.cast::<u64>().write(signature) };
        // SAFETY: the header goes on for INLINE bytes.
        write(unsafe { header.add(8) });
        self.pass_header(signature, parity)?;
        Ok(parity)
    }

    /// The same with this rank's buffers in the header. A header that holds them already is not written again: peers
    /// look at its line while they wait, and each store to it then costs a transfer of the line (0.08 us of 0.22).
    #[inline]
    fn exchange_buffers(&mut self, signature: u64, buffers: Buffers) -> Result<usize> {
        let parity = self.rounds.next_parity();
        if self.written[parity] == Some((signature, buffers)) {
            self.pass_header(signature, parity)?;
        } else {
            // SAFETY: a plain structure that fits the header.
            self.exchange(signature, |to| unsafe { to.cast::<Buffers>().write_unaligned(buffers) })?;
            self.written[parity] = Some((signature, buffers));
        }
        Ok(parity)
    }

    #[inline(always)]
    fn pass_header(&mut self, signature: u64, parity: usize) -> Result<()> {
        self.rounds.pass()?;
        for area in &self.areas {
            // SAFETY: published by the round that just passed.
            let theirs = unsafe { area.header(parity).cast::<u64>().read() };
            if theirs != signature {
                return Err(self.mismatch(signature, parity));
            }
        }
        Ok(())
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

    /// Validates one call, and prepares it unless it is the one that was prepared last.
    fn accept(&mut self, call: &Call) -> Result<()> {
        let is_barrier = call.op == Collective::Barrier && call.input.is_empty() && call.output.is_empty();
        if is_barrier || self.prepared.as_ref().is_some_and(|prepared| prepared.is_for(call)) {
            return Ok(());
        }
        call.validate(&self.shape)
    }

    /// Runs one valid call to its end.
    fn execute(&mut self, call: &Call) -> Result<()> {
        if call.op == Collective::Barrier {
            self.exchange_buffers(BARRIER, Buffers::default())?;
            return Ok(());
        }
        let prepared = match self.prepared.take() {
            Some(prepared) if prepared.is_for(call) => prepared,
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

    fn forget_choice(&mut self) {
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

    fn collective(&mut self, plan: &Plan, buffers: Buffers) -> Result<()> {
        if plan.widest() <= self.always_eager() {
            return self.eager(plan);
        }
        // Up to a slot's part, who has private buffers publishes what it gives at once, as the eager path does. Who has
        // registered ones does not yet know that its peers have not.
        let early = plan.widest() <= EAGER_PRIVATE && !self.crosses(plan);
        let rank = self.rank();
        if early && plan.gives(rank) && !buffers.registered(plan, rank) {
            self.publish(plan);
        }
        let parity = self.exchange_buffers(plan.signature, buffers)?;
        match self.choose(plan, parity, early)? {
            Choice::Direct => self.direct(plan),
            Choice::Published => {
                self.take_published(plan, parity);
                Ok(())
            }
            Choice::Cross => self.across(plan, parity),
            Choice::Staged => self.staged(plan),
        }
    }

    /// By what all ranks told, so that all choose alike. As last time, where all told the same for the same call.
    #[inline]
    fn choose(&mut self, plan: &Plan, parity: usize, early: bool) -> Result<Choice> {
        let same = |(peer, known): (usize, &Buffers)| self.told::<Buffers>(peer, parity) == *known;
        match self.choice {
            Some(choice) if self.chosen_by.iter().enumerate().all(same) => Ok(choice),
            _ => self.choose_anew(plan, parity, early),
        }
    }

    #[cold]
    #[inline(never)]
    fn choose_anew(&mut self, plan: &Plan, parity: usize, early: bool) -> Result<Choice> {
        self.forget_choice();
        let told = |peer| self.told::<Buffers>(peer, parity);
        // One rank in place and another not: who is read from writes too, so nobody may read another's input.
        let in_place = |peer| told(peer).input_address == told(peer).output_address;
        let mixed = plan.op == Collective::AllToAll && (0..plan.ranks).any(|peer| in_place(peer) != in_place(0));
        let published = |peer| !plan.gives(peer) || !told(peer).registered(plan, peer);
        let choice = if !mixed && (0..plan.ranks).all(|peer| told(peer).registered(plan, peer)) {
            self.resolve(plan, parity)?;
            Choice::Direct
        } else if early && (0..plan.ranks).all(published) {
            Choice::Published
        } else if !mixed && self.crosses(plan) {
            Choice::Cross
        } else {
            Choice::Staged
        };
        for peer in 0..plan.ranks {
            let told = self.told(peer, parity);
            self.chosen_by.push(told);
        }
        self.choice = Some(choice);
        Ok(choice)
    }

    /// Up to how many bytes the eager path is best, wherever buffers lie: the direct one takes a second round.
    fn always_eager(&self) -> usize {
        if self.oversubscribed { EAGER_SHARED_CORE } else { EAGER_OWN_CORE }
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

    /// Finds every rank's buffers in registered memory.
    fn resolve(&mut self, plan: &Plan, parity: usize) -> Result<()> {
        self.inputs.clear();
        self.outputs.clear();
        let mut found: Option<Arc<super::regions::Views>> = None;
        for peer in 0..self.ranks() {
            let told: Buffers = self.told(peer, parity);
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
            let input = at(plan.gives(peer), told.input_key, told.input, input)?;
            let output = at(plan.gets(peer), told.output_key, told.output, output)?;
            self.inputs.push(input);
            self.outputs.push(output);
        }
        Ok(())
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
                    () if plan.widest() <= self.always_eager() => "eager",
                    () if direct => "direct",
                    () if self.crosses(&plan) => "cross",
                    () if plan.widest() <= EAGER_PRIVATE => "eager",
                    () => "staged",
                }
            }
        }
    }
}

/// See [`Group::goes_past_caches`]. (`all_gather` with 2 ranks of 2 MiB of second cache: 3 MiB 77 us past the caches and 117
/// through them, 2 MiB 55 and 49.)
const PAST_CACHES: usize = 3 << 20;

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
            self.accept(call)?;
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
