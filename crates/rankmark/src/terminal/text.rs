//! Text in lines of a width.

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

/// Parts in lines of at most `width` characters, three spaces between two of a line; one that is wider alone is broken at its
/// spaces, and a word only by the terminal, which has no better place.
pub(super) fn parts(parts: &[String], width: usize) -> String {
    const BETWEEN: usize = 3;
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.chars().count() + BETWEEN + part.chars().count() <= width => {
                line.push_str(&format!("{:BETWEEN$}{part}", ""));
            }
            _ => lines.push(wrap(part, width)),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_parts() {
        let all = |width| parts(&["rankmark 0.1.0", "plan x, 3 cases", "record results/now"].map(str::to_owned), width);
        assert_eq!(all(80), "rankmark 0.1.0   plan x, 3 cases   record results/now");
        assert_eq!(all(40), "rankmark 0.1.0   plan x, 3 cases\nrecord results/now");
        assert_eq!(all(16), "rankmark 0.1.0\nplan x, 3 cases\nrecord\nresults/now");
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
