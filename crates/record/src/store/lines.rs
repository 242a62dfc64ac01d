//! Files of JSON lines: bounded reading, and the one damage that a crash leaves, a last line cut short.

use std::collections::HashMap;
use std::io::{BufRead, Read};

use super::checksum::Checker;
use super::sequence::{LinePosition, Sequence};
use super::{DamagedLine, StoreError, limits};
use crate::json::StatedSchema;
use crate::{Case, CaseLine, Pool, SCHEMA};

/// One line as read.
pub(super) enum StoredLine {
    /// A whole line, without its line break.
    Whole(Vec<u8>),
    /// The last line has no line break.
    Unfinished(Vec<u8>),
    /// Longer than allowed.
    TooLong,
}

/// The next line, or None at the end.
pub(super) fn next_line(from: &mut impl BufRead, limit: u64) -> std::io::Result<Option<StoredLine>> {
    let mut line = Vec::new();
    from.by_ref().take(limit + 1).read_until(b'\n', &mut line)?;
    Ok(match line.last() {
        None => None,
        Some(b'\n') => {
            line.pop();
            Some(StoredLine::Whole(line))
        }
        Some(_) if line.len() as u64 > limit => Some(StoredLine::TooLong),
        Some(_) => Some(StoredLine::Unfinished(line)),
    })
}

/// The case lines of a file.
#[derive(Debug, Default)]
pub struct CaseLines {
    /// The line that stands for each case ([`CaseLine::replaces`]), in the order in which cases first appear.
    pub lines: Vec<CaseLine>,
    /// Bytes that are whole lines: what follows was cut short by a crash.
    pub whole_bytes: u64,
    /// Whether the last line is whole but for its line break.
    pub break_missing: bool,
    /// Lines that are damaged, and so left out.
    pub damaged: Vec<DamagedLine>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// The number that the next line has.
    pub(super) next: u64,
}

/// Reads case lines of any run. `name` is for messages.
///
/// # Errors
/// A line with the right checksum that is not a case line of this version, with its number. A damaged line is left out
/// and named. So is, with a note, a last line without a line break: a crash leaves such a line.
pub fn read_case_lines(from: impl BufRead, name: &str) -> Result<CaseLines, StoreError> {
    read_lines_of(from, name, Sequence::default(), None, &[])
}

/// Reads the case lines of one run. Lines of another run are left out and named, and so are those that are missing of as many as
/// the run has `written`, where that is known. A line shares its parameters with its case of the `plan`.
///
/// # Errors
/// As [`read_case_lines`].
pub(super) fn read_lines_of(
    mut from: impl BufRead,
    name: &str,
    mut sequence: Sequence,
    written: Option<u64>,
    plan: &[Case],
) -> Result<CaseLines, StoreError> {
    // Of a plan that was read for results alone, cases have no parameters.
    let whole = plan.iter().filter(|case| !case.parameters.is_empty());
    let planned: HashMap<&str, &Case> = whole.map(|case| (case.id.as_str(), case)).collect();
    // Mostly each case has one: a list that grows has room for up to twice as many.
    let mut found = CaseLines { lines: Vec::with_capacity(plan.len()), ..CaseLines::default() };
    let mut places: HashMap<String, (usize, Option<u64>)> = HashMap::new();
    let mut checker = Checker::default();
    let mut pool = Pool::default();
    for number in 1.. {
        if number > limits::CASE_LINES || found.whole_bytes > limits::CASES {
            let (lines, mib) = (limits::CASE_LINES, limits::CASES >> 20);
            return Err(StoreError::new(format!("{name} holds more than {lines} lines or {mib} MiB")));
        }
        let line = next_line(&mut from, limits::CASE_LINE)
            .map_err(|error| StoreError::new(format!("cannot read {name}")).cause(error.to_string()))?;
        let mut parsed = match line {
            None => break,
            Some(StoredLine::TooLong) => return Err(corrupt(name, number, "the line is too long")),
            Some(StoredLine::Whole(mut bytes)) => {
                found.whole_bytes += bytes.len() as u64 + 1;
                match case_line(&mut bytes, &mut checker) {
                    Ok(read) => match sequence.note(&read.place, read.sealed) {
                        Ok(()) => read,
                        Err(cause) => {
                            found.damaged.push(DamagedLine::new(name, number, &bytes, cause));
                            continue;
                        }
                    },
                    Err(Fault::Other(cause)) => return Err(corrupt(name, number, &cause)),
                    Err(Fault::Newer(cause)) => return Err(corrupt(name, number, &cause).hint(NEWER)),
                    Err(Fault::Damaged(cause)) => {
                        sequence.skip();
                        found.damaged.push(DamagedLine::new(name, number, &bytes, cause));
                        continue;
                    }
                }
            }
            Some(StoredLine::Unfinished(mut bytes)) => {
                let length = bytes.len() as u64;
                let read = case_line(&mut bytes, &mut checker).ok();
                let Some(read) = read.filter(|read| sequence.note(&read.place, read.sealed).is_ok()) else {
                    found.notes.push(format!("{name}: the last line was cut short and is left out ({length} bytes)"));
                    break;
                };
                found.whole_bytes += length;
                found.break_missing = true;
                read
            }
        };
        if let Some(case) = planned.get(parsed.line.id.as_str()) {
            parsed.line.parameters.share(&case.parameters);
        }
        parsed.line.parameters.pool(&mut pool);
        parsed.line.metrics.pool_names(&mut pool);
        keep(&mut found.lines, &mut places, parsed);
    }
    // Cut off, so that the next one has its number.
    found.next = sequence.next().max(written.map_or(0, |written| written.saturating_add(1)));
    if !found.notes.is_empty() {
        sequence.skip();
    }
    found.damaged.extend(sequence.missing(written));
    Ok(found)
}

/// Keeps a line if it stands for its case.
fn keep(lines: &mut Vec<CaseLine>, places: &mut HashMap<String, (usize, Option<u64>)>, read: ReadLine) {
    let ReadLine { line, place, .. } = read;
    let Some((index, number)) = places.get_mut(&line.id) else {
        places.insert(line.id.clone(), (lines.len(), place.line));
        lines.push(line);
        return;
    };
    // Lines without a number are in the order in which they were written.
    let is_later = place.line.zip(*number).is_none_or(|(own, known)| own > known);
    let stands = if is_later { line.replaces(&lines[*index]) } else { !lines[*index].replaces(&line) };
    if stands {
        lines[*index] = line;
        *number = place.line;
    }
}

/// A line as read.
pub(super) struct ReadLine {
    pub(super) line: CaseLine,
    pub(super) place: LinePosition,
    /// Whether it has a checksum.
    pub(super) sealed: bool,
}

/// Why a line is not a case line.
pub(super) enum Fault {
    /// The line is not what was written.
    Damaged(String),
    /// The line is what somebody else wrote.
    Other(String),
    /// A later version of this program wrote the line.
    Newer(String),
}

/// What to do with what a later version wrote.
pub(super) const NEWER: &str = "a newer version wrote it: update rankmark";

/// Checks and reads a line.
pub(super) fn case_line(bytes: &mut Vec<u8>, checker: &mut Checker) -> Result<ReadLine, Fault> {
    let sealed = checker.open(bytes).map_err(|why| Fault::Damaged(why.to_owned()))?;
    let fault = if sealed { Fault::Other } else { Fault::Damaged };
    let foreign = |schema: u32| {
        let fault = if schema > SCHEMA { Fault::Newer } else { Fault::Other };
        fault(format!("schema {schema}; this program reads {SCHEMA}"))
    };
    let mut line = match crate::from_json::<CaseLine>(&*bytes) {
        Ok(line) if line.schema != SCHEMA => return Err(foreign(line.schema)),
        Ok(line) => line,
        // Another version's form may differ in everything else.
        Err(error) => {
            return Err(schema_of(bytes)
                .filter(|schema| *schema != SCHEMA)
                .map_or_else(|| fault(error.to_string()), foreign));
        }
    };
    let place = LinePosition::take(&mut line.metrics);
    Ok(ReadLine { line: shrunk(line), place, sealed })
}

/// The version that a line states.
fn schema_of(bytes: &[u8]) -> Option<u32> {
    serde_json::from_slice::<StatedSchema>(bytes).ok().map(|version| version.schema)
}

/// The line without the room that its parts grew by: a record may hold 100,000 of them.
fn shrunk(mut line: CaseLine) -> CaseLine {
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
