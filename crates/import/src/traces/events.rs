//! The container of Chrome traces: an object with `traceEvents` and header fields before or after it.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;

use serde_json::Value;

use super::scan::{Keep, Scanner, Stop};

/// Header fields that a reader uses.
const HEADER: &[&str] = &["schemaVersion", "baseTimeNanoseconds", "distributedInfo", "host_name", "otherData", "ERROR"];

/// The largest header field that is kept: the ranks of 10 000 communicators fit.
const LARGEST_FIELD: usize = 8 << 20;

/// The longest name that is kept.
const LONGEST_NAME: usize = 1024;

/// Arguments that a reader uses.
const ARGUMENTS: &[&str] = &[
    "Collective name",
    "dtype",
    "In msg nelems",
    "Out msg nelems",
    "Group size",
    "Process Group Name",
    "Process Group Description",
    "Process Group Ranks",
    "Seq",
    "correlation",
    "Input Dims",
    "Input type",
    "number",
    "bytes",
    "group",
    "sequence",
    "ranks",
    "first_byte_us",
    "descheduled_us",
];

/// Header fields, as JSON; texts are their characters.
#[derive(Default)]
pub(super) struct Header {
    fields: Vec<(&'static str, Vec<u8>)>,
}

impl Header {
    /// A field as a text.
    pub(super) fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        let (_, value) = self.fields.iter().find(|(known, _)| *known == name)?;
        Some(String::from_utf8_lossy(value))
    }

    /// A field as an object or array. None where it is missing, damaged, or too large.
    pub(super) fn value(&self, name: &str) -> Option<Value> {
        record::from_json(self.text(name)?.as_bytes()).ok()
    }

    /// Whether the file has it.
    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| *known == name)
    }
}

/// One event; reused for all events of a file.
#[derive(Default)]
pub(super) struct TraceEvent {
    /// `X` is a span.
    pub(super) phase: u8,
    /// Category of the event.
    pub(super) category: Vec<u8>,
    /// Name of the event.
    pub(super) name: Vec<u8>,
    /// The process, as it is written.
    pub(super) process: Vec<u8>,
    /// The thread, as it is written.
    pub(super) thread: Vec<u8>,
    /// When it begins, after the origin of the file.
    pub(super) begin_ns: Option<i64>,
    /// How long it takes; can be negative.
    pub(super) duration_ns: Option<i64>,
    text: Vec<u8>,
    arguments: Vec<(&'static str, Range<usize>)>,
}

impl TraceEvent {
    /// Name of the event as a text.
    pub(super) fn name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.name)
    }

    /// An argument as it is written; a text without quotes.
    pub(super) fn argument(&self, name: &str) -> Option<&str> {
        let (_, range) = self.arguments.iter().find(|(known, _)| *known == name)?;
        std::str::from_utf8(self.text.get(range.clone())?).ok()
    }

    /// An argument as a number.
    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.argument(name)?.trim().parse().ok()
    }

    fn clear(&mut self) {
        self.phase = 0;
        (self.begin_ns, self.duration_ns) = (None, None);
        for text in [&mut self.category, &mut self.name, &mut self.process, &mut self.thread, &mut self.text] {
            text.clear();
        }
        self.arguments.clear();
    }

    fn read<R: Read>(&mut self, scanner: &mut Scanner<R>, scratch: &mut Vec<u8>) -> Result<(), Stop> {
        self.clear();
        let mut first = true;
        scanner.enter(b'{', "an event")?;
        while scanner.key(&mut first, scratch)? {
            match scratch.as_slice() {
                b"ph" => {
                    scratch.clear();
                    scanner.value(Some(Keep::new(scratch, 1)))?;
                    self.phase = scratch.first().copied().unwrap_or(0);
                }
                b"cat" => scanner.value(Some(Keep::new(&mut self.category, 64)))?,
                b"name" => scanner.value(Some(Keep::new(&mut self.name, LONGEST_NAME)))?,
                b"pid" => scanner.value(Some(Keep::new(&mut self.process, 128)))?,
                b"tid" => scanner.value(Some(Keep::new(&mut self.thread, 128)))?,
                b"ts" => self.begin_ns = time(scanner, scratch)?,
                b"dur" => self.duration_ns = time(scanner, scratch)?,
                b"args" => self.read_arguments(scanner, scratch)?,
                _ => scanner.value(None)?,
            }
        }
        Ok(())
    }

    fn read_arguments<R: Read>(&mut self, scanner: &mut Scanner<R>, scratch: &mut Vec<u8>) -> Result<(), Stop> {
        if scanner.peek()? != b'{' {
            return scanner.value(None);
        }
        let mut first = true;
        scanner.enter(b'{', "arguments")?;
        while scanner.key(&mut first, scratch)? {
            match ARGUMENTS.iter().find(|known| known.as_bytes() == scratch.as_slice()) {
                Some(known) => {
                    let begin = self.text.len();
                    scanner.value(Some(Keep::new(&mut self.text, 4096)))?;
                    self.arguments.push((known, begin..self.text.len()));
                }
                None => scanner.value(None)?,
            }
        }
        Ok(())
    }
}

fn time<R: Read>(scanner: &mut Scanner<R>, scratch: &mut Vec<u8>) -> Result<Option<i64>, Stop> {
    scratch.clear();
    scanner.value(Some(Keep::new(scratch, 64)))?;
    Ok(nanoseconds(scratch))
}

/// Nanoseconds of a number of microseconds. Digits are read as they stand: an f64 of absolute microseconds would round.
pub(super) fn nanoseconds(microseconds: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(microseconds).ok()?.trim();
    if text.contains(['e', 'E']) {
        let ns = text.parse::<f64>().ok()? * 1e3;
        return (ns.is_finite() && ns.abs() < 4e18).then_some(ns.round() as i64);
    }
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let digit = |at: usize| i64::from(fraction.as_bytes().get(at).map_or(0, |byte| byte - b'0'));
    let below = digit(0) * 100 + digit(1) * 10 + digit(2) + i64::from(digit(3) >= 5);
    let ns = whole.parse::<i64>().ok()?.checked_mul(1000)?.checked_add(below)?;
    Some(if negative { -ns } else { ns })
}

/// Reads a trace. `each` sees every event; without it, events are passed over. What was read before a stop has been seen.
///
/// The input is read to its end also where the JSON ends or is wrong before: only there a packed file shows whether what was
/// read is what was written.
pub(super) fn scan(
    input: impl Read,
    header: &mut Header,
    each: Option<&mut dyn FnMut(&TraceEvent)>,
) -> Result<(), Stop> {
    let mut scanner = Scanner::new(input);
    match object(&mut scanner, header, each) {
        Ok(()) => scanner.drain(),
        Err(stop @ Stop::Unexpected { .. }) => match scanner.drain() {
            Err(failed @ Stop::Unreadable { .. }) => Err(failed),
            _ => Err(stop),
        },
        stopped => stopped,
    }
}

fn object<R: Read>(
    scanner: &mut Scanner<R>,
    header: &mut Header,
    mut each: Option<&mut dyn FnMut(&TraceEvent)>,
) -> Result<(), Stop> {
    let (mut key, mut first) = (Vec::new(), true);
    scanner.byte_order_mark()?;
    scanner.enter(b'{', "an object with `traceEvents`")?;
    while scanner.key(&mut first, &mut key)? {
        if key == b"traceEvents" {
            match &mut each {
                Some(each) => events(scanner, &mut **each)?,
                None => scanner.value(None)?,
            }
            continue;
        }
        match HEADER.iter().find(|known| known.as_bytes() == key) {
            Some(known) if !header.has(known) => {
                let mut value = Vec::new();
                scanner.value(Some(Keep::new(&mut value, LARGEST_FIELD)))?;
                header.fields.push((known, value));
            }
            _ => scanner.value(None)?,
        }
    }
    Ok(())
}

fn events<R: Read>(scanner: &mut Scanner<R>, each: &mut dyn FnMut(&TraceEvent)) -> Result<(), Stop> {
    let (mut event, mut scratch, mut first) = (TraceEvent::default(), Vec::new(), true);
    scanner.enter(b'[', "a list of events")?;
    while scanner.item(&mut first)? {
        if scanner.peek()? == b'{' {
            event.read(scanner, &mut scratch)?;
            each(&event);
        } else {
            scanner.value(None)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_become_nanoseconds_exactly() {
        let cases = [
            ("1640311492912345.678", Some(1_640_311_492_912_345_678)),
            ("12", Some(12_000)),
            ("0.5", Some(500)),
            ("-3.25", Some(-3250)),
            ("2000.0010000000002", Some(2_000_001)),
            ("1.9996", Some(2000)),
            ("1.5e3", Some(1_500_000)),
            ("NaN", None),
            ("1e99", None),
            ("99999999999999999999", None),
            ("", None),
            ("1.2.3", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(nanoseconds(text.as_bytes()), wanted, "{text}");
        }
    }

    #[test]
    fn header_fields_may_stand_on_both_sides() {
        let text = r#"{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "a", "args": {"Seq": 4, "x": [1]}}, 7],
            "distributedInfo": {"rank": 3}}"#;
        let (mut header, mut seen) = (Header::default(), Vec::new());
        let mut each = |event: &TraceEvent| seen.push((event.name().into_owned(), event.number::<u64>("Seq")));
        scan(text.as_bytes(), &mut header, Some(&mut each)).unwrap();
        assert_eq!(seen, [("a".to_owned(), Some(4))]);
        assert_eq!(header.value("distributedInfo").unwrap()["rank"], 3);
        assert_eq!(header.text("schemaVersion").unwrap(), "1");
    }

    #[test]
    fn events_before_the_cut_are_seen() {
        let text = r#"{"traceEvents": [{"name": "a"}, {"name": "b"}, {"name": "#;
        let (mut header, mut seen) = (Header::default(), 0);
        let stop = scan(text.as_bytes(), &mut header, Some(&mut |_| seen += 1)).unwrap_err();
        assert_eq!((seen, stop), (2, Stop::Ended { at: text.len() as u64 }));
    }
}
