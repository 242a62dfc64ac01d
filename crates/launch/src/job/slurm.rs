//! A batch script for sbatch.

use terms::Error;

use super::description::{ACCOUNT, Job, MPI, PARTITION, TIME, unfit};
use super::shell::{comments, quoted, run, step, steps};
use super::time;

pub(super) fn text(job: &Job) -> Result<String, Error> {
    let mut text =
        "#!/bin/sh\n# Submit with `sbatch FILE [OPTIONS OF srun]`; made by `rankmark gen-job --for slurm`.\n"
            .to_owned();
    text.push_str(&comments(&job.notes));
    for (name, value) in directives(job)? {
        text.push_str(&format!("#SBATCH --{name}={value}\n"));
    }
    // A job that Slurm starts again goes on with its record.
    let record =
        job.record.as_deref().map_or_else(|| format!("results/{}-\"$SLURM_JOB_ID\"", quoted(&job.experiment)), quoted);
    if !job.steps.is_empty() {
        text.push_str(&format!("\nset -eu\nrecord={record}\n{}", steps(job)));
        for one in &job.steps {
            let places = format!("--ntasks={} --nodes={} ", one.ranks, one.nodes);
            let srun = srun(job, one.ranks, one.cores, &places)?;
            text.push_str(&step(job, one.ranks, &format!("step {srun}")));
        }
        text.push_str("exit \"$code\"\n");
        return Ok(text);
    }
    let fresh = run(&Job { record: None, ..job.clone() });
    let program = quoted(&job.program);
    let srun = srun(job, job.ranks, job.cores, "")?;
    text.push_str(&format!(
        "\nset -eu\nrecord={record}\n\
         if [ -e \"$record/run.json\" ]; then\n    exec {srun}{program} run --resume=\"$record\"\nfi\n\
         exec {srun}{fresh} --output-dir=\"$record\"\n"
    ));
    Ok(text)
}

/// Options of sbatch: each is one line, which no shell reads, so that their values are plain.
fn directives(job: &Job) -> Result<Vec<(&'static str, String)>, Error> {
    let mut lines = vec![
        ("job-name", job.name()?),
        ("nodes", job.nodes.to_string()),
        ("ntasks", job.ranks.to_string()),
        ("ntasks-per-node", job.per_node().to_string()),
        ("cpus-per-task", job.cores.to_string()),
    ];
    if let Some(limit) = job.option(&TIME) {
        let hint = "as sbatch has it: 30 (minutes), 1:30:00, 2-12";
        time::seconds(limit).ok_or_else(|| Error::new(unfit(&TIME, limit)).hint(hint))?;
        lines.push(("time", limit.to_owned()));
    }
    for choice in [&PARTITION, &ACCOUNT] {
        lines.extend(job.plain(choice)?.map(|value| (choice.name, value.to_owned())));
    }
    Ok(lines)
}

/// What stands before the program; nothing for one process, which starts its ranks itself.
fn srun(job: &Job, ranks: u32, cores: usize, places: &str) -> Result<String, Error> {
    if ranks == 1 {
        return Ok(String::new());
    }
    let mpi = job.plain(&MPI)?.or(job.mpi).map_or_else(String::new, |kind| format!("--mpi={kind} "));
    // srun does not take this over from sbatch by itself (since Slurm 22.05).
    Ok(format!("srun {places}--cpus-per-task={cores} {mpi}\"$@\" "))
}
