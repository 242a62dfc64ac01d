//! What `training` and `memory` declare: fields, metrics, and the words that they take.

use engine::Matmul;
use model::CATALOG;
use parallel::{Balance, Schedule};
use record::{Better, Field, Kind, Metric, Shown};
use terms::Named;

use crate::fields::{ANY_BACKEND, DEVICE, QUICK, SEED, SPACING, TRIALS, how};

terms::named! {
    /// How ranks divide the work.
    pub(crate) enum Strategy("strategy") {
        /// Every rank trains the whole model on samples of its own.
        Data = "data",
        /// Every layer is cut.
        Tensor = "tensor",
        /// Stages of layers, micro-batches in flight.
        Pipeline = "pipeline",
        /// Stages of layers, one batch at a time: the baseline of `pipeline`.
        Model = "model",
        /// Any mesh.
        Hybrid = "hybrid",
    }
}

terms::named! {
    /// The optimizers.
    pub(crate) enum Optimizers("optimizer") {
        /// Stochastic gradient descent.
        Sgd = "sgd",
        /// AdamW.
        AdamW = "adamw",
    }
}

terms::named! {
    /// How micro-batches are given to replicas.
    pub(crate) enum LoadBalance("load balance") {
        /// Equally many.
        None = "none",
        /// By measured speed.
        Measured = "measured",
    }
}

terms::named! {
    /// What a data file holds.
    pub(crate) enum DataKind("kind of data") {
        /// 16-bit tokens, little endian.
        U16 = "u16",
        /// 32-bit tokens, little endian.
        U32 = "u32",
        /// Images and their classes.
        Images = "images",
    }
}

const fn parameter(name: &'static str, kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field { name, kind, default, unit: "", doc, shown: Shown::Always, world: false, how: false }
}

const fn extra(name: &'static str, kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field { shown: Shown::WhenSet, ..parameter(name, kind, default, doc) }
}

const fn setting(name: &'static str, kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field { shown: Shown::Setting, ..parameter(name, kind, default, doc) }
}

fn models() -> Vec<&'static str> {
    CATALOG.iter().map(|entry| entry.name).collect()
}

fn precisions() -> Vec<&'static str> {
    vec!["f32", "bf16", "f16", "f64"]
}

const BATCHES: Kind = Kind::Whole(1, 1 << 20);

/// What is trained and how. The order is that of the case line.
pub(super) const FIELDS: &[Field] = &[
    parameter("model", Kind::Word(models), Some("gpt2-mini"), "the model (`rankmark list models`)"),
    parameter("strategy", Kind::Word(Strategy::names), None, "how ranks divide the work (data; with a mesh, hybrid)"),
    parameter("mesh", Kind::Text, None, "replicas x parts of each layer x stages, as in 2x2x1; their product is ranks"),
    Field { world: true, ..parameter("ranks", Kind::Whole(1, 1024), Some("1"), "ranks: processes that take part") },
    Field { world: true, ..parameter("threads", Kind::Whole(1, 1024), Some("1"), "threads that a rank computes with") },
    ANY_BACKEND,
    DEVICE,
    parameter("precision", Kind::Word(precisions), Some("f32"), "type of activations and products"),
    extra(
        "matmul",
        Kind::Word(Matmul::names),
        Some("auto"),
        "products of f32: the fastest, fma, or six of bf16 on AMX",
    ),
    parameter("batch", BATCHES, None, "samples of a step on each replica (4); `global_batch`: on all together"),
    extra("global_batch", BATCHES, None, "samples of a step on all replicas together"),
    extra("micro_batches", BATCHES, None, "parts that a replica's batch is cut into (pipelines: up to two a stage)"),
    extra("accumulate", Kind::Whole(1, 1 << 16), Some("1"), "cut each of these again, and add up gradients"),
    parameter("optimizer", Kind::Word(Optimizers::names), Some("adamw"), "what changes parameters"),
    extra("learning_rate", Kind::Ratio, None, "of the optimizer (sgd 0.01, adamw 0.0003)"),
    extra("momentum", Kind::Ratio, Some("0"), "of sgd"),
    extra("weight_decay", Kind::Ratio, Some("0.01"), "of adamw"),
    extra("clip", Kind::Ratio, None, "largest norm of all gradients together"),
    parameter("overlap", Kind::Bool, Some("true"), "exchange gradients beside the backward pass"),
    extra("communicate", Kind::Bool, Some("true"), "false: leave out the exchange of gradients, to time the rest"),
    extra(
        "sharded",
        Kind::Whole(0, 3),
        Some("0"),
        "cut among replicas: 1 optimizer, 2 and gradients, 3 and parameters",
    ),
    how(extra("bucket", Kind::Bytes, Some("25MiB"), "bytes of a gradient bucket")),
    parameter("schedule", Kind::Word(Schedule::names), None, "order of micro-batches in a pipeline (1f1b)"),
    extra("chunks", Kind::Whole(1, 64), None, "chunks of layers on each stage of an interleaved pipeline (2)"),
    extra("balance", Kind::Word(Balance::names), Some("layers"), "what stages of a pipeline are balanced by"),
    extra(
        "load_balance",
        Kind::Word(LoadBalance::names),
        Some("none"),
        "micro-batches of each replica: equal, or by speed",
    ),
    extra("sequence_parallel", Kind::Bool, Some("false"), "cut norms and dropout by rows where layers are cut"),
    extra("recompute", Kind::Bool, Some("false"), "keep only each block's input, and compute the rest again"),
    extra("synchronised", Kind::Bool, Some("true"), "batch norm counts all replicas' samples"),
    extra("data_mmap", Kind::Text, None, "a file of tokens or images to map, instead of synthetic data"),
    extra("data_kind", Kind::Word(DataKind::names), None, "what that file holds (tokens: u16; images: images)"),
    SEED,
];

/// Dimensions of models: each model has some of them, and brings their defaults.
pub(super) const DIMENSIONS: &[Field] = &[
    extra("layers", Kind::Whole(1, u32::MAX as u64), None, "model: layers"),
    extra("width", Kind::Whole(1, u32::MAX as u64), None, "model: features, or channels"),
    extra("heads", Kind::Whole(1, u32::MAX as u64), None, "model: attention heads"),
    extra("kv_heads", Kind::Whole(1, u32::MAX as u64), None, "model: key and value heads"),
    extra("ffn", Kind::Whole(1, u32::MAX as u64), None, "model: features inside of an MLP"),
    extra("vocabulary", Kind::Whole(1, u32::MAX as u64), None, "model: different tokens"),
    extra("sequence", Kind::Whole(1, u32::MAX as u64), None, "model: tokens of a sample"),
    extra("positions", Kind::Whole(1, u32::MAX as u64), None, "model: learned positions"),
    extra("segments", Kind::Whole(1, u32::MAX as u64), None, "model: segment types"),
    extra("dropout", Kind::Ratio, None, "model: rate of dropout"),
    extra("tied", Kind::Bool, None, "model: the head's weight is the token table"),
    extra("features", Kind::Whole(1, u32::MAX as u64), None, "model: numbers of a sample"),
    extra("classes", Kind::Whole(1, u32::MAX as u64), None, "model: classes of samples"),
    extra("image", Kind::Whole(1, u32::MAX as u64), None, "model: height and width of an image"),
    extra("stage1", Kind::Whole(1, u32::MAX as u64), None, "model: blocks of the first stage"),
    extra("stage2", Kind::Whole(1, u32::MAX as u64), None, "model: blocks of the second stage"),
    extra("stage3", Kind::Whole(1, u32::MAX as u64), None, "model: blocks of the third stage"),
    extra("stage4", Kind::Whole(1, u32::MAX as u64), None, "model: blocks of the fourth stage"),
];

/// What PyTorch's ranks alone understand, beside the runtime.
pub(super) const TORCH: &[Field] = &[
    how(extra(
        "gradient_as_bucket_view",
        Kind::Bool,
        None,
        "pytorch: gradients lie in the buckets that DistributedDataParallel exchanges (false, as torch has it)",
    )),
    how(extra("static_graph", Kind::Bool, None, "pytorch: tells DistributedDataParallel that steps are alike (false)")),
    how(extra("compile", Kind::Bool, None, "pytorch: the model by torch.compile, which needs a C++ compiler (false)")),
];

const INJECT: Field =
    extra("inject", Kind::Texts, None, "inject a fault: delay, wrong, kill or stop, as KIND:key=value,...; repeats");
const WARMUP: Field = setting(
    "warmup",
    Kind::Whole(0, 10_000),
    None,
    "fixed number of warm-up steps, forgotten before the first that counts",
);
const TIMEOUT: Field =
    setting("timeout", Kind::Seconds, Some("600s"), "a case that takes this long beyond its max_seconds has failed");
const EXPECT: Field =
    setting("expect", Kind::Texts, None, "a gate such as 'tokens_per_s>=2000': missed, the run exits 1; repeats");
const STEPS: Field = setting(
    "steps",
    Kind::Whole(1, 10_000),
    None,
    "exactly so many steps a trial, the first from the initial parameters, all of them timed",
);

/// How training is sampled: a sample is a step.
pub(super) const SAMPLING: &[Field] = &[
    INJECT,
    STEPS,
    setting(
        "target_precision",
        Kind::Ratio,
        Some("2%"),
        "make trials until the 95% interval of their median is within this share",
    ),
    setting("max_seconds", Kind::Seconds, Some("10s"), "time of a case's steps over all of its trials (six at least)"),
    WARMUP,
    TRIALS,
    SPACING,
    QUICK,
    TIMEOUT,
    EXPECT,
];

/// How memory is measured.
pub(super) const MEMORY: &[Field] = &[
    INJECT,
    extra("limit", Kind::Bytes, None, "memory that a rank may hold; one that needs more is out of memory"),
    setting("find_max_batch", Kind::Bool, Some("false"), "search for the largest batch that fits, and run it"),
    Field { default: Some("2"), ..STEPS },
    // What a rank holds does not differ from trial to trial.
    Field { default: Some("1"), ..TRIALS },
    SPACING,
    TIMEOUT,
    EXPECT,
];

const fn metric(name: &'static str, unit: &'static str, better: Better, doc: &'static str) -> Metric {
    Metric { name, unit, better, doc }
}

/// What a training case says.
pub(super) static METRICS: &[Metric] = &[
    metric("step_s", "s", Better::Lower, "a whole step, data and optimizer included (`time_s`)"),
    metric(
        "phases_s",
        "s",
        Better::Lower,
        "a step of the slowest rank by phase, and of every rank, where it can be told",
    ),
    metric("samples_per_s", "1/s", Better::Higher, "global batch / median step"),
    metric("tokens_per_s", "1/s", Better::Higher, "samples/s x sequence"),
    metric("samples_per_s_per_rank", "1/s", Better::Higher, "samples/s / ranks"),
    metric("tokens_per_s_per_rank", "1/s", Better::Higher, "tokens/s / ranks"),
    metric(
        "mfu",
        "",
        Better::Higher,
        "share of the measured peak, by each convention of counting operations, and what multiplied",
    ),
    metric("loss", "", Better::Lower, "global mean loss of each step"),
    metric("memory", "bytes", Better::Lower, "predicted by category, measured, and their difference"),
    metric(
        "traffic",
        "",
        Better::Lower,
        "what a step exchanges on the rank that moves the most, by axis and operation",
    ),
    metric("cpu", "s", Better::Lower, "threads, and processor time of all ranks"),
    metric("efficiency", "", Better::Higher, "throughput per rank against fewer ranks"),
    metric("scaling", "", Better::Higher, "weak or strong, the base, the efficiency with its interval and its word"),
    metric("hidden", "", Better::Higher, "share of the communication that overlap hides, by three times"),
];

/// What a memory case says.
pub(super) static MEMORY_METRICS: &[Metric] = &[
    metric(
        "max_batch",
        "samples",
        Better::Higher,
        "the largest batch under the limit: one more does not fit by the plan",
    ),
    metric("memory", "bytes", Better::Lower, "predicted by category, measured, and their difference"),
    metric("step_s", "s", Better::Lower, "a whole step, data and optimizer included (`time_s`)"),
    metric("loss", "", Better::Lower, "global mean loss of each step"),
];
