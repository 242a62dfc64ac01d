//! Arguments as clap gets them: what users write in another place or spelling, moved to where it belongs.

use std::ffi::{OsStr, OsString};

use import::lines::{DDLB_CONFIG, READ_AS, STUDY_CSV};
use measure::machine;

use crate::Failure;
use crate::external::measures;
use crate::options::fields;

/// Options that only this program writes: no hint names them.
pub(crate) const INTERNAL: [&str; 3] = [READ_AS, STUDY_CSV, DDLB_CONFIG];

/// Options that may stand before the command, too.
const LEADING: [&str; 5] = ["--quiet", "-q", "--verbose", "-v", "--json"];

/// The arguments with [`LEADING`] options behind the command: `rankmark --quiet comm OP` becomes `rankmark comm --quiet OP`.
/// `report generate` is one command. A command that lacks the option refuses it by name.
pub(crate) fn ordered(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let leading = |argument: &&OsString| LEADING.iter().any(|option| argument.as_os_str() == OsStr::new(option));
    let count = arguments.iter().skip(1).take_while(leading).count();
    let is_command = |argument: &OsString| !argument.as_encoded_bytes().starts_with(b"-");
    let words = |wanted: &[&str]| arguments.iter().skip(1 + count).zip(wanted).all(|(word, wanted)| word == wanted);
    let length = if words(&["report", "generate"]) && arguments.len() > 2 + count { 2 } else { 1 };
    if count > 0 && arguments.get(1 + count).is_some_and(is_command) {
        arguments[1..=count + length].rotate_right(length);
    }
    arguments
}

/// The arguments with what other programs call our options: nccl-tests, the OSU benchmarks, launchers.
///
/// # Errors
/// When something is said twice, or cannot be said with our options.
pub(crate) fn of_others(arguments: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    of_launchers(import::lines::rewritten(of_torchscale(arguments), machine::gpus)?)
}

/// `benchmark -o DIR`, as TorchScale has it; elsewhere `-o` is another option.
fn of_torchscale(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|command| command == "benchmark") {
        arguments.iter_mut().filter(|word| *word == "-o").for_each(|word| *word = "--output-dir".into());
    }
    arguments
}

/// The arguments of a measuring command with `--ranks 4` for `-n 4` and `-np 4`, by which launchers say it.
///
/// # Errors
/// When `--ranks` is given, too: nobody knows which of the two is meant.
fn of_launchers(mut arguments: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let text = |argument: &OsString| argument.to_str().map(str::to_owned).unwrap_or_default();
    if !arguments.get(1).is_some_and(|command| measures(&text(command))) {
        return Ok(arguments);
    }
    let is_number = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == ',');
    let also = arguments.iter().map(text).find(|word| word == "--ranks" || word.starts_with("--ranks="));
    for at in 2..arguments.len() {
        let word = text(&arguments[at]);
        let number = arguments.get(at + 1).map(text).filter(|number| is_number(number));
        if !["-n", "-np", "--np"].contains(&word.as_str()) || number.is_none() {
            continue;
        }
        // Where `n` is a size, it means the size.
        if word == "-n" && fields::measured(&text(&arguments[1])).is_some_and(|(about, _)| about.field("n").is_some()) {
            continue;
        }
        if also.is_some() {
            let what = format!("`{word}` and `--ranks` are both given, and mean the same");
            return Err(Failure::new(what).hint("leave one of them out"));
        }
        arguments[at] = "--ranks".into();
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str) -> String {
        let arguments = ordered(line.split(' ').map(OsString::from).collect());
        arguments.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn launchers_say_ranks_in_their_way() {
        let after = |line: &str| {
            let arguments = of_launchers(line.split(' ').map(OsString::from).collect());
            arguments
                .map(|arguments| arguments.join(OsStr::new(" ")).into_string().unwrap())
                .map_err(|error| error.to_string())
        };
        let same = |line: &str| assert_eq!(after(line).unwrap(), line);
        assert_eq!(after("rankmark comm all_reduce -np 4").unwrap(), "rankmark comm all_reduce --ranks 4");
        assert_eq!(after("rankmark train -n 2,4 --quiet").unwrap(), "rankmark train --ranks 2,4 --quiet");
        same("rankmark gen-job plan.yaml -n 4");
        same("rankmark primitive tp_rowwise -n 64");
        assert_eq!(after("rankmark primitive tp_rowwise -np 4").unwrap(), "rankmark primitive tp_rowwise --ranks 4");
        same("rankmark comm all_reduce -n");
        same("rankmark comm all_reduce -n all_gather");
        assert!(after("rankmark comm all_reduce -n 4 --ranks 2").unwrap_err().contains("both given"));
        assert!(after("rankmark comm all_reduce --ranks=2 -np 4").unwrap_err().contains("both given"));
    }

    #[test]
    fn options_before_the_command_go_behind_it() {
        for (given, expected) in [
            ("rankmark --quiet comm all_reduce", "rankmark comm --quiet all_reduce"),
            ("rankmark -q --json comm all_reduce -v", "rankmark comm -q --json all_reduce -v"),
            ("rankmark --json list models", "rankmark list --json models"),
            ("rankmark -v report generate -f html", "rankmark report generate -v -f html"),
            ("rankmark -v report -f html", "rankmark report -v -f html"),
            ("rankmark -v report", "rankmark report -v"),
            ("rankmark comm all_reduce --quiet", "rankmark comm all_reduce --quiet"),
            ("rankmark --quiet", "rankmark --quiet"),
            ("rankmark --quiet --help", "rankmark --quiet --help"),
            ("rankmark --version --json", "rankmark --version --json"),
        ] {
            assert_eq!(after(given), expected);
        }
    }
}
