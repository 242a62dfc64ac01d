//! Graphs of attention. Those that are composed of products and element-wise operations are taken by every version 9, and are those that
//! the library's own C++ front end builds; the single operation with a mask by 9.21 and later. That of gradients
//! (CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR) has no engine in 9.26 for sm_80, 90, 100 and 120.

use std::sync::Arc;

use super::{AttentionShape, Tensors};
use crate::cuda::ProductError;
use crate::cuda::cudnn::graph::{BOOL, F32, Graph, I32, Place, Pointwise, Reduction, Tensor, TensorForm};
use crate::cuda::cudnn::{Cudnn, since};
use crate::cuda::error::Result;

/// Where a hidden score goes: its exponential is zero.
const HIDDEN: f32 = f32::MIN;

/// A graph and the tensors that a run names.
pub(super) struct Builder {
    graph: Graph,
    shape: AttentionShape,
    tensors: Tensors,
}

/// A complete graph of attention, and the tensors that a run names.
pub(super) struct Built {
    pub(super) graph: Graph,
    pub(super) tensors: Tensors,
    pub(super) is_single: bool,
}

impl Builder {
    pub(super) fn new(library: &Arc<Cudnn>, shape: AttentionShape) -> Self {
        Self { graph: Graph::new(library), shape, tensors: Tensors::default() }
    }

    fn built(self, is_single: bool) -> Built {
        Built { graph: self.graph, tensors: self.tensors, is_single }
    }

    fn between(&mut self, form: TensorForm) -> Result<Tensor> {
        self.graph.tensor(form, Place::Between)
    }

    fn number_tensor(&mut self, value: f32) -> Result<Tensor> {
        let tensor = self.graph.number_tensor()?;
        self.tensors.numbers.push((tensor, value));
        Ok(tensor)
    }

    /// A new tensor of this form: x and others, element by element.
    fn each(&mut self, mode: Pointwise, x: Tensor, others: &[Tensor], form: TensorForm) -> Result<Tensor> {
        let y = self.between(form)?;
        self.graph.pointwise(mode, x, others, y)?;
        Ok(y)
    }

    /// Scores of keys that come after their query are replaced.
    fn hide(&mut self, scores: Tensor) -> Result<Tensor> {
        if !self.shape.causal {
            return Ok(scores);
        }
        let (hidden, shape) = (self.number_tensor(HIDDEN)?, self.shape);
        let mut places = [scores; 2];
        for (dimension, place) in [2, 3].into_iter().zip(&mut places) {
            *place = self.between(shape.all_scores(I32))?;
            self.graph.pointwise_along(Pointwise::Index, Some(dimension), scores, &[], *place)?;
        }
        let is_seen = self.each(Pointwise::IsAtLeast, places[0], &[places[1]], shape.all_scores(BOOL))?;
        self.each(Pointwise::Select, scores, &[hidden, is_seen], shape.all_scores(F32))
    }

    /// One operation, with the mask as a graph inside of it.
    pub(super) fn single(mut self) -> Result<Built> {
        let (shape, element) = (self.shape, self.shape.element()?);
        let needed = if shape.causal { since::MASK } else { since::SINGLE };
        if !self.graph.library.has(&needed) {
            return Err(ProductError::Unsupported(needed.lacks(&self.graph.library.version())));
        }
        let query = self.graph.tensor(shape.part(shape.heads, element, false), Place::Memory)?;
        let [key, value] =
            [(); 2].map(|()| self.graph.tensor(shape.part(shape.kv_heads, element, false), Place::Memory));
        let (key, value) = (key?, value?);
        let output = self.graph.tensor(shape.output(element), Place::Memory)?;
        let log_sum = self.graph.tensor(shape.scores(1, F32), Place::Memory)?;
        let scale = self.number_tensor(shape.scale())?;
        let mask = match shape.causal {
            true => {
                let scores = self.between(shape.all_scores(F32))?;
                let seen = self.hide(scores)?;
                Some([scores, seen])
            }
            false => None,
        };
        self.graph.attention([query, key, value], [output, log_sum], scale, mask)?;
        self.tensors.parts.push([query, key, value]);
        (self.tensors.output, self.tensors.log_sum) = (Some(output), Some(log_sum));
        Ok(self.built(true))
    }

    /// Composed of products and element-wise operations, which the library runs as one kernel.
    pub(super) fn forward(mut self) -> Result<Built> {
        let (shape, element) = (self.shape, self.shape.element()?);
        let query = self.graph.tensor(shape.part(shape.heads, element, false), Place::Memory)?;
        let key = self.graph.tensor(shape.part(shape.kv_heads, element, true), Place::Memory)?;
        let value = self.graph.tensor(shape.part(shape.kv_heads, element, false), Place::Memory)?;
        let output = self.graph.tensor(shape.output(element), Place::Memory)?;
        let log_sum = self.graph.tensor(shape.scores(1, F32), Place::Memory)?;
        let (all, row) = (shape.all_scores(F32), shape.scores(1, F32));
        let scale = self.number_tensor(shape.scale())?;
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
        Ok(self.built(false))
    }

    /// As [`crate::op::Dense::AttentionBackward`] is computed on the host.
    pub(super) fn backward(mut self) -> Result<Built> {
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
        let (scale, one) = (self.number_tensor(shape.scale())?, self.number_tensor(1.0)?);
        // Along rows of one head: the library wants each to be dense.
        let TensorForm { strides: [sample, _, row_stride, _], .. } = shape.output(F32);
        let strides = [sample, shape.sequence * shape.width, row_stride, 1];
        let products =
            self.each(Pointwise::Multiply, d_output, &[output], TensorForm { strides, ..shape.output(F32) })?;
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
        let sums = self.graph.tensor(TensorForm { sizes, strides, element: F32 }, Place::Memory)?;
        self.graph.product(d_scores, rows, sums)?;
        self.graph.pointwise(Pointwise::Copy, sums, &[], gradients[0])?;
        self.tensors.parts.extend([[query, key, value], gradients]);
        (self.tensors.output, self.tensors.d_output) = (Some(output), Some(d_output));
        (self.tensors.log_sum, self.tensors.delta, self.tensors.sums) = (Some(log_sum), Some(delta), Some(sums));
        Ok(self.built(false))
    }
}
