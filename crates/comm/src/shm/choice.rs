//! Which way a call goes, by what all ranks told in its first round: so that all choose alike.

use std::sync::Arc;

use device::Slice;
use terms::Collective;

use super::area::{INLINE, SMALL_SLOT};
use super::flag::Looks;
use super::group::{Group, Until};
use super::plan::Plan;
use super::regions::{Key, Views};
use crate::{Call, Error, Result};

/// The most bytes that a rank gives in one eager round though all buffers be registered, where ranks have a core each: of
/// what all get whole, and of others (1 KiB: all_gather 0.46 us, directly 0.55; but all_reduce 0.65, directly 0.39).
const EAGER_WHOLE: usize = 256;
const EAGER_OWN_CORE: usize = 1 << 10;
/// The same where two ranks have cores near each other. (all_reduce of 1 KiB 0.14 us, directly 0.15, of 1.5 KiB 0.161 and 0.157;
/// all_to_all of 2 KiB 0.13 and 0.16, of 4 KiB 0.178 and 0.176.)
const EAGER_NEAR_WHOLE: usize = 1 << 10;
const EAGER_NEAR_CORE: usize = 2 << 10;
/// The same where they share cores, and a second round means switching between all of them again. (4 ranks on 2 cores:
/// all_reduce of 8 KiB 3.0 us, directly 3.6, of 16 KiB 4.4 and 3.7; all_to_all of 16 KiB 2.8 and 4.0.)
const EAGER_SHARED_WHOLE: usize = 8 << 10;
const EAGER_SHARED_CORE: usize = 16 << 10;
/// The most bytes of a piece that one rank gives to all, or gets from all, in one eager round, in which who gives does not wait.
/// (2 ranks, a core each, near ones and far ones of AMD's Zen 5: pieces of 3 KiB, `broadcast` 0.12 and 0.60 us, directly 0.15 and
/// 0.61, `reduce` 0.15 and 0.53, directly 0.16 and 0.62; of 4 KiB, `broadcast` 0.16 and 0.82, directly 0.16 and 0.61. Intel, 4 KiB:
/// `broadcast` 0.48 us, directly 0.51, `gather` 0.70 and 0.51.)
const ROOTED_OWN_CORE: usize = 3 << 10;
/// The same where they share cores; half of it where the root computes. (4 ranks on 2 cores, 64 KiB: `broadcast` 3.4 us,
/// directly 4.5; `gather` 2.3 and 4.8, `reduce` 6.9 and 5.5. 6 ranks, `broadcast` of 16 KiB: 1.6 and 7.8 us.)
const ROOTED_SHARED_CORE: usize = 64 << 10;
/// The same where they are private.
const EAGER_PRIVATE: usize = 128 << 10;

/// See [`Group::goes_past_caches`]. (`all_gather` with 2 ranks of 2 MiB of second cache: 3 MiB 77 us past the caches and 117
/// through them, 2 MiB 55 and 49.)
const PAST_CACHES: usize = 3 << 20;

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
pub(super) enum Choice {
    Direct,
    Published,
    Cross,
    Staged,
}

impl Group {
    pub(super) fn collective(&mut self, plan: &Plan, buffers: Buffers) -> Result<()> {
        if self.always_eager(plan) {
            return self.eager(plan);
        }
        // Up to a slot's part, who has private buffers publishes what it gives at once, as the eager path does. Who has
        // registered ones does not yet know that its peers have not.
        let early = plan.widest() <= EAGER_PRIVATE && !self.may_cross(plan);
        let rank = self.rank();
        if early && plan.gives(rank) && !buffers.registered(plan, rank) {
            self.publish(plan)?;
        }
        // As in eager rounds where this may be one: who has private buffers published, or gets what another did.
        let looks = if early && !buffers.registered(plan, rank) { Looks::Tight } else { self.rounds.looks() };
        let turn = self.exchange_buffers(plan.signature, Until::All(looks), buffers)?;
        match self.choose(plan, turn, early)? {
            Choice::Direct => self.direct(plan),
            Choice::Published => {
                self.take_published(plan, self.slots_of(plan), turn);
                Ok(())
            }
            Choice::Cross => self.across(plan, turn),
            Choice::Staged => self.staged(plan),
        }
    }

    /// By what all ranks told, so that all choose alike. As last time, where all told the same for the same call.
    #[inline]
    fn choose(&mut self, plan: &Plan, turn: usize, early: bool) -> Result<Choice> {
        let same = |(peer, known): (usize, &Buffers)| self.told::<Buffers>(peer, turn) == *known;
        match self.choice {
            Some(choice) if self.chosen_by.iter().enumerate().all(same) => Ok(choice),
            _ => self.choose_anew(plan, turn, early),
        }
    }

    #[cold]
    #[inline(never)]
    fn choose_anew(&mut self, plan: &Plan, turn: usize, early: bool) -> Result<Choice> {
        self.forget_choice();
        let told = |peer| self.told::<Buffers>(peer, turn);
        // One rank in place and another not: who is read from writes too, so nobody may read another's input.
        let in_place = |peer| told(peer).input_address == told(peer).output_address;
        let mixed = plan.op == Collective::AllToAll && (0..plan.ranks).any(|peer| in_place(peer) != in_place(0));
        let published = |peer| !plan.gives(peer) || !told(peer).registered(plan, peer);
        let choice = if !mixed && (0..plan.ranks).all(|peer| told(peer).registered(plan, peer)) {
            self.resolve(plan, turn)?;
            Choice::Direct
        } else if early && (0..plan.ranks).all(published) {
            Choice::Published
        } else if !mixed && self.crosses(plan) {
            Choice::Cross
        } else {
            Choice::Staged
        };
        for peer in 0..plan.ranks {
            let told = self.told(peer, turn);
            self.chosen_by.push(told);
        }
        self.choice = Some(choice);
        Ok(choice)
    }

    /// Whether the eager path is best, wherever buffers lie: the direct one takes a second round.
    fn always_eager(&self, plan: &Plan) -> bool {
        if plan.rooted() {
            let most = match plan.op {
                Collective::Reduce if self.oversubscribed => ROOTED_SHARED_CORE / 2,
                _ if self.oversubscribed => ROOTED_SHARED_CORE,
                _ => ROOTED_OWN_CORE,
            };
            return plan.longest_piece() <= most && plan.widest() <= SMALL_SLOT;
        }
        let most = match plan.op {
            Collective::AllReduce if self.oversubscribed => EAGER_SHARED_WHOLE,
            _ if self.oversubscribed => EAGER_SHARED_CORE,
            Collective::AllReduce if self.near => EAGER_NEAR_WHOLE,
            _ if self.near => EAGER_NEAR_CORE,
            Collective::AllReduce => EAGER_WHOLE,
            _ => EAGER_OWN_CORE,
        };
        plan.widest() <= most
    }

    /// What this rank tells of its buffers.
    pub(super) fn buffers(&self, call: &Call) -> Buffers {
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
    fn resolve(&mut self, plan: &Plan, turn: usize) -> Result<()> {
        self.inputs.clear();
        self.outputs.clear();
        let mut found: Option<Arc<Views>> = None;
        for peer in 0..self.ranks() {
            let told: Buffers = self.told(peer, turn);
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

    /// Whether caches cannot be trusted to hold so many bytes of each rank: stores then go past them, where what is stored was
    /// not read just before.
    pub(super) fn goes_past_caches(&self, bytes: usize) -> bool {
        let all = bytes.saturating_mul(self.ranks());
        bytes >= PAST_CACHES && self.third_cache.is_none_or(|cache| all > cache)
    }

    pub(super) fn path_of(&self, call: &Call) -> &'static str {
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
                    () if self.always_eager(&plan) => "eager",
                    () if direct => "direct",
                    () if self.crosses(&plan) => "cross",
                    () if plan.widest() <= EAGER_PRIVATE => "eager",
                    () => "staged",
                }
            }
        }
    }
}
