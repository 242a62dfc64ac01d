//! `rankmark schema`: the records that commands write are valid to it.

use serde_json::{Value, json};

use crate::place::{Place, json_lines};
use crate::validator::faults;

/// Commands that together write most kinds of lines. One of them ends with wrong elements.
const COMMANDS: [(&str, &str); 8] = [
    ("comm", "comm all_reduce,ping_pong --bytes 1KiB,64KiB --trials 2 --tag a --iters 3 --warmup 1"),
    ("isolated", "comm all_reduce --bytes 1KiB --mode isolated --trials 1 --iters 3 --warmup 1"),
    ("wrong", "comm all_reduce --bytes 1KiB --trials 1 --iters 3 --warmup 1 --inject wrong:rank=1"),
    ("simulated", "comm all_reduce --bytes 1KiB --backend sim"),
    ("primitive", "primitive tp_columnwise --m 64 --n 64 --k 64 --ranks 2 --trials 1 --iters 3 --warmup 1"),
    ("train", "train --model gpt2-mini --ranks 2 --steps 1 --trials 1"),
    ("hardware", "hardware triad --bytes 8MiB --threads 2 --trials 1 --iters 3 --warmup 1"),
    ("limited", "comm all_reduce --bytes 64KiB --limits hardware --trials 1 --iters 3 --warmup 1"),
];

#[test]
fn what_commands_write_is_valid() {
    let place = Place::new();
    let schema: Value = serde_json::from_str(&place.run("schema record").exits(0).out).unwrap();
    let benchmarks = &schema["$defs"]["case_line"]["properties"]["benchmark"]["enum"];
    assert!(benchmarks.as_array().unwrap().contains(&json!("job")), "`profile -- COMMAND` writes it: {benchmarks}");
    for (record, command) in COMMANDS {
        place.run(&format!("{command} --output-dir {record}"));
        let check = |file: &str, value: &Value| {
            let schema = of_kind(&schema, file);
            assert_eq!(faults(&schema, value), Vec::<String>::new(), "{record}/{file}: {value}");
        };
        check("run", &place.run_file(record));
        let cases = place.cases(record);
        assert!(!cases.is_empty(), "{record}");
        cases.iter().for_each(|line| check("case_line", line));
        let samples = place.read(&format!("{record}/samples.jsonl"));
        json_lines(&samples).iter().for_each(|line| check("sample_line", line));
    }
}

/// The schema of one kind of object: its faults have their places.
fn of_kind(record: &Value, kind: &str) -> Value {
    json!({"$ref": format!("#/$defs/{kind}"), "$defs": record["$defs"]})
}
