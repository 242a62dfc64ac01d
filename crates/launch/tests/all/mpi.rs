//! Worlds that a library's own mpirun starts: bound as asked, no secret in sight, and ended with everything in them
//! whichever rank dies. Ranks need not use MPI for that.

use std::path::PathBuf;
use std::time::Duration;

use launch::{HostStarter, ProcessWorld};
use measure::{Verdict, VerdictKind};
use serde_json::{Value, json};
use terms::Rank;

use crate::play::{LONG, Test, act, case, exists, signal, spec, wait_gone};
use crate::skip;

pub(crate) const TESTS: &[Test] = &[
    ("mpi::ranks_are_bound_and_talk", ranks_are_bound_and_talk),
    ("mpi::no_secret_is_in_sight", no_secret_is_in_sight),
    ("mpi::a_killed_rank_is_named", a_killed_rank_is_named),
    ("mpi::a_killed_launcher_is_named", a_killed_launcher_is_named),
    ("mpi::a_launcher_that_fails_is_quoted", a_launcher_that_fails_is_quoted),
    ("mpi::a_library_that_is_none_is_lacking", a_library_that_is_none_is_lacking),
];

fn starter() -> HostStarter {
    HostStarter::new(vec![PathBuf::from("/usr/local/bin"), PathBuf::from("/usr/bin")])
}

fn fields(library: &str, more: Value) -> Value {
    let mut fields = json!({"backend": "mpi", "mpi_library": library, "bind": "core"});
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
        fields.extend(more);
    }
    fields
}

/// Starts `ranks` ranks under every library that is here with its launcher.
fn everywhere(ranks: u32, body: fn(ProcessWorld)) {
    let mut found = false;
    for library in ["libmpi.so.40", "libmpich.so.12"] {
        let backend = comm::backend("mpi").unwrap();
        let own = [("mpi_library".to_owned(), library.into())].into_iter().collect();
        match starter().launch(backend, &own, ranks, &[]) {
            Ok(_) => {
                found = true;
                body(starter().start_processes(&spec(ranks, fields(library, json!({})))).unwrap());
            }
            Err(why) => skip::skip(&format!("worlds started by the mpirun of {library}"), &why),
        }
    }
    if !found {
        skip::skip("worlds started by mpirun", "no MPI library with its mpirun (Debian: openmpi-bin, mpich)");
    }
}

/// After a verdict nothing is left of the world.
fn verdict_on(world: &mut ProcessWorld, what: &str) -> Verdict {
    let pids: Vec<u32> = world.pids().into_iter().chain(world.launcher_pid()).collect();
    let verdict = act(world, what, json!({})).unwrap_err();
    assert!(!verdict.kind.world_lives(), "{verdict}");
    assert_eq!(wait_gone(&pids, Duration::from_secs(3)), [0; 0], "{verdict}");
    verdict
}

fn ranks_are_bound_and_talk() {
    everywhere(3, |mut world| {
        let cores = process::allowed_cores().unwrap();
        let core = |rank: usize| cores[rank % cores.len()];
        let places = act(&mut world, "place", json!({})).unwrap();
        for (rank, place) in places.iter().enumerate() {
            assert!(place.starts_with(&format!("Some({0}) [{0}]", core(rank))), "{rank}: {place}");
        }
        assert_eq!(act(&mut world, "echo", json!({})).unwrap(), ["0 of 3", "1 of 3", "2 of 3"]);
        let gathered = act(&mut world, "gather", json!({"rounds": 20})).unwrap();
        assert_eq!(gathered, ["0/19 1/19 2/19"; 3]);
        let pids: Vec<u32> = world.pids().into_iter().chain(world.launcher_pid()).collect();
        assert!(pids.iter().all(|pid| exists(*pid)) && pids.len() == 4, "{pids:?}");
        drop(world);
        assert_eq!(wait_gone(&pids, Duration::from_secs(3)), [0; 0]);
    });
}

fn no_secret_is_in_sight() {
    everywhere(2, |world| {
        for pid in world.pids() {
            let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
            let argument = command_line.split(|byte| *byte == 0).find(|part| part.starts_with(b"__rank=")).unwrap();
            let argument = String::from_utf8_lossy(argument).into_owned();
            // Two places of this process, which hold nothing any more once all ranks have joined.
            let places: Vec<&str> = argument.split(',').skip(1).collect();
            let own = format!("/proc/{}/fd/", std::process::id());
            assert!(places.len() == 2 && places.iter().all(|place| place.starts_with(&own)), "{argument}");
            let held = std::fs::read_link(places[0]).map(|link| link.to_string_lossy().into_owned());
            assert!(!held.as_ref().is_ok_and(|name| name.contains("rankmark-invitation")), "{held:?}");
        }
    });
}

fn a_killed_rank_is_named() {
    everywhere(3, |mut world| {
        let victim = world.pids()[1];
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            signal(victim, 9);
        });
        let verdict = verdict_on(&mut world, "spin");
        killer.join().unwrap();
        assert_eq!(verdict.kind, VerdictKind::Died, "{verdict}");
        // Never only others: Hydra kills those within microseconds, and they may be named in addition.
        assert!(verdict.ranks.contains(&Rank(1)), "{:?} {verdict}", verdict.ranks);
        assert!(verdict.error.what.contains(&format!("rank 1 (pid {victim}, this host) ended ")), "{verdict}");
    });
}

fn a_killed_launcher_is_named() {
    everywhere(2, |mut world| {
        let launcher = world.launcher_pid().unwrap();
        signal(launcher, 9);
        let verdict = verdict_on(&mut world, "spin");
        // Also where ranks notice that their launcher is gone, and leave, before its end is looked at.
        let named = format!("(pid {launcher}, this host) died of signal 9 (SIGKILL) while ranks were needed");
        assert!(verdict.kind == VerdictKind::Died && verdict.error.what.contains(&named), "{verdict}");
    });
}

fn a_launcher_that_fails_is_quoted() {
    // A launcher that says the right name and starts nothing.
    let folder = tempfile::tempdir().unwrap();
    let Ok(facts) = comm::mpi::facts(Some("libmpi.so.40")) else {
        return skip::skip("a launcher that fails", "no Open MPI (Debian: openmpi-bin)");
    };
    let library = folder.path().join("lib").join("libmpi.so.40");
    let program = folder.path().join("bin").join("mpirun");
    for path in [&library, &program] {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    }
    std::fs::copy(&facts.path, &library).unwrap();
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'mpirun (Open MPI) {}'; exit 0; fi\n\
         echo 'there are not enough slots'; exit 3\n",
        facts.number
    );
    std::fs::write(&program, script).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let verdict = starter().start_processes(&spec(2, fields(&library.to_string_lossy(), json!({})))).err().unwrap();
    assert_eq!(verdict.kind, VerdictKind::NotStarted);
    let said = format!("{} (pid ", program.canonicalize().unwrap().display());
    let how = ", this host) ended with code 3 while ranks were needed";
    assert!(verdict.error.what.contains(&said) && verdict.error.what.contains(how), "{verdict}");
    assert!(verdict.error.what.contains("there are not enough slots"), "{verdict}");
}

fn a_library_that_is_none_is_lacking() {
    let mut starter = starter();
    let verdict = measure::Starter::start(&mut starter, &spec(2, fields("libc.so.6", json!({})))).err().unwrap();
    assert_eq!(verdict.kind, VerdictKind::Lacking, "{verdict}");
    assert!(verdict.error.what.contains("libc.so.6 lacks MPI_"), "{verdict}");
    // Other backends are started as ever.
    let mut world = measure::Starter::start(&mut starter, &spec(1, json!({"backend": "shm"}))).unwrap();
    world.command(&measure::Command::Prepare { case: Box::new(case("echo", json!({}))), check: true }, LONG).unwrap();
}
