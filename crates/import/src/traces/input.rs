//! A file of a trace: plain or gzip, opened as often as a reader needs it.

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use terms::Error;

/// Bytes at the beginning that are enough to recognise a format.
const HEAD: u64 = 64 << 10;

/// Unpacked bytes that are read at most.
const LARGEST: u64 = 64 << 30;

/// Unpacked bytes that any gzip file may have.
const SMALL: u64 = 256 << 20;

/// How many times its size a larger gzip file may unpack to. Traces unpack to 10 to 40 times. Deflate allows a thousand, so a
/// small file could keep a reader busy for hours.
const MOST_RATIO: u64 = 200;

/// A file that may be a trace.
pub(super) struct Input {
    path: PathBuf,
    head: Vec<u8>,
    gzip: bool,
}

impl Input {
    /// Looks at the beginning of a file.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let mut magic = Vec::new();
        plain(path)?.take(2).read_to_end(&mut magic).map_err(|error| unread(path, &error))?;
        let mut input = Self { path: path.to_owned(), head: Vec::new(), gzip: magic == [0x1f, 0x8b] };
        // A gzip stream that is cut or damaged gives what it has; the reader of the format says where it stops.
        let mut head = Vec::new();
        let read = input.reader()?.take(HEAD).read_to_end(&mut head);
        if let (Err(error), true) = (read, head.is_empty()) {
            return Err(unread(path, &error));
        }
        input.head = head;
        Ok(input)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Name of the input, for messages.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Whether it is packed.
    #[cfg(feature = "nsys")]
    pub(super) fn is_gzip(&self) -> bool {
        self.gzip
    }

    /// The first unpacked bytes.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Whether its first unpacked bytes hold a word.
    pub(super) fn head_holds(&self, word: &str) -> bool {
        self.head.windows(word.len()).any(|window| window == word.as_bytes())
    }

    /// The first byte that is not white space.
    pub(super) fn first(&self) -> Option<u8> {
        let text = self.head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.head);
        text.iter().copied().find(|byte| !byte.is_ascii_whitespace())
    }

    /// Reads the unpacked bytes from the beginning. The end of a gzip file is reached only if its length and checksum are right.
    pub(super) fn reader(&self) -> Result<Box<dyn Read>, Error> {
        let file = plain(&self.path)?;
        if !self.gzip {
            return Ok(Box::new(Bounded { input: file, left: LARGEST, most: LARGEST }));
        }
        let packed = file.metadata().map_err(|error| unread(&self.path, &error))?.len();
        let most = most_unpacked(packed);
        Ok(Box::new(Bounded { input: MultiGzDecoder::new(file), left: most, most }))
    }

    /// All its unpacked bytes, if they are not too many.
    pub(super) fn bytes(&self, most: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.reader()?.take(most + 1).read_to_end(&mut bytes).map_err(|error| unread(&self.path, &error))?;
        if bytes.len() as u64 > most {
            return Err(Error::new(format!("{} is larger than {} MiB", self.name(), most >> 20))
                .cause("this format is read as a whole"));
        }
        Ok(bytes)
    }

    /// The error for a file that fails before its end: what was read of it cannot be trusted.
    pub(super) fn failed(&self, cause: impl std::fmt::Display) -> Error {
        let error = Error::new(format!("{} cannot be read to its end", self.name())).cause(cause.to_string());
        if self.gzip { error.hint("copy the file again; `gzip --test` checks it") } else { error }
    }
}

fn most_unpacked(packed: u64) -> u64 {
    packed.saturating_mul(MOST_RATIO).clamp(SMALL, LARGEST)
}

/// A reader that fails where more comes than is read at most.
struct Bounded<R> {
    input: R,
    left: u64,
    most: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            let why = format!("it has more than {} MiB, which no trace of its size has", self.most >> 20);
            io::Error::new(ErrorKind::FileTooLarge, why)
        })?;
        Ok(read)
    }
}

fn plain(path: &Path) -> Result<std::fs::File, Error> {
    record::file::open_named(path).map_err(|error| unread(path, &error))
}

/// Why a file cannot be read.
pub(super) fn unread(path: &Path, error: &io::Error) -> Error {
    Error::new(format!("cannot read {}", path.display())).cause(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use trace::timeline::Span;

    use super::*;
    use crate::traces::read_timeline;

    /// A step, and so many more.
    fn trace(events: u32) -> Vec<u8> {
        let event = |at: u32| {
            format!(
                r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{at}","pid":1,"tid":1,"ts":{}.5,"dur":9}}"#,
                at * 10
            )
        };
        let events: Vec<String> = (0..events).map(event).collect();
        format!(r#"{{"schemaVersion":1,"traceEvents":[{}]}}"#, events.join(",")).into_bytes()
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    /// What is read of a file: its spans, and its notes.
    fn read(bytes: &[u8]) -> Result<(Vec<Span>, Vec<String>), Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rank0.json.gz");
        std::fs::write(&path, bytes).unwrap();
        let mut timeline = read_timeline(&[path])?.timeline.unwrap();
        Ok((timeline.ranks.remove(0).spans, timeline.notes))
    }

    /// Whether a note says that the file has no right end.
    fn says_it_is_cut(notes: &[String]) -> bool {
        notes.iter().any(|note| note.ends_with("what stands before is used"))
    }

    #[test]
    fn the_checksum_and_the_length_of_gzip_are_used() {
        let whole = packed(&trace(400));
        let (spans, notes) = read(&whole).unwrap();
        assert!(spans.len() == 400 && !says_it_is_cut(&notes), "{notes:?}");
        // The last eight bytes are the checksum and the length.
        for at in [whole.len() - 1, whole.len() - 5] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            let error = read(&damaged).unwrap_err();
            assert!(error.what.ends_with("rank0.json.gz cannot be read to its end"), "{error}");
            assert!(error.cause.as_ref().unwrap().contains("checksum"), "{error}");
        }
    }

    #[test]
    fn no_flipped_bit_is_read_in_silence() {
        let whole = packed(&trace(60));
        let (spans, _) = read(&whole).unwrap();
        // The first ten bytes are a head, and most of it says nothing about the data.
        for at in 10..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            let is_told = match read(&damaged) {
                // A bit that fills up the last byte changes nothing.
                Ok((read, notes)) => says_it_is_cut(&notes) || read == spans,
                Err(_) => true,
            };
            assert!(is_told, "byte {at}");
        }
    }

    #[test]
    fn a_cut_file_says_so_wherever_it_is_cut() {
        let whole = packed(&trace(60));
        for end in 11..whole.len() {
            let is_told = match read(&whole[..end]) {
                Ok((_, notes)) => says_it_is_cut(&notes),
                Err(_) => true,
            };
            assert!(is_told, "{end} of {} bytes", whole.len());
        }
        // Nothing but the checksum is missing, and all steps are there.
        assert_eq!(read(&whole[..whole.len() - 8]).unwrap().0.len(), 60);
    }

    #[test]
    fn a_small_file_does_not_unpack_without_end() {
        assert_eq!((most_unpacked(1), most_unpacked(10 << 20), most_unpacked(u64::MAX)), (SMALL, 2000 << 20, LARGEST));
        let mut reader = Bounded { input: io::repeat(b' '), left: 1 << 16, most: 1 << 16 };
        let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    }
}
