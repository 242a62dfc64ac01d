//! What of the surroundings may be kept: an allow-list of environment variables, without anything that looks like a secret.

use std::collections::BTreeMap;

use crate::secrets::{masked, smells_like_secret};

/// Families of variables that change how communication or arithmetic runs.
const FAMILIES: [&str; 18] = [
    "NCCL_",
    "RCCL_",
    "UCX_",
    "UCC_",
    "GLOO_",
    "FI_",
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "OPENBLAS_",
    "OMPI_MCA_",
    "I_MPI_",
    "MPICH_",
    "MV2_",
    "MVP_",
    "CCL_",
    "RANKMARK_",
];

/// Single variables of that sort.
const SINGLE: [&str; 15] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "HIP_VISIBLE_DEVICES",
    "GLIBC_TUNABLES",
    "MALLOC_ARENA_MAX",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "SLURM_JOB_ID",
    "SLURM_JOB_PARTITION",
    "SLURM_NNODES",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_CPUS_PER_TASK",
];

/// What launchers tell the processes of one job within these families: its keys, addresses, folders and numbers. Nothing
/// of that holds for another job.
const OF_ONE_JOB: [&str; 13] = [
    "OMPI_MCA_orte_",
    "OMPI_MCA_prte_",
    "OMPI_MCA_ess",
    "OMPI_MCA_pmix",
    "OMPI_MCA_initial_wdir",
    "OMPI_MCA_mpi_oversubscribe",
    "OMPI_MCA_shmem_RUNTIME_QUERY_hint",
    "I_MPI_HYDRA_UUID",
    "I_MPI_JOB_",
    "I_MPI_MPIRUN",
    "MPICH_INTERFACE_HOSTNAME",
    "NCCL_COMM_ID",
    // Set by `cargo run`.
    "RANKMARK_BUILD_",
];

/// Variables by which a launcher or a batch system describes the job: worth keeping, and wrong for any other job.
const DESCRIBES_A_JOB: [&str; 7] = [
    "SLURM_",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "RANKMARK_WORLD_SIZE",
    "RANKMARK_LOCAL_WORLD_SIZE",
    "RANKMARK_JOB",
    "RANKMARK_COORDINATOR",
];

/// The variables that a record may keep: those of the allow-list that are not a job's own and have a name that does not
/// look like a secret. Secrets within values are masked.
pub fn environment(variables: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let begins = |name: &str, with: &[&str]| with.iter().any(|word| name.starts_with(word));
    let allowed = |name: &str| SINGLE.contains(&name) || begins(name, &FAMILIES);
    let kept = |name: &str| allowed(name) && !begins(name, &OF_ONE_JOB) && !smells_like_secret(name);
    variables.into_iter().filter(|(name, _)| kept(name)).map(|(name, value)| (name, masked(&value))).collect()
}

/// Whether a variable of a record's environment belongs to the job that it was taken in: a command that repeats the run
/// must not set it.
pub fn is_of_its_job(name: &str) -> bool {
    DESCRIBES_A_JOB.iter().chain(&OF_ONE_JOB).any(|word| name.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_allow_list_is_kept_and_no_secret() {
        let given = [
            ("NCCL_DEBUG", true),
            ("NCCL_API_TOKEN", false),
            ("UCX_TLS", true),
            ("UCX_IB_PKEY", true),
            ("OMPI_MCA_btl", true),
            ("OMPI_MCA_btl_tcp_if_include", true),
            ("OMPI_MCA_mpi_show_handle_leaks", true),
            ("OMPI_MCA_pml", true),
            ("OMPI_MCA_orte_precondition_transports", false),
            ("OMPI_MCA_prte_precondition_transports", false),
            ("OMPI_MCA_opal_precondition_transports", false),
            ("OMPI_MCA_orte_hnp_uri", false),
            ("OMPI_MCA_ess_base_jobid", false),
            ("OMPI_MCA_ess", false),
            ("OMPI_MCA_pmix", false),
            ("OMPI_MCA_initial_wdir", false),
            ("OMPI_COMM_WORLD_RANK", false),
            ("PMIX_SECURITY_MODE", false),
            ("PMIX_SERVER_URI41", false),
            ("PMI_AUTH_COOKIE", false),
            ("MPICH_AUTHCOOKIE", false),
            ("UCX_NONCE", false),
            ("I_MPI_HYDRA_UUID", false),
            ("I_MPI_PIN", true),
            ("I_MPI_MPIRUN", false),
            ("RANKMARK_INTERFACE", true),
            ("RANKMARK_SECRET", false),
            ("RANKMARK_APIKEY", false),
            ("RANKMARK_LOG", true),
            ("RANKMARK_BUILD_COMMIT", false),
            ("NCCL_REGISTRY_PAT", false),
            ("CCL_PATH", true),
            ("UCX_AUTHORIZATION", false),
            ("SLURM_JOB_ID", true),
            ("SLURM_JWT", false),
            ("AWS_ACCESS_KEY_ID", false),
            ("HOME", false),
            ("OMP_NUM_THREADS", true),
        ];
        let kept = environment(given.iter().map(|(name, _)| ((*name).to_owned(), "1".to_owned())));
        for (name, expected) in given {
            assert_eq!(kept.contains_key(name), expected, "{name}");
        }
    }

    #[test]
    fn what_describes_a_job_is_known_as_such() {
        for name in ["SLURM_JOB_ID", "SLURM_NTASKS", "WORLD_SIZE", "RANKMARK_WORLD_SIZE", "RANKMARK_JOB"] {
            assert!(is_of_its_job(name), "{name}");
        }
        for name in ["NCCL_DEBUG", "OMPI_MCA_btl", "RANKMARK_INTERFACE", "CUDA_VISIBLE_DEVICES"] {
            assert!(!is_of_its_job(name), "{name}");
        }
    }

    #[test]
    fn secrets_within_values_are_masked() {
        let kept = environment([("NCCL_CONF_FILE".to_owned(), "ftp://u:p@h/x".to_owned())]);
        assert_eq!(kept["NCCL_CONF_FILE"], "ftp://u:***@h/x");
    }
}
