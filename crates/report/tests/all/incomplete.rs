//! Every format and every layout says that a run is incomplete, whatever ended it. A new one is found here by the table.

use std::collections::BTreeMap;

use bytes::Bytes;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use record::{Caveat, Interruption, RunEnd};
use report::{FORMATS, Format, LAYOUTS, Run};
use terms::{Named as _, Status};

use crate::data;

/// All ends but the one of a run that is complete, each with words that every reader of it prints. The match makes a new
/// variant a compiler error here, and so a line of the list.
fn ends() -> Vec<(RunEnd, [&'static str; 2])> {
    let interrupted = Interruption::ALL.iter().map(|by| RunEnd::Interrupted(*by));
    let all = interrupted.chain([RunEnd::Killed, RunEnd::Running, RunEnd::Unknown, RunEnd::Part]);
    let words = |end: RunEnd| match end {
        RunEnd::Ended => unreachable!("a run that ended is complete"),
        RunEnd::Interrupted(Interruption::Interrupt) => ["INTERRUPTED RUN (SIGINT)", "interrupted by SIGINT"],
        RunEnd::Interrupted(Interruption::Terminate) => ["INTERRUPTED RUN (SIGTERM)", "interrupted by SIGTERM"],
        RunEnd::Interrupted(Interruption::HangUp) => ["INTERRUPTED RUN (SIGHUP)", "interrupted by SIGHUP"],
        RunEnd::Interrupted(Interruption::Launcher) => {
            ["INTERRUPTED RUN (its launcher ended)", "interrupted: its launcher ended"]
        }
        RunEnd::Killed => ["KILLED RUN", "killed"],
        RunEnd::Running => ["UNFINISHED RUN", "still running"],
        RunEnd::Unknown => ["UNFINISHED RUN", "killed, or running on another host"],
        RunEnd::Part => ["INCOMPLETE PART", "a merged run is incomplete"],
    };
    all.map(|end| (end, words(end))).collect()
}

/// A run that every format and layout has a place for: collectives, and training.
fn run(end: RunEnd) -> Run {
    let mut cases = [data::study().cases, data::scaled().cases].concat();
    cases.iter_mut().for_each(|line| line.caveats.retain(|caveat| *caveat != Caveat::Simulated));
    let mut open = cases[0].clone();
    (open.id, open.status, open.time_s) = ("ffffffffffff".to_owned(), Status::NotRun, None);
    open.reason = Some("the run ended before".to_owned());
    cases.push(open);
    Run { end, ..data::run(cases) }
}

fn files(format: &dyn Format, run: &Run) -> BTreeMap<String, Vec<u8>> {
    let files = format.render(run).unwrap_or_else(|error| panic!("{}: {error}", format.name()));
    files.into_iter().map(|file| (file.path.to_string(), file.content)).collect()
}

/// The text of a file that has some; None for pictures and documents of pages.
fn text(name: &str, content: &[u8]) -> Option<String> {
    match name.rsplit_once('.').map_or("", |(_, kind)| kind) {
        "png" | "pdf" => None,
        "parquet" => {
            let reader = SerializedFileReader::new(Bytes::from(content.to_vec())).unwrap();
            Some(reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect())
        }
        _ => Some(String::from_utf8(content.to_vec()).unwrap()),
    }
}

/// Whether a file has room for a few words only, and not for the banner.
fn is_for_programs(name: &str) -> bool {
    [".csv", ".parquet", ".prom", "bencher.json"].iter().any(|end| name.ends_with(end))
}

#[test]
fn every_file_of_every_format_and_layout_says_it() {
    // Pictures and PDFs take long to draw, and one of all kinds of ends shows that they differ.
    let whole = run(RunEnd::Ended);
    let mut silent: Vec<String> = Vec::new();
    for format in FORMATS.iter().chain(LAYOUTS) {
        let complete = files(*format, &whole);
        let drawn = complete.keys().any(|name| text(name, &complete[name]).is_none());
        let ends = ends();
        for (end, words) in if drawn { &ends[1..2] } else { &ends[..] } {
            let incomplete = files(*format, &run(*end));
            assert!(!incomplete.is_empty(), "{}", format.name());
            for (name, content) in &incomplete {
                let what = format!("{}: {name} of a run that is {}", format.name(), end.word());
                let says_it = match text(name, content) {
                    None => complete.get(name).is_some_and(|other| other != content),
                    Some(text) => text.contains(words[usize::from(is_for_programs(name))]),
                };
                silent.extend((!says_it).then_some(what));
            }
        }
        for (name, content) in &complete {
            let text = text(name, content).unwrap_or_default();
            for words in
                ["INTERRUPTED", "KILLED", "UNFINISHED", "INCOMPLETE", ",run_end", "interrupted by", "\"incomplete\""]
            {
                assert!(!text.contains(words), "{}: {name} of a run that ended: {words}", format.name());
            }
        }
    }
    assert!(silent.is_empty(), "these say nothing: {silent:#?}");
}

#[test]
fn numbers_of_a_run_that_did_not_end_are_zero() {
    let metrics = |end| files(report::format("prometheus").unwrap(), &run(end)).remove("rankmark.prom").unwrap();
    let ended = |end| {
        String::from_utf8(metrics(end))
            .unwrap()
            .lines()
            .find(|line| line.starts_with("rankmark_run_ended"))
            .unwrap()
            .to_owned()
    };
    assert!(ended(RunEnd::Ended).ends_with(" 1"));
    for (end, _) in ends() {
        assert!(ended(end).ends_with(" 0"), "{end:?}");
    }
    let bencher = files(report::format("bencher").unwrap(), &run(RunEnd::Killed)).remove("bencher.json").unwrap();
    let bencher: serde_json::Value = serde_json::from_slice(&bencher).unwrap();
    assert_eq!(bencher["INCOMPLETE RUN: killed"]["missing_cases"]["value"], 1.0, "one case did not run");
}
