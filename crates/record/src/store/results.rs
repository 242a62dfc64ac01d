//! `run.json` for readers of results: of the plan's cases it has the identities, the targets of their intervals, and what a
//! traced job had of them.
//!
//! Case lines repeat what a case is, and 100,000 whole cases take more memory than all lines together.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, from_slice, from_str, to_value};

use super::StoreError;
use super::read::{FoundRun, parse_run_file, run_file_by};
use crate::{Case, SharedMap};

#[derive(Deserialize)]
struct Outer<'t> {
    #[serde(borrow)]
    plan: Inner<'t>,
}

#[derive(Deserialize)]
struct Inner<'t> {
    #[serde(borrow)]
    cases: &'t RawValue,
}

#[derive(Deserialize)]
struct Named {
    id: String,
    #[serde(default)]
    settings: ReadSettings,
}

/// The settings that results are read with.
#[derive(Default, PartialEq, Deserialize, Serialize)]
struct ReadSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    target_precision: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_steps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_waiting_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_overlapped: Option<u64>,
}

impl ReadSettings {
    fn to_map(&self) -> SharedMap {
        match to_value(self) {
            Ok(Value::Object(map)) => map.into(),
            _ => Map::new().into(),
        }
    }
}

/// The run file; its plan's cases have an identity, these settings, and nothing else.
pub(super) fn bare_run_file(directory: &Path) -> Result<FoundRun, StoreError> {
    run_file_by(directory, |text, name| {
        let text = terms::outside::json(text);
        // What cannot be taken apart is refused by the reader of whole files, which says why.
        let Some((text, cases)) = without_cases(&text) else { return parse_run_file(&text, name) };
        let mut file = parse_run_file(&text, name)?;
        file.plan.cases = bare(cases);
        Ok(file)
    })
}

/// The text with no cases in its plan, and these.
fn without_cases(text: &[u8]) -> Option<(Vec<u8>, Vec<Named>)> {
    let cases = from_slice::<Outer>(text).ok()?.plan.cases.get();
    let named = from_str::<Vec<Named>>(cases).ok()?;
    let begin = cases.as_ptr() as usize - text.as_ptr() as usize;
    Some(([&text[..begin], b"[]", &text[begin + cases.len()..]].concat(), named))
}

/// Cases of equal settings share them.
fn bare(cases: Vec<Named>) -> Vec<Case> {
    let (none, mut last) = (SharedMap::default(), (ReadSettings::default(), SharedMap::default()));
    let bare = |Named { id, settings }: Named| {
        if settings != last.0 {
            let map = settings.to_map();
            last = (settings, map);
        }
        Case {
            id,
            benchmark: String::new(),
            parameters: none.clone(),
            settings: last.1.clone(),
            world: none.clone(),
            caveats: Vec::new(),
            bytes_requested: None,
            skip: None,
        }
    };
    cases.into_iter().map(bare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobCalls;

    #[test]
    fn cases_are_taken_out_and_named() {
        let text =
            br#"{"a": {"cases": [1]}, "plan": {"x": "]", "cases": [{"id": "p", "q": [2]}, {"id": "r", "settings":
            {"trials": 6, "target_precision": 0.05}}, {"id": "s", "settings": {"trace_calls": 4, "trace_s": 1}}], "z": 3}}"#;
        let (rest, cases) = without_cases(text).unwrap();
        assert_eq!(rest, br#"{"a": {"cases": [1]}, "plan": {"x": "]", "cases": [], "z": 3}}"#);
        let cases = bare(cases);
        let jobs: Vec<_> = cases.iter().map(Case::in_job).collect();
        let traced = JobCalls { calls: 4, time_s: Some(1.0), ..JobCalls::default() };
        assert_eq!(jobs, [None, None, Some(traced)]);
        let cases: Vec<_> = cases.into_iter().map(|case| (case.target_precision(), case.id)).collect();
        assert_eq!(cases, [(None, "p".to_owned()), (Some(0.05), "r".to_owned()), (None, "s".to_owned())]);
        assert!(without_cases(br#"{"plan": {"cases": [{}]}}"#).is_none());
        assert!(without_cases(b"{").is_none());
    }
}
