//! A history as one JSON object.

use diagnose::history::{ChangedRun, Series};
use serde_json::{Value, json};

use super::found::{Histories, NamedHistory};

/// `{"machines": [...], "left_out": [...]}`.
pub(super) fn json(found: &Histories) -> Value {
    let left_out: Vec<Value> =
        found.left_out.iter().map(|left| json!({ "directory": left.directory, "why": left.why })).collect();
    json!({ "machines": found.machines.iter().map(machine).collect::<Vec<_>>(), "left_out": left_out })
}

fn machine(named: &NamedHistory) -> Value {
    let NamedHistory { history, names } = named;
    let runs: Vec<Value> = history
        .runs
        .iter()
        .map(|run| {
            let [ok, failed, skipped, open] = run.counts;
            json!({
                "directory": run.directory,
                "started": run.started.to_string(),
                "experiment": run.experiment,
                "labels": run.labels,
                "cases": { "ok": ok, "failed": failed, "skipped": skipped, "not_run": open },
                "damaged_lines": run.damaged,
                "killed": run.killed,
            })
        })
        .collect();
    let cases: Vec<Value> = history.series.iter().zip(names).map(|(series, name)| case(series, name)).collect();
    let changes: Vec<Value> = history.changes.iter().map(|change| changed(change, named)).collect();
    json!({
        "machine": history.machine,
        "simulated": history.simulated(),
        "runs": runs,
        "cases": cases,
        "changes": changes,
        "false_change_rate": stats::CHANGE_LEVEL,
    })
}

fn case(series: &Series, name: &str) -> Value {
    let point = |point: &diagnose::history::SeriesPoint| {
        let mut object = json!({ "run": point.run, "median_s": point.median_s });
        if let Some(ends) = point.ci95 {
            object["ci95"] = json!(ends);
        }
        object
    };
    let change = |change: &diagnose::history::SeriesChange| {
        json!({
            "run": change.run,
            "run_before": change.before,
            "ratio": change.ratio,
            "before_s": change.level_s[0],
            "after_s": change.level_s[1],
            "results_before": change.results[0],
            "results_after": change.results[1],
            "p_value": change.p_value,
        })
    };
    let mut object = json!({
        "id": series.latest.id,
        "name": name,
        "benchmark": series.latest.benchmark,
        "parameters": series.latest.parameters,
        "points": series.points.iter().map(point).collect::<Vec<_>>(),
        "median_s": series.median_s(),
        "changes": series.changes.iter().map(change).collect::<Vec<_>>(),
    });
    if let Some(state) = &series.state {
        object["state"] = json!(state.to_string());
    }
    if let Some(noise) = series.noise {
        object["between_runs"] = json!({ "band": noise.band(), "sd_log": noise.sd_log, "degrees": noise.degrees });
    }
    object
}

fn changed(change: &ChangedRun, named: &NamedHistory) -> Value {
    let differences: Vec<Value> = change
        .differences
        .iter()
        .map(|difference| json!({ "name": difference.name, "before": difference.before, "after": difference.after }))
        .collect();
    let cases: Vec<&str> =
        change.cases.iter().map(|(case, _)| named.history.series[*case].latest.id.as_str()).collect();
    json!({
        "run": change.run,
        "run_before": change.before,
        "directory": named.history.runs[change.run].directory,
        "cases": cases,
        "differences": differences,
    })
}
