//! Verdicts on cases that are not simply two series of trials.

use crate::simulation::record_of;
use diagnose::Verdict;
use diagnose::compare::{Comparison, Reason, Settings, Source, Topic, compare};
use record::{Caveat, Record};
use serde_json::json;
use terms::Status;

fn record(times: &[f64]) -> Record {
    record_of(
        &times.iter().map(|time| (0..13).map(|i| time * (1.0 + f64::from(i) / 1e4)).collect()).collect::<Vec<_>>(),
        0,
    )
}

fn with_comparison(base: &Record, new: &Record, look: impl FnOnce(&Comparison)) {
    look(&compare(&[base], new, &Settings { threshold: 0.03, history: Vec::new() }));
}

#[test]
fn what_fails_is_worse_and_what_did_not_run_cannot_be_told() {
    let (mut base, mut new) = (record(&[1.0, 1.0, 1.0, 1.0, 1.0]), record(&[1.0, 1.0, 1.0, 1.0, 1.0]));
    new.cases[0].status = Status::Failed;
    new.cases[1].status = Status::Skipped;
    new.cases[2].wrong = Some(1);
    base.cases[3].status = Status::Failed;
    (base.cases[4].status, new.cases[4].status) = (Status::Failed, Status::Failed);
    with_comparison(&base, &new, |comparison| {
        let compared =
            |case: usize| comparison.cases.iter().find(|found| found.base.id == base.cases[case].id).unwrap();
        assert_eq!((compared(0).verdict, compared(1).verdict), (Some(Verdict::Worse), Some(Verdict::CannotTell)));
        assert_eq!(compared(2).verdict, Some(Verdict::Worse), "a wrong result is not a result");
        assert_eq!((compared(3).verdict, compared(4).verdict), (None, None));
        assert!(matches!(compared(3).reason, Reason::NowOk(Status::Failed)));
        assert_eq!(comparison.verdict(), Some(Verdict::Worse));
        assert_eq!(comparison.cases[0].verdict, Some(Verdict::Worse), "the worst first");
    });
    base.cases.iter_mut().for_each(|line| line.status = Status::Failed);
    with_comparison(&base, &new, |comparison| assert!(!comparison.has_something()));
}

#[test]
fn computed_times_are_exact() {
    let (mut base, mut new) = (record_of(&[vec![1.0], vec![1.0]], 0), record_of(&[vec![1.02], vec![1.04]], 0));
    for line in base.cases.iter_mut().chain(&mut new.cases) {
        line.simulated = true;
    }
    with_comparison(&base, &new, |comparison| {
        let verdicts: Vec<_> = comparison.cases.iter().map(|case| (case.verdict, case.source)).collect();
        assert_eq!(verdicts, [(Some(Verdict::Worse), Source::Exact), (Some(Verdict::Same), Source::Exact)]);
    });
    base.cases[0].simulated = false;
    with_comparison(&base, &new, |comparison| {
        assert!(comparison.cases.iter().any(|case| case.reason == Reason::OneComputed));
    });
}

#[test]
fn figures_without_trials_cannot_be_told() {
    let (base, mut new) = (record(&[1.0]), record(&[1.0]));
    new.cases[0].trial_median_s.truncate(3);
    with_comparison(&base, &new, |comparison| assert_eq!(comparison.cases[0].reason, Reason::FewTrials([13, 3])));
    new.cases[0].trial_median_s.clear();
    new.cases[0].caveats.push(Caveat::Imported);
    with_comparison(&base, &new, |comparison| assert_eq!(comparison.cases[0].reason, Reason::Imported));
    new.cases[0].time_s = None;
    with_comparison(&base, &new, |comparison| {
        assert_eq!(
            (comparison.cases[0].verdict, &comparison.cases[0].reason),
            (Some(Verdict::CannotTell), &Reason::NoValue)
        );
    });
}

#[test]
fn two_single_runs_tell_only_large_changes() {
    let (base, new) = (record(&[1.0, 1.0]), record(&[1.0, 2.0]));
    with_comparison(&base, &new, |comparison| {
        assert_eq!(
            (comparison.cases[0].verdict, comparison.cases[1].verdict),
            (Some(Verdict::Worse), Some(Verdict::CannotTell))
        );
        assert_eq!(comparison.cases[1].reason, Reason::NoHistory);
        assert!(comparison.cases[0].smallest_change.is_some_and(|change| change < 0.1));
    });
}

#[test]
fn memory_is_compared_by_its_bytes() {
    let record_with = |bytes: u64, day: usize| {
        let mut record = record_of(&[vec![1.0]], day);
        record.file.benchmarks = vec![
            serde_json::from_value(json!({"name": "simulated", "doc": "", "fields": [], "metrics": [
                {"name": "memory", "shape": "map", "unit": "bytes", "better": "lower", "doc": ""},
            ], "show": {"headline": ["memory"], "tables": [{"columns": [
                {"title": "measured", "source": "memory.measured.total", "format": "bytes"},
            ]}]}}))
            .unwrap(),
        ];
        record.cases[0].metrics.insert("memory", json!({"measured": {"total": bytes}}));
        record
    };
    let noisy = [1000, 1004, 998, 1002, 1001, 999, 1003, 1000];
    let runs: Vec<Record> = noisy.iter().enumerate().map(|(day, bytes)| record_with(bytes * 1000, day)).collect();
    let known: Vec<&Record> = runs.iter().collect();
    let settings = Settings { threshold: 0.03, history: Vec::new() };
    for (bytes, verdict) in [(1_001_000, Verdict::Same), (1_200_000, Verdict::Worse), (800_000, Verdict::Better)] {
        let new = record_with(bytes, 9);
        let comparison = compare(&known, &new, &settings);
        assert_eq!(comparison.cases[0].verdict, Some(verdict), "{comparison:?}");
        assert!(!comparison.cases[0].quantity.is_time());
        let single = compare(&known[..1], &new, &settings);
        assert_eq!(single.cases[0].reason, Reason::OneFigure);
    }
}

#[test]
fn what_differs_is_listed_and_other_machines_tell_no_noise() {
    let (base, mut new) = (record(&[1.0]), record(&[1.0]));
    new.file.machine.cpu_model = "another".into();
    new.file.environment.insert("NCCL_ALGO".into(), "Ring".into());
    new.file.tool.version = "1".into();
    with_comparison(&base, &new, |comparison| {
        assert!(comparison.other_machine);
        let found: Vec<(Topic, &str)> =
            comparison.differences.iter().map(|difference| (difference.topic, difference.name.as_str())).collect();
        assert_eq!(
            found,
            [(Topic::Machine, "cpu_model"), (Topic::Version, "rankmark"), (Topic::Environment, "NCCL_ALGO")]
        );
    });
    let history: Vec<Record> = (0..8).map(|day| record_of(&[vec![1.0 + day as f64 / 100.0; 13]], day)).collect();
    let settings = |runs| Settings { threshold: 0.5, history: runs };
    let alike = record(&[1.0]);
    assert_eq!(compare(&[&base], &alike, &settings(history.iter().collect())).cases[0].source, Source::Runs(8));
    assert_eq!(compare(&[&new], &alike, &settings(history.iter().collect())).cases[0].source, Source::Trials);
}
