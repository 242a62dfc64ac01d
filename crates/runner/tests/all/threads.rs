//! Worlds in threads: what fails is named, and nothing waits for ever.

use std::time::{Duration, Instant};

use measure::{Command, Probe, SampleRequest, VerdictKind, World, WorldSpec};
use runner::ThreadWorld;
use terms::{Mode, Rank};

use crate::plans;

fn world(flags: &[(&str, &str)]) -> (ThreadWorld, record::Case) {
    let case = plans::case(flags).expect("a case");
    let spec = WorldSpec { ranks: case.ranks(), fields: case.world.to_map() };
    (ThreadWorld::start(&spec, Duration::from_secs(60), || None).expect("a world"), case)
}

#[test]
fn a_case_past_its_deadline_ends_with_its_world() {
    // Each operation takes rank 1 a tenth of a second longer; a thousand samples would take minutes.
    for backend in ["shm", "reference"] {
        let begun = Instant::now();
        let (mut world, case) = world(&[
            ("op", "all_reduce"),
            ("backend", backend),
            ("inject", "delay:rank=1,time=100ms"),
            ("bytes", "4KiB"),
        ]);
        world.prepare(&case, true, Duration::from_secs(20)).expect("two calls");
        let request = SampleRequest { mode: Mode::Streaming, samples: 1_000, calls: 1 };
        let verdict = world.sample(request, Duration::from_millis(150)).expect_err("too late");
        assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::Hung, &[Rank(0), Rank(1)][..]));
        assert_eq!(verdict.error.what, "ranks 0, 1 (threads) did not answer in time");
        drop(world);
        assert!(begun.elapsed() < Duration::from_secs(15), "{backend}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_world_without_a_case_refuses_and_lives() {
    let (mut world, case) = world(&[("op", "barrier"), ("backend", "sim")]);
    let limit = Duration::from_secs(10);
    let verdict = world.check(limit).expect_err("no case");
    assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::Refused, &[Rank(0), Rank(1)][..]));
    assert_eq!(verdict.error.what, "ranks 0, 1: no case is prepared");
    world.prepare(&case, true, limit).expect("it lives");
    assert!(world.command(&Command::Probe(Probe::Overhead), limit).is_ok());
}
