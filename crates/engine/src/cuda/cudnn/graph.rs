//! Graphs of operations on tensors of four dimensions.
//!
//! Numbers of descriptors (0 to 38) and of their attributes are those of cudnn_graph.h: of a tensor 900 to 908, a pointwise operation 750
//! to 758 and its mode 0 to 9, a product 1520 to 1523, a reduction 1610 to 1612, a reshape 2200, a convolution 100 to 106 and its
//! operations 700 to 717, attention 2800 to 2813, a graph 800 and 801.

use std::ffi::c_int;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use super::{Cudnn, CudnnDevice, CudnnHandle, For, since};
use crate::cuda::error::Result;

/// Types of attributes (cudnnBackendAttributeType_t).
pub(super) const HANDLE: c_int = 0;
const DATA_TYPE: c_int = 1;
const BOOLEAN: c_int = 2;
pub(super) const NUMBER: c_int = 3;
const FLOAT: c_int = 4;
const DOUBLE: c_int = 5;
const CONVOLUTION_MODE: c_int = 7;
const POINTWISE_MODE: c_int = 14;
pub(super) const DESCRIPTOR: c_int = 15;
const REDUCTION: c_int = 18;
pub(super) const TEXT: c_int = 24;

/// Types of elements (cudnnDataType_t).
pub(super) const F32: c_int = 0;
pub(super) const F64: c_int = 1;
pub(super) const F16: c_int = 2;
pub(super) const I32: c_int = 4;
pub(super) const BF16: c_int = 9;
pub(super) const BOOL: c_int = 11;

/// CUDNN_CROSS_CORRELATION: what networks call a convolution.
const CROSS_CORRELATION: c_int = 1;
/// Addresses of tensors are multiples of it.
pub(super) const ALIGNMENT: usize = 16;

/// One of the library's descriptors, destroyed once.
pub(super) struct Descriptor {
    library: Arc<Cudnn>,
    handle: CudnnHandle,
}

// SAFETY: plain memory of the library, which any one thread at a time may use.
unsafe impl Send for Descriptor {}

impl Descriptor {
    pub(super) fn new(library: &Arc<Cudnn>, kind: c_int) -> Result<Self> {
        let mut handle = ptr::null_mut();
        // SAFETY: as cudnn_graph.h declares it; the out-pointer is valid.
        let made = unsafe { (library.functions.describe)(kind, &mut handle) };
        library.succeeded("cudnnBackendCreateDescriptor", made)?;
        Ok(Self { library: library.clone(), handle })
    }

    /// A new one of the same library.
    pub(super) fn beside(&self, kind: c_int) -> Result<Self> {
        Self::new(&self.library, kind)
    }

    pub(super) fn handle(&self) -> CudnnHandle {
        self.handle
    }

    /// Sets an attribute to values whose type is that of the header's for `kind`.
    pub(super) fn set<T: Copy>(&self, attribute: c_int, kind: c_int, values: &[T]) -> Result<()> {
        let set = self.library.functions.set;
        // SAFETY: as cudnn_graph.h declares it: so many values are copied.
        let done = unsafe { set(self.handle, attribute, kind, values.len() as i64, values.as_ptr().cast()) };
        self.library.succeeded("cudnnBackendSetAttribute", done)
    }

    pub(super) fn refer(&self, attribute: c_int, to: &Self) -> Result<()> {
        self.set(attribute, DESCRIPTOR, &[to.handle])
    }

    pub(super) fn finish(self) -> Result<Self> {
        // SAFETY: as cudnn_graph.h declares it.
        let done = unsafe { (self.library.functions.finish)(self.handle) };
        self.library.succeeded("cudnnBackendFinalize", done)?;
        Ok(self)
    }

    /// Fills `to` with values of an attribute. How many there are.
    pub(super) fn get<T>(&self, attribute: c_int, kind: c_int, to: &mut [T]) -> Result<usize> {
        let (get, mut found) = (self.library.functions.get, 0);
        // SAFETY: as cudnn_graph.h declares it: at most so many values are written.
        let done = unsafe { get(self.handle, attribute, kind, to.len() as i64, &mut found, to.as_mut_ptr().cast()) };
        self.library.succeeded("cudnnBackendGetAttribute", done)?;
        Ok(usize::try_from(found).unwrap_or(0).min(to.len()))
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: as cudnn_graph.h declares it: what it created, destroyed once.
        unsafe { (self.library.functions.forget)(self.handle) };
    }
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Descriptor").finish_non_exhaustive()
    }
}

/// Sizes and distances of four dimensions, and the type of elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct TensorForm {
    pub(super) sizes: [usize; 4],
    pub(super) strides: [usize; 4],
    pub(super) element: c_int,
}

/// Where a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In memory of the device, whose address a run gives.
    Memory,
    /// Nowhere: between two operations.
    Between,
    /// One number in memory of the host, whose address a run gives.
    Host,
}

/// A tensor of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tensor(usize);

impl Tensor {
    /// What the library calls it.
    pub(super) fn id(self) -> i64 {
        self.0 as i64 + 1
    }
}

/// What is computed element by element (cudnnPointwiseMode_t).
#[derive(Clone, Copy, Debug)]
pub(super) enum Pointwise {
    Add = 0,
    Multiply = 1,
    Divide = 6,
    Subtract = 9,
    Exponential = 13,
    Logarithm = 15,
    Copy = 21,
    IsAtLeast = 303,
    /// The place along a dimension.
    Index = 501,
    /// The first where a third is true, else the second.
    Select = 601,
}

/// What rows are reduced by (cudnnReduceTensorOp_t).
#[derive(Clone, Copy, Debug)]
pub(super) enum Reduction {
    Sum = 0,
    Largest = 3,
}

/// A graph that is being built. Descriptors stay alive as long as what refers to them.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) library: Arc<Cudnn>,
    tensors: Vec<Descriptor>,
    operations: Vec<Descriptor>,
    modes: Vec<Descriptor>,
}

/// Which of a convolution's three tensors is computed of the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ConvolutionWay {
    /// The output.
    Forward,
    /// The gradient of the input.
    Input,
    /// The gradient of the weight.
    Weight,
}

impl Graph {
    pub(super) fn new(library: &Arc<Cudnn>) -> Self {
        Self { library: library.clone(), tensors: Vec::new(), operations: Vec::new(), modes: Vec::new() }
    }

    pub(super) fn tensor(&mut self, form: TensorForm, place: Place) -> Result<Tensor> {
        self.aligned_tensor(form, place, ALIGNMENT)
    }

    /// A tensor whose address is a multiple of this.
    pub(super) fn aligned_tensor(&mut self, form: TensorForm, place: Place, alignment: usize) -> Result<Tensor> {
        let tensor = Descriptor::new(&self.library, 17)?;
        let id = Tensor(self.tensors.len()).id();
        tensor.set(901, DATA_TYPE, &[form.element])?;
        tensor.set(902, NUMBER, &form.sizes.map(|size| size as i64))?;
        tensor.set(903, NUMBER, &form.strides.map(|stride| stride as i64))?;
        tensor.set(906, NUMBER, &[id])?;
        tensor.set(900, NUMBER, &[alignment as i64])?;
        match place {
            Place::Memory => {}
            Place::Between => tensor.set(907, BOOLEAN, &[true])?,
            Place::Host => tensor.set(908, BOOLEAN, &[true])?,
        }
        self.tensors.push(tensor.finish()?);
        Ok(Tensor(self.tensors.len() - 1))
    }

    /// A number that a run gives.
    pub(super) fn number_tensor(&mut self) -> Result<Tensor> {
        self.tensor(TensorForm { sizes: [1; 4], strides: [1; 4], element: F32 }, Place::Host)
    }

    /// `y` of x, and of further tensors as the mode has them.
    pub(super) fn pointwise(&mut self, mode: Pointwise, x: Tensor, others: &[Tensor], y: Tensor) -> Result<()> {
        self.pointwise_along(mode, None, x, others, y)
    }

    /// `y` of x along a dimension, and of further tensors as the mode has them.
    pub(super) fn pointwise_along(
        &mut self,
        mode: Pointwise,
        dimension: Option<i64>,
        x: Tensor,
        others: &[Tensor],
        y: Tensor,
    ) -> Result<()> {
        let what = Descriptor::new(&self.library, 0)?;
        what.set(0, POINTWISE_MODE, &[mode as c_int])?;
        what.set(1, DATA_TYPE, &[F32])?;
        if let Some(dimension) = dimension {
            what.set(9, NUMBER, &[dimension])?;
        }
        // Attributes of a second and a third input.
        let others = [752, 758].into_iter().zip(others.iter().copied());
        let tensors: Vec<(c_int, Tensor)> = [(751, x), (753, y)].into_iter().chain(others).collect();
        self.operation(13, Some((750, what)), &tensors)
    }

    /// `c = a b` of the last two dimensions.
    pub(super) fn product(&mut self, a: Tensor, b: Tensor, c: Tensor) -> Result<()> {
        let what = Descriptor::new(&self.library, 18)?;
        what.set(1500, DATA_TYPE, &[F32])?;
        self.operation(19, Some((1523, what)), &[(1520, a), (1521, b), (1522, c)])
    }

    /// Along the dimensions in which y has one element.
    pub(super) fn reduce(&mut self, by: Reduction, x: Tensor, y: Tensor) -> Result<()> {
        let what = Descriptor::new(&self.library, 21)?;
        what.set(1600, REDUCTION, &[by as c_int])?;
        what.set(1601, DATA_TYPE, &[F32])?;
        self.operation(22, Some((1612, what)), &[(1610, x), (1611, y)])
    }

    /// `y` with the elements of x in other sizes and strides.
    pub(super) fn reshape(&mut self, x: Tensor, y: Tensor) -> Result<()> {
        self.operation(31, None, &[(2200, x), (2201, y)])
    }

    /// A convolution of x with the weight, which gives y; or one of the gradients. `adds`: to what its result holds. Sums are of this
    /// type.
    pub(super) fn convolution(
        &mut self,
        way: ConvolutionWay,
        (stride, padding): (usize, usize),
        [x, weight, y]: [Tensor; 3],
        (sums, adds): (c_int, bool),
    ) -> Result<()> {
        let what = Descriptor::new(&self.library, 1)?;
        what.set(100, DATA_TYPE, &[sums])?;
        what.set(101, CONVOLUTION_MODE, &[CROSS_CORRELATION])?;
        what.set(106, NUMBER, &[2_i64])?;
        for (attribute, value) in [(102, 1), (103, stride), (104, padding), (105, padding)] {
            what.set(attribute, NUMBER, &[value as i64; 2])?;
        }
        // The kind of operation, and its first attribute.
        let (kind, first) = match way {
            ConvolutionWay::Forward => (10, 700),
            ConvolutionWay::Input => (12, 706),
            ConvolutionWay::Weight => (11, 712),
        };
        let what = what.finish()?;
        let operation = Descriptor::new(&self.library, kind)?;
        let factors = [1.0, f64::from(u8::from(adds))];
        for (attribute, factor) in [first, first + 1].into_iter().zip(factors) {
            match sums {
                F64 => operation.set(attribute, DOUBLE, &[factor])?,
                _ => operation.set(attribute, FLOAT, &[factor as f32])?,
            }
        }
        operation.refer(first + 2, &what)?;
        for (attribute, tensor) in (first + 3..).zip([weight, x, y]) {
            operation.refer(attribute, &self.tensors[tensor.0])?;
        }
        self.modes.push(what);
        self.operations.push(operation.finish()?);
        Ok(())
    }

    /// Attention as one operation: of query, key and value, to output and log of the sum. With a mask, all operations so far are a graph of
    /// its own, from scores to scores.
    pub(super) fn attention(
        &mut self,
        [query, key, value]: [Tensor; 3],
        [output, log_sum]: [Tensor; 2],
        scale: Tensor,
        mask: Option<[Tensor; 2]>,
    ) -> Result<()> {
        let operation = Descriptor::new(&self.library, since::ATTENTION)?;
        let tensors = [(2800, query), (2801, key), (2802, value), (2803, output), (2804, log_sum), (2805, scale)];
        for (attribute, tensor) in tensors {
            operation.refer(attribute, &self.tensors[tensor.0])?;
        }
        if let Some([scores, seen]) = mask {
            let inner = self.whole(None)?;
            operation.refer(2811, &inner)?;
            operation.set(2812, NUMBER, &[scores.id()])?;
            operation.set(2813, NUMBER, &[seen.id()])?;
            self.modes.append(&mut self.operations);
            self.modes.push(inner);
        }
        self.operations.push(operation.finish()?);
        Ok(())
    }

    /// All operations so far, as the library wants them: for a device, or inside of an operation.
    pub(super) fn whole(&self, device: Option<&CudnnDevice>) -> Result<Descriptor> {
        let whole = Descriptor::new(&self.library, 15)?;
        let operations: Vec<CudnnHandle> = self.operations.iter().map(Descriptor::handle).collect();
        whole.set(801, DESCRIPTOR, &operations)?;
        device.map_or(Ok(()), |device| device.aim(For::Graph, &whole))?;
        whole.finish()
    }

    /// All descriptors, which must live as long as a plan does.
    pub(super) fn into_parts(self) -> impl Iterator<Item = Descriptor> {
        self.tensors.into_iter().chain(self.operations).chain(self.modes)
    }

    fn operation(&mut self, kind: c_int, what: Option<(c_int, Descriptor)>, tensors: &[(c_int, Tensor)]) -> Result<()> {
        let operation = Descriptor::new(&self.library, kind)?;
        if let Some((attribute, what)) = what {
            let what = what.finish()?;
            operation.refer(attribute, &what)?;
            self.modes.push(what);
        }
        for (attribute, tensor) in tensors {
            operation.refer(*attribute, &self.tensors[tensor.0])?;
        }
        self.operations.push(operation.finish()?);
        Ok(())
    }
}
