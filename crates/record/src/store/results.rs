//! `run.json` for readers of results: of the plan's cases it has the identities, and the targets of their intervals.
//!
//! Case lines repeat what a case is, and 100,000 whole cases take more memory than all lines together.

use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, from_slice, from_str};

use super::StoreError;
use super::read::{FoundRun, read_run_file, run_file_by};
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
    settings: Settings,
}

#[derive(Default, Deserialize)]
struct Settings {
    target_precision: Option<f64>,
}

/// The run file; its plan's cases have an identity, the target of their intervals, and nothing else.
pub(super) fn bare_run_file(directory: &Path) -> Result<FoundRun, StoreError> {
    run_file_by(directory, |text, name| {
        // What cannot be taken apart is refused by the reader of whole files, which says why.
        let Some((text, cases)) = without_cases(text) else { return read_run_file(text, name) };
        let mut file = read_run_file(&text, name)?;
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
    let mut last: (Option<f64>, SharedMap) = (None, Map::new().into());
    let bare = |Named { id, settings }: Named| {
        if settings.target_precision != last.0 {
            let own = settings.target_precision.map(|target| ("target_precision".to_owned(), target.into()));
            last = (settings.target_precision, Map::from_iter(own).into());
        }
        Case {
            id,
            benchmark: String::new(),
            parameters: Map::new().into(),
            settings: last.1.clone(),
            world: Map::new().into(),
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

    #[test]
    fn cases_are_taken_out_and_named() {
        let text =
            br#"{"a": {"cases": [1]}, "plan": {"x": "]", "cases": [{"id": "p", "q": [2]}, {"id": "r", "settings":
            {"trials": 6, "target_precision": 0.05}}], "z": 3}}"#;
        let (rest, cases) = without_cases(text).unwrap();
        assert_eq!(rest, br#"{"a": {"cases": [1]}, "plan": {"x": "]", "cases": [], "z": 3}}"#);
        let cases: Vec<_> = bare(cases).into_iter().map(|case| (case.target_precision(), case.id)).collect();
        assert_eq!(cases, [(None, "p".to_owned()), (Some(0.05), "r".to_owned())]);
        assert!(without_cases(br#"{"plan": {"cases": [{}]}}"#).is_none());
        assert!(without_cases(b"{").is_none());
    }
}
