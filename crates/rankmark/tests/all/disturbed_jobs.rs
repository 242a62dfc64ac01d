//! `rankmark profile -- COMMAND` beside other programs: what they take of the machine is measured, recorded and said.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::place::Place;

/// A trace of one rank: 30 steps, of which three, at no regular distance, take six times as long.
fn trace() -> Value {
    let mut begin = 1000;
    let step = |number: u32| {
        let length = if [14, 18, 31].contains(&number) { 6000 } else { 1000 };
        let span = json!({"ph": "X", "cat": "user_annotation", "name": format!("ProfilerStep#{number}"), "pid": 1,
                          "tid": 1, "ts": begin, "dur": length - 10});
        begin += length;
        span
    };
    json!({"schemaVersion": 1, "distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 1},
           "traceEvents": (10..40).map(step).collect::<Vec<_>>()})
}

/// A program that never waits.
struct Neighbour(Child);

impl Neighbour {
    fn start() -> Self {
        let mut command = Command::new("/bin/sh");
        Self(command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn other_programs_are_measured_while_a_job_is_profiled() {
    let place = Place::new();
    place.write("trace.json", trace().to_string());
    place.write("job.sh", "sleep 2\ncp trace.json \"$RANKMARK_PROFILE_DIR/trace-rank0.json\"\n");
    let cores = std::thread::available_parallelism().unwrap().get();
    let neighbours: Vec<Neighbour> = (0..cores).map(|_| Neighbour::start()).collect();
    let ended = place.run("profile --json --output-dir r -- /bin/sh job.sh").exits(0);
    drop(neighbours);
    let line: Value = ended.out.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap();
    let disturbance = &line["analysis"]["disturbance"];
    assert!(disturbance["caveats"].as_array().unwrap().contains(&json!("other_programs")), "{disturbance}");
    assert!(disturbance["other_cores"].as_f64() > Some(0.1), "{disturbance}");
    let [case] = &place.cases("r")[..] else { panic!("one case") };
    assert!(case["caveats"].as_array().unwrap().contains(&json!("other_programs")), "{case}");
    let finding = &line["analysis"]["findings"][0];
    assert_eq!(finding["kind"], "pauses", "{finding}");
    assert_ne!(finding["confidence"]["word"], "high");
    assert!(!finding["advice"].as_str().unwrap().contains("checkpoint"), "{finding}");
    for said in [place.read("r/report.html"), place.read("r/report.md"), place.run("profile r").exits(0).out] {
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("While the job ran, other programs used"), "{words:.3000}");
    }
}

/// Three of its steps take six times as long, so the mean step is not the median one. Whatever is a share or a part of a step is
/// of the mean step; a median is called that.
#[test]
fn record_sentences_and_page_of_a_job_are_of_its_mean_step() {
    let place = Place::new();
    place.write("trace.json", trace().to_string());
    let told = place.run("profile --json --import trace.json --output-dir r").exits(0).out;
    let line: Value = told.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap();
    let finding = &line["analysis"]["findings"][0];
    let number = |of: &Value| of.as_f64().unwrap();
    let mean = number(&finding["saves_s_per_step"]) / number(&finding["share"]);
    let [case] = &place.cases("r")[..] else { panic!("one case") };
    assert!((number(&case["time_s"]["mean"]) / mean - 1.0).abs() < 1e-6, "{case} {mean}");
    assert!(mean > 1.4 * number(&case["time_s"]["median"]), "{case}");
    let kept: Value = serde_json::from_str(&place.read("r/profile.json")).unwrap();
    let kept = &kept["cases"][0]["findings"][0];
    assert!((number(&kept["seconds"]) / number(&kept["share"]) / mean - 1.0).abs() < 1e-6, "{kept}");
    let page = place.read("r/report.md");
    let head = page.lines().find(|line| line.contains("| mean step |")).unwrap_or_else(|| panic!("{page}"));
    assert!(head.contains("| median step |") && !page.contains("| step |"), "{head}");
    let text = place.run("profile --import trace.json --output-dir again").exits(0).out;
    assert!(text.contains("on average and") && text.contains("in the median"), "{text}");
}
