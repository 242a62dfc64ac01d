//! What a record keeps of the backends: which of them could run, and with which library.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use comm::Readiness;
use launch::external::Coordinator;
use record::{BackendState, Plan};
use survey::Torch;

/// Every backend, and every other library that the plan names.
pub fn backends(plan: &Plan, coordinator: Option<&Coordinator>, search: &[PathBuf]) -> Vec<BackendState> {
    let mut states: Vec<BackendState> = Vec::new();
    for backend in comm::backends() {
        let named = |case: &record::Case| case.backend() == Some(backend.about().name);
        let of_backend = |case: &&record::Case| named(case) && !benchmarks::is_pytorch(case);
        let mut libraries: Vec<Option<&str>> =
            plan.cases.iter().filter(of_backend).map(benchmarks::library_of).collect();
        // Looking for a launcher starts processes: only where one is needed.
        let launched = backend.about().launched && !libraries.is_empty();
        if libraries.is_empty() {
            libraries.push(None);
        }
        let mut seen = HashSet::new();
        libraries.retain(|library| seen.insert(*library));
        states.extend(
            libraries.into_iter().map(|library| backend_state(backend, (library, launched), coordinator, search)),
        );
    }
    states.extend(torch_states(plan, search));
    states
}

/// The backends of every Python that the plan's ranks run in. Importing torch takes seconds: each is asked once.
pub fn torch_states(plan: &Plan, search: &[PathBuf]) -> Vec<BackendState> {
    let mut torches: HashMap<Option<&str>, Result<Torch, String>> = HashMap::new();
    let mut seen = HashSet::new();
    let mut states = Vec::new();
    for case in plan.cases.iter().filter(|case| benchmarks::is_pytorch(case)) {
        let (python, backend) = (benchmarks::library_of(case), case.backend().unwrap_or_default());
        if seen.insert((python, backend)) {
            let torch = torches.entry(python).or_insert_with(|| survey::torch(python, search));
            states.push(torch_state(python, backend, torch));
        }
    }
    states
}

fn torch_state(python: Option<&str>, backend: &str, torch: &Result<Torch, String>) -> BackendState {
    let (version, path, why) = match torch {
        Ok(torch) => {
            // `ucc/tl/cuda`: a transport that only UCC knows.
            let library = backend.split('/').next().unwrap_or(backend);
            let lacks = !torch.backends.iter().any(|has| has == library);
            let why = lacks.then(|| format!("torch {} was built without {library}", torch.version));
            (Some(format!("torch {}", torch.version)), Some(torch.python.clone()), why)
        }
        Err(why) => (None, None, Some(format!("{why} (hint: `--python PATH` names a Python that has torch)"))),
    };
    let (name, library) = (format!("pytorch/{backend}"), python.map(str::to_owned));
    BackendState { name, ready: why.is_none(), version, path, library, launcher: None, why }
}

/// A backend with this library as the record keeps it.
fn backend_state(
    backend: &dyn comm::Backend,
    (library, launched): (Option<&str>, bool),
    coordinator: Option<&Coordinator>,
    search: &[PathBuf],
) -> BackendState {
    let name = backend.about().name.to_owned();
    let asked = library.map(str::to_owned);
    let field = backend.fields().iter().find(|field| field.loads).map(|field| field.name);
    let mut own: comm::Own =
        field.zip(library).map(|(field, path)| (field.to_owned(), path.into())).into_iter().collect();
    // Under an external launcher that one decides which library it can be.
    let joined = coordinator.filter(|_| launched).map(|coordinator| coordinator.join(backend, &mut own, &[]));
    let used = field.and_then(|field| own.get(field)?.as_str());
    let starter = launch::HostStarter::new(search.to_vec());
    match backend.probe_library(used) {
        Readiness::Ready { version, path } => {
            let launcher = match (joined, coordinator) {
                (Some(joined), Some(coordinator)) => Some(joined.map(|_| coordinator.launcher().to_owned())),
                _ => launched.then(|| Ok(starter.launch(backend, &own, 1, &[])?.program.display().to_string())),
            };
            let (launcher, why) = match launcher {
                None => (None, None),
                Some(Ok(launcher)) => (Some(launcher), None),
                Some(Err(why)) => (None, Some(why)),
            };
            BackendState { name, ready: why.is_none(), version: Some(version), path, library: asked, launcher, why }
        }
        Readiness::Missing { why, hint } => {
            let why = Some(format!("{why} (hint: {hint})"));
            BackendState { name, ready: false, version: None, path: None, library: asked, launcher: None, why }
        }
    }
}

/// What moves the data where the user names neither backend nor runtime: one who writes `mpirun` may expect the
/// launcher's library.
pub fn default_backend(
    coordinator: Option<&Coordinator>,
    pairs: &[(String, String)],
    overrides: &[(String, String)],
) -> Option<String> {
    let coordinator = coordinator?;
    let is_choice = |(name, _): &(String, String)| matches!(terms::normalize(name).as_str(), "backend" | "runtime");
    if pairs.iter().chain(overrides).any(is_choice) {
        return None;
    }
    let (launcher, size, hosts) = (coordinator.launcher(), coordinator.size(), coordinator.hosts().len());
    let by = coordinator.started_by();
    let fits = |backend: &&dyn comm::Backend| backend.about().launched && backend.accepts(by).is_ok();
    let other = match comm::backends().find(fits) {
        Some(backend) => format!("`--backend {}` measures the launcher's own library.", backend.about().name),
        None => "`--runtime pytorch` measures PyTorch with gloo.".to_owned(),
    };
    Some(match hosts {
        1 => {
            format!("the {size} ranks that {launcher} started use shared memory (backend shm, the default). {other}")
        }
        _ => format!(
            "{launcher} started {size} ranks on {hosts} hosts, which the default backend shm does not connect. {other}"
        ),
    })
}
