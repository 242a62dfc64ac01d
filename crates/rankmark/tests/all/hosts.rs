//! Ranks on several hosts, under an mpirun.

use std::time::Duration;

use serde_json::{Value, json};

use crate::namespaces::{Hosts, is_here};
use crate::place::{ORPHANS, Place, reason, statuses};
use crate::processes::{self, Aim};
use crate::skip;

const FIXED: &str = "--iters 6 --warmup 1 --limits false --quiet --output-dir r";

/// Until the link is down, a rank is killed; long enough that nothing else ends the case.
const LONG: &str = "comm all_reduce --backend mpi --bytes 64KiB --max-seconds 60s --target-precision 0 --limits false \
                    --quiet --timeout 60s --output-dir r";

/// What has to be done where something is lost, and by then: nothing hangs.
const LIMIT: Duration = Duration::from_secs(240);

/// Two seconds, and what a busy machine takes.
const SOON: Duration = Duration::from_secs(8);

/// What is left out unless it is asked for.
const NAME: &str = "what ranks on several hosts do beyond a collective, a clock and a killed rank";

fn placed(place: &Place) -> Vec<Value> {
    place.run_file("r")["placement"][0]["hosts"].as_array().unwrap().clone()
}

#[test]
fn collectives_over_hosts_are_checked_and_say_where_they_ran() {
    let Some(hosts) = Hosts::new("collectives over hosts", 4) else { return };
    // One that nobody reaches it by.
    hosts.add_interface(1);
    let place = Place::new();
    let arguments = format!("comm all_reduce --backend mpi,shm --bytes 1KiB,256KiB {FIXED}");
    hosts.command(&place, &[2, 2], &arguments).run().exits(0);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [2, 0, 2, 0]);
    for line in cases.iter().filter(|line| line["status"] == "ok") {
        assert_eq!((&line["wrong"], &line["ranks"], &line["hosts"]), (&json!(0), &json!(4), &json!(2)), "{line}");
        // Namespaces have one clock: its offset is known to be none.
        expect_clock(line, 0);
    }
    let why = |of: &dyn Fn(&Value) -> bool| cases.iter().filter(|line| of(line)).map(reason).collect::<Vec<_>>();
    let shared = why(&|line| line["backend"] == "shm");
    let told = "`shm` needs all ranks on one host, but they are on h0, h1";
    assert!(shared.len() == 2 && shared.iter().all(|why| *why == told), "{shared:?}");
    assert_eq!(placed(&place), ["h0", "h0", "h1", "h1"]);
    let run_file = place.run_file("r");
    let cpus = &run_file["placement"][0]["cpus"];
    // They are namespaces of one machine, and take turns with its cores.
    let cores = run_file["machine"]["allowed_cpus"].as_array().unwrap().len();
    let used: std::collections::HashSet<_> = (0..4).map(|rank| cpus[rank].to_string()).collect();
    assert_eq!(used.len(), cores.min(4), "{cpus}");
    assert_eq!(run_file["hosts"][1]["host"], "h1");
    let names = |host: usize| -> Vec<&Value> {
        run_file["hosts"][host]["interfaces"].as_array().unwrap().iter().map(|one| &one["name"]).collect()
    };
    assert!(["eth0", "side0"].iter().all(|name| names(1).contains(&&json!(name))), "{:?}", names(1));
    assert_eq!(run_file["placement"][0]["interfaces"], json!(["eth0", "eth0", "eth0", "eth0"]));
    assert_eq!(run_file["placement"][0]["devices"], json!(["cpu", "cpu", "cpu", "cpu"]));
    let report = place.read("r/report.md");
    assert!(report.contains("## Placement") && report.contains("| h1 "), "{report}");
    let row = report.lines().find(|line| line.starts_with("| h1 ") && line.contains("| 2 3 ")).unwrap();
    assert!(row.contains("| eth0") && !row.contains("cpu"), "{report}");
    assert!(report.contains("| clock of |"), "{report}");
    assert!(!place.path("rankmark").read_dir().unwrap().any(|_| true), "the file that names the coordinator is gone");

    let place = Place::new();
    hosts
        .command(&place, &[1, 1, 1, 1], &format!("comm all_gather --backend mpi --bytes 64KiB {FIXED}"))
        .run()
        .exits(0);
    let cases = place.cases("r");
    assert_eq!((statuses(&cases), &cases[0]["hosts"]), ([1, 0, 0, 0], &json!(4)));
    assert_eq!(placed(&place), ["h0", "h1", "h2", "h3"]);
}

#[test]
fn pairs_of_ranks_are_measured_across_hosts_and_the_slow_rank_has_its_host() {
    if !skip::heavy(NAME) {
        return;
    }
    let Some(hosts) = Hosts::new("hardware over hosts", 2) else { return };
    let place = Place::new();
    let run = format!("hardware latency --backend mpi --inject delay:rank=3,time=20ms {FIXED}");
    hosts.command(&place, &[2, 2], &run).run().exits(0);
    let line = place.cases("r").remove(0);
    assert_eq!((&line["status"], &line["wrong"], &line["hosts"]), (&json!("ok"), &json!(0), &json!(2)), "{line}");
    let pairs = &line["pairs"];
    assert_eq!(pairs["hosts"], json!(["h0", "h0", "h1", "h1"]));
    assert_eq!((&pairs["slow"], &pairs["slow_ranks"][0]["rank"]), (&json!("rank 3 on h1"), &json!(3)), "{line}");
    let report = place.read("r/report.md");
    assert!(report.contains("rank 3 on h1 is slow"), "{report}");
}

#[test]
fn pairs_within_a_host_are_apart_from_pairs_across_two() {
    if !skip::heavy(NAME) {
        return;
    }
    let Some(hosts) = Hosts::new("pairs within a host and across two", 2) else { return };
    let place = Place::new();
    let pairs = "comm ping_pong --backend mpi --peer 1,2,3 --bytes 1KiB --iters 6 --warmup 1 --limits false";
    let ended = hosts.command(&place, &[2, 2], &format!("{pairs} --output-dir r")).run().exits(0);
    let placed = placed(&place);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [3, 0, 0, 0]);
    let (said, report) = (format!("{} {}", ended.out, ended.err), place.read("r/report.md"));
    for line in &cases {
        let peer = line["parameters"]["peer"].as_u64().unwrap_or(1);
        let within = placed[peer as usize] == placed[0];
        assert_eq!((&line["hosts"], &line["pair_hosts"]), (&json!(2), &json!(if within { 1 } else { 2 })), "{line}");
    }
    // One row in the summary and one in the operation's table.
    let rows = |words: &str| report.lines().filter(|line| line.starts_with('|') && line.contains(words)).count();
    assert_eq!((rows("within a host"), rows("across 2 hosts")), (2, 4), "{report}");
    assert!(said.contains("within a host") && said.contains("across 2 hosts"), "{said}");
}

/// The clock of h1 is `ahead_ns` ahead of that of h0, as far as the line says that it knows.
fn expect_clock(line: &Value, ahead_ns: i64) {
    let clocks = line["clocks"].as_array().unwrap_or_else(|| panic!("no clocks: {line}"));
    assert_eq!((clocks.len(), &clocks[0]["host"]), (1, &json!("h1")), "{line}");
    let number = |name: &str| clocks[0][name].as_f64().unwrap_or_else(|| panic!("no {name}: {line}"));
    let (offset, residual) = (clocks[0]["offset_ns"].as_i64().unwrap(), number("residual_ns"));
    assert!((offset - ahead_ns).unsigned_abs() as f64 <= residual, "{clocks:?}");
    // Half of a round trip over links that are idle, on however busy a machine.
    assert!(residual > 1e3 && residual < 2e7, "{clocks:?}");
    assert!(number("drift_ppm").abs() <= 500.0, "{clocks:?}");
}

#[test]
fn isolated_starts_agree_whatever_the_clocks_of_hosts_show() {
    let test = "isolated starts over clocks that are apart";
    let Some(mut hosts) = Hosts::new(test, 2) else { return };
    if let Err(why) = hosts.set_ahead(1_000) {
        return skip::skip(test, &format!("no time namespaces: {why}"));
    }
    let place = Place::new();
    let arguments = format!("comm all_reduce --backend mpi --mode isolated,streaming --bytes 1KiB {FIXED}");
    hosts.command(&place, &[1, 1], &arguments).run().exits(0);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [2, 0, 0, 0]);
    for line in &cases {
        expect_clock(line, 1_000_000_000_000);
        // By clocks 1,000 s apart a rank would be as late, or never start.
        assert!(line["time_s"]["max"].as_f64().unwrap() < 5.0, "{line}");
    }
    let isolated = cases.iter().find(|line| line["mode"] == "isolated").unwrap();
    let (apart, median) =
        (isolated["starts_apart_s"].as_f64().unwrap(), isolated["time_s"]["median"].as_f64().unwrap());
    let doubted = isolated["caveats"].as_array().unwrap().contains(&json!("starts_apart"));
    assert_eq!(doubted, apart > 0.1 * median, "{isolated}");
}

#[test]
fn mpich_reaches_other_hosts_too() {
    if !skip::heavy(NAME) {
        return;
    }
    let test = "collectives of MPICH over hosts";
    let Some(hosts) = Hosts::new(test, 2) else { return };
    if !is_here("mpiexec.mpich") {
        return skip::skip(test, "no mpiexec.mpich (Debian: mpich)");
    }
    let place = Place::new();
    hosts.command_of_mpich(&place, 2, &format!("comm all_reduce --backend mpi --bytes 1KiB {FIXED}")).run().exits(0);
    let cases = place.cases("r");
    assert_eq!((statuses(&cases), &cases[0]["hosts"]), ([1, 0, 0, 0], &json!(2)));
    assert_eq!(placed(&place), ["h0", "h1"]);
}

#[test]
fn ranks_of_mpich_meet_without_a_folder() {
    let test = "ranks of MPICH on two hosts that share no folder";
    let Some(hosts) = Hosts::new(test, 2) else { return };
    if !is_here("mpiexec.mpich") {
        return skip::skip(test, "no mpiexec.mpich (Debian: mpich)");
    }
    // Ranks 0 and 2 share a proxy of the launcher. MPI talks to it after the processes themselves have.
    let place = Place::new();
    let run = |place: &Place, options: &str, arguments: &str| {
        hosts.command_of_mpich_apart(place, (3, options), arguments).start().wait_for(LIMIT)
    };
    let ended = run(&place, "", &format!("comm all_reduce --backend mpi --bytes 1KiB {FIXED}")).exits(0);
    let cases = place.cases("r");
    assert_eq!((statuses(&cases), &cases[0]["hosts"], &cases[0]["wrong"]), ([1, 0, 0, 0], &json!(2), &json!(0)));
    assert_eq!(placed(&place), ["h0", "h1", "h0"]);
    assert!(!ended.err.contains("BAD TERMINATION"), "{}", ended.err);

    // Without MPI no library leaves the launcher, which would kill the ranks of a host when the first one ends.
    let place = Place::new();
    let ended = run(&place, "", &format!("comm all_reduce --backend shm --bytes 1KiB {FIXED}")).exits(2);
    assert_eq!(reason(&place.cases("r")[0]), "`shm` needs all ranks on one host, but they are on h0, h1");
    assert!(!ended.err.contains("BAD TERMINATION"), "{}", ended.err);

    // A coordinator that never was.
    let (place, begun) = (Place::new(), std::time::Instant::now());
    let ended = run(&place, "", "comm all_reduce --backend none-such");
    assert_ne!(ended.status.code(), Some(0));
    assert!(ended.err.contains("none-such") && !ended.err.contains("cannot find the coordinator"), "{}", ended.err);
    assert!(begun.elapsed() < Duration::from_secs(45), "others wait for it, for {:?}", begun.elapsed());

    // Its launcher would log the secret: the folder is asked for.
    let place = Place::new();
    let ended = run(&place, "-verbose", &format!("comm all_reduce --backend mpi --bytes 1KiB {FIXED}"));
    assert!(ended.err.contains("HOME is not set"), "{}", ended.err);
    assert!(![&ended.out, &ended.err].iter().any(|text| text.contains("key=rankmark")), "{}{}", ended.out, ended.err);
}

#[test]
fn training_over_hosts_has_the_losses_of_one() {
    if !skip::heavy(NAME) {
        return;
    }
    let Some(hosts) = Hosts::new("data-parallel training over hosts", 2) else { return };
    let place = Place::new();
    let training = "train --model mlp --strategy data --batch 2 --seed 7 --threads 1";
    let training = format!("{training} --steps 6 --quiet --output-dir");
    hosts.command(&place, &[1, 1], &format!("{training} r --backend mpi")).run().exits(0);
    place.run(&format!("{training} one --backend shm --ranks 2")).exits(0);
    let (over, one) = (place.cases("r").remove(0), place.cases("one").remove(0));
    let placement = &place.run_file("one")["placement"][0];
    assert_eq!((placement.get("interfaces"), &placement["devices"]), (None, &json!(["cpu", "cpu"])));
    assert_eq!((&over["status"], &over["hosts"]), (&json!("ok"), &json!(2)), "{over}");
    let losses = |line: &Value| -> Vec<f64> {
        line["loss"].as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect()
    };
    let (over, one) = (losses(&over), losses(&one));
    assert!(!over.is_empty() && over.len() == one.len(), "{over:?} {one:?}");
    // Sums of two are the same in any order; what is left is that of an MPI that rounds otherwise.
    assert!(over.iter().zip(&one).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs()), "{over:?} {one:?}");
}

/// Why the case failed, in whichever of its trials.
fn loss(line: &Value) -> &str {
    let why = reason(line);
    let trial = why.strip_prefix("trial ").and_then(|rest| rest.split_once(": "));
    trial.filter(|(number, _)| number.parse::<u32>().is_ok()).map_or(why, |(_, why)| why)
}

#[test]
fn a_hosts_killed_rank_is_named_with_its_host() {
    let Some(hosts) = Hosts::new("a killed rank of another host", 2) else { return };
    let place = Place::new();
    let live = hosts.command(&place, &[1, 1], LONG).start();
    assert!(processes::wait_until(LIMIT, || hosts.ranks(1).len() == 1), "the rank of h1 never came");
    // Not while it starts.
    std::thread::sleep(Duration::from_secs(1));
    Aim::at(hosts.ranks(1)[0]).unwrap().send(9).unwrap();
    let ended = live.wait_for(LIMIT);
    assert_ne!(ended.status.code(), Some(0), "{ended:?}");
    let lines = place.cases("r");
    let told = loss(&lines[0]);
    assert!(told.starts_with("rank 1 (pid "), "{told}");
    assert!(told.contains(", on h1) died of signal 9 (SIGKILL)"), "{told}");
}

#[test]
fn a_killed_orted_ends_its_run() {
    if !skip::heavy(NAME) {
        return;
    }
    let Some(hosts) = Hosts::new("a killed orted of another host", 2) else { return };
    let place = Place::new();
    let live = hosts.command(&place, &[1, 1], LONG).start();
    assert!(processes::wait_until(LIMIT, || hosts.ranks(1).len() == 1), "the rank of h1 never came");
    // Not while it starts.
    std::thread::sleep(Duration::from_secs(1));
    let [orted] = hosts.running(1, "orted")[..] else { panic!("one orted: {:?}", hosts.running(1, "orted")) };
    Aim::at(orted).unwrap().send(9).unwrap();
    assert!(processes::wait_until(SOON, || hosts.ranks(1).is_empty()), "the rank of h1 outlived its launcher");
    let ended = live.wait_for(LIMIT);
    assert_ne!(ended.status.code(), Some(0), "{ended:?}");
    assert!((0..2).all(|host| hosts.ranks(host).is_empty()), "{ended:?}");
    let lines = place.cases("r");
    assert!(["failed", "not_run"].iter().any(|status| lines[0]["status"] == *status), "{lines:?}");
}

#[test]
fn all_killed_ranks_of_a_host_are_named_with_it() {
    if !skip::heavy(NAME) {
        return;
    }
    const RANKS: [usize; 4] = [1, 2, 1, 1];
    let Some(hosts) = Hosts::new("all ranks of one of four hosts, killed", RANKS.len()) else { return };
    let place = Place::new();
    let live = hosts.command(&place, &RANKS, LONG).start();
    let are_there = || RANKS.iter().enumerate().all(|(host, ranks)| hosts.ranks(host).len() == *ranks);
    assert!(processes::wait_until(LIMIT, are_there), "not all ranks came");
    // Not while they start.
    std::thread::sleep(Duration::from_secs(2));
    let pids = hosts.ranks(1);
    let aims: Vec<Aim> = pids.iter().filter_map(|pid| Aim::at(*pid)).collect();
    assert_eq!(aims.len(), RANKS[1], "{pids:?}");
    aims.iter().for_each(|aim| aim.send(9).unwrap());
    let ended = live.wait_for(LIMIT);
    assert_ne!(ended.status.code(), Some(0), "{ended:?}");
    let are_gone = || (0..RANKS.len()).all(|host| hosts.ranks(host).is_empty());
    assert!(processes::wait_until(ORPHANS, are_gone), "ranks outlived their coordinator: {ended:?}");
    let (cases, hosts_of) = (place.cases("r"), placed(&place));
    let told = loss(&cases[0]);
    let ranks: Vec<usize> = (0..hosts_of.len()).filter(|rank| hosts_of[*rank] == "h1").collect();
    assert_eq!(ranks.len(), RANKS[1], "{hosts_of:?}");
    assert!(told.starts_with(&format!("rank {} (pid ", ranks[0])), "{told}");
    assert!(told.contains(&format!("; rank {} (pid ", ranks[1])), "{told}");
    let died = |pid: &u32| told.contains(&format!("(pid {pid}, on h1) died of signal 9 (SIGKILL)"));
    assert!(pids.iter().all(died), "{pids:?}: {told}");
    // Those of other hosts have only lost their peers.
    assert_eq!(told.matches(" died of ").count(), RANKS[1], "{told}");
}

#[test]
fn a_host_out_of_reach_is_named_and_nothing_is_left() {
    if !skip::heavy(NAME) {
        return;
    }
    let Some(hosts) = Hosts::new("a host out of reach", 2) else { return };
    let place = Place::new();
    let live = hosts.command(&place, &[1, 1], LONG).start();
    assert!(processes::wait_until(LIMIT, || hosts.ranks(1).len() == 1), "the rank of h1 never came");
    std::thread::sleep(Duration::from_secs(1));
    hosts.link(1, "down");
    let is_lost =
        || std::fs::read_to_string(place.path("r/cases.jsonl")).is_ok_and(|lines| lines.contains("\"failed\""));
    assert!(processes::wait_until(LIMIT, is_lost), "the run never said that it lost a rank");
    let told = place.cases("r");
    let told = loss(&told[0]);
    assert!(told.contains("rank 1 (pid ") && told.contains(", on h1) is lost"), "{told}");
    assert!(told.contains("nothing has come from its host for 10 s"), "{told}");
    let gone = processes::wait_until(LIMIT, || hosts.ranks(1).is_empty());
    assert!(gone, "the rank out of reach ends by itself");
    // mpirun waits for its own daemon there.
    hosts.link(1, "up");
    let ended = live.wait_for(LIMIT);
    assert_ne!(ended.status.code(), Some(0), "{ended:?}");
}

#[test]
fn a_slow_link_shows_at_its_host() {
    if !skip::heavy(NAME) {
        return;
    }
    let Some(hosts) = Hosts::new("a host at a tenth of the bandwidth", 4) else { return };
    // Ranks 1 and 3 have other cores than rank 0 where there are two, which these hosts share.
    hosts.limit(1, "100mbit").unwrap();
    let place = Place::new();
    // Each rank's part comes by its own link.
    hosts.command(&place, &[1, 1, 1, 1], &format!("comm scatter --backend mpi --bytes 4MiB {FIXED}")).run().exits(0);
    let cases = place.cases("r");
    let medians: Vec<f64> =
        cases[0]["per_rank_median_s"].as_array().unwrap().iter().map(|median| median.as_f64().unwrap()).collect();
    // Not the root, which sends to all.
    let slowest = (1..4).max_by(|a, b| medians[*a].total_cmp(&medians[*b])).unwrap();
    assert_eq!(placed(&place)[slowest], "h1", "{medians:?}");
    assert!((1..4).all(|rank| rank == slowest || medians[rank] < 0.5 * medians[slowest]), "{medians:?}");
    // And each link has its own sentence.
    let place = Place::new();
    let ways = "comm ping_pong --backend mpi --peer 1,2,3 --bytes 256KiB --iters 6 --warmup 1 --trials 6 --spacing 0s \
         --limits false --output-dir r";
    let ended = hosts.command(&place, &[1, 1, 1, 1], ways).run().exits(0);
    let said = format!("{} {}", ended.out, ended.err).split_whitespace().collect::<Vec<_>>().join(" ");
    let slow = placed(&place).iter().position(|host| host == "h1").unwrap();
    let told = format!("as long with rank {slow} on h1 as with rank ");
    assert!(said.contains(&told), "`{told}` is missing in {said}");
}

/// Two pods on two hosts; each must end with this code.
fn run_pods(hosts: &Hosts, place: &Place, arguments: &str, code: i32) {
    let secret = place.path("secret");
    place.write("secret", "the head of /dev/urandom, 32 bytes of it\n");
    make_private(&secret);
    let live: Vec<_> = hosts.pods(place, &secret, arguments).into_iter().map(crate::place::Starting::start).collect();
    live.into_iter().for_each(|live| drop(live.wait().exits(code)));
}

fn make_private(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o400)).unwrap();
}

#[test]
fn pods_on_two_hosts_meet_without_a_folder() {
    let Some(hosts) = Hosts::new("pods on two hosts", 2) else { return };
    let place = Place::new();
    run_pods(&hosts, &place, &format!("comm all_reduce --backend shm --bytes 1KiB {FIXED}"), 2);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [0, 0, 1, 0]);
    assert_eq!(reason(&cases[0]), "`shm` needs all ranks on one host, but they are on h0, h1");
}

#[test]
fn pytorch_reaches_other_hosts() {
    if !skip::heavy(NAME) {
        return;
    }
    let test = "PyTorch ranks on two hosts";
    let Some(python) = crate::pytorch::torch(test) else { return };
    let Some(hosts) = Hosts::new(test, 2) else { return };
    let place = Place::new();
    let arguments = format!(
        "comm all_reduce,all_gather --backend gloo --python {python} --mode streaming,isolated --bytes 2MiB {FIXED}"
    );
    run_pods(&hosts, &place, &arguments, 0);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [4, 0, 0, 0], "{cases:?}");
    for line in &cases {
        assert_eq!((&line["wrong"], &line["hosts"]), (&json!(0), &json!(2)), "{line}");
        expect_clock(line, 0);
        assert_eq!(line.get("starts_apart_s").is_some(), line["mode"] == "isolated", "{line}");
        // 1 MiB at least over a link of 1 Gbit/s, which lets 128 KiB through at once after a pause.
        assert!(line["time_s"]["min"].as_f64().unwrap() > 6e-3, "{line}");
    }
    assert_eq!(placed(&place), ["h0", "h1"]);

    let place = Place::new();
    let training = format!("train --model mlp --batch 2 --seed 7 --threads 1 --python {python} --steps 4 --quiet");
    run_pods(&hosts, &place, &format!("{training} --runtime pytorch --output-dir r"), 0);
    place.run(&format!("{training} --runtime pytorch,native --ranks 2 --output-dir one")).exits(0);
    let losses = |line: &Value| -> Vec<f64> {
        line["loss"].as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect()
    };
    let over = losses(&place.cases("r")[0]);
    assert_eq!(over.len(), 4);
    for other in place.cases("one") {
        let other = losses(&other);
        assert!(over.iter().zip(&other).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs()), "{over:?} {other:?}");
    }
}

/// Two hosts lose each other's packets, as behind a firewall that drops them: both pairs are named, with address and port.
#[test]
fn hosts_that_cannot_connect_are_named() {
    if !skip::heavy(NAME) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts that cannot connect", 3) else { return };
    hosts.lose_packets(1, 2);
    let place = Place::new();
    let ended = hosts
        .command(&place, &[1, 1, 1], &format!("comm all_to_all --backend mpi --bytes 64KiB --timeout 5s {FIXED}"))
        .run()
        .exits(1);
    let cases = place.cases("r");
    let why = reason(&cases[0]);
    for (from, to, address) in [(1, 2, "10.77.0.3"), (2, 1, "10.77.0.2")] {
        let words = format!("h{from} (rank {from}) cannot connect to h{to} (rank {to}) at {address} port ");
        assert!(why.contains(&words), "{words}: {why}\n{}", ended.err);
    }
    assert!(!why.contains("h0 (rank 0) cannot"), "{why}");
}

#[test]
fn the_script_of_torchrun_runs_on_two_hosts() {
    if !skip::heavy(NAME) {
        return;
    }
    let test = "gen-job for torchrun, on two hosts";
    let Some(torchrun) = crate::external::torchrun() else {
        return skip::skip(test, "no torchrun on the path, and RANKMARK_TEST_TORCHRUN names none");
    };
    let Some(hosts) = Hosts::new(test, 2) else { return };
    let (place, python) = (Place::new(), torchrun.with_file_name("python"));
    let plan = format!(
        "experiment: two\ndefaults: {{bytes: 64KiB, iters: 6, warmup: 1, trials: 1, limits: false, ranks: 2}}\ncases:\n  \
         - {{benchmark: collective, op: all_reduce, backend: gloo, python: {}}}\n  \
         - {{benchmark: collective, op: all_reduce, backend: shm}}\n",
        python.display()
    );
    place.write("plan.yaml", plan);
    let made = "gen-job --for torchrun plan.yaml --nodes 2 --endpoint 10.77.0.1:29400 --output job.sh --output-dir r";
    let told = place.run(made).exits(0);
    assert!(told.out.contains("1 of 2 cases in 2 ranks"), "{told:?}");
    // As its head says: the same script on every node.
    let node = |host: usize| {
        let enter = hosts.enter(&place, host);
        let (program, rest) = enter.split_once(' ').unwrap();
        let mut starting = place.command_of(program, &format!("{rest} sh job.sh"));
        starting.command.env("TORCHRUN", &torchrun);
        starting.command.env("RANKMARK_RENDEZVOUS_DIR", place.path(""));
        starting.start()
    };
    let nodes = [0, 1].map(node);
    for live in nodes {
        live.wait_for(LIMIT).exits(0);
    }
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [1, 0, 1, 0], "{cases:?}");
    let line = cases.iter().find(|line| line["status"] == "ok").unwrap();
    assert_eq!((&line["wrong"], &line["hosts"], &line["ranks"]), (&json!(0), &json!(2), &json!(2)), "{line}");
}
