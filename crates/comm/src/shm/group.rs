//! One rank's end of a group of ranks: takes calls, and hands each to its path.

use std::sync::Arc;

use device::{Queue, Region, RegionId, Slice};
use terms::{Collective, Direction, Dtype, Reduce, Space};

use super::area::Area;
use super::buffers::Buffers;
use super::caches;
use super::choice::{CallChoice, Chosen, EAGER_PRIVATE, always_eager, choose, path};
use super::cross::Cross;
use super::direct::Direct;
use super::eager::{Eager, publish};
use super::endpoint::{Endpoint, Until};
use super::flag::{Futex, Looks, SpinPolicy};
use super::kernels;
use super::mail::{Mail, Ways};
use super::plan::CallPlan;
use super::regions::{self, Registry};
use super::rendezvous::Star;
use super::rounds::{RING, Rounds};
use super::staged::Staged;
use crate::{Abort, Call, Communicator, Counts, Result, Shape, Ticket, Wait};

/// The signature of a barrier: the operation alone.
const BARRIER: u64 = Collective::Barrier as u64 + 1;

/// A call that was validated and planned, in case it comes again: loops call the same operation on the same buffers.
#[derive(Debug)]
struct PreparedCall {
    op: Collective,
    dtype: Dtype,
    reduce: Reduce,
    peer: u32,
    direction: Direction,
    input: (RegionId, usize, usize),
    output: (RegionId, usize, usize),
    counts: Option<Arc<Counts>>,
    plan: CallPlan,
    buffers: Buffers,
}

#[inline]
fn place(slice: &Slice) -> (RegionId, usize, usize) {
    (slice.region().id(), slice.offset(), slice.len())
}

impl PreparedCall {
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
pub struct RankEnd {
    pub(super) endpoint: Endpoint,
    eager: Eager,
    direct: Direct,
    staged: Staged,
    /// None where the system forbids it.
    pub cross: Option<Cross>,
    mail: Mail,
    pub(super) star: Star,
    /// The core that each rank is bound to, if it is to one.
    pub(super) cores: Vec<Option<u32>>,
    /// Ranks of the world that are bound to this one's core, itself among them.
    pub(super) crowd: usize,
    prepared: Option<Box<PreparedCall>>,
    /// How the prepared call runs.
    chosen: Chosen,
    started: u64,
}

// SAFETY: the raw pointers are into areas and regions that the group keeps mapped; it is used by one thread at a time.
unsafe impl Send for RankEnd {}

/// The parts of a group that `open` makes.
pub(super) struct GroupParts {
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

/// What tests change and look at.
#[cfg(not(test))]
impl RankEnd {
    /// Sets whether the cores of two ranks count as near each other. Returns whether they did.
    pub fn set_near(&mut self, near: bool) -> bool {
        std::mem::replace(&mut self.endpoint.near, near)
    }

    /// The mapping that each rank's area lies in.
    pub fn mappings(&self) -> Vec<*const device::SharedMapping> {
        self.endpoint.areas.iter().map(Area::mapping).collect()
    }
}

impl RankEnd {
    pub(super) fn new(parts: GroupParts) -> Self {
        let GroupParts { shape, members, areas, registry, star, abort, oversubscribed, looks, cores, crowd, cross } =
            parts;
        let rank = shape.rank as usize;
        let flags = areas.iter().map(|area| std::array::from_fn(|place| area.round_flag(place))).collect();
        let spin_policy = if oversubscribed { SpinPolicy::SHARED_CORE } else { SpinPolicy::OWN_CORE };
        // Not where it is other threads or other groups that share the core: they go on meanwhile.
        let here = cores.iter().filter(|core| **core == cores[rank]).count();
        let all_here = oversubscribed && here > 1 && here == crowd;
        let towards = |peer: usize| match (cores[rank], cores[peer]) {
            (Some(own), Some(other)) if all_here && own != other => SpinPolicy::OTHER_CORE,
            _ => spin_policy,
        };
        let rounds = Rounds::new(rank, flags, towards, looks, abort.clone(), Futex);
        let endpoint = Endpoint {
            shape,
            members,
            areas,
            rounds,
            registry,
            isa: kernels::detect(),
            third_cache: caches::third(),
            abort,
            spin_policy,
            oversubscribed,
            near: false,
            written: [None; RING],
            broken: None,
        };
        let ranks = endpoint.ranks();
        Self {
            endpoint,
            eager: Eager::new(ranks),
            direct: Direct::new(ranks),
            staged: Staged::new(ranks),
            cross,
            mail: Mail::new(ranks),
            star,
            cores,
            crowd,
            prepared: None,
            chosen: Chosen::new(ranks),
            started: 0,
        }
    }

    /// Validates one call, unless it is the one that was prepared last.
    /// Returns whether it is that.
    fn accept(&mut self, call: &Call) -> Result<bool> {
        if self.prepared.as_ref().is_some_and(|prepared| prepared.is_for(call)) {
            return Ok(true);
        }
        let is_barrier = call.op == Collective::Barrier && call.input.is_empty() && call.output.is_empty();
        if !is_barrier {
            call.validate(&self.endpoint.shape)?;
        }
        Ok(false)
    }

    /// Runs one valid call to its end. `known`: it is the one that was prepared last.
    fn execute(&mut self, call: &Call, known: bool) -> Result<()> {
        if call.op == Collective::Barrier {
            let until = Until::All(self.endpoint.rounds.looks());
            self.endpoint.exchange_buffers(BARRIER, until, Buffers::default())?;
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
            _ if self.endpoint.ranks() == 1 => self.alone(call),
            Collective::SendRecv => {
                self.mail.send_recv(Ways { endpoint: &self.endpoint, cross: self.cross.as_ref() }, call)
            }
            Collective::PingPong => {
                self.mail.ping_pong(Ways { endpoint: &self.endpoint, cross: self.cross.as_ref() }, call)
            }
            _ => self.collective(&prepared.plan, prepared.buffers),
        };
        self.prepared = Some(prepared);
        done
    }

    #[cold]
    #[inline(never)]
    fn prepare(&mut self, call: &Call) -> PreparedCall {
        self.forget_choice();
        PreparedCall {
            op: call.op,
            dtype: call.dtype,
            reduce: call.reduce,
            peer: call.peer,
            direction: call.direction,
            input: place(&call.input),
            output: place(&call.output),
            counts: call.counts.clone(),
            plan: CallPlan::new(call, &self.endpoint.shape),
            buffers: Buffers::for_call(call, &self.endpoint.registry, &self.endpoint.members),
        }
    }

    /// Forgets what was prepared: allocations come and go.
    pub(super) fn forget_prepared(&mut self) {
        self.prepared = None;
        self.forget_choice();
    }

    fn forget_choice(&mut self) {
        self.chosen.forget();
        self.direct.forget();
    }

    fn collective(&mut self, plan: &CallPlan, buffers: Buffers) -> Result<()> {
        let endpoint = &mut self.endpoint;
        if always_eager(endpoint, plan) {
            return self.eager.run(endpoint, plan);
        }
        // Up to a slot's part, who has private buffers publishes what it gives at once, as the eager path does. Who has
        // registered ones does not yet know that its peers have not.
        let early =
            plan.widest() <= EAGER_PRIVATE && !self.cross.as_ref().is_some_and(|cross| cross.may_take(endpoint, plan));
        let rank = endpoint.rank();
        if early && plan.gives(rank) && !buffers.registered(plan, rank) {
            publish(endpoint, plan)?;
        }
        // As in eager rounds where this may be one: who has private buffers published, or gets what another did.
        let looks = if early && !buffers.registered(plan, rank) { Looks::Tight } else { endpoint.rounds.looks() };
        let place = endpoint.exchange_buffers(plan.signature, Until::All(looks), buffers)?;
        let choice = self.choose(plan, place, early)?;
        match (choice, &mut self.cross) {
            (CallChoice::Direct, _) => self.direct.run(&mut self.endpoint, plan),
            (CallChoice::Published, _) => {
                self.eager.take_published(&self.endpoint, plan, place);
                Ok(())
            }
            (CallChoice::Cross, Some(cross)) => cross.run(&mut self.endpoint, plan, place),
            // Not chosen where the system forbids it.
            (CallChoice::Staged | CallChoice::Cross, _) => self.staged.run(&mut self.endpoint, plan),
        }
    }

    /// The last choice, if all ranks sent the same for the same call.
    #[inline]
    fn choose(&mut self, plan: &CallPlan, place: usize, early: bool) -> Result<CallChoice> {
        match self.chosen.again(&self.endpoint, place) {
            Some(choice) => Ok(choice),
            None => self.choose_again(plan, place, early),
        }
    }

    #[cold]
    #[inline(never)]
    fn choose_again(&mut self, plan: &CallPlan, place: usize, early: bool) -> Result<CallChoice> {
        self.forget_choice();
        let choice = choose(&self.endpoint, self.cross.as_ref(), plan, place, early);
        if choice == CallChoice::Direct {
            self.direct.resolve(&self.endpoint, plan, place)?;
        }
        self.chosen.keep(choice, &self.endpoint, place);
        Ok(choice)
    }

    /// With one rank, every operation is a copy.
    fn alone(&self, call: &Call) -> Result<()> {
        let (from, to, len) = (call.input.ptr(), call.output.ptr(), call.output.len().min(call.input.len()));
        if from != to && len > 0 {
            // SAFETY: slices of live regions; validated not to overlap in any other way.
            unsafe { kernels::copy(self.endpoint.isa, from, &[to], len, false) };
        }
        Ok(())
    }
}

impl Communicator for RankEnd {
    fn shape(&self) -> &Shape {
        &self.endpoint.shape
    }

    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        self.allocate(bytes, space)
    }

    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        self.endpoint.ready()?;
        let mut known = false;
        for call in group {
            known = self.accept(call)?;
        }
        crate::wait::for_queue(after, &self.endpoint.abort)?;
        for call in group {
            self.execute(call, known && group.len() == 1)?;
        }
        let number = self.started;
        self.started += 1;
        Ok(Ticket { number, done: true })
    }

    /// Runs a call as if it were started after all on the host and finished, in fewer steps: loops come this way.
    #[inline]
    fn run(&mut self, call: &Call) -> Result<()> {
        self.endpoint.ready()?;
        let known = self.accept(call)?;
        self.execute(call, known)
    }

    fn finish(&mut self, ticket: &mut Ticket, _how: Wait<'_>) -> Result<bool> {
        // Everything ran inside `start`, so that every order asked for is established.
        ticket.done = true;
        Ok(true)
    }

    fn peer_view(&self, region: &Arc<Region>, peer: u32) -> Option<Arc<Region>> {
        let views = self.endpoint.registry.allocation(&region.whole(), &self.endpoint.members)?;
        regions::view(&views, *self.endpoint.members.get(peer as usize)?)
    }

    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        Ok(self.part(color, key)?.map(|group| Box::new(group) as Box<dyn Communicator>))
    }

    fn path(&self, call: &Call) -> &'static str {
        match call.op {
            _ if self.endpoint.ranks() == 1 => "local",
            Collective::Barrier => "flags",
            Collective::SendRecv | Collective::PingPong => {
                Ways { endpoint: &self.endpoint, cross: self.cross.as_ref() }.path(call)
            }
            _ => path(&self.endpoint, self.cross.as_ref(), call),
        }
    }
}
