//! What `training` and `memory` declare: fields, metrics, and the words that they take.

use engine::Matmul;
use model::CATALOG;
use parallel::{Balance, Schedule};
use record::{Better, Metric, Shape};
use terms::{Dtype, Field, Kind, Label, Named, Role};

use crate::fields::{ANY_BACKEND, DEVICE, QUICK, RANKS, SEED, SPACING, THREADS, TRIALS, setting};

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

/// A parameter. Its name is that of its member.
const fn parameter(kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field::new(kind, default, doc).always()
}

const fn extra(kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field::new(kind, default, doc)
}

/// A field that is read by its place in a table, or by `measure`, and has no member.
const fn named(name: &'static str, field: Field) -> Field {
    field.named(name)
}

fn models() -> Vec<&'static str> {
    CATALOG.iter().map(|entry| entry.name).collect()
}

fn precisions() -> Vec<&'static str> {
    vec!["f32", "bf16", "f16", "f64"]
}

const BATCHES: Kind = Kind::Whole(1, 1 << 20);

record::fields! {
    /// What is trained and how. The order is that of the case line.
    pub(super) struct Fields {
        model: String = parameter(Kind::Word(models), Some("gpt2-mini"), "the model (`rankmark list models`)"),
        strategy: Option<Strategy> = parameter(
            Kind::Word(Strategy::names),
            None,
            "how ranks divide the work (data; with a mesh, hybrid)",
        ),
        mesh: Option<String> = parameter(
            Kind::Text,
            None,
            "replicas x parts of each layer x stages, as in 2x2x1; their product is ranks",
        )
        .follows_unless("strategy=hybrid"),
        ranks: u32 = Field { default: Some("1"), ..RANKS },
        threads: usize = Field { default: Some("1"), ..THREADS },
        backend: Option<String> = ANY_BACKEND,
        device: String = DEVICE,
        precision: Dtype = parameter(Kind::Word(precisions), Some("f32"), "type of activations and products"),
        matmul: Matmul = extra(
            Kind::Word(Matmul::names),
            Some("auto"),
            "products of f32: the fastest, fma, or six of bf16 on AMX",
        ),
        batch: Option<u64> = parameter(
            BATCHES,
            None,
            "samples of a step on each replica (4); `global_batch`: on all together",
        ),
        global_batch: Option<u64> = extra(BATCHES, None, "samples of a step on all replicas together"),
        micro_batches: Option<u64> = extra(
            BATCHES,
            None,
            "parts that a replica's batch is cut into (pipelines: up to two a stage)",
        ),
        accumulate: u64 = extra(Kind::Whole(1, 1 << 16), Some("1"), "cut each of these again, and add up gradients"),
        optimizer: Optimizers = parameter(Kind::Word(Optimizers::names), Some("adamw"), "what changes parameters"),
        learning_rate: Option<f64> = extra(Kind::Ratio, None, "of the optimizer (sgd 0.01, adamw 0.0003)"),
        momentum: f64 = extra(Kind::Ratio, Some("0"), "of sgd"),
        weight_decay: f64 = extra(Kind::Ratio, Some("0.01"), "of adamw"),
        clip: Option<f64> = extra(Kind::Ratio, None, "largest norm of all gradients together"),
        overlap: bool = parameter(Kind::Bool, Some("true"), "exchange gradients beside the backward pass"),
        communicate: bool = extra(
            Kind::Bool,
            Some("true"),
            "false: leave out the exchange of gradients, to time the rest",
        ),
        sharded: u8 = extra(
            Kind::Whole(0, 3),
            Some("0"),
            "cut among replicas: 1 optimizer, 2 and gradients, 3 and parameters",
        ),
        bucket: usize = extra(Kind::Bytes, Some("25MiB"), "bytes of a gradient bucket").role(Role::Implementation),
        schedule: Option<Schedule> = parameter(
            Kind::Word(Schedule::names),
            None,
            "order of micro-batches in a pipeline (1f1b)",
        ),
        chunks: Option<u64> = extra(
            Kind::Whole(1, 64),
            None,
            "chunks of layers on each stage of an interleaved pipeline (2)",
        ),
        balance: Balance = extra(
            Kind::Word(Balance::names),
            Some("layers"),
            "what stages of a pipeline are balanced by",
        ),
        load_balance: LoadBalance = extra(
            Kind::Word(LoadBalance::names),
            Some("none"),
            "micro-batches of each replica: equal, or by speed",
        ),
        sequence_parallel: bool = extra(
            Kind::Bool,
            Some("false"),
            "cut norms and dropout by rows where layers are cut",
        ),
        recompute: bool = extra(Kind::Bool, Some("false"), "keep only each block's input, and compute the rest again"),
        synchronised: bool = extra(Kind::Bool, Some("true"), "batch norm counts all replicas' samples"),
        data_mmap: Option<String> = extra(
            Kind::Text,
            None,
            "a file of tokens or images to map, instead of synthetic data",
        ),
        data_kind: Option<DataKind> = extra(
            Kind::Word(DataKind::names),
            None,
            "what that file holds (tokens: u16; images: images)",
        ),
        seed: u64 = SEED,
    }
}

/// Dimensions of models: each model has some of them, and brings their defaults.
pub(super) const DIMENSIONS: &[Field] = &[
    named("layers", extra(Kind::Whole(1, u32::MAX as u64), None, "model: layers")),
    named("width", extra(Kind::Whole(1, u32::MAX as u64), None, "model: features, or channels")),
    named("heads", extra(Kind::Whole(1, u32::MAX as u64), None, "model: attention heads")),
    named("kv_heads", extra(Kind::Whole(1, u32::MAX as u64), None, "model: key and value heads")),
    named("ffn", extra(Kind::Whole(1, u32::MAX as u64), None, "model: features inside of an MLP")),
    named("vocabulary", extra(Kind::Whole(1, u32::MAX as u64), None, "model: different tokens")),
    named("sequence", extra(Kind::Whole(1, u32::MAX as u64), None, "model: tokens of a sample")),
    named("positions", extra(Kind::Whole(1, u32::MAX as u64), None, "model: learned positions")),
    named("segments", extra(Kind::Whole(1, u32::MAX as u64), None, "model: segment types")),
    named("dropout", extra(Kind::Ratio, None, "model: rate of dropout")),
    named("tied", extra(Kind::Bool, None, "model: the head's weight is the token table")),
    named("features", extra(Kind::Whole(1, u32::MAX as u64), None, "model: numbers of a sample")),
    named("classes", extra(Kind::Whole(1, u32::MAX as u64), None, "model: classes of samples")),
    named("image", extra(Kind::Whole(1, u32::MAX as u64), None, "model: height and width of an image")),
    named("stage1", extra(Kind::Whole(1, u32::MAX as u64), None, "model: blocks of the first stage")),
    named("stage2", extra(Kind::Whole(1, u32::MAX as u64), None, "model: blocks of the second stage")),
    named("stage3", extra(Kind::Whole(1, u32::MAX as u64), None, "model: blocks of the third stage")),
    named("stage4", extra(Kind::Whole(1, u32::MAX as u64), None, "model: blocks of the fourth stage")),
];

/// What PyTorch's ranks alone understand, beside the runtime: switches that are off where they are not given.
pub(super) const TORCH: &[Field] = &[
    switch(
        "gradient_as_bucket_view",
        "pytorch: gradients lie in the buckets that DistributedDataParallel exchanges (false, as torch has it)",
    ),
    switch("static_graph", "pytorch: tells DistributedDataParallel that steps are alike (false)"),
    switch("compile", "pytorch: the model by torch.compile, which needs a C++ compiler (false)"),
];

const fn switch(name: &'static str, doc: &'static str) -> Field {
    extra(Kind::Bool, None, doc).role(Role::Implementation).owner("pytorch").named(name)
}

const INJECT: Field =
    extra(Kind::Texts, None, "inject a fault: delay, wrong, kill or stop, as KIND:key=value,...; repeats");
const WARMUP: Field =
    setting(Kind::Whole(0, 10_000), None, "fixed number of warm-up steps, forgotten before the first that counts");
const TIMEOUT: Field =
    setting(Kind::Seconds, Some("600s"), "a case that takes this long beyond its max_seconds has failed");
const EXPECT: Field =
    setting(Kind::Texts, None, "a gate such as 'tokens_per_s>=2000': missed, the run exits 1; repeats");
const STEPS: Field = setting(
    Kind::Whole(1, 10_000),
    None,
    "exactly so many steps a trial, the first from the initial parameters, all of them timed",
);

/// How training is sampled: a sample is a step.
pub(super) const SAMPLING: &[Field] = &[
    named("inject", INJECT),
    named("steps", STEPS),
    named(
        "target_precision",
        setting(Kind::Ratio, Some("2%"), "make trials until the 95% interval of their median is within this share"),
    ),
    named(
        "max_seconds",
        setting(Kind::Seconds, Some("10s"), "time of a case's steps over all of its trials (six at least)"),
    ),
    named("warmup", WARMUP),
    named("trials", TRIALS),
    named("spacing", SPACING),
    named("quick", QUICK),
    named("timeout", TIMEOUT),
    named("expect", EXPECT),
];

record::fields! {
    /// How memory is measured.
    pub(super) struct Memory {
        inject: Vec<String> = INJECT,
        limit: Option<u64> = extra(
            Kind::Bytes,
            None,
            "memory that a rank may hold; one that needs more is out of memory",
        )
        .label(Label::Around("limit {} a rank")),
        find_max_batch: bool = setting(Kind::Bool, Some("false"), "search for the largest batch that fits, and run it"),
        steps: Option<u32> = Field { default: Some("2"), ..STEPS },
        // What a rank holds does not differ from trial to trial.
        trials: Option<u32> = Field { default: Some("1"), ..TRIALS },
        spacing: f64 = SPACING,
        timeout: f64 = TIMEOUT,
        expect: Vec<String> = EXPECT,
    }
}

const fn metric(name: &'static str, unit: &'static str, better: Better, doc: &'static str) -> Metric {
    Metric::new(name, unit, better, doc)
}

/// What a training case says.
pub(super) static METRICS: &[Metric] = &[
    metric("step_s", "s", Better::Lower, "a whole step, data and optimizer included (`time_s`)").shape(Shape::Map),
    metric(
        "phases_s",
        "s",
        Better::Lower,
        "a step of the slowest rank by phase, and of every rank, where it can be told",
    )
    .shape(Shape::Map),
    metric("samples_per_s", "1/s", Better::Higher, "global batch / median step").shape(Shape::Rate),
    metric("tokens_per_s", "1/s", Better::Higher, "samples/s x sequence").shape(Shape::Rate),
    metric("samples_per_s_per_rank", "1/s", Better::Higher, "samples/s / ranks").shape(Shape::Rate),
    metric("tokens_per_s_per_rank", "1/s", Better::Higher, "tokens/s / ranks").shape(Shape::Rate),
    metric(
        "mfu",
        "",
        Better::Higher,
        "share of the measured peak, by each convention of counting operations, and what multiplied",
    )
    .shape(Shape::Map),
    metric("loss", "", Better::Lower, "global mean loss of each step").shape(Shape::List),
    metric("memory", "bytes", Better::Lower, "predicted by category, measured, and their difference").shape(Shape::Map),
    metric(
        "traffic",
        "",
        Better::Lower,
        "what a step exchanges on the rank that moves the most, by axis and operation",
    )
    .shape(Shape::Map),
    metric("cpu", "s", Better::Lower, "threads, and processor time of all ranks").shape(Shape::Map),
    metric(
        "exchange",
        "",
        Better::Higher,
        "gradients are exchanged: overlapped with the backward pass, after it, or not",
    )
    .shape(Shape::Word),
    metric("efficiency", "", Better::Higher, "throughput per rank against fewer ranks"),
    metric("scaling", "", Better::Higher, "weak or strong, the base, the efficiency with its interval and its word")
        .shape(Shape::Map),
    metric("overlapped", "", Better::Higher, "share of the communication that is overlapped, by three times")
        .shape(Shape::Map),
];

/// What a memory case says.
pub(super) static MEMORY_METRICS: &[Metric] = &[
    metric(
        "max_batch",
        "samples",
        Better::Higher,
        "the largest batch under the limit: one more does not fit by the plan",
    ),
    metric("memory", "bytes", Better::Lower, "predicted by category, measured, and their difference").shape(Shape::Map),
    metric("step_s", "s", Better::Lower, "a whole step, data and optimizer included (`time_s`)").shape(Shape::Map),
    metric("loss", "", Better::Lower, "global mean loss of each step").shape(Shape::List),
];
