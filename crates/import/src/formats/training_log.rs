//! What logs of training programs share: the case that they become, and steps that are one trial of it.
//!
//! `training_log` is not a benchmark of the table: nothing runs it. The record holds its declaration, as of every
//! benchmark, so report and comparison show it without knowing it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use record::show::{Column, Format, Show, Table};
use record::{About, Better, Metric};
use terms::{Field, Kind, Role};

use crate::{Details, Figures, Results, Row, Shape};

/// More ranks than any job has.
const MOST_RANKS: u64 = 1 << 24;

static FIELDS: &[Field] = &[
    Field::new(Kind::Text, None, "the program that trained").named("program").always().role(Role::Implementation),
    Field::new(Kind::Text, None, "the model, as the program calls it").named("model"),
    Field::new(Kind::Whole(1, MOST_RANKS), None, "number of ranks").named("ranks").always().role(Role::World),
    Field::new(Kind::Whole(1, u64::MAX >> 1), None, "samples of a step on all ranks").named("global_batch"),
    Field::new(Kind::Whole(1, u64::MAX >> 1), None, "tokens of a sample").named("sequence"),
];

/// What such a log becomes.
pub(crate) static ABOUT: About = About {
    name: "training_log",
    doc: "training steps of another program, as its log has them",
    fields: &[|| FIELDS],
    metrics: &[
        Metric::new("tokens_per_s", "1/s", Better::Higher, "tokens of all ranks per second"),
        Metric::new("tokens_per_s_per_rank", "1/s", Better::Higher, "tokens per second / ranks"),
        Metric::new("samples_per_s", "1/s", Better::Higher, "samples of all ranks per second"),
        Metric::new(
            "tflops_per_rank",
            "TFLOP/s",
            Better::Higher,
            "operations per second / ranks, as the program counts them",
        ),
        Metric::new("mfu", "", Better::Higher, "share of the peak, as the program counts it"),
        Metric::new("reserved_bytes", "bytes", Better::Lower, "most memory that the allocator of a rank reserved"),
        Metric::new("loss", "", Better::Lower, "loss of the last step"),
        Metric::new("forward_s", "s", Better::Lower, "time of the forward pass of a step: median on rank 0"),
        Metric::new(
            "backward_s",
            "s",
            Better::Lower,
            "time of the backward pass of a step, with its reductions: median on rank 0",
        ),
        Metric::new("reduce_s", "s", Better::Lower, "time of reductions of gradients in a step: median on rank 0"),
        Metric::new("optimizer_s", "s", Better::Lower, "time of the optimizer in a step: median on rank 0"),
    ],
    check: |_| Ok(()),
    command: None,
    show,
};

fn show() -> Show {
    let columns = vec![
        Column::new("program", "program", Format::Word),
        Column::new("model", "model", Format::Word),
        Column::new("ranks", "ranks", Format::Count),
        Column::new("global batch", "global_batch", Format::Count),
        Column::new("sequence", "sequence", Format::Count).gives_way(3),
        Column::new("lines", "samples", Format::Count).gives_way(4),
        Column::time("step"),
        Column::new("tokens/s", "tokens_per_s", Format::Number),
        Column::new("TFLOP/s a rank", "tflops_per_rank", Format::Number).gives_way(2),
        Column::new("MFU", "mfu", Format::Share),
        Column::new("memory a rank", "reserved_bytes", Format::Bytes),
        Column::new("loss", "loss", Format::Number).gives_way(5),
    ];
    Show {
        timed: "step".to_owned(),
        tables: vec![Table { columns, ..Table::default() }],
        headline: vec!["tokens_per_s".to_owned(), "mfu".to_owned()],
        ..Show::default()
    }
}

/// What a log says of its job. Zero and empty: it does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LoggedJob {
    pub(super) program: &'static str,
    pub(super) model: String,
    pub(super) ranks: u64,
    /// Tokens of a sample.
    pub(super) sequence: u64,
    /// Samples of a step on all ranks, where a log says it once.
    pub(super) global_batch: Option<u64>,
    /// Tokens of a step on all ranks, where a log says it once.
    pub(super) tokens_of_step: Option<u64>,
    /// Most bytes that the allocator of a rank reserved, where a log says it apart from its steps.
    pub(super) reserved_bytes: Option<f64>,
    /// Times of phases of each step, where a log has them apart from its steps.
    pub(super) phases: Vec<Phases>,
}

/// Seconds of the phases of a step: forward, backward with its reductions, these alone, and the optimizer.
pub(super) type Phases = [f64; 4];

/// One line of a log: some steps, and what the program says of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LoggedStep {
    pub(super) number: u64,
    /// Seconds of one step.
    pub(super) time_s: f64,
    pub(super) global_batch: Option<u64>,
    pub(super) tokens_per_s_per_rank: Option<f64>,
    /// Samples of all ranks per second, as the program tells it.
    pub(super) samples_per_s: Option<f64>,
    pub(super) tflops_per_rank: Option<f64>,
    pub(super) mfu: Option<f64>,
    pub(super) reserved_bytes: Option<f64>,
    pub(super) loss: Option<f64>,
    /// Steps that were skipped, or had no finite gradient.
    pub(super) bad: u64,
    /// Whether the program rounds the time so much that a reader should know.
    pub(super) is_rounded: bool,
}

/// Adds a run's steps: one trial for each size of the global batch, which may grow. A first line that has the start of
/// the program is left out where there are others.
pub(super) fn add(results: &mut Results, job: &LoggedJob, steps: &[LoggedStep], has_start: bool) {
    let counted = steps.get(1..).filter(|rest| has_start && !rest.is_empty()).unwrap_or(steps);
    let mut batches: BTreeMap<Option<u64>, Vec<LoggedStep>> = BTreeMap::new();
    for step in counted {
        batches.entry(step.global_batch).or_default().push(*step);
    }
    match (steps.len(), has_start) {
        (0, _) => return,
        (_, false) => {}
        (1, true) => results.note("a run has one line alone: its time has the start of the program"),
        (_, true) => results.note("the first line of each run is left out: it has the start of the program"),
    }
    // Lines of phases do not say of which batch they are.
    let phases = if batches.len() == 1 { job.phases.as_slice() } else { &[] };
    for (batch, steps) in batches {
        results.add(Row { shape: shape(job, batch), figures: figures(job, batch, &steps, phases) });
    }
}

fn shape(job: &LoggedJob, batch: Option<u64>) -> Shape {
    let mut fields: Vec<(&'static str, Cow<'static, str>)> =
        vec![("program", job.program.into()), ("ranks", job.ranks.to_string().into())];
    if !job.model.is_empty() {
        // Commas separate values of a field.
        fields.push(("model", job.model.replace(',', " ").into()));
    }
    fields.extend(batch.map(|batch| ("global_batch", Cow::from(batch.to_string()))));
    fields.extend((job.sequence > 0).then(|| ("sequence", Cow::from(job.sequence.to_string()))));
    Shape { benchmark: ABOUT.name, fields, device: "cuda", implementation: None }
}

fn figures(job: &LoggedJob, batch: Option<u64>, steps: &[LoggedStep], phases: &[Phases]) -> Figures {
    let sorted = stats::sorted(&steps.iter().map(|step| step.time_s).collect::<Vec<_>>());
    let at = |place: f64| Some(stats::quantile(&sorted, place));
    let median = stats::quantile(&sorted, 0.5);
    let median_of = |of: fn(&LoggedStep) -> Option<f64>| -> Option<f64> {
        let values: Option<Vec<f64>> = steps.iter().map(of).collect();
        values.map(|values| stats::median(&values))
    };
    let samples = batch.map(|batch| batch as f64 / median);
    let ranks = job.ranks as f64;
    let tokens = median_of(|step| step.tokens_per_s_per_rank).map(|tokens| tokens * ranks);
    let tokens = tokens.or(samples.filter(|_| job.sequence > 0).map(|samples| samples * job.sequence as f64));
    let phase = |at: usize| {
        let times: Vec<f64> = phases.iter().map(|times| times[at]).collect();
        (!times.is_empty()).then(|| stats::median(&times))
    };
    let most = steps.iter().filter_map(|step| step.reserved_bytes).reduce(f64::max);
    let metrics = [
        ("tokens_per_s", tokens),
        ("tokens_per_s_per_rank", tokens.map(|tokens| tokens / ranks)),
        ("samples_per_s", samples.or_else(|| median_of(|step| step.samples_per_s))),
        ("tflops_per_rank", median_of(|step| step.tflops_per_rank)),
        ("mfu", median_of(|step| step.mfu)),
        ("reserved_bytes", most),
        ("loss", steps.last().and_then(|step| step.loss)),
        ("forward_s", phase(0)),
        ("backward_s", phase(1)),
        ("reduce_s", phase(2)),
        ("optimizer_s", phase(3)),
    ];
    let details = Details {
        mean: Some(sorted.iter().sum::<f64>() / sorted.len() as f64),
        p05: at(0.05),
        p50: at(0.5),
        p95: at(0.95),
        min: sorted.first().copied(),
        max: sorted.last().copied(),
        metrics: metrics.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
        ..Details::default()
    };
    Figures { time_s: median, iterations: Some(steps.len() as u64), wrong: None, details: Some(Box::new(details)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_declaration_has_no_faults() {
        assert_eq!(ABOUT.faults(), Vec::<String>::new());
    }
}
