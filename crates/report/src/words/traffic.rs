//! What the communication of a job's step costs here, next to what its trace had: the sum over the plan's collectives, each by
//! how often a step calls it.

use std::collections::BTreeMap;

use record::{CaseLine, JobCalls};

use crate::Run;
use crate::document::{Align, Block, Table, Words};
use crate::escape::one_line;
use crate::number::{NONE, bytes, factor, percent, seconds};
use crate::study::{Estimate, Measured, backend, ranks};

/// A collective of the job, and what it took here.
struct Collective<'r> {
    case: &'r CaseLine,
    job: JobCalls,
    here: Option<Measured<'r>>,
}

impl Collective<'_> {
    /// Seconds of a step here.
    fn step_s(&self) -> Option<f64> {
        Some(self.job.per_step() * self.here.as_ref()?.time.mid)
    }

    /// `all_reduce 64 KiB, 2 ranks`.
    fn name(&self) -> String {
        let op = self.case.parameters.values().next().and_then(serde_json::Value::as_str);
        let size = self.case.bytes.map_or(String::new(), |size| format!(" {}", bytes(size)));
        format!("{}{size}, {}", op.unwrap_or(&self.case.benchmark), ranks(self.case.ranks))
    }

    /// Whether both are the same collective, however it is measured.
    fn is_like(&self, other: &Self) -> bool {
        let of =
            |one: &Self| (one.case.bytes_requested, one.case.parameters.get("op").cloned(), one.case.dtype.clone());
        self.job == other.job && self.job.trace_s().is_some() && of(self) == of(other)
    }
}

/// The collectives of a job by one way to move data.
struct TrafficSide<'r> {
    name: String,
    all: Vec<Collective<'r>>,
}

/// Sums of a side.
struct Sums {
    here: Estimate,
    /// None where a collective has no time in the trace.
    trace: Option<f64>,
    measured: usize,
}

impl<'r> TrafficSide<'r> {
    fn measured(&self) -> impl Iterator<Item = &Collective<'r>> {
        self.all.iter().filter(|one| one.here.is_some())
    }

    /// Sums of what was measured. None where nothing was.
    fn sums(&self) -> Option<Sums> {
        let here: f64 = self.measured().filter_map(Collective::step_s).sum();
        let trace = self.measured().map(|one| Some(one.job.per_step() * one.job.trace_s()?)).sum();
        let measured = self.measured().count();
        let ends = stats::sign_interval(&self.rounds()).map(|[low, high]| [low.min(here), high.max(here)]);
        (measured > 0).then(|| Sums { here: Estimate::new(here, ends), trace, measured })
    }

    /// The sum in each round that all collectives were measured in: what the machine did to all of them is in one sum.
    fn rounds(&self) -> Vec<f64> {
        let mut sums: BTreeMap<u32, (usize, f64)> = BTreeMap::new();
        for one in self.measured() {
            let trials = one.case.trial_round.iter().zip(&one.case.trial_median_s);
            let by_round: BTreeMap<u32, f64> = trials.map(|(round, time)| (*round, *time)).collect();
            for (round, time) in by_round {
                let sum = sums.entry(round).or_default();
                *sum = (sum.0 + 1, sum.1 + one.job.per_step() * time);
            }
        }
        let all = self.measured().count();
        sums.into_values().filter(|(number, _)| *number == all).map(|(_, sum)| sum).collect()
    }

    /// Whether any time in the trace is without waiting.
    fn is_without_waiting(&self) -> bool {
        self.measured().any(|one| one.job.time_s.is_some())
    }

    fn sentences(&self, is_only: bool) -> Vec<String> {
        let Some(sums) = self.sums() else { return Vec::new() };
        let of = self.by(is_only);
        let has_steps = self.measured().all(|one| one.job.steps.is_some());
        let what = if has_steps { "of a step of the traced job" } else { "of the whole trace of the job" };
        let simulated = if self.measured().any(|one| one.case.simulated) { " (simulated)" } else { "" };
        let here = format!("{}{}{simulated}", seconds(sums.here.mid), sums.here.range(seconds));
        let waiting =
            if self.is_without_waiting() { "without waiting for late ranks" } else { "with waiting for late ranks" };
        let trace = match sums.trace.filter(|trace| *trace > 0.0) {
            None => "the trace has no times of its calls".to_owned(),
            Some(trace) => {
                format!("{} the {} of its trace ({waiting})", factor(sums.here.mid / trace), seconds(trace))
            }
        };
        let mut all = vec![format!("Communication {what} costs {here} here{of}, {trace}.")];
        let missing = self.all.len() - sums.measured;
        if missing > 0 {
            let number = self.all.len();
            all.push(format!(
                "Both sums leave out {missing} of the job's {number} collectives: no correct result{of}."
            ));
        }
        let number = |of: fn(&JobCalls) -> u64| self.measured().map(|one| of(&one.job)).sum::<u64>();
        let (overlapped, calls) = (number(|job| job.overlapped), number(|job| job.calls));
        if overlapped > 0 {
            let share = percent(overlapped as f64 / calls as f64);
            all.push(format!(
                "{share} of the job's calls overlapped with another call, but the cases run one at a time: the sum \
                 here{of} is an upper bound."
            ));
        }
        all
    }

    fn by(&self, is_only: bool) -> String {
        if is_only { String::new() } else { format!(" by {}", self.name) }
    }
}

/// The sides of a run: one for each backend and device; for each number of ranks, where a collective was measured over several.
fn sides(run: &Run) -> Vec<TrafficSide<'_>> {
    let mut sides: Vec<TrafficSide<'_>> = Vec::new();
    for case in &run.cases {
        let Some(job) = run.in_job.get(&case.id).copied() else { continue };
        let name = match case.device.as_str() {
            "" | "cpu" => backend(case),
            device => format!("{} on {device}", backend(case)),
        };
        let one = Collective { case, job, here: Measured::from_case(case) };
        match sides.iter_mut().find(|side| side.name == name) {
            Some(side) => side.all.push(one),
            None => sides.push(TrafficSide { name, all: vec![one] }),
        }
    }
    sides.into_iter().flat_map(by_ranks).map(fastest).collect()
}

fn by_ranks(side: TrafficSide<'_>) -> Vec<TrafficSide<'_>> {
    let repeats = |(at, one): (usize, &Collective<'_>)| {
        side.all[..at].iter().any(|other| other.is_like(one) && other.case.ranks != one.case.ranks)
    };
    if !side.all.iter().enumerate().any(repeats) {
        return vec![side];
    }
    let mut parts: BTreeMap<u32, TrafficSide<'_>> = BTreeMap::new();
    for one in side.all {
        let name = || format!("{}, {}", side.name, ranks(one.case.ranks));
        parts.entry(one.case.ranks).or_insert_with(|| TrafficSide { name: name(), all: Vec::new() }).all.push(one);
    }
    parts.into_values().collect()
}

/// Leaves the fastest of several ways to do one collective, in place and out of place.
fn fastest(mut side: TrafficSide<'_>) -> TrafficSide<'_> {
    let mut kept: Vec<Collective<'_>> = Vec::new();
    for one in std::mem::take(&mut side.all) {
        let time = |one: &Collective<'_>| one.step_s().unwrap_or(f64::INFINITY);
        let same = |other: &&mut Collective<'_>| {
            other.is_like(&one) && other.case.ranks == one.case.ranks && has_like_groups(other.case, one.case)
        };
        match kept.iter_mut().find(same) {
            Some(other) if time(&one) < time(other) => *other = one,
            Some(_) => {}
            None => kept.push(one),
        }
    }
    TrafficSide { all: kept, ..side }
}

fn has_like_groups(one: &CaseLine, other: &CaseLine) -> bool {
    one.parameters.get("groups") == other.parameters.get("groups")
}

/// What a step of the job costs, and what the sum leaves out. Empty where the plan is not of a job's trace.
pub fn sentences(run: &Run) -> Vec<String> {
    let sides = sides(run);
    let is_only = sides.len() == 1;
    sides.iter().flat_map(|side| side.sentences(is_only)).map(|sentence| one_line(&sentence)).collect()
}

/// The table by collective.
pub(crate) fn table(run: &Run) -> Vec<Block> {
    use Align::{Left, Right};
    let sides = sides(run);
    let has_steps = sides.iter().flat_map(|side| &side.all).all(|one| one.job.steps.is_some());
    let (calls, step) = if has_steps { ("calls a step", "a step here") } else { ("calls", "all calls here") };
    let mut table = Table::new([
        ("operation", Left),
        ("moved by", Left),
        (calls, Right),
        ("a call here", Right),
        (step, Right),
        ("a call in the trace", Right),
        ("with waiting", Right),
        ("here / trace", Right),
    ]);
    for side in &sides {
        side.all.iter().for_each(|one| table.row(row(&side.name, one)));
        if let Some(sums) = side.sums().filter(|_| side.all.len() > 1) {
            table.row(total(&side.name, &sums));
        }
    }
    if table.is_empty() {
        return Vec::new();
    }
    let note = "A call in the trace: the median over calls of the shortest rank, which does not wait; with waiting: \
                over all ranks. Sums use the first where it is known. The cases run one at a time, back to back, on \
                buffers in the caches.";
    vec![Block::Table(table), Block::Paragraph(Words::prose(note))]
}

fn row(side: &str, one: &Collective<'_>) -> [String; 8] {
    let none = || NONE.to_owned();
    let time = |time: Option<f64>| time.map_or_else(none, seconds);
    let here = one.here.as_ref().map(|here| here.time);
    let trace = one.job.trace_s();
    [
        one.name(),
        side.to_owned(),
        calls(one.job.per_step()),
        here.map_or_else(none, |here| format!("{}{}", seconds(here.mid), here.range(seconds))),
        time(one.step_s()),
        time(one.job.time_s),
        time(one.job.waiting_s),
        here.zip(trace).filter(|(_, trace)| *trace > 0.0).map_or_else(none, |(here, trace)| factor(here.mid / trace)),
    ]
}

/// How many calls a step has: `3`, `0.25`.
pub(crate) fn calls(per_step: f64) -> String {
    let text = format!("{per_step:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn total(side: &str, sums: &Sums) -> [String; 8] {
    let ratio = sums.trace.filter(|trace| *trace > 0.0).map(|trace| factor(sums.here.mid / trace));
    [
        "sum".to_owned(),
        side.to_owned(),
        String::new(),
        String::new(),
        format!("{}{}", seconds(sums.here.mid), sums.here.range(seconds)),
        sums.trace.map_or_else(|| NONE.to_owned(), |trace| format!("sum {}", seconds(trace))),
        String::new(),
        ratio.unwrap_or_else(|| NONE.to_owned()),
    ]
}
