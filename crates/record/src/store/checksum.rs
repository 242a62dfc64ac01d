//! The checksum of a record's line: its last member, `"crc32":"xxxxxxxx"`, over the line without that member.
//!
//! CRC-32 of IEEE 802.3, which zlib and every language have, so that others can check a record, too. It finds damage, not
//! forgery: a process that can write a record can write its checksums.

use std::io::{self, Write};

/// Before the eight digits.
const BEGIN: &[u8] = b",\"crc32\":\"";
/// After the eight digits.
const END: &[u8] = b"\"}";
/// Bytes of the whole member, with the bracket that ends the line.
const LENGTH: usize = BEGIN.len() + 8 + END.len();

/// Adds the checksum to the JSON object that begins at `begin` and ends with the buffer.
pub(super) fn seal(buffer: &mut Vec<u8>, begin: usize) {
    debug_assert!(buffer[begin..].starts_with(b"{") && buffer.ends_with(b"}"), "an object");
    let sum = crc32fast::hash(&buffer[begin..]);
    buffer.pop();
    buffer.extend_from_slice(BEGIN);
    buffer.extend_from_slice(format!("{sum:08x}").as_bytes());
    buffer.extend_from_slice(END);
}

/// Adds the checksum to a line, with the run that wrote it and its number among the run's lines before it. An empty run: neither.
pub(super) fn seal_line(buffer: &mut Vec<u8>, begin: usize, run: &str, line: Option<u64>) {
    if !run.is_empty() {
        buffer.pop();
        buffer.extend_from_slice(format!(",\"run\":\"{run}\"").as_bytes());
        if let Some(line) = line {
            buffer.extend_from_slice(format!(",\"line\":{line}").as_bytes());
        }
        buffer.push(b'}');
    }
    seal(buffer, begin);
}

/// How the last member of a run file begins.
const RUN_BEGIN: &[u8] = b",\n  \"crc32\": \"";
/// How a run file ends after its eight digits.
const RUN_END: &[u8] = b"\"\n}\n";
/// How it ends without the member.
const RUN_BARE_END: &[u8] = b"\n}\n";

/// Bytes of the member and of what follows it.
const RUN_LENGTH: usize = RUN_BEGIN.len() + 8 + RUN_END.len();

/// Adds the checksum to the text of a run file: its last member, over the text without that member and its comma.
pub(super) fn seal_run(text: &mut Vec<u8>) {
    debug_assert!(text.ends_with(RUN_BARE_END), "an object on several lines");
    let sum = crc32fast::hash(text);
    text.truncate(text.len() - RUN_BARE_END.len());
    text.extend_from_slice(RUN_BEGIN);
    text.extend_from_slice(format!("{sum:08x}").as_bytes());
    text.extend_from_slice(RUN_END);
}

/// Writes the text of a run file as [`seal_run`] makes it, without all of it in memory.
pub(super) struct RunSealer<W> {
    to: W,
    sum: crc32fast::Hasher,
    /// The last bytes that came: the checksum stands before the end of the text.
    held: Vec<u8>,
}

impl<W: Write> RunSealer<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, sum: crc32fast::Hasher::new(), held: Vec::new() }
    }

    /// Ends the text, of which all has come but the last line break.
    pub(super) fn end(mut self) -> io::Result<()> {
        debug_assert_eq!([&self.held[..], b"\n"].concat(), RUN_BARE_END, "an object on several lines");
        self.sum.update(RUN_BARE_END);
        self.to.write_all(RUN_BEGIN)?;
        write!(self.to, "{:08x}", self.sum.finalize())?;
        self.to.write_all(RUN_END)
    }
}

impl<W: Write> Write for RunSealer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        let whole = self.held.len().saturating_sub(RUN_BARE_END.len() - 1);
        self.to.write_all(&self.held[..whole])?;
        self.sum.update(&self.held[..whole]);
        self.held.drain(..whole);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// What the checksum of a run file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunSeal {
    /// The file has no checksum: an earlier version wrote it, or somebody edited it.
    Absent,
    /// The text is what was written.
    Right,
    /// The text is not what was written.
    Wrong,
}

/// What the checksum of a run file says.
pub(super) fn check_run(text: &[u8]) -> RunSeal {
    const DIGITS: usize = 8;
    let Some(begin) = text.len().checked_sub(RUN_LENGTH) else { return RunSeal::Absent };
    let (head, rest) = text[begin..].split_at(RUN_BEGIN.len());
    let (digits, tail) = rest.split_at(DIGITS);
    let differ = |found: &[u8], own: &[u8]| found.iter().zip(own).filter(|(found, own)| found != own).count();
    match differ(head, RUN_BEGIN) + differ(tail, RUN_END) {
        0 => {}
        // The member itself is damaged.
        1 | 2 => return RunSeal::Wrong,
        _ => return RunSeal::Absent,
    }
    let mut sum = crc32fast::Hasher::new();
    sum.update(&text[..begin]);
    sum.update(RUN_BARE_END);
    if format!("{:08x}", sum.finalize()).as_bytes() == digits { RunSeal::Right } else { RunSeal::Wrong }
}

/// The text of a run file changed by `change`, with a right checksum where it had one.
pub(crate) fn reseal_run(text: &[u8], change: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
    if check_run(text) != RunSeal::Right {
        return change(text);
    }
    let mut changed = change(&[&text[..text.len() - RUN_LENGTH], RUN_BARE_END].concat());
    if changed.ends_with(RUN_BARE_END) {
        seal_run(&mut changed);
    }
    changed
}

/// A line changed by `change`, with a right checksum where it had one. One that is damaged keeps the one that it has.
pub(crate) fn reseal(line: &[u8], change: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut body = line.to_vec();
    let sealed = Checker::default().open(&mut body) == Ok(true);
    let mut changed = change(&body);
    if sealed && changed.starts_with(b"{") && changed.ends_with(b"}") {
        seal(&mut changed, 0);
    }
    changed
}

/// Checks the lines of one file, from its first.
#[derive(Debug, Default)]
pub(super) struct Checker {
    /// A line with a checksum was seen. All lines after it have one: only earlier versions wrote none.
    sealed: bool,
}

impl Checker {
    /// Checks a line and takes its checksum off. True: the line has one, and it is right.
    ///
    /// # Errors
    /// Why the line is damaged; its bytes stay as they are.
    pub(super) fn open(&mut self, line: &mut Vec<u8>) -> Result<bool, &'static str> {
        let Some(written) = digits(line) else {
            return if self.sealed { Err("it has no checksum, and a line before it has one") } else { Ok(false) };
        };
        self.sealed = true;
        let body = line.len() - LENGTH;
        let mut sum = crc32fast::Hasher::new();
        sum.update(&line[..body]);
        sum.update(b"}");
        if format!("{:08x}", sum.finalize()).as_bytes() != written {
            return Err("its checksum does not match");
        }
        line.truncate(body);
        line.push(b'}');
        Ok(true)
    }
}

/// The digits of the checksum, where the line ends in one.
fn digits(line: &[u8]) -> Option<&[u8]> {
    let member = line.get(line.len().checked_sub(LENGTH)?..)?;
    member.strip_prefix(BEGIN)?.strip_suffix(END)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(object: &str) -> Vec<u8> {
        let mut buffer = object.as_bytes().to_vec();
        seal(&mut buffer, 0);
        buffer
    }

    #[test]
    fn a_line_carries_the_checksum_that_others_compute() {
        // zlib.crc32(b'{"id":"x"}') of Python.
        assert_eq!(sealed(r#"{"id":"x"}"#), br#"{"id":"x","crc32":"89537ebc"}"#);
    }

    #[test]
    fn a_line_opens_to_what_was_sealed_and_no_changed_bit_goes_unseen() {
        let object = r#"{"id":"9f2c1ab04d77","ns":[[1,2],[3,4]]}"#;
        let line = sealed(object);
        let mut whole = line.clone();
        assert_eq!((Checker::default().open(&mut whole), whole.as_slice()), (Ok(true), object.as_bytes()));
        let mut checker = Checker::default();
        checker.open(&mut line.clone()).unwrap();
        for bit in 0..8 * line.len() {
            let mut changed = line.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(checker.open(&mut changed).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_changed_line_is_sealed_again_and_a_damaged_one_stays_damaged() {
        let change = |line: &[u8]| String::from_utf8_lossy(line).replace("node-b", "host-1").into_bytes();
        let line = sealed(r#"{"id":"x","host":"node-b"}"#);
        assert_eq!(reseal(&line, change), sealed(r#"{"id":"x","host":"host-1"}"#));
        assert_eq!(reseal(br#"{"host":"node-b"}"#, change), br#"{"host":"host-1"}"#);
        let damaged = String::from_utf8(line).unwrap().replace("\"x\"", "\"y\"");
        let mut changed = reseal(damaged.as_bytes(), change);
        assert!(!String::from_utf8_lossy(&changed).contains("node-b"));
        assert!(Checker::default().open(&mut changed).is_err());
    }

    #[test]
    fn a_line_names_its_run_and_its_number() {
        let mut line = br#"{"id":"x"}"#.to_vec();
        seal_line(&mut line, 0, "a1", Some(7));
        assert!(line.starts_with(br#"{"id":"x","run":"a1","line":7,"crc32":""#), "{}", String::from_utf8_lossy(&line));
        assert_eq!(Checker::default().open(&mut line), Ok(true));
        let mut bare = br#"{"id":"x"}"#.to_vec();
        seal_line(&mut bare, 0, "", Some(7));
        assert_eq!(bare, sealed(r#"{"id":"x"}"#));
    }

    #[test]
    fn every_changed_byte_of_a_run_file_is_seen() {
        let text = b"{\n  \"schema\": 1,\n  \"plan\": {}\n}\n".to_vec();
        let mut sealed = text.clone();
        seal_run(&mut sealed);
        assert!(serde_json::from_slice::<serde_json::Value>(&sealed).unwrap()["crc32"].is_string());
        assert_eq!((check_run(&sealed), check_run(&text)), (RunSeal::Right, RunSeal::Absent));
        for piece in [1, 2, 5, text.len()] {
            let mut written = Vec::new();
            let mut sealer = RunSealer::new(&mut written);
            text[..text.len() - 1].chunks(piece).for_each(|piece| sealer.write_all(piece).unwrap());
            sealer.end().unwrap();
            assert_eq!(written, sealed, "in pieces of {piece} bytes");
        }
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(check_run(&changed), RunSeal::Wrong, "byte {at}");
        }
        let again = reseal_run(&sealed, |text| String::from_utf8_lossy(text).replace("plan", "plot").into_bytes());
        assert_eq!(check_run(&again), RunSeal::Right);
    }

    #[test]
    fn only_lines_before_the_first_checksum_may_lack_one() {
        let mut checker = Checker::default();
        assert_eq!(checker.open(&mut b"{\"id\":1}".to_vec()), Ok(false));
        assert_eq!(checker.open(&mut sealed(r#"{"id":1}"#)), Ok(true));
        assert!(checker.open(&mut b"{\"id\":1}".to_vec()).is_err());
        assert_eq!(Checker::default().open(&mut Vec::new()), Ok(false));
    }
}
