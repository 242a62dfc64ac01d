//! Results of another tool as a record: cases have the identity that a native run of the same shape would have.

use std::path::Path;

use record::{
    About, Case, CaseLine, CaseSamples, DatedBy, Imported, Machine, Plan, RunFile, Store, StoreError, TimeSummary, Tool,
};
use serde_json::Value;
use terms::{Bytes, Dtype, Error, Named as _, Seconds, Status};

use crate::cases::Cases;
use crate::formats::{nccl_inspector_prom, rdma, training_log};
use crate::{Figures, Format, Results, Shape, Source, processes};

/// A record, before it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedRecord {
    /// `run.json`.
    pub file: RunFile,
    /// The case lines, in the order of the file.
    pub lines: Vec<CaseLine>,
    /// Samples of cases, where the file tells single times.
    pub samples: Vec<CaseSamples>,
}

impl ImportedRecord {
    /// Writes it to a new directory, as made by this command line.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, directory: &Path, command_line: &[String]) -> Result<(), StoreError> {
        self.file.command_line = command_line.to_vec();
        let mut store = Store::create(directory, &self.file)?;
        store.append_all(&self.lines)?;
        self.samples.iter().try_for_each(|trial| store.append_samples(trial))?;
        store.finish(&mut self.file)
    }
}

/// The most case lines that a record holds.
const MOST_CASES: usize = 1_000_000;

/// The records of all results of a file. `tool` is this program, `now` the time where the file tells none.
///
/// # Errors
/// When no figure of the file becomes a case, or more do than a record holds.
pub fn records(
    source: &Source,
    format: &str,
    results: Vec<Results>,
    benchmarks: &[&'static About],
    tool: &Tool,
    now: jiff::Timestamp,
) -> Result<Vec<ImportedRecord>, Error> {
    if results.is_empty() {
        return Err(Error::new(format!("{} holds no results", source.name())));
    }
    let (mut results, mut empty): (Vec<_>, Vec<_>) = results.into_iter().partition(|results| !results.is_empty());
    // Runs without a case make no record of their own: what they say stands in the first.
    if results.is_empty() {
        results.push(empty.remove(0));
    }
    empty.into_iter().for_each(|other| results[0].absorb(other));
    // What nothing runs, only logs show.
    let of_logs = [&training_log::ABOUT, &nccl_inspector_prom::ABOUT, &rdma::ABOUT];
    let benchmarks: Vec<&'static About> = benchmarks.iter().copied().chain(of_logs).collect();
    let made = results.into_iter().map(|results| record(source, format, results, &benchmarks, tool, now));
    let (mut records, mut failed) = (Vec::new(), Vec::new());
    made.for_each(|made| match made {
        Ok(record) => records.push(record),
        Err(error) => failed.push(error),
    });
    match records.first_mut().and_then(|record| record.file.imported.as_mut()) {
        Some(first) => first.omitted.extend(failed.iter().map(Error::sentence)),
        None => return Err(failed.remove(0)),
    }
    Ok(records)
}

fn record(
    source: &Source,
    format: &str,
    mut results: Results,
    benchmarks: &[&'static About],
    tool: &Tool,
    now: jiff::Timestamp,
) -> Result<ImportedRecord, Error> {
    let shapes = results.take_shapes();
    if shapes.len() > MOST_CASES {
        let what = format!("{} holds {} different cases; a record holds {MOST_CASES}", source.name(), shapes.len());
        return Err(Error::new(what).hint("split the file by operations"));
    }
    let mut cases = Cases::new(benchmarks);
    let (mut lines, mut kept) = (Vec::with_capacity(shapes.len()), Vec::with_capacity(shapes.len()));
    let mut samples = Vec::new();
    for (shape, figures) in shapes {
        let measured = cases.case(&shape).and_then(|case| Ok((line(&case, &figures)?, case)));
        match measured {
            Ok((mut line, case)) => {
                cases.share_names(&mut line);
                samples.extend(processes::samples(&case, &figures));
                lines.push(line);
                kept.push(case);
            }
            Err(why) => omit(&mut results, &shape, &why),
        }
    }
    drop(cases);
    if lines.is_empty() {
        let mut error = Error::new(format!("no figure of {} becomes a case", source.name()));
        if let Some(first) = results.omitted.first().cloned().or_else(|| source.unfinished()) {
            error = error.cause(first);
        }
        return Err(error);
    }
    let file = run_file(source, format, &results, kept, benchmarks, tool, now);
    Ok(ImportedRecord { file, lines, samples })
}

fn omit(results: &mut Results, shape: &Shape, why: &str) {
    let fields: Vec<String> = shape.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
    results.leave_out(format!("{} {}: {why}", shape.benchmark, fields.join(" ")));
}

/// The line of a case: runs of the file are its trials.
fn line(case: &Case, figures: &[Figures]) -> Result<CaseLine, String> {
    let times: Vec<f64> = figures.iter().map(|figures| figures.time_s).collect();
    if let Some(odd) = times.iter().find(|time| !(time.is_finite() && **time > 0.0)) {
        return Err(format!("a time of {odd} s is not a time"));
    }
    let mut line = CaseLine::unmeasured(case, Status::Ok, "");
    line.reason = None;
    line.samples = total(figures, |figures| figures.iterations);
    line.trials = u32::try_from(times.len()).ok();
    line.wrong = total(figures, |figures| figures.wrong);
    line.time_s = Some(summary(&times, figures));
    for (name, value) in metrics(case, &line, figures) {
        if value.is_finite() {
            line.metrics.insert(name.to_owned(), Value::from(value));
        }
    }
    for (name, word) in figures.first().into_iter().flat_map(|figures| &figures.details().words) {
        line.metrics.insert((*name).to_owned(), Value::from(word.as_ref()));
    }
    for (name, cells) in matrices(figures) {
        line.metrics.insert(name.to_owned(), cells);
    }
    if times.len() > 1 {
        line.trial_median_s = times;
    }
    processes::add(&mut line, figures);
    if let Some(wrong) = line.wrong.filter(|wrong| *wrong > 0) {
        line.status = Status::Failed;
        line.reason = Some(format!("the program that measured it found {wrong} wrong elements"));
    }
    Ok(line)
}

/// The sum over runs; None where a run does not tell.
fn total(figures: &[Figures], of: impl Fn(&Figures) -> Option<u64>) -> Option<u64> {
    figures.iter().map(of).sum()
}

fn summary(times: &[f64], figures: &[Figures]) -> TimeSummary {
    let [only] = figures else {
        // Percentiles of several runs are not those of all their samples: only the extremes are known.
        let all = |of: fn(&Figures) -> Option<f64>| figures.iter().map(of).collect::<Option<Vec<f64>>>();
        let least = all(|figures| figures.details().min).and_then(|ends| ends.into_iter().min_by(f64::total_cmp));
        let most = all(|figures| figures.details().max).and_then(|ends| ends.into_iter().max_by(f64::total_cmp));
        let ci95 = stats::sign_interval(times);
        return TimeSummary { median: stats::median(times), ci95, min: least, max: most, ..TimeSummary::default() };
    };
    let details = only.details();
    TimeSummary {
        median: only.time_s,
        mean: details.mean,
        std: details.std,
        p05: details.p05,
        p50: details.p50,
        p95: details.p95,
        p99: details.p99,
        min: details.min,
        max: details.max,
        ..TimeSummary::default()
    }
}

/// What follows from the time, by our definitions, and what the tool reports in addition.
fn metrics(case: &Case, line: &CaseLine, figures: &[Figures]) -> Vec<(&'static str, f64)> {
    let mut found = Vec::new();
    let time = line.time_s.as_ref().map_or(f64::NAN, |time| time.median);
    if let Some(op) = case.op() {
        let (bytes, ranks) = (line.bytes.unwrap_or(0), case.ranks());
        let element = case.dtype().and_then(Dtype::from_name).map_or(1, Dtype::bytes);
        if bytes > 0 {
            found.push(("count", (bytes / element) as f64));
        }
        // One rank has nobody to communicate with: what it took is not a bandwidth of anything.
        if ranks > 1 {
            found.extend(op.algbw_gbs(Bytes(bytes), Seconds(time)).map(|rate| ("algbw_gbs", rate)));
            found.extend(op.busbw_gbs(Bytes(bytes), ranks, Seconds(time)).map(|rate| ("busbw_gbs", rate)));
        }
    }
    let reported: Vec<&'static str> = figures.first().map_or(Vec::new(), names);
    for name in reported {
        let metric = |figures: &Figures| {
            figures.details().metrics.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
        };
        let values = figures.iter().map(metric).collect::<Option<Vec<f64>>>();
        if let Some(values) = values.filter(|_| !found.iter().any(|(known, _)| *known == name)) {
            found.push((name, stats::median(&values)));
        }
    }
    found
}

/// Metrics of pairs of ranks: each cell is the median over runs. None where runs have other numbers of ranks.
fn matrices(figures: &[Figures]) -> Vec<(&'static str, Value)> {
    let first = figures.first().map_or(&[][..], |figures| &figures.details().matrices);
    let of_all = |name: &str| -> Option<Value> {
        let of = |figures: &'_ Figures| figures.details().matrices.iter().position(|(known, _)| *known == name);
        let all: Option<Vec<_>> = figures.iter().map(|one| Some(&one.details().matrices.get(of(one)?)?.1)).collect();
        let all = all?;
        let cell = |row: usize, column: usize| -> Option<Value> {
            let values: Option<Vec<Option<f64>>> =
                all.iter().map(|cells| cells.get(row)?.get(column).copied()).collect();
            let values: Option<Vec<f64>> = values?.into_iter().collect();
            Some(values.map(|values| stats::median(&values)).into())
        };
        let row = |(at, row): (usize, &Vec<Option<f64>>)| -> Option<Vec<Value>> {
            (0..row.len()).map(|column| cell(at, column)).collect()
        };
        Some(all.first()?.iter().enumerate().map(row).collect::<Option<Vec<_>>>()?.into())
    };
    first.iter().filter_map(|(name, _)| Some((*name, of_all(name)?))).collect()
}

fn names(figures: &Figures) -> Vec<&'static str> {
    figures.details().metrics.iter().map(|(name, _)| *name).collect()
}

fn run_file(
    source: &Source,
    format: &str,
    results: &Results,
    cases: Vec<Case>,
    benchmarks: &[&'static About],
    tool: &Tool,
    now: jiff::Timestamp,
) -> RunFile {
    let experiment = experiment(source);
    let format = results.format.unwrap_or(format);
    let plan = Plan {
        experiment,
        profiling: false,
        cases,
        notes: Vec::new(),
        read_as: None,
        expected: Vec::new(),
        source_text: String::new(),
    };
    let machine = |host: &String| Machine { host: host.clone(), ..Machine::default() };
    let machines: Vec<Machine> = results.hosts.iter().map(machine).collect();
    let first = machines.first().cloned().unwrap_or_default();
    let told: Option<jiff::Timestamp> = results.started.as_ref().and_then(|text| text.parse().ok());
    let (started, dated_by) = match (told, source.changed()) {
        (Some(told), _) => (told, None),
        (None, Some(changed)) => (changed, Some(DatedBy::File)),
        (None, None) => (now, Some(DatedBy::Import)),
    };
    let mut file = RunFile::new(tool.clone(), started, first, plan, benchmarks);
    if machines.len() > 1 {
        file.hosts = machines;
    }
    file.versions.clone_from(&results.versions);
    let mut notes = source.notes().to_vec();
    let communicates = |case: &&Case| case.op().is_some();
    let mut collectives = file.plan.cases.iter().filter(communicates).peekable();
    if collectives.peek().is_some() && collectives.all(|case| case.ranks() == 1) {
        notes.push("one rank: nothing was communicated".to_owned());
    }
    let is_document = crate::format(format).is_ok_and(Format::is_document);
    notes.extend(source.unfinished().filter(|_| !is_document));
    notes.extend(results.notes.iter().cloned());
    if let Some(by) = dated_by {
        let which = match by {
            DatedBy::File => "when the file last changed",
            DatedBy::Import => "that of its import",
        };
        notes.push(format!("the file does not say when it was measured: the time of the record is {which}"));
    }
    file.imported = Some(Imported {
        format: format.to_owned(),
        file: source.file_name().to_owned(),
        sha256: source.sha256().to_owned(),
        tool: results.tool.clone(),
        statistic: results.statistic.clone(),
        dated_by,
        runs: (results.runs() > 1).then(|| results.runs()),
        facts: results.facts.clone(),
        notes,
        cut: results.cut,
        omitted: results.all_omitted(),
    });
    file
}

/// The file's name without its ending, as far as it can name a directory.
fn experiment(source: &Source) -> String {
    directory_stem(source.file_name().rsplit_once('.').map_or(source.file_name(), |(stem, _)| stem))
}

/// A name as far as it can name a directory.
pub fn directory_stem(stem: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
    let name: String = stem.chars().map(safe).take(64).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    if name.is_empty() { "imported".to_owned() } else { name.to_owned() }
}
