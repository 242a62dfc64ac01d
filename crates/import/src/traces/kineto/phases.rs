//! From marks to steps, phases and waits.

use std::collections::HashMap;

use trace::timeline::{Kind, NameId, RankTimeline, Span};

use super::collect::{Busy, Collected, ThreadFrame, ThreadMark};
use super::waits::{Transfer, waits};
use crate::counted::counted;

/// An optimizer that steps so often within one marked step says that the mark is none.
const FEWEST_STEPS: usize = 4;

/// Fills a rank with what was collected. Times stay those of the file.
pub(super) fn build(collected: &mut Collected, rank: &mut RankTimeline, notes: &mut Vec<String>) {
    for list in [
        &mut collected.steps,
        &mut collected.optimizer,
        &mut collected.inputs,
        &mut collected.forwards,
        &mut collected.parts,
        &mut collected.autograd,
    ] {
        list.sort_by_key(|mark| (mark.begin, std::cmp::Reverse(mark.end)));
    }
    let main = main_thread(collected);
    let mut busy = std::mem::take(&mut collected.busy);
    let mut busy = busy.get_mut(main as usize).map(std::mem::take).unwrap_or_default();
    // Of two stretches of one time, a phase encloses an operation.
    busy.sort_by_key(|busy| (busy.begin, std::cmp::Reverse(busy.end), busy.frame != ThreadFrame::Phase));
    let steps = steps(collected, &busy, notes);
    let phases = StepPhases::from_collected(collected, &steps);
    let waits = waits(&collected.transfers, &busy, &after_backward(collected, &phases.backward, &steps));
    put(collected, rank, &steps, &phases, main);
    let name = collected.names.intern("wait");
    for (begin_ns, end_ns, collective) in waits.into_iter().flat_map(|wait| of_steps(wait, &steps)) {
        rank.spans.push(Span { begin_ns, end_ns, kind: Kind::Wait, queue: 0, name, number: 0, collective });
    }
    rank.collectives = std::mem::take(&mut collected.calls);
}

/// The thread that runs the step: that of the step's marks, or of the nearest thing to them.
fn main_thread(collected: &Collected) -> u32 {
    let lists = [&collected.steps, &collected.optimizer, &collected.forwards, &collected.inputs, &collected.parts];
    let found = lists.into_iter().find_map(|list| most_common(list));
    found.unwrap_or_else(|| {
        let busiest = (0..).zip(&collected.busy).max_by_key(|(_, busy)| busy.len());
        busiest.map_or(0, |(thread, _)| thread)
    })
}

fn most_common(marks: &[ThreadMark]) -> Option<u32> {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for mark in marks {
        *counts.entry(mark.thread).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(thread, count)| (*count, std::cmp::Reverse(*thread))).map(|(thread, _)| thread)
}

/// The steps, in order.
fn steps(collected: &mut Collected, busy: &[Busy], notes: &mut Vec<String>) -> Vec<ThreadMark> {
    let mut steps = std::mem::take(&mut collected.steps);
    if steps.is_empty() || is_never_told(&steps, collected) {
        return steps_by_optimizer(collected, busy, notes);
    }
    let before = steps.len();
    let mut seen = std::collections::HashSet::new();
    steps.retain(|step| seen.insert(step.number));
    if steps.len() < before {
        let left_out = counted(before - steps.len(), "mark of a step is", "marks of steps are");
        notes.push(format!("{left_out} left out: the same number occurs twice"));
    }
    let back = steps.windows(2).filter(|pair| pair[1].number < pair[0].number).count();
    if back > 0 {
        notes.push(format!(
            "the clock jumped, or steps ran out of order: {} after a later step",
            counted(back, "step begins", "steps begin")
        ));
    }
    let overlap = steps.windows(2).filter(|pair| pair[1].begin < pair[0].end).count();
    if overlap > 0 {
        notes.push(format!("{} before the end of the step before", counted(overlap, "step begins", "steps begin")));
    }
    steps
}

/// Whether the only step is all of the recording: a profiler with a schedule marks it so where nobody calls its `step()`.
fn is_never_told(steps: &[ThreadMark], collected: &Collected) -> bool {
    let [only] = steps else { return false };
    let is_inside = |mark: &&ThreadMark| mark.begin >= only.begin && mark.end <= only.end;
    let mut counts: HashMap<NameId, usize> = HashMap::new();
    for mark in collected.optimizer.iter().filter(is_inside) {
        if collected.names.get(mark.name).starts_with("Optimizer.step#") {
            *counts.entry(mark.name).or_default() += 1;
        }
    }
    counts.into_values().any(|count| count >= FEWEST_STEPS)
}

/// Steps of a program that does not call `profiler.step()`: each ends with its optimizer.
fn steps_by_optimizer(collected: &mut Collected, busy: &[Busy], notes: &mut Vec<String>) -> Vec<ThreadMark> {
    let names = &collected.names;
    let is_step = |mark: &&ThreadMark| names.get(mark.name).starts_with("Optimizer.step#");
    let Some(first) = collected.optimizer.iter().find(is_step).copied() else {
        notes.push("no step is marked (hint: call `profiler.step()` after each step)".to_owned());
        return Vec::new();
    };
    // Where a step runs several optimizers, the first of them counts.
    let ends: Vec<ThreadMark> = collected.optimizer.iter().filter(|mark| mark.name == first.name).copied().collect();
    let name = collected.names.intern("step");
    let mut begin = busy.first().map_or(first.begin, |busy| busy.begin.min(first.begin));
    let mut steps = Vec::with_capacity(ends.len());
    for (number, end) in (0..).zip(ends) {
        let end_ns = end.end.max(begin);
        steps.push(ThreadMark { begin, end: end_ns, thread: end.thread, number, name });
        begin = end_ns;
    }
    notes.push(
        "steps are counted from 0 and end with the optimizer: the program does not call `profiler.step()`".into(),
    );
    steps
}

/// Phases of all steps, in order.
struct StepPhases {
    forward: Vec<(i64, i64)>,
    backward: Vec<(i64, i64)>,
}

impl StepPhases {
    fn from_collected(collected: &Collected, steps: &[ThreadMark]) -> Self {
        let inside = merged(&collected.autograd);
        let outside = |mark: &&ThreadMark| !is_inside(&inside, mark.begin);
        let begins =
            |marks: &[ThreadMark]| -> Vec<i64> { marks.iter().filter(outside).map(|mark| mark.begin).collect() };
        let mut borders = begins(&collected.optimizer);
        borders.extend(steps.iter().map(|step| step.begin));
        let mut forward = merged(&collected.forwards);
        if forward.is_empty() {
            // The first mark of FSDP in a pass to the last; a pass that backward runs again belongs to backward.
            let parts: Vec<ThreadMark> = collected.parts.iter().filter(outside).copied().collect();
            let mut between = borders.clone();
            between.extend(inside.iter().map(|(begin, _)| *begin));
            forward = runs(&parts, between);
        }
        borders.extend(forward.iter().map(|(begin, _)| *begin));
        Self { backward: runs(&collected.autograd, borders), forward }
    }
}

/// Stretches without overlap that cover sorted marks.
fn merged(marks: &[ThreadMark]) -> Vec<(i64, i64)> {
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for mark in marks {
        match merged.last_mut() {
            Some((_, end)) if mark.begin < *end => *end = mark.end.max(*end),
            _ => merged.push((mark.begin, mark.end)),
        }
    }
    merged
}

fn is_inside(stretches: &[(i64, i64)], time: i64) -> bool {
    let before = stretches.partition_point(|(begin, _)| *begin <= time);
    before > 0 && time < stretches[before - 1].1
}

/// From the first to the last of sorted marks that no border stands between.
fn runs(marks: &[ThreadMark], mut borders: Vec<i64>) -> Vec<(i64, i64)> {
    borders.sort_unstable();
    let mut runs: Vec<(i64, i64)> = Vec::new();
    let mut last = usize::MAX;
    for mark in marks {
        let border = borders.partition_point(|border| *border <= mark.begin);
        match runs.last_mut() {
            Some((_, end)) if border == last => *end = mark.end.max(*end),
            _ => runs.push((mark.begin, mark.end)),
        }
        last = border;
    }
    runs
}

/// From the end of each backward pass to what the job does next: another phase, or the next step.
fn after_backward(collected: &Collected, backward: &[(i64, i64)], steps: &[ThreadMark]) -> Vec<(i64, i64)> {
    let until = |(_, end): &(i64, i64)| {
        let limit = step_of(steps, *end).map_or(i64::MAX, |step| step.end);
        let later =
            |marks: &[ThreadMark]| marks.get(marks.partition_point(|mark| mark.begin < *end)).map(|mark| mark.begin);
        let next =
            [&collected.optimizer, &collected.forwards, &collected.inputs].into_iter().filter_map(|marks| later(marks));
        (*end, next.fold(limit, i64::min))
    };
    backward.iter().map(until).collect()
}

/// The last step that begins at or before a time.
fn step_of(steps: &[ThreadMark], time: i64) -> Option<&ThreadMark> {
    steps.partition_point(|step| step.begin <= time).checked_sub(1).map(|at| &steps[at])
}

/// The parts of a wait in steps. A thread may wait from one step into the next; between steps nobody asks.
fn of_steps((begin, end, call): Transfer, steps: &[ThreadMark]) -> impl Iterator<Item = Transfer> {
    let first = steps.partition_point(|step| step.end <= begin);
    let reached = steps[first..].iter().take_while(move |step| step.begin < end);
    let parts = reached.map(move |step| (begin.max(step.begin), end.min(step.end), call));
    parts.filter(|(begin, end, _)| begin < end)
}

/// Puts steps and phases before the spans of devices, and numbers queues from the step's thread.
fn put(collected: &mut Collected, rank: &mut RankTimeline, steps: &[ThreadMark], phases: &StepPhases, main: u32) {
    rank.spans = std::mem::take(&mut collected.spans);
    let mut queues: HashMap<(u32, bool), u32> = HashMap::from([((main, false), 0)]);
    for span in &mut rank.spans {
        let next = queues.len() as u32;
        // The step's thread works while an exchange is under way that it began; where it waits, there is a wait.
        let exchanges = span.queue == main && span.kind == Kind::Collective;
        span.queue = *queues.entry((span.queue, exchanges)).or_insert(next);
    }
    for step in steps {
        rank.push(Kind::Step, step.name, step.number, step.begin, step.end);
    }
    let (forward, backward) = (collected.names.intern("forward"), collected.names.intern("backward"));
    numbered(rank, Kind::Forward, phases.forward.iter().map(|(begin, end)| (*begin, *end, forward)), steps);
    numbered(rank, Kind::Backward, phases.backward.iter().map(|(begin, end)| (*begin, *end, backward)), steps);
    let marks = |marks: &[ThreadMark]| -> Vec<(i64, i64, NameId)> {
        marks.iter().map(|mark| (mark.begin, mark.end, mark.name)).collect()
    };
    numbered(rank, Kind::Input, marks(&collected.inputs).into_iter(), steps);
    for mark in &collected.optimizer {
        rank.push(Kind::Optimizer, mark.name, 0, mark.begin, mark.end);
    }
}

/// Adds phases that are numbered within their step.
fn numbered(
    rank: &mut RankTimeline,
    kind: Kind,
    phases: impl Iterator<Item = (i64, i64, NameId)>,
    steps: &[ThreadMark],
) {
    let (mut last, mut number) = (None, 0);
    for (begin, end, name) in phases {
        let step = step_of(steps, begin).map(|step| step.number);
        number = if step.is_some() && step == last { number + 1 } else { 0 };
        last = step;
        rank.push(kind, name, number, begin, end);
    }
}
