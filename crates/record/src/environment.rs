//! What of the surroundings may be kept: an allow-list of environment variables, and the command line, without
//! anything that smells like a secret.

use std::collections::BTreeMap;

/// Families of variables that change how communication or arithmetic runs.
const FAMILIES: [&str; 17] = [
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

/// The variables that a record may keep: those of the allow-list whose names do not smell like a secret.
pub fn environment(variables: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let allowed = |name: &str| SINGLE.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family));
    variables.into_iter().filter(|(name, _)| allowed(name) && !smells_like_secret(name)).collect()
}

/// Whether a variable's name says that its value is secret. Errs on the side of silence: `UCX_IB_PKEY` (a partition
/// number) is the one key that is known to be none.
pub fn smells_like_secret(name: &str) -> bool {
    name.to_ascii_uppercase().split(|c: char| !c.is_ascii_alphanumeric()).any(|part| {
        let keyed = (part.ends_with("KEY") || part.ends_with("KEYS")) && part != "PKEY";
        let named = ["TOKEN", "SECRET", "PASSW", "CREDENTIAL", "PASSPHRASE"].iter().any(|word| part.contains(word));
        keyed || named || matches!(part, "PASS" | "AUTH" | "COOKIE")
    })
}

/// A command line fit for a record: the value of `NAME=value` is masked where the name smells like a secret, whether it
/// stands alone or in `--env=NAME=value`.
pub fn command_line(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    arguments.into_iter().map(mask).collect()
}

fn mask(argument: String) -> String {
    let end = argument.match_indices('=').map(|(at, _)| at).find(|at| smells_like_secret(&argument[..*at]));
    match end {
        Some(end) => format!("{}=***", &argument[..end]),
        None => argument,
    }
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
            ("OMPI_COMM_WORLD_RANK", false),
            ("RANKMARK_SECRET", false),
            ("RANKMARK_APIKEY", false),
            ("RANKMARK_LOG", true),
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
    fn the_command_line_masks_secrets() {
        let typed = ["rankmark", "run", "--env", "NCCL_DEBUG=INFO", "--env", "HF_TOKEN=abc=d", "--env=API_KEY=x"];
        let kept = command_line(typed.iter().map(|word| (*word).to_owned()));
        let expected = ["rankmark", "run", "--env", "NCCL_DEBUG=INFO", "--env", "HF_TOKEN=***", "--env=API_KEY=***"];
        assert_eq!(kept, expected);
    }
}
