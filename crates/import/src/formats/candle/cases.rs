//! From configurations to cases: hardware, collectives, training, memory. What a field cannot be is said.

use std::collections::BTreeSet;

use terms::Error;

use super::blocks::{Configuration, Division, Hardware, STRATEGIES};
use crate::Source;
use crate::fields::one_of;
use crate::plan_text::{PlanText, joined, list, quoted};
use crate::tree::shown;

/// Sizes of messages: latency, a bucket of gradients, bandwidth.
const BYTES: &str = "[4KiB, 1MiB, 64MiB]";
/// A parameter count that differs by more is that of another model: files give two digits.
const NEAR: f64 = 0.1;
/// Samples of each replica where the user names none: the file has no batch.
const BATCH: u64 = 4;

/// What is written once, however many configurations ask for it.
#[derive(Default)]
struct WrittenOnce {
    entries: BTreeSet<String>,
    expected: Vec<String>,
}

/// One way to divide the work.
struct WorkDivision {
    strategy: &'static str,
    ranks: u64,
    /// Replicas of the model, which share the batch.
    replicas: u64,
    /// Micro-batches that the file cuts a replica's batch into.
    parts: u64,
    /// The way as fields of a case.
    fields: String,
}

/// One model with its dimensions.
struct SizedModel {
    name: String,
    /// The dimensions as fields of a case, with a comma behind each.
    fields: String,
}

/// Writes the cases of all configurations.
pub(super) fn write(source: &Source, all: &[Configuration], plan: &mut PlanText) -> Result<(), Error> {
    let mut written = WrittenOnce::default();
    let mut read = Vec::new();
    for configuration in all {
        read.push((configuration, sizes(source, configuration, plan)?, ways(source, configuration, plan)?));
    }
    let batch = source.given("batch").and_then(|batch| batch.parse::<u64>().ok());
    let all_ways: Vec<&WorkDivision> = read.iter().flat_map(|(.., ways)| ways).collect();
    let replicas = all_ways.iter().map(|way| way.replicas).max().unwrap_or(1);
    let global = batch.map_or_else(|| shared_batch(&all_ways, replicas), |batch| batch.saturating_mul(replicas));
    plan.became("batch", format!("global_batch: {global} in all training cases: strategies divide the same batch"));
    plan.line(0, "cases:");
    for (configuration, sizes, ways) in &read {
        plan.line(1, &format!("# {}", shown(&configuration.name)));
        let several: BTreeSet<u64> = ways.iter().map(|way| way.ranks).filter(|ranks| *ranks > 1).collect();
        let several: Vec<u64> = several.into_iter().collect();
        let on_gpus = configuration.hardware.devices.contains(&"cuda") && source.here().gpus > 0;
        of_machine(on_gpus, &several, plan, &mut written);
        about_hardware(source, configuration, &several, plan, &mut written);
        for size in sizes {
            training(size, ways, global, on_gpus, plan, &mut written);
            memory(size, ways, (&configuration.hardware, on_gpus), batch, plan, &mut written);
        }
    }
    if !written.expected.is_empty() {
        plan.line(0, "expected:");
        written.expected.iter().for_each(|line| plan.line(1, line));
    }
    Ok(())
}

/// A batch that all strategies divide into whole micro-batches: at least [`BATCH`] samples for each replica.
fn shared_batch(ways: &[&WorkDivision], replicas: u64) -> u64 {
    let unit = ways.iter().fold(1, |unit, way| common_multiple(unit, way.replicas.saturating_mul(way.parts)));
    replicas.saturating_mul(BATCH).div_ceil(unit).saturating_mul(unit)
}

/// The least common multiple of two numbers from 1; the largest number where that is larger.
fn common_multiple(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (a / divisor).saturating_mul(b)
}

fn entry(fields: &str, why: &str, plan: &mut PlanText, written: &mut WrittenOnce) {
    if written.entries.insert(fields.to_owned()) {
        plan.line(1, &format!("- {{{fields}}} # {why}"));
    }
}

/// Models with their dimensions: those of the file, or the one that the user named instead.
fn sizes(source: &Source, configuration: &Configuration, plan: &mut PlanText) -> Result<Vec<SizedModel>, Error> {
    let model = &configuration.model;
    let dimensions = [("layers", model.layers), ("hidden_size", model.width)];
    let given: Vec<String> =
        dimensions.iter().filter_map(|(name, value)| Some(format!("{name} {}", (*value)?))).collect();
    let known = &source.here().models;
    if let Some(name) = source.given("model") {
        let mut sizes = Vec::new();
        for name in name.split(',') {
            let name = if known.is_empty() { name } else { one_of(source, "--model", name, model.line, known)? };
            sizes.push(SizedModel { name: name.to_owned(), fields: String::new() });
        }
        plan.became(
            "model",
            format!(
                "model {}, which `--model` names, with its own dimensions",
                joined(&sizes.iter().map(|size| size.name.as_str()).collect::<Vec<_>>())
            ),
        );
        return Ok(sizes);
    }
    let several = model.sizes.len() > 1;
    let of_one: Vec<String> =
        given.iter().cloned().chain(model.parameters.map(|parameters| format!("parameters {parameters}"))).collect();
    if several && !of_one.is_empty() {
        plan.warning(format!(
            "model: {} are of one size, and the file names {}: each size has its own",
            of_one.join(", "),
            joined(&model.sizes)
        ));
    }
    let mut sizes = Vec::new();
    for size in &model.sizes {
        let name = format!("transformer-{size}");
        let mut fields = String::new();
        let mut settings: Vec<(String, f64)> = Vec::new();
        for (field, value) in [("layers", model.layers), ("width", model.width)] {
            if let Some(value) = value.filter(|_| !several) {
                fields += &format!("{field}: {value}, ");
                settings.push((field.to_owned(), value as f64));
            }
        }
        if let Some(width) = model.width.filter(|_| !several) {
            let heads = heads(source, model.line, width)?;
            fields += &format!("heads: {heads}, ");
            settings.push(("heads".to_owned(), heads as f64));
        }
        let what = if given.is_empty() || several { String::new() } else { format!(" with {}", given.join(", ")) };
        plan.became(
            format!("model: transformer, size {size}{what}"),
            format!("model: {name}, {fields}").trim_end_matches(", "),
        );
        if !several {
            check_parameters(source, configuration, &name, &settings, plan)?;
        }
        sizes.push(SizedModel { name, fields });
    }
    Ok(sizes)
}

/// Heads of attention of this width: 64 features each, as most models have, else the largest even divisor below.
fn heads(source: &Source, line: usize, width: u64) -> Result<u64, Error> {
    let of_a_head = (8..=64).rev().find(|features| features % 2 == 0 && width.is_multiple_of(*features));
    of_a_head.map(|features| width / features).ok_or_else(|| {
        let what = format!("hidden_size {width} cannot be divided into heads of 8 to 64 features");
        let near = ((width + 32) / 64).max(1) * 64;
        source.error(line, what).hint(format!("hidden_size {near} can be"))
    })
}

/// Compares the number of parameters of the file with that of the model which runs.
fn check_parameters(
    source: &Source,
    configuration: &Configuration,
    name: &str,
    settings: &[(String, f64)],
    plan: &mut PlanText,
) -> Result<(), Error> {
    let model = &configuration.model;
    let Some(count) = source.here().parameters else { return Ok(()) };
    let Some(count) = count(name, settings) else {
        let dimensions: Vec<String> = settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let what = format!("{name} cannot have {}", dimensions.join(" and "));
        return Err(source.error(model.line, what).hint("its attention heads must divide hidden_size"));
    };
    let Some(given) = model.parameters else { return Ok(()) };
    let near = (given as f64 / count as f64 - 1.0).abs() <= NEAR;
    match near {
        true => plan.became(format!("parameters: {given}"), format!("checked: {name} has {count}")),
        false => plan.warning(format!("parameters: {given}, but {name} with these dimensions has {count}: these run")),
    }
    Ok(())
}

/// The strategies with their ranks.
fn ways(source: &Source, configuration: &Configuration, plan: &mut PlanText) -> Result<Vec<WorkDivision>, Error> {
    let (division, hardware) = (&configuration.division, &configuration.hardware);
    let strategies = match source.given("strategy") {
        Some(given) => {
            plan.became("strategy", format!("{}, which `--strategy` names", shown(given)));
            let one = |word: &str| one_of(source, "--strategy", word, division.line, STRATEGIES);
            given.split(',').map(one).collect::<Result<Vec<_>, _>>()?
        }
        None => division.strategies.clone(),
    };
    let ways: Vec<WorkDivision> = strategies.iter().map(|strategy| way(strategy, division, hardware)).collect();
    for way in &ways {
        if source.given("strategy").is_none() {
            plan.became(format!("strategy: {}", way.strategy), &way.fields);
        }
        match hardware.number {
            Some(number) if way.ranks > number => plan.warning(format!(
                "num_devices: {number}, and strategy {} has {} ranks: ranks share devices, and cases say where they share cores",
                way.strategy, way.ranks
            )),
            Some(number) if way.ranks < number => plan.warning(format!(
                "num_devices: {number}, and strategy {} has {} ranks: the other devices are not used",
                way.strategy, way.ranks
            )),
            _ => {}
        }
    }
    let used = |names: &[&str]| strategies.iter().any(|strategy| names.contains(strategy));
    for (name, value, used) in [
        ("data_parallel_size", division.data, used(&["data", "hybrid"])),
        ("model_parallel_size", division.model, used(&["model", "pipeline", "hybrid"])),
        ("pipeline_parallel_size", division.pipeline, used(&["model", "pipeline", "hybrid"])),
        ("micro_batches", division.micro_batches, used(&["pipeline", "hybrid"])),
    ] {
        if let Some(value) = value.filter(|_| !used) {
            plan.warning(format!("{name}: {value} has no effect in strategy {}", joined(&strategies)));
        }
    }
    Ok(ways)
}

/// A strategy on its ranks. `model` puts layers on devices one after the other, and so do the stages of `hybrid`.
fn way(strategy: &'static str, division: &Division, hardware: &Hardware) -> WorkDivision {
    let number = hardware.number.unwrap_or(1);
    let stages = match (division.model, division.pipeline) {
        (Some(model), Some(pipeline)) => Some(model.saturating_mul(pipeline)),
        (model, pipeline) => model.or(pipeline),
    };
    let (ranks, mesh) = match strategy {
        "data" => (division.data.unwrap_or(number), None),
        "hybrid" => {
            let stages = stages.unwrap_or(1);
            let data = division.data.unwrap_or((number / stages).max(1));
            (data.saturating_mul(stages), Some(format!(", mesh: {data}x1x{stages}")))
        }
        "pipeline" => (division.pipeline.or(division.model).unwrap_or(number), None),
        _ => (division.model.or(division.pipeline).unwrap_or(number), None),
    };
    let mut fields = format!("strategy: {strategy}{}, ranks: {ranks}", mesh.unwrap_or_default());
    let micro_batches = division.micro_batches.filter(|_| matches!(strategy, "pipeline" | "hybrid"));
    if let Some(parts) = micro_batches {
        fields += &format!(", micro_batches: {parts}");
    }
    let replicas = match strategy {
        "data" => ranks,
        "hybrid" => ranks / stages.unwrap_or(1),
        _ => 1,
    };
    WorkDivision { strategy, ranks, replicas, parts: micro_batches.unwrap_or(1), fields }
}

/// What the machine gives, and its collectives.
fn of_machine(on_gpus: bool, several: &[u64], plan: &mut PlanText, written: &mut WrittenOnce) {
    entry("benchmark: hardware, test: [copy, triad, gemm]", "hardware: memory and compute", plan, written);
    if on_gpus {
        let gpus = "benchmark: hardware, test: [copy, triad, gemm], device: cuda, ranks: 1";
        entry(gpus, "device_type: cuda, a GPU by itself", plan, written);
    }
    if several.is_empty() {
        plan.became("one device", "no collective cases: a device alone has no peer");
        return;
    }
    let ranks = list(several);
    let pairs = format!("benchmark: hardware, test: [latency, bandwidth], ranks: {ranks}");
    entry(&pairs, "hardware: peer-to-peer bandwidth of each two ranks", plan, written);
    let collectives = format!("benchmark: collective, op: [all_reduce, send_recv], ranks: {ranks}, bytes: {BYTES}");
    entry(&collectives, "communication: AllReduce and peer to peer", plan, written);
    if on_gpus {
        for on_cpus in [&pairs, &collectives] {
            entry(&format!("{on_cpus}, device: cuda"), "device_type: cuda", plan, written);
        }
    }
    plan.became(
        "hardware, model and parallelization",
        "cases of the benchmarks hardware, collective, training and memory",
    );
}

/// The block `hardware`: what is used, checked, or neither.
fn about_hardware(
    source: &Source,
    configuration: &Configuration,
    several: &[u64],
    plan: &mut PlanText,
    written: &mut WrittenOnce,
) {
    let hardware = &configuration.hardware;
    for device in &hardware.devices {
        match *device {
            "cpu" => plan.became("device_type: cpu", "device: cpu"),
            "cuda" if source.here().gpus == 0 => {
                plan.warning("device_type: cuda: no GPU was found: all cases run on the CPU")
            }
            "cuda" => plan.became("device_type: cuda", "device: cuda, with each case also on the CPU"),
            other => plan.warning(format!("device_type: {other}: all cases run on the CPU and its memory")),
        }
    }
    if let Some(memory) = hardware.memory_gb {
        plan.became(
            format!("memory_per_device_gb: {memory}"),
            format!("limit: {} of each rank, in memory cases", limit_of(memory)),
        );
        let needed = memory * 1e9 * hardware.number.unwrap_or(1) as f64;
        if let Some(here) = source.here().memory.filter(|here| needed > *here as f64) {
            plan.warning(format!(
                "memory_per_device_gb: {memory} on {} is {:.0} GB, and this machine has {:.1} GB: what needs more is skipped",
                if hardware.number.unwrap_or(1) == 1 { "1 device".to_owned() } else { format!("{} devices", hardware.number.unwrap_or(1)) },
                needed / 1e9,
                here as f64 / 1e9
            ));
        }
    }
    for interconnect in &hardware.interconnects {
        match *interconnect {
            "nvlink" => plan.warning(
                "interconnect: nvlink is not a setting: the cases `bandwidth` of the benchmark hardware measure what ranks have",
            ),
            other => plan.became(format!("interconnect: {other}"), "backend: shm, the memory of the machine"),
        }
    }
    if let Some(gbps) = hardware.network_gbps {
        network(source, gbps, several, plan, written);
    }
}

/// The network between hosts is compared only where there are several.
fn network(source: &Source, gbps: f64, several: &[u64], plan: &mut PlanText, written: &mut WrittenOnce) {
    let gbs = gbps / 8.0;
    if source.here().hosts < 2 || several.is_empty() {
        plan.warning(format!(
            "network_bandwidth_gbps: {gbps} ({gbs} GB/s) is of a network between hosts, and these ranks are on one: it is compared \
             only under a launcher over several hosts"
        ));
        return;
    }
    plan.became(format!("network_bandwidth_gbps: {gbps}"), format!("an expected figure of {gbs} GB/s for send_recv"));
    for ranks in several {
        let name = serde_json::to_string(&format!("network_bandwidth_gbps of {}", shown(source.file_name())));
        let line = format!(
            "- {{benchmark: collective, where: {{op: send_recv, ranks: {ranks}}}, metric: busbw_gbs, value: {gbs}, basis: \
             specification, source: {}}}",
            name.unwrap_or_default()
        );
        if !written.expected.contains(&line) {
            written.expected.push(line);
        }
    }
}

fn training(
    size: &SizedModel,
    ways: &[WorkDivision],
    global: u64,
    on_gpus: bool,
    plan: &mut PlanText,
    written: &mut WrittenOnce,
) {
    let SizedModel { name, fields } = size;
    let name = quoted(name);
    let mut on_each = |way: &str, why: &str| {
        let case = format!("benchmark: training, model: {name}, {fields}{way}, global_batch: {global}");
        entry(&case, why, plan, written);
        if on_gpus {
            entry(&format!("{case}, device: cuda"), "device_type: cuda", plan, written);
        }
    };
    if ways.iter().any(|way| way.ranks > 1) {
        on_each("strategy: data, ranks: 1", "training: one device, which efficiency is compared with");
    }
    for way in ways {
        on_each(&way.fields, &format!("training: strategy {}", way.strategy));
    }
}

fn memory(
    size: &SizedModel,
    ways: &[WorkDivision],
    (hardware, on_gpus): (&Hardware, bool),
    batch: Option<u64>,
    plan: &mut PlanText,
    written: &mut WrittenOnce,
) {
    let limit = |memory| format!(", limit: {}, find_max_batch: true", limit_of(memory));
    let limit = hardware.memory_gb.map_or(String::new(), limit);
    for way in ways {
        // The default need not divide into the micro-batches of the file.
        let divided = (!BATCH.is_multiple_of(way.parts)).then(|| BATCH.next_multiple_of(way.parts));
        let batch = batch.or(divided).map_or(String::new(), |batch| format!(", batch: {batch}"));
        let case =
            format!("benchmark: memory, model: {}, {}{}{batch}{limit}", quoted(&size.name), size.fields, way.fields);
        entry(&case, "memory: what a step holds, and the largest batch within memory_per_device_gb", plan, written);
        if on_gpus {
            entry(&format!("{case}, device: cuda"), "device_type: cuda", plan, written);
        }
    }
}

/// Gigabytes as a size of a plan: a fraction of them as whole bytes, which a plan reads exactly.
fn limit_of(gigabytes: f64) -> String {
    match gigabytes.fract() == 0.0 {
        true => format!("{gigabytes}GB"),
        false => format!("{:.0}", gigabytes * 1e9),
    }
}
