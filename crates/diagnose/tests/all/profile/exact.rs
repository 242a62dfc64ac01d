//! Timelines without noise, so every figure is known exactly.

use super::simulation::{Fault, PHASES, Scenario, TRANSFER};
use diagnose::profile::{FindingKind, Phase, Pipeline, Settings, analyse, differences};
use trace::timeline::{CollectiveCall, Kind, RankTimeline, Span, Timeline};

use super::{STEP_S, analysed, close, delay, planted};

#[test]
fn a_straggler_is_found_in_each_phase() {
    for (phase, ..) in PHASES {
        let analysis = analysed(&planted(vec![delay(2, phase, 0.02)]));
        let straggler = analysis.straggler.as_ref().unwrap_or_else(|| panic!("{phase:?}: {:?}", analysis.notes));
        assert_eq!((straggler.rank, straggler.phase, straggler.persistent), (2, phase, true));
        close(straggler.lost_s_per_step, 0.02 * STEP_S);
        close(straggler.share, 0.02 / 1.02);
        assert!(straggler.ci95[0] <= straggler.share && straggler.share <= straggler.ci95[1]);
        close(straggler.blame.unwrap(), 1.0);
        assert_eq!(analysis.stragglers.len(), 1);
        let finding = &analysis.findings.iter().find(|finding| finding.kind == FindingKind::Straggler).unwrap();
        assert_eq!((finding.evidence.rank, finding.confidence.word), (Some(2), "high"));
    }
}

#[test]
fn two_stragglers_are_found_with_their_phases() {
    let analysis = analysed(&planted(vec![delay(1, Phase::Input, 0.05), delay(3, Phase::Forward, 0.03)]));
    let found: Vec<(u32, Phase)> = analysis.stragglers.iter().map(|one| (one.rank, one.phase)).collect();
    assert_eq!(found, [(1, Phase::Input), (3, Phase::Forward)]);
}

#[test]
fn a_delay_below_the_minimum_and_equal_ranks_name_nobody() {
    for faults in [Vec::new(), vec![delay(2, Phase::Forward, 0.004)]] {
        let analysis = analysed(&planted(faults));
        assert_eq!((&analysis.straggler, &analysis.rotating), (&None, &None));
        assert_eq!(analysis.straggler_abstains, None);
        assert!(serde_json::to_value(&analysis).unwrap()["straggler"].is_null());
    }
}

#[test]
fn intermittent_and_rotating_delays_are_told_apart() {
    let every = |rank, every| super::simulation::Fault { every, ..delay(rank, Phase::Backward, 0.3) };
    let scenario = |faults| Scenario { steps: 400, ..planted(faults) };
    let some = analysed(&scenario(vec![every(1, 5)])).straggler.unwrap();
    assert_eq!((some.rank, some.phase, some.persistent), (1, Phase::Backward, false));
    close(some.lost_s_per_step, 0.3 / 5.0 * STEP_S);
    let target = super::simulation::Target::Rotating;
    let rotating = analysed(&scenario(vec![super::simulation::Fault { target, ..every(0, 3) }]));
    assert_eq!(rotating.straggler, None, "{:?}", rotating.stragglers);
    assert_eq!(rotating.rotating.unwrap().ranks, [0, 1, 2, 3]);
}

#[test]
fn phases_add_up_to_the_step() {
    let analysis = analysed(&planted(vec![delay(0, Phase::Host, 0.1)]));
    assert_eq!((analysis.steps.numbers.len(), analysis.steps.warm_up), (40, Some(0)));
    for rank in &analysis.steps.ranks {
        for step in 0..40 {
            let parts = [&rank.input, &rank.forward, &rank.backward, &rank.optimizer, &rank.wait, &rank.other];
            close(parts.iter().map(|part| part.values[step]).sum(), rank.total.values[step]);
        }
    }
    close(analysis.steps.step.median.unwrap(), 1.1 * STEP_S);
    close(analysis.steps.ranks[1].input.median.unwrap(), 0.08 * STEP_S);
    let parts = analysis.parts;
    let sum = parts.compute_s + parts.input_s + parts.host_s + parts.transfer_s + parts.arrival_wait_s + parts.bubble_s;
    close(sum, 1.1 * STEP_S);
    close(parts.transfer_s, TRANSFER * STEP_S);
    close(parts.arrival_wait_s, 0.75 * 0.1 * STEP_S);
}

#[test]
fn waiting_for_data_is_a_finding() {
    let faults = (0..4).map(|rank| delay(rank, Phase::Input, 0.4)).collect();
    let analysis = analysed(&planted(faults));
    assert_eq!(analysis.straggler, None);
    let first = &analysis.findings[0];
    assert_eq!((first.kind, first.confidence.value), (FindingKind::InputBound, 0.99));
    close(first.saves_s_per_step, 0.48 * STEP_S);
    assert!(first.what.contains("34%"), "{}", first.what);
}

#[test]
fn collectives_have_transfer_wait_and_sizes() {
    let mut scenario = planted(vec![delay(2, Phase::Backward, 0.1)]);
    let analysis = analysed(&scenario);
    let [all_reduce] = analysis.collectives.operations.as_slice() else { panic!() };
    assert_eq!((all_reduce.operation.as_str(), all_reduce.calls_per_step), ("all_reduce", 1.0));
    close(all_reduce.transfer_s.as_ref().unwrap().median.unwrap(), TRANSFER * STEP_S);
    close(all_reduce.wait_s.as_ref().unwrap().median.unwrap(), 0.75 * 0.1 * STEP_S);
    close(all_reduce.arrival_wait_s.as_ref().unwrap().median.unwrap(), 0.75 * 0.1 * STEP_S);
    let world = &analysis.collectives.communicators[0];
    assert_eq!((world.ranks, world.sizes.len(), world.sizes[0].bytes), (4, 1, Some(1 << 26)));
    // Without aligned clocks the same is known, but for the arrivals and the critical path.
    scenario.aligned = false;
    let apart = analysed(&scenario);
    assert_eq!(apart.straggler, analysis.straggler);
    close(apart.collectives.operations[0].wait_s.as_ref().unwrap().median.unwrap(), 0.75 * 0.1 * STEP_S);
    assert_eq!(apart.collectives.operations[0].arrival_wait_s, None);
    assert!(apart.critical_path.is_none() && apart.critical_path_abstains.unwrap().contains("not aligned"));
}

#[test]
fn the_critical_path_goes_through_the_straggler() {
    let analysis = analysed(&planted(vec![delay(2, Phase::Forward, 0.1)]));
    let path = analysis.critical_path.unwrap();
    close(path.length_s, 1.1 * STEP_S);
    close(path.parts.iter().map(|part| part.s_per_step).sum(), path.length_s);
    let time_of = |rank, kind| {
        let found = path.parts.iter().find(|part| part.rank == rank && part.kind == kind);
        found.map_or(0.0, |part| part.s_per_step)
    };
    close(time_of(2, Kind::Forward), 0.37 * STEP_S);
    close(time_of(2, Kind::Backward), 0.45 * STEP_S);
    close(time_of(0, Kind::Forward) + time_of(1, Kind::Forward) + time_of(3, Kind::Forward), 0.0);
    let transfer: f64 = (0..4).map(|rank| time_of(rank, Kind::Collective)).sum();
    close(transfer, TRANSFER * STEP_S);
}

/// One rank with steps of 100 us that hold these spans: kind, queue, beginning and end in microseconds, name.
fn one_rank(spans: &[(Kind, u32, i64, i64, &str)]) -> Timeline {
    let mut timeline = Timeline::default();
    let mut rank = RankTimeline::default();
    for step in 0..50 {
        let (zero, name) = (step * 100_000, timeline.names.intern("step"));
        rank.push(Kind::Step, name, step as u32, zero, zero + 100_000);
        for (kind, queue, begin, end, name) in spans {
            let (begin_ns, end_ns, name) = (zero + begin * 1_000, zero + end * 1_000, timeline.names.intern(name));
            if *kind == Kind::Collective {
                let group = timeline.names.intern("world");
                let synchronises = trace::timeline::synchronises(timeline.names.get(name));
                let (ranks, bytes) = (Some(2), Some(1_024));
                let call = CollectiveCall {
                    operation: name,
                    group,
                    sequence: None,
                    ranks,
                    bytes,
                    input_bytes: None,
                    dtype: None,
                    synchronises,
                    first_byte_ns: None,
                };
                rank.push_call(*queue, begin_ns, end_ns, call);
            } else {
                let collective = trace::timeline::NO_CALL;
                rank.spans.push(Span { begin_ns, end_ns, kind: *kind, queue: *queue, name, number: 0, collective });
            }
        }
    }
    rank.sort();
    timeline.ranks = vec![rank];
    timeline
}

#[test]
fn overlapped_communication_is_measured_by_unions() {
    let analysis = analyse(
        &one_rank(&[
            (Kind::Forward, 0, 0, 40, "forward"),
            (Kind::Backward, 0, 40, 90, "backward"),
            // Two that overlap each other count once.
            (Kind::Collective, 1, 50, 80, "all_reduce"),
            (Kind::Collective, 2, 60, 98, "all_gather"),
            (Kind::Wait, 0, 85, 98, "wait"),
        ]),
        &Settings::default(),
    );
    close(analysis.overlap.comm_s.median.unwrap(), 48e-6);
    close(analysis.overlap.exposed_s.median.unwrap(), 13e-6);
    close(analysis.overlap.overlapped_share.unwrap(), 35.0 / 48.0);
    close(analysis.steps.ranks[0].backward.median.unwrap(), 45e-6);
    assert!(analysis.findings.iter().any(|finding| finding.kind == FindingKind::ExposedCommunication));
}

#[test]
fn idle_time_of_a_device_has_its_causes() {
    let analysis = analyse(
        &one_rank(&[
            (Kind::Input, 0, 0, 10, "input"),
            (Kind::Forward, 0, 10, 60, "forward"),
            (Kind::Kernel, 7, 20, 30, "gemm"),
            (Kind::Kernel, 7, 40, 70, "gemm"),
            (Kind::Kernel, 8, 60, 75, "norm"),
            (Kind::Collective, 9, 65, 90, "all_reduce"),
        ]),
        &Settings::default(),
    );
    let idle = analysis.idle.unwrap();
    close(idle.idle_s.median.unwrap(), 55e-6);
    close(idle.input_s.median.unwrap(), 10e-6);
    close(idle.host_bound_s.median.unwrap(), 20e-6);
    close(idle.communication_s.median.unwrap(), 15e-6);
    close(idle.other_s.median.unwrap(), 10e-6);
    let [gemm, norm] = analysis.kernels.as_slice() else { panic!() };
    // The first of 50 steps is warm-up.
    assert_eq!((gemm.name.as_str(), gemm.count, norm.count), ("gemm", 98, 49));
    close(gemm.share, 40.0 / 55.0);
    close(gemm.total_s, 49.0 * 40e-6);
    close(analysis.overlap.overlapped_share.unwrap(), 10.0 / 25.0);
    assert!(analysis.findings.iter().any(|finding| finding.kind == FindingKind::HostBoundDevice));
}

#[test]
fn data_that_a_device_computes_over_costs_only_the_rest() {
    let spans = [
        // The host waits for data from 0 to 70; the device still computes the step before until 40.
        (Kind::Input, 0, 0, 70, "input"),
        (Kind::Forward, 0, 70, 80, "forward"),
        (Kind::Kernel, 7, 0, 40, "gemm"),
        (Kind::Kernel, 7, 80, 100, "gemm"),
    ];
    let analysis = analyse(&one_rank(&spans), &Settings::default());
    let input = analysis.findings.iter().find(|finding| finding.kind == FindingKind::InputBound).unwrap();
    close(input.saves_s_per_step, 30e-6);
    assert!(input.what.contains("30%"), "{}", input.what);
    close(analysis.parts.input_s, input.saves_s_per_step);
    close(analysis.steps.ranks[0].input.median.unwrap(), 70e-6);
}

#[test]
fn a_slow_device_is_named() {
    let with = |end: i64| {
        one_rank(&[
            (Kind::Forward, 0, 0, 10, "forward"),
            (Kind::Host, 0, 10, 95, "synchronize"),
            (Kind::Kernel, 7, 20, end, "gemm"),
            (Kind::Collective, 9, end, 90, "all_reduce"),
        ])
    };
    let (mut timeline, mut slow) = (with(60), with(80));
    slow.ranks[0].rank = 1;
    timeline.ranks.append(&mut slow.ranks);
    let analysis = analyse(&timeline, &Settings::default());
    let straggler = analysis.straggler.unwrap();
    assert_eq!((straggler.rank, straggler.phase), (1, Phase::Device));
    close(straggler.lost_s_per_step, 20e-6);
    close(straggler.blame.unwrap(), 1.0);
    close(analysis.collectives.operations[0].wait_s.as_ref().unwrap().median.unwrap(), 10e-6);
}

#[test]
fn a_bubble_is_compared_with_its_schedule_and_small_messages_are_counted() {
    let mut spans = vec![(Kind::Forward, 0, 0, 60, "forward"), (Kind::Collective, 0, 60, 80, "recv")];
    spans.extend((0..10).map(|call| (Kind::Collective, 0, 80 + call, 81 + call, "broadcast")));
    let pipeline = Some(Pipeline { stages: 2, micro_batches: 4 });
    let analysis = analyse(&one_rank(&spans), &Settings { pipeline, ..Settings::default() });
    let bubble = analysis.bubble.unwrap();
    close(bubble.measured_share, 0.2);
    close(bubble.theory_share.unwrap(), 0.2);
    close(analysis.parts.bubble_s, 20e-6);
    let found = |kind| analysis.findings.iter().find(|finding| finding.kind == kind).unwrap();
    close(found(FindingKind::PipelineBubble).saves_s_per_step, 20e-6);
    let what = &found(FindingKind::PipelineBubble).what;
    assert_eq!(what, "Pipeline stages wait in send and recv for 20% of a step. The schedule predicts 20% of a step.");
    close(found(FindingKind::SmallMessages).saves_s_per_step, 10e-6);
    assert!(analysis.findings.is_sorted_by(|a, b| a.saves_s_per_step >= b.saves_s_per_step));
}

#[test]
fn what_got_slower_comes_first() {
    let (before, after) = (
        analysed(&planted(Vec::new())),
        analysed(&planted(vec![
            delay(0, Phase::Backward, 0.2),
            delay(1, Phase::Backward, 0.2),
            delay(2, Phase::Backward, 0.2),
            delay(3, Phase::Backward, 0.2),
        ])),
    );
    let found = differences(&before, &after);
    let names: Vec<&str> = found.iter().take(2).map(|difference| difference.name.as_str()).collect();
    assert!(names.contains(&"step") && names.contains(&"backward"), "{names:?}");
    for difference in &found {
        let changed = ["step", "backward"].contains(&difference.name.as_str());
        close(difference.change_s, if changed { 0.2 * STEP_S } else { 0.0 });
        assert_eq!(difference.certain, changed, "{difference:?}");
    }
    let back = differences(&after, &before);
    close(back.last().unwrap().change_s, -0.2 * STEP_S);
}

#[test]
fn a_rank_that_waits_for_a_processor_is_not_slow_but_its_machine_busy() {
    // 5 ms of a step of 100 ms.
    let mut timeline = planted(vec![delay(1, Phase::Forward, 0.05)]).timeline(1);
    let slow = analyse(&timeline, &Settings::default()).straggler.unwrap();
    assert_eq!((slow.rank, slow.phase, slow.descheduled_share), (1, Phase::Forward, None));
    for (rank, waited_ns) in [(0, 100_000), (1, 4_100_000), (2, 100_000), (3, 100_000)] {
        timeline.ranks[rank].descheduled = (0..=40).map(|step| (step, waited_ns)).collect();
    }
    let analysis = analyse(&timeline, &Settings::default());
    assert!(analysis.stragglers.is_empty() && analysis.straggler_at_most.is_none(), "{:?}", analysis.stragglers);
    let [busy] = &analysis.busy[..] else { panic!("{:?}", analysis.busy) };
    assert_eq!(busy.rank, 1);
    close(busy.descheduled_share * analysis.steps.step.mean(), 0.004);
    let of_machine = analysis.findings.iter().find(|finding| finding.kind == FindingKind::BusyMachine).unwrap();
    assert!(
        of_machine.what.contains("waits for a processor") && of_machine.advice.contains("--bind"),
        "{of_machine:?}"
    );
    assert!(!analysis.findings.iter().any(|finding| finding.kind == FindingKind::Straggler));
    // A little of it is not the cause.
    timeline.ranks[1].descheduled = (0..=40).map(|step| (step, 1_100_000)).collect();
    assert_eq!(analyse(&timeline, &Settings::default()).straggler.unwrap().phase, Phase::Forward);
    // Steps that one rank does not count are not known.
    timeline.ranks[3].descheduled.truncate(20);
    assert_eq!(analyse(&timeline, &Settings::default()).straggler.unwrap().descheduled_share, None);
}

#[test]
fn exchanges_of_a_step_stand_in_their_order_and_varying_ones_are_noted() {
    let analysis = analysed(&planted(vec![delay(1, Phase::Forward, 0.05)]));
    let [one] = &analysis.exchanges[..] else { panic!("{:?}", analysis.exchanges) };
    assert_eq!((one.place, one.operation.as_str(), one.bytes), (1, "all_reduce", Some(1 << 26)));
    close(one.transfer_s.unwrap(), TRANSFER * STEP_S);
    // Three of four ranks wait for the fourth.
    close(one.wait_s.unwrap(), 0.75 * 0.05 * STEP_S);
    close(one.time_s, one.transfer_s.unwrap() + one.wait_s.unwrap());
    assert!(!analysis.notes.iter().any(|note| note.contains("varies between steps")), "{:?}", analysis.notes);
    let rare = Fault { every: 3, ..delay(1, Phase::Forward, 0.5) };
    let notes = analysed(&planted(vec![rare])).notes;
    assert!(
        notes.iter().any(|note| note.starts_with("all_reduce of world varies between steps: it takes 5.00 ms")),
        "{notes:?}"
    );
}
