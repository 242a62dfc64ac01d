//! What a launcher leaves behind and lets slip: its own death, keys of its job in records, ranks that do not use its MPI.
//! Where none is installed, `timeout` starts each process, with what srun says in its environment.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use crate::place::{Live, Place, json_lines, reason, statuses};
use crate::processes::wait_until;
use crate::skip;

const LONG: &str = "comm all_reduce,all_gather --bytes 1KiB --max-seconds 600s --target-precision 0 --limits false \
                    --output-dir r";
const SHORT: &str = "comm all_reduce --bytes 1KiB --iters 6 --warmup 1 --limits false --output-dir r";

/// Two seconds, and what a machine with other work takes to write a report.
const SOON: Duration = Duration::from_secs(8);

/// Two processes of a step of srun, each below a process of its own.
fn step<'a>(place: &'a Place, arguments: &str, more: &[(&str, &str)]) -> Vec<Live<'a>> {
    let start = |rank: u32| {
        let mut starting = place.command_under("timeout 300", arguments);
        starting.command.env("XDG_RUNTIME_DIR", place.temporary()).envs(more.iter().copied()).envs([
            ("SLURM_PROCID", rank.to_string()),
            ("SLURM_STEP_NUM_TASKS", "2".to_owned()),
            ("SLURM_STEP_TASKS_PER_NODE", "2".to_owned()),
            ("SLURM_JOB_ID", "4711".to_owned()),
            ("SLURM_STEP_ID", "0".to_owned()),
        ]);
        starting.start()
    };
    (0..2).map(start).collect()
}

/// Kills what started rank `of`; everything of the run ends, and its record says why.
fn kill_starter(of: usize) {
    let place = Place::new();
    let steps = step(&place, LONG, &[]);
    steps[0].await_lines(&place.path("r/run.json"), 1);
    std::thread::sleep(Duration::from_millis(300));
    let pid = steps[of].pid();
    steps[of].signal(libc::SIGKILL);
    let since = Instant::now();
    let gone = || steps.iter().all(|live| live.processes().is_empty());
    assert!(wait_until(SOON, gone), "after {:?}: {:?}", since.elapsed(), steps[0].processes());
    let ended: Vec<_> = steps.into_iter().map(Live::wait).collect();
    assert_eq!(ended[of].status.signal(), Some(libc::SIGKILL));
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [0, 1, 0, 1], "{ended:?}");
    let why = format!("the launcher's process `timeout` (pid {pid}), this host, ended while its ranks were needed");
    assert!(cases.iter().all(|line| reason(line) == why), "{why}: {cases:?}");
    assert!(place.read("r/report.md").contains(&format!("(pid {pid})")), "the report says it, too");
}

#[test]
fn a_killed_launcher_ends_its_run() {
    kill_starter(0);
    kill_starter(1);
}

#[test]
fn a_killed_launcher_ends_those_who_wait_for_their_coordinator() {
    let place = Place::new();
    let alone = step(&place, LONG, &[]).pop().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    alone.signal(libc::SIGKILL);
    assert!(wait_until(SOON, || alone.processes().is_empty()), "{:?}", alone.processes());
}

/// Starts two ranks by this launcher and kills it; everything of the run ends, and its record says why. `proxy`: ranks are
/// children of a process between, which ends with the launcher and may first ask them to end.
fn kill_launcher(launcher: &str, backend: &str, proxy: bool) {
    let place = Place::new();
    let mut starting = place.command_under(&format!("{launcher} 2"), &format!("{LONG} --backend {backend}"));
    starting.command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let live = starting.start();
    live.await_lines(&place.path("r/run.json"), 1);
    std::thread::sleep(Duration::from_millis(500));
    live.signal(libc::SIGKILL);
    let told = format!("{launcher}, backend {backend}");
    assert!(wait_until(SOON, || live.processes().is_empty()), "{told}: {:?}", live.processes());
    let pid = live.pid();
    drop(live.wait());
    let cases = place.cases("r");
    assert_eq!(cases.len(), 2, "{told}");
    let whys = match proxy {
        false => vec![format!("(pid {pid}), this host, ended while its ranks were needed")],
        true => vec![", this host, ended while its ranks were needed".to_owned(), "interrupted by SIGTERM".to_owned()],
    };
    let is_told = |line: &serde_json::Value| whys.iter().any(|why| reason(line).contains(why));
    assert!(cases.iter().all(is_told), "{told}: {cases:?}");
}

#[test]
fn a_killed_mpirun_ends_its_run() {
    for (mpirun, package, proxy) in
        [("mpirun.openmpi --oversubscribe", "openmpi-bin", false), ("mpiexec.mpich", "mpich", true)]
    {
        let program = mpirun.split(' ').next().unwrap_or_default();
        if !std::path::Path::new("/usr/bin").join(program).exists() {
            skip::skip("a killed mpirun", &format!("no {program} (Debian: {package})"));
            continue;
        }
        ["shm", "mpi"].iter().for_each(|backend| kill_launcher(&format!("/usr/bin/{mpirun} -n"), backend, proxy));
    }
}

#[test]
fn a_killed_torchrun_ends_its_run() {
    match crate::external::torchrun() {
        Some(torchrun) => kill_launcher(&format!("{} --no-python --nproc-per-node", torchrun.display()), "shm", false),
        None => skip::skip("a killed torchrun", "no torchrun on the path, and RANKMARK_TEST_TORCHRUN names none"),
    }
}

#[test]
fn the_first_line_says_that_ranks_do_not_use_mpi() {
    const NOTE: &str = "note: the 2 ranks that srun started use shared memory (backend shm, the default). `--backend \
                        mpi` measures the launcher's own library.\n";
    let place = Place::new();
    let run = |more: &str| {
        let record = format!("r{}", place.names().len());
        let arguments = format!("{} {more}", SHORT.replace("--output-dir r", &format!("--output-dir {record}")));
        let ended: Vec<_> = step(&place, &arguments, &[]).into_iter().map(|live| live.wait().exits(0)).collect();
        assert_eq!((ended[1].out.as_str(), ended[1].err.as_str()), ("", ""), "only rank 0 speaks");
        (ended[0].out.clone(), ended[0].err.clone())
    };
    assert!(run("").0.starts_with(NOTE));
    let (out, err) = run("--json");
    assert!(err.starts_with(NOTE) && json_lines(&out).len() == 1, "{out}{err}");
    assert!(!run("--backend shm").0.contains("note: the 2 ranks"), "who names it knows it");
    assert!(!run("--quiet").0.contains("note:"));
    // Without a launcher there is no MPI to expect.
    assert!(!place.run(SHORT).exits(0).out.contains("note: the"));
}

#[test]
fn a_record_keeps_no_key_of_its_job_and_is_repeated_under_its_launcher() {
    const KEYS: [(&str, &str); 5] = [
        ("OMPI_MCA_orte_precondition_transports", "kkkk1-transports"),
        ("OMPI_MCA_orte_hnp_uri", "kkkk2-uri"),
        ("PMIX_SECURITY_KEY", "kkkk3-pmix"),
        ("UCX_NONCE", "kkkk4-nonce"),
        ("NCCL_API_TOKEN", "kkkk5-token"),
    ];
    let place = Place::new();
    let arguments = format!("{SHORT} --expect time_s<=0");
    let more: Vec<_> = KEYS.into_iter().chain([("UCX_TLS", "kept")]).collect();
    step(&place, &arguments, &more).into_iter().for_each(|live| drop(live.wait().exits(1)));
    for entry in walk(&place.path("r")) {
        let text = String::from_utf8_lossy(&std::fs::read(&entry).unwrap()).into_owned();
        assert!(!text.contains("kkkk"), "{}", entry.display());
    }
    let report = place.read("r/report.md");
    let again = report.lines().find(|line| line.contains("UCX_TLS=kept ")).unwrap_or_else(|| panic!("{report}"));
    assert!(again.contains("UCX_TLS=kept srun -N 1 -n 2 ") && again.contains(" comm all_reduce "), "{again}");
    assert!(!again.contains("SLURM_"), "{again}");
    assert_eq!(place.run_file("r")["launcher"].to_string(), r#"["srun","-N","1","-n","2"]"#);
    assert_eq!(place.run_file("r")["environment"]["SLURM_JOB_ID"], "4711", "the record says which job it was");
    // What is missing is run under the launcher, too.
    let plan = "experiment: a\ncases:\n  - {benchmark: collective, op: all_reduce, bytes: 1KiB, inject: \"kill:rank=1,at=5\"}\n";
    place.write("plan.yaml", plan);
    let ended: Vec<_> = step(&place, "run plan.yaml --output-dir again", &[]).into_iter().map(Live::wait).collect();
    assert!(ended[0].out.contains("rerun just these: srun -N 1 -n 2 rankmark run --resume again"), "{ended:?}");
    assert!(place.read("again/report.md").contains("srun -N 1 -n 2 rankmark run --resume again"));
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
