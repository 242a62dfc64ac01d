//! Efficiencies and hidden shares against numbers worked out by hand.

use measure::Launch;
use record::{Case, TimeSummary};
use terms::Status;

use super::*;

/// A line of a case that takes `time` seconds a step at 1% to each side.
fn line(ranks: u32, batch: f64, time: f64, more: &[(&str, bool)]) -> CaseLine {
    let mut parameters: Map<String, Value> = serde_json::from_str(r#"{"model": "mlp"}"#).unwrap();
    parameters.insert("ranks".to_owned(), ranks.into());
    more.iter().for_each(|(name, value)| drop(parameters.insert((*name).to_owned(), (*value).into())));
    let case = Case {
        id: format!("{ranks}"),
        benchmark: "training".to_owned(),
        parameters,
        settings: Map::new(),
        world: Map::new(),
        caveats: Vec::new(),
        bytes_requested: None,
        skip: None,
    };
    let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
    let ci95 = [time * 0.99, time * 1.01];
    line.time_s =
        Some(TimeSummary { median: time, ci95, p05: time, p50: time, p95: time, p99: time, min: time, max: time });
    line.metrics.insert("samples_per_s".to_owned(), (batch / time).into());
    let peak = f64::from(ranks) * if ranks == 1 { 100e9 } else { 90e9 };
    line.metrics.insert("mfu".to_owned(), json!({"peak_flops": peak}));
    line
}

fn relate(line: &CaseLine, before: &[CaseLine]) -> Map<String, Value> {
    let before: Vec<Done> = before.iter().map(|line| Done { line, launches: &[] }).collect();
    relations(&Done { line, launches: &[] }, &before)
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
    // By quadrature: 80% x exp(+-sqrt(2) x 1%), nearly.
    let [low, high] = [0, 1].map(|end| found["scaling"]["ci95"][end].as_f64().unwrap());
    assert!((0.788..0.790).contains(&low) && (0.810..0.812).contains(&high), "{low} {high}");
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
    // Held against the fewest ranks, not the nearest.
    let found = relate(&line(4, 16.0, 0.1, &[]), &[line(2, 8.0, 0.1, &[]), line(1, 4.0, 0.09, &[])]);
    assert_eq!(found["scaling"]["base_ranks"], 1);
    close(&found["efficiency"], 0.9);
    assert_eq!(found["scaling"]["word"], "good", "90% is not above 90%");
}

#[test]
fn one_rank_is_the_base_of_every_strategy() {
    let with = |ranks, time, strategy: &str| {
        let mut line = line(ranks, 4.0, time, &[]);
        line.parameters.insert("strategy".to_owned(), strategy.into());
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
fn intervals_come_from_samples_where_there_are_some() {
    let launch = |ns: u64| {
        let series: Vec<u64> = (0..100).map(|i| ns + i * 37 % 1000 * ns / 100_000).collect();
        [Launch { samples: vec![series], calls: 1, ..Launch::default() }]
    };
    let (of_two, of_one) = (launch(125_000_000), launch(100_000_000));
    let (two, one) = (line(2, 8.0, 0.125, &[]), line(1, 4.0, 0.1, &[]));
    let before = [Done { line: &one, launches: &of_one }];
    let found = relations(&Done { line: &two, launches: &of_two }, &before);
    let [low, high] = [0, 1].map(|end| found["scaling"]["ci95"][end].as_f64().unwrap());
    assert!(low < 0.8 && 0.8 < high && high - low < 0.01, "{low} {high}: narrower than the lines' own intervals");
}

#[test]
fn hidden_is_told_by_three_times() {
    let on = line(2, 8.0, 0.110, &[("overlap", true)]);
    let off = line(2, 8.0, 0.150, &[("overlap", false)]);
    let without = line(2, 8.0, 0.100, &[("overlap", false), ("communicate", false)]);
    let found = relate(&on, &[without.clone(), off.clone()]);
    close(&found["hidden"]["share"], 0.8);
    close(&found["hidden"]["nocomm_s"], 0.1);
    assert!(!relate(&on, std::slice::from_ref(&off)).contains_key("hidden"), "two times tell nothing");
    assert!(!relate(&off, &[without, on.clone()]).contains_key("hidden"), "said once, where overlap is on");
    // Communication that costs less than the intervals are wide.
    let cheap = line(2, 8.0, 0.1495, &[("overlap", false), ("communicate", false)]);
    let found = relate(&on, &[cheap, off]);
    assert_eq!(found["hidden"].get("share"), None);
    assert_eq!(found["hidden"]["nothing_to_hide"], true);
}
