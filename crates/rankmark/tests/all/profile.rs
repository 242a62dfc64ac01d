//! `rankmark profile`: slow ranks that were planted, traces that can be opened, and jobs of other programs.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::Place;
use crate::processes::wait_until;
use crate::{pytorch, skip};

/// Ranks sleep instead of computing, so that other work on the machine says little.
const ASLEEP: &str =
    "profile --model gpt2-mini --ranks 2 --compute sleep --sleep-time 1ms --duration 4s --output-dir record";

fn profiles(out: &str) -> Vec<Value> {
    let lines = out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["kind"] == "profile").collect()
}

#[test]
fn a_slow_rank_its_phase_and_its_share_are_named() {
    let place = Place::new();
    let ran = place.run(&format!("{ASLEEP} --json --inject delay:rank=1,phase=backward,percent=20")).exits(0);
    let told = profiles(&ran.out);
    let slow = &told[0]["straggler"];
    // On a busy machine it may say that it cannot tell, or that the rank waits for a processor, and never that another is slow.
    let case = &place.cases("record")[0];
    let is_busy = case["caveats"].as_array().unwrap().iter().any(|caveat| caveat == "other_programs");
    if is_busy && slow.is_null() {
        let first = &told[0]["analysis"]["findings"][0];
        let waits = first["kind"] == "busy_machine" && first["evidence"]["rank"] == 1;
        let abstains = told[0]["analysis"]["straggler_abstains"].as_str().is_some_and(|why| !why.is_empty());
        assert!(waits || abstains, "{}", told[0]);
        return;
    }
    assert_eq!(slow["rank"], 1, "{slow}");
    // Other programs may take more of its time than the delay does.
    if is_busy && slow["phase"] != "backward" {
        return;
    }
    assert_eq!(slow["phase"], "backward", "{slow}");
    // The step takes 120% of what it takes without the delay.
    let truth = 0.2 / 1.2;
    let share = slow["share"].as_f64().unwrap();
    // Beside other work sleeps end late. How exact shares are, docs/appendix/diagnosis.md says of a quiet machine.
    assert!((0.5..2.0).contains(&(share / truth)), "{share} of {truth}");
    // As many as the time allows, which are few on a busy machine.
    assert!(told[0]["recording"]["recorded_steps"].as_u64().unwrap() >= 8, "{}", told[0]["recording"]);
    // The record keeps it, its report shows it, and it is explained again without a run.
    let again = place.run("profile record --json").exits(0);
    assert_eq!(profiles(&again.out)[0]["straggler"], *slow);
    let text = place.run("profile record").exits(0).out;
    assert!(text.contains("Rank 1 is slow in backward: it costs "), "{text}");
    assert!(text.contains("recording adds ") && text.contains("ns a span"), "{text}");
    let report = std::fs::read_to_string(place.path("record/report.html")).unwrap();
    assert!(report.contains("Rank 1 is slow in backward") && report.contains("COMPUTE ASLEEP"));
    // A merged record keeps what the traces said, and says that it does not keep the traces.
    place.run("comm all_reduce --backend sim --ranks 2 --bytes 1KiB --iters 4 --quiet --output-dir other").exits(0);
    let merged = place.run("merge record other --output-dir both").exits(0);
    assert!(merged.err.contains("note: record/trace is not part of the merged record"), "{}", merged.err);
    assert!(place.read("both/report.md").contains("Rank 1 is slow in backward"));
    let same = place.run("profile --compare record record").exits(0).out;
    assert!(same.starts_with("a median step takes ") && !same.contains('+'), "{same}");
}

#[test]
fn without_a_delay_nobody_is_named_and_the_trace_is_one_that_viewers_open() {
    let place = Place::new();
    let ran = place.run(&format!("{ASLEEP} --json")).exits(0);
    let told = profiles(&ran.out);
    // Beside other work the sleeps of one rank may truly end later than another's, by a few percent of a step.
    let slow = &told[0]["straggler"];
    assert!(slow.is_null() || slow["share"].as_f64().unwrap() < 0.1, "{slow}");
    let case = place.cases("record")[0]["id"].as_str().unwrap().to_owned();
    let file = std::fs::File::open(place.path(&format!("record/trace/{case}-0.json.gz"))).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |category: &str| events.iter().filter(|event| event["cat"] == category).count();
    let steps = of("step");
    assert!(steps >= 16 && of("input") == steps && of("block") > steps && of("collective") >= steps, "{steps} steps");
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let number = |key: &str| event[key].as_f64().unwrap();
        assert!(number("ts") >= 0.0 && number("dur") >= 0.0 && number("pid") < 2.0, "{event}");
    }
    // Inside a step, phases and waits follow each other: they never overlap on the step's thread.
    let mut thread: Vec<(f64, f64)> = events
        .iter()
        .filter(|event| event["pid"] == 0 && event["tid"] == 0)
        .filter(|event| {
            ["input", "forward", "backward", "optimizer", "wait"].contains(&event["cat"].as_str().unwrap_or_default())
        })
        .map(|event| (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap()))
        .collect();
    thread.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(thread.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0 + 0.002), "spans of one thread overlap");
}

#[test]
fn what_cannot_be_profiled_is_refused_with_what_to_do() {
    let place = Place::new();
    let refused = |arguments: &str| place.run(arguments).exits(2).err;
    assert!(refused("profile --steps 20:10").contains("FIRST:LAST"));
    assert!(refused("profile --inject delay:rank=1,percent=10").contains("needs `phase`"));
    assert!(refused("profile --inject delay:rank=1,phase=lunch").contains("valid values: input, forward"));
    assert!(refused("profile --import missing.json").contains("missing.json"));
    assert!(refused("profile --tool nsys").contains("-- COMMAND"));
    place.write("notes.txt", "no trace");
    assert!(refused("profile --import notes.txt").contains("formats of traces"));
    place.run("comm all_reduce --backend sim --ranks 2 --bytes 1KiB --iters 4 --quiet --output-dir bare").exits(0);
    assert!(refused("profile bare").contains("holds no traces"));
    // Traces of single operations have no steps.
    let plan = "experiment: x\nprofiling: {enabled: true}\ndefaults: {iters: 4, trials: 1}\ncases:\n  \
                - {benchmark: collective, op: all_reduce, backend: sim, ranks: 2, bytes: 1KiB}\n";
    place.write("plan.yaml", plan);
    place.run("run plan.yaml --quiet --output-dir operations").exits(0);
    assert_eq!(std::fs::read_dir(place.path("operations/trace")).unwrap().count(), 1);
    assert!(refused("profile operations").contains("holds no traces of training steps"));
    assert!(refused("profile --runtime pytorch --ranks 2").contains("-- COMMAND"));
    // Lines of the help break where the terminal ends.
    let short = place.run("profile -h").exits(0).out.split_whitespace().collect::<Vec<_>>().join(" ");
    let says = ["--duration", "--target", "--import", "(default: 2)", "half of --duration"];
    assert!(says.iter().all(|part| short.contains(part)), "{short}");
    // What means nothing here is not dropped in silence.
    assert!(refused("profile --ranks 2 -- /bin/true").contains("`--ranks` is for a model that Rankmark trains"));
    assert!(refused("profile --import notes.txt --set ranks=2").contains("`--set`"));
    assert!(
        refused("profile --dry-run -- /bin/sh -c false").contains("`--dry-run` is for a model that Rankmark trains")
    );
    assert!(refused("profile --junit x.xml -- /bin/true").contains("`--junit`"));
    assert!(refused("profile bare --output-dir other").contains("`--output-dir` is for a new record"));
    assert!(refused("comm all_reduce --inject delay:rank=0,phase=forward").contains("only native ranks that train"));
    assert!(refused("memory --compute sleep").contains("`--compute`"));
    assert!(refused("train --ranks 2 --compute sleep --load-balance measured --accumulate 2").contains("no speed"));
    assert!(refused("profile --output-dir bare -- /bin/true").contains("is a record already"));
    assert!(refused("profile --output-dir a:b -- /bin/true").contains("a colon separates folders"));
    // A job that is not Python leaves no traces, and its own end counts.
    place.write("seven.sh", "exit 7\n");
    let failed = place.run("profile -- /bin/sh seven.sh").exits(7).err;
    assert!(failed.contains("the job ended with code 7"), "{failed}");
    let bare = refused("profile -- /bin/true");
    assert!(bare.contains("holds no traces") && bare.contains("Python with torch"), "{bare}");
}

#[test]
fn a_job_of_pytorch_is_explained_and_its_slow_rank_named() {
    let Some(python) = pytorch::torch("a job of PyTorch is profiled") else { return };
    if !skip::heavy("a job of PyTorch is profiled") {
        return;
    }
    let place = Place::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/train.py");
    let job = format!("{python} -m torch.distributed.run --nproc-per-node 2 {example} --steps 140");
    // A busy machine makes steps vary for seconds: 40 steps of 0.1 s could not always tell who is slow.
    let slow = format!("profile --json --steps 10:130 --output-dir slow -- {job} --slow-rank 1 --slow-ms 60");
    let ran = place.run(&slow).exits(0);
    // Standard output holds only JSON: what the job prints goes to standard error.
    assert!(ran.out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{}", ran.out);
    assert!(ran.err.contains("loss "), "{}", ran.err);
    let told = profiles(&ran.out);
    let slow = &told[0]["straggler"];
    assert_eq!((&slow["rank"], &slow["phase"]), (&Value::from(1), &Value::from("backward")), "{}", told[0]);
    assert_eq!(told[0]["analysis"]["steps"]["ranks"].as_array().unwrap().len(), 2);
    // The Flight Recorder's dump names communicator and place of gloo's collectives.
    assert!(
        told[0]["analysis"]["collectives"]["matched"].as_u64().unwrap() > 0,
        "{}",
        told[0]["analysis"]["collectives"]
    );
    let text = place.run("profile slow").exits(0).out;
    assert!(text.contains("Rank 1 is slow in backward"), "{text}");
}

/// Each step waits for the slower of two ranks that vary much.
const VARYING: &str = "train --model gpt2-mini --ranks 1,2 --compute sleep --trials 6 --spacing 0s --max-seconds 0.2 \
                       --sleep-time 500us --sleep-jitter 0.6";

#[test]
fn a_training_of_low_efficiency_is_explained_with_its_results() {
    let place = Place::new();
    let ran = place.run(&format!("{VARYING} --output-dir varying")).exits(0);
    let cases = place.cases("varying");
    assert!(cases[1]["efficiency"].as_f64().unwrap() < 0.9, "{}", cases[1]);
    assert!(ran.out.contains("gpt2-mini, data, 2 ranks, shm: ") || ran.err.contains("gpt2-mini, data, 2 ranks, shm: "));
    let explained: Value = serde_json::from_str(&place.read("varying/profile.json")).unwrap();
    let of = explained["cases"].as_array().unwrap();
    assert!(of.len() == 2 && of[1]["waterfall"].is_object(), "{explained}");
    assert!(place.read("varying/report.md").contains("What limits the steps"));
    // Its trials are those that were asked for, and no more.
    assert!(cases.iter().all(|line| line["trials"] == 6));
}

#[test]
fn an_explanation_that_does_not_fit_takes_nothing_from_the_results() {
    let place = Place::new();
    // A closer look takes 4 s at least. A machine too busy for six trials within them looks no closer, and need not say so.
    let ran = place.run(&format!("{VARYING} --budget 4s --output-dir brief"));
    let tried = place.cases("brief").iter().all(|line| line["trials"] == 6);
    let told = |text: &str| text.contains("do not fit into the time budget");
    assert!(!tried || told(&ran.err) || told(&ran.out), "{ran:?}");
    assert!(!place.path("brief/trace").exists());
}

#[test]
fn where_ranks_do_not_wait_there_is_nothing_to_explain() {
    let place = Place::new();
    let train = VARYING.replace("500us --sleep-jitter 0.6", "3ms --sleep-jitter 0");
    place.run(&format!("{train} --output-dir even")).exits(0);
    // Beside other work ranks may wait.
    let even = place.cases("even").remove(1);
    let is_low = even["scaling"]["ci95"].is_array() && even["scaling"]["word"].is_null();
    assert_eq!(place.path("even/trace").exists(), is_low, "{}", even["scaling"]);
}

#[test]
fn a_job_that_is_asked_to_end_leaves_nothing_behind() {
    let place = Place::new();
    // As launchers do: a rank in a session of its own. It waits in native code, and the shell above it tells it nothing.
    let job = "setsid sh -c \"echo \\$\\$ > rank; exec sleep 300\" &\nsleep 300\nsleep 300\n";
    place.write("job.sh", job);
    let live = place.start("profile --output-dir r -- sh job.sh");
    let read = || std::fs::read_to_string(place.path("rank")).unwrap_or_default();
    assert!(wait_until(Duration::from_secs(60), || read().ends_with('\n')));
    let rank: u32 = read().trim().parse().unwrap();
    let asked = Instant::now();
    live.signal(libc::SIGTERM);
    let ended = live.wait_for(Duration::from_secs(60)).exits(143);
    assert!(ended.err.contains("the job ended with code 143"), "{}", ended.err);
    assert!(!crate::processes::runs(rank), "the rank is gone, too");
    // Half a second on a quiet machine. The grace of a job that does not obey is longer.
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
}

#[test]
fn a_job_that_is_asked_to_end_saves_its_state_first() {
    let place = Place::new();
    place.write(
        "job.sh",
        "trap 'sleep 6; echo saved > saved; exit 0' TERM\necho began > began\nwhile :; do sleep 0.1; done\n",
    );
    let live = place.start("profile --output-dir r -- sh job.sh");
    assert!(wait_until(Duration::from_secs(60), || place.path("began").exists()));
    live.signal(libc::SIGTERM);
    live.wait_for(Duration::from_secs(60)).exits(143);
    assert!(place.path("saved").exists());
}

#[test]
fn a_signal_that_is_meant_for_the_job_does_not_end_its_profile() {
    let place = Place::new();
    place.write("job.sh", "trap 'exit 5' USR1\necho $$ > pid\nwhile :; do sleep 0.1; done\n");
    let live = place.start("profile --output-dir r -- sh job.sh");
    let read = || std::fs::read_to_string(place.path("pid")).unwrap_or_default();
    assert!(wait_until(Duration::from_secs(60), || read().ends_with('\n')));
    live.signal(libc::SIGUSR1);
    // As Slurm does, which signals all processes of a step.
    std::thread::sleep(Duration::from_millis(500));
    let job = crate::processes::Aim::at(read().trim().parse().unwrap()).unwrap();
    job.send(libc::SIGUSR1).unwrap();
    live.wait_for(Duration::from_secs(60)).exits(5);
}

#[test]
fn traces_of_other_programs_become_a_record() {
    let place = Place::new();
    place.run(ASLEEP).exits(0);
    let ran = place.run("profile --import record/trace --output-dir imported --name theirs --tag old").exits(0);
    let labels = &place.run_file("imported")["labels"];
    assert_eq!((&labels["name"], &labels["tags"]), (&json!("theirs"), &json!(["old"])));
    assert!(ran.out.contains("report   imported/report.html"), "{}", ran.out);
    let [line] = &place.cases("imported")[..] else { panic!("one case") };
    assert_eq!((&line["benchmark"], &line["status"], &line["ranks"]), (&json!("job"), &json!("ok"), &json!(2)));
    let of_ours = place.cases("record")[0]["time_s"]["median"].as_f64().unwrap();
    let ratio = line["time_s"]["median"].as_f64().unwrap() / of_ours;
    assert!((0.7..1.5).contains(&ratio), "{ratio}");
    assert!(place.read("imported/report.md").contains("What limits the steps"));
    // Its page begins with what its traces showed, and is that of no other program.
    let page = place.read("imported/report.html");
    let verdict = page.split("<p class=\"verdict").nth(1).unwrap();
    assert!(!page.contains("IMPORTED") && !verdict.starts_with("another program"), "{verdict}");
    let explained: serde_json::Value = serde_json::from_str(&place.read("imported/profile.json")).unwrap();
    let said = explained["cases"][0]["verdict"].as_str().unwrap().trim_end_matches('.').to_owned();
    let begins = format!("**{}**", said.split('.').next().unwrap_or_default());
    assert!(place.read("imported/report.md").contains(begins.trim_end_matches('*')), "{begins}");
    assert!(
        place.run("profile --import record/trace --output-dir imported").exits(2).err.contains("is a record already")
    );
    assert!(place.run("compare imported imported --json").exits(3).out.contains("cannot tell"));
}
