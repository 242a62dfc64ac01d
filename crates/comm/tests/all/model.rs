//! What must come out: an independent model, written from the receiver's side, element by element.

use std::sync::Arc;

use comm::Counts;
use half::{bf16, f16};
use terms::{Collective, Direction, Dtype, DtypeKind, Reduce};

use crate::random::mix;

/// An operation on `ranks` ranks, as all of them call it.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) op: Collective,
    pub(crate) dtype: Dtype,
    pub(crate) reduce: Reduce,
    pub(crate) peer: u32,
    pub(crate) direction: Direction,
    pub(crate) ranks: u32,
    /// S in elements; ignored where there are counts.
    pub(crate) count: u64,
    pub(crate) counts: Option<Arc<Counts>>,
    /// Decides the inputs.
    pub(crate) seed: u64,
}

/// Where an element of an output comes from.
enum Source {
    /// This element of that rank's input.
    From(u32, u64),
    /// These elements of all ranks' inputs, reduced.
    Reduced(u64),
}

impl Operation {
    /// Element `index` of `rank`'s input: a small integer that is exact in the type and has an exact reduction, too;
    /// any value of an integer type, since those wrap.
    pub(crate) fn value(&self, rank: u32, index: u64) -> i128 {
        let bits = mix(self.seed ^ (u64::from(rank) << 40) ^ index);
        if !self.dtype.is_float() {
            return wrapped(self.dtype, i128::from(bits));
        }
        // Multiplied and shifted: a division for each of millions of elements would be most of the test's time.
        let reach = |limit: u64| (((bits >> 32) * (2 * limit + 1)) >> 32) as i64 - limit as i64;
        let exact = self.dtype.exact_integers().min(1 << 30);
        i128::from(match (self.op.reduces(), self.reduce) {
            (true, Reduce::Sum | Reduce::Avg) => reach(exact / u64::from(self.ranks)),
            // Powers of two, so that the product is one, too.
            (true, Reduce::Prod) => [1, -1, 2, -2][(bits % 4) as usize],
            _ => reach(exact),
        })
    }

    /// The bytes of `rank`'s input.
    pub(crate) fn input(&self, rank: u32, elements: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((elements * self.dtype.bytes()) as usize);
        (0..elements).for_each(|index| encode(self.dtype, self.value(rank, index), &mut bytes));
        bytes
    }

    /// The bytes that must be in `rank`'s output.
    pub(crate) fn output(&self, rank: u32, elements: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((elements * self.dtype.bytes()) as usize);
        for index in 0..elements {
            match self.source(rank, index) {
                Source::From(from, index) => encode(self.dtype, self.value(from, index), &mut bytes),
                Source::Reduced(index) => self.reduced(index, &mut bytes),
            }
        }
        bytes
    }

    /// Where element `index` of `rank`'s output comes from.
    fn source(&self, rank: u32, index: u64) -> Source {
        let n = u64::from(self.ranks);
        let block = (self.count / n).max(1);
        let (from_block, within) = ((index / block) as u32, index % block);
        let previous = (rank + self.ranks - 1) % self.ranks;
        let next = (rank + 1) % self.ranks;
        match self.op {
            Collective::AllReduce | Collective::Reduce => Source::Reduced(index),
            Collective::ReduceScatter => Source::Reduced(u64::from(rank) * block + index),
            Collective::Broadcast => Source::From(self.peer, index),
            Collective::Scatter => Source::From(self.peer, u64::from(rank) * block + index),
            Collective::AllGather | Collective::Gather => Source::From(from_block, within),
            Collective::AllToAll => Source::From(from_block, u64::from(rank) * block + within),
            Collective::AllToAllV => self.source_of_counts(rank, index),
            Collective::SendRecv if self.direction == Direction::OneWay || index < self.count / 2 => {
                Source::From(previous, index)
            }
            Collective::SendRecv => Source::From(next, index),
            Collective::PingPong => Source::From(if rank == 0 { self.peer } else { 0 }, index),
            Collective::Barrier => unreachable!("a barrier has no elements"),
        }
    }

    fn source_of_counts(&self, rank: u32, index: u64) -> Source {
        let counts = self.counts.as_ref().expect("all_to_allv has counts");
        let mut left = index;
        for from in 0..self.ranks {
            if left < counts.get(from, rank) {
                let before: u64 = (0..rank).map(|to| counts.get(from, to)).sum();
                return Source::From(from, before + left);
            }
            left -= counts.get(from, rank);
        }
        unreachable!("the output is as long as what is received");
    }

    fn reduced(&self, index: u64, bytes: &mut Vec<u8>) {
        let values = (0..self.ranks).map(|rank| self.value(rank, index));
        let sum: i128 = values.clone().sum();
        let n = i128::from(self.ranks);
        let value = match self.reduce {
            Reduce::Sum => sum,
            // Wraps in 128 bits; the element keeps the lower ones.
            Reduce::Prod => values.fold(1, i128::wrapping_mul),
            Reduce::Min => values.min().unwrap_or(0),
            Reduce::Max => values.max().unwrap_or(0),
            Reduce::Avg => match self.dtype {
                Dtype::F64 => return bytes.extend((sum as f64 / n as f64).to_ne_bytes()),
                Dtype::F32 => return bytes.extend((sum as f32 / n as f32).to_ne_bytes()),
                Dtype::F16 => return bytes.extend(f16::from_f32(sum as f32 / n as f32).to_ne_bytes()),
                Dtype::Bf16 => return bytes.extend(bf16::from_f32(sum as f32 / n as f32).to_ne_bytes()),
                dtype => wrapped(dtype, sum) / n,
            },
        };
        encode(self.dtype, value, bytes);
    }
}

/// What is left of a whole number in an integer type: its lower bits, with the type's sign.
fn wrapped(dtype: Dtype, value: i128) -> i128 {
    let lost = 128 - 8 * dtype.bytes();
    if dtype.kind() == DtypeKind::Signed { value << lost >> lost } else { ((value as u128) << lost >> lost) as i128 }
}

/// Appends an integer as an element.
fn encode(dtype: Dtype, value: i128, bytes: &mut Vec<u8>) {
    // Its lower half is all that an integer keeps, and more than the numbers of floats need.
    let value = value as i64;
    match dtype {
        Dtype::F32 => bytes.extend((value as f32).to_ne_bytes()),
        Dtype::F64 => bytes.extend((value as f64).to_ne_bytes()),
        Dtype::F16 => bytes.extend(f16::from_f32(value as f32).to_ne_bytes()),
        Dtype::Bf16 => bytes.extend(bf16::from_f32(value as f32).to_ne_bytes()),
        Dtype::I32 | Dtype::U32 => bytes.extend((value as i32).to_ne_bytes()),
        Dtype::I64 | Dtype::U64 => bytes.extend(value.to_ne_bytes()),
        Dtype::I8 | Dtype::U8 | Dtype::F8E4M3 | Dtype::F8E5M2 => bytes.push(value as u8),
    }
}
