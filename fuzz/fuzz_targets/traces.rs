//! Any bytes as traces of another tool, and what the analysis makes of them: no panic, and spans in their order. A byte 0xFF
//! ends the file of one rank and begins that of the next, so that dumps of several ranks are compared, too.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use diagnose::profile::{Settings, analyse};
use import::traces::{join_flight, read_timeline};
use libfuzzer_sys::fuzz_target;

/// Ranks that have a file at most.
const RANKS: usize = 3;

/// Readers of traces take files, because traces are too large to be held.
static FILES: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    let file = |rank| std::env::temp_dir().join(format!("rankmark-fuzz-{}_rank{rank}.trace", std::process::id()));
    (0..RANKS).map(file).collect()
});

fuzz_target!(|bytes: &[u8]| {
    let parts: Vec<&[u8]> = bytes.splitn(RANKS, |byte| *byte == 0xff).collect();
    let files = &FILES[..parts.len()];
    if files.iter().zip(parts).any(|(file, part)| std::fs::write(file, part).is_err()) {
        return;
    }
    let Ok(mut traces) = read_timeline(files) else { return };
    let Some(timeline) = &mut traces.timeline else { return };
    if let Some(flight) = &traces.flight {
        join_flight(timeline, flight);
    }
    for rank in &timeline.ranks {
        assert!(rank.spans.is_sorted_by_key(|span| span.begin_ns));
    }
    let _ = analyse(timeline, &Settings::default());
});
