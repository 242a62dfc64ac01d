//! Convolutions by cuDNN, each a graph of one operation, planned once for each size. Images and weights have their channels next to each
//! other. What is planned gives the same bits every time.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Arc;

use device::Slice;
use model::Conv2d;
use terms::Dtype;

use super::CudnnDevice;
use super::graph::{ALIGNMENT, BF16, ConvolutionWay, F16, F32, F64, Graph, Place, Tensor, TensorForm};
use super::places::{TensorPlaces, refused, scratch};
use super::plan::{Plan, Terms};
use crate::View;
use crate::cuda::error::Result;
use crate::cuda::{DeviceContext, ProductError};
use crate::memory::Memory;
use crate::op::Spatial;

/// Convolutions of a program.
#[derive(Debug)]
pub struct CudnnConvolutions {
    device: Arc<CudnnDevice>,
    planned: HashMap<ConvolutionKey, Planned>,
}

/// What a plan is made for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ConvolutionKey {
    way: ConvolutionWay,
    shape: Conv2d,
    batch: usize,
    dtype: Dtype,
    /// To what the result holds.
    adds: bool,
    /// Alignments of input, weight and output.
    alignments: [usize; 3],
}

#[derive(Debug)]
struct Planned {
    plan: Plan,
    tensors: [Tensor; 3],
}

/// An operation: input, weight and output, or their gradients.
struct Of<'a> {
    way: ConvolutionWay,
    shape: &'a Conv2d,
    batch: usize,
    views: [View; 3],
    accumulate: bool,
}

/// Parts of the scratch memory begin at multiples of it.
const APART: usize = 256;
/// What a run may take besides its tensors: so much, and as much as images that the library turns around for engines that want channels
/// apart. Engines for 16 bits turn at most one of input and output; those without tensor cores turn both.
const WORKSPACE: usize = 32 << 20;

impl<'a> Of<'a> {
    fn new(op: &'a Spatial) -> Result<Self> {
        let (way, shape, batch, views, accumulate) = match op {
            Spatial::ConvForward { shape, batch, x, weight, y } => {
                (ConvolutionWay::Forward, shape, *batch, [*x, *weight, *y], false)
            }
            Spatial::ConvBackwardInput { shape, batch, dy, weight, dx, accumulate } => {
                (ConvolutionWay::Input, shape, *batch, [*dx, *weight, *dy], *accumulate)
            }
            Spatial::ConvBackwardWeight { shape, batch, x, dy, d_weight, accumulate } => {
                (ConvolutionWay::Weight, shape, *batch, [*x, *d_weight, *dy], *accumulate)
            }
            other => return refused(format!("{other:?} is not a convolution")),
        };
        Ok(Self { way, shape, batch, views, accumulate })
    }

    /// Elements of input, weight and output.
    fn counts(&self) -> [usize; 3] {
        let ((height, width), shape) = (self.shape.output(), self.shape);
        [
            self.batch * shape.height * shape.width * shape.inputs,
            shape.outputs * shape.kernel * shape.kernel * shape.inputs,
            self.batch * height * width * shape.outputs,
        ]
    }

    /// What images are of.
    fn dtype(&self, memory: &Memory) -> Dtype {
        memory.dtype(self.views[2])
    }

    /// Whether the library's result must be widened: it has no gradient of a weight that is wider than its images.
    fn is_widened(&self, dtype: Dtype) -> bool {
        self.way == ConvolutionWay::Weight && dtype.bytes() < 4
    }

    /// Bytes of the weight's gradient as the library gives it, and of the same in f32 before it is added.
    fn own(&self, bytes: usize) -> [usize; 2] {
        let count = self.counts()[1];
        let is_widened = self.way == ConvolutionWay::Weight && bytes < 4;
        [if is_widened { count * bytes } else { 0 }, if is_widened && self.accumulate { count * 4 } else { 0 }]
            .map(|bytes| bytes.next_multiple_of(APART))
    }

    /// The most that a run may take besides.
    fn workspace(&self, bytes: usize) -> usize {
        let [input, _, output] = self.counts();
        let images = (input + output) * bytes;
        WORKSPACE + if bytes < 4 { images / 2 } else { images }
    }

    fn key(&self, memory: &Memory) -> ConvolutionKey {
        let dtype = self.dtype(memory);
        let aligned = |view: &View| {
            let address = memory.slice(*view).address();
            1 << address.trailing_zeros().min(ALIGNMENT.trailing_zeros())
        };
        let mut alignments = [0, 1, 2].map(|place| aligned(&self.views[place]));
        if self.is_widened(dtype) {
            alignments[1] = ALIGNMENT;
        }
        let adds = self.accumulate && !self.is_widened(dtype);
        ConvolutionKey { way: self.way, shape: self.shape.clone(), batch: self.batch, dtype, adds, alignments }
    }
}

impl ConvolutionKey {
    /// The type of elements, and that of sums.
    fn types(&self) -> Result<(c_int, c_int)> {
        match self.dtype {
            Dtype::F64 => Ok((F64, F64)),
            Dtype::F32 => Ok((F32, F32)),
            Dtype::F16 => Ok((F16, F32)),
            Dtype::Bf16 => Ok((BF16, F32)),
            other => Err(ProductError::Unsupported(format!("cuDNN has no convolutions of {other}"))),
        }
    }

    /// Sizes as the library has them: channels before rows and columns, wherever they lie.
    fn forms(&self, element: c_int) -> [TensorForm; 3] {
        let Conv2d { inputs, outputs, kernel, height, width, .. } = self.shape;
        let (rows, columns) = self.shape.output();
        [[self.batch, inputs, height, width], [outputs, inputs, kernel, kernel], [self.batch, outputs, rows, columns]]
            .map(|sizes| {
                let [_, channels, rows, columns] = sizes;
                TensorForm { sizes, strides: [rows * columns * channels, 1, columns * channels, channels], element }
            })
    }

    fn plan(&self, device: &CudnnDevice, workspace: usize) -> Result<Planned> {
        let (element, sums) = self.types()?;
        let mut graph = Graph::new(&device.library);
        let mut tensors = Vec::new();
        for (form, alignment) in self.forms(element).into_iter().zip(self.alignments) {
            tensors.push(graph.aligned_tensor(form, Place::Memory, alignment)?);
        }
        let tensors = [tensors[0], tensors[1], tensors[2]];
        graph.convolution(self.way, (self.shape.stride, self.shape.padding), tensors, (sums, self.adds))?;
        let terms = Terms { is_deterministic: true, is_exact: self.dtype == Dtype::F32, workspace };
        let plan = Plan::new(graph, device, terms);
        let plan = plan.map_err(|error| match error {
            ProductError::Unsupported(why) => ProductError::Unsupported(format!("{why}: {}", self.text())),
            error => error,
        })?;
        Ok(Planned { plan, tensors })
    }

    fn text(&self) -> String {
        let Conv2d { inputs, outputs, kernel, stride, height, width, .. } = self.shape;
        let what = match self.way {
            ConvolutionWay::Forward => "a convolution",
            ConvolutionWay::Input => "a convolution's gradient of its input",
            ConvolutionWay::Weight => "a convolution's gradient of its weight",
        };
        format!(
            "{what}, {kernel} x {kernel} by {stride}, of {} images of {height} x {width} from {inputs} to {outputs} channels in {}",
            self.batch, self.dtype
        )
    }
}

impl CudnnConvolutions {
    /// None yet.
    pub fn new(device: &Arc<CudnnDevice>) -> Self {
        Self { device: device.clone(), planned: HashMap::new() }
    }

    /// Plans an operation, if none of its kind and sizes is.
    ///
    /// # Errors
    /// Unsupported: the library has no engine that gives the same bits every time, within [`Self::scratch_bytes`]; for f32, none that
    /// does not round to TF32.
    pub fn plan(&mut self, op: &Spatial, memory: &Memory) -> Result<()> {
        let of = Of::new(op)?;
        let key = of.key(memory);
        if !self.planned.contains_key(&key) {
            let planned = key.plan(&self.device, of.workspace(key.dtype.bytes() as usize));
            let planned = planned.map_err(|error| self.device.library.untaken(error))?;
            self.planned.insert(key, planned);
        }
        Ok(())
    }

    /// Bytes of scratch memory that a run takes at most, for images of so many bytes an element. 0 of other operations.
    pub fn scratch_bytes(op: &Spatial, bytes: usize) -> usize {
        Of::new(op).map_or(0, |of| of.own(bytes).iter().sum::<usize>() + of.workspace(bytes))
    }

    /// Gives a planned operation to the context's stream. A gradient of a weight that is narrower than its view is left in scratch
    /// memory, and the place is returned: it is to be widened, through `wide` where it is to be added.
    ///
    /// # Errors
    /// What the library and the driver say; refused for what was not planned, for views of other lengths or types, for too little scratch
    /// memory, and for a device that was only described.
    pub fn run(&self, op: &Spatial, context: &DeviceContext<'_>) -> Result<Option<Narrow>> {
        let of = Of::new(op)?;
        let key = of.key(context.memory);
        let Some(planned) = self.planned.get(&key) else {
            return refused(format!("{} was not planned", key.text()));
        };
        let (bytes, counts) = (key.dtype.bytes() as usize, of.counts());
        let [result, wide] = of.own(bytes);
        let narrow = match of.is_widened(key.dtype) {
            true => Some(Narrow {
                gradient: scratch(context, 0, counts[1] * bytes)?,
                wide: scratch(context, result, wide)?,
                dtype: key.dtype,
            }),
            false => None,
        };
        let mut places = TensorPlaces::new(context);
        for (place, view) in of.views.into_iter().enumerate() {
            let slice = match &narrow {
                Some(narrow) if place == 1 => narrow.gradient.clone(),
                _ => places.view(view, key.dtype, counts[place])?,
            };
            places.add(planned.tensors[place], &slice, counts[place] * bytes, key.alignments[place])?;
        }
        let workspace = scratch(context, result + wide, planned.plan.workspace())?;
        let pack = planned.plan.pack(&places.found, workspace.address() as *const _)?;
        self.device.execute(planned.plan.descriptor(), &pack, context.stream)?;
        Ok(narrow)
    }

    /// The library's version.
    pub fn version(&self) -> String {
        self.device.library.version()
    }
}

/// A gradient that is narrower than where it belongs.
#[derive(Clone, Debug)]
pub struct Narrow {
    /// Elements of the gradient.
    pub gradient: Slice,
    /// Room for the same in f32, where it is to be added.
    pub wide: Slice,
    /// Type of the gradient.
    pub dtype: Dtype,
}
