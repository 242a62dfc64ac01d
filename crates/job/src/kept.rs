//! The record of steps that another program ran: one case, so that its explanation has a report, and its steps stand in
//! comparisons and in a history.
//!
//! `job` is not a benchmark of the table: nothing that a plan names may start a program. What it declares stands in the record, as
//! of every benchmark, so report and comparison show it without knowing it.

use std::path::Path;

use record::show::{Column, Format, Show, Table};
use record::{About, Better, Case, CaseLine, Machine, Metric, Plan, RunFile, Store, TimeSummary, Tool};
use serde_json::{Map, Value, json};
use terms::{Error, Field, Kind, Role, Status};

use report::Explanation;

use crate::{Origin, Wanted};

/// The name of what is recorded.
const NAME: &str = "job";

static FIELDS: &[Field] = &[
    Field::new(Kind::Text, None, "the program that ran, or the traces that were read").named("command").always(),
    Field::new(Kind::Text, None, "what recorded its steps").named("recorder").always().role(Role::Implementation),
    benchmarks::fields::RANKS.named("ranks"),
];

/// What a record of a job declares.
pub static ABOUT: About = About {
    name: NAME,
    doc: "training steps of another program, as its traces show them",
    fields: &[|| FIELDS],
    metrics: &[
        Metric::new(
            "exposed_s",
            "s",
            Better::Lower,
            "communication of a step that nothing overlaps, mean over steps and ranks",
        ),
        Metric::new(
            "wait_s",
            "s",
            Better::Lower,
            "time of a step that ranks wait for communication, mean over steps and ranks",
        ),
        Metric::new(
            "input_s",
            "s",
            Better::Lower,
            "time of a step lost to waiting for data, mean over steps and ranks",
        ),
        Metric::new("slow_share", "", Better::Lower, "share of a step that the slow rank costs"),
    ],
    check: |_| Ok(()),
    command: None,
    show,
};

fn show() -> Show {
    let columns = vec![
        Column::new("recorder", "recorder", Format::Word),
        Column::new("ranks", "ranks", Format::Count),
        Column::new("steps", "samples", Format::Count),
        Column::new("mean step", "time_s.mean", Format::Seconds),
        Column::time("median step").gives_way(1),
        Column::new("not overlapped", "exposed_s", Format::Seconds),
        Column::new("wait", "wait_s", Format::Seconds),
        Column::new("input", "input_s", Format::Seconds),
        Column::new("slow rank costs", "slow_share", Format::Share),
    ];
    Show {
        timed: "step".to_owned(),
        tables: vec![Table { columns, ..Table::default() }],
        headline: vec!["exposed_s".to_owned()],
        ..Show::default()
    }
}

/// Whether a record is one of these.
pub fn is_of_job(cases: &[CaseLine]) -> bool {
    matches!(cases, [line] if line.benchmark == NAME)
}

/// Makes the record of an explanation. Its case is then that of the record.
pub(crate) fn create(folder: &Path, machine: Machine, one: &mut Explanation, wanted: &Wanted) -> Result<(), Error> {
    let (case, labels) = (case(one), &wanted.labels);
    one.case.clone_from(&case.id);
    let plan = Plan {
        experiment: labels.name.clone().unwrap_or_else(|| "profile".to_owned()),
        profiling: true,
        cases: vec![case.clone()],
        notes: Vec::new(),
        read_as: None,
        expected: Vec::new(),
        source_text: String::new(),
    };
    let tool = Tool { name: "rankmark".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let mut file = RunFile::new(tool, jiff::Timestamp::now(), machine, plan, &[&ABOUT]);
    let Origin { command_line, environment } = (wanted.origin)();
    file.command_line = record::command_line(command_line);
    file.environment = record::environment(environment);
    file.labels = labels.clone();
    let mut store = Store::create(folder, &file)?;
    store.append_all(&[line(&case, one)])?;
    store.finish(&mut file)?;
    Ok(())
}

fn case(one: &Explanation) -> Case {
    let parameters = json!({"command": one.title, "recorder": one.analysis.source, "ranks": one.ranks});
    let map = |value: Value| value.as_object().cloned().unwrap_or_default();
    let world = map(json!({"ranks": one.ranks})).into();
    let mut case = Case { world, ..Case::new(NAME, map(parameters).into()) };
    case.identify(&ABOUT);
    case
}

/// The steps as samples of one trial: a single run of a job has no interval.
fn line(case: &Case, one: &Explanation) -> CaseLine {
    let analysis = &one.analysis;
    let steps = &analysis.steps.step;
    let mut line = CaseLine::unmeasured(case, Status::Ok, "");
    // What moves its bytes, and between which devices, its traces do not say alike.
    (line.reason, line.runtime) = (None, NAME.to_owned());
    let Some(median) = steps.median else {
        line.status = Status::Failed;
        let why = one.ends.sentences.first().filter(|_| one.ends.is_failed);
        let why = why.or(one.hangs.first().filter(|_| one.is_hung)).cloned();
        line.reason = Some(why.unwrap_or_else(|| "its traces show no step on all ranks".to_owned()));
        return line;
    };
    line.samples = Some(steps.values.len() as u64);
    line.trials = Some(1);
    line.trial_median_s = vec![median];
    line.per_rank_median_s = analysis.steps.ranks.iter().map(|rank| rank.total.median).collect();
    let sorted = stats::sorted(&steps.values);
    let at = |place: f64| Some(stats::quantile(&sorted, place));
    let (p05, p50, p95, p99) = (at(0.05), at(0.5), at(0.95), at(0.99));
    let (min, max) = (sorted.first().copied(), sorted.last().copied());
    line.time_s = Some(TimeSummary {
        median,
        mean: Some(analysis.steps.mean_s()),
        p05,
        p50,
        p95,
        p99,
        min,
        max,
        ..TimeSummary::default()
    });
    line.metrics = metrics(one).into();
    line.caveats = analysis.disturbance.as_ref().map(|found| found.caveats.clone()).unwrap_or_default();
    if one.ends.is_failed {
        (line.status, line.reason) = (Status::Failed, one.ends.sentences.first().cloned());
    } else if one.is_hung {
        (line.status, line.reason) = (Status::Failed, one.hangs.first().cloned());
    }
    line
}

fn metrics(one: &Explanation) -> Map<String, Value> {
    let analysis = &one.analysis;
    let ranks = &analysis.steps.ranks;
    // Means, as all shares and seconds of findings are: their sums are the step's.
    let of_ranks = |of: fn(&diagnose::profile::RankSteps) -> &diagnose::profile::Series| -> Option<f64> {
        let sum: Option<f64> = ranks.iter().map(|rank| of(rank).mean).sum();
        sum.filter(|_| !ranks.is_empty()).map(|sum| sum / ranks.len() as f64)
    };
    let found = [
        ("exposed_s", analysis.overlap.exposed_s.mean),
        ("wait_s", of_ranks(|rank| &rank.wait)),
        ("input_s", of_ranks(diagnose::profile::RankSteps::lost_to_input)),
        ("slow_share", analysis.straggler.as_ref().map(|slow| slow.share)),
    ];
    found.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_declaration_has_no_faults() {
        assert_eq!(ABOUT.faults(), Vec::<String>::new());
    }
}
