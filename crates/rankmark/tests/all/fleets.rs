//! `rankmark fleet`: verdicts on nodes from records and under a launcher, lists of hosts, exit codes.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::namespaces::Hosts;
use crate::place::{Place, json_lines};
use crate::processes::{self, Aim};
use crate::skip;

/// A record of a computed run, as that of a node: its host, its level in each case, and noise that its number decides.
pub(crate) fn node(place: &Place, name: &str, number: u32, level: [f64; 2]) {
    let folder = format!("nodes/{name}");
    fs::create_dir_all(place.path(&folder)).unwrap();
    let mut run: Value = place.run_file("base");
    run["machine"]["host"] = json!(name);
    place.write(&format!("{folder}/run.json"), run.to_string());
    let mut lines = String::new();
    for (case, mut line) in place.cases("base").into_iter().enumerate() {
        let wave = |step: u32| f64::from((number * 7 + step * 5 + case as u32 * 3) % 11) / 11.0 - 0.5;
        let own = 1e-3 * level[case] * (1.0 + 0.012 * wave(0));
        let trials: Vec<f64> = (1..7).map(|trial| own * (1.0 + 0.01 * wave(trial))).collect();
        line["trial_median_s"] = json!(trials);
        line["time_s"] = json!({ "median": own });
        line["simulated"] = json!(false);
        line["caveats"] = json!([]);
        // A line without a checksum is read where no line before it has one.
        line.as_object_mut().unwrap().remove("crc32");
        lines += &format!("{line}\n");
    }
    place.write(&format!("{folder}/cases.jsonl"), lines);
}

fn fleet_of(nodes: u32, slow: Option<u32>) -> Place {
    let place = Place::new();
    place
        .run("comm all_reduce --backend sim --ranks 2 --bytes 1KiB,16KiB --trials 6 --quiet --output-dir base")
        .exits(0);
    for number in 1..=nodes {
        let level = if Some(number) == slow { [1.0, 1.15] } else { [1.0, 1.0] };
        node(&place, &format!("node{number:02}"), number, level);
    }
    place
}

#[test]
fn a_slow_node_is_named_and_listed() {
    let place = fleet_of(12, Some(7));
    let told = place.run("fleet nodes --output-dir out").exits(1);
    for word in
        ["12 nodes: 11 good, 1 slow", "node07", "all_reduce 16 KiB takes 1.15x", "slow as a whole looks healthy"]
    {
        assert!(told.out.contains(word), "{word} is missing in {}", told.out);
    }
    assert_eq!(place.read("out/hosts.bad"), "node07\n");
    assert_eq!(place.read("out/slurm.exclude"), "node07\n");
    assert_eq!(place.read("out/hosts.good").lines().count(), 11);
    let page = place.read("out/fleet.html");
    assert!(page.contains("<div class=\"bad\" title=\"node07: slow: all_reduce 16 KiB takes 1.15x"), "{page}");
    let summary = json_lines(&place.run("fleet nodes --output-dir out --json").exits(1).out).remove(0);
    assert_eq!(summary["nodes_by_verdict"], json!({"failed": 0, "slow": 1, "cannot_tell": 0, "good": 11}));
    let deficit = summary["nodes"][6]["slow"][0]["ratio"].as_f64().unwrap();
    assert!((deficit - 1.15).abs() < 0.02, "{summary}");
}

#[test]
fn a_name_that_holds_another_reaches_no_list() {
    let place = fleet_of(12, Some(7));
    for (number, name) in
        ["evil\nnode03", "node[01-12]", "node04,node05", "", "-node06", "n\u{202e}ode"].into_iter().enumerate()
    {
        // Slow: under its own name it would be listed.
        let folder = format!("evil{number}");
        node(&place, &folder, 40 + number as u32, [1.3, 1.3]);
        let mut run: Value = serde_json::from_str(&place.read(&format!("nodes/{folder}/run.json"))).unwrap();
        run["machine"]["host"] = json!(name);
        place.write(&format!("nodes/{folder}/run.json"), run.to_string());
        let shown = name.escape_default().to_string();
        let words = format!("nodes/{folder}: `{shown}` is not the name of a host");
        let told = place.run("fleet nodes --output-dir out").exits(1);
        assert!(told.err.lines().any(|line| line.starts_with("warning: ") && line.contains(&words)), "{}", told.err);
        assert_eq!(
            (place.read("out/hosts.bad"), place.read("out/slurm.exclude")),
            ("node07\n".into(), "node07\n".into())
        );
        assert_eq!(place.read("out/hosts.good").lines().count(), 11);
        assert!(!place.read("out/fleet.json").contains(&serde_json::to_string(name).unwrap()[..]) || name.is_empty());
        // Alone it is refused.
        place.run(&format!("fleet nodes/{folder} --output-dir one")).refuses(&[&words]);
    }
}

#[test]
fn exit_codes_are_fit_for_a_prolog() {
    let place = fleet_of(10, None);
    place.run("fleet nodes --output-dir out --quiet").exits(0);
    assert!(!Path::new(&place.path("out/hosts.bad")).exists() || place.read("out/hosts.bad").is_empty());
    fs::rename(place.path("nodes/node03"), place.path("healthy")).unwrap();
    node(&place, "late", 3, [1.2, 1.0]);
    place.run("fleet --criteria out/fleet.json healthy --output-dir one").exits(0);
    // Versions before this one are read, too.
    let of_version =
        |version: u32| place.read("out/fleet.json").replacen("\"version\":3", &format!("\"version\":{version}"), 1);
    place.write("older.json", of_version(2));
    place.run("fleet --criteria older.json healthy --output-dir one").exits(0);
    place.write("later.json", of_version(4));
    place.run("fleet --criteria later.json healthy --output-dir one").refuses(&["version 4", "reads versions 2 to 3"]);
    let slow = place.run("fleet --criteria out/fleet.json nodes/late --output-dir one").exits(1);
    assert!(slow.out.contains("all_reduce 1 KiB takes 1.2"), "{}", slow.out);
    place.run("fleet healthy nodes/late --output-dir two").exits(3);
    place.run("fleet absent").exits(2);
    place.run("fleet").refuses(&["a fleet has several nodes", "srun -N 8"]);
    place.write("other.json", "{}");
    place.run("fleet --criteria other.json healthy").refuses(&["other.json is not what a fleet learned"]);
}

#[test]
fn a_node_whose_link_is_slow_is_named_under_a_launcher() {
    if !skip::heavy("a fleet of namespaces") {
        return;
    }
    let Some(hosts) = Hosts::new("a fleet of namespaces", 6) else { return };
    hosts.limit(4, "100mbit").unwrap();
    let place = Place::new();
    let begun = Instant::now();
    let ended = hosts.command(&place, &[1; 6], "fleet --budget 240s --output-dir r").run();
    assert!(begun.elapsed() < Duration::from_secs(255), "{:?}", begun.elapsed());
    let verdict: Value = serde_json::from_str(&place.read("r/fleet.json")).unwrap();
    let of =
        |host: &str| verdict["nodes"].as_array().unwrap().iter().find(|node| node["host"] == host).unwrap().clone();
    let slow = of("h4");
    assert_eq!(slow["verdict"], "slow", "{verdict}\n{}", ended.out);
    let what = slow["slow"].as_array().unwrap().iter().any(|one| one["what"].as_str().unwrap().contains("bandwidth"));
    assert!(what, "{slow}");
    assert!(place.read("r/hosts.bad").lines().any(|host| host == "h4"));
}

/// Ranks of a host stand still in the middle of the run: it is named, and the budget holds.
#[test]
fn a_frozen_node_is_named_within_the_budget() {
    if !skip::heavy("a fleet with a frozen node") {
        return;
    }
    let Some(hosts) = Hosts::new("a fleet with a frozen node", 6) else { return };
    let place = Place::new();
    let begun = Instant::now();
    let job = hosts.command(&place, &[1; 6], "fleet --budget 90s --output-dir r").start();
    assert!(processes::wait_until(Duration::from_secs(20), || hosts.ranks(3).len() == 1), "the rank of h3 never came");
    std::thread::sleep(Duration::from_secs(8));
    let frozen: Vec<Aim> = hosts.ranks(3).into_iter().map(|pid| Aim::at(pid).unwrap()).collect();
    frozen.iter().for_each(|rank| rank.send(libc::SIGSTOP).unwrap());
    let ended = job.wait_for(Duration::from_secs(200));
    let took = begun.elapsed();
    // Already gone where the program ended it.
    frozen.iter().for_each(|rank| drop(rank.send(libc::SIGKILL)));
    assert!(place.path("r/hosts.bad").exists(), "{}{}", ended.out, ended.err);
    assert_eq!(place.read("r/hosts.bad"), "h3\n", "{}{}", ended.out, ended.err);
    assert!(ended.out.lines().any(|line| line.starts_with("h3: failed. 6 nodes: ")), "{}", ended.out);
    // The budget, the limit of one hang, and reports.
    assert!(took < Duration::from_secs(90 + 45 + 10), "{took:?}: {}{}", ended.out, ended.err);
    let verdict: Value = serde_json::from_str(&place.read("r/fleet.json")).unwrap();
    let has_figures = |node: &&Value| node["ratios"].as_array().unwrap().iter().any(Value::is_number);
    let nodes = verdict["nodes"].as_array().unwrap();
    let judged: Vec<&Value> = nodes.iter().filter(has_figures).map(|node| &node["host"]).collect();
    assert_eq!(judged, ["h0", "h1", "h2", "h4", "h5"], "{verdict}\n{}", ended.out);
}

/// The rank of a host is killed at once: it is named, and the others do their work in a record of their own.
#[test]
fn the_others_go_on_without_a_killed_node() {
    let Some(hosts) = Hosts::new("a fleet with a killed node", 4) else { return };
    let place = Place::new();
    let job = hosts.command(&place, &[1; 4], "fleet --check-results 1s --output-dir r").start();
    assert!(processes::wait_until(Duration::from_secs(20), || hosts.ranks(2).len() == 1), "the rank of h2 never came");
    hosts.ranks(2).into_iter().for_each(|pid| Aim::at(pid).unwrap().send(libc::SIGKILL).unwrap());
    let ended = job.wait_for(Duration::from_secs(60));
    assert_eq!(place.read("r/hosts.bad"), "h2\n", "{}{}", ended.out, ended.err);
    assert_eq!(place.read("r/hosts.good"), "h0\nh1\nh3\n", "{}{}", ended.out, ended.err);
    assert!(ended.out.lines().any(|line| line.starts_with("h2: failed. 4 nodes: 3 good, 1 failed")), "{}", ended.out);
    assert!(ended.err.contains("h2 lost: the others go on without it"), "{}", ended.err);
    let others = place.run_file("r/others");
    assert_eq!(others["placement"][0]["hosts"], json!(["h0", "h1", "h3"]));
    let line = place.cases("r/others").remove(0);
    assert_eq!((&line["status"], &line["wrong"], &line["hosts"]), (&json!("ok"), &json!(0), &json!(3)), "{line}");
    // Their record is found in the folder that is judged later.
    let again: Value = serde_json::from_str(&place.run("fleet r --json --output-dir again").out).unwrap();
    let records = again["nodes"][0]["records"].to_string();
    assert!(records.contains("r/others"), "{again}");
}

/// On this machine, under a launcher: equal work leaves equal bits, and a node whose record says otherwise is named.
#[test]
fn results_are_compared_bit_by_bit() {
    let place = Place::new();
    place.run("hardware results --ranks 2 --threads 1 --trials 2 --max-seconds 0.2s --spacing 0s --quiet --output-dir one").exits(0);
    let line = place.cases("one").remove(0);
    let rounds = line["results"]["rounds"].as_array().unwrap();
    assert_eq!((rounds.len(), line["wrong"].as_u64()), (2, Some(0)), "{line}");
    // Both ranks, and all trials: one digest.
    assert!(
        rounds.iter().all(|rank| rank.as_object().unwrap().len() == 1)
            && rounds[0].as_object().unwrap().keys().eq(rounds[1].as_object().unwrap().keys()),
        "{line}"
    );
    for number in 0..8 {
        let name = format!("n{number}");
        fs::create_dir_all(place.path(&format!("nodes/{name}"))).unwrap();
        let mut run: Value = place.run_file("one");
        run["machine"]["host"] = json!(name);
        run.as_object_mut().unwrap().remove("crc32");
        place.write(&format!("nodes/{name}/run.json"), run.to_string());
        let mut line = line.clone();
        if number == 5 {
            line["results"]["rounds"] = json!([{ "0123456789abcdef": 9 }, { "0123456789abcdef": 9 }]);
        }
        line.as_object_mut().unwrap().remove("crc32");
        place.write(&format!("nodes/{name}/cases.jsonl"), format!("{line}\n"));
    }
    // Lines are as wide as a terminal.
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = one_line(&place.run("fleet nodes --output-dir out").exits(1).out);
    for words in [
        "n5: failed. 8 nodes: 7 good, 1 failed",
        "its results differ from those of 7 other nodes",
        "18 rounds gave wrong bits",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert_eq!(place.read("out/hosts.bad"), "n5\n");
    fs::remove_dir_all(place.path("nodes/n5")).unwrap();
    let told = one_line(&place.run("fleet nodes --output-dir out").exits(0).out);
    assert!(told.contains("all results have the same bits") && told.contains("With 95% confidence"), "{told}");
}

/// The host of rank 0 cannot be reached any more: the others name it, and end.
#[test]
fn a_lost_host_of_rank_0_is_named_by_the_others() {
    if !skip::heavy("a fleet without the host of rank 0") {
        return;
    }
    let Some(hosts) = Hosts::new("a fleet without the host of rank 0", 3) else { return };
    let place = Place::new();
    let job = hosts.command(&place, &[1; 3], "fleet --check-results 60s --output-dir r").start();
    assert!(processes::wait_until(Duration::from_secs(20), || hosts.ranks(1).len() == 1), "the rank of h1 never came");
    hosts.link(0, "down");
    let is_gone = || hosts.ranks(1).is_empty() && hosts.running(1, "rankmark").is_empty();
    assert!(processes::wait_until(Duration::from_secs(60), is_gone), "the process of h1 waits for h0");
    // mpirun, which runs on h0, passes on what the others have said.
    hosts.link(0, "up");
    let ended = job.wait_for(Duration::from_secs(240));
    let told = "h1 has heard nothing from h0, the host of rank 0, for 10 s";
    assert!(ended.err.contains(told), "{}{}", ended.out, ended.err);
    assert_ne!(ended.status.code(), Some(0), "{ended:?}");
}
