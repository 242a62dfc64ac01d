//! `rankmark history`, and the index page of a folder of records. Runs are made once by the simulated backend and then written
//! again with other dates and times.

use std::fs;

use serde_json::{Value, json};

use crate::place::{Ended, Place};

const SIZES: [&str; 3] = ["1KiB", "16KiB", "64KiB"];

/// A simulated run of three cases in `template`.
fn template(place: &Place) {
    let sim = "comm all_reduce --backend sim --ranks 2 --trials 1 --warmup 1 --iters 5 --quiet --output-dir template";
    place.run(&format!("{sim} --bytes {}", SIZES.join(","))).exits(0);
}

/// What a copy of the template says.
#[derive(Clone)]
struct Copy {
    number: usize,
    host: String,
    simulated: bool,
    /// Times of the cases over the template's.
    factors: [f64; 3],
    version: String,
}

impl Copy {
    /// One of many equal runs: 1% of noise that is not a pattern.
    fn equal(number: usize) -> Self {
        let noise = |case: usize| {
            let mixed = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17 * case as u32 + 5);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40;
            1.0 + 0.02 * (mixed as f64 / (1u64 << 24) as f64 - 0.5)
        };
        Self {
            number,
            host: "node-a".to_owned(),
            simulated: false,
            factors: [noise(0), noise(1), noise(2)],
            version: "0.1.0".to_owned(),
        }
    }

    /// Writes it as a record in `folder`. Its lines have no checksum, as those of early versions.
    fn write(&self, place: &Place, folder: &str) -> String {
        let name = format!("{folder}/run-{:02}", self.number);
        fs::create_dir_all(place.path(&name)).unwrap();
        let mut file = place.run_file("template");
        file["started"] = json!(format!("2026-11-{:02}T10:15:00Z", self.number + 1));
        file["simulated"] = json!(self.simulated);
        file["machine"]["host"] = json!(self.host);
        file["tool"]["version"] = json!(self.version);
        file["labels"] = json!({ "name": format!("nightly-{}", self.number), "tags": ["<b>tag</b>"] });
        place.write(&format!("{name}/run.json"), file.to_string());
        let mut text = String::new();
        for (line, factor) in place.cases("template").iter_mut().zip(self.factors) {
            let object = line.as_object_mut().unwrap();
            object.remove("crc32");
            let time = object["time_s"]["median"].as_f64().unwrap() * factor;
            object["time_s"] = json!({ "median": time, "ci95": [time * 0.99, time * 1.01] });
            object.insert("simulated".to_owned(), json!(self.simulated));
            text += &format!("{line}\n");
        }
        place.write(&format!("{name}/cases.jsonl"), text);
        name
    }
}

/// Twenty runs; from the fifteenth on the second case takes 20% longer, with another version.
fn history() -> Place {
    let place = Place::new();
    template(&place);
    for number in 0..20 {
        let mut copy = Copy::equal(number);
        if number >= 14 {
            copy.factors[1] *= 1.2;
            copy.version = "0.2.0".to_owned();
        }
        copy.write(&place, "results");
    }
    place
}

fn read(ended: Ended) -> Value {
    serde_json::from_str(&ended.exits(0).out).unwrap()
}

#[test]
fn a_change_is_found_with_its_date_its_size_and_what_changed() {
    let place = history();
    let out = place.run("history").exits(0).out;
    assert!(out.contains("20 runs, 3 cases, 2026-11-01 10:15 to 2026-11-20 10:15 UTC"), "{out}");
    let changed: Vec<&str> = out.lines().filter(|line| line.starts_with("changed ")).collect();
    assert_eq!(changed.len(), 1, "{out}");
    assert!(changed[0].starts_with("changed 2026-11-15 10:15: nightly-14 (results/run-14)"), "{out}");
    let case = out.lines().find(|line| line.starts_with("* all_reduce 16 KiB, 2 ranks, sim: +")).unwrap();
    assert!(case.contains("14 runs before, 6 after"), "{out}");
    assert!(out.contains("also changed: rankmark 0.1.0 -> 0.2.0\n"), "{out}");
    let row = out.lines().find(|line| line.starts_with("all_reduce 16 KiB, 2 ranks, sim")).unwrap();
    assert!(row.contains("11-15") && row.contains('±') && row.contains('▁') && row.contains('█'), "{out}");
    assert!(out.contains("95% of equal runs of a case lie within ±") && !out.contains('\u{1b}'), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
}

#[test]
fn json_has_points_noise_and_changes() {
    let place = history();
    let json = read(place.run("history results --json"));
    let machine = &json["machines"][0];
    assert_eq!((machine["runs"].as_array().unwrap().len(), machine["simulated"].as_bool()), (20, Some(false)));
    let cases = machine["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 3);
    assert!(cases.iter().all(|case| case["points"].as_array().unwrap().len() == 20), "{json}");
    assert!(cases.iter().all(|case| (0.001..0.05).contains(&case["between_runs"]["band"].as_f64().unwrap())), "{json}");
    let change = &cases[1]["changes"][0];
    assert_eq!((&change["run"], &change["run_before"]), (&json!(14), &json!(13)));
    assert!((change["ratio"].as_f64().unwrap() - 1.2).abs() < 0.02 && change["p_value"].as_f64().unwrap() <= 0.05);
    assert_eq!(
        machine["changes"][0]["differences"],
        json!([
            { "name": "rankmark", "before": "0.1.0", "after": "0.2.0" }
        ])
    );
}

#[test]
fn machines_are_apart_and_other_records_are_named() {
    let place = Place::new();
    template(&place);
    for number in 0..4 {
        Copy::equal(number).write(&place, "results/2026");
    }
    Copy { host: "node-b".to_owned(), ..Copy::equal(5) }.write(&place, "results/2026");
    Copy { simulated: true, ..Copy::equal(6) }.write(&place, "results");
    let imported = Copy::equal(7).write(&place, "results");
    let mut file = place.run_file(&imported);
    file["imported"] = json!({ "format": "x", "file": "x", "sha256": "", "tool": "x", "statistic": "mean" });
    place.write(&format!("{imported}/run.json"), file.to_string());
    let other = Copy::equal(8).write(&place, "results");
    let mut file = place.run_file(&other);
    file["schema"] = json!(99);
    place.write(&format!("{other}/run.json"), file.to_string());
    let damaged = Copy::equal(9).write(&place, "results");
    let text = place.read(&format!("{damaged}/cases.jsonl"));
    place.write(&format!("{damaged}/cases.jsonl"), format!("{{\"broken\n{text}"));
    let out = place.run("history results results/run-09").exits(0).out;
    let heads: Vec<&str> = out.lines().filter(|line| line.contains("cores") && line.contains(':')).collect();
    assert!(heads.iter().any(|line| line.starts_with("node-a: ")), "{out}");
    assert!(heads.iter().any(|line| line.starts_with("node-b: ")), "{out}");
    assert!(out.contains("simulated on node-a") && out.contains("SIMULATED"), "{out}");
    assert!(out.contains("5 runs, 3 cases"), "four and the damaged one, once: {out}");
    assert!(out.contains("node-a: x, mean (imported)\n1 run, 3 cases"), "a series of its own: {out}");
    assert!(out.contains("left out: results/run-08: ") && out.contains("schema 99"), "{out}");
    assert!(out.contains("warning: results/run-09: 1 damaged line left out"), "{out}");
    assert!(out.contains("No change point can be found yet: that needs 8 runs of a case."), "{out}");
    let one = place.run("history --machine NODE-b").exits(0).out;
    assert!(one.starts_with("node-b: ") && !one.contains("node-a"), "{one}");
    place.run("history --machine node-z").refuses(&["node-z", "valid values"]);
    let any = place.run("history --any-host").exits(0).out;
    assert!(any.contains("6 runs, 3 cases"), "{any}");
    place.run("history absent").refuses(&["absent", "hint: "]);
    fs::create_dir(place.path("empty")).unwrap();
    place.run("history empty").refuses(&["there is no record in empty"]);
}

#[test]
fn copies_of_a_record_are_one_run() {
    let place = Place::new();
    template(&place);
    let origin = Copy::equal(0).write(&place, "results");
    Copy::equal(1).write(&place, "results");
    let lines = place.read(&format!("{origin}/cases.jsonl"));
    for number in 1..6 {
        let copy = format!("{origin}-copy-{number}");
        fs::create_dir(place.path(&copy)).unwrap();
        fs::copy(place.path(&format!("{origin}/run.json")), place.path(&format!("{copy}/run.json"))).unwrap();
        // The last was made while the run went on: it holds less, whatever its name.
        let kept = if number == 5 { lines.lines().next().unwrap().to_owned() + "\n" } else { lines.clone() };
        place.write(&format!("{copy}/cases.jsonl"), kept);
    }
    fs::rename(place.path("results/run-00-copy-5"), place.path("results/a-copy")).unwrap();
    let told = place.run("history").exits(0).out;
    assert!(told.contains("\n2 runs, 3 cases, 2026-11-01"), "{told}");
    let page = {
        place.run("history --html page.html").exits(0);
        place.read("page.html")
    };
    assert!(page.contains("2 runs of 1 machine"), "{page}");
    let json = read(place.run("history --json"));
    assert_eq!(json["machines"][0]["runs"].as_array().unwrap().len(), 2, "{json}");
    let names = ["a-copy", "run-00-copy-1", "run-00-copy-2", "run-00-copy-3", "run-00-copy-4"];
    for (name, left) in names.iter().zip(json["left_out"].as_array().unwrap()) {
        let said = format!("a copy of {origin}: the same run counts once");
        assert!(told.contains(&format!("left out: results/{name}: {said}")), "{told}");
        assert_eq!(
            (&left["directory"], &left["copy_of"]),
            (&json!(format!("results/{name}")), &json!(origin)),
            "{json}"
        );
        assert!(page.contains(&format!("results/{name}")) && page.contains(&said), "{page}");
    }
    assert_eq!(json["left_out"].as_array().unwrap().len(), 5, "{json}");
    // A folder that is a side of a comparison counts them in the same way.
    let compared = place.run("compare results results/run-01");
    assert!(compared.out.starts_with("results (2 runs) -> results/run-01\n"), "{}", compared.out);
    assert_eq!(compared.err.matches(&format!(": a copy of {origin}: ")).count(), 5, "{}", compared.err);
}

#[test]
fn a_field_that_a_later_version_added_does_not_end_a_series() {
    let place = Place::new();
    template(&place);
    for number in 0..6 {
        let name = Copy::equal(number).write(&place, "results");
        if number < 3 {
            // An earlier version did not know the field, so its cases had other identities.
            let mut file = place.run_file(&name);
            let fields = file["benchmarks"][0]["fields"].as_array_mut().unwrap();
            let before = fields.len();
            fields.retain(|field| field["name"] != "touch");
            assert_eq!(fields.len() + 1, before);
            place.write(&format!("{name}/run.json"), file.to_string());
            let mut text = String::new();
            for (index, mut line) in place.cases(&name).into_iter().enumerate() {
                assert!(line["parameters"].as_object_mut().unwrap().remove("touch").is_some());
                line["id"] = json!(format!("{index:012x}"));
                text += &format!("{line}\n");
            }
            place.write(&format!("{name}/cases.jsonl"), text);
        }
    }
    let json = read(place.run("history --json"));
    let cases = json["machines"][0]["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 3, "{json}");
    assert!(cases.iter().all(|case| case["points"].as_array().unwrap().len() == 6), "{json}");
}

#[test]
fn the_page_links_reports_and_loads_nothing() {
    let place = history();
    place.run("report results/run-03 --format markdown").exits(0);
    let ended = place.run("history --html pages/new/history.html").exits(0);
    assert!(ended.err.contains("page     pages/new/history.html"), "{}", ended.err);
    let page = place.read("pages/new/history.html");
    assert!(page.contains("href=\"../../results/run-03/report.md\""), "{page}");
    assert_eq!(page.matches("<a href=").count(), 1, "the others have no report yet");
    assert!(page.contains("default-src 'none'") && !page.contains("<script") && !page.contains("<b>tag"), "{page}");
    assert!(page.contains("rankmark 0.1.0 -&gt; 0.2.0") && page.contains("2026-11-15 10:15"), "{page}");
    assert!(page.contains("+2") && page.matches("<figure").count() == 3);
    place.run("history --html pages/new/history.html").exits(0);
    assert_eq!(page, place.read("pages/new/history.html"), "the same records give the same bytes");
}

#[test]
fn reports_of_a_folder_have_an_index_page() {
    let place = Place::new();
    template(&place);
    for number in 0..2 {
        Copy::equal(number).write(&place, "results");
    }
    let out = place.run("report results").exits(0).out;
    assert!(out.lines().last() == Some("results/index.html"), "{out}");
    let page = place.read("results/index.html");
    assert!(page.contains("href=\"./run-00/report.") && page.contains("href=\"./run-01/report."), "{page}");
    // What is asked for by name is all that is written.
    fs::remove_file(place.path("results/index.html")).unwrap();
    place.run("report results --format csv").exits(0);
    assert!(!place.path("results/index.html").exists());
}
