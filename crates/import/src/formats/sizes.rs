//! The column of sizes of one table. Programs print one header and each size once, unless the user lists them the smallest
//! first, each twice the one before. So the column shows whether several programs wrote into the table, and where a size has
//! lost its first digits.

use std::collections::BTreeMap;

use terms::Error;

use crate::Source;

/// The sizes of one table.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    /// Whether the user lists the sizes, in any order.
    are_listed: bool,
    /// How many times each was printed.
    times: BTreeMap<u64, usize>,
    last: Option<u64>,
    /// Whether the header was there.
    has_header: bool,
    /// Where it was there again, before the first row.
    second_header: Option<usize>,
    /// The first that was there before.
    repeated: Option<(usize, u64)>,
    /// The first that is smaller than the one above it, and that one.
    back: Option<(usize, u64, u64)>,
    /// Sizes that were there before, and may be what is left of a larger one.
    doubtful: usize,
}

impl Sizes {
    /// No sizes yet. If the user lists them, any order is right.
    pub(super) fn new(are_listed: bool) -> Self {
        Self { are_listed, ..Self::default() }
    }

    /// Adds the header of the table.
    pub(super) fn header(&mut self, line: usize) {
        if std::mem::replace(&mut self.has_header, true) && self.times.is_empty() {
            self.second_header.get_or_insert(line);
        }
    }

    /// Adds the size of a row.
    ///
    /// # Errors
    /// When it may be what is left of the size that comes next.
    pub(super) fn add(&mut self, line: usize, word: &str) -> Result<(), String> {
        let Ok(size) = word.parse::<u64>() else { return Ok(()) };
        let is_known = self.times.contains_key(&size);
        let next = self.last.and_then(|last| last.checked_mul(2)).map_or(String::new(), |next| next.to_string());
        if !self.are_listed && next.len() > word.len() && next.ends_with(word) {
            self.doubtful += usize::from(is_known);
            // Several sizes that were there before are not all damaged.
            if let Some(last) = self.last.filter(|_| self.doubtful > 1) {
                self.back.get_or_insert((line, last, size));
            }
            return Err(format!("`{word}` may be what is left of {next}, the size that comes next"));
        }
        *self.times.entry(size).or_default() += 1;
        if is_known {
            self.repeated.get_or_insert((line, size));
        } else if let Some(last) = self.last.filter(|last| size < *last && !self.are_listed) {
            self.back.get_or_insert((line, last, size));
        }
        self.last = Some(size);
        Ok(())
    }

    /// Where and how the column shows that several programs wrote at once, of so many ranks each.
    pub(super) fn mixed(&self, ranks: Option<u32>) -> Option<Mixed> {
        let ranks = ranks.map_or(String::new(), |ranks| format!(" of {ranks} ranks"));
        if let Some((line, size)) = self.repeated {
            let most = self.times.values().copied().max().unwrap_or(2);
            let how = if most == 2 { "twice".to_owned() } else { format!("{most} times") };
            // Tables without sizes have one row.
            let size =
                self.times.iter().find(|(size, times)| **size > 0 && **times > 1).map_or(size, |(size, _)| *size);
            let size = if size == 0 { "a row".to_owned() } else { format!("{size} bytes") };
            let what = format!(
                "{most} separate programs{ranks} wrote here at once: the table has {size} {how}, and their lines are mixed"
            );
            return Some(Mixed { line, what });
        }
        let (line, how) = match (self.back, self.second_header) {
            (Some((line, from, to)), _) => (line, format!("the sizes go back from {from} to {to}")),
            (None, Some(line)) => (line, "the table has its header twice".to_owned()),
            (None, None) => return None,
        };
        let what = format!("separate programs{ranks} wrote here at once: {how}, and their lines are mixed");
        Some(Mixed { line, what })
    }
}

/// A table into which several programs wrote at once.
#[derive(Debug)]
pub(super) struct Mixed {
    /// The line that shows it.
    pub(super) line: usize,
    pub(super) what: String,
}

impl Mixed {
    /// The refusal of a file that holds nothing else.
    pub(super) fn refusal(&self, source: &Source) -> Error {
        source.error(self.line, &self.what).hint("run them one after the other, or let each write a file of its own")
    }
}
