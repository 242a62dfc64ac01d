//! Communication call by call, of a log without steps.

use std::collections::HashMap;

use diagnose::profile::{CallTotals, TimedCall, call_totals};
use import::traces::{InspectorCall, InspectorReport};

/// Totals of a log of single calls. Ranks are those of the job, where the log tells them; else those of each communicator,
/// which a note says.
pub(crate) fn of_log(report: &InspectorReport) -> ((Vec<CallTotals>, usize), Option<String>) {
    let (ranks, note) = match report.job_ranks() {
        Ok(ranks) => (ranks, None),
        Err(why) => (HashMap::new(), Some(format!("{why}: ranks are those of each communicator"))),
    };
    let of_job = |call: &InspectorCall| ranks.get(&(call.host.as_str(), call.pid)).copied();
    let calls = report.calls.iter().map(|call| TimedCall {
        rank: of_job(call).unwrap_or(call.rank),
        group: &call.communicator,
        operation: &call.operation,
        sequence: (!call.is_p2p).then_some(call.sequence),
        bytes: Some(call.bytes),
        seconds: call.time_us * 1e-6,
    });
    (call_totals(calls), note)
}
