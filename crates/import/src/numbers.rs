//! Numbers as other programs print them. Every reader parses them here, because a comma is what a program and a user's country
//! make of it: between thousands in one file, before decimals in the next.

use std::borrow::Cow;

/// Why a word is not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotANumber {
    /// The word holds something else.
    Other,
    /// The word has a comma, and not between groups of three digits.
    Comma,
}

impl NotANumber {
    /// What was found, for an error behind `expected WHAT`.
    pub(crate) fn found(self, word: &str) -> String {
        let word: String = word.chars().take(60).collect();
        match self {
            Self::Other => format!("found `{}`", word.escape_debug()),
            Self::Comma => format!(
                "found `{}`: a comma counts only between groups of three digits, and this one may stand before decimals",
                word.escape_debug()
            ),
        }
    }
}

/// What was found instead of a number, for an error behind `expected WHAT`.
pub(crate) fn found(word: &str) -> String {
    plain(word).err().unwrap_or(NotANumber::Other).found(word)
}

/// Reads a number of a program that writes thousands without commas: any comma is refused.
pub(crate) fn plain(word: &str) -> Result<f64, NotANumber> {
    match word.contains(',') {
        true => Err(NotANumber::Comma),
        false => read(word),
    }
}

/// Reads a number of a program that writes commas between thousands: `42,332`, `1,234.5`. A first group of zero is of a decimal
/// comma (`0,613`), and so is a group that has not three digits.
pub(crate) fn grouped(word: &str) -> Result<f64, NotANumber> {
    read(&without_groups(word)?)
}

/// Without the commas between thousands.
fn without_groups(word: &str) -> Result<Cow<'_, str>, NotANumber> {
    if !word.contains(',') {
        return Ok(Cow::Borrowed(word));
    }
    let (whole, decimals) = word.split_once('.').map_or((word, ""), |(whole, decimals)| (whole, decimals));
    let mut groups = whole.trim_start_matches(['+', '-']).split(',');
    let first = groups.next().unwrap_or_default();
    let is_group = |group: &str| group.len() == 3 && group.bytes().all(|byte| byte.is_ascii_digit());
    let is_first =
        (1..=3).contains(&first.len()) && !first.starts_with('0') && first.bytes().all(|b| b.is_ascii_digit());
    match is_first && groups.all(is_group) && !decimals.contains(',') {
        true => Ok(Cow::Owned(word.replace(',', ""))),
        false => Err(NotANumber::Comma),
    }
}

fn read(word: &str) -> Result<f64, NotANumber> {
    // Rust reads `inf` and `NaN` as numbers.
    let begins = word.trim_start_matches(['+', '-']).starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let number = word.parse::<f64>().ok().filter(|number| begins && number.is_finite());
    number.ok_or(NotANumber::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_is_of_thousands_only_between_groups_of_three() {
        for (word, expected) in [
            ("42,332", Ok(42_332.0)),
            ("1,234,567.5", Ok(1_234_567.5)),
            ("-1,024", Ok(-1024.0)),
            ("13035.3", Ok(13035.3)),
            ("6.9E-07", Ok(6.9e-7)),
            ("13035,3", Err(NotANumber::Comma)),
            ("0,613", Err(NotANumber::Comma)),
            ("6,976744E-07", Err(NotANumber::Comma)),
            ("1,23", Err(NotANumber::Comma)),
            ("1234,567", Err(NotANumber::Comma)),
            ("1,234,56", Err(NotANumber::Comma)),
            ("1.234,567", Err(NotANumber::Comma)),
            ("nan", Err(NotANumber::Other)),
            ("inf", Err(NotANumber::Other)),
            ("", Err(NotANumber::Other)),
            ("1x", Err(NotANumber::Other)),
        ] {
            assert_eq!(grouped(word), expected, "{word}");
        }
        assert_eq!((plain("12.5"), plain("12,500")), (Ok(12.5), Err(NotANumber::Comma)));
    }
}
