//! A shell script that starts ranks by torchrun, the same on every node.

use terms::Error;

use super::description::{ENDPOINT, Job};
use super::shell::{comments, quoted, record, run, step, steps};

pub(super) fn text(job: &Job) -> Result<String, Error> {
    let mut text = "#!/bin/sh\n\
        # Start with `sh FILE [OPTIONS OF torchrun]`, on every node; made by `rankmark gen-job --for torchrun`.\n\
        # TORCHRUN names another torchrun than the one on the path.\n\
        # torchrun ends with 1 whenever the run ends with another code than 0; the record and the output tell which.\n"
        .to_owned();
    text.push_str(&comments(&job.notes));
    text.push_str("\nset -eu\n");
    if job.ranks == 1 && job.steps.is_empty() {
        text.push_str(&format!("exec {}\n", run(job)));
        return Ok(text);
    }
    let meeting = match job.plain(&ENDPOINT)? {
        Some(endpoint) => format!(
            "--nnodes {} --rdzv-backend c10d --rdzv-endpoint {endpoint} --rdzv-id {}",
            job.nodes,
            quoted(&job.name()?)
        ),
        None if job.nodes > 1 => {
            let hint = "--endpoint HOST:PORT of one of them; or --nodes 1";
            return Err(Error::new(format!("torchrun needs an address where {} nodes connect", job.nodes)).hint(hint));
        }
        None => "--standalone".to_owned(),
    };
    let launcher =
        |each: u32| format!("\"${{TORCHRUN:-torchrun}}\" --no-python {meeting} --nproc-per-node {each} \"$@\" ");
    if job.steps.is_empty() {
        text.push_str(&format!("exec {}{}\n", launcher(job.per_node()), run(job)));
        return Ok(text);
    }
    text.push_str(&format!("{}{}", name_record(job), steps(job)));
    for one in &job.steps {
        let launcher = if one.ranks == 1 { String::new() } else { launcher(one.ranks / one.nodes) };
        text.push_str(&step(job, one, |word| format!("{word} {launcher}")));
    }
    Ok(text + "exit \"$code\"\n")
}

/// The record of all nodes. Each of them runs the script, at a time of its own, so none of them names the record by its clock.
fn name_record(job: &Job) -> String {
    if job.nodes == 1 || job.record.is_some() {
        return format!("record={}\n", record(job));
    }
    format!(
        "# The same on all nodes. RANKMARK_JOB, if all nodes have the same, begins another record.\n\
         record=results/{}-\"${{RANKMARK_JOB:-{}}}\"\n",
        quoted(&job.experiment),
        job.written
    )
}
