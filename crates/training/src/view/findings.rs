//! What training and memory cases show, in sentences. Efficiency, overlap and memory stand in the case lines; nothing here
//! needs samples.

use record::{Case, CaseLine, Key};
use serde_json::Value;
use terms::Status;
use view::number::{bytes, factor, list, percent, seconds, three_digits};
use view::study::{Configuration, Measured, Operation, backend, ranks};

use contract::fields::CUDA;

use super::super::declared::{
    MAX_BATCH, MEMORY, MFU, MeasuredMemory, OVERLAPPED, Overlapped, PHASES_S, SAMPLES_PER_S, SCALING, Scaling,
    TOKENS_PER_S,
};
use super::super::predict;
use super::super::scaling::has_stages;

/// A number inside of a metric.
fn inner(metric: &Key<Value>, case: &CaseLine, path: &[&str]) -> Option<f64> {
    path.iter().try_fold(metric.value(case)?, |value, name| value.get(name))?.as_f64()
}

/// Bytes of a category as predicted, over all ranks.
pub(super) fn predicted(case: &CaseLine, category: &str) -> Option<f64> {
    MEMORY.value(case)?.get("predicted")?.get(category)?.as_f64()
}

pub(super) fn held(case: &CaseLine) -> Option<MeasuredMemory> {
    MEMORY.of(case)?.measured
}

/// Bytes that the processes of all ranks held.
pub(super) fn total_held(case: &CaseLine) -> Option<f64> {
    Some(held(case)?.total as f64)
}

pub(super) fn parameter<'c>(case: &'c CaseLine, name: &str) -> Option<&'c Value> {
    case.parameters.get(name)
}

pub(super) fn word<'c>(case: &'c CaseLine, name: &str) -> &'c str {
    parameter(case, name).and_then(Value::as_str).unwrap_or_default()
}

/// `94% (92% to 96%), excellent`.
fn efficiency(about: &Scaling) -> String {
    let range = about.ci95.map_or(String::new(), |[low, high]| format!(" ({} to {})", percent(low), percent(high)));
    let word = about.word.as_ref().map_or(String::new(), |word| format!(", {word}"));
    format!("{}{range}{word}", percent(about.efficiency))
}

/// Measured, right cases, in the order of the run.
pub(super) fn measured<'o>(operation: &'o Operation) -> Vec<(&'o Configuration<'o>, &'o CaseLine)> {
    let points = |c: &'o Configuration<'o>| c.points.iter().map(move |point| (c, point.case));
    operation.configurations.iter().flat_map(points).collect()
}

const PHASES: [&str; 6] = ["input", "forward", "backward", "communication", "wait", "optimizer"];

/// Predicted parts of a case that have no column of their own.
pub(super) const REST: [&str; 4] = ["input", "read_ahead", "scalars", "scratch"];

/// What the processes held before the case. Older records have it among what was predicted.
pub(super) fn process(case: &CaseLine) -> Option<f64> {
    let measured = held(case).and_then(|held| held.process).map(|bytes| bytes as f64);
    measured.or_else(|| predicted(case, "process"))
}

/// What was predicted of the case alone.
pub(super) fn predicted_total(case: &CaseLine) -> Option<f64> {
    let older = predicted(case, "process").unwrap_or(0.0);
    predicted(case, "total").map(|total| total - older)
}

/// How far what was predicted is from what was measured, both of the case alone.
pub(super) fn difference(case: &CaseLine) -> Option<f64> {
    let measured = total_held(case)? - process(case)?;
    predicted_total(case).filter(|_| measured > 0.0).map(|predicted| (predicted - measured) / measured)
}

/// Cases that exchange gradients.
fn training<'o>(operation: &'o Operation<'o>) -> Vec<&'o CaseLine> {
    measured(operation).into_iter().map(|(_, case)| case).filter(|case| communicates(case)).collect()
}

/// What memory cases show, the most important first.
pub(super) fn of_memory(operation: &Operation) -> Vec<String> {
    let ran = training(operation);
    let all = operation.configurations.iter().flat_map(|c| c.cases.iter().copied());
    let planned: Vec<&CaseLine> = all.filter(|case| case.status == Status::Ok && communicates(case)).collect();
    [fullest(if ran.is_empty() { &planned } else { &ran }), largest(operation)].into_iter().flatten().collect()
}

/// What training cases show, the most important first.
pub(super) fn of_training(operation: &Operation) -> Vec<String> {
    let cases = training(operation);
    let mut said: Vec<String> = super::strategies::fastest(operation).into_iter().collect();
    said.extend(throughput(&cases));
    said.extend(cases.iter().filter_map(|case| scaling(case)));
    said.extend(cases.iter().filter_map(|case| overlapped(case)));
    said.extend(longest_phase(&cases));
    said
}

/// Whether gradients are exchanged: without, there is a time and no training.
pub(super) fn communicates(case: &CaseLine) -> bool {
    parameter(case, "communicate").and_then(Value::as_bool) != Some(false)
}

/// Whether this program trained.
pub(super) fn is_ours(case: &CaseLine) -> bool {
    case.runtime == "native" || case.runtime.is_empty()
}

fn label(case: &CaseLine) -> String {
    let mesh = word(case, "mesh");
    let mesh = if case.ranks > 1 && !mesh.is_empty() { format!(" ({mesh})") } else { String::new() };
    let off = parameter(case, "overlap").and_then(Value::as_bool) == Some(false);
    let how = match (communicates(case), off) {
        (false, _) => ", no communication",
        (_, true) => ", no overlap",
        _ => "",
    };
    let by = if is_ours(case) { String::new() } else { format!(" by {}", backend(case)) };
    format!("{}{by} with {}{mesh}{how}", word(case, "model"), ranks(case.ranks))
}

/// What its ranks compute with.
fn computing(case: &CaseLine) -> &'static str {
    if case.device == CUDA { "GPUs" } else { "cores" }
}

/// The fastest case.
fn throughput(cases: &[&CaseLine]) -> Option<String> {
    let rate = |case: &CaseLine| SAMPLES_PER_S.of(case).unwrap_or(0.0);
    let best = cases.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let time = Measured::from_case(best)?.time;
    let tokens = TOKENS_PER_S.of(best).map_or(String::new(), |rate| format!(" ({} tokens/s)", three_digits(rate)));
    let how = inner(&MFU, best, &["multiplied", "bf16x6"])
        .map_or(String::new(), |share| format!(", with {} of its products as bf16 on AMX", percent(share)));
    let mfu = inner(&MFU, best, &["headline"]).map_or(String::new(), |share| {
        format!(", {} of the measured peak of its {}{how}", percent(share), computing(best))
    });
    let interval = format!("{}{}", seconds(time.mid), time.range(seconds));
    let rate = three_digits(SAMPLES_PER_S.of(best)?);
    Some(format!("Training {} reaches {rate} samples/s{tokens}: {interval} a step{mfu}.", label(best)))
}

fn scaling(case: &CaseLine) -> Option<String> {
    let about = SCALING.of(case)?;
    let kind = &about.kind;
    let held = if kind == "weak" { "batch per rank" } else { "global batch" };
    let normalised = about.normalised.map_or(String::new(), |share| {
        format!("; {} of the compute-only scaling of these {}", percent(share), computing(case))
    });
    let (efficiency, base) = (efficiency(&about), ranks(about.base_ranks));
    Some(format!(
        "{}: {kind}-scaling efficiency {efficiency}, compared with {base} at the same {held}{normalised}.",
        label(case)
    ))
}

fn overlapped(case: &CaseLine) -> Option<String> {
    let Overlapped { off_s, on_s, nocomm_s, compute_slowdown, share, .. } = OVERLAPPED.of(case)?;
    let [off, on, without] = [off_s, on_s, nocomm_s].map(seconds);
    let times = format!("{off} without overlap, {on} with it, {without} without communication");
    let slower = compute_slowdown
        .map_or(String::new(), |slower| format!("; computation takes {} as long meanwhile", factor(slower)));
    Some(match share {
        Some(share) => {
            format!("{} of the communication of {} is overlapped: {times}{slower}.", percent(share), label(case))
        }
        None => format!("Communication in {} takes too little time to measure: {times}.", label(case)),
    })
}

/// The phase that takes the most, of the case with the most ranks.
fn longest_phase(cases: &[&CaseLine]) -> Option<String> {
    let case = cases.iter().max_by_key(|case| case.ranks)?;
    let phases = PHASES.iter().filter_map(|name| Some((*name, inner(&PHASES_S, case, &[name])?)));
    let (name, longest) = phases.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let all: f64 = PHASES.iter().filter_map(|name| inner(&PHASES_S, case, &[name])).sum();
    let name = match name {
        // The two cannot be told apart there.
        "communication" if has_stages(case) => "waiting for other stages and communication",
        "communication" => "exposed communication",
        _ => name,
    };
    (all > 0.0).then(|| format!("{} of a step of {} is {name}.", percent(longest / all), label(case)))
}

/// What holds the most, and how right the plan was.
fn fullest(cases: &[&CaseLine]) -> Option<String> {
    let total = |case: &CaseLine| predicted_total(case).unwrap_or(0.0);
    let case = cases.iter().max_by(|a, b| total(a).total_cmp(&total(b)))?;
    let parts = ["parameters", "gradients", "optimizer", "activations"];
    let named: Vec<String> =
        parts.iter().filter_map(|name| Some(format!("{} {name}", bytes(predicted(case, name)? as u64)))).collect();
    let measured = total_held(case).zip(process(case)).zip(difference(case));
    let measured = measured.map_or(String::new(), |((held, process), off)| {
        let (held, process) = (bytes((held - process) as u64), bytes(process as u64));
        format!(" (predicted), {held} measured ({} off), plus {process} for the processes", percent(off))
    });
    let by_plan = if total_held(case).is_none() { by_the_plan(case) } else { String::new() };
    let batch = parameter(case, "batch").map_or(String::new(), |batch| format!(" at batch {batch}"));
    let all = bytes(total(case) as u64);
    Some(format!("{}{batch} takes {all}{measured}{by_plan}: {}.", label(case), list(&named)))
}

/// What the fullest rank holds of all, of a case that no rank ran, and its limit.
fn by_the_plan(case: &CaseLine) -> String {
    let of_case = Case::new(&case.benchmark, case.parameters.clone());
    let Some((rank, held)) = predict::fullest(&of_case) else { return " (predicted)".to_owned() };
    let limit = parameter(case, "limit").and_then(Value::as_u64);
    let limit = limit.map_or(String::new(), |limit| format!(" of its limit of {}", bytes(limit)));
    format!(" (predicted), of which rank {rank}, the fullest, holds {}{limit}", bytes(held))
}

/// The largest batch that ran under a limit, and why not one more.
fn largest(operation: &Operation) -> Option<String> {
    let cases = operation.configurations.iter().flat_map(|c| c.cases.iter().copied());
    let limited: Vec<&CaseLine> = cases.filter(|case| parameter(case, "limit").is_some()).collect();
    let batch = |case: &CaseLine| parameter(case, "batch").and_then(Value::as_u64).unwrap_or(0);
    let best = limited.iter().filter(|case| case.status == Status::Ok).max_by_key(|case| batch(case))?;
    let limit = parameter(best, "limit").and_then(Value::as_u64).map(bytes)?;
    let same = |case: &&&CaseLine| word(case, "model") == word(best, "model") && case.ranks == best.ranks;
    let failed = limited.iter().filter(same).filter(|case| case.status == Status::Failed && batch(case) > batch(best));
    let why = match (MAX_BATCH.of(best), failed.map(|case| batch(case)).min()) {
        (Some(_), _) if best.time_s.is_none() => "it is predicted to fit, and one more is not".to_owned(),
        (Some(_), _) => "it ran, and one more is predicted not to fit".to_owned(),
        (None, Some(failed)) => format!("it ran, and {failed} did not"),
        (None, None) => return None,
    };
    Some(format!("The largest batch of {} within {limit} per rank is {}: {why}.", label(best), batch(best)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn turns_of_stages_are_not_called_exposed_communication() {
        let said = |mesh: &str| {
            let text = format!(r#"{{"model": "mlp", "ranks": 4, "mesh": "{mesh}"}}"#);
            let case = Case::new("training", serde_json::from_str(&text).unwrap());
            let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
            let phases = json!({"forward": 0.02, "backward": 0.03, "communication": 0.15});
            line.metrics.insert("phases_s".to_owned(), phases);
            longest_phase(&[&line]).unwrap()
        };
        assert!(said("4x1x1").contains(" is exposed communication."), "{}", said("4x1x1"));
        let stages = said("1x1x4");
        assert!(stages.starts_with("75% of a step of "), "{stages}");
        assert!(stages.contains(" is waiting for other stages and communication."), "{stages}");
    }
}
