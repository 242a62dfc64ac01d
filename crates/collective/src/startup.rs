//! The benchmark `startup`: how long it takes until ranks can communicate. Joining, the first call, a later call of the same
//! size, and each further communicator; in fresh processes (cold) and again in the same ones (warm).

mod about;
mod call;
mod calls;
mod declared;
mod expand;
mod fields;
mod joining;
mod last;
mod one_call;
mod over;
mod relations;
mod show;
mod splitting;
mod view;

use contract::{Benchmark, Measured, Prepared, RankContext, Relations, TrialCost};
use measure::{Failure, Trial};
use record::{About, Case, CaseLine, Plan};
use serde_json::{Map, Value};
use terms::{Collective, Space};

use call::call_of;
use declared::{LAST, OPEN_S, WAIT_S};
use fields::{Stage, Start, StartupFields};

/// The benchmark `startup`.
pub struct StartupBenchmark;

/// Seconds to open a communicator and check it, in round figures, as the two below. They decide only the estimate that a run
/// prints.
const OPENED: f64 = 2e-3;
/// Seconds of a trial in which ranks may wait for each other, if other programs use their cores.
const MEETINGS: f64 = 0.05;
/// Seconds that new processes of a trial may take.
const STARTED: f64 = 0.05;

impl Benchmark for StartupBenchmark {
    fn about(&self) -> &'static About {
        &about::ABOUT
    }

    fn memory(&self, case: &Case) -> u64 {
        let Ok(fields) = StartupFields::of(case) else { return 0 };
        let ranks = u64::from(fields.ranks);
        let call = call_of(&fields, contract::is_on_gpus(case));
        let buffers = if call.space == Space::Cuda { 0 } else { 2 * call.bytes };
        let group = contract::backend_of(case).map_or(0, |backend| backend.group_bytes(fields.ranks));
        let communicators = u64::from(fields.communicators.unwrap_or(0)) + 2;
        ranks.saturating_mul(buffers.saturating_add(group.saturating_mul(communicators)))
    }

    fn complete(&self, plan: &mut Plan) {
        expand::complete(plan);
    }

    fn needs_new_ranks(&self, case: &Case) -> bool {
        StartupFields::of(case).is_ok_and(|fields| fields.start == Start::Cold)
    }

    fn trial_cost(&self, case: &Case) -> TrialCost {
        let Ok(fields) = StartupFields::of(case) else { return TrialCost::default() };
        let others = f64::from(fields.communicators.unwrap_or(0));
        // The other communicators are opened before the samples.
        let sample_s = if fields.stage.is_call() { 0.0 } else { OPENED };
        let warm = fields.start != Start::Cold;
        TrialCost {
            sample_s: if warm { sample_s } else { 0.0 },
            trial_s: others * OPENED,
            more_s: if warm { MEETINGS } else { STARTED },
            ..TrialCost::default()
        }
    }

    fn operation(&self, case: &Case) -> (Collective, u64) {
        match StartupFields::of(case) {
            Ok(fields) if fields.stage.is_call() => {
                let call = call_of(&fields, false);
                (call.op, call.bytes)
            }
            _ => (Collective::Barrier, 0),
        }
    }

    fn prepare(&self, case: &Case, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        let fields = StartupFields::of(case)?;
        let call = call_of(&fields, contract::is_on_gpus(case));
        match (fields.stage, fields.start) {
            (Stage::Join, Start::Cold) => joining::joined(call, context),
            (Stage::Join, _) => joining::again(call, fields.backend.unwrap_or_default(), context),
            (Stage::FirstCall, Start::Cold) => calls::cold(call, context),
            (Stage::FirstCall, _) => calls::first(call, context),
            (Stage::LaterCall, _) => calls::later(call, context),
            (Stage::Communicator, start) => splitting::prepare(call, fields.communicators.unwrap_or(0), start, context),
            (Stage::All, _) => Err(Failure::new("`all` stands for several stages, and is not one itself")),
        }
    }

    fn metrics(&self, case: &Case, measured: &Measured<'_>) -> Map<String, Value> {
        let mut metrics = Map::new();
        let Ok(fields) = StartupFields::of(case) else { return metrics };
        let looks = last::looks(measured.trials);
        if let Some(waits) = last::wait_s(&looks) {
            WAIT_S.put(&mut metrics, waits);
        }
        if let Some(last) = last::judge(&looks, fields.ranks) {
            LAST.put(&mut metrics, last);
        }
        if let Some(open) = joining::open_s(measured.trials) {
            OPEN_S.put(&mut metrics, open);
        }
        metrics
    }

    /// A cold case is none where a trial ran in ranks that had run something else.
    fn fault(&self, case: &Case, trials: &[Trial]) -> Option<String> {
        let used = trials.iter().filter(|trial| !trial.fresh).count();
        (used > 0 && self.needs_new_ranks(case))
            .then(|| format!("{used} of {} trials ran in ranks that were not started for them", trials.len()))
    }

    fn relations<'a>(&self, all: &[&'a CaseLine]) -> Relations<'a> {
        let compared = relations::StartupBaselines::from_lines(all);
        Box::new(move |line| compared.of_line(line))
    }

    fn view(&self) -> Option<&'static dyn ::view::View> {
        Some(&view::StartupView)
    }
}
