//! The program as pods of an indexed Job of Kubernetes, which are hosts to each other.

use super::{FIXED, make_mode, start};
use crate::place::{Ended, Live, Place, reason, statuses};

/// Starts two processes with what a pod of an indexed Job has in its environment, and more.
fn pods(place: &Place, arguments: &str, more: &[(&'static str, &str)]) -> Vec<Ended> {
    let pod = |rank: u32| {
        let own = [
            ("JOB_COMPLETION_INDEX", rank.to_string()),
            ("RANKMARK_WORLD_SIZE", "2".to_owned()),
            ("RANKMARK_LOCAL_WORLD_SIZE", "1".to_owned()),
            ("RANKMARK_COORDINATOR", "sweep-0.sweep:29400".to_owned()),
        ];
        own.into_iter().chain(more.iter().map(|(name, value)| (*name, (*value).to_owned())))
    };
    start(place, 2, arguments, pod).into_iter().map(Live::wait).collect()
}

#[test]
fn pods_of_a_job_are_one_run() {
    let place = Place::new();
    let arguments = format!("comm all_reduce --backend shm,mpi {FIXED}");
    // Pods are hosts to each other, and share no folder.
    for ended in pods(&place, &arguments, &[]) {
        ended.refuses(&["a Kubernetes Job started 2 ranks on several hosts", "but RANKMARK_SECRET_FILE"]);
    }
    // Each would think that it is alone.
    for ended in pods(&place, &arguments, &[("RANKMARK_WORLD_SIZE", "")]) {
        ended.refuses(&["sets RANKMARK_WORLD_SIZE to ``"]);
    }
    let ended = pods(&place, &arguments, &[("RANKMARK_LOCAL_WORLD_SIZE", "2")]);
    assert!(ended.iter().all(|ended| ended.status.code() == Some(0)), "{ended:?}");
    assert!(ended[0].out.contains("all_reduce") && ended[1].out.is_empty(), "only rank 0 speaks");
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [1, 0, 1, 0]);
    let skipped = cases.iter().find(|line| line["status"] == "skipped").unwrap();
    assert!(
        reason(skipped).contains("a Kubernetes Job does not start MPI ranks") || reason(skipped).contains("not ready")
    );
}

#[test]
fn pods_meet_where_their_job_says() {
    let place = Place::new();
    place.write("secret", "the head of /dev/urandom, 32 bytes of it\n");
    let secret = place.path("secret");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (at, secret_path) = (format!("127.0.0.1:{port}"), secret.to_string_lossy().into_owned());
    let told = [("RANKMARK_COORDINATOR", at.as_str()), ("RANKMARK_SECRET_FILE", secret_path.as_str())];
    let arguments = format!("comm all_reduce --backend shm {FIXED}");
    // A secret that all users can read is none.
    make_mode(&secret, 0o644);
    let ended = pods(&place, &arguments, &told);
    assert!(ended.iter().all(|ended| ended.status.code() == Some(2)), "{ended:?}");
    assert!(ended[0].err.contains("open to all users"), "{ended:?}");
    make_mode(&secret, 0o440);
    let ended = pods(&place, &arguments, &told);
    assert!(ended.iter().all(|ended| ended.status.code() == Some(0)), "{ended:?}");
    let cases = place.cases("r");
    assert_eq!((statuses(&cases), &cases[0]["wrong"]), ([1, 0, 0, 0], &0.into()));
    let record = place.read("r/run.json");
    assert!(!record.contains("urandom") && !record.contains("RANKMARK_SECRET_FILE"), "{record}");
    assert!(!place.path("runtime").join("rankmark").exists(), "no file names the coordinator");
    // One that never comes is named.
    let alone = [told[0], told[1], ("RANKMARK_WORLD_SIZE", "3"), ("RANKMARK_ARRIVAL", "1")];
    let ended = pods(&place, &arguments, &alone);
    assert!(ended.iter().all(|ended| ended.status.code() != Some(0)), "{ended:?}");
    assert!(ended[0].err.contains("rank 2 never arrived within 1 s"), "{ended:?}");
}

#[test]
fn a_pod_that_waits_can_be_ended() {
    let place = Place::new();
    place.write("secret", "the head of /dev/urandom, 32 bytes of it\n");
    make_mode(&place.path("secret"), 0o400);
    let mut starting = place.command(&format!("comm all_reduce {FIXED}"));
    starting.command.envs([
        ("JOB_COMPLETION_INDEX", "1"),
        ("RANKMARK_WORLD_SIZE", "2"),
        ("RANKMARK_LOCAL_WORLD_SIZE", "1"),
        ("RANKMARK_COORDINATOR", "127.0.0.1:9"),
        ("RANKMARK_SECRET_FILE", &place.path("secret").to_string_lossy()),
    ]);
    let live = starting.start();
    std::thread::sleep(std::time::Duration::from_millis(500));
    live.signal(libc::SIGTERM);
    let ended = live.wait_for(std::time::Duration::from_secs(20)).exits(143);
    assert!(ended.err.contains("interrupted by SIGTERM before its coordinator was there"), "{ended:?}");
}
