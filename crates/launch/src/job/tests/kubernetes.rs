//! Objects for kubectl.

use serde_json::{Value, json};

use super::*;

/// Targets with objects for kubectl, and the kind of object that starts several ranks.
const KINDS: [(&str, &str); 4] =
    [("kubernetes", "Job"), ("mpijob", "MPIJob"), ("pytorchjob", "PyTorchJob"), ("trainjob", "TrainJob")];

#[test]
fn kubernetes_has_a_job_for_each_step_and_starts_one() {
    let file = text("kubernetes", in_steps, &[("image", "a"), ("job-name", &"n".repeat(45))]).unwrap();
    let objects = objects(&file);
    assert_eq!(kinds(&objects), ["ConfigMap", "Service", "Job", "Service", "Job", "Job"]);
    let jobs: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "Job").collect();
    let waits: Vec<bool> = jobs.iter().map(|job| job["spec"]["suspend"] == true).collect();
    assert_eq!(waits, [false, true, true]);
    for (job, ranks) in jobs.iter().zip([4, 2, 1]) {
        let name = format!("{}-ranks-{ranks}", "n".repeat(37));
        let container = &job["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(job["metadata"]["name"], name);
        assert_eq!(container["command"][3], format!("--output-dir=/results/{name}"));
        assert_eq!(container["command"][4], format!("--only-ranks={ranks}"));
        assert_eq!(job["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"], "n".repeat(45));
        assert!(ranks == 4 || file.contains(&format!("kubectl patch job {name} ")), "{file}");
    }
    assert_eq!(jobs[1]["spec"]["completions"], 2);
}

#[test]
fn a_job_of_kubernetes_names_no_secret_that_it_holds() {
    let problem = text("kubernetes", |_| (), &[]).unwrap_err();
    assert!(problem.what.contains("needs a container image") && problem.hint.is_some());
    let image = ("image", "registry/rankmark:0.1");
    let text_of =
        |ranks: u32, options: &[_]| text("kubernetes", |job| (job.ranks, job.nodes) = (ranks, ranks), options).unwrap();
    let file = text_of(4, &[image, ("time", "1:30:00"), ("namespace", "bench")]);
    let objects = objects(&file);
    assert_eq!(kinds(&objects), ["ConfigMap", "Service", "Job"]);
    assert!(objects.iter().all(|object| object["metadata"]["namespace"] == "bench"), "{file}");
    let spec = &objects[2]["spec"];
    assert_eq!((&spec["completions"], &spec["activeDeadlineSeconds"]), (&json!(4), &json!(5400)), "{file}");
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["subdomain"], "rankmark-sweep");
    assert_eq!(variable(pod, "RANKMARK_COORDINATOR"), "rankmark-sweep-0.rankmark-sweep:29400");
    assert_eq!(pod["volumes"][1]["secret"], json!({"secretName": "rankmark-sweep-secret", "defaultMode": 0o400}));
    assert!(file.contains("kubectl create secret generic --namespace bench"), "{file}");
    // Read by people, too: a member a line.
    assert!(file.lines().any(|line| line == "    \"completions\": 4,"), "{file}");
    // One process needs no others, and so neither Service nor secret.
    let file = text_of(1, &[image, ("claim", "kept")]);
    let objects = self::objects(&file);
    assert_eq!(kinds(&objects), ["ConfigMap", "Job"]);
    assert!(!file.contains("secret") && !file.contains("Indexed"), "{file}");
    let kept = json!({"name": "results", "persistentVolumeClaim": {"claimName": "kept"}});
    assert_eq!(objects[1]["spec"]["template"]["spec"]["volumes"][1], kept, "{file}");
    for (name, value) in [
        ("namespace", "a/b"),
        ("namespace", "a.b"),
        ("secret", "A"),
        ("claim", "x: y"),
        ("claim", "-x"),
        ("time", "soon"),
    ] {
        assert!(text("kubernetes", |_| (), &[image, (name, value)]).is_err(), "{name}");
    }
    let long = text("kubernetes", |job| job.plan_text = "#".repeat(1_000_001), &[image]);
    assert!(long.unwrap_err().what.contains("a ConfigMap holds"));
}

#[test]
fn a_fleet_has_a_pod_on_each_node_and_its_record_in_a_log() {
    let as_fleet = |job: &mut Job| (job.is_fleet, job.ranks, job.nodes, job.gpus) = (true, 8, 8, 4);
    let file = text("kubernetes", as_fleet, &[("image", "a"), ("job-name", "check"), ("namespace", "ops")]).unwrap();
    let objects = objects(&file);
    assert_eq!(kinds(&objects), ["ConfigMap", "Service", "Job"]);
    let pod = &objects[2]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["command"], json!(["/bin/sh", "/etc/rankmark/plan/fleet.sh"]));
    assert_eq!(container["resources"]["limits"], json!({"nvidia.com/gpu": "4"}));
    let apart = &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(apart["labelSelector"]["matchLabels"]["job-name"], "check");
    let script = objects[0]["data"]["fleet.sh"].as_str().unwrap();
    assert!(script.contains("/opt/rankmark fleet --output-dir=/results/check & fleet=$!\n"), "{script}");
    assert!(objects[0]["data"].get("plan.yaml").is_none() && !file.contains("\"cpu\""), "{file}");
    assert!(file.contains("kubectl logs --namespace ops --tail=-1 --selector"), "{file}");
    // A pod that fails leaves the others alone, and with them the log of the first.
    let spec = &objects[2]["spec"];
    assert_eq!((&spec["backoffLimitPerIndex"], spec.get("backoffLimit")), (&json!(0), None), "{file}");
    assert!(file.contains("# It needs Kubernetes 1.29 or later"), "{file}");
    // The ranks of a plan need each other.
    let file = text("kubernetes", |_| (), &[("image", "a")]).unwrap();
    assert!(file.contains("\"backoffLimit\": 0") && !file.contains("PerIndex"), "{file}");
}

/// In place of the program: measures until it is asked to end, if a file says so. It then leaves a record, and ends with 3.
const FAKE: &str = "case $1 in\n\
    pack) cp \"$2/cases\" \"$4\" ;;\n\
    fleet)\n\
        mkdir \"$folder/record\"\n\
        trap 'echo all of it >\"$folder/record/cases\"; exit 3' TERM\n\
        : >\"$folder/up\"\n\
        while [ -e \"$folder/wait\" ]; do sleep 0.05; done\n\
        echo all of it >\"$folder/record/cases\"\n\
        exit 3 ;;\n\
    esac\n";

/// What the script of a fleet prints in the pod of this index, and its code. `ended`: it gets SIGTERM while it measures.
fn pod_of_fleet(index: &str, ended: bool) -> (String, Option<i32>) {
    let as_fleet = |job: &mut Job| (job.is_fleet, job.ranks, job.nodes) = (true, 2, 2);
    let file = text("kubernetes", as_fleet, &[("image", "a"), ("job-name", "check")]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let script = objects(&file)[0]["data"]["fleet.sh"].as_str().unwrap().to_owned();
    let script = script.replace("/opt/rankmark", "/bin/sh \"$folder/fake\"");
    let script = script.replace("/results/check", "\"$folder/record\"").replace("/tmp/", "\"$folder\"/");
    std::fs::write(path("fake"), FAKE).unwrap();
    std::fs::write(path("fleet.sh"), script).unwrap();
    if ended {
        std::fs::write(path("wait"), "").unwrap();
    }
    let signal = if ended { "sleep 0.2; kill $pod; " } else { "" };
    let starts = format!(
        "/bin/sh \"$folder/fleet.sh\" & pod=$!; until [ -e \"$folder/up\" ]; do sleep 0.02; done; {signal}wait $pod"
    );
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", &starts]).env("folder", folder.path()).env("JOB_COMPLETION_INDEX", index);
    let output = shell.output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

#[test]
fn only_the_first_pod_of_a_fleet_has_a_record_and_a_verdict() {
    let record = "-----BEGIN RANKMARK RECORD-----\nYWxsIG9mIGl0Cg==\n-----END RANKMARK RECORD-----\n";
    assert_eq!(pod_of_fleet("0", false), (record.to_owned(), Some(3)));
    assert_eq!(pod_of_fleet("1", false), (String::new(), Some(0)), "the Job would fail by it");
    // The program gets the signal, and ends in order.
    assert_eq!(pod_of_fleet("0", true), (record.to_owned(), Some(143)));
    assert_eq!(pod_of_fleet("1", true), (String::new(), Some(0)));
}

/// The objects of a file for kubectl.
fn objects(file: &str) -> Vec<Value> {
    let documents = file.split("---\n").skip(1);
    documents.map(|text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))).collect()
}

fn kinds(objects: &[Value]) -> Vec<&str> {
    objects.iter().filter_map(|object| object["kind"].as_str()).collect()
}

/// Every scalar of a YAML text.
fn scalars(yaml: &str) -> Vec<String> {
    let events = granit_parser::Parser::new_from_str(yaml).map(|event| match event {
        Ok((granit_parser::Event::Scalar(text, ..), _)) => Some(text.into_owned()),
        Ok(_) => None,
        Err(error) => panic!("{error}\n{yaml}"),
    });
    events.flatten().collect()
}

#[test]
fn yaml_gives_back_what_was_written() {
    for plan in [
        "experiment: sweep\n",
        "  - begins: with spaces\n",
        "\nbegins with an empty line\n",
        "a\n   \n\nb: |\n  c\n",
        "no end",
        "two ends\n\n",
        "spaces at the end  \n",
        "\t- tabs\r\n",
        "--- # \u{e9}\u{1f600} 'x' \"y\" \\ {z}: &a *b !c %d @e\n...\n",
        "\u{7f}\u{85}\u{2028}\u{feff}\u{fffe}\u{0}\n",
        "\n",
        "",
    ] {
        let change = |job: &mut Job| job.plan_text = plan.to_owned();
        let record = |job: &mut Job| {
            change(job);
            job.record = Some("-r\n'\u{7}".to_owned());
            job.program = "p \" # \n x: &y".to_owned();
        };
        for (target, kind) in KINDS {
            let found = scalars(&text(target, record, &[("image", "r/a:1")]).unwrap());
            for expected in [plan, "p \" # \n x: &y", "--output-dir=/results/-r\n'\u{7}", kind, "ConfigMap"] {
                assert!(found.iter().any(|scalar| scalar == expected), "{expected:?} is not in {found:?}");
            }
        }
    }
}

proptest::proptest! {
    #[test]
    fn any_plan_survives_yaml(plan in "[ -~\\n\\t\u{e9}]{0,60}\\n?") {
        let found = scalars(&text("kubernetes", |job| job.plan_text = plan.clone(), &[("image", "a")]).unwrap());
        proptest::prop_assert!(found.contains(&plan), "{plan:?}: {found:?}");
    }
}

/// The value of a variable of a pod's first container.
fn variable(pod: &Value, name: &str) -> String {
    let variables = pod["containers"][0]["env"].as_array().unwrap();
    let found = variables.iter().find(|variable| variable["name"] == name);
    found.map_or_else(String::new, |variable| variable["value"].as_str().unwrap().to_owned())
}

/// The objects that start ranks, of a job of 4 ranks on 2 nodes with a GPU for each rank.
fn started(target: &str, options: &[(&'static str, &str)]) -> (String, Value) {
    let change = |job: &mut Job| (job.nodes, job.gpus) = (if target == "kubernetes" { 4 } else { 2 }, 1);
    let options = [options, &[("image", "r/a:1")]].concat();
    let file = text(target, change, &options).unwrap();
    let last = objects(&file).pop().unwrap();
    (file, last)
}

/// The templates of its pods, with the number of each.
fn pods(object: &Value) -> Vec<(u64, &Value)> {
    let spec = &object["spec"];
    let replicas = ["pytorchReplicaSpecs", "mpiReplicaSpecs"].iter().find_map(|name| spec[name].as_object());
    match replicas {
        Some(replicas) => {
            let pod = |one: &'_ Value| one["replicas"].as_u64().unwrap();
            replicas.values().map(|one| (pod(one), &one["template"]["spec"])).collect()
        }
        None => vec![(spec["completions"].as_u64().unwrap(), &spec["template"]["spec"])],
    }
}

#[test]
fn pods_run_as_a_plain_user_on_a_root_that_is_read_only() {
    for target in ["kubernetes", "mpijob", "pytorchjob"] {
        let (file, object) = started(target, &[]);
        for (_, pod) in pods(&object) {
            let (user, own) = (&pod["securityContext"], &pod["containers"][0]["securityContext"]);
            assert_eq!(
                (&user["runAsNonRoot"], &user["runAsUser"], &user["fsGroup"]),
                (&json!(true), &json!(10001), &json!(10001)),
                "{file}"
            );
            assert_eq!(
                (&own["readOnlyRootFilesystem"], &own["allowPrivilegeEscalation"]),
                (&json!(true), &json!(false)),
                "{file}"
            );
            assert_eq!(own["capabilities"], json!({"drop": ["ALL"]}), "{file}");
            check_volumes(pod, &pod["containers"][0]);
            assert_eq!((variable(pod, "HOME"), variable(pod, "USER")), ("/tmp".to_owned(), "rankmark".to_owned()));
        }
    }
    let (file, object) = started("trainjob", &[]);
    let pod = &object["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]["template"]
        ["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsUser"], 10001, "{file}");
    assert_eq!(pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"], true, "{file}");
    check_volumes(pod, &pod["containers"][0]);
}

/// Every mount has its volume, and what a run writes to is mounted.
fn check_volumes(pod: &Value, container: &Value) {
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&pod["volumes"]), names(&container["volumeMounts"]));
    let paths: Vec<&str> =
        container["volumeMounts"].as_array().unwrap().iter().map(|one| one["mountPath"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/etc/rankmark/plan", "/etc/rankmark/secret", "/results", "/tmp", "/dev/shm"]);
}

#[test]
fn ranks_find_each_other_by_the_names_that_each_operator_gives() {
    let rank_0 = |target: &str| {
        let (_, object) = started(target, &[]);
        let own = object["spec"]["trainer"]["env"].as_array().map(|env| json!({"containers": [{"env": env}]}));
        let pod = own.unwrap_or_else(|| pods(&object).last().unwrap().1.clone());
        (variable(&pod, "RANKMARK_COORDINATOR"), variable(&pod, "RANKMARK_SECRET_FILE"))
    };
    let secret = || "/etc/rankmark/secret/secret".to_owned();
    let at = |host: &str| (format!("{host}:29400"), secret());
    assert_eq!(rank_0("kubernetes"), at("rankmark-sweep-0.rankmark-sweep"));
    assert_eq!(rank_0("mpijob"), at("rankmark-sweep-worker-0.rankmark-sweep"));
    assert_eq!(rank_0("pytorchjob"), at("rankmark-sweep-master-0"));
    assert_eq!(rank_0("trainjob"), at("rankmark-sweep-node-0-0.rankmark-sweep"));
    // Ranks in one pod need neither an address nor a secret.
    for (target, _) in &KINDS[1..] {
        let file = text(target, |_| (), &[("image", "a")]).unwrap();
        assert!(!file.contains("RANKMARK_") && !file.contains("secret"), "{file}");
    }
}

#[test]
fn ranks_are_spread_over_pods_with_their_cores_and_gpus() {
    let both = json!({"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "2"});
    let (file, object) = started("pytorchjob", &[("time", "10")]);
    assert_eq!(object["spec"]["nprocPerNode"], "2", "{file}");
    assert_eq!(
        object["spec"]["runPolicy"],
        json!({"backoffLimit": 0, "cleanPodPolicy": "Running", "activeDeadlineSeconds": 600})
    );
    let counts: Vec<u64> = pods(&object).iter().map(|pod| pod.0).collect();
    assert_eq!(counts, [1, 1], "a master and a worker");
    for (_, pod) in pods(&object) {
        let container = &pod["containers"][0];
        assert_eq!((&container["name"], &container["resources"]["limits"]), (&json!("pytorch"), &both), "{file}");
        let words: Vec<&str> = container["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(words[..4], ["torchrun", "--no-python", "/opt/rankmark", "run"], "{file}");
    }
    let (file, object) = started("trainjob", &[("time", "10")]);
    let trainer = &object["spec"]["trainer"];
    assert_eq!(
        (&trainer["numNodes"], &trainer["numProcPerNode"], &object["spec"]["activeDeadlineSeconds"]),
        (&json!(2), &json!(2), &json!(600)),
        "{file}"
    );
    assert_eq!(trainer["resourcesPerNode"]["limits"], both, "{file}");
    let (file, object) = started("mpijob", &[("time", "10")]);
    assert_eq!(
        (&object["spec"]["slotsPerWorker"], &object["spec"]["runPolicy"]["activeDeadlineSeconds"]),
        (&json!(2), &json!(600)),
        "{file}"
    );
    let roles = pods(&object);
    let [(1, launcher), (2, worker)] = roles.as_slice() else { panic!("{file}") };
    assert_eq!(
        launcher["containers"][0]["resources"]["limits"],
        json!({"cpu": "1", "memory": "1Gi"}),
        "it runs no rank"
    );
    assert_eq!(worker["containers"][0]["resources"]["limits"], both, "{file}");
    let words: Vec<&str> =
        launcher["containers"][0]["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let (mpirun, program) = words.split_at(words.iter().position(|word| *word == "/opt/rankmark").unwrap());
    let expected = "mpirun -n 4 --hostfile /etc/mpi/hostfile --map-by ppr:2:node --bind-to none -x HOME -x RANKMARK_COORDINATOR -x RANKMARK_SECRET_FILE";
    assert_eq!(mpirun.join(" "), expected);
    assert_eq!(program[1..3], ["run", "/etc/rankmark/plan/plan.yaml"]);
    let (_, object) = started("kubernetes", &[]);
    assert_eq!(
        pods(&object)[0].1["containers"][0]["resources"]["limits"],
        json!({"cpu": "2", "memory": "3Gi", "nvidia.com/gpu": "1"})
    );
}

#[test]
fn an_mpi_job_starts_its_ranks_once_for_each_world() {
    let with = |starts: u32| {
        let steps = move |job: &mut Job| {
            job.nodes = 2;
            job.steps = vec![RankStart { ranks: 4, nodes: 2, cores: 1, gpus: 0, starts }];
        };
        let file = text("mpijob", steps, &[("image", "a")]).unwrap();
        let object = objects(&file).pop().unwrap();
        let command = &object["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"];
        command.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<String>>()
    };
    let once = with(1);
    assert_eq!((&*once[0], &*once[once.len() - 2]), ("mpirun", "--output-dir=/results/rankmark-sweep"));
    let record = "--resume=/results/rankmark-sweep";
    for starts in [2, 3] {
        let [shell, option, script, _, mpirun @ ..] = &with(starts)[..] else { panic!() };
        assert_eq!((&**shell, &**option), ("/bin/sh", "-c"));
        assert_eq!((&mpirun[..3], &*mpirun[mpirun.len() - 2]), (&once[..3], record));
        // As the container's shell would: each start is one of these words, and the code is that of the last.
        let log = tempfile::NamedTempFile::new().unwrap();
        let counts = "echo x >> \"$1\"; exit $(grep -c x \"$1\")";
        let words = ["-c", script, "rankmark", "/bin/sh", "-c", counts, "sh", log.path().to_str().unwrap()];
        let status = std::process::Command::new("/bin/sh").args(words).status().unwrap();
        assert_eq!(status.code(), Some(starts as i32), "{script}");
    }
}

#[test]
fn each_kind_is_suspended_where_its_operator_looks() {
    let by_kind = |target: &str| {
        let steps = |job: &mut Job| {
            job.nodes = 2;
            in_steps(job);
            job.steps.reverse();
        };
        let file = text(target, steps, &[("image", "a")]).unwrap();
        let objects = objects(&file);
        let second = objects
            .iter()
            .find(|object| object["metadata"]["name"] == "rankmark-sweep-ranks-2" && object["kind"] != "Service");
        (file.clone(), kinds(&objects).join(" "), second.unwrap().clone())
    };
    let (file, kinds, object) = by_kind("trainjob");
    // One process needs no launcher, so a Job will do.
    assert_eq!(kinds, "ConfigMap Job TrainJob TrainJob");
    assert_eq!(object["spec"]["suspend"], true);
    let line = "kubectl patch trainjob rankmark-sweep-ranks-2 --type merge -p '{\"spec\":{\"suspend\":false}}'";
    assert!(file.contains(line), "{file}");
    for (target, resource) in [("pytorchjob", "PyTorchJob"), ("mpijob", "MPIJob")] {
        let (file, kinds, object) = by_kind(target);
        assert_eq!(kinds, format!("ConfigMap Job {resource} {resource}"));
        assert_eq!(object["spec"]["runPolicy"]["suspend"], true);
        let line = format!(
            "kubectl patch {target} rankmark-sweep-ranks-2 --type merge -p '{{\"spec\":{{\"runPolicy\":{{\"suspend\":false}}}}}}'"
        );
        assert!(file.contains(&line), "{file}");
    }
}

#[test]
fn commands_of_a_file_are_for_its_namespace() {
    for (target, _) in KINDS {
        let steps = |job: &mut Job| {
            job.nodes = if target == "kubernetes" { 4 } else { 2 };
            in_steps(job);
        };
        let file = text(target, steps, &[("image", "a"), ("namespace", "bench")]).unwrap();
        let lines: Vec<&str> = file.lines().filter(|line| line.contains("kubectl patch ")).collect();
        assert_eq!(lines.len(), 2, "{file}");
        assert!(lines.iter().all(|line| line.contains(" --namespace bench --type merge ")), "{file}");
    }
}

#[test]
fn records_go_to_the_volume_and_nowhere_else() {
    let recorded = |record: &str| text("pytorchjob", |job| job.record = Some(record.to_owned()), &[("image", "a")]);
    for (record, folder) in [
        ("r", "/results/r"),
        ("/results/a/b", "/results/a/b"),
        ("resultsx", "/results/resultsx"),
        ("-r", "/results/-r"),
    ] {
        assert!(recorded(record).unwrap().contains(&format!("\"--output-dir={folder}\"")), "{record}");
    }
    // Kubernetes would put the folder /tmp there.
    assert!(recorded("r$(HOME)$").unwrap().contains("\"--output-dir=/results/r$$(HOME)$$\""));
    for record in ["/scratch/r", "/results", "/results/", "", "../r", "/results/../etc", "/resultsx", "a/.."] {
        let problem = recorded(record).unwrap_err();
        assert!(problem.what.starts_with("`--output-dir` does not take `") && problem.hint.is_some(), "{record}");
    }
}

/// A device for RDMA. The node lets its pods lock memory for it, as the file says: a capability would not.
#[test]
fn pods_ask_for_a_network_device_by_its_name() {
    let device = "rdma/hca_shared_devices_a";
    for (target, _) in KINDS {
        let file = text(target, |_| (), &[("image", "a"), ("rdma", device)]).unwrap();
        assert!(file.contains(&format!("\"{device}\": \"1\"")), "{target}: {file}");
        assert!(file.contains("LimitMEMLOCK=infinity") && !file.contains("IPC_LOCK"), "{target}: {file}");
        assert!(!text(target, |_| (), &[("image", "a")]).unwrap().contains("MEMLOCK"), "{target}");
        for wrong in ["rdma", "rdma/", "/hca", "a b/c", "rdma/hca\n"] {
            let why = text(target, |_| (), &[("image", "a"), ("rdma", wrong)]).unwrap_err();
            assert!(why.what.starts_with("`--rdma` does not take `"), "{why:?}");
        }
    }
}
