//! What buffers hold, as bytes: fresh inputs, what one call leaves of them, and whether numbers are finite.

use engine::{Error, Loaded, Sample, View};
use terms::Dtype;

/// The bytes of some views, in their order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept(Vec<(View, Vec<u8>)>);

impl Kept {
    /// Those of a copy of the buffers as they are now.
    ///
    /// # Errors
    /// As [`Loaded::read`].
    pub(super) fn read(views: impl Iterator<Item = View>, loaded: &dyn Loaded) -> Result<Self, Error> {
        let keep = |view: View| {
            let mut kept = Vec::new();
            // SAFETY: no call runs.
            unsafe { loaded.read(view, &mut |bytes| kept.extend_from_slice(bytes)) }?;
            Ok((view, kept))
        };
        views.map(keep).collect::<Result<_, Error>>().map(Self)
    }

    /// Writes them into a copy of the buffers.
    ///
    /// # Errors
    /// As [`Loaded::write`].
    pub(super) fn put(&self, loaded: &mut dyn Loaded) -> Result<(), Error> {
        // SAFETY: no call runs.
        self.0
            .iter()
            .try_for_each(|(view, kept)| unsafe { loaded.write(*view, &mut |bytes| bytes.copy_from_slice(kept)) })
    }

    /// Elements of all views that differ in a copy, and the first of them, counted over the views.
    ///
    /// # Errors
    /// As [`Loaded::read`].
    pub(super) fn different(&self, sample: &Sample, loaded: &dyn Loaded) -> Result<(u64, Option<u64>), Error> {
        let (mut count, mut first, mut before) = (0, None, 0);
        for (view, kept) in &self.0 {
            let size = sample.program.dtype(*view).bytes() as usize;
            let see = &mut |bytes: &[u8]| {
                if bytes == kept {
                    return;
                }
                let pairs = bytes.chunks_exact(size).zip(kept.chunks_exact(size)).enumerate();
                for (at, _) in pairs.filter(|(_, (found, kept))| found != kept) {
                    count += 1;
                    first.get_or_insert(before + at as u64);
                }
            };
            // SAFETY: no call runs.
            unsafe { loaded.read(*view, see) }?;
            before += view.len as u64;
        }
        Ok((count, first))
    }

    /// Elements of all views.
    pub(super) fn elements(&self) -> u64 {
        self.0.iter().map(|(view, _)| view.len as u64).sum()
    }

    /// The first element that is not a finite number, counted over the views.
    pub(super) fn not_finite(&self, sample: &Sample) -> Option<u64> {
        let mut before = 0;
        for (view, kept) in &self.0 {
            if let Some(at) = not_finite(sample.program.dtype(*view), kept) {
                return Some(before + at);
            }
            before += view.len as u64;
        }
        None
    }
}

/// The first of these elements that is not a finite number: its exponent has all bits set.
fn not_finite(dtype: Dtype, bytes: &[u8]) -> Option<u64> {
    let at = match dtype {
        Dtype::F32 => bytes
            .chunks_exact(4)
            .position(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]) << 1 >= 0xff << 24),
        Dtype::Bf16 => bytes.chunks_exact(2).position(|word| u16::from_ne_bytes([word[0], word[1]]) << 1 >= 0xff << 8),
        dtype if dtype.is_float() => {
            let size = dtype.bytes() as usize;
            bytes.chunks_exact(size).position(|word| !contract::bits::float(dtype, word).is_finite())
        }
        _ => None,
    };
    at.map(|at| at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_found_in_every_type() {
        let singles = |values: &[f32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
        for (odd, at) in [(f32::NAN, 1), (f32::INFINITY, 1), (f32::NEG_INFINITY, 1), (-f32::NAN, 1)] {
            assert_eq!(not_finite(Dtype::F32, &singles(&[f32::MAX, odd, 0.0])), Some(at), "{odd}");
        }
        assert_eq!(not_finite(Dtype::F32, &singles(&[f32::MAX, f32::MIN, -0.0, 1e-40])), None);
        let halves = |values: &[u16]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
        // Infinity and NaN of bf16, and its largest number; of f16, whose exponent has five bits.
        assert_eq!(not_finite(Dtype::Bf16, &halves(&[0x7f7f, 0x7f80])), Some(1));
        assert_eq!(not_finite(Dtype::Bf16, &halves(&[0x7f7f, 0xff7f])), None);
        assert_eq!(not_finite(Dtype::Bf16, &halves(&[0xffc0])), Some(0));
        assert_eq!(not_finite(Dtype::F16, &halves(&[0x7bff, 0x7c00])), Some(1));
        assert_eq!(not_finite(Dtype::F64, &f64::NAN.to_ne_bytes()), Some(0));
        assert_eq!(not_finite(Dtype::I32, &(-1_i32).to_ne_bytes()), None);
    }
}
