//! Gradients of queries in parts of some blocks of keys, or by a pass of their own.

use engine::cuda::{AttentionKernel, PartLimits, QueryGradients, Train};
use engine::op::{Attention, Op};
use engine::{BufferId, View};
use terms::Dtype;

use super::{Case, Shape};
use crate::rows::on_device::{DeviceLab, ORDERS};

/// More bytes than any of these parts take.
const SCRATCH: usize = 16 << 20;

/// Limits under which a part has so many blocks of keys; 0 for none.
pub(super) fn joined(case: &Case, joined: usize) -> PartLimits {
    let wanted = if joined == 0 { QueryGradients::Apart } else { QueryGradients::Parts(joined) };
    let all = (0..SCRATCH).step_by(256).flat_map(|bytes| [1, 1000].map(|blocks| PartLimits { bytes, blocks }));
    let mut fitting = all.filter(|limits| limits.choose(&case.op) == wanted);
    fitting.next().unwrap_or_else(|| panic!("no limit gives {wanted:?} of {:?}", case.op))
}

/// All buffers after a backward pass within limits, in one order of threads and without one line.
pub(super) fn after(device: &DeviceLab, limits: PartLimits, case: &Case, order: i32, without: i32) -> Vec<Vec<u8>> {
    let train = Train::load(&device.gpu).unwrap().with_part_limits(limits);
    let Attention { batch, sequence, heads, .. } = case.op;
    // Parts lie behind a number of each row.
    let rows = (4 * batch * sequence * heads).next_multiple_of(16);
    let loaded = device.load(&case.lab, rows + limits.scratch_bytes(&case.op));
    train.prepare(&case.backward().into(), &loaded.context()).unwrap();
    train.run(&case.backward().into(), &loaded.context()).unwrap();
    device.bytes_as(&loaded, order, without)
}

/// Parts of one block of keys and of several, and a pass of its own, give what f64 does, with the same bits in each order of threads.
#[test]
fn parts_of_any_size_agree_with_f64() {
    let Some(device) = DeviceLab::open("parts_of_any_size_agree_with_f64") else { return };
    // Blocks have 128 keys or 64; the last is not whole, nor has the last part all of its blocks.
    let cases: [(Shape, usize, Dtype); 2] =
        [((1, 260, 1, 1, false), 64, Dtype::Bf16), ((1, 200, 2, 1, true), 128, Dtype::F16)];
    for (shape, width, dtype) in cases {
        let mut case = Case::new(shape, width, dtype);
        let forward = Op::from(case.forward());
        DeviceLab::keep(&device.bytes_after(&forward, &case.lab, 0, 0), &mut case.lab);
        for of_part in [0, 1, 2, 4] {
            let limits = joined(&case, of_part);
            let bytes = after(&device, limits, &case, 0, 0);
            for order in 1..ORDERS {
                assert!(after(&device, limits, &case, order, 0) == bytes, "{shape:?}: {of_part}, order {order}");
            }
            let mut case = Case::new(shape, width, dtype);
            DeviceLab::keep(&bytes, &mut case.lab);
            case.check(AttentionKernel::TensorCores);
        }
    }
}

fn attention(batch: usize, sequence: usize, [heads, kv_heads, head_width]: [usize; 3], causal: bool) -> Attention {
    let view = View { buffer: BufferId(0), offset: 0, len: 0 };
    let [qkv, output, log_sum] = [view; 3];
    Attention { qkv, output, log_sum, batch, sequence, heads, kv_heads, head_width, causal }
}

/// Rows of parts one by one: those of the queries that see a key of them.
fn rows(op: &Attention, joined: usize) -> usize {
    let keys = joined * 8192 / op.head_width;
    let of_part = |part: usize| (0..op.sequence).filter(|row| !op.causal || *row >= part * keys).count();
    (0..op.sequence.div_ceil(keys)).map(of_part).sum()
}

#[test]
fn parts_have_the_rows_that_see_their_keys() {
    for causal in [false, true] {
        for (sequence, width) in [(0, 64), (1, 64), (128, 64), (129, 64), (1000, 64), (64, 128), (300, 128)] {
            let op = attention(2, sequence, [6, 3, width], causal);
            for (blocks, joined) in [(1000, 1), (1, 2)] {
                let limits = PartLimits { bytes: usize::MAX, blocks };
                let joined = if limits.choose(&op) == QueryGradients::Parts(1) { 1 } else { joined };
                assert_eq!(limits.scratch_bytes(&op), 2 * 6 * rows(&op, joined) * width * 4, "{op:?}");
            }
        }
    }
}

#[test]
fn the_memory_of_parts_is_bounded_and_blocks_of_threads_are_enough() {
    use QueryGradients::{Apart, Parts};
    let limits = PartLimits::default();
    let cases = [
        // GPT-2 124M, and with more samples.
        (attention(16, 1024, [12, 12, 64], true), Parts(2)),
        (attention(64, 1024, [12, 12, 64], true), Parts(2)),
        (attention(128, 1024, [12, 12, 64], true), Parts(8)),
        (attention(64, 1024, [12, 12, 64], false), Parts(4)),
        (attention(4, 512, [16, 16, 128], true), Parts(1)),
        // Few heads: one block of keys a part.
        (attention(1, 1024, [12, 12, 64], true), Parts(1)),
        // Few heads of keys and long sequences: within the limit there would be too few blocks of threads.
        (attention(2, 4096, [32, 8, 128], true), Apart),
        (attention(1, 65_536, [12, 12, 64], true), Apart),
        // Not even one part fits.
        (attention(64, 8192, [32, 32, 128], true), Apart),
    ];
    for (op, wanted) in cases {
        assert_eq!(limits.choose(&op), wanted, "{op:?}");
        let bytes = limits.scratch_bytes(&op);
        assert!(bytes <= limits.bytes && (bytes == 0) == (wanted == Apart), "{op:?}");
    }
    assert_eq!(limits.scratch_bytes(&attention(16, 1024, [12, 12, 64], true)), 16 * 12 * 2560 * 64 * 4);
    assert_eq!(limits.choose(&attention(0, 0, [1, 1, 64], true)), Parts(1));
}
