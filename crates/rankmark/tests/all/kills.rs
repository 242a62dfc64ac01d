//! Ranks killed from outside at random moments: at most the case in flight is lost, and the right rank is named.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::place::{Live, Place, reason, statuses};
use crate::processes::{Aim, RankProcess};
use crate::skip;

/// No run of such a plan takes longer on any machine: half a second on an idle one.
const LIMIT: Duration = Duration::from_secs(240);

/// Two operations, each with so many seeds: small and short cases, and few charts to draw.
fn plan(operations: &str, ranks: u32, bytes: &str, seeds: usize) -> String {
    format!(
        "experiment: kills
defaults: {{ranks: {ranks}, max_seconds: 0.02s}}
cases:
  - {{benchmark: collective, op: [{operations}], bytes: {bytes}, seed: {:?}}}
",
        (1..=seeds).collect::<Vec<_>>()
    )
}

/// Seeds and cases of a run with one kill. A kill lands before, in, between or after them, so a few are enough.
const SEEDS: usize = 2;
const CASES: usize = 2 * SEEDS;

/// Every operation, on two to four ranks, of small and large messages.
const PLANS: [(&str, u32, &str); 6] = [
    ("all_reduce, barrier", 2, "1KiB"),
    ("all_gather, reduce_scatter", 3, "64KiB"),
    ("broadcast, reduce", 2, "1MiB"),
    ("all_to_all, all_to_allv", 4, "16KiB"),
    ("gather, scatter", 3, "256"),
    ("send_recv, ping_pong", 2, "64KiB"),
];

/// What became of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The case in flight failed.
    Failed,
    /// Everything had been measured when the kill landed.
    AfterTheEnd,
    /// The run ended before a rank was found.
    Missed,
}

/// Kills a random rank, the first that there is from `moment` on. None when the run ends before.
fn strike(live: &mut Live<'_>, moment: Duration, random: &mut StdRng) -> Option<RankProcess> {
    std::thread::sleep(moment.saturating_sub(live.begun.elapsed()));
    while !live.has_ended() {
        if let Some(target) = live.ranks().choose(random) {
            // The process is identified again after the handle is taken, so that no other process of that number is hit.
            let aim = Aim::at(target.pid);
            if live.ranks().contains(target) && aim.is_some_and(|aim| aim.send(libc::SIGKILL).is_ok()) {
                return Some(*target);
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    None
}

/// Kills in the run's progress and not in its time, which other work on the machine stretches: after `cases` of its
/// cases have ended, and `pause` more.
fn one_kill(place: &Place, cases: usize, pause: Duration, random: &mut StdRng) -> Outcome {
    let out = format!("out{}", random.random::<u64>());
    let mut live = place.start(&format!("run plan.yaml --output-dir {out}"));
    if cases > 0 {
        live.await_lines(&place.path(&format!("{out}/cases.jsonl")), cases);
    }
    let moment = live.begun.elapsed() + pause;
    let killed = strike(&mut live, moment, random);
    let ended = live.wait_for(LIMIT);
    let lines = place.cases(&out);
    let [ok, failed, ..] = statuses(&lines);
    let told = format!("{killed:?} at {moment:?}\n{}{}", ended.out, ended.err);
    assert_eq!(lines.len(), CASES, "{told}");
    assert!(ok + 1 >= CASES && ok + failed == CASES, "{told}");
    let Some(killed) = killed else {
        ended.exits(0);
        return Outcome::Missed;
    };
    let Some(line) = lines.iter().find(|line| line["status"] == "failed") else {
        ended.exits(0);
        return Outcome::AfterTheEnd;
    };
    let named = format!("rank {} (pid {}, this host) died of signal 9 (SIGKILL)", killed.rank, killed.pid);
    assert!(reason(line).starts_with(&named), "{named} expected in: {}\n{told}", reason(line));
    assert_eq!(reason(line).matches("died of").count(), 1, "only that one: {}", reason(line));
    ended.exits(1);
    Outcome::Failed
}

/// How long an undisturbed run measures; after that there are no ranks.
fn undisturbed(place: &Place) -> Duration {
    let live = place.start("run plan.yaml --output-dir undisturbed");
    live.await_lines(&place.path("undisturbed/cases.jsonl"), CASES);
    let took = live.begun.elapsed();
    live.wait().exits(0);
    assert_eq!(statuses(&place.cases("undisturbed")), [CASES, 0, 0, 0]);
    took
}

fn kill_at_random_moments(count: usize, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let places = PLANS.map(|(operations, ranks, bytes)| {
        let place = Place::new();
        place.write("plan.yaml", plan(operations, ranks, bytes, SEEDS));
        let took = undisturbed(&place);
        (place, took)
    });
    let mut outcomes = Vec::new();
    for number in 0..count {
        let (place, took) = &places[number % places.len()];
        let cases = random.random_range(0..CASES);
        let pause = random.random_range(Duration::ZERO..*took / CASES as u32);
        outcomes.push(one_kill(place, cases, pause, &mut random));
    }
    let of = |outcome: Outcome| outcomes.iter().filter(|known| **known == outcome).count();
    let failed = of(Outcome::Failed);
    // Kills that landed in nothing would prove nothing.
    assert!(
        2 * failed >= count,
        "{failed} failed, {} after the end, {} missed",
        of(Outcome::AfterTheEnd),
        of(Outcome::Missed)
    );
}

#[test]
fn at_random_moments() {
    let count = if skip::heavy("two hundred kills at random moments") { 200 } else { 6 };
    kill_at_random_moments(count, 2);
}

#[test]
fn several_kills_in_one_run_cost_a_case_each() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        plan("all_reduce, broadcast", 3, "16KiB", 5)
            .replace("0.02s", "0.2s")
            .replace("bytes:", "target_precision: 0, bytes:"),
    );
    let mut random = StdRng::seed_from_u64(3);
    let mut live = place.start("run plan.yaml --output-dir out");
    let cases = place.path("out/cases.jsonl");
    let mut killed = Vec::new();
    for lines in [0, 2, 5] {
        live.await_lines(&cases, lines);
        killed.extend(strike(&mut live, Duration::ZERO, &mut random));
    }
    live.wait_for(LIMIT).exits(1);
    let lines = place.cases("out");
    assert_eq!(statuses(&lines), [7, 3, 0, 0]);
    let reasons: Vec<&str> = lines.iter().filter(|line| line["status"] == "failed").map(reason).collect();
    // Cases are visited in a random order: which kill cost which case is not known before.
    for killed in killed {
        let named = format!("rank {} (pid {},", killed.rank, killed.pid);
        assert_eq!(reasons.iter().filter(|reason| reason.starts_with(&named)).count(), 1, "{killed:?}: {reasons:?}");
    }
    // And the failed ones can be had again.
    place.run("run --resume out").exits(0);
    assert_eq!(statuses(&place.cases("out")), [10, 0, 0, 0]);
}
