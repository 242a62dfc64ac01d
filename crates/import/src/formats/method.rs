//! What of a command line decides how calls are timed, and results of one file by it: unlike runs are no trials of one case.

use super::nccl::plain;
use crate::Results;

/// The settings before a program and its options, without those that tell what is measured and not how. `options` are flags
/// with their values, as in `-R 1` and `--local_register=1`.
pub(super) fn of_command(before: &str, options: &str, ignored: &[&str]) -> String {
    let mut found = settings(before);
    let mut words = options.split_ascii_whitespace().take_while(|word| !ends(word)).peekable();
    while let Some(word) = words.next() {
        let Some((flag, mut value)) = flag(word) else { continue };
        if value.is_none() {
            value = words.next_if(|next| self::flag(next).is_none());
        }
        if !ignored.contains(&flag) {
            found.push(value.map_or_else(|| flag.to_owned(), |value| format!("{flag} {value}")));
        }
    }
    found.sort();
    plain(&found.join(" "))
}

/// `NCCL_ALGO=Ring` and `--mca coll ^ucc`. Which devices a run may see is no method: the record has its ranks.
fn settings(before: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut words = before.split_ascii_whitespace();
    while let Some(word) = words.next() {
        if matches!(word, "--mca" | "-mca") {
            found.extend(words.next().map(|name| format!("--mca {name} {}", words.next().unwrap_or_default())));
        }
        let Some((name, _)) = word.split_once('=') else { continue };
        let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        if name.bytes().all(is_name) && name.contains('_') && !name.ends_with("VISIBLE_DEVICES") {
            found.push(word.to_owned());
        }
    }
    found
}

/// Whether the shell's part of a command line begins.
fn ends(word: &str) -> bool {
    word.starts_with(['|', '>', '<', '&', ';', '#']) || word.starts_with("2>")
}

/// `-R`, or `--local_register=1` as flag and value.
fn flag(word: &str) -> Option<(&str, Option<&str>)> {
    let is_flag = word.trim_start_matches('-').starts_with(|first: char| first.is_ascii_alphabetic());
    if !word.starts_with('-') || !is_flag {
        return None;
    }
    Some(word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value))))
}

/// The results of one file, apart by tool and method.
#[derive(Default)]
pub(super) struct Groups {
    all: Vec<(String, Results)>,
    current: usize,
}

impl Groups {
    /// The results of this method. The first time they are made.
    pub(super) fn of(&mut self, method: &str, make: impl FnOnce() -> Results) -> &mut Results {
        self.current = self.all.iter().position(|(known, _)| known == method).unwrap_or_else(|| {
            self.all.push((method.to_owned(), make()));
            self.all.len() - 1
        });
        &mut self.all[self.current].1
    }

    /// The results that were asked for last.
    pub(super) fn current(&mut self) -> Option<&mut Results> {
        self.all.get_mut(self.current).map(|(_, results)| results)
    }

    /// As [`Groups::current`], and new ones where nobody asked for any.
    pub(super) fn current_or(&mut self, make: impl FnOnce() -> Results) -> &mut Results {
        if self.all.is_empty() {
            self.all.push((String::new(), make()));
        }
        &mut self.all[self.current].1
    }

    /// All of them, in the order of the file.
    pub(super) fn finish(self) -> Vec<Results> {
        self.all.into_iter().map(|(_, results)| results).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_change_how_calls_run_are_the_method() {
        let of = |before: &str, options: &str| of_command(before, options, &["-b", "-e", "--minbytes"]);
        assert_eq!(of("", "-b 8 -e 128M -R 1"), "-R 1");
        assert_eq!(of("", "-R 1 --minbytes=8 -b 4"), of("", "--minbytes 4 -R 1 | tee x -Q"));
        assert_eq!(of("NCCL_ALGO=Ring CUDA_VISIBLE_DEVICES=1 mpirun -np 4", "-b 8"), "NCCL_ALGO=Ring");
        assert_eq!(of("mpirun --mca coll ^ucc -x UCX_TLS=rc", ""), "--mca coll ^ucc UCX_TLS=rc");
        assert_ne!(of("", "-R 1"), of("", "-R 2"));
    }
}
