//! Which path a call takes. All ranks choose alike, because all decide by the same headers of the call's first round.

use device::Slice;
use terms::Collective;

use super::area::SMALL_SLOT;
use super::buffers::Buffers;
use super::cross::Cross;
use super::endpoint::Endpoint;
use super::plan::CallPlan;
use crate::Call;

/// The most bytes that a rank gives in one eager round though all buffers be registered, where ranks have a core each: of
/// what all get whole, and of others (1 KiB: all_gather 0.46 us, directly 0.55; but all_reduce 0.65, directly 0.39).
const EAGER_WHOLE: usize = 256;
const EAGER_OWN_CORE: usize = 1 << 10;
/// Eager limit of a rank for registered buffers where two ranks have cores near each other: of what all get whole, and
/// of others. (all_reduce of 1 KiB 0.14 us, directly 0.15, of 1.5 KiB 0.161 and 0.157; all_to_all of 2 KiB 0.13 and
/// 0.16, of 4 KiB 0.178 and 0.176.)
const EAGER_NEAR_WHOLE: usize = 1 << 10;
const EAGER_NEAR_CORE: usize = 2 << 10;
/// Eager limit of a rank for registered buffers where ranks share cores, and a second round means switching between all of them
/// again: of what all get whole, and of others. (4 ranks on 2 cores: all_reduce of 8 KiB 3.0 us, directly 3.6, of 16 KiB 4.4 and
/// 3.7; all_to_all of 16 KiB 2.8 and 4.0.)
const EAGER_SHARED_WHOLE: usize = 8 << 10;
const EAGER_SHARED_CORE: usize = 16 << 10;
/// The most bytes of a piece that one rank gives to all, or gets from all, in one eager round, in which who gives does not wait.
/// (2 ranks, a core each, near ones and far ones of AMD's Zen 5: pieces of 3 KiB, `broadcast` 0.12 and 0.60 us, directly 0.15 and
/// 0.61, `reduce` 0.15 and 0.53, directly 0.16 and 0.62; of 4 KiB, `broadcast` 0.16 and 0.82, directly 0.16 and 0.61. Intel, 4 KiB:
/// `broadcast` 0.48 us, directly 0.51, `gather` 0.70 and 0.51.)
const ROOTED_OWN_CORE: usize = 3 << 10;
/// The most bytes of a piece that one rank gives to all, or gets from all, in one eager round where ranks share cores; half of it
/// where the root computes. (4 ranks on 2 cores, 64 KiB: `broadcast` 3.4 us, directly 4.5; `gather` 2.3 and 4.8, `reduce` 6.9 and
/// 5.5. 6 ranks, `broadcast` of 16 KiB: 1.6 and 7.8 us.)
const ROOTED_SHARED_CORE: usize = 64 << 10;
/// Eager limit of a rank for private buffers.
pub(super) const EAGER_PRIVATE: usize = 128 << 10;

/// How a call runs, beyond the sizes that are always eager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallChoice {
    Direct,
    Published,
    Cross,
    Staged,
}

/// What was chosen for the prepared call, and the headers of all ranks at that time.
#[derive(Debug)]
pub(super) struct Chosen {
    choice: Option<CallChoice>,
    headers: Vec<Buffers>,
}

impl Chosen {
    pub(super) fn new(ranks: usize) -> Self {
        Self { choice: None, headers: Vec::with_capacity(ranks) }
    }

    /// Forgets the prepared call.
    pub(super) fn forget(&mut self) {
        self.choice = None;
        self.headers.clear();
    }

    /// The last choice, if the headers of the round of this place are the same as then.
    #[inline]
    pub(super) fn again(&self, endpoint: &Endpoint, place: usize) -> Option<CallChoice> {
        let same = |(peer, known): (usize, &Buffers)| endpoint.read_header::<Buffers>(peer, place) == *known;
        self.choice.filter(|_| self.headers.iter().enumerate().all(same))
    }

    /// Keeps a choice for when the same call comes again.
    pub(super) fn keep(&mut self, choice: CallChoice, endpoint: &Endpoint, place: usize) {
        self.headers.extend((0..endpoint.ranks()).map(|peer| endpoint.read_header::<Buffers>(peer, place)));
        self.choice = Some(choice);
    }
}

/// Decides by the headers of the round of this place, so that all ranks choose alike. `early`: those with private buffers
/// have published what they give.
pub(super) fn choose(
    endpoint: &Endpoint,
    cross: Option<&Cross>,
    plan: &CallPlan,
    place: usize,
    early: bool,
) -> CallChoice {
    let header = |peer| endpoint.read_header::<Buffers>(peer, place);
    // One rank in place and another not: who is read from writes too, so nobody may read another's input.
    let in_place = |peer| header(peer).input_address == header(peer).output_address;
    let mixed = plan.op == Collective::AllToAll && (0..plan.ranks).any(|peer| in_place(peer) != in_place(0));
    let published = |peer| !plan.gives(peer) || !header(peer).registered(plan, peer);
    match () {
        () if !mixed && (0..plan.ranks).all(|peer| header(peer).registered(plan, peer)) => CallChoice::Direct,
        () if early && (0..plan.ranks).all(published) => CallChoice::Published,
        () if !mixed && cross.is_some_and(|cross| cross.takes(endpoint, plan)) => CallChoice::Cross,
        () => CallChoice::Staged,
    }
}

/// Whether the eager path is best, wherever buffers lie: the direct one takes a second round.
pub(super) fn always_eager(endpoint: &Endpoint, plan: &CallPlan) -> bool {
    if plan.rooted() {
        let most = match plan.op {
            Collective::Reduce if endpoint.oversubscribed => ROOTED_SHARED_CORE / 2,
            _ if endpoint.oversubscribed => ROOTED_SHARED_CORE,
            _ => ROOTED_OWN_CORE,
        };
        return plan.longest_piece() <= most && plan.widest() <= SMALL_SLOT;
    }
    let most = match plan.op {
        Collective::AllReduce if endpoint.oversubscribed => EAGER_SHARED_WHOLE,
        _ if endpoint.oversubscribed => EAGER_SHARED_CORE,
        Collective::AllReduce if endpoint.near => EAGER_NEAR_WHOLE,
        _ if endpoint.near => EAGER_NEAR_CORE,
        Collective::AllReduce => EAGER_WHOLE,
        _ => EAGER_OWN_CORE,
    };
    plan.widest() <= most
}

/// The path of a collective call of several ranks, by name, if all ranks' buffers are like this one's.
pub(super) fn path(endpoint: &Endpoint, cross: Option<&Cross>, call: &Call) -> &'static str {
    let plan = CallPlan::new(call, &endpoint.shape);
    let registered =
        |slice: &Slice, needed: bool| !needed || endpoint.registry.allocation(slice, &endpoint.members).is_some();
    let rank = endpoint.rank();
    let direct = registered(&call.input, plan.gives(rank)) && registered(&call.output, plan.gets(rank));
    match () {
        () if always_eager(endpoint, &plan) => "eager",
        () if direct => "direct",
        () if cross.is_some_and(|cross| cross.takes(endpoint, &plan)) => "cross",
        () if plan.widest() <= EAGER_PRIVATE => "eager",
        () => "staged",
    }
}
