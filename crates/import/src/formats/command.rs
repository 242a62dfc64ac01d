//! What a command line above a table says: how many processes it starts, and what decides how calls are timed.

/// The settings before a program and its options, without those that tell what is measured and not how. `options` are flags
/// with their values, as in `-R 1` and `--local_register=1`.
pub(super) fn method(before: &str, options: &str, ignored: &[&str]) -> String {
    let mut found = settings(before);
    let mut words = options.split_ascii_whitespace().take_while(|word| !ends(word)).peekable();
    while let Some(word) = words.next() {
        let Some((flag, mut value)) = flag(word) else { continue };
        if value.is_none() {
            value = words.next_if(|next| self::flag(next).is_none());
        }
        if !ignored.contains(&flag) {
            found.push(value.map_or_else(|| flag.to_owned(), |value| format!("{flag} {value}")));
        }
    }
    found.sort();
    super::nccl::plain(&found.join(" "))
}

/// `NCCL_ALGO=Ring` and `--mca coll ^ucc`. Which devices a run may see is not a method: the record has its ranks.
fn settings(before: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut words = before.split_ascii_whitespace();
    while let Some(word) = words.next() {
        if matches!(word, "--mca" | "-mca") {
            found.extend(words.next().map(|name| format!("--mca {name} {}", words.next().unwrap_or_default())));
        }
        let Some((name, _)) = word.split_once('=') else { continue };
        let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        if name.bytes().all(is_name) && name.contains('_') && !name.ends_with("VISIBLE_DEVICES") {
            found.push(word.to_owned());
        }
    }
    found
}

/// Whether the shell's part of a command line begins.
fn ends(word: &str) -> bool {
    word.starts_with(['|', '>', '<', '&', ';', '#']) || word.starts_with("2>")
}

/// `-R`, or `--local_register=1` as flag and value.
fn flag(word: &str) -> Option<(&str, Option<&str>)> {
    let is_flag = word.trim_start_matches('-').starts_with(|first: char| first.is_ascii_alphabetic());
    if !word.starts_with('-') || !is_flag {
        return None;
    }
    Some(word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value))))
}

/// Programs that start others.
const STARTERS: &[&str] = &[
    "mpirun",
    "mpiexec",
    "orterun",
    "prun",
    "prterun",
    "srun",
    "salloc",
    "torchrun",
    "env",
    "numactl",
    "time",
    "timeout",
    "sudo",
    "exec",
    "nohup",
    "kubectl",
    "docker",
    "podman",
    "apptainer",
    "singularity",
    "nsys",
    "bash",
    "sh",
    "flux",
    "jsrun",
    "aprun",
];

/// Whether what stands before a program starts it: nothing, settings, a path, or another program that starts programs. In prose,
/// other words stand there.
pub(super) fn starts(before: &str) -> bool {
    let name = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let mut words = before.split_ascii_whitespace().map(|word| word.trim_start_matches(['(', '`', '"', '\'']));
    let is_path = before.ends_with('/');
    let is_setting = |word: &str| word.contains('=') || word.is_empty();
    is_path || words.clone().all(is_setting) || words.any(|word| STARTERS.contains(&name(word).as_str()))
}

/// A command line without the shell's part: where its output goes.
pub(super) fn plain(text: &str) -> String {
    let words: Vec<&str> = text.split_ascii_whitespace().take_while(|word| !ends(word)).collect();
    super::nccl::fact(words.join(" ").trim_start_matches(['+', '$', '>', '~', ' ']))
}

/// Options of launchers that have a number behind them.
const WITH_NUMBER: &[&str] = &[
    "-n",
    "-np",
    "--np",
    "--ntasks",
    "-N",
    "--nodes",
    "--nnodes",
    "--ntasks-per-node",
    "--nproc-per-node",
    "--nproc_per_node",
];

/// The number of processes that a launcher is given: `-n 8`, srun's nodes and tasks on each, or torchrun's.
pub(super) fn processes(before: &str) -> Option<u32> {
    let mut words = before.split_ascii_whitespace();
    let (mut all, mut nodes, mut on_each) = (None, None, None);
    let is_slurm = before.split_ascii_whitespace().any(|word| word == "srun" || word.ends_with("/srun"));
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None if WITH_NUMBER.contains(&word) => (word, words.next()),
            None => word.split_at_checked(2).map_or((word, None), |(name, value)| (name, Some(value))),
        };
        let value = value.and_then(|value| value.parse::<u32>().ok()).filter(|value| *value > 0);
        match name {
            "-n" | "-np" | "--np" | "--ntasks" => all = value.or(all),
            "-N" | "--nodes" if is_slurm => nodes = value.or(nodes),
            "--nnodes" => nodes = value.or(nodes),
            "--ntasks-per-node" => on_each = value.or(on_each),
            "--nproc-per-node" | "--nproc_per_node" => {
                (nodes, on_each) = (nodes.or(Some(1)), value.or(on_each));
            }
            _ => {}
        }
    }
    all.or_else(|| nodes?.checked_mul(on_each?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_change_how_calls_run_are_the_method() {
        let method_of = |before: &str, options: &str| method(before, options, &["-b", "-e", "--minbytes"]);
        assert_eq!(method_of("", "-b 8 -e 128M -R 1"), "-R 1");
        assert_eq!(method_of("", "-R 1 --minbytes=8 -b 4"), method_of("", "--minbytes 4 -R 1 | tee x -Q"));
        assert_eq!(method_of("NCCL_ALGO=Ring CUDA_VISIBLE_DEVICES=1 mpirun -np 4", "-b 8"), "NCCL_ALGO=Ring");
        assert_eq!(method_of("mpirun --mca coll ^ucc -x UCX_TLS=rc", ""), "--mca coll ^ucc UCX_TLS=rc");
        assert_ne!(method_of("", "-R 1"), method_of("", "-R 2"));
    }

    #[test]
    fn processes_are_those_of_the_launcher() {
        for (line, expected) in [
            ("mpirun -np 4 --bind-to none", Some(4)),
            ("env NCCL_ALGO=Tree srun --exclusive -c 72 --mpi=pmi2 -n 8 --ntasks-per-node=4", Some(8)),
            ("srun -N 2 --ntasks-per-node=4", Some(8)),
            ("srun -N2 --ntasks-per-node 4", Some(8)),
            ("mpirun -n144 -ppn 36", Some(144)),
            ("mpirun --ntasks=6", Some(6)),
            ("python -u -m torch.distributed.run --nproc_per_node=8", Some(8)),
            ("torchrun --nnodes 2 --nproc-per-node 4", Some(8)),
            ("torchrun --nproc-per-node 4 --nnodes=2", Some(8)),
            ("torchrun --nproc-per-node gpu", None),
            ("mpirun -N 2", None),
            ("mpirun -npernode 4", None),
            ("", None),
        ] {
            assert_eq!(processes(line), expected, "{line}");
        }
    }

    #[test]
    fn prose_starts_nothing() {
        for (before, expected) in [
            ("", true),
            ("NCCL_ALGO=Ring ", true),
            ("./build/", true),
            ("srun -N 2 --ntasks-per-node=2 ", true),
            ("/usr/bin/mpirun -np 8 ", true),
            ("[Issue]: Performance drop 60% in ", false),
            ("the output of ", false),
        ] {
            assert_eq!(starts(before), expected, "{before}");
        }
    }

    #[test]
    fn where_output_goes_is_no_part_of_a_command() {
        assert_eq!(plain("+ ./all_reduce_perf -b 8 >& out.txt"), "./all_reduce_perf -b 8");
        assert_eq!(plain("$ ./all_reduce_perf -b 8 | tee x"), "./all_reduce_perf -b 8");
    }
}
