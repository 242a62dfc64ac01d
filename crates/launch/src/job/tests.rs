//! What each target's file holds; hostile names.

use serde_json::{Value, json};

use super::*;

fn job(target: &Target, ranks: u32, options: &[(&'static str, &str)]) -> Job {
    Job {
        experiment: "sweep".to_owned(),
        program: "/opt/rankmark".to_owned(),
        plan: "/shared/plan.yaml".to_owned(),
        plan_text: "experiment: sweep\n".to_owned(),
        record: None,
        steps: Vec::new(),
        ranks,
        nodes: if target.rank_per_node { ranks } else { 1 },
        cores: 2,
        mpi: None,
        notes: vec!["one\n#SBATCH --wrap=evil".to_owned()],
        options: options.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
    }
}

fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap()
}

fn text(name: &str, change: impl Fn(&mut Job), options: &[(&'static str, &str)]) -> Result<String, Error> {
    let mut job = job(target(name), 4, options);
    change(&mut job);
    target(name).text(&job)
}

#[test]
fn a_batch_script_says_what_slurm_needs() {
    let options = [("time", "30"), ("partition", "gpu,cpu"), ("account", "me"), ("mpi", "pmix")];
    let script = text("slurm", |job| job.nodes = 2, &options).unwrap();
    for line in [
        "#SBATCH --job-name=rankmark-sweep",
        "#SBATCH --nodes=2",
        "#SBATCH --ntasks=4",
        "#SBATCH --ntasks-per-node=2",
        "#SBATCH --cpus-per-task=2",
        "#SBATCH --time=30",
        "#SBATCH --partition=gpu,cpu",
        "#SBATCH --account=me",
        "record=results/sweep-\"$SLURM_JOB_ID\"",
        "exec srun --cpus-per-task=2 --mpi=pmix \"$@\" /opt/rankmark run /shared/plan.yaml --output-dir=\"$record\"",
    ] {
        assert!(script.lines().any(|found| found == line), "`{line}` is missing in\n{script}");
    }
    let said = |library| text("slurm", |job| job.mpi = library, &[]).unwrap();
    assert!(said(Some("pmi2")).contains("--mpi=pmi2 ") && !said(None).contains("--mpi"));
    // A note cannot become a directive.
    assert!(!script.contains("\n#SBATCH --wrap"), "{script}");
    let alone = text("slurm", |job| job.ranks = 1, &[]).unwrap();
    assert!(!alone.contains("srun --") && alone.contains("exec /opt/rankmark run "), "{alone}");
}

#[test]
fn values_that_no_shell_reads_are_plain() {
    for (name, value) in
        [("partition", "a b"), ("account", "a\n#SBATCH --wrap=x"), ("mpi", "pmix; rm x"), ("time", "1h"), ("mpi", "")]
    {
        let problem = text("slurm", |_| (), &[(name, value)]).unwrap_err();
        assert!(problem.what.starts_with(&format!("`--{name}` does not take `")), "{problem:?}");
        assert!(!problem.what.contains('\n') && problem.hint.is_some());
    }
    for name in ["Upper", "1st", "a_b", "a-", "", &"a".repeat(51)] {
        assert!(text("slurm", |_| (), &[("job-name", name)]).is_err(), "{name}");
    }
    let odd = text("slurm", |job| job.experiment = "A..b__C--".to_owned(), &[]).unwrap();
    assert!(odd.contains("--job-name=rankmark-a-b-c\n"), "{odd}");
}

#[test]
fn launchers_are_told_of_nodes() {
    let spread = text("mpirun", |job| job.nodes = 2, &[("hostfile", "my hosts")]).unwrap();
    assert!(spread.contains("--bind-to none --hostfile 'my hosts' --map-by ppr:2:node \"$@\""), "{spread}");
    assert!(spread.contains("set -- -f 'my hosts' -ppn 2 \"$@\""), "{spread}");
    assert!(text("mpirun", |job| job.nodes = 2, &[]).unwrap_err().what.contains("names of the 2 hosts"));
    let here = text("mpirun", |_| (), &[]).unwrap();
    assert!(!here.contains("ppr") && !here.contains("-ppn"), "{here}");

    let spread = text("torchrun", |job| job.nodes = 2, &[("endpoint", "one:29500")]).unwrap();
    let words = "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint one:29500 --rdzv-id rankmark-sweep --nproc-per-node 2";
    assert!(spread.contains(words), "{spread}");
    assert!(text("torchrun", |job| job.nodes = 2, &[]).unwrap_err().what.contains("where 2 nodes connect"));
    assert!(text("torchrun", |_| (), &[]).unwrap().contains("--no-python --standalone --nproc-per-node 4 "));
}

/// Four ranks on as many nodes as the job has, then two, then the program alone.
fn in_steps(job: &mut Job) {
    let nodes = job.nodes;
    let step = |ranks: u32, cores| Step { ranks, nodes: if nodes == 4 { ranks } else { nodes.min(ranks) }, cores };
    job.steps = vec![step(4, 2), step(2, 4), step(1, 1)];
}

#[test]
fn steps_share_a_record() {
    for name in ["slurm", "mpirun", "torchrun"] {
        let script = text(name, in_steps, &[]).unwrap();
        let steps: Vec<&str> = script.lines().filter(|line| line.starts_with("step ")).collect();
        assert_eq!(steps.len(), 3, "{script}");
        for (step, ranks) in steps.iter().zip([4, 2, 1]) {
            assert!(step.ends_with(&format!("/opt/rankmark run --only-ranks={ranks}")), "{script}");
        }
        assert_eq!(steps[2], "step /opt/rankmark run --only-ranks=1", "{name}: one process needs no launcher");
        assert!(script.contains("set -- \"$@\" --output-dir=\"$record\" /shared/plan.yaml\n"), "{script}");
        assert!(script.ends_with("exit \"$code\"\n") && !script.contains("exec "), "{script}");
    }
    let script = text("slurm", in_steps, &[("mpi", "pmix")]).unwrap();
    let line = "step srun --ntasks=2 --nodes=1 --cpus-per-task=4 --mpi=pmix \"$@\" /opt/rankmark run --only-ranks=2";
    assert!(script.lines().any(|found| found == line), "{script}");
    let kept = |job: &mut Job| {
        in_steps(job);
        job.record = Some("r x".to_owned());
    };
    assert!(text("mpirun", kept, &[]).unwrap().contains("\nrecord='r x'\n"));
    let nodes = |job: &mut Job| {
        job.nodes = 2;
        in_steps(job);
    };
    let script = text("mpirun", nodes, &[("hostfile", "hosts")]).unwrap();
    assert!(script.contains("start 2 1 \"$@\" /opt/rankmark run --only-ranks=2\n"), "{script}");
    assert!(
        script.contains("-n \"$ranks\" --map-by \"ppr:$each:node\" \"$@\"") && !script.contains("ppr:2"),
        "{script}"
    );
    let only = |job: &mut Job| {
        job.ranks = 1;
        job.steps = vec![Step { ranks: 1, nodes: 1, cores: 1 }];
    };
    // Of a plan with other cases, too: the program alone would start their ranks.
    assert!(text("mpirun", only, &[]).unwrap().contains("step /opt/rankmark run --only-ranks=1\n"));
}

#[test]
fn kubernetes_has_a_job_for_each_step_and_starts_one() {
    let file = text("kubernetes", in_steps, &[("image", "a"), ("job-name", &"n".repeat(50))]).unwrap();
    let objects = objects(&file);
    assert_eq!(kinds(&objects), ["ConfigMap", "Service", "Job", "Service", "Job", "Job"]);
    let jobs: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "Job").collect();
    let waits: Vec<bool> = jobs.iter().map(|job| job["spec"]["suspend"] == true).collect();
    assert_eq!(waits, [false, true, true]);
    for (job, ranks) in jobs.iter().zip([4, 2, 1]) {
        let name = format!("{}-ranks-{ranks}", "n".repeat(42));
        let container = &job["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(job["metadata"]["name"], name);
        assert_eq!(container["command"][3], format!("--output-dir=/results/{name}"));
        assert_eq!(container["command"][4], format!("--only-ranks={ranks}"));
        assert_eq!(job["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"], "n".repeat(50));
        assert!(ranks == 4 || file.contains(&format!("kubectl patch job {name} ")), "{file}");
    }
    assert_eq!(jobs[1]["spec"]["completions"], 2);
}

#[test]
fn a_job_of_kubernetes_names_no_secret_that_it_holds() {
    let problem = text("kubernetes", |_| (), &[]).unwrap_err();
    assert!(problem.what.contains("needs a container image") && problem.hint.is_some());
    let image = ("image", "registry/rankmark:0.1");
    let text_of = |ranks: u32, options: &[_]| text("kubernetes", |job| job.ranks = ranks, options).unwrap();
    let file = text_of(4, &[image, ("time", "1:30:00"), ("namespace", "bench")]);
    let objects = objects(&file);
    assert_eq!(kinds(&objects), ["ConfigMap", "Service", "Job"]);
    assert!(objects.iter().all(|object| object["metadata"]["namespace"] == "bench"), "{file}");
    let spec = &objects[2]["spec"];
    assert_eq!((&spec["completions"], &spec["activeDeadlineSeconds"]), (&json!(4), &json!(5400)), "{file}");
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["subdomain"], "rankmark-sweep");
    assert_eq!(pod["containers"][0]["env"][2]["value"], "rankmark-sweep-0.rankmark-sweep:29400");
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
    for (name, value) in [("namespace", "a/b"), ("secret", "A"), ("claim", "x: y"), ("time", "soon")] {
        assert!(text("kubernetes", |_| (), &[image, (name, value)]).is_err(), "{name}");
    }
    let long = text("kubernetes", |job| job.plan_text = "#".repeat(1_000_001), &[image]);
    assert!(long.unwrap_err().what.contains("a ConfigMap holds"));
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
        let image = "r/a:1\" # \n x: &y";
        let record = |job: &mut Job| {
            change(job);
            job.record = Some("-r\n'\u{7}".to_owned());
        };
        let found = scalars(&text("kubernetes", record, &[("image", image)]).unwrap());
        for expected in [plan, image, "--output-dir=-r\n'\u{7}", "Job", "Service", "ConfigMap"] {
            assert!(found.iter().any(|scalar| scalar == expected), "{expected:?} is not in {found:?}");
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

#[test]
fn a_target_says_of_its_launcher_what_its_ranks_find_there() {
    let mut found = 0;
    for adapter in &crate::rank::ADAPTERS {
        for target in TARGETS.iter().filter(|target| target.launcher == adapter.title) {
            assert_eq!(target.started_by().process_manager, adapter.process_manager, "{}", target.name);
            found += 1;
        }
    }
    assert_eq!(found, 3, "srun, torchrun and a Kubernetes Job");
}
