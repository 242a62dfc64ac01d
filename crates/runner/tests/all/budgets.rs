//! Runs within a budget: what does not fit is left out beforehand, and the rest has its trials.

use std::time::{Duration, Instant};

use measure::{Command, Reply, Starter, Verdict, World, WorldSpec};
use terms::Status;

use crate::plans::{HOST, Threads, plan, run_within};

/// Ranks that take long to prepare a case of these bytes.
struct Slow {
    bytes: u64,
    takes: Duration,
    world: Box<dyn World>,
}

impl World for Slow {
    fn command(&mut self, command: &Command, limit: Duration) -> Result<Vec<Reply>, Verdict> {
        if let Command::Prepare { case, .. } = command
            && case.whole("bytes") == Some(self.bytes)
        {
            std::thread::sleep(self.takes);
        }
        self.world.command(command, limit)
    }
}

/// Starts them.
struct Starts(u64, Duration);

impl Starter for Starts {
    fn start(&mut self, spec: &WorldSpec) -> Result<Box<dyn World>, Verdict> {
        Ok(Box::new(Slow { bytes: self.0, takes: self.1, world: Threads.start(spec)? }))
    }
}

#[test]
fn a_case_whose_trials_do_not_fit_is_left_out_and_the_others_are_whole() {
    let plan = plan(
        "op: all_reduce, backend: reference, ranks: 2, bytes: [64KiB, 1KiB], trials: 6, spacing: 0s, max_seconds: 0.3s, \
         limits: false",
    );
    let begun = Instant::now();
    let mut starts = Starts(64 << 10, Duration::from_millis(900));
    let outcome = run_within(&plan, &mut starts, (HOST, 1), Some(Duration::from_secs(4)));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let of = |bytes: u64| outcome.lines.iter().find(|line| line.bytes == Some(bytes)).unwrap();
    assert_eq!((of(1 << 10).status, of(1 << 10).trials), (Status::Ok, Some(6)), "{:?}", of(1 << 10));
    let left_out = of(64 << 10);
    assert_eq!(left_out.status, Status::NotRun, "{left_out:?}");
    assert!(left_out.reason.as_ref().is_some_and(|why| why.starts_with("left out: 6 trials of ")), "{left_out:?}");
    // The first round is that of the plan, and it is the only one with it.
    assert_eq!(outcome.order.iter().filter(|(id, _)| *id == left_out.id).count(), 1);
    assert_eq!(outcome.order[0].0, left_out.id);
}
