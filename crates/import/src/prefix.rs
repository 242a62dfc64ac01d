//! What programs put before each line that another program writes: launchers (`[1,0]<stdout>:`, `3: `, `node-a: `), container
//! engines (`2026-02-16T10:00:00.1Z stdout F `), CI services, loggers.
//!
//! No list of them is kept. A tool's tables have heads that begin with known words; where such a head stands behind other
//! text, that text is a prefix. Lines that begin in the same way, but for numbers, days and months, have it, too.

/// How a head begins behind its `#`.
const HEADS: &[&str] = &[
    "nThread ",
    "nccl-tests version ",
    "rccl-tests version ",
    "Collective test starting:",
    "Using devices",
    "Rank ",
    "size ",
    "OSU ",
    "Size ",
    "Benchmarking ",
    "Intel",
    "repetitions",
    "bytes ",
];
/// Heads without a `#`.
const BARE_HEADS: &[&str] = &["The average bandwidth of ", "| payload "];
/// The longest prefix, in bytes.
const LONGEST: usize = 160;
/// Longer lines are not looked through for others: no rank writes them.
const LONGEST_LINE: usize = 1 << 16;
/// The most kinds of prefix of one file.
const MOST: usize = 64;

/// The prefixes of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prefixes {
    /// The longest first: one may be the end of another.
    shapes: Vec<PrefixShape>,
}

/// A prefix without its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PrefixShape {
    parts: Vec<PrefixPart>,
    /// Whether a space or nothing follows it.
    is_spaced: bool,
    /// A text of it by which its lines are found within others; empty where it has none.
    mark: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PrefixPart {
    Letter(char),
    Digits,
    Space,
    /// `Mon` to `Sun`.
    Day,
    /// `Jan` to `Dec`.
    Month,
}

const DAYS: &[&str] = &["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: &[&str] = &["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Prefixes {
    /// The prefixes of the lines of a text.
    pub(crate) fn find(text: &str) -> Self {
        let mut shapes: Vec<PrefixShape> = Vec::new();
        for (line, prefix) in text.lines().filter_map(|line| Some((line, before_head(line)?))) {
            // Most lines have a prefix that is known.
            if !shapes.iter().any(|shape| shape.length_in(line) == Some(prefix.len())) && shapes.len() < MOST {
                shapes.push(PrefixShape::parse(prefix, line[prefix.len()..].starts_with([' ', '\t'])));
                shapes.sort_by_key(|shape| std::cmp::Reverse(shape.parts.len()));
            }
        }
        Self { shapes }
    }

    /// A line without its prefix.
    pub(crate) fn strip<'l>(&self, line: &'l str) -> &'l str {
        self.length(line).map_or(line, |length| &line[length..])
    }

    fn length(&self, line: &str) -> Option<usize> {
        self.shapes.iter().find_map(|shape| shape.length_in(line))
    }

    /// The first part of a line and the rest, if a second prefix stands within it: two ranks wrote at once, or a line end was
    /// lost.
    pub(crate) fn split<'l>(&self, line: &'l str) -> (&'l str, Option<&'l str>) {
        if line.len() > LONGEST_LINE {
            return (line, None);
        }
        let own = self.length(line).unwrap_or(0);
        let within = self.shapes.iter().filter_map(|shape| shape.find(line, own)).min();
        match within {
            Some(at) => (&line[..at], Some(&line[at..])),
            None => (line, None),
        }
    }

    /// Whether lines may have to be split.
    pub(crate) fn may_be_glued(&self) -> bool {
        self.shapes.iter().any(|shape| !shape.mark.is_empty())
    }
}

/// What stands before the head of a table, if anything does.
fn before_head(line: &str) -> Option<&str> {
    let hash = || {
        let at = line.find('#')?;
        let behind = line[at..].trim_start_matches(['#', ' ']);
        HEADS.iter().any(|head| behind.starts_with(head)).then_some(at)
    };
    let bare = || BARE_HEADS.iter().find_map(|head| line.find(head));
    let prefix = line[..hash().or_else(bare)?].trim_end();
    (!prefix.trim().is_empty() && prefix.len() <= LONGEST).then_some(prefix)
}

impl PrefixShape {
    fn parse(prefix: &str, is_spaced: bool) -> Self {
        let mut parts = Vec::new();
        let mut rest = prefix;
        while let Some((part, length)) = part(rest) {
            parts.push(part);
            rest = &rest[length..];
        }
        let words = prefix.split(|letter: char| letter.is_ascii_digit() || letter.is_whitespace());
        // Only a text that no table has tells where a second line begins: `<stdout>:`.
        let mark = words.filter(|word| word.contains('<') && word.ends_with(">:")).max_by_key(|word| word.len());
        let mark = mark.map_or("", |word| &word[word.find('<').unwrap_or(0)..]);
        Self { mark: mark.to_owned(), parts, is_spaced }
    }

    /// How many bytes of this line are such a prefix.
    fn length_in(&self, line: &str) -> Option<usize> {
        let mut rest = line;
        for expected in &self.parts {
            let (found, length) = part(rest)?;
            if found != *expected {
                return None;
            }
            rest = &rest[length..];
        }
        let ends = !self.is_spaced || rest.is_empty() || rest.starts_with([' ', '\t']);
        ends.then_some(line.len() - rest.len())
    }

    /// Where such a prefix stands in a line behind its own.
    fn find(&self, line: &str, own: usize) -> Option<usize> {
        if self.mark.is_empty() {
            return None;
        }
        let mark = own + line[own..].find(&self.mark)?;
        let from = own.max(mark.saturating_sub(LONGEST));
        let starts = (from..=mark).filter(|at| line.is_char_boundary(*at));
        starts.into_iter().find(|at| self.length_in(&line[*at..]).is_some())
    }
}

/// The first part of a text, and its length in bytes.
fn part(text: &str) -> Option<(PrefixPart, usize)> {
    let first = text.chars().next()?;
    let run = |is: fn(char) -> bool| text.find(|letter| !is(letter)).unwrap_or(text.len());
    if first.is_ascii_digit() {
        return Some((PrefixPart::Digits, run(|letter| letter.is_ascii_digit())));
    }
    if matches!(first, ' ' | '\t') {
        return Some((PrefixPart::Space, run(|letter| matches!(letter, ' ' | '\t'))));
    }
    let name = text.get(..3).filter(|_| first.is_ascii_uppercase());
    let ends = || !text[3..].starts_with(|letter: char| letter.is_ascii_alphanumeric());
    match name.filter(|_| ends()) {
        Some(day) if DAYS.contains(&day) => Some((PrefixPart::Day, 3)),
        Some(month) if MONTHS.contains(&month) => Some((PrefixPart::Month, 3)),
        _ => Some((PrefixPart::Letter(first), first.len_utf8())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_those_before_heads() {
        for prefix in [
            "[1,0]<stdout>:",
            "[prterun-h-1@1,0]<stdout>: ",
            "Thu May  7 10:39:20 2020[1,1]<stdout>:",
            "[default0]:",
            "12: ",
            "node-a: ",
            "10.0.0.1: ",
            "[node-a:0]:",
            "worker-1  | ",
            "2026-02-16T10:00:00.123456789Z stdout F ",
            "[pod/x-launcher-abc12/nccl] ",
            "(Worker pid=1234, ip=10.0.0.1) ",
            "Feb 16 10:00:00 node-a run[123]: ",
            "> ",
        ] {
            for head in ["# nThread 1", "#       size         count", "       #bytes #repetitions", "| payload | x |"] {
                let other = prefix.replace("10:39:20", "23:59:59").replace("Thu", "Fri").replace("pid=1234", "pid=7");
                let text = format!("{prefix}{head}\n{other}     1024 256\nother: 1 2\n");
                let prefixes = Prefixes::find(&text);
                let bare: Vec<&str> = text.lines().map(|line| prefixes.strip(line).trim()).collect();
                assert_eq!(bare, [head.trim(), "1024 256", "other: 1 2"], "{prefix}");
            }
        }
    }

    #[test]
    fn text_without_heads_behind_it_is_no_prefix() {
        let prefixes = Prefixes::find("# nThread 1\n  #  Rank  0\niterations: 20\nnode-a: x # 1\n# size: 3\n[0] 1 2\n");
        assert!(prefixes.shapes.is_empty(), "{prefixes:?}");
        let prefixes = Prefixes::find("node-a: # nThread 1\n");
        for other in ["Rank: 1024 2", "node-b: 1024 2", "node-a:195:195 [0] NCCL INFO x", "{\"a\": 1}"] {
            assert_eq!(prefixes.strip(other), other);
        }
    }

    #[test]
    fn glued_lines_are_split() {
        let prefixes = Prefixes::find("Thu May 31 05:19:58 2018[1,0]<stdout>:# Benchmarking Bcast\n");
        assert!(prefixes.may_be_glued());
        let line = "Thu May 31 05:20:00 2018[1,0]<stdout>:  1  2.80Thu May 31 05:20:00 2018[1,0]<stdout>:  2  3.17";
        let (first, rest) = prefixes.split(line);
        assert_eq!(prefixes.strip(first), "  1  2.80");
        assert_eq!(prefixes.split(rest.unwrap()), ("Thu May 31 05:20:00 2018[1,0]<stdout>:  2  3.17", None));
        assert!(!Prefixes::find("3: # nThread 1\n").may_be_glued());
    }
}
