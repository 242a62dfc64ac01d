//! Gradients of a block's values while its backward pass is written: several readers of a value add to one gradient, and
//! a sum gives the same gradient to both of its inputs without copying it.

use std::collections::HashMap;

use model::Value;

use super::{Emit, Tensor};
use crate::op::Rows;

/// See the module's documentation.
pub struct Gradients {
    /// Gradients of values with producers that are still to come.
    pending: HashMap<Value, Tensor>,
    /// Whether anybody wants the gradient of the block's input.
    input: bool,
}

impl Gradients {
    pub(super) fn new(input: bool) -> Self {
        Self { pending: HashMap::new(), input }
    }

    /// Whether a value's gradient is needed at all.
    pub(super) fn wants(&self, value: Value) -> bool {
        value != Value::Input || self.input
    }

    /// Whether no other value's pending gradient lies in the same memory.
    fn alone(&self, value: Value, tensor: Tensor) -> bool {
        self.pending.iter().all(|(other, held)| *other == value || held.view.buffer != tensor.view.buffer)
    }

    /// The gradient of a value, complete: its producer comes next. None when nobody read the value.
    pub(super) fn take(&mut self, value: Value) -> Option<Tensor> {
        self.pending.remove(&value)
    }

    /// As [`Gradients::take`], in memory that may be overwritten.
    pub(super) fn take_to_change(&mut self, emit: &mut Emit<'_>, value: Value) -> Option<Tensor> {
        let tensor = self.pending.remove(&value)?;
        Some(if self.alone(value, tensor) { tensor } else { copy(emit, tensor) })
    }

    /// Adds a gradient that lies in memory of its own, or that others hold too (`Add`).
    pub(super) fn give(&mut self, emit: &mut Emit<'_>, value: Value, gradient: Tensor) {
        if !self.wants(value) {
            return;
        }
        let Some(held) = self.pending.get(&value).copied() else {
            self.pending.insert(value, gradient);
            return;
        };
        // Sums go into memory that is nobody else's: what is held, what is given, or a new one.
        let y = if self.alone(value, held) && held.view.buffer != gradient.view.buffer {
            held
        } else if self.alone(value, gradient) && held.view.buffer != gradient.view.buffer {
            gradient
        } else {
            emit.like(held)
        };
        emit.rows(Rows::Add { a: held.view, b: gradient.view, y: y.view });
        self.pending.insert(value, y);
    }

    /// Where an operation that can add writes a value's gradient, and whether it must add.
    pub(super) fn target(&mut self, emit: &mut Emit<'_>, value: Value, like: Tensor) -> (Tensor, bool) {
        let Some(held) = self.pending.get(&value).copied() else {
            let fresh = emit.like(like);
            self.pending.insert(value, fresh);
            return (fresh, false);
        };
        if self.alone(value, held) {
            return (held, true);
        }
        let own = copy(emit, held);
        self.pending.insert(value, own);
        (own, true)
    }
}

fn copy(emit: &mut Emit<'_>, tensor: Tensor) -> Tensor {
    let own = emit.like(tensor);
    emit.rows(Rows::Convert { x: tensor.view, y: own.view });
    own
}
