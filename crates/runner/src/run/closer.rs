//! A closer look at cases that are slow for a reason which their lines do not show, once all are measured: their steps are
//! recorded, so that what limits them can be explained. Nothing of it counts as a trial.

use std::time::{Duration, Instant};

use measure::{CaseRun, Settings};
use record::{Case, CaseLine, StoreError};
use terms::Status;

use super::RunState;
use crate::admission;

/// Seconds that a look samples before it records steps, and that it records at least.
const LOOK_S: f64 = 4.0;
/// Steps that it makes at least, recorded or not.
const STEPS: f64 = 32.0;

impl RunState<'_> {
    /// Records steps of the cases that their benchmarks name. A look that fails takes nothing from the results.
    pub(super) fn look_closer(&mut self) -> Result<(), StoreError> {
        if self.setup.plan.profiling {
            return Ok(());
        }
        let known: Vec<&CaseLine> = self.lines.iter().chain(self.setup.before).collect();
        let ok: Vec<&CaseLine> = known.into_iter().filter(|line| line.status == Status::Ok).collect();
        let wanted: Vec<(Case, f64)> = benchmarks::all()
            .flat_map(|benchmark| benchmark.unexplained(&ok))
            .filter_map(|id| {
                let case = self.cases.get(&id).filter(|case| !case.flag("quick"))?;
                let step_s = ok.iter().find(|line| line.id == id)?.time_s.as_ref()?.median;
                Some((case.clone(), 2.0 * LOOK_S.max(STEPS * step_s)))
            })
            .collect();
        let total = wanted.len();
        for (number, (case, takes_s)) in (1..).zip(&wanted) {
            self.interrupted = self.interrupted.take().or_else(self.setup.interrupted);
            let ends = Instant::now() + Duration::from_secs_f64(takes_s.min(86_400.0));
            if self.interrupted.is_some() || self.setup.deadline.is_some_and(|deadline| ends > deadline) {
                break;
            }
            self.setup.observer.looks_closer(case, number, total);
            self.look_at(case)?;
        }
        self.worlds.end();
        Ok(())
    }

    fn look_at(&mut self, case: &Case) -> Result<(), StoreError> {
        let several = self.setup.starter.several();
        self.worlds.make_room(case, &self.setup.host, several, super::START);
        if !self.worlds.hold(case) && admission::admit(case, &self.setup.host).is_err() {
            return Ok(());
        }
        let settings = Settings {
            traced: true,
            trials: Some(1),
            max_seconds: LOOK_S,
            spacing: Duration::ZERO,
            limits: false,
            ..Settings::from_case(case)
        };
        let mut run = CaseRun::new(case, settings, false);
        match self.in_world(case, &mut run) {
            Ok(()) => self.trace(&run)?,
            Err(verdict) if verdict.kind == measure::VerdictKind::Interrupted => {
                self.interrupted = Some(verdict.error.what);
            }
            Err(verdict) => self.setup.observer.remarks(&format!(
                "steps of a case with {} ranks were not recorded: {}",
                case.ranks(),
                verdict.error.on_one_line()
            )),
        }
        self.worlds.release(&case.id, super::START);
        Ok(())
    }
}
