//! Looks at the ranks of one host or of several. Each host is looked at by a process of its own, also this one: what reads a
//! damaged process may end with it.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use launch::attach::{Interval, Observed, Target, find, look};
use process::child::{Ended, filter, printable};
use serde::{Deserialize, Serialize};
use terms::Error;

/// What the way to a host, and reading its processes, may take beside the looks.
const READING: Duration = Duration::from_secs(60);
/// Ranks of one host that are looked at.
const MOST: usize = 4096;

/// What one host shows.
#[derive(Serialize, Deserialize)]
struct HostView {
    kind: String,
    /// Within what the numbers of processes mean something: two names may be of one host.
    machine: String,
    ranks: Vec<Observed>,
}

const KIND: &str = "hang_part";

/// What all hosts show.
pub struct Looked {
    pub(super) ranks: Vec<Observed>,
    /// Hosts that could not be looked at, and why, a sentence each.
    pub(super) notes: Vec<String>,
}

/// The ranks of this host, as one line of JSON for the process that asks.
///
/// # Errors
/// When they cannot be written as JSON.
pub fn part(target: &Target, interval: Interval) -> Result<String, Error> {
    let mut found = find(target);
    found.truncate(MOST);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| process::host_name());
    let machine = format!("{} {}", boot.trim(), process::pid_namespace().unwrap_or(0));
    let part = HostView { kind: KIND.to_owned(), machine, ranks: look(found, interval) };
    let line = serde_json::to_string(&part).map_err(|error| Error::new("the ranks cannot be shown").cause(error))?;
    Ok(line + "\n")
}

/// Looks at the ranks that are meant, on all hosts at the same time. Programs that lead to other hosts are looked for in
/// `search`.
///
/// # Errors
/// When no rank is found, or no way leads to a host.
pub fn collect(target: &Target, hosts: &[String], interval: Interval, search: &[PathBuf]) -> Result<Looked, Error> {
    if let Target::Processes(pids) = target {
        let lacks = pids.iter().find(|pid| process::began(**pid).is_none());
        if let Some(pid) = lacks {
            return Err(Error::new(format!("there is no process {pid} on this host"))
                .hint("`ps -e` lists processes; of another host, name it: `--hosts HOST`"));
        }
    }
    let ways = ways(target, hosts, interval, search)?;
    let limit = interval.0 + READING;
    let answers: Vec<Result<Vec<HostView>, String>> = std::thread::scope(|scope| {
        let started: Vec<_> = ways.iter().map(|way| scope.spawn(|| way.ask(limit))).collect();
        started.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("the look failed".to_owned()))).collect()
    });
    let mut looked = Looked { ranks: Vec::new(), notes: Vec::new() };
    looked.notes.extend(ways.iter().filter_map(|way| way.note.clone()));
    let (mut failed, mut seen) = (Vec::new(), HashSet::new());
    for (way, answer) in ways.iter().zip(answers) {
        match answer {
            Ok(parts) => {
                for HostView { machine, ranks, .. } in parts {
                    looked.ranks.extend(ranks.into_iter().filter(|rank| seen.insert((machine.clone(), rank.pid))));
                }
            }
            Err(why) => failed.push(format!("{} could not be looked at: {why}", way.title)),
        }
    }
    if looked.ranks.is_empty() {
        return Err(nothing(target, &failed));
    }
    looked.notes.extend(failed);
    Ok(looked)
}

/// Why there is no rank.
fn nothing(target: &Target, failed: &[String]) -> Error {
    if !failed.is_empty() {
        let hint = "`rankmark hang --pid PID` on the host itself needs neither ssh nor srun";
        return Error::new("no rank was found").cause(failed.join("; ")).hint(hint);
    }
    let (cause, hint) = match target {
        Target::Processes(_) => ("the process has ended", "`ps -e` lists processes"),
        Target::Slurm(_) => (
            "no process of this job with a number of a rank could be read",
            "`squeue` lists jobs; only their user and root can read their processes",
        ),
        Target::Host => (
            "no process has a number of a rank in its environment (RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID)",
            "name processes: `rankmark hang --pid PID`; only their user and root can read them",
        ),
    };
    Error::new("no rank was found").cause(cause).hint(hint)
}

/// How the processes of one host, or of all nodes of a job, are looked at.
struct Way {
    title: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    note: Option<String>,
}

fn ways(target: &Target, hosts: &[String], interval: Interval, search: &[PathBuf]) -> Result<Vec<Way>, Error> {
    let here = |note: Option<String>| Way {
        title: "this host".to_owned(),
        program: process::ITSELF.into(),
        arguments: own_arguments(target, interval).into_iter().map(OsString::from).collect(),
        note,
    };
    if let Target::Slurm(job) = target {
        return match process::first_program(search, "srun") {
            Some(srun) => Ok(vec![by_srun(srun, job, target, interval)?]),
            None => Ok(vec![here(Some("srun is not installed here: only this host was looked at".to_owned()))]),
        };
    }
    if hosts.is_empty() {
        return Ok(vec![here(None)]);
    }
    let own = process::host_name();
    hosts
        .iter()
        .map(
            |host| {
                if *host == own || host == "localhost" {
                    Ok(here(None))
                } else {
                    by_ssh(host, target, interval, search)
                }
            },
        )
        .collect()
}

/// The arguments with which a process looks at its host.
fn own_arguments(target: &Target, interval: Interval) -> Vec<String> {
    let mut words = vec!["hang".to_owned(), "--part".to_owned()];
    words.push(format!("--interval={}s", interval.0.as_secs_f64()));
    match target {
        Target::Processes(pids) => words.extend(pids.iter().map(|pid| format!("--pid={pid}"))),
        Target::Slurm(job) => words.push(format!("--slurm={job}")),
        Target::Host => {}
    }
    words
}

/// This program, by the path that hosts with a shared file system have in common.
fn own_path() -> Result<String, Error> {
    let path = std::env::current_exe().map_err(|error| Error::new("this program has no path").cause(error))?;
    let hint = "start rankmark by a path of plain characters";
    path.into_os_string().into_string().map_err(|_| Error::new("the path of this program is not text").hint(hint))
}

/// One process on each node of the job, beside the job's own.
fn by_srun(srun: PathBuf, job: &str, target: &Target, interval: Interval) -> Result<Way, Error> {
    if job.is_empty() || !job.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+.".contains(&byte)) {
        return Err(Error::new(format!("`{job}` is not the number of a job of Slurm")).hint("`squeue` lists jobs"));
    }
    let mut words = vec![format!("--jobid={job}"), "--overlap".to_owned(), "--ntasks-per-node=1".to_owned()];
    // A step like that of an MPI job would wait for its other ranks.
    words.extend(["--mpi=none", "--cpu-bind=none"].map(str::to_owned));
    words.push(own_path()?);
    words.extend(own_arguments(target, interval));
    let arguments = words.into_iter().map(OsString::from).collect();
    Ok(Way { title: format!("job {job}"), program: srun, arguments, note: None })
}

fn by_ssh(host: &str, target: &Target, interval: Interval, search: &[PathBuf]) -> Result<Way, Error> {
    // What begins with a dash is an option for ssh, and such an option can run anything.
    if host.is_empty() || host.starts_with('-') || host.chars().any(|letter| letter.is_control() || letter == ' ') {
        return Err(Error::new(format!("`{host}` is not the name of a host")).hint("for example --hosts node01,node02"));
    }
    let Some(ssh) = process::first_program(search, "ssh") else {
        return Err(Error::new("ssh is not installed here").hint("run `rankmark hang --pid PID` on each host"));
    };
    // A shell of the other host reads the words again.
    let quoted = |word: String| format!("'{}'", word.replace('\'', "'\\''"));
    let mut words = vec![own_path()?];
    words.extend(own_arguments(target, interval));
    let line = words.into_iter().map(quoted).collect::<Vec<_>>().join(" ");
    // Nobody is there to answer a question for a password.
    let options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-T", "--"].map(OsString::from);
    let arguments = options.into_iter().chain([host.into(), line.into()]).collect();
    Ok(Way { title: host.to_owned(), program: ssh, arguments, note: None })
}

impl Way {
    /// The ranks that are seen this way. Else why not.
    fn ask(&self, limit: Duration) -> Result<Vec<HostView>, String> {
        let arguments: Vec<&OsStr> = self.arguments.iter().map(OsString::as_os_str).collect();
        let name = || Path::new(&self.program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (out, outcome) =
            filter(&self.program, &arguments, &[], limit).map_err(|error| format!("{}: {error}", name()))?;
        let lines = out.split(|byte| *byte == b'\n').filter(|line| line.first() == Some(&b'{'));
        let parts: Vec<HostView> = lines.filter_map(|line| record::from_json(line).ok()).collect();
        let parts: Vec<HostView> = parts.into_iter().filter(|part: &HostView| part.kind == KIND).collect();
        if parts.is_empty() {
            let hint = match outcome.ended {
                Ended::Code(127) => " (rankmark must have the same path there as here)",
                _ => "",
            };
            return Err(format!("{} {}{hint}", printable(&name()), outcome.complaint()));
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_another_shell_are_quoted_and_options_refused() {
        let interval = Interval(Duration::from_millis(1500));
        let words = own_arguments(&Target::Processes(vec![7, 8]), interval);
        assert_eq!(words, ["hang", "--part", "--interval=1.5s", "--pid=7", "--pid=8"]);
        for host in ["-oProxyCommand=x", "", "a b", "a\nb"] {
            assert!(by_ssh(host, &Target::Host, interval, &[]).is_err(), "{host}");
        }
        for job in ["", "1 2", "-n2", "1;2"] {
            assert!(by_srun("srun".into(), job, &Target::Host, interval).is_err(), "{job}");
        }
    }
}
