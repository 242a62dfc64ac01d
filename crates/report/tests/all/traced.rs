//! Invented explanations of traces: three steps of four ranks. Rank 2 computes longer than the others.

use record::{Blame, Explained, ExplainedCase, ExplainedFinding, ExplainedTable, Lane, Lanes, Phases, Waterfall};
use serde_json::json;

/// Seconds of forward and backward pass of each rank.
const COMPUTE: [[f64; 2]; 4] = [[0.020, 0.038], [0.021, 0.040], [0.031, 0.058], [0.020, 0.039]];
/// Seconds of an all-reduce and of the optimizer, in all ranks.
const COMMON: [f64; 2] = [0.012, 0.006];
const STEPS: usize = 3;

/// When a step begins if the slowest rank sets the pace.
fn begin(step: usize) -> f64 {
    let slowest = COMPUTE.iter().map(|[forward, backward]| forward + backward).fold(0.0, f64::max);
    step as f64 * (slowest + COMMON[0] + COMMON[1])
}

fn spans(rank: usize) -> Vec<(f64, f64, usize)> {
    let [forward, backward] = COMPUTE[rank];
    let mut spans = Vec::new();
    for step in 0..STEPS {
        let (from, next) = (begin(step), begin(step + 1));
        let reduce = next - COMMON[0] - COMMON[1];
        spans.push((from, from + forward, 0));
        spans.push((from + forward, from + forward + backward, 1));
        if from + forward + backward < reduce - 1e-9 {
            spans.push((from + forward + backward, reduce, 4));
        }
        spans.push((reduce, reduce + COMMON[0], 2));
        spans.push((reduce + COMMON[0], next, 3));
    }
    spans
}

fn finding(what: &str, evidence: &str, confidence: &str, action: &str, seconds: f64) -> ExplainedFinding {
    let [what, evidence, confidence, action] = [what, evidence, confidence, action].map(str::to_owned);
    ExplainedFinding { what, evidence, confidence, action, seconds, share: None, without: None }
}

fn tables(ranks: &[String]) -> Vec<ExplainedTable> {
    let row = |(rank, [forward, backward]): (&String, &[f64; 2])| {
        vec![
            json!(rank),
            json!(forward + backward),
            json!((0.089 - forward - backward).max(0.0)),
            json!((forward + backward) / 0.107),
        ]
    };
    let kernels = [("gemm", 24, 0.0412, 412_876_800u64), ("all_reduce", 3, 0.036, 100_663_296), ("adam", 3, 0.018, 0)];
    let kernel = |(name, calls, seconds, bytes): (&str, u32, f64, u64)| {
        vec![json!(name), json!(calls), json!(seconds), if bytes == 0 { json!(null) } else { json!(bytes) }]
    };
    let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    vec![
        ExplainedTable {
            name: "ranks".into(),
            title: "Time of one step by rank".into(),
            columns: columns(&["rank", "compute, s", "wait, s", "compute share"]),
            rows: ranks.iter().zip(&COMPUTE).map(row).collect(),
        },
        ExplainedTable {
            name: "kernels".into(),
            title: "Operations of the slowest rank".into(),
            columns: columns(&["operation", "calls", "total, s", "bytes"]),
            rows: kernels.into_iter().map(kernel).collect(),
        },
    ]
}

/// What the traces of this case showed.
pub(crate) fn explained(case: &str) -> Explained {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
    let ranks = texts(&["rank 0", "rank 1", "rank 2", "rank 3"]);
    let phases =
        COMPUTE.map(|[forward, backward]| vec![forward, backward, COMMON[0], COMMON[1], 0.089 - forward - backward]);
    let kinds = texts(&["forward", "backward", "all_reduce", "optimizer", "wait"]);
    let lanes = ranks.iter().enumerate().map(|(rank, label)| Lane { label: label.clone(), spans: spans(rank) });
    let findings = vec![
        finding(
            "Rank 2 computes 1.5x as long as the median rank",
            "89.0 ms a step; the other ranks take 58.0 ms to 61.0 ms, and wait for it.",
            "high (3 of 3 steps)",
            "Check its core: other load, a lower clock, or a different binding.",
            0.028,
        ),
        finding(
            "The all_reduce does not overlap with the backward pass",
            "It takes 12.0 ms of each step, and all of it is exposed.",
            "high",
            "Start it for each bucket as soon as its gradients are there.",
            0.009,
        ),
        finding("The optimizer takes 6% of a step", "6.00 ms of 107 ms.", "medium", "Fuse its loops.", 0.0),
        finding("A fourth finding", "", "low", "", 0.0),
    ];
    let waterfall = Waterfall {
        title: "From ideal to measured efficiency".into(),
        from: ("ideal".into(), 1.0),
        terms: vec![
            ("ranks wait for rank 2".into(), -0.271),
            ("exposed communication".into(), -0.112),
            ("optimizer, once for all ranks".into(), -0.056),
            ("larger caches of four ranks".into(), 0.034),
        ],
        to: ("measured".into(), 0.595),
        without: texts(&["Without slow rank 2 a step would take 79.0 ms instead of 107 ms (76.0 ms to 82.0 ms)."]),
    };
    let wait = |rank: usize| 0.089 - COMPUTE[rank].iter().sum::<f64>();
    let blame = (0..4).map(|rank| (0..4).map(|other| if other == 2 { wait(rank).max(0.0) } else { 0.0 }).collect());
    let case = ExplainedCase {
        case: case.to_owned(),
        title: "gpt2_small, data, 4 ranks".into(),
        verdict: "Rank 2 limits the steps: the others wait 28 ms of 107 ms for it.".into(),
        findings,
        notes: texts(&["3 steps were traced; tracing made them 1.2% longer."]),
        tables: tables(&ranks),
        lanes: Some(Lanes { title: "Three steps of all ranks".into(), kinds: kinds.clone(), lanes: lanes.collect() }),
        phases: Some(Phases {
            title: "Phases of a step for each rank".into(),
            kinds,
            ranks: ranks.iter().cloned().zip(phases).collect(),
        }),
        waterfall: Some(waterfall),
        blame: Some(Blame { title: "How long ranks wait for others".into(), ranks, seconds: blame.collect() }),
        analysis: json!(null),
    };
    Explained { cases: vec![case], ..Explained::default() }
}
