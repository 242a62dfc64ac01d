//! A shell script that starts ranks by mpirun, whichever MPI it belongs to.

use terms::Error;

use super::shell::{comments, quoted, run};
use super::{HOSTFILE, Job};

pub(super) fn text(job: &Job) -> Result<String, Error> {
    if job.nodes > 1 && job.option(&HOSTFILE).is_none() {
        let hint = "--hostfile FILE, a host a line; or --nodes 1";
        return Err(Error::new(format!("mpirun needs the names of the {} hosts", job.nodes)).hint(hint));
    }
    let mut text = "#!/bin/sh\n\
        # Start with `sh FILE [OPTIONS OF mpirun]`; made by `rankmark gen-job --for mpirun`.\n\
        # MPIRUN names another mpirun than the one on the path.\n"
        .to_owned();
    text.push_str(&comments(&job.notes));
    text.push_str("\nset -eu\n");
    if job.ranks == 1 {
        text.push_str(&format!("exec {}\n", run(job)));
        return Ok(text);
    }
    let hosts = job.option(&HOSTFILE).map(quoted);
    let hosts = |option: &str| hosts.as_ref().map_or_else(String::new, |file| format!("{option} {file} "));
    let spread = |option: String| if job.nodes > 1 { format!("{option} ") } else { String::new() };
    let open = format!("{}{}", hosts("--hostfile"), spread(format!("--map-by ppr:{}:node", job.per_node())));
    let hydra = format!("{}{}", hosts("-f"), spread(format!("-ppn {}", job.per_node())));
    text.push_str(&format!(
        "mpirun=${{MPIRUN:-mpirun}}\n\
         # Ranks are bound by the program itself, as the plan says.\n\
         case $(\"$mpirun\" --version 2>&1) in\n\
         *\"Open MPI\"* | *OpenRTE* | *PRRTE*) set -- --bind-to none {open}\"$@\" ;;\n\
         *) export I_MPI_PIN=0 && set -- {hydra}\"$@\" ;;\n\
         esac\n\
         exec \"$mpirun\" -n {} \"$@\" {}\n",
        job.ranks,
        run(job)
    ));
    Ok(text)
}
