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
    let takes_n = |command: &str| fields::measured(command).is_some_and(|(about, _)| about.field("n").is_some());
    let measures = |command: &str| measures(command).then(|| takes_n(command));
    Ok(import::lines::rewritten(arguments, machine::gpus, &measures)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str) -> String {
        let arguments = ordered(line.split(' ').map(OsString::from).collect());
        arguments.join(OsStr::new(" ")).into_string().unwrap()
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
