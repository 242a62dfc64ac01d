//! Which rank a process is that another program started: that program says so in the environment, and nowhere else. One
//! table of such programs, whether we started them (`mpi`) or they started us (`external`).

use crate::Variables;

/// Who says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// Open MPI's mpirun.
    OpenMpi,
    /// Hydra and what else speaks PMI: mpiexec of MPICH, Intel MPI, MVAPICH.
    Pmi,
    /// SLURM's srun.
    Slurm,
    /// PyTorch's torchrun.
    Torchrun,
    /// A pod of an indexed Job of Kubernetes.
    Kubernetes,
}

/// What Kubernetes itself says to a pod of an indexed Job: which one it is. It never says of how many.
pub(crate) const JOB_COMPLETION_INDEX: &str = "JOB_COMPLETION_INDEX";
/// What the Job must say besides, as `gen-job` writes it: ranks of the Job, ranks in this pod, where the coordinator is
/// (`HOST:PORT`, the first pod's name in the headless Service), and the file in which the shared Secret is mounted.
pub(crate) const WORLD_SIZE: &str = "RANKMARK_WORLD_SIZE";
pub(crate) const LOCAL_WORLD_SIZE: &str = "RANKMARK_LOCAL_WORLD_SIZE";
pub(crate) const COORDINATOR: &str = "RANKMARK_COORDINATOR";
pub(crate) const SECRET_FILE: &str = "RANKMARK_SECRET_FILE";

/// What one kind of launcher says in the environment of the processes that it starts.
pub(crate) struct Adapter {
    pub(crate) seat: Seat,
    /// In the argument of a rank.
    name: &'static str,
    /// In messages.
    pub(crate) title: &'static str,
    pub(crate) rank: &'static str,
    pub(crate) size: &'static str,
    /// What must be set besides: other programs use the same names for rank and size.
    pub(crate) also: &'static [&'static str],
    /// Processes on this host, where it says that.
    pub(crate) local_size: &'static str,
    /// This process among those on this host; empty if each host has one.
    pub(crate) local_rank: &'static str,
    /// As [`comm::StartedBy::process_manager`].
    pub(crate) process_manager: bool,
    /// Variables that together name the job, the same in all its processes; those that are not set are left out. Where
    /// none is set, the process of the launcher names it.
    pub(crate) job: &'static [&'static str],
}

/// The first adapter that finds its variables counts. Inside SLURM an mpirun starts its helpers through srun, so its
/// ranks have the variables of both.
pub(crate) static ADAPTERS: [Adapter; 5] = [
    Adapter {
        seat: Seat::OpenMpi,
        name: "ompi",
        title: "Open MPI's mpirun",
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        also: &[],
        local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        process_manager: true,
        job: &[
            "PMIX_NAMESPACE",
            "OMPI_MCA_ess_base_jobid",
            "OMPI_MCA_orte_precondition_transports",
            "PMIX_SERVER_TMPDIR",
        ],
    },
    Adapter {
        seat: Seat::Pmi,
        name: "pmi",
        title: "a launcher that speaks PMI",
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        also: &[],
        local_size: "MPI_LOCALNRANKS",
        local_rank: "MPI_LOCALRANKID",
        process_manager: true,
        // HPE's PALS says the first, and `srun --mpi=pmi2` the others. Hydra says none, but within a job of Slurm it
        // starts its proxies as a step.
        job: &["PALS_APID", "PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
    Adapter {
        seat: Seat::Slurm,
        name: "slurm",
        title: "srun",
        rank: "SLURM_PROCID",
        // Not SLURM_NTASKS: a batch script has that and SLURM_PROCID, too, and is one process.
        size: "SLURM_STEP_NUM_TASKS",
        also: &["SLURM_STEP_ID"],
        local_size: "SLURM_STEP_TASKS_PER_NODE",
        local_rank: "SLURM_LOCALID",
        process_manager: true,
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
    Adapter {
        seat: Seat::Torchrun,
        name: "torchrun",
        title: "torchrun",
        rank: "RANK",
        size: "WORLD_SIZE",
        // A PyTorchJob's pod has all but the last, and is not a worker of torchrun.
        also: &["MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"],
        local_size: "LOCAL_WORLD_SIZE",
        local_rank: "LOCAL_RANK",
        process_manager: false,
        job: &["MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"],
    },
    // Last: whatever a pod starts ranks with says more than the pod.
    Adapter {
        seat: Seat::Kubernetes,
        name: "kubernetes",
        title: "a Kubernetes Job",
        rank: JOB_COMPLETION_INDEX,
        size: WORLD_SIZE,
        // Pods are hosts to each other even on one node, and Kubernetes does not say how many share one.
        also: &[LOCAL_WORLD_SIZE, COORDINATOR],
        local_size: LOCAL_WORLD_SIZE,
        local_rank: "",
        process_manager: false,
        job: &[],
    },
];

impl Seat {
    pub(crate) fn adapter(self) -> &'static Adapter {
        let found = ADAPTERS.iter().find(|adapter| adapter.seat == self);
        found.unwrap_or_else(|| unreachable!("every seat has its line in the table; a test walks it"))
    }

    pub(crate) fn name(self) -> &'static str {
        self.adapter().name
    }

    /// The launcher that tells ranks their number in this variable.
    pub(crate) fn of_variable(name: &str) -> Option<Self> {
        ADAPTERS.iter().find(|adapter| adapter.rank == name).map(|adapter| adapter.seat)
    }

    pub(super) fn of_name(name: &str) -> Option<Self> {
        ADAPTERS.iter().find(|adapter| adapter.name == name).map(|adapter| adapter.seat)
    }

    /// This process's rank in a world of `size`, which are the first of those that the launcher started.
    ///
    /// # Errors
    /// When the launcher does not say it, or has started fewer.
    pub(super) fn rank(self, size: u32, variable: Variables<'_>) -> Result<u32, String> {
        let adapter = self.adapter();
        let rank = launcher_number(adapter.rank, variable)?;
        let started = launcher_number(adapter.size, variable)?;
        if started >= size { Ok(rank) } else { Err(format!("its launcher started {started} ranks, not {size}")) }
    }
}

/// The number that a launcher sets this variable to.
///
/// # Errors
/// When it sets none, or something else.
pub(crate) fn launcher_number(name: &str, variable: Variables<'_>) -> Result<u32, String> {
    let text = variable(name).ok_or_else(|| format!("its launcher sets no {name}"))?;
    text.parse::<u32>().map_err(|_| format!("its launcher sets {name} to `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_read_and_cross_checked() {
        let variables = |rank: &'static str, size: &'static str| {
            move |name: &str| match name {
                "PMI_RANK" => Some(rank.to_owned()),
                "PMI_SIZE" => Some(size.to_owned()),
                _ => None,
            }
        };
        assert_eq!(Seat::Pmi.rank(4, &variables("3", "4")), Ok(3));
        assert_eq!(Seat::Pmi.rank(4, &variables("0", "1")), Err("its launcher started 1 ranks, not 4".to_owned()));
        assert_eq!(Seat::Pmi.rank(4, &variables("x", "4")), Err("its launcher sets PMI_RANK to `x`".to_owned()));
        assert_eq!(
            Seat::OpenMpi.rank(4, &variables("3", "4")),
            Err("its launcher sets no OMPI_COMM_WORLD_RANK".to_owned())
        );
        for seat in [Seat::OpenMpi, Seat::Pmi, Seat::Slurm, Seat::Torchrun, Seat::Kubernetes] {
            assert_eq!(Seat::of_name(seat.name()), Some(seat));
        }
    }
}
