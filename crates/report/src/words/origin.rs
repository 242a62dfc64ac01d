//! Where the numbers of a chart come from, in a few words below it: a picture is passed on without its page.

use std::collections::{BTreeSet, HashMap};

use record::{BackendState, CaseLine};

use crate::Run;
use crate::number::count;
use crate::study::{Operation, backend};

/// Backends, and launchers, that a picture names: its text would be longer than the picture.
const LISTED: usize = 16;

/// What stands below the charts of an operation.
pub(crate) fn lines(run: &Run, operation: &Operation) -> Vec<String> {
    let all = operation.configurations.iter().flat_map(|configuration| &configuration.cases).copied();
    of_cases(run, &all.filter(|case| case.time_s.is_some()).collect::<Vec<_>>())
}

/// What stands below the charts of one case; without its line, machine and time.
pub(crate) fn of_case(run: &Run, case: Option<&CaseLine>) -> Vec<String> {
    of_cases(run, &case.into_iter().collect::<Vec<_>>())
}

fn of_cases(run: &Run, cases: &[&CaseLine]) -> Vec<String> {
    // Many cases, few kinds: what follows from the kind is made into text once.
    let mut kinds: HashMap<_, &CaseLine> = HashMap::new();
    let mut last: Option<&CaseLine> = None;
    for case in cases {
        if last.replace(case).is_none_or(|last| !are_alike(last, case)) {
            kinds.insert(kind(run, case), case);
        }
    }
    let names = |of: &dyn Fn(&CaseLine) -> String| kinds.values().map(|case| of(case)).collect::<BTreeSet<String>>();
    let software = names(&|case| software(run, case));
    let launchers = join(&names(&|case| launcher(run, case)));
    let mut parts = vec![run.machine.clone(), run.started.clone()];
    parts.extend(software.iter().take(LISTED).map(|software| labelled("backend", software)));
    if let Some(more) = software.len().checked_sub(LISTED).filter(|more| *more > 0) {
        parts.push(format!("{}: all are in cases.csv", count(more, "more backend", "more backends")));
    }
    parts.extend([labelled("launcher", &launchers), trials_of(cases)]);
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}

fn labelled(label: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("{label}: {value}") }
}

fn join(names: &BTreeSet<String>) -> String {
    let mut all: Vec<String> = names.iter().filter(|name| !name.is_empty()).cloned().collect();
    let more = all.len().saturating_sub(LISTED);
    all.truncate(LISTED);
    all.extend((more > 0).then(|| format!("{more} more")));
    all.join("; ")
}

/// All of a case that [`software`] and [`launcher`] read.
fn kind<'c>(run: &Run, case: &'c CaseLine) -> (&'c str, &'c str, Option<&'c str>) {
    (&case.runtime, &case.backend, library(run, case))
}

/// Whether two cases, which differ in their size at most, are certainly of one kind. Of cases one behind another most are.
fn are_alike(one: &CaseLine, other: &CaseLine) -> bool {
    let parameters = one.parameters.says_the_same_but(&other.parameters, "bytes");
    parameters && one.benchmark == other.benchmark && one.runtime == other.runtime && one.backend == other.backend
}

/// The library or the Python that the case names.
fn library<'c>(run: &Run, case: &'c CaseLine) -> Option<&'c str> {
    let declared = run.benchmarks.iter().find(|declared| declared.name == case.benchmark)?;
    let loading = declared.fields.iter().filter(|field| field.loads);
    loading.filter_map(|field| case.parameters.get(&field.name)).find_map(serde_json::Value::as_str)
}

/// The state of a case's backend with the library that the case names.
fn state<'r>(run: &'r Run, case: &CaseLine) -> Option<&'r BackendState> {
    let name = backend(case);
    let library = library(run, case);
    // Another library of the same backend is not the one that ran.
    run.backends.iter().find(|state| state.name == name && (library.is_none() || state.library.as_deref() == library))
}

/// `mpi (Open MPI v4.1.4, libmpi.so.40)`.
fn software(run: &Run, case: &CaseLine) -> String {
    let name = backend(case);
    let known = state(run, case);
    let version = known.and_then(|state| state.version.clone()).filter(|version| !version.is_empty());
    let version = version.unwrap_or_else(|| "version not recorded".to_owned());
    let file = |path: &String| path.rsplit('/').next().unwrap_or(path).to_owned();
    let library = known.filter(|state| !state.name.contains('/')).and_then(|state| state.path.as_ref().map(file));
    let parts: Vec<String> = [Some(version), library].into_iter().flatten().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() || name.is_empty() { name } else { format!("{name} ({})", parts.join(", ")) }
}

/// Who started the ranks: the launcher of the whole run, that of the backend's library, or this program.
fn launcher(run: &Run, case: &CaseLine) -> String {
    let of_backend = || state(run, case)?.launcher.clone();
    let own = || "rankmark".to_owned();
    run.started_by.clone().or_else(of_backend).unwrap_or_else(own)
}

/// Trials of a case.
pub(crate) fn trials(case: &CaseLine) -> u32 {
    case.trials.unwrap_or(1)
}

fn trials_of(cases: &[&CaseLine]) -> String {
    let numbers: BTreeSet<u32> = cases.iter().map(|case| trials(case)).collect();
    match (numbers.first(), numbers.last()) {
        (Some(1), Some(1)) => "1 trial a case".to_owned(),
        (Some(fewest), Some(most)) if fewest == most => format!("{most} trials a case"),
        (Some(fewest), Some(most)) => format!("{fewest} to {most} trials a case"),
        _ => String::new(),
    }
}
