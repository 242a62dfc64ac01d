//! A list of records: what each is and how its run ended, as a table and as JSON.

use std::path::PathBuf;

use record::{Record, RunEnd, RunFile, StoreError, read_results};
use serde_json::{Value, json};
use terms::Status;
use view::terminal::{Column, Row, Table};

/// A record, or a directory that should be one and cannot be read.
pub struct ListedRecord {
    directory: PathBuf,
    run: Result<Summary, StoreError>,
}

/// What is shown of a record. A folder may have 10,000 of them, so none is kept whole.
struct Summary {
    file: RunFile,
    end: RunEnd,
    /// What says that it is incomplete; None where it ended.
    banner: Option<String>,
    /// Cases that are ok, failed, skipped, and without a result.
    counts: [usize; 4],
    damaged: usize,
}

impl Summary {
    fn from_record(record: Record) -> Self {
        let of = |status: Status| record.cases.iter().filter(|line| line.status == status).count();
        let counts = [of(Status::Ok), of(Status::Failed), of(Status::Skipped), of(Status::NotRun)];
        let banner = record.banner();
        let Record { mut file, end, damaged, .. } = record;
        file.plan.cases = Vec::new();
        file.benchmarks = Vec::new();
        Self { file, end, banner, counts, damaged: damaged.len() }
    }
}

impl Summary {
    /// What stands above the results in the file that they were imported from, where that held several.
    fn heading(&self) -> Option<&str> {
        self.file.imported.as_ref()?.facts.get("heading").map(String::as_str)
    }

    /// What the user calls it, or its experiment; of several results of one file, with the heading above them.
    fn name(&self) -> String {
        match (&self.file.labels.name, self.heading()) {
            (Some(name), _) => name.clone(),
            (None, Some(heading)) => format!("{}: {heading}", self.file.experiment),
            (None, None) => self.file.experiment.clone(),
        }
    }
}

/// The records in these directories, the newest first.
pub fn listed(directories: impl Iterator<Item = PathBuf>) -> Vec<ListedRecord> {
    let read = |directory: PathBuf| ListedRecord { run: read_results(&directory).map(Summary::from_record), directory };
    let mut found: Vec<ListedRecord> = directories.map(read).collect();
    found.sort_by_key(|found| (std::cmp::Reverse(found.started()), found.directory.clone()));
    found
}

impl ListedRecord {
    /// When it began; None where that is not known, which comes last.
    fn started(&self) -> Option<jiff::Timestamp> {
        self.run.as_ref().ok()?.file.started.parse().ok()
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let directory = self.directory.display().to_string();
        match &self.run {
            Err(error) => json!({ "directory": directory, "error": error.error.what, "cause": error.error.cause }),
            Ok(run) => {
                let [ok, failed, skipped, open] = run.counts;
                json!({
                    "directory": directory,
                    "started": run.file.started,
                    "experiment": run.file.experiment,
                    "heading": run.heading(),
                    "labels": run.file.labels,
                    "cases": { "ok": ok, "failed": failed, "skipped": skipped, "not_run": open },
                    "end": run.end.word(),
                    "incomplete": run.banner,
                    "damaged_lines": run.damaged,
                    "simulated": run.file.simulated,
                    "host": run.file.machine.host,
                    "machine": crate::machine_line(&run.file.machine),
                })
            }
        }
    }

    /// The row of the record, or None where it cannot be read.
    fn row(&self) -> Option<[String; 8]> {
        let run = self.run.as_ref().ok()?;
        let tags = run.file.labels.tags.join(",");
        let [ok, failed, skipped, open] = run.counts;
        let mut cases = vec![format!("{ok} ok")];
        let others = [(failed, "failed"), (skipped, "skipped"), (open, "not run")];
        cases.extend(others.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")));
        cases.extend(run.end.phrase());
        match run.damaged {
            0 => {}
            1 => cases.push("1 damaged line".to_owned()),
            lines => cases.push(format!("{lines} damaged lines")),
        }
        let started = self.started().map_or("?".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string());
        Some([
            plain(&self.directory.display().to_string()),
            started,
            plain(&run.name()),
            plain(&tags),
            cases.join(", "),
            if run.file.simulated { "simulated".to_owned() } else { String::new() },
            plain(&run.file.machine.host),
            plain(&run.file.machine.cpu_model),
        ])
    }
}

/// Text of a record, which somebody else may have written.
fn plain(text: &str) -> String {
    view::one_line(text)
}

/// A line each, columns that are empty in every row left out; then what cannot be read.
pub fn table(found: &[ListedRecord]) -> String {
    let titles = ["directory", "started (UTC)", "name", "tags", "cases", "", "host", "CPU"];
    let mut table = Table::new(titles.map(|title| Column::left(title).optional()));
    found.iter().filter_map(ListedRecord::row).for_each(|row| table.push(Row::new(row)));
    // A program may read it, so no column gives way.
    let mut text = table.text(usize::MAX);
    for found in found {
        let Err(error) = &found.run else { continue };
        let directory = plain(&found.directory.display().to_string());
        text.push_str(&format!("cannot be read  {directory}: {}\n", plain(&error.error.sentence())));
    }
    text
}
