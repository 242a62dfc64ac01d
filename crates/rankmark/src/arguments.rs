//! Arguments as clap gets them: what users write in another place or spelling, moved to where it belongs.

use std::ffi::{OsStr, OsString};

/// Options that may stand before the command, too.
const LEADING: [&str; 5] = ["--quiet", "-q", "--verbose", "-v", "--json"];

/// The arguments with [`LEADING`] options behind the command: `rankmark --quiet comm OP` becomes `rankmark comm --quiet OP`.
/// A command that lacks the option refuses it by name.
pub(crate) fn ordered(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let leading = |argument: &&OsString| LEADING.iter().any(|option| argument.as_os_str() == OsStr::new(option));
    let count = arguments.iter().skip(1).take_while(leading).count();
    let is_command = |argument: &OsString| !argument.as_encoded_bytes().starts_with(b"-");
    if count > 0 && arguments.get(1 + count).is_some_and(is_command) {
        arguments[1..=1 + count].rotate_right(1);
    }
    arguments
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
            ("rankmark comm all_reduce --quiet", "rankmark comm all_reduce --quiet"),
            ("rankmark --quiet", "rankmark --quiet"),
            ("rankmark --quiet --help", "rankmark --quiet --help"),
            ("rankmark --version --json", "rankmark --version --json"),
        ] {
            assert_eq!(after(given), expected);
        }
    }
}
