//! Files of JSON lines: bounded reading, and the one damage that a crash leaves, a last line cut short.

use std::collections::HashMap;
use std::io::{BufRead, Read};

use serde_json::{Map, Value};

use super::checksum::Checker;
use super::{DamagedLine, StoreError, limits};
use crate::{CaseLine, SCHEMA};

/// One line as read.
pub(super) enum Line {
    /// A whole line, without its line break.
    Whole(Vec<u8>),
    /// The last line has no line break.
    Unfinished(Vec<u8>),
    /// Longer than allowed.
    TooLong,
}

/// The next line, or None at the end.
pub(super) fn next_line(from: &mut impl BufRead, limit: u64) -> std::io::Result<Option<Line>> {
    let mut line = Vec::new();
    from.by_ref().take(limit + 1).read_until(b'\n', &mut line)?;
    Ok(match line.last() {
        None => None,
        Some(b'\n') => {
            line.pop();
            Some(Line::Whole(line))
        }
        Some(_) if line.len() as u64 > limit => Some(Line::TooLong),
        Some(_) => Some(Line::Unfinished(line)),
    })
}

/// The case lines of a file.
#[derive(Debug, Default)]
pub struct CaseLines {
    /// The latest line of each case, in the order in which cases first appear.
    pub lines: Vec<CaseLine>,
    /// Bytes that are whole lines: what follows was cut short by a crash.
    pub whole_bytes: u64,
    /// Whether the last line is whole but for its line break.
    pub break_missing: bool,
    /// Lines that are damaged, and so left out.
    pub damaged: Vec<DamagedLine>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Reads case lines; a later line of a case stands for the earlier ones. `name` is for messages.
///
/// # Errors
/// A line with the right checksum that is no case line of this version, with its number. A damaged line is left out
/// and named. So is, with a note, a last line without a line break: a crash leaves such a line.
pub fn read_case_lines(mut from: impl BufRead, name: &str) -> Result<CaseLines, StoreError> {
    let mut found = CaseLines::default();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut checker = Checker::default();
    for number in 1.. {
        if number > limits::CASE_LINES || found.whole_bytes > limits::CASES {
            let (lines, mib) = (limits::CASE_LINES, limits::CASES >> 20);
            return Err(StoreError::new(format!("{name} holds more than {lines} lines or {mib} MiB")));
        }
        let line = next_line(&mut from, limits::CASE_LINE)
            .map_err(|error| StoreError::new(format!("cannot read {name}")).cause(error.to_string()))?;
        let parsed = match line {
            None => break,
            Some(Line::TooLong) => return Err(corrupt(name, number, "the line is too long")),
            Some(Line::Whole(mut bytes)) => {
                found.whole_bytes += bytes.len() as u64 + 1;
                match case_line(&mut bytes, &mut checker) {
                    Ok(line) => line,
                    Err(Fault::Other(cause)) => return Err(corrupt(name, number, &cause)),
                    Err(Fault::Damaged(cause)) => {
                        found.damaged.push(DamagedLine::new(name, number, &bytes, cause));
                        continue;
                    }
                }
            }
            Some(Line::Unfinished(mut bytes)) => {
                let length = bytes.len() as u64;
                let Ok(line) = case_line(&mut bytes, &mut checker) else {
                    found.notes.push(format!("{name}: the last line was cut short and is left out ({length} bytes)"));
                    break;
                };
                found.whole_bytes += length;
                found.break_missing = true;
                line
            }
        };
        match places.get(&parsed.id) {
            Some(place) => found.lines[*place] = parsed,
            None => {
                places.insert(parsed.id.clone(), found.lines.len());
                found.lines.push(parsed);
            }
        }
    }
    Ok(found)
}

/// Why a line is no case line.
pub(super) enum Fault {
    /// It is not what was written.
    Damaged(String),
    /// It is what somebody else wrote.
    Other(String),
}

/// Checks and reads a line.
pub(super) fn case_line(bytes: &mut Vec<u8>, checker: &mut Checker) -> Result<CaseLine, Fault> {
    let sealed = checker.open(bytes).map_err(|why| Fault::Damaged(why.to_owned()))?;
    // The version first: another version's form may differ in everything else.
    #[derive(serde::Deserialize)]
    struct Version {
        schema: u32,
    }
    match serde_json::from_slice::<Version>(bytes) {
        Ok(Version { schema }) if schema != SCHEMA => {
            return Err(Fault::Other(format!("schema {schema}; this program reads {SCHEMA}")));
        }
        _ => {}
    }
    let fault = if sealed { Fault::Other } else { Fault::Damaged };
    serde_json::from_slice(bytes).map(shrunk).map_err(|error| fault(error.to_string()))
}

/// The line without the room that its parts grew by: a record may hold 100,000 of them.
fn shrunk(mut line: CaseLine) -> CaseLine {
    // A map has no way to shrink, and one of known length is made as large as that.
    let shrunk = |map: &mut Map<String, Value>| *map = std::mem::take(map).into_iter().collect();
    shrunk(&mut line.parameters);
    shrunk(&mut line.metrics);
    line.trial_median_s.shrink_to_fit();
    line.trial_round.shrink_to_fit();
    line.per_rank_median_s.iter_mut().for_each(Vec::shrink_to_fit);
    line
}

/// The refusal of a line that nobody but a person can judge.
pub(super) fn corrupt(name: &str, number: usize, cause: &str) -> StoreError {
    StoreError::new(format!("{name}:{number}: not a line of this record"))
        .cause(cause)
        .hint("nothing was changed; take that line out, or start a new record with `--output-dir DIR`")
}
