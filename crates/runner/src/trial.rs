//! One case run once, without a record: whether it can run here and gives the right answer.

use std::time::Duration;

use benchmarks::{Host, cores_wanted, is_simulated};
use measure::{CaseRun, Circumstances, Round, Settings, Starter, Verdict, VerdictKind, WorldSpec, case_line};
use record::{Case, CaseLine};
use terms::Status;

use crate::admission::admit;
use crate::driver::start;

/// Runs a case as [`crate::run()`] does, in a world of its own, and gives its line: `ok` with `wrong` 0, or the reason why
/// not. A world that has not come up after `limit` has failed. Nothing is written.
pub fn trial(
    case: &Case,
    host: &Host,
    starter: &mut dyn Starter,
    limit: Duration,
    interrupted: fn() -> Option<String>,
) -> CaseLine {
    let simulated = is_simulated(case);
    let parsed = match admit(case, host) {
        Ok(parsed) => parsed,
        Err(reason) => return CaseLine { simulated, ..CaseLine::unmeasured(case, Status::Skipped, reason) },
    };
    let settings = Settings { trials: Some(1), ..crate::settings_of(case, parsed.trial_cost()) };
    let mut run = CaseRun::new(case, settings, simulated);
    let mut visit = || -> Result<(), Verdict> {
        let spec = WorldSpec { ranks: case.ranks(), fields: case.world.to_map() };
        let mut world = start(case, (&spec, limit), starter, interrupted)?;
        run.visit(&mut *world, Round { fresh: true, ..Round::default() }, &mut |_, _| ())
    };
    match visit() {
        Ok(()) => {
            let oversubscribed = !simulated && cores_wanted(case.ranks(), &case.world) > host.cores;
            let about = Circumstances { oversubscribed, simulated, virtualised: host.virtualised, open: false };
            case_line(&run, about)
        }
        Err(verdict) => {
            let status = if verdict.kind == VerdictKind::Lacking { Status::Skipped } else { Status::Failed };
            CaseLine { simulated, ..CaseLine::unmeasured(case, status, verdict.error.what) }
        }
    }
}

#[cfg(test)]
mod tests {
    use measure::{Command, Reply, World};

    use super::*;

    const HOST: Host =
        Host { spread: None, cores: 2, available_memory: || Some(1 << 30), virtualised: false, launched: None };

    /// Starts no processes: the tests' backend is in this one.
    struct Nobody;

    impl Starter for Nobody {
        fn start(&mut self, _spec: &WorldSpec) -> Result<Box<dyn World>, Verdict> {
            panic!("no process is to be started")
        }
    }

    /// Ranks that come up, and then lack something.
    struct Lacks;

    impl Starter for Lacks {
        fn start(&mut self, _spec: &WorldSpec) -> Result<Box<dyn World>, Verdict> {
            Ok(Box::new(Self))
        }
    }

    impl World for Lacks {
        fn command(&mut self, _command: &Command, _limit: Duration) -> Result<Vec<Reply>, Verdict> {
            Err(Verdict::new(VerdictKind::Lacking, "rank 0: not enough memory on the device"))
        }
    }

    fn line(fields: &[(&str, &str)]) -> CaseLine {
        let common = [("op", "all_reduce"), ("backend", "sim"), ("ranks", "2"), ("bytes", "4KiB"), ("iters", "6")];
        let fields: Vec<_> =
            common.iter().chain(fields).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let plan = record::plan::from_flags(benchmarks::abouts()[0], &fields, &[]).unwrap();
        trial(&plan.cases[0], &HOST, &mut Nobody, Duration::from_secs(20), || None)
    }

    #[test]
    fn a_right_answer_is_ok_and_a_wrong_one_is_not() {
        let right = line(&[]);
        assert_eq!((right.status, right.wrong, right.simulated), (Status::Ok, Some(0), true), "{:?}", right.reason);
        let wrong = line(&[("inject", "wrong:rank=1,element=0,at=0,every=1")]);
        assert_eq!(wrong.status, Status::Failed, "{wrong:?}");
        assert!(wrong.wrong.is_some_and(|wrong| wrong > 0), "{:?}", wrong.reason);
    }

    #[test]
    fn what_cannot_run_here_is_skipped_with_the_reason() {
        // A slower link has ranks, and these have buffers.
        let paced = ("pace_bandwidth", "1GB/s");
        let fields = [("op", "all_reduce"), ("backend", "sim"), ("ranks", "2"), ("bytes", "100GiB"), paced];
        let plan = record::plan::from_flags(benchmarks::abouts()[0], &fields, &[]).unwrap();
        let line = trial(&plan.cases[0], &HOST, &mut Nobody, Duration::from_secs(20), || None);
        assert_eq!(line.status, Status::Skipped);
        assert!(line.reason.is_some_and(|reason| reason.contains("not enough memory")));
    }

    #[test]
    fn what_ranks_lack_is_skipped_as_in_a_run() {
        let fields =
            [("op", "all_reduce"), ("backend", "reference"), ("ranks", "2"), ("bytes", "4KiB"), ("iters", "6")];
        let plan = record::plan::from_flags(benchmarks::abouts()[0], &fields, &[]).unwrap();
        let line = trial(&plan.cases[0], &HOST, &mut Lacks, Duration::from_secs(20), || None);
        let reason = line.reason.as_deref();
        assert_eq!((line.status, reason), (Status::Skipped, Some("rank 0: not enough memory on the device")));
    }
}
