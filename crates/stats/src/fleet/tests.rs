//! Fleets of known members: how often healthy ones are named, and which slow ones are found.

use super::*;
use crate::samples::{Marginal, Situation, StationarySeries};

/// Logarithms with this deviation.
fn draw(members: usize, deviation: f64, seed: u64) -> Vec<Member> {
    let mut series =
        StationarySeries::new(Situation { phi: 0.0, marginal: Marginal::Lognormal, noise: deviation }, seed);
    series.extend(members);
    series.samples.iter().map(|sample| Member { value: sample.ln(), variance: 0.0, degrees: 0.0 }).collect()
}

fn slow(members: &[Member], level: f64) -> Vec<usize> {
    let judged = fleet(members, level).unwrap();
    (0..members.len()).filter(|at| judged.standings[*at].slow).collect()
}

#[test]
fn critical_values_are_those_of_rosner() {
    // Rosner (1983), table 3: n = 25, 5%, first and tenth step; NIST's handbook, 1.3.5.17.3, n = 54.
    assert!((critical(25, 0.05) - 2.82).abs() < 0.01, "{}", critical(25, 0.05));
    assert!((critical(16, 0.05) - 2.59).abs() < 0.01, "{}", critical(16, 0.05));
    assert!((critical(54, 0.05) - 3.158).abs() < 0.001, "{}", critical(54, 0.05));
}

#[test]
fn healthy_fleets_raise_at_most_one_alarm_in_a_hundred() {
    for (members, fleets) in [(5, 2000), (8, 2000), (32, 1000), (256, 300)] {
        let alarms = (0..fleets).filter(|seed| !slow(&draw(members, 0.02, 7 + seed), 0.01).is_empty()).count();
        // Three standard errors above 1%.
        let expected = 0.01 * fleets as f64;
        assert!(alarms as f64 <= expected + 3.0 * expected.sqrt(), "{members} members: {alarms} of {fleets}");
    }
}

#[test]
fn a_third_of_slow_members_is_found_and_does_not_hide_itself() {
    for members in [9, 30, 300] {
        let mut all = draw(members, 0.004, 3);
        let bad = members / 3;
        all.iter_mut().take(bad).for_each(|member| member.value += 1.06f64.ln());
        assert_eq!(slow(&all, 0.01), (0..bad).collect::<Vec<_>>(), "{members} members");
        let judged = fleet(&all, 0.01).unwrap();
        assert_eq!(judged.level.members, members - bad);
        let first = &judged.standings[0];
        assert!(first.interval[0] < 1.06f64.ln() && 1.06f64.ln() < first.interval[1], "{first:?}");
    }
}

#[test]
fn what_is_fast_is_not_slow_and_takes_no_part_in_the_level() {
    let mut all = draw(30, 0.004, 5);
    all[3].value -= 0.5;
    assert_eq!(slow(&all, 0.01), Vec::<usize>::new());
    assert_eq!(fleet(&all, 0.01).unwrap().level.members, 29);
    all[9].value += 0.05;
    assert_eq!(slow(&all, 0.01), [9]);
}

#[test]
fn a_small_deficit_is_not_named_however_certain() {
    let mut all: Vec<Member> = (0..40).map(|_| Member { value: 1.0, variance: 0.0, degrees: 0.0 }).collect();
    all[7].value += 0.015;
    assert_eq!(slow(&all, 0.01), Vec::<usize>::new());
    all[7].value += 0.01;
    assert_eq!(slow(&all, 0.01), [7]);
}

#[test]
fn a_member_whose_own_trials_vary_is_not_judged_by_those_of_others() {
    let mut all = draw(30, 0.004, 5);
    all.iter_mut().for_each(|member| member.variance = 1e-6);
    all[7].value += 0.06;
    all[7].variance = 0.04f64.powi(2);
    let judged = fleet(&all, 0.01).unwrap();
    assert!(!judged.standings[7].slow && judged.standings[7].unsettled, "{:?}", judged.standings[7]);
    all[7].variance = 1e-6;
    assert_eq!(slow(&all, 0.01), [7]);
}

#[test]
fn the_smallest_deviation_is_found_in_nine_of_ten_fleets() {
    for members in [8, 64] {
        let tries = 400;
        let found = (0..tries)
            .filter(|seed| {
                let mut all = draw(members, 0.02, 1_000 + seed);
                let healthy = fleet(&all, 0.01).unwrap();
                all[0].value = healthy.level.centre + draw(1, 0.02, 9_000 + seed)[0].value + healthy.smallest;
                slow(&all, 0.01) == [0]
            })
            .count();
        assert!((0.84..=0.96).contains(&(found as f64 / tries as f64)), "{members} members: {found} of {tries}");
    }
}

#[test]
fn a_newcomer_is_judged_by_what_was_learned() {
    let level = fleet(&draw(64, 0.01, 1), 0.01).unwrap().level;
    let judged =
        |ratio: f64| level.judge(&Member { value: level.centre + ratio.ln(), variance: 0.0, degrees: 0.0 }, 0.01);
    assert!(judged(1.05).slow && !judged(1.01).slow && !judged(0.9).slow);
}

#[test]
fn few_members_and_impossible_values_tell_nothing() {
    assert_eq!(fleet(&draw(4, 0.01, 1), 0.01), None);
    for value in [f64::NAN, f64::INFINITY] {
        let mut all = draw(9, 0.01, 1);
        all[2].value = value;
        assert_eq!(fleet(&all, 0.01), None);
    }
}
