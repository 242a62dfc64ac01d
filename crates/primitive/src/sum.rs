//! Sums and copies of blocks, where no collective makes them.

use device::Slice;
use engine::Element;
use half::{bf16, f16};
use measure::Failure;
use terms::Dtype;

use super::machine::Machine;
use super::pattern::{elements, elements_mut, with_element};
use super::site::Site;

/// `to` = the sum of the blocks of its length that `blocks` consists of.
///
/// # Errors
/// What a GPU says.
pub(super) fn blocks(site: &Site, blocks: &Slice, to: &Slice) -> Result<(), Failure> {
    if let Machine::Gpu(gpu) = site.machine() {
        let len = to.len();
        let part = |number: usize| {
            blocks.slice(number * len, len).ok_or_else(|| Failure::new("a block lies outside of its buffer"))
        };
        for number in 0..blocks.len() / len.max(1) {
            let block = part(number)?;
            if number == 0 { gpu.copy(&block, to)? } else { gpu.add(site.task.dtype, &block, to)? }
        }
        return Ok(());
    }
    with_element!(site.task.dtype, E => {
        // SAFETY: this rank's own buffers; the caller has waited for the ranks that wrote to them.
        let (from, to) = unsafe { (elements::<E>(blocks), elements_mut::<E>(to)) };
        for (number, block) in from.chunks_exact(to.len().max(1)).enumerate() {
            for (to, from) in to.iter_mut().zip(block) {
                *to = if number == 0 { *from } else { E::narrow(to.widen() + from.widen()) };
            }
        }
    });
    Ok(())
}

/// `to += from`.
///
/// # Errors
/// As [`blocks`].
pub(super) fn add(site: &Site, from: &Slice, to: &Slice) -> Result<(), Failure> {
    if let Machine::Gpu(gpu) = site.machine() {
        return gpu.add(site.task.dtype, from, to);
    }
    with_element!(site.task.dtype, E => {
        // SAFETY: this rank's own buffers, which no operation uses.
        let (from, to) = unsafe { (elements::<E>(from), elements_mut::<E>(to)) };
        for (to, from) in to.iter_mut().zip(from) {
            *to = E::narrow(to.widen() + from.widen());
        }
    });
    Ok(())
}

/// `to = from`, of a length.
///
/// # Errors
/// As [`blocks`].
pub(super) fn copy(site: &Site, from: &Slice, to: &Slice) -> Result<(), Failure> {
    match site.machine() {
        Machine::Gpu(gpu) => gpu.copy(from, to),
        Machine::Host(_) => {
            let len = from.len().min(to.len());
            // SAFETY: different buffers of this rank, which no operation uses.
            unsafe { std::ptr::copy_nonoverlapping(from.ptr(), to.ptr(), len) };
            Ok(())
        }
    }
}
