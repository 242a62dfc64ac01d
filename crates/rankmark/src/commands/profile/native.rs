//! A training case of our own, recorded and explained.

use std::path::PathBuf;

use record::{About, Plan};
use terms::Seconds;

use super::explain;
use super::wanted::Wanted;
use crate::options::{Pairs, RunOptions, default_ranks, fields};
use crate::session::{self, Ended, Entry, SessionRequest};
use crate::{Failure, external, plan_files};

/// How long a profile measures when nobody says.
const DURATION: Seconds = Seconds(20.0);
/// What is profiled when nobody says, with help: the steps of this model are long enough to carry spans, and many fit into
/// the time.
pub(super) const DEFAULTS: [(&str, Option<&str>, &str); 4] = [
    ("model", Some("gpt2-mini"), "model, see `rankmark list models` (default: gpt2-mini)"),
    ("ranks", Some("2"), "number of ranks: processes that take part (default: 2)"),
    ("trials", Some("1"), "fixed number of trials (default: 1)"),
    ("max_seconds", None, "most sampling time of a case, all trials together (default: half of --duration)"),
];

/// The benchmark that gives a profile its options.
pub(super) fn about() -> &'static About {
    let (about, _) = fields::measured("train").expect("`train` is the command of a benchmark");
    about
}

/// What is profiled, and for how long.
pub(super) struct ProfileAsked {
    pub(super) plan: Option<PathBuf>,
    pub(super) duration: Option<Seconds>,
    pub(super) gpus: Option<String>,
    pub(super) nsys: bool,
}

/// Takes the steps out that `--steps` names: it selects steps of the trace, and is not a number of steps to train.
pub(super) fn take_steps(fields: &mut Pairs) -> Option<String> {
    let place = fields.iter().position(|(name, _)| name == "steps")?;
    let (_, text) = fields.remove(place);
    text.split(',').next().map(str::to_owned)
}

/// Runs it, explains its traces, and shows the result.
pub(super) fn run(
    asked: &ProfileAsked,
    mut options: RunOptions,
    (entry, wanted): (Entry<'_>, &Wanted),
) -> Result<u8, Failure> {
    if asked.nsys {
        let hint = "rankmark profile --tool nsys -- COMMAND";
        return Err(Failure::new("our own ranks record themselves; nsys traces another program's job").hint(hint));
    }
    let mut fields = options.fields.clone();
    let mut overrides = options.overrides()?;
    options.has_plan = asked.plan.is_some();
    if let Some(gpus) = &asked.gpus {
        fields.push(("ranks".to_owned(), gpus.clone()));
    }
    default_ranks(&mut fields, &overrides, entry.coordinator);
    let mut plan = match &asked.plan {
        Some(path) => {
            overrides.splice(0..0, fields);
            let own = [("trials".to_owned(), "1".to_owned()), ("max_seconds".to_owned(), sampled(asked.duration))];
            overrides.extend(own);
            training_of(plan_files::load(path, &overrides, entry.coordinator)?.plan)?
        }
        None => {
            for (name, value) in DEFAULTS.into_iter().filter_map(|(name, value, _)| Some((name, value?))) {
                default(&mut fields, &overrides, name, value);
            }
            default(&mut fields, &overrides, "max_seconds", &sampled(asked.duration));
            let plan = record::plan::from_flags(about(), &fields, &overrides)?;
            if let Some(note) = external::default_backend(entry.coordinator, &fields, &overrides) {
                options.output.note_first(&note);
            }
            plan
        }
    };
    if plan.cases.iter().all(benchmarks::is_pytorch) {
        let hint = "rankmark profile -- COMMAND traces a PyTorch job";
        return Err(Failure::new("the PyTorch ranks of Rankmark do not record their steps").hint(hint));
    }
    "profile".clone_into(&mut plan.experiment);
    plan.profiling = true;
    let request = SessionRequest::new(&options, entry);
    let Ended { code, directory } = session::measure(&request, Some(plan))?;
    let Some(directory) = directory else { return Ok(code) };
    let explained = explain::record(&directory, wanted)?;
    Ok(if code == 0 { explained } else { code })
}

/// Half of the time measures steps; the other half records every other batch of them.
fn sampled(duration: Option<Seconds>) -> String {
    let duration = duration.unwrap_or(DURATION);
    format!("{}s", duration.0 / 2.0)
}

fn default(fields: &mut Vec<(String, String)>, overrides: &[(String, String)], name: &str, value: &str) {
    if fields.iter().chain(overrides).all(|(given, _)| given != name) {
        fields.push((name.to_owned(), value.to_owned()));
    }
}

/// The training cases of a plan.
fn training_of(mut plan: Plan) -> Result<Plan, Failure> {
    plan.cases.retain(|case| case.benchmark == about().name);
    match plan.cases.is_empty() {
        true => {
            Err(Failure::new("no case of the plan trains")
                .hint("a profile records training steps: `benchmark: training`"))
        }
        false => Ok(plan),
    }
}
