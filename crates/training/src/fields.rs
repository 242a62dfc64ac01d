//! What `training` and `memory` declare: fields, metrics, and the words that they take.

use engine::Matmul;
use engine::cuda::Attends;
use model::CATALOG;
use parallel::{Balance, Schedule};
use terms::{Dtype, Field, Kind, Label, Named, Role};

use contract::fields::{
    ANY_BACKEND, CUBLAS_LIBRARY, CUDNN_LIBRARY, DEVICES, LIMITS, QUICK, RANKS, SEED, SPACING, THREADS, TRIALS, TUNED,
    groups, setting,
};

/// Name of the benchmark that times steps.
pub(super) const TRAINING: &str = "training";
/// Name of the benchmark that looks at memory.
pub(super) const MEMORY: &str = "memory";

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

impl Strategy {
    /// What ranks do, and its mesh of replicas x parts of each layer x stages on n ranks.
    const fn doc(self) -> &'static str {
        match self {
            Self::Data => "every rank trains the whole model on samples of its own; mesh n x 1 x 1",
            Self::Tensor => "every layer is split over the ranks; mesh 1 x n x 1",
            Self::Pipeline => "stages of layers with micro-batches in flight; mesh 1 x 1 x n",
            Self::Model => "stages of layers, one batch at a time, the baseline of pipeline; mesh 1 x 1 x n",
            Self::Hybrid => "any mesh, for example 2x2x1; without one, pairs of ranks share each layer",
        }
    }
}

/// Every strategy of training, and what it does.
pub fn strategies() -> Vec<(&'static str, &'static str)> {
    Strategy::ALL.iter().map(|strategy| (strategy.name(), strategy.doc())).collect()
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
    /// What ranks do between exchanges.
    pub(crate) enum Compute("computation") {
        /// Ranks compute.
        Native = "native",
        /// Ranks sleep for a time that is known, so that the truth about slow ranks is known, too.
        Sleep = "sleep",
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
        model: String = parameter(Kind::Word(models), Some("gpt2-mini"), "model (`rankmark list models`)").common(),
        strategy: Option<Strategy> = parameter(
            Kind::Word(Strategy::names),
            None,
            "division of work (data; with a mesh, hybrid)",
        )
        .common(),
        mesh: Option<String> = parameter(
            Kind::Text,
            None,
            "replicas x parts of each layer x stages, for example 2x2x1",
        )
        .of("strategy")
        .common()
        .follows_unless("strategy=hybrid"),
        ranks: u32 = Field { default: Some("1"), ..RANKS },
        threads: usize = Field { default: Some("1"), ..THREADS },
        backend: Option<String> = ANY_BACKEND,
        device: String = DEVICES,
        precision: Dtype = parameter(Kind::Word(precisions), Some("f32"), "type of activations and products").common(),
        matmul: Matmul = extra(
            Kind::Word(Matmul::names),
            Some("auto"),
            "products of f32; bf16x6: on AMX",
        ),
        tuned: bool = TUNED,
        cublas_library: Option<String> = CUBLAS_LIBRARY,
        cudnn_library: Option<String> = CUDNN_LIBRARY,
        attention: Option<Attends> = extra(
            Kind::Word(Attends::names),
            None,
            "kernels of attention on GPUs; fastest: cudnn where it was faster at load (default: fastest)",
        )
        .group(groups::GPUS)
        .label(Label::Around("attention {}"))
        .role(Role::Implementation),
        batch: Option<u64> = parameter(
            BATCHES,
            None,
            "samples of a step on each replica (default: 4)",
        )
        .common(),
        global_batch: Option<u64> = extra(BATCHES, None, "samples of a step on all replicas together, instead of batch").common(),
        micro_batches: Option<u64> = extra(
            BATCHES,
            None,
            "parts of a replica's batch (default in pipelines: 2 a stage)",
        )
        .group(groups::DIVISION),
        accumulate: u64 = extra(Kind::Whole(1, 1 << 16), Some("1"), "splits each micro-batch again, and accumulates gradients"),
        optimizer: Optimizers = parameter(Kind::Word(Optimizers::names), Some("adamw"), "optimizer").common(),
        learning_rate: Option<f64> = extra(Kind::Ratio, None, "learning rate (default: sgd 0.01, adamw 0.0003)"),
        momentum: f64 = extra(Kind::Ratio, Some("0"), "momentum of sgd"),
        weight_decay: f64 = extra(Kind::Ratio, Some("0.01"), "weight decay of adamw"),
        clip: Option<f64> = extra(Kind::Ratio, None, "clips gradients to this norm of all of them together"),
        overlap: bool = parameter(Kind::Bool, Some("true"), "exchanges gradients during the backward pass")
            .group(groups::DIVISION),
        communicate: bool = extra(
            Kind::Bool,
            Some("true"),
            "false: gradients are not exchanged, to time the rest",
        )
        .group(groups::DIVISION),
        sharded: u8 = extra(
            Kind::Whole(0, 3),
            Some("0"),
            "shards 1: optimizer, 2: +gradients, 3: +parameters",
        )
        .group(groups::DIVISION),
        bucket: usize = extra(Kind::Bytes, Some("25MiB"), "size of a gradient bucket")
            .role(Role::Implementation)
            .group(groups::DIVISION),
        schedule: Option<Schedule> = parameter(
            Kind::Word(Schedule::names),
            None,
            "order in a pipeline (default: 1f1b)",
        )
        .group(groups::DIVISION),
        chunks: Option<u64> = extra(
            Kind::Whole(1, 64),
            None,
            "chunks of an interleaved stage (default: 2)",
        )
        .group(groups::DIVISION),
        balance: Balance = extra(
            Kind::Word(Balance::names),
            Some("layers"),
            "balances stages by",
        )
        .group(groups::DIVISION),
        load_balance: LoadBalance = extra(
            Kind::Word(LoadBalance::names),
            Some("none"),
            "micro-batches by speed",
        )
        .group(groups::DIVISION),
        sequence_parallel: bool = extra(
            Kind::Bool,
            Some("false"),
            "splits norms and dropout by rows, too",
        )
        .group(groups::DIVISION),
        recompute: bool = extra(Kind::Bool, Some("false"), "keeps only block inputs, and recomputes the rest"),
        synchronised: bool = extra(Kind::Bool, Some("true"), "batch norm counts the samples of all replicas"),
        data_mmap: Option<String> = extra(
            Kind::Text,
            None,
            "file of tokens or images to map (default: synthetic data)",
        ),
        data_kind: Option<DataKind> = extra(
            Kind::Word(DataKind::names),
            None,
            "type of that file (default: u16, or images)",
        ),
        seed: u64 = SEED,
    }
}

record::fields! {
    /// Steps in which nothing is computed. There is no memory to look at then.
    pub(super) struct Sleeping {
        compute: Compute = extra(
            Kind::Word(Compute::names),
            Some("native"),
            "sleep: nothing is computed, each pass of a block takes sleep_time",
        ),
        sleep_table: Option<String> = extra(
            Kind::Text,
            None,
            "file with the times of each block",
        )
        .label(Label::Around("times of {}")),
        sleep_time: Option<f64> = extra(
            Kind::Seconds,
            None,
            "time of a pass of a block with `compute: sleep` (default: 1ms)",
        ),
        sleep_jitter: f64 = extra(Kind::Ratio, Some("0.01"), "standard deviation of these times, relative"),
        sleep_tail: bool = extra(Kind::Bool, Some("false"), "one step in fifty sleeps longer, with a heavy tail"),
    }
}

record::fields! {
    /// Whether steps are repeated. Memory is the same either way.
    pub(super) struct Repeating {
        reproducible: bool = extra(
            Kind::Bool,
            Some("false"),
            "runs the first steps twice, and compares all bits of losses and parameters",
        )
        .group(groups::SAMPLING)
        .label(Label::Quiet),
    }
}

record::fields! {
    /// Whether kinds of kernels are timed. Memory is the same either way.
    pub(super) struct ByKind {
        kernel_times: bool = setting(
            Kind::Bool,
            Some("false"),
            "times a few more steps by kind of kernel (native ranks on GPUs)",
        ),
    }
}

/// Dimensions of models: each model has some of them, and brings their defaults.
pub(super) const DIMENSIONS: &[Field] = &[
    named("layers", extra(Kind::Whole(1, u32::MAX as u64), None, "layers").group(groups::DIMENSIONS).of("model")),
    named(
        "width",
        extra(Kind::Whole(1, u32::MAX as u64), None, "features, or channels").group(groups::DIMENSIONS).of("model"),
    ),
    named(
        "heads",
        extra(Kind::Whole(1, u32::MAX as u64), None, "attention heads").group(groups::DIMENSIONS).of("model"),
    ),
    named(
        "kv_heads",
        extra(Kind::Whole(1, u32::MAX as u64), None, "key and value heads").group(groups::DIMENSIONS).of("model"),
    ),
    named(
        "ffn",
        extra(Kind::Whole(1, u32::MAX as u64), None, "features inside of an MLP").group(groups::DIMENSIONS).of("model"),
    ),
    named(
        "vocabulary",
        extra(Kind::Whole(1, u32::MAX as u64), None, "different tokens").group(groups::DIMENSIONS).of("model"),
    ),
    named(
        "sequence",
        extra(Kind::Whole(1, u32::MAX as u64), None, "tokens of a sample").group(groups::DIMENSIONS).of("model"),
    ),
    named(
        "positions",
        extra(Kind::Whole(1, u32::MAX as u64), None, "learned positions").group(groups::DIMENSIONS).of("model"),
    ),
    named(
        "segments",
        extra(Kind::Whole(1, u32::MAX as u64), None, "segment types").group(groups::DIMENSIONS).of("model"),
    ),
    named("dropout", extra(Kind::Ratio, None, "rate of dropout").group(groups::DIMENSIONS).of("model")),
    named(
        "tied",
        extra(Kind::Bool, None, "the head's weight is the token table").group(groups::DIMENSIONS).of("model"),
    ),
    named(
        "features",
        extra(Kind::Whole(1, u32::MAX as u64), None, "numbers of a sample").group(groups::DIMENSIONS).of("model"),
    ),
    named(
        "classes",
        extra(Kind::Whole(1, u32::MAX as u64), None, "classes of samples").group(groups::DIMENSIONS).of("model"),
    ),
    named(
        "image",
        extra(Kind::Whole(1, u32::MAX as u64), None, "height and width of an image")
            .group(groups::DIMENSIONS)
            .of("model"),
    ),
    named(
        "stage1",
        extra(Kind::Whole(1, u32::MAX as u64), None, "blocks of the first stage").group(groups::DIMENSIONS).of("model"),
    ),
    named(
        "stage2",
        extra(Kind::Whole(1, u32::MAX as u64), None, "blocks of the second stage")
            .group(groups::DIMENSIONS)
            .of("model"),
    ),
    named(
        "stage3",
        extra(Kind::Whole(1, u32::MAX as u64), None, "blocks of the third stage").group(groups::DIMENSIONS).of("model"),
    ),
    named(
        "stage4",
        extra(Kind::Whole(1, u32::MAX as u64), None, "blocks of the fourth stage")
            .group(groups::DIMENSIONS)
            .of("model"),
    ),
];

/// What only PyTorch's ranks understand, without the runtime: switches that are off where they are not given.
pub(super) const TORCH: &[Field] = &[
    switch("gradient_as_bucket_view", "gradients are views of DistributedDataParallel's buckets"),
    switch("static_graph", "tells DistributedDataParallel that all steps are the same"),
    switch("compile", "compiles the model with torch.compile; needs a C++ compiler"),
];

const fn switch(name: &'static str, doc: &'static str) -> Field {
    extra(Kind::Bool, None, doc).role(Role::Implementation).owner("pytorch").group(groups::PYTORCH).named(name)
}

const INJECT: Field =
    extra(Kind::Texts, None, "injects a fault (`rankmark list injections`); repeats").group(groups::SAMPLING);
const WARMUP: Field = setting(Kind::Whole(0, 10_000), None, "fixed number of warm-up steps in a trial");
const TIMEOUT: Field = setting(Kind::Seconds, Some("600s"), "time beyond max_seconds until a case fails");
const EXPECT: Field = setting(Kind::Texts, None, "gate, as in 'tokens_per_s>=2000' (missed: exit 1); repeats");
const STEPS: Field = setting(Kind::Whole(1, 10_000), None, "fixed number of steps in a trial, from initial parameters");

/// How training is sampled: a sample is a step.
pub(super) const SAMPLING: &[Field] = &[
    named("inject", INJECT),
    named("steps", STEPS),
    named("target_precision", setting(Kind::Ratio, Some("2%"), "target width of the median's 95% interval")),
    named(
        "max_seconds",
        setting(Kind::Seconds, Some("10s"), "most sampling time of a case, all trials together").common(),
    ),
    named("warmup", WARMUP),
    named("trials", TRIALS),
    named("spacing", SPACING),
    named("quick", QUICK),
    named("timeout", TIMEOUT),
    named(
        "limits",
        Field { doc: "a record of `rankmark hardware`, for ceilings and a roofline (true, false: none)", ..LIMITS },
    ),
    named("expect", EXPECT),
];

record::fields! {
    /// How memory is measured.
    pub(super) struct MemoryHow {
        inject: Vec<String> = INJECT,
        limit: Option<u64> = extra(
            Kind::Bytes,
            None,
            "memory limit of a rank; a case that needs more is out of memory",
        )
        .common()
        .label(Label::Around("limit {} a rank")),
        find_max_batch: bool = setting(Kind::Bool, Some("false"), "searches for the largest batch that fits, and runs it").common(),
        steps: Option<u32> = Field { default: Some("2"), ..STEPS },
        // What a rank holds does not differ from trial to trial.
        trials: Option<u32> = Field { default: Some("1"), ..TRIALS },
        spacing: f64 = SPACING,
        timeout: f64 = TIMEOUT,
        expect: Vec<String> = EXPECT,
    }
}
