//! A whole step as data: operations, exchanges, and the buffers that they name.

use std::collections::HashMap;
use std::ops::Range;

use crate::buffer::{Buffer, BufferId, Category, Lifetime, View};
use crate::op::Op;
use terms::Dtype;

/// Along which axis of a mesh data is exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// Among replicas.
    Data,
    /// Among the parts of a tensor group.
    Tensor,
    /// Between a stage and the next: link k joins stage k and stage k + 1 (the last joins the last and the first).
    Link(u32),
    /// Between the first and the last stage: what a tied parameter needs.
    Ends,
    /// Among all.
    World,
}

/// What is exchanged. Layouts as in `comm`'s table; all views in place where input = output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExchangeKind {
    /// The sum, on all.
    Sum,
    /// The maximum, on all.
    Max,
    /// Everybody's block, on all.
    AllGather,
    /// The sum; each keeps its block.
    ReduceScatter,
    /// From the link's lower end (`up`) to its upper end, or down.
    Transfer {
        /// Whether from the lower stage to the upper.
        up: bool,
    },
}

/// Data that crosses parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// Along which axis.
    pub axis: Axis,
    /// What.
    pub kind: ExchangeKind,
    /// What this part gives; equal to the output where in place.
    pub input: View,
    /// What this part gets.
    pub output: View,
}

/// What a stretch of a step is for: step time by phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Forward pass.
    Forward,
    /// Backward pass, recomputed forward passes included.
    Backward,
    /// Optimizer.
    Optimizer,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Instruction {
    /// Run an operation.
    Run(Op),
    /// Begin an exchange. Exchanges of one axis begin in the same order on all parts.
    Start {
        /// Names it until it is finished.
        ticket: u32,
        /// What.
        exchange: Exchange,
    },
    /// Wait until it is complete.
    Finish {
        /// Ticket of the exchange.
        ticket: u32,
    },
    /// From here on, time belongs to this phase.
    Enter(Phase),
}

/// A step.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Buffers of the step, by id.
    pub buffers: Vec<Buffer>,
    /// Instructions of the step, in order.
    pub instructions: Vec<Instruction>,
    /// Exchanges so far.
    tickets: u32,
}

impl Program {
    /// A new buffer, as a view of all of it.
    pub fn buffer(&mut self, category: Category, lifetime: Lifetime, dtype: Dtype, len: usize) -> View {
        let buffer = BufferId(self.buffers.len() as u32);
        self.buffers.push(Buffer { category, lifetime, dtype, len });
        View { buffer, offset: 0, len }
    }

    /// The type of a view's elements.
    pub fn dtype(&self, view: View) -> Dtype {
        self.buffers[view.buffer.0 as usize].dtype
    }

    /// The operations among these instructions, with their places.
    pub fn operations(&self, stretch: Range<usize>) -> impl Iterator<Item = (usize, &Op)> {
        let first = stretch.start;
        self.instructions[stretch].iter().enumerate().filter_map(move |(at, instruction)| match instruction {
            Instruction::Run(op) => Some((first + at, op)),
            _ => None,
        })
    }

    /// Appends an operation.
    pub fn run(&mut self, op: Op) {
        self.instructions.push(Instruction::Run(op));
    }

    /// Appends the begin of an exchange, and gives its ticket.
    pub fn start(&mut self, exchange: Exchange) -> u32 {
        let ticket = self.tickets;
        self.tickets += 1;
        self.instructions.push(Instruction::Start { ticket, exchange });
        ticket
    }

    /// Appends the end of an exchange.
    pub fn finish(&mut self, ticket: u32) {
        self.instructions.push(Instruction::Finish { ticket });
    }

    /// Appends an exchange that is finished at once.
    pub fn exchange(&mut self, exchange: Exchange) {
        let ticket = self.start(exchange);
        self.finish(ticket);
    }

    /// How many tickets there are.
    pub fn tickets(&self) -> usize {
        self.tickets as usize
    }

    /// First and last instruction that names each buffer; an exchange names its buffers until it is finished.
    pub fn lifetimes(&self) -> Vec<Option<(usize, usize)>> {
        let mut lives: Vec<Option<(usize, usize)>> = vec![None; self.buffers.len()];
        let mut touch = |view: View, at: usize| {
            let life = &mut lives[view.buffer.0 as usize];
            *life = Some(life.map_or((at, at), |(first, _)| (first, at)));
        };
        let mut open: HashMap<u32, &Exchange> = HashMap::new();
        for (at, instruction) in self.instructions.iter().enumerate() {
            match instruction {
                Instruction::Run(op) => op.for_each_view(&mut |view| touch(view, at)),
                Instruction::Start { ticket, exchange } => {
                    touch(exchange.input, at);
                    touch(exchange.output, at);
                    open.insert(*ticket, exchange);
                }
                Instruction::Finish { ticket } => {
                    if let Some(exchange) = open.remove(ticket) {
                        touch(exchange.input, at);
                        touch(exchange.output, at);
                    }
                }
                Instruction::Enter(_) => {}
            }
        }
        lives
    }
}
