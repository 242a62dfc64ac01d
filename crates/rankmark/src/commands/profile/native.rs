//! A training case of our own, recorded and explained.

use std::path::PathBuf;

use clap::ArgMatches;
use measure::machine;
use record::{About, Plan};
use terms::Seconds;

use super::{Wanted, explain};
use crate::session::{self, Ended, Entry, Request};
use crate::{Failure, cli, external, plans, terminal};

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
    let (about, _) = cli::measured("train").expect("`train` is the command of a benchmark");
    about
}

/// Runs it, explains its traces, and shows the result.
pub(super) fn run(matches: &ArgMatches, entry: Entry<'_>, wanted: &Wanted) -> Result<u8, Failure> {
    if matches.get_one::<String>("tool").is_some_and(|tool| tool != "builtin") {
        let hint = "rankmark profile --tool nsys -- COMMAND";
        return Err(Failure::new("our own ranks record themselves; nsys traces another program's job").hint(hint));
    }
    let mut fields = crate::given::given(matches, &[about()]);
    // It selects steps of the trace, and is not a number of steps to train.
    fields.retain(|(name, _)| name != "steps");
    let mut overrides = cli::overrides(matches)?;
    if let Some(gpus) = matches.get_one::<String>("gpus") {
        fields.push(("ranks".to_owned(), gpus.clone()));
    }
    cli::default_ranks(&mut fields, &overrides, entry.coordinator);
    let mut plan = match matches.get_one::<PathBuf>("plan") {
        Some(path) => {
            overrides.splice(0..0, fields);
            let own = [("trials".to_owned(), "1".to_owned()), ("max_seconds".to_owned(), sampled(matches))];
            overrides.extend(own);
            training_of(plans::load(path, &overrides, entry.coordinator)?.plan)?
        }
        None => {
            for (name, value) in DEFAULTS.into_iter().filter_map(|(name, value, _)| Some((name, value?))) {
                default(&mut fields, &overrides, name, value);
            }
            default(&mut fields, &overrides, "max_seconds", &sampled(matches));
            let plan = record::plan::from_flags(about(), &fields, &overrides)?;
            if let Some(note) = external::default_backend(entry.coordinator, &fields, &overrides) {
                terminal::note_first(matches, &note);
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
    let request = Request { matches, machine: machine::detect(), entry, into_folder: false, is_profile: true };
    let Ended { code, directory } = session::measure(&request, Some(plan))?;
    let Some(directory) = directory else { return Ok(code) };
    let explained = explain::record(&directory, wanted)?;
    Ok(if code == 0 { explained } else { code })
}

/// Half of the time measures steps; the other half records every other batch of them.
fn sampled(matches: &ArgMatches) -> String {
    let duration = matches.get_one::<Seconds>("duration").copied().unwrap_or(DURATION);
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
