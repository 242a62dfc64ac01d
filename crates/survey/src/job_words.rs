//! Words that begin a job of another program: a launcher, a script of Python, any program of this host.

use std::path::{Path, PathBuf};

use process::{first_program, is_program};

/// Programs that start jobs, whether or not this machine has them. Python has many names.
const STARTERS: [&str; 9] =
    ["torchrun", "mpirun", "mpiexec", "srun", "accelerate", "deepspeed", "horovodrun", "uv", "bash"];

/// The first word that starts a program, and is not the value of an option: options without a value are flags.
pub fn place_of_program(words: &[&str], search: &[PathBuf], flags: &[&str]) -> Option<usize> {
    let mut is_value = false;
    for (at, word) in words.iter().enumerate() {
        let is_option = word.starts_with('-');
        if !is_option && !is_value && starts_program(word, search) {
            return Some(at);
        }
        is_value = is_option && !flags.contains(word) && !word.contains('=');
    }
    None
}

/// Whether a program of this name starts jobs.
pub fn starts_jobs(name: &str) -> bool {
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
        || is_program(path)
        || (!word.contains('/') && first_program(search, word).is_some())
}

/// Whether a word is a script of Python that needs its interpreter before it.
pub fn is_script(word: &str) -> bool {
    Path::new(word).extension().is_some_and(|kind| kind == "py") && !is_program(Path::new(word))
}

/// The name by which Python is on the path.
pub fn python_name(search: &[PathBuf]) -> &'static str {
    let names = ["python3", "python"];
    names.into_iter().find(|name| first_program(search, name).is_some()).unwrap_or(names[0])
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
            assert_eq!(place_of_program(words, &search, &["--json"]), place, "{words:?}");
        }
    }
}
