//! The file for NCCL's tuner plugin: what wins with certainty, and what is left open.

use record::CaseLine;
use serde_json::json;

use crate::data::{self, Invented};

/// A case under these settings, with the times of eight rounds in microseconds around this one.
fn case(bytes: u64, words: Option<[&str; 2]>, us: f64, wave: f64) -> CaseLine {
    let mut line = Invented { backend: "nccl", ..Invented::new(8, bytes, us * 1e-6) }.line();
    let words = words.map(|[algorithm, protocol]| json!(format!("NCCL_ALGO={algorithm} NCCL_PROTO={protocol}")));
    if let Some(words) = &words {
        line.parameters.insert("env".to_owned(), words.clone());
    }
    line.id = format!("{:012x}", bytes + words.map_or(0, |words| words.to_string().len() as u64 + us as u64));
    line.trial_round = (0..8).collect();
    line.trial_median_s = (0..8).map(|round| us * 1e-6 * (1.0 + wave * f64::from(round % 3 - 1))).collect();
    line
}

fn tuned(cases: Vec<CaseLine>) -> String {
    let run = data::run(cases);
    let files = report::format("nccl-tuner").unwrap().render(&run).unwrap();
    String::from_utf8(files[0].content.clone()).unwrap()
}

#[test]
fn a_certain_winner_is_a_row_and_a_tie_is_left_to_the_library() {
    let text = tuned(vec![
        case(1024, Some(["Ring", "LL"]), 10.0, 0.01),
        case(1024, Some(["Tree", "LL"]), 12.0, 0.01),
        case(1024, Some(["NVLSTree", "Simple"]), 15.0, 0.01),
        case(1 << 20, Some(["Ring", "Simple"]), 100.0, 0.02),
        case(1 << 20, Some(["Tree", "Simple"]), 100.5, -0.02),
    ]);
    assert!(text.contains("\nallreduce,1024,1024,ring,ll,-1,1,8,-1,-1\n"), "{text}");
    assert!(text.contains("faster than 2 alternatives"), "{text}");
    assert!(text.contains("# all_reduce 1 MiB, 8 ranks: Tree/Simple may be as fast as Ring/Simple"), "{text}");
    assert!(!text.contains("\nallreduce,1048576") && !text.contains("wins everywhere"), "{text}");
}

#[test]
fn one_setting_that_wins_everywhere_is_a_line_of_the_environment() {
    let text = tuned(vec![
        case(1024, Some(["NVLSTree", "Simple"]), 10.0, 0.01),
        case(1024, Some(["Tree", "LL"]), 12.0, 0.01),
        case(4096, Some(["NVLSTree", "Simple"]), 20.0, 0.01),
        case(4096, Some(["Tree", "LL"]), 25.0, 0.01),
    ]);
    assert!(text.contains("\nallreduce,1024,4096,nvls_tree,simple,-1,1,8,-1,-1\n"), "{text}");
    assert!(text.contains("all_reduce 1 KiB to 4 KiB (2 sizes): at least 1.20x faster than 1 alternative"), "{text}");
    assert!(text.contains("One setting wins everywhere: NCCL_ALGO=NVLSTree NCCL_PROTO=Simple"), "{text}");
}

#[test]
fn what_the_library_chose_wins_without_a_row_and_few_rounds_decide_nothing() {
    let text = tuned(vec![case(1024, None, 10.0, 0.01), case(1024, Some(["Tree", "LL"]), 12.0, 0.01)]);
    assert!(text.contains("the fastest leaves the algorithm or the protocol to the library"), "{text}");
    let mut few = vec![case(1024, Some(["Ring", "LL"]), 10.0, 0.01), case(1024, Some(["Tree", "LL"]), 12.0, 0.01)];
    for line in &mut few {
        line.trial_round.truncate(3);
        line.trial_median_s.truncate(3);
    }
    let text = tuned(few);
    assert!(text.contains("Tree/LL has too few trials in the same rounds as Ring/LL"), "{text}");
    let none = tuned(vec![case(1024, Some(["Ring", "LL"]), 10.0, 0.01)]);
    assert!(none.contains("No operation of this record was measured under several"), "{none}");
}

/// A run over two hosts may have cases within one: the plugin matches the hosts of the communicator.
#[test]
fn a_row_has_the_hosts_of_its_own_ranks() {
    let [ring, tree] = [["Ring", "LL"], ["Tree", "LL"]];
    let mut across = won(1024, tree, ring);
    for line in &mut across {
        (line.ranks, line.hosts) = (16, Some(2));
        line.parameters.insert("ranks".to_owned(), json!(16));
        line.id = format!("e{}", &line.id[1..]);
    }
    let host = |name: &str| record::Machine { host: name.into(), ..record::Machine::default() };
    let hosts = vec![host("n1"), host("n2")];
    let run = report::Run { hosts, ..data::run([won(1024, ring, tree), across].concat()) };
    let files = report::format("nccl-tuner").unwrap().render(&run).unwrap();
    let text = String::from_utf8(files[0].content.clone()).unwrap();
    assert_eq!(
        rows(&text),
        ["allreduce,1024,1024,ring,ll,-1,1,8,-1,-1", "allreduce,1024,1024,tree,ll,-1,2,16,-1,-1"],
        "{text}"
    );
}

/// Cases of one size: `best` wins by a fifth, `other` is the alternative.
fn won(bytes: u64, best: [&str; 2], other: [&str; 2]) -> Vec<CaseLine> {
    vec![case(bytes, Some(best), 10.0, 0.01), case(bytes, Some(other), 12.0, 0.01)]
}

fn rows(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn a_row_spans_sizes_that_one_setting_wins_and_ends_where_another_may() {
    let (ring, tree) = (["Ring", "LL"], ["Tree", "LL"]);
    let sizes = [(1, ring, tree), (2, ring, tree), (4, ring, tree), (16, tree, ring), (64, ring, tree)];
    let mut cases: Vec<CaseLine> = sizes.iter().flat_map(|(kib, best, other)| won(kib << 10, *best, *other)).collect();
    let spans = ["allreduce,1024,4096,ring,ll,-1,1,8,-1,-1", "allreduce,16384,16384,tree,ll,-1,1,8,-1,-1"];
    let text = tuned(cases.clone());
    assert_eq!(rows(&text), [&spans[..], &["allreduce,65536,65536,ring,ll,-1,1,8,-1,-1"]].concat(), "{text}");

    // A size at which two may be equal is in no row, and neither are those on its way.
    cases.extend([case(3 << 10, Some(ring), 10.0, 0.02), case(3 << 10, Some(tree), 10.0, -0.02)]);
    let text = tuned(cases);
    let apart = ["allreduce,1024,2048,ring,ll,-1,1,8,-1,-1", "allreduce,4096,4096,ring,ll,-1,1,8,-1,-1"];
    assert_eq!(rows(&text)[..2], apart, "{text}");
}

#[test]
fn a_row_holds_for_all_forms_of_a_call_and_for_no_size_at_which_the_setting_failed() {
    let (ring, tree) = (["Ring", "LL"], ["Tree", "LL"]);
    let mut cases = [1, 2, 4].map(|kib| won(kib << 10, ring, tree)).concat();
    let mut forms = cases.clone();
    let mut other_form = won(2 << 10, tree, ring);
    for line in &mut other_form {
        line.parameters.insert("in_place".to_owned(), json!(false));
        line.id = format!("f{}", &line.id[1..]);
    }
    forms.extend(other_form);
    let text = tuned(forms);
    assert!(text.contains("2 KiB, 8 ranks: Tree/LL wins in some cases of this size, and Ring/LL in others"), "{text}");
    let apart = ["allreduce,1024,1024,ring,ll,-1,1,8,-1,-1", "allreduce,4096,4096,ring,ll,-1,1,8,-1,-1"];
    assert_eq!(rows(&text), apart, "{text}");

    cases[2].status = terms::Status::Failed;
    let alone = [&cases[..3], &cases[4..]].concat();
    for cases in [cases, alone] {
        let text = tuned(cases);
        assert!(text.contains("2 KiB, 8 ranks: Ring/LL failed, and fewer than two settings are left"), "{text}");
        assert_eq!(rows(&text), apart, "{text}");
    }
}
