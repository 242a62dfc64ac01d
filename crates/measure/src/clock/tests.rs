//! Clocks that are made up: what is true of them is known.

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
/// Time of the clocks here, when they are first looked at.
const START: u64 = 400 * SECOND;

/// A clock that is off by `offset` at [`START`], and drifts.
#[derive(Clone, Copy, Debug)]
struct Truth {
    offset: i64,
    ppm: f64,
}

impl Truth {
    fn there(self, here: u64) -> u64 {
        let since = (here as i128 - i128::from(START)) as f64;
        clamped(i128::from(here) + i128::from(self.offset) + (self.ppm * 1e-6 * since).round() as i128)
    }

    fn trip(self, sent: u64, out: u64, back: u64) -> RoundTrip {
        RoundTrip { sent_ns: sent, remote_ns: self.there(sent + out), received_ns: sent + out + back }
    }

    /// How far a fit is off at an instant.
    fn error(self, fit: &ClockFit, here: u64) -> f64 {
        (fit.there(here) as i128 - self.there(here) as i128).abs() as f64
    }
}

fn readings(bursts: &[Vec<RoundTrip>]) -> ClockReadings {
    let mut readings = ClockReadings::default();
    bursts.iter().for_each(|trips| readings.add(trips));
    readings
}

#[test]
fn a_known_offset_and_slope_are_found() {
    let truth = Truth { offset: -3_600 * SECOND as i64 / 10, ppm: 80.0 };
    let bursts: Vec<_> = (0..10).map(|i| vec![truth.trip(START + i * SECOND, 20_000, 20_000)]).collect();
    let fit = readings(&bursts).fit().unwrap();
    assert!((fit.slope - 80e-6).abs() < 1e-9, "{fit:?}");
    assert!((20_000.0..20_100.0).contains(&fit.residual_ns), "half a round trip, nothing more: {fit:?}");
    for second in 0..20 {
        let here = START + second * SECOND;
        // Both ways took equally long: nothing is off.
        assert!(truth.error(&fit, here) < 5.0, "{second}: {fit:?}");
        assert!((fit.here(fit.there(here)) as i128 - i128::from(here)).abs() <= 1);
    }
    let growth = 2.0 * fit.residual_ns / (9.0 * SECOND as f64);
    assert!((fit.growth - growth).abs() < 1e-12);
    assert_eq!(fit.residual_at(START + SECOND), fit.residual_ns);
    assert!(fit.residual_at(START + 20 * SECOND) > 2.0 * fit.residual_ns);
    assert!(fit.residual_at(START - SECOND) > fit.residual_ns);
}

#[test]
fn the_shortest_round_trip_counts() {
    let truth = Truth { offset: 5_000_000, ppm: 0.0 };
    let slow = [(9_000_000, 10_000), (10_000, 4_000_000), (300_000, 10_000)];
    let mut trips: Vec<RoundTrip> = slow.iter().map(|(out, back)| truth.trip(START, *out, *back)).collect();
    trips.insert(1, truth.trip(START + 1_000_000, 15_000, 5_000));
    let fit = readings(&[trips]).fit().unwrap();
    assert!((10_000.0..10_020.0).contains(&fit.residual_ns), "{fit:?}");
    assert!((truth.error(&fit, fit.from_ns) - 5_000.0).abs() <= 1.0, "half of what the ways differ by: {fit:?}");
    // A burst of slow ones alone does not make the others worse.
    let bursts = [vec![truth.trip(START, 10_000, 10_000)], vec![truth.trip(START + SECOND, 5_000_000, 10_000)]];
    let fit = readings(&bursts).fit().unwrap();
    assert!(fit.residual_ns < 10_020.0 && fit.until_ns < START + SECOND, "{fit:?}");
}

#[test]
fn readings_close_together_say_nothing_of_the_slope() {
    let truth = Truth { offset: 77, ppm: 100.0 };
    let near = [vec![truth.trip(START, 30_000, 5_000)], vec![truth.trip(START + 10_000_000, 5_000, 30_000)]];
    let fit = readings(&near).fit().unwrap();
    assert_eq!((fit.slope, fit.growth, fit.from_ns), (0.0, LARGEST_DRIFT, fit.until_ns));
    assert!(truth.error(&fit, START + SECOND) <= fit.residual_at(START + SECOND));
}

#[test]
fn a_clock_that_jumps_is_told_and_begins_again() {
    let (before, after) = (Truth { offset: 0, ppm: 10.0 }, Truth { offset: 1_000_000, ppm: 10.0 });
    let mut readings = readings(&[vec![before.trip(START, 20_000, 20_000)]]);
    assert!(readings.fit().is_ok());
    readings.add(&[after.trip(START + SECOND, 20_000, 20_000)]);
    let caveat = readings.fit().unwrap_err();
    let ClockCaveat::Jumped { by_ns } = caveat else { panic!("{caveat}") };
    // A millisecond, less both bounds and what may have drifted in a second.
    assert!((400_000.0..500_000.0).contains(&by_ns), "{by_ns}");
    assert!(caveat.to_string().starts_with("it jumped by 4"), "{caveat}");
    readings.add(&[after.trip(START + 2 * SECOND, 20_000, 20_000)]);
    let fit = readings.fit().unwrap();
    assert!(after.error(&fit, START + 2 * SECOND) <= fit.residual_ns, "{fit:?}");
}

#[test]
fn a_host_that_does_not_answer_has_no_clock() {
    assert_eq!(ClockReadings::default().fit(), Err(ClockCaveat::Unanswered));
    let truth = Truth { offset: 0, ppm: 0.0 };
    let mut readings = readings(&[vec![truth.trip(START, 1_000, 1_000)]]);
    readings.add(&[]);
    assert_eq!(readings.fit(), Err(ClockCaveat::Unanswered));
    readings.add(&[truth.trip(START + SECOND, 1_000, 1_000)]);
    assert!(readings.fit().is_ok());
}

#[test]
fn ranks_are_apart_by_the_two_least_certain_hosts() {
    let fit = |residual_ns| ClockFit { from_ns: 0, until_ns: 9, offset_ns: 0, slope: 0.0, residual_ns, growth: 1.0 };
    assert_eq!(apart_ns(&[None, None], 5), 0.0);
    assert_eq!(apart_ns(&[None, Some(fit(7.0)), Some(fit(7.0))], 5), 7.0, "one host, with two ranks");
    assert_eq!(apart_ns(&[None, Some(fit(7.0)), Some(fit(30.0)), Some(fit(20.0))], 10), 52.0);
    let clock = |host: &str, fit| HostClock { host: host.to_owned(), fit };
    let hosts = vec![clock("b", Ok(fit(7.0))), clock("c", Err(ClockCaveat::Unanswered))];
    let known = Clocks { hosts: hosts.clone(), of: vec![None, Some(0), Some(0)] };
    assert_eq!(known.fits(), Ok(vec![None, Some(fit(7.0)), Some(fit(7.0))]));
    let unknown = Clocks { hosts, of: vec![None, Some(0), Some(1)] };
    assert_eq!(unknown.fits(), Err("the clock of c: it was not answered".to_owned()));
    let recorded = unknown.recorded();
    assert_eq!((recorded[0].residual_ns, recorded[0].why.as_deref()), (Some(7.0), None));
    assert_eq!((recorded[1].residual_ns, recorded[1].why.as_deref()), (None, Some("it was not answered")));
}

proptest! {
    /// Whatever the offset, the drift, and the time that each way takes: the truth lies within the bound, between the
    /// readings and beyond.
    #[test]
    fn the_true_offset_is_within_the_bound(
        offset in -1_000_000_000_000_000_i64..1_000_000_000_000_000,
        ppm in -100.0..100.0_f64,
        floor in (1_000_u64..200_000, 1_000_u64..200_000),
        bursts in prop::collection::vec(
            (1_000_000_u64..3_000_000_000, prop::collection::vec((0_u64..50_000, 0_u64..50_000, 0_u8..8), 1..6)), 1..40),
        look in 0.0..1.0_f64,
    ) {
        // Never before the clock's own beginning.
        let truth = Truth { offset: offset.max(-(START as i64)), ppm };
        let (mut now, mut readings) = (START + SECOND, ClockReadings::default());
        for (pause, trips) in bursts {
            now += pause;
            let mut burst = Vec::new();
            for (out, back, queue) in trips {
                // One way in eight waits in a queue, one the other way.
                let (out, back) = (floor.0 + out + 2_000_000 * u64::from(queue == 0),
                                   floor.1 + back + 2_000_000 * u64::from(queue == 1));
                burst.push(truth.trip(now, out, back));
                now += out + back;
            }
            readings.add(&burst);
            let fit = readings.fit();
            prop_assert!(fit.is_ok(), "an even clock is not a jump: {fit:?}");
            let fit = fit.unwrap();
            let span = (fit.until_ns - fit.from_ns) as f64;
            for here in [fit.from_ns, fit.from_ns + (look * span) as u64, fit.until_ns, now, now + SECOND / 3,
                         now + (look * 1e10) as u64] {
                let error = truth.error(&fit, here);
                // Half a nanosecond each for what was rounded on the way.
                prop_assert!(error <= fit.residual_at(here) + 2.0, "{error} off at {here}: {fit:?}");
            }
        }
    }

    /// A jump larger than what the round trips leave open is never taken for a drift.
    #[test]
    fn jumps_are_told(jump in 600_000_i64..1_000_000_000_000, back in any::<bool>(), ppm in -100.0..100.0_f64,
                      way in 1_000_u64..20_000, seen in 1_usize..20) {
        let before = Truth { offset: 0, ppm };
        let after = Truth { offset: if back { -jump.min(SECOND as i64) } else { jump }, ppm };
        let mut readings = ClockReadings::default();
        for i in 0..seen as u64 {
            readings.add(&[before.trip(START + i * SECOND / 2, way, way)]);
            prop_assert!(readings.fit().is_ok());
        }
        readings.add(&[after.trip(START + seen as u64 * SECOND / 2, way, way)]);
        let jumped = matches!(readings.fit(), Err(ClockCaveat::Jumped { .. }));
        prop_assert!(jumped);
    }
}
