//! A model without ranks: its times are those that ranks in threads show on their simulated clocks, to the nanosecond; and how
//! little it does for many ranks.

use std::time::Duration;

use benchmarks::ModelledWorld;
use measure::{CaseRun, Probe, Round, SampleRequest, Settings, VerdictKind, World, WorldSpec};
use record::{Case, Caveat};
use runner::ThreadWorld;
use terms::{Collective, Mode, Named as _, Status};

use crate::plans::{self, plan, run};

const LIMIT: Duration = Duration::from_secs(60);

fn spec(case: &Case) -> WorldSpec {
    WorldSpec { ranks: case.ranks(), fields: case.world.to_map() }
}

fn modelled(case: &Case) -> ModelledWorld {
    ModelledWorld::new(case, &spec(case), || None).expect("options").expect("a model")
}

/// Calls a sample, messages, samples of each request, arrivals, and missed starts.
type Shown = (u64, u32, Vec<Vec<Vec<u64>>>, Vec<Vec<f64>>, u64);

/// What a world shows in a visit of its own kind.
fn shown(world: &mut dyn World, case: &Case) -> Shown {
    let ready = world.prepare(case, true, LIMIT).expect("two calls");
    let request = |samples, calls| SampleRequest { mode: case.mode(), samples, calls };
    let mut samples = Vec::new();
    for (number, calls) in [(3, 1), (4, 7), (2, 300)] {
        let calls = if case.mode() == Mode::Isolated { 1 } else { calls };
        let taken = world.sample(request(number, calls), LIMIT).expect("samples");
        samples.push(taken.iter().cloned().collect());
    }
    let wrong = world.check(LIMIT).expect("a check");
    assert_eq!(wrong.iter().map(|report| report.count).sum::<u64>(), 0);
    let mut arrivals = world.probe(Probe::Arrivals { operations: 9, stagger_ns: 0 }, LIMIT).expect("times");
    arrivals.extend(world.probe(Probe::Arrivals { operations: 9, stagger_ns: 20_000 }, LIMIT).expect("times"));
    let seen = world.finish(LIMIT).expect("an end");
    let missed = seen.iter().map(|rank| rank.missed_starts).max().unwrap_or(0);
    (ready[0].max_calls, ready[0].messages.max(1), samples, arrivals, missed)
}

#[test]
fn times_are_those_of_ranks_to_the_nanosecond() {
    let mut compared = 0;
    for op in Collective::ALL.iter().map(|op| op.name()) {
        for (mode, inject, more) in [
            ("streaming", "", ("seed", "1")),
            ("isolated", "", ("link_latency", "40us")),
            ("streaming", "delay:rank=1,time=3us", ("touch", "true")),
            ("streaming", "delay:rank=2,time=2us,at=4,every=3", ("noise", "10%")),
            ("isolated", "delay:rank=0,time=700us,at=9,every=2", ("noise", "20%")),
        ] {
            let mut flags = vec![("op", op), ("backend", "sim"), ("ranks", "4"), ("mode", mode), more];
            flags.extend((!inject.is_empty()).then_some(("inject", inject)));
            flags.extend((op != "barrier").then_some(("bytes", "4000")));
            let case = plans::case(&flags).expect("a case");
            let ranks = shown(&mut ThreadWorld::start(&spec(&case), LIMIT, || None).expect("ranks"), &case);
            assert_eq!(shown(&mut modelled(&case), &case), ranks, "{flags:?}");
            compared += 1;
        }
    }
    assert_eq!(compared, 60);
}

/// Cases of one world that need ranks, and that do not, come one after the other.
#[test]
fn a_world_has_ranks_for_the_cases_that_need_them() {
    let text = "op: all_reduce, backend: sim, ranks: 3, bytes: [1KB, 2KB], data: random, reproducible: [true, false], \
                iters: 4, trials: 2";
    let outcome = run(&plan(text));
    assert_eq!(outcome.lines.len(), 4);
    for line in &outcome.lines {
        assert_eq!((line.status, line.wrong, line.samples), (Status::Ok, Some(0), Some(8)), "{:?}", line.reason);
        let needs_ranks = line.parameters.get("reproducible").is_some_and(|given| *given == true);
        assert_eq!(line.metrics.contains_key("same_bits"), needs_ranks, "{line:?}");
    }
    let [fast, slow]: [Vec<f64>; 2] = [false, true].map(|wanted| {
        let of = outcome.lines.iter().filter(|line| line.metrics.contains_key("same_bits") == wanted);
        of.map(|line| line.time_s.as_ref().unwrap().median).collect()
    });
    assert_eq!(fast, slow, "with or without ranks, times are those of the model");
}

/// One sample, one line of it for all ranks, and no thread: counted, because times depend on the machine.
#[test]
fn the_work_does_not_grow_with_the_ranks() {
    let outcome = run(&plan("op: all_reduce, backend: sim, ranks: [2, 1024, 16384], bytes: 1KiB"));
    for line in &outcome.lines {
        assert_eq!((line.status, line.wrong, line.samples), (Status::Ok, Some(0), Some(1)), "{:?}", line.reason);
        assert_eq!(line.caveats, [Caveat::Simulated], "all elements of a call are compared");
        let medians = line.per_rank_median_s.as_ref().map(Vec::len);
        assert_eq!(medians, Some(line.ranks as usize).filter(|ranks| *ranks <= 1024));
    }
    for samples in &outcome.samples {
        assert_eq!((samples.ns.len(), samples.ns[0].len(), samples.rows.len()), (1, 1, 1));
    }
    let noisy = run(&plan("op: all_gather, backend: sim, ranks: 4096, bytes: 64KiB, noise: 5%, noise_seed: 7"));
    let line = &noisy.lines[0];
    assert!(line.trials >= Some(6) && line.time_s.as_ref().is_some_and(|time| time.ci95.is_some()), "{line:?}");
    assert!(noisy.samples.iter().all(|samples| samples.ns.len() == 1 && samples.rows == [[0, 4096]]));
}

#[test]
fn samples_that_the_user_asked_for_are_taken() {
    let outcome = run(&plan("op: send_recv, backend: sim, ranks: 1024, bytes: 1KiB, iters: 300, trials: 3"));
    let line = &outcome.lines[0];
    assert_eq!((line.samples, line.trials, outcome.samples.len()), (Some(900), Some(3), 3));
    assert!(outcome.samples.iter().all(|samples| samples.ns[0].len() == 300));
}

/// A delay of one rank reaches those that wait for it, and the record says of each rank what it had.
#[test]
fn ranks_that_differ_have_rows_of_their_own() {
    let outcome = run(&plan(
        "op: broadcast, backend: sim, ranks: 2000, bytes: 1KiB, iters: 5, warmup: 0, \
         inject: [\"delay:rank=1500,time=1ms,at=0,every=1\"]",
    ));
    let samples = &outcome.samples[0];
    assert_eq!((samples.ns.len(), samples.rows.as_slice()), (2, &[[0, 1500], [1, 1], [0, 499]][..]));
    assert!((0..5).all(|sample| samples.ns[1][sample] - samples.ns[0][sample] == 1_000_000 * samples.calls));
}

#[test]
fn what_is_too_much_to_compare_is_said() {
    let outcome = run(&plan("op: [all_to_all, barrier], backend: sim, ranks: 16384, bytes: 1GiB"));
    for line in &outcome.lines {
        assert_eq!((line.status, line.wrong), (Status::Ok, Some(0)), "{:?}", line.reason);
        assert_eq!(line.caveats, [Caveat::Simulated, Caveat::PartlyChecked]);
        let [compared, of] = ["compared", "of"].map(|name| line.metrics["checked"][name].as_u64().unwrap());
        let is_barrier = line.parameters["op"] == "barrier";
        assert_eq!(of, 16384 * if is_barrier { 16384 } else { 1 << 28 }, "{line:?}");
        assert!((1 << 20..1 << 26).contains(&compared), "{compared}");
    }
}

#[test]
fn a_wrong_element_is_found_wherever_it_is() {
    for (op, rank) in [("all_reduce", 4_095), ("all_to_all", 2_001), ("send_recv", 0)] {
        let outcome = run(&plan(&format!(
            "op: {op}, backend: sim, ranks: 4096, bytes: 16KiB, inject: [\"wrong:rank={rank},element=5\"]"
        )));
        let line = &outcome.lines[0];
        assert_eq!((line.status, line.wrong), (Status::Failed, Some(1)), "{line:?}");
        assert_eq!((line.wrong_elements[0].rank, line.wrong_elements[0].index), (rank, 5));
    }
}

#[test]
fn more_ranks_than_can_be_started_are_refused_unless_none_is() {
    let case = |fields: &[(&str, &str)]| {
        let mut all = vec![("op", "all_reduce"), ("bytes", "1KiB")];
        all.extend(fields);
        plans::case(&all).map_err(|errors| errors.to_string())
    };
    assert!(case(&[("backend", "sim"), ("ranks", "65536")]).is_ok());
    for fields in [
        &[("backend", "shm"), ("ranks", "1025")][..],
        &[("backend", "sim"), ("ranks", "1025"), ("pace_bandwidth", "1GB/s")],
        &[("backend", "sim"), ("ranks", "1025"), ("reproducible", "true"), ("data", "random")],
    ] {
        let why = case(fields).unwrap_err();
        assert!(why.contains("1025 ranks: at most 1024 can be started"), "{why}");
    }
    let threads = case(&[("backend", "sim"), ("ranks", "300"), ("pace_bandwidth", "1GB/s")]).unwrap();
    let why = runner::admit(&threads, &plans::HOST).err().unwrap();
    assert!(why.contains("threads of one process"), "{why}");
}

#[test]
fn a_model_without_a_case_refuses_and_lives() {
    let case = plans::case(&[("op", "barrier"), ("backend", "sim"), ("ranks", "5000")]).expect("a case");
    let mut world = modelled(&case);
    assert_eq!(world.check(LIMIT).expect_err("no case").kind, VerdictKind::Refused);
    let mut run = CaseRun::new(&case, Settings { trials: Some(1), ..Settings::from_case(&case) }, true);
    run.visit(&mut world, Round::default(), &mut |_, _| ()).expect("it lives");
    let request = SampleRequest { mode: Mode::Streaming, samples: 1_000_000_000, calls: 1 };
    world.prepare(&case, false, LIMIT).expect("again");
    let late = world.sample(request, Duration::from_millis(50)).expect_err("too many");
    assert_eq!(late.kind, VerdictKind::Hung);
}
