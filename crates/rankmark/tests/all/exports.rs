//! Files for other programs, and PDFs, from a run and from its record.

use crate::place::{Place, Starting};

const SIMULATED: &str =
    "comm all_reduce --backend sim --ranks 2 --bytes 1KiB,64KiB,1MiB --iters 20 --warmup 2 --output-dir out";

/// The program with this variable.
fn with<'a>(mut starting: Starting<'a>, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Starting<'a> {
    starting.command.env(name, value);
    starting
}

#[test]
fn a_run_writes_the_files_that_its_options_name() {
    let place = Place::new();
    place.write("page", "before\n");
    let line = format!("{SIMULATED} --junit ci/junit.xml --prometheus run.prom --github-summary");
    with(place.command(&line), "GITHUB_STEP_SUMMARY", place.path("page")).run().exits(0);
    let junit = place.read("ci/junit.xml");
    assert!(junit.contains("tests=\"3\" failures=\"0\" errors=\"0\" skipped=\"0\""), "{junit}");
    let metrics = place.read("run.prom");
    assert_eq!(metrics.matches("\nrankmark_case_time_seconds{").count(), 3, "{metrics}");
    assert!(metrics.contains("simulated=\"true\"") && !metrics.contains("simulated=\"false\""), "{metrics}");
    let page = place.read("page");
    assert!(page.starts_with("before\n# ") && page.contains("SIMULATED"), "{page}");
    // The record gives the same files, and those of `--format`.
    let again = "report out --junit again.xml --prometheus again.prom --format junit,parquet,github-summary";
    let said = place.run(again).exits(0).out;
    assert_eq!(said, "out/junit.xml\nout/cases.parquet\nout/summary.md\n");
    assert_eq!((place.read("again.xml"), place.read("again.prom")), (junit.clone(), metrics));
    assert_eq!((place.read("out/junit.xml"), format!("before\n{}", place.read("out/summary.md"))), (junit, page));
}

#[test]
fn a_report_to_one_file_writes_them_too() {
    let place = Place::new();
    place.run(SIMULATED).exits(0);
    for (output, junit) in [("one.csv", "a.xml"), ("-", "b.xml")] {
        place.run(&format!("report out --format csv --output {output} --junit {junit}")).exits(0);
        assert!(place.read(junit).contains("tests=\"3\""), "{output}");
    }
}

#[test]
fn a_gate_that_is_missed_fails_its_test() {
    let place = Place::new();
    let line = format!("{SIMULATED} --expect time_s<=1e-12 --junit junit.xml");
    place.run(&line).exits(1);
    let junit = place.read("junit.xml");
    assert!(junit.contains("failures=\"3\"") && junit.contains("message=\"gate missed: "), "{junit}");
}

#[test]
fn what_cannot_be_written_is_said_before_or_without_harm() {
    let place = Place::new();
    let ended = with(place.command(&format!("{SIMULATED} --github-summary")), "GITHUB_STEP_SUMMARY", "")
        .run()
        .refuses(&["GITHUB_STEP_SUMMARY is not set", "hint:"]);
    assert_eq!(place.names(), [""; 0], "nothing was measured: {}", ended.err);
    place.write("file", "");
    let line = format!("{SIMULATED} --junit file/junit.xml");
    let ended = place.run(&line).exits(2);
    for words in ["file/junit.xml could not be written", "the record itself is complete"] {
        assert!(ended.err.contains(words), "{words}: {}", ended.err);
    }
    assert!(place.path("out/report.md").is_file());
    place.run("report . --junit junit.xml").exits(0);
    place.run(&SIMULATED.replace("--output-dir out", "--output-dir other")).exits(0);
    place.run("report . --junit junit.xml").refuses(&["holds 2 records"]);
}

#[test]
fn a_pdf_is_written_by_every_build() {
    let place = Place::new();
    place.run(SIMULATED).exits(0);
    assert_eq!(place.run("report out --format pdf").exits(0).out, "out/report.pdf\n");
    let first = std::fs::read(place.path("out/report.pdf")).unwrap();
    assert!(first.starts_with(b"%PDF-1.7"));
    place.run("report out --format pdf --output one.pdf").exits(0);
    assert!(std::fs::read(place.path("one.pdf")).unwrap() == first, "the same record gives the same bytes");
}

#[test]
fn a_hyphen_is_standard_output_or_refused() {
    let place = Place::new();
    place.run("comm all_reduce --backend sim --bytes 1KiB --output-dir d").exits(0);
    let csv = place.run("report d --format csv -o -").exits(0).out;
    assert_eq!(csv, place.read("d/cases.csv"));
    place.run("pack d -o -").refuses(&["an archive is a file"]);
    assert!(!place.path("-").exists());
}
