//! A closer look at cases that are slow for a reason which their lines do not show, once all are measured: their steps are
//! recorded, so that what limits them can be explained. Nothing of it counts as a trial.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use benchmarks::ParsedCase;
use measure::{CaseRun, Settings};
use record::{Case, CaseLine, StoreError};
use terms::Status;

use super::RunState;
use crate::admission::Admission;
use crate::lines;

/// Seconds that a look samples before it records steps, and that it records at least.
const LOOK_S: f64 = 2.0;
/// Steps that it makes at least, recorded or not.
const STEPS: f64 = 32.0;

impl RunState<'_> {
    /// Records steps of the cases that their benchmarks name. A failure here is reported and takes nothing from the results.
    pub(super) fn look_closer(&mut self) -> Result<(), StoreError> {
        if self.setup.plan.profiling {
            return Ok(());
        }
        let known: Vec<&CaseLine> = self.lines.iter().chain(self.setup.before).collect();
        let ok: Vec<&CaseLine> = known.into_iter().filter(|line| line.status == Status::Ok).collect();
        let steps: HashMap<&str, &CaseLine> = ok.iter().map(|line| (line.id.as_str(), *line)).collect();
        let wanted: Vec<(Box<dyn ParsedCase>, f64)> = benchmarks::all()
            .flat_map(|benchmark| benchmark.unexplained(&ok))
            .filter_map(|id| {
                let case = self.cases.get(&id).filter(|case| !case.is_quick())?;
                let step_s = steps.get(id.as_str())?.time_s.as_ref()?.median;
                Some((benchmarks::parse(case).ok()?, 2.0 * LOOK_S.max(STEPS * step_s)))
            })
            .collect();
        let total = wanted.len();
        // Ranks of a launcher that use MPI can be in one world only, and that one has ended.
        if total > 0 && !self.setup.starter.several() {
            self.setup.observer.remarks("ranks of a launcher do not record steps after a run: use `rankmark profile`");
            return Ok(());
        }
        for (number, (parsed, takes_s)) in (1..).zip(&wanted) {
            let case = parsed.case();
            let ends = Instant::now() + Duration::from_secs_f64(takes_s.min(86_400.0));
            if self.driver.is_interrupted() {
                break;
            }
            if self.driver.setup.deadline.is_some_and(|deadline| ends > deadline) {
                self.not_recorded(case, "they do not fit into the time budget of the run");
                continue;
            }
            self.setup.observer.looks_closer(case, number, total);
            self.look_at(&**parsed, *takes_s)?;
        }
        self.worlds.end();
        Ok(())
    }

    fn not_recorded(&mut self, case: &Case, why: &str) {
        let ranks = case.ranks();
        self.setup.observer.remarks(&format!("steps of the case with {ranks} ranks were not recorded: {why}"));
    }

    fn look_at(&mut self, parsed: &dyn ParsedCase, takes_s: f64) -> Result<(), StoreError> {
        let (case, several) = (parsed.case(), self.setup.starter.several());
        self.worlds.make_room(parsed, &self.driver.setup.host, several, super::START);
        let host = &self.driver.setup.host;
        let admitted = if self.worlds.hold(case) { Ok(()) } else { Admission::new(host).check(parsed) };
        if let Err(reason) = admitted {
            self.not_recorded(case, &reason);
            return Ok(());
        }
        let own = crate::settings_of(case, parsed.trial_cost());
        let settings = Settings {
            traced: true,
            trials: Some(1),
            max_seconds: LOOK_S,
            spacing: Duration::ZERO,
            limits: false,
            timeout: own.timeout + Duration::from_secs_f64(takes_s.min(86_400.0)),
            ..own
        };
        let mut run = CaseRun::new(case, settings, false);
        match self.in_world(parsed, &mut run) {
            Ok(()) => match lines::measured(&run, &self.driver.setup.host, (&[], &self.driver.setup.bounds), false) {
                line if line.status == Status::Ok => self.trace(parsed, &run)?,
                // The trials were right, and these steps were not: readers of the results must know.
                line => self.not_recorded(case, &line.reason.unwrap_or_else(|| line.status.to_string())),
            },
            Err(verdict) if verdict.kind == measure::VerdictKind::Interrupted => {
                self.driver.interrupted = Some(verdict.error.what);
            }
            Err(verdict) => self.not_recorded(case, &verdict.error.on_one_line()),
        }
        self.worlds.release(&case.id, super::START);
        Ok(())
    }
}
