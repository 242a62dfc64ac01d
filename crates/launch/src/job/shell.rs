//! Words and comments of a POSIX shell.

use super::description::Job;

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
        // In one word: a name that begins with a hyphen is not an option.
        words.push(quoted(&format!("--output-dir={record}")));
    }
    words.join(" ")
}

/// The beginning of a script with several steps, for which `record` is set. A shell that waits for a launcher would start the
/// next step after Ctrl-C, but for the traps.
pub(super) fn steps(job: &Job) -> String {
    format!(
        "code=0\n\
         trap 'exit 130' INT\n\
         trap 'exit 143' TERM\n\
         # Steps share one record: the first makes it. The script ends with the highest code.\n\
         step() {{\n    \
             if [ -e \"$record/run.json\" ]; then\n        \
                 set -- \"$@\" --resume=\"$record\"\n    \
             else\n        \
                 set -- \"$@\" --output-dir=\"$record\" {}\n    \
             fi\n    \
             ended=0\n    \
             \"$@\" || ended=$?\n    \
             [ \"$ended\" -le \"$code\" ] || code=$ended\n\
         }}\n",
        quoted(&job.plan)
    )
}

/// `step [LAUNCHER ...] PROGRAM run --only-ranks=N`; `start` is what stands before the program.
pub(super) fn step(job: &Job, ranks: u32, start: &str) -> String {
    format!("{start}{} run --only-ranks={ranks}\n", quoted(&job.program))
}

/// Where the record goes; below the folder where the script is started, with the time in its name.
pub(super) fn record(job: &Job) -> String {
    let of_now = || format!("results/\"$(date -u +%Y%m%dT%H%M%SZ)\"-{}", quoted(&job.experiment));
    job.record.as_deref().map_or_else(of_now, quoted)
}

/// Control characters and separators of lines written out; the rest as it is.
fn on_one_line(text: &str) -> String {
    let separates = |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
    let one = |letter: char| if separates(letter) { letter.escape_default().to_string() } else { letter.to_string() };
    text.chars().map(one).collect()
}
