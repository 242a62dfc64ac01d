//! Words and comments of a POSIX shell.

use super::description::{Job, RankStart};

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
    let plan = quoted(&job.plan);
    let part = format!(
        "# Processes join by MPI once: a step of cases that need several such worlds starts its ranks as often, and its last start\n\
         # has the code of all.\n\
         part() {{\n    \"$@\" --resume=\"$record\" {plan} || :\n}}\n"
    );
    let part = if job.steps.iter().any(|step| step.starts > 1) { part } else { String::new() };
    format!(
        "code=0\n\
         trap 'exit 130' INT\n\
         trap 'exit 143' TERM\n\
         # Steps share one record: the first begins it. The script ends with the highest code.\n\
         step() {{\n    \
             ended=0\n    \
             \"$@\" --resume=\"$record\" {plan} || ended=$?\n    \
             [ \"$ended\" -le \"$code\" ] || code=$ended\n\
         }}\n{part}"
    )
}

/// `step [LAUNCHER ...] PROGRAM run --only-ranks=N`, once for each start; `start` gives what stands before the program, of `step`
/// or `part`.
pub(super) fn step(job: &Job, step: &RankStart, start: impl Fn(&str) -> String) -> String {
    let line = |word: &str| format!("{}{} run --only-ranks={}\n", start(word), quoted(&job.program), step.ranks);
    let parts: String = (1..step.starts).map(|_| line("part")).collect();
    parts + &line("step")
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
