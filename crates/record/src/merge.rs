//! Several records as one: cases that were measured at different times, or on machines of different devices.

mod write;

use std::collections::{BTreeMap, HashMap, HashSet};

use terms::{Error, Status};

use crate::{CaseCounts, CaseLine, Expected, Labels, Machine, Part, Record, Rounds, RunEnd, RunFile};

pub use write::{merge_explained, write_merged};

/// One record of all of these, in their order. Each has the name of its directory. Notes of its plan name each expected
/// figure, label and state of the machine that it does not have.
///
/// # Errors
/// When they do not fit: the same case in two of them, benchmarks that are declared differently, machines that differ while
/// the device is the same, sides that were measured interleaved.
pub fn merge(mut parts: Vec<(String, Record)>) -> Result<Record, Error> {
    drop_open(&mut parts);
    if parts.len() < 2 {
        return Err(Error::new("a single record has nothing to merge with").hint("name two records or more"));
    }
    refuse_same_cases(&parts)?;
    refuse_other_machines(&parts)?;
    refuse_sides(&parts)?;
    let mut file = parts[0].1.file.clone();
    file.identify_merged(&parts.iter().map(|(name, part)| format!("{name} {}", part.file.id)).collect::<Vec<_>>());
    file.plan.cases.clear();
    (file.plan.expected, file.plan.notes) = expected(&parts);
    keep_common_labels(&mut file, &parts);
    keep_common_states(&mut file, &parts);
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
    // The first record may be a merged one.
    file.merged.clear();
    let (mut cases, mut damaged, mut notes, mut round) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for (directory, record) in parts {
        let Record { file: mut of, cases: lines, end, damaged: lost, notes: its_notes } = record;
        if let Some(why) = end.phrase() {
            file.plan.notes.push(format!("{directory} is incomplete: {why}"));
        }
        // What another part measured is not missing here.
        let missing = CaseCounts::of(&lines);
        let end = if missing.not_run + missing.lacking > 0 { end } else { RunEnd::Ended };
        file.merged.push(Part { end, ..part(directory, &mut of, &file, lines.len(), round) });
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
        notes.extend(its_notes);
    }
    let mut seen = HashSet::new();
    file.plan.cases.retain(|case| seen.insert(case.id.clone()));
    file.rounds = file.rounds.map(|rounds| Rounds { made: round, correlation: None, ..rounds });
    let end = if file.merged.iter().all(|part| part.end.is_unsaid()) { RunEnd::Ended } else { RunEnd::Part };
    Ok(Record { file, cases, end, damaged, notes })
}

/// Leaves out cases that did not run, where another part has them.
fn drop_open(parts: &mut [(String, Record)]) {
    let is_open = |line: &CaseLine| line.status == Status::NotRun;
    let lines = || parts.iter().flat_map(|(_, part)| &part.cases);
    let mut known: HashSet<String> = lines().filter(|line| !is_open(line)).map(|line| line.id.clone()).collect();
    for (_, part) in parts {
        part.cases.retain(|line| !is_open(line) || known.insert(line.id.clone()));
    }
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
        // Of a merged record that has imported ones: it cannot be resumed, either.
        imported: of.imported.take().or_else(|| of.merged.iter().find_map(|inner| inner.imported.clone())),
        cases,
        first_round,
        end: RunEnd::Ended,
    }
}

/// Figures of all parts, each once, and what is said of those that do not fit: figures that contradict each other, and those
/// that cases of another machine would be compared with.
fn expected(parts: &[(String, Record)]) -> (Vec<Expected>, Vec<String>) {
    let figures: Vec<(&String, &Record, &Expected)> = parts
        .iter()
        .flat_map(|(directory, record)| record.file.plan.expected.iter().map(move |figure| (directory, record, figure)))
        .collect();
    let (mut kept, mut notes): (Vec<Expected>, Vec<String>) = Default::default();
    for (at, (directory, record, figure)) in figures.iter().enumerate() {
        let contrary =
            figures.iter().position(|(other, _, contrary)| other != directory && contradicts(figure, contrary));
        if let Some(place) = contrary {
            // Said once, by the first of the two.
            if at < place {
                let (other, _, contrary) = figures[place];
                let values = format!("{} in {directory} and {} in {other}", figure.value, contrary.value);
                notes.push(format!("expected {} is left out: {values} contradict each other", subject(figure)));
            }
            continue;
        }
        let matches_in = |(_, part): &&(String, Record)| {
            let is_known = part.file.plan.expected.iter().any(|known| is_same(known, figure));
            !is_known
                && differ(&part.file.machine, &record.file.machine)
                && part.cases.iter().any(|case| figure.is_of(case))
        };
        if let Some((other, _)) = parts.iter().find(matches_in) {
            let of = format!("{directory} expects it, but cases of {other} come from another machine");
            notes.push(format!("expected {} is left out: {of}", subject(figure)));
        } else if !kept.iter().any(|known| is_same(known, figure)) {
            kept.push((*figure).clone());
        }
    }
    (kept, notes)
}

/// Leaves the labels that all parts have, and notes those that only some have.
fn keep_common_labels(file: &mut RunFile, parts: &[(String, Record)]) {
    let all = |has: &dyn Fn(&Labels) -> bool| parts.iter().all(|(_, part)| has(&part.file.labels));
    let Labels { name, mut tags, note } = std::mem::take(&mut file.labels);
    let name = name.filter(|name| all(&|labels: &Labels| labels.name.as_ref() == Some(name)));
    let note = note.filter(|note| all(&|labels: &Labels| labels.note.as_ref() == Some(note)));
    tags.retain(|tag| all(&|labels: &Labels| labels.tags.contains(tag)));
    for (directory, part) in parts {
        let Labels { name: own_name, tags: own_tags, note: own_note } = &part.file.labels;
        let names = own_name.iter().filter(|_| name.is_none()).map(|name| format!("name {name}"));
        let others = own_tags.iter().filter(|tag| !tags.contains(tag)).map(|tag| format!("tag {tag}"));
        let remarks = own_note.iter().filter(|_| note.is_none()).map(|note| format!("note {note}"));
        let labels: Vec<String> = names.chain(others).chain(remarks).collect();
        if !labels.is_empty() {
            file.plan.notes.push(format!("labels of {directory} alone: {}", labels.join(", ")));
        }
    }
    file.labels = Labels { name, tags, note };
}

/// Leaves the states of the machine where all parts have the same; else notes those that a part tells apart.
fn keep_common_states(file: &mut RunFile, parts: &[(String, Record)]) {
    let is_same = |of: &RunFile| of.states == file.states && of.unseen_states == file.unseen_states;
    if parts.iter().all(|(_, part)| is_same(&part.file)) {
        return;
    }
    (file.states, file.unseen_states) = (Vec::new(), Vec::new());
    for (directory, part) in parts {
        let names: Vec<&str> = part.file.states.iter().filter_map(|state| state.name.as_deref()).collect();
        if !names.is_empty() {
            let note = format!("the machine of {directory} was in several states: {}", names.join(", "));
            file.plan.notes.push(note);
        }
    }
}

/// Whether both are about the same, on the same basis.
fn is_alike(a: &Expected, b: &Expected) -> bool {
    (&a.benchmark, &a.parameters, &a.metric, a.basis) == (&b.benchmark, &b.parameters, &b.metric, b.basis)
}

fn is_same(a: &Expected, b: &Expected) -> bool {
    is_alike(a, b) && a.value == b.value
}

fn contradicts(a: &Expected, b: &Expected) -> bool {
    is_alike(a, b) && a.value != b.value
}

/// `busbw_gbs of collective (op all_reduce, ranks 8)`.
fn subject(figure: &Expected) -> String {
    let value = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let parts: Vec<String> = figure.parameters.iter().map(|(name, of)| format!("{name} {}", value(of))).collect();
    let of = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{} of {}{of}", figure.metric, figure.benchmark)
}

/// Whether both are known, and one is not the other.
fn differ(a: &Machine, b: &Machine) -> bool {
    let differ = |a: &str, b: &str| !a.is_empty() && !b.is_empty() && a != b;
    differ(&a.host, &b.host) || differ(&a.cpu_model, &b.cpu_model)
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
    for (directory, record) in parts {
        let machine = &record.file.machine;
        let devices: HashSet<&str> = record.cases.iter().map(|line| line.device.as_str()).collect();
        for device in devices {
            let (before, other) = *machines.entry(device).or_insert((directory, machine));
            if differ(other, machine) {
                let described = |machine: &Machine| format!("{} ({})", machine.host, machine.cpu_model);
                return Err(Error::new(format!("{before} and {directory} come from different machines"))
                    .cause(format!("device {device}: {} and {}", described(other), described(machine)))
                    .hint("a record covers one machine for each device; report them one by one"));
            }
        }
    }
    Ok(())
}

/// Verdicts of a comparison would be taken for those of all cases.
fn refuse_sides(parts: &[(String, Record)]) -> Result<(), Error> {
    let Some((directory, _)) = parts.iter().find(|(_, part)| part.file.interleaved.is_some()) else { return Ok(()) };
    Err(Error::new(format!("{directory} compares two sides and cannot be merged"))
        .cause("its verdicts come from pairs that were measured interleaved")
        .hint("leave it out: `rankmark report` shows it by itself"))
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
    use crate::{Case, MachineState, Plan, Tool};
    use serde_json::json;

    fn record(host: &str, cases: &[(&str, &str)], rounds: u32) -> Record {
        let case = |(id, device): &(&str, &str)| Case {
            id: (*id).to_owned(),
            ..Case::new("collective", std::iter::once(("device".to_owned(), json!(device))).collect())
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
        Record { file, cases: lines, end: RunEnd::Ended, damaged: Vec::new(), notes: Vec::new() }
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
        assert_eq!(all.cases[0].paired_trials(&all.cases[1]).0.len(), 0, "trials of two runs are not pairs");
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
    fn a_merged_record_is_one_part() {
        let mut imported = record("a", &[("2", "cpu")], 2);
        imported.file.imported = Some(crate::Imported::default());
        let first = merged(vec![record("a", &[("1", "cpu")], 3), imported]).unwrap();
        let all = merged(vec![first, record("a", &[("3", "cpu")], 1)]).unwrap();
        let parts = all.file.merged.iter().map(|part| (part.directory.as_str(), part.cases, part.first_round));
        assert_eq!(parts.collect::<Vec<_>>(), [("r0", 2, 0), ("r1", 1, 5)]);
        let rounds: Vec<&[u32]> = all.cases.iter().map(|line| line.trial_round.as_slice()).collect();
        assert_eq!(rounds, [&[0, 1, 2][..], &[3, 4], &[5]]);
        assert!(all.file.merged[0].imported.is_some() && all.file.merged[1].imported.is_none());
    }

    #[test]
    fn a_case_that_another_part_measured_is_not_open() {
        let (mut killed, done) =
            (record("a", &[("1", "cpu"), ("2", "cpu"), ("3", "cpu")], 1), record("a", &[("2", "cpu")], 1));
        for line in &mut killed.cases[1..] {
            *line = CaseLine { status: Status::NotRun, ..line.clone() };
        }
        killed.end = RunEnd::Killed;
        let all = merged(vec![killed, done]).unwrap();
        let statuses: Vec<(&str, Status)> = all.cases.iter().map(|line| (line.id.as_str(), line.status)).collect();
        assert_eq!(statuses, [("1", Status::Ok), ("3", Status::NotRun), ("2", Status::Ok)]);
        assert_eq!(all.file.plan.cases.len(), 3, "each case once");
        assert_eq!(all.file.plan.notes, ["r0 is incomplete: killed"]);
        assert_eq!(
            (all.end, all.file.merged[0].end, all.file.merged[1].end),
            (RunEnd::Part, RunEnd::Killed, RunEnd::Ended)
        );
    }

    #[test]
    fn a_part_that_lacks_nothing_here_does_not_make_the_whole_incomplete() {
        let (mut cut, rest) = (record("a", &[("1", "cpu"), ("2", "cpu")], 1), record("a", &[("2", "cpu")], 1));
        cut.cases[1].status = Status::NotRun;
        cut.end = RunEnd::Interrupted(crate::Interruption::Terminate);
        let all = merged(vec![cut, rest]).unwrap();
        assert_eq!((all.end, all.file.merged[0].end), (RunEnd::Ended, RunEnd::Ended));
        assert_eq!(all.file.plan.notes, ["r0 is incomplete: interrupted by SIGTERM"]);
    }

    fn figure(parameters: serde_json::Value, value: f64) -> Expected {
        Expected {
            benchmark: "collective".into(),
            parameters: parameters.as_object().cloned().unwrap_or_default(),
            metric: "busbw_gbs".into(),
            value,
            basis: crate::Basis::Measured,
            source: "issue 1".into(),
            with: None,
        }
    }

    #[test]
    fn figures_of_all_records_are_kept_and_what_contradicts_is_said() {
        let with = |host: &str, id: &str, device: &str, figures: &[Expected]| {
            let mut record = record(host, &[(id, device)], 1);
            record.file.plan.expected = figures.to_vec();
            record.file.plan.notes = vec![format!("note of {id}")];
            record
        };
        let (cpu, cuda) = (figure(json!({"device": "cpu"}), 10.0), figure(json!({"device": "cuda"}), 480.0));
        let all = merged(vec![
            with("a", "1", "cpu", std::slice::from_ref(&cpu)),
            with("b", "2", "cuda", &[cuda.clone(), cpu.clone()]),
        ]);
        let plan = all.unwrap().file.plan;
        assert_eq!(plan.expected, [cpu.clone(), cuda], "each once");
        assert_eq!(plan.notes, ["note of 1", "note of 2"]);
        // Of two values nobody knows which holds.
        let other = figure(json!({"device": "cpu"}), 11.0);
        let plan = merged(vec![with("a", "1", "cpu", &[cpu]), with("a", "2", "cpu", &[other])]).unwrap().file.plan;
        assert_eq!(plan.expected, []);
        let said =
            "expected busbw_gbs of collective (device cpu) is left out: 10 in r0 and 11 in r1 contradict each other";
        assert_eq!(plan.notes, [said, "note of 1", "note of 2"]);
        // A figure of one machine says nothing of another; of the same machine it does.
        let any = [figure(json!({}), 10.0)];
        for (host, kept) in [("b", 0), ("a", 1), ("", 1)] {
            let plan = merged(vec![with("a", "1", "cpu", &any), with(host, "2", "cuda", &[])]).unwrap().file.plan;
            assert_eq!(plan.expected.len(), kept, "{host}");
            let said = "expected busbw_gbs of collective is left out: r0 expects it, but cases of r1 come from another machine";
            assert_eq!(plan.notes.iter().any(|note| note == said), kept == 0, "{:?}", plan.notes);
        }
    }

    #[test]
    fn what_a_part_alone_says_is_not_said_of_the_whole() {
        let labelled = |id: &str, name: &str, tags: &[&str]| {
            let mut record = record("a", &[(id, "cpu")], 1);
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            record.file.labels = Labels { name: Some(name.to_owned()), tags, note: None };
            record
        };
        let state =
            |name: &str| MachineState { name: Some(name.to_owned()), share: 0.5, trials: 3, canaries: Vec::new() };
        let (mut monday, tuesday) = (labelled("1", "monday", &["night", "h100"]), labelled("2", "tuesday", &["h100"]));
        monday.file.states = vec![state("near cores"), state("far cores")];
        let file = merged(vec![monday.clone(), tuesday.clone()]).unwrap().file;
        assert_eq!(file.labels, Labels { tags: vec!["h100".to_owned()], ..Labels::default() });
        assert_eq!(file.states, []);
        let notes = [
            "labels of r0 alone: name monday, tag night",
            "labels of r1 alone: name tuesday",
            "the machine of r0 was in several states: near cores, far cores",
        ];
        assert_eq!(file.plan.notes, notes);
        // What all of them have is kept.
        let mut later = labelled("2", "monday", &["h100", "night"]);
        later.file.states.clone_from(&monday.file.states);
        let file = merged(vec![monday.clone(), later]).unwrap().file;
        assert_eq!((&file.labels, &file.states), (&monday.file.labels, &monday.file.states));
        assert!(file.plan.notes.is_empty(), "{:?}", file.plan.notes);
        // Verdicts of pairs are not those of other cases.
        monday.file.interleaved = Some(crate::Interleaved::default());
        assert!(merged(vec![tuesday, monday]).unwrap_err().contains("r1 compares two sides and cannot be merged"));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let why = merged(vec![record("a", &[("1", "cpu")], 1), record("a", &[("1", "cpu")], 1)]).unwrap_err();
        assert!(why.contains("case 1 is in r0 and in r1"), "{why}");
        let why = merged(vec![record("a", &[("1", "cpu")], 1), record("b", &[("2", "cpu")], 1)]).unwrap_err();
        assert!(why.contains("r0 and r1 come from different machines"), "{why}");
        assert!(merged(vec![record("a", &[("1", "cpu")], 1), record("", &[("2", "cpu")], 1)]).is_ok(), "not known");
        assert!(merged(vec![record("a", &[("1", "cpu")], 1)]).unwrap_err().contains("two records"));
    }
}
