//! A file of a trace: plain or gzip, opened as often as a reader needs it.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use terms::Error;

/// Bytes at the beginning that formats are told apart by.
const HEAD: u64 = 64 << 10;

/// Unpacked bytes that are read at most: a small gzip file can unpack to any size.
const LARGEST: u64 = 64 << 30;

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

    /// Its name, for messages.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Whether it is packed.
    #[cfg(feature = "nsys")]
    pub(super) fn is_gzip(&self) -> bool {
        self.gzip
    }

    /// Its first unpacked bytes.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Whether its first unpacked bytes hold a word.
    pub(super) fn head_holds(&self, word: &str) -> bool {
        self.head.windows(word.len()).any(|window| window == word.as_bytes())
    }

    /// The first byte that is no white space.
    pub(super) fn first(&self) -> Option<u8> {
        let text = self.head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.head);
        text.iter().copied().find(|byte| !byte.is_ascii_whitespace())
    }

    /// Its unpacked bytes from the beginning.
    pub(super) fn reader(&self) -> Result<Box<dyn Read>, Error> {
        let file = plain(&self.path)?;
        let reader: Box<dyn Read> = if self.gzip { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        Ok(Box::new(reader.take(LARGEST)))
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
}

fn plain(path: &Path) -> Result<std::fs::File, Error> {
    record::file::open_named(path).map_err(|error| unread(path, &error))
}

/// Why a file cannot be read.
pub(super) fn unread(path: &Path, error: &std::io::Error) -> Error {
    Error::new(format!("cannot read {}", path.display())).cause(error.to_string())
}
