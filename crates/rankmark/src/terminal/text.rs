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

#[cfg(test)]
mod tests {
    use super::*;

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
