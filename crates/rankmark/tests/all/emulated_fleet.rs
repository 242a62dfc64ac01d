//! Eight nodes in namespaces under a real launcher: healthy ones, and one fault of each kind, on the node of rank 0, too.
//!
//! `RANKMARK_TEST_ROUNDS` says how often each fault is made (once), `RANKMARK_TEST_FAULTS` a part of the names of those that are
//! made (all), and `RANKMARK_TEST_HEALTHY` how many healthy fleets are measured (one). The nodes share this machine's processors, so other work on it is part of what is measured.

#![allow(clippy::print_stdout, reason = "what a test prints is its own output")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::namespaces::Hosts;
use crate::place::Place;
use crate::processes::{self, Aim};
use crate::skip;

const NODES: usize = 8;
/// Longer than any run lasts by its promise: the budget, half of it for the others after a loss, a hang and reports.
const LONGEST: Duration = Duration::from_secs(420);

/// What is wrong with the fleet.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Nothing,
    SlowLink(usize),
    BadPair([usize; 2]),
    HalvedProcessor(usize),
    Killed(usize),
    Frozen(usize),
}

const FAULTS: [Fault; 9] = [
    Fault::SlowLink(4),
    Fault::SlowLink(0),
    Fault::BadPair([2, 5]),
    Fault::HalvedProcessor(6),
    Fault::HalvedProcessor(0),
    Fault::Killed(3),
    Fault::Killed(0),
    Fault::Frozen(5),
    Fault::Frozen(0),
];

impl Fault {
    /// The node that is to be named.
    fn node(self) -> Option<usize> {
        match self {
            Self::Nothing | Self::BadPair(_) => None,
            Self::SlowLink(node) | Self::HalvedProcessor(node) | Self::Killed(node) | Self::Frozen(node) => Some(node),
        }
    }

    fn prepare(self, hosts: &Hosts) -> Result<(), String> {
        match self {
            Self::SlowLink(node) => hosts.limit(node, "100mbit"),
            Self::BadPair(pair) => hosts.limit_pair(pair, "200mbit"),
            _ => Ok(()),
        }
    }

    /// What befalls a run that goes on, until it ends.
    fn befall(self, hosts: &Hosts, over: &AtomicBool) {
        let Some(node) = self.node().filter(|_| !matches!(self, Self::SlowLink(_))) else { return };
        let ranks = || hosts.ranks(node).into_iter().filter_map(Aim::at).collect::<Vec<Aim>>();
        processes::wait_until(Duration::from_secs(30), || !hosts.ranks(node).is_empty());
        match self {
            Self::HalvedProcessor(_) => {
                // A quota of the kernel does the same: a part of each 40 ms.
                while !over.load(Ordering::Relaxed) {
                    let found = ranks();
                    send(&found, libc::SIGSTOP);
                    std::thread::sleep(Duration::from_millis(20));
                    send(&found, libc::SIGCONT);
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            Self::Killed(_) => {
                std::thread::sleep(Duration::from_secs(4));
                send(&ranks(), libc::SIGKILL);
            }
            _ => {
                std::thread::sleep(Duration::from_secs(8));
                let frozen = ranks();
                send(&frozen, libc::SIGSTOP);
                while !over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(100));
                }
                send(&frozen, libc::SIGKILL);
            }
        }
    }

    /// What a verdict says that it should not, or does not say.
    fn wrong(self, verdict: &Value) -> Option<String> {
        let nodes = verdict["nodes"].as_array().expect("a verdict has nodes").iter();
        let bad: Vec<&str> = nodes
            .filter(|node| ["slow", "failed"].iter().any(|bad| node["verdict"] == *bad))
            .filter_map(|node| node["host"].as_str())
            .collect();
        let mut links: Vec<[String; 2]> = Vec::new();
        for link in verdict["links"].as_array().expect("a verdict has links") {
            let name = |at: usize| link["hosts"][at].as_str().unwrap_or_default().to_owned();
            links.push([name(0), name(1)]);
        }
        links.dedup();
        let named: Vec<String> = self.node().iter().map(|node| format!("h{node}")).collect();
        let pairs: Vec<[String; 2]> = match self {
            Self::BadPair(pair) => vec![pair.map(|node| format!("h{node}"))],
            _ => Vec::new(),
        };
        let right = bad == named && links == pairs;
        (!right).then(|| format!("bad nodes {bad:?} for {named:?}, links {links:?} for {pairs:?}"))
    }
}

fn send(ranks: &[Aim], signal: i32) {
    // Some may be gone.
    ranks.iter().for_each(|rank| drop(rank.send(signal)));
}

/// Measures a fleet with a fault. None where it is named right; a line of what was said in either case.
fn measured(fault: Fault) -> Option<(Option<String>, String)> {
    let hosts = Hosts::new("eight emulated nodes", NODES)?;
    fault.prepare(&hosts).unwrap();
    let place = Place::new();
    let job = hosts.command(&place, &[1; NODES], "fleet --budget 120s --output-dir r").start();
    let over = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| fault.befall(&hosts, &over));
        let ended = job.wait_for(LONGEST);
        over.store(true, Ordering::Relaxed);
        ended
    });
    let first = ended.out.lines().find(|line| line.contains(" nodes: ")).unwrap_or_default();
    let wrong = match std::fs::read_to_string(place.path("r/fleet.json")) {
        Ok(text) => fault.wrong(&serde_json::from_str(&text).unwrap()),
        Err(why) => Some(format!("r/fleet.json: {why}")),
    };
    let wrong = wrong.map(|wrong| format!("{wrong}\n{}{}", ended.out, ended.err));
    Some((wrong, first.trim().to_owned()))
}

fn count(name: &str) -> usize {
    std::env::var(name).ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

#[test]
fn faults_of_eight_emulated_nodes_are_named_and_healthy_ones_are_not() {
    if !skip::heavy("eight emulated nodes") {
        return;
    }
    let healthy = std::iter::repeat_n(Fault::Nothing, count("RANKMARK_TEST_HEALTHY"));
    let asked = std::env::var("RANKMARK_TEST_FAULTS").unwrap_or_default();
    let faults = std::iter::repeat_n(FAULTS, count("RANKMARK_TEST_ROUNDS")).flatten();
    let faults = faults.filter(|fault| format!("{fault:?}").contains(&asked));
    let mut wrong = Vec::new();
    for fault in healthy.chain(faults) {
        let begun = Instant::now();
        let Some((missed, said)) = measured(fault) else { return };
        let word = if missed.is_none() { "right" } else { "WRONG" };
        println!("{word} {fault:?} {:.0} s: {said}", begun.elapsed().as_secs_f64());
        wrong.extend(missed.map(|why| format!("{fault:?}: {why}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
