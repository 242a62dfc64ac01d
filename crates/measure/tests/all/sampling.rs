//! How many samples of how many calls are taken, and what they come to.

use std::time::{Duration, Instant};

use measure::{Command, Launch, MAX_SAMPLES, Probe};
use record::Caveat;
use serde_json::json;
use stats::StopReason;
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
    let launch = world.launch(&case);
    assert_eq!(launch.series(), [90e-6, 70e-6, 60e-6, 80e-6, 30e-6, 100e-6, 20e-6]);
    let line = line(&case, &[launch]);
    let time = line.time_s.unwrap();
    assert_eq!((time.median, time.p50, time.min, time.max), (70e-6, 70e-6, 20e-6, 100e-6));
    // Each rank's own median, never the slowest rank's.
    assert_eq!(line.per_rank_median_s.unwrap(), [40e-6, 20e-6, 20e-6]);
    assert_eq!((line.samples, line.calls_per_sample, line.launches), (Some(7), Some(1), Some(1)));
    assert_eq!((line.wrong, line.simulated), (Some(0), false));
}

#[test]
fn six_samples_have_their_range_for_an_interval() {
    let case = case(2, json!({"warmup": 0, "iters": 6}));
    let launch = Scripted::new(2, |_, sample, _| 30_000 + 1_000 * (sample * 5 % 6)).launch(&case);
    let time = line(&case, &[launch]).time_s.unwrap();
    assert!((time.median - 32.5e-6).abs() < 1e-15, "{}", time.median);
    assert_eq!(time.ci95, [30e-6, 35e-6]);
}

#[test]
fn calls_grow_until_a_sample_is_long_enough_for_the_clock() {
    for (call_ns, most) in [(1, 45_000), (130, 300), (10_000, 4), (24_999, 2), (25_000, 1), (1_000_000, 1)] {
        let case = case(2, json!({"warmup": 0, "iters": 6}));
        let mut world = Scripted::new(2, move |_, _, calls| call_ns * u64::from(calls));
        let launch = world.launch(&case);
        let sample_ns = call_ns * u64::from(launch.calls);
        // 1,000 readings of a clock of 25 ns, and 20 us: the longer counts.
        assert!(sample_ns >= 25_000 && launch.calls <= most, "{call_ns} ns: {} calls", launch.calls);
        assert_eq!(line(&case, &[launch]).time_s.unwrap().median, call_ns as f64 / 1e9);
        let grown: Vec<u32> = world.requests().iter().map(|request| request.calls).collect();
        assert!(grown.is_sorted() && grown.len() < 8 && grown[0] == 1, "{grown:?}");
    }
}

#[test]
fn the_first_slow_calls_do_not_decide_how_many_a_sample_has() {
    // The first command is a hundred times slower than what follows.
    let case = case(2, json!({"warmup": 0, "iters": 6}));
    let mut world = Scripted::new(2, |_, sample, calls| if sample < 3 { 20_000 } else { 200 * u64::from(calls) });
    let launch = world.launch(&case);
    assert!(launch.calls >= 125, "{} calls", launch.calls);
}

#[test]
fn a_sample_that_warm_up_made_short_gets_more_calls() {
    for settings in [json!({"iters": 6}), json!({"warmup": 4, "iters": 6})] {
        // A library connects in its first calls: cold, one call is a sample; warm, it takes 300 ns.
        let mut world = Scripted::new(2, |_, sample, calls| if sample < 4 { 40_000 } else { 300 * u64::from(calls) });
        let launch = world.launch(&case(2, settings));
        assert!(launch.series().iter().all(|each| (each * 1e9 - 300.0).abs() < 1e-6));
        assert!(300 * launch.calls >= 25_000, "{} calls", launch.calls);
    }
    // Where it made no difference, nothing is calibrated anew.
    let mut world = Scripted::new(2, |_, _, calls| 300 * u64::from(calls));
    world.launch(&case(2, json!({"warmup": 4, "iters": 6})));
    let samples: Vec<u32> = world.requests().iter().map(|request| request.samples).collect();
    assert_eq!(samples, [3, 3, 4, 1, 5]);
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
    let calls = |barrier: f64, seconds: f64| world(barrier).launch_real(&case(seconds)).calls;
    assert_eq!(calls(200.0, 1.0), 1);
    assert!((13..=15).contains(&calls(10_000.0, 1.0)), "{}", calls(10_000.0, 1.0));
    // A hundred samples in 0.1 s: 1 ms each at most, whatever the barrier takes.
    assert!((25..=28).contains(&calls(1e6, 0.1)), "{}", calls(1e6, 0.1));
}

#[test]
fn isolated_samples_are_one_call_each() {
    let case = case(2, json!({"warmup": 2, "iters": 9, "mode": "isolated"}));
    let mut world = Scripted::new(2, |_, _, _| 300);
    let launch = world.launch(&case);
    assert!(world.requests().iter().all(|request| (request.calls, request.mode) == (1, Mode::Isolated)));
    assert_eq!((launch.calls, launch.series()), (1, vec![300e-9; 9]));
}

#[test]
fn fixed_counts_are_kept_exactly() {
    for (warmup, iters) in [(0, 6), (5, 6), (17, 1_000), (1, 10_000)] {
        let case = case(2, json!({"warmup": warmup, "iters": iters, "max_seconds": 1e-3, "target_precision": 0.5}));
        let mut world = Scripted::new(2, |_, _, calls| 50_000 * u64::from(calls));
        let launch = world.launch(&case);
        let samples: Vec<u64> = world.requests().iter().map(|request| u64::from(request.samples)).collect();
        let expected = 3 + warmup + iters;
        assert_eq!(samples.iter().sum::<u64>(), expected, "{samples:?}");
        assert_eq!((launch.series().len() as u64, launch.steady, launch.stopped), (iters, true, None));
        // The budget of a millisecond passed long ago: who fixed the count is not told that it was too few.
        assert_eq!(line(&case, &[launch]).caveats, []);
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
    let launch = Scripted::new(2, falling).launch(&case);
    assert!(launch.steady);
    let kept = launch.series();
    assert!(kept.iter().all(|time| *time < 120e-6), "{kept:?}");
    assert_eq!((launch.stopped, line(&case, &[launch]).caveats), (Some(StopReason::Precise), vec![]));
}

#[test]
fn warm_up_that_never_ends_is_a_caveat() {
    // Two percent slower with every sample, in a budget of 0.1 x 0.2 s.
    let growing = |_: usize, sample: u64, _: u32| (50_000.0 * 1.02f64.powi(sample as i32)) as u64;
    let case = case(2, json!({"max_seconds": 0.2}));
    let launch = Scripted::new(2, growing).launch(&case);
    assert!(!launch.steady);
    assert!(line(&case, &[launch]).caveats.contains(&Caveat::Unsteady));
}

#[test]
fn a_budget_that_ends_early_makes_the_line_imprecise() {
    // Between 1 and 100 ms by chance: 2% would take thousands.
    let wild =
        |_: usize, sample: u64, _: u32| 1_000_000 * (1 + (sample.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 100);
    let case = case(2, json!({"max_seconds": 3.0, "warmup": 0}));
    let (launch, told) = Scripted::new(2, wild).launch_told(&case, true);
    let launch = launch.unwrap();
    assert_eq!(launch.stopped, Some(StopReason::Budget));
    let spent: f64 = launch.series().iter().sum();
    // One look beyond the budget at most; a look is after at most as many samples as before it.
    assert!((3.0..4.0).contains(&spent), "{spent} s");
    assert!(told.is_sorted_by_key(|(at, _)| *at) && told.iter().all(|(_, most)| *most == 3.0), "{told:?}");
    assert_eq!(line(&case, &[launch]).caveats, [Caveat::Imprecise]);
}

#[test]
fn no_budget_is_too_short_for_six_samples() {
    for (seconds, simulated) in [(0.0, true), (1e-9, true), (0.0, false), (1e-9, false)] {
        let case = case(2, json!({"max_seconds": seconds, "warmup": 0}));
        let launch = Scripted::new(2, |_, _, _| 100_000_000).launch_told(&case, simulated).0.unwrap();
        assert_eq!((launch.series().len(), launch.stopped), (6, Some(StopReason::Budget)), "{seconds} {simulated}");
        assert_eq!(line(&case, &[launch]).caveats, [Caveat::Imprecise]);
    }
}

#[test]
fn real_time_counts_between_samples_too() {
    // Samples say 1 us and take 2 ms: the budget is of real time.
    let case = case(2, json!({"max_seconds": 0.05, "warmup": 0, "mode": "isolated", "target_precision": 1e-9}));
    let mut state = 1u64;
    let mut world = Scripted::new(1, move |_, _, _| {
        std::thread::sleep(Duration::from_millis(2));
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        1_000 + (state >> 54)
    });
    let begun = Instant::now();
    let launch = world.launch_real(&case);
    assert_eq!(launch.stopped, Some(StopReason::Budget));
    assert!((6..200).contains(&launch.series().len()), "{} samples", launch.series().len());
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_soak_spans_the_whole_time_whatever_the_precision() {
    // Not a single sample differs: as precise as can be, and yet an hour was asked for.
    let case = case(2, json!({"target_precision": 0.0, "max_seconds": 3600.0, "warmup": 0}));
    for call_ns in [90, 40_000, 3_000_000_000] {
        let launch = Scripted::new(2, move |_, _, calls| call_ns * u64::from(calls)).launch(&case);
        let series = launch.series();
        let spent: f64 = series.iter().map(|each| each * f64::from(launch.calls)).sum();
        assert!((3600.0..3700.0).contains(&spent), "{call_ns} ns: {spent} s in {} samples", series.len());
        assert!((1_000..=MAX_SAMPLES).contains(&series.len()), "{call_ns} ns: {} samples", series.len());
        // Who asked to sample for the whole time did not ask for a precision.
        assert_eq!(line(&case, &[launch]).caveats, []);
    }
}

#[test]
fn at_most_ten_thousand_samples_are_kept() {
    let wild =
        |_: usize, sample: u64, _: u32| 100_000 * (1 + (sample.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 1000);
    let case = case(2, json!({"target_precision": 1e-6, "max_seconds": 1e6, "warmup": 0}));
    let launch = Scripted::new(2, wild).launch(&case);
    assert_eq!((launch.series().len(), launch.stopped), (MAX_SAMPLES, Some(StopReason::MaxSamples)));
    assert_eq!(line(&case, &[launch]).caveats, [Caveat::Imprecise]);
}

#[test]
fn times_of_zero_are_no_reason_to_call_a_million_times() {
    let case = case(2, json!({}));
    let mut world = Scripted::new(2, |_, _, _| 0);
    let launch = world.launch(&case);
    assert_eq!(launch.calls, 1, "a computed time of zero stays zero");
    assert!(line(&case, &[launch]).caveats.contains(&Caveat::ClockResolution));
}

#[test]
fn every_command_has_what_is_left_of_the_deadline() {
    let case = case(2, json!({"timeout": 10.0, "max_seconds": 2.0, "iters": 20, "warmup": 0}));
    let mut world = Scripted::new(2, |_, sample, _| {
        if sample == 3 {
            std::thread::sleep(Duration::from_millis(60));
        }
        30_000
    });
    world.launch_real(&case);
    let limits: Vec<Duration> = world.commands.iter().map(|(_, limit)| *limit).collect();
    assert!(limits.is_sorted_by(|before, after| before >= after), "{limits:?}");
    let spent = Duration::from_secs(12) - *limits.last().unwrap();
    assert!(limits[0] <= Duration::from_secs(12) && limits[0] > Duration::from_secs(11), "{limits:?}");
    assert!((0.06..5.0).contains(&spent.as_secs_f64()), "{spent:?}");
}

/// The commands that a world was given, in order.
fn names(world: &Scripted) -> Vec<&'static str> {
    let name = |(command, _): &(Command, Duration)| match command {
        Command::Prepare(_) => "prepare",
        Command::Sample(_) => "sample",
        Command::Check => "check",
        Command::Probe(Probe::Canary) => "canary",
        Command::Probe(Probe::Limit) => "limit",
        Command::Probe(Probe::Arrivals { .. }) => "arrivals",
        Command::Probe(Probe::Overhead) => "overhead",
        Command::Probe(Probe::Begin) => "begin",
        Command::Clocks(_) => "clocks",
        Command::Finish => "finish",
    };
    world.commands.iter().map(name).collect()
}

#[test]
fn steps_are_sampled_from_the_first_and_none_is_made_beside_them() {
    let mut world = Scripted::new(2, |_, _, _| 900_000_000);
    (world.ready.steps, world.ready.traffic_bytes) = (true, 1 << 30);
    let launch = world.launch_real(&case(2, json!({"steps": 3, "max_seconds": 0.01})));
    assert_eq!(
        names(&world),
        ["prepare", "canary", "begin", "sample", "sample", "sample", "check", "canary", "finish"]
    );
    assert_eq!((launch.samples[0].len(), launch.calls, launch.details.len()), (3, 1, 2));
    // Where their number is not fixed, warm-up comes first and is forgotten.
    let mut world = Scripted::new(1, |_, _, _| 900_000);
    world.ready.steps = true;
    let launch = world.launch_real(&case(1, json!({"warmup": 2, "iters": 6})));
    let begin = names(&world).iter().position(|name| *name == "begin").unwrap();
    assert_eq!(names(&world)[..begin], ["prepare", "sample", "canary"]);
    assert_eq!((world.requests()[0].samples, launch.samples[0].len()), (2, 6));
    assert!(world.requests().iter().all(|request| request.calls == 1));
}

#[test]
fn a_case_goes_through_its_commands_in_order() {
    let case = case(2, json!({"iters": 6, "warmup": 1}));
    let mut world = Scripted::new(2, |_, _, _| 30_000);
    (world.ready.traffic_bytes, world.limits) =
        (1 << 20, vec![vec![9_000.0, 7_000.0, 0.0], vec![5_000.0, 8_000.0, 0.0]]);
    let launch = world.launch_real(&case);
    let names = names(&world);
    let [begin, end] =
        [["prepare", "sample", "sample", "canary", "limit"], ["check", "limit", "canary", "arrivals", "finish"]];
    assert_eq!(names[..5], begin);
    assert!(names[5..names.len() - 5].iter().all(|name| *name == "sample"), "{names:?}");
    assert_eq!(names[names.len() - 5..], end);
    // Of each variant the slowest rank (9 us, 8 us), of the variants the fastest; a variant that says 0 was not run.
    assert_eq!(launch.limit_s, Some(8e-6));
}

#[test]
fn of_several_launches_the_limit_is_the_median() {
    let launch = |limit_s| Launch { limit_s, ..Launch::default() };
    let quick_once = [Some(8e-6), Some(2e-6), Some(9e-6), None].map(launch);
    assert_eq!(measure::limit_s(&quick_once), Some(8e-6));
    assert_eq!(measure::limit_s(&[launch(None)]), None);
}

#[test]
fn nothing_of_the_machine_is_asked_where_times_are_computed() {
    let case = case(2, json!({"iters": 6, "warmup": 0}));
    let mut world = Scripted::new(2, |_, _, _| 30_000);
    world.ready.traffic_bytes = 1 << 30;
    let launch = world.launch(&case);
    let asked = |probe: Probe| world.commands.iter().any(|(command, _)| *command == Command::Probe(probe));
    assert!(!asked(Probe::Canary) && !asked(Probe::Limit));
    assert_eq!((launch.canaries, launch.limit_s), (None, None));
}
