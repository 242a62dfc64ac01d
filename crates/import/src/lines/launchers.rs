//! What launchers and TorchScale call the options of our commands: `-np 4` are `--ranks 4`, and `benchmark -o DIR` is
//! `--output-dir DIR`.

use std::ffi::OsString;

use terms::Error;

/// Whether a command measures, and takes a size that is called `n`; None of one that measures nothing.
pub type Measures<'m> = &'m dyn Fn(&str) -> Option<bool>;

/// `benchmark -o DIR`, as TorchScale has it; elsewhere `-o` is another option.
pub(super) fn of_torchscale(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|command| command == "benchmark") {
        arguments.iter_mut().filter(|word| *word == "-o").for_each(|word| *word = "--output-dir".into());
    }
    arguments
}

/// The arguments of a measuring command with `--ranks 4` for `-n 4` and `-np 4`, by which launchers say it.
///
/// # Errors
/// When `--ranks` is given, too: nobody knows which of the two is meant.
pub(super) fn rewritten(mut arguments: Vec<OsString>, measures: Measures<'_>) -> Result<Vec<OsString>, Error> {
    let text = |argument: &OsString| argument.to_str().map(str::to_owned).unwrap_or_default();
    let Some(takes_n) = arguments.get(1).and_then(|command| measures(&text(command))) else { return Ok(arguments) };
    let is_number = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == ',');
    let also = arguments.iter().map(text).find(|word| word == "--ranks" || word.starts_with("--ranks="));
    for at in 2..arguments.len() {
        let word = text(&arguments[at]);
        let number = arguments.get(at + 1).map(text).filter(|number| is_number(number));
        // Where `n` is a size, `-n` means the size.
        let is_size = word == "-n" && takes_n;
        if is_size || !["-n", "-np", "--np"].contains(&word.as_str()) || number.is_none() {
            continue;
        }
        if also.is_some() {
            let what = format!("`{word}` and `--ranks` are both given, and mean the same");
            return Err(Error::new(what).hint("leave one of them out"));
        }
        arguments[at] = "--ranks".into();
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn launchers_say_ranks_in_their_way() {
        let after = |line: &str| {
            let measures = |command: &str| match command {
                "comm" | "train" => Some(false),
                "primitive" => Some(true),
                _ => None,
            };
            let arguments = rewritten(line.split(' ').map(OsString::from).collect(), &measures);
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
}
