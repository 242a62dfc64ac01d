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
    for directive in directives(job)? {
        text.push_str(&format!("#SBATCH --{directive}\n"));
    }
    // A job that Slurm starts again goes on with its record.
    let record =
        job.record.as_deref().map_or_else(|| format!("results/{}-\"$SLURM_JOB_ID\"", quoted(&job.experiment)), quoted);
    text.push_str(&format!("\nset -eu\nrecord={record}\n"));
    if !job.steps.is_empty() {
        text.push_str(&steps(job));
        for one in &job.steps {
            let places = format!("--ntasks={} --nodes={} ", one.ranks, one.nodes);
            let srun = srun(job, one.ranks, one.cores, &places)?;
            text.push_str(&step(job, one, |word| format!("{word} {srun}")));
        }
        text.push_str("exit \"$code\"\n");
        return Ok(text);
    }
    let fresh = run(&Job { record: None, ..job.clone() });
    let srun = srun(job, job.ranks, job.cores, "")?;
    Ok(text + &format!("exec {srun}{fresh} --resume=\"$record\"\n"))
}

/// Options of sbatch: each is one line, which no shell reads, so that their values are plain. Nodes are for this job alone, with
/// all of their memory: what other jobs do there would be measured, too.
fn directives(job: &Job) -> Result<Vec<String>, Error> {
    let mut lines = vec![
        format!("job-name={}", job.name()?),
        format!("nodes={}", job.nodes),
        format!("ntasks={}", job.ranks),
        format!("ntasks-per-node={}", job.per_node()),
        format!("cpus-per-task={}", job.cores),
    ];
    let gpus = gpus_of_node(job);
    if gpus > 0 {
        // Not for each task: ranks of a node exchange data directly only if each sees the GPUs of the others.
        lines.push(format!("gpus-per-node={gpus}"));
    }
    lines.extend(["exclusive", "mem=0", "requeue", "open-mode=append"].map(str::to_owned));
    if let Some(limit) = job.option(&TIME) {
        let hint = "as sbatch has it: 30 (minutes), 1:30:00, 2-12";
        time::seconds(limit).ok_or_else(|| Error::new(unfit(&TIME, limit)).hint(hint))?;
        lines.push(format!("time={limit}"));
    }
    for choice in [&PARTITION, &ACCOUNT] {
        lines.extend(job.plain(choice)?.map(|value| format!("{}={value}", choice.name)));
    }
    Ok(lines)
}

/// GPUs of each node: the most that a step needs there. A step without GPUs may have more ranks on a node than it has GPUs.
fn gpus_of_node(job: &Job) -> u32 {
    let of_steps = job.steps.iter().map(|step| step.gpus * step.ranks.div_ceil(step.nodes)).max();
    of_steps.map_or_else(|| job.gpus * job.per_node(), |most| most.max(job.gpus))
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
