//! An operation as all of its ranks see it: a call without the buffers of one rank.

use std::sync::Arc;

use terms::{Bytes, Collective, Direction, Dtype, Reduce};

use crate::{Call, Counts};

/// What a call is to all of its ranks.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Which operation.
    pub op: Collective,
    /// S in elements; of an `all_to_allv` the most that a rank gives or gets.
    pub count: u64,
    /// The element type.
    pub dtype: Dtype,
    /// The operator; ignored by operations that do not reduce.
    pub reduce: Reduce,
    /// The root, or the partner of rank 0 in a ping_pong; ignored by the others.
    pub peer: u32,
    /// Which ways data flows, for `send_recv`; ignored by the others.
    pub direction: Direction,
    /// Elements from each rank to each rank, for `all_to_allv`; None for the others.
    pub counts: Option<Arc<Counts>>,
}

impl Operation {
    /// The operation of S = `count` elements that this call of a rank is part of.
    pub(crate) fn of_call(call: &Call, count: u64) -> Self {
        let Call { op, dtype, reduce, peer, direction, .. } = *call;
        Self { op, count, dtype, reduce, peer, direction, counts: call.counts.clone() }
    }

    /// S in bytes.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.count * self.dtype.bytes())
    }
}
