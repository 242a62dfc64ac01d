//! A shell script that starts ranks by torchrun, the same on every node.

use terms::Error;

use super::shell::{comments, quoted, run};
use super::{ENDPOINT, Job};

pub(super) fn text(job: &Job) -> Result<String, Error> {
    let mut text = "#!/bin/sh\n\
        # Start with `sh FILE [OPTIONS OF torchrun]`, on every node; made by `rankmark gen-job --for torchrun`.\n\
        # TORCHRUN names another torchrun than the one on the path.\n\
        # torchrun ends with 1 whenever the run ends with another code than 0; the record and the output tell which.\n"
        .to_owned();
    text.push_str(&comments(&job.notes));
    text.push_str("\nset -eu\n");
    if job.ranks == 1 {
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
    text.push_str(&format!(
        "exec \"${{TORCHRUN:-torchrun}}\" --no-python {meeting} --nproc-per-node {} \"$@\" {}\n",
        job.per_node(),
        run(job)
    ));
    Ok(text)
}
