//! A job without `--` before it: the line that profiles it.

use std::path::Path;

use report::shell;
pub(crate) use survey::{python_name as python, starts_jobs};

use crate::not_a_record::{is_plan, plan};
use crate::{Failure, environment};

/// Options without a value; the word behind any other option is its value.
const FLAGS: [&str; 7] = ["--json", "--quiet", "-q", "--verbose", "-v", "--dry-run", "--quick"];

/// The answer to words behind `rankmark profile` that begin a command; None if none of them does.
pub(crate) fn answer(words: &[&str]) -> Option<Failure> {
    let search = environment::search_path();
    let at = if words.contains(&"--") { None } else { survey::place_of_program(words, &search, &FLAGS) }?;
    let (options, job) = words.split_at(at);
    let mut line = vec!["rankmark".to_owned(), "profile".to_owned()];
    line.extend(options.iter().map(|word| shell(word)));
    line.push("--".to_owned());
    line.extend(survey::is_script(job[0]).then(|| python(&search).to_owned()));
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
        return Some(plan(&name).hint(format!("rankmark profile --plan {}", shell(&name))).into());
    }
    if import::traces::recognise(path).is_some() {
        let failure = Failure::new(format!("{name} is a trace, not a record"));
        return Some(failure.hint(format!("rankmark profile --import {}", shell(&name))));
    }
    crate::not_a_record::refuse_file(path).err().map(Failure::from)
}
