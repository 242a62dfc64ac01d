//! An operation as the library's calls. Pure: addresses and counts in, calls out.
//!
//! What NCCL has no call for is made of sends and receives in one group (gather, scatter, all_to_all, all_to_allv,
//! send_recv), of two groups one after the other (ping_pong), or of a sum of one element (barrier).

use std::ffi::c_int;

use terms::{Collective, Direction, Dtype, Reduce};

use super::symbols::{NAME, Symbols};
use crate::{Call, Error, Result, Shape};

/// One call of the library. Addresses are of device memory; counts are of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// ncclAllReduce.
    AllReduce {
        /// What is reduced.
        from: *const u8,
        /// Where the result goes.
        to: *mut u8,
        /// Elements of both.
        count: u64,
    },
    /// ncclReduce to the root.
    Reduce {
        /// What is reduced.
        from: *const u8,
        /// Where the result goes on the root.
        to: *mut u8,
        /// Elements of both.
        count: u64,
        /// The root.
        root: u32,
    },
    /// ncclBroadcast from the root.
    Broadcast {
        /// What is sent, on the root.
        from: *const u8,
        /// Where it goes.
        to: *mut u8,
        /// Elements of both.
        count: u64,
        /// The root.
        root: u32,
    },
    /// ncclAllGather.
    AllGather {
        /// This rank's block.
        from: *const u8,
        /// All blocks.
        to: *mut u8,
        /// Elements of a block.
        count: u64,
    },
    /// ncclReduceScatter.
    ReduceScatter {
        /// All blocks.
        from: *const u8,
        /// This rank's block of the result.
        to: *mut u8,
        /// Elements of a block.
        count: u64,
    },
    /// ncclAlltoAll.
    AllToAll {
        /// All blocks.
        from: *const u8,
        /// Where all blocks go.
        to: *mut u8,
        /// Elements of a block.
        count: u64,
    },
    /// ncclGather to the root.
    Gather {
        /// This rank's block.
        from: *const u8,
        /// All blocks, on the root.
        to: *mut u8,
        /// Elements of a block.
        count: u64,
        /// The root.
        root: u32,
    },
    /// ncclScatter from the root.
    Scatter {
        /// All blocks, on the root.
        from: *const u8,
        /// Where this rank's block goes.
        to: *mut u8,
        /// Elements of a block.
        count: u64,
        /// The root.
        root: u32,
    },
    /// ncclSend.
    Send {
        /// What is sent.
        from: *const u8,
        /// Elements.
        count: u64,
        /// Who gets it.
        peer: u32,
    },
    /// ncclRecv.
    Recv {
        /// Where it goes.
        to: *mut u8,
        /// Elements.
        count: u64,
        /// Who sends it.
        peer: u32,
    },
}

/// Operations that the library has whole: from 2.28 on. Before, they are its sends and receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    /// ncclAlltoAll.
    pub all_to_all: bool,
    /// ncclGather.
    pub gather: bool,
    /// ncclScatter.
    pub scatter: bool,
}

impl Whole {
    /// What a library has.
    pub(super) fn from_symbols(symbols: &Symbols) -> Self {
        Self {
            all_to_all: symbols.all_to_all.is_some(),
            gather: symbols.gather.is_some(),
            scatter: symbols.scatter.is_some(),
        }
    }

    /// Whether an operation is one call.
    pub(super) fn has(self, op: Collective) -> bool {
        match op {
            Collective::AllToAll => self.all_to_all,
            Collective::Gather => self.gather,
            Collective::Scatter => self.scatter,
            _ => false,
        }
    }
}

/// ncclDataType_t. FP8 moves as bytes, which every version has; types of its own came with NCCL 2.24.
pub(super) const fn data_type(dtype: Dtype) -> c_int {
    match dtype {
        Dtype::I8 => 0,
        Dtype::U8 | Dtype::F8E4M3 | Dtype::F8E5M2 => 1,
        Dtype::I32 => 2,
        Dtype::U32 => 3,
        Dtype::I64 => 4,
        Dtype::U64 => 5,
        Dtype::F16 => 6,
        Dtype::F32 => 7,
        Dtype::F64 => 8,
        Dtype::Bf16 => 9,
    }
}

/// ncclRedOp_t.
pub(super) const fn operator(reduce: Reduce) -> c_int {
    match reduce {
        Reduce::Sum => 0,
        Reduce::Prod => 1,
        Reduce::Max => 2,
        Reduce::Min => 3,
        Reduce::Avg => 4,
    }
}

/// The groups of calls that an operation consists of on this rank, one after the other; the calls of each are launched
/// together. `scratch` is a byte of device memory, which a barrier overwrites.
///
/// # Errors
/// An invalid call; [`Error::Unsupported`] for an all_to_all in place, which the library's sends and receives would
/// overwrite before it is sent.
pub fn steps(call: &Call, shape: &Shape, scratch: *mut u8, whole: Whole) -> Result<Vec<Vec<Step>>> {
    call.validate(shape)?;
    if let Some(step) = single(call, shape, scratch, whole) {
        return Ok(vec![vec![step]]);
    }
    let count = call.count(shape);
    let (block, rank) = (count / u64::from(shape.size), shape.rank);
    match call.op {
        Collective::AllToAll if call.is_in_place() => {
            Err(Error::Unsupported { backend: NAME, what: "run all_to_all in place".to_owned() })
        }
        Collective::PingPong => Ok(ping_pong(call, rank, count)),
        _ => {
            let mut pairs = PeerPairs { call, steps: Vec::new() };
            pairs.exchange(shape, count, block);
            Ok(vec![pairs.steps])
        }
    }
}

/// The one call of the library that a valid operation is; None where it takes several.
pub(super) fn single(call: &Call, shape: &Shape, scratch: *mut u8, whole: Whole) -> Option<Step> {
    let (from, to, count) = (from_of(call), to_of(call), call.count(shape));
    let block = || count / u64::from(shape.size);
    let root = call.peer;
    match call.op {
        Collective::AllReduce => Some(Step::AllReduce { from, to, count }),
        Collective::Reduce => {
            let to = if shape.rank == root { to } else { from.cast_mut() };
            Some(Step::Reduce { from, to, count, root })
        }
        Collective::Broadcast => {
            let from = if shape.rank == root { from } else { to.cast_const() };
            Some(Step::Broadcast { from, to, count, root })
        }
        Collective::AllGather => Some(Step::AllGather { from, to, count: block() }),
        Collective::ReduceScatter => Some(Step::ReduceScatter { from, to, count: block() }),
        Collective::AllToAll if whole.all_to_all && !call.is_in_place() => {
            Some(Step::AllToAll { from, to, count: block() })
        }
        Collective::Gather if whole.gather => Some(Step::Gather { from, to, count: block(), root }),
        Collective::Scatter if whole.scatter => Some(Step::Scatter { from, to, count: block(), root }),
        Collective::Barrier => Some(Step::AllReduce { from: scratch, to: scratch, count: 1 }),
        _ => None,
    }
}

/// Where the input begins, as the library wants it.
fn from_of(call: &Call) -> *const u8 {
    call.input.address() as *const u8
}

/// Where the output begins, as the library wants it.
fn to_of(call: &Call) -> *mut u8 {
    call.output.address() as *mut u8
}

/// Steps of a message there, and only then back.
fn ping_pong(call: &Call, rank: u32, count: u64) -> Vec<Vec<Step>> {
    let peer = if rank == 0 { call.peer } else { 0 };
    if rank != 0 && rank != call.peer {
        return Vec::new();
    }
    let send = Step::Send { from: from_of(call), count, peer };
    let recv = Step::Recv { to: to_of(call), count, peer };
    match (rank, call.peer) {
        // Alone: to itself.
        (_, 0) => vec![vec![send, recv]],
        (0, _) => vec![vec![send], vec![recv]],
        _ => vec![vec![recv], vec![send]],
    }
}

/// Sends and receives of one group.
struct PeerPairs<'a> {
    call: &'a Call,
    steps: Vec<Step>,
}

impl PeerPairs<'_> {
    fn exchange(&mut self, shape: &Shape, count: u64, block: u64) {
        let (rank, ranks, root) = (shape.rank, shape.size, self.call.peer);
        let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        let others = |peer: &u32| *peer != rank;
        match self.call.op {
            // The root's own block, in place, is where it belongs already.
            Collective::Gather => {
                let there = rank == root && self.call.is_in_place();
                if !there {
                    self.send(0, block, root);
                }
                if rank == root {
                    (0..ranks).filter(|peer| !there || others(peer)).for_each(|peer| {
                        self.recv(u64::from(peer) * block, block, peer);
                    });
                }
            }
            Collective::Scatter => {
                let there = rank == root && self.call.is_in_place();
                if rank == root {
                    (0..ranks).filter(|peer| !there || others(peer)).for_each(|peer| {
                        self.send(u64::from(peer) * block, block, peer);
                    });
                }
                if !there {
                    self.recv(0, block, root);
                }
            }
            Collective::AllToAll => (0..ranks).for_each(|peer| {
                self.send(u64::from(peer) * block, block, peer);
                self.recv(u64::from(peer) * block, block, peer);
            }),
            Collective::AllToAllV => {
                let Some(counts) = self.call.counts.clone() else { return };
                (0..ranks).for_each(|peer| {
                    self.send(counts.send_offset(rank, peer), counts.get(rank, peer), peer);
                    self.recv(counts.receive_offset(peer, rank), counts.get(peer, rank), peer);
                });
            }
            // Between the same two ranks, sends and receives match in the order in which they are given.
            Collective::SendRecv if self.call.direction == Direction::BothWays => {
                let half = count / 2;
                self.send(0, half, next);
                self.send(half, half, before);
                self.recv(0, half, before);
                self.recv(half, half, next);
            }
            Collective::SendRecv => {
                self.send(0, count, next);
                self.recv(0, count, before);
            }
            _ => {}
        }
    }

    /// Sends so many elements; neither end makes a call for nothing.
    fn send(&mut self, offset: u64, count: u64, peer: u32) {
        let from = from_of(self.call).wrapping_add(self.bytes(offset));
        self.steps.extend((count > 0).then_some(Step::Send { from, count, peer }));
    }

    fn recv(&mut self, offset: u64, count: u64, peer: u32) {
        let to = to_of(self.call).wrapping_add(self.bytes(offset));
        self.steps.extend((count > 0).then_some(Step::Recv { to, count, peer }));
    }

    fn bytes(&self, elements: u64) -> usize {
        (elements * self.call.dtype.bytes()) as usize
    }
}
