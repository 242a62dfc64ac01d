//! `rankmark gen-job --for kubernetes fleet`: a job that judges nodes, and needs neither a plan nor a shared folder.

use std::path::Path;

use launch::job::{Job, Target};

use super::{GenJob, deliver, program};
use crate::Failure;
use crate::commands::Ended;

/// The word in place of a plan.
const WORD: &str = "fleet";
/// The launcher whose file differs from a line that is typed.
const TARGET: &str = "kubernetes";

/// Whether the nodes are to be judged: no plan has that name. A folder may have it, which an earlier fleet left.
pub(super) fn is_asked(plan: &Path) -> bool {
    plan == Path::new(WORD) && !plan.is_file()
}

/// Writes the job.
///
/// # Errors
/// A launcher that needs no file for it, and what does not fit.
pub(super) fn generate(given: &GenJob, target: &Target, options: Vec<(&'static str, String)>) -> Ended {
    if target.name != TARGET {
        let failure = Failure::new(format!("`gen-job fleet` is for {TARGET}, not {}", target.name));
        return Err(
            failure.hint("under other launchers one line does it: srun -N 8 --ntasks-per-node=1 rankmark fleet")
        );
    }
    let Some(nodes) = given.ranks.filter(|ranks| *ranks > 1) else {
        let failure = Failure::new("how many nodes does the fleet have?");
        return Err(failure.hint(format!("rankmark gen-job --for {TARGET} --ranks 8 --image IMAGE fleet")));
    };
    let gpus = options.iter().find(|(name, _)| *name == "gpus-per-node").map(|(_, text)| text.parse::<u32>());
    let gpus = gpus.transpose().map_err(|_| Failure::new("`--gpus-per-node` takes a whole number").hint("8"))?;
    let job = Job {
        experiment: WORD.to_owned(),
        program: program(given.program.as_deref(), target)?,
        is_fleet: true,
        plan: String::new(),
        plan_text: String::new(),
        record: given.output_dir.clone(),
        steps: Vec::new(),
        ranks: nodes,
        nodes,
        cores: 0,
        gpus: gpus.unwrap_or(0),
        memory: 0,
        written: String::new(),
        mpi: None,
        notes: vec![
            format!("{nodes} pods, each on a node of its own, without a bound on cores: the nodes should be idle"),
            "the nodes' names in the record are those of pods; `kubectl get pods --output wide` has the nodes"
                .to_owned(),
        ],
        options,
    };
    let text = target.text(&job)?;
    deliver(given, target, &job, None, &text)
}
