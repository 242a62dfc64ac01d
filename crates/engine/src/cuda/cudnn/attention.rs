//! Attention as cuDNN takes it in every version 9: composed of products and element-wise operations, which the library runs as one kernel.
//! The graphs are those that its own C++ front end builds. Scores are never in memory.

use std::ffi::c_void;
use std::sync::Arc;

use device::Slice;
use terms::Dtype;

use super::CudnnDevice;
use super::graph::{ALIGNMENT, BF16, BOOL, F16, F32, Form, Graph, I32, Place, Pointwise, Reduction, Tensor};
use super::places::{Places, refused, scratch};
use super::plan::{Plan, Terms};
use crate::Memory;
use crate::cuda::{DeviceContext, ProductError};
use crate::op::{Attention, Dense};

type Result<T> = std::result::Result<T, ProductError>;

/// Which way a plan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CudnnPass {
    /// Output and log of the sum.
    Forward,
    /// Gradients. Sums for those of queries are added in an order that may change: bits may differ from run to run.
    Backward,
}

/// A pass of attention, planned for one size and one device.
#[derive(Debug)]
pub struct CudnnAttention {
    device: Arc<CudnnDevice>,
    shape: Shape,
    pass: CudnnPass,
    plan: Plan,
    tensors: Tensors,
}

/// The sizes of an operation, without its views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    batch: usize,
    sequence: usize,
    heads: usize,
    kv_heads: usize,
    width: usize,
    causal: bool,
    dtype: Dtype,
}

/// What a run gives places to.
#[derive(Debug, Default)]
struct Tensors {
    /// Of qkv, and of its gradient.
    parts: Vec<[Tensor; 3]>,
    output: Option<Tensor>,
    d_output: Option<Tensor>,
    log_sum: Option<Tensor>,
    /// `rowsum(d_output output)`, and sums of the gradients of queries.
    delta: Option<Tensor>,
    sums: Option<Tensor>,
    /// Numbers of the host.
    numbers: Vec<(Tensor, f32)>,
}

/// Where a hidden score goes: its exponential is zero.
const HIDDEN: f32 = f32::MIN;
/// What the library may take of memory for itself.
const WORKSPACE: usize = 1 << 20;
/// Parts of the scratch memory begin at multiples of it.
const APART: usize = 256;

impl Shape {
    fn of(op: &Attention, dtype: Dtype) -> Self {
        let Attention { batch, sequence, heads, kv_heads, head_width: width, causal, .. } = *op;
        Self { batch, sequence, heads, kv_heads, width, causal, dtype }
    }

    fn element(&self) -> Result<i32> {
        match self.dtype {
            Dtype::Bf16 => Ok(BF16),
            Dtype::F16 => Ok(F16),
            other => Err(ProductError::Unsupported(format!("cuDNN has attention of bf16 and f16, and not of {other}"))),
        }
    }

    fn packed(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.width
    }

    /// A head's rows in qkv, or turned: features by rows.
    fn part(&self, heads: usize, element: i32, is_turned: bool) -> Form {
        let (row, sample) = (self.packed(), self.sequence * self.packed());
        let (sizes, strides) = ([self.sequence, self.width], [row, 1]);
        let [a, b] = if is_turned { [1, 0] } else { [0, 1] };
        Form {
            sizes: [self.batch, heads, sizes[a], sizes[b]],
            strides: [sample, self.width, strides[a], strides[b]],
            element,
        }
    }

    /// As the output.
    fn output(&self, element: i32) -> Form {
        let row = self.heads * self.width;
        let sizes = [self.batch, self.heads, self.sequence, self.width];
        Form { sizes, strides: [self.sequence * row, self.width, row, 1], element }
    }

    /// A number of each row, or one of each score.
    fn scores(&self, columns: usize, element: i32) -> Form {
        let sizes = [self.batch, self.heads, self.sequence, columns];
        let of_head = self.sequence * columns;
        Form { sizes, strides: [self.heads * of_head, of_head, columns, 1], element }
    }

    fn all_scores(&self, element: i32) -> Form {
        self.scores(self.sequence, element)
    }

    /// The same with keys as rows in memory.
    fn turned_scores(&self, element: i32) -> Form {
        let Form { sizes, strides: [sample, head, row, column], .. } = self.all_scores(element);
        Form { sizes, strides: [sample, head, column, row], element }
    }

    fn scale(&self) -> f32 {
        (1.0 / (self.width as f64).sqrt()) as f32
    }

    /// What the library may take: a number of each row, so that no scores are in memory.
    fn workspace(&self) -> usize {
        WORKSPACE + self.batch * self.heads * self.sequence * 4
    }

    /// Bytes of `delta`, and of the sums of gradients of queries.
    fn scratch(&self) -> [usize; 2] {
        let rows = self.batch * self.heads * self.sequence * 4;
        [rows, rows * self.width].map(|bytes| bytes.next_multiple_of(APART))
    }
}

/// A graph and the tensors that a run names.
struct Builder {
    graph: Graph,
    shape: Shape,
    tensors: Tensors,
}

impl Builder {
    fn between(&mut self, form: Form) -> Result<Tensor> {
        self.graph.tensor(form, Place::Between)
    }

    fn number(&mut self, value: f32) -> Result<Tensor> {
        let tensor = self.graph.number()?;
        self.tensors.numbers.push((tensor, value));
        Ok(tensor)
    }

    /// A new tensor of this form: x and others, element by element.
    fn each(&mut self, mode: Pointwise, x: Tensor, others: &[Tensor], form: Form) -> Result<Tensor> {
        let y = self.between(form)?;
        self.graph.pointwise(mode, x, others, y)?;
        Ok(y)
    }

    /// Scores of keys that come after their query are replaced.
    fn hide(&mut self, scores: Tensor) -> Result<Tensor> {
        if !self.shape.causal {
            return Ok(scores);
        }
        let (hidden, shape) = (self.number(HIDDEN)?, self.shape);
        let mut places = [scores; 2];
        for (dimension, place) in [2, 3].into_iter().zip(&mut places) {
            *place = self.between(shape.all_scores(I32))?;
            self.graph.pointwise_along(Pointwise::Index, Some(dimension), scores, &[], *place)?;
        }
        let is_seen = self.each(Pointwise::IsAtLeast, places[0], &[places[1]], shape.all_scores(BOOL))?;
        self.each(Pointwise::Select, scores, &[hidden, is_seen], shape.all_scores(F32))
    }

    fn forward(mut self) -> Result<Self> {
        let (shape, element) = (self.shape, self.shape.element()?);
        let query = self.graph.tensor(shape.part(shape.heads, element, false), Place::Memory)?;
        let key = self.graph.tensor(shape.part(shape.kv_heads, element, true), Place::Memory)?;
        let value = self.graph.tensor(shape.part(shape.kv_heads, element, false), Place::Memory)?;
        let output = self.graph.tensor(shape.output(element), Place::Memory)?;
        let log_sum = self.graph.tensor(shape.scores(1, F32), Place::Memory)?;
        let (all, row) = (shape.all_scores(F32), shape.scores(1, F32));
        let scale = self.number(shape.scale())?;
        let scores = self.between(all)?;
        self.graph.product(query, key, scores)?;
        let scores = self.each(Pointwise::Multiply, scores, &[scale], all)?;
        let scores = self.hide(scores)?;
        let largest = self.between(row)?;
        self.graph.reduce(Reduction::Largest, scores, largest)?;
        let scores = self.each(Pointwise::Subtract, scores, &[largest], all)?;
        let powers = self.each(Pointwise::Exponential, scores, &[], all)?;
        let sum = self.between(row)?;
        self.graph.reduce(Reduction::Sum, powers, sum)?;
        let logarithm = self.each(Pointwise::Logarithm, sum, &[], row)?;
        self.graph.pointwise(Pointwise::Add, largest, &[logarithm], log_sum)?;
        let shares = self.each(Pointwise::Divide, powers, &[sum], shape.all_scores(element))?;
        self.graph.product(shares, value, output)?;
        self.tensors.parts.push([query, key, value]);
        (self.tensors.output, self.tensors.log_sum) = (Some(output), Some(log_sum));
        Ok(self)
    }

    /// As [`crate::op::Dense::AttentionBackward`] is computed on the host.
    fn backward(mut self) -> Result<Self> {
        let (shape, element) = (self.shape, self.shape.element()?);
        if shape.heads != shape.kv_heads {
            return Err(ProductError::Unsupported(format!(
                "cuDNN's backward pass here needs as many heads of keys as of queries: {} and {}",
                shape.kv_heads, shape.heads
            )));
        }
        let (all, row, heads) = (shape.all_scores(F32), shape.scores(1, F32), shape.heads);
        let log_sum = self.graph.tensor(row, Place::Memory)?;
        let d_output = self.graph.tensor(shape.output(element), Place::Memory)?;
        let output = self.graph.tensor(shape.output(element), Place::Memory)?;
        let [value, key] = [(); 2].map(|()| self.graph.tensor(shape.part(heads, element, true), Place::Memory));
        let [query, d_value, d_key, d_query] =
            [(); 4].map(|()| self.graph.tensor(shape.part(heads, element, false), Place::Memory));
        let (value, key, query) = (value?, key?, query?);
        let gradients = [d_query?, d_key?, d_value?];
        let (scale, one) = (self.number(shape.scale())?, self.number(1.0)?);
        // Along rows of one head: the library wants each to be dense.
        let Form { strides: [sample, _, row_stride, _], .. } = shape.output(F32);
        let strides = [sample, shape.sequence * shape.width, row_stride, 1];
        let products = self.each(Pointwise::Multiply, d_output, &[output], Form { strides, ..shape.output(F32) })?;
        let along = self.between(row)?;
        self.graph.reduce(Reduction::Sum, products, along)?;
        let delta = self.graph.tensor(row, Place::Memory)?;
        self.graph.pointwise(Pointwise::Multiply, along, &[one], delta)?;
        let scores = self.between(all)?;
        self.graph.product(query, key, scores)?;
        let scores = self.each(Pointwise::Multiply, scores, &[scale], all)?;
        let scores = self.each(Pointwise::Subtract, scores, &[log_sum], all)?;
        let scores = self.hide(scores)?;
        let p = self.each(Pointwise::Exponential, scores, &[], all)?;
        let turned = self.between(shape.turned_scores(element))?;
        self.graph.reshape(p, turned)?;
        self.graph.product(turned, d_output, gradients[2])?;
        let d_p = self.between(all)?;
        self.graph.product(d_output, value, d_p)?;
        let off = self.each(Pointwise::Subtract, d_p, &[delta], all)?;
        let weighted = self.each(Pointwise::Multiply, off, &[p], all)?;
        let d_scores = self.each(Pointwise::Multiply, weighted, &[scale], all)?;
        let turned = self.between(shape.turned_scores(element))?;
        self.graph.reshape(d_scores, turned)?;
        self.graph.product(turned, query, gradients[1])?;
        let rows = self.between(shape.part(heads, F32, false))?;
        self.graph.reshape(key, rows)?;
        let sizes = shape.output(F32).sizes;
        let of_head = shape.sequence * shape.width;
        let strides = [heads * of_head, of_head, shape.width, 1];
        let sums = self.graph.tensor(Form { sizes, strides, element: F32 }, Place::Memory)?;
        self.graph.product(d_scores, rows, sums)?;
        self.graph.pointwise(Pointwise::Copy, sums, &[], gradients[0])?;
        self.tensors.parts.extend([[query, key, value], gradients]);
        (self.tensors.output, self.tensors.d_output) = (Some(output), Some(d_output));
        (self.tensors.log_sum, self.tensors.delta, self.tensors.sums) = (Some(log_sum), Some(delta), Some(sums));
        Ok(self)
    }
}

impl CudnnAttention {
    /// Plans a pass over elements of this type.
    ///
    /// # Errors
    /// What the library says: it has no engine for some sizes. Unsupported for other types, and backward for fewer heads of keys than of
    /// queries.
    pub fn plan(device: &Arc<CudnnDevice>, op: &Attention, dtype: Dtype, pass: CudnnPass) -> Result<Self> {
        let shape = Shape::of(op, dtype);
        let builder = Builder { graph: Graph::new(&device.library), shape, tensors: Tensors::default() };
        let Builder { graph, tensors, .. } = match pass {
            CudnnPass::Forward => builder.forward()?,
            CudnnPass::Backward => builder.backward()?,
        };
        let terms = Terms { is_deterministic: false, is_exact: false, workspace: shape.workspace() };
        let plan = Plan::new(graph, device, terms)?;
        Ok(Self { device: device.clone(), shape, pass, plan, tensors })
    }

    /// Whether this runs an operation whose buffers lie there.
    pub fn fits(&self, op: &Dense, memory: &Memory) -> bool {
        let (forward, pass) = match op {
            Dense::AttentionForward(forward) => (forward, CudnnPass::Forward),
            Dense::AttentionBackward { forward, .. } => (forward, CudnnPass::Backward),
            Dense::MatMul(_) => return false,
        };
        (Shape::of(forward, memory.dtype(forward.qkv)), pass) == (self.shape, self.pass)
    }

    /// Bytes of scratch memory that any run of an operation takes at most; 0 of others.
    pub fn most_scratch_bytes(op: &Dense) -> usize {
        let (forward, own) = match op {
            Dense::AttentionForward(forward) => (forward, false),
            Dense::AttentionBackward { forward, .. } => (forward, true),
            Dense::MatMul(_) => return 0,
        };
        let shape = Shape::of(forward, Dtype::Bf16);
        shape.workspace() + if own { shape.scratch().iter().sum() } else { 0 }
    }

    /// The library's version.
    pub fn version(&self) -> String {
        self.device.library.version()
    }

    /// Bytes of scratch memory that a run takes.
    pub fn scratch_bytes(&self) -> usize {
        let own = if self.pass == CudnnPass::Backward { self.shape.scratch().iter().sum() } else { 0 };
        own + self.plan.workspace()
    }

    /// Gives the pass to the context's stream.
    ///
    /// # Errors
    /// What the library and the driver say; refused for another operation than was planned, for views of other lengths or types, for
    /// too little scratch memory, and for a device that was only described.
    pub fn run(&self, op: &Dense, context: &DeviceContext<'_>) -> Result<()> {
        let (forward, gradients, pass) = match op {
            Dense::AttentionForward(forward) => (forward, None, CudnnPass::Forward),
            Dense::AttentionBackward { forward, d_output, d_qkv } => {
                (forward, Some([*d_output, *d_qkv]), CudnnPass::Backward)
            }
            Dense::MatMul(_) => return refused("a product is not attention".to_owned()),
        };
        let found = Shape::of(forward, context.memory.dtype(forward.qkv));
        if (found, pass) != (self.shape, self.pass) {
            return refused(format!("{pass:?} of {found:?} was not planned"));
        }
        let mut places = Places::new(context);
        self.places(forward, gradients, &mut places)?;
        let [delta, sums] = self.shape.scratch();
        let mut from = 0;
        if pass == CudnnPass::Backward {
            add(&mut places, self.tensors.delta, &scratch(context, 0, delta)?, delta)?;
            let of_queries = scratch(context, delta, sums)?;
            // The library adds to them.
            of_queries.set_on(0, context.stream)?;
            add(&mut places, self.tensors.sums, &of_queries, sums)?;
            from = delta + sums;
        }
        let workspace = scratch(context, from, self.plan.workspace())?;
        let numbers = self.tensors.numbers.iter().map(|(tensor, value)| (*tensor, (&raw const *value).cast()));
        places.found.extend(numbers);
        let pack = self.plan.pack(&places.found, workspace.address() as *const c_void)?;
        self.device.execute(self.plan.descriptor(), &pack, context.stream)
    }

    /// The views' places.
    fn places(&self, op: &Attention, gradients: Option<[crate::View; 2]>, places: &mut Places<'_>) -> Result<()> {
        let Shape { batch, sequence, heads, kv_heads, width, dtype, .. } = self.shape;
        let (rows, bytes) = (batch * sequence, dtype.bytes() as usize);
        let (packed, output) = (rows * self.shape.packed(), rows * heads * width);
        let d_qkv = gradients.map(|[_, d_qkv]| d_qkv);
        for (tensors, view) in self.tensors.parts.iter().zip([Some(op.qkv), d_qkv].into_iter().flatten()) {
            let all = places.view(view, dtype, packed)?;
            for (tensor, head) in tensors.iter().zip([0, heads, heads + kv_heads]) {
                let from = head * width * bytes;
                let part = all.slice(from, all.len() - from).unwrap_or_else(|| all.clone());
                add(places, Some(*tensor), &part, 0)?;
            }
        }
        let of_output = places.view(op.output, dtype, output)?;
        add(places, self.tensors.output, &of_output, output * bytes)?;
        let log_sum = places.view(op.log_sum, Dtype::F32, rows * heads)?;
        add(places, self.tensors.log_sum, &log_sum, rows * heads * 4)?;
        if let Some([d_output, _]) = gradients {
            let d_output = places.view(d_output, dtype, output)?;
            add(places, self.tensors.d_output, &d_output, output * bytes)?;
        }
        Ok(())
    }
}

fn add(places: &mut Places<'_>, tensor: Option<Tensor>, slice: &Slice, bytes: usize) -> Result<()> {
    match tensor {
        Some(tensor) => places.add(tensor, slice, bytes, ALIGNMENT),
        None => refused("a tensor that was not planned".to_owned()),
    }
}
