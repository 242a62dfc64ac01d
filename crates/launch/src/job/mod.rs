//! Files that have a launcher start this program: an sbatch script, objects for Kubernetes, shell scripts for mpirun and
//! torchrun.
//!
//! Texts only: nothing is started, read or written here, and nothing is known of plans but their path, name and text. One
//! table of targets; each declares its own options.

mod description;
mod kubernetes;
mod mpirun;
mod shell;
mod slurm;
mod time;
mod torchrun;

#[cfg(test)]
mod tests;

use comm::StartedBy;
use comm::mpi::Vendor;
use terms::Error;

use description::{
    ACCOUNT, CLAIM, ENDPOINT, HOSTFILE, IMAGE, JOB_NAME, MPI, NAMESPACE, NODE_GPUS, NODES, PARTITION, PER_NODE, RDMA,
    SECRET, TIME,
};
pub use description::{Choice, Job, RankStart};

/// A kind of launcher that files are written for.
pub struct Target {
    /// Name of the target, as in `--for NAME`.
    pub name: &'static str,
    /// What starts the ranks, in messages.
    pub launcher: &'static str,
    /// As [`comm::StartedBy::process_manager`].
    pub process_manager: bool,
    /// Options that only some targets have.
    pub options: &'static [&'static Choice],
    /// One rank a host: a node more means a rank more.
    pub rank_per_node: bool,
    /// Ranks are in containers, which have their own paths.
    pub in_containers: bool,
    /// The file is started on every node, so every step needs all of them.
    pub on_every_node: bool,
    /// Whether the file is a program.
    pub executable: bool,
    text: fn(&Job) -> Result<String, Error>,
}

/// Options of targets with several ranks in a pod.
const POD_OPTIONS: [&Choice; 9] = [&JOB_NAME, &NODES, &PER_NODE, &TIME, &IMAGE, &NAMESPACE, &SECRET, &CLAIM, &RDMA];

/// Several ranks in a pod, which torchrun starts.
const TORCH_PODS: Target = Target {
    name: "pytorchjob",
    launcher: "torchrun",
    process_manager: false,
    options: &POD_OPTIONS,
    rank_per_node: false,
    in_containers: true,
    on_every_node: false,
    executable: false,
    text: kubernetes::pytorch_job,
};

/// Every target, in the order of help.
pub static TARGETS: [Target; 7] = [
    Target {
        name: "slurm",
        launcher: "srun",
        process_manager: true,
        options: &[&JOB_NAME, &NODES, &PER_NODE, &TIME, &PARTITION, &ACCOUNT, &MPI],
        rank_per_node: false,
        in_containers: false,
        on_every_node: false,
        executable: true,
        text: slurm::text,
    },
    Target {
        name: "kubernetes",
        launcher: "a Kubernetes Job",
        process_manager: false,
        options: &[&JOB_NAME, &TIME, &IMAGE, &NAMESPACE, &SECRET, &CLAIM, &NODE_GPUS, &RDMA],
        rank_per_node: true,
        in_containers: true,
        on_every_node: false,
        executable: false,
        text: kubernetes::indexed_job,
    },
    Target { name: "mpijob", launcher: "mpirun", process_manager: true, text: kubernetes::mpi_job, ..TORCH_PODS },
    TORCH_PODS,
    Target { name: "trainjob", text: kubernetes::train_job, ..TORCH_PODS },
    Target {
        name: "mpirun",
        launcher: "mpirun",
        process_manager: true,
        options: &[&NODES, &PER_NODE, &HOSTFILE],
        rank_per_node: false,
        in_containers: false,
        on_every_node: false,
        executable: true,
        text: mpirun::text,
    },
    Target {
        name: "torchrun",
        launcher: "torchrun",
        process_manager: false,
        options: &[&JOB_NAME, &NODES, &PER_NODE, &ENDPOINT],
        rank_per_node: false,
        in_containers: false,
        on_every_node: true,
        executable: true,
        text: torchrun::text,
    },
];

/// The kind of process management that `srun --mpi` must offer to ranks of this MPI.
pub fn srun_mpi(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::OpenMpi => "pmix",
        Vendor::Mpich | Vendor::Intel | Vendor::Mvapich => "pmi2",
    }
}

impl Target {
    /// The file for this job.
    ///
    /// # Errors
    /// What is missing or cannot be.
    pub fn text(&self, job: &Job) -> Result<String, Error> {
        (self.text)(job)
    }

    /// The launcher of this target, as backends know it. Which variable has the rank, the file does not say.
    pub fn started_by(&self) -> StartedBy<'static> {
        StartedBy { launcher: self.launcher, rank_variable: "", process_manager: self.process_manager }
    }

    /// Whether it has this option.
    pub fn takes(&self, option: &str) -> bool {
        self.options.iter().any(|choice| choice.name == option)
    }
}
