//! A job's own traffic: the collectives of its traces as a plan, so that a cluster is measured by the job that runs on it.
//!
//! A plan has one case for each distinct collective, and how often a step calls it. Measures nothing: what the calls take
//! elsewhere is for a run to say, and what both sums are is for the report.

mod calls;
mod distinct;
mod instances;
mod overlap;
mod rule;
mod steps;
mod text;
mod word;

#[cfg(test)]
mod tests;

use terms::Error;

use crate::ForeignPlan;
use crate::traces::{Traces, join_flight};

/// What the caller says, and what it knows of cases.
pub struct JobTraffic<'a> {
    /// What the traces are called, for messages and the name of the plan.
    pub name: &'a str,
    /// Ranks of the plan. None: those of the job.
    pub ranks: Option<u32>,
    /// The identity of the one case in a plan's text; else why it cannot be run anywhere.
    pub identity: &'a dyn Fn(&str) -> Result<String, String>,
}

/// A plan of a job's collectives, and how many ranks and groups it takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrafficPlan {
    /// The plan, and what was read and left out.
    pub plan: ForeignPlan,
    /// The most ranks of a case.
    pub ranks: u32,
    /// Whether all cases have as many ranks and no groups, so that another number fits all of them.
    pub is_uniform: bool,
}

/// Makes a plan of what traces of one job hold.
///
/// # Errors
/// When the traces hold no collective, or none that says enough to be run: with what to set so that they do.
pub fn plan(mut traces: Traces, given: &JobTraffic<'_>) -> Result<TrafficPlan, Error> {
    if let (Some(timeline), Some(flight)) = (&mut traces.timeline, &traces.flight) {
        join_flight(timeline, flight);
    }
    let job = calls::JobCalls::from_traces(&traces)?;
    let found = distinct::find(&job, given)?;
    Ok(text::plan(&job, found, given))
}
