//! The static memory plan: where each buffer lies, from lifetimes, before the first step.
//!
//! Buffers of a step are placed greedily by size, largest first, each at the lowest place that no buffer alive at the
//! same time holds (Pisarchyk and Lee, arXiv 2001.03288, "greedy by size").

pub(crate) mod occupancy;

use std::collections::BTreeMap;

use self::occupancy::Occupancy;
use crate::buffer::{Category, Lifetime};
use crate::program::{Instruction, Program};

/// Every place is a multiple of this: a cache line, and a vector of AVX-512.
const ALIGNMENT: usize = 64;

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferPlace {
    /// Whether in the memory that peers reach, because some exchange names it.
    pub shared: bool,
    /// Byte offset there.
    pub offset: usize,
}

/// Where the buffers of a program lie, in two stretches of memory: one that peers reach, one that they do not. In each,
/// persistent buffers come first, in the order of their ids, then those of a step.
#[derive(Clone, Debug)]
pub struct MemoryPlan {
    /// Place of each buffer.
    pub places: Vec<BufferPlace>,
    /// Bytes of the memory that peers reach.
    pub shared: usize,
    /// Bytes of the rest.
    pub private: usize,
    /// Bytes by category when the step's buffers need the most; what lies idle between them then is counted to
    /// [`Category::Activation`], so that the sum is all bytes.
    pub categories: BTreeMap<Category, usize>,
}

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Plans a program's memory.
pub fn plan(program: &Program) -> MemoryPlan {
    let lives = program.lifetimes();
    let mut places: Vec<BufferPlace> =
        shared(program).into_iter().map(|shared| BufferPlace { shared, offset: 0 }).collect();
    let mut categories = BTreeMap::new();
    let mut persistent = 0;
    for buffer in program.buffers.iter().filter(|buffer| buffer.lifetime == Lifetime::Persistent) {
        *categories.entry(buffer.category).or_insert(0) += aligned(buffer.bytes());
        persistent += aligned(buffer.bytes());
    }
    let private = stretch(program, &lives, &mut places, false);
    let shared = stretch(program, &lives, &mut places, true);
    account(program, &lives, private + shared - persistent, &mut categories);
    MemoryPlan { places, shared, private, categories }
}

/// Whether some exchange names each buffer.
fn shared(program: &Program) -> Vec<bool> {
    let mut shared = vec![false; program.buffers.len()];
    for instruction in &program.instructions {
        if let Instruction::Start { exchange, .. } = instruction {
            shared[exchange.input.buffer.0 as usize] = true;
            shared[exchange.output.buffer.0 as usize] = true;
        }
    }
    shared
}

/// Places the buffers of one stretch; gives its bytes.
fn stretch(program: &Program, lives: &[Option<(usize, usize)>], places: &mut [BufferPlace], shared: bool) -> usize {
    let mut persistent = 0;
    for (buffer, place) in program.buffers.iter().zip(&mut *places) {
        if place.shared == shared && buffer.lifetime == Lifetime::Persistent {
            place.offset = persistent;
            persistent += aligned(buffer.bytes());
        }
    }
    let of_step = |id: &usize| {
        places[*id].shared == shared && program.buffers[*id].lifetime == Lifetime::Step && lives[*id].is_some()
    };
    let mut order: Vec<usize> = (0..program.buffers.len()).filter(of_step).collect();
    order.sort_by_key(|id| (std::cmp::Reverse(program.buffers[*id].bytes()), *id));
    let moments = order.iter().filter_map(|id| lives[*id]).flat_map(|(first, last)| [first, last]).collect();
    let mut occupancy = Occupancy::new(moments);
    let mut end = persistent;
    for id in order {
        let life = lives[id].unwrap_or((0, 0));
        let bytes = aligned(program.buffers[id].bytes());
        let at = occupancy.lowest(persistent, bytes, life);
        occupancy.take(at, at + bytes, life);
        places[id].offset = at;
        end = end.max(at + bytes);
    }
    end
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
