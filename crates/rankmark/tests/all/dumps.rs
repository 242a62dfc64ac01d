//! `rankmark profile --import` of dumps and logs that hold no steps: the cause of a hang, who only waits, and who is last.

use serde_json::{Value, json};

use crate::place::Place;

/// A dump of the Flight Recorder: communicators with their ranks, and entries of communicator, number, operation, elements and
/// whether they ended.
fn dump(groups: &[(&str, &str)], entries: &[(&str, u64, &str, u64, bool)]) -> String {
    let groups: serde_json::Map<String, Value> = groups
        .iter()
        .map(|(name, ranks)| ((*name).to_owned(), json!({"name": name, "desc": "", "ranks": ranks})))
        .collect();
    let entries: Vec<Value> = entries
        .iter()
        .enumerate()
        .map(|(at, (group, number, name, elements, ended))| {
            let is_p2p = name.contains("->") || name.contains("<-");
            json!({
                "record_id": at, "process_group": [group, ""], "collective_seq_id": number, "p2p_seq_id": number,
                "profiling_name": format!("nccl:{name}"), "input_sizes": [[elements]], "output_sizes": [[elements]],
                "input_dtypes": ["Float"], "output_dtypes": ["Float"], "is_p2p": is_p2p, "retired": ended,
                "state": if *ended { "completed" } else { "started" }, "time_created_ns": 1_724_779_239_000_000_000_u64 + at as u64,
                "frames": [{"name": "train_step", "filename": "train.py", "line": 40}],
            })
        })
        .collect();
    json!({"version": "2.5", "pg_config": groups, "pg_status": {}, "entries": entries}).to_string()
}

/// What a folder of dumps says: text, and the JSON of the same.
fn explained(place: &Place, dumps: &[String]) -> (String, Value) {
    std::fs::create_dir(place.path("dumps")).unwrap();
    for (rank, dump) in dumps.iter().enumerate() {
        place.write(&format!("dumps/fr_rank_{rank}.json"), dump);
    }
    let text = place.run("profile --import dumps --output-dir text").exits(0).out;
    let line = place.run("profile --import dumps --output-dir json --json").exits(0).out;
    (text.split_whitespace().collect::<Vec<_>>().join(" "), serde_json::from_str(&line).unwrap())
}

#[test]
fn the_root_of_a_hang_is_named_alone_and_the_others_as_waiting() {
    let done = |tp, dp| vec![(tp, 1, "all_reduce", 512, true), (dp, 1, "all_reduce", 9000, true)];
    let of = |tp: &'static str,
              dp: &'static str,
              members: [&str; 2],
              last: &[(&'static str, u64, &'static str, u64, bool)]| {
        dump(&[(tp, members[0]), (dp, members[1])], &[done(tp, dp), last.to_vec()].concat())
    };
    let dumps = [
        of("1", "3", ["0, 1", "0, 2"], &[("1", 2, "all_reduce", 512, true), ("3", 2, "all_reduce", 9000, false)]),
        of("1", "4", ["0, 1", "1, 3"], &[("1", 2, "all_reduce", 512, true), ("4", 2, "all_reduce", 9000, false)]),
        of("2", "3", ["2, 3", "0, 2"], &[("2", 2, "all_reduce", 512, false)]),
        of("2", "4", ["2, 3", "1, 3"], &[]),
    ];
    let place = Place::new();
    let (text, json) = explained(&place, &dumps);
    // Nothing measures it again: what is known of it stays.
    let kept = place.read("text/cases.jsonl");
    place.run("run --resume text").refuses(&["text cannot be resumed: nothing measures `"]);
    assert_eq!(place.read("text/cases.jsonl"), kept);
    let root = "Rank 3 did not reach all_reduce #2 of 2 and waits in no call; rank 2 waits in it: train_step (train.py:40); the last \
                call of rank 3 is all_reduce #1 of 4";
    assert!(text.contains(root), "{text}");
    let victims = "Ranks 0, 1, 2 only wait because of that: rank 2 waits for rank 3 in all_reduce #2 of 2; rank 0 waits for rank 2 in \
                   all_reduce #2 of 3; rank 1 waits for rank 3 in all_reduce #2 of 4";
    assert!(text.contains(victims), "{text}");
    assert!(text.contains("4 ranks, no steps"), "{text}");
    assert!(text.contains("Communicator 2 holds ranks 2, 3."), "{text}");
    assert_eq!(json["hangs"].as_array().unwrap().len(), 3, "{json}");
    let cause = json!({"problem": "not_reached", "ranks": [3], "call": "all_reduce #2 of 2", "arrived": [2]});
    assert_eq!(json["hang"]["causes"], json!([cause]));
    let waits: Vec<&Value> = json["hang"]["waiting"].as_array().unwrap().iter().map(|one| &one["awaits"]).collect();
    assert_eq!(waits, [&json!([2]), &json!([3]), &json!([3])]);
    assert!(place.read("text/report.md").contains("Rank 3 did not reach"));
}

#[test]
fn a_size_that_differs_and_a_stage_that_is_missing_are_told() {
    let place = Place::new();
    let gather = |elements| dump(&[("0", "0, 1, 2, 3")], &[("0", 4, "_all_gather_base", elements, false)]);
    let (text, _) = explained(&place, &[gather(1024), gather(1025), gather(1024), gather(1024)]);
    let says = "Rank 1: size differs: 1025 elements in all_gather #4 of 0, and 1024 elements of ranks 0, 2, 3";
    assert!(text.contains(says), "{text}");
    let place = Place::new();
    let stage = |entries: &[(&'static str, u64, &'static str, u64, bool)]| dump(&[("0", "0, 1, 2, 3")], entries);
    let dumps = [
        stage(&[("0", 1, "send 0->1", 8, true)]),
        stage(&[("0", 1, "recv 1<-0", 8, true), ("0", 2, "send 1->2", 8, false)]),
        stage(&[]),
        stage(&[("0", 1, "recv 3<-2", 8, false)]),
    ];
    let (text, json) = explained(&place, &dumps);
    assert!(
        text.contains("Rank 2 did not reach the transfer from rank 2 to rank 3 of 0 and waits in no call"),
        "{text}"
    );
    assert_eq!((&json["hang"]["causes"][0]["ranks"], json["hangs"].as_array().unwrap().len()), (&json!([2]), 2));
}

/// All ranks are in the call; on one device it waits behind other work.
#[test]
fn a_call_that_did_not_start_everywhere_says_where() {
    let dumps: Vec<String> = (0..3)
        .map(|rank| {
            let text = dump(&[("0", "0, 1, 2")], &[("0", 7, "all_reduce", 8, false)]);
            if rank == 2 { text.replace("\"started\"", "\"scheduled\"") } else { text }
        })
        .collect();
    let (text, _) = explained(&Place::new(), &dumps);
    let says = "Ranks 0, 1, 2 entered all_reduce #7 of 0, and it ended nowhere; it started on ranks 0, 1, and is only scheduled on \
                rank 2: earlier work on its stream has not ended";
    assert!(text.contains(says), "{text}");
}

/// The files that the agent of a profiled job writes when a rank hangs.
#[test]
fn our_own_files_of_a_hang_are_imported() {
    let place = Place::new();
    std::fs::create_dir(place.path("hang")).unwrap();
    for rank in 0..2 {
        let mut entries = vec![("0", 46, "all_reduce", 8, true)];
        if rank == 0 {
            entries.push(("0", 47, "all_reduce", 8, false));
        }
        let recorder: Value = serde_json::from_str(&dump(&[("0", "0, 1")], &entries)).unwrap();
        let stack = json!([{"name": "sleep", "filename": "job.py", "line": 100 + rank}]);
        let note = json!({"rank": rank, "world": 2, "since_last_step_s": 15.2, "steps_ended": 40, "stack": stack,
                          "flight_recorder": recorder, "step_ended_after_s": null});
        place.write(&format!("hang/hang-rank{rank}.json"), note.to_string());
    }
    place.write("hang/command.txt", "torchrun job.py");
    let ran = place.run("profile --import hang --output-dir out").exits(0);
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("Rank 1 did not reach all_reduce #47 of 0 and waits in no call; rank 0 waits in it"),
        "{text}"
    );
    assert!(text.contains("Rank 1 ended no step for 15 s: sleep (job.py:101)"), "{text}");
    let case = &place.cases("out")[0];
    let reason = case["reason"].as_str().unwrap_or_default();
    assert!(case["status"] == "failed" && reason.starts_with("rank 1 did not reach"), "{case}");
}

/// Ranks of a pipeline by hand: rank 1 left out what it had to send, and gloo's recorder holds no transfers. The first sentence
/// has the cause, with the line of the job's own file.
#[test]
fn a_missing_send_is_told_from_what_ranks_wait_for() {
    let place = Place::new();
    std::fs::create_dir(place.path("hang")).unwrap();
    for (rank, peer, line) in [(0, 1, 10), (1, 0, 7), (2, 1, 7)] {
        let library =
            json!({"name": "recv", "filename": "/x/site-packages/torch/distributed/distributed_c10d.py", "line": 1});
        let stack = json!([library, {"name": "train", "filename": "/x/job.py", "line": line}]);
        let note = json!({"rank": rank, "world": 3, "since_last_step_s": 15.2, "steps_ended": 40, "stack": stack,
                          "flight_recorder": null, "step_ended_after_s": null,
                          "transfer": {"operation": "recv", "peer": peer}});
        place.write(&format!("hang/hang-rank{rank}.json"), note.to_string());
    }
    let ran = place.run("profile --import hang --output-dir out").exits(0);
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let cause = "Rank 1 did not send to ranks 0, 2: rank 0 waits to receive from rank 1 (job.py:10), rank 1 waits to receive \
                 from rank 0 (job.py:7), rank 2 waits to receive from rank 1 (job.py:7).";
    assert!(text.contains(cause), "{text}");
    assert!(text.contains("Ranks 1, 2 ended no step for 15 s: train (/x/job.py:7)"), "{text}");
}

/// Two operations under one number are each told with its rank and its line.
#[test]
fn other_operations_are_told_with_their_lines() {
    let place = Place::new();
    std::fs::create_dir(place.path("hang")).unwrap();
    for (rank, operation) in [(0, "all_reduce"), (1, "barrier")] {
        let mut recorder: Value =
            serde_json::from_str(&dump(&[("0", "0, 1")], &[("0", 46, operation, 8, false)])).unwrap();
        let library = json!({"name": "backward", "filename": "/x/site-packages/torch/_tensor.py", "line": 5});
        let frames = json!([library, {"name": "train", "filename": "/x/job.py", "line": 6 + rank}]);
        recorder["entries"][0]["frames"] = frames.clone();
        let note = json!({"rank": rank, "world": 2, "since_last_step_s": 15.2, "steps_ended": 40, "stack": frames,
                          "flight_recorder": recorder, "step_ended_after_s": null});
        place.write(&format!("hang/hang-rank{rank}.json"), note.to_string());
    }
    let ran = place.run("profile --import hang --output-dir out").exits(0);
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("Rank 1 is in barrier (job.py:7) while rank 0 is in all_reduce #46 of 0 (job.py:6)."),
        "{text}"
    );
}
