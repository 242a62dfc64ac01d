//! The call of a start-up case: what its stage measures, or what shows that ranks can communicate.

use comm::blocks;
use terms::{BufferKind, Collective, Direction, Dtype, Reduce, Space};

use super::fields::StartupFields;
use crate::data::Data;
use crate::parameters::{Parameters, Together};

/// The call of a case that names none.
pub(super) const OP: Collective = Collective::AllReduce;
pub(super) const BYTES: u64 = 64 << 10;

/// The most bytes of `requested` that divide into whole elements of each rank's blocks.
pub(super) fn used_bytes(op: Collective, requested: u64, ranks: u32) -> u64 {
    let (element, blocks) = (Dtype::F32.bytes(), blocks(op, Direction::OneWay, ranks));
    requested / element / blocks * blocks * element
}

/// The call of a case: that of its stage, or the one that shows that what was opened can communicate.
pub(super) fn call_of(fields: &StartupFields, on_gpus: bool) -> Parameters {
    let (op, bytes) = (fields.op.unwrap_or(OP), fields.bytes.unwrap_or(BYTES));
    Parameters {
        op,
        data: Data::Exact,
        reproducible: false,
        dtype: Dtype::F32,
        reduce: Reduce::Sum,
        bytes: used_bytes(op, bytes, fields.ranks),
        in_place: false,
        buffers: BufferKind::Registered,
        registration: None,
        together: Together::Single,
        offset: 0,
        space: if on_gpus { Space::Cuda } else { Space::Host },
        touch: false,
        compute_ns: 0,
        peer: 0,
        direction: Direction::OneWay,
        ranks: fields.ranks,
        groups: 1,
        alone: None,
        seed: fields.seed,
        in_flight: 1,
        counts: None,
        cold_bytes: None,
    }
}
