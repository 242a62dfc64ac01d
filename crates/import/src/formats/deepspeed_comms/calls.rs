//! Operations of `deepspeed/comm/comm.py` as collectives. The logger takes the size of the argument `tensor` or of
//! the list of inputs (`get_msg_size_from_args` of `deepspeed/comm/utils.py`).

use terms::{Collective, Dtype};

use super::super::deepspeed_tables;
use super::super::nccl::plain;
use crate::Shape;
use crate::collective::MeasuredCall;

/// Whether busbw of an operation is (n-1)/n of its tput, in all versions.
pub(super) fn has_share(name: &str) -> bool {
    let shares = [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll];
    operation(name).is_ok_and(|(op, _)| shares.contains(&op))
}

/// The operation, and whether the size is that of one rank's part.
fn operation(name: &str) -> Result<(Collective, bool), String> {
    Ok(match name {
        "all_reduce" | "inference_all_reduce" => (Collective::AllReduce, false),
        "broadcast" => (Collective::Broadcast, false),
        "reduce" => (Collective::Reduce, false),
        "all_gather" | "all_gather_into_tensor" | "all_gather_base" => (Collective::AllGather, true),
        "reduce_scatter" | "reduce_scatter_tensor" | "reduce_scatter_base" => (Collective::ReduceScatter, false),
        "all_to_all_single" | "all_to_all" => (Collective::AllToAll, false),
        "gather" => (Collective::Gather, true),
        "scatter" => (Collective::Scatter, true),
        "barrier" => (Collective::Barrier, false),
        "log_summary_barrier" => return Err("a barrier of log_summary itself".to_owned()),
        "send" | "recv" | "isend" | "irecv" => {
            return Err(format!(
                "`{name}` is one side of a transfer between two ranks: nothing here measures that alone"
            ));
        }
        "all_reduce_coalesced" | "all_gather_coalesced" => {
            return Err(format!("`{name}` takes several tensors at once: nothing here measures the same"));
        }
        _ => return Err(format!("`{}` has no counterpart here", plain(name))),
    })
}

/// What a row measured.
pub(super) fn shape(name: &str, bytes: u64, ranks: u32, backend: Option<&str>) -> Result<Shape, String> {
    let (op, is_part) = operation(name)?;
    if bytes == 0 && op != Collective::Barrier {
        return Err("0 bytes: nothing moves".to_owned());
    }
    let factor = if is_part { u64::from(ranks) } else { 1 };
    let bytes = bytes.checked_mul(factor).ok_or("its size times ranks is larger than any memory")?;
    let (backend, device) = deepspeed_tables::counterpart(backend)?;
    let in_place = match op {
        Collective::AllReduce | Collective::Broadcast | Collective::Reduce => Some(true),
        Collective::Barrier => None,
        _ => Some(false),
    };
    let call = MeasuredCall::new(op, ranks, backend, device);
    let call = MeasuredCall {
        by_pytorch: true,
        dtype: Dtype::U8,
        bytes,
        in_place,
        isolated: op != Collective::Barrier,
        ..call
    };
    // Lists of tensors are copied in addition, and inference has a kernel of its own.
    let implementation = match name {
        "inference_all_reduce" => Some(name.to_owned()),
        "all_gather" | "reduce_scatter" | "all_to_all" => Some(format!("{name} of a list of tensors")),
        _ => None,
    };
    Ok(Shape { implementation, ..call.shape() })
}
