//! From what ranks noted to the case line: rates, phases, MFU, memory.

use std::collections::{BTreeMap, BTreeSet};

use engine::Multiplier;
use measure::Launch;

use crate::Measured;
use model::Convention;
use serde_json::{Map, Value, json};

use super::notes::Notes;
use super::predict;
use super::resolve::Task;

/// What the ranks of the last launch noted; None where one of them noted nothing.
pub(super) fn notes(launches: &[Launch]) -> Option<Vec<Notes>> {
    let last = launches.last()?;
    let notes: Vec<Notes> = last.details.iter().filter_map(Notes::read).collect();
    (!notes.is_empty() && notes.len() == last.details.len()).then_some(notes)
}

/// The task as the ranks have balanced it.
pub(super) fn balanced(mut task: Task, notes: &[Notes]) -> Task {
    let Notes { stages, micro_batches, .. } = &notes[0];
    if micro_batches.len() == task.recipe.micro_batches.len() {
        task.recipe.micro_batches.clone_from(micro_batches);
    }
    task.recipe.stages.clone_from(stages);
    task
}

/// A number, if it is one.
pub(super) fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn put(metrics: &mut Map<String, Value>, name: &str, value: Value) {
    if !value.is_null() {
        metrics.insert(name.to_owned(), value);
    }
}

/// The metrics of a training case. What programs hold and exchange is known of `ours` only, and not of what others run.
pub(super) fn of_training(task: &Task, measured: &Measured<'_>, notes: &[Notes], ours: bool) -> Map<String, Value> {
    let (mut metrics, median_s) = (Map::new(), measured.times.median);
    put(&mut metrics, "step_s", json!(measured.times));
    put(&mut metrics, "phases_s", phases(notes));
    put_rates(&mut metrics, task, median_s, notes.len());
    put(&mut metrics, "mfu", mfu(task, median_s, notes));
    put(&mut metrics, "loss", notes[0].losses().map(number).collect());
    if let Some(outlines) = predict::outlines(task).ok().filter(|_| ours) {
        put(&mut metrics, "memory", memory(Some(predict::categories(task, &outlines)), notes));
        put(&mut metrics, "traffic", predict::traffic(&outlines));
    } else {
        put(&mut metrics, "memory", memory(None, notes));
    }
    put(&mut metrics, "cpu", cpu(task, notes));
    metrics
}

/// The metrics of a memory case.
pub(super) fn of_memory(task: &Task, measured: &Measured<'_>, notes: &[Notes]) -> Map<String, Value> {
    let mut metrics = Map::new();
    if let Ok(outlines) = predict::outlines(task) {
        put(&mut metrics, "memory", memory(Some(predict::categories(task, &outlines)), notes));
    }
    put(&mut metrics, "step_s", json!(measured.times));
    put(&mut metrics, "loss", notes[0].losses().map(number).collect());
    metrics
}

fn put_rates(metrics: &mut Map<String, Value>, task: &Task, median_s: f64, ranks: usize) {
    let samples = task.recipe.global_batch() as f64 / median_s;
    let tokens = samples * task.tokens() as f64;
    put(metrics, "samples_per_s", number(samples));
    if tokens > 0.0 {
        put(metrics, "tokens_per_s", number(tokens));
    }
    put(metrics, "samples_per_s_per_rank", number(samples / ranks as f64));
    if tokens > 0.0 {
        put(metrics, "tokens_per_s_per_rank", number(tokens / ranks as f64));
    }
}

/// Medians of the slowest rank's phases, then those of each rank.
///
/// A rank in a collective waits for the others before anything is transferred; what the rank that waited least spent is
/// the transfer, and what others spent beyond it is waiting (definitions: stalls and stragglers), here over a whole step.
fn phases(notes: &[Notes]) -> Value {
    let told: Option<Vec<f64>> = notes.iter().map(|rank| rank.phases.communication).collect();
    let transfer = told.map(|all| all.into_iter().fold(f64::INFINITY, f64::min));
    let of = |rank: &Notes| {
        let own = &rank.phases;
        [
            ("input", Some(own.input)),
            ("forward", Some(own.forward)),
            ("backward", Some(own.backward)),
            ("communication", transfer),
            ("wait", own.communication.zip(transfer).map(|(own, transfer)| own - transfer)),
            ("optimizer", Some(own.optimizer)),
        ]
    };
    let number = |value: Option<f64>| value.map_or(Value::Null, number);
    // Who waits least is who the others wait for; of two that wait alike, the one that takes longer.
    let slowest = notes.iter().max_by(|a, b| a.phases.computing().total_cmp(&b.phases.computing()));
    let Some(slowest) = slowest else { return Value::Null };
    let told = || of(slowest).into_iter().enumerate().filter(|(_, (_, value))| value.is_some());
    let mut all: Map<String, Value> = told().map(|(_, (name, value))| (name.to_owned(), number(value))).collect();
    let mut ranks = Map::new();
    for (index, (name, _)) in told() {
        ranks.insert(name.to_owned(), notes.iter().map(|rank| number(of(rank)[index].1)).collect());
    }
    all.insert("per_rank".to_owned(), Value::Object(ranks));
    Value::Object(all)
}

/// Shares of the peak that all ranks' cores reached together.
fn mfu(task: &Task, median_s: f64, notes: &[Notes]) -> Value {
    let peak: f64 = notes.iter().map(|rank| rank.peak_flops).sum();
    if peak <= 0.0 {
        return Value::Null;
    }
    let (model, batch) = (&task.recipe.model, task.recipe.global_batch() as f64);
    let headline = model.headline();
    let share = |convention: Convention| {
        let flops = model.flops(convention).ok().flatten()?;
        Some(flops * batch / median_s / peak)
    };
    let mut shares = Map::new();
    put(&mut shares, "headline", share(headline).map_or(Value::Null, number));
    put(&mut shares, "convention", headline.to_string().into());
    for convention in <Convention as terms::Named>::ALL {
        put(&mut shares, &convention.to_string(), share(*convention).map_or(Value::Null, number));
    }
    if task.recipe.recompute {
        let done: f64 = predict::outlines(task).unwrap_or_default().iter().map(|outline| outline.flops).sum();
        put(&mut shares, "hfu", number(done / median_s / peak));
    }
    let gemm: f64 = notes.iter().map(|rank| rank.gemm_flops).sum();
    if let Some(share) = share(headline).filter(|_| gemm > 0.0) {
        put(&mut shares, "of_gemm", number(share * peak / gemm));
        put(&mut shares, "gemm_flops", number(gemm));
    }
    put(&mut shares, "parameters", model.product_parameters().into());
    put(&mut shares, "peak_flops", number(peak));
    put(&mut shares, "multiplied", multiplied(notes));
    let threads = notes.len() * task.threads;
    let loops: BTreeSet<&str> = notes.iter().map(|rank| rank.peak_source.as_str()).collect();
    let loops: Vec<&str> = loops.into_iter().collect();
    let loops = loops.join(" and ");
    let source = format!("measured: a loop of multiplications and additions, {loops}, {threads} threads at once");
    put(&mut shares, "peak_source", source.into());
    Value::Object(shares)
}

/// Share of all ranks' products that each way to multiply did.
fn multiplied(notes: &[Notes]) -> Value {
    let mut sums: BTreeMap<Multiplier, f64> = BTreeMap::new();
    for (by, flops) in notes.iter().flat_map(|rank| &rank.multiplied) {
        *sums.entry(*by).or_default() += flops;
    }
    let all: f64 = sums.values().sum();
    let shares: Map<String, Value> = sums.iter().map(|(by, flops)| (by.to_string(), number(flops / all))).collect();
    if shares.is_empty() { Value::Null } else { Value::Object(shares) }
}

/// Predicted by category and measured, in bytes over all ranks. `process` is what ranks held before anything of the case
/// was there (program, libraries, harness): measured, because no plan knows it.
fn memory(predicted: Option<Map<String, Value>>, notes: &[Notes]) -> Value {
    let process: u64 = notes.iter().map(|rank| rank.base_bytes).sum();
    let measured: u64 = notes.iter().map(|rank| rank.held_bytes).sum();
    let mut memory = Map::new();
    if measured > 0 {
        let per_rank: Value = notes.iter().map(|rank| rank.held_bytes).collect();
        memory.insert("measured".to_owned(), json!({"total": measured, "per_rank": per_rank}));
    }
    let Some(mut predicted) = predicted else { return Value::Object(memory) };
    predicted.insert("process".to_owned(), process.into());
    let total: u64 = predicted.values().filter_map(Value::as_u64).sum();
    predicted.insert("total".to_owned(), total.into());
    memory.shift_insert(0, "predicted".to_owned(), Value::Object(predicted));
    if measured > 0 {
        memory.insert("difference".to_owned(), number((total as f64 - measured as f64) / measured as f64));
    }
    Value::Object(memory)
}

fn cpu(task: &Task, notes: &[Notes]) -> Value {
    let seconds: f64 = notes.iter().map(|rank| rank.cpu_s).sum();
    let steps = notes[0].loss_bits.len().max(1) as f64;
    json!({
        "compute_threads": notes.len() * task.threads,
        "threads": notes.iter().map(|rank| rank.threads).sum::<u64>(),
        "seconds": number(seconds),
        "seconds_per_step": number(seconds / steps),
    })
}

/// Why the ranks' notes cannot all be right: losses that differ between ranks.
pub(super) fn disagreement(notes: &[Notes]) -> Option<String> {
    let first = notes.first()?;
    for (rank, other) in notes.iter().enumerate().skip(1) {
        if other.loss_bits.len() != first.loss_bits.len() {
            let (a, b) = (first.loss_bits.len(), other.loss_bits.len());
            return Some(format!("rank 0 made {a} steps, and rank {rank} {b}"));
        }
        let differs = first.losses().zip(other.losses()).position(|(a, b)| a.to_bits() != b.to_bits());
        if let Some(step) = differs {
            let loss = |notes: &Notes| f64::from_bits(notes.loss_bits[step]);
            let (a, b) = (loss(first), loss(other));
            return Some(format!("the loss of step {} is {a} on rank 0 and {b} on rank {rank}", step + 1));
        }
    }
    None
}
