//! `rankmark validate`: what this machine can run, what it cannot, the impact, and the command that fixes it.

mod backends;
mod page;
pub(crate) mod plan;
mod states;

use std::path::PathBuf;

use benchmarks::Host;
use clap::ArgMatches;
use measure::machine;
use serde_json::{Value, json};
use survey::{Finding, Request, State, survey};

use crate::Failure;
use crate::terminal;
use plan::{Outlook, Trust};

/// Everything that is shown.
struct Findings {
    rows: Vec<Finding>,
    /// What `--quick` left out, and why it would take long.
    left_out: Vec<(&'static str, &'static str)>,
    /// What becomes of the plan that was given.
    outlook: Option<Outlook>,
    /// Benchmarks that can run here.
    benchmarks: Vec<&'static str>,
}

pub(crate) fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let host = Host {
        spread: None,
        cores: machine::allowed_cpus().len().max(1),
        available_memory: machine::available_memory,
        virtualised: machine::limits_are_virtual(&machine::detect()),
    };
    // A plan that cannot be read is refused before anything is looked at.
    let plan = matches.get_one::<PathBuf>("plan").map(|file| plan::load(file)).transpose()?;
    let quick = matches.get_flag("quick");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let request = Request {
        path: std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect(),
        python: matches.get_one::<PathBuf>("python").cloned(),
        quick,
    };
    let found = survey(&request);
    let checked = backends::check(&host, quick)?;
    let rows = backends::check_found(found.findings, request.python.as_deref(), &host, quick)?;
    let mut left_out = found.left_out;
    let mut rows = rows;
    if quick {
        left_out.push(("known answers", "ranks of every backend would be started"));
        left_out.push(("states of the machine", "ranks would look at it for 1.5 s"));
    } else {
        let behind = rows.iter().rposition(|row| row.group == "system").map_or(0, |last| last + 1);
        rows.insert(behind, states::check(&host));
    }
    // One that measures: what only computes times can run anywhere.
    let measures = |name: &str| comm::backend(name).is_some_and(|backend| !backend.about().simulated);
    let usable = checked.iter().any(|row| row.state == State::Ready && measures(&row.name));
    let rows = merged(rows, checked);
    let findings = Findings {
        outlook: plan.map(|(file, plan)| {
            let trust = Trust { whole: matches.get_flag("trust-plan"), python: request.python.as_deref() };
            plan::outlook(file, &plan, &host, &rows, &trust)
        }),
        rows,
        left_out,
        benchmarks: benchmarks::abouts().iter().filter(|_| usable).map(|about| about.name).collect(),
    };
    let code = u8::from(!findings.is_fine());
    if matches.get_flag("json") {
        terminal::print_json(&format!("{}\n", findings.json(code)))?;
    } else if matches.get_flag("quiet") {
        terminal::remark(&page::wrong(&findings, terminal::width()));
    } else {
        terminal::print(&page::text(&findings, terminal::width(), matches.get_flag("verbose")))?;
    }
    Ok(code)
}

/// Backends stand behind what they rest on most: system and limits.
fn merged(mut rows: Vec<Finding>, backends: Vec<Finding>) -> Vec<Finding> {
    let at = rows.iter().position(|row| row.group != "system" && row.group != "limits").unwrap_or(rows.len());
    rows.splice(at..at, backends);
    rows
}

impl Findings {
    /// Whether all that was asked for can run: see `--help`.
    fn is_fine(&self) -> bool {
        let plan_runs = self.outlook.as_ref().is_none_or(|outlook| outlook.skipped.is_empty());
        plan_runs && !self.benchmarks.is_empty() && !self.rows.iter().any(Finding::is_trouble)
    }

    fn json(&self, code: u8) -> Value {
        let row = |row: &Finding| {
            let mut value =
                json!({ "group": row.group, "name": row.name, "state": row.state.word(), "found": row.found });
            let optional = [("impact", &row.impact), ("fix", &row.fix)];
            for (name, text) in optional.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?))) {
                value[name] = text.as_str().into();
            }
            value
        };
        let left_out = |(name, why): &(&str, &str)| json!({ "name": name, "why": why });
        let mut all = json!({
            "findings": self.rows.iter().map(row).collect::<Vec<_>>(),
            "left_out": self.left_out.iter().map(left_out).collect::<Vec<_>>(),
            "benchmarks": self.benchmarks,
        });
        if let Some(outlook) = &self.outlook {
            all["plan"] = outlook.json();
            all["plan"]["not_looked_at"] = outlook.not_looked_at.iter().map(plan::Skipped::json).collect();
        }
        all["exit"] = code.into();
        all
    }
}
