//! Agents and coordinators in threads of this process. What launchers say to them is in `words`.

mod standstill;
mod words;

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use control::{ChannelError, FromRank, Invitation, Nonce, Secret, ToRank};
use measure::WorldSpec;
use process::host_name;
use serde_json::Map;

use super::agent::arrive;
use super::meeting_point::MeetingPoint;
use super::rendezvous_file::{self, RendezvousFile};
use super::*;
use crate::departure::Departure;
use crate::member::Member;
use crate::remote::Remote;
use crate::status::StatusPage;

const SRUN: &[(&str, &str)] = &[
    ("SLURM_PROCID", "0"),
    ("SLURM_NTASKS", "2"),
    ("SLURM_STEP_NUM_TASKS", "2"),
    ("SLURM_STEP_TASKS_PER_NODE", "2"),
    ("SLURM_JOB_ID", "17"),
    ("SLURM_STEP_ID", "3"),
];
const POD: &[(&str, &str)] = &[
    ("JOB_COMPLETION_INDEX", "2"),
    ("RANKMARK_WORLD_SIZE", "3"),
    ("RANKMARK_LOCAL_WORLD_SIZE", "3"),
    ("RANKMARK_COORDINATOR", "sweep-0.sweep:29400"),
];

fn read_environment(variables: &[(&str, &str)], changed: &[(&str, &str)]) -> Result<Option<External>, Verdict> {
    let all: HashMap<&str, &str> = variables.iter().chain(changed).copied().collect();
    External::from_environment(&|name| all.get(name).filter(|value| !value.is_empty()).map(Into::into))
}

fn external_of(variables: &[(&str, &str)]) -> External {
    read_environment(variables, &[]).unwrap().expect("a launcher started it")
}

/// A place of one job of `size` ranks, with its file in `folder`.
fn seat(folder: &Path, rank: u32, size: u32) -> External {
    let meeting_point = MeetingPoint::Folder(folder.join("rankmark"));
    External { rank, size, job: "a job".to_owned(), meeting_point, ..external_of(SRUN) }
}

/// Where the file of its job lies.
fn lies_in(external: &External) -> &Path {
    match &external.meeting_point {
        MeetingPoint::Folder(folder) => folder,
        MeetingPoint::Address { .. } | MeetingPoint::Store(_) | MeetingPoint::Launcher { .. } => {
            panic!("{:?}", external.meeting_point)
        }
    }
}

const SHORT: Duration = Duration::from_millis(400);

fn gathering(external: External, limit: Duration) -> JoinHandle<Result<Coordinator, Verdict>> {
    spawn(move || Coordinator::gather(External { arrival: limit, ..external }, Vec::new()))
}

#[test]
fn all_arrive_are_told_to_go_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = gathering(seat(folder.path(), 0, 3), Duration::from_secs(20));
    let agents: Vec<_> = (0..3)
        .map(|rank| {
            let external = seat(folder.path(), rank, 3);
            spawn(move || arrive(&external, None, Duration::from_secs(20)).map(|(mut channel, _)| channel.receive()))
        })
        .collect();
    let coordinator = coordinator.join().unwrap().unwrap();
    assert_eq!(coordinator.size(), 3);
    coordinator.dismiss(7);
    for agent in agents {
        assert_eq!(agent.join().unwrap().unwrap().unwrap(), ToRank::Dismissed(7));
    }
    let left = std::fs::read_dir(folder.path().join("rankmark")).unwrap().count();
    assert_eq!(left, 0, "the file is removed once all have joined");
}

#[test]
fn ranks_of_another_command_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let with_command = |rank: u32, words: &[&str]| {
        let words: Vec<OsString> = ["rankmark"].iter().chain(words).map(Into::into).collect();
        seat(folder.path(), rank, 3).with_arguments(&words)
    };
    let (own, other) = (["comm", "all_reduce"], ["comm", "all_gather", "--ranks", "2"]);
    let coordinator = gathering(with_command(0, &own), Duration::from_secs(20));
    let agents: Vec<_> = [with_command(0, &own), with_command(1, &other), with_command(2, &own)]
        .map(|external| spawn(move || arrive(&external, None, Duration::from_secs(20)).map(drop)))
        .into();
    let refused = coordinator.join().unwrap().err().expect("refused");
    let why = refused.error.on_one_line();
    let both = "rank 1 with `rankmark comm all_gather --ranks 2`, and rank 0 with `rankmark comm all_reduce`";
    assert!(why.contains(both) && why.contains("all ranks must run the same command"), "{why}");
    assert_eq!(refused.ranks, [terms::Rank(1)]);
    agents.into_iter().for_each(|agent| drop(agent.join()));
}

/// What the clock of the agent below shows more.
const AHEAD: u64 = 1_000_000_000_000;

/// An agent that answers so many questions for its clock, each after one for another, and then none.
fn ahead(external: &External, answers: u32) -> Result<(), Departure> {
    let (mut channel, _) = arrive(external, None, Duration::from_secs(20))?;
    let mut left = answers;
    loop {
        match channel.receive()? {
            ToRank::Clock(number) if left > 0 => {
                left -= 1;
                let at_ns = trace::Clock::default().now_ns() + AHEAD;
                channel.send(&FromRank::Clock { number: number.wrapping_sub(1), at_ns: 7 })?;
                channel.send(&FromRank::Clock { number, at_ns })?;
            }
            ToRank::Clock(_) => {}
            _ => return Ok(()),
        }
    }
}

#[test]
fn the_clock_of_another_host_is_read_by_its_post() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = gathering(seat(folder.path(), 0, 2), Duration::from_secs(20));
    let agents: Vec<_> = (0..2)
        .map(|rank| {
            let external = seat(folder.path(), rank, 2);
            // Enough for two looks, and none for a third.
            spawn(move || ahead(&external, 32))
        })
        .collect();
    let coordinator = coordinator.join().unwrap().unwrap();
    let mut remote = Remote::new(coordinator.agents.clone(), Nonce::fresh().unwrap(), [false, true].into_iter());
    let mut members = [Member::launched(0), Member::remote(1, host_name())];
    let page = StatusPage::create(2).unwrap().0;
    for _ in 0..2 {
        let clocks = remote.read_clocks(&mut members, &page);
        assert_eq!((clocks.of.as_slice(), clocks.hosts.len()), (&[None, Some(0)][..], 1));
        let fit = clocks.fits().unwrap()[1].unwrap();
        // Both are one clock, which is shown otherwise: the whole truth is known.
        let off = (fit.offset_ns - AHEAD as i64).unsigned_abs() as f64;
        assert!(off <= fit.residual_ns, "{fit:?}");
        assert!(fit.residual_ns < 1e9, "{fit:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let begun = Instant::now();
    let silent = remote.read_clocks(&mut members, &page);
    assert_eq!(silent.fits(), Err(format!("the clock of {}: it was not answered", host_name())));
    assert!(begun.elapsed() < Duration::from_secs(5), "one question that is not answered is enough");
    coordinator.dismiss(0);
    for agent in agents {
        agent.join().unwrap().unwrap();
    }
}

/// An agent that answers what it is asked of other hosts. `listens`: it says that it listens at this place.
fn with_door(external: &External, listens: Option<std::net::SocketAddr>) -> Result<(), Departure> {
    let (mut channel, _) = arrive(external, None, Duration::from_secs(20))?;
    let (stream, mut door) = (channel.stream()?, super::doors::Door::default());
    loop {
        match channel.receive()? {
            ToRank::Listen(number) => {
                // The answer to another question does not count.
                channel.send(&FromRank::Listens { number: number.wrapping_sub(1), place: None })?;
                channel.send(&FromRank::Listens { number, place: listens.or_else(|| door.open(&stream)) })?;
            }
            ToRank::Reach { number, places } => {
                channel.send(&FromRank::Reached { number, failures: super::doors::unreached(&places) })?;
            }
            _ => return Ok(()),
        }
    }
}

#[test]
fn hosts_that_cannot_connect_to_each_other_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = gathering(seat(folder.path(), 0, 3), Duration::from_secs(20));
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let agents: Vec<_> = [None, None, Some(nobody)]
        .into_iter()
        .zip(0..)
        .map(|(listens, rank)| {
            let external = seat(folder.path(), rank, 3);
            spawn(move || with_door(&external, listens))
        })
        .collect();
    let coordinator = coordinator.join().unwrap().unwrap();
    for (agent, rank) in crate::remote::locked(&coordinator.agents).iter_mut().zip(0..) {
        agent.host = format!("h{rank}");
    }
    let remote = |ranks: usize| {
        let abroad = (0..ranks).map(|rank| rank > 0);
        Remote::new(coordinator.agents.clone(), Nonce::fresh().unwrap(), abroad)
    };
    let mut members = [Member::launched(0), Member::remote(1, "h1".to_owned()), Member::remote(2, "h2".to_owned())];
    let page = StatusPage::create(3).unwrap().0;
    assert_eq!(remote(2).blocked(&mut members[..2], &page), None, "the first two reach each other");
    let told = remote(3).blocked(&mut members, &page).unwrap();
    let port = nobody.port();
    for from in ["h0 (rank 0)", "h1 (rank 1)"] {
        let words = format!("{from} cannot connect to h2 (rank 2) at 127.0.0.1 port {port}: ");
        assert!(told.contains(&words), "{words}: {told}");
    }
    coordinator.dismiss(0);
    for agent in agents {
        agent.join().unwrap().unwrap();
    }
}

#[test]
fn ranks_that_never_arrive_are_named_after_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let (begun, coordinator) = (Instant::now(), gathering(seat(folder.path(), 0, 3), SHORT));
    let joined = arrive(&seat(folder.path(), 1, 3), None, Duration::from_secs(20));
    let verdict = coordinator.join().unwrap().err().expect("two are missing");
    assert_eq!(verdict.ranks, [terms::Rank(0), terms::Rank(2)]);
    assert!(
        verdict.error.what.starts_with("ranks 0, 2 never arrived within 0.4 s: srun says that it started 3"),
        "{verdict}"
    );
    assert!(begun.elapsed() >= SHORT && begun.elapsed() < Duration::from_secs(10));
    // Who did arrive is not left waiting.
    assert!(matches!(joined.map(|(mut channel, _)| channel.receive().map(drop)), Ok(Err(ChannelError::Lost))));
    let alone = arrive(&seat(folder.path(), 1, 3), None, SHORT).err().expect("nobody is there");
    assert!(alone.to_string().contains("rank 1 of srun cannot find the coordinator"), "{alone}");
    // On another host, most likely since the folder there is another one.
    let abroad = External { several: true, ..seat(folder.path(), 1, 3) };
    let abroad = arrive(&abroad, None, Duration::ZERO).err().expect("nobody is there").to_string();
    let shown = folder.path().join("rankmark").display().to_string();
    assert!(abroad.contains(&shown) && abroad.contains("must be the same on all hosts"), "{abroad}");
}

/// A place in a job whose processes were given an address to meet at and this secret.
fn with_address(place: &str, secret: &Path, rank: u32, size: u32) -> External {
    let variable = |name: &str| match name {
        "RANKMARK_COORDINATOR" => Some(place.to_owned()),
        "RANKMARK_SECRET_FILE" => Some(secret.to_string_lossy().into_owned()),
        _ => None,
    };
    let meeting_point = MeetingPoint::from_variables(&variable, true, false).unwrap();
    External { rank, size, job: "a job".to_owned(), meeting_point, ..external_of(POD) }
}

/// A file of this name and mode with a secret that begins with this byte.
fn secret(folder: &Path, name: &str, first: u8, mode: u32) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, [&[first][..], &[b'x'; 40], b"\n"].concat()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// A port of loopback that nobody listens on.
fn free_place() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn without_a_folder_all_meet_where_they_were_told() {
    let folder = tempfile::tempdir().unwrap();
    // As Kubernetes mounts it: a link to a file of root's.
    let real = secret(folder.path(), "real", b'a', 0o440);
    let mounted = folder.path().join("mounted");
    std::os::unix::fs::symlink(&real, &mounted).unwrap();
    let place = free_place();
    let late = spawn({
        let external = with_address(&place, &mounted, 1, 2);
        move || arrive(&external, None, Duration::from_secs(20)).map(|(mut channel, _)| channel.receive())
    });
    // A rank that comes before the coordinator asks again.
    std::thread::sleep(Duration::from_millis(100));
    let coordinator = gathering(with_address(&place, &mounted, 0, 2), Duration::from_secs(20));
    let first = arrive(&with_address(&place, &mounted, 0, 2), None, Duration::from_secs(20)).unwrap().0;
    let coordinator = coordinator.join().unwrap().unwrap();
    coordinator.dismiss(3);
    assert_eq!(late.join().unwrap().unwrap().unwrap(), ToRank::Dismissed(3));
    drop(first);
    assert!(std::net::TcpStream::connect(&place).is_err(), "nothing listens once all are there");
}

#[test]
fn who_was_given_another_secret_is_not_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let [own, other] = [("own", b'a'), ("other", b'b')].map(|(name, first)| secret(folder.path(), name, first, 0o600));
    let place = free_place();
    let coordinator = gathering(with_address(&place, &own, 0, 2), Duration::from_secs(60));
    let why = arrive(&with_address(&place, &other, 1, 2), None, SHORT * 3).err().expect("refused").to_string();
    assert!(why.contains("has another secret"), "{why}");
    // The same secret serves for other jobs, and their processes are not taken for those of this one.
    let another = External { job: "another job".to_owned(), ..with_address(&place, &own, 1, 2) };
    let why = arrive(&another, None, Duration::ZERO).err().expect("refused").to_string();
    assert!(why.contains("has another secret"), "{why}");
    let larger = arrive(&with_address(&place, &own, 1, 3), None, Duration::ZERO).err().expect("refused");
    assert!(
        matches!(&larger, Departure::Channel(ChannelError::Refused(why)) if why.contains("the world has 2 ranks, not 3")),
        "{larger}"
    );
    // One coordinator has the place.
    let second = gathering(with_address(&place, &own, 0, 2), SHORT).join().unwrap().err().expect("refused").to_string();
    assert!(second.contains("another coordinator has this job's ranks already"), "{second}");
    let genuine =
        [0, 1].map(|rank| arrive(&with_address(&place, &own, rank, 2), None, Duration::from_secs(20)).unwrap());
    assert_eq!(coordinator.join().unwrap().unwrap().size(), 2);
    drop(genuine);
}

#[test]
fn a_coordinator_says_who_came_with_another_secret() {
    let folder = tempfile::tempdir().unwrap();
    let [own, other] = [("own", b'a'), ("other", b'b')].map(|(name, first)| secret(folder.path(), name, first, 0o600));
    let place = free_place();
    let coordinator = gathering(with_address(&place, &own, 0, 3), SHORT * 4);
    let first = arrive(&with_address(&place, &own, 0, 3), None, Duration::from_secs(20)).unwrap();
    let why = arrive(&with_address(&place, &other, 1, 3), None, SHORT).err().expect("refused").to_string();
    assert!(why.contains("has another secret"), "{why}");
    let why = coordinator.join().unwrap().err().expect("rank 1 and 2 never arrive").error.what;
    let named = format!("; rank 1 (pid {}, on {}) came with another secret", std::process::id(), host_name());
    assert!(why.contains("ranks 1, 2 never arrived") && why.contains(&named), "{why}");
    drop(first);
}

#[test]
fn a_secret_that_all_can_read_or_guess_is_none() {
    let folder = tempfile::tempdir().unwrap();
    // Whichever process it is: none waits for others in vain.
    let why = |path: &Path| {
        let file = ("RANKMARK_SECRET_FILE", path.to_str().unwrap());
        read_environment(POD, &[("RANKMARK_LOCAL_WORLD_SIZE", "1"), file]).err().expect("refused").to_string()
    };
    assert!(why(&secret(folder.path(), "open", b'a', 0o644)).contains("open to all users (mode 644)"));
    let short = folder.path().join("short");
    std::fs::write(&short, "x".repeat(31) + "\n").unwrap();
    std::fs::set_permissions(&short, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(why(&short).contains("from 32 to 4096 bytes"), "{}", why(&short));
    std::fs::write(&short, "x".repeat(5000)).unwrap();
    assert!(why(&short).contains("from 32 to 4096 bytes"));
    assert!(why(&folder.path().join("none")).contains("No such file"));
    // A process that opens a pipe would wait for ever.
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(why(&pipe).contains("it is a named pipe (FIFO), not a plain file"), "{}", why(&pipe));
}

#[test]
fn the_coordinator_listens_where_others_look_for_it() {
    let listening = |place: &str, interface| {
        let secret = Secret::fresh().unwrap();
        let meeting_point = MeetingPoint::Address { place: place.to_owned(), file: PathBuf::new(), secret };
        meeting_point.listening(true, interface)
    };
    assert_eq!(listening("127.0.0.1:29400", None), Ok("127.0.0.1:29400".parse().unwrap()));
    // TEST-NET-1 of RFC 5737: nobody's.
    let why = listening("192.0.2.1:29400", None).unwrap_err();
    assert!(why.contains("192.0.2.1, not an address of rank 0's host"), "{why}");
    assert!(listening("127.0.0.1:29400", Some("no-such-interface")).is_err());
    // A name that leads back: where others look for it.
    let outward = control::reach::outward(None).map(|found| std::net::SocketAddr::new(found.address, 29400));
    assert_eq!(listening("localhost:29400", None), outward);
}

/// Writes a file for `size` ranks that names this address, with a secret of its own.
fn rendezvous_file(address: std::net::SocketAddr, size: u32, started: u64) -> RendezvousFile {
    let spec = WorldSpec { ranks: size, fields: Map::new() };
    let invitation = Invitation::new(address, &Secret::fresh().unwrap(), SHORT, (Vec::new(), false), spec);
    let pid_namespace = process::pid_namespace();
    RendezvousFile { pid: std::process::id(), started, pid_namespace, host: host_name(), invitation }
}

#[test]
fn another_secret_and_another_size_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = gathering(seat(folder.path(), 0, 2), SHORT * 3);
    let own = seat(folder.path(), 1, 2);
    let read = || rendezvous_file::read(lies_in(&own), &own.job);
    while read().is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The same address, and a secret that its coordinator does not know.
    let other = tempfile::tempdir().unwrap();
    let other = seat(other.path(), 1, 2);
    let _kept = rendezvous_file::publish(
        lies_in(&other),
        &other.job,
        &rendezvous_file(read().unwrap().invitation.address, 2, 0),
    )
    .unwrap();
    let why = arrive(&other, None, Duration::ZERO).err().expect("refused");
    assert!(matches!(why, Departure::Channel(ChannelError::Impostor(_))), "{why}");
    let why = arrive(&seat(folder.path(), 1, 5), None, SHORT).err().expect("refused");
    assert!(why.to_string().contains("its launcher started 2 ranks, and that of this one 5"), "{why}");
    assert!(coordinator.join().unwrap().is_err(), "neither was let in");
}

#[test]
fn a_second_coordinator_is_refused_and_a_dead_one_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let place = seat(folder.path(), 0, 2);
    let began = process::began(std::process::id()).unwrap();
    let address = "127.0.0.1:1".parse().unwrap();
    let first = rendezvous_file::publish(lies_in(&place), &place.job, &rendezvous_file(address, 2, began)).unwrap();
    let verdict = gathering(place.clone(), SHORT).join().unwrap().err().expect("refused");
    let said =
        format!("another coordinator (pid {} on {}) has this job's ranks already", std::process::id(), host_name());
    assert!(verdict.error.what.contains(&said), "{verdict}");
    drop(first);
    // Of one on another host its port tells.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let abroad =
        RendezvousFile { host: "another".to_owned(), ..rendezvous_file(listener.local_addr().unwrap(), 2, began) };
    let first = rendezvous_file::publish(lies_in(&place), &place.job, &abroad).unwrap();
    let why = rendezvous_file::publish(lies_in(&place), &place.job, &rendezvous_file(address, 2, began))
        .err()
        .expect("it listens");
    assert!(why.contains("on another) has this job's ranks already"), "{why}");
    drop((listener, first));
    // Its number is in use, by a process that began at another time.
    std::mem::forget(
        rendezvous_file::publish(lies_in(&place), &place.job, &rendezvous_file(address, 2, began + 1)).unwrap(),
    );
    let second = rendezvous_file::publish(lies_in(&place), &place.job, &rendezvous_file(address, 2, began)).unwrap();
    assert_eq!(rendezvous_file::read(lies_in(&place), &place.job).unwrap().started, began);
    drop(second);
}

#[test]
fn files_of_runs_that_were_killed_are_removed_by_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let place = seat(folder.path(), 0, 2);
    let began = process::began(std::process::id()).unwrap();
    let file_since = |started: u64| rendezvous_file("127.0.0.1:1".parse().unwrap(), 2, started);
    let publish = |job: &str, file: &RendezvousFile| rendezvous_file::publish(lies_in(&place), job, file).unwrap();
    let path = |job: &str| rendezvous_file::path(lies_in(&place), job);
    let live = publish("live", &file_since(began));
    // Kept as a kill keeps them: by a process of another time, on a host that cannot be asked, and in another container.
    std::mem::forget(publish("abroad", &RendezvousFile { host: "another".to_owned(), ..file_since(began) }));
    std::mem::forget(publish("contained", &RendezvousFile { pid_namespace: Some(1), ..file_since(began + 1) }));
    std::mem::forget(publish("dead", &file_since(began + 1)));
    let other = lies_in(&place).join("notes");
    std::fs::write(&other, "mine").unwrap();
    assert!(path("dead").exists());
    drop(publish(&place.job, &file_since(began)));
    assert!(!path("dead").exists(), "its coordinator is gone");
    assert!(path("live").exists() && path("abroad").exists() && path("contained").exists() && other.exists());
    drop(live);
}

#[test]
fn only_what_others_cannot_reach_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let place = seat(folder.path(), 0, 2);
    let rendezvous_file = || rendezvous_file("127.0.0.1:1".parse().unwrap(), 2, 0);
    let kept = rendezvous_file::publish(lies_in(&place), &place.job, &rendezvous_file()).unwrap();
    let path = rendezvous_file::path(lies_in(&place), &place.job);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(lies_in(&place))), (0o600, 0o700));
    let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    open(&path, 0o644);
    assert!(
        rendezvous_file::read(lies_in(&place), &place.job).err().is_some_and(|why| why.contains("is open to others"))
    );
    open(lies_in(&place), 0o755);
    assert!(
        rendezvous_file::publish(lies_in(&place), "another", &rendezvous_file())
            .err()
            .is_some_and(|why| why.contains("(mode 755) (RANKMARK_RENDEZVOUS_DIR=/PATH names a folder"))
    );
    open(lies_in(&place), 0o700);
    // Of /tmp another user may have taken the name first.
    match std::os::unix::fs::chown(lies_in(&place), Some(12_345), None) {
        Ok(()) => {
            let of = |why: Option<String>| {
                let words = ["belongs to user 12345, not to user 0", "RANKMARK_RENDEZVOUS_DIR=/PATH names a folder"];
                why.is_some_and(|why| words.iter().all(|word| why.contains(word)))
            };
            assert!(of(rendezvous_file::publish(lies_in(&place), "another", &rendezvous_file()).err()));
            assert!(of(rendezvous_file::read(lies_in(&place), &place.job).err()));
            std::os::unix::fs::chown(lies_in(&place), Some(0), None).unwrap();
        }
        Err(error) => crate::skip::skip("a folder of another user", &error.to_string()),
    }
    drop(kept);
    // A link to a file of ours is not followed, and a folder that others can enter is not chosen.
    let real = folder.path().join("real");
    std::fs::write(&real, "{}").unwrap();
    open(&real, 0o600);
    std::os::unix::fs::symlink(&real, &path).unwrap();
    assert!(rendezvous_file::read(lies_in(&place), &place.job).is_err());
    let chosen = |path: &Path| {
        let only = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| path.to_string_lossy().into_owned());
        rendezvous_file::folder(&only, false).unwrap()
    };
    open(folder.path(), 0o700);
    assert_eq!(chosen(folder.path()), folder.path().join("rankmark"));
    open(folder.path(), 0o755);
    assert!(chosen(folder.path()).starts_with("/tmp"), "open to others");
}
