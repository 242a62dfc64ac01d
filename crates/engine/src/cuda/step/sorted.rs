//! Rows of each batch by their tokens, sorted on the host when the batch is written: the gradient of an embedding then adds in a
//! fixed order without atomics.

use std::collections::HashMap;
use std::sync::Arc;

use device::Slice;
use device::cuda::Gpu;

use super::errors::{refused, region};
use crate::cuda::sorted_rows;
use crate::op::{Op, Rows};
use crate::{BufferId, Error, Program, View};

/// Which tokens, the first entry of the table, and how many entries.
type SortedTokens = (View, usize, usize);

/// See the module's documentation.
pub(super) struct Sorted {
    all: HashMap<SortedTokens, Slice>,
    /// What was written, of each buffer of tokens.
    tokens: HashMap<BufferId, Vec<i32>>,
    /// Buffers that were written since they were last sorted.
    changed: Vec<BufferId>,
}

/// The rows that an operation adds by their tokens.
pub(super) fn key(op: &Op) -> Option<SortedTokens> {
    match op {
        Op::Rows(Rows::EmbeddingBackward { tokens, d_table, width, first, .. }) => {
            Some((*tokens, *first, d_table.len / (*width).max(1)))
        }
        _ => None,
    }
}

fn keys(program: &Program) -> Vec<SortedTokens> {
    let mut keys: Vec<SortedTokens> = Vec::new();
    for key in program.operations(0..program.instructions.len()).filter_map(|(_, op)| key(op)) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// Bytes of the list of so many tokens.
fn bytes_of(tokens: View) -> usize {
    4 * (3 * tokens.len + 1)
}

impl Sorted {
    /// Bytes that a program takes.
    pub(super) fn bytes(program: &Program) -> usize {
        keys(program).iter().map(|(tokens, ..)| bytes_of(*tokens).next_multiple_of(256)).sum()
    }

    pub(super) fn new(gpu: &Arc<Gpu>, program: &Program) -> Result<Self, Error> {
        let keys = keys(program);
        let all = region(gpu, Self::bytes(program))?;
        let mut own = Self { all: HashMap::new(), tokens: HashMap::new(), changed: Vec::new() };
        let mut at = 0;
        for key in keys {
            let (tokens, bytes) = (key.0, bytes_of(key.0));
            let place = all.slice(at, bytes).ok_or_else(|| Error::Device("sorted rows have no place".to_owned()))?;
            at += bytes.next_multiple_of(256);
            own.all.insert(key, place);
            own.tokens.insert(tokens.buffer, vec![0; program.buffers[tokens.buffer.0 as usize].len]);
            own.changed.push(tokens.buffer);
        }
        Ok(own)
    }

    /// Where the rows of an operation lie.
    pub(super) fn rows_of(&self, op: &Op) -> Option<&Slice> {
        self.all.get(&key(op)?)
    }

    /// Notes what was written to a view.
    pub(super) fn note(&mut self, view: View, bytes: &[u8]) {
        let Some(tokens) = self.tokens.get_mut(&view.buffer) else { return };
        for (to, from) in tokens[view.offset..].iter_mut().zip(bytes.chunks_exact(4)) {
            *to = i32::from_ne_bytes([from[0], from[1], from[2], from[3]]);
        }
        if !self.changed.contains(&view.buffer) {
            self.changed.push(view.buffer);
        }
    }

    /// Sorts what was written since, and gives each list with its place.
    pub(super) fn sort_changed(
        &mut self,
        mut give: impl FnMut(&Slice, &[u32]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Self { all, tokens, changed } = self;
        for ((view, first, count), place) in all.iter().filter(|((view, ..), _)| changed.contains(&view.buffer)) {
            let own = &tokens[&view.buffer][view.offset..view.offset + view.len];
            give(place, &sorted_rows(own, *first, *count).map_err(refused)?)?;
        }
        changed.clear();
        Ok(())
    }
}
