//! Words of a command line that stand without their option: the fields that take them, and the values to write.

use terms::{Bytes, Field, Kind};

use crate::{About, read_value};

/// All words as one list, where each is a value of the field.
pub fn one_list(field: &Field, words: &[&str]) -> Option<String> {
    let parts = words.iter().flat_map(|word| word.split(',')).filter(|part| !part.is_empty());
    let value = |part: &str| read_value(field, part).ok()?.as_str().map(str::to_owned);
    parts.map(value).collect::<Option<Vec<_>>>().map(|list| list.join(","))
}

/// The fields that take a word, each with the value to write. `argument` is the one that needs no option.
pub fn fields_for(about: &About, argument: Option<&Field>, word: &str) -> Vec<(&'static str, String)> {
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
