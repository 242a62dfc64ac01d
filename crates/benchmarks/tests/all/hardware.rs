//! The machine's own tests: what they measure is checked, a slow rank is named, and a profile comes out.

use record::{CaseLine, Ceiling, CeilingKind, Plan, Profile};
use serde_json::Value;
use terms::Status;

use crate::plans;

fn plan(entry: &str) -> Plan {
    let sampling = "trials: 1, warmup: 0, iters: 3";
    let text = format!("experiment: test\ncases:\n  - {{benchmark: hardware, {sampling}, {entry}}}\n");
    let plan = record::plan::read(&text, "test.yaml", &benchmarks::abouts(), &[]);
    let mut plan = plan.unwrap_or_else(|errors| panic!("{errors}"));
    benchmarks::complete(&mut plan);
    plan
}

fn measured(entry: &str) -> Vec<CaseLine> {
    let lines = plans::run(&plan(entry)).lines;
    for line in &lines {
        assert_eq!((line.status, line.wrong), (Status::Ok, Some(0)), "{:?}: {:?}", line.parameters, line.reason);
    }
    lines
}

fn ceiling(line: &CaseLine) -> Ceiling {
    serde_json::from_value(line.metrics["ceiling"].clone()).unwrap()
}

#[test]
fn loops_and_products_give_ceilings() {
    let line = measured("test: triad, bytes: 24KiB, threads: 2").remove(0);
    let found = ceiling(&line);
    assert_eq!((found.kind, found.threads, found.bytes), (CeilingKind::Memory, 2, Some(24 << 10)));
    let time = line.time_s.as_ref().unwrap().median;
    assert!((found.rate / (24.0 * 1024.0 / time) - 1.0).abs() < 1e-9, "{found:?}: each word counts once");
    for dtype in ["f32", "f64", "bf16", "f16"] {
        let fma = measured(&format!("test: fma, dtype: {dtype}, threads: 1")).remove(0);
        let gemm = measured(&format!("test: gemm, dtype: {dtype}, size: 96, threads: 1")).remove(0);
        let [peak, product] = [&fma, &gemm].map(ceiling);
        assert_eq!((peak.dtype.as_deref(), product.kind), (Some(dtype), CeilingKind::Compute));
        let flops = product.rate * gemm.time_s.as_ref().unwrap().median;
        assert!((flops / (2.0 * 96f64.powi(3)) - 1.0).abs() < 1e-9, "{dtype}: {flops} operations");
        assert!(!gemm.metrics["loop"].as_str().unwrap().is_empty());
    }
}

#[test]
fn every_pair_is_in_the_matrix_and_each_way_is_the_same() {
    for (test, ranks) in [("latency", 2), ("bandwidth", 3), ("both_ways", 5), ("latency", 4)] {
        let line = measured(&format!("test: {test}, ranks: {ranks}, bytes: 4KiB, backend: reference")).remove(0);
        let matrix: Vec<Vec<Option<f64>>> = serde_json::from_value(line.metrics["pair_s"].clone()).unwrap();
        assert_eq!(matrix.len(), ranks);
        for (row, times) in matrix.iter().enumerate() {
            for (column, time) in times.iter().enumerate() {
                assert_eq!(time.is_some(), row != column, "{test}: {matrix:?}");
                assert_eq!(*time, matrix[column][row]);
            }
        }
        let pairs = &line.metrics["pairs"];
        // Fewer than four ranks cannot tell; more say how slow a rank would have to be, and cannot tell only above that.
        let (slow, least) = (pairs["slow"].as_str().unwrap(), pairs["least_factor"].as_f64());
        assert!(ranks >= 4 || (slow == "cannot tell" && least.is_none()), "{pairs}");
        assert!(ranks < 4 || slow != "cannot tell" || least > Some(2.0), "{pairs}");
        assert!(slow != "none" || least.is_some_and(|least| (1.2..=2.0).contains(&least)), "{pairs}");
    }
}

#[test]
fn a_slow_rank_is_named() {
    let line = measured("test: latency, ranks: 5, backend: reference, inject: ['delay:rank=3,time=20ms']").remove(0);
    let slow = &line.metrics["pairs"]["slow_ranks"];
    let ranks: Vec<u64> = slow.as_array().unwrap().iter().filter_map(|entry| entry["rank"].as_u64()).collect();
    // Beside other work another rank may be slow, too, and nowhere near 20 ms.
    assert_eq!(ranks.first(), Some(&3), "{slow}");
    let factors: Vec<f64> = slow.as_array().unwrap().iter().filter_map(|entry| entry["factor"].as_f64()).collect();
    assert!(factors[0] > 2.0 && factors[1..].iter().all(|factor| 2.0 * factor < factors[0]), "{slow}");
}

#[test]
fn a_wrong_message_is_seen() {
    let outcome = plans::run(&plan("test: bandwidth, ranks: 2, bytes: 64KiB, inject: ['wrong:rank=1,element=9']"));
    let line = &outcome.lines[0];
    assert_eq!(line.status, Status::Failed, "{:?}", line.reason);
    assert!(line.wrong.unwrap() >= 1);
    assert!(!line.metrics.contains_key("ceiling"), "wrong data has no rate: {:?}", line.metrics);
}

#[test]
fn storage_is_read_and_leaves_nothing() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = folder.path().display();
    let outcome = plans::run(&plan(&format!("test: storage_read, bytes: 4MiB, path: '{path}'")));
    let line = &outcome.lines[0];
    match line.status {
        Status::Ok => assert_eq!((line.wrong, &line.metrics["cache"]), (Some(0), &Value::from("cold"))),
        // A file system in memory cannot be measured, and says so.
        _ => assert!(line.reason.as_ref().unwrap().contains("keeps files in memory"), "{:?}", line.reason),
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_product_lies_below_the_ceilings_of_its_own_run() {
    let mut plan = plan("test: gemm, size: 128, threads: 1, dtype: f32");
    plan.cases.extend(self::plan("test: fma, dtype: f32, threads: 1").cases);
    plan.cases.extend(self::plan("test: triad, bytes: 192KiB, threads: 1").cases);
    let lines = plans::run(&plan).lines;
    let placed = &lines[0].metrics["roofline"];
    let number = |name: &str| placed[name].as_f64().unwrap();
    assert!((number("intensity") - 2.0 * 128.0 / 12.0).abs() < 1e-9, "2 n^3 operations on 3 n^2 numbers of 4 bytes");
    assert!(number("share") > 0.0 && number("roof_gflops") > 0.0, "{placed}");
    let ceilings = Profile::ceilings(&lines);
    assert_eq!(ceilings.len(), 3, "{ceilings:?}");
}
