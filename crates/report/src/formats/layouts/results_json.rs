//! One JSON file of a run, in the shape of the distributed training benchmarks: name, world_size, timestamp, config, results.
//! Every figure is one of the record; a case without figures has its status and reason.

use record::CaseLine;
use serde_json::{Map, Value, json};
use terms::Status;

use crate::words::damage::end_banner;
use crate::{Artifact, Error, Format, Run};

/// The layout.
#[derive(Debug)]
pub(super) struct ResultsJson;

impl Format for ResultsJson {
    fn about(&self) -> (&'static str, &'static str) {
        ("distributed-training", "the JSON of the distributed training benchmarks: results.json")
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        Ok(vec![Artifact::new("results.json", text(run).into_bytes())])
    }
}

/// The whole file.
pub(super) fn text(run: &Run) -> String {
    let mut results = Map::new();
    for case in &run.cases {
        let (group, kind) = place(case);
        let of = results.entry(group).or_insert_with(|| json!({}));
        let Some(of) = of.as_object_mut() else { continue };
        let list = of.entry(kind).or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.push(figures(case));
        }
    }
    // A run keeps the identities of its plan's cases alone.
    let plan = record::read_run(&run.directory).ok().map(|record| record.file.plan);
    let fixed = |names: &[&str]| plan.as_ref().and_then(|plan| fixed(plan, names));
    let mut whole = json!({
        "name": run.title,
        "world_size": run.cases.iter().map(|case| case.ranks).max().unwrap_or(0),
        "timestamp": run.started,
        "config": {
            "warmup_iters": fixed(&["warmup"]),
            "benchmark_iters": fixed(&["iters", "steps"]),
            "device": run.machine,
        },
        "results": results,
    });
    // What must not be taken for a measurement says so on top.
    if run.cases.iter().any(|case| case.simulated) {
        whole["simulated"] = true.into();
    }
    if !run.imported.is_empty() {
        whole["imported"] = true.into();
    }
    if let Some(banner) = end_banner(run) {
        whole["incomplete"] = banner.into();
    }
    format!("{:#}\n", whole)
}

/// The one value that all cases of a plan have of a setting, by the first of these names that a case has: of adaptive
/// sampling there is none.
fn fixed(plan: &record::Plan, names: &[&str]) -> Option<u64> {
    let of = |case: &record::Case| names.iter().find_map(|name| case.whole(name));
    let first = plan.cases.first().and_then(of)?;
    plan.cases.iter().all(|case| of(case) == Some(first)).then_some(first)
}

/// Where a case stands: `communication` and `allreduce`, or its benchmark and what it measures.
fn place(case: &CaseLine) -> (String, String) {
    let text = |name: &str| case.parameters.get(name).and_then(Value::as_str).unwrap_or("cases").to_owned();
    match case.benchmark.as_str() {
        "collective" => ("communication".to_owned(), operation(&text("op"))),
        "training" | "memory" => (case.benchmark.clone(), text("model")),
        "hardware" => ("hardware".to_owned(), text("test")),
        "primitive" => ("primitive".to_owned(), text("primitive")),
        other => (other.to_owned(), "cases".to_owned()),
    }
}

/// Operations as that suite spells them.
fn operation(name: &str) -> String {
    match name {
        "all_reduce" => "allreduce".to_owned(),
        "all_gather" => "allgather".to_owned(),
        "send_recv" => "point_to_point".to_owned(),
        other => other.to_owned(),
    }
}

/// Numbers of a case line that are passed on under their names of the record.
const NUMBERS: [&str; 11] = [
    "algbw_gbs",
    "busbw_gbs",
    "samples_per_s",
    "tokens_per_s",
    "efficiency",
    "tflops",
    "tflops_per_rank",
    "max_batch",
    "gbs",
    "flops",
    "bandwidth_gbs",
];

fn figures(case: &CaseLine) -> Value {
    let mut object = json!({
        "status": case.status, "ranks": case.ranks, "runtime": case.runtime, "backend": case.backend, "device": case.device,
    });
    for name in ["strategy", "mesh", "batch", "implementation", "m", "n", "k", "dtype", "precision"] {
        if let Some(value) = case.parameters.get(name) {
            object[name] = value.clone();
        }
    }
    if let Some(bytes) = case.bytes {
        object["bytes"] = bytes.into();
    }
    if let Some(reason) = &case.reason {
        object["reason"] = reason.as_str().into();
    }
    if let (Some(time), Status::Ok) = (&case.time_s, case.status) {
        let name = if case.benchmark == "training" { "step_time_ms" } else { "time_ms" };
        object[name] = (time.median * 1e3).into();
        if let Some([low, high]) = time.ci95 {
            object[format!("{name}_ci95")] = json!([low * 1e3, high * 1e3]);
        }
    }
    for name in NUMBERS {
        if let Some(value) = case.metrics.get(name).filter(|value| value.is_number()) {
            object[name] = value.clone();
        }
    }
    if let Some(efficiency) = case.metrics.get("efficiency").and_then(Value::as_f64) {
        object["scaling_efficiency_percent"] = (efficiency * 100.0).into();
    }
    memory(case, &mut object);
    if let Some(wrong) = case.wrong {
        object["wrong"] = wrong.into();
    }
    object
}

/// Parameter, gradient and activation memory of a rank's program, and what was measured.
fn memory(case: &CaseLine, object: &mut Value) {
    let Some(memory) = case.metrics.get("memory") else { return };
    for (name, part) in [
        ("parameter_bytes", "parameters"),
        ("gradient_bytes", "gradients"),
        ("optimizer_bytes", "optimizer"),
        ("activation_bytes", "activations"),
    ] {
        if let Some(bytes) = memory.get("parts").and_then(|parts| parts.get(part)) {
            object[name] = bytes.clone();
        }
    }
    if let Some(bytes) = memory.get("measured").and_then(|measured| measured.get("total")) {
        object["measured_bytes"] = bytes.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(benchmark: &str, parameters: Value, metrics: Value) -> CaseLine {
        let mut line: CaseLine = serde_json::from_value(json!({
            "schema": 1, "id": "000000000001", "benchmark": benchmark, "status": "ok", "ranks": 2, "parameters": parameters,
            "runtime": "native", "backend": "shm", "device": "cpu", "mode": "streaming", "caveats": [], "simulated": false,
            "time_s": {"median": 0.002}, "wrong": 0,
        }))
        .unwrap();
        line.metrics = metrics.as_object().cloned().unwrap_or_default().into();
        line
    }

    #[test]
    fn the_shape_is_that_of_the_suite() {
        let memory =
            json!({"memory": {"parts": {"parameters": 1, "gradients": 2, "activations": 3}, "measured": {"total": 9}}});
        let mut skipped = case("memory", json!({"model": "gpt2"}), json!({}));
        (skipped.status, skipped.reason, skipped.time_s) = (Status::Skipped, Some("no memory".to_owned()), None);
        let run = Run {
            title: "benchmark_2gpu".to_owned(),
            started: "2026-11-20T10:15:00Z".to_owned(),
            cases: vec![
                case("collective", json!({"op": "all_reduce"}), json!({"busbw_gbs": 4.5})),
                case(
                    "training",
                    json!({"model": "gpt2", "strategy": "data"}),
                    json!({"samples_per_s": 8.0, "efficiency": 0.9}),
                ),
                case("memory", json!({"model": "gpt2", "batch": 4}), memory),
                skipped,
            ],
            ..Run::default()
        };
        let value: Value = serde_json::from_str(&text(&run)).unwrap();
        assert_eq!(value["name"], "benchmark_2gpu");
        assert_eq!((&value["world_size"], &value["timestamp"]), (&json!(2), &json!("2026-11-20T10:15:00Z")));
        assert_eq!(value["config"]["warmup_iters"], Value::Null, "not fixed");
        let all_reduce = &value["results"]["communication"]["allreduce"][0];
        assert_eq!((&all_reduce["busbw_gbs"], &all_reduce["time_ms"]), (&json!(4.5), &json!(2.0)));
        let training = &value["results"]["training"]["gpt2"][0];
        assert_eq!((&training["step_time_ms"], &training["scaling_efficiency_percent"]), (&json!(2.0), &json!(90.0)));
        let memory = &value["results"]["memory"]["gpt2"];
        assert_eq!((&memory[0]["parameter_bytes"], &memory[0]["activation_bytes"]), (&json!(1), &json!(3)));
        assert_eq!((&memory[1]["status"], &memory[1]["reason"]), (&json!("skipped"), &json!("no memory")));
        assert!(value.get("simulated").is_none());
    }
}
