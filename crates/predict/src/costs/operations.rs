//! The time of an operation.

use std::collections::HashMap;

use engine::{Kind, OperationShape};
use record::{ConstantName, KernelTime, MachineProfile};
use terms::Dtype;

use super::Costs;
use super::curve::Points;

/// Rows and columns of a tile of a product on a GPU.
const TILE: u64 = 128;
/// Share of its rate that a product keeps in rounds of tiles that are not full: libraries cut long sums among multiprocessors
/// that would idle.
const LAST_ROUND: f64 = 0.8;
/// Share of its rate that a product keeps whose rows no 16-byte load reaches.
const UNALIGNED: f64 = 0.6;
/// Share of its rate that a product of attention keeps, where scores are kept in memory, if no 16-byte load reaches its rows: these are
/// products of small batches, for which libraries of 2022 had no such kernel that uses tensor cores. Heads of 108 columns beside those of
/// 96, 144 and 216, on 384 A100 (bigscience, tr11-176B-ml/chronicles-prequel.md): steps that take 30% to 39% longer give 1/15 to 1/17.
const UNALIGNED_SCORES: f64 = 0.065;
/// Each tile of a product on a GPU fills its pipeline and writes its result in the time of so many more products in each sum.
const DEPTH_ON_GPU: f64 = 64.0;
/// Share of a product's memory traffic that its arithmetic does not hide.
const EXPOSED: f64 = 0.5;
/// A product that is wider or longer than this is wide.
const WIDE: u64 = 1 << 15;
/// How often each score of attention is read or written, where scores are kept in memory: products, softmax, dropout with its mask.
const SCORE_PASSES: [f64; 2] = [6.0, 8.5];
/// Kernels of attention, where scores are kept in memory: each way.
const SCORE_KERNELS: [f64; 2] = [4.0, 7.0];

/// The gap between two operations on a device over the time in which the host starts one. Assumed.
const GAP: f64 = 0.4;

/// What an operation takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OperationTime {
    /// Seconds of work.
    pub work_s: f64,
    /// Seconds in which the host starts it. Starts run ahead of the device where its work takes longer.
    pub start_s: f64,
    /// Seconds between this operation and the next on the device, however far ahead the host is.
    pub gap_s: f64,
}

impl Costs<'_> {
    /// The time of an operation. `joins`: bytes that are not read again because the product before it computes it.
    pub fn operation(&self, shape: &OperationShape, kind: Kind, joins: Option<u64>) -> OperationTime {
        if self.is_fused(shape.kernel) {
            return OperationTime::default();
        }
        let joins = joins.filter(|_| self.habits.epilogues && self.profile.multiprocessors > 0);
        let measured = self.kernels.get(&(shape.kernel, shape.dtype));
        let work_s = match measured {
            Some(points) => {
                work(shape.kernel, &shape.dims, traffic(self.profile, shape.dtype)) * points.at(&shape.dims)
            }
            None => self.modelled(shape, kind, joins),
        };
        let kernels = match (self.habits.scores_in_memory, shape.kernel) {
            (true, "attention_forward") => SCORE_KERNELS[0],
            (true, "attention_backward") => SCORE_KERNELS[1],
            _ => 1.0,
        };
        let start_s =
            if joins.is_some() || measured.is_some() { 0.0 } else { kernels * self.get(ConstantName::OperationTime) };
        OperationTime { work_s, start_s, gap_s: GAP * start_s }
    }

    /// Whether another operation does its work as well.
    fn is_fused(&self, kernel: &str) -> bool {
        self.habits.fused_additions && matches!(kernel, "add_bias" | "dropout")
    }

    /// The time that constants give.
    fn modelled(&self, shape: &OperationShape, kind: Kind, joins: Option<u64>) -> f64 {
        let bytes = (shape.bytes - joins.unwrap_or(0).min(shape.bytes)) as f64;
        let memory = bytes / self.get(ConstantName::MemoryRate);
        match kind {
            Kind::Products => self.product(shape, memory),
            Kind::Attention => self.attention(shape, memory),
            Kind::Convolutions => (shape.flops / self.rate(shape)).max(memory),
            _ => memory,
        }
    }

    /// Operations a second of large products of this type: a GPU multiplies f32 and f64 at a share of the rate of 16-bit types.
    fn rate(&self, shape: &OperationShape) -> f64 {
        let of_type = match (self.profile.multiprocessors > 0, shape.dtype) {
            (true, Dtype::F32) => 0.125,
            (true, Dtype::F64) => 0.06,
            (false, Dtype::F64) => 0.5,
            _ => 1.0,
        };
        self.get(ConstantName::ProductRate) * of_type
    }

    /// A product loads and stores its tiles beside multiplying.
    fn product(&self, shape: &OperationShape, memory: f64) -> f64 {
        let &[m, n, k, ..] = shape.dims.as_slice() else { return memory };
        let (mut share, mut depth) = (1.0, 0.0);
        if self.profile.multiprocessors > 0 {
            depth = DEPTH_ON_GPU;
            let tiles = (m.div_ceil(TILE) * n.div_ceil(TILE)) as f64;
            let rounds = tiles / f64::from(self.profile.multiprocessors);
            share *= (m * n) as f64 / (tiles * (TILE * TILE) as f64);
            share *= (rounds / rounds.ceil()).max(LAST_ROUND);
            if [m, n, k].iter().any(|size| !size.is_multiple_of(8)) {
                share *= UNALIGNED;
            }
            if [m, n, k].iter().any(|size| *size > WIDE) {
                share *= self.get(ConstantName::WideProductShare);
            }
        }
        let flops = shape.flops / share * (1.0 + depth / k.max(1) as f64) + self.get(ConstantName::ProductRamp);
        flops / self.rate(shape) + EXPOSED * memory
    }

    fn attention(&self, shape: &OperationShape, memory: f64) -> f64 {
        let rate = self.rate(shape) * self.get(ConstantName::AttentionShare);
        if !self.habits.scores_in_memory {
            return (shape.flops / rate).max(memory);
        }
        let &[batch, sequence, heads, _, width, _] = shape.dims.as_slice() else { return memory };
        let is_backward = usize::from(shape.kernel == "attention_backward");
        // Scores that a causal mask hides are computed, too.
        let scores = (batch * heads * sequence * sequence) as f64;
        let is_slow = self.profile.multiprocessors > 0 && !width.is_multiple_of(8);
        let share = if is_slow { UNALIGNED_SCORES } else { 1.0 };
        let flops = 4.0 * scores * width as f64 * (1 + is_backward) as f64 / share;
        let bytes = scores * SCORE_PASSES[is_backward] * shape.dtype.bytes() as f64;
        flops / rate + bytes / self.get(ConstantName::MemoryRate) + memory
    }

    /// How far this operation is from what was measured of its kernel; None where nothing was.
    pub fn distance(&self, shape: &OperationShape) -> Option<f64> {
        self.kernels.get(&(shape.kernel, shape.dtype))?.distance(&shape.dims)
    }
}

/// The measured points of each kernel and type, for the number of ranks that is nearest to this.
pub(super) fn measured(profile: &MachineProfile, ranks: u32) -> HashMap<(&str, Dtype), Points> {
    let mut nearest: HashMap<(&str, Dtype), u32> = HashMap::new();
    for KernelTime { kernel, dtype, ranks: of, .. } in &profile.kernels {
        let known = nearest.entry((kernel, *dtype)).or_insert(*of);
        if of.abs_diff(ranks) < known.abs_diff(ranks) {
            *known = *of;
        }
    }
    let mut found: HashMap<(&str, Dtype), Points> = HashMap::new();
    for KernelTime { kernel, dtype, dims, ranks: of, seconds, .. } in &profile.kernels {
        let key = (kernel.as_str(), *dtype);
        if nearest.get(&key) == Some(of) {
            found.entry(key).or_default().add(dims, seconds / work(kernel, dims, traffic(profile, *dtype)));
        }
    }
    found
}

/// Multiplications in the time in which one element moves: what makes products of few rows as slow as their weights' way.
fn traffic(profile: &MachineProfile, dtype: Dtype) -> f64 {
    let of = |name| profile.constant(name).map_or(0.0, |constant| constant.value);
    let (rate, memory) = (of(ConstantName::ProductRate), of(ConstantName::MemoryRate));
    if memory > 0.0 { rate / 2.0 * dtype.bytes() as f64 / memory } else { 0.0 }
}

/// What the time of a kernel is about proportional to, from its sizes (see [`engine::OperationShape`]); at least one. `traffic`: what
/// moving one element counts beside multiplying.
fn work(kernel: &str, dims: &[u64], traffic: f64) -> f64 {
    let of = |at: usize| dims.get(at).copied().unwrap_or(1).max(1) as f64;
    let first = |count: usize| (0..count).map(of).product::<f64>();
    match kernel {
        _ if kernel.starts_with("product") => first(3) + traffic * (of(0) * of(1) + of(1) * of(2) + of(0) * of(2)),
        _ if kernel.starts_with("attention") => of(0) * of(1) * of(1) * of(2) * of(4),
        // The number of kernel elements counts in both directions, and strides leave out pixels.
        _ if kernel.starts_with("conv_") => {
            let (pixels, weights) = (of(6) * of(7), of(1) * of(2) * of(3) * of(3));
            let moved = weights + of(0) * pixels * (of(1) + of(2) / (of(4) * of(4)));
            of(0) * weights * pixels / (of(4) * of(4)) + traffic * moved
        }
        _ if kernel.contains("pool") => of(0) * of(1) * of(5) * of(6),
        "rotary" => of(0) * (of(1) + 2.0 * of(2)) * of(3),
        "fill"
        | "add"
        | "relu_forward"
        | "relu_backward"
        | "convert"
        | "gelu_forward"
        | "gelu_backward"
        | "dropout"
        | "sum_squares"
        | "sgd"
        | "adamw"
        | "batch_norm_parameters" => of(0),
        "begin_norm" | "judge" | "end_step" => 1.0,
        _ => first(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::Constants;
    use crate::machines::machine;
    use crate::software::Software;

    /// Seconds of attention with scores in memory, with so many heads of so many columns.
    fn attention(heads: u64, width: u64) -> f64 {
        let profile = machine("a100-nvlink").unwrap().profile();
        let constants = Software::Megatron.constants(Constants::of(&profile));
        let costs = Costs::new(&profile, constants, Software::Megatron, 8);
        let (batch, sequence) = (4, 2048);
        let shape = OperationShape {
            kernel: "attention_forward",
            dims: vec![batch, sequence, heads, heads, width, 1],
            dtype: Dtype::F16,
            flops: 2.0 * (batch * heads * sequence * sequence * width) as f64,
            bytes: 8 * batch * sequence * heads * width,
        };
        costs.operation(&shape, Kind::Attention, None).work_s
    }

    #[test]
    fn heads_that_no_16_byte_load_reaches_are_slow() {
        // All have 1,728 columns.
        let (narrow, odd, wide) = (attention(18, 96), attention(16, 108), attention(12, 144));
        assert!(narrow > wide, "fewer heads have fewer scores: {narrow} {wide}");
        assert!(odd > 2.0 * narrow, "{odd} {narrow}");
    }
}
