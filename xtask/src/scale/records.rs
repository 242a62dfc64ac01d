//! Records of many cases: the lines of a small run of `--backend sim` again and again, each with parameters, an identity and a
//! checksum of its own, as the program writes them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// In what cases differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Vary {
    /// Sizes and seeds.
    Sizes,
    /// Operations.
    Operations,
    /// Backends, each at three sizes: as many lines in a chart.
    Backends,
}

/// Which cases have a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lines {
    All,
    /// All but the last one: the run was killed before.
    AllButOne,
}

/// A run of few cases: its run file, and its cases with their lines.
pub(super) struct Seed {
    file: Map<String, Value>,
    cases: Vec<(Map<String, Value>, Map<String, Value>)>,
}

impl Seed {
    /// Reads a record.
    pub(super) fn read(record: &Path) -> io::Result<Self> {
        let mut file: Map<String, Value> = serde_json::from_slice(&std::fs::read(record.join("run.json"))?)?;
        file.remove("crc32");
        let planned = file.get_mut("plan").and_then(|plan| plan.get_mut("cases")).map(Value::take);
        let planned: Vec<Map<String, Value>> = serde_json::from_value(planned.unwrap_or_default())?;
        let mut cases = Vec::new();
        for line in std::fs::read_to_string(record.join("cases.jsonl"))?.lines() {
            let mut line: Map<String, Value> = serde_json::from_str(line)?;
            line.retain(|member, _| !["run", "line", "crc32"].contains(&member.as_str()));
            // A line of a later trial replaces those before.
            cases.retain(|(_, known): &(_, Map<String, Value>)| known["id"] != line["id"]);
            let case = planned.iter().find(|case| case["id"] == line["id"]);
            cases.extend(case.map(|case| (case.clone(), line)));
        }
        if cases.is_empty() { Err(io::Error::other("the run has no results")) } else { Ok(Self { file, cases }) }
    }

    /// Writes the record of a fleet of so many nodes.
    pub(super) fn fleet(&self, record: &Path, nodes: usize) -> io::Result<()> {
        super::fleet::write(record, nodes, &self.file, &self.cases[0].1)
    }

    /// Writes a record of so many cases. `run` is the number that its identity is made of.
    pub(super) fn write(
        &self,
        record: &Path,
        number: usize,
        (vary, lines, run): (Vary, Lines, usize),
    ) -> io::Result<()> {
        std::fs::create_dir_all(record)?;
        let run = format!("{run:012x}");
        let cases = || (0..number).map(|place| self.case(place, number, vary));
        let written = number - usize::from(lines == Lines::AllButOne);
        let mut to = BufWriter::new(File::create(record.join("cases.jsonl"))?);
        for (place, (_, line)) in cases().take(written).enumerate() {
            writeln!(to, "{}", sealed(&line, &run, place + 1)?)?;
        }
        to.flush()?;
        File::create(record.join("samples.jsonl"))?;
        let end = (lines == Lines::All).then(|| json!({ "case_lines": written }));
        self.run_file(BufWriter::new(File::create(record.join("run.json"))?), &run, end, cases().map(|(case, _)| case))
    }

    /// The case at a place of the plan, and its line.
    fn case(&self, place: usize, number: usize, vary: Vary) -> (Map<String, Value>, Map<String, Value>) {
        let (mut case, mut line) = self.cases[place % self.cases.len()].clone();
        let mut parameters = line["parameters"].as_object().cloned().unwrap_or_default();
        let own = parameters.clone();
        let name = |of: &str| own[of].as_str().unwrap_or_default();
        match vary {
            Vary::Sizes => {
                // From the end, so that what is left to run is the smallest however many there are.
                parameters["bytes"] = json!(1024_u64 << ((number - 1 - place) % 20));
                parameters["seed"] = json!(place + 1);
            }
            Vary::Operations => parameters["op"] = json!(format!("{}_{place}", name("op"))),
            Vary::Backends => {
                parameters["bytes"] = json!(1024_u64 << (4 * (place % 3)));
                parameters["backend"] = json!(format!("{}_{}", name("backend"), place / 3));
            }
        }
        let id = json!(identity(&line["benchmark"], &parameters));
        for member in ["bytes", "backend"] {
            line[member] = parameters[member].clone();
        }
        for bytes in
            [&mut case["bytes_requested"], &mut line["bytes_requested"]].into_iter().filter(|own| !own.is_null())
        {
            *bytes = parameters["bytes"].clone();
        }
        for own in [&mut case, &mut line] {
            own["id"] = id.clone();
            own["parameters"] = Value::Object(parameters.clone());
        }
        (case, line)
    }

    /// Writes the run file case by case, because that of 100,000 has 90 MB.
    fn run_file(
        &self,
        to: impl Write,
        run: &str,
        end: Option<Value>,
        cases: impl Iterator<Item = Map<String, Value>>,
    ) -> io::Result<()> {
        let mut file = self.file.clone();
        file["id"] = json!(run);
        file.remove("end");
        file.extend(end.map(|end| ("end".to_owned(), end)));
        file["plan"]["cases"] = json!("CASES");
        let text = serde_json::to_string_pretty(&file)?;
        let (before, after) = text.split_once("\"CASES\"").unwrap_or((&text, ""));
        let mut to = Sealing { to, sum: crc32fast::Hasher::new() };
        write!(to, "{before}[")?;
        let mut between = "";
        for case in cases {
            let case = serde_json::to_string_pretty(&case)?.replace('\n', "\n      ");
            write!(to, "{between}\n      {case}")?;
            between = ",";
        }
        write!(to, "\n    ]{}", after.strip_suffix("\n}").unwrap_or(after))?;
        to.end()
    }
}

/// A writer that knows the checksum of what it wrote.
struct Sealing<W> {
    to: W,
    sum: crc32fast::Hasher,
}

impl<W: Write> Write for Sealing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<W: Write> Sealing<W> {
    /// Ends a run file with the checksum of its text without that member.
    fn end(mut self) -> io::Result<()> {
        self.sum.update(b"\n}\n");
        write!(self.to, ",\n  \"crc32\": \"{:08x}\"\n}}\n", self.sum.finalize())?;
        self.to.flush()
    }
}

/// A line with the run that wrote it, its number and its checksum.
pub(super) fn sealed(line: &Map<String, Value>, run: &str, number: usize) -> io::Result<String> {
    let mut text = serde_json::to_string(line)?;
    text.truncate(text.len() - 1);
    text += &format!(",\"run\":\"{run}\",\"line\":{number}}}");
    let sum = crc32fast::hash(text.as_bytes());
    text.truncate(text.len() - 1);
    Ok(text + &format!(",\"crc32\":\"{sum:08x}\"}}"))
}

/// 12 digits of SHA-256 over benchmark and parameters, as the program gives them.
pub(super) fn identity(benchmark: &Value, parameters: &Map<String, Value>) -> String {
    let parameters: BTreeMap<_, _> = parameters.iter().collect();
    let text = json!({ "benchmark": benchmark, "parameters": parameters }).to_string();
    Sha256::digest(text.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_and_checksums_are_those_of_the_program() {
        // Of a case of a real run, and its line's checksum (crates/record/src/store/checksum.rs).
        let parameters = r#"{"op":"all_reduce","ranks":2,"backend":"sim","device":"cpu","dtype":"f32","reduce":"sum","bytes":65536,
            "in_place":true,"buffers":"registered","touch":false,"mode":"streaming","seed":2}"#;
        let parameters: Map<String, Value> = serde_json::from_str(parameters).unwrap();
        assert_eq!(identity(&json!("collective"), &parameters), "3679621be90b");
        let line: Map<String, Value> = serde_json::from_str(r#"{"id":"x"}"#).unwrap();
        let text = sealed(&line, "a1", 7).unwrap();
        let sum = crc32fast::hash(br#"{"id":"x","run":"a1","line":7}"#);
        assert_eq!(text, format!(r#"{{"id":"x","run":"a1","line":7,"crc32":"{sum:08x}"}}"#));
    }
}
