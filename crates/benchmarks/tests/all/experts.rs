//! Expert parallelism: tokens go to several experts a rank and come back, by every implementation, under every load; and a
//! token that goes elsewhere is seen.

use std::sync::Arc;

use comm::{Call, Communicator};
use device::Slice;
use record::{Case, CaseLine};
use terms::Collective;

use crate::primitive::{all_right, plan};
use crate::skip;
use crate::worlds::{Instead, Wrap, Wrapped};

const K: usize = 24;
const N: usize = 10;

#[test]
fn every_way_brings_each_token_to_its_experts_and_back() {
    let shapes = [(3, 33, 12, 8), (2, 48, 4, 2), (1, 20, 4, 2), (2, 6, 16, 3), (3, 9, 3, 1)];
    let loads = ["zipf:exponent=1.2", "hot:share=90%", "uniform", "skewed"];
    let all = skip::heavy("expert parallelism of every shape under every load");
    for (number, (ranks, m, experts, top_k)) in shapes.into_iter().enumerate() {
        for tokens in loads.into_iter().skip(if all { 0 } else { number }).take(if all { 4 } else { 1 }) {
            let entry = format!(
                "primitive: ep_all_to_all, m: {m}, n: {N}, k: {K}, ranks: {ranks}, experts: {experts}, top_k: {top_k}, \
                 tokens: '{tokens}', backend: shm"
            );
            assert_eq!(all_right(&entry, 0).len(), 7, "{entry}");
        }
    }
}

#[test]
fn every_element_type_and_number_of_chunks_and_threads_is_right() {
    let sizes = format!("m: 60, n: 130, k: {K}, ranks: 2, experts: 8, top_k: 3, tokens: zipf");
    let some = "implementation: [compute_only, combine_only, sequential]";
    for dtype in ["bf16", "f16", "f64"] {
        all_right(&format!("primitive: ep_all_to_all, {sizes}, dtype: {dtype}, threads: 2, {some}"), 0);
    }
    let chunks = "implementation: [{pipelined: {chunks: [2, 7, 64]}}]";
    all_right(&format!("primitive: ep_all_to_all, {sizes}, {chunks}"), 0);
}

#[test]
fn counts_of_a_file_are_what_experts_get() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counts.json");
    std::fs::write(&file, "[30, 7, 23, 0]").unwrap();
    let entry = format!(
        "primitive: ep_all_to_all, m: 30, n: {N}, k: {K}, ranks: 2, experts: 4, top_k: 2, tokens: file, tokens_file: {}",
        file.display()
    );
    let lines = all_right(&entry, 0);
    let metric = |line: &CaseLine, name: &str| line.metrics.get(name).and_then(serde_json::Value::as_f64).unwrap();
    for line in &lines {
        let whole = line.parameters["implementation"] == "compute_only:size=unsharded";
        // 37 of 60 copies come to rank 0, and 30 of 60 to the first of four experts.
        assert_eq!(metric(line, "rank_imbalance"), if whole { 1.0 } else { 37.0 / 30.0 });
        assert_eq!(metric(line, "expert_imbalance"), 2.0);
        assert!(line.parameters["tokens_sha256"].is_string());
    }
    // The rank that gets most multiplies 37 rows, and all ranks together 60.
    let line = lines.iter().find(|line| line.parameters["implementation"] == "sequential").unwrap();
    let share = metric(line, "tflops_per_rank") / metric(line, "tflops");
    assert!((share - 37.0 / 60.0).abs() < 1e-12, "{share}");
}

/// The times of the parts stand beside those of the whole.
#[test]
fn dispatch_and_combine_have_times_of_their_own() {
    let lines = all_right("primitive: ep_all_to_all, m: 64, n: 8, k: 16, ranks: 2, experts: 4, top_k: 2", 0);
    let line = |name: &str| lines.iter().find(|line| line.parameters["implementation"] == name).unwrap();
    let median = |name: &str| line(name).time_s.as_ref().unwrap().median;
    let overlap = &line("sequential").metrics["overlap"];
    assert_eq!(overlap["dispatch_s"], median("dispatch_only"));
    assert_eq!(overlap["combine_s"], median("combine_only"));
    assert_eq!(overlap["compute_s"], median("compute_only:size=sharded"));
    assert!(
        line("dispatch_only").metrics.get("tflops").is_none() && line("dispatch_only").metrics.get("overlap").is_none()
    );
}

/// What is done wrong with the tokens that a rank sends, or with the results that it sends back.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Two tokens that go to the same expert are exchanged.
    SwapTokens,
    /// A copy of a token is sent in the place of another.
    DropCopy,
    /// Two tokens go to each other's expert, of the same rank.
    OtherExpert,
    /// Two tokens go to each other's rank.
    OtherRank,
}

impl Fault {
    /// Two rows among the 64 that a rank sends, 16 to each of four experts.
    fn rows(self) -> [usize; 2] {
        match self {
            Self::SwapTokens => [32, 33],
            Self::DropCopy => [5, 6],
            Self::OtherExpert => [32, 48],
            Self::OtherRank => [0, 63],
        }
    }

    fn commit(self, rows: &Slice, width: usize) {
        let [one, other] = self.rows().map(|row| rows.slice(row * width, width).unwrap());
        // SAFETY: two rows of this rank's input, which no operation uses.
        unsafe {
            match self {
                Self::DropCopy => std::ptr::copy_nonoverlapping(other.ptr(), one.ptr(), width),
                _ => std::ptr::swap_nonoverlapping(one.ptr(), other.ptr(), width),
            }
        }
    }
}

/// Rank 0 does something wrong before it exchanges rows of this width.
fn wrong(fault: Fault, width: usize) -> Wrap {
    Arc::new(move |rank, inner| {
        Instead::boxed(inner, move |inner: &mut dyn Communicator, call: &Call| {
            let is_exchange = matches!(call.op, Collective::AllToAll | Collective::AllToAllV);
            if rank == 0 && is_exchange && call.input.len() == 64 * width * 4 {
                fault.commit(&call.input, width * 4);
            }
            inner.run(call)
        })
    })
}

fn cases(implementations: &str) -> Vec<Case> {
    let sizes = format!("m: 64, n: {N}, k: {K}, ranks: 2, experts: 4, top_k: 2, backend: shm");
    plan(&format!("primitive: ep_all_to_all, {sizes}, implementation: [{implementations}]")).cases
}

fn found(case: &Case, wrap: Wrap) -> CaseLine {
    Wrapped::start("shm", 2, wrap).trial(case).1
}

#[test]
fn a_token_that_goes_elsewhere_is_seen_where_it_arrives_and_in_the_result() {
    for fault in [Fault::SwapTokens, Fault::DropCopy, Fault::OtherExpert, Fault::OtherRank] {
        for case in cases("dispatch_only,communication_only,sequential") {
            let line = found(&case, wrong(fault, K));
            assert!(line.wrong.is_some_and(|wrong| wrong > 0), "{fault:?} {:?}: {line:?}", case.text("implementation"));
        }
        // Where it arrives: in the rows that were changed, and in no other.
        let line = found(&cases("dispatch_only")[0], wrong(fault, K));
        let arrived = match fault {
            Fault::SwapTokens => vec![(1, 0), (1, 1)],
            Fault::DropCopy => vec![(0, 5)],
            Fault::OtherExpert => vec![(1, 0), (1, 32)],
            Fault::OtherRank => vec![(0, 0), (1, 47)],
        };
        for element in &line.wrong_elements {
            let row = (element.rank, element.index as usize / K);
            assert!(arrived.contains(&row), "{fault:?}: {row:?}");
        }
    }
}

#[test]
fn a_result_that_goes_elsewhere_is_seen() {
    for fault in [Fault::SwapTokens, Fault::DropCopy, Fault::OtherRank] {
        for case in cases("combine_only,communication_only,sequential") {
            let line = found(&case, wrong(fault, N));
            assert!(line.wrong.is_some_and(|wrong| wrong > 0), "{fault:?} {:?}: {line:?}", case.text("implementation"));
        }
    }
}

#[test]
fn right_tokens_are_right() {
    let untouched: Wrap = Arc::new(|_, inner| inner);
    for case in cases("dispatch_only,combine_only,communication_only,sequential,pipelined") {
        let line = found(&case, untouched.clone());
        assert_eq!(line.wrong, Some(0), "{:?}: {line:?}", case.text("implementation"));
    }
}
