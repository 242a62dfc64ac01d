//! What fits into the budget of a run: a trial that does not is not begun, and of a run whose cases are worth nothing with a few
//! trials, cases that cannot get enough are left out, so that the others can.

use std::time::{Duration, Instant};

use record::{Case, StoreError};
use terms::Status;

use super::RunState;
use crate::lines::unmeasured;

/// A command that waits for ranks has at least so long, however little of the budget is left: less would call a busy host dead.
const LEAST: Duration = Duration::from_secs(5);

impl RunState<'_> {
    /// The end of the budget, or of the part of it that the current world has; None without one.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let whole = self.driver.setup.deadline?;
        Some(self.part_ends.map_or(whole, |part| part.min(whole)))
    }

    /// When this many cases of a world must have had their part of the budget, of so many that are left. Only runs that leave cases
    /// out divide it: what they measure last would else get what the first leave.
    pub(super) fn part_of_budget(&self, cases: usize, left: usize) -> Option<Instant> {
        let deadline = self.driver.setup.deadline.filter(|_| self.setup.leaves_out)?;
        let now = Instant::now();
        Some(now + deadline.saturating_duration_since(now).mul_f64(cases as f64 / left.max(1) as f64))
    }

    /// What is left until then.
    fn left(&self) -> Option<Duration> {
        self.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// How long ranks may take for everything but sampling: no longer than the whole budget lasts.
    pub(super) fn patience(&self, asked: Duration, sampling_s: f64) -> Duration {
        let sampling = Duration::from_secs_f64(sampling_s.clamp(0.0, 86_400.0));
        let whole = self.driver.setup.deadline;
        let left = whole.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(asked, |left| asked.min(left.saturating_sub(sampling).max(LEAST)))
    }

    /// Notes what a visit took besides its samples, which give way to the budget.
    pub(super) fn note_cost(&mut self, case: &Case, took: Duration, sampling_s: f64) {
        let around = took.saturating_sub(Duration::from_secs_f64(sampling_s.clamp(0.0, 86_400.0)));
        self.costs.insert(case.id.clone(), Cost { whole: took, around });
    }

    /// Whether another trial of the case ends within the budget, as far as its last one tells.
    pub(super) fn fits(&self, case: &Case) -> bool {
        let cost = self.costs.get(&case.id);
        cost.zip(self.left()).is_none_or(|(cost, left)| cost.around <= left)
    }

    /// Leaves out cases that cannot make the trials that they need in what is left, the most expensive first.
    pub(super) fn leave_out(&mut self) -> Result<(), StoreError> {
        let Some(left) = self.left().filter(|_| self.setup.leaves_out) else { return Ok(()) };
        let mut needy: Vec<(Duration, Duration, usize, String)> = self
            .open
            .iter()
            .filter_map(|(id, run)| {
                let needed = run.settings.fewest_trials().checked_sub(run.trials.len()).filter(|needed| *needed > 0)?;
                Some((self.costs.get(id)?.whole, run.settings.spacing, needed, id.clone()))
            })
            .collect();
        // Cases of equal cost in the order of the plan.
        let place = |id: &String| self.setup.plan.cases.iter().position(|case| case.id == *id);
        needy.sort_by_key(|(cost, _, _, id)| (*cost, place(id)));
        let mut out: Vec<String> = Vec::new();
        while let Some(rounds) = needy.iter().map(|(.., needed, _)| *needed).max() {
            let round: Duration = needy.iter().map(|(cost, ..)| *cost).sum();
            let spacing = needy.iter().map(|(_, spacing, ..)| *spacing).max().unwrap_or_default();
            if round.max(spacing) * rounds as u32 <= left {
                break;
            }
            out.extend(needy.pop().map(|(.., id)| id));
        }
        for id in &out {
            let Some(run) = self.open.remove(id) else { continue };
            let rounds = run.settings.fewest_trials();
            let cost = self.costs.get(id).map_or(0.0, |cost| cost.whole.as_secs_f64());
            let why =
                format!("left out: {rounds} trials of {cost:.1} s each do not fit into the budget with the others");
            self.setup.observer.remarks(&format!("{}: {why}", named(&run.case)));
            self.keep(unmeasured(&run.case, Status::NotRun, why), &[])?;
        }
        Ok(())
    }
}

/// What the last visit of a case took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    whole: Duration,
    /// What it took without its samples.
    around: Duration,
}

/// A case by its first parameter, and its size.
fn named(case: &Case) -> String {
    let first = case.parameters.iter().next().and_then(|(_, value)| value.as_str()).unwrap_or(&case.benchmark);
    let bytes = case.bytes().map_or(String::new(), |bytes| format!(" of {bytes} bytes"));
    format!("{first}{bytes}")
}
