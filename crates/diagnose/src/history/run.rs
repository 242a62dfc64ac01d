//! What a history keeps of a record.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use record::{
    CaseLine, DatedBy, Declared, Imported, Labels, Machine, MachineState, Record, Roles, RunEnd, RunFile, RunIdentity,
    SharedMap,
};
use serde_json::Value;
use terms::{Role, Status};

/// A record that cannot be part of a history, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Where it is.
    pub directory: String,
    /// Why it is left out.
    pub why: String,
    /// Where the record is that it is a copy of, if it is one.
    pub copy_of: Option<String>,
}

/// Leaves one record of each run: copies of it would be equal runs without any noise between them.
pub fn without_copies(runs: Vec<Run>) -> (Vec<Run>, Vec<LeftOut>) {
    let copies = record::copies(&runs.iter().map(|run| &run.identity).collect::<Vec<_>>());
    let directories: Vec<String> = runs.iter().map(|run| run.directory.clone()).collect();
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for (run, copy) in runs.into_iter().zip(copies) {
        let Some(origin) = copy.map(|at| directories[at].clone()) else {
            kept.push(run);
            continue;
        };
        let why = format!("a copy of {origin}: the same run counts once");
        left_out.push(LeftOut { directory: run.directory, why, copy_of: Some(origin) });
    }
    (kept, left_out)
}

/// A parameter's value as text.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A run as a point of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Where its record is, as the caller names it.
    pub directory: String,
    /// What tells it from other runs.
    pub identity: RunIdentity,
    /// When it began.
    pub started: jiff::Timestamp,
    /// What the user calls it.
    pub labels: Labels,
    /// The plan's name.
    pub experiment: String,
    /// Machine of the coordinator.
    pub machine: Machine,
    /// Whether ranks were on several hosts.
    pub several_hosts: bool,
    /// Runs of equal keys are of one machine.
    pub machine_key: String,
    /// Where its date is from, if its own file does not tell it.
    pub dated_by: Option<DatedBy>,
    /// Whether its times were computed.
    pub simulated: bool,
    /// Places of its record that are damaged or missing.
    pub damaged: usize,
    /// How it ended.
    pub end: RunEnd,
    /// What says that its record is incomplete; None where it ended.
    pub banner: Option<String>,
    /// Cases that are ok, failed, skipped, and without a result.
    pub counts: [usize; 4],
    /// What may differ between runs of one machine, by name: versions, environment, kernel.
    pub facts: BTreeMap<String, String>,
    /// What its benchmarks declare, by the benchmark's name.
    pub(super) declared: Vec<(String, Vec<KnownField>)>,
    /// States of the machine that it saw.
    pub states: Vec<MachineState>,
    /// Cases of the run that have a right result.
    pub cases: Vec<RunCase>,
}

/// What a run declares of a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KnownField {
    /// The name that the run has for it.
    pub(super) name: String,
    /// The first name of it, which all versions have in common.
    pub(super) first_name: String,
    pub(super) default: Option<String>,
    /// Whether it only says how a case is sampled.
    pub(super) sampling: bool,
}

/// A case of a run, with its result.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCase {
    /// Identity of the case in that run.
    pub id: Arc<str>,
    /// The benchmark's name.
    pub benchmark: Arc<str>,
    /// What is measured.
    pub parameters: SharedMap,
    /// Ranks.
    pub ranks: u32,
    /// Bytes, where it has a size.
    pub bytes: Option<u64>,
    /// Median time in seconds.
    pub median_s: f64,
    /// 95% interval over the run's own span.
    pub ci95: Option<[f64; 2]>,
    /// The interval that is shown: of an equal run, where that is known.
    pub printed: Option<[f64; 2]>,
    /// The state of the machine that these are of, as a place among the run's; None where it is not known.
    pub state: Option<usize>,
    /// Median times and intervals in other states.
    pub in_others: Vec<(usize, f64, Option<[f64; 2]>)>,
    /// How it was sampled: not part of what is measured.
    pub settings: SharedMap,
}

/// Cases of the runs so far: runs of one plan have many in common, and keep them once.
#[derive(Debug, Default)]
pub struct KnownCases {
    cases: HashMap<Arc<str>, [SharedMap; 2]>,
    benchmarks: HashSet<Arc<str>>,
}

impl Run {
    /// Shares what cases of earlier runs say, too.
    pub fn share(&mut self, known: &mut KnownCases) {
        for case in &mut self.cases {
            match known.benchmarks.get(&case.benchmark) {
                Some(benchmark) => case.benchmark = Arc::clone(benchmark),
                None => drop(known.benchmarks.insert(Arc::clone(&case.benchmark))),
            }
            let Some((id, [parameters, settings])) = known.cases.get_key_value(&case.id) else {
                known.cases.insert(Arc::clone(&case.id), [case.parameters.clone(), case.settings.clone()]);
                continue;
            };
            case.id = Arc::clone(id);
            case.parameters.share(parameters);
            case.settings.share(settings);
        }
    }
}

impl Run {
    /// What a history needs of a record. `any_host` counts equal machines with different host names as one.
    ///
    /// # Errors
    /// Why the record cannot be part of a history.
    pub fn of(directory: &str, record: &Record, any_host: bool) -> Result<Self, LeftOut> {
        let left_out = |why: &str| LeftOut { directory: directory.to_owned(), why: why.to_owned(), copy_of: None };
        let file = &record.file;
        if !file.merged.is_empty() {
            return Err(left_out("it is merged from several records: they have dates of their own"));
        }
        let started = file.started.parse().map_err(|_| left_out("its date cannot be read"))?;
        let settings: BTreeMap<&str, &SharedMap> =
            file.plan.cases.iter().map(|case| (case.id.as_str(), &case.settings)).collect();
        let mut cases: Vec<RunCase> = record
            .cases
            .iter()
            .filter_map(|line| case(line, &file.states, settings.get(line.id.as_str()).copied()))
            .collect();
        cases.shrink_to_fit();
        let counts = counts(record);
        if cases.is_empty() {
            let has_result = |line: &CaseLine| line.status == Status::Ok && line.time_s.is_some();
            let why = if record.cases.iter().any(has_result) {
                "no case of it has all its trials"
            } else {
                "no case of it has a result"
            };
            return Err(left_out(&record.banner().map_or_else(|| why.to_owned(), |banner| format!("{why}. {banner}"))));
        }
        Ok(Self {
            directory: directory.to_owned(),
            identity: record.identity(),
            started,
            labels: file.labels.clone(),
            experiment: file.experiment.clone(),
            machine: file.machine.clone(),
            several_hosts: file.hosts.len() > 1,
            machine_key: match &file.imported {
                Some(imported) => imported_key(file, imported, any_host),
                None => machine_key(&file.machine, &file.hosts, file.simulated, any_host),
            },
            dated_by: file.imported.as_ref().and_then(|imported| imported.dated_by),
            simulated: file.simulated,
            damaged: record.damaged.len(),
            end: record.end,
            banner: record.banner(),
            counts,
            facts: super::facts::facts(file),
            declared: file.benchmarks.iter().map(declared).collect(),
            states: file.states.clone(),
            cases,
        })
    }
}

fn declared(of: &Declared) -> (String, Vec<KnownField>) {
    let field = |field: &record::DeclaredField| KnownField {
        name: field.name.clone(),
        first_name: of.first_name(&field.name).to_owned(),
        default: field.default.clone(),
        sampling: of.role(&field.name) == Role::Sampling,
    };
    (of.name.clone(), of.fields.iter().map(field).collect())
}

/// A case with a right result of all its trials; None for others.
fn case(line: &CaseLine, states: &[MachineState], settings: Option<&SharedMap>) -> Option<RunCase> {
    let time = line.time_s.as_ref()?;
    let whole = line.status == Status::Ok && !line.lacks_trials();
    let right = whole && line.wrong.unwrap_or(0) == 0 && time.median.is_finite() && time.median > 0.0;
    let place = |name: &String| states.iter().position(|state| state.name.as_ref() == Some(name));
    let others = line.states.iter().filter(|times| line.state.as_ref() != Some(&times.name));
    right.then(|| RunCase {
        id: line.id.as_str().into(),
        benchmark: line.benchmark.as_str().into(),
        parameters: line.parameters.clone(),
        ranks: line.ranks,
        bytes: line.bytes,
        median_s: time.median,
        ci95: time.ci95,
        printed: time.printed().map(|(ends, _)| ends),
        state: line.state.as_ref().map_or((states.len() == 1).then_some(0), place),
        in_others: others.filter_map(|times| Some((place(&times.name)?, times.median_s, times.ci95_s))).collect(),
        settings: settings.cloned().unwrap_or_default(),
    })
}

/// Cases that are ok, failed, skipped, and without a result.
fn counts(record: &Record) -> [usize; 4] {
    let number_of = |status: Status| record.cases.iter().filter(|line| line.status == status).count();
    [number_of(Status::Ok), number_of(Status::Failed), number_of(Status::Skipped), number_of(Status::NotRun)]
}

/// What makes imported runs one series: the hosts and the device that the file names, the kind of program, and what its times are.
/// Versions and options may change over the runs; a history is where that shows.
fn imported_key(file: &RunFile, imported: &Imported, any_host: bool) -> String {
    let mut hosts: Vec<&str> = file.hosts.iter().chain([&file.machine]).map(|machine| machine.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.retain(|host| !host.is_empty() && !any_host);
    let hosts = if hosts.is_empty() { String::new() } else { format!("{}: ", hosts.join(" ")) };
    let device = imported.facts.get("device").map_or(String::new(), |device| format!("{device}, "));
    let program = imported.tool.split_whitespace().next().unwrap_or(&imported.format);
    format!("{hosts}{device}{program}, {} (imported)", imported.statistic)
}

/// What makes machines one: host, processor, cores that ranks may use, memory limit; of all hosts that held ranks.
fn machine_key(machine: &Machine, hosts: &[Machine], simulated: bool, any_host: bool) -> String {
    let one = |machine: &Machine| {
        let cores = match machine.allowed_cpus.len() {
            0 => machine.threads.or(machine.cores).map(|cores| cores.to_string()),
            allowed => Some(allowed.to_string()),
        };
        let cores = cores.map_or(String::new(), |cores| format!("{cores} cores {}", machine.cpu_model));
        let host = if any_host { "" } else { machine.host.as_str() };
        match (host, cores.as_str()) {
            ("", "") => "unknown machine".to_owned(),
            ("", cores) => cores.to_owned(),
            (host, "") => host.to_owned(),
            (host, cores) => format!("{host}: {cores}"),
        }
    };
    let mut all: Vec<String> = hosts.iter().map(one).collect();
    all.sort();
    let own = if all.is_empty() { one(machine) } else { all.join("; ") };
    // A model's times never stand in one series with measured ones.
    if simulated { format!("simulated on {own}") } else { own }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn runs_share_what_their_cases_have_in_common() {
        let map =
            |seed: u64| -> SharedMap { json!({ "op": "reduce", "seed": seed }).as_object().cloned().unwrap().into() };
        let case = |seed: u64| RunCase {
            id: format!("{seed:012x}").as_str().into(),
            benchmark: "collective".into(),
            parameters: map(seed),
            ranks: 2,
            bytes: None,
            median_s: 1.0,
            ci95: None,
            printed: None,
            state: None,
            in_others: Vec::new(),
            settings: Map::new().into(),
        };
        let mut known = KnownCases::default();
        let mut share = |cases: Vec<RunCase>| {
            let mut run = Run { cases, ..empty() };
            run.share(&mut known);
            run.cases
        };
        let (first, second) = (share(vec![case(1), case(2)]), share(vec![case(2), case(3)]));
        assert!(second[0].parameters.is_shared_with(&first[1].parameters));
        assert!(Arc::ptr_eq(&second[0].id, &first[1].id) && Arc::ptr_eq(&second[1].benchmark, &first[0].benchmark));
        assert_eq!(second, [case(2), case(3)], "what they say stays the same");
    }

    fn empty() -> Run {
        Run {
            directory: String::new(),
            identity: RunIdentity::default(),
            started: jiff::Timestamp::UNIX_EPOCH,
            labels: Labels::default(),
            experiment: String::new(),
            machine: Machine::default(),
            several_hosts: false,
            machine_key: String::new(),
            dated_by: None,
            simulated: false,
            damaged: 0,
            end: RunEnd::Ended,
            banner: None,
            counts: [0; 4],
            facts: BTreeMap::new(),
            declared: Vec::new(),
            states: Vec::new(),
            cases: Vec::new(),
        }
    }
}
