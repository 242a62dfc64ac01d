//! A history as one JSON object.

use diagnose::history::{ChangedRun, LeftOut, Series};
use record::RunEnd;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::NamedHistory;

/// `{"machines": [...], "left_out": [...]}`.
#[derive(Serialize)]
pub struct HistoryJson<'h> {
    machines: Vec<MachineJson<'h>>,
    left_out: Vec<Value>,
}

impl<'h> HistoryJson<'h> {
    /// These histories, and the records that are part of none.
    pub fn new(machines: &'h [NamedHistory], left: &[LeftOut]) -> Self {
        Self { machines: machines.iter().map(machine).collect(), left_out: left.iter().map(left_out).collect() }
    }
}

#[derive(Serialize)]
struct MachineJson<'h> {
    machine: &'h str,
    simulated: bool,
    runs: Vec<Value>,
    cases: CasesJson<'h>,
    changes: Vec<Value>,
    false_change_rate: f64,
}

/// Cases, each made when it is written: 100,000 of them together take gigabytes.
struct CasesJson<'h>(&'h NamedHistory);

impl Serialize for CasesJson<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.history.series.iter().zip(&self.0.names).map(|(series, name)| case(series, name)))
    }
}

fn left_out(left: &LeftOut) -> Value {
    let mut object = json!({ "directory": left.directory, "why": left.why });
    if let Some(origin) = &left.copy_of {
        object["copy_of"] = json!(origin);
    }
    object
}

fn machine(named: &NamedHistory) -> MachineJson<'_> {
    let history = &named.history;
    let runs = history.runs.iter().map(|run| {
        let [ok, failed, skipped, open] = run.counts;
        json!({
            "directory": run.directory,
            "started": run.started.to_string(),
            "experiment": run.experiment,
            "labels": run.labels,
            "cases": { "ok": ok, "failed": failed, "skipped": skipped, "not_run": open },
            "damaged_lines": run.damaged,
            "killed": was_killed(run.end),
            "end": run.end.word(),
            "incomplete": run.banner,
        })
    });
    MachineJson {
        machine: &history.machine,
        simulated: history.simulated(),
        runs: runs.collect(),
        cases: CasesJson(named),
        changes: history.changes.iter().map(|change| changed(change, named)).collect(),
        false_change_rate: stats::CHANGE_LEVEL,
    }
}

const fn was_killed(end: RunEnd) -> bool {
    match end {
        RunEnd::Killed => true,
        RunEnd::Ended | RunEnd::Interrupted(_) | RunEnd::Running | RunEnd::Unknown | RunEnd::Part => false,
    }
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
        "id": *series.latest.id,
        "name": name,
        "benchmark": *series.latest.benchmark,
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
    let cases: Vec<&str> = change.cases.iter().map(|(case, _)| &*named.history.series[*case].latest.id).collect();
    json!({
        "run": change.run,
        "run_before": change.before,
        "directory": named.history.runs[change.run].directory,
        "cases": cases,
        "differences": differences,
    })
}
