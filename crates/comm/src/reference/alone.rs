//! One operation among all ranks in one thread: what each rank gets, from the inputs of all. The pieces and the arithmetic
//! are those of the engine; inputs are asked for where a piece of them is needed, so they need not be in memory.

use terms::Collective;

use super::arithmetic;
use super::engine::{InputPiece, PieceTarget, block_piece, has_blocks, pieces};
use crate::Operation;

/// Bytes of all ranks' inputs that are reduced at a time.
const WINDOW_BYTES: u64 = 8 << 20;

/// Writes a rank's input from this element on.
pub type Inputs<'a> = &'a dyn Fn(u32, u64, &mut [u8]);

/// An operation among so many ranks.
pub struct Alone<'a> {
    operation: &'a Operation,
    ranks: u32,
    inputs: Inputs<'a>,
    /// Where ranks get the whole result of a reduction: that result.
    reduced: Vec<u8>,
    /// Where senders have no block for each receiver: pieces for all receivers, and those for one, each with its sender.
    for_all: Vec<(u32, InputPiece)>,
    for_one: Vec<Vec<(u32, InputPiece)>>,
}

impl<'a> Alone<'a> {
    /// The operation, with the inputs of all ranks.
    pub fn new(operation: &'a Operation, ranks: u32, inputs: Inputs<'a>) -> Self {
        let mut alone =
            Self { operation, ranks, inputs, reduced: Vec::new(), for_all: Vec::new(), for_one: Vec::new() };
        if has_blocks(operation.op) {
            return alone;
        }
        if operation.op.reduces() {
            alone.reduced = alone.reduce(0, operation.count);
        }
        alone.for_one.resize(ranks as usize, Vec::new());
        for from in alone.senders() {
            for piece in pieces(operation, from, ranks) {
                match piece.target {
                    PieceTarget::All => alone.for_all.push((from, piece)),
                    PieceTarget::One(to) => alone.for_one[to as usize].push((from, piece)),
                }
            }
        }
        alone
    }

    /// Who has something to give. In a reduction, pieces of all ranks are alike: those of one stand for the result.
    fn senders(&self) -> std::ops::Range<u32> {
        match self.operation.op {
            Collective::Scatter => self.operation.peer..self.operation.peer + 1,
            op if op.reduces() => 0..1,
            _ => 0..self.ranks,
        }
    }

    /// So many elements of the inputs of all ranks, folded stretch by stretch.
    fn reduce(&self, begin: u64, count: u64) -> Vec<u8> {
        let (element, mut reduced) = (self.operation.dtype.bytes(), Vec::new());
        let stretch = (WINDOW_BYTES / element / u64::from(self.ranks)).clamp(1, count.max(1));
        let mut inputs = vec![0; (stretch * element) as usize * self.ranks as usize];
        for done in (0..count).step_by(stretch as usize) {
            let bytes = ((count - done).min(stretch) * element) as usize;
            let inputs = &mut inputs[..bytes * self.ranks as usize];
            (0..)
                .zip(inputs.chunks_exact_mut(bytes))
                .for_each(|(rank, input)| (self.inputs)(rank, begin + done, input));
            let all: Vec<&[u8]> = inputs.chunks_exact(bytes).collect();
            arithmetic::reduce(self.operation.dtype, self.operation.reduce, &all, &mut reduced);
        }
        reduced
    }

    /// Writes what `rank` gets into its output, and leaves the rest of it alone.
    pub fn deliver(&self, rank: u32, output: &mut [u8]) {
        if !has_blocks(self.operation.op) {
            let own = &self.for_one[rank as usize];
            return self.for_all.iter().chain(own).for_each(|(from, piece)| self.write(*from, piece, output));
        }
        for from in self.senders() {
            if let Some(piece) = block_piece(self.operation, from, rank, self.ranks) {
                self.write(from, &piece, output);
            }
        }
    }

    fn write(&self, from: u32, piece: &InputPiece, output: &mut [u8]) {
        let element = self.operation.dtype.bytes();
        let [at, len] = [piece.output, piece.len].map(|elements| (elements * element) as usize);
        let output = &mut output[at..at + len];
        match self.operation.op {
            Collective::ReduceScatter => output.copy_from_slice(&self.reduce(piece.input, piece.len)),
            op if op.reduces() => output.copy_from_slice(&self.reduced),
            _ => (self.inputs)(from, piece.input, output),
        }
    }
}
