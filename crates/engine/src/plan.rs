//! The static memory plan: where each buffer lies, from lifetimes, before the first step.
//!
//! Buffers of a step are placed greedily by size, largest first, each at the lowest place that no buffer alive at the
//! same time holds (Pisarchyk and Lee, arXiv 2001.03288, "greedy by size").

use std::collections::BTreeMap;

use crate::buffer::{Category, Lifetime};
use crate::program::Program;

/// Every place is a multiple of this: a cache line, and a vector of AVX-512.
const ALIGNMENT: usize = 64;

/// Where the buffers of a program lie in one stretch of memory: persistent ones first, one after the other in the order
/// of their ids, then those of a step.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Byte offset of each buffer.
    pub offsets: Vec<usize>,
    /// Bytes in all.
    pub bytes: usize,
    /// Bytes of persistent buffers.
    pub persistent: usize,
    /// Bytes by category when the step's buffers need the most; what lies idle between them then is counted to
    /// [`Category::Activation`], so that the sum is `bytes`.
    pub categories: BTreeMap<Category, usize>,
}

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Plans a program's memory.
pub fn plan(program: &Program) -> Plan {
    let mut offsets = vec![0; program.buffers.len()];
    let mut categories = BTreeMap::new();
    let mut persistent = 0;
    for (buffer, offset) in program.buffers.iter().zip(&mut offsets) {
        if buffer.lifetime == Lifetime::Persistent {
            *offset = persistent;
            persistent += aligned(buffer.bytes());
            *categories.entry(buffer.category).or_insert(0) += aligned(buffer.bytes());
        }
    }
    let lives = program.lifetimes();
    let mut order: Vec<usize> = (0..program.buffers.len())
        .filter(|id| program.buffers[*id].lifetime == Lifetime::Step && lives[*id].is_some())
        .collect();
    order.sort_by_key(|id| (std::cmp::Reverse(program.buffers[*id].bytes()), *id));
    // (first, last, begin, end) of what is placed.
    let mut placed: Vec<(usize, usize, usize, usize)> = Vec::new();
    let mut end = persistent;
    for id in order {
        let (first, last) = lives[id].unwrap_or((0, 0));
        let bytes = aligned(program.buffers[id].bytes());
        let mut rivals: Vec<(usize, usize)> = placed
            .iter()
            .filter(|(from, to, _, _)| *from <= last && first <= *to)
            .map(|(_, _, begin, end)| (*begin, *end))
            .collect();
        rivals.sort_unstable();
        let mut at = persistent;
        for (begin, stop) in rivals {
            if at + bytes <= begin {
                break;
            }
            at = at.max(stop);
        }
        offsets[id] = at;
        placed.push((first, last, at, at + bytes));
        end = end.max(at + bytes);
    }
    account(program, &lives, end - persistent, &mut categories);
    Plan { offsets, bytes: end, persistent, categories }
}

/// Adds what the step's buffers hold at their fullest moment.
fn account(
    program: &Program,
    lives: &[Option<(usize, usize)>],
    planned: usize,
    categories: &mut BTreeMap<Category, usize>,
) {
    let count = program.instructions.len();
    let mut change = vec![0isize; count + 1];
    let step = |id: &usize| program.buffers[*id].lifetime == Lifetime::Step;
    for id in (0..program.buffers.len()).filter(step) {
        if let Some((first, last)) = lives[id] {
            let bytes = aligned(program.buffers[id].bytes()) as isize;
            change[first] += bytes;
            change[last + 1] -= bytes;
        }
    }
    let mut held = 0;
    let mut fullest = (0, 0);
    for (at, change) in change.iter().enumerate() {
        held += change;
        if held > fullest.0 {
            fullest = (held, at);
        }
    }
    let mut counted = 0;
    for id in (0..program.buffers.len()).filter(step) {
        if lives[id].is_some_and(|(first, last)| first <= fullest.1 && fullest.1 <= last) {
            let bytes = aligned(program.buffers[id].bytes());
            *categories.entry(program.buffers[id].category).or_insert(0) += bytes;
            counted += bytes;
        }
    }
    if planned > counted {
        *categories.entry(Category::Activation).or_insert(0) += planned - counted;
    }
}
