//! The time of an operation.

use std::collections::HashMap;

use engine::{Kind, OperationShape};
use record::{ConstantName, KernelTime, MachineProfile};
use terms::Dtype;

use super::Costs;
use super::curve::{Points, logarithms};

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

/// Products, by what lies transposed. On a host all of them copy their operands into tiles first: what one takes says much of another.
const PRODUCTS: [&str; 4] = ["product_nn", "product_nt", "product_tn", "product_tt"];
/// How far a product is from another of the same sizes whose operands lie otherwise, as if a size differed by a factor of 1.35.
const OTHER_LAYOUT: f64 = 0.3;
/// Rows and columns of a tile of f32 on AMX. Products compute whole ones; those with a shorter side do not run there.
const TILE_ON_AMX: f64 = 32.0;

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
                let work = work(shape.kernel, &shape.dims, ProductWork::new(self.profile, shape.dtype));
                work * points.at(&place(shape.kernel, shape.kernel, &shape.dims))
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
}

/// The measured points of each kernel and type, for the number of ranks that is nearest to this. Products have those of all products.
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
        if nearest.get(&(kernel.as_str(), *dtype)) != Some(of) {
            continue;
        }
        let rate = seconds / work(kernel, dims, ProductWork::new(profile, *dtype));
        let own = [kernel.as_str()];
        let told: &[&str] = if PRODUCTS.contains(&own[0]) { &PRODUCTS } else { &own };
        for other in told {
            found.entry((*other, *dtype)).or_default().add(place(kernel, other, dims), rate);
        }
    }
    found
}

/// Where the time of a kernel lies among those that tell what `of` takes. That of a product depends on its multiplications for each
/// number that it moves, and on how many these are: which caches hold them. Few rows of large weights are far from many rows then,
/// even if two of three sizes are the same.
fn place(kernel: &str, of: &str, dims: &[u64]) -> Vec<f64> {
    let (true, [m, n, k, flags @ ..]) = (PRODUCTS.contains(&kernel), dims) else { return logarithms(dims) };
    let [m, n, k] = [m, n, k].map(|size| (*size).max(1) as f64);
    let moved = m * n + n * k + m * k;
    let mut place = vec![(moved / (m * n * k)).ln(), moved.ln(), if kernel == of { 0.0 } else { OTHER_LAYOUT }];
    place.extend(logarithms(flags));
    place
}

/// What the time of products depends on beside their sizes.
#[derive(Clone, Copy)]
struct ProductWork {
    /// Multiplications in the time in which one element moves: what makes products of few rows as slow as their weights' way.
    traffic: f64,
    /// Rows and columns that are computed at once.
    tile: f64,
}

impl ProductWork {
    fn new(profile: &MachineProfile, dtype: Dtype) -> Self {
        let of = |name| profile.constant(name).map_or(0.0, |constant| constant.value);
        let (rate, memory) = (of(ConstantName::ProductRate), of(ConstantName::MemoryRate));
        let traffic = if memory > 0.0 { rate / 2.0 * dtype.bytes() as f64 / memory } else { 0.0 };
        let has_amx = profile.machine.as_ref().is_some_and(|machine| machine.isa.iter().any(|name| name == "amx_bf16"));
        Self { traffic, tile: if has_amx && dtype == Dtype::F32 { TILE_ON_AMX } else { 1.0 } }
    }

    /// Multiplications, and what moving counts beside them.
    fn of_sizes(self, sizes: [f64; 3]) -> f64 {
        let [m, n, k] = sizes;
        let is_tiled = sizes.iter().all(|size| *size >= self.tile);
        let computed = sizes.map(|size| if is_tiled { (size / self.tile).ceil() * self.tile } else { size });
        computed.iter().product::<f64>() + self.traffic * (m * n + n * k + m * k)
    }
}

/// What the time of a kernel is about proportional to, from its sizes (see [`engine::OperationShape`]); at least one.
fn work(kernel: &str, dims: &[u64], products: ProductWork) -> f64 {
    let of = |at: usize| dims.get(at).copied().unwrap_or(1).max(1) as f64;
    let first = |count: usize| (0..count).map(of).product::<f64>();
    match kernel {
        _ if kernel.starts_with("product") => products.of_sizes([of(0), of(1), of(2)]),
        _ if kernel.starts_with("attention") => of(0) * of(1) * of(1) * of(2) * of(4),
        // The number of kernel elements counts in both directions, and strides leave out pixels.
        _ if kernel.starts_with("conv_") => {
            let (pixels, weights) = (of(6) * of(7), of(1) * of(2) * of(3) * of(3));
            let moved = weights + of(0) * pixels * (of(1) + of(2) / (of(4) * of(4)));
            of(0) * weights * pixels / (of(4) * of(4)) + products.traffic * moved
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
    use record::Constant;

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

    /// Seconds of a product on a host that multiplies at 270 GFLOP/s and moves 27 GB/s, one after the other.
    fn plain([m, n, k]: [u64; 3]) -> f64 {
        2.0 * (m * n * k) as f64 / 2.7e11 + 4.0 * (m * n + n * k + m * k) as f64 / 2.7e10
    }

    /// That host, with the sizes that `calibrate --quick` measures. Products of few rows with weights of 4 MiB or more take
    /// `times` as long.
    fn host(times: f64) -> MachineProfile {
        let mut profile = machine("a100-nvlink").unwrap().profile();
        profile.multiprocessors = 0;
        let constant = |name: ConstantName, value| Constant { name, value, unit: name.unit().to_owned(), spread: 0.1 };
        profile.constants =
            vec![constant(ConstantName::ProductRate, 2.7e11), constant(ConstantName::MemoryRate, 2.7e10)];
        for sizes in [
            [1, 10, 1024],
            [32, 10, 1024],
            [64, 320, 320],
            [384, 180, 180],
            [1, 1000, 512],
            [2048, 256, 256],
            [512, 512, 2048],
            [64, 768, 3072],
            [512, 4096, 256],
            [1, 4096, 1024],
            [32, 4096, 1024],
        ] {
            let [m, n, k] = sizes;
            let is_slow = m <= 32 && n * k >= 1 << 20;
            profile.kernels.push(KernelTime {
                kernel: "product_nt".to_owned(),
                dtype: Dtype::F32,
                dims: vec![m, n, k, 0, 4],
                ranks: 1,
                seconds: if is_slow { times * plain(sizes) } else { plain(sizes) },
                spread: 0.0,
            });
        }
        profile
    }

    /// Seconds of a product by what such a host measured.
    fn product(times: f64, kernel: &'static str, [m, n, k]: [u64; 3]) -> f64 {
        let profile = host(times);
        let costs = Costs::new(&profile, Constants::of(&profile), Software::Rankmark, 1);
        let flops = 2.0 * (m * n * k) as f64;
        let shape = OperationShape { kernel, dims: vec![m, n, k, 0, 4], dtype: Dtype::F32, flops, bytes: 0 };
        costs.operation(&shape, Kind::Products, None).work_s
    }

    #[test]
    fn weights_that_no_cache_holds_say_little_of_products_within_caches() {
        for sizes in [[128, 4096, 256], [128, 1024, 256], [128, 768, 256]] {
            let (usual, slow) = (product(1.0, "product_nt", sizes), product(3.0, "product_nt", sizes));
            assert!((usual / plain(sizes) - 1.0).abs() < 1e-9, "{sizes:?}: {usual}");
            assert!(slow / usual < 1.1, "{sizes:?}: {slow} instead of {usual}");
        }
        let cold = [32, 4096, 1024];
        assert!((product(3.0, "product_nt", cold) / plain(cold) - 3.0).abs() < 1e-9, "what was measured is met");
    }

    #[test]
    fn products_tell_of_those_whose_operands_lie_otherwise() {
        for kernel in PRODUCTS {
            let sizes = [128, 1024, 256];
            let seconds = product(1.0, kernel, sizes);
            assert!((seconds / plain(sizes) - 1.0).abs() < 1e-9, "{kernel}: {seconds}");
        }
    }

    #[test]
    fn whole_tiles_are_computed() {
        let work = ProductWork { traffic: 0.0, tile: TILE_ON_AMX };
        assert_eq!(work.of_sizes([180.0, 64.0, 33.0]).to_bits(), (192.0_f64 * 64.0 * 64.0).to_bits());
        assert_eq!(work.of_sizes([180.0, 31.0, 33.0]).to_bits(), (180.0_f64 * 31.0 * 33.0).to_bits(), "not on AMX");
    }
}
