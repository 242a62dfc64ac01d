//! What lines of training logs share: numbers behind keys that are read only whole, which rank wrote a line, and which
//! lines of a file no training program wrote.

use std::borrow::Cow;

use jiff::civil::DateTime;

use crate::numbers::NotANumber;

/// Why a line of a log is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TextFault {
    /// The line ends before its format ends: it is left out.
    Cut(String),
    /// What it holds cannot be right: the file is refused.
    Wrong(String),
}

/// A line that ends within a number, or before its last field.
pub(super) fn cut() -> TextFault {
    TextFault::Cut("the line is cut: it ends before the last field that its program prints".to_owned())
}

/// Reads a word as a number: `numbers::plain` or `numbers::grouped`.
pub(super) type ReadNumber = fn(&str) -> Result<f64, NotANumber>;

/// The number behind a key, and what follows it: `memory: 49.66GiB` as 49.66 and `GiB`. None where the line does not
/// have the key, or the value is not finite or `N/A`.
///
/// # Errors
/// When the number runs to the end of the line, so that it may be cut, or is not a number.
pub(super) fn number_and_rest<'t>(
    text: &'t str,
    key: &str,
    read: ReadNumber,
) -> Result<Option<(f64, &'t str)>, TextFault> {
    let Some((_, rest)) = text.split_once(key) else { return Ok(None) };
    let rest = rest.trim_start();
    let is_part = |letter: char| letter.is_ascii_digit() || "+-.,eE".contains(letter);
    let end = rest.find(|letter| !is_part(letter)).ok_or_else(cut)?;
    if ["nan", "inf", "-inf", "n/a"]
        .iter()
        .any(|word| rest.get(..word.len()).is_some_and(|s| s.eq_ignore_ascii_case(word)))
    {
        return Ok(None);
    }
    let word = rest[..end].trim_end_matches([',', '.']);
    let value = read(word).map_err(|why| {
        let key = key.trim().trim_end_matches(':');
        TextFault::Wrong(format!(
            "expected a number behind `{key}`, {}",
            why.found(if word.is_empty() { rest } else { word })
        ))
    })?;
    Ok(Some((value, &rest[word.len()..])))
}

/// The number behind a key, as [`number_and_rest`].
///
/// # Errors
/// As [`number_and_rest`].
pub(super) fn number_after(text: &str, key: &str, read: ReadNumber) -> Result<Option<f64>, TextFault> {
    Ok(number_and_rest(text, key, read)?.map(|(value, _)| value))
}

/// A whole number from 1 behind a key; None where it is another one.
///
/// # Errors
/// As [`number_and_rest`].
pub(super) fn whole(text: &str, key: &str) -> Result<Option<u64>, TextFault> {
    Ok(number_after(text, key, crate::numbers::plain)?.and_then(as_whole))
}

/// A number as a whole one from 1.
pub(super) fn as_whole(number: f64) -> Option<u64> {
    (number >= 1.0 && number.fract() == 0.0 && number < 9e15).then_some(number as u64)
}

/// A line without the codes that colour it.
pub(super) fn without_colours(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // `[31m`, and other codes of letters behind numbers.
        let code = part.strip_prefix('[').unwrap_or(part);
        let end = code.find(|letter: char| letter.is_ascii_alphabetic()).map_or(0, |end| end + 1);
        plain.push_str(&code[end..]);
    }
    Cow::Owned(plain)
}

/// Which rank wrote a line, by what stands before the program's own text: `[rank0]:`, `[default3]:`, `0: `, `node-a: `,
/// `[1,3]<stdout>:`, `[rank-7/8]`. Empty where nothing says it.
pub(super) fn writer(head: &str) -> String {
    let numbered = |word: &str| {
        let lower = head.to_ascii_lowercase();
        let rest = lower[lower.find(word)? + word.len()..].trim_start_matches(['-', '=', ' ', ':']).to_owned();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        (!digits.is_empty()).then_some(digits)
    };
    let first = head.split_ascii_whitespace().next().unwrap_or_default();
    let is_clock = first.bytes().filter(|byte| *byte == b':').count() > 1;
    let is_label = |word: &&str| !matches!(*word, "INFO" | "stdout" | "stderr" | "WARNING" | "DEBUG");
    let label = first.strip_suffix(':').filter(|_| !is_clock).filter(is_label);
    // torchrun counts the ranks of each node from 0.
    let rank = numbered("[rank").or_else(|| numbered("[default"));
    match (label, rank) {
        (Some(label), Some(rank)) if !first.starts_with("[rank") && !first.starts_with("[default") => {
            format!("{label}/{rank}")
        }
        (_, Some(rank)) => rank,
        (Some(label), None) => label.to_owned(),
        (None, None) => String::new(),
    }
}

/// The file that `grep` found a line in: `run1.log` of `run1.log:step: 1` and of `run1.log:12:step: 1`; and the line
/// itself.
pub(super) fn found_in(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once(':')?;
    let ending = name.rsplit_once('.')?.1;
    let is_file =
        !name.contains(char::is_whitespace) && matches!(ending, "log" | "out" | "txt" | "err" | "stdout" | "md");
    let number = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(0);
    let rest = rest[number..].strip_prefix(':').filter(|_| number > 0).unwrap_or(rest);
    is_file.then_some((name, rest))
}

/// Whether a line divides a file: a heading or a code block of Markdown, or `== a title ==`.
pub(super) fn is_mark(text: &str) -> bool {
    let heading = text.trim_start_matches('#');
    let is_heading = heading.len() < text.len() && heading.starts_with(' ');
    let is_bold = |around: &str| text.len() > 2 * around.len() && text.starts_with(around) && text.ends_with(around);
    let is_title = text.starts_with("==") && text.contains(char::is_alphanumeric);
    is_heading
        || text.starts_with("```")
        || text.starts_with("~~~")
        || is_title
        || (is_bold("**") && !text.starts_with("***"))
        || is_bold("__")
        || ["<h", "<details", "<summary", "</details"].iter().any(|tag| text.starts_with(tag))
}

/// Programs that start others on several ranks, or a training.
const LAUNCHERS: &[&str] = &[
    "torchrun",
    "mpirun",
    "mpiexec",
    "srun",
    "horovodrun",
    "deepspeed",
    "accelerate",
    "python",
    "python3",
    "bash",
    "sh",
    "env",
];

/// Whether a line is a command: it has a prompt, or begins with a launcher or a script and has options.
pub(super) fn is_command(text: &str) -> bool {
    if ["$ ", "+ ", "~> ", "# $ "].iter().any(|prompt| text.starts_with(prompt)) && !text.contains(" ...") {
        return true;
    }
    let is_setting = |word: &&str| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        })
    };
    let mut words = text.split_ascii_whitespace().skip_while(is_setting);
    let Some(first) = words.next() else { return is_setting(&text) };
    let name = first.rsplit('/').next().unwrap_or(first);
    let is_program = LAUNCHERS.contains(&name) || name.ends_with(".sh") || name.ends_with(".py");
    let has_options =
        || text.split_ascii_whitespace().any(|w| w.starts_with('-') || w.ends_with(".py") || w.ends_with(".sh"));
    matches!(name, "export" | "module") && words.next().is_some() || is_program && has_options()
}

/// Whether a line was written by a training program or a library and not by a person or a script: it has a time, a
/// level or a rank, or is one of the many forms of progress.
pub(super) fn is_chatter(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "INFO",
        "WARNING",
        "Warning",
        "DEBUG",
        "ERROR",
        "warn(",
        "...",
        "NCCL ",
        "checkpoint",
        "datetime:",
        "it/s",
        "s/it",
        "validation loss",
        "Traceback",
        "  File \"",
    ];
    const STARTS: &[&str] =
        &["[", "(", "{", "srun: ", "slurmstepd: ", "time (ms)", "wandb: ", "- ", "\"", "}", "]", ")"];
    let is_rule = || text.chars().all(|letter| matches!(letter, '-' | '=' | '*' | '_' | '#' | ' '));
    STARTS.iter().any(|start| text.starts_with(start))
        || WORDS.iter().any(|word| text.contains(word))
        || (text.starts_with("----") && text.ends_with("----"))
        || is_glog(text)
        || time(text).is_some()
        || is_rule()
}

/// Whether a line begins as those of PyTorch's launcher do: `W1125 19:44:46.787000 1122840
/// torch/distributed/run.py:803]`.
fn is_glog(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|level| b"IWEF".contains(level))
        && bytes.get(1..5).is_some_and(|date| date.iter().all(u8::is_ascii_digit))
        && bytes.get(5) == Some(&b' ')
}

/// The time at which a line was written: `[titan] 2026-01-16 02:43:35,918 - root - INFO`.
pub(super) fn time(text: &str) -> Option<DateTime> {
    let is_time = |at: usize| {
        let shape = b"9999-99-99 99:99:99";
        let bytes = text.as_bytes().get(at..at + shape.len())?;
        let fits =
            bytes.iter().zip(shape).all(|(byte, of)| if *of == b'9' { byte.is_ascii_digit() } else { byte == of });
        fits.then_some(at)
    };
    let at = (0..text.len().min(160)).find_map(is_time)?;
    let fraction = text[at + 19..].strip_prefix([',', '.']).unwrap_or_default();
    let milliseconds: String = fraction.chars().take(3).collect();
    let milliseconds = milliseconds.parse::<u16>().map_or("0".to_owned(), |ms| format!("{ms:03}"));
    format!("{}.{milliseconds}", &text[at..at + 19]).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::{grouped, plain};

    #[test]
    fn numbers_stand_behind_their_keys() {
        let line =
            "step: 100  loss:  2.3367  memory: 69.83GiB(88.19%)  tps: 42,332  mfu: 27.37%  lm loss: 1.2E-01 | x: nan |";
        let value = |key: &str, read: ReadNumber| number_after(line, key, read);
        assert_eq!(value("tps:", grouped), Ok(Some(42332.0)));
        assert_eq!([value("memory:", plain), value("mfu:", plain)], [Ok(Some(69.83)), Ok(Some(27.37))]);
        assert_eq!([value("lm loss:", plain), value("none:", plain)], [Ok(Some(0.12)), Ok(None)]);
        assert_eq!(
            (value("x:", plain), whole(line, "step:"), whole(line, "mfu:")),
            (Ok(None), Ok(Some(100)), Ok(None))
        );
        assert!(matches!(number_after("a: 1,5 |", "a:", plain), Err(TextFault::Wrong(why)) if why.contains("`1,5`")));
        assert_eq!((number_after("a: 1", "a:", plain), number_after("a: 1,", "a:", plain)), (Err(cut()), Err(cut())));
        assert_eq!(number_after("sequence length 2048, total", "sequence length", plain), Ok(Some(2048.0)));
    }

    #[test]
    fn colours_are_taken_off() {
        assert_eq!(without_colours("\u{1b}[31mstep: 1  \u{1b}[32mloss: 2\u{1b}[0m"), "step: 1  loss: 2");
        assert_eq!(without_colours("plain"), "plain");
        assert_eq!(without_colours("\u{1b}"), "");
    }

    #[test]
    fn prefixes_say_which_rank_wrote_a_line() {
        for (head, expected) in [
            ("[rank0]:[titan] 2025-10-30 14:32:58,897 - root - INFO - ", "0"),
            ("[default3]: iteration", "3"),
            ("1: [rank0]:[titan]", "1/0"),
            ("3: [titan]", "3"),
            ("node-a: [titan]", "node-a"),
            ("[20260504 06:56:28][rank-7/8][INFO ] [", "7"),
            ("[1,3]<stdout>: x", "[1,3]<stdout>"),
            ("[titan] 2025-06-20 19:13:39,663 - root - INFO - ", ""),
            (" [2024-09-03 15:54:54] ", ""),
            ("15:54:54: ", ""),
            ("", ""),
        ] {
            assert_eq!(writer(head), expected, "{head}");
        }
        assert_eq!(found_in("a/run1.log:12:[titan] x"), Some(("a/run1.log", "[titan] x")));
        assert_eq!(found_in("run1.log:step: 1"), Some(("run1.log", "step: 1")));
        assert_eq!(found_in("[rank0]:step"), None);
    }

    #[test]
    fn lines_of_people_and_scripts_are_told_from_those_of_programs() {
        for text in ["## after", "```", "**with compile**", "=== run 2 ===", "<h2>x</h2>"] {
            assert!(is_mark(text), "{text}");
        }
        for text in ["#comment", "====", "** x", "-- x --", "step: 1"] {
            assert!(!is_mark(text), "{text}");
        }
        for text in
            ["$ cat x", "+ srun -n 8 x", "torchrun --nproc-per-node 8 train.py", "NGPU=8 ./run_train.sh", "export A=b"]
        {
            assert!(is_command(text), "{text}");
        }
        for text in ["torchrun starts the ranks", "srun: job 1 queued", "> building train ...", "step: 1 -x"] {
            assert!(!is_command(text), "{text}");
        }
        assert!(is_chatter("[2024-01-01] x") && is_chatter("saving checkpoint at 1") && !is_chatter("with TP=4"));
        assert!(is_chatter("W1125 19:44:46.787000 1122840 torch/distributed/run.py:803] ****"));
        assert!(is_chatter("-------------------- end of arguments ---------------------"));
    }
}
