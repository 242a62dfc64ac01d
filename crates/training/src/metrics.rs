//! Computes the metrics of a case line from what its ranks noted: rates, phases, MFU, memory.

use std::collections::{BTreeMap, BTreeSet};

use engine::{Multiplier, Phase};
use measure::Trial;

use contract::{Measured, is_on_gpus, is_pytorch};
use model::Convention;
use record::Case;
use record::found::PartWork;
use serde_json::{Map, Value, json};

use super::declared::{
    CONDITIONS, CPU, EXCHANGE, KERNEL_TIMES, LOSS, MEMORY, MFU, MeasuredMemory, MemoryTotals, PARTS, PHASES_S,
    SAMPLES_PER_S, SAMPLES_PER_S_PER_RANK, STEP_S, TOKENS_PER_S, TOKENS_PER_S_PER_RANK, TRAFFIC,
};
use super::kernel_times;
use super::notes::{Notes, Phases};
use super::predict;
use super::resolve::Task;

/// What all ranks noted up to the end of this trial; None if one of them noted nothing.
pub(super) fn read_notes(trial: Option<&Trial>) -> Option<Vec<Notes>> {
    let details = &trial?.details;
    let notes: Vec<Notes> = details.iter().filter_map(Notes::read).collect();
    (!notes.is_empty() && notes.len() == details.len()).then_some(notes)
}

/// Losses of the first trial: later trials continue its training.
fn first_losses(measured: &Measured<'_>) -> Value {
    let first = read_notes(measured.trials.first());
    first.map_or(Value::Null, |notes| notes[0].losses().map(json_number).collect())
}

/// The task with its blocks and micro-batches as the ranks have balanced them.
pub(super) fn balanced(mut task: Task, notes: &[Notes]) -> Task {
    let Notes { stages, micro_batches, .. } = &notes[0];
    if micro_batches.len() == task.recipe.micro_batches.len() {
        task.recipe.micro_batches.clone_from(micro_batches);
    }
    task.recipe.stages.clone_from(stages);
    task
}

/// A JSON number; null for NaN and infinity, which JSON does not have.
pub(super) fn json_number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// The peak of a profile as that of a case's devices: on GPUs only. A profile has the peaks of one thread and of all threads of
/// a CPU, and none of the cores that ranks have. Native ranks measure their own in the same run; PyTorch ranks then have none.
fn peak_of_devices<'p>(case: &Case, peak: Option<(f64, &'p str)>) -> Option<(f64, &'p str)> {
    peak.filter(|_| is_on_gpus(case))
}

/// The metrics of a training case. Only native ranks run programs, from which memory and traffic are predicted.
pub(super) fn of_training(case: &Case, task: &Task, measured: &Measured<'_>, notes: &[Notes]) -> Map<String, Value> {
    let (mut metrics, median_s, native) = (Map::new(), measured.times.median, !is_pytorch(case));
    STEP_S.put(&mut metrics, measured.times.clone());
    PHASES_S.put(&mut metrics, phases(notes));
    put_rates(&mut metrics, task, median_s, notes.len());
    MFU.put(&mut metrics, mfu(task, median_s, notes, (native, peak_of_devices(case, measured.peak))));
    LOSS.put(&mut metrics, first_losses(measured));
    if let Some(outlines) = predict::outlines(task).ok().filter(|_| native) {
        MEMORY.put(&mut metrics, memory(Some(predict::categories(task, &outlines)), notes));
        TRAFFIC.put(&mut metrics, predict::traffic(&outlines));
        if let Some(parts) = phase_work(&outlines, notes) {
            PARTS.put(&mut metrics, parts);
        }
    } else {
        MEMORY.put(&mut metrics, memory(None, notes));
    }
    if !notes[0].gpu.is_empty() {
        CONDITIONS.put(&mut metrics, notes[0].gpu.clone());
    }
    if let Some(times) = kernel_times::found(notes, median_s) {
        KERNEL_TIMES.put(&mut metrics, times);
    }
    CPU.put(&mut metrics, cpu(task, notes));
    EXCHANGE.put(&mut metrics, exchange(task));
    metrics
}

/// The work of each phase: operations and memory traffic of all ranks, and the time of the rank that computes longest.
fn phase_work(outlines: &[parallel::Outline], notes: &[Notes]) -> Option<Map<String, Value>> {
    let slowest = notes.iter().max_by(|a, b| a.phases.computing().total_cmp(&b.phases.computing()));
    let Phases { forward, backward, optimizer, .. } = slowest.map(|rank| &rank.phases)?;
    let part = |phase: Phase, seconds: f64| {
        let work = |outline: &parallel::Outline| outline.phases.get(&phase).copied().unwrap_or_default();
        let sum =
            |pick: fn(&parallel::PhaseWork) -> f64| outlines.iter().map(|outline| pick(&work(outline))).sum::<f64>();
        let [flops, bytes] = [sum(|work| work.flops), sum(|work| work.bytes)].map(Some);
        json!(PartWork { seconds: Some(seconds), flops, bytes })
    };
    let parts = [
        ("forward", part(Phase::Forward, *forward)),
        ("backward", part(Phase::Backward, *backward)),
        ("optimizer", part(Phase::Optimizer, *optimizer)),
    ];
    Some(parts.into_iter().map(|(name, part)| (name.to_owned(), part)).collect())
}

/// How gradients are exchanged, in a word; null if there is only one replica.
fn exchange(task: &Task) -> Value {
    match (task.recipe.communicate, task.recipe.overlap) {
        _ if task.recipe.mesh.data < 2 => Value::Null,
        (false, _) => "none".into(),
        (true, true) => "overlapped".into(),
        (true, false) => "after backward".into(),
    }
}

/// The metrics of a memory case.
pub(super) fn of_memory(task: &Task, measured: &Measured<'_>, notes: &[Notes]) -> Map<String, Value> {
    let mut metrics = Map::new();
    if let Ok(outlines) = predict::outlines(task) {
        MEMORY.put(&mut metrics, memory(Some(predict::categories(task, &outlines)), notes));
    }
    STEP_S.put(&mut metrics, measured.times.clone());
    LOSS.put(&mut metrics, first_losses(measured));
    metrics
}

/// The metrics of a memory case that is not run: predicted bytes by category.
pub(super) fn predicted_memory(task: &Task) -> Map<String, Value> {
    let mut metrics = Map::new();
    if let Ok(outlines) = predict::outlines(task) {
        MEMORY.put(&mut metrics, memory(Some(predict::categories(task, &outlines)), &[]));
    }
    metrics
}

fn put_rates(metrics: &mut Map<String, Value>, task: &Task, median_s: f64, ranks: usize) {
    let samples = task.recipe.global_batch() as f64 / median_s;
    let tokens = Some(samples * task.tokens() as f64).filter(|tokens| *tokens > 0.0);
    SAMPLES_PER_S.put(metrics, samples);
    if let Some(tokens) = tokens {
        TOKENS_PER_S.put(metrics, tokens);
    }
    SAMPLES_PER_S_PER_RANK.put(metrics, samples / ranks as f64);
    if let Some(tokens) = tokens {
        TOKENS_PER_S_PER_RANK.put(metrics, tokens / ranks as f64);
    }
}

/// Median phase times of the rank that computes longest, then those of each rank.
///
/// A rank in a collective waits for the others before anything is transferred. The time of the rank that waits least is
/// the transfer; what others spend beyond it is waiting (definitions: stalls and stragglers), here over a whole step.
/// Which rank waits least may differ from step to step. So the minimum over ranks is taken in each step, and then the
/// median over steps: the minimum of the ranks' medians would count waiting as transfer.
fn phases(notes: &[Notes]) -> Value {
    let transfers = transfer_times(notes);
    let transfer = transfers.as_ref().map(|all| stats::median(all));
    let wait = |rank: &Notes| {
        let waits = transfers.as_ref()?.iter().zip(&rank.communication_s).map(|(transfer, own)| own - transfer);
        Some(stats::median(&waits.collect::<Vec<_>>()))
    };
    let phases_of = |rank: &Notes| {
        let own = &rank.phases;
        [
            ("input", Some(own.input)),
            ("forward", Some(own.forward)),
            ("backward", Some(own.backward)),
            ("communication", transfer),
            ("wait", wait(rank)),
            ("optimizer", Some(own.optimizer)),
        ]
    };
    let number_or_null = |value: Option<f64>| value.map_or(Value::Null, json_number);
    // The others wait for the rank that computes longest.
    let slowest = notes.iter().max_by(|a, b| a.phases.computing().total_cmp(&b.phases.computing()));
    let Some(slowest) = slowest else { return Value::Null };
    let measured = || phases_of(slowest).into_iter().enumerate().filter(|(_, (_, value))| value.is_some());
    let mut times: Map<String, Value> =
        measured().map(|(_, (name, value))| (name.to_owned(), number_or_null(value))).collect();
    let mut ranks = Map::new();
    for (index, (name, _)) in measured() {
        ranks.insert(name.to_owned(), notes.iter().map(|rank| number_or_null(phases_of(rank)[index].1)).collect());
    }
    times.insert("per_rank".to_owned(), Value::Object(ranks));
    Value::Object(times)
}

/// Seconds of transfer in each step: those of the rank that waited least. None if a rank did not measure them.
fn transfer_times(notes: &[Notes]) -> Option<Vec<f64>> {
    let steps = notes.iter().map(|rank| rank.communication_s.len()).min()?;
    let all_measured = steps > 0 && notes.iter().all(|rank| rank.phases.communication.is_some());
    let least = |step: usize| notes.iter().map(|rank| rank.communication_s[step]).fold(f64::INFINITY, f64::min);
    all_measured.then(|| (0..steps).map(least).collect())
}

/// Adds a value unless it is null.
fn put(metrics: &mut Map<String, Value>, name: &str, value: Value) {
    if !value.is_null() {
        metrics.insert(name.to_owned(), value);
    }
}

/// MFU by each convention: shares of the peak of all ranks' cores or GPUs, which is that of a profile if there is one.
fn mfu(task: &Task, median_s: f64, notes: &[Notes], (native, profile_peak): (bool, Option<(f64, &str)>)) -> Value {
    let peak: f64 = profile_peak.map_or_else(|| notes.iter().map(|rank| rank.peak_flops).sum(), |(peak, _)| peak);
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
    put(&mut shares, "headline", share(headline).map_or(Value::Null, json_number));
    put(&mut shares, "convention", headline.to_string().into());
    for convention in <Convention as terms::Named>::ALL {
        put(&mut shares, &convention.to_string(), share(*convention).map_or(Value::Null, json_number));
    }
    if task.recipe.recompute {
        let executed: f64 = predict::outlines(task).unwrap_or_default().iter().map(|outline| outline.flops).sum();
        put(&mut shares, "hfu", json_number(executed / median_s / peak));
    }
    let gemm: f64 = notes.iter().map(|rank| rank.gemm_flops).sum();
    if let Some(share) = share(headline).filter(|_| gemm > 0.0) {
        put(&mut shares, "of_gemm", json_number(share * peak / gemm));
        put(&mut shares, "gemm_flops", json_number(gemm));
    }
    put(&mut shares, "parameters", model.product_parameters().into());
    put(&mut shares, "peak_flops", json_number(peak));
    put(&mut shares, "multiplied", multiplied(notes));
    let threads = notes.len() * task.threads;
    let sources: BTreeSet<&str> = notes.iter().map(|rank| rank.peak_source.as_str()).collect();
    let sources = sources.into_iter().collect::<Vec<_>>().join(" and ");
    let source = match (native, profile_peak) {
        (_, Some((_, profile))) => format!("the profile `{profile}`: the fastest product or loop"),
        (true, None) if task.gpus.is_none() => {
            format!("measured: a loop of multiplications and additions, {sources}, {threads} threads at once")
        }
        (_, None) => format!("measured: {sources}, on {}", ::view::number::count(notes.len(), "GPU", "GPUs")),
    };
    put(&mut shares, "peak_source", source.into());
    Value::Object(shares)
}

/// Share of all ranks' operations that each multiplier executed.
fn multiplied(notes: &[Notes]) -> Value {
    let mut sums: BTreeMap<Multiplier, f64> = BTreeMap::new();
    for (multiplier, flops) in notes.iter().flat_map(|rank| &rank.multiplied) {
        *sums.entry(*multiplier).or_default() += flops;
    }
    let total: f64 = sums.values().sum();
    let share = |(multiplier, flops): (&Multiplier, &f64)| (multiplier.to_string(), json_number(flops / total));
    let shares: Map<String, Value> = sums.iter().map(share).collect();
    if shares.is_empty() { Value::Null } else { Value::Object(shares) }
}

/// Predicted bytes by category and measured bytes, over all ranks. `process` is what ranks held before the case began:
/// program, libraries, measuring code. No plan predicts it, so it is subtracted from what was measured before the two
/// are compared.
fn memory(predicted: Option<Map<String, Value>>, notes: &[Notes]) -> MemoryTotals {
    let process: u64 = notes.iter().map(|rank| rank.base_bytes).sum();
    let total: u64 = notes.iter().map(|rank| rank.held_bytes).sum();
    let case = total.saturating_sub(process);
    let measured = (total > 0).then(|| MeasuredMemory {
        total,
        process: Some(process),
        case,
        per_rank: notes.iter().map(|rank| rank.held_bytes).collect(),
    });
    let Some(mut predicted) = predicted else { return MemoryTotals { measured, ..MemoryTotals::default() } };
    let planned: u64 = predicted.values().filter_map(Value::as_u64).sum();
    let parts = Some(parts(&predicted));
    predicted.insert("total".to_owned(), planned.into());
    let difference = (case > 0).then(|| (planned as f64 - case as f64) / case as f64);
    MemoryTotals { predicted: Some(predicted), parts, measured, difference }
}

/// Predicted bytes, with categories summed to the parts that a table shows.
fn parts(predicted: &Map<String, Value>) -> Map<String, Value> {
    const PARTS: [(&str, &[&str]); 6] = [
        ("parameters", &["parameters"]),
        ("gradients", &["gradients"]),
        ("optimizer", &["optimizer"]),
        ("activations", &["activations"]),
        ("buffers", &["communication", "groups"]),
        ("rest", &["input", "read_ahead", "scalars", "scratch"]),
    ];
    let sum = |names: &[&str]| names.iter().filter_map(|name| predicted.get(*name)?.as_u64()).sum::<u64>();
    PARTS.iter().map(|(part, names)| ((*part).to_owned(), sum(names).into())).collect()
}

fn cpu(task: &Task, notes: &[Notes]) -> Value {
    let seconds: f64 = notes.iter().map(|rank| rank.cpu_s).sum();
    let steps = notes[0].loss_bits.len().max(1) as f64;
    json!({
        "compute_threads": notes.len() * task.threads,
        "threads": notes.iter().map(|rank| rank.threads).sum::<u64>(),
        "seconds": json_number(seconds),
        "seconds_per_step": json_number(seconds / steps),
    })
}

/// Why the ranks' notes cannot all be right: losses that differ between ranks.
pub(super) fn disagreement(notes: &[Notes]) -> Option<String> {
    let first = notes.first()?;
    for (rank, other) in notes.iter().enumerate().skip(1) {
        if other.loss_bits.len() != first.loss_bits.len() {
            let (a, b) = (first.loss_bits.len(), other.loss_bits.len());
            return Some(format!("rank 0 ran {a} steps, but rank {rank} ran {b}"));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(communication: &[f64]) -> Notes {
        let phases = Phases { forward: 1.0, communication: Some(stats::median(communication)), ..Phases::default() };
        Notes { phases, communication_s: communication.to_vec(), ..Notes::default() }
    }

    #[test]
    fn communication_is_the_least_of_each_step() {
        // Transfer takes 1.7 ms; in each step a different one of three ranks is last, and the others wait 6 ms for it.
        let (transfer, wait) = (1.7e-3, 7.7e-3);
        let communication_of =
            |own: usize| -> Vec<f64> { (0..9).map(|step| if step % 3 == own { transfer } else { wait }).collect() };
        let phases = phases(&[rank(&communication_of(0)), rank(&communication_of(1)), rank(&communication_of(2))]);
        assert_eq!(phases["communication"], 1.7e-3);
        // Each rank's median is a step in which it waited.
        assert!((phases["wait"].as_f64().unwrap() - 6e-3).abs() < 1e-12, "{phases}");
        assert_eq!(phases["per_rank"]["communication"], json!([transfer, transfer, transfer]));
    }

    #[test]
    fn communication_that_a_rank_cannot_time_is_left_out() {
        let silent = Notes { phases: Phases { communication: None, ..Phases::default() }, ..Notes::default() };
        let phases = phases(&[rank(&[1.0]), silent]);
        assert_eq!((phases.get("communication"), phases.get("wait")), (None, None));
    }

    #[test]
    fn the_peak_of_gpus_is_that_of_a_profile_where_there_is_one() {
        let flags = [("model", "mlp"), ("ranks", "2")];
        let plan =
            record::plan::from_flags(contract::Benchmark::about(&crate::TrainingBenchmark), &flags, &[]).unwrap();
        let task = Task::from_case(&plan.cases[0]).unwrap();
        let notes = [(); 2].map(|()| Notes { peak_flops: 1e12, peak_source: "torch".to_owned(), ..Notes::default() });
        let share = |given| mfu(&task, 1e-3, &notes, (false, given));
        let own = share(None);
        let (headline, peak) = (|found: &Value| found["headline"].as_f64().unwrap(), Some((8e12, "profile")));
        assert_eq!(own["peak_source"], "measured: torch, on 2 GPUs");
        assert!((headline(&own) / headline(&share(peak)) - 4.0).abs() < 1e-9, "a peak four times as high");
        assert_eq!(share(peak)["peak_source"], "the profile `profile`: the fastest product or loop");
    }

    #[test]
    fn the_peak_of_a_profile_is_not_that_of_cores() {
        let given = |flags: &[(&str, &str)]| {
            let about = contract::Benchmark::about(&crate::TrainingBenchmark);
            let flags = [[("model", "mlp"), ("ranks", "4")].as_slice(), flags].concat();
            let plan = record::plan::from_flags(about, flags.as_slice(), &[]).unwrap();
            peak_of_devices(&plan.cases[0], Some((1e11, "profile")))
        };
        assert_eq!(given(&[]), None);
        assert_eq!(given(&[("runtime", "pytorch")]), None, "it would be the peak of one core for four");
        assert!(given(&[("runtime", "pytorch"), ("device", "cuda")]).is_some());
    }

    #[test]
    fn memory_of_the_process_is_not_predicted() {
        let predicted: Map<String, Value> =
            [("parameters".to_owned(), json!(600)), ("activations".to_owned(), json!(300))].into_iter().collect();
        let held = |base_bytes, held_bytes| Notes { base_bytes, held_bytes, ..Notes::default() };
        let memory = json!(memory(Some(predicted), &[held(5_000, 5_500), held(5_000, 5_500)]));
        assert_eq!(memory["predicted"]["total"], 900);
        assert_eq!(memory["predicted"].get("process"), None);
        assert_eq!(memory["measured"]["process"], 10_000);
        assert_eq!((&memory["measured"]["total"], &memory["measured"]["case"]), (&json!(11_000), &json!(1_000)));
        // 900 bytes of 1,000, rather than 10,900 of 11,000.
        assert_eq!(memory["difference"], -0.1);
    }
}
