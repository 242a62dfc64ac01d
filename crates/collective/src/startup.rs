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

use contract::{Benchmark, Measured, ParsedCase, Prepared, RankContext, Relations, TrialCost};
use measure::{Failure, Trial};
use record::{About, Case, CaseLine, Plan};
use serde_json::{Map, Value};
use terms::{Collective, Space};

use crate::parameters::Parameters;
use call::call_of;
use declared::{LAST, OPEN_S, WAIT_S};
use fields::{Stage, Start, StartupFields};

/// The benchmark `startup`.
pub struct StartupBenchmark;

/// The values of a case, read once.
struct StartupCase {
    case: Case,
    fields: StartupFields,
    /// The call of its stage, or the one that shows that ranks can communicate.
    call: Parameters,
}

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

    fn parse(&self, case: &Case) -> Result<Box<dyn ParsedCase>, Failure> {
        let fields = StartupFields::of(case)?;
        let call = call_of(&fields, contract::is_on_gpus(case));
        Ok(Box::new(StartupCase { case: case.clone(), fields, call }))
    }

    fn complete(&self, plan: &mut Plan) {
        expand::complete(plan);
    }

    fn relations<'a>(&self, all: &[&'a CaseLine]) -> Relations<'a> {
        let compared = relations::StartupBaselines::from_lines(all);
        Box::new(move |line| compared.of_line(line))
    }

    fn view(&self) -> Option<&'static dyn ::view::View> {
        Some(&view::StartupView)
    }
}

impl ParsedCase for StartupCase {
    fn case(&self) -> &Case {
        &self.case
    }

    fn memory(&self) -> u64 {
        let StartupFields { ranks, communicators, .. } = self.fields;
        let buffers = if self.call.space == Space::Cuda { 0 } else { 2 * self.call.bytes };
        let group = contract::backend_of(&self.case).map_or(0, |backend| backend.group_bytes(ranks));
        let communicators = u64::from(communicators.unwrap_or(0)) + 2;
        u64::from(ranks).saturating_mul(buffers.saturating_add(group.saturating_mul(communicators)))
    }

    fn needs_new_ranks(&self) -> bool {
        self.fields.start == Start::Cold
    }

    fn trial_cost(&self) -> TrialCost {
        let others = f64::from(self.fields.communicators.unwrap_or(0));
        // The other communicators are opened before the samples.
        let sample_s = if self.fields.stage.is_call() { 0.0 } else { OPENED };
        let warm = !self.needs_new_ranks();
        TrialCost {
            sample_s: if warm { sample_s } else { 0.0 },
            trial_s: others * OPENED,
            more_s: if warm { MEETINGS } else { STARTED },
            ..TrialCost::default()
        }
    }

    fn operation(&self) -> (Collective, u64) {
        if self.fields.stage.is_call() { (self.call.op, self.call.bytes) } else { (Collective::Barrier, 0) }
    }

    fn prepare(&self, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        let StartupFields { stage, start, communicators, ref backend, .. } = self.fields;
        let call = self.call.clone();
        match (stage, start) {
            (Stage::Join, Start::Cold) => joining::joined(call, context),
            (Stage::Join, _) => joining::again(call, backend.clone().unwrap_or_default(), context),
            (Stage::FirstCall, Start::Cold) => calls::cold(call, context),
            (Stage::FirstCall, _) => calls::first(call, context),
            (Stage::LaterCall, _) => calls::later(call, context),
            (Stage::Communicator, start) => splitting::prepare(call, communicators.unwrap_or(0), start, context),
            (Stage::All, _) => Err(Failure::new("`all` stands for several stages, and is not one itself")),
        }
    }

    fn metrics(&self, measured: &Measured<'_>) -> Map<String, Value> {
        let mut metrics = Map::new();
        let looks = last::looks(measured.trials);
        if let Some(waits) = last::wait_s(&looks) {
            WAIT_S.put(&mut metrics, waits);
        }
        if let Some(last) = last::judge(&looks, self.fields.ranks) {
            LAST.put(&mut metrics, last);
        }
        if let Some(open) = joining::open_s(measured.trials) {
            OPEN_S.put(&mut metrics, open);
        }
        metrics
    }

    /// A cold case is none where a trial ran in ranks that had run something else.
    fn fault(&self, trials: &[Trial]) -> Option<String> {
        let used = trials.iter().filter(|trial| !trial.fresh).count();
        (used > 0 && self.needs_new_ranks())
            .then(|| format!("{used} of {} trials ran in ranks that were not started for them", trials.len()))
    }
}
