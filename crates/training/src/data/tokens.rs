//! A file of tokens: 16 or 32 bits each, little endian, nothing else in it (nanoGPT's `train.bin`); or the same behind a
//! NumPy header (`.npy`, one dimension).
//!
//! Sample i is the i-th stretch of `sequence` tokens, counted around; a next-token model sees one token more.

use memmap2::Mmap;

use super::{Depth, Samples};

/// At most this much of a file is looked through before a run. Every token is checked once more when it is read.
const LOOKED_THROUGH: usize = 256 << 20;
/// So many bytes tell text, or tokens of another width, from tokens.
const TELLING: usize = 4096;

/// See the module's documentation.
pub(super) struct TokenFile {
    map: Mmap,
    /// Where tokens begin.
    begin: usize,
    /// Bytes of a token.
    width: usize,
    vocabulary: usize,
    sequence: usize,
    next: bool,
    /// Samples.
    windows: u64,
}

impl TokenFile {
    /// # Errors
    /// When it is cut short, too short, or of another type.
    pub(super) fn new(map: Mmap, width: usize, vocabulary: usize, sequence: usize, next: bool) -> Result<Self, String> {
        let (begin, length) = match map.starts_with(NUMPY) {
            true => numpy(&map, width)?,
            false => (0, map.len()),
        };
        if !length.is_multiple_of(width) {
            let (whole, rest) = (length / width, length % width);
            return Err(format!(
                "{length} bytes are not a whole number of {width}-byte tokens: {whole} and {rest} bytes"
            ));
        }
        let count = length / width;
        let ahead = usize::from(next);
        let windows = (count.saturating_sub(ahead) / sequence) as u64;
        if windows == 0 {
            let needed = sequence + ahead;
            return Err(format!("it holds {count} tokens, but one sample takes {needed} ({sequence} + {ahead})"));
        }
        Ok(Self { map, begin, width, vocabulary, sequence, next, windows })
    }

    fn data(&self) -> &[u8] {
        &self.map[self.begin..]
    }

    fn token(&self, place: usize) -> u32 {
        let at = &self.data()[place * self.width..][..self.width];
        if self.width == 2 {
            u32::from(u16::from_le_bytes([at[0], at[1]]))
        } else {
            u32::from_le_bytes([at[0], at[1], at[2], at[3]])
        }
    }

    /// The tokens from a place on; refused where one of them is past the vocabulary.
    fn copy(&self, begin: usize, to: &mut [i32]) -> Result<(), String> {
        for (index, token) in to.iter_mut().enumerate() {
            *token = self.checked(begin + index)? as i32;
        }
        Ok(())
    }

    fn checked(&self, place: usize) -> Result<u32, String> {
        let token = self.token(place);
        if (token as usize) < self.vocabulary {
            return Ok(token);
        }
        Err(format!(
            "token {token} at place {place} is past the vocabulary of {} (0 to {})",
            self.vocabulary,
            self.vocabulary - 1
        ))
    }

    /// Looks through the file.
    ///
    /// # Errors
    /// When it holds something else than tokens of this vocabulary.
    pub(super) fn inspect(&self, depth: Depth) -> Result<(), String> {
        if depth == Depth::Header {
            return Ok(());
        }
        let head = &self.data()[..self.data().len().min(TELLING)];
        if self.begin == 0 && head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
            return Err("it is text, not tokens: encode it first".to_owned());
        }
        let pairs: Vec<u32> = (0..head.len() / self.width).map(|place| self.token(place)).collect();
        let mut halves = pairs.chunks_exact(2);
        let wider = halves.len() >= 8 && halves.clone().all(|pair| pair[1] == 0) && halves.any(|pair| pair[0] != 0);
        if self.width == 2 && wider {
            return Err("every second token is 0: these are 32-bit tokens (`data_kind: u32`)".to_owned());
        }
        let count = self.data().len().min(LOOKED_THROUGH) / self.width;
        (0..count).try_for_each(|place| self.checked(place).map(drop))
    }
}

impl Samples for TokenFile {
    fn tokens(&self, index: u64, tokens: &mut [i32], targets: &mut [i32]) -> Result<(), String> {
        let begin = (index % self.windows) as usize * self.sequence;
        let in_sample = |error: String| format!("sample {index}: {error}");
        self.copy(begin, tokens).map_err(in_sample)?;
        self.copy(begin + usize::from(self.next), targets).map_err(in_sample)
    }

    fn numbers(&self, _: u64, _: &mut [f32], _: &mut i32) -> Result<(), String> {
        Err("a file of tokens holds no images".to_owned())
    }
}

/// How a NumPy file begins (`numpy.lib.format`).
const NUMPY: &[u8] = b"\x93NUMPY";

/// Where the tokens of a NumPy file begin, and how many bytes they are.
fn numpy(map: &[u8], width: usize) -> Result<(usize, usize), String> {
    let short = || "its NumPy header is cut short".to_owned();
    let (length, begin) = match map.get(6) {
        Some(1) => (map.get(8..10).map(|at| usize::from(u16::from_le_bytes([at[0], at[1]]))), 10_usize),
        Some(2 | 3) => (map.get(8..12).map(|at| u32::from_le_bytes([at[0], at[1], at[2], at[3]]) as usize), 12),
        _ => return Err("its NumPy version is not 1, 2 or 3".to_owned()),
    };
    let length = length.ok_or_else(short)?;
    let header = begin.checked_add(length).and_then(|end| map.get(begin..end)).ok_or_else(short)?;
    let text: String = String::from_utf8_lossy(header).chars().filter(|c| !c.is_whitespace()).collect();
    let value = |key: &str| text.split_once(&format!("'{key}':")).map(|(_, rest)| rest);
    let wanted = format!("<u{width}");
    let dtype = value("descr").and_then(|rest| rest.split('\'').nth(1)).unwrap_or("nothing");
    if dtype != wanted {
        return Err(format!("it holds `{dtype}`, not `{wanted}` ({} bits, little endian)", 8 * width));
    }
    let shape = value("shape").and_then(|rest| rest.strip_prefix('(')?.split(')').next()).unwrap_or_default();
    let sizes: Vec<&str> = shape.split(',').filter(|size| !size.is_empty()).collect();
    let [count] = sizes.as_slice() else { return Err(format!("it has the shape ({shape}), not one dimension")) };
    let count: usize = count.parse().map_err(|_| format!("it has the shape ({shape})"))?;
    let bytes = map.len() - begin - length;
    match count.checked_mul(width) {
        Some(wanted) if wanted == bytes => Ok((begin + length, bytes)),
        _ => Err(format!("its header says {count} tokens of {width} bytes, but {bytes} bytes follow")),
    }
}
