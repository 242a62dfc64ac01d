//! Attention on a GPU: both products of a panel by the library, for as many heads at once as their scores have room, and a kernel that
//! turns scores into weights between them.

use std::cell::RefCell;
use std::ops::Range;

use device::{Region, Slice};
use engine::cuda::{Batch, Form, Operands};
use measure::Failure;

use super::{refused, unmultiplied};
use crate::task::Task;

/// Bytes of scores that are held at a time, at most.
const SCORES: usize = 256 << 20;

/// What a rank's GPU computes attention with.
pub(crate) struct OnGpu {
    rows: usize,
    width: usize,
    /// Scores of some heads, or of some queries of a head: `[head][key][query]`.
    scores: Slice,
    /// The largest score of each query, the sum of weights so far, and what is left of its weights.
    states: Slice,
    kept: Slice,
    /// Whether a head has seen a panel in this call.
    seen: RefCell<Vec<bool>>,
}

/// Queries of some heads that are computed at once.
struct QueryPart {
    heads: Range<usize>,
    queries: Range<usize>,
}

impl OnGpu {
    /// Allocates.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn new(task: &Task, gpu: &super::OnGpu) -> Result<Self, Failure> {
        let (heads, rows, width) = (task.n, task.rows(), task.k);
        let floats = |count: usize| Region::cuda(gpu.gpu(), 4 * count).map(|region| region.whole()).map_err(refused);
        let of_head = rows * rows;
        let most = SCORES / 4;
        let scores = floats((heads * of_head).min(most.max(rows)))?;
        let (states, kept, seen) = (floats(2 * heads * rows)?, floats(heads * rows)?, RefCell::new(vec![false; heads]));
        Ok(Self { rows, width, scores, states, kept, seen })
    }

    /// Nothing is seen yet.
    pub(crate) fn begin(&self, gpu: &super::OnGpu) -> Result<(), Failure> {
        self.seen.borrow_mut().fill(false);
        gpu.rows().begin_states(&self.states, gpu.beside()).map_err(unmultiplied)
    }

    /// Takes in a panel's heads, which begin at element `at` of its memory; the first of them is `heads.start`.
    pub(crate) fn see(
        &self,
        gpu: &super::OnGpu,
        [queries, panel, output]: [&Slice; 3],
        at: usize,
        heads: Range<usize>,
    ) -> Result<(), Failure> {
        let (rows, width, first) = (self.rows, self.width, heads.start);
        let scale = 1.0 / (width as f32).sqrt();
        // Of a head that has seen nothing yet, the output is whatever a call before has left.
        let is_fresh = !self.seen.borrow()[first];
        for part in self.parts(heads.clone()) {
            let (count, own) = (part.heads.len(), part.queries.len());
            let line = part.heads.start * rows + part.queries.start;
            let keys = at + (part.heads.start - first) * 2 * rows * width;
            let states = floats(&self.states, 2 * line, 2 * count * own)?;
            let kept = floats(&self.kept, line, count * own)?;
            let result = floats(output, line * width, count * own * width)?;
            let batch = |strides| Some(Batch { count, strides });
            let plain = |sizes| Form::new(gpu.arithmetic(), sizes);
            let scores = Form {
                b_transposed: true,
                batch: batch([2 * rows * width, rows * width, rows * own]),
                ..plain([rows, own, width])
            };
            let values = Form {
                a_transposed: true,
                accumulate: !is_fresh,
                batch: batch([rows * own, 2 * rows * width, rows * width]),
                ..plain([own, width, rows])
            };
            let multiply = |form: &Form, a: &Slice, b: &Slice, c: &Slice| {
                gpu.multiply_form(form, &Operands { a, b, c, bias: None, auxiliary: None })
            };
            let ends = |form: &Form, place: usize| form.elements()[place];
            let key = floats(panel, keys, ends(&scores, 0))?;
            let query = floats(queries, line * width, ends(&scores, 1))?;
            multiply(&scores, &key, &query, &self.scores)?;
            let sizes = [count, own, rows];
            gpu.rows().weigh(sizes, scale, [&self.scores, &states, &kept], gpu.beside()).map_err(unmultiplied)?;
            if !is_fresh {
                gpu.rows().scale(width, false, [&result, &kept], gpu.beside()).map_err(unmultiplied)?;
            }
            let value = floats(panel, keys + rows * width, ends(&values, 1))?;
            multiply(&values, &self.scores, &value, &floats(output, line * width, ends(&values, 2))?)?;
        }
        self.seen.borrow_mut()[heads].fill(true);
        Ok(())
    }

    /// Divides by the sums of weights.
    pub(crate) fn end(&self, gpu: &super::OnGpu, output: &Slice) -> Result<(), Failure> {
        gpu.rows().scale(self.width, true, [output, &self.states], gpu.beside()).map_err(unmultiplied)
    }

    /// Parts whose scores have room.
    fn parts(&self, heads: Range<usize>) -> Vec<QueryPart> {
        let room = self.scores.len() / 4;
        let together = (room / (self.rows * self.rows)).clamp(1, heads.len().max(1));
        let queries = (room / (together * self.rows)).clamp(1, self.rows);
        let mut parts = Vec::new();
        for first in heads.clone().step_by(together) {
            let group = first..(first + together).min(heads.end);
            for begin in (0..self.rows).step_by(queries) {
                parts.push(QueryPart { heads: group.clone(), queries: begin..(begin + queries).min(self.rows) });
            }
        }
        parts
    }
}

/// So many f32 of a buffer, from one on.
fn floats(of: &Slice, begin: usize, len: usize) -> Result<Slice, Failure> {
    of.slice(4 * begin, 4 * len).ok_or_else(|| Failure::new("attention reaches outside of its buffers"))
}
