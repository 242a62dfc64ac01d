//! A job without `--` before it: the line that profiles it.

use std::path::{Path, PathBuf};

use report::shell;

use crate::not_a_record::{is_plan, plan};
use crate::{Failure, environment};

/// Programs that start jobs, whether or not this machine has them. Python has many names.
const STARTERS: [&str; 9] =
    ["torchrun", "mpirun", "mpiexec", "srun", "accelerate", "deepspeed", "horovodrun", "uv", "bash"];
/// Options without a value; the word behind any other option is its value.
const FLAGS: [&str; 7] = ["--json", "--quiet", "-q", "--verbose", "-v", "--dry-run", "--quick"];

/// The answer to words behind `rankmark profile` that begin a command; None if none of them does.
pub(crate) fn answer(words: &[&str]) -> Option<Failure> {
    let search = environment::search_path();
    let at = if words.contains(&"--") { None } else { place_of_program(words, &search) }?;
    let (options, job) = words.split_at(at);
    let mut line = vec!["rankmark".to_owned(), "profile".to_owned()];
    line.extend(options.iter().map(|word| shell(word)));
    line.push("--".to_owned());
    line.extend(is_script(job[0]).then(|| python(&search).to_owned()));
    line.extend(job.iter().map(|word| shell(word)));
    let what = format!("`{}` is a command, which `rankmark profile` takes after `--`", job[0]);
    Some(Failure::new(what).hint(line.join(" ")))
}

/// The answer to a path that was given as a record and is none.
pub(super) fn instead_of_record(path: &Path) -> Option<Failure> {
    if path.is_dir() {
        return None;
    }
    let words: Vec<String> = std::env::args().skip(1).skip_while(|word| word != super::NAME).skip(1).collect();
    if let Some(failure) = answer(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        return Some(failure);
    }
    let name = path.display().to_string();
    if !path.exists() {
        let hint = "`rankmark list records` lists those in `results`";
        return Some(Failure::new(format!("there is no record in {name}")).hint(hint));
    }
    if is_plan(path) {
        return Some(plan(&name).hint(format!("rankmark profile --plan {}", shell(&name))));
    }
    if import::traces::recognise(path).is_some() {
        let failure = Failure::new(format!("{name} is a trace, not a record"));
        return Some(failure.hint(format!("rankmark profile --import {}", shell(&name))));
    }
    crate::not_a_record::refuse_file(path).err()
}

/// The first word that starts a program, and is not the value of an option.
fn place_of_program(words: &[&str], search: &[PathBuf]) -> Option<usize> {
    let mut is_value = false;
    for (at, word) in words.iter().enumerate() {
        let is_option = word.starts_with('-');
        if !is_option && !is_value && starts_program(word, search) {
            return Some(at);
        }
        is_value = is_option && !FLAGS.contains(word) && !word.contains('=');
    }
    None
}

/// Whether a program of this name starts jobs.
pub(crate) fn starts_jobs(name: &str) -> bool {
    name.starts_with("python") || STARTERS.contains(&name)
}

fn starts_program(word: &str, search: &[PathBuf]) -> bool {
    let path = Path::new(word);
    if path.is_dir() {
        return false;
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    is_script(word)
        || starts_jobs(name)
        || process::is_program(path)
        || (!word.contains('/') && process::first_program(search, word).is_some())
}

fn is_script(word: &str) -> bool {
    Path::new(word).extension().is_some_and(|kind| kind == "py") && !process::is_program(Path::new(word))
}

/// The name by which Python is on the path.
pub(crate) fn python(search: &[PathBuf]) -> &'static str {
    let names = ["python3", "python"];
    names.into_iter().find(|name| process::first_program(search, name).is_some()).unwrap_or(names[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_options_start_nothing() {
        let search = Vec::new();
        for (words, place) in [
            (&["--tool", "torchrun"][..], None),
            (&["--json", "torchrun"], Some(1)),
            (&["--duration", "10s", "train.py", "--lr", "1"], Some(2)),
            (&["results/a"], None),
        ] {
            assert_eq!(place_of_program(words, &search), place, "{words:?}");
        }
    }
}
