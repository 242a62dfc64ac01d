//! What a run learns from equal runs next to it.

use serde_json::Value;

use crate::place::{Place, json_lines};

const QUICK: &str = "comm all_reduce --ranks 2 --bytes 1KiB --quick --max-seconds 0.1s --json --output-dir";

/// The times of a run, and what its terminal says. Its record then knows nothing of the machine's states: whether they are the
/// same in the next run, this machine decides.
fn run(place: &Place, name: &str) -> (Value, String) {
    let ended = place.run(&format!("{QUICK} {name}")).exits(0);
    let mut file = place.run_file(name);
    let members = file.as_object_mut().unwrap();
    ["crc32", "states"].iter().for_each(|member| drop(members.remove(*member)));
    place.write(&format!("{name}/run.json"), file.to_string());
    (json_lines(&ended.out)[0]["time_s"].clone(), ended.err)
}

#[test]
fn a_quick_run_has_the_interval_that_earlier_runs_tell() {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        let (time, said) = run(&place, name);
        assert_eq!(time.get("ci95_earlier"), None, "{name}: {time}");
        assert!(!said.contains("earlier runs here"), "{said}");
    }
    let (time, said) = run(&place, "d");
    let [median, low, high] =
        ["/median", "/ci95_earlier/0", "/ci95_earlier/1"].map(|at| time.pointer(at).unwrap().as_f64().unwrap());
    assert!(low < median && median < high && time["earlier_runs"] == 3, "{time}");
    assert!(said.contains("from 3 earlier runs here"), "{said}");
    assert!(place.read("d/report.md").contains("from 3 earlier runs here"));
    // Another folder has no earlier runs, and another case none of its own.
    let (elsewhere, _) = run(&place, "other/d");
    assert_eq!(elsewhere.get("ci95_earlier"), None, "{elsewhere}");
    let other = place.run(&format!("{} e", QUICK.replace("1KiB", "2KiB"))).exits(0);
    assert_eq!(json_lines(&other.out)[0]["time_s"].get("ci95_earlier"), None, "{}", other.out);
}
