//! Damaged samples: Windows line ends change nothing, and no cut or mutation panics.

use std::path::PathBuf;

use import::{Content, Source};
use proptest::prelude::*;

use crate::samples;

/// Every sample of every format.
fn all() -> Vec<(&'static str, PathBuf)> {
    let samples_of = |format: &'static str| {
        let files = std::fs::read_dir(samples(format)).into_iter().flatten();
        files.map(move |file| (format, file.unwrap().path()))
    };
    let mut all: Vec<_> = import::FORMATS.iter().flat_map(|format| samples_of(format.name())).collect();
    all.sort();
    all
}

fn read(format: &str, bytes: Vec<u8>) -> Option<Result<Content, terms::Error>> {
    let source = Source::new("x", bytes).ok()?;
    let _ = import::recognise(&source);
    let format = import::format(format).unwrap();
    let read = format.read(&source);
    // Only some files do not tell the number of ranks.
    Some(read.or_else(|_| format.read(&source.with_given("ranks", "4"))))
}

#[test]
fn windows_line_ends_change_nothing() {
    for (format, path) in all() {
        let text = std::fs::read_to_string(&path).unwrap();
        let unix = read(format, text.clone().into_bytes()).unwrap();
        let windows = read(format, text.replace('\n', "\r\n").into_bytes()).unwrap();
        assert_eq!(unix, windows, "{}", path.display());
    }
}

#[test]
fn a_file_may_end_anywhere() {
    for (format, path) in all() {
        let bytes = std::fs::read(&path).unwrap();
        for end in (0..bytes.len()).step_by(7) {
            let _ = read(format, bytes[..end].to_vec());
        }
    }
}

/// What the fuzz target `import` found once. The first byte, which chooses its format, is left out: each format reads them.
#[test]
fn what_fuzzing_found_has_no_time_that_is_none() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions/import");
    let mut read_by = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        for format in import::FORMATS {
            let Some(Ok(Content::Results(results))) = read(format.name(), bytes[1..].to_vec()) else { continue };
            let figures = results.iter().flat_map(import::Results::shapes).flat_map(|(_, figures)| figures);
            assert!(figures.into_iter().all(|one| one.time_s.is_finite() && one.time_s > 0.0), "{}", format.name());
            read_by += 1;
        }
    }
    assert!(read_by > 0);
}

/// Words that numbers, names and delimiters are replaced by.
const WORDS: &[&str] = &[
    "",
    "-1",
    "0",
    "NaN",
    "inf",
    "1e999",
    "-0.0",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "1e19",
    "=1+1",
    "<b>",
    "\"",
    "{",
    "]",
    ",",
    "#",
    "N/A",
    "\t",
    "null",
    "[1,0]<stdout>:",
    "\u{1b}[31m",
    "ß",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn no_mutation_panics(at in any::<prop::sample::Index>(), cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..8, 0usize..24), 1..6)) {
        let all = all();
        let (format, path) = &all[at.index(all.len())];
        let mut bytes = std::fs::read(path).unwrap();
        for (place, length, word) in cuts {
            let from = place.index(bytes.len() + 1);
            let to = (from + length).min(bytes.len());
            bytes.splice(from..to, WORDS[word].bytes());
        }
        let _ = read(format, bytes);
    }
}
