//! A comparison for programs: one object a case, then one for each record that was compared.

use diagnose::Verdict;
use diagnose::compare::{Compared, Comparison, FAMILY_LEVEL, Lone, Mixed, Reason, Source as Noise, Unmatched};
use record::Record;
use serde_json::{Value, json};
use terms::Named;

use super::{Labels as CaseLabels, sentence, why};

/// A line of JSON for each case of the records that were compared with a base, each with its name, then one for each record.
pub fn lines((base, latest): (&str, &Record), sides: &[(&str, &Comparison<'_>)]) -> String {
    let mut all = String::new();
    for (name, comparison) in sides {
        let labels = CaseLabels::new(latest, comparison);
        for case in &comparison.cases {
            all += &format!("{}\n", of_case((name, comparison), &labels, case));
        }
    }
    for (name, comparison) in sides {
        all += &format!("{}\n", summary((base, latest), (name, comparison)));
    }
    all
}

/// The word of a verdict; `none` where neither side was ok.
fn word(verdict: Option<Verdict>) -> &'static str {
    verdict.map_or("none", Verdict::name)
}

/// The kind of a reason, in one word.
fn reason(reason: &Reason) -> &'static str {
    match reason {
        Reason::Interval => "interval",
        Reason::BelowSmallest => "below_smallest_change",
        Reason::NoHistory => "no_history",
        Reason::FewTrials(_) => "few_trials",
        Reason::OneFigure => "one_figure",
        Reason::Imported => "imported",
        Reason::OtherStatistic(_) => "other_statistic",
        Reason::OneComputed => "one_computed",
        Reason::Emulated => "emulated",
        Reason::OtherState(_) => "other_state",
        Reason::OtherClock(_) => "other_clock",
        Reason::NotOk(..) => "not_ok",
        Reason::NowOk(_) => "now_ok",
        Reason::NeverOk(_) => "never_ok",
        Reason::NoValue => "no_value",
    }
}

fn of_case((name, comparison): (&str, &Comparison<'_>), labels: &CaseLabels, case: &Compared) -> Value {
    let mut object = json!({
        "kind": "case",
        "record": name,
        "case": labels.label(case),
        "benchmark": case.base.benchmark,
        "id": { "base": case.base.id, "new": case.new.id },
        "parameters": case.new.parameters,
        "quantity": case.quantity.name,
        "trials": { "base": case.trials[0], "new": case.trials[1] },
        "verdict": word(case.verdict),
        "reason": reason(&case.reason),
        "why": why(case, comparison.threshold),
    });
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            object[name] = value;
        }
    };
    add("base", case.values.map(|values| values[0].into()));
    add("new", case.values.map(|values| values[1].into()));
    add("ratio", case.ratio.map(Value::from));
    add("interval", case.interval.map(|ends| json!(ends)));
    add("confidence", case.interval.map(|_| (1.0 - case.level).into()));
    add("smallest_change", case.smallest_change.map(Value::from));
    add("extrapolated", case.interval.map(|_| case.extrapolated.into()));
    add("noise", case.interval.map(|_| noise(case.source)));
    let shown = case.shown.as_ref();
    add(
        "metric",
        shown.map(|shown| json!({ "name": shown.name, "unit": shown.unit, "base": shown.base, "new": shown.new })),
    );
    let changes =
        case.changes.iter().map(|change| (change.field.clone(), json!({ "base": change.base, "new": change.new })));
    let changes: serde_json::Map<String, Value> = changes.collect();
    add("changes", (!changes.is_empty()).then_some(Value::Object(changes)));
    object
}

fn noise(source: Noise) -> Value {
    match source {
        Noise::Runs(runs) => json!({ "from": "runs", "runs": runs }),
        Noise::Trials => json!({ "from": "trials" }),
        Noise::Exact => json!({ "from": "exact" }),
    }
}

fn lone(cases: &[Unmatched]) -> Value {
    let one = |case: &Unmatched| {
        let fields = match &case.why {
            Lone::NothingAlike => Value::Null,
            Lone::Several(fields) => json!(fields),
        };
        json!({ "id": case.line.id, "benchmark": case.line.benchmark, "parameters": case.line.parameters, "candidates_differ_in": fields })
    };
    cases.iter().map(one).collect()
}

/// In what the runs of one side differ: each value with its number of runs.
fn mixed(of: &[Mixed]) -> Value {
    of.iter().map(|mixed| json!({ "name": mixed.name, "values": mixed.values })).collect()
}

fn summary((base, latest): (&str, &Record), (name, comparison): (&str, &Comparison<'_>)) -> Value {
    let counts =
        Verdict::ALL.iter().map(|verdict| (verdict.name().replace(' ', "_"), comparison.count(*verdict).into()));
    let counts: serde_json::Map<String, Value> = counts.collect();
    let correction = &comparison.correction;
    let differences = comparison.differences.iter().map(|difference| {
        json!({ "topic": difference.topic.name(), "name": difference.name, "base": difference.base, "new": difference.new })
    });
    json!({
        "kind": "summary",
        "base": base,
        "record": name,
        "verdict": word(comparison.verdict()),
        "sentence": sentence(comparison, &CaseLabels::new(latest, comparison)),
        "threshold": comparison.threshold,
        "cases": counts,
        "only_base": lone(&comparison.only_base),
        "only_new": lone(&comparison.only_new),
        "correction": {
            "method": "Holm",
            "level": FAMILY_LEVEL,
            "cases": correction.cases,
            "first_step": correction.level,
            "trials_needed": correction.trials_needed,
            "cases_with_fewer_trials": correction.short,
        },
        "runs": comparison.runs[0],
        "side_runs": { "base": comparison.side_runs[0], "new": comparison.side_runs[1] },
        "incomplete": { "base": comparison.incomplete[0], "new": comparison.incomplete[1] },
        "mixed": { "base": mixed(&comparison.mixed[0]), "new": mixed(&comparison.mixed[1]) },
        "runs_of_other_machines": comparison.runs[1],
        "other_machine": comparison.other_machine,
        "simulated": comparison.simulated,
        "injected_cases": { "base": comparison.injected[0], "new": comparison.injected[1] },
        "differences": differences.collect::<Vec<_>>(),
    })
}
