//! Several trials of a case: each counts once, and intervals are of trials.

use measure::{Canary, CaseRun, Circumstances, Round, Settings, StopReason, Trial, align};
use record::{Caveat, WorldUse};
use serde_json::json;
use terms::Status;

use crate::scripted::{REAL, Scripted, case};

/// A run of trials with these medians in ns, each of three samples, two seconds apart.
pub(crate) fn run(medians: &[u64]) -> CaseRun {
    let mut run = CaseRun::new(&case(2, json!({})), Settings::from_case(&case(2, json!({}))), false);
    run.trials = medians.iter().zip(0..).map(|(ns, round)| trial(round, *ns)).collect();
    run
}

fn trial(round: u32, ns: u64) -> Trial {
    let samples = vec![vec![ns - 1, ns, ns + 1]; 2].into();
    let (span_s, wrong) =
        (2.0 * f64::from(round) + 0.1, vec![measure::WrongReport { compared: 1, ..Default::default() }]);
    Trial { round, samples, calls: 1, fresh: true, span_s, wrong, ..Trial::default() }
}

#[test]
fn the_headline_is_the_median_of_trial_medians() {
    let mut run = run(&[100_000, 110_000, 120_000, 130_000, 140_000, 150_000, 160_000]);
    // The slowest trial has most of the samples, and counts once.
    run.trials[6].samples = vec![vec![160_000; 5_000]; 2].into();
    let line = measure::case_line(&run, REAL);
    let time = line.time_s.unwrap();
    assert_eq!((line.trials, line.samples, time.median), (Some(7), Some(5_018), 130e-6));
    assert_eq!(time.ci95, Some([100e-6, 160e-6]), "of seven, the smallest and the largest");
    assert_eq!(time.p50, Some(160e-6), "percentiles are of all samples");
    let mean = time.mean.expect("samples have a mean");
    assert!((mean - 130e-6).abs() < 1e-12, "each trial counts once: {mean}");
    assert_eq!((line.trial_median_s.len(), line.trial_round[6], line.worlds), (7, 6, Some(WorldUse::Fresh)));
    assert_eq!(line.span_s, Some(12.1));
    assert_eq!(line.caveats, [Caveat::CiAboveTarget], "23% is beyond 2%");
}

#[test]
fn fewer_than_six_trials_have_no_interval() {
    let about = |open| Circumstances { open, ..REAL };
    let five = run(&[100_000; 5]);
    let line = measure::case_line(&five, about(true));
    assert_eq!((line.time_s.unwrap().ci95, line.caveats), (None, vec![Caveat::Preliminary]));
    assert_eq!(measure::case_line(&five, about(false)).caveats, [Caveat::ShortSpan]);
    // Six within five seconds say little of a machine that changes within seconds.
    let mut six = run(&[100_000; 6]);
    assert_eq!(measure::case_line(&six, about(false)).caveats, []);
    six.trials[5].span_s = 5.0;
    assert_eq!(measure::case_line(&six, about(false)).caveats, [Caveat::ShortSpan]);
}

/// A kill may leave any of these lines as the last of its case: none may pass for the result of all trials.
#[test]
fn a_case_that_further_trials_are_due_to_is_preliminary() {
    let mut seven = run(&[100_000; 7]);
    seven.settings = Settings::from_case(&case(2, json!({"trials": 20})));
    assert_eq!((seven.stop(), seven.settings.trials), (None, Some(20)));
    let open = Circumstances { open: true, ..REAL };
    let mut quick = run(&[100_000; 2]);
    quick.settings = Settings::from_case(&case(2, json!({"quick": true})));
    for (run, about) in [(seven, open), (quick, open), (run(&[100_000; 2]), Circumstances { simulated: true, ..open })]
    {
        let line = measure::case_line(&run, about);
        assert!(line.lacks_trials(), "{:?}", line.caveats);
        let line = measure::case_line(&run, Circumstances { open: false, ..about });
        assert!(!line.lacks_trials(), "{:?}", line.caveats);
    }
}

#[test]
fn a_quick_look_has_no_interval_and_says_so() {
    let mut look = run(&[100_000; 6]);
    look.settings = Settings::from_case(&case(2, json!({"quick": true})));
    assert_eq!((look.settings.trials, look.settings.spacing.as_secs()), (Some(3), 0));
    let line = measure::case_line(&look, REAL);
    assert_eq!((line.time_s.unwrap().ci95, line.caveats), (None, vec![Caveat::QuickLook]));
}

#[test]
fn what_is_computed_without_noise_has_no_interval_and_one_trial() {
    let case = case(2, json!({}));
    let mut exact = CaseRun::new(&case, Settings::from_case(&case), true);
    exact.trials = vec![trial(0, 100_000)];
    assert_eq!(exact.stop(), Some(StopReason::Fixed));
    assert_eq!(measure::case_line(&exact, REAL).time_s.unwrap().ci95, None);
}

#[test]
fn equal_runs_are_told_by_correlation() {
    let line = |correlation| {
        let medians: Vec<u64> = (0..28).map(|i| 100_000 + (i * 11) % 28).collect();
        let mut line = measure::case_line(&run(&medians), REAL);
        measure::conclude(&mut line, Some(correlation));
        line.time_s.unwrap()
    };
    let width = |ends: Option<[f64; 2]>| ends.map(|[low, high]| high - low).unwrap();
    assert_eq!(line(0.0).ci95_again, line(0.0).ci95);
    assert!(width(line(0.5).ci95_again) > width(line(0.5).ci95));
    let mut few = measure::case_line(&run(&[1_000, 1_100, 1_050, 1_020, 1_080, 1_010]), REAL);
    measure::conclude(&mut few, Some(0.5));
    assert_eq!(few.time_s.unwrap().ci95_again, None, "six correlated trials tell nothing of the next run");
}

#[test]
fn earlier_runs_tell_what_few_trials_do_not() {
    let learned = |medians: &[u64], earlier: &[f64]| {
        let mut line = measure::case_line(&run(medians), REAL);
        measure::conclude(&mut line, Some(0.5));
        measure::learn_from_runs(&mut line, earlier);
        line.time_s.unwrap()
    };
    let alike = [1e-4; 5];
    let one = learned(&[100_000], &alike);
    let [low, high] = one.ci95_earlier.unwrap();
    assert!(low < one.median && one.median < high && one.earlier_runs == Some(5), "{one:?}");
    assert_eq!(one.printed(), Some(([low, high], record::IntervalSource::EarlierRuns(5))));
    assert_eq!(learned(&[100_000], &alike[..2]).printed(), None, "two runs tell nothing");
    // An equal run is no better known than this one.
    let six = learned(&[50_000, 60_000, 100_000, 100_000, 140_000, 200_000], &alike);
    assert_eq!(six.printed(), Some(([5e-5, 2e-4], record::IntervalSource::EarlierRuns(5))));
    let medians: Vec<u64> = (0..28).map(|i| 100_000 + (i * 11) % 28).collect();
    let many = learned(&medians, &alike);
    assert_eq!((many.ci95_earlier, many.earlier_runs), (None, None));
    assert_eq!(many.printed().map(|(_, source)| source), Some(record::IntervalSource::Trials));
}

#[test]
fn a_case_stops_at_a_look_when_it_is_precise() {
    let narrow = |trials: usize| run(&vec![100_000; trials]).stop();
    assert_eq!(
        (narrow(5), narrow(6), narrow(7), narrow(9)),
        (None, Some(StopReason::Precise), None, Some(StopReason::Precise))
    );
    let wide: Vec<u64> = (0..42).map(|i| 100_000 + 5_000 * (i % 7)).collect();
    assert_eq!(run(&wide[..6]).stop(), None);
    assert_eq!(run(&wide).stop(), Some(StopReason::MostTrials));
    let mut fixed = run(&wide[..4]);
    fixed.settings.trials = Some(4);
    assert_eq!(fixed.stop(), Some(StopReason::Fixed));
    fixed.settings.trials = Some(5);
    assert_eq!(fixed.stop(), None);
}

#[test]
fn a_mean_far_from_the_median_is_told() {
    let mut skewed = run(&[100_000; 6]);
    skewed.trials.iter_mut().for_each(|trial| trial.samples = vec![vec![100_000, 100_000, 250_000]; 2].into());
    assert_eq!(measure::case_line(&skewed, REAL).caveats, [Caveat::MeanDiffers]);
}

/// A machine that is fast for some time and slow for some time has no one median.
#[test]
fn two_levels_are_told_apart() {
    let level = |slow: bool, at: u64| if slow { 580_000 + 4_000 * (at % 3) } else { 125_000 + 1_000 * (at % 4) };
    let trials = |slow: &dyn Fn(u64) -> bool| (0..13).map(|at| level(slow(at), at)).collect::<Vec<u64>>();
    let line = measure::case_line(&run(&trials(&|at| at >= 8)), REAL);
    assert!(line.caveats.contains(&Caveat::TwoLevels), "{:?}", line.caveats);
    let levels = line.metrics["levels"].as_array().unwrap();
    assert_eq!(levels.iter().map(|level| level["trials"].as_u64().unwrap()).collect::<Vec<_>>(), [8, 5]);
    let times: Vec<f64> = levels.iter().map(|level| level["median_s"].as_f64().unwrap()).collect();
    assert!(times[0] < times[1] && (times[1] / times[0] - 4.6).abs() < 0.2, "{times:?}");
    // One slow trial now and then is none, and neither is a machine that simulates.
    let now_and_then = measure::case_line(&run(&trials(&|at| at == 5 || at == 9)), REAL);
    assert!(!now_and_then.caveats.contains(&Caveat::TwoLevels));
    assert!(!now_and_then.metrics.contains_key("levels"));
}

/// What one trial in the middle saw is said of the case.
#[test]
fn every_trial_is_looked_at() {
    let result_after = |change: &dyn Fn(&mut Trial)| {
        let mut run = run(&[100_000; 7]);
        change(&mut run.trials[3]);
        measure::case_line(&run, REAL)
    };
    assert_eq!(result_after(&|_| ()).caveats, []);
    assert_eq!(result_after(&|trial| trial.missed_starts = 1).caveats, [Caveat::MissedStart]);
    let canary = |barrier_ns| Canary { barrier_ns, ..Canary::default() };
    let moved = |trial: &mut Trial| trial.canaries = Some((canary(200.0), canary(9_000.0)));
    assert_eq!(result_after(&moved).caveats, [Caveat::Noisy]);
    // Rank 1 enters each of 64 operations 40 us late.
    let late =
        |rank: usize| (0..128).map(move |at| 1e5 * f64::from(at / 2) + f64::from(at % 2) * 5e4 + 4e4 * rank as f64);
    let slow = result_after(&|trial| trial.arrivals = (0..2).map(|rank| late(rank).collect()).collect());
    assert_eq!((slow.caveats.as_slice(), &slow.metrics["slow_rank"]), (&[Caveat::SlowRank][..], &json!(1)));
    let wrong = result_after(&|trial| trial.wrong[0].count = 2);
    assert_eq!((wrong.status, wrong.wrong), (Status::Failed, Some(2)));
}

/// A drift is one of trials: each of them is steady.
#[test]
fn a_drift_over_trials_is_told() {
    let noise = |round: u64| 3_000 * (round * 11 % 28);
    let drifts = |slope: u64| {
        let medians: Vec<u64> = (0..28).map(|round| 100_000 + slope * round + noise(round)).collect();
        measure::case_line(&run(&medians), REAL).caveats.contains(&Caveat::Drift)
    };
    assert!(drifts(8_000) && !drifts(0));
}

#[test]
fn slow_warm_up_counts_where_most_trials_have_it() {
    let mut run = run(&[100_000; 6]);
    run.trials[0].steady = Some(false);
    run.trials[1].steady = Some(true);
    assert_eq!(measure::case_line(&run, REAL).caveats, []);
    run.trials[2].steady = Some(false);
    assert_eq!(measure::case_line(&run, REAL).caveats, [Caveat::WarmUpNotConverged]);
}

#[test]
fn shares_of_the_limit_are_of_the_same_trials() {
    let limited = |shares: [f64; 6]| {
        let mut run = run(&[100_000, 200_000, 100_000, 200_000, 100_000, 200_000]);
        for (trial, share) in run.trials.iter_mut().zip(shares) {
            let seconds = trial.median().unwrap() * share;
            let variant = |name: &str, factor| {
                let seconds = seconds * factor;
                measure::LimitTime { variant: name.to_owned(), seconds, rounds: vec![seconds; 3] }
            };
            trial.limits = vec![variant("slow", 1.5), variant("plain", 1.0)];
        }
        measure::case_line(&run, REAL)
    };
    let line = limited([0.8; 6]);
    let limit = line.limit.clone().unwrap();
    assert_eq!(limit.variant, "plain");
    let near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 1e-9;
    assert!(limit.paired_share.is_some_and(|share| near(share, 0.8)), "what slows both does not move it: {limit:?}");
    assert!(limit.paired_share_ci95.is_some_and(|ends| ends.iter().all(|end| near(*end, 0.8))), "{limit:?}");
    // The ceiling is that of the fast trials, 80 us; the case took 150 us in the median, between 100 us and 200 us.
    assert!(near(limit.time_s, 80e-6), "{limit:?}");
    let [low, high] = limit.share_ci95.unwrap();
    assert!(near(limit.share, 0.8 / 1.5) && near(low, 0.4) && near(high, 0.8), "{limit:?}");
    assert!(measure::limit_share(line.limit.as_deref()).is_some_and(|share| near(share, 0.8 / 1.5)));
    // Beyond its limit: that is not a share of a limit.
    let line = limited([1.7, 1.6, 1.8, 1.7, 1.6, 1.7]);
    assert!(line.caveats.contains(&Caveat::LimitNotFound));
    assert_eq!(measure::limit_share(line.limit.as_deref()), None);
}

#[test]
fn implementations_of_a_workload_sample_alike_after_the_first_round() {
    let settings = json!({"max_seconds": 42.0, "warmup": 0});
    let first = |call_ns: u64| {
        let case = case(2, settings.clone());
        let mut world = Scripted::new(2, move |_, _, calls| call_ns * u64::from(calls));
        let mut run = CaseRun::new(&case, Settings::from_case(&case), true);
        run.settings.exact = false;
        run.visit(&mut world, Round::default(), &mut |_, _| ()).unwrap();
        (run, world)
    };
    let ((mut quick, mut quick_world), (mut slow, mut slow_world)) = (first(300), first(50_000));
    assert_ne!(quick.sampling, slow.sampling);
    align(&mut [&mut quick, &mut slow]);
    assert_eq!(
        quick.sampling.map(|s| (s.calls, s.samples)),
        slow.sampling.map(|s| (s.calls, s.samples)),
        "as many calls and samples"
    );
    quick.visit(&mut quick_world, Round { number: 1, ..Round::default() }, &mut |_, _| ()).unwrap();
    slow.visit(&mut slow_world, Round { number: 1, ..Round::default() }, &mut |_, _| ()).unwrap();
    let shape = |run: &CaseRun| (run.trials[1].calls, run.trials[1].samples[0].len());
    assert_eq!(shape(&quick), shape(&slow));
    // 300 ns need 84 calls for the clock; the slow one's trial takes at most twice as long as a trial of its own.
    assert!(shape(&quick).0 >= 84, "{:?}", shape(&quick));
    assert!(slow.trials[1].sampling_s <= 2.1, "{} s", slow.trials[1].sampling_s);
}

#[test]
fn isolated_calls_stay_one_a_sample_beside_others() {
    let settings = json!({"max_seconds": 4.2, "warmup": 0, "mode": "isolated"});
    let first = |call_ns: u64| {
        let mut world = Scripted::new(2, move |_, _, _| call_ns);
        let case = case(2, settings.clone());
        let mut run = CaseRun::new(&case, Settings::from_case(&case), true);
        run.visit(&mut world, Round::default(), &mut |_, _| ()).unwrap();
        run
    };
    let (mut quick, mut slow) = (first(300), first(50_000));
    align(&mut [&mut quick, &mut slow]);
    assert_eq!((quick.sampling.unwrap().calls, slow.sampling.unwrap().calls), (1, 1));
}

#[test]
fn looks_beside_the_samples_take_at_most_half_of_their_time() {
    // Samples of 1 ms in trials of 10 ms; each probe of the limit takes 5 ms.
    let case = case(2, json!({"max_seconds": 0.42, "warmup": 0, "target_precision": 1e-9}));
    let mut world = Scripted::new(2, |_, sample, _| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        1_000_000 + sample % 7
    });
    world.ready.traffic_bytes = 1 << 20;
    world.ready.limits = vec!["plain".to_owned(), "copy".to_owned()];
    world.limits = vec![vec![1e6]; 2];
    world.fails = Box::new(|command| {
        if matches!(command, measure::Command::Probe(measure::Probe::Limit { .. })) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        None
    });
    let mut run = CaseRun::new(&case, Settings::from_case(&case), false);
    for number in 0..12 {
        run.visit(&mut world, Round { number, ..Round::default() }, &mut |_, _| ()).unwrap();
    }
    let sampling: f64 = run.trials.iter().map(|trial| trial.sampling_s).sum();
    let probes: usize = run.trials.iter().map(|trial| trial.limits.len()).sum();
    assert!(probes >= 2 && (probes as f64) * 5e-3 <= 0.6 * sampling + 5e-3, "{probes} probes in {sampling} s");
    let trials_with = |name: &str| run.trials.iter().filter(|t| t.limits.iter().any(|l| l.variant == name)).count();
    assert!(
        trials_with("plain") >= 1 && trials_with("copy") >= 1,
        "variants take turns: {} {}",
        trials_with("plain"),
        trials_with("copy")
    );
    assert!(
        run.trials[1..].iter().any(|trial| !trial.limits.is_empty()),
        "limits are measured beside later trials, too"
    );
}
