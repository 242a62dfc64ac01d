//! `gen-job`: what it refuses, and its files run for real.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::place::{Place, statuses};
use crate::skip;

const PLAN: &str = "experiment: tiny\ndefaults: {bytes: 1KiB, iters: 6, warmup: 1, trials: 1, limits: false}\ncases:\n  \
    - {benchmark: collective, op: all_reduce, ranks: [1, 2]}\n  - {benchmark: collective, op: all_gather, ranks: 2}\n";

/// The names of a plan that a shell, a directive or YAML could take for something else.
const HOSTILE: &str = "it's $(touch evil) `touch evil`; \"x\" \\ * \u{e9}.yaml";

fn gen_job(place: &Place, target: &str, plan: &str, arguments: &str) -> crate::place::Ended {
    place.command(&format!("gen-job --for {target} {arguments}")).argument(plan).run()
}

#[test]
fn what_cannot_be_a_job_is_refused() {
    let place = Place::new();
    place.write("plan.yaml", PLAN).write("bad.yaml", "cases: [{benchmark: nothing}]\n");
    let refused = |target: &str, plan: &str, arguments: &str, words: &[&str]| {
        gen_job(&place, target, plan, arguments).refuses(words);
    };
    refused("slurm", "bad.yaml", "", &["nothing"]);
    refused("slurm", "plan.yaml", "--image x", &["`--image` is not for slurm", "slurm takes --job-name"]);
    refused("kubernetes", "plan.yaml", "--image x --nodes 2", &["`--nodes` is not for kubernetes"]);
    refused("kubernetes", "plan.yaml", "--ranks 1", &["needs a container image", "--image "]);
    refused("trainjob", "plan.yaml", "--image a_/b", &["`--image` does not take `a_/b`", "registry.example/"]);
    refused("pytorchjob", "plan.yaml", "--image x --output-dir /scratch", &["`--output-dir`", "below /results"]);
    refused("mpijob", "plan.yaml", "--image x --job-name Sweep", &["`--job-name` does not take `Sweep`", "lower-case"]);
    refused("mpirun", "plan.yaml", "--ranks 3", &["no case of the plan has 3 ranks", "need 1, 2 ranks"]);
    refused("slurm", "plan.yaml", "--nodes 3", &["2 ranks do not fit 3 nodes"]);
    refused("slurm", "plan.yaml", "--nodes 2 --ntasks-per-node 2", &["2 ranks do not fit 2 nodes, 2 on each"]);
    refused("slurm", "plan.yaml", "--nodes two", &["`--nodes` does not take `two`"]);
    place.write("two.yaml", "experiment: two\ncases: [{benchmark: collective, op: barrier, ranks: 2}]\n");
    refused("mpirun", "two.yaml", "--nodes 2", &["`shm` needs all ranks on one host", "not 2 hosts"]);
    refused("slurm", "plan.yaml", "--program=-x", &["`--program`"]);
    place.write("mpi.yaml", "experiment: mpi\ncases: [{benchmark: collective, op: barrier, ranks: 2, backend: mpi}]\n");
    refused("mpirun", "mpi.yaml", "--nodes 2", &["--hostfile"]);
    refused("kubernetes", "two.yaml", "--image x", &["`shm` needs all ranks on one host", "`--ranks 1`"]);
    refused("trainjob", "mpi.yaml", "--image x", &["torchrun does not start MPI ranks", "`--for mpijob` writes a job"]);
    refused(
        "torchrun",
        "mpi.yaml",
        "",
        &["every case of the plan would be skipped", "torchrun does not start MPI ranks"],
    );
    assert_eq!(place.names(), ["bad.yaml", "mpi.yaml", "plan.yaml", "two.yaml"], "nothing is written");
}

#[test]
fn a_file_is_replaced_only_by_force() {
    let place = Place::new();
    place.write("plan.yaml", PLAN).write("job.sh", "mine");
    gen_job(&place, "mpirun", "plan.yaml", "--output job.sh").refuses(&["job.sh exists already", "`--force`"]);
    assert_eq!(place.read("job.sh"), "mine");
    let said = gen_job(&place, "mpirun", "plan.yaml", "--ranks 2 --output job.sh --force").exits(0);
    assert!(
        said.out.contains("2 of 3 cases in 2 ranks, 1 core each") && said.out.contains("written  job.sh"),
        "{said:?}"
    );
    let reason = "skipped, 1 of 3: mpirun starts 2 ranks, but this case needs 1 rank";
    assert!(said.out.contains(reason) && place.read("job.sh").contains(reason), "{said:?}");
    let mode = std::fs::metadata(place.path("job.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o700, 0o700, "it can be started");
    assert_eq!(place.names(), ["job.sh", "plan.yaml"]);
    gen_job(&place, "mpirun", "plan.yaml", "--output /dev/null --force").refuses(&["is not a plain file"]);
    // In a pipe: the file alone on standard output.
    let said = gen_job(&place, "mpirun", "plan.yaml", "--ranks 2").exits(0);
    assert_eq!(said.out, place.read("job.sh"));
    assert!(said.err.contains(reason));
    let object: Value =
        serde_json::from_str(&gen_job(&place, "mpirun", "plan.yaml", "--ranks 2 --json").exits(0).out).unwrap();
    assert_eq!((&object["ranks"], &object["text"]), (&2.into(), &said.out.into()));
    assert_eq!(object["plan"]["skipped"].as_array().unwrap().len(), 1);
    // One process starts the ranks of every case itself.
    let alone = gen_job(&place, "slurm", "plan.yaml", "--ranks 1").exits(0);
    assert!(
        alone.out.contains("3 of 3 cases in one process") && alone.out.contains("--cpus-per-task=2\n"),
        "{alone:?}"
    );
}

#[test]
fn a_step_for_each_number_of_ranks_is_the_default() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    let said = gen_job(&place, "mpirun", "plan.yaml", "").exits(0);
    assert!(said.err.contains("3 of 3 cases in steps of 1 and 2 ranks, 1 core each"), "{said:?}");
    let object = gen_job(&place, "slurm", "plan.yaml", "--json").exits(0).out;
    let object: Value = serde_json::from_str(&object).unwrap();
    let step = |ranks: u32| serde_json::json!({"ranks": ranks, "nodes": 1, "cores_per_process": 1, "gpus_per_process": 0, "starts": 1});
    assert_eq!((&object["steps"], &object["ranks"]), (&serde_json::json!([step(1), step(2)]), &2.into()));
    // What a step cannot have is said: pods are hosts to each other.
    let said = gen_job(&place, "kubernetes", "plan.yaml", "--image x").exits(0);
    assert!(said.err.contains("skipped, 2 of 3: `shm` needs all ranks on one host"), "{said:?}");
    assert!(said.err.contains("in a step of 1 rank,") && said.out.contains("--only-ranks=1"), "{said:?}");
}

#[test]
fn pods_have_a_gpu_for_each_rank_that_needs_one() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "experiment: gpus\ncases:\n  - {benchmark: collective, op: all_reduce, ranks: [2, 8], backend: nccl, device: cuda}\n  \
         - {benchmark: collective, op: all_reduce, ranks: 4, backend: gloo}\n",
    );
    let made = |target: &str, arguments: &str| -> Value {
        let said = gen_job(&place, target, "plan.yaml", &format!("--image a --json {arguments}")).exits(0);
        serde_json::from_str(&said.out).unwrap()
    };
    let job = made("pytorchjob", "--nodes 2");
    let steps = job["steps"].as_array().unwrap();
    let gpus: Vec<_> = steps.iter().map(|step| (&step["ranks"], &step["gpus_per_process"])).collect();
    assert_eq!(gpus, [(&2.into(), &1.into()), (&4.into(), &0.into()), (&8.into(), &1.into())], "{job}");
    // Two pods of one rank, none, two pods of four: requests and limits of a master and a worker.
    let text = job["text"].as_str().unwrap();
    let count = |amount: u32| text.matches(&format!("\"nvidia.com/gpu\": \"{amount}\"")).count();
    assert_eq!((count(1), count(4), text.matches("nvidia.com/gpu").count()), (4, 4, 8), "{text}");
    // One process starts the ranks of every case, of which the largest needs eight.
    let alone = made("kubernetes", "--ranks 1");
    assert_eq!(alone["gpus_per_process"], 8, "{alone}");
    assert!(alone["text"].as_str().unwrap().contains("\"nvidia.com/gpu\": \"8\""), "{alone}");
}

#[test]
fn only_ranks_leaves_the_others_to_a_later_run() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    place.run("run plan.yaml --only-ranks 3 --output-dir none").refuses(&["no case of the plan has 3 ranks"]);
    place.run("run plan.yaml --only-ranks 2 --output-dir r").exits(0);
    assert_eq!(statuses(&place.cases("r")), [2, 0, 0, 0]);
    place.run("run --resume r --only-ranks 1").exits(0);
    assert_eq!(statuses(&place.cases("r")), [3, 0, 0, 0]);
}

/// Targets with shell scripts as files.
const SCRIPTS: [&str; 3] = ["slurm", "mpirun", "torchrun"];

#[test]
fn shells_read_the_scripts_whatever_the_names() {
    let place = Place::new();
    place.write(HOSTILE, PLAN);
    let shellcheck = Command::new("shellcheck").arg("--version").output().is_ok();
    if !shellcheck {
        skip::skip("shellcheck of job scripts", "shellcheck is not installed");
    }
    for target in SCRIPTS {
        let made = place.command(&format!("gen-job --for {target} --output {target}.sh --program"));
        // A program that shows its arguments.
        let shows = place.path("show $(touch evil)'s");
        place.write("show $(touch evil)'s", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n");
        std::fs::set_permissions(&shows, std::fs::Permissions::from_mode(0o755)).unwrap();
        made.argument(&shows).argument("--output-dir=-r $(touch evil)").argument(HOSTILE).run().exits(0);
        let script = place.path(&format!("{target}.sh"));
        let checked = |program: &str, options: &[&str]| {
            let output = Command::new(program).args(options).arg(&script).output().unwrap();
            assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stdout));
        };
        checked("bash", &["-n"]);
        checked("sh", &["-n"]);
        if shellcheck {
            // That nothing expands is the point of those quotes.
            checked("shellcheck", &["--exclude=SC2016"]);
        }
        // A launcher that starts its last arguments once: the program gets what was meant.
        let bin = place.path(&format!("bin-{target}"));
        std::fs::create_dir(&bin).unwrap();
        let name = if target == "slurm" { "srun" } else { target };
        let fake =
            "#!/bin/sh\n[ \"$1\" = --version ] && exit\nwhile [ \"$1\" != \"$shows\" ]; do shift; done\nexec \"$@\"\n";
        std::fs::write(bin.join(name), fake).unwrap();
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut started = Command::new("sh");
        started
            .arg(&script)
            .current_dir(place.path("."))
            .env("PATH", path)
            .env("shows", &shows)
            .env("SLURM_JOB_ID", "7");
        let output = started.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let plan = place.path(HOSTILE);
        let step = |ranks: u32| format!("run\n--only-ranks={ranks}\n--resume=-r $(touch evil)\n{}\n", plan.display());
        assert_eq!(said, step(1) + &step(2), "{target}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!place.path("evil").exists(), "{target}");
    }
}

/// Starts a script of `gen-job` with a launcher of this machine, and checks the record.
fn runs(target: &str, launcher: &Path) {
    let place = Place::new();
    place.write("a plan's.yaml", PLAN);
    gen_job(&place, target, "a plan's.yaml", "--output job.sh --output-dir r").exits(0);
    let mut starting = place.command_of("sh", "job.sh");
    starting.command.env(target.to_uppercase(), launcher);
    starting.command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    starting.run().exits(0);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [3, 0, 0, 0], "{}", launcher.display());
    // Of two steps: one process alone, and the launcher's.
    let run = place.run_file("r");
    let ranks: Vec<&Value> = run["placement"].as_array().unwrap().iter().map(|known| &known["ranks"]).collect();
    assert_eq!(ranks, [1, 2], "{run}");
    assert!(run["started_by"].as_str().is_some_and(|name| !name.is_empty()), "{run}");
}

#[test]
fn the_script_of_mpirun_runs() {
    let known = ["/usr/bin/mpirun.openmpi", "/usr/bin/mpirun.mpich"].map(PathBuf::from);
    let here: Vec<_> = known.iter().filter(|program| program.exists()).collect();
    if here.is_empty() {
        return skip::skip("gen-job for mpirun", "no mpirun (Debian: openmpi-bin, mpich)");
    }
    here.into_iter().for_each(|program| runs("mpirun", program));
}

#[test]
fn the_script_of_torchrun_runs() {
    match crate::external::torchrun() {
        Some(program) => runs("torchrun", &program),
        None => skip::skip("gen-job for torchrun", "no torchrun on the path, and RANKMARK_TEST_TORCHRUN names none"),
    }
}
