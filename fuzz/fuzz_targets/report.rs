//! Any text in any member of a record: every format of a report keeps its own bytes, tags and places, and so does the page of
//! JSON lines that a terminal shows.

#![no_main]

use libfuzzer_sys::fuzz_target;
use record::store::{read_case_lines, read_run_file};
use record::{Record, to_json};
use report::{FORMATS, Run};
use serde_json::{Map, Value};

/// A record that reads well: the same that regression tests of `record` use.
const RUN: &str = include_str!("../regressions/record/run.json");
const CASES: &str = include_str!("../regressions/record/cases.jsonl");

/// Behind every text that is put in: what nothing but a forged text can bring.
const TAGS: &str = "\n\u{1b}[8m<zz>\" zz='\r";

/// Changes texts of a value as the bytes say: one byte for each text and key, and the rest of them as its text.
struct Forger<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Forger<'_> {
    fn next(&mut self) -> u8 {
        self.at += 1;
        self.bytes.get(self.at % self.bytes.len().max(1)).copied().unwrap_or(0)
    }

    fn text(&mut self, text: &str) -> String {
        let begin = self.at % self.bytes.len().max(1);
        let forged = self.bytes[begin..].split(|byte| *byte == 0).next().unwrap_or_default();
        let forged = String::from_utf8_lossy(&forged[..forged.len().min(64)]).into_owned();
        if self.next().is_multiple_of(2) { format!("{text}{forged}{TAGS}") } else { format!("{forged}{TAGS}") }
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) if self.next().is_multiple_of(8) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => {
                let forged: Map<String, Value> = std::mem::take(members)
                    .into_iter()
                    .map(|(key, mut item)| {
                        self.value(&mut item);
                        if self.next() == 7 { (self.text(&key), item) } else { (key, item) }
                    })
                    .collect();
                *members = forged;
            }
            _ => {}
        }
    }
}

/// A JSON text with forged texts, and without its checksum.
fn forged(text: &str, forger: &mut Forger<'_>) -> String {
    let mut value: Value = serde_json::from_str(text).expect("the base is JSON");
    value.as_object_mut().expect("it is an object").remove("crc32");
    forger.value(&mut value);
    format!("{value}\n")
}

/// Whether a file is text in which a forged one must not show, but for the formats that have text itself.
fn check(path: &str, content: &[u8]) {
    assert!(!path.starts_with('/') && path.split('/').all(|part| !part.is_empty() && part != ".."), "{path:?}");
    assert!(!path.chars().any(char::is_control), "{path:?}");
    let is_binary = [".png", ".pdf", ".parquet"].iter().any(|end| path.ends_with(end));
    let Some(text) = std::str::from_utf8(content).ok().filter(|_| !is_binary) else { return };
    let is_markup = [".html", ".svg", ".xml"].iter().any(|end| path.ends_with(end));
    let mut is_fenced = false;
    for line in text.split('\n') {
        assert!(!line.contains(|c: char| c.is_control() && c != '\t'), "{path}: {line:?}");
        is_fenced ^= line.starts_with("```");
        // In code of Markdown a tag is text, and so it is in files without markup, such as CSV.
        let is_text = is_fenced || line.contains('`');
        assert!(!(line.contains("<zz") && (is_markup || path.ends_with(".md") && !is_text)), "{path}: {line:?}");
    }
    assert!(!is_fenced || !path.ends_with(".md"), "{path}: a block of code has no end");
}

fuzz_target!(|bytes: &[u8]| {
    let mut forger = Forger { bytes, at: 0 };
    let Ok(file) = read_run_file(forged(RUN, &mut forger).as_bytes(), "run.json") else { return };
    let lines: String = CASES.lines().map(|line| forged(line, &mut forger)).collect();
    let Ok(found) = read_case_lines(lines.as_bytes(), "cases.jsonl") else { return };
    for line in &found.lines {
        assert!(!to_json(line).expect("a line is JSON").contains(char::is_control));
    }
    let (end, notes) = (Default::default(), found.notes);
    let record = Record { file, cases: found.lines, end, damaged: found.damaged, notes };
    let run = Run::from_record(record, std::path::Path::new("results/forged"));
    for format in FORMATS {
        for file in format.render(&run).expect("a record has a report") {
            check(&file.path.to_string(), &file.content);
        }
    }
});
