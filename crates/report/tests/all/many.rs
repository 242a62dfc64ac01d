//! Invented runs of any number of cases, shaped as large plans are: sweeps of operations, backends, types and ranks over
//! sizes, among them training, failures and cases that drift. All are marked as simulated.

use record::{CaseLine, Caveat};
use report::Run;
use serde_json::json;
use terms::Status;

use crate::data::{self, Invented};

const OPS: [&str; 5] = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"];
const BACKENDS: [&str; 3] = ["shm", "mpi", "reference"];
const DTYPES: [&str; 4] = ["f32", "bf16", "f64", "i32"];
const RANKS: [u32; 4] = [2, 4, 8, 16];
/// Sizes of a configuration.
const SIZES: usize = 20;

/// This many cases.
pub(crate) fn run(cases: usize) -> Run {
    data::run((0..cases).map(|index| line(index, cases)).collect())
}

/// A number from 0 to 1 that looks random.
fn noise(index: usize) -> f64 {
    let mixed = (index as u64 ^ 0x9E37_79B9).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 11) as f64 / (1u64 << 53) as f64
}

/// Case `index` of `all`. One in 50 trains a model; the others are calls, size by size.
fn line(index: usize, all: usize) -> CaseLine {
    let mut line = if index % 50 == 7 { training(index / 50) } else { call(index, all) };
    line.id = format!("{index:012x}");
    line.simulated = true;
    line.caveats.push(Caveat::Simulated);
    let time = line.time_s.as_ref().map_or(1e-3, |time| time.median);
    line.trial_median_s = (0..6).map(|round| time * (1.0 + 0.01 * noise(6 * index + round))).collect();
    line.trial_round = (0..6).collect();
    if index % 97 == 11 {
        line.status = Status::Failed;
        line.reason = Some(format!("rank {} ended with exit code {}", index % 4, index % 7));
        line.time_s = None;
    } else if index % 101 == 13 {
        line.caveats.push(Caveat::Drift);
    }
    line
}

fn call(index: usize, all: usize) -> CaseLine {
    let (size, configuration) = (index % SIZES, index / SIZES);
    let op = OPS[configuration % OPS.len()];
    let backend = BACKENDS[configuration / 5 % 3];
    let dtype = DTYPES[configuration / 15 % 4];
    let ranks = RANKS[configuration / 60 % 4];
    let variant = configuration / 240;
    let bytes = 1u64 << (3 + size);
    let time = data::transport(bytes, 1e-6 * f64::from(ranks), 30.0, 15.0) * (1.0 + 0.2 * noise(configuration));
    let mut line = Invented {
        op,
        backend,
        limit: Some(30.0),
        half_width: 0.01 + 0.02 * noise(index),
        ..Invented::new(ranks, bytes, time)
    }
    .line();
    line.dtype = Some(dtype.to_owned());
    line.parameters.insert("dtype", json!(dtype));
    if all > 240 * SIZES {
        line.parameters.insert("in_flight", json!(1 + variant));
    }
    line
}

fn training(number: usize) -> CaseLine {
    let ranks = 1u32 << (number % 4);
    let (model, time) = (["gpt2-mini", "mlp"][number / 4 % 2], 0.01 + 0.001 * noise(number));
    let mut line = Invented::new(ranks, 0, time).line();
    line.benchmark = "training".to_owned();
    line.mode = terms::Mode::Isolated;
    line.parameters = json!({
        "model": model, "strategy": "data", "mesh": format!("{ranks}x1x1"),
        "ranks": ranks, "threads": 1, "backend": "shm", "device": "cpu", "precision": "f32",
        "batch": 1 + number / 8 % 64, "seed": 1 + number / 512
    })
    .as_object()
    .cloned()
    .unwrap()
    .into();
    let rate = f64::from(ranks) / time;
    let metrics = json!({
        "samples_per_s": rate, "tokens_per_s": 256.0 * rate, "loss": [2.5, 2.25], "mfu": {"headline": 0.5},
        "phases_s": {"forward": time / 3.0, "backward": time / 2.0, "communication": time / 10.0},
        "scaling": {"kind": "weak", "base_ranks": 1, "efficiency": 0.9, "ci95": [0.85, 0.95], "word": "good"}
    });
    line.metrics = metrics.as_object().cloned().unwrap().into();
    line
}
