//! `rankmark gen-job --for kubernetes fleet`: a job that judges nodes, and needs neither a plan nor a shared folder.

use launch::job::{Job, Target};
use terms::Error;

use super::Options;

/// The word in place of a plan.
pub const FLEET: &str = "fleet";
/// The launcher whose file differs from a line that is typed.
const TARGET: &str = "kubernetes";

/// The job that judges so many nodes.
///
/// # Errors
/// A launcher that needs no file for it, and what does not fit.
pub fn job(
    target: &Target,
    nodes: Option<u32>,
    program: impl FnOnce() -> Result<String, Error>,
    record: Option<String>,
    options: Options,
) -> Result<Job, Error> {
    if target.name != TARGET {
        let failure = Error::new(format!("`gen-job fleet` is for {TARGET}, not {}", target.name));
        return Err(failure.hint("other launchers need no job file: srun -N 8 --ntasks-per-node=1 rankmark fleet"));
    }
    let Some(nodes) = nodes.filter(|ranks| *ranks > 1) else {
        let failure = Error::new("how many nodes does the fleet have?");
        return Err(failure.hint(format!("rankmark gen-job --for {TARGET} --ranks 8 --image IMAGE fleet")));
    };
    let gpus = options.iter().find(|(name, _)| *name == "gpus-per-node").map(|(_, text)| text.parse::<u32>());
    let gpus = gpus.transpose().map_err(|_| Error::new("`--gpus-per-node` must be a whole number").hint("8"))?;
    Ok(Job {
        experiment: FLEET.to_owned(),
        program: program()?,
        is_fleet: true,
        plan: String::new(),
        plan_text: String::new(),
        record,
        steps: Vec::new(),
        ranks: nodes,
        nodes,
        cores: 0,
        gpus: gpus.unwrap_or(0),
        memory: 0,
        written: String::new(),
        mpi: None,
        notes: vec![
            format!("{nodes} pods, each on a node of its own, without a limit on cores: the nodes should be idle"),
            "the record names pods instead of nodes; `kubectl get pods --output wide` shows the node of each"
                .to_owned(),
        ],
        options,
    })
}
