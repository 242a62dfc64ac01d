//! A record as the report takes it.

use std::path::Path;

use record::Run;

use crate::Failure;
use crate::terminal::machine_line;

/// Reads a record, with the samples that its report shows over time.
pub(crate) fn read(directory: &Path) -> Result<(Run, report::Run), Failure> {
    let run = record::read_run(directory)?;
    let mut samples = record::read_samples(directory)?;
    let mut report = report::Run {
        title: run.file.experiment.clone(),
        started: run.file.started.clone(),
        machine: machine_line(&run.file.machine),
        cores: u32::try_from(run.file.machine.allowed_cpus.len()).ok(),
        command: run.file.command_line.join(" "),
        directory: directory.to_owned(),
        program: format!("{} {}", run.file.tool.name, run.file.tool.version),
        cases: run.cases.clone(),
        ..report::Run::default()
    };
    for line in &run.cases {
        let series: Vec<f64> = samples
            .of(&line.id)?
            .iter()
            .flat_map(|launch| {
                let count = launch.ns.iter().map(Vec::len).min().unwrap_or(0);
                let slowest = |i: usize| launch.ns.iter().map(|rank| rank[i]).max().unwrap_or(0) as f64;
                (0..count).map(|i| slowest(i) / 1e9 / launch.calls.max(1) as f64).collect::<Vec<_>>()
            })
            .collect();
        report.samples.insert(line.id.clone(), series);
    }
    Ok((run, report))
}
