//! Which processes of this host are ranks of a job: by the variables that launchers give to ranks.

use std::collections::{BTreeMap, BTreeSet};

use super::RankProcess;
use crate::external::above::SHELLS;

/// Which job is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// These processes, or the ranks below them.
    Processes(Vec<u32>),
    /// The processes of a job of Slurm.
    Slurm(String),
    /// Every rank on this host.
    Host,
}

/// Variables of a rank and of the number of ranks, the most specific first: torchrun below Slurm gives its ranks numbers of
/// its own, and mpirun does, too.
const FAMILIES: [(&str, &[&str]); 4] = [
    ("RANK", &["WORLD_SIZE"]),
    ("OMPI_COMM_WORLD_RANK", &["OMPI_COMM_WORLD_SIZE"]),
    ("PMI_RANK", &["PMI_SIZE"]),
    ("SLURM_PROCID", &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"]),
];

/// All variables that are read of another process.
const READ: [&str; 10] = [
    "RANK",
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
    "SLURM_JOB_ID",
];

/// Programs that start a rank or a launcher and are neither, in addition to shells.
const STARTERS: [&str; 25] = [
    "env",
    "time",
    "timeout",
    "numactl",
    "taskset",
    "nice",
    "srun",
    "slurmstepd",
    "mpirun",
    "mpiexec",
    "prterun",
    "orterun",
    "orted",
    "prted",
    "hydra_pmi_proxy",
    "torchrun",
    "nsys",
    "ncu",
    "perf",
    "strace",
    "ssh",
    "uv",
    "micromamba",
    // What setuid installations leave above the program of a container.
    "Apptainer runtime parent",
    "Singularity runtime parent",
];

/// A process with a number of a rank.
#[derive(Clone, Debug)]
struct Candidate {
    rank: u32,
    world: Option<u32>,
    family: usize,
    pid: u32,
    /// The processes above it.
    above: Vec<u32>,
    is_starter: bool,
}

/// The ranks that are meant, by number. Processes that have none are in the order in which they were named.
pub fn find(target: &Target) -> Vec<RankProcess> {
    let pids: Vec<u32> = match target {
        Target::Processes(named) => {
            let below = named.iter().flat_map(|pid| process::descendants(*pid));
            let all: Vec<u32> = named.iter().copied().chain(below).collect();
            let mut seen = BTreeSet::new();
            all.into_iter().filter(|pid| seen.insert(*pid)).collect()
        }
        Target::Slurm(job) => process::all_processes().into_iter().filter(|pid| is_of_job(*pid, job)).collect(),
        Target::Host => process::all_processes(),
    };
    let own: BTreeSet<u32> =
        std::iter::once(std::process::id()).chain(process::ancestors().iter().map(|one| one.pid)).collect();
    let candidates = candidates(pids.into_iter().filter(|pid| !own.contains(pid)));
    let found = chosen(candidates);
    match target {
        Target::Processes(named) if found.is_empty() => {
            let lives = |pid: &&u32| process::began(**pid).is_some();
            named.iter().filter(lives).map(|pid| RankProcess { rank: None, world: None, pid: *pid }).collect()
        }
        _ => found,
    }
}

fn is_of_job(pid: u32, job: &str) -> bool {
    let named = process::variables(pid, &["SLURM_JOB_ID"]);
    let is_named = named.is_some_and(|found| found.get("SLURM_JOB_ID").is_some_and(|id| id == job));
    let group = format!("job_{job}");
    is_named || process::control_groups(pid).iter().any(|line| line.split('/').any(|part| part == group))
}

fn candidates(pids: impl Iterator<Item = u32>) -> Vec<Candidate> {
    let numbered = pids.filter_map(|pid| {
        let variables = process::variables(pid, &READ)?;
        let (rank, world, family) = rank_of(&variables)?;
        Some((pid, rank, world, family))
    });
    let numbered: Vec<_> = numbered.collect();
    let above = |pid: u32| -> Vec<u32> {
        std::iter::successors(Some(pid), |pid| process::parent_of(*pid).filter(|parent| *parent > 1)).skip(1).collect()
    };
    let candidate = |(pid, rank, world, family)| Candidate {
        rank,
        world,
        family,
        pid,
        above: above(pid),
        is_starter: is_starter(&process::command_line(pid)),
    };
    numbered.into_iter().map(candidate).collect()
}

/// The number of a rank, the number of ranks, and which launcher's variables say so.
fn rank_of(variables: &BTreeMap<String, String>) -> Option<(u32, Option<u32>, usize)> {
    let number = |name: &str| variables.get(name)?.parse::<u32>().ok();
    FAMILIES.iter().zip(0..).find_map(|((rank, worlds), family)| {
        let world = worlds.iter().find_map(|world| number(world));
        Some((number(rank)?, world, family))
    })
}

/// Whether a process with this command line starts a rank or a launcher and is neither.
fn is_starter(words: &[String]) -> bool {
    let name = |word: &String| word.rsplit('/').next().unwrap_or(word).to_owned();
    let first = words.first().map(name).unwrap_or_default();
    // Launchers in Python are scripts or modules of it.
    let is_launcher = |word: &String| {
        matches!(name(word).as_str(), "torchrun" | "accelerate" | "deepspeed" | "conda" | "mamba")
            || ["torch.distributed.run", "torch.distributed.launch"].contains(&word.as_str())
    };
    let script = words.iter().skip(1).find(|word| !word.starts_with('-'));
    [&SHELLS[..], &STARTERS].concat().contains(&first.trim_start_matches('-')) || script.is_some_and(is_launcher)
}

/// Which processes are ranks. Of those with the number of one rank it is not a shell or launcher above it, and not a worker that
/// it started, such as those of a DataLoader. All have the same variables.
fn chosen(candidates: Vec<Candidate>) -> Vec<RankProcess> {
    let first = candidates.iter().map(|one| one.family).min();
    let launchers = launchers(&candidates);
    let mut of_rank: BTreeMap<u32, Vec<Candidate>> = BTreeMap::new();
    // What has only the variables of an outer launcher is a launcher itself.
    let is_rank = |one: &Candidate| Some(one.family) == first && !launchers.contains(&one.pid);
    for one in candidates.into_iter().filter(is_rank) {
        of_rank.entry(one.rank).or_default().push(one);
    }
    let mut found = Vec::new();
    for (rank, all) in of_rank {
        let programs: Vec<&Candidate> = all.iter().filter(|one| !one.is_starter).collect();
        let shown = if programs.is_empty() { all.iter().collect() } else { programs };
        let is_below = |one: &Candidate| shown.iter().any(|other| one.above.contains(&other.pid));
        let top = shown.iter().filter(|one| !is_below(one));
        found.extend(top.map(|one| RankProcess { rank: Some(rank), world: one.world, pid: one.pid }));
    }
    found
}

/// Launchers with a number that is none of a rank: Kubeflow numbers its pods by RANK, and the ranks that torchrun starts in them
/// have other numbers.
fn launchers(candidates: &[Candidate]) -> BTreeSet<u32> {
    let starts = |one: &Candidate, other: &Candidate| other.rank != one.rank && other.above.contains(&one.pid);
    let is_one = |one: &&Candidate| one.is_starter && candidates.iter().any(|other| starts(one, other));
    candidates.iter().filter(is_one).map(|one| one.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(pid: u32, rank: u32, family: usize, above: &[u32], is_starter: bool) -> Candidate {
        Candidate { rank, world: Some(2), family, pid, above: above.to_vec(), is_starter }
    }

    fn pids(candidates: Vec<Candidate>) -> Vec<(u32, u32)> {
        chosen(candidates).into_iter().map(|found| (found.rank.unwrap(), found.pid)).collect()
    }

    #[test]
    fn a_rank_is_below_its_shell_and_above_its_workers() {
        let shells = vec![
            one(10, 0, 3, &[], true),
            one(11, 0, 3, &[10], false),
            one(12, 0, 3, &[10, 11], false),
            one(20, 1, 3, &[], true),
            one(21, 1, 3, &[20], false),
        ];
        assert_eq!(pids(shells), [(0, 11), (1, 21)]);
        // A rank that is a script.
        assert_eq!(pids(vec![one(10, 0, 0, &[], true)]), [(0, 10)]);
    }

    #[test]
    fn programs_that_run_another_and_wait_are_not_ranks() {
        let is_one = |line: &str| is_starter(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for line in [
            "bash job.sh",
            "/usr/bin/timeout 60 python train.py",
            "/venv/bin/python -u /venv/bin/torchrun train.py",
            "uv run --no-sync train.py",
            "/opt/conda/bin/python /opt/conda/bin/conda run -n env python train.py",
            "perf record -g python train.py",
        ] {
            assert!(is_one(line), "{line}");
        }
        assert!(is_starter(&["Apptainer runtime parent".to_owned()]), "its name is one word");
        for line in ["python -u train.py", "./solver input.conda", "/opt/uv/train"] {
            assert!(!is_one(line), "{line}");
        }
    }

    #[test]
    fn torchruns_agent_below_slurm_is_not_a_rank() {
        let agent = one(5, 1, 3, &[], false);
        assert_eq!(pids(vec![agent, one(6, 8, 0, &[5], false), one(7, 9, 0, &[5], false)]), [(8, 6), (9, 7)]);
    }

    #[test]
    fn a_launcher_with_the_number_of_its_pod_is_not_a_rank() {
        let launchers = [one(1, 1, 0, &[], true), one(2, 1, 0, &[1], true)];
        let ranks = [one(3, 8, 0, &[1, 2], false), one(4, 9, 0, &[1, 2], false)];
        let pod = launchers.into_iter().chain(ranks).collect();
        assert_eq!(pids(pod), [(8, 3), (9, 4)]);
        // In the first pod a rank has the number of the pod.
        let first = vec![one(5, 0, 0, &[], true), one(6, 0, 0, &[5], false), one(7, 1, 0, &[5], false)];
        assert_eq!(pids(first), [(0, 6), (1, 7)]);
    }

    #[test]
    fn two_jobs_give_two_processes_of_one_number() {
        assert_eq!(pids(vec![one(5, 0, 0, &[], false), one(9, 0, 0, &[], false)]), [(0, 5), (0, 9)]);
    }

    #[test]
    fn the_innermost_launcher_numbers_ranks() {
        let variables = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let both = variables(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2"), ("RANK", "9"), ("WORLD_SIZE", "16")]);
        assert_eq!(rank_of(&both), Some((9, Some(16), 0)));
        let slurm = variables(&[("SLURM_PROCID", "1"), ("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "2")]);
        assert_eq!(rank_of(&slurm), Some((1, Some(2), 3)));
        assert_eq!(rank_of(&variables(&[("RANK", "x")])), None);
    }
}
