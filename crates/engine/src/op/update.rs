//! What changes parameters.

use crate::buffer::View;

/// The place of the loss scale in `control`.
pub(crate) const SCALE: usize = 0;

/// What changes parameters: `kernels::update`. `control` is F64, `[4]`: loss scale, good steps since it changed, the sum
/// of squares of all gradients, whether the update is skipped (1) because a gradient is not finite.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// Adds the sum of squares of x (S) to `control[2]`.
    SumSquares {
        /// S.
        x: View,
        /// F64, `[4]`.
        control: View,
    },
    /// Sets `control[2]` to zero.
    BeginNorm {
        /// F64, `[4]`.
        control: View,
    },
    /// With `dynamic`: sets `control[3]` by whether `control[2]` is finite, and the next loss scale: halved when it is
    /// not, doubled after 2000 good steps. Leaves the scale of *this* step in effect until `EndStep`.
    Judge {
        /// F64, `[4]`.
        control: View,
        /// Whether loss scaling is on.
        dynamic: bool,
    },
    /// `g = gradient x min(1, clip / norm) / loss scale` (norm over all gradients, unscaled); momentum as PyTorch's SGD:
    /// `v = momentum v + g` (first step: v = g), `p -= rate v`. Without momentum `p -= rate g`. Writes the compute copy.
    Sgd {
        /// S, masters.
        parameters: View,
        /// S.
        gradients: View,
        /// S; None without momentum.
        velocity: Option<View>,
        /// E: the copy that is computed with; None where E is S and masters are computed with.
        copy: Option<View>,
        /// F64, `[4]`.
        control: View,
        /// Learning rate.
        rate: f64,
        /// Momentum.
        momentum: f64,
        /// Largest norm of all gradients; None for no clipping.
        clip: Option<f64>,
    },
    /// AdamW as PyTorch's: decoupled weight decay `p -= rate decay p`, bias correction by the context's step (from 1).
    AdamW {
        /// S, masters.
        parameters: View,
        /// S.
        gradients: View,
        /// S.
        first: View,
        /// S.
        second: View,
        /// E, or None.
        copy: Option<View>,
        /// F64, `[4]`.
        control: View,
        /// Learning rate.
        rate: f64,
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Added to the denominator.
        epsilon: f64,
        /// Weight decay.
        decay: f64,
        /// Largest norm; None for no clipping.
        clip: Option<f64>,
    },
    /// Applies the next loss scale.
    EndStep {
        /// F64, `[4]`.
        control: View,
    },
}
