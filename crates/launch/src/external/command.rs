//! The command by which a launcher started this program: what a run is repeated with.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use control::reach;
use process::{Ancestor, ancestors};

use crate::Variables;
use crate::rank::Seat;

use super::above;
use super::names::{ARRIVAL, JOB, KEEPERS};
use super::rendezvous_file::RENDEZVOUS_DIR;

/// Our variables that decide where ranks connect. Without them, the same line may start another run, or none. A secret
/// and the address that belongs to it stay where the user keeps them.
const OURS: [&str; 4] = [JOB, RENDEZVOUS_DIR, reach::INTERFACE, ARRIVAL];

/// Options of srun that no process above its tasks shows: the variables that it sets for them, and the options. An option that
/// ends with `=` takes the variable's value.
const OF_SRUN: [(&str, &str); 9] = [
    ("SLURM_MPI_TYPE", "--mpi="),
    ("SLURM_JOB_PARTITION", "--partition="),
    ("SLURM_STEP_NODELIST", "--nodelist="),
    ("SLURM_CPUS_PER_TASK", "--cpus-per-task="),
    ("SLURM_GPUS", "--gpus="),
    ("SLURM_GPUS_PER_NODE", "--gpus-per-node="),
    ("SLURM_GPUS_PER_TASK", "--gpus-per-task="),
    ("SLURM_DISTRIBUTION", "--distribution="),
    ("SLURM_OVERCOMMIT", "--overcommit"),
];

/// What the environment tells of a launcher's line.
#[derive(Clone, Default)]
pub(super) struct Told {
    /// `NAME=VALUE` of our variables that are set.
    ours: Vec<String>,
    /// Options of srun.
    srun: Vec<String>,
    /// Nodes and tasks of the step of Slurm, where there is one.
    step: Option<(usize, u32)>,
}

impl Told {
    pub(super) fn from_variables(variable: Variables<'_>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let ours = OURS.iter().filter_map(|name| Some(format!("{name}={}", set(name)?)));
        let option = |(name, option): &(&str, &str)| {
            let value = set(name)?;
            Some(if option.ends_with('=') { format!("{option}{value}") } else { (*option).to_owned() })
        };
        let step = set("SLURM_STEP_NUM_NODES").zip(set("SLURM_STEP_NUM_TASKS"));
        let step = step.and_then(|(nodes, tasks)| nodes.parse().ok().zip(tasks.parse().ok()));
        Self { ours: ours.collect(), srun: OF_SRUN.iter().filter_map(option).collect(), step }
    }
}

/// The line that starts ranks again, before this program's own command line: the launcher's words, with our variables.
pub(super) fn words(seat: Seat, told: &Told, counts: (u32, usize), own: &[OsString]) -> Vec<String> {
    with_ours(launchers_words(seat, told, counts, own), &told.ours)
}

/// The launcher's words before this program's own command line (`mpirun`, `-n`, `4`): as typed if a process shows them, else
/// the shortest that start as many ranks. Empty if no command does (Kubernetes). What may be secret is left out.
pub(super) fn launchers_words(seat: Seat, told: &Told, (size, hosts): (u32, usize), own: &[OsString]) -> Vec<String> {
    let own: Vec<String> = own.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let launchers: Vec<Ancestor> = ancestors().into_iter().filter(above::is_launcher).collect();
    let in_step = launchers.first().is_some_and(|first| KEEPERS.iter().any(|name| first.name.starts_with(name)));
    let typed = launchers.iter().find_map(|launcher| before(&line_of(launcher.pid), &own));
    let of_srun = || typed_srun(&own);
    let typed = match (seat, told.step) {
        // srun starts torchrun on each node.
        (Seat::Torchrun, Some((hosts, tasks))) => of_srun().or_else(|| {
            let srun = shortest(Seat::Slurm, told, true, (tasks, hosts));
            typed.map(|typed| srun.into_iter().chain(typed).collect())
        }),
        _ if in_step || seat == Seat::Slurm => typed.or_else(of_srun),
        _ => typed,
    };
    match typed {
        Some(typed) => record::command_line(without_secrets(joined(typed))),
        None => shortest(seat, told, in_step, (size, hosts)),
    }
}

/// The words of a process.
pub(super) fn line_of(pid: u32) -> Vec<String> {
    let line = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).unwrap_or_default();
    let words = line.strip_suffix(&[0]).unwrap_or(&line).split(|byte| *byte == 0);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The words of the srun on this host that has this program's own words. srun is not above its tasks. None if it runs on another
/// host, or several differ.
fn typed_srun(own: &[String]) -> Option<Vec<String>> {
    let pids = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_srun = |line: &Vec<String>| line.first().is_some_and(|program| program.rsplit('/').next() == Some("srun"));
    let mut found: Vec<Vec<String>> = pids.map(line_of).filter(is_srun).filter_map(|line| before(&line, own)).collect();
    found.sort();
    found.dedup();
    found.pop().filter(|_| found.is_empty())
}

/// What stands before this program's own words, where a line ends with these. The program may be named by another path.
fn before(line: &[String], own: &[String]) -> Option<Vec<String>> {
    let (program, arguments) = own.split_first()?;
    let (head, tail) = line.split_at_checked(line.len().checked_sub(own.len())?)?;
    let name = |path: &str| Path::new(path).file_name().map(ToOwned::to_owned);
    let same = name(tail.first()?) == name(program) && tail[1..] == *arguments;
    (same && !head.is_empty()).then(|| head.to_vec())
}

/// Hydra cuts its list of hosts in its own command line: `-hosts a:2,b` shows as `-hosts`, `a`, `2`, `b`.
fn joined(words: Vec<String>) -> Vec<String> {
    let is_hydra = words.first().is_some_and(|program| program.contains("mpiexec") || program.contains("hydra"));
    let mut all: Vec<String> = Vec::new();
    let mut is_list = false;
    for word in words {
        let is_option = word.starts_with('-');
        // The first word behind the option is a host, and a number behind a host its ranks.
        match all.last_mut().filter(|last| is_list && !is_option && !last.starts_with('-')) {
            Some(list) if word.bytes().all(|byte| byte.is_ascii_digit()) => *list = format!("{list}:{word}"),
            Some(list) => *list = format!("{list},{word}"),
            None => all.push(word.clone()),
        }
        is_list =
            is_hydra && if is_option { ["hosts", "host"].contains(&word.trim_start_matches('-')) } else { is_list };
    }
    all
}

/// Without values of what is named like a secret: the user's environment has them. `-x NAME=VALUE` becomes `-x NAME`, which
/// passes the variable on, and so it is in the list of `--export`; pairs (`-genv NAME VALUE`, `--mca NAME VALUE`) are left out.
fn without_secrets(words: Vec<String>) -> Vec<String> {
    const OF_PAIRS: [&str; 8] = ["mca", "gmca", "omca", "pmixmca", "prtemca", "env", "genv", "tune"];
    let mut all: Vec<String> = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let option = word.strip_prefix('-').map_or("", |name| name.trim_start_matches('-'));
        let is_secret = words.peek().is_some_and(|name| {
            let name = name.split('=').next().unwrap_or_default();
            !name.starts_with('-') && record::smells_like_secret(name)
        });
        match option {
            "export" => {
                all.push(word);
                all.extend(words.next().map(|list| exported(&list)));
            }
            _ if option.starts_with("export=") => all.push(exported(&word)),
            "x" if is_secret => {
                let name = words.next().unwrap_or_default();
                all.extend([word, name.split('=').next().unwrap_or_default().to_owned()]);
            }
            _ if is_secret && OF_PAIRS.contains(&option) => {
                // `-env NAME=VALUE` is one word.
                if words.next().is_some_and(|name| !name.contains('=')) {
                    words.next();
                }
            }
            _ => all.push(word),
        }
    }
    all
}

/// srun's list of variables, with the name alone of each that holds a secret: srun passes that one on from the environment. What
/// stands in quotes may hold commas. `--export=` may stand before the list.
fn exported(list: &str) -> String {
    let (option, list) = list.strip_prefix("--export=").map_or(("", list), |list| ("--export=", list));
    let mut quote: Option<char> = None;
    let ends = |letter: char| {
        match quote {
            Some(open) if open == letter => quote = None,
            None if matches!(letter, '"' | '\'') => quote = Some(letter),
            _ => {}
        }
        letter == ',' && quote.is_none()
    };
    let shown = |part: &str| match part.split_once('=') {
        Some((name, _)) if record::smells_like_secret(name) || record::holds_secret(part) => name.to_owned(),
        _ => part.to_owned(),
    };
    let parts: Vec<String> = list.split(ends).map(shown).collect();
    format!("{option}{}", parts.join(","))
}

/// Behind `env`, our variables that the line does not set itself.
fn with_ours(line: Vec<String>, ours: &[String]) -> Vec<String> {
    let is_set = |pair: &&String| {
        let (name, _) = pair.split_once('=').unwrap_or_default();
        line.iter().any(|word| word.contains(&format!("{name}=")))
            || line.windows(2).any(|words| words[0].ends_with("env") && words[1] == name)
    };
    let missing: Vec<String> = ours.iter().filter(|pair| !is_set(pair)).cloned().collect();
    if line.is_empty() || missing.is_empty() {
        return line;
    }
    ["env".to_owned()].into_iter().chain(missing).chain(line).collect()
}

fn shortest(seat: Seat, told: &Told, in_step: bool, (size, hosts): (u32, usize)) -> Vec<String> {
    let has_mpi = || told.srun.iter().any(|option| option.starts_with("--mpi="));
    let hosts = told.step.map_or(hosts, |(nodes, _)| nodes);
    let line = match seat {
        Seat::Pmi if in_step && !has_mpi() => format!("srun --mpi=pmi2 -N {hosts} -n {size}"),
        _ if in_step || seat == Seat::Slurm => format!("srun -N {hosts} -n {size}"),
        Seat::OpenMpi => format!("mpirun -n {size}"),
        Seat::Pmi | Seat::Slurm => format!("mpiexec -n {size}"),
        Seat::Torchrun if hosts == 1 => format!("torchrun --no-python --nproc-per-node {size}"),
        Seat::Torchrun | Seat::Kubernetes => String::new(),
    };
    let is_srun = line.starts_with("srun");
    let more = told.srun.iter().filter(|_| is_srun).cloned();
    line.split_whitespace().map(str::to_owned).chain(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn told(variables: &[(&str, &str)]) -> Told {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Told::from_variables(&value)
    }

    #[test]
    fn a_launchers_words_are_those_before_our_own() {
        let own = split("/opt/bin/rankmark comm all_reduce --bytes 1KiB");
        let typed = split("/usr/bin/mpirun -x A=1 -n 4 rankmark comm all_reduce --bytes 1KiB");
        assert_eq!(before(&typed, &own), Some(split("/usr/bin/mpirun -x A=1 -n 4")));
        for other in
            ["mpirun -n 4 script.sh", "rankmark comm all_reduce --bytes 1KiB", "mpirun -n 4 other comm all_reduce", ""]
        {
            assert_eq!(before(&split(other), &own), None, "{other}");
        }
    }

    #[test]
    fn secrets_of_a_launchers_line_are_left_to_the_environment() {
        let typed = "mpirun -x HF_TOKEN=abc --mca orte_precondition_transports 12-34 --mca btl tcp -n 2";
        assert_eq!(without_secrets(split(typed)), split("mpirun -x HF_TOKEN --mca btl tcp -n 2"));
        // What follows a name alone is not its value.
        let typed = "mpirun -x HF_TOKEN --host a,b -n 2";
        assert_eq!(without_secrets(split(typed)), split(typed));
        let typed = "mpiexec -genv API_KEY abc -env TOKEN=abc -genv A 1 -n 2";
        assert_eq!(without_secrets(split(typed)), split("mpiexec -genv A 1 -n 2"));
    }

    #[test]
    fn a_list_of_srun_keeps_the_names_of_secrets_and_all_else() {
        let shown = |typed: &str| record::command_line(without_secrets(split(typed))).join(" ");
        let typed = "srun --export=ALL,HF_TOKEN=abc,FOO=1 -n 2";
        assert_eq!(shown(typed), "srun --export=ALL,HF_TOKEN,FOO=1 -n 2");
        assert_eq!(shown("srun --export ALL,HF_TOKEN=abc,FOO=1 -n 2"), "srun --export ALL,HF_TOKEN,FOO=1 -n 2");
        let quoted = "srun --export=A='b,c',API_KEY='d,e=f',PROXY=http://me:pw@host,G=h -n 2";
        assert_eq!(shown(quoted), "srun --export=A='b,c',API_KEY,PROXY,G=h -n 2");
        for plain in ["srun --export=ALL -n 2", "srun -n 2 --export", "srun --export=HF_TOKEN,A=1"] {
            assert_eq!(shown(plain), plain);
        }
    }

    #[test]
    fn lists_that_hydra_cut_are_whole_again() {
        let cut = "mpiexec.hydra -hosts n5 n6 2 n7 -genv A B -n 3";
        assert_eq!(joined(split(cut)), split("mpiexec.hydra -hosts n5,n6:2,n7 -genv A B -n 3"));
        for whole in ["mpiexec -hosts n5,n6 -n 2", "mpirun --host a:1,b:1 --mca btl tcp", "mpiexec -n 2"] {
            assert_eq!(joined(split(whole)), split(whole));
        }
    }

    #[test]
    fn variables_of_ours_are_part_of_the_line() {
        let told =
            told(&[("RANKMARK_JOB", "a b"), ("RANKMARK_RENDEZVOUS_DIR", "/scratch/me"), ("RANKMARK_ARRIVAL", "")]);
        let words = with_ours(split("mpiexec -hosts a,b"), &told.ours);
        let expected = ["env", "RANKMARK_JOB=a b", "RANKMARK_RENDEZVOUS_DIR=/scratch/me", "mpiexec", "-hosts", "a,b"];
        assert_eq!(words, expected);
        let typed = split("mpirun -x RANKMARK_RENDEZVOUS_DIR=/scratch/me -genv RANKMARK_JOB x -n 2");
        assert_eq!(with_ours(typed.clone(), &told.ours), typed, "the line sets them itself");
        assert!(with_ours(Vec::new(), &told.ours).is_empty(), "no command starts ranks");
    }

    #[test]
    fn every_launcher_has_a_shortest_line_but_kubernetes() {
        let line = |seat, in_step, hosts| shortest(seat, &Told::default(), in_step, (4, hosts)).join(" ");
        assert_eq!(line(Seat::OpenMpi, false, 1), "mpirun -n 4");
        assert_eq!(line(Seat::OpenMpi, true, 2), "srun -N 2 -n 4");
        assert_eq!(line(Seat::Pmi, false, 1), "mpiexec -n 4");
        assert_eq!(line(Seat::Pmi, true, 1), "srun --mpi=pmi2 -N 1 -n 4");
        assert_eq!(line(Seat::Slurm, false, 2), "srun -N 2 -n 4");
        assert_eq!(line(Seat::Torchrun, false, 1), "torchrun --no-python --nproc-per-node 4");
        assert_eq!(line(Seat::Kubernetes, false, 4), "");
        let told = told(&[
            ("SLURM_MPI_TYPE", "pmix"),
            ("SLURM_STEP_NODELIST", "n[5-6]"),
            ("SLURM_OVERCOMMIT", "1"),
            ("SLURM_CPUS_PER_TASK", "8"),
        ]);
        let line = |seat| shortest(seat, &told, true, (4, 2)).join(" ");
        let all = "srun -N 2 -n 4 --mpi=pmix --nodelist=n[5-6] --cpus-per-task=8 --overcommit";
        assert_eq!((line(Seat::Slurm).as_str(), line(Seat::Pmi).as_str()), (all, all));
        assert_eq!(shortest(Seat::OpenMpi, &told, false, (4, 2)).join(" "), "mpirun -n 4");
    }
}
