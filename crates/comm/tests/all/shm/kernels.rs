//! Every kernel of every instruction set against one value at a time, with the `half` crate's conversions.

use comm::internals::kernels::{Isa, Manner, copy, exchange, kernel};
use half::{bf16, f16};
use terms::{Dtype, Named, Reduce};

/// Reduces one element the slow way: values as f64 or i128, which hold every type exactly.
fn expected(dtype: Dtype, reduce: Reduce, values: &[Vec<u8>]) -> Vec<u8> {
    let n = values.len();
    macro_rules! integer {
        ($t:ty) => {{
            let values = values.iter().map(|bytes| <$t>::from_ne_bytes(bytes.as_slice().try_into().unwrap()));
            let all = values.reduce(|a, b| match reduce {
                Reduce::Sum | Reduce::Avg => a.wrapping_add(b),
                Reduce::Prod => a.wrapping_mul(b),
                Reduce::Min => a.min(b),
                Reduce::Max => a.max(b),
            });
            let all = all.unwrap();
            (if reduce == Reduce::Avg { (all as i128 / n as i128) as $t } else { all }).to_ne_bytes().to_vec()
        }};
    }
    macro_rules! float {
        ($t:ty, $wide:ty, $from:expr, $to:expr) => {{
            let values = values.iter().map(|bytes| $from(<$t>::from_ne_bytes(bytes.as_slice().try_into().unwrap())));
            let all: $wide = values
                .reduce(|a: $wide, b: $wide| match reduce {
                    Reduce::Sum | Reduce::Avg => a + b,
                    Reduce::Prod => a * b,
                    Reduce::Min => a.min(b),
                    Reduce::Max => a.max(b),
                })
                .unwrap();
            let all: $t = $to(if reduce == Reduce::Avg { all / n as $wide } else { all });
            all.to_ne_bytes().to_vec()
        }};
    }
    match dtype {
        Dtype::F32 => float!(f32, f32, |x: f32| x, |x: f32| x),
        Dtype::F64 => float!(f64, f64, |x: f64| x, |x: f64| x),
        Dtype::F16 => float!(f16, f32, f16::to_f32, f16::from_f32),
        Dtype::Bf16 => float!(bf16, f32, bf16::to_f32, bf16::from_f32),
        Dtype::I8 => integer!(i8),
        Dtype::I32 => integer!(i32),
        Dtype::I64 => integer!(i64),
        Dtype::U8 => integer!(u8),
        Dtype::U32 => integer!(u32),
        Dtype::U64 => integer!(u64),
        Dtype::F8E4M3 | Dtype::F8E5M2 => unreachable!("{dtype} is not reduced"),
    }
}

fn is_nan(dtype: Dtype, bytes: &[u8]) -> bool {
    match dtype {
        Dtype::F32 => f32::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        Dtype::F64 => f64::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        Dtype::F16 => f16::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        Dtype::Bf16 => bf16::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        _ => false,
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes[..bytes.len() - 1].iter().all(|byte| *byte == 0) && bytes[bytes.len() - 1] & 0x7f == 0
}

/// Pseudo-random bytes (xorshift64*): every bit pattern, so also NaN, infinity, subnormal numbers.
fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn check(isa: Isa, dtype: Dtype, reduce: Reduce, ranks: usize, count: usize, shift: usize) {
    let size = dtype.bytes() as usize;
    let sources: Vec<Vec<u8>> = (0..ranks).map(|r| random((r + 1 + ranks * count) as u64, count * size)).collect();
    for (past_caches, down) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut buffers: Vec<Vec<u8>> =
            sources.iter().map(|bytes| [&vec![0; shift * size], &bytes[..]].concat()).collect();
        let pointers: Vec<*mut u8> = buffers.iter_mut().map(|b| b[shift * size..].as_mut_ptr()).collect();
        let inputs: Vec<*const u8> = pointers.iter().map(|p| p.cast_const()).collect();
        // SAFETY: buffers of `count` elements each; in place.
        unsafe { kernel(isa, dtype, reduce)(&inputs, &pointers, count, ranks, Manner { past_caches, down }) };
        for i in 0..count {
            let values: Vec<Vec<u8>> = sources.iter().map(|s| s[i * size..][..size].to_vec()).collect();
            let want = expected(dtype, reduce, &values);
            for (rank, buffer) in buffers.iter().enumerate() {
                let got = &buffer[(shift + i) * size..][..size];
                let same = got == want
                    || is_nan(dtype, got) && is_nan(dtype, &want)
                    || dtype.is_float() && is_zero(got) && is_zero(&want);
                assert!(
                    same,
                    "{isa:?} {dtype} {reduce} rank {rank}/{ranks} [{i}] of {count}: {values:?} -> {got:?}, not {want:?}"
                );
            }
        }
    }
}

#[test]
fn kernels_agree_with_one_value_at_a_time() {
    for isa in Isa::all() {
        for dtype in Dtype::ALL.iter().filter(|dtype| dtype.reduces()) {
            for reduce in Reduce::ALL {
                for ranks in [1, 2, 3, 7] {
                    for (count, shift) in [(1, 0), (31, 1), (64, 0), (1029, 3)] {
                        check(isa, *dtype, *reduce, ranks, count, shift);
                    }
                }
            }
        }
    }
}

#[test]
fn many_ranks_and_every_half() {
    for isa in Isa::all() {
        check(isa, Dtype::U8, Reduce::Avg, 300, 5, 0);
        check(isa, Dtype::F32, Reduce::Sum, 64, 1000, 0);
        // Every f16 and bf16, added to zero and multiplied by one: exact, so nothing but conversion shows.
        let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_ne_bytes).collect();
        for (dtype, one) in [(Dtype::F16, f16::ONE.to_bits()), (Dtype::Bf16, bf16::ONE.to_bits())] {
            let ones: Vec<u8> = (0..=u16::MAX).flat_map(|_| one.to_ne_bytes()).collect();
            let mut out = vec![0; all.len()];
            // SAFETY: three buffers of 65536 elements.
            unsafe {
                kernel(isa, dtype, Reduce::Prod)(
                    &[all.as_ptr(), ones.as_ptr()],
                    &[out.as_mut_ptr()],
                    65536,
                    2,
                    Manner::default(),
                )
            };
            for (i, pair) in out.chunks_exact(2).enumerate() {
                let want = (i as u16).to_ne_bytes();
                assert!(
                    pair == want || is_nan(dtype, &want) && is_nan(dtype, pair),
                    "{isa:?} {dtype} {i:#x}: {pair:?}"
                );
            }
        }
    }
}

#[test]
fn copies_reach_all_destinations() {
    for isa in Isa::all() {
        for len in [0, 1, 63, 64, 1000, 4096] {
            let source = random(len as u64 + 1, len);
            let mut copies = [vec![0; len], vec![0; len], vec![0; len]];
            let destinations: Vec<*mut u8> = copies.iter_mut().map(Vec::as_mut_ptr).collect();
            for past_caches in [false, true] {
                // SAFETY: buffers of `len` bytes each.
                unsafe { copy(isa, source.as_ptr(), &destinations, len, past_caches) };
                assert!(copies.iter().all(|copy| *copy == source));
            }
        }
    }
}

#[test]
fn an_exchange_exchanges_all_and_no_more() {
    for isa in Isa::all() {
        for len in [0, 1, 63, 64, 127, 128, 1000, 4096] {
            let (a, b) = (random(len as u64 + 1, len + 1), random(len as u64 + 7, len + 1));
            let (mut x, mut y) = (a.clone(), b.clone());
            // SAFETY: buffers of `len` bytes and one more.
            unsafe { exchange(isa, x.as_mut_ptr(), y.as_mut_ptr(), len) };
            assert!(x[..len] == b[..len] && y[..len] == a[..len], "{isa:?}, {len} bytes");
            assert!(x[len] == a[len] && y[len] == b[len], "{isa:?}, beyond {len} bytes");
        }
    }
}
