//! What is simulated says so, wherever it goes: no path drops the mark.

use std::fs;

use crate::place::{Place, json_lines, statuses};

const SIM: &str = "comm all_reduce --backend sim --ranks 2,4 --bytes 1KiB,16KiB --iters 20 --warmup 1 --output-dir out";
const BANNER: &str = "SIMULATED";

fn simulated() -> (Place, crate::place::Ended) {
    let place = Place::new();
    let ended = place.run(SIM).exits(0);
    (place, ended)
}

#[test]
fn case_lines_and_run_file() {
    let (place, _) = simulated();
    let lines = place.cases("out");
    assert_eq!(statuses(&lines), [4, 0, 0, 0]);
    for line in &lines {
        assert_eq!(line["simulated"], true, "{line}");
        assert!(line["caveats"].as_array().unwrap().iter().any(|caveat| caveat == "simulated"), "{line}");
    }
    assert_eq!(place.run_file("out")["simulated"], true);
    let ended = Place::new().run(&format!("{SIM} --json")).exits(0);
    assert!(json_lines(&ended.out).iter().all(|line| line["simulated"] == true));
    assert!(ended.err.contains(BANNER), "{}", ended.err);
}

#[test]
fn terminal() {
    let (_, ended) = simulated();
    // The machine's line before it may be several.
    let banner = ended.out.lines().take_while(|line| !line.is_empty()).any(|line| line.starts_with(BANNER));
    let heading = ended.out.lines().any(|line| line.starts_with("collective") && line.contains(BANNER));
    assert!(banner && heading, "{}", ended.out);
    let rows: Vec<&str> = ended.out.lines().filter(|line| line.trim_start().starts_with('1')).collect();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.ends_with("simulated")), "{rows:?}");
}

#[test]
fn report_and_charts() {
    let (place, _) = simulated();
    let report = place.read("out/report.md");
    assert!(report.lines().take(4).any(|line| line.contains(BANNER)), "{report}");
    let charts: Vec<_> = fs::read_dir(place.path("out/charts")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let pictures: Vec<_> = charts.iter().filter(|path| path.extension().is_some_and(|kind| kind == "svg")).collect();
    assert!(!pictures.is_empty());
    for picture in pictures {
        assert!(fs::read_to_string(picture).unwrap().contains(BANNER), "{}", picture.display());
    }
    // Made again from the record alone.
    place.run("report out").exits(0);
    assert_eq!(place.read("out/report.md"), report);
}

#[test]
fn csv() {
    let (place, _) = simulated();
    let text = place.read("out/cases.csv");
    let column = text.lines().next().unwrap().split(',').position(|name| name == "simulated").unwrap();
    let values: Vec<&str> = text.lines().skip(1).map(|row| row.split(',').nth(column).unwrap()).collect();
    assert_eq!(values, ["true"; 4], "{text}");
}

#[test]
fn beside_what_is_measured() {
    let place = Place::new();
    let arguments = "comm all_reduce --backend shm,sim --bytes 1KiB --max-seconds 0.02s --output-dir out";
    let ended = place.run(arguments).exits(0);
    for line in place.cases("out") {
        assert_eq!(line["simulated"], line["backend"] == "sim", "{line}");
    }
    assert_eq!(place.run_file("out")["simulated"], true);
    assert!(ended.out.contains(BANNER) && place.read("out/report.md").contains(BANNER));
}

#[test]
fn cases_that_gave_no_number() {
    let place = Place::new();
    let ended = place.run("comm all_reduce --backend sim --bytes 0,1TB,1KiB --inject wrong:rank=1 --output-dir out");
    ended.exits(1);
    let lines = place.cases("out");
    // Of a terabyte a part is compared, and that is wrong, too.
    assert_eq!(statuses(&lines), [0, 2, 1, 0]);
    assert!(lines.iter().all(|line| line["simulated"] == true), "{lines:?}");
}

#[test]
fn the_same_plan_gives_the_same_times() {
    for noise in ["", "--noise 5% --noise-correlation 50% --trials 6"] {
        let times = |_| {
            let place = Place::new();
            place.run(&format!("{SIM} {noise}")).exits(0);
            place.cases("out").iter().map(|line| line["time_s"].clone()).collect::<Vec<_>>()
        };
        let [first, second] = [0, 1].map(times);
        assert_eq!(first, second);
        assert_eq!(first[0]["p05"] == first[0]["p95"], noise.is_empty(), "{}", first[0]);
    }
}
