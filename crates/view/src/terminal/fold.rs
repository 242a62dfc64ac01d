//! Text in lines of a width.

use super::width as wide;

/// Breaks a paragraph into lines of at most `width` columns, at spaces.
pub fn wrap(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let fits = lines.last().is_none_or(|line| line.is_empty() || wide(line) + 1 + wide(word) <= width);
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
pub fn hanging(label: &str, text: &str, width: usize) -> String {
    let indent = wide(label);
    let lines = wrap(text, width.saturating_sub(indent).max(20)).replace('\n', &format!("\n{:indent$}", ""));
    format!("{label}{lines}")
}

/// A command after a label, in lines of at most `width` columns that a shell joins again: broken between its words, and
/// an option kept with its value where both fit.
pub fn command(label: &str, words: &[String], width: usize) -> String {
    let indent = wide(label);
    let mut units: Vec<String> = Vec::new();
    for word in words {
        match units.last_mut() {
            // A flag takes its value along.
            Some(unit) if unit.starts_with('-') && !unit.contains([' ', '=']) && !word.starts_with('-') => {
                *unit = format!("{unit} {word}");
            }
            _ => units.push(word.clone()),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for unit in units {
        match lines.last_mut() {
            // ` \` may follow.
            Some(line) if indent + wide(line.as_str()) + 1 + wide(&unit) + 2 <= width => {
                line.push(' ');
                line.push_str(&unit);
            }
            _ => lines.push(unit),
        }
    }
    format!("{label}{}", lines.join(&format!(" \\\n{:indent$}", "")))
}

/// Parts in lines of at most `width` columns, three spaces between two of a line; one that is wider alone is broken at
/// its spaces, and a word only by the terminal, which has no better place.
pub fn parts(parts: &[String], width: usize) -> String {
    const BETWEEN: usize = 3;
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if wide(line.as_str()) + BETWEEN + wide(part) <= width => {
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
    fn a_command_in_several_lines_is_one_for_a_shell() {
        let words = ["rankmark", "comm", "all_reduce", "--in-place", "true,false", "--quick", "--note", "'a  b'"];
        let words = words.map(str::to_owned);
        assert_eq!(command("next  ", &words, 200), format!("next  {}", words.join(" ")));
        let folded = command("next  ", &words, 40);
        let lines: Vec<&str> = folded.lines().collect();
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= 40), "{folded}");
        assert!(lines.contains(&"      --in-place true,false --quick \\"), "{folded}");
        let typed = format!("printf '%s|' {}", folded.trim_start_matches("next  "));
        let shell = std::process::Command::new("sh").args(["-c", &typed]).output().unwrap();
        let read = String::from_utf8(shell.stdout).unwrap();
        assert_eq!(read, "rankmark|comm|all_reduce|--in-place|true,false|--quick|--note|a  b|");
    }

    #[test]
    fn wide_letters_take_two_columns() {
        assert_eq!(wrap("学習 学習", 7), "学習\n学習");
        let hung = hanging("学 ", "many words that are to be broken", 26);
        assert_eq!(hung, "学 many words that are to\n   be broken");
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
