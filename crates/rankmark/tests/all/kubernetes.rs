//! Objects of `gen-job` for Kubernetes: schemas accept them, and their pods become one run. The pods are sandboxes here, each
//! on a host with an address of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::namespaces::Hosts;
use crate::place::{Live, Place, reason};
use crate::sandbox::Sandbox;
use crate::skip;

const HOSTILE: &str = "it's $(touch evil) `touch evil`; \"x\" \\ * \u{e9}.yaml";

/// Pods are hosts to each other: not all of a plan can run there.
const PLAN: &str = "experiment: tiny\ndefaults: {bytes: 1KiB, iters: 6, warmup: 1, trials: 1, limits: false}\ncases:\n  \
    - {benchmark: collective, op: all_reduce, ranks: [1, 2]}\n  - {benchmark: collective, op: all_gather, ranks: 2}\n  \
    - {benchmark: collective, op: broadcast, ranks: [2, 4], backend: BACKEND}\n";

/// The Python that checks objects, if it has what that takes.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("RANKMARK_TEST_KUBERNETES").unwrap_or_else(|| "python3".into());
    let has = Command::new(&python).args(["-c", "import kubernetes_validate"]).output();
    has.is_ok_and(|output| output.status.success()).then(|| python.into())
}

fn here(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/kubernetes").join(file)
}

/// What the check prints of these objects: the plan, and the kinds.
fn check(python: &Path, place: &Place, objects: &str) -> Result<(String, Vec<String>), String> {
    place.write("made.yaml", objects);
    let mut check = Command::new(python);
    check.arg(here("check.py")).stdin(std::fs::File::open(place.path("made.yaml")).unwrap());
    if let Some(folders) = std::env::var_os("RANKMARK_TEST_CRDS") {
        check.args(std::env::split_paths(&folders));
    }
    let output = check.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(told);
    }
    let kinds = told.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    Ok((String::from_utf8(output.stdout).unwrap(), kinds))
}

fn check_all(target: &str, backend: &str, cases: &[(&str, &str)]) {
    let Some(python) = python() else {
        let why = "no Python with kubernetes-validate (RANKMARK_TEST_KUBERNETES names one)";
        return skip::skip(&format!("gen-job for {target} against schemas"), why);
    };
    if target != "kubernetes" && std::env::var_os("RANKMARK_TEST_CRDS").is_none() {
        let name = format!("gen-job for {target} against the definition of its operator");
        skip::skip(&name, "RANKMARK_TEST_CRDS names no folder with it");
    }
    let place = Place::new();
    let plan = format!("{}# \u{e9} 'quotes' \"and\" {{braces}}: \\ \u{1f600}\r\n", PLAN.replace("BACKEND", backend));
    place.write(HOSTILE, &plan);
    for (arguments, kinds) in cases {
        let arguments = format!("gen-job --for {target} --image registry/a:1 {arguments}");
        let made = place.command(&arguments).argument(HOSTILE).run().exits(0).out;
        let (found, told) = check(&python, &place, &made).unwrap_or_else(|why| panic!("{why}\n{made}"));
        assert_eq!((found.as_str(), told.join(" ").as_str()), (plan.as_str(), *kinds), "{arguments}");
        // What no schema has is refused.
        let odd = made.replacen("\"spec\": {", "\"spec\": { \"unknownField\": 1,", 1);
        assert!(check(&python, &place, &odd).is_err(), "{odd}");
    }
}

#[test]
fn schemas_accept_an_indexed_job() {
    check_all(
        "kubernetes",
        "gloo",
        &[
            ("--namespace bench --time 10 --claim kept.1 --secret mine", "ConfigMap Job Service Job Service Job"),
            ("--ranks 1", "ConfigMap Job"),
            ("--ranks 2", "ConfigMap Service Job"),
        ],
    );
}

#[test]
fn schemas_accept_a_fleet() {
    let Some(python) = python() else {
        let why = "no Python with kubernetes-validate (RANKMARK_TEST_KUBERNETES names one)";
        return skip::skip("gen-job of a fleet against schemas", why);
    };
    let place = Place::new();
    let line = "gen-job --for kubernetes --image registry/a:1 --ranks 8 --gpus-per-node 4 fleet";
    let made = place.run(line).exits(0).out;
    assert!(made.contains("backoffLimitPerIndex"), "{made}");
    let (_, kinds) = check(&python, &place, &made).unwrap_or_else(|why| panic!("{why}\n{made}"));
    assert_eq!(kinds, ["ConfigMap", "Service", "Job"]);
}

#[test]
fn schemas_accept_an_mpi_job() {
    check_all(
        "mpijob",
        "mpi",
        &[
            ("--nodes 2 --namespace bench --time 10 --claim kept", "ConfigMap Job MPIJob MPIJob"),
            ("--ranks 2", "ConfigMap MPIJob"),
        ],
    );
}

#[test]
fn schemas_accept_a_pytorch_job() {
    check_all(
        "pytorchjob",
        "gloo",
        &[
            ("--nodes 2 --namespace bench --time 10 --claim kept", "ConfigMap Job PyTorchJob PyTorchJob"),
            ("--ranks 2", "ConfigMap PyTorchJob"),
        ],
    );
}

#[test]
fn schemas_accept_a_train_job() {
    check_all(
        "trainjob",
        "gloo",
        &[
            ("--nodes 2 --namespace bench --time 10 --claim kept", "ConfigMap Job TrainJob TrainJob"),
            ("--ranks 2", "ConfigMap TrainJob"),
        ],
    );
}

/// A file of `gen-job` for two ranks on two nodes.
struct Made {
    objects: Vec<Value>,
}

impl Made {
    /// Without PyTorch, the pods get a plan without the cases that need it. MPI gets a case of another world.
    fn new(place: &Place, target: &str, backend: &str, pytorch: bool) -> Self {
        let mut plan = PLAN.replace("BACKEND", backend).replace("[2, 4]", "2");
        if backend == "mpi" {
            plan.push_str("  - {benchmark: collective, op: reduce, ranks: 2, backend: mpi, bind: none}\n");
        }
        place.write("plan.yaml", plan);
        let spread = if target == "kubernetes" { "" } else { " --nodes 2" };
        let arguments =
            format!("gen-job --for {target} --image a --job-name two --ranks 2 --output-dir r{spread} plan.yaml");
        let file = place.run(&arguments).exits(0).out;
        let objects: Vec<Value> = file.split("---\n").skip(1).map(|text| serde_json::from_str(text).unwrap()).collect();
        let made = Self { objects };
        made.write_volumes(place, pytorch);
        made
    }

    /// What Kubernetes and the operator of an MPIJob mount.
    fn write_volumes(&self, place: &Place, pytorch: bool) {
        use std::os::unix::fs::PermissionsExt;
        for folder in ["plan", "secret-of-pods", "results"] {
            std::fs::create_dir(place.path(folder)).unwrap();
        }
        for (name, text) in self.objects[0]["data"].as_object().unwrap() {
            let mut text = text.as_str().unwrap().to_owned();
            if !pytorch {
                // Ranks find each other before a case runs, so one that is skipped on two hosts is enough.
                text = text.lines().filter(|line| !line.contains("gloo")).map(|line| format!("{line}\n")).collect();
            }
            place.write(&format!("plan/{name}"), text);
            std::fs::set_permissions(place.path(&format!("plan/{name}")), PermissionsExt::from_mode(0o555)).unwrap();
        }
        place.write("secret-of-pods/secret", "the head of /dev/urandom, 32 bytes of it\n");
        std::fs::set_permissions(place.path("secret-of-pods/secret"), PermissionsExt::from_mode(0o440)).unwrap();
    }

    /// The object that starts ranks.
    fn job(&self) -> &Value {
        self.objects.last().unwrap()
    }
}

/// A pod of this template as a sandbox with its volumes and its variables, and its command.
fn pod<'a>(sandbox: Sandbox<'a>, place: &Place, pod: &Value) -> (Sandbox<'a>, Vec<String>) {
    let container = &pod["containers"][0];
    let sources = [("plan", "plan", false), ("secret", "secret-of-pods", false), ("results", "results", true)];
    let mut sandbox = sandbox.in_folder(container["workingDir"].as_str().unwrap_or("/"));
    for mount in container["volumeMounts"].as_array().unwrap() {
        // The others are memory in a sandbox.
        if let Some((_, from, writable)) = sources.iter().find(|source| mount["name"] == source.0) {
            sandbox = sandbox.mount(place.path(from), mount["mountPath"].as_str().unwrap(), *writable);
        }
    }
    for variable in container["env"].as_array().unwrap() {
        sandbox = sandbox.variable(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
    }
    // As Kubernetes does; no command has `$(NAME)`.
    let words = container["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().replace("$$", "$"));
    (sandbox, words.collect())
}

/// Waits for the pods of a run, and checks what rank 0 wrote.
fn check_run(place: &Place, live: Vec<Live<'_>>, pytorch: bool) {
    let ended: Vec<_> = live.into_iter().map(Live::wait).collect();
    assert!(place.path("results/r/cases.jsonl").exists(), "{ended:?}");
    let cases = place.cases("results/r");
    let shared: Vec<&Value> = cases.iter().filter(|line| line["backend"] == "shm" && line["ranks"] == 2).collect();
    assert_eq!(shared.len(), 2, "{cases:?}");
    for line in shared {
        let told = reason(line);
        assert!(told.starts_with("`shm` needs all ranks on one host, but they are on "), "{told}: {ended:?}");
    }
    if pytorch {
        // A Python that has it is on the path beside torchrun.
        let moved = cases.iter().find(|line| line["backend"] == "gloo").unwrap();
        assert_eq!((&moved["wrong"], &moved["hosts"]), (&0.into(), &2.into()), "{moved}");
    }
    let placement = &place.run_file("results/r")["placement"][0];
    assert_eq!(placement["ranks"], 2, "{placement}: {ended:?}");
}

/// Names of the two pods, as the cluster's DNS knows them.
fn names(pods: [&str; 2]) -> String {
    format!("10.77.0.1 {}\n10.77.0.2 {}\n", pods[0], pods[1])
}

#[test]
fn pods_of_an_indexed_job_become_one_run() {
    let test = "pods of an indexed Job";
    let place = Place::new();
    let Some(hosts) = Hosts::new(test, 2) else { return };
    let made = Made::new(&place, "kubernetes", "gloo", false);
    let mut live = Vec::new();
    for index in 0..2 {
        let Some(sandbox) = Sandbox::new(&place, test) else { return };
        let template = &made.job()["spec"]["template"]["spec"];
        let (sandbox, command) = pod(sandbox, &place, template);
        let sandbox =
            sandbox.with_hosts(&names(["two-0.two", "two-1.two"])).variable("JOB_COMPLETION_INDEX", &index.to_string());
        live.push(sandbox.command(&hosts.enter(&place, index), &command).start());
    }
    check_run(&place, live, false);
}

/// The record of a fleet comes out of the log of pod 0, as the head of the file says: each pod has a folder of its own.
#[test]
fn a_fleet_gathers_its_record_through_a_log() {
    let test = "pods of a fleet";
    let place = Place::new();
    let Some(hosts) = Hosts::new(test, 2) else { return };
    let line = "gen-job --for kubernetes --image a --job-name two --ranks 2 fleet";
    let file = place.run(line).exits(0).out;
    let objects: Vec<Value> = file.split("---\n").skip(1).map(|text| serde_json::from_str(text).unwrap()).collect();
    let made = Made { objects };
    made.write_volumes(&place, true);
    // A short look in place of five minutes.
    let script = place.read("plan/fleet.sh").replace(" fleet --output-dir", " fleet --budget 20s --output-dir");
    std::fs::remove_file(place.path("plan/fleet.sh")).unwrap();
    place.write("plan/fleet.sh", script);
    let mut live = Vec::new();
    for index in 0..2 {
        let Some(sandbox) = Sandbox::new(&place, test) else { return };
        let mut template = made.job()["spec"]["template"]["spec"].clone();
        if index == 1 {
            // Its results go to a folder of its own.
            let mounts = template["containers"][0]["volumeMounts"].as_array_mut().unwrap();
            mounts.iter_mut().filter(|mount| mount["name"] == "results").for_each(|mount| mount["name"] = "own".into());
        }
        let (mut sandbox, command) = pod(sandbox, &place, &template);
        if index == 1 {
            std::fs::create_dir(place.path("results-1")).unwrap();
            sandbox = sandbox.mount(place.path("results-1"), "/results", true);
        }
        let sandbox =
            sandbox.with_hosts(&names(["two-0.two", "two-1.two"])).variable("JOB_COMPLETION_INDEX", &index.to_string());
        live.push(sandbox.command(&hosts.enter(&place, index), &command).start());
    }
    let ended: Vec<_> = live.into_iter().map(Live::wait).collect();
    place.write("log", &ended[0].out);
    let gather = "sed -n '/^-----BEGIN RANKMARK RECORD-----$/,/^-----END RANKMARK RECORD-----$/p' log | sed '1d;$d' | \
                  base64 -d > fleet.tar.gz\n";
    assert!(
        gather
            .contains(file.lines().find_map(|line| line.split_once("sed -n ")).unwrap().1.split(" |").next().unwrap())
    );
    place.write("gather.sh", gather);
    assert!(place.command_of("/bin/sh", "gather.sh").run().status.success(), "{ended:?}");
    // Without PyTorch in the pods nothing moves data between them: the fleet has nodes, and no verdict.
    let judged = place.run("fleet fleet.tar.gz --json").exits(3);
    assert!(["\"h0\"", "\"h1\""].iter().all(|node| judged.out.contains(node)), "{judged:?}\n{ended:?}");
    assert!(!ended[1].out.contains("RANKMARK RECORD"), "{ended:?}");
}

/// The variables that the operator of a PyTorchJob or a TrainJob sets in a pod.
fn of_torchrun(index: usize, master: &str, port: &str) -> Vec<(&'static str, String)> {
    [("PET_NNODES", "2"), ("PET_NPROC_PER_NODE", "1"), ("PET_MASTER_ADDR", master), ("PET_MASTER_PORT", port)]
        .map(|(name, value)| (name, value.to_owned()))
        .into_iter()
        .chain([("PET_NODE_RANK", index.to_string())])
        .collect()
}

/// Two pods with torchrun, on two hosts.
fn under_torchrun(
    target: &str,
    pods: [&str; 2],
    template: impl Fn(&Value, usize) -> Value,
    more: fn(usize) -> Vec<(&'static str, String)>,
) {
    let test = format!("pods of a {target}");
    let Some(torchrun) = crate::external::torchrun() else {
        return skip::skip(&test, "no torchrun on the path, and RANKMARK_TEST_TORCHRUN names none");
    };
    let place = Place::new();
    let Some(hosts) = Hosts::new(&test, 2) else { return };
    let pytorch = skip::heavy(&format!("PyTorch in {test}"));
    let made = Made::new(&place, target, "gloo", pytorch);
    let mut live = Vec::new();
    for index in 0..2 {
        let Some(sandbox) = Sandbox::new(&place, &test) else { return };
        let (mut sandbox, command) = pod(sandbox, &place, &template(made.job(), index));
        for folder in python_folders(&torchrun) {
            sandbox = sandbox.mount(&folder, &folder.to_string_lossy(), false);
        }
        sandbox = sandbox.path_with(&torchrun.parent().unwrap().to_string_lossy()).with_hosts(&names(pods));
        for (name, value) in of_torchrun(index, pods[0], "23456").into_iter().chain(more(index)) {
            sandbox = sandbox.variable(name, &value);
        }
        live.push(sandbox.command(&hosts.enter(&place, index), &command).start());
    }
    check_run(&place, live, pytorch);
}

/// The folders that a torchrun needs: its environment, and the Python that this was made from.
fn python_folders(torchrun: &Path) -> Vec<PathBuf> {
    let python = torchrun.with_file_name("python");
    let script = "import sys; print(sys.prefix); print(sys.base_prefix)";
    let output = Command::new(&python).args(["-c", script]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let folders = text.lines().map(PathBuf::from).filter(|folder| !folder.starts_with("/usr"));
    let mut folders: Vec<PathBuf> = folders.collect();
    folders.dedup();
    folders
}

#[test]
fn pods_of_a_pytorch_job_become_one_run() {
    let template = |job: &Value, index: usize| {
        let role = ["Master", "Worker"][index];
        job["spec"]["pytorchReplicaSpecs"][role]["template"]["spec"].clone()
    };
    // Without torchrun these would be taken for the rank's own.
    let more = |index: usize| vec![("RANK", index.to_string()), ("WORLD_SIZE", "2".to_owned())];
    under_torchrun("pytorchjob", ["two-master-0", "two-worker-0"], template, more);
}

#[test]
fn pods_of_a_train_job_become_one_run() {
    // The runtime's template with the patch, as the operator merges them.
    let template = |job: &Value, _: usize| {
        let patch = &job["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0];
        let mut pod = patch["template"]["spec"]["template"]["spec"].clone();
        for name in ["command", "env"] {
            pod["containers"][0][name] = job["spec"]["trainer"][name].clone();
        }
        pod
    };
    let more = |index: usize| vec![("JOB_COMPLETION_INDEX", index.to_string())];
    under_torchrun("trainjob", ["two-node-0-0.two", "two-node-0-1.two"], template, more);
}

#[test]
fn workers_of_an_mpi_job_become_one_run() {
    under_mpirun("workers of an MPIJob", None, "keys");
}

#[test]
fn a_worker_with_another_key_gets_no_rank() {
    under_mpirun("an MPIJob whose worker has another key", None, "other-keys");
}

#[test]
fn workers_of_an_mpi_job_become_one_run_by_another_open_mpi() {
    let test = "workers of an MPIJob, another Open MPI";
    let folders = std::env::var_os("RANKMARK_TEST_MPI").unwrap_or_default();
    let open = |folder: &PathBuf| folder.join("lib/libmpi.so.40").exists() && folder.join("bin/mpirun").exists();
    match std::env::split_paths(&folders).find(open) {
        Some(folder) => under_mpirun(test, Some(&folder), "keys"),
        None => skip::skip(test, "RANKMARK_TEST_MPI names no folder with an Open MPI"),
    }
}

/// Two workers and a launcher, each on a host, with the Open MPI of the system or of this folder. The launcher knows workers by
/// the key in the folder `known`.
fn under_mpirun(test: &str, folder: Option<&Path>, known: &str) {
    let programs = ["/usr/sbin/sshd", "/usr/bin/ssh-keygen"];
    if let Some(lacking) = programs.into_iter().find(|path| !Path::new(path).exists()) {
        return skip::skip(test, &format!("no {lacking} (Debian: openssh-server, openssh-client)"));
    }
    let place = Place::new();
    let Some(hosts) = Hosts::new(test, 3) else { return };
    let made = Made::new(&place, "mpijob", "mpi", false);
    let workers = ["two-worker-0.two", "two-worker-1.two"];
    write_keys(&place, &workers);
    let spec = &made.job()["spec"];
    let sandboxed = |role: &str| {
        let sandbox = Sandbox::new(&place, test)?;
        let (sandbox, command) = pod(sandbox, &place, &spec["mpiReplicaSpecs"][role]["template"]["spec"]);
        let keys = if role == "Launcher" { known } else { "keys" };
        let sandbox = sandbox.mount(place.path(keys), spec["sshAuthMountPath"].as_str().unwrap(), false);
        let sandbox = sandbox.with_hosts(&names(workers)).mount(place.path("mpi"), "/etc/mpi", false);
        let Some(folder) = folder else { return Some((sandbox, command)) };
        // An image has its MPI on its search paths.
        let of = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let sandbox = sandbox.mount(folder, &folder.to_string_lossy(), false);
        Some((sandbox.path_with(&of("bin")).variable("LD_LIBRARY_PATH", &of("lib")), command))
    };
    let mut servers = Vec::new();
    for index in 0..2 {
        let Some((sandbox, command)) = sandboxed("Worker") else { return };
        servers.push(sandbox.command(&hosts.enter(&place, index), &command).start());
    }
    let Some((sandbox, command)) = sandboxed("Launcher") else { return };
    let sandbox = sandbox.variable("OMPI_MCA_orte_keep_fqdn_hostnames", "true");
    let sandbox = sandbox.variable("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10");
    let launcher = sandbox.command(&hosts.enter(&place, 2), &command).start().wait();
    if known == "keys" {
        assert!(place.path("results/r/cases.jsonl").exists(), "{launcher:?}");
        let cases = place.cases("results/r");
        let moved: Vec<&Value> = cases.iter().filter(|line| line["backend"] == "mpi").collect();
        assert_eq!(moved.len(), 2, "two worlds, a start of mpirun each: {launcher:?}");
        for line in moved {
            assert_eq!((&line["wrong"], &line["ranks"], &line["hosts"]), (&0.into(), &2.into(), &2.into()), "{line}");
        }
    } else {
        assert!(!place.path("results/r").exists(), "{launcher:?}");
        assert!(launcher.err.contains("Host key verification failed"), "{launcher:?}");
    }
    for mut server in servers {
        // A pod without ranks ends when Kubernetes asks for it.
        server.child.kill().unwrap();
        server.child.wait().unwrap();
    }
}

/// What the operator makes for an MPIJob: a key of all pods, and the list of workers. And a folder with the same key in which
/// the public half is another's.
fn write_keys(place: &Place, workers: &[&str]) {
    for folder in ["keys", "other-keys", "mpi"] {
        std::fs::create_dir(place.path(folder)).unwrap();
        if folder != "mpi" {
            let key = place.path(folder).join("id_rsa");
            let made =
                Command::new("ssh-keygen").args(["-q", "-t", "ecdsa", "-N", "", "-f"]).arg(&key).status().unwrap();
            assert!(made.success());
        }
    }
    std::fs::copy(place.path("keys/id_rsa.pub"), place.path("keys/authorized_keys")).unwrap();
    std::fs::copy(place.path("keys/id_rsa"), place.path("other-keys/id_rsa")).unwrap();
    let lines: Vec<String> = workers.iter().map(|worker| format!("{worker} slots=1\n")).collect();
    place.write("mpi/hostfile", lines.concat());
}
