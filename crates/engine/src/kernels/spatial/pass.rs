//! A convolution as data: which source pixels each output pixel gathers. The forward pass is one [`Pass`] over x; the
//! gradient of the input is `stride x stride` passes over dy, one for each position (phase) of an input pixel between
//! two steps, so that no product with a zero is computed.

use model::Conv2d;

/// Rows or columns of a pass. Output `o` of the pass gathers from source pixels `first + o step + toward t` for taps t.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassAxis {
    /// Source pixels.
    pub size: usize,
    /// Output pixels of this pass.
    pub out: usize,
    /// Source pixels from one output to the next.
    pub step: usize,
    /// Source pixel of output 0 and tap 0; negative inside the padding.
    pub first: isize,
    /// Source pixels from one tap to the next: 1 or -1.
    pub toward: isize,
    /// Taps.
    pub taps: usize,
    /// Kernel position of tap 0, and from one tap to the next.
    pub kernel: (usize, usize),
    /// Where output 0 stands in the output image, and how far apart outputs stand.
    pub place: (usize, usize),
}

impl PassAxis {
    fn forward(size: usize, out: usize, shape: &Conv2d) -> Self {
        let first = -(shape.padding as isize);
        Self { size, out, step: shape.stride, first, toward: 1, taps: shape.kernel, kernel: (0, 1), place: (0, 1) }
    }

    /// Input pixel `stride q + phase` got y from outputs `(stride q + phase + padding - k) / stride` for those k where
    /// that divides.
    fn backward(size: usize, out: usize, phase: usize, shape: &Conv2d) -> Self {
        let Conv2d { kernel, stride, padding, .. } = *shape;
        let remainder = (phase + padding) % stride;
        Self {
            size: out,
            out: size.saturating_sub(phase).div_ceil(stride),
            step: 1,
            first: ((phase + padding) / stride) as isize,
            toward: -1,
            taps: kernel.saturating_sub(remainder).div_ceil(stride),
            kernel: (remainder, stride),
            place: (phase, stride),
        }
    }

    fn pointwise(size: usize) -> Self {
        Self { size, out: size, step: 1, first: 0, toward: 1, taps: 1, kernel: (0, 1), place: (0, 1) }
    }

    /// The first source pixel that output `o` gathers.
    pub(super) fn lowest(&self, o: usize) -> isize {
        let back = if self.toward < 0 { self.taps.saturating_sub(1) as isize } else { 0 };
        self.first + (o * self.step) as isize - back
    }

    /// The source pixel of output `o` and tap `t`, if it is not padding.
    pub(super) fn source(&self, o: usize, t: usize) -> Option<usize> {
        let at = self.first + (o * self.step) as isize + self.toward * t as isize;
        (0..self.size as isize).contains(&at).then_some(at as usize)
    }

    /// Kernel position of tap `t`.
    pub(super) fn position(&self, t: usize) -> usize {
        self.kernel.0 + t * self.kernel.1
    }

    /// Where output `o` stands in the output image.
    pub(super) fn placed(&self, o: usize) -> usize {
        self.place.0 + o * self.place.1
    }
}

/// How weights lie: the weight of kernel position p, source channel c, output channel o is at `p tap + c channel +
/// o output`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strides {
    pub tap: usize,
    pub channel: usize,
    pub output: usize,
}

/// Which source pixels each output pixel gathers, and by which weights.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Images.
    pub(super) batch: usize,
    /// Rows.
    pub(super) y: PassAxis,
    /// Columns.
    pub(super) x: PassAxis,
    /// Channels of the source.
    pub(super) channels: usize,
    /// Channels of the output.
    pub(super) outputs: usize,
    /// Rows and columns of the output image (all passes of it together).
    pub(super) image: (usize, usize),
    /// Rows and columns of the kernel.
    pub(super) kernel: usize,
    /// How weights lie.
    pub(super) weights: Strides,
    /// Taps of one row are gathered as one run of `x.taps x channels` numbers: they lie next to each other. Where there
    /// are few channels, runs of one tap would be too short.
    pub(super) fold: bool,
}

/// With fewer source channels than this, taps are folded.
const FEW_CHANNELS: usize = 16;

impl Pass {
    /// y of x.
    pub fn forward(shape: &Conv2d, batch: usize) -> Self {
        let (height, width) = shape.output();
        let taps = shape.kernel * shape.kernel;
        Self {
            batch,
            y: PassAxis::forward(shape.height, height, shape),
            x: PassAxis::forward(shape.width, width, shape),
            channels: shape.inputs,
            outputs: shape.outputs,
            image: (height, width),
            kernel: shape.kernel,
            weights: Strides { tap: shape.inputs, channel: 1, output: taps * shape.inputs },
            fold: shape.inputs < FEW_CHANNELS && shape.kernel > 1,
        }
        .flattened(shape)
    }

    /// dx of dy, in `stride x stride` phases.
    pub fn backward(shape: &Conv2d, batch: usize) -> impl Iterator<Item = Self> + use<> {
        let shape = shape.clone();
        let (height, width) = shape.output();
        let taps = shape.kernel * shape.kernel;
        let phases = (0..shape.stride).flat_map(move |y| (0..shape.stride).map(move |x| (y, x)));
        phases.map(move |(y, x)| {
            Self {
                batch,
                y: PassAxis::backward(shape.height, height, y, &shape),
                x: PassAxis::backward(shape.width, width, x, &shape),
                channels: shape.outputs,
                outputs: shape.inputs,
                image: (shape.height, shape.width),
                kernel: shape.kernel,
                weights: Strides { tap: shape.inputs, channel: taps * shape.inputs, output: 1 },
                fold: false,
            }
            .flattened(&shape)
        })
    }

    /// Where each pixel gathers from itself alone, images and rows do not matter: all pixels are one image, with rows of
    /// a length that the kernels like.
    fn flattened(mut self, shape: &Conv2d) -> Self {
        if (shape.kernel, shape.stride, shape.padding) != (1, 1, 0) {
            return self;
        }
        let pixels = self.batch * shape.height * shape.width;
        let row = [112, 98, 84, 70, 56, 42, 28, 14, 7].into_iter().find(|row| pixels.is_multiple_of(*row));
        let row = row.unwrap_or(shape.width);
        self.batch = 1;
        self.y = PassAxis::pointwise(pixels / row);
        self.x = PassAxis::pointwise(row);
        self.image = (pixels / row, row);
        self
    }

    /// Whether each pixel gathers from itself alone.
    pub(super) fn is_flat(&self) -> bool {
        let itself = |axis: &PassAxis| (axis.taps, axis.first, axis.step, axis.size) == (1, 0, 1, axis.out);
        itself(&self.x) && itself(&self.y)
    }

    /// Runs in each row of taps.
    pub(super) fn runs(&self) -> usize {
        if self.fold { 1 } else { self.x.taps }
    }

    /// Numbers of a run.
    pub(super) fn run(&self) -> usize {
        if self.fold { self.x.taps * self.channels } else { self.channels }
    }

    /// Products in each output.
    pub(super) fn depth(&self) -> usize {
        self.y.taps * self.x.taps * self.channels
    }

    /// Where the first weight of run `(ty, tx)` lies.
    pub(super) fn weight(&self, ty: usize, tx: usize) -> usize {
        (self.y.position(ty) * self.kernel + self.x.position(tx)) * self.weights.tap
    }

    /// Rows of output pixels, of all images.
    pub(super) fn rows(&self) -> usize {
        self.batch * self.y.out
    }

    /// Where the first channel of an output pixel lies.
    pub(super) fn output(&self, image: usize, y: usize, x: usize) -> usize {
        let (height, width) = self.image;
        ((image * height + self.y.placed(y)) * width + self.x.placed(x)) * self.outputs
    }
}
