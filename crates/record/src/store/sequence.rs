//! The position of a case line among the lines of its run: which run wrote it, and as which line. It reveals missing lines and
//! lines of another run.

use std::ops::RangeInclusive;

use super::{CASES_FILE, DamagedLine, limits};
use crate::SharedMap;

/// The position that a line states: its members `run` and `line`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LinePosition {
    pub(super) run: Option<String>,
    pub(super) line: Option<u64>,
}

impl LinePosition {
    /// Takes its members out of those that no field of a line has.
    pub(super) fn take(members: &mut SharedMap) -> Self {
        let line = members.shift_remove("line").and_then(|line| line.as_u64());
        let run = members.shift_remove("run").and_then(|run| run.as_str().map(str::to_owned));
        Self { run, line }
    }
}

/// The lines of a file, as they are read.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// The run that they must be of; empty where it is not known.
    run: String,
    seen: Vec<bool>,
    last: usize,
    /// A line has no checksum: somebody edited the file, or an earlier version wrote it.
    edited: bool,
}

impl Sequence {
    /// The sequence of lines in the file of this run; empty: any run.
    pub(super) fn of(run: &str) -> Self {
        Self { run: run.to_owned(), ..Self::default() }
    }

    /// Notes a line. `sealed`: it has a checksum, so nobody edited its place.
    ///
    /// # Errors
    /// Why it is not a line of this run.
    pub(super) fn note(&mut self, place: &LinePosition, sealed: bool) -> Result<(), String> {
        if !sealed {
            self.edited = true;
        } else if !self.run.is_empty() {
            check_run(&self.run, place.run.as_deref())?;
        }
        match place.line {
            Some(line) => self.mark(line),
            None => self.skip(),
        }
        Ok(())
    }

    /// Notes a line that cannot be read: it is there.
    pub(super) fn skip(&mut self) {
        self.mark(self.last as u64 + 1);
    }

    fn mark(&mut self, line: u64) {
        let Some(index) = usize::try_from(line).ok().and_then(|line| line.checked_sub(1)) else { return };
        if index >= limits::CASE_LINES {
            return;
        }
        if index >= self.seen.len() {
            self.seen.resize(index + 1, false);
        }
        self.seen[index] = true;
        self.last = index + 1;
    }

    /// The number of the next line.
    pub(super) fn next(&self) -> u64 {
        self.seen.len() as u64 + 1
    }

    /// Lines that are missing, where the run wrote so many; None: its last line is not known.
    pub(super) fn missing(&self, written: Option<u64>) -> Vec<DamagedLine> {
        if self.run.is_empty() || self.edited {
            return Vec::new();
        }
        let mut gaps: Vec<RangeInclusive<usize>> = Vec::new();
        for line in (1..=self.seen.len()).filter(|line| !self.seen[line - 1]) {
            match gaps.last_mut() {
                Some(gap) if *gap.end() + 1 == line => *gap = *gap.start()..=line,
                _ => gaps.push(line..=line),
            }
        }
        let written = written.and_then(|written| usize::try_from(written).ok()).unwrap_or(0);
        if written > self.seen.len() {
            gaps.push(self.seen.len() + 1..=written);
        }
        gaps.into_iter().map(missing).collect()
    }
}

/// Refuses a line of another run.
pub(super) fn check_run(own: &str, named: Option<&str>) -> Result<(), String> {
    let is_id = |run: &str| !run.is_empty() && run.len() <= 64 && run.bytes().all(|byte| byte.is_ascii_hexdigit());
    match named {
        Some(named) if named == own => Ok(()),
        Some(named) if is_id(named) => Err(format!("it is a line of another run ({named})")),
        _ => Err("it is a line of another run".to_owned()),
    }
}

fn missing(gap: RangeInclusive<usize>) -> DamagedLine {
    let (first, last) = (*gap.start(), *gap.end());
    let cause = match first == last {
        true => "it is missing".to_owned(),
        false => format!("lines {first} to {last} are missing"),
    };
    DamagedLine { file: CASES_FILE.to_owned(), line: first, id: None, cause, is_there: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(run: &str, lines: &[(&str, u64)]) -> Sequence {
        let mut sequence = Sequence::of(run);
        for (run, line) in lines {
            let _ = sequence.note(&LinePosition { run: Some((*run).to_owned()), line: Some(*line) }, true);
        }
        sequence
    }

    fn texts(lines: &[DamagedLine]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn missing_lines_are_told_together() {
        let sequence = noted("a", &[("a", 1), ("a", 4), ("a", 5)]);
        assert_eq!(texts(&sequence.missing(None)), ["cases.jsonl:2: lines 2 to 3 are missing"]);
        let all = ["cases.jsonl:2: lines 2 to 3 are missing", "cases.jsonl:6: it is missing"];
        assert_eq!(texts(&sequence.missing(Some(6))), all);
        assert_eq!(sequence.next(), 6);
        assert!(texts(&noted("", &[("a", 4)]).missing(Some(9))).is_empty(), "of no known run");
        assert_eq!(texts(&noted("a", &[("a", u64::MAX)]).missing(Some(u64::MAX))).len(), 1, "a number that is made up");
    }

    #[test]
    fn the_order_of_lines_does_not_matter() {
        assert!(noted("a", &[("a", 3), ("a", 1), ("a", 2), ("a", 2)]).missing(Some(3)).is_empty());
    }

    #[test]
    fn a_line_that_cannot_be_read_is_there() {
        let mut sequence = noted("a", &[("a", 1)]);
        sequence.skip();
        sequence.note(&LinePosition { run: Some("a".into()), line: Some(3) }, true).unwrap();
        assert!(sequence.missing(Some(3)).is_empty());
    }

    #[test]
    fn a_line_of_another_run_is_refused() {
        let of = |run: Option<&str>| {
            Sequence::of("a1").note(&LinePosition { run: run.map(str::to_owned), line: None }, true)
        };
        assert_eq!(of(Some("a1")), Ok(()));
        assert_eq!(of(Some("b2")).unwrap_err(), "it is a line of another run (b2)");
        assert_eq!(of(Some("\u{1b}[31m")).unwrap_err(), "it is a line of another run");
        assert_eq!(of(None).unwrap_err(), "it is a line of another run");
        let edited = Sequence::of("a1").note(&LinePosition { run: Some("b2".into()), line: None }, false);
        assert_eq!(edited, Ok(()), "an edited line says nothing");
    }
}
