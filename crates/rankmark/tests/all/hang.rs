//! `rankmark hang`: a job that runs is looked at from outside.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::{Ended, Place};
use crate::processes::wait_until;
use crate::skip;

/// What the ranks of these tests do: a rank that is told nothing waits for a socket in a function of the user's file. A package
/// with the file names of torch makes calls.
const TRAIN: &str = "\
import os, socket, sys, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + '/site-packages')
from torch.distributed import distributed_c10d as dist

def step(what):
    if what == 'moves':
        return move()
    if what == 'sleeps':
        return evaluate()
    if what == 'barrier':
        return dist.barrier()
    if what.startswith('recv'):
        return dist.recv(None, int(what[4:]))
    dist.all_reduce(None)

def evaluate():
    time.sleep(100)

def move():
    while True:
        time.sleep(0.002)
        sum(range(20000))
        sorted(range(20000))

open(sys.argv[2], 'w').close()
step(sys.argv[1])
";

const TORCH: &str = "\
import socket

pair = socket.socketpair()

def all_reduce(tensor):
    pair[0].recv(1)

def barrier():
    pair[0].recv(1)

def recv(tensor, src=None):
    pair[0].recv(1)
";

/// Writes what ranks run.
pub(crate) fn write_scripts(place: &Place) {
    std::fs::create_dir_all(place.path("site-packages/torch/distributed")).unwrap();
    place.write("train.py", TRAIN).write("site-packages/torch/distributed/distributed_c10d.py", TORCH);
}

/// Ranks of a job; killed when dropped.
struct Job(Vec<Child>);

impl Drop for Job {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Job {
    /// A rank for each word. None without Python.
    fn start(place: &Place, name: &str, does: &[&str], variables: &[(&str, &str)]) -> Option<Self> {
        if Command::new("python3").arg("--version").output().is_err() {
            skip::skip(name, "no python3");
            return None;
        }
        write_scripts(place);
        let mut job = Self(Vec::new());
        let size = does.len().to_string();
        for (rank, what) in does.iter().enumerate() {
            let mut command = Command::new("python3");
            command.arg(place.path("train.py")).arg(what).arg(place.path(&format!("there-{rank}")));
            command.env("RANK", rank.to_string()).env("WORLD_SIZE", &size);
            command.envs(variables.iter().copied()).stdin(Stdio::null()).stdout(Stdio::null());
            job.0.push(command.spawn().unwrap());
        }
        let is_there = |rank: usize| place.path(&format!("there-{rank}")).exists();
        assert!(wait_until(Duration::from_secs(60), || (0..does.len()).all(is_there)), "the ranks never came");
        std::thread::sleep(Duration::from_millis(200));
        Some(job)
    }

    fn pids(&self) -> String {
        self.0.iter().fold(String::new(), |mut all, child| {
            let _ = write!(all, " {}", child.id());
            all
        })
    }

    fn signal(&self, rank: usize, signal: i32) {
        // SAFETY: a plain system call on a child that was not waited for.
        assert_eq!(unsafe { libc::kill(self.0[rank].id() as i32, signal) }, 0);
    }
}

fn words(ended: &Ended) -> String {
    ended.out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn parsed(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {}", ended.out))
}

fn line_of(text: &str) -> usize {
    TRAIN.lines().position(|line| line.contains(text)).unwrap() + 1
}

#[test]
fn the_cause_is_the_first_sentence_and_each_rank_a_row() {
    let place = Place::new();
    let name = "a hang of two processes of Python";
    let Some(job) = Job::start(&place, name, &["all_reduce", "all_reduce", "barrier"], &[]) else { return };
    let ended = place.run(&format!("hang --interval 400ms --pid{}", job.pids())).exits(1);
    let (reduces, leaves) = (line_of("dist.all_reduce"), line_of("dist.barrier"));
    let first = format!(
        "Rank 2 is in barrier (train.py:{leaves}) while ranks 0, 1 are in all_reduce (train.py:{reduces}). rank host"
    );
    assert!(words(&ended).starts_with(&first), "{}", ended.out);
    let rows: Vec<&str> = ended.out.lines().filter(|line| line.contains("waits")).collect();
    assert_eq!(rows.len(), 3, "{}", ended.out);
    for (rank, row) in rows.iter().enumerate() {
        let operation = if rank == 2 { "barrier" } else { "all_reduce" };
        let pid = job.0[rank].id().to_string();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!((cells[0], cells[2], cells[3], cells[4]), (rank.to_string().as_str(), &*pid, "waits", operation));
        assert!(row.contains("step (") && row.contains("/train.py:"), "{row}");
    }
    let json = parsed(&place.run(&format!("hang --interval 400ms --json --pid{}", job.pids())).exits(1));
    assert_eq!((&json["kind"], &json["is_hung"]), (&json!("hang"), &json!(true)), "{json}");
    let cause = json!({"problem": "other_operation", "ranks": [2], "call": "all_reduce", "arrived": [0, 1]});
    assert_eq!(json["hang"]["causes"], json!([cause]), "{json}");
    let ranks = json["ranks"].as_array().unwrap();
    let stopped: Vec<u64> = ranks.iter().map(|rank| rank["stopped_us"].as_u64().unwrap()).collect();
    assert!(ranks.len() == 3 && stopped.iter().all(|stopped| (1..100_000).contains(stopped)), "{stopped:?}");
    assert_eq!(ranks[2]["call"]["operation"], "barrier");
    assert_eq!(ranks[0]["place"], format!("train.py:{reduces}"));
}

#[test]
fn a_rank_that_never_arrives_is_told_with_its_place() {
    let place = Place::new();
    let Some(job) = Job::start(&place, "a rank that never arrives", &["all_reduce", "sleeps"], &[]) else { return };
    let ended = place.run(&format!("hang --interval 400ms --pid{}", job.pids())).exits(1);
    let (reduces, sleeps) = (line_of("dist.all_reduce"), line_of("time.sleep(100)"));
    let said = words(&ended);
    assert!(said.starts_with("Rank 1 did not reach all_reduce; rank 0 waits in it: step ("), "{said}");
    assert!(said.contains(&format!("train.py:{reduces})")) && said.contains("; rank 1 sleeps in evaluate ("), "{said}");
    assert!(said.contains(&format!("train.py:{sleeps})")), "{said}");
    // One rank of two: the other was not looked at.
    let alone = words(&place.run(&format!("hang --interval 400ms --pid {}", job.0[0].id())).exits(1));
    assert!(alone.starts_with("No process of rank 1 was found; rank 0 waits in all_reduce"), "{alone}");
    let sleeps = words(&place.run(&format!("hang --interval 400ms --pid {}", job.0[1].id())).exits(0));
    assert!(sleeps.starts_with("No rank waits for another."), "{sleeps}");
}

#[test]
fn a_job_that_moves_is_not_a_hang() {
    let place = Place::new();
    let Some(job) = Job::start(&place, "a job that moves", &["all_reduce", "moves"], &[]) else { return };
    // On a busy machine a rank may be at one place in two looks.
    let look = |pids: &str, wanted: &str| {
        let looks = (0..8).map(|_| words(&place.run(&format!("hang --interval 1s --pid{pids}")).exits(0)));
        let mut seen = Vec::new();
        for said in looks {
            if said.starts_with(wanted) {
                return said;
            }
            seen.push(said);
        }
        panic!("never `{wanted}`: {seen:?}")
    };
    let said = look(&job.pids(), "No hang is proven: rank 1 moves (train.py:");
    assert!(said.contains("while rank 0 waits in all_reduce (train.py:"), "{said}");
    look(&format!(" {}", job.0[1].id()), "No hang: rank 1 goes on.");
}

#[test]
fn who_does_not_send_and_who_was_stopped_are_named() {
    let place = Place::new();
    let Some(job) = Job::start(&place, "ranks in transfers", &["recv1", "recv0", "recv1"], &[]) else { return };
    let said = words(&place.run(&format!("hang --interval 400ms --pid{}", job.pids())).exits(1));
    let at = line_of("dist.recv(");
    assert!(
        said.starts_with(&format!(
            "Rank 1 did not send to ranks 0, 2: rank 0 waits to receive from rank 1 (train.py:{at})"
        )),
        "{said}"
    );
    assert!(said.contains("recv from rank 1"), "{said}");
    job.signal(1, libc::SIGSTOP);
    let said = words(&place.run(&format!("hang --interval 400ms --pid{}", job.pids())).exits(1));
    assert!(
        said.starts_with(&format!(
            "Rank 1 is stopped by a signal or a debugger (train.py:{at}): `kill -CONT {}` on ",
            job.0[1].id()
        )),
        "{said}"
    );
}

#[test]
fn a_launchers_number_means_the_ranks_below_it() {
    let place = Place::new();
    let Some(job) = Job::start(&place, "ranks below a launcher", &["sleeps"], &[]) else { return };
    drop(job);
    // Each rank has a shell above it and a worker below it, all with the same variables.
    let script = "for rank in 0 1; do RANK=$rank WORLD_SIZE=2 sh -c 'python3 worker.py $0; :' up-$rank & done; wait\n";
    let worker = "import os, sys\nif os.fork() == 0:\n    import time\n    time.sleep(100)\nsys.argv = ['train.py', 'all_reduce', \
                  sys.argv[1]]\n__file__ = os.path.abspath('train.py')\nexec(compile(open('train.py').read(), __file__, 'exec'))\n";
    place.write("launch.sh", script).write("worker.py", worker);
    let mut launcher = Command::new("sh");
    launcher.arg("launch.sh").current_dir(place.path(".")).stdin(Stdio::null());
    // A group of its own, so that all of it can be ended.
    std::os::unix::process::CommandExt::process_group(&mut launcher, 0);
    let mut launcher = launcher.spawn().unwrap();
    let is_there = || (0..2).all(|rank| place.path(&format!("up-{rank}")).exists());
    let came = wait_until(Duration::from_secs(60), is_there);
    std::thread::sleep(Duration::from_millis(200));
    let ended = place.run(&format!("hang --interval 400ms --json --pid {}", launcher.id()));
    // SAFETY: a plain system call on a group whose leader was not waited for.
    unsafe { libc::kill(-(launcher.id() as i32), libc::SIGKILL) };
    let _ = launcher.wait();
    assert!(came);
    let json = parsed(&ended.exits(1));
    let ranks = json["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), 2, "{json}");
    assert!(ranks.iter().all(|rank| rank["call"]["operation"] == "all_reduce"), "{json}");
    assert_eq!(json["hang"]["causes"][0]["problem"], "not_finished");
}

/// A program that stands in for `ssh` or `srun`: it runs what it was given here, as if on another host.
fn stand_in(place: &Place, name: &str, script: &str) -> String {
    std::fs::create_dir_all(place.path("bin")).unwrap();
    place.write(
        &format!("bin/{name}"),
        format!("#!/bin/sh\necho \"$@\" >> {}\n{script}", place.path("asked").display()),
    );
    let path = place.path(&format!("bin/{name}"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}", place.path("bin").display())
}

#[test]
fn other_nodes_are_looked_at_through_srun_and_ssh() {
    let place = Place::new();
    let job = "987654321";
    let does = ["all_reduce", "barrier"];
    let Some(ranks) = Job::start(&place, "ranks on other hosts", &does, &[("SLURM_JOB_ID", job)]) else { return };
    // The options end where the path begins.
    let path = stand_in(&place, "srun", "while case $1 in -*) true;; *) false;; esac; do shift; done\nexec \"$@\"\n");
    let mut run = place.command(&format!("hang --interval 400ms --json --slurm {job}"));
    run.command.env("PATH", &path);
    let json = parsed(&run.run().exits(1));
    assert_eq!(json["hang"]["causes"][0]["ranks"], json!([1]), "{json}");
    let asked = place.read("asked");
    assert!(asked.starts_with(&format!("--jobid={job} --overlap --ntasks-per-node=1 ")), "{asked}");
    // Another job has no processes here.
    let mut run = place.command("hang --interval 400ms --slurm 5");
    run.command.env("PATH", &path);
    run.run().refuses(&["no rank was found", "no process of this job", "hint:"]);

    // Of two hosts, one shows the ranks, and one cannot be reached.
    let script = "while [ \"$1\" != -- ]; do shift; done\ncase $2 in away) echo no route >&2; exit 255;; esac\n\
                  exec sh -c \"$3\"\n";
    let path = stand_in(&place, "ssh", script);
    let hosts = |hosts: &str| {
        let mut run = place.command(&format!("hang --interval 400ms --hosts {hosts}"));
        run.command.env("PATH", &path);
        run.run()
    };
    // Other tests run ranks at the same time: these ask for all ranks of a host.
    let said = hosts("node1,away");
    if said.status.code() == Some(2) {
        assert!(said.err.contains("more than one job was found"), "{}", said.err);
    } else {
        let note = words(&said);
        assert!(note.contains("note: away could not be looked at: ssh ended with code 255: no route"), "{note}");
    }
    hosts("away").refuses(&["no rank was found", "away could not be looked at: ssh ended with code 255: no route"]);
    hosts("-oProxyCommand=x").exits(2);
    drop(ranks);
}

#[test]
fn dumps_and_ras_add_what_stacks_do_not_show() {
    let place = Place::new();
    let does = ["all_reduce", "all_reduce"];
    let Some(job) = Job::start(&place, "dumps beside a job that runs", &does, &[]) else { return };
    let call = |rank: u32| {
        json!({"rank": rank, "host": "10.0.0.1", "pid": 7 + rank, "cuda_dev": 0, "nvml_dev": 0,
            "status": {"init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": false},
            "collective_counts": {"AllReduce": 5 - rank, "Broadcast": 1}})
    };
    let answer = json!({"nccl_version": "2.29.1", "timestamp": "2025-12-19 13:06:53", "communicators_count": 1,
        "communicators": [{"hash": "0xae", "secondary_hash": "0xb7:0xb8", "size": 2, "ranks_count": 2,
            "missing_ranks_count": 0, "ranks": [call(0), call(1)], "missing_ranks": []}]});
    place.write("ras.json", answer.to_string());
    let behind =
        "ank 1 has called all_reduce 4 times in communicator 0xae, and rank 0 5 times; rank 1 is process 8 on 10.0.0.1";
    let said = words(&place.run(&format!("hang --interval 400ms --ras ras.json --pid{}", job.pids())).exits(1));
    assert!(said.contains(behind) && said.starts_with("Ranks 0, 1 entered all_reduce, and it ended nowhere"), "{said}");
    // `ncclras` gives the same, and another count the second time: the job moves.
    let cat = format!("cat {}\n", place.path("ras.json").display());
    let path = stand_in(&place, "ncclras", &cat);
    let asks = |place: &Place| {
        let mut run = place.command(&format!("hang --interval 400ms --ras node1:28028 --pid{}", job.pids()));
        run.command.env("PATH", &path);
        words(&run.run())
    };
    assert!(asks(&place).contains(behind));
    assert!(place.read("asked").starts_with("-h node1 -p 28028 -f json\n"), "{}", place.read("asked"));
    let changed = format!("{cat}sed -i 's/:5,/:6,/' {}\n", place.path("ras.json").display());
    stand_in(&place, "ncclras", &changed);
    let moved = asks(&place);
    assert!(moved.starts_with("No hang: NCCL RAS counts more calls than at the first look."), "{moved}");
    place.run("hang --ras nowhere --pid 1").refuses(&["neither an address nor a file"]);
    // The same file, explained without a job.
    let explained = place.run("profile --import ras.json --output-dir out").exits(0);
    assert!(
        words(&explained).contains("ank 1 has called all_reduce 4 times in communicator 0xae"),
        "{}",
        explained.out
    );
    assert!(explained.out.contains("2 ranks, no steps; traced by NCCL RAS"), "{}", explained.out);

    let dump = |rank: u32| {
        json!({"version": "2.5", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, "pg_status": {},
            "entries": [{"record_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": 7, "p2p_seq_id": 0,
                "profiling_name": "nccl:all_reduce", "input_sizes": [[5 + rank]], "output_sizes": [[5 + rank]],
                "input_dtypes": ["Float"], "output_dtypes": ["Float"], "is_p2p": false, "retired": false, "state": "started",
                "time_created_ns": 1_724_779_239_000_000_000_u64, "frames": []}]})
    };
    std::fs::create_dir(place.path("dumps")).unwrap();
    for rank in 0..2 {
        place.write(&format!("dumps/fr_rank_{rank}.json"), dump(rank).to_string());
    }
    let said = words(&place.run(&format!("hang --interval 400ms --dumps dumps --pid{}", job.pids())).exits(1));
    assert!(said.starts_with("Rank 1: size differs: 6 elements in all_reduce #7 of 0 (default_pg)"), "{said}");
}

#[test]
fn what_cannot_be_looked_at_is_refused() {
    let place = Place::new();
    place.run("hang").refuses(&["no job is named", "--pid PID"]);
    place.run("hang --pid 2147483647").refuses(&["there is no process 2147483647"]);
    place.run("hang --pid 1 --slurm 2").refuses(&["--slurm"]);
    place.run("hang --pid 1 --interval 1ms").refuses(&["too short"]);
    place.run("hang --pid 1 --interval 1e30s").refuses(&["too long"]);
    place.run("hang --slurm 1;2").refuses(&["is not the number of a job"]);
    let mut none = place.command("hang --slurm 5 --interval 200ms");
    none.command.env("PATH", "");
    none.run().refuses(&["no rank was found"]);
}

/// A name of a function may hold what moves a cursor. Python allows letters only, so a native thread has it: its name.
#[test]
fn text_of_a_process_cannot_write_to_the_terminal() {
    let place = Place::new();
    let Some(job) = Job::start(&place, "a file with an escape in its name", &["all_reduce"], &[]) else { return };
    drop(job);
    let odd = "tr\u{1b}[31main.py";
    std::fs::copy(place.path("train.py"), place.path(odd)).unwrap();
    let mut command = Command::new("python3");
    command.arg(place.path(odd)).arg("all_reduce").arg(place.path("odd")).env("RANK", "0").stdin(Stdio::null());
    let odd = Job(vec![command.spawn().unwrap()]);
    assert!(wait_until(Duration::from_secs(60), || place.path("odd").exists()));
    std::thread::sleep(Duration::from_millis(200));
    for json in ["", "--json "] {
        let ended = place.run(&format!("hang --interval 400ms {json}--pid{}", odd.pids())).exits(1);
        assert!(ended.out.contains("all_reduce") && !ended.out.contains('\u{1b}'), "{:?}", ended.out);
    }
}

/// The folder of jobs with planted faults, which only some checkouts have beside them.
fn cases() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/jobs4")
}

/// A real job of PyTorch with gloo that hangs.
fn torch_job(place: &Place, python: &str, script: &str, ranks: u32) -> Job {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let start = |rank: u32| {
        let mut command = Command::new(python);
        command.arg(place.path(script)).current_dir(place.path("."));
        command.env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string()).env("WORLD_SIZE", ranks.to_string());
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port).env("OMP_NUM_THREADS", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    Job((0..ranks).map(start).collect())
}

#[test]
fn jobs_of_pytorch_that_hang_are_explained_while_they_run() {
    let name = "jobs of PyTorch that hang, seen from outside";
    if !skip::heavy(name) {
        return;
    }
    let Some(python) = std::env::var_os("RANKMARK_TEST_PYTHON") else {
        return skip::skip(name, "no RANKMARK_TEST_PYTHON");
    };
    if !cases().is_dir() {
        return skip::skip(name, "no jobs beside this checkout");
    }
    let python = python.into_string().unwrap();
    for (script, ranks, expected) in [
        ("hang_leave.py", 2, "Rank 1 is in barrier (hang_leave.py:8) while rank 0 is in all_reduce (hang_leave.py:7)"),
        ("hang_p2p.py", 3, "Rank 1 did not send to ranks 0, 2: "),
    ] {
        let place = Place::new();
        std::fs::copy(cases().join(script), place.path(script)).unwrap();
        let job = torch_job(&place, &python, script, ranks);
        let begun = Instant::now();
        let mut said = String::new();
        let mut is_hung = false;
        while !is_hung && begun.elapsed() < Duration::from_secs(90) {
            let ended = place.run(&format!("hang --interval 2s --pid{}", job.pids()));
            is_hung = ended.status.code() == Some(1) && !words(&ended).contains("init_process_group");
            said = words(&ended) + &ended.err;
        }
        assert!(said.starts_with(expected), "{script}: {said}");
        let json = parsed(&place.run(&format!("hang --json --pid{}", job.pids())).exits(1));
        for rank in json["ranks"].as_array().unwrap() {
            let stopped = rank["stopped_us"].as_u64().unwrap();
            assert!(stopped > 0 && stopped < 100_000, "{script}: {rank}");
        }
    }
}
