//! What was not analysed is said, and never reads as "nothing".

use super::simulation::{Fault, Scenario};
use diagnose::profile::{Analysis, FindingKind, Phase, Settings, analyse, differences};
use trace::timeline::{CollectiveCall, Kind, NameId, ONE_OF_SEVERAL, RankTimeline, Timeline};

use super::{analysed, delay, planted};

fn analyse_default(timeline: &Timeline) -> Analysis {
    analyse(timeline, &Settings::default())
}

#[test]
fn an_analysis_is_whole_with_all_ranks_and_a_verdict() {
    let healthy = Scenario { jitter: 0.01, ..planted(Vec::new()) };
    assert!(analysed(&healthy).is_whole);
    let mut some = healthy.timeline(1);
    some.ranks.truncate(3);
    assert!(!analyse_default(&some).is_whole, "a rank is missing");
    let mut one = healthy.timeline(1);
    one.ranks.truncate(1);
    assert!(!analyse_default(&one).is_whole);
    one.world = None;
    assert!(!analyse_default(&one).is_whole, "nothing says that there is no other rank");
    one.world = Some(1);
    assert!(analyse_default(&one).is_whole);
    assert!(!analysed(&Scenario { steps: 5, ..healthy.clone() }).is_whole, "too few steps");
    assert!(!analyse_default(&Timeline::default()).is_whole);
}

#[test]
fn what_costs_little_is_no_finding_however_certain_it_is() {
    let of = |delay_share: f64| {
        let analysis = analysed(&planted(vec![delay(1, Phase::Forward, delay_share)]));
        let findings = analysis.findings.iter().filter(|finding| finding.kind == FindingKind::Straggler).count();
        (analysis.straggler.map(|slow| slow.rank), findings)
    };
    // The rank is slow for sure, and that is said.
    assert_eq!((of(0.007), of(0.05)), ((Some(1), 0), (Some(1), 1)));
}

/// One step in five takes three times as long on all ranks, so the mean step is not the median one. All numbers of findings are of
/// the mean step.
#[test]
fn seconds_and_shares_of_findings_are_of_the_mean_step() {
    let often = (0..4).map(|rank| Fault { every: 5, ..delay(rank, Phase::Host, 2.0) });
    let faults = often.chain([delay(1, Phase::Forward, 0.3)]).collect();
    let scenario = Scenario { jitter: 0.01, steps: 100, ..planted(faults) };
    let analysis = analysed(&scenario);
    let (mean, median) = (analysis.steps.mean_s(), analysis.steps.step.median.unwrap());
    assert!(mean > 1.2 * median, "{mean} {median}");
    assert!(analysis.findings.iter().any(|finding| finding.without.is_some()), "{:?}", analysis.findings);
    for finding in &analysis.findings {
        let step_s = finding.saves_s_per_step / finding.share;
        assert!((step_s / mean - 1.0).abs() < 0.01, "{:?}: a step of {step_s}, not {mean}", finding.kind);
        if let Some(without) = finding.without {
            let said = without.to_string();
            assert!(said.starts_with("a median step") || said.starts_with("a mean step"), "{said}");
        }
    }
}

#[test]
fn exchanges_without_an_end_judge_nobody() {
    let mut timeline = Scenario { jitter: 0.01, ..planted(vec![delay(1, Phase::Forward, 0.2)]) }.timeline(1);
    assert_eq!(analyse_default(&timeline).straggler.unwrap().rank, 1);
    timeline.ranks[2].endless = 40;
    let analysis = analyse_default(&timeline);
    assert!(analysis.straggler.is_none() && analysis.straggler_at_most.is_none() && !analysis.is_whole);
    assert!(analysis.straggler_abstains.unwrap().contains("own work is not known"));
}

/// Stages of a pipeline with replicas: calls that ranks begin at the same time are of several communicators, and the trace does not
/// say of which.
#[test]
fn calls_that_may_be_of_any_communicator_blame_nobody() {
    let mut timeline = Scenario { jitter: 0.01, ..planted(vec![delay(1, Phase::Forward, 0.2)]) }.timeline(1);
    let group = timeline.names.intern(ONE_OF_SEVERAL);
    for call in timeline.ranks.iter_mut().flat_map(|rank| &mut rank.collectives) {
        (call.group, call.sequence, call.ranks) = (group, None, None);
    }
    let analysis = analyse_default(&timeline);
    assert_eq!((&analysis.blame, &analysis.collectives.operations[0].wait_s), (&None, &None));
    let is_said = |note: &String| note.contains("do not say which of several communicators they are of");
    assert!(analysis.notes.iter().any(is_said), "{:?}", analysis.notes);
    // Own work shows a slow rank all the same.
    assert_eq!(analysis.straggler.map(|slow| (slow.rank, slow.blame)), Some((1, None)));
}

/// A transfer between rank 0 and another rank, of which nothing but the direction is known.
fn transfer(operation: NameId, group: NameId) -> CollectiveCall {
    CollectiveCall {
        operation,
        group,
        sequence: None,
        ranks: None,
        bytes: None,
        input_bytes: None,
        dtype: None,
        synchronises: false,
        first_byte_ns: None,
    }
}

/// Rank 0 receives gradients, steps the optimizer, and sends parameters. Ranks 1 and 2 run the model for 20 ms, rank 2 for so much
/// longer.
fn parameter_server(longer_ns: i64) -> Timeline {
    let mut timeline =
        Timeline { source: "test".to_owned(), world: Some(3), clock_error_ns: Some(0), ..Timeline::default() };
    let words = ["step", "forward", "backward", "optimizer", "recv", "send", "world"];
    let [step, forward, backward, optimizer, recv, send, group] = words.map(|word| timeline.names.intern(word));
    let mut ranks: Vec<RankTimeline> = (0..3).map(|rank| RankTimeline { rank, ..RankTimeline::default() }).collect();
    for number in 0..41_u32 {
        let begin = i64::from(number) * 50_000_000;
        let noise = |rank: u32| (super::simulation::scattered(u64::from(3 * number + rank)) % 100_000) as i64;
        let works = [20_000_000 + noise(1), 20_000_000 + longer_ns + noise(2)];
        let arrived = begin + works[0].max(works[1]);
        let (updated, end) = (arrived + 2_000_000, arrived + 2_100_000);
        ranks[0].push_call(0, begin, arrived, transfer(recv, group));
        ranks[0].push(Kind::Optimizer, optimizer, 0, arrived, updated);
        ranks[0].push_call(0, updated, end, transfer(send, group));
        for (rank, work) in ranks[1..].iter_mut().zip(works) {
            rank.push(Kind::Forward, forward, 0, begin, begin + 8_000_000);
            rank.push(Kind::Backward, backward, 0, begin + 8_000_000, begin + work);
            rank.push_call(0, begin + work, end, transfer(recv, group));
        }
        ranks.iter_mut().for_each(|rank| rank.push(Kind::Step, step, number, begin, end));
    }
    ranks.iter_mut().for_each(RankTimeline::sort);
    timeline.ranks = ranks;
    timeline
}

#[test]
fn ranks_that_run_no_model_are_not_compared_with_those_that_do() {
    let analysis = analyse_default(&parameter_server(0));
    assert_eq!((&analysis.stragglers, &analysis.straggler_abstains), (&Vec::new(), &None));
    let at_most = analysis.straggler_at_most;
    assert!(at_most.is_none_or(|share| share < 0.02) && !analysis.is_whole, "{at_most:?}");
    let note = "rank 0 has no forward and no backward pass, unlike the other ranks: ranks do different work";
    assert!(analysis.notes.iter().any(|said| said.starts_with(note)), "{:?}", analysis.notes);
    // Nothing says that it is a pipeline.
    let waits = analysis.findings.iter().find(|finding| finding.kind == FindingKind::PipelineBubble).unwrap();
    assert!(waits.what.starts_with("Ranks wait in send and recv for "), "{}", waits.what);
    assert!(waits.advice.starts_with("In a pipeline: use more micro-batches"), "{}", waits.advice);
    // Of the others, a slow one is named.
    let slow = analyse_default(&parameter_server(5_000_000)).straggler.unwrap();
    assert_eq!((slow.rank, slow.phase), (2, Phase::Backward));
    let mut one_worker = parameter_server(0);
    one_worker.ranks.truncate(2);
    let why = analyse_default(&one_worker).straggler_abstains.unwrap();
    assert!(why.contains("ranks do different work, so none of them can be called slow"), "{why}");
}

/// A stage whose forward pass nobody marks works like the others: that it has a backward pass says so.
#[test]
fn a_rank_without_a_marked_forward_pass_is_judged() {
    let mut timeline = Scenario { jitter: 0.01, ..planted(vec![delay(1, Phase::Backward, 0.2)]) }.timeline(1);
    timeline.ranks[1].spans.retain(|span| span.kind != Kind::Forward);
    assert_eq!(analyse_default(&timeline).straggler.unwrap().rank, 1);
    timeline.ranks[2].spans.retain(|span| span.kind != Kind::Forward);
    assert_eq!(analyse_default(&timeline).straggler.unwrap().rank, 1);
}

#[test]
fn a_device_that_waits_for_the_host_is_idle_in_one_step_too() {
    let mut timeline = Timeline { source: "test".to_owned(), ..Timeline::default() };
    let name = timeline.names.intern("x");
    let mut rank = trace::timeline::RankTimeline::default();
    rank.push(Kind::Step, name, 6, 0, 100_000);
    rank.push(Kind::Kernel, name, 0, 90_000, 97_000);
    rank.sort();
    timeline.ranks.push(rank);
    let analysis = analyse_default(&timeline);
    let finding = &analysis.findings[0];
    assert_eq!(finding.kind, FindingKind::HostBoundDevice);
    assert!(finding.what.contains("no kernel and no copy for 93% of the time"), "{}", finding.what);
    assert!(!analysis.is_whole);
}

#[test]
fn one_rank_does_not_tell_moving_from_waiting() {
    let exposed = |ranks: usize| {
        let mut timeline = Scenario { jitter: 0.01, ..planted(Vec::new()) }.timeline(1);
        timeline.ranks.truncate(ranks);
        let findings = analyse_default(&timeline).findings;
        findings.into_iter().find(|finding| finding.kind == FindingKind::ExposedCommunication).unwrap().what
    };
    assert!(exposed(4).starts_with("Moving bytes that nothing overlaps takes "), "{}", exposed(4));
    let one = exposed(1);
    assert!(one.starts_with("Communication that nothing overlaps takes "), "{one}");
    assert!(one.contains("The trace of one rank of 4 cannot separate the two"), "{one}");
}

#[test]
fn five_steps_a_side_are_too_few_for_a_change() {
    let steps = |steps, faults| analysed(&Scenario { steps, jitter: 0.01, ..planted(faults) });
    let all = || (0..4).map(|rank| delay(rank, Phase::Backward, 0.5)).collect();
    let step = |count| {
        let found = differences(&steps(count, Vec::new()), &steps(count, all()));
        let step = found.into_iter().find(|one| one.name == "step").unwrap();
        (step.certain, step.is_judged)
    };
    assert_eq!((step(5), step(100)), ((false, false), (true, true)));
}

/// A rank whose calls are each of a communicator, and of a size, of their own. The first takes the most time.
fn scattered(calls: u32, steps: u32) -> Timeline {
    let mut timeline = Timeline { source: "test".to_owned(), ..Timeline::default() };
    let (step, operation) = (timeline.names.intern("step"), timeline.names.intern("all_reduce"));
    let mut rank = trace::timeline::RankTimeline::default();
    let in_step = i64::from(calls / steps.max(1)) * 10_000;
    (0..steps).for_each(|number| {
        rank.push(Kind::Step, step, number, i64::from(number) * in_step, i64::from(number + 1) * in_step)
    });
    for call in 0..calls {
        let begin = i64::from(call) * 10_000;
        let group = timeline.names.intern(&format!("g{call}"));
        let known = CollectiveCall {
            operation,
            group,
            sequence: None,
            ranks: Some(2),
            bytes: Some(u64::from(call)),
            input_bytes: None,
            dtype: None,
            synchronises: true,
            first_byte_ns: None,
        };
        rank.push_call(1, begin, begin + 9_000 - i64::from(call), known);
    }
    rank.sort();
    timeline.ranks.push(rank);
    timeline
}

#[test]
fn operations_beyond_what_is_listed_are_counted() {
    let said = |analysis: &Analysis, what: &str| {
        let note =
            format!("4096 of 5000 {what} are listed, those with the most time; the others are in the trace alone");
        assert_eq!(analysis.notes.iter().filter(|known| **known == note).count(), 1, "{note}: {:?}", analysis.notes);
    };
    let analysis = analyse_default(&scattered(5_000, 1));
    let found = &analysis.collectives;
    assert_eq!((found.operations.len(), found.operations_left_out), (4_096, 904));
    assert_eq!((found.communicators.len(), found.sizes_left_out), (4_096, 904));
    assert_eq!((analysis.exchanges.len(), analysis.exchanges_left_out), (4_096, 904));
    assert_eq!(found.operations[0].group, "g0", "the one with the most time");
    assert!(found.operations.iter().all(|one| one.group != "g4999") && found.matched == 5_000);
    for what in ["operations on a communicator", "sizes of messages on a communicator", "exchanges"] {
        said(&analysis, what);
    }
    // Without steps, call by call.
    let analysis = analyse_default(&scattered(5_000, 0));
    assert_eq!((analysis.calls.len(), analysis.calls_left_out, analysis.calls[0].group.as_str()), (4_096, 904, "g0"));
    said(&analysis, "operations, by communicator and size,");
    // What a few have stays as it was: nothing is said, and no member is added.
    let few = analyse_default(&scattered(50, 1));
    let text = serde_json::to_string(&few).unwrap();
    assert!(!text.contains("left_out") && !few.notes.iter().any(|note| note.contains("listed")), "{:?}", few.notes);
}

#[test]
fn an_operation_that_one_trace_may_leave_out_is_no_difference() {
    let (before, after) = (analyse_default(&scattered(5_000, 1)), analyse_default(&scattered(50, 1)));
    let names: Vec<String> = differences(&before, &after).into_iter().map(|one| one.name).collect();
    assert!(
        names.iter().any(|name| name == "all_reduce on g0") && !names.iter().any(|name| name == "all_reduce on g99")
    );
}
