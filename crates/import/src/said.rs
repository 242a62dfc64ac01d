//! What is said of the record that a file of results became.

use std::path::Path;

use record::Imported;
use serde_json::json;

use crate::{Format, ImportedRecord};

/// What is said of a record that was written.
pub struct SaidRecord {
    cases: usize,
    /// The most trials of a case.
    trials: Option<u32>,
    imported: Imported,
}

impl SaidRecord {
    /// What is said of this record.
    pub fn new(record: &ImportedRecord) -> Self {
        let trials = record.lines.iter().filter_map(|line| line.trials).max();
        Self { cases: record.lines.len(), trials, imported: record.file.imported.clone().unwrap_or_default() }
    }

    /// For programs: the record of a source, its report, expected figures and missed gates.
    pub fn as_json(
        &self,
        (source, format): (&str, &dyn Format),
        (directory, report): (&Path, Option<&Path>),
        (expected, missed): (&[String], &[String]),
    ) -> String {
        let Self { cases, imported, .. } = self;
        // A path need not be text, which JSON is.
        let (directory, report) = (directory.display().to_string(), report.map(|path| path.display().to_string()));
        let summary = json!({
            "file": source, "format": format.name(), "record": directory, "report": report, "cases": cases,
            "tool": imported.tool, "notes": imported.notes, "omitted": imported.omitted, "expected": expected,
            "gates_missed": missed,
        });
        format!("{summary}\n")
    }

    /// As [`Self::as_json`], for a person.
    pub fn as_text(
        &self,
        source: &str,
        (directory, report): (&Path, Option<&Path>),
        (expected, missed): (&[String], &[String]),
    ) -> String {
        let Self { cases, trials, imported } = self;
        let runs = match (imported.runs, trials.filter(|trials| *trials > 1)) {
            (Some(runs), Some(trials)) => format!(" of {runs} runs, put together as up to {trials} trials of a case"),
            (Some(runs), None) => format!(" of {runs} runs"),
            (None, _) => String::new(),
        };
        let word = if *cases == 1 { "case" } else { "cases" };
        let mut text = format!("{source} holds {cases} {word} of {}{runs}\n", imported.tool);
        if let Some(heading) = imported.facts.get("heading") {
            text += &format!("under    {heading}\n");
        }
        text += &format!("times    {}\n", imported.statistic);
        imported.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
        imported.omitted.iter().for_each(|omitted| text += &format!("omitted: {omitted}\n"));
        expected.iter().for_each(|sentence| text += &format!("expected {sentence}\n"));
        missed.iter().for_each(|gate| text += &format!("gate missed: {gate}\n"));
        text += &format!("record   {}\n", directory.display());
        report.into_iter().for_each(|report| text += &format!("report   {}\n", report.display()));
        text
    }
}
