//! How many samples of how many calls are taken, and what they come to.

use measure::{Command, MAX_SAMPLES, Probe, StopReason};
use record::Caveat;
use std::time::{Duration, Instant};

use serde_json::json;
use terms::Mode;

use crate::scripted::{Scripted, case, line};

#[test]
fn medians_are_those_of_the_slowest_rank_of_each_sample() {
    let case = case(3, json!({"warmup": 0, "iters": 7}));
    // Calibration takes samples 0 to 2. Of the rest, now one rank and now another is the slowest.
    let times = [[50, 90, 10], [70, 20, 30], [10, 10, 60], [40, 80, 20], [30, 30, 30], [100, 1, 1], [1, 1, 20]];
    let mut world = Scripted::new(3, move |rank, sample, calls| {
        assert_eq!(calls, 1);
        if sample < 3 { 30_000 } else { 1_000 * times[sample as usize - 3][rank] }
    });
    let trial = world.trial(&case);
    assert_eq!(trial.series(), [90e-6, 70e-6, 60e-6, 80e-6, 30e-6, 100e-6, 20e-6]);
    let line = line(&trial);
    let time = line.time_s.unwrap();
    assert_eq!((time.median, time.p50, time.min, time.max), (70e-6, Some(70e-6), Some(20e-6), Some(100e-6)));
    // Each rank's own median, never the slowest rank's.
    assert_eq!(line.per_rank_median_s.unwrap(), [40e-6, 20e-6, 20e-6]);
    assert_eq!((line.samples, line.calls_per_sample, line.trials), (Some(7), Some(1), Some(1)));
    assert_eq!((line.wrong, line.simulated), (Some(0), false));
}

#[test]
fn calls_grow_until_a_sample_is_long_enough_for_the_clock() {
    for (call_ns, most) in [(1, 45_000), (130, 300), (10_000, 4), (24_999, 2), (25_000, 1), (1_000_000, 1)] {
        let case = case(2, json!({"warmup": 0, "iters": 6}));
        let mut world = Scripted::new(2, move |_, _, calls| call_ns * u64::from(calls));
        let trial = world.trial(&case);
        let sample_ns = call_ns * u64::from(trial.calls);
        // 1,000 readings of a clock of 25 ns, and 20 us: the longer counts.
        assert!(sample_ns >= 25_000 && trial.calls <= most, "{call_ns} ns: {} calls", trial.calls);
        assert_eq!(line(&trial).time_s.unwrap().median, call_ns as f64 / 1e9);
        let grown: Vec<u32> = world.requests().iter().map(|request| request.calls).collect();
        assert!(grown.is_sorted() && grown.len() < 8 && grown[0] == 1, "{grown:?}");
    }
}

#[test]
fn samples_last_as_long_as_what_runs_beside_them_asks_for() {
    let case = case(2, json!({"warmup": 0, "iters": 6}));
    let mut world = Scripted::new(2, |_, _, calls| 300_000 * u64::from(calls));
    world.ready.sample_ns = 20_000_000;
    let trial = world.trial(&case);
    assert!((67..100).contains(&trial.calls), "{} calls of 300 us", trial.calls);
}

#[test]
fn the_first_slow_calls_do_not_decide_how_many_a_sample_has() {
    // The first command is a hundred times slower than what follows.
    let case = case(2, json!({"warmup": 0, "iters": 6}));
    let mut world = Scripted::new(2, |_, sample, calls| if sample < 3 { 20_000 } else { 200 * u64::from(calls) });
    let trial = world.trial(&case);
    assert!(trial.calls >= 125, "{} calls", trial.calls);
}

#[test]
fn a_sample_that_warm_up_made_short_gets_more_calls() {
    for settings in [json!({"iters": 6}), json!({"warmup": 4, "iters": 6})] {
        // A library connects in its first calls: cold, one call is a sample; warm, it takes 300 ns.
        let mut world = Scripted::new(2, |_, sample, calls| if sample < 4 { 40_000 } else { 300 * u64::from(calls) });
        let trial = world.trial(&case(2, settings));
        assert!(trial.series().iter().all(|each| (each * 1e9 - 300.0).abs() < 1e-6));
        assert!(300 * trial.calls >= 25_000, "{} calls", trial.calls);
    }
    // Where it made no difference, nothing is calibrated again.
    let mut world = Scripted::new(2, |_, _, calls| 300 * u64::from(calls));
    world.trial(&case(2, json!({"warmup": 4, "iters": 6})));
    let samples: Vec<u32> = world.requests().iter().map(|request| request.samples).collect();
    assert_eq!(samples, [3, 3, 1, 3, 1, 5]);
}

#[test]
fn samples_are_long_enough_for_the_barrier_before_them() {
    // A call of 40 us is long enough for the clock, and a barrier of 10 us is a quarter of it.
    let case = |seconds| case(2, json!({"warmup": 4, "iters": 6, "max_seconds": seconds}));
    let world = |barrier: f64| {
        let mut world = Scripted::new(2, |_, _, calls| 40_000 * u64::from(calls));
        world.canaries = [vec![barrier, 0.0, 0.0], vec![barrier, 0.0, 0.0]];
        world
    };
    let calls = |barrier: f64, seconds: f64| world(barrier).trial_real(&case(seconds)).calls;
    assert_eq!(calls(200.0, 1.0), 1);
    assert!((13..=15).contains(&calls(10_000.0, 1.0)), "{}", calls(10_000.0, 1.0));
    // A hundred samples in 0.1 s: 1 ms each at most, whatever the barrier takes.
    assert!((25..=28).contains(&calls(1e6, 0.1)), "{}", calls(1e6, 0.1));
}

#[test]
fn isolated_samples_are_one_call_each() {
    let case = case(2, json!({"warmup": 2, "iters": 9, "mode": "isolated"}));
    let mut world = Scripted::new(2, |_, _, _| 300);
    let trial = world.trial(&case);
    assert!(world.requests().iter().all(|request| (request.calls, request.mode) == (1, Mode::Isolated)));
    assert_eq!((trial.calls, trial.series()), (1, vec![300e-9; 9]));
}

#[test]
fn fixed_counts_are_kept_exactly() {
    for (warmup, iters) in [(0, 6), (5, 6), (17, 1_000), (1, 10_000)] {
        let case = case(2, json!({"warmup": warmup, "iters": iters, "max_seconds": 1e-3, "target_precision": 0.5}));
        let mut world = Scripted::new(2, |_, _, calls| 50_000 * u64::from(calls));
        let trial = world.trial(&case);
        let samples: Vec<u64> = world.requests().iter().map(|request| u64::from(request.samples)).collect();
        let expected = 3 + warmup + iters;
        assert_eq!(samples.iter().sum::<u64>(), expected, "{samples:?}");
        assert_eq!((trial.series().len() as u64, trial.steady), (iters, None));
        // The budget of a millisecond passed long ago: a fixed count gets no caveat that it was too few.
        assert_eq!(line(&trial).caveats, []);
    }
}

#[test]
fn warm_up_goes_on_until_times_are_steady_and_is_not_kept() {
    // Falls from 400 us to 100 us over 40 samples, then stays within 1%.
    let falling = |_: usize, sample: u64, _: u32| {
        let wiggle = [0, 700, 300, 900, 100, 500, 800, 200][(sample * 5 % 8) as usize];
        100_000 + wiggle + 300_000 * 40u64.saturating_sub(sample) / 40
    };
    let case = case(2, json!({}));
    let trial = Scripted::new(2, falling).trial(&case);
    assert_eq!(trial.steady, Some(true));
    let kept = trial.series();
    assert!(kept.iter().all(|time| *time < 120e-6), "{kept:?}");
    assert_eq!(line(&trial).caveats, []);
}

#[test]
fn warm_up_that_never_ends_is_a_caveat() {
    // Two percent slower with every sample, in a budget of 0.1 x 0.2 s.
    let growing = |_: usize, sample: u64, _: u32| (50_000.0 * 1.02f64.powi(sample as i32)) as u64;
    let case = case(2, json!({"max_seconds": 0.2}));
    let trial = Scripted::new(2, growing).trial(&case);
    assert_eq!(trial.steady, Some(false));
    assert!(line(&trial).caveats.contains(&Caveat::WarmUpNotConverged));
}

#[test]
fn times_of_zero_are_no_reason_to_call_a_million_times() {
    let case = case(2, json!({}));
    let mut world = Scripted::new(2, |_, _, _| 0);
    let trial = world.trial(&case);
    assert_eq!(trial.calls, 1, "a computed time of zero stays zero");
    assert!(line(&trial).caveats.contains(&Caveat::ClockResolution));
}

#[test]
fn every_command_has_what_is_left_of_the_deadline() {
    let case = case(2, json!({"timeout": 10.0, "max_seconds": 2.0, "iters": 20, "warmup": 0}));
    let mut world = Scripted::new(2, |_, sample, _| {
        // While the number of calls is found out.
        if sample == 1 {
            std::thread::sleep(Duration::from_millis(60));
        }
        30_000
    });
    world.trial_real(&case);
    let limits: Vec<Duration> = world.commands.iter().map(|(_, limit)| *limit).collect();
    assert!(limits.is_sorted_by(|before, after| before >= after), "{limits:?}");
    let spent = Duration::from_secs(12) - *limits.last().unwrap();
    assert!(limits[0] <= Duration::from_secs(12) && limits[0] > Duration::from_secs(11), "{limits:?}");
    assert!((0.06..5.0).contains(&spent.as_secs_f64()), "{spent:?}");
}

/// Calls of 5 s that a user wants a hundred of are not a hang: only an answer that does not come is.
#[test]
fn samples_asked_for_by_number_may_take_their_time() {
    let case = case(2, json!({"timeout": 10.0, "max_seconds": 2.0, "iters": 20, "warmup": 5}));
    let mut world = Scripted::new(2, |_, sample, _| {
        if (3..23).contains(&sample) {
            std::thread::sleep(Duration::from_millis(20));
        }
        2_000_000_000
    });
    world.trial_real(&case);
    // Long calls are asked for one by one, warm-up too, so that each answer comes before the deadline.
    let asked: Vec<u32> = world.requests().iter().map(|request| request.samples).collect();
    assert_eq!((asked[0], &asked[1..]), (3, &[1; 25][..]));
    let spent = Duration::from_secs(12) - world.commands.last().unwrap().1;
    assert!(spent < Duration::from_millis(300), "{spent:?} of 500 ms or more count");
}

/// Temperatures and clocks of a long trial are those within it, too, not only before and after.
#[test]
fn sensors_are_read_between_samples_twice_a_second() {
    let case = case(2, json!({"timeout": 60.0, "max_seconds": 2.0, "iters": 4, "warmup": 0}));
    let pause = |millis| {
        let mut world = Scripted::new(2, move |rank, sample, _| {
            if rank == 0 && sample >= 3 {
                std::thread::sleep(Duration::from_millis(millis));
            }
            2_000_000_000
        });
        world.trial_real(&case).sensors.len()
    };
    assert_eq!([pause(300), pause(0)], [2, 0], "every 0.5 s of 1.2 s; none in a short trial");
}

/// The commands that a world was given, in order.
fn names(world: &Scripted) -> Vec<&'static str> {
    let name = |(command, _): &(Command, Duration)| match command {
        Command::Prepare { .. } => "prepare",
        Command::Sample(_) => "sample",
        Command::Check => "check",
        Command::Probe(Probe::Canary) => "canary",
        Command::Probe(Probe::Limit { .. }) => "limit",
        Command::Probe(Probe::Arrivals { .. }) => "arrivals",
        Command::Probe(Probe::Steps { .. }) => "steps",
        Command::Probe(Probe::Overhead) => "overhead",
        Command::Probe(Probe::Begin) => "begin",
        Command::Clocks(_) => "clocks",
        Command::Observe => "observe",
        Command::Finish => "finish",
    };
    world.commands.iter().map(name).collect()
}

#[test]
fn steps_are_sampled_from_the_first_and_none_is_made_beside_them() {
    let mut world = Scripted::new(2, |_, _, _| 900_000_000);
    (world.ready.steps, world.ready.traffic_bytes) = (true, 1 << 30);
    let trial = world.trial_real(&case(2, json!({"steps": 3, "max_seconds": 0.01})));
    assert_eq!(
        names(&world),
        ["prepare", "canary", "begin", "sample", "sample", "sample", "check", "canary", "finish"]
    );
    assert_eq!((trial.samples[0].len(), trial.calls, trial.details.len()), (3, 1, 2));
    // A trainer that stays prepared goes on from there: nothing is prepared again, and nothing forgotten.
    let mut run = trial.0;
    run.settings.trials = Some(2);
    let before = names(&world).len();
    let round = measure::Round { number: 1, prepared: true, keep: true, ..measure::Round::default() };
    run.visit(&mut world, round, &mut |_, _| ()).expect("no verdict");
    let again = &names(&world)[before..];
    assert!(!again.contains(&"prepare") && !again.contains(&"begin") && !again.contains(&"finish"), "{again:?}");
    assert_eq!(again.iter().filter(|name| **name == "sample").count(), 3, "{again:?}");
    // Where their number is not fixed, warm-up comes first and is forgotten.
    let mut world = Scripted::new(1, |_, _, _| 900_000);
    world.ready.steps = true;
    let trial = world.trial_real(&case(1, json!({"warmup": 2, "iters": 6})));
    let begin = names(&world).iter().position(|name| *name == "begin").unwrap();
    assert_eq!(names(&world)[..begin], ["prepare", "sample", "sample", "canary"]);
    assert_eq!((world.requests()[0].samples, trial.samples[0].len()), (1, 6));
    assert!(world.requests().iter().all(|request| request.calls == 1));
}

#[test]
fn samples_give_way_to_the_share_of_a_budget() {
    let mut world = Scripted::new(2, |_, _, _| 40_000_000);
    let mut run = world.trial_real(&case(2, json!({"iters": 500, "warmup": 20, "trials": 2}))).0;
    assert_eq!(run.trials[0].samples[0].len(), 500);
    run.settings.trials = Some(2);
    // No time is left: one sample is better than none.
    let round = measure::Round { number: 1, until: Some(Instant::now()), ..measure::Round::default() };
    run.visit(&mut world, round, &mut |_, _| ()).expect("no verdict");
    assert_eq!(run.trials[1].samples[0].len(), 1);
}

#[test]
fn warm_up_gives_way_to_the_share_of_a_budget() {
    let case = case(2, json!({"max_seconds": 600.0}));
    let mut world = Scripted::new(2, |rank, _, _| {
        if rank == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        20_000_000
    });
    let mut run = measure::CaseRun::new(&case, measure::Settings::from_case(&case), false);
    let until = Some(Instant::now() + Duration::from_millis(200));
    run.visit(&mut world, measure::Round { until, ..measure::Round::default() }, &mut |_, _| ()).expect("no verdict");
    let taken: u32 = world.requests().iter().map(|request| request.samples).sum();
    assert!(taken < 16, "{taken} samples of 20 ms in 200 ms");
}

/// Seconds that a model computes are not spent.
#[test]
fn simulated_samples_do_not_give_way_to_a_budget_of_real_time() {
    let case = case(2, json!({"warmup": 2, "iters": 6}));
    let mut world = Scripted::new(2, |_, _, _| 600_000_000_000);
    let mut run = measure::CaseRun::new(&case, measure::Settings::from_case(&case), true);
    let until = Some(Instant::now() + Duration::from_secs(60));
    run.visit(&mut world, measure::Round { until, ..measure::Round::default() }, &mut |_, _| ()).expect("no verdict");
    assert_eq!(run.trials[0].samples[0].len(), 6);
}

#[test]
fn a_case_goes_through_its_commands_in_order() {
    let case = case(2, json!({"iters": 6, "warmup": 1}));
    let mut world = Scripted::new(2, |_, _, _| 30_000);
    world.ready.traffic_bytes = 1 << 20;
    world.ready.limits = vec!["plain".to_owned()];
    world.limits = vec![vec![9_000.0, 7_000.0, 0.0], vec![5_000.0, 8_000.0, 0.0]];
    let trial = world.trial_real(&case);
    let names = names(&world);
    assert_eq!(names[..4], ["prepare", "sample", "sample", "canary"]);
    let end = ["check", "limit", "canary", "arrivals", "finish"];
    assert!(names[4..names.len() - end.len()].iter().all(|name| *name == "sample"), "{names:?}");
    assert_eq!(names[names.len() - end.len()..], end);
    // Of each round the slowest rank (9 us, 8 us), and their median; a round that says 0 was not run.
    assert_eq!(trial.limits.len(), 1);
    assert_eq!((trial.limits[0].variant.as_str(), trial.limits[0].seconds), ("plain", 8.5e-6));
}

#[test]
fn nothing_of_the_machine_is_asked_where_times_are_computed() {
    let case = case(2, json!({"iters": 6, "warmup": 0}));
    let mut world = Scripted::new(2, |_, _, _| 30_000);
    world.ready.traffic_bytes = 1 << 30;
    let trial = world.trial(&case);
    let asked = |probe: Probe| world.commands.iter().any(|(command, _)| *command == Command::Probe(probe));
    assert!(!asked(Probe::Canary) && trial.canaries.is_none() && trial.limits.is_empty());
}

/// Between 1 and 100 ms by chance.
fn wild(_: usize, sample: u64, _: u32) -> u64 {
    1_000_000 * (1 + (sample.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 100)
}

#[test]
fn trials_share_the_budget_of_their_case() {
    let case = case(2, json!({"max_seconds": 30.0, "warmup": 0}));
    let run = Scripted::new(2, wild).trials(&case);
    let spent: f64 = run.trials.iter().map(|trial| trial.sampling_s).sum();
    assert!(run.trials.len() >= 6 && (20.0..31.0).contains(&spent), "{} trials, {spent} s", run.trials.len());
    // Each trial has as many samples of as many calls as the others, from the second on.
    let shape = |trial: &measure::Trial| (trial.calls, trial.samples[0].len());
    assert!(run.trials[1..].iter().all(|trial| shape(trial) == shape(&run.trials[1])));
    assert!(line_of(&run).caveats.contains(&Caveat::CiAboveTarget));
}

#[test]
fn no_budget_is_too_short_for_six_trials() {
    for seconds in [0.0, 1e-9] {
        let case = case(2, json!({"max_seconds": seconds, "warmup": 0}));
        let run = Scripted::new(2, |_, _, _| 100_000_000).trials(&case);
        assert_eq!((run.trials.len(), run.stop()), (6, Some(StopReason::Precise)));
        // One sample is a trial's whole observation where a call takes so long.
        assert!(run.trials[1..].iter().all(|trial| trial.samples[0].len() == 1));
    }
}

#[test]
fn a_soak_spans_the_whole_time_whatever_the_precision() {
    // Not a single sample differs: as precise as can be, and yet an hour was asked for.
    let case = case(2, json!({"target_precision": 0.0, "max_seconds": 3600.0, "warmup": 0}));
    for call_ns in [90, 40_000, 3_000_000_000] {
        let run = Scripted::new(2, move |_, _, calls| call_ns * u64::from(calls)).trials(&case);
        let spent: f64 = run.trials.iter().map(|trial| trial.sampling_s).sum();
        let samples: usize = run.trials.iter().map(|trial| trial.samples[0].len()).sum();
        assert!((3500.0..3700.0).contains(&spent), "{call_ns} ns: {spent} s in {} trials", run.trials.len());
        assert!((1_000..=MAX_SAMPLES).contains(&samples), "{call_ns} ns: {samples} samples");
        // Who asked to sample for the whole time did not ask for a precision.
        assert_eq!(line_of(&run).caveats, []);
    }
}

#[test]
fn at_most_ten_thousand_samples_are_kept() {
    let case = case(2, json!({"target_precision": 1e-6, "max_seconds": 1e6, "warmup": 0}));
    let run = Scripted::new(2, wild).trials(&case);
    let samples: usize = run.trials.iter().map(|trial| trial.samples[0].len()).sum();
    assert!((9_000..=MAX_SAMPLES).contains(&samples), "{samples}");
    assert_eq!(run.stop(), Some(StopReason::MostTrials));
}

fn line_of(run: &measure::CaseRun) -> record::CaseLine {
    measure::case_line(run, measure::Circumstances { simulated: false, ..crate::scripted::REAL })
}
