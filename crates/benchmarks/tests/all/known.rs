//! The simulated backend has known answers: they come out of the whole run to the nanosecond.

use comm::Pace;
use record::{Caveat, Plan};
use terms::{Bandwidth, Bytes, Collective, Seconds, Status};

use crate::plans::{Outcome, plan, run};

const LINK: Pace = Pace { bandwidth: Bandwidth(4e9), latency: Seconds(3e-6) };

/// Every line is marked, in a record of simulated cases.
fn all_marked(plan: &Plan, outcome: &Outcome) {
    assert_eq!(outcome.lines.len(), plan.cases.len());
    for line in &outcome.written {
        assert!(line.simulated, "{line:?}");
        assert_eq!(line.status == Status::Ok, line.caveats.contains(&Caveat::Simulated), "{line:?}");
    }
}

#[test]
fn medians_are_those_of_the_formula_for_every_operation() {
    let ops = "[all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, all_to_allv, gather, scatter, \
               send_recv, ping_pong, barrier]";
    let plan = plan(&format!(
        "op: {ops}, backend: sim, ranks: [2, 3, 4, 5], bytes: [240, 60000], link_bandwidth: 4GB/s, link_latency: 3us, \
         iters: 6, warmup: 0"
    ));
    let outcome = run(&plan);
    all_marked(&plan, &outcome);
    for line in &outcome.lines {
        let op: Collective = line.parameters["op"].as_str().unwrap().parse().unwrap();
        let exact = comm::sim::cost(op, Bytes(line.bytes.unwrap_or(0)), line.ranks, LINK);
        // The clock counts nanoseconds. A ping_pong's time is one way, and its call two.
        let messages = if op == Collective::PingPong { 2.0 } else { 1.0 };
        let expected = (exact.0 * 1e9).round() / 1e9 / messages;
        let time = line.time_s.as_ref().unwrap();
        let near = |value: f64| (value / expected - 1.0).abs() < 1e-12;
        let values = [Some(time.median), time.mean, time.p05, time.p99, time.min, time.max];
        let all_near = values.into_iter().all(|value| value.is_some_and(near));
        assert!(all_near, "{op} {} ranks: {time:?}, not {expected}", line.ranks);
        // In a broadcast, say, a rank that waits for nobody may be done earlier; none is later.
        let ranks = line.per_rank_median_s.as_ref().unwrap();
        assert!(ranks.len() == line.ranks as usize && ranks.iter().all(|rank| *rank <= expected * (1.0 + 1e-12)));
        assert_eq!((line.status, line.wrong, line.caveats.as_slice()), (Status::Ok, Some(0), &[Caveat::Simulated][..]));
        let bandwidth = op.busbw_gbs(Bytes(line.bytes.unwrap_or(0)), line.ranks, Seconds(time.median));
        assert_eq!(line.metric("busbw_gbs"), bandwidth, "{op}");
    }
}

#[test]
fn without_noise_there_is_one_trial_and_no_interval() {
    // Not even a number of trials is given.
    let text = "experiment: test\ncases:\n  - {benchmark: collective, op: all_reduce, backend: sim, ranks: [2, 4], \
                bytes: [4, 60KB], spacing: 0s}\n";
    let outcome = run(&record::plan::read(text, "test.yaml", &benchmarks::abouts(), &[]).unwrap());
    for line in &outcome.lines {
        assert_eq!((line.trials, line.caveats.as_slice()), (Some(1), &[Caveat::Simulated][..]));
        assert_eq!(line.time_s.as_ref().unwrap().ci95, None);
    }
}

#[test]
fn isolated_calls_cost_the_same_on_a_model() {
    let outcome = run(&plan(
        "op: [all_reduce, all_to_all], backend: sim, ranks: [2, 5], bytes: 60000, mode: isolated, iters: 6, \
         link_latency: 40us, link_bandwidth: 4GB/s",
    ));
    let link = Pace { latency: Seconds(40e-6), ..LINK };
    for line in &outcome.lines {
        let op: Collective = line.parameters["op"].as_str().unwrap().parse().unwrap();
        let expected = (comm::sim::cost(op, Bytes(60_000), line.ranks, link).0 * 1e9).round() / 1e9;
        // Telling the start takes several times 50 us over this link: it was agreed on far enough ahead.
        assert_eq!(
            (line.time_s.as_ref().unwrap().median, line.caveats.as_slice()),
            (expected, &[Caveat::Simulated][..])
        );
        assert_eq!(line.calls_per_sample, Some(1));
    }
}

#[test]
fn noise_leaves_the_median_where_it_was() {
    let outcome = run(&plan(
        "op: all_reduce, backend: sim, ranks: 2, bytes: 8KB, noise: 10%, noise_correlation: 50%, noise_seed: [1, 2, 3, 4]",
    ));
    let truth = comm::sim::cost(Collective::AllReduce, Bytes(8_000), 2, comm::sim::DEFAULT_LINK).0;
    for line in &outcome.lines {
        let time = line.time_s.as_ref().unwrap();
        // The target is 2%; four times that is beyond chance.
        assert!((time.median / truth - 1.0).abs() < 0.04, "{time:?}, not {truth}");
        let [low, high] = time.ci95.expect("six trials or more");
        let spread = time.p95.zip(time.p05).map(|(high, low)| high / low);
        assert!(low < time.median && time.median < high && spread > Some(1.1), "{line:?}");
        assert!(line.trials.is_some_and(|trials| stats::LOOKS.contains(&(trials as usize))), "{:?}", line.trials);
        assert_eq!(line.caveats, [Caveat::Simulated]);
    }
}

#[test]
fn whatever_becomes_of_a_simulated_case_its_line_says_so() {
    let failing = plan("op: all_reduce, backend: sim, ranks: 2, bytes: [0, 8], inject: [\"wrong:rank=1\"]");
    let outcome = run(&failing);
    let status: Vec<Status> = outcome.lines.iter().map(|line| line.status).collect();
    assert_eq!(status, [Status::Skipped, Status::Failed]);
    assert!(outcome.lines.iter().all(|line| line.simulated && line.reason.is_some()));
}

#[test]
fn a_link_without_latency_takes_no_time_and_ends() {
    let outcome = run(&plan("op: barrier, backend: sim, ranks: 2, link_latency: 0s"));
    assert_eq!(outcome.lines[0].time_s.as_ref().unwrap().median, 0.0);
    assert_eq!(outcome.lines[0].caveats, [Caveat::Simulated, Caveat::ClockResolution]);
}
