//! The commands and the launchers of the table, and what a cell says.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// A launcher as a column.
pub(super) struct Launcher {
    /// In the head of the table.
    pub(super) title: &'static str,
    /// In names of files.
    pub(super) name: &'static str,
    /// What stands before the program, for two ranks; `$agent` starts a program on another node.
    pub(super) words: &'static str,
    /// What moves the data there.
    pub(super) backend: &'static str,
    /// The program that it needs, with the package that has it.
    pub(super) needs: (&'static str, &'static str),
}

/// On two nodes, one rank each, but torchrun alone, which has two ranks on one.
pub(super) const LAUNCHERS: [Launcher; 7] = [
    Launcher {
        title: "mpirun (Open MPI)",
        name: "openmpi",
        words: "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none --mca plm_rsh_agent $agent --mca plm ^slurm \
                --mca oob_tcp_if_include eth0 --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca pml ob1 \
                --host one:1,two:1 -n 2",
        backend: "mpi",
        needs: ("mpirun.openmpi", "openmpi-bin"),
    },
    Launcher {
        title: "mpiexec (MPICH)",
        name: "mpich",
        words: "mpiexec.mpich -iface eth0 -launcher rsh -launcher-exec $agent -hosts one,two -n 2",
        backend: "mpi",
        needs: ("mpiexec.mpich", "mpich"),
    },
    Launcher {
        title: "srun --mpi=pmix",
        name: "pmix",
        words: "srun --overcommit --mpi=pmix -N 2 -n 2",
        backend: "mpi",
        needs: ("mpirun.openmpi", "openmpi-bin, libpmix-dev"),
    },
    Launcher {
        title: "srun --mpi=pmi2",
        name: "pmi2",
        words: "srun --overcommit --mpi=pmi2 -N 2 -n 2",
        backend: "mpi --mpi-library libmpich.so.12",
        needs: ("mpiexec.mpich", "mpich"),
    },
    Launcher {
        title: "srun",
        name: "srun",
        words: "srun --overcommit -N 2 -n 2",
        backend: "mpi",
        needs: ("srun", "slurm-wlm"),
    },
    Launcher {
        title: "torchrun",
        name: "torchrun",
        words: "$torchrun --no-python --nproc-per-node 2",
        backend: "gloo --python $python",
        needs: ("", "PyTorch"),
    },
    Launcher {
        title: "srun torchrun",
        name: "srun-torchrun",
        words: "srun --overcommit -N 2 -n 2 $torchrun --no-python --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d \
                --rdzv-endpoint one:29500 --rdzv-id $$",
        backend: "gloo --python $python",
        needs: ("srun", "slurm-wlm, PyTorch"),
    },
];

/// A command as a row.
pub(super) struct Command {
    /// In the first column.
    pub(super) title: &'static str,
    /// In names of files.
    pub(super) name: &'static str,
    /// Words of the command; `BACKEND` is that of the launcher.
    pub(super) words: &'static str,
}

const fn command(title: &'static str, name: &'static str, words: &'static str) -> Command {
    Command { title, name, words }
}

pub(super) const COMMANDS: [Command; 16] = [
    command(
        "comm",
        "comm",
        "comm all_reduce --bytes 1KiB --backend BACKEND --iters 6 --trials 2 --spacing 0s --limits false",
    ),
    command("comm, shm", "shm", "comm all_reduce --bytes 1KiB --backend shm --iters 6 --trials 1 --limits false"),
    command("train", "train", "train --model mlp --backend BACKEND --trials 2 --spacing 0s --max-seconds 0.2s"),
    command("hardware", "hardware", "hardware latency --backend BACKEND --trials 1 --max-seconds 0.2s"),
    command("memory", "memory", "memory --model mlp --backend BACKEND"),
    command(
        "primitive",
        "primitive",
        "primitive tp_columnwise --backend BACKEND -m 64 -n 64 -k 64 --trials 1 --max-seconds 0.2s --limits false",
    ),
    command(
        "startup",
        "startup",
        "startup --backend BACKEND --bytes 1KiB --communicators 0 --trials 1 --max-seconds 0.1s",
    ),
    command(
        "interference",
        "interference",
        "interference product,collective --beside product,collective --backend BACKEND --product-size 64 \
         --collective-bytes 16KiB --trials 1 --iters 2 --warmup 1 --spacing 0s",
    ),
    command(
        "interference --progress-thread",
        "threads",
        "interference product,collective --beside product,collective --backend BACKEND --progress-thread --product-size 64 \
         --collective-bytes 16KiB --trials 1 --iters 2 --warmup 1 --spacing 0s",
    ),
    command("run PLAN", "plan", "run ../plan.yaml --set backend=BACKEND"),
    command("run --resume", "resume", "run --resume r"),
    command("fleet", "fleet", "fleet --budget 40s"),
    command("profile, a model", "profile", "profile --model mlp --backend BACKEND --duration 2s"),
    command("profile -- COMMAND", "job", "profile -- python3 train.py"),
    command("compare --interleave", "interleave", "compare --interleave ../plan.yaml --budget 5s"),
    command("validate", "validate", "validate --quick --quiet"),
];

/// What a cell says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Ok,
    /// What to type instead, or why there is no result.
    Says(String),
    /// Neither a result nor a sentence.
    Hole(String),
}

/// What a command did in its folder.
pub(super) fn cell(folder: &Path, name: &str) -> Cell {
    let read = |end: &str| std::fs::read_to_string(folder.join(format!("{name}.{end}"))).unwrap_or_default();
    let (code, out, err) = (read("code"), read("out"), read("err"));
    let cases = std::fs::read_to_string(folder.join(name).join("r/cases.jsonl")).unwrap_or_default();
    judged(code.trim(), &format!("{out}\n{err}"), &cases)
}

/// Codes that a command gives after a result: `fleet` and `validate` also end with 1 and 3.
pub(super) fn judged(code: &str, said: &str, cases: &str) -> Cell {
    let hint = || {
        let at = said.lines().position(|line| line.trim_start().starts_with("hint:"))?;
        let more = said.lines().skip(at + 1).take_while(|line| line.starts_with("      ") && !line.trim().is_empty());
        let words: Vec<&str> = said.lines().nth(at).into_iter().chain(more).map(str::trim).collect();
        Some(words.join(" ").trim_start_matches("hint:").trim().to_owned())
    };
    let last = || said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing was said").to_owned();
    if !["0", "1", "2", "3"].contains(&code) {
        return Cell::Hole(format!("ended with {code}: {}", last()));
    }
    if cases.is_empty() {
        return match (code, hint()) {
            ("0", _) => Cell::Ok,
            (_, Some(hint)) => Cell::Says(hint),
            _ => Cell::Hole(last()),
        };
    }
    of_cases(cases)
}

/// What the cases of a record say that have no result.
fn of_cases(text: &str) -> Cell {
    let mut latest: Vec<(String, Value)> = Vec::new();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let id = line["id"].as_str().unwrap_or_default().to_owned();
        latest.retain(|(known, _)| *known != id);
        latest.push((id, line));
    }
    let is_of = |line: &Value, status: &str| line["status"] == status;
    let all = latest.len();
    let is_explained = |line: &Value| line["reason"].as_str().is_some_and(|reason| reason.contains("(hint: "));
    if let Some((_, line)) = latest.iter().find(|(_, line)| is_of(line, "failed") && !is_explained(line)) {
        return Cell::Hole(line["reason"].as_str().unwrap_or_default().to_owned());
    }
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (_, line) in latest.iter().filter(|(_, line)| !is_of(line, "ok")) {
        let reason = line["reason"].as_str().unwrap_or_default();
        // Of a failure that names processes, what to type.
        let hint =
            reason.split_once("(hint: ").filter(|_| is_of(line, "failed")).and_then(|(_, hint)| hint.strip_suffix(')'));
        // How long trials took is of the machine that wrote the table.
        let is_left_out = reason.starts_with("left out:");
        let said = if is_left_out { "left out: its trials do not fit into the budget" } else { hint.unwrap_or(reason) };
        *reasons.entry(said.to_owned()).or_default() += 1;
    }
    if reasons.contains_key("") {
        return Cell::Hole("a case has neither a result nor a reason".to_owned());
    }
    let sentence = |(reason, count): (&String, &usize)| match *count == all {
        true => reason.clone(),
        false => format!("{count} of {all} cases: {reason}"),
    };
    let sentences: Vec<String> = reasons.iter().map(sentence).collect();
    if sentences.is_empty() { Cell::Ok } else { Cell::Says(sentences.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_a_result_a_sentence_or_a_hole() {
        assert_eq!(judged("0", "done", ""), Cell::Ok);
        let refused = "error: no\n  cause: why\n  hint: rankmark profile -- \\\n        mpirun train.py\n";
        assert_eq!(judged("2", refused, ""), Cell::Says("rankmark profile -- \\ mpirun train.py".to_owned()));
        assert_eq!(judged("2", "error: no", ""), Cell::Hole("error: no".to_owned()));
        assert!(matches!(judged("139", "", ""), Cell::Hole(_)), "a signal");
        assert!(matches!(judged("124", "", "{\"id\":\"a\",\"status\":\"ok\"}"), Cell::Hole(_)), "too late");
        let line = |id: &str, status: &str, reason: &str| {
            format!("{{\"id\":\"{id}\",\"status\":\"{status}\",\"reason\":\"{reason}\"}}\n")
        };
        let ok = line("a", "ok", "");
        assert_eq!(judged("0", "", &(line("a", "skipped", "x") + &ok)), Cell::Ok, "the last line counts");
        assert_eq!(
            judged("0", "", &(ok.clone() + &line("b", "skipped", "x"))),
            Cell::Says("1 of 2 cases: x".to_owned())
        );
        let out =
            |id: &str, seconds: u32| line(id, "not_run", &format!("left out: 6 trials of {seconds} s each do not fit"));
        let left_out = Cell::Says("2 of 3 cases: left out: its trials do not fit into the budget".to_owned());
        assert_eq!(judged("0", "", &(ok.clone() + &out("b", 2) + &out("c", 3))), left_out);
        assert_eq!(judged("1", "", &(ok + &line("b", "failed", "rank 1 died"))), Cell::Hole("rank 1 died".to_owned()));
        let hinted = line("b", "failed", "no world (hint: srun --mpi=pmix)");
        assert!(matches!(judged("1", "", &hinted), Cell::Says(_)), "what to type is said");
    }
}
