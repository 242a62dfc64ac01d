//! The text of the plan, and what is said of it.

use std::collections::BTreeSet;

use terms::{Bytes, Collective, Named as _, Seconds};

use super::calls::{JobCalls, once};
use super::distinct::{CollectiveShape, Distinct, FoundCalls};
use super::{JobTraffic, TrafficPlan};
use crate::counted::counted;
use crate::plan_text::{PlanText, quoted};
use crate::tree::{one_line, shown};

/// Collectives that have a line of what was read. The plan has all.
const LISTED: usize = 8;

/// A plan of one collective, to ask whether it can be a case.
pub(super) fn alone(one: &Distinct) -> String {
    format!("experiment: one\ncases:\n  - {}\n", case(one, true))
}

/// The plan of all.
pub(super) fn plan(job: &JobCalls<'_>, found: FoundCalls, given: &JobTraffic<'_>) -> TrafficPlan {
    let mut text = PlanText::new(given.name, job.source, stem(given.name));
    let has_steps = !job.steps.is_empty();
    text.line(
        0,
        "# Each case is a collective of the job. `trace_calls` of a rank in `trace_steps` steps: what the trace had.",
    );
    text.line(0, "cases:");
    for one in &found.collectives {
        text.line(1, &format!("# {}", remark(one, has_steps)));
        text.line(1, &format!("- {}", case(one, has_steps)));
    }
    read_as(&mut text, job, &found.collectives);
    warnings(&mut text, job, &found);
    let ranks: BTreeSet<u32> = found.collectives.iter().map(|one| one.shape.ranks).collect();
    let is_uniform = ranks.len() == 1 && found.collectives.iter().all(|one| one.shape.groups.is_none());
    TrafficPlan { plan: text.finish(), ranks: ranks.last().copied().unwrap_or(0), is_uniform }
}

/// The name of a file without its endings: `rank0` of `rank0.pt.trace.json.gz`.
fn stem(name: &str) -> &str {
    let last = name.trim_end_matches('/').rsplit('/').next().unwrap_or(name);
    last.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or(last)
}

/// A case as one line of YAML.
fn case(one: &Distinct, has_steps: bool) -> String {
    let CollectiveShape { op, bytes, dtype, ranks, groups, .. } = &one.shape;
    let mut fields = vec![format!("benchmark: collective, op: {}", op.name())];
    if *op != Collective::Barrier {
        fields.push(format!("bytes: {bytes}, dtype: {}", dtype.name()));
    }
    fields.push(format!("ranks: {ranks}"));
    fields.extend(groups.as_ref().map(|rule| format!("groups: {}", quoted(rule))));
    fields.push(format!("trace_calls: {}", one.calls));
    if has_steps {
        fields.push(format!("trace_steps: {}", one.steps));
    }
    let time = |name: &str, time: Option<f64>| time.map(|seconds| format!("{name}: {:.3}us", seconds * 1e6));
    fields.extend(time("trace_s", one.time_s));
    fields.extend(time("trace_waiting_s", one.waiting_s));
    fields.extend((one.overlapped > 0).then(|| format!("trace_overlapped: {}", one.overlapped)));
    format!("{{{}}}", fields.join(", "))
}

/// What a comment says of a case.
fn remark(one: &Distinct, has_steps: bool) -> String {
    let names: Vec<String> = one.names.iter().map(|name| shown(name)).collect();
    let of = if has_steps { " a step" } else { "" };
    let mut text = format!("{}{of}", counted_decimal(one.per_step(), "call", "calls"));
    text += &format!(", communicator {} of {} ranks", names.join(", "), one.shape.of_ranks);
    if one.in_flight > 1 {
        text += &format!(", up to {} calls in flight", one.in_flight);
    }
    text
}

/// `3 calls`, `0.25 calls`.
fn counted_decimal(value: f64, one: &str, many: &str) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} {}", if text == "1" { one } else { many })
}

fn read_as(text: &mut PlanText, job: &JobCalls<'_>, all: &[Distinct]) {
    let say = &mut text.plan.read_as;
    let ranks = format!("{} of {}", job.traced, counted(job.world, "rank", "ranks"));
    let counts: BTreeSet<u64> = job.steps.values().copied().collect();
    say.push(match (counts.first(), counts.last()) {
        (Some(least), Some(most)) if least == most => format!("{ranks}, {} each", counted(*most, "step", "steps")),
        (Some(least), Some(most)) => format!("{ranks}, {least} to {most} steps"),
        _ => format!("{ranks}; the trace marks no steps, so the calls are those of the whole trace"),
    });
    let calls: f64 = all.iter().map(Distinct::per_step).sum();
    let of = if job.steps.is_empty() { "" } else { " a step" };
    let distinct = counted(all.len(), "distinct collective", "distinct collectives");
    say.push(format!("{}{of}, {distinct}", counted_decimal(calls, "call", "calls")));
    say.extend(all.iter().take(LISTED).map(|one| line(one, of)));
    if all.len() > LISTED {
        say.push(format!("and {} more", all.len() - LISTED));
    }
}

/// `all_reduce 38.5 KiB, f32, 2 ranks: 1 call a step, 887 us, 1.2 ms with waiting`.
fn line(one: &Distinct, of: &str) -> String {
    let CollectiveShape { op, bytes, dtype, ranks, groups, .. } = &one.shape;
    let size = match op {
        Collective::Barrier => String::new(),
        _ => format!(" {}, {}", Bytes(*bytes).short(), dtype.name()),
    };
    let groups = groups.as_ref().map_or(String::new(), |rule| format!(" in groups `{rule}`"));
    let times = match (one.time_s, one.waiting_s) {
        (Some(time), Some(waiting)) => format!(", {}, {} with waiting", Seconds(time), Seconds(waiting)),
        (None, Some(waiting)) => format!(", {} with waiting", Seconds(waiting)),
        _ => String::new(),
    };
    format!(
        "{}{size}, {ranks} ranks{groups}: {}{of}{times}",
        op.name(),
        counted_decimal(one.per_step(), "call", "calls")
    )
}

fn warnings(text: &mut PlanText, job: &JobCalls<'_>, found: &FoundCalls) {
    let mut left: Vec<(&String, &u64)> = found.left_out.iter().collect();
    left.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    for (why, calls) in left {
        text.warning(format!("{} left out: {why}", counted(*calls, "call is", "calls are")));
    }
    let all = &found.collectives;
    let overlapped: u64 = all.iter().map(|one| one.overlapped).sum();
    let calls: u64 = all.iter().map(|one| one.calls).sum();
    let in_flight = all.iter().map(|one| one.in_flight).max().unwrap_or(1);
    if overlapped > 0 {
        text.warning(format!(
            "{overlapped} of {calls} calls ran while another did, up to {in_flight} at a time: the cases run one at a time, so \
             their sum is an upper bound"
        ));
    }
    if all.iter().all(|one| one.waiting_s.is_none()) {
        text.warning("the trace has no times of calls, so the record compares none");
    } else if all.iter().all(|one| one.time_s.is_none()) {
        text.warning(
            "times in the trace are with waiting for other ranks: traces of two ranks or more tell them apart",
        );
    } else if (job.traced as u64) < u64::from(job.world) {
        text.warning("times without waiting are the shortest of the ranks whose traces are there");
    }
    if all.iter().any(|one| !one.shape.is_typed) {
        text.warning("the trace has no element types: reductions are written as f32");
    }
    if all.iter().any(|one| !one.is_equal) {
        text.warning("ranks call a collective more or less often: the rank that calls it most often counts");
    }
    let without: Vec<&Distinct> = all.iter().filter(|one| one.lacks_rule).collect();
    if let Some(first) = without.first() {
        text.warning(format!(
            "communicators of {} ranks are a part of the job that no rule of `groups` makes: their cases take the first ranks",
            first.shape.of_ranks
        ));
    }
    if all.iter().any(|one| one.shape.op == Collective::AllToAllV) {
        text.warning(
            "all_to_allv has the size of the widest rank, and equal shares to all: a trace cuts off the real ones",
        );
    }
    for note in once(&job.notes) {
        text.warning(one_line(&note));
    }
}
