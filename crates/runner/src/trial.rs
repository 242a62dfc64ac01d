//! One case run once, without a record: whether it can run here and gives the right answer.

use std::time::Duration;

use benchmarks::{Host, cores_wanted, is_simulated};
use measure::{CaseRun, Circumstances, Round, Settings, Starter, Verdict, WorldSpec, case_line};
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
        Err(verdict) => CaseLine { simulated, ..CaseLine::unmeasured(case, Status::Failed, verdict.error.what) },
    }
}

#[cfg(test)]
mod tests {
    use measure::World;

    use super::*;

    /// Starts no processes: the tests' backend is in this one.
    struct Nobody;

    impl Starter for Nobody {
        fn start(&mut self, _spec: &WorldSpec) -> Result<Box<dyn World>, Verdict> {
            panic!("no process is to be started")
        }
    }

    fn line(fields: &[(&str, &str)]) -> CaseLine {
        let common = [("op", "all_reduce"), ("backend", "sim"), ("ranks", "2"), ("bytes", "4KiB"), ("iters", "6")];
        let fields: Vec<_> =
            common.iter().chain(fields).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let plan = record::plan::from_flags(benchmarks::abouts()[0], &fields, &[]).unwrap();
        let host =
            Host { spread: None, cores: 2, available_memory: || Some(1 << 30), virtualised: false, launched: None };
        trial(&plan.cases[0], &host, &mut Nobody, Duration::from_secs(20), || None)
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
        let host =
            Host { spread: None, cores: 2, available_memory: || Some(1 << 30), virtualised: false, launched: None };
        let line = trial(&plan.cases[0], &host, &mut Nobody, Duration::from_secs(20), || None);
        assert_eq!(line.status, Status::Skipped);
        assert!(line.reason.is_some_and(|reason| reason.contains("not enough memory")));
    }
}
