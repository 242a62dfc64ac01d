//! Any bytes as a file of another tool: the first byte chooses the format; no panic, and every time is one.

#![no_main]

use import::{Content, FORMATS, Source};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let Ok(source) = Source::new("file", rest.to_vec()) else { return };
    let source = source.with_given("ranks", "4").with_given("op", "all_reduce").with_given("primitive", "tp_rowwise");
    let _ = import::recognise(&source);
    let format = FORMATS[usize::from(*first) % FORMATS.len()];
    if let Ok(Content::Results(results)) = format.read(&source) {
        for (_, figures) in results.iter().flat_map(|results| results.shapes()) {
            assert!(figures.iter().all(|figures| figures.time_s.is_finite() && figures.time_s > 0.0));
        }
    }
});
