//! Launchers' words, given as an environment: which process they make of this one, and what is refused.

use super::*;

const OPEN: &[(&str, &str)] = &[
    ("OMPI_COMM_WORLD_RANK", "1"),
    ("OMPI_COMM_WORLD_SIZE", "4"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
    ("PMIX_NAMESPACE", "1854537729"),
    ("PMIX_RANK", "1"),
];
const HYDRA: &[(&str, &str)] = &[("PMI_RANK", "3"), ("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "4"), ("PMI_FD", "1000000")];
const TORCHRUN: &[(&str, &str)] = &[
    ("RANK", "1"),
    ("WORLD_SIZE", "2"),
    ("LOCAL_RANK", "1"),
    ("LOCAL_WORLD_SIZE", "2"),
    ("MASTER_ADDR", "localhost"),
    ("MASTER_PORT", "46685"),
    ("TORCHELASTIC_RUN_ID", "none"),
];

#[test]
fn each_launcher_is_recognised_by_what_it_says() {
    let recognised = |variables| {
        let external = external_of(variables);
        (external.launcher(), external.rank, external.size)
    };
    assert_eq!(recognised(OPEN), ("Open MPI's mpirun", 1, 4));
    assert_eq!(recognised(HYDRA), ("a launcher that speaks PMI", 3, 4));
    assert_eq!(recognised(SRUN), ("srun", 0, 2));
    assert_eq!(recognised(TORCHRUN), ("torchrun", 1, 2));
    assert_eq!(recognised(POD), ("a Kubernetes Job", 2, 3));
    // What a pod starts ranks with says more than the pod.
    let inside: Vec<_> = POD.iter().chain(TORCHRUN).copied().collect();
    assert_eq!(recognised(&inside), ("torchrun", 1, 2));
    // An mpirun inside SLURM: its own variables count.
    let both: Vec<_> = SRUN.iter().chain(HYDRA).copied().collect();
    assert_eq!(recognised(&both), ("a launcher that speaks PMI", 3, 4));
    // srun starts torchrun on each node, and torchrun the ranks.
    let workers: Vec<_> = SRUN.iter().chain(TORCHRUN).copied().collect();
    assert_eq!(recognised(&workers), ("torchrun", 1, 2));
}

#[test]
fn jobs_are_told_apart_and_ranks_of_one_are_not() {
    let job = |variables, changed: &[(&str, &str)]| read_environment(variables, changed).unwrap().unwrap().job;
    for (variables, rank, other) in [
        (OPEN, "OMPI_COMM_WORLD_RANK", ("PMIX_NAMESPACE", "2")),
        (SRUN, "SLURM_PROCID", ("SLURM_STEP_ID", "4")),
        (TORCHRUN, "RANK", ("MASTER_PORT", "46686")),
        (POD, "JOB_COMPLETION_INDEX", ("RANKMARK_COORDINATOR", "sweep-0.other:29400")),
    ] {
        assert_eq!(job(variables, &[]), job(variables, &[(rank, "0")]));
        assert_ne!(job(variables, &[]), job(variables, &[other]));
    }
    // Steps are counted in each job of Slurm, whose number alone names none of the launchers that its script starts.
    let step = [("SLURM_JOB_ID", "17"), ("SLURM_STEP_ID", "0")];
    assert_ne!(job(HYDRA, &step), job(HYDRA, &[("SLURM_JOB_ID", "18"), step[1]]));
    assert_eq!(job(HYDRA, &step[..1]), job(HYDRA, &[]));
    // Hydra names no job: its process does.
    assert_eq!(job(HYDRA, &[]), job(HYDRA, &[("PMI_RANK", "0")]));
    assert!(job(HYDRA, &[]).split(' ').next_back().is_some_and(|began| began.parse::<u64>().is_ok()));
}

#[test]
fn several_hosts_need_a_job_and_a_folder_that_all_of_them_know() {
    let home = [("HOME", "/h/u")];
    let with = |more: &[(&'static str, &'static str)]| [&home[..], more].concat();
    let apart = with(&[("OMPI_COMM_WORLD_LOCAL_SIZE", "2"), ("PMIX_SERVER_TMPDIR", "/tmp/ompi.a")]);
    let external = read_environment(OPEN, &apart).unwrap().unwrap();
    assert!(external.several && lies_in(&external) == Path::new("/h/u/.rankmark"), "{:?}", external.meeting_point);
    // That folder has the name of its host.
    let elsewhere = with(&[("OMPI_COMM_WORLD_LOCAL_SIZE", "2"), ("PMIX_SERVER_TMPDIR", "/tmp/ompi.b")]);
    assert_eq!(read_environment(OPEN, &elsewhere).unwrap().unwrap().job, external.job);
    assert!(!external_of(OPEN).several);
    // One host has as many as it says, and two of them twice.
    assert!(!external_of(SRUN).several);
    assert!(read_environment(SRUN, &with(&[("SLURM_STEP_TASKS_PER_NODE", "1(x2)")])).unwrap().unwrap().several);
    // `srun --mpi=pmi2` says so nowhere else.
    let pmi = with(&[("MPI_LOCALNRANKS", ""), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_NODES", "2")]);
    assert!(read_environment(HYDRA, &pmi).unwrap().unwrap().several);

    // PALS of HPE says it in other words than Hydra.
    let pals = |here| with(&[("MPI_LOCALNRANKS", ""), ("PMI_LOCAL_SIZE", here), ("PALS_APID", "c7a1")]);
    assert!(read_environment(HYDRA, &pals("2")).unwrap().unwrap().several);
    assert!(!read_environment(HYDRA, &pals("4")).unwrap().unwrap().several);

    let why = |changed: &[(&str, &str)]| read_environment(HYDRA, changed).err().expect("refused").error.on_one_line();
    let nameless = why(&with(&[("MPI_LOCALNRANKS", "2")]));
    assert!(nameless.contains("4 ranks on several hosts, and does not name the job to them"), "{nameless}");
    assert!(nameless.contains("RANKMARK_JOB"), "{nameless}");
    assert!(
        read_environment(HYDRA, &with(&[("MPI_LOCALNRANKS", "2"), ("RANKMARK_JOB", "7")])).unwrap().unwrap().several
    );
    // Hydra itself passes it on, and then the job needs no name on other hosts.
    let (own, _launchers) = std::os::unix::net::UnixStream::pair().unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&own).to_string();
    let apart = [("PMI_FD", number.as_str()), ("MPI_LOCALNRANKS", "2")];
    let meeting_point = |changed: &[(&str, &str)]| {
        read_environment(HYDRA, &[&apart[..], changed].concat()).unwrap().unwrap().meeting_point
    };
    assert!(matches!(meeting_point(&[]), MeetingPoint::Launcher { .. }));
    // On one host, and where the user names a folder, nothing changes.
    assert!(matches!(meeting_point(&[("MPI_LOCALNRANKS", "4")]), MeetingPoint::Folder(_)));
    let named = [("RANKMARK_RENDEZVOUS_DIR", "/shared"), ("RANKMARK_JOB", "7")];
    assert_eq!(meeting_point(&named), MeetingPoint::Folder("/shared/rankmark".into()));
    let homeless = why(&[("MPI_LOCALNRANKS", "2"), ("RANKMARK_JOB", "7")]);
    assert!(homeless.contains("HOME is not set") && homeless.contains("RANKMARK_RENDEZVOUS_DIR"), "{homeless}");
    let given = read_environment(OPEN, &with(&[("RANKMARK_RENDEZVOUS_DIR", "/shared")])).unwrap().unwrap();
    assert_eq!(lies_in(&given), Path::new("/shared/rankmark"), "the user's word counts on one host, too");
}

#[test]
fn what_is_said_of_the_place_to_meet_is_used_or_refused() {
    let why = |variables, changed: &[(&str, &str)]| {
        read_environment(variables, changed).err().expect("refused").error.on_one_line()
    };
    // Another folder for each process that was started elsewhere.
    let relative = [("HOME", "/h/u"), ("RANKMARK_RENDEZVOUS_DIR", "shared/me"), ("SLURM_STEP_TASKS_PER_NODE", "1(x2)")];
    for changed in [&relative[..2], &relative[..]] {
        let text = why(SRUN, changed);
        assert!(text.contains("RANKMARK_RENDEZVOUS_DIR is `shared/me`, which is not an absolute path"), "{text}");
        assert!(text.contains("(hint: RANKMARK_RENDEZVOUS_DIR=/PATH names a folder"), "{text}");
    }
    // An address at which nobody would listen.
    let place = [("RANKMARK_COORDINATOR", "node-a:29400"), ("RANKMARK_RENDEZVOUS_DIR", "/shared")];
    for (variables, changed) in [(SRUN, &place[..1]), (SRUN, &place[..]), (HYDRA, &place[..1])] {
        let text = why(variables, changed);
        assert!(text.contains("RANKMARK_COORDINATOR is set, but RANKMARK_SECRET_FILE"), "{text}");
        assert!(text.contains("(hint: RANKMARK_SECRET_FILE names a file of 32 bytes or more"), "{text}");
    }
    // To a pod it also names the Job.
    assert!(matches!(external_of(POD).meeting_point, MeetingPoint::Folder(_)));
    let apart = [("RANKMARK_LOCAL_WORLD_SIZE", "1"), place[1]];
    assert!(why(POD, &apart[..1]).contains("but RANKMARK_SECRET_FILE"));
    assert_eq!(lies_in(&read_environment(POD, &apart).unwrap().unwrap()), Path::new("/shared/rankmark"));
}

#[test]
fn an_interface_is_one_of_each_host_and_an_address_of_one() {
    let with = |changed: &[(&str, &str)]| read_environment(SRUN, &[&[("HOME", "/h/u")], changed].concat());
    let apart = ("SLURM_STEP_TASKS_PER_NODE", "1(x2)");
    // TEST-NET-3 of RFC 5737: nobody's.
    for asked in
        [("RANKMARK_INTERFACE", "no-such"), ("RANKMARK_INTERFACE", "203.0.113.7"), ("RANKMARK_INTERFACE", "lo")]
    {
        for changed in [&[asked][..], &[asked, apart]] {
            let refused = with(changed).err().expect("refused");
            let expected = format!("RANKMARK_INTERFACE is `{}`, and {} has no such", asked.1, host_name());
            assert!(refused.error.what.starts_with(&expected), "{refused}");
            assert!(refused.error.hint.is_some_and(|hint| hint.contains(&host_name())));
        }
        // Of rank 0's host the others cannot tell; whether they have an interface of a name they can.
        let other = with(&[asked, apart, ("SLURM_PROCID", "1")]);
        assert_eq!(other.is_ok(), asked.1 == "203.0.113.7", "{asked:?}");
        assert!(with(&[asked, ("SLURM_PROCID", "1")]).is_err(), "one host is that of rank 0");
    }
    if let Ok(outward) = control::reach::outward(None) {
        for asked in [outward.name, outward.address.to_string()] {
            let external = with(&[("RANKMARK_INTERFACE", &asked), apart]).unwrap().unwrap();
            assert_eq!(external.interface, Some(asked));
        }
    }
}

#[test]
fn a_variable_that_is_no_text_is_not_one_that_is_not_set() {
    use std::os::unix::ffi::OsStringExt;
    let with = |name: &str, launcher: &[(&str, &str)]| {
        External::from_environment(&|asked| {
            let said = launcher.iter().find(|(known, _)| *known == asked).map(|(_, value)| value.into());
            if asked == name { Some(OsString::from_vec(b"1\xff".to_vec())) } else { said }
        })
    };
    // Of what says which process this is, and of what else is looked at.
    for (name, launcher) in [
        ("OMPI_COMM_WORLD_RANK", OPEN),
        ("PMI_SIZE", HYDRA),
        ("PMI_RANK", &[]),
        ("MPI_LOCALNRANKS", HYDRA),
        ("SLURM_STEP_ID", SRUN),
        ("MASTER_PORT", TORCHRUN),
        ("RANKMARK_RENDEZVOUS_DIR", SRUN),
        ("RANKMARK_SECRET_FILE", SRUN),
        ("RANKMARK_JOB", HYDRA),
        ("RANKMARK_INTERFACE", HYDRA),
        ("RANKMARK_ARRIVAL", HYDRA),
        ("PMIX_RANK", &[]),
    ] {
        let refused = with(name, launcher).err().unwrap_or_else(|| panic!("{name} was passed over"));
        assert_eq!(refused.error.what, format!("{name} is \"1\\xFF\", which is not UTF-8"));
    }
    // Of what nobody looks at nothing is said.
    assert_eq!(with("LESSOPEN", SRUN).unwrap().map(|external| external.rank), Some(0));
}

#[test]
fn what_is_no_launch_of_several_is_left_alone() {
    assert!(read_environment(&[], &[]).unwrap().is_none());
    assert!(read_environment(OPEN, &[("OMPI_COMM_WORLD_SIZE", "1"), ("OMPI_COMM_WORLD_RANK", "0")]).unwrap().is_none());
    // A batch script has a SLURM_PROCID and a SLURM_NTASKS of its own.
    assert!(read_environment(SRUN, &[("SLURM_STEP_ID", ""), ("SLURM_STEP_NUM_TASKS", "")]).unwrap().is_none());
    // Pods that are runs of their own.
    assert!(read_environment(POD, &[("RANKMARK_WORLD_SIZE", "1"), ("JOB_COMPLETION_INDEX", "0")]).unwrap().is_none());
    assert!(read_environment(&[("JOB_COMPLETION_INDEX", "1"), ("RANKMARK_WORLD_SIZE", "1")], &[]).unwrap().is_none());
    // Two common words are not torchrun.
    assert!(read_environment(TORCHRUN, &[("MASTER_PORT", "")]).unwrap().is_none());
}

#[test]
fn what_could_not_be_right_is_refused() {
    let why =
        |variables, changed: &[(&str, &str)]| read_environment(variables, changed).err().expect("refused").to_string();
    assert!(why(HYDRA, &[("PMI_RANK", "4")]).contains("PMI_RANK is 4, which is not one of 4 ranks"));
    assert!(why(HYDRA, &[("PMI_SIZE", "many")]).contains("sets PMI_SIZE to `many`"));
    let apart = why(POD, &[("RANKMARK_LOCAL_WORLD_SIZE", "1")]);
    assert!(
        apart.contains("3 ranks on several hosts, and RANKMARK_COORDINATOR is set, but RANKMARK_SECRET_FILE"),
        "{apart}"
    );
    let file = tempfile::tempdir().unwrap();
    let file = secret(file.path(), "secret", b'a', 0o600).to_string_lossy().into_owned();
    let secret = ("RANKMARK_SECRET_FILE", file.as_str());
    assert!(why(SRUN, &[secret]).contains("RANKMARK_COORDINATOR does not say where to connect"));
    for place in ["sweep-0", ":29400", "sweep-0:", "sweep-0:0", "sweep-0:70000"] {
        assert!(why(POD, &[secret, ("RANKMARK_COORDINATOR", place)]).contains("not HOST:PORT"), "{place}");
    }
    assert!(why(SRUN, &[("RANKMARK_ARRIVAL", "soon")]).contains("RANKMARK_ARRIVAL is `soon`"));
    assert!(why(SRUN, &[("RANKMARK_ARRIVAL", "0")]).contains("RANKMARK_ARRIVAL is `0`"));
    assert!(why(POD, &[("RANKMARK_WORLD_SIZE", "")]).contains("which Job of how many pods"));
    assert!(why(POD, &[("RANKMARK_LOCAL_WORLD_SIZE", "")]).contains("which Job of how many pods"));
    assert!(why(&[("PMIX_RANK", "2")], &[]).contains("nothing says of how many ranks"));
    let above = |names: &[&str]| -> Vec<process::Ancestor> {
        names.iter().map(|name| process::Ancestor { pid: 7, name: (*name).to_owned(), started: 0 }).collect()
    };
    // Whatever stands between, such as `sh -c "env -i rankmark ..."`.
    for names in [&["mpirun"][..], &["sh", "env", "mpirun", "bash"]] {
        let silent = unannounced(&|_| None, &above(names)).expect("refused").error.on_one_line();
        assert!(silent.contains("`mpirun` (pid 7) started this process and does not say"), "{silent}");
        assert!(silent.contains("RANKMARK_WORLD_SIZE=1 makes each process a run of its own"), "{silent}");
        let alone = |name: &str| (name == "RANKMARK_WORLD_SIZE").then(|| "1".to_owned());
        assert!(unannounced(&alone, &above(names)).is_none());
    }
    assert!(unannounced(&|_| None, &above(&["bash", "tmux: server"])).is_none());
}

#[test]
fn a_pod_of_a_training_job_is_not_a_run_of_its_own() {
    let pod = [("RANK", "1"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "job-master-0"), ("MASTER_PORT", "23456")];
    let why = read_environment(&pod, &[]).err().expect("refused").error.on_one_line();
    assert!(why.contains("RANK is 1 of WORLD_SIZE 4, as in a pod of a PyTorchJob"), "{why}");
    assert!(why.contains("torchrun --no-python rankmark"), "{why}");
    for changed in [("WORLD_SIZE", "1"), ("MASTER_ADDR", ""), ("RANKMARK_WORLD_SIZE", "1")] {
        assert!(read_environment(&pod, &[changed]).unwrap().is_none(), "{changed:?}");
    }
}
