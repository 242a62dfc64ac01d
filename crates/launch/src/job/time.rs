//! Limits of time as Slurm writes them.

/// Seconds of `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours`, `days-hours:minutes` and
/// `days-hours:minutes:seconds` (sbatch(1), `--time`); None where it is none of these, or no time at all.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(parse_digits(days)?), rest),
        None => (None, text),
    };
    let parts = rest.split(':').map(parse_digits).collect::<Option<Vec<u64>>>()?;
    let (hours, minutes, seconds) = match (days, parts.as_slice()) {
        (None, [minutes]) => (0, *minutes, 0),
        (None, [minutes, seconds]) => (0, *minutes, *seconds),
        (Some(_), [hours]) => (*hours, 0, 0),
        (Some(_), [hours, minutes]) => (*hours, *minutes, 0),
        (_, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        _ => return None,
    };
    let total = days.unwrap_or(0) * 86_400 + hours * 3_600 + minutes * 60 + seconds;
    (total > 0).then_some(total)
}

/// Short enough that no sum of them overflows.
fn parse_digits(text: &str) -> Option<u64> {
    let fits = !text.is_empty() && text.len() <= 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_slurm() {
        for (text, expected) in [
            ("30", 1800),
            ("1:30", 90),
            ("2:00:05", 7205),
            ("1-0", 86_400),
            ("1-2:03", 86_400 + 7_380),
            ("1-02:03:04", 86_400 + 7_384),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in ["", "0", "-1", "1-", "1h", "1:2:3:4", "1-2-3", "1.5", "999999999", " 1"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
