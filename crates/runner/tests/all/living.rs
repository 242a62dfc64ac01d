//! Worlds that stay alive while other cases are visited: some die meanwhile, and others hold memory that a case needs.

use std::cell::Cell;
use std::time::Duration;

use benchmarks::Host;
use measure::{Command, Reply, Starter, Verdict, VerdictKind, World, WorldSpec};
use record::Caveat;
use runner::ThreadWorld;
use terms::Status;

use crate::plans::{HOST, plan, run_after, run_with};

/// Two implementations of two workloads: they alternate in two worlds.
const PAIRS: &str =
    "op: all_reduce, backend: [reference, shm], ranks: 2, bytes: [1KB, 2KB], trials: 2, spacing: 0s, iters: 6";

thread_local! {
    /// Worlds that the starter of this test has alive.
    static ALIVE: Cell<usize> = const { Cell::new(0) };
}

/// A world that dies when it is spoken to after so many finished cases.
struct Mortal {
    world: ThreadWorld,
    cases_left: Option<u32>,
}

impl World for Mortal {
    fn command(&mut self, command: &Command, limit: Duration) -> Result<Vec<Reply>, Verdict> {
        if self.cases_left == Some(0) {
            let message = "rank 1 was killed by signal 9".to_owned();
            return Err(Verdict::new(VerdictKind::Died, message).ranks([1]));
        }
        if *command == Command::Finish {
            self.cases_left = self.cases_left.map(|left| left - 1);
        }
        self.world.command(command, limit)
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        ALIVE.set(ALIVE.get() - 1);
    }
}

/// The first of its worlds lives for so many cases, all others for ever.
#[derive(Default)]
struct Mortals {
    first_lives_for: Option<u32>,
    /// Whether there can be one world only, as under an external launcher.
    once: bool,
    started: usize,
    most_alive: usize,
}

impl Starter for Mortals {
    fn start(&mut self, spec: &WorldSpec) -> Result<Box<dyn World>, Verdict> {
        if self.once && self.started > 0 {
            let message = "an earlier case initialised MPI".to_owned();
            return Err(Verdict::new(VerdictKind::NeedsRelaunch, message));
        }
        let world = ThreadWorld::start(spec, Duration::from_secs(60), || None)?;
        let cases_left = self.first_lives_for.filter(|_| self.started == 0);
        self.started += 1;
        ALIVE.set(ALIVE.get() + 1);
        self.most_alive = self.most_alive.max(ALIVE.get());
        Ok(Box::new(Mortal { world, cases_left }))
    }

    fn several(&self) -> bool {
        !self.once
    }
}

#[test]
fn a_world_that_dies_while_others_run_is_started_again() {
    let mut starter = Mortals { first_lives_for: Some(1), ..Mortals::default() };
    let outcome = run_with(&plan(PAIRS), &mut starter, HOST);
    assert_eq!((starter.started, starter.most_alive), (2 * 2 + 1, 2), "two a round, and one again");
    assert!(outcome.lines.iter().all(|line| (line.status, line.trials) == (Status::Ok, Some(2))));
    let again: Vec<_> = outcome.lines.iter().filter(|line| line.caveats.contains(&Caveat::Restarted)).collect();
    assert_eq!(again.len(), 1);
    let reason = again[0].reason.as_deref();
    assert_eq!(reason, Some("while other cases ran, rank 1 was killed by signal 9; started again"));
}

#[test]
fn a_world_that_cannot_be_started_again_costs_its_case_and_the_death_is_named() {
    let mut starter = Mortals { first_lives_for: Some(3), once: true, ..Mortals::default() };
    let text = "op: all_reduce, backend: shm, ranks: 2, bytes: [1KB, 2KB], trials: 3, spacing: 0s, iters: 6";
    let outcome = run_with(&plan(text), &mut starter, HOST);
    let reasons: Vec<_> = outcome.lines.iter().map(|line| line.reason.as_deref().unwrap_or("")).collect();
    let named = |reason: &&&str| reason.contains("rank 1 was killed by signal 9; its world cannot be started again");
    assert_eq!(reasons.iter().filter(named).count(), 1, "{reasons:?}");
    let failed = outcome.lines.iter().find(|line| line.status == Status::Failed).unwrap();
    assert!(failed.reason.as_deref().unwrap().starts_with("trial 2: rank 1 was killed"), "{reasons:?}");
    // The other one keeps what was measured before.
    let other = outcome.lines.iter().find(|line| line.status == Status::Ok).unwrap();
    assert!(other.trials.unwrap() >= 1, "{reasons:?}");
}

#[test]
fn a_world_that_needs_new_ranks_of_the_launcher_stays_open_and_earlier_trials_stand() {
    let plan = plan("op: all_reduce, backend: [reference, shm], ranks: 2, bytes: 1KB, trials: 1, iters: 6");
    let once = || Mortals { once: true, ..Mortals::default() };
    let outcome = run_with(&plan, &mut once(), HOST);
    let statuses = |lines: &[record::CaseLine]| lines.iter().map(|line| line.status).collect::<Vec<_>>();
    assert_eq!(statuses(&outcome.lines), [Status::Ok, Status::NotRun], "`--resume` runs the rest");
    assert_eq!(outcome.lines[1].reason.as_deref(), Some("an earlier case initialised MPI"));
    // An earlier run made some of the trials of the second case.
    let measured = run_with(&plan, &mut Mortals::default(), HOST).lines.remove(1);
    let outcome = run_after(std::slice::from_ref(&measured), &plan, &mut once(), (HOST, 1), None);
    assert_eq!(statuses(&outcome.written), [Status::Ok], "nothing takes the place of the second one's line");
    assert_eq!(outcome.written[0].id, plan.cases[0].id);
}

#[test]
fn a_world_gives_way_to_cases_that_lack_its_memory() {
    let free = || Some(if ALIVE.get() > 0 { 0 } else { u64::MAX });
    let mut starter = Mortals::default();
    // One size, so that no case follows another in its own world: that world's memory would be missing, too.
    let plan = plan(&PAIRS.replace("[1KB, 2KB]", "1KB"));
    let outcome = run_with(&plan, &mut starter, Host { available_memory: free, ..HOST });
    assert!(outcome.lines.iter().all(|line| (line.status, line.trials) == (Status::Ok, Some(2))));
    assert_eq!((outcome.lines.len(), starter.started, starter.most_alive), (2, 4, 1));
}

#[test]
fn trainers_stay_prepared_from_round_to_round() {
    let text = "experiment: test\ncases:\n  - {benchmark: training, model: mlp, layers: 1, width: 8, features: 4, \
                classes: 2, batch: [2, 4], steps: 2, optimizer: sgd, trials: 3, spacing: 0s}\n";
    let plan = record::plan::read(text, "test.yaml", &benchmarks::abouts(), &[]).unwrap();
    let mut starter = Mortals::default();
    let outcome = run_with(&plan, &mut starter, HOST);
    assert_eq!((starter.started, starter.most_alive), (2, 2), "a world each, for the whole run");
    for line in &outcome.lines {
        assert_eq!((line.status, line.trials, line.samples), (Status::Ok, Some(3), Some(6)), "{:?}", line.reason);
        assert_eq!(line.worlds, Some(record::WorldUse::Kept));
        assert_eq!(line.metrics["loss"].as_array().unwrap().len(), 2, "the losses of the first trial");
    }
    let once = record::plan::read(&text.replace("trials: 3", "trials: 1"), "test.yaml", &benchmarks::abouts(), &[]);
    let first = run_with(&once.unwrap(), &mut Mortals::default(), HOST);
    let losses = |lines: &[record::CaseLine]| {
        let batch_and_loss =
            |line: &record::CaseLine| (line.parameters["batch"].to_string(), line.metrics["loss"].to_string());
        let mut losses: Vec<_> = lines.iter().map(batch_and_loss).collect();
        losses.sort();
        losses
    };
    assert_eq!(losses(&outcome.lines), losses(&first.lines), "later trials go on from there");
}

#[test]
fn trainers_that_memory_does_not_admit_are_prepared_again() {
    let text = "experiment: test\ncases:\n  - {benchmark: training, model: mlp, layers: 1, width: 8, features: 4, \
                classes: 2, batch: [2, 4], steps: 2, optimizer: sgd, trials: 3, spacing: 0s}\n";
    let plan = record::plan::read(text, "test.yaml", &benchmarks::abouts(), &[]).unwrap();
    let free = || Some(if ALIVE.get() > 0 { 0 } else { u64::MAX });
    let mut starter = Mortals::default();
    let outcome = run_with(&plan, &mut starter, Host { available_memory: free, ..HOST });
    assert_eq!(starter.most_alive, 1);
    assert!(outcome.lines.iter().all(|line| (line.status, line.trials) == (Status::Ok, Some(3))));
}
