//! Spans of trials, as traces.

use std::borrow::Cow;

use benchmarks::ParsedCase;
use measure::{CaseRun, Trial};
use record::StoreError;
use record::file::FileStem;
use terms::{Collective, Named};
use trace::timeline::{CollectiveCall, RankTimeline, SOURCE, Timeline};

use super::RunState;

impl RunState<'_> {
    /// Spans of the last trial on every rank, as a Chrome trace: of steps, else entry and exit of consecutive operations.
    pub(super) fn trace(&self, parsed: &dyn ParsedCase, run: &CaseRun) -> Result<(), StoreError> {
        let Some(last) = run.trials.last() else { return Ok(()) };
        let operations = || operations(last, parsed.operation());
        let timeline = last.timeline.as_ref().map_or_else(|| Cow::Owned(operations()), Cow::Borrowed);
        let name = FileStem::of(&run.case.id).and(run.trials.len() as u64 - 1).file(".json.gz");
        self.driver.setup.store.write_trace(&name, |to| trace::chrome::write(to, &timeline))
    }
}

/// Consecutive operations of a trial, by their entry and exit times.
fn operations(trial: &Trial, (operation, bytes): (Collective, u64)) -> Timeline {
    let mut timeline = Timeline { source: SOURCE.to_owned(), ..Timeline::default() };
    timeline.clock_error_ns = Some(trial.arrivals_apart_ns.ceil() as u64);
    timeline.world = u32::try_from(trial.arrivals.len()).ok();
    let (name, group) = (timeline.names.intern(operation.name()), timeline.names.intern("world"));
    for (rank, times) in (0..).zip(&trial.arrivals) {
        let mut own = RankTimeline { rank, ..RankTimeline::default() };
        for (number, times) in (0..).zip(times.chunks_exact(2)) {
            let call = CollectiveCall {
                operation: name,
                group,
                sequence: Some(number),
                ranks: timeline.world,
                bytes: Some(bytes),
                input_bytes: None,
                dtype: None,
                synchronises: operation.synchronises(),
                first_byte_ns: None,
            };
            own.push_call(0, times[0] as i64, times[1] as i64, call);
        }
        timeline.ranks.push(own);
    }
    timeline
}
