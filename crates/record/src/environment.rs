//! What of the surroundings may be kept: an allow-list of environment variables, and the command line, without
//! anything that smells like a secret.

use std::collections::BTreeMap;
use std::ops::Range;

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

/// Whether a variable's name says that its value is secret. Errs on the side of silence: `UCX_IB_PKEY` (a partition
/// number) is the one key that is known to be none.
pub fn smells_like_secret(name: &str) -> bool {
    // Fields that say how tokens are spread over experts.
    let field = name.rsplit('=').next().unwrap_or(name).trim_start_matches('-');
    if ["tokens", "tokens_file", "tokens-file"].contains(&field) {
        return false;
    }
    name.to_ascii_uppercase().split(|c: char| !c.is_ascii_alphanumeric()).any(|part| {
        let keyed = (part.ends_with("KEY") || part.ends_with("KEYS")) && part != "PKEY";
        const WORDS: [&str; 10] = [
            "TOKEN",
            "SECRET",
            "PASSW",
            "CREDENTIAL",
            "PASSPHRASE",
            "COOKIE",
            "NONCE",
            "PRECONDITION",
            "AUTHORIZATION",
            "BEARER",
        ];
        let named = WORDS.iter().any(|word| part.contains(word));
        keyed || named || matches!(part, "PASS" | "AUTH" | "JWT" | "PAT" | "CREDS")
    })
}

/// A command line fit for a record: the value of `NAME=value` is masked where the name smells like a secret, whether it
/// stands alone, in `--env=NAME=value`, or behind an option of that name. So are secrets within other values.
pub fn command_line(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut hide = false;
    let each = |argument: String| {
        let is_option = argument.starts_with('-') && !argument.contains('=');
        let hidden = std::mem::replace(&mut hide, is_option && smells_like_secret(&argument));
        if hidden && !argument.starts_with('-') { MASK.to_owned() } else { mask(argument) }
    };
    arguments.into_iter().map(each).collect()
}

/// What stands in place of a secret.
const MASK: &str = "***";

/// Whether a text holds something that looks like a secret, whatever its name.
pub fn holds_secret(text: &str) -> bool {
    !secrets(text).is_empty()
}

/// The text with `***` in place of what looks like a secret.
fn masked(text: &str) -> String {
    let mut safe = text.to_owned();
    for found in secrets(text).into_iter().rev() {
        safe.replace_range(found, MASK);
    }
    safe
}

/// Where a text holds secrets: the password of `user:password@host`, what follows `Authorization:`, and tokens with the
/// beginnings that services give them. In their order, and apart from each other.
fn secrets(text: &str) -> Vec<Range<usize>> {
    if let Some(header) = authorization(text) {
        let mut found = secrets(&text[..header]);
        found.push(header..text.trim_end().len());
        return found;
    }
    let mut found = Vec::new();
    let mut begin = 0;
    for word in text.split_inclusive(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';')) {
        let place = password(word).or_else(|| token(word));
        found.extend(place.map(|place| begin + place.start..begin + place.end));
        begin += word.len();
    }
    found
}

/// Where the value of an `Authorization:` header begins.
fn authorization(text: &str) -> Option<usize> {
    const HEADER: &str = "authorization";
    let begin = text.to_ascii_lowercase().find(HEADER)? + HEADER.len();
    let rest = &text[begin..];
    let value = rest.trim_start().strip_prefix([':', '='])?.trim_start();
    (!value.is_empty() && value != MASK).then(|| text.len() - value.len())
}

/// The password of `user:password@host`.
fn password(word: &str) -> Option<Range<usize>> {
    let begin = word.find("://").map_or(0, |at| at + 3);
    let address = &word[begin..];
    // A path may hold anything.
    let address = &address[..address.find(['/', '?', '#']).unwrap_or(address.len())];
    let at = address.rfind('@')?;
    let colon = address[..at].find(':')?;
    let host = address[at + 1..].chars().next();
    let password = begin + colon + 1..begin + at;
    (colon > 0 && host.is_some_and(char::is_alphanumeric) && !password.is_empty() && &word[password.clone()] != MASK)
        .then_some(password)
}

/// A token by its beginning.
fn token(word: &str) -> Option<Range<usize>> {
    const BEGINNINGS: [&str; 10] =
        ["ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "hf_", "sk-", "xoxb-", "AKIA", "eyJ"];
    const SHORTEST: usize = 20;
    let is_of_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_begin = |at: usize| !word[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
    BEGINNINGS.iter().find_map(|beginning| {
        let begin = word.find(beginning).filter(|at| is_begin(*at))?;
        let length = word[begin..].find(|c| !is_of_token(c)).unwrap_or(word.len() - begin);
        (length >= SHORTEST).then_some(begin..begin + length)
    })
}

fn mask(argument: String) -> String {
    let end = argument.match_indices('=').map(|(at, _)| at).find(|at| smells_like_secret(&argument[..*at]));
    match end {
        Some(end) => format!("{}={MASK}", &argument[..end]),
        None => masked(&argument),
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
    fn the_command_line_masks_secrets() {
        let typed = ["rankmark", "run", "--env", "NCCL_DEBUG=INFO", "--env", "HF_TOKEN=abc=d", "--env=API_KEY=x"];
        let kept = command_line(typed.iter().map(|word| (*word).to_owned()));
        let expected = ["rankmark", "run", "--env", "NCCL_DEBUG=INFO", "--env", "HF_TOKEN=***", "--env=API_KEY=***"];
        assert_eq!(kept, expected);
        let typed = ["rankmark", "profile", "--", "train", "--hf-token", "abc", "--epochs", "3", "--use-token", "--x"];
        let kept = command_line(typed.iter().map(|word| (*word).to_owned()));
        let expected =
            ["rankmark", "profile", "--", "train", "--hf-token", "***", "--epochs", "3", "--use-token", "--x"];
        assert_eq!(kept, expected);
        // Tokens of experts.
        let shown = [
            "rankmark",
            "--tokens",
            "zipf:exponent=1",
            "--tokens-file=counts",
            "--set",
            "tokens=skewed",
            "--set=tokens=hot",
        ];
        assert_eq!(command_line(shown.map(str::to_owned)), shown);
        assert!(smells_like_secret("--hf-tokens") && smells_like_secret("API_TOKENS"));
    }

    #[test]
    fn secrets_within_values_are_masked() {
        let long = "a1B2".repeat(8);
        for (text, expected) in [
            ("http://user:pass@proxy:3128".to_owned(), "http://user:***@proxy:3128"),
            ("--index=https://me:t0k%40en@host/simple".to_owned(), "--index=https://me:***@host/simple"),
            ("postgres://a:b@c,redis://d:e@f".to_owned(), "postgres://a:***@c,redis://d:***@f"),
            ("admin:hunter2@node-a".to_owned(), "admin:***@node-a"),
            ("curl -H 'Authorization: Bearer abc.def'".to_owned(), "curl -H 'Authorization: ***"),
            ("AUTHORIZATION=Basic dXNlcg==".to_owned(), "AUTHORIZATION=***"),
            (format!("x ghp_{long} y"), "x *** y"),
            (format!("--note=hf_{long}"), "--note=***"),
        ] {
            assert!(holds_secret(&text), "{text}");
            assert_eq!(masked(&text), expected);
            assert_eq!(masked(expected), expected, "a mask is not a secret");
        }
        for plain in
            ["mlx5_0:1", "git@host:path", "delay:rank=1,us=20", "tcp://10.0.0.1:29500", "all@once", "sk-1", "", "a:@b"]
        {
            assert!(!holds_secret(plain), "{plain}");
            assert_eq!(masked(plain), plain);
        }
        let kept = environment([("NCCL_CONF_FILE".to_owned(), "ftp://u:p@h/x".to_owned())]);
        assert_eq!(kept["NCCL_CONF_FILE"], "ftp://u:***@h/x");
    }
}
