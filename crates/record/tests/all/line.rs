//! The case line's text.

use record::{Case, CaseLine, plan};
use terms::Status;

use crate::table::{TABLE, pairs};

/// The line that the design shows.
pub(crate) const DESIGN: &str = r#"{"schema":1,"id":"9f2c1ab04d77","benchmark":"collective","parameters":{"op":"all_reduce","ranks":2,"backend":"shm","device":"cpu","dtype":"f32","reduce":"sum","bytes":1048576,"in_place":true,"buffers":"registered","touch":false,"mode":"streaming","seed":1},"status":"ok","ranks":2,"runtime":"native","backend":"shm","device":"cpu","dtype":"f32","mode":"streaming","bytes":1048576,"bytes_requested":1048576,"samples":640,"calls_per_sample":2,"trials":6,"span_s":8.4,"worlds":"fresh","time_s":{"median":1.5e-5,"ci95":[1.48e-5,1.52e-5],"ci95_again":[1.45e-5,1.55e-5],"mean":1.6e-5,"p05":1.4e-5,"p50":1.5e-5,"p95":1.9e-5,"p99":2.4e-5,"min":1.3e-5,"max":4.1e-5},"per_rank_median_s":[1.49e-5,1.5e-5],"trial_median_s":[1.5e-5,1.48e-5,1.5e-5,1.52e-5,1.5e-5,1.5e-5],"trial_round":[0,1,2,3,4,5],"limit":{"variant":"plain","time_s":1.2e-5,"ci95":[1.19e-5,1.22e-5],"share":0.81,"share_ci95":[0.8,0.82]},"algbw_gbs":69.9,"busbw_gbs":69.9,"limit_share":0.81,"wrong":0,"caveats":[],"simulated":false}"#;

#[test]
fn the_designs_line_reads_and_writes_to_the_same_text() {
    let line: CaseLine = serde_json::from_str(DESIGN).unwrap();
    assert_eq!(record::to_json(&line).unwrap(), DESIGN);
    assert_eq!((line.metric("busbw_gbs"), line.metrics.len()), (Some(69.9), 3));
}

#[test]
fn every_number_survives() {
    // The shortest text of each must read back to the same bits; serde_json's quick float parser is off by one ulp.
    let mut line: CaseLine = serde_json::from_str(DESIGN).unwrap();
    let mut bits: u64 = 0x3ee0_0000_dead_beef;
    for _ in 0..20_000 {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let value = f64::from_bits((bits >> 12) | 0x3e90_0000_0000_0000);
        line.time_s.as_mut().unwrap().median = value;
        let back: CaseLine = serde_json::from_str(&record::to_json(&line).unwrap()).unwrap();
        assert_eq!(back.time_s.unwrap().median.to_bits(), value.to_bits());
    }
}

#[test]
fn an_unmeasured_case_says_why_and_nothing_else() {
    let given = pairs(&[("op", "barrier"), ("ranks", "3")]);
    let case: Case = plan::from_flags(TABLE[0], &given, &[]).unwrap().cases.remove(0);
    let line = CaseLine::unmeasured(&case, Status::Skipped, "no such backend here");
    let text = record::to_json(&line).unwrap();
    assert!(
        text.contains(r#""status":"skipped","reason":"no such backend here","ranks":3,"runtime":"native""#),
        "{text}"
    );
    assert!(!text.contains("null") && !text.contains("time_s") && !text.contains("wrong"), "{text}");
}
