//! The loops that the backend is compared with: written apart from it, with intrinsics where there are AVX-512.

use std::sync::Arc;

use device::Region;

/// What a loop reads and writes: `sources` ranges summed into `destinations` ranges, of `len` bytes each. In place, the
/// destinations are the sources.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    sources: usize,
    destinations: usize,
    len: usize,
    in_place: bool,
}

/// Ranges stand this much further apart than their length, so that they do not alias: whole pages (see `device::skew`).
const APART: usize = 3 * 4096;

impl Shape {
    pub(crate) fn in_place(ranges: usize, len: usize) -> Self {
        Self { sources: ranges, destinations: ranges, len, in_place: true }
    }

    pub(crate) fn out_of_place(sources: usize, destinations: usize, len: usize) -> Self {
        Self { sources, destinations, len, in_place: false }
    }

    pub(crate) fn copy(destinations: usize, len: usize) -> Self {
        Self::out_of_place(1, destinations, len)
    }

    fn ranges(&self) -> usize {
        if self.in_place { self.sources } else { self.sources + self.destinations }
    }

    /// Memory that it needs.
    pub(crate) fn bytes(&self) -> usize {
        self.ranges() * (self.len.next_multiple_of(4096) + APART)
    }
}

/// Runs the loop once on memory of this rank.
pub(crate) fn pass(region: &Arc<Region>, shape: Shape, past_caches: bool) {
    assert!(shape.bytes() <= region.len());
    let range =
        |index: usize| region.base().wrapping_add(index * (shape.len.next_multiple_of(4096) + APART)).cast::<f32>();
    let source = |i: usize| range(i).cast_const();
    let destination = |i: usize| range(if shape.in_place { i } else { shape.sources + i });
    let count = shape.len / 4;
    // SAFETY: the ranges lie inside the region, which only this rank uses; AVX-512 is checked.
    unsafe {
        match (shape.sources, shape.destinations) {
            (1, 1) => run([source(0)], [destination(0)], count, past_caches),
            (1, 2) => run([source(0)], [destination(0), destination(1)], count, past_caches),
            (2, 1) => run([source(0), source(1)], [destination(0)], count, past_caches),
            (2, 2) => run([source(0), source(1)], [destination(0), destination(1)], count, past_caches),
            other => panic!("no loop for {other:?}"),
        }
    }
}

unsafe fn run<const N: usize, const M: usize>(s: [*const f32; N], d: [*mut f32; M], count: usize, past_caches: bool) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: passed on to the caller; the feature is there.
        unsafe { if past_caches { avx512::<N, M, true>(s, d, count) } else { avx512::<N, M, false>(s, d, count) } }
        return;
    }
    let _ = past_caches;
    for i in (0..count).step_by(16) {
        let mut sum = [0f32; 16];
        // SAFETY: passed on to the caller: `count` is a multiple of 16 here.
        unsafe {
            for source in s {
                let part = source.add(i).cast::<[f32; 16]>().read_unaligned();
                (0..16).for_each(|k| sum[k] += part[k]);
            }
            d.iter().for_each(|d| d.add(i).cast::<[f32; 16]>().write_unaligned(sum));
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512<const N: usize, const M: usize, const PAST: bool>(s: [*const f32; N], d: [*mut f32; M], count: usize) {
    use std::arch::x86_64::{_mm_sfence, _mm512_add_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_stream_ps};
    for i in (0..count).step_by(32) {
        // SAFETY: passed on to the caller: `count` is a multiple of 32 here, and ranges begin lines.
        unsafe {
            let (mut a, mut b) = (_mm512_loadu_ps(s[0].add(i)), _mm512_loadu_ps(s[0].add(i + 16)));
            for source in &s[1..] {
                a = _mm512_add_ps(a, _mm512_loadu_ps(source.add(i)));
                b = _mm512_add_ps(b, _mm512_loadu_ps(source.add(i + 16)));
            }
            for to in d {
                if PAST {
                    _mm512_stream_ps(to.add(i), a);
                    _mm512_stream_ps(to.add(i + 16), b);
                } else {
                    _mm512_storeu_ps(to.add(i), a);
                    _mm512_storeu_ps(to.add(i + 16), b);
                }
            }
        }
    }
    if PAST {
        _mm_sfence();
    }
}
