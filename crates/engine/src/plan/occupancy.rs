//! Which bytes are taken at which moments: a segment tree over time.
//!
//! Each node keeps the bytes of its moments as joined ranges, so that a place is found in a few looks where many buffers
//! lie side by side. A list of all buffers makes planning quadratic: a step of 20,000 buffers then takes 200 million looks.

use std::cell::Cell;
use std::collections::BTreeMap;

/// Taken bytes: begin to end, neither overlapping nor touching.
#[derive(Clone, Debug, Default)]
struct Ranges(BTreeMap<usize, usize>);

impl Ranges {
    fn add(&mut self, mut begin: usize, mut end: usize) {
        if let Some((from, to)) = self.0.range(..=begin).next_back().filter(|(_, to)| **to >= begin) {
            (begin, end) = (*from, end.max(*to));
        }
        while let Some((from, to)) = self.0.range(begin..=end).next().map(|(from, to)| (*from, *to)) {
            self.0.remove(&from);
            end = end.max(to);
        }
        self.0.insert(begin, end);
    }

    /// Where the last taken range between these two ends. No place from `begin` up to there is free.
    fn last_end(&self, begin: usize, end: usize) -> Option<usize> {
        self.0.range(..end).next_back().map(|(_, to)| *to).filter(|to| *to > begin)
    }
}

/// A node of the tree: some consecutive moments.
#[derive(Clone, Debug, Default)]
struct MomentNode {
    /// Bytes that are taken at all of its moments, by buffers that were entered at this node.
    throughout: Ranges,
    /// Bytes that are taken at some of its moments, by buffers that were entered here or below.
    sometimes: Ranges,
}

/// See the module's documentation.
pub struct Occupancy {
    /// First and last moments of all buffers, ascending: the leaves.
    moments: Vec<usize>,
    nodes: Vec<MomentNode>,
    /// How often a node was asked.
    looks: Cell<usize>,
}

impl Occupancy {
    /// An empty one. `moments`: every first and last moment that will be named, in any order.
    pub fn new(mut moments: Vec<usize>) -> Self {
        moments.sort_unstable();
        moments.dedup();
        let nodes = vec![MomentNode::default(); 2 * moments.len().next_power_of_two()];
        Self { moments, nodes, looks: Cell::new(0) }
    }

    /// The lowest place from `from` up where `bytes` are free from moment `first` to `last`.
    pub fn lowest(&self, from: usize, bytes: usize, (first, last): (usize, usize)) -> usize {
        let (first, last) = self.leaves(first, last);
        let above = above(first).chain(above(last)).map(|node| &self.nodes[node].throughout);
        let inside = inside(first, last).into_iter().map(|node| &self.nodes[node].sometimes);
        let taken: Vec<&Ranges> = above.chain(inside).collect();
        let mut at = from;
        loop {
            let before = at;
            for ranges in &taken {
                self.looks.set(self.looks.get() + 1);
                at = ranges.last_end(at, at + bytes).unwrap_or(at);
            }
            if at == before {
                return at;
            }
        }
    }

    /// Takes the bytes from `begin` to `end` from moment `first` to `last`.
    pub fn take(&mut self, begin: usize, end: usize, (first, last): (usize, usize)) {
        if begin == end {
            return;
        }
        let (first, last) = self.leaves(first, last);
        for node in inside(first, last) {
            self.nodes[node].throughout.add(begin, end);
            self.nodes[node].sometimes.add(begin, end);
        }
        for node in above(first).chain(above(last)) {
            self.nodes[node].sometimes.add(begin, end);
        }
    }

    /// How often [`Self::lowest`] asked a node, in all.
    pub fn looks(&self) -> usize {
        self.looks.get()
    }

    fn leaves(&self, first: usize, last: usize) -> (usize, usize) {
        let leaf = |moment| self.nodes.len() / 2 + self.moments.partition_point(|known| *known < moment);
        (leaf(first), leaf(last))
    }
}

/// A leaf and all nodes above it.
fn above(leaf: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(leaf), |node| Some(node / 2)).take_while(|node| *node > 0)
}

/// The fewest nodes that together are the leaves from `first` to `last`.
fn inside(first: usize, last: usize) -> Vec<usize> {
    let (mut left, mut right) = (first, last + 1);
    let mut nodes = Vec::new();
    while left < right {
        if left % 2 == 1 {
            nodes.push(left);
            left += 1;
        }
        if right % 2 == 1 {
            right -= 1;
            nodes.push(right);
        }
        (left, right) = (left / 2, right / 2);
    }
    nodes
}
