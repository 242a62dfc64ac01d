//! A shell script that starts ranks by mpirun, whichever MPI it belongs to.

use terms::Error;

use super::description::{HOSTFILE, Job};
use super::shell::{comments, quoted, record, run, step, steps};

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
    if job.ranks == 1 && job.steps.is_empty() {
        text.push_str(&format!("exec {}\n", run(job)));
        return Ok(text);
    }
    let hosts = job.option(&HOSTFILE).map(quoted);
    let hosts = |option: &str| hosts.as_ref().map_or_else(String::new, |file| format!("{option} {file} "));
    // Steps say themselves how they are spread.
    let spread =
        |option: String| if job.nodes > 1 && job.steps.is_empty() { format!("{option} ") } else { String::new() };
    let open = format!("{}{}", hosts("--hostfile"), spread(format!("--map-by ppr:{}:node", job.per_node())));
    let hydra = format!("{}{}", hosts("-f"), spread(format!("-ppn {}", job.per_node())));
    text.push_str(&format!(
        "mpirun=${{MPIRUN:-mpirun}}\n\
         # Ranks are bound by the program itself, as the plan says.\n\
         case $(\"$mpirun\" --version 2>&1) in\n\
         *\"Open MPI\"* | *OpenRTE* | *PRRTE*)\n    \
             set -- --bind-to none {open}\"$@\"\n    \
             {}\
             ;;\n\
         *)\n    \
             export I_MPI_PIN=0 MV2_ENABLE_AFFINITY=0 MVP_ENABLE_AFFINITY=0\n    \
             set -- {hydra}\"$@\"\n    \
             {}\
             ;;\n\
         esac\n\
         {}",
        start(job, "--map-by \"ppr:$each:node\""),
        start(job, "-ppn \"$each\""),
        last(job)
    ));
    Ok(text)
}

/// Where steps are spread over nodes: the function that starts one, by this mpirun's own option.
fn start(job: &Job, spread: &str) -> String {
    if job.steps.is_empty() || job.nodes == 1 {
        return String::new();
    }
    format!(
        "start() {{ word=$1 ranks=$2 each=$3; shift 3; \"$word\" \"$mpirun\" -n \"$ranks\" {spread} \"$@\"; }}\n    "
    )
}

/// The one start, or the steps.
fn last(job: &Job) -> String {
    if job.steps.is_empty() {
        return format!("exec \"$mpirun\" -n {} \"$@\" {}\n", job.ranks, run(job));
    }
    let mut text = format!("record={}\n{}", record(job), steps(job));
    for one in &job.steps {
        let start = |word: &str| match (one.ranks, job.nodes) {
            (1, _) => format!("{word} "),
            (ranks, 1) => format!("{word} \"$mpirun\" -n {ranks} \"$@\" "),
            (ranks, _) => format!("start {word} {ranks} {} \"$@\" ", ranks / one.nodes),
        };
        text.push_str(&step(job, one, start));
    }
    text + "exit \"$code\"\n"
}
