//! The bytes of a file as text: compression, encodings, line ends, codes of terminals, and JSON that container engines wrap
//! around each line.

use std::borrow::Cow;
use std::io::Read;

use terms::{Error, outside};

use crate::pasted;

/// A text, and what was not read as it stands.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) text: String,
    pub(crate) notes: Vec<String>,
}

/// Compressed files by their first bytes, with the program that reads them. Gzip is read here.
const COMPRESSED: &[(&[u8], &str)] = &[
    (b"\x28\xb5\x2f\xfd", "zstd -dc"),
    (b"\xfd7zXZ\x00", "xz -dc"),
    (b"BZh", "bzip2 -dc"),
    (b"PK\x03\x04", "unzip -p"),
];

/// Reads bytes as text of at most `largest` bytes.
///
/// # Errors
/// When they are compressed by another program than gzip, are damaged, or are not text.
pub(crate) fn decode(name: &str, bytes: Vec<u8>, largest: u64) -> Result<Decoded, Error> {
    let bytes = if bytes.starts_with(b"\x1f\x8b") { unpacked(name, &bytes, largest)? } else { bytes };
    if let Some((_, program)) = COMPRESSED.iter().find(|(first, _)| bytes.starts_with(first)) {
        return Err(Error::new(format!("{name} is compressed"))
            .hint(format!("`{program} {name} | rankmark import -` reads what is in it")));
    }
    let mut notes = Vec::new();
    let text = match wide(&bytes) {
        Some(text) => text,
        None => narrow(name, bytes, &mut notes)?,
    };
    // A byte order mark, as editors under Windows write it.
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    let text = if text.contains('\u{1b}') { without_codes(&text) } else { text };
    let text = if text.contains('\r') { with_line_ends(&text) } else { text };
    let text = unwrapped(&text).unwrap_or(text);
    let text = outside::lines(&pasted::restored(&text)).into_owned();
    Ok(Decoded { text, notes })
}

fn unpacked(name: &str, bytes: &[u8], largest: u64) -> Result<Vec<u8>, Error> {
    let mut unpacked = Vec::new();
    let damaged = |error: std::io::Error| {
        Error::new(format!("{name} is damaged: it cannot be unpacked to its end"))
            .cause(error.to_string())
            .hint(format!("`gzip -dc {name} | rankmark import -` reads what can be unpacked"))
    };
    flate2::read::MultiGzDecoder::new(bytes).take(largest + 1).read_to_end(&mut unpacked).map_err(damaged)?;
    if unpacked.len() as u64 > largest {
        let what = format!("{name} unpacks to more than {} MiB", largest >> 20);
        return Err(Error::new(what).hint("split it by runs"));
    }
    Ok(unpacked)
}

/// UTF-16, with a byte order mark or without one.
fn wide(bytes: &[u8]) -> Option<String> {
    let is_little = match bytes {
        [0xff, 0xfe, ..] => true,
        [0xfe, 0xff, ..] => false,
        [first, 0, second, 0, ..] if *first > 0 && *second > 0 => true,
        [0, first, 0, second, ..] if *first > 0 && *second > 0 => false,
        _ => return None,
    };
    let unit = |pair: &[u8]| {
        let pair = [pair[0], pair.get(1).copied().unwrap_or(0)];
        if is_little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) }
    };
    let units: Vec<u16> = bytes.chunks(2).map(unit).collect();
    Some(String::from_utf16_lossy(&units))
}

/// UTF-8. A byte that is none is shown as a replacement character: host names and user names of logs have other encodings.
fn narrow(name: &str, bytes: Vec<u8>, notes: &mut Vec<String>) -> Result<String, Error> {
    let line_of = |at: usize, bytes: &[u8]| 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(Error::new(format!("{name} is not text: line {} has a zero byte", line_of(at, &bytes)))
            .hint("name a file that the other tool wrote as text, JSON, YAML or CSV"));
    }
    String::from_utf8(bytes).or_else(|error| {
        let line = line_of(error.utf8_error().valid_up_to(), error.as_bytes());
        let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
        let odd = text.chars().filter(|letter| *letter == char::REPLACEMENT_CHARACTER).count();
        if odd > 16 + text.len() / 50 {
            return Err(Error::new(format!("{name} is not text: line {line} and others are not UTF-8"))
                .hint("name a file that the other tool wrote as text, JSON, YAML or CSV"));
        }
        let bytes = if odd == 1 { "1 byte is".to_owned() } else { format!("{odd} bytes are") };
        notes.push(format!("{bytes} not UTF-8 and shown as `\u{fffd}`, the first in line {line}"));
        Ok(text)
    })
}

/// Without escape sequences: colours (`ESC [ ... m`), titles (`ESC ] ... BEL`) and the like.
fn without_codes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, code)) = rest.split_once('\u{1b}') {
        kept.push_str(before);
        let is_end: fn(char) -> bool = match code.as_bytes().first() {
            Some(b'[') => |letter| matches!(letter, '@'..='~'),
            // BEL ends it, or the escape of `ESC \`.
            Some(b']') => |letter| matches!(letter, '\u{7}' | '\u{1b}' | '\n'),
            _ => |_| true,
        };
        // `ESC (` and `ESC )` choose letters by one more byte.
        let from = usize::from(code.starts_with(['[', ']', '(', ')']));
        // A sequence without an end is text. Lines may be cut within one, and no code goes on in the next line.
        let of_line = code[from..].char_indices().take(4096).take_while(|(_, letter)| *letter != '\n' || is_end('\n'));
        let end = of_line.into_iter().find(|(_, letter)| is_end(*letter));
        rest = end.map_or(code, |(at, letter)| {
            let after = from + at + if matches!(letter, '\n' | '\u{1b}') { 0 } else { letter.len_utf8() };
            &code[after..]
        });
    }
    kept.push_str(rest);
    kept
}

/// A carriage return without a line feed ends a line, too: progress bars and old logs write it.
fn with_line_ends(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\r' {
            kept.push(letter);
        } else if !matches!(letters.peek(), Some('\r' | '\n')) {
            kept.push('\n');
        }
    }
    kept
}

/// The text of lines as Docker's json-file driver keeps them: `{"log":"# nThread 1\n","stream":"stdout"}`.
fn unwrapped(text: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Wrapped<'l> {
        #[serde(borrow)]
        log: Cow<'l, str>,
    }
    if !text.trim_start().starts_with("{\"log\":\"") {
        return None;
    }
    let mut kept = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        kept.push_str(serde_json::from_str::<Wrapped<'_>>(line).ok()?.log.trim_end_matches(['\r', '\n']));
        kept.push('\n');
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<(String, Vec<String>), String> {
        let decoded = decode("x.log", bytes.to_vec(), 1000).map_err(|error| error.to_string())?;
        Ok((decoded.text, decoded.notes))
    }

    fn text(bytes: &[u8]) -> String {
        let (text, notes) = read(bytes).unwrap();
        assert_eq!(notes, [""; 0]);
        text
    }

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut packed, text).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn encodings_are_recognised() {
        let wide = |mark: &[u8], of: fn(u16) -> [u8; 2]| -> Vec<u8> {
            mark.iter().copied().chain("a é\r\nb".encode_utf16().flat_map(of)).collect()
        };
        assert_eq!(text(&wide(b"\xff\xfe", u16::to_le_bytes)), "a é\nb");
        assert_eq!(text(&wide(b"\xfe\xff", u16::to_be_bytes)), "a é\nb");
        assert_eq!(text(&wide(b"", u16::to_le_bytes)), "a é\nb");
        assert_eq!(text(b"\xef\xbb\xbfa\r\nb"), "a\nb");
        assert_eq!(text(b"1\r2\r\n3\r\r\n4"), "1\n2\n3\n4");
        assert_eq!(text(b"\x1b[32m# x\x1b[0m\x1b]0;title\x07 y\x1b(B"), "# x y");
        assert_eq!(text(b"\x1b]3008;start=1\x1b\\# x \x1b]8;;http://a\x1b\\b\x1b]8;;\x1b\\\n1\n"), "# x b\n1\n");
        assert_eq!(text(b"\x1b]0;cut\n# x\x1b\x1b[0m\n"), "\n# x\n");
        assert_eq!(text(b"\x1b[0"), "[0");
        assert_eq!(text(b"0.41%\x1b[3\n[titan] a\n"), "0.41%[3\n[titan] a\n");
        assert_eq!(text(b"a\tb\x07\n\x1f"), "a b\u{FDD7}\n\u{FDEF}");
        assert_eq!(text(b"{\"log\":\"# a\\r\\n\",\"stream\":\"stdout\"}\n{\"log\":\"b\"}\n"), "# a\nb\n");
        assert_eq!(text(b"{\"log\":\"# a\"}\nno\n"), "{\"log\":\"# a\"}\nno\n");
        assert_eq!(text(&packed(b"a\nb")), "a\nb");
    }

    #[test]
    fn an_odd_byte_is_reported_and_the_rest_is_read() {
        let (text, notes) = read(b"a\nJos\xe9\n").unwrap();
        assert_eq!(text, "a\nJos\u{fffd}\n");
        assert_eq!(notes, ["1 byte is not UTF-8 and shown as `\u{fffd}`, the first in line 2"]);
    }

    #[test]
    fn what_is_not_text_is_refused_with_the_reason() {
        let packed_twice = packed(&[b'a'; 5000]);
        let mut cut = packed(b"a line that is long enough to be cut");
        cut.truncate(cut.len() - 6);
        for (bytes, why) in [
            (b"a\nb\0\n".as_slice(), "x.log is not text: line 2 has a zero byte"),
            (&[0xff; 100], "line 1 and others are not UTF-8"),
            (b"\x28\xb5\x2f\xfd", "`zstd -dc x.log | rankmark import -`"),
            (&packed_twice, "x.log unpacks to more than 0 MiB"),
            (&cut, "x.log is damaged: it cannot be unpacked to its end"),
        ] {
            let refusal = read(bytes).unwrap_err();
            assert!(refusal.contains(why), "{refusal}");
        }
    }
}
