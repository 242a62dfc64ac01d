//! A run file that is damaged: what of it can still be read.
//!
//! The program writes a member a line, indented by its depth. So a member that cannot be read is left out by itself, and
//! the others keep their places. Then what is left is fitted to the types, again member by member.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::DamagedLine;
use crate::{Case, Declared, DeclaredField, DeclaredMetric, Machine, Plan, RunFile, SCHEMA, Tool};

/// Spaces of one level.
const INDENT: usize = 2;
/// Levels that are looked into: far more than a run file has.
const DEPTH: usize = 40;
/// Members that are named; of a file of noise nothing is read.
const NAMED: usize = 100;

/// The readable rest of a run file, and what is left out. None where too little is left to show a run.
pub(super) fn salvage(text: &[u8]) -> Option<(RunFile, Vec<DamagedLine>)> {
    let text = &*terms::outside::json(text);
    let mut lost = Vec::new();
    let found = match serde_json::from_slice(text) {
        Ok(Value::Object(whole)) => whole,
        Ok(_) => return None,
        Err(_) => {
            let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
            object(&LineRun { lines: &lines, first: 1, path: "", depth: 1 }, &mut lost)
        }
    };
    let file = fit_run(found, &mut lost)?;
    lost.truncate(NAMED);
    Some((file, lost))
}

/// Lines of a text, which hold the members of one object or the elements of one list.
struct LineRun<'t> {
    lines: &'t [&'t [u8]],
    /// The number of the first of them.
    first: usize,
    /// The member that they are the value of.
    path: &'t str,
    depth: usize,
}

impl LineRun<'_> {
    /// The lines of each member: from one that begins at this depth to the next.
    fn members(&self) -> Vec<std::ops::Range<usize>> {
        let indent = INDENT * self.depth;
        let mut members: Vec<std::ops::Range<usize>> = Vec::new();
        let mut is_open = false;
        for (index, line) in self.lines.iter().enumerate() {
            let spaces = line.iter().take_while(|byte| **byte == b' ').count();
            let closes = matches!(line.get(spaces), Some(b'}' | b']'));
            if spaces == indent && !closes {
                members.push(index..index + 1);
                is_open = true;
            } else if spaces < indent {
                is_open = false;
            } else if let Some(last) = members.last_mut().filter(|_| is_open) {
                last.end = index + 1;
            }
        }
        members
    }
}

fn object(part: &LineRun<'_>, lost: &mut Vec<DamagedLine>) -> Map<String, Value> {
    let mut found = Map::new();
    for lines in part.members() {
        let first = part.first + lines.start;
        let lines = &part.lines[lines];
        let (key, rest) = match key_of(lines[0]) {
            Some(split) => split,
            None => {
                lost.push(lost_member(first, part.path));
                continue;
            }
        };
        let path = if part.path.is_empty() { key.clone() } else { format!("{}.{key}", part.path) };
        let part = LineRun { lines, first, path: &path, depth: part.depth };
        if let Some(value) = value(&part, rest, lost) {
            found.insert(key, value);
        }
    }
    found
}

fn list(part: &LineRun<'_>, lost: &mut Vec<DamagedLine>) -> Vec<Value> {
    let mut found = Vec::new();
    for lines in part.members() {
        let part = LineRun {
            lines: &part.lines[lines.clone()],
            first: part.first + lines.start,
            path: part.path,
            depth: part.depth,
        };
        found.extend(value(&part, part.lines[0].trim_ascii_start(), lost));
    }
    found
}

/// The key of a member, and the rest of its first line.
fn key_of(line: &[u8]) -> Option<(String, &[u8])> {
    let text = line.trim_ascii_start().strip_prefix(b"\"")?;
    let end = text.windows(3).position(|window| window == b"\": ")?;
    Some((std::str::from_utf8(&text[..end]).ok()?.to_owned(), &text[end + 3..]))
}

/// The value that begins with `first`, the rest of the first line. A text with a damaged character keeps its others.
fn value(part: &LineRun<'_>, first: &[u8], lost: &mut Vec<DamagedLine>) -> Option<Value> {
    let mut text = first.to_vec();
    for line in &part.lines[1..] {
        text.push(b'\n');
        text.extend_from_slice(line);
    }
    let text = text.trim_ascii_end();
    let text = text.strip_suffix(b",").unwrap_or(text);
    if let Ok(value) = serde_json::from_slice(text) {
        return Some(value);
    }
    let inner = LineRun { lines: &part.lines[1..], first: part.first + 1, path: part.path, depth: part.depth + 1 };
    match first.trim_ascii_end().last() {
        Some(b'{') if inner.depth < DEPTH && !inner.lines.is_empty() => {
            return Some(Value::Object(object(&inner, lost)));
        }
        Some(b'[') if inner.depth < DEPTH && !inner.lines.is_empty() => return Some(Value::Array(list(&inner, lost))),
        _ => {}
    }
    lost.push(lost_member(part.first, part.path));
    let quoted = text.strip_prefix(b"\"").filter(|_| part.lines.len() == 1)?;
    Some(String::from_utf8_lossy(quoted.strip_suffix(b"\"").unwrap_or(quoted)).into_owned().into())
}

fn lost_member(line: usize, path: &str) -> DamagedLine {
    let what = if path.is_empty() { "a member".to_owned() } else { format!("`{path}`") };
    DamagedLine::of_run_file(line, format!("{what} is damaged, and is read in part or not at all"))
}

/// Members of `found` that fit the type, in place of those of the value that is given.
fn fit<T: Serialize + DeserializeOwned + Clone>(
    given: &T,
    found: Map<String, Value>,
    path: &str,
    lost: &mut Vec<DamagedLine>,
) -> T {
    let Ok(Value::Object(mut whole)) = serde_json::to_value(given) else { return given.clone() };
    let mut fitted = given.clone();
    for (key, value) in found {
        let before = whole.insert(key.clone(), value);
        match serde_json::from_value(Value::Object(whole.clone())) {
            Ok(with) => fitted = with,
            Err(_) => {
                match before {
                    Some(before) => whole.insert(key.clone(), before),
                    None => whole.remove(&key),
                };
                lost.push(lost_member(0, &format!("{path}{key}")));
            }
        }
    }
    fitted
}

/// The elements that are of the type.
fn fit_list<T: DeserializeOwned>(found: Option<Value>, path: &str, lost: &mut Vec<DamagedLine>) -> Vec<T> {
    let Some(Value::Array(elements)) = found else { return Vec::new() };
    let number = elements.len();
    let fitted: Vec<T> = elements.into_iter().filter_map(|element| serde_json::from_value(element).ok()).collect();
    if fitted.len() < number {
        let cause = format!("{} of {number} elements of `{path}` are damaged and left out", number - fitted.len());
        lost.push(DamagedLine::of_run_file(0, cause));
    }
    fitted
}

fn members(found: Option<Value>) -> Map<String, Value> {
    match found {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

fn fit_run(mut found: Map<String, Value>, lost: &mut Vec<DamagedLine>) -> Option<RunFile> {
    let (plan, machine, benchmarks) = (found.remove("plan"), found.remove("machine"), found.remove("benchmarks"));
    if plan.is_none() && benchmarks.is_none() {
        return None;
    }
    // The checksum is wrong, so another version here is damage, too.
    found.insert("schema".to_owned(), json!(SCHEMA));
    let mut file = fit(&nothing(), found, "", lost);
    file.machine = fit(&Machine::default(), members(machine), "machine.", lost);
    let mut plan = members(plan);
    let cases = plan.remove("cases");
    file.plan = fit(&file.plan, plan, "plan.", lost);
    file.plan.cases = fit_list::<Case>(cases, "plan.cases", lost);
    if let Some(Value::Array(all)) = benchmarks {
        file.benchmarks = all.into_iter().filter_map(|one| declared(one, lost)).collect();
    }
    Some(file)
}

/// A run file that says nothing.
fn nothing() -> RunFile {
    let plan = Plan {
        experiment: "unknown".to_owned(),
        profiling: false,
        cases: Vec::new(),
        notes: Vec::new(),
        expected: Vec::new(),
        read_as: None,
        source_text: String::new(),
    };
    let tool = Tool { name: "rankmark".to_owned(), version: "?".to_owned() };
    let mut file = RunFile::new(tool, jiff::Timestamp::UNIX_EPOCH, Machine::default(), plan, &[]);
    (file.id, file.started) = (String::new(), String::new());
    file
}

fn declared(found: Value, lost: &mut Vec<DamagedLine>) -> Option<Declared> {
    let mut found = members(Some(found));
    let name = found.get("name")?.as_str()?.to_owned();
    let path = |member: &str| format!("benchmarks.{name}.{member}");
    Some(Declared {
        doc: found.get("doc").and_then(Value::as_str).unwrap_or_default().to_owned(),
        fields: fit_list::<DeclaredField>(found.remove("fields"), &path("fields"), lost),
        metrics: fit_list::<DeclaredMetric>(found.remove("metrics"), &path("metrics"), lost),
        show: fit(&crate::show::Show::default(), members(found.remove("show")), &path("show."), lost),
        name,
    })
}
