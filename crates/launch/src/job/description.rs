//! What a launcher's file is written from: the job, its steps, and the options of targets.

use terms::Error;

/// An option of some targets.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// Name of the option, as in `--NAME`.
    pub name: &'static str,
    /// What its value is called in help.
    pub value: &'static str,
    /// A line of help.
    pub doc: &'static str,
}

pub(super) const JOB_NAME: Choice =
    Choice { name: "job-name", value: "NAME", doc: "name of the job (default: rankmark-EXPERIMENT)" };
pub(super) const TIME: Choice = Choice {
    name: "time",
    value: "LIMIT",
    doc: "time limit of the job: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]",
};
pub(super) const PER_NODE: Choice =
    Choice { name: "ranks-per-node", value: "N", doc: "ranks on each node (default: ranks / nodes)" };
pub(super) const NODES: Choice =
    Choice { name: "nodes", value: "N", doc: "nodes that the ranks are spread over (default: 1)" };
pub(super) const PARTITION: Choice = Choice { name: "partition", value: "NAME", doc: "Slurm's partition" };
pub(super) const ACCOUNT: Choice = Choice { name: "account", value: "NAME", doc: "the account that is charged" };
pub(super) const MPI: Choice = Choice {
    name: "mpi",
    value: "TYPE",
    doc: "srun's --mpi: pmix, pmi2, none ... (default: what the plan's MPI library wants)",
};
pub(super) const HOSTFILE: Choice =
    Choice { name: "hostfile", value: "FILE", doc: "the hosts that mpirun starts ranks on" };
pub(super) const ENDPOINT: Choice =
    Choice { name: "endpoint", value: "HOST:PORT", doc: "address of one node, where all nodes connect" };
pub(super) const IMAGE: Choice =
    Choice { name: "image", value: "IMAGE", doc: "the container image, with this program in it" };
pub(super) const NAMESPACE: Choice =
    Choice { name: "namespace", value: "NAME", doc: "the namespace (default: kubectl's)" };
pub(super) const SECRET: Choice =
    Choice { name: "secret", value: "NAME", doc: "the Secret that the pods share (default: JOB-NAME-secret)" };
pub(super) const NODE_GPUS: Choice =
    Choice { name: "gpus-per-node", value: "N", doc: "GPUs that each pod of `fleet` asks for (default: none)" };
pub(super) const RDMA: Choice = Choice {
    name: "rdma",
    value: "RESOURCE",
    doc: "the cluster's name for an RDMA device, of which each pod gets one: rdma/hca_shared_devices_a",
};
pub(super) const CLAIM: Choice = Choice {
    name: "claim",
    value: "NAME",
    doc: "the PersistentVolumeClaim for the record; without one, the record is lost with its pod",
};

/// A start of ranks, one after the other in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankStart {
    /// Ranks; 1: the program alone.
    pub ranks: u32,
    /// Hosts that they are spread over; divides `ranks`.
    pub nodes: u32,
    /// Cores of each rank.
    pub cores: usize,
    /// GPUs of each rank.
    pub gpus: u32,
    /// How often the launcher starts them: ranks that join by MPI can be in one world only.
    pub starts: u32,
}

/// What is to be started, where.
#[derive(Clone, Debug)]
pub struct Job {
    /// The plan's name: safe as a file's.
    pub experiment: String,
    /// This program: a path, or a name that the nodes find.
    pub program: String,
    /// Whether nodes are measured as a fleet, one pod on each, and no plan.
    pub is_fleet: bool,
    /// The plan's path on the nodes.
    pub plan: String,
    /// The plan's text.
    pub plan_text: String,
    /// Where the record goes; None: where the target's default is.
    pub record: Option<String>,
    /// A step for each number of ranks, all into one record. Empty: one step of `ranks`, for all that it can run.
    pub steps: Vec<RankStart>,
    /// Ranks, or with several steps those that there is room for; 1: one process, which starts all ranks itself.
    pub ranks: u32,
    /// Hosts that they are spread over, the most of a step; divides `ranks`.
    pub nodes: u32,
    /// Cores of each rank; of the one process where `ranks` is 1.
    pub cores: usize,
    /// GPUs of each rank; of the one process where `ranks` is 1.
    pub gpus: u32,
    /// Bytes of memory of each rank; of the one process where `ranks` is 1.
    pub memory: u64,
    /// When the file is written, as a name of a record begins.
    pub written: String,
    /// What `srun --mpi` should be for the plan's MPI library; None: nothing of MPI in it, or nothing is known.
    pub mpi: Option<&'static str>,
    /// What readers of the file should know, a line each.
    pub notes: Vec<String>,
    /// Options of the target, by name.
    pub options: Vec<(&'static str, String)>,
}

impl Job {
    pub(super) fn option(&self, choice: &Choice) -> Option<&str> {
        self.options.iter().find(|(name, _)| *name == choice.name).map(|(_, value)| value.as_str())
    }

    pub(super) fn per_node(&self) -> u32 {
        self.ranks / self.nodes
    }

    /// The job with the ranks of one step.
    pub(super) fn of_step(&self, step: &RankStart) -> Self {
        Self { ranks: step.ranks, nodes: step.nodes, cores: step.cores, gpus: step.gpus, ..self.clone() }
    }

    /// `rankmark-EXPERIMENT` in letters that every target takes, or the name that was given where it is such a name.
    pub(super) fn name(&self) -> Result<String, Error> {
        if let Some(given) = self.option(&JOB_NAME) {
            let fine = is_label(given) && given.len() <= LONGEST_NAME;
            let hint = "lower-case letters, digits and hyphens, beginning with a letter, at most 45";
            return if fine { Ok(given.to_owned()) } else { Err(Error::new(unfit(&JOB_NAME, given)).hint(hint)) };
        }
        let mut name = "rankmark-".to_owned();
        for letter in self.experiment.to_lowercase().chars() {
            let fitting = if letter.is_ascii_alphanumeric() { letter } else { '-' };
            if !(fitting == '-' && name.ends_with('-')) {
                name.push(fitting);
            }
        }
        name.truncate(LONGEST_NAME);
        Ok(name.trim_end_matches('-').to_owned())
    }

    /// An option with a value outside quotes: letters of names, paths and numbers only.
    pub(super) fn plain(&self, choice: &Choice) -> Result<Option<&str>, Error> {
        let Some(value) = self.option(choice) else { return Ok(None) };
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-,:/@+".contains(letter);
        if value.is_empty() || value.starts_with('-') || !value.chars().all(fits) {
            return Err(Error::new(unfit(choice, value)).hint("letters, digits and . _ - , : / @ +"));
        }
        Ok(Some(value))
    }
}

/// Kubernetes takes 63 letters. Names of pods append most to that of a TrainJob: `-node-0-INDEX-` and five letters.
pub(super) const LONGEST_NAME: usize = 45;

/// Whether it is a label of RFC 1035: what Kubernetes takes as the name of a Service.
pub(super) fn is_label(text: &str) -> bool {
    let inner = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    text.starts_with(|letter: char| letter.is_ascii_lowercase()) && !text.ends_with('-') && text.chars().all(inner)
}

pub(super) fn unfit(choice: &Choice, value: &str) -> String {
    format!("`--{}` does not take `{}`", choice.name, value.escape_debug())
}
