//! Gradients that a library gives in fewer bits than they are kept in.

use device::cuda::Threads;
use terms::Dtype;

use super::Train;
use super::launch::{DeviceContext, LaunchCall, Result, Single, Typed};
use crate::View;
use crate::cuda::Narrow;

impl Train {
    /// Writes a gradient to a view of f32, or adds it to what that holds.
    ///
    /// # Errors
    /// As [`Train::run`].
    pub fn widen(&self, narrow: &Narrow, to: View, accumulate: bool, context: &DeviceContext<'_>) -> Result<()> {
        let (kernels, count, bytes) = (&self.kernels, to.len, narrow.dtype.bytes() as usize);
        let call = LaunchCall::new(kernels, context);
        let call = match accumulate {
            false => call.view(to, Dtype::F32, count, "a gradient")?,
            true => call.slice(&narrow.wide, 4 * count, "a gradient in f32")?,
        };
        let call = call.slice(&narrow.gradient, bytes * count, "a narrow gradient")?.word(count);
        // SAFETY: both have so many elements.
        unsafe { call.launch(kernels.typed(Typed::ToF32, narrow.dtype)?, Threads::Elements(count as u64)) }?;
        if !accumulate {
            return Ok(());
        }
        // One part a number: they are added as sums of columns are.
        let call = LaunchCall::new(kernels, context).view(to, Dtype::F32, count, "a gradient")?;
        let call = call.slice(&narrow.wide, 4 * count, "a gradient in f32")?.half(count)?.half(1)?.flag(true);
        // SAFETY: as above.
        unsafe { call.launch(kernels.single(Single::AddPartialsF32)?, Threads::Elements(count as u64)) }
    }
}
