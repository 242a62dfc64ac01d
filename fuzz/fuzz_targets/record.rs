//! Any bytes as a run file and as case lines: no panic, and what is read can be written and reads back the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use record::store::{read_case_lines, read_run_file};
use record::{CaseLine, RunFile, from_json, to_json};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(run) = read_run_file(bytes, "run.json") {
        let again = to_json(&run).expect("a run file is JSON");
        assert_eq!(from_json::<RunFile>(&again).expect("it reads back"), run);
    }
    if let Ok(found) = read_case_lines(bytes, "cases.jsonl") {
        assert!(found.whole_bytes <= bytes.len() as u64);
        for line in found.lines {
            let again = to_json(&line).expect("a line is JSON");
            assert_eq!(from_json::<CaseLine>(&again).expect("it reads back"), line);
        }
    }
});
