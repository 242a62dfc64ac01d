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

/// Whether a flag that begins so is among the options of a program: `--use_cuda` in `--use_cuda_bus_id=0a:00.0`.
pub(super) fn has_flag(options: &str, begin: &str) -> bool {
    options.split_ascii_whitespace().take_while(|word| !ends(word)).any(|word| word.starts_with(begin))
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

/// The most of a command line that goes on over several lines.
const LONGEST: usize = 1 << 16;

/// Command lines that go on over several lines, with `\` at their ends.
#[derive(Debug, Default)]
pub(super) struct Commands {
    /// What has been read of the one that goes on; empty where none does.
    begun: String,
}

/// What a line is to the command lines of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JoinedLine<'l> {
    /// A line of its own.
    Line(&'l str),
    /// A command line goes on in the next line.
    GoesOn,
    /// The last line of a command line: all of it, on one line.
    Whole(String),
}

impl Commands {
    /// Takes the next line, trimmed. Heads and rows of tables are lines of their own, whatever their ends.
    pub(super) fn join<'l>(&mut self, text: &'l str) -> JoinedLine<'l> {
        let goes_on = text.strip_suffix('\\').filter(|before| !before.ends_with('\\'));
        let is_of_table = text.starts_with(|first: char| first == '#' || first.is_ascii_digit());
        if self.begun.is_empty() {
            let begins = goes_on.filter(|before| !is_of_table && !before.trim().is_empty());
            let Some(before) = begins else { return JoinedLine::Line(text) };
            self.begun = before.trim_end().to_owned();
            return JoinedLine::GoesOn;
        }
        if text.starts_with('#') {
            self.begun.clear();
            return JoinedLine::Line(text);
        }
        // What a shell asks with where a line goes on.
        let part = goes_on.unwrap_or(text);
        let part = part.strip_prefix("> ").unwrap_or(part).trim();
        if !part.is_empty() {
            self.begun.push(' ');
            self.begun.push_str(part);
        }
        match goes_on.is_some() && self.begun.len() < LONGEST {
            true => JoinedLine::GoesOn,
            false => JoinedLine::Whole(std::mem::take(&mut self.begun)),
        }
    }
}

/// Options of launchers with a value behind them, and what it is.
const OPTIONS: &[(&str, OptionNumber)] = &[
    ("-n", OptionNumber::All),
    ("-np", OptionNumber::All),
    ("--np", OptionNumber::All),
    ("--ntasks", OptionNumber::All),
    ("--nnodes", OptionNumber::Nodes),
    ("--nodes", OptionNumber::Nodes),
    ("--ntasks-per-node", OptionNumber::OnEach),
    ("--tasks-per-node", OptionNumber::OnEach),
    ("-ppn", OptionNumber::OnEach),
    ("--ppn", OptionNumber::OnEach),
    ("-perhost", OptionNumber::OnEach),
    ("-npernode", OptionNumber::OnEach),
    ("--npernode", OptionNumber::OnEach),
    ("-hosts", OptionNumber::Hosts),
    ("-host", OptionNumber::Hosts),
    ("--hosts", OptionNumber::Hosts),
    ("--host", OptionNumber::Hosts),
    ("-H", OptionNumber::Hosts),
    ("--nproc-per-node", OptionNumber::OfOne),
    ("--nproc_per_node", OptionNumber::OfOne),
];

/// What the value of an option is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionNumber {
    /// All processes.
    All,
    Nodes,
    /// Processes of each node.
    OnEach,
    /// A list of the nodes.
    Hosts,
    /// Processes of each node, of which there is one if nothing says otherwise.
    OfOne,
}

/// The number of processes that a launcher is given: `-n 8`, srun's nodes and tasks on each, or torchrun's. Of options that
/// come twice the first counts: later ones may be those of a program that the launcher starts, such as `numactl -N 1`.
pub(super) fn processes(before: &str) -> Option<u32> {
    let all: Vec<&str> = before.split_ascii_whitespace().collect();
    let name = |word: &&str| is_launcher(word.rsplit('/').next().unwrap_or(word));
    let from = all.iter().position(name);
    let launcher = from.map_or("", |from| all[from].rsplit('/').next().unwrap_or_default());
    if launcher == "jsrun" {
        return of_jsrun(&all);
    }
    let mut words = all[from.unwrap_or(0)..].iter();
    let mut found: [Option<u32>; 5] = [None; 5];
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None if *word == "-N" || OPTIONS.iter().any(|(name, _)| name == word) => (*word, words.next().copied()),
            None => word.split_at_checked(2).map_or((*word, None), |(name, value)| (name, Some(value))),
        };
        // Elsewhere than for Slurm and Flux, `-N` is another number.
        let number = match name {
            "-N" if matches!(launcher, "srun" | "flux") => Some(OptionNumber::Nodes),
            _ => OPTIONS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number),
        };
        let Some(number) = number.filter(|number| from.is_some() || *number == OptionNumber::OfOne || name == "-np")
        else {
            continue;
        };
        let value = match number {
            OptionNumber::Hosts => value.and_then(hosts),
            _ => value.and_then(|value| value.parse::<u32>().ok()).filter(|value| *value > 0),
        };
        let known = &mut found[number as usize];
        *known = known.or(value);
    }
    let [all, nodes, on_each, hosts, of_one] = found;
    let by_node = || nodes.or(hosts)?.checked_mul(on_each?);
    all.or_else(by_node).or_else(|| nodes.unwrap_or(1).checked_mul(of_one?))
}

/// Whether a program starts others: `mpirun`, `mpiexec.hydra`, `srun`, `torchrun`, `torch.distributed.run`.
fn is_launcher(name: &str) -> bool {
    let begins = ["mpirun", "mpiexec", "torch.distributed."].iter().any(|begin| name.starts_with(begin));
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
    begins || name == "flux" || (name.ends_with("run") && name != "run" && is_name)
}

/// The number of hosts of a list without slots.
fn hosts(list: &str) -> Option<u32> {
    let are_plain = !list.contains([':', '[']) && list.split(',').all(|host| !host.is_empty());
    are_plain.then(|| list.split(',').count()).and_then(|count| u32::try_from(count).ok())
}

/// The processes of jsrun: `-p`, or resource sets times the processes of each. Its `-n` is the number of the sets.
fn of_jsrun(words: &[&str]) -> Option<u32> {
    let value = |names: [&str; 2]| {
        let of_pair = |pair: &[&str]| names.contains(&pair[0]).then(|| pair[1].parse().ok()).flatten();
        words.windows(2).find_map(of_pair)
    };
    let sets = || u32::checked_mul(value(["-n", "--nrs"])?, value(["-a", "--tasks_per_rs"])?);
    value(["-p", "--np"]).or_else(sets)
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
    fn flags_are_those_of_the_program_and_not_of_the_shell() {
        assert!(has_flag("-d mlx5_0 --use_cuda_bus_id=0a:00.0 | tee x", "--use_cuda"));
        assert!(!has_flag("-d mlx5_0 | tee x --use_cuda=0", "--use_cuda"));
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
            ("mpirun -n 256 -ppn 8", Some(256)),
            ("mpiexec.hydra -ppn 8 -hosts a,b,c", Some(24)),
            ("mpirun -npernode 4 --host node-a,node-b", Some(8)),
            ("mpirun -ppn 8 -f hosts", None),
            ("mpirun -npernode 4 --host node-a:4,node-b:4", None),
            ("srun -N 4 --ntasks-per-node 8 numactl -N 1", Some(32)),
            ("flux run -N2 --tasks-per-node=4", Some(8)),
            ("jsrun -n 6 -a 4 -c 7", Some(24)),
            ("jsrun -n 6", None),
            ("nice -n 10", None),
            ("salloc -N 2 nice -n 10 mpirun -np 4", Some(4)),
            ("mpirun -np 99999999999", None),
            ("srun -N 4000000 --ntasks-per-node 4000000", None),
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
    fn command_lines_may_go_on() {
        let joined = |lines: &[&str]| {
            let mut commands = Commands::default();
            let text = |joined| match joined {
                JoinedLine::Line(text) => Some(text.to_owned()),
                JoinedLine::GoesOn => None,
                JoinedLine::Whole(text) => Some(text),
            };
            lines.iter().filter_map(|line| text(commands.join(line))).collect::<Vec<String>>()
        };
        assert_eq!(joined(&["$ mpirun \\", "-np 8 \\", "> osu_bw", "4 1"]), ["$ mpirun -np 8 osu_bw", "4 1"]);
        assert_eq!(joined(&["mpirun -np 8\\", "", "osu_bw"]), ["mpirun -np 8", "osu_bw"]);
        // Rows and heads are lines of their own.
        assert_eq!(joined(&["4 11.69\\", "# Size\\", "x \\\\", "8 12"]), ["4 11.69\\", "# Size\\", "x \\\\", "8 12"]);
        assert_eq!(joined(&["mpirun \\", "# OSU"]), ["# OSU"]);
        assert_eq!(joined(&["mpirun \\"]), Vec::<String>::new());
    }

    #[test]
    fn where_output_goes_is_no_part_of_a_command() {
        assert_eq!(plain("+ ./all_reduce_perf -b 8 >& out.txt"), "./all_reduce_perf -b 8");
        assert_eq!(plain("$ ./all_reduce_perf -b 8 | tee x"), "./all_reduce_perf -b 8");
    }
}
