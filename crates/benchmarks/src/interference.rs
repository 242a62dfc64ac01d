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

use std::sync::Arc;

use contract::{Benchmark, Measured, ParsedCase, Prepared, RankContext, Relations, TrialCost};
use measure::{Failure, Trial};
use record::{About, Case, CaseLine, Plan};
use serde_json::{Map, Value};

use declared::BESIDE_S;
use fields::{Activity, Beside, InterferenceFields};

/// The benchmark `interference`.
pub(crate) struct InterferenceBenchmark;

/// The values of a case, read once.
struct InterferenceCase {
    case: Case,
    fields: InterferenceFields,
    /// What is timed, as a case of its benchmark.
    own: Box<dyn ParsedCase>,
    /// What runs beside it, as one of its own, where anything does.
    beside: Option<(Activity, Arc<dyn ParsedCase>)>,
}

impl Benchmark for InterferenceBenchmark {
    fn about(&self) -> &'static About {
        &about::ABOUT
    }

    fn parse(&self, case: &Case) -> Result<Box<dyn ParsedCase>, Failure> {
        let fields = InterferenceFields::of(case)?;
        let own = activity::parse(fields.activity, case, &fields)?;
        let beside = match fields.beside.activity() {
            Some(activity) => Some((activity, activity::parse(activity, case, &fields)?.into())),
            None => None,
        };
        Ok(Box::new(InterferenceCase { case: case.clone(), fields, own, beside }))
    }

    fn complete(&self, plan: &mut Plan) {
        expand::complete(plan);
    }

    fn relations<'a>(&self, all: &[&'a CaseLine]) -> Relations<'a> {
        let alone = relations::Alone::from_lines(all);
        Box::new(move |line| alone.of_line(line))
    }

    fn view(&self) -> Option<&'static dyn ::view::View> {
        Some(&view::InterferenceView)
    }
}

impl ParsedCase for InterferenceCase {
    fn case(&self) -> &Case {
        &self.case
    }

    fn memory(&self) -> u64 {
        self.own.memory().saturating_add(self.beside.as_ref().map_or(0, |(_, beside)| beside.memory()))
    }

    fn cores_wanted(&self) -> usize {
        let alone = contract::cores_wanted(self.case.ranks(), &self.case.world);
        alone + if self.beside.is_some() { self.case.ranks() as usize } else { 0 }
    }

    fn trial_cost(&self) -> TrialCost {
        cost::here(&self.fields, self.cores_wanted())
    }

    fn prepare(&self, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        pair::prepare(self, context)
    }

    fn metrics(&self, measured: &Measured<'_>) -> Map<String, Value> {
        let mut metrics = Map::new();
        if let Some(time) = alongside::unit_s(measured.trials) {
            BESIDE_S.put(&mut metrics, time);
        }
        metrics
    }

    /// A pair of which one did not run says nothing of the pair.
    fn fault(&self, trials: &[Trial]) -> Option<String> {
        let (name, _) = self.beside.as_ref()?;
        let idle = trials.iter().filter(|trial| !alongside::ran_everywhere(trial)).count();
        (idle > 0).then(|| format!("in {idle} of {} trials a rank ran no `{name}` during the calls", trials.len()))
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
