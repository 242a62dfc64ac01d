//! The checksum of a record's line: its last member, `"crc32":"xxxxxxxx"`, over the line without that member.
//!
//! CRC-32 of IEEE 802.3, which zlib and every language have, so that others can check a record, too. It finds damage, not
//! forgery: whoever can write a record can write its checksums.

/// Before the eight digits.
const BEGIN: &[u8] = b",\"crc32\":\"";
/// After them.
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
    fn only_lines_before_the_first_checksum_may_lack_one() {
        let mut checker = Checker::default();
        assert_eq!(checker.open(&mut b"{\"id\":1}".to_vec()), Ok(false));
        assert_eq!(checker.open(&mut sealed(r#"{"id":1}"#)), Ok(true));
        assert!(checker.open(&mut b"{\"id\":1}".to_vec()).is_err());
        assert_eq!(Checker::default().open(&mut Vec::new()), Ok(false));
    }
}
