//! Names of cases: as short as they can be and still differ.

use std::collections::BTreeSet;

use diagnose::history::{History, RunCase, Series};
use record::Declared;
use serde_json::Value;
use terms::Bytes;

/// A name for each series of a history.
pub(super) fn of(history: &History) -> Vec<String> {
    let declared: Vec<Declared> = benchmarks::abouts().into_iter().map(Declared::of).collect();
    let name = |series: &Series| {
        let case = &series.latest;
        let declared = declared.iter().find(|declared| declared.name == case.benchmark);
        let extra =
            telling(case, history).into_iter().map(|(name, value)| view::label_of(declared, name, &view::plain(value)));
        let parts: Vec<String> = std::iter::once(short(case)).chain(extra).collect();
        super::words::plain(&parts.join(" "))
    };
    history.series.iter().map(name).collect()
}

/// `all_reduce 64KiB x 2 shm`.
fn short(case: &RunCase) -> String {
    let text = |name: &str| case.parameters.get(name).and_then(Value::as_str);
    let what = case.parameters.values().next().and_then(Value::as_str).unwrap_or(&case.benchmark);
    let size = case.bytes.map_or(String::new(), |bytes| format!(" {}", Bytes(bytes)));
    let backend = match (text("runtime"), text("backend")) {
        (Some("pytorch"), Some(backend)) => format!(" pytorch/{backend}"),
        (_, Some(backend)) => format!(" {backend}"),
        _ => String::new(),
    };
    format!("{what}{size} x {}{backend}", case.ranks)
}

/// The parameters that cases of the same short name differ in.
fn telling<'c>(case: &'c RunCase, history: &History) -> Vec<(&'c str, &'c Value)> {
    const TOLD: [&str; 4] = ["ranks", "bytes", "backend", "runtime"];
    let alike = || {
        let same = |other: &&RunCase| other.benchmark == case.benchmark && short(other) == short(case);
        history.series.iter().map(|series| &series.latest).filter(same)
    };
    let differs = |name: &str| {
        let values: BTreeSet<String> =
            alike().map(|other| other.parameters.get(name).map_or(String::new(), view::plain)).collect();
        values.len() > 1
    };
    let parameters = case.parameters.iter().map(|(name, value)| (name.as_str(), value));
    parameters.filter(|(name, _)| !TOLD.contains(name) && differs(name)).collect()
}
