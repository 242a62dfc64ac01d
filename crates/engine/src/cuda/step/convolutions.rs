//! Convolutions of a program, by cuDNN.

use std::sync::Arc;

use super::errors::refused;
use crate::cuda::{CudnnConvolutions, CudnnDevice, DeviceContext, Train};
use crate::op::{Op, Spatial};
use crate::{Error, Memory, Program};

/// Plans all of a program; None where there are none.
pub(super) fn plan(
    program: &Program,
    memory: &Memory,
    device: Option<&Arc<CudnnDevice>>,
) -> Result<Option<CudnnConvolutions>, Error> {
    let mut all: Option<CudnnConvolutions> = None;
    for (_, op) in program.operations(0..program.instructions.len()) {
        if let (Op::Spatial(op), Some(device)) = (op, device)
            && op.is_convolution()
        {
            all.get_or_insert_with(|| CudnnConvolutions::new(device)).plan(op, memory).map_err(refused)?;
        }
    }
    Ok(all)
}

/// Gives one to the context's stream, and what widens its result.
pub(super) fn run(
    all: &CudnnConvolutions,
    train: &Train,
    op: &Spatial,
    context: &DeviceContext<'_>,
) -> Result<(), Error> {
    let narrow = all.run(op, context).map_err(refused)?;
    match (narrow, op) {
        (Some(narrow), Spatial::ConvBackwardWeight { d_weight, accumulate, .. }) => {
            train.widen(&narrow, *d_weight, *accumulate, context).map_err(refused)
        }
        _ => Ok(()),
    }
}
