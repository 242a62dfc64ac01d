//! From traces to what they say: reads them, analyses them, and keeps the result in the record.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use diagnose::profile::{Analysis, Disturbance, Pipeline, Scaling, Settings, analyse, waterfall};
use import::traces::{InspectorReport, Traces, join_flight, read_timeline};
use record::{CaseLine, EXPLAINED_VERSION, Explained, ExplainedCase, Labels, Machine};
use report::{Ends, Explanation};
use serde_json::Value;
use terms::Error;
use trace::timeline::{Kind, Timeline};

use crate::{Origin, TRACES, calls, disturbance, ends, files, hangs, kept};

/// What of traces is explained, and what a new record keeps with it.
pub struct Wanted {
    /// The steps that count; None: all.
    pub steps: Option<std::ops::Range<u32>>,
    /// What a new record is called.
    pub labels: Labels,
    /// The command that makes a record.
    pub origin: fn() -> Origin,
}

/// Why a job may leave no traces.
const NO_TRACES: &str = "a job is traced if its ranks are Python with torch, make more steps than the first of --steps, \
                         and see PYTHONPATH as rankmark sets it: containers, `python -I` and scripts that set it again \
                         prevent that";

/// Explains the traces of a record's cases, where there are any, and writes that into the record.
///
/// # Errors
/// When traces cannot be read, or the record cannot be written.
pub fn of_record(directory: &Path, cases: &[CaseLine], wanted: &Wanted) -> Result<Vec<Explanation>, Error> {
    let folder = traces_in(directory)?;
    let mut all = Vec::new();
    for line in cases {
        let Some(path) = last_trace(&folder, &line.id) else { continue };
        refuse_link(&path)?;
        let traces = read_timeline(std::slice::from_ref(&path))?;
        // Traces of single operations have no steps to explain.
        if !traces.timeline.as_ref().is_some_and(has_steps) {
            continue;
        }
        all.push(explained(
            &line.id,
            title(line),
            traces,
            (pipeline(line), disturbance::of_case(&line.caveats)),
            wanted,
        )?);
    }
    if !all.is_empty() {
        with_waterfall(&mut all, cases);
        let cases: Vec<ExplainedCase> = all.iter().map(report::explained_case).collect();
        record::write_explained(directory, &Explained { version: EXPLAINED_VERSION, cases })?;
    }
    Ok(all)
}

/// The folder of a record's traces.
///
/// # Errors
/// When it is a link.
pub fn traces_in(directory: &Path) -> Result<PathBuf, Error> {
    let folder = directory.join(TRACES);
    refuse_link(&folder)?;
    Ok(folder)
}

/// Links inside a record are not followed: it may be somebody else's.
fn refuse_link(path: &Path) -> Result<(), Error> {
    if path.is_symlink() {
        return Err(Error::new(format!("cannot read {}", path.display()))
            .cause("it is a symbolic link, and links inside a record are not followed")
            .hint("put the file or folder itself in its place"));
    }
    Ok(())
}

/// A sentence for each case of several ranks whose traces a run recorded with its results, before its report is written.
///
/// # Errors
/// As [`of_record`].
pub fn after_run(directory: &Path, cases: &[CaseLine], wanted: &Wanted) -> Result<Vec<String>, Error> {
    if !traces_in(directory)?.is_dir() {
        return Ok(Vec::new());
    }
    let all = of_record(directory, cases, wanted)?;
    let several = all.iter().filter(|one| one.ranks > 1);
    Ok(several.map(|one| format!("{}: {}", one.title, report::job_verdict(one))).collect())
}

/// Explains the traces that ranks of a job wrote, and keeps that in the record of its folder.
///
/// # Errors
/// When there are no traces, or they cannot be read; when the record cannot be written.
pub fn job(folder: &Path, traces: &Path, wanted: &Wanted) -> Result<Explanation, Error> {
    let files = files::traces(traces);
    files.iter().try_for_each(|path| refuse_link(path))?;
    let complaints = || files::complaints(traces);
    let mut found = match files.is_empty() {
        true => Traces::default(),
        false => read_timeline(&files)
            .map_err(|error| if complaints().is_empty() { error } else { error.cause(complaints().join("; ")) })?,
    };
    if ends::job_end(traces).is_some_and(|end| end.code == Some(0)) {
        // A rank that ends no step for long, and a job that ends well: an evaluation at the end, and no hang.
        found.hang_notes.iter_mut().for_each(|note| note.ended_well = true);
    }
    let mut steps = files::steps(traces);
    let is_partial = steps.complete(&mut found.timeline);
    if found == Traces::default() {
        return Err(without_traces(traces, &steps));
    }
    let title = files::title(traces);
    let mut explanation = explained("job", title, found, (None, disturbance::noted(traces)), wanted)?;
    // What a rank without a trace did between its phases, nobody knows.
    explanation.analysis.is_whole &= !is_partial;
    explanation.recording = steps.recording;
    explanation.notes.extend(steps.notes);
    explanation.ends = steps.ends;
    keep(folder, measure::machine::detect(), &mut explanation, wanted)?;
    Ok(explanation)
}

/// Why there is nothing to explain: what ranks say of it, else what is usual.
fn without_traces(traces: &Path, steps: &files::JobSteps) -> Error {
    let failure = Error::new(format!("{} holds no traces", traces.display()));
    let mut causes = files::complaints(traces);
    causes.extend(steps.ends.sentences.iter().chain(&steps.notes).cloned());
    if causes.is_empty() { failure.hint(NO_TRACES) } else { failure.cause(causes.join("; ")) }
}

/// Writes what was found into the folder's record, and makes one of the job if there is none.
fn keep(folder: &Path, machine: Machine, explanation: &mut Explanation, wanted: &Wanted) -> Result<(), Error> {
    if folder.join(record::store::RUN_FILE).is_file() {
        let read = record::read_run(folder)?;
        explanation.case = read.cases.first().map_or_else(String::new, |line| line.id.clone());
    } else {
        kept::create(folder, machine, explanation, wanted)?;
    }
    let explained = Explained { version: EXPLAINED_VERSION, cases: vec![report::explained_case(explanation)] };
    record::write_explained(folder, &explained)?;
    report::write(&report::Run::read(folder, benchmarks::VIEWS)?, folder)?;
    Ok(())
}

/// Explains traces of other tools, and makes a record of them, whose folder it gives.
///
/// # Errors
/// When they cannot be read, or the record cannot be made.
pub fn files(files: &[PathBuf], output: Option<&Path>, wanted: &Wanted) -> Result<(Explanation, PathBuf), Error> {
    let traces = read_timeline(files)?;
    let title = match files {
        [folder] if folder.is_dir() => folder.display().to_string(),
        _ => traces.files.first().map_or_else(String::new, |(path, format)| {
            let more = traces.files.len() - 1;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{}{more} ({format})", path.display())
        }),
    };
    let mut explanation = explained("import", title, traces, (None, None), wanted)?;
    let folder = match output {
        Some(folder) if folder.join(record::store::RUN_FILE).exists() => {
            return Err(crate::taken(folder));
        }
        given => {
            let name = wanted.labels.name.as_deref().unwrap_or("profile");
            record::store::directory_for(given, (jiff::Timestamp::now(), name), false)?
        }
    };
    // Where the traces were made is not known but for what they say themselves.
    let host = explanation.timeline.ranks.iter().find_map(|rank| rank.host.clone()).unwrap_or_default();
    keep(&folder, Machine { host, ..Machine::default() }, &mut explanation, wanted)?;
    Ok((explanation, folder))
}

/// Analyses a trace or the traces of a record, to compare it with another one.
///
/// # Errors
/// When they cannot be read.
pub fn analysed(path: &Path, wanted: &Wanted) -> Result<Analysis, Error> {
    let own = traces_in(path)?;
    let path = if own.is_dir() { own } else { path.to_owned() };
    let traces = read_timeline(std::slice::from_ref(&path))?;
    let what = path.display().to_string();
    Ok(explained("compare", what, traces, (None, None), wanted)?.analysis)
}

/// Analyses one set of traces.
fn explained(
    case: &str,
    title: String,
    mut traces: Traces,
    (pipeline, disturbance): (Option<Pipeline>, Option<Disturbance>),
    wanted: &Wanted,
) -> Result<Explanation, Error> {
    let is_hung = traces.hang_notes.iter().any(import::traces::HangNote::is_hang);
    // Ranks that went on, such as after an evaluation, were at different calls when they wrote their dumps.
    let went_on = !traces.hang_notes.is_empty() && !is_hung;
    if went_on {
        traces.hang = None;
    }
    let (mut hangs, hang) = (hangs::sentences(&traces), hangs::json(&traces));
    if let (Some(timeline), Some(flight)) = (&mut traces.timeline, &traces.flight) {
        join_flight(timeline, flight);
    }
    let mut timeline = timeline_of(&mut traces);
    let settings = Settings { steps: wanted.steps.clone(), pipeline, disturbance, ..Settings::default() };
    let mut analysis = analyse(&timeline, &settings);
    if is_hung {
        // What would make its steps shorter is not what this job needs.
        analysis.findings.clear();
    }
    // The analysis has the notes of the timeline.
    let mut notes = std::mem::take(&mut traces.notes);
    if went_on {
        notes.append(&mut hangs);
    }
    // A log without times is not a timeline, and its calls can still be compared.
    if let Some(report) = traces.inspector.as_ref().filter(|_| timeline.ranks.is_empty()) {
        let ((calls, left_out), note) = calls::of_log(report);
        (analysis.calls, analysis.calls_left_out) = (calls, left_out);
        notes.extend(note.into_iter().chain(analysis.calls_note()));
    }
    let recording = timeline.recording.take();
    let ranks = ranks_of(&traces, &timeline);
    notes.extend([traces.flight, traces.hang].into_iter().flatten().flat_map(|report| report.notes));
    notes.extend(traces.inspector.into_iter().flat_map(|report| report.notes));
    let case = case.to_owned();
    Ok(Explanation {
        case,
        title,
        ranks,
        timeline,
        analysis,
        recording,
        hangs,
        is_hung,
        hang,
        notes,
        waterfall: None,
        ends: Ends::default(),
    })
}

/// Ranks that there is something of. Dumps and logs have ranks, and may have no timeline.
fn ranks_of(traces: &Traces, timeline: &Timeline) -> u32 {
    let dumped = [&traces.flight, &traces.hang].into_iter().flatten().map(|report| report.ranks.len());
    let noted = traces.hang_notes.len();
    let processes = |report: &InspectorReport| {
        let all = report.calls.iter().map(|call| (call.host.as_str(), call.pid, call.rank));
        all.collect::<BTreeSet<_>>().len()
    };
    let logged = traces.inspector.as_ref().filter(|_| timeline.ranks.is_empty()).map_or(0, processes);
    let answered = traces.ras.iter().map(|report| report.ranks);
    dumped.chain(answered).chain([timeline.ranks.len(), noted, logged]).max().unwrap_or(0) as u32
}

/// The timeline of traces. Dumps, notes of hangs and logs without times make an empty one: they say nothing of time.
fn timeline_of(traces: &mut Traces) -> Timeline {
    let source = || match (&traces.inspector, &traces.flight, &traces.hang) {
        (Some(_), ..) => "NCCL Inspector",
        (_, None, None) if !traces.ras.is_empty() => "NCCL RAS",
        (_, None, None) => "the ranks themselves",
        _ => "PyTorch Flight Recorder",
    };
    let empty = Timeline { source: source().to_owned(), ..Timeline::default() };
    traces.timeline.take().unwrap_or(empty)
}

fn has_steps(timeline: &Timeline) -> bool {
    timeline.ranks.iter().any(|rank| rank.spans.iter().any(|span| span.kind == Kind::Step))
}

/// The trace of a case's last trial.
fn last_trace(folder: &Path, case: &str) -> Option<PathBuf> {
    let entries = folder.read_dir().ok()?.flatten().map(|entry| entry.path());
    let trial = |path: &PathBuf| -> Option<u32> {
        let name = path.file_name()?.to_str()?.strip_suffix(".json.gz")?;
        name.strip_prefix(case)?.strip_prefix('-')?.parse().ok()
    };
    entries.filter_map(|path| Some((trial(&path)?, path))).max().map(|(_, path)| path)
}

/// `gpt2-mini, data 2, 2 ranks, shm`.
fn title(line: &CaseLine) -> String {
    let word = |name: &str| line.parameters.get(name).and_then(Value::as_str);
    let plural = if line.ranks == 1 { "rank" } else { "ranks" };
    let mut parts: Vec<String> = [word("model"), word("strategy")].into_iter().flatten().map(str::to_owned).collect();
    parts.push(format!("{} {plural}", line.ranks));
    parts.push(line.backend.clone());
    parts.join(", ")
}

fn pipeline(line: &CaseLine) -> Option<Pipeline> {
    let whole =
        |name: &str| line.parameters.get(name).and_then(Value::as_u64).and_then(|whole| u32::try_from(whole).ok());
    let stages = whole("pipeline").filter(|stages| *stages > 1)?;
    Some(Pipeline { stages, micro_batches: whole("micro_batches")? })
}

/// What cases with other numbers of ranks have in common.
fn alike(line: &CaseLine) -> impl Iterator<Item = (&str, &Value)> {
    const SPLIT: [&str; 4] = ["ranks", "mesh", "data", "global_batch"];
    line.parameters.iter().filter(|(name, _)| !SPLIT.contains(name))
}

/// Cases that differ in the number of ranks alone make a waterfall, shown with the largest.
fn with_waterfall(all: &mut [Explanation], lines: &[CaseLine]) {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let line_of = |explanation: &Explanation| lines.iter().find(|line| line.id == explanation.case);
    for (index, line) in all.iter().enumerate().filter_map(|(index, one)| Some((index, line_of(one)?))) {
        if line.ranks > 1 {
            let key: Vec<String> = alike(line).map(|(name, value)| format!("{name}={value}")).collect();
            groups.entry(key.join(" ")).or_default().push(index);
        }
    }
    // One rank divides nothing and exchanges nothing: it is the base of every group that has all that it is.
    for (index, line) in all.iter().enumerate().filter_map(|(index, one)| Some((index, line_of(one)?))) {
        for group in groups.values_mut().filter(|_| line.ranks == 1) {
            let other = line_of(&all[group[0]]);
            let has = |(name, value): (&str, &Value)| {
                name == "strategy" || other.is_some_and(|other| other.parameters.get(name) == Some(value))
            };
            if alike(line).all(has) {
                group.push(index);
            }
        }
    }
    for group in groups.into_values().filter(|group| group.len() > 1) {
        let runs: Vec<(u32, Analysis)> = group.iter().map(|at| (all[*at].ranks, all[*at].analysis.clone())).collect();
        let batch =
            |at: &usize| lines.iter().find(|line| line.id == all[*at].case)?.parameters.get("global_batch").cloned();
        let batches: Vec<Option<Value>> = group.iter().map(batch).collect();
        // With one global batch for all, more ranks have less to do each.
        let strong = batches.iter().all(|batch| batch.is_some() && batch == &batches[0]);
        let made = waterfall(&runs, if strong { Scaling::Strong } else { Scaling::Weak });
        if let Some(largest) = group.into_iter().max_by_key(|at| all[*at].ranks) {
            all[largest].waterfall = Some(made);
        }
    }
}

#[cfg(test)]
mod tests {
    use import::traces::{Frame, LiveRank, live};

    use super::*;

    #[test]
    fn ranks_that_went_on_did_not_hang() {
        let rank = |rank: u32, collective: Option<&str>| LiveRank {
            rank,
            collective: collective.map(str::to_owned),
            stack: vec![Frame { name: "evaluate".into(), file: "job.py".into(), line: 7 }],
            doing: "waits".to_owned(),
            ..LiveRank::default()
        };
        let (report, mut hang_notes) = live(&[rank(0, Some("all_gather")), rank(1, None)], Some(2));
        for note in &mut hang_notes {
            note.doing = None;
            note.step_ended_after_s = Some(25.0);
        }
        let traces = Traces { hang: Some(report), hang_notes, ..Traces::default() };
        let origin = || Origin { command_line: Vec::new(), environment: Vec::new() };
        let wanted = Wanted { steps: None, labels: Labels::default(), origin };
        let found = explained("job", String::new(), traces, (None, None), &wanted).unwrap();
        assert_eq!((found.hangs.len(), found.is_hung, &found.hang), (0, false, &Value::Null));
        let told = "ranks 0, 1 took 25 s for a step: evaluate (job.py:7)";
        assert!(found.notes.iter().any(|note| note == told), "{:?}", found.notes);
    }
}
