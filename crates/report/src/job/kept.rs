//! What an explanation is in the record, for its reports.

use diagnose::profile::{Analysis, LISTED_KERNELS, ProfileFinding, Waterfall as Losses, Without};
use record::{Blame, ExplainedCase, ExplainedFinding, ExplainedTable, ExplainedWithout, Phases, Waterfall};
use serde_json::{Value, json};
use terms::Seconds;
use terms::text::sentence;
use view::number::percent;

use super::step_parts::StepParts;
use super::verdict::verdict;
use super::{Explanation, calls, disturbed, kernel};

/// Where the interval of what recording adds reaches from nothing to more than this share of a step, the number says nothing.
const VAGUE_OVERHEAD: f64 = 0.1;

/// What recording took, from steps with and without it.
pub(super) fn recording(one: &Explanation) -> Option<String> {
    let recording = one.recording.as_ref()?;
    let span = recording.span_ns.filter(|ns| *ns > 0.0).map_or(String::new(), |ns| format!(", {ns:.0} ns a span"));
    let lost: u64 = one.timeline.ranks.iter().map(|rank| rank.lost).sum();
    let lost = if lost > 0 { format!(", {lost} spans lost") } else { String::new() };
    let (share, ends) = overhead(one)?;
    // Recording makes no step faster: a negative difference is the noise of the steps, and a wide interval tells little.
    let vague = ends.filter(|[low, high]| *low <= 0.0 && *high > VAGUE_OVERHEAD);
    let range = ends.map_or(String::new(), |[low, high]| format!(" ({} to {})", percent(low), percent(high)));
    Some(match vague {
        Some([_, high]) => {
            format!("steps vary too much to tell what recording adds to one: at most {}{span}{lost}", percent(high))
        }
        None if ends.is_none() => format!("too few steps to tell what recording adds to one{span}{lost}"),
        None if share < 0.0 => format!("recording adds no measurable time to a step{range}{span}{lost}"),
        None => format!("recording adds {} to a step{range}{span}{lost}", percent(share)),
    })
}

/// The share that recording adds to a step, and its interval: recorded steps against those between them.
fn overhead(one: &Explanation) -> Option<(f64, Option<[f64; 2]>)> {
    let recording = one.recording.as_ref()?;
    if recording.with_s.len() < 3 || recording.without_s.len() < 3 {
        return None;
    }
    let middle = stats::median(&recording.with_s) / stats::median(&recording.without_s) - 1.0;
    let (with, without) = (stats::median_interval(&recording.with_s), stats::median_interval(&recording.without_s));
    let ends = with.zip(without).map(|(with, without)| [with.low / without.high - 1.0, with.high / without.low - 1.0]);
    Some((middle, ends))
}

/// An explanation as one object, for other programs.
pub fn profile_json(one: &Explanation) -> Value {
    let analysis = serde_json::to_value(&one.analysis).unwrap_or_default();
    json!({
        "kind": "profile",
        "case": one.case,
        "title": one.title,
        "hangs": one.hangs,
        "hang": one.hang,
        "ends": one.ends.json,
        "analysis": analysis,
        "straggler": analysis["straggler"],
        "recording": recording_json(one),
    })
}

/// What recording took, for other programs; null where that is not known.
fn recording_json(one: &Explanation) -> Value {
    let Some(recording) = &one.recording else { return Value::Null };
    let (share, ci95) = overhead(one).map_or((None, None), |(share, ends)| (Some(share), ends));
    json!({"overhead": share, "ci95": ci95, "span_ns": recording.span_ns, "recorded_steps": recording.with_s.len()})
}

/// An explanation as the record has it.
pub fn explained_case(one: &Explanation) -> ExplainedCase {
    let analysis = &one.analysis;
    ExplainedCase {
        case: one.case.clone(),
        title: one.title.clone(),
        verdict: whole_verdict(one),
        findings: analysis.findings.iter().map(kept_finding).collect(),
        notes: one
            .hangs
            .iter()
            .skip(1)
            .chain(&one.notes)
            .chain(&analysis.notes)
            .cloned()
            .chain(recording(one))
            .collect(),
        tables: [
            without_table,
            steps_table,
            host_table,
            operations_table,
            calls::table,
            exchanges_table,
            sizes_table,
            kernels_table,
        ]
        .map(|table| table(analysis))
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .collect(),
        lanes: super::lanes::lanes(one),
        phases: phases(analysis),
        waterfall: one.waterfall.as_ref().and_then(|losses| waterfall(losses, analysis)),
        blame: blame(one),
        analysis: without_values(serde_json::to_value(analysis).unwrap_or_default()),
    }
}

/// How the job ended, where it did not end well, and what limited its steps until then.
fn whole_verdict(one: &Explanation) -> String {
    first_sentences(one).join(" ")
}

/// The cause first: of a hang what ranks wait for, and of a job that failed how it ended.
pub(super) fn first_sentences(one: &Explanation) -> Vec<String> {
    let ends = one.ends.sentences.iter().map(|end| sentence(end));
    let disturbed = one.analysis.disturbance.as_ref().and_then(disturbed);
    let verdict = std::iter::once(sentence(&verdict(one))).chain(disturbed);
    if one.is_hung && !one.ends.is_failed {
        return verdict.chain(ends).collect();
    }
    ends.chain(verdict).collect()
}

fn kept_finding(finding: &ProfileFinding) -> ExplainedFinding {
    ExplainedFinding {
        what: sentence(&finding.what),
        evidence: evidence(finding),
        confidence: finding.confidence.word.to_owned(),
        action: finding.advice.clone(),
        seconds: finding.saves_s_per_step,
        share: Some(finding.share),
        without: finding.without.map(|without| ExplainedWithout {
            step_s: without.step_s,
            low_s: without.ci95[0],
            high_s: without.ci95[1],
            recorded_s: without.recorded_s,
        }),
    }
}

/// Series without their values: the trace has them.
fn without_values(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let is_series = map.contains_key("median") && map.contains_key("ci95");
            let kept = map.into_iter().filter(|(name, _)| !(is_series && name == "values"));
            Value::Object(kept.map(|(name, value)| (name, without_values(value))).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(without_values).collect()),
        other => other,
    }
}

fn table(name: &str, title: &str, columns: &[&str], rows: Vec<Vec<Value>>) -> ExplainedTable {
    let columns = columns.iter().map(|&column| column.to_owned()).collect();
    ExplainedTable { name: name.to_owned(), title: title.to_owned(), columns, rows }
}

/// How long a step would take without each finding.
fn without_table(analysis: &Analysis) -> ExplainedTable {
    let row = |what: String, without: &Without| {
        let [low, high] = without.ci95;
        let seconds = [without.step_s, low, high, without.recorded_s];
        [json!(what)].into_iter().chain(seconds.map(|value| json!(value))).chain([json!(without.share)]).collect()
    };
    let columns = ["without", "step s", "low s", "high s", "recorded s", "saved share"];
    let title = "How long a step would take without each finding, with a 95% interval";
    table("without", title, &columns, withouts(analysis).map(|(what, without)| row(what, &without)).collect())
}

/// What was found, and a step without it.
fn withouts(analysis: &Analysis) -> impl Iterator<Item = (String, Without)> {
    let found = analysis.findings.iter().filter_map(|finding| Some((what_is_left_out(finding), finding.without?)));
    let all = analysis.without_slow_ranks.filter(|_| analysis.stragglers.len() > 1);
    found.chain(all.map(|all| ("all slow ranks".to_owned(), all)))
}

fn what_is_left_out(finding: &ProfileFinding) -> String {
    use diagnose::profile::FindingKind as Kind;
    match (finding.kind, finding.evidence.rank) {
        (Kind::Straggler, Some(rank)) => format!("slow rank {rank}"),
        (Kind::InputBound, _) => "waits for data".to_owned(),
        (Kind::SlowExchange, _) => format!("slow communicator {}", finding.evidence.span),
        _ => "the time of moving bytes".to_owned(),
    }
}

fn steps_table(analysis: &Analysis) -> ExplainedTable {
    parts_table("steps", "Mean time of a step by rank and phase", analysis, StepParts::from_analysis(analysis))
}

/// What the host does in the steps of devices.
fn host_table(analysis: &Analysis) -> ExplainedTable {
    match StepParts::from_analysis(analysis) {
        StepParts::Host => table("host", "", &[], Vec::new()),
        StepParts::Device => {
            let title = "Mean time of the host's thread in a step by rank and phase";
            parts_table("host", title, analysis, StepParts::Host)
        }
    }
}

fn parts_table(name: &str, title: &str, analysis: &Analysis, parts: StepParts) -> ExplainedTable {
    let rows = analysis.steps.ranks.iter().map(|rank| {
        let seconds = parts.seconds(rank).into_iter().map(|seconds| json!(seconds));
        [json!(rank.rank), json!(rank.total.mean)].into_iter().chain(seconds).collect()
    });
    let kinds: Vec<String> = parts.kinds().iter().map(|(name, _)| format!("{name} s")).collect();
    let columns: Vec<&str> = ["rank", "step s"].into_iter().chain(kinds.iter().map(String::as_str)).collect();
    table(name, title, &columns, rows.collect())
}

fn operations_table(analysis: &Analysis) -> ExplainedTable {
    let mean = |series: &Option<diagnose::profile::Series>| json!(series.as_ref().and_then(|series| series.mean));
    let rows = analysis.collectives.operations.iter().map(|one| {
        vec![
            json!(one.operation),
            json!(one.group),
            json!(one.calls_per_step),
            json!(one.bytes_per_step),
            json!(one.time_s.mean),
            mean(&one.transfer_s),
            mean(&one.wait_s),
        ]
    });
    let columns = ["operation", "communicator", "calls", "bytes", "time s", "transfer s", "wait s"];
    table("communication", "Communication of a step, means over ranks and steps", &columns, rows.collect())
}

fn exchanges_table(analysis: &Analysis) -> ExplainedTable {
    let row = |one: &diagnose::profile::Exchange| {
        vec![
            json!(one.group),
            json!(one.place),
            json!(one.operation),
            json!(one.bytes),
            json!(one.begins_s),
            json!(one.time_s),
            json!(one.transfer_s),
            json!(one.wait_s),
        ]
    };
    let columns = ["communicator", "place", "operation", "bytes", "begins s", "time s", "transfer s", "wait s"];
    let title = "Exchanges of a step in their order, such as buckets of gradients";
    table("exchanges", title, &columns, analysis.exchanges.iter().map(row).collect())
}

fn sizes_table(analysis: &Analysis) -> ExplainedTable {
    let sizes =
        analysis.collectives.communicators.iter().flat_map(|group| group.sizes.iter().map(move |size| (group, size)));
    let row = |(group, size): (&diagnose::profile::Communicator, &diagnose::profile::MessageSize)| {
        vec![
            json!(group.group),
            json!(group.ranks),
            json!(size.bytes),
            json!(size.calls_per_step),
            json!(size.transfer_s),
        ]
    };
    let columns = ["communicator", "ranks", "bytes", "calls", "transfer s"];
    table("messages", "Messages of a step by size", &columns, sizes.map(row).collect())
}

fn kernels_table(analysis: &Analysis) -> ExplainedTable {
    let rows = analysis.kernels.iter().take(LISTED_KERNELS).map(|kernel| {
        vec![json!(kernel::short(&kernel.name)), json!(kernel.count), json!(kernel.total_s), json!(kernel.share)]
    });
    table("kernels", "Kernels with the most time, all ranks", &["kernel", "count", "time s", "share"], rows.collect())
}

fn phases(analysis: &Analysis) -> Option<Phases> {
    let parts = StepParts::from_analysis(analysis);
    let ranks: Vec<(String, Vec<f64>)> =
        analysis.steps.ranks.iter().map(|rank| (format!("rank {}", rank.rank), parts.seconds(rank))).collect();
    let kinds = parts.kinds().iter().map(|(name, _)| (*name).to_owned()).collect();
    (!ranks.is_empty()).then(|| Phases { title: "Step time by rank and phase".to_owned(), kinds, ranks })
}

fn waterfall(losses: &Losses, analysis: &Analysis) -> Option<Waterfall> {
    let (base, bar) = (losses.base_ranks?, losses.bars.last()?);
    let terms = bar.terms.iter().map(|term| (term.cause.name().to_owned(), -term.share));
    let terms = terms.chain([("unexplained".to_owned(), -bar.unexplained)]).collect();
    Some(Waterfall {
        title: format!("Efficiency from {base} to {} ranks", bar.ranks),
        from: (view::study::ranks(base), 1.0),
        terms,
        to: (format!("{} ranks", bar.ranks), bar.efficiency),
        without: withouts(analysis).map(|(what, without)| format!("Without {what} {without}.")).collect(),
    })
}

/// Who waits for whom: each rank's waits go to the rank that arrived last.
fn blame(one: &Explanation) -> Option<Blame> {
    let seconds = one.analysis.blame.clone()?;
    let ranks = one.analysis.steps.ranks.iter().map(|rank| format!("rank {}", rank.rank)).collect();
    Some(Blame { title: "Time of a step that ranks (rows) wait for others (columns)".to_owned(), ranks, seconds })
}

pub(super) fn evidence(finding: &ProfileFinding) -> String {
    let found = &finding.evidence;
    let mut parts = vec![format!("{} a step, {}", Seconds(finding.saves_s_per_step), percent(finding.share))];
    parts.extend(found.rank.map(|rank| format!("rank {rank}")));
    if !found.span.is_empty() {
        parts.push(found.span.clone());
    }
    parts.extend(found.step.map(|step| format!("largest in step {step}")));
    parts.join(", ")
}
