//! Two ranges of memory exchanged in registers.

/// Exchanges the bytes of two ranges, blocks of `N` bytes first. A caller compiles it for the instructions that its processor has.
///
/// # Safety
/// Both ranges are `len` bytes that nobody else uses meanwhile; they do not overlap.
#[inline(always)]
pub unsafe fn swap_blocks<const N: usize>(a: *mut u8, b: *mut u8, len: usize) {
    let blocks = len / N;
    for i in 0..blocks {
        // SAFETY: block i lies inside the ranges.
        unsafe {
            let (a, b) = (a.cast::<[u8; N]>().add(i), b.cast::<[u8; N]>().add(i));
            let (x, y) = (a.read_unaligned(), b.read_unaligned());
            a.write_unaligned(y);
            b.write_unaligned(x);
        }
    }
    let done = blocks * N;
    // SAFETY: what remains of both ranges, which do not overlap.
    unsafe { std::ptr::swap_nonoverlapping(a.add(done), b.add(done), len - done) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_exchanged_and_none_beside_it() {
        for len in [0, 1, 7, 8, 9, 16, 23] {
            let (mut a, mut b) = ([1_u8; 25], [2_u8; 25]);
            // SAFETY: both arrays have a byte before the range and one after it.
            unsafe { swap_blocks::<8>(a.as_mut_ptr().add(1), b.as_mut_ptr().add(1), len) };
            let swapped = |own: u8, other: u8| -> Vec<u8> {
                (0..25).map(|at| if (1..=len).contains(&at) { other } else { own }).collect()
            };
            assert_eq!((a.to_vec(), b.to_vec()), (swapped(1, 2), swapped(2, 1)), "{len} bytes");
        }
    }
}
