//! Numbers as text.

/// Three significant digits: `4.79e-4`, `0.0144`, `0.914`, `72.0`, `1,320`.
pub(crate) fn significant(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return "0".to_owned();
    }
    if magnitude >= 999.5 {
        return thousands(value.round());
    }
    if magnitude < 0.000_999_5 {
        return format!("{value:.2e}");
    }
    let decimals = match magnitude {
        m if m >= 99.95 => 0,
        m if m >= 9.995 => 1,
        m if m >= 0.9995 => 2,
        m if m >= 0.09995 => 3,
        m if m >= 0.009_995 => 4,
        _ => 5,
    };
    format!("{value:.decimals$}")
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

/// A share in percent: `2%`, `0.4%`.
pub(super) fn share(value: f64) -> String {
    let percent = 100.0 * value;
    if percent.abs() < 0.95 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

/// Breaks a paragraph into lines of at most `width` characters, at spaces.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let fits =
            lines.last().is_none_or(|line| line.is_empty() || line.chars().count() + 1 + word.chars().count() <= width);
        if !fits {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

/// A paragraph after a label, its further lines below its first word.
pub(super) fn hanging(label: &str, text: &str, width: usize) -> String {
    let indent = label.chars().count();
    let lines = wrap(text, width.saturating_sub(indent).max(20)).replace('\n', &format!("\n{:indent$}", ""));
    format!("{label}{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_no_more() {
        let written: Vec<String> =
            [0.0, 4.786e-5, 0.000_99, 0.004_8, 0.01234, 0.1234, 1.234, 12.34, 99.96, 123.4, 999.6, 1234567.0]
                .map(significant)
                .to_vec();
        assert_eq!(
            written,
            [
                "0",
                "4.79e-5",
                "9.90e-4",
                "0.00480",
                "0.0123",
                "0.123",
                "1.23",
                "12.3",
                "100",
                "123",
                "1,000",
                "1,234,567"
            ]
        );
        assert_eq!((share(0.004), share(0.0213), share(0.914)), ("0.4%".into(), "2%".into(), "91%".into()));
    }

    #[test]
    fn text_is_wrapped_at_spaces() {
        assert_eq!(wrap("one two three", 7), "one two\nthree");
        assert_eq!(wrap("unbreakable", 3), "unbreakable");
        assert_eq!(
            hanging("label ", "many words that are to be broken", 26),
            "label many words that are\n      to be broken"
        );
    }
}
