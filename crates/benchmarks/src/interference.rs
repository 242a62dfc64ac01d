//! The benchmark `interference`: what a rank's activities cost each other. A product, a collective, a second collective in
//! another communicator, copies in memory and reads from storage, each alone and each beside each other.
//!
//! Activities are cases of other benchmarks. What is timed runs on the rank's own thread; what runs beside it, on another.

mod about;
mod activity;
mod alongside;
mod cost;
mod declared;
mod expand;
mod fields;
mod pair;
mod relations;
mod show;
mod steady;
mod view;

use contract::{Benchmark, Measured, Prepared, RankContext, Relations, TrialCost};
use measure::{Failure, Trial};
use record::{About, Case, CaseLine, Plan};
use serde_json::{Map, Value};

use declared::BESIDE_S;
use fields::{Activity, Beside, InterferenceFields};

/// The benchmark `interference`.
pub(crate) struct InterferenceBenchmark;

impl Benchmark for InterferenceBenchmark {
    fn about(&self) -> &'static About {
        &about::ABOUT
    }

    fn memory(&self, case: &Case) -> u64 {
        let Ok(fields) = InterferenceFields::of(case) else { return 0 };
        let own = Some(fields.activity);
        [own, fields.beside.activity()]
            .into_iter()
            .flatten()
            .map(|of| activity::memory(of, case))
            .fold(0, u64::saturating_add)
    }

    fn complete(&self, plan: &mut Plan) {
        expand::complete(plan);
    }

    fn cores_wanted(&self, case: &Case) -> usize {
        let alone = contract::cores_wanted(case.ranks(), &case.world);
        let has_more = InterferenceFields::of(case).is_ok_and(|fields| fields.beside.activity().is_some());
        alone + if has_more { case.ranks() as usize } else { 0 }
    }

    fn trial_cost(&self, case: &Case) -> TrialCost {
        InterferenceFields::of(case)
            .map_or_else(|_| TrialCost::default(), |fields| cost::here(&fields, self.cores_wanted(case)))
    }

    fn prepare(&self, case: &Case, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        let fields = InterferenceFields::of(case)?;
        pair::prepare(case, &fields, context)
    }

    fn metrics(&self, _case: &Case, measured: &Measured<'_>) -> Map<String, Value> {
        let mut metrics = Map::new();
        if let Some(time) = alongside::unit_s(measured.trials) {
            BESIDE_S.put(&mut metrics, time);
        }
        metrics
    }

    /// A pair of which one did not run says nothing of the pair.
    fn fault(&self, case: &Case, trials: &[Trial]) -> Option<String> {
        let beside = InterferenceFields::of(case).ok()?.beside;
        let name = beside.activity().map(|_| beside)?;
        let idle = trials.iter().filter(|trial| !alongside::ran_everywhere(trial)).count();
        (idle > 0).then(|| format!("in {idle} of {} trials a rank ran no `{name}` during the calls", trials.len()))
    }

    fn relations<'a>(&self, all: &[&'a CaseLine]) -> Relations<'a> {
        let alone = relations::Alone::from_lines(all);
        Box::new(move |line| alone.of_line(line))
    }

    fn view(&self) -> Option<&'static dyn ::view::View> {
        Some(&view::InterferenceView)
    }
}

impl Beside {
    /// What runs; None where nothing does.
    fn activity(self) -> Option<Activity> {
        match self {
            Self::None | Self::All => None,
            Self::Product => Some(Activity::Product),
            Self::Collective => Some(Activity::Collective),
            Self::Second => Some(Activity::Second),
            Self::HostCopy => Some(Activity::HostCopy),
            Self::StorageRead => Some(Activity::StorageRead),
        }
    }
}
