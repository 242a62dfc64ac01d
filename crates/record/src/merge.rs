//! Several records as one: cases that were measured at different times, or on machines of different devices.

use std::collections::{BTreeMap, HashMap, HashSet};

use terms::Error;

use crate::{Machine, Part, Record, Rounds, RunFile};

/// One record of all of these, in their order. Each has the name of its directory.
///
/// # Errors
/// When they do not fit: the same case in two of them, benchmarks that are declared differently, machines that differ while
/// the device is the same.
pub fn merge(parts: Vec<(String, Record)>) -> Result<Record, Error> {
    if parts.len() < 2 {
        return Err(Error::new("one record alone is merged already").hint("name two records or more"));
    }
    refuse_same_cases(&parts)?;
    refuse_other_machines(&parts)?;
    let mut file = parts[0].1.file.clone();
    file.plan.cases.clear();
    file.benchmarks = benchmarks(&parts)?;
    file.versions = common(parts.iter().map(|(_, part)| &part.file.versions));
    file.environment = common(parts.iter().map(|(_, part)| &part.file.environment));
    file.overhead =
        file.overhead.filter(|overhead| parts.iter().all(|(_, part)| part.file.overhead == Some(*overhead)));
    file.started_by =
        file.started_by.filter(|by| parts.iter().all(|(_, part)| part.file.started_by.as_ref() == Some(by)));
    file.simulated = parts.iter().any(|(_, part)| part.file.simulated);
    (file.imported, file.launcher, file.command_line) = (None, Vec::new(), Vec::new());
    (file.hosts, file.placement, file.backends, file.profiles) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut cases, mut damaged, mut notes, mut round) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for (directory, record) in parts {
        let Record { file: mut of, cases: lines, damaged: lost, notes: told } = record;
        file.merged.push(part(directory, &mut of, &file, lines.len(), round));
        file.plan.cases.append(&mut of.plan.cases);
        file.plan.notes.append(&mut of.plan.notes);
        append_new(&mut file.hosts, of.hosts);
        append_new(&mut file.placement, of.placement);
        append_new(&mut file.backends, of.backends);
        append_new(&mut file.profiles, of.profiles);
        let made = of.rounds.map_or(0, |rounds| rounds.made);
        let last = lines.iter().flat_map(|line| &line.trial_round).max().map_or(0, |last| last + 1);
        cases.extend(lines.into_iter().map(|mut line| {
            line.trial_round.iter_mut().for_each(|of| *of += round);
            line
        }));
        round += made.max(last);
        damaged.extend(lost);
        notes.extend(told);
    }
    file.rounds = file.rounds.map(|rounds| Rounds { made: round, correlation: None, ..rounds });
    Ok(Record { file, cases, damaged, notes })
}

fn part(directory: String, of: &mut RunFile, merged: &RunFile, cases: usize, first_round: u32) -> Part {
    let other = |own: &BTreeMap<String, String>, all: &BTreeMap<String, String>| {
        own.iter().filter(|(name, _)| !all.contains_key(*name)).map(|(n, v)| (n.clone(), v.clone())).collect()
    };
    Part {
        directory,
        started: of.started.clone(),
        command_line: std::mem::take(&mut of.command_line),
        machine: of.machine.clone(),
        versions: other(&of.versions, &merged.versions),
        environment: other(&of.environment, &merged.environment),
        imported: of.imported.take(),
        cases,
        first_round,
    }
}

fn append_new<T: PartialEq>(all: &mut Vec<T>, more: Vec<T>) {
    for item in more {
        if !all.contains(&item) {
            all.push(item);
        }
    }
}

/// Entries that all of them have with one value.
fn common<'m>(mut maps: impl Iterator<Item = &'m BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let mut all = maps.next().cloned().unwrap_or_default();
    maps.for_each(|map| all.retain(|name, value| map.get(name) == Some(value)));
    all
}

fn refuse_same_cases(parts: &[(String, Record)]) -> Result<(), Error> {
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for (directory, record) in parts {
        for line in &record.cases {
            if let Some(before) = seen.insert(&line.id, directory) {
                return Err(Error::new(format!("case {} is in {before} and in {directory}", line.id))
                    .cause(format!("both measured {} with the same fields", line.benchmark))
                    .hint("a merged record has each case once: leave one of the records out"));
            }
        }
    }
    Ok(())
}

/// Cases of one device are compared with each other, so they must be of one machine.
fn refuse_other_machines(parts: &[(String, Record)]) -> Result<(), Error> {
    let mut machines: HashMap<&str, (&str, &Machine)> = HashMap::new();
    let differ = |a: &str, b: &str| !a.is_empty() && !b.is_empty() && a != b;
    for (directory, record) in parts {
        let machine = &record.file.machine;
        let devices: HashSet<&str> = record.cases.iter().map(|line| line.device.as_str()).collect();
        for device in devices {
            let (before, other) = *machines.entry(device).or_insert((directory, machine));
            if differ(&other.host, &machine.host) || differ(&other.cpu_model, &machine.cpu_model) {
                let told = |machine: &Machine| format!("{} ({})", machine.host, machine.cpu_model);
                return Err(Error::new(format!("{before} and {directory} are of different machines"))
                    .cause(format!("device {device}: {} and {}", told(other), told(machine)))
                    .hint("one record is of one machine for each device; report them one by one"));
            }
        }
    }
    Ok(())
}

fn benchmarks(parts: &[(String, Record)]) -> Result<Vec<crate::Declared>, Error> {
    let mut all: Vec<crate::Declared> = Vec::new();
    for (directory, record) in parts {
        for declared in &record.file.benchmarks {
            match all.iter().find(|known| known.name == declared.name) {
                None => all.push(declared.clone()),
                Some(known) if known == declared => {}
                Some(_) => {
                    let version = |record: &Record| record.file.tool.version.clone();
                    return Err(Error::new(format!("`{}` is declared differently in {directory}", declared.name))
                        .cause(format!("written by versions {} and {}", version(&parts[0].1), version(record)))
                        .hint("measure again with one version"));
                }
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Case, CaseLine, Plan, Tool};
    use serde_json::{Map, json};
    use terms::Status;

    fn record(host: &str, cases: &[(&str, &str)], rounds: u32) -> Record {
        let case = |(id, device): &(&str, &str)| Case {
            id: (*id).to_owned(),
            benchmark: "collective".to_owned(),
            parameters: Map::from_iter([("device".to_owned(), json!(device))]),
            settings: Map::new(),
            world: Map::new(),
            caveats: Vec::new(),
            bytes_requested: None,
            skip: None,
        };
        let cases: Vec<Case> = cases.iter().map(case).collect();
        let line = |case: &Case| {
            let mut line = CaseLine::unmeasured(case, Status::Ok, "");
            line.trial_round = (0..rounds).collect();
            line.trial_median_s = vec![1.0; rounds as usize];
            line
        };
        let lines = cases.iter().map(line).collect();
        let plan = Plan {
            experiment: "x".into(),
            profiling: false,
            cases,
            notes: Vec::new(),
            expected: Vec::new(),
            read_as: None,
            source_text: String::new(),
        };
        let machine = Machine { host: host.to_owned(), ..Machine::default() };
        let tool = Tool { name: "rankmark".into(), version: "1".into() };
        let mut file = RunFile::new(tool, jiff::Timestamp::UNIX_EPOCH, machine, plan, &[]);
        file.rounds = Some(Rounds { seed: 1, made: rounds, correlation: Some(0.2) });
        file.versions = BTreeMap::from([("a".into(), "1".into()), ("b".into(), host.to_owned())]);
        Record { file, cases: lines, damaged: Vec::new(), notes: Vec::new() }
    }

    fn merged(parts: Vec<Record>) -> Result<Record, String> {
        let named = parts.into_iter().enumerate().map(|(at, part)| (format!("r{at}"), part)).collect();
        merge(named).map_err(|error| error.to_string())
    }

    #[test]
    fn cases_of_both_are_in_one_and_their_rounds_never_meet() {
        let all =
            merged(vec![record("a", &[("1", "cpu")], 3), record("b", &[("2", "cuda"), ("3", "cuda")], 2)]).unwrap();
        assert_eq!(all.file.plan.cases.len(), 3);
        let rounds: Vec<&[u32]> = all.cases.iter().map(|line| line.trial_round.as_slice()).collect();
        assert_eq!(rounds, [&[0, 1, 2][..], &[3, 4], &[3, 4]]);
        assert_eq!(all.cases[0].paired_trials(&all.cases[1]).0.len(), 0, "trials of two runs are no pairs");
        assert_eq!(all.file.rounds, Some(Rounds { seed: 1, made: 5, correlation: None }));
        let parts: Vec<(&str, &str, usize)> = all
            .file
            .merged
            .iter()
            .map(|part| (part.directory.as_str(), part.machine.host.as_str(), part.cases))
            .collect();
        assert_eq!(parts, [("r0", "a", 1), ("r1", "b", 2)]);
        assert_eq!(all.file.versions.keys().collect::<Vec<_>>(), ["a"], "what differs is with its part");
        assert_eq!(all.file.merged[1].versions["b"], "b");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let why = merged(vec![record("a", &[("1", "cpu")], 1), record("a", &[("1", "cpu")], 1)]).unwrap_err();
        assert!(why.contains("case 1 is in r0 and in r1"), "{why}");
        let why = merged(vec![record("a", &[("1", "cpu")], 1), record("b", &[("2", "cpu")], 1)]).unwrap_err();
        assert!(why.contains("r0 and r1 are of different machines"), "{why}");
        assert!(merged(vec![record("a", &[("1", "cpu")], 1), record("", &[("2", "cpu")], 1)]).is_ok(), "not known");
        assert!(merged(vec![record("a", &[("1", "cpu")], 1)]).unwrap_err().contains("two records"));
    }
}
