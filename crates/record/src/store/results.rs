//! `run.json` for readers of results: the plan's cases are kept by their identities alone.
//!
//! Case lines repeat what a case is, and 100,000 whole cases take more memory than all lines together.

use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, from_slice, from_str};

use super::StoreError;
use super::read::{FoundRun, read_run_file, run_file_by};
use crate::Case;

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
}

/// The run file; its plan's cases have an identity and nothing else.
pub(super) fn bare_run_file(directory: &Path) -> Result<FoundRun, StoreError> {
    run_file_by(directory, |text, name| {
        // What cannot be taken apart is refused by the reader of whole files, which says why.
        let Some((text, ids)) = without_cases(text) else { return read_run_file(text, name) };
        let mut file = read_run_file(&text, name)?;
        file.plan.cases = ids.into_iter().map(bare).collect();
        Ok(file)
    })
}

/// The text with no cases in its plan, and their identities.
fn without_cases(text: &[u8]) -> Option<(Vec<u8>, Vec<String>)> {
    let cases = from_slice::<Outer>(text).ok()?.plan.cases.get();
    let ids = from_str::<Vec<Named>>(cases).ok()?.into_iter().map(|case| case.id).collect();
    let begin = cases.as_ptr() as usize - text.as_ptr() as usize;
    Some(([&text[..begin], b"[]", &text[begin + cases.len()..]].concat(), ids))
}

fn bare(id: String) -> Case {
    Case {
        id,
        benchmark: String::new(),
        parameters: Map::new().into(),
        settings: Map::new().into(),
        world: Map::new().into(),
        caveats: Vec::new(),
        bytes_requested: None,
        skip: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_taken_out_and_named() {
        let text =
            br#"{"a": {"cases": [1]}, "plan": {"x": "]", "cases": [{"id": "p", "q": [2]}, {"id": "r"}], "z": 3}}"#;
        let (rest, ids) = without_cases(text).unwrap();
        assert_eq!(rest, br#"{"a": {"cases": [1]}, "plan": {"x": "]", "cases": [], "z": 3}}"#);
        assert_eq!(ids, ["p", "r"]);
        assert_eq!(without_cases(br#"{"plan": {"cases": [{}]}}"#), None);
        assert_eq!(without_cases(b"{"), None);
    }
}
