//! A real Slurm: a cluster in namespaces of its own, so that nothing of it can be left behind.

use std::path::Path;

use crate::place::{Ended, Place, reason, statuses};
use crate::skip;

const CLUSTER: &str = include_str!("slurm/cluster.sh");
const PROGRAMS: [&str; 8] = ["slurmctld", "slurmd", "srun", "sbatch", "munged", "ip", "unshare", "mount"];
const FIXED: &str = "--bytes 4KiB --iters 6 --warmup 1 --trials 1 --limits false";

/// A job that is cancelled while it measures. Its code is Slurm's.
const CANCELLED: &str = "\
    srun --overcommit -n 2 -J long \"$rankmark\" comm all_reduce --bytes 1KiB --max-seconds 60s --target-precision 0 \
    --inject delay:rank=1,time=5ms,every=1 --output-dir long &\n\
    until [ -s long/run.json ]; do sleep 0.05; done; scancel --name=long; wait $!\n";

/// Says how many processes of ours are left in the cluster, once they have had five seconds to end.
const LEFT: &str = "\
    count() { cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c -e '^__rank=' -e '^__coordinator'; }\n\
    looks=0; while [ $(count) != 0 ] && [ $looks -lt 100 ]; do looks=$((looks + 1)); sleep 0.05; done\n\
    echo left $(count)\n";

/// The lines of a script that name one of its commands and its exit code.
fn codes(out: &str) -> Vec<&str> {
    let of_command = |line: &&str| line.split_once(' ').is_some_and(|(_, code)| code.parse::<u8>().is_ok());
    out.lines().filter(of_command).collect()
}

/// What is missing for a cluster.
pub(crate) fn lacks() -> Option<String> {
    // SAFETY: a plain call.
    if unsafe { libc::geteuid() } != 0 {
        return Some("namespaces need root".to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    let there = |program: &&&str| !folders.iter().any(|folder| folder.join(program).is_file());
    let missing = PROGRAMS.iter().find(there);
    if let Some(missing) = missing {
        return Some(format!("no {missing} (Debian: slurm-wlm, munge, iproute2)"));
    }
    let allowed = std::process::Command::new("unshare").args(NAMESPACES).arg("true").output();
    (!allowed.is_ok_and(|output| output.status.success())).then(|| "namespaces are not allowed here".to_owned())
}

const NAMESPACES: [&str; 7] = ["--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--uts", "--ipc"];

/// Runs a shell script in a cluster of one node, with `$rankmark` this program.
pub(crate) fn in_cluster(place: &Place, script: &str) -> Ended {
    in_cluster_of(1, place, script)
}

/// Runs a shell script in a cluster of one node or of two, on the first node.
fn in_cluster_of(nodes: u32, place: &Place, script: &str) -> Ended {
    // A socket's path is short.
    let folder = tempfile::Builder::new().prefix("slurm").tempdir_in("/tmp").unwrap();
    place.write("cluster.sh", CLUSTER).write("steps.sh", script);
    let prolog = place.path("prolog.sh");
    // KILL: the first process of a namespace takes no other signal.
    let arguments = format!(
        "-s KILL 100 unshare {} sh cluster.sh {} {nodes} env rankmark={} sh -u steps.sh",
        NAMESPACES.join(" "),
        folder.path().display(),
        env!("CARGO_BIN_EXE_rankmark")
    );
    let mut starting = place.command_of("timeout", &arguments);
    let sbin = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    // Of this cluster alone: jobs of several have the same numbers, and their hosts the same names.
    starting.command.env("PATH", sbin).env("RANKMARK_RENDEZVOUS_DIR", folder.path());
    // What the cluster runs before each job, where the test wrote one.
    if prolog.is_file() {
        starting.command.env("RANKMARK_TEST_PROLOG", prolog);
    }
    starting.run()
}

#[test]
fn srun_starts_ranks() {
    if let Some(why) = lacks() {
        return skip::skip("the program under srun", &why);
    }
    let place = Place::new();
    place.write("plan.yaml", "experiment: tiny\ncases:\n  - {benchmark: collective, op: [all_reduce, all_gather], ranks: [2, 3], bytes: 1KiB, iters: 6, warmup: 1, trials: 1, limits: false}\n");
    let script = format!(
        "srun --overcommit -n 4 \"$rankmark\" comm all_reduce --ranks 4 {FIXED} --output-dir four; echo four $?\n\
         srun --overcommit -n 2 \"$rankmark\" run plan.yaml --output-dir plan; echo plan $?\n\
         srun --overcommit -n 2 \"$rankmark\" comm all_reduce --expect 'busbw_gbs>=1000000' {FIXED} --output-dir gate; echo gate $?\n\
         srun --overcommit -n 2 \"$rankmark\" comm all_reduce --ranks 3 {FIXED} --output-dir none; echo none $?\n\
         {CANCELLED}{LEFT}"
    );
    let said = in_cluster(&place, &script).exits(0);
    let codes = codes(&said.out);
    assert_eq!(codes, ["four 0", "plan 0", "gate 1", "none 2", "left 0"], "{}{}", said.out, said.err);
    let four = place.cases("four");
    assert!(four[0]["ranks"] == 4 && four[0]["wrong"] == 0 && four[0]["status"] == "ok", "{four:?}");
    let long = place.cases("long");
    assert_eq!(statuses(&long), [0, 0, 0, 1]);
    assert!(reason(&long[0]).contains("interrupted by"), "a cancelled job leaves a valid record: {long:?}");
    let plan = place.cases("plan");
    assert_eq!(statuses(&plan), [2, 0, 2, 0]);
    let skipped = plan.iter().find(|line| line["status"] == "skipped").unwrap();
    assert_eq!(reason(skipped), "srun started 2 ranks, but this case needs 3 ranks");
}

#[test]
fn srun_starts_ranks_of_mpich() {
    srun_starts_ranks_of("pmi2", "libmpich.so.12", lacks().or_else(|| lacks_mpi("mpirun.mpich", "mpich")));
}

#[test]
fn srun_starts_ranks_of_open_mpi() {
    // The plugin opens the name that only the package for developers has.
    let pmix = || {
        let folder = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        let there = Path::new(&folder).join("pmix2/lib/libpmix.so").exists();
        (!there).then(|| "Slurm's plugin for PMIx finds no libpmix.so (Debian: libpmix-dev)".to_owned())
    };
    let lacking = lacks().or_else(|| lacks_mpi("mpirun.openmpi", "openmpi-bin")).or_else(pmix);
    srun_starts_ranks_of("pmix", "libmpi.so.40", lacking);
}

#[test]
fn open_mpi_has_no_ranks_under_pmi2() {
    if let Some(why) = lacks().or_else(|| lacks_mpi("mpirun.openmpi", "openmpi-bin")) {
        return skip::skip("libmpi.so.40 under srun --mpi=pmi2", &why);
    }
    let place = Place::new();
    let script = format!(
        "srun --overcommit --mpi=pmi2 -n 2 \"$rankmark\" comm all_reduce --backend mpi --mpi-library libmpi.so.40 {FIXED} \
         --output-dir ranks; echo code $?\n"
    );
    let said = in_cluster(&place, &script).exits(0);
    assert!(said.out.lines().any(|line| line == "code 2"), "{}{}", said.out, said.err);
    let cases = place.cases("ranks");
    assert_eq!(statuses(&cases), [0, 0, 1, 0]);
    let told = reason(&cases[0]);
    assert!(told.contains("each would see a world of one rank") && told.contains("`srun --mpi=pmix`"), "{told}");
}

fn lacks_mpi(launcher: &str, package: &str) -> Option<String> {
    (!Path::new("/usr/bin").join(launcher).exists()).then(|| format!("no {launcher} (Debian: {package})"))
}

fn srun_starts_ranks_of(kind: &str, library: &str, lacking: Option<String>) {
    if let Some(why) = lacking {
        return skip::skip(&format!("{library} under srun"), &why);
    }
    let place = Place::new();
    let script = format!(
        "srun --overcommit --mpi={kind} -n 2 \"$rankmark\" comm all_reduce --backend mpi --mpi-library {library} {FIXED} \
         --output-dir ranks; echo code $?\n"
    );
    let said = in_cluster(&place, &script).exits(0);
    assert!(said.out.lines().any(|line| line == "code 0"), "{}{}", said.out, said.err);
    let cases = place.cases("ranks");
    assert_eq!(statuses(&cases), [1, 0, 0, 0]);
    assert!(cases[0]["wrong"] == 0 && cases[0]["parameters"]["mpi_library"] == library, "{cases:?}");
}

#[test]
fn sbatch_takes_the_file_of_gen_job() {
    if let Some(why) = lacks() {
        return skip::skip("gen-job for a real Slurm", &why);
    }
    let place = Place::new();
    let plan = "experiment: tiny\ncases:\n  - {benchmark: collective, op: all_reduce, ranks: [1, 2], bytes: 1KiB, iters: 6, trials: 1, \
                warmup: 1, limits: false}\n  - {benchmark: collective, op: all_gather, ranks: 2, bytes: 1KiB, iters: 6, \
                trials: 1, warmup: 1, limits: false, expect: 'busbw_gbs>=1000000'}\n";
    place.write("a plan's.yaml", plan);
    let script = "set -e\n\
        \"$rankmark\" gen-job --for slurm \"a plan's.yaml\" --time 5 --partition all --output job.sh\n\
        sbatch --test-only --overcommit job.sh\n\
        set +e\n\
        sbatch --wait --overcommit --output=said job.sh --overcommit; echo code $?\n";
    let said = in_cluster(&place, script).exits(0);
    assert!(said.err.contains("to start at"), "{}", said.err);
    // A gate is missed: the run's code is the job's.
    assert!(said.out.lines().any(|line| line == "code 1"), "{}{}{}", said.out, said.err, place.read("said"));
    let record = std::fs::read_dir(place.path("results")).unwrap().next().unwrap().unwrap().file_name();
    let cases = place.cases(&format!("results/{}", record.to_string_lossy()));
    assert_eq!(statuses(&cases), [3, 0, 0, 0]);
    let file = place.read("job.sh");
    assert!(file.contains("3 of 3 cases in steps of 1 and 2 ranks"), "{file}");
}

/// Processes of both nodes have their numbers in common here, so each node shows all ranks: each counts once.
#[test]
fn a_job_that_hangs_is_looked_at_on_all_of_its_nodes() {
    let test = "a job of a real Slurm that hangs";
    if let Some(why) = lacks() {
        return skip::skip(test, &why);
    }
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        return skip::skip(test, "no python3");
    }
    let place = Place::new();
    crate::hang::write_scripts(&place);
    let script = "\
        srun --overcommit -N 2 -n 2 sh -c '[ $SLURM_PROCID = 0 ] && does=all_reduce || does=barrier; \
            python3 train.py $does up-$SLURM_PROCID; :' &\n\
        until [ -e up-0 ] && [ -e up-1 ]; do sleep 0.1; done; sleep 0.5\n\
        job=$(squeue --noheader --format=%i)\n\
        \"$rankmark\" hang --slurm $job --interval 500ms; echo code $?\n\
        scancel $job; wait\n";
    let said = in_cluster_of(2, &place, script).exits(0);
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.starts_with("Rank 1 is in barrier (train.py:") && words.contains("code 1"),
        "{}{}",
        said.out,
        said.err
    );
    assert_eq!(said.out.lines().filter(|line| line.contains(" waits ")).count(), 2, "{}", said.out);
}

/// Without a process manager that MPI knows (`MpiDefault=none`), each rank is a world of its own: no node is to blame.
#[test]
fn ranks_that_could_not_join_condemn_no_node() {
    let test = "a fleet under srun without a process manager";
    if let Some(why) = lacks().or_else(|| lacks_mpi("mpirun.openmpi", "openmpi-bin")) {
        return skip::skip(test, &why);
    }
    let place = Place::new();
    let script = "\
        export RANKMARK_RENDEZVOUS_DIR=\"$PWD\"\n\
        srun --overcommit -N 2 -n 2 \"$rankmark\" fleet --budget 20s --output-dir fleet; echo fleet $?\n\
        srun --overcommit -N 2 -n 2 \"$rankmark\" comm all_reduce --backend mpi --bytes 1KiB --output-dir comm; echo comm $?\n";
    let said = in_cluster_of(2, &place, script).exits(0);
    let shown = format!("{}{}", said.out, said.err);
    let codes = codes(&said.out);
    assert_eq!(codes, ["fleet 2", "comm 1"], "{shown}");
    assert!(shown.matches("--mpi=pmix").count() >= 2, "{shown}");
    assert!(!place.path("fleet/hosts.bad").exists(), "{shown}");
}

/// Collectives and training, which are two worlds of MPI.
const BOTH: &str = "experiment: both\ndefaults: {ranks: 2, backend: mpi, trials: 1, limits: false, max_seconds: 0.1s}\ncases:\n  \
                    - {benchmark: collective, op: all_reduce, bytes: 1KiB, iters: 6}\n  \
                    - {benchmark: training, model: mlp, layers: 1, width: 8, features: 4, classes: 2, batch: 2, steps: 2}\n";

/// Prints the command of `next`, which may take several lines.
const NEXT: &str = "next() { sed -n '/^next /,/^ *# /p' \"$1\" | grep -v '^ *# ' | sed 's/^next *//'; }\n";

/// A plan of two worlds of MPI is done by what the first run prints, typed as it stands: also where srun shows no words of its
/// own, so that they come from its variables.
#[test]
fn what_a_run_under_srun_prints_runs_the_rest_when_typed() {
    let test = "the line that goes on with a run under srun";
    if let Some(why) = lacks().or_else(|| lacks_mpi("mpirun.mpich", "mpich")) {
        return skip::skip(test, &why);
    }
    let place = Place::new();
    place.write("plan.yaml", BOTH);
    let script = format!(
        "{NEXT}export PATH=\"$(dirname \"$rankmark\"):$PATH\"\n\
         for srun in srun ./hidden; do\n\
         ln -sf \"$(command -v srun)\" hidden; name=r$(basename $srun)\n\
         env RANKMARK_RENDEZVOUS_DIR=\"$PWD\" $srun --overcommit --mpi=pmi2 -N 2 -n 2 -w one,two rankmark run plan.yaml \
         --set mpi_library=libmpich.so.12 --output-dir $name >said; echo first $?\n\
         next said >again; cat again >&2\n\
         sh again >said; echo again $?\n\
         done\n"
    );
    let said = in_cluster_of(2, &place, &script).exits(0);
    let shown = format!("{}{}", said.out, said.err);
    let codes: Vec<&str> = said.out.lines().collect();
    assert_eq!(codes, ["first 1", "again 0", "first 1", "again 0"], "{shown}");
    let (typed, hidden) = (place.run_file("rsrun"), place.run_file("rhidden"));
    let words = |file: &serde_json::Value| file["launcher"].to_string();
    assert!(words(&typed).contains(r#""--mpi=pmi2","-N","2","-n","2","-w","one,two""#), "{typed}");
    for option in ["--mpi=pmi2", "--nodelist=one,two", "--overcommit"] {
        assert!(words(&hidden).contains(option), "{hidden}");
    }
    for (name, file) in [("rsrun", typed), ("rhidden", hidden)] {
        assert!(words(&file).starts_with(r#"["env","RANKMARK_RENDEZVOUS_DIR=/"#), "{file}");
        let cases = place.cases(name);
        assert_eq!(statuses(&cases), [2, 0, 0, 0], "{cases:?}");
        assert!(cases.iter().all(|line| line["wrong"] == 0 && line["hosts"] == 2), "{cases:?}");
    }
}

#[test]
fn a_profile_under_srun_is_of_its_ranks_and_a_job_below_it_is_refused_with_the_line() {
    let test = "a profile under srun";
    if let Some(why) = lacks().or_else(|| lacks_mpi("mpirun.mpich", "mpich")) {
        return skip::skip(test, &why);
    }
    let place = Place::new();
    let srun = "srun --overcommit --mpi=pmi2 -N 2 -n 2 \"$rankmark\"";
    // A file for each: srun mixes long lines of several tasks.
    let apart = srun.replace("srun", "srun --output=\"$PWD/nodes-%t\"");
    let mpich = "--layers 1 --width 8 --features 4 --classes 2 --backend mpi --mpi-library libmpich.so.12";
    let script = format!(
        "export RANKMARK_RENDEZVOUS_DIR=\"$PWD\"\n\
         {srun} profile --model mlp {mpich} --duration 1s --output-dir p; echo profile $?\n\
         {srun} profile --output-dir j -- python3 train.py; echo job $?\n\
         {apart} validate --quick --json; echo validate $?\n"
    );
    let said = in_cluster_of(2, &place, &script).exits(0);
    let shown = format!("{}{}", said.out, said.err);
    let codes = codes(&said.out);
    assert_eq!(codes, ["profile 0", "job 2", "validate 0"], "{shown}");
    let run = place.run_file("p");
    assert_eq!(run["placement"][0]["hosts"], serde_json::json!(["one", "two"]), "{run}");
    let told = said.err.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = "profile --output-dir j -- srun --overcommit --mpi=pmi2 -N 2 -n 2 python3 train.py";
    assert!(told.contains(line) && !place.path("j").exists(), "{shown}");
    let nodes = [place.read("nodes-0"), place.read("nodes-1")].concat();
    let mut hosts: Vec<String> = crate::place::json_lines(&nodes)
        .iter()
        .map(|node| node["host"].as_str().unwrap_or_default().to_owned())
        .collect();
    hosts.sort();
    assert_eq!(hosts, ["one", "two"], "each node is looked at");
}

/// Cases that need new ranks for each trial say so, and take no world from those that do not.
#[test]
fn startup_under_srun_has_each_case_or_says_what_to_type() {
    let test = "start-up under srun";
    if let Some(why) = lacks().or_else(|| lacks_mpi("mpirun.mpich", "mpich")) {
        return skip::skip(test, &why);
    }
    let place = Place::new();
    let script = "srun --overcommit --mpi=pmi2 -n 2 \"$rankmark\" startup --bytes 1KiB --communicators 0 --trials 1 \
                  --max-seconds 0.1s --backend mpi --mpi-library libmpich.so.12 --output-dir s; echo code $?\n\
                  cp s/cases.jsonl first.jsonl\n\
                  srun --overcommit --mpi=pmi2 -n 2 \"$rankmark\" run --resume s; echo code $?\n";
    let said = in_cluster(&place, script).exits(0);
    let latest = place.cases("s");
    std::fs::copy(place.path("first.jsonl"), place.path("s/cases.jsonl")).unwrap();
    let cases = place.cases("s");
    let shown = format!("{}{}{cases:?}", said.out, said.err);
    let is_cold = |line: &&serde_json::Value| line["parameters"]["start"] == "cold";
    let (cold, warm): (Vec<_>, Vec<_>) = cases.iter().partition(|line| is_cold(line));
    assert!(cold.iter().all(|line| reason(line).contains("`rankmark run --resume DIR` under the launcher")), "{shown}");
    // Each further start of the launcher has new ranks for one of them.
    let measured = latest.iter().filter(is_cold).filter(|line| line["status"] == "ok").count();
    assert_eq!(measured, 1, "{shown}{latest:?}");
    let joins_again = |line: &&&serde_json::Value| line["parameters"]["stage"] != "join";
    assert!(warm.len() >= 3 && warm.iter().filter(joins_again).all(|line| line["status"] == "ok"), "{shown}");
}

/// A job that is requeued goes on with its record, whatever ended it.
#[test]
fn the_file_of_gen_job_goes_on_after_a_limit_and_a_requeue() {
    if let Some(why) = lacks() {
        return skip::skip("a requeued job of gen-job", &why);
    }
    let place = Place::new();
    let long = "experiment: long\ndefaults: {ranks: 2, bytes: 1KiB, limits: false, trials: 1}\ncases:\n  \
                - {benchmark: collective, op: all_gather, iters: 6, warmup: 1}\n  \
                - {benchmark: collective, op: all_reduce, max_seconds: 3s, target_precision: 0, \
                inject: \"delay:rank=1,time=5ms,every=1\"}\n";
    place.write("plan.yaml", long);
    let script = "set -e\n\
        \"$rankmark\" gen-job --for slurm plan.yaml --time 5 --output job.sh\n\
        set +e\n\
        job=$(sbatch --parsable --overcommit --output=said job.sh --overcommit)\n\
        until [ -s results/long-$job/cases.jsonl ]; do sleep 0.05; done\n\
        scontrol requeue $job; scontrol update job=$job starttime=now 2>/dev/null\n\
        looks=0; until grep -q end results/long-$job/run.json && [ -z \"$(squeue -h)\" ] || [ $looks -gt 600 ]; do\n\
        looks=$((looks + 1)); sleep 0.1; scontrol update job=$job starttime=now 2>/dev/null; done\n\
        squeue; echo record long-$job\n";
    let said = in_cluster(&place, script).exits(0);
    let name = said.out.lines().find_map(|line| line.strip_prefix("record ")).unwrap_or_default().to_owned();
    let cases = place.cases(&format!("results/{name}"));
    assert_eq!(statuses(&cases), [2, 0, 0, 0], "{}{}{}{cases:?}", said.out, said.err, place.read("said"));
    assert_eq!(std::fs::read_dir(place.path("results")).unwrap().count(), 1, "one record");
    let file = place.read("job.sh");
    assert!(["--exclusive", "--mem=0", "--requeue", "--time=5"].iter().all(|option| file.contains(option)), "{file}");
}

#[test]
fn srun_starts_ranks_on_two_nodes() {
    let test = "the program under srun on two nodes";
    if let Some(why) = lacks() {
        return skip::skip(test, &why);
    }
    if !Path::new("/usr/bin/mpirun.mpich").exists() {
        return skip::skip(test, "nothing to move data by (Debian: mpich)");
    }
    let place = Place::new();
    let srun = "srun --overcommit -N 2 -n 2 --mpi=pmi2 \"$rankmark\" comm all_reduce";
    let script = format!(
        "export RANKMARK_RENDEZVOUS_DIR=\"$PWD\"\n\
         {srun} --backend mpi --mpi-library libmpich.so.12 {FIXED} --output-dir two; echo two $?\n\
         {srun} --backend shm {FIXED} --output-dir shm; echo shm $?\n{LEFT}"
    );
    let said = in_cluster_of(2, &place, &script).exits(0);
    let codes = codes(&said.out);
    assert_eq!(codes, ["two 0", "shm 2", "left 0"], "{}{}", said.out, said.err);
    let cases = place.cases("two");
    assert_eq!((statuses(&cases), &cases[0]["wrong"], &cases[0]["hosts"]), ([1, 0, 0, 0], &0.into(), &2.into()));
    assert_eq!(reason(&place.cases("shm")[0]), "`shm` needs all ranks on one host, but they are on one, two");
    let hosts = place.run_file("two")["placement"][0]["hosts"].clone();
    assert_eq!(hosts, serde_json::json!(["one", "two"]));
}
