//! Ranks on one host and ranks on several, in one run: apart wherever something is listed or compared.

use record::CaseLine;
use report::sentences;
use serde_json::json;

use crate::data::{self, Invented};
use crate::golden::text;

const MIB: u64 = 1 << 20;

/// A call of 1 MiB with 4 ranks on so many hosts.
fn line(backend: &'static str, hosts: Option<u32>, time: f64) -> CaseLine {
    let mut line = Invented { backend, ..Invented::new(4, MIB, time) }.line();
    line.hosts = hosts;
    line
}

/// One call between rank 0 and another, on so many hosts of two.
fn pair(peer: u32, pair_hosts: u32, time: f64) -> CaseLine {
    let mut line = Invented { op: "ping_pong", backend: "mpi", ..Invented::new(4, MIB, time) }.line();
    (line.hosts, line.pair_hosts) = (Some(2), Some(pair_hosts));
    line.parameters.insert("peer", json!(peer));
    line
}

fn page(lines: Vec<CaseLine>) -> String {
    text("markdown", &data::run(lines))
}

/// Rows of tables that hold all of these.
fn rows<'p>(page: &'p str, words: &[&str]) -> Vec<&'p str> {
    page.lines().filter(|line| line.starts_with('|') && words.iter().all(|word| line.contains(word))).collect()
}

#[test]
fn hosts_stand_in_rows_of_their_own() {
    let both = vec![line("mpi", None, 1e-4), line("mpi", Some(2), 1e-3), line("mpi", Some(4), 2e-3)];
    let all = page(both.clone());
    // One in the summary, one in the operation's own table.
    for (words, time) in [("within a host", "100 us"), ("across 2 hosts", "1.00 ms"), ("across 4 hosts", "2.00 ms")] {
        let rows = rows(&all, &[words]);
        assert!(rows.len() == 2 && rows.iter().all(|row| row.contains(time)), "{words}: {all}");
    }
    let text = sentences(&data::run(both)).join("\n");
    assert!(text.contains("4 ranks, within a host takes 100 us") && !text.contains("across"), "{text}");
}

#[test]
fn what_holds_for_all_rows_is_said_once() {
    let one = page(vec![line("mpi", None, 1e-4), line("shm", None, 1e-3)]);
    assert!(!one.contains("within a host") && !one.contains("across"), "{one}");
    let several = page(vec![line("mpi", Some(2), 1e-4)]);
    assert!(several.contains("across 2 hosts") && rows(&several, &["across"]).is_empty(), "{several}");
}

#[test]
fn pairs_on_one_host_are_apart_from_pairs_on_two() {
    let all = page(vec![pair(1, 1, 1e-4), pair(2, 2, 1e-3), pair(3, 2, 1.1e-3)]);
    assert!(rows(&all, &["within a host"]).iter().all(|row| row.contains("peer 1")), "{all}");
    assert_eq!(rows(&all, &["within a host"]).len(), 2, "{all}");
    for peer in ["peer 2", "peer 3"] {
        assert_eq!(rows(&all, &["across 2 hosts", peer]).len(), 2, "{all}");
    }
}

#[test]
fn ranks_on_several_hosts_are_no_peer_of_ranks_on_one() {
    let ours = line("shm", None, 1e-4);
    let far = page(vec![ours.clone(), line("mpi", Some(2), 2e-4)]);
    assert!(!far.contains("Against the best peer"), "{far}");
    let near = page(vec![ours, line("mpi", Some(2), 2e-4), line("mpi", None, 3e-4)]);
    let table = near.split("Against the best peer of this run").nth(1).expect("a table");
    let row = table.lines().find(|line| line.contains("1 MiB")).expect("a row");
    assert!(row.contains("3.00x") && !row.contains("across"), "{row}");
}
