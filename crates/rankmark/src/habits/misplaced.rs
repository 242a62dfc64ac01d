//! Words behind a command that belong to an option, or to the list in front of them: `comm all_reduce 1MiB`.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use record::{About, read_value};
use terms::{Bytes, Field, Kind};

use super::{failure_with_lines, joined, positionals};
use crate::Failure;

/// The word that a command does not take, where clap found one.
pub(super) fn word_of(error: &clap::Error) -> Option<String> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) if !word.starts_with('-') => Some(word.clone()),
        _ => None,
    }
}

/// The lines with the word where it belongs.
pub(super) fn answer(
    (about, argument): (&About, Option<&Field>),
    command: &str,
    rest: &[&str],
    word: &str,
) -> Option<Failure> {
    if let Some(list) = argument.and_then(|field| whole_list(field, rest)) {
        let words = positionals(rest);
        let options: Vec<&str> = rest.iter().copied().filter(|word| !words.contains(word)).collect();
        let line = joined(&format!("rankmark {command} {list}"), &options);
        let what = format!("`rankmark {command}` takes one list, with commas and no spaces");
        return Some(failure_with_lines(what, &[line]));
    }
    let at = rest.iter().rposition(|other| *other == word)?;
    let others: Vec<&str> = rest[..at].iter().chain(&rest[at + 1..]).copied().collect();
    let line = |(option, value): (&str, String)| {
        let option = format!("--{}", option.replace('_', "-"));
        joined(&format!("rankmark {command}"), &[others.as_slice(), &[&option, &value]].concat())
    };
    let lines: Vec<String> = options_for(about, argument, word).into_iter().map(line).collect();
    let what = format!("`{word}` belongs to no option");
    (!lines.is_empty()).then(|| failure_with_lines(what, &lines))
}

/// All words as one list, where each is a value of the argument.
fn whole_list(field: &Field, rest: &[&str]) -> Option<String> {
    let words = positionals(rest);
    let parts = words.iter().flat_map(|word| word.split(',')).filter(|part| !part.is_empty());
    let value = |part: &str| read_value(field, part).ok()?.as_str().map(str::to_owned);
    parts.map(value).collect::<Option<Vec<_>>>().map(|list| list.join(","))
}

/// The options that take a word, each with the value to write.
fn options_for(about: &About, argument: Option<&Field>, word: &str) -> Vec<(&'static str, String)> {
    let has = |name: &str| about.field(name).map(|field| field.name);
    let is_count = word.split(',').all(|part| part.parse::<u32>().is_ok());
    if is_count {
        let names = ["ranks", "bytes"].into_iter().filter_map(has);
        return names.map(|name| (name, word.to_owned())).collect();
    }
    if let (Some(bytes), Some(sizes)) = (has("bytes"), sizes(word)) {
        return sizes.into_iter().map(|size| (bytes, size)).collect();
    }
    let is_own = |field: &&Field| argument.is_some_and(|argument| argument.name == field.name);
    let words = about.all_fields().filter(|field| matches!(field.kind, Kind::Word(_)) && !is_own(field));
    let takes = |field: &&Field| word.split(',').all(|part| read_value(field, part).is_ok());
    words.filter(takes).map(|field| (field.name, word.to_owned())).collect()
}

/// The sizes that a list or range means: two lists where its prefixes have two meanings.
fn sizes(text: &str) -> Option<Vec<String>> {
    let text_of = |ending: &str| -> Option<String> {
        let mut all = String::new();
        for part in text.split_inclusive([',', '*']).flat_map(|part| part.split_inclusive("..")) {
            let size = part.trim_end_matches([',', '*']);
            let size = size.strip_suffix("..").unwrap_or(size);
            let whole = match size.parse::<Bytes>() {
                Ok(_) => size.to_owned(),
                Err(error) if error.hint().is_some() => format!("{size}{ending}"),
                Err(_) => return None,
            };
            all.push_str(&whole);
            all.push_str(&part[size.len()..]);
        }
        Some(all)
    };
    let (binary, decimal) = (text_of("iB")?, text_of("B")?);
    if binary.is_empty() {
        return None;
    }
    Some(if binary == decimal { vec![binary] } else { vec![binary, decimal] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_their_lists_and_ranges() {
        assert_eq!(sizes("1MiB"), Some(vec!["1MiB".to_owned()]));
        assert_eq!(sizes("8..1K*4,2M"), Some(vec!["8..1KiB*4,2MiB".to_owned(), "8..1KB*4,2MB".to_owned()]));
        assert_eq!((sizes("mpi"), sizes("1x"), sizes("")), (None, None, None));
    }
}
