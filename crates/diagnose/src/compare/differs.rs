//! What differs between two records apart from their results: machine, plan, versions, environment.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use record::{Case, Record, RunFile, SharedMap};
use serde_json::{Map, Value};

use super::matching::Pair;

terms::named! {
    /// What a difference is one of.
    pub enum Topic("topic") {
        /// The machine that ran it.
        Machine = "machine",
        /// What was asked for.
        Plan = "plan",
        /// Versions of what took part.
        Version = "version",
        /// Environment variables.
        Environment = "environment",
        /// How another program ran, and which.
        Program = "program",
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// What kind.
    pub topic: Topic,
    /// What differs (`cpu_model`, `rankmark`, `NCCL_ALGO`).
    pub name: String,
    /// In the base; None where that does not have it.
    pub base: Option<String>,
    /// In the new record.
    pub new: Option<String>,
}

/// Facts of a machine that decide how fast it is: another value is another machine.
const HARDWARE: [&str; 8] =
    ["arch", "cpu_model", "cores", "threads", "numa_nodes", "memory_bytes", "hypervisor", "container"];
/// What imported files say of how their program ran. Other facts are results, such as an average bandwidth.
const SETTINGS: [&str; 7] = [
    "arguments",
    "command line",
    "device",
    "environment",
    "nodes and ranks on each",
    "options",
    "settings of the command line",
];
/// How redaction begins the name of a host.
const REDACTED: &str = "host-";

/// Whether two records are of machines that differ in hardware.
pub fn other_machine(base: &RunFile, new: &RunFile) -> bool {
    let (base, new) = (facts(&base.machine), facts(&new.machine));
    HARDWARE.iter().any(|fact| base.get(*fact) != new.get(*fact))
}

fn facts(of: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(of) {
        Ok(Value::Object(facts)) => facts,
        _ => Map::new(),
    }
}

/// A fact in which the runs of one side differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mixed {
    /// What it is.
    pub name: String,
    /// Values of the fact, each with the number of runs that have it, the most frequent first.
    pub values: Vec<(String, usize)>,
}

/// What sets the runs of one side apart, which are to be equal: hardware, hosts, versions, settings, options of other programs.
/// Runs of different cases, such as the operations of an archive, are not compared with each other.
pub(super) fn mixed(records: &[&Record]) -> Vec<Mixed> {
    let facts: Vec<BTreeMap<String, String>> = records.iter().map(|record| settings_of(&record.file)).collect();
    let mut holders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, record) in records.iter().enumerate() {
        for line in &record.cases {
            holders.entry(&line.id).or_default().push(at);
        }
    }
    let groups: BTreeSet<Vec<usize>> = holders.into_values().filter(|group| group.len() > 1).collect();
    let mut found: Vec<Mixed> = Vec::new();
    for group in groups {
        let facts: Vec<&BTreeMap<String, String>> = group.iter().map(|at| &facts[*at]).collect();
        for mixed in differing(&facts) {
            if !found.iter().any(|known| known.name == mixed.name) {
                found.push(mixed);
            }
        }
    }
    found
}

/// The facts that are not equal in all of these.
fn differing(facts: &[&BTreeMap<String, String>]) -> Vec<Mixed> {
    let mut names: Vec<&String> = facts.iter().flat_map(|facts| facts.keys()).collect();
    names.sort();
    names.dedup();
    let counted = |name: &String| {
        let mut values: Vec<(String, usize)> = Vec::new();
        for facts in facts {
            let value = facts.get(name).map_or("-", String::as_str);
            match values.iter_mut().find(|(known, _)| known == value) {
                Some((_, runs)) => *runs += 1,
                None => values.push((value.to_owned(), 1)),
            }
        }
        values.sort_by_key(|(_, runs)| std::cmp::Reverse(*runs));
        (values.len() > 1).then(|| Mixed { name: name.clone(), values })
    };
    names.into_iter().filter_map(counted).collect()
}

/// What equal runs have in common.
fn settings_of(file: &RunFile) -> BTreeMap<String, String> {
    let hardware = facts(&file.machine);
    let machine = HARDWARE.iter().chain(&["host"]).filter_map(|name| Some((*name, hardware.get(*name)?)));
    let mut all: BTreeMap<String, String> = machine.map(|(name, value)| (name.to_owned(), plain(value))).collect();
    all.extend(versions(file));
    all.extend(file.environment.clone());
    all.extend(of_program(file));
    all
}

/// What another program says of how it ran; empty for a run of this one.
fn of_program(file: &RunFile) -> BTreeMap<String, String> {
    let Some(imported) = &file.imported else { return BTreeMap::new() };
    let is_setting = |name: &str| SETTINGS.contains(&name);
    let mut all: BTreeMap<String, String> =
        imported.facts.iter().filter(|(name, _)| is_setting(name)).map(|(a, b)| (a.clone(), b.clone())).collect();
    all.insert("program".to_owned(), imported.tool.clone());
    all.insert("statistic".to_owned(), imported.statistic.clone());
    let mut hosts: Vec<&str> = file.hosts.iter().map(|machine| machine.host.as_str()).collect();
    hosts.sort_unstable();
    if hosts.len() > 1 {
        all.insert("hosts".to_owned(), hosts.join(" "));
    }
    all
}

/// All differences, the machine's first.
pub(super) fn differences(base: &Record, new: &Record, pairs: &[Pair]) -> Vec<Difference> {
    let mut all = machine(&base.file, &new.file);
    let mut of_programs = between(Topic::Program, &of_program(&base.file), &of_program(&new.file));
    of_programs.retain(|difference| !(is_redacted(&base.file, &new.file) && difference.name == "hosts"));
    all.extend(of_programs);
    all.extend(plan(base, new, pairs));
    all.extend(between(Topic::Version, &versions(&base.file), &versions(&new.file)));
    all.extend(between(Topic::Environment, &base.file.environment, &new.file.environment));
    all
}

fn is_redacted(base: &RunFile, new: &RunFile) -> bool {
    [base, new].iter().any(|file| file.machine.host.starts_with(REDACTED))
}

fn machine(base: &RunFile, new: &RunFile) -> Vec<Difference> {
    let text = |facts: Map<String, Value>| -> BTreeMap<String, String> {
        facts.into_iter().map(|(name, value)| (name, plain(&value))).collect()
    };
    let facts_of = |file: &RunFile| {
        let mut facts = text(facts(&file.machine));
        let hosts: Vec<&str> = file.hosts.iter().map(|machine| machine.host.as_str()).collect();
        if hosts.len() > 1 {
            facts.insert("hosts".to_owned(), hosts.len().to_string());
        }
        facts
    };
    let redacted = is_redacted(base, new);
    let mut found = between(Topic::Machine, &facts_of(base), &facts_of(new));
    // A number in the place of a name tells nothing.
    found.retain(|difference| !(redacted && difference.name == "host"));
    found
}

/// The experiment, who started the ranks, and settings in which compared cases differ: each with one example.
fn plan(base: &Record, new: &Record, pairs: &[Pair]) -> Vec<Difference> {
    let one = |name: &str, base: Option<String>, new: Option<String>| Difference {
        topic: Topic::Plan,
        name: name.to_owned(),
        base,
        new,
    };
    let mut found = Vec::new();
    // Of an imported record it is the name of a file.
    let is_imported = base.file.imported.is_some() || new.file.imported.is_some();
    if base.file.experiment != new.file.experiment && !is_imported {
        found.push(one("experiment", Some(base.file.experiment.clone()), Some(new.file.experiment.clone())));
    }
    if base.file.started_by != new.file.started_by {
        found.push(one("launcher", base.file.started_by.clone(), new.file.started_by.clone()));
    }
    let (of_base, of_new) = (settings(base), settings(new));
    let mut named: Vec<String> = Vec::new();
    for pair in pairs {
        let (Some(a), Some(b)) = (of_base.get(pair.base.id.as_str()), of_new.get(pair.new.id.as_str())) else {
            continue;
        };
        let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(name)));
        for name in names.filter(|name| a.get(name) != b.get(name)) {
            if !named.iter().any(|known| known == name) {
                named.push(name.to_owned());
                found.push(one(name, a.get(name).map(plain), b.get(name).map(plain)));
            }
        }
    }
    found
}

/// How the cases of a plan are sampled, by identity.
fn settings(record: &Record) -> HashMap<&str, &SharedMap> {
    record.file.plan.cases.iter().map(|case: &Case| (case.id.as_str(), &case.settings)).collect()
}

fn versions(file: &RunFile) -> BTreeMap<String, String> {
    let mut all = file.versions.clone();
    all.insert(file.tool.name.clone(), file.tool.version.clone());
    let ready = file.backends.iter().filter(|backend| backend.ready);
    all.extend(ready.filter_map(|backend| Some((backend.name.clone(), backend.version.clone()?))));
    all
}

fn between(topic: Topic, base: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<Difference> {
    let mut names: Vec<&String> = base.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    let differ = names.into_iter().filter(|name| base.get(*name) != new.get(*name));
    let difference = |name: &String| Difference {
        topic,
        name: name.clone(),
        base: base.get(name).cloned(),
        new: new.get(name).cloned(),
    };
    differ.map(difference).collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
