//! How the gradients of queries are summed by tensor cores: each block of threads writes what its blocks of keys add to them, a part, and
//! the parts are summed in the order of the keys. How many there are, and how much memory they take, follows from the sizes alone.

use crate::op::Attention;

/// Bytes of a number of a part.
const NUMBER: usize = 4;
/// Features of a block of keys, in the text.
const BLOCK: usize = 8192;

/// What bounds the parts of gradients of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartLimits {
    /// Most bytes of memory for parts: what would need more has far more in the activations of its layers.
    pub bytes: usize,
    /// Fewest blocks of threads that are worth it: less would leave multiprocessors idle.
    pub blocks: usize,
}

impl Default for PartLimits {
    fn default() -> Self {
        Self { bytes: 512 << 20, blocks: 256 }
    }
}

/// How gradients of queries are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryGradients {
    /// In parts of so many blocks of keys each.
    Parts(usize),
    /// By a pass of their own, which computes the scores again: parts would take too much memory, or leave too few blocks of threads.
    Apart,
}

/// Blocks of keys.
fn blocks(op: &Attention) -> usize {
    op.sequence.div_ceil(keys_of_block(op))
}

fn keys_of_block(op: &Attention) -> usize {
    (BLOCK / op.head_width.max(1)).max(1)
}

/// Blocks of threads, where each has so many blocks of keys.
pub(super) fn blocks_of_threads(op: &Attention, joined: usize) -> usize {
    op.batch * op.kv_heads * blocks(op).div_ceil(joined.max(1))
}

/// Bytes of all parts of so many blocks of keys each. A part has rows from the first query on that sees one of its keys.
pub(super) fn bytes(op: &Attention, joined: usize) -> usize {
    let parts = blocks(op).div_ceil(joined.max(1));
    let hidden = if op.causal { parts * parts.saturating_sub(1) / 2 * joined * keys_of_block(op) } else { 0 };
    op.batch * op.heads * (parts * op.sequence - hidden) * op.head_width * NUMBER
}

impl PartLimits {
    /// How gradients of queries are computed within these limits.
    pub fn choose(&self, op: &Attention) -> QueryGradients {
        // Two blocks of keys a part halve what is summed later, where enough blocks of threads remain to fill each multiprocessor often.
        let mut joined = if blocks_of_threads(op, 2) >= 2 * self.blocks { 2 } else { 1 };
        while bytes(op, joined) > self.bytes {
            joined *= 2;
            if joined >= 2 * blocks(op) || blocks_of_threads(op, joined) < self.blocks {
                return QueryGradients::Apart;
            }
        }
        QueryGradients::Parts(joined)
    }

    /// Bytes of parts.
    pub fn scratch_bytes(&self, op: &Attention) -> usize {
        match self.choose(op) {
            QueryGradients::Parts(joined) => bytes(op, joined),
            QueryGradients::Apart => 0,
        }
    }
}
