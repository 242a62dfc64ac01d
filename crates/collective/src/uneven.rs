//! The counts of an `all_to_allv`: uniform, skewed, or from a file of weights.
//!
//! Whatever the pattern, the heaviest rank sends or receives S bytes. A file holds ranks x ranks weights, row = sender,
//! separated by white space or commas; they are scaled.

use std::io::Read;
use std::path::Path;

use comm::Counts;
use record::Case;
use serde_json::Value;
use sha2::{Digest, Sha256};
use terms::{Collective, FieldError, Traffic};

use super::fields::Fields;

/// Room for the weights of the most ranks there can be, written generously.
const MAX_FILE: u64 = 16 << 20;

fn problem(message: String, hint: &str) -> FieldError {
    FieldError::new("traffic_file", message).hint(hint)
}

/// Reads the file of weights, if the case names one, into its settings, and its digest into its parameters: ranks get
/// the weights, and another file is another case.
pub(super) fn resolve(case: &mut Case, fields: &Fields) -> Result<(), FieldError> {
    if fields.op != Collective::AllToAllV {
        return Ok(());
    }
    let traffic = fields.traffic;
    let path = match (traffic, &fields.traffic_file) {
        (Traffic::File, Some(path)) => path,
        (Traffic::File, None) => return Err(problem("traffic=file needs a file".to_owned(), "`traffic_file: PATH`")),
        (_, Some(_)) => return Err(problem(format!("traffic={traffic} does not read a file"), "add `traffic: file`")),
        (_, None) => return Ok(()),
    };
    let (weights, digest) = read(path, fields.ranks_of_a_call())?;
    case.parameters.insert("traffic_sha256".to_owned(), Value::from(digest));
    case.settings.insert("traffic_weights", Value::from(weights));
    Ok(())
}

/// The weights of a file and the beginning of its SHA-256.
fn read(path: &str, ranks: u32) -> Result<(Vec<u64>, String), FieldError> {
    let unreadable = |error: std::io::Error| problem(format!("{path}: {error}"), "give a readable text file");
    let file = record::file::open_named(Path::new(path)).map_err(unreadable)?;
    let mut text = String::new();
    file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE {
        return Err(problem(format!("{path} has more than {MAX_FILE} bytes"), "give a file of weights"));
    }
    let weights = parse(&text, ranks).map_err(|message| {
        problem(format!("{path}: {message}"), "give a row for each sender, with a weight for each receiver")
    })?;
    let digest = Sha256::digest(text.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    Ok((weights, digest))
}

fn parse(text: &str, ranks: u32) -> Result<Vec<u64>, String> {
    let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
    let weight = |word: &str| {
        let shown: String = word.chars().take(32).collect();
        word.parse::<u32>().map(u64::from).map_err(|_| format!("`{shown}` is not a whole number up to {}", u32::MAX))
    };
    let weights = words.map(weight).collect::<Result<Vec<u64>, String>>()?;
    let wanted = ranks as usize * ranks as usize;
    match weights.len() {
        length if length != wanted => Err(format!("{length} weights, not {ranks} x {ranks} = {wanted}")),
        _ if weights.iter().all(|weight| *weight == 0) => Err("all weights are zero".to_owned()),
        _ => Ok(weights),
    }
}

/// The counts of a case; None for other operations.
///
/// # Errors
/// When the case's settings do not hold the weights that its parameters promise.
pub(super) fn of_case(case: &Case, fields: &Fields) -> Result<Option<Counts>, String> {
    if fields.op != Collective::AllToAllV {
        return Ok(None);
    }
    let ranks = fields.ranks_of_a_call();
    let count = case.bytes_requested.unwrap_or(fields.bytes) / fields.dtype.bytes();
    let weights = match fields.traffic {
        Traffic::Uniform => vec![1; ranks as usize * ranks as usize],
        // Rank 0 is hot, and each rank further gets half as much, down to 1/1024.
        Traffic::Skewed => (0..ranks).flat_map(|_| (0..ranks).map(|to| 1024u64 >> to.min(10))).collect(),
        Traffic::File => {
            let stored = case.settings.get("traffic_weights").and_then(Value::as_array);
            let stored = stored.ok_or("the weights of the traffic file are missing")?;
            stored.iter().filter_map(Value::as_u64).collect()
        }
    };
    let weights = Counts::new(ranks, weights).ok_or("the traffic weights are not ranks x ranks")?;
    scale(&weights, count).map(Some).ok_or_else(|| format!("{count} elements for each of {ranks} ranks overflow"))
}

/// Counts in proportion to the weights, rounded down, such that the widest rank has at most `count` elements.
pub(super) fn scale(weights: &Counts, count: u64) -> Option<Counts> {
    let (ranks, widest) = (weights.ranks(), weights.widest().max(1));
    let entry = |from, to| (u128::from(weights.get(from, to)) * u128::from(count) / u128::from(widest)) as u64;
    let counts = (0..ranks).flat_map(|from| (0..ranks).map(move |to| entry(from, to))).collect();
    Counts::new(ranks, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_rank_has_what_was_asked_for() {
        let weights = Counts::new(3, vec![4, 2, 1, 4, 2, 1, 4, 2, 1]).unwrap();
        let counts = scale(&weights, 1200).unwrap();
        assert_eq!((counts.widest(), counts.received(0), counts.received(2)), (1200, 1200, 300));
    }

    #[test]
    fn only_plain_files_hold_weights() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (path, what) in [(pipe.to_str().unwrap(), "a named pipe (FIFO)"), ("/dev/zero", "a device")] {
            let problem = read(path, 2).unwrap_err();
            assert_eq!(problem.error.what, format!("{path}: it is {what}, not a plain file"));
        }
        let file = folder.path().join("weights");
        std::fs::write(&file, "1 2\n3 4").unwrap();
        assert_eq!(read(file.to_str().unwrap(), 2).unwrap().0, [1, 2, 3, 4]);
        std::fs::write(&file, vec![b' '; MAX_FILE as usize + 1]).unwrap();
        assert!(read(file.to_str().unwrap(), 2).unwrap_err().error.what.contains("has more than"));
    }

    #[test]
    fn files_of_weights_are_hostile() {
        assert_eq!(parse("1 2\n3, 4", 2), Ok(vec![1, 2, 3, 4]));
        for wrong in ["", "1 2 3", "1 2 3 x", "0 0 0 0", "1 2 3 99999999999"] {
            assert!(parse(wrong, 2).is_err(), "{wrong}");
        }
    }
}
