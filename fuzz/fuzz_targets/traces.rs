//! Any bytes as a trace of another tool, and what the analysis makes of it: no panic, and spans in their order.

#![no_main]

use std::sync::LazyLock;

use diagnose::profile::{Settings, analyse};
use import::traces::{join_flight, read_timeline};
use libfuzzer_sys::fuzz_target;

/// Readers of traces take files, because traces are too large to be held.
static FILE: LazyLock<std::path::PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("rankmark-fuzz-{}.trace", std::process::id())));

fuzz_target!(|bytes: &[u8]| {
    if std::fs::write(&*FILE, bytes).is_err() {
        return;
    }
    let Ok(mut traces) = read_timeline(std::slice::from_ref(&*FILE)) else { return };
    let Some(timeline) = &mut traces.timeline else { return };
    if let Some(flight) = &traces.flight {
        join_flight(timeline, flight);
    }
    for rank in &timeline.ranks {
        assert!(rank.spans.is_sorted_by_key(|span| span.begin_ns));
    }
    let _ = analyse(timeline, &Settings::default());
});
