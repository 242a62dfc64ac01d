//! What each target's file holds; hostile names.

mod kubernetes;

use super::*;

fn job(target: &Target, ranks: u32, options: &[(&'static str, &str)]) -> Job {
    Job {
        experiment: "sweep".to_owned(),
        program: "/opt/rankmark".to_owned(),
        is_fleet: false,
        plan: "/shared/plan.yaml".to_owned(),
        plan_text: "experiment: sweep\n".to_owned(),
        record: None,
        steps: Vec::new(),
        ranks,
        nodes: if target.rank_per_node { ranks } else { 1 },
        cores: 2,
        gpus: 0,
        memory: 1 << 30,
        written: "20261129T181500Z".to_owned(),
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
        "#SBATCH --exclusive",
        "#SBATCH --mem=0",
        "#SBATCH --requeue",
        "record=results/sweep-\"$SLURM_JOB_ID\"",
        "exec srun --cpus-per-task=2 --mpi=pmix \"$@\" /opt/rankmark run /shared/plan.yaml --resume=\"$record\"",
    ] {
        assert!(script.lines().any(|found| found == line), "`{line}` is missing in\n{script}");
    }
    assert!(!script.contains("gpus"), "{script}");
    let on_gpus = |job: &mut Job| (job.nodes, job.gpus) = (2, 1);
    assert!(
        text("slurm", on_gpus, &[]).unwrap().contains("#SBATCH --gpus-per-node=2\n"),
        "one for each rank of a node"
    );
    // A step of eight ranks without GPUs asks for none.
    let steps = |job: &mut Job| {
        let step = |ranks, gpus| RankStart { ranks, nodes: 2, cores: 1, gpus, starts: 1 };
        (job.ranks, job.nodes, job.gpus) = (8, 2, 1);
        job.steps = vec![step(4, 1), step(8, 0)];
    };
    assert!(text("slurm", steps, &[]).unwrap().contains("#SBATCH --gpus-per-node=2\n"), "of the step of four ranks");
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
    for name in ["Upper", "1st", "a_b", "a-", "", &"a".repeat(46)] {
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
    let spread = |ranks: u32| if nodes == 4 { ranks } else { nodes.min(ranks) };
    let step = |ranks: u32, cores| RankStart { ranks, nodes: spread(ranks), cores, gpus: 0, starts: 1 };
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
        assert!(script.contains("\"$@\" --resume=\"$record\" /shared/plan.yaml || ended=$?\n"), "{script}");
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
    assert!(script.contains("start step 2 1 \"$@\" /opt/rankmark run --only-ranks=2\n"), "{script}");
    assert!(
        script.contains("-n \"$ranks\" --map-by \"ppr:$each:node\" \"$@\"") && !script.contains("ppr:2"),
        "{script}"
    );
    let only = |job: &mut Job| {
        job.ranks = 1;
        job.steps = vec![RankStart { ranks: 1, nodes: 1, cores: 1, gpus: 0, starts: 1 }];
    };
    // Of a plan with other cases, too: the program alone would start their ranks.
    assert!(text("mpirun", only, &[]).unwrap().contains("step /opt/rankmark run --only-ranks=1\n"));
}

#[test]
fn a_step_starts_its_ranks_once_for_each_world_that_mpi_joins() {
    let twice =
        |job: &mut Job| job.steps = vec![RankStart { ranks: 4, nodes: job.nodes, cores: 1, gpus: 0, starts: 2 }];
    for name in ["slurm", "mpirun", "torchrun"] {
        let script = text(name, twice, &[]).unwrap();
        let starts: Vec<&str> = script.lines().filter(|line| line.ends_with("run --only-ranks=4")).collect();
        let [part, step] = starts.as_slice() else { panic!("{script}") };
        assert_eq!(part.strip_prefix("part "), step.strip_prefix("step "), "{script}");
        assert!(script.contains("part() {"), "{script}");
    }
}

#[test]
fn nodes_that_each_run_the_script_name_one_record() {
    let nodes = |job: &mut Job| {
        job.nodes = 2;
        in_steps(job);
    };
    let script = text("torchrun", nodes, &[("endpoint", "one:29500")]).unwrap();
    assert!(script.contains("\nrecord=results/sweep-\"${RANKMARK_JOB:-20261129T181500Z}\"\n"), "{script}");
    assert!(!script.contains("date"), "{script}");
    // One shell alone has one clock.
    assert!(text("torchrun", in_steps, &[]).unwrap().contains("record=results/\"$(date -u "));
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
    assert_eq!(found, 5, "srun, a Kubernetes Job, and torchrun: by itself, in a PyTorchJob, in a TrainJob");
}
