//! What an analysis looks like: in the terminal, and in the record for the report.

use diagnose::profile::{Analysis, Difference, Finding, LISTED_KERNELS, Part, Waterfall as Losses, Without};
use record::{Blame, ExplainedCase, ExplainedFinding, ExplainedTable, ExplainedWithout, Phases, Waterfall};
use serde_json::{Value, json};
use terms::{Bytes, Seconds};
use view::number::percent;

use super::calls;
use super::disturbance;
use super::explanation::Explanation;
use super::kernel;
use super::step_parts::StepParts;
use super::verdict::{sentence, verdict};
use super::wanted::Target;
use crate::screen;
use terminal::{Column, Row, Table, cut};

/// A mean that is so far from the median is shown beside it: some steps take much longer than the others.
const UNEVEN: f64 = 0.05;
/// Findings that the terminal shows; the record has all.
const FINDINGS: usize = 3;

/// The whole explanation for the terminal.
pub(super) fn text(one: &Explanation, target: Target) -> String {
    let analysis = &one.analysis;
    let mut lines = vec![String::new(), format!("profile  {}", one.title), header(one)];
    lines.extend(recording(one));
    lines.push(String::new());
    let bars = bars(analysis);
    if !bars.is_empty() {
        lines.extend(bars);
        lines.push(String::new());
    }
    lines.extend(first_sentences(one).iter().map(|text| wrapped(text, 0)));
    for hang in one.hangs.iter().skip(1) {
        lines.push(wrapped(&sentence(hang), 0));
    }
    let findings: Vec<&Finding> = analysis.findings.iter().filter(|finding| belongs(finding, target)).collect();
    for (number, finding) in findings.iter().take(FINDINGS).enumerate() {
        lines.push(String::new());
        lines.push(wrapped(&format!("{}. {}", number + 1, sentence(&finding.what)), 3));
        let shown = format!("evidence: {}; confidence {}", evidence(finding), finding.confidence.word);
        lines.push(format!("   {}", wrapped(&shown, 13)));
        lines.push(format!("   {}", wrapped(&format!("do: {}", finding.advice), 7)));
    }
    if findings.len() > FINDINGS {
        let more = view::number::count(findings.len() - FINDINGS, "more finding is", "more findings are");
        lines.push(format!("{more} in the report"));
    }
    if target.shows(Target::SyncStalls) || target.shows(Target::Overlap) {
        lines.extend(communication(analysis));
        lines.extend(calls::text(analysis));
    }
    if let Some(losses) = &one.waterfall {
        lines.extend(losses_of(losses));
    }
    for note in one.notes.iter().chain(&analysis.notes) {
        lines.push(wrapped(&format!("note: {note}"), 6));
    }
    lines.iter().map(|text| format!("{text}\n")).collect()
}

fn header(one: &Explanation) -> String {
    let steps = &one.analysis.steps;
    let numbers = match steps.numbers.as_slice() {
        [] => String::new(),
        [one] => format!(" (number {one})"),
        [first, .., last] => format!(" (between {first} and {last})"),
    };
    let time = match (steps.step.mean.map(|_| steps.mean_s()), steps.step.median) {
        (Some(mean), Some(median)) if (mean / median - 1.0).abs() >= UNEVEN => {
            format!(", a step takes {} on average and {} in the median", Seconds(mean), Seconds(median))
        }
        (Some(mean), _) => format!(", a step takes {}", Seconds(mean)),
        _ => String::new(),
    };
    let world = one.analysis.world.filter(|world| *world != one.ranks);
    let of = world.map_or(String::new(), |world| format!(" of {world}"));
    let ranks = view::study::ranks(one.ranks);
    let number = match steps.numbers.len() {
        0 => "no steps".to_owned(),
        number => view::number::count(number, "step", "steps"),
    };
    format!("{ranks}{of}, {number}{numbers}{time}; traced by {}", one.analysis.source)
}

/// What recording took, from steps with and without it.
fn recording(one: &Explanation) -> Option<String> {
    let recording = one.recording.as_ref()?;
    let span = recording.span_ns.filter(|ns| *ns > 0.0).map_or(String::new(), |ns| format!(", {ns:.0} ns a span"));
    let lost: u64 = one.timeline.ranks.iter().map(|rank| rank.lost).sum();
    let lost = if lost > 0 { format!(", {lost} spans lost") } else { String::new() };
    let (share, ends) = overhead(one)?;
    let ends = ends.map_or(String::new(), |[low, high]| format!(" ({} to {})", percent(low), percent(high)));
    // Recording makes no step faster: a negative difference is the noise of the steps.
    let adds = if share < 0.0 { "nothing that shows".to_owned() } else { percent(share) };
    Some(format!("recording adds {adds} to a step{ends}{span}{lost}"))
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

pub(super) fn recording_json(one: &Explanation) -> Value {
    let Some(recording) = &one.recording else { return Value::Null };
    let (share, ci95) = overhead(one).map_or((None, None), |(share, ends)| (Some(share), ends));
    json!({"overhead": share, "ci95": ci95, "span_ns": recording.span_ns, "recorded_steps": recording.with_s.len()})
}

/// A bar for each rank: a letter for each part, as long as its time.
fn bars(analysis: &Analysis) -> Vec<String> {
    const MOST: usize = 64;
    let ranks = &analysis.steps.ranks;
    if ranks.iter().all(|rank| rank.total.median.is_none()) {
        return Vec::new();
    }
    let width = screen::width().saturating_sub(20).clamp(20, 80);
    let parts = StepParts::from_analysis(analysis);
    let longest = ranks.iter().map(|rank| parts.seconds(rank).iter().sum::<f64>()).fold(0.0, f64::max).max(1e-12);
    let columns = [Column::right("rank"), Column::right("mean step").at_least(9), Column::left("where its time goes")];
    let mut table = Table::new(columns);
    for rank in ranks.iter().take(MOST) {
        let seconds = parts.seconds(rank);
        let (mut bar, mut sum) = (String::new(), 0.0);
        for (seconds, (_, letter)) in seconds.iter().zip(parts.kinds()) {
            sum += seconds;
            let end = (sum / longest * width as f64).round() as usize;
            bar.extend(std::iter::repeat_n(*letter, end.saturating_sub(bar.len())));
        }
        let step = Seconds(rank.total.mean()).to_string();
        table.push(Row::new([rank.rank.to_string(), step, bar]));
    }
    let mut lines = table.lines(usize::MAX);
    if ranks.len() > MOST {
        lines.push(format!("... {} more ranks", ranks.len() - MOST));
    }
    let used = |at: usize| ranks.iter().any(|rank| parts.seconds(rank)[at] > 0.0);
    let kinds = parts.kinds().iter().enumerate().filter(|(at, _)| used(*at));
    let key: Vec<String> = kinds.map(|(_, (name, letter))| format!("{letter} {name}")).collect();
    lines.push(format!("                {}", key.join("   ")));
    lines
}

fn communication(analysis: &Analysis) -> Vec<String> {
    let operations = &analysis.collectives.operations;
    if operations.is_empty() {
        return Vec::new();
    }
    let overlapped = analysis
        .overlap
        .overlapped_share
        .map_or(String::new(), |share| format!(", {} of it overlapped", percent(share)));
    let (comm, exposed) = (analysis.overlap.comm_s.mean(), analysis.overlap.exposed_s.mean());
    let mut lines = vec![
        String::new(),
        format!("communication takes {} of a step{overlapped}; {} delay it", Seconds(comm), Seconds(exposed)),
    ];
    let numbers = ["calls", "bytes", "time", "transfer", "wait"].map(|title| Column::right(title).at_least(7));
    let mut table = Table::new(["operation", "communicator"].map(Column::left).into_iter().chain(numbers));
    let shown = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |seconds| Seconds(seconds).to_string());
    for one in operations.iter().take(8) {
        let bytes = one.bytes_per_step.map_or("-".to_owned(), |bytes| Bytes(bytes as u64).about().to_string());
        let series = |series: &Option<diagnose::profile::Series>| shown(series.as_ref().and_then(|series| series.mean));
        table.push(Row::new([
            cut(&one.operation, 16),
            cut(&one.group, 14),
            format!("{:.0}", one.calls_per_step),
            bytes,
            shown(one.time_s.mean),
            series(&one.transfer_s),
            series(&one.wait_s),
        ]));
    }
    lines.extend(table.lines(usize::MAX));
    if operations.len() > 8 {
        let more = operations.len() - 8 + analysis.collectives.operations_left_out;
        lines.push(format!("... {more} more; per step, means over ranks and steps"));
    } else {
        lines.push("per step, means over ranks and steps".to_owned());
    }
    lines
}

fn losses_of(losses: &Losses) -> Vec<String> {
    let Some(base) = losses.base_ranks else { return Vec::new() };
    let mut lines = vec![String::new(), format!("scaling from {}, as shares of a step", view::study::ranks(base))];
    for bar in &losses.bars {
        lines.push(format!("{} ranks: efficiency {}, lost {}", bar.ranks, percent(bar.efficiency), percent(bar.loss)));
        let mut table =
            Table::new([Column::left("  cause"), Column::right("share").at_least(8), Column::right("step without it")]);
        let terms = bar.terms.iter().map(|term| (term.cause.name(), term.share, term.without));
        for (cause, share, without) in terms.chain([("unexplained", bar.unexplained, None)]) {
            let without = without.map_or("-".to_owned(), |without| Seconds(without.step_s).to_string());
            table.push(Row::new([format!("  {cause}"), percent(share), without]));
        }
        lines.extend(table.lines(usize::MAX));
    }
    lines
}

/// What got slower, for the terminal.
pub(super) fn differences(before: &Analysis, after: &Analysis, found: &[Difference]) -> String {
    let step = |analysis: &Analysis| Seconds(analysis.steps.step.median.unwrap_or(0.0));
    let numbers = ["before", "after", "change"].map(|title| Column::right(title).at_least(8));
    let mut table = Table::new(["per step", "part"].map(Column::left).into_iter().chain(numbers));
    // So that a remark stands behind the numbers, also on 80 columns.
    let room = screen::width().saturating_sub(50).clamp(24, 60);
    // Most kernels of a large job are alike: their rows would hide the others.
    let is_shown =
        |one: &&Difference| one.change_s != 0.0 && (one.part != Part::Kernel || one.certain || !one.is_judged);
    let (shown, alike) = found.iter().partition::<Vec<_>, _>(is_shown);
    let alike = alike.iter().filter(|one| one.part == Part::Kernel).count();
    for one in shown {
        let sign = if one.change_s > 0.0 { "+" } else { "-" };
        let sure = match (one.certain, one.is_judged) {
            (true, _) => "",
            (false, true) => "within noise",
            (false, false) => "too few steps",
        };
        let change = format!("{sign}{}", Seconds(one.change_s.abs()));
        let sure = match (one.before_s > 0.0, one.after_s > 0.0) {
            (false, _) => "new",
            (_, false) => "gone",
            _ => sure,
        };
        let name = if one.part == Part::Kernel { kernel::short(&one.name) } else { one.name.clone() };
        let times = [one.before_s, one.after_s].map(|time| Seconds(time).to_string());
        let [old, new] = times;
        table.push(Row::new([cut(&name, room), one.part.name().to_owned(), old, new, change]).remarks(sure));
    }
    let head = format!("a median step takes {} before and {} after\n", step(before), step(after));
    let rest = match alike {
        0 => String::new(),
        1 => "1 kernel takes as long as before, or differs within noise\n".to_owned(),
        alike => format!("{alike} kernels take as long as before, or differ within noise\n"),
    };
    head + &table.lines(screen::width()).join("\n") + "\n" + &rest
}

/// An explanation as the record has it.
pub(super) fn kept(one: &Explanation) -> ExplainedCase {
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
fn first_sentences(one: &Explanation) -> Vec<String> {
    let ends = one.ends.sentences.iter().map(|end| sentence(end));
    let disturbed = one.analysis.disturbance.as_ref().and_then(disturbance::sentence);
    let verdict = std::iter::once(sentence(&verdict(one))).chain(disturbed);
    if one.is_hung && !one.ends.is_failed {
        return verdict.chain(ends).collect();
    }
    ends.chain(verdict).collect()
}

fn kept_finding(finding: &Finding) -> ExplainedFinding {
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

fn what_is_left_out(finding: &Finding) -> String {
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

fn belongs(finding: &Finding, target: Target) -> bool {
    use diagnose::profile::FindingKind as Kind;
    let part = match finding.kind {
        Kind::Straggler
        | Kind::BusyMachine
        | Kind::RotatingDelays
        | Kind::Waits
        | Kind::Pauses
        | Kind::PipelineBubble => Target::SyncStalls,
        Kind::InputBound => Target::Input,
        Kind::ExposedCommunication | Kind::SmallMessages | Kind::HostBoundDevice | Kind::SlowExchange => {
            Target::Overlap
        }
    };
    target.shows(part)
}

fn evidence(finding: &Finding) -> String {
    let found = &finding.evidence;
    let mut parts = vec![format!("{} a step, {}", Seconds(finding.saves_s_per_step), percent(finding.share))];
    parts.extend(found.rank.map(|rank| format!("rank {rank}")));
    if !found.span.is_empty() {
        parts.push(found.span.clone());
    }
    parts.extend(found.step.map(|step| format!("largest in step {step}")));
    parts.join(", ")
}

/// Lines no wider than the terminal; those after the first are indented.
fn wrapped(text: &str, indent: usize) -> String {
    let width = screen::width().min(100).saturating_sub(indent);
    terminal::wrap(text, width).replace('\n', &format!("\n{}", " ".repeat(indent)))
}
