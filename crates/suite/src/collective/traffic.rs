//! The memory traffic that an operation cannot avoid, and the loop that runs just that: the limit it is held against.
//!
//! Shared memory moves data by reading and writing it; whatever the algorithm, every rank's share of the work is a few
//! streams read and a few written. The loop below runs that share on each rank at the same time, on the case's own
//! buffers (same working set, same cores), with no synchronisation, no arithmetic beyond additions, and no peer. A plain
//! copy of the same bytes runs beside it; the better of the two is the limit.

use device::Slice;
use terms::Collective;

/// A rank's share of an operation's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Streams read.
    pub(crate) reads: u32,
    /// Streams written.
    pub(crate) writes: u32,
    /// Bytes of each stream.
    pub(crate) bytes: u64,
    /// Whether the written streams are the read ones.
    pub(crate) in_place: bool,
}

impl Share {
    /// Bytes read and written.
    pub(crate) fn traffic(&self) -> u64 {
        u64::from(self.reads + self.writes) * self.bytes
    }
}

/// The share of `rank` in an operation of S = `bytes`, every rank taking an equal part of the work where it can.
/// `sent` is what the rank sends in an all_to_allv. In place, what is there already is not moved.
pub(crate) fn share(op: Collective, bytes: u64, rank: u32, ranks: u32, peer: u32, sent: u64, in_place: bool) -> Share {
    let n = u64::from(ranks);
    let part = bytes / n;
    let others = ranks - 1;
    let (reads, writes, bytes) = match (op, in_place) {
        (Collective::Barrier, _) => (0, 0, 0),
        // One rank in place: everything is where it belongs.
        (_, true) if ranks == 1 => (0, 0, 0),
        (Collective::AllReduce, _) => (ranks, ranks, part),
        (Collective::ReduceScatter | Collective::Reduce, _) => (ranks, 1, part),
        (Collective::AllGather | Collective::Broadcast, true) => (1, others, part),
        (Collective::AllGather | Collective::Broadcast, false) => (1, ranks, part),
        (Collective::Gather | Collective::Scatter, true) => (1, 1, part / n * u64::from(others)),
        (Collective::Gather | Collective::Scatter, false) => (1, 1, part),
        // An exchange: both places are read, and both are written.
        (Collective::AllToAll, true) => (2, 2, part * u64::from(others) / 2),
        (Collective::AllToAll | Collective::SendRecv, _) => (1, 1, bytes),
        (Collective::AllToAllV, _) => (1, 1, sent),
        (Collective::PingPong, _) => (1, 1, if rank == 0 || rank == peer { bytes } else { 0 }),
    };
    let works_in_input =
        matches!(op, Collective::AllReduce | Collective::AllToAll | Collective::Reduce | Collective::ReduceScatter);
    Share { reads, writes, bytes, in_place: in_place && works_in_input }
}

/// Runs the share once: sums its read streams and stores the sum to each written stream, as f32; past the caches
/// (`streaming`) if the processor can. Streams are laid one after the other over the buffers and wrap where those end,
/// so that the working set is the case's own. False when this form cannot be run.
pub(crate) fn run_share(share: &Share, input: &Slice, output: &Slice, streaming: bool) -> bool {
    // Where one buffer lies in the other, or there is only one, all streams are in the larger.
    let single = input.is_empty() || output.is_empty() || input.overlaps(output) || share.in_place;
    let larger = if input.len() >= output.len() { input } else { output };
    let (from, to) = if single { (larger, larger) } else { (input, output) };
    let elements = (share.bytes as usize).min(from.len()).min(to.len()) / 4;
    if elements == 0 || share.reads == 0 {
        return false;
    }
    let streams = |buffer: &Slice, first: usize, count: u32| -> Vec<*mut f32> {
        let room = (buffer.len() / 4 / elements).max(1);
        let place = |i: usize| (first + i) % room * elements;
        // SAFETY: stream i begins at a multiple of `elements` that leaves `elements` inside the buffer.
        (0..count as usize).map(|i| unsafe { buffer.ptr().cast::<f32>().add(place(i)) }).collect()
    };
    let after_reads = if single && !share.in_place { share.reads as usize } else { 0 };
    let (from, to) = (streams(from, 0, share.reads), streams(to, after_reads, share.writes));
    if streaming {
        // SAFETY: as below.
        return !share.in_place && unsafe { sum_streams_past_caches(&from, &to, elements) };
    }
    // SAFETY: every stream holds `elements` elements; buffers are page-aligned, so f32 is aligned; no operation is in
    // flight, so this rank alone touches its buffers. Values are overwritten: the caller fills them anew.
    unsafe { sum_streams(&from, &to, elements) };
    true
}

/// Copies `bytes` from input to output, or from one half to the other where there is one buffer.
pub(crate) fn run_copy(bytes: usize, input: &Slice, output: &Slice) -> usize {
    let (from, to, room) = if input.is_empty() || output.is_empty() || input.overlaps(output) {
        let buffer = if input.len() >= output.len() { input } else { output };
        let half = buffer.len() / 2;
        // SAFETY: the middle of the buffer.
        (buffer.ptr(), unsafe { buffer.ptr().add(half) }, half)
    } else {
        (input.ptr(), output.ptr(), input.len().min(output.len()))
    };
    let mut done = 0;
    while done < bytes && room > 0 {
        let length = room.min(bytes - done);
        // SAFETY: both ranges hold `room` bytes and do not overlap; no operation is in flight.
        unsafe { std::ptr::copy_nonoverlapping(from, to, length) };
        done += length;
    }
    done
}

/// As [`sum_streams`], with non-temporal stores: what is written is not read first. False where the processor has none
/// or a stream is not aligned for them.
///
/// # Safety
/// As [`sum_streams`].
unsafe fn sum_streams_past_caches(from: &[*mut f32], to: &[*mut f32], elements: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let aligned = to.iter().all(|stream| (*stream as usize).is_multiple_of(64)) && elements.is_multiple_of(16);
        if aligned && std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has AVX-512, stores are aligned, elements are whole vectors; the rest is the caller's.
            unsafe { stream_avx512(from, to, elements) };
            return true;
        }
    }
    let _ = (from, to, elements);
    false
}

/// # Safety
/// As [`sum_streams`]; written streams are aligned to 64 bytes, and `elements` is a multiple of 16.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn stream_avx512(from: &[*mut f32], to: &[*mut f32], elements: usize) {
    use std::arch::x86_64::{_mm_sfence, _mm512_add_ps, _mm512_loadu_ps, _mm512_setzero_ps, _mm512_stream_ps};
    for i in (0..elements).step_by(16) {
        // SAFETY: i + 16 <= elements, the caller's promise about streams and alignment.
        unsafe {
            let add = |sum, stream: &*mut f32| _mm512_add_ps(sum, _mm512_loadu_ps(stream.add(i)));
            let sum = from.iter().fold(_mm512_setzero_ps(), add);
            to.iter().for_each(|stream| _mm512_stream_ps(stream.add(i), sum));
        }
    }
    // Streaming stores are not ordered by what follows: the barrier after this loop must see them.
    _mm_sfence();
}

/// Elements of a block that stays in the nearest cache while streams are added to it.
const BLOCK: usize = 1024;

/// # Safety
/// Every pointer is valid for `elements` f32, aligned, and not accessed by anyone else meanwhile.
unsafe fn sum_streams(from: &[*mut f32], to: &[*mut f32], elements: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has AVX-512; the rest is the caller's promise.
            return unsafe { sum_streams_avx512(from, to, elements) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2; the rest is the caller's promise.
            return unsafe { sum_streams_avx2(from, to, elements) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { sum_streams_plain(from, to, elements) }
}

/// # Safety
/// As [`sum_streams`], on a CPU with AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f", enable = "avx512vl")]
unsafe fn sum_streams_avx512(from: &[*mut f32], to: &[*mut f32], elements: usize) {
    // SAFETY: the caller's promise.
    unsafe { sum_streams_plain(from, to, elements) }
}

/// # Safety
/// As [`sum_streams`], on a CPU with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn sum_streams_avx2(from: &[*mut f32], to: &[*mut f32], elements: usize) {
    // SAFETY: the caller's promise.
    unsafe { sum_streams_plain(from, to, elements) }
}

/// # Safety
/// As [`sum_streams`].
#[inline(always)]
unsafe fn sum_streams_plain(from: &[*mut f32], to: &[*mut f32], elements: usize) {
    // SAFETY: the caller's promise; the fixed cases keep all streams in registers, as a fused collective does.
    unsafe {
        match (from, to) {
            ([a], [x]) => (0..elements).for_each(|i| *x.add(i) = *a.add(i)),
            ([a], [x, y]) => fixed(&[*a], &[*x, *y], elements),
            ([a, b], [x]) => fixed(&[*a, *b], &[*x], elements),
            ([a, b], [x, y]) => fixed(&[*a, *b], &[*x, *y], elements),
            ([a, b, c], [x, y, z]) => fixed(&[*a, *b, *c], &[*x, *y, *z], elements),
            ([a, b, c, d], [w, x, y, z]) => fixed(&[*a, *b, *c, *d], &[*w, *x, *y, *z], elements),
            _ => blocked(from, to, elements),
        }
    }
}

/// # Safety
/// As [`sum_streams`].
#[inline(always)]
unsafe fn fixed<const R: usize, const W: usize>(from: &[*mut f32; R], to: &[*mut f32; W], elements: usize) {
    const LANES: usize = 16;
    let mut i = 0;
    while i + LANES <= elements {
        // SAFETY: i + LANES <= elements; arrays of f32 need no more than f32's alignment.
        unsafe {
            let mut sum = from[0].add(i).cast::<[f32; LANES]>().read_unaligned();
            for stream in &from[1..] {
                let values = stream.add(i).cast::<[f32; LANES]>().read_unaligned();
                (0..LANES).for_each(|lane| sum[lane] += values[lane]);
            }
            to.iter().for_each(|stream| stream.add(i).cast::<[f32; LANES]>().write_unaligned(sum));
        }
        i += LANES;
    }
    while i < elements {
        // SAFETY: i < elements.
        unsafe {
            let sum: f32 = from.iter().map(|stream| *stream.add(i)).sum();
            to.iter().for_each(|stream| *stream.add(i) = sum);
        }
        i += 1;
    }
}

/// Any number of streams, block by block through a scratch that stays in L1.
///
/// # Safety
/// As [`sum_streams`].
#[inline(always)]
unsafe fn blocked(from: &[*mut f32], to: &[*mut f32], elements: usize) {
    let mut scratch = [0f32; BLOCK];
    let mut start = 0;
    while start < elements {
        let length = BLOCK.min(elements - start);
        scratch[..length].fill(0.0);
        // SAFETY: start + length <= elements for every stream; the scratch is this function's own.
        unsafe {
            for stream in from {
                (0..length).for_each(|i| *scratch.get_unchecked_mut(i) += *stream.add(start + i));
            }
            to.iter().for_each(|stream| {
                std::ptr::copy_nonoverlapping(scratch.as_ptr(), stream.add(start), length);
            });
        }
        start += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::Region;

    #[test]
    fn shares_of_all_reduce_cover_every_byte_once() {
        let share = share(Collective::AllReduce, 1 << 20, 0, 4, 0, 0, true);
        assert_eq!((share.reads, share.writes, share.bytes), (4, 4, 1 << 18));
        assert_eq!(share.traffic(), 2 << 20);
    }

    #[test]
    fn in_place_shares_leave_out_what_is_there_already() {
        let of = |op, in_place| share(op, 1 << 20, 0, 4, 0, 0, in_place).traffic();
        // Over all ranks: 3 of 4 blocks, read and written.
        assert_eq!(4 * of(Collective::Gather, true), 2 * 3 * (1 << 18));
        assert_eq!(4 * of(Collective::Gather, false), 2 << 20);
        // Each rank gives three blocks of a quarter of its buffer and gets as many.
        assert_eq!(of(Collective::AllToAll, true), 2 * 3 * (1 << 18));
        assert_eq!(of(Collective::AllGather, true), 4 * (1 << 18));
        for op in [Collective::AllReduce, Collective::AllGather, Collective::Broadcast, Collective::AllToAll] {
            assert_eq!(share(op, 1 << 20, 0, 1, 0, 0, true).traffic(), 0, "{op}");
        }
    }

    #[test]
    fn a_share_sums_its_streams() {
        let region = Region::host(64 * 4 * 5).unwrap();
        for ranks in 1..=5u32 {
            let elements = 64 * ranks as usize;
            let buffer = region.slice(0, elements * 4).unwrap();
            // SAFETY: the buffer holds `elements` f32, and only this thread uses it.
            unsafe { (0..elements).for_each(|i| *buffer.ptr().cast::<f32>().add(i) = 1.0) };
            let share = Share { reads: ranks, writes: ranks, bytes: 64 * 4, in_place: true };
            assert!(run_share(&share, &buffer, &buffer, false));
            // SAFETY: as above.
            let all = unsafe { (0..elements).all(|i| *buffer.ptr().cast::<f32>().add(i) == ranks as f32) };
            assert!(all, "{ranks} ranks");
        }
    }

    #[test]
    fn a_copy_moves_what_it_says() {
        let region = Region::host(4096).unwrap();
        assert_eq!(run_copy(10_000, &region.whole(), &region.whole()), 10_000);
        let empty = region.slice(0, 0).unwrap();
        assert_eq!(run_copy(10, &empty, &empty), 0);
    }
}
