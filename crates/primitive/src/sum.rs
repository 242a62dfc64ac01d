//! Sums of blocks, where no collective adds them up.

use device::Slice;
use engine::Element;
use half::{bf16, f16};
use terms::Dtype;

use super::pattern::{elements, elements_mut, with_element};
use super::site::Site;

/// `to` = the sum of the blocks of its length that `blocks` consists of.
pub(super) fn blocks(site: &Site, blocks: &Slice, to: &Slice) {
    with_element!(site.task.dtype, E => {
        // SAFETY: this rank's own buffers; the caller has waited for the ranks that wrote to them.
        let (from, to) = unsafe { (elements::<E>(blocks), elements_mut::<E>(to)) };
        for (number, block) in from.chunks_exact(to.len().max(1)).enumerate() {
            for (to, from) in to.iter_mut().zip(block) {
                *to = if number == 0 { *from } else { E::narrow(to.widen() + from.widen()) };
            }
        }
    });
}

/// `to += from`.
pub(super) fn add(site: &Site, from: &Slice, to: &Slice) {
    with_element!(site.task.dtype, E => {
        // SAFETY: this rank's own buffers, which no operation uses.
        let (from, to) = unsafe { (elements::<E>(from), elements_mut::<E>(to)) };
        for (to, from) in to.iter_mut().zip(from) {
            *to = E::narrow(to.widen() + from.widen());
        }
    });
}
