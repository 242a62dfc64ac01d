//! Lines that look like rows of a table but are not. Damaged rows are reported; lines of other programs are not.

/// How many words a line has, and how many of them are numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WordCount {
    pub(super) all: usize,
    pub(super) numbers: usize,
}

impl WordCount {
    /// Counts the words of a line.
    pub(super) fn count(text: &str) -> Self {
        let mut words = Self::default();
        for word in text.split_ascii_whitespace() {
            words.all += 1;
            words.numbers += usize::from(is_number(word));
        }
        words
    }

    /// Whether such a line is hardly anything but a row: four numbers, or nothing but numbers.
    pub(super) fn are_a_row(self) -> bool {
        self.numbers >= 4 || (self.numbers > 0 && self.numbers == self.all)
    }

    /// Whether such a line may be a row of so many columns, with a part that is damaged.
    pub(super) fn may_be(self, columns: usize) -> bool {
        self.are_a_row() || (self.numbers > 0 && 2 * self.numbers >= self.all && self.all <= columns + 1)
    }
}

/// Whether the first word is a number.
pub(super) fn begins_with_number(text: &str) -> bool {
    text.split_ascii_whitespace().next().is_some_and(is_number)
}

/// Whether a line that begins with a number is a person's: `1. Open MPI 4.1`, `2) after`, `16 nodes`. In a row, a
/// number or a word of the table stands behind the first number, or why there is none (`1024 time-out.; ...` of IMB).
pub(super) fn is_heading(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    let digits = words.next().map_or("", |first| first.strip_suffix(['.', ')']).unwrap_or(first));
    let is_small = (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_of_row =
        |word: &str| matches!(word, "Pass" | "Fail" | "N/A") || word.ends_with(';') || word.parse::<f64>().is_ok();
    let is_prose =
        |word: &str| word.starts_with(|first: char| first.is_alphabetic() || first == '`') && !is_of_row(word);
    is_small && words.next().is_some_and(is_prose)
}

/// What a launcher, a scheduler or the kernel says of a program that did not end by itself.
const ENDINGS: &[&str] = &[
    "time limit",
    "will now be aborted",
    "MPI_ABORT",
    "BAD TERMINATION",
    "exited on signal",
    "Exited with exit code",
    "exit code:",
    "CANCELLED",
    "Caught signal",
    "Segmentation fault",
    "Killed",
    "oom-kill",
    "out of memory",
    "Out Of Memory",
    "core dumped",
];

/// Whether a line says that a program was ended, or ended itself because of an error.
pub(super) fn is_ending(text: &str) -> bool {
    ENDINGS.iter().any(|words| text.contains(words))
}

/// Words that no table has, though Rust reads them as numbers, are none: `inf`, `NaN`.
pub(super) fn is_number(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '+' | '.'))
        && word.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_from_prose() {
        for (text, is_row) in [
            ("-1 34.84 0.00 0.00 0 36.18", true),
            ("X48576 262144 float sum -1 34.84 0.00", true),
            ("1048576", true),
            ("srun: job 1 queued and waiting for resources", false),
            ("node-a:195:195 [0] NCCL INFO Launch mode Parallel", false),
            ("", false),
        ] {
            assert_eq!(WordCount::count(text).are_a_row(), is_row, "{text}");
        }
        for (text, is_of_a_person) in [
            ("1. Open MPI 4.1", true),
            ("2) `NCCL_ALGO=Ring`", true),
            ("16 nodes:", true),
            ("1024 Pass", false),
            ("0     N/A   26.3", false),
            ("1024 2.81", false),
            ("1024 nan 66.92", false),
            ("1024 time-out.; Time limit (secs_per_sample * msg_sizes_list_len) is over", false),
            ("31.67 GB  8501054668x4", false),
            // A rank that a launcher put before the line.
            ("1: Error", false),
            ("2026-01-01 a", false),
            ("1048576", false),
            ("", false),
        ] {
            assert_eq!(is_heading(text), is_of_a_person, "{text}");
        }
        assert!(is_ending("srun: error: node-a: task 1: Exited with exit code 3") && !is_ending("# size count"));
        assert!(WordCount::count("1O24 2.81").may_be(2) && !WordCount::count("job 1 is queued").may_be(2));
    }
}
