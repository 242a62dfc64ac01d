//! Layer kinds. Token tensors are `[rows, features]` with `rows = batch x sequence`; images are NHWC,
//! `[batch x height x width, channels]`: everything is a matrix with a contiguous last dimension.

/// How tensor parallelism cuts a linear layer (Megatron-LM, arXiv 1909.08053, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Every part holds all of it.
    Whole,
    /// Output features are cut: the input is whole, the output is cut by features.
    Column,
    /// Input features are cut: the input is cut by features, the output is the sum over the parts.
    Row,
}

/// `y = x W^T + b`, W stored `[outputs, inputs]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// Input features.
    pub inputs: usize,
    /// Output features, by parts that tensor parallelism cuts each for itself: `[q, k, v]`, `[gate, up]`, or one.
    pub outputs: Vec<usize>,
    /// Whether there is a bias.
    pub bias: bool,
    /// How tensor parallelism cuts it.
    pub split: Split,
    /// The full name of another block's parameter that is this layer's weight too (a tied head).
    pub tied: Option<String>,
    /// Standard deviation of the weight's normal initialisation.
    pub deviation: f64,
}

impl Linear {
    /// Output features in all.
    pub fn width(&self) -> usize {
        self.outputs.iter().sum()
    }
}

/// Token embedding, with learned positions and segment types where there are some: their rows are added.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// Tokens.
    pub vocabulary: usize,
    /// Features.
    pub width: usize,
    /// Learned positions; zero for none.
    pub positions: usize,
    /// Segment types; all tokens have type 0. Zero for none.
    pub segments: usize,
    /// Standard deviation of the initialisation of tokens (positions: half of it).
    pub deviation: f64,
}

/// LayerNorm (centred, gain and bias) or RMSNorm (not centred, gain only) over the last dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Norm {
    /// Features.
    pub width: usize,
    /// Added to the variance.
    pub epsilon: f64,
    /// LayerNorm if true, RMSNorm if false.
    pub centred: bool,
}

/// Rotary positions on the query and key parts of a packed `[rows, (heads + 2 kv_heads) head_width]`; pairs are
/// (i, i + head_width/2), as in Llama's published weights in their Hugging Face form.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Features of a head.
    pub head_width: usize,
    /// Base of the frequencies: base^(-2i/head_width).
    pub base: f64,
}

/// Scaled dot-product attention on packed `[q heads | k heads | v heads]` rows; output `[rows, heads x head_width]`.
/// Query head h reads key head h / (heads / kv_heads).
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Features of a head.
    pub head_width: usize,
    /// Whether a row sees only itself and what came before.
    pub causal: bool,
}

/// 2-D convolution without bias, weight stored `[outputs, kernel, kernel, inputs]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conv2d {
    /// Input channels.
    pub inputs: usize,
    /// Output channels.
    pub outputs: usize,
    /// Rows and columns of the kernel.
    pub kernel: usize,
    /// Step.
    pub stride: usize,
    /// Zeros around the image.
    pub padding: usize,
    /// Height of the input.
    pub height: usize,
    /// Width of the input.
    pub width: usize,
}

/// Batch normalisation over all rows, per channel; then, where asked for, the second input is added and ReLU applied.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNorm {
    /// Channels.
    pub channels: usize,
    /// Pixels of one sample.
    pub pixels: usize,
    /// Added to the variance.
    pub epsilon: f64,
    /// Whether ReLU follows (after the addition, if there is a second input).
    pub relu: bool,
}

/// A pooling window.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Channels.
    pub channels: usize,
    /// Rows and columns of the window.
    pub kernel: usize,
    /// Step.
    pub stride: usize,
    /// Border, which never wins (max) and is not counted (average).
    pub padding: usize,
    /// Height of the input.
    pub height: usize,
    /// Width of the input.
    pub width: usize,
}

/// Output pixels of a window over `size` pixels.
pub(crate) fn windows(size: usize, kernel: usize, stride: usize, padding: usize) -> usize {
    (size + 2 * padding - kernel) / stride + 1
}

impl Pool {
    /// Height and width of the output.
    pub fn output(&self) -> (usize, usize) {
        let of = |size| windows(size, self.kernel, self.stride, self.padding);
        (of(self.height), of(self.width))
    }
}

impl Conv2d {
    /// Height and width of the output.
    pub fn output(&self) -> (usize, usize) {
        let of = |size| windows(size, self.kernel, self.stride, self.padding);
        (of(self.height), of(self.width))
    }
}

/// Mean cross-entropy of softmax over the classes; its input are logits that tensor parallelism may have cut by class.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossEntropy {
    /// Classes.
    pub classes: usize,
}

/// One kind of layer. One input, but for `Add` (two) and `BatchNorm` (one or two).
#[derive(Clone, Debug, PartialEq)]
pub enum Layer {
    /// Tokens to features.
    Embedding(Embedding),
    /// Matrix product.
    Linear(Linear),
    /// LayerNorm or RMSNorm.
    Norm(Norm),
    /// GELU: by tanh (GPT-2) or exactly by erf (BERT).
    Gelu {
        /// Whether by erf.
        exact: bool,
    },
    /// max(x, 0).
    Relu,
    /// silu(gate) x up of `[rows, gate | up]`, each `width` wide.
    SwiGlu {
        /// Features of the output.
        width: usize,
    },
    /// Rotary positions.
    Rotary(Rotary),
    /// Attention.
    Attention(Attention),
    /// Dropout at this rate; at zero, nothing.
    Dropout {
        /// Probability of a zero.
        rate: f64,
    },
    /// Sum of two inputs.
    Add,
    /// Convolution.
    Conv2d(Conv2d),
    /// Batch normalisation.
    BatchNorm(BatchNorm),
    /// Largest of each window.
    MaxPool(Pool),
    /// Mean of each window.
    AveragePool(Pool),
    /// The loss: the last layer of a model.
    CrossEntropy(CrossEntropy),
}
