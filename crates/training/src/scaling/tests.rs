//! Efficiencies and hidden shares against numbers worked out by hand.

use record::{Case, TimeSummary};
use serde_json::json;
use terms::Status;

use super::*;

/// A line of a case that takes `time` seconds a step in eleven rounds, in which the machine is slower by up to a tenth.
fn line(ranks: u32, batch: f64, time: f64, more: &[(&str, bool)]) -> CaseLine {
    let mut parameters: record::SharedMap = serde_json::from_str(r#"{"model": "mlp"}"#).unwrap();
    parameters.insert("ranks", ranks.into());
    more.iter().for_each(|(name, value)| parameters.insert(*name, (*value).into()));
    let case = Case { id: format!("{ranks}"), ..Case::new("training", parameters) };
    let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
    line.time_s = Some(TimeSummary { median: time, ..TimeSummary::default() });
    line.trial_round = (0..11).collect();
    line.trial_median_s = (0..11).map(|round| time * (1.0 + 0.01 * f64::from(round * 7 % 11 - 5))).collect();
    line.metrics.insert("samples_per_s".to_owned(), (batch / time).into());
    let peak = f64::from(ranks) * if ranks == 1 { 100e9 } else { 90e9 };
    line.metrics.insert("mfu".to_owned(), json!({"peak_flops": peak}));
    line
}

fn relate(line: &CaseLine, before: &[CaseLine]) -> Map<String, Value> {
    let all: Vec<&CaseLine> = before.iter().chain([line]).collect();
    relations(line, &ScalingBaselines::from_lines(&all))
}

fn close(value: &Value, wanted: f64) {
    let value = value.as_f64().unwrap();
    assert!((value - wanted).abs() < 1e-9, "{value}, not {wanted}");
}

#[test]
fn weak_scaling_is_at_equal_batch_per_rank() {
    // 4 samples in 100 ms on one rank, 8 in 125 ms on two: T(2) = 64/s, 2 T(1) = 80/s.
    let found = relate(&line(2, 8.0, 0.125, &[]), &[line(1, 4.0, 0.1, &[])]);
    close(&found["efficiency"], 0.8);
    assert_eq!(found["scaling"]["kind"], "weak");
    assert_eq!(found["scaling"]["base_ranks"], 1);
    // What the machine does to both does not widen the interval.
    let [low, high] = [0, 1].map(|end| found["scaling"]["ci95"][end].as_f64().unwrap());
    assert!((low - 0.8).abs() < 1e-9 && (high - 0.8).abs() < 1e-9, "{low} {high}");
    close(&found["scaling"]["fma_scaling"], 0.9);
    close(&found["scaling"]["normalised"], 0.8 / 0.9);
    assert_eq!(found["scaling"].get("word"), None, "not above 80%");
}

#[test]
fn strong_scaling_is_at_equal_global_batch() {
    // t(1) 1 / (2 t(2)) = 100 / (2 x 54).
    let found = relate(&line(2, 4.0, 0.054, &[]), &[line(1, 4.0, 0.1, &[])]);
    close(&found["efficiency"], 100.0 / 108.0);
    assert_eq!((&found["scaling"]["kind"], &found["scaling"]["word"]), (&json!("strong"), &json!("excellent")));
    // Compared with the fewest ranks, not the nearest.
    let found = relate(&line(4, 16.0, 0.1, &[]), &[line(2, 8.0, 0.1, &[]), line(1, 4.0, 0.09, &[])]);
    assert_eq!(found["scaling"]["base_ranks"], 1);
    close(&found["efficiency"], 0.9);
    assert_eq!(found["scaling"]["word"], "good", "90% is not above 90%");
}

/// A line with so many samples on each replica, and what else the plan says in words.
fn replicas(ranks: u32, batch: u32, time: f64, more: &[(&str, &str)]) -> CaseLine {
    let mut line = line(ranks, f64::from(ranks * batch), time, &[]);
    line.parameters.insert("batch", batch.into());
    more.iter().for_each(|(name, value)| line.parameters.insert(*name, (*value).into()));
    line
}

#[test]
fn a_base_does_its_step_in_the_same_way() {
    let (off, on) = ([("overlap", false)], [("overlap", true)]);
    let two = [line(2, 8.0, 0.096, &off), line(2, 8.0, 0.08, &on)];
    // 80 ms on two ranks, 80 / 0.95 on four: against the slower base it would be 114%.
    let found = relate(&line(4, 16.0, 0.08 / 0.95, &on), &two);
    close(&found["efficiency"], 0.95);
    close(&relate(&line(4, 16.0, 0.12, &off), &two)["efficiency"], 0.8);
    let found = relate(&line(4, 16.0, 0.1, &on), &two[..1]);
    assert!(!found.contains_key("efficiency"), "no base with overlap: {found:?}");
    // Two parts of each layer exchange no gradients: the option means nothing there.
    let mut four = replicas(4, 4, 0.1, &[("mesh", "2x2x1")]);
    four.parameters.insert("overlap", true.into());
    let found = relate(&four, &[replicas(2, 8, 0.1, &[("mesh", "1x2x1")])]);
    assert_eq!(found["scaling"]["base_ranks"], 2);
}

#[test]
fn a_base_has_the_batch_that_the_plan_held() {
    let one = |batch, time| replicas(1, batch, time, &[]);
    // Weak scaling, in whatever order the batches were given.
    for bases in [[one(4, 0.05), one(8, 0.09)], [one(8, 0.09), one(4, 0.05)]] {
        let found = relate(&replicas(2, 8, 0.1, &[]), &bases);
        assert_eq!(found["scaling"]["kind"], "weak");
        close(&found["efficiency"], 0.9);
        // Two ranks' 8 samples are as many as those of one rank with a batch of 8, which the plan did not hold.
        let found = relate(&replicas(2, 4, 0.0625, &[]), &bases);
        assert_eq!(found["scaling"]["kind"], "weak");
        close(&found["efficiency"], 0.8);
    }
    // Strong scaling, where the plan gave the global batch.
    let given = |ranks, batch, time| replicas(ranks, batch, time, &[("global_batch", "8")]);
    let other = replicas(1, 4, 0.05, &[("global_batch", "4")]);
    let found = relate(&given(2, 4, 0.05), &[other, given(1, 8, 0.09)]);
    assert_eq!(found["scaling"]["kind"], "strong");
    close(&found["efficiency"], 0.9);
    // Without such a base, whatever can be compared.
    assert_eq!(relate(&replicas(2, 4, 0.05, &[]), &[one(8, 0.09)])["scaling"]["kind"], "strong");
}

#[test]
fn one_rank_is_the_base_of_every_strategy() {
    let with = |ranks, time, strategy: &str| {
        let mut line = line(ranks, 4.0, time, &[]);
        line.parameters.insert("strategy", strategy.into());
        line
    };
    let found = relate(&with(2, 0.08, "tensor"), &[with(1, 0.1, "data")]);
    close(&found["efficiency"], 0.625);
    assert!(relate(&with(4, 0.08, "tensor"), &[with(2, 0.1, "data")]).is_empty(), "two ranks divide in one way");
}

#[test]
fn what_cannot_be_compared_is_not() {
    assert!(relate(&line(2, 8.0, 0.1, &[("communicate", false)]), &[line(1, 4.0, 0.1, &[])]).is_empty());
    assert!(relate(&line(2, 6.0, 0.1, &[]), &[line(1, 4.0, 0.1, &[])]).is_empty(), "neither batch is held");
    assert!(relate(&line(2, 8.0, 0.1, &[]), &[line(2, 8.0, 0.1, &[]), line(4, 8.0, 0.1, &[])]).is_empty(), "no base");
    assert!(relate(&line(2, 8.0, 0.1, &[("recompute", true)]), &[line(1, 4.0, 0.1, &[])]).is_empty(), "another case");
}

#[test]
fn words_are_those_of_the_low_end() {
    // 91% on the median, with rounds from 86% to 96%: not surely above 90%.
    let mut two = line(2, 8.0, 0.1 / 0.91, &[]);
    let one = line(1, 4.0, 0.1, &[]);
    for (place, time) in two.trial_median_s.iter_mut().enumerate() {
        *time *= 1.0 + 0.01 * (place as f64 - 5.0);
    }
    let found = relate(&two, std::slice::from_ref(&one));
    assert!((found["efficiency"].as_f64().unwrap() - 0.91).abs() < 1e-3, "{found:?}");
    assert_eq!(found["scaling"]["word"], "good", "{:?}", found["scaling"]);
    // Five rounds have no interval, and no word.
    two.trial_round.truncate(5);
    let found = relate(&two, &[one]);
    assert_eq!((found["scaling"].get("ci95"), found["scaling"].get("word")), (None, None));
}

#[test]
fn runs_that_share_no_round_are_compared_by_what_equal_runs_would_show() {
    let (mut two, mut one) = (line(2, 8.0, 0.125, &[]), line(1, 4.0, 0.1, &[]));
    two.trial_round = (11..22).collect();
    assert!(relate(&two, std::slice::from_ref(&one))["scaling"].get("ci95").is_none());
    for line in [&mut two, &mut one] {
        let time = line.time_s.as_mut().unwrap();
        time.ci95_again = Some([time.median * 0.99, time.median * 1.01]);
    }
    let found = relate(&two, &[one]);
    // By quadrature: 80% x exp(+-sqrt(2) x 1%), nearly.
    let [low, high] = [0, 1].map(|end| found["scaling"]["ci95"][end].as_f64().unwrap());
    assert!((0.788..0.790).contains(&low) && (0.810..0.812).contains(&high), "{low} {high}");
}

#[test]
fn hidden_is_told_by_three_times() {
    let on = line(2, 8.0, 0.110, &[("overlap", true)]);
    let off = line(2, 8.0, 0.150, &[("overlap", false)]);
    let without = line(2, 8.0, 0.100, &[("overlap", false), ("communicate", false)]);
    let found = relate(&on, &[without.clone(), off.clone()]);
    close(&found["overlapped"]["share"], 0.8);
    close(&found["overlapped"]["nocomm_s"], 0.1);
    // What the machine does to all three does not widen the interval.
    close(&found["overlapped"]["ci95"][0], 0.8);
    close(&found["overlapped"]["ci95"][1], 0.8);
    // The three times of each round, and not three medians: in most rounds nearly all of it is hidden.
    let mut uneven = on.clone();
    for (place, time) in uneven.trial_median_s.iter_mut().enumerate() {
        *time = off.trial_median_s[place] - (off.trial_median_s[place] - without.trial_median_s[place]) * 0.9;
    }
    (0..5).for_each(|place| uneven.trial_median_s[place] = 0.2);
    close(&relate(&uneven, &[without.clone(), off.clone()])["overlapped"]["share"], 0.9);
    assert!(!relate(&on, std::slice::from_ref(&off)).contains_key("overlapped"), "two times tell nothing");
    assert!(!relate(&off, &[without, on.clone()]).contains_key("overlapped"), "said once, where overlap is on");
    // Communication that costs nothing in about half of the rounds.
    let mut cheap = line(2, 8.0, 0.150, &[("overlap", false), ("communicate", false)]);
    let change = |(round, time): (usize, &mut f64)| *time *= if round % 2 == 0 { 1.01 } else { 0.99 };
    cheap.trial_median_s.iter_mut().enumerate().for_each(change);
    let found = relate(&on, &[cheap, off]);
    assert_eq!(found["overlapped"].get("share"), None);
    assert_eq!(found["overlapped"]["nothing_to_overlap"], true);
}

#[test]
fn communication_that_takes_longer_than_computation_is_the_bound() {
    let mut line = line(2, 8.0, 1.0, &[]);
    let with = |line: &mut CaseLine, communication: f64| {
        let phases = json!({"forward": 0.2, "backward": 0.3, "optimizer": 0.1, "communication": communication});
        line.metrics.insert("phases_s".to_owned(), phases);
    };
    with(&mut line, 0.7);
    assert!(!relate(&line, &[]).contains_key("roofline"), "no profile, no place in a roofline");
    line.metrics.insert("roofline".to_owned(), json!({"bound": "compute", "share": 0.5}));
    assert_eq!(relate(&line, &[])["roofline"], json!({"bound": "communication", "share": 0.5}));
    let mut stages = line.clone();
    stages.parameters.insert("mesh", "1x1x2".into());
    assert!(!relate(&stages, &[]).contains_key("roofline"), "stages wait for their turns");
    with(&mut line, 0.5);
    assert!(!relate(&line, &[]).contains_key("roofline"), "computation is the bound, as it was");
}
