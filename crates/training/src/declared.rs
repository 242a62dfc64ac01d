//! The metrics of training and memory cases, and what those hold that have several members.

use std::collections::BTreeMap;

use record::reproducible::Reproducible;
use record::{Better, Key, Metric, Shape, TimeSummary};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::kernel_times::KernelTimes;

const fn metric(name: &'static str, unit: &'static str, better: Better, doc: &'static str) -> Metric {
    Metric::new(name, unit, better, doc)
}

// What training and memory cases share.
const STEP: Metric =
    metric("step_s", "s", Better::Lower, "a whole step, data and optimizer included (`time_s`)").shape(Shape::Map);
const LOSSES: Metric = metric("loss", "", Better::Lower, "global mean loss of each step").shape(Shape::List);
const HELD: Metric =
    metric("memory", "bytes", Better::Lower, "predicted by category, measured, and their difference").shape(Shape::Map);

record::metrics! {
    /// What a training case says.
    pub(super) METRICS {
        STEP_S: TimeSummary = STEP,
        PHASES_S: Value = metric(
            "phases_s",
            "s",
            Better::Lower,
            "time of each phase of a step, of the slowest rank and of every rank, if known",
        )
        .shape(Shape::Map),
        PARTS: Map<String, Value> = record::found::PARTS.metric(),
        SAMPLES_PER_S: f64 = metric("samples_per_s", "1/s", Better::Higher, "global batch / median step").shape(Shape::Rate),
        TOKENS_PER_S: f64 = metric("tokens_per_s", "1/s", Better::Higher, "samples/s x sequence").shape(Shape::Rate),
        SAMPLES_PER_S_PER_RANK: f64 =
            metric("samples_per_s_per_rank", "1/s", Better::Higher, "samples/s / ranks").shape(Shape::Rate),
        TOKENS_PER_S_PER_RANK: f64 =
            metric("tokens_per_s_per_rank", "1/s", Better::Higher, "tokens/s / ranks").shape(Shape::Rate),
        MFU: Value = metric(
            "mfu",
            "",
            Better::Higher,
            "share of the measured peak, by each convention of counting operations, and what multiplied",
        )
        .shape(Shape::Map),
        LOSS: Value = LOSSES,
        MEMORY: MemoryTotals = HELD,
        TRAFFIC: Value = metric(
            "traffic",
            "",
            Better::Lower,
            "what a step exchanges on the rank that moves the most, by axis and operation",
        )
        .shape(Shape::Map),
        CONDITIONS: BTreeMap<String, String> = metric(
            "conditions",
            "",
            Better::Higher,
            "on GPUs: cuBLAS, cuDNN, kernel of attention, joined products, graphs of a step on rank 0",
        )
        .shape(Shape::Map),
        KERNEL_TIMES: KernelTimes = metric(
            "kernel_times_ms",
            "ms",
            Better::Lower,
            "a step by kind of kernel, of operations submitted one at a time, so gaps between them count; their sum; the usual step",
        )
        .shape(Shape::Map),
        CPU: Value = metric("cpu", "s", Better::Lower, "threads, and processor time of all ranks").shape(Shape::Map),
        EXCHANGE: Value = metric(
            "exchange",
            "",
            Better::Higher,
            "gradients are exchanged: overlapped with the backward pass, after it, or not",
        )
        .shape(Shape::Word),
        REPRODUCIBLE: Reproducible = record::found::REPRODUCIBLE.metric(),
        REPRODUCIBLE_SHARE: f64 = record::found::REPRODUCIBLE_SHARE.metric(),
        EFFICIENCY: f64 = metric("efficiency", "", Better::Higher, "throughput per rank against fewer ranks"),
        SCALING: Scaling =
            metric("scaling", "", Better::Higher, "weak or strong, the base, the efficiency with its interval and its word")
                .shape(Shape::Map),
        OVERLAPPED: Overlapped =
            metric("overlapped", "", Better::Higher, "share of the communication that is overlapped, by three times")
                .shape(Shape::Map),
    }
}

const LARGEST: Metric = metric(
    "max_batch",
    "samples",
    Better::Higher,
    "the largest batch under the limit: one more is predicted not to fit",
);

/// The largest batch under the limit.
pub(super) const MAX_BATCH: Key<u64> = Key::new(LARGEST);

/// What a memory case says.
pub(super) static MEMORY_METRICS: &[Metric] = &[LARGEST, HELD, STEP, LOSSES];

/// Bytes of all ranks together.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct MemoryTotals {
    /// What the plan says, by category, and `total`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) predicted: Option<Map<String, Value>>,
    /// Predicted bytes in as many parts as a table shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parts: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) measured: Option<MeasuredMemory>,
    /// Predicted less measured, over measured, both of the case alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) difference: Option<f64>,
}

/// What the processes of the ranks really held.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct MeasuredMemory {
    pub(super) total: u64,
    /// Before anything of the case was there. Older records have it among what was predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) process: Option<u64>,
    pub(super) case: u64,
    pub(super) per_rank: Vec<u64>,
}

/// The efficiency of more ranks. Formulas: definitions.md (Training).
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Scaling {
    /// `weak` or `strong`.
    pub(super) kind: String,
    /// How many ranks it is compared with.
    pub(super) base_ranks: u32,
    pub(super) efficiency: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ci95: Option<[f64; 2]>,
    /// What the low end of the interval deserves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) word: Option<String>,
    /// Scaling of a loop that only computes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fma_scaling: Option<f64>,
    /// The efficiency over that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) normalised: Option<f64>,
}

/// The share of communication that overlap hides, by three times.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Overlapped {
    /// Seconds of a step without overlap, with it, and without communication.
    pub(super) off_s: f64,
    pub(super) on_s: f64,
    pub(super) nocomm_s: f64,
    /// How many times as long computation takes meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) compute_slowdown: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) share: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ci95: Option<[f64; 2]>,
    /// Communication costs nothing that could be told from noise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) nothing_to_overlap: bool,
}
