//! `rankmark validate`: what this machine can run, what it cannot, the impact, and the command that fixes it.

use std::path::PathBuf;

use benchmarks::Host;
use clap::ValueHint;
use launch::external::External;
use measure::machine;
use plans::backends::torch_states;
use plans::known_answers::KnownAnswers;
use plans::outlook::{self, Trust};
use plans::readiness::{self, Findings};
use plans::{placement, trust};
use record::Plan;
use survey::{Finding, Request, State, survey};
use view::terminal::Style;

use super::{Ended, Typed};
use crate::session::{self, Entry};
use crate::{Failure, environment, plan_files, screen};

/// What this machine has, what is slow or missing, the impact, and how to fix it
#[derive(clap::Args)]
#[command(
    after_help = "States: ready; slow (works with reduced performance); misconfigured (present, does not work); \
                  missing.\n\n\
                  Exit status: 0 everything requested can run; 1 something is misconfigured, no backend that measures \
                  is ready, the Python of --python lacks torch, or a case of --plan would be skipped; 2 the check was \
                  not possible. Cases that were not looked at do not change the exit status."
)]
pub(crate) struct Validate {
    /// also say which cases of this plan would run here, and why others would not
    #[arg(long, value_name = "PLAN", value_hint = ValueHint::FilePath)]
    plan: Option<PathBuf>,
    /// check the PyTorch of this Python (default: the first python3 on PATH)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    python: Option<PathBuf>,
    #[arg(long, help = trust::HELP, requires = "plan")]
    trust_plan: bool,
    /// leave out what takes seconds, and say what was left out
    #[arg(long)]
    quick: bool,
    /// give each finding a row of its own, and name every case that would not run
    #[arg(long, short)]
    verbose: bool,
    /// print only what is wrong
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    /// JSON on standard output
    #[arg(long)]
    json: bool,
}

impl Typed for Validate {
    const NAME: &'static str = "validate";

    fn run(self, entry: Entry<'_>) -> Ended {
        validate(self, entry)
    }
}

fn validate(given: Validate, entry: Entry<'_>) -> Ended {
    let host = Host {
        spread: None,
        cores: machine::allowed_cpus().len().max(1),
        available_memory: device::available_memory,
        virtualised: machine::limits_are_virtual(&machine::detect()),
        launched: placement::launched(entry.coordinator),
    };
    // A plan that cannot be read is refused before anything is checked.
    let plan = given.plan.as_deref().map(plan_files::complete).transpose()?;
    let quick = given.quick;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let request = Request {
        path: std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect(),
        python: given.python,
        quick,
        in_slurm: std::env::var_os("SLURM_JOB_ID").is_some(),
    };
    let found = survey(&request);
    process::interrupt::install().map_err(|error| Failure::new("signals could not be set up").cause(error))?;
    let answers = KnownAnswers { host: &host, quick, starter: session::starter, interrupted: session::interrupted };
    let python = request.python.clone();
    let trust = Trust { whole: given.trust_plan, python: python.as_deref() };
    let findings = Findings::checked(found, &answers, request.python, |rows| {
        let file = given.plan.as_deref().map_or_else(String::new, |file| file.display().to_string());
        let states = |plan: &Plan| torch_states(plan, &environment::search_path());
        plan.map(|plan| outlook::outlook(file, &plan, &host, rows, &trust, states))
    })?;
    let code = u8::from(!findings.is_fine());
    let host = host_of_launcher();
    if given.json {
        screen::print_json(&format!("{}\n", findings.json(code, host.as_deref())))?;
    } else if given.quiet {
        screen::remark(&readiness::wrong(&findings, screen::width()));
    } else {
        let heading = host.map_or_else(String::new, |host| format!("{}\n", Style::Bold.paint(&host)));
        screen::print(&(heading + &readiness::text(&findings, screen::width(), given.verbose) + &next(&findings)))?;
    }
    Ok(code)
}

/// The name of this host, if a launcher started this on several: each says what it has.
fn host_of_launcher() -> Option<String> {
    let external = External::from_environment(&|name| std::env::var_os(name)).ok().flatten()?;
    external.is_on_several_hosts().then(|| machine::detect().host)
}

/// What to run here: the plan, or ranks of the Python that was named, or the quick plan.
fn next(found: &Findings) -> String {
    let python = found.python.as_ref().map(|python| python.display().to_string());
    let has_torch = |row: &Finding| row.name.starts_with("pytorch/") && row.state == State::Ready;
    match (&found.outlook, python.filter(|_| found.rows.iter().any(has_torch))) {
        (Some(outlook), _) if outlook.runs() > 0 => screen::next(&["rankmark", "run", &outlook.file], "runs this plan"),
        (None, Some(python)) => screen::next(
            &["rankmark", "comm", "all_reduce", "--runtime", "pytorch", "--python", &python],
            "measures ranks of this Python",
        ),
        (None, None) if !found.benchmarks.is_empty() => {
            screen::next(&["rankmark", "run"], "measures this machine by the quick plan")
        }
        _ => String::new(),
    }
}
