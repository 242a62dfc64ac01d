//! How a stage's parameters are laid out: in units, in the order in which their gradients become final.
//!
//! A unit is what is exchanged at once: a bucket of consecutive parameters, or, where gradients or parameters are cut
//! among replicas, all parameters of a block.

use std::collections::{BTreeSet, HashMap, HashSet};

use engine::View;
use engine::layers::{logits_node, padded};
use model::{Block, Layer, Model, Parameter, Part, Shard};
use terms::Dtype;

/// Parameters begin at multiples of this many elements: a vector of AVX-512, a cache line of f32.
const ALIGNMENT: usize = 16;

/// A parameter as one part of a tensor group holds it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) parameter: Parameter,
    /// First element within the unit.
    pub(crate) offset: usize,
    /// Elements.
    pub(crate) len: usize,
    /// Elements with the padding that belongs to them: zeros.
    pub(crate) room: usize,
    /// Whether another rank answers for it in sums over all parameters: it is the last stage's copy of a tied one.
    pub(crate) copy: bool,
}

impl Held {
    /// What of it lies in this shard of its unit, the `number`th of equal ones.
    pub(crate) fn part_of(&self, shard: View, number: usize) -> Option<View> {
        let begin = number * shard.len;
        let from = self.offset.max(begin);
        let to = (self.offset + self.len).min(begin + shard.len);
        (from < to).then(|| shard.part(from - begin, to - from))
    }

    /// Whether every part of a tensor group holds all of it.
    pub(crate) fn whole(&self) -> bool {
        self.parameter.shard == Shard::Whole
    }
}

/// Parameters that exchange their gradients at once.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) held: Vec<Held>,
    /// Elements, padding included: a multiple of the number of replicas.
    pub(crate) len: usize,
    /// Blocks (indices of the model) with a backward pass that writes to its gradients.
    pub(crate) writers: BTreeSet<usize>,
    /// Whether it holds a tied parameter that another stage holds too.
    pub(crate) tied_across: bool,
}

impl Unit {
    /// The elements that no parameter holds, as (offset, length).
    pub(crate) fn gaps(&self) -> Vec<(usize, usize)> {
        let mut at = 0;
        let mut gaps = Vec::new();
        for held in &self.held {
            if held.offset > at {
                gaps.push((at, held.offset - at));
            }
            at = held.offset + held.len;
        }
        if self.len > at {
            gaps.push((at, self.len - at));
        }
        gaps
    }
}

/// What decides the layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) part: Part,
    pub(crate) replicas: usize,
    pub(crate) state: Dtype,
    pub(crate) bucket_bytes: usize,
    /// One unit a block, whatever its size.
    pub(crate) by_block: bool,
    /// See [`padded`].
    pub(crate) logits_multiple: usize,
}

/// The names of parameters that a block borrows from others.
pub(crate) fn borrowed(block: &Block) -> Vec<String> {
    let tied = |node: &model::Node| match &node.layer {
        Layer::Linear(layer) => layer.tied.clone(),
        _ => None,
    };
    block.nodes.iter().filter_map(tied).collect()
}

/// The weight and the bias of the layer that makes logits, where this block has it.
fn of_logits(block: &Block) -> Vec<String> {
    let Some(node) = logits_node(block).map(|place| &block.nodes[place]) else { return Vec::new() };
    let own = node.parameters(&block.name).into_iter().map(|parameter| parameter.name);
    match &node.layer {
        Layer::Linear(layer) => own.chain(layer.tied.clone()).collect(),
        _ => Vec::new(),
    }
}

/// The units of a stage that holds these blocks of the model.
pub(crate) fn units(model: &Model, blocks: &BTreeSet<usize>, rules: Rules) -> Vec<Unit> {
    let mut borrowers: HashMap<String, BTreeSet<usize>> = HashMap::new();
    for (at, block) in model.blocks.iter().enumerate() {
        for name in borrowed(block) {
            borrowers.entry(name).or_default().insert(at);
        }
    }
    // Few parameters are borrowed, and most models have their owner first: no other block's parameters are listed.
    let owner = |name: &str| {
        let owned = model.blocks.iter().enumerate().filter(|(_, block)| name.starts_with(&block.name));
        owned
            .flat_map(|(at, block)| block.parameters().into_iter().map(move |held| (at, held)))
            .find(|(_, held)| held.name == name)
    };
    let of_logits = model.blocks.iter().flat_map(of_logits).collect();
    let mut made = Units { rules, of_logits, units: Vec::new(), open: None };
    for block in blocks.iter().rev() {
        if rules.by_block {
            made.close();
        }
        for name in borrowed(&model.blocks[*block]) {
            let Some((owner, parameter)) = owner(&name).filter(|(owner, _)| !blocks.contains(owner)) else {
                continue;
            };
            debug_assert_ne!(owner, *block);
            made.close();
            made.add(parameter, BTreeSet::from([*block]), true, true);
            made.close();
        }
        // Gradients of later nodes become final first.
        for parameter in model.blocks[*block].parameters().into_iter().rev() {
            let all = borrowers.get(&parameter.name).cloned().unwrap_or_default();
            let across = all.iter().any(|borrower| !blocks.contains(borrower));
            let mut writers: BTreeSet<usize> = all.intersection(blocks).copied().collect();
            writers.insert(*block);
            if across {
                made.close();
            }
            made.add(parameter, writers, false, across);
            if across {
                made.close();
            }
        }
    }
    made.close();
    made.units
}

struct Units {
    rules: Rules,
    /// Parameters that are padded with the rows of logits.
    of_logits: HashSet<String>,
    units: Vec<Unit>,
    open: Option<Unit>,
}

impl Units {
    fn add(&mut self, parameter: Parameter, writers: BTreeSet<usize>, copy: bool, across: bool) {
        let empty = || Unit { held: Vec::new(), len: 0, writers: BTreeSet::new(), tied_across: false };
        let unit = self.open.get_or_insert_with(empty);
        let len = parameter.part_len(self.rules.part);
        let rows = parameter.part_shape(self.rules.part)[0];
        let room = match self.of_logits.contains(&parameter.name) {
            true => len / rows.max(1) * padded(rows, self.rules.logits_multiple),
            false => len,
        };
        unit.held.push(Held { parameter, offset: unit.len, len, room, copy });
        unit.len = (unit.len + room).next_multiple_of(ALIGNMENT);
        unit.writers.extend(writers);
        unit.tied_across |= across;
        if !self.rules.by_block && unit.len * self.rules.state.bytes() as usize >= self.rules.bucket_bytes {
            self.close();
        }
    }

    fn close(&mut self) {
        if let Some(mut unit) = self.open.take() {
            unit.len = unit.len.next_multiple_of(ALIGNMENT * self.rules.replicas);
            self.units.push(unit);
        }
    }
}
