//! Addresses of a run's tensors, each checked.

use std::ffi::c_void;

use device::Slice;
use terms::Dtype;

use super::graph::Tensor;
use crate::cuda::error::Result;
use crate::cuda::{DeviceContext, ProductError};

/// See the module's documentation.
pub(super) struct TensorPlaces<'a> {
    pub(super) context: &'a DeviceContext<'a>,
    pub(super) found: Vec<(Tensor, *const c_void)>,
}

pub(super) fn refused<T>(what: String) -> Result<T> {
    Err(ProductError::Operation(what))
}

/// A part of the scratch memory.
pub(super) fn scratch(context: &DeviceContext<'_>, from: usize, bytes: usize) -> Result<Slice> {
    match context.scratch.slice(from, bytes) {
        Some(part) => Ok(part),
        None => refused(format!("scratch memory has {} bytes, and needs {}", context.scratch.len(), from + bytes)),
    }
}

impl<'a> TensorPlaces<'a> {
    pub(super) fn new(context: &'a DeviceContext<'a>) -> Self {
        Self { context, found: Vec::new() }
    }

    /// A view's memory, which must have so many elements of the type.
    pub(super) fn view(&self, view: crate::View, dtype: Dtype, count: usize) -> Result<Slice> {
        let found = self.context.memory.dtype(view);
        if found != dtype || view.len != count {
            return refused(format!("{view:?} has {} elements of {found}, and needs {count} of {dtype}", view.len));
        }
        Ok(self.context.memory.slice(view))
    }

    /// Notes where a tensor of at least so many bytes lies, at a multiple of `alignment`.
    pub(super) fn add(&mut self, tensor: Tensor, slice: &Slice, bytes: usize, alignment: usize) -> Result<()> {
        if (slice.gpu().is_none() && slice.region().reaching().is_none()) || slice.len() < bytes {
            return refused(format!("{bytes} bytes of a tensor are not in reach of this GPU"));
        }
        if !slice.address().is_multiple_of(alignment) {
            return refused(format!("a tensor does not begin at a multiple of {alignment} bytes"));
        }
        self.found.push((tensor, slice.address() as *const c_void));
        Ok(())
    }
}
