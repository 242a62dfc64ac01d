//! What a report is made from: the facts of a run and its case lines, as the record has them.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use record::store::SAMPLES_FILE;
use record::{
    BackendState, CaseLine, CaseSamples, DamagedLine, Declared, EXPLAINED_FILE, Expected, Explained, JobCalls, Labels,
    Machine, Overhead, PREDICTIONS_FILE, Placement, RunEnd,
};
use terms::Bytes;
use view::Views;

use crate::error::unread;
use crate::words::caveats::Wording;
use crate::{Error, escape, words::drift, words::labels};

/// A run, read from its record.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The run's identity, which lines of its samples name; empty in records of earlier versions.
    pub id: String,
    /// Whether it came to its end.
    pub end: RunEnd,
    /// The run's name, else its experiment's.
    pub title: String,
    /// What the user calls it.
    pub labels: Labels,
    /// When it started, as text.
    pub started: String,
    /// The machine in a line, see [`machine_line`].
    pub machine: String,
    /// Cores that ranks could use, when known.
    pub cores: Option<u32>,
    /// Bytes of its last-level caches together, when known.
    pub cache_bytes: Option<u64>,
    /// Caches of the machine, when known.
    pub caches: Vec<record::Cache>,
    /// The exact command line, with its launcher's, as a shell reads it.
    pub command: String,
    /// The launcher's part of it; empty without one.
    pub launcher: String,
    /// Environment variables that the record kept.
    pub environment: BTreeMap<String, String>,
    /// Versions of what took part, by name.
    pub versions: BTreeMap<String, String>,
    /// The record's directory, for `--resume`.
    pub directory: PathBuf,
    /// What wrote the record ("rankmark 0.1.0").
    pub program: String,
    /// The backends that its cases ask for, as they were found.
    pub backends: Vec<BackendState>,
    /// Who started the ranks, where this program did not.
    pub started_by: Option<String>,
    /// What measuring itself costs, when it was measured.
    pub overhead: Option<Overhead>,
    /// States of the machine that it saw.
    pub states: Vec<record::MachineState>,
    /// States that earlier runs saw on its machine, and it did not.
    pub unseen_states: Vec<record::MachineState>,
    /// What a reader of the record should know of its state.
    pub notes: Vec<String>,
    /// What a reader should know of its plan: what another tool's configuration became, and what was left out of it.
    pub plan_notes: Vec<String>,
    /// Lines of the record that are damaged, and so left out.
    pub damaged: Vec<DamagedLine>,
    /// The profiles of machines that cases are compared with, a line each.
    pub profiles: Vec<String>,
    /// What other programs measured, where the record, or a part of it, was imported.
    pub imported: Vec<record::Imported>,
    /// The records that it is made of, where it was merged: directory, when, machine, number of cases.
    pub merged: Vec<String>,
    /// Where ranks ran, one entry a kind of world.
    pub placement: Vec<Placement>,
    /// The machines that held ranks, where there were several.
    pub hosts: Vec<Machine>,
    /// Two sides that were measured interleaved, and how they compare.
    pub interleaved: Option<record::Interleaved>,
    /// Figures that the plan expects of the hardware.
    pub expected: Vec<Expected>,
    /// What a traced job had of its cases, by case id.
    pub in_job: BTreeMap<String, JobCalls>,
    /// How caveats of its cases are said.
    pub wording: Wording,
    /// Case lines of the run, in the order of the plan.
    pub cases: Vec<CaseLine>,
    /// What the benchmarks of its cases declare, as the record has it.
    pub benchmarks: Vec<Declared>,
    /// What benchmarks that this program knows add to their declarations.
    pub views: Views,
    /// Seconds of one call in each sample, in order of time (each the maximum over ranks), by case id; of long cases
    /// only, since nothing else of a report needs samples.
    pub samples: BTreeMap<String, Vec<f64>>,
    /// What traces of its cases showed, where the record says so.
    pub explained: Option<Explained>,
    /// What was predicted of its cases before they were measured.
    pub predictions: Option<record::Predictions>,
    /// What an hour costs, where the reader says so.
    pub price: Option<crate::Price>,
}

impl Run {
    /// Reads the record in a directory.
    ///
    /// # Errors
    /// When there is no record, or it cannot be read.
    pub fn read(directory: &Path, views: Views) -> Result<Self, Error> {
        let mut run = Self { views, ..Self::from_record(record::read_results(directory).map_err(unread)?, directory) };
        match record::read_explained(directory) {
            Ok(explained) => run.explained = explained,
            // It adds to the results and is none of them: a report does without it.
            Err(error) => run.notes.push(format!("{EXPLAINED_FILE} is left out: {}", why(error.into()))),
        }
        match record::read_predictions(directory, run.labels.note.as_deref()) {
            Ok(predictions) => run.predictions = predictions,
            Err(error) => run.notes.push(format!("{PREDICTIONS_FILE} is left out: {}", why(error.into()))),
        }
        let long: Vec<String> =
            run.cases.iter().filter(|case| drift::is_long(case)).map(|case| case.id.clone()).collect();
        // Not `exists`, which says no of a link that leads nowhere.
        if directory.join(SAMPLES_FILE).symlink_metadata().is_err() {
            if !long.is_empty() {
                run.notes.push(format!("{SAMPLES_FILE} is missing: drift cannot be shown"));
            }
            return Ok(run);
        }
        // Read also where no case needs it: what is damaged is to be known.
        let mut lines = {
            let wanted: HashSet<&str> = long.iter().map(String::as_str).collect();
            record::read_samples_of(directory, &run.id, |id| wanted.contains(id)).map_err(unread)?
        };
        run.notes.append(&mut lines.notes);
        run.damaged.append(&mut lines.damaged);
        for id in long {
            let trials = lines.of_case(&id).map_err(unread)?;
            run.samples.insert(id, trials.iter().flat_map(call_times).collect());
        }
        Ok(run)
    }

    /// A run from a record that was read already, without samples.
    pub fn from_record(record: record::Record, directory: &Path) -> Self {
        let record::Record { file, cases, end, damaged, notes } = record;
        let cores = match file.machine.allowed_cpus.len() {
            0 => file.machine.cores,
            allowed => u32::try_from(allowed).ok(),
        };
        let cache_bytes = file.machine.last_level_bytes();
        let line = |words: &[String]| words.iter().map(|word| escape::shell(word)).collect::<Vec<_>>().join(" ");
        let profiles = profile_lines(&file);
        let (machine, merged) = (machines(&file), file.merged.iter().map(merged_line).collect());
        let of_parts = file.merged.into_iter().filter_map(|part| part.imported);
        let imported = file.imported.into_iter().chain(of_parts).collect();
        let (launcher, own) = (line(&file.launcher), line(&file.command_line));
        Self {
            id: file.id,
            end,
            title: labels::title(&file.labels, file.experiment),
            labels: file.labels,
            started: to_the_second(&file.started),
            machine,
            cores,
            cache_bytes,
            caches: file.machine.caches.clone(),
            command: if launcher.is_empty() || own.is_empty() { own } else { format!("{launcher} {own}") },
            launcher,
            environment: file.environment,
            versions: file.versions,
            directory: directory.to_owned(),
            program: format!("{} {}", file.tool.name, file.tool.version),
            backends: file.backends,
            started_by: file.started_by,
            overhead: file.overhead,
            states: file.states,
            unseen_states: file.unseen_states,
            notes,
            plan_notes: file.plan.notes,
            damaged,
            profiles,
            imported,
            merged,
            placement: file.placement,
            hosts: file.hosts,
            interleaved: file.interleaved,
            expected: file.plan.expected,
            in_job: file.plan.cases.iter().filter_map(|case| Some((case.id.clone(), case.in_job()?))).collect(),
            wording: Wording::of_cases(&file.plan.cases),
            cases,
            benchmarks: file.benchmarks,
            views: Views::NONE,
            samples: BTreeMap::new(),
            explained: None,
            predictions: None,
            price: None,
        }
    }
}

/// The cause of an error, without its path; else what it says.
fn why(error: Error) -> String {
    error.cause.unwrap_or(error.what)
}

/// An RFC 3339 time without the fraction of its second, which nobody reads.
fn to_the_second(time: &str) -> String {
    match time.split_once('.') {
        Some((whole, fraction)) => format!("{whole}{}", fraction.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => time.to_owned(),
    }
}

/// Seconds of one call in each sample of a trial: the maximum over ranks, over the calls of a sample.
pub(crate) fn call_times(trial: &CaseSamples) -> Vec<f64> {
    let number = trial.ns.iter().map(Vec::len).min().unwrap_or(0);
    let slowest = |sample: usize| trial.ns.iter().map(|rank| rank[sample]).max().unwrap_or(0);
    (0..number).map(|sample| slowest(sample) as f64 / trial.calls.max(1) as f64 / 1e9).collect()
}

/// The profiles that a run's cases are compared with, each in a line: where it is, when it was measured, and on which machine.
pub fn profile_lines(file: &record::RunFile) -> Vec<String> {
    let line = |profile: &record::Profile| {
        let machine = if profile.is_of(&file.machine) {
            "this machine".to_owned()
        } else {
            format!("ANOTHER MACHINE: {}, {}", profile.machine.host, machine_line(&profile.machine))
        };
        let incomplete = profile.incomplete.as_ref().map_or_else(String::new, |banner| format!("; {banner}"));
        format!("{}, measured {} on {machine}{incomplete}", profile.path, to_the_second(&profile.started))
    };
    file.profiles.iter().map(line).collect()
}

/// `results/a: 12 cases, 2026-11-20T11:23:59Z, 2 cores EPYC`.
fn merged_line(part: &record::Part) -> String {
    let machine = machine_line(&part.machine);
    let on = if machine.is_empty() { String::new() } else { format!(", {machine}") };
    let cases = crate::number::count(part.cases, "case", "cases");
    format!("{}: {cases}, {}{on}", part.directory, to_the_second(&part.started))
}

/// The machine in a line; those of a merged record, each once.
fn machines(file: &record::RunFile) -> String {
    let own = [&file.machine];
    let all = file.merged.iter().map(|part| &part.machine);
    let mut lines: Vec<String> = Vec::new();
    for machine in own.into_iter().filter(|_| file.merged.is_empty()).chain(all) {
        let line = machine_line(machine);
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join("; ")
}

/// `8 x NVIDIA H100 80GB HBM3`; different models one after the other.
fn gpus(models: &[String]) -> String {
    let alike = models.chunk_by(|a, b| a == b);
    alike.map(|models| format!("{} x {}", models.len(), models[0])).collect::<Vec<_>>().join(", ")
}

/// A machine in a line: what limits a measurement there. What is not known is left out.
pub fn machine_line(machine: &Machine) -> String {
    let number = match machine.allowed_cpus.len() {
        0 => machine.threads.or(machine.cores),
        allowed => u32::try_from(allowed).ok(),
    };
    let vector = [("avx512f", "AVX-512"), ("avx2", "AVX2")]
        .into_iter()
        .find(|(flag, _)| machine.isa.iter().any(|has| has == flag))
        .map(|(_, name)| format!("({name})"));
    let cores = number.map(|number| crate::number::count(number as usize, "core", "cores"));
    let processor: Vec<String> = cores
        .into_iter()
        .chain([machine.processor().to_owned()])
        .chain(vector)
        .filter(|part| !part.is_empty())
        .collect();
    let memory = machine.memory_limit_bytes.or(machine.memory_bytes).map(|bytes| Bytes(bytes).about());
    let place = match (&machine.wsl, &machine.container, &machine.hypervisor) {
        (Some(version), _, _) => format!(" under WSL {version}"),
        (_, Some(container), _) => format!(" in a container ({container})"),
        (_, _, Some(hypervisor)) => format!(" in a virtual machine ({hypervisor})"),
        _ => String::new(),
    };
    let kernel = if machine.kernel.is_empty() { String::new() } else { format!("Linux {}{place}", machine.kernel) };
    let mut gpus = gpus(&machine.gpus);
    if let Some(driver) = machine.gpu_driver.as_ref().filter(|_| !gpus.is_empty()) {
        gpus += &format!(" (driver {driver})");
    }
    let parts = [processor.join(" "), memory.unwrap_or_default(), gpus, kernel];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_its_slowest_rank_over_its_calls() {
        let ns = vec![vec![2_000, 9_000], vec![4_000, 3_000]];
        let trial = CaseSamples { calls: 2, ns, ..CaseSamples::default() };
        assert_eq!(call_times(&trial), [2e-6, 4.5e-6]);
    }

    #[test]
    fn times_end_with_the_second() {
        assert_eq!(to_the_second("2026-11-20T11:23:59.009344976Z"), "2026-11-20T11:23:59Z");
        assert_eq!(to_the_second("2026-11-20T11:23:59+01:00"), "2026-11-20T11:23:59+01:00");
    }

    #[test]
    fn a_machine_says_what_is_known() {
        assert_eq!(machine_line(&Machine::default()), "");
        let machine = Machine {
            allowed_cpus: vec![0, 1],
            cpu_model: "EPYC".into(),
            isa: vec!["avx2".into(), "avx512f".into()],
            memory_bytes: Some(24 << 30),
            kernel: "6.18".into(),
            hypervisor: Some("KVM".into()),
            ..Machine::default()
        };
        let line = "2 cores EPYC (AVX-512), 24.0 GiB, Linux 6.18 in a virtual machine (KVM)";
        assert_eq!(machine_line(&machine), line);
        let gpus = ["H100", "H100", "L4"].map(str::to_owned).to_vec();
        let line = line.replace("GiB, ", "GiB, 2 x H100, 1 x L4, ");
        let machine = Machine { gpus, ..machine };
        assert_eq!(machine_line(&machine), line);
        let line = line.replace("L4,", "L4 (driver 580.159.03),");
        assert_eq!(machine_line(&Machine { gpu_driver: Some("580.159.03".to_owned()), ..machine }), line);
    }
}
