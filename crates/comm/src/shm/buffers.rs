//! Where a rank's buffers lie, as it tells its peers in the header of a round.

use device::Slice;

use super::area::INLINE;
use super::plan::CallPlan;
use super::regions::{Key, Registry};
use crate::Call;

/// Where a rank's buffers lie.
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
    /// Buffers of a call of this rank, in a group of these members.
    pub(crate) fn for_call(call: &Call, registry: &Registry, members: &[u32]) -> Self {
        let key = |slice: &Slice| registry.allocation(slice, members).map_or(0, |views| views.key);
        let input_key = key(&call.input);
        let same = call.input.region().id() == call.output.region().id();
        Self {
            input_key,
            output_key: if same { input_key } else { key(&call.output) },
            input: call.input.offset() as u64,
            output: call.output.offset() as u64,
            input_address: call.input.ptr() as u64,
            output_address: call.output.ptr() as u64,
        }
    }

    /// Whether `rank`, the owner of these buffers, has all that it gives and gets registered.
    #[inline]
    pub(crate) fn registered(&self, plan: &CallPlan, rank: usize) -> bool {
        (self.input_key != 0 || !plan.gives(rank)) && (self.output_key != 0 || !plan.gets(rank))
    }
}
