//! Words and comments of a POSIX shell.

use super::Job;

/// One word for the shell, whatever it holds.
pub(super) fn quoted(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/:=@+,".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A line of comment for each line: nothing in it can end one.
pub(super) fn comments(lines: &[String]) -> String {
    lines.iter().map(|line| format!("# {}\n", on_one_line(line))).collect()
}

/// `PROGRAM run PLAN [--output-dir=RECORD]`.
pub(super) fn run(job: &Job) -> String {
    let mut words = vec![quoted(&job.program), "run".to_owned(), quoted(&job.plan)];
    if let Some(record) = &job.record {
        // In one word: a name that begins with a hyphen is no option.
        words.push(quoted(&format!("--output-dir={record}")));
    }
    words.join(" ")
}

/// Control characters and separators of lines written out; the rest as it is.
fn on_one_line(text: &str) -> String {
    let separates = |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
    let one = |letter: char| if separates(letter) { letter.escape_default().to_string() } else { letter.to_string() };
    text.chars().map(one).collect()
}
