//! Runs of other programs: each has one statistic, and several on a side tell how much runs differ.

use std::collections::BTreeMap;

use record::{Caveat, Imported, Record};
use stats::samples::{Marginal, Situation, StationarySeries};

use crate::simulation::record_of;
use diagnose::Verdict;
use diagnose::compare::{Comparison, Reason, Settings, Source, compare_sides};

/// A run with one time a case.
fn imported(times: &[f64], day: usize) -> Record {
    let mut record = record_of(&times.iter().map(|time| vec![*time]).collect::<Vec<_>>(), day);
    for line in &mut record.cases {
        line.trial_median_s.clear();
        line.trial_round.clear();
        line.trials = None;
        line.caveats.push(Caveat::Imported);
    }
    record.file.imported = Some(Imported {
        tool: "nccl-tests 2.17.6".to_owned(),
        statistic: "mean over iterations of the mean over ranks".to_owned(),
        facts: BTreeMap::from([("options".to_owned(), "-b 8".to_owned())]),
        ..Imported::default()
    });
    record
}

fn runs(times: &[[f64; 2]], from: usize) -> Vec<Record> {
    times.iter().enumerate().map(|(day, times)| imported(times, from + day)).collect()
}

fn compared<T>(base: &[Record], new: &[Record], look: impl FnOnce(&Comparison) -> T) -> T {
    let (base, new): (Vec<&Record>, Vec<&Record>) = (base.iter().collect(), new.iter().collect());
    look(&compare_sides(&base, &new, &Settings { threshold: 0.03, history: Vec::new() }))
}

const EQUAL: [[f64; 2]; 6] = [[1.0, 5.0], [1.01, 5.02], [0.99, 4.97], [1.005, 5.01], [1.0, 5.03], [0.995, 4.99]];

#[test]
fn six_equal_logs_judge_a_seventh() {
    let base = runs(&EQUAL, 0);
    compared(&base, &runs(&[[1.44, 5.0]], 9), |comparison| {
        assert_eq!(comparison.verdict(), Some(Verdict::Worse), "{comparison:?}");
        let worse = &comparison.cases[0];
        assert!(worse.ratio.is_some_and(|ratio| (ratio - 1.44).abs() < 0.01), "{worse:?}");
        assert_eq!((worse.source, comparison.count(Verdict::Worse)), (Source::Runs(6), 1));
        assert_eq!((comparison.side_runs, comparison.one_statistic), ([6, 1], true));
    });
    compared(&base, &runs(&[[1.002, 5.01]], 9), |comparison| {
        assert_eq!(comparison.count(Verdict::Worse) + comparison.count(Verdict::Better), 0, "{comparison:?}");
    });
}

#[test]
fn three_logs_a_side_are_enough_and_two_are_not() {
    let (base, slow) = (runs(&EQUAL[..3], 0), runs(&[[1.43, 5.0], [1.45, 4.98], [1.44, 5.03]], 5));
    compared(&base, &slow, |comparison| {
        assert_eq!(comparison.cases[0].verdict, Some(Verdict::Worse), "{comparison:?}");
        assert_eq!(comparison.cases[0].source, Source::Runs(6));
    });
    for (old, new) in [(1, 1), (2, 2), (4, 1)] {
        compared(&runs(&EQUAL[..old], 0), &slow[..new], |comparison| {
            assert!(comparison.cases.iter().all(|case| case.reason == Reason::Imported), "{old} and {new}");
            assert_eq!(comparison.verdict(), Some(Verdict::CannotTell));
        });
    }
}

#[test]
fn runs_that_one_file_holds_count_one_by_one() {
    let mut base = imported(&[1.0, 5.0], 0);
    for (case, line) in base.cases.iter_mut().enumerate() {
        line.trial_median_s = EQUAL.iter().map(|run| run[case]).collect();
    }
    compared(&[base], &runs(&[[1.44, 5.0]], 9), |comparison| {
        assert_eq!(comparison.verdict(), Some(Verdict::Worse), "{comparison:?}");
        assert_eq!(comparison.side_runs, [6, 1]);
    });
}

#[test]
fn two_statistics_are_never_one() {
    let (base, mut new) = (runs(&EQUAL, 0), runs(&[[1.44, 5.0]], 9));
    new[0].file.imported.as_mut().unwrap().statistic = "mean over ranks".to_owned();
    compared(&base, &new, |comparison| {
        assert!(comparison.cases.iter().all(|case| matches!(case.reason, Reason::OtherStatistic(_))));
        assert_eq!(comparison.verdict(), Some(Verdict::CannotTell));
    });
    // The slowest rank, which is what this program tells, is another statistic, too.
    new[0].file.imported = None;
    compared(&base, &new, |comparison| {
        assert!(comparison.cases.iter().all(|case| matches!(case.reason, Reason::OtherStatistic([Some(_), None]))));
    });
}

#[test]
fn runs_of_a_side_that_are_not_equal_are_named() {
    let (mut base, new) = (runs(&EQUAL, 0), runs(&[[1.0, 5.0]], 9));
    compared(&base, &new, |comparison| assert_eq!(comparison.mixed, [Vec::new(), Vec::new()]));
    for record in &mut base[..2] {
        record.file.versions.insert("nccl".to_owned(), "2.18.3".to_owned());
    }
    base[5].file.imported.as_mut().unwrap().facts.insert("options".to_owned(), "-b 8 -a 3".to_owned());
    compared(&base, &new, |comparison| {
        let found: Vec<(&str, usize)> =
            comparison.mixed[0].iter().map(|mixed| (mixed.name.as_str(), mixed.values[0].1)).collect();
        assert_eq!(found, [("nccl", 4), ("options", 5)]);
        assert!(comparison.mixed[1].is_empty());
        assert!(comparison.differences.iter().any(|one| one.name == "options"), "{:?}", comparison.differences);
    });
}

#[test]
fn an_archive_of_several_operations_is_judged_in_all_of_them() {
    let only = |times: &[[f64; 2]], case: usize, from: usize| {
        let mut records = runs(times, from);
        records.iter_mut().for_each(|record| record.cases = vec![record.cases[case].clone()]);
        records
    };
    let mut base = only(&EQUAL, 0, 0);
    base.extend(only(&EQUAL, 1, 10));
    // Their options differ, as those of other operations do.
    base.iter_mut().skip(6).for_each(|record| {
        record.file.imported.as_mut().unwrap().facts.insert("options".to_owned(), "-b 1M".to_owned());
    });
    let mut new = only(&[[1.44, 5.0]], 0, 20);
    new.extend(only(&[[1.0, 7.0]], 1, 21));
    compared(&base, &new, |comparison| {
        assert_eq!(comparison.count(Verdict::Worse), 2, "{comparison:?}");
        assert!(comparison.mixed[0].is_empty(), "{:?}", comparison.mixed);
    });
}

/// Logs of ten cases, each run with a noise of its own.
fn archive(runs: usize, noise: f64, seed: u64) -> Vec<Record> {
    let times: Vec<Vec<f64>> = (0..10)
        .map(|case| {
            let law = Situation { phi: 0.0, marginal: Marginal::Lognormal, noise };
            let mut series = StationarySeries::new(law, seed * 100 + case);
            series.extend(runs);
            series.samples
        })
        .collect();
    (0..runs).map(|run| imported(&times.iter().map(|case| case[run]).collect::<Vec<_>>(), run)).collect()
}

#[test]
fn equal_archives_differ_in_at_most_a_twentieth_of_comparisons() {
    for (old, new, noises) in
        [(6, 1, [0.02, 0.02]), (3, 3, [0.02, 0.02]), (6, 6, [0.02, 0.02]), (12, 3, [0.02, 0.02]), (20, 5, [0.01, 0.03])]
    {
        let tries = 200;
        let alarms = (0..tries)
            .filter(|seed| {
                let (base, new) = (archive(old, noises[0], 2 * seed + 1), archive(new, noises[1], 2 * seed + 2));
                compared(&base, &new, |comparison| {
                    comparison.count(Verdict::Worse) + comparison.count(Verdict::Better) > 0
                })
            })
            .count();
        // 5% of 200 are 10; more than 17 are seen in 1 of 100 series of tests.
        assert!(alarms <= 17, "{old} runs and {new}: {alarms} of {tries}");
    }
}
