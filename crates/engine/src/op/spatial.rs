//! Convolution and what goes with it, NHWC.

use crate::buffer::View;

/// Convolution and what goes with it, NHWC: `kernels::spatial`.
#[derive(Clone, Debug, PartialEq)]
pub enum Spatial {
    /// Writes y.
    ConvForward {
        /// Dimensions.
        shape: model::Conv2d,
        /// Images.
        batch: usize,
        /// E, `[batch, height, width, inputs]`.
        x: View,
        /// E, `[outputs, kernel, kernel, inputs]`.
        weight: View,
        /// E, `[batch, height', width', outputs]`.
        y: View,
    },
    /// Gradient of the input.
    ConvBackwardInput {
        /// Dimensions.
        shape: model::Conv2d,
        /// Images.
        batch: usize,
        /// E, as y.
        dy: View,
        /// E.
        weight: View,
        /// E, as x.
        dx: View,
        /// Add to what dx holds.
        accumulate: bool,
    },
    /// Gradient of the weight.
    ConvBackwardWeight {
        /// Dimensions.
        shape: model::Conv2d,
        /// Images.
        batch: usize,
        /// E.
        x: View,
        /// E, as y.
        dy: View,
        /// S, as weight.
        d_weight: View,
        /// Add to what d_weight holds.
        accumulate: bool,
    },
    /// `partial[0..c]` = sum and `[c..2c]` = sum of squares of each channel over the rows, in f64 so that their difference
    /// gives the variance; partials of all parts are added.
    BatchNormSum {
        /// E, `[rows, channels]`.
        x: View,
        /// F64, `[2 channels]`.
        partial: View,
        /// Columns.
        channels: usize,
    },
    /// From the summed partials over `count` rows: statistics (S, `[2 channels]`: mean, 1/sqrt(variance + epsilon)), and
    /// `y = (x - mean) rstd gain + bias (+ residual)`, then ReLU where asked for. y may be the residual.
    BatchNormForward {
        /// E, `[rows, channels]`.
        x: View,
        /// F64, `[2 channels]`.
        partial: View,
        /// Rows that the partials are sums over, of all parts.
        count: usize,
        /// E, `[channels]`.
        gain: View,
        /// E, `[channels]`.
        bias: View,
        /// E, `[rows, channels]`.
        residual: Option<View>,
        /// E, `[rows, channels]`.
        y: View,
        /// S, `[2 channels]`.
        statistics: View,
        /// Columns.
        channels: usize,
        /// Added to the variance.
        epsilon: f64,
        /// Whether ReLU follows.
        relu: bool,
    },
    /// Masks dy in place where ReLU cut (y <= 0; then dy is also the residual's gradient), and
    /// `partial[0..c] = sum dy`, `[c..2c] = sum dy x_hat`, over these rows: this part's d_bias and d_gain.
    BatchNormBackwardSum {
        /// E.
        x: View,
        /// E: output of the forward pass, where ReLU followed.
        y: Option<View>,
        /// E, changed in place.
        dy: View,
        /// S.
        statistics: View,
        /// F64, `[2 channels]`.
        partial: View,
        /// Columns.
        channels: usize,
    },
    /// From the partials summed over all parts: `dx`, which may be dy.
    BatchNormBackward {
        /// E.
        x: View,
        /// E, masked.
        dy: View,
        /// S.
        statistics: View,
        /// E.
        gain: View,
        /// F64, `[2 channels]`.
        partial: View,
        /// Rows that the partials are sums over.
        count: usize,
        /// E.
        dx: View,
        /// Columns.
        channels: usize,
    },
    /// `d_gain = partial[c..2c]`, `d_bias = partial[0..c]` of this part's own sums (or +=).
    BatchNormParameters {
        /// F64, `[2 channels]`.
        partial: View,
        /// S.
        d_gain: View,
        /// S.
        d_bias: View,
        /// Add.
        accumulate: bool,
    },
    /// Largest of each window, and where it was (I32: index into one sample's pixels, the first of equals).
    MaxPoolForward {
        /// The window.
        shape: model::Pool,
        /// Images.
        batch: usize,
        /// E.
        x: View,
        /// E.
        y: View,
        /// I32, as y.
        index: View,
    },
    /// dx is overwritten.
    MaxPoolBackward {
        /// The window.
        shape: model::Pool,
        /// Images.
        batch: usize,
        /// E.
        dy: View,
        /// I32.
        index: View,
        /// E.
        dx: View,
    },
    /// Mean of each window.
    AveragePoolForward {
        /// The window.
        shape: model::Pool,
        /// Images.
        batch: usize,
        /// E.
        x: View,
        /// E.
        y: View,
    },
    /// dx is overwritten.
    AveragePoolBackward {
        /// The window.
        shape: model::Pool,
        /// Images.
        batch: usize,
        /// E.
        dy: View,
        /// E.
        dx: View,
    },
}

impl Spatial {
    /// Whether it is a convolution, or a gradient of one.
    pub fn is_convolution(&self) -> bool {
        matches!(self, Self::ConvForward { .. } | Self::ConvBackwardInput { .. } | Self::ConvBackwardWeight { .. })
    }
}
