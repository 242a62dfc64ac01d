//! A file of counts: how many tokens each expert gets, over all ranks. JSON (`[12, 4]`), or whole numbers separated by white
//! space or commas. The file is hostile until it was read.

use std::io::Read;
use std::path::Path;

use contract::fields::problem;
use record::Case;
use serde_json::Value;
use sha2::{Digest, Sha256};
use terms::FieldError;

/// Room for the counts of the most experts there can be, written generously.
const MAX_FILE: u64 = 1 << 20;
/// Where a case keeps what was read: ranks need no file.
const SETTING: &str = "tokens_counts";

fn refused(message: String, hint: &str) -> FieldError {
    problem("tokens_file", message, hint)
}

/// Reads the file that a case names into its settings, and its digest into its parameters: another file is another case.
///
/// # Errors
/// What is wrong with the file.
pub(crate) fn resolve(case: &mut Case, path: Option<&str>, is_wanted: bool) -> Result<(), FieldError> {
    let path = match (path, is_wanted) {
        (Some(path), true) => path,
        (None, true) => return Err(refused("tokens=file needs a file".to_owned(), "`tokens_file: PATH`")),
        (Some(_), false) => return Err(refused("these `tokens` do not read a file".to_owned(), "add `tokens: file`")),
        (None, false) => return Ok(()),
    };
    // The ways of one case share what was read.
    if case.settings.get(SETTING).is_none() {
        let (counts, digest) = read(path)?;
        case.parameters.insert("tokens_sha256".to_owned(), Value::from(digest));
        case.settings.insert(SETTING, Value::from(counts));
    }
    Ok(())
}

/// The counts that were read; None where the case has none.
pub(crate) fn counts(case: &Case) -> Option<Vec<usize>> {
    let kept = case.settings.get(SETTING)?.as_array()?;
    kept.iter().map(|count| count.as_u64().and_then(|count| usize::try_from(count).ok())).collect()
}

/// The counts of a file, and the beginning of its SHA-256.
fn read(path: &str) -> Result<(Vec<u64>, String), FieldError> {
    let unreadable = |error: std::io::Error| refused(format!("{path}: {error}"), "give a readable text file");
    let file = record::file::open_named(Path::new(path)).map_err(unreadable)?;
    let mut text = String::new();
    file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE {
        return Err(refused(format!("{path} has more than {MAX_FILE} bytes"), "give a file of counts"));
    }
    let counts =
        parse(&text).map_err(|message| refused(format!("{path}: {message}"), "a whole number for each expert"))?;
    let digest = Sha256::digest(text.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    Ok((counts, digest))
}

fn parse(text: &str) -> Result<Vec<u64>, String> {
    let shown = |text: &str| text.chars().take(32).collect::<String>().escape_debug().to_string();
    let counts = if text.trim_start().starts_with(['[', '{']) {
        record::from_json(text).map_err(|error| format!("it is not a JSON list of whole numbers: {error}"))?
    } else {
        let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
        let count = |word: &str| {
            word.parse::<u64>().map_err(|_| format!("`{}` is not a whole number up to {}", shown(word), u64::MAX))
        };
        words.map(count).collect::<Result<Vec<u64>, String>>()?
    };
    if counts.is_empty() { Err("it has no counts".to_owned()) } else { Ok(counts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_counts_are_hostile() {
        for right in ["12 4\n8", "12, 4, 8", "[12, 4, 8]", " [12,4,8]\n"] {
            assert_eq!(parse(right), Ok(vec![12, 4, 8]), "{right}");
        }
        let deep = "[".repeat(100_000);
        for wrong in
            ["", " \n", "[]", "1 2 x", "1 -2", "1.5", "[1, \"2\"]", "[1.5]", "{\"a\": 1}", "[[1]]", "1e3", &deep]
        {
            let why = parse(wrong).unwrap_err();
            assert!(why.len() < 200, "{why}");
        }
        assert!(parse("99999999999999999999999").is_err() && parse("[99999999999999999999999]").is_err());
    }

    #[test]
    fn only_plain_files_of_some_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("counts");
        let why = |path: &Path| read(path.to_str().unwrap()).unwrap_err().error.what;
        assert!(why(&file).contains("No such file"), "{}", why(&file));
        assert!(why(Path::new("/dev/zero")).contains("it is a device, not a plain file"));
        std::fs::write(&file, vec![b' '; MAX_FILE as usize + 1]).unwrap();
        assert!(why(&file).contains("has more than"));
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        assert!(why(&file).contains("valid UTF-8"), "{}", why(&file));
        std::fs::write(&file, "[3, 5]").unwrap();
        assert_eq!(read(file.to_str().unwrap()).unwrap().0, [3, 5]);
    }
}
